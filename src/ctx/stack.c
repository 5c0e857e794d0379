/* SPDX-License-Identifier: MIT
 *
 * stack, the slow paths: slabs, guards, batches, trimming. See stack.h.
 *
 * System calls are made outside the pool's lock, except for the mapping of a new slab,
 * which happens once in a few hundred stacks.
 */
#include "ctx/stack.h"

#include <errno.h>
#include <stdlib.h>

#include "os/memory.h"

#if HDI_VALGRIND
#include <valgrind/valgrind.h>
#endif

/* One slab is a few hundred default stacks: large enough that a million stacks need
 * some 5,000 mappings even if the kernel merges none, small enough to fit a tight
 * RLIMIT_AS. */
#define SLAB_BYTES  ((size_t)20 << 20)
#define COLOUR_STEP 64u
#define COLOURS     (HDI_STACK_COLOUR_MAX / COLOUR_STEP + 1)
#define CANARIES    16
/* What trimming leaves warm in the pool, per class: a burst that comes again soon should
 * not pay for faulting its pages in again (1 us to trim a stack, 3 us to touch it). */
#define WARM_BYTES  ((size_t)16 << 20)
/* The largest stack that a cache keeps. */
#define KEPT_BYTES  WARM_BYTES
/* Under AUTO, how many stacks may be guarded by mprotect(), at two mappings each, before
 * canaries take over: the rest of vm.max_map_count (65,530) is the program's. */
#define MPROTECT_MAX 24000

/* SLOT-1: stacks[i] describes slot i for i < carved; later ones are zero. */
struct hdi_stack_slab {
    struct hdi_stack_slab *next;
    char *base;
    size_t bytes;
    unsigned slots;
    unsigned carved;
    struct hdi_stack stacks[];
};

struct large_stack {
    struct hdi_stack stack;
    struct hdi_list link; /* pool->large */
};

static size_t guard_bytes(const struct hdi_stack_pool *pool)
{
    return (size_t)1 << pool->guard_shift;
}

static size_t class_bytes(const struct hdi_stack_pool *pool, unsigned size_class)
{
    const size_t bytes = (size_t)HDI_STACK_BYTES_MIN << size_class;
    return bytes < pool->page_bytes ? pool->page_bytes : bytes;
}

/* A stack, its guard, and one page that nobody uses: an odd number of pages, so that the
 * tops of neighbours fall into different sets of the cache. Without it 1,000 fibers in
 * turn take 80 ns a hop, with it 45. */
static size_t slot_bytes(const struct hdi_stack_pool *pool, unsigned size_class)
{
    return class_bytes(pool, size_class) + guard_bytes(pool) + pool->page_bytes;
}

/* ---- canaries ---- */

static uint64_t *canaries(const struct hdi_stack *stack)
{
    return (uint64_t *)(void *)stack->low - CANARIES;
}

