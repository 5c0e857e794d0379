/* SPDX-License-Identifier: MIT
 *
 * The five states of a nursery: every transition through the public calls, what each state
 * refuses, and what the result is in the end.
 */
#include "nurseries.h"

#include "base/sanitizer.h"
#include "death.h"

TEST_MAIN

/* ---- single transitions ---- */

FIBER_TEST(a_new_nursery_is_open_and_empty)
{
    hd_nursery n;
    nur_open(&n, NULL);
    const hd_nursery_info info = hd_nursery_look(&n);
    EXPECT_EQ(info.state, HD_NURSERY_OPEN);
    EXPECT_EQ(info.live, 0);
    EXPECT_EQ(info.daemons, 0);
    EXPECT_EQ(info.spawned, 0);
    EXPECT_EQ(info.succeeded, 0);
    EXPECT_EQ(info.failed, 0);
    EXPECT_EQ(info.cancelled, 0);
    EXPECT_EQ(info.winner, 0);
    EXPECT_CAUSE(info.cause, HD_REASON_NONE, HD_REASON_NONE);
    hd_child_error error = {.error = 77};
    EXPECT_EQ(hd_nursery_error(&n, 0, &error), -ENOENT);
    EXPECT_EQ(error.error, 77);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), 0);
    return 0;
}

FIBER_TEST(an_empty_one_closes_at_once_and_stays_closed)
{
    hd_nursery n;
    nur_open(&n, NULL);
    hd_nursery_close(&n);
    EXPECT_STATE(&n, HD_NURSERY_CLOSED);
    nur_expect_refused(&n, -EPIPE);
    hd_nursery_close(&n);
    hd_nursery_cancel(&n); /* does nothing to one that is closed */
    EXPECT_STATE(&n, HD_NURSERY_CLOSED);
    EXPECT_CAUSE(hd_nursery_look(&n).cause, HD_REASON_NONE, HD_REASON_NONE);
    EXPECT(!hd_cancelled()); /* nor to its body */
    nur_expect_refused(&n, -EPIPE);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), 0);
    return 0;
}

FIBER_TEST(with_children_it_is_closing_until_the_last_has_ended)
{
    hd_nursery n;
    struct nur_actor a, b;
    nur_open(&n, NULL);
    nur_go_actor(&n, &a);
    nur_go_actor(&n, &b);
    EXPECT_STATE(&n, HD_NURSERY_OPEN);
    hd_nursery_close(&n);
    EXPECT_STATE(&n, HD_NURSERY_CLOSING);
    nur_expect_refused(&n, -EPIPE);
    nur_end(&n, &a, 0);
    EXPECT_STATE(&n, HD_NURSERY_CLOSING);
    hd_nursery_close(&n);
    EXPECT_STATE(&n, HD_NURSERY_CLOSING);
    nur_end(&n, &b, 3);
    EXPECT_STATE(&n, HD_NURSERY_CLOSED);
    nur_expect_refused(&n, -EPIPE);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), 0);
    EXPECT(!a.cancelled && !b.cancelled);
    return 0;
}

FIBER_TEST(an_empty_one_is_cancelled_at_once_and_stays_so)
{
    hd_nursery n;
    nur_open(&n, NULL);
    hd_nursery_cancel(&n);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLED);
    EXPECT_CAUSE(hd_nursery_look(&n).cause, HD_REASON_EXPLICIT, HD_REASON_EXPLICIT);
    nur_expect_refused(&n, -ECANCELED);
    hd_nursery_close(&n);
    hd_nursery_cancel(&n);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLED);
    nur_expect_refused(&n, -ECANCELED);
    EXPECT(hd_cancelled()); /* the body */
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), 0); /* no child returned it */
    EXPECT(!hd_cancelled());
    return 0;
}

