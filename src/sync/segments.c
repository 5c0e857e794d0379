/* SPDX-License-Identifier: MIT */
#include "sync/segments.h"

#include <stdlib.h>

#include "base/check.h"

enum {
    SEGMENT_BYTES = HDI_MODEL ? 32 : 4096, /* of items, or one item if that is larger */
    SPARES_MIN = 4,
};

void hdi_segments_init(struct hdi_segments *queue, size_t item_bytes)
{
    const size_t fit = SEGMENT_BYTES / (item_bytes ? item_bytes : 1);
    *queue = (struct hdi_segments){.item_bytes = (uint32_t)item_bytes,
                                   .per = fit ? (uint32_t)fit : 1};
}

static void free_all(struct hdi_segment *segment)
{
    for (struct hdi_segment *next; segment; segment = next) {
        next = segment->next;
        free(segment);
    }
}

void hdi_segments_fini(struct hdi_segments *queue)
{
    free_all(queue->first);
    free_all(queue->spare);
}

struct hdi_segment *hdi_segment_create(const struct hdi_segments *queue)
{
    return malloc(sizeof(struct hdi_segment) + (size_t)queue->per * queue->item_bytes);
}

void hdi_segment_free(struct hdi_segment *segment)
{
    free(segment);
}

void hdi_segments_add(struct hdi_segments *queue, struct hdi_segment *segment)
{
    segment->next = queue->spare;
    queue->spare = segment;
    queue->spares++;
}

static struct hdi_segment *take_spare(struct hdi_segments *queue)
{
    struct hdi_segment *segment = queue->spare;
    queue->spare = segment->next;
    queue->spares--;
    return segment;
}

static void append(struct hdi_segments *queue, struct hdi_segment *segment)
{
    segment->next = NULL;
    if (queue->last) {
        queue->last->next = segment;
    } else {
        queue->first = segment;
        queue->begin = 0;
    }
    queue->last = segment;
    queue->end = 0;
    queue->used++;
}

void *hdi_segments_back(struct hdi_segments *queue)
{
    if (!queue->last || queue->end == queue->per) {
        if (!queue->spare) return NULL;
        append(queue, take_spare(queue));
    }
    return queue->last->items + (size_t)queue->end * queue->item_bytes;
}

void hdi_segments_push(struct hdi_segments *queue)
{
    HDI_ASSERT(queue->end < queue->per); /* SEG-1 */
    queue->end++;
    queue->count++;
}

const void *hdi_segments_front(const struct hdi_segments *queue)
{
    HDI_ASSERT(queue->count > 0);
    return queue->first->items + (size_t)queue->begin * queue->item_bytes;
}

void hdi_segments_pop(struct hdi_segments *queue)
{
    queue->count--;
    if (++queue->begin < queue->per && queue->count > 0) return;
    if (queue->count == 0 && queue->first == queue->last) { /* Begin anew in the same one. */
        queue->begin = queue->end = 0;
        return;
    }
    struct hdi_segment *emptied = queue->first;
    queue->first = emptied->next;
    queue->begin = 0;
    queue->used--;
    hdi_segments_add(queue, emptied);
}

struct hdi_segment *hdi_segments_excess(struct hdi_segments *queue)
{
    return queue->spares > queue->used + SPARES_MIN ? take_spare(queue) : NULL;
}
