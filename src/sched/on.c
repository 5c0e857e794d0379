/* SPDX-License-Identifier: MIT
 *
 * on: a fiber moves to another dispatcher for a while.
 *
 * Only the running fiber changes its home. It is put into the queue of its new one after its
 * context is saved (SWITCH-4), by the worker it left, and stays RUNNING meanwhile, as if it
 * had yielded: a wake leaves NOTIFIED and looks at no queue.
 *
 *   MOVE-1  A fiber that is away holds a handle of the dispatcher it will return to.
 */
#include <errno.h>

#include <heddle/cap.h>

#include "base/check.h"
#include "base/mutant.h"
#include "sched/runtime.h"

/* Where the fiber's next run is to be; the unconfined one if its home is nowhere. */
static struct hd_dispatcher *home_of(const struct hd_task *task)
{
    return task->unusual & HDI_UNUSUAL_UNCONFINED ? hd_dispatcher_unconfined() : task->home;
}

/* Make `to` its home, and go there unless it is there already. */
static void move(struct hdi_worker *worker, struct hd_task *task, struct hd_dispatcher *to)
{
    struct hd_dispatcher *from = worker->dispatcher;
    const bool confined = to->runtime != NULL;
    if (confined) {
        task->unusual &= (uint8_t)~HDI_UNUSUAL_UNCONFINED;
        task->home = to;
    } else {
        task->unusual |= HDI_UNUSUAL_UNCONFINED;
        task->visiting = from;
    }
    if (!confined || to == from) return;
    hdi_dispatcher_arrive(to);
    hdi_dispatcher_depart(from);
    if (HDI_MUTANT(move_early_publish)) {
        task->resumes = true;
        hdi_sched_submit(task);
    }
    hdi_fiber_leave(&worker->exec, HDI_AFTER_MOVE);
}

int hd_on_enter(hd_on *on, hd_dispatcher *dispatcher)
{
    struct hdi_worker *worker = hdi_worker_self();
    struct hd_task *task = hdi_task_self();
    if (!task || task->kind != HDI_TASK_FIBER || !dispatcher) return -EINVAL;
    if (dispatcher->runtime != task->runtime || (task->unusual & HDI_UNUSUAL_PINNED)) {
        return -EINVAL;
    }
    struct hd_dispatcher *back = home_of(task);
    if (back != dispatcher && hdi_task_metered() && hdi_scope_may_run_on(task, dispatcher) != 0) {
        return -EPERM;
    }
    *on = (hd_on){{NULL}};
    if (back == dispatcher) return 0;
    on->private_[0] = hd_dispatcher_ref(back); /* MOVE-1 */
    move(worker, task, dispatcher);
    return 0;
}

void hd_on_leave(hd_on *on)
{
    struct hd_dispatcher *back = on->private_[0];
    if (!back) return;
    on->private_[0] = NULL;
    struct hd_task *task = hdi_task_self();
    HD_CHECK_MSG(task && task->kind == HDI_TASK_FIBER, "hd_on_leave() outside the fiber");
    move(hdi_worker_self(), task, back);
    hd_dispatcher_unref(back); /* MOVE-1 */
}

hd_on hd_on_begin(hd_dispatcher *dispatcher)
{
    hd_on on;
    const int err = hd_on_enter(&on, dispatcher);
    HD_CHECK_MSG(err != -EINVAL, "HD_ON() outside a fiber, in a pinned one, or for a dispatcher "
                                 "that is NULL, unconfined or of another runtime");
    HD_CHECK_MSG(err != -EPERM, hd_missing());
    return on;
}

int hd_on_call(hd_dispatcher *dispatcher, hd_fn *fn, void *arg, int *result)
{
    hd_on on;
    const int err = hd_on_enter(&on, dispatcher);
    if (err) return err;
    const int returned = fn(arg);
    hd_on_leave(&on);
    if (result) *result = returned;
    return 0;
}
