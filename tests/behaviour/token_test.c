/* SPDX-License-Identifier: MIT
 *
 * Tokens: what hangs on them is cancelled with them, from wherever.
 */
#include "locks.h"

#include <pthread.h>

#include "death.h"

TEST_MAIN

static hd_token *token_new(hd_token *parent)
{
    hd_token *token = hd_token_create(parent);
    EXPECT(token != NULL);
    return token;
}

/* Let others run. Returns what a wait would return. */
static int go_on(void)
{
    hd_yield();
    return hd_checkpoint(1);
}

static int await(void *token, int64_t deadline)
{
    return hd_token_wait(token, deadline);
}

/* ---- trees of tokens ---- */

TEST(a_token_is_cancelled_once_and_stays_so)
{
    hd_token *token = token_new(NULL);
    EXPECT(!hd_token_cancelled(token));
    hd_token_cancel(token);
    EXPECT(hd_token_cancelled(token));
    hd_token_cancel(token);
    EXPECT(hd_token_cancelled(token));
    EXPECT(hd_token_ref(token) == token);
    hd_token_unref(token);
    EXPECT(hd_token_cancelled(token));
    hd_token_unref(token);
}

TEST(children_are_cancelled_with_their_parent_and_not_the_other_way)
{
    hd_token *root = token_new(NULL);
    hd_token *left = token_new(root), *right = token_new(root);
    hd_token *leaf = token_new(left);
    hd_token_cancel(left);
    EXPECT(hd_token_cancelled(left) && hd_token_cancelled(leaf));
    EXPECT(!hd_token_cancelled(root) && !hd_token_cancelled(right));
    hd_token *late = token_new(left);
    EXPECT(hd_token_cancelled(late)); /* from the start */
    hd_token_cancel(root);
    EXPECT(hd_token_cancelled(root) && hd_token_cancelled(right));
    hd_token *tokens[] = {root, left, right, leaf, late};
    for (int i = 0; i < 5; i++) hd_token_unref(tokens[i]);
}

TEST(a_parent_is_kept_by_its_children)
{
    hd_token *root = token_new(NULL);
    hd_token *middle = token_new(root);
    hd_token *leaf = token_new(middle);
    hd_token_unref(middle);
    hd_token_cancel(root); /* goes through it */
    EXPECT(hd_token_cancelled(leaf));
    hd_token_unref(root);
    hd_token_unref(leaf);
}

TEST(a_child_that_has_gone_is_left_out)
{
    hd_token *root = token_new(NULL);
    hd_token *children[3];
    for (int i = 0; i < 3; i++) children[i] = token_new(root);
    hd_token_unref(children[1]);
    hd_token_cancel(root);
    EXPECT(hd_token_cancelled(children[0]) && hd_token_cancelled(children[2]));
    hd_token_unref(children[0]); /* after the cancel */
    hd_token_unref(root);
    hd_token_unref(children[2]);
}

/* Neither cancelling nor ending goes deep: a stack of 16 KiB is enough. */
enum { DEEP = 20000 };

static int cancel_chain(void *arg)
{
    (void)arg;
    hd_token *root = token_new(NULL), *leaf = hd_token_ref(root);
    for (int i = 0; i < DEEP; i++) {
        hd_token *child = token_new(leaf);
        hd_token_unref(leaf); /* Its child keeps it. */
        leaf = child;
    }
    hd_token_cancel(root);
    EXPECT(hd_token_cancelled(leaf));
    hd_token_unref(root);
    hd_token_unref(leaf); /* and with it the whole chain */
    return 0;
}

TEST_WORLDS(a_long_chain_needs_no_stack, options)
{
    hd_options own = *options;
    own.stack_bytes = 16 << 10;
    rt_run(cancel_chain, NULL, &own);
}

/* ---- waiting ---- */

