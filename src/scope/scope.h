/* SPDX-License-Identifier: MIT
 *
 * scope: what can be cancelled: a stretch of a task's life, or a nursery with all its children.
 *
 * The scopes a task is in are a chain, task->scope being the innermost, each with the one around
 * it in `up`. A plain thread that opens nurseries has a chain too, in a struct hd_task of its
 * own that is never scheduled (hdi_scope_owner()).
 *
 * Who sees a cancel. Scopes and the task itself are asked to end once, in `asked`, and the word's
 * CANCELLED. A scope, or the task where it is now, is in effect cancelled if something around it
 * was asked, and no shield lies between. Shields are counted in the task word; `outside` is how
 * many there were when the scope was entered, `inside` how many for what is in it. So a cancel of
 * scope
 * s is seen by a scope t further in exactly if t->outside <= s->inside, and by the task if the
 * word's shields <= s->inside. review() applies this to the whole chain, whenever anything in it
 * has changed, and asks those that should be.
 *
 * Cancelling is a list of scopes to be told, not a recursion: review() asks a scope and puts it on
 * the list; telling a nursery marks its children in batches, reviews each child's chain, which puts
 * further nurseries on the list (hdi_scope_tell()). A tree of any depth and width needs no memory.
 *
 *   SCOPE-1  A task's chain, and `asked`, `outside`, `inside`, `shield` of its scopes, change under
 *            task->scopes. `cause` is written before `asked`, and never again.
 *   SCOPE-2  A scope is not left while it has children, or is held: `holds` counts those who have
 *            a pointer to it on a list. It is increased under task->scopes, its own lock while it
 *            has a child, its wheel's lock or its token's lock, and the owner leaves only after it
 *            has shut each of these ways in. It is decreased under the scope's own lock, by
 *            somebody who does not touch the scope after giving that back; the owner takes that
 *            lock too when it leaves.
 *   SCOPE-3  Locks are taken in this order: a wheel's or token's, a scope's, task->scopes.
 *   SCOPE-4  A scope is asked once, so it is on at most one list.
 */
#ifndef HDI_SCOPE_SCOPE_H
#define HDI_SCOPE_SCOPE_H

#include <heddle/scope.h>

#include "wait/wait.h"

enum hdi_scope_kind {
    HDI_SCOPE_PLAIN,
    HDI_SCOPE_NURSERY, /* the first member of a struct hdi_nursery */
};

struct hdi_scope {
    struct hdi_waitable base;
    uint8_t kind;                 /* enum hdi_scope_kind; constant */
    uint8_t shield;               /* hd_shield_kind; NONE when a soft one has gone */
    uint8_t outside, inside;      /* shields */
    _Atomic(uint32_t) asked;
    _Atomic(uint32_t) holds;
    uint32_t children;            /* base.lock: nursery: tasks that have not ended */
    struct hdi_scope_cause {
        uint8_t reason, root;
        int error;
        uint64_t task;
    } cause;
    struct hd_task *owner;        /* constant, as are runtime, site */
    struct hd_runtime *runtime;   /* NULL: of a plain thread, and no nursery */
    const hd_site *site;
    const char *name;             /* for messages; "" */
    struct hdi_scope *up;         /* the scope around it; NULL: the outermost */
    struct hdi_scope *next_asked; /* on a list of scopes to be told */
    struct hdi_list waiters;      /* base.lock: who waits until nobody holds it */
    int64_t deadline_ns;          /* HD_FOREVER: none */
    int64_t grace_ns;             /* of a soft shield; HD_FOREVER */
    struct hdi_timer timer;       /* for the earlier of the two */
    hd_token *token;              /* NULL: none */
    struct hdi_list token_link;   /* token's lock */
};
_Static_assert(sizeof(struct hdi_scope) <= sizeof(hd_scope), "hd_scope holds a scope");

/* Scopes that were asked, are held, and have not been told yet: by next_asked; and tasks that are
 * to wake. */
struct hdi_asked {
    struct hdi_scope *first;
    struct hdi_wakeups wakeups;
};
#define HDI_ASKED_INIT {NULL, HDI_WAKEUPS_INIT}

/* scope/scope.c */

/* The running task, or what stands for the calling thread. */
struct hd_task *hdi_scope_owner(void);

/* Enter it: it becomes the innermost of its owner, with everything set but base, waiters, holds,
 * up, outside, inside and asked. Returns: 0, -EOVERFLOW. */
int hdi_scope_join_chain(struct hdi_scope *scope);

/* Wait until nobody holds it, and take it out of the chain. Dies if it is not the innermost.
 * Context: the owner. */
void hdi_scope_leave_chain(struct hdi_scope *scope);

/* Ask it to end, if nobody has yet. Context: no lock; the caller knows that it stays. */
void hdi_scope_ask(struct hdi_scope *scope, hd_reason reason, int error, uint64_t task);

/* The part of that under a lock of an outer level (SCOPE-3): what is asked goes to *asked, held. */
void hdi_scope_ask_locked(struct hdi_scope *scope, hd_reason reason, int error, uint64_t task,
                          struct hdi_asked *asked);

/* Tell everything that was asked, and wake. Context: no lock. */
void hdi_scope_tell_all(struct hdi_asked *asked);
static inline void hdi_scope_tell(struct hdi_asked *asked)
{
    if (hdi_unlikely(asked->first || asked->wakeups.first)) hdi_scope_tell_all(asked);
}

/* Look at a task's chain: ask what must be asked, and make its word say whether it is in a
 * cancelled scope. Context: task->scopes. */
void hdi_scope_review(struct hd_task *task, struct hdi_asked *asked);

/* Drop a hold. Context: no lock. */
void hdi_scope_release(struct hdi_scope *scope);

/* A hold or a child is gone: if that was the last, let go who waits. Context: base.lock. */
void hdi_scope_maybe_free(struct hdi_scope *scope, struct hdi_wakeups *wakeups);

/* End all waits of hdi_scope_wait_locked(). Context: base.lock. */
void hdi_scope_interrupt(struct hdi_scope *scope, int result, struct hdi_wakeups *wakeups);

/* Wait until nobody holds it, whatever happens to the caller. Context: base.lock, given back.
 * Returns: 0, -ETIMEDOUT, -EDEADLK; -EINTR: somebody ended all such waits. */
int hdi_scope_wait_locked(struct hdi_scope *scope, int64_t deadline_ns);

static inline bool hdi_scope_asked(const struct hdi_scope *scope)
{
    return hdi_load_acquire(&((struct hdi_scope *)scope)->asked) != 0; /* K <- K */
}

/* Why; NONE if it was not asked. */
hd_cause hdi_scope_cause_of(const struct hdi_scope *scope);

/* Why a task is cancelled as a whole, in words for what is inside it. */
hd_cause hdi_scope_task_cause(const struct hd_task *task);

/* scope/nursery.c: tell the children. Context: no lock; it is held. */
void hdi_nursery_tell(struct hdi_scope *scope, struct hdi_asked *asked);

/* scope/nursery.c: it has no children, and nobody holds it any more. Context: base.lock. */
void hdi_nursery_all_ended(struct hdi_scope *scope, struct hdi_wakeups *wakeups);

/* scope/nursery.c: what it has beyond the scope goes. Context: it was left. */
void hdi_nursery_fini(struct hdi_scope *scope);

/* scope/token.c: cancelled with the token from now on, which may be at once. The token is held. */
void hdi_token_join(struct hdi_scope *scope, struct hdi_asked *asked);
void hdi_token_leave(struct hdi_scope *scope);

#endif
