/* SPDX-License-Identifier: MIT
 *
 * Cancelling trees of tasks: downwards through owners and nurseries, never upwards or
 * sideways; why, at every level; every kind of wait; and what shields keep off.
 */
#include "every_wait.h"

#include <pthread.h>

TEST_MAIN

/* ---- all the way down ---- */

struct tree {
    int width;
    atomic_int begun, cancelled;
};

struct node {
    struct tree *tree;
    int depth;
};

static int grow(void *arg);

static void grow_children(hd_nursery *n, const struct node *self, struct node *children)
{
    for (int i = 0; i < self->tree->width; i++) {
        children[i] = (struct node){self->tree, self->depth - 1};
        nur_go(n, grow, &children[i]);
    }
}

/* A node of the tree: it owns a nursery of more, or parks. */
static int grow(void *arg)
{
    const struct node *self = arg;
    struct node children[3];
    hd_nursery n;
    int err;
    if (self->depth > 0) {
        grow_children(nur_open(&n, NULL), self, children);
        atomic_fetch_add(&self->tree->begun, 1);
        err = hd_nursery_leave(&n); /* the wait itself is not ended by the cancel */
    } else {
        atomic_fetch_add(&self->tree->begun, 1);
        err = nur_park(NULL);
    }
    EXPECT_EQ(err, -ECANCELED);
    EXPECT(hd_cancelled());
    atomic_fetch_add(&self->tree->cancelled, 1);
    return err;
}

FIBER_TEST(cancelling_a_task_cancels_its_tree)
{
    struct tree tree = {.width = 3};
    struct node root = {&tree, 3};
    hd_task *task = rt_spawn(NULL, grow, &root);
    while (atomic_load(&tree.begun) < 1 + 3 + 9 + 27) hd_yield();
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), -ECANCELED);
    EXPECT_EQ(atomic_load(&tree.cancelled), 1 + 3 + 9 + 27);
    return 0;
}

FIBER_TEST(cancelling_a_nursery_cancels_the_trees_of_its_children)
{
    struct tree tree = {.width = 2};
    struct node root = {&tree, 4};
    hd_nursery n;
    nur_open(&n, NULL);
    nur_go(&n, grow, &root);
    while (atomic_load(&tree.begun) < 31) hd_yield();
    hd_nursery_cancel(&n);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -ECANCELED);
    EXPECT_EQ(atomic_load(&tree.cancelled), 31);
    return 0;
}

FIBER_TEST(one_branch_alone)
{
    struct tree left = {.width = 2}, right = {.width = 2};
    struct node left_root = {&left, 3}, right_root = {&right, 3};
    hd_nursery n;
    nur_open(&n, NULL);
    hd_task *task = nur_spawn(&n, grow, &left_root, NULL, 0);
    nur_go(&n, grow, &right_root);
    while (atomic_load(&left.begun) + atomic_load(&right.begun) < 30) hd_yield();
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), -ECANCELED);
    EXPECT_EQ(atomic_load(&left.cancelled), 15);
    for (int i = 0; i < 100; i++) hd_yield();
    EXPECT_EQ(atomic_load(&right.cancelled), 0);
    EXPECT_STATE(&n, HD_NURSERY_OPEN);
    hd_nursery_cancel(&n);
    EXPECT_EQ(hd_nursery_leave(&n), -ECANCELED);
    EXPECT_EQ(atomic_load(&right.cancelled), 15);
    return 0;
}

