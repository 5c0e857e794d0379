/* SPDX-License-Identifier: MIT
 *
 * portfolio: which sampler has the next schedule.
 *
 * Each sampler finds some faults soon and others hardly ever, and nobody knows beforehand which
 * kind a program has. So they take turns, each with a share (its weight among all weights); one
 * with the share s needs 1/s times as many schedules as it would alone, and what the others find
 * counts too. Most programs fail soon or late in all of them, so the shares are for the few that
 * only one of them finds: large ones for few samplers. How they were chosen is in
 * docs/design/0014-exploration.md.
 *
 *   all       bounds of 1, then 2, then none; a sixth of the first schedules, a quarter of that
 *             after 64 of its own: what it finds it finds early
 *   cohort    once: it is always the same schedule
 *   pct       depth 16 for programs that need many switches, 3 for those that need long runs
 *   urw       the largest share: there are faults which only that finds, none that only `random`
 *   pos, random
 *
 * Each has a schedule before any has its second one, so that what fails in most schedules of one
 * of them fails in the first seven. The order of these is that of the list: first the schedule
 * without preemptions, then the one in cohorts, then those that are least like these.
 *
 * What a program has shown so far moves the weights. A fault that was not found yet is in none of
 * the classes that were run (sim/signature.h), so a sampler finds it at most as often as it brings
 * a new class. The rate of new ones, over about the last 32 schedules of a sampler that were looked
 * at, is what its weight goes with, down to a quarter: no sampler is left out because of what it
 * brought in a few schedules. Of each sampler's schedules the first 64 are looked at, and then
 * every eighth: a signature costs a sixth of a schedule.
 *
 * Turns are of one schedule at first, so that each sampler comes early, and after 512 of eight: one
 * that goes on is quicker than one whose code and memory have to come back first.
 *
 * What is chosen depends on the seed and on what was told, and on nothing else: level D3.
 *
 * Owner  the explorer.
 *
 * PORTFOLIO-1: of those left, the one has the next turn whose schedules divided by its weights are
 *              fewest (stride scheduling), the first in the list among equals.
 */
#ifndef HDI_SIM_PORTFOLIO_H
#define HDI_SIM_PORTFOLIO_H

#include "sim/sampler.h"

struct hdi_portfolio;

/* Returns NULL if memory is short. */
struct hdi_portfolio *hdi_portfolio_create(uint64_t seed);
void hdi_portfolio_destroy(struct hdi_portfolio *portfolio);

/* The next schedule is by this sampler, from this seed. It is the portfolio's, and stays as it is
 * until the next call. */
void hdi_portfolio_next(struct hdi_portfolio *portfolio, struct hdi_sampler **sampler,
                        uint64_t *seed);

/* Whether that one's signature is wanted. */
bool hdi_portfolio_looks(const struct hdi_portfolio *portfolio);

/* The signature of the schedule that hdi_portfolio_next() was last asked for; of no interest unless
 * it was wanted. */
void hdi_portfolio_tell(struct hdi_portfolio *portfolio, uint64_t signature);

#endif
