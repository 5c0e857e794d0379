/* SPDX-License-Identifier: MIT
 *
 * timer: wait/timer.h and sched/keeper.h. A timer that was stopped is not touched any more,
 * and what it fires has one outcome; no deadline passes while all that could fire it sleep
 * without a limit, which is a deadlock, or wait for it in vain, which is a livelock.
 */
#include <heddle/time.h>

#include "box.h"
#include "os/clock.h"
#include "rt.h"

/* ---- firing against stopping, without a runtime ---- */

struct shop {
    struct hdi_timers timers;
    struct box box;
};

/* No worker is about that could publish, so none is asked to. */
static void shop_init(struct shop *shop)
{
    hdi_timers_init(&shop->timers, 0);
    shop->timers.unpublished = true;
    box_init(&shop->box, false);
    MODEL_NAME(shop->timers.lock);
}

static void fire(void *arg)
{
    struct shop *shop = arg;
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_timers_fire(&shop->timers, 1, &wakeups);
    MODEL_CHECK(!wakeups.first);
}

static void put_1(void *arg)
{
    struct shop *shop = arg;
    box_put(&shop->box, 1);
}

/* As a fiber does, but that it is a thread: the timer is in the waiter. */
static int take_with_timer(struct shop *shop, int *number)
{
    struct box_wait *wait = box_wait_new(&shop->box);
    struct hdi_waiter *waiter = &wait->waiter;
    struct hdi_node *node = hdi_case_node(&wait->c);
    struct hdi_wakeups none = HDI_WAKEUPS_INIT;
    MODEL_EQUAL(hdi_waiter_begin(waiter, true), 0);
    node->waiter = waiter;
    node->index = 0;
    hdi_lock_take(&shop->box.base.lock);
    const bool had = box_attempt(&wait->c, &none);
    if (!had) (void)box_enqueue(&wait->c);
    hdi_lock_give(&shop->box.base.lock);
    int result = 0;
    if (!had) {
        waiter->timer.kind = HDI_TIMER_WAITER;
        hdi_timer_start(&waiter->timer, &shop->timers, 1);
        result = hdi_waiter_sleep_thread(waiter, HD_FOREVER) == 0 ? 0 : -ETIMEDOUT;
        (void)hdi_timer_stop(&waiter->timer);
        hdi_lock_take(&shop->box.base.lock);
        hdi_node_dequeue(node);
        hdi_lock_give(&shop->box.base.lock);
        if (!result) box_taken(&wait->c);
    }
    *number = box_wait_end(wait, result);
    return result;
}

MODEL(timer_fire_or_put, .sc = 3, .tso = 2, .pso = 2,
      .kills = "timer_fire_unlocked waiter_blind_decide")
{
    struct shop shop;
    shop_init(&shop);
    void *t = model_thread(fire, &shop), *u = model_thread(put_1, &shop);
    int number;
    (void)take_with_timer(&shop, &number);
    model_join(t);
    model_join(u);
    MODEL_EQUAL(number + box_rest(&shop.box), 1);
    MODEL_EQUAL(hdi_wheel_count(&shop.timers.wheel), 0);
    MODEL_EQUAL(model_live(), 0);
}

/* ---- a task's own timer ---- */

struct alarm {
    hd_timer *timer; /* the task's; goes when it has ended */
    _Atomic(uint32_t) started;
    bool stopped; /* by who stops it; ordered by a join */
};

static hd_poll alarm_poll(void *state, int *result)
{
    struct alarm *alarm = *(struct alarm **)state;
    if (!alarm->timer) {
        alarm->timer = model_alloc(sizeof(hd_timer));
        MODEL_EQUAL(hd_timer_start(alarm->timer, 1), 0);
        MODEL_EQUAL(hd_timer_start(alarm->timer, 2), -EBUSY);
        hdi_store_release(&alarm->started, 1);
    }
    const bool cancelled = hd_cancelled();
    if (!hd_timer_fired(alarm->timer) && !cancelled) return HD_PENDING;
    const bool stopped = hd_timer_stop(alarm->timer);
    if (!cancelled) MODEL_CHECK(!stopped);
    MODEL_CHECK(stopped != hd_timer_fired(alarm->timer));
    model_free(alarm->timer);
    *result = stopped;
    return HD_READY;
}

MODEL(timer_task, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    struct alarm alarm = {.started = 0};
    hd_runtime *rt = rt_start(1);
    MODEL_EQUAL(rt_join(rt_poll(rt, alarm_poll, &alarm)), 0);
    MODEL_EQUAL(hdi_clock_now(), 1);
    rt_stop(rt);
}

MODEL(timer_task_stopped, .sc = 1, .tso = 1, .pso = 1, RT_STEPS)
{
    struct alarm alarm = {.started = 0};
    hd_runtime *rt = rt_start(2);
    hd_task *task = rt_poll(rt, alarm_poll, &alarm);
    rt_settle(rt);
    hd_cancel(task);
    const int stopped = rt_join(task);
    MODEL_CHECK(stopped || hdi_clock_now() == 1);
    rt_stop(rt);
}

/* Stopped by another while it fires. */
static hd_poll alarm_other_poll(void *state, int *result)
{
    struct alarm *alarm = *(struct alarm **)state;
    if (!alarm->timer) {
        alarm->timer = model_alloc(sizeof(hd_timer));
        MODEL_EQUAL(hd_timer_start(alarm->timer, 1), 0);
    }
    *result = 0;
    return hd_timer_fired(alarm->timer) || hd_cancelled() ? HD_READY : HD_PENDING;
}

