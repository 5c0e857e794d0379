/* SPDX-License-Identifier: MIT
 *
 * world: the sim world: one thread, virtual time, and every choice drawn from the seed.
 *
 * There are no worker threads. A plain thread that waits (a join, a drain) drives: it
 * runs tasks one by one until what it waits for has happened. Which dispatcher's task, or,
 * in the order HD_SIM_WORKERS, which worker, is drawn from one generator; all queues, words
 * and counters are the ones of the live world.
 *
 * Time passes by a tick (options.sim_tick_ns) a run, so that a program that watches the clock sees
 * it move, and jumps to the next timer, the next event of the network, or the deadline of a waiting
 * thread, when nothing can run: ticks that nothing needs are not there.
 *
 * Timers that run and what the network has under way are the events. When there are
 * options.sim_events_max of them no task runs until there are fewer: time goes from event to event.
 * They are counted only now and then: with c of m events after (m - c) / 2 steps more, as a step
 * adds hardly ever more than two. The network, which may add many, has the same limit for itself.
 *
 * Other OS threads may take part, at the price of determinism: only one drives at a
 * time, and the others wait for events. Level D3 holds while one thread does it all.
 */
#include <errno.h>

#include "base/check.h"
#include "os/clock.h"
#include "sched/find.h"
#include "sched/runtime.h"
#include "sim/net.h"
#include "sim/schedule.h"
#include "sim/warn.h"

/* Relaxed: only the driver writes it, and others want a number, not an order. */
static int64_t sim_now(struct hd_runtime *runtime)
{
    return hdi_load_relaxed(&runtime->sim.now_ns);
}

static void set_now(struct hd_runtime *runtime, int64_t now_ns)
{
    hdi_store_relaxed(&runtime->sim.now_ns, now_ns);
}

static uint64_t sim_entropy(struct hd_runtime *runtime)
{
    return runtime->options.seed;
}

static int sim_start(struct hd_dispatcher *dispatcher)
{
    hdi_store_release(&dispatcher->live, dispatcher->worker_count);
    return 0;
}

static void sim_stop(struct hd_dispatcher *dispatcher)
{
    (void)dispatcher;
}

/* Something happened that a waiting thread may have waited for. Always counted: a thread that comes
 * later reads the count before its word. */
static void announce(struct hd_runtime *runtime)
{
    hdi_fetch_add_acq_rel(&runtime->sim.event, 1);
    if (hdi_load_acquire(&runtime->sim.foreign)) hdi_futex_wake(&runtime->sim.event, INT32_MAX);
}

static bool driving(struct hd_runtime *runtime)
{
    const struct hdi_exec *exec = hdi_exec_self();
    return exec && exec->runtime == runtime;
}

/* Remember if more than one OS thread takes part. */
static void note_thread(struct hd_runtime *runtime)
{
    uintptr_t none = 0;
    const uintptr_t self = hdi_thread_id();
    if (hdi_load_acquire(&runtime->sim.driver) == self) return; /* as mostly */
    if (hdi_cas_acq_rel(&runtime->sim.driver, &none, self) || none == self) return;
    hdi_store_release(&runtime->sim.foreign, true);
}

static void sim_notify(struct hd_dispatcher *dispatcher)
{
    struct hd_runtime *runtime = dispatcher->runtime;
    if (driving(runtime)) return; /* The driver looks anyway. */
    note_thread(runtime);
    announce(runtime);
}

static void sim_rouse(struct hdi_worker *worker)
{
    sim_notify(worker->dispatcher);
}

static void sim_wake(struct hd_runtime *runtime, _Atomic(uint32_t) *word)
{
    (void)word; /* Threads wait for events, and look at their word then. */
    announce(runtime);
}

/* The driver runs as this worker. Returns what it was: it may be a fiber of another runtime. */
static void *enter(struct hd_runtime *runtime, struct hdi_worker *worker)
{
    void *outer = hdi_thread_self();
    hdi_worker_enter(worker);
    worker->exec.coarse_ns = sim_now(runtime);
    return outer;
}

