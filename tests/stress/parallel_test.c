/* SPDX-License-Identifier: MIT
 *
 * Parallel loops, reductions, scans and sorts with up to 64 workers, among fibers that wait, from
 * several threads at once, and cancelled at any moment.
 */
#include "stress.h"

#include "parallel.h"

TEST_MAIN

enum { ITEMS = 200000 };

HD_REDUCE(total, double, const double *, x, i, 0.0, x[i], a, b, a + b);
HD_SCAN(sums, double, a, b, a + b);
HD_SORT(sort_numbers, double, a, b, *a < *b);
HD_FOR(halve, double *, x, i)
{
    x[i] /= 2;
}

struct work {
    size_t count;
    double *in, *sorted, *scanned;
    double total;
};

static void work_init(struct work *w)
{
    uint64_t random = 1;
    w->count = stress_count(ITEMS);
    const size_t bytes = w->count * sizeof(double);
    w->in = parallel_alloc(bytes);
    w->sorted = parallel_alloc(bytes);
    w->scanned = parallel_alloc(bytes);
    for (size_t i = 0; i < w->count; i++) {
        w->in[i] = w->sorted[i] = (double)(int64_t)parallel_random(&random) / 1e9;
    }
    EXPECT_EQ(total(&w->total, w->in, 0, w->count, NULL), 0);
    EXPECT_EQ(sums(w->scanned, w->in, w->count, NULL), 0);
    EXPECT_EQ(sort_numbers(w->sorted, w->count, NULL), 0);
}

static void work_fini(struct work *w)
{
    free(w->in);
    free(w->sorted);
    free(w->scanned);
}

static void expect_same(const struct work *w, const hd_parallel_options *options)
{
    const size_t bytes = w->count * sizeof(double);
    double *x = parallel_alloc(bytes), sum = 0;
    EXPECT_EQ(total(&sum, w->in, 0, w->count, options), 0);
    EXPECT(parallel_same_bits(sum, w->total));
    EXPECT_EQ(sums(x, w->in, w->count, options), 0);
    EXPECT_EQ(memcmp(x, w->scanned, bytes), 0);
    memcpy(x, w->in, bytes);
    EXPECT_EQ(sort_numbers(x, w->count, options), 0);
    EXPECT_EQ(memcmp(x, w->sorted, bytes), 0);
    EXPECT_EQ(halve(x, 0, w->count, options), 0);
    for (size_t i = 0; i < w->count; i++) EXPECT(x[i] * 2 == w->sorted[i]);
    free(x);
}

/* ---- among others ---- */

static int ping(void *arg)
{
    hd_chan **ends = arg;
    int ball;
    while (hd_chan_recv(ends[0], &ball) == 0 && hd_chan_send(ends[1], &ball) == 0) continue;
    return 0;
}

static int among_others(void *arg)
{
    hd_chan *there = hd_chan_create(sizeof(int), 0), *back = hd_chan_create(sizeof(int), 0);
    hd_chan *ends[2][2] = {{there, back}, {back, there}};
    int ball = 1;
    EXPECT(there && back);
    HD_NURSERY(n) {
        for (int i = 0; i < 2; i++) EXPECT_EQ(hd_go(n, ping, ends[i]), 0);
        EXPECT_EQ(hd_chan_send(there, &ball), 0);
        for (int i = 0; i < 3; i++) expect_same(arg, NULL);
        hd_chan_close(there);
        hd_chan_close(back);
    }
    hd_chan_destroy(there);
    hd_chan_destroy(back);
    return 0;
}

TEST(the_same_for_1_to_64_workers)
{
    static const unsigned workers[] = {1, 2, 3, 8, 64};
    struct work w;
    work_init(&w);
    for (unsigned i = 0; i < sizeof(workers) / sizeof(workers[0]); i++) {
        hd_options options = HD_OPTIONS_INIT;
        options.world = HD_WORLD_LIVE;
        options.workers = workers[i];
        options.stall_ns = HD_FOREVER;
        EXPECT_EQ(hd_run(among_others, &w, &options), 0);
    }
    work_fini(&w);
}

/* ---- from several threads ---- */

struct visitors {
    const struct work *work;
    hd_runtime *runtime;
};

static void *visit(void *arg)
{
    const struct visitors *v = arg;
    hd_parallel_options options = HD_PARALLEL_OPTIONS_INIT;
    options.runtime = v->runtime;
    for (int i = 0; i < 3; i++) expect_same(v->work, &options);
    return NULL;
}

TEST(threads_share_a_runtime)
{
    struct work w;
    struct stress_threads threads = {.count = 0};
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 4;
    work_init(&w);
    struct visitors v = {&w, stress_runtime(&options)};
    for (int i = 0; i < 4; i++) stress_start(&threads, visit, &v);
    stress_join(&threads);
    hd_runtime_destroy(v.runtime);
    work_fini(&w);
}

/* ---- cancelled at any moment ---- */

struct long_sum {
    atomic_int began;
    int err;
    double sum;
};

HD_REDUCE(endless, double, struct long_sum *, s, i, 0.0, (double)i, a, b, a + b);

static int sum_for_long(void *arg)
{
    struct long_sum *s = arg;
    atomic_store(&s->began, 1);
    s->err = endless(&s->sum, s, 0, SIZE_MAX, NULL);
    return 0;
}

static int cancel_anywhere(void *arg)
{
    struct stress_random random = stress_random_init(1);
    (void)arg;
    for (unsigned i = 0; i < stress_count(200); i++) {
        struct long_sum s = {.err = 1, .sum = -1};
        hd_task *task = NULL;
        EXPECT_EQ(hd_spawn(&task, sum_for_long, &s), 0);
        while (!atomic_load(&s.began)) hd_yield();
        for (unsigned k = stress_below(&random, 2000); k > 0; k--) __asm__ volatile("");
        hd_cancel(task);
        int result;
        EXPECT_EQ(hd_join(task, &result), 0);
        EXPECT(s.err == -ECANCELED && s.sum == -1);
    }
    return 0;
}

TEST(a_cancel_ends_it_at_any_moment)
{
    static const unsigned workers[] = {1, 2, 8};
    for (unsigned i = 0; i < sizeof(workers) / sizeof(workers[0]); i++) {
        hd_options options = HD_OPTIONS_INIT;
        options.world = HD_WORLD_LIVE;
        options.workers = workers[i];
        EXPECT_EQ(hd_run(cancel_anywhere, NULL, &options), 0);
    }
}
