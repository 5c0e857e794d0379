/* SPDX-License-Identifier: MIT
 *
 * idle: who searches, who is parked, and whom to wake: no task waits while a worker
 * sleeps.
 *
 * One word counts searching and parked workers, so that both are read and changed
 * together; a bitmap of any width names the parked ones.
 *
 * The protocol, the heart of the scheduler. All steps on `counts` are
 * read-modify-writes of one word, so they have one order, and each sees everything
 * written before the ones that precede it (edge N). That alone decides:
 *
 *   submitter                               worker without work
 *   1. put the task into a queue            1. set its bit
 *   2. counts: anyone searching?            2. counts: parked + 1, and searching - 1
 *      then it will find the task;             if it was one
 *      nobody parked? then nobody           3. look at all stealable queues again
 *      to wake; otherwise                   4. found: unpark itself, go on searching
 *      searching + 1, parked - 1            5. otherwise sleep, without a time limit
 *   3. clear one bit, unpark that worker
 *
 *   If 2 of the submitter comes first, the worker's 3 sees the task. If 2 of the worker
 *   comes first, the submitter sees it parked. If a searcher is about: it finds the
 *   task; or it finds another, and as the last searcher looks at all queues once more
 *   and wakes the next; or it finds none and becomes the worker on the right.
 *
 *   IDLE-1  Set bits >= parked + claims under way: parked - 1 is a claim, and the
 *           claimer owes one cleared bit. A worker sets its bit before it counts
 *           itself, so a claimer always finds one.
 *   IDLE-2  A worker whose bit was cleared by another is searching, and counted so by
 *           that other; it will be unparked, and must take the token.
 *   IDLE-3  searching <= workers / 2, rounded up, except that a woken worker always
 *           searches, as does one that was just started.
 *
 * Rejected
 *   A park timeout: it hides lost wake-ups, and wakes an idle machine.
 *   Looking at the queues again only as the last searcher: a worker that may not search
 *   (IDLE-3) would sleep while a task waits behind the last searcher's long one.
 *   Reading `counts` with a plain load in step 2: store and load may pass each other,
 *   and both sides miss (mutant idle_plain_load).
 */
#ifndef HDI_SCHED_IDLE_H
#define HDI_SCHED_IDLE_H

#include <stdint.h>

#include "base/atomics.h"

#define HDI_WORKERS_MAX 256u
#define HDI_IDLE_WORDS  (HDI_WORKERS_MAX / 64)

struct hdi_idle {
    alignas(HDI_CACHE_LINE) _Atomic(uint64_t) counts; /* searching << 32 | parked; by RMW */
    _Atomic(uint64_t) parked_bits[HDI_IDLE_WORDS];    /* by RMW */
    unsigned workers;                                 /* constant, for IDLE-3 */
    unsigned words;                                   /* constant, of parked_bits in use */
};

/* `places`: how many there may ever be, spares included. */
void hdi_idle_init(struct hdi_idle *idle, unsigned workers, unsigned places);

/* Context: any, after it put a task into a stealable queue. `from` is where to start
 * looking, so that wake-ups rotate. Returns the worker to unpark, now searching; -1 if
 * none is needed. */
__attribute__((warn_unused_result)) int hdi_idle_notify(struct hdi_idle *idle, unsigned from);

/* Context: a worker without work. Returns false if enough others search. */
__attribute__((warn_unused_result)) bool hdi_idle_try_search(struct hdi_idle *idle);

/* Context: a searcher that found work. Returns whether it was the last, who must look
 * at all queues and notify if one has tasks. */
__attribute__((warn_unused_result)) bool hdi_idle_end_search(struct hdi_idle *idle);

/* Context: any, after it put a task into a stealable queue. If no worker is searching or
 * parked, count one more as searching, which the caller then starts. */
__attribute__((warn_unused_result)) bool hdi_idle_try_add(struct hdi_idle *idle);

/* Count one more as searching, which the caller then starts. Context: any. */
void hdi_idle_add(struct hdi_idle *idle);

/* Steps 1 and 2 of the worker. Returns how many are parked now. */
unsigned hdi_idle_park(struct hdi_idle *idle, unsigned worker, bool searching);

/* Step 4 of the worker, and after every return from sleep: it is searching afterwards,
 * counted once. Returns whether another had claimed it (IDLE-2): its token is there or
 * on its way. */
bool hdi_idle_unpark(struct hdi_idle *idle, unsigned worker);

/* Context: any. Ordered like the steps above. */
unsigned hdi_idle_parked(struct hdi_idle *idle);
unsigned hdi_idle_searching(struct hdi_idle *idle);

#endif
