/* SPDX-License-Identifier: MIT
 *
 * lock: a spinning lock for critical sections of a few dozen instructions that never call
 * out: the queues of channels and locks, and timer wheels.
 *
 * Unlocking is a plain store, half the price of a lock that may have sleepers
 * (os/mutex.h). The price is paid where a holder loses its CPU: others yield theirs, and
 * after that sleep for a moment, so that even a thread of a higher priority lets the
 * holder go on.
 */
#ifndef HDI_OS_LOCK_H
#define HDI_OS_LOCK_H

#include <stdbool.h>

#include "base/atomics.h"
#include "base/check.h"

struct hdi_lock {
    _Atomic(uint32_t) held;
};

void hdi_lock_slow(struct hdi_lock *lock);

static inline bool hdi_lock_try(struct hdi_lock *lock)
{
    return hdi_exchange_acquire(&lock->held, 1) == 0; /* L <- U */
}

static inline void hdi_lock_take(struct hdi_lock *lock)
{
    if (hdi_unlikely(!hdi_lock_try(lock))) hdi_lock_slow(lock);
}

static inline void hdi_lock_give(struct hdi_lock *lock)
{
    HDI_ASSERT(hdi_load_relaxed(&lock->held) == 1);
    hdi_store_release(&lock->held, 0); /* U -> L */
}

#endif
