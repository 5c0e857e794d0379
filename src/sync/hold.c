/* SPDX-License-Identifier: MIT
 *
 * hold: finds fibers that wait while they hold what belongs to a thread.
 *
 * The count is the fiber's own; hdi_fiber_leave() looks at it, in a cache line it reads anyway
 * (task/exec.h), and calls hdi_hold_fail() if it is not 0.
 */
#include <stdio.h>

#include <heddle/sync.h>

#include "task/exec.h"

/* Set from anywhere at any time, e.g. before the first runtime. */
static _Atomic(uintptr_t) report_fn;

void hd_hold_report(hd_hold_fn *report)
{
    hdi_store_release(&report_fn, (uintptr_t)report); /* H */
}

void hd_hold_begin(const hd_site *site)
{
    struct hd_task *task = hdi_task_self();
    if (!task || task->kind != HDI_TASK_FIBER) return;
    HD_CHECK_MSG(task->fiber.holds < UINT16_MAX, "a fiber holds over 65535 locks of its thread");
    task->fiber.holds++;
    task->unusual |= HDI_UNUSUAL_HOLDS;
    struct hdi_extras *extras = hdi_task_need_extras(task);
    if (extras) extras->held_at = site;
}

void hd_hold_end(void)
{
    struct hd_task *task = hdi_task_self();
    if (!task || task->kind != HDI_TASK_FIBER) return;
    HD_CHECK_MSG(task->fiber.holds > 0, "hd_hold_end() without hd_hold_begin()");
    if (--task->fiber.holds == 0) task->unusual &= (uint8_t)~HDI_UNUSUAL_HOLDS;
}

static noreturn void die(const hd_hold *hold)
{
    char text[600];
    snprintf(text, sizeof(text),
             "fiber %llu%s%s%s, spawned at %s:%d in %s(), waits or yields while it holds %u lock%s "
             "of its thread, the last taken at %s:%d in %s()",
             (unsigned long long)hold->id, *hold->name ? " \"" : "", hold->name,
             *hold->name ? "\"" : "", hold->site->file, hold->site->line, hold->site->function,
             hold->count, hold->count == 1 ? "" : "s", hold->locked->file, hold->locked->line,
             hold->locked->function);
    hdi_fail(__FILE__, __LINE__, text);
}

void hdi_hold_fail(struct hd_task *task)
{
    static const hd_site unknown = {.file = "?", .function = "?"};
    const struct hdi_extras *extras = hdi_task_extras(task);
    const hd_hold hold = {
        .id = task->id,
        .name = hdi_task_name(task),
        .site = task->site,
        .locked = extras && extras->held_at ? extras->held_at : &unknown,
        .count = task->fiber.holds,
    };
    hd_hold_fn *report = (hd_hold_fn *)hdi_load_acquire(&report_fn); /* H */
    if (!report) die(&hold);
    report(&hold);
}
