/* SPDX-License-Identifier: MIT
 *
 * Tokens in quantity, and cancels that race with everything that hangs on a token, with the end of
 * the runtimes it reaches into, and with children that are being started.
 */
#include "stress/stress.h"

TEST_MAIN

static hd_token *token_new(hd_token *parent)
{
    hd_token *token = hd_token_create(parent);
    EXPECT(token != NULL);
    return token;
}

static hd_options workers_of(unsigned workers)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = workers;
    return options;
}

/* ---- many ---- */

TEST(a_chain_of_a_million)
{
    hd_token *root = token_new(NULL), *leaf = hd_token_ref(root);
    for (unsigned i = 0; i < stress_count(1000000); i++) {
        hd_token *child = token_new(leaf);
        hd_token_unref(leaf);
        leaf = child;
    }
    hd_token_cancel(root);
    EXPECT(hd_token_cancelled(leaf));
    hd_token_unref(root);
    hd_token_unref(leaf);
}

TEST(a_million_children)
{
    const unsigned count = stress_count(1000000);
    hd_token **children = calloc(count, sizeof(hd_token *));
    hd_token *root = token_new(NULL);
    for (unsigned i = 0; i < count; i++) children[i] = token_new(root);
    for (unsigned i = 0; i < count; i += 2) hd_token_unref(children[i]);
    hd_token_cancel(root);
    for (unsigned i = 1; i < count; i += 2) {
        EXPECT(hd_token_cancelled(children[i]));
        hd_token_unref(children[i]);
    }
    hd_token_unref(root);
    free(children);
}

/* ---- everything at once ---- */

enum { FIBERS = 6, THREADS = 2, RUNTIMES = 2 };

struct storm {
    hd_token *root;
    atomic_uint ended; /* scopes, nurseries and waits that the cancel ended */
};

/* A token of its own, which it cancels itself now and then, and ends in any case. */
static void pass_through_scope(struct storm *storm, struct stress_random *random)
{
    hd_token *own = token_new(storm->root);
    HD_SCOPE(s, .token = own) {
        hd_yield();
        const bool mine = stress_below(random, 4) == 0;
        if (mine) hd_token_cancel(own);
        /* Its own cancel is in effect at once; the root's only a moment later. */
        if (mine && !hd_token_cancelled(storm->root)) EXPECT(hd_cancelled());
    }
    EXPECT(!hd_cancelled());
    hd_token_unref(own);
}

static int child(void *arg)
{
    (void)arg;
    return hd_sleep_ms(stress_below(&(struct stress_random){(uint64_t)hd_self_id() | 1}, 2));
}

static void pass_through_nursery(struct storm *storm)
{
    HD_NURSERY(n, .token = storm->root) {
        for (int i = 0; i < 3; i++) {
            const int err = hd_go(n, child, NULL);
            EXPECT(err == 0 || err == -ECANCELED);
        }
    }
    const int result = hd_nursery_result();
    EXPECT(result == 0 || result == -ECANCELED);
    EXPECT(!hd_cancelled());
}

static int come_and_go(void *arg)
{
    struct storm *storm = arg;
    struct stress_random random = stress_random_init(hd_self_id());
    while (!hd_token_cancelled(storm->root)) {
        pass_through_scope(storm, &random);
        pass_through_nursery(storm);
        const int err = hd_token_wait(storm->root, hd_now(NULL) + 1000);
        EXPECT(err == 0 || err == -ETIMEDOUT);
    }
    atomic_fetch_add(&storm->ended, 1);
    return 0;
}

static int park_until_cancelled(void *arg)
{
    (void)arg;
    int err;
    do err = hd_park();
    while (!err);
    return err;
}

/* It stays until the end. */
static int stay(void *arg)
{
    struct storm *storm = arg;
    HD_SCOPE(s, .token = storm->root) {
        HD_NURSERY(n) {
            const int err = hd_go(n, park_until_cancelled, NULL);
            EXPECT(err == 0 || err == -ECANCELED);
            EXPECT_EQ(park_until_cancelled(NULL), -ECANCELED);
        }
        EXPECT(hd_cancelled());
    }
    EXPECT(!hd_cancelled());
    atomic_fetch_add(&storm->ended, 1);
    return 0;
}

struct wait_state {
    struct storm *storm;
    bool begun;
    hd_wait wait;
    hd_case token;
};

static hd_poll wait_stackless(void *state, int *result)
{
    struct wait_state *w = state;
    if (!w->begun) w->token = (hd_case)HD_TOKEN(w->storm->root);
    w->begun = true;
    const int which = hd_select_poll(&w->wait, &w->token, 1, 0, HD_FOREVER);
    if (which == -EAGAIN) return HD_PENDING;
    EXPECT_EQ(which, 0);
    atomic_fetch_add(&w->storm->ended, 1);
    *result = 0;
    return HD_READY;
}

static void *wait_on_thread(void *arg)
{
    struct storm *storm = arg;
    while (hd_token_wait(storm->root, hd_now(NULL) + 20000)) { /* leaves and comes back */
        hd_token_unref(token_new(storm->root));
    }
    atomic_fetch_add(&storm->ended, 1);
    return NULL;
}

static void spawn_into(hd_runtime *runtime, struct storm *storm)
{
    const hd_spawn_options into = stress_into(runtime);
    const struct wait_state state = {.storm = storm};
    for (int i = 0; i < FIBERS; i++) {
        EXPECT_EQ(hd_spawn_with(NULL, i % 2 ? stay : come_and_go, storm, &into), 0);
        EXPECT_EQ(hd_spawn_poll_with(NULL, wait_stackless, &state, sizeof(state), &into), 0);
    }
}

