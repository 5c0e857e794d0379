/* SPDX-License-Identifier: MIT
 *
 * cancel: what a task learns of its being cancelled, and the public face of plain scopes.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "scope/nursery.h"
#include "scope/scope.h"
#include "sched/runtime.h"

/* ---- what is in effect where a task is now ---- */

/* Of all cancels in effect the outermost counts, unless it is a deadline and another is not. */
static hd_cause choose(hd_cause outer, hd_cause inner)
{
    if (outer.reason == HD_REASON_NONE) return inner;
    if (inner.reason == HD_REASON_NONE) return outer;
    return outer.root == HD_REASON_TIMEOUT && inner.root != HD_REASON_TIMEOUT ? inner : outer;
}

/* Context: task->scopes. */
static hd_cause cause_in_effect(const struct hd_task *task)
{
    const uint64_t word = hdi_load_acquire(&((struct hd_task *)task)->word); /* W */
    const unsigned shields = hdi_word_shields(word);
    hd_cause cause = {HD_REASON_NONE, HD_REASON_NONE, 0, 0};
    for (const struct hdi_scope *s = task->scope; s && shields <= s->inside; s = s->up) {
        const hd_cause outer = hdi_scope_cause_of(s);
        if (outer.reason != HD_REASON_NONE) cause = choose(outer, cause);
    }
    if ((word & HDI_CANCELLED) && shields == 0) cause = choose(hdi_scope_task_cause(task), cause);
    return cause;
}

static hd_cause cause_of_self(struct hd_task *task)
{
    hdi_lock_take(&task->scopes);
    const hd_cause cause = cause_in_effect(task);
    hdi_lock_give(&task->scopes);
    return cause;
}

int hdi_scope_code(struct hd_task *task)
{
    if (!task) return -ECANCELED; /* of a stackless task that another thread drops */
    return cause_of_self(task).root == HD_REASON_TIMEOUT ? -ETIMEDOUT : -ECANCELED;
}

unsigned hdi_scope_shields(const struct hd_task *task)
{
    return task->scope->inside; /* It changes only when a soft shield goes: then one less. */
}

hd_cause hd_self_cause(void)
{
    struct hd_task *task = hdi_task_self();
    return task ? cause_of_self(task) : (hd_cause){HD_REASON_NONE, HD_REASON_NONE, 0, 0};
}

const char *hd_reason_name(hd_reason reason)
{
    switch (reason) {
    case HD_REASON_NONE: return "none";
    case HD_REASON_EXPLICIT: return "explicit";
    case HD_REASON_TIMEOUT: return "timeout";
    case HD_REASON_PARENT: return "parent";
    case HD_REASON_FAILURE: return "failure";
    }
    return "?";
}

/* ---- every call of a task that needs attention ---- */

/* A fiber that has run for long lets others run; not while it holds locks of its thread. */
static void give_way(struct hd_task *task)
{
    hdi_word_gave_way(&task->word);
    struct hdi_exec *exec = hdi_exec_self();
    exec->ops = 0;
    if (task->unusual & HDI_UNUSUAL_HOLDS) return;
    hdi_sched_long_run(exec);
    hdi_schedule_yields(task);
    hdi_fiber_leave(exec, HDI_AFTER_LONG_RUN);
}

/* In sim long is counted in ops: the same for every run of a seed. */
static bool quantum_is_over(struct hd_task *task, unsigned ops)
{
    if (task->runtime->world->kind != HD_WORLD_SIM) return false;
    struct hdi_exec *exec = hdi_exec_self();
    exec->ops += ops;
    return exec->ops >= task->runtime->options.quantum_ops;
}

/* `now`: the call only looks, and does not switch. */
static int attend(struct hd_task *task, enum hdi_cost cost, unsigned ops, bool now,
                  const void *object)
{
    const uint64_t word = hdi_load_relaxed(&task->word); /* What is missed is seen next time. */
    bool long_run = word & HDI_GIVE_WAY;
    if (word & HDI_METERED) {
        long_run = quantum_is_over(task, ops) || long_run;
        const int err = task->nursery ? hdi_budget_pay(task, cost, ops, now) : 0;
        if (err) return err;
    }
    if (!now || object) hdi_point(object);
    if (now) return 0;
    if (long_run && task->kind == HDI_TASK_FIBER) give_way(task);
    return hdi_word_cancelled(hdi_load_relaxed(&task->word)) ? hdi_scope_code(task) : 0;
}

int hdi_scope_attend(struct hd_task *task, enum hdi_cost cost, bool now, const void *object)
{
    return attend(task, cost, 1, now, object);
}

int hdi_scope_unpaid(struct hd_task *task, enum hdi_cost cost, bool now, const void *object,
                     int32_t fare)
{
    *hdi_credit_for(task, cost) += fare;
    return attend(task, cost, 1, now, object);
}

int hd_checkpoint(unsigned ops)
{
    struct hd_task *task = hdi_task_self();
    if (!task) return 0;
    const uint64_t word = hdi_load_relaxed(&task->word); /* What is missed is seen next time. */
    if (hdi_likely(!(word & HDI_ATTENTION))) return 0;
    if (hdi_credit_pay_ops(task, word, ops)) return 0;
    return attend(task, HDI_COST_CALL, ops, false, NULL);
}

/* ---- plain scopes ---- */

static struct hdi_scope *scope_of(hd_scope *scope)
{
    return (struct hdi_scope *)scope;
}

static bool options_make_sense(const hd_scope_options *options)
{
    if (options->size != sizeof(*options) || options->deadline < 0 || options->grace < 0) {
        return false;
    }
    const bool soft = options->shield == HD_SHIELD_SOFT;
    return (unsigned)options->shield <= HD_SHIELD_SOFT && soft == (options->grace != 0);
}

int hd_scope_enter_at(hd_scope *handle, const hd_scope_options *options, const hd_site *site)
{
    static const hd_scope_options none = {.size = sizeof(none)};
    struct hd_task *task = hdi_task_self();
    if (!options) options = &none;
    if (!task || !options_make_sense(options)) return -EINVAL;
    struct hdi_scope *scope = scope_of(handle);
    scope->kind = HDI_SCOPE_PLAIN;
    scope->shield = (uint8_t)options->shield;
    scope->owner = task;
    scope->runtime = task->runtime;
    scope->site = options->site ? options->site : site;
    scope->name = "";
    scope->deadline_ns = options->deadline ? options->deadline : HD_FOREVER;
    scope->grace_ns = options->shield == HD_SHIELD_SOFT ? options->grace : HD_FOREVER;
    scope->token = options->token;
    return hdi_scope_join_chain(scope);
}

void hd_scope_leave(hd_scope *scope)
{
    hdi_scope_leave_chain(scope_of(scope));
}

void hd_scope_cancel(hd_scope *scope)
{
    hdi_scope_ask(scope_of(scope), HD_REASON_EXPLICIT, 0, 0);
}

hd_cause hd_scope_cause(hd_scope *scope)
{
    return hdi_scope_cause_of(scope_of(scope));
}

hd_scope *hd_scope_begin_(hd_scope *scope, const hd_scope_options *options, const hd_site *site)
{
    const int err = hd_scope_enter_at(scope, options, site);
    HD_CHECK_MSG(err != -EINVAL, "HD_SCOPE outside a task, or with options that make no sense");
    HD_CHECK_MSG(err != -EOVERFLOW, "HD_SCOPE: a task has 255 shields: one more would overflow");
    return scope;
}

void hd_scope_cleanup_(hd_scope *scope)
{
    hd_scope_leave(scope);
}