FIBER_TEST(of_nurseries_of_one_task_the_inner_go_with_the_outer_only)
{
    hd_nursery outer, inner;
    struct nur_actor a;
    nur_open(&outer, NULL);
    nur_go_actor(&outer, &a);
    nur_open(&inner, NULL);
    nur_go(&inner, nur_park, NULL);
    hd_nursery_cancel(&inner);
    EXPECT_STATE(&outer, HD_NURSERY_OPEN);
    EXPECT_EQ(nur_leave_as(&inner, HD_NURSERY_CANCELLED), -ECANCELED);
    EXPECT(!hd_cancelled());
    nur_open(&inner, NULL);
    nur_go(&inner, nur_park, NULL);
    hd_nursery_cancel(&outer);
    EXPECT_CAUSE(hd_nursery_look(&inner).cause, HD_REASON_PARENT, HD_REASON_EXPLICIT);
    EXPECT_EQ(nur_leave_as(&inner, HD_NURSERY_CANCELLED), -ECANCELED);
    nur_let_end(&a, 0);
    EXPECT_EQ(nur_leave_as(&outer, HD_NURSERY_CANCELLED), 0);
    EXPECT(a.cancelled);
    return 0;
}

struct chain_state {
    hd_nursery nursery;
    atomic_int *alive;
    int depth, stage;
};

/* Stackless, each owning a nursery with the next. */
static hd_poll chain(void *state, int *result)
{
    struct chain_state *self = state;
    if (self->stage == 0) {
        self->stage = 1;
        nur_open(&self->nursery, NULL);
        const struct chain_state next = {.alive = self->alive, .depth = self->depth - 1};
        if (self->depth > 0) nur_go_poll(&self->nursery, chain, &next, sizeof(next));
        atomic_fetch_add(self->alive, 1);
    }
    if (self->depth == 0 && !hd_cancelled()) return HD_PENDING;
    int left;
    if (hd_nursery_wait_poll(&self->nursery, &left) == HD_PENDING) return HD_PENDING;
    EXPECT_EQ(hd_nursery_leave(&self->nursery), left);
    EXPECT_EQ(hd_nursery_result(), left);
    EXPECT(hd_cancelled());
    atomic_fetch_sub(self->alive, 1);
    *result = -ECANCELED;
    return HD_READY;
}

FIBER_TEST(stackless_trees)
{
    atomic_int alive = 0;
    const struct chain_state root = {.alive = &alive, .depth = 99};
    hd_task *task = rt_spawn_poll(NULL, chain, &root, sizeof(root));
    while (atomic_load(&alive) < 100) hd_yield();
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), -ECANCELED);
    EXPECT_EQ(atomic_load(&alive), 0);
    return 0;
}

FIBER_TEST(a_task_that_is_nobody_s_child_is_not_reached)
{
    struct nur_actor free_one;
    nur_actor_init(&free_one);
    hd_task *task = NULL;
    HD_NURSERY(n) {
        task = rt_spawn(NULL, nur_act, &free_one);
        hd_nursery_cancel(n);
    }
    nur_let_end(&free_one, 4);
    EXPECT_EQ(rt_join(task), 4);
    EXPECT(!free_one.cancelled);
    return 0;
}

/* ---- who cancels ---- */

static int cancel_own_nursery(void *arg)
{
    EXPECT(!hd_cancelled());
    hd_nursery_cancel(arg);
    EXPECT(hd_cancelled());
    return nur_park(NULL);
}

FIBER_TEST(a_child_cancels_its_own_nursery_and_itself)
{
    hd_nursery n;
    nur_open(&n, NULL);
    nur_go(&n, nur_park, NULL);
    nur_go(&n, cancel_own_nursery, &n);
    EXPECT_EQ(hd_nursery_wait(&n), -ECANCELED);
    EXPECT_EQ(hd_nursery_look(&n).cancelled, 2);
    EXPECT_EQ(hd_nursery_leave(&n), -ECANCELED);
    return 0;
}

static void *cancel_from_thread(void *nursery)
{
    hd_nursery_cancel(nursery);
    return NULL;
}

TEST_WORLDS(another_thread_cancels, options)
{
    hd_runtime *runtime = rt_create(options);
    const hd_nursery_options of = {.size = sizeof(of), .runtime = runtime};
    for (int i = 0; i < 10; i++) {
        hd_nursery n;
        nur_open(&n, &of);
        for (int k = 0; k < 5; k++) nur_go(&n, nur_park, NULL);
        pthread_t thread;
        EXPECT_EQ(pthread_create(&thread, NULL, cancel_from_thread, &n), 0);
        EXPECT_EQ(pthread_join(thread, NULL), 0);
        EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -ECANCELED);
    }
    hd_runtime_destroy(runtime);
}

