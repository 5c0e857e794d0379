/* SPDX-License-Identifier: MIT
 *
 * runtime: the library as a whole. Workers start, find work, steal, sleep, are woken and
 * stop, with tasks of both kinds on them. A lost wake-up is a deadlock.
 */
#include <errno.h>

#include "rt.h"

/* ---- starting and stopping, with nothing calm about it ---- */

static void start_stop(unsigned workers)
{
    hd_runtime_destroy(rt_create(workers, HD_POLICY_FAIR));
}

MODEL(runtime_start_stop, .sc = 4, .tso = 4, .pso = 4, RT_STEPS) { start_stop(1); }
MODEL(runtime_start_stop_two, .sc = 2, .tso = 2, .pso = 2, RT_STEPS) { start_stop(2); }

static int add_one(void *arg)
{
    int *number = arg;
    MODEL_WRITE(*number, MODEL_READ(*number) + 1);
    return 0;
}

static hd_poll poll_add_one(void *state, int *result)
{
    *result = add_one(*(int **)state);
    return HD_READY;
}

/* Spawned while the worker starts, awaited by the destroy. */
MODEL(runtime_spawn_destroy, .sc = 3, .tso = 2, .pso = 2, RT_STEPS)
{
    int number = 0;
    hd_runtime *rt = rt_create(1, HD_POLICY_FAIR);
    hd_detach(rt_poll(rt, poll_add_one, &number));
    MODEL_EQUAL(hd_runtime_drain(rt, HD_FOREVER), 0);
    MODEL_EQUAL(MODEL_READ(number), 1);
    hd_runtime_destroy(rt);
}

/* ---- sharing the work ---- */

struct crowd {
    _Atomic(uint32_t) here;
    uint32_t size;
};

/* Ends only when all are running at once: each needs a worker of its own. */
static hd_poll meet(void *state, int *result)
{
    struct crowd *crowd = *(struct crowd **)state;
    hdi_fetch_add_acq_rel(&crowd->here, 1);
    while (hdi_load_acquire(&crowd->here) < crowd->size) hdi_cpu_relax();
    *result = 0;
    return HD_READY;
}

static void share(hd_policy policy)
{
    struct crowd crowd = {.size = 2};
    model_calm(true);
    hd_runtime *rt = rt_create(2, policy);
    rt_settle(rt);
    hd_task *a = rt_poll(rt, meet, &crowd), *b = rt_poll(rt, meet, &crowd);
    MODEL_EQUAL(rt_join(a) + rt_join(b), 0);
    rt_stop(rt);
}

MODEL(runtime_share, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    share(HD_POLICY_FAIR);
}
MODEL(runtime_share_local, .sc = 2, .tso = 1, .pso = 1, RT_STEPS) { share(HD_POLICY_LOCAL); }

/* The same when a busy worker comes back to both, while the other looks for them. */
struct hold {
    _Atomic(uint32_t) held, let_go;
};

static hd_poll hold_worker(void *state, int *result)
{
    struct hold *hold = *(struct hold **)state;
    hdi_store_release(&hold->held, 1);
    while (!hdi_load_acquire(&hold->let_go)) hdi_cpu_relax();
    *result = 0;
    return HD_READY;
}

MODEL(runtime_share_busy, .sc = 1, .tso = 1, .pso = 1, RT_STEPS, .kills = "inject_batch_silent")
{
    struct hold hold = {.held = 0};
    struct crowd crowd = {.size = 2};
    hd_runtime *rt = rt_start(2);
    model_calm(true);
    hd_task *busy = rt_poll(rt, hold_worker, &hold);
    while (!hdi_load_acquire(&hold.held) || hdi_idle_parked(&rt->main.idle) < 1) hdi_cpu_relax();
    model_calm(false);
    hd_task *a = rt_poll(rt, meet, &crowd), *b = rt_poll(rt, meet, &crowd);
    hdi_store_release(&hold.let_go, 1);
    MODEL_EQUAL(rt_join(a) + rt_join(b) + rt_join(busy), 0);
    rt_stop(rt);
}

/* A task spawns more than its queue holds, then waits for the last. */
struct brood {
    int numbers[7];
    hd_task *children[7];
};

