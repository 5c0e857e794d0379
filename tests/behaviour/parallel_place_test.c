/* SPDX-License-Identifier: MIT
 *
 * Parallel loops, reductions and sorts: where they run, and how they are cancelled.
 */
#include "parallel.h"

#include "budgets.h"

TEST_MAIN

enum { ITEMS = 2000 };

/* ---- where ---- */

struct where {
    hd_runtime *runtime; /* that every index is expected in */
    uint64_t task;       /* or the task; 0: any */
    unsigned char times[ITEMS];
};

HD_TRY_FOR(look_around, struct where *, w, i)
{
    w->times[i]++;
    const bool right = hd_runtime_self() == w->runtime && (!w->task || hd_self_id() == w->task);
    return right ? 0 : -EXDEV;
}

HD_REDUCE(places, int, struct where *, w, i, 0, hd_runtime_self() == w->runtime, a, b, a + b);
HD_SCAN(sums, int, a, b, a + b);
HD_SORT(sort_ints, int, a, b, *a < *b);

static void everything(struct where *w, const hd_parallel_options *options)
{
    int number = 0, numbers[ITEMS];
    memset(w->times, 0, sizeof(w->times));
    EXPECT_EQ(look_around(w, 0, ITEMS, options), 0);
    for (size_t i = 0; i < ITEMS; i++) EXPECT_EQ(w->times[i], 1);
    EXPECT_EQ(places(&number, w, 0, ITEMS, options), 0);
    EXPECT_EQ(number, ITEMS);
    for (int i = 0; i < ITEMS; i++) numbers[i] = ITEMS - i;
    EXPECT_EQ(sort_ints(numbers, ITEMS, options), 0);
    for (int i = 0; i < ITEMS; i++) EXPECT_EQ(numbers[i], i + 1);
    EXPECT_EQ(sums(numbers, numbers, ITEMS, options), 0);
    for (int i = 0; i < ITEMS; i++) EXPECT_EQ(numbers[i], (i + 1) * (i + 2) / 2);
}

TEST(without_a_runtime_the_caller_does_it)
{
    struct where w = {NULL, 0, {0}};
    everything(&w, NULL);
}

TEST_WORLDS(from_a_thread_outside, options)
{
    hd_runtime *runtime = rt_create(options);
    struct where w = {runtime, 0, {0}};
    hd_parallel_options into = HD_PARALLEL_OPTIONS_INIT;
    into.runtime = runtime;
    everything(&w, &into);
    into.grain = 3;
    everything(&w, &into);
    hd_runtime_destroy(runtime);
}

static int in_another(void *arg)
{
    hd_runtime *runtime = arg;
    struct where w = {runtime, 0, {0}};
    hd_parallel_options into = HD_PARALLEL_OPTIONS_INIT;
    into.runtime = runtime;
    everything(&w, &into);
    w.runtime = into.runtime = hd_runtime_self();
    everything(&w, &into);
    return 0;
}

/* Live: simulated runtimes do not drive each other. */
TEST(from_another_runtime)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    hd_runtime *runtime = rt_create(&options);
    rt_run(in_another, runtime, &options);
    hd_runtime_destroy(runtime);
}

static hd_poll poll_everything(void *state, int *result)
{
    (void)state;
    struct where w = {hd_runtime_self(), hd_self_id(), {0}};
    everything(&w, NULL);
    *result = 0;
    return HD_READY;
}

TEST_WORLDS(a_stackless_task_does_it_by_itself, options)
{
    hd_runtime *runtime = rt_create(options);
    EXPECT_EQ(rt_join(rt_spawn_poll(runtime, poll_everything, NULL, 0)), 0);
    hd_runtime_destroy(runtime);
}

static int alone(void *arg)
{
    (void)arg;
    struct where w = {hd_runtime_self(), hd_self_id(), {0}};
    everything(&w, NULL);
    return 0;
}

static int with_budget(void *arg)
{
    (void)arg;
    hd_nursery nursery;
    const hd_budget plenty = {.ops = 1000000};
    budgets_open(&nursery, &plenty, NULL);
    EXPECT_EQ(budgets_run(&nursery, alone, NULL), 0);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    return 0;
}

TEST_WORLDS(a_task_with_a_budget_does_it_by_itself, options) { rt_run(with_budget, NULL, options); }

/* ---- cancelling ---- */

struct cancelling {
    hd_scope *scope;
    atomic_size_t ran;
    size_t at; /* the run that cancels */
};

static void count_down(struct cancelling *c)
{
    if (atomic_fetch_add(&c->ran, 1) == c->at) hd_scope_cancel(c->scope);
}

HD_FOR(cancel_for, struct cancelling *, c, i)
{
    count_down(c);
}

static size_t one_of(struct cancelling *c, size_t i)
{
    count_down(c);
    return i;
}

HD_REDUCE(cancel_reduce, size_t, struct cancelling *, c, i, 0, one_of(c, i), a, b, a + b);

