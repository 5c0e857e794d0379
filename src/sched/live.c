/* SPDX-License-Identifier: MIT
 *
 * live: the world of real threads, the real clock and real randomness.
 */
#include "os/clock.h"
#include "os/entropy.h"
#include "sched/runtime.h"

#include <stdio.h>

static int64_t live_now(struct hd_runtime *runtime)
{
    (void)runtime;
    return hdi_clock_now();
}

static uint64_t live_entropy(struct hd_runtime *runtime)
{
    (void)runtime;
    return hdi_entropy();
}

static void stop_first(struct hd_runtime *runtime, unsigned count)
{
    hdi_store_release(&runtime->stopping, true);
    for (unsigned i = 0; i < count; i++) hdi_parker_unpark(&runtime->workers[i].parker);
    for (unsigned i = 0; i < count; i++) hdi_thread_join(&runtime->workers[i].thread);
}

static int live_start(struct hd_runtime *runtime)
{
    for (unsigned i = 0; i < runtime->worker_count; i++) {
        char name[24];
        snprintf(name, sizeof(name), "heddle-%u", i);
        struct hdi_worker *worker = &runtime->workers[i];
        const int err = hdi_thread_start(&worker->thread, hdi_worker_main, worker, name);
        if (err) {
            stop_first(runtime, i);
            return err;
        }
    }
    return 0;
}

static void live_stop(struct hd_runtime *runtime)
{
    stop_first(runtime, runtime->worker_count);
}

static void live_notify(struct hd_runtime *runtime)
{
    /* Relaxed: only spreads the wake-ups. */
    const unsigned from = hdi_load_relaxed(&runtime->wake_from) % runtime->worker_count;
    const int claimed = hdi_idle_notify(&runtime->idle, from);
    if (claimed < 0) return;
    hdi_store_relaxed(&runtime->wake_from, (uint32_t)claimed + 1);
    hdi_parker_unpark(&runtime->workers[claimed].parker);
}

static int live_wait(struct hd_runtime *runtime, _Atomic(uint32_t) *word, uint32_t expected,
                     int64_t deadline_ns)
{
    (void)runtime;
    return hdi_futex_wait(word, expected, deadline_ns);
}

static void live_wake(struct hd_runtime *runtime, _Atomic(uint32_t) *word)
{
    (void)runtime;
    hdi_futex_wake(word, INT32_MAX);
}

const struct hdi_world hdi_world_live = {
    .kind = HD_WORLD_LIVE,
    .now = live_now,
    .entropy = live_entropy,
    .start = live_start,
    .stop = live_stop,
    .notify = live_notify,
    .wait = live_wait,
    .wake = live_wake,
};
