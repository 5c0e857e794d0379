/* SPDX-License-Identifier: MIT
 *
 * signature: a number for the class of a schedule: equal for schedules that only swap steps which
 * have nothing to do with each other, different for others but for chance.
 *
 * For each object a chain: a step that changes it folds in who it was, its task's which step, and
 * all who looked since the last change; a look folds in the chain as it found it, and leaves it as
 * it is. A step of which nothing is known depends on all: it folds in the sum of all before, and
 * is part of all that come later. The signature is the sum, so that no order counts but that
 * within objects.
 *
 * Objects are found by their addresses, in a table whose order has no effect on the sum (level D3).
 *
 * Owner  the schedule.
 */
#ifndef HDI_SIM_SIGNATURE_H
#define HDI_SIM_SIGNATURE_H

#include "base/check.h"
#include "sim/sampler.h"

struct hdi_signature_object {
    const void *object;
    uint64_t chain;
    uint64_t looks; /* sum of those since the chain changed */
    uint64_t round; /* of the schedule that it belongs to */
};

/* SIGNATURE-1: at most half of the table is used, so that a search ends. */
struct hdi_signature {
    uint64_t sum;     /* of the steps so far */
    uint64_t barrier; /* those of which nothing is known */
    uint64_t round;   /* of this schedule */
    uint32_t used;
    uint32_t room;    /* a power of 2; 0 before the first */
    struct hdi_signature_object *objects;
};

void hdi_signature_fini(struct hdi_signature *signature);

static inline void hdi_signature_begin(struct hdi_signature *signature)
{
    signature->sum = signature->barrier = 0;
    signature->round++;
    signature->used = 0;
}

/* Both halves of a long product, as wyhash does. */
static inline uint64_t hdi_signature_fold(uint64_t a, uint64_t b)
{
    const unsigned __int128 product =
        (unsigned __int128)(a ^ UINT64_C(0xa0761d6478bd642f)) * (b ^ UINT64_C(0xe7037ed1a0b428db));
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint32_t hdi_signature_place(const void *object)
{
    return (uint32_t)(((uintptr_t)object >> 2) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* hdi_signature_find() for an object that is not in its first place. */
struct hdi_signature_object *hdi_signature_find_far(struct hdi_signature *signature,
                                                    const void *object);

/* Its entry in the table, a new one if need be. Returns NULL if memory is short. */
static inline struct hdi_signature_object *hdi_signature_find(struct hdi_signature *signature,
                                                              const void *object)
{
    if (hdi_likely(signature->room > 0)) {
        const uint32_t at = hdi_signature_place(object) & (signature->room - 1);
        struct hdi_signature_object *found = &signature->objects[at];
        if (hdi_likely(found->object == object && found->round == signature->round)) return found;
    }
    return hdi_signature_find_far(signature, object);
}

/* The task with this number takes the step that the actor stands before. */
HDI_ALWAYS_INLINE void hdi_signature_step(struct hdi_signature *signature, uint32_t number,
                                          const struct hdi_actor *actor)
{
    const uint64_t who = signature->barrier ^ ((uint64_t)number << 32 | actor->steps);
    const bool known = actor->kind != HD_TOUCH_ANY && actor->object;
    struct hdi_signature_object *object =
        known ? hdi_signature_find(signature, actor->object) : NULL;
    if (!object) {
        signature->barrier = hdi_signature_fold(signature->sum, who);
        signature->sum += signature->barrier;
    } else if (hdi_touch_looks(actor->kind)) {
        const uint64_t look = hdi_signature_fold(object->chain, who);
        object->looks += look;
        signature->sum += look;
    } else {
        object->chain = hdi_signature_fold(object->chain + object->looks, who);
        object->looks = 0;
        signature->sum += object->chain;
    }
}

#endif
