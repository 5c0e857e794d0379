/* SPDX-License-Identifier: MIT
 *
 * load: the rows of I/O: `io_load ROW server=NAME [key=value]...` starts the server on one CPU,
 * drives it from another, and prints `key value` lines. What each row does is in bench/README.md.
 *
 * `ns` is always the server's: nanoseconds of CPU per request. Ours is one thread that submits and
 * reaps by io_uring, because a slow client would leave the server idle, and then what is measured
 * is falling asleep and waking up.
 */
#include "load.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define WINDOWS     6  /* samples of other rows that a window lasts */
#define IDLE_BEFORE 64 /* connections that the server has seen before the idle ones */

struct params params = {.server = "heddle", .conns = 64, .bytes = 64, .rate = 20000, .ms = 80};

_Noreturn void fail(const char *why)
{
    if (errno != 0) fprintf(stderr, "io_load: %s: %s\n", why, strerror(errno));
    else fprintf(stderr, "io_load: %s\n", why);
    server_stop();
    exit(1);
}

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void pin(unsigned which)
{
    static cpu_set_t allowed; /* as it was before the first call */
    if (CPU_COUNT(&allowed) == 0 && sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        fail("sched_getaffinity");
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || which-- > 0) continue;
        CPU_SET(cpu, &one);
        if (sched_setaffinity(0, sizeof one, &one) != 0) fail("sched_setaffinity");
        return;
    }
    errno = 0;
    fail("two CPUs are needed");
}

static void report(const char *key, double value)
{
    printf("%s %.3f\n", key, value);
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void report_outcome(struct outcome o)
{
    errno = 0;
    if (o.done == 0 || o.count == 0) fail("nothing was answered");
    qsort(o.latencies, o.count, sizeof *o.latencies, compare);
    report("ns", (double)o.cpu_ns / (double)o.done);
    report("ns_p50", (double)o.latencies[o.count / 2]);
    report("ns_p99", (double)o.latencies[o.count * 99 / 100]);
    report("per_s", (double)o.done * 1e9 / (double)o.wall_ns);
    report("cpus", (double)o.cpu_ns / (double)o.wall_ns);
}

/* ---- the rows ---- */

static int64_t window_ns(void)
{
    return (int64_t)params.ms * WINDOWS * 1000000;
}

static void row_echo(void)
{
    server_start("echo");
    client_open(params.conns);
    report_outcome(client_closed_loop(window_ns()));
}

static void row_paced(void)
{
    server_start("echo");
    client_open(params.conns);
    report_outcome(client_paced(window_ns()));
}

static void row_connect(void)
{
    server_start("echo");
    client_open(1);
    report_outcome(client_connects(window_ns()));
}

static void row_idle(void)
{
    server_start("echo");
    client_open(IDLE_BEFORE);
    const int64_t before = server_resident_bytes();
    client_open(params.conns);
    report("bytes", (double)(server_resident_bytes() - before) / params.conns);
}

/* By wrk, whose windows are whole seconds. */
static void row_http(void)
{
    server_start("http");
    char conns[16], url[64], output[4096];
    snprintf(conns, sizeof conns, "-c%u", params.conns);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/", server_port());
    char *const wrk[] = {"wrk", "-t1", conns, "-d1s", "--latency", url, NULL};
    const int64_t cpu = server_cpu_ns();
    run_client(wrk, output, sizeof output);
    const double used = (double)(server_cpu_ns() - cpu);

    const char *total = strstr(output, " requests in "), *rate = strstr(output, "Requests/sec:");
    errno = 0;
    if (total == NULL || rate == NULL) fail("wrk did not say how many requests it made");
    if (strstr(output, "Non-2xx") || strstr(output, "Socket errors")) fail("wrk had errors");
    while (total > output && total[-1] != ' ' && total[-1] != '\n') total--;
    report("ns", used / strtod(total, NULL));
    report("per_s", strtod(rate + strlen("Requests/sec:"), NULL));
}

static const struct {
    const char *name;
    void (*run)(void);
} rows[] = {
    {"echo", row_echo},
    {"paced", row_paced},
    {"connect", row_connect},
    {"idle", row_idle},
    {"http", row_http},
};

static int usage(void)
{
    fprintf(stderr, "usage: io_load echo|paced|connect|idle|http server=NAME [conns=N] [bytes=N] "
                    "[rate=N] [ms=N]\n");
    return 2;
}

static bool parse(char *arg)
{
    if (strncmp(arg, "server=", 7) == 0) params.server = arg + 7;
    return strncmp(arg, "server=", 7) == 0 ||
           (sscanf(arg, "conns=%u", &params.conns) == 1 && params.conns > 0) ||
           (sscanf(arg, "bytes=%u", &params.bytes) == 1 && params.bytes > 0) ||
           (sscanf(arg, "rate=%u", &params.rate) == 1 && params.rate > 0) ||
           (sscanf(arg, "ms=%u", &params.ms) == 1 && params.ms > 0);
}

static void raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) fail("getrlimit");
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) fail("setrlimit");
}

int main(int argc, char **argv)
{
    if (argc < 2) return usage();
    for (int i = 2; i < argc; i++)
        if (!parse(argv[i])) return usage();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(argv[1], rows[i].name) != 0) continue;
        raise_limit();
        pin(1);
        rows[i].run();
        server_stop();
        return 0;
    }
    return usage();
}
