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

/* What it leaves in *digest is the same for the same seed, and another for another. */
static inline void expect_digests(hd_fn *fn, const uint64_t *digest)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        const hd_options options = sim(seed), other = sim(seed + 2);
        rt_run(fn, NULL, &options);
        const uint64_t first = *digest;
        rt_run(fn, NULL, &options);
        EXPECT(*digest == first);
        rt_run(fn, NULL, &other);
        EXPECT(*digest != first);
    }
}

#endif
