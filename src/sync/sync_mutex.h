/* SPDX-License-Identifier: MIT
 *
 * sync_mutex: what other files of this folder need of it.
 */
#ifndef HDI_SYNC_SYNC_MUTEX_H
#define HDI_SYNC_SYNC_MUTEX_H

#include <heddle/sync.h>

#include "sync/waitq.h"

struct hdi_sync_mutex {
    struct hdi_waitable base; /* its lock is for the queue, not the mutex itself */
    _Atomic(uint16_t) spins;  /* sync/spin.h */
    uint16_t barges;          /* the holder's: times it was taken before one that was woken */
    _Atomic(uint64_t) word;   /* the holder and flags (sync_mutex.c) */
    struct hdi_list queue;    /* under base.lock */
};
_Static_assert(sizeof(struct hdi_sync_mutex) <= sizeof(hd_mutex), "hd_mutex holds it");

static inline struct hdi_sync_mutex *hdi_sync_mutex_of(hd_mutex *mutex)
{
    return (struct hdi_sync_mutex *)mutex;
}

/* Lock it for `self`, whatever happens. Returns: 0; -EDEADLK in sim. */
int hdi_sync_mutex_lock_always(struct hdi_sync_mutex *m, uint64_t self);

void hdi_sync_mutex_unlock_as(struct hdi_sync_mutex *m, uint64_t self);

/* Whether this one holds it. */
bool hdi_sync_mutex_held_by(const struct hdi_sync_mutex *m, uint64_t who);

#endif
