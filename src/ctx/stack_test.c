/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/prng.h"
#include "ctx/context.h"
#include "ctx/stack.h"
#include "os/memory.h"

TEST_MAIN

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static struct hdi_stack_pool pool;
static struct hdi_stack_cache cache;

static void setup(enum hd_guard guard)
{
    const int err = hdi_stack_pool_init(&pool, guard);
    if (err == -ENOTSUP) test_skip("this kernel or emulator has no such guard");
    EXPECT_EQ(err, 0);
    hdi_stack_cache_init(&cache, &pool);
}

static void teardown(void)
{
    hdi_stack_cache_fini(&cache);
    hdi_stack_pool_fini(&pool);
    EXPECT_EQ(pool.carved_count, 0);
    EXPECT_EQ(pool.mapped_bytes, 0);
}

static struct hdi_stack *take(size_t bytes)
{
    struct hdi_stack *stack = hdi_stack_take(&cache, bytes);
    EXPECT(stack != NULL);
    return stack;
}

/* Field `n` of /proc/self/statm in bytes: 0 is address space, 1 resident. */
static size_t memory_now(int n)
{
    unsigned long pages[2] = {0};
    FILE *file = fopen("/proc/self/statm", "r");
    EXPECT(file && fscanf(file, "%lu %lu", &pages[0], &pages[1]) == 2);
    fclose(file);
    return pages[n] * hdi_memory_page_bytes();
}

static int count_mappings(void)
{
    int lines = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    EXPECT(file != NULL);
    for (int c; (c = fgetc(file)) != EOF;) lines += c == '\n';
    fclose(file);
    return lines;
}

/* ---- geometry ---- */

static void check_geometry(const struct hdi_stack *stack, size_t asked)
{
    const size_t page = hdi_memory_page_bytes();
    EXPECT(stack->bytes >= asked);
    EXPECT_EQ((uintptr_t)stack->low % page, 0);
    EXPECT_EQ(stack->bytes % page, 0);
    EXPECT_EQ((uintptr_t)stack->top % 64, 0);
    const char *end = stack->low + stack->bytes;
    EXPECT(stack->top <= end && end - stack->top <= HDI_STACK_COLOUR_MAX);
    EXPECT(stack->guard != HD_GUARD_AUTO);
    EXPECT(hdi_stack_guards(stack, stack->low - 1));
    EXPECT(hdi_stack_guards(stack, stack->low - HDI_STACK_GUARD_BYTES));
    EXPECT(!hdi_stack_guards(stack, stack->low));
}

TEST(every_size_gets_the_smallest_class_that_holds_it)
{
    setup(HD_GUARD_AUTO);
    EXPECT_EQ(hdi_stack_class(1), 0);
    EXPECT_EQ(hdi_stack_class(16 * KIB), 0);
    EXPECT_EQ(hdi_stack_class(16 * KIB + 1), 1);
    EXPECT_EQ(hdi_stack_class(64 * KIB), 2);
    EXPECT_EQ(hdi_stack_class(MIB), HDI_STACK_CLASSES - 1);
    EXPECT_EQ(hdi_stack_class(MIB + 1), HDI_STACK_LARGE);
    for (size_t bytes = 1; bytes <= 4 * MIB; bytes = bytes * 3 / 2 + 1) {
        struct hdi_stack *stack = take(bytes);
        check_geometry(stack, bytes);
        EXPECT(bytes < 16 * KIB || bytes > MIB || stack->bytes < 2 * bytes);
        stack->low[0] = stack->top[-1] = 1;
        hdi_stack_give(&cache, stack);
    }
    teardown();
}

TEST(large_stacks_go_back_to_the_kernel_at_once)
{
    setup(HD_GUARD_AUTO);
    struct hdi_stack *huge = take(HDI_STACK_BYTES_MAX);
    check_geometry(huge, HDI_STACK_BYTES_MAX);
    EXPECT(pool.mapped_bytes > HDI_STACK_BYTES_MAX);
    hdi_stack_give(&cache, huge);
    EXPECT_EQ(pool.mapped_bytes, 0);
    EXPECT(hdi_stack_take(&cache, (size_t)HDI_STACK_BYTES_MAX + 1) == NULL);
    (void)take(2 * MIB); /* not given back: fini frees it */
    teardown();
}

