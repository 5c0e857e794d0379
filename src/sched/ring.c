/* SPDX-License-Identifier: MIT */
#include "sched/ring.h"

#include <stddef.h>

#include "base/check.h"
#include "base/mutant.h"

_Static_assert((HDI_RING_CAP & (HDI_RING_CAP - 1)) == 0, "slots are found by masking");

/* The mutant narrows the counters so far that they wrap within a scenario. */
#define COUNTER_MASK (HDI_MUTANT(ring_narrow) ? 2 * HDI_RING_CAP - 1 : UINT32_MAX)

static uint32_t steal_of(uint64_t head)
{
    return (uint32_t)(head >> 32);
}

static uint32_t real_of(uint64_t head)
{
    return (uint32_t)head;
}

static uint64_t make_head(uint32_t steal, uint32_t real)
{
    return (uint64_t)(steal & COUNTER_MASK) << 32 | (real & COUNTER_MASK);
}

static uint32_t distance(uint32_t from, uint32_t to)
{
    return (to - from) & COUNTER_MASK;
}

static _Atomic(struct hd_task *) *slot(struct hdi_ring *ring, uint32_t index)
{
    return &ring->slots[index & (HDI_RING_CAP - 1)];
}

void hdi_ring_init(struct hdi_ring *ring)
{
    hdi_store_relaxed(&ring->head, 0); /* Nobody else knows it yet. */
    hdi_store_relaxed(&ring->tail, 0);
}

bool hdi_ring_push(struct hdi_ring *ring, struct hd_task *task)
{
    const uint32_t tail = hdi_load_relaxed(&ring->tail); /* Only we write it. */
    const uint64_t head = hdi_load_acquire(&ring->head); /* H: copies before `steal` are done. */
    const uint32_t limit = HDI_MUTANT(ring_full_real) ? real_of(head) : steal_of(head);
    HDI_ASSERT(distance(limit, tail) <= HDI_RING_CAP || HDI_MUTANT(ring_narrow)); /* RING-1 */
    if (distance(limit, tail) >= HDI_RING_CAP) return false;
    hdi_store_relaxed(slot(ring, tail), task);
    hdi_store_release(&ring->tail, (tail + 1) & COUNTER_MASK); /* P */
    return true;
}

struct hd_task *hdi_ring_pop(struct hdi_ring *ring)
{
    const uint32_t tail = hdi_load_relaxed(&ring->tail); /* Only we write it. */
    uint64_t head = hdi_load_acquire(&ring->head);
    for (;;) {
        const uint32_t steal = steal_of(head), real = real_of(head);
        if (real == tail) return NULL;
        const uint64_t next = make_head(steal == real ? real + 1 : steal, real + 1); /* RING-2 */
        if (hdi_cas_acq_rel(&ring->head, &head, next)) { /* H */
            return hdi_load_relaxed(slot(ring, real));   /* Only we write slots. */
        }
    }
}

unsigned hdi_ring_spill(struct hdi_ring *ring, struct hd_task *out[HDI_RING_CAP / 2])
{
    const unsigned half = HDI_RING_CAP / 2;
    const uint32_t tail = hdi_load_relaxed(&ring->tail); /* Only we write it. */
    uint64_t head = hdi_load_acquire(&ring->head);
    const uint32_t real = real_of(head);
    if (steal_of(head) != real || distance(real, tail) != HDI_RING_CAP) return 0;
    /* Claim all, then publish the older half anew: it lies in the same slots already,
     * since tail and real are one capacity apart. */
    if (!hdi_cas_acq_rel(&ring->head, &head, make_head(tail, tail))) return 0; /* H */
    for (unsigned i = 0; i < half; i++) out[i] = hdi_load_relaxed(slot(ring, real + half + i));
    hdi_store_release(&ring->tail, (tail + half) & COUNTER_MASK); /* P */
    return half;
}

/* The thief's claim: *first and the count of tasks that are now its own to copy. */
static unsigned claim_half(struct hdi_ring *victim, uint32_t *first)
{
    uint64_t head = hdi_load_acquire(&victim->head);
    for (;;) {
        const uint32_t real = real_of(head);
        if (steal_of(head) != real) return 0; /* RING-2 */
        const uint32_t tail = hdi_load_acquire(&victim->tail); /* P */
        const uint32_t count = distance(real, tail);
        if (count == 0) return 0;
        if (count > HDI_RING_CAP) { /* The owner moved on between the two loads. */
            head = hdi_load_acquire(&victim->head);
            continue;
        }
        const uint32_t half = count - count / 2;
        if (hdi_cas_acq_rel(&victim->head, &head, make_head(real, real + half))) { /* H */
            *first = real;
            return half;
        }
    }
}

/* The copies are done: let the owner have the slots. */
static bool release_claim(struct hdi_ring *victim)
{
    uint64_t head = hdi_load_acquire(&victim->head);
    for (;;) {
        HDI_ASSERT(steal_of(head) != real_of(head) || HDI_MUTANT(ring_narrow)); /* RING-2 */
        const uint32_t real = real_of(head);
        if (hdi_cas_acq_rel(&victim->head, &head, make_head(real, real))) return true; /* H */
        if (HDI_MUTANT(ring_abandon)) {
            hdi_store_release(&victim->head, make_head(steal_of(head), steal_of(head)));
            return false;
        }
    }
}

struct hd_task *hdi_ring_steal(struct hdi_ring *victim, struct hdi_ring *own, unsigned *moved)
{
    const uint32_t tail = hdi_load_relaxed(&own->tail); /* Only we write it. */
    const uint64_t head = hdi_load_acquire(&own->head); /* H */
    if (distance(steal_of(head), tail) > HDI_RING_CAP / 2) return NULL;

    uint32_t first;
    const unsigned count = claim_half(victim, &first);
    if (count == 0) return NULL;
    const uint32_t own_tail = (tail + count - 1) & COUNTER_MASK;
    if (HDI_MUTANT(ring_early_tail)) hdi_store_release(&own->tail, own_tail);
    struct hd_task *task = hdi_load_relaxed(slot(victim, first));
    for (uint32_t i = 1; i < count; i++) {
        hdi_store_relaxed(slot(own, tail + i - 1), hdi_load_relaxed(slot(victim, first + i)));
    }
    if (!release_claim(victim)) return NULL;
    if (count > 1) hdi_store_release(&own->tail, own_tail); /* P */
    *moved = count - 1;
    return task;
}

unsigned hdi_ring_count(struct hdi_ring *ring)
{
    const uint64_t head = hdi_load_acquire(&ring->head);
    const uint32_t tail = hdi_load_acquire(&ring->tail); /* P */
    const uint32_t count = distance(real_of(head), tail);
    return count <= HDI_RING_CAP ? count : HDI_RING_CAP;
}
