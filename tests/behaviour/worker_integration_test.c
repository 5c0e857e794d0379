/* SPDX-License-Identifier: MIT
 *
 * Workers and structure: the worker loop with nurseries around its tasks. What the queues, the
 * stealing and the order of tasks do to a nursery's children. The second part, about waiting
 * and ending, is tests/behaviour/worker_integration_wait_test.c.
 */
#include "nurseries.h"

#include <sched.h>

TEST_MAIN

static hd_stats stats_now(void)
{
    hd_stats stats;
    hd_runtime_stats(hd_runtime_self(), &stats);
    return stats;
}

static int count(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

static int count_twice(void *arg)
{
    count(arg);
    hd_yield();
    return count(arg);
}

static void go_many(hd_nursery *n, int how_many, hd_fn *fn, void *arg)
{
    for (int i = 0; i < how_many; i++) nur_go(n, fn, arg);
}

static void run_with(hd_fn *fn, const hd_options *options, unsigned workers)
{
    const hd_options own = rt_workers(options, workers);
    rt_run(fn, NULL, &own);
}

/* ---- every child runs, once ---- */

FIBER_TEST(one_child_runs_once)
{
    atomic_int ran = 0;
    HD_NURSERY(n) nur_go(n, count, &ran);
    EXPECT_EQ(ran, 1);
    return 0;
}

enum { MANY = 3000 };

static atomic_int runs_of[MANY];

static int count_own(void *arg)
{
    atomic_fetch_add(&runs_of[(intptr_t)arg], 1);
    return 0;
}

FIBER_TEST(of_thousands_each_runs_once)
{
    memset(runs_of, 0, sizeof(runs_of));
    HD_NURSERY(n) {
        for (intptr_t i = 0; i < MANY; i++) nur_go(n, count_own, (void *)i);
    }
    for (int i = 0; i < MANY; i++) EXPECT_EQ(runs_of[i], 1);
    return 0;
}

static hd_poll count_poll(void *state, int *result)
{
    struct { atomic_int *ran; int polls; } *self = state;
    if (self->polls++ < 2) {
        hd_waker_wake(hd_waker_self());
        return HD_PENDING;
    }
    *result = count(self->ran);
    return HD_READY;
}

FIBER_TEST(fibers_and_stackless_tasks_share_the_workers)
{
    atomic_int fibers = 0, polls = 0;
    const struct { atomic_int *ran; int polls; } state = {&polls, 0};
    HD_NURSERY(n) {
        for (int i = 0; i < 300; i++) {
            nur_go(n, count_twice, &fibers);
            nur_go_poll(n, count_poll, &state, sizeof(state));
        }
    }
    EXPECT_EQ(fibers, 600);
    EXPECT_EQ(polls, 300);
    return 0;
}

static int give_back(void *arg)
{
    hd_yield();
    return (int)(intptr_t)arg;
}

FIBER_TEST(results_reach_the_right_joiner)
{
    enum { TASKS = 200 };
    hd_task *tasks[TASKS] = {NULL};
    HD_NURSERY(n) {
        for (intptr_t i = 0; i < TASKS; i++) {
            tasks[i] = nur_spawn(n, give_back, (void *)i, NULL, 0);
        }
        for (int i = TASKS - 1; i >= 0; i -= 2) EXPECT_EQ(rt_join(tasks[i]), i);
    }
    for (int i = TASKS - 2; i >= 0; i -= 2) EXPECT_EQ(rt_join(tasks[i]), i); /* afterwards */
    return 0;
}

/* ---- trees of work ---- */

struct fib {
    int n, result;
};

static int fib(void *arg)
{
    struct fib *self = arg;
    if (self->n < 2) {
        self->result = self->n;
        return 0;
    }
    struct fib a = {self->n - 1, 0}, b = {self->n - 2, 0};
    HD_NURSERY(n) {
        nur_go(n, fib, &a);
        nur_go(n, fib, &b);
    }
    self->result = a.result + b.result;
    return hd_nursery_result();
}

FIBER_TEST(fork_and_join_compute)
{
    struct fib root = {13, 0};
    EXPECT_EQ(fib(&root), 0);
    EXPECT_EQ(root.result, 233);
    return 0;
}

static int dig(void *arg)
{
    intptr_t depth = (intptr_t)arg;
    if (depth == 0) return -EIO; /* at the bottom */
    HD_NURSERY(n) nur_go(n, dig, (void *)(depth - 1));
    return hd_nursery_result();
}

FIBER_TEST(an_error_comes_up_from_the_bottom)
{
    EXPECT_EQ(dig((void *)200), -EIO);
    return 0;
}

static int sum_range(void *arg)
{
    int64_t *range = arg; /* from, to, sum */
    if (range[1] - range[0] < 16) {
        for (int64_t i = range[0]; i < range[1]; i++) range[2] += i;
        return 0;
    }
    const int64_t middle = (range[0] + range[1]) / 2;
    int64_t halves[2][3] = {{range[0], middle, 0}, {middle, range[1], 0}};
    HD_NURSERY(n) {
        for (int i = 0; i < 2; i++) nur_go(n, sum_range, halves[i]);
    }
    range[2] = halves[0][2] + halves[1][2];
    return hd_nursery_result();
}

FIBER_TEST(divide_and_conquer)
{
    int64_t range[3] = {0, 2000, 0};
    EXPECT_EQ(sum_range(range), 0);
    EXPECT_EQ(range[2], 1999000);
    return 0;
}

/* ---- queues ---- */

static atomic_int next_place;
static int places[64];

static int take_place(void *arg)
{
    places[(intptr_t)arg] = atomic_fetch_add(&next_place, 1);
    return 0;
}

static int begin_in_order(void *arg)
{
    (void)arg;
    atomic_store(&next_place, 0);
    HD_NURSERY(n) {
        for (intptr_t i = 0; i < 64; i++) nur_go(n, take_place, (void *)i);
    }
    for (int i = 0; i < 64; i++) EXPECT_EQ(places[i], i);
    return 0;
}

TEST_WORLDS(children_of_an_ordered_worker_begin_in_order, options)
{
    hd_options own = rt_workers(options, 1);
    own.policy = HD_POLICY_ORDERED;
    rt_run(begin_in_order, NULL, &own);
}

static int use_every_queue(void *arg)
{
    (void)arg;
    atomic_int ran = 0;
    HD_NURSERY(n) go_many(n, 1000, count_twice, &ran);
    EXPECT_EQ(ran, 2000);
    return 0;
}

TEST_WORLDS(every_policy_runs_all_children, options)
{
    for (int policy = HD_POLICY_FAIR; policy <= HD_POLICY_PRIORITY; policy++) {
        hd_options own = *options;
        own.policy = (hd_policy)policy;
        rt_run(use_every_queue, NULL, &own);
    }
}

TEST_WORLDS(any_number_of_workers_runs_all_children, options)
{
    static const unsigned counts[] = {1, 2, 3, 8, 65};
    for (int i = 0; i < 5; i++) run_with(use_every_queue, options, counts[i]);
}

static int overflow_queue(void *arg)
{
    (void)arg;
    atomic_int ran = 0;
    HD_NURSERY(n) go_many(n, 2000, count, &ran);
    EXPECT_EQ(ran, 2000);
    EXPECT(stats_now().overflows > 0);
    return 0;
}

TEST(a_full_local_queue_loses_no_child)
{
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_LIVE, .workers = 1};
    rt_run(overflow_queue, NULL, &options);
}

