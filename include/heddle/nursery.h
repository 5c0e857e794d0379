/* SPDX-License-Identifier: MIT
 *
 * nursery: a scope that owns tasks, and is not left before all of them have ended.
 *
 *   HD_NURSERY(n, .deadline = hd_after_ms(1000)) {
 *       hd_go(n, fetch, &a);
 *       hd_go(n, fetch, &b);
 *   }                                     waits here; if one fails the other is cancelled
 *   return hd_nursery_result();           the first error, or 0
 *
 * Five states:
 *
 *            close, no children            close                     all ended
 *   CLOSED <------------------- OPEN ----------------> CLOSING ----------------> CLOSED
 *                                |                        |
 *                                +--- cancel, failure ----+
 *                                            |
 *                                       CANCELLING ---- all ended ----> CANCELLED
 *
 * Only OPEN accepts a task. The owner is who opened it: a fiber, a stackless task or a plain
 * thread. Everything that hd_scope says holds for a nursery too: its body, which is what the owner
 * does until it leaves, is cancelled with it, unless the owner is a plain thread. Cancelling a
 * task cancels the nurseries it owns, their children, and so on down.
 *
 * What a child returns is its outcome: 0 or more is success; -ECANCELED, and after the deadline of
 * a nursery around it -ETIMEDOUT, mean that it heeded a cancel; anything else is an error. The
 * result of a nursery is its first error in the order of time; if there was none, -ETIMEDOUT or
 * -ECANCELED if a child returned that; otherwise 0. A cancel that no child returned is no error.
 */
#ifndef HEDDLE_NURSERY_H
#define HEDDLE_NURSERY_H

#include <heddle/base.h>
#include <heddle/budget.h>
#include <heddle/cap.h>
#include <heddle/scope.h>
#include <heddle/select.h>
#include <heddle/task.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hd_nursery_state {
    HD_NURSERY_OPEN,
    HD_NURSERY_CLOSING,
    HD_NURSERY_CLOSED,
    HD_NURSERY_CANCELLING,
    HD_NURSERY_CANCELLED,
} hd_nursery_state;

/* What an error of a child does. */
typedef enum hd_on_error {
    HD_ON_ERROR_CANCEL,  /* the first cancels the other children and the body */
    HD_ON_ERROR_COLLECT, /* the others go on; the result is the first error */
    HD_ON_ERROR_IGNORE,  /* errors are kept in the set, and are not the result */
    HD_ON_ERROR_ASK,     /* on_error_fn() decides */
} hd_on_error;

/* When it is done. */
typedef enum hd_join_policy {
    HD_JOIN_ALL,    /* all children have ended */
    HD_JOIN_ANY,    /* one succeeded: the others are cancelled; errors only if none did */
    HD_JOIN_FIRST,  /* one ended, with whatever outcome, which is the result; the others are
                     * cancelled */
    HD_JOIN_QUORUM, /* `quorum` succeeded: the others are cancelled; the first error, or -ECHILD, as
                     * soon as it is closed and too few are left to reach it */
} hd_join_policy;

/* A child that failed. */
typedef struct hd_child_error {
    uint64_t task;      /* its id */
    int error;
    const hd_site *site; /* where it was spawned */
    char name[32];
} hd_child_error;

/* Returns HD_ON_ERROR_CANCEL, _COLLECT or _IGNORE for this error. It must not wait, nor call
 * into this nursery. */
typedef hd_on_error hd_on_error_fn(const hd_child_error *error, void *arg);

typedef struct hd_supervision hd_supervision;

