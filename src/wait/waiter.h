/* SPDX-License-Identifier: MIT
 *
 * waiter: one wait of a fiber, a stackless task or a thread, and how it ends.
 *
 * A wait is a struct hdi_waiter, and one struct hdi_node for each queue it stands in: on
 * the waiting side's stack, or in a stackless task's state. One atomic word decides how it
 * ends. For a fiber that is its task word, so that deciding and waking are a single CAS
 * (task/state.h); the others have a word of their own here.
 *
 *   owner                                    completer, under the lock of a queue
 *   1. lock the queue; nothing to be had:    1. take the node out of the queue
 *      put the node into it, unlock          2. decide: CAS the word. Lost: next node
 *   2. start a timer, if there is            3. (filling) copy, then CAS the word again
 *      a deadline                            4. unlock, wake
 *   3. sleep until the word is decided
 *   4. cancelled: decide; won: it is         timer, under the lock of its wheel
 *      a cancel                              1. decide, with "timed out"; wake
 *   5. stop the timer; take the nodes out
 *      of the queues they are still in
 *
 *   WAIT-1  A decision is made once. It is made under the lock of a queue the waiter
 *           stands in (or of its timer's wheel), or by the owner.
 *   WAIT-2  After deciding, and with FILLING after filling, nobody but the owner touches
 *           the waiter or its nodes: the owner may have returned. What is needed to wake
 *           it was read before.
 *   WAIT-3  An owner whose wait ended otherwise takes the queue's lock to leave it. So a
 *           node found in a queue under its lock belongs to an owner that is still there.
 *   WAIT-4  A task of another runtime, or a thread that drives one, is woken as a guest of
 *           that runtime, from before the decision on.
 *
 * Rejected
 *   A generation per wait: WAIT-3 makes a stale node impossible.
 *   Deciding in one step what has to be copied: a wake that comes for another reason would
 *   let the owner return with half an item.
 */
#ifndef HDI_WAIT_WAITER_H
#define HDI_WAIT_WAITER_H

#include <errno.h>

#include <heddle/select.h>

#include "base/list.h"
#include "base/mutant.h"
#include "task/exec.h"
#include "task/state.h"
#include "wait/timer.h"

/* How a wait ended, beside the index of a case. */
#define HDI_ENDED_TIMEOUT   (HDI_WAIT_CASE)
#define HDI_ENDED_CANCEL    (HDI_WAIT_CASE - 1)
#define HDI_ENDED_CASES_MAX (HDI_WAIT_CASE - 2)

enum hdi_waiter_kind {
    HDI_WAITER_NONE, /* a stackless task's that waits for nothing */
    HDI_WAITER_FIBER,
    HDI_WAITER_TASK, /* stackless */
    HDI_WAITER_THREAD,
};

/* `word` of a waiter that is no fiber: HDI_WAIT_CASE and HDI_WAIT_FILLING as in the task word. */
#define HDI_WAITER_DECIDED (UINT32_C(1) << 15)
#define HDI_WAITER_ASLEEP  (UINT32_C(1) << 16) /* thread: in the kernel, or about to be */

struct hdi_waiter {
    enum hdi_waiter_kind kind;
    uint32_t phase;             /* fiber: the one its word has while undecided */
    struct hd_task *task;       /* fiber, stackless */
    struct hd_runtime *host;    /* thread: the simulated runtime it drives; or NULL */
    hd_case *cases;             /* for reports, and for who ends a stackless task's wait */
    size_t count;
    int64_t since_ns;           /* stackless: about when it began, for reports */
    struct hdi_waiter *next;    /* stackless: in task->poll.waits */
    _Atomic(uint32_t) word;     /* stackless, thread */
    bool timed;                 /* the timer was started */
    struct hdi_timer timer;
};
_Static_assert(sizeof(struct hdi_waiter) <= sizeof(hd_wait), "hd_wait holds a waiter");

