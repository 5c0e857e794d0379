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

static void live_rouse(struct hdi_worker *worker)
{
    hdi_parker_unpark(&worker->parker);
}

static void live_rouse_all(struct hd_dispatcher *dispatcher)
{
    const unsigned count = hdi_dispatcher_places(dispatcher);
    for (unsigned i = 0; i < count; i++) hdi_parker_unpark(&dispatcher->workers[i].parker);
}

static void live_stop(struct hd_dispatcher *dispatcher)
{
    hdi_store_release(&dispatcher->stopping, true);
    hdi_mutex_lock(&dispatcher->grow); /* From now on nobody starts threads. */
    hdi_mutex_unlock(&dispatcher->grow);
    live_rouse_all(dispatcher);
    for (unsigned i = 0; i < hdi_dispatcher_places(dispatcher); i++) {
        struct hdi_worker *worker = &dispatcher->workers[i];
        if (worker->started) hdi_thread_join(&worker->thread);
        worker->started = false;
    }
}

int hdi_live_start(struct hdi_worker *worker)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    char name[16]; /* The kernel keeps 15 bytes. */
    if (dispatcher == &dispatcher->runtime->main) {
        snprintf(name, sizeof(name), "heddle-%u", worker->index);
    } else {
        snprintf(name, sizeof(name), "hd-%.8s-%u", dispatcher->name, worker->index % 256);
    }
    /* Counted before it runs: it may leave at once. */
    hdi_fetch_add_acq_rel(&dispatcher->live, 1);
    int err = hdi_thread_start(&worker->thread, hdi_worker_main, worker, name);
    if (err) {
        hdi_fetch_sub_acq_rel(&dispatcher->live, 1);
        return err;
    }
    worker->started = true;
    if (dispatcher->cpu_count == 0) return 0;
    return hdi_thread_pin(&worker->thread, dispatcher->cpus[worker->index % dispatcher->cpu_count]);
}

static int live_start(struct hd_dispatcher *dispatcher)
{
    const unsigned first = dispatcher->elastic ? 1 : dispatcher->worker_count;
    for (unsigned i = first; i < dispatcher->worker_count; i++) {
        dispatcher->workers[i].gone = true;
        hdi_worker_set_state(&dispatcher->workers[i], HDI_WORKER_GONE);
    }
    for (unsigned i = 0; i < first; i++) {
        const int err = hdi_live_start(&dispatcher->workers[i]);
        if (err) {
            live_stop(dispatcher);
            return err;
        }
    }
    return 0;
}

static void live_notify(struct hd_dispatcher *dispatcher)
{
    /* Relaxed: only spreads the wake-ups. */
    const unsigned from = hdi_load_relaxed(&dispatcher->wake_from) % dispatcher->worker_count;
    const int claimed =
        hdi_idle_notify(&dispatcher->idle, hdi_keeper_wake_from(&dispatcher->keeper, from));
    if (claimed < 0) {
        if (hdi_unlikely(dispatcher->elastic)) hdi_elastic_grow(dispatcher);
        return;
    }
    hdi_store_relaxed(&dispatcher->wake_from, (uint32_t)claimed + 1);
    hdi_parker_unpark(&dispatcher->workers[claimed].parker);
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
    .rouse = live_rouse,
    .rouse_all = live_rouse_all,
    .wait = live_wait,
    .wake = live_wake,
};

const struct hdi_world hdi_world_embedded = {
    .kind = HD_WORLD_LIVE,
    .now = live_now,
    .entropy = live_entropy,
    .start = hdi_embedded_start,
    .stop = hdi_embedded_stop,
    .notify = live_notify,
    .rouse = live_rouse,
    .rouse_all = live_rouse_all,
    .wait = hdi_embedded_wait,
    .wake = hdi_embedded_wake,
};
