/* SPDX-License-Identifier: MIT
 *
 * Scopes: cancelled by themselves, from outside, by deadline; nested; left in any way; hard
 * and soft shields.
 */
#include "nurseries.h"

#include <pthread.h>

#include "death.h"

TEST_MAIN

#define MS HD_MS_NS

static const hd_scope_options hard = {.size = sizeof(hard), .shield = HD_SHIELD_HARD};

/* ---- cancelling one ---- */

FIBER_TEST(a_cancelled_scope_ends_the_waits_inside_and_none_outside)
{
    hd_scope s;
    EXPECT_EQ(hd_scope_enter(&s, NULL), 0);
    EXPECT_CAUSE(hd_scope_cause(&s), HD_REASON_NONE, HD_REASON_NONE);
    EXPECT(!hd_cancelled());
    EXPECT_EQ(hd_sleep_ms(1), 0);
    hd_scope_cancel(&s);
    hd_scope_cancel(&s); /* twice is once */
    EXPECT(hd_cancelled());
    EXPECT_CAUSE(hd_scope_cause(&s), HD_REASON_EXPLICIT, HD_REASON_EXPLICIT);
    EXPECT_CAUSE(hd_self_cause(), HD_REASON_EXPLICIT, HD_REASON_EXPLICIT);
    for (int i = 0; i < 3; i++) { /* It stays. */
        EXPECT_EQ(hd_park(), -ECANCELED);
        EXPECT_EQ(hd_sleep_ms(1000000), -ECANCELED);
        hd_yield();
    }
    hd_scope_leave(&s);
    EXPECT(!hd_cancelled());
    EXPECT_CAUSE(hd_self_cause(), HD_REASON_NONE, HD_REASON_NONE);
    EXPECT_EQ(hd_sleep_ms(1), 0);
    return 0;
}

struct remote {
    hd_scope scope;
    atomic_int inside;
    int err;
    hd_cause cause;
};

static int sleep_in_scope(void *arg)
{
    struct remote *r = arg;
    EXPECT_EQ(hd_scope_enter(&r->scope, NULL), 0);
    atomic_store(&r->inside, 1);
    r->err = hd_sleep_until(HD_FOREVER);
    r->cause = hd_self_cause();
    hd_scope_leave(&r->scope);
    return hd_sleep_ms(1);
}

static int cancel_remote(void *arg)
{
    struct remote *r = arg;
    rt_until(&r->inside);
    hd_scope_cancel(&r->scope);
    return 0;
}

FIBER_TEST(another_task_cancels_it)
{
    struct remote r = {.err = 1};
    hd_task *task = rt_spawn(NULL, sleep_in_scope, &r);
    EXPECT_EQ(rt_join(rt_spawn(NULL, cancel_remote, &r)), 0);
    EXPECT_EQ(rt_join(task), 0);
    EXPECT_EQ(r.err, -ECANCELED);
    EXPECT_CAUSE(r.cause, HD_REASON_EXPLICIT, HD_REASON_EXPLICIT);
    return 0;
}

static void *cancel_from_thread(void *scope)
{
    hd_scope_cancel(scope);
    return NULL;
}

TEST_WORLDS(another_thread_cancels_it, options)
{
    hd_runtime *runtime = rt_create(options);
    for (int i = 0; i < 5; i++) {
        struct remote r = {.err = 1};
        hd_task *task = rt_spawn(runtime, sleep_in_scope, &r);
        rt_await(runtime, &r.inside);
        pthread_t thread;
        EXPECT_EQ(pthread_create(&thread, NULL, cancel_from_thread, &r.scope), 0);
        EXPECT_EQ(pthread_join(thread, NULL), 0);
        EXPECT_EQ(rt_join(task), 0);
        EXPECT_EQ(r.err, -ECANCELED);
    }
    hd_runtime_destroy(runtime);
}

static int see_task_cancel(void *arg)
{
    HD_SCOPE(s) {
        atomic_store((atomic_int *)arg, 1);
        EXPECT_EQ(hd_sleep_until(HD_FOREVER), -ECANCELED);
        EXPECT_CAUSE(hd_scope_cause(s), HD_REASON_PARENT, HD_REASON_EXPLICIT);
    }
    EXPECT_EQ(hd_sleep_until(HD_FOREVER), -ECANCELED); /* outside it as well */
    EXPECT_CAUSE(hd_self_cause(), HD_REASON_EXPLICIT, HD_REASON_EXPLICIT);
    return 0;
}

