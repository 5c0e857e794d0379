/* SPDX-License-Identifier: MIT
 *
 * Timers that wake the task that started them, and HD_AT, the moment as a case of a select.
 */
#include "rt.h"

TEST_MAIN

#define MS   INT64_C(1000000)
#define HOUR (3600000 * MS)

static void park_until_fired(const hd_timer *timer)
{
    while (!hd_timer_fired(timer)) EXPECT_EQ(hd_park(), 0);
}

static void expect_idle(hd_timer *timer, bool fired)
{
    EXPECT(!hd_timer_stop(timer));
    EXPECT_EQ(hd_timer_fired(timer), fired);
}

/* ---- start, stop, fired ---- */

static int fire_and_restart(void *arg)
{
    (void)arg;
    hd_timer timer = {{0}};
    expect_idle(&timer, false); /* zeroed, it is stopped */
    for (int i = 0; i < 5; i++) {
        const int64_t deadline = hd_now(NULL) + i * MS / 4;
        EXPECT_EQ(hd_timer_start(&timer, deadline), 0);
        park_until_fired(&timer);
        EXPECT(hd_now(NULL) >= deadline);
        expect_idle(&timer, true); /* it stays fired until it is started again */
        expect_idle(&timer, true);
    }
    return 0;
}

TEST_WORLDS(a_timer_wakes_its_fiber_each_time_it_is_started, options)
{
    rt_run(fire_and_restart, NULL, options);
}

static int stop_in_time(void *arg)
{
    (void)arg;
    hd_timer timer = {{0}};
    for (int i = 0; i < 5; i++) {
        EXPECT_EQ(hd_timer_start(&timer, i % 2 ? HD_FOREVER : hd_now(NULL) + HOUR), 0);
        EXPECT(!hd_timer_fired(&timer));
        if (i % 3) hd_yield();
        EXPECT(hd_timer_stop(&timer));
        expect_idle(&timer, false);
    }
    EXPECT_EQ(hd_timer_start(&timer, hd_now(NULL) + MS), 0); /* and once more for real */
    park_until_fired(&timer);
    return 0;
}

TEST_WORLDS(a_stopped_timer_has_not_fired_and_can_be_started, options)
{
    rt_run(stop_in_time, NULL, options);
}

static int start_twice(void *arg)
{
    (void)arg;
    hd_timer timer = {{0}};
    const int64_t deadline = hd_now(NULL) + HOUR;
    EXPECT_EQ(hd_timer_start(&timer, deadline), 0);
    EXPECT_EQ(hd_timer_start(&timer, 2 * deadline), -EBUSY);
    EXPECT_EQ(hd_timer_start(&timer, INT64_MIN), -EBUSY);
    hd_yield();
    EXPECT(!hd_timer_fired(&timer)); /* The first deadline holds. */
    if (hd_runtime_world(hd_runtime_self()) == HD_WORLD_SIM) {
        park_until_fired(&timer);
        EXPECT_EQ(hd_now(NULL), deadline);
    }
    (void)hd_timer_stop(&timer);
    return 0;
}

TEST_WORLDS(a_running_timer_cannot_be_started, options)
{
    rt_run(start_twice, NULL, options);
}

static int past_and_far(void *arg)
{
    (void)arg;
    const int64_t past[] = {INT64_MIN, -1, HD_NOW, 1, hd_now(NULL) - 1, hd_now(NULL)};
    hd_timer timer = {{0}}, far[3] = {{{0}}};
    EXPECT_EQ(hd_timer_start(&far[0], HD_FOREVER), 0);
    EXPECT_EQ(hd_timer_start(&far[1], HD_FOREVER - 1), 0);
    EXPECT_EQ(hd_timer_start(&far[2], hd_now(NULL) + 1000 * HOUR), 0);
    for (size_t i = 0; i < sizeof(past) / sizeof(past[0]); i++) {
        EXPECT_EQ(hd_timer_start(&timer, past[i]), 0);
        park_until_fired(&timer);
    }
    for (int i = 0; i < 3; i++) EXPECT(hd_timer_stop(&far[i]));
    return 0;
}

TEST_WORLDS(a_past_deadline_fires_and_a_far_one_does_not, options)
{
    rt_run(past_and_far, NULL, options);
}

TEST_WORLDS(outside_a_task_there_is_nobody_to_wake, options)
{
    hd_timer timer = {{0}};
    EXPECT_EQ(hd_timer_start(&timer, hd_now(NULL) + 1), -EINVAL);
    hd_runtime *runtime = rt_create(options);
    EXPECT_EQ(hd_timer_start(&timer, hd_now(runtime) + 1), -EINVAL);
    hd_runtime_destroy(runtime);
    expect_idle(&timer, false);
}

/* ---- several ---- */

