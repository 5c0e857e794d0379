/* SPDX-License-Identifier: MIT
 *
 * Parallel loops, reductions, scans and calls: the results.
 */
#include "parallel.h"

TEST_MAIN

enum { ITEMS = 3000 };

/* ---- loops ---- */

struct marks {
    size_t from;
    unsigned char times[ITEMS]; /* plain: an index that runs twice at once is a race */
};

HD_FOR(mark, struct marks *, marks, i)
{
    marks->times[i - marks->from]++;
}

static void expect_each_once(size_t from, size_t count, size_t grain)
{
    struct marks marks = {.from = from};
    const hd_parallel_options options = parallel_grain(grain);
    EXPECT_EQ(mark(&marks, from, from + count, grain ? &options : NULL), 0);
    for (size_t i = 0; i < ITEMS; i++) EXPECT_EQ(marks.times[i], i < count);
}

static int for_random(void *arg)
{
    uint64_t random = 1;
    (void)arg;
    for (int i = 0; i < 30; i++) {
        const size_t count = parallel_below(&random, ITEMS);
        const size_t grain = parallel_below(&random, 3) ? 0 : parallel_below(&random, ITEMS);
        expect_each_once(parallel_below(&random, 1u << 20), count, grain);
    }
    return 0;
}

TEST_WORLDS(a_loop_runs_each_index_once, options)
{
    parallel_everywhere(for_random, NULL, options);
}

static int for_edges(void *arg)
{
    (void)arg;
    static const size_t grains[] = {0, 1, ITEMS / 2, ITEMS, SIZE_MAX};
    for (unsigned i = 0; i < sizeof(grains) / sizeof(grains[0]); i++) {
        expect_each_once(0, 0, grains[i]);
        expect_each_once(7, 1, grains[i]);
        expect_each_once(SIZE_MAX - ITEMS, ITEMS, grains[i]);
        expect_each_once(SIZE_MAX - 1, 1, grains[i]);
        expect_each_once(SIZE_MAX, 0, grains[i]);
    }
    struct marks none = {0};
    EXPECT_EQ(mark(&none, 2, 1, NULL), 0); /* as empty as any */
    EXPECT_EQ(mark(&none, SIZE_MAX, 0, NULL), 0);
    EXPECT_EQ(none.times[0] + none.times[1] + none.times[2], 0);
    return 0;
}

TEST_WORLDS(a_loop_at_the_edges, options) { parallel_everywhere(for_edges, NULL, options); }

struct failing {
    struct marks marks;
    size_t each; /* fails at these multiples */
    size_t from; /* and only from here on */
};

HD_TRY_FOR(try_mark, struct failing *, f, i)
{
    f->marks.times[i]++;
    return i >= f->from && i % f->each == 0 ? -(int)i : 0;
}

static int try_random(void *arg)
{
    uint64_t random = 2;
    (void)arg;
    for (int i = 0; i < 30; i++) {
        struct failing f = {.each = 1 + parallel_below(&random, 500),
                            .from = 1 + parallel_below(&random, ITEMS)};
        const hd_parallel_options options = parallel_grain(parallel_below(&random, 50));
        const size_t first = (f.from + f.each - 1) / f.each * f.each;
        EXPECT_EQ(try_mark(&f, 0, ITEMS, &options), first < ITEMS ? -(int)first : 0);
        for (size_t k = 0; k < ITEMS; k++) {
            EXPECT(f.marks.times[k] <= 1);
            if (k <= first) EXPECT_EQ(f.marks.times[k], 1);
        }
    }
    return 0;
}

TEST_WORLDS(the_smallest_index_that_fails_says_why, options)
{
    parallel_everywhere(try_random, NULL, options);
}

static int try_alone(void *arg)
{
    (void)arg;
    struct failing f = {.each = 10, .from = 100};
    EXPECT_EQ(try_mark(&f, 0, ITEMS, NULL), -100);
    return 0;
}

/* With nobody to ask for work, nothing above the failure is begun. */
TEST(a_failure_ends_the_loop)
{
    struct failing f = {.each = 10, .from = 100};
    EXPECT_EQ(try_mark(&f, 0, ITEMS, NULL), -100);
    for (size_t i = 0; i < ITEMS; i++) EXPECT_EQ(f.marks.times[i], i <= 100);
    hd_options options = HD_OPTIONS_INIT;
    rt_run(try_alone, NULL, &options);
}

HD_TRY_FOR(fail_once, size_t, at, i)
{
    return i == at ? -EIO : 0;
}

static int fail_early(void *arg)
{
    (void)arg;
    for (size_t at = 0; at < 5000; at += 999) EXPECT_EQ(fail_once(at, 0, SIZE_MAX, NULL), -EIO);
    return 0;
}

/* Else the upper half would never end. */
TEST_WORLDS(a_failure_ends_what_is_above, options)
{
    parallel_everywhere(fail_early, NULL, options);
}

