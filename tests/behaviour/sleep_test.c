/* SPDX-License-Identifier: MIT
 *
 * Sleeping: a fiber's and a thread's, never early, ended by a cancel; and joins that time
 * ends, in fibers.
 */
#include "rt.h"

#include <pthread.h>

TEST_MAIN

#define MS     INT64_C(1000000)
#define SECOND (1000 * MS)
#define HOUR   (3600 * SECOND)

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

/* ---- never early ---- */

static int sleep_in_steps(void *arg)
{
    (void)arg;
    static const int64_t steps[] = {1, 10, 999, 1000, 1001, 50000, 500000, MS, 2 * MS + 7, 5 * MS};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        const int64_t deadline = hd_now(NULL) + steps[i];
        EXPECT_EQ(hd_sleep_until(deadline), 0);
        EXPECT(hd_now(NULL) >= deadline);
    }
    const int64_t before = hd_now(NULL);
    EXPECT_EQ(hd_sleep_ms(3), 0);
    EXPECT(hd_now(NULL) >= before + 3 * MS);
    return 0;
}

TEST_WORLDS(a_fiber_sleeps_and_is_never_early, options)
{
    rt_run(sleep_in_steps, NULL, options);
}

TEST_WORLDS(a_thread_sleeps_and_is_never_early, options)
{
    hd_runtime *runtime = rt_create(options);
    EXPECT_EQ(sleep_in_steps(NULL), 0);
    if (rt_is_sim(options)) EXPECT(hd_now(runtime) >= 10 * MS); /* It drove that one's clock. */
    hd_runtime_destroy(runtime);
}

TEST(a_thread_sleeps_without_a_runtime)
{
    EXPECT_EQ(sleep_in_steps(NULL), 0);
}

static int sleep_not_at_all(void *arg)
{
    (void)arg;
    EXPECT_EQ(hd_sleep_until(hd_now(NULL)), 0);
    EXPECT_EQ(hd_sleep_until(hd_now(NULL) - 1), 0);
    EXPECT_EQ(hd_sleep_until(HD_NOW), 0);
    EXPECT_EQ(hd_sleep_until(-5), 0);
    EXPECT_EQ(hd_sleep_until(INT64_MIN), 0);
    EXPECT_EQ(hd_sleep_ms(0), 0);
    EXPECT_EQ(hd_sleep_ms(-1), 0);
    EXPECT_EQ(hd_sleep_ms(INT64_MIN), 0);
    return 0;
}

TEST_WORLDS(what_is_past_is_not_waited_for, options)
{
    rt_run(sleep_not_at_all, NULL, options);
    hd_runtime *runtime = rt_create(options);
    EXPECT_EQ(sleep_not_at_all(NULL), 0);
    hd_runtime_destroy(runtime);
}

static hd_poll sleep_in_poll(void *state, int *result)
{
    (void)state;
    EXPECT_EQ(hd_sleep_until(hd_now(NULL) + HOUR), -EINVAL);
    EXPECT_EQ(hd_sleep_ms(1000000), -EINVAL);
    *result = 4;
    return HD_READY;
}

TEST_WORLDS(a_stackless_task_cannot_sleep_so, options)
{
    hd_runtime *runtime = rt_create(options);
    EXPECT_EQ(rt_join(rt_spawn_poll(runtime, sleep_in_poll, NULL, 0)), 4);
    hd_runtime_destroy(runtime);
}

/* ---- many ---- */

enum { SLEEPERS = 200 };

struct dorm {
    int64_t start;
    atomic_int awake;
    int order[SLEEPERS];
};

struct sleeper {
    struct dorm *dorm;
    int64_t deadline;
    int index;
};

static int sleep_as_told(void *arg)
{
    struct sleeper *self = arg;
    EXPECT_EQ(hd_sleep_until(self->deadline), 0);
    EXPECT(hd_now(NULL) >= self->deadline);
    self->dorm->order[atomic_fetch_add(&self->dorm->awake, 1)] = self->index;
    return 0;
}

