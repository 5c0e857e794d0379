/* SPDX-License-Identifier: MIT
 *
 * A cancel at every wait of a fiber that moves between dispatchers, or has something called
 * on the pool for blocking calls, where it may be late, too.
 */
#include "waitpoints.h"

#include <heddle/dispatcher.h>

TEST_MAIN

enum { ROUNDS = 3 };

struct calls {
    hd_dispatcher *other;
    int begun, ended;   /* calls */
    int inside, outside; /* moves there and back */
};

/* ---- hd_blocking ---- */

static int block_a_while(void *arg)
{
    struct calls *calls = arg;
    calls->begun++;
    calls->ended++; /* Nothing switches in between. */
    return 30 + calls->ended;
}

static int blocking_victim(void *arg)
{
    struct calls *calls = arg;
    for (int i = 0; i < ROUNDS; i++) {
        const int before = calls->begun;
        int result = -1;
        int err;
        do err = hd_blocking_until(block_a_while, calls, &result, wp_until());
        while (wp_again(err));
        EXPECT_EQ(calls->begun - before, err == 0); /* Given up, it was not called, */
        EXPECT_EQ(result, err ? -1 : 30 + calls->ended);
        if (err) {
            hd_yield();
            EXPECT_EQ(calls->begun, before); /* nor is it later. */
            return err;
        }
    }
    return 0;
}

static int block_too(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct calls own = {.begun = 0};
        int result = 0;
        hd_yield();
        EXPECT_EQ(hd_blocking(block_a_while, &own, &result), 0);
        EXPECT_EQ(result, 31);
        ++*(int *)arg;
    }
    return 0;
}

WAITPOINTS(blocking_calls)
{
    struct calls calls = {.begun = 0};
    int others_calls = 0;
    hd_task *other = rt_spawn(NULL, block_too, &others_calls);
    wp_spawn(blocking_victim, &calls);
    const int err = wp_join();
    EXPECT_EQ(rt_join(other), 0);
    EXPECT_EQ(others_calls, ROUNDS);
    EXPECT_EQ(calls.begun, calls.ended);
    if (!err) EXPECT_EQ(calls.ended, ROUNDS);
}

/* ---- HD_ON ---- */

/* A cancelled fiber still moves, there and back; only its waits fail. */
static int moving_victim(void *arg)
{
    struct calls *calls = arg;
    hd_dispatcher *const home = hd_dispatcher_self();
    int err = 0;
    for (int i = 0; i < ROUNDS && !err; i++) {
        HD_ON(calls->other) {
            EXPECT(hd_dispatcher_self() == calls->other);
            calls->inside++;
            err = hd_sleep_ms(1);
            EXPECT(hd_dispatcher_self() == calls->other);
        }
        EXPECT(hd_dispatcher_self() == home);
        calls->outside++;
        if (!err) err = hd_sleep_ms(1);
        EXPECT(hd_dispatcher_self() == home);
    }
    return err;
}

WAITPOINTS(moving_between_dispatchers)
{
    struct calls calls = {.begun = 0};
    hd_dispatcher_options options = HD_DISPATCHER_OPTIONS_INIT;
    options.name = "other";
    EXPECT_EQ(hd_dispatcher_create(&calls.other, &options), 0);
    wp_spawn(moving_victim, &calls);
    const int err = wp_join();
    EXPECT_EQ(calls.inside, calls.outside);
    if (!err) EXPECT_EQ(calls.inside, ROUNDS);
    hd_dispatcher_unref(calls.other);
}

static int sleep_over_there(void *arg)
{
    struct calls *calls = arg;
    EXPECT(hd_dispatcher_self() == calls->other);
    return hd_sleep_ms(1);
}

static int calling_victim(void *arg)
{
    struct calls *calls = arg;
    for (int i = 0; i < ROUNDS; i++) {
        int result = -1;
        EXPECT_EQ(hd_on_call(calls->other, sleep_over_there, calls, &result), 0);
        calls->ended++;
        if (result) return result;
    }
    return 0;
}

WAITPOINTS(calling_on_a_single_thread)
{
    struct calls calls = {.begun = 0};
    EXPECT_EQ(hd_dispatcher_single(&calls.other, hd_runtime_self()), 0);
    wp_spawn(calling_victim, &calls);
    if (wp_join() == 0) EXPECT_EQ(calls.ended, ROUNDS);
    hd_dispatcher_unref(calls.other);
}

/* The dispatcher's last handle goes while the victim is still on it. */
static int staying_victim(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        const int err = hd_sleep_ms(1);
        if (err) return err;
    }
    return 0;
}

WAITPOINTS(a_dispatcher_that_ends_with_its_last_task)
{
    hd_dispatcher *dispatcher;
    EXPECT_EQ(hd_dispatcher_single(&dispatcher, hd_runtime_self()), 0);
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.dispatcher = dispatcher;
    hd_task *task;
    EXPECT_EQ(hd_spawn_with(&task, staying_victim, NULL, &options), 0);
    wp_register_(task);
    hd_dispatcher_unref(dispatcher);
    (void)wp_join();
}
