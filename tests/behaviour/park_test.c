/* SPDX-License-Identifier: MIT
 *
 * Sleeping and waking: one wake is remembered, none is lost, from wherever it comes.
 */
#include "rt.h"

#include <pthread.h>

TEST_MAIN

/* ---- the permit ---- */

static int wake_then_park(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++) {
        hd_waker_wake(hd_waker_self());
        EXPECT_EQ(hd_park(), 0);
    }
    return 0;
}

TEST_WORLDS(a_wake_before_the_park_is_remembered, options)
{
    rt_run(wake_then_park, NULL, options);
}

struct sleeper {
    hd_waker waker;
    atomic_int ready, set;
    int parks;
};

static int set_and_wake(void *arg)
{
    struct sleeper *sleeper = arg;
    atomic_store(&sleeper->set, 1);
    hd_waker_wake(sleeper->waker);
    return 0;
}

static int merge_wakes(void *arg)
{
    (void)arg;
    struct sleeper self = {.waker = hd_waker_self()};
    for (int i = 0; i < 5; i++) hd_waker_wake_keep(self.waker);
    EXPECT_EQ(hd_park(), 0); /* all five at once */
    hd_task *task = rt_spawn(NULL, set_and_wake, &self);
    for (; !atomic_load(&self.set); self.parks++) EXPECT_EQ(hd_park(), 0);
    EXPECT_EQ(self.parks, 1);
    EXPECT_EQ(rt_join(task), 0);
    return 0;
}

TEST_WORLDS(many_wakes_merge_into_one, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(merge_wakes, NULL, &one);
}

/* With one worker, `sleeper` stands in the queue by its yield whenever this runs. */
static int wake_the_yielded(void *arg)
{
    struct sleeper *sleeper = arg;
    rt_until(&sleeper->ready);
    hd_waker_wake(sleeper->waker);
    atomic_store(&sleeper->set, 1);
    return 0;
}

static int yield_then_park(void *arg)
{
    (void)arg;
    struct sleeper self = {.waker = hd_waker_self()};
    hd_task *task = rt_spawn(NULL, wake_the_yielded, &self);
    atomic_store(&self.ready, 1);
    rt_until(&self.set);
    EXPECT_EQ(hd_park(), 0); /* passes: yielding is not sleeping, so nothing was answered */
    return rt_join(task);
}

TEST_WORLDS(a_wake_of_a_fiber_that_yielded_is_remembered, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(yield_then_park, NULL, &one);
}

/* ---- back and forth ---- */

struct player {
    hd_waker waker;
    atomic_int ready;
    atomic_int turns; /* mine to take */
    struct player *other;
    int rounds;
};

static int play(void *arg)
{
    struct player *self = arg;
    self->waker = hd_waker_self();
    atomic_store(&self->ready, 1);
    rt_until(&self->other->ready);
    for (int i = 0; i < self->rounds; i++) {
        while (atomic_load(&self->turns) == 0) EXPECT_EQ(hd_park(), 0);
        atomic_fetch_sub(&self->turns, 1);
        atomic_fetch_add(&self->other->turns, 1);
        hd_waker_wake_keep(self->other->waker);
    }
    return 0;
}

TEST_WORLDS(two_fibers_wake_each_other, options)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        const hd_options own = rt_workers(options, workers);
        const int rounds = rt_is_sim(options) ? 100 : 5000;
        struct player a = {.turns = 1, .rounds = rounds}, b = {.rounds = rounds, .other = &a};
        a.other = &b;
        hd_runtime *runtime = rt_create(&own);
        hd_task *first = rt_spawn(runtime, play, &a), *second = rt_spawn(runtime, play, &b);
        EXPECT_EQ(rt_join(first), 0);
        EXPECT_EQ(rt_join(second), 0);
        EXPECT_EQ(a.turns + b.turns, 1);
        hd_waker_drop(a.waker);
        hd_waker_drop(b.waker);
        hd_runtime_destroy(runtime);
    }
}

/* ---- wakers ---- */

struct counter {
    hd_waker waker;
    atomic_int ready, count;
    int wanted;
};

static int park_until_counted(void *arg)
{
    struct counter *counter = arg;
    counter->waker = hd_waker_self();
    atomic_store(&counter->ready, 1);
    while (atomic_load(&counter->count) < counter->wanted) EXPECT_EQ(hd_park(), 0);
    return atomic_load(&counter->count);
}

enum { THREADS = 4, WAKES = 200 };

static void *wake_often(void *arg)
{
    struct counter *counter = arg;
    hd_waker own = hd_waker_clone(counter->waker);
    for (int i = 0; i < WAKES; i++) {
        atomic_fetch_add(&counter->count, 1);
        if (i % 3 == 0) {
            hd_waker_wake(hd_waker_clone(own));
        } else {
            hd_waker_wake_keep(own);
        }
    }
    hd_waker_drop(own);
    return NULL;
}

TEST_WORLDS(other_threads_wake_a_fiber, options)
{
    hd_runtime *runtime = rt_create(options);
    struct counter counter = {.wanted = THREADS * WAKES};
    hd_task *task = rt_spawn(runtime, park_until_counted, &counter);
    rt_await(runtime, &counter.ready);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        EXPECT_EQ(pthread_create(&threads[i], NULL, wake_often, &counter), 0);
    }
    for (int i = 0; i < THREADS; i++) EXPECT_EQ(pthread_join(threads[i], NULL), 0);
    EXPECT_EQ(rt_join(task), THREADS * WAKES);
    hd_waker_drop(counter.waker);
    hd_runtime_destroy(runtime);
}

