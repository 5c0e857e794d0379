/* SPDX-License-Identifier: MIT
 *
 * Intervals: beats, and what follows when a tick is taken late. In sim time stands still
 * while a fiber runs, so that the numbers are exact.
 */
#include "rt.h"

TEST_MAIN

#define MS   INT64_C(1000000)
#define HOUR (3600000 * MS)

static void run_sim(hd_fn *fn, void *arg)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        hd_options options = HD_OPTIONS_INIT;
        options.world = HD_WORLD_SIM;
        options.seed = seed;
        options.sim_order = seed % 2 ? HD_SIM_RANDOM : HD_SIM_WORKERS;
        rt_run(fn, arg, &options);
    }
}

static hd_interval beat(int64_t first, int64_t period_ns, hd_missed missed)
{
    hd_interval interval;
    EXPECT_EQ(hd_interval_init(&interval, first, period_ns, missed), 0);
    EXPECT_EQ(interval.next, first);
    EXPECT_EQ(interval.period_ns, period_ns);
    EXPECT_EQ(interval.missed, missed);
    return interval;
}

/* Take a tick and expect it at `at`, so late. */
static void tick(hd_interval *interval, int64_t at, int64_t late)
{
    int64_t late_ns = -1;
    EXPECT_EQ(hd_interval_wait(interval, &late_ns), 0);
    EXPECT_EQ(hd_now(NULL), at);
    EXPECT_EQ(late_ns, late);
}

static void work_until(int64_t time)
{
    EXPECT_EQ(hd_sleep_until(time), 0);
    EXPECT_EQ(hd_now(NULL), time);
}

/* ---- making one ---- */

TEST(a_period_is_over_0)
{
    hd_interval interval = {.next = 5, .period_ns = 6, .missed = HD_MISSED_SKIP};
    EXPECT_EQ(hd_interval_init(&interval, 1, 0, HD_MISSED_BURST), -EINVAL);
    EXPECT_EQ(hd_interval_init(&interval, 1, -1, HD_MISSED_BURST), -EINVAL);
    EXPECT_EQ(hd_interval_init(&interval, 1, INT64_MIN, HD_MISSED_BURST), -EINVAL);
    EXPECT_EQ(interval.next, 5);
    EXPECT_EQ(interval.period_ns, 6);
    EXPECT_EQ(interval.missed, HD_MISSED_SKIP);
    (void)beat(1, 1, HD_MISSED_BURST);
    (void)beat(INT64_MAX, INT64_MAX, HD_MISSED_DELAY);
}

/* ---- in time ---- */

static int keep_the_beat(void *arg)
{
    (void)arg;
    for (int missed = HD_MISSED_BURST; missed <= HD_MISSED_DELAY; missed++) {
        const int64_t first = hd_now(NULL) + 3 * MS;
        hd_interval interval = beat(first, 2 * MS, (hd_missed)missed);
        for (int i = 0; i < 1000; i++) {
            tick(&interval, first + i * 2 * MS, 0);
            EXPECT_EQ(interval.next, first + (i + 1) * 2 * MS);
            if (i % 3 == 0) work_until(hd_now(NULL) + MS); /* less than a period */
        }
    }
    return 0;
}

TEST(who_is_in_time_has_a_steady_beat)
{
    run_sim(keep_the_beat, NULL);
}

/* ---- late ---- */

static int miss_with_burst(void *arg)
{
    (void)arg;
    const int64_t first = hd_now(NULL) + 10 * MS;
    hd_interval interval = beat(first, 10 * MS, HD_MISSED_BURST);
    tick(&interval, first, 0);
    work_until(first + 35 * MS); /* through 10, 20 and 30 */
    tick(&interval, first + 35 * MS, 25 * MS);
    tick(&interval, first + 35 * MS, 15 * MS);
    tick(&interval, first + 35 * MS, 5 * MS);
    tick(&interval, first + 40 * MS, 0);
    tick(&interval, first + 50 * MS, 0);
    return 0;
}

TEST(burst_gives_every_missed_tick)
{
    run_sim(miss_with_burst, NULL);
}

static int miss_with_skip(void *arg)
{
    (void)arg;
    const int64_t first = hd_now(NULL) + 10 * MS;
    hd_interval interval = beat(first, 10 * MS, HD_MISSED_SKIP);
    tick(&interval, first, 0);
    work_until(first + 35 * MS);
    tick(&interval, first + 35 * MS, 25 * MS);
    EXPECT_EQ(interval.next, first + 40 * MS);
    tick(&interval, first + 40 * MS, 0);
    work_until(first + 50 * MS + 1); /* late by 1 ns: nothing is left out */
    tick(&interval, first + 50 * MS + 1, 1);
    tick(&interval, first + 60 * MS, 0);
    work_until(first + 80 * MS); /* late by a whole period: the next is in the future */
    tick(&interval, first + 80 * MS, 10 * MS);
    tick(&interval, first + 90 * MS, 0);
    return 0;
}

TEST(skip_leaves_missed_ticks_out_and_keeps_the_beat)
{
    run_sim(miss_with_skip, NULL);
}