enum { TIMERS = 50 };

static int many_timers(void *arg)
{
    (void)arg;
    hd_timer timers[TIMERS] = {{{0}}};
    int64_t deadlines[TIMERS];
    const int64_t start = hd_now(NULL) + MS;
    for (int i = 0; i < TIMERS; i++) {
        deadlines[i] = start + i * 17 % TIMERS * MS / 20;
        EXPECT_EQ(hd_timer_start(&timers[i], deadlines[i]), 0);
    }
    int running = TIMERS;
    for (int i = 0; i < TIMERS; i += 5) running -= hd_timer_stop(&timers[i]);
    for (int fired = 0; fired < running;) {
        EXPECT_EQ(hd_park(), 0);
        fired = 0;
        for (int i = 0; i < TIMERS; i++) {
            if (!hd_timer_fired(&timers[i])) continue;
            EXPECT(deadlines[i] <= hd_now(NULL));
            fired++;
        }
        EXPECT(fired <= running);
    }
    for (int i = 0; i < TIMERS; i++) EXPECT(!hd_timer_stop(&timers[i]));
    return 0;
}

TEST_WORLDS(one_task_has_several_timers, options)
{
    rt_run(many_timers, NULL, options);
}

/* ---- another fiber stops it ---- */

struct owner {
    hd_timer timer;
    hd_waker waker;
    atomic_int started, stopped;
};

static int stop_and_tell(void *arg)
{
    struct owner *owner = arg;
    rt_until(&owner->started);
    EXPECT(hd_timer_stop(&owner->timer));
    EXPECT(!hd_timer_stop(&owner->timer));
    EXPECT(!hd_timer_fired(&owner->timer));
    atomic_store(&owner->stopped, 1);
    hd_waker_wake(owner->waker);
    return 0;
}

static int be_stopped(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        struct owner owner = {.waker = hd_waker_self()};
        hd_task *task = rt_spawn(NULL, stop_and_tell, &owner);
        EXPECT_EQ(hd_timer_start(&owner.timer, hd_now(NULL) + HOUR), 0);
        atomic_store(&owner.started, 1);
        while (!atomic_load(&owner.stopped)) {
            EXPECT_EQ(hd_park(), 0);
            EXPECT(!hd_timer_fired(&owner.timer)); /* also while it is being stopped */
        }
        EXPECT_EQ(rt_join(task), 0);
        EXPECT_EQ(hd_timer_start(&owner.timer, hd_now(NULL) + 1), 0);
        park_until_fired(&owner.timer);
    }
    return 0;
}

TEST_WORLDS(another_fiber_stops_it, options)
{
    const hd_options two = rt_workers(options, 2);
    rt_run(be_stopped, NULL, &two);
}

/* ---- other waits ---- */

static int wait_for_flag(void *arg)
{
    rt_until(arg);
    return 8;
}

static int join_through_timers(void *arg)
{
    (void)arg;
    atomic_int flag = 0;
    hd_timer timers[3] = {{{0}}};
    hd_task *task = rt_spawn(NULL, wait_for_flag, &flag);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(hd_timer_start(&timers[i], hd_now(NULL) + i * MS / 10), 0);
    }
    int result = 0;
    EXPECT_EQ(hd_join_until(task, &result, hd_now(NULL) + MS), -ETIMEDOUT);
    for (int i = 0; i < 3; i++) expect_idle(&timers[i], true); /* they fired meanwhile */
    atomic_store(&flag, 1);
    EXPECT_EQ(rt_join(task), 8);
    return 0;
}

TEST_WORLDS(a_timer_does_not_end_another_wait, options)
{
    rt_run(join_through_timers, NULL, options);
}

static int park_while_cancelled(void *arg)
{
    atomic_int *ready = arg;
    hd_timer far = {{0}}, near = {{0}};
    EXPECT_EQ(hd_timer_start(&far, HD_FOREVER - 1), 0);
    EXPECT_EQ(hd_timer_start(&near, hd_now(NULL) + MS), 0);
    atomic_store(ready, 1);
    while (hd_park() == 0) continue;
    EXPECT(hd_timer_stop(&far)); /* A cancel stops no timer. */
    while (!hd_timer_fired(&near)) hd_yield();
    return 0;
}

static int cancel_the_owner(void *arg)
{
    (void)arg;
    atomic_int ready = 0;
    hd_task *task = rt_spawn(NULL, park_while_cancelled, &ready);
    rt_until(&ready);
    hd_cancel(task);
    return rt_join(task);
}

TEST_WORLDS(a_cancel_stops_no_timer, options)
{
    rt_run(cancel_the_owner, NULL, options);
}

/* ---- stackless ---- */

struct poller {
    hd_timer timer;
    int64_t deadline;
    int rounds, polls;
};

