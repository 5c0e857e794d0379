/* SPDX-License-Identifier: MIT
 *
 * joined: the end of a task as one of several things to wait for, or with a deadline.
 *
 * A task has room for one joiner, and no lock: the node is late (wait/wait.h). Whoever
 * completes the task has taken the node with the COMPLETE bit; if the wait is decided
 * otherwise meanwhile, it says so in `gone`, its last touch.
 */
#include "wait/joined.h"

#include <errno.h>

static bool attempt(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    return hdi_task_ended(c->object);
}

static bool enqueue(hd_case *c)
{
    struct hdi_node *node = hdi_case_node(c);
    hdi_store_relaxed(&node->gone, 0); /* The task word publishes it. */
    return hdi_task_join_begin(c->object, node);
}

static void dequeue(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    if (hdi_task_join_leave(c->object) || HDI_MUTANT(joined_not_gone)) return;
    enum { SPINS = 100 };
    for (int i = 0; !hdi_load_acquire(&hdi_case_node(c)->gone); i++) { /* G */
        if (i < SPINS) {
            hdi_cpu_relax();
        } else {
            hdi_thread_yield(); /* The completer lost its CPU. */
        }
    }
}

static void taken(hd_case *c)
{
    c->result = hdi_task_join_finish(c->object, c->item);
}

const struct hdi_op hdi_op_join = {
    .what = "join task",
    .attempt = attempt,
    .enqueue = enqueue,
    .dequeue = dequeue,
    .taken = taken,
    .late = true,
};

void hdi_wait_joined(struct hdi_node *node)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    if (!hdi_node_complete(node, &wakeups)) hdi_store_release(&node->gone, 1); /* G */
    hdi_wakeups_go(&wakeups);
}

int hd_join_until(hd_task *handle, int *result, int64_t deadline)
{
    if (deadline == HD_NOW) return hd_join_try(handle, result);
    const struct hd_task *self = hdi_task_self();
    if (!self) return hdi_task_join_thread(handle, result, deadline);
    if (self->kind != HDI_TASK_FIBER) return -EINVAL;
    if (self == handle) return -EDEADLK;
    hd_case c = HD_JOIN(handle, result);
    hdi_case_node(&c)->op = &hdi_op_join;
    const int index = hdi_wait_any(&c, 1, 0, deadline);
    return index < 0 ? index : c.result;
}