FIBER_TEST(a_cancel_of_the_task_is_felt_inside_and_after)
{
    atomic_int inside = 0;
    hd_task *task = rt_spawn(NULL, see_task_cancel, &inside);
    rt_until(&inside);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), 0);
    return 0;
}

/* ---- nesting ---- */

FIBER_TEST(an_outer_cancel_reaches_in_an_inner_one_does_not_reach_out)
{
    HD_SCOPE(outer) {
        HD_SCOPE(middle) {
            HD_SCOPE(inner) {
                hd_scope_cancel(inner);
                EXPECT_EQ(hd_park(), -ECANCELED);
                EXPECT_CAUSE(hd_scope_cause(middle), HD_REASON_NONE, HD_REASON_NONE);
            }
            EXPECT_EQ(hd_sleep_ms(1), 0);
            HD_SCOPE(inner) {
                hd_scope_cancel(outer);
                EXPECT_EQ(hd_park(), -ECANCELED);
                EXPECT_CAUSE(hd_scope_cause(inner), HD_REASON_PARENT, HD_REASON_EXPLICIT);
                EXPECT_CAUSE(hd_scope_cause(middle), HD_REASON_PARENT, HD_REASON_EXPLICIT);
                EXPECT_CAUSE(hd_scope_cause(outer), HD_REASON_EXPLICIT, HD_REASON_EXPLICIT);
            }
            EXPECT_EQ(hd_park(), -ECANCELED);
        }
        HD_SCOPE(late) { /* begins cancelled */
            EXPECT(hd_cancelled());
            EXPECT_CAUSE(hd_scope_cause(late), HD_REASON_PARENT, HD_REASON_EXPLICIT);
        }
    }
    EXPECT_EQ(hd_sleep_ms(1), 0);
    return 0;
}

FIBER_TEST(a_thousand_deep)
{
    enum { DEEP = 1000 };
    hd_scope *scopes = calloc(DEEP, sizeof(*scopes));
    EXPECT(scopes != NULL);
    for (int i = 0; i < DEEP; i++) EXPECT_EQ(hd_scope_enter(&scopes[i], NULL), 0);
    EXPECT_EQ(hd_sleep_ms(1), 0);
    hd_scope_cancel(&scopes[500]);
    EXPECT_EQ(hd_park(), -ECANCELED);
    for (int i = DEEP - 1; i >= 0; i--) {
        EXPECT_EQ(hd_cancelled(), i >= 500);
        hd_scope_leave(&scopes[i]);
    }
    EXPECT_EQ(hd_sleep_ms(1), 0);
    free(scopes);
    return 0;
}

/* ---- the block ---- */

static int leave_by_return(int which)
{
    HD_SCOPE(outer) {
        HD_SCOPE(inner) {
            hd_scope_cancel(which ? outer : inner);
            return hd_park();
        }
    }
    return 0;
}

FIBER_TEST(a_block_may_be_left_in_any_way)
{
    HD_SCOPE(s) hd_scope_cancel(s);
    EXPECT(!hd_cancelled());
    int rounds = 0;
    for (; rounds < 4; rounds++) {
        HD_SCOPE(s) {
            hd_scope_cancel(s);
            if (rounds % 2) break;
            if (rounds % 2 == 0) continue;
            EXPECT(false);
        }
        EXPECT(!hd_cancelled());
    }
    EXPECT_EQ(rounds, 4);
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(leave_by_return(i), -ECANCELED);
        EXPECT(!hd_cancelled());
    }
again:
    HD_SCOPE(a) {
        HD_SCOPE(b, .shield = HD_SHIELD_HARD) {
            hd_scope_cancel(a);
            EXPECT(!hd_cancelled());
            if (++rounds < 7) goto again;
            goto out;
        }
    }
    EXPECT(false);
out:
    EXPECT(!hd_cancelled());
    for (int i = 0; i < 255; i++) EXPECT_EQ(hd_shield(), 0); /* No shield was left behind. */
    for (int i = 0; i < 255; i++) EXPECT_EQ(hd_unshield(), 0);
    EXPECT_EQ(hd_unshield(), -EINVAL);
    return 0;
}

/* ---- stackless tasks ---- */

struct scoped_poll {
    hd_scope scope;
    hd_wait wait;
    hd_case never;
    int stage;
    atomic_int *pending;
    struct scoped_poll **self;
};