static int wait_for_it(void *arg)
{
    (void)arg;
    hd_token *root = token_new(NULL), *token = token_new(root);
    struct locks_call first, second;
    EXPECT_EQ(hd_token_wait(token, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_token_wait(token, hd_after_ms(1)), -ETIMEDOUT);
    locks_begin(&first, await, token, HD_FOREVER);
    locks_begin(&second, await, root, hd_after_ms(1000000));
    EXPECT_WAITS(&first);
    EXPECT_WAITS(&second);
    hd_task *task = locks_poll(NULL, (hd_case)HD_TOKEN(token), HD_FOREVER, NULL);
    hd_task *careless = locks_poll_careless(NULL, (hd_case)HD_TOKEN(token));
    locks_settle();
    hd_token_cancel(root);
    EXPECT_ENDED(&first, 0);
    EXPECT_ENDED(&second, 0);
    EXPECT_EQ(rt_join(task), 0);
    EXPECT_EQ(rt_join(careless), 1);
    EXPECT_EQ(hd_token_wait(token, HD_FOREVER), 0);
    EXPECT_EQ(hd_token_wait(token, HD_NOW), 0);
    hd_token_unref(token);
    hd_token_unref(root);
    return 0;
}

TEST_WORLDS(who_waits_learns_of_it, options) { locks_run(wait_for_it, options, 1); }

static int give_up(void *arg)
{
    (void)arg;
    hd_token *token = token_new(NULL);
    struct locks_call cancelled, late, patient;
    locks_begin(&cancelled, await, token, HD_FOREVER);
    locks_begin(&late, await, token, hd_after_ms(5));
    EXPECT_EQ(rt_join(late.task), -ETIMEDOUT);
    hd_cancel(cancelled.task);
    EXPECT_ENDED(&cancelled, -ECANCELED);
    hd_task *late_task = locks_poll(NULL, (hd_case)HD_TOKEN(token), hd_after_ms(5), NULL);
    EXPECT_EQ(rt_join(late_task), -ETIMEDOUT);
    hd_task *dropped = locks_poll(NULL, (hd_case)HD_TOKEN(token), HD_FOREVER, NULL);
    locks_settle();
    hd_cancel(dropped);
    EXPECT_EQ(rt_join(dropped), -ECANCELED);
    locks_begin(&patient, await, token, HD_FOREVER);
    hd_token_cancel(token);
    EXPECT_ENDED(&patient, 0);
    hd_token_unref(token);
    return 0;
}

TEST_WORLDS(who_gives_up_has_no_effect, options) { locks_run(give_up, options, 1); }

/* One of several: also several tokens, and the same one twice. */
static int select_it(void *arg)
{
    (void)arg;
    hd_token *a = token_new(NULL), *b = token_new(NULL);
    hd_chan *chan = hd_chan_create(sizeof(int), 1);
    int item = 7;
    hd_case cases[] = {HD_TOKEN(a), HD_RECV(chan, &item), HD_TOKEN(b), HD_TOKEN(a)};
    EXPECT_EQ(hd_select_until(cases, 4, 0, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_select_until(cases, 4, 0, hd_after_ms(1)), -ETIMEDOUT);
    EXPECT_EQ(hd_chan_send(chan, &item), 0);
    EXPECT_EQ(hd_select(cases, 4), 1);
    hd_token_cancel(b);
    EXPECT_EQ(hd_select(cases, 4), 2);
    EXPECT_EQ(cases[2].result, 0);
    hd_token_cancel(a);
    EXPECT_EQ(hd_select_until(cases, 4, HD_SELECT_FIRST, HD_FOREVER), 0);
    hd_case nothing[] = {HD_TOKEN(NULL)};
    EXPECT_EQ(hd_select(nothing, 1), -EINVAL);
    hd_chan_destroy(chan);
    hd_token_unref(a);
    hd_token_unref(b);
    return 0;
}

TEST_WORLDS(it_is_a_case_of_a_select, options) { locks_run(select_it, options, 1); }

static hd_poll wait_in_vain(void *state, int *result)
{
    hd_token **token = state;
    *result = hd_token_wait(*token, HD_FOREVER);
    EXPECT_EQ(hd_token_wait(*token, HD_NOW), -EAGAIN); /* Looking is fine. */
    return HD_READY;
}

TEST_WORLDS(a_stackless_task_cannot_block, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_token *token = token_new(NULL);
    EXPECT_EQ(rt_join(rt_spawn_poll(runtime, wait_in_vain, &token, sizeof(token))), -EINVAL);
    hd_token_unref(token);
    hd_runtime_destroy(runtime);
}

/* ---- threads ---- */

static int cancel_soon(void *token)
{
    hd_yield();
    hd_token_cancel(token);
    return 0;
}

TEST_WORLDS(a_thread_waits_for_a_fiber, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_token *token = token_new(NULL);
    EXPECT_EQ(hd_token_wait(token, hd_now(runtime) + 1000), -ETIMEDOUT);
    if (rt_is_sim(options)) EXPECT_EQ(hd_token_wait(token, HD_FOREVER), -EDEADLK);
    hd_task *task = rt_spawn(runtime, cancel_soon, token);
    EXPECT_EQ(hd_token_wait(token, HD_FOREVER), 0);
    EXPECT_EQ(rt_join(task), 0);
    hd_token_unref(token);
    hd_runtime_destroy(runtime);
}

/* The last reference goes as soon as somebody is woken: the canceller has its own. */
static int wait_and_end(void *arg)
{
    hd_token *token = arg;
    EXPECT_EQ(hd_token_wait(token, HD_FOREVER), 0);
    hd_token_unref(token);
    return 0;
}

static void *cancel_only(void *token)
{
    hd_token_cancel(token);
    return NULL;
}

TEST_WORLDS(the_woken_one_may_end_it, options)
{
    hd_runtime *runtime = rt_create(options);
    for (int i = 0; i < 50; i++) {
        hd_token *token = token_new(NULL);
        hd_task *task = rt_spawn(runtime, wait_and_end, token);
        pthread_t thread;
        EXPECT_EQ(pthread_create(&thread, NULL, cancel_only, token), 0);
        if (rt_is_sim(options)) EXPECT_EQ(pthread_join(thread, NULL), 0); /* D3: one at a time */
        EXPECT_EQ(rt_join(task), 0);
        if (!rt_is_sim(options)) EXPECT_EQ(pthread_join(thread, NULL), 0);
    }
    hd_runtime_destroy(runtime);
}

/* ---- scopes ---- */

static int wait_in_scope(void *arg)
{
    hd_token *token = arg;
    int err = 0;
    HD_SCOPE(s, .token = token) {
        err = hd_park();
        EXPECT(hd_cancelled());
        EXPECT_EQ(hd_scope_cause(s).reason, HD_REASON_EXPLICIT);
        EXPECT_EQ(hd_self_cause().root, HD_REASON_EXPLICIT);
        EXPECT_EQ(go_on(), err); /* It stays. */
    }
    EXPECT(!hd_cancelled()); /* It was the scope's, not the task's. */
    EXPECT_EQ(hd_self_cause().reason, HD_REASON_NONE);
    EXPECT_EQ(hd_sleep_ms(1), 0);
    return err;
}

static int cancel_scopes(void *arg)
{
    (void)arg;
    enum { TASKS = 200 }; /* more than are taken out at a time */
    hd_token *root = token_new(NULL), *token = token_new(root);
    hd_task *tasks[TASKS];
    for (int i = 0; i < TASKS; i++) tasks[i] = rt_spawn(NULL, wait_in_scope, i % 2 ? root : token);
    locks_settle();
    hd_token_cancel(root);
    for (int i = 0; i < TASKS; i++) EXPECT_EQ(rt_join(tasks[i]), -ECANCELED);
    EXPECT_EQ(rt_join(rt_spawn(NULL, wait_in_scope, token)), -ECANCELED); /* begins cancelled */
    hd_token_unref(token);
    hd_token_unref(root);
    return 0;
}

TEST_WORLDS(scopes_are_cancelled_with_it, options) { locks_run(cancel_scopes, options, 1); }

/* A scope that was left is no longer its token's. */
static int leave_scopes(void *arg)
{
    (void)arg;
    hd_token *token = token_new(NULL);
    HD_SCOPE(s, .token = token) EXPECT_EQ(go_on(), 0);
    HD_SCOPE(outer, .token = token) {
        HD_SCOPE(inner, .token = token) EXPECT_EQ(go_on(), 0);
        hd_token_cancel(token); /* by one who is in it */
        EXPECT_EQ(go_on(), -ECANCELED);
        EXPECT_EQ(hd_scope_cause(outer).reason, HD_REASON_EXPLICIT);
    }
    EXPECT_EQ(go_on(), 0);
    hd_token_unref(token);
    return 0;
}

TEST_WORLDS(a_scope_that_was_left_is_not, options) { locks_run(leave_scopes, options, 1); }

/* The scope holds it. */
static int drop_inside(void *arg)
{
    (void)arg;
    hd_token *root = token_new(NULL), *token = token_new(root);
    HD_SCOPE(s, .token = token) {
        hd_token_unref(token);
        hd_token_cancel(root);
        EXPECT_EQ(go_on(), -ECANCELED);
    }
    hd_token_unref(root);
    return 0;
}

TEST_WORLDS(a_scope_holds_its_token, options) { locks_run(drop_inside, options, 1); }

/* What is behind a shield does not feel it until that goes. */
static int behind_shield(void *arg)
{
    (void)arg;
    hd_token *token = token_new(NULL);
    HD_SCOPE(outer, .token = token) {
        HD_SCOPE(shield, .shield = HD_SHIELD_HARD) {
            hd_token_cancel(token);
            EXPECT_EQ(go_on(), 0);
            EXPECT_EQ(hd_sleep_ms(1), 0);
            HD_SCOPE(inner, .token = token) EXPECT_EQ(go_on(), -ECANCELED); /* its own */
            EXPECT_EQ(go_on(), 0);
        }
        EXPECT_EQ(go_on(), -ECANCELED);
    }
    hd_token_unref(token);
    return 0;
}

TEST_WORLDS(a_shield_keeps_it_off, options) { locks_run(behind_shield, options, 1); }

/* ---- nurseries, also of other runtimes ---- */

static int park_until_cancelled(void *arg)
{
    atomic_int *count = arg;
    int err;
    do err = hd_park();
    while (!err);
    EXPECT_EQ(hd_self_cause().root, HD_REASON_EXPLICIT);
    atomic_fetch_add(count, 1);
    return err;
}

struct family {
    hd_token *token;
    atomic_int ready, ended;
};

enum { CHILDREN = 20 };

static int parent(void *arg)
{
    struct family *family = arg;
    HD_NURSERY(n, .token = family->token) {
        for (int i = 0; i < CHILDREN; i++) {
            EXPECT_EQ(hd_go(n, park_until_cancelled, &family->ended), 0);
        }
        atomic_store(&family->ready, 1);
        EXPECT_EQ(hd_park(), -ECANCELED); /* the body too */
    }
    return hd_nursery_result();
}

/* One token for two runtimes; a thread of neither cancels it. */
TEST_WORLDS(it_reaches_nurseries_of_several_runtimes, options)
{
    hd_runtime *runtimes[2];
    hd_task *parents[2];
    struct family families[2] = {{.token = token_new(NULL)}, {.ready = 0}};
    families[1].token = token_new(families[0].token);
    for (int i = 0; i < 2; i++) {
        runtimes[i] = rt_create(options);
        parents[i] = rt_spawn(runtimes[i], parent, &families[i]);
        rt_await(runtimes[i], &families[i].ready);
    }
    hd_token_cancel(families[0].token);
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(rt_join(parents[i]), -ECANCELED);
        EXPECT_EQ(atomic_load(&families[i].ended), CHILDREN);
    }
    /* In the order in which they were made: sim drives the last one. */
    hd_runtime_destroy(runtimes[1]);
    hd_runtime_destroy(runtimes[0]);
    hd_token_unref(families[1].token);
    hd_token_unref(families[0].token);
}

/* A fiber of one runtime cancels those of another. */
static int cancel_it(void *token)
{
    hd_token_cancel(token);
    return 0;
}

TEST_WORLDS(a_task_of_another_runtime_may_cancel_it, options)
{
    hd_runtime *home = rt_create(options), *abroad = rt_create(options);
    struct family family = {.token = token_new(NULL)};
    hd_task *task = rt_spawn(home, parent, &family);
    rt_await(home, &family.ready);
    EXPECT_EQ(rt_join(rt_spawn(abroad, cancel_it, family.token)), 0);
    EXPECT_EQ(rt_join(task), -ECANCELED);
    EXPECT_EQ(atomic_load(&family.ended), CHILDREN);
    hd_runtime_destroy(abroad);
    hd_runtime_destroy(home);
    hd_token_unref(family.token);
}

/* The nursery of a plain thread. */
TEST_WORLDS(a_threads_nursery_is_cancelled_with_it, options)
{
    hd_runtime *runtime = rt_create(options);
    struct family family = {.token = token_new(NULL)};
    hd_nursery nursery;
    hd_nursery_options own = HD_NURSERY_OPTIONS_INIT;
    own.runtime = runtime;
    own.token = family.token;
    EXPECT_EQ(hd_nursery_open(&nursery, &own), 0);
    for (int i = 0; i < CHILDREN; i++) {
        EXPECT_EQ(hd_go(&nursery, park_until_cancelled, &family.ended), 0);
    }
    EXPECT_EQ(hd_go(&nursery, cancel_it, family.token), 0);
    EXPECT_EQ(hd_nursery_leave(&nursery), -ECANCELED);
    EXPECT_EQ(atomic_load(&family.ended), CHILDREN);
    EXPECT_EQ(hd_nursery_open(&nursery, &own), 0); /* with a cancelled token */
    EXPECT_EQ(hd_go(&nursery, cancel_it, family.token), -ECANCELED);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0); /* Nobody returned it. */
    hd_token_unref(family.token);
    hd_runtime_destroy(runtime);
}

/* ---- misuse ---- */

static int wait_without(void *arg)
{
    struct locks_call call;
    (void)arg;
    hd_token *token = token_new(NULL);
    locks_begin(&call, await, token, HD_FOREVER);
    hd_token_unref(token);
    return 0;
}

static void end_early(void *arg)
{
    (void)arg;
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    locks_run(wait_without, &options, 1);
}

TEST(misuse_is_told)
{
    expect_abort(end_early, NULL, "a token ends while it is waited for");
}
