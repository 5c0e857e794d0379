/* SPDX-License-Identifier: MIT
 *
 * parallel: what the tests of heddle/parallel.h and heddle/sort.h share: where to call from, and
 * numbers to work on.
 */
#ifndef TEST_PARALLEL_H
#define TEST_PARALLEL_H

#include "rt.h"

/* splitmix64 */
static inline uint64_t parallel_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline size_t parallel_below(uint64_t *state, size_t n)
{
    return (size_t)(parallel_random(state) % n);
}

static inline hd_parallel_options parallel_grain(size_t grain)
{
    hd_parallel_options options = HD_PARALLEL_OPTIONS_INIT;
    options.grain = grain;
    return options;
}

static inline bool parallel_same_bits(double a, double b)
{
    uint64_t a_bits, b_bits;
    memcpy(&a_bits, &a, sizeof(a));
    memcpy(&b_bits, &b, sizeof(b));
    return a_bits == b_bits;
}

static inline void *parallel_alloc(size_t bytes)
{
    void *memory = calloc(bytes + 1, 1);
    EXPECT(memory != NULL);
    return memory;
}

/* In a runtime with 1, 2, 3, 5 and 8 workers in turn; in sim in one of them, since there is one. */
static inline void parallel_everywhere(hd_fn *fn, void *arg, const hd_options *options)
{
    static const unsigned workers[] = {1, 2, 3, 5, 8};
    const unsigned times = rt_is_sim(options) ? 1 : sizeof(workers) / sizeof(workers[0]);
    for (unsigned i = 0; i < times; i++) {
        const hd_options own = rt_workers(options, workers[i]);
        rt_run(fn, arg, &own);
    }
}

#endif