static int miss_with_delay(void *arg)
{
    (void)arg;
    const int64_t first = hd_now(NULL) + 10 * MS;
    hd_interval interval = beat(first, 10 * MS, HD_MISSED_DELAY);
    tick(&interval, first, 0);
    work_until(first + 35 * MS);
    tick(&interval, first + 35 * MS, 25 * MS);
    tick(&interval, first + 45 * MS, 0); /* a new beat */
    work_until(first + 55 * MS + 1);
    tick(&interval, first + 55 * MS + 1, 1);
    tick(&interval, first + 65 * MS + 1, 0);
    return 0;
}

TEST(delay_counts_from_the_tick_that_was_late)
{
    run_sim(miss_with_delay, NULL);
}

static int change_of_mind(void *arg)
{
    (void)arg;
    const int64_t first = hd_now(NULL) + 10 * MS;
    hd_interval interval = beat(first, 10 * MS, HD_MISSED_BURST);
    work_until(first + 45 * MS);
    tick(&interval, first + 45 * MS, 45 * MS);
    interval.missed = HD_MISSED_SKIP;
    tick(&interval, first + 45 * MS, 35 * MS);
    tick(&interval, first + 50 * MS, 0);
    work_until(first + 65 * MS);
    interval.missed = HD_MISSED_DELAY;
    tick(&interval, first + 65 * MS, 5 * MS);
    tick(&interval, first + 75 * MS, 0);
    return 0;
}

TEST(the_way_can_be_changed_between_ticks)
{
    run_sim(change_of_mind, NULL);
}

static int begin_in_the_past(void *arg)
{
    (void)arg;
    work_until(hd_now(NULL) + 100 * MS);
    const int64_t now = hd_now(NULL);
    hd_interval burst = beat(now - 20 * MS, 10 * MS, HD_MISSED_BURST);
    tick(&burst, now, 20 * MS);
    tick(&burst, now, 10 * MS);
    tick(&burst, now, 0);
    hd_interval skip = beat(now - 25 * MS, 10 * MS, HD_MISSED_SKIP);
    tick(&skip, now, 25 * MS);
    EXPECT_EQ(skip.next, now + 5 * MS);
    hd_interval delay = beat(0, 10 * MS, HD_MISSED_DELAY);
    tick(&delay, now, now);
    EXPECT_EQ(delay.next, now + 10 * MS);
    return 0;
}

TEST(an_interval_may_begin_in_the_past)
{
    run_sim(begin_in_the_past, NULL);
}

/* ---- far ends ---- */

static int reach_the_end(void *arg)
{
    (void)arg;
    const int64_t now = hd_now(NULL);
    for (int missed = HD_MISSED_BURST; missed <= HD_MISSED_DELAY; missed++) {
        hd_interval once = beat(now, INT64_MAX, (hd_missed)missed);
        EXPECT(hd_interval_taken(&once) >= 0);
        EXPECT_EQ(once.next, HD_FOREVER);
        EXPECT_EQ(hd_interval_taken(&once), 0); /* before its time: not late */
        EXPECT_EQ(once.next, HD_FOREVER);
        hd_interval ancient = beat(INT64_MIN, INT64_MAX, (hd_missed)missed);
        EXPECT(hd_interval_taken(&ancient) > 0);
        EXPECT(ancient.next > INT64_MIN);
        hd_interval old = beat(INT64_MIN, 1, HD_MISSED_SKIP);
        EXPECT(hd_interval_taken(&old) > 0);
    }
    return 0;
}

TEST_WORLDS(nothing_overflows, options)
{
    rt_run(reach_the_end, NULL, options);
}

/* ---- cancelled ---- */

struct victim {
    hd_interval interval;
    atomic_int ready;
    int64_t first;
};

static int wait_until_cancelled(void *arg)
{
    struct victim *self = arg;
    self->first = hd_now(NULL) + HOUR;
    self->interval = beat(self->first, HOUR, HD_MISSED_BURST);
    atomic_store(&self->ready, 1);
    int64_t late = -7;
    EXPECT_EQ(hd_interval_wait(&self->interval, &late), -ECANCELED);
    EXPECT_EQ(late, -7);
    EXPECT_EQ(self->interval.next, self->first);
    EXPECT(hd_now(NULL) < self->first);
    EXPECT_EQ(hd_interval_wait(&self->interval, NULL), -ECANCELED);
    EXPECT_EQ(self->interval.next, self->first); /* the tick is still to come */
    return 0;
}

static int cancel_a_wait(void *arg)
{
    (void)arg;
    struct victim victim = {.ready = 0};
    hd_task *task = rt_spawn(NULL, wait_until_cancelled, &victim);
    rt_until(&victim.ready);
    hd_cancel(task);
    return rt_join(task);
}

TEST_WORLDS(a_cancel_keeps_the_tick, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(cancel_a_wait, NULL, &one);
    rt_run(cancel_a_wait, NULL, options);
}

