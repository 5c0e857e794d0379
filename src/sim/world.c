/* SPDX-License-Identifier: MIT
 *
 * world: the sim world: one thread, virtual time, and every choice drawn from the seed.
 *
 * There are no worker threads. A plain thread that waits (a join, a drain) drives: it
 * runs tasks one by one until what it waits for has happened. Which task, or, in the
 * order HD_SIM_WORKERS, which worker, is drawn from one generator; all queues, words
 * and counters are the ones of the live world.
 *
 * Time passes by STEP_NS a run, so that a program that watches the clock sees it move,
 * and jumps to the deadline of a waiting thread when nothing can run.
 *
 * Other OS threads may take part, at the price of determinism: only one drives at a
 * time, and the others wait for events. Level D3 holds while one thread does it all.
 */
#include <errno.h>

#include "base/check.h"
#include "os/clock.h"
#include "sched/find.h"
#include "sched/runtime.h"

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

static int sim_start(struct hd_runtime *runtime)
{
    (void)runtime;
    return 0;
}

static void sim_stop(struct hd_runtime *runtime)
{
    (void)runtime;
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

static void sim_notify(struct hd_runtime *runtime)
{
    if (driving(runtime)) return; /* The driver looks anyway. */
    note_thread(runtime);
    announce(runtime);
}

static void sim_wake(struct hd_runtime *runtime, _Atomic(uint32_t) *word)
{
    (void)word; /* Threads wait for events, and look at their word then. */
    /* Always counted: a thread that comes later reads the count before its word. */
    hdi_fetch_add_acq_rel(&runtime->sim.event, 1);
    if (hdi_load_acquire(&runtime->sim.foreign)) hdi_futex_wake(&runtime->sim.event, INT32_MAX);
}

/* One worker's turn. Returns whether it ran a task. */
static bool turn(struct hd_runtime *runtime, struct hdi_worker *worker)
{
    void *outer = hdi_thread_self(); /* The driver may be a fiber of another runtime. */
    hdi_worker_enter(worker);
    hdi_find_gather(worker);
    struct hd_task *task = hdi_find_local(worker);
    if (!task && runtime->worker_count > 1) {
        task = hdi_find_steal(worker, runtime->worker_count, false);
    }
    if (task) {
        hdi_worker_run(worker, task);
        set_now(runtime, sim_now(runtime) + STEP_NS);
    }
    hdi_worker_leave(worker);
    hdi_thread_set_self(outer);
    return task != NULL;
}

/* Run one task. Returns false if none is ready. */
static bool step(struct hd_runtime *runtime)
{
    const unsigned count = runtime->worker_count;
    const unsigned first = count > 1 ? hdi_prng_below(&runtime->sim.prng, count) : 0;
    for (unsigned i = 0; i < count; i++) {
        if (turn(runtime, &runtime->workers[(first + i) % count])) return true;
    }
    return false;
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

/* Nothing is ready. With other threads about, one of them may change that. */
static int wait_for_others(struct hd_runtime *runtime, uint32_t event, int64_t deadline_ns)
{
    if (!hdi_load_acquire(&runtime->sim.foreign)) {
        if (deadline_ns == INT64_MAX) return -EDEADLK;
    } else if (wait_for_event(runtime, event, deadline_ns) != -ETIMEDOUT) {
        return 0;
    }
    set_now(runtime, deadline_ns);
    return -ETIMEDOUT;
}

/* Context: holder of sim.drive. */
static int drive(struct hd_runtime *runtime, _Atomic(uint32_t) *word, uint32_t expected,
                 int64_t deadline_ns)
{
    while (hdi_load_acquire(word) == expected) {
        if (sim_now(runtime) >= deadline_ns) return -ETIMEDOUT;
        const uint32_t event = hdi_load_acquire(&runtime->sim.event);
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
    .wait = sim_wait,
    .wake = sim_wake,
};
