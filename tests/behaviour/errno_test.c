/* SPDX-License-Identifier: MIT
 *
 * errno belongs to the program: no call changes it, whether it succeeds or not.
 */
#include "rt.h"

TEST_MAIN

enum { MINE = 4242 };

#define KEEPS(call)                                                                      \
    do {                                                                                 \
        errno = MINE;                                                                    \
        call;                                                                            \
        if (errno != MINE) test_fail(__FILE__, __LINE__, "errno is %d after %s", errno, #call); \
    } while (0)

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static hd_poll nothing_poll(void *state, int *result)
{
    (void)state;
    *result = 0;
    return HD_READY;
}

static int park_until_cancelled(void *arg)
{
    (void)arg;
    while (hd_park() == 0) continue;
    return 0;
}

static int calls_in_a_fiber(void *arg)
{
    (void)arg;
    hd_task *task;
    char large[5000] = {0};
    KEEPS(EXPECT_EQ(hd_spawn(&task, nothing, NULL), 0));
    KEEPS(hd_yield());
    KEEPS(EXPECT_EQ(hd_join(task, NULL), 0));
    KEEPS(EXPECT_EQ(hd_spawn_poll(&task, nothing_poll, large, sizeof(large)), 0));
    KEEPS(EXPECT_EQ(hd_join(task, NULL), 0));
    KEEPS(EXPECT_EQ(hd_spawn(&task, park_until_cancelled, NULL), 0));
    KEEPS(EXPECT_EQ(hd_join_try(task, NULL), -EAGAIN));
    KEEPS(EXPECT_EQ(hd_join_until(task, NULL, hd_after_ms(1)), -ETIMEDOUT));
    KEEPS(hd_cancel(task));
    KEEPS(EXPECT_EQ(hd_join(task, NULL), 0));
    hd_waker waker;
    KEEPS(waker = hd_waker_self());
    KEEPS(hd_waker_wake_keep(waker));
    KEEPS(EXPECT_EQ(hd_park(), 0));
    KEEPS(hd_waker_drop(waker));
    KEEPS(EXPECT_EQ(hd_shield(), 0));
    KEEPS(EXPECT_EQ(hd_unshield(), 0));
    KEEPS(EXPECT_EQ(hd_unshield(), -EINVAL));
    KEEPS((void)hd_stack_high_water());
    KEEPS((void)hd_now(NULL));
    for (int i = 0; i < 300; i++) KEEPS(EXPECT_EQ(hd_spawn(NULL, nothing, NULL), 0));
    for (int i = 0; i < 300; i++) KEEPS(hd_yield()); /* stacks are mapped on the way */
    return 0;
}

/* Waits that end, that time ends, and that cannot be: in a fiber and in a thread. */
static int waits_anywhere(void *arg)
{
    const bool in_task = arg != NULL;
    hd_interval interval;
    hd_timer timer = {{0}};
    int item = 1;
    KEEPS(EXPECT_EQ(hd_sleep_ms(1), 0));
    KEEPS(EXPECT_EQ(hd_sleep_until(hd_now(NULL) + 100000), 0));
    KEEPS(EXPECT_EQ(hd_sleep_ms(-1), 0));
    KEEPS(EXPECT_EQ(hd_interval_init(&interval, hd_now(NULL), 0, HD_MISSED_SKIP), -EINVAL));
    KEEPS(EXPECT_EQ(hd_interval_init(&interval, hd_now(NULL), 50000, HD_MISSED_SKIP), 0));
    for (int i = 0; i < 3; i++) KEEPS(EXPECT_EQ(hd_interval_wait(&interval, NULL), 0));
    KEEPS(EXPECT_EQ(hd_timer_start(&timer, HD_FOREVER), in_task ? 0 : -EINVAL));
    KEEPS(EXPECT_EQ(hd_timer_stop(&timer), in_task));
    KEEPS((void)hd_timer_fired(&timer));
    hd_case cases[] = {HD_AT(HD_FOREVER - 1), HD_NEVER};
    KEEPS(EXPECT_EQ(hd_select_until(cases, 2, 0, HD_NOW), -EAGAIN));
    cases[0] = (hd_case)HD_AT(hd_now(NULL) + 100000);
    KEEPS(EXPECT_EQ(hd_select(cases, 2), 0));
    KEEPS(EXPECT_EQ(hd_select(cases, 0), -EINVAL));
    hd_chan *chan;
    KEEPS(chan = hd_chan_create(sizeof(item), 1));
    EXPECT(chan != NULL);
    KEEPS(EXPECT_EQ(hd_chan_send(chan, &item), 0));
    KEEPS(EXPECT_EQ(hd_chan_send_try(chan, &item), -EAGAIN));
    KEEPS(EXPECT_EQ(hd_chan_send_until(chan, &item, hd_after_ms(1)), -ETIMEDOUT));
    KEEPS(EXPECT_EQ(hd_chan_recv(chan, &item), 0));
    KEEPS(EXPECT_EQ(hd_chan_recv_until(chan, &item, hd_after_ms(1)), -ETIMEDOUT));
    KEEPS(EXPECT_EQ(hd_chan_close(chan), 0));
    KEEPS(EXPECT_EQ(hd_chan_recv(chan, &item), -EPIPE));
    KEEPS(hd_chan_destroy(chan));
    KEEPS(chan = hd_chan_create(SIZE_MAX / 2, 1));
    EXPECT(chan == NULL);
    return 0;
}

static int waits_in_a_fiber(void *arg)
{
    (void)arg;
    return waits_anywhere(&(int){1});
}

TEST_WORLDS(no_wait_changes_errno, options)
{
    const hd_options one = rt_workers(options, 1);
    hd_runtime *runtime = rt_create(&one);
    EXPECT_EQ(rt_join(rt_spawn(runtime, waits_in_a_fiber, NULL)), 0);
    EXPECT_EQ(waits_anywhere(NULL), 0);
    hd_runtime_destroy(runtime);
}

static void run_calls(hd_guard guard, const hd_options *options)
{
    hd_options own = rt_workers(options, 1); /* errno is the thread's */
    own.guard = guard;
    own.report_overflow = true;
    hd_runtime *runtime = NULL;
    int err;
    KEEPS(err = hd_runtime_create(&runtime, &own));
    if (guard == HD_GUARD_MADVISE && err == -ENOTSUP) return;
    EXPECT_EQ(err, 0);
    hd_spawn_options spawn = {.size = sizeof(spawn), .runtime = runtime, .name = "x"};
    hd_task *task;
    KEEPS(EXPECT_EQ(hd_spawn_with(&task, calls_in_a_fiber, NULL, &spawn), 0));
    KEEPS(EXPECT_EQ(hd_join(task, NULL), 0));
    KEEPS(EXPECT_EQ(hd_spawn_with(&task, park_until_cancelled, NULL, &spawn), 0));
    KEEPS(EXPECT_EQ(hd_join_until(task, NULL, HD_NOW), -EAGAIN));
    KEEPS(EXPECT_EQ(hd_runtime_drain(runtime, hd_now(runtime) + 100000), -ETIMEDOUT));
    hd_stats stats;
    KEEPS(hd_runtime_stats(runtime, &stats));
    KEEPS((void)hd_runtime_digest(runtime));
    KEEPS(hd_detach(task));
    KEEPS(EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0));
    KEEPS(EXPECT_EQ(hd_spawn_with(&task, nothing, NULL, &spawn), -ESHUTDOWN));
    KEEPS(hd_runtime_destroy(runtime));
}

TEST_WORLDS(no_call_changes_errno, options)
{
    for (int guard = HD_GUARD_AUTO; guard <= HD_GUARD_CANARY; guard++) {
        run_calls((hd_guard)guard, options);
    }
}

TEST_WORLDS(nor_does_a_refusal_or_a_whole_run, options)
{
    hd_options bad = *options;
    bad.workers = 1000;
    hd_runtime *runtime;
    KEEPS(EXPECT_EQ(hd_runtime_create(&runtime, &bad), -EINVAL));
    KEEPS(EXPECT_EQ(hd_run(nothing, NULL, &bad), -EINVAL));
    KEEPS(EXPECT_EQ(hd_run(nothing, NULL, options), 0));
    KEEPS(EXPECT_EQ(hd_park(), -EINVAL));
    KEEPS(EXPECT_EQ(hd_shield(), -EINVAL));
    KEEPS(hd_yield());
}
