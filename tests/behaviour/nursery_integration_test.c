/* SPDX-License-Identifier: MIT
 *
 * Nurseries and the scheduler: waiting from a fiber, a stackless task and a thread; children
 * on other workers and dispatchers; drains, shutdowns and deadlocks; what is left afterwards.
 */
#include "nurseries.h"

#include <pthread.h>

#include "base/sanitizer.h"

TEST_MAIN

#define MS HD_MS_NS

static int count_up(void *arg)
{
    hd_yield();
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

/* ---- waiting ---- */

static int wait_with_one_worker(void *arg)
{
    (void)arg;
    atomic_int ended = 0;
    hd_task *others[3];
    for (int i = 0; i < 3; i++) others[i] = rt_spawn(NULL, count_up, &ended);
    HD_NURSERY(n) {
        for (int i = 0; i < 7; i++) nur_go(n, count_up, &ended);
    }
    EXPECT(atomic_load(&ended) >= 7);
    for (int i = 0; i < 3; i++) EXPECT_EQ(rt_join(others[i]), 0);
    EXPECT_EQ(atomic_load(&ended), 10);
    return 0;
}

TEST_WORLDS(a_fiber_that_waits_gives_its_worker_away, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(wait_with_one_worker, NULL, &one);
}

struct poll_owner {
    hd_nursery nursery;
    atomic_int *ended, *polls;
    int children;
    bool opened;
};

static hd_poll own_by_poll(void *state, int *result)
{
    struct poll_owner *self = state;
    if (!self->opened) {
        self->opened = true;
        nur_open(&self->nursery, NULL);
        for (int i = 0; i < self->children; i++) nur_go(&self->nursery, count_up, self->ended);
    }
    atomic_fetch_add(self->polls, 1);
    int left = 99;
    if (hd_nursery_wait_poll(&self->nursery, &left) == HD_PENDING) {
        EXPECT_EQ(left, 99); /* untouched until it is known */
        return HD_PENDING;
    }
    EXPECT_EQ(hd_nursery_look(&self->nursery).live, 0);
    EXPECT_EQ(hd_nursery_wait_poll(&self->nursery, &left), HD_READY); /* again, the same */
    EXPECT_EQ(left, 0);
    *result = hd_nursery_leave(&self->nursery);
    return HD_READY;
}

FIBER_TEST(a_stackless_task_pends_until_all_have_ended)
{
    for (int children = 0; children < 40; children += 13) {
        atomic_int ended = 0, polls = 0;
        const struct poll_owner owner = {.ended = &ended, .polls = &polls, .children = children};
        hd_task *task = rt_spawn_poll(NULL, own_by_poll, &owner, sizeof(owner));
        EXPECT_EQ(rt_join(task), 0);
        EXPECT_EQ(atomic_load(&ended), children);
        /* Woken once, by the last: not polled for each (rarely once more for nothing). */
        EXPECT(atomic_load(&polls) <= 4);
    }
    return 0;
}

struct failing_poll_owner {
    hd_nursery nursery;
    int number;
    bool opened;
};

static hd_poll own_failure_by_poll(void *state, int *result)
{
    struct failing_poll_owner *self = state;
    if (!self->opened) {
        self->opened = true;
        nur_open(&self->nursery, NULL);
        nur_go(&self->nursery, nur_park, NULL);
        nur_go(&self->nursery, nur_return, &self->number);
    }
    int left;
    if (hd_nursery_wait_poll(&self->nursery, &left) == HD_PENDING) return HD_PENDING;
    EXPECT_EQ(hd_nursery_look(&self->nursery).cancelled, 1);
    EXPECT_EQ(hd_nursery_leave(&self->nursery), left);
    EXPECT(!hd_cancelled());
    *result = left;
    return HD_READY;
}

FIBER_TEST(a_stackless_owner_learns_of_a_failure)
{
    const struct failing_poll_owner owner = {.number = -EIO};
    EXPECT_EQ(rt_join(rt_spawn_poll(NULL, own_failure_by_poll, &owner, sizeof(owner))), -EIO);
    return 0;
}

TEST_WORLDS(a_thread_waits, options)
{
    hd_runtime *runtime = rt_create(options);
    atomic_int ended = 0;
    for (int round = 0; round < 20; round++) {
        HD_NURSERY(n, .runtime = runtime) {
            for (int i = 0; i < 10; i++) nur_go(n, count_up, &ended);
        }
        EXPECT_EQ(hd_nursery_result(), 0);
        EXPECT_EQ(atomic_load(&ended), 10 * (round + 1));
    }
    hd_runtime_destroy(runtime);
}

/* Its body is not a task's: nothing ends its own waits. */
TEST_WORLDS(the_body_of_a_thread_is_not_cancelled, options)
{
    hd_runtime *runtime = rt_create(options);
    int number = -EIO;
    HD_NURSERY(n, .runtime = runtime) {
        nur_go(n, nur_return, &number);
        EXPECT_EQ(hd_sleep_until(hd_now(runtime) + 2 * MS), 0);
        EXPECT(!hd_cancelled());
        EXPECT_CAUSE(hd_self_cause(), HD_REASON_NONE, HD_REASON_NONE);
    }
    EXPECT_EQ(hd_nursery_result(), -EIO);
    hd_runtime_destroy(runtime);
}

TEST_WORLDS(nurseries_nest_on_a_thread, options)
{
    hd_runtime *runtime = rt_create(options);
    HD_NURSERY(outer, .runtime = runtime) {
        nur_go(outer, nur_park, NULL);
        HD_NURSERY(inner, .runtime = runtime) {
            nur_go(inner, nur_park, NULL);
            hd_nursery_cancel(inner);
        }
        EXPECT_EQ(hd_nursery_result(), -ECANCELED);
        EXPECT_STATE(outer, HD_NURSERY_OPEN);
        HD_NURSERY(inner, .runtime = runtime) {
            nur_go(inner, nur_park, NULL);
            hd_nursery_cancel(outer); /* and what was opened inside it */
        }
        EXPECT_EQ(hd_nursery_result(), -ECANCELED);
    }
    EXPECT_EQ(hd_nursery_result(), -ECANCELED);
    hd_runtime_destroy(runtime);
}

/* ---- in sim nothing is waited for in vain ---- */

TEST(in_sim_a_thread_learns_that_children_can_never_end)
{
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_SIM};
    hd_runtime *runtime = rt_create(&options);
    const hd_nursery_options of = {.size = sizeof(of), .runtime = runtime};
    struct nur_actor stuck;
    hd_nursery n;
    nur_open(&n, &of);
    nur_go_actor(&n, &stuck);
    EXPECT_EQ(hd_nursery_wait(&n), -EDEADLK);
    EXPECT_EQ(hd_nursery_leave(&n), -EDEADLK); /* and it is still there */
    EXPECT_STATE(&n, HD_NURSERY_CLOSING);
    EXPECT_EQ(hd_nursery_look(&n).live, 1);
    nur_let_end(&stuck, 6);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), 0);
    hd_runtime_destroy(runtime);
}

