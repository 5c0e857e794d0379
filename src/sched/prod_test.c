/* SPDX-License-Identifier: MIT
 *
 * The signal that prods workers, beside handlers of the program for the same one.
 */
#include "sched/prod.h"

#include <heddle/process.h>

#include "nets.h"
#include "sched/runtime.h"

TEST_MAIN

#if HDI_URING && !HDI_MODEL

static _Atomic(unsigned) heard; /* A count by itself: relaxed. */

static void hear(int number)
{
    (void)number;
    hdi_fetch_add_relaxed(&heard, 1);
}

static struct sigaction above;

/* As libraries do that share a signal. */
static void hear_and_pass_on(int number, siginfo_t *what, void *machine)
{
    hdi_fetch_add_relaxed(&heard, 1);
    if (above.sa_flags & SA_SIGINFO) above.sa_sigaction(number, what, machine);
}

/* ---- one that was there before ---- */

static void *prod_often(void *worker)
{
    for (int i = 0; i < 5000; i++) (void)hdi_prod(worker);
    return NULL;
}

static int be_prodded(void *arg)
{
    enum { THREADS = 4 };
    hd_io ends[2];
    pthread_t threads[THREADS];
    (void)arg;
    nets_watched_pair(ends);
    for (int i = 0; i < THREADS; i++) {
        EXPECT_EQ(pthread_create(&threads[i], NULL, prod_often, hdi_worker_self()), 0);
    }
    for (int i = 0; i < THREADS; i++) EXPECT_EQ(pthread_join(threads[i], NULL), 0);
    nets_close(ends[0], ends[1]);
    return 0;
}

/* It hears what others send, and nothing of ours. */
TEST_DRIVERS(a_handler_of_the_program_does_not_hear_prods, options)
{
    const struct sigaction own = {.sa_handler = hear};
    const hd_options one = rt_one_lane(options);
    if (options->io != HD_IO_URING) return;
    EXPECT_EQ(sigaction(HDI_PROD_SIGNAL, &own, NULL), 0);
    rt_run(be_prodded, NULL, &one);
    EXPECT_EQ(hdi_load_relaxed(&heard), 0);
    EXPECT_EQ(raise(HDI_PROD_SIGNAL), 0);
    EXPECT_EQ(hdi_load_relaxed(&heard), 1);
}

/* ---- one that came between two runtimes of ours ---- */

static int put_one_above(void *arg)
{
    hd_io ends[2];
    const struct sigaction own = {.sa_sigaction = hear_and_pass_on, .sa_flags = SA_SIGINFO};
    nets_watched_pair(ends);
    if (arg) EXPECT_EQ(sigaction(HDI_PROD_SIGNAL, &own, &above), 0);
    else EXPECT_EQ(kill(getpid(), HDI_PROD_SIGNAL), 0);
    nets_close(ends[0], ends[1]);
    return 0;
}

/* Each would pass it on to the other. */
TEST_DRIVERS(a_handler_above_that_passes_on_is_called_once, options)
{
    const hd_options one = rt_one_lane(options);
    if (options->io != HD_IO_URING) return;
    rt_run(put_one_above, &above, &one);
    rt_run(put_one_above, NULL, &one);
    EXPECT_EQ(hdi_load_relaxed(&heard), 1);
}

/* ---- the library's own ---- */

static void *prod_until_heard(void *worker)
{
    while (!hdi_prod(worker)) continue;
    return NULL;
}

static int prod_with_a_channel(void *arg)
{
    static const int signals[] = {HDI_PROD_SIGNAL};
    hd_io ends[2];
    hd_chan *chan;
    pthread_t thread;
    (void)arg;
    nets_watched_pair(ends);
    EXPECT_EQ(hd_signal_open(&chan, signals, 1), 0);
    EXPECT_EQ(pthread_create(&thread, NULL, prod_until_heard, hdi_worker_self()), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    hd_signal_close(chan);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_DRIVERS(a_channel_of_the_signal_leaves_prods_to_us, options)
{
    const hd_options one = rt_one_lane(options);
    if (options->io == HD_IO_URING) rt_run(prod_with_a_channel, NULL, &one);
}

/* The channel is older than the handler, and closed while that is needed. */
static int prod_after_a_channel(void *arg)
{
    hd_io ends[2];
    pthread_t thread;
    nets_watched_pair(ends);
    hd_signal_close(arg);
    EXPECT_EQ(pthread_create(&thread, NULL, prod_until_heard, hdi_worker_self()), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    nets_close(ends[0], ends[1]);
    return 0;
}

static int open_channel(void *arg)
{
    static const int signals[] = {HDI_PROD_SIGNAL};
    return hd_signal_open(arg, signals, 1);
}

TEST_DRIVERS(a_channel_that_closes_leaves_our_handler, options)
{
    const hd_options one = rt_one_lane(options);
    hd_chan *chan = NULL;
    if (options->io != HD_IO_URING) return;
    hd_runtime *runtime = rt_create(&one);
    EXPECT_EQ(rt_join(rt_spawn(runtime, open_channel, &chan)), 0);
    EXPECT_EQ(rt_join(rt_spawn(runtime, prod_after_a_channel, chan)), 0);
    hd_runtime_destroy(runtime);
}

#else

TEST(no_ring_without_io_uring)
{
    test_skip("no io_uring in this build");
}

#endif
