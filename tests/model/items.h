/* SPDX-License-Identifier: MIT
 *
 * items: stand-ins for tasks in scenarios of the queues, which carry only pointers.
 *
 * Conservation: every item given out is taken exactly once, by a thread that sees what the
 * giver wrote. The fields are plain, so that a taker without happens-before, or two takers,
 * are a data race in every memory mode, and cost no scheduling points.
 */
#ifndef ITEMS_H
#define ITEMS_H

#include "scenario.h"
#include "task/task.h"

#define ITEMS_MAX 12

struct item {
    alignas(struct hd_task) char task[sizeof(struct hd_task)]; /* has no fixed size */
    unsigned number;
    bool taken;
};

struct items {
    struct item all[ITEMS_MAX];
    unsigned given;
};

/* A new item for a queue, numbered from 1. Context: one thread, the giver. */
static inline struct hd_task *item_give(struct items *items)
{
    MODEL_CHECK(items->given < ITEMS_MAX);
    struct item *item = &items->all[items->given++];
    MODEL_WRITE(item->number, items->given);
    MODEL_WRITE(item->taken, false);
    return (struct hd_task *)(void *)item->task;
}

/* What came out of a queue; NULL is nothing. Returns its number. */
static inline unsigned item_take(struct hd_task *task)
{
    if (!task) return 0;
    struct item *item = (struct item *)(void *)task;
    MODEL_CHECK(!MODEL_READ(item->taken));
    MODEL_WRITE(item->taken, true);
    return MODEL_READ(item->number);
}

/* At the end, after all joins. */
static inline void items_check(struct items *items)
{
    for (unsigned i = 0; i < items->given; i++) {
        MODEL_NOTE("item", i + 1);
        MODEL_CHECK(items->all[i].taken);
    }
}

#endif
