/* SPDX-License-Identifier: MIT
 *
 * A victim among hogs: how late a task runs that wants to once in a millisecond, while others
 * compute without end on every worker.
 */
#include <stdatomic.h>
#include <time.h>

#include <heddle/budget.h>
#include <heddle/time.h>

#include "bench.h"

#define TICK_NS    HD_MS_NS
#define WARM_UP_NS (50 * HD_MS_NS)
#define HOG_ROUNDS 10000

static atomic_bool stop;

/* Some 10 microseconds. */
static uint64_t hog_chunk(uint64_t x)
{
    for (int i = 0; i < HOG_ROUNDS; i++) x = x * 6364136223846793005U + 1442695040888963407U;
    return x;
}

static int hog(void *arg)
{
    uint64_t x = 1;
    (void)arg;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        x = hog_chunk(x);
        if (params.checkpoint != 0) MUST(hd_checkpoint(1));
    }
    return x == 0; /* So that it is computed. */
}

/* The victim wakes at each tick of the window, which begins at `first`. What had not happened
 * when the window ended counts until then, so that one that never runs has its latency, too. */
static struct window {
    int64_t first;
    int64_t end;
    size_t ticks;
    double *late;
} window;

static int victim(void *arg)
{
    struct window *w = arg;
    for (size_t i = 0; i < w->ticks; i++) {
        const int64_t due = w->first + (int64_t)i * TICK_NS;
        MUST(hd_sleep_until(due));
        const int64_t now = hd_now(NULL);
        w->late[i] = (double)((now < w->end ? now : w->end) - due);
    }
    return 0;
}

static void thread_sleep_until(hd_runtime *runtime, int64_t deadline)
{
    const int64_t left = deadline - hd_now(runtime);
    const struct timespec t = {.tv_sec = left / HD_SECOND_NS, .tv_nsec = left % HD_SECOND_NS};
    if (left > 0) MUST(nanosleep(&t, NULL));
}

/* This thread, which is no worker, ends it: hogs may have stopped all of those. */
void row_victim(void)
{
    hd_options options = bench_options();
    options.stall_ns = 20 * HD_MS_NS; /* the default, but with one worker */
    const unsigned hogs = params.hogs * params.workers;
    hd_spawn_options spawn = HD_SPAWN_OPTIONS_INIT;
    hd_task **handles = malloc((hogs + 1) * sizeof *handles);
    window.ticks = 8 * (size_t)params.ms;
    window.late = malloc(window.ticks * sizeof *window.late);
    if (handles == NULL || window.late == NULL) abort();
    MUST(hd_runtime_create(&spawn.runtime, &options));
    window.first = hd_now(spawn.runtime) + WARM_UP_NS;
    window.end = window.first + (int64_t)window.ticks * TICK_NS;

    MUST(hd_spawn_with(&handles[hogs], victim, &window, &spawn));
    for (unsigned i = 0; i < hogs; i++) MUST(hd_spawn_with(&handles[i], hog, NULL, &spawn));
    thread_sleep_until(spawn.runtime, window.end);
    atomic_store(&stop, true);
    for (unsigned i = 0; i <= hogs; i++) MUST(hd_join(handles[i], NULL));
    hd_runtime_destroy(spawn.runtime);
    report_latencies(window.late, window.ticks);
    free(window.late);
    free(handles);
}
