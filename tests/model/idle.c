/* SPDX-License-Identifier: MIT
 *
 * idle: sched/idle.c and sched/park.c in a copy of a worker's way to sleep and back. No
 * task waits while a worker sleeps, and the counts come out even.
 *
 * The whole worker is explored in runtime.c; here it is cut down to the protocol, so that
 * more preemptions are affordable. A lost wake-up is a deadlock.
 */
#include "base/mutant.h"
#include "items.h"
#include "os/thread.h"
#include "sched/idle.h"
#include "sched/inject.h"
#include "sched/park.h"
#include "sched/ring.h"

#define WORKERS_MAX 3

struct pool;

struct worker {
    struct pool *pool;
    unsigned index;
    bool searching;
    struct hdi_ring ring;
    struct hdi_parker parker;
};

struct pool {
    unsigned workers;
    unsigned tasks; /* how many there will be */
    bool together;  /* they wait for each other: all must run at once */
    struct hdi_idle idle;
    struct hdi_inject inject;
    struct hdi_ring busy; /* of a worker that never comes to it: the body */
    struct items items;
    _Atomic(uint32_t) started;
    struct hdi_parker all_started; /* the body waits here */
    _Atomic(bool) stopping;
    struct worker worker[WORKERS_MAX];
    void *thread[WORKERS_MAX];
};

static void pool_init(struct pool *p, unsigned workers, unsigned tasks)
{
    *p = (struct pool){.workers = workers, .tasks = tasks};
    hdi_idle_init(&p->idle, workers, workers);
    hdi_inject_init(&p->inject);
    hdi_ring_init(&p->busy, false);
    hdi_parker_init(&p->all_started);
    for (unsigned i = 0; i < workers; i++) {
        p->worker[i].pool = p;
        p->worker[i].index = i;
        hdi_ring_init(&p->worker[i].ring, false);
        hdi_parker_init(&p->worker[i].parker);
    }
    MODEL_NAME(p->idle.counts);
    MODEL_NAME(p->idle.parked_bits);
    MODEL_NAME(p->inject.length);
    MODEL_NAME(p->busy.head);
    MODEL_NAME(p->busy.tail);
    MODEL_NAME(p->started);
    MODEL_NAME(p->stopping);
    MODEL_NAME(p->worker[0].parker);
    MODEL_NAME(p->worker[1].parker);
}

static bool visible(struct pool *p)
{
    if (hdi_inject_length(&p->inject) > 0 || hdi_ring_count(&p->busy) > 0) return true;
    for (unsigned i = 0; i < p->workers; i++) {
        if (hdi_ring_count(&p->worker[i].ring) > 0) return true;
    }
    return false;
}

static void notify(struct pool *p)
{
    const int claimed = hdi_idle_notify(&p->idle, 0);
    if (claimed >= 0) hdi_parker_unpark(&p->worker[claimed].parker);
}

static struct hd_task *take_injected(struct pool *p)
{
    struct hd_task *task;
    return hdi_inject_pop(&p->inject, &task, 1) ? task : NULL;
}

static struct hd_task *search(struct worker *w)
{
    struct pool *p = w->pool;
    if (!w->searching && !(w->searching = hdi_idle_try_search(&p->idle))) return NULL;
    unsigned moved;
    struct hd_task *task = hdi_ring_steal(&p->busy, &w->ring, &moved);
    for (unsigned i = 0; i < p->workers && !task; i++) {
        if (i != w->index) task = hdi_ring_steal(&p->worker[i].ring, &w->ring, &moved);
    }
    return task ? task : take_injected(p);
}

static void end_search(struct worker *w)
{
    w->searching = false;
    if (hdi_idle_end_search(&w->pool->idle) && visible(w->pool)) notify(w->pool);
}

static void park(struct worker *w)
{
    struct pool *p = w->pool;
    hdi_idle_park(&p->idle, w->index, w->searching);
    const bool look_again = !HDI_MUTANT(idle_no_recheck) && visible(p);
    const bool stay = look_again || hdi_load_acquire(&p->stopping);
    if (!stay) hdi_parker_park(&w->parker);
    const bool claimed = hdi_idle_unpark(&p->idle, w->index);
    if (stay && claimed) hdi_parker_park(&w->parker);
    if (look_again) hdi_thread_yield();
    w->searching = true;
}

