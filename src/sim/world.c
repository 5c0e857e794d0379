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
#include "sched/runtime.h"

#define STEP_NS 1000

static int64_t sim_now(struct hd_runtime *runtime)
{
    return runtime->sim.now_ns;
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
    /* Relaxed: a thread that comes later announces itself. */
    if (hdi_load_relaxed(&runtime->sim.foreign)) announce(runtime);
}

/* One worker's turn. Returns whether it ran a task. */
static bool turn(struct hd_runtime *runtime, struct hdi_worker *worker)
{
    hdi_worker_enter(worker);
    struct hd_task *task = hdi_find_local(worker);
    if (!task && runtime->worker_count > 1) {
        task = hdi_find_steal(worker, runtime->worker_count, false);
    }
    if (task) {
        hdi_worker_run(worker, task);
        runtime->sim.now_ns += STEP_NS;
    }
    hdi_worker_leave(worker);
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

/* Nothing is ready. With other threads about, one of them may change that. */
static int wait_for_others(struct hd_runtime *runtime, uint32_t event, int64_t deadline_ns)
{
    if (!hdi_load_acquire(&runtime->sim.foreign)) {
        if (deadline_ns == INT64_MAX) return -EDEADLK;
        runtime->sim.now_ns = deadline_ns;
        return -ETIMEDOUT;
    }
    (void)hdi_futex_wait(&runtime->sim.event, event, INT64_MAX);
    return 0;
}

/* Context: holder of sim.drive. */
static int drive(struct hd_runtime *runtime, _Atomic(uint32_t) *word, uint32_t expected,
                 int64_t deadline_ns)
{
    while (hdi_load_acquire(word) == expected) {
        if (runtime->sim.now_ns >= deadline_ns) return -ETIMEDOUT;
        const uint32_t event = hdi_load_acquire(&runtime->sim.event);
        if (step(runtime)) continue;
        if (hdi_load_acquire(word) != expected) break;
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
    while (hdi_load_acquire(word) == expected) {
        const uint32_t event = hdi_load_acquire(&runtime->sim.event);
        if (hdi_mutex_trylock(&runtime->sim.drive)) {
            const int err = drive(runtime, word, expected, deadline_ns);
            hdi_mutex_unlock(&runtime->sim.drive);
            if (hdi_load_acquire(&runtime->sim.foreign)) announce(runtime);
            return err;
        }
        (void)hdi_futex_wait(&runtime->sim.event, event, INT64_MAX);
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
