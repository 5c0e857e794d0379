/* SPDX-License-Identifier: MIT
 *
 * Every system call of child processes and of signals fails in turn (tests/faults.h). In live
 * children are started twice: with pidfds, and as on a kernel that has none.
 */
#include "faults.h"

#include <signal.h>

#include "base/sanitizer.h"
#include "programs.h"

TEST_MAIN

/* ---- child processes ---- */

static bool has_pidfds;

static int fail_or_lack(struct hd_runtime *runtime, const char *name)
{
    if (!has_pidfds && strcmp(name, "pidfd_open") == 0) return -ENOSYS;
    return faults_nth(runtime, name);
}

/* A child is there until its input ends: until it is killed, or its handle freed. */
static int start(hd_child **child)
{
    static const char *const argv[] = {"cat", NULL};
    if (nets_in_sim()) EXPECT_EQ(hd_sim_program("cat", programs_cat, NULL), 0);
    hd_child_options options = HD_CHILD_OPTIONS_INIT;
    options.streams[0] = HD_CHILD_PIPE;
    options.streams[1] = HD_CHILD_PIPE;
    options.streams[2] = HD_CHILD_FD;
    options.fds[2] = STDERR_FILENO;
    options.kill_grace_ns = 5 * HD_MS_NS;
    return hd_child_start(child, argv, &options);
}

/* In sim a call of the child may be the one that fails; it says so by its status. */
static bool child_failed(int status)
{
    return nets_in_sim() && faults_plan.hit && WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

static int talk(hd_child *child)
{
    char text[8];
    int status = -1;
    int err = hd_write_all(hd_child_pipe(child, 0), "hello", 5, NULL);
    if (!err) err = hd_read_exact(hd_child_pipe(child, 1), text, 5, NULL);
    if (err) return err;
    EXPECT_EQ(hd_close(hd_child_pipe(child, 0)), 0);
    err = hd_child_wait(child, &status);
    if (!err) EXPECT(status == 0 || child_failed(status));
    return err;
}

static int start_and_talk(void *arg)
{
    (void)arg;
    hd_child *child;
    int err = start(&child);
    if (err) return err;
    err = talk(child);
    hd_child_free(child);
    return err;
}

static int start_and_kill(void *arg)
{
    (void)arg;
    hd_child *child;
    int status = 0;
    int err = start(&child);
    if (err) return err;
    err = hd_child_wait_until(child, &status, hd_after_ms(1));
    if (err == -ETIMEDOUT) err = hd_child_kill(child, SIGINT);
    if (!err) err = hd_child_wait(child, &status);
    if (!err) EXPECT(WIFSIGNALED(status) || child_failed(status));
    hd_child_free(child);
    return err;
}

static int wait_for(void *child)
{
    return hd_child_wait(child, NULL);
}

/* Whatever fails, who is cancelled is told that the child has ended. */
static int start_and_cancel(void *arg)
{
    (void)arg;
    hd_child *child;
    hd_task *waiter;
    int err = start(&child);
    if (err) return err;
    err = hd_spawn(&waiter, wait_for, child);
    if (!err) {
        hd_cancel(waiter);
        err = rt_join(waiter);
    }
    hd_child_free(child);
    return err == -ECANCELED ? 0 : err;
}

static int start_and_leave(void *arg)
{
    (void)arg;
    hd_child *child;
    const int err = start(&child);
    if (!err) hd_child_free(child);
    return err;
}

/* One of which the kernel says that it is not ours is not waited for: so it is done here. In sim it
 * goes with its runtime. */
static void wait_for_lost(void)
{
    if (!faults_hit("wait") || faults_plan.sweep > 0) return;
    while (waitpid(-1, NULL, 0) > 0) continue;
}

static int run_child(void *arg)
{
    hdi_sys_fault = fail_or_lack;
    return faults_run_scenario(arg);
}

static void fail_children(hd_fn *fn, const hd_options *options)
{
    struct faults_scenario scenario = {fn, *options};
    const bool sim = rt_is_sim(options);
    if (!sim && getenv("HEDDLE_TEST_EMULATED")) {
        test_skip("the emulator starts programs in its own way");
    }
    scenario.options.sampler = NULL; /* They may use what they could not open. */
    for (int i = 0; i < (sim ? 1 : 2); i++) {
        has_pidfds = i == 0;
        faults_each_run(run_child, &scenario, wait_for_lost);
        faults_expect("spawn");
        faults_expect("wait");
        faults_expect("dup");
        faults_expect("set_blocking");
        if (has_pidfds) faults_expect("pidfd_open");
    }
}

TEST_IO(a_child_that_is_talked_to, options) { fail_children(start_and_talk, options); }

TEST_IO(a_child_that_is_killed, options)
{
    fail_children(start_and_kill, options);
    faults_expect("kill");
}

TEST_IO(a_child_whose_waiter_is_cancelled, options)
{
    fail_children(start_and_cancel, options);
    faults_expect("kill");
}

TEST_IO(a_child_that_is_freed, options)
{
    fail_children(start_and_leave, options);
    faults_expect("kill");
}

/* ---- signals ---- */

/* Two channels, of which the second finds the bell and its thread. */
static int hear_signals(void *arg)
{
    (void)arg;
    const int first[] = {SIGUSR1, SIGUSR2}, second[] = {SIGUSR2};
    hd_chan *chans[2];
    int err = hd_signal_open(&chans[0], first, 2);
    if (err) return err;
    err = hd_signal_open(&chans[1], second, 1);
    if (err) {
        hd_signal_close(chans[0]);
        return err;
    }
    err = hd_signal_raise(SIGUSR2);
    for (int i = 0; i < 2 && !err; i++) {
        int number = 0;
        err = hd_chan_recv(chans[i], &number);
        if (!err) EXPECT_EQ(number, SIGUSR2);
    }
    hd_signal_close(chans[1]);
    hd_signal_close(chans[0]);
    return err;
}

/* The handlers that were there are there again. */
static void expect_default(void)
{
    static const int numbers[] = {SIGUSR1, SIGUSR2};
    for (int i = 0; i < 2; i++) {
        struct sigaction now;
        EXPECT_EQ(sigaction(numbers[i], NULL, &now), 0);
        EXPECT(now.sa_handler == SIG_DFL);
    }
}

TEST_DRIVERS(signals, options)
{
    if (HDI_TSAN) test_skip("ThreadSanitizer keeps signals back from a thread that sleeps");
    faults_each(hear_signals, expect_default, options);
    faults_expect("sigaction");
    faults_expect("eventfd");
    faults_expect("ppoll");
    faults_expect("kill");
}
