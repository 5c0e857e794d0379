/* SPDX-License-Identifier: MIT
 *
 * cond: waiting for something to become true that a mutex protects.
 *
 *   63                1    0
 *   | count of signals | WAITERS |
 *
 * The mutex is unlocked before the node is queued, since its unlock must not run under the
 * lock here. A signal in between finds nobody; but it is counted, and the waiter, which had
 * read the count while it held the mutex, does not sleep then.
 *
 *   waiter                                  signaller
 *   1. read the word                        1. (change something, under the mutex)
 *   2. unlock the mutex                     2. add one to the count; WAITERS clear: done
 *   3. take the lock                        3. take the lock; take the first node out, decide
 *   4. CAS the word, if its count is what   4. give the lock, wake
 *      was read: set WAITERS; else done
 *   5. queue the node, give the lock, sleep
 *   6. lock the mutex
 *
 * Both change one word by read-modify-write, so one sees the other: a signal that comes
 * before 4. is seen there, one that comes later sees WAITERS.
 *
 *   COND-1  WAITERS is set whenever the queue is not empty; the lock's holder sets and clears
 *           it.
 */
#include <errno.h>

#include <heddle/sync.h>

#include "sync/sync_mutex.h"
#include "sync/waitq.h"

#define WAITERS UINT64_C(1)
#define SIGNAL  UINT64_C(2) /* one */

struct hdi_cond {
    struct hdi_waitable base;
    _Atomic(uint64_t) word;
    struct hdi_list queue; /* under base.lock */
};
_Static_assert(sizeof(struct hdi_cond) <= sizeof(hd_cond), "hd_cond holds it");

static struct hdi_cond *cond_of(hd_cond *cond)
{
    return (struct hdi_cond *)cond;
}

static void update_waiters(struct hdi_cond *cv)
{
    if (hdi_waitq_empty(&cv->queue)) (void)hdi_fetch_and_acq_rel(&cv->word, ~WAITERS);
}

static bool cond_enqueue(hd_case *c)
{
    struct hdi_cond *cv = c->object;
    hdi_waitq_push(&cv->queue, hdi_case_node(c));
    return true;
}

static void cond_dequeue(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    struct hdi_cond *cv = c->object;
    hdi_node_dequeue(hdi_case_node(c));
    update_waiters(cv);
}

static const struct hdi_op op_cond = {
    .what = "wait for condition",
    .enqueue = cond_enqueue,
    .dequeue = cond_dequeue,
};

/* Be known to wait, unless there was a signal since the word was `seen`. Context: the lock. */
static bool register_unless_signalled(struct hdi_cond *cv, uint64_t seen)
{
    const uint64_t count = seen & ~WAITERS;
    seen = hdi_load_relaxed(&cv->word); /* The CAS checks it. */
    while ((seen & ~WAITERS) == count || HDI_MUTANT(cond_count_ignored)) {
        if (hdi_cas_acq_rel(&cv->word, &seen, seen | WAITERS)) return true;
    }
    return false;
}

static int sleep_until(struct hdi_cond *cv, uint64_t seen, int64_t deadline)
{
    hdi_lock_take(&cv->base.lock);
    if (!register_unless_signalled(cv, seen)) {
        hdi_lock_give(&cv->base.lock);
        return 0;
    }
    hd_case c;
    hdi_waitq_case(&c, cv, 0);
    return hdi_wait_locked(&op_cond, &c, deadline);
}

int hd_cond_wait_until(hd_cond *cond, hd_mutex *mutex, int64_t deadline)
{
    struct hdi_cond *cv = cond_of(cond);
    struct hdi_sync_mutex *m = hdi_sync_mutex_of(mutex);
    const uint64_t self = hdi_holder_self();
    HD_CHECK_MSG(hdi_sync_mutex_held_by(m, self),
                 "a condition is waited for without holding its mutex");
    int err = hdi_wait_enter(deadline, NULL);
    if (!err && deadline == HD_NOW) err = -EAGAIN;
    if (err) return err;
    /* Relaxed: whoever changes the condition after us has the mutex after us, and counts
     * later still. */
    const uint64_t seen = hdi_load_relaxed(&cv->word);
    hdi_sync_mutex_unlock_as(m, self);
    err = sleep_until(cv, seen, deadline);
    const int locked = hdi_sync_mutex_lock_always(m, self);
    return locked ? locked : err;
}

int hd_cond_wait(hd_cond *cond, hd_mutex *mutex)
{
    return hd_cond_wait_until(cond, mutex, HD_FOREVER);
}

void hd_cond_signal(hd_cond *cond)
{
    hdi_point(cond);
    struct hdi_cond *cv = cond_of(cond);
    if (!(hdi_fetch_add_acq_rel(&cv->word, SIGNAL) & WAITERS)) {
        hdi_unheard(cond);
        return;
    }
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&cv->base.lock);
    for (struct hdi_node *node; (node = hdi_waitq_pop(&cv->queue));) {
        if (hdi_waitq_complete(node, 0, &wakeups)) break;
    }
    update_waiters(cv);
    hdi_lock_give(&cv->base.lock);
    hdi_wakeups_go(&wakeups);
}

void hd_cond_broadcast(hd_cond *cond)
{
    hdi_point(cond);
    struct hdi_cond *cv = cond_of(cond);
    if (!(hdi_fetch_add_acq_rel(&cv->word, SIGNAL) & WAITERS)) {
        hdi_unheard(cond);
        return;
    }
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&cv->base.lock);
    (void)hdi_fetch_and_acq_rel(&cv->word, ~WAITERS);
    hdi_waitq_complete_all(&cv->queue, 0, &wakeups);
    hdi_lock_give(&cv->base.lock);
    hdi_wakeups_go(&wakeups);
}

void hd_cond_init(hd_cond *cond)
{
    memset(cond, 0, sizeof(*cond));
}

void hd_cond_fini(hd_cond *cond)
{
    hdi_gone(cond);
    struct hdi_cond *cv = cond_of(cond);
    hdi_lock_take(&cv->base.lock);
    const bool used = !hdi_waitq_empty(&cv->queue);
    hdi_lock_give(&cv->base.lock);
    HD_CHECK_MSG(!used, "a condition ends while it is waited for");
}