static void leave(struct hdi_worker *worker, void *outer)
{
    hdi_worker_leave(worker);
    hdi_thread_set_self(outer);
    hdi_jobs_enter(outer);
}

/* One worker's turn. Returns whether it ran a task. */
static bool turn(struct hd_runtime *runtime, struct hdi_worker *worker)
{
    void *outer = enter(runtime, worker);
    hdi_keeper_poll(worker);
    hdi_find_gather(worker);
    struct hd_task *task = worker->handed;
    worker->handed = NULL;
    if (!task) task = hdi_find_local(worker);
    const unsigned count = worker->dispatcher->worker_count;
    if (!task && count > 1) task = hdi_find_steal(worker, count, false);
    if (task) {
        worker->exec.ops = 0;
        hdi_worker_run(worker, task);
        if (runtime->sim.ran) runtime->sim.ran(task);
        (void)hdi_sim_pass_time(runtime);
    }
    leave(worker, outer);
    return task != NULL;
}

/* The workers of all dispatchers. */
static unsigned count_workers(struct hd_runtime *runtime)
{
    unsigned count = 0;
    hdi_mutex_lock(&runtime->list);
    for (struct hd_dispatcher *d = runtime->dispatchers; d; d = d->next) count += d->worker_count;
    hdi_mutex_unlock(&runtime->list);
    return count;
}

/* The one at this place among them, as a guest of its dispatcher; NULL if there are fewer. */
static struct hdi_worker *worker_at(struct hd_runtime *runtime, unsigned place)
{
    hdi_mutex_lock(&runtime->list);
    struct hd_dispatcher *d = runtime->dispatchers;
    for (; d && place >= d->worker_count; d = d->next) place -= d->worker_count;
    if (d) hdi_dispatcher_enter(d); /* POOL-2 */
    hdi_mutex_unlock(&runtime->list);
    return d ? &d->workers[place] : NULL;
}

/* Run one task. Returns false if none is ready. */
static bool step(struct hd_runtime *runtime)
{
    const unsigned count = count_workers(runtime);
    const unsigned first = count > 1 ? hdi_prng_below(&runtime->sim.prng, count) : 0;
    bool ran = false;
    for (unsigned i = 0; i < count && !ran; i++) {
        struct hdi_worker *worker = worker_at(runtime, (first + i) % count);
        if (!worker) continue;
        ran = turn(runtime, worker);
        hdi_dispatcher_leave(worker->dispatcher);
    }
    return ran;
}

/* The next timer, or event of the network. */
static int64_t next_timer(struct hd_runtime *runtime)
{
    struct hdi_net *net = hdi_load_acquire(&runtime->sim.net); /* N */
    int64_t earliest_ns = net ? hdi_net_next(net) : INT64_MAX;
    hdi_mutex_lock(&runtime->list);
    for (struct hd_dispatcher *d = runtime->dispatchers; d; d = d->next) {
        const int64_t next_ns = hdi_keeper_next(d);
        if (next_ns < earliest_ns) earliest_ns = next_ns;
    }
    hdi_mutex_unlock(&runtime->list);
    return earliest_ns;
}

/* ---- with a schedule ---- */

static void fire_timers(struct hd_runtime *runtime)
{
    const int64_t now_ns = sim_now(runtime);
    for (struct hd_dispatcher *d = runtime->dispatchers; d; d = d->next) {
        for (unsigned i = 0; i < d->worker_count; i++) {
            struct hdi_worker *worker = &d->workers[i];
            struct hdi_timers *timers = &worker->timers;
            if (!timers->unpublished && hdi_load_relaxed(&timers->next_ns) > now_ns) continue;
            void *outer = enter(runtime, worker);
            hdi_keeper_poll(worker);
            leave(worker, outer);
        }
    }
}

