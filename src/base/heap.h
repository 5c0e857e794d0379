/* SPDX-License-Identifier: MIT
 *
 * heap: intrusive binary min-heap of nodes ordered by (key, sequence).
 *
 * Owner  whoever holds the structure; no atomics. The caller provides the array, so
 *        that inserting cannot fail for lack of memory.
 * Ties   broken by `sequence`, so that the order is total and repeatable.
 */
#ifndef HDI_BASE_HEAP_H
#define HDI_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hdi_heap_node {
    int64_t key;
    uint64_t sequence;
    size_t index; /* HEAP-2: heap->nodes[node->index] == node while inside */
};

/* HEAP-1: nodes[(i - 1) / 2] is not after nodes[i] for 0 < i < count. */
struct hdi_heap {
    struct hdi_heap_node **nodes;
    size_t count;
    size_t capacity;
};

void hdi_heap_init(struct hdi_heap *heap, struct hdi_heap_node **nodes, size_t capacity);

/* Returns false, changing nothing, if the heap is full. */
bool hdi_heap_insert(struct hdi_heap *heap, struct hdi_heap_node *node);

/* The first node, staying inside; NULL if empty. */
struct hdi_heap_node *hdi_heap_peek(const struct hdi_heap *heap);

/* The first node, taken out; NULL if empty. */
struct hdi_heap_node *hdi_heap_pop(struct hdi_heap *heap);

/* Take out a node that is inside. */
void hdi_heap_remove(struct hdi_heap *heap, struct hdi_heap_node *node);

#endif