static int spawn_many(void *arg)
{
    struct brood *brood = arg;
    for (int i = 0; i < 7; i++) {
        MODEL_WRITE(brood->numbers[i], i);
        MODEL_EQUAL(hd_spawn_poll(&brood->children[i], poll_add_one,
                                  &(void *){&brood->numbers[i]}, sizeof(void *)),
                    0);
    }
    for (int i = 0; i < 7; i++) {
        MODEL_EQUAL(hd_join(brood->children[i], NULL), 0);
        MODEL_EQUAL(MODEL_READ(brood->numbers[i]), i + 1);
    }
    return 0;
}

static void overflow(hd_policy policy)
{
    struct brood brood;
    model_calm(true);
    hd_runtime *rt = rt_create(2, policy);
    rt_settle(rt);
    MODEL_EQUAL(rt_join(rt_fiber(rt, spawn_many, &brood)), 0);
    rt_stop(rt);
}

MODEL(runtime_overflow, .sc = 1, .tso = 1, .pso = 1, RT_STEPS) { overflow(HD_POLICY_FAIR); }
MODEL(runtime_overflow_local, .sc = 1, .tso = 1, .pso = 1, RT_STEPS) { overflow(HD_POLICY_LOCAL); }

/* ---- fibers move ---- */

/* What is on a fiber's stack, and in its task, goes with it. */
static int yield_twice(void *arg)
{
    int local = 0;
    MODEL_WRITE(local, *(int *)arg);
    for (int i = 0; i < 2; i++) {
        hd_yield();
        MODEL_WRITE(local, MODEL_READ(local) + 1);
    }
    return MODEL_READ(local);
}

MODEL(runtime_yield, .sc = 1, .tso = 1, .pso = 1, RT_STEPS)
{
    int start = 5;
    hd_runtime *rt = rt_start(2);
    hd_task *a = rt_fiber(rt, yield_twice, &start), *b = rt_fiber(rt, yield_twice, &start);
    MODEL_EQUAL(rt_join(a) + rt_join(b), 14);
    rt_stop(rt);
}

/* Woken while it parks: not to be resumed before it has left its stack. */
struct signal {
    _Atomic(uint32_t) ready, sent;
    hd_waker waker;
};

static int await_signal(void *arg)
{
    struct signal *s = arg;
    MODEL_WRITE(s->waker, hd_waker_self());
    hdi_store_release(&s->ready, 1);
    while (!hdi_load_relaxed(&s->sent)) MODEL_EQUAL(hd_park(), 0);
    return 3;
}

static void await(unsigned workers)
{
    struct signal s = {.ready = 0};
    hd_runtime *rt = rt_start(workers);
    hd_task *task = rt_fiber(rt, await_signal, &s);
    while (!hdi_load_acquire(&s.ready)) hdi_cpu_relax();
    hdi_store_relaxed(&s.sent, 1); /* The wake orders it. */
    hd_waker_wake(MODEL_READ(s.waker));
    MODEL_EQUAL(rt_join(task), 3);
    rt_stop(rt);
}

MODEL(runtime_park, .sc = 2, .tso = 2, .pso = 2, RT_STEPS) { await(1); }
MODEL(runtime_park_two, .sc = 2, .tso = 1, .pso = 1, RT_STEPS, .kills = "fiber_early_publish")
{
    await(2);
}

/* ---- wakes ---- */

static void waker_thread(void *arg)
{
    hd_waker *waker = arg;
    hd_waker_wake_keep(*waker);
    hd_waker_drop(*waker);
}

static void storm(bool fiber)
{
    struct gate gate;
    gate_init(&gate);
    hd_runtime *rt = rt_start(2);
    hd_task *task = fiber ? rt_fiber(rt, gate_wait, &gate) : rt_poll(rt, gate_poll, &gate);
    rt_settle(rt);
    hd_waker other = hd_waker_clone(gate.waker);
    void *t = model_thread(waker_thread, &other);
    gate_open(&gate, 9);
    MODEL_EQUAL(rt_join(task), 9);
    model_join(t);
    rt_stop(rt);
}

MODEL(runtime_wake_storm_poll, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    storm(false);
}
MODEL(runtime_wake_storm_fiber, .sc = 2, .tso = 1, .pso = 1, RT_STEPS) { storm(true); }

/* ---- cancelling ---- */