/* As on a slow machine: to the next timer, though tasks are ready. */
static void let_time_pass(struct hd_runtime *runtime, struct hdi_schedule *schedule)
{
    const int64_t next_ns = next_timer(runtime);
    if (next_ns == INT64_MAX || next_ns <= sim_now(runtime)) return;
    if (hdi_schedule_passes(schedule)) set_now(runtime, next_ns);
}

static struct hd_task *next_scheduled(struct hdi_schedule *schedule)
{
    struct hdi_worker *worker = schedule->host;
    struct hd_task *task = worker ? worker->handed : NULL;
    if (!task) return hdi_schedule_next(schedule);
    worker->handed = NULL; /* chosen already */
    return task;
}

static void run_scheduled(struct hd_runtime *runtime, struct hdi_schedule *schedule,
                          struct hdi_worker *worker, struct hd_task *task)
{
    worker->exec.ops = 0;
    hdi_worker_run(worker, task);
    if (runtime->sim.ran) runtime->sim.ran(task);
    if (hdi_unlikely(schedule->careful)) hdi_schedule_left(schedule, worker);
    worker->exec.coarse_ns = hdi_sim_pass_time(runtime);
}

/* Run the task that the schedule has next, those it switches to at points, and as many after them
 * as need nothing else. Returns false if none is ready. */
static bool step_scheduled(struct hd_runtime *runtime, struct hdi_schedule *schedule)
{
    if (schedule->clock) let_time_pass(runtime, schedule);
    fire_timers(runtime);
    struct hd_task *task = next_scheduled(schedule);
    if (!task) return false;
    struct hdi_worker *worker = schedule->host;
    const bool only = schedule->direct && !hdi_load_relaxed(&runtime->sim.net); /* ours */
    hdi_schedule_due(schedule, only ? hdi_load_relaxed(&worker->timers.next_ns)
                                    : next_timer(runtime));
    void *outer = enter(runtime, worker);
    run_scheduled(runtime, schedule, worker, task);
    while (hdi_schedule_goes_on(schedule, worker, sim_now(runtime)) &&
           (task = next_scheduled(schedule))) {
        if (schedule->host != worker) { /* The last one has made another dispatcher. */
            schedule->host->handed = task;
            break;
        }
        runtime->sim.looks--;
        hdi_schedule_due(schedule, hdi_load_relaxed(&worker->timers.next_ns));
        run_scheduled(runtime, schedule, worker, task);
    }
    leave(worker, outer);
    return true;
}

/* ---- events ---- */

static size_t count_events(struct hd_runtime *runtime)
{
    struct hdi_net *net = hdi_load_acquire(&runtime->sim.net); /* N */
    size_t count = net ? hdi_net_count(net) : 0;
    hdi_mutex_lock(&runtime->list);
    for (struct hd_dispatcher *d = runtime->dispatchers; d; d = d->next) {
        for (unsigned i = 0; i < d->worker_count; i++) {
            struct hdi_timers *timers = &d->workers[i].timers;
            hdi_lock_take(&timers->lock);
            count += hdi_wheel_count(&timers->wheel);
            hdi_lock_give(&timers->lock);
        }
    }
    hdi_mutex_unlock(&runtime->list);
    if (count > runtime->sim.depth_max) runtime->sim.depth_max = count;
    return count;
}

/* Whether tasks may run. */
static __attribute__((noinline, cold)) void look_at_events(struct hd_runtime *runtime)
{
    struct hdi_sim_state *sim = &runtime->sim;
    const size_t count = count_events(runtime), most = runtime->options.sim_events_max;
    const bool full = count >= most;
    sim->looks = full ? 0 : (most - count) / 2;
    if (full == sim->full) return;
    sim->full = full;
    sim->pauses += full;
    hdi_sim_warn(runtime, 0,
                 full ? "%zu events, as many as may be: no task runs until there is room"
                      : "%zu events: tasks run again",
                 count);
}

