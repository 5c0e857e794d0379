/* SPDX-License-Identifier: MIT
 *
 * Starting a child and waiting until it says that it is ready.
 */
#include "locks.h"

TEST_MAIN

static int value; /* its address is what children give */

/* Let others run. Returns what a wait would return. */
static int go_on(void)
{
    hd_yield();
    return hd_checkpoint(1);
}

/* Wait until somebody cancels it. */
static int serve(void)
{
    int err;
    do err = hd_park();
    while (!err);
    return err;
}

static int server(void *arg)
{
    hd_yield();
    hd_ready(arg);
    return serve();
}

/* ---- ready ---- */

static int start_server(void *arg)
{
    (void)arg;
    HD_NURSERY(n) {
        void *got = NULL;
        EXPECT_EQ(hd_start(n, server, &value, &got), 0);
        EXPECT(got == &value);
        EXPECT_EQ(hd_nursery_look(n).live, 1); /* It goes on. */
        EXPECT_EQ(hd_start(n, server, NULL, NULL), 0);
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(hd_nursery_result(), -ECANCELED);
    return 0;
}

TEST_WORLDS(the_child_gives_a_value_and_goes_on, options)
{
    rt_run(start_server, NULL, options);
}

static __attribute__((noinline)) void deep_down(void *arg, int depth)
{
    if (depth > 0) {
        deep_down(arg, depth - 1);
        return;
    }
    hd_yield();
    hd_ready(arg);
    hd_ready(NULL); /* Only the first counts. */
}

static int ready_deep_down(void *arg)
{
    deep_down(arg, 5);
    return 7;
}

static int ready_at_once(void *arg)
{
    hd_ready(arg);
    return -EIO; /* After that it is the nursery's, no longer the starter's. */
}

static int start_short_ones(void *arg)
{
    (void)arg;
    void *got = NULL;
    HD_NURSERY(n) {
        EXPECT_EQ(hd_start(n, ready_deep_down, &value, &got), 0);
        EXPECT(got == &value);
    }
    EXPECT_EQ(hd_nursery_result(), 0);
    got = NULL;
    HD_NURSERY(n) {
        EXPECT_EQ(hd_start(n, ready_at_once, &value, &got), 0);
        EXPECT(got == &value);
    }
    EXPECT_EQ(hd_nursery_result(), -EIO);
    return 0;
}

TEST_WORLDS(ready_from_a_nested_function_and_just_before_the_end, options)
{
    rt_run(start_short_ones, NULL, options);
}

/* ---- never ready ---- */

static int return_it(void *arg)
{
    hd_yield();
    return *(int *)arg;
}

static int expect_outcome(int returned, int started, int nursery)
{
    void *got = &value;
    HD_NURSERY(n) {
        EXPECT_EQ(hd_start(n, return_it, &returned, &got), started);
    }
    EXPECT(got == &value); /* untouched */
    EXPECT_EQ(hd_nursery_result(), nursery);
    return 0;
}

static int end_first(void *arg)
{
    (void)arg;
    expect_outcome(0, -EPIPE, 0);
    expect_outcome(5, -EPIPE, 0);
    expect_outcome(-EIO, -EIO, -EIO);
    expect_outcome(-EPIPE, -EPIPE, -EPIPE);
    return 0;
}

TEST_WORLDS(a_child_that_ends_first_says_why, options) { rt_run(end_first, NULL, options); }

/* ---- nothing is started ---- */

static hd_poll start_in_poll(void *state, int *result)
{
    hd_nursery **n = state;
    *result = hd_start(*n, server, NULL, NULL);
    hd_ready(NULL); /* nobody waits for this one */
    return HD_READY;
}

static int start_nothing(void *arg)
{
    (void)arg;
    void *got = &value;
    hd_ready(NULL); /* the same */
    HD_NURSERY(n) {
        EXPECT_EQ(hd_start(n, NULL, NULL, &got), -EINVAL);
        EXPECT_EQ(rt_join(rt_spawn_poll(NULL, start_in_poll, &n, sizeof(n))), -EINVAL);
        hd_nursery_close(n);
        EXPECT_EQ(hd_start(n, server, NULL, &got), -EPIPE);
    }
    HD_NURSERY(n) {
        hd_nursery_cancel(n);
        EXPECT_EQ(hd_start(n, server, NULL, &got), -ECANCELED);
        EXPECT_EQ(hd_nursery_look(n).spawned, 0);
    }
    EXPECT(got == &value);
    return 0;
}

TEST_WORLDS(a_nursery_that_is_not_open_starts_nothing, options)
{
    hd_ready(NULL); /* a plain thread: nobody waits for it */
    rt_run(start_nothing, NULL, options);
}

/* ---- the starter is cancelled ---- */

struct attempt {
    int (*child)(void *arg);
    int result;
    void *got;
    atomic_int begun;
};

static int heeds(void *arg)
{
    struct attempt *a = arg;
    atomic_store(&a->begun, 1);
    return serve();
}

/* It is asked to end, and becomes ready all the same. */
static int finishes(void *arg)
{
    (void)heeds(arg);
    hd_ready(&value);
    return 0;
}

/* It does not hear of it at once, and the starter waits. */
static int shielded(void *arg)
{
    struct attempt *a = arg;
    EXPECT_EQ(hd_shield(), 0);
    atomic_store(&a->begun, 1);
    for (int i = 0; i < 20; i++) EXPECT_EQ(go_on(), 0);
    EXPECT_EQ(hd_unshield(), 0);
    return serve();
}

static int starter(void *arg)
{
    struct attempt *a = arg;
    HD_NURSERY(n) a->result = hd_start(n, a->child, a, &a->got);
    EXPECT(hd_cancelled());
    return hd_nursery_result();
}

static int cancel_starter(void *arg)
{
    struct attempt *a = arg;
    hd_task *task = rt_spawn(NULL, starter, a);
    rt_until(&a->begun);
    hd_cancel(task);
    return rt_join(task);
}

static void expect_attempt(const hd_options *options, int (*child)(void *), int started,
                           int nursery, void *got)
{
    struct attempt a = {.child = child, .result = 1};
    EXPECT_EQ(hd_run(cancel_starter, &a, options), nursery);
    EXPECT_EQ(a.result, started);
    EXPECT(a.got == got);
}

TEST_WORLDS(a_cancelled_starter_cancels_the_child_and_waits_for_it, options)
{
    expect_attempt(options, heeds, -ECANCELED, -ECANCELED, NULL);
    expect_attempt(options, finishes, 0, 0, &value);
    expect_attempt(options, shielded, -ECANCELED, -ECANCELED, NULL);
}

/* Time is no different. */
static int start_in_time(void *arg)
{
    (void)arg;
    const bool sim = hd_runtime_world(hd_runtime_self()) == HD_WORLD_SIM;
    const int64_t soon_ms = sim ? 100 : 1000; /* The child is spawned before. */
    struct attempt a = {.child = heeds};
    HD_NURSERY(n) {
        HD_SCOPE(s, .deadline = hd_after_ms(soon_ms)) {
            EXPECT_EQ(hd_start(n, heeds, &a, NULL), -ETIMEDOUT); /* why the child was cancelled */
            EXPECT_EQ(go_on(), -ETIMEDOUT);
            EXPECT_EQ(hd_start(n, heeds, &a, NULL), -ETIMEDOUT); /* as any call in it */
        }
        EXPECT_EQ(hd_nursery_look(n).spawned, 1);
    }
    return 0;
}

TEST_WORLDS(a_deadline_around_it_cancels_the_child, options)
{
    rt_run(start_in_time, NULL, options);
}

/* ---- the nursery is cancelled ---- */

static int fail_soon(void *arg)
{
    rt_until(arg);
    return -EIO;
}

static int sibling_fails(void *arg)
{
    struct attempt a = {.child = heeds};
    (void)arg;
    HD_NURSERY(n) {
        EXPECT_EQ(hd_go(n, fail_soon, &a.begun), 0);
        EXPECT_EQ(hd_start(n, heeds, &a, NULL), -ECANCELED);
        EXPECT(hd_cancelled());
    }
    EXPECT_EQ(hd_nursery_result(), -EIO);
    return 0;
}

TEST_WORLDS(a_failing_sibling_ends_the_start, options) { rt_run(sibling_fails, NULL, options); }

/* ---- who starts ---- */

/* A child starts another of the same nursery. */
static int start_sibling(void *arg)
{
    hd_nursery *n = arg;
    void *got = NULL;
    EXPECT_EQ(hd_start(n, server, &value, &got), 0);
    EXPECT(got == &value);
    hd_ready(got);
    return 0;
}

static int start_chain(void *arg)
{
    (void)arg;
    HD_NURSERY(n) {
        void *got = NULL;
        EXPECT_EQ(hd_start(n, start_sibling, n, &got), 0);
        EXPECT(got == &value);
        hd_nursery_cancel(n);
    }
    return 0;
}

TEST_WORLDS(a_child_may_start_a_sibling, options) { rt_run(start_chain, NULL, options); }

static void open_on_thread(hd_nursery *nursery, hd_runtime *runtime)
{
    hd_nursery_options own = HD_NURSERY_OPTIONS_INIT;
    own.runtime = runtime;
    EXPECT_EQ(hd_nursery_open(nursery, &own), 0);
}

TEST_WORLDS(a_thread_may_start_one, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_nursery nursery;
    open_on_thread(&nursery, runtime);
    void *got = NULL;
    int returned = -EIO;
    EXPECT_EQ(hd_start(&nursery, server, &value, &got), 0);
    EXPECT(got == &value);
    EXPECT_EQ(hd_start(&nursery, return_it, &returned, NULL), -EIO);
    EXPECT_EQ(hd_nursery_leave(&nursery), -EIO);
    hd_runtime_destroy(runtime);
}

/* A thread in sim that would wait for ever leaves; the child is none the worse. */
static int ready_when_told(void *arg)
{
    EXPECT_EQ(hd_chan_recv(arg, &(int){0}), 0);
    hd_ready(NULL);
    return 3;
}

TEST_WORLDS(a_child_that_can_never_be_ready, options)
{
    if (!rt_is_sim(options)) return; /* Nobody can tell. */
    hd_runtime *runtime = rt_create(options);
    hd_chan *chan = hd_chan_create(sizeof(int), 1);
    hd_nursery nursery;
    open_on_thread(&nursery, runtime);
    EXPECT_EQ(hd_start(&nursery, ready_when_told, chan, NULL), -EDEADLK);
    EXPECT_EQ(hd_nursery_look(&nursery).live, 1);
    EXPECT_EQ(hd_chan_send(chan, &(int){1}), 0);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    hd_chan_destroy(chan);
    hd_runtime_destroy(runtime);
}

/* A task of one runtime starts a child of another. */
struct abroad {
    hd_nursery *nursery;
    atomic_int done;
};

static int start_abroad(void *arg)
{
    struct abroad *a = arg;
    void *got = NULL;
    EXPECT_EQ(hd_start(a->nursery, server, &value, &got), 0);
    EXPECT(got == &value);
    return 0;
}

TEST_WORLDS(a_task_of_another_runtime_may_start_one, options)
{
    if (rt_is_sim(options)) return; /* A thread drives one runtime at a time. */
    hd_runtime *home = rt_create(options), *abroad = rt_create(options);
    hd_nursery nursery;
    open_on_thread(&nursery, abroad);
    struct abroad a = {.nursery = &nursery};
    EXPECT_EQ(rt_join(rt_spawn(home, start_abroad, &a)), 0);
    hd_nursery_cancel(&nursery);
    EXPECT_EQ(hd_nursery_leave(&nursery), -ECANCELED);
    hd_runtime_destroy(abroad);
    hd_runtime_destroy(home);
}

/* ---- many ---- */

enum { ROUNDS = 50, WIDTH = 8 };

static int start_many(void *arg)
{
    (void)arg;
    for (int round = 0; round < ROUNDS; round++) {
        HD_NURSERY(n) {
            for (int i = 0; i < WIDTH; i++) {
                void *got = NULL;
                EXPECT_EQ(hd_start(n, i % 2 ? ready_deep_down : server, &value, &got), 0);
                EXPECT(got == &value);
            }
            hd_nursery_cancel(n);
        }
    }
    return 0;
}

TEST_WORLDS(many_are_started, options)
{
    const hd_options own = rt_workers(options, 4);
    rt_run(start_many, NULL, &own);
}
