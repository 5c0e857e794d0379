/* SPDX-License-Identifier: MIT
 *
 * Rows of fork-join: jobs as a user of fork.h, parallel.h and sort.h writes them. What is
 * measured, and how results are checked, is in fork_rows.h.
 */
#include <heddle/fork.h>
#include <heddle/parallel.h>
#include <heddle/sort.h>

#include <pthread.h>

#include "bench.h"

#include "fork_rows.h"

/* Where this thread runs jobs; NULL: it is a worker, in its own runtime. */
static _Thread_local hd_runtime *place;

HD_JOB(fib, uint64_t, unsigned, n)
{
    if (n < 2) return n;
    HD_FORK(left, fib, n - 1);
    const uint64_t right = HD_CALL(fib, n - 2);
    return HD_SYNC(left) + right;
}

static uint64_t run_fib(unsigned n)
{
    return HD_RUN_JOB(place, fib, n);
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
    return HD_RUN_JOB(place, integrate, whole);
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
    return HD_RUN_JOB(place, queens_below, at);
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

/* ---- by turns ----
 *
 * Where a CPU is half of a core and strangers have the other half, as on a virtual machine, two
 * processes one after the other do not find the same machine. Here one process solves a problem in
 * each way in turn, from a plain thread. Two of one worker at once are what the machine allows two
 * workers. */

enum way { SERIAL, ONE, TWO, TWICE, WAYS };
enum { TURNS_MIN = 5, TURNS_MAX = 256, MS_FACTOR = 32 };

static struct {
    work_fn *work;
    hd_runtime *one, *another, *two; /* of that many workers */
} turns;

static double solve_ns(hd_runtime *runtime)
{
    place = runtime;
    const double start = now_ns();
    turns.work(1);
    return now_ns() - start;
}

static void *solve_another(void *took)
{
    *(double *)took = solve_ns(turns.another);
    return NULL;
}

/* Two problems at once, each by one worker; per problem, as if both took as long. */
static double solve_twice_ns(void)
{
    pthread_t thread;
    double took_another;
    MUST(pthread_create(&thread, NULL, solve_another, &took_another));
    const double took = solve_ns(turns.one);
    MUST(pthread_join(thread, NULL));
    return 1 / (1 / took + 1 / took_another);
}

static double turn_ns(enum way way)
{
    double took;
    switch (way) {
    case SERIAL:
        solver.fib = fib_serial;
        took = solve_ns(NULL);
        solver.fib = run_fib;
        return took;
    case ONE: return solve_ns(turns.one);
    case TWO: return solve_ns(turns.two);
    case TWICE: return solve_twice_ns();
    case WAYS: break;
    }
    abort();
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Report the median of each way. */
static void take_turns(double ops, enum way first)
{
    static const char *const names[WAYS] = {"ns_serial", "ns_one", "ns", "ns_twice"};
    static double took[WAYS][TURNS_MAX];
    const double end = now_ns() + params.ms * MS_FACTOR * 1e6;
    size_t count = 0;
    do {
        for (enum way i = first; i < WAYS; i++) {
            const enum way way = count % 2 == 0 ? i : first + WAYS - 1 - i;
            took[way][count] = turn_ns(way) / ops;
        }
    } while (++count < TURNS_MIN || (count < TURNS_MAX && now_ns() < end));
    for (enum way way = first; way < WAYS; way++) {
        qsort(took[way], count, sizeof *took[way], compare);
        report(names[way], took[way][count / 2]);
    }
}

static void run_turns(double ops, work_fn *work, enum way first)
{
    hd_options options = bench_options();
    options.workers = 1;
    turns.work = work;
    MUST(hd_runtime_create(&turns.one, &options));
    MUST(hd_runtime_create(&turns.another, &options));
    options.workers = 2;
    MUST(hd_runtime_create(&turns.two, &options));
    take_turns(ops, first);
    hd_runtime_destroy(turns.two);
    hd_runtime_destroy(turns.another);
    hd_runtime_destroy(turns.one);
}

static bool run_turns_row(const char *name)
{
    if (strcmp(name, "fib_turns") == 0) {
        run_turns((double)fib_calls(params.n), fibs, SERIAL);
    } else if (strcmp(name, "integrate_turns") == 0) {
        run_turns(1, integrals, ONE);
    } else if (strcmp(name, "nqueens_turns") == 0) {
        run_turns(1, queens, ONE);
    } else {
        return false;
    }
    return true;
}

bool run_fork_row(const char *name)
{
    solver = (struct solver){run_fib, run_integrate, run_queens, run_multiply, run_skynet, run_uts,
                             run_sort, run_parallel_for, run_fork_empty};
    void (*run)(void) = fork_row_find(name);
    if (run == NULL) return run_turns_row(name);
    hd_options options = bench_options();
    if (strcmp(name, "uts") == 0) options.job_stack_bytes = 4 << 20; /* Its tree is deep. */
    MUST(hd_run(fork_root, &run, &options));
    return true;
}
