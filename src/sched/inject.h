/* SPDX-License-Identifier: MIT
 *
 * inject: a dispatcher's common queue, for tasks from foreign threads and overflows; also a
 * worker's inbox, for tasks that only it may run.
 *
 * Any thread pushes and pops, under a lock; batches take it once. The length is kept
 * beside the list so that an empty queue is seen without the lock.
 *
 * Ownership  a task on the list is the queue's, linked through its own `next`: a push
 *            cannot fail.
 * Order      first in, first out; under HD_POLICY_PRIORITY as sched/levels.h says.
 *
 *   INJECT-1  `length` is the number of tasks on the list, whenever the lock is free.
 *
 * A pusher notifies an idle worker afterwards (sched/idle.h), whose counts order the
 * length against a worker about to park.
 */
#ifndef HDI_SCHED_INJECT_H
#define HDI_SCHED_INJECT_H

#include <stdint.h>

#include "os/mutex.h"

struct hd_task;
struct hdi_levels;

/* Fair-share batches: len / workers, between these. */
enum {
    HDI_INJECT_BATCH_MIN = 4,
    HDI_INJECT_BATCH_BUSY = 32, /* most that a worker with other work takes */
    HDI_INJECT_BATCH_MAX = HDI_MODEL ? 2 : 64,
};

struct hdi_inject {
    alignas(HDI_CACHE_LINE) struct hdi_mutex lock;
    struct hd_task *first;      /* lock */
    struct hd_task *last;       /* lock */
    struct hdi_levels *levels;  /* constant; instead of the list, if not NULL; lock */
    uint64_t total;             /* lock: tasks ever pushed */
    _Atomic(uint32_t) length;   /* written under the lock, read by all */
};

void hdi_inject_init(struct hdi_inject *inject);

/* Append tasks in the order given. Context: any. */
void hdi_inject_push(struct hdi_inject *inject, struct hd_task *const *tasks, unsigned count);

/* Take up to `max` of the oldest. Context: any. Returns how many. */
unsigned hdi_inject_pop(struct hdi_inject *inject, struct hd_task **out, unsigned max);

/* A worker's fair share of `length` tasks. */
unsigned hdi_inject_share(uint32_t length, unsigned workers, bool busy);

/* Context: any. Exact only while nobody pushes or pops. */
static inline uint32_t hdi_inject_length(struct hdi_inject *inject)
{
    return hdi_load_acquire(&inject->length);
}

#endif
