/* SPDX-License-Identifier: MIT */
#include "sched/bag.h"

#include <stdlib.h>

#include "base/check.h"

void hdi_bag_init(struct hdi_bag *bag)
{
    *bag = (struct hdi_bag){0};
}

void hdi_bag_fini(struct hdi_bag *bag)
{
    free(bag->tasks);
    hdi_bag_init(bag);
}

bool hdi_bag_reserve(struct hdi_bag *bag, size_t capacity)
{
    if (capacity <= bag->capacity) return true;
    size_t room = bag->capacity ? bag->capacity : 64;
    while (room < capacity) room *= 2;
    struct hd_task **tasks = realloc(bag->tasks, room * sizeof(*tasks));
    if (!tasks) return false;
    bag->tasks = tasks;
    bag->capacity = room;
    return true;
}

bool hdi_bag_push(struct hdi_bag *bag, struct hd_task *task)
{
    const size_t count = hdi_bag_count(bag);
    if (count == bag->capacity) return false;
    bag->tasks[count] = task;
    hdi_store_relaxed(&bag->count, count + 1);
    return true;
}

struct hd_task *hdi_bag_take(struct hdi_bag *bag, size_t index)
{
    const size_t last = hdi_bag_count(bag) - 1;
    HDI_ASSERT(index <= last && last < bag->capacity);
    struct hd_task *task = bag->tasks[index];
    bag->tasks[index] = bag->tasks[last]; /* BAG-1 */
    hdi_store_relaxed(&bag->count, last);
    return task;
}
