/* SPDX-License-Identifier: MIT
 *
 * Counters that add up, and a dump that a person can read.
 */
#include "rt.h"

#include <pthread.h>

TEST_MAIN

static hd_stats stats_of(hd_runtime *runtime)
{
    hd_stats stats;
    memset(&stats, 0xff, sizeof(stats)); /* every field is written */
    hd_runtime_stats(runtime, &stats);
    return stats;
}

static int yield_twice(void *arg)
{
    (void)arg;
    hd_yield();
    hd_yield();
    return 0;
}

/* The same without a stack. */
static hd_poll pend_twice(void *state, int *result)
{
    int *polls = state;
    *result = 0;
    if ((*polls)++ == 2) return HD_READY;
    hd_waker_wake(hd_waker_self());
    return HD_PENDING;
}

static int spawn_row(void *arg)
{
    for (int i = 0; i < *(int *)arg; i++) {
        if (i % 8) {
            EXPECT_EQ(hd_spawn_poll(NULL, pend_twice, NULL, sizeof(int)), 0);
        } else {
            EXPECT_EQ(hd_spawn(NULL, yield_twice, NULL), 0);
        }
    }
    return 0;
}

static hd_poll nothing_poll(void *state, int *result)
{
    (void)state;
    *result = 0;
    return HD_READY;
}

static int spawn_nothings(void *arg)
{
    for (int i = 0; i < *(int *)arg; i++) {
        EXPECT_EQ(hd_spawn_poll(NULL, nothing_poll, NULL, 0), 0);
    }
    return 0;
}

static void expect_it_adds_up(const hd_stats *stats)
{
    EXPECT_EQ(stats->submitted, stats->completed);
    EXPECT_EQ(stats->alive, 0);
    EXPECT(stats->polls >= stats->completed);
    EXPECT(stats->steals <= stats->steal_attempts);
    EXPECT(stats->stolen >= stats->steals);
    EXPECT(stats->lifo_hits <= stats->polls);
    EXPECT(stats->unparks <= stats->parks && stats->parks <= stats->unparks + stats->workers);
}

TEST_WORLDS(a_new_runtime_has_counted_nothing, options)
{
    hd_runtime *runtime = rt_create(options);
    const hd_stats stats = stats_of(runtime);
    EXPECT(stats.workers >= 1);
    EXPECT_EQ(stats.submitted, 0);
    EXPECT_EQ(stats.completed, 0);
    EXPECT_EQ(stats.polls, 0);
    EXPECT_EQ(stats.injected, 0);
    EXPECT_EQ(stats.alive, 0);
    hd_runtime_destroy(runtime);
}

TEST_WORLDS(counters_add_up_when_all_is_quiet, options)
{
    for (int i = 0; i < 4; i++) {
        hd_options own = rt_workers(options, i % 2 ? 3 : 1);
        own.policy = i / 2 ? HD_POLICY_LOCAL : HD_POLICY_FAIR;
        rt_by_workers(&own);
        hd_runtime *runtime = rt_create(&own);
        int row = 100;
        for (int k = 0; k < 5; k++) hd_detach(rt_spawn(runtime, spawn_row, &row));
        EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
        const hd_stats stats = stats_of(runtime);
        expect_it_adds_up(&stats);
        EXPECT_EQ(stats.submitted, 505);
        EXPECT_EQ(stats.polls, 5 + 500 * 3);
        EXPECT(stats.injected >= 5); /* all that came from this thread */
        EXPECT(stats.inject_interval >= 8 && stats.inject_interval <= 255);
        hd_runtime_destroy(runtime);
    }
}