/* It runs all the same, and says what it likes. */
static int count_run(void *arg)
{
    EXPECT(hd_cancelled());
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

FIBER_TEST(a_child_cancelled_before_its_first_run_still_runs)
{
    if (hd_runtime_world(hd_runtime_self()) == HD_WORLD_LIVE) return 0; /* it may have begun */
    atomic_int ran = 0;
    HD_NURSERY(n) {
        for (int i = 0; i < 5; i++) nur_go(n, count_run, &ran);
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(atomic_load(&ran), 5);
    EXPECT_EQ(hd_nursery_result(), 0);
    return 0;
}

/* ---- a cancel of the owner ---- */

struct owner {
    atomic_int waiting;
    struct nur_actor slow;
    hd_nursery nursery;
};

static int own_slow_child(void *arg)
{
    struct owner *o = arg;
    nur_open(&o->nursery, NULL);
    nur_go_actor(&o->nursery, &o->slow);
    atomic_store(&o->waiting, 1);
    const int result = hd_nursery_wait(&o->nursery);
    EXPECT_EQ(hd_nursery_look(&o->nursery).live, 0); /* not before all have ended */
    EXPECT_CAUSE(hd_nursery_look(&o->nursery).cause, HD_REASON_PARENT, HD_REASON_EXPLICIT);
    EXPECT_EQ(nur_leave_as(&o->nursery, HD_NURSERY_CANCELLED), result);
    return result;
}

FIBER_TEST(a_cancel_of_the_owner_does_not_end_its_wait)
{
    struct owner o = {.waiting = 0};
    hd_task *task = rt_spawn(NULL, own_slow_child, &o);
    rt_until(&o.waiting);
    for (int i = 0; i < 50; i++) hd_yield();
    hd_cancel(task);
    EXPECT_STATE(&o.nursery, HD_NURSERY_CANCELLING);
    for (int i = 0; i < 100; i++) hd_yield();
    EXPECT_EQ(hd_join_try(task, NULL), -EAGAIN);
    nur_let_end(&o.slow, 3); /* in its own time */
    EXPECT_EQ(rt_join(task), 0);
    EXPECT(o.slow.cancelled);
    return 0;
}

/* ---- why ---- */

struct why {
    hd_cause body, child, inner, inner_body, grandchild;
    atomic_int begun;
    int fail;        /* what the failing sibling returns */
    uint64_t failed; /* its id */
    hd_group gate;
};

static void park_and_note(struct why *why, hd_cause *cause)
{
    atomic_fetch_add(&why->begun, 1);
    EXPECT_EQ(nur_park(NULL), -ECANCELED);
    *cause = hd_self_cause();
}

static int why_grandchild(void *arg)
{
    struct why *why = arg;
    park_and_note(why, &why->grandchild);
    return -ECANCELED;
}

static int why_owner(void *arg)
{
    struct why *why = arg;
    hd_nursery n;
    nur_open(&n, NULL);
    nur_go(&n, why_grandchild, why);
    park_and_note(why, &why->inner_body);
    why->inner = hd_nursery_look(&n).cause;
    EXPECT_EQ(hd_nursery_leave(&n), -ECANCELED);
    why->child = hd_self_cause();
    return -ECANCELED;
}

static int why_fail(void *arg)
{
    struct why *why = arg;
    why->failed = hd_self_id();
    EXPECT_EQ(hd_group_wait(&why->gate), 0);
    return why->fail;
}

static void expect_below(const struct why *why, hd_reason root)
{
    EXPECT_CAUSE(why->child, root, root); /* what was done to the nursery was done to it */
    EXPECT_CAUSE(why->inner, HD_REASON_PARENT, root);
    EXPECT_CAUSE(why->inner_body, root, root); /* the task's own, as in the line above */
    EXPECT_CAUSE(why->grandchild, HD_REASON_PARENT, root);
}

FIBER_TEST(the_reason_explicit_at_every_level)
{
    struct why why = {.begun = 0};
    hd_nursery n;
    nur_open(&n, NULL);
    nur_go(&n, why_owner, &why);
    while (atomic_load(&why.begun) < 2) hd_yield();
    hd_nursery_cancel(&n);
    EXPECT_EQ(hd_park(), -ECANCELED);
    EXPECT_CAUSE(hd_self_cause(), HD_REASON_EXPLICIT, HD_REASON_EXPLICIT); /* the body */
    EXPECT_CAUSE(hd_nursery_look(&n).cause, HD_REASON_EXPLICIT, HD_REASON_EXPLICIT);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -ECANCELED);
    expect_below(&why, HD_REASON_EXPLICIT);
    EXPECT_EQ(why.grandchild.task, 0);
    EXPECT_EQ(why.grandchild.error, 0);
    return 0;
}

FIBER_TEST(the_reason_of_a_cancelled_task_at_every_level)
{
    struct why why = {.begun = 0};
    hd_nursery n;
    nur_open(&n, NULL);
    hd_task *task = nur_spawn(&n, why_owner, &why, NULL, 0);
    while (atomic_load(&why.begun) < 2) hd_yield();
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), -ECANCELED);
    EXPECT_CAUSE(hd_self_cause(), HD_REASON_NONE, HD_REASON_NONE);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), -ECANCELED);
    expect_below(&why, HD_REASON_EXPLICIT);
    return 0;
}

