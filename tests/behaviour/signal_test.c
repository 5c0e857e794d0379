/* SPDX-License-Identifier: MIT
 *
 * Signals as items of a channel.
 */
#include <dirent.h>
#include <signal.h>

#include "base/sanitizer.h"
#include "death.h"
#include "rt.h"

TEST_MAIN

static hd_chan *open_signals(const int *signals, unsigned count)
{
    hd_chan *chan = NULL;
    if (HDI_TSAN && hd_runtime_world(hd_runtime_self()) == HD_WORLD_LIVE) {
        test_skip("ThreadSanitizer keeps signals back from a thread that sleeps");
    }
    EXPECT_EQ(hd_signal_open(&chan, signals, count), 0);
    return chan;
}

static void expect_signal(hd_chan *chan, int number)
{
    int got = 0;
    EXPECT_EQ(hd_chan_recv(chan, &got), 0);
    EXPECT_EQ(got, number);
}

static const int usr[] = {SIGUSR1, SIGUSR2};

/* ---- coming ---- */

static int receive(void *arg)
{
    (void)arg;
    hd_chan *chan = open_signals(usr, 2);
    EXPECT_EQ(hd_chan_capacity(chan), 2);
    EXPECT_EQ(hd_signal_raise(SIGUSR2), 0); /* before somebody waits */
    expect_signal(chan, SIGUSR2);
    EXPECT_EQ(hd_signal_raise(SIGUSR1), 0);
    expect_signal(chan, SIGUSR1);
    hd_signal_close(chan);
    hd_signal_close(NULL);
    return 0;
}

TEST_IO(a_signal_comes_from_the_channel, options) { rt_run(receive, NULL, options); }

static int wait_first(void *chan)
{
    int got = 0;
    EXPECT_EQ(hd_chan_recv(chan, &got), 0);
    return got;
}

static int raise_later(void *arg)
{
    (void)arg;
    hd_chan *chan = open_signals(usr, 2);
    hd_task *waiter = rt_spawn(NULL, wait_first, chan);
    EXPECT_EQ(hd_sleep_ms(2), 0); /* so that it waits; it makes no difference if not */
    EXPECT_EQ(hd_signal_raise(SIGUSR1), 0);
    EXPECT_EQ(rt_join(waiter), SIGUSR1);
    hd_signal_close(chan);
    return 0;
}

TEST_IO(who_waits_is_woken, options) { rt_run(raise_later, NULL, options); }

static int raise_often(void *arg)
{
    (void)arg;
    hd_chan *chan = open_signals(usr, 2);
    hd_chan *second = open_signals(&usr[1], 1);
    for (int i = 0; i < 5; i++) EXPECT_EQ(hd_signal_raise(SIGUSR1), 0);
    for (int i = 0; i < 5; i++) EXPECT_EQ(hd_signal_raise(SIGUSR2), 0);
    expect_signal(second, SIGUSR2);
    EXPECT_EQ(hd_chan_recv_try(second, &(int){0}), -EAGAIN);
    expect_signal(chan, SIGUSR1);
    expect_signal(chan, SIGUSR2);
    EXPECT_EQ(hd_chan_recv_try(chan, &(int){0}), -EAGAIN);
    EXPECT_EQ(hd_signal_raise(SIGUSR1), 0);
    expect_signal(chan, SIGUSR1);
    hd_signal_close(chan);
    hd_signal_close(second);
    return 0;
}

/* In live the last of them may still be on its way. */
TEST_IO(a_signal_waits_only_once, options)
{
    if (rt_is_sim(options)) rt_run(raise_often, NULL, options);
}

static int for_all(void *arg)
{
    (void)arg;
    hd_chan *chans[3];
    for (int i = 0; i < 3; i++) chans[i] = open_signals(usr, 2);
    EXPECT_EQ(hd_signal_raise(SIGUSR1), 0);
    for (int i = 0; i < 3; i++) expect_signal(chans[i], SIGUSR1);
    hd_signal_close(chans[1]);
    EXPECT_EQ(hd_signal_raise(SIGUSR2), 0);
    expect_signal(chans[0], SIGUSR2);
    expect_signal(chans[2], SIGUSR2);
    hd_signal_close(chans[0]);
    hd_signal_close(chans[2]);
    return 0;
}