/* Nothing is ready, as when the last worker parks: tell whoever drains, once. Returns
 * whether there was news. */
static bool fall_asleep(struct hd_runtime *runtime)
{
    if (hdi_load_relaxed(&runtime->sim.asleep)) return false; /* Only the driver writes it. */
    hdi_store_seq_cst(&runtime->sim.asleep, true);     /* S1, then */
    if (hdi_load_seq_cst(&runtime->draining) > 0) {    /* S2; hd_runtime_shutdown() crosses */
        hdi_fetch_add_acq_rel(&runtime->quiet, 1);
        sim_wake(runtime, &runtime->quiet);
    }
    return true;
}

/* Wait for another thread to do something. They live in real time, so what is left until
 * a virtual deadline is how long they get. */
static int wait_for_event(struct hd_runtime *runtime, uint32_t event, int64_t deadline_ns)
{
    int64_t limit = INT64_MAX;
    if (deadline_ns != INT64_MAX) {
        const int64_t left = deadline_ns - sim_now(runtime), real = hdi_clock_now();
        if (left <= 0) return -ETIMEDOUT;
        if (left < INT64_MAX - real) limit = real + left;
    }
    return hdi_futex_wait(&runtime->sim.event, event, limit);
}

/* What happens in the network by now, between two runs of tasks. */
static void run_network(struct hd_runtime *runtime)
{
    struct hdi_net *net = hdi_load_acquire(&runtime->sim.net); /* N */
    if (!net || hdi_net_next(net) > sim_now(runtime)) return;
    struct hdi_worker *worker = &runtime->main.workers[0];
    void *outer = enter(runtime, worker);
    hdi_net_run(net);
    leave(worker, outer);
}

static void sim_end(struct hd_runtime *runtime)
{
    struct hdi_net *net = hdi_load_acquire(&runtime->sim.net); /* N */
    if (!net) return;
    hdi_net_end(net);
    hdi_store_relaxed(&runtime->sim.net, NULL); /* One thread is left. */
}

/* Each at its own time. */
static void warn_of_waits(struct hd_runtime *runtime, int64_t until_ns)
{
    struct hdi_schedule *schedule = runtime->sim.schedule;
    for (int64_t at_ns; (at_ns = hdi_waits_next(schedule)) <= until_ns;) {
        if (at_ns > sim_now(runtime)) set_now(runtime, at_ns);
        hdi_waits_warn(schedule);
    }
}

/* Nothing is ready: time jumps to when something is. With other threads about, one of them
 * may do something first. */
static int wait_for_others(struct hd_runtime *runtime, uint32_t event, int64_t deadline_ns)
{
    const int64_t timer_ns = next_timer(runtime);
    const int64_t until_ns = timer_ns < deadline_ns ? timer_ns : deadline_ns;
    if (!hdi_load_acquire(&runtime->sim.foreign)) {
        if (until_ns == INT64_MAX) return -EDEADLK;
    } else if (wait_for_event(runtime, event, until_ns) != -ETIMEDOUT) {
        return 0;
    }
    if (until_ns > sim_now(runtime)) {
        (void)count_events(runtime); /* There are most of them when all wait. */
        if (runtime->sim.schedule) warn_of_waits(runtime, until_ns);
        set_now(runtime, until_ns);
        if (runtime->sim.schedule) hdi_schedule_jumped(runtime->sim.schedule);
    }
    return timer_ns <= deadline_ns ? 0 : -ETIMEDOUT;
}

/* Tasks are ready, but may not run: go on to the next event. */
static int let_events_happen(struct hd_runtime *runtime, uint32_t event, int64_t deadline_ns)
{
    fire_timers(runtime);
    return next_timer(runtime) <= sim_now(runtime) ? 0
                                                   : wait_for_others(runtime, event, deadline_ns);
}

