/* SPDX-License-Identifier: MIT
 *
 * The context switch as a fiber sees it: whatever call switches, registers, stack and argument
 * are as they were. tests/ctx/switch_test.c checks the switch itself, register by register.
 */
#include "nurseries.h"

#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <unwind.h>

#include "base/sanitizer.h"

TEST_MAIN

/* So many at once, each of which returns 0. */
static void run_fibers(int how_many, hd_fn *fn, void *arg)
{
    HD_NURSERY(n) {
        for (int i = 0; i < how_many; i++) nur_go(n, fn, arg);
    }
    EXPECT_EQ(hd_nursery_result(), 0);
}

/* ---- registers ---- */

/* Fill every callee-saved register with seed + n, call fn(arg), store what it returned, and
 * return a bit for every register that came back different. */
uint64_t hold_call(hd_fn *fn, void *arg, uint64_t seed, int *result);

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl hold_call\n"
        ".type hold_call, @function\n"
        "hold_call:\n"
        "  pushq %rbx\n  pushq %rbp\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  pushq %rcx\n"         /* result */
        "  pushq %rdx\n"         /* seed */
        "  subq $8, %rsp\n"      /* 16-aligned at the call */
        "  movq %rdi, %rax\n"
        "  movq %rsi, %rdi\n"
        "  leaq 0(%rdx), %rbx\n"
        "  leaq 1(%rdx), %rbp\n"
        "  leaq 2(%rdx), %r12\n"
        "  leaq 3(%rdx), %r13\n"
        "  leaq 4(%rdx), %r14\n"
        "  leaq 5(%rdx), %r15\n"
        "  call *%rax\n"
        "  addq $8, %rsp\n"
        "  popq %rdx\n"
        "  popq %rcx\n"
        "  movl %eax, (%rcx)\n"
        "  xorl %eax, %eax\n"
        "  subq %rdx, %rbx\n  cmpq $0, %rbx\n  je 1f\n  orq $1, %rax\n1:"
        "  subq %rdx, %rbp\n  cmpq $1, %rbp\n  je 1f\n  orq $2, %rax\n1:"
        "  subq %rdx, %r12\n  cmpq $2, %r12\n  je 1f\n  orq $4, %rax\n1:"
        "  subq %rdx, %r13\n  cmpq $3, %r13\n  je 1f\n  orq $8, %rax\n1:"
        "  subq %rdx, %r14\n  cmpq $4, %r14\n  je 1f\n  orq $16, %rax\n1:"
        "  subq %rdx, %r15\n  cmpq $5, %r15\n  je 1f\n  orq $32, %rax\n1:"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbp\n  popq %rbx\n"
        "  ret\n"
        ".size hold_call, .-hold_call\n");
#elif defined(__aarch64__)
#define SET_X(r, n) "  add x" #r ", x2, #" #n "\n"
#define SET_D(r, n) "  add x10, x2, #" #n "\n  fmov d" #r ", x10\n"
#define CHECK_X(r, n) \
    "  sub x10, x" #r ", x2\n  cmp x10, #" #n "\n  cset x10, ne\n  orr x0, x0, x10, lsl #" #n "\n"
#define CHECK_D(r, n) "  fmov x10, d" #r "\n  sub x10, x10, x2\n  cmp x10, #" #n "\n" \
    "  cset x10, ne\n  orr x0, x0, x10, lsl #" #n "\n"
__asm__(".text\n"
        ".globl hold_call\n"
        ".type hold_call, %function\n"
        "hold_call:\n"
        "  sub sp, sp, #176\n"
        "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n"
        "  stp d14, d15, [sp, #144]\n  stp x2, x3, [sp, #160]\n"
        "  mov x9, x0\n"
        "  mov x0, x1\n"
        SET_X(19, 0) SET_X(20, 1) SET_X(21, 2) SET_X(22, 3) SET_X(23, 4) SET_X(24, 5)
        SET_X(25, 6) SET_X(26, 7) SET_X(27, 8) SET_X(28, 9) SET_X(29, 10)
        SET_D(8, 11) SET_D(9, 12) SET_D(10, 13) SET_D(11, 14)
        SET_D(12, 15) SET_D(13, 16) SET_D(14, 17) SET_D(15, 18)
        "  blr x9\n"
        "  ldp x2, x3, [sp, #160]\n"
        "  str w0, [x3]\n"
        "  mov x0, #0\n"
        CHECK_X(19, 0) CHECK_X(20, 1) CHECK_X(21, 2) CHECK_X(22, 3) CHECK_X(23, 4)
        CHECK_X(24, 5) CHECK_X(25, 6) CHECK_X(26, 7) CHECK_X(27, 8) CHECK_X(28, 9)
        CHECK_X(29, 10) CHECK_D(8, 11) CHECK_D(9, 12) CHECK_D(10, 13) CHECK_D(11, 14)
        CHECK_D(12, 15) CHECK_D(13, 16) CHECK_D(14, 17) CHECK_D(15, 18)
        "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
        "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n"
        "  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #176\n"
        "  ret\n"
        ".size hold_call, .-hold_call\n");