/* A place in a queue. Written by the owner, and by whoever holds the queue's lock. */
struct hdi_node {
    struct hdi_list link;
    const struct hdi_op *op;   /* wait/wait.h */
    struct hdi_waiter *waiter;
    uint32_t index;            /* of the case */
    bool queued;
    bool registered;           /* late: with what it waits for */
    _Atomic(uint32_t) gone;    /* late: who decided for another case has left */
    struct hdi_lock *lock;     /* one of those a select takes (wait/wait.c) */
    uint64_t small[2];         /* an item handed over; kept apart until the wait is won */
};
_Static_assert(sizeof(struct hdi_node) <= sizeof(((hd_case *)0)->private_), "hd_case holds a node");

static inline struct hdi_node *hdi_case_node(hd_case *c)
{
    return (struct hdi_node *)c->private_;
}

static inline hd_case *hdi_node_case(struct hdi_node *node)
{
    return (hd_case *)((char *)node - offsetof(hd_case, private_));
}

static inline struct hdi_node *hdi_node_of(struct hdi_list *link)
{
    return (struct hdi_node *)((char *)link - offsetof(struct hdi_node, link));
}

/* ---- queues of nodes, under a lock ---- */

static inline void hdi_node_enqueue(struct hdi_list *queue, struct hdi_node *node)
{
    hdi_plain_write(&node->queued);
    node->queued = true;
    hdi_list_push_back(queue, &node->link);
}

static inline void hdi_node_dequeue(struct hdi_node *node)
{
    hdi_plain_write(&node->queued);
    if (!node->queued) return;
    node->queued = false;
    hdi_list_remove(&node->link);
}

/* The longest waiting node, taken out; NULL if there is none. Its owner may have ended the
 * wait otherwise: decide. */
static inline struct hdi_node *hdi_node_pop(struct hdi_list *queue)
{
    struct hdi_list *link = queue->next;
    if (link == queue) return NULL;
    struct hdi_node *node = hdi_node_of(link);
    hdi_plain_write(&node->queued);
    node->queued = false; /* Its links are not looked at again. */
    queue->next = link->next;
    link->next->prev = queue;
    return node;
}

/* ---- waking ---- */

/* Tasks whose waits were decided under a lock, to be submitted after it. They are the
 * caller's (TASK-2), linked by `next`. */
struct hdi_wakeups {
    struct hd_task *first, *last;
};

#define HDI_WAKEUPS_INIT {NULL, NULL}

static inline void hdi_wakeups_add(struct hdi_wakeups *wakeups, struct hd_task *task)
{
    task->next = NULL;
    if (wakeups->first) {
        wakeups->last->next = task;
    } else {
        wakeups->first = task;
    }
    wakeups->last = task;
}

/* Context: no lock held. */
static inline void hdi_wakeups_go(struct hdi_wakeups *wakeups)
{
    for (struct hd_task *task = wakeups->first, *next; task; task = next) {
        next = task->next;
        hdi_sched_submit(task);
    }
}

/* ---- deciding: under the lock of the node's queue, which it was taken out of ---- */

/* wait/waiter.c: for waiters that are no fibers. */
bool hdi_waiter_decide_other(struct hdi_waiter *waiter, uint32_t which,
                             struct hdi_wakeups *wakeups);
void hdi_waiter_fill_other(struct hdi_waiter *waiter, struct hdi_wakeups *wakeups);


/* End a fiber's wait by `which`. SUBMIT: *task is to be submitted, without the lock. */
HDI_ALWAYS_INLINE enum hdi_decision hdi_waiter_decide_fiber(struct hdi_waiter *waiter,
                                                            uint32_t which,
                                                            struct hd_task **task)
{
    *task = waiter->task; /* WAIT-2: nothing is read later. */
    const enum hdi_decision decision =
        hdi_transition_to_decided(&(*task)->word, waiter->phase, which);
    if (HDI_MUTANT(waiter_touch_late)) (void)hdi_load_relaxed(&waiter->word);
    return decision;
}

/* End any wait by `which`. *ready is then the task to submit, without the lock, so that its
 * owner wakes; NULL if that is done. Returns false if the wait had ended. */
