/* SPDX-License-Identifier: MIT
 *
 * budget: the pools of nurseries, and what everybody may ask of them.
 */
#include "scope/budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sched/runtime.h"
#include "scope/cap.h"

const char *hd_resource_name(hd_resource resource)
{
    switch (resource) {
    case HD_OPS: return "ops";
    case HD_MEMORY: return "memory";
    case HD_SPAWN_COUNT: return "spawn_count";
    case HD_CHANNEL_OPS: return "channel_ops";
    case HD_SYSCALLS: return "syscalls";
    }
    return "?";
}

/* ---- what the options say ---- */

/* An amount in an option struct, where 0 is `absent`. */
static int64_t amount_of(const hd_budget *budget, unsigned resource, int64_t absent)
{
    const int64_t amount = budget ? hdi_budget_of(budget, resource) : 0;
    if (amount == HD_NOTHING) return 0;
    return amount == 0 ? absent : amount;
}

static bool amounts_make_sense(const hd_budget *budget)
{
    for (unsigned i = 0; budget && i < HD_RESOURCES; i++) {
        if (amount_of(budget, i, 0) < 0) return false;
    }
    return true;
}

static bool options_make_sense(const hd_nursery_options *options)
{
    if (!amounts_make_sense(options->budget) || !amounts_make_sense(options->refill) ||
        !amounts_make_sense(options->per_task)) {
        return false;
    }
    if ((options->refill != NULL) != (options->refill_ns > 0)) return false;
    if (options->refill && !options->budget) return false;
    return options->exhausted != HD_EXHAUSTED_ASK || options->recharge;
}

static void narrow(int64_t *limits, const hd_budget *by)
{
    for (unsigned i = 0; i < HD_RESOURCES; i++) {
        limits[i] = hdi_less(limits[i], hdi_budget_of(by, i));
    }
}

/* What one task of the nursery may use: within what the tasks around may. */
static void find_limits(const struct hdi_nursery *nursery, const hd_nursery_options *options,
                        const struct hdi_pool *around, int64_t *limits)
{
    static const hd_budget service = {
        .ops = HD_SERVICE_OPS,
        .memory = HD_SERVICE_MEMORY,
        .spawn_count = HD_SERVICE_SPAWN_COUNT,
        .channel_ops = HD_SERVICE_CHANNEL_OPS,
        .syscalls = HD_SERVICE_SYSCALLS,
    };
    for (unsigned i = 0; i < HD_RESOURCES; i++) {
        limits[i] = amount_of(options->per_task, i, HD_UNLIMITED);
        if (around) limits[i] = hdi_less(limits[i], around->per_task[i]);
    }
    if (nursery->rights) narrow(limits, &nursery->rights->by->bounds.per_task);
    const bool implicit = hdi_profile_of(nursery->scope.runtime)->implicit_budget;
    if (implicit && !options->budget) narrow(limits, &service);
}

/* Whether tasks of the nursery are limited more than those around. */
static bool narrows(const int64_t *limits, const struct hdi_pool *around)
{
    for (unsigned i = 0; i < HD_RESOURCES; i++) {
        if (limits[i] != (around ? around->per_task[i] : HD_UNLIMITED)) return true;
    }
    return false;
}

/* ---- opening and closing ---- */

static unsigned count_refilled(const struct hdi_pool *pool)
{
    unsigned count = 0;
    for (pool = pool->refilled; pool; pool = pool->around ? pool->around->refilled : NULL) count++;
    return count;
}

static void set_refill(struct hdi_pool *pool, const hd_nursery_options *options)
{
    pool->refilled = pool->around ? pool->around->refilled : NULL;
    if (!options->refill) return;
    pool->refilled = pool;
    pool->refill_ns = options->refill_ns;
    pool->refilled_ns = pool->runtime->world->now(pool->runtime);
    for (unsigned i = 0; i < HD_RESOURCES; i++) {
        pool->refill[i] = amount_of(options->refill, i, 0);
    }
}

static struct hdi_pool *new_pool(struct hdi_pool *around, struct hd_runtime *runtime,
                                 const hd_nursery_options *options, const int64_t *limits)
{
    struct hdi_pool *pool = calloc(1, sizeof(*pool));
    if (!pool) return NULL;
    hdi_store_relaxed(&pool->refs, 1); /* not shared yet */
    pool->runtime = runtime;
    pool->around = around;
    if (around) hdi_pool_ref(around);
    memcpy(pool->per_task, limits, sizeof(pool->per_task));
    pool->limits = narrows(limits, NULL);
    pool->exhausted = (uint8_t)options->exhausted;
    pool->recharge = options->recharge;
    pool->recharge_arg = options->recharge_arg;
    pool->budgeted = options->budget != NULL;
    set_refill(pool, options);
    hdi_list_init(&pool->spawns);
    for (unsigned i = 0; i < HD_RESOURCES; i++) {
        hdi_list_init(&pool->lines[i].queue);
        pool->source[i] = hdi_pool_up(pool, i);
    }
    return pool;
}

