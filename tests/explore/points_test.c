/* SPDX-License-Identifier: MIT
 *
 * Where tasks can be interrupted, and what lets others go first: regressions of schedules that once
 * could not be seen, and of programs that once seemed to go on for ever.
 */
#include "rt.h"

#include "base/sanitizer.h"

TEST_MAIN

static hd_explore_result explore(hd_fn *fn, const char *sampler, unsigned quantum_ops)
{
    hd_options inner = HD_OPTIONS_INIT;
    hd_explore_options options = HD_EXPLORE_OPTIONS_INIT;
    hd_explore_result result;
    inner.quantum_ops = quantum_ops;
    options.options = &inner;
    options.sampler = sampler;
    options.schedules = 400;
    options.steps_max = 2000;
    options.fork = HDI_ASAN; /* A failing schedule leaves its tasks behind. */
    EXPECT_EQ(hd_explore(fn, NULL, &options, &result), 0);
    return result;
}

static void expect_nothing(hd_fn *fn, const char *sampler, unsigned quantum_ops)
{
    const hd_explore_result result = explore(fn, sampler, quantum_ops);
    if (result.verdict == HD_VERDICT_NONE) return;
    test_fail(__FILE__, __LINE__, "%s: %s: %s", result.sampler, hd_verdict_name(result.verdict),
              result.message);
}

/* ---- jobs ---- */

static int sum;

/* Between its look and its write it makes a call of the library that finds nothing to do. */
HD_JOB(add_one, int, int, one)
{
    const int seen = sum;
    (void)hd_checkpoint(1);
    sum = seen + one;
    return one;
}

HD_JOB(add_two, int, int, one)
{
    HD_FORK(other, add_one, one);
    const int mine = HD_CALL(add_one, one);
    return HD_SYNC(other) + mine;
}

static int count_by_jobs(void *arg)
{
    (void)arg;
    sum = 0;
    hd_assert(HD_RUN_JOB(NULL, add_two, 1) == 2);
    hd_assert(sum == 2);
    return 0;
}

/* A job that was taken runs in a strand, whose calls are points as those of any fiber. */
TEST(calls_in_jobs_are_points)
{
    EXPECT_EQ(explore(count_by_jobs, "random", 0).verdict, HD_VERDICT_ASSERT);
}

/* ---- long runs ---- */

static bool set;

static int set_it(void *arg)
{
    (void)arg;
    set = true;
    return 0;
}

static int wait_in_a_loop(void *arg)
{
    (void)arg;
    set = false;
    hd_task *other = rt_spawn(NULL, set_it, NULL);
    while (!set) (void)hd_checkpoint(1);
    rt_join(other);
    return 0;
}

/* Who has run for a quantum gives way, and that is a yield: samplers by priority let others run. */
TEST(who_gives_way_after_a_quantum_has_yielded)
{
    expect_nothing(wait_in_a_loop, "pct:1", 20);
    expect_nothing(wait_in_a_loop, "pos", 20);
    expect_nothing(wait_in_a_loop, "fair", 20);
}

static int yield_in_a_loop(void *arg)
{
    (void)arg;
    set = false;
    hd_task *other = rt_spawn(NULL, set_it, NULL);
    while (!set) hd_yield();
    rt_join(other);
    return 0;
}

TEST(who_yields_lets_others_run)
{
    expect_nothing(yield_in_a_loop, "pct:1", 0);
    expect_nothing(yield_in_a_loop, "fair", 0);
}

/* ---- stackless tasks ---- */

struct waking {
    bool woken;
};

static hd_poll wake_itself(void *state, int *result)
{
    struct waking *waking = state;
    if (waking->woken) {
        *result = 0;
        return HD_READY;
    }
    waking->woken = true;
    hd_waker_wake(hd_waker_self());
    return HD_PENDING;
}

static int run_one_that_wakes_itself(void *arg)
{
    const struct waking waking = {false};
    (void)arg;
    return rt_join(rt_spawn_poll(NULL, wake_itself, &waking, sizeof(waking)));
}

/* So many events of a kind that a task has to do with itself. */
static unsigned count_own(const char *path, hd_log_kind kind, uint64_t task)
{
    hd_log *log = NULL;
    hd_log_event event;
    unsigned count = 0;
    EXPECT_EQ(hd_log_open(&log, path), 0);
    while (hd_log_next(log, &event) == 1) {
        count += event.kind == kind && event.task == task && event.a == task;
    }
    hd_log_close(log);
    return count;
}

/* It is ready again, and the record says thanks to whom. */
TEST(a_stackless_task_that_wakes_itself_is_ready)
{
    char path[64], meta[72];
    hd_options options = HD_OPTIONS_INIT;
    snprintf(path, sizeof(path), "/tmp/heddle-points-%d", (int)getpid());
    snprintf(meta, sizeof(meta), "%s.meta", path);
    options.world = HD_WORLD_SIM;
    options.seed = 1;
    options.sampler = "fair";
    options.record = path;
    EXPECT_EQ(hd_run(run_one_that_wakes_itself, NULL, &options), 0);
    EXPECT_EQ(count_own(path, HD_LOG_WAKE, 2), 1);
    EXPECT_EQ(unlink(path), 0);
    EXPECT_EQ(unlink(meta), 0);
}
