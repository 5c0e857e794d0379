/* SPDX-License-Identifier: MIT
 *
 * engine: the checker checked. Known programs, right and wrong ones; a wrong one passes
 * only when the fault is found.
 */
#include <errno.h>

#include "os/futex.h"
#include "os/membarrier.h"
#include "os/mutex.h"
#include "os/thread.h"
#include "scenario.h"

typedef _Atomic(uint32_t) word;

/* ---- Store buffering: may both threads miss the other's store? ---------------------- */

struct litmus {
    word x, y, turn;
    uint32_t saw_x, saw_y;
    int stores, loads; /* memory orders */
    bool light, heavy; /* barriers between */
};

static void store_as(word *to, uint32_t value, int order)
{
    if (order == memory_order_relaxed) hdi_store_relaxed(to, value);
    if (order == memory_order_release) hdi_store_release(to, value);
    if (order == memory_order_seq_cst) hdi_store_seq_cst(to, value);
}

static uint32_t load_as(word *from, int order)
{
    if (order == memory_order_seq_cst) return hdi_load_seq_cst(from);
    if (order == memory_order_acquire) return hdi_load_acquire(from);
    return hdi_load_relaxed(from);
}

static void sb_other(void *arg)
{
    struct litmus *l = arg;
    store_as(&l->y, 1, l->stores);
    if (l->heavy) MODEL_CHECK(hdi_barrier_heavy());
    l->saw_x = load_as(&l->x, l->loads);
}

static void store_buffering(struct litmus l)
{
    MODEL_NAME(l.x);
    MODEL_NAME(l.y);
    void *t = model_thread(sb_other, &l);
    store_as(&l.x, 1, l.stores);
    if (l.light) hdi_barrier_light();
    l.saw_y = load_as(&l.y, l.loads);
    model_join(t);
    MODEL_CHECK(l.saw_x || l.saw_y);
}

#define RELAXED {.stores = memory_order_relaxed, .loads = memory_order_relaxed}
#define ACQ_REL {.stores = memory_order_release, .loads = memory_order_acquire}
#define SEQ_CST {.stores = memory_order_seq_cst, .loads = memory_order_seq_cst}

MODEL(sb_relaxed_sc, .sc = MODEL_ALL) { store_buffering((struct litmus)RELAXED); }
MODEL(sb_relaxed, .tso = 1, .pso = 1, .expect = HDI_VERDICT_CHECK)
{
    store_buffering((struct litmus)RELAXED);
}
MODEL(sb_acquire_release, .tso = 1, .pso = 1, .expect = HDI_VERDICT_CHECK)
{
    store_buffering((struct litmus)ACQ_REL);
}
MODEL(sb_seq_cst, .sc = MODEL_ALL, .tso = MODEL_ALL, .pso = MODEL_ALL, .delays = MODEL_ALL)
{
    store_buffering((struct litmus)SEQ_CST);
}

/* seq_cst stores with weaker loads: enough on x86, not in C11. */
static const struct litmus half_seq_cst = {.stores = memory_order_seq_cst,
                                           .loads = memory_order_acquire};
MODEL(sb_half_tso, .tso = MODEL_ALL, .delays = MODEL_ALL) { store_buffering(half_seq_cst); }
MODEL(sb_half_pso, .pso = 1, .expect = HDI_VERDICT_CHECK) { store_buffering(half_seq_cst); }

/* The asymmetric barrier, and what the light side is worth without the heavy one. */
MODEL(sb_membarrier, .sc = MODEL_ALL, .tso = MODEL_ALL, .pso = MODEL_ALL, .delays = MODEL_ALL)
{
    store_buffering((struct litmus){.light = true, .heavy = true});
}
MODEL(sb_light_only, .tso = 1, .pso = 1, .expect = HDI_VERDICT_CHECK)
{
    store_buffering((struct litmus){.light = true});
}

/* ---- Message passing ----------------------------------------------------------------- */

static void mp_sender(void *arg)
{
    struct litmus *l = arg;
    hdi_store_relaxed(&l->x, 1);
    store_as(&l->y, 1, l->stores);
}

static void message_passing(struct litmus l)
{
    MODEL_NAME(l.x);
    MODEL_NAME(l.y);
    void *t = model_thread(mp_sender, &l);
    l.saw_y = hdi_load_acquire(&l.y);
    l.saw_x = hdi_load_relaxed(&l.x);
    MODEL_CHECK(!l.saw_y || l.saw_x);
    model_join(t);
}

