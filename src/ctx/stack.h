/* SPDX-License-Identifier: MIT
 *
 * stack: the memory fibers run on, many equal slots to a mapping, each with a guard.
 *
 *   slot   | guard area, 16 KiB |  usable bytes ................ | colour | spare page |
 *          ^ zone               ^ low             grows down <-- ^ top    ^ page boundary
 *
 * Pool       one per runtime; any thread, under its lock. Owns every mapping until
 *            hdi_stack_pool_fini().
 * Cache      one per worker; only that worker, no atomics. Holds at most two batches per
 *            size class; refills from and spills to the pool a whole batch at a time,
 *            which is a pointer swap.
 * Ownership  a stack belongs to whoever took it, until given to any cache of its pool.
 * Sizes      powers of two from 16 KiB to 1 MiB share slabs; larger ones, to 1 GiB, have
 *            a mapping of their own, returned to the kernel as soon as they are given; but
 *            a cache keeps one of up to 16 MiB until it is trimmed.
 * Descriptor outside the stack, so that a stack without pages stays without.
 * Colour     tops differ by multiples of 64 bytes inside the top page: otherwise the
 *            hot lines of all stacks fall into the same few cache sets. For the same
 *            reason a page is left unused between slots (slot_bytes() in stack.c).
 * Guard      4 pages rather than 1, so that a frame has to skip 16 KiB in one step to
 *            miss it. In canary mode the same zone lies open below the stack: an
 *            overflow of up to 16 KiB hurts nobody else, and is found by the words at
 *            the zone's upper end.
 *
 * Invariants
 *   STACK-1  low and low + bytes are page-aligned; top is 64-aligned, at most
 *            HDI_STACK_COLOUR_MAX below low + bytes.
 *   STACK-2  a stack handed out is guarded: [low - guard, low) faults, or holds canaries.
 *   STACK-3  `next`, and in the pool `owner`, link free stacks; the taker owns both.
 *
 * Rejected   one mapping per stack: 32,000 of them exhaust vm.max_map_count.
 * Rejected   arrays in the caches, as os/slab.h has: as fast on a hit, but twice as slow
 *            (9 against 4.5 ns) when bursts of 1,000 stacks come and go.
 * Rejected   keeping all large stacks for reuse: each one kept may hold a gigabyte of pages.
 *            Keeping none: a worker that takes one job after the other (sched/jobs.h) maps
 *            and unmaps one for each, which costs it 30 us, and stops every other CPU.
 */
#ifndef HDI_CTX_STACK_H
#define HDI_CTX_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <heddle/runtime.h>

#include "base/check.h"
#include "base/list.h"
#include "base/sanitizer.h"
#include "os/mutex.h"

#define HDI_STACK_BYTES_MIN    (UINT32_C(16) << 10)
#define HDI_STACK_BYTES_SHARED (UINT32_C(1) << 20) /* the largest that shares a slab */
#define HDI_STACK_BYTES_MAX    (UINT32_C(1) << 30)
#define HDI_STACK_GUARD_BYTES  (UINT32_C(16) << 10)
#define HDI_STACK_COLOUR_MAX   960u

enum {
    HDI_STACK_CLASSES = 7, /* 16 KiB << class */
    HDI_STACK_LARGE = HDI_STACK_CLASSES,
    HDI_STACK_BATCH = HDI_MODEL ? 2 : 16,
};

struct hdi_stack {
    char *low;              /* lowest usable byte; the guard area ends here */
    char *top;              /* where a new context begins, growing down */
    struct hdi_stack *next; /* free: the next of its batch or bin */
    void *owner;            /* taken: the task that uses it; in the pool: next batch */
    uint32_t bytes;         /* usable, counting the colour */
    uint32_t valgrind_id;
    uint8_t size_class;     /* HDI_STACK_LARGE: its own mapping */
    uint8_t guard;          /* enum hd_guard; AUTO: not guarded yet (STACK-2) */
    uint8_t guard_shift;    /* the guard area has 1 << guard_shift bytes */
    uint8_t batch;          /* in the pool, first of its batch: how many are in it */
};
_Static_assert(sizeof(struct hdi_stack) <= 48, "a million descriptors are 48 MB");

struct hdi_stack_slab;

/* The first four are fixed by init; the rest is under `lock`. */
struct hdi_stack_pool {
    enum hd_guard guard; /* the first kind to try, not AUTO */
    bool may_fall_back;  /* AUTO was asked for: a guard that fails makes way for the next */
    size_t page_bytes;
    unsigned guard_shift;
    struct hdi_mutex lock;
    struct hdi_stack_class {
        struct hdi_stack *warm;      /* batches whose pages may be resident */
        struct hdi_stack *cold;      /* batches without pages */
        struct hdi_stack *bare;      /* batches whose guards could not be had */
        size_t warm_count;           /* stacks in warm */
        struct hdi_stack_slab *slab; /* being carved; NULL if none */
    } classes[HDI_STACK_CLASSES];
    struct hdi_stack_slab *slabs; /* every one, for fini */
    struct hdi_list large;        /* every large stack, for fini */
    size_t carved_count;          /* stacks that exist, large ones included */
    size_t mapped_bytes;          /* address space held */
};