TEST_IO(each_channel_gets_it, options) { rt_run(for_all, NULL, options); }

static int drain(void *arg)
{
    (void)arg;
    hd_chan *stop = open_signals((const int[]){SIGTERM}, 1);
    hd_chan *work = hd_chan_create(sizeof(int), 1);
    int item = 1, got = 0, which = 0;
    for (int done = 0; which == 0; done++) {
        EXPECT_EQ(hd_chan_send(work, &item), 0);
        if (done == 3) EXPECT_EQ(hd_signal_raise(SIGTERM), 0);
        hd_case cases[] = {HD_RECV(work, &item), HD_RECV(stop, &got)};
        which = hd_select(cases, 2);
        EXPECT_EQ(cases[which].result, 0);
    }
    EXPECT_EQ(got, SIGTERM);
    hd_chan_destroy(work);
    hd_signal_close(stop);
    return 0;
}

TEST_IO(it_is_a_case_of_a_select, options) { rt_run(drain, NULL, options); }

static int wait_in_vain(void *arg)
{
    (void)arg;
    hd_chan *chan = open_signals(usr, 2);
    EXPECT_EQ(hd_chan_recv_until(chan, &(int){0}, hd_after_ms(5)), -ETIMEDOUT);
    hd_task *waiter = rt_spawn(NULL, wait_first, chan);
    hd_chan *other = open_signals((const int[]){SIGHUP}, 1);
    EXPECT_EQ(hd_signal_raise(SIGHUP), 0);
    expect_signal(other, SIGHUP); /* and not to the first channel, */
    EXPECT_EQ(hd_signal_raise(SIGUSR1), 0);
    EXPECT_EQ(rt_join(waiter), SIGUSR1);
    EXPECT_EQ(hd_chan_count(other), 0); /* nor this to the other */
    hd_signal_close(chan);
    hd_signal_close(other);
    return 0;
}

TEST_IO(only_what_was_asked_for_comes, options) { rt_run(wait_in_vain, NULL, options); }

/* ---- what was there before ---- */

static atomic_int handled;

static void handle(int number)
{
    (void)number;
    atomic_fetch_add(&handled, 1);
}

static void expect_handler(int number, void (*handler)(int))
{
    struct sigaction now;
    EXPECT_EQ(sigaction(number, NULL, &now), 0);
    EXPECT(now.sa_handler == handler);
}

static int open_and_close(void *arg)
{
    (void)arg;
    hd_chan *both = open_signals(usr, 2), *one = open_signals(usr, 1);
    hd_signal_close(both);
    expect_handler(SIGUSR2, SIG_IGN);
    EXPECT_EQ(hd_signal_raise(SIGUSR1), 0);
    expect_signal(one, SIGUSR1);
    hd_signal_close(one);
    expect_handler(SIGUSR1, handle);
    return 0;
}

TEST(handlers_are_restored)
{
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_LIVE};
    EXPECT(signal(SIGUSR1, handle) == SIG_DFL);
    EXPECT(signal(SIGUSR2, SIG_IGN) == SIG_DFL);
    for (int i = 0; i < 3; i++) rt_run(open_and_close, NULL, &options);
    EXPECT_EQ(atomic_load(&handled), 0);
    EXPECT_EQ(hd_signal_raise(SIGUSR1), 0); /* to this thread, or another of the program: none */
    EXPECT_EQ(atomic_load(&handled), 1);
}

static unsigned entries(const char *path)
{
    unsigned count = 0;
    DIR *dir = opendir(path);
    EXPECT(dir != NULL);
    while (readdir(dir)) count++;
    closedir(dir);
    return count;
}

static int leave_nothing(void *arg)
{
    (void)arg;
    const unsigned threads = entries("/proc/self/task"), fds = entries("/proc/self/fd");
    hd_chan *chan = open_signals(usr, 2);
    EXPECT_EQ(entries("/proc/self/task"), threads + 1);
    hd_signal_close(chan);
    /* A thread that was joined is in the list for a moment longer. */
    while (entries("/proc/self/task") > threads) hd_yield();
    EXPECT_EQ(entries("/proc/self/fd"), fds);
    return 0;
}

