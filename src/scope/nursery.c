/* SPDX-License-Identifier: MIT */
#include "scope/nursery.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mutant.h"
#include "sched/runtime.h"
#include "scope/budget.h"

#define ERRORS_MAX_DEFAULT 16u

static struct hdi_nursery *of_scope(struct hdi_scope *scope)
{
    return (struct hdi_nursery *)scope;
}

/* Context: base.lock. */
static int step(struct hdi_nursery *n, enum hdi_nursery_event event)
{
    int refused;
    n->state = (uint8_t)hdi_nursery_next((hd_nursery_state)n->state, event, &refused);
    return refused;
}

/* ---- opening ---- */

static bool options_make_sense(const hd_nursery_options *o)
{
    if (o->size != sizeof(*o) || o->deadline < 0 || o->overdue_ns < 0 || o->refill_ns < 0) {
        return false;
    }
    if ((unsigned)o->on_error > HD_ON_ERROR_ASK || (unsigned)o->join > HD_JOIN_QUORUM) return false;
    if ((unsigned)o->exhausted > HD_EXHAUSTED_CANCEL) return false;
    if ((o->on_error == HD_ON_ERROR_ASK) != (o->on_error_fn != NULL)) return false;
    return (o->join == HD_JOIN_QUORUM) == (o->quorum > 0);
}

static void set_options(struct hdi_nursery *n, const hd_nursery_options *o)
{
    n->on_error_fn = o->on_error_fn;
    n->on_error_arg = o->on_error_arg;
    n->on_error = (uint8_t)o->on_error;
    n->join = (uint8_t)o->join;
    n->errors_max = o->errors_max ? o->errors_max : ERRORS_MAX_DEFAULT;
    n->quorum = o->quorum;
    n->overdue_ns = o->overdue_ns;
}

static void set_empty(struct hdi_nursery *n)
{
    n->state = HD_NURSERY_OPEN;
    n->told_daemons = n->polled = n->reported = false;
    hdi_list_init(&n->children);
    hdi_list_init(&n->told);
    n->spawns = (struct hdi_spawns){.pool = NULL};
    n->daemons = 0;
    n->spawned = n->succeeded = n->votes = n->failed = n->cancelled = n->winner = 0;
    n->first_error = n->heeded = n->first_result = 0;
    n->cancelled_ns = HD_FOREVER;
    n->errors = NULL;
    n->error_count = 0;
}

static void set_scope(struct hdi_scope *scope, struct hd_task *owner, struct hd_runtime *runtime,
                      const hd_nursery_options *o, const hd_site *site)
{
    scope->kind = HDI_SCOPE_NURSERY;
    scope->shield = HD_SHIELD_NONE;
    scope->owner = owner;
    scope->runtime = runtime;
    scope->site = o->site ? o->site : site;
    scope->name = o->name ? o->name : "";
    scope->deadline_ns = o->deadline ? o->deadline : HD_FOREVER;
    scope->grace_ns = HD_FOREVER;
    scope->token = o->token;
}

/* What it limits its tasks to. Apart, because most do not. */
static __attribute__((noinline)) int open_limits(struct hdi_nursery *n,
                                                 const hd_nursery_options *options)
{
    int err = hdi_rights_open(n, options);
    if (err) return err;
    err = hdi_pool_open(n, options);
    if (!err && options->supervision) {
        err = hdi_supervisor_open(n, options->supervision);
        if (err) hdi_pool_close(n);
    }
    if (err) hdi_rights_close(n);
    n->meters = n->pool || n->rights;
    n->payer = hdi_nursery_payer(n);
    if (n->rights) n->paying_owner = NULL;
    return err;
}

static bool limits_asked_for(const hd_nursery_options *o, const struct hd_runtime *runtime)
{
    return o->budget || o->per_task || o->refill || o->caps || o->supervision ||
           runtime->options.profile != HD_PROFILE_NONE;
}

