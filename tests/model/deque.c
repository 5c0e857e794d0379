/* SPDX-License-Identifier: MIT
 *
 * deque: sched/deque.c with a capacity of 4. Nothing is lost, nothing taken twice, least of
 * all the last one.
 */
#include <string.h>

#include "base/mutant.h"
#include "items.h"
#include "sched/deque.h"

struct table {
    struct items items;
    struct hdi_deque deque; /* the body owns it */
    struct hdi_deque own[2]; /* the thieves', for the mutant */
};

static void table_init(struct table *t)
{
    memset(t, 0, sizeof(*t)); /* stale slots would look right */
    hdi_deque_init(&t->deque);
    for (int i = 0; i < 2; i++) hdi_deque_init(&t->own[i]);
    MODEL_NAME(t->deque.top);
    MODEL_NAME(t->deque.bottom);
    MODEL_NAME(t->deque.slots);
}

static void push(struct table *t, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        MODEL_CHECK(hdi_deque_push(&t->deque, item_give(&t->items)));
    }
}

static unsigned pop(struct table *t)
{
    return item_take(hdi_deque_pop(&t->deque));
}

static void drain(struct hdi_deque *deque)
{
    for (struct hd_task *task; (task = hdi_deque_pop(deque));) (void)item_take(task);
}

static void steal(struct table *t, unsigned thief)
{
    if (!HDI_MUTANT(deque_steal_half)) {
        (void)item_take(hdi_deque_steal(&t->deque));
        return;
    }
    (void)item_take(hdi_deque_steal_half(&t->deque, &t->own[thief]));
    drain(&t->own[thief]);
}

static void thief_a(void *arg)
{
    steal(arg, 0);
}

static void thief_a_twice(void *arg)
{
    steal(arg, 0);
    steal(arg, 0);
}

static void thief_b(void *arg)
{
    steal(arg, 1);
}

static void finish(struct table *t)
{
    drain(&t->deque);
    items_check(&t->items);
}

/* The last one, wanted by owner and thief. */
MODEL(deque_last, .sc = MODEL_ALL, .tso = MODEL_ALL, .pso = MODEL_ALL, .delays = 4)
{
    struct table t;
    table_init(&t);
    push(&t, 1);
    void *a = model_thread(thief_a, &t);
    (void)pop(&t);
    model_join(a);
    finish(&t);
}

/* The last two: the thief may come back for the owner's. */
MODEL(deque_last_two, .sc = 7, .tso = 6, .pso = 6, .kills = "deque_no_seq_cst")
{
    struct table t;
    table_init(&t);
    push(&t, 2);
    void *a = model_thread(thief_a_twice, &t);
    (void)pop(&t);
    (void)pop(&t);
    model_join(a);
    finish(&t);
}

/* Three, of which a thief that takes half would have two while the owner pops one. */
MODEL(deque_three, .sc = 6, .tso = 6, .pso = 6, .kills = "deque_steal_half")
{
    struct table t;
    table_init(&t);
    push(&t, 3);
    void *a = model_thread(thief_a, &t);
    for (int i = 0; i < 3; i++) (void)pop(&t);
    model_join(a);
    finish(&t);
}

/* Pushes between the pops: bottom goes down and up again under the thief. */
MODEL(deque_push_pop, .sc = 6, .tso = 5, .pso = 4)
{
    struct table t;
    table_init(&t);
    void *a = model_thread(thief_a_twice, &t);
    push(&t, 1);
    (void)pop(&t);
    push(&t, 2);
    (void)pop(&t);
    model_join(a);
    finish(&t);
}

MODEL(deque_two_thieves, .sc = 5, .tso = 5, .pso = 4, .kills = "deque_no_seq_cst")
{
    struct table t;
    table_init(&t);
    push(&t, 2);
    void *a = model_thread(thief_a, &t), *b = model_thread(thief_b, &t);
    (void)pop(&t);
    push(&t, 1);
    (void)pop(&t);
    model_join(a);
    model_join(b);
    finish(&t);
}

/* Full, and round: a slot is reused only after its thief is done with it. */
MODEL(deque_full, .sc = 6, .tso = 6, .pso = 6)
{
    struct table t;
    table_init(&t);
    push(&t, 4);
    void *a = model_thread(thief_a_twice, &t);
    for (int i = 0; i < 2; i++) {
        struct hd_task *task = item_give(&t.items);
        if (!hdi_deque_push(&t.deque, task)) (void)item_take(task);
    }
    model_join(a);
    finish(&t);
}

/* The owner takes its oldest like a thief, against a thief. */
MODEL(deque_oldest, .sc = MODEL_ALL, .tso = 4, .pso = 4)
{
    struct table t;
    table_init(&t);
    push(&t, 2);
    void *a = model_thread(thief_a, &t);
    (void)item_take(hdi_deque_steal(&t.deque));
    (void)pop(&t);
    model_join(a);
    finish(&t);
}
