/* SPDX-License-Identifier: MIT
 *
 * budget: pools, and the accounts of the tasks that draw from them.
 *
 * A pool belongs to a nursery. It counts some of the five resources; one it does not count is
 * drawn from the next pool around that does, its source, so that no nursery inside can make more
 * of what an outer one counts. What a pool counts itself was drawn from that next pool when it was
 * opened, is there as granted, and goes back or becomes consumed when it is closed.
 *
 *   POOL-1  For each resource that a pool counts, whenever its lock is free,
 *           given = remaining + granted + consumed, and none of them is negative.
 *   POOL-2  granted = what live accounts and nurseries hold + what pools inside were given.
 *   POOL-3  Who waits stands in the queue of what it waits for, in the order of the tickets. When
 *           the lock is given back, the first in each wants more than remains.
 *   POOL-4  If a pool is refilled and somebody waits, one of them, the keeper, has a timer for the
 *           next refill, and passes that on to another when it leaves. While it looks at the time
 *           it is away from the queue, but keeps its turn.
 *   POOL-5  Locks are taken from the inside outwards. Nothing is called with one held.
 *   POOL-6  A pool's memory stays for its nursery, ledgers, and the pools inside. A closed one
 *           counts nothing: what comes back to it goes on outwards.
 *   POOL-7  spawn_count is drawn in slices: by a nursery, for those of its tasks that spawn into
 *           it, and by a task, for the nurseries that it opens. A spawn has the lock of the nursery
 *           anyway, and uses one with it held. Who finds the pool dry takes back what was not used:
 *           with the pool's lock held it tries the lock of the nursery, or task->scopes and the
 *           locks of all nurseries that the task has opened, and never waits for one. So
 *           spawn_count ends exactly at the limit, and who looks at the pool sees what was used.
 *
 * An account is a task's own. Ops and channel_ops are drawn in slices, which the task uses up
 * without a lock or an atomic operation: a slice is a part of what remains, the smaller the more
 * tasks share it, so that the last unit can be had. In live the slices lie in the task's credit
 * (task/task.h), where calls find them without coming here. Memory and syscalls are drawn one by
 * one, and are consumed at once: they end exactly at the limit, whoever holds what. spawn_count
 * does too (POOL-7). A task that never makes a call has no account; one that makes few pays for
 * each, and has none either.
 *
 *   ACCOUNT-1  In calls, of what is drawn in slices held >= slice + credit >= 0: the rest was used,
 *              and the pool learns of it at the next draw, or the end.
 *   ACCOUNT-2  Only the task touches its account, or who ends it.
 *   ACCOUNT-3  A ledger counts the memory of one task, and stays for its blocks, which may be freed
 *              by anyone, later than the task and its nursery.
 *
 * Rejected
 *   Slices by worker, as caches of the pool: fewer, so less is out of reach of others, and no
 *   memory for a task. But to get them back, for a task that moved or a pool that ends, takes a
 *   barrier in every call, or a lock.
 *   A slice of spawn_count for each nursery that a task opens: two turns with the pool's lock for
 *   what mostly has few children.
 */
#ifndef HDI_SCOPE_BUDGET_H
#define HDI_SCOPE_BUDGET_H

#include <heddle/budget.h>

#include "scope/nursery.h"

/* ---- amounts by resource ---- */

_Static_assert(sizeof(hd_budget) == HD_RESOURCES * sizeof(int64_t) &&
                   offsetof(hd_budget, memory) == HD_MEMORY * sizeof(int64_t) &&
                   offsetof(hd_budget, spawn_count) == HD_SPAWN_COUNT * sizeof(int64_t) &&
                   offsetof(hd_budget, channel_ops) == HD_CHANNEL_OPS * sizeof(int64_t) &&
                   offsetof(hd_budget, syscalls) == HD_SYSCALLS * sizeof(int64_t),
               "hd_budget is an array by hd_resource");

static inline int64_t *hdi_budget_at(hd_budget *budget, unsigned resource)
{
    return &budget->ops + resource;
}

static inline int64_t hdi_budget_of(const hd_budget *budget, unsigned resource)
{
    return (&budget->ops)[resource];
}

