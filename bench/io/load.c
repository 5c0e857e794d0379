/* SPDX-License-Identifier: MIT
 *
 * load: the rows of I/O: `io_load ROW server=NAME[,NAME]... [key=value]...` starts the servers on
 * one CPU, drives them from another, and prints `key value` lines. What each row does is in
 * bench/README.md.
 *
 * Several servers are driven by turns, while the others sleep: the machine's speed may change from
 * second to second, and then it does so for all of them. The keys end in the server's name, and a
 * figure is the median of its turns. They are many and short: a virtual machine loses its CPU for
 * milliseconds now and then, and that is to spoil a few of them, and not the median.
 *
 * `ns` is always the server's: nanoseconds of CPU per request. Our client is one thread that
 * submits and reaps by io_uring, because a slow client would leave the server idle, and then what
 * is measured is falling asleep and waking up. Nor does it sleep itself where messages go to and
 * fro: the server would pay for waking it, and a slow one more often than a quick one.
 */
#include "load.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define SERVERS_MAX 8
#define TURNS       15 /* that each server has; odd, as the next */
#define LONG_TURNS  3  /* where one lasts for a second */
#define LACKS_IT    77 /* exit status: this server is not to be had here */
#define IDLE_BEFORE 64 /* connections that the server has seen before the idle ones */

struct params params = {.conns = 64, .bytes = 64, .rate = 20000, .ms = 80};

