/* SPDX-License-Identifier: MIT
 *
 * deque: bounded work-stealing deque (Chase-Lev) of runnable tasks, or of jobs, one per worker.
 *
 * Owner      one worker; pushes and pops at bottom (LIFO).
 * Thieves    any worker; steal at top (FIFO), one item per call.
 * Ownership  an item in [top, bottom) is the deque's; whoever moves an index past it
 *            owns it from then on, exactly once.
 *
 *   DEQUE-1  0 <= bottom - top <= HDI_DEQUE_CAP, except inside hdi_deque_pop().
 *   DEQUE-2  top never decreases.
 *
 * Edges   P  bottom store -> thief's bottom load: the slot is written.
 *         D  the owner claims bottom and looks at top; a thief looks at bottom and
 *            claims top: sequentially consistent on both sides, so that for the last
 *            item at least one of the two sees the other, and the CAS decides.
 *         C  top CAS -> owner's top load in push: the slot may be reused.
 *         Slots are relaxed: P and C order them.
 *
 * Rejected
 *   Stealing half in one CAS: the owner pops from the same range without a CAS, so
 *   items are lost and duplicated (mutant deque_steal_half).
 *   Fences: ThreadSanitizer does not see them; the order is on the operations.
 *   Growing: a full deque sends one task to the injection queue instead, or keeps a job
 *   private, where it is not lost; and no thief ever reads a retired array.
 */
#ifndef HDI_SCHED_DEQUE_H
#define HDI_SCHED_DEQUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"

#define HDI_DEQUE_CAP (HDI_MODEL ? 4 : 256)

struct hdi_deque {
    alignas(HDI_CACHE_LINE) _Atomic(int64_t) top;    /* any worker, by CAS */
    alignas(HDI_CACHE_LINE) _Atomic(int64_t) bottom; /* owner writes, all read */
    _Atomic(void *) slots[HDI_DEQUE_CAP];            /* owner writes, all read */
};

void hdi_deque_init(struct hdi_deque *deque);

/* Context: owner. Returns false, changing nothing, if full. */
bool hdi_deque_push(struct hdi_deque *deque, void *item);

/* Context: owner. Returns the newest item, now the caller's; NULL if empty. */
void *hdi_deque_pop(struct hdi_deque *deque);

/* Context: any. Returns the oldest item, now the caller's; NULL if there is none or
 * another thief was faster. */
void *hdi_deque_steal(struct hdi_deque *deque);

#if HDI_MODEL
/* The wrong way, for the mutant: half in one CAS, the rest into `own`. */
void *hdi_deque_steal_half(struct hdi_deque *deque, struct hdi_deque *own);
#endif

/* Items inside: a hint, except to the owner with no thief about.
 * Context: any. */
unsigned hdi_deque_count(struct hdi_deque *deque);

#endif