/* Context: holder of sim.drive. */
static int drive(struct hd_runtime *runtime, const struct hdi_goal *goal)
{
    struct hdi_schedule *schedule = runtime->sim.schedule;
    const int64_t deadline_ns = goal->deadline_ns;
    if (schedule) hdi_schedule_drive(schedule, goal);
    while (hdi_load_acquire(goal->word) == goal->expected) {
        if (sim_now(runtime) >= deadline_ns) return -ETIMEDOUT;
        const uint32_t event = hdi_load_acquire(&runtime->sim.event);
        run_network(runtime);
        if (schedule && hdi_schedule_is_over(schedule)) return -EDEADLK;
        if (hdi_unlikely(runtime->sim.looks-- == 0)) look_at_events(runtime);
        if (hdi_unlikely(runtime->sim.full)) {
            const int err = let_events_happen(runtime, event, deadline_ns);
            if (err) return err;
            continue;
        }
        if (schedule ? step_scheduled(runtime, schedule) : step(runtime)) {
            hdi_store_relaxed(&runtime->sim.asleep, false); /* A hint until it is true. */
            continue;
        }
        if (fall_asleep(runtime)) continue;
        const int err = wait_for_others(runtime, event, deadline_ns);
        if (err) return err;
    }
    return 0;
}

static void report_deadlock(struct hd_runtime *runtime)
{
    if (runtime->options.deadlock != HD_DEADLOCK_REPORT) return;
    if (hdi_load_acquire(&runtime->closing)) return; /* What is left ends by a cancel. */
    struct hdi_worker *worker = &runtime->main.workers[0];
    void *outer = enter(runtime, worker);
    hdi_deadlock_report(worker);
    leave(worker, outer);
}

/* Nothing can run any more; if that was not decided, it is a deadlock. */
static void stuck(struct hd_runtime *runtime)
{
    struct hdi_schedule *schedule = runtime->sim.schedule;
    if (schedule && hdi_schedule_is_over(schedule)) return;
    report_deadlock(runtime);
    if (schedule && schedule->judges && !hdi_load_acquire(&runtime->closing)) {
        hdi_schedule_deadlock(schedule);
    }
}

static int sim_wait(struct hd_runtime *runtime, _Atomic(uint32_t) *word, uint32_t expected,
                    int64_t deadline_ns)
{
    HD_CHECK_MSG(!driving(runtime), "a simulated task waits as if it were a thread");
    note_thread(runtime);
    for (;;) {
        /* Read by a read-modify-write, after `foreign`: whoever counts later sees that. */
        const uint32_t event = hdi_fetch_add_acq_rel(&runtime->sim.event, 0);
        if (hdi_load_acquire(word) != expected) return 0;
        if (hdi_mutex_trylock(&runtime->sim.drive)) {
            struct hdi_overflow_thread overflow; /* Fibers run on this thread now. */
            const bool report =
                runtime->options.report_overflow && hdi_overflow_thread_init(&overflow) == 0;
            const struct hdi_goal goal = {word, expected, deadline_ns};
            const int err = drive(runtime, &goal);
            if (err == -EDEADLK) stuck(runtime);
            if (report) hdi_overflow_thread_fini(&overflow);
            hdi_mutex_unlock(&runtime->sim.drive);
            if (hdi_load_acquire(&runtime->sim.foreign)) announce(runtime);
            return err;
        }
        if (wait_for_event(runtime, event, deadline_ns) == -ETIMEDOUT) return -ETIMEDOUT;
    }
    return 0;
}

const struct hdi_world hdi_world_sim = {
    .kind = HD_WORLD_SIM,
    .now = sim_now,
    .entropy = sim_entropy,
    .start = sim_start,
    .stop = sim_stop,
    .notify = sim_notify,
    .rouse = sim_rouse,
    .rouse_all = sim_notify,
    .wait = sim_wait,
    .wake = sim_wake,
    .end = sim_end,
};
