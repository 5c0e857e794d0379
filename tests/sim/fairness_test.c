/* SPDX-License-Identifier: MIT
 *
 * Fairness, exactly: the bounds that sched/worker.h states, in the sim world with the
 * live scheduler's own order, counted in runs of the worker, with hogs that never stop:
 * pairs of stackless tasks that wake each other through the LIFO slot, and fibers that
 * yield. A task that waits one run longer fails; so does a bound that is never reached.
 *
 * A starved task would never report, so waits that are still going on are checked too.
 */
#include "test.h"

#include "base/sanitizer.h"
#include "sched/runtime.h"

enum { WORKERS_MAX = 4, PROBES_MAX = 12, SEEDS = HDI_TSAN ? 3 : 20 };

static hd_runtime *runtime;
static unsigned lifo_cap, interval;

static uint64_t polls_of(unsigned worker)
{
    return hdi_load_relaxed(&runtime->main.workers[worker].counters.polls);
}

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

static void create(unsigned workers, hd_policy policy, unsigned cap, unsigned every, uint64_t seed)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.sim_order = HD_SIM_WORKERS;
    options.seed = seed;
    options.workers = workers;
    options.policy = policy;
    options.lifo_cap = lifo_cap = cap;
    options.inject_interval_min = options.inject_interval_max = interval = every;
    EXPECT_EQ(hd_runtime_create(&runtime, &options), 0);
}

/* One run of one task. */
static void step(void)
{
    const int err = hd_runtime_drain(runtime, hd_now(runtime) + 1);
    EXPECT(err == -ETIMEDOUT || err == 0);
}

static hd_spawn_options into_runtime(void)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.runtime = runtime;
    return options;
}

/* ---- hogs; all end when they are cancelled ---- */

static int yielding_hog(void *arg)
{
    (void)arg;
    while (!hd_cancelled()) hd_yield();
    return 0;
}

/* Two of them wake each other for ever; each wake goes into the LIFO slot. */
struct pair {
    hd_waker wakers[2];
    unsigned registered;
};

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
        pair->registered++;
    }
    if (hd_cancelled()) {
        *result = 0;
        return HD_READY;
    }
    if (pair->registered == 2) hd_waker_wake_keep(pair->wakers[1 - state->side]);
    return HD_PENDING;
}

static void spawn_pair(struct pair *pair, const hd_spawn_options *into)
{
    *pair = (struct pair){.registered = 0};
    for (unsigned side = 0; side < 2; side++) {
        const struct pair_state state = {pair, side, false};
        EXPECT_EQ(hd_spawn_poll_with(NULL, pair_poll, &state, sizeof(state), into), 0);
    }
}

static void drop_pair(struct pair *pair)
{
    EXPECT_EQ(pair->registered, 2);
    for (unsigned side = 0; side < 2; side++) hd_waker_drop(pair->wakers[side]);
}

static hd_poll brief_poll(void *state, int *result)
{
    (void)state;
    *result = 0;
    return HD_READY;
}

/* ---- a task in the ring ---- */

struct probe {
    bool waiting;
    unsigned worker;
    uint64_t since; /* the worker's runs when it became ready */
    uint64_t bound;
    unsigned waits, exact; /* how often, and how often the bound was reached */
};

/* With q before it: q + 1 times up to L hits of the LIFO slot and one of the ring, that
 * is m runs; and each I-th run may be an injected task's instead. */
static uint64_t ring_bound(uint64_t ahead)
{
    const uint64_t m = (ahead + 1) * (lifo_cap + 1);
    return divide_up(m * interval, interval - 1);
}

static int ring_probe(void *arg)
{
    struct probe *probe = arg;
    while (!hd_cancelled()) {
        struct hdi_worker *worker = hdi_worker_self();
        probe->worker = worker->index;
        probe->bound = ring_bound(hdi_runq_count(&worker->queue));
        probe->since = polls_of(worker->index);
        probe->waiting = true;
        hd_yield(); /* It goes to the end of this worker's ring. */
        probe->waiting = false;
        /* Stolen meanwhile: it was somebody's first choice. */
        if (hdi_worker_self()->index != probe->worker) continue;
        const uint64_t runs = polls_of(probe->worker) - probe->since;
        EXPECT(runs <= probe->bound);
        probe->waits++;
        if (runs == probe->bound) probe->exact++;
    }
    return 0;
}

