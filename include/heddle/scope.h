/* SPDX-License-Identifier: MIT
 *
 * scope: a stretch of a task's life that can be cancelled, or has a deadline, by itself; and
 * tokens, which cancel scopes from anywhere.
 *
 *   int err = 0;
 *   HD_SCOPE(s, .deadline = hd_after_ms(200)) {
 *       err = hd_chan_recv(answers, &answer);    -ETIMEDOUT after 200 ms, whatever it waits on
 *   }
 *
 * Scopes nest: a wait is ended by the earliest deadline around it, and by a cancel of any scope
 * around it, of the task, of the nursery that the task is a child of, and so on outwards. What
 * ended it stays: every further wait in the scope returns the same at once. A scope has one cause,
 * the first that reached it. A wait returns -ETIMEDOUT if all causes in effect began as deadlines,
 * otherwise -ECANCELED. A shield lets nothing through from outside: neither.
 *
 * A scope is the task's that entered it, which leaves it: the inner one first. It lies on the
 * stack, or in a stackless task's state. Tokens may be used by any thread, and by several runtimes.
 */
#ifndef HEDDLE_SCOPE_H
#define HEDDLE_SCOPE_H

#include <heddle/base.h>
#include <heddle/task.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- why ---- */

typedef enum hd_reason {
    HD_REASON_NONE,     /* not cancelled */
    HD_REASON_EXPLICIT, /* somebody said so: hd_cancel(), a token, a shutdown, ... */
    HD_REASON_TIMEOUT,  /* a deadline passed */
    HD_REASON_PARENT,   /* a scope, nursery or task around it was cancelled */
    HD_REASON_FAILURE,  /* another child of the nursery failed, or used up its budget */
} hd_reason;

/* Why a task, a scope or a nursery is cancelled, and what began it. */
typedef struct hd_cause {
    hd_reason reason;
    hd_reason root;  /* where it began: never HD_REASON_PARENT */
    int error;       /* root HD_REASON_FAILURE: what the child returned */
    uint64_t task;   /* and its id; 0: none */
} hd_cause;

/* Why the running task is cancelled, as far as that is in effect where it is now.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API hd_cause hd_self_cause(void);

/* "explicit", "timeout", ... for messages.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API const char *hd_reason_name(hd_reason reason);

/* ---- tokens ---- */

/* A reference to something that is cancelled once, from anywhere. */
typedef struct hd_token hd_token;

/* A new token, held once. With a parent it is cancelled with that; a parent is kept by its
 * children.
 * Context: any.  Switches: no.  Allocates: yes.
 * Returns: NULL if memory is short. */
HD_API HD_MUST_USE hd_token *hd_token_create(hd_token *parent);
HD_API hd_token *hd_token_ref(hd_token *token);
HD_API void hd_token_unref(hd_token *token);

/* Cancel it, and with it its children and all scopes and nurseries that were given it. Later
 * ones begin cancelled. Only the first call has an effect.
 * Context: any thread.  Switches: no.  Allocates: no. */
HD_API void hd_token_cancel(hd_token *token);

/* O(1).
 * Context: any.  Switches: no.  Allocates: no. */
HD_API bool hd_token_cancelled(const hd_token *token);

/* Wait until it is cancelled; a case of hd_select() is HD_TOKEN.
 * Context: fiber or thread.  Switches: yes.  Allocates: no.
 * Returns: 0, -ETIMEDOUT, -EAGAIN with HD_NOW, -ECANCELED (the caller is), -EDEADLK in sim,
 * -EINVAL in a stackless task. */
HD_API HD_MUST_USE int hd_token_wait(hd_token *token, int64_t deadline);

/* ---- scopes ---- */

typedef enum hd_shield_kind {
    HD_SHIELD_NONE,
    HD_SHIELD_HARD, /* nothing from outside is felt inside */
    HD_SHIELD_SOFT, /* the same, until `grace` */
} hd_shield_kind;

typedef struct hd_scope_options {
    size_t size;
    int64_t deadline;      /* 0: none. When it passes, the scope is cancelled */
    hd_token *token;       /* cancelled with it; NULL: none. The scope holds it */
    hd_shield_kind shield;
    int64_t grace;         /* HD_SHIELD_SOFT: the time at which the shield goes */
    const hd_site *site;   /* default: where the macro stands */
} hd_scope_options;

typedef struct hd_scope {
    uint64_t private_[32];
} hd_scope;

/* Enter a scope. With a deadline in the past it is cancelled from the start.
 * Context: fiber or stackless task.  Switches: no.  Allocates: no.
 * Returns: 0, -EINVAL (outside a task, options that make no sense), -EOVERFLOW at 255 shields. */
#define hd_scope_enter(scope, options) hd_scope_enter_at((scope), (options), HD_SITE)
HD_API HD_MUST_USE int hd_scope_enter_at(hd_scope *scope, const hd_scope_options *options,
                                         const hd_site *site);

/* Leave it. Leaving another than the innermost is a programming error, and ends the program with
 * a message that names both.
 * Context: the task that entered it.  Switches: no (it may wait for who is cancelling it).
 * Allocates: no. */
HD_API void hd_scope_leave(hd_scope *scope);

/* Cancel it. The caller knows that it has not been left.
 * Context: any thread.  Switches: no.  Allocates: no. */
HD_API void hd_scope_cancel(hd_scope *scope);

/* Why it is cancelled: reason HD_REASON_NONE if it is not.
 * Context: any thread, while it has not been left.  Switches: no.  Allocates: no. */
HD_API hd_cause hd_scope_cause(hd_scope *scope);

/* A block with a scope around it, named by its first argument; the others are hd_scope_options.
 * It may be left in any way: at its end, by break, continue, return or goto. Should it be
 * impossible to enter, the program ends with a message. */
#define HD_SCOPE(...) HD_SCOPE_(__VA_ARGS__, .size = sizeof(hd_scope_options))
#define HD_SCOPE_(name, ...)                                                             \
    for (hd_scope name##_scope_ __attribute__((cleanup(hd_scope_cleanup_))),             \
         *name = hd_scope_begin_(&name##_scope_, HD_WITH_(hd_scope_options, __VA_ARGS__), \
                                 HD_SITE),                                               \
         *name##_once_ = name;                                                           \
         name##_once_; name##_once_ = NULL)

HD_API hd_scope *hd_scope_begin_(hd_scope *scope, const hd_scope_options *options,
                                 const hd_site *site);
HD_API void hd_scope_cleanup_(hd_scope *scope);

#ifdef __cplusplus
}
#endif
#endif
