/* SPDX-License-Identifier: MIT
 *
 * Fairness in the live world, counted in switches of the worker and not in time: the
 * bounds of sched/worker.h for a task in the ring and for an injected one, with pairs of
 * stackless tasks that wake each other and with fibers that yield on every worker.
 *
 * A starved task never reports, and the harness's alarm ends the test.
 */
#include "stress/stress.h"

#include "sched/runtime.h"

enum { WORKERS_MAX = 4, PROBES = 6, INTERVAL = 16, LIFO_CAP = 3 };

struct pair {
    hd_waker wakers[2];
    atomic_uint registered;
};

struct field {
    hd_runtime *runtime;
    unsigned workers;
    unsigned waits; /* that each probe has to see */
    struct pair pairs[WORKERS_MAX];
    atomic_uint measured, exact;
};

static struct field field;

static uint64_t polls_of(unsigned worker)
{
    return hdi_load_relaxed(&field.runtime->main.workers[worker].counters.polls);
}

/* ---- hogs; all end when they are cancelled ---- */

static int yielding_hog(void *arg)
{
    (void)arg;
    while (!hd_cancelled()) hd_yield();
    return 0;
}

struct pair_state {
    struct pair *pair;
    unsigned side;
    bool started;
};

static hd_poll pair_poll(void *arg, int *result)
{
    struct pair_state *state = arg;
    struct pair *pair = state->pair;
    if (!state->started) {
        state->started = true;
        pair->wakers[state->side] = hd_waker_self();
        atomic_fetch_add_explicit(&pair->registered, 1, memory_order_acq_rel);
    }
    if (hd_cancelled()) {
        *result = 0;
        return HD_READY;
    }
    if (atomic_load_explicit(&pair->registered, memory_order_acquire) == 2) {
        hd_waker_wake_keep(pair->wakers[1 - state->side]);
    }
    return HD_PENDING;
}

static void start(unsigned workers, unsigned waits)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = workers;
    options.stall_ns = HD_FOREVER; /* Nobody but the workers: there are no spares to count. */
    options.lifo_cap = LIFO_CAP;
    options.inject_interval_min = options.inject_interval_max = INTERVAL;
    field.workers = workers;
    field.waits = waits;
    field.runtime = stress_runtime(&options);
    atomic_store(&field.measured, 0);
    atomic_store(&field.exact, 0);
    const hd_spawn_options into = stress_into(field.runtime);
    for (unsigned i = 0; i < workers; i++) {
        atomic_store(&field.pairs[i].registered, 0);
        for (unsigned side = 0; side < 2; side++) {
            const struct pair_state state = {&field.pairs[i], side, false};
            EXPECT_EQ(hd_spawn_poll_with(NULL, pair_poll, &state, sizeof(state), &into), 0);
        }
        EXPECT_EQ(hd_spawn_with(NULL, yielding_hog, NULL, &into), 0);
    }
    for (unsigned i = 0; i < workers; i++) stress_await(&field.pairs[i].registered, 2);
}

static void finish(void)
{
    EXPECT_EQ(hd_runtime_shutdown(field.runtime, HD_FOREVER), 0);
    for (unsigned i = 0; i < field.workers; i++) {
        for (unsigned side = 0; side < 2; side++) hd_waker_drop(field.pairs[i].wakers[side]);
    }
    hd_runtime_destroy(field.runtime);
}

/* ---- a task in the ring ---- */

/* Tasks that anybody has stolen: a wait that saw this change is not one worker's. */
static uint64_t stolen(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < field.workers; i++) {
        sum += hdi_load_relaxed(&field.runtime->main.workers[i].counters.stolen);
    }
    return sum;
}

static uint64_t ring_bound(uint64_t ahead)
{
    const uint64_t m = (ahead + 1) * (LIFO_CAP + 1);
    return (m * INTERVAL + INTERVAL - 2) / (INTERVAL - 1);
}

static int ring_probe(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < field.waits; i++) {
        struct hdi_worker *worker = hdi_worker_self();
        const unsigned index = worker->index;
        const uint64_t stolen_before = stolen(), since = polls_of(index);
        const uint64_t bound = ring_bound(hdi_runq_count(&worker->queue));
        hd_yield(); /* It goes to the end of this worker's ring. */
        if (hdi_worker_self()->index != index) continue;
        const uint64_t runs = polls_of(index) - since;
        if (stolen() != stolen_before) continue;
        EXPECT(runs <= bound);
        atomic_fetch_add_explicit(&field.measured, 1, memory_order_relaxed);
        if (runs == bound) atomic_fetch_add_explicit(&field.exact, 1, memory_order_relaxed);
    }
    return 0;
}

static void ring_with(unsigned workers)
{
    start(workers, stress_count(20000));
    const hd_spawn_options into = stress_into(field.runtime);
    hd_task *probes[PROBES];
    for (int i = 0; i < PROBES; i++) {
        EXPECT_EQ(hd_spawn_with(&probes[i], ring_probe, NULL, &into), 0);
    }
    for (int i = 0; i < PROBES; i++) EXPECT_EQ(hd_join(probes[i], NULL), 0);
    finish();
    fprintf(stderr, "# %u workers: %u of %u waits measured, %u as long as the bound\n", workers,
            atomic_load(&field.measured), PROBES * field.waits, atomic_load(&field.exact));
    EXPECT(atomic_load(&field.measured) > 0);
}

TEST(ring_one_worker)
{
    ring_with(1);
}

TEST(ring_two_workers)
{
    ring_with(2);
}

TEST(ring_four_workers)
{
    ring_with(4);
}

/* ---- an injected task ---- */

struct injected {
    unsigned worker; /* that ran it */
    uint64_t at;     /* its runs then, this one included */
};

static int injected_fiber(void *arg)
{
    struct injected *injected = arg;
    injected->worker = hdi_worker_self()->index;
    injected->at = polls_of(injected->worker);
    return 0;
}

/* The counters are read after the task is in the queue, so that they are never too low
 * and a wait never seems longer than it was; except by one run, of a worker that had
 * looked into the queue just before and had yet to count the run it chose instead. */
static void injected_with(unsigned workers)
{
    start(workers, 0);
    const hd_spawn_options into = stress_into(field.runtime);
    unsigned longest = 0;
    for (unsigned i = 0; i < stress_count(4000); i++) {
        struct injected injected;
        uint64_t since[WORKERS_MAX];
        hd_task *task;
        EXPECT_EQ(hd_spawn_with(&task, injected_fiber, &injected, &into), 0);
        for (unsigned w = 0; w < workers; w++) since[w] = polls_of(w);
        EXPECT_EQ(hd_join(task, NULL), 0);
        if (injected.at <= since[injected.worker]) continue; /* It was faster than we. */
        const uint64_t runs = injected.at - since[injected.worker];
        EXPECT(runs <= INTERVAL + 1);
        if (runs > longest) longest = (unsigned)runs;
    }
    finish();
    fprintf(stderr, "# %u workers: the longest wait was %u runs\n", workers, longest);
}

TEST(injected_one_worker)
{
    injected_with(1);
}

TEST(injected_two_workers)
{
    injected_with(2);
}

TEST(injected_four_workers)
{
    injected_with(4);
}

TEST_MAIN
