/* SPDX-License-Identifier: MIT
 *
 * box: the smallest thing that can be waited on: numbers, and who waits for one. For
 * scenarios of wait/, where a channel would be more than the subject.
 */
#ifndef BOX_H
#define BOX_H

#include <errno.h>

#include "scenario.h"
#include "wait/wait.h"

#define BOX_MOST     2
#define BOX_NOTHING  0   /* no number is that */
#define BOX_EMPTY_BUFFER 77 /* what the owner's memory holds before */

/* Under the lock. */
struct box {
    struct hdi_waitable base;
    struct hdi_list takers;
    bool two_steps; /* constant: numbers are filled in, not handed over in the node */
    unsigned count;
    int numbers[BOX_MOST];
};

static inline void box_init(struct box *box, bool two_steps)
{
    *box = (struct box){.two_steps = two_steps};
    hdi_store_relaxed(&box->base.lock.held, 0); /* Nobody else knows it yet. */
    hdi_list_init(&box->takers);
    MODEL_NAME(box->base.lock);
}

static inline bool box_attempt(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    struct box *box = c->object;
    if (MODEL_READ(box->count) == 0) return false;
    MODEL_WRITE(box->count, box->count - 1);
    MODEL_WRITE(*(int *)c->item, box->numbers[box->count]);
    c->result = 0;
    return true;
}

static inline bool box_enqueue(hd_case *c)
{
    struct box *box = c->object;
    hdi_node_enqueue(&box->takers, hdi_case_node(c));
    return true;
}

static inline void box_dequeue(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    hdi_node_dequeue(hdi_case_node(c));
}

static inline void box_taken(hd_case *c)
{
    const struct box *box = c->object;
    struct hdi_node *node = hdi_case_node(c);
    if (!box->two_steps) MODEL_WRITE(*(int *)c->item, (int)MODEL_READ(node->small[0]));
}

static inline void box_put(struct box *box, int number);

static inline void box_unused(hd_case *c)
{
    box_put(c->object, MODEL_READ(*(int *)c->item));
}

static const struct hdi_op box_op = {
    .what = "take from box",
    .attempt = box_attempt,
    .enqueue = box_enqueue,
    .dequeue = box_dequeue,
    .taken = box_taken,
    .unused = box_unused,
};

/* Returns whether the node's owner has the number now. */
static inline bool box_hand_over(struct box *box, struct hdi_node *node, int number,
                                 struct hdi_wakeups *wakeups)
{
    hd_case *c = hdi_node_case(node);
    if (box->two_steps) {
        if (!hdi_node_claim(node)) return false;
        MODEL_WRITE(*(int *)c->item, number);
        c->result = 0;
        hdi_node_filled(node, wakeups);
        return true;
    }
    MODEL_WRITE(node->small[0], (uint64_t)number);
    c->result = 0;
    return hdi_node_complete(node, wakeups);
}

/* Context: any. */
static inline void box_put(struct box *box, int number)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&box->base.lock);
    struct hdi_node *node;
    do node = hdi_node_pop(&box->takers);
    while (node && !box_hand_over(box, node, number, &wakeups));
    if (!node) {
        MODEL_CHECK(box->count < BOX_MOST);
        box->numbers[box->count] = number;
        MODEL_WRITE(box->count, box->count + 1);
    }
    hdi_lock_give(&box->base.lock);
    hdi_wakeups_go(&wakeups);
}

/* ---- waiting, in memory that goes as soon as the wait is over ---- */

/* A completer that touches it too late is found. */
struct box_wait {
    struct hdi_waiter waiter; /* first: a hd_wait for stackless tasks */
    hd_case c;
    int number;
};

static inline struct box_wait *box_wait_new(struct box *box)
{
    struct box_wait *wait = model_alloc(sizeof(*wait));
    MODEL_WRITE(wait->number, BOX_EMPTY_BUFFER);
    wait->c = (hd_case){.object = box, .item = &wait->number};
    hdi_case_node(&wait->c)->op = &box_op;
    return wait;
}

/* Returns the number if the result says that there is one. */
static inline int box_wait_end(struct box_wait *wait, int result)
{
    const int number = MODEL_READ(wait->number);
    if (result < 0) MODEL_EQUAL(number, BOX_EMPTY_BUFFER);
    model_free(wait);
    return result < 0 ? BOX_NOTHING : number;
}

/* hdi_wait(), but for where the waiter is. Context: fiber, thread. */
static inline int box_take(struct box *box, int *number, int64_t deadline)
{
    struct box_wait *wait = box_wait_new(box);
    hd_case *c = &wait->c;
    struct hdi_node *node = hdi_case_node(c);
    int result = hdi_waiter_begin(&wait->waiter, true);
    if (!result) {
        struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
        node->waiter = &wait->waiter;
        node->index = 0;
        hdi_lock_take(&box->base.lock);
        const bool had = box_attempt(c, &wakeups);
        if (!had) (void)box_enqueue(c);
        hdi_lock_give(&box->base.lock);
        if (!had) {
            const int which = hdi_waiter_sleep(&wait->waiter, deadline, true);
            if (which == 0) {
                box_taken(c);
            } else {
                hdi_lock_take(&box->base.lock);
                box_dequeue(c, &wakeups);
                hdi_lock_give(&box->base.lock);
                result = which == (int)HDI_ENDED_TIMEOUT ? -ETIMEDOUT : -ECANCELED;
            }
        }
    }
    *number = box_wait_end(wait, result);
    return result;
}

/* What is left, as a sum. Context: nobody else is about. */
static inline int box_rest(const struct box *box)
{
    int sum = 0;
    MODEL_CHECK(hdi_list_empty(&box->takers));
    for (unsigned i = 0; i < box->count; i++) sum += box->numbers[i];
    return sum;
}

#endif
