/* SPDX-License-Identifier: MIT
 *
 * Heddle's side of the benchmark: `heddle_bench ROW [key=value]...` runs one sample of
 * one row, warm-up included, and prints `key value` lines. What each row does, on every
 * side, is in bench/README.md.
 */
#include "bench.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

struct params params = {.workers = 1, .ms = 80, .count = 1000000, .n = 12, .cases = 2, .hogs = 1};

static const struct {
    const char *name;
    void (*run)(void);
} rows[] = {
    {"switch", row_switch},
    {"yield", row_yield},
    {"spawn_one", row_spawn_one},
    {"spawn_batch", row_spawn_batch},
    {"spawn_foreign", row_spawn_foreign},
    {"spawn_foreign_batch", row_spawn_foreign_batch},
    {"chain", row_chain},
    {"pingpong", row_pingpong},
    {"pingpong_threads", row_pingpong_threads},
    {"ring", row_ring},
    {"million", row_million},
    {"million_parked", row_million_parked},
    {"steal_searching", row_steal_searching},
    {"steal_parked", row_steal_parked},
    {"futex", row_futex},
    {"futex_pingpong", row_futex_pingpong},
    {"chan_pingpong", row_chan_pingpong},
    {"chan_stream", row_chan_stream},
    {"chan_mpmc", row_chan_mpmc},
    {"select", row_select},
    {"oneshot", row_oneshot},
    {"broadcast", row_broadcast},
    {"watch", row_watch},
    {"mutex", row_mutex},
    {"mutex_one", row_mutex_one},
    {"sem", row_sem},
    {"blocking", row_blocking},
    {"timer_cycle", row_timer_cycle},
    {"timer_million", row_timer_million},
    {"sleep_late", row_sleep_late},
    {"nursery", row_nursery},
    {"budget_spawn", row_budget_spawn},
    {"budget_nursery", row_budget_nursery},
    {"budget_chan_pingpong", row_budget_chan_pingpong},
    {"budget_chan_stream", row_budget_chan_stream},
    {"victim", row_victim},
    {"fork_bomb_live", row_fork_bomb_live},
    {"fork_bomb_count", row_fork_bomb_count},
    {"memory_bomb", row_memory_bomb},
    {"chan_flood", row_chan_flood},
    {"chan_flood_ops", row_chan_flood_ops},
    {"serve_echo", row_serve_echo},
    {"serve_copy", row_serve_copy},
    {"file_read", row_file_read},
    {"pread", row_pread},
    {"cohort", row_cohort},
};

double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

void spin_ns(double ns)
{
    const double end = now_ns() + ns;
    while (now_ns() < end) {
    }
}

double resident_bytes(void)
{
    unsigned long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%lu %lu", &size, &resident) != 2) abort();
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

void report(const char *key, double value)
{
    printf("%s %.3f\n", key, value);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void report_latencies(double *latencies, size_t count)
{
    qsort(latencies, count, sizeof *latencies, compare);
    report("ns", latencies[count / 2]);
    report("ns_p99", latencies[count * 99 / 100]);
}

static void report_stats(const hd_stats *from, const hd_stats *to, double operations)
{
    const double thousands = operations / 1000;
    report("polls", (double)(to->polls - from->polls) / thousands);
    report("lifo_hits", (double)(to->lifo_hits - from->lifo_hits) / thousands);
    report("stolen", (double)(to->stolen - from->stolen) / thousands);
    report("searches", (double)(to->searches - from->searches) / thousands);
    report("parks", (double)(to->parks - from->parks) / thousands);
    report("unparks", (double)(to->unparks - from->unparks) / thousands);
}

void measure(double ops, work_fn *work)
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
    hd_runtime *runtime = params.stats ? hd_runtime_self() : NULL;
    hd_stats from, to;
    if (runtime != NULL) hd_runtime_stats(runtime, &from);
    const double start = now_ns();
    work(n);
    const double took = now_ns() - start;
    report("ns", took / (double)n / ops);
    if (runtime != NULL) {
        hd_runtime_stats(runtime, &to);
        report_stats(&from, &to, (double)n * ops);
    }
}

#define SLICE_NS  2e6
#define PAIRS_MAX 1000

static double time_slice(double operations, work_fn *work, uint64_t n)
{
    const double start = now_ns();
    work(n);
    return (now_ns() - start) / operations;
}

void measure_pair(double ops, work_fn *work, work_fn *base)
{
    static double with[PAIRS_MAX], without[PAIRS_MAX];
    const size_t pairs = params.ms / 2 < PAIRS_MAX ? params.ms / 2 + 1 : PAIRS_MAX;
    uint64_t n = 1;
    for (;; n *= 2) {
        const double took = time_slice(1, work, n) + time_slice(1, base, n);
        if (took >= SLICE_NS / 2) {
            n = (uint64_t)((double)n * 2 * SLICE_NS / took) + 1;
            break;
        }
    }
    for (size_t i = 0; i < pairs; i++) {
        if (i % 2 == 0) with[i] = time_slice((double)n * ops, work, n);
        without[i] = time_slice((double)n * ops, base, n);
        if (i % 2 != 0) with[i] = time_slice((double)n * ops, work, n);
    }
    qsort(with, pairs, sizeof *with, compare);
    qsort(without, pairs, sizeof *without, compare);
    report("ns", with[pairs / 2]);
    report("ns_base", without[pairs / 2]);
}

hd_options bench_options(void)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = params.workers;
    return options;
}

