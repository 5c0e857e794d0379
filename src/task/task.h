/* SPDX-License-Identifier: MIT
 *
 * task: one header for every kind of task.
 *
 * Ownership
 *   TASK-1  `word` changes only in task/state.c. Every other field belongs to whoever
 *           the word says: before COMPLETE the scheduler, that is the queue the task
 *           stands in or the worker that runs it; `result` and `joiner` as noted.
 *   TASK-2  While not COMPLETE the scheduler holds exactly one reference: it lies with
 *           the queue (SCHEDULED, or RUNNING and yielded), the worker (RUNNING) or
 *           nobody in particular (IDLE), and moves with the task. Handles and wakers
 *           hold one each. Whoever drops the last frees the task.
 *   TASK-3  Memory of a freed task stays mapped and typed until its runtime ends. So
 *           `word` may be read, and even woken, through a stale pointer (dump, shutdown,
 *           a joiner that has left): a word of zero references is a free slot, and the
 *           slot's next task merely wakes once too often.
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

    /* Who waits for the end; the tags are in task/join.c. Written by the handle's owner
     * while JOIN_WAKER is clear, read by the completer if it was set; relaxed, since the
     * word orders it. */
    _Atomic(uintptr_t) joiner;

    int result;         /* written by the running side before COMPLETE, read after */
    uint8_t kind;       /* enum hdi_task_kind */
    uint8_t size_class; /* which slab it came from */
    bool yielded;       /* fiber: in a queue by its own hd_yield(), not by a wake */
    bool save_fp;       /* fiber: has its own FP control words */
    bool canary;        /* fiber: its stack is checked at every switch */
    bool large;         /* stackless: its state is not behind the header */
    const hd_site *site;
    char name[HDI_TASK_NAME_BYTES];

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
            void *large_state;                    /* if large */
            alignas(16) unsigned char state[]; /* otherwise */
        } poll;
    };
};

/* Bytes of a slab object that holds a task with so much state. */
#define HDI_TASK_BYTES(state_bytes) (offsetof(struct hd_task, poll.state) + (state_bytes))

static inline void *hdi_task_state(struct hd_task *task)
{
    return task->large ? task->poll.large_state : task->poll.state;
}

/* ---- what the scheduler provides to this layer (sched/) ---- */

/* Run a stackless task at once, inside the caller's own poll, if it is the one the
 * calling worker would run next anyway. */
void hdi_sched_run_now(struct hd_task *task);

/* Put a task that just became SCHEDULED into a queue, with its reference. */
void hdi_sched_submit(struct hd_task *task);

/* The runtime stays while a guest is inside. Context: any thread but its workers. */
void hdi_sched_guest_enter(struct hd_runtime *runtime);
void hdi_sched_guest_leave(struct hd_runtime *runtime);

/* Return the memory of a task whose last reference is gone. */
void hdi_sched_free(struct hd_task *task);

/* Whether others run while a plain thread spins: not in sim, nor on a single CPU. */
bool hdi_sched_may_spin(const struct hd_runtime *runtime);

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

/* task/join.c: the state of a stackless task goes away. */
void hdi_task_end_state(struct hd_task *task);

/* task/join.c: the running side's last act: publish the result, drop the scheduler's
 * reference, and wake whoever joined. The task may be gone afterwards. */
void hdi_task_complete(struct hd_task *task, int result);

/* task/join.c: complete an idle, cancelled stackless task without running it.
 * Context: any thread that holds a reference. Returns false if it was not idle. */
bool hdi_task_drop_idle(struct hd_task *task);

#endif