TEST_WORLDS(children_from_a_thread_come_through_the_injection_queue, options)
{
    hd_options own = *options;
    own.quantum_ns = own.stall_ns = HD_FOREVER; /* Who ran for long comes through it again. */
    hd_runtime *runtime = rt_create(&own);
    atomic_int ran = 0;
    HD_NURSERY(n, .runtime = runtime) go_many(n, 500, count, &ran);
    EXPECT_EQ(ran, 500);
    hd_stats stats;
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    hd_runtime_stats(runtime, &stats);
    EXPECT_EQ(stats.submitted, 500);
    EXPECT_EQ(stats.completed, 500);
    EXPECT_EQ(stats.injected, 500);
    hd_runtime_destroy(runtime);
}

/* ---- parallel ---- */

static int meet(void *arg)
{
    atomic_int *here = arg;
    atomic_fetch_add(here, 1);
    while (atomic_load(here) < 4) sched_yield(); /* holds its worker */
    return 0;
}

static int need_four_workers(void *arg)
{
    (void)arg;
    atomic_int here = 0;
    HD_NURSERY(n) go_many(n, 4, meet, &here);
    EXPECT_EQ(here, 4);
    EXPECT(stats_now().stolen > 0); /* All were spawned on one. */
    return 0;
}

TEST(children_of_one_worker_are_stolen_by_the_others)
{
    for (int policy = HD_POLICY_FAIR; policy <= HD_POLICY_LOCAL; policy++) {
        hd_options options = {.size = sizeof(options), .world = HD_WORLD_LIVE, .workers = 4};
        options.policy = (hd_policy)policy;
        options.stall_ns = HD_FOREVER; /* no spare threads */
        rt_run(need_four_workers, NULL, &options);
    }
}

