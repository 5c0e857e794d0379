/* SPDX-License-Identifier: MIT
 *
 * token: a cancel against everything that hangs on a token: children that come and go, those who
 * wait for it, scopes that are entered and left; and against the end of the token itself. And a
 * child that is started, against the cancel of its starter.
 */
#include <errno.h>

#include <heddle/nursery.h>
#include <heddle/scope.h>

#include "rt.h"

static hd_token *token_new(hd_token *parent)
{
    hd_token *token = hd_token_create(parent);
    MODEL_CHECK(token != NULL);
    return token;
}

/* Whoever sees the cancel sees what was written before it. */
struct family {
    hd_token *root, *child;
    int message;
};

static void cancel_root(void *arg)
{
    struct family *f = arg;
    MODEL_WRITE(f->message, 5);
    hd_token_cancel(f->root);
}

static void expect_message(struct family *f)
{
    MODEL_EQUAL(MODEL_READ(f->message), 5);
}

/* ---- children ---- */

/* One that is made meanwhile is cancelled, from the start or a moment later. */
MODEL(token_child_made, .sc = MODEL_ALL, .tso = 4, .pso = 4, .kills = "token_look_early")
{
    struct family f = {.root = token_new(NULL)};
    void *t = model_thread(cancel_root, &f);
    f.child = token_new(f.root);
    if (hd_token_cancelled(f.child)) expect_message(&f);
    model_join(t);
    MODEL_CHECK(hd_token_cancelled(f.root) && hd_token_cancelled(f.child));
    hd_token_unref(f.root);
    hd_token_unref(f.child);
    MODEL_EQUAL(model_live(), 0);
}

/* One that ends meanwhile is reached or not; its memory goes once. */
MODEL(token_child_ends, .sc = 5, .tso = 4, .pso = 4, .kills = "token_ref_dying")
{
    struct family f = {.root = token_new(NULL)};
    hd_token *middle = token_new(f.root);
    f.child = token_new(middle);
    hd_token_unref(middle);
    void *t = model_thread(cancel_root, &f);
    hd_token_unref(f.child); /* and with it its parent */
    model_join(t);
    MODEL_CHECK(hd_token_cancelled(f.root));
    hd_token_unref(f.root);
    MODEL_EQUAL(model_live(), 0);
}

/* Two cancels, of a parent and of its child: each of the three below is reached by somebody. */
static void cancel_child(void *arg)
{
    struct family *f = arg;
    hd_token_cancel(f->child);
}

MODEL(token_two_cancels, .sc = 3, .tso = 2, .pso = 2)
{
    struct family f = {.root = token_new(NULL)};
    f.child = token_new(f.root);
    hd_token *leaf = token_new(f.child), *other = token_new(f.root);
    void *t = model_thread(cancel_root, &f);
    cancel_child(&f);
    model_join(t);
    hd_token *tokens[] = {f.root, f.child, leaf, other};
    for (int i = 0; i < 4; i++) MODEL_CHECK(hd_token_cancelled(tokens[i]));
    for (int i = 0; i < 4; i++) hd_token_unref(tokens[i]);
    MODEL_EQUAL(model_live(), 0);
}

/* ---- waiting ---- */

/* The one that waits has the only reference that is left, and drops it as soon as it is woken. */
static void wait_and_unref(void *arg)
{
    struct family *f = arg;
    MODEL_EQUAL(hd_token_wait(f->root, HD_FOREVER), 0);
    expect_message(f);
    hd_token_unref(f->root);
}

MODEL(token_wait, .sc = 5, .tso = 4, .pso = 4, .kills = "token_cancel_unheld waiter_blind_sleep")
{
    struct family f = {.root = token_new(NULL)};
    void *t = model_thread(wait_and_unref, &f);
    cancel_root(&f);
    model_join(t);
    MODEL_EQUAL(model_live(), 0);
}

/* The flag is enough to go by. */
static void look_and_unref(void *arg)
{
    struct family *f = arg;
    while (!hd_token_cancelled(f->root)) hdi_cpu_relax();
    expect_message(f);
    hd_token_unref(f->root);
}

MODEL(token_look, .sc = MODEL_ALL, .tso = MODEL_ALL, .pso = MODEL_ALL,
      .kills = "token_cancel_unheld")
{
    struct family f = {.root = token_new(NULL)};
    void *t = model_thread(look_and_unref, &f);
    cancel_root(&f);
    model_join(t);
    MODEL_EQUAL(model_live(), 0);
}

static void wait_a_moment(void *arg)
{
    struct family *f = arg;
    const int err = hd_token_wait(f->child, 1);
    MODEL_CHECK(err == 0 || err == -ETIMEDOUT);
    if (!err) expect_message(f);
}

MODEL(token_wait_timeout, .sc = 4, .tso = 3, .pso = 3)
{
    struct family f = {.root = token_new(NULL)};
    f.child = token_new(f.root);
    void *t = model_thread(wait_a_moment, &f);
    cancel_root(&f);
    model_join(t);
    hd_token_unref(f.child);
    hd_token_unref(f.root);
    MODEL_EQUAL(model_live(), 0);
}

