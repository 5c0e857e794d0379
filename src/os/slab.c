/* SPDX-License-Identifier: MIT
 *
 * slab, the slow paths: chunks, batches, loose objects. See slab.h.
 */
#include "os/slab.h"

#include "os/memory.h"

/* Each chunk is twice the one before, so that a small program stays small and a large
 * one has few. */
#define CHUNK_BYTES_MIN ((size_t)64 << 10)
#define CHUNK_BYTES_MAX ((size_t)1 << 20)

struct hdi_slab_chunk {
    _Alignas(HDI_SLAB_ALIGN) struct hdi_slab_chunk *next;
    size_t bytes;
    size_t capacity;
    size_t carved;
};
_Static_assert(sizeof(struct hdi_slab_chunk) % HDI_SLAB_ALIGN == 0, "objects are aligned");

static struct hdi_slab_link *link_of(const struct hdi_slab *slab, void *object)
{
    return (struct hdi_slab_link *)(void *)((char *)object + slab->link_offset);
}

static void *object_at(const struct hdi_slab *slab, struct hdi_slab_chunk *chunk, size_t i)
{
    return (char *)(chunk + 1) + i * slab->object_bytes;
}

void hdi_slab_init(struct hdi_slab *slab, size_t object_bytes, size_t link_offset)
{
    HD_CHECK(link_offset >= sizeof(void *) && link_offset % sizeof(void *) == 0);
    HD_CHECK(link_offset + sizeof(struct hdi_slab_link) <= object_bytes);
    const size_t mask = HDI_SLAB_ALIGN - 1;
    *slab = (struct hdi_slab){
        .object_bytes = (object_bytes + mask) & ~mask,
        .link_offset = link_offset,
    };
}

void hdi_slab_fini(struct hdi_slab *slab)
{
    while (slab->chunks) {
        struct hdi_slab_chunk *chunk = slab->chunks;
        slab->chunks = chunk->next;
        hdi_memory_unmap(chunk, chunk->bytes);
    }
    slab->batches = slab->loose = NULL;
    slab->loose_count = 0;
    slab->carved_count = 0;
}

/* ---- carving; the caller holds the lock ---- */

static size_t next_chunk_bytes(const struct hdi_slab *slab)
{
    size_t bytes = slab->chunks ? 2 * slab->chunks->bytes : CHUNK_BYTES_MIN;
    if (bytes > CHUNK_BYTES_MAX) bytes = CHUNK_BYTES_MAX;
    const size_t least = sizeof(struct hdi_slab_chunk) + slab->object_bytes;
    const size_t page = hdi_memory_page_bytes();
    return bytes >= least ? bytes : (least + page - 1) & ~(page - 1);
}

static bool add_chunk(struct hdi_slab *slab)
{
    const size_t bytes = next_chunk_bytes(slab);
    struct hdi_slab_chunk *chunk = hdi_memory_map(bytes);
    if (!chunk) return false;
    chunk->bytes = bytes;
    chunk->capacity = (bytes - sizeof(*chunk)) / slab->object_bytes;
    chunk->next = slab->chunks;
    slab->chunks = chunk;
    return true;
}

/* Returns how many new objects were stored in `objects`; 0 if memory is short. */
static unsigned carve(struct hdi_slab *slab, void **objects, unsigned wanted)
{
    const struct hdi_slab_chunk *newest = slab->chunks;
    if ((!newest || newest->carved == newest->capacity) && !add_chunk(slab)) return 0; /* SLAB-3 */
    struct hdi_slab_chunk *chunk = slab->chunks;
    unsigned count = 0;
    while (count < wanted && chunk->carved < chunk->capacity) {
        objects[count++] = object_at(slab, chunk, chunk->carved++);
    }
    slab->carved_count += count;
    return count;
}

/* ---- batches and loose objects; the caller holds the lock ---- */

static void push_batch(struct hdi_slab *slab, void *batch)
{
    link_of(slab, batch)->next_batch = slab->batches;
    slab->batches = batch;
}

/* Returns objects linked by next: a batch, or else all the loose ones; NULL if none. */
static void *pop_free(struct hdi_slab *slab)
{
    void *first = slab->batches;
    if (first) {
        slab->batches = link_of(slab, first)->next_batch;
        return first;
    }
    first = slab->loose;
    slab->loose = NULL;
    slab->loose_count = 0;
    return first;
}

