/* SPDX-License-Identifier: MIT
 *
 * ring: sched/ring.c with a capacity of 4. Nothing is lost, nothing taken twice, the order
 * is kept, whoever takes sees what was written.
 */
#include <string.h>

#include "items.h"
#include "sched/ring.h"

struct table {
    struct items items;
    struct hdi_ring ring;     /* the body owns it */
    struct hdi_ring thief[2]; /* each thief's own */
};

static void table_init(struct table *t)
{
    memset(t, 0, sizeof(*t)); /* stale slots would look right */
    hdi_ring_init(&t->ring, false);
    for (int i = 0; i < 2; i++) hdi_ring_init(&t->thief[i], false);
    MODEL_NAME(t->ring.head);
    MODEL_NAME(t->ring.tail);
    MODEL_NAME(t->ring.slots);
    MODEL_NAME(t->thief[0]);
    MODEL_NAME(t->thief[1]);
}

static void push(struct table *t, unsigned count)
{
    for (unsigned i = 0; i < count; i++) MODEL_CHECK(hdi_ring_push(&t->ring, item_give(&t->items)));
}

/* Take all that is in a ring. Returns how many. */
static unsigned drain(struct hdi_ring *ring)
{
    unsigned count = 0, last = 0;
    for (struct hd_task *task; (task = hdi_ring_pop(ring)); count++) {
        const unsigned number = item_take(task);
        MODEL_CHECK(number > last); /* FIFO */
        last = number;
    }
    return count;
}

static void steal_once(struct hdi_ring *victim, struct hdi_ring *own)
{
    unsigned moved = 0;
    struct hd_task *task = hdi_ring_steal(victim, own, &moved);
    if (!task) return;
    const unsigned first = item_take(task);
    unsigned rest = 0, last = first;
    for (; (task = hdi_ring_pop(own)); rest++) {
        const unsigned number = item_take(task);
        MODEL_EQUAL(number, last + 1); /* a run of neighbours, the oldest first */
        last = number;
    }
    MODEL_EQUAL(rest, moved);
}

static void thief_a(void *arg)
{
    struct table *t = arg;
    steal_once(&t->ring, &t->thief[0]);
}

static void thief_b(void *arg)
{
    struct table *t = arg;
    steal_once(&t->ring, &t->thief[1]);
}

/* An owner and a thief, from empty to a few. */
MODEL(ring_owner_thief, .sc = 6, .tso = 6, .pso = 6)
{
    struct table t;
    table_init(&t);
    void *a = model_thread(thief_a, &t);
    push(&t, 2);
    (void)item_take(hdi_ring_pop(&t.ring));
    push(&t, 1);
    (void)item_take(hdi_ring_pop(&t.ring));
    model_join(a);
    drain(&t.ring);
    items_check(&t.items);
}

/* Two thieves and an owner that pops and pushes meanwhile. */
MODEL(ring_two_thieves, .sc = 4, .tso = 4, .pso = 4, .kills = "ring_abandon")
{
    struct table t;
    table_init(&t);
    push(&t, 3);
    void *a = model_thread(thief_a, &t), *b = model_thread(thief_b, &t);
    (void)item_take(hdi_ring_pop(&t.ring));
    push(&t, 1);
    (void)item_take(hdi_ring_pop(&t.ring));
    model_join(a);
    model_join(b);
    drain(&t.ring);
    items_check(&t.items);
}

/* What sched/find.c does with a task that does not fit. */
static void push_or_spill(struct table *t, unsigned *spilled)
{
    struct hd_task *task = item_give(&t->items), *out[HDI_RING_CAP / 2];
    if (hdi_ring_push(&t->ring, task)) return;
    const unsigned count = hdi_ring_spill(&t->ring, out);
    MODEL_CHECK(count == 0 || count == HDI_RING_CAP / 2);
    unsigned last = 0;
    for (unsigned i = 0; i < count; i++) {
        const unsigned number = item_take(out[i]);
        MODEL_CHECK(number > last);
        last = number;
    }
    MODEL_CHECK(item_take(task) > last);
    *spilled += count + 1;
}

/* Full, with a thief that may be copying: slots it has not copied are not reused, and the
 * spill takes the newer half or nothing. */
MODEL(ring_full, .sc = 6, .tso = 5, .pso = 5, .kills = "ring_full_real")
{
    struct table t;
    table_init(&t);
    push(&t, 3);
    void *a = model_thread(thief_a, &t);
    unsigned spilled = 0;
    for (int i = 0; i < 3; i++) push_or_spill(&t, &spilled);
    model_join(a);
    drain(&t.ring);
    items_check(&t.items);
}

MODEL(ring_full_two_thieves, .sc = 4, .tso = 3, .pso = 3, .kills = "ring_full_real ring_abandon")
{
    struct table t;
    table_init(&t);
    push(&t, 4);
    void *a = model_thread(thief_a, &t), *b = model_thread(thief_b, &t);
    unsigned spilled = 0;
    for (int i = 0; i < 2; i++) push_or_spill(&t, &spilled);
    (void)item_take(hdi_ring_pop(&t.ring));
    model_join(a);
    model_join(b);
    drain(&t.ring);
    items_check(&t.items);
}