TEST(a_cache_keeps_one_large_stack_until_it_is_trimmed)
{
    setup(HD_GUARD_AUTO);
    struct hdi_stack *first = take(2 * MIB), *second = take(2 * MIB);
    const size_t both = pool.mapped_bytes;
    hdi_stack_give(&cache, first);
    hdi_stack_give(&cache, second);
    EXPECT_EQ(pool.mapped_bytes, both / 2);
    struct hdi_stack *other = take(3 * MIB);
    EXPECT(other != second);
    EXPECT(take(2 * MIB) == second);
    check_geometry(second, 2 * MIB);
    hdi_stack_give(&cache, other);
    hdi_stack_give(&cache, second);
    EXPECT_EQ(pool.mapped_bytes, both / 2);
    (void)hdi_stack_cache_trim(&cache);
    EXPECT_EQ(pool.mapped_bytes, 0);
    teardown();
}

TEST(a_small_frame_costs_one_page)
{
    setup(HD_GUARD_AUTO);
    enum { COUNT = 1000 };
    static struct hdi_stack *stacks[COUNT];
    for (int i = 0; i < COUNT; i++) stacks[i] = take(64 * KIB);
    const size_t before = memory_now(1);
    for (int i = 0; i < COUNT; i++) memset(stacks[i]->top - 2048, 1, 2048);
    const size_t grown = memory_now(1) - before;
    if (!HDI_ASAN && !HDI_TSAN) { /* which have their own memory for ours */
        EXPECT(grown < (COUNT + 100) * hdi_memory_page_bytes());
    }
    teardown();
}

/* ---- who has what: random takes and gives over two caches and the shared calls ---- */

static void *const free_mark = &pool;

struct hand {
    struct hdi_stack *stacks[400];
    size_t count;
};

static void take_one(struct hand *hand, struct hdi_stack_cache *caches, uint32_t who, size_t bytes)
{
    struct hdi_stack *stack = who < 2 ? hdi_stack_take(&caches[who], bytes)
                                      : hdi_stack_take_shared(&pool, bytes);
    EXPECT(stack != NULL);
    check_geometry(stack, bytes);
    for (size_t i = 0; i < hand->count; i++) EXPECT(hand->stacks[i] != stack);
    stack->owner = free_mark;
    *(struct hdi_stack **)(void *)stack->low = stack;
    hand->stacks[hand->count++] = stack;
}

static void give_one(struct hand *hand, struct hdi_stack_cache *caches, uint32_t who,
                     uint32_t which)
{
    struct hdi_stack *stack = hand->stacks[which];
    EXPECT(stack->owner == free_mark && *(struct hdi_stack **)(void *)stack->low == stack);
    hand->stacks[which] = hand->stacks[--hand->count];
    if (who < 2) {
        hdi_stack_give(&caches[who], stack);
    } else {
        hdi_stack_give_shared(&pool, stack);
    }
}

TEST(no_stack_is_ever_handed_out_twice)
{
    static const size_t sizes[] = {16 * KIB, 64 * KIB, 64 * KIB, 64 * KIB, 100 * KIB, 3 * MIB};
    setup(HD_GUARD_AUTO);
    struct hdi_stack_cache caches[2];
    for (int i = 0; i < 2; i++) hdi_stack_cache_init(&caches[i], &pool);
    static struct hand hand;
    struct hdi_prng prng;
    hdi_prng_init(&prng, 7);
    for (int i = 0; i < 30000; i++) {
        const uint32_t who = hdi_prng_below(&prng, 3);
        const bool grow = hdi_prng_below(&prng, 400) >= hand.count; /* drifts around 200 */
        if (grow) {
            take_one(&hand, caches, who, sizes[hdi_prng_below(&prng, 6)]);
        } else {
            give_one(&hand, caches, who, hdi_prng_below(&prng, (uint32_t)hand.count));
        }
        if (hdi_prng_below(&prng, 500) == 0) (void)hdi_stack_cache_trim(&caches[who % 2]);
    }
    EXPECT(pool.carved_count < 1500); /* recycled, not carved anew */
    for (int i = 0; i < 2; i++) hdi_stack_cache_fini(&caches[i]);
    teardown();
}

