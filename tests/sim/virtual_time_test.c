/* SPDX-License-Identifier: MIT
 *
 * Virtual time: it jumps to the next deadline when nothing can run, exactly, at no cost in
 * real time, in an order that only the seed decides.
 */
#include "rt.h"

#include <time.h>

TEST_MAIN

#define SECOND INT64_C(1000000000)
#define HOUR   (3600 * SECOND)
#define YEAR   (365 * 24 * HOUR)

static hd_options sim(uint64_t seed)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.seed = seed;
    options.sim_order = seed % 2 ? HD_SIM_RANDOM : HD_SIM_WORKERS;
    return options;
}

static int64_t real_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

/* ---- it jumps ---- */

static int sleep_ten_years(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++) {
        const int64_t deadline = hd_now(NULL) + 10 * YEAR + i * 7777;
        EXPECT_EQ(hd_sleep_until(deadline), 0);
        EXPECT_EQ(hd_now(NULL), deadline);
    }
    const int64_t before = hd_now(NULL);
    EXPECT_EQ(hd_sleep_ms(86400000), 0);
    EXPECT_EQ(hd_now(NULL), before + 24 * HOUR);
    return 0;
}

TEST(ten_years_take_no_time)
{
    const int64_t real = real_now();
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const hd_options options = sim(seed);
        rt_run(sleep_ten_years, NULL, &options);
    }
    EXPECT(real_now() - real < 30 * SECOND);
}

TEST(a_thread_sleeps_ten_years)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        const hd_options options = sim(seed);
        hd_runtime *runtime = rt_create(&options);
        for (int i = 1; i <= 5; i++) {
            EXPECT_EQ(hd_sleep_until(i * 10 * YEAR + i), 0);
            EXPECT_EQ(hd_now(runtime), i * 10 * YEAR + i);
        }
        hd_runtime_destroy(runtime);
    }
}

static int sleep_to_the_end(void *arg)
{
    (void)arg;
    EXPECT_EQ(hd_sleep_until(HD_FOREVER - 5000), 0);
    EXPECT_EQ(hd_now(NULL), HD_FOREVER - 5000);
    EXPECT_EQ(hd_sleep_until(HD_FOREVER - 1), 0);
    EXPECT(hd_now(NULL) >= HD_FOREVER - 1);
    for (int i = 0; i < 10; i++) hd_yield();
    EXPECT(hd_now(NULL) >= HD_FOREVER - 1); /* Time does not turn round. */
    return 0;
}

TEST(time_has_an_end_and_stays_there)
{
    for (uint64_t seed = 1; seed <= 2; seed++) {
        const hd_options options = sim(seed);
        rt_run(sleep_to_the_end, NULL, &options);
    }
}

/* ---- exactly ---- */

enum { FIBERS = 30, NAPS = 20 };

struct napper {
    uint64_t state;
    int64_t slept;
};

static uint64_t draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *state >> 33;
}

/* Others are ready too now and then, and each of their runs takes a little time. */
static int nap_often(void *arg)
{
    struct napper *self = arg;
    for (int i = 0; i < NAPS; i++) {
        const int64_t length = (int64_t)(draw(&self->state) % (uint64_t)HOUR);
        const int64_t deadline = hd_now(NULL) + length;
        EXPECT_EQ(hd_sleep_until(deadline), 0);
        const int64_t late = hd_now(NULL) - deadline;
        EXPECT(late >= 0 && late < FIBERS * 2000);
        self->slept += length;
    }
    return 0;
}

static int all_nap(void *arg)
{
    struct napper *nappers = arg;
    hd_task *tasks[FIBERS];
    int64_t longest = 0;
    for (int i = 0; i < FIBERS; i++) tasks[i] = rt_spawn(NULL, nap_often, &nappers[i]);
    for (int i = 0; i < FIBERS; i++) {
        EXPECT_EQ(rt_join(tasks[i]), 0);
        if (nappers[i].slept > longest) longest = nappers[i].slept;
    }
    EXPECT(hd_now(NULL) >= longest && hd_now(NULL) < longest + SECOND);
    return 0;
}

