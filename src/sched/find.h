/* SPDX-License-Identifier: MIT
 *
 * find: where a worker puts runnable tasks, and where it finds the next. The steps on
 * the way of every switch are here, the others in find.c; their order is in worker.h.
 */
#ifndef HDI_SCHED_FIND_H
#define HDI_SCHED_FIND_H

#include "base/check.h"
#include "sched/runtime.h"

/* ---- putting ---- */

/* Put a task into the local queue, spilling if it is full, and wake another worker if
 * there is now something to steal: a lone task is ours, since we look next, unless we
 * are `busy`. */
void hdi_find_push(struct hdi_worker *worker, struct hd_task *task, bool busy);

/* Append a task to the injection queue, and wake a worker. Context: any. */
void hdi_find_inject(struct hd_dispatcher *dispatcher, struct hd_task *task);

/* In sim, a task can go on. Context: the driver. */
static inline void hdi_find_ready(struct hd_runtime *runtime, struct hd_task *task)
{
    struct hdi_schedule *schedule = runtime->sim.schedule;
    if (hdi_unlikely(schedule != NULL)) hdi_schedule_ready(schedule, task);
}

/* Put a runnable task where this worker finds it next, or another if it is busy. */
HDI_ALWAYS_INLINE void hdi_find_submit(struct hdi_worker *worker, struct hd_task *task)
{
    if (hdi_unlikely(worker->injects)) {
        hdi_find_inject(worker->dispatcher, task);
        return;
    }
    if (hdi_likely(worker->queue.shape == HDI_RUNQ_RING)) {
        struct hd_task *evicted;
        if (hdi_likely(hdi_lifo_put(&worker->lifo, task, &evicted))) task = evicted;
        if (hdi_likely(!task)) return;
    } else {
        hdi_find_ready(worker->exec.runtime, task);
    }
    hdi_find_push(worker, task, false);
}

/* Put a task where only that worker finds it, and wake it up. Context: any. */
void hdi_find_deliver(struct hdi_worker *worker, struct hd_task *task);

/* hdi_find_submit() for a task that gave way: behind all others. */
void hdi_find_submit_last(struct hdi_worker *worker, struct hd_task *task);

/* The same for one that ran for long: behind those that did not, where the order is not the
 * program's. */
void hdi_find_submit_behind(struct hdi_worker *worker, struct hd_task *task);

/* The same for tasks that a lane tells of together, linked by `next`, in their order. */
void hdi_find_submit_told(struct hdi_worker *worker, struct hd_task *first);

/* ---- finding ---- */

HDI_ALWAYS_INLINE struct hd_task *hdi_find_lifo(struct hdi_worker *worker)
{
    struct hd_task *task = hdi_lifo_take(&worker->lifo);
    if (task) hdi_count(&worker->counters.lifo_hits);
    return task;
}

/* Steps 3 and 4. */
struct hd_task *hdi_find_queued(struct hdi_worker *worker);

/* Steps 2 to 4. */
HDI_ALWAYS_INLINE struct hd_task *hdi_find_own(struct hdi_worker *worker)
{
    if (worker->lifo_run < worker->lifo_cap) {
        struct hd_task *task = hdi_find_lifo(worker);
        if (task) {
            worker->lifo_run++;
            return task;
        }
    }
    return hdi_find_queued(worker);
}

/* Step 2 alone: take what is in the LIFO slot, if that is what the worker would do next.
 * Returns NULL if not. */
struct hd_task *hdi_find_lifo_next(struct hdi_worker *worker);

/* Steps 1 to 5. Returns NULL if there is no work here. */
struct hd_task *hdi_find_local(struct hdi_worker *worker);

/* Step 6: tell the kernel what is asked of it, and, if `look`, hear what it has to say. Returns
 * whether that made tasks ready. */
bool hdi_find_news(struct hdi_worker *worker, bool look);

/* Move all that was injected into the worker's bag, so that the seed may choose any of
 * it; does nothing to other queues. Context: the sim world's driver. */
void hdi_find_gather(struct hdi_worker *worker);

/* Whether there is something to be moved. */
static inline bool hdi_find_would_gather(struct hdi_worker *worker)
{
    return hdi_inject_length(&worker->dispatcher->inject) > 0 ||
           hdi_inject_length(&worker->inbox) > 0;
}

/* One round of step 7 over at most `scan_max` victims. `last`: also few tasks of a quick worker,
 * and the LIFO slots of workers that seem stuck. */
struct hd_task *hdi_find_steal(struct hdi_worker *worker, unsigned scan_max, bool last);

/* Whether any queue that can be stolen from has a task: the second look. */
bool hdi_find_visible(struct hd_dispatcher *dispatcher);

/* The same, as far as this worker would take it. */
bool hdi_find_sees(struct hdi_worker *worker);

/* ---- in the place of another ---- */

/* Give all that is in the worker's queues to the injection queue. Context: the worker. */
void hdi_find_hand_over(struct hdi_worker *worker);

/* The same for a worker that is stuck in a task, but behind the others there. What is pinned to it
 * stays. `between` is an empty ring, the caller's. Returns whether there was anything.
 * Context: any but the worker itself. */
bool hdi_find_take_over(struct hdi_worker *victim, struct hdi_runq *between);

#endif