TEST(a_cache_is_bounded_and_passes_batches_to_the_pool)
{
    setup(HD_GUARD_AUTO);
    enum { COUNT = 200 };
    struct hdi_stack *stacks[COUNT];
    for (int i = 0; i < COUNT; i++) stacks[i] = take(64 * KIB);
    for (int i = 0; i < COUNT; i++) hdi_stack_give(&cache, stacks[i]);
    EXPECT(pool.classes[2].warm_count >= COUNT - 2 * HDI_STACK_BATCH);
    const size_t carved = pool.carved_count;
    for (int i = 0; i < COUNT; i++) stacks[i] = take(64 * KIB);
    EXPECT_EQ(pool.carved_count, carved);
    teardown();
}

/* ---- guards ---- */

static struct hdi_stack *victim, *neighbour;

enum { NEIGHBOUR_INTACT = 42, NEIGHBOUR_HURT = 43 };

static bool neighbour_intact(void)
{
    for (size_t i = 0; i < neighbour->bytes; i++) {
        if (neighbour->low[i] != 0x5a) return false;
    }
    return true;
}

static void judge(int number)
{
    (void)number;
    _exit(neighbour_intact() ? NEIGHBOUR_INTACT : NEIGHBOUR_HURT);
}

/* Take two stacks that lie next to each other; an overflow of `victim` would hit
 * `neighbour`. Faults end the process with what became of the neighbour. */
static void take_neighbours(void)
{
    struct hdi_stack *a = take(64 * KIB), *b = take(64 * KIB);
    victim = a->low > b->low ? a : b;
    neighbour = a->low > b->low ? b : a;
    const size_t stride = 64 * KIB + HDI_STACK_GUARD_BYTES + hdi_memory_page_bytes();
    EXPECT_EQ(victim->low - neighbour->low, stride);
    memset(neighbour->low, 0x5a, neighbour->bytes);
    static char signal_stack[64 << 10];
    const stack_t alternate = {.ss_sp = signal_stack, .ss_size = sizeof(signal_stack)};
    EXPECT_EQ(sigaltstack(&alternate, NULL), 0);
    struct sigaction action = {.sa_handler = judge, .sa_flags = SA_ONSTACK};
    EXPECT_EQ(sigaction(SIGSEGV, &action, NULL), 0);
}

