/* SPDX-License-Identifier: MIT
 *
 * adopt: a new task becomes the child of a nursery, and is paid for.
 *
 * Most spawns end in the short ways, which call nothing: so nothing has to be kept over a call.
 * What is not as they want it they leave as it was, to the long way.
 */
#include <errno.h>

#include "base/check.h"
#include "base/mutant.h"
#include "scope/budget.h"

int hdi_scope_may_spawn(struct hd_task *spawner, struct hdi_nursery *n)
{
    const int err = hdi_rights_may_spawn(spawner, n);
    return err ? err : hdi_scope_attend(spawner, HDI_COST_SPAWN, true, NULL);
}

void hdi_scope_unspawned(struct hd_task *spawner)
{
    hdi_budget_unspawn(spawner);
}

/* Context: base.lock, and it is open. */
HDI_ALWAYS_INLINE void take_in(struct hdi_nursery *n, struct hd_task *task)
{
    task->nursery = n;
    hdi_list_push_back(&n->children, &task->sibling);
    n->scope.children++;
    n->spawned++;
}

/* ---- the long way ---- */

/* As a wait of the owner in it would say. Context: base.lock. */
static int refusal(struct hdi_nursery *n)
{
    int err;
    (void)hdi_nursery_next((hd_nursery_state)n->state, HDI_NURSERY_SPAWN, &err);
    if (err != -ECANCELED) return err;
    return hdi_scope_cause_of(&n->scope).root == HD_REASON_TIMEOUT ? -ETIMEDOUT : err;
}

/* Context: base.lock. Returns -EDQUOT if nothing can be drawn; `spawns` NULL: it is paid for. */
static int adopt(struct hdi_nursery *n, struct hd_task *task, bool daemon,
                 struct hdi_spawns *spawns, struct hdi_pool *payer)
{
    if (!hdi_nursery_is_open((hd_nursery_state)n->state)) return refusal(n);
    if (spawns && !hdi_spawns_take(spawns, payer)) return -EDQUOT;
    take_in(n, task);
    task->daemon = daemon;
    n->daemons += daemon;
    return 0;
}

/* Mutant nursery_spawn_blind. */
static int adopt_blindly(struct hdi_nursery *n, struct hd_task *task)
{
    if (!hdi_nursery_is_open((hd_nursery_state)n->state)) return refusal(n);
    hdi_lock_take(&n->scope.base.lock);
    take_in(n, task);
    hdi_lock_give(&n->scope.base.lock);
    return 0;
}

static __attribute__((noinline)) int adopt_slowly(struct hdi_nursery *n, struct hd_task *task,
                                                  bool daemon, struct hdi_spawns *spawns,
                                                  struct hdi_pool *payer)
{
    if (n->rights && hdi_rights_begin(n, task) != 0) return -EPERM;
    hdi_lock_take(&n->scope.base.lock);
    const int err = adopt(n, task, daemon, spawns, payer);
    hdi_lock_give(&n->scope.base.lock);
    if (err && n->rights) hdi_rights_end(n);
    return err;
}

/* ---- a spawn that is paid for, or costs nothing ---- */

int hdi_scope_adopt(struct hdi_nursery *n, struct hd_task *task, bool daemon)
{
    if (HDI_MUTANT(nursery_spawn_blind)) return adopt_blindly(n, task);
    if (hdi_likely(!n->rights && !daemon && hdi_lock_try(&n->scope.base.lock))) {
        const bool open = hdi_nursery_is_open((hd_nursery_state)n->state);
        if (hdi_likely(open)) take_in(n, task);
        hdi_lock_give(&n->scope.base.lock);
        if (hdi_likely(open)) return 0;
    }
    return adopt_slowly(n, task, daemon, NULL, NULL);
}

/* ---- a spawn that is paid for here ---- */

/* The slice that a task may use for a spawn into this nursery; NULL: it must ask. If it could not
 * draw before, it asks once more, which says that it no longer is exhausted. */
static struct hdi_spawns *spawns_for(struct hdi_nursery *n, const struct hd_task *spawner)
{
    struct hdi_extras *extras = hdi_task_extras(spawner);
    struct hdi_account *account = extras ? extras->account : NULL;
    if (!account || hdi_load_relaxed(&extras->exhausted)) return NULL; /* its own */
    if (n->paying_owner == spawner) return &account->spawns;
    return spawner->nursery == n && n->payer ? &n->spawns : NULL;
}

/* After a fare was taken in vain. */
static __attribute__((noinline)) int adopt_asking(struct hdi_nursery *n, struct hd_task *task,
                                                  bool daemon, struct hd_task *spawner)
{
    spawner->credit.ops += HDI_FARE; /* It is part of what is asked for. */
    int err = hdi_scope_may_spawn(spawner, n);
    if (err) return err;
    err = adopt_slowly(n, task, daemon, NULL, NULL);
    if (err) hdi_scope_unspawned(spawner);
    return err;
}

static __attribute__((noinline)) int adopt_paying(struct hdi_nursery *n, struct hd_task *task,
                                                  bool daemon, struct hd_task *spawner)
{
    struct hdi_spawns *spawns = spawns_for(n, spawner);
    if (!spawns) return adopt_asking(n, task, daemon, spawner);
    const int err = adopt_slowly(n, task, daemon, spawns, spawner->nursery->payer);
    if (err == -EDQUOT) return adopt_asking(n, task, daemon, spawner);
    if (!err && spawns == &n->spawns) hdi_task_extras(spawner)->spawns_into = n;
    return err;
}

/* Context: base.lock, given back. */
HDI_ALWAYS_INLINE bool adopt_quickly(struct hdi_nursery *n, struct hd_task *task,
                                     struct hdi_spawns *spawns)
{
    if (hdi_likely(hdi_nursery_is_open((hd_nursery_state)n->state))) {
        if (hdi_likely(--spawns->left >= 0)) {
            take_in(n, task);
            hdi_lock_give(&n->scope.base.lock);
            return true;
        }
        spawns->left = 0;
    }
    hdi_lock_give(&n->scope.base.lock);
    return false;
}

/* With credit, and something that counts its spawns, a task has an account. One that holds a slice
 * of its own is not exhausted: who finds the pool dry takes back its own slice, too. */
int hdi_scope_adopt_for(struct hdi_nursery *n, struct hd_task *task, bool daemon,
                        struct hd_task *spawner)
{
    struct hdi_lock *lock = &n->scope.base.lock;
    struct hdi_extras *extras = hdi_task_extras(spawner);
    /* Only now: with what the child inherits, functions of the program may have been called, which
     * use up credit, and tell the pool of it. */
    if (!hdi_credit_pay(&spawner->credit.ops, HDI_FARE)) {
        return adopt_asking(n, task, daemon, spawner);
    }
    if (hdi_unlikely(daemon)) return adopt_paying(n, task, daemon, spawner);
    if (n->paying_owner == spawner) {
        HDI_ASSERT(extras && extras->account);
        if (hdi_likely(hdi_lock_try(lock)) &&
            hdi_likely(adopt_quickly(n, task, &extras->account->spawns))) {
            return 0;
        }
    } else if (hdi_likely(extras && extras->spawns_into == n) && hdi_likely(hdi_lock_try(lock)) &&
               hdi_likely(adopt_quickly(n, task, &n->spawns))) {
        return 0;
    }
    return adopt_paying(n, task, daemon, spawner);
}
