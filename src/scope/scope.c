/* SPDX-License-Identifier: MIT */
#include "scope/scope.h"

#include <errno.h>
#include <stdio.h>

#include "base/check.h"
#include "base/mutant.h"
#include "sched/runtime.h"

/* ---- who is where ---- */

_Static_assert(sizeof(struct hd_task) <= HDI_THREAD_ROOM_BYTES, "a thread has room for a task");

/* What stands for a plain thread that opens nurseries: RUNNING for ever, so nobody submits it. */
struct hd_task *hdi_scope_owner(void)
{
    struct hd_task *task = hdi_task_self();
    if (hdi_likely(task != NULL)) return task;
    task = hdi_thread_room();
    if (hdi_load_relaxed(&task->word) == 0) { /* Nobody else knows it yet. */
        hdi_store_relaxed(&task->word, hdi_word_with(HDI_REF_ONE, HDI_RUNNING));
    }
    return task;
}

static struct hdi_scope_cause pack(hd_cause cause)
{
    return (struct hdi_scope_cause){
        .reason = (uint8_t)cause.reason,
        .root = (uint8_t)cause.root,
        .error = cause.error,
        .task = cause.task,
    };
}

hd_cause hdi_scope_cause_of(const struct hdi_scope *scope)
{
    if (!hdi_scope_asked(scope)) return (hd_cause){HD_REASON_NONE, HD_REASON_NONE, 0, 0};
    const struct hdi_scope_cause *c = &scope->cause;
    return (hd_cause){(hd_reason)c->reason, (hd_reason)c->root, c->error, c->task};
}

/* The same as felt by what is inside. */
static hd_cause inherited(hd_cause cause)
{
    if (cause.reason != HD_REASON_NONE) cause.reason = HD_REASON_PARENT;
    return cause;
}

hd_cause hdi_scope_task_cause(const struct hd_task *task)
{
    const struct hdi_scope *nursery = (const struct hdi_scope *)task->nursery;
    const hd_cause by_nursery = nursery ? hdi_scope_cause_of(nursery) : (hd_cause){0};
    if (by_nursery.reason != HD_REASON_NONE) return by_nursery;
    struct hdi_extras *extras = hdi_task_extras(task);
    if (extras && hdi_load_relaxed(&extras->fined)) { /* W: written before the word */
        return (hd_cause){HD_REASON_FAILURE, HD_REASON_FAILURE, -EDQUOT, task->id};
    }
    return (hd_cause){HD_REASON_EXPLICIT, HD_REASON_EXPLICIT, 0, 0};
}

/* ---- asking and telling ---- */

/* Context: owner->scopes. */
static void ask(struct hdi_scope *scope, hd_cause cause, struct hdi_asked *asked)
{
    HDI_ASSERT(!hdi_scope_asked(scope));
    scope->cause = pack(cause);
    hdi_store_release(&scope->asked, 1); /* K -> K */
    hdi_fetch_add_acq_rel(&scope->holds, 1); /* SCOPE-2 */
    scope->next_asked = asked->first;
    asked->first = scope;
}

/* The cancels felt at some place of a chain: how many shields the innermost of them is behind, and
 * why. */
struct felt {
    unsigned shields; /* of the task */
    bool any;
    unsigned inside;
    hd_cause cause;
};

/* Ask one scope if it feels a cancel from outside; and see what those in it feel. */
static void pass(struct hdi_scope *scope, struct felt *felt, struct hdi_asked *asked)
{
    const bool reached = felt->any && scope->outside <= felt->inside;
    if (reached && !hdi_scope_asked(scope) && scope->shield == HD_SHIELD_NONE) {
        ask(scope, inherited(felt->cause), asked);
    }
    if (!hdi_scope_asked(scope)) return;
    felt->any = true;
    felt->inside = scope->inside;
    felt->cause = hdi_scope_cause_of(scope);
}

/* A chain is linked from the inside; it is looked at from the outside, by turning its links round
 * and back again. */
static struct hdi_scope *turn_round(struct hdi_scope *scope)
{
    struct hdi_scope *turned = NULL;
    while (scope) {
        struct hdi_scope *up = scope->up;
        scope->up = turned;
        turned = scope;
        scope = up;
    }
    return turned;
}

/* Context: task->scopes. */
static void set_in_cancelled(struct hd_task *task, bool cancelled, struct hdi_wakeups *wakeups)
{
    if (cancelled) {
        const enum hdi_next next = hdi_transition_to_in_cancelled(&task->word);
        if (next == HDI_NEXT_SUBMIT) hdi_wakeups_add(wakeups, task);
    } else if (hdi_load_relaxed(&task->word) & HDI_IN_CANCELLED) {
        hdi_word_out_of_cancelled(&task->word); /* Only we, under the lock, change it. */
    }
}

