/* SPDX-License-Identifier: MIT
 *
 * Clocks and deadlines: real in live, virtual in sim.
 */
#include "rt.h"

#include <time.h>

TEST_MAIN

#define SECOND INT64_C(1000000000)
#define HOUR   (3600 * SECOND)

static int64_t real_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

TEST(outside_any_runtime_it_is_the_monotonic_clock)
{
    for (int i = 0; i < 100; i++) {
        const int64_t before = real_now(), now = hd_now(NULL), after = real_now();
        EXPECT(before <= now && now <= after);
    }
}

TEST(live_time_is_the_monotonic_clock)
{
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_LIVE};
    hd_runtime *runtime = rt_create(&options);
    const int64_t before = real_now(), now = hd_now(runtime), after = real_now();
    EXPECT(before <= now && now <= after);
    hd_runtime_destroy(runtime);
}

static int watch_the_clock(void *arg)
{
    int64_t last = hd_now(NULL);
    EXPECT(last <= hd_now(arg));
    for (int i = 0; i < 100; i++) {
        hd_yield();
        const int64_t now = hd_now(NULL);
        EXPECT(now >= last);
        last = now;
    }
    EXPECT(last <= hd_now(arg));
    return 0;
}

TEST_WORLDS(it_never_goes_back_and_a_task_sees_its_runtimes, options)
{
    hd_runtime *runtime = rt_create(options);
    const int64_t start = hd_now(runtime);
    hd_task *tasks[3];
    for (int i = 0; i < 3; i++) tasks[i] = rt_spawn(runtime, watch_the_clock, runtime);
    for (int i = 0; i < 3; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    EXPECT(hd_now(runtime) > start);
    hd_runtime_destroy(runtime);
}

static int park_until_cancelled(void *arg)
{
    (void)arg;
    while (hd_park() == 0) continue;
    return 0;
}

TEST(simulated_time_jumps_to_the_next_deadline)
{
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_SIM};
    const int64_t real = real_now();
    hd_runtime *runtime = rt_create(&options);
    hd_task *task = rt_spawn(runtime, park_until_cancelled, NULL);
    for (int i = 1; i <= 1000; i++) {
        const int64_t deadline = i * HOUR;
        EXPECT_EQ(hd_join_until(task, NULL, deadline), -ETIMEDOUT);
        EXPECT_EQ(hd_now(runtime), deadline);
    }
    EXPECT(real_now() - real < 60 * SECOND);
    hd_detach(task);
    hd_runtime_destroy(runtime);
}

static int64_t time_after_work(uint64_t seed)
{
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_SIM, .seed = seed};
    hd_runtime *runtime = rt_create(&options);
    EXPECT_EQ(rt_join(rt_spawn(runtime, watch_the_clock, runtime)), 0);
    const int64_t now = hd_now(runtime);
    hd_runtime_destroy(runtime);
    return now;
}

TEST(simulated_time_depends_on_nothing_real)
{
    for (uint64_t seed = 0; seed < 10; seed++) {
        EXPECT_EQ(time_after_work(seed), time_after_work(seed));
    }
}

TEST_WORLDS(a_deadline_in_the_past_does_not_wait, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_task *task = rt_spawn(runtime, park_until_cancelled, NULL);
    EXPECT_EQ(hd_join_until(task, NULL, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_join_until(task, NULL, -5), -ETIMEDOUT);
    EXPECT_EQ(hd_join_until(task, NULL, INT64_MIN), -ETIMEDOUT);
    EXPECT_EQ(hd_runtime_drain(runtime, INT64_MIN), -ETIMEDOUT);
    hd_detach(task);
    hd_runtime_destroy(runtime);
}

/* ---- hd_after_ms ---- */

static void expect_after(int64_t ms)
{
    const int64_t before = hd_now(NULL), at = hd_after_ms(ms), after = hd_now(NULL);
    EXPECT(at >= before + ms * 1000000 && at <= after + ms * 1000000);
}

static int deadlines(void *arg)
{
    (void)arg;
    expect_after(0);
    expect_after(1);
    expect_after(50);
    expect_after(86400000);
    expect_after(-1);
    return 0;
}

TEST_WORLDS(a_deadline_is_counted_from_now, options)
{
    (void)deadlines(NULL);
    rt_run(deadlines, NULL, options);
}

TEST(deadlines_saturate)
{
    EXPECT(hd_after_ms(INT64_MAX) == HD_FOREVER);
    EXPECT(hd_after_ms(INT64_MAX / 2) == HD_FOREVER);
    EXPECT(hd_after_ms(INT64_MAX / 1000000) == HD_FOREVER);
    EXPECT(hd_after_ms(INT64_MAX / 1000000 / 2) < HD_FOREVER);
    EXPECT(hd_after_ms(INT64_MIN) < hd_now(NULL));
    EXPECT(hd_after_ms(INT64_MIN / 1000000) < hd_now(NULL));
}
