/* SPDX-License-Identifier: MIT
 *
 * Runtimes: many one after another, several at once, one inside another, of any width,
 * and nothing left of them afterwards.
 */
#include "rt.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>

#include "base/sanitizer.h"

TEST_MAIN

/* ---- what a process holds ---- */

struct held {
    int threads, files, maps;
};

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    EXPECT(dir != NULL);
    int count = 0;
    while (readdir(dir)) count++;
    closedir(dir);
    return count;
}

static int count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    EXPECT(file != NULL);
    int count = 0;
    for (int c; (c = getc(file)) != EOF;) count += c == '\n';
    fclose(file);
    return count;
}

static struct held held_now(void)
{
    return (struct held){
        .threads = count_entries("/proc/self/task"),
        .files = count_entries("/proc/self/fd"),
        .maps = count_lines("/proc/self/maps"),
    };
}

/* A joined thread leaves /proc a moment after its join returns: the kernel clears the
 * word that pthread_join() waits for first. A thread that is leaked never leaves, and
 * then this times out. One that had not left yet may have been counted before, so fewer
 * are as good. */
static void expect_nothing_left(const struct held *before)
{
    while (count_entries("/proc/self/task") > before->threads) sched_yield();
    const struct held now = held_now();
    EXPECT(now.threads <= before->threads);
    EXPECT_EQ(now.files, before->files);
    /* The allocator maps as it likes, but not with every runtime; ThreadSanitizer keeps
     * something of every thread and fiber. */
    EXPECT(HDI_TSAN || now.maps < before->maps + 50);
}

/* ---- something to do ---- */

static int add_one(void *arg)
{
    hd_yield();
    return *(int *)arg + 1;
}

static hd_poll add_one_poll(void *state, int *result)
{
    *result = *(int *)state + 1;
    return HD_READY;
}

static int spread(void *arg)
{
    const int count = *(int *)arg;
    hd_task *tasks[256];
    int n = 1, sum = 0;
    for (int i = 0; i < count; i++) {
        tasks[i] = i % 8 ? rt_spawn_poll(NULL, add_one_poll, &n, sizeof(n))
                         : rt_spawn(NULL, add_one, &n);
    }
    for (int i = 0; i < count; i++) sum += rt_join(tasks[i]);
    return sum - 2 * count;
}

static void one_after_another(const hd_options *options, int count)
{
    int tasks = 10;
    for (int i = 0; i < 20; i++) rt_run(spread, &tasks, options); /* what is kept for good */
    const struct held before = held_now();
    for (int i = 0; i < count; i++) rt_run(spread, &tasks, options);
    expect_nothing_left(&before);
}

TEST(a_thousand_live_ones_leave_nothing)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 2;
    one_after_another(&options, 1000);
}

TEST(a_thousand_simulated_ones_leave_nothing)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    one_after_another(&options, 1000);
}

TEST(wide_ones_leave_nothing)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 64;
    options.policy = HD_POLICY_LOCAL;
    one_after_another(&options, 10);
}

/* ThreadSanitizer starts a thread of its own with the first one. */
static struct held held_after_one(const hd_options *options)
{
    int tasks = 10;
    rt_run(spread, &tasks, options);
    return held_now();
}

TEST_WORLDS(one_that_never_ran_anything_leaves_nothing, options)
{
    const struct held before = held_after_one(options);
    for (int i = 0; i < 60; i++) hd_runtime_destroy(rt_create(options));
    expect_nothing_left(&before);
}

static int sleep_for_ever(void *arg)
{
    (void)arg;
    while (hd_park() == 0) continue;
    return 0;
}

static hd_poll pend_for_ever(void *state, int *result)
{
    (void)state;
    *result = 0;
    return HD_PENDING;
}

TEST_WORLDS(one_that_ends_full_of_sleepers_leaves_nothing, options)
{
    struct held before = held_after_one(options);
    for (int i = 0; i < 5; i++) {
        if (i == 1) before.maps = held_now().maps; /* what allocators keep of so many */
        hd_runtime *runtime = rt_create(options);
        for (int k = 0; k < 100; k++) {
            hd_detach(rt_spawn(runtime, sleep_for_ever, NULL));
            hd_detach(rt_spawn_poll(runtime, pend_for_ever, NULL, (size_t)k * 50));
        }
        hd_runtime_destroy(runtime);
    }
    expect_nothing_left(&before);
}

/* ---- at once ---- */

static void *run_several(void *arg)
{
    int tasks = 50;
    for (int i = 0; i < 5; i++) rt_run(spread, &tasks, arg);
    return NULL;
}

TEST_WORLDS(eight_at_once_do_not_disturb_each_other, options)
{
    hd_options own = rt_workers(options, 2);
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) {
        EXPECT_EQ(pthread_create(&threads[i], NULL, run_several, &own), 0);
    }
    for (int i = 0; i < 8; i++) EXPECT_EQ(pthread_join(threads[i], NULL), 0);
}

