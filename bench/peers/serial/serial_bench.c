/* SPDX-License-Identifier: MIT
 *
 * The serial side of the fork-join rows: plain C on one thread, whatever `workers` says. The
 * recursive functions are not inlined; everything else is as -O2 makes it. It has one row more than
 * others: fib_loop.
 */
#include "../fork_peer.h"

#define CALLED __attribute__((noinline))

/* As written; gcc makes a loop of the last call. */
CALLED static uint64_t fib_loop(unsigned n)
{
    if (n < 2) return n;
    return fib_loop(n - 1) + fib_loop(n - 2);
}

CALLED static double integrate(struct interval whole)
{
    struct interval left, right;
    if (!interval_cut(&whole, &left, &right)) return left.area + right.area;
    return integrate(left) + integrate(right);
}

CALLED static uint64_t queens_below(unsigned n, const struct board *board)
{
    if (board->count == n) return 1;
    uint64_t sum = 0;
    for (unsigned row = 0; row < n; row++) {
        struct board next;
        if (board_place(board, row, &next)) sum += queens_below(n, &next);
    }
    return sum;
}

CALLED static void matrix(double *c, const double *a, const double *b, size_t size)
{
    if (size == MATRIX_LEAF) {
        matrix_leaf(c, a, b);
        return;
    }
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++)
                matrix(c + matrix_quadrant(size, i, j), a + matrix_quadrant(size, i, k),
                       b + matrix_quadrant(size, k, j), size / 2);
}

CALLED static uint64_t skynet(uint64_t number, uint64_t leaves)
{
    if (leaves == 1) return number;
    const uint64_t each = leaves / SKYNET_CHILDREN;
    uint64_t sum = 0;
    for (unsigned i = 0; i < SKYNET_CHILDREN; i++) sum += skynet(number + i * each, each);
    return sum;
}

CALLED static uint64_t uts_below(uint64_t node)
{
    const unsigned children = uts_children(node);
    uint64_t sum = 1;
    for (unsigned i = 0; i < children; i++) sum += uts_below(uts_child(node, i));
    return sum;
}

static uint64_t uts(void)
{
    uint64_t sum = 1;
    for (unsigned i = 0; i < UTS_ROOT_CHILDREN; i++) sum += uts_below(uts_child(UTS_ROOT, i));
    return sum;
}

static void parallel_for(size_t count)
{
    for (size_t i = 0; i < count; i++) KEEP(i);
}

CALLED static void empty(void)
{
    __asm__ volatile("");
}

static void fork_empty(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) empty();
}

int main(int argc, char **argv)
{
    static char fib_name[] = "fib";
    const bool loop = argc > 1 && strcmp(argv[1], "fib_loop") == 0;
    if (loop) argv[1] = fib_name;
    void (*run)(void) = peer_row(argc, argv);
    solver = (struct solver){fib_serial, integrate, queens_below, matrix, skynet, uts, sort_quick,
                             parallel_for, fork_empty};
    if (loop) solver.fib = fib_loop;
    run();
    return 0;
}
