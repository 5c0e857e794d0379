/* SPDX-License-Identifier: MIT */
#include "sched/keeper.h"

#include "base/mutant.h"
#include "os/clock.h"
#include "os/mutex.h"
#include "sched/runtime.h"
#include "wait/waiter.h"

void hdi_keeper_init(struct hdi_keeper *keeper)
{
    hdi_store_relaxed(&keeper->who, 0); /* Nobody else knows it yet. */
    hdi_store_relaxed(&keeper->watch_ns, INT64_MAX);
}

/* ---- firing ---- */

static int64_t read_clock(struct hdi_worker *worker)
{
    struct hd_runtime *runtime = worker->exec.runtime;
    worker->exec.coarse_ns = runtime->world->now(runtime);
    return worker->exec.coarse_ns;
}

/* Relaxed: our own, or a hint; the wheel is looked at under its lock. */
static bool is_due(struct hdi_timers *timers, int64_t now_ns)
{
    return hdi_load_relaxed(&timers->next_ns) <= now_ns;
}

static bool fire(struct hdi_timers *timers, int64_t now_ns)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_timers_fire(timers, now_ns, &wakeups);
    const bool any = wakeups.first != NULL;
    hdi_wakeups_go(&wakeups);
    return any;
}

bool hdi_keeper_poll_all(struct hdi_worker *worker)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    int64_t now_ns = INT64_MIN;
    bool any = false;
    const unsigned count = hdi_dispatcher_places(dispatcher);
    for (unsigned i = 0; i < count; i++) {
        struct hdi_timers *timers = &dispatcher->workers[i].timers;
        const bool own = timers == &worker->timers && timers->unpublished;
        if (!own && hdi_load_relaxed(&timers->next_ns) == INT64_MAX) continue;
        if (now_ns == INT64_MIN) now_ns = read_clock(worker);
        if (own || is_due(timers, now_ns)) any |= fire(timers, now_ns);
    }
    return any;
}

void hdi_keeper_poll(struct hdi_worker *worker)
{
    struct hdi_timers *timers = &worker->timers;
    if (!timers->unpublished && hdi_load_relaxed(&timers->next_ns) == INT64_MAX) return;
    const int64_t now_ns = read_clock(worker);
    if (timers->unpublished || is_due(timers, now_ns)) (void)fire(timers, now_ns);
}

void hdi_keeper_stand_in(struct hdi_worker *worker)
{
    /* Relaxed: if somebody begins to watch this moment, two look. */
    if (hdi_load_relaxed(&worker->dispatcher->keeper.who) == 0) (void)hdi_keeper_poll_all(worker);
}

/* ---- watching ---- */

/* Have somebody watch for `next_ns`, unless that is so. Returns false if nobody keeps the
 * time. */
static bool tell_keeper(struct hd_dispatcher *dispatcher, int64_t next_ns)
{
    struct hdi_keeper *keeper = &dispatcher->keeper;
    if (next_ns >= hdi_load_seq_cst(&keeper->watch_ns)) return true; /* C2 */
    const uint32_t who = hdi_load_seq_cst(&keeper->who);
    if (who) hdi_parker_unpark(&dispatcher->workers[who - 1].parker);
    return who;
}

void hdi_keeper_publish(struct hdi_worker *worker)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    worker->timers.unpublished = false;
    const int64_t next_ns = hdi_timers_publish(&worker->timers); /* C1 */
    if (hdi_worker_alone(worker) || HDI_MUTANT(keeper_publish_silent)) return;
    if (tell_keeper(dispatcher, next_ns)) return;
    if (hdi_idle_parked(&dispatcher->idle) > 0) {
        dispatcher->runtime->world->notify(dispatcher);
    } else if (dispatcher->elastic) {
        hdi_monitor_check(&dispatcher->runtime->monitor); /* All may block: it starts one more. */
    }
}

int64_t hdi_keeper_next(struct hd_dispatcher *dispatcher)
{
    int64_t earliest_ns = INT64_MAX;
    const unsigned count = hdi_dispatcher_places(dispatcher);
    for (unsigned i = 0; i < count; i++) {
        const int64_t next_ns = hdi_load_seq_cst(&dispatcher->workers[i].timers.next_ns); /* C3 */
        if (next_ns < earliest_ns) earliest_ns = next_ns;
    }
    return earliest_ns;
}

/* Returns whether the worker keeps the time now; if not, who does knows of its timers. */
static bool become_keeper(struct hdi_worker *worker)
{
    struct hdi_keeper *keeper = &worker->dispatcher->keeper;
    worker->timers.unpublished = false;
    const int64_t next_ns = hdi_timers_publish(&worker->timers); /* C1 */
    for (;;) {
        uint32_t nobody = 0;
        if (hdi_cas_seq_cst(&keeper->who, &nobody, worker->index + 1)) return true;
        if (HDI_MUTANT(keeper_park_silent)) return false;
        if (tell_keeper(worker->dispatcher, next_ns)) return false;
    }
}