MODEL(mp_relaxed_in_order, .sc = MODEL_ALL, .tso = MODEL_ALL, .delays = MODEL_ALL)
{
    message_passing((struct litmus)RELAXED);
}
MODEL(mp_relaxed, .pso = 1, .expect = HDI_VERDICT_CHECK)
{
    message_passing((struct litmus)RELAXED);
}
MODEL(mp_release, .sc = MODEL_ALL, .tso = MODEL_ALL, .pso = MODEL_ALL, .delays = MODEL_ALL)
{
    message_passing((struct litmus)ACQ_REL);
}

/* Two writers of two words: 2+2W. Both first stores may come last only if each thread's
 * stores are reordered. */
static void ww_other(void *arg)
{
    struct litmus *l = arg;
    hdi_store_relaxed(&l->y, 1);
    hdi_store_relaxed(&l->x, 2);
}

static void two_writers(void)
{
    struct litmus l = {.x = 0};
    MODEL_NAME(l.x);
    MODEL_NAME(l.y);
    void *t = model_thread(ww_other, &l);
    hdi_store_relaxed(&l.x, 1);
    hdi_store_relaxed(&l.y, 2);
    model_join(t);
    MODEL_CHECK(!(hdi_load_relaxed(&l.x) == 1 && hdi_load_relaxed(&l.y) == 1));
}

MODEL(two_writers_in_order, .sc = MODEL_ALL, .tso = MODEL_ALL, .delays = MODEL_ALL)
{
    two_writers();
}
MODEL(two_writers, .pso = 2, .expect = HDI_VERDICT_CHECK) { two_writers(); }

/* A thread sees its own stores at once, and others' in one order per address. */
static void coherence_other(void *arg)
{
    word *x = arg;
    for (uint32_t i = 1; i <= 3; i++) {
        hdi_store_relaxed(x, i);
        MODEL_EQUAL(hdi_load_relaxed(x), i);
    }
}

MODEL(coherence, .sc = MODEL_ALL, .tso = MODEL_ALL, .pso = MODEL_ALL, .delays = MODEL_ALL)
{
    word x = 0;
    void *t = model_thread(coherence_other, &x);
    const uint32_t first = hdi_load_relaxed(&x), second = hdi_load_relaxed(&x);
    MODEL_CHECK(first <= second);
    model_join(t);
    MODEL_EQUAL(hdi_load_relaxed(&x), 3);
}

/* ---- Happens-before ------------------------------------------------------------------- */

struct parcel {
    int payload;
    word flag;
};

static void parcel_release(void *arg)
{
    struct parcel *p = arg;
    MODEL_WRITE(p->payload, 42);
    hdi_store_release(&p->flag, 1);
}

static void parcel_relaxed(void *arg)
{
    struct parcel *p = arg;
    MODEL_WRITE(p->payload, 42);
    hdi_store_relaxed(&p->flag, 1);
}

MODEL(race_none, .sc = MODEL_ALL, .tso = MODEL_ALL, .pso = MODEL_ALL)
{
    struct parcel p = {0};
    void *t = model_thread(parcel_release, &p);
    if (hdi_load_acquire(&p.flag)) MODEL_EQUAL(MODEL_READ(p.payload), 42);
    model_join(t);
    MODEL_EQUAL(MODEL_READ(p.payload), 42);
}

MODEL(race_relaxed_store, .sc = 2, .tso = 2, .pso = 2, .expect = HDI_VERDICT_RACE)
{
    struct parcel p = {0};
    void *t = model_thread(parcel_relaxed, &p);
    if (hdi_load_acquire(&p.flag)) (void)MODEL_READ(p.payload);
    model_join(t);
}

MODEL(race_relaxed_load, .sc = 2, .tso = 2, .pso = 2, .expect = HDI_VERDICT_RACE)
{
    struct parcel p = {0};
    void *t = model_thread(parcel_release, &p);
    if (hdi_load_relaxed(&p.flag)) (void)MODEL_READ(p.payload);
    model_join(t);
}

/* A relaxed read-modify-write in between keeps the release sequence. */
static void parcel_bump(void *arg)
{
    struct parcel *p = arg;
    uint32_t one = 1;
    (void)hdi_cas_relaxed(&p->flag, &one, 2);
}

