/* SPDX-License-Identifier: MIT
 *
 * Deadlines of scopes and nurseries: they nest by minimum, end every kind of wait, and are
 * told apart from a cancel. In live nothing is early; tests/sim measures exactly.
 */
#include "every_wait.h"

TEST_MAIN

#define MS HD_MS_NS

static int64_t in_ms(int64_t ms)
{
    return hd_now(NULL) + ms * MS;
}

/* A deadline that has passed; in sim time begins at 0. */
static int64_t past(void)
{
    EXPECT_EQ(hd_sleep_ms(1), 0);
    return hd_now(NULL) - 1;
}

/* Before its deadline a nursery takes a child; live may be too late. Returns whether it did. */
static bool go_before(int64_t deadline, hd_nursery *n, hd_fn *fn, void *arg)
{
    const int err = hd_go(n, fn, arg);
    EXPECT(err == 0 || (err == -ETIMEDOUT && hd_now(NULL) >= deadline));
    return err == 0;
}

/* ---- one scope ---- */

FIBER_TEST(a_deadline_ends_a_wait_and_stays)
{
    const int64_t at = in_ms(3);
    HD_SCOPE(s, .deadline = at) {
        const bool cancelled = hd_cancelled();
        EXPECT(!cancelled || hd_now(NULL) >= at);
        EXPECT_EQ(hd_sleep_until(HD_FOREVER), -ETIMEDOUT);
        EXPECT(hd_now(NULL) >= at);
        EXPECT(hd_cancelled());
        EXPECT_CAUSE(hd_scope_cause(s), HD_REASON_TIMEOUT, HD_REASON_TIMEOUT);
        EXPECT_CAUSE(hd_self_cause(), HD_REASON_TIMEOUT, HD_REASON_TIMEOUT);
        for (int i = 0; i < 3; i++) {
            EXPECT_EQ(hd_park(), -ETIMEDOUT);
            EXPECT_EQ(hd_sleep_ms(1000000), -ETIMEDOUT);
        }
    }
    EXPECT(!hd_cancelled());
    EXPECT_EQ(hd_sleep_ms(1), 0);
    return 0;
}

FIBER_TEST(in_the_past_it_is_cancelled_from_the_start)
{
    HD_SCOPE(s, .deadline = past()) {
        EXPECT(hd_cancelled());
        EXPECT_CAUSE(hd_scope_cause(s), HD_REASON_TIMEOUT, HD_REASON_TIMEOUT);
        EXPECT_EQ(hd_park(), -ETIMEDOUT);
    }
    hd_nursery n;
    const hd_nursery_options options = {.size = sizeof(options), .deadline = past()};
    nur_open(&n, &options);
    EXPECT_STATE(&n, HD_NURSERY_CANCELLED);
    EXPECT_CAUSE(hd_nursery_look(&n).cause, HD_REASON_TIMEOUT, HD_REASON_TIMEOUT);
    nur_expect_refused(&n, -ETIMEDOUT);
    EXPECT_EQ(hd_park(), -ETIMEDOUT);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), 0); /* No child returned it. */
    return 0;
}

FIBER_TEST(for_ever_and_0_are_no_deadline)
{
    HD_SCOPE(s, .deadline = HD_FOREVER) {
        EXPECT_EQ(hd_sleep_ms(2), 0);
        EXPECT_CAUSE(hd_scope_cause(s), HD_REASON_NONE, HD_REASON_NONE);
    }
    HD_SCOPE(s, .deadline = 0) {
        EXPECT_EQ(hd_sleep_ms(2), 0);
        EXPECT(!hd_cancelled());
    }
    return 0;
}

FIBER_TEST(what_ends_in_time_is_not_touched)
{
    for (int i = 0; i < 20; i++) {
        HD_SCOPE(s, .deadline = in_ms(3600000)) {
            EXPECT_EQ(hd_sleep_ms(1), 0);
            EXPECT(!hd_cancelled());
        }
    }
    EXPECT_EQ(hd_sleep_ms(1), 0);
    return 0;
}

/* A deadline of the wait's own says the same, yet cancels nothing. */
FIBER_TEST(a_wait_may_have_a_deadline_of_its_own)
{
    hd_chan *chan = hd_chan_create(sizeof(int), 0);
    int item;
    HD_SCOPE(s, .deadline = in_ms(3600000)) {
        EXPECT_EQ(hd_chan_recv_until(chan, &item, in_ms(2)), -ETIMEDOUT);
        EXPECT(!hd_cancelled());
        EXPECT_CAUSE(hd_scope_cause(s), HD_REASON_NONE, HD_REASON_NONE);
        EXPECT_EQ(hd_chan_recv_try(chan, &item), -EAGAIN);
    }
    HD_SCOPE(s, .deadline = in_ms(2)) {
        EXPECT_EQ(hd_chan_recv_until(chan, &item, in_ms(3600000)), -ETIMEDOUT);
        EXPECT(hd_cancelled());
    }
    hd_chan_destroy(chan);
    return 0;
}

