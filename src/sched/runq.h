/* SPDX-License-Identifier: MIT
 *
 * runq: a worker's local queue, in one of four shapes: ring (fair), deque (local), bag
 * (the sim world's random order), or none, where all tasks are in the dispatcher's
 * common queue, whose order is then the order of all.
 *
 * Owner    one worker; push, pop and spill.
 * Thieves  workers of the same dispatcher, whose queues have the same shape.
 */
#ifndef HDI_SCHED_RUNQ_H
#define HDI_SCHED_RUNQ_H

#include "base/prng.h"
#include "sched/bag.h"
#include "sched/deque.h"
#include "sched/ring.h"

enum hdi_runq_shape {
    HDI_RUNQ_RING,
    HDI_RUNQ_BAG,
    HDI_RUNQ_DEQUE, /* from here on, what gives way goes to the injection queue */
    HDI_RUNQ_NONE,
};

struct hdi_runq {
    enum hdi_runq_shape shape; /* constant */
    union {
        struct hdi_ring ring;
        struct hdi_deque deque;
        struct hdi_bag bag;
    };
};

/* `alone`: nobody steals from it, ever. */
static inline void hdi_runq_init(struct hdi_runq *queue, enum hdi_runq_shape shape, bool alone)
{
    queue->shape = shape;
    switch (shape) {
    case HDI_RUNQ_RING: hdi_ring_init(&queue->ring, alone); break;
    case HDI_RUNQ_DEQUE: hdi_deque_init(&queue->deque); break;
    case HDI_RUNQ_BAG: hdi_bag_init(&queue->bag); break;
    case HDI_RUNQ_NONE: break;
    }
}

static inline void hdi_runq_fini(struct hdi_runq *queue)
{
    if (queue->shape == HDI_RUNQ_BAG) hdi_bag_fini(&queue->bag);
}

/* Context: owner. Returns false, changing nothing, if full. */
static inline bool hdi_runq_push(struct hdi_runq *queue, struct hd_task *task)
{
    switch (queue->shape) {
    case HDI_RUNQ_RING: return hdi_ring_push(&queue->ring, task);
    case HDI_RUNQ_DEQUE: return hdi_deque_push(&queue->deque, task);
    case HDI_RUNQ_BAG: return hdi_bag_push(&queue->bag, task);
    case HDI_RUNQ_NONE: return false;
    }
    return false;
}

/* Context: owner. `prng` decides in a bag. Returns NULL if empty. */
static inline struct hd_task *hdi_runq_pop(struct hdi_runq *queue, struct hdi_prng *prng)
{
    switch (queue->shape) {
    case HDI_RUNQ_RING: return hdi_ring_pop(&queue->ring);
    case HDI_RUNQ_DEQUE: return hdi_deque_pop(&queue->deque);
    case HDI_RUNQ_BAG:
        if (hdi_bag_count(&queue->bag) == 0) return NULL;
        return hdi_bag_take(&queue->bag,
                            hdi_prng_below(prng, (uint32_t)hdi_bag_count(&queue->bag)));
    case HDI_RUNQ_NONE: return NULL;
    }
    return NULL;
}

/* The oldest task, which an owner that pops the newest would not come to.
 * Context: owner. Returns NULL if there is none. */
static inline struct hd_task *hdi_runq_pop_oldest(struct hdi_runq *queue)
{
    return queue->shape == HDI_RUNQ_DEQUE ? hdi_deque_steal(&queue->deque) : NULL;
}

/* Context: owner of `own`. Returns a task to run; *moved more are in `own` now. */
static inline struct hd_task *hdi_runq_steal(struct hdi_runq *victim, struct hdi_runq *own,
                                             unsigned *moved)
{
    *moved = 0;
    switch (victim->shape) {
    case HDI_RUNQ_RING: return hdi_ring_steal(&victim->ring, &own->ring, moved);
    case HDI_RUNQ_DEQUE: return hdi_deque_steal(&victim->deque);
    case HDI_RUNQ_BAG: /* Only one worker has a bag. */
    case HDI_RUNQ_NONE: return NULL;
    }
    return NULL;
}

/* Tasks inside. Context: any; a hint to all but the owner. */
static inline unsigned hdi_runq_count(struct hdi_runq *queue)
{
    switch (queue->shape) {
    case HDI_RUNQ_RING: return hdi_ring_count(&queue->ring);
    case HDI_RUNQ_DEQUE: return hdi_deque_count(&queue->deque);
    case HDI_RUNQ_BAG: return (unsigned)hdi_bag_count(&queue->bag);
    case HDI_RUNQ_NONE: return 0;
    }
    return 0;
}

/* Free places. Context: owner. */
static inline unsigned hdi_runq_room(struct hdi_runq *queue)
{
    switch (queue->shape) {
    case HDI_RUNQ_RING: return HDI_RING_CAP - hdi_ring_count(&queue->ring);
    case HDI_RUNQ_DEQUE: return (unsigned)HDI_DEQUE_CAP - hdi_deque_count(&queue->deque);
    case HDI_RUNQ_BAG: return (unsigned)(queue->bag.capacity - hdi_bag_count(&queue->bag));
    case HDI_RUNQ_NONE: return 0;
    }
    return 0;
}

#endif