static void run(struct pool *p, struct hd_task *task)
{
    (void)item_take(task);
    const unsigned others = hdi_fetch_add_acq_rel(&p->started, 1);
    if (others + 1 == p->tasks) hdi_parker_unpark(&p->all_started);
    while (p->together && hdi_load_acquire(&p->started) < p->tasks) hdi_cpu_relax();
}

static void worker_main(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    for (;;) {
        struct hd_task *task = hdi_ring_pop(&w->ring);
        if (!task) task = take_injected(p);
        if (!task) task = search(w);
        if (task) {
            if (w->searching) end_search(w);
            run(p, task);
            continue;
        }
        park(w);
        if (hdi_load_acquire(&p->stopping) && !visible(p)) break;
    }
    if (w->searching) end_search(w);
}

static void start(struct pool *p)
{
    for (unsigned i = 0; i < p->workers; i++) {
        p->thread[i] = model_thread(worker_main, &p->worker[i]);
    }
}

/* The same, and all are asleep. */
static void start_asleep(struct pool *p)
{
    model_calm(true);
    start(p);
    while (hdi_idle_parked(&p->idle) < p->workers) hdi_cpu_relax();
    model_calm(false);
}

/* As a foreign thread. */
static void inject(struct pool *p)
{
    struct hd_task *task = item_give(&p->items);
    hdi_inject_push(&p->inject, &task, 1);
    notify(p);
}

/* As a worker that is busy with a long task: only a store tells others. */
static void push(struct pool *p)
{
    MODEL_CHECK(hdi_ring_push(&p->busy, item_give(&p->items)));
    notify(p);
}

static void stop(struct pool *p, bool wait)
{
    if (wait) hdi_parker_park(&p->all_started);
    hdi_store_release(&p->stopping, true);
    for (unsigned i = 0; i < p->workers; i++) hdi_parker_unpark(&p->worker[i].parker);
    for (unsigned i = 0; i < p->workers; i++) model_join(p->thread[i]);
    items_check(&p->items);
    MODEL_EQUAL(hdi_idle_searching(&p->idle), 0);
    MODEL_EQUAL(hdi_idle_parked(&p->idle), 0);
    MODEL_EQUAL(hdi_load_relaxed(&p->idle.parked_bits[0]), 0);
}

MODEL(idle_one, .sc = 4, .tso = 4, .pso = 4, .kills = "idle_plain_load idle_no_recheck")
{
    struct pool p;
    pool_init(&p, 1, 1);
    start(&p);
    push(&p);
    stop(&p, true);
}

MODEL(idle_one_injected, .sc = 4, .tso = 4, .pso = 4, .kills = "idle_no_recheck")
{
    struct pool p;
    pool_init(&p, 1, 2);
    start(&p);
    inject(&p);
    inject(&p);
    stop(&p, true);
}

/* Two submitters at once. */
static void submitter(void *arg)
{
    inject(arg);
}

MODEL(idle_two_submitters, .sc = 3, .tso = 3, .pso = 3, .kills = "idle_plain_load")
{
    struct pool p;
    pool_init(&p, 1, 2);
    start(&p);
    struct hd_task *task = item_give(&p.items); /* before the other gives one */
    void *other = model_thread(submitter, &p);
    MODEL_CHECK(hdi_ring_push(&p.busy, task));
    notify(&p);
    model_join(other);
    stop(&p, true);
}

/* Two workers on their way to sleep when the tasks come. */
MODEL(idle_two, .sc = 2, .tso = 2, .pso = 2, .kills = "idle_blind_clear idle_plain_load")
{
    struct pool p;
    pool_init(&p, 2, 2);
    start(&p);
    push(&p);
    inject(&p);
    stop(&p, true);
}

/* Two tasks that wait for each other: whoever finds one must see to the other. */
MODEL(idle_together, .sc = 2, .tso = 2, .pso = 2, .kills = "idle_last_silent")
{
    struct pool p;
    pool_init(&p, 2, 2);
    p.together = true;
    start_asleep(&p);
    push(&p);
    push(&p);
    stop(&p, true);
}

/* Stopped at any point of the way to sleep: by a token without a claim. */
MODEL(idle_stop, .sc = 3, .tso = 2, .pso = 2, .kills = "idle_blind_clear")
{
    struct pool p;
    pool_init(&p, 2, 1);
    start(&p);
    push(&p);
    stop(&p, false);
}

MODEL(idle_three, .sc = 2, .tso = 2, .pso = 2)
{
    struct pool p;
    pool_init(&p, 3, 2);
    start_asleep(&p);
    push(&p);
    inject(&p);
    stop(&p, false);
}