/* ---- nesting ---- */

FIBER_TEST(the_earliest_around_counts)
{
    const int64_t near = in_ms(3);
    HD_SCOPE(outer, .deadline = near) {
        HD_SCOPE(inner, .deadline = near + 3600000 * MS) {
            EXPECT_EQ(hd_sleep_until(HD_FOREVER), -ETIMEDOUT);
            EXPECT(hd_now(NULL) >= near && hd_now(NULL) < near + 60000 * MS);
            EXPECT_CAUSE(hd_scope_cause(inner), HD_REASON_PARENT, HD_REASON_TIMEOUT);
            EXPECT_CAUSE(hd_scope_cause(outer), HD_REASON_TIMEOUT, HD_REASON_TIMEOUT);
        }
    }
    HD_SCOPE(outer, .deadline = in_ms(3600000)) {
        HD_SCOPE(inner, .deadline = in_ms(2)) {
            EXPECT_EQ(hd_sleep_until(HD_FOREVER), -ETIMEDOUT);
            EXPECT_CAUSE(hd_scope_cause(inner), HD_REASON_TIMEOUT, HD_REASON_TIMEOUT);
            EXPECT_CAUSE(hd_scope_cause(outer), HD_REASON_NONE, HD_REASON_NONE);
        }
        EXPECT_EQ(hd_sleep_ms(1), 0); /* The outer one goes on. */
    }
    return 0;
}

FIBER_TEST(many_nested_deadlines_pass_from_the_inside_out)
{
    enum { DEEP = 50 };
    static hd_scope scopes[DEEP];
    const int64_t start = hd_now(NULL);
    for (int i = 0; i < DEEP; i++) { /* the inner, the earlier */
        const hd_scope_options options = {.size = sizeof(options),
                                          .deadline = start + (DEEP - i) * MS};
        EXPECT_EQ(hd_scope_enter(&scopes[i], &options), 0);
    }
    for (int i = DEEP - 1; i >= 0; i--) {
        EXPECT_EQ(hd_sleep_until(HD_FOREVER), -ETIMEDOUT);
        EXPECT(hd_now(NULL) >= start + (DEEP - i) * MS);
        hd_scope_leave(&scopes[i]);
    }
    EXPECT_EQ(hd_sleep_ms(1), 0);
    return 0;
}

/* ---- together with a cancel ---- */

FIBER_TEST(both_are_told_as_a_cancel)
{
    const int64_t before = past();
    HD_SCOPE(outer) {
        HD_SCOPE(inner, .deadline = before) {
            hd_scope_cancel(outer);
            EXPECT_EQ(hd_park(), -ECANCELED);
        }
    }
    HD_SCOPE(outer) {
        hd_scope_cancel(outer);
        HD_SCOPE(inner, .deadline = before) EXPECT_EQ(hd_park(), -ECANCELED);
    }
    HD_SCOPE(outer, .deadline = before) {
        HD_SCOPE(inner) {
            hd_scope_cancel(inner); /* It was reached by the deadline first. */
            EXPECT_EQ(hd_park(), -ETIMEDOUT);
        }
        EXPECT_EQ(hd_park(), -ETIMEDOUT);
    }
    return 0;
}

FIBER_TEST(the_first_cause_of_a_scope_stays)
{
    HD_SCOPE(s, .deadline = past()) {
        hd_scope_cancel(s);
        EXPECT_CAUSE(hd_scope_cause(s), HD_REASON_TIMEOUT, HD_REASON_TIMEOUT);
    }
    const int64_t at = in_ms(5);
    HD_SCOPE(s, .deadline = at) {
        hd_scope_cancel(s);
        if (hd_now(NULL) >= at) break; /* live: it may have been the other way round */
        while (hd_now(NULL) < at + MS) hd_yield();
        EXPECT_CAUSE(hd_scope_cause(s), HD_REASON_EXPLICIT, HD_REASON_EXPLICIT);
        EXPECT_EQ(hd_park(), -ECANCELED);
    }
    return 0;
}

/* ---- shields ---- */

FIBER_TEST(a_shield_keeps_deadlines_off_too)
{
    HD_SCOPE(s, .deadline = in_ms(1)) {
        HD_SCOPE(shield, .shield = HD_SHIELD_HARD) {
            EXPECT_EQ(hd_sleep_ms(5), 0);
            EXPECT(!hd_cancelled());
        }
        EXPECT(hd_cancelled());
        EXPECT_EQ(hd_shield(), 0);
        EXPECT_EQ(hd_sleep_ms(1), 0);
        EXPECT_EQ(hd_unshield(), 0);
        EXPECT_EQ(hd_sleep_ms(1), -ETIMEDOUT);
    }
    return 0;
}

