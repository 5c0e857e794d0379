/* SPDX-License-Identifier: MIT */
#include "os/mutex.h"

/* Spinning briefly pays because every critical section here is a few loads long. */
#define SPIN_ROUNDS (HDI_MODEL ? 0 : 40)

void hdi_mutex_lock_slow(struct hdi_mutex *mutex)
{
    for (int i = 0; i < SPIN_ROUNDS; i++) {
        hdi_cpu_relax();
        if (hdi_load_relaxed(&mutex->state) == HDI_MUTEX_FREE && hdi_mutex_trylock(mutex)) return;
    }
    /* Taking it as CONTENDED wakes one too many at worst, never one too few. */
    while (hdi_exchange_acquire(&mutex->state, HDI_MUTEX_CONTENDED) != HDI_MUTEX_FREE) { /* L2 */
        (void)hdi_futex_wait(&mutex->state, HDI_MUTEX_CONTENDED, INT64_MAX);
    }
}