TEST(cancelled_while_everything_comes_and_goes)
{
    const hd_options options = workers_of(3);
    struct stress_random random = stress_random_init(7);
    for (unsigned round = 0; round < stress_count(400); round++) {
        struct storm storm = {.root = token_new(NULL)};
        struct stress_threads threads = {.count = 0};
        hd_runtime *runtimes[RUNTIMES];
        for (int i = 0; i < RUNTIMES; i++) runtimes[i] = stress_runtime(&options);
        for (int i = 0; i < RUNTIMES; i++) spawn_into(runtimes[i], &storm);
        for (int i = 0; i < THREADS; i++) stress_start(&threads, wait_on_thread, &storm);
        for (unsigned i = stress_below(&random, 200); i > 0; i--) sched_yield();
        hd_token_cancel(storm.root);
        for (int i = 0; i < RUNTIMES; i++) {
            EXPECT_EQ(hd_runtime_drain(runtimes[i], HD_FOREVER), 0);
            hd_runtime_destroy(runtimes[i]);
        }
        stress_join(&threads);
        const unsigned at_least = RUNTIMES * FIBERS * 2 + THREADS;
        EXPECT(atomic_load(&storm.ended) >= at_least);
        hd_token_unref(storm.root);
    }
}

/* ---- a runtime that ends as soon as the cancel has let it ---- */

struct last {
    hd_token *token;
    atomic_uint ready;
};

static int in_scope(void *arg)
{
    struct last *last = arg;
    HD_SCOPE(s, .token = last->token) {
        atomic_fetch_add(&last->ready, 1);
        (void)park_until_cancelled(NULL);
    }
    return 0;
}

static int in_nursery(void *arg)
{
    struct last *last = arg;
    HD_NURSERY(n, .token = last->token) {
        EXPECT_EQ(hd_go(n, in_scope, last), 0);
    }
    return 0;
}

static int in_wait(void *arg)
{
    struct last *last = arg;
    atomic_fetch_add(&last->ready, 1);
    return hd_token_wait(last->token, HD_FOREVER);
}

static void *cancel_last(void *arg)
{
    struct last *last = arg;
    stress_await(&last->ready, 1);
    hd_token_cancel(last->token); /* hd_run() may return before this does. */
    return NULL;
}

static void run_last(hd_fn *fn)
{
    const hd_options options = workers_of(1);
    for (unsigned i = 0; i < stress_count(1500); i++) {
        struct last last = {.token = token_new(NULL)};
        struct stress_threads threads = {.count = 0};
        stress_start(&threads, cancel_last, &last);
        EXPECT_EQ(hd_run(fn, &last, &options), 0);
        stress_join(&threads);
        hd_token_unref(last.token);
    }
}

TEST(a_runtime_ends_while_its_last_scope_is_cancelled) { run_last(in_scope); }
TEST(a_runtime_ends_while_its_last_nursery_is_cancelled) { run_last(in_nursery); }
TEST(a_runtime_ends_while_its_last_waiter_is_woken) { run_last(in_wait); }

/* ---- the last reference goes with the wake-up ---- */

static int wait_and_unref(void *arg)
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

TEST(the_woken_one_drops_the_last_reference)
{
    const hd_options options = workers_of(2);
    hd_runtime *runtime = stress_runtime(&options);
    const hd_spawn_options into = stress_into(runtime);
    for (unsigned i = 0; i < stress_count(4000); i++) {
        hd_token *token = token_new(NULL), *child_token = token_new(token);
        struct stress_threads threads = {.count = 0};
        EXPECT_EQ(hd_spawn_with(NULL, wait_and_unref, child_token, &into), 0);
        EXPECT_EQ(hd_spawn_with(NULL, wait_and_unref, token, &into), 0);
        stress_start(&threads, cancel_only, token);
        stress_join(&threads);
    }
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    hd_runtime_destroy(runtime);
}

/* ---- starting against cancelling ---- */

struct starts {
    hd_token *token;
    atomic_uint ready, refused;
};

static int ready_soon(void *arg)
{
    const unsigned turns = stress_below(&(struct stress_random){hd_self_id() * 77 + 1}, 4);
    for (unsigned i = 0; i < turns; i++) hd_yield();
    if (turns == 3) return hd_sleep_ms(1); /* never ready */
    hd_ready(arg);
    return park_until_cancelled(NULL);
}

static int start_until_cancelled(void *arg)
{
    struct starts *starts = arg;
    HD_NURSERY(n, .token = starts->token) {
        for (int err = 0; err != -ECANCELED;) {
            void *got = NULL;
            err = hd_start(n, ready_soon, starts, &got);
            EXPECT(err == 0 || err == -EPIPE || err == -ECANCELED);
            EXPECT(got == (err ? NULL : starts));
            atomic_fetch_add(err ? &starts->refused : &starts->ready, 1);
        }
    }
    return 0;
}

TEST(children_are_started_while_the_nursery_is_cancelled)
{
    const hd_options options = workers_of(4);
    hd_runtime *runtime = stress_runtime(&options);
    const hd_spawn_options into = stress_into(runtime);
    struct stress_random random = stress_random_init(3);
    for (unsigned round = 0; round < stress_count(800); round++) {
        struct starts starts = {.token = token_new(NULL)};
        hd_task *tasks[4];
        for (int i = 0; i < 4; i++) {
            EXPECT_EQ(hd_spawn_with(&tasks[i], start_until_cancelled, &starts, &into), 0);
        }
        for (unsigned i = stress_below(&random, 60); i > 0; i--) sched_yield();
        hd_token_cancel(starts.token);
        for (int i = 0; i < 4; i++) EXPECT_EQ(hd_join(tasks[i], NULL), 0);
        EXPECT(atomic_load(&starts.refused) >= 4);
        hd_token_unref(starts.token);
    }
    hd_runtime_destroy(runtime);
}
