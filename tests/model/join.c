/* SPDX-License-Identifier: MIT
 *
 * join: task/join.c in a whole runtime. Every joiner returns, with the result, exactly
 * once; a disturbed one leaves nothing behind; no task is freed twice or never.
 */
#include <errno.h>

#include "rt.h"

/* ---- from a thread ---- */

static int add_one(void *arg)
{
    int *number = arg;
    MODEL_WRITE(*number, MODEL_READ(*number) + 1);
    return 42;
}

static hd_poll poll_add_one(void *state, int *result)
{
    *result = add_one(*(int **)state);
    return HD_READY;
}

static void join_from_thread(unsigned workers, bool fiber)
{
    hd_runtime *rt = rt_start(workers);
    int number = 0;
    MODEL_WRITE(number, 1);
    hd_task *task = fiber ? rt_fiber(rt, add_one, &number) : rt_poll(rt, poll_add_one, &number);
    MODEL_EQUAL(rt_join(task), 42);
    MODEL_EQUAL(MODEL_READ(number), 2);
    rt_stop(rt);
}

MODEL(join_thread_fiber, .sc = 3, .tso = 3, .pso = 3, RT_STEPS) { join_from_thread(1, true); }
MODEL(join_thread_poll, .sc = 3, .tso = 3, .pso = 3, RT_STEPS, .kills = "join_flag_relaxed")
{
    join_from_thread(1, false);
}
MODEL(join_thread_two, .sc = 2, .tso = 2, .pso = 2, RT_STEPS) { join_from_thread(2, false); }

static void join_until(hd_task *task, int *result)
{
    const int err = hd_join_until(task, result, 1);
    MODEL_CHECK(err == 0 || err == -ETIMEDOUT);
    if (err) MODEL_EQUAL(hd_join(task, result), 0);
}

MODEL(join_until, .sc = 3, .tso = 3, .pso = 3, RT_STEPS)
{
    hd_runtime *rt = rt_start(1);
    int number = 1, result = 0;
    join_until(rt_poll(rt, poll_add_one, &number), &result);
    MODEL_EQUAL(result, 42);
    rt_stop(rt);
}

/* Given up twice and joined from another place: the completer may have seen any of them. */
static void opener(void *arg)
{
    gate_open(arg, 7);
}

static __attribute__((noinline)) int join_deeper(hd_task *task)
{
    volatile int room[64] = {0};
    int result = room[0];
    MODEL_EQUAL(hd_join(task, &result), 0);
    return result + room[0];
}

MODEL(join_until_again, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    struct gate gate;
    gate_init(&gate);
    hd_runtime *rt = rt_start(1);
    hd_task *task = rt_poll(rt, gate_poll, &gate);
    rt_settle(rt);
    int result = 0;
    model_calm(true);
    MODEL_EQUAL(hd_join_until(task, &result, 1), -ETIMEDOUT);
    model_calm(false);
    void *t = model_thread(opener, &gate);
    if (hd_join_until(task, &result, 1) != 0) result = join_deeper(task);
    MODEL_EQUAL(result, 7);
    model_join(t);
    rt_stop(rt);
}

MODEL(join_detach, .sc = 3, .tso = 3, .pso = 3, RT_STEPS)
{
    hd_runtime *rt = rt_start(1);
    int number = 1;
    hd_detach(rt_poll(rt, poll_add_one, &number));
    MODEL_EQUAL(hd_runtime_drain(rt, HD_FOREVER), 0);
    MODEL_EQUAL(MODEL_READ(number), 2);
    rt_stop(rt);
}

MODEL(join_try, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    hd_runtime *rt = rt_start(1);
    int number = 1, result = 0;
    hd_task *task = rt_poll(rt, poll_add_one, &number);
    const int err = hd_join_try(task, &result);
    MODEL_CHECK(err == 0 || err == -EAGAIN);
    if (err) hd_detach(task);
    if (!err) MODEL_EQUAL(result, 42);
    rt_stop(rt);
}

/* ---- from a fiber ---- */

struct family {
    struct gate child_gate;
    hd_waker parent; /* plain: written before the parent first waits */
    hd_task *child;
    int got, next; /* by the parent */
    _Atomic(uint32_t) give_up;
};

static void family_init(struct family *f)
{
    *f = (struct family){.child = NULL};
    gate_init(&f->child_gate);
}

/* Joins a child that waits; then one in whose place the first may have been. */
static int parent_fiber(void *arg)
{
    struct family *f = arg;
    f->parent = hd_waker_self();
    hd_task *child;
    MODEL_EQUAL(hd_spawn_poll(&child, gate_poll, &(void *){&f->child_gate}, sizeof(void *)), 0);
    MODEL_EQUAL(hd_join(child, &f->got), 0);
    int number = 1;
    MODEL_EQUAL(hd_spawn_poll(&child, poll_add_one, &(void *){&number}, sizeof(void *)), 0);
    MODEL_EQUAL(hd_join(child, &f->next), 0);
    return f->got;
}

