/* SPDX-License-Identifier: MIT
 *
 * once: something that is done by the first who asks, while the others wait.
 *
 * The word is NEW, DONE, or who is doing it, with WAITERS. That one is by itself until it
 * finishes: then all who wait are told, or, if it failed, the first of them does it next.
 *
 *   waiter                                  who does it
 *   1. take the lock                        1. CAS self -> DONE or NEW: done, if nobody waits
 *   2. CAS the word: NEW: self; DONE: done; 2. take the lock
 *      else set WAITERS                     3. DONE: take all nodes out, decide; failed: make
 *   3. queue the node                          the first one the next, decide
 *   4. give the lock; sleep                 4. give the lock, wake
 *
 *   ONCE-1  WAITERS is set whenever the queue is not empty, and only while somebody does it.
 *
 * Edges: D (release) -> hd_once_call() that returns 0 (acquire).
 */
#include <errno.h>

#include <heddle/sync.h>

#include "sync/waitq.h"

#define NEW     UINT64_C(0)
#define WAITERS UINT64_C(1)
#define DONE    UINT64_C(2)

struct hdi_once {
    struct hdi_waitable base;
    _Atomic(uint64_t) word;
    struct hdi_list queue; /* under base.lock */
};
_Static_assert(sizeof(struct hdi_once) <= sizeof(hd_once), "hd_once holds it");

static struct hdi_once *once_of(hd_once *once)
{
    return (struct hdi_once *)once;
}

static bool once_enqueue(hd_case *c)
{
    struct hdi_once *o = c->object;
    struct hdi_node *node = hdi_case_node(c);
    node->small[0] = hdi_holder_of_node(node);
    hdi_waitq_push(&o->queue, node);
    return true;
}

static void once_dequeue(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    struct hdi_once *o = c->object;
    hdi_node_dequeue(hdi_case_node(c));
    if (hdi_waitq_empty(&o->queue)) (void)hdi_fetch_and_acq_rel(&o->word, ~WAITERS);
}

static const struct hdi_op op_once = {
    .what = "wait for once",
    .enqueue = once_enqueue,
    .dequeue = once_dequeue,
};

/* ---- finishing ---- */

/* The first of those who wait does it next. Context: the lock; the caller does it now. */
static void pass_on(struct hdi_once *o, struct hdi_wakeups *wakeups)
{
    for (struct hdi_node *node; (node = hdi_waitq_pop(&o->queue));) {
        const uint64_t rest = hdi_waitq_empty(&o->queue) ? 0 : WAITERS;
        hdi_store_release(&o->word, node->small[0] | rest); /* D; before it can run */
        if (hdi_waitq_complete(node, -EAGAIN, wakeups)) return;
    }
    hdi_store_release(&o->word, NEW); /* D */
}

static void finish(struct hdi_once *o, uint64_t self, bool failed)
{
    uint64_t seen = self;
    if (hdi_cas_acq_rel(&o->word, &seen, failed ? NEW : DONE)) return; /* D */
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&o->base.lock);
    if (failed) {
        pass_on(o, &wakeups);
    } else {
        hdi_store_release(&o->word, DONE); /* D */
        hdi_waitq_complete_all(&o->queue, 0, &wakeups);
    }
    hdi_lock_give(&o->base.lock);
    hdi_wakeups_go(&wakeups);
}

/* ---- calling ---- */

/* Returns: 0: done; -EAGAIN: the caller does it; -EINPROGRESS: another does, and knows that
 * the caller waits; -EDEADLK. Context: the lock. */
static int look(struct hdi_once *o, uint64_t self)
{
    uint64_t seen = hdi_load_acquire(&o->word); /* D */
    for (;;) {
        if (seen == DONE) return 0;
        if ((seen & ~HDI_HOLDER_FLAGS) == self) return -EDEADLK;
        const uint64_t to = seen == NEW ? self : seen | WAITERS;
        if (hdi_cas_acq_rel(&o->word, &seen, to)) return seen == NEW ? -EAGAIN : -EINPROGRESS;
    }
}

/* Returns: 0: done; -EAGAIN: the caller does it; or why the wait ended. */
static int done_or_own(struct hdi_once *o, uint64_t self, int64_t deadline, bool *own)
{
    hdi_lock_take(&o->base.lock);
    int err = look(o, self);
    if (err == -EINPROGRESS) {
        hd_case c;
        hdi_waitq_case(&c, o, 0);
        err = hdi_wait_locked(&op_once, &c, deadline);
        *own = err == -EAGAIN && deadline != HD_NOW;
        return err;
    }
    hdi_lock_give(&o->base.lock);
    *own = err == -EAGAIN;
    return err;
}

int hd_once_call_until(hd_once *once, hd_fn *fn, void *arg, int64_t deadline)
{
    struct hdi_once *o = once_of(once);
    if (hdi_likely(hd_once_done(once))) return 0;
    int err = hdi_wait_enter(deadline, o);
    if (err) return err;
    const uint64_t self = hdi_holder_self();
    bool own = false;
    err = done_or_own(o, self, deadline, &own);
    if (!own) return err;
    err = fn(arg);
    finish(o, self, err != 0);
    return err;
}

int hd_once_call(hd_once *once, hd_fn *fn, void *arg)
{
    return hd_once_call_until(once, fn, arg, HD_FOREVER);
}

int hd_once_call_try(hd_once *once, hd_fn *fn, void *arg)
{
    return hd_once_call_until(once, fn, arg, HD_NOW);
}

bool hd_once_done(const hd_once *once)
{
    return hdi_load_acquire(&((struct hdi_once *)once)->word) == DONE; /* D */
}

/* ---- the rest ---- */

void hd_once_init(hd_once *once)
{
    memset(once, 0, sizeof(*once));
}

void hd_once_fini(hd_once *once)
{
    hdi_gone(once);
    struct hdi_once *o = once_of(once);
    hdi_lock_take(&o->base.lock);
    const uint64_t word = hdi_load_relaxed(&o->word);
    hdi_lock_give(&o->base.lock);
    HD_CHECK_MSG(word == NEW || word == DONE, "a once ends while it is under way");
}