#endif

struct held {
    hd_fn *call;
    void *arg;
    int rounds, expected;
};

/* A fiber that makes one call over and over, with its own values in the registers. */
static int hold_in_fiber(void *arg)
{
    const struct held *held = arg;
    for (int i = 0; i < held->rounds; i++) {
        int result = 12345;
        const uint64_t seed = hd_self_id() * UINT64_C(0x0101010101010101) + (uint64_t)i * 1000;
        EXPECT_EQ(hold_call(held->call, held->arg, seed, &result), 0);
        EXPECT_EQ(result, held->expected);
    }
    return 0;
}

enum { FIBERS = 6, ROUNDS = 30 };

static void hold_over(hd_fn *call, void *arg, int expected)
{
    struct held held = {call, arg, ROUNDS, expected};
    run_fibers(FIBERS, hold_in_fiber, &held);
}

static int yield(void *arg)
{
    (void)arg;
    hd_yield();
    return 5;
}

FIBER_TEST(registers_survive_a_yield)
{
    hold_over(yield, NULL, 5);
    return 0;
}

static int nap(void *arg)
{
    (void)arg;
    return hd_sleep_until(hd_now(NULL) + 1000);
}

FIBER_TEST(registers_survive_a_sleep)
{
    hold_over(nap, NULL, 0);
    return 0;
}

static int wake_and_park(void *arg)
{
    (void)arg;
    hd_waker_wake(hd_waker_self());
    const int err = hd_park();
    hd_yield();
    return err;
}

FIBER_TEST(registers_survive_a_park)
{
    hold_over(wake_and_park, NULL, 0);
    return 0;
}

/* Six fibers, an even number of sends and receives: everybody waits now and then. */
static int send_or_receive(void *arg)
{
    int item = 1;
    return hd_self_id() % 2 ? hd_chan_send(arg, &item) : hd_chan_recv(arg, &item);
}

FIBER_TEST(registers_survive_channel_operations)
{
    hd_chan *chan = hd_chan_create(sizeof(int), 0);
    hold_over(send_or_receive, chan, 0); /* ids 2 to 7: as many odd as even */
    hd_chan_destroy(chan);
    return 0;
}

static int lock_and_yield(void *arg)
{
    const int err = hd_mutex_lock(arg);
    if (err) return err;
    hd_yield();
    hd_mutex_unlock(arg);
    return 0;
}

FIBER_TEST(registers_survive_a_contended_mutex)
{
    hd_mutex mutex = {{0}};
    hold_over(lock_and_yield, &mutex, 0);
    hd_mutex_fini(&mutex);
    return 0;
}

static int spawn_and_join(void *arg)
{
    (void)arg;
    int number = 77;
    return rt_join(rt_spawn(NULL, nur_return, &number));
}

FIBER_TEST(registers_survive_a_join)
{
    hold_over(spawn_and_join, NULL, 77);
    return 0;
}

static int own_two(void *arg)
{
    (void)arg;
    HD_NURSERY(n) {
        for (int i = 0; i < 2; i++) nur_go(n, yield, NULL);
    }
    return hd_nursery_result();
}

FIBER_TEST(registers_survive_the_end_of_a_nursery)
{
    hold_over(own_two, NULL, 0);
    return 0;
}

static int be_cancelled(void *arg)
{
    (void)arg;
    int err = 0;
    HD_SCOPE(s, .deadline = hd_now(NULL) + 1000) err = hd_sleep_until(HD_FOREVER);
    return err;
}

