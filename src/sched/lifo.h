/* SPDX-License-Identifier: MIT
 *
 * lifo: the slot for the task woken last, one per worker.
 *
 * Owner      one worker; puts and takes millions of times a second, without any
 *            read-modify-write.
 * Thieves    any other worker, and only when it found nothing else and the owner seems
 *            stuck: may pay for a barrier on every CPU (os/membarrier.h).
 * Ownership  the task in `task` is the slot's; whoever is alone inside takes it.
 *
 *   owner                                   thief
 *   1. busy = 1                             1. CAS claimed 0 -> 1, else give up
 *   2. hdi_barrier_light()                  2. hdi_barrier_heavy()
 *   3. claimed? busy = 0, stay out          3. busy? claimed = 0, give up
 *   4. touch `task`                         4. touch `task`
 *   5. busy = 0                             5. claimed = 0
 *
 *   LIFO-1  Never both inside: between the two barriers at least one sees the other.
 *
 * Edges   B  busy = 0 -> thief's busy load: the owner's changes are seen.
 *         C  claimed = 0 -> owner's claimed load: the thief's are.
 *
 * Rejected  an exchange by both sides: 3 ns per put and take, a fifth of a wake.
 */
#ifndef HDI_SCHED_LIFO_H
#define HDI_SCHED_LIFO_H

#include <stddef.h>

#include "base/atomics.h"
#include "base/mutant.h"
#include "os/membarrier.h"

struct hd_task;

struct hdi_lifo {
    _Atomic(struct hd_task *) task; /* whoever is inside */
    _Atomic(uint32_t) busy;         /* owner writes, thieves read */
    _Atomic(uint32_t) claimed;      /* thieves write by CAS, owner reads */
};

/* Step 1 to 3. Returns whether the owner is inside. */
static inline bool hdi_lifo_enter_(struct hdi_lifo *lifo)
{
    hdi_store_relaxed(&lifo->busy, 1); /* The barriers order it. */
    hdi_barrier_light();
    if (__builtin_expect(hdi_load_acquire(&lifo->claimed) == 0, 1)) return true; /* C */
    hdi_store_release(&lifo->busy, 0);
    return false;
}

static inline void hdi_lifo_leave_(struct hdi_lifo *lifo)
{
    hdi_store_release(&lifo->busy, 0); /* B */
}

/* Put a task in. Context: owner. Returns whether it went in; *evicted is then the one
 * that was there before, now the caller's, or NULL. */
static inline bool hdi_lifo_put(struct hdi_lifo *lifo, struct hd_task *task,
                                struct hd_task **evicted)
{
    if (!hdi_lifo_enter_(lifo)) return false;
    *evicted = hdi_load_relaxed(&lifo->task); /* We are alone inside. */
    hdi_store_relaxed(&lifo->task, task);
    hdi_lifo_leave_(lifo);
    return true;
}

/* Take the task out. Context: owner. Returns NULL if there is none, or while a thief
 * is inside. */
static inline struct hd_task *hdi_lifo_take(struct hdi_lifo *lifo)
{
    if (!hdi_load_relaxed(&lifo->task)) return NULL; /* Only we put tasks in. */
    if (!hdi_lifo_enter_(lifo)) return NULL;
    struct hd_task *task = hdi_load_relaxed(&lifo->task); /* We are alone inside. */
    hdi_store_relaxed(&lifo->task, NULL);
    hdi_lifo_leave_(lifo);
    return task;
}

/* Take the task out, waiting for a thief to leave. Context: owner, about to park. */
static inline struct hd_task *hdi_lifo_flush(struct hdi_lifo *lifo)
{
    while (hdi_load_relaxed(&lifo->task)) {
        struct hd_task *task = hdi_lifo_take(lifo);
        if (task) return task;
        hdi_cpu_relax();
    }
    return NULL;
}

/* Context: any but the owner. Returns the task, now the caller's; NULL if there is
 * none, or the owner or another thief is inside. */
static inline struct hd_task *hdi_lifo_steal(struct hdi_lifo *lifo)
{
    if (!hdi_load_relaxed(&lifo->task)) return NULL; /* A hint: not worth a barrier. */
    uint32_t free = 0;
    if (!hdi_cas_acquire(&lifo->claimed, &free, 1)) return NULL;
    const bool ordered = HDI_MUTANT(lifo_no_barrier) || hdi_barrier_heavy();
    struct hd_task *task = NULL;
    if (ordered && hdi_load_acquire(&lifo->busy) == 0) { /* B */
        task = hdi_load_relaxed(&lifo->task); /* We are alone inside. */
        if (task) hdi_store_relaxed(&lifo->task, NULL);
    }
    hdi_store_release(&lifo->claimed, 0); /* C */
    return task;
}

#endif
