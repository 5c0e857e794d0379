/* SPDX-License-Identifier: MIT
 *
 * Rows that create tasks and wait for their end. The stackless forms are driven by a
 * stackless task, as Tokio's are driven by a future.
 */
#include <stdatomic.h>

#include "bench.h"

static int leaf_fiber(void *arg)
{
    (void)arg;
    return 1;
}

static hd_poll leaf_task(void *state, int *result)
{
    (void)state;
    *result = 1;
    return HD_READY;
}

/* ---- one by one ---- */

static void spawn_one_fibers(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        hd_task *handle;
        MUST(hd_spawn(&handle, leaf_fiber, NULL));
        MUST(hd_join(handle, NULL));
    }
}

struct one_by_one {
    uint64_t left;
    hd_task *child; /* being joined, or NULL */
};

static hd_poll drive_one(void *state, int *result)
{
    struct one_by_one *s = state;
    for (;;) {
        if (s->child != NULL) {
            if (hd_join_poll(s->child, result) == HD_PENDING) return HD_PENDING;
            s->child = NULL;
            s->left--;
        }
        if (s->left == 0) return HD_READY;
        MUST(hd_spawn_poll(&s->child, leaf_task, NULL, 0));
    }
}

static void spawn_one_tasks(uint64_t n)
{
    const struct one_by_one state = {.left = n};
    run_task(drive_one, &state, sizeof state);
}

static int spawn_one_root(void *arg)
{
    (void)arg;
    measure(1, params.stackless ? spawn_one_tasks : spawn_one_fibers);
    return 0;
}

void row_spawn_one(void)
{
    run_in_fiber(spawn_one_root);
}

/* ---- in batches ---- */

static hd_task *handles[BATCH];

static void spawn_batch_fibers(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        for (int j = 0; j < BATCH; j++) MUST(hd_spawn(&handles[j], leaf_fiber, NULL));
        for (int j = 0; j < BATCH; j++) MUST(hd_join(handles[j], NULL));
    }
}

struct batches {
    uint64_t left;
    int joined; /* of the current batch; BATCH: there is none */
};

static hd_poll drive_batch(void *state, int *result)
{
    struct batches *s = state;
    for (;;) {
        for (; s->joined < BATCH; s->joined++)
            if (hd_join_poll(handles[s->joined], result) == HD_PENDING) return HD_PENDING;
        if (s->left-- == 0) return HD_READY;
        for (int j = 0; j < BATCH; j++) MUST(hd_spawn_poll(&handles[j], leaf_task, NULL, 0));
        s->joined = 0;
    }
}

static void spawn_batch_tasks(uint64_t n)
{
    const struct batches state = {.left = n, .joined = BATCH};
    run_task(drive_batch, &state, sizeof state);
}

static int spawn_batch_root(void *arg)
{
    (void)arg;
    measure(BATCH, params.stackless ? spawn_batch_tasks : spawn_batch_fibers);
    return 0;
}

void row_spawn_batch(void)
{
    run_in_fiber(spawn_batch_root);
}

/* ---- from a foreign thread: this one ---- */

static hd_spawn_options foreign = HD_SPAWN_OPTIONS_INIT;

static void spawn_foreign(hd_task **handle)
{
    if (params.stackless) MUST(hd_spawn_poll_with(handle, leaf_task, NULL, 0, &foreign));
    else MUST(hd_spawn_with(handle, leaf_fiber, NULL, &foreign));
}

static void foreign_one(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        hd_task *handle;
        spawn_foreign(&handle);
        MUST(hd_join(handle, NULL));
    }
}

static void foreign_batch(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        for (int j = 0; j < BATCH; j++) spawn_foreign(&handles[j]);
        for (int j = 0; j < BATCH; j++) MUST(hd_join(handles[j], NULL));
    }
}

static void measure_foreign(double ops, work_fn *work)
{
    const hd_options options = bench_options();
    MUST(hd_runtime_create(&foreign.runtime, &options));
    measure(ops, work);
    hd_runtime_destroy(foreign.runtime);
}

void row_spawn_foreign(void)
{
    measure_foreign(1, foreign_one);
}

void row_spawn_foreign_batch(void)
{
    measure_foreign(BATCH, foreign_batch);
}

/* ---- waiting for a count to reach zero ---- */

/* Many tasks count it down; the one that waits for zero owns `waiter`. */
struct countdown {
    _Atomic(uint64_t) left;
    hd_waker waiter;
};

static void countdown_init(struct countdown *c, uint64_t count)
{
    atomic_store(&c->left, count);
    c->waiter = hd_waker_self();
}

static void countdown_arrive(struct countdown *c)
{
    /* The waiter may return as soon as it reads 0, so its waker is taken before. */
    const hd_waker waiter = c->waiter;
    if (atomic_fetch_sub(&c->left, 1) == 1) hd_waker_wake(waiter);
}

static bool countdown_done(struct countdown *c)
{
    return atomic_load(&c->left) == 0;
}

static void countdown_wait(struct countdown *c)
{
    while (!countdown_done(c)) MUST(hd_park());
}

/* ---- chained spawn ---- */

static struct countdown chain_end;

struct link {
    uint64_t depth; /* links below this one */
};

/* A fiber's depth travels as its argument, which is never dereferenced. */
static int chain_fiber(void *arg)
{
    const uintptr_t depth = (uintptr_t)arg;
    if (depth == 0) countdown_arrive(&chain_end);
    else MUST(hd_spawn(NULL, chain_fiber, (void *)(depth - 1)));
    return 0;
}