HDI_ALWAYS_INLINE bool hdi_waiter_decide_one(struct hdi_waiter *waiter, uint32_t which,
                                             struct hd_task **ready)
{
    hdi_plain_read(&waiter->kind);
    if (hdi_unlikely(waiter->kind != HDI_WAITER_FIBER)) {
        struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
        const bool won = hdi_waiter_decide_other(waiter, which, &wakeups);
        *ready = wakeups.first;
        return won;
    }
    struct hd_task *task;
    const enum hdi_decision decision = hdi_waiter_decide_fiber(waiter, which, &task);
    *ready = decision == HDI_DECISION_SUBMIT ? task : NULL;
    if (*ready) task->resumes = true; /* It is RUNNING already (task/state.h). */
    return decision != HDI_DECISION_LOST;
}

/* The same for a fiber whose waiter need not be looked at: `phase` is the one its wait began in.
 * The task's own may be that of its next wait by now, though it has not left this one (WAIT-3). */
HDI_ALWAYS_INLINE bool hdi_waiter_decide_task(struct hd_task *task, uint32_t phase,
                                              uint32_t which, struct hdi_wakeups *wakeups)
{
    const enum hdi_decision decision = hdi_transition_to_decided(&task->word, phase, which);
    if (decision == HDI_DECISION_SUBMIT) {
        task->resumes = true; /* It is RUNNING already (task/state.h). */
        hdi_wakeups_add(wakeups, task);
    }
    return decision != HDI_DECISION_LOST;
}

/* Whether a fiber waits there. */
static inline bool hdi_node_of_fiber(const struct hdi_node *node)
{
    hdi_plain_read(&node->waiter);
    return node->waiter->kind == HDI_WAITER_FIBER;
}

/* Complete the case of a fiber, whose small item was written before. SUBMIT: *task is for
 * hdi_sched_resume(). */
HDI_ALWAYS_INLINE enum hdi_decision hdi_node_complete_fiber(struct hdi_node *node,
                                                            struct hd_task **task)
{
    HDI_ASSERT(hdi_node_of_fiber(node));
    return hdi_waiter_decide_fiber(node->waiter, node->index, task);
}

/* The same, with the task going to *wakeups. */
HDI_ALWAYS_INLINE bool hdi_waiter_decide(struct hdi_waiter *waiter, uint32_t which,
                                         struct hdi_wakeups *wakeups)
{
    struct hd_task *ready;
    if (!hdi_waiter_decide_one(waiter, which, &ready)) return false;
    if (ready) hdi_wakeups_add(wakeups, ready);
    return true;
}

/* Complete the case, whose result and small item were written before. */
HDI_ALWAYS_INLINE bool hdi_node_complete(struct hdi_node *node, struct hdi_wakeups *wakeups)
{
    hdi_plain_read(&node->waiter);
    return hdi_waiter_decide(node->waiter, node->index, wakeups);
}

HDI_ALWAYS_INLINE bool hdi_node_complete_one(struct hdi_node *node, struct hd_task **ready)
{
    hdi_plain_read(&node->waiter);
    return hdi_waiter_decide_one(node->waiter, node->index, ready);
}

/* Complete it in two steps: what is written between them reaches the owner's memory only
 * if the wait is won. */
static inline bool hdi_node_claim(struct hdi_node *node)
{
    struct hdi_wakeups none = HDI_WAKEUPS_INIT;
    hdi_plain_read(&node->waiter);
    return hdi_waiter_decide(node->waiter, node->index | (uint32_t)HDI_WAIT_FILLING, &none);
}

static inline void hdi_node_filled(struct hdi_node *node, struct hdi_wakeups *wakeups)
{
    hdi_plain_read(&node->waiter);
    struct hdi_waiter *waiter = node->waiter;
    if (waiter->kind != HDI_WAITER_FIBER) {
        hdi_waiter_fill_other(waiter, wakeups);
        return;
    }
    struct hd_task *task = waiter->task;
    if (hdi_transition_to_filled(&task->word) == HDI_DECISION_SUBMIT) {
        task->resumes = true;
        hdi_wakeups_add(wakeups, task);
    }
}

