/* SPDX-License-Identifier: MIT */
#include "sim/plan.h"

#include <errno.h>
#include <stdlib.h>

/* ---- plans ---- */

int hdi_plan_add(struct hdi_plan *plan, struct hdi_block block)
{
    struct hdi_block *last = plan->count ? &plan->blocks[plan->count - 1] : NULL;
    if (last && last->task == block.task) {
        last->upto = block.upto;
        return 0;
    }
    if (plan->count == plan->room) {
        const size_t room = plan->room ? 2 * plan->room : 64;
        struct hdi_block *more = realloc(plan->blocks, room * sizeof(*more));
        if (!more) return -ENOMEM;
        plan->blocks = more;
        plan->room = room;
    }
    plan->blocks[plan->count++] = block;
    return 0;
}

size_t hdi_plan_next(const struct hdi_plan *plan, size_t at)
{
    size_t next = at + 1;
    while (next < plan->count && plan->blocks[next].task != plan->blocks[at].task) next++;
    return next;
}

int hdi_plan_read(struct hdi_plan *plan, const struct hdi_trace *trace)
{
    uint32_t tasks = 0;
    for (uint32_t i = 0; i < trace->count; i++) {
        if (trace->entries[i] >> 1 >= tasks) tasks = (trace->entries[i] >> 1) + 1;
    }
    uint32_t *steps = calloc(tasks + 1, sizeof(*steps));
    int err = steps ? 0 : -ENOMEM;
    plan->count = 0;
    for (uint32_t i = 0; i < trace->count && !err; i++) {
        const uint32_t task = trace->entries[i] >> 1;
        err = hdi_plan_add(plan, (struct hdi_block){task, ++steps[task], trace->entries[i] & 1});
    }
    free(steps);
    return err;
}

/* ---- the guide ---- */

static void begin(struct hdi_sampler *sampler, struct hdi_schedule *schedule, uint64_t seed)
{
    struct hdi_guide *guide = (struct hdi_guide *)sampler;
    if (guide->inner && guide->inner->kind->begin) {
        guide->inner->kind->begin(guide->inner, schedule, seed);
    }
    guide->first = guide->current = 0;
    guide->preempts = false;
    guide->trace->count = guide->trace->preemptions = 0;
    guide->trace->full = false;
}

static bool is_done(struct hdi_schedule *schedule, const struct hdi_block *block)
{
    const struct hdi_actor *actor = hdi_actors_find(&schedule->actors, block->task);
    return actor ? actor->steps >= block->upto : block->task < schedule->actors.count;
}

static int index_of(struct hd_task *const *ready, unsigned count, uint32_t task)
{
    for (unsigned i = 0; i < count; i++) {
        if (hdi_schedule_number(ready[i]) == task) return (int)i;
    }
    return -1;
}

/* The index of a block's task among those that can go on; -1: it cannot, or has no need. */
static int can_go_on(const struct hdi_guide *guide, struct hdi_schedule *schedule, size_t at,
                     struct hd_task *const *ready, unsigned count)
{
    const struct hdi_block *block = &guide->plan->blocks[at];
    return is_done(schedule, block) ? -1 : index_of(ready, count, block->task);
}

/* By the plan; -1: it says nothing. */
static int planned(struct hdi_guide *guide, struct hdi_schedule *schedule,
                   struct hd_task *const *ready, unsigned count)
{
    const struct hdi_plan *plan = guide->plan;
    if (guide->current < plan->count) {
        const int index = can_go_on(guide, schedule, guide->current, ready, count);
        if (index >= 0) return index;
    }
    while (guide->first < plan->count && is_done(schedule, &plan->blocks[guide->first])) {
        guide->first++;
    }
    for (size_t at = guide->first; at < plan->count; at++) {
        const int index = can_go_on(guide, schedule, at, ready, count);
        if (index < 0) continue;
        guide->current = at;
        return index;
    }
    return -1;
}

static unsigned pick(struct hdi_sampler *sampler, struct hdi_schedule *schedule,
                           struct hd_task *const *ready, unsigned count, int running)
{
    struct hdi_guide *guide = (struct hdi_guide *)sampler;
    struct hdi_sampler *inner = guide->inner;
    int index = inner ? (int)inner->kind->pick(inner, schedule, ready, count, running)
                      : planned(guide, schedule, ready, count);
    if (index < 0) index = (int)hdi_sampler_fair.pick(sampler, schedule, ready, count, running);
    guide->preempts = running >= 0 && index != running;
    return (unsigned)index;
}

static void stepped(struct hdi_sampler *sampler, const struct hdi_actor *actor,
                          uint32_t number)
{
    struct hdi_guide *guide = (struct hdi_guide *)sampler;
    struct hdi_trace *trace = guide->trace;
    if (guide->inner && guide->inner->kind->stepped) {
        guide->inner->kind->stepped(guide->inner, actor, number);
    }
    trace->preemptions += guide->preempts;
    if (trace->count < guide->room) trace->entries[trace->count++] = number << 1 | guide->preempts;
    else trace->full = true;
    guide->preempts = false;
}

static void spawned(struct hdi_sampler *sampler, struct hdi_actor *actor, uint32_t number)
{
    struct hdi_sampler *inner = ((struct hdi_guide *)sampler)->inner;
    if (inner && inner->kind->spawned) inner->kind->spawned(inner, actor, number);
}

static void ended(struct hdi_sampler *sampler, const struct hdi_actor *actor, uint32_t number)
{
    struct hdi_sampler *inner = ((struct hdi_guide *)sampler)->inner;
    if (inner && inner->kind->ended) inner->kind->ended(inner, actor, number);
}

static void end(struct hdi_sampler *sampler, struct hdi_schedule *schedule)
{
    struct hdi_sampler *inner = ((struct hdi_guide *)sampler)->inner;
    if (inner && inner->kind->end) inner->kind->end(inner, schedule);
}

/* Recorded as the sampler it falls back to: a replay has the choices from the log. */
const struct hdi_sampler_kind hdi_guide_kind = {
    .name = "fair",
    .begin = begin,
    .end = end,
    .spawned = spawned,
    .ended = ended,
    .pick = pick,
    .stepped = stepped,
};