TEST_WORLDS(one_thread_uses_eight, options)
{
    const hd_options own = rt_workers(options, 2);
    hd_runtime *runtimes[8];
    hd_task *tasks[8][20];
    int n = 5;
    for (int i = 0; i < 8; i++) runtimes[i] = rt_create(&own);
    for (int k = 0; k < 20; k++) {
        for (int i = 0; i < 8; i++) tasks[i][k] = rt_spawn(runtimes[i], add_one, &n);
    }
    for (int k = 19; k >= 0; k--) {
        for (int i = 0; i < 8; i++) EXPECT_EQ(rt_join(tasks[i][k]), 6);
    }
    for (int i = 0; i < 8; i++) hd_runtime_destroy(runtimes[i]);
}

/* ---- one inside another ---- */

static int return_runtime_id(void *arg)
{
    hd_yield();
    *(hd_runtime **)arg = hd_runtime_self();
    return (int)hd_self_id();
}

static int use_another(void *arg)
{
    hd_runtime *mine = hd_runtime_self();
    const uint64_t id = hd_self_id();
    hd_runtime *inner = rt_create(arg), *seen = NULL;
    hd_task *task = rt_spawn(inner, return_runtime_id, &seen);
    EXPECT_EQ(hd_runtime_drain(inner, HD_FOREVER), 0); /* in sim this fiber drives it */
    EXPECT(seen == inner);
    EXPECT_EQ(rt_join(task), 1);
    EXPECT(hd_runtime_self() == mine);
    EXPECT_EQ(hd_self_id(), id);
    hd_yield();
    EXPECT_EQ(hd_self_id(), id);
    int n = 3;
    EXPECT_EQ(rt_join(rt_spawn(NULL, add_one, &n)), 4); /* into the outer one, as before */
    hd_runtime_destroy(inner);
    EXPECT_EQ(hd_self_id(), id);
    hd_yield();
    return 0;
}

static int use_another_often(void *arg)
{
    hd_task *tasks[4];
    for (int i = 0; i < 4; i++) tasks[i] = rt_spawn(NULL, use_another, arg);
    for (int i = 0; i < 4; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    return 0;
}

TEST_WORLDS(a_fiber_uses_a_runtime_of_its_own, options)
{
    hd_options own = *options;
    rt_run(use_another_often, &own, options);
}

TEST_WORLDS(a_simulation_inside_a_live_runtime, options)
{
    hd_options live = HD_OPTIONS_INIT;
    live.world = HD_WORLD_LIVE;
    hd_options own = *options;
    rt_run(use_another_often, &own, &live);
}

struct across {
    hd_runtime *other;
    int depth;
};

/* Each spawns the next into the other runtime and waits for it there. */
static int spawn_across(void *arg)
{
    struct across *across = arg;
    if (across->depth == 0) return 100;
    struct across next = {hd_runtime_self(), across->depth - 1};
    return rt_join(rt_spawn(across->other, spawn_across, &next)) + 1;
}

TEST(fibers_spawn_and_join_across_live_runtimes)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 2;
    hd_runtime *a = rt_create(&options), *b = rt_create(&options);
    struct across first = {b, 50};
    hd_task *tasks[4];
    for (int i = 0; i < 4; i++) tasks[i] = rt_spawn(a, spawn_across, &first);
    for (int i = 0; i < 4; i++) EXPECT_EQ(rt_join(tasks[i]), 150);
    EXPECT_EQ(hd_runtime_drain(b, HD_FOREVER), 0);
    EXPECT_EQ(hd_runtime_drain(a, HD_FOREVER), 0);
    hd_runtime_destroy(b);
    hd_runtime_destroy(a);
}

/* ---- widths ---- */

TEST_WORLDS(any_number_of_workers, options)
{
    static const unsigned widths[] = {1, 2, 3, 16, 65, 256};
    for (int i = 0; i < 6; i++) {
        for (int policy = HD_POLICY_FAIR; policy <= HD_POLICY_LOCAL; policy++) {
            hd_options own = rt_workers(options, widths[i]);
            own.policy = (hd_policy)policy;
            rt_by_workers(&own);
            hd_runtime *runtime = rt_create(&own);
            int tasks = 200;
            EXPECT_EQ(rt_join(rt_spawn(runtime, spread, &tasks)), 0);
            EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
            hd_stats stats;
            hd_runtime_stats(runtime, &stats);
            EXPECT_EQ(stats.workers, widths[i]);
            EXPECT_EQ(stats.completed, 201);
            hd_runtime_destroy(runtime);
        }
    }
}

TEST(every_worker_is_a_thread)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 16;
    hd_runtime *runtime = rt_create(&options);
    const int with_one = count_entries("/proc/self/task");
    hd_runtime *second = rt_create(&options);
    EXPECT_EQ(count_entries("/proc/self/task"), with_one + 16);
    hd_runtime_destroy(second);
    while (count_entries("/proc/self/task") > with_one) sched_yield();
    options.world = HD_WORLD_SIM;
    second = rt_create(&options);
    EXPECT_EQ(count_entries("/proc/self/task"), with_one);
    hd_runtime_destroy(second);
    hd_runtime_destroy(runtime);
}