MODEL(race_release_sequence, .sc = 3, .tso = 2, .pso = 2)
{
    struct parcel p = {0};
    void *a = model_thread(parcel_release, &p), *b = model_thread(parcel_bump, &p);
    if (hdi_load_acquire(&p.flag) == 2) MODEL_EQUAL(MODEL_READ(p.payload), 42);
    model_join(a);
    model_join(b);
}

/* ---- Atomicity ------------------------------------------------------------------------ */

static void add_in_two_steps(void *arg)
{
    word *sum = arg;
    hdi_store_relaxed(sum, hdi_load_relaxed(sum) + 1);
}

static void add_at_once(void *arg)
{
    hdi_fetch_add_relaxed((word *)arg, 1);
}

MODEL(lost_update, .sc = 1, .tso = 1, .pso = 1, .expect = HDI_VERDICT_CHECK)
{
    word sum = 0;
    void *t = model_thread(add_in_two_steps, &sum);
    add_in_two_steps(&sum);
    model_join(t);
    MODEL_EQUAL(hdi_load_relaxed(&sum), 2);
}

MODEL(no_lost_update, .sc = MODEL_ALL, .tso = MODEL_ALL, .pso = MODEL_ALL)
{
    word sum = 0;
    void *a = model_thread(add_at_once, &sum), *b = model_thread(add_at_once, &sum);
    add_at_once(&sum);
    model_join(a);
    model_join(b);
    MODEL_EQUAL(hdi_load_relaxed(&sum), 3);
}

/* Widths and wrap-around: each operation touches its own bytes only. */
MODEL(widths, .sc = 1)
{
    struct {
        _Atomic(uint8_t) a, b;
        _Atomic(uint16_t) c;
        _Atomic(uint64_t) d;
        _Atomic(void *) p;
        _Atomic(bool) f;
    } s = {255, 7, 65535, UINT64_MAX, NULL, false};
    MODEL_EQUAL(hdi_fetch_add_relaxed(&s.a, 1), 255);
    MODEL_EQUAL(hdi_fetch_sub_relaxed(&s.c, 1), 65535);
    MODEL_CHECK(hdi_fetch_add_seq_cst(&s.d, 2) == UINT64_MAX);
    hdi_store_release(&s.p, &s);
    hdi_store_relaxed(&s.f, true);
    MODEL_CHECK(s.a == 0 && s.b == 7 && s.c == 65534 && s.d == 1 && s.p == &s && s.f);
    uint8_t seen = 1;
    MODEL_CHECK(!hdi_cas_acq_rel(&s.b, &seen, 9) && seen == 7);
    MODEL_CHECK(hdi_cas_acq_rel(&s.b, &seen, 9) && s.b == 9);
}

/* ---- Futex, mutex, threads --------------------------------------------------------------- */

struct door {
    word open;
    bool careless;
};

static void door_opener(void *arg)
{
    struct door *d = arg;
    hdi_store_seq_cst(&d->open, 1);
    hdi_futex_wake(&d->open, 1);
}

static void pass_door(struct door d, int64_t deadline)
{
    MODEL_NAME(d.open);
    void *t = model_thread(door_opener, &d);
    while (hdi_load_acquire(&d.open) == 0) {
        /* Careless: sleeps on whatever value is there, so a wake in between is lost. */
        const uint32_t seen = d.careless ? hdi_load_relaxed(&d.open) : 0;
        const int err = hdi_futex_wait(&d.open, seen, deadline);
        MODEL_CHECK(err == 0 || err == -EAGAIN || (err == -ETIMEDOUT && deadline != INT64_MAX));
    }
    model_join(t);
}

MODEL(futex_wait_wake, .sc = MODEL_ALL, .tso = MODEL_ALL, .pso = 3)
{
    pass_door((struct door){0}, INT64_MAX);
}
MODEL(futex_lost_wake, .sc = 1, .tso = 1, .pso = 1, .expect = HDI_VERDICT_DEADLOCK)
{
    pass_door((struct door){.careless = true}, INT64_MAX);
}
/* A timeout saves even the careless. */
MODEL(futex_timed, .sc = 3, .tso = 2, .pso = 2)
{
    pass_door((struct door){.careless = true}, 0);
}

static void nap(void *arg)
{
    (void)hdi_futex_wait(arg, 0, INT64_MAX);
}

MODEL(futex_early, .sc = 2, .early_wakes = true)
{
    word w = 0;
    void *t = model_thread(nap, &w);
    model_join(t); /* Nobody wakes it, yet it returns. */
}
MODEL(futex_forever, .sc = 1, .expect = HDI_VERDICT_DEADLOCK)
{
    word w = 0;
    void *t = model_thread(nap, &w);
    model_join(t);
}

