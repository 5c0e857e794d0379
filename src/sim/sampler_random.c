/* SPDX-License-Identifier: MIT
 *
 * sampler_random: any task that is ready, each as likely as the others.
 *
 * SAMPLER-2 holds by chance: a task that yields is picked no more often than the others, so how
 * long it can keep them away falls off geometrically.
 */
#include "sim/sampler.h"

static struct hdi_sampler *create(const char *parameters, const char **error)
{
    return hdi_sampler_plain(sizeof(struct hdi_random), parameters, error);
}

static void begin(struct hdi_sampler *sampler, struct hdi_schedule *schedule, uint64_t seed)
{
    (void)schedule;
    hdi_prng_init(&((struct hdi_random *)sampler)->prng, seed);
}

static unsigned pick(struct hdi_sampler *sampler, struct hdi_schedule *schedule,
                     struct hd_task *const *ready, unsigned count, int running)
{
    (void)schedule, (void)ready, (void)running;
    return hdi_random_pick((struct hdi_random *)sampler, count);
}

const struct hdi_sampler_kind hdi_sampler_random = {
    .name = "random", .create = create, .begin = begin, .pick = pick};