FIBER_TEST(the_reason_failure_at_every_level_names_who_failed)
{
    struct why why = {.fail = -EIO};
    EXPECT_EQ(hd_group_add(&why.gate, 1), 0);
    hd_nursery n;
    nur_open(&n, NULL);
    nur_go(&n, why_owner, &why);
    nur_go(&n, why_fail, &why);
    while (atomic_load(&why.begun) < 2) hd_yield();
    hd_group_done(&why.gate);
    EXPECT_EQ(hd_sleep_until(HD_FOREVER), -ECANCELED);
    why.body = hd_self_cause();
    const hd_cause nursery = hd_nursery_look(&n).cause;
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -EIO);
    EXPECT_CAUSE(nursery, HD_REASON_FAILURE, HD_REASON_FAILURE);
    EXPECT_CAUSE(why.body, HD_REASON_FAILURE, HD_REASON_FAILURE);
    expect_below(&why, HD_REASON_FAILURE);
    const hd_cause all[] = {nursery, why.body, why.child, why.inner, why.inner_body,
                            why.grandchild};
    for (int i = 0; i < 6; i++) {
        EXPECT_EQ(all[i].error, -EIO);
        EXPECT_EQ(all[i].task, why.failed);
    }
    return 0;
}

static int why_shutdown(void *arg)
{
    struct why *why = arg;
    park_and_note(why, &why->child);
    return 0;
}

TEST_WORLDS(a_shutdown_is_explicit, options)
{
    hd_runtime *runtime = rt_create(options);
    struct why why = {.begun = 0};
    hd_detach(rt_spawn(runtime, why_shutdown, &why));
    rt_await(runtime, &why.begun);
    EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0);
    EXPECT_CAUSE(why.child, HD_REASON_EXPLICIT, HD_REASON_EXPLICIT);
    hd_runtime_destroy(runtime);
}

/* ---- it stays ---- */

static int cancelled_for_good(void *arg)
{
    (void)arg;
    EXPECT_EQ(nur_park(NULL), -ECANCELED);
    hd_chan *chan = hd_chan_create(sizeof(int), 0);
    hd_mutex mutex = {{0}};
    int item;
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(hd_park(), -ECANCELED);
        EXPECT_EQ(hd_sleep_ms(1), -ECANCELED);
        EXPECT_EQ(hd_chan_recv(chan, &item), -ECANCELED);
        EXPECT_EQ(hd_mutex_lock(&mutex), -ECANCELED); /* though it is free */
        EXPECT_EQ(hd_mutex_lock_try(&mutex), 0);
        hd_mutex_unlock(&mutex);
        hd_yield(); /* is no wait */
        EXPECT(hd_cancelled());
    }
    hd_chan_destroy(chan);
    hd_mutex_fini(&mutex);
    return -ECANCELED;
}

