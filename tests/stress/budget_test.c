/* SPDX-License-Identifier: MIT
 *
 * Conservation of budgets in random trees, and exact limits, with threads.
 */
#include "budget_tree.h"

#include "stress.h"

TEST_MAIN

TEST(nothing_is_lost_in_random_trees)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 4;
    const unsigned trees = stress_count(400);
    for (uint64_t seed = 1; seed <= trees; seed++) rt_run(tree_main, &seed, &options);
    tree_report((int)trees);
}

/* ---- fork bombs in nurseries of their own, each of which holds a part of the pool ---- */

enum { BOMBS = 16, SPAWNS_MAX = 5000 };

static _Atomic(int64_t) spawned;

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int bomb(void *arg)
{
    (void)arg;
    int err = 0;
    do {
        HD_NURSERY(n) {
            for (int i = 0; i < 100 && !err; i++) {
                err = hd_go(n, nothing, NULL);
                if (!err) atomic_fetch_add(&spawned, 1);
            }
        }
    } while (!err);
    EXPECT_EQ(err, -EDQUOT);
    return 0;
}

static int bombs(void *arg)
{
    (void)arg;
    const hd_budget budget = {.spawn_count = SPAWNS_MAX};
    hd_budget_info info;
    atomic_store(&spawned, 0);
    HD_NURSERY(n, .budget = &budget) {
        for (int i = 0; i < BOMBS; i++) EXPECT_EQ(hd_go(n, bomb, NULL), 0);
        EXPECT_EQ(hd_nursery_wait(n), 0);
        EXPECT_EQ(hd_budget_look(n, &info), 0);
        EXPECT_EQ(info.consumed.spawn_count, SPAWNS_MAX);
        EXPECT_EQ(info.remaining.spawn_count, 0);
        EXPECT_EQ(info.granted.spawn_count, 0);
    }
    EXPECT_EQ(atomic_load(&spawned), SPAWNS_MAX);
    return 0;
}

TEST(bombs_in_many_nurseries_stop_exactly_at_the_limit)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 4;
    const unsigned times = stress_count(100);
    for (unsigned i = 0; i < times; i++) rt_run(bombs, NULL, &options);
}