static hd_poll poll_until_fired(void *state, int *result)
{
    struct poller *self = state;
    self->polls++;
    while (self->rounds < 5) {
        if (!self->deadline) {
            self->deadline = hd_now(NULL) + MS / 4;
            EXPECT_EQ(hd_timer_start(&self->timer, self->deadline), 0);
        }
        if (!hd_timer_fired(&self->timer)) return HD_PENDING;
        EXPECT(hd_now(NULL) >= self->deadline);
        self->deadline = 0;
        self->rounds++;
    }
    EXPECT_EQ(hd_timer_start(&self->timer, HD_FOREVER), 0);
    EXPECT_EQ(hd_timer_start(&self->timer, HD_FOREVER), -EBUSY);
    EXPECT(hd_timer_stop(&self->timer));
    *result = self->polls;
    return HD_READY;
}

TEST_WORLDS(a_timer_wakes_a_stackless_task, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_task *task = rt_spawn_poll(runtime, poll_until_fired, NULL, sizeof(struct poller));
    const int polls = rt_join(task);
    if (rt_is_sim(options)) EXPECT_EQ(polls, 6); /* one for each wake, and the first */
    hd_runtime_destroy(runtime);
}

/* ---- HD_AT ---- */

static int select_moments(void *arg)
{
    (void)arg;
    const int64_t now = hd_now(NULL);
    hd_case cases[] = {HD_AT(now + 2 * HOUR), HD_NEVER, HD_AT(now + 3 * HOUR), HD_AT(now + HOUR)};
    EXPECT_EQ(hd_select_until(cases, 4, 0, HD_NOW), -EAGAIN);
    cases[2] = (hd_case)HD_AT(now + MS);
    EXPECT_EQ(hd_select(cases, 4), 2); /* the earliest */
    EXPECT_EQ(cases[2].result, 0);
    EXPECT(hd_now(NULL) >= now + MS);
    cases[2] = (hd_case)HD_NEVER;
    cases[0] = (hd_case)HD_AT(now + 2 * MS);
    EXPECT_EQ(hd_select(cases, 4), 0);
    EXPECT(hd_now(NULL) >= now + 2 * MS);
    EXPECT_EQ(hd_select_until(cases, 4, 0, HD_NOW), 0); /* It is past now. */
    cases[0] = (hd_case)HD_NEVER;
    const int64_t deadline = hd_now(NULL) + MS;
    EXPECT_EQ(hd_select_until(cases, 4, 0, deadline), -ETIMEDOUT);
    EXPECT(hd_now(NULL) >= deadline);
    return 0;
}

TEST_WORLDS(the_earliest_moment_is_the_case_that_happens, options)
{
    rt_run(select_moments, NULL, options);
    hd_runtime *runtime = rt_create(options);
    EXPECT_EQ(select_moments(NULL), 0); /* a thread */
    hd_runtime_destroy(runtime);
}

static int select_past_moments(void *arg)
{
    (void)arg;
    hd_case cases[] = {HD_NEVER, HD_AT(INT64_MIN), HD_AT(-1), HD_AT(hd_now(NULL))};
    int seen[4] = {0};
    for (int i = 0; i < 300; i++) {
        const int which = hd_select(cases, 4);
        EXPECT(which >= 1 && which <= 3);
        seen[which]++;
        EXPECT_EQ(hd_select_until(cases, 4, HD_SELECT_FIRST, HD_FOREVER), 1);
    }
    for (int i = 1; i <= 3; i++) EXPECT(seen[i] > 0); /* none starves */
    /* A case that happened beats a deadline that has passed too. */
    EXPECT(hd_select_until(cases, 4, 0, INT64_MIN) >= 1);
    const int64_t at = hd_now(NULL) + MS;
    hd_case same[] = {HD_AT(at)};
    EXPECT_EQ(hd_select_until(same, 1, 0, at), 0);
    return 0;
}

TEST_WORLDS(of_past_moments_one_is_drawn, options)
{
    rt_run(select_past_moments, NULL, options);
}

static int join_or_time(void *arg)
{
    (void)arg;
    atomic_int flag = 0;
    int result = -1;
    hd_task *task = rt_spawn(NULL, wait_for_flag, &flag);
    for (int i = 0; i < 3; i++) {
        hd_case cases[] = {HD_JOIN(task, &result), HD_AT(hd_now(NULL) + MS / 2)};
        EXPECT_EQ(hd_select(cases, 2), 1);
        EXPECT_EQ(result, -1); /* The handle is still ours. */
    }
    atomic_store(&flag, 1);
    hd_case cases[] = {HD_AT(HD_FOREVER), HD_JOIN(task, &result), HD_AT(hd_now(NULL) + HOUR)};
    EXPECT_EQ(hd_select(cases, 3), 1);
    EXPECT_EQ(result, 8);
    return 0;
}

