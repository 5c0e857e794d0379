/* SPDX-License-Identifier: MIT
 *
 * bench: what the rows of our side share: parameters, the clock, measuring, reporting.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <heddle/runtime.h>
#include <heddle/task.h>

#define BATCH 1000
#define DEPTH 1000
#define RING  1000

#define CASES_MAX 64 /* of select */

/* The key=value arguments of the command line. */
struct params {
    unsigned workers;
    bool stackless; /* kind=task rather than kind=fiber */
    unsigned ms;    /* how long the measured part lasts */
    unsigned count; /* of the million rows, of parallel_for and sort */
    unsigned n;     /* of fib and nqueens */
    unsigned cap;   /* of chan_stream: the channel's capacity */
    unsigned cases; /* of select */
    unsigned live;  /* of timer_cycle: other timers */
    bool clock;     /* of timer_cycle: read it for each timer */
    unsigned hogs;  /* of victim: for each worker */
    unsigned checkpoint; /* of victim: whether its hogs call hd_checkpoint() */
    bool stats;     /* also report what the scheduler did */
};
extern struct params params;

/* A call that cannot fail here: if it does, the sample is worthless. */
#define MUST(call)                                                                       \
    do {                                                                                 \
        const int must_error = (call);                                                   \
        if (must_error != 0) {                                                           \
            fprintf(stderr, "%s:%d: %s = %d\n", __FILE__, __LINE__, #call, must_error);  \
            abort();                                                                     \
        }                                                                                \
    } while (0)

/* The check of a row's result. */
#define EXPECT(condition)                                                                \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);      \
            abort();                                                                     \
        }                                                                                \
    } while (0)

double now_ns(void);
void spin_ns(double ns);
double resident_bytes(void);
void report(const char *key, double value);

/* Sort the latencies and report their median as `ns`, and `ns_p99`. */
void report_latencies(double *latencies, size_t count);

/* Report ns per operation, where work(n) performs n * ops operations. Finding an n that
 * lasts params.ms is the warm-up. With params.stats also report what the scheduler did in 1000
 * operations, to tell why a row is as it is. */
typedef void work_fn(uint64_t n);
void measure(double ops, work_fn *work);

/* Report ns per operation of two ways to do the same, `work` as `ns` and `base` as `ns_base`: in
 * short slices that alternate, so that what disturbs one disturbs the other. Each is the median of
 * its slices. */
void measure_pair(double ops, work_fn *work, work_fn *base);

/* Options for params.workers workers. */
hd_options bench_options(void);

/* Run `root` as the first fiber of a runtime with params.workers workers. */
void run_in_fiber(hd_fn *root);

/* Run part(0) ... part(count - 1) in a fiber each, spawned in this order, and wait for all. */
#define PARTS_MAX 128
typedef void part_fn(unsigned i);
void together(unsigned count, part_fn *part);

/* Spawn a stackless task from a fiber and wait for it: how fibers measure what tasks do. */
void run_task(hd_poll_fn *poll, const void *state, size_t state_bytes);

/* Run a row of fork_rows.h; false if there is none of this name. */
bool run_fork_row(const char *name);

/* The rows; bench/README.md says what each does. */
void row_switch(void);
void row_yield(void);
void row_spawn_one(void);
void row_spawn_batch(void);
void row_spawn_foreign(void);
void row_spawn_foreign_batch(void);
void row_chain(void);
void row_pingpong(void);
void row_pingpong_threads(void);
void row_ring(void);
void row_million(void);
void row_million_parked(void);
void row_steal_searching(void);
void row_steal_parked(void);
void row_futex(void);
void row_futex_pingpong(void);
void row_chan_pingpong(void);
void row_chan_stream(void);
void row_chan_mpmc(void);
void row_select(void);
void row_oneshot(void);
void row_broadcast(void);
void row_watch(void);
void row_mutex(void);
void row_mutex_one(void);
void row_sem(void);
void row_blocking(void);
void row_timer_cycle(void);
void row_timer_million(void);
void row_sleep_late(void);
void row_nursery(void);
void row_budget_spawn(void);
void row_budget_nursery(void);
void row_budget_chan_pingpong(void);
void row_budget_chan_stream(void);
void row_victim(void);
void row_fork_bomb_live(void);
void row_fork_bomb_count(void);
void row_memory_bomb(void);
void row_chan_flood(void);
void row_chan_flood_ops(void);
void row_serve_echo(void);
void row_serve_copy(void);
void row_file_read(void);
void row_pread(void);
void row_cohort(void);

#endif