static int fill_dorm(void *arg)
{
    const bool sim = *(bool *)arg;
    static struct dorm dorm;
    static struct sleeper sleepers[SLEEPERS];
    hd_task *tasks[SLEEPERS];
    dorm = (struct dorm){.start = hd_now(NULL) + (sim ? SECOND : 2 * MS)};
    for (int i = 0; i < SLEEPERS; i++) {
        const int place = i * 77 % SLEEPERS; /* each once */
        sleepers[i] = (struct sleeper){&dorm, dorm.start + place * (sim ? MS : MS / 100), place};
        tasks[i] = rt_spawn(NULL, sleep_as_told, &sleepers[i]);
    }
    for (int i = 0; i < SLEEPERS; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    EXPECT_EQ(atomic_load(&dorm.awake), SLEEPERS);
    /* In live several may be due at once, and the workers share them. */
    for (int i = 0; i < SLEEPERS && sim; i++) EXPECT_EQ(dorm.order[i], i);
    return 0;
}

TEST_WORLDS(many_sleepers_wake_in_the_order_of_their_deadlines, options)
{
    bool sim = rt_is_sim(options);
    rt_run(fill_dorm, &sim, options);
}

/* ---- others meanwhile ---- */

struct nap {
    atomic_int over;
    int yields;
};

static int nap_a_little(void *arg)
{
    struct nap *nap = arg;
    EXPECT_EQ(hd_sleep_until(hd_now(NULL) + MS), 0);
    atomic_store(&nap->over, 1);
    return 0;
}

static int yield_meanwhile(void *arg)
{
    struct nap *nap = arg;
    hd_task *task = rt_spawn(NULL, nap_a_little, nap);
    for (; !atomic_load(&nap->over); nap->yields++) hd_yield();
    return rt_join(task);
}

/* The worker never runs out of work, and must look at its timers all the same. */
TEST_WORLDS(a_busy_worker_wakes_its_sleepers, options)
{
    const hd_options one = rt_workers(options, 1);
    struct nap nap = {.over = 0};
    rt_run(yield_meanwhile, &nap, &one);
    EXPECT(nap.yields > 0);
}

static int wake_in_vain(void *arg)
{
    const hd_waker *waker = arg;
    for (int i = 0; i < 20; i++) {
        hd_waker_wake_keep(*waker);
        hd_yield();
    }
    return 0;
}

static int sleep_through_wakes(void *arg)
{
    (void)arg;
    hd_waker self = hd_waker_self();
    hd_task *task = rt_spawn(NULL, wake_in_vain, &self);
    const int64_t deadline = hd_now(NULL) + MS;
    EXPECT_EQ(hd_sleep_until(deadline), 0);
    EXPECT(hd_now(NULL) >= deadline);
    EXPECT_EQ(rt_join(task), 0);
    hd_waker_drop(self);
    return 0;
}

TEST_WORLDS(a_wake_does_not_end_a_sleep, options)
{
    rt_run(sleep_through_wakes, NULL, options);
}

/* ---- cancelled ---- */

struct victim {
    int64_t deadline;
    atomic_int ready;
    int64_t woke;
    bool shielded;
};

static int sleep_until_cancelled(void *arg)
{
    struct victim *self = arg;
    if (self->shielded) EXPECT_EQ(hd_shield(), 0);
    atomic_store(&self->ready, 1);
    int err = hd_sleep_until(self->deadline);
    self->woke = hd_now(NULL);
    if (self->shielded) {
        EXPECT_EQ(err, 0);
        EXPECT_EQ(hd_unshield(), 0);
        err = hd_sleep_until(hd_now(NULL) + HOUR);
    }
    /* It stays cancelled, whatever the deadline. */
    EXPECT_EQ(hd_sleep_until(HD_FOREVER), -ECANCELED);
    EXPECT_EQ(hd_sleep_ms(0), -ECANCELED);
    EXPECT_EQ(hd_sleep_until(INT64_MIN), -ECANCELED);
    return err;
}

static int cancel_sleepers(void *arg)
{
    (void)arg;
    const int64_t far[] = {HD_FOREVER, HD_FOREVER - 1, hd_now(NULL) + HOUR};
    for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++) {
        struct victim victim = {.deadline = far[i]};
        hd_task *task = rt_spawn(NULL, sleep_until_cancelled, &victim);
        rt_until(&victim.ready);
        hd_cancel(task);
        EXPECT_EQ(rt_join(task), -ECANCELED);
        EXPECT(victim.woke < far[i]);
    }
    struct victim early = {.deadline = HD_FOREVER};
    hd_task *task = rt_spawn(NULL, sleep_until_cancelled, &early);
    hd_cancel(task); /* perhaps before its first run */
    EXPECT_EQ(rt_join(task), -ECANCELED);
    return 0;
}

TEST_WORLDS(a_cancel_ends_a_sleep, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(cancel_sleepers, NULL, &one); /* It sleeps by then. */
    rt_run(cancel_sleepers, NULL, options);
}

static int cancel_the_shielded(void *arg)
{
    (void)arg;
    struct victim victim = {.deadline = hd_now(NULL) + 2 * MS, .shielded = true};
    hd_task *task = rt_spawn(NULL, sleep_until_cancelled, &victim);
    rt_until(&victim.ready);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), -ECANCELED);
    EXPECT(victim.woke >= victim.deadline);
    return 0;
}