/* ---- where children run ---- */

static int expect_dispatcher(void *dispatcher)
{
    EXPECT(hd_dispatcher_self() == dispatcher);
    hd_yield();
    EXPECT(hd_dispatcher_self() == dispatcher);
    return 0;
}

FIBER_TEST(children_may_live_on_other_dispatchers)
{
    hd_dispatcher *single = NULL;
    EXPECT_EQ(hd_dispatcher_single(&single, NULL), 0);
    hd_dispatcher *homes[] = {hd_dispatcher_self(), single, hd_dispatcher_io(NULL)};
    HD_NURSERY(n) {
        for (int i = 0; i < 12; i++) {
            hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
            options.nursery = n;
            options.dispatcher = homes[i % 3];
            EXPECT_EQ(hd_spawn_with(NULL, expect_dispatcher, homes[i % 3], &options), 0);
        }
    }
    EXPECT_EQ(hd_nursery_result(), 0);
    hd_dispatcher_unref(single);
    return 0;
}

FIBER_TEST(the_owner_may_move_while_it_is_open)
{
    hd_dispatcher *other = NULL;
    EXPECT_EQ(hd_dispatcher_single(&other, NULL), 0);
    atomic_int ended = 0;
    HD_NURSERY(n) {
        nur_go(n, count_up, &ended);
        HD_ON(other) {
            nur_go(n, count_up, &ended); /* on the other one */
            HD_NURSERY(inner) nur_go(inner, count_up, &ended);
        }
        nur_go(n, count_up, &ended);
    }
    EXPECT_EQ(atomic_load(&ended), 4);
    hd_dispatcher_unref(other);
    return 0;
}

