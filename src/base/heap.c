/* SPDX-License-Identifier: MIT */
#include "base/heap.h"

#include "base/check.h"

static bool before(const struct hdi_heap_node *a, const struct hdi_heap_node *b)
{
    if (a->key != b->key) return a->key < b->key;
    return a->sequence < b->sequence;
}

static void place(struct hdi_heap *heap, struct hdi_heap_node *node, size_t index)
{
    heap->nodes[index] = node;
    node->index = index; /* HEAP-2 */
}

static void sift_up(struct hdi_heap *heap, struct hdi_heap_node *node, size_t index)
{
    while (index > 0) {
        struct hdi_heap_node *parent = heap->nodes[(index - 1) / 2];
        if (!before(node, parent)) break;
        place(heap, parent, index);
        index = (index - 1) / 2;
    }
    place(heap, node, index);
}

static void sift_down(struct hdi_heap *heap, struct hdi_heap_node *node, size_t index)
{
    for (;;) {
        size_t child = 2 * index + 1;
        if (child >= heap->count) break;
        if (child + 1 < heap->count && before(heap->nodes[child + 1], heap->nodes[child])) {
            child++;
        }
        if (!before(heap->nodes[child], node)) break;
        place(heap, heap->nodes[child], index);
        index = child;
    }
    place(heap, node, index);
}

void hdi_heap_init(struct hdi_heap *heap, struct hdi_heap_node **nodes, size_t capacity)
{
    *heap = (struct hdi_heap){.nodes = nodes, .capacity = capacity};
}

bool hdi_heap_insert(struct hdi_heap *heap, struct hdi_heap_node *node)
{
    if (heap->count == heap->capacity) return false;
    sift_up(heap, node, heap->count++);
    return true;
}

struct hdi_heap_node *hdi_heap_peek(const struct hdi_heap *heap)
{
    return heap->count ? heap->nodes[0] : NULL;
}

struct hdi_heap_node *hdi_heap_pop(struct hdi_heap *heap)
{
    struct hdi_heap_node *first = hdi_heap_peek(heap);
    if (first) hdi_heap_remove(heap, first);
    return first;
}

void hdi_heap_remove(struct hdi_heap *heap, struct hdi_heap_node *node)
{
    const size_t index = node->index;
    HDI_ASSERT(index < heap->count && heap->nodes[index] == node); /* HEAP-2 */
    struct hdi_heap_node *last = heap->nodes[--heap->count];
    if (last == node) return;
    if (before(last, node)) {
        sift_up(heap, last, index);
    } else {
        sift_down(heap, last, index);
    }
}