/* From now on it counts this resource. Returns false if the pool around has not so much. */
static bool endow(struct hdi_pool *pool, unsigned resource, int64_t amount)
{
    struct hdi_pool *up = hdi_pool_up(pool, resource);
    if (up && !hdi_pool_grant(up, resource, amount)) return false;
    pool->source[resource] = pool;
    pool->counts |= (uint8_t)(1u << resource);
    pool->lines[resource].given = pool->lines[resource].remaining = amount;
    return true;
}

/* It counts nothing any more: what is left goes back to where it came from. Context: lock. */
static void close_line(struct hdi_pool *pool, unsigned resource, struct hdi_wakeups *wakeups)
{
    const struct hdi_line *line = &pool->lines[resource];
    HD_CHECK(line->granted == 0 && line->waiting == 0); /* POOL-2: all that drew have ended. */
    struct hdi_pool *up = hdi_pool_up(pool, resource);
    if (up) hdi_pool_return(up, resource, line->remaining, line->consumed, wakeups);
}

static void close_pool(struct hdi_pool *pool)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&pool->base.lock);
    pool->closed = true; /* with what follows in one step: a block may be freed meanwhile */
    for (unsigned i = 0; i < HD_RESOURCES; i++) {
        if (hdi_pool_counts(pool, i)) close_line(pool, i, &wakeups);
    }
    hdi_lock_give(&pool->base.lock);
    hdi_wakeups_go(&wakeups);
    hdi_pool_unref(pool);
}

int hdi_pool_open(struct hdi_nursery *nursery, const hd_nursery_options *options)
{
    const struct hd_task *owner = nursery->scope.owner;
    struct hdi_pool *around = hdi_pool_of(owner);
    int64_t limits[HD_RESOURCES];
    if (!options_make_sense(options)) return -EINVAL;
    if (options->refill && around && count_refilled(around) == HDI_REFILLS_MAX) return -EINVAL;
    find_limits(nursery, options, around, limits);
    if (!options->budget && !narrows(limits, around)) return 0;
    struct hdi_pool *pool = new_pool(around, nursery->scope.runtime, options, limits);
    if (!pool) return -ENOMEM;
    for (unsigned i = 0; i < HD_RESOURCES; i++) {
        const int64_t amount = amount_of(options->budget, i, HD_UNLIMITED);
        if (amount == HD_UNLIMITED || endow(pool, i, amount)) continue;
        close_pool(pool);
        return -EDQUOT;
    }
    nursery->pool = nursery->own_pool = pool;
    return 0;
}

void hdi_pool_close(struct hdi_nursery *nursery)
{
    if (nursery->own_pool) close_pool(nursery->own_pool);
}

void hdi_pool_unref(struct hdi_pool *pool)
{
    for (struct hdi_pool *around; pool; pool = around) {
        const uint32_t was = hdi_fetch_sub_acq_rel(&pool->refs, 1); /* R: all that was done to it */
        HDI_ASSERT(was > 0);
        if (was != 1) return;
        around = pool->around;
        free(pool);
    }
}

/* ---- looking ---- */

static struct hdi_pool *budget_of(hd_nursery *nursery)
{
    struct hdi_pool *pool = hdi_nursery_of(nursery)->own_pool;
    return pool && pool->budgeted ? pool : NULL;
}

int hd_budget_look(hd_nursery *nursery, hd_budget_info *info)
{
    struct hdi_pool *pool = budget_of(nursery);
    if (!pool) return -ENOENT;
    hdi_account_tell();
    hdi_pool_look(pool, info);
    return 0;
}

/* What a task may still use of one resource; it has no account before its first call. */
static int64_t left_of(const struct hd_task *task, struct hdi_pool *pool, unsigned resource)
{
    const struct hdi_account *account = hdi_account_of(task);
    const int64_t slice = account ? hdi_account_slice(task, resource) : 0;
    int64_t left = account ? account->limit[resource] : pool->per_task[resource];
    if (left != HD_UNLIMITED) left += slice;
    if (left != HD_UNLIMITED && account && resource == HD_MEMORY && account->ledger) {
        left -= hdi_load_relaxed(&account->ledger->memory); /* Others only make it less. */
    }
    struct hdi_pool *source = pool->source[resource];
    return source ? hdi_less(left, slice + hdi_pool_remaining(source, resource)) : left;
}

hd_budget hd_budget_left(void)
{
    struct hd_task *task = hdi_task_self();
    struct hdi_pool *pool = task ? hdi_pool_of(task) : NULL;
    hd_budget left;
    for (unsigned i = 0; i < HD_RESOURCES; i++) {
        *hdi_budget_at(&left, i) = pool ? left_of(task, pool, i) : HD_UNLIMITED;
    }
    return left;
}