FIBER_TEST(a_child_that_runs_at_once_in_the_spawn_itself)
{
    atomic_int ended = 0;
    HD_NURSERY(n) {
        hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
        options.nursery = n;
        options.dispatcher = hd_dispatcher_unconfined();
        for (int i = 0; i < 5; i++) {
            EXPECT_EQ(hd_spawn_with(NULL, nur_nothing, NULL, &options), 0);
            EXPECT_EQ(hd_spawn_with(NULL, count_up, &ended, &options), 0);
        }
    }
    EXPECT_EQ(atomic_load(&ended), 5);
    EXPECT_EQ(hd_nursery_result(), 0);
    return 0;
}

FIBER_TEST(pinned_children)
{
    atomic_int ended = 0;
    HD_NURSERY(n) {
        for (int i = 0; i < 4; i++) hd_detach(nur_spawn(n, count_up, &ended, NULL, HD_PINNED));
    }
    EXPECT_EQ(atomic_load(&ended), 4);
    return 0;
}

static int block_shortly(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 3;
}

static int child_that_blocks(void *arg)
{
    int result = 0;
    const int err = hd_blocking(block_shortly, arg, &result);
    return err ? err : result;
}

FIBER_TEST(children_that_block_a_thread)
{
    atomic_int called = 0;
    HD_NURSERY(n) {
        for (int i = 0; i < 5; i++) nur_go(n, child_that_blocks, &called);
    }
    EXPECT_EQ(hd_nursery_result(), 0);
    EXPECT_EQ(atomic_load(&called), 5);
    return 0;
}

/* ---- together with channels ---- */

struct pipeline {
    hd_chan *numbers, *squares;
    int64_t sum;
};

static int produce(void *arg)
{
    struct pipeline *p = arg;
    for (int i = 1; i <= 100; i++) {
        const int err = hd_chan_send(p->numbers, &i);
        if (err) return err;
    }
    (void)hd_chan_close(p->numbers);
    return 0;
}

static int square(void *arg)
{
    struct pipeline *p = arg;
    int number, err;
    while ((err = hd_chan_recv(p->numbers, &number)) == 0) {
        number *= number;
        err = hd_chan_send(p->squares, &number);
        if (err) return err;
    }
    return err == -EPIPE ? 0 : err;
}

static int sum_up(void *arg)
{
    struct pipeline *p = arg;
    int number;
    while (hd_chan_recv(p->squares, &number) == 0) p->sum += number;
    return 0;
}

FIBER_TEST(a_pipeline_of_nested_nurseries)
{
    struct pipeline p = {hd_chan_create(sizeof(int), 2), hd_chan_create(sizeof(int), 0), 0};
    HD_NURSERY(outer) {
        nur_go(outer, sum_up, &p);
        HD_NURSERY(inner) {
            nur_go(inner, produce, &p);
            for (int i = 0; i < 4; i++) nur_go(inner, square, &p);
        }
        EXPECT_EQ(hd_nursery_result(), 0);
        (void)hd_chan_close(p.squares);
    }
    EXPECT_EQ(hd_nursery_result(), 0);
    EXPECT_EQ(p.sum, 338350);
    hd_chan_destroy(p.numbers);
    hd_chan_destroy(p.squares);
    return 0;
}