TEST_WORLDS(a_thousand_spawns_in_a_row_overflow_the_local_queue, options)
{
    for (int policy = HD_POLICY_FAIR; policy <= HD_POLICY_LOCAL; policy++) {
        hd_options own = rt_workers(options, 1);
        own.policy = (hd_policy)policy;
        rt_by_workers(&own);
        hd_runtime *runtime = rt_create(&own);
        int row = 1000;
        hd_detach(rt_spawn(runtime, spawn_nothings, &row));
        EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
        const hd_stats stats = stats_of(runtime);
        expect_it_adds_up(&stats);
        EXPECT(stats.overflows >= 5);
        EXPECT(stats.injected >= 1000 - 256);
        /* A full ring spills half in one batch; a deque one by one. */
        if (policy == HD_POLICY_FAIR) EXPECT(stats.overflows <= 8);
        hd_runtime_destroy(runtime);
    }
}

TEST_WORLDS(a_short_row_does_not_overflow, options)
{
    hd_options own = rt_workers(options, 1);
    rt_by_workers(&own);
    hd_runtime *runtime = rt_create(&own);
    int row = 250;
    hd_detach(rt_spawn(runtime, spawn_row, &row));
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    const hd_stats stats = stats_of(runtime);
    EXPECT_EQ(stats.overflows, 0);
    EXPECT_EQ(stats.injected, 1);
    EXPECT(stats.lifo_hits >= 1);
    hd_runtime_destroy(runtime);
}

struct sleeper {
    atomic_int asleep;
    int shields;
};

static int sleep_until_cancelled(void *arg)
{
    struct sleeper *self = arg;
    if (self->shields) EXPECT_EQ(hd_shield(), 0);
    atomic_fetch_add(&self->asleep, 1);
    while (hd_park() == 0 && !self->shields) continue;
    if (self->shields) EXPECT_EQ(hd_unshield(), 0);
    return 0;
}

static int until_30_sleep(void *arg)
{
    struct sleeper *sleeper = arg;
    while (atomic_load(&sleeper->asleep) < 30) hd_yield();
    return 0;
}

TEST_WORLDS(sleepers_are_alive, options)
{
    hd_runtime *runtime = rt_create(options);
    struct sleeper sleeper = {.asleep = 0};
    for (int i = 0; i < 30; i++) hd_detach(rt_spawn(runtime, sleep_until_cancelled, &sleeper));
    EXPECT_EQ(rt_join(rt_spawn(runtime, until_30_sleep, &sleeper)), 0);
    EXPECT_EQ(hd_runtime_drain(runtime, hd_now(runtime) + 1000000), -ETIMEDOUT);
    EXPECT_EQ(stats_of(runtime).alive, 30);
    EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0);
    const hd_stats stats = stats_of(runtime);
    expect_it_adds_up(&stats);
    hd_runtime_destroy(runtime);
}

static hd_poll pend_for_ever(void *state, int *result)
{
    (void)state;
    *result = 0;
    return HD_PENDING;
}

TEST_WORLDS(dropped_tasks_are_counted_as_completed, options)
{
    hd_runtime *runtime = rt_create(options);
    for (int i = 0; i < 30; i++) hd_detach(rt_spawn_poll(runtime, pend_for_ever, NULL, 0));
    EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0);
    const hd_stats stats = stats_of(runtime);
    expect_it_adds_up(&stats);
    EXPECT_EQ(stats.completed, 30);
    hd_runtime_destroy(runtime);
}

/* ---- dump ---- */

static char dumped[1 << 20];

static const char *dump(hd_runtime *runtime)
{
    FILE *out = fmemopen(dumped, sizeof(dumped), "w");
    EXPECT(out != NULL);
    hd_runtime_dump(runtime, out);
    fclose(out);
    return dumped;
}

/* Whether one line has all of these words. */
static bool line_with(const char *text, const char *a, const char *b, const char *c)
{
    static char copy[sizeof(dumped)];
    snprintf(copy, sizeof(copy), "%s", text);
    char *rest = copy;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (strstr(line, a) && strstr(line, b) && strstr(line, c)) return true;
    }
    return false;
}