static int park_until_cancelled(void *arg)
{
    (void)arg;
    while (hd_park() == 0) continue;
    MODEL_CHECK(hd_cancelled());
    return -ECANCELED;
}

MODEL(runtime_cancel, .sc = 3, .tso = 2, .pso = 2, RT_STEPS, .kills = "word_cancel_silent")
{
    hd_runtime *rt = rt_start(1);
    hd_task *task = rt_fiber(rt, park_until_cancelled, NULL);
    hd_cancel(task);
    MODEL_EQUAL(rt_join(task), -ECANCELED);
    rt_stop(rt);
}

/* Shielded until it was told something; then the cancel counts. */
static int shielded(void *arg)
{
    MODEL_EQUAL(hd_shield(), 0);
    const int told = gate_wait(arg);
    MODEL_CHECK(!hd_cancelled());
    MODEL_EQUAL(hd_unshield(), 0);
    while (hd_park() == 0) continue;
    return told;
}

MODEL(runtime_shield, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    struct gate gate;
    gate_init(&gate);
    hd_runtime *rt = rt_start(1);
    hd_task *task = rt_fiber(rt, shielded, &gate);
    rt_settle(rt);
    hd_cancel(task);
    gate_open(&gate, 4);
    MODEL_EQUAL(rt_join(task), 4);
    rt_stop(rt);
}

/* ---- ending ---- */

static hd_poll never(void *state, int *result)
{
    (void)state, (void)result;
    return HD_PENDING;
}

/* A stackless task that still waits after its cancel is dropped, and its joiner told. */
MODEL(runtime_shutdown_poll, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    hd_runtime *rt = rt_start(1);
    hd_task *task = rt_poll(rt, never, NULL);
    MODEL_EQUAL(hd_runtime_shutdown(rt, HD_FOREVER), 0);
    MODEL_EQUAL(rt_join(task), -ECANCELED);
    rt_stop(rt);
}

MODEL(runtime_shutdown_fiber, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    hd_runtime *rt = rt_start(1);
    hd_task *task = rt_fiber(rt, park_until_cancelled, NULL);
    MODEL_EQUAL(hd_runtime_shutdown(rt, HD_FOREVER), 0);
    MODEL_EQUAL(rt_join(task), -ECANCELED);
    rt_stop(rt);
}

MODEL(runtime_shutdown_two, .sc = 1, .tso = 1, .pso = 1, RT_STEPS)
{
    hd_runtime *rt = rt_start(2);
    hd_detach(rt_poll(rt, never, NULL));
    hd_detach(rt_fiber(rt, park_until_cancelled, NULL));
    hd_runtime_destroy(rt);
}

/* Spawned while it shuts down: refused, or cancelled like the others. */
static void spawner(void *arg)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.runtime = arg;
    const int err = hd_spawn_with(NULL, park_until_cancelled, NULL, &options);
    MODEL_CHECK(err == 0 || err == -ESHUTDOWN);
}

MODEL(runtime_shutdown_spawn, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    hd_runtime *rt = rt_start(1);
    void *t = model_thread(spawner, rt);
    MODEL_EQUAL(hd_runtime_shutdown(rt, HD_FOREVER), 0);
    model_join(t);
    hd_runtime_destroy(rt);
}

/* Drained by one, with a task that spawns another. */
static hd_poll spawn_one(void *state, int *result)
{
    MODEL_EQUAL(hd_spawn_poll(NULL, poll_add_one, state, sizeof(void *)), 0);
    *result = 0;
    return HD_READY;
}

MODEL(runtime_drain, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    int number = 0;
    hd_runtime *rt = rt_start(2);
    hd_detach(rt_poll(rt, spawn_one, &number));
    MODEL_EQUAL(hd_runtime_drain(rt, HD_FOREVER), 0);
    MODEL_EQUAL(MODEL_READ(number), 1);
    rt_stop(rt);
}

MODEL(runtime_drain_until, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    int number = 0;
    hd_runtime *rt = rt_start(1);
    hd_detach(rt_poll(rt, poll_add_one, &number));
    const int err = hd_runtime_drain(rt, 0);
    MODEL_CHECK(err == 0 || err == -ETIMEDOUT);
    if (!err) MODEL_EQUAL(MODEL_READ(number), 1);
    rt_stop(rt);
}
