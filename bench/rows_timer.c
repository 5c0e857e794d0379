/* SPDX-License-Identifier: MIT
 *
 * Rows of timers. All sides draw the same delays.
 */
#include <stdatomic.h>
#include <string.h>

#include <heddle/time.h>

#include "bench.h"

#define MS      INT64_C(1000000)
#define HOUR_MS 3600000

/* A delay of first ... first + span - 1 milliseconds, in nanoseconds. */
static int64_t draw_ns(uint64_t *state, uint64_t first, uint64_t span)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (int64_t)(first + (*state >> 33) % span) * MS;
}

/* Stopped timers; their memory is touched. */
static hd_timer *must_timers(size_t count)
{
    hd_timer *timers = malloc(count * sizeof *timers + 1);
    if (timers == NULL) abort();
    memset(timers, 0, count * sizeof *timers);
    return timers;
}

static void start_all(hd_timer *timers, size_t count, uint64_t first, uint64_t span)
{
    const int64_t now = hd_now(NULL);
    uint64_t state = 1;
    for (size_t i = 0; i < count; i++)
        MUST(hd_timer_start(&timers[i], now + draw_ns(&state, first, span)));
}

static void stop_all(hd_timer *timers, size_t count)
{
    for (size_t i = 0; i < count; i++) EXPECT(hd_timer_stop(&timers[i]));
}

/* ---- create, cancel ---- */

static hd_timer cycled;

static void cycle_work(uint64_t n)
{
    int64_t now = hd_now(NULL);
    uint64_t state = 1;
    for (uint64_t i = 0; i < n; i++) {
        if (params.clock) now = hd_now(NULL);
        MUST(hd_timer_start(&cycled, now + draw_ns(&state, 1, 1000)));
        EXPECT(hd_timer_stop(&cycled));
    }
}

static int cycle_root(void *arg)
{
    (void)arg;
    hd_timer *live = must_timers(params.live);
    start_all(live, params.live, HOUR_MS, HOUR_MS);
    measure(1, cycle_work);
    stop_all(live, params.live);
    free(live);
    return 0;
}

void row_timer_cycle(void)
{
    run_in_fiber(cycle_root);
}

/* ---- a million ---- */

/* Start all, then stop all in the same order; ns for each. */
static double timers_ns(size_t count)
{
    hd_timer *timers = must_timers(count);
    const double start = now_ns();
    start_all(timers, count, 10000, 60000);
    stop_all(timers, count);
    const double took = now_ns() - start;
    free(timers);
    return took / (double)count;
}

static int million_root(void *arg)
{
    (void)arg;
    (void)timers_ns(BATCH);
    report("ns", timers_ns(params.count));
    return 0;
}

void row_timer_million(void)
{
    run_in_fiber(million_root);
}

/* ---- lateness on busy CPUs ---- */

#define BUSY     4
#define SLEEPERS 100

static atomic_bool stop;
static int64_t end;
static struct sleeper {
    double *late; /* ns, of each sleep but the first, which is the warm-up */
    size_t count;
} sleepers[SLEEPERS];

static int busy_fiber(void *arg)
{
    (void)arg;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        spin_ns(20000);
        hd_yield();
    }
    return 0;
}

static double sleep_once(uint64_t *state)
{
    const int64_t deadline = hd_now(NULL) + draw_ns(state, 1, 10);
    MUST(hd_sleep_until(deadline));
    return (double)(hd_now(NULL) - deadline);
}

static void sleep_part(unsigned i)
{
    struct sleeper *s = &sleepers[i];
    uint64_t state = i + 1;
    (void)sleep_once(&state);
    while (hd_now(NULL) < end) s->late[s->count++] = sleep_once(&state);
}

static int late_root(void *arg)
{
    (void)arg;
    const size_t each = 2 * (size_t)params.ms + 2; /* a sleep is never below 1 ms */
    double *all = malloc(SLEEPERS * each * sizeof *all);
    hd_task *busy[BUSY];
    if (all == NULL) abort();
    for (int i = 0; i < SLEEPERS; i++) sleepers[i].late = &all[(size_t)i * each];
    for (int i = 0; i < BUSY; i++) MUST(hd_spawn(&busy[i], busy_fiber, NULL));
    end = hd_now(NULL) + 2 * (int64_t)params.ms * MS;
    together(SLEEPERS, sleep_part);
    atomic_store(&stop, true);
    for (int i = 0; i < BUSY; i++) MUST(hd_join(busy[i], NULL));

    size_t count = 0;
    for (int i = 0; i < SLEEPERS; i++) {
        memmove(&all[count], sleepers[i].late, sleepers[i].count * sizeof *all);
        count += sleepers[i].count;
    }
    EXPECT(count > 0);
    report_latencies(all, count);
    free(all);
    return 0;
}

void row_sleep_late(void)
{
    run_in_fiber(late_root);
}
