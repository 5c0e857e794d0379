/* SPDX-License-Identifier: MIT
 *
 * nursery: scope/scope.h and scope/nursery.h in a whole runtime. Whoever leaves a nursery finds
 * that every child it took has ended, and nobody touches the nursery afterwards; a cancel reaches
 * everything below, whatever happens at the same time.
 */
#include <errno.h>

#include <heddle/nursery.h>

#include "rt.h"

/* Nurseries are in memory that tells when it is touched after it was freed. */
static hd_nursery *open_new(const hd_nursery_options *options)
{
    hd_nursery *n = model_alloc(sizeof(*n));
    MODEL_EQUAL(hd_nursery_open(n, options), 0);
    hdi_model_name(n, sizeof(*n), "nursery");
    return n;
}

static int leave_and_free(hd_nursery *n)
{
    const int result = hd_nursery_leave(n);
    model_free(n);
    return result;
}

struct house {
    _Atomic(uint32_t) ended;
    int number;
    int child_returns;
    struct gate gate;
    hd_nursery *nursery;
    hd_task *owner;
    _Atomic(uint32_t) refused;
};

static void house_init(struct house *h)
{
    *h = (struct house){.number = 0};
    gate_init(&h->gate);
}

static hd_poll quick_child(void *state, int *result)
{
    struct house *h = *(struct house **)state;
    MODEL_WRITE(h->number, MODEL_READ(h->number) + 1);
    hdi_fetch_add_relaxed(&h->ended, 1); /* Leaving the nursery orders it. */
    *result = h->child_returns;
    return HD_READY;
}

static void go_poll(hd_nursery *n, hd_poll_fn *fn, struct house *h, int expected)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.nursery = n;
    void *state = h;
    MODEL_EQUAL(hd_spawn_poll_with(NULL, fn, &state, sizeof(state), &options), expected);
}

/* ---- leaving ---- */

static int owner_fiber(void *arg)
{
    struct house *h = arg;
    hd_nursery *n = open_new(NULL);
    go_poll(n, quick_child, h, 0);
    const int result = leave_and_free(n);
    MODEL_EQUAL(hdi_load_relaxed(&h->ended), 1);
    MODEL_EQUAL(MODEL_READ(h->number), 1);
    return result;
}

MODEL(nursery_fiber, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    struct house h;
    house_init(&h);
    hd_runtime *rt = rt_start(2);
    MODEL_EQUAL(rt_join(rt_fiber(rt, owner_fiber, &h)), 0);
    rt_stop(rt);
}

MODEL(nursery_thread, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    struct house h;
    house_init(&h);
    hd_runtime *rt = rt_start(1);
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    options.runtime = rt;
    hd_nursery *n = open_new(&options);
    go_poll(n, quick_child, &h, 0);
    MODEL_EQUAL(leave_and_free(n), 0);
    MODEL_EQUAL(MODEL_READ(h.number), 1);
    rt_stop(rt);
}

static hd_poll owner_poll(void *state, int *result)
{
    struct house *h = *(struct house **)state;
    if (!h->nursery) {
        h->nursery = open_new(NULL);
        go_poll(h->nursery, quick_child, h, 0);
    }
    if (hd_nursery_wait_poll(h->nursery, result) == HD_PENDING) return HD_PENDING;
    MODEL_EQUAL(MODEL_READ(h->number), 1);
    (void)leave_and_free(h->nursery);
    return HD_READY;
}

MODEL(nursery_poll, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    struct house h;
    house_init(&h);
    hd_runtime *rt = rt_start(2);
    MODEL_EQUAL(rt_join(rt_poll(rt, owner_poll, &h)), 0);
    rt_stop(rt);
}

/* Who has a handle finds the child ended as soon as the nursery is. */
static int owner_with_handle(void *arg)
{
    struct house *h = arg;
    hd_nursery *n = open_new(NULL);
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.nursery = n;
    void *state = h;
    hd_task *child;
    MODEL_EQUAL(hd_spawn_poll_with(&child, quick_child, &state, sizeof(state), &options), 0);
    const int result = leave_and_free(n);
    MODEL_EQUAL(hd_join_try(child, NULL), 0);
    return result;
}