int64_t hdi_keeper_watch(struct hdi_worker *worker)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    if (!become_keeper(worker)) return INT64_MAX;
    const int64_t watch_ns = hdi_keeper_next(dispatcher);      /* C3 */
    hdi_store_seq_cst(&dispatcher->keeper.watch_ns, watch_ns); /* C4 */
    return watch_ns;
}

void hdi_keeper_unwatch(struct hdi_worker *worker)
{
    struct hdi_keeper *keeper = &worker->dispatcher->keeper;
    if (hdi_load_relaxed(&keeper->who) != worker->index + 1) return; /* Only we set it to us. */
    if (!HDI_MUTANT(keeper_stale_watch)) hdi_store_seq_cst(&keeper->watch_ns, INT64_MAX);
    hdi_store_seq_cst(&keeper->who, 0);
}

/* Against hdi_keeper_publish(): it finds nobody (C2), or we find its deadline (C3). */
bool hdi_keeper_kept(struct hd_dispatcher *dispatcher)
{
    return hdi_load_seq_cst(&dispatcher->keeper.who) != 0 ||
           hdi_keeper_next(dispatcher) == INT64_MAX;
}

unsigned hdi_keeper_wake_from(struct hdi_keeper *keeper, unsigned from)
{
    const uint32_t who = hdi_load_relaxed(&keeper->who); /* only a preference */
    return who ? who : from;
}

/* ---- what waiting needs (wait/timer.h, task/task.h) ---- */

/* The next switch goes through the loop, which publishes. */
void hdi_sched_timers_changed(struct hdi_timers *timers)
{
    struct hdi_worker *worker = hdi_worker_self();
    timers->unpublished = true;
    worker->quick = 0;
}

/* Into a wheel that is not ours: its owner, who may sleep, need not know, but who keeps the
 * time must. Once it is there it may fire, and the runtime end: it waits for us. */
static void start_as_guest(struct hd_runtime *runtime, struct hdi_timer *timer,
                           int64_t deadline_ns)
{
    struct hd_dispatcher *dispatcher = &runtime->main;
    struct hdi_timers *timers = &dispatcher->workers[0].timers;
    hdi_sched_guest_enter(runtime);
    timer->timers = timers;
    hdi_lock_take(&timers->lock);
    hdi_timer_insert(timer, timers, deadline_ns);
    hdi_lock_give(&timers->lock);
    const int64_t next_ns = hdi_timers_publish(timers); /* C1 */
    if (!tell_keeper(dispatcher, next_ns)) runtime->world->notify(dispatcher);
    hdi_sched_guest_leave(runtime);
}

void hdi_sched_timer_start(struct hd_runtime *runtime, struct hdi_timer *timer,
                           int64_t deadline_ns)
{
    struct hdi_exec *exec = hdi_exec_self();
    if (exec && exec->runtime == runtime) {
        hdi_timer_start(timer, exec->timers, deadline_ns);
    } else {
        start_as_guest(runtime, timer, deadline_ns);
    }
}

/* Simulated runtimes, the newest first. */
static struct hdi_mutex homes_lock = HDI_MUTEX_INIT;
static struct hd_runtime *homes;    /* homes_lock */
static _Atomic(uint32_t) home_count; /* homes_lock writes; others ask whether there are any */

void hdi_homes_add(struct hd_runtime *runtime)
{
    hdi_mutex_lock(&homes_lock);
    runtime->sim.older = homes;
    homes = runtime;
    hdi_store_release(&home_count, hdi_load_relaxed(&home_count) + 1);
    hdi_mutex_unlock(&homes_lock);
}

void hdi_homes_remove(struct hd_runtime *runtime)
{
    hdi_mutex_lock(&homes_lock);
    struct hd_runtime **link = &homes;
    while (*link != runtime) link = &(*link)->sim.older;
    *link = runtime->sim.older;
    hdi_store_release(&home_count, hdi_load_relaxed(&home_count) - 1);
    hdi_mutex_unlock(&homes_lock);
}

struct hd_runtime *hdi_sched_thread_home(void)
{
    if (hdi_load_acquire(&home_count) == 0) return NULL;
    hdi_mutex_lock(&homes_lock);
    struct hd_runtime *home = homes;
    hdi_mutex_unlock(&homes_lock);
    return home;
}

int64_t hdi_sched_now(void)
{
    const struct hdi_exec *exec = hdi_exec_self();
    struct hd_runtime *runtime = exec ? exec->runtime : hdi_sched_thread_home();
    return runtime ? runtime->world->now(runtime) : hdi_clock_now();
}

uint32_t hdi_sched_draw(uint32_t below)
{
    struct hdi_worker *worker = hdi_worker_self();
    if (worker) return hdi_prng_below(&worker->prng, below);
    static _Atomic(uint64_t) drawn; /* by threads in live; relaxed: only to differ */
    struct hd_runtime *home = hdi_sched_thread_home();
    const uint64_t draw =
        home ? hdi_stream_draw(home->options.seed, HDI_PURPOSE_SELECT, 0,
                               hdi_fetch_add_relaxed(&home->sim.drawn, 1))
             : hdi_stream_draw(0, HDI_PURPOSE_SELECT, 0, hdi_fetch_add_relaxed(&drawn, 1));
    return (uint32_t)(draw % below);
}