FIBER_TEST(a_shield_may_have_a_deadline_of_its_own)
{
    HD_SCOPE(outer) {
        hd_scope_cancel(outer);
        HD_SCOPE(shield, .shield = HD_SHIELD_HARD, .deadline = in_ms(3)) {
            EXPECT_EQ(hd_sleep_until(HD_FOREVER), -ETIMEDOUT); /* and not by the cancel */
            EXPECT_CAUSE(hd_scope_cause(shield), HD_REASON_TIMEOUT, HD_REASON_TIMEOUT);
        }
        EXPECT_EQ(hd_sleep_ms(1), -ECANCELED);
    }
    return 0;
}

FIBER_TEST(after_a_soft_shield_a_deadline_is_still_a_deadline)
{
    const int64_t grace = in_ms(4);
    HD_SCOPE(outer, .deadline = in_ms(1)) {
        HD_SCOPE(soft, .shield = HD_SHIELD_SOFT, .grace = grace) {
            EXPECT_EQ(hd_sleep_until(HD_FOREVER), -ETIMEDOUT);
            EXPECT(hd_now(NULL) >= grace);
            EXPECT_CAUSE(hd_scope_cause(soft), HD_REASON_PARENT, HD_REASON_TIMEOUT);
        }
    }
    return 0;
}

/* ---- nurseries ---- */

struct level {
    int err;
    hd_cause self, nursery;
    atomic_int begun;
};

static struct level levels[3];

static int wait_at_level(int level)
{
    atomic_store(&levels[level].begun, 1);
    levels[level].err = hd_sleep_until(HD_FOREVER);
    levels[level].self = hd_self_cause();
    return levels[level].err;
}

static int grandchild(void *arg)
{
    (void)arg;
    return wait_at_level(2);
}

static int child_with_nursery(void *deadline)
{
    hd_nursery n;
    nur_open(&n, NULL);
    (void)go_before(*(int64_t *)deadline, &n, grandchild, NULL);
    const int err = wait_at_level(1);
    levels[1].nursery = hd_nursery_look(&n).cause;
    const int result = hd_nursery_leave(&n);
    return result ? result : err;
}

FIBER_TEST(the_deadline_of_a_nursery_reaches_its_body_and_its_tree)
{
    memset(levels, 0, sizeof(levels));
    hd_nursery_options options = {.size = sizeof(options), .deadline = in_ms(20)};
    hd_nursery n;
    nur_open(&n, &options);
    (void)go_before(options.deadline, &n, child_with_nursery, &options.deadline);
    EXPECT_EQ(wait_at_level(0), -ETIMEDOUT);
    EXPECT(hd_now(NULL) >= options.deadline);
    nur_expect_refused(&n, -ETIMEDOUT); /* as a wait in it */
    const int result = hd_nursery_wait(&n);
    const hd_nursery_info info = hd_nursery_look(&n);
    EXPECT_CAUSE(info.cause, HD_REASON_TIMEOUT, HD_REASON_TIMEOUT);
    EXPECT_EQ(info.cancelled, info.spawned); /* It heeded it: no failure. */
    EXPECT_EQ(info.failed, 0);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), result);
    if (!atomic_load(&levels[2].begun)) return 0; /* live was too slow for the whole tree */
    EXPECT_EQ(result, -ETIMEDOUT);
    for (int i = 0; i < 3; i++) EXPECT_EQ(levels[i].err, -ETIMEDOUT);
    for (int i = 0; i < 2; i++) {
        EXPECT_CAUSE(levels[i].self, HD_REASON_TIMEOUT, HD_REASON_TIMEOUT);
    }
    EXPECT_CAUSE(levels[1].nursery, HD_REASON_PARENT, HD_REASON_TIMEOUT);
    EXPECT_CAUSE(levels[2].self, HD_REASON_PARENT, HD_REASON_TIMEOUT);
    EXPECT(!hd_cancelled());
    return 0;
}

FIBER_TEST(a_deadline_that_passes_while_the_owner_waits)
{
    hd_nursery n;
    const hd_nursery_options options = {.size = sizeof(options), .deadline = in_ms(2)};
    nur_open(&n, &options);
    const bool parked = go_before(options.deadline, &n, nur_park, NULL);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), parked ? -ETIMEDOUT : 0);
    EXPECT(hd_now(NULL) >= options.deadline);
    return 0;
}

FIBER_TEST(a_scope_with_a_deadline_around_a_nursery)
{
    hd_nursery n;
    const int64_t at = in_ms(2);
    HD_SCOPE(s, .deadline = at) {
        nur_open(&n, NULL);
        const int result = go_before(at, &n, nur_park, NULL) ? -ETIMEDOUT : 0;
        EXPECT_EQ(hd_nursery_wait(&n), result);
        EXPECT_CAUSE(hd_nursery_look(&n).cause, HD_REASON_PARENT, HD_REASON_TIMEOUT);
        EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), result);
    }
    return 0;
}

