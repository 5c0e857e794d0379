/* SPDX-License-Identifier: MIT
 *
 * sampler_pct: probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi, Nagarakatte,
 * ASPLOS 2010).
 *
 * Each task draws a priority when it is spawned, and the highest that is ready goes on. At D-1
 * places, drawn among the first STEPS at which there is a choice, the one that would go on falls
 * below those that have not fallen yet. A fault that needs D events in a certain order among N
 * tasks is met with a chance of at least 1 / (N * STEPS^(D-1)) in each schedule.
 *
 * Priorities, from high to low: tasks as they are spawned; those that fell at a change point, the
 * i-th drawn at i; those that yielded, the last one lowest (SAMPLER-2). Equal ones stand in the
 * order of the candidates.
 *
 * STEPS, unless given, is the length of the longest schedule so far, but forgets a long one in
 * time: else one that spins would move the change points out of all the others.
 */
#include <stdio.h>

#include "os/memory.h"
#include "sim/schedule.h"

#define DEPTH_DEFAULT 3
#define DEPTH_MAX     32
#define STEPS_GUESS   32 /* until there is something to learn from */
#define STEPS_MAX     1000000000
#define FORGET        16 /* what is too much in STEPS shrinks by this part with each schedule */

/* Priorities: from here up of tasks as they are spawned; from here up by the number of the change
 * point; below that after a yield. */
#define SPAWNED UINT32_C(0x80000000)
#define CHANGED UINT32_C(0x40000000)

/* In memory that is shared with processes forked later: each of their schedules counts too. */
struct sampler_pct {
    struct hdi_sampler base;
    struct hdi_prng prng;
    uint32_t depth;
    uint32_t steps;                /* of this schedule's change points */
    uint32_t learned;              /* of the next one's; 0: `steps` is given, for good */
    uint32_t picks;                /* in this schedule */
    uint32_t next;                 /* the first change point after them; 0: none */
    uint32_t passed;               /* change points before that */
    uint64_t changes[DEPTH_MAX];   /* [0 .. depth - 1), in order: the pick at which it happens,
                                    * times DEPTH_MAX, and its number, from 1 */
    uint32_t lowest;               /* of those that yielded so far; CHANGED: nobody has */
};

/* A number in [1, max] at *text, which is moved past it. Returns 0 if there is none. */
static uint32_t parse(const char **text, uint32_t max)
{
    uint64_t n = 0;
    while (**text >= '0' && **text <= '9' && n <= max) n = n * 10 + (uint64_t)(*(*text)++ - '0');
    return n <= max ? (uint32_t)n : 0;
}

static struct hdi_sampler *create(const char *parameters, const char **error)
{
    uint32_t depth = DEPTH_DEFAULT, steps = 0;
    if (*parameters) {
        depth = parse(&parameters, DEPTH_MAX);
        const bool has_steps = depth > 0 && *parameters == ':';
        if (has_steps) {
            parameters++;
            steps = parse(&parameters, STEPS_MAX);
        }
        if (depth == 0 || (has_steps && steps == 0) || *parameters) {
            *error = "pct:D[:STEPS] takes a depth from 1 to 32 and a number of steps from 1 to "
                     "1000000000";
            return NULL;
        }
    }
    struct sampler_pct *pct = hdi_memory_map_shared(sizeof(*pct));
    if (!pct) return NULL;
    pct->depth = depth;
    pct->steps = steps ? steps : STEPS_GUESS;
    pct->learned = steps ? 0 : STEPS_GUESS;
    return &pct->base;
}

static void destroy(struct hdi_sampler *sampler)
{
    hdi_memory_unmap(sampler, sizeof(struct sampler_pct));
}

static void find_next(struct sampler_pct *pct)
{
    const bool more = pct->passed + 1 < pct->depth;
    pct->next = more ? (uint32_t)(pct->changes[pct->passed] / DEPTH_MAX) : 0;
}

/* No two are equal, so each has its place by how many are less: no branch that depends on what was
 * drawn, since it would be guessed wrong. */
static void sort_changes(struct sampler_pct *pct, const uint64_t *drawn)
{
    for (uint32_t i = 0; i + 1 < pct->depth; i++) {
        uint32_t less = 0;
        for (uint32_t k = 0; k + 1 < pct->depth; k++) less += drawn[k] < drawn[i];
        pct->changes[less] = drawn[i];
    }
}

static void begin(struct hdi_sampler *sampler, struct hdi_schedule *schedule, uint64_t seed)
{
    (void)schedule;
    struct sampler_pct *pct = (struct sampler_pct *)sampler;
    uint64_t drawn[DEPTH_MAX];
    if (pct->learned) pct->steps = pct->learned;
    hdi_prng_init(&pct->prng, seed);
    for (uint32_t i = 1; i < pct->depth; i++) {
        const uint64_t pick = 1 + hdi_prng_below(&pct->prng, pct->steps);
        drawn[i - 1] = pick * DEPTH_MAX + i;
    }
    sort_changes(pct, drawn);
    pct->picks = pct->passed = 0;
    pct->lowest = CHANGED;
    find_next(pct);
}

static void end(struct hdi_sampler *sampler, struct hdi_schedule *schedule)
{
    (void)schedule;
    struct sampler_pct *pct = (struct sampler_pct *)sampler;
    if (!pct->learned) return;
    const uint32_t seen = pct->picks < STEPS_MAX ? pct->picks : STEPS_MAX;
    if (seen >= pct->learned) {
        pct->learned = seen;
    } else {
        pct->learned -= (pct->learned - seen + FORGET - 1) / FORGET;
    }
    if (pct->learned == 0) pct->learned = 1; /* Nothing was to be chosen; it is still learned. */
}

