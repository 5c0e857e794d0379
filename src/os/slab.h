/* SPDX-License-Identifier: MIT
 *
 * slab: objects of one size, carved from chunks and recycled, never unmapped before fini.
 *
 * Slab       central, one per runtime and size; any thread, under its lock.
 * Cache      one per worker; only that worker, no atomics. An array of free objects, so
 *            that taking and giving do not touch the object.
 * Ownership  an object belongs to whoever took it, until given back anywhere.
 * Memory     type-stable: a free object stays mapped, and its words other than the link
 *            keep their values, so that a late reader of an atomic word in it reads
 *            something that was once true. Freshly carved objects are zeroed; recycled
 *            ones are not. A chunk costs pages only as objects are used.
 *
 * Invariants
 *   SLAB-1  a free object is in exactly one place: a cache's array, a batch, or loose.
 *   SLAB-2  only struct hdi_slab_link at `link_offset` of a free object is ever written.
 *   SLAB-3  all chunks but the newest are carved to the end.
 *
 * Rejected   the free list through the object's first word: a task's first word is its
 *            state, read by others even when the task is free.
 * Rejected   poisoning free objects for AddressSanitizer: late reads are legal here.
 */
#ifndef HDI_OS_SLAB_H
#define HDI_OS_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "os/mutex.h"

enum {
    HDI_SLAB_ALIGN = 64,
    HDI_SLAB_BATCH = HDI_MODEL ? 4 : 32,
    HDI_SLAB_CACHE_MAX = 2 * HDI_SLAB_BATCH,
};

/* What a free object holds at `link_offset`: 16 bytes. */
struct hdi_slab_link {
    void *next;       /* in the same batch */
    void *next_batch; /* first of its batch only */
};

struct hdi_slab_chunk;

struct hdi_slab {
    struct hdi_mutex lock;
    size_t object_bytes;           /* multiple of HDI_SLAB_ALIGN; fixed */
    size_t link_offset;            /* fixed */
    void *batches;                 /* full and partial batches, by next_batch */
    void *loose;                   /* objects given one by one, by next */
    unsigned loose_count;          /* fewer than HDI_SLAB_BATCH */
    struct hdi_slab_chunk *chunks; /* newest first */
    size_t carved_count;
};

struct hdi_slab_cache {
    struct hdi_slab *slab;
    unsigned count;
    void *objects[HDI_SLAB_CACHE_MAX]; /* [0, count), oldest first */
};

/* `object_bytes` is rounded up to HDI_SLAB_ALIGN; 16 bytes at `link_offset` must lie
 * inside the object and past its first word. Nothing is allocated before the first
 * take. */
void hdi_slab_init(struct hdi_slab *slab, size_t object_bytes, size_t link_offset);

/* Free every object, taken or not. Caches must not be used afterwards. */
void hdi_slab_fini(struct hdi_slab *slab);

void hdi_slab_cache_init(struct hdi_slab_cache *cache, struct hdi_slab *slab);

/* Give everything back to the slab. */
void hdi_slab_cache_fini(struct hdi_slab_cache *cache);

/* For threads without a cache.
 * Context: any thread.  Returns: an object, now the caller's; NULL if memory is short. */
void *hdi_slab_take_shared(struct hdi_slab *slab);
void hdi_slab_give_shared(struct hdi_slab *slab, void *object);

/* Call fn(object, arg) for every object carved before the call, free or not; the object's
 * own words tell which. fn may take and give.
 * Context: any thread. */
void hdi_slab_for_each(struct hdi_slab *slab, void (*fn)(void *object, void *arg), void *arg);

/* Objects that exist, free or not. */
size_t hdi_slab_carved(struct hdi_slab *slab);

bool hdi_slab_refill(struct hdi_slab_cache *cache);
void hdi_slab_spill(struct hdi_slab_cache *cache);

/* Context: the cache's owner.  Returns: an object, now the caller's; NULL if memory is
 * short. */
static inline void *hdi_slab_take(struct hdi_slab_cache *cache)
{
    if (hdi_unlikely(cache->count == 0) && !hdi_slab_refill(cache)) return NULL;
    return cache->objects[--cache->count];
}

/* Context: the cache's owner. */
static inline void hdi_slab_give(struct hdi_slab_cache *cache, void *object)
{
    if (hdi_unlikely(cache->count == HDI_SLAB_CACHE_MAX)) hdi_slab_spill(cache);
    cache->objects[cache->count++] = object;
}

#endif