/* ---- the owner ---- */

/* Begin a wait of the calling fiber or thread. Returns: 0; if it is cancellable what
 * hdi_scope_code() says; -EINVAL in a stackless task. */
static inline int hdi_waiter_begin(struct hdi_waiter *waiter, bool cancellable)
{
    struct hd_task *task = hdi_task_self();
    hdi_plain_write(&waiter->kind);
    waiter->timed = false;
    waiter->task = task;
    if (hdi_unlikely(!task)) {
        waiter->kind = HDI_WAITER_THREAD;
        waiter->host = hdi_sched_thread_home();
        hdi_init(&waiter->word, 0); /* Published with the first node. */
        return 0;
    }
    if (hdi_unlikely(task->kind != HDI_TASK_FIBER)) return -EINVAL;
    waiter->kind = HDI_WAITER_FIBER;
    waiter->phase = task->phase;
    /* Relaxed: a cancel we miss here ends the sleep. */
    const bool cancelled = hdi_word_cancelled(hdi_load_relaxed(&task->word));
    return hdi_unlikely(cancelled) && cancellable ? hdi_scope_code(task) : 0;
}

/* wait/waiter.c */
void hdi_waiter_start_timer(struct hdi_waiter *waiter, int64_t deadline_ns);
int hdi_waiter_sleep_thread(struct hdi_waiter *waiter, int64_t deadline_ns);

/* The owner itself ends the wait, as the given case. Returns false if it had ended. */
bool hdi_waiter_end_self(struct hdi_waiter *waiter, uint32_t which);

/* Whether the wait of a stackless task is over; *which then says how. */
bool hdi_waiter_over(struct hdi_waiter *waiter, uint32_t *which);

HDI_ALWAYS_INLINE int hdi_waiter_sleep_fiber(struct hdi_waiter *waiter, bool cancellable)
{
    struct hd_task *task = waiter->task;
    task->fiber.since_ns = hdi_exec_self()->coarse_ns;
    task->fiber.waiter = waiter;
    uint64_t word;
    for (;;) {
        word = hdi_load_acquire(&task->word); /* W */
        const bool ignored = HDI_MUTANT(waiter_cancel_wins) && hdi_word_cancelled(word);
        if (hdi_word_wait_over(word, waiter->phase) && !ignored) break;
        if (hdi_unlikely(hdi_word_cancelled(word)) && cancellable &&
            (hdi_waiter_end_self(waiter, HDI_ENDED_CANCEL) || ignored)) {
            word = HDI_ENDED_CANCEL;
            break;
        }
        hdi_fiber_leave(hdi_exec_self(), HDI_AFTER_PARK);
    }
    task->fiber.waiter = NULL;
    task->phase ^= (uint16_t)HDI_WAIT_PHASE;
    return (int)(word & HDI_WAIT_CASE);
}

/* Sleep until the wait is decided, by the deadline at the latest. Returns the index of the
 * case that completed; or HDI_ENDED_TIMEOUT, HDI_ENDED_CANCEL; or, for a thread in sim
 * only, -EDEADLK. Afterwards nothing but the nodes' queues know of the waiter. */
HDI_ALWAYS_INLINE int hdi_waiter_sleep(struct hdi_waiter *waiter, int64_t deadline_ns,
                                       bool cancellable)
{
    if (hdi_unlikely(waiter->kind == HDI_WAITER_THREAD)) {
        return hdi_waiter_sleep_thread(waiter, deadline_ns);
    }
    if (hdi_unlikely(deadline_ns != HD_FOREVER)) hdi_waiter_start_timer(waiter, deadline_ns);
    const int which = hdi_waiter_sleep_fiber(waiter, cancellable);
    if (hdi_unlikely(waiter->timed)) hdi_timer_stop(&waiter->timer);
    return which;
}

#endif
