// SPDX-License-Identifier: MIT
//
// The Boost side of the benchmark (Boost.Context for the raw switch, Boost.Fiber for the
// rest): `boost_bench ROW [key=value]...` runs one sample of one row, warm-up included,
// and prints `key value` lines. What each row does, on every side, is in bench/README.md.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <malloc.h>

#include <boost/context/detail/fcontext.hpp>
#include <boost/context/fiber.hpp>
#include <boost/fiber/all.hpp>

namespace fibers = boost::fibers;
using clock_type = std::chrono::steady_clock;

namespace {

constexpr std::size_t batch = 1000;

struct {
    long workers = 1;
    long ms = 80;
} params;

double ns_since(clock_type::time_point start)
{
    return std::chrono::duration<double, std::nano>(clock_type::now() - start).count();
}

void report(const char *key, double value) { std::printf("%s %.3f\n", key, value); }

// Find a repetition count that lasts params.ms and return ns per operation, where f(n)
// performs n * ops operations. The search is the warm-up.
template <class F> double measure(double ops, F f)
{
    const double target = params.ms * 1e6;
    std::size_t n = 1;
    for (;; n *= 2) {
        const auto start = clock_type::now();
        f(n);
        const double took = ns_since(start);
        if (took >= target / 8) {
            n = static_cast<std::size_t>(n * target / took) + 1;
            break;
        }
    }
    const auto start = clock_type::now();
    f(n);
    return ns_since(start) / n / ops;
}

// ---- raw switch: one resume is one switch ----

double switch_fiber()
{
    namespace ctx = boost::context;
    ctx::fiber other([](ctx::fiber &&caller) {
        for (;;) caller = std::move(caller).resume();
        return std::move(caller);
    });
    return measure(2, [&](std::size_t n) {
        for (std::size_t i = 0; i < n; i++) other = std::move(other).resume();
    });
}

void bounce(boost::context::detail::transfer_t t)
{
    for (;;) t = boost::context::detail::jump_fcontext(t.fctx, nullptr);
}

double switch_fcontext()
{
    namespace ctx = boost::context::detail;
    static char stack[65536] __attribute__((aligned(64)));
    ctx::fcontext_t other = ctx::make_fcontext(stack + sizeof stack, sizeof stack, bounce);
    return measure(2, [&](std::size_t n) {
        for (std::size_t i = 0; i < n; i++) other = ctx::jump_fcontext(other, nullptr).fctx;
    });
}

void row_switch()
{
    const double fiber = switch_fiber(), fcontext = switch_fcontext();
    report("ns", std::min(fiber, fcontext));
    report("ns_fiber", fiber);
    report("ns_fcontext", fcontext);
}

// ---- fibers ----

// Boost's pool of stacks is the fastest there is, but belongs to one thread; with two,
// stacks come from malloc, told to keep them (main()).
using stack_pool = fibers::pooled_fixedsize_stack;
using stack_heap = fibers::fixedsize_stack;
constexpr std::size_t stack_bytes = 65536;

template <class Stack, class F> fibers::fiber spawn(Stack &stack, F f)
{
    return fibers::fiber(fibers::launch::post, std::allocator_arg, stack, f);
}

// Run row() here, with a second thread that steals if there are two workers.
template <class F> void with_workers(F row)
{
    if (params.workers == 1) {
        row();
        return;
    }
    fibers::mutex mutex;
    fibers::condition_variable ended;
    bool end = false;
    std::thread helper([&] {
        fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(2, true);
        std::unique_lock<fibers::mutex> lock(mutex);
        ended.wait(lock, [&] { return end; });
    });
    fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(2, true);
    row();
    {
        std::unique_lock<fibers::mutex> lock(mutex);
        end = true;
    }
    ended.notify_all();
    helper.join();
}

void row_yield()
{
    stack_pool pool(stack_bytes);
    report("ns", measure(2, [&](std::size_t n) {
               const auto spin = [n] {
                   for (std::size_t i = 0; i < n; i++) boost::this_fiber::yield();
               };
               fibers::fiber a = spawn(pool, spin), b = spawn(pool, spin);
               a.join();
               b.join();
           }));
}

template <class Stack> void spawn_one(std::size_t n)
{
    Stack stack(stack_bytes);
    for (std::size_t i = 0; i < n; i++) spawn(stack, [] {}).join();
}

template <class Stack> void spawn_batch(std::size_t n)
{
    Stack stack(stack_bytes);
    std::vector<fibers::fiber> handles(batch);
    for (std::size_t i = 0; i < n; i++) {
        for (auto &handle : handles) handle = spawn(stack, [] {});
        for (auto &handle : handles) handle.join();
    }
}

void row_spawn_one()
{
    const auto work = params.workers == 1 ? spawn_one<stack_pool> : spawn_one<stack_heap>;
    with_workers([=] { report("ns", measure(1, work)); });
}

void row_spawn_batch()
{
    const auto work = params.workers == 1 ? spawn_batch<stack_pool> : spawn_batch<stack_heap>;
    with_workers([=] { report("ns", measure(batch, work)); });
}

void ping_pong(std::size_t n)
{
    stack_pool pool(stack_bytes);
    fibers::unbuffered_channel<int> ping, pong;
    fibers::fiber a = spawn(pool, [&] {
        for (std::size_t i = 0; i < n; i++) {
            ping.push(1);
            pong.value_pop();
        }
    });
    fibers::fiber b = spawn(pool, [&] {
        for (std::size_t i = 0; i < n; i++) {
            ping.value_pop();
            pong.push(1);
        }
    });
    a.join();
    b.join();
}

[[noreturn]] void usage()
{
    std::fprintf(stderr, "usage: boost_bench ROW [workers=1|2] [ms=N]\n");
    std::exit(2);
}

} // namespace

int main(int argc, char **argv)
{
    if (argc < 2) usage();
    for (int i = 2; i < argc; i++) {
        if (std::sscanf(argv[i], "workers=%ld", &params.workers) == 1 && params.workers >= 1 &&
            params.workers <= 2)
            continue;
        if (std::sscanf(argv[i], "ms=%ld", &params.ms) == 1) continue;
        usage();
    }
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    const char *row = argv[1];
    if (!std::strcmp(row, "switch")) row_switch();
    else if (!std::strcmp(row, "yield")) row_yield();
    else if (!std::strcmp(row, "spawn_one")) row_spawn_one();
    else if (!std::strcmp(row, "spawn_batch")) row_spawn_batch();
    else if (!std::strcmp(row, "pingpong")) report("ns", measure(1, ping_pong));
    else usage();
}