/* ---- the end of the runtime ---- */

static int tree_of_parked(void *arg)
{
    const int depth = *(const int *)arg;
    int next = depth - 1;
    hd_nursery n;
    nur_open(&n, NULL);
    for (int i = 0; depth > 0 && i < 2; i++) nur_go(&n, tree_of_parked, &next);
    if (depth == 0) nur_go(&n, nur_park, NULL);
    return hd_nursery_leave(&n);
}

TEST_WORLDS(a_shutdown_ends_open_nurseries, options)
{
    hd_runtime *runtime = rt_create(options);
    int depth = 4;
    hd_task *task = rt_spawn(runtime, tree_of_parked, &depth);
    hd_stats stats;
    do {
        EXPECT_EQ(hd_sleep_until(hd_now(runtime) + MS), 0);
        hd_runtime_stats(runtime, &stats);
    } while (stats.submitted < 31 + 16);
    EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0);
    hd_runtime_stats(runtime, &stats);
    EXPECT_EQ(stats.alive, 0);
    EXPECT_EQ(rt_join(task), -ECANCELED);
    hd_runtime_destroy(runtime);
}

TEST_WORLDS(a_shutdown_ends_the_children_of_a_thread_too, options)
{
    hd_runtime *runtime = rt_create(options);
    const hd_nursery_options of = {.size = sizeof(of), .runtime = runtime};
    hd_nursery n;
    nur_open(&n, &of);
    for (int i = 0; i < 4; i++) nur_go(&n, nur_park, NULL);
    EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0);
    EXPECT_EQ(hd_nursery_look(&n).live, 0);
    const int err = hd_go(&n, nur_nothing, NULL);
    EXPECT(err == -ESHUTDOWN || err == -ECANCELED);
    EXPECT_EQ(hd_nursery_wait(&n), -ECANCELED); /* They returned it. */
    EXPECT_EQ(hd_nursery_leave(&n), -ECANCELED);
    hd_runtime_destroy(runtime);
}

/* What a nursery's end promises: its tasks are gone, not only done. */
static int drained_when_left(void *arg)
{
    (void)arg;
    for (int round = 0; round < 20; round++) {
        HD_NURSERY(n) {
            for (int i = 0; i < 10; i++) nur_go(n, nur_nothing, NULL);
        }
        hd_stats stats;
        hd_runtime_stats(hd_runtime_self(), &stats);
        EXPECT_EQ(stats.submitted, 1 + 10 * (round + 1));
        EXPECT_EQ(stats.alive, 1);
    }
    return 0;
}

TEST_WORLDS(a_nursery_left_leaves_no_task_alive, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(drained_when_left, NULL, &one);
}

/* ---- runtimes beside each other ---- */

static int nursery_in_each(void *arg)
{
    atomic_int *ended = arg;
    for (int i = 0; i < 10; i++) {
        HD_NURSERY(n) {
            for (int k = 0; k < 5; k++) nur_go(n, count_up, ended);
        }
    }
    return hd_nursery_result();
}

struct beside {
    const hd_options *options;
    atomic_int ended;
};

static void *run_beside(void *arg)
{
    struct beside *b = arg;
    rt_run(nursery_in_each, &b->ended, b->options);
    return NULL;
}

TEST_WORLDS(several_runtimes_have_nurseries_at_once, options)
{
    struct beside besides[3];
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        besides[i] = (struct beside){.options = options};
        EXPECT_EQ(pthread_create(&threads[i], NULL, run_beside, &besides[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
        EXPECT_EQ(atomic_load(&besides[i].ended), 50);
    }
}
