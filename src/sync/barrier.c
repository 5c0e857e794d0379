/* SPDX-License-Identifier: MIT
 *
 * barrier: a place where so many parties meet.
 *
 * All under the lock: whoever comes queues its node, and the last one takes all nodes out. A
 * party that leaves takes its own out; the length of the queue is the count.
 *
 *   BARRIER-1  A node that was in the queue when the last one came has met the others, even
 *              if its wait was ended by a cancel or a deadline just before: its owner finds
 *              the mark in the node, and reports success. Otherwise some would have met, and
 *              one of them would say that it had not.
 */
#include <errno.h>

#include <heddle/sync.h>

#include "sync/waitq.h"

struct hdi_barrier {
    struct hdi_waitable base;
    uint32_t waiting;      /* under base.lock: nodes in the queue */
    uint64_t parties;      /* constant */
    struct hdi_list queue; /* under base.lock */
};
_Static_assert(sizeof(struct hdi_barrier) <= sizeof(hd_barrier), "hd_barrier holds it");
_Static_assert(offsetof(struct hdi_barrier, parties) == 8, "HD_BARRIER_INIT knows it");

static struct hdi_barrier *barrier_of(hd_barrier *barrier)
{
    return (struct hdi_barrier *)barrier;
}

static uint64_t *met(hd_case *c)
{
    return &hdi_case_node(c)->small[0];
}

static bool barrier_enqueue(hd_case *c)
{
    struct hdi_barrier *b = c->object;
    b->waiting++;
    hdi_waitq_push(&b->queue, hdi_case_node(c));
    return true;
}

static void barrier_dequeue(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    struct hdi_barrier *b = c->object;
    if (hdi_case_node(c)->queued) b->waiting--;
    hdi_node_dequeue(hdi_case_node(c));
}

static const struct hdi_op op_barrier = {
    .what = "wait at barrier",
    .enqueue = barrier_enqueue,
    .dequeue = barrier_dequeue,
};

/* The last one has come. Context: the lock, which is given. */
static int meet(struct hdi_barrier *b)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    for (struct hdi_node *node; (node = hdi_waitq_pop(&b->queue));) {
        *met(hdi_node_case(node)) = 1; /* BARRIER-1 */
        (void)hdi_waitq_complete(node, 0, &wakeups);
    }
    b->waiting = 0;
    hdi_lock_give(&b->base.lock);
    hdi_wakeups_go(&wakeups);
    return HD_BARRIER_SERIAL;
}

int hd_barrier_wait_until(hd_barrier *barrier, int64_t deadline)
{
    struct hdi_barrier *b = barrier_of(barrier);
    int err = hdi_wait_enter(deadline, b);
    if (err) return err;
    HD_CHECK_MSG(b->parties > 0, "a barrier is used before hd_barrier_init()");
    hdi_lock_take(&b->base.lock);
    if (b->waiting + 1 >= b->parties) return meet(b);
    hd_case c;
    hdi_waitq_case(&c, b, 0);
    *met(&c) = 0;
    err = hdi_wait_locked(&op_barrier, &c, deadline);
    return *met(&c) && !HDI_MUTANT(barrier_cancel_wins) ? 0 : err; /* BARRIER-1 */
}

int hd_barrier_wait(hd_barrier *barrier)
{
    return hd_barrier_wait_until(barrier, HD_FOREVER);
}

int hd_barrier_wait_try(hd_barrier *barrier)
{
    return hd_barrier_wait_until(barrier, HD_NOW);
}

int hd_barrier_init(hd_barrier *barrier, uint32_t parties)
{
    if (parties == 0) return -EINVAL;
    memset(barrier, 0, sizeof(*barrier));
    barrier_of(barrier)->parties = parties;
    return 0;
}

void hd_barrier_fini(hd_barrier *barrier)
{
    hdi_gone(barrier);
    struct hdi_barrier *b = barrier_of(barrier);
    hdi_lock_take(&b->base.lock);
    const bool used = b->waiting > 0;
    hdi_lock_give(&b->base.lock);
    HD_CHECK_MSG(!used, "a barrier ends while it is waited for");
}