static void check_waiting(const struct probe *probe)
{
    if (probe->waiting) EXPECT(polls_of(probe->worker) - probe->since <= probe->bound);
}

static unsigned ring_case(unsigned workers, unsigned probe_count, unsigned steps)
{
    struct probe probes[PROBES_MAX] = {{.waiting = false}};
    struct pair pairs[WORKERS_MAX];
    const hd_spawn_options into = into_runtime();
    for (unsigned i = 0; i < workers; i++) spawn_pair(&pairs[i], &into);
    for (unsigned i = 0; i < workers; i++) {
        EXPECT_EQ(hd_spawn_with(NULL, yielding_hog, NULL, &into), 0);
    }
    for (unsigned i = 0; i < probe_count; i++) {
        EXPECT_EQ(hd_spawn_with(NULL, ring_probe, &probes[i], &into), 0);
    }
    for (unsigned i = 0; i < steps; i++) {
        step();
        /* Every look at the injection queue finds something. */
        if (hdi_inject_length(&runtime->main.inject) == 0) {
            EXPECT_EQ(hd_spawn_poll_with(NULL, brief_poll, NULL, 0, &into), 0);
        }
        for (unsigned k = 0; k < probe_count; k++) check_waiting(&probes[k]);
    }
    unsigned exact = 0;
    for (unsigned i = 0; i < probe_count; i++) {
        EXPECT(probes[i].waits > 0);
        exact += probes[i].exact;
    }
    EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0);
    for (unsigned i = 0; i < workers; i++) drop_pair(&pairs[i]);
    hd_runtime_destroy(runtime);
    return exact;
}

TEST(ring_on_one_worker)
{
    for (unsigned every = 2; every <= 9; every += HDI_TSAN ? 3 : 1) {
        for (unsigned cap = 1; cap <= 5; cap++) {
            for (unsigned probes = 1; probes <= PROBES_MAX; probes += 4) {
                create(1, HD_POLICY_FAIR, cap, every, 1);
                EXPECT(ring_case(1, probes, 2000) > 0); /* The bound is reached. */
            }
        }
    }
}

TEST(ring_on_four_workers)
{
    unsigned exact = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        create(4, HD_POLICY_FAIR, 3, 2 + seed % 7, seed);
        exact += ring_case(4, PROBES_MAX, 8000);
    }
    EXPECT(exact > 0);
}

/* ---- a task behind the others of the injection queue ---- */

/* It has used up its time, again and again; the ring is never empty. */
static int long_runner(void *arg)
{
    struct probe *probe = arg;
    const unsigned quantum = runtime->options.quantum_ops;
    while (!hd_cancelled()) {
        const uint64_t lengths = hdi_inject_lengths(&runtime->main.inject);
        probe->worker = hdi_worker_self()->index;
        probe->bound = interval * (HDI_INJECT_AGE + 1) * (hdi_inject_behind(lengths) + 1);
        probe->since = polls_of(probe->worker);
        probe->waiting = true;
        (void)hd_checkpoint(quantum);
        probe->waiting = false;
        const uint64_t runs = polls_of(probe->worker) - probe->since;
        EXPECT(runs <= probe->bound);
        probe->waits++;
        if (runs == probe->bound) probe->exact++;
    }
    return 0;
}

static unsigned behind_case(unsigned count)
{
    struct pair pair;
    struct probe probes[PROBES_MAX] = {{.waiting = false}};
    const hd_spawn_options into = into_runtime();
    spawn_pair(&pair, &into);
    EXPECT_EQ(hd_spawn_with(NULL, yielding_hog, NULL, &into), 0);
    for (unsigned i = 0; i < count; i++) {
        EXPECT_EQ(hd_spawn_with(NULL, long_runner, &probes[i], &into), 0);
    }
    for (unsigned i = 0; i < 5 * interval * (HDI_INJECT_AGE + 1) * count; i++) {
        step();
        for (unsigned k = 0; k < count; k++) check_waiting(&probes[k]);
    }
    unsigned exact = 0;
    for (unsigned i = 0; i < count; i++) {
        EXPECT(probes[i].waits >= 3);
        exact += probes[i].exact;
    }
    EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0);
    drop_pair(&pair);
    hd_runtime_destroy(runtime);
    return exact;
}

