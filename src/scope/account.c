/* SPDX-License-Identifier: MIT
 *
 * account: what a task has drawn, what it pays with it, and what happens when there is no more.
 */
#include <errno.h>
#include <stdlib.h>

#include "sched/runtime.h"
#include "scope/budget.h"

/* ---- opening and ending ---- */

/* What nobody counts is drawn at once, as far as the task may use it. */
static void open_line(struct hdi_account *account, unsigned resource)
{
    int64_t *limit = &account->limit[resource];
    *limit = account->pool->per_task[resource];
    if (account->pool->source[resource] || resource == HD_MEMORY) return;
    const bool unlimited = *limit == HD_UNLIMITED;
    account->slice[resource] = unlimited ? HDI_LAVISH : *limit;
    if (!unlimited) *limit = 0;
}

struct hdi_account *hdi_account_need(struct hd_task *task)
{
    struct hdi_extras *extras = hdi_task_need_extras(task);
    if (!extras || extras->account) return extras ? extras->account : NULL;
    struct hdi_account *account = calloc(1, sizeof(*account));
    if (!account) return NULL;
    account->pool = hdi_pool_of(task);
    for (unsigned i = 0; i < HD_RESOURCES; i++) open_line(account, i);
    account->slice[HDI_FREE] = HDI_LAVISH;
    account->spawns.task = task;
    extras->account = account;
    task->credit = (struct hdi_credit){0, 0}; /* It pays directly no longer. */
    return account;
}

/* Put what is in the task's credit back to the slices: everything below works on those. */
static void gather(struct hd_task *task, struct hdi_account *account)
{
    account->slice[HD_OPS] += (task->credit.ops + task->credit.channel) / HDI_FARE;
    account->slice[HD_CHANNEL_OPS] += task->credit.channel / HDI_FARE;
    task->credit = (struct hdi_credit){0, 0};
}

/* In sim every call comes here, because ops are the clock. */
static bool has_credit(const struct hd_task *task)
{
    return task->runtime->world->kind != HD_WORLD_SIM;
}

/* Whether the task makes calls of both kinds: since it was poured last the other kind has used
 * some, or then this one got nothing. */
static bool is_mixed(const struct hd_task *task, const struct hdi_account *account, bool channel)
{
    const struct hdi_credit *poured = &account->poured;
    if (channel) return poured->channel == 0 || poured->ops > task->credit.ops;
    return poured->ops == 0 || poured->channel > task->credit.channel;
}

/* And out again: all for calls of one kind, or half for each. What the other kind lacks then comes
 * back here first. */
static void pour(struct hd_task *task, struct hdi_account *account, bool channel, bool mixed)
{
    int64_t *slice = account->slice;
    if (!has_credit(task)) return;
    const int64_t share = mixed ? slice[HD_OPS] / 2 : channel ? slice[HD_OPS] : 0;
    const int64_t most = hdi_less(slice[HD_CHANNEL_OPS], HDI_CREDIT_MAX);
    const int64_t channel_calls = hdi_less(share, most);
    const int64_t calls = hdi_less(slice[HD_OPS] - channel_calls, HDI_CREDIT_MAX);
    task->credit =
        (struct hdi_credit){(int32_t)calls * HDI_FARE, (int32_t)channel_calls * HDI_FARE};
    account->poured = task->credit;
    slice[HD_OPS] -= calls + channel_calls;
    slice[HD_CHANNEL_OPS] -= channel_calls;
}

/* What is drawn in slices from a pool. */
static bool is_shared(const struct hdi_account *account, unsigned resource)
{
    return hdi_slice_max(resource) > 0 && account->pool->source[resource];
}

static int64_t take_used(struct hdi_account *account, unsigned resource)
{
    const int64_t used = account->held[resource] - account->slice[resource];
    HDI_ASSERT(used >= 0 && account->slice[resource] >= 0); /* ACCOUNT-1 */
    account->held[resource] = account->slice[resource];
    return used;
}

void hdi_budget_end(struct hd_task *task)
{
    struct hdi_account *account = hdi_account_of(task);
    if (!account) return;
    gather(task, account);
    for (unsigned i = 0; i < HD_RESOURCES; i++) {
        if (!account->joined[i]) continue;
        const int64_t used = take_used(account, i);
        hdi_pool_part(account->pool->source[i], i, used, account->slice[i]);
    }
    hdi_spawns_end(&account->spawns);
    if (account->ledger) hdi_ledger_unref(account->ledger);
    hdi_task_extras(task)->account = NULL;
    free(account);
}

