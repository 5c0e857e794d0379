/* SPDX-License-Identifier: MIT
 *
 * lifo: sched/lifo.h. Owner and thief are never both inside, though the owner has no
 * read-modify-write and no barrier that costs anything.
 */
#include "items.h"
#include "sched/lifo.h"

struct table {
    struct items items;
    struct hdi_lifo lifo;
};

static void table_init(struct table *t)
{
    t->items.given = 0;
    t->lifo = (struct hdi_lifo){.task = NULL};
    MODEL_NAME(t->lifo.task);
    MODEL_NAME(t->lifo.busy);
    MODEL_NAME(t->lifo.claimed);
}

/* As hdi_find_submit(): what does not go in or comes out goes elsewhere. */
static void put(struct table *t)
{
    struct hd_task *task = item_give(&t->items), *evicted = NULL;
    if (hdi_lifo_put(&t->lifo, task, &evicted)) task = evicted;
    (void)item_take(task);
}

static void thief(void *arg)
{
    struct table *t = arg;
    (void)item_take(hdi_lifo_steal(&t->lifo));
}

static void other_thief(void *arg)
{
    thief(arg);
}

static void finish(struct table *t)
{
    (void)item_take(hdi_lifo_flush(&t->lifo));
    MODEL_CHECK(!hdi_load_relaxed(&t->lifo.task));
    items_check(&t->items);
}

MODEL(lifo_put_take, .sc = 8, .tso = 8, .pso = 8, .kills = "lifo_no_barrier")
{
    struct table t;
    table_init(&t);
    put(&t);
    void *a = model_thread(thief, &t);
    put(&t);
    (void)item_take(hdi_lifo_take(&t.lifo));
    model_join(a);
    finish(&t);
}

MODEL(lifo_take_put, .sc = 8, .tso = 8, .pso = 8, .kills = "lifo_no_barrier")
{
    struct table t;
    table_init(&t);
    put(&t);
    void *a = model_thread(thief, &t);
    (void)item_take(hdi_lifo_take(&t.lifo));
    put(&t);
    model_join(a);
    finish(&t);
}

/* About to park, the owner waits for the thief to leave. */
MODEL(lifo_flush, .sc = MODEL_ALL, .tso = 6, .pso = 6, .kills = "lifo_no_barrier")
{
    struct table t;
    table_init(&t);
    put(&t);
    void *a = model_thread(thief, &t);
    (void)item_take(hdi_lifo_flush(&t.lifo));
    MODEL_CHECK(!hdi_load_relaxed(&t.lifo.task));
    model_join(a);
    finish(&t);
}

MODEL(lifo_two_thieves, .sc = 4, .tso = 3, .pso = 3)
{
    struct table t;
    table_init(&t);
    put(&t);
    void *a = model_thread(thief, &t), *b = model_thread(other_thief, &t);
    put(&t);
    (void)item_take(hdi_lifo_take(&t.lifo));
    put(&t);
    model_join(a);
    model_join(b);
    finish(&t);
}
