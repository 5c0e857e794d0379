/* SPDX-License-Identifier: MIT
 *
 * waiter: wait/waiter.h for each kind of waiting side. Of completers, a timeout and a cancel
 * exactly one ends a wait; no number is lost or given twice; a wait that ended otherwise
 * leaves its owner's memory alone, and nobody touches it once its owner has gone on.
 */
#include "box.h"
#include "rt.h"

struct scene {
    struct box box;
    int64_t deadline;
    int result, number; /* by the one who waits; ordered by a join */
    _Atomic(uint32_t) leave;
    hd_waker waker;
};

static void scene_init(struct scene *s, bool two_steps, int64_t deadline)
{
    *s = (struct scene){.deadline = deadline};
    box_init(&s->box, two_steps);
}

static void scene_end(struct scene *s, int given)
{
    MODEL_EQUAL(s->number + box_rest(&s->box), given);
    MODEL_EQUAL(s->number != BOX_NOTHING, s->result == 0);
    MODEL_EQUAL(model_live(), 0);
}

static void put_1(void *arg)
{
    struct scene *s = arg;
    box_put(&s->box, 1);
}

static void put_2(void *arg)
{
    struct scene *s = arg;
    box_put(&s->box, 2);
}

static void take(struct scene *s)
{
    s->result = box_take(&s->box, &s->number, s->deadline);
}

/* ---- a thread ---- */

static void thread_waits(bool two_steps, int64_t deadline)
{
    struct scene s;
    scene_init(&s, two_steps, deadline);
    void *t = model_thread(put_1, &s), *u = model_thread(put_2, &s);
    take(&s);
    model_join(t);
    model_join(u);
    MODEL_CHECK(s.result == 0 || (s.result == -ETIMEDOUT && deadline != HD_FOREVER));
    scene_end(&s, 3);
}

MODEL(waiter_thread, .sc = 3, .tso = 2, .pso = 2,
      .kills = "waiter_blind_decide waiter_blind_sleep")
{
    thread_waits(false, 1);
}
MODEL(waiter_thread_filled, .sc = 3, .tso = 2, .pso = 2,
      .kills = "waiter_half_filled waiter_blind_sleep")
{
    thread_waits(true, 1);
}
MODEL(waiter_thread_forever, .sc = 3, .tso = 2, .pso = 2, .early_wakes = true)
{
    thread_waits(model_any(2), HD_FOREVER);
}

/* Two threads wait, and give each other's place away. */
static void take_thread(void *arg)
{
    take(arg);
}

MODEL(waiter_two_threads, .sc = 2, .tso = 2, .pso = 1)
{
    struct scene s;
    scene_init(&s, model_any(2), 1);
    void *t = model_thread(take_thread, &s), *u = model_thread(put_1, &s);
    int number;
    const int result = box_take(&s.box, &number, 1);
    model_join(t);
    model_join(u);
    MODEL_CHECK(result != 0 || s.result != 0);
    MODEL_EQUAL(s.number + number + box_rest(&s.box), 1);
}

/* ---- a fiber ---- */

static int take_fiber(void *arg)
{
    struct scene *s = arg;
    take(s);
    return s->result;
}

/* It comes, and the number comes: at once, or when all is asleep. */
static void fiber_waits(bool two_steps, int64_t deadline, bool settle, bool cancel)
{
    struct scene s;
    scene_init(&s, two_steps, deadline);
    hd_runtime *rt = rt_start(1);
    hd_task *task = rt_fiber(rt, take_fiber, &s);
    if (settle) rt_settle(rt);
    void *t = cancel ? model_thread(put_1, &s) : NULL;
    if (cancel) {
        hd_cancel(task);
    } else {
        box_put(&s.box, 1);
    }
    const int result = rt_join(task);
    MODEL_CHECK(result == 0 || (cancel && result == -ECANCELED) ||
                (deadline != HD_FOREVER && result == -ETIMEDOUT));
    if (t) model_join(t);
    rt_stop(rt);
    scene_end(&s, 1);
}

MODEL(waiter_fiber, .sc = 2, .tso = 2, .pso = 2, RT_STEPS, .kills = "word_idle_undecided")
{
    fiber_waits(false, HD_FOREVER, false, false);
}
MODEL(waiter_fiber_filled, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    fiber_waits(true, HD_FOREVER, false, false);
}
MODEL(waiter_fiber_until, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    fiber_waits(false, 1, true, false);
}
MODEL(waiter_fiber_cancelled, .sc = 2, .tso = 2, .pso = 1, RT_STEPS,
      .kills = "waiter_cancel_wins waiter_blind_decide waiter_touch_late")
{
    fiber_waits(false, HD_FOREVER, true, true);
}
MODEL(waiter_fiber_filled_cancelled, .sc = 2, .tso = 1, .pso = 1, RT_STEPS,
      .kills = "waiter_half_filled waiter_cancel_wins")
{
    fiber_waits(true, HD_FOREVER, true, true);
}
MODEL(waiter_fiber_all, .sc = 2, .tso = 1, .pso = 1, RT_STEPS)
{
    fiber_waits(false, 1, true, true);
}
MODEL(waiter_fiber_filled_all, .sc = 2, .tso = 1, .pso = 1, RT_STEPS)
{
    fiber_waits(true, 1, true, true);
}

/* Two fibers wait on two workers, one after the other's number. */
static int take_and_pass(void *arg)
{
    struct scene *s = arg;
    int number;
    MODEL_EQUAL(box_take(&s->box, &number, HD_FOREVER), 0);
    box_put(&s->box, number);
    return number;
}

