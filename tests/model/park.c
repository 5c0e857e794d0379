/* SPDX-License-Identifier: MIT
 *
 * park: sched/park.c. A token is never lost, wherever it comes, and wherever its owner sleeps
 * (PARK-1).
 */
#include "os/event.h"
#include "sched/park.h"
#include "scenario.h"

struct table {
    struct hdi_parker parker;
    int message[2]; /* plain: an unpark orders what was written before it (edge T) */
};

static void table_init(struct table *t)
{
    hdi_parker_init(&t->parker);
    t->message[0] = t->message[1] = 0;
    MODEL_NAME(t->parker);
}

static void waker(void *arg)
{
    struct table *t = arg;
    MODEL_WRITE(t->message[0], 1);
    hdi_parker_unpark(&t->parker);
}

static void other_waker(void *arg)
{
    struct table *t = arg;
    MODEL_WRITE(t->message[1], 1);
    hdi_parker_unpark(&t->parker);
}

MODEL(park_one, .sc = MODEL_ALL, .tso = MODEL_ALL, .pso = MODEL_ALL, .kills = "park_lost_token")
{
    struct table t;
    table_init(&t);
    void *a = model_thread(waker, &t);
    hdi_parker_park(&t.parker);
    MODEL_EQUAL(MODEL_READ(t.message[0]), 1);
    model_join(a);
}

/* Sleeping on after a return that nobody asked for. */
MODEL(park_early_wake, .sc = 4, .tso = 4, .pso = 4, .early_wakes = true)
{
    struct table t;
    table_init(&t);
    void *a = model_thread(waker, &t);
    hdi_parker_park(&t.parker);
    MODEL_EQUAL(MODEL_READ(t.message[0]), 1);
    model_join(a);
}

/* A second park is answered by the next unpark, not by a token left over. */
static void answer(void *arg)
{
    struct table *t = arg;
    MODEL_WRITE(t->message[0], 1);
    hdi_parker_unpark(&t->parker);
    hdi_parker_unpark(&t->parker);
}

MODEL(park_merge, .sc = 5, .tso = 4, .pso = 4, .kills = "park_lost_token")
{
    struct table t;
    table_init(&t);
    void *a = model_thread(answer, &t), *b = model_thread(other_waker, &t);
    hdi_parker_park(&t.parker);
    model_join(a);
    model_join(b);
    /* Three unparks: one was taken, the others have merged into at most one token. */
    hdi_parker_unpark(&t.parker);
    hdi_parker_park(&t.parker);
    MODEL_EQUAL(MODEL_READ(t.message[0]) + MODEL_READ(t.message[1]), 2);
}

/* Back and forth: every park of one is the answer to an unpark of the other. */
struct pair {
    struct hdi_parker here, there;
    int ball;
};

static void returner(void *arg)
{
    struct pair *p = arg;
    for (int i = 0; i < 2; i++) {
        hdi_parker_park(&p->there);
        MODEL_WRITE(p->ball, MODEL_READ(p->ball) + 1);
        hdi_parker_unpark(&p->here);
    }
}

MODEL(park_ping_pong, .sc = MODEL_ALL, .tso = 5, .pso = 5, .kills = "park_lost_token")
{
    struct pair p = {.ball = 0};
    hdi_parker_init(&p.here);
    hdi_parker_init(&p.there);
    void *a = model_thread(returner, &p);
    for (int i = 0; i < 2; i++) {
        MODEL_WRITE(p.ball, MODEL_READ(p.ball) + 1);
        hdi_parker_unpark(&p.there);
        hdi_parker_park(&p.here);
    }
    MODEL_EQUAL(MODEL_READ(p.ball), 4);
    model_join(a);
}

/* ---- asleep in the kernel, for other reasons, too ---- */

struct lane {
    struct table table;
    _Atomic(uint32_t) news; /* what the kernel has to say */
};

static void lane_init(struct lane *lane)
{
    table_init(&lane->table);
    lane->table.parker.event = hdi_event_open(NULL);
    hdi_store_relaxed(&lane->news, 0);
    MODEL_NAME(lane->news);
}

static void sleep_in_lane(void *arg, int64_t deadline_ns)
{
    const struct lane *lane = arg;
    hdi_event_wait(lane->table.parker.event, deadline_ns);
}

/* As a worker does: it sleeps, hears the news, and looks whether it was unparked. */
static bool park_in_lane(struct lane *lane, int64_t deadline_ns)
{
    struct hdi_parker *parker = &lane->table.parker;
    const bool token = hdi_parker_park_in(parker, sleep_in_lane, lane, deadline_ns);
    hdi_event_clear(parker->event);
    return token;
}

/* The kernel wakes the sleeper, who gets no token by that. */
static void kernel(void *arg)
{
    struct lane *lane = arg;
    hdi_store_release(&lane->news, 1);
    hdi_event_raise(lane->table.parker.event);
}