static int take_it_under_a_shield(void *arg)
{
    atomic_int *ready = arg;
    hd_interval interval = beat(hd_now(NULL) + MS, MS, HD_MISSED_BURST);
    const int64_t first = interval.next;
    atomic_store(ready, 1);
    while (hd_interval_wait(&interval, NULL) == 0) continue; /* until the cancel */
    EXPECT_EQ((interval.next - first) % MS, 0);
    const int64_t next = interval.next;
    EXPECT_EQ(hd_shield(), 0);
    EXPECT_EQ(hd_interval_wait(&interval, NULL), 0);
    EXPECT(hd_now(NULL) >= next);
    EXPECT_EQ(interval.next, next + MS);
    EXPECT_EQ(hd_unshield(), 0);
    return 0;
}

static int cancel_a_beat(void *arg)
{
    (void)arg;
    atomic_int ready = 0;
    hd_task *task = rt_spawn(NULL, take_it_under_a_shield, &ready);
    rt_until(&ready);
    EXPECT_EQ(hd_sleep_ms(3), 0);
    hd_cancel(task);
    return rt_join(task);
}

TEST_WORLDS(a_shield_lets_the_kept_tick_be_taken, options)
{
    rt_run(cancel_a_beat, NULL, options);
}

/* ---- never early ---- */

static int count_ticks(void *arg)
{
    (void)arg;
    for (int missed = HD_MISSED_BURST; missed <= HD_MISSED_DELAY; missed++) {
        const int64_t first = hd_now(NULL) + MS / 2, period = MS / 5;
        hd_interval interval = beat(first, period, (hd_missed)missed);
        for (int i = 0; i < 50; i++) {
            const int64_t due = interval.next;
            int64_t late = -1;
            EXPECT_EQ(hd_interval_wait(&interval, &late), 0);
            const int64_t now = hd_now(NULL);
            EXPECT(now >= due && late >= 0 && due + late <= now);
            EXPECT(now >= first + i * period); /* no tick is given twice */
            EXPECT(interval.next >= due + period);
            if (missed != HD_MISSED_DELAY) EXPECT_EQ((interval.next - first) % period, 0);
            if (missed == HD_MISSED_BURST) EXPECT_EQ(interval.next, due + period);
        }
    }
    return 0;
}

TEST_WORLDS(no_tick_is_early, options)
{
    rt_run(count_ticks, NULL, options);
}

TEST_WORLDS(a_thread_waits_for_ticks_too, options)
{
    hd_runtime *runtime = rt_create(options);
    EXPECT_EQ(count_ticks(NULL), 0);
    hd_runtime_destroy(runtime);
}

/* ---- by other means ---- */

static int ticks_in_a_select(void *arg)
{
    (void)arg;
    const int64_t first = hd_now(NULL) + 10 * MS;
    hd_interval fast = beat(first, 10 * MS, HD_MISSED_SKIP);
    hd_interval slow = beat(first + 5 * MS, 30 * MS, HD_MISSED_SKIP);
    int count[2] = {0, 0};
    while (hd_now(NULL) < first + 95 * MS) {
        hd_case cases[] = {HD_AT(fast.next), HD_AT(slow.next)};
        const int which = hd_select(cases, 2);
        EXPECT(which == 0 || which == 1);
        EXPECT_EQ(hd_interval_taken(which ? &slow : &fast), 0);
        count[which]++;
    }
    EXPECT_EQ(count[0], 10); /* 0, 10, ... 90 */
    EXPECT_EQ(count[1], 4);  /* 5, 35, 65, 95 */
    return 0;
}

TEST(ticks_can_be_taken_in_a_select)
{
    run_sim(ticks_in_a_select, NULL);
}

struct poller {
    hd_interval interval;
    hd_wait wait;
    hd_case at[1];
    int ticks;
    int64_t first;
};

static hd_poll poll_ticks(void *state, int *result)
{
    struct poller *self = state;
    if (self->first == 0) {
        self->first = hd_now(NULL) + MS;
        self->interval = beat(self->first, MS, HD_MISSED_BURST);
        EXPECT_EQ(hd_interval_wait(&self->interval, NULL), -EINVAL);
        EXPECT_EQ(self->interval.next, self->first);
    }
    while (self->ticks < 10) {
        if (self->at[0].kind == HD_CASE_NEVER) self->at[0] = (hd_case)HD_AT(self->interval.next);
        const int which = hd_select_poll(&self->wait, self->at, 1, 0, HD_FOREVER);
        if (which == -EAGAIN) return HD_PENDING;
        EXPECT_EQ(which, 0);
        EXPECT(hd_now(NULL) >= self->first + self->ticks * MS);
        EXPECT(hd_interval_taken(&self->interval) >= 0);
        self->at[0].kind = HD_CASE_NEVER;
        self->ticks++;
    }
    *result = self->ticks;
    return HD_READY;
}

TEST_WORLDS(a_stackless_task_takes_ticks_by_select, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_task *task = rt_spawn_poll(runtime, poll_ticks, NULL, sizeof(struct poller));
    EXPECT_EQ(rt_join(task), 10);
    hd_runtime_destroy(runtime);
}