static int open_nursery(struct hdi_nursery *n, const hd_nursery_options *options,
                        const hd_site *site)
{
    static const hd_nursery_options none = {.size = sizeof(none)};
    struct hd_task *owner = hdi_scope_owner(), *self = hdi_task_self();
    if (!options) options = &none;
    if (options != &none && !options_make_sense(options)) return -EINVAL;
    struct hd_runtime *runtime = self ? self->runtime : options->runtime;
    if (!runtime || (options->runtime && options->runtime != runtime)) return -EINVAL;
    set_scope(&n->scope, owner, runtime, options, site);
    set_options(n, options);
    set_empty(n);
    const struct hdi_nursery *around = owner->nursery;
    n->pool = around ? around->pool : NULL;
    n->rights = around ? around->rights : NULL;
    n->payer = around ? around->payer : NULL;
    n->paying_owner = n->payer ? owner : NULL;
    n->own_pool = NULL;
    n->supervisor = NULL;
    n->meters = n->pool || n->rights;
    if (hdi_unlikely(n->rights || limits_asked_for(options, runtime))) {
        const int err = open_limits(n, options);
        if (err) return err;
    }
    return hdi_scope_join_chain(&n->scope); /* Without a shield nothing can fail. */
}

int hd_nursery_open_at(hd_nursery *nursery, const hd_nursery_options *options,
                       const hd_site *site)
{
    return open_nursery(hdi_nursery_of(nursery), options, site);
}

/* ---- what scopes and spawns ask ---- */

struct hd_runtime *hdi_scope_runtime(const struct hdi_nursery *n)
{
    return n->scope.runtime;
}

bool hdi_scope_meters(const struct hdi_nursery *n)
{
    return n->meters;
}

/* ---- telling the children ---- */

static struct hd_task *child_of(struct hdi_list *sibling)
{
    return (struct hd_task *)((char *)sibling - offsetof(struct hd_task, sibling));
}

/* Context: base.lock, which keeps the child (NURSERY-2). */
static void tell_child(struct hd_task *child, struct hdi_asked *asked)
{
    const enum hdi_next next = hdi_transition_to_cancelled(&child->word);
    if (next == HDI_NEXT_SUBMIT) hdi_wakeups_add(&asked->wakeups, child);
    hdi_lock_take(&child->scopes);
    if (child->scope) hdi_scope_review(child, asked);
    hdi_lock_give(&child->scopes);
}

/* Returns whether there are more. */
static bool tell_some(struct hdi_nursery *n, struct hdi_asked *asked)
{
    enum { BATCH = 32 }; /* so that the lock is not held for long */
    hdi_lock_take(&n->scope.base.lock);
    for (int i = 0; i < BATCH && !hdi_list_empty(&n->children); i++) {
        struct hdi_list *sibling = n->children.next;
        hdi_list_remove(sibling);
        hdi_list_push_back(&n->told, sibling);
        tell_child(child_of(sibling), asked);
    }
    const bool more = !hdi_list_empty(&n->children);
    hdi_lock_give(&n->scope.base.lock);
    hdi_wakeups_go(&asked->wakeups);
    asked->wakeups = (struct hdi_wakeups)HDI_WAKEUPS_INIT;
    return more;
}

void hdi_nursery_tell(struct hdi_scope *scope, struct hdi_asked *asked)
{
    struct hdi_nursery *n = of_scope(scope);
    hdi_lock_take(&scope->base.lock);
    (void)step(n, HDI_NURSERY_CANCEL);
    if (n->overdue_ns > 0) {
        n->cancelled_ns = scope->runtime->world->now(scope->runtime);
        hdi_scope_interrupt(scope, -EINTR, &asked->wakeups); /* The owner waits for less now. */
    }
    hdi_lock_give(&scope->base.lock);
    while (tell_some(n, asked)) continue;
}

/* Only daemons are left: they are told, and nothing else. Context: base.lock. Returns whether to,
 * and has then held the scope. */
static bool daemons_only(struct hdi_nursery *n)
{
    if (n->daemons == 0 || n->scope.children != n->daemons || n->told_daemons) return false;
    if (n->state != HD_NURSERY_CLOSING) return false;
    n->told_daemons = true;
    hdi_fetch_add_acq_rel(&n->scope.holds, 1); /* SCOPE-2 */
    return true;
}

