/* SPDX-License-Identifier: MIT
 *
 * park: sched/park.c. A token is never lost, wherever it comes (PARK-1).
 */
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
