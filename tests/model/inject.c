/* SPDX-License-Identifier: MIT
 *
 * inject: sched/inject.c. Batches keep their order, and the length that is read without
 * the lock is never wrong while the lock is free (INJECT-1).
 */
#include "items.h"
#include "sched/inject.h"

struct table {
    struct items items[2]; /* one per pusher */
    struct hdi_inject inject;
};

static void table_init(struct table *t)
{
    t->items[0].given = t->items[1].given = 0;
    hdi_inject_init(&t->inject);
    MODEL_NAME(t->inject.lock);
    MODEL_NAME(t->inject.length);
}

static void push(struct table *t, unsigned pusher, unsigned count)
{
    struct hd_task *batch[4];
    for (unsigned i = 0; i < count; i++) batch[i] = item_give(&t->items[pusher]);
    hdi_inject_push(&t->inject, batch, count);
}

static unsigned pop(struct table *t, unsigned max)
{
    struct hd_task *out[4];
    const unsigned count = hdi_inject_pop(&t->inject, out, max);
    MODEL_CHECK(count <= max);
    for (unsigned i = 0; i < count; i++) (void)item_take(out[i]);
    return count;
}

static void finish(struct table *t)
{
    unsigned left = 0;
    for (const struct hd_task *task = t->inject.first; task; task = task->next) left++;
    MODEL_EQUAL(hdi_inject_length(&t->inject), left); /* INJECT-1 */
    while (pop(t, 2) > 0) continue;
    MODEL_EQUAL(hdi_inject_length(&t->inject), 0);
    MODEL_EQUAL(t->inject.total, t->items[0].given + t->items[1].given);
    items_check(&t->items[0]);
    items_check(&t->items[1]);
}

static void pusher(void *arg)
{
    push(arg, 1, 2);
}

static void popper(void *arg)
{
    (void)pop(arg, 2);
}

MODEL(inject_push_push, .sc = MODEL_ALL, .tso = 5, .pso = 5, .kills = "inject_len_late")
{
    struct table t;
    table_init(&t);
    void *a = model_thread(pusher, &t);
    push(&t, 0, 1);
    push(&t, 0, 1);
    model_join(a);
    finish(&t);
}

MODEL(inject_push_pop, .sc = 8, .tso = 7, .pso = 7, .kills = "inject_len_late")
{
    struct table t;
    table_init(&t);
    push(&t, 0, 2);
    void *a = model_thread(pusher, &t);
    (void)pop(&t, 1);
    (void)pop(&t, 2);
    model_join(a);
    finish(&t);
}

MODEL(inject_three, .sc = 4, .tso = 4, .pso = 4)
{
    struct table t;
    table_init(&t);
    push(&t, 0, 1);
    void *a = model_thread(pusher, &t), *b = model_thread(popper, &t);
    push(&t, 0, 2);
    (void)pop(&t, 2);
    model_join(a);
    model_join(b);
    finish(&t);
}

/* Whoever knows that a push is over sees its length without the lock. */
struct hint {
    struct table table;
    _Atomic(uint32_t) pushed;
};

static void push_and_say(void *arg)
{
    struct hint *h = arg;
    push(&h->table, 1, 1);
    hdi_store_release(&h->pushed, 1);
}

MODEL(inject_length, .sc = MODEL_ALL, .tso = MODEL_ALL, .pso = MODEL_ALL,
      .kills = "inject_len_late")
{
    struct hint h;
    table_init(&h.table);
    hdi_store_relaxed(&h.pushed, 0);
    void *a = model_thread(push_and_say, &h);
    if (hdi_load_acquire(&h.pushed)) MODEL_EQUAL(pop(&h.table, 1), 1);
    model_join(a);
    finish(&h.table);
}