/* ---- giving more ---- */

static bool is_negative(const hd_budget *amount)
{
    for (unsigned i = 0; i < HD_RESOURCES; i++) {
        if (hdi_budget_of(amount, i) < 0) return true;
    }
    return false;
}

/* How much of it concerns the pool. */
static int64_t share_of(const struct hdi_pool *pool, const hd_budget *amount, unsigned resource)
{
    return hdi_pool_counts(pool, resource) ? hdi_budget_of(amount, resource) : 0;
}

/* Have the pools around grant it, all or nothing. */
static bool grant_all(const struct hdi_pool *pool, const hd_budget *amount)
{
    for (unsigned i = 0; i < HD_RESOURCES; i++) {
        struct hdi_pool *up = hdi_pool_up(pool, i);
        const int64_t share = share_of(pool, amount, i);
        if (!up || share == 0 || hdi_pool_grant(up, i, share)) continue;
        while (i-- > 0) {
            up = hdi_pool_up(pool, i);
            if (up) hdi_pool_ungrant(up, i, share_of(pool, amount, i));
        }
        return false;
    }
    return true;
}

int hd_budget_recharge(hd_nursery *nursery, const hd_budget *amount)
{
    struct hdi_pool *pool = budget_of(nursery);
    if (!pool) return -ENOENT;
    if (is_negative(amount)) return -EINVAL;
    const int err = hdi_rights_may_budget(pool->runtime, HD_CAP_RECHARGE);
    if (err) return err;
    if (!grant_all(pool, amount)) return -EDQUOT;
    for (unsigned i = 0; i < HD_RESOURCES; i++) {
        if (share_of(pool, amount, i) > 0) hdi_pool_add(pool, i, share_of(pool, amount, i));
    }
    return 0;
}

/* ---- moving it ---- */

/* The innermost pool that both came out of, or that is one of them; NULL: none. */
static struct hdi_pool *common(struct hdi_pool *a, struct hdi_pool *b, unsigned resource)
{
    for (; a; a = hdi_pool_up(a, resource)) {
        for (struct hdi_pool *p = b; p; p = hdi_pool_up(p, resource)) {
            if (p == a) return a;
        }
    }
    return NULL;
}

/* Take it out of `from`, and out of all up to what both have in common. */
static bool take_out(struct hdi_pool *from, struct hdi_pool *top, unsigned resource,
                     int64_t amount)
{
    if (from == top) return hdi_pool_grant(from, resource, amount);
    if (!hdi_pool_remove(from, resource, amount)) return false;
    for (struct hdi_pool *p = from; (p = hdi_pool_up(p, resource)) != top;) {
        hdi_pool_add_granted(p, resource, -amount);
    }
    return true;
}

static void put_in(struct hdi_pool *to, struct hdi_pool *top, unsigned resource, int64_t amount)
{
    if (to == top) {
        hdi_pool_ungrant(to, resource, amount);
        return;
    }
    for (struct hdi_pool *p = to; (p = hdi_pool_up(p, resource)) != top;) {
        hdi_pool_add_granted(p, resource, amount);
    }
    hdi_pool_add(to, resource, amount);
}

/* Whether both count what is to be moved. */
static bool both_count(const struct hdi_pool *a, const struct hdi_pool *b, const hd_budget *amount)
{
    for (unsigned i = 0; i < HD_RESOURCES; i++) {
        if (hdi_budget_of(amount, i) && (!hdi_pool_counts(a, i) || !hdi_pool_counts(b, i))) {
            return false;
        }
    }
    return true;
}

static int move_all(struct hdi_pool *from, struct hdi_pool *to, const hd_budget *amount)
{
    for (unsigned i = 0; i < HD_RESOURCES; i++) {
        const int64_t share = hdi_budget_of(amount, i);
        if (share == 0 || take_out(from, common(from, to, i), i, share)) continue;
        while (i-- > 0) { /* Back again. */
            if (hdi_budget_of(amount, i) == 0) continue;
            put_in(from, common(from, to, i), i, hdi_budget_of(amount, i));
        }
        return -EDQUOT;
    }
    for (unsigned i = 0; i < HD_RESOURCES; i++) {
        if (hdi_budget_of(amount, i) == 0) continue;
        put_in(to, common(from, to, i), i, hdi_budget_of(amount, i));
    }
    return 0;
}

int hd_budget_transfer(hd_nursery *from, hd_nursery *to, const hd_budget *amount)
{
    struct hdi_pool *source = budget_of(from), *target = budget_of(to);
    if (!source || !target) return -ENOENT;
    if (is_negative(amount) || !both_count(source, target, amount)) return -EINVAL;
    const int err = hdi_rights_may_budget(source->runtime, HD_CAP_TRANSFER);
    return err ? err : move_all(source, target, amount);
}