FIBER_TEST(an_open_one_with_children_is_cancelling_until_the_last_has_ended)
{
    hd_nursery n;
    struct nur_actor a, b;
    nur_open(&n, NULL);
    nur_go_actor(&n, &a);
    nur_go_actor(&n, &b);
    hd_nursery_cancel(&n);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLING);
    nur_expect_refused(&n, -ECANCELED);
    hd_nursery_close(&n); /* does nothing to one that is not open */
    EXPECT_STATE(&n, HD_NURSERY_CANCELLING);
    nur_expect_refused(&n, -ECANCELED);
    nur_end(&n, &a, 0);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLING);
    nur_end(&n, &b, 0);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLED);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), 0);
    EXPECT(a.cancelled && b.cancelled);
    return 0;
}

FIBER_TEST(a_closing_one_can_be_cancelled)
{
    hd_nursery n;
    struct nur_actor a;
    nur_open(&n, NULL);
    nur_go_actor(&n, &a);
    hd_nursery_close(&n);
    hd_nursery_cancel(&n);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLING);
    nur_expect_refused(&n, -ECANCELED);
    nur_end(&n, &a, -ECANCELED);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLED);
    EXPECT_EQ(hd_nursery_look(&n).cancelled, 1);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -ECANCELED);
    return 0;
}

FIBER_TEST(a_failure_cancels_an_open_one)
{
    hd_nursery n;
    struct nur_actor a, b;
    nur_open(&n, NULL);
    nur_go_actor(&n, &a);
    nur_go_actor(&n, &b);
    nur_end(&n, &a, -EIO);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLING);
    nur_expect_refused(&n, -ECANCELED);
    EXPECT(hd_cancelled()); /* and its body */
    const hd_cause cause = hd_nursery_look(&n).cause;
    EXPECT_CAUSE(cause, HD_REASON_FAILURE, HD_REASON_FAILURE);
    EXPECT_EQ(cause.error, -EIO);
    nur_end(&n, &b, 0);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLED);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -EIO);
    EXPECT_EQ(cause.task, a.id);
    EXPECT(!a.cancelled && b.cancelled);
    EXPECT(!hd_cancelled());
    return 0;
}

FIBER_TEST(a_failure_cancels_a_closing_one)
{
    hd_nursery n;
    struct nur_actor a, b;
    nur_open(&n, NULL);
    nur_go_actor(&n, &a);
    nur_go_actor(&n, &b);
    hd_nursery_close(&n);
    nur_end(&n, &a, -EIO);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLING);
    nur_expect_refused(&n, -ECANCELED);
    nur_end(&n, &b, -ENXIO);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLED);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -EIO);
    return 0;
}

FIBER_TEST(the_only_child_fails)
{
    for (int closed = 0; closed < 2; closed++) {
        hd_nursery n;
        struct nur_actor a;
        nur_open(&n, NULL);
        nur_go_actor(&n, &a);
        if (closed) hd_nursery_close(&n);
        nur_end(&n, &a, -EIO);
        EXPECT_STATE(&n, HD_NURSERY_CANCELLED);
        nur_expect_refused(&n, -ECANCELED);
        EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -EIO);
    }
    return 0;
}

/* ---- all sequences of calls against the drawing ---- */

enum { SPAWN, END_WELL, END_BADLY, CLOSE, CANCEL, STEPS };
enum { LENGTH = HDI_TSAN || HDI_ASAN ? 4 : 6 };

struct drawn {
    hd_nursery_state state;
    unsigned live;
    uint64_t spawned, succeeded, failed;
    int result;
};

static void draw_end(struct drawn *d)
{
    if (--d->live > 0) return;
    if (d->state == HD_NURSERY_CLOSING) d->state = HD_NURSERY_CLOSED;
    if (d->state == HD_NURSERY_CANCELLING) d->state = HD_NURSERY_CANCELLED;
}

static void draw_cancel(struct drawn *d)
{
    if (d->state != HD_NURSERY_OPEN && d->state != HD_NURSERY_CLOSING) return;
    d->state = d->live ? HD_NURSERY_CANCELLING : HD_NURSERY_CANCELLED;
}