/* ---- scopes of a fiber, cancelled by a thread ---- */

/* In memory that tells when it is touched after it was freed. */
static int pass_scope(void *arg)
{
    struct family *f = arg;
    hd_scope *scope = model_alloc(sizeof(*scope));
    hd_scope_options options = {.size = sizeof(options), .token = f->root};
    MODEL_EQUAL(hd_scope_enter(scope, &options), 0);
    hdi_model_name(scope, sizeof(*scope), "scope");
    if (hd_cancelled()) expect_message(f);
    hd_scope_leave(scope);
    model_free(scope);
    MODEL_CHECK(!hd_cancelled());
    return 0;
}

MODEL(token_scope_leave, .sc = 2, .tso = 2, .pso = 2, RT_STEPS, .kills = "token_leave_blind")
{
    hd_runtime *rt = rt_start(1);
    struct family f = {.root = token_new(NULL)};
    hd_task *task = rt_fiber(rt, pass_scope, &f);
    cancel_root(&f);
    MODEL_EQUAL(rt_join(task), 0);
    hd_token_unref(f.root);
    rt_stop(rt);
    MODEL_EQUAL(model_live(), 0);
}

/* It sleeps until the cancel wakes it; a lost one is a deadlock. */
static int sleep_in_scope(void *arg)
{
    struct family *f = arg;
    hd_scope *scope = model_alloc(sizeof(*scope));
    hd_scope_options options = {.size = sizeof(options), .token = f->child};
    MODEL_EQUAL(hd_scope_enter(scope, &options), 0);
    int err;
    do err = hd_park();
    while (!err);
    MODEL_EQUAL(err, -ECANCELED);
    expect_message(f);
    hd_scope_leave(scope);
    model_free(scope);
    return 0;
}

MODEL(token_scope_sleeps, .sc = 2, .tso = 2, .pso = 2, RT_STEPS)
{
    hd_runtime *rt = rt_start(1);
    struct family f = {.root = token_new(NULL)};
    f.child = token_new(f.root);
    hd_task *task = rt_fiber(rt, sleep_in_scope, &f);
    cancel_root(&f);
    MODEL_EQUAL(rt_join(task), 0);
    hd_token_unref(f.child);
    hd_token_unref(f.root);
    rt_stop(rt);
    MODEL_EQUAL(model_live(), 0);
}

/* The runtime goes as soon as the scope was left: the canceller may still be inside. */
MODEL(token_runtime_ends, .sc = 2, .tso = 1, .pso = 1, RT_STEPS, .kills = "guest_ignored")
{
    hd_runtime *rt = rt_start(1);
    struct family f = {.root = token_new(NULL)};
    f.child = f.root;
    hd_task *task = rt_fiber(rt, sleep_in_scope, &f);
    rt_settle(rt);
    void *t = model_thread(cancel_root, &f);
    MODEL_EQUAL(rt_join(task), 0);
    hd_runtime_destroy(rt);
    model_join(t);
    hd_token_unref(f.root);
    MODEL_EQUAL(model_live(), 0);
}

/* ---- starting ---- */

struct start {
    bool never; /* the child is not ready before it is cancelled */
    int message;
    hd_task *starter;
};

static int started(void *arg)
{
    struct start *s = arg;
    MODEL_WRITE(s->message, 5);
    if (s->never) {
        int err;
        do err = hd_park();
        while (!err);
        return err;
    }
    hd_ready(s);
    return 0;
}

static int starter(void *arg)
{
    struct start *s = arg;
    void *got = NULL;
    hd_nursery *n = model_alloc(sizeof(*n));
    MODEL_EQUAL(hd_nursery_open(n, NULL), 0);
    const int err = hd_start(n, started, s, &got);
    MODEL_CHECK(got == (err ? NULL : s));
    if (!err) MODEL_EQUAL(MODEL_READ(s->message), 5);
    (void)hd_nursery_leave(n);
    model_free(n);
    return err;
}

MODEL(start_ready, .sc = 2, .tso = 1, .pso = 1, RT_STEPS)
{
    hd_runtime *rt = rt_start(2);
    struct start s = {.message = 0};
    MODEL_EQUAL(rt_join(rt_fiber(rt, starter, &s)), 0);
    rt_stop(rt);
    MODEL_EQUAL(model_live(), 0);
}

/* The starter is cancelled at any moment: it has its child, or there is none. */
static void cancel_start(bool never)
{
    hd_runtime *rt = rt_start(1);
    struct start s = {.never = never};
    s.starter = rt_fiber(rt, starter, &s);
    hd_cancel(s.starter);
    const int err = rt_join(s.starter);
    MODEL_CHECK(err == -ECANCELED || (err == 0 && !never));
    rt_stop(rt);
    MODEL_EQUAL(model_live(), 0);
}

MODEL(start_cancelled, .sc = 2, .tso = 1, .pso = 1, RT_STEPS) { cancel_start(false); }
MODEL(start_never_ready, .sc = 2, .tso = 1, .pso = 1, RT_STEPS) { cancel_start(true); }