void hdi_account_tell(void)
{
    struct hd_task *task = hdi_task_self();
    struct hdi_account *account = task ? hdi_account_of(task) : NULL;
    if (!account) return;
    gather(task, account);
    for (unsigned i = 0; i < HD_RESOURCES; i++) {
        const int64_t used = account->joined[i] ? take_used(account, i) : 0;
        if (used > 0) hdi_pool_tell(account->pool->source[i], i, used);
    }
    if (!account->asking) pour(task, account, false, true); /* Else a payment is under way. */
}

/* ---- drawing ---- */

/* What the task may still draw by its own limit. */
static int64_t room(struct hdi_account *account, unsigned resource)
{
    const int64_t limit = account->limit[resource];
    if (resource != HD_MEMORY || limit == HD_UNLIMITED) return limit;
    return limit - hdi_load_relaxed(&account->ledger->memory); /* Others only make it less. */
}

/* It was drawn: what is consumed already in the pool's eyes is used before anything else is
 * drawn. */
static void credit(struct hdi_account *account, unsigned resource, int64_t amount)
{
    if (resource == HD_MEMORY) {
        hdi_fetch_add_relaxed(&account->ledger->memory, amount); /* Others only subtract. */
        return;
    }
    account->slice[resource] += amount;
    if (is_shared(account, resource)) account->held[resource] += amount;
    if (account->limit[resource] != HD_UNLIMITED) account->limit[resource] -= amount;
}

static struct hdi_draw plan(struct hdi_account *account, unsigned resource, int64_t need)
{
    struct hdi_draw draw = {.resource = resource, .need = need, .ticket = HDI_NO_TICKET};
    if (!is_shared(account, resource)) return draw;
    draw.most = hdi_less(hdi_slice_max(resource), room(account, resource));
    draw.used = take_used(account, resource);
    draw.joins = !account->joined[resource];
    account->joined[resource] = true;
    return draw;
}

enum drawn {
    DRAWN,
    AT_LIMIT, /* the task has used what one task may */
    DRY,      /* the pool has not enough */
};

static enum drawn try_draw(struct hdi_account *account, unsigned resource, int64_t need)
{
    struct hdi_pool *source = account->pool->source[resource];
    if (need > room(account, resource)) return AT_LIMIT;
    if (!source) { /* Of a limited one everything was drawn at first. */
        credit(account, resource, resource == HD_MEMORY ? need : HDI_LAVISH);
        return DRAWN;
    }
    struct hdi_draw draw = plan(account, resource, need);
    const int64_t got = hdi_pool_draw(source, &draw);
    if (got == 0) return DRY;
    credit(account, resource, got);
    return DRAWN;
}

/* ---- exhausted ---- */

static int wait_for(struct hd_task *task, struct hdi_account *account, unsigned resource,
                    int64_t need, bool now)
{
    if (now || task->kind != HDI_TASK_FIBER) return -EDQUOT;
    struct hdi_draw draw = plan(account, resource, need);
    const int err = hdi_pool_wait(account->pool->source[resource], task, &draw);
    if (!err) credit(account, resource, need);
    return err;
}

/* Add what the callback says, as far as the pool around has it. Returns whether that was any. */
static bool ask(struct hd_task *task, struct hdi_account *account, unsigned resource, int64_t need)
{
    struct hdi_pool *pool = account->pool->source[resource];
    const int64_t missing = need - hdi_less(need - 1, hdi_pool_remaining(pool, resource));
    account->asking = true;
    int64_t amount;
    HDI_CALL_OUT(amount = pool->recharge((hd_resource)resource, missing, task->id,
                                         pool->recharge_arg));
    account->asking = false;
    return amount > 0 && hdi_pool_recharge(pool, resource, amount);
}

static int cancel_self(struct hd_task *task)
{
    hdi_store_relaxed(&hdi_task_extras(task)->fined, true); /* The word publishes it. */
    hdi_task_cancel(task);
    return -ECANCELED;
}

/* Returns: 0: it was drawn after all; -EAGAIN: try again; -EDQUOT, -ECANCELED, -ETIMEDOUT. */
static int exhausted(struct hd_task *task, struct hdi_account *account, unsigned resource,
                     int64_t need, bool limited, bool now)
{
    const struct hdi_pool *pool = limited ? account->pool : account->pool->source[resource];
    switch ((hd_exhausted)pool->exhausted) {
    case HD_EXHAUSTED_ERROR:
        break;
    case HD_EXHAUSTED_WAIT:
        return limited ? -EDQUOT : wait_for(task, account, resource, need, now);
    case HD_EXHAUSTED_ASK:
        return !limited && ask(task, account, resource, need) ? -EAGAIN : -EDQUOT;
    case HD_EXHAUSTED_CANCEL:
        return cancel_self(task);
    }
    return -EDQUOT;
}