static int cancel_loops(void *arg)
{
    (void)arg;
    const hd_parallel_options by_one = parallel_grain(1);
    const size_t count = (size_t)1 << 30;
    HD_SCOPE(scope) {
        struct cancelling c = {.scope = scope, .at = 500};
        EXPECT_EQ(cancel_for(&c, 0, SIZE_MAX, &by_one), -ECANCELED);
        EXPECT(c.ran > 500 && c.ran < count);
        EXPECT(hd_cancelled());
        const size_t before = c.ran;
        size_t sum = 77;
        EXPECT_EQ(cancel_for(&c, 0, 10, NULL), -ECANCELED); /* from the start */
        EXPECT_EQ(cancel_for(&c, 0, 0, NULL), 0);           /* nothing is left out */
        EXPECT_EQ(cancel_reduce(&sum, &c, 0, 10, NULL), -ECANCELED);
        EXPECT(c.ran == before && sum == 77);
        EXPECT_EQ(hd_shield(), 0);
        EXPECT_EQ(cancel_for(&c, 0, 10, NULL), 0);
        EXPECT_EQ(c.ran, before + 10);
        EXPECT_EQ(hd_unshield(), 0);
    }
    HD_SCOPE(scope) {
        struct cancelling c = {.scope = scope, .at = 500};
        size_t sum = 77;
        EXPECT_EQ(cancel_reduce(&sum, &c, 0, count, &by_one), -ECANCELED);
        EXPECT(sum == 77 && c.ran > 500 && c.ran < count);
    }
    HD_SCOPE(scope) { /* too late: nothing is left out */
        struct cancelling c = {.scope = scope, .at = 99};
        EXPECT_EQ(cancel_for(&c, 0, 100, &by_one), 0);
    }
    EXPECT(!hd_cancelled());
    return 0;
}

TEST_WORLDS(a_cancelled_loop_begins_nothing_more, options)
{
    const hd_options sole = rt_workers(options, 1);
    rt_run(cancel_loops, NULL, &sole);
    rt_run_plain(cancel_loops, NULL, options); /* Loops without an end need a fair order. */
}

static struct cancelling sorting;

static bool less_or_cancel(int a, int b)
{
    count_down(&sorting);
    return a < b;
}

HD_SORT(cancel_sort, int, a, b, less_or_cancel(*a, *b));

static int cancel_sorts(void *arg)
{
    enum { MANY = 40000 };
    int *numbers = parallel_alloc(MANY * sizeof(*numbers));
    unsigned char *seen = parallel_alloc(MANY);
    uint64_t random = 1;
    (void)arg;
    for (int i = 0; i < MANY; i++) numbers[i] = i;
    for (size_t i = MANY; i > 1; i--) {
        const size_t other = parallel_below(&random, i);
        const int number = numbers[other];
        numbers[other] = numbers[i - 1];
        numbers[i - 1] = number;
    }
    HD_SCOPE(scope) {
        sorting.scope = scope;
        sorting.at = 100000;
        atomic_store(&sorting.ran, 0);
        EXPECT_EQ(cancel_sort(numbers, MANY, NULL), -ECANCELED);
    }
    for (int i = 0; i < MANY; i++) EXPECT_EQ(seen[numbers[i]]++, 0); /* all are there */
    EXPECT_EQ(sort_ints(numbers, MANY, NULL), 0);
    for (int i = 0; i < MANY; i++) EXPECT_EQ(numbers[i], i);
    free(numbers);
    free(seen);
    return 0;
}

TEST_WORLDS(a_cancelled_sort_loses_nothing, options) { rt_run(cancel_sorts, NULL, options); }

/* A nursery that is cancelled cancels the loops of its tasks. */
static int loop_for_ever(void *started)
{
    struct cancelling c = {.at = SIZE_MAX};
    atomic_store((atomic_int *)started, 1);
    return cancel_for(&c, 0, SIZE_MAX, NULL);
}

static int cancel_nursery(void *arg)
{
    atomic_int started = 0;
    hd_task *task = NULL;
    (void)arg;
    HD_NURSERY(n) {
        hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
        options.nursery = n;
        EXPECT_EQ(hd_spawn_with(&task, loop_for_ever, &started, &options), 0);
        rt_until(&started);
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(rt_join(task), -ECANCELED);
    return 0;
}

TEST_WORLDS(a_cancelled_nursery_ends_its_loops, options)
{
    rt_run_plain(cancel_nursery, NULL, options); /* as above */
}

static int to_the_end(void *arg)
{
    int *err = arg;
    struct cancelling c = {.at = SIZE_MAX};
    *err = cancel_for(&c, 0, SIZE_MAX, NULL);
    return *err;
}

static int out_of_ops(void *arg)
{
    int err = 0;
    (void)arg;
    hd_nursery nursery;
    const hd_budget little = {.ops = 50};
    budgets_open(&nursery, &little, NULL);
    EXPECT_EQ(budgets_run(&nursery, to_the_end, &err), -EDQUOT);
    (void)hd_nursery_leave(&nursery);
    EXPECT_EQ(err, -EDQUOT);
    return 0;
}

TEST_WORLDS(a_loop_ends_with_its_budget, options) { rt_run(out_of_ops, NULL, options); }
