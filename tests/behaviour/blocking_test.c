/* SPDX-License-Identifier: MIT
 *
 * Blocking calls on the io dispatcher.
 */
#include <pthread.h>
#include <sched.h>

#include "pools.h"

struct call {
    pthread_t caller;
    atomic_int begun, release, ran;
};

static int blocking_call(void *arg)
{
    struct call *call = arg;
    EXPECT_EQ(strcmp(hd_dispatcher_name(hd_dispatcher_self()), "io"), 0);
    atomic_fetch_add(&call->ran, 1);
    return 11;
}

static int call_blocking(void *arg)
{
    int result = 0;
    EXPECT_EQ(hd_blocking(blocking_call, arg, &result), 0);
    EXPECT_EQ(result, 11);
    EXPECT_EQ(hd_blocking(blocking_call, arg, NULL), 0);
    return 0;
}

static int plain_call(void *arg)
{
    EXPECT(pthread_equal(((struct call *)arg)->caller, pthread_self()));
    return 12;
}

TEST_WORLDS(a_blocking_call_runs_on_the_io_dispatcher, options)
{
    struct call call = {.caller = pthread_self()};
    rt_run(call_blocking, &call, options);
    EXPECT_EQ(call.ran, 2);
    int result = 0;
    EXPECT_EQ(hd_blocking(plain_call, &call, &result), 0); /* a plain thread calls it itself */
    EXPECT_EQ(result, 12);
}

static int cancelled_before(void *arg)
{
    struct call *call = arg;
    int result = 99;
    while (!hd_cancelled()) hd_yield();
    EXPECT_EQ(hd_blocking(blocking_call, call, &result), -ECANCELED);
    EXPECT_EQ(result, 99);
    return 0;
}

static int wait_and_return(void *arg)
{
    struct call *call = arg;
    atomic_store(&call->begun, 1);
    while (atomic_load(&call->release) == 0) sched_yield();
    return 13;
}

static int not_once_it_runs(void *arg)
{
    int result = 0;
    EXPECT_EQ(hd_blocking(wait_and_return, arg, &result), 0);
    EXPECT_EQ(result, 13);
    EXPECT(hd_cancelled());
    return 0;
}

static int cancels(void *arg)
{
    struct call call = {.begun = 0};
    (void)arg;
    hd_task *task = rt_spawn(NULL, cancelled_before, &call);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), 0);
    EXPECT_EQ(call.ran, 0);
    if (hd_runtime_world(hd_runtime_self()) == HD_WORLD_SIM) return 0;
    task = rt_spawn(NULL, not_once_it_runs, &call);
    rt_until(&call.begun);
    hd_cancel(task);
    for (int i = 0; i < 10; i++) hd_yield();
    atomic_store(&call.release, 1);
    EXPECT_EQ(rt_join(task), 0);
    return 0;
}

TEST_WORLDS(a_blocking_call_is_cancelled_only_while_it_waits, options)
{
    rt_run(cancels, NULL, options);
}

/* The io pool is full: the call is given up in the queue, and never runs. */
static int queued_call(void *arg)
{
    struct call *call = arg;
    EXPECT_EQ(hd_blocking_until(blocking_call, call, NULL, hd_after_ms(2)), -ETIMEDOUT);
    atomic_store(&call->begun, 1);
    EXPECT_EQ(hd_blocking(blocking_call, call, NULL), -ECANCELED);
    return 0;
}

static int fill_and_cancel(void *arg)
{
    (void)arg;
    enum { MOST = 256 };
    static struct call calls[MOST + 1];
    hd_task *holders[MOST];
    int count = 0;
    hd_dispatcher *io = hd_dispatcher_io(NULL);
    do { /* until one does not get a thread any more */
        holders[count] = spawn_on(io, wait_and_return, &calls[count], 0);
        count++;
    } while (hd_dispatcher_workers(io) < 64 && count < 64);
    for (int i = 0; i < count; i++) rt_until(&calls[i].begun);
    hd_task *task = rt_spawn(NULL, queued_call, &calls[MOST]);
    rt_until(&calls[MOST].begun);
    for (int i = 0; i < 100; i++) hd_yield();
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), 0);
    for (int i = 0; i < count; i++) atomic_store(&calls[i].release, 1);
    for (int i = 0; i < count; i++) EXPECT_EQ(rt_join(holders[i]), 13);
    EXPECT_EQ(calls[MOST].ran, 0);
    return 0;
}

TEST(a_call_that_is_given_up_in_the_queue_never_runs)
{
    if (sysconf(_SC_NPROCESSORS_ONLN) > 64) test_skip("the io pool has more than 64 threads here");
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    rt_run(fill_and_cancel, NULL, &options);
}

/* ---- deadlines ---- */

static void call_with_deadlines(struct call *call, int64_t now)
{
    int result = 99;
    EXPECT_EQ(hd_blocking_until(blocking_call, call, &result, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_blocking_until(blocking_call, call, &result, now - 1), -ETIMEDOUT);
    EXPECT_EQ(result, 99);
    EXPECT_EQ(call->ran, 0);
}

static int deadlines(void *arg)
{
    struct call call = {.begun = 0};
    int result = 0;
    (void)arg;
    EXPECT_EQ(hd_sleep_ms(1), 0);
    call_with_deadlines(&call, hd_now(NULL));
    EXPECT_EQ(hd_blocking_until(blocking_call, &call, &result, hd_after_ms(60000)), 0);
    EXPECT_EQ(result, 11);
    return 0;
}

TEST_WORLDS(nothing_is_called_after_the_deadline, options)
{
    struct call call = {.begun = 0};
    rt_run(deadlines, NULL, options);
    call_with_deadlines(&call, hd_now(NULL));
}

TEST_MAIN