void hdi_scope_review(struct hd_task *task, struct hdi_asked *asked)
{
    const uint64_t word = hdi_load_acquire(&task->word); /* W */
    /* Most often nothing is wrong: nothing around was cancelled, and nothing was before. */
    const bool alone = !task->scope || (!task->scope->up && !hdi_scope_asked(task->scope));
    if (hdi_likely(alone && !(word & (HDI_CANCELLED | HDI_IN_CANCELLED)))) return;
    struct felt felt = {.shields = hdi_word_shields(word), .any = word & HDI_CANCELLED};
    if (felt.any) felt.cause = hdi_scope_task_cause(task);
    struct hdi_scope *outermost = turn_round(task->scope);
    bool by_scope = false;
    for (struct hdi_scope *s = outermost; s; s = s->up) {
        pass(s, &felt, asked);
        by_scope = by_scope || hdi_scope_asked(s);
    }
    (void)turn_round(outermost);
    set_in_cancelled(task, by_scope && felt.shields <= felt.inside, &asked->wakeups);
}

void hdi_scope_told(struct hd_task *task)
{
    struct hdi_asked asked = HDI_ASKED_INIT;
    hdi_lock_take(&task->scopes);
    if (task->scope) hdi_scope_review(task, &asked);
    hdi_lock_give(&task->scopes);
    hdi_scope_tell(&asked);
}

static hd_cause cause_for(hd_reason reason, int error, uint64_t task)
{
    return (hd_cause){reason, reason, error, task};
}

void hdi_scope_ask_locked(struct hdi_scope *scope, hd_reason reason, int error, uint64_t task,
                          struct hdi_asked *asked)
{
    struct hd_task *owner = scope->owner;
    hdi_lock_take(&owner->scopes);
    if (!hdi_scope_asked(scope)) {
        ask(scope, cause_for(reason, error, task), asked);
        hdi_scope_review(owner, asked);
    }
    hdi_lock_give(&owner->scopes);
}

void hdi_scope_ask(struct hdi_scope *scope, hd_reason reason, int error, uint64_t task)
{
    struct hdi_asked asked = HDI_ASKED_INIT;
    hdi_scope_ask_locked(scope, reason, error, task, &asked);
    hdi_scope_tell(&asked);
}

void hdi_scope_tell_all(struct hdi_asked *asked)
{
    hdi_wakeups_go(&asked->wakeups);
    asked->wakeups = (struct hdi_wakeups)HDI_WAKEUPS_INIT;
    for (struct hdi_scope *scope; (scope = asked->first);) {
        asked->first = scope->next_asked;
        if (scope->kind == HDI_SCOPE_NURSERY) hdi_nursery_tell(scope, asked);
        hdi_scope_release(scope);
    }
}

/* ---- holding ---- */

void hdi_scope_interrupt(struct hdi_scope *scope, int result, struct hdi_wakeups *wakeups)
{
    for (struct hdi_node *node; (node = hdi_node_pop(&scope->waiters));) {
        hdi_node_case(node)->result = result;
        (void)hdi_node_complete(node, wakeups);
    }
}

/* Context: base.lock. */
static bool is_held(struct hdi_scope *scope)
{
    return scope->children > 0 || hdi_load_acquire(&scope->holds) > 0; /* R */
}

void hdi_scope_maybe_free(struct hdi_scope *scope, struct hdi_wakeups *wakeups)
{
    if (is_held(scope)) return;
    if (scope->kind == HDI_SCOPE_NURSERY) hdi_nursery_all_ended(scope, wakeups);
    hdi_scope_interrupt(scope, 0, wakeups);
}

void hdi_scope_release(struct hdi_scope *scope)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&scope->base.lock);
    const uint32_t was = hdi_fetch_sub_acq_rel(&scope->holds, 1); /* R */
    HDI_ASSERT(was > 0);
    if (was == 1) hdi_scope_maybe_free(scope, &wakeups);
    hdi_lock_give(&scope->base.lock); /* The last touch. */
    hdi_wakeups_go(&wakeups);
}

static bool unheld_attempt(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    struct hdi_scope *scope = c->object;
    c->result = 0;
    return !is_held(scope);
}

static bool unheld_enqueue(hd_case *c)
{
    struct hdi_scope *scope = c->object;
    hdi_node_enqueue(&scope->waiters, hdi_case_node(c));
    return true;
}

static void unheld_dequeue(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    hdi_node_dequeue(hdi_case_node(c));
}

static struct hd_runtime *unheld_host(const hd_case *c)
{
    const struct hdi_scope *scope = c->object;
    return scope->runtime;
}

