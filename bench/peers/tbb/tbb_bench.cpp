// SPDX-License-Identifier: MIT
//
// The oneTBB side of the fork-join rows: `tbb_bench ROW [key=value]...` runs one sample of one
// row, warm-up included, and prints `key value` lines.

#include "../fork_peer.h"

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_sort.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

namespace {

std::uint64_t fib(unsigned n)
{
    if (n < 2) return n;
    std::uint64_t left;
    tbb::task_group group;
    group.run([&left, n] { left = fib(n - 1); });
    const std::uint64_t right = fib(n - 2);
    group.wait();
    return left + right;
}

double integrate(interval whole)
{
    interval left, right;
    if (!interval_cut(&whole, &left, &right)) return left.area + right.area;
    double left_area;
    tbb::task_group group;
    group.run([&] { left_area = integrate(left); });
    const double right_area = integrate(right);
    group.wait();
    return left_area + right_area;
}

std::uint64_t queens_below(unsigned n, const board *from)
{
    if (from->count == n) return 1;
    std::uint64_t sums[QUEENS_MAX] = {0}, sum = 0;
    tbb::task_group group;
    for (unsigned row = 0; row < n; row++) {
        board next;
        if (board_place(from, row, &next))
            group.run([=, &sums] { sums[row] = queens_below(n, &next); });
    }
    group.wait();
    for (unsigned row = 0; row < n; row++) sum += sums[row];
    return sum;
}

void matrix(double *c, const double *a, const double *b, std::size_t size)
{
    if (size == MATRIX_LEAF) {
        matrix_leaf(c, a, b);
        return;
    }
    for (int k = 0; k < 2; k++) {
        tbb::task_group group;
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++)
                group.run([=] {
                    matrix(c + matrix_quadrant(size, i, j), a + matrix_quadrant(size, i, k),
                           b + matrix_quadrant(size, k, j), size / 2);
                });
        group.wait();
    }
}

std::uint64_t skynet(std::uint64_t number, std::uint64_t leaves)
{
    if (leaves == 1) return number;
    const std::uint64_t each = leaves / SKYNET_CHILDREN;
    std::uint64_t sums[SKYNET_CHILDREN - 1];
    tbb::task_group group;
    for (unsigned i = 0; i < SKYNET_CHILDREN - 1; i++)
        group.run([=, &sums] { sums[i] = skynet(number + i * each, each); });
    std::uint64_t sum = skynet(number + (SKYNET_CHILDREN - 1) * each, each);
    group.wait();
    for (const std::uint64_t part : sums) sum += part;
    return sum;
}

std::uint64_t uts_below(std::uint64_t node)
{
    const unsigned children = uts_children(node);
    if (children == 0) return 1;
    std::uint64_t sums[UTS_CHILDREN - 1];
    tbb::task_group group;
    for (unsigned i = 0; i < children - 1; i++)
        group.run([=, &sums] { sums[i] = uts_below(uts_child(node, i)); });
    std::uint64_t sum = 1 + uts_below(uts_child(node, children - 1));
    group.wait();
    for (unsigned i = 0; i < children - 1; i++) sum += sums[i];
    return sum;
}

// The root's children first ... end - 1.
std::uint64_t uts_range(unsigned first, unsigned end)
{
    if (end - first == 1) return uts_below(uts_child(UTS_ROOT, first));
    const unsigned middle = first + (end - first) / 2;
    std::uint64_t left;
    tbb::task_group group;
    group.run([&left, first, middle] { left = uts_range(first, middle); });
    const std::uint64_t right = uts_range(middle, end);
    group.wait();
    return left + right;
}

std::uint64_t uts() { return 1 + uts_range(0, UTS_ROOT_CHILDREN); }

void sort(std::uint32_t *items, std::size_t count) { tbb::parallel_sort(items, items + count); }

void parallel_for(std::size_t count)
{
    tbb::parallel_for(std::size_t(0), count, [](std::size_t i) { KEEP(i); });
}

void fork_empty(std::uint64_t n)
{
    tbb::task_group group;
    for (std::uint64_t i = 0; i < n; i++) {
        group.run([] { __asm__ volatile(""); });
        group.wait();
    }
}

} // namespace

int main(int argc, char **argv)
{
    void (*run)() = peer_row(argc, argv);
    solver = {fib, integrate, queens_below, matrix, skynet, uts, sort, parallel_for,
              fork_empty};
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, params.workers);
    tbb::task_arena arena(static_cast<int>(params.workers));
    arena.execute([run] { run(); });
}