static hd_poll wait_in_scope(void *state, int *result)
{
    struct scoped_poll *p = state;
    if (p->stage == 0) {
        EXPECT_EQ(hd_scope_enter(&p->scope, NULL), 0);
        *p->self = p;
        p->stage = 1;
    }
    if (p->stage == 1) {
        const int err = hd_select_poll(&p->wait, &p->never, 1, 0, HD_FOREVER);
        atomic_store(p->pending, 1);
        if (err == -EAGAIN) return HD_PENDING;
        EXPECT_EQ(err, -ECANCELED);
        EXPECT_CAUSE(hd_scope_cause(&p->scope), HD_REASON_EXPLICIT, HD_REASON_EXPLICIT);
        hd_scope_leave(&p->scope);
        EXPECT(!hd_cancelled());
        p->stage = 2;
        p->wait = (hd_wait){{0}};
        p->never = (hd_case)HD_AT(hd_after_ms(1));
    }
    const int which = hd_select_poll(&p->wait, &p->never, 1, 0, HD_FOREVER);
    if (which == -EAGAIN) return HD_PENDING;
    *result = which;
    return HD_READY;
}

FIBER_TEST(a_stackless_task_keeps_its_scope_over_polls)
{
    atomic_int pending = 0;
    struct scoped_poll *at = NULL;
    const struct scoped_poll state = {.never = HD_NEVER, .pending = &pending, .self = &at};
    hd_task *task = rt_spawn_poll(NULL, wait_in_scope, &state, sizeof(state));
    rt_until(&pending);
    hd_scope_cancel(&at->scope);
    EXPECT_EQ(rt_join(task), 0);
    return 0;
}

/* ---- hard shields ---- */

struct shielded {
    atomic_int inside;
    hd_group gate;
};

static int wait_behind_scope_shield(void *arg)
{
    struct shielded *s = arg;
    HD_SCOPE(outer) {
        HD_SCOPE(shield, .shield = HD_SHIELD_HARD) {
            atomic_store(&s->inside, 1);
            EXPECT_EQ(hd_group_wait(&s->gate), 0); /* the task is cancelled by now */
            hd_scope_cancel(outer);
            EXPECT(!hd_cancelled());
            EXPECT_CAUSE(hd_self_cause(), HD_REASON_NONE, HD_REASON_NONE);
            EXPECT_CAUSE(hd_scope_cause(shield), HD_REASON_NONE, HD_REASON_NONE);
            EXPECT_EQ(hd_sleep_ms(1), 0);
        }
        EXPECT(hd_cancelled());
        EXPECT_EQ(hd_sleep_ms(1), -ECANCELED);
    }
    return hd_sleep_ms(1);
}

FIBER_TEST(behind_a_hard_shield_nothing_is_felt_until_it_is_left)
{
    struct shielded s = {.inside = 0};
    EXPECT_EQ(hd_group_add(&s.gate, 1), 0);
    hd_task *task = rt_spawn(NULL, wait_behind_scope_shield, &s);
    rt_until(&s.inside);
    hd_cancel(task);
    for (int i = 0; i < 50; i++) hd_yield();
    EXPECT_EQ(hd_join_try(task, NULL), -EAGAIN);
    hd_group_done(&s.gate);
    EXPECT_EQ(rt_join(task), -ECANCELED);
    return 0;
}

FIBER_TEST(what_is_cancelled_inside_a_shield_is_felt_inside)
{
    HD_SCOPE(shield, .shield = HD_SHIELD_HARD) {
        HD_SCOPE(inner) {
            hd_scope_cancel(inner);
            EXPECT(hd_cancelled());
            EXPECT_EQ(hd_sleep_ms(1), -ECANCELED);
        }
        EXPECT_EQ(hd_sleep_ms(1), 0);
        hd_scope_cancel(shield); /* a shield keeps off what is outside, not itself */
        EXPECT_EQ(hd_sleep_ms(1), -ECANCELED);
    }
    EXPECT_EQ(hd_shield(), 0);
    HD_SCOPE(inner) { /* the same with the other kind */
        hd_scope_cancel(inner);
        EXPECT(hd_cancelled());
        EXPECT_EQ(hd_sleep_ms(1), -ECANCELED);
    }
    EXPECT_EQ(hd_sleep_ms(1), 0);
    EXPECT_EQ(hd_unshield(), 0);
    return 0;
}