MODEL(nursery_handle, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    struct house h;
    house_init(&h);
    hd_runtime *rt = rt_start(2);
    MODEL_EQUAL(rt_join(rt_fiber(rt, owner_with_handle, &h)), 0);
    rt_stop(rt);
}

/* ---- a spawn against the close ---- */

static hd_poll spawning_child(void *state, int *result)
{
    struct house *h = *(struct house **)state;
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.nursery = h->nursery;
    void *inner = h;
    const int err = hd_spawn_poll_with(NULL, quick_child, &inner, sizeof(inner), &options);
    MODEL_CHECK(err == 0 || err == -EPIPE);
    if (err) hdi_fetch_add_relaxed(&h->refused, 1); /* Leaving the nursery orders it. */
    *result = 0;
    return HD_READY;
}

MODEL(nursery_spawn_close, .sc = 2, .tso = 2, .pso = 2, RT_STEPS, .kills = "nursery_spawn_blind")
{
    struct house h;
    house_init(&h);
    hd_runtime *rt = rt_start(1);
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    options.runtime = rt;
    h.nursery = open_new(&options);
    go_poll(h.nursery, spawning_child, &h, 0);
    hd_nursery_close(h.nursery);
    const hd_nursery_info info = hd_nursery_look(h.nursery);
    const uint64_t before = info.spawned;
    MODEL_EQUAL(hd_nursery_wait(h.nursery), 0);
    MODEL_EQUAL(hd_nursery_look(h.nursery).spawned, before);
    MODEL_EQUAL(leave_and_free(h.nursery), 0);
    MODEL_EQUAL(hdi_load_relaxed(&h.ended) + hdi_load_relaxed(&h.refused), 1);
    rt_stop(rt);
}

/* ---- cancelling ---- */

static int sleeping_child(void *arg)
{
    struct house *h = arg;
    int err;
    do err = hd_park();
    while (err == 0);
    MODEL_EQUAL(err, -ECANCELED);
    hdi_fetch_add_relaxed(&h->ended, 1); /* Leaving the nursery orders it. */
    return err;
}

/* A failure wakes the sibling that sleeps; the last to end may be either. */
static int owner_of_two(void *arg)
{
    struct house *h = arg;
    hd_nursery *n = open_new(NULL);
    MODEL_EQUAL(hd_go(n, sleeping_child, h), 0);
    h->child_returns = -EIO;
    go_poll(n, quick_child, h, 0);
    const int result = leave_and_free(n);
    MODEL_EQUAL(hdi_load_relaxed(&h->ended), 2);
    return result;
}

MODEL(nursery_failure, .sc = 1, .tso = 1, .pso = 1, RT_STEPS)
{
    struct house h;
    house_init(&h);
    hd_runtime *rt = rt_start(2);
    MODEL_EQUAL(rt_join(rt_fiber(rt, owner_of_two, &h)), -EIO);
    rt_stop(rt);
}

/* The one that fails is the last: who waited for it may be gone. */
MODEL(nursery_failure_last, .sc = 2, .tso = 2, .pso = 2, RT_STEPS, .kills = "nursery_end_unheld")
{
    struct house h;
    house_init(&h);
    hd_runtime *rt = rt_start(1);
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    options.runtime = rt;
    hd_nursery *n = open_new(&options);
    h.child_returns = -EIO;
    go_poll(n, quick_child, &h, 0);
    MODEL_EQUAL(leave_and_free(n), -EIO);
    rt_stop(rt);
}

/* A cancel of the owner comes from another thread at any moment. */
static int owner_of_sleeper(void *arg)
{
    struct house *h = arg;
    hd_nursery *n = open_new(NULL);
    const int err = hd_go(n, sleeping_child, h);
    MODEL_CHECK(err == 0 || err == -ECANCELED);
    const int result = leave_and_free(n);
    MODEL_EQUAL(hdi_load_relaxed(&h->ended), err ? 0 : 1);
    MODEL_EQUAL(result, err ? 0 : -ECANCELED);
    return 0;
}

static void cancel_owner(void *arg)
{
    struct house *h = arg;
    hd_cancel(h->owner);
}

