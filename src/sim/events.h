/* SPDX-License-Identifier: MIT
 *
 * events: what is to happen at a virtual time, in the order (time, sequence).
 *
 * A binary heap: in and out in O(log n), the first in O(1). It has a capacity, which is there for
 * those who can do without: whoever adds what can wait, or be lost, asks first whether there is
 * room. The rest, such as what answers a packet that was taken out, or ends a connection, goes
 * over it; there are a few of those for each connection.
 *
 * Owner      whoever holds the lock around it; no atomics.
 * Ownership  a node is the queue's from add until take or remove.
 *
 *   EVENTS-1  events of the same time are taken in the order they were added.
 *   EVENTS-2  memory is never taken for more than twice as many as there were at once.
 */
#ifndef HDI_SIM_EVENTS_H
#define HDI_SIM_EVENTS_H

#include "base/heap.h"

struct hdi_events {
    struct hdi_heap heap;
    uint64_t sequence; /* of the next one: EVENTS-1 */
    size_t capacity;
    size_t most;       /* that there were at once */
    uint64_t taken;    /* in all */
};

/* Any node will do that is in no queue: what is in it is set by hdi_events_add(). */
void hdi_events_init(struct hdi_events *events, size_t capacity);
void hdi_events_fini(struct hdi_events *events);

static inline size_t hdi_events_count(const struct hdi_events *events)
{
    return events->heap.count;
}

/* How many more there is room for. */
static inline size_t hdi_events_room(const struct hdi_events *events)
{
    return events->heap.count < events->capacity ? events->capacity - events->heap.count : 0;
}

/* When the first is; INT64_MAX: there is none. */
static inline int64_t hdi_events_next(const struct hdi_events *events)
{
    const struct hdi_heap_node *first = hdi_heap_peek(&events->heap);
    return first ? first->key : INT64_MAX;
}

/* Whether or not there is room. */
void hdi_events_add(struct hdi_events *events, struct hdi_heap_node *node, int64_t at_ns);
void hdi_events_remove(struct hdi_events *events, struct hdi_heap_node *node);

/* The first, if its time has come by now; NULL if there is none. */
struct hdi_heap_node *hdi_events_take(struct hdi_events *events, int64_t now_ns);

#endif