const struct hdi_op hdi_op_unheld = {
    .what = "wait for the children of nursery",
    .attempt = unheld_attempt,
    .enqueue = unheld_enqueue,
    .dequeue = unheld_dequeue,
    .host = unheld_host,
};

int hdi_scope_wait_locked(struct hdi_scope *scope, int64_t deadline_ns)
{
    hd_case c = {.object = scope};
    struct hdi_wakeups none = HDI_WAKEUPS_INIT;
    if (unheld_attempt(&c, &none)) {
        hdi_lock_give(&scope->base.lock);
        return 0;
    }
    return hdi_wait_locked_until(&hdi_op_unheld, &c, deadline_ns);
}

/* ---- time ---- */

static int64_t earlier(int64_t a_ns, int64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

static void drop_shield(struct hd_task *owner)
{
    const int err = hdi_word_unshield(&owner->word);
    HD_CHECK_MSG(err == 0, "a shield was dropped by hd_unshield() that a scope had taken");
}

static struct hdi_scope *scope_of(struct hdi_timer *timer)
{
    return (struct hdi_scope *)((char *)timer - offsetof(struct hdi_scope, timer));
}

void hdi_scope_hold(struct hdi_timer *timer)
{
    hdi_fetch_add_acq_rel(&scope_of(timer)->holds, 1); /* SCOPE-2: under the wheel's lock */
}

/* The shield of `shield` is gone: what is inside it counts one less. Context: owner->scopes. */
static void dissolve(struct hdi_scope *shield)
{
    struct hd_task *owner = shield->owner;
    for (struct hdi_scope *s = owner->scope; s != shield; s = s->up) {
        s->outside--;
        s->inside--;
    }
    shield->inside--;
    shield->shield = HD_SHIELD_NONE;
    drop_shield(owner);
}

static void wake(struct hd_task *task, struct hdi_asked *asked)
{
    const enum hdi_next next = hdi_transition_to_notified(&task->word, false);
    if (next == HDI_NEXT_SUBMIT) hdi_wakeups_add(&asked->wakeups, task);
}

/* Do what is due. Returns when the next is. */
static int64_t pass_time(struct hdi_scope *scope, int64_t now_ns, struct hdi_asked *asked)
{
    struct hd_task *owner = scope->owner;
    hdi_lock_take(&owner->scopes);
    if (scope->grace_ns <= now_ns) {
        if (scope->shield == HD_SHIELD_SOFT) dissolve(scope);
        scope->grace_ns = HD_FOREVER;
    }
    if (scope->deadline_ns <= now_ns) {
        if (!hdi_scope_asked(scope)) ask(scope, cause_for(HD_REASON_TIMEOUT, 0, 0), asked);
        scope->deadline_ns = HD_FOREVER;
    }
    hdi_scope_review(owner, asked);
    /* A task that sleeps does not know yet that the shield which kept a cancel off is gone. */
    if (hdi_word_cancelled(hdi_load_relaxed(&owner->word))) wake(owner, asked);
    const int64_t next_ns = earlier(scope->deadline_ns, scope->grace_ns);
    hdi_lock_give(&owner->scopes);
    return next_ns;
}

void hdi_scope_due(struct hdi_timer *due)
{
    struct hdi_asked asked = HDI_ASKED_INIT;
    for (struct hdi_timer *next; due; due = next) {
        next = due->due_next;
        struct hdi_scope *scope = scope_of(due);
        const int64_t next_ns = pass_time(scope, hdi_sched_now(), &asked);
        if (next_ns != HD_FOREVER) hdi_timer_start(due, hdi_exec_self()->timers, next_ns);
        hdi_scope_release(scope);
    }
    hdi_scope_tell(&asked);
}

/* What is due already happens at once. */
static __attribute__((noinline)) void start_timer(struct hdi_scope *scope, struct hdi_asked *asked)
{
    const int64_t now_ns = scope->runtime->world->now(scope->runtime);
    const int64_t next_ns = pass_time(scope, now_ns, asked);
    if (next_ns == HD_FOREVER) return;
    scope->timer.kind = HDI_TIMER_SCOPE;
    hdi_store_relaxed(&scope->timer.state, HDI_TIMER_STOPPED); /* The wheel's lock orders it. */
    hdi_sched_timer_start(scope->runtime, &scope->timer, next_ns);
}

/* ---- entering and leaving ---- */

int hdi_scope_join_chain(struct hdi_scope *scope)
{
    struct hd_task *owner = scope->owner;
    struct hdi_asked asked = HDI_ASKED_INIT;
    const bool shield = scope->shield != HD_SHIELD_NONE;
    hdi_list_init(&scope->waiters);
    hdi_store_relaxed(&scope->base.lock.held, 0); /* Published by owner->scopes. */
    hdi_store_relaxed(&scope->asked, 0);
    hdi_store_relaxed(&scope->holds, 0);
    scope->children = 0;
    hdi_lock_take(&owner->scopes);
    scope->outside = (uint8_t)hdi_word_shields(hdi_load_relaxed(&owner->word)); /* its own */
    const int err = shield ? hdi_word_shield(&owner->word) : 0;
    if (!err) {
        scope->inside = (uint8_t)(scope->outside + shield);
        scope->up = owner->scope;
        owner->scope = scope;
        if (!HDI_MUTANT(scope_enter_blind)) hdi_scope_review(owner, &asked);
    }
    hdi_lock_give(&owner->scopes);
    if (err) return err;
    scope->timer.timers = NULL;
    if (hdi_unlikely(earlier(scope->deadline_ns, scope->grace_ns) != HD_FOREVER)) {
        start_timer(scope, &asked);
    }
    if (hdi_unlikely(scope->token != NULL)) hdi_token_join(scope, &asked);
    hdi_scope_tell(&asked);
    return 0;
}

static void print_scope(char *text, size_t bytes, const struct hdi_scope *scope)
{
    snprintf(text, bytes, "the %s%s%s%s of %s:%d in %s()",
             scope->kind == HDI_SCOPE_NURSERY ? "nursery" : "scope", *scope->name ? " \"" : "",
             scope->name, *scope->name ? "\"" : "",
             scope->site ? scope->site->file : "?", scope->site ? scope->site->line : 0,
             scope->site ? scope->site->function : "?");
}

static noreturn __attribute__((cold)) void die_of_order(const struct hdi_scope *left,
                                                        const struct hdi_scope *innermost)
{
    char outer[200] = "", inner[200] = "", text[500];
    print_scope(outer, sizeof(outer), left);
    if (innermost) print_scope(inner, sizeof(inner), innermost);
    snprintf(text, sizeof(text),
             innermost ? "%s is left before %s, which is inside it: leave the inner one first"
                       : "%s is left by a task that is in no scope: who entered it has to%s",
             outer, inner);
    hdi_fail(__FILE__, __LINE__, text);
}

void hdi_scope_abandoned(struct hd_task *task)
{
    char scope[200], text[400];
    print_scope(scope, sizeof(scope), task->scope);
    snprintf(text, sizeof(text),
             "task %llu \"%s\" ends inside %s: leave it first, e.g. by the block form",
             (unsigned long long)task->id, hdi_task_name(task), scope);
    hdi_fail(__FILE__, __LINE__, text);
}

/* Wait until nobody holds it. A thread in sim may learn that this will never be. */
static void wait_unheld(struct hdi_scope *scope)
{
    hdi_lock_take(&scope->base.lock);
    const int err = hdi_scope_wait_locked(scope, HD_FOREVER);
    HD_CHECK_MSG(err != -EDEADLK, "a nursery is left whose children can never end");
    if (err == -EINVAL) hdi_thread_yield(); /* A stackless task; it is held only for a moment. */
}

static bool timer_runs(struct hdi_scope *scope)
{
    if (!scope->timer.timers) return false;
    return hdi_load_acquire(&scope->timer.state) == HDI_TIMER_RUNNING; /* F */
}

/* Take it out of the chain if nobody holds it any more. */
static bool unlink_scope(struct hdi_scope *scope)
{
    struct hd_task *owner = scope->owner;
    struct hdi_asked asked = HDI_ASKED_INIT;
    const bool blind = HDI_MUTANT(scope_unlink_blind);
    if (!blind) hdi_lock_take(&scope->base.lock); /* Nobody is letting it go just now. */
    hdi_lock_take(&owner->scopes);
    const bool held = hdi_load_acquire(&scope->holds) != 0 || timer_runs(scope); /* R */
    if (!held) {
        owner->scope = scope->up;
        /* A shield that is still there goes with it. */
        if (scope->shield != HD_SHIELD_NONE) drop_shield(owner);
        hdi_scope_review(owner, &asked);
    }
    hdi_lock_give(&owner->scopes);
    if (!blind) hdi_lock_give(&scope->base.lock);
    hdi_scope_tell(&asked);
    return !held;
}

void hdi_scope_leave_chain(struct hdi_scope *scope)
{
    struct hd_task *owner = scope->owner;
    if (hdi_unlikely(owner->scope != scope)) die_of_order(scope, owner->scope);
    for (;;) {
        /* Each way in is shut, and only then is it looked whether somebody came in before; who did
         * may have started the timer anew. */
        if (scope->timer.timers) hdi_timer_stop(&scope->timer);
        if (hdi_unlikely(scope->token != NULL)) hdi_token_leave(scope);
        if (unlink_scope(scope)) return;
        wait_unheld(scope);
    }
}
