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
    KEEPS(EXPECT_EQ(hd_join_until(task, NULL, HD_NOW), -EINVAL));
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
    KEEPS(EXPECT_EQ(hd_join_until(task, NULL, HD_NOW), -ETIMEDOUT));
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