/* For reports: it could not draw this, or could after all. */
static void mark_exhausted(struct hd_task *task, unsigned resource, bool is)
{
    struct hdi_extras *extras = hdi_task_extras(task);
    _Atomic(uint8_t) *mark = &extras->exhausted;
    if (is) extras->spawns_into = NULL;
    if (is || hdi_load_relaxed(mark) == 1 + resource) { /* its own */
        hdi_store_relaxed(mark, is ? (uint8_t)(1 + resource) : 0);
    }
}

int hdi_account_draw(struct hd_task *task, struct hdi_account *account, unsigned resource,
                     int64_t amount, bool now)
{
    int err;
    do {
        const int64_t need = amount - account->slice[resource];
        const enum drawn drawn = try_draw(account, resource, need);
        if (drawn == DRAWN) break;
        mark_exhausted(task, resource, true);
        err = exhausted(task, account, resource, need, drawn == AT_LIMIT, now);
        if (err && err != -EAGAIN) return err;
    } while (err);
    mark_exhausted(task, resource, false);
    return 0;
}

/* ---- paying ---- */

/* Pay for all of it, or nothing: what is consumed as it is drawn comes last. */
static int pay(struct hd_task *task, struct hdi_account *account, unsigned resource, unsigned ops,
               bool now)
{
    int err = 0;
    if (account->slice[HD_OPS] < (int64_t)ops) {
        err = hdi_account_draw(task, account, HD_OPS, ops, now);
    }
    if (!err && account->slice[resource] < 1) {
        err = hdi_account_draw(task, account, resource, 1, now);
    }
    if (err) return err;
    account->slice[HD_OPS] -= ops;
    account->slice[resource]--;
    return 0;
}

/* The credit of a task without an account says, below 0, how many calls it has paid for one by
 * one. */
enum { DIRECTLY_MAX = 4 };

/* Pay without an account, if nothing is in the way. */
static bool pay_directly(struct hd_task *task, const struct hdi_pool *pool, unsigned resource,
                         unsigned ops)
{
    if (pool->limits || task->credit.ops == -DIRECTLY_MAX * HDI_FARE) return false;
    struct hdi_pool *first = pool->source[HD_OPS];
    struct hdi_pool *second = resource == HDI_FREE ? NULL : pool->source[resource];
    if (first && !hdi_pool_take(first, HD_OPS, ops)) return false;
    if (second && !hdi_pool_take(second, resource, 1)) {
        if (first) hdi_pool_unconsume(first, HD_OPS, ops);
        return false;
    }
    task->credit.ops -= HDI_FARE;
    return true;
}

/* It is METERED for another reason. */
static int pay_nothing(struct hd_task *task)
{
    const int32_t most = HDI_CREDIT_MAX * HDI_FARE;
    if (has_credit(task)) task->credit = (struct hdi_credit){most, most};
    return 0;
}

static __attribute__((noinline)) int pay_slowly(struct hd_task *task, unsigned resource,
                                                unsigned ops, bool now)
{
    const struct hdi_pool *pool = hdi_pool_of(task);
    if (!pool) return pay_nothing(task);
    if (!hdi_account_of(task) && pay_directly(task, pool, resource, ops)) return 0;
    struct hdi_account *account = hdi_account_need(task);
    if (!account) return -EDQUOT; /* Not to be counted is not to be done. */
    if (account->asking) return 0;
    const bool channel = resource == HD_CHANNEL_OPS;
    const bool mixed = is_mixed(task, account, channel);
    gather(task, account);
    const int err = pay(task, account, resource, ops, now);
    pour(task, account, channel, mixed);
    return err;
}

int hdi_budget_pay(struct hd_task *task, enum hdi_cost cost, unsigned ops, bool now)
{
    static const uint8_t resources[] = {
        [HDI_COST_CALL] = HDI_FREE,
        [HDI_COST_SPAWN] = HD_SPAWN_COUNT,
        [HDI_COST_CHANNEL] = HD_CHANNEL_OPS,
        [HDI_COST_SYSCALL] = HD_SYSCALLS,
    };
    const unsigned resource = resources[cost];
    const bool exact = cost == HDI_COST_SPAWN || cost == HDI_COST_SYSCALL;
    if (exact && ops == 1 && hdi_account_pay_one(task, resource)) return 0;
    return pay_slowly(task, resource, ops, now);
}

void hdi_budget_unspawn(struct hd_task *task)
{
    struct hdi_account *account = hdi_account_of(task);
    struct hdi_pool *pool = hdi_pool_of(task);
    if (!pool || (account && account->asking)) return;
    struct hdi_pool *source = pool->source[HD_SPAWN_COUNT];
    if (source) {
        hdi_pool_unconsume(source, HD_SPAWN_COUNT, 1);
        if (account && account->limit[HD_SPAWN_COUNT] != HD_UNLIMITED) {
            account->limit[HD_SPAWN_COUNT]++;
        }
    } else if (account) {
        account->slice[HD_SPAWN_COUNT]++;
    }
}