static void count_nap(void *arg)
{
    struct litmus *l = arg;
    hdi_fetch_add_relaxed(&l->y, 1);
    while (hdi_load_acquire(&l->x) == 0) (void)hdi_futex_wait(&l->x, 0, INT64_MAX);
}

MODEL(futex_wake_all, .sc = 2, .tso = 2, .pso = 2)
{
    struct litmus l = {.x = 0};
    void *a = model_thread(count_nap, &l), *b = model_thread(count_nap, &l);
    hdi_store_seq_cst(&l.x, 1);
    MODEL_CHECK(hdi_futex_wake(&l.x, 8) <= 2);
    model_join(a);
    model_join(b);
    MODEL_EQUAL(hdi_futex_wake(&l.x, 8), 0);
}

struct guarded {
    struct hdi_mutex mutex;
    word inside;
    int sum; /* guarded */
};

static void enter(void *arg)
{
    struct guarded *g = arg;
    hdi_mutex_lock(&g->mutex);
    MODEL_EQUAL(hdi_fetch_add_relaxed(&g->inside, 1), 0);
    MODEL_WRITE(g->sum, MODEL_READ(g->sum) + 1);
    hdi_fetch_sub_relaxed(&g->inside, 1);
    hdi_mutex_unlock(&g->mutex);
}

static void mutex_three_threads(void)
{
    struct guarded g = {.mutex = HDI_MUTEX_INIT};
    MODEL_NAME(g.mutex);
    MODEL_NAME(g.inside);
    void *a = model_thread(enter, &g), *b = model_thread(enter, &g);
    enter(&g);
    model_join(a);
    model_join(b);
    MODEL_EQUAL(g.sum, 3);
}

MODEL(mutex, .sc = 3, .tso = 3, .pso = 3) { mutex_three_threads(); }
MODEL(mutex_early_wakes, .sc = 2, .early_wakes = true) { mutex_three_threads(); }

static void abba_other(void *arg)
{
    struct hdi_mutex *m = arg;
    hdi_mutex_lock(&m[1]);
    hdi_mutex_lock(&m[0]);
    hdi_mutex_unlock(&m[0]);
    hdi_mutex_unlock(&m[1]);
}

MODEL(mutex_wrong_order, .sc = 1, .tso = 1, .pso = 1, .expect = HDI_VERDICT_DEADLOCK)
{
    struct hdi_mutex m[2] = {HDI_MUTEX_INIT, HDI_MUTEX_INIT};
    void *t = model_thread(abba_other, m);
    hdi_mutex_lock(&m[0]);
    hdi_mutex_lock(&m[1]);
    hdi_mutex_unlock(&m[1]);
    hdi_mutex_unlock(&m[0]);
    model_join(t);
}

static void spin_until_set(void *arg)
{
    while (hdi_load_acquire((word *)arg) == 0) hdi_cpu_relax();
}

MODEL(spin_ends, .sc = 3, .tso = 3, .pso = 3)
{
    word go = 0;
    void *a = model_thread(spin_until_set, &go), *b = model_thread(spin_until_set, &go);
    hdi_store_release(&go, 1);
    model_join(a);
    model_join(b);
}

/* The setter is gone, and its store is still on its way. */
static void set(void *arg)
{
    hdi_store_release((word *)arg, 1);
}

MODEL(spin_on_a_late_store, .sc = 3, .tso = 3, .pso = 3, .delays = 4)
{
    word go = 0;
    void *t = model_thread(set, &go);
    spin_until_set(&go);
    model_join(t);
}

MODEL(spin_alone, .sc = 1, .tso = 1, .pso = 1, .expect = HDI_VERDICT_LIVELOCK)
{
    word go = 0;
    spin_until_set(&go);
}

static void spin_while_set(void *arg)
{
    while (hdi_load_acquire((word *)arg) == 0) hdi_thread_yield();
}

MODEL(spin_together, .sc = 1, .steps = 200, .expect = HDI_VERDICT_LIVELOCK)
{
    word go = 0;
    void *t = model_thread(spin_while_set, &go);
    spin_until_set(&go);
    model_join(t);
}

static void check_self(void *arg)
{
    MODEL_CHECK(hdi_thread_self() == NULL);
    hdi_thread_set_self(arg);
    hdi_fetch_add_relaxed((word *)arg, 1); /* Others run here. */
    MODEL_CHECK(hdi_thread_self() == arg);
}