FIBER_TEST(the_other_kind_of_shield_inside_a_scope_hides_it)
{
    HD_SCOPE(s) {
        hd_scope_cancel(s);
        EXPECT_EQ(hd_shield(), 0);
        EXPECT(!hd_cancelled());
        EXPECT_EQ(hd_sleep_ms(1), 0);
        HD_SCOPE(t, .shield = HD_SHIELD_HARD) {
            EXPECT_EQ(hd_sleep_ms(1), 0);
            EXPECT_CAUSE(hd_scope_cause(t), HD_REASON_NONE, HD_REASON_NONE);
        }
        EXPECT_EQ(hd_sleep_ms(1), 0); /* two shields: one is left */
        EXPECT_EQ(hd_unshield(), 0);
        EXPECT(hd_cancelled());
        EXPECT_EQ(hd_sleep_ms(1), -ECANCELED);
    }
    return 0;
}

FIBER_TEST(a_scope_s_shield_is_not_for_unshield)
{
    HD_SCOPE(s) {
        hd_scope_cancel(s);
        HD_SCOPE(shield, .shield = HD_SHIELD_HARD) {
            EXPECT_EQ(hd_unshield(), -EINVAL); /* There is no matching hd_shield(). */
            EXPECT(!hd_cancelled());
        }
        EXPECT(hd_cancelled());
    }
    return 0;
}

FIBER_TEST(the_256th_shield_is_refused)
{
    static hd_scope scopes[256];
    for (int i = 0; i < 255; i++) EXPECT_EQ(hd_scope_enter(&scopes[i], &hard), 0);
    EXPECT_EQ(hd_scope_enter(&scopes[255], &hard), -EOVERFLOW);
    EXPECT_EQ(hd_shield(), -EOVERFLOW);
    EXPECT_EQ(hd_scope_enter(&scopes[255], NULL), 0); /* It is no shield. */
    for (int i = 255; i >= 0; i--) hd_scope_leave(&scopes[i]);
    EXPECT_EQ(hd_scope_enter(&scopes[0], &hard), 0);
    hd_scope_leave(&scopes[0]);
    return 0;
}

/* ---- soft shields ---- */

FIBER_TEST(a_soft_shield_goes_at_its_grace)
{
    const int64_t grace = hd_now(NULL) + 5 * MS;
    HD_SCOPE(outer) {
        hd_scope_cancel(outer);
        HD_SCOPE(soft, .shield = HD_SHIELD_SOFT, .grace = grace) {
            const bool cancelled = hd_cancelled();
            EXPECT(!cancelled || hd_now(NULL) >= grace);
            EXPECT_EQ(hd_sleep_until(HD_FOREVER), -ECANCELED);
            EXPECT(hd_now(NULL) >= grace);
            EXPECT(hd_cancelled());
            EXPECT_EQ(hd_park(), -ECANCELED); /* gone for good */
            EXPECT_CAUSE(hd_scope_cause(soft), HD_REASON_PARENT, HD_REASON_EXPLICIT);
        }
    }
    EXPECT(!hd_cancelled());
    return 0;
}

FIBER_TEST(work_done_within_the_grace_is_undisturbed)
{
    HD_SCOPE(outer) {
        hd_scope_cancel(outer);
        HD_SCOPE(soft, .shield = HD_SHIELD_SOFT, .grace = hd_now(NULL) + 10000 * MS) {
            for (int i = 0; i < 3; i++) EXPECT_EQ(hd_sleep_ms(1), 0);
            EXPECT_CAUSE(hd_scope_cause(soft), HD_REASON_NONE, HD_REASON_NONE);
        }
        EXPECT(hd_cancelled());
    }
    return 0;
}

FIBER_TEST(a_soft_shield_that_went_hides_nothing_that_comes_later)
{
    HD_SCOPE(outer) {
        HD_SCOPE(soft, .shield = HD_SHIELD_SOFT, .grace = hd_now(NULL) + MS) {
            EXPECT_EQ(hd_sleep_ms(5), 0); /* Nothing was cancelled. */
            EXPECT(!hd_cancelled());
            hd_scope_cancel(outer);
            /* Its timer may be another worker's, and late. */
            EXPECT_EQ(hd_sleep_until(HD_FOREVER), -ECANCELED);
            EXPECT(hd_cancelled());
        }
    }
    return 0;
}

FIBER_TEST(a_soft_shield_inside_a_hard_one_lets_nothing_in)
{
    HD_SCOPE(outer) {
        hd_scope_cancel(outer);
        HD_SCOPE(shield, .shield = HD_SHIELD_HARD) {
            HD_SCOPE(soft, .shield = HD_SHIELD_SOFT, .grace = hd_now(NULL) + MS) {
                EXPECT_EQ(hd_sleep_ms(5), 0);
                EXPECT(!hd_cancelled());
            }
        }
    }
    return 0;
}

