/* SPDX-License-Identifier: MIT
 *
 * Conservation of budgets in random trees, with threads.
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
