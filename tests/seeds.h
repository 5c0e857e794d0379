/* SPDX-License-Identifier: MIT
 *
 * seeds: one scenario in sim with many seeds, in both orders by turns.
 */
#ifndef TEST_SEEDS_H
#define TEST_SEEDS_H

#include "rt.h"

enum { SEEDS = 40 };

static inline hd_options sim(uint64_t seed)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.seed = seed;
    options.sim_order = seed % 2 ? HD_SIM_RANDOM : HD_SIM_WORKERS;
    return options;
}

static inline void each_seed(hd_fn *fn)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const hd_options options = sim(seed);
        const int result = hd_run(fn, NULL, &options);
        if (result) test_fail(__FILE__, __LINE__, "seed %d: %d", (int)seed, result);
    }
}

#endif