TEST(nothing_is_left_behind)
{
    const hd_options options = {
        .size = sizeof(options), .world = HD_WORLD_LIVE, .workers = 1, .stall_ns = HD_FOREVER};
    rt_run(leave_nothing, NULL, &options);
}

/* ---- who is asked ---- */

/* Programs that wait for signals by other means block them in all threads. */
TEST(signals_that_every_thread_blocks_come)
{
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_LIVE};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    EXPECT_EQ(sigprocmask(SIG_BLOCK, &set, NULL), 0);
    rt_run(receive, NULL, &options);
}

static int open_one(void *chan)
{
    return hd_signal_open(chan, usr, 2);
}

static int raise_in(void *arg)
{
    (void)arg;
    return hd_signal_raise(SIGUSR1);
}

TEST_IO(runtimes_are_asked_together_in_live_only, options)
{
    hd_runtime *runtimes[2] = {rt_create(options), rt_create(options)};
    hd_chan *chans[2];
    int got = 0;
    for (int i = 0; i < 2; i++) EXPECT_EQ(rt_join(rt_spawn(runtimes[i], open_one, &chans[i])), 0);
    EXPECT_EQ(rt_join(rt_spawn(runtimes[0], raise_in, NULL)), 0);
    EXPECT_EQ(hd_chan_recv(chans[0], &got), 0);
    EXPECT_EQ(got, SIGUSR1);
    if (rt_is_sim(options)) {
        EXPECT_EQ(hd_chan_count(chans[1]), 0);
    } else {
        EXPECT_EQ(hd_chan_recv(chans[1], &got), 0);
    }
    for (int i = 0; i < 2; i++) {
        hd_signal_close(chans[i]);
        hd_runtime_destroy(runtimes[i]);
    }
}

/* ---- misuse ---- */

static int misuse(void *arg)
{
    (void)arg;
    static const int refused[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, 0, -1, 65, 32};
    hd_chan *chan = NULL;
    const bool sim = hd_runtime_world(hd_runtime_self()) == HD_WORLD_SIM;
    for (unsigned i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (sim && refused[i] == 32) continue; /* The C library keeps it, in live. */
        const int with_another[] = {SIGUSR1, refused[i]};
        EXPECT_EQ(hd_signal_open(&chan, with_another, 2), -EINVAL);
        if (!sim) expect_handler(SIGUSR1, SIG_DFL);
    }
    EXPECT_EQ(hd_signal_open(&chan, usr, 0), -EINVAL);
    EXPECT(chan == NULL);
    EXPECT_EQ(hd_signal_raise(0), -EINVAL);
    EXPECT_EQ(hd_signal_raise(65), -EINVAL);
    return 0;
}

TEST_IO(bad_signals_are_refused, options) { rt_run(misuse, NULL, options); }

TEST(a_runtime_is_needed)
{
    hd_chan *chan = NULL;
    EXPECT_EQ(hd_signal_open(&chan, usr, 2), -EINVAL);
}

static void close_another(void *arg)
{
    (void)arg;
    hd_signal_close(hd_chan_create(sizeof(int), 1));
}

TEST(a_channel_of_another_kind_is_told)
{
    expect_abort(close_another, NULL, "another channel than hd_signal_open() made");
}

/* ---- many ---- */

enum { FIBERS = 8, ROUNDS = 50 };

static int open_often(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        hd_chan *chan = open_signals(usr, 2);
        int got = 0;
        EXPECT_EQ(hd_signal_raise(usr[i % 2]), 0);
        while (got != usr[i % 2]) EXPECT_EQ(hd_chan_recv(chan, &got), 0); /* or one of others */
        hd_signal_close(chan);
    }
    return 0;
}

static int all_open_often(void *arg)
{
    (void)arg;
    hd_task *tasks[FIBERS];
    for (int i = 0; i < FIBERS; i++) tasks[i] = rt_spawn(NULL, open_often, NULL);
    for (int i = 0; i < FIBERS; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    return 0;
}

TEST_IO(many_open_and_close_while_signals_come, options)
{
    /* One may come when the channel that it came for is closed. */
    for (int i = 0; i < 2; i++) signal(usr[i], SIG_IGN);
    rt_run(all_open_often, NULL, options);
    for (int i = 0; i < 2; i++) expect_handler(usr[i], SIG_IGN);
}