/* Different everywhere, so that a copied stack frame does not pass. */
static uint64_t canary_at(const volatile uint64_t *word)
{
    return (uint64_t)(uintptr_t)word * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

static void arm_canaries(struct hdi_stack *stack)
{
    uint64_t *words = canaries(stack);
    for (int i = 0; i < CANARIES; i++) words[i] = canary_at(&words[i]);
}

/* HDI_NO_SANITIZE: an instrumented frame may have poisoned what it ran over. */
HDI_NO_SANITIZE bool hdi_stack_canary_intact(const struct hdi_stack *stack)
{
    const volatile uint64_t *words = canaries(stack);
    uint64_t broken = 0;
    for (int i = 0; i < CANARIES; i++) broken |= words[i] ^ canary_at(&words[i]);
    return broken == 0;
}

/* ---- guards ---- */

static struct iovec guard_span(const struct hdi_stack *stack)
{
    const size_t bytes = (size_t)1 << stack->guard_shift;
    return (struct iovec){stack->low - bytes, bytes};
}

static bool guard_by_madvise(struct hdi_stack *batch)
{
    struct iovec spans[HDI_STACK_BATCH] = {guard_span(batch)};
    size_t count = 1;
    for (struct hdi_stack *s = batch->next; s; s = s->next) spans[count++] = guard_span(s);
    if (hdi_memory_guard_install(spans, count) != 0) return false;
    for (struct hdi_stack *s = batch; s; s = s->next) s->guard = HD_GUARD_MADVISE;
    return true;
}

/* Guards what it can: each stack remembers its own kind. */
static bool guard_by_mprotect(struct hdi_stack *batch)
{
    for (struct hdi_stack *s = batch; s; s = s->next) {
        const struct iovec span = guard_span(s);
        if (s->guard == HD_GUARD_MPROTECT) continue;
        if (hdi_memory_guard_protect(&span) != 0) return false;
        s->guard = HD_GUARD_MPROTECT;
    }
    return true;
}

static bool guard_by_canary(struct hdi_stack *batch)
{
    for (struct hdi_stack *s = batch; s; s = s->next) {
        if (s->guard != HD_GUARD_AUTO) continue;
        arm_canaries(s);
        s->guard = HD_GUARD_CANARY;
    }
    return true;
}

static bool guard_with(enum hd_guard kind, struct hdi_stack *batch)
{
    switch (kind) {
    case HD_GUARD_MADVISE: return guard_by_madvise(batch);
    case HD_GUARD_MPROTECT: return guard_by_mprotect(batch);
    case HD_GUARD_CANARY: return guard_by_canary(batch);
    case HD_GUARD_AUTO: break;
    }
    return false;
}

/* The kind for the next batch. The caller holds the lock. */
static enum hd_guard next_kind(const struct hdi_stack_pool *pool)
{
    const bool enough = pool->may_fall_back && pool->carved_count > MPROTECT_MAX;
    return pool->guard == HD_GUARD_MPROTECT && enough ? HD_GUARD_CANARY : pool->guard;
}

/* Establish STACK-2 for a batch that nobody else can see. */
static bool guard_batch(const struct hdi_stack_pool *pool, enum hd_guard kind,
                        struct hdi_stack *batch)
{
    if (guard_with(kind, batch)) return true;
    if (!pool->may_fall_back) return false;
    return guard_by_mprotect(batch) || guard_by_canary(batch);
}

/* ---- batches; the caller holds the lock ---- */

static void push_batch(struct hdi_stack **list, struct hdi_stack *batch)
{
    batch->owner = *list; /* STACK-3 */
    *list = batch;
}

static struct hdi_stack *pop_batch(struct hdi_stack **list)
{
    struct hdi_stack *batch = *list;
    if (batch) *list = batch->owner;
    return batch;
}

static void push_warm(struct hdi_stack_class *class, struct hdi_stack *batch)
{
    class->warm_count += batch->batch;
    push_batch(&class->warm, batch);
}

static struct hdi_stack *pop_warm(struct hdi_stack_class *class)
{
    struct hdi_stack *batch = pop_batch(&class->warm);
    if (batch) class->warm_count -= batch->batch;
    return batch;
}

/* ---- carving; the caller holds the lock ---- */

static void describe(struct hdi_stack_pool *pool, struct hdi_stack *stack, char *slot,
                     size_t bytes, unsigned index)
{
    stack->low = slot + guard_bytes(pool);
    stack->top = stack->low + bytes - index % COLOURS * COLOUR_STEP; /* STACK-1 */
    stack->bytes = (uint32_t)bytes;
    stack->guard = HD_GUARD_AUTO;
    stack->guard_shift = (uint8_t)pool->guard_shift;
#if HDI_VALGRIND
    stack->valgrind_id = VALGRIND_STACK_REGISTER(stack->low, stack->low + bytes - 1);
#endif
    pool->carved_count++;
}

/* The stack's memory is about to go. */
static void undescribe(struct hdi_stack_pool *pool, struct hdi_stack *stack)
{
    hdi_stack_mark_(stack, true); /* the next mapping here may be anybody's */
#if HDI_VALGRIND
    VALGRIND_STACK_DEREGISTER(stack->valgrind_id);
#endif
    pool->carved_count--;
}

static struct hdi_stack_slab *create_slab(struct hdi_stack_pool *pool, unsigned size_class,
                                          size_t slots)
{
    const size_t bytes = slots * slot_bytes(pool, size_class);
    struct hdi_stack_slab *slab = calloc(1, sizeof(*slab) + slots * sizeof(slab->stacks[0]));
    if (!slab) return NULL;
    slab->base = hdi_memory_map(bytes);
    if (!slab->base) {
        free(slab);
        return NULL;
    }
    slab->bytes = bytes;
    slab->slots = (unsigned)slots;
    slab->next = pool->slabs;
    pool->slabs = slab;
    pool->mapped_bytes += bytes;
    return slab;
}

static struct hdi_stack_slab *slab_with_room(struct hdi_stack_pool *pool, unsigned size_class)
{
    struct hdi_stack_class *class = &pool->classes[size_class];
    if (class->slab) return class->slab;
    class->slab = create_slab(pool, size_class, SLAB_BYTES / slot_bytes(pool, size_class));
    if (!class->slab) class->slab = create_slab(pool, size_class, 1); /* Address space is short. */
    return class->slab;
}

/* Returns new stacks without guards; NULL if memory is short. */
static struct hdi_stack *carve(struct hdi_stack_pool *pool, unsigned size_class)
{
    struct hdi_stack_slab *slab = slab_with_room(pool, size_class);
    if (!slab) return NULL;
    const size_t bytes = class_bytes(pool, size_class);
    const size_t stride = slot_bytes(pool, size_class);
    struct hdi_stack *batch = NULL;
    unsigned count = 0;
    while (count < HDI_STACK_BATCH && slab->carved < slab->slots) {
        const unsigned index = slab->carved++;
        struct hdi_stack *stack = &slab->stacks[index]; /* SLOT-1 */
        describe(pool, stack, slab->base + index * stride, bytes, index);
        stack->size_class = (uint8_t)size_class;
        stack->next = batch;
        batch = stack;
        count++;
    }
    HD_CHECK(batch); /* slab_with_room() gave one */
    batch->batch = (uint8_t)count;
    if (slab->carved == slab->slots) pool->classes[size_class].slab = NULL;
    return batch;
}

/* ---- the pool ---- */

static bool kind_works(enum hd_guard kind)
{
    return kind != HD_GUARD_MADVISE || hdi_memory_guard_works();
}

int hdi_stack_pool_init(struct hdi_stack_pool *pool, enum hd_guard guard)
{
    *pool = (struct hdi_stack_pool){.guard = guard, .page_bytes = hdi_memory_page_bytes()};
    if (guard == HD_GUARD_AUTO) {
        pool->may_fall_back = true;
        pool->guard = kind_works(HD_GUARD_MADVISE) ? HD_GUARD_MADVISE : HD_GUARD_MPROTECT;
    } else if (!kind_works(guard)) {
        return -ENOTSUP;
    }
    const size_t at_least = HDI_STACK_GUARD_BYTES;
    const size_t bytes = pool->page_bytes > at_least ? pool->page_bytes : at_least;
    pool->guard_shift = (unsigned)__builtin_ctzll(bytes);
    hdi_list_init(&pool->large);
    return 0;
}

static void destroy_large(struct hdi_stack_pool *pool, struct large_stack *large)
{
    const struct iovec guard = guard_span(&large->stack);
    const size_t bytes = guard.iov_len + large->stack.bytes;
    hdi_list_remove(&large->link);
    pool->mapped_bytes -= bytes;
    undescribe(pool, &large->stack);
    hdi_memory_unmap(guard.iov_base, bytes);
    free(large);
}

static void destroy_slab(struct hdi_stack_pool *pool, struct hdi_stack_slab *slab)
{
    for (unsigned i = 0; i < slab->carved; i++) undescribe(pool, &slab->stacks[i]);
    pool->mapped_bytes -= slab->bytes;
    hdi_memory_unmap(slab->base, slab->bytes);
    free(slab);
}

void hdi_stack_pool_fini(struct hdi_stack_pool *pool)
{
    while (!hdi_list_empty(&pool->large)) {
        destroy_large(pool, hdi_container_of(pool->large.next, struct large_stack, link));
    }
    while (pool->slabs) {
        struct hdi_stack_slab *slab = pool->slabs;
        pool->slabs = slab->next;
        destroy_slab(pool, slab);
    }
    HDI_ASSERT(pool->carved_count == 0 && pool->mapped_bytes == 0);
}

/* Returns a batch that is the caller's alone; NULL if memory is short. */
static struct hdi_stack *pool_take(struct hdi_stack_pool *pool, unsigned size_class)
{
    struct hdi_stack_class *class = &pool->classes[size_class];
    hdi_mutex_lock(&pool->lock);
    struct hdi_stack *batch = pop_warm(class);
    bool bare = false;
    if (!batch) batch = pop_batch(&class->cold);
    if (!batch) {
        bare = true;
        batch = pop_batch(&class->bare);
        if (!batch) batch = carve(pool, size_class);
    }
    const enum hd_guard kind = next_kind(pool);
    hdi_mutex_unlock(&pool->lock);
    if (!bare || !batch || guard_batch(pool, kind, batch)) return batch;
    hdi_mutex_lock(&pool->lock);
    push_batch(&class->bare, batch);
    hdi_mutex_unlock(&pool->lock);
    return NULL;
}

static void pool_give(struct hdi_stack_pool *pool, struct hdi_stack *batch)
{
    hdi_mutex_lock(&pool->lock);
    push_warm(&pool->classes[batch->size_class], batch);
    hdi_mutex_unlock(&pool->lock);
}

/* ---- large stacks ---- */

static void give_large(struct hdi_stack_pool *pool, struct hdi_stack *stack)
{
    hdi_mutex_lock(&pool->lock);
    destroy_large(pool, hdi_container_of(stack, struct large_stack, stack));
    hdi_mutex_unlock(&pool->lock);
}

static size_t whole_pages(const struct hdi_stack_pool *pool, size_t bytes)
{
    return (bytes + pool->page_bytes - 1) & ~(pool->page_bytes - 1);
}

static struct hdi_stack *take_large(struct hdi_stack_pool *pool, size_t usable_bytes)
{
    if (usable_bytes > HDI_STACK_BYTES_MAX) return NULL;
    const size_t bytes = whole_pages(pool, usable_bytes);
    struct large_stack *large = calloc(1, sizeof(*large));
    char *base = large ? hdi_memory_map(guard_bytes(pool) + bytes) : NULL;
    if (!base) {
        free(large);
        return NULL;
    }
    hdi_mutex_lock(&pool->lock);
    describe(pool, &large->stack, base, bytes, (unsigned)pool->carved_count);
    large->stack.size_class = HDI_STACK_LARGE;
    pool->mapped_bytes += guard_bytes(pool) + bytes;
    hdi_list_push_back(&pool->large, &large->link);
    const enum hd_guard kind = next_kind(pool);
    hdi_mutex_unlock(&pool->lock);
    if (guard_batch(pool, kind, &large->stack)) return &large->stack;
    give_large(pool, &large->stack);
    return NULL;
}

/* ---- without a cache ---- */

struct hdi_stack *hdi_stack_take_shared(struct hdi_stack_pool *pool, size_t usable_bytes)
{
    const unsigned size_class = hdi_stack_class(usable_bytes);
    if (size_class >= HDI_STACK_LARGE) return take_large(pool, usable_bytes);
    struct hdi_stack *stack = pool_take(pool, size_class);
    if (!stack) return NULL;
    struct hdi_stack *rest = stack->next;
    if (rest) {
        rest->batch = (uint8_t)(stack->batch - 1);
        pool_give(pool, rest);
    }
    hdi_stack_mark_(stack, true);
    return stack;
}

/* Joins the newest batch while that has room, so that batches stay worth a lock. */
void hdi_stack_give_shared(struct hdi_stack_pool *pool, struct hdi_stack *stack)
{
    if (stack->size_class == HDI_STACK_LARGE) {
        give_large(pool, stack);
        return;
    }
    hdi_stack_mark_(stack, false);
    struct hdi_stack_class *class = &pool->classes[stack->size_class];
    hdi_mutex_lock(&pool->lock);
    const bool joins = class->warm && class->warm->batch < HDI_STACK_BATCH;
    stack->next = joins ? pop_warm(class) : NULL;
    stack->batch = (uint8_t)(joins ? stack->next->batch + 1 : 1);
    push_warm(class, stack);
    hdi_mutex_unlock(&pool->lock);
}

/* ---- the cache ---- */

void hdi_stack_cache_init(struct hdi_stack_cache *cache, struct hdi_stack_pool *pool)
{
    *cache = (struct hdi_stack_cache){.pool = pool};
}

static void spill_spare(struct hdi_stack_cache *cache, struct hdi_stack_bin *bin)
{
    if (bin->spare) pool_give(cache->pool, bin->spare);
    bin->spare = NULL;
}

static void drop_large(struct hdi_stack_cache *cache)
{
    if (cache->large) give_large(cache->pool, cache->large);
    cache->large = NULL;
}

static struct hdi_stack *take_kept(struct hdi_stack_cache *cache, size_t usable_bytes)
{
    struct hdi_stack *stack = cache->large;
    if (!stack || stack->bytes != whole_pages(cache->pool, usable_bytes)) {
        return take_large(cache->pool, usable_bytes);
    }
    cache->large = NULL;
    hdi_stack_mark_(stack, true);
    return stack;
}

static void keep_large(struct hdi_stack_cache *cache, struct hdi_stack *stack)
{
    if (stack->bytes > KEPT_BYTES) {
        give_large(cache->pool, stack);
        return;
    }
    drop_large(cache);
    hdi_stack_mark_(stack, false);
    cache->large = stack;
}

void hdi_stack_cache_fini(struct hdi_stack_cache *cache)
{
    drop_large(cache);
    for (int i = 0; i < HDI_STACK_CLASSES; i++) {
        struct hdi_stack_bin *bin = &cache->bins[i];
        spill_spare(cache, bin);
        if (bin->head) {
            bin->head->batch = (uint8_t)bin->count;
            pool_give(cache->pool, bin->head);
        }
        *bin = (struct hdi_stack_bin){.count = 0};
    }
}

struct hdi_stack *hdi_stack_take_slow(struct hdi_stack_cache *cache, size_t usable_bytes)
{
    const unsigned size_class = hdi_stack_class(usable_bytes);
    if (size_class >= HDI_STACK_LARGE) return take_kept(cache, usable_bytes);
    struct hdi_stack_bin *bin = &cache->bins[size_class];
    struct hdi_stack *batch = bin->spare ? bin->spare : pool_take(cache->pool, size_class);
    if (!batch) return NULL;
    bin->spare = NULL;
    bin->head = batch;
    bin->count = batch->batch; /* BIN-1 */
    return hdi_stack_take(cache, usable_bytes);
}

void hdi_stack_give_slow(struct hdi_stack_cache *cache, struct hdi_stack *stack)
{
    if (stack->size_class == HDI_STACK_LARGE) {
        keep_large(cache, stack);
        return;
    }
    struct hdi_stack_bin *bin = &cache->bins[stack->size_class];
    HDI_ASSERT(bin->count == HDI_STACK_BATCH); /* BIN-1 */
    spill_spare(cache, bin);
    bin->spare = bin->head;
    bin->spare->batch = HDI_STACK_BATCH;
    bin->head = NULL;
    bin->count = 0;
    hdi_stack_give(cache, stack);
}

/* ---- trimming ---- */

/* The caller holds the lock, which is dropped around the system call. */
static void chill_batch(struct hdi_stack_pool *pool, struct hdi_stack_class *class)
{
    struct hdi_stack *batch = pop_warm(class);
    hdi_mutex_unlock(&pool->lock);
    struct iovec spans[HDI_STACK_BATCH];
    size_t count = 0;
    for (struct hdi_stack *s = batch; s; s = s->next) {
        spans[count++] = (struct iovec){s->low, s->bytes};
    }
    HDI_ASSERT(count == batch->batch);
    hdi_memory_decommit(spans, count);
    hdi_mutex_lock(&pool->lock);
    push_batch(&class->cold, batch);
}

static struct hdi_stack_class *class_with_surplus(struct hdi_stack_pool *pool)
{
    for (unsigned i = 0; i < HDI_STACK_CLASSES; i++) {
        const size_t keep = WARM_BYTES / class_bytes(pool, i);
        if (pool->classes[i].warm_count > keep) return &pool->classes[i];
    }
    return NULL;
}

bool hdi_stack_cache_trim(struct hdi_stack_cache *cache)
{
    struct hdi_stack_pool *pool = cache->pool;
    drop_large(cache);
    for (int i = 0; i < HDI_STACK_CLASSES; i++) spill_spare(cache, &cache->bins[i]);
    hdi_mutex_lock(&pool->lock);
    struct hdi_stack_class *surplus = class_with_surplus(pool);
    if (surplus) {
        chill_batch(pool, surplus);
        surplus = class_with_surplus(pool);
    }
    hdi_mutex_unlock(&pool->lock);
    return surplus != NULL;
}

/* ---- inspection ---- */

/* HDI_NO_SANITIZE: it reads through frames that are not its own. */
HDI_NO_SANITIZE static const char *first_written(const char *from, const char *to)
{
    for (const char *at = from; at < to; at += sizeof(uint64_t)) {
        if (*(const volatile uint64_t *)(const void *)at != 0) return at;
    }
    return from; /* Touched, though only with zeros. */
}

size_t hdi_stack_high_water(const struct hdi_stack *stack)
{
    const size_t page = hdi_memory_page_bytes();
    const char *touched = stack->low + hdi_memory_untouched(stack->low, stack->bytes);
    const char *end = touched + page < stack->top ? touched + page : stack->top;
    if (touched >= stack->top) return 0;
#if HDI_VALGRIND
    VALGRIND_DISABLE_ERROR_REPORTING; /* Below the stack pointer is nobody's, it would say. */
#endif
    const char *deepest = first_written(touched, end);
#if HDI_VALGRIND
    VALGRIND_ENABLE_ERROR_REPORTING;
#endif
    return (size_t)(stack->top - deepest);
}