static inline int64_t hdi_less(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Whether it is drawn in slices, at most so large; 0: one by one. */
static inline int64_t hdi_slice_max(unsigned resource)
{
    return resource == HD_OPS || resource == HD_CHANNEL_OPS ? 1024 : 0;
}

/* ---- pools ---- */

struct hdi_line {
    int64_t given, remaining, granted, consumed; /* POOL-1 */
    uint32_t sharers; /* accounts that draw slices */
    uint32_t waiting; /* nodes in the queue */
    struct hdi_list queue; /* POOL-3 */
};

static inline void hdi_line_check(const struct hdi_line *line)
{
    HDI_ASSERT(line->given == line->remaining + line->granted + line->consumed); /* POOL-1 */
    HDI_ASSERT(line->remaining >= 0 && line->granted >= 0 && line->consumed >= 0);
    (void)line;
}

#define HDI_REFILLS_MAX 32 /* refilled pools inside each other */

struct hdi_pool {
    struct hdi_waitable base;
    _Atomic(uint32_t) refs;      /* POOL-6 */
    struct hd_runtime *runtime;  /* constant, as are those up to `closed` */
    struct hdi_pool *around;     /* of the nursery around; NULL: none */
    struct hdi_pool *refilled;   /* this one, or the next around that is refilled; NULL: none */
    struct hdi_pool *source[HD_RESOURCES]; /* what counts it; NULL: nothing does */
    int64_t per_task[HD_RESOURCES];        /* or HD_UNLIMITED */
    int64_t refill[HD_RESOURCES];
    int64_t refill_ns;           /* 0: it is not refilled */
    hd_recharge_fn *recharge;
    void *recharge_arg;
    uint8_t exhausted;           /* hd_exhausted */
    uint8_t counts;              /* the resources it counts, by bits */
    bool budgeted;               /* asked for; otherwise it is there for the limits of tasks */
    bool limits;                 /* per_task is less than HD_UNLIMITED of something */

    bool closed;                 /* base.lock, as all that follow */
    struct hdi_draw *keeper;     /* POOL-4; NULL: nobody */
    uint64_t tickets;
    int64_t refilled_ns;         /* when it was refilled last */
    struct hdi_list spawns;      /* slices of spawn_count (POOL-7) */
    struct hdi_line lines[HD_RESOURCES];
};

static inline bool hdi_pool_counts(const struct hdi_pool *pool, unsigned resource)
{
    return pool->counts & (1u << resource);
}

/* Where what a pool counts was drawn from; NULL: from nowhere. */
static inline struct hdi_pool *hdi_pool_up(const struct hdi_pool *pool, unsigned resource)
{
    return pool->around ? pool->around->source[resource] : NULL;
}

/* What somebody wants to have from a pool. */
struct hdi_draw {
    unsigned resource;
    int64_t need; /* at least; over 0 */
    int64_t most; /* of a slice; not less than need */
    int64_t used; /* of earlier slices, to be said; 0 afterwards */
    bool joins;   /* it is the account's first of this resource; false afterwards */
    int64_t got;  /* if it is over 0 */

    /* The lock of the pool, if it waits. */
    uint64_t ticket; /* its place in the queue; HDI_NO_TICKET: behind all */
    bool away;       /* it is the keeper, and does not stand in the queue */
};
#define HDI_NO_TICKET UINT64_MAX

/* scope/pool.c */

/* Returns what was drawn; 0: there is not enough, or others wait for it. */
int64_t hdi_pool_draw(struct hdi_pool *pool, struct hdi_draw *draw);

/* Wait until there is enough, and draw `need`. Context: fiber. Returns: 0, -ECANCELED, -ETIMEDOUT
 * (a deadline around the task). */
int hdi_pool_wait(struct hdi_pool *pool, struct hd_task *task, struct hdi_draw *draw);

/* An account goes on: so much was used. */
void hdi_pool_tell(struct hdi_pool *pool, unsigned resource, int64_t used);

/* It ends: of what it held so much was used, and so much was not. */
void hdi_pool_part(struct hdi_pool *pool, unsigned resource, int64_t used, int64_t unused);

/* What was consumed was not after all. */
void hdi_pool_unconsume(struct hdi_pool *pool, unsigned resource, int64_t amount);

/* Grant exactly so much to a pool inside; false: there is not enough, or others wait for it. And
 * take it back. */
bool hdi_pool_grant(struct hdi_pool *pool, unsigned resource, int64_t amount);
void hdi_pool_ungrant(struct hdi_pool *pool, unsigned resource, int64_t amount);

/* Give it as much more as the pool around it has. Returns whether that was anything. */
bool hdi_pool_recharge(struct hdi_pool *pool, unsigned resource, int64_t amount);

/* Give it more, which was taken from elsewhere, or is new. */
void hdi_pool_add(struct hdi_pool *pool, unsigned resource, int64_t amount);

/* Take from it what it has left: false if that is not so much, or others wait for it. */
bool hdi_pool_remove(struct hdi_pool *pool, unsigned resource, int64_t amount);

/* It is given more, or less, which went to a pool inside, or came from there. */
void hdi_pool_add_granted(struct hdi_pool *pool, unsigned resource, int64_t amount);

/* A pool inside ends: of what it was granted so much was not used, and so much was. Context: that
 * one's lock. */
void hdi_pool_return(struct hdi_pool *pool, unsigned resource, int64_t unused, int64_t used,
                     struct hdi_wakeups *wakeups);

/* Whatever refills are due in it and around it. */
void hdi_pool_refresh(struct hdi_pool *pool);

void hdi_pool_look(struct hdi_pool *pool, hd_budget_info *info);
int64_t hdi_pool_remaining(struct hdi_pool *pool, unsigned resource);

/* Consume so much, if nothing is in the way. */
static inline bool hdi_pool_take(struct hdi_pool *pool, unsigned resource, int64_t amount)
{
    struct hdi_line *line = &pool->lines[resource];
    if (pool->refilled) return false;
    hdi_lock_take(&pool->base.lock);
    const bool had = line->remaining >= amount && line->waiting == 0;
    if (had) {
        line->remaining -= amount;
        line->consumed += amount;
    }
    hdi_line_check(line);
    hdi_lock_give(&pool->base.lock);
    return had;
}

/* Draw a slice of spawn_count, and use one. Context: the lock of the nursery that is spawned into.
 * Returns false if there is none: it may be that others hold some, or that a refill is due. */
bool hdi_spawns_draw(struct hdi_spawns *spawns, struct hdi_pool *pool);

/* What was not used goes back. Context: nobody uses it any more. */
void hdi_spawns_end(struct hdi_spawns *spawns);

/* Take back all that was not used. Context: lock. Returns false if somebody is busy. */
bool hdi_spawns_collect(struct hdi_pool *pool);

/* Use one. As above. */
static inline bool hdi_spawns_take(struct hdi_spawns *spawns, struct hdi_pool *pool)
{
    if (hdi_unlikely(spawns->left == 0)) return hdi_spawns_draw(spawns, pool);
    spawns->left--;
    return true;
}

static inline void hdi_pool_ref(struct hdi_pool *pool)
{
    hdi_fetch_add_relaxed(&pool->refs, 1); /* The caller knows that it stays. */
}
void hdi_pool_unref(struct hdi_pool *pool);

/* ---- accounts ---- */

#define HDI_FREE   HD_RESOURCES    /* what a call costs that costs nothing but ops */
#define HDI_LAVISH (INT64_MAX / 4) /* the slice of what nobody counts or limits */

struct hdi_ledger {
    _Atomic(uint32_t) refs;   /* the account, the blocks */
    struct hdi_pool *pool;    /* held */
    _Atomic(int64_t) memory;  /* in the blocks; the task increases it, anyone decreases */
};

struct hdi_account {
    struct hdi_pool *pool;           /* constant: its nursery's */
    int64_t slice[HD_RESOURCES + 1]; /* may be used as it is; [HDI_FREE]: always */
    int64_t held[HD_RESOURCES];      /* granted by the source (ACCOUNT-1) */
    int64_t limit[HD_RESOURCES];     /* of per_task, not drawn yet; or HD_UNLIMITED. Of memory:
                                      * per_task itself */
    struct hdi_spawns spawns;        /* for nurseries that the task has opened */
    struct hdi_credit poured;        /* the task's credit as it was last made of the slices */
    bool joined[HD_RESOURCES];       /* it is among the sharers of its source's line */
    bool asking;                     /* in the recharge callback, which pays nothing */
    struct hdi_ledger *ledger;       /* NULL: no block yet */
};

/* scope/account.c */

/* The account of a task that has a pool, made if need be; NULL if memory is short. */
struct hdi_account *hdi_account_need(struct hd_task *task);

/* Draw `amount`, or do what the pool that lacks it says. Context: the task. Returns: 0, -EDQUOT,
 * -ECANCELED, -ETIMEDOUT. */
int hdi_account_draw(struct hd_task *task, struct hdi_account *account, unsigned resource,
                     int64_t amount, bool now);

/* Let the pools know what the running task has used so far, so that they can be looked at. */
void hdi_account_tell(void);

static inline struct hdi_account *hdi_account_of(const struct hd_task *task)
{
    const struct hdi_extras *extras = hdi_task_extras(task);
    return extras ? extras->account : NULL;
}

/* What it holds that was drawn in slices, or need not be. */
static inline int64_t hdi_account_slice(const struct hd_task *task, unsigned resource)
{
    const int credit = resource == HD_OPS           ? task->credit.ops + task->credit.channel
                       : resource == HD_CHANNEL_OPS ? task->credit.channel
                                                    : 0;
    return hdi_account_of(task)->slice[resource] + credit / HDI_FARE;
}

/* Pay for a spawn or a system call, as most tasks do that have drawn ops before. */
static inline bool hdi_account_pay_one(struct hd_task *task, unsigned resource)
{
    struct hdi_extras *extras = hdi_task_extras(task);
    struct hdi_account *account = extras ? extras->account : NULL;
    if (!account || task->credit.ops <= 0) return false;
    if (hdi_load_relaxed(&extras->exhausted)) return false; /* It may no longer be. */
    struct hdi_pool *source = account->pool->source[resource];
    int64_t *own = source ? &account->limit[resource] : &account->slice[resource];
    if (*own < 1 || (source && !hdi_pool_take(source, resource, 1))) return false;
    if (*own != HD_UNLIMITED) --*own;
    task->credit.ops -= HDI_FARE;
    return true;
}

/* ---- spawns ---- */

static inline struct hdi_pool *hdi_nursery_payer(const struct hdi_nursery *nursery)
{
    const struct hdi_pool *pool = nursery->pool;
    return !nursery->rights && pool && !pool->limits ? pool->source[HD_SPAWN_COUNT] : NULL;
}

/* scope/alloc.c */

void hdi_ledger_unref(struct hdi_ledger *ledger);

#endif