static void tell_daemons(struct hdi_nursery *n)
{
    struct hdi_asked asked = HDI_ASKED_INIT;
    while (tell_some(n, &asked)) continue;
    hdi_scope_tell(&asked);
    hdi_scope_release(&n->scope);
}

/* ---- the end of a child ---- */

/* What an end means for the others. */
struct verdict {
    bool cancel;
    hd_reason reason;
    int error;
    uint64_t task;
};

static void describe(const struct hd_task *task, int result, hd_child_error *error)
{
    *error = (hd_child_error){.task = task->id, .error = result, .site = task->site};
    memcpy(error->name, hdi_task_name(task), strlen(hdi_task_name(task)));
}

/* Context: base.lock. If memory is short it is only counted. */
static void keep_error(struct hdi_nursery *n, const struct hd_task *task, int result)
{
    if (n->error_count == n->errors_max) return;
    if (!n->errors) n->errors = malloc(n->errors_max * sizeof(*n->errors));
    if (n->errors) describe(task, result, &n->errors[n->error_count++]);
}

static bool is_heeded(const struct hd_task *task, int result)
{
    if (result == -ECANCELED) return true;
    if (result != -ETIMEDOUT) return false;
    const uint64_t word = hdi_load_acquire(&((struct hd_task *)task)->word); /* W */
    return (word & HDI_CANCELLED) && hdi_scope_task_cause(task).root == HD_REASON_TIMEOUT;
}

static void cancel_others(struct verdict *verdict, hd_reason reason, int error, uint64_t task)
{
    *verdict = (struct verdict){true, reason, error, task};
}

/* Context: base.lock. Whether enough can still succeed. */
static bool quorum_is_lost(const struct hdi_nursery *n)
{
    if (n->join != HD_JOIN_QUORUM || n->state == HD_NURSERY_OPEN) return false;
    return n->votes + (n->scope.children - n->daemons) < n->quorum;
}

static void note_success(struct hdi_nursery *n, const struct hd_task *task, struct verdict *verdict)
{
    n->succeeded++;
    if (task->daemon) return;
    n->votes++;
    const bool decides = (n->join == HD_JOIN_ANY && !n->winner) ||
                         (n->join == HD_JOIN_FIRST && !n->winner) ||
                         (n->join == HD_JOIN_QUORUM && n->votes == n->quorum);
    if (!decides) return;
    n->winner = task->id;
    cancel_others(verdict, HD_REASON_EXPLICIT, 0, task->id);
}

/* What the policy says of an error: ASK has been asked already. */
static void note_error(struct hdi_nursery *n, const struct hd_task *task, int result,
                       hd_on_error policy, struct verdict *verdict)
{
    n->failed++;
    keep_error(n, task, result);
    if (policy != HD_ON_ERROR_IGNORE && !n->first_error) n->first_error = result;
    if (n->join == HD_JOIN_ALL && policy == HD_ON_ERROR_CANCEL) {
        cancel_others(verdict, HD_REASON_FAILURE, result, task->id);
    }
}

/* HD_JOIN_FIRST: whatever the outcome was. */
static void note_first(struct hdi_nursery *n, const struct hd_task *task, int result,
                       struct verdict *verdict)
{
    if (n->join != HD_JOIN_FIRST || n->winner || task->daemon || hdi_scope_asked(&n->scope)) return;
    n->winner = task->id;
    n->first_result = result;
    cancel_others(verdict, HD_REASON_EXPLICIT, 0, task->id);
}

/* Context: base.lock. */
static void note_end(struct hdi_nursery *n, const struct hd_task *task, int result,
                     hd_on_error policy, struct verdict *verdict)
{
    if (hdi_likely(result >= 0)) {
        note_success(n, task, verdict);
    } else if (is_heeded(task, result)) {
        n->cancelled++;
        /* That a daemon heeds the end of the others says nothing. */
        const bool says = !task->daemon || hdi_scope_asked(&n->scope);
        if (says && !n->heeded) n->heeded = result;
        note_first(n, task, result, verdict);
    } else {
        note_error(n, task, result, policy, verdict);
        note_first(n, task, result, verdict);
    }
    if (hdi_unlikely(quorum_is_lost(n)) && n->scope.children > 0) {
        cancel_others(verdict, HD_REASON_FAILURE, n->first_error, task->id);
    }
    /* Nobody is left whom it would concern. */
    const bool moot = n->scope.children == 0 && n->state == HD_NURSERY_CLOSING;
    if (moot && verdict->reason == HD_REASON_EXPLICIT) verdict->cancel = false;
}

