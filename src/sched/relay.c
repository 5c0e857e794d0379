/* SPDX-License-Identifier: MIT */
#include "sched/relay.h"

#include "base/check.h"

/* ---- at a point ---- */

/* The task was chosen, and has not begun. Begin to run it in the driver's place. Returns false if
 * that is for the driver to do. */
static bool begin_instead(struct hdi_worker *worker, struct hd_task *task)
{
    struct hdi_schedule *schedule = worker->exec.runtime->sim.schedule;
    if (task->unusual || worker->exec.left || worker->exec.left_fp) return false;
    if (!hdi_schedule_may_follow(schedule, worker)) return false;
    if (!hdi_worker_can_begin(worker, task)) return false;
    hdi_schedule_followed(schedule, worker);
    hdi_worker_begin_run(worker, task);
    return true;
}

/* The running fiber is held, and goes on when somebody switches to it. */
HDI_ALWAYS_INLINE void hold_and_switch(struct hd_task *caller, struct hdi_context *to)
{
    caller->resumes = true;
    hdi_context_switch(&caller->fiber.context, to);
    struct hdi_exec *exec = hdi_exec_self();
    if (hdi_unlikely(exec->left || exec->dead_stack)) hdi_sched_settle(exec);
}

/* hdi_worker_switch_to() whatever is in the way. */
static __attribute__((noinline)) void switch_slowly(struct hdi_worker *worker,
                                                    struct hd_task *task)
{
    struct hdi_exec *exec = &worker->exec;
    struct hd_task *caller = exec->current;
    if (caller->unusual) {
        hdi_fiber_leave_unusual(exec, caller);
        exec->left = caller;
        exec->after = HDI_AFTER_HOLD;
    }
    struct hdi_context *to = &exec->context;
    if (task && task->resumes && !task->unusual && !exec->left_fp) {
        hdi_worker_begin_run(worker, task);
        to = &task->fiber.context;
    } else if (task && begin_instead(worker, task)) {
        to = &task->fiber.context;
    } else {
        worker->handed = task;
    }
    hold_and_switch(caller, to);
}

/* Nothing is to be done on the other side with a fiber that is held, unless it is unusual. */
void hdi_worker_switch_to(struct hdi_worker *worker, struct hd_task *task)
{
    struct hd_task *caller = worker->exec.current;
    if (hdi_unlikely(!task || !task->resumes || task->unusual || caller->unusual)) {
        switch_slowly(worker, task);
        return;
    }
    HDI_ASSERT(!worker->exec.left_fp); /* Of an unusual one that leaves. */
    hdi_worker_begin_run(worker, task);
    hold_and_switch(caller, &task->fiber.context);
}

/* ---- where a fiber waits, or has ended ---- */

/* Whether the fiber that leaves has ended, or will sleep, as far as can be seen now: it is not
 * among those who can be chosen next. */
static bool is_out(struct hdi_exec *exec)
{
    struct hd_task *task = exec->left;
    if (!task) return true;
    if (task->unusual || exec->after != HDI_AFTER_PARK) return false;
    const uint64_t word = hdi_load_relaxed(&task->word); /* Nobody else changes it now. */
    return !(word & HDI_NOTIFIED) && !hdi_word_wait_over(word, task->phase);
}

struct hdi_context *hdi_worker_next_instead(struct hdi_worker *worker)
{
    struct hdi_exec *exec = &worker->exec;
    struct hdi_schedule *schedule = exec->runtime->sim.schedule;
    if (!schedule || exec->left_fp || !is_out(exec)) return &exec->context;
    struct hd_task *task = hdi_schedule_follow(schedule, worker);
    if (!task) return &exec->context;
    /* The stack of one that has ended is not free yet. */
    const bool can = task->resumes || (!exec->dead_stack && hdi_worker_can_begin(worker, task));
    if (!can || task->unusual) {
        worker->handed = task;
        return &exec->context;
    }
    hdi_schedule_followed(schedule, worker);
    hdi_worker_begin_run(worker, task);
    return &task->fiber.context;
}