FIBER_TEST(every_later_wait_of_a_child_says_it_again)
{
    hd_nursery n;
    nur_open(&n, NULL);
    nur_go(&n, cancelled_for_good, NULL);
    hd_nursery_cancel(&n);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -ECANCELED);
    return 0;
}

/* ---- every kind of wait ---- */

static int cancel_everything(void *arg)
{
    (void)arg;
    struct waits w;
    waits_init(&w);
    for (int i = 0; i < WAITS; i++) {
        struct waits_child child = {.waits = &w, .which = i};
        hd_nursery n;
        nur_open(&n, NULL);
        nur_go(&n, waits_child_fn, &child);
        rt_until(&child.begun);
        waits_settle();
        hd_nursery_cancel(&n);
        const int result = hd_nursery_leave(&n);
        if (result != -ECANCELED) {
            test_fail(__FILE__, __LINE__, "%s: %d", waits_all[i].name, result);
        }
    }
    waits_fini(&w);
    return 0;
}

TEST_WORLDS(every_wait_of_a_fiber_is_ended, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(cancel_everything, NULL, &one);
}

static int cancel_cases(void *arg)
{
    (void)arg;
    struct waits w;
    waits_init(&w);
    for (int i = 0; i < WAITS_CASES; i++) {
        atomic_int begun = 0;
        const struct waits_poll state = {.c = waits_case(&w, i), .begun = &begun};
        hd_nursery n;
        nur_open(&n, NULL);
        nur_go_poll(&n, waits_poll_fn, &state, sizeof(state));
        rt_until(&begun);
        waits_settle();
        hd_nursery_cancel(&n);
        EXPECT_EQ(hd_nursery_leave(&n), -ECANCELED);
    }
    waits_fini(&w);
    return 0;
}

TEST_WORLDS(every_wait_of_a_stackless_task_is_ended, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(cancel_cases, NULL, &one);
}

/* ---- shields ---- */

struct shielded {
    enum { BY_CALL, BY_SCOPE, INSIDE_BODY } how;
    atomic_int ready;
    struct nur_actor slow;
    hd_nursery nursery;
};

static void own_behind_shield(struct shielded *s)
{
    nur_open(&s->nursery, NULL);
    nur_go_actor(&s->nursery, &s->slow);
    nur_go(&s->nursery, nur_nothing, NULL);
    atomic_store(&s->ready, 1);
    EXPECT_EQ(hd_nursery_wait(&s->nursery), 0);
    EXPECT(!hd_cancelled());
    EXPECT_EQ(nur_leave_as(&s->nursery, HD_NURSERY_CLOSED), 0);
}

static int own_shielded(void *arg)
{
    struct shielded *s = arg;
    if (s->how == BY_CALL) {
        EXPECT_EQ(hd_shield(), 0);
        own_behind_shield(s);
        EXPECT_EQ(hd_unshield(), 0);
    } else {
        HD_SCOPE(shield, .shield = HD_SHIELD_HARD) own_behind_shield(s);
    }
    EXPECT(hd_cancelled());
    return hd_park();
}

FIBER_TEST(a_nursery_inside_a_shield_is_not_reached_from_outside)
{
    for (int how = BY_CALL; how <= BY_SCOPE; how++) {
        struct shielded s = {.how = how};
        hd_task *task = rt_spawn(NULL, own_shielded, &s);
        rt_until(&s.ready);
        hd_cancel(task);
        for (int i = 0; i < 100; i++) hd_yield();
        EXPECT_EQ(hd_nursery_look(&s.nursery).cause.reason, HD_REASON_NONE);
        nur_let_end(&s.slow, 0);
        EXPECT_EQ(rt_join(task), -ECANCELED);
        EXPECT(!s.slow.cancelled);
    }
    return 0;
}

