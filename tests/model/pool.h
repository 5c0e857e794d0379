/* SPDX-License-Identifier: MIT
 *
 * pool: tasks of dispatchers in scenarios, and one that holds a worker until another runs.
 */
#ifndef POOL_H
#define POOL_H

#include "rt.h"

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
