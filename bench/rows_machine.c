/* SPDX-License-Identifier: MIT
 *
 * Rows about the machine as much as about us: the raw switch, how long a steal takes,
 * and how long the kernel's own wake-up across CPUs takes, to compare with.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"
#include "ctx/switch.h"

/* ---- raw switch ---- */

static void *switch_here, *switch_there;

static void switch_entry(void *arg)
{
    (void)arg;
    for (;;) hdi_switch(&switch_there, switch_here, NULL);
}

static void switches(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) hdi_switch(&switch_here, switch_there, NULL);
}

void row_switch(void)
{
    static _Alignas(64) char stack[65536];
    switch_there = hdi_switch_prepare(stack + sizeof stack, switch_entry, NULL);
    measure(2, switches);
}

/* ---- steal latency ---- */

#define GAP_NS      100000.0 /* from the thief's sleep to the next probe, here and for futexes */
#define SAMPLES_MAX 100000

static double latencies[SAMPLES_MAX];

/* A task that notes when it began to run. */
struct probe {
    _Atomic(double) started; /* 0: not yet */
};

static hd_poll probe_task(void *state, int *result)
{
    struct probe *p = *(struct probe **)state;
    *result = 0;
    atomic_store(&p->started, now_ns());
    return HD_READY;
}

static bool probe_wait(struct probe *p, double ns_max)
{
    const double end = now_ns() + ns_max;
    while (atomic_load(&p->started) == 0.0)
        if (now_ns() > end) return false;
    return true;
}

static void sleepers_wait(void)
{
    const double end = now_ns() + 1e8;
    hd_stats stats;
    do hd_runtime_stats(hd_runtime_self(), &stats);
    while (stats.parks - stats.unparks < params.workers - 1 && now_ns() < end);
    spin_ns(GAP_NS);
}

static hd_task *probe_spawn(struct probe *p)
{
    hd_task *handle;
    MUST(hd_spawn_poll(&handle, probe_task, &p, sizeof p));
    return handle;
}

/* This fiber keeps its worker busy, so whatever it spawns is for a thief. The first task
 * goes to the LIFO slot, which thieves do not touch; the second pushes it into the queue,
 * and from then on the clock runs. Should a thief take the first at once, that counts
 * from the first spawn. Returns the latency, or 0 if nobody stole in time. */
static double steal_once(bool sleeping)
{
    struct probe probes[2] = {0};
    hd_task *handles[2];
    double latency = 0;

    if (sleeping) sleepers_wait();
    double start = now_ns();
    handles[0] = probe_spawn(&probes[0]);
    if (sleeping) sleepers_wait();
    if (!probe_wait(&probes[0], 20000)) {
        start = now_ns();
        handles[1] = probe_spawn(&probes[1]);
        probe_wait(&probes[0], 1e7);
    } else {
        handles[1] = NULL;
    }
    const double started = atomic_load(&probes[0].started);
    if (started >= start) latency = started - start;
    for (int i = 0; i < 2; i++)
        if (handles[i] != NULL) MUST(hd_join(handles[i], NULL));
    return latency;
}

static int steal_root(void *arg)
{
    const bool sleeping = *(bool *)arg;
    size_t count = 0, missed = 0;
    for (int i = 0; i < 20; i++) steal_once(sleeping);
    const double end = now_ns() + params.ms * 2e6;
    while (now_ns() < end && count < SAMPLES_MAX) {
        const double latency = steal_once(sleeping);
        if (latency > 0) latencies[count++] = latency;
        else missed++;
    }
    if (count == 0) {
        fprintf(stderr, "nothing was stolen\n");
        return 1;
    }
    report_latencies(latencies, count);
    report("missed", (double)missed);
    return 0;
}

static void steal_run(bool sleeping)
{
    params.workers = 2;
    hd_options options = bench_options();
    options.spin_rounds = sleeping ? 1 : 10000; /* longer than the pause between two probes */
    MUST(hd_run(steal_root, &sleeping, &options));
}

void row_steal_searching(void)
{
    steal_run(false);
}

void row_steal_parked(void)
{
    steal_run(true);
}

/* ---- the machine's own wake-up: two pinned threads and a futex ---- */

struct duel {
    _Alignas(64) _Atomic(uint32_t) word;
    _Alignas(64) _Atomic(bool) waiting;
    _Atomic(double) woken; /* when the other thread came back; 0: not yet */
    _Atomic(bool) end;
    int cpus[2];
};

static void futex_wait(_Atomic(uint32_t) *word, uint32_t expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(_Atomic(uint32_t) *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    MUST(sched_setaffinity(0, sizeof set, &set));
}

/* The first two CPUs we may use. */
static void duel_init(struct duel *d)
{
    cpu_set_t set;
    int found = 0;
    MUST(sched_getaffinity(0, sizeof set, &set));
    for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
        if (CPU_ISSET(cpu, &set)) d->cpus[found++] = cpu;
    if (found < 2) {
        fprintf(stderr, "this row needs two CPUs\n");
        exit(1);
    }
}

static void *sleeper(void *arg)
{
    struct duel *d = arg;
    pin(d->cpus[1]);
    for (uint32_t turn = 0; !atomic_load(&d->end); turn++) {
        atomic_store(&d->waiting, true);
        while (atomic_load(&d->word) == turn) futex_wait(&d->word, turn);
        atomic_store(&d->woken, now_ns());
    }
    return NULL;
}

static double wake_once(struct duel *d)
{
    while (!atomic_load(&d->waiting)) {
    }
    atomic_store(&d->waiting, false);
    atomic_store(&d->woken, 0);
    spin_ns(GAP_NS);
    const double start = now_ns();
    atomic_fetch_add(&d->word, 1);
    futex_wake(&d->word);
    double woken;
    while ((woken = atomic_load(&d->woken)) == 0.0) {
    }
    return woken - start;
}

void row_futex(void)
{
    static struct duel d;
    pthread_t thread;
    size_t count = 0;
    duel_init(&d);
    MUST(pthread_create(&thread, NULL, sleeper, &d));
    pin(d.cpus[0]);
    for (int i = 0; i < 20; i++) wake_once(&d);
    const double end = now_ns() + params.ms * 2e6;
    while (now_ns() < end && count < SAMPLES_MAX) latencies[count++] = wake_once(&d);
    atomic_store(&d.end, true);
    wake_once(&d);
    MUST(pthread_join(thread, NULL));
    report_latencies(latencies, count);
}

/* ---- the same as a round trip: what two threads pay without any runtime ---- */

static struct duel trip;

static void *returner(void *arg)
{
    const uint64_t n = *(uint64_t *)arg;
    pin(trip.cpus[1]);
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t mine = (uint32_t)(2 * i + 1);
        while (atomic_load(&trip.word) < mine) futex_wait(&trip.word, mine - 1);
        atomic_store(&trip.word, mine + 1);
        futex_wake(&trip.word);
    }
    return NULL;
}

static void trips(uint64_t n)
{
    pthread_t thread;
    atomic_store(&trip.word, 0);
    MUST(pthread_create(&thread, NULL, returner, &n));
    pin(trip.cpus[0]);
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t theirs = (uint32_t)(2 * i + 1);
        atomic_store(&trip.word, theirs);
        futex_wake(&trip.word);
        while (atomic_load(&trip.word) == theirs) futex_wait(&trip.word, theirs);
    }
    MUST(pthread_join(thread, NULL));
}

void row_futex_pingpong(void)
{
    duel_init(&trip);
    measure(1, trips);
}
