/* SPDX-License-Identifier: MIT
 *
 * overdue: which children of a nursery ignore that they were cancelled.
 */
#include <stdio.h>

#include "sched/monitor.h"
#include "scope/nursery.h"
#include "sched/runtime.h"

enum { REPORTED_MAX = 16 };

/* Hold the first of those that are left. Returns how many. */
static unsigned hold_children(struct hdi_nursery *n, struct hd_task **tasks, unsigned *more)
{
    unsigned count = 0;
    hdi_lock_take(&n->scope.base.lock);
    *more = n->scope.children;
    struct hdi_list *const end = &n->told;
    for (struct hdi_list *at = end->next; at != end && count < REPORTED_MAX; at = at->next) {
        struct hd_task *task = (struct hd_task *)((char *)at - offsetof(struct hd_task, sibling));
        if (hdi_word_try_ref(&task->word)) tasks[count++] = task;
    }
    *more -= *more < count ? *more : count;
    hdi_lock_give(&n->scope.base.lock);
    return count;
}

static void report(struct hdi_nursery *n, struct hd_task *task)
{
    char why[160];
    const hd_site *site = n->scope.site;
    const char *name = n->scope.name;
    snprintf(why, sizeof(why), "child of nursery%s%s%s at %s:%d, cancelled %lld ms ago, goes on",
             *name ? " \"" : "", name, *name ? "\"" : "", site ? site->file : "?",
             site ? site->line : 0, (long long)(n->overdue_ns / 1000000));
    hdi_monitor_report(n->scope.runtime, task, why, stderr);
}

static int report_all(void *arg)
{
    struct hdi_nursery *n = arg;
    struct hd_task *tasks[REPORTED_MAX];
    unsigned more;
    const unsigned count = hold_children(n, tasks, &more);
    for (unsigned i = 0; i < count; i++) {
        report(n, tasks[i]);
        hdi_task_unref(tasks[i]);
    }
    if (more > 0) fprintf(stderr, "heddle: and %u more children\n", more);
    return 0;
}

/* Only a fiber of the runtime can have others visited. */
void hdi_overdue_report(struct hdi_nursery *n)
{
    if (hdi_task_self()) {
        (void)report_all(n);
        return;
    }
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.runtime = n->scope.runtime;
    options.name = "report";
    hd_task *task;
    if (hd_spawn_with(&task, report_all, n, &options) == 0 && hd_join(task, NULL) != 0) {
        hd_detach(task); /* sim: it can never end by itself */
    }
}
