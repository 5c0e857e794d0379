/* SPDX-License-Identifier: MIT
 *
 * sampler_fair: the running task as long as it can go on, then the one that is ready longest.
 *
 * The schedule with the fewest context switches that is still fair to those who yield. Of those
 * that became ready in the same step, one that has yielded is the last (SAMPLER-2), and otherwise
 * the first is the one that was spawned first.
 */
#include "sim/schedule.h"

static struct hdi_sampler *create(const char *parameters, const char **error)
{
    return hdi_sampler_plain(sizeof(struct hdi_sampler), parameters, error);
}

static unsigned pick(struct hdi_sampler *sampler, struct hdi_schedule *schedule,
                     struct hd_task *const *ready, unsigned count, int running)
{
    (void)sampler;
    if (running >= 0) return (unsigned)running;
    unsigned best = 0;
    uint64_t best_rank = UINT64_MAX;
    for (unsigned i = 0; i < count; i++) {
        const struct hdi_actor *actor = hdi_schedule_find(schedule, ready[i]);
        const uint64_t rank = (uint64_t)actor->ready_since << 33 | (uint64_t)actor->yielded << 32 |
                              (uint32_t)ready[i]->id;
        if (rank >= best_rank) continue;
        best_rank = rank;
        best = i;
    }
    return best;
}

const struct hdi_sampler_kind hdi_sampler_fair = {
    .name = "fair", .create = create, .pick = pick};