static void draw_close(struct drawn *d)
{
    if (d->state == HD_NURSERY_OPEN) d->state = d->live ? HD_NURSERY_CLOSING : HD_NURSERY_CLOSED;
}

static int draw_spawn(struct drawn *d)
{
    switch (d->state) {
    case HD_NURSERY_OPEN: d->live++; d->spawned++; return 0;
    case HD_NURSERY_CLOSING:
    case HD_NURSERY_CLOSED: return -EPIPE;
    case HD_NURSERY_CANCELLING:
    case HD_NURSERY_CANCELLED: return -ECANCELED;
    }
    return 0;
}

static void step_end(hd_nursery *n, struct drawn *d, struct nur_actor *actors, int result)
{
    if (d->live == 0) return;
    nur_end(n, &actors[d->spawned - d->live], result);
    if (result < 0) {
        d->failed++;
        if (d->result == 0) d->result = result;
        draw_cancel(d); /* while it is still alive */
    } else {
        d->succeeded++;
    }
    draw_end(d);
}

static void step(hd_nursery *n, struct drawn *d, struct nur_actor *actors, int which)
{
    switch (which) {
    case SPAWN: {
        struct nur_actor *actor = &actors[d->spawned];
        nur_actor_init(actor);
        EXPECT_EQ(hd_go(n, nur_act, actor), draw_spawn(d));
        break;
    }
    case END_WELL: step_end(n, d, actors, 0); break;
    case END_BADLY: step_end(n, d, actors, -100 - (int)d->failed); break;
    case CLOSE: hd_nursery_close(n); draw_close(d); break;
    case CANCEL: hd_nursery_cancel(n); draw_cancel(d); break;
    default: break;
    }
}

static void expect_as_drawn(hd_nursery *n, const struct drawn *d)
{
    const hd_nursery_info info = hd_nursery_look(n);
    EXPECT_EQ(info.state, d->state);
    EXPECT_EQ(info.live, d->live);
    EXPECT_EQ(info.spawned, d->spawned);
    EXPECT_EQ(info.succeeded, d->succeeded);
    EXPECT_EQ(info.failed, d->failed);
    EXPECT_EQ(info.cancelled, 0);
    const bool cancelled = d->state == HD_NURSERY_CANCELLING || d->state == HD_NURSERY_CANCELLED;
    EXPECT_EQ(info.cause.reason != HD_REASON_NONE, cancelled);
    EXPECT_EQ(hd_cancelled(), cancelled);
}

static int walk_all(void *arg)
{
    (void)arg;
    unsigned walks = 1;
    for (int i = 0; i < LENGTH; i++) walks *= STEPS;
    for (unsigned walk = 0; walk < walks; walk++) {
        hd_nursery n;
        struct nur_actor actors[LENGTH];
        struct drawn d = {.state = HD_NURSERY_OPEN};
        nur_open(&n, NULL);
        unsigned rest = walk;
        for (int i = 0; i < LENGTH; i++, rest /= STEPS) {
            step(&n, &d, actors, (int)(rest % STEPS));
            expect_as_drawn(&n, &d);
        }
        while (d.live) step(&n, &d, actors, END_WELL);
        EXPECT_EQ(hd_nursery_wait(&n), d.result);
        draw_close(&d);
        expect_as_drawn(&n, &d);
        EXPECT_EQ(hd_nursery_leave(&n), d.result);
    }
    return 0;
}

TEST_WORLDS(every_sequence_of_calls_goes_as_drawn, options)
{
    if (rt_is_sim(options) && options->seed > 2) return; /* The order is the program's. */
    rt_run(walk_all, NULL, options);
}

/* ---- waiting closes ---- */

struct from_child {
    hd_nursery *nursery;
    hd_group gate;
    int before, after;
};

