/* SPDX-License-Identifier: MIT
 *
 * dispatcher: pools that end by themselves, fibers that move between them while they are
 * woken, and an elastic pool that gains and loses a thread. A lost task is a deadlock.
 */
#include <errno.h>

#include "pool.h"
#include "task/state.h"

static hd_poll add_one(void *state, int *result)
{
    int *number = *(int **)state;
    MODEL_WRITE(*number, MODEL_READ(*number) + 1);
    *result = 0;
    return HD_READY;
}

/* ---- ending ---- */

/* The last handle goes while the last task runs. */
MODEL(dispatcher_ends, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    int number = 0;
    hd_runtime *rt = rt_start(1);
    model_calm(true);
    hd_dispatcher *pool = new_pool(rt, 1, false);
    settle_pool(pool);
    model_calm(false);
    hd_detach(poll_on(pool, add_one, &number));
    hd_dispatcher_unref(pool);
    MODEL_EQUAL(hd_runtime_drain(rt, HD_FOREVER), 0);
    MODEL_EQUAL(MODEL_READ(number), 1);
    rt_stop(rt);
}

/* ---- moving ---- */

struct trip {
    hd_dispatcher *there;
    int number; /* plain: handed from worker to worker by the move */
};

static int go_there(void *arg)
{
    struct trip *trip = arg;
    MODEL_WRITE(trip->number, 1);
    HD_ON(trip->there) MODEL_WRITE(trip->number, MODEL_READ(trip->number) + 1);
    MODEL_WRITE(trip->number, MODEL_READ(trip->number) + 1);
    return 0;
}

MODEL(dispatcher_move, .sc = 2, .tso = 1, .pso = 1, RT_STEPS, .kills = "move_early_publish")
{
    hd_runtime *rt = rt_start(1);
    model_calm(true);
    struct trip trip = {.there = new_pool(rt, 1, false)};
    settle_pool(trip.there);
    model_calm(false);
    MODEL_EQUAL(rt_join(rt_fiber(rt, go_there, &trip)), 0);
    MODEL_EQUAL(MODEL_READ(trip.number), 3);
    model_calm(true);
    hd_dispatcher_unref(trip.there);
    rt_stop(rt);
}

/* ---- pinned: the inbox against a worker that goes to sleep ---- */

MODEL(dispatcher_pinned_wake, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    struct gate gate;
    gate_init(&gate);
    hd_runtime *rt = rt_start(1);
    model_calm(true);
    hd_task *task = spawn_on(hd_dispatcher_default(rt), gate_wait, &gate, HD_PINNED);
    while (hdi_word_lifecycle(hdi_load_acquire(&task->word)) != HDI_IDLE) hdi_cpu_relax();
    rt_settle(rt);
    gate_open(&gate, 5);
    MODEL_EQUAL(rt_join(task), 5);
    rt_stop(rt);
}

/* ---- an elastic pool of two ---- */

/* One worker is blocked until the second task has run. */
MODEL(dispatcher_grow, .sc = 1, .tso = 1, .pso = 1, RT_STEPS)
{
    struct hold hold = {.held = 0};
    hd_runtime *rt = rt_start(1);
    model_calm(true);
    hd_dispatcher *pool = new_pool(rt, 2, true);
    settle_pool(pool);
    model_calm(false);
    hd_task *a = poll_on(pool, hold_worker, &hold), *b = poll_on(pool, let_go, &hold);
    MODEL_EQUAL(rt_join(a) + rt_join(b), 0);
    model_calm(true);
    hd_runtime_destroy(rt);
}

/* As if the second worker had slept until it had enough, and found nothing. */
static void tired_worker(void *arg)
{
    struct hdi_worker *worker = arg;
    hdi_worker_enter(worker);
    const bool leaves = hdi_elastic_leave(worker);
    hdi_worker_leave(worker);
    if (!leaves) hdi_worker_main(worker);
}

static void start_tired(struct hd_dispatcher *pool)
{
    struct hdi_worker *worker = &pool->workers[1];
    MODEL_CHECK(hdi_idle_try_add(&pool->idle));
    hdi_fetch_add_acq_rel(&pool->live, 1);
    worker->searching = true;
    worker->gone = false;
    worker->started = true;
    worker->thread.model = hdi_model_thread_start(tired_worker, worker);
    hdi_model_name_thread(worker->thread.model, "pool 1");
}

/* The same, with the second worker about to leave: it stays, or another is started. */
MODEL(dispatcher_shrink, .sc = 1, .tso = 1, .pso = 1, RT_STEPS, .kills = "pool_leave_blind")
{
    struct hold hold = {.held = 0};
    hd_runtime *rt = rt_start(1);
    model_calm(true);
    hd_dispatcher *pool = new_pool(rt, 2, true);
    settle_pool(pool);
    hd_task *busy = poll_on(pool, hold_worker, &hold);
    while (!hdi_load_acquire(&hold.held)) hdi_cpu_relax();
    start_tired(pool);
    model_calm(false);
    hd_task *task = poll_on(pool, let_go, &hold);
    MODEL_EQUAL(rt_join(task) + rt_join(busy), 0);
    model_calm(true);
    hd_runtime_destroy(rt);
}