static int dump_from_inside(void *arg)
{
    const char *text = dump(hd_runtime_self());
    EXPECT(line_with(text, "\"dumper\"", "running", "fiber"));
    EXPECT(line_with(text, "\"waiting\"", "idle", "fiber"));
    EXPECT(line_with(text, "\"waiting\"", "other/place.c:33", ""));
    EXPECT(line_with(text, "\"shielded\"", "shielded", "fiber"));
    EXPECT(line_with(text, "\"stackless\"", "idle", "stackless"));
    hd_task *const *tasks = arg;
    hd_cancel(tasks[0]);
    text = dump(hd_runtime_self());
    EXPECT(line_with(text, "\"waiting\"", "scheduled", "cancelled"));
    return 0;
}

static hd_poll pend_named(void *state, int *result)
{
    (void)state;
    *result = 0;
    return hd_cancelled() ? HD_READY : HD_PENDING;
}

TEST_WORLDS(a_dump_shows_every_task, options)
{
    hd_options own = rt_workers(options, 1);
    own.stack_bytes = 256 << 10; /* stdio */
    hd_runtime *runtime = rt_create(&own);
    static const hd_site site = {"other/place.c", 33, "somewhere"};
    struct sleeper waiting = {.asleep = 0}, shielded = {.shields = 1};
    hd_spawn_options spawn = {.size = sizeof(spawn), .runtime = runtime, .site = &site};
    hd_task *tasks[4];
    spawn.name = "waiting";
    EXPECT_EQ(hd_spawn_with(&tasks[0], sleep_until_cancelled, &waiting, &spawn), 0);
    spawn.name = "shielded";
    EXPECT_EQ(hd_spawn_with(&tasks[1], sleep_until_cancelled, &shielded, &spawn), 0);
    spawn.name = "stackless";
    EXPECT_EQ(hd_spawn_poll_with(&tasks[2], pend_named, NULL, 10, &spawn), 0);
    rt_await(runtime, &waiting.asleep);
    rt_await(runtime, &shielded.asleep);
    EXPECT_EQ(hd_runtime_drain(runtime, hd_now(runtime) + 1000000), -ETIMEDOUT);
    spawn.name = "dumper";
    EXPECT_EQ(hd_spawn_with(&tasks[3], dump_from_inside, tasks, &spawn), 0);
    EXPECT_EQ(rt_join(tasks[3]), 0);
    const char *text = dump(runtime);
    EXPECT(!strstr(text, "dumper"));
    char world[64] = "heddle runtime: live";
    if (rt_is_sim(options)) {
        snprintf(world, sizeof(world), "sim, seed %llu", (unsigned long long)options->seed);
    }
    EXPECT(strstr(text, world));
    EXPECT(line_with(text, "worker 0", "polls", "steals"));
    EXPECT(line_with(text, "submitted 6", "completed", "injected"));
    EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0);
    for (int i = 0; i < 3; i++) hd_detach(tasks[i]);
    hd_runtime_destroy(runtime);
}

TEST_WORLDS(a_dump_of_very_many_tasks_is_cut, options)
{
    hd_runtime *runtime = rt_create(options);
    for (int i = 0; i < 1500; i++) hd_detach(rt_spawn_poll(runtime, pend_for_ever, NULL, 0));
    EXPECT(strstr(dump(runtime), "and 500 more tasks"));
    hd_runtime_destroy(runtime);
}

static void *dump_often(void *arg)
{
    for (int i = 0; i < 20; i++) {
        (void)dump(arg);
        (void)stats_of(arg);
        (void)hd_runtime_digest(arg);
    }
    return NULL;
}

static int spawn_many_rows(void *arg)
{
    int row = 50;
    for (int i = 0; i < *(int *)arg; i++) EXPECT_EQ(rt_join(rt_spawn(NULL, spawn_row, &row)), 0);
    return 0;
}

TEST_WORLDS(a_dump_does_not_disturb_what_runs, options)
{
    hd_runtime *runtime = rt_create(options);
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, dump_often, runtime), 0);
    int rows = rt_is_sim(options) ? 3 : 20;
    EXPECT_EQ(rt_join(rt_spawn(runtime, spawn_many_rows, &rows)), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    const hd_stats stats = stats_of(runtime);
    expect_it_adds_up(&stats);
    hd_runtime_destroy(runtime);
}