static void join_from_fiber(unsigned workers, int disturbances)
{
    struct family f;
    family_init(&f);
    hd_runtime *rt = rt_start(workers);
    hd_task *parent = rt_fiber(rt, parent_fiber, &f);
    rt_settle(rt);
    if (disturbances > 1) hd_waker_wake_keep(f.parent);
    gate_open(&f.child_gate, 7);
    if (disturbances > 0) hd_waker_wake_keep(f.parent);
    hd_waker_drop(f.parent);
    MODEL_EQUAL(rt_join(parent), 7);
    MODEL_EQUAL(f.next, 42);
    rt_stop(rt);
}

MODEL(join_fiber, .sc = 2, .tso = 2, .pso = 2, RT_STEPS) { join_from_fiber(1, 0); }
MODEL(join_fiber_woken, .sc = 2, .tso = 2, .pso = 1, RT_STEPS) { join_from_fiber(2, 1); }
MODEL(join_fiber_woken_twice, .sc = 2, .tso = 1, .pso = 1, RT_STEPS) { join_from_fiber(2, 2); }

/* Cancelled while it joins: it leaves without the result, and the child runs on. */
static int impatient_fiber(void *arg)
{
    struct family *f = arg;
    hd_task *child;
    MODEL_EQUAL(hd_spawn_poll(&child, gate_poll, &(void *){&f->child_gate}, sizeof(void *)), 0);
    const int err = hd_join(child, &f->got);
    MODEL_CHECK(err == 0 || err == -ECANCELED);
    if (err) hd_detach(child);
    return err;
}

MODEL(join_fiber_cancelled, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    struct family f;
    family_init(&f);
    hd_runtime *rt = rt_start(2);
    hd_task *parent = rt_fiber(rt, impatient_fiber, &f);
    rt_settle(rt);
    gate_open(&f.child_gate, 7);
    hd_cancel(parent);
    if (rt_join(parent) == 0) MODEL_EQUAL(f.got, 7);
    rt_stop(rt);
}

/* ---- from a stackless task ---- */

static hd_poll parent_poll(void *state, int *result)
{
    struct family *f = *(struct family **)state;
    if (!f->child) {
        f->parent = hd_waker_self();
        MODEL_EQUAL(hd_spawn_poll(&f->child, gate_poll, &(void *){&f->child_gate}, sizeof(void *)),
                    0);
    }
    if (hdi_load_relaxed(&f->give_up)) {
        hd_detach(f->child);
        *result = 1;
        return HD_READY;
    }
    if (hd_join_poll(f->child, &f->got) == HD_PENDING) return HD_PENDING;
    *result = f->got;
    return HD_READY;
}

MODEL(join_poll, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    struct family f;
    family_init(&f);
    hd_runtime *rt = rt_start(2);
    hd_task *parent = rt_poll(rt, parent_poll, &f);
    rt_settle(rt);
    gate_open(&f.child_gate, 7);
    hd_waker_wake(f.parent);
    MODEL_EQUAL(rt_join(parent), 7);
    rt_stop(rt);
}

/* It gives up and ends while the child ends; another task may get its place. */
MODEL(join_poll_given_up, .sc = 2, .tso = 1, .pso = 1, RT_STEPS)
{
    struct family f;
    family_init(&f);
    hd_runtime *rt = rt_start(2);
    hd_task *parent = rt_poll(rt, parent_poll, &f);
    rt_settle(rt);
    gate_open(&f.child_gate, 7);
    hdi_store_relaxed(&f.give_up, 1); /* The wake orders it. */
    hd_waker_wake(f.parent);
    const int result = rt_join(parent);
    MODEL_CHECK(result == 1 || result == 7);
    int number = 1;
    MODEL_EQUAL(rt_join(rt_poll(rt, poll_add_one, &number)), 42);
    rt_stop(rt);
}

/* A child that is next in line runs inside its parent's poll. */
static hd_poll parent_of_quick(void *state, int *result)
{
    struct family *f = *(struct family **)state;
    if (!f->child) {
        MODEL_EQUAL(hd_spawn_poll(&f->child, poll_add_one, &(void *){&f->next}, sizeof(void *)), 0);
    }
    return hd_join_poll(f->child, result);
}

MODEL(join_poll_quick, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    struct family f;
    family_init(&f);
    hd_runtime *rt = rt_start(2);
    MODEL_WRITE(f.next, 1);
    MODEL_EQUAL(rt_join(rt_poll(rt, parent_of_quick, &f)), 42);
    MODEL_EQUAL(MODEL_READ(f.next), 2);
    rt_stop(rt);
}

/* ---- across runtimes ---- */

static int join_stranger(void *arg)
{
    struct family *f = arg;
    MODEL_EQUAL(hd_join(f->child, &f->got), 0);
    return f->got;
}

/* The joiner's runtime ends while the other's worker may still be about to wake it. */
MODEL(join_across, .sc = 1, .tso = 1, .pso = 1, RT_STEPS, .kills = "guest_ignored")
{
    struct family f;
    family_init(&f);
    hd_runtime *here = rt_start(1), *there = rt_start(1);
    f.child = rt_poll(there, gate_poll, &f.child_gate);
    rt_settle(there);
    hd_task *parent = rt_fiber(here, join_stranger, &f);
    gate_open(&f.child_gate, 7);
    MODEL_EQUAL(rt_join(parent), 7);
    hd_runtime_destroy(here);
    rt_stop(there);
}