_Noreturn void fail(const char *why)
{
    if (errno != 0) fprintf(stderr, "io_load: %s: %s\n", why, strerror(errno));
    else fprintf(stderr, "io_load: %s\n", why);
    servers_stop();
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

/* ---- by turns ---- */

static const char *const figures[] = {"ns", "ns_p50", "ns_p99", "ns_each", "per_s", "cpus"};
#define FIGURES (sizeof figures / sizeof *figures)

struct side {
    const char *name;
    const struct server *server;
    struct fleet *fleet; /* NULL: another program is the client */
    double turns[FIGURES][TURNS];
    unsigned turn; /* that comes next */
};

/* Measure once: one number for each of the figures; NAN: there is none. */
typedef void turn_fn(struct side *side, double found[FIGURES]);

static int compare_ns(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int compare_figures(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Half as long as a sample of other rows. If nothing was answered in it, somebody had no CPU: for
 * what is better when less it counts as the worst there is. */
static void in_window(struct side *side, double found[FIGURES], client_window *window)
{
    const struct outcome o = window(side->fleet, (int64_t)params.ms * 1000000 / 2);
    if (o.done == 0 || o.count == 0) {
        found[0] = found[1] = found[2] = found[3] = INFINITY;
        found[4] = found[5] = 0;
        return;
    }
    qsort(o.latencies, o.count, sizeof *o.latencies, compare_ns);
    found[0] = (double)o.cpu_ns / (double)o.done;
    found[1] = (double)o.latencies[o.count / 2];
    found[2] = (double)o.latencies[o.count * 99 / 100];
    found[3] = (double)o.wall_ns / (double)o.done;
    found[4] = (double)o.done * 1e9 / (double)o.wall_ns;
    found[5] = (double)o.cpu_ns / (double)o.wall_ns;
}

static void take_turn(struct side *side, turn_fn *measure)
{
    double found[FIGURES];
    measure(side, found);
    for (unsigned i = 0; i < FIGURES; i++) side->turns[i][side->turn] = found[i];
    side->turn++;
}

static void report_side(struct side *side)
{
    for (unsigned i = 0; i < FIGURES; i++) {
        char key[64];
        if (isnan(side->turns[i][0])) continue;
        snprintf(key, sizeof key, "%s_%s", figures[i], side->name);
        qsort(side->turns[i], side->turn, sizeof(double), compare_figures);
        const double median = side->turns[i][side->turn / 2];
        errno = 0;
        if (isinf(median)) fail("nothing was answered");
        report(key, median);
    }
}

/* There and back again, so that each side is as often early as late. A server that is not there
 * has no figures; the others do. With `conns` connections of ours, if any. */
static void by_turns(const char *what, unsigned conns, unsigned turns, turn_fn *measure)
{
    static struct side sides[SERVERS_MAX];
    unsigned count = 0;
    for (char *name; (name = strsep(&params.servers, ",")) != NULL;) {
        errno = 0;
        if (count == SERVERS_MAX) fail("too many servers");
        const struct server *server = server_start(name, what);
        if (server == NULL) continue;
        struct side *side = &sides[count++];
        *side = (struct side){.name = name, .server = server};
        if (conns > 0) side->fleet = client_new(server);
        if (conns > 0) client_open(side->fleet, conns);
    }
    if (count == 0) exit(LACKS_IT);
    for (unsigned turn = 0; turn < turns; turn++)
        for (unsigned i = 0; i < count; i++)
            take_turn(&sides[turn % 2 == 0 ? i : count - 1 - i], measure);
    for (unsigned i = 0; i < count; i++) report_side(&sides[i]);
}

/* ---- the rows ---- */

static void echo_turn(struct side *side, double found[FIGURES])
{
    in_window(side, found, client_closed_loop);
}

static void row_echo(void)
{
    by_turns("echo", params.conns, TURNS, echo_turn);
}

static void paced_turn(struct side *side, double found[FIGURES])
{
    in_window(side, found, client_paced);
}

static void row_paced(void)
{
    by_turns("echo", params.conns, TURNS, paced_turn);
}

static void connect_turn(struct side *side, double found[FIGURES])
{
    in_window(side, found, client_connects);
}

static void row_connect(void)
{
    by_turns("echo", 1, TURNS, connect_turn);
}

static void row_idle(void)
{
    const struct server *server = server_start(params.servers, "echo");
    if (server == NULL) exit(LACKS_IT);
    struct fleet *fleet = client_new(server);
    client_open(fleet, IDLE_BEFORE);
    const int64_t before = server_resident_bytes(server);
    client_open(fleet, params.conns);
    report("bytes", (double)(server_resident_bytes(server) - before) / params.conns);
}

/* By wrk, whose windows are whole seconds. */
static void http_turn(struct side *side, double found[FIGURES])
{
    char conns[16], url[64], output[4096];
    snprintf(conns, sizeof conns, "-c%u", params.conns);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/", server_port(side->server));
    char *const wrk[] = {"wrk", "-t1", conns, "-d1s", url, NULL};
    const int64_t cpu = server_cpu_ns(side->server);
    run_client(wrk, output, sizeof output);
    const double used = (double)(server_cpu_ns(side->server) - cpu);

    const char *total = strstr(output, " requests in "), *rate = strstr(output, "Requests/sec:");
    errno = 0;
    if (total == NULL || rate == NULL) fail("wrk did not say how many requests it made");
    if (strstr(output, "Non-2xx") || strstr(output, "Socket errors")) fail("wrk had errors");
    while (total > output && total[-1] != ' ' && total[-1] != '\n') total--;
    for (unsigned i = 0; i < FIGURES; i++) found[i] = NAN;
    found[0] = used / strtod(total, NULL);
    found[4] = strtod(rate + strlen("Requests/sec:"), NULL);
    found[3] = 1e9 / found[4];
}

static void row_http(void)
{
    by_turns("http", 0, LONG_TURNS, http_turn);
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
    fprintf(stderr, "usage: io_load echo|paced|connect|http server=NAME[,NAME]... [conns=N] "
                    "[bytes=N] [rate=N] [ms=N]\n"
                    "       io_load idle server=NAME [conns=N]\n");
    return 2;
}

static bool parse(char *arg)
{
    if (strncmp(arg, "server=", 7) == 0) params.servers = arg + 7;
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
    if (params.servers == NULL) return usage();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(argv[1], rows[i].name) != 0) continue;
        raise_limit();
        pin(1);
        rows[i].run();
        servers_stop();
        return 0;
    }
    return usage();
}