FIBER_TEST(registers_survive_a_wait_that_is_cut_short)
{
    hold_over(be_cancelled, NULL, -ETIMEDOUT);
    return 0;
}

static int go_elsewhere(void *dispatcher)
{
    HD_ON(dispatcher) hd_yield();
    return 0;
}

FIBER_TEST(registers_survive_a_move_to_another_dispatcher)
{
    hd_dispatcher *other = NULL;
    EXPECT_EQ(hd_dispatcher_single(&other, NULL), 0);
    hold_over(go_elsewhere, other, 0);
    hd_dispatcher_unref(other);
    return 0;
}

static int block(void *arg)
{
    int result = 0;
    const int err = hd_blocking(nur_return, arg, &result);
    return err ? err : result;
}

FIBER_TEST(registers_survive_a_blocking_call)
{
    int number = 9;
    hold_over(block, &number, 9);
    return 0;
}

static int select_first(void *arg)
{
    int item = 0;
    hd_case cases[] = {HD_RECV(arg, &item), HD_AT(hd_now(NULL) + 1000)};
    return hd_select(cases, 2);
}

FIBER_TEST(registers_survive_a_select)
{
    hd_chan *chan = hd_chan_create(sizeof(int), 0);
    hold_over(select_first, chan, 1);
    hd_chan_destroy(chan);
    return 0;
}

/* In sim the thread itself drives the runtime, and switches away and back. */
static int join_from_thread(void *runtime)
{
    return rt_join(rt_spawn(runtime, yield, NULL));
}

TEST_WORLDS(registers_of_a_thread_survive_its_waits, options)
{
    hd_runtime *runtime = rt_create(options);
    for (int i = 0; i < 20; i++) {
        int result = 0;
        EXPECT_EQ(hold_call(join_from_thread, runtime, ~UINT64_C(0) - 99, &result), 0);
        EXPECT_EQ(result, 5);
    }
    hd_runtime_destroy(runtime);
}

/* ---- values of every kind ---- */

static __attribute__((noinline)) double mix(double a, float b, long double c, int64_t d)
{
    hd_yield();
    return a + (double)b + (double)c + (double)d;
}

static int keep_numbers(void *arg)
{
    (void)arg;
    const double base = (double)hd_self_id();
    double doubles[12];
    float floats[12];
    long double longs[4];
    for (int i = 0; i < 12; i++) doubles[i] = base + i, floats[i] = (float)(base * 2 + i);
    for (int i = 0; i < 4; i++) longs[i] = base * 3 + i;
    for (int round = 0; round < 50; round++) {
        EXPECT(mix(doubles[1], floats[2], longs[3], round) ==
               base + 1 + (base * 2 + 2) + (base * 3 + 3) + round);
        for (int i = 0; i < 12; i++) EXPECT(doubles[i] == base + i);
        for (int i = 0; i < 12; i++) EXPECT(floats[i] == (float)(base * 2 + i));
        for (int i = 0; i < 4; i++) EXPECT(longs[i] == base * 3 + i);
    }
    return 0;
}

FIBER_TEST(floating_point_values_stay_with_their_fiber)
{
    run_fibers(8, keep_numbers, NULL);
    return 0;
}

typedef int vector __attribute__((vector_size(16)));

static __attribute__((noinline)) vector add_and_yield(vector a, vector b)
{
    hd_yield();
    return a + b;
}

static int keep_vectors(void *arg)
{
    (void)arg;
    const int id = (int)hd_self_id();
    vector sum = {0}, own = {id, id + 1, id + 2, id + 3};
    EXPECT_EQ((uintptr_t)&own % sizeof(own), 0);
    for (int i = 0; i < 50; i++) sum = add_and_yield(sum, own);
    for (int i = 0; i < 4; i++) EXPECT_EQ(sum[i], 50 * (id + i));
    return 0;
}

FIBER_TEST(vectors_stay_with_their_fiber_and_are_aligned)
{
    run_fibers(8, keep_vectors, NULL);
    return 0;
}

struct large {
    int64_t numbers[40];
};

static __attribute__((noinline)) struct large pass(struct large in)
{
    hd_yield();
    for (int i = 0; i < 40; i++) in.numbers[i]++;
    hd_yield();
    return in;
}