/* Run `body` in a child and return how it exited. */
static int exit_of_child(void (*body)(void))
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        body();
        _exit(0);
    }
    int status = 0;
    EXPECT(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void write_below(void)
{
    *(volatile char *)(victim->low - 1) = 1;
}

static void write_at_guard_end(void)
{
    *(volatile char *)(victim->low - HDI_STACK_GUARD_BYTES) = 1;
}

static struct hdi_context main_context, fiber_context;

/* Something must be done with the frame, or it becomes a loop. */
static __attribute__((noinline)) int recurse(int depth)
{
    volatile char frame[600];
    frame[0] = frame[599] = (char)depth;
    return depth == 1 << 20 ? 0 : recurse(depth + 1) + frame[0];
}

static void recursing_fiber(void *arg)
{
    (void)arg;
    hdi_context_entered(&fiber_context);
    (void)recurse(0);
}

static void run_recursing_fiber(void)
{
    hdi_context_init_thread(&main_context);
    hdi_context_prepare(&fiber_context, victim, recursing_fiber, NULL);
    hdi_context_switch(&main_context, &fiber_context);
}

static void check_faults(enum hd_guard guard)
{
    setup(guard);
    take_neighbours();
    EXPECT_EQ(victim->guard, guard);
    victim->low[0] = 1;
    EXPECT_EQ(exit_of_child(write_below), NEIGHBOUR_INTACT);
    EXPECT_EQ(exit_of_child(write_at_guard_end), NEIGHBOUR_INTACT);
    EXPECT_EQ(exit_of_child(run_recursing_fiber), NEIGHBOUR_INTACT);
    EXPECT(hdi_stack_intact(victim));
    teardown();
}

TEST(madvise_guards_stop_an_overflow_before_the_neighbour)
{
    check_faults(HD_GUARD_MADVISE);
}

TEST(mprotect_guards_stop_an_overflow_before_the_neighbour)
{
    check_faults(HD_GUARD_MPROTECT);
}

TEST(canaries_tell_of_an_overflow_that_hurt_nobody)
{
    setup(HD_GUARD_CANARY);
    take_neighbours();
    EXPECT_EQ(victim->guard, HD_GUARD_CANARY);
    victim->low[0] = 1;
    EXPECT(hdi_stack_intact(victim));
    for (size_t depth = 1; depth <= 128; depth++) {
        char *at = victim->low - depth;
        *at = (char)~*at;
        EXPECT(!hdi_stack_intact(victim));
        *at = (char)~*at;
        EXPECT(hdi_stack_intact(victim));
    }
    memset(victim->low - HDI_STACK_GUARD_BYTES, 0, HDI_STACK_GUARD_BYTES);
    EXPECT(!hdi_stack_intact(victim));
    EXPECT(neighbour_intact());
}

TEST(canaries_survive_trimming)
{
    setup(HD_GUARD_CANARY);
    enum { COUNT = 600 };
    struct hdi_stack *stacks[COUNT];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) {
            stacks[i] = take(64 * KIB);
            EXPECT(hdi_stack_intact(stacks[i]));
            memset(stacks[i]->low, 0xff, stacks[i]->bytes);
        }
        for (int i = 0; i < COUNT; i++) hdi_stack_give(&cache, stacks[i]);
        while (hdi_stack_cache_trim(&cache)) continue;
    }
    teardown();
}

TEST(auto_leaves_mappings_for_the_program)
{
    if (HDI_TSAN || HDI_ASAN) test_skip("sanitizers need mappings of their own");
    setup(HD_GUARD_AUTO);
    pool.guard = HD_GUARD_MPROTECT; /* as on a kernel before 6.13 */
    size_t canaries = 0;
    for (int i = 0; i < 40000; i++) {
        struct hdi_stack *stack = take(16 * KIB);
        EXPECT(hdi_stack_intact(stack));
        canaries += stack->guard == HD_GUARD_CANARY;
    }
    EXPECT(canaries >= 15000 && canaries <= 17000);
    EXPECT(count_mappings() < 60000);
    teardown();
}

TEST(a_demanded_guard_that_fails_is_an_error_not_a_crash)
{
    if (HDI_TSAN || HDI_ASAN) test_skip("sanitizers need mappings of their own");
    setup(HD_GUARD_MPROTECT);
    int taken = 0;
    struct hdi_stack *last = NULL;
    for (struct hdi_stack *s; taken < 70000 && (s = hdi_stack_take(&cache, 16 * KIB)); taken++) {
        EXPECT_EQ(s->guard, HD_GUARD_MPROTECT);
        last = s;
    }
    if (taken == 70000) test_skip("vm.max_map_count is above 140,000");
    const size_t carved = pool.carved_count;
    for (int i = 0; i < 100; i++) EXPECT(hdi_stack_take(&cache, 16 * KIB) == NULL);
    EXPECT_EQ(pool.carved_count, carved); /* failing again does not grow */
    hdi_stack_give(&cache, last);
    EXPECT(hdi_stack_take(&cache, 16 * KIB) == last);
    teardown();
}

TEST(a_hundred_thousand_guarded_stacks_in_few_mappings)
{
    setup(HD_GUARD_MADVISE);
    const int before = count_mappings();
    enum { COUNT = 100000 };
    struct hdi_stack *stack = NULL;
    for (int i = 0; i < COUNT; i++) {
        stack = take(64 * KIB);
        if (i % 1000 == 0) stack->top[-1] = 1;
    }
    EXPECT(count_mappings() - before < 1000); /* 500 slabs if the kernel merges none */
    victim = stack;
    signal(SIGSEGV, SIG_DFL);
    EXPECT_EQ(exit_of_child(write_below), -SIGSEGV);
    teardown();
}