static void cancel_owner_of_sleeper(unsigned workers)
{
    struct house h;
    house_init(&h);
    hd_runtime *rt = rt_start(workers);
    h.owner = rt_fiber(rt, owner_of_sleeper, &h);
    cancel_owner(&h);
    MODEL_EQUAL(rt_join(h.owner), 0);
    rt_stop(rt);
}

MODEL(nursery_cancel_owner, .sc = 2, .tso = 2, .pso = 2, RT_STEPS, .kills = "scope_enter_blind")
{
    cancel_owner_of_sleeper(1);
}
MODEL(nursery_cancel_owner_two, .sc = 2, .tso = 1, .pso = 1, RT_STEPS)
{
    cancel_owner_of_sleeper(2);
}

/* The child ends by itself while the owner is cancelled: the one who tells the nursery may be the
 * last to hold it. */
static int owner_of_quick(void *arg)
{
    struct house *h = arg;
    hd_nursery *n = open_new(NULL);
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.nursery = n;
    void *state = h;
    const int err = hd_spawn_poll_with(NULL, quick_child, &state, sizeof(state), &options);
    MODEL_CHECK(err == 0 || err == -ECANCELED);
    return leave_and_free(n);
}

MODEL(nursery_cancel_leave, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    struct house h;
    house_init(&h);
    hd_runtime *rt = rt_start(1);
    h.owner = rt_fiber(rt, owner_of_quick, &h);
    cancel_owner(&h);
    MODEL_EQUAL(rt_join(h.owner), 0);
    rt_stop(rt);
}

/* The same with as little as there can be. */
static int in_and_out(void *arg)
{
    (void)arg;
    hd_scope *scope = model_alloc(sizeof(*scope));
    MODEL_EQUAL(hd_scope_enter(scope, NULL), 0);
    hd_scope_leave(scope);
    model_free(scope);
    return 0;
}

MODEL(scope_cancel_leave, .sc = 3, .tso = 2, .pso = 2, RT_STEPS, .kills = "scope_unlink_blind")
{
    struct house h;
    house_init(&h);
    hd_runtime *rt = rt_start(1);
    h.owner = rt_fiber(rt, in_and_out, NULL);
    cancel_owner(&h);
    MODEL_EQUAL(rt_join(h.owner), 0);
    rt_stop(rt);
}

/* Two levels: the cancel goes through a task that never looks. */
static int middle(void *arg)
{
    struct house *h = arg;
    hd_nursery *n = open_new(NULL);
    const int err = hd_go(n, sleeping_child, h);
    MODEL_CHECK(err == 0 || err == -ECANCELED);
    if (err) hdi_fetch_add_relaxed(&h->ended, 1);
    return leave_and_free(n);
}

MODEL(nursery_tree, .sc = 2, .tso = 1, .pso = 1, RT_STEPS)
{
    struct house h;
    house_init(&h);
    hd_runtime *rt = rt_start(1);
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    options.runtime = rt;
    hd_nursery *n = open_new(&options);
    MODEL_EQUAL(hd_go(n, middle, &h), 0);
    hd_nursery_cancel(n);
    const int result = leave_and_free(n);
    MODEL_CHECK(result == -ECANCELED || result == 0);
    MODEL_EQUAL(hdi_load_relaxed(&h.ended), 1);
    rt_stop(rt);
}

/* ---- time ---- */

/* The deadline passes while the nursery ends by itself. */
static int owner_in_a_hurry(void *arg)
{
    struct house *h = arg;
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    options.deadline = 1;
    hd_nursery *n = open_new(&options);
    hd_spawn_options spawn = HD_SPAWN_OPTIONS_INIT;
    spawn.nursery = n;
    void *state = h;
    const int err = hd_spawn_poll_with(NULL, quick_child, &state, sizeof(state), &spawn);
    MODEL_CHECK(err == 0 || err == -ETIMEDOUT);
    return leave_and_free(n);
}

MODEL(nursery_deadline, .sc = 1, .tso = 1, .pso = 1, RT_STEPS)
{
    struct house h;
    house_init(&h);
    hd_runtime *rt = rt_start(2);
    hd_task *owner = rt_fiber(rt, owner_in_a_hurry, &h);
    model_pass(2);
    MODEL_EQUAL(rt_join(owner), 0);
    rt_stop(rt);
}