static int hog_until(void *arg)
{
    while (!atomic_load((atomic_int *)arg)) sched_yield();
    return 0;
}

static int set_flag(void *arg)
{
    atomic_store((atomic_int *)arg, 1);
    return 0;
}

static int hog_and_set(void *arg)
{
    (void)arg;
    atomic_int flag = 0;
    HD_NURSERY(n) {
        nur_go(n, hog_until, &flag);
        nur_go(n, set_flag, &flag);
    }
    return hd_nursery_result();
}

TEST(a_child_that_holds_its_worker_does_not_hold_its_sibling)
{
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_LIVE, .workers = 2};
    for (int i = 0; i < 50; i++) rt_run(hog_and_set, NULL, &options);
}

/* The owner of a nursery is found in its task, not in the thread it happens to run on. */
static int own_and_wander(void *arg)
{
    atomic_int ran = 0;
    pid_t first = gettid();
    for (int round = 0; round < 20; round++) {
        HD_NURSERY(outer) {
            nur_go(outer, count_twice, &ran);
            for (int i = 0; i < 5; i++) hd_yield();
            HD_NURSERY(inner) {
                nur_go(inner, count_twice, &ran);
                for (int i = 0; i < 5; i++) hd_yield();
                nur_go(outer, count_twice, &ran);
            }
            EXPECT_EQ(hd_nursery_result(), 0);
        }
        if (gettid() != first) atomic_fetch_add((atomic_int *)arg, 1);
    }
    EXPECT_EQ(ran, 120);
    return 0;
}

TEST(a_nursery_goes_with_its_fiber_from_worker_to_worker)
{
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_LIVE, .workers = 4};
    hd_runtime *runtime = rt_create(&options);
    atomic_int moved = 0;
    for (int i = 0; i < 20 || !atomic_load(&moved); i++) { /* The alarm is the limit. */
        HD_NURSERY(n, .runtime = runtime) go_many(n, 8, own_and_wander, &moved);
        EXPECT_EQ(hd_nursery_result(), 0);
    }
    hd_runtime_destroy(runtime);
}

/* ---- taking turns ---- */

static int log_turn(void *arg)
{
    static atomic_int last;
    atomic_int *changes = arg;
    const int self = (int)hd_self_id();
    for (int i = 0; i < 20; i++) {
        if (atomic_exchange(&last, self) != self) atomic_fetch_add(changes, 1);
        hd_yield();
    }
    return 0;
}

static int take_turns(void *arg)
{
    (void)arg;
    atomic_int changes = 0;
    HD_NURSERY(n) go_many(n, 2, log_turn, &changes);
    EXPECT_EQ(changes, 40); /* strictly one after the other */
    return 0;
}

TEST(two_children_that_yield_take_turns)
{
    hd_options options = {.size = sizeof(options), .world = HD_WORLD_LIVE, .workers = 1};
    options.policy = HD_POLICY_ORDERED;
    rt_run(take_turns, NULL, &options);
}