/* ---- reductions ---- */

/* x -> m * x + c: which of two comes first matters, how they are grouped does not. */
struct affine {
    uint64_t m, c;
};

static struct affine then(struct affine a, struct affine b)
{
    return (struct affine){a.m * b.m, a.c * b.m + b.c};
}

static struct affine affine_of(size_t i)
{
    return (struct affine){2 * i + 3, i ^ 0x55};
}

HD_REDUCE(compose, struct affine, int, unused, i, ((struct affine){1, 0}), affine_of(i), a, b,
          then(a, b));
HD_REDUCE(total, double, const double *, x, i, 0.0, x[i], a, b, a + b);

static int reduce_in_order(void *arg)
{
    uint64_t random = 3;
    (void)arg;
    for (int i = 0; i < 30; i++) {
        const size_t begin = parallel_below(&random, 100), count = parallel_below(&random, ITEMS);
        const hd_parallel_options options = parallel_grain(parallel_below(&random, 20));
        struct affine result = {0, 0}, expected = {1, 0};
        EXPECT_EQ(compose(&result, 0, begin, begin + count, &options), 0);
        for (size_t k = begin; k < begin + count; k++) expected = then(expected, affine_of(k));
        EXPECT(result.m == expected.m && result.c == expected.c);
    }
    struct affine result = {0, 0};
    EXPECT_EQ(compose(&result, 0, 9, 3, NULL), 0);
    EXPECT(result.m == 1 && result.c == 0);
    EXPECT_EQ(compose(&result, 0, SIZE_MAX - 1, SIZE_MAX, NULL), 0);
    EXPECT(result.m == affine_of(SIZE_MAX - 1).m && result.c == affine_of(SIZE_MAX - 1).c);
    return 0;
}

TEST_WORLDS(a_reduction_keeps_the_order, options)
{
    parallel_everywhere(reduce_in_order, NULL, options);
}

/* Numbers of all sizes: any other grouping gives other last bits. */
static void fill(double *x, size_t count)
{
    uint64_t random = 4;
    for (size_t i = 0; i < count; i++) {
        const double scale = (double)(UINT64_C(1) << parallel_below(&random, 50));
        x[i] = (double)(int64_t)parallel_random(&random) / scale;
    }
}

/* The tree that parallel.h tells of. */
static double grouped(const double *x, size_t count, size_t leaf)
{
    if (count > leaf) return grouped(x, count / 2, leaf) +
                             grouped(x + count / 2, count - count / 2, leaf);
    double sum = x[0];
    for (size_t i = 1; i < count; i++) sum += x[i];
    return sum;
}

static const size_t counts[] = {1, 2, 1000, 1024, 1025, 5000, 20000};
static const size_t grains[] = {0, 1, 7, 1000, SIZE_MAX};
enum { COUNTS = 7, GRAINS = 5, MOST = 20000 };

static int reduce_grouped(void *x)
{
    for (int i = 0; i < COUNTS * GRAINS; i++) {
        const size_t count = counts[i % COUNTS], grain = grains[i / COUNTS];
        const hd_parallel_options options = parallel_grain(grain);
        double sum;
        EXPECT_EQ(total(&sum, x, 0, count, &options), 0);
        EXPECT(parallel_same_bits(sum, grouped(x, count, grain ? grain : (count + 1023) / 1024)));
    }
    return 0;
}

TEST_WORLDS(a_sum_is_the_same_to_the_last_bit, options)
{
    double *x = parallel_alloc(MOST * sizeof(*x));
    fill(x, MOST);
    reduce_grouped(x); /* by this thread alone */
    parallel_everywhere(reduce_grouped, x, options);
    free(x);
}

/* ---- scans ---- */

HD_SCAN(sums, double, a, b, a + b);
HD_SCAN(compositions, struct affine, a, b, then(a, b));

struct scanned {
    double *in, *alone[COUNTS * GRAINS];
};

static int scan_grouped(void *arg)
{
    const struct scanned *s = arg;
    for (int i = 0; i < COUNTS * GRAINS; i++) {
        const size_t count = counts[i % COUNTS];
        const hd_parallel_options options = parallel_grain(grains[i / COUNTS]);
        double *out = parallel_alloc(count * sizeof(*out));
        EXPECT_EQ(sums(out, s->in, count, &options), 0);
        EXPECT_EQ(memcmp(out, s->alone[i], count * sizeof(*out)), 0);
        memcpy(out, s->in, count * sizeof(*out));
        EXPECT_EQ(sums(out, out, count, &options), 0);
        EXPECT_EQ(memcmp(out, s->alone[i], count * sizeof(*out)), 0);
        free(out);
    }
    return 0;
}

