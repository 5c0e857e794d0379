/* SPDX-License-Identifier: MIT
 *
 * Conservation of budgets in random trees: many seeds, in both orders of sim.
 */
#include "budget_tree.h"

#include "base/sanitizer.h"

TEST_MAIN

enum { SEEDS = HDI_TSAN ? 30 : 400 };

static uint64_t run(uint64_t seed, hd_sim_order order)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.seed = seed;
    options.sim_order = order;
    hd_runtime *runtime = rt_create(&options);
    EXPECT_EQ(rt_join(rt_spawn(runtime, tree_main, &seed)), 0);
    const uint64_t digest = hd_runtime_digest(runtime);
    hd_runtime_destroy(runtime);
    return digest;
}

static void run_all(hd_sim_order order)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const uint64_t digest = run(seed, order);
        if (seed % 10 == 0) EXPECT(run(seed, order) == digest);
    }
    tree_expect_much(SEEDS);
}

TEST(nothing_is_lost_in_random_trees) { run_all(HD_SIM_RANDOM); }

TEST(nothing_is_lost_in_the_order_of_workers) { run_all(HD_SIM_WORKERS); }
