/* SPDX-License-Identifier: MIT
 *
 * token: something that is cancelled once, from anywhere, and what hangs on it: scopes, the
 * tokens derived from it, and those who wait for it.
 *
 *   create, join, wait                       cancel
 *   1. take the lock                         1. set the flag; was set: done
 *   2. the flag is set: cancelled at once;   2. take the lock, take some out of the lists, ask
 *      else: into a list                        the scopes and decide the waits, give the lock
 *   3. give the lock                         3. tell the scopes, wake those who waited; 2 again
 *                                               until the lists are empty
 *                                            4. the same with every child
 *
 * Who comes before the lock is taken in 2 is found there, who comes later sees the flag. The lock
 * is given back now and then, so that a million scopes do not keep others from it. Children are
 * put on a list, and their parents are given up in a loop: a chain of any length needs no stack.
 *
 *   TOKEN-1  The flag is set once, and the lists only shrink from then on.
 *   TOKEN-2  A token is held by its children, by the scopes that were given it, and by who cancels
 *            it: whoever sees the flag, or is woken, may drop the last reference it knows of.
 *   TOKEN-3  A child is in its parent's list until the parent is cancelled or its memory goes,
 *            which takes the parent's lock. So one found there is still memory, but may have no
 *            holder any more: it is reached only if it has.
 *   TOKEN-4  A token has one parent, which is cancelled once, so it is on at most one list of
 *            reached ones.
 *
 * Edge C: what was written before a cancel is seen by who sees the flag.
 */
#include <heddle/scope.h>

#include "base/mutant.h"
#include "sched/runtime.h"
#include "scope/scope.h"
#include "sync/ops.h"
#include "sync/waitq.h"

enum { BATCH = HDI_MODEL ? 1 : 64 }; /* taken out of the lists at a time */

struct hd_token {
    struct hdi_waitable base;
    _Atomic(uint32_t) cancelled;
    _Atomic(uint64_t) refs;
    hd_token *parent;         /* constant, held; NULL: none */
    hd_token *next_reached;   /* TOKEN-4 */
    struct hdi_list sibling;  /* parent's lock: in its `children`, or in no list */
    struct hdi_list children; /* base.lock, as the others: by `sibling` */
    struct hdi_list scopes;   /* by `token_link` */
    struct hdi_list waiters;
};

/* ---- its life ---- */

hd_token *hd_token_ref(hd_token *token)
{
    hdi_fetch_add_relaxed(&token->refs, 1); /* Relaxed: the caller has one. */
    return token;
}

/* Take one, unless there is none left (TOKEN-3). */
static bool try_ref(hd_token *token)
{
    uint64_t seen = hdi_load_relaxed(&token->refs); /* The CAS checks it. */
    while (seen > 0 || HDI_MUTANT(token_ref_dying)) {
        /* Relaxed: what we will look at is under its lock. */
        if (hdi_cas_relaxed(&token->refs, &seen, seen + 1)) return true;
    }
    return false;
}

/* Its last reference is gone. Returns the parent, one reference to which is the caller's now. */
static hd_token *end(hd_token *token)
{
    hd_token *parent = token->parent;
    HD_CHECK_MSG(hdi_list_empty(&token->waiters), "a token ends while it is waited for");
    HDI_ASSERT(hdi_list_empty(&token->children) && hdi_list_empty(&token->scopes)); /* TOKEN-2 */
    if (parent) {
        hdi_lock_take(&parent->base.lock);
        hdi_list_remove(&token->sibling); /* unless the parent was cancelled */
        hdi_lock_give(&parent->base.lock);
    }
    hdi_lines_free(token);
    return parent;
}

void hd_token_unref(hd_token *token)
{
    /* R: the last one sees what the others did. */
    while (token && hdi_fetch_sub_acq_rel(&token->refs, 1) == 1) token = end(token);
}

static bool is_cancelled(const hd_token *token)
{
    return hdi_load_acquire(&((hd_token *)token)->cancelled) != 0; /* C */
}

static void join_parent(hd_token *token, hd_token *parent)
{
    token->parent = hd_token_ref(parent);
    const bool missed = HDI_MUTANT(token_look_early) && !is_cancelled(parent);
    hdi_lock_take(&parent->base.lock);
    if (is_cancelled(parent) && !missed) {
        hdi_store_relaxed(&token->cancelled, 1); /* Nobody else knows it yet. */
    } else {
        hdi_list_push_back(&parent->children, &token->sibling);
    }
    hdi_lock_give(&parent->base.lock);
}

hd_token *hd_token_create(hd_token *parent)
{
    hd_token *token = hdi_lines_alloc(sizeof(*token));
    if (!token) return NULL;
    hdi_store_relaxed(&token->refs, 1); /* Nobody else knows it yet. */
    hdi_list_init(&token->sibling);
    hdi_list_init(&token->children);
    hdi_list_init(&token->scopes);
    hdi_list_init(&token->waiters);
    if (parent) join_parent(token, parent);
    return token;
}