static void chain_fibers(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        countdown_init(&chain_end, 1);
        MUST(hd_spawn(NULL, chain_fiber, (void *)(uintptr_t)(DEPTH - 1)));
        countdown_wait(&chain_end);
    }
}

static hd_poll chain_task(void *state, int *result)
{
    const struct link *s = state;
    *result = 0;
    if (s->depth == 0) {
        countdown_arrive(&chain_end);
    } else {
        const struct link next = {.depth = s->depth - 1};
        MUST(hd_spawn_poll(NULL, chain_task, &next, sizeof next));
    }
    return HD_READY;
}

struct chains {
    uint64_t left;
    bool started;
};

static hd_poll drive_chain(void *state, int *result)
{
    struct chains *s = state;
    *result = 0;
    for (;;) {
        if (s->started && !countdown_done(&chain_end)) return HD_PENDING;
        if (s->left-- == 0) return HD_READY;
        const struct link first = {.depth = DEPTH - 1};
        countdown_init(&chain_end, 1);
        s->started = true;
        MUST(hd_spawn_poll(NULL, chain_task, &first, sizeof first));
    }
}

static void chain_tasks(uint64_t n)
{
    const struct chains state = {.left = n};
    run_task(drive_chain, &state, sizeof state);
}

static int chain_root(void *arg)
{
    (void)arg;
    measure(DEPTH, params.stackless ? chain_tasks : chain_fibers);
    return 0;
}

void row_chain(void)
{
    run_in_fiber(chain_root);
}

/* ---- a million that end at once ---- */

static struct countdown finished;

static int finish_fiber(void *arg)
{
    countdown_arrive(arg);
    return 0;
}

static hd_poll finish_task(void *state, int *result)
{
    countdown_arrive(*(struct countdown **)state);
    *result = 0;
    return HD_READY;
}

static hd_poll drive_million(void *state, int *result)
{
    bool *started = state;
    *result = 0;
    if (!*started) {
        struct countdown *all = &finished;
        *started = true;
        countdown_init(all, params.count);
        for (unsigned i = 0; i < params.count; i++)
            MUST(hd_spawn_poll(NULL, finish_task, &all, sizeof all));
    }
    return countdown_done(&finished) ? HD_READY : HD_PENDING;
}

static int million_root(void *arg)
{
    (void)arg;
    if (params.stackless) spawn_batch_tasks(1);
    else spawn_batch_fibers(1);

    const double start = now_ns();
    if (params.stackless) {
        const bool started = false;
        run_task(drive_million, &started, sizeof started);
    } else {
        countdown_init(&finished, params.count);
        for (unsigned i = 0; i < params.count; i++) MUST(hd_spawn(NULL, finish_fiber, &finished));
        countdown_wait(&finished);
    }
    report("ns", (now_ns() - start) / params.count);
    return 0;
}

void row_million(void)
{
    run_in_fiber(million_root);
}

/* ---- a million alive at the same time ---- */

/* A parked task leaves its waker in its slot before it counts `parked` down; the root
 * reads the slots once that is zero. */
static struct countdown parked;
static _Atomic(bool) gate_open;

static int park_fiber(void *arg)
{
    hd_waker *slot = arg;
    *slot = hd_waker_self();
    countdown_arrive(&parked);
    while (!atomic_load(&gate_open)) MUST(hd_park());
    countdown_arrive(&finished);
    return 0;
}

struct park {
    hd_waker *slot; /* NULL once the waker is in it */
};

static hd_poll park_task(void *state, int *result)
{
    struct park *s = state;
    *result = 0;
    if (s->slot != NULL) {
        *s->slot = hd_waker_self();
        s->slot = NULL;
        countdown_arrive(&parked);
    }
    if (!atomic_load(&gate_open)) return HD_PENDING;
    countdown_arrive(&finished);
    return HD_READY;
}

static int million_parked_root(void *arg)
{
    (void)arg;
    if (params.stackless) spawn_batch_tasks(1);
    else spawn_batch_fibers(1);
    const double count = params.count;
    hd_waker *slots = malloc(params.count * sizeof *slots);
    if (slots == NULL) return -1;
    for (unsigned i = 0; i < params.count; i++) slots[i] = (hd_waker){NULL}; /* resident */
    const double before = resident_bytes();

    double start = now_ns();
    countdown_init(&parked, params.count);
    for (unsigned i = 0; i < params.count; i++) {
        const struct park state = {.slot = &slots[i]};
        if (params.stackless) MUST(hd_spawn_poll(NULL, park_task, &state, sizeof state));
        else MUST(hd_spawn(NULL, park_fiber, &slots[i]));
    }
    countdown_wait(&parked);
    const double create = now_ns() - start;

    const double bytes = (resident_bytes() - before) / count;

    start = now_ns();
    countdown_init(&finished, params.count);
    atomic_store(&gate_open, true);
    for (unsigned i = 0; i < params.count; i++) hd_waker_wake(slots[i]);
    countdown_wait(&finished);
    const double wake = now_ns() - start;

    free(slots);
    report("ns", (create + wake) / count);
    report("ns_create", create / count);
    report("ns_wake", wake / count);
    report("bytes", bytes);
    if (params.stackless) report("bytes_beyond_state", bytes - (double)sizeof(struct park));
    return 0;
}

void row_million_parked(void)
{
    run_in_fiber(million_parked_root);
}