/* A full ring and no thief: half of it goes, the older half stays in order. */
MODEL(ring_spill_alone, .sc = 1)
{
    struct table t;
    table_init(&t);
    push(&t, 4);
    unsigned spilled = 0;
    push_or_spill(&t, &spilled);
    MODEL_EQUAL(spilled, 3);
    MODEL_EQUAL(item_take(hdi_ring_pop(&t.ring)), 1);
    push_or_spill(&t, &spilled);
    MODEL_EQUAL(spilled, 3);
    MODEL_EQUAL(item_take(hdi_ring_pop(&t.ring)), 2);
    MODEL_EQUAL(item_take(hdi_ring_pop(&t.ring)), 6);
    items_check(&t.items);
}

/* The owner turns the ring round twice while a thief sleeps: its stale claim must fail. */
MODEL(ring_round, .sc = 4, .tso = 3, .pso = 3, .kills = "ring_narrow")
{
    struct table t;
    table_init(&t);
    push(&t, 3);
    void *a = model_thread(thief_a, &t);
    unsigned spilled = 0;
    for (int i = 0; i < 3; i++) (void)item_take(hdi_ring_pop(&t.ring));
    for (int i = 0; i < 5; i++) {
        push_or_spill(&t, &spilled);
        (void)item_take(hdi_ring_pop(&t.ring));
    }
    model_join(a);
    drain(&t.ring);
    items_check(&t.items);
}

/* The 32-bit counters wrap on the way. */
MODEL(ring_wrap, .sc = 5, .tso = 4, .pso = 4)
{
    struct table t;
    table_init(&t);
    const uint32_t start = UINT32_MAX - 1;
    hdi_store_relaxed(&t.ring.head, (uint64_t)start << 32 | start);
    hdi_store_relaxed(&t.ring.tail, start);
    hdi_store_relaxed(&t.thief[0].head, (uint64_t)start << 32 | start);
    hdi_store_relaxed(&t.thief[0].tail, start);
    push(&t, 3);
    void *a = model_thread(thief_a, &t);
    unsigned spilled = 0;
    for (int i = 0; i < 2; i++) push_or_spill(&t, &spilled);
    (void)item_take(hdi_ring_pop(&t.ring));
    model_join(a);
    drain(&t.ring);
    items_check(&t.items);
}

/* A thief that is robbed of what it just stole. */
static void rob_thief_a(void *arg)
{
    struct table *t = arg;
    steal_once(&t->thief[0], &t->thief[1]);
}

static void thief_a_keeps(void *arg)
{
    struct table *t = arg;
    unsigned moved = 0;
    (void)item_take(hdi_ring_steal(&t->ring, &t->thief[0], &moved));
    (void)item_take(hdi_ring_pop(&t->thief[0]));
}

MODEL(ring_chain, .sc = 4, .tso = 4, .pso = 4, .kills = "ring_early_tail")
{
    struct table t;
    table_init(&t);
    push(&t, 4);
    void *a = model_thread(thief_a_keeps, &t), *b = model_thread(rob_thief_a, &t);
    (void)item_take(hdi_ring_pop(&t.ring));
    model_join(a);
    model_join(b);
    drain(&t.thief[0]);
    drain(&t.ring);
    items_check(&t.items);
}

/* Two workers steal from each other while both have something. */
static void thief_a_mutual(void *arg)
{
    struct table *t = arg;
    unsigned moved = 0;
    (void)item_take(hdi_ring_pop(&t->thief[0]));
    (void)item_take(hdi_ring_steal(&t->ring, &t->thief[0], &moved));
}

MODEL(ring_mutual, .sc = 6, .tso = 6, .pso = 6)
{
    struct table t;
    table_init(&t);
    push(&t, 2);
    for (int i = 0; i < 2; i++) MODEL_CHECK(hdi_ring_push(&t.thief[0], item_give(&t.items)));
    void *a = model_thread(thief_a_mutual, &t);
    unsigned moved = 0;
    (void)item_take(hdi_ring_steal(&t.thief[0], &t.ring, &moved));
    model_join(a);
    for (struct hd_task *task; (task = hdi_ring_pop(&t.ring));) (void)item_take(task);
    for (struct hd_task *task; (task = hdi_ring_pop(&t.thief[0]));) (void)item_take(task);
    items_check(&t.items);
}

/* A thief over half full refuses; at half it has room for all it takes. */
MODEL(ring_thief_full, .sc = 5, .tso = 5, .pso = 5)
{
    struct table t;
    table_init(&t);
    const unsigned own = 2 + model_any(2);
    struct items before = {.given = 0};
    for (unsigned i = 0; i < own; i++) {
        MODEL_CHECK(hdi_ring_push(&t.thief[0], item_give(&before)));
    }
    push(&t, 4);
    void *b = model_thread(rob_thief_a, &t);
    unsigned moved = 0;
    struct hd_task *task = hdi_ring_steal(&t.ring, &t.thief[0], &moved); /* as its owner */
    if (own > 2) MODEL_CHECK(!task || hdi_ring_count(&t.thief[0]) <= 2);
    (void)item_take(task);
    model_join(b);
    while ((task = hdi_ring_pop(&t.thief[0]))) (void)item_take(task);
    drain(&t.ring);
    items_check(&t.items);
    items_check(&before);
}
