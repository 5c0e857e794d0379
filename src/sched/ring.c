/* SPDX-License-Identifier: MIT */
#include "sched/ring.h"

_Static_assert((HDI_RING_CAP & (HDI_RING_CAP - 1)) == 0, "slots are found by masking");

void hdi_ring_init(struct hdi_ring *ring, bool alone)
{
    hdi_store_relaxed(&ring->head, 0); /* Nobody else knows it yet. */
    hdi_store_relaxed(&ring->tail, 0);
    ring->alone = alone;
}

unsigned hdi_ring_spill(struct hdi_ring *ring, struct hd_task *out[HDI_RING_CAP / 2])
{
    const unsigned half = HDI_RING_CAP / 2;
    const uint32_t tail = hdi_load_relaxed(&ring->tail); /* Only we write it. */
    uint64_t head = hdi_load_acquire(&ring->head);
    const uint32_t real = hdi_ring_real(head);
    if (hdi_ring_trail(head) != real || hdi_ring_gap(real, tail) != HDI_RING_CAP) return 0;
    /* Claim all, then publish the older half anew: it lies in the same slots already,
     * since tail and real are one capacity apart. */
    if (!hdi_cas_acq_rel(&ring->head, &head, hdi_ring_head(tail, tail))) return 0; /* H */
    for (unsigned i = 0; i < half; i++) {
        out[i] = hdi_load_relaxed(hdi_ring_slot(ring, real + half + i));
    }
    hdi_store_release(&ring->tail, (tail + half) & HDI_RING_MASK); /* P */
    return half;
}

/* The thief's claim: *first and the count of tasks that are now its own to copy. */
static unsigned claim_half(struct hdi_ring *victim, uint32_t *first)
{
    uint64_t head = hdi_load_acquire(&victim->head);
    for (;;) {
        const uint32_t real = hdi_ring_real(head);
        if (hdi_ring_trail(head) != real) return 0; /* RING-2 */
        const uint32_t tail = hdi_load_acquire(&victim->tail); /* P */
        const uint32_t count = hdi_ring_gap(real, tail);
        if (count == 0) return 0;
        if (count > HDI_RING_CAP) { /* The owner moved on between the two loads. */
            head = hdi_load_acquire(&victim->head);
            continue;
        }
        const uint32_t half = count - count / 2;
        if (hdi_cas_acq_rel(&victim->head, &head, hdi_ring_head(real, real + half))) { /* H */
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
        const uint32_t trail = hdi_ring_trail(head), real = hdi_ring_real(head);
        HDI_ASSERT(trail != real || HDI_MUTANT(ring_narrow)); /* RING-2 */
        if (hdi_cas_acq_rel(&victim->head, &head, hdi_ring_head(real, real))) return true; /* H */
        if (HDI_MUTANT(ring_abandon)) {
            hdi_store_release(&victim->head, hdi_ring_head(trail, trail));
            return false;
        }
    }
}

struct hd_task *hdi_ring_steal(struct hdi_ring *victim, struct hdi_ring *own, unsigned *moved)
{
    HDI_ASSERT(!victim->alone); /* RING-4 */
    const uint32_t tail = hdi_load_relaxed(&own->tail); /* Only we write it. */
    const uint64_t head = hdi_load_acquire(&own->head); /* H */
    if (hdi_ring_gap(hdi_ring_trail(head), tail) > HDI_RING_CAP / 2) return NULL;

    uint32_t first;
    const unsigned count = claim_half(victim, &first);
    if (count == 0) return NULL;
    const uint32_t own_tail = (tail + count - 1) & HDI_RING_MASK;
    if (HDI_MUTANT(ring_early_tail)) hdi_store_release(&own->tail, own_tail);
    struct hd_task *task = hdi_load_relaxed(hdi_ring_slot(victim, first));
    for (uint32_t i = 1; i < count; i++) {
        struct hd_task *moving = hdi_load_relaxed(hdi_ring_slot(victim, first + i));
        hdi_store_relaxed(hdi_ring_slot(own, tail + i - 1), moving);
    }
    if (!release_claim(victim)) return NULL;
    if (count > 1) hdi_store_release(&own->tail, own_tail); /* P */
    *moved = count - 1;
    return task;
}
