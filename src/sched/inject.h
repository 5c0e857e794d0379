/* SPDX-License-Identifier: MIT
 *
 * inject: a dispatcher's common queue, for tasks from foreign threads and overflows; also a
 * worker's inbox, for tasks that only it may run.
 *
 * Any thread pushes and pops, under a lock; batches take it once. The length is kept
 * beside the list so that an empty queue is seen without the lock.
 *
 * Ownership  a task on a list is the queue's, linked through its own `next`: a push
 *            cannot fail.
 * Order      first in, first out; under HD_POLICY_PRIORITY as sched/levels.h says.
 *
 * Behind the others stand tasks that had their turn and kept a worker for long, or waited for
 * a worker that is stuck in such a task: what may be the next to keep one. They have a list of
 * their own, and are taken one by one, by a worker that has nothing else, or when one of them is
 * overdue: after HDI_INJECT_AGE takings that passed it by. So whatever a timer or another thread
 * makes ready runs before them.
 *
 *   INJECT-1  `length` is the number of tasks on both lists, the upper half that of those
 *             behind, whenever the lock is free.
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

/* With looks of busy workers a millisecond apart, tasks of 10 ms get no more than half the time
 * while there are others. */
enum { HDI_INJECT_AGE = 15 };

struct hdi_inject {
    alignas(HDI_CACHE_LINE) struct hdi_mutex lock;
    struct hd_task *first;      /* lock */
    struct hd_task *last;       /* lock */
    struct hd_task *behind_first; /* lock */
    struct hd_task *behind_last;  /* lock */
    unsigned passed;            /* lock: takings since one of those behind had its turn */
    struct hdi_levels *levels;  /* constant; instead of the list, if not NULL; lock */
    uint64_t total;             /* lock: tasks ever pushed */
    _Atomic(uint64_t) length;   /* behind << 32 | in front; written under the lock, read by all */
};

void hdi_inject_init(struct hdi_inject *inject);

/* Append tasks in the order given. Context: any. */
void hdi_inject_push(struct hdi_inject *inject, struct hd_task *const *tasks, unsigned count);

/* Append tasks in the order given to those behind. Context: any; there are no levels. */
void hdi_inject_push_behind(struct hdi_inject *inject, struct hd_task *const *tasks,
                            unsigned count);

/* Put all that are in front behind. Context: any; there are no levels. */
void hdi_inject_put_behind(struct hdi_inject *inject);

/* Take up to `max` of the oldest in front. Context: any. Returns how many. */
unsigned hdi_inject_pop(struct hdi_inject *inject, struct hd_task **out, unsigned max);

/* Take the oldest of those behind, if it is overdue, or the caller has nothing else. Returns NULL
 * if not. Context: any. */
struct hd_task *hdi_inject_pop_behind(struct hdi_inject *inject, bool nothing_else);

/* A worker's fair share of `length` tasks. */
unsigned hdi_inject_share(uint32_t length, unsigned workers, bool busy);

/* Context: any. Exact only while nobody pushes or pops. */
static inline uint64_t hdi_inject_lengths(struct hdi_inject *inject)
{
    return hdi_load_acquire(&inject->length);
}

/* The two parts of it. */
static inline uint32_t hdi_inject_front(uint64_t lengths)
{
    return (uint32_t)lengths;
}

static inline uint32_t hdi_inject_behind(uint64_t lengths)
{
    return (uint32_t)(lengths >> 32);
}

/* Both together. */
static inline uint32_t hdi_inject_length(struct hdi_inject *inject)
{
    const uint64_t lengths = hdi_inject_lengths(inject);
    return hdi_inject_front(lengths) + hdi_inject_behind(lengths);
}

#endif
