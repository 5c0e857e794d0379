/* SPDX-License-Identifier: MIT */
#include "sched/bag.h"

#include <stdlib.h>

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
