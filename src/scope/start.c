/* SPDX-License-Identifier: MIT
 *
 * start: a child that says when it is ready, and who waits for that.
 *
 *   starter                                  child
 *   1. spawn it, with `start`                1. hd_ready(), or its end: READY or ENDED, whichever
 *   2. wait                                     comes first; the starter's wait is over
 *   3. cancelled: cancel the child, and      2. drop `start`
 *      wait for good
 *   4. look; drop `start`
 *
 *   START-1  Everything in `start` is under its lock. The starter and the child hold it; whoever
 *            drops it last frees it. So a starter may leave early: a thread in sim whose child can
 *            neither become ready nor end.
 *   START-2  The child finds it in its extras until it has said something: it does so once.
 */
#include <errno.h>

#include <heddle/nursery.h>

#include "sched/runtime.h"
#include "scope/nursery.h"
#include "sync/waitq.h"

enum outcome { UNDECIDED, READY, ENDED };

struct hdi_start {
    struct hdi_waitable base;
    uint8_t holders;
    enum outcome outcome;
    int result;  /* ENDED: what the child returned */
    void *value; /* READY: what it gave */
    struct hdi_list waiters;
};

/* Context: the lock, given back. */
static void drop_locked(struct hdi_start *start)
{
    const bool last = --start->holders == 0;
    hdi_lock_give(&start->base.lock);
    if (last) hdi_lines_free(start);
}

/* ---- the child ---- */

static void say(struct hd_task *child, enum outcome outcome, void *value, int result)
{
    struct hdi_extras *extras = hdi_task_extras(child);
    struct hdi_start *start = extras ? extras->start : NULL;
    if (!start) return;
    extras->start = NULL; /* START-2 */
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&start->base.lock);
    start->outcome = outcome;
    start->value = value;
    start->result = result;
    hdi_waitq_complete_all(&start->waiters, 0, &wakeups);
    drop_locked(start);
    hdi_wakeups_go(&wakeups);
}

void hd_ready(void *value)
{
    struct hd_task *self = hdi_task_self();
    if (self) say(self, READY, value, 0);
}

void hdi_start_ended(struct hd_task *task, int result)
{
    say(task, ENDED, NULL, result);
}

/* ---- the starter ---- */

static bool start_attempt(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    const struct hdi_start *start = c->object;
    c->result = 0;
    return start->outcome != UNDECIDED;
}

static bool start_enqueue(hd_case *c)
{
    struct hdi_start *start = c->object;
    hdi_waitq_push(&start->waiters, hdi_case_node(c));
    return true;
}

static void start_dequeue(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    hdi_node_dequeue(hdi_case_node(c));
}

static const struct hdi_op op_start = {
    .what = "wait for start of task",
    .attempt = start_attempt,
    .enqueue = start_enqueue,
    .dequeue = start_dequeue,
};

/* Wait for the outcome. `always`: whatever happens to the caller. Returns 0, and then it is there;
 * otherwise what ended the wait. */
static int await(struct hdi_start *start, bool always)
{
    hd_case c;
    struct hdi_wakeups none = HDI_WAKEUPS_INIT;
    hdi_waitq_case(&c, start, 0);
    hdi_lock_take(&start->base.lock);
    if (start_attempt(&c, &none)) {
        hdi_lock_give(&start->base.lock);
        return 0;
    }
    if (always) return hdi_wait_locked_always(&op_start, &c);
    return hdi_wait_locked(&op_start, &c, HD_FOREVER);
}

/* What hd_start() returns, whose wait was ended by `why`. The starter's hold is dropped. */
static int finish(struct hdi_start *start, int why, void **value)
{
    int err = why;
    hdi_lock_take(&start->base.lock);
    switch (start->outcome) {
    case UNDECIDED: break;
    case READY:
        err = 0;
        if (value) *value = start->value;
        break;
    case ENDED:
        err = start->result < 0 ? start->result : -EPIPE;
        if (err == -ECANCELED && why) err = why; /* It heeded our cancel: a deadline, perhaps. */
        break;
    }
    drop_locked(start);
    return err;
}

int hd_start_at(hd_nursery *nursery, hd_fn *fn, void *arg, void **value, const hd_site *site)
{
    int err = hdi_wait_enter(HD_FOREVER, NULL);
    if (err) return err;
    struct hdi_start *start = hdi_lines_alloc(sizeof(*start));
    if (!start) return -ENOMEM;
    start->holders = 2;
    struct hd_task *child;
    err = hdi_spawn_into(hdi_nursery_of(nursery), fn, arg, start, &child, site);
    if (err) {
        hdi_lines_free(start);
        return err;
    }
    const int why = await(start, false);
    if (why && why != -EDEADLK) {
        hdi_task_cancel(child);
        (void)await(start, true);
    }
    hd_detach(child);
    return finish(start, why, value);
}
