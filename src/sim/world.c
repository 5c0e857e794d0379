/* SPDX-License-Identifier: MIT
 *
 * world: the sim world: one thread, virtual time, and every choice drawn from the seed.
 *
 * There are no worker threads. A plain thread that waits (a join, a drain) drives: it
 * runs tasks one by one until what it waits for has happened. Which dispatcher's task, or,
 * in the order HD_SIM_WORKERS, which worker, is drawn from one generator; all queues, words
 * and counters are the ones of the live world.
 *
 * Time passes by STEP_NS a run, so that a program that watches the clock sees it move,
 * and jumps to the next timer, the next event of the network, or the deadline of a waiting thread,
 * when nothing can run.
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

#define STEP_NS 1000

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

/* Something happened that a waiting thread may have waited for. */
static void announce(struct hd_runtime *runtime)
{
    hdi_fetch_add_acq_rel(&runtime->sim.event, 1);
    hdi_futex_wake(&runtime->sim.event, INT32_MAX);
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
    /* Always counted: a thread that comes later reads the count before its word. */
    hdi_fetch_add_acq_rel(&runtime->sim.event, 1);
    if (hdi_load_acquire(&runtime->sim.foreign)) hdi_futex_wake(&runtime->sim.event, INT32_MAX);
}

/* Time ends just before HD_FOREVER, and does not turn round. */
static void pass_time(struct hd_runtime *runtime)
{
    const int64_t now_ns = sim_now(runtime);
    set_now(runtime, now_ns < INT64_MAX - STEP_NS ? now_ns + STEP_NS : INT64_MAX - 1);
}

/* One worker's turn. Returns whether it ran a task. */
static bool turn(struct hd_runtime *runtime, struct hdi_worker *worker)
{
    void *outer = hdi_thread_self(); /* The driver may be a fiber of another runtime. */
    hdi_worker_enter(worker);
    worker->exec.coarse_ns = sim_now(runtime);
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
        pass_time(runtime);
    }
    hdi_worker_leave(worker);
    hdi_thread_set_self(outer);
    hdi_jobs_enter(outer);
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
    void *outer = hdi_thread_self();
    hdi_worker_enter(worker);
    worker->exec.coarse_ns = sim_now(runtime);
    hdi_net_run(net);
    hdi_worker_leave(worker);
    hdi_thread_set_self(outer);
    hdi_jobs_enter(outer);
}

static void sim_end(struct hd_runtime *runtime)
{
    struct hdi_net *net = hdi_load_acquire(&runtime->sim.net); /* N */
    if (net) hdi_net_end(net);
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
    if (until_ns > sim_now(runtime)) set_now(runtime, until_ns);
    return timer_ns <= deadline_ns ? 0 : -ETIMEDOUT;
}

/* Context: holder of sim.drive. */
static int drive(struct hd_runtime *runtime, _Atomic(uint32_t) *word, uint32_t expected,
                 int64_t deadline_ns)
{
    while (hdi_load_acquire(word) == expected) {
        if (sim_now(runtime) >= deadline_ns) return -ETIMEDOUT;
        const uint32_t event = hdi_load_acquire(&runtime->sim.event);
        run_network(runtime);
        if (step(runtime)) {
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
    void *outer = hdi_thread_self();
    hdi_worker_enter(worker);
    hdi_deadlock_report(worker);
    hdi_worker_leave(worker);
    hdi_thread_set_self(outer);
    hdi_jobs_enter(outer);
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
            const int err = drive(runtime, word, expected, deadline_ns);
            if (err == -EDEADLK) report_deadlock(runtime);
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