bool hd_token_cancelled(const hd_token *token)
{
    return is_cancelled(token);
}

/* ---- cancelling ---- */

/* Tokens that are to be cancelled too, held: by next_reached. */
struct reached {
    hd_token *first, *last;
};

static void reached_add(struct reached *reached, hd_token *token)
{
    token->next_reached = NULL;
    if (reached->first) {
        reached->last->next_reached = token;
    } else {
        reached->first = token;
    }
    reached->last = token;
}

static hd_token *reached_pop(struct reached *reached)
{
    hd_token *token = reached->first;
    if (token) reached->first = token->next_reached;
    return token;
}

static struct hdi_scope *scope_of(struct hdi_list *link)
{
    return (struct hdi_scope *)((char *)link - offsetof(struct hdi_scope, token_link));
}

static hd_token *child_of(struct hdi_list *link)
{
    return (hd_token *)((char *)link - offsetof(hd_token, sibling));
}

/* Take up to BATCH of what hangs on a cancelled token. Context: its lock. Returns whether there
 * may be more. */
static bool take_some(hd_token *token, struct hdi_asked *asked, struct hdi_wakeups *wakeups,
                      struct reached *reached)
{
    int left = BATCH;
    struct hdi_list *link;
    for (; left && (link = hdi_list_pop_front(&token->scopes)); left--) {
        hdi_scope_ask_locked(scope_of(link), HD_REASON_EXPLICIT, 0, 0, asked);
    }
    for (struct hdi_node *node; left && (node = hdi_node_pop(&token->waiters)); left--) {
        (void)hdi_waitq_complete(node, 0, wakeups);
    }
    for (; left && (link = hdi_list_pop_front(&token->children)); left--) {
        if (try_ref(child_of(link))) reached_add(reached, child_of(link)); /* TOKEN-3 */
    }
    return left == 0;
}

static void cancel_one(hd_token *token, struct reached *reached)
{
    if (hdi_exchange_acq_rel(&token->cancelled, 1)) return; /* C; TOKEN-1 */
    for (bool more = true; more;) {
        struct hdi_asked asked = HDI_ASKED_INIT;
        struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
        hdi_lock_take(&token->base.lock);
        more = take_some(token, &asked, &wakeups, reached);
        hdi_lock_give(&token->base.lock);
        hdi_scope_tell(&asked);
        hdi_wakeups_go(&wakeups);
    }
}

void hd_token_cancel(hd_token *token)
{
    struct reached reached = {NULL, NULL};
    const bool unheld = HDI_MUTANT(token_cancel_unheld);
    if (!unheld) hd_token_ref(token); /* TOKEN-2 */
    /* Not from the list: another cancel may have it there (TOKEN-4). */
    cancel_one(token, &reached);
    if (!unheld) hd_token_unref(token);
    for (hd_token *child; (child = reached_pop(&reached));) {
        cancel_one(child, &reached);
        hd_token_unref(child);
    }
}

/* ---- scopes ---- */

void hdi_token_join(struct hdi_scope *scope, struct hdi_asked *asked)
{
    hd_token *token = hd_token_ref(scope->token);
    hdi_list_init(&scope->token_link);
    hdi_lock_take(&token->base.lock);
    if (is_cancelled(token)) {
        hdi_scope_ask_locked(scope, HD_REASON_EXPLICIT, 0, 0, asked);
    } else {
        hdi_list_push_back(&token->scopes, &scope->token_link);
    }
    hdi_lock_give(&token->base.lock);
}

void hdi_token_leave(struct hdi_scope *scope)
{
    hd_token *token = scope->token;
    if (!HDI_MUTANT(token_leave_blind) || !is_cancelled(token)) {
        hdi_lock_take(&token->base.lock);
        hdi_list_remove(&scope->token_link); /* unless it was taken out */
        hdi_lock_give(&token->base.lock);
    }
    scope->token = NULL; /* Its owner may ask again to leave. */
    hd_token_unref(token);
}

/* ---- waiting ---- */

static bool token_attempt(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    c->result = 0;
    return is_cancelled(c->object);
}

static bool token_enqueue(hd_case *c)
{
    hd_token *token = c->object;
    hdi_node_enqueue(&token->waiters, hdi_case_node(c));
    return true;
}

static void token_dequeue(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    hdi_node_dequeue(hdi_case_node(c));
}

const struct hdi_op hdi_op_token = {
    .what = "wait for token",
    .attempt = token_attempt,
    .enqueue = token_enqueue,
    .dequeue = token_dequeue,
};

int hd_token_wait(hd_token *token, int64_t deadline)
{
    hd_case c;
    hdi_waitq_case(&c, token, 0);
    return hdi_wait(&hdi_op_token, &c, deadline);
}