TEST_WORLDS(time_and_the_end_of_a_task_in_one_select, options)
{
    rt_run(join_or_time, NULL, options);
}

struct selecting {
    atomic_int ready;
    int saw;
};

static int select_until_cancelled(void *arg)
{
    struct selecting *self = arg;
    hd_case cases[] = {HD_AT(HD_FOREVER), HD_AT(hd_now(NULL) + HOUR), HD_NEVER};
    atomic_store(&self->ready, 1);
    EXPECT_EQ(hd_select(cases, 3), -ECANCELED);
    EXPECT_EQ(hd_select_until(cases, 3, 0, hd_now(NULL) + 1), -ECANCELED);
    EXPECT_EQ(hd_select(cases, 0), -EINVAL);
    return 0;
}

static int cancel_a_select(void *arg)
{
    (void)arg;
    struct selecting selecting = {.ready = 0};
    hd_task *task = rt_spawn(NULL, select_until_cancelled, &selecting);
    rt_until(&selecting.ready);
    hd_cancel(task);
    return rt_join(task);
}

TEST_WORLDS(a_cancel_ends_a_select, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(cancel_a_select, NULL, &one);
    rt_run(cancel_a_select, NULL, options);
}

/* ---- HD_AT in stackless tasks ---- */

enum step { FIRST_AT, TIME_OUT, GIVE_UP, CANCELLED };

struct polled_select {
    enum step step;
    bool begun;
    int64_t at;
    hd_wait wait;
    hd_case cases[2];
    atomic_int *waits_for_cancel;
};

static int poll_step(struct polled_select *self)
{
    const bool by_deadline = self->step == TIME_OUT;
    if (!self->begun) {
        self->begun = true;
        self->at = hd_now(NULL) + (self->step >= GIVE_UP ? HOUR : MS / 4);
        self->cases[0] = (hd_case)HD_NEVER;
        self->cases[1] = (hd_case)HD_AT(by_deadline ? self->at + HOUR : self->at);
        EXPECT_EQ(hd_select(self->cases, 2), -EINVAL);
        if (self->step >= GIVE_UP) {
            EXPECT_EQ(hd_select_until(self->cases, 2, 0, HD_NOW), -EAGAIN);
        }
    }
    return hd_select_poll(&self->wait, self->cases, 2, 0, by_deadline ? self->at : HD_FOREVER);
}

static hd_poll select_in_steps(void *state, int *result)
{
    struct polled_select *self = state;
    for (;;) {
        const int which = poll_step(self);
        if (which == -EAGAIN && self->step == GIVE_UP) {
            EXPECT_EQ(hd_wait_end(&self->wait, self->cases), -ECANCELED);
            EXPECT_EQ(hd_wait_end(&self->wait, self->cases), -ECANCELED); /* There is none. */
        } else if (which == -EAGAIN) {
            if (self->step == CANCELLED) atomic_store(self->waits_for_cancel, 1);
            return HD_PENDING;
        } else {
            EXPECT_EQ(which, self->step == FIRST_AT ? 1
                             : self->step == TIME_OUT ? -ETIMEDOUT : -ECANCELED);
            EXPECT(self->step == CANCELLED || hd_now(NULL) >= self->at);
        }
        if (self->step == CANCELLED) break;
        self->step++;
        self->begun = false;
    }
    *result = 6;
    return HD_READY;
}

TEST_WORLDS(a_stackless_task_waits_for_moments, options)
{
    hd_runtime *runtime = rt_create(options);
    atomic_int waits_for_cancel = 0;
    const struct polled_select state = {.waits_for_cancel = &waits_for_cancel};
    hd_task *task = rt_spawn_poll(runtime, select_in_steps, &state, sizeof(state));
    rt_await(runtime, &waits_for_cancel);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), 6);
    hd_runtime_destroy(runtime);
}

static hd_poll wait_and_be_dropped(void *state, int *result)
{
    (void)result;
    struct polled_select *self = state;
    self->step = CANCELLED;
    if (hd_cancelled()) return HD_PENDING; /* It does not end by itself. */
    EXPECT_EQ(poll_step(self), -EAGAIN);
    atomic_store(self->waits_for_cancel, 1);
    return HD_PENDING;
}

TEST_WORLDS(a_wait_left_in_a_dropped_task_ends_by_itself, options)
{
    hd_runtime *runtime = rt_create(options);
    atomic_int waiting = 0;
    const struct polled_select state = {.waits_for_cancel = &waiting};
    hd_detach(rt_spawn_poll(runtime, wait_and_be_dropped, &state, sizeof(state)));
    rt_await(runtime, &waiting);
    hd_runtime_destroy(runtime);
}