MODEL(park_in_one, .sc = MODEL_ALL, .tso = MODEL_ALL, .pso = MODEL_ALL,
      .kills = "park_event_silent park_in_late")
{
    struct lane lane;
    lane_init(&lane);
    void *a = model_thread(waker, &lane.table);
    while (!park_in_lane(&lane, INT64_MAX)) continue;
    MODEL_EQUAL(MODEL_READ(lane.table.message[0]), 1);
    model_join(a);
}

/* A sleep that ends for another reason loses no token that comes this moment. */
MODEL(park_in_news, .sc = 5, .tso = 4, .pso = 4,
      .kills = "park_event_silent park_in_late park_in_blind")
{
    struct lane lane;
    lane_init(&lane);
    void *a = model_thread(waker, &lane.table), *b = model_thread(kernel, &lane);
    while (!park_in_lane(&lane, INT64_MAX)) continue;
    MODEL_EQUAL(MODEL_READ(lane.table.message[0]), 1);
    model_join(a);
    model_join(b);
    MODEL_EQUAL(hdi_load_relaxed(&lane.news), 1);
}

/* Nor does one that ends in time. */
MODEL(park_in_time, .sc = MODEL_ALL, .tso = 5, .pso = 5, .kills = "park_in_blind")
{
    struct lane lane;
    lane_init(&lane);
    void *a = model_thread(waker, &lane.table);
    if (!park_in_lane(&lane, 1)) {
        while (!park_in_lane(&lane, INT64_MAX)) continue;
    }
    MODEL_EQUAL(MODEL_READ(lane.table.message[0]), 1);
    model_join(a);
}

/* Three unparks: whoever comes while one is answered is answered later. */
MODEL(park_in_merge, .sc = 6, .tso = 5, .pso = 5, .kills = "park_event_silent park_in_late")
{
    struct lane lane;
    lane_init(&lane);
    void *a = model_thread(answer, &lane.table), *b = model_thread(other_waker, &lane.table);
    while (!park_in_lane(&lane, INT64_MAX)) continue;
    model_join(a);
    model_join(b);
    hdi_parker_unpark(&lane.table.parker);
    while (!park_in_lane(&lane, INT64_MAX)) continue;
    MODEL_EQUAL(MODEL_READ(lane.table.message[0]) + MODEL_READ(lane.table.message[1]), 2);
}

/* In the lane this time, on the futex the next: a worker that was claimed takes its token there. */
MODEL(park_in_then_out, .sc = 5, .tso = 4, .pso = 4, .kills = "park_in_blind park_lost_token")
{
    struct lane lane;
    lane_init(&lane);
    void *a = model_thread(waker, &lane.table), *b = model_thread(kernel, &lane);
    if (!park_in_lane(&lane, INT64_MAX)) hdi_parker_park(&lane.table.parker);
    MODEL_EQUAL(MODEL_READ(lane.table.message[0]), 1);
    model_join(a);
    model_join(b);
}

/* As the monitor does in a worker's place: it hears the news, and the event that is not for it. */
static void overhear(void *arg)
{
    struct lane *lane = arg;
    hdi_event_clear(lane->table.parker.event);
    hdi_parker_restore(&lane->table.parker);
}

MODEL(park_in_overheard, .sc = MODEL_ALL, .tso = 5, .pso = 5,
      .kills = "park_event_eaten park_event_silent park_in_late")
{
    struct lane lane;
    lane_init(&lane);
    void *a = model_thread(waker, &lane.table), *b = model_thread(overhear, &lane);
    while (!park_in_lane(&lane, INT64_MAX)) continue;
    MODEL_EQUAL(MODEL_READ(lane.table.message[0]), 1);
    model_join(a);
    model_join(b);
}

/* ---- in two steps: the other loop sleeps until the event is raised (io/embed.c) ---- */

struct errand {
    struct lane lane;
    _Atomic(uint32_t) work;
};

static void bring_work(void *arg)
{
    struct errand *errand = arg;
    (void)hdi_fetch_add_acq_rel(&errand->work, 1);
    hdi_parker_unpark(&errand->lane.table.parker);
}

/* Whatever was brought while it was away, or on its way, wakes the other loop. */
static void do_errands(struct errand *errand, uint32_t all)
{
    struct hdi_parker *parker = &errand->lane.table.parker;
    hdi_store_relaxed(&errand->work, 0);
    MODEL_NAME(errand->work);
    lane_init(&errand->lane);
    void *threads[2];
    for (uint32_t i = 0; i < all; i++) threads[i] = model_thread(bring_work, errand);
    while (hdi_load_acquire(&errand->work) < all) {
        hdi_parker_go_elsewhere(parker);
        hdi_event_wait(parker->event, INT64_MAX);
        hdi_parker_come_back(parker);
        hdi_event_clear(parker->event);
    }
    for (uint32_t i = 0; i < all; i++) model_join(threads[i]);
}

MODEL(park_away_one, .sc = MODEL_ALL, .tso = MODEL_ALL, .pso = MODEL_ALL,
      .kills = "park_event_silent park_away_silent")
{
    struct errand errand;
    do_errands(&errand, 1);
}

MODEL(park_away_two, .sc = 4, .tso = 3, .pso = 3, .kills = "park_event_silent park_away_silent")
{
    struct errand errand;
    do_errands(&errand, 2);
}