static uint64_t digest_of_naps(uint64_t seed)
{
    struct napper nappers[FIBERS] = {{0}};
    for (int i = 0; i < FIBERS; i++) nappers[i].state = (uint64_t)i + 1;
    const hd_options options = sim(seed);
    hd_runtime *runtime = rt_create(&options);
    EXPECT_EQ(rt_join(rt_spawn(runtime, all_nap, nappers)), 0);
    const uint64_t digest = hd_runtime_digest(runtime);
    hd_runtime_destroy(runtime);
    return digest;
}

TEST(many_sleepers_wake_on_time_and_the_same_way_again)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        EXPECT(digest_of_naps(seed) == digest_of_naps(seed));
    }
}

/* ---- the order of equal deadlines ---- */

enum { TIES = 6 };

struct tie {
    int64_t deadline;
    int order[TIES], woken;
};

struct tied {
    struct tie *tie;
    int index;
};

static int sleep_tied(void *arg)
{
    const struct tied *self = arg;
    EXPECT_EQ(hd_sleep_until(self->tie->deadline), 0);
    self->tie->order[self->tie->woken++] = self->index;
    return 0;
}

static unsigned order_of(uint64_t seed)
{
    hd_options options = sim(seed);
    options.sim_order = HD_SIM_RANDOM;
    struct tie tie = {.deadline = HOUR};
    struct tied tied[TIES];
    hd_task *tasks[TIES];
    hd_runtime *runtime = rt_create(&options);
    for (int i = 0; i < TIES; i++) {
        tied[i] = (struct tied){&tie, i};
        tasks[i] = rt_spawn(runtime, sleep_tied, &tied[i]);
    }
    for (int i = 0; i < TIES; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    hd_runtime_destroy(runtime);
    unsigned order = 0;
    for (int i = 0; i < TIES; i++) order = order * TIES + (unsigned)tie.order[i];
    return order;
}

TEST(equal_deadlines_are_ordered_by_the_seed)
{
    unsigned different = 0;
    const unsigned first = order_of(1);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const unsigned order = order_of(seed);
        EXPECT_EQ(order_of(seed), order);
        different += order != first;
    }
    EXPECT(different > 10);
}

/* ---- waits with deadlines ---- */

static int park_until_cancelled(void *arg)
{
    (void)arg;
    while (hd_park() == 0) continue;
    return 0;
}

static int time_out_exactly(void *arg)
{
    (void)arg;
    hd_task *task = rt_spawn(NULL, park_until_cancelled, NULL);
    for (int i = 1; i <= 20; i++) {
        const int64_t deadline = hd_now(NULL) + i * HOUR + i;
        EXPECT_EQ(hd_join_until(task, NULL, deadline), -ETIMEDOUT);
        EXPECT_EQ(hd_now(NULL), deadline);
        hd_case cases[] = {HD_JOIN(task, NULL), HD_AT(deadline + YEAR), HD_AT(deadline + HOUR)};
        EXPECT_EQ(hd_select(cases, 3), 2);
        EXPECT_EQ(hd_now(NULL), deadline + HOUR);
        EXPECT_EQ(hd_select_until(cases, 2, 0, deadline + 2 * HOUR), -ETIMEDOUT);
        EXPECT_EQ(hd_now(NULL), deadline + 2 * HOUR);
        hd_timer timer = {{0}};
        EXPECT_EQ(hd_timer_start(&timer, deadline + 3 * HOUR), 0);
        while (!hd_timer_fired(&timer)) EXPECT_EQ(hd_park(), 0);
        EXPECT_EQ(hd_now(NULL), deadline + 3 * HOUR);
    }
    hd_cancel(task);
    return rt_join(task);
}

TEST(every_kind_of_deadline_is_exact)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        const hd_options options = sim(seed);
        rt_run(time_out_exactly, NULL, &options);
    }
}

