/* SPDX-License-Identifier: MIT
 *
 * mutex: a three-state futex lock for short critical sections of the library.
 *
 * FREE -> LOCKED by one CAS; a waiter sets CONTENDED before it sleeps, and an unlock
 * that finds CONTENDED wakes one. Never held across a context switch.
 */
#ifndef HDI_OS_MUTEX_H
#define HDI_OS_MUTEX_H

#include "base/check.h"
#include "os/futex.h"

enum { HDI_MUTEX_FREE, HDI_MUTEX_LOCKED, HDI_MUTEX_CONTENDED };

struct hdi_mutex {
    _Atomic(uint32_t) state;
};

#define HDI_MUTEX_INIT {HDI_MUTEX_FREE}

void hdi_mutex_lock_slow(struct hdi_mutex *mutex);

static inline bool hdi_mutex_trylock(struct hdi_mutex *mutex)
{
    uint32_t seen = HDI_MUTEX_FREE;
    return hdi_cas_acquire(&mutex->state, &seen, HDI_MUTEX_LOCKED); /* L1 <- U1 */
}

static inline void hdi_mutex_lock(struct hdi_mutex *mutex)
{
    if (hdi_unlikely(!hdi_mutex_trylock(mutex))) hdi_mutex_lock_slow(mutex);
}

static inline void hdi_mutex_unlock(struct hdi_mutex *mutex)
{
    const uint32_t was = hdi_exchange_release(&mutex->state, HDI_MUTEX_FREE); /* U1 -> L1, L2 */
    HDI_ASSERT(was != HDI_MUTEX_FREE);
    if (hdi_unlikely(was == HDI_MUTEX_CONTENDED)) hdi_futex_wake(&mutex->state, 1);
}

#endif
