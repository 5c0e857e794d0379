/* SPDX-License-Identifier: MIT
 *
 * Rows in which tasks that exist already take turns: by yielding, or by waking each other.
 */
#include <stdatomic.h>

#include "bench.h"

/* ---- yield ---- */

static int yield_fiber(void *arg)
{
    for (uint64_t i = *(uint64_t *)arg; i > 0; i--) hd_yield();
    return 0;
}

static void yields(uint64_t n)
{
    hd_task *a, *b;
    MUST(hd_spawn(&a, yield_fiber, &n));
    MUST(hd_spawn(&b, yield_fiber, &n));
    MUST(hd_join(a, NULL));
    MUST(hd_join(b, NULL));
}

static int yield_root(void *arg)
{
    (void)arg;
    measure(2, yields);
    return 0;
}

void row_yield(void)
{
    run_in_fiber(yield_root);
}

/* ---- passing a token round a ring: two places are a ping-pong ---- */

/* The token is at a place when its `here` is set. Only the task of that place clears it
 * and only the one before sets it, so loads and stores do. */
struct place {
    _Alignas(64) _Atomic(bool) here;
    hd_waker waker;      /* of the task at this place; written before `ready` counts it */
    struct place *next;
    uint64_t laps;       /* private to the task of this place */
};

static struct place places[RING];
static _Atomic(unsigned) ready; /* places whose waker is set */
static unsigned places_used;

static void place_enter(struct place *p)
{
    p->waker = hd_waker_self();
    atomic_fetch_add(&ready, 1);
}

static void place_pass(struct place *p)
{
    atomic_store_explicit(&p->here, false, memory_order_relaxed);
    atomic_store_explicit(&p->next->here, true, memory_order_release);
    hd_waker_wake_keep(p->next->waker);
    p->laps--;
}

static bool place_has_token(struct place *p)
{
    return atomic_load_explicit(&p->here, memory_order_acquire);
}

static int ring_fiber(void *arg)
{
    struct place *p = arg;
    place_enter(p);
    while (p->laps > 0) {
        while (!place_has_token(p)) MUST(hd_park());
        place_pass(p);
    }
    return 0;
}

struct stand {
    struct place *place;
    bool entered;
};

static hd_poll ring_task(void *state, int *result)
{
    struct stand *s = state;
    *result = 0;
    if (!s->entered) place_enter(s->place);
    s->entered = true;
    while (s->place->laps > 0) {
        if (!place_has_token(s->place)) return HD_PENDING;
        place_pass(s->place);
    }
    return HD_READY;
}

static void ring_spawn(hd_task **handle, struct place *p, hd_runtime *runtime)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.runtime = runtime;
    if (params.stackless) {
        const struct stand state = {.place = p};
        MUST(hd_spawn_poll_with(handle, ring_task, &state, sizeof state, &options));
    } else {
        MUST(hd_spawn_with(handle, ring_fiber, p, &options));
    }
}

/* Pass the token n times around; place i runs in runtimes[i % 2]. */
static void ring_run(uint64_t n, hd_runtime *const runtimes[2])
{
    hd_task *handles[RING];
    atomic_store(&ready, 0);
    for (unsigned i = 0; i < places_used; i++) {
        places[i].next = &places[(i + 1) % places_used];
        places[i].laps = n;
        atomic_store(&places[i].here, false);
        ring_spawn(&handles[i], &places[i], runtimes[i % 2]);
    }
    while (atomic_load(&ready) < places_used) hd_yield();
    atomic_store(&places[0].here, true);
    hd_waker_wake_keep(places[0].waker);
    for (unsigned i = 0; i < places_used; i++) MUST(hd_join(handles[i], NULL));
    for (unsigned i = 0; i < places_used; i++) hd_waker_drop(places[i].waker);
}

static void ring_work(uint64_t n)
{
    hd_runtime *self = hd_runtime_self();
    ring_run(n, (hd_runtime *[2]){self, self});
}

static int pingpong_root(void *arg)
{
    (void)arg;
    places_used = 2;
    measure(1, ring_work);
    return 0;
}

void row_pingpong(void)
{
    run_in_fiber(pingpong_root);
}

static int ring_root(void *arg)
{
    (void)arg;
    places_used = RING;
    measure(RING, ring_work);
    return 0;
}

void row_ring(void)
{
    run_in_fiber(ring_root);
}

/* ---- each side on a thread of its own: two runtimes of one worker ---- */

static hd_runtime *apart[2];

static void apart_work(uint64_t n)
{
    ring_run(n, apart);
}

void row_pingpong_threads(void)
{
    hd_options options = bench_options();
    options.workers = 1;
    places_used = 2;
    for (int i = 0; i < 2; i++) MUST(hd_runtime_create(&apart[i], &options));
    measure(1, apart_work);
    for (int i = 0; i < 2; i++) hd_runtime_destroy(apart[i]);
}
