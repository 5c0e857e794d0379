/* SPDX-License-Identifier: MIT
 *
 * rt: whole runtimes in scenarios: the live world, its workers being model threads.
 *
 * Starting and stopping is explored in runtime.c; the others begin with all workers asleep
 * and end calmly, so that what is explored is their subject. Destroying a runtime checks
 * that every task has ended and that no reference is left.
 */
#ifndef RT_H
#define RT_H

#include <heddle/task.h>

#include "scenario.h"
#include "sched/runtime.h"

#define RT_STEPS .steps = 4000

static inline hd_runtime *rt_create(unsigned workers, hd_policy policy)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = workers;
    options.policy = policy;
    options.stack_bytes = options.job_stack_bytes = 16 << 10;
    hd_runtime *rt = NULL;
    MODEL_EQUAL(hd_runtime_create(&rt, &options), 0);
    MODEL_NAME(rt->main.idle.counts);
    MODEL_NAME(rt->main.idle.parked_bits);
    MODEL_NAME(rt->main.inject.lock);
    MODEL_NAME(rt->main.inject.length);
    for (unsigned i = 0; i < workers && i < 2; i++) {
        static const char *const names[][4] = {{"worker 0", "parker 0", "lifo 0", "queue 0"},
                                               {"worker 1", "parker 1", "lifo 1", "queue 1"}};
        struct hdi_worker *worker = &rt->main.workers[i];
        hdi_model_name_thread(worker->thread.model, names[i][0]);
        hdi_model_name(&worker->parker, sizeof(worker->parker), names[i][1]);
        hdi_model_name(&worker->lifo, sizeof(worker->lifo), names[i][2]);
        hdi_model_name(&worker->queue, sizeof(worker->queue), names[i][3]);
    }
    return rt;
}

/* Wait until every worker sleeps. */
static inline void rt_settle(hd_runtime *rt)
{
    model_calm(true);
    while (hdi_idle_parked(&rt->main.idle) < rt->main.worker_count) hdi_cpu_relax();
    model_calm(false);
}

static inline hd_runtime *rt_start(unsigned workers)
{
    model_calm(true);
    hd_runtime *rt = rt_create(workers, HD_POLICY_FAIR);
    rt_settle(rt);
    return rt;
}

static inline void rt_stop(hd_runtime *rt)
{
    model_calm(true);
    hd_runtime_destroy(rt);
}

static inline hd_task *rt_fiber(hd_runtime *rt, hd_fn *fn, void *arg)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.runtime = rt;
    hd_task *task = NULL;
    MODEL_EQUAL(hd_spawn_with(&task, fn, arg, &options), 0);
    MODEL_NAME(task->word);
    return task;
}

/* A stackless task whose state is the pointer `arg`. */
static inline hd_task *rt_poll(hd_runtime *rt, hd_poll_fn *fn, void *arg)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.runtime = rt;
    hd_task *task = NULL;
    MODEL_EQUAL(hd_spawn_poll_with(&task, fn, &arg, sizeof(arg), &options), 0);
    MODEL_NAME(task->word);
    return task;
}

static inline int rt_join(hd_task *task)
{
    int result = 0;
    MODEL_EQUAL(hd_join(task, &result), 0);
    return result;
}

/* ---- a task that waits for a word from outside, then returns what it was told ---- */

struct gate {
    hd_waker waker; /* plain: written by the task before it first waits */
    _Atomic(uint32_t) open;
    int told;
};

static inline void gate_init(struct gate *gate)
{
    *gate = (struct gate){.open = 0};
    MODEL_NAME(gate->open);
}

/* Context: the gate is up to date, that is after rt_settle(). */
static inline void gate_open(struct gate *gate, int told)
{
    MODEL_WRITE(gate->told, told);
    hdi_store_release(&gate->open, 1); /* Another's wake may come first. */
    hd_waker_wake(gate->waker);
}

/* A fiber's function. */
static inline int gate_wait(void *arg)
{
    struct gate *gate = arg;
    gate->waker = hd_waker_self();
    while (!hdi_load_acquire(&gate->open)) MODEL_EQUAL(hd_park(), 0);
    return MODEL_READ(gate->told);
}

/* The same as a stackless task, with a pointer to the gate as its state. */
static inline hd_poll gate_poll(void *state, int *result)
{
    struct gate *gate = *(struct gate **)state;
    if (!gate->waker.task) gate->waker = hd_waker_self();
    if (!hdi_load_acquire(&gate->open)) return HD_PENDING;
    *result = MODEL_READ(gate->told);
    return HD_READY;
}

#endif
