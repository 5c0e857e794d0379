/* SPDX-License-Identifier: MIT
 *
 * fiber: tasks with a stack of their own.
 *
 * A fiber leaves its stack by a switch to the scheduler of the worker it runs on, or
 * straight to the next fiber. It becomes wakeable only there, after its context is
 * saved (SWITCH-4): until then its word says RUNNING, and a wake only leaves NOTIFIED.
 */
#include <errno.h>

#include <heddle/task.h>

#include "base/check.h"
#include "base/mutant.h"
#include "task/exec.h"
#include "task/local.h"
#include "task/state.h"

static void fiber_main(void *arg)
{
    struct hd_task *task = arg;
    hdi_context_entered(&task->fiber.context);
    hdi_exec_arrived();
    const int result = task->fiber.fn(task->fiber.arg);
    if (hdi_unlikely(task->scope != NULL)) hdi_scope_abandoned(task);
    if (hdi_unlikely(hdi_task_extras(task) != NULL)) hdi_locals_end(task);
    task->result = result; /* Destructors may leave nurseries, whose results were in its place. */
    struct hdi_exec *exec = hdi_exec_self(); /* asked for only now: fn may have moved */
    HD_CHECK(exec && exec->current == task);
    hdi_sched_exit(exec);
}

void hdi_fiber_prepare(struct hd_task *task, struct hdi_stack *stack)
{
    task->fiber.stack = stack;
    task->fiber.waiter = NULL;
    task->fiber.holds = 0;
    stack->owner = task;
    if (stack->guard == HD_GUARD_CANARY) task->unusual |= HDI_UNUSUAL_CANARY;
    /* It starts with the worker's words. */
    if (task->unusual & HDI_UNUSUAL_SAVE_FP) hdi_fp_save(&hdi_task_extras(task)->fp);
    hdi_context_prepare(&task->fiber.context, stack, fiber_main, task);
}

void hdi_fiber_leave_unusual(struct hdi_exec *exec, struct hd_task *task)
{
    if (task->unusual & HDI_UNUSUAL_HOLDS) hdi_hold_fail(task);
    if (task->unusual & HDI_UNUSUAL_JOBS) hdi_sched_take_back(exec);
    if (task->unusual & HDI_UNUSUAL_SAVE_FP) exec->left_fp = &hdi_task_extras(task)->fp;
}

void hd_yield(void)
{
    struct hdi_exec *exec = hdi_exec_self();
    if (!exec || !exec->current) {
        hdi_thread_yield();
    } else if (exec->current->kind == HDI_TASK_FIBER) {
        struct hd_task *task = exec->current;
        const uint64_t word = hdi_load_relaxed(&task->word); /* A miss is asked again. */
        if (hdi_unlikely(word & (HDI_METERED | HDI_GIVE_WAY))) {
            (void)hdi_attend(task, HDI_COST_CALL, true, NULL); /* It may always yield. */
            if (word & HDI_GIVE_WAY) hdi_word_gave_way(&task->word);
            hdi_schedule_yields(task);
        }
        hdi_fiber_leave(exec, HDI_AFTER_YIELD);
    }
}

int hd_park(void)
{
    struct hdi_exec *exec = hdi_exec_self();
    if (!exec || !exec->current || exec->current->kind != HDI_TASK_FIBER) return -EINVAL;
    struct hd_task *task = exec->current;
    /* A cancel we miss here has set NOTIFIED, and the park will not sleep. */
    const int err = hdi_attend(task, HDI_COST_CALL, false, NULL);
    if (hdi_unlikely(err)) return err;
    exec = hdi_exec_self();
    if (!hdi_transition_take_notified(&task->word)) {
        task->fiber.since_ns = exec->coarse_ns;
        hdi_fiber_leave(exec, HDI_AFTER_PARK);
    }
    return hdi_word_cancelled(hdi_load_relaxed(&task->word)) ? hdi_scope_code(task) : 0;
}

size_t hd_stack_high_water(void)
{
    struct hd_task *task = hdi_task_self();
    if (!task || task->kind != HDI_TASK_FIBER) return 0;
    return hdi_stack_high_water(task->fiber.stack);
}
