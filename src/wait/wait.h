/* SPDX-License-Identifier: MIT
 *
 * wait: the one way to wait for anything: an object says what can be had from it
 * (struct hdi_op), the engine here does the waiting, for one case or for the first of
 * several, of a fiber, a stackless task or a thread.
 *
 * Several cases. All objects are locked at once, in one order, so two selects against each
 * other cannot both wait, nor both win. Under the locks each case is attempted; if none can
 * be had, all nodes are queued, and only then are the locks given back: whoever comes
 * later finds them. What has no lock (a task's end) is late: it is registered after that,
 * and if it turns out to have happened, the owner decides for it as any completer would.
 *
 *   CASE-1  Until its nodes are queued nobody can decide a wait, so an attempt that
 *           succeeded is the only thing that happened.
 */
#ifndef HDI_WAIT_WAIT_H
#define HDI_WAIT_WAIT_H

#include "wait/waiter.h"

/* The first member of everything that can be waited on, but for late ones. */
struct hdi_waitable {
    struct hdi_lock lock;
};

/* What a case does with its object. Under the object's lock, unless noted. */
struct hdi_op {
    const char *what; /* "receive from channel", for reports */

    /* Have it now: set c->result and return true; or change nothing. What others waited
     * for goes to *wakeups. The node is not queued. Late: without a lock, and without an
     * effect: whether it could be had. */
    bool (*attempt)(hd_case *c, struct hdi_wakeups *wakeups);

    /* An attempt succeeded, and all locks are given back: do what may not be done under
     * them. NULL: nothing to do. */
    void (*attempted)(hd_case *c);

    /* Put the node where completers find it (hdi_node_enqueue). Late: without a lock.
     * Returns true; late: false if it has happened already. */
    bool (*enqueue)(hd_case *c);

    /* The wait ended otherwise: take the node out, if it is in (hdi_node_dequeue). Late:
     * without a lock; returns only when nobody will touch the node any more. */
    void (*dequeue)(hd_case *c, struct hdi_wakeups *wakeups);

    /* The owner learns that a completer took the case: take over what lies in the node.
     * Late: in any case. Without a lock. NULL: nothing to do. */
    void (*taken)(hd_case *c);

    /* The case was won by a stackless task that ended before it looked: give back what it
     * will not use. Without a lock, after `taken`. NULL: nothing to give back. */
    void (*unused)(hd_case *c);

    /* The runtime that a plain thread drives, in sim, while it waits for this; NULL: any. */
    struct hd_runtime *(*host)(const hd_case *c);

    bool late;
    bool through; /* the object is a receiver, which begins with a pointer to the waitable */
};

/* Whether the caller, whom it costs this, may wait at all: -ECANCELED, -ETIMEDOUT, -EDQUOT,
 * -EINVAL in a stackless task. With HD_NOW anyone may look who can pay. `object`: for what, or NULL
 * (hdi_attend). */
static inline int hdi_wait_enter_self(struct hd_task *self, int64_t deadline, enum hdi_cost cost,
                                      const void *object)
{
    if (!self) return 0;
    const bool now = deadline == HD_NOW;
    if (hdi_unlikely(self->kind != HDI_TASK_FIBER) && !now) return -EINVAL;
    return hdi_attend(self, cost, now, object);
}

/* The same; *task is the calling fiber; NULL on a thread, and with HD_NOW. */
static inline int hdi_wait_enter_as(int64_t deadline, struct hd_task **task, enum hdi_cost cost,
                                    const void *object)
{
    struct hd_task *self = hdi_task_self();
    *task = deadline == HD_NOW ? NULL : self;
    return hdi_wait_enter_self(self, deadline, cost, object);
}

static inline int hdi_wait_enter(int64_t deadline, const void *object)
{
    return hdi_wait_enter_self(hdi_task_self(), deadline, HDI_COST_CALL, object);
}

/* wait/wait.c: the wait for `c` ended by `which`, and by no completer: leave the queue. Returns
 * what the caller returns. */
int hdi_wait_left(hd_case *c, int which);

/* hdi_wait_locked() for a fiber that waits for good, inlined where `op` is known: the way of
 * most waits. */
HDI_ALWAYS_INLINE int hdi_wait_fiber(const struct hdi_op *op, hd_case *c, struct hd_task *task)
{
    struct hdi_waiter waiter;
    struct hdi_node *node = hdi_case_node(c);
    waiter.kind = HDI_WAITER_FIBER;
    waiter.phase = task->phase;
    waiter.task = task;
    waiter.cases = c;
    waiter.count = 1;
    node->op = op;
    node->waiter = &waiter;
    node->index = 0;
    (void)op->enqueue(c);
    hdi_lock_give(&((struct hdi_waitable *)c->object)->lock);
    const int which = hdi_waiter_sleep_fiber(&waiter, true);
    if (hdi_unlikely(which != 0)) return hdi_wait_left(c, which);
    if (op->taken) op->taken(c);
    return c->result;
}

/* Wait for one case whose attempt has just failed. Context: the object's lock is held, and
 * given back. c->object, item and number are set. Returns: c->result, -EAGAIN with HD_NOW,
 * -ETIMEDOUT, -ECANCELED, -EDEADLK, -EINVAL. */
int hdi_wait_locked(const struct hdi_op *op, hd_case *c, int64_t deadline);

/* The same, but a cancel does not end it, nor does time: for what must not fail, e.g. taking
 * a mutex again after waiting for a condition. Returns: c->result; -EDEADLK. */
int hdi_wait_locked_always(const struct hdi_op *op, hd_case *c);

/* The same with a deadline. Returns: c->result; -ETIMEDOUT; -EDEADLK. */
int hdi_wait_locked_until(const struct hdi_op *op, hd_case *c, int64_t deadline);

/* Attempt, then wait. */
int hdi_wait(const struct hdi_op *op, hd_case *c, int64_t deadline);

/* Wait for the first of several. Every node's `op` is set; NULL for those left out, and
 * for HD_CASE_AT. Returns as hd_select_until(). */
int hdi_wait_any(hd_case *cases, size_t count, unsigned flags, int64_t deadline);

/* The same for one who has entered (hdi_wait_enter), and not with HD_NOW. Unless it is
 * `cancellable`, no cancel ends it, as above. */
int hdi_wait_any_entered(hd_case *cases, size_t count, unsigned flags, int64_t deadline,
                         bool cancellable);

/* The same for one case, of which the node has its op, unless `stop` happens first: another such,
 * whose result is an error; NULL: nothing else ends it. Returns: 0: the case happened; the result
 * of `stop`; -ETIMEDOUT, ... */
int hdi_wait_unless(hd_case *c, const hd_case *stop, int64_t deadline);

/* hdi_wait_any() for a stackless task: begin, unless it is under way, and look. */
int hdi_wait_poll(struct hdi_waiter *waiter, hd_case *cases, size_t count, unsigned flags,
                  int64_t deadline);

/* A stackless task gives up. Returns the case that happened all the same; -ECANCELED. */
int hdi_wait_give_up(struct hdi_waiter *waiter);

#endif