static int yield_often(void *arg)
{
    for (int i = 0; i < 10000 && !atomic_load((atomic_int *)arg); i++) hd_yield();
    return atomic_load((atomic_int *)arg) ? 0 : -ETIME;
}

static int yielding_siblings(void *arg)
{
    (void)arg;
    atomic_int flag = 0;
    HD_NURSERY(n) {
        go_many(n, 3, yield_often, &flag);
        nur_go(n, set_flag, &flag);
    }
    return hd_nursery_result();
}

TEST_WORLDS(siblings_that_yield_let_the_last_one_in, options)
{
    run_with(yielding_siblings, options, 1);
}

/* ---- priorities ---- */

static int place_by_priority(void *arg)
{
    (void)arg;
    atomic_store(&next_place, 0);
    HD_NURSERY(n) {
        for (intptr_t i = 0; i < 4; i++) {
            static const hd_priority order[] = {HD_PRIORITY_LOW, HD_PRIORITY_NORMAL,
                                                HD_PRIORITY_HIGH, HD_PRIORITY_URGENT};
            hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
            options.nursery = n;
            options.priority = order[i];
            EXPECT_EQ(hd_spawn_with(NULL, take_place, (void *)i, &options), 0);
        }
    }
    for (int i = 0; i < 4; i++) EXPECT_EQ(places[i], 3 - i);
    return 0;
}

TEST_WORLDS(urgent_children_go_first, options)
{
    hd_options own = rt_workers(options, 1);
    own.policy = HD_POLICY_PRIORITY;
    rt_run(place_by_priority, NULL, &own);
}

/* ---- the whole ---- */

TEST_WORLDS(counters_add_up_after_nurseries, options)
{
    hd_runtime *runtime = rt_create(options);
    struct fib root = {10, 0};
    EXPECT_EQ(rt_join(rt_spawn(runtime, fib, &root)), 0);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    hd_stats stats;
    hd_runtime_stats(runtime, &stats);
    EXPECT_EQ(stats.submitted, 177); /* calls of fib(10) */
    EXPECT_EQ(stats.completed, 177);
    EXPECT_EQ(stats.alive, 0);
    EXPECT(stats.polls >= 177);
    hd_runtime_destroy(runtime);
}

TEST_WORLDS(runtimes_come_and_go_with_nurseries, options)
{
    for (int i = 0; i < 30; i++) rt_run(use_every_queue, NULL, options);
}

static int spread_and_cancel(void *arg)
{
    (void)arg;
    for (int round = 0; round < 20; round++) {
        hd_nursery n;
        nur_open(&n, NULL);
        go_many(&n, 50, nur_park, NULL);
        for (int i = 0; i < 10 * round; i++) hd_yield(); /* some run, some are stolen */
        hd_nursery_cancel(&n);
        EXPECT_EQ(hd_nursery_wait(&n), -ECANCELED);
        EXPECT_EQ(hd_nursery_look(&n).cancelled, 50);
        EXPECT_EQ(hd_nursery_leave(&n), -ECANCELED);
    }
    return 0;
}

TEST_WORLDS(a_cancel_finds_children_on_every_worker, options)
{
    run_with(spread_and_cancel, options, 4);
}

static int order_of_ten(void *arg)
{
    uint64_t *order = arg;
    atomic_store(&next_place, 0);
    HD_NURSERY(n) {
        for (intptr_t i = 0; i < 10; i++) nur_go(n, take_place, (void *)i);
    }
    for (int i = 0; i < 10; i++) *order = *order * 10 + (uint64_t)places[i];
    return 0;
}

TEST(in_sim_the_seed_decides_in_which_order_children_begin)
{
    uint64_t first = 0;
    int different = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const hd_options options = {.size = sizeof(options), .world = HD_WORLD_SIM, .seed = seed};
        uint64_t orders[2] = {0, 0};
        for (int i = 0; i < 2; i++) rt_run(order_of_ten, &orders[i], &options);
        EXPECT(orders[0] == orders[1]); /* twice the same */
        if (seed == 1) first = orders[0];
        different += orders[0] != first;
    }
    EXPECT(different > 10);
}