/* An actor's value: its priority above, and below the steps it had taken when it fell for its last
 * yield, so that it falls once for each. */
static uint32_t priority_of(const struct hdi_actor *actor)
{
    return (uint32_t)(actor->value >> 32);
}

static void set_priority(struct hdi_actor *actor, uint32_t priority)
{
    actor->value = priority * (UINT64_C(1) << 32) + actor->steps;
}

static void spawned(struct hdi_sampler *sampler, struct hdi_actor *actor, uint32_t number)
{
    (void)number;
    struct sampler_pct *pct = (struct sampler_pct *)sampler;
    set_priority(actor, SPAWNED | (uint32_t)(hdi_prng_next(&pct->prng) >> 32));
}

static void fall_for_yield(struct sampler_pct *pct, struct hdi_actor *actor)
{
    if ((uint32_t)actor->value == actor->steps) return;
    if (pct->lowest > 0) pct->lowest--;
    set_priority(actor, pct->lowest);
}

HDI_ALWAYS_INLINE unsigned highest(struct sampler_pct *pct, struct hdi_schedule *schedule,
                                   struct hd_task *const *ready, unsigned count, bool small)
{
    unsigned best = 0;
    int64_t best_priority = -1;
    for (unsigned i = 0; i < count; i++) {
        struct hdi_actor *actor = hdi_schedule_candidate(schedule, ready[i], small);
        if (hdi_unlikely(actor->yielded)) fall_for_yield(pct, actor);
        const int64_t priority = priority_of(actor);
        best = priority > best_priority ? i : best;
        best_priority = priority > best_priority ? priority : best_priority;
    }
    return best;
}

/* The first two of the candidates by their priorities. */
struct lead {
    unsigned best, second;
    int64_t best_priority, second_priority;
};

HDI_ALWAYS_INLINE struct lead first_two(struct sampler_pct *pct, struct hdi_schedule *schedule,
                                        struct hd_task *const *ready, unsigned count, bool small)
{
    struct lead lead = {0, 0, -1, -1};
    for (unsigned i = 0; i < count; i++) {
        struct hdi_actor *actor = hdi_schedule_candidate(schedule, ready[i], small);
        if (hdi_unlikely(actor->yielded)) fall_for_yield(pct, actor);
        const int64_t priority = priority_of(actor);
        const bool best = priority > lead.best_priority, second = priority > lead.second_priority;
        lead.second = best ? lead.best : second ? i : lead.second;
        lead.second_priority = best     ? lead.best_priority
                               : second ? priority
                                        : lead.second_priority;
        lead.best = best ? i : lead.best;
        lead.best_priority = best ? priority : lead.best_priority;
    }
    return lead;
}

/* Who would go on falls, once for each change point that is here. Returns who goes on then. */
HDI_ALWAYS_INLINE unsigned change(struct sampler_pct *pct, struct hdi_schedule *schedule,
                                  struct hd_task *const *ready, unsigned count, bool small)
{
    struct lead lead;
    int64_t fallen;
    do {
        lead = first_two(pct, schedule, ready, count, small);
        fallen = CHANGED + (int64_t)(pct->changes[pct->passed++] % DEPTH_MAX);
        if (lead.best_priority > fallen) {
            set_priority(hdi_schedule_candidate(schedule, ready[lead.best], small),
                         (uint32_t)fallen);
        } else {
            fallen = lead.best_priority;
        }
        find_next(pct);
    } while (pct->next == pct->picks);
    /* No two fall to the same place; of tasks that yielded too often to be told apart, the first
     * of the candidates goes on, and none of them falls. */
    return fallen >= lead.second_priority ? lead.best : lead.second;
}

static __attribute__((noinline)) unsigned pick_and_change(struct sampler_pct *pct,
                                                          struct hdi_schedule *schedule,
                                                          struct hd_task *const *ready,
                                                          unsigned count)
{
    return hdi_schedule_is_small(schedule) ? change(pct, schedule, ready, count, true)
                                           : change(pct, schedule, ready, count, false);
}

static __attribute__((noinline)) unsigned pick_far(struct sampler_pct *pct,
                                                   struct hdi_schedule *schedule,
                                                   struct hd_task *const *ready, unsigned count)
{
    return highest(pct, schedule, ready, count, false);
}

static unsigned pick(struct hdi_sampler *sampler, struct hdi_schedule *schedule,
                     struct hd_task *const *ready, unsigned count, int running)
{
    (void)running;
    struct sampler_pct *pct = (struct sampler_pct *)sampler;
    if (++pct->picks == pct->next) return pick_and_change(pct, schedule, ready, count);
    return hdi_likely(hdi_schedule_is_small(schedule)) ? highest(pct, schedule, ready, count, true)
                                                       : pick_far(pct, schedule, ready, count);
}

static int text(const struct hdi_sampler *sampler, char *to, size_t size)
{
    const struct sampler_pct *pct = (const struct sampler_pct *)sampler;
    return snprintf(to, size, "%u:%u", (unsigned)pct->depth, (unsigned)pct->steps);
}

const struct hdi_sampler_kind hdi_sampler_pct = {.name = "pct",
                                                 .create = create,
                                                 .destroy = destroy,
                                                 .begin = begin,
                                                 .end = end,
                                                 .spawned = spawned,
                                                 .pick = pick,
                                                 .text = text};
