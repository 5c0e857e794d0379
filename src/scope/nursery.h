/* SPDX-License-Identifier: MIT
 *
 * nursery: a scope that owns tasks.
 *
 *   NURSERY-1  `children` and `told` are the live children: those that a cancel has not reached
 *              yet, and those it has. Everything below `base` is under scope.base.lock, unless
 *              noted.
 *   NURSERY-2  A child is in one of the lists from before it is submitted until its end; the lock's
 *              holder may therefore touch the tasks in them, and holds the scope counts include
 *              one for each (SCOPE-2).
 */
#ifndef HDI_SCOPE_NURSERY_H
#define HDI_SCOPE_NURSERY_H

#include <heddle/nursery.h>

#include "scope/nursery_state.h"
#include "scope/scope.h"

/* What was drawn of spawn_count in advance: by a nursery, for those of its tasks that spawn into
 * it, or by a task, for the nurseries that it opens (POOL-7). */
struct hdi_spawns {
    struct hdi_pool *pool;  /* from here; NULL: nothing yet. Its owner's, as is `task` */
    struct hd_task *task;   /* constant: whose account it is in; NULL: it is in a nursery */
    struct hdi_list among;  /* pool->spawns, if it holds any; the pool's lock */
    int64_t held, left;     /* granted; of that, not used yet. The lock of the nursery, or of one
                             * that the task has opened; to draw and give back, the pool's too */
};

struct hdi_nursery {
    struct hdi_scope scope; /* first */
    hd_on_error_fn *on_error_fn; /* constant, as are those up to supervisor */
    void *on_error_arg;
    uint8_t on_error, join;
    bool meters;            /* children are METERED */
    unsigned errors_max, quorum;
    int64_t overdue_ns;
    struct hdi_pool *pool;     /* what its tasks draw from; NULL: nothing is counted */
    struct hdi_pool *own_pool; /* the same, if it is this nursery's; NULL */
    struct hdi_rights *rights; /* what its tasks may do; NULL: everything */
    struct hdi_pool *payer;    /* what counts the spawns of its tasks, if they have no other limit;
                                * NULL: nothing, or they have */
    struct hd_task *paying_owner; /* its owner, if that has such a payer, and its tasks may do all
                                   * that the owner may; NULL otherwise */
    struct hdi_supervisor *supervisor; /* NULL: none */

    uint8_t state;          /* hd_nursery_state */
    bool told_daemons;
    bool polled;            /* its owner, a stackless task, is to be woken when all have ended */
    bool reported;          /* overdue children were */
    struct hdi_list children, told;
    struct hdi_spawns spawns;
    uint32_t daemons;
    uint64_t spawned, succeeded, failed, cancelled, winner;
    uint64_t votes;         /* successes of those that are no daemons */
    int first_error;        /* that counts for the result; 0: none */
    int heeded;             /* what the first child that heeded a cancel returned; 0: none */
    int first_result;       /* HD_JOIN_FIRST: of the winner */
    int64_t cancelled_ns;   /* when its cancel began, if overdue_ns; HD_FOREVER */
    hd_child_error *errors; /* NULL before the first */
    unsigned error_count;   /* kept */
};
_Static_assert(sizeof(struct hdi_nursery) <= sizeof(hd_nursery), "hd_nursery holds a nursery");

static inline struct hdi_nursery *hdi_nursery_of(hd_nursery *nursery)
{
    return (struct hdi_nursery *)nursery;
}

/* What the tasks of a nursery draw from and may do are those of the innermost nursery around. */
static inline struct hdi_pool *hdi_pool_of(const struct hd_task *task)
{
    return task->nursery ? task->nursery->pool : NULL;
}

/* ---- scope/budget.c ---- */

/* The pool of a new nursery: its own if options->budget or per_task or the profile asks for one,
 * else that of `owner`'s nursery. Returns: 0, -EINVAL, -ENOMEM, -EDQUOT, -EPERM. */
int hdi_pool_open(struct hdi_nursery *nursery, const hd_nursery_options *options);
void hdi_pool_close(struct hdi_nursery *nursery);

/* A METERED task makes a call. Returns: 0, -EDQUOT, -ECANCELED, -ETIMEDOUT. */
int hdi_budget_pay(struct hd_task *task, enum hdi_cost cost, unsigned ops, bool now);

/* A spawn that was paid for did not happen. */
void hdi_budget_unspawn(struct hd_task *task);

/* A METERED task has ended: what it drew and did not use goes back to the pool. Called once,
 * before its nursery may go. */
void hdi_budget_end(struct hd_task *task);

/* ---- scope/rights.c ---- */

/* The rights of a new nursery: as options->caps narrows those of the caller. Returns: 0, -EPERM,
 * -EINVAL, -ENOMEM. */
int hdi_rights_open(struct hdi_nursery *nursery, const hd_nursery_options *options);
void hdi_rights_close(struct hdi_nursery *nursery);

/* Whether `spawner` may spawn into this nursery (NULL: none). Returns: 0, -EPERM. */
int hdi_rights_may_spawn(struct hd_task *spawner, struct hdi_nursery *nursery);

/* A child of a nursery with rights begins and ends: it may run where it is to, and counts against
 * tasks_live. Context: no lock, because the audit hook may be called. begin returns: 0, -EPERM. */
int hdi_rights_begin(struct hdi_nursery *nursery, const struct hd_task *task);
void hdi_rights_end(struct hdi_nursery *nursery);

/* Whether the running task, or thread, may do this (HD_CAP_RECHARGE, HD_CAP_TRANSFER) with pools of
 * this runtime; HD_CAP_REQUEST has been asked for by hdi_rights_open(). Returns: 0, -EPERM. */
int hdi_rights_may_budget(struct hd_runtime *runtime, unsigned right);

/* ---- scope/supervise.c ---- */

int hdi_supervisor_open(struct hdi_nursery *nursery, const hd_supervision *options);
void hdi_supervisor_close(struct hdi_nursery *nursery);

/* ---- scope/start.c ---- */

/* A child that somebody waits for in hd_start() ends. */
void hdi_start_ended(struct hd_task *task, int result);

/* ---- obs/overdue.c ---- */

/* Report the children that have not ended. Context: the owner, a fiber or a thread. */
void hdi_overdue_report(struct hdi_nursery *nursery);

#endif
