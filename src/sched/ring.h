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
 *   RING-3  only the owner writes tail and slots; only CAS moves head.
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
#include <stdint.h>

#include "base/atomics.h"

struct hd_task;

#define HDI_RING_CAP (HDI_MODEL ? 4u : 256u)

struct hdi_ring {
    alignas(HDI_CACHE_LINE) _Atomic(uint64_t) head; /* steal << 32 | real; any, by CAS */
    alignas(HDI_CACHE_LINE) _Atomic(uint32_t) tail; /* owner writes, all read */
    _Atomic(struct hd_task *) slots[HDI_RING_CAP];  /* owner writes, all read */
};

void hdi_ring_init(struct hdi_ring *ring);

/* Context: owner. Returns false, changing nothing, if full. */
bool hdi_ring_push(struct hdi_ring *ring, struct hd_task *task);

/* Context: owner. Returns the oldest task, now the caller's; NULL if empty. */
struct hd_task *hdi_ring_pop(struct hdi_ring *ring);

/* Take the newer half of a full ring out, oldest first, to make room.
 * Context: owner. Returns how many, now the caller's: HDI_RING_CAP / 2, or 0 if a
 * thief is at work or the ring is not full. */
unsigned hdi_ring_spill(struct hdi_ring *ring, struct hd_task *out[HDI_RING_CAP / 2]);

/* Take half of `victim`, rounded up: the oldest is returned, the rest go to the
 * caller's own ring, *moved of them.
 * Context: owner of `own`. Returns NULL if there is nothing, another thief is at work,
 * or `own` is more than half full. */
struct hd_task *hdi_ring_steal(struct hdi_ring *victim, struct hdi_ring *own, unsigned *moved);

/* Tasks that can be taken now: a hint, except to the owner with no thief about.
 * Context: any. */
unsigned hdi_ring_count(struct hdi_ring *ring);

#endif
