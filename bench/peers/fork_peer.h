/* SPDX-License-Identifier: MIT
 *
 * fork_peer: what the C and C++ peers of the fork-join rows share beyond the rows themselves
 * (fork_rows.h): parameters, the clock, measuring. A peer fills in `solver` and runs the row that
 * peer_row() finds.
 */
#ifndef FORK_PEER_H
#define FORK_PEER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static struct {
    unsigned workers;
    unsigned ms;    /* how long the measured part lasts */
    unsigned n;     /* of fib and nqueens */
    unsigned count; /* of parallel_for and sort */
} params = {1, 80, 12, 1000000};

#define EXPECT(condition)                                                                \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);      \
            abort();                                                                     \
        }                                                                                \
    } while (0)

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void report(const char *key, double value)
{
    printf("%s %.3f\n", key, value);
}

/* Report ns per operation, where work(n) performs n * ops. Finding an n that lasts params.ms is
 * the warm-up. */
static void measure(double ops, void (*work)(uint64_t n))
{
    const double target = (double)params.ms * 1e6;
    uint64_t n = 1;
    for (;; n *= 2) {
        const double start = now_ns();
        work(n);
        const double took = now_ns() - start;
        if (took >= target / 8) {
            n = (uint64_t)((double)n * target / took) + 1;
            break;
        }
    }
    const double start = now_ns();
    work(n);
    report("ns", (now_ns() - start) / (double)n / ops);
}

#include "../fork_rows.h"

static void (*peer_row(int argc, char **argv))(void)
{
    void (*run)(void) = argc < 2 ? NULL : fork_row_find(argv[1]);
    for (int i = 2; i < argc; i++)
        if (sscanf(argv[i], "workers=%u", &params.workers) != 1 &&
            sscanf(argv[i], "ms=%u", &params.ms) != 1 && sscanf(argv[i], "n=%u", &params.n) != 1 &&
            sscanf(argv[i], "count=%u", &params.count) != 1)
            run = NULL;
    if (run != NULL) return run;
    fprintf(stderr, "usage: %s ROW [workers=N] [ms=N] [n=N] [count=N]\n", argv[0]);
    exit(2);
}

#endif