static int poll_exactly_(int64_t *at, hd_wait *wait, hd_case *one)
{
    if (*at == 0) {
        *at = hd_now(NULL) + 3 * YEAR;
        *one = (hd_case)HD_AT(*at);
    }
    return hd_select_poll(wait, one, 1, 0, HD_FOREVER);
}

struct exact {
    int64_t at;
    hd_wait wait;
    hd_case one;
};

static hd_poll poll_exactly(void *state, int *result)
{
    struct exact *self = state;
    const int which = poll_exactly_(&self->at, &self->wait, &self->one);
    if (which == -EAGAIN) return HD_PENDING;
    *result = which == 0 && hd_now(NULL) == self->at ? 0 : -1;
    return HD_READY;
}

TEST(a_stackless_task_is_woken_exactly)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        const hd_options options = sim(seed);
        hd_runtime *runtime = rt_create(&options);
        hd_task *task = rt_spawn_poll(runtime, poll_exactly, NULL, sizeof(struct exact));
        EXPECT_EQ(rt_join(task), 0);
        hd_runtime_destroy(runtime);
    }
}

/* ---- what does not make time pass ---- */

static int start_and_stop(void *arg)
{
    (void)arg;
    hd_timer timer = {{0}};
    EXPECT_EQ(hd_timer_start(&timer, hd_now(NULL) + HOUR), 0);
    hd_yield();
    EXPECT(hd_timer_stop(&timer));
    for (int i = 0; i < 3; i++) hd_yield();
    EXPECT(hd_now(NULL) < SECOND);
    EXPECT_EQ(hd_sleep_until(2 * HOUR), 0);
    EXPECT_EQ(hd_now(NULL), 2 * HOUR);
    EXPECT(!hd_timer_fired(&timer));
    return 0;
}

TEST(a_stopped_timer_changes_nothing)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        const hd_options options = sim(seed);
        rt_run(start_and_stop, NULL, &options);
    }
}

struct late_riser {
    int64_t woke;
    int err;
};

static int sleep_for_years(void *arg)
{
    struct late_riser *self = arg;
    self->err = hd_sleep_until(10 * YEAR);
    self->woke = hd_now(NULL);
    return 0;
}

TEST(a_drain_waits_in_virtual_time)
{
    const hd_options options = sim(1);
    struct late_riser riser = {.err = 1};
    hd_runtime *runtime = rt_create(&options);
    hd_detach(rt_spawn(runtime, sleep_for_years, &riser));
    EXPECT_EQ(hd_runtime_drain(runtime, HOUR), -ETIMEDOUT);
    EXPECT_EQ(hd_now(runtime), HOUR);
    EXPECT_EQ(riser.err, 1);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    EXPECT_EQ(riser.err, 0);
    EXPECT_EQ(riser.woke, 10 * YEAR);
    hd_runtime_destroy(runtime);
}

TEST(a_shutdown_does_not_wait_for_sleepers)
{
    const hd_options options = sim(1);
    struct late_riser riser = {.err = 1};
    hd_runtime *runtime = rt_create(&options);
    hd_detach(rt_spawn(runtime, sleep_for_years, &riser));
    EXPECT_EQ(hd_runtime_drain(runtime, HOUR), -ETIMEDOUT);
    hd_runtime_destroy(runtime);
    EXPECT_EQ(riser.err, -ECANCELED);
    EXPECT(riser.woke < HOUR + SECOND);
}

TEST(who_waits_for_ever_with_nothing_to_come_is_told)
{
    const hd_options options = sim(1);
    hd_runtime *runtime = rt_create(&options);
    EXPECT_EQ(hd_sleep_until(HD_FOREVER), -EDEADLK);
    hd_case cases[] = {HD_AT(HD_FOREVER), HD_NEVER};
    EXPECT_EQ(hd_select(cases, 2), -EDEADLK);
    hd_runtime_destroy(runtime);
}
