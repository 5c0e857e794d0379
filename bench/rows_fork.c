/* SPDX-License-Identifier: MIT
 *
 * Rows of fork-join: jobs as a user of fork.h, parallel.h and sort.h writes them. What is
 * measured, and how results are checked, is in fork_rows.h.
 */
#include <heddle/fork.h>
#include <heddle/parallel.h>
#include <heddle/sort.h>

#include "bench.h"

#include "fork_rows.h"

HD_JOB(fib, uint64_t, unsigned, n)
{
    if (n < 2) return n;
    HD_FORK(left, fib, n - 1);
    const uint64_t right = HD_CALL(fib, n - 2);
    return HD_SYNC(left) + right;
}

static uint64_t run_fib(unsigned n)
{
    return HD_RUN_JOB(NULL, fib, n);
}

HD_JOB(integrate, double, struct interval, whole)
{
    struct interval left, right;
    if (!interval_cut(&whole, &left, &right)) return left.area + right.area;
    HD_FORK(left_area, integrate, left);
    const double right_area = HD_CALL(integrate, right);
    return HD_SYNC(left_area) + right_area;
}

static double run_integrate(struct interval whole)
{
    return HD_RUN_JOB(NULL, integrate, whole);
}

struct position {
    unsigned n;
    struct board board;
};

HD_JOB(queens_below, uint64_t, struct position, at)
{
    if (at.board.count == at.n) return 1;
    queens_below_job jobs[QUEENS_MAX];
    unsigned count = 0;
    for (unsigned row = 0; row < at.n; row++) {
        struct position next = {.n = at.n};
        if (board_place(&at.board, row, &next.board))
            HD_FORK_INTO(&jobs[count++], queens_below, next);
    }
    uint64_t sum = 0;
    while (count-- > 0) sum += HD_SYNC_FROM(&jobs[count], queens_below);
    return sum;
}

static uint64_t run_queens(unsigned n, const struct board *board)
{
    const struct position at = {n, *board};
    return HD_RUN_JOB(NULL, queens_below, at);
}

struct product { /* c += a * b */
    double *c;
    const double *a, *b;
    size_t size;
};

static struct product quadrant(const struct product *whole, int i, int j, int k)
{
    return (struct product){whole->c + matrix_quadrant(whole->size, i, j),
                            whole->a + matrix_quadrant(whole->size, i, k),
                            whole->b + matrix_quadrant(whole->size, k, j), whole->size / 2};
}

HD_JOB_VOID(multiply, struct product, whole)
{
    if (whole.size == MATRIX_LEAF) {
        matrix_leaf(whole.c, whole.a, whole.b);
        return;
    }
    for (int k = 0; k < 2; k++) {
        HD_FORK(one, multiply, quadrant(&whole, 0, 0, k));
        HD_FORK(two, multiply, quadrant(&whole, 0, 1, k));
        HD_FORK(three, multiply, quadrant(&whole, 1, 0, k));
        HD_CALL(multiply, quadrant(&whole, 1, 1, k));
    }
}

static void run_multiply(double *c, const double *a, const double *b, size_t size)
{
    const struct product whole = {c, a, b, size};
    HD_RUN_JOB(NULL, multiply, whole);
}

struct subtree {
    uint64_t number, leaves;
};

HD_JOB(skynet, uint64_t, struct subtree, tree)
{
    if (tree.leaves == 1) return tree.number;
    const uint64_t each = tree.leaves / SKYNET_CHILDREN;
    skynet_job jobs[SKYNET_CHILDREN - 1];
    struct subtree child = {tree.number, each};
    for (unsigned i = 0; i < SKYNET_CHILDREN - 1; i++) {
        HD_FORK_INTO(&jobs[i], skynet, child);
        child.number += each;
    }
    uint64_t sum = HD_CALL(skynet, child);
    for (unsigned i = SKYNET_CHILDREN - 1; i-- > 0;) sum += HD_SYNC_FROM(&jobs[i], skynet);
    return sum;
}

static uint64_t run_skynet(uint64_t number, uint64_t leaves)
{
    const struct subtree tree = {number, leaves};
    return HD_RUN_JOB(NULL, skynet, tree);
}

HD_JOB(uts_below, uint64_t, uint64_t, node)
{
    const unsigned children = uts_children(node);
    if (children == 0) return 1;
    uts_below_job jobs[UTS_CHILDREN - 1];
    for (unsigned i = 0; i < children - 1; i++)
        HD_FORK_INTO(&jobs[i], uts_below, uts_child(node, i));
    uint64_t sum = 1 + HD_CALL(uts_below, uts_child(node, children - 1));
    for (unsigned i = children - 1; i-- > 0;) sum += HD_SYNC_FROM(&jobs[i], uts_below);
    return sum;
}

struct range { /* of the root's children: first ... end - 1 */
    unsigned first, end;
};

HD_JOB(uts_range, uint64_t, struct range, all)
{
    if (all.end - all.first == 1) return HD_CALL(uts_below, uts_child(UTS_ROOT, all.first));
    const unsigned middle = all.first + (all.end - all.first) / 2;
    const struct range below = {all.first, middle}, above = {middle, all.end};
    HD_FORK(left, uts_range, below);
    const uint64_t right = HD_CALL(uts_range, above);
    return HD_SYNC(left) + right;
}

static uint64_t run_uts(void)
{
    const struct range all = {0, UTS_ROOT_CHILDREN};
    return 1 + HD_RUN_JOB(NULL, uts_range, all);
}

HD_JOB_VOID(empty, int, nothing)
{
    KEEP(nothing);
}

HD_JOB_VOID(fork_empties, uint64_t, n)
{
    for (uint64_t i = 0; i < n; i++) {
        HD_FORK(one, empty, 0);
        HD_SYNC(one);
    }
}

static void run_fork_empty(uint64_t n)
{
    HD_RUN_JOB(NULL, fork_empties, n);
}

HD_SORT(sort_numbers, uint32_t, a, b, *a < *b);

static void run_sort(uint32_t *items, size_t count)
{
    MUST(sort_numbers(items, count, NULL));
}

HD_FOR(do_nothing, int, unused, i)
{
    KEEP(i);
}

static void run_parallel_for(size_t count)
{
    MUST(do_nothing(0, 0, count, NULL));
}

static int fork_root(void *arg)
{
    (*(void (**)(void))arg)();
    return 0;
}

bool run_fork_row(const char *name)
{
    void (*run)(void) = fork_row_find(name);
    if (run == NULL) return false;
    hd_options options = bench_options();
    if (strcmp(name, "uts") == 0) options.job_stack_bytes = 4 << 20; /* Its tree is deep. */
    solver = (struct solver){run_fib, run_integrate, run_queens, run_multiply, run_skynet, run_uts,
                             run_sort, run_parallel_for, run_fork_empty};
    MUST(hd_run(fork_root, &run, &options));
    return true;
}