static int pass_large(void *arg)
{
    (void)arg;
    struct large value;
    for (int i = 0; i < 40; i++) value.numbers[i] = (int64_t)hd_self_id() * 100 + i;
    for (int round = 0; round < 20; round++) value = pass(value);
    for (int i = 0; i < 40; i++) EXPECT_EQ(value.numbers[i], (int64_t)hd_self_id() * 100 + i + 20);
    return 0;
}

FIBER_TEST(structs_passed_and_returned_by_value_survive)
{
    run_fibers(8, pass_large, NULL);
    return 0;
}

static __attribute__((noinline)) int sum_of(int how_many, ...)
{
    va_list list;
    va_start(list, how_many);
    int sum = 0;
    for (int i = 0; i < how_many; i++) {
        hd_yield(); /* with some arguments still to be taken */
        sum += i % 2 ? (int)va_arg(list, double) : va_arg(list, int);
    }
    va_end(list);
    return sum;
}

static int sum_twelve(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++) {
        EXPECT_EQ(sum_of(12, 1, 2.0, 3, 4.0, 5, 6.0, 7, 8.0, 9, 10.0, 11, 12.0 + i), 78 + i);
    }
    return 0;
}

FIBER_TEST(variable_arguments_survive)
{
    run_fibers(8, sum_twelve, NULL);
    return 0;
}

FIBER_TEST(arguments_and_results_arrive_as_they_are)
{
    static int numbers[] = {INT_MIN, -1, 0, 1, INT_MAX};
    for (int i = 0; i < 5; i++) {
        EXPECT_EQ(rt_join(rt_spawn(NULL, nur_return, &numbers[i])), numbers[i]);
    }
    return 0;
}

/* ---- stacks ---- */

static int keep_stack(void *arg)
{
    (void)arg;
    volatile uint8_t block[8192];
    volatile uint8_t *const at = block;
    const uint8_t own = (uint8_t)hd_self_id();
    for (size_t i = 0; i < sizeof(block); i++) block[i] = (uint8_t)(own + i);
    for (int round = 0; round < 10; round++) {
        hd_yield();
        EXPECT(at == block); /* wherever it runs now */
        for (size_t i = 0; i < sizeof(block); i++) EXPECT_EQ(block[i], (uint8_t)(own + i));
    }
    return 0;
}

FIBER_TEST(stacks_are_kept_and_do_not_overlap)
{
    run_fibers(40, keep_stack, NULL);
    return 0;
}

static __attribute__((noinline)) int64_t recurse(int depth)
{
    volatile int64_t own = depth;
    hd_yield();
    const int64_t below = depth > 0 ? recurse(depth - 1) : 0;
    hd_yield();
    return below + own;
}

static int recurse_100(void *arg)
{
    (void)arg;
    EXPECT_EQ(recurse(100), 5050);
    return 0;
}

FIBER_TEST(switches_at_every_depth_of_a_recursion)
{
    run_fibers(8, recurse_100, NULL);
    return 0;
}

static int entry_is_aligned(void *arg)
{
    (void)arg;
    volatile _Alignas(64) char block[64];
    block[0] = 1;
    EXPECT_EQ((uintptr_t)__builtin_frame_address(0) % 16, 0);
    EXPECT_EQ((uintptr_t)block % 64, 0);
#if defined(__x86_64__)
    uint64_t flags;
    __asm__ volatile("pushfq\n\tpopq %0" : "=r"(flags));
    EXPECT_EQ(flags & (1u << 10), 0); /* The ABI wants the direction flag clear. */
#endif
    return block[0] - 1;
}

FIBER_TEST(every_fiber_begins_as_the_abi_says)
{
    run_fibers(100, entry_is_aligned, NULL);
    return 0;
}

static uintptr_t stacks_seen[200];

static int note_stack(void *arg)
{
    volatile char here = 0;
    *(uintptr_t *)arg = (uintptr_t)&here >> 16; /* a default stack is 64 KiB */
    return here;
}

static int reuse_stacks(void *arg)
{
    (void)arg;
    int distinct = 0;
    for (int i = 0; i < 200; i++) {
        HD_NURSERY(n) nur_go(n, note_stack, &stacks_seen[i]);
        bool seen = false;
        for (int k = 0; k < i; k++) seen |= stacks_seen[k] == stacks_seen[i];
        distinct += !seen;
    }
    EXPECT(distinct < 40); /* one after the other on few stacks */
    return 0;
}