static int spawn_before_and_after(void *arg)
{
    struct from_child *f = arg;
    f->before = hd_go(f->nursery, nur_nothing, NULL);
    EXPECT_EQ(hd_group_wait(&f->gate), 0);
    while (hd_nursery_look(f->nursery).state == HD_NURSERY_OPEN) hd_yield();
    f->after = hd_go(f->nursery, nur_nothing, NULL);
    nur_expect_refused(f->nursery, f->after);
    return 0;
}

FIBER_TEST(a_child_may_spawn_until_the_owner_waits)
{
    hd_nursery n;
    nur_open(&n, NULL);
    struct from_child f = {.nursery = &n, .before = 1, .after = 1};
    EXPECT_EQ(hd_group_add(&f.gate, 1), 0);
    nur_go(&n, spawn_before_and_after, &f);
    hd_group_done(&f.gate);
    while (hd_nursery_look(&n).spawned < 2) hd_yield(); /* Open until it has spawned. */
    EXPECT_EQ(hd_nursery_wait(&n), 0);
    EXPECT_EQ(f.before, 0);
    EXPECT_EQ(f.after, -EPIPE);
    EXPECT_EQ(hd_nursery_look(&n).spawned, 2);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), 0);
    return 0;
}

FIBER_TEST(a_wait_can_be_repeated_and_leaving_says_the_same)
{
    hd_nursery n;
    int number = -EXDEV;
    nur_open(&n, NULL);
    nur_go(&n, nur_return, &number);
    for (int i = 0; i < 3; i++) EXPECT_EQ(hd_nursery_wait(&n), -EXDEV);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLED);
    EXPECT_EQ(hd_nursery_leave(&n), -EXDEV);
    EXPECT_EQ(hd_nursery_result(), -EXDEV);
    return 0;
}

/* ---- who is cancelled opens cancelled ---- */

static int open_cancelled(void *arg)
{
    (void)arg;
    while (!hd_cancelled()) hd_yield();
    hd_nursery n;
    nur_open(&n, NULL);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLED);
    EXPECT_CAUSE(hd_nursery_look(&n).cause, HD_REASON_PARENT, HD_REASON_EXPLICIT);
    nur_expect_refused(&n, -ECANCELED);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), 0);
    bool ran = false;
    HD_NURSERY(block) {
        ran = true; /* It could be opened. */
        EXPECT_STATE(block, HD_NURSERY_CANCELLED);
        EXPECT_EQ(hd_go(block, nur_nothing, NULL), -ECANCELED);
    }
    EXPECT(ran);
    EXPECT_EQ(hd_nursery_result(), 0);
    EXPECT_EQ(hd_shield(), 0); /* Behind a shield it is not cancelled. */
    nur_open(&n, NULL);
    EXPECT_STATE(&n, HD_NURSERY_OPEN);
    nur_go(&n, nur_nothing, NULL);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), 0);
    EXPECT_EQ(hd_unshield(), 0);
    return 0;
}

TEST_WORLDS(a_nursery_opened_by_a_cancelled_task_is_cancelled_at_once, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_task *task = rt_spawn(runtime, open_cancelled, NULL);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), 0);
    hd_runtime_destroy(runtime);
}

FIBER_TEST(a_nursery_opened_in_a_cancelled_scope_or_nursery_is_cancelled_at_once)
{
    hd_nursery outer, inner;
    HD_SCOPE(s) {
        hd_scope_cancel(s);
        nur_open(&inner, NULL);
        EXPECT_STATE(&inner, HD_NURSERY_CANCELLED);
        EXPECT_EQ(nur_leave_as(&inner, HD_NURSERY_CANCELLED), 0);
    }
    nur_open(&outer, NULL);
    hd_nursery_cancel(&outer);
    nur_open(&inner, NULL);
    EXPECT_STATE(&inner, HD_NURSERY_CANCELLED);
    EXPECT_CAUSE(hd_nursery_look(&inner).cause, HD_REASON_PARENT, HD_REASON_EXPLICIT);
    EXPECT_EQ(nur_leave_as(&inner, HD_NURSERY_CANCELLED), 0);
    EXPECT_EQ(nur_leave_as(&outer, HD_NURSERY_CANCELLED), 0);
    return 0;
}