MODEL(waiter_two_fibers, .sc = 1, .tso = 1, .pso = 1, RT_STEPS)
{
    struct scene s;
    scene_init(&s, model_any(2), HD_FOREVER);
    hd_runtime *rt = rt_start(2);
    hd_task *a = rt_fiber(rt, take_and_pass, &s), *b = rt_fiber(rt, take_and_pass, &s);
    box_put(&s.box, 1);
    MODEL_EQUAL(rt_join(a) + rt_join(b), 2);
    rt_stop(rt);
    MODEL_EQUAL(box_rest(&s.box), 1);
}

/* ---- a stackless task ---- */

struct take_state {
    struct scene *scene;
    struct box_wait *wait;
};

static hd_poll take_poll(void *state, int *result)
{
    struct scene *s = *(struct scene **)state;
    struct take_state *own = state;
    if (!own->wait) own->wait = box_wait_new(&s->box);
    *result = hdi_wait_poll(&own->wait->waiter, &own->wait->c, 1, 0, s->deadline);
    if (*result == -EAGAIN) return HD_PENDING;
    s->result = *result;
    s->number = box_wait_end(own->wait, *result);
    return HD_READY;
}

static hd_task *spawn_take(hd_runtime *rt, hd_poll_fn *fn, struct scene *s)
{
    const struct take_state state = {s, NULL};
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.runtime = rt;
    hd_task *task = NULL;
    MODEL_EQUAL(hd_spawn_poll_with(&task, fn, &state, sizeof(state), &options), 0);
    MODEL_NAME(task->word);
    return task;
}

static void task_waits(bool two_steps, int64_t deadline, bool settle, bool cancel)
{
    struct scene s;
    scene_init(&s, two_steps, deadline);
    hd_runtime *rt = rt_start(1);
    hd_task *task = spawn_take(rt, take_poll, &s);
    if (settle) rt_settle(rt);
    void *t = cancel ? model_thread(put_1, &s) : NULL;
    if (cancel) {
        hd_cancel(task);
    } else {
        box_put(&s.box, 1);
    }
    (void)rt_join(task);
    if (t) model_join(t);
    MODEL_CHECK(s.result == 0 || (cancel && s.result == -ECANCELED) ||
                (deadline != HD_FOREVER && s.result == -ETIMEDOUT));
    rt_stop(rt);
    scene_end(&s, 1);
}

MODEL(waiter_task, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    task_waits(model_any(2), HD_FOREVER, false, false);
}
MODEL(waiter_task_until, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    task_waits(model_any(2), 1, true, false);
}
MODEL(waiter_task_cancelled, .sc = 2, .tso = 2, .pso = 1, RT_STEPS,
      .kills = "waiter_cancel_wins waiter_touch_late")
{
    task_waits(false, HD_FOREVER, true, true);
}
MODEL(waiter_task_filled_cancelled, .sc = 2, .tso = 1, .pso = 1, RT_STEPS,
      .kills = "waiter_half_filled")
{
    task_waits(true, HD_FOREVER, true, true);
}
MODEL(waiter_task_all, .sc = 2, .tso = 1, .pso = 1, RT_STEPS)
{
    task_waits(true, 1, true, true);
}

/* It ends for another reason, and what it had won goes back. */
static hd_poll leave_poll(void *state, int *result)
{
    struct scene *s = *(struct scene **)state;
    struct take_state *own = state;
    if (!own->wait) {
        own->wait = box_wait_new(&s->box);
        s->waker = hd_waker_self();
    }
    *result = hdi_load_relaxed(&s->leave)
                  ? -ECANCELED
                  : hdi_wait_poll(&own->wait->waiter, &own->wait->c, 1, 0, s->deadline);
    return *result == -EAGAIN ? HD_PENDING : HD_READY;
}

static void drop_take(void *state)
{
    model_free(((struct take_state *)state)->wait);
}

MODEL(waiter_task_leaves, .sc = 2, .tso = 1, .pso = 1, RT_STEPS)
{
    struct scene s;
    scene_init(&s, model_any(2), HD_FOREVER);
    hd_runtime *rt = rt_start(1);
    const struct take_state state = {&s, NULL};
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.runtime = rt;
    options.drop = drop_take;
    hd_task *task = NULL;
    MODEL_EQUAL(hd_spawn_poll_with(&task, leave_poll, &state, sizeof(state), &options), 0);
    rt_settle(rt);
    void *t = model_thread(put_1, &s);
    hdi_store_relaxed(&s.leave, 1); /* The wake orders it. */
    hd_waker_wake(s.waker);
    const int result = rt_join(task);
    model_join(t);
    rt_stop(rt);
    MODEL_EQUAL(box_rest(&s.box), result == 0 ? 0 : 1);
    MODEL_EQUAL(model_live(), 0);
}

/* Its runtime is gone as soon as it has ended, wherever the one is that completed it. */
MODEL(waiter_task_gone, .sc = 2, .tso = 1, .pso = 1, RT_STEPS, .kills = "waiter_no_guest")
{
    struct scene s;
    scene_init(&s, false, HD_FOREVER);
    hd_runtime *rt = rt_start(1);
    hd_task *task = spawn_take(rt, take_poll, &s);
    rt_settle(rt);
    void *t = model_thread(put_1, &s);
    hd_cancel(task);
    (void)rt_join(task);
    hd_runtime_destroy(rt);
    model_join(t);
    scene_end(&s, 1);
}
