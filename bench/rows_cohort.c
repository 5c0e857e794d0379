/* SPDX-License-Identifier: MIT
 *
 * Many simulated tasks go through the same steps, each of which has code and a table of its own: in
 * cohorts, where all are in a step before any is in the next, against at random, a sampler that
 * costs less in itself. What differs is what the cache holds.
 */
#include <heddle/explore.h>
#include <heddle/nursery.h>

#include "bench.h"

#define COHORT_TASKS  256
#define COHORT_STEPS  32
#define TABLE_WORDS   (1u << 14) /* of 8 bytes: one table fits into a second-level cache */
#define LOOKUPS       256        /* of a task in one step */

static uint64_t tables[COHORT_STEPS][TABLE_WORDS];

/* Every expansion is a place of its own. Where to look next is found in the table. */
#define STEP(n)                                                                          \
    do {                                                                                 \
        hd_race_point();                                                                 \
        for (unsigned i = 0; i < LOOKUPS; i++) {                                         \
            at = at * 6364136223846793005u + tables[n][at >> 50];                        \
        }                                                                                \
    } while (0)
#define STEPS(n) STEP(n); STEP(n + 1); STEP(n + 2); STEP(n + 3)

_Static_assert(TABLE_WORDS == 1u << (64 - 50), "a place in a table is the upper bits");

static volatile uint64_t sink;

static int cohort_task(void *arg)
{
    uint64_t at = (uintptr_t)arg;
    STEPS(0);
    STEPS(4);
    STEPS(8);
    STEPS(12);
    STEPS(16);
    STEPS(20);
    STEPS(24);
    STEPS(28);
    sink += at;
    return 0;
}

static int cohort_root(void *arg)
{
    hd_nursery nursery;
    for (uint64_t n = *(uint64_t *)arg; n > 0; n--) {
        MUST(hd_nursery_open(&nursery, NULL));
        for (uintptr_t i = 0; i < COHORT_TASKS; i++) {
            MUST(hd_go(&nursery, cohort_task, (void *)(i * 7919)));
        }
        MUST(hd_nursery_leave(&nursery));
    }
    return 0;
}

static void simulate(uint64_t n, const char *sampler)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.sampler = sampler;
    MUST(hd_run(cohort_root, &n, &options));
}

static void in_cohorts(uint64_t n)
{
    simulate(n, "cohort");
}

static void at_random(uint64_t n)
{
    simulate(n, "random");
}

/* ns: of a step. */
void row_cohort(void)
{
    for (unsigned i = 0; i < COHORT_STEPS; i++) {
        for (unsigned j = 0; j < TABLE_WORDS; j++) tables[i][j] = 1442695040888963407u + i + j;
    }
    measure_pair(COHORT_TASKS * COHORT_STEPS, in_cohorts, at_random);
}