/* BIN-1: `head` links `count` stacks, at most HDI_STACK_BATCH; `spare` links none or
 * exactly HDI_STACK_BATCH. */
struct hdi_stack_bin {
    struct hdi_stack *head;
    struct hdi_stack *spare;
    unsigned count;
};

struct hdi_stack_cache {
    struct hdi_stack_pool *pool;
    struct hdi_stack_bin bins[HDI_STACK_CLASSES];
    struct hdi_stack *large; /* the one kept; NULL */
};

/* Returns: 0, or -ENOTSUP if this guard was demanded and does not work here. */
HD_MUST_USE int hdi_stack_pool_init(struct hdi_stack_pool *pool, enum hd_guard guard);

/* Unmap every stack, taken or not. Caches must not be used afterwards. */
void hdi_stack_pool_fini(struct hdi_stack_pool *pool);

void hdi_stack_cache_init(struct hdi_stack_cache *cache, struct hdi_stack_pool *pool);

/* Give everything back to the pool. */
void hdi_stack_cache_fini(struct hdi_stack_cache *cache);

/* Give surplus stacks back to the pool, and the pages of surplus stacks in the pool back
 * to the kernel, at most one batch per call. For a worker that is about to sleep for
 * long. Returns whether there is more to do. */
bool hdi_stack_cache_trim(struct hdi_stack_cache *cache);

/* The same as take and give, for threads without a cache. */
struct hdi_stack *hdi_stack_take_shared(struct hdi_stack_pool *pool, size_t usable_bytes);
void hdi_stack_give_shared(struct hdi_stack_pool *pool, struct hdi_stack *stack);

/* Bytes between the top and the deepest word that was written since the pages were last
 * given back, rounded up to a page at most. Pages swapped out count as never touched.
 * Context: any thread, if nobody gives the stack meanwhile. */
size_t hdi_stack_high_water(const struct hdi_stack *stack);

/* Whether an access at `address` hit this stack's guard area. Async-signal-safe. */
static inline bool hdi_stack_guards(const struct hdi_stack *stack, const void *address)
{
    const uintptr_t low = (uintptr_t)stack->low, at = (uintptr_t)address;
    return at < low && (low - at - 1) >> stack->guard_shift == 0;
}

bool hdi_stack_canary_intact(const struct hdi_stack *stack);

/* False if the stack overflowed. Can tell only in canary mode; elsewhere the guard has
 * spoken already. */
static inline bool hdi_stack_intact(const struct hdi_stack *stack)
{
    return hdi_likely(stack->guard != HD_GUARD_CANARY) || hdi_stack_canary_intact(stack);
}

/* ---- the hot path ---- */

struct hdi_stack *hdi_stack_take_slow(struct hdi_stack_cache *cache, size_t usable_bytes);
void hdi_stack_give_slow(struct hdi_stack_cache *cache, struct hdi_stack *stack);

/* The smallest class that holds `bytes`; HDI_STACK_LARGE or more if none does. */
static inline unsigned hdi_stack_class(size_t bytes)
{
    if (bytes <= HDI_STACK_BYTES_MIN) return 0;
    return (unsigned)(64 - 14 - __builtin_clzll((unsigned long long)bytes - 1));
}

/* A free stack may not be looked at. */
static inline void hdi_stack_mark_(struct hdi_stack *stack, bool in_use)
{
    (void)stack, (void)in_use;
#if HDI_ASAN
    if (in_use) {
        __asan_unpoison_memory_region(stack->low, stack->bytes);
    } else {
        __asan_poison_memory_region(stack->low, stack->bytes);
    }
#endif
}

/* A stack of at least `usable_bytes`, now the caller's; NULL if memory is short.
 * Context: the cache's owner. */
static inline struct hdi_stack *hdi_stack_take(struct hdi_stack_cache *cache,
                                               size_t usable_bytes)
{
    const unsigned size_class = hdi_stack_class(usable_bytes);
    if (hdi_unlikely(size_class >= HDI_STACK_LARGE || !cache->bins[size_class].head)) {
        return hdi_stack_take_slow(cache, usable_bytes);
    }
    struct hdi_stack_bin *bin = &cache->bins[size_class];
    struct hdi_stack *stack = bin->head;
    bin->head = stack->next;
    bin->count--;
    hdi_stack_mark_(stack, true);
    return stack;
}

/* Give back a stack nobody runs on any more.
 * Context: the cache's owner. */
static inline void hdi_stack_give(struct hdi_stack_cache *cache, struct hdi_stack *stack)
{
    HDI_ASSERT(hdi_stack_intact(stack));
    if (hdi_unlikely(stack->size_class == HDI_STACK_LARGE ||
                     cache->bins[stack->size_class].count == HDI_STACK_BATCH)) {
        hdi_stack_give_slow(cache, stack);
        return;
    }
    struct hdi_stack_bin *bin = &cache->bins[stack->size_class];
    hdi_stack_mark_(stack, false);
    stack->next = bin->head;
    bin->head = stack;
    bin->count++;
}

#endif