static void push_loose(struct hdi_slab *slab, void *object)
{
    link_of(slab, object)->next = slab->loose;
    slab->loose = object;
    if (++slab->loose_count < HDI_SLAB_BATCH) return;
    push_batch(slab, slab->loose);
    slab->loose = NULL;
    slab->loose_count = 0;
}

/* Makes a batch the loose objects if there are none, so that one can be taken. */
static void *pop_loose(struct hdi_slab *slab)
{
    if (!slab->loose) {
        slab->loose = pop_free(slab);
        for (void *o = slab->loose; o; o = link_of(slab, o)->next) slab->loose_count++;
    }
    void *object = slab->loose;
    if (!object) return NULL;
    slab->loose = link_of(slab, object)->next;
    slab->loose_count--;
    return object;
}

/* ---- without a cache ---- */

void *hdi_slab_take_shared(struct hdi_slab *slab)
{
    hdi_mutex_lock(&slab->lock);
    void *object = pop_loose(slab);
    if (!object) (void)carve(slab, &object, 1); /* or stays NULL */
    hdi_mutex_unlock(&slab->lock);
    return object;
}

void hdi_slab_give_shared(struct hdi_slab *slab, void *object)
{
    hdi_mutex_lock(&slab->lock);
    push_loose(slab, object);
    hdi_mutex_unlock(&slab->lock);
}

/* ---- caches ---- */

void hdi_slab_cache_init(struct hdi_slab_cache *cache, struct hdi_slab *slab)
{
    cache->slab = slab;
    cache->count = 0;
}

bool hdi_slab_refill(struct hdi_slab_cache *cache)
{
    struct hdi_slab *slab = cache->slab;
    HDI_ASSERT(cache->count == 0);
    hdi_mutex_lock(&slab->lock);
    void *first = pop_free(slab);
    if (!first) cache->count = carve(slab, cache->objects, HDI_SLAB_BATCH);
    hdi_mutex_unlock(&slab->lock);
    /* Walked without the lock: the objects may be cold, and they are ours now. */
    for (void *o = first; o; o = link_of(slab, o)->next) cache->objects[cache->count++] = o;
    return cache->count > 0;
}

/* Give the `count` oldest objects to the slab as one batch. */
static void spill_oldest(struct hdi_slab_cache *cache, unsigned count)
{
    struct hdi_slab *slab = cache->slab;
    void *batch = NULL;
    for (unsigned i = 0; i < count; i++) {
        link_of(slab, cache->objects[i])->next = batch;
        batch = cache->objects[i];
    }
    hdi_mutex_lock(&slab->lock);
    push_batch(slab, batch);
    hdi_mutex_unlock(&slab->lock);
    cache->count -= count;
    for (unsigned i = 0; i < cache->count; i++) cache->objects[i] = cache->objects[i + count];
}

void hdi_slab_spill(struct hdi_slab_cache *cache)
{
    spill_oldest(cache, HDI_SLAB_BATCH);
}

void hdi_slab_cache_fini(struct hdi_slab_cache *cache)
{
    while (cache->count > 0) {
        const unsigned count = cache->count < HDI_SLAB_BATCH ? cache->count : HDI_SLAB_BATCH;
        spill_oldest(cache, count);
    }
}

/* ---- walking ---- */

void hdi_slab_for_each(struct hdi_slab *slab, void (*fn)(void *object, void *arg), void *arg)
{
    hdi_mutex_lock(&slab->lock);
    struct hdi_slab_chunk *chunk = slab->chunks;
    size_t carved = chunk ? chunk->carved : 0;
    hdi_mutex_unlock(&slab->lock);
    while (chunk) {
        for (size_t i = 0; i < carved; i++) fn(object_at(slab, chunk, i), arg);
        chunk = chunk->next;
        carved = chunk ? chunk->capacity : 0; /* SLAB-3 */
    }
}

size_t hdi_slab_carved(struct hdi_slab *slab)
{
    hdi_mutex_lock(&slab->lock);
    const size_t count = slab->carved_count;
    hdi_mutex_unlock(&slab->lock);
    return count;
}
