/* SPDX-License-Identifier: MIT
 *
 * stress: what the stress tests share: how much to do in this build, threads that start
 * together, items that must be taken exactly once, and the set-ups to run in.
 *
 * No test here sleeps to let something happen, and no park has a time limit: a lost
 * wake-up is a hang, which the harness ends by its alarm.
 */
#ifndef STRESS_H
#define STRESS_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "test.h"

#if defined(__SANITIZE_THREAD__)
#define STRESS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define STRESS_TSAN 1
#endif
#endif
#ifndef STRESS_TSAN
#define STRESS_TSAN 0
#endif

#if defined(__SANITIZE_ADDRESS__)
#define STRESS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STRESS_ASAN 1
#endif
#endif
#ifndef STRESS_ASAN
#define STRESS_ASAN 0
#endif

/* `n` in a normal build, less where every access is checked. */
static inline unsigned stress_count(unsigned n)
{
    const unsigned scaled = STRESS_TSAN ? n / 16 : STRESS_ASAN ? n / 4 : n;
    return scaled ? scaled : 1;
}

/* A small generator of its own for each thread: xorshift64*. */
struct stress_random {
    uint64_t state;
};

static inline struct stress_random stress_random_init(uint64_t seed)
{
    return (struct stress_random){(seed + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1};
}

static inline unsigned stress_below(struct stress_random *random, unsigned n)
{
    uint64_t x = random->state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    random->state = x;
    return (unsigned)(((x * UINT64_C(0x2545f4914f6cdd1d) >> 32) * n) >> 32);
}

/* ---- items that go through a queue ---- */

/* `number` is plain on purpose: ThreadSanitizer sees whether the queue hands it over. */
struct stress_item {
    uint64_t number;
    atomic_uint taken;
};

static inline struct stress_item *stress_items(unsigned count)
{
    struct stress_item *items = calloc(count, sizeof(*items));
    EXPECT(items != NULL);
    return items;
}

/* The caller got this item out of a queue. Returns its number. */
static inline uint64_t stress_take(struct stress_item *item)
{
    EXPECT_EQ(atomic_fetch_add_explicit(&item->taken, 1, memory_order_relaxed), 0);
    return item->number;
}

/* ---- threads ---- */

enum { STRESS_THREADS_MAX = 16 };

struct stress_threads {
    pthread_t ids[STRESS_THREADS_MAX];
    unsigned count;
};

static inline void stress_start(struct stress_threads *threads, void *(*entry)(void *), void *arg)
{
    EXPECT(threads->count < STRESS_THREADS_MAX);
    EXPECT_EQ(pthread_create(&threads->ids[threads->count++], NULL, entry, arg), 0);
}

static inline void stress_join(struct stress_threads *threads)
{
    for (unsigned i = 0; i < threads->count; i++) pthread_join(threads->ids[i], NULL);
    threads->count = 0;
}

/* Give the CPU away until the number is there. For set-up only. */
static inline void stress_await(atomic_uint *number, unsigned at_least)
{
    while (atomic_load_explicit(number, memory_order_acquire) < at_least) sched_yield();
}

/* ---- runtimes ---- */

static const unsigned stress_workers[] = {1, 2, 4, 65, 200};

/* Call fn for every number of workers under both policies. `scale` is 1 for few workers
 * and more for many, to divide the work by. No spare comes to the help of a stuck worker: it would
 * hide a wake-up that was lost. */
static inline void stress_each_setup(void (*fn)(const hd_options *options, unsigned scale))
{
    for (unsigned i = 0; i < sizeof(stress_workers) / sizeof(stress_workers[0]); i++) {
        for (int policy = HD_POLICY_FAIR; policy <= HD_POLICY_LOCAL; policy++) {
            hd_options options = HD_OPTIONS_INIT;
            options.world = HD_WORLD_LIVE;
            options.workers = stress_workers[i];
            options.policy = (hd_policy)policy;
            options.stall_ns = HD_FOREVER;
            fn(&options, stress_workers[i] > 4 ? 4 : 1);
        }
    }
}

static inline hd_runtime *stress_runtime(const hd_options *options)
{
    hd_runtime *runtime = NULL;
    EXPECT_EQ(hd_runtime_create(&runtime, options), 0);
    return runtime;
}

static inline hd_spawn_options stress_into(hd_runtime *runtime)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.runtime = runtime;
    return options;
}

#endif
