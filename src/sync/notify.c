/* SPDX-License-Identifier: MIT
 *
 * notify: a wake-up that is remembered once.
 *
 *   EMPTY ---- one ----> NOTIFIED          waiter                   notifier
 *     ^  <---- wait ----    |              1. take the lock         1. EMPTY: CAS to NOTIFIED
 *     |                     +- one -> same 2. CAS: NOTIFIED to         done
 *     +-- the last leaves --+                 EMPTY: done; or       2. take the lock
 *     |                     |                 EMPTY to WAITING      3. first node: decide
 *     +-- wait --> WAITING -+              3. queue the node           nobody left: NOTIFIED
 *                                          4. give the lock; sleep  4. give the lock, wake
 *
 *   NOTIFY-1  WAITING is the state whenever the queue is not empty, and is left under the
 *             lock only; if it stands for nobody, the next one who takes the lock sees that.
 *
 * Every notification is a read-modify-write, also where it changes nothing: who takes it sees
 * all that any of those merged into it wrote before (edge N).
 */
#include <errno.h>

#include <heddle/sync.h>

#include "sync/ops.h"
#include "sync/waitq.h"

enum { EMPTY, NOTIFIED, WAITING };

struct hdi_notify {
    struct hdi_waitable base;
    _Atomic(uint32_t) state;
    struct hdi_list queue; /* under base.lock */
};
_Static_assert(sizeof(struct hdi_notify) <= sizeof(hd_notify), "hd_notify holds it");

static struct hdi_notify *notify_of(hd_notify *notify)
{
    return (struct hdi_notify *)notify;
}

/* ---- notifying ---- */

/* In `from`, leave it as `to`, unless it changed. Returns false then, and *from is new. */
static bool move(struct hdi_notify *n, uint32_t *from, uint32_t to)
{
    return hdi_cas_acq_rel(&n->state, from, to); /* N */
}

/* Wake the first that is still there. Context: the lock. */
static bool wake_first(struct hdi_notify *n, struct hdi_wakeups *wakeups)
{
    for (struct hdi_node *node; (node = hdi_waitq_pop(&n->queue));) {
        node->small[0] = 1; /* It has the one there was. */
        if (hdi_waitq_complete(node, 0, wakeups)) return true;
    }
    return false;
}

static __attribute__((noinline)) void notify_slow(struct hdi_notify *n)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&n->base.lock);
    const bool woke = wake_first(n, &wakeups);
    uint32_t seen = hdi_load_relaxed(&n->state); /* The CAS checks it. */
    uint32_t to;
    do to = !woke ? NOTIFIED : hdi_waitq_empty(&n->queue) && seen == WAITING ? EMPTY : seen;
    while (!move(n, &seen, to));
    hdi_lock_give(&n->base.lock);
    hdi_wakeups_go(&wakeups);
}

void hd_notify_one(hd_notify *notify)
{
    hdi_point(notify);
    struct hdi_notify *n = notify_of(notify);
    uint32_t seen = hdi_load_relaxed(&n->state); /* The CAS checks it. */
    do {
        if (seen == WAITING) {
            notify_slow(n);
            return;
        }
        if (HDI_MUTANT(notify_merged_silently) && seen == NOTIFIED) return;
    } while (!move(n, &seen, NOTIFIED));
}

void hd_notify_all(hd_notify *notify)
{
    hdi_point(notify);
    struct hdi_notify *n = notify_of(notify);
    /* A read-modify-write: what waits by then is seen. */
    if (hdi_fetch_add_acq_rel(&n->state, 0) != WAITING) return;
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&n->base.lock);
    for (struct hdi_node *node; (node = hdi_waitq_pop(&n->queue));) {
        node->small[0] = 0;
        (void)hdi_waitq_complete(node, 0, &wakeups);
    }
    uint32_t seen = WAITING;
    (void)move(n, &seen, EMPTY); /* Fails if it has not been WAITING any more. */
    hdi_lock_give(&n->base.lock);
    hdi_wakeups_go(&wakeups);
}

/* ---- waiting ---- */

/* Have it, or be known to wait. Context: the lock. */
static bool take_or_register(struct hdi_notify *n)
{
    uint32_t seen = hdi_load_relaxed(&n->state); /* The CAS checks it. */
    for (;;) {
        const bool had = seen == NOTIFIED;
        if (move(n, &seen, had ? EMPTY : WAITING)) return had;
    }
}

int hd_notify_wait_until(hd_notify *notify, int64_t deadline)
{
    struct hdi_notify *n = notify_of(notify);
    const int err = hdi_wait_enter(deadline, n);
    if (err) return err;
    uint32_t seen = NOTIFIED;
    if (move(n, &seen, EMPTY)) return 0;
    if (deadline == HD_NOW) return -EAGAIN;
    hdi_lock_take(&n->base.lock);
    if (take_or_register(n)) {
        hdi_lock_give(&n->base.lock);
        return 0;
    }
    hd_case c;
    hdi_waitq_case(&c, n, 0);
    return hdi_wait_locked(&hdi_op_notified, &c, deadline);
}

int hd_notify_wait(hd_notify *notify)
{
    return hd_notify_wait_until(notify, HD_FOREVER);
}

int hd_notify_wait_try(hd_notify *notify)
{
    return hd_notify_wait_until(notify, HD_NOW);
}

/* ---- the case ---- */

static bool notified_attempt(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    c->result = 0;
    hdi_case_node(c)->small[0] = 1;
    return take_or_register(c->object);
}

static bool notified_enqueue(hd_case *c)
{
    struct hdi_notify *n = c->object;
    hdi_waitq_push(&n->queue, hdi_case_node(c));
    return true;
}

static void notified_dequeue(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    struct hdi_notify *n = c->object;
    hdi_node_dequeue(hdi_case_node(c));
    uint32_t seen = WAITING;
    if (hdi_waitq_empty(&n->queue)) (void)move(n, &seen, EMPTY); /* unless it is already */
}

/* Its task ended without a look: what was meant for one goes to the next. */
static void notified_unused(hd_case *c)
{
    if (hdi_case_node(c)->small[0]) hd_notify_one(c->object);
}

const struct hdi_op hdi_op_notified = {
    .what = "wait for notification",
    .attempt = notified_attempt,
    .enqueue = notified_enqueue,
    .dequeue = notified_dequeue,
    .unused = notified_unused,
};

/* ---- the rest ---- */

void hd_notify_init(hd_notify *notify)
{
    memset(notify, 0, sizeof(*notify));
}

void hd_notify_fini(hd_notify *notify)
{
    hdi_gone(notify);
    struct hdi_notify *n = notify_of(notify);
    hdi_lock_take(&n->base.lock);
    const bool used = !hdi_waitq_empty(&n->queue);
    hdi_lock_give(&n->base.lock);
    HD_CHECK_MSG(!used, "a notification ends while it is waited for");
}
