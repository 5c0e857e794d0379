/* SPDX-License-Identifier: MIT
 *
 * Threads and runtimes that reach into a runtime which ends meanwhile, and fibers that
 * give way to one that never does.
 */
#include "stress/stress.h"

/* ---- a thread still inside hd_waker_wake() ---- */

struct handover {
    _Atomic(bool) ready;
    hd_waker waker;
};

static void *waking_thread(void *arg)
{
    struct handover *handover = arg;
    while (!atomic_load_explicit(&handover->ready, memory_order_acquire)) sched_yield();
    hd_waker_wake(handover->waker); /* hd_run() may return before this does. */
    return NULL;
}

static int woken_once(void *arg)
{
    struct handover *handover = arg;
    handover->waker = hd_waker_self();
    atomic_store_explicit(&handover->ready, true, memory_order_release);
    return hd_park();
}

TEST(a_runtime_waits_for_the_thread_that_woke_its_last_task)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 1;
    for (unsigned i = 0; i < stress_count(2000); i++) {
        struct handover handover = {.ready = false};
        pthread_t thread;
        EXPECT_EQ(pthread_create(&thread, NULL, waking_thread, &handover), 0);
        EXPECT_EQ(hd_run(woken_once, &handover, &options), 0);
        EXPECT_EQ(pthread_join(thread, NULL), 0);
    }
}

/* ---- a fiber that joins a task of another runtime ---- */

static int five(void *arg)
{
    (void)arg;
    hd_yield();
    return 5;
}

static int join_abroad(void *arg)
{
    hd_spawn_options into = HD_SPAWN_OPTIONS_INIT;
    into.runtime = arg;
    hd_task *task;
    int result = 0;
    EXPECT_EQ(hd_spawn_with(&task, five, NULL, &into), 0);
    if (hd_join(task, &result) == -ECANCELED) {
        hd_detach(task);
    } else {
        EXPECT_EQ(result, 5);
    }
    return 0;
}

TEST(a_runtime_ends_while_another_wakes_its_fiber)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 1;
    hd_runtime *abroad;
    EXPECT_EQ(hd_runtime_create(&abroad, &options), 0);
    for (unsigned i = 0; i < stress_count(2000); i++) {
        hd_runtime *home;
        EXPECT_EQ(hd_runtime_create(&home, &options), 0);
        hd_spawn_options into = HD_SPAWN_OPTIONS_INIT;
        into.runtime = home;
        EXPECT_EQ(hd_spawn_with(NULL, join_abroad, abroad, &into), 0);
        if (i % 2) EXPECT_EQ(hd_runtime_drain(home, HD_FOREVER), 0);
        hd_runtime_destroy(home); /* cancels the joiner, or finds it gone */
    }
    hd_runtime_destroy(abroad);
}

/* ---- giving way to a fiber that keeps its worker ---- */

struct greedy {
    _Atomic(unsigned) yielded; /* fibers that came back from their yield */
    unsigned expected;
};

/* Keeps its worker until all others have come back, which takes another worker. */
static int keep_worker(void *arg)
{
    struct greedy *greedy = arg;
    while (atomic_load_explicit(&greedy->yielded, memory_order_relaxed) < greedy->expected) {
        sched_yield();
    }
    return 0;
}

static int give_way(void *arg)
{
    struct greedy *greedy = arg;
    hd_task *task;
    EXPECT_EQ(hd_spawn(&task, keep_worker, greedy), 0);
    hd_yield(); /* keep_worker() is next here, and stays */
    atomic_fetch_add_explicit(&greedy->yielded, 1, memory_order_relaxed);
    EXPECT_EQ(hd_join(task, NULL), 0);
    return 0;
}

TEST(who_gave_way_is_not_stranded_behind_a_long_task)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    for (options.workers = 2; options.workers <= 4; options.workers++) {
        for (unsigned i = 0; i < stress_count(400); i++) {
            struct greedy greedy = {.expected = 1};
            EXPECT_EQ(hd_run(give_way, &greedy, &options), 0);
        }
    }
}

TEST_MAIN
