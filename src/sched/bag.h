/* SPDX-License-Identifier: MIT
 *
 * bag: the sim world's run queue: any task in it may be the next.
 *
 * Owner  the thread that drives the simulation; others may ask only for the count.
 */
#ifndef HDI_SCHED_BAG_H
#define HDI_SCHED_BAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomics.h"
#include "base/check.h"

struct hd_task;

/* BAG-1: tasks[0 .. count) in the order they came, except where taken ones left gaps
 * that were filled from the end; so the content depends on nothing but the calls. */
struct hdi_bag {
    struct hd_task **tasks;
    _Atomic(size_t) count; /* owner writes, all read: relaxed, a hint to others */
    size_t capacity;
};

void hdi_bag_init(struct hdi_bag *bag);
void hdi_bag_fini(struct hdi_bag *bag);

/* Context: any. */
static inline size_t hdi_bag_count(struct hdi_bag *bag)
{
    return hdi_load_relaxed(&bag->count);
}

/* Room for `capacity` tasks in all. Returns false if memory is short. */
bool hdi_bag_reserve(struct hdi_bag *bag, size_t capacity);

/* Returns false, changing nothing, if memory is short. It grows by itself: were there no room, the
 * task would be elsewhere for a while, and which tasks can be chosen would depend on how large the
 * bag had been before. */
static inline bool hdi_bag_push(struct hdi_bag *bag, struct hd_task *task)
{
    const size_t count = hdi_bag_count(bag);
    if (hdi_unlikely(count == bag->capacity) && !hdi_bag_reserve(bag, count + 1)) return false;
    bag->tasks[count] = task;
    hdi_store_relaxed(&bag->count, count + 1);
    return true;
}

/* Take the task at `index`, in [0, count). */
static inline struct hd_task *hdi_bag_take(struct hdi_bag *bag, size_t index)
{
    const size_t last = hdi_bag_count(bag) - 1;
    HDI_ASSERT(index <= last && last < bag->capacity);
    struct hd_task *task = bag->tasks[index];
    bag->tasks[index] = bag->tasks[last]; /* BAG-1 */
    hdi_store_relaxed(&bag->count, last);
    return task;
}

#endif
