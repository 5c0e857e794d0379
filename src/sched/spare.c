/* SPDX-License-Identifier: MIT
 *
 * spare: threads that come when a worker is stuck, and go when there are enough without them. The
 * protocol is in dispatcher.h, who decides in monitor.h.
 */
#include "base/check.h"
#include "base/mutant.h"
#include "sched/find.h"
#include "sched/runtime.h"

/* ---- the monitor's side ---- */

/* A spare without a thread; NULL if there is no room for one. Context: grow held. */
static struct hdi_worker *find_place(struct hd_dispatcher *dispatcher)
{
    const unsigned places = hdi_dispatcher_places(dispatcher);
    for (unsigned i = dispatcher->worker_count; i < places; i++) {
        if (dispatcher->workers[i].gone) return &dispatcher->workers[i];
    }
    return places < dispatcher->place_max ? hdi_dispatcher_add_place(dispatcher) : NULL;
}

/* There is one more, or one less. Context: grow held. */
static void count_spares(struct hd_dispatcher *dispatcher, int change)
{
    struct hdi_worker *first = &dispatcher->workers[0];
    const uint32_t count = hdi_load_relaxed(&dispatcher->spares) + (uint32_t)change;
    hdi_store_release(&dispatcher->spares, count);
    hdi_store_relaxed(&first->alone, first->sole && count == 0); /* hdi_worker_alone() */
}

/* Context: grow held. */
static bool start_one(struct hd_dispatcher *dispatcher, bool reserve)
{
    struct hdi_worker *worker = find_place(dispatcher);
    if (!worker) return false;
    if (reserve) dispatcher->reserve = worker;
    hdi_store_relaxed(&worker->reserve, reserve); /* It has no thread yet. */
    worker->watch = (struct hdi_watch){.polls = hdi_load_relaxed(&worker->counters.polls)};
    hdi_store_relaxed(&worker->excused, false);
    hdi_idle_add(&dispatcher->idle);
    count_spares(dispatcher, 1);
    if (hdi_elastic_start(worker) == 0) return true;
    if (reserve) dispatcher->reserve = NULL;
    count_spares(dispatcher, -1);
    const bool last = hdi_idle_end_search(&dispatcher->idle);
    (void)last; /* Whatever waits does so for a thread. */
    return false;
}

/* One that could not be started was counted as alive for a moment. */
static void tell_quiet(struct hd_dispatcher *dispatcher)
{
    if (hdi_dispatcher_all_parked(dispatcher)) hdi_runtime_tell_quiet(dispatcher->runtime);
}

void hdi_spares_start(struct hd_dispatcher *dispatcher, unsigned count)
{
    hdi_mutex_lock(&dispatcher->grow);
    while (count > 0 && !hdi_load_acquire(&dispatcher->stopping) && start_one(dispatcher, false)) {
        count--;
    }
    hdi_mutex_unlock(&dispatcher->grow);
    if (count > 0) tell_quiet(dispatcher);
}

/* Context: grow held. */
static struct hdi_worker *find_parked(struct hd_dispatcher *dispatcher)
{
    for (unsigned i = dispatcher->worker_count; i < hdi_dispatcher_places(dispatcher); i++) {
        struct hdi_worker *worker = &dispatcher->workers[i];
        /* Relaxed: who is just waking up will be parked again. */
        if (hdi_load_relaxed(&worker->counters.state) == HDI_WORKER_PARKED) return worker;
    }
    return NULL;
}

void hdi_spares_appoint(struct hd_dispatcher *dispatcher)
{
    bool failed = false;
    hdi_mutex_lock(&dispatcher->grow);
    struct hdi_worker *worker = find_parked(dispatcher);
    if (worker) {
        dispatcher->reserve = worker;
        hdi_store_relaxed(&worker->excused, false); /* It looks again under the lock. */
        hdi_store_relaxed(&worker->reserve, true);
    } else if (!hdi_load_acquire(&dispatcher->stopping)) {
        failed = !start_one(dispatcher, true);
    }
    hdi_mutex_unlock(&dispatcher->grow);
    if (failed) tell_quiet(dispatcher);
}

void hdi_spares_dismiss(struct hd_dispatcher *dispatcher)
{
    struct hdi_worker *worker = dispatcher->reserve;
    if (!worker) return;
    hdi_store_relaxed(&worker->reserve, false);
    dispatcher->reserve = NULL;
    /* N: it may have gone to sleep over some, or is about to. */
    if (!HDI_MUTANT(reserve_dismissed_silently)) dispatcher->runtime->world->notify(dispatcher);
}

void hdi_spares_excuse(struct hd_dispatcher *dispatcher, unsigned count)
{
    hdi_mutex_lock(&dispatcher->grow);
    for (unsigned i = hdi_dispatcher_places(dispatcher); i > dispatcher->worker_count; i--) {
        struct hdi_worker *worker = &dispatcher->workers[i - 1];
        if (worker->gone) continue;
        const bool excused = count > 0 && !worker->watch.stuck && worker != dispatcher->reserve;
        hdi_store_relaxed(&worker->excused, excused); /* The token publishes it. */
        if (!excused) continue;
        hdi_parker_unpark(&worker->parker);
        count--;
    }
    hdi_mutex_unlock(&dispatcher->grow);
}

bool hdi_spares_bury(struct hd_dispatcher *dispatcher)
{
    bool any = false;
    hdi_mutex_lock(&dispatcher->grow);
    for (unsigned i = dispatcher->worker_count; i < hdi_dispatcher_places(dispatcher); i++) {
        struct hdi_worker *worker = &dispatcher->workers[i];
        if (!worker->gone || !worker->started) continue;
        hdi_thread_join(&worker->thread);
        worker->started = false;
        any = true;
    }
    hdi_mutex_unlock(&dispatcher->grow);
    return any;
}

/* ---- the spare's ---- */

bool hdi_spare_leave(struct hdi_worker *worker)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    if (!HDI_MUTANT(spare_keeps_tasks)) hdi_find_hand_over(worker);
    if (worker->searching) hdi_worker_end_search(worker);
    hdi_mutex_lock(&dispatcher->grow);
    const bool leaves = hdi_load_relaxed(&worker->excused); /* It may have been taken back. */
    if (leaves) {
        worker->gone = true;
        hdi_worker_set_state(worker, HDI_WORKER_GONE);
        count_spares(dispatcher, -1);
        hdi_fetch_sub_acq_rel(&dispatcher->live, 1);
    }
    hdi_mutex_unlock(&dispatcher->grow);
    if (!leaves) return false;
    if (!HDI_MUTANT(spare_keeps_time)) hdi_keeper_publish(worker);
    if (hdi_dispatcher_all_parked(dispatcher)) hdi_runtime_tell_quiet(dispatcher->runtime);
    return true;
}
