/* SPDX-License-Identifier: MIT
 *
 * The OpenMP side of the fork-join rows: tasks of gcc's libgomp, run from the one thread of a
 * `single` construct, as OpenMP's programs do. `openmp_bench ROW [key=value]...` runs one sample.
 */
#include "../fork_peer.h"

#define SORT_SERIAL 4096 /* shorter parts are sorted by one task */

static uint64_t fib(unsigned n)
{
    if (n < 2) return n;
    uint64_t left;
#pragma omp task shared(left)
    left = fib(n - 1);
    const uint64_t right = fib(n - 2);
#pragma omp taskwait
    return left + right;
}

static double integrate(struct interval whole)
{
    struct interval left, right;
    if (!interval_cut(&whole, &left, &right)) return left.area + right.area;
    double left_area;
#pragma omp task shared(left_area)
    left_area = integrate(left);
    const double right_area = integrate(right);
#pragma omp taskwait
    return left_area + right_area;
}

static uint64_t queens_below(unsigned n, const struct board *board)
{
    if (board->count == n) return 1;
    uint64_t sums[QUEENS_MAX] = {0}, sum = 0;
    for (unsigned row = 0; row < n; row++) {
        struct board next;
        if (!board_place(board, row, &next)) continue;
#pragma omp task shared(sums)
        sums[row] = queens_below(n, &next);
    }
#pragma omp taskwait
    for (unsigned row = 0; row < n; row++) sum += sums[row];
    return sum;
}

static void matrix(double *c, const double *a, const double *b, size_t size)
{
    if (size == MATRIX_LEAF) {
        matrix_leaf(c, a, b);
        return;
    }
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++) {
#pragma omp task
                matrix(c + matrix_quadrant(size, i, j), a + matrix_quadrant(size, i, k),
                       b + matrix_quadrant(size, k, j), size / 2);
            }
#pragma omp taskwait
    }
}

static uint64_t skynet(uint64_t number, uint64_t leaves)
{
    if (leaves == 1) return number;
    const uint64_t each = leaves / SKYNET_CHILDREN;
    uint64_t sums[SKYNET_CHILDREN - 1];
    for (unsigned i = 0; i < SKYNET_CHILDREN - 1; i++) {
#pragma omp task shared(sums)
        sums[i] = skynet(number + i * each, each);
    }
    uint64_t sum = skynet(number + (SKYNET_CHILDREN - 1) * each, each);
#pragma omp taskwait
    for (unsigned i = 0; i < SKYNET_CHILDREN - 1; i++) sum += sums[i];
    return sum;
}

static uint64_t uts_below(uint64_t node)
{
    const unsigned children = uts_children(node);
    if (children == 0) return 1;
    uint64_t sums[UTS_CHILDREN - 1];
    for (unsigned i = 0; i < children - 1; i++) {
#pragma omp task shared(sums)
        sums[i] = uts_below(uts_child(node, i));
    }
    uint64_t sum = 1 + uts_below(uts_child(node, children - 1));
#pragma omp taskwait
    for (unsigned i = 0; i < children - 1; i++) sum += sums[i];
    return sum;
}

/* The root's children first ... end - 1. */
static uint64_t uts_range(unsigned first, unsigned end)
{
    if (end - first == 1) return uts_below(uts_child(UTS_ROOT, first));
    const unsigned middle = first + (end - first) / 2;
    uint64_t left;
#pragma omp task shared(left)
    left = uts_range(first, middle);
    const uint64_t right = uts_range(middle, end);
#pragma omp taskwait
    return left + right;
}

static uint64_t uts(void)
{
    return 1 + uts_range(0, UTS_ROOT_CHILDREN);
}

static void sort_part(uint32_t *items, size_t count)
{
    while (count > SORT_SERIAL) {
        const size_t left = sort_split(items, count);
#pragma omp task
        sort_part(items, left);
        items += left;
        count -= left;
    }
    sort_quick(items, count);
}

static void sort(uint32_t *items, size_t count)
{
#pragma omp taskgroup
    sort_part(items, count);
}

static void parallel_for(size_t count)
{
#pragma omp parallel for num_threads(params.workers)
    for (size_t i = 0; i < count; i++) KEEP(i);
}

static void fork_empty(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
#pragma omp task
        __asm__ volatile("");
#pragma omp taskwait
    }
}

int main(int argc, char **argv)
{
    void (*run)(void) = peer_row(argc, argv);
    solver = (struct solver){fib, integrate, queens_below, matrix, skynet, uts, sort, parallel_for,
                             fork_empty};
    if (run == fork_row_parallel_for) { /* It makes its team itself. */
        run();
        return 0;
    }
#pragma omp parallel num_threads(params.workers)
#pragma omp single
    run();
    return 0;
}