TEST_WORLDS(a_scan_is_the_same_to_the_last_bit, options)
{
    struct scanned s = {.in = parallel_alloc(MOST * sizeof(double))};
    fill(s.in, MOST);
    for (int i = 0; i < COUNTS * GRAINS; i++) {
        const size_t count = counts[i % COUNTS];
        const hd_parallel_options how = parallel_grain(grains[i / COUNTS]);
        s.alone[i] = parallel_alloc(count * sizeof(double));
        EXPECT_EQ(sums(s.alone[i], s.in, count, &how), 0);
    }
    parallel_everywhere(scan_grouped, &s, options);
    for (int i = 0; i < COUNTS * GRAINS; i++) free(s.alone[i]);
    free(s.in);
}

static int scan_in_order(void *arg)
{
    uint64_t random = 5;
    struct affine in[ITEMS / 4], out[ITEMS / 4];
    (void)arg;
    for (int i = 0; i < 20; i++) {
        const size_t count = parallel_below(&random, ITEMS / 4);
        const hd_parallel_options options = parallel_grain(parallel_below(&random, 20));
        for (size_t k = 0; k < count; k++) in[k] = affine_of(parallel_below(&random, 100));
        EXPECT_EQ(compositions(out, in, count, &options), 0);
        struct affine expected = {1, 0};
        for (size_t k = 0; k < count; k++) {
            expected = then(expected, in[k]);
            EXPECT(out[k].m == expected.m && out[k].c == expected.c);
        }
    }
    return 0;
}

TEST_WORLDS(a_scan_keeps_the_order, options) { parallel_everywhere(scan_in_order, NULL, options); }

/* ---- calls ---- */

static int add_one(void *number)
{
    ++*(int *)number;
    return 0;
}

static int fail_with(void *number)
{
    return -*(int *)number;
}

static int invoke_some(void *arg)
{
    int numbers[40] = {0}, three = 3, four = 4;
    hd_do all[40];
    (void)arg;
    EXPECT_EQ(hd_invoke(HD_DO(add_one, &numbers[0])), 0);
    EXPECT_EQ(hd_invoke(HD_DO(add_one, &numbers[0]), HD_DO(add_one, &numbers[1]),
                        HD_DO(add_one, &numbers[2])),
              0);
    EXPECT(numbers[0] == 2 && numbers[1] == 1 && numbers[2] == 1);
    EXPECT_EQ(hd_invoke(HD_DO(add_one, &numbers[1]), HD_DO(fail_with, &three),
                        HD_DO(fail_with, &four)),
              -3);
    EXPECT_EQ(numbers[1], 2);
    for (int i = 0; i < 40; i++) {
        numbers[i] = 0;
        all[i] = HD_DO(add_one, &numbers[i]);
    }
    EXPECT_EQ(hd_invoke_all(all, 40, NULL), 0);
    for (int i = 0; i < 40; i++) EXPECT_EQ(numbers[i], 1);
    EXPECT_EQ(hd_invoke_all(NULL, 0, NULL), 0);
    return 0;
}

TEST_WORLDS(a_set_of_calls, options)
{
    invoke_some(NULL);
    parallel_everywhere(invoke_some, NULL, options);
}

/* ---- inside each other ---- */

struct table {
    size_t rows, columns;
    uint64_t sums[64];
};

HD_REDUCE(row_total, uint64_t, size_t, row, i, 0, row * i, a, b, a + b);

HD_TRY_FOR(row_totals, struct table *, t, row)
{
    return row_total(&t->sums[row], row, 0, t->columns, NULL);
}

static int nest(void *arg)
{
    (void)arg;
    struct table t = {.rows = 64, .columns = 500};
    EXPECT_EQ(row_totals(&t, 0, t.rows, NULL), 0);
    for (size_t row = 0; row < t.rows; row++) EXPECT_EQ(t.sums[row], row * (500 * 499 / 2));
    return 0;
}

TEST_WORLDS(one_inside_another, options)
{
    nest(NULL);
    parallel_everywhere(nest, NULL, options);
}

/* ---- misuse ---- */

TEST(options_of_another_size_are_refused)
{
    const hd_parallel_options wrong = {.size = 1};
    struct marks marks = {0};
    struct affine item = {5, 6};
    EXPECT_EQ(mark(&marks, 0, 10, &wrong), -EINVAL);
    EXPECT_EQ(mark(&marks, 0, 0, &wrong), -EINVAL);
    EXPECT_EQ(compose(&item, 0, 0, 10, &wrong), -EINVAL);
    EXPECT_EQ(compose(&item, 0, 0, 0, &wrong), -EINVAL);
    EXPECT_EQ(compositions(&item, &item, 1, &wrong), -EINVAL);
    EXPECT_EQ(compositions(&item, &item, 0, &wrong), -EINVAL);
    EXPECT_EQ(hd_invoke_all(NULL, 0, &wrong), -EINVAL);
    EXPECT(marks.times[0] == 0 && item.m == 5 && item.c == 6);
}