static int shield_own_body(void *arg)
{
    struct shielded *s = arg;
    nur_open(&s->nursery, NULL);
    hd_task *child = nur_spawn(&s->nursery, nur_park, NULL, NULL, 0);
    EXPECT_EQ(hd_shield(), 0);
    atomic_store(&s->ready, 1);
    EXPECT_EQ(rt_join(child), -ECANCELED); /* The child is outside the shield, */
    EXPECT(!hd_cancelled());               /* and this here is inside. */
    EXPECT_EQ(hd_sleep_ms(1), 0);
    EXPECT_EQ(hd_unshield(), 0);
    EXPECT(hd_cancelled());
    EXPECT_CAUSE(hd_nursery_look(&s->nursery).cause, HD_REASON_PARENT, HD_REASON_EXPLICIT);
    return nur_leave_as(&s->nursery, HD_NURSERY_CANCELLED);
}

FIBER_TEST(a_shield_in_the_body_does_not_cover_the_children)
{
    struct shielded s = {.how = INSIDE_BODY};
    hd_task *task = rt_spawn(NULL, shield_own_body, &s);
    rt_until(&s.ready);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), -ECANCELED);
    return 0;
}

FIBER_TEST(a_nursery_inside_a_shield_can_be_cancelled_itself)
{
    HD_SCOPE(shield, .shield = HD_SHIELD_HARD) {
        hd_nursery n;
        nur_open(&n, NULL);
        nur_go(&n, nur_park, NULL);
        hd_nursery_cancel(&n);
        EXPECT(hd_cancelled());
        EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -ECANCELED);
        EXPECT(!hd_cancelled());
    }
    return 0;
}

static int finish_behind_shield(void *arg)
{
    (void)arg;
    EXPECT_EQ(nur_park(NULL), -ECANCELED);
    HD_SCOPE(clean_up, .shield = HD_SHIELD_HARD) {
        EXPECT_EQ(hd_sleep_ms(2), 0);
        HD_NURSERY(n) nur_go(n, nur_nothing, NULL); /* tasks of its own, too */
        EXPECT_EQ(hd_nursery_result(), 0);
    }
    return hd_park();
}

FIBER_TEST(a_cancelled_child_cleans_up_behind_a_shield_and_is_waited_for)
{
    hd_nursery n;
    nur_open(&n, NULL);
    for (int i = 0; i < 3; i++) nur_go(&n, finish_behind_shield, NULL);
    hd_nursery_cancel(&n);
    EXPECT_EQ(hd_nursery_wait(&n), -ECANCELED);
    EXPECT_EQ(hd_nursery_look(&n).cancelled, 3);
    EXPECT_EQ(hd_nursery_leave(&n), -ECANCELED);
    return 0;
}

FIBER_TEST(a_nursery_inside_a_soft_shield_is_cancelled_at_its_grace)
{
    const int64_t grace = hd_now(NULL) + 5 * HD_MS_NS;
    HD_SCOPE(outer) {
        hd_scope_cancel(outer);
        HD_SCOPE(soft, .shield = HD_SHIELD_SOFT, .grace = grace) {
            hd_nursery n;
            nur_open(&n, NULL);
            (void)hd_go(&n, nur_park, NULL); /* In live the grace may be over. */
            const unsigned spawned = (unsigned)hd_nursery_look(&n).spawned;
            EXPECT_EQ(hd_nursery_wait(&n), spawned ? -ECANCELED : 0);
            EXPECT(hd_now(NULL) >= grace);
            EXPECT_CAUSE(hd_nursery_look(&n).cause, HD_REASON_PARENT, HD_REASON_EXPLICIT);
            EXPECT_EQ(hd_nursery_leave(&n), spawned ? -ECANCELED : 0);
        }
    }
    return 0;
}
