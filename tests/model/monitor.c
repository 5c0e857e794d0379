/* SPDX-License-Identifier: MIT
 *
 * monitor: the monitor's sleep against a worker that wakes up (sched/monitor.h), and spares that
 * come and go (sched/dispatcher.h). The monitor's own thread does not run in models: the body does
 * what it would. A task that nobody runs, or a monitor that sleeps while one runs, is a deadlock.
 */
#include <heddle/time.h>

#include "pool.h"
#include "sched/find.h"
#include "task/state.h"

/* ---- falling asleep ---- */

struct watch {
    struct hdi_monitor *monitor;
    _Atomic(uint32_t) over;
};

static void fall_asleep(void *arg)
{
    struct watch *watch = arg;
    hdi_monitor_sleep(watch->monitor);
    hdi_store_release(&watch->over, 1);
}

/* The monitor must not sleep while this runs. */
static hd_poll run_until_awake(void *state, int *result)
{
    struct watch *watch = *(struct watch **)state;
    while (!hdi_load_acquire(&watch->over)) hdi_cpu_relax();
    *result = 0;
    return HD_READY;
}

static void watched(unsigned workers)
{
    hd_runtime *rt = rt_start(workers);
    struct watch watch = {.monitor = &rt->monitor};
    model_calm(true);
    watch.monitor->wanted = true; /* as if it had been started */
    hdi_store_relaxed(&watch.monitor->word, HDI_MONITOR_AWAKE);
    MODEL_NAME(watch.monitor->word);
    MODEL_NAME(watch.over);
    model_calm(false);
    void *thread = model_thread(fall_asleep, &watch);
    hdi_model_name_thread(thread, "monitor");
    MODEL_EQUAL(rt_join(rt_poll(rt, run_until_awake, &watch)), 0);
    model_join(thread);
    rt_stop(rt);
}

MODEL(monitor_sleep, .sc = 2, .tso = 2, .pso = 2, RT_STEPS, .kills = "monitor_looks_first")
{
    watched(1);
}

MODEL(monitor_sleep_two, .sc = 1, .tso = 1, .pso = 1, RT_STEPS)
{
    watched(2);
}

/* ---- spares ---- */

static hd_dispatcher *pool_with_spare(hd_runtime *rt)
{
    const struct hdi_dispatcher_spec spec = {
        .name = "pool",
        .workers = 1,
        .spares = 1,
        .spin_rounds = 1,
        .policy = HD_POLICY_FAIR,
    };
    hd_dispatcher *pool = NULL;
    MODEL_EQUAL(hdi_dispatcher_new(&pool, rt, &spec), 0);
    MODEL_NAME(pool->idle.counts);
    MODEL_NAME(pool->inject.length);
    MODEL_NAME(pool->keeper);
    MODEL_NAME(pool->live);
    MODEL_NAME(pool->grow);
    hdi_model_name_thread(pool->workers[0].thread.model, "pool 0");
    return pool;
}

static void start_spare(hd_dispatcher *pool)
{
    hdi_spares_start(pool, 1);
    MODEL_EQUAL(hdi_load_relaxed(&pool->spares), 1);
    hdi_model_name_thread(pool->workers[1].thread.model, "spare");
}

/* Its only worker is in `how`, which holds it. */
static hd_dispatcher *pool_held(hd_runtime *rt, hd_poll_fn *how, struct hold *hold, hd_task **stuck)
{
    hd_dispatcher *pool = pool_with_spare(rt);
    settle_pool(pool);
    *stuck = poll_on(pool, how, hold);
    while (!hdi_load_acquire(&hold->held)) hdi_cpu_relax();
    return pool;
}

/* The only worker is stuck, and what would free it is queued while a spare comes. */
MODEL(spare_comes, .sc = 1, .tso = 1, .pso = 1, RT_STEPS)
{
    struct hold hold = {.held = 0};
    hd_runtime *rt = rt_start(1);
    model_calm(true);
    hd_task *stuck;
    hd_dispatcher *pool = pool_held(rt, hold_worker, &hold, &stuck);
    model_calm(false);
    start_spare(pool);
    hd_task *task = poll_on(pool, let_go, &hold);
    MODEL_EQUAL(rt_join(task) + rt_join(stuck), 0);
    model_calm(true);
    hd_dispatcher_unref(pool);
    rt_stop(rt);
}

/* It is in the queue of the stuck worker, which is not alone with it though there is no other. */
static hd_poll hold_and_queue(void *state, int *result)
{
    struct hold *hold = *(struct hold **)state;
    for (int i = 0; i < 2; i++) MODEL_EQUAL(hd_spawn_poll(NULL, let_go, &hold, sizeof(hold)), 0);
    return hold_worker(state, result);
}

MODEL(spare_steals, .sc = 1, .tso = 1, .pso = 1, RT_STEPS, .kills = "queue_alone_robbed")
{
    struct hold hold = {.held = 0};
    hd_runtime *rt = rt_start(1);
    model_calm(true);
    hd_task *stuck;
    hd_dispatcher *pool = pool_held(rt, hold_and_queue, &hold, &stuck);
    model_calm(false);
    start_spare(pool);
    MODEL_EQUAL(rt_join(stuck), 0);
    MODEL_EQUAL(hd_runtime_drain(rt, HD_FOREVER), 0);
    model_calm(true);
    hd_dispatcher_unref(pool);
    rt_stop(rt);
}