FIBER_TEST(an_inner_nursery_times_out_alone)
{
    struct nur_actor bystander;
    hd_nursery outer, inner;
    const hd_nursery_options late = {.size = sizeof(late), .deadline = in_ms(3600000)};
    const hd_nursery_options soon = {.size = sizeof(soon), .deadline = in_ms(2)};
    nur_open(&outer, &late);
    nur_go_actor(&outer, &bystander);
    nur_open(&inner, &soon);
    const bool parked = go_before(soon.deadline, &inner, nur_park, NULL);
    EXPECT_EQ(nur_leave_as(&inner, HD_NURSERY_CANCELLED), parked ? -ETIMEDOUT : 0);
    EXPECT(!hd_cancelled());
    EXPECT_EQ(hd_sleep_ms(1), 0);
    nur_let_end(&bystander, 0);
    EXPECT_EQ(nur_leave_as(&outer, HD_NURSERY_CLOSED), 0);
    EXPECT(!bystander.cancelled);
    return 0;
}

FIBER_TEST(an_error_beats_a_timeout_and_success_ignores_it)
{
    const hd_nursery_options options = {.size = sizeof(options), .deadline = 1 + hd_now(NULL)};
    hd_nursery n;
    struct nur_actor a, b;
    nur_open(&n, &options);
    if (hd_nursery_look(&n).state != HD_NURSERY_OPEN) { /* live: it has passed already */
        EXPECT_EQ(hd_nursery_leave(&n), 0);
        return 0;
    }
    const int spawned[] = {(nur_actor_init(&a), hd_go(&n, nur_act, &a)),
                           (nur_actor_init(&b), hd_go(&n, nur_act, &b))};
    EXPECT_EQ(hd_sleep_until(HD_FOREVER), -ETIMEDOUT);
    if (spawned[0] == 0) nur_let_end(&a, 0);
    if (spawned[1] == 0) nur_let_end(&b, -EIO);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), spawned[1] == 0 ? -EIO : 0);
    return 0;
}

TEST_WORLDS(a_thread_s_nursery_has_deadlines_too, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_nursery_options of = {.size = sizeof(of), .runtime = runtime};
    of.deadline = hd_now(runtime) + 3 * MS;
    hd_nursery n;
    nur_open(&n, &of);
    const int err = hd_go(&n, nur_park, NULL);
    EXPECT(err == 0 || (err == -ETIMEDOUT && hd_now(runtime) >= of.deadline));
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), err ? 0 : -ETIMEDOUT);
    EXPECT(hd_now(runtime) >= of.deadline);
    hd_runtime_destroy(runtime);
}

/* ---- every kind of wait ---- */

static int time_out_everything(void *arg)
{
    (void)arg;
    struct waits w;
    waits_init(&w);
    for (int i = 0; i < WAITS; i++) {
        struct waits_child child = {.waits = &w, .which = i};
        hd_nursery n;
        const hd_nursery_options options = {.size = sizeof(options), .deadline = in_ms(2)};
        nur_open(&n, &options);
        (void)hd_go(&n, waits_child_fn, &child); /* In live it may be too late already. */
        const int result = hd_nursery_leave(&n);
        if (result != -ETIMEDOUT && atomic_load(&child.begun)) {
            test_fail(__FILE__, __LINE__, "%s: %d", waits_all[i].name, result);
        }
    }
    waits_fini(&w);
    return 0;
}

TEST_WORLDS(every_wait_of_a_fiber_is_ended_by_a_deadline_around_it, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(time_out_everything, NULL, &one);
}

static int time_out_cases(void *arg)
{
    (void)arg;
    struct waits w;
    waits_init(&w);
    for (int i = 0; i < WAITS_CASES; i++) {
        atomic_int begun = 0;
        const struct waits_poll state = {.c = waits_case(&w, i), .begun = &begun};
        hd_nursery n;
        const hd_nursery_options options = {.size = sizeof(options), .deadline = in_ms(2)};
        nur_open(&n, &options);
        hd_spawn_options spawn = HD_SPAWN_OPTIONS_INIT;
        spawn.nursery = &n;
        (void)hd_spawn_poll_with(NULL, waits_poll_fn, &state, sizeof(state), &spawn);
        const int result = hd_nursery_leave(&n);
        if (atomic_load(&begun)) EXPECT_EQ(result, -ETIMEDOUT);
    }
    waits_fini(&w);
    return 0;
}

TEST_WORLDS(every_wait_of_a_stackless_task_is_ended_by_a_deadline_around_it, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(time_out_cases, NULL, &one);
}