static int give_a_waker(void *arg)
{
    hd_waker *wakers = arg;
    wakers[0] = hd_waker_self();
    for (int i = 1; i < 4; i++) wakers[i] = hd_waker_clone(wakers[0]);
    return 0;
}

TEST_WORLDS(a_waker_outlives_its_task, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_waker wakers[4];
    EXPECT_EQ(rt_join(rt_spawn(runtime, give_a_waker, wakers)), 0);
    hd_stats before, after;
    hd_runtime_stats(runtime, &before);
    hd_waker_wake(wakers[0]);
    hd_waker_wake_keep(wakers[1]);
    hd_waker_drop(wakers[1]);
    hd_waker_drop(wakers[2]);
    hd_waker_wake(hd_waker_clone(wakers[3]));
    hd_waker_drop(wakers[3]);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    hd_runtime_stats(runtime, &after);
    EXPECT_EQ(after.polls, before.polls); /* nothing ran again */
    hd_runtime_destroy(runtime);
}

static int park_until_set(void *arg)
{
    struct sleeper *self = arg;
    self->waker = hd_waker_self();
    atomic_store(&self->ready, 1);
    while (!atomic_load(&self->set)) EXPECT_EQ(hd_park(), 0);
    return 0;
}

TEST_WORLDS(a_clone_works_when_the_first_is_gone, options)
{
    hd_runtime *runtime = rt_create(options);
    struct sleeper sleeper = {.set = 0};
    hd_task *task = rt_spawn(runtime, park_until_set, &sleeper);
    rt_await(runtime, &sleeper.ready);
    hd_waker clone = hd_waker_clone(sleeper.waker);
    hd_waker_drop(sleeper.waker);
    atomic_store(&sleeper.set, 1);
    hd_waker_wake(clone);
    EXPECT_EQ(rt_join(task), 0);
    hd_runtime_destroy(runtime);
}

/* ---- stackless ---- */

struct self_waker {
    int polls, wakes_each, until;
};

static hd_poll wake_self(void *state, int *result)
{
    struct self_waker *self = state;
    if (++self->polls == self->until) {
        *result = self->polls;
        return HD_READY;
    }
    for (int i = 0; i < self->wakes_each; i++) hd_waker_wake(hd_waker_self());
    return HD_PENDING;
}

TEST_WORLDS(a_stackless_task_that_wakes_itself_is_polled_once_more, options)
{
    hd_runtime *runtime = rt_create(options);
    const struct self_waker state = {.wakes_each = 3, .until = 20};
    hd_task *task = rt_spawn_poll(runtime, wake_self, &state, sizeof(state));
    EXPECT_EQ(rt_join(task), 20);
    hd_stats stats;
    hd_runtime_stats(runtime, &stats);
    EXPECT_EQ(stats.polls, 20); /* three wakes, one poll */
    hd_runtime_destroy(runtime);
}

struct outside {
    struct sleeper *sleeper;
    int polls;
};

static hd_poll poll_until_set(void *state, int *result)
{
    struct outside *self = state;
    self->polls++;
    *result = self->polls;
    if (self->polls > 1 && atomic_load(&self->sleeper->set)) return HD_READY;
    if (self->polls == 1) self->sleeper->waker = hd_waker_self();
    atomic_store(&self->sleeper->ready, self->polls);
    return HD_PENDING;
}

TEST_WORLDS(a_stackless_task_sleeps_until_it_is_woken, options)
{
    const hd_options one = rt_workers(options, 1);
    hd_runtime *runtime = rt_create(&one);
    struct sleeper sleeper = {.set = 0};
    struct outside state = {.sleeper = &sleeper};
    hd_task *task = rt_spawn_poll(runtime, poll_until_set, &state, sizeof(state));
    rt_await(runtime, &sleeper.ready);
    hd_waker_wake_keep(sleeper.waker); /* in vain: it goes back to sleep */
    while (atomic_load(&sleeper.ready) < 2) rt_await(runtime, &sleeper.ready);
    atomic_store(&sleeper.set, 1);
    hd_waker_wake(sleeper.waker);
    EXPECT_EQ(rt_join(task), 3);
    hd_runtime_destroy(runtime);
}

/* ---- elsewhere ---- */

static hd_poll park_in_poll(void *state, int *result)
{
    (void)state;
    *result = hd_park();
    return HD_READY;
}

TEST_WORLDS(only_a_fiber_can_park, options)
{
    EXPECT_EQ(hd_park(), -EINVAL);
    hd_runtime *runtime = rt_create(options);
    EXPECT_EQ(hd_park(), -EINVAL);
    EXPECT_EQ(rt_join(rt_spawn_poll(runtime, park_in_poll, NULL, 0)), -EINVAL);
    hd_runtime_destroy(runtime);
}

TEST(outside_any_task_there_is_no_waker_and_that_does_no_harm)
{
    hd_waker none = hd_waker_self();
    EXPECT(none.task == NULL);
    EXPECT(hd_waker_clone(none).task == NULL);
    hd_waker_wake_keep(none);
    hd_waker_wake(none);
    hd_waker_drop(none);
}
