/* SPDX-License-Identifier: MIT
 *
 * Cancelling: it arrives at waits, stays, and is deferred by shields.
 */
#include "rt.h"

#include <pthread.h>

TEST_MAIN

static int park_once(void *arg)
{
    atomic_int *asleep = arg;
    EXPECT(!hd_cancelled());
    atomic_store(asleep, 1);
    const int err = hd_park();
    EXPECT(err != -ECANCELED || hd_cancelled());
    return err;
}

TEST_WORLDS(a_sleeping_fiber_wakes_with_it, options)
{
    const hd_options one = rt_workers(options, 1);
    hd_runtime *runtime = rt_create(&one);
    atomic_int asleep = 0;
    hd_task *task = rt_spawn(runtime, park_once, &asleep);
    rt_await(runtime, &asleep);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), -ECANCELED);
    hd_runtime_destroy(runtime);
}

/* ---- before and during a run ---- */

static int see_it_at_once(void *arg)
{
    (void)arg;
    EXPECT(hd_cancelled());
    return hd_park();
}

static hd_poll see_it_at_once_poll(void *state, int *result)
{
    (void)state;
    *result = hd_cancelled() ? 1 : 0;
    return HD_READY;
}

static int cancel_before_first_run(void *arg)
{
    (void)arg;
    hd_task *fiber = rt_spawn(NULL, see_it_at_once, NULL);
    hd_task *poll = rt_spawn_poll(NULL, see_it_at_once_poll, NULL, 0);
    hd_cancel(fiber);
    hd_cancel(poll);
    EXPECT_EQ(rt_join(fiber), -ECANCELED); /* it ran all the same */
    EXPECT_EQ(rt_join(poll), 1);
    return 0;
}

TEST_WORLDS(a_task_cancelled_before_its_first_run_still_runs, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(cancel_before_first_run, NULL, &one);
}

static int yield_until_cancelled(void *arg)
{
    atomic_int *running = arg;
    atomic_store(running, 1);
    while (!hd_cancelled()) hd_yield();
    return 8;
}

TEST_WORLDS(a_running_fiber_sees_it, options)
{
    hd_runtime *runtime = rt_create(options);
    atomic_int running = 0;
    hd_task *task = rt_spawn(runtime, yield_until_cancelled, &running);
    rt_await(runtime, &running);
    hd_cancel(task);
    hd_cancel(task); /* twice is once */
    EXPECT_EQ(rt_join(task), 8);
    hd_runtime_destroy(runtime);
}

static void *cancel_it(void *task)
{
    hd_cancel(task);
    return NULL;
}

TEST_WORLDS(another_thread_cancels, options)
{
    hd_runtime *runtime = rt_create(options);
    for (int i = 0; i < 20; i++) {
        atomic_int asleep = 0;
        hd_task *task = rt_spawn(runtime, i % 2 ? park_once : yield_until_cancelled, &asleep);
        rt_await(runtime, &asleep);
        pthread_t thread;
        EXPECT_EQ(pthread_create(&thread, NULL, cancel_it, task), 0);
        EXPECT_EQ(pthread_join(thread, NULL), 0);
        EXPECT_EQ(rt_join(task), i % 2 ? -ECANCELED : 8);
    }
    hd_runtime_destroy(runtime);
}

static int nothing(void *arg)
{
    (void)arg;
    return 4;
}

TEST_WORLDS(a_task_that_ended_is_not_touched, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_task *task = rt_spawn(runtime, nothing, NULL);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), 4);
    hd_runtime_destroy(runtime);
}

/* ---- level-triggered ---- */

static int cancelled_for_good(void *arg)
{
    (void)arg;
    while (!hd_cancelled()) hd_yield();
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(hd_park(), -ECANCELED);
        hd_waker_wake(hd_waker_self()); /* a wake does not buy a park */
        EXPECT_EQ(hd_park(), -ECANCELED);
        EXPECT(hd_cancelled());
        hd_yield(); /* yields are not waits */
    }
    return 6;
}

TEST_WORLDS(every_later_wait_says_it_again, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_task *task = rt_spawn(runtime, cancelled_for_good, NULL);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), 6);
    hd_runtime_destroy(runtime);
}

