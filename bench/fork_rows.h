/* SPDX-License-Identifier: MIT
 *
 * fork_rows: the fork-join rows as far as they are the same on every side: what is measured of a
 * workload, and the checks of its results. Whoever includes this, once, has defined `params`,
 * measure(), now_ns(), report() and EXPECT() before, and fills in `solver`. peers/rayon repeats it
 * in Rust.
 */
#ifndef FORK_ROWS_H
#define FORK_ROWS_H

#include <string.h>

#include "workloads.h"

/* The workloads as one side solves them. */
struct solver {
    uint64_t (*fib)(unsigned n);
    double (*integrate)(struct interval whole);
    uint64_t (*queens)(unsigned n, const struct board *board);
    void (*matrix)(double *c, const double *a, const double *b, size_t size); /* c += a * b */
    uint64_t (*skynet)(uint64_t number, uint64_t leaves);
    uint64_t (*uts)(void); /* how many nodes */
    void (*sort)(uint32_t *items, size_t count);
    void (*parallel_for)(size_t count);
    void (*fork_empty)(uint64_t n); /* n times: fork an empty job and join it */
};
static struct solver solver;

static void fibs(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) EXPECT(solver.fib(params.n) == fib_result(params.n));
}

static void fork_row_fib(void)
{
    measure((double)fib_calls(params.n), fibs);
}

static void integrals(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) EXPECT(integrate_correct(solver.integrate(integrate_all())));
}

static void fork_row_integrate(void)
{
    measure(1, integrals);
}

static void queens(uint64_t n)
{
    const struct board empty = {0, {0}};
    for (uint64_t i = 0; i < n; i++)
        EXPECT(solver.queens(params.n, &empty) == queens_result(params.n));
}

static void fork_row_nqueens(void)
{
    EXPECT(params.n <= QUEENS_MAX);
    measure(1, queens);
}

#define MATRIX __attribute__((aligned(64)))
static double matrix_a[MATRIX_ITEMS] MATRIX, matrix_b[MATRIX_ITEMS] MATRIX,
    matrix_c[MATRIX_ITEMS] MATRIX;

static void products(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        memset(matrix_c, 0, sizeof matrix_c);
        solver.matrix(matrix_c, matrix_a, matrix_b, MATRIX_N);
    }
}

static void fork_row_matmul(void)
{
    matrix_fill(matrix_a, matrix_b);
    measure(1, products);
    EXPECT(matrix_correct(matrix_c));
}

static void skynets(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) EXPECT(solver.skynet(0, SKYNET_LEAVES) == SKYNET_RESULT);
}

static void fork_row_skynet(void)
{
    measure(1, skynets);
}

static void searches(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) EXPECT(solver.uts() == UTS_NODES);
}

static void fork_row_uts(void)
{
    measure(1, searches);
}

static double sort_ns(uint32_t *items, size_t count)
{
    const uint64_t sum = sort_fill(items, count);
    const double start = now_ns();
    solver.sort(items, count);
    const double took = now_ns() - start;
    EXPECT(sort_correct(items, count, sum));
    return took;
}

/* Sorted once: an array that is sorted already is another problem. A smaller one is the warm-up. */
static void fork_row_sort(void)
{
    const size_t count = params.count;
    uint32_t *items = (uint32_t *)calloc(count, sizeof *items);
    EXPECT(items != NULL);
    sort_ns(items, count / 16);
    report("ns", sort_ns(items, count));
    free(items);
}

static void loops(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) solver.parallel_for(params.count);
}

static void fork_row_parallel_for(void)
{
    measure(1, loops);
}

static void fork_row_fork_empty(void)
{
    measure(1, solver.fork_empty);
}

static const struct {
    const char *name;
    void (*run)(void);
} fork_rows[] = {
    {"fib", fork_row_fib},
    {"integrate", fork_row_integrate},
    {"nqueens", fork_row_nqueens},
    {"matmul", fork_row_matmul},
    {"skynet", fork_row_skynet},
    {"uts", fork_row_uts},
    {"sort", fork_row_sort},
    {"parallel_for", fork_row_parallel_for},
    {"fork_empty", fork_row_fork_empty},
};

/* The row of this name; NULL if there is none. */
static void (*fork_row_find(const char *name))(void)
{
    for (size_t i = 0; i < sizeof fork_rows / sizeof *fork_rows; i++)
        if (strcmp(name, fork_rows[i].name) == 0) return fork_rows[i].run;
    return NULL;
}

#endif
