/* SPDX-License-Identifier: MIT
 *
 * What hd_explore() calls a failure, as its options say; that a replay and a shrink of what it
 * recorded judge in the same way; and what is left of a failure that cannot be recorded.
 */
#include <sys/wait.h>

#include "base/sanitizer.h"
#include "rt.h"

TEST_MAIN

static char path[64], small[72];

static void begin(void)
{
    snprintf(path, sizeof(path), "/tmp/heddle-judging-%d", (int)getpid());
    snprintf(small, sizeof(small), "%s.min", path);
}

static void drop(const char *log)
{
    char meta[96];
    snprintf(meta, sizeof(meta), "%s.meta", log);
    EXPECT_EQ(unlink(log), 0);
    EXPECT_EQ(unlink(meta), 0);
}

/* A failing schedule leaves its tasks behind, which AddressSanitizer would call a leak. */
static hd_explore_options options_of(void)
{
    hd_explore_options options = HD_EXPLORE_OPTIONS_INIT;
    options.sampler = "random";
    options.schedules = 300;
    options.fork = HDI_ASAN;
    return options;
}

static hd_explore_result explore(hd_fn *fn, const hd_explore_options *options)
{
    hd_explore_result result;
    EXPECT_EQ(hd_explore(fn, NULL, options, &result), 0);
    return result;
}

static bool was_recorded_with(const char *words)
{
    hd_log *log = NULL;
    EXPECT_EQ(hd_log_open(&log, path), 0);
    const bool is = strstr(hd_log_about(log)->options, words) != NULL;
    hd_log_close(log);
    return is;
}

/* Whether hd_run() takes every choice of the log and has every event of it, in a process of its
 * own. */
static bool replays(hd_fn *fn, const char *log)
{
    int ends[2];
    char text[4096] = "";
    EXPECT_EQ(pipe(ends), 0);
    fflush(NULL);
    const pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        hd_options options = HD_OPTIONS_INIT;
        options.replay = log;
        options.world = HD_WORLD_SIM;
        dup2(ends[1], STDERR_FILENO);
        _exit(hd_run(fn, NULL, &options) == -ENOTRECOVERABLE ? 0 : 1);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t n; (n = read(ends[0], text + length, sizeof(text) - 1 - length)) > 0;) {
        length += (size_t)n;
    }
    close(ends[0]);
    int status;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    const bool same = status == 0 && !strstr(text, "divergence");
    if (!same) fprintf(stderr, "# status %d: %s\n", status, text);
    return same;
}

/* ---- closed handles ---- */

static hd_io ends[2];
static int read_late, closed;

/* It reads until that fails, be it because somebody has closed the pipe meanwhile. */
static int read_on(void *arg)
{
    char byte;
    (void)arg;
    while (hd_read(ends[0], &byte, 1) > 0) continue;
    if (hd_atomic_load(&closed)) hd_atomic_add(&read_late, 1);
    return 0;
}

/* With `arg` it is a failure that the reader was still there. */
static int close_under_reader(void *arg)
{
    closed = read_late = 0;
    hd_assert(hd_pipe(ends) == 0);
    hd_task *reader = rt_spawn(NULL, read_on, NULL);
    hd_assert(hd_write_all(ends[1], "abc", 3, NULL) == 0);
    hd_atomic_store(&closed, 1);
    hd_assert(hd_close(ends[0]) == 0);
    rt_join(reader);
    hd_assert(hd_close(ends[1]) == 0);
    hd_assert(!arg || read_late == 0);
    return 0;
}

static int close_and_assert(void *arg)
{
    (void)arg;
    return close_under_reader(&closed);
}

TEST(a_closed_handle_is_a_failure_unless_it_is_allowed)
{
    hd_explore_options options = options_of();
    EXPECT_EQ(explore(close_under_reader, &options).verdict, HD_VERDICT_STALE);
    options.allow_stale = true;
    EXPECT_EQ(explore(close_under_reader, &options).verdict, HD_VERDICT_NONE);
}

/* The failure comes after the use of a closed handle. */
TEST(a_replay_and_a_shrink_allow_what_was_allowed)
{
    hd_explore_options options = options_of();
    begin();
    options.allow_stale = true;
    options.log = path;
    EXPECT_EQ(explore(close_and_assert, &options).verdict, HD_VERDICT_ASSERT);
    EXPECT(was_recorded_with("allow_stale=1"));
    EXPECT(replays(close_and_assert, path));
    const hd_explore_options other = options_of();
    EXPECT(hd_shrink(close_and_assert, NULL, &other, path, small, 0) > 0);
    EXPECT(replays(close_and_assert, small));
    drop(path);
    drop(small);
}