FIBER_TEST(a_hard_shield_inside_a_soft_one_outlasts_it)
{
    HD_SCOPE(outer) {
        hd_scope_cancel(outer);
        HD_SCOPE(soft, .shield = HD_SHIELD_SOFT, .grace = hd_now(NULL) + MS) {
            HD_SCOPE(shield, .shield = HD_SHIELD_HARD) EXPECT_EQ(hd_sleep_ms(5), 0);
            EXPECT_EQ(hd_sleep_ms(5), -ECANCELED);
        }
    }
    return 0;
}

/* ---- what is refused ---- */

TEST(outside_a_task_there_are_no_scopes)
{
    hd_scope s;
    EXPECT_EQ(hd_scope_enter(&s, NULL), -EINVAL);
    EXPECT_CAUSE(hd_self_cause(), HD_REASON_NONE, HD_REASON_NONE);
}

FIBER_TEST(options_that_make_no_sense_are_refused)
{
    hd_scope s;
    const hd_scope_options wrong[] = {
        {.size = 3},
        {.size = sizeof(*wrong), .shield = (hd_shield_kind)(HD_SHIELD_SOFT + 1)},
    };
    for (int i = 0; i < 2; i++) EXPECT_EQ(hd_scope_enter(&s, &wrong[i]), -EINVAL);
    EXPECT_EQ(hd_scope_enter(&s, NULL), 0); /* Nothing was entered. */
    hd_scope_leave(&s);
    return 0;
}

static void enter_outside(void *arg)
{
    (void)arg;
    HD_SCOPE(s) (void)s;
}

static const hd_site first_site = {"some/first.c", 111, "first"};
static const hd_site second_site = {"some/second.c", 222, "second"};

static int leave_outer_first(void *arg)
{
    (void)arg;
    const hd_scope_options first = {.size = sizeof(first), .site = &first_site};
    const hd_scope_options second = {.size = sizeof(second), .site = &second_site};
    hd_scope outer, inner;
    EXPECT_EQ(hd_scope_enter(&outer, &first), 0);
    EXPECT_EQ(hd_scope_enter(&inner, &second), 0);
    hd_scope_leave(&outer);
    return 0;
}

static void run_leave_outer_first(void *options)
{
    (void)hd_run(leave_outer_first, NULL, options);
}

TEST_WORLDS(misuse_dies_with_a_message, options)
{
    expect_abort(enter_outside, NULL, "HD_SCOPE");
    hd_options own = *options;
    const struct death death = death_of(run_leave_outer_first, &own);
    EXPECT_EQ(death_signal(&death), SIGABRT);
    EXPECT(strstr(death.text, "some/first.c:111"));
    EXPECT(strstr(death.text, "some/second.c:222"));
}

TEST(reasons_have_names)
{
    EXPECT(strcmp(hd_reason_name(HD_REASON_EXPLICIT), "explicit") == 0);
    EXPECT(strcmp(hd_reason_name(HD_REASON_TIMEOUT), "timeout") == 0);
    EXPECT(strcmp(hd_reason_name(HD_REASON_PARENT), "parent") == 0);
    EXPECT(strcmp(hd_reason_name(HD_REASON_FAILURE), "failure") == 0);
    EXPECT(hd_reason_name(HD_REASON_NONE) != NULL);
}

/* ---- beside moving, and other tasks ---- */

FIBER_TEST(a_scope_goes_with_its_fiber_to_another_dispatcher)
{
    hd_dispatcher *other = NULL;
    EXPECT_EQ(hd_dispatcher_single(&other, NULL), 0);
    HD_SCOPE(s) {
        HD_ON(other) {
            EXPECT(!hd_cancelled());
            hd_scope_cancel(s);
            EXPECT_EQ(hd_sleep_ms(1), -ECANCELED);
        }
        EXPECT_EQ(hd_sleep_ms(1), -ECANCELED);
    }
    EXPECT_EQ(hd_sleep_ms(1), 0);
    hd_dispatcher_unref(other);
    return 0;
}

static int feel_nothing(void *arg)
{
    (void)arg;
    EXPECT(!hd_cancelled());
    return hd_sleep_ms(1);
}

FIBER_TEST(a_task_spawned_in_a_scope_is_not_in_it)
{
    hd_task *task = NULL;
    HD_SCOPE(s) {
        hd_scope_cancel(s);
        task = rt_spawn(NULL, feel_nothing, NULL); /* nobody's child */
    }
    EXPECT_EQ(rt_join(task), 0);
    return 0;
}
