/* SPDX-License-Identifier: MIT
 *
 * First programs, as a newcomer would write them from the headers: each in one screen,
 * through <heddle.h> alone.
 */
#include "test.h"

TEST_MAIN

/* ---- parallel sum: fibers, joins, results ---- */

static int square(void *arg)
{
    const int *n = arg;
    return *n * *n;
}

static int sum_of_squares(void *arg)
{
    const int count = *(int *)arg;
    int numbers[100];
    hd_task *tasks[100];
    for (int i = 0; i < count; i++) {
        numbers[i] = i;
        const int err = hd_spawn(&tasks[i], square, &numbers[i]);
        if (err) return err;
    }
    int sum = 0;
    for (int i = 0; i < count; i++) {
        int result;
        const int err = hd_join(tasks[i], &result);
        if (err) return err;
        sum += result;
    }
    return sum;
}

TEST_WORLDS(a_sum_of_squares, options)
{
    int count = 100;
    EXPECT_EQ(hd_run(sum_of_squares, &count, options), 328350);
}

TEST(without_options_too)
{
    int count = 10;
    EXPECT_EQ(hd_run(sum_of_squares, &count, NULL), 285);
}

/* ---- a countdown: a stackless task with its state ---- */

struct countdown {
    int left;
    int *steps;
};

static hd_poll count_down(void *state, int *result)
{
    struct countdown *self = state;
    (*self->steps)++;
    if (self->left-- > 0) {
        hd_waker_wake(hd_waker_self()); /* come back later */
        return HD_PENDING;
    }
    *result = *self->steps;
    return HD_READY;
}

static int wait_for_countdown(void *arg)
{
    struct countdown start = {.left = 5, .steps = arg};
    hd_task *task;
    int err = hd_spawn_poll(&task, count_down, &start, sizeof(start));
    int steps = 0;
    if (!err) err = hd_join(task, &steps);
    return err ? err : steps;
}

TEST_WORLDS(a_countdown, options)
{
    int steps = 0;
    EXPECT_EQ(hd_run(wait_for_countdown, &steps, options), 6);
}

/* ---- an embedded runtime: named tasks, a cancel, a shutdown ---- */

static int serve_until_cancelled(void *arg)
{
    int *served = arg;
    while (hd_park() != -ECANCELED) (*served)++;
    return 0;
}

TEST_WORLDS(an_embedded_runtime, options)
{
    hd_runtime *runtime;
    EXPECT_EQ(hd_runtime_create(&runtime, options), 0);
    hd_spawn_options spawn = HD_SPAWN_OPTIONS_INIT;
    spawn.runtime = runtime;
    spawn.name = "server";
    hd_task *server;
    int served = 0, result = -1;
    EXPECT_EQ(hd_spawn_with(&server, serve_until_cancelled, &served, &spawn), 0);
    EXPECT(strcmp(hd_task_name(server), "server") == 0);
    hd_cancel(server);
    EXPECT_EQ(hd_join(server, &result), 0);
    EXPECT_EQ(result, 0);
    EXPECT_EQ(hd_runtime_shutdown(runtime, hd_now(runtime) + INT64_C(60000000000)), 0);
    hd_runtime_destroy(runtime);
}

/* ---- the same program in a simulation, twice ---- */

static uint64_t digest_with(uint64_t seed)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.seed = seed;
    hd_runtime *runtime;
    EXPECT_EQ(hd_runtime_create(&runtime, &options), 0);
    hd_spawn_options spawn = HD_SPAWN_OPTIONS_INIT;
    spawn.runtime = runtime;
    hd_task *task;
    int count = 20, sum;
    EXPECT_EQ(hd_spawn_with(&task, sum_of_squares, &count, &spawn), 0);
    EXPECT_EQ(hd_join(task, &sum), 0);
    EXPECT_EQ(sum, 2470);
    const uint64_t digest = hd_runtime_digest(runtime);
    hd_runtime_destroy(runtime);
    return digest;
}

TEST(one_seed_is_one_schedule)
{
    EXPECT(digest_with(42) == digest_with(42));
    EXPECT(digest_with(42) != digest_with(43));
}