TEST_WORLDS(stacks_of_ended_fibers_are_used_again, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(reuse_stacks, NULL, &one);
}

/* ---- control flow inside a fiber ---- */

static int jump_back(void *arg)
{
    (void)arg;
    jmp_buf back;
    volatile int rounds = 0;
    if (setjmp(back) < 10) {
        rounds = rounds + 1;
        hd_yield(); /* perhaps on another thread afterwards */
        longjmp(back, rounds);
    }
    EXPECT_EQ(rounds, 10);
    return 0;
}

FIBER_TEST(longjmp_works_inside_a_fiber_across_switches)
{
    run_fibers(8, jump_back, NULL);
    return 0;
}

static void count_cleanup(int **counter)
{
    hd_yield(); /* a destructor may switch too */
    ++**counter;
}

static int leave_early(void *arg)
{
    int *counter = arg;
    __attribute__((cleanup(count_cleanup))) int *outer = counter;
    for (int i = 0; i < 5; i++) {
        __attribute__((cleanup(count_cleanup))) int *inner = counter;
        hd_yield();
        if (i == 3) return *inner; /* three before this one */
    }
    return *outer;
}

FIBER_TEST(cleanups_run_in_order_across_switches)
{
    int counter = 0;
    EXPECT_EQ(rt_join(rt_spawn(NULL, leave_early, &counter)), 3);
    EXPECT_EQ(counter, 5);
    return 0;
}

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
    (void)number;
    signals = signals + 1;
}

static int raise_between(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++) {
        EXPECT_EQ(raise(SIGUSR1), 0); /* on the fiber's own stack */
        hd_yield();
    }
    return 0;
}

static int take_signals(void *arg)
{
    (void)arg;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    EXPECT_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0); /* Workers keep signals out. */
    run_fibers(5, raise_between, NULL);
    EXPECT_EQ(signals, 50);
    return 0;
}

TEST_WORLDS(signals_are_handled_in_fibers, options)
{
    struct sigaction action = {.sa_handler = on_signal};
    EXPECT_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    const hd_options one = rt_workers(options, 1);
    rt_run(take_signals, NULL, &one);
}

/* ---- unwinding ---- */

struct walk {
    int frames;
    bool saw_fiber;
};

static int walk_stack(void *arg);

static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *arg)
{
    struct walk *walk = arg;
    walk->frames++;
    void *function = _Unwind_FindEnclosingFunction((void *)_Unwind_GetIP(context));
    if (function == __extension__(void *)walk_stack) walk->saw_fiber = true;
    return walk->frames < 100 ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

static __attribute__((noinline)) int walk_stack(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        struct walk walk = {0};
        EXPECT_EQ(_Unwind_Backtrace(step, &walk), _URC_END_OF_STACK);
        EXPECT(walk.saw_fiber);
        EXPECT(walk.frames < 20);
        hd_yield();
    }
    return 0;
}

FIBER_TEST(a_fiber_s_stack_can_be_walked_to_its_end)
{
    run_fibers(4, walk_stack, NULL);
    return 0;
}

/* ---- very many ---- */

static int switch_often(void *arg)
{
    const int rounds = HDI_TSAN ? 2000 : 20000;
    uint64_t own = hd_self_id();
    for (int i = 0; i < rounds; i++) {
        own = own * 31 + (uint64_t)i;
        hd_yield();
    }
    uint64_t expected = hd_self_id();
    for (int i = 0; i < rounds; i++) expected = expected * 31 + (uint64_t)i;
    atomic_fetch_add((atomic_int *)arg, own == expected);
    return 0;
}

FIBER_TEST(a_hundred_thousand_switches_change_nothing)
{
    atomic_int right = 0;
    run_fibers(5, switch_often, &right);
    EXPECT_EQ(right, 5);
    return 0;
}

static int begin_late(void *arg)
{
    return *(int *)arg;
}

static int spawn_without_running(void *arg)
{
    (void)arg;
    int value = 1;
    hd_task *task = rt_spawn(NULL, begin_late, &value);
    value = 2; /* One worker: it has not begun. */
    EXPECT_EQ(rt_join(task), 2);
    return 0;
}

TEST_WORLDS(a_fiber_begins_at_its_first_switch_not_at_its_spawn, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(spawn_without_running, NULL, &one);
}
