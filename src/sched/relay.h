/* SPDX-License-Identifier: MIT
 *
 * relay: in sim, from fiber to fiber, without the driver in between.
 *
 * A switch to the driver and from there to the next fiber is two, and what the driver looks at in
 * between is mostly nothing: no timer is due, no packet under way, nobody waits for what has just
 * happened. So a fiber that leaves asks for the next one itself, and does what the driver would
 * have done (hdi_schedule_followed()): time and choices are the same.
 *
 * Owner  the worker.
 */
#ifndef HDI_SCHED_RELAY_H
#define HDI_SCHED_RELAY_H

#include "sched/runtime.h"
#include "task/state.h"

/* The task is this worker's to run from now on. */
HDI_ALWAYS_INLINE void hdi_worker_begin_run(struct hdi_worker *worker, struct hd_task *task)
{
    if (task->resumes) {
        task->resumes = false;
    } else {
        hdi_transition_to_running(&task->word);
    }
    hdi_count_visibly(&worker->counters.polls);
    hdi_store_stat(&worker->counters.running, task);
    hdi_digest_add(worker->digest, HDI_EVENT_RUN, task->id << 8 | worker->index);
    worker->exec.current = task;
}

/* sched/worker.c: whether a task that has not run yet, or that a wake and no decision made ready,
 * can be switched to by a fiber. It has a stack then. */
bool hdi_worker_can_begin(struct hdi_worker *worker, struct hd_task *task);

/* Who is next in the driver's place, now that the running fiber leaves, or else the driver's own.
 * Context: as hdi_sched_next(). */
struct hdi_context *hdi_worker_next_instead(struct hdi_worker *worker);

#endif
