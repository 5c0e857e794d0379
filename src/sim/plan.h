/* SPDX-License-Identifier: MIT
 *
 * plan: a schedule in words that still mean something when a part of it is changed: blocks of
 * steps, each of one task, one after the other; and the sampler that keeps to one, the guide.
 *
 * The guide stays with a block until it is done or its task cannot go on. Then it takes the first
 * block that is not done and whose task can. If there is none it goes on as the sampler `fair`.
 *
 * Owner  the thread that drives the simulation.
 */
#ifndef HDI_SIM_PLAN_H
#define HDI_SIM_PLAN_H

#include "sim/schedule.h"

/* Until the task has taken so many steps. */
struct hdi_block {
    uint32_t task; /* its number */
    uint32_t upto; /* UINT32_MAX: as long as it can */
    bool preempts; /* the task before could have gone on */
};

struct hdi_plan {
    struct hdi_block *blocks; /* from malloc() */
    size_t count, room;
};

/* Put a block at the end, or make the last one longer, if it is of the same task. Returns: 0,
 * -ENOMEM. */
int hdi_plan_add(struct hdi_plan *plan, struct hdi_block block);

/* The next block of the same task; plan->count: there is none. */
size_t hdi_plan_next(const struct hdi_plan *plan, size_t at);

/* What a run did, step by step. In memory that a child may share, as it may crash. */
struct hdi_trace {
    uint32_t count, preemptions;
    bool full;          /* it did not fit */
    uint32_t entries[]; /* the number of the task, twice, and 1 if that preempted another */
};

/* Read the plan of that run; what was in it is gone. Returns: 0, -ENOMEM. */
int hdi_plan_read(struct hdi_plan *plan, const struct hdi_trace *trace);

/* A sampler of this kind, which its owner makes and frees. */
struct hdi_guide {
    struct hdi_sampler base;   /* kind: hdi_guide_kind */
    struct hdi_sampler *inner; /* decides instead; NULL: the plan does */
    const struct hdi_plan *plan;
    struct hdi_trace *trace;   /* is written */
    uint32_t room;             /* of that */
    size_t first;              /* all blocks before are done */
    size_t current;
    bool preempts;             /* the step that was picked last */
};

extern const struct hdi_sampler_kind hdi_guide_kind;

#endif