static hd_on_error policy_for(const struct hdi_nursery *n, const struct hd_task *task, int result)
{
    if (hdi_likely(result >= 0) || n->on_error != HD_ON_ERROR_ASK || is_heeded(task, result)) {
        return (hd_on_error)n->on_error;
    }
    hd_child_error error;
    describe(task, result, &error);
    return n->on_error_fn(&error, n->on_error_arg);
}

/* What is rare at an end. */
static __attribute__((noinline)) void end_unusual(struct hd_task *task, int result)
{
    const struct hdi_extras *extras = hdi_task_extras(task);
    if (extras && extras->start) hdi_start_ended(task, result);
    if (extras && extras->account) hdi_budget_end(task);
    if (task->nursery->rights) hdi_rights_end(task->nursery);
}

/* Context: base.lock, so that nobody sees the one without the other. */
static void cancel_locked(struct hdi_nursery *n, const struct verdict *verdict,
                          struct hdi_asked *asked)
{
    (void)step(n, HDI_NURSERY_CANCEL);
    hdi_scope_ask_locked(&n->scope, verdict->reason, verdict->error, verdict->task, asked);
}

struct hdi_nursery *hdi_scope_child_ended(struct hd_task *task, int result)
{
    struct hdi_nursery *n = task->nursery;
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    struct hdi_asked asked = HDI_ASKED_INIT;
    struct verdict verdict = {false, HD_REASON_NONE, 0, 0};
    if (hdi_unlikely(hdi_task_extras(task) || n->rights)) end_unusual(task, result);
    const hd_on_error policy = policy_for(n, task, result);
    hdi_lock_take(&n->scope.base.lock);
    hdi_list_remove(&task->sibling);
    n->scope.children--;
    n->daemons -= task->daemon;
    note_end(n, task, result, policy, &verdict);
    /* Who has a handle may look as soon as the nursery has ended. */
    const bool handle = hdi_load_acquire(&task->word) & HDI_JOIN_INTEREST;
    if (hdi_unlikely(handle)) hdi_fetch_add_acq_rel(&n->scope.holds, 1); /* SCOPE-2 */
    const bool late = HDI_MUTANT(nursery_end_unheld);
    if (hdi_unlikely(verdict.cancel) && !late) cancel_locked(n, &verdict, &asked);
    const bool daemons = daemons_only(n);
    if (n->scope.children == 0) hdi_scope_maybe_free(&n->scope, &wakeups);
    hdi_lock_give(&n->scope.base.lock); /* The last touch, if we hold nothing. */
    hdi_wakeups_go(&wakeups);
    if (hdi_unlikely(daemons)) tell_daemons(n);
    if (late && verdict.cancel) hdi_scope_ask(&n->scope, verdict.reason, 0, 0);
    hdi_scope_tell(&asked);
    return handle ? n : NULL;
}

void hdi_scope_child_gone(struct hdi_nursery *n)
{
    hdi_scope_release(&n->scope);
}

void hdi_nursery_all_ended(struct hdi_scope *scope, struct hdi_wakeups *wakeups)
{
    struct hdi_nursery *n = of_scope(scope);
    (void)step(n, HDI_NURSERY_ALL_ENDED);
    if (hdi_likely(!n->polled)) return;
    n->polled = false;
    const enum hdi_next next = hdi_transition_to_notified(&scope->owner->word, false);
    if (next == HDI_NEXT_SUBMIT) hdi_wakeups_add(wakeups, scope->owner);
}

/* ---- closing, waiting, leaving ---- */