static int spawn_while_cancelled(void *arg)
{
    (void)arg;
    while (!hd_cancelled()) hd_yield();
    hd_task *child = rt_spawn(NULL, nothing, NULL);
    EXPECT_EQ(hd_shield(), 0);
    EXPECT_EQ(rt_join(child), 4); /* the child is not cancelled with it */
    EXPECT_EQ(hd_unshield(), 0);
    return 0;
}

TEST_WORLDS(a_cancelled_fiber_can_still_spawn, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_task *task = rt_spawn(runtime, spawn_while_cancelled, NULL);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), 0);
    hd_runtime_destroy(runtime);
}

/* ---- shields ---- */

struct shielded {
    atomic_int asleep, set;
    hd_waker waker;
    int depth;
};

static int park_shielded(void *arg)
{
    struct shielded *self = arg;
    for (int i = 0; i < self->depth; i++) EXPECT_EQ(hd_shield(), 0);
    self->waker = hd_waker_self();
    atomic_store(&self->asleep, 1);
    while (!atomic_load(&self->set)) {
        EXPECT_EQ(hd_park(), 0);
        EXPECT(!hd_cancelled());
    }
    for (int i = 1; i < self->depth; i++) {
        EXPECT_EQ(hd_unshield(), 0);
        EXPECT(!hd_cancelled());
        hd_waker_wake(hd_waker_self());
        EXPECT_EQ(hd_park(), 0);
    }
    EXPECT_EQ(hd_unshield(), 0);
    EXPECT(hd_cancelled());
    EXPECT_EQ(hd_unshield(), -EINVAL);
    return hd_park();
}

TEST_WORLDS(a_shield_defers_it_until_the_last_is_dropped, options)
{
    const hd_options one = rt_workers(options, 1);
    for (int depth = 1; depth <= 3; depth++) {
        hd_runtime *runtime = rt_create(&one);
        struct shielded self = {.depth = depth};
        hd_task *task = rt_spawn(runtime, park_shielded, &self);
        rt_await(runtime, &self.asleep);
        hd_cancel(task);
        int result = -1;
        /* It may have come round once, and sleeps again. */
        EXPECT_EQ(hd_join_until(task, &result, hd_now(runtime) + 1000000), -ETIMEDOUT);
        atomic_store(&self.set, 1);
        hd_waker_wake(self.waker);
        EXPECT_EQ(rt_join(task), -ECANCELED);
        hd_runtime_destroy(runtime);
    }
}

static int shield_to_the_limit(void *arg)
{
    (void)arg;
    EXPECT_EQ(hd_unshield(), -EINVAL);
    for (int i = 0; i < 255; i++) EXPECT_EQ(hd_shield(), 0);
    EXPECT_EQ(hd_shield(), -EOVERFLOW);
    for (int i = 0; i < 255; i++) EXPECT_EQ(hd_unshield(), 0);
    EXPECT_EQ(hd_unshield(), -EINVAL);
    return 0;
}

TEST_WORLDS(shields_nest_255_deep, options)
{
    rt_run(shield_to_the_limit, NULL, options);
}

TEST(outside_any_task_there_are_no_shields)
{
    EXPECT_EQ(hd_shield(), -EINVAL);
    EXPECT_EQ(hd_unshield(), -EINVAL);
}

struct shielded_poll {
    atomic_int *pending;
    int polls;
};

/* Cancelled while shielded: told once, not cancelled; after its unshield told again. */
static hd_poll unshield_and_pend(void *state, int *result)
{
    struct shielded_poll *self = state;
    switch (self->polls++) {
    case 0:
        EXPECT_EQ(hd_shield(), 0);
        atomic_store(self->pending, 1);
        return HD_PENDING;
    case 1:
        EXPECT(!hd_cancelled());
        EXPECT_EQ(hd_unshield(), 0);
        EXPECT(hd_cancelled());
        return HD_PENDING;
    default:
        EXPECT(hd_cancelled());
        *result = self->polls;
        return HD_READY;
    }
}

