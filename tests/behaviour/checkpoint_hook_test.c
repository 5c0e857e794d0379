/* SPDX-License-Identifier: MIT
 *
 * Loops that call nothing give way, in a program compiled as `pkg-config --cflags
 * heddle-checkpoint` says: this file is. In live a stuck worker is not replaced here.
 */
#include "rt.h"

TEST_MAIN

static hd_options of(const hd_options *options)
{
    hd_options own = *options;
    own.workers = 1;
    own.stall_ns = HD_FOREVER;
    return own;
}

/* Computes for longer than a quantum in either world. */
static uint64_t compute(void)
{
    uint64_t sum = 0;
    const int64_t until_ns = hd_now(NULL) + 40000000;
    const bool sim = hd_runtime_world(hd_runtime_self()) == HD_WORLD_SIM;
    for (uint64_t i = 0; sim ? i < 50000 : (i & 1023) || hd_now(NULL) < until_ns; i++) {
        sum += i ^ (sum >> 3);
    }
    return sum;
}

/* ---- the loop itself ---- */

static int hog(void *arg)
{
    atomic_int *flag = arg;
    while (!atomic_load_explicit(flag, memory_order_relaxed)) continue;
    return 0;
}

static int end_it(void *arg)
{
    atomic_store((atomic_int *)arg, 1);
    return 0;
}

static int two(void *arg)
{
    (void)arg;
    atomic_int flag = 0;
    hd_task *first = rt_spawn(NULL, hog, &flag), *second = rt_spawn(NULL, hog, &flag);
    hd_task *third = rt_spawn(NULL, end_it, &flag);
    EXPECT_EQ(rt_join(first) + rt_join(second) + rt_join(third), 0);
    return 0;
}

TEST_WORLDS(a_loop_that_calls_nothing_gives_way, options)
{
    const hd_options own = of(options);
    rt_run(two, NULL, &own);
}

static uint64_t digest_of(const hd_options *options)
{
    hd_runtime *runtime = rt_create(options);
    EXPECT_EQ(rt_join(rt_spawn(runtime, two, NULL)), 0);
    const uint64_t digest = hd_runtime_digest(runtime);
    hd_runtime_destroy(runtime);
    return digest;
}

TEST(in_sim_it_does_so_at_the_same_place_each_time)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const hd_options options = {
            .size = sizeof(options), .world = HD_WORLD_SIM, .seed = seed};
        const uint64_t first = digest_of(&options);
        EXPECT(digest_of(&options) == first);
    }
}

/* ---- where it must not ---- */

/* A fiber that counts as often as it runs. */
struct other {
    unsigned runs; /* plain: nobody runs beside it */
    atomic_int over;
};

static int count_runs(void *arg)
{
    struct other *other = arg;
    while (!atomic_load(&other->over)) {
        other->runs++;
        hd_yield();
    }
    return 0;
}

static hd_poll compute_stackless(void *state, int *result)
{
    const struct other *other = *(struct other **)state;
    const unsigned before = other->runs;
    EXPECT(compute() != 0);
    EXPECT_EQ(other->runs, before);
    *result = 0;
    return HD_READY;
}

static int beside_stackless(void *arg)
{
    (void)arg;
    struct other other = {.over = 0}, *pointer = &other;
    hd_task *task = rt_spawn(NULL, count_runs, &other);
    EXPECT_EQ(rt_join(rt_spawn_poll(NULL, compute_stackless, &pointer, sizeof(pointer))), 0);
    atomic_store(&other.over, 1);
    return rt_join(task);
}

TEST_WORLDS(a_stackless_task_cannot, options)
{
    const hd_options own = of(options);
    rt_run(beside_stackless, NULL, &own);
}

static int hold_and_compute(void *arg)
{
    (void)arg;
    struct other other = {.over = 0};
    hd_task *task = rt_spawn(NULL, count_runs, &other);
    const unsigned before = other.runs;
    hd_hold_begin(HD_SITE);
    EXPECT(compute() != 0);
    EXPECT_EQ(other.runs, before);
    hd_hold_end();
    while (other.runs == before) EXPECT(compute() != 0); /* Now it does. */
    atomic_store(&other.over, 1);
    return rt_join(task);
}

TEST_WORLDS(one_that_holds_locks_of_its_thread_does_not, options)
{
    const hd_options own = of(options);
    rt_run(hold_and_compute, NULL, &own);
}

static void compute_undelivered(void *item, void *arg)
{
    const struct other *other = arg;
    const unsigned before = other->runs;
    (void)item;
    EXPECT(compute() != 0);
    EXPECT_EQ(other->runs, before);
}

static int drop_and_compute(void *arg)
{
    (void)arg;
    struct other other = {.over = 0};
    hd_chan_options options = HD_CHAN_OPTIONS_INIT;
    options.capacity = 1;
    options.overflow = HD_OVERFLOW_DROP_NEWEST;
    options.undelivered = compute_undelivered;
    options.arg = &other;
    hd_chan *chan = NULL;
    EXPECT_EQ(hd_chan_create_with(&chan, sizeof(int), &options), 0);
    hd_task *task = rt_spawn(NULL, count_runs, &other);
    const int item = 1;
    EXPECT_EQ(hd_chan_send(chan, &item), 0);
    EXPECT_EQ(hd_chan_send(chan, &item), 0);
    atomic_store(&other.over, 1);
    EXPECT_EQ(rt_join(task), 0);
    hd_chan_destroy(chan);
    return 0;
}

TEST_WORLDS(a_function_that_the_library_calls_does_not, options)
{
    const hd_options own = of(options);
    rt_run(drop_and_compute, NULL, &own);
}

/* ---- what the program must not notice ---- */

static __attribute__((noinline)) int get_errno(void)
{
    __asm__ volatile("" ::: "memory");
    return errno;
}

static __attribute__((noinline)) void set_errno(int value)
{
    __asm__ volatile("" ::: "memory");
    errno = value;
}

static int keep_errno(void *arg)
{
    const int mine = (int)(uintptr_t)arg;
    for (int i = 0; i < 3; i++) {
        set_errno(mine);
        EXPECT(compute() != 0);
        EXPECT_EQ(get_errno(), mine);
    }
    return 0;
}

static int many_errnos(void *arg)
{
    enum { TASKS = 6 };
    (void)arg;
    hd_task *tasks[TASKS];
    for (uintptr_t i = 0; i < TASKS; i++) tasks[i] = rt_spawn(NULL, keep_errno, (void *)(i + 1));
    for (int i = 0; i < TASKS; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    return 0;
}

TEST_WORLDS(errno_stays_with_the_fiber, options)
{
    hd_options own = *options;
    own.workers = rt_is_sim(options) ? 0 : 2;
    rt_run(many_errnos, NULL, &own);
}

/* On a plain thread there is nobody to give way to. */
TEST(a_plain_thread_notices_nothing)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < 1000000; i++) sum += i;
    EXPECT(sum > 0);
}
