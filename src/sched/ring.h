/* SPDX-License-Identifier: MIT
 *
 * ring: bounded FIFO of runnable tasks, one per worker, from which thieves take half.
 *
 * Owner      one worker; pushes at tail, pops at head (FIFO).
 * Thieves    any other worker; one at a time per ring, half of it per call.
 * Ownership  a task in [real, tail) is the ring's. The owner's CAS that moves `real`
 *            past a task makes it the owner's; a thief's makes it the thief's.
 *
 * The head is one 64-bit word of two 32-bit halves. `real` is where the next task is
 * taken; `steal` trails behind it while a thief still copies, so that the owner does
 * not reuse the slots in [steal, real).
 *
 *   steal      real                 tail
 *   |-- being --|--- runnable --------|--- free --- (up to steal + capacity)
 *       copied
 *
 *   RING-1  steal <= real <= tail <= steal + HDI_RING_CAP, as differences modulo 2^32.
 *   RING-2  steal != real exactly while one thief is between its claim and release.
 *   RING-3  only the owner writes tail and slots; only CAS moves head, unless RING-4.
 *   RING-4  from a ring that is `alone` nobody steals, ever: its owner moves head by a store.
 *
 * Edges   P  tail store -> thief's tail load: the slots it covers are written.
 *         H  head CAS -> head CAS or load: who takes what; a thief's release also says
 *            that its copies are done before the owner's push reuses the slots.
 *         Slots are relaxed: P and H order them.
 *
 * Rejected
 *   A release that gives up when its CAS fails: the tasks are already copied, so they
 *   would run twice (mutant ring_abandon). It loops.
 *   16-bit halves: they wrap in under a millisecond, and a thief that slept that long
 *   claims tasks that are gone (mutant ring_narrow).
 *   Spilling the older half when full: the newest would run before them.
 */
#ifndef HDI_SCHED_RING_H
#define HDI_SCHED_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/mutant.h"

struct hd_task;

#define HDI_RING_CAP (HDI_MODEL ? 4u : 256u)

struct hdi_ring {
    alignas(HDI_CACHE_LINE) _Atomic(uint64_t) head; /* steal << 32 | real; any, by CAS */
    alignas(HDI_CACHE_LINE) _Atomic(uint32_t) tail; /* owner writes, all read */
    bool alone;                                     /* constant: RING-4 */
    _Atomic(struct hd_task *) slots[HDI_RING_CAP];  /* owner writes, all read */
};

/* `alone`: there will be no thief, whatever happens (RING-4). */
void hdi_ring_init(struct hdi_ring *ring, bool alone);

/* Take the newer half of a full ring out, oldest first, to make room.
 * Context: owner. Returns how many, now the caller's: HDI_RING_CAP / 2, or 0 if a
 * thief is at work or the ring is not full. */
unsigned hdi_ring_spill(struct hdi_ring *ring, struct hd_task *out[HDI_RING_CAP / 2]);

/* Take half of `victim`, rounded up: the oldest is returned, the rest go to the
 * caller's own ring, *moved of them.
 * Context: owner of `own`; `victim` is not alone. Returns NULL if there is nothing, another
 * thief is at work, or `own` is more than half full. */
struct hd_task *hdi_ring_steal(struct hdi_ring *victim, struct hdi_ring *own, unsigned *moved);

/* ---- on the way of every switch ---- */

/* The mutant narrows the counters so far that they wrap within a scenario. */
#define HDI_RING_MASK (HDI_MUTANT(ring_narrow) ? 2 * HDI_RING_CAP - 1 : UINT32_MAX)

static inline uint32_t hdi_ring_trail(uint64_t head)
{
    return (uint32_t)(head >> 32);
}

static inline uint32_t hdi_ring_real(uint64_t head)
{
    return (uint32_t)head;
}

static inline uint64_t hdi_ring_head(uint32_t steal, uint32_t real)
{
    return (uint64_t)(steal & HDI_RING_MASK) << 32 | (real & HDI_RING_MASK);
}

static inline uint32_t hdi_ring_gap(uint32_t from, uint32_t to)
{
    return (to - from) & HDI_RING_MASK;
}

static inline _Atomic(struct hd_task *) *hdi_ring_slot(struct hdi_ring *ring, uint32_t index)
{
    return &ring->slots[index & (HDI_RING_CAP - 1)];
}

/* Context: owner. Returns false, changing nothing, if full. */
static inline bool hdi_ring_push(struct hdi_ring *ring, struct hd_task *task)
{
    const uint32_t tail = hdi_load_relaxed(&ring->tail); /* Only we write it. */
    const uint64_t head = hdi_load_acquire(&ring->head); /* H: copies before `steal` are done. */
    const uint32_t limit = HDI_MUTANT(ring_full_real) ? hdi_ring_real(head) : hdi_ring_trail(head);
    HDI_ASSERT(hdi_ring_gap(limit, tail) <= HDI_RING_CAP || HDI_MUTANT(ring_narrow)); /* RING-1 */
    if (hdi_ring_gap(limit, tail) >= HDI_RING_CAP) return false;
    hdi_store_relaxed(hdi_ring_slot(ring, tail), task);
    hdi_store_release(&ring->tail, (tail + 1) & HDI_RING_MASK); /* P */
    return true;
}

/* Context: owner. Returns the oldest task, now the caller's; NULL if empty. */
static inline struct hd_task *hdi_ring_pop(struct hdi_ring *ring)
{
    const uint32_t tail = hdi_load_relaxed(&ring->tail); /* Only we write it. */
    uint64_t head = hdi_load_acquire(&ring->head);
    for (;;) {
        const uint32_t steal = hdi_ring_trail(head), real = hdi_ring_real(head);
        if (real == tail) return NULL;
        /* RING-2: a thief at work keeps its trail. */
        const uint64_t next = hdi_ring_head(steal == real ? real + 1 : steal, real + 1);
        if (ring->alone) {
            hdi_store_relaxed(&ring->head, next); /* RING-4: others only count. */
        } else if (!hdi_cas_acq_rel(&ring->head, &head, next)) { /* H */
            continue;
        }
        return hdi_load_relaxed(hdi_ring_slot(ring, real)); /* Only we write slots. */
    }
}

/* Tasks that can be taken now: a hint, except to the owner with no thief about.
 * Context: any. */
static inline unsigned hdi_ring_count(struct hdi_ring *ring)
{
    const uint64_t head = hdi_load_acquire(&ring->head);
    const uint32_t tail = hdi_load_acquire(&ring->tail); /* P */
    const uint32_t count = hdi_ring_gap(hdi_ring_real(head), tail);
    return count <= HDI_RING_CAP ? count : HDI_RING_CAP;
}

/* How many were put in and taken out so far: from one look to the next, the pace of its owner.
 * Context: any. */
static inline uint32_t hdi_ring_moves(struct hdi_ring *ring)
{
    /* Relaxed: a hint. */
    return hdi_load_relaxed(&ring->tail) + hdi_ring_real(hdi_load_relaxed(&ring->head));
}

#endif
