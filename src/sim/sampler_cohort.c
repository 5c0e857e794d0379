/* SPDX-License-Identifier: MIT
 *
 * sampler_cohort: ready tasks by where their code stands, one place after the other.
 *
 * A cohort is the tasks that are ready at the same place in the code at the moment when its turn
 * comes; those that arrive there later belong to the next cohort of that place, so that a loop
 * keeps nobody waiting (SAMPLER-2). Its members go on in the order they became ready, then it is
 * the turn of the place where a task has been ready longest. Many tasks that run the same code thus
 * go through it side by side, and the code and its data are in the cache. The seed means nothing
 * here.
 *
 * All ready tasks are looked at once for each cohort, not for each step: with n of them at k places
 * k times in n steps. In between members are found by where they stand among the ready ones, which
 * changes only when the last of those fills the gap that a chosen one left (BAG-1 in sched/bag.h);
 * where it changes otherwise, as with several dispatchers, they are searched for.
 *
 * COHORT-1: of those ready in the same step, the one that was spawned first is the first.
 */
#include <stdlib.h>

#include "sim/schedule.h"

struct sampler_cohort {
    struct hdi_sampler base;
    uint64_t *members; /* the cohort whose turn it is: their ranks, in this order */
    size_t room;
    size_t count, next; /* of these; the first that has not gone on */
};

static struct hdi_sampler *create(const char *parameters, const char **error)
{
    return hdi_sampler_plain(sizeof(struct sampler_cohort), parameters, error);
}

static void destroy(struct hdi_sampler *sampler)
{
    free(((struct sampler_cohort *)sampler)->members);
    free(sampler);
}

static void begin(struct hdi_sampler *sampler, struct hdi_schedule *schedule, uint64_t seed)
{
    (void)schedule, (void)seed;
    struct sampler_cohort *c = (struct sampler_cohort *)sampler;
    c->count = c->next = 0;
}

/* COHORT-1 */
static uint64_t rank_of(const struct hdi_actor *actor, const struct hd_task *task)
{
    return (uint64_t)actor->ready_since << 32 | (uint32_t)task->id;
}

/* ---- the members of a cohort ---- */

static void add(struct sampler_cohort *c, uint64_t rank)
{
    if (c->count == c->room) {
        c->room = c->room ? 2 * c->room : 64;
        c->members = realloc(c->members, c->room * sizeof(*c->members));
        HD_CHECK_MSG(c->members, "sim: out of memory");
    }
    c->members[c->count++] = rank;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The turn of the place where a task has been ready longest. An actor's `value` says where among
 * the ready ones its task stands. */
static void begin_cohort(struct sampler_cohort *c, struct hdi_schedule *schedule,
                         struct hd_task *const *ready, unsigned count)
{
    const void *code = NULL;
    uint64_t oldest = UINT64_MAX;
    for (unsigned i = 0; i < count; i++) {
        const struct hdi_actor *actor = hdi_schedule_find(schedule, ready[i]);
        const uint64_t rank = rank_of(actor, ready[i]);
        if (rank >= oldest) continue;
        oldest = rank;
        code = actor->code;
    }
    bool sorted = true;
    c->count = c->next = 0;
    for (unsigned i = 0; i < count; i++) {
        struct hdi_actor *actor = hdi_schedule_find(schedule, ready[i]);
        if (actor->code != code) continue;
        actor->value = i;
        add(c, rank_of(actor, ready[i]));
        sorted = sorted && (c->count < 2 || c->members[c->count - 2] < c->members[c->count - 1]);
    }
    if (!sorted) qsort(c->members, c->count, sizeof(*c->members), compare); /* No two are equal. */
    schedule->cohorts++;
    schedule->cohort_tasks += c->count;
}

/* Where the member stands. Returns `count` if it is not ready any more, or again, or has
 * ended. */
static unsigned find(struct hdi_schedule *schedule, struct hd_task *const *ready, unsigned count,
                     uint64_t member)
{
    const struct hdi_actor *actor = hdi_actors_find(&schedule->actors, (uint32_t)member - 1);
    if (!actor) return count;
    unsigned i = actor->value < count ? (unsigned)actor->value : 0;
    if ((uint32_t)ready[i]->id != (uint32_t)member) {
        for (i = 0; i < count && (uint32_t)ready[i]->id != (uint32_t)member;) i++;
    }
    return i < count && rank_of(actor, ready[i]) == member ? i : count;
}

static unsigned pick(struct hdi_sampler *sampler, struct hdi_schedule *schedule,
                     struct hd_task *const *ready, unsigned count, int running)
{
    (void)running;
    struct sampler_cohort *c = (struct sampler_cohort *)sampler;
    unsigned index = count;
    while (index == count) {
        if (c->next == c->count) begin_cohort(c, schedule, ready, count);
        index = find(schedule, ready, count, c->members[c->next++]);
    }
    hdi_schedule_find(schedule, ready[count - 1])->value = index;
    return index;
}

const struct hdi_sampler_kind hdi_sampler_cohort = {
    .name = "cohort", .create = create, .destroy = destroy, .begin = begin, .pick = pick};