static void close_nursery(struct hdi_nursery *n)
{
    hdi_lock_take(&n->scope.base.lock);
    (void)step(n, n->scope.children ? HDI_NURSERY_CLOSE : HDI_NURSERY_CLOSE_EMPTY);
    const bool daemons = daemons_only(n);
    const struct verdict lost = {true, HD_REASON_FAILURE, n->first_error, 0};
    struct hdi_asked asked = HDI_ASKED_INIT;
    if (hdi_unlikely(quorum_is_lost(n)) && n->scope.children > 0) cancel_locked(n, &lost, &asked);
    hdi_lock_give(&n->scope.base.lock);
    if (hdi_unlikely(daemons)) tell_daemons(n);
    hdi_scope_tell(&asked);
}

void hd_nursery_close(hd_nursery *nursery)
{
    close_nursery(hdi_nursery_of(nursery));
}

void hd_nursery_cancel(hd_nursery *nursery)
{
    struct hdi_nursery *n = hdi_nursery_of(nursery);
    const struct verdict verdict = {true, HD_REASON_EXPLICIT, 0, 0};
    struct hdi_asked asked = HDI_ASKED_INIT;
    hdi_lock_take(&n->scope.base.lock);
    const bool over = hdi_nursery_is_final((hd_nursery_state)n->state);
    if (!over) cancel_locked(n, &verdict, &asked);
    hdi_lock_give(&n->scope.base.lock);
    hdi_scope_tell(&asked);
}

/* Context: all have ended. */
static int result_of(const struct hdi_nursery *n)
{
    const int failed = n->first_error ? n->first_error : n->heeded;
    switch ((hd_join_policy)n->join) {
    case HD_JOIN_ALL: return failed;
    case HD_JOIN_ANY: return n->winner ? 0 : failed;
    case HD_JOIN_FIRST: return n->winner ? n->first_result : failed;
    case HD_JOIN_QUORUM:
        if (n->votes >= n->quorum) return 0;
        return failed ? failed : -ECHILD;
    }
    return failed;
}

/* Until when the owner waits before it looks for overdue children. Context: base.lock. */
static int64_t overdue_at(const struct hdi_nursery *n)
{
    int64_t at_ns;
    if (n->overdue_ns == 0 || n->cancelled_ns == HD_FOREVER || n->reported) return HD_FOREVER;
    if (__builtin_add_overflow(n->cancelled_ns, n->overdue_ns, &at_ns)) return HD_FOREVER;
    return at_ns;
}

static int wait_nursery(struct hdi_nursery *n)
{
    close_nursery(n);
    for (;;) {
        hdi_lock_take(&n->scope.base.lock);
        const int err = hdi_scope_wait_locked(&n->scope, overdue_at(n));
        if (hdi_likely(err == 0)) return result_of(n);
        if (err == -EDEADLK || err == -EINVAL) return err;
        if (err == -ETIMEDOUT) {
            n->reported = true; /* The owner's, as is the wait. */
            hdi_overdue_report(n);
        }
    }
}

int hd_nursery_wait(hd_nursery *nursery)
{
    return wait_nursery(hdi_nursery_of(nursery));
}

hd_poll hd_nursery_wait_poll(hd_nursery *nursery, int *result)
{
    struct hdi_nursery *n = hdi_nursery_of(nursery);
    close_nursery(n);
    hdi_lock_take(&n->scope.base.lock);
    const bool over = hdi_nursery_is_final((hd_nursery_state)n->state);
    n->polled = !over;
    hdi_lock_give(&n->scope.base.lock);
    if (!over) return HD_PENDING;
    if (result) *result = result_of(n);
    return HD_READY;
}

void hdi_nursery_fini(struct hdi_scope *scope)
{
    struct hdi_nursery *n = of_scope(scope);
    if (hdi_unlikely(n->errors != NULL)) free(n->errors);
    if (hdi_unlikely(n->supervisor != NULL)) hdi_supervisor_close(n);
    if (hdi_unlikely(n->meters)) {
        if (n->spawns.pool) hdi_spawns_end(&n->spawns);
        if (n->own_pool) hdi_pool_close(n);
        if (n->rights) hdi_rights_close(n);
    }
    scope->owner = NULL; /* for the block form: it was left */
}

/* Who tells it of a cancel from outside may still be at it, though it is over. */
static bool is_over(struct hdi_nursery *n)
{
    hdi_lock_take(&n->scope.base.lock);
    const bool over = hdi_nursery_is_final((hd_nursery_state)n->state);
    hdi_lock_give(&n->scope.base.lock);
    return over;
}