TEST(behind_a_ring_that_is_never_empty)
{
    for (unsigned every = 2; every <= 9; every += HDI_TSAN ? 3 : 1) {
        for (unsigned count = 1; count <= 5; count += 2) {
            create(1, HD_POLICY_FAIR, 3, every, 1);
            EXPECT(behind_case(count) > 0);
        }
    }
}

/* ---- a task in the injection queue ---- */

enum { INJECTED_MAX = 9 };

static bool long_runners; /* some wait behind */

struct injected {
    const struct hd_task *task; /* NULL: has left the queue */
    unsigned place;
    uint64_t since[WORKERS_MAX];
};

static bool still_queued(const struct hd_task *task)
{
    for (const struct hd_task *t = runtime->main.inject.first; t; t = t->next) {
        if (t == task) return true;
    }
    return false;
}

static unsigned inject_some(struct injected *injected, unsigned count, unsigned workers)
{
    const hd_spawn_options into = into_runtime();
    for (unsigned i = 0; i < count; i++) {
        injected[i].place = hdi_inject_front(hdi_inject_lengths(&runtime->main.inject));
        hd_task *task;
        EXPECT_EQ(hd_spawn_poll_with(&task, brief_poll, NULL, 0, &into), 0);
        injected[i].task = task;
        for (unsigned w = 0; w < workers; w++) injected[i].since[w] = polls_of(w);
    }
    return count;
}

/* After each step: nobody waits longer than any one worker's bound. Returns how many
 * left the queue with the last run that the bound allows. */
static unsigned check_injected(struct injected *injected, unsigned count, unsigned workers,
                               unsigned *left)
{
    unsigned exact = 0;
    for (unsigned i = 0; i < count; i++) {
        if (!injected[i].task) continue;
        uint64_t looks = divide_up(injected[i].place + 1, HDI_INJECT_BATCH_MIN);
        if (long_runners) looks += divide_up(looks, HDI_INJECT_AGE);
        const uint64_t bound = interval * looks;
        const bool queued = still_queued(injected[i].task);
        for (unsigned w = 0; w < workers; w++) {
            const uint64_t runs = polls_of(w) - injected[i].since[w];
            EXPECT(runs < bound || (runs == bound && !queued));
            if (runs == bound) exact++;
        }
        if (queued) continue;
        injected[i].task = NULL;
        ++*left;
    }
    return exact;
}

static unsigned injected_case(unsigned workers, uint64_t seed)
{
    struct pair pairs[WORKERS_MAX];
    struct probe unused;
    const hd_spawn_options into = into_runtime();
    for (unsigned i = 0; i < workers; i++) spawn_pair(&pairs[i], &into);
    for (unsigned i = 0; i < 2 * workers; i++) {
        EXPECT_EQ(hd_spawn_with(NULL, yielding_hog, NULL, &into), 0);
    }
    if (long_runners) EXPECT_EQ(hd_spawn_with(NULL, long_runner, &unused, &into), 0);
    for (int i = 0; i < 400; i++) step(); /* until every worker has its hogs */
    struct hdi_prng prng;
    hdi_prng_init(&prng, seed);
    unsigned exact = 0;
    for (int round = 0; round < 60; round++) {
        struct injected injected[INJECTED_MAX];
        hd_task *handles[INJECTED_MAX];
        for (unsigned i = hdi_prng_below(&prng, 2 * interval); i > 0; i--) step();
        const unsigned count =
            inject_some(injected, 1 + hdi_prng_below(&prng, INJECTED_MAX), workers);
        for (unsigned i = 0; i < count; i++) handles[i] = (hd_task *)injected[i].task;
        for (unsigned left = 0; left < count;) {
            step();
            exact += check_injected(injected, count, workers, &left);
        }
        for (unsigned i = 0; i < count; i++) EXPECT_EQ(hd_join(handles[i], NULL), 0);
    }
    EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0);
    for (unsigned i = 0; i < workers; i++) drop_pair(&pairs[i]);
    hd_runtime_destroy(runtime);
    return exact;
}

static void injected_on(unsigned workers)
{
    for (unsigned every = 2; every <= 10; every += 2) {
        unsigned exact = 0;
        for (uint64_t seed = 1; seed <= 20; seed++) {
            create(workers, HD_POLICY_FAIR, 3, every, seed);
            exact += injected_case(workers, seed);
        }
        EXPECT(exact > 0);
    }
}