TEST_WORLDS(a_shielded_sleep_lasts, options)
{
    rt_run(cancel_the_shielded, NULL, options);
}

static int leave_sleepers_behind(void *arg)
{
    struct victim *victims = arg;
    for (int i = 0; i < 10; i++) hd_detach(rt_spawn(NULL, sleep_until_cancelled, &victims[i]));
    return 0;
}

TEST_WORLDS(a_shutdown_ends_sleeps, options)
{
    struct victim victims[10];
    for (int i = 0; i < 10; i++) victims[i] = (struct victim){.deadline = HD_FOREVER - i % 2};
    rt_run(leave_sleepers_behind, victims, options);
    for (int i = 0; i < 10; i++) EXPECT(victims[i].woke > 0);
}

static void *cancel_from_a_thread(void *task)
{
    hd_cancel(task);
    return NULL;
}

TEST_WORLDS(another_thread_cancels_a_sleep, options)
{
    hd_runtime *runtime = rt_create(options);
    struct victim victim = {.deadline = HD_FOREVER - 1};
    hd_task *task = rt_spawn(runtime, sleep_until_cancelled, &victim);
    rt_await(runtime, &victim.ready);
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, cancel_from_a_thread, task), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(rt_join(task), -ECANCELED);
    hd_runtime_destroy(runtime);
}

/* ---- joins that time ends ---- */

static int join_with_deadlines(void *arg)
{
    (void)arg;
    struct victim victim = {.deadline = HD_FOREVER};
    hd_task *task = rt_spawn(NULL, sleep_until_cancelled, &victim);
    int result = -1;
    for (int i = 0; i < 5; i++) {
        const int64_t deadline = hd_now(NULL) + i * MS / 4 + 1;
        EXPECT_EQ(hd_join_until(task, &result, deadline), -ETIMEDOUT);
        EXPECT(hd_now(NULL) >= deadline);
        EXPECT_EQ(result, -1);
    }
    hd_cancel(task);
    EXPECT_EQ(hd_join_until(task, &result, hd_now(NULL) + HOUR), 0);
    EXPECT_EQ(result, -ECANCELED);
    return 0;
}

TEST_WORLDS(a_join_that_timed_out_can_be_tried_again, options)
{
    rt_run(join_with_deadlines, NULL, options);
}

struct chain {
    hd_task *next;
    int64_t deadline;
    atomic_int ready;
    int joined; /* what the join said */
};

static int join_until_told(void *arg)
{
    struct chain *self = arg;
    atomic_store(&self->ready, 1);
    self->joined = hd_join_until(self->next, NULL, self->deadline);
    if (self->joined) hd_cancel(self->next);
    if (self->joined) hd_detach(self->next);
    return self->joined;
}

static struct victim left_behind; /* outlives who joins it */

static int cancel_a_timed_join(void *arg)
{
    (void)arg;
    left_behind = (struct victim){.deadline = HD_FOREVER};
    struct chain chain = {.deadline = hd_now(NULL) + HOUR};
    chain.next = rt_spawn(NULL, sleep_until_cancelled, &left_behind);
    hd_task *task = rt_spawn(NULL, join_until_told, &chain);
    rt_until(&chain.ready);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), -ECANCELED);
    EXPECT_EQ(chain.joined, -ECANCELED);
    return 0;
}

static int time_a_join_out(void *arg)
{
    (void)arg;
    left_behind = (struct victim){.deadline = HD_FOREVER};
    struct chain chain = {.deadline = hd_now(NULL) + MS};
    chain.next = rt_spawn(NULL, sleep_until_cancelled, &left_behind);
    EXPECT_EQ(rt_join(rt_spawn(NULL, join_until_told, &chain)), -ETIMEDOUT);
    EXPECT_EQ(chain.joined, -ETIMEDOUT);
    return 0;
}

TEST_WORLDS(a_join_that_ended_otherwise_leaves_the_handle, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(time_a_join_out, NULL, &one);
    EXPECT(left_behind.woke > 0); /* through the handle it was cancelled */
    rt_run(cancel_a_timed_join, NULL, &one);
    EXPECT(left_behind.woke > 0);
}

static int end_then_join(void *arg)
{
    (void)arg;
    for (int i = 0; i < 50; i++) {
        hd_task *task = rt_spawn(NULL, nothing, NULL);
        if (i % 2) hd_yield();
        EXPECT_EQ(hd_join_until(task, NULL, hd_now(NULL) + HOUR), 0);
    }
    return 0;
}

TEST_WORLDS(an_end_beats_a_far_deadline, options)
{
    rt_run(end_then_join, NULL, options);
}