MODEL(thread_self, .sc = MODEL_ALL)
{
    word w[3] = {0};
    const uintptr_t id = hdi_thread_id();
    struct hdi_thread a, b;
    MODEL_CHECK(hdi_thread_start(&a, check_self, &w[0], "a") == 0);
    MODEL_CHECK(hdi_thread_start(&b, check_self, &w[1], "b") == 0);
    check_self(&w[2]);
    hdi_thread_join(&a);
    hdi_thread_join(&b);
    MODEL_CHECK(hdi_thread_id() == id);
    MODEL_EQUAL(w[0] + w[1] + w[2], 3);
}

/* Join is a happens-before edge and makes stores arrive. */
static void fill(void *arg)
{
    struct parcel *p = arg;
    MODEL_WRITE(p->payload, 7);
    hdi_store_relaxed(&p->flag, 1);
}

MODEL(thread_join, .sc = MODEL_ALL, .tso = MODEL_ALL, .pso = MODEL_ALL, .delays = MODEL_ALL)
{
    struct parcel p = {0};
    void *t = model_thread(fill, &p);
    model_join(t);
    MODEL_EQUAL(MODEL_READ(p.payload), 7);
    MODEL_EQUAL(hdi_load_relaxed(&p.flag), 1);
}

/* A body may return first; the execution lasts until all have ended. */
MODEL(thread_left_alone, .sc = 2, .expect = HDI_VERDICT_DEADLOCK)
{
    static word w;
    w = 0;
    (void)model_thread(nap, &w);
}

/* ---- Memory of the execution, and the checker's own manners ---------------------------- */

static void touch(void *arg)
{
    (void)hdi_load_acquire((word *)arg);
}

MODEL(use_after_free, .sc = 2, .tso = 2, .pso = 2, .expect = HDI_VERDICT_FREED)
{
    word *w = model_alloc(sizeof(*w));
    void *t = model_thread(touch, w);
    model_free(w);
    model_join(t);
}

MODEL(free_in_time, .sc = MODEL_ALL, .tso = MODEL_ALL, .pso = MODEL_ALL)
{
    word *w = model_alloc(sizeof(*w));
    MODEL_EQUAL(*w, 0);
    void *t = model_thread(touch, w);
    hdi_store_relaxed(w, 5);
    model_join(t);
    model_free(w);
    MODEL_EQUAL(model_live(), 0);
}

MODEL(free_twice, .sc = 1, .expect = HDI_VERDICT_FREED)
{
    void *block = model_alloc(8);
    model_free(block);
    model_free(block);
}

MODEL(library_check, .sc = 1, .expect = HDI_VERDICT_CHECK)
{
    word w = 0;
    HD_CHECK(hdi_load_relaxed(&w) == 1);
}

MODEL(crash, .sc = 1, .expect = HDI_VERDICT_CRASH)
{
    volatile int *volatile nowhere = (volatile int *)(uintptr_t)hdi_model_live();
    *nowhere = 1;
}

MODEL(hidden_state, .sc = 1, .expect = HDI_VERDICT_DIVERGED)
{
    static unsigned runs; /* the fault: it survives the execution */
    (void)model_any(2 + (runs++ > 0));
}

MODEL(any_value, .sc = 1, .expect = HDI_VERDICT_CHECK)
{
    const unsigned a = model_any(5), b = model_any(5);
    MODEL_CHECK(a * 5 + b != 23);
}

/* Two plain additions race even if no interleaving shows it. */
static void add_plain(void *arg)
{
    int *sum = arg;
    MODEL_WRITE(*sum, MODEL_READ(*sum) + 1);
}

MODEL(race_plain, .sc = 1, .expect = HDI_VERDICT_RACE)
{
    int sum = 0;
    void *t = model_thread(add_plain, &sum);
    add_plain(&sum);
    model_join(t);
}

/* The speed of the checker: three threads, some forty steps. */
static void bump_often(void *arg)
{
    for (int i = 0; i < 12; i++) hdi_fetch_add_relaxed((word *)arg, 1);
}

MODEL(speed, .sc = 3)
{
    word sum = 0;
    void *a = model_thread(bump_often, &sum), *b = model_thread(bump_often, &sum);
    bump_often(&sum);
    model_join(a);
    model_join(b);
    MODEL_EQUAL(hdi_load_relaxed(&sum), 36);
}
