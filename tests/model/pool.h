/* SPDX-License-Identifier: MIT
 *
 * pool: dispatchers and their tasks in scenarios, and one that holds a worker until another runs.
 */
#ifndef POOL_H
#define POOL_H

#include "rt.h"

static inline hd_dispatcher *new_pool(hd_runtime *rt, unsigned workers, bool elastic)
{
    const struct hdi_dispatcher_spec spec = {
        .name = "pool",
        .workers = workers,
        .spin_rounds = 1,
        .policy = HD_POLICY_ORDERED,
        .elastic = elastic,
    };
    hd_dispatcher *pool = NULL;
    MODEL_EQUAL(hdi_dispatcher_new(&pool, rt, &spec), 0);
    MODEL_NAME(pool->idle.counts);
    MODEL_NAME(pool->inject.length);
    MODEL_NAME(pool->closing);
    MODEL_NAME(pool->stopping);
    MODEL_NAME(pool->live);
    MODEL_NAME(pool->guests);
    MODEL_NAME(pool->grow);
    hdi_model_name_thread(pool->workers[0].thread.model, "pool 0");
    return pool;
}

static inline void settle_pool(hd_dispatcher *pool)
{
    while (!hdi_dispatcher_all_parked(pool)) hdi_cpu_relax();
}

static inline hd_task *spawn_on(hd_dispatcher *pool, hd_fn *fn, void *arg, unsigned flags)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.dispatcher = pool;
    options.flags = flags;
    hd_task *task = NULL;
    MODEL_EQUAL(hd_spawn_with(&task, fn, arg, &options), 0);
    MODEL_NAME(task->word);
    return task;
}

/* A stackless task whose state is the pointer `arg`. */
static inline hd_task *poll_on(hd_dispatcher *pool, hd_poll_fn *fn, void *arg)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.dispatcher = pool;
    hd_task *task = NULL;
    MODEL_EQUAL(hd_spawn_poll_with(&task, fn, &arg, sizeof(arg), &options), 0);
    MODEL_NAME(task->word);
    return task;
}

struct hold {
    _Atomic(uint32_t) held, let_go;
};

static inline hd_poll hold_worker(void *state, int *result)
{
    struct hold *hold = *(struct hold **)state;
    hdi_store_release(&hold->held, 1);
    while (!hdi_load_acquire(&hold->let_go)) hdi_cpu_relax();
    *result = 0;
    return HD_READY;
}

static inline hd_poll let_go(void *state, int *result)
{
    struct hold *hold = *(struct hold **)state;
    hdi_store_release(&hold->let_go, 1);
    *result = 0;
    return HD_READY;
}

#endif
