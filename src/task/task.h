/* SPDX-License-Identifier: MIT
 *
 * task: one header for every kind of task.
 *
 * Ownership
 *   TASK-1  `word` changes only in task/state.c. Every other field belongs to whoever
 *           the word says: before COMPLETE the scheduler, that is the queue the task
 *           stands in or the worker that runs it; `result` and `joiner` as noted.
 *   TASK-2  While not COMPLETE the scheduler holds exactly one reference: it lies with
 *           the queue (SCHEDULED), the worker (RUNNING) or nobody in particular (IDLE),
 *           and moves with the task. Handles, wakers and a registered joiner hold one
 *           each. Whoever drops the last frees the task.
 *   TASK-3  Memory of a freed task stays mapped and typed until its runtime ends, so
 *           that `word` may be read through a stale pointer (dump, shutdown): a word
 *           of zero references is a free slot.
 */
#ifndef HDI_TASK_TASK_H
#define HDI_TASK_TASK_H

#include <heddle/task.h>

#include "base/atomics.h"
#include "ctx/context.h"
#include "ctx/fp.h"
#include "ctx/stack.h"

#define HDI_TASK_NAME_BYTES 32

enum hdi_task_kind {
    HDI_TASK_FIBER,
    HDI_TASK_POLL,
};

struct hd_task {
    _Atomic(uint64_t) word;
    struct hd_task *next;       /* link in the injection queue, or in the slab when free */
    struct hd_runtime *runtime; /* constant from spawn on, as are id, kind, site, name */
    uint64_t id;
    uint8_t kind;       /* enum hdi_task_kind */
    uint8_t size_class; /* which slab it came from */
    bool save_fp;       /* fiber: has its own FP control words */
    bool yielded;       /* fiber: in a queue by its own hd_yield(), not by a wake */
    bool canary;        /* fiber: its stack is checked at every switch */
    int result;         /* written by the running side before COMPLETE, read after */

    /* Who waits for the end: a task (with a reference) or, tagged by bit 0, a
     * struct hdi_thread_joiner. Written by the handle's owner while JOIN_WAKER is
     * clear; read by the completer if JOIN_WAKER was set. */
    uintptr_t joiner;

    union {
        struct {
            struct hdi_context context;
            struct hdi_stack *stack; /* NULL before the first run */
            hd_fn *fn;
            void *arg;
            size_t stack_bytes;
            struct hdi_fp_control fp;
        } fiber;
        struct {
            hd_poll_fn *poll;
            hd_drop_fn *drop;
            size_t state_bytes;
        } poll;
    };
    const hd_site *site;
    char name[HDI_TASK_NAME_BYTES];
};

/* A stackless task's state follows its header. */
#define HDI_TASK_STATE_OFFSET ((sizeof(struct hd_task) + 15) & ~(size_t)15)

static inline void *hdi_task_state(struct hd_task *task)
{
    return (char *)task + HDI_TASK_STATE_OFFSET;
}

/* ---- what the scheduler provides to this layer (sched/) ---- */

/* Put a task that just became SCHEDULED into a queue, with its reference. */
void hdi_sched_submit(struct hd_task *task);

/* Return the memory of a task whose last reference is gone. */
void hdi_sched_free(struct hd_task *task);

/* Wait on a plain thread until *word differs from `expected`.
 * Returns: 0, -ETIMEDOUT, -EDEADLK in sim when nothing can change it any more. */
int hdi_sched_thread_wait(struct hd_runtime *runtime, _Atomic(uint32_t) *word,
                          uint32_t expected, int64_t deadline_ns);

/* Wake threads in hdi_sched_thread_wait() on this word, which may be gone already. */
void hdi_sched_thread_wake(struct hd_runtime *runtime, _Atomic(uint32_t) *word);

/* ---- this layer ---- */

/* task/wake.c: drop one reference, freeing the task with the last. */
void hdi_task_unref(struct hd_task *task);

/* task/wake.c: wake a task; `consume` gives up the caller's reference. */
void hdi_task_wake(struct hd_task *task, bool consume);

/* task/join.c: the running side's last act: publish the result, wake whoever joined,
 * and drop the scheduler's reference. The task may be gone afterwards. */
void hdi_task_complete(struct hd_task *task, int result);

/* task/join.c: complete an idle, cancelled stackless task without running it.
 * Context: any thread that holds a reference. Returns false if it was not idle. */
bool hdi_task_drop_idle(struct hd_task *task);

#endif
