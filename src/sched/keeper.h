/* SPDX-License-Identifier: MIT
 *
 * keeper: when a dispatcher's workers look at their timers, and who watches the time while
 * they sleep.
 *
 * A running worker fires its own timers every `clock_runs` runs, about 20 us, and all of the
 * dispatcher's whenever it has nothing else to do, and, if nobody keeps the time, every
 * `interval` runs. Of the parked workers one is the keeper: it sleeps until the earliest
 * deadline of any worker, the others without a limit. A deadline that becomes the earliest
 * while the keeper sleeps:
 *
 *   worker, before it runs another task       keeper
 *   1. next_ns = its earliest                 1. who = itself
 *   2. watch_ns is later, or nobody           2. the earliest of all next_ns
 *      keeps the time and somebody            3. watch_ns = that
 *      is parked: unpark                      4. sleep until then; awake: watch_ns = never,
 *                                                who = nobody
 *
 * All are seq_cst (edge C): if 2 of the keeper misses 1 of the worker, then 2 of the worker
 * finds the keeper, and a watch_ns that is the keeper's or "never". A worker that parks
 * becomes the keeper if there is none, and otherwise takes the same two steps.
 *
 * A wake-up for a task takes the keeper last (hdi_keeper_wake_from()). While all workers are each
 * busy with one long task, nobody keeps the time. A task that gives way for that has all timers
 * fired first (hdi_sched_long_run()); where none does, the monitor's reserve becomes the keeper
 * (sched/monitor.h).
 *
 * Rejected
 *   A timer thread: two switches between threads for every timer.
 *   Waking the keeper at every insert: most timers are stopped before anything else runs.
 */
#ifndef HDI_SCHED_KEEPER_H
#define HDI_SCHED_KEEPER_H

#include "base/atomics.h"

struct hd_dispatcher;
struct hdi_worker;

/* Part of a dispatcher. `who` is set and cleared by the one it names. */
struct hdi_keeper {
    alignas(HDI_CACHE_LINE) _Atomic(uint32_t) who; /* index + 1; 0: nobody */
    _Atomic(int64_t) watch_ns;                     /* the keeper's; INT64_MAX without */
};

void hdi_keeper_init(struct hdi_keeper *keeper);

/* Fire the worker's own timers if any are due. Context: the worker. */
void hdi_keeper_poll(struct hdi_worker *worker);

/* If nobody keeps the time, fire those of all workers of its dispatcher. */
void hdi_keeper_stand_in(struct hdi_worker *worker);

/* Fire those of all workers of its dispatcher. Returns whether any were. */
bool hdi_keeper_poll_all(struct hdi_worker *worker);

/* Steps 1 and 2 of the left side. Context: the worker, before it runs a task, if its timers
 * are unpublished, or leaves for good. */
void hdi_keeper_publish(struct hdi_worker *worker);

/* Steps 1 to 3 of the right side. Returns until when to sleep: INT64_MAX if there is no
 * timer, or another keeps the time. Context: a worker that is counted as parked. */
int64_t hdi_keeper_watch(struct hdi_worker *worker);

/* The worker is awake again. */
void hdi_keeper_unwatch(struct hdi_worker *worker);

/* Whether another keeps the time, or there is none to keep: the worker, which does not watch,
 * may go for good. */
bool hdi_keeper_kept(struct hd_dispatcher *dispatcher);

/* Where the search for a worker to wake begins, so that the keeper comes last. */
unsigned hdi_keeper_wake_from(struct hdi_keeper *keeper, unsigned from);

/* The earliest deadline of all workers; INT64_MAX if there is none. Context: nothing runs. */
int64_t hdi_keeper_next(struct hd_dispatcher *dispatcher);

#endif
