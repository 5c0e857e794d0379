/* SPDX-License-Identifier: MIT
 *
 * elastic: pools that start threads while all are busy and tasks wait, and end those that
 * had nothing to do for long. The protocol is in dispatcher.h.
 *
 * A new thread counts as searching from before it runs, so that one task starts one
 * thread; if more tasks wait, it notifies as the last searcher, and the next one is started.
 */
#include "base/check.h"
#include "base/mutant.h"
#include "sched/runtime.h"

/* A worker without a thread; NULL if there is none. Context: grow held. */
static struct hdi_worker *find_gone(struct hd_dispatcher *dispatcher)
{
    for (unsigned i = 0; i < dispatcher->worker_count; i++) {
        if (dispatcher->workers[i].gone) return &dispatcher->workers[i];
    }
    return NULL;
}

int hdi_elastic_start(struct hdi_worker *worker)
{
    if (worker->started) hdi_thread_join(&worker->thread); /* It has left, or is about to. */
    worker->started = false;
    worker->gone = false;
    worker->searching = true;
    hdi_worker_set_state(worker, HDI_WORKER_SEARCHING);
    const int err = hdi_live_start(worker);
    if (err) {
        worker->searching = false;
        worker->gone = true;
        hdi_worker_set_state(worker, HDI_WORKER_GONE);
    }
    return err;
}

/* Start one more, if nobody is parked or searching, and there is room. Context: grow held. */
static void add_thread(struct hd_dispatcher *dispatcher)
{
    struct hdi_worker *worker =
        hdi_load_acquire(&dispatcher->stopping) ? NULL : find_gone(dispatcher);
    if (worker && hdi_idle_try_add(&dispatcher->idle) && hdi_elastic_start(worker) != 0) {
        /* Those that are there come to the task when they can (POOL-5). */
        const bool last = hdi_idle_end_search(&dispatcher->idle);
        (void)last;
    }
}

void hdi_elastic_grow(struct hd_dispatcher *dispatcher)
{
    if (hdi_inject_length(&dispatcher->inject) == 0) return;
    hdi_mutex_lock(&dispatcher->grow);
    add_thread(dispatcher);
    hdi_mutex_unlock(&dispatcher->grow);
}

void hdi_elastic_keep_time(struct hd_dispatcher *dispatcher)
{
    if (hdi_keeper_kept(dispatcher)) return;
    hdi_mutex_lock(&dispatcher->grow);
    add_thread(dispatcher);
    hdi_mutex_unlock(&dispatcher->grow);
}

bool hdi_elastic_leave(struct hdi_worker *worker)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    /* Fibers may sleep on this worker's clock. Relaxed: only we add timers. */
    if (hdi_load_relaxed(&worker->timers.next_ns) != INT64_MAX) return false;
    if (!hdi_keeper_kept(dispatcher)) return false; /* The others sleep, and trust us. */
    hdi_worker_end_search(worker);
    hdi_mutex_lock(&dispatcher->grow);
    bool leaves = hdi_load_acquire(&dispatcher->live) > 1; /* POOL-5 */
    if (leaves && !HDI_MUTANT(pool_leave_blind) && hdi_inject_length(&dispatcher->inject) > 0 &&
        hdi_idle_try_add(&dispatcher->idle)) { /* POOL-4 */
        worker->searching = true;
        leaves = false;
    }
    if (leaves) {
        worker->gone = true;
        hdi_worker_set_state(worker, HDI_WORKER_GONE);
        hdi_fetch_sub_acq_rel(&dispatcher->live, 1);
    }
    hdi_mutex_unlock(&dispatcher->grow);
    if (leaves && hdi_dispatcher_all_parked(dispatcher)) {
        hdi_runtime_tell_quiet(dispatcher->runtime);
    }
    return leaves;
}
