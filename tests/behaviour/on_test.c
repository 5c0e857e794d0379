/* SPDX-License-Identifier: MIT
 *
 * Moving a fiber to another dispatcher, and back.
 */
#include "pools.h"

static int leave_by_return(hd_dispatcher *there)
{
    HD_ON(there)
    {
        expect_on(there);
        return 3;
    }
    return 0;
}

static int on_there(void *arg)
{
    expect_on(arg);
    hd_yield();
    expect_on(arg);
    return 4;
}

static int moves(void *arg)
{
    (void)arg;
    hd_dispatcher *home = hd_dispatcher_self();
    hd_dispatcher *one = single(), *two = pool("two", 2, HD_POLICY_LOCAL);
    int times = 0;
    HD_ON(one)
    {
        expect_on(one);
        hd_yield();
        expect_on(one);
        HD_ON(two)
        {
            expect_on(two);
            HD_ON(two) expect_on(two);
            expect_on(two);
            HD_ON(home) expect_on(home);
            expect_on(two);
        }
        expect_on(one);
        times++;
    }
    expect_on(home);
    EXPECT_EQ(times, 1);
    HD_ON(one)
    {
        if (times) break;
        times = 100;
    }
    EXPECT_EQ(times, 1);
    expect_on(home);
    EXPECT_EQ(leave_by_return(two), 3);
    expect_on(home);
    int result = 0;
    EXPECT_EQ(hd_on_call(one, on_there, one, &result), 0);
    EXPECT_EQ(result, 4);
    expect_on(home);
    hd_dispatcher_unref(one);
    hd_dispatcher_unref(two);
    return 0;
}

TEST_WORLDS(a_fiber_moves_and_comes_back, options)
{
    rt_run(moves, NULL, options);
}

static int moves_unconfined(void *arg)
{
    hd_dispatcher *there = arg;
    HD_ON(there)
    {
        expect_on(there);
        hd_yield();
        expect_on(there);
    }
    return 0;
}

/* The pool it came from has no other handle, and waits for it. */
static int away(void *arg)
{
    hd_dispatcher *mine = hd_dispatcher_self();
    HD_ON(arg)
    {
        hd_dispatcher_unref(mine);
        for (int i = 0; i < 5; i++) hd_yield();
        expect_on(arg);
    }
    expect_on(mine);
    return 6;
}

static int moves_of_others(void *arg)
{
    (void)arg;
    hd_dispatcher *one = single();
    EXPECT_EQ(rt_join(spawn_on(hd_dispatcher_unconfined(), moves_unconfined, one, 0)), 0);
    EXPECT_EQ(rt_join(spawn_on(pool("mine", 1, HD_POLICY_FAIR), away, one, 0)), 6);
    hd_dispatcher_unref(one);
    return 0;
}

TEST_WORLDS(moves_of_unconfined_fibers_and_away_from_a_pool_that_ends, options)
{
    rt_run(moves_of_others, NULL, options);
}

TEST_MAIN