typedef struct hd_nursery_options {
    size_t size;
    hd_runtime *runtime;       /* default: the caller's; required on a plain thread */
    const char *name;          /* for reports; not copied */
    int64_t deadline;          /* 0: none. When it passes, the nursery is cancelled */
    hd_token *token;           /* cancelled with it; NULL: none. The nursery holds it */
    hd_on_error on_error;
    hd_on_error_fn *on_error_fn; /* HD_ON_ERROR_ASK */
    void *on_error_arg;
    unsigned errors_max;       /* kept in the error set; later ones are only counted; default 16 */
    hd_join_policy join;
    unsigned quorum;           /* HD_JOIN_QUORUM */
    int64_t overdue_ns;        /* report children that have ignored a cancel for so long;
                                * 0: never. Noticed while the owner waits for them */
    const hd_budget *budget;   /* a pool its tasks draw from; NULL: that of the nursery around */
    hd_exhausted exhausted;    /* what a task does that cannot draw; with budget or per_task */
    hd_recharge_fn *recharge;  /* HD_EXHAUSTED_ASK */
    void *recharge_arg;
    const hd_budget *refill;   /* added to the pool every refill_ns, as far as the one around has
                                * it; here 0 is nothing; NULL: nothing. At most 32 deep */
    int64_t refill_ns;
    const hd_budget *per_task; /* what one task may use at most; NULL: no limit of its own */
    const hd_caps *caps;       /* what its tasks may do; NULL: what the caller may */
    const hd_supervision *supervision; /* restart children (supervise.h); NULL: no */
    const hd_site *site;       /* default: where the macro stands */
} hd_nursery_options;

#ifdef __cplusplus
#define HD_NURSERY_OPTIONS_INIT                                                          \
    ([] {                                                                                \
        hd_nursery_options o = hd_nursery_options();                                     \
        o.size = sizeof(o);                                                              \
        return o;                                                                        \
    }())
#else
#define HD_NURSERY_OPTIONS_INIT {.size = sizeof(hd_nursery_options)}
#endif

/* On the owner's stack, or in a stackless task's state. */
typedef struct hd_nursery {
    uint64_t private_[64];
} hd_nursery;

/* ---- its life ---- */

/* Open a nursery.
 * Context: any.  Switches: no.  Allocates: only with a budget, capabilities or supervision.
 * Returns: 0, -EINVAL (no runtime, options that make no sense), -ENOMEM, -EPERM (a capability is
 * missing: hd_missing() names it), -EDQUOT (the budget cannot be drawn from the one around). A
 * nursery opened by a cancelled task is CANCELLED at once. */
#define hd_nursery_open(nursery, options) hd_nursery_open_at((nursery), (options), HD_SITE)
HD_API HD_MUST_USE int hd_nursery_open_at(hd_nursery *nursery, const hd_nursery_options *options,
                                          const hd_site *site);

/* Accept no more tasks. Does nothing to one that is not OPEN.
 * Context: any thread, before it is left.  Switches: no.  Allocates: no. */
HD_API void hd_nursery_close(hd_nursery *nursery);

/* Cancel all children, what they own, and the body. Does nothing to one that is CLOSED, or
 * cancelled already.
 * Context: any thread, before it is left.  Switches: no.  Allocates: no. */
HD_API void hd_nursery_cancel(hd_nursery *nursery);

/* Close it and wait until all children have ended. A cancel of the caller cancels the children,
 * and does not end the wait. It can be called again, which returns the same.
 * Context: the owner; fiber or thread.  Switches: yes.  Allocates: no.
 * Returns: the result; -EDEADLK on a thread in sim if the children can never end: the nursery
 * is still there. */
HD_API int hd_nursery_wait(hd_nursery *nursery);

/* hd_nursery_wait() for a stackless task: HD_PENDING until all have ended.
 * Context: the owner; stackless task.  Switches: no.  Allocates: no. */
HD_API HD_MUST_USE hd_poll hd_nursery_wait_poll(hd_nursery *nursery, int *result);

/* Wait as above, and leave: the nursery is gone. Leaving another than the innermost is a
 * programming error, and ends the program with a message that names both; so is a task that
 * ends without leaving. A stackless task must have seen HD_READY from hd_nursery_wait_poll().
 * Context: the owner.  Switches: yes.  Allocates: no.
 * Returns: as hd_nursery_wait(), which hd_nursery_result() repeats. */
HD_API int hd_nursery_leave(hd_nursery *nursery);

/* The result of the nursery that the running task or thread left last; 0 if there was none.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API int hd_nursery_result(void);

/* A block with a nursery around it, named by its first argument; the others are
 * hd_nursery_options. Its end waits, whichever way it is left: at its end, by break, continue,
 * return or goto, but not by longjmp(). Should it be impossible to open, the block is skipped and
 * hd_nursery_result() says why. Not for stackless tasks. */