void run_in_fiber(hd_fn *root)
{
    const hd_options options = bench_options();
    MUST(hd_run(root, NULL, &options));
}

struct part {
    part_fn *run;
    unsigned i;
};

static int part_fiber(void *arg)
{
    const struct part *p = arg;
    p->run(p->i);
    return 0;
}

void together(unsigned count, part_fn *part)
{
    struct part parts[PARTS_MAX];
    hd_task *handles[PARTS_MAX];
    EXPECT(count <= PARTS_MAX);
    for (unsigned i = 0; i < count; i++) {
        parts[i] = (struct part){.run = part, .i = i};
        MUST(hd_spawn(&handles[i], part_fiber, &parts[i]));
    }
    for (unsigned i = 0; i < count; i++) MUST(hd_join(handles[i], NULL));
}

void run_task(hd_poll_fn *poll, const void *state, size_t state_bytes)
{
    hd_task *handle;
    MUST(hd_spawn_poll(&handle, poll, state, state_bytes));
    MUST(hd_join(handle, NULL));
}

static int usage(void)
{
    fprintf(stderr, "usage: heddle_bench ROW [kind=fiber|task] [workers=N] [ms=N] [count=N]\n"
                    "       [cap=N] [cases=N] [live=N] [clock=1] [stats=1] [hogs=N]\n"
                    "       [checkpoint=0|1] [n=N] [io=uring|epoll]\n"
                    "rows: those of fork_rows.h and");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) fprintf(stderr, " %s", rows[i].name);
    fprintf(stderr, "\n");
    return 2;
}

static bool parse(const char *arg)
{
    if (strcmp(arg, "kind=fiber") == 0) return true;
    if (strcmp(arg, "kind=task") == 0) return params.stackless = true;
    if (strcmp(arg, "clock=1") == 0) return params.clock = true;
    if (strcmp(arg, "stats=1") == 0) return params.stats = true;
    if (strncmp(arg, "io=", 3) == 0) return setenv("HEDDLE_IO", arg + 3, 1) == 0;
    return sscanf(arg, "workers=%u", &params.workers) == 1 ||
           sscanf(arg, "ms=%u", &params.ms) == 1 || sscanf(arg, "count=%u", &params.count) == 1 ||
           sscanf(arg, "cap=%u", &params.cap) == 1 || sscanf(arg, "live=%u", &params.live) == 1 ||
           sscanf(arg, "n=%u", &params.n) == 1 || sscanf(arg, "hogs=%u", &params.hogs) == 1 ||
           sscanf(arg, "checkpoint=%u", &params.checkpoint) == 1 ||
           (sscanf(arg, "cases=%u", &params.cases) == 1 && params.cases > 0 &&
            params.cases <= CASES_MAX);
}

int main(int argc, char **argv)
{
    if (argc < 2) return usage();
    for (int i = 2; i < argc; i++)
        if (!parse(argv[i])) return usage();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(argv[1], rows[i].name) == 0) {
            rows[i].run();
            return 0;
        }
    }
    return run_fork_row(argv[1]) ? 0 : usage();
}
