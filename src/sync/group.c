/* SPDX-License-Identifier: MIT
 *
 * group: a count of what is not done yet, and waiting until it is 0.
 *
 *   63       1    0
 *   | count | WAITERS |
 *
 *   waiter                                  the last one done
 *   1. take the lock                        1. WAITERS clear: CAS the count to 0: done
 *   2. CAS the word: 0: done; else set      2. take the lock
 *      WAITERS                              3. CAS the word to 0; take all nodes out, decide
 *   3. queue the node                       4. give the lock, wake
 *   4. give the lock; sleep
 *
 *   GROUP-1  WAITERS is set whenever the queue is not empty.
 *   GROUP-2  A waiter that was woken takes the lock once more before it returns, so that the
 *            last one done is out: then the memory may go.
 */
#include <errno.h>

#include <heddle/sync.h>

#include "sync/ops.h"
#include "sync/waitq.h"

#define WAITERS UINT64_C(1)
#define ONE     UINT64_C(2)

struct hdi_group {
    struct hdi_waitable base;
    _Atomic(uint64_t) word;
    struct hdi_list queue; /* under base.lock */
};
_Static_assert(sizeof(struct hdi_group) <= sizeof(hd_group), "hd_group holds it");

static struct hdi_group *group_of(hd_group *group)
{
    return (struct hdi_group *)group;
}

int hd_group_add(hd_group *group, uint32_t count)
{
    hdi_point(group);
    struct hdi_group *g = group_of(group);
    uint64_t seen = hdi_load_relaxed(&g->word); /* The CAS checks it. */
    do {
        if (seen / ONE + count > HD_GROUP_MAX) return -EOVERFLOW;
    } while (!hdi_cas_relaxed(&g->word, &seen, seen + count * ONE)); /* A count, no message. */
    return 0;
}

static __attribute__((noinline)) void done_slow(struct hdi_group *g)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&g->base.lock);
    uint64_t seen = hdi_load_relaxed(&g->word); /* The CAS checks it. */
    uint64_t to;
    do {
        HD_CHECK_MSG(seen >= ONE, "more is done in a group than was added");
        to = seen - ONE == WAITERS ? 0 : seen - ONE;
    } while (!hdi_cas_acq_rel(&g->word, &seen, to)); /* D */
    if (to == 0) hdi_waitq_complete_all(&g->queue, 0, &wakeups);
    hdi_lock_give(&g->base.lock);
    hdi_wakeups_go(&wakeups);
}

void hd_group_done(hd_group *group)
{
    hdi_point(group);
    struct hdi_group *g = group_of(group);
    uint64_t seen = hdi_load_relaxed(&g->word); /* The CAS checks it. */
    do {
        if (hdi_unlikely(seen < ONE || seen - ONE == WAITERS)) {
            done_slow(g);
            return;
        }
    } while (!hdi_cas_acq_rel(&g->word, &seen, seen - ONE)); /* D -> all_done() */
}

/* Whether all is done; if not, be known to wait. Context: the lock. */
static bool done_or_register(struct hdi_group *g)
{
    uint64_t seen = hdi_load_acquire(&g->word); /* D */
    while (seen / ONE > 0) {
        if (hdi_cas_acq_rel(&g->word, &seen, seen | WAITERS)) return false;
    }
    return true;
}

int hd_group_wait_until(hd_group *group, int64_t deadline)
{
    struct hdi_group *g = group_of(group);
    const int err = hdi_wait_enter(deadline, g);
    if (err) return err;
    hdi_lock_take(&g->base.lock);
    if (done_or_register(g)) {
        hdi_lock_give(&g->base.lock); /* GROUP-2 */
        return 0;
    }
    hd_case c;
    hdi_waitq_case(&c, g, 0);
    return hdi_wait_locked(&hdi_op_all_done, &c, deadline);
}

int hd_group_wait(hd_group *group)
{
    return hd_group_wait_until(group, HD_FOREVER);
}

int hd_group_wait_try(hd_group *group)
{
    return hd_group_wait_until(group, HD_NOW);
}

/* ---- the case ---- */

static bool all_done_attempt(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    c->result = 0;
    return done_or_register(c->object);
}

static bool all_done_enqueue(hd_case *c)
{
    struct hdi_group *g = c->object;
    hdi_waitq_push(&g->queue, hdi_case_node(c));
    return true;
}

static void all_done_dequeue(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    struct hdi_group *g = c->object;
    hdi_node_dequeue(hdi_case_node(c));
    if (hdi_waitq_empty(&g->queue)) (void)hdi_fetch_and_acq_rel(&g->word, ~WAITERS);
}

static void all_done_taken(hd_case *c)
{
    struct hdi_group *g = c->object;
    if (HDI_MUTANT(group_wait_blind)) return;
    hdi_lock_take(&g->base.lock); /* GROUP-2 */
    hdi_lock_give(&g->base.lock);
}

const struct hdi_op hdi_op_all_done = {
    .what = "wait for group",
    .attempt = all_done_attempt,
    .enqueue = all_done_enqueue,
    .dequeue = all_done_dequeue,
    .taken = all_done_taken,
};

/* ---- the rest ---- */

void hd_group_init(hd_group *group)
{
    memset(group, 0, sizeof(*group));
}

void hd_group_fini(hd_group *group)
{
    hdi_gone(group);
    struct hdi_group *g = group_of(group);
    hdi_lock_take(&g->base.lock);
    const bool used = hdi_load_relaxed(&g->word) / ONE || !hdi_waitq_empty(&g->queue);
    hdi_lock_give(&g->base.lock);
    HD_CHECK_MSG(!used, "a group ends while something is not done, or it is waited for");
}