MODEL(timer_other_stops, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    struct alarm alarm = {.started = 0};
    hd_runtime *rt = rt_start(1);
    hd_task *task = rt_poll(rt, alarm_other_poll, &alarm);
    rt_settle(rt);
    const bool stopped = hd_timer_stop(alarm.timer);
    MODEL_CHECK(stopped != hd_timer_fired(alarm.timer));
    if (stopped) hd_cancel(task);
    MODEL_EQUAL(rt_join(task), 0);
    model_free(alarm.timer);
    rt_stop(rt);
}

/* ---- who watches the time ---- */

static int sleep_1(void *arg)
{
    _Atomic(uint32_t) *awake = arg;
    MODEL_EQUAL(hd_sleep_until(1), 0);
    MODEL_CHECK(hdi_clock_now() >= 1);
    if (awake) hdi_store_release(awake, 1);
    return 5;
}

MODEL(keeper_one, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    hd_runtime *rt = rt_start(1);
    MODEL_EQUAL(rt_join(rt_fiber(rt, sleep_1, NULL)), 5);
    rt_stop(rt);
}

/* The other worker keeps the time, and sleeps without a limit until it is told. */
MODEL(keeper_two, .sc = 2, .tso = 1, .pso = 1, RT_STEPS, .kills = "keeper_park_silent")
{
    hd_runtime *rt = rt_start(2);
    MODEL_EQUAL(rt_join(rt_fiber(rt, sleep_1, NULL)), 5);
    rt_stop(rt);
}

/* The worker that has the timer is busy until it has fired. */
static hd_poll await_awake(void *state, int *result)
{
    _Atomic(uint32_t) *awake = *(_Atomic(uint32_t) **)state;
    while (!hdi_load_acquire(awake)) hdi_cpu_relax();
    *result = 0;
    return HD_READY;
}

static int sleep_with_busy(void *arg)
{
    MODEL_EQUAL(hd_spawn_poll(NULL, await_awake, &arg, sizeof(arg)), 0);
    return sleep_1(arg);
}

MODEL(keeper_busy, .sc = 1, .tso = 1, .pso = 1, RT_STEPS, .kills = "keeper_publish_silent")
{
    _Atomic(uint32_t) awake = 0;
    hd_runtime *rt = rt_start(2);
    MODEL_EQUAL(rt_join(rt_fiber(rt, sleep_with_busy, &awake)), 5);
    rt_stop(rt);
}

static hd_poll nothing(void *state, int *result)
{
    (void)state;
    *result = 0;
    return HD_READY;
}

/* The other worker is on its way to sleep. */
MODEL(keeper_busy_early, .sc = 1, .tso = 1, .pso = 1, RT_STEPS,
      .kills = "keeper_publish_silent")
{
    _Atomic(uint32_t) awake = 0;
    hd_runtime *rt = rt_start(2);
    hd_detach(rt_poll(rt, nothing, NULL));
    MODEL_EQUAL(rt_join(rt_fiber(rt, sleep_with_busy, &awake)), 5);
    rt_stop(rt);
}

/* Who kept the time is the busy one, and it must be kept by the other. */
static int sleep_twice(void *arg)
{
    MODEL_EQUAL(hd_sleep_until(1), 0);
    MODEL_EQUAL(hd_spawn_poll(NULL, await_awake, &arg, sizeof(arg)), 0);
    MODEL_EQUAL(hd_sleep_until(2), 0);
    hdi_store_release((_Atomic(uint32_t) *)arg, 1);
    return 5;
}

MODEL(keeper_again, .sc = 1, .tso = 1, .pso = 1, RT_STEPS, .kills = "keeper_stale_watch")
{
    _Atomic(uint32_t) awake = 0;
    hd_runtime *rt = rt_start(2);
    MODEL_EQUAL(rt_join(rt_fiber(rt, sleep_twice, &awake)), 5);
    rt_stop(rt);
}

/* The keeper is woken for tasks, and somebody must take over. */
MODEL(keeper_claimed, .sc = 1, .tso = 1, .pso = 1, RT_STEPS)
{
    hd_runtime *rt = rt_start(2);
    hd_task *task = rt_fiber(rt, sleep_1, NULL);
    rt_settle(rt);
    hd_detach(rt_poll(rt, nothing, NULL));
    hd_detach(rt_poll(rt, nothing, NULL));
    MODEL_EQUAL(rt_join(task), 5);
    rt_stop(rt);
}

/* An earlier deadline than the one that is watched. */
static int sleep_2(void *arg)
{
    (void)arg;
    MODEL_EQUAL(hd_sleep_until(2), 0);
    return 7;
}

MODEL(keeper_earlier, .sc = 1, .tso = 1, .pso = 1, RT_STEPS)
{
    hd_runtime *rt = rt_start(2);
    hd_task *late = rt_fiber(rt, sleep_2, NULL);
    rt_settle(rt);
    hd_task *early = rt_fiber(rt, sleep_1, NULL);
    MODEL_EQUAL(rt_join(early), 5);
    MODEL_EQUAL(rt_join(late), 7);
    rt_stop(rt);
}

/* A sleep that is cancelled. */
static int sleep_long(void *arg)
{
    (void)arg;
    return hd_sleep_until(1);
}

MODEL(timer_sleep_cancelled, .sc = 1, .tso = 1, .pso = 1, RT_STEPS)
{
    hd_runtime *rt = rt_start(2);
    hd_task *task = rt_fiber(rt, sleep_long, NULL);
    rt_settle(rt);
    hd_cancel(task);
    const int result = rt_join(task);
    MODEL_CHECK(result == -ECANCELED || (result == 0 && hdi_clock_now() == 1));
    rt_stop(rt);
}