#define HD_NURSERY(...) HD_NURSERY_(__VA_ARGS__, .size = sizeof(hd_nursery_options))
#define HD_NURSERY_(name, ...)                                                           \
    for (hd_nursery name##_nursery_ __attribute__((cleanup(hd_nursery_cleanup_))),       \
         *name = hd_nursery_begin_(&name##_nursery_,                                     \
                                   HD_WITH_(hd_nursery_options, __VA_ARGS__), HD_SITE),  \
         *name##_once_ = name;                                                           \
         name##_once_; name##_once_ = NULL)

HD_API hd_nursery *hd_nursery_begin_(hd_nursery *nursery, const hd_nursery_options *options,
                                     const hd_site *site);
HD_API void hd_nursery_cleanup_(hd_nursery *nursery);

/* ---- children ---- */

/* Spawn a fiber into the nursery. hd_spawn_with() and hd_spawn_poll_with() do the same, by
 * hd_spawn_options.nursery, for those who want a handle, a name or a stackless task.
 * Context: any.  Switches: no.  Allocates: yes, cached.
 * Returns: as hd_spawn(); -EPIPE (closing or closed), -ECANCELED (cancelling or cancelled) or
 * -ETIMEDOUT (the same, if that began as a deadline: as a wait of the owner in it would say),
 * -EDQUOT (spawn_count), -EPERM. */
#define hd_go(nursery, fn, arg) hd_go_at((nursery), (fn), (arg), HD_SITE)
HD_API int hd_go_at(hd_nursery *nursery, hd_fn *fn, void *arg, const hd_site *site);

/* Spawn a fiber, and wait until it calls hd_ready() or ends. If the caller is cancelled
 * meanwhile, the child is too, and is waited for.
 * Context: fiber or thread.  Switches: yes.  Allocates: yes, cached.
 * Returns: 0, with what the child gave in *value (may be NULL); what the child returned if it
 * ended first, or -EPIPE if that was 0 or more; -ETIMEDOUT if it heeded that a deadline around
 * the caller passed; what hd_go() returns; -EINVAL in a stackless task; -EDEADLK on a thread in sim
 * if the child can neither become ready nor end: it is still there. */
#define hd_start(nursery, fn, arg, value) hd_start_at((nursery), (fn), (arg), (value), HD_SITE)
HD_API HD_MUST_USE int hd_start_at(hd_nursery *nursery, hd_fn *fn, void *arg, void **value,
                                   const hd_site *site);

/* Say to hd_start() that this task is ready, and pass it a value. Only the first call counts.
 * Context: any; does nothing for a task that was not started so.  Switches: no.  Allocates: no. */
HD_API void hd_ready(void *value);

/* ---- looking ---- */

typedef struct hd_nursery_info {
    hd_nursery_state state;
    unsigned live;        /* children that have not ended, daemons included. 0 may be seen while it
                           * is still CLOSING or CANCELLING: the last has ended, and whoever looks
                           * at it just now, to join a child or tell of a cancel, lets go soon */
    unsigned daemons;     /* of them */
    uint64_t spawned;     /* so far */
    uint64_t succeeded;
    uint64_t failed;
    uint64_t cancelled;   /* ended by heeding a cancel */
    uint64_t winner;      /* HD_JOIN_ANY, _FIRST: the id of the one that decided; 0: none yet */
    hd_cause cause;       /* why it was cancelled */
} hd_nursery_info;

/* Context: any thread, before it is left.  Switches: no.  Allocates: no. */
HD_API hd_nursery_info hd_nursery_look(hd_nursery *nursery);

/* The i-th error kept, from 0, in the order of time.
 * Context: any thread, before it is left.  Switches: no.  Allocates: no.
 * Returns: 0, -ENOENT if there are not so many. */
HD_API HD_MUST_USE int hd_nursery_error(hd_nursery *nursery, unsigned i, hd_child_error *error);

#ifdef __cplusplus
}
#endif
#endif
