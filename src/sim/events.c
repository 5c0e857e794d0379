/* SPDX-License-Identifier: MIT */
#include "sim/events.h"

#include <stdlib.h>

#include "base/check.h"

void hdi_events_init(struct hdi_events *events, size_t capacity)
{
    *events = (struct hdi_events){.capacity = capacity};
}

void hdi_events_fini(struct hdi_events *events)
{
    HD_CHECK_MSG(events->heap.count == 0, "a simulated event is left");
    free(events->heap.nodes);
}

static void grow(struct hdi_heap *heap)
{
    const size_t capacity = heap->capacity ? 2 * heap->capacity : 64; /* EVENTS-2 */
    struct hdi_heap_node **nodes = realloc(heap->nodes, capacity * sizeof(nodes[0]));
    HD_CHECK_MSG(nodes != NULL, "the simulation is out of memory");
    heap->nodes = nodes;
    heap->capacity = capacity;
}

void hdi_events_add(struct hdi_events *events, struct hdi_heap_node *node, int64_t at_ns)
{
    struct hdi_heap *heap = &events->heap;
    if (heap->count == heap->capacity) grow(heap);
    node->key = at_ns;
    node->sequence = events->sequence++; /* EVENTS-1 */
    const bool in = hdi_heap_insert(heap, node);
    HD_CHECK(in);
    if (heap->count > events->most) events->most = heap->count;
}

void hdi_events_remove(struct hdi_events *events, struct hdi_heap_node *node)
{
    hdi_heap_remove(&events->heap, node);
}

struct hdi_heap_node *hdi_events_take(struct hdi_events *events, int64_t now_ns)
{
    const struct hdi_heap_node *first = hdi_heap_peek(&events->heap);
    if (!first || first->key > now_ns) return NULL;
    events->taken++;
    return hdi_heap_pop(&events->heap);
}
