/* SPDX-License-Identifier: MIT
 *
 * segments: a queue of items of one size that grows by pieces and keeps those it has
 * emptied for reuse. It never allocates by itself: who wants to put an item in brings a
 * piece when there is none.
 *
 * Owner  whoever holds the lock of the channel it is in; no atomics.
 */
#ifndef HDI_SYNC_SEGMENTS_H
#define HDI_SYNC_SEGMENTS_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hdi_segment {
    struct hdi_segment *next;
    alignas(16) unsigned char items[];
};

/* SEG-1: items lie in [begin, per) of `first`, all of those between, [0, end) of `last`.
 * SEG-2: a segment in use has an item, or is the only one. */
struct hdi_segments {
    struct hdi_segment *first, *last; /* in use; NULL if none */
    struct hdi_segment *spare;        /* emptied */
    size_t count;                     /* items */
    uint32_t item_bytes, per;         /* constant: items in a segment */
    uint32_t begin, end;
    uint32_t used, spares;            /* segments */
};

void hdi_segments_init(struct hdi_segments *queue, size_t item_bytes);
void hdi_segments_fini(struct hdi_segments *queue);

/* A new piece for the queue; NULL if out of memory. Context: any. */
struct hdi_segment *hdi_segment_create(const struct hdi_segments *queue);
void hdi_segment_free(struct hdi_segment *segment);

/* Bring a piece. */
void hdi_segments_add(struct hdi_segments *queue, struct hdi_segment *segment);

/* Where the next item goes; NULL if a piece must be brought first. */
void *hdi_segments_back(struct hdi_segments *queue);

/* What hdi_segments_back() returned has been written: it is in the queue. */
void hdi_segments_push(struct hdi_segments *queue);

/* The oldest item; there is one. */
const void *hdi_segments_front(const struct hdi_segments *queue);

/* It was copied out: drop it. */
void hdi_segments_pop(struct hdi_segments *queue);

/* A piece more than is likely to be of use, for the caller to free; mostly NULL. */
struct hdi_segment *hdi_segments_excess(struct hdi_segments *queue);

#endif