/* ---- inner before outer, and all before the end ---- */

enum misuse { OUTER_FIRST, END_OPEN, END_OPEN_POLL, SCOPE_INSIDE, POLL_TOO_EARLY };

static hd_nursery_options named(const char *name)
{
    return (hd_nursery_options){.size = sizeof(hd_nursery_options), .name = name};
}

static int misuse_fiber(void *arg)
{
    const enum misuse what = *(const enum misuse *)arg;
    const hd_nursery_options first = named("the-first"), second = named("the-second");
    hd_nursery outer, inner;
    hd_scope scope;
    nur_open(&outer, &first);
    if (what == OUTER_FIRST) nur_open(&inner, &second);
    if (what == SCOPE_INSIDE) EXPECT_EQ(hd_scope_enter(&scope, NULL), 0);
    if (what == OUTER_FIRST || what == SCOPE_INSIDE) (void)hd_nursery_leave(&outer);
    return 0;
}

struct misuse_state {
    enum misuse what;
    hd_nursery nursery;
};

static hd_poll misuse_poll(void *state, int *result)
{
    struct misuse_state *self = state;
    const hd_nursery_options first = named("the-first");
    nur_open(&self->nursery, &first);
    if (self->what == POLL_TOO_EARLY) {
        nur_go(&self->nursery, nur_park, NULL);
        (void)hd_nursery_leave(&self->nursery);
    }
    *result = 0;
    return HD_READY;
}

struct death_case {
    const hd_options *options;
    enum misuse what;
    bool thread;
};

static void misuse(void *arg)
{
    struct death_case *c = arg;
    hd_runtime *runtime = rt_create(c->options);
    if (c->thread) {
        hd_nursery_options first = named("the-first"), second = named("the-second");
        hd_nursery outer, inner;
        first.runtime = second.runtime = runtime;
        nur_open(&outer, &first);
        nur_open(&inner, &second);
        (void)hd_nursery_leave(&outer);
    } else if (c->what == END_OPEN_POLL || c->what == POLL_TOO_EARLY) {
        const struct misuse_state state = {.what = c->what};
        (void)rt_join(rt_spawn_poll(runtime, misuse_poll, &state, sizeof(state)));
    } else {
        (void)rt_join(rt_spawn(runtime, misuse_fiber, &c->what));
    }
}

TEST_WORLDS(leaving_an_outer_nursery_first_dies_and_names_both, options)
{
    for (int thread = 0; thread < 2; thread++) {
        struct death_case c = {options, OUTER_FIRST, thread};
        const struct death death = death_of(misuse, &c);
        EXPECT_EQ(death_signal(&death), SIGABRT);
        EXPECT(strstr(death.text, "the-first"));
        EXPECT(strstr(death.text, "the-second"));
    }
}

TEST_WORLDS(leaving_a_nursery_with_a_scope_inside_dies, options)
{
    struct death_case c = {options, SCOPE_INSIDE, false};
    expect_abort(misuse, &c, "the-first");
}

TEST_WORLDS(a_task_that_ends_with_an_open_nursery_dies_and_names_it, options)
{
    for (int what = END_OPEN; what <= END_OPEN_POLL; what++) {
        struct death_case c = {options, (enum misuse)what, false};
        expect_abort(misuse, &c, "the-first");
    }
}

TEST_WORLDS(a_stackless_task_that_leaves_before_all_have_ended_dies, options)
{
    struct death_case c = {options, POLL_TOO_EARLY, false};
    expect_abort(misuse, &c, "hd_nursery_wait_poll()");
}