/* ---- trimming ---- */

TEST(trimming_gives_pages_back_and_keeps_guards)
{
    setup(HD_GUARD_AUTO);
    enum { COUNT = 1600, KEPT = 256 + 2 * HDI_STACK_BATCH };
    static struct hdi_stack *stacks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        stacks[i] = take(64 * KIB);
        memset(stacks[i]->low, 1, stacks[i]->bytes);
    }
    const size_t full = memory_now(1);
    for (int i = 0; i < COUNT; i++) hdi_stack_give(&cache, stacks[i]);
    int steps = 1;
    while (hdi_stack_cache_trim(&cache)) steps++;
    EXPECT(steps >= (COUNT - KEPT) / HDI_STACK_BATCH); /* bounded steps */
    EXPECT(!hdi_stack_cache_trim(&cache));
    const size_t freed = full - memory_now(1);
    if (!HDI_ASAN && !HDI_TSAN) EXPECT(freed > (COUNT - KEPT) * 64 * KIB);
    signal(SIGSEGV, SIG_DFL);
    size_t clean = 0;
    for (int i = 0; i < COUNT; i++) {
        victim = take(64 * KIB);
        clean += victim->low[0] == 0;
        if (i % 200 == 0) EXPECT_EQ(exit_of_child(write_below), -SIGSEGV);
    }
    EXPECT(clean >= COUNT - KEPT);
    teardown();
}

/* ---- high water ---- */

TEST(high_water_is_the_deepest_write_within_a_page)
{
    setup(HD_GUARD_AUTO);
    struct hdi_stack *stack = take(64 * KIB);
    const size_t page = hdi_memory_page_bytes();
    EXPECT_EQ(hdi_stack_high_water(stack), 0);
    static const size_t depths[] = {8, 64, 1000, 3000, 5000, 20000, 60000};
    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        stack->top[-(ptrdiff_t)depths[i]] = 1;
        const size_t seen = hdi_stack_high_water(stack);
        EXPECT(seen >= depths[i] && seen < depths[i] + sizeof(uint64_t));
    }
    stack->low[0] = 0; /* a page touched with zeros counts whole */
    EXPECT_EQ(hdi_stack_high_water(stack), (size_t)(stack->top - stack->low));
    EXPECT(page <= 64 * KIB);
    teardown();
}

static void measure_own_stack(void *arg)
{
    hdi_context_entered(&fiber_context);
    *(size_t *)arg = hdi_stack_high_water(victim);
    hdi_context_exit(&fiber_context, &main_context);
}

TEST(a_fiber_can_measure_the_stack_it_runs_on)
{
    setup(HD_GUARD_AUTO);
    victim = take(256 * KIB);
    size_t seen = 0;
    hdi_context_init_thread(&main_context);
    hdi_context_prepare(&fiber_context, victim, measure_own_stack, &seen);
    hdi_context_switch(&main_context, &fiber_context);
    hdi_context_fini(&fiber_context);
    EXPECT(seen > 16 && seen < 64 * KIB);
    teardown();
}

/* ---- exhaustion ---- */

TEST(running_out_of_address_space_is_null_and_recoverable)
{
    setup(HD_GUARD_AUTO);
    struct rlimit limit;
    EXPECT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = memory_now(0) + 64 * MIB;
    EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    enum { MOST = 4000 };
    static struct hdi_stack *stacks[MOST];
    int count = 0;
    errno = 0;
    while (count < MOST && (stacks[count] = hdi_stack_take(&cache, 64 * KIB))) count++;
    if (count == MOST) test_skip("RLIMIT_AS has no effect here");
    EXPECT_EQ(errno, 0);
    EXPECT(hdi_stack_take(&cache, 100 * MIB) == NULL);
    if (!HDI_ASAN && !HDI_TSAN) EXPECT(count > 500); /* of 819 that would fit */
    for (int i = 0; i < count; i++) hdi_stack_give(&cache, stacks[i]);
    for (int i = 0; i < count; i++) (void)take(64 * KIB);
    EXPECT(hdi_stack_take(&cache, 64 * KIB) == NULL);
    teardown();
}