static int *result_field(struct hd_task *owner)
{
    return &owner->left_nursery;
}

static int leave(struct hdi_nursery *n)
{
    struct hd_task *owner = n->scope.owner;
    int result;
    if (owner->kind == HDI_TASK_POLL) {
        HD_CHECK_MSG(is_over(n),
                     "a stackless task leaves a nursery before hd_nursery_wait_poll() was ready");
        result = result_of(n);
    } else {
        result = wait_nursery(n);
        if (result == -EDEADLK && n->scope.children > 0) return result;
    }
    hdi_scope_leave_chain(&n->scope);
    hdi_nursery_fini(&n->scope);
    *result_field(owner) = result;
    return result;
}

int hd_nursery_leave(hd_nursery *nursery)
{
    return leave(hdi_nursery_of(nursery));
}

int hd_nursery_result(void)
{
    return *result_field(hdi_scope_owner());
}

hd_nursery *hd_nursery_begin_(hd_nursery *nursery, const hd_nursery_options *options,
                              const hd_site *site)
{
    struct hdi_nursery *n = hdi_nursery_of(nursery);
    const struct hd_task *self = hdi_task_self();
    HD_CHECK_MSG(!self || self->kind == HDI_TASK_FIBER,
                 "HD_NURSERY in a stackless task: its end waits; use hd_nursery_open()");
    const int err = open_nursery(n, options, site);
    if (!err) return nursery;
    n->scope.owner = NULL;
    *result_field(hdi_scope_owner()) = err;
    return NULL;
}

/* Whichever way the block was left. On a thread in sim the children may be unable to end: then a
 * cancel is tried. */
void hd_nursery_cleanup_(hd_nursery *nursery)
{
    struct hdi_nursery *n = hdi_nursery_of(nursery);
    if (!n->scope.owner || leave(n) != -EDEADLK || !n->scope.owner) return;
    hd_nursery_cancel(nursery);
    const int err = leave(n);
    HD_CHECK_MSG(err != -EDEADLK, "the block of a nursery ends whose children can never end");
}

/* A stackless task is dropped at shutdown: by another thread, while it is nobody's. */
bool hdi_scope_dropped(struct hd_task *task)
{
    for (struct hdi_scope *s = task->scope; s; s = s->up) {
        hdi_lock_take(&s->base.lock);
        const bool busy = s->children > 0;
        hdi_lock_give(&s->base.lock);
        if (busy) return false;
    }
    for (struct hdi_scope *s; (s = task->scope);) {
        hdi_scope_leave_chain(s);
        if (s->kind == HDI_SCOPE_NURSERY) hdi_nursery_fini(s);
    }
    return true;
}

void hdi_scope_forget(struct hd_task *task)
{
    HDI_ASSERT(!hdi_task_extras(task)->account);
    free(hdi_task_extras(task)->missing);
}

/* ---- looking ---- */

hd_nursery_info hd_nursery_look(hd_nursery *nursery)
{
    struct hdi_nursery *n = hdi_nursery_of(nursery);
    hdi_lock_take(&n->scope.base.lock);
    const bool cancelled =
        n->state == HD_NURSERY_CANCELLING || n->state == HD_NURSERY_CANCELLED;
    const hd_nursery_info info = {
        .state = (hd_nursery_state)n->state,
        .live = n->scope.children,
        .daemons = n->daemons,
        .spawned = n->spawned,
        .succeeded = n->succeeded,
        .failed = n->failed,
        .cancelled = n->cancelled,
        .winner = n->winner,
        .cause = cancelled ? hdi_scope_cause_of(&n->scope) : (hd_cause){0},
    };
    hdi_lock_give(&n->scope.base.lock);
    return info;
}

int hd_nursery_error(hd_nursery *nursery, unsigned i, hd_child_error *error)
{
    struct hdi_nursery *n = hdi_nursery_of(nursery);
    hdi_lock_take(&n->scope.base.lock);
    const bool there = i < n->error_count;
    if (there) *error = n->errors[i];
    hdi_lock_give(&n->scope.base.lock);
    return there ? 0 : -ENOENT;
}