TEST_WORLDS(a_stackless_task_is_polled_again_when_it_drops_its_shield, options)
{
    const hd_options one = rt_workers(options, 1);
    hd_runtime *runtime = rt_create(&one);
    atomic_int pending = 0;
    struct shielded_poll state = {.pending = &pending};
    hd_task *task = rt_spawn_poll(runtime, unshield_and_pend, &state, sizeof(state));
    rt_await(runtime, &pending);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), 3);
    hd_runtime_destroy(runtime);
}

static hd_poll sleep_until_cancelled(void *state, int *result)
{
    atomic_store(*(atomic_int **)state, 1);
    if (!hd_cancelled()) return HD_PENDING;
    *result = -ECANCELED;
    return HD_READY;
}

TEST_WORLDS(a_sleeping_stackless_task_is_polled, options)
{
    hd_runtime *runtime = rt_create(options);
    atomic_int pending = 0, *at = &pending;
    hd_task *task = rt_spawn_poll(runtime, sleep_until_cancelled, &at, sizeof(at));
    rt_await(runtime, &pending);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), -ECANCELED);
    hd_runtime_destroy(runtime);
}

/* ---- joins ---- */

struct joiner {
    hd_task *task;
    atomic_int waiting, *set;
};

static int join_and_be_cancelled(void *arg)
{
    struct joiner *self = arg;
    int result = -1;
    atomic_store(&self->waiting, 1);
    EXPECT_EQ(hd_join(self->task, &result), -ECANCELED);
    EXPECT_EQ(hd_join(self->task, &result), -ECANCELED);
    EXPECT_EQ(result, -1);
    EXPECT_EQ(hd_join_try(self->task, &result), -EAGAIN); /* the handle is still there */
    EXPECT_EQ(hd_shield(), 0);
    atomic_store(self->set, 1);
    EXPECT_EQ(hd_join(self->task, &result), 0);
    EXPECT_EQ(hd_unshield(), 0);
    return result;
}

static int end_when_set(void *arg)
{
    rt_until(arg);
    return 31;
}

TEST_WORLDS(a_cancelled_join_leaves_the_handle, options)
{
    const hd_options one = rt_workers(options, 1);
    hd_runtime *runtime = rt_create(&one);
    atomic_int set = 0;
    struct joiner joiner = {.task = rt_spawn(runtime, end_when_set, &set), .set = &set};
    hd_task *task = rt_spawn(runtime, join_and_be_cancelled, &joiner);
    rt_await(runtime, &joiner.waiting);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), 31);
    hd_runtime_destroy(runtime);
}

static int join_what_ended(void *arg)
{
    while (!hd_cancelled()) hd_yield();
    int result = 0;
    EXPECT_EQ(hd_join(arg, &result), 0);
    return result;
}

TEST_WORLDS(a_cancelled_fiber_joins_what_has_ended, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_task *ended = rt_spawn(runtime, nothing, NULL);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    hd_task *task = rt_spawn(runtime, join_what_ended, ended);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), 4);
    hd_runtime_destroy(runtime);
}

struct race {
    hd_task *ending, *joining;
    atomic_int waiting, ended;
};

static int end_and_say_so(void *arg)
{
    struct race *race = arg;
    rt_until(&race->waiting);
    atomic_store(&race->ended, 1);
    return 17; /* with one worker, complete before anybody reads the flag */
}

static int join_in_race(void *arg)
{
    struct race *race = arg;
    atomic_store(&race->waiting, 1);
    int result = 0;
    EXPECT_EQ(hd_join(race->ending, &result), 0);
    return result;
}

static int cancel_after_the_end(void *arg)
{
    struct race *race = arg;
    rt_until(&race->ended);
    hd_cancel(race->joining);
    return 0;
}

static int run_race(void *arg)
{
    (void)arg;
    struct race race = {.ended = 0};
    hd_task *canceller = rt_spawn(NULL, cancel_after_the_end, &race);
    race.ending = rt_spawn(NULL, end_and_say_so, &race);
    race.joining = rt_spawn(NULL, join_in_race, &race);
    EXPECT_EQ(rt_join(canceller), 0);
    EXPECT_EQ(rt_join(race.joining), 17);
    return 0;
}

TEST_WORLDS(what_has_ended_beats_a_cancel_that_came_after, options)
{
    const hd_options one = rt_workers(options, 1);
    for (int i = 0; i < 10; i++) rt_run(run_race, NULL, &one);
}