/* It is in the LIFO slot of the stuck worker itself, or just about to be put there: the monitor
 * takes it out. */
static hd_poll hold_and_spawn(void *state, int *result)
{
    struct hold *hold = *(struct hold **)state;
    hdi_store_release(&hold->held, 1);
    MODEL_EQUAL(hd_spawn_poll(NULL, let_go, &hold, sizeof(hold)), 0);
    return hold_worker(state, result);
}

MODEL(spare_takes_over, .sc = 1, .tso = 1, .pso = 1, RT_STEPS)
{
    struct hold hold = {.held = 0};
    struct hdi_runq between;
    hdi_runq_init(&between, HDI_RUNQ_RING, true);
    hd_runtime *rt = rt_start(1);
    model_calm(true);
    hd_task *stuck;
    hd_dispatcher *pool = pool_held(rt, hold_and_spawn, &hold, &stuck);
    model_calm(false);
    while (!hdi_find_take_over(&pool->workers[0], &between)) hdi_cpu_relax();
    start_spare(pool);
    MODEL_EQUAL(rt_join(stuck), 0);
    MODEL_EQUAL(hd_runtime_drain(rt, HD_FOREVER), 0);
    model_calm(true);
    hd_dispatcher_unref(pool);
    rt_stop(rt);
}

/* The same while the spare is the reserve, to which that is none of its business: it comes for it
 * when it is the reserve no longer. */
MODEL(reserve_is_dismissed, .sc = 1, .tso = 1, .pso = 1, RT_STEPS,
      .kills = "reserve_dismissed_silently")
{
    struct hold hold = {.held = 0};
    struct hdi_runq between;
    hdi_runq_init(&between, HDI_RUNQ_RING, true);
    hd_runtime *rt = rt_start(1);
    model_calm(true);
    hd_task *stuck;
    hd_dispatcher *pool = pool_held(rt, hold_and_spawn, &hold, &stuck);
    hdi_spares_appoint(pool);
    MODEL_EQUAL(pool->reserve == &pool->workers[1], 1);
    hdi_model_name_thread(pool->workers[1].thread.model, "reserve");
    while (!hdi_find_take_over(&pool->workers[0], &between)) hdi_cpu_relax();
    model_calm(false);
    hdi_spares_dismiss(pool);
    MODEL_EQUAL(rt_join(stuck), 0);
    MODEL_EQUAL(hd_runtime_drain(rt, HD_FOREVER), 0);
    model_calm(true);
    hd_dispatcher_unref(pool);
    rt_stop(rt);
}

static hd_poll set_word(void *state, int *result)
{
    hdi_store_release(*(_Atomic(uint32_t) **)state, 1);
    *result = 0;
    return HD_READY;
}

static hd_poll spawn_one(void *state, int *result)
{
    MODEL_EQUAL(hd_spawn_poll(NULL, set_word, state, sizeof(void *)), 0);
    *result = 0;
    return HD_READY;
}

/* A spare that has something in its queue is excused. */
MODEL(spare_goes, .sc = 2, .tso = 2, .pso = 2, RT_STEPS, .kills = "spare_keeps_tasks")
{
    _Atomic(uint32_t) ran = 0;
    hd_runtime *rt = rt_start(1);
    model_calm(true);
    hd_dispatcher *pool = pool_with_spare(rt);
    start_spare(pool);
    settle_pool(pool);
    model_calm(false);
    hd_detach(poll_on(pool, spawn_one, &ran));
    hdi_spares_excuse(pool, 1);
    MODEL_EQUAL(hd_runtime_drain(rt, HD_FOREVER), 0);
    MODEL_EQUAL(hdi_load_relaxed(&ran), 1);
    model_calm(true);
    hd_dispatcher_unref(pool);
    rt_stop(rt);
}

static int sleep_1(void *arg)
{
    struct hold *hold = arg;
    hdi_store_release(&hold->let_go, 1); /* By now the other holds worker 0, and can go. */
    MODEL_EQUAL(hd_sleep_until(1), 0);
    return 5;
}

/* A spare that has a timer is excused. */
MODEL(spare_goes_with_timer, .sc = 2, .tso = 2, .pso = 2, RT_STEPS, .kills = "spare_keeps_time")
{
    struct hold hold = {.held = 0};
    hd_runtime *rt = rt_start(1);
    model_calm(true);
    hd_task *stuck;
    hd_dispatcher *pool = pool_held(rt, hold_worker, &hold, &stuck);
    start_spare(pool);
    hd_task *sleeper = spawn_on(pool, sleep_1, &hold, 0);
    while (hdi_word_lifecycle(hdi_load_acquire(&sleeper->word)) != HDI_IDLE) hdi_cpu_relax();
    MODEL_EQUAL(rt_join(stuck), 0);
    settle_pool(pool);
    model_calm(false);
    hdi_spares_excuse(pool, 1);
    MODEL_EQUAL(rt_join(sleeper), 5);
    model_calm(true);
    hd_dispatcher_unref(pool);
    rt_stop(rt);
}
