/* SPDX-License-Identifier: MIT
 *
 * sampler_pos: partial order sampling (Yuan, Yang, Gu, CAV 2018).
 *
 * The next step of each task has a priority of its own, drawn when the task comes to it, and the
 * highest goes on. When it does, the steps that race with it are drawn again, so that how the first
 * of two races ended says nothing about the second. Steps that have nothing to do with each other
 * keep their priorities: their order does not matter, and is not worth draws.
 *
 * Two steps race here if both are known to touch the same object, and not both only look. Nothing
 * is drawn again for a step of which nothing is known: it would have to be for all, at each step,
 * and that is sampler_random.
 *
 * The step after a yield is below all others, the last one to yield lowest, until it is taken
 * (SAMPLER-2). Equal ones stand in the order of the candidates.
 */
#include "sim/schedule.h"

#define DRAWN UINT32_C(0x80000000) /* set in drawn priorities: above those after a yield */

struct sampler_pos {
    struct hdi_sampler base;
    struct hdi_prng prng;
    uint32_t lowest; /* of those after a yield; DRAWN: there was none */
};

static struct hdi_sampler *create(const char *parameters, const char **error)
{
    return hdi_sampler_plain(sizeof(struct sampler_pos), parameters, error);
}

static void begin(struct hdi_sampler *sampler, struct hdi_schedule *schedule, uint64_t seed)
{
    (void)schedule;
    struct sampler_pos *pos = (struct sampler_pos *)sampler;
    hdi_prng_init(&pos->prng, seed);
    pos->lowest = DRAWN;
}

/* An actor's value: the priority above, and below the steps it had taken when that was drawn; if it
 * has taken more, the priority is of an earlier step. */
HDI_ALWAYS_INLINE void draw(struct sampler_pos *pos, struct hdi_actor *actor)
{
    uint32_t priority;
    if (hdi_unlikely(actor->yielded)) {
        if (pos->lowest > 0) pos->lowest--;
        priority = pos->lowest;
    } else {
        priority = (uint32_t)(hdi_prng_next(&pos->prng) >> 32) | DRAWN;
    }
    actor->value = priority * (UINT64_C(1) << 32) + actor->steps;
}

static void spawned(struct hdi_sampler *sampler, struct hdi_actor *actor, uint32_t number)
{
    (void)number;
    draw((struct sampler_pos *)sampler, actor);
}

HDI_ALWAYS_INLINE void draw_again(struct sampler_pos *pos, struct hdi_schedule *schedule,
                                  struct hd_task *const *ready, unsigned count, unsigned taken,
                                  bool small)
{
    const struct hdi_actor *step = hdi_schedule_candidate(schedule, ready[taken], small);
    const void *object = step->object;
    const bool looks = hdi_touch_looks(step->kind);
    if (!object) return;
    for (unsigned i = 0; i < count; i++) {
        struct hdi_actor *other = hdi_schedule_candidate(schedule, ready[i], small);
        if (other->object != object || other == step || other->yielded) continue;
        if (!looks || !hdi_touch_looks(other->kind)) draw(pos, other);
    }
}

HDI_ALWAYS_INLINE unsigned pick_by(struct sampler_pos *pos, struct hdi_schedule *schedule,
                                   struct hd_task *const *ready, unsigned count, bool small)
{
    unsigned best = 0;
    int64_t best_priority = -1;
    for (unsigned i = 0; i < count; i++) {
        struct hdi_actor *actor = hdi_schedule_candidate(schedule, ready[i], small);
        if ((uint32_t)actor->value != actor->steps) draw(pos, actor);
        const int64_t priority = (int64_t)(actor->value >> 32);
        best = priority > best_priority ? i : best;
        best_priority = priority > best_priority ? priority : best_priority;
    }
    draw_again(pos, schedule, ready, count, best, small);
    return best;
}

static __attribute__((noinline)) unsigned pick_far(struct sampler_pos *pos,
                                                   struct hdi_schedule *schedule,
                                                   struct hd_task *const *ready, unsigned count)
{
    return pick_by(pos, schedule, ready, count, false);
}

static unsigned pick(struct hdi_sampler *sampler, struct hdi_schedule *schedule,
                     struct hd_task *const *ready, unsigned count, int running)
{
    (void)running;
    struct sampler_pos *pos = (struct sampler_pos *)sampler;
    return hdi_likely(hdi_schedule_is_small(schedule)) ? pick_by(pos, schedule, ready, count, true)
                                                       : pick_far(pos, schedule, ready, count);
}

const struct hdi_sampler_kind hdi_sampler_pos = {
    .name = "pos", .create = create, .begin = begin, .spawned = spawned, .pick = pick};