TEST(injected_on_one_worker)
{
    injected_on(1);
}

TEST(injected_on_two_workers)
{
    injected_on(2);
}

TEST(injected_on_four_workers)
{
    injected_on(4);
}

TEST(injected_on_one_worker_with_others_behind)
{
    long_runners = true;
    injected_on(1);
}

/* ---- a task in the deque ---- */

/* Newer tasks overtake it for ever, here a pair that always has one of the two on top;
 * but the oldest task has its turn every second interval, or every interval while
 * nothing is injected. */
struct deque_case {
    struct pair pairs[2];
    unsigned probe_count;
    struct probe probes[PROBES_MAX];
    bool injected; /* the injection queue is never empty */
};

static hd_poll deque_probe(void *state, int *result)
{
    struct probe *probe = *(struct probe **)state;
    const uint64_t runs = polls_of(probe->worker) - probe->since;
    probe->waiting = false;
    probe->waits++;
    EXPECT(runs <= probe->bound);
    if (runs == probe->bound) probe->exact++;
    *result = 0;
    return HD_READY;
}

static int deque_setup(void *arg)
{
    struct deque_case *self = arg;
    for (unsigned i = 0; i < self->probe_count; i++) {
        struct probe *probe = &self->probes[i];
        const uint64_t older = hdi_runq_count(&hdi_worker_self()->queue);
        *probe = (struct probe){.waiting = true, .worker = hdi_worker_self()->index};
        probe->since = polls_of(probe->worker);
        probe->bound = (older + 1) * interval * (self->injected ? 2 : 1);
        EXPECT_EQ(hd_spawn_poll(NULL, deque_probe, &probe, sizeof(probe)), 0);
    }
    const hd_spawn_options into = HD_SPAWN_OPTIONS_INIT;
    spawn_pair(&self->pairs[1], &into);
    return 0;
}

/* The probes become ready in a run that was itself the oldest's turn: the worst moment. */
static int deque_launch(void *arg)
{
    struct deque_case *self = arg;
    EXPECT_EQ(hd_spawn(NULL, deque_setup, self), 0);
    const hd_spawn_options into = HD_SPAWN_OPTIONS_INIT;
    spawn_pair(&self->pairs[0], &into);
    return 0;
}

static unsigned deque_one(unsigned every, unsigned probes, unsigned before, bool injected)
{
    struct deque_case self = {.probe_count = probes, .injected = injected};
    create(1, HD_POLICY_LOCAL, 3, every, 1);
    const hd_spawn_options into = into_runtime();
    if (injected) EXPECT_EQ(hd_spawn_with(NULL, yielding_hog, NULL, &into), 0);
    for (unsigned i = 0; i < before; i++) { /* another phase of the interval */
        EXPECT_EQ(hd_spawn_poll_with(NULL, brief_poll, NULL, 0, &into), 0);
        step();
    }
    EXPECT_EQ(hd_spawn_with(NULL, deque_launch, &self, &into), 0);
    for (unsigned i = 0; i < 40 + 3 * every * (probes + 4); i++) {
        step();
        for (unsigned k = 0; k < probes; k++) check_waiting(&self.probes[k]);
    }
    unsigned exact = 0;
    for (unsigned i = 0; i < probes; i++) {
        EXPECT_EQ(self.probes[i].waits, 1);
        exact += self.probes[i].exact;
    }
    EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0);
    for (int i = 0; i < 2; i++) drop_pair(&self.pairs[i]);
    hd_runtime_destroy(runtime);
    return exact;
}

static void deque_with(bool injected)
{
    for (unsigned every = 2; every <= 9; every += HDI_TSAN ? 3 : 1) {
        unsigned exact = 0;
        for (unsigned probes = 1; probes <= PROBES_MAX; probes += HDI_TSAN ? 5 : 1) {
            for (unsigned before = 0; before < 2 * every; before++) {
                exact += deque_one(every, probes, before, injected);
            }
        }
        EXPECT(exact > 0);
    }
}

TEST(deque_below_a_pair)
{
    deque_with(false);
}

TEST(deque_below_a_pair_while_others_yield)
{
    deque_with(true);
}

TEST_MAIN