TEST(a_replay_refuses_what_was_refused)
{
    hd_explore_options options = options_of();
    begin();
    options.log = path;
    EXPECT_EQ(explore(close_under_reader, &options).verdict, HD_VERDICT_STALE);
    EXPECT(was_recorded_with("allow_stale=0"));
    EXPECT(replays(close_under_reader, path));
    drop(path);
}

/* ---- results ---- */

static int keeps_a_task(void *arg)
{
    (void)arg;
    return 0;
}

/* A task is neither joined nor detached, and the result is no success either. */
static int fail_and_leak(void *arg)
{
    (void)arg;
    (void)rt_spawn(NULL, keeps_a_task, NULL);
    hd_yield();
    return 7;
}

TEST(results_are_failures_unless_they_are_ignored)
{
    hd_explore_options options = options_of();
    const hd_explore_result result = explore(fail_and_leak, &options);
    EXPECT_EQ(result.verdict, HD_VERDICT_RESULT);
    EXPECT_EQ(result.code, 7);
    options.ignore_results = true;
    EXPECT_EQ(explore(fail_and_leak, &options).verdict, HD_VERDICT_LEAK);
}

TEST(a_replay_and_a_shrink_ignore_the_results_that_were_ignored)
{
    hd_explore_options options = options_of();
    begin();
    options.ignore_results = true;
    options.log = path;
    EXPECT_EQ(explore(fail_and_leak, &options).verdict, HD_VERDICT_LEAK);
    EXPECT(was_recorded_with("ignore_results=1"));
    EXPECT(replays(fail_and_leak, path));
    const hd_explore_options other = options_of();
    EXPECT(hd_shrink(fail_and_leak, NULL, &other, path, small, 0) > 0);
    EXPECT(replays(fail_and_leak, small));
    drop(path);
    drop(small);
}

/* ---- what cannot be recorded ---- */

static void expect_unrecorded(bool fork)
{
    hd_explore_options options = options_of();
    hd_explore_result result;
    options.fork = fork || HDI_ASAN;
    options.log = "/dev/full";
    EXPECT_EQ(hd_explore(fail_and_leak, NULL, &options, &result), -ENOSPC);
    EXPECT_EQ(result.verdict, HD_VERDICT_RESULT);
    EXPECT_EQ(result.failed_at, 1);
    EXPECT(result.ended && strstr(result.message, "returned 7"));
}

TEST(a_failure_that_cannot_be_recorded_is_still_one) { expect_unrecorded(false); }
TEST(also_in_a_process_of_its_own) { expect_unrecorded(true); }

/* ---- past failures ---- */

/* What a failing schedule leaves behind is not in the way of the next. */
TEST(failures_that_leak_are_all_counted)
{
    hd_explore_options options = options_of();
    options.keep_going = true;
    options.schedules = 20;
    const hd_explore_result result = explore(fail_and_leak, &options);
    EXPECT_EQ(result.failures, 20);
    EXPECT_EQ(result.verdict, HD_VERDICT_RESULT);
}

/* ---- many tasks ---- */

/* More are ready than there is room for at first: a schedule that fails late, when there is, does
 * the same again where there is none. */
enum { CROWD = 100, UNLUCKY = 4 };

static int first_in;

static int enter(void *arg)
{
    int none = 0;
    (void)hd_atomic_cas(&first_in, &none, 1 + (int)(uintptr_t)arg);
    hd_yield();
    return 0;
}

static int enter_all(void *arg)
{
    hd_task *tasks[CROWD];
    (void)arg;
    first_in = 0;
    for (uintptr_t i = 0; i < CROWD; i++) tasks[i] = rt_spawn(NULL, enter, (void *)i);
    for (int i = 0; i < CROWD; i++) (void)rt_join(tasks[i]);
    hd_assert(first_in > UNLUCKY);
    return 0;
}

TEST(a_schedule_of_many_tasks_repeats_in_a_new_runtime)
{
    static const char *const samplers[] = {"random", "pct:3", "pos", "urw"};
    unsigned late = 0;
    for (int i = 0; i < 4 * 10; i++) {
        hd_explore_options options = options_of();
        options.sampler = samplers[i % 4];
        options.seed = 1 + (uint64_t)i;
        const hd_explore_result result = explore(enter_all, &options);
        EXPECT(result.verdict == HD_VERDICT_ASSERT || result.verdict == HD_VERDICT_NONE);
        late += result.failed_at > 1;
    }
    EXPECT(late >= 10);
}
