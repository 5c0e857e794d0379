/* SPDX-License-Identifier: MIT
 *
 * membarrier: a store-load barrier that is free on one side and dear on the other.
 *
 * For Dekker-like protocols where one side runs millions of times a second and the
 * other almost never:
 *
 *   often                                   rarely
 *   1. store mine                           1. store mine
 *   2. hdi_barrier_light()                  2. hdi_barrier_heavy()
 *   3. load theirs                          3. load theirs
 *
 * At least one of the two sees the other's store. The heavy side makes the kernel
 * run a full barrier on every CPU that runs this process. Where the kernel cannot
 * (seccomp, old kernels), `hdi_barrier_asymmetric` is false and the light side is a
 * real barrier.
 */
#ifndef HDI_OS_MEMBARRIER_H
#define HDI_OS_MEMBARRIER_H

#include "base/atomics.h"

extern bool hdi_barrier_asymmetric; /* set once by hdi_barrier_init() */

/* Register with the kernel. Idempotent; before any other call here. */
void hdi_barrier_init(void);

/* Returns false if the kernel refused after all (a seccomp filter that came later, or no
 * memory): then nothing is ordered. */
__attribute__((warn_unused_result)) bool hdi_barrier_heavy(void);

/* An exchange on a private word orders like a fence, and ThreadSanitizer sees it. Inlined,
 * because a call would cost its callers registers. */
static inline void hdi_barrier_full(void)
{
    _Atomic(uint32_t) word = 0;
    (void)hdi_exchange_seq_cst(&word, 1);
}

static inline void hdi_barrier_light(void)
{
#if !HDI_MODEL
    __asm__ volatile("" ::: "memory");
    if (__builtin_expect(!hdi_barrier_asymmetric, 0)) hdi_barrier_full();
#endif
}

#endif
