/* SPDX-License-Identifier: MIT
 *
 * Deadlocks: a run in which no task can ever go on ends with a report; one that something
 * can still wake does not.
 */
#include "rt.h"

#include <pthread.h>

#include "base/sanitizer.h"

TEST_MAIN

static void need_exact_threads(void)
{
    if (HDI_TSAN) test_skip("ThreadSanitizer has a thread of its own");
    if (getenv("HEDDLE_TEST_EMULATED")) test_skip("the emulator has threads of its own");
}

/* Run in a child whose stderr is kept: its last 16 KiB. */
static char said[16384];

static int listen(int (*run)(void *), void *arg)
{
    int pipes[2], result = 0;
    EXPECT_EQ(pipe(pipes), 0);
    const pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        dup2(pipes[1], STDERR_FILENO);
        close(pipes[0]);
        _exit(run(arg) == -EDEADLK ? 35 : 36);
    }
    close(pipes[1]);
    size_t length = 0;
    for (ssize_t n; (n = read(pipes[0], said + length, sizeof(said) - 1 - length)) > 0;) {
        length += (size_t)n;
    }
    said[length] = '\0';
    close(pipes[0]);
    EXPECT_EQ(waitpid(pid, &result, 0), pid);
    EXPECT(WIFEXITED(result));
    return WEXITSTATUS(result);
}

struct program {
    hd_fn *fn;
    void *arg;
    const hd_options *options;
};

static int run_program(void *arg)
{
    const struct program *program = arg;
    return hd_run(program->fn, program->arg, program->options);
}

static int run_listening(hd_fn *fn, void *arg, const hd_options *options)
{
    struct program program = {fn, arg, options};
    return listen(run_program, &program);
}

static int park_for_good(void *arg)
{
    (void)arg;
    return hd_park();
}

static __attribute__((noinline)) int join_one_that_parks(void *arg)
{
    (void)arg;
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.name = "sleepy";
    hd_task *task = NULL;
    EXPECT_EQ(hd_spawn_with(&task, park_for_good, NULL, &options), 0);
    const int err = hd_join(task, NULL);
    if (err) hd_detach(task); /* Both are cancelled: the other may have ended first. */
    return err;
}

TEST_WORLDS(who_waits_for_whom_is_reported, options)
{
    if (!rt_is_sim(options)) need_exact_threads();
    EXPECT_EQ(run_listening(join_one_that_parks, NULL, options), 35);
    EXPECT(strstr(said, "heddle: deadlock: no task can ever run again; 2 wait:"));
    EXPECT(strstr(said, "task 1 \"main\", spawned at "));
    EXPECT(strstr(said, "join task "));
    EXPECT(strstr(said, "\"sleepy\", spawned at "));
    const bool sim = rt_is_sim(options); /* In live it may have taken any time. */
    EXPECT(strstr(said, sim ? "  waits for about 0.0" : "  waits for about "));
    EXPECT(strstr(said, sim ? "  is parked for about 0.0" : "  is parked for about "));
    EXPECT(strstr(said, " until a waker of it fires"));
    EXPECT(strstr(said, "#0 "));
    EXPECT(!sim == !strstr(said, "reproduce with HEDDLE_SEED="));
}

static hd_poll never(void *state, int *result)
{
    (void)state;
    (void)result;
    return HD_PENDING;
}

static int join_stackless(void *arg)
{
    hd_task *task = rt_spawn_poll(NULL, never, arg, 0);
    hd_case cases[] = {HD_JOIN(task, NULL), HD_NEVER};
    const int which = hd_select(cases, 2);
    if (which < 0) hd_detach(task);
    return which;
}

TEST_WORLDS(stackless_tasks_and_selects_are_reported, options)
{
    if (!rt_is_sim(options)) need_exact_threads();
    EXPECT_EQ(run_listening(join_stackless, NULL, options), 35);
    EXPECT(strstr(said, "is pending until a waker of it fires"));
    EXPECT(strstr(said, "waits for about "));
}

static int sleeps(void *arg)
{
    (void)arg;
    return hd_sleep_ms(20) == 0 ? 0 : -EDEADLK;
}

TEST_WORLDS(a_timer_is_no_deadlock, options)
{
    EXPECT_EQ(run_listening(sleeps, NULL, options), 36);
    EXPECT(!strstr(said, "deadlock"));
}

/* A thread that is about to wake a fiber is no deadlock, though nothing shows it. */
struct outside {
    hd_waker waker;
    atomic_int woken;
};

static void *wake_late(void *arg)
{
    struct outside *outside = arg;
    usleep(50000); /* not for order: to let a wrong report happen */
    atomic_store(&outside->woken, 1);
    hd_waker_wake(outside->waker);
    return NULL;
}

static int woken_from_outside(void *arg)
{
    struct outside *outside = arg;
    outside->waker = hd_waker_self();
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, wake_late, outside), 0);
    while (!atomic_load(&outside->woken)) {
        if (hd_park()) return -EDEADLK;
    }
    pthread_join(thread, NULL);
    return 0;
}

TEST(a_foreign_thread_is_no_deadlock)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 2;
    struct outside outside = {.woken = 0};
    EXPECT_EQ(run_listening(woken_from_outside, &outside, &options), 36);
    EXPECT(!strstr(said, "deadlock"));
}

TEST(it_can_be_turned_off)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 2;
    hd_runtime *runtime = rt_create(&options);
    hd_task *task = rt_spawn(runtime, park_for_good, NULL);
    EXPECT_EQ(hd_join_until(task, NULL, hd_now(runtime) + 30000000), -ETIMEDOUT);
    hd_detach(task);
    hd_runtime_destroy(runtime);
    options.deadlock = (hd_deadlock)7;
    EXPECT(hd_options_error(&options) != NULL);
}

/* The thread that waited may not have noticed yet that its task has ended. */
static int leave_sleepers(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) EXPECT_EQ(hd_spawn(NULL, park_for_good, NULL), 0);
    hd_yield();
    return 12;
}

TEST(a_run_that_has_ended_is_no_deadlock)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 2;
    for (int i = 0; i < 300; i++) EXPECT_EQ(hd_run(leave_sleepers, NULL, &options), 12);
}

static int drain_sleepers(void *arg)
{
    (void)arg;
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 2;
    options.deadlock = HD_DEADLOCK_REPORT;
    hd_runtime *runtime = rt_create(&options);
    hd_detach(rt_spawn(runtime, park_for_good, NULL));
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0); /* They were cancelled. */
    hd_runtime_destroy(runtime);
    return -EDEADLK;
}

TEST(who_drains_gets_a_report_too)
{
    need_exact_threads();
    EXPECT_EQ(listen(drain_sleepers, NULL), 35);
    EXPECT(strstr(said, "heddle: deadlock: "));
}
