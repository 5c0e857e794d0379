/* SPDX-License-Identifier: MIT
 *
 * Inside budgets: slices, what accounts hold, and what goes back where.
 */
#include "rt.h"
#include "scope/budget.h"

TEST_MAIN

/* ---- pools by themselves ---- */

/* A pool that counts ops and spawn_count, of which it has so much. */
static struct hdi_pool *new_pool(struct hdi_pool *around, int64_t amount)
{
    struct hdi_pool *pool = calloc(1, sizeof(*pool));
    hdi_store_relaxed(&pool->refs, 1);
    pool->around = around;
    if (around) hdi_pool_ref(around);
    hdi_list_init(&pool->spawns);
    pool->counts = 1u << HD_OPS | 1u << HD_SPAWN_COUNT | 1u << HD_MEMORY;
    for (unsigned i = 0; i < HD_RESOURCES; i++) {
        hdi_list_init(&pool->lines[i].queue);
        if (!hdi_pool_counts(pool, i)) continue;
        pool->source[i] = pool;
        pool->lines[i].given = pool->lines[i].remaining = amount;
    }
    return pool;
}

static int64_t draw(struct hdi_pool *pool, int64_t need, int64_t most)
{
    struct hdi_draw draw = {
        .resource = HD_OPS, .need = need, .most = most, .ticket = HDI_NO_TICKET};
    return hdi_pool_draw(pool, &draw);
}

TEST(a_slice_is_a_part_of_what_remains)
{
    struct hdi_pool *pool = new_pool(NULL, 10000);
    EXPECT_EQ(draw(pool, 1, 1024), 1024);
    EXPECT_EQ(draw(pool, 5000, 5000), 5000); /* never less than is needed */
    EXPECT_EQ(draw(pool, 3000, 3000), 3000);
    EXPECT_EQ(pool->lines[HD_OPS].remaining, 976);
    EXPECT_EQ(draw(pool, 1, 1024), 976 / 2);
    EXPECT_EQ(draw(pool, 1, 10), 10); /* nor more than the task may have */
    pool->lines[HD_OPS].sharers = 10;
    EXPECT_EQ(draw(pool, 1, 1024), 478 / 20);
    EXPECT_EQ(draw(pool, 100, 1024), 100);
    EXPECT_EQ(pool->lines[HD_OPS].granted, 10000 - 355);
    hdi_pool_unref(pool);
}

TEST(the_last_unit_can_be_drawn)
{
    for (uint32_t sharers = 0; sharers < 5; sharers++) {
        struct hdi_pool *pool = new_pool(NULL, 10000);
        int64_t sum = 0, got, draws = 0;
        pool->lines[HD_OPS].sharers = sharers;
        for (; (got = draw(pool, 1, 1024)) > 0; sum += got) draws++;
        EXPECT_EQ(sum, 10000);
        EXPECT(draws < 100); /* and not one by one */
        EXPECT_EQ(pool->lines[HD_OPS].remaining, 0);
        hdi_pool_unref(pool);
    }
}

TEST(a_pool_is_told_what_was_used)
{
    struct hdi_pool *pool = new_pool(NULL, 1000);
    struct hdi_line *line = &pool->lines[HD_OPS];
    struct hdi_draw first = {.resource = HD_OPS, .need = 1, .most = 100, .joins = true};
    first.ticket = HDI_NO_TICKET;
    EXPECT_EQ(hdi_pool_draw(pool, &first), 100);
    EXPECT_EQ(line->sharers, 1);
    EXPECT(!first.joins);
    struct hdi_draw second = {.resource = HD_OPS, .need = 1, .most = 100, .used = 70};
    second.ticket = HDI_NO_TICKET;
    EXPECT_EQ(hdi_pool_draw(pool, &second), 100);
    EXPECT_EQ(second.used, 0);
    EXPECT_EQ(line->granted, 130);
    EXPECT_EQ(line->consumed, 70);
    hdi_pool_tell(pool, HD_OPS, 10);
    hdi_pool_part(pool, HD_OPS, 20, 100);
    EXPECT_EQ(line->granted, 0);
    EXPECT_EQ(line->consumed, 100);
    EXPECT_EQ(line->remaining, 900);
    EXPECT_EQ(line->sharers, 0);
    hdi_pool_unref(pool);
}

TEST(what_is_drawn_one_by_one_is_consumed_at_once)
{
    struct hdi_pool *pool = new_pool(NULL, 10);
    struct hdi_draw one = {.resource = HD_SPAWN_COUNT, .need = 1, .ticket = HDI_NO_TICKET};
    EXPECT_EQ(hdi_pool_draw(pool, &one), 1);
    EXPECT(hdi_pool_take(pool, HD_SPAWN_COUNT, 9));
    EXPECT(!hdi_pool_take(pool, HD_SPAWN_COUNT, 1));
    EXPECT_EQ(pool->lines[HD_SPAWN_COUNT].consumed, 10);
    EXPECT_EQ(pool->lines[HD_SPAWN_COUNT].granted, 0);
    hdi_pool_unconsume(pool, HD_SPAWN_COUNT, 1);
    EXPECT(hdi_pool_take(pool, HD_SPAWN_COUNT, 1));
    hdi_pool_unref(pool);
}

/* What comes back to closed pools goes on to the first that is open. */
TEST(closed_pools_count_nothing)
{
    struct hdi_pool *outer = new_pool(NULL, 1000), *middle = new_pool(outer, 500);
    struct hdi_pool *inner = new_pool(middle, 300);
    EXPECT(hdi_pool_take(outer, HD_MEMORY, 400));
    middle->closed = inner->closed = true;
    hdi_pool_unconsume(inner, HD_MEMORY, 100);
    EXPECT_EQ(inner->lines[HD_MEMORY].remaining, 300);
    EXPECT_EQ(middle->lines[HD_MEMORY].remaining, 500);
    EXPECT_EQ(outer->lines[HD_MEMORY].remaining, 700);
    outer->closed = true;
    hdi_pool_unconsume(inner, HD_MEMORY, 100);
    EXPECT_EQ(outer->lines[HD_MEMORY].remaining, 700);
    hdi_pool_unref(middle); /* The others stay for what is inside. */
    hdi_pool_unref(outer);
    EXPECT_EQ(hdi_load_relaxed(&outer->refs), 1);
    hdi_pool_unref(inner);
}

/* ---- credit ---- */

/* Whatever a call costs, it takes no more than there is, and nothing of the other kind. */
TEST(credit_is_paid_in_full_or_not_at_all)
{
    static const unsigned costs[] = {0, 1, 2, 7, HDI_CREDIT_MAX, HDI_CREDIT_MAX + 1u, UINT32_MAX};
    static const int32_t credits[] = {0, 1, 2, 6, 7, HDI_CREDIT_MAX - 1, HDI_CREDIT_MAX};
    struct hd_task task = {.word = 0};
    for (int i = 0; i < 7 * 7; i++) {
        const int32_t credit = credits[i % 7];
        const unsigned cost = costs[i / 7];
        const bool enough = cost <= (unsigned)credit;
        const int32_t left = enough ? credit - (int32_t)cost : credit;
        task.credit = (struct hdi_credit){credit * HDI_FARE, 3};
        EXPECT_EQ(hdi_credit_pay_ops(&task, HDI_METERED, cost), enough);
        EXPECT_EQ(task.credit.ops, left * HDI_FARE);
        EXPECT_EQ(task.credit.channel, 3);
    }
}

/* The credit of a task that has none yet pays for nothing. */
TEST(no_credit_is_not_taken_for_some)
{
    struct hd_task task = {.word = 0};
    for (int32_t calls = 0; calls <= 4; calls++) {
        task.credit = (struct hdi_credit){-calls * HDI_FARE, 0};
        for (unsigned cost = 1; cost <= HDI_CREDIT_MAX + 1u; cost++) {
            EXPECT(!hdi_credit_pay_ops(&task, HDI_METERED, cost));
            EXPECT_EQ(task.credit.ops, -calls * HDI_FARE);
        }
        EXPECT(!hdi_credit_pay(&task.credit.ops, hdi_word_fare(HDI_METERED)));
        EXPECT_EQ(task.credit.ops, -(calls + 1) * HDI_FARE); /* Who called puts it back. */
    }
}

/* Only who is METERED, and nothing else, goes on after a payment: however much credit there is, and
 * whatever else is in the word. */
TEST(a_payment_is_not_all_that_a_word_may_ask_for)
{
    const uint64_t others = HDI_CANCELLED | HDI_IN_CANCELLED | HDI_GIVE_WAY;
    const uint64_t rest = ~HDI_ATTENTION;
    static const int32_t credits[] = {-4, 0, 1, 2, 2 * HDI_CREDIT_MAX - 1};
    EXPECT_EQ(hdi_word_fare(rest), 0);
    EXPECT_EQ(hdi_word_fare(rest | HDI_METERED), HDI_FARE);
    for (uint64_t flags = others; flags > 0; flags = (flags - 1) & others) {
        for (int i = 0; i < 5; i++) {
            struct hd_task task = {.credit = {credits[i] * HDI_FARE, credits[i] * HDI_FARE}};
            const int32_t fare = hdi_word_fare(rest | HDI_METERED | flags);
            EXPECT(!hdi_credit_pay(&task.credit.ops, fare));
            EXPECT(!hdi_credit_pay(&task.credit.channel, hdi_word_fare(flags)));
            EXPECT(!hdi_credit_pay_ops(&task, HDI_METERED | flags, 0));
            EXPECT_EQ(task.credit.ops + fare, credits[i] * HDI_FARE);
        }
    }
}

/* ---- spawns ---- */

static int64_t spawns_given(const struct hdi_pool *pool)
{
    const struct hdi_line *line = &pool->lines[HD_SPAWN_COUNT];
    return line->remaining + line->granted + line->consumed;
}

/* Nurseries hold slices; of the last units there is none that somebody cannot have. */
TEST(spawns_end_exactly_at_the_limit)
{
    enum { NURSERIES = 7, LIMIT = 1000 };
    struct hdi_pool *pool = new_pool(NULL, LIMIT);
    static struct hdi_nursery nurseries[NURSERIES];
    int64_t taken = 0, dry = 0;
    for (unsigned i = 0; dry < NURSERIES; i++) {
        struct hdi_nursery *n = &nurseries[i % 3 ? 0 : i % NURSERIES];
        struct hdi_draw one = {.resource = HD_SPAWN_COUNT, .need = 1, .ticket = HDI_NO_TICKET};
        const bool took = hdi_spawns_take(&n->spawns, pool) || hdi_pool_draw(pool, &one) == 1;
        taken += took;
        dry += !took;
        EXPECT_EQ(spawns_given(pool), LIMIT); /* POOL-1 */
    }
    EXPECT_EQ(taken, LIMIT);
    EXPECT_EQ(hdi_pool_remaining(pool, HD_SPAWN_COUNT), 0);
    EXPECT_EQ(pool->lines[HD_SPAWN_COUNT].consumed, LIMIT);
    EXPECT_EQ(pool->lines[HD_SPAWN_COUNT].granted, 0);
    EXPECT_EQ(pool->lines[HD_SPAWN_COUNT].sharers, 0);
    hdi_pool_unref(pool);
}

TEST(a_nursery_gives_back_the_spawns_it_did_not_use)
{
    struct hdi_pool *pool = new_pool(NULL, 1000);
    static struct hdi_nursery n;
    EXPECT(hdi_spawns_take(&n.spawns, pool));
    EXPECT_EQ(n.spawns.held, 256);
    EXPECT_EQ(pool->lines[HD_SPAWN_COUNT].granted, 256);
    EXPECT(hdi_spawns_take(&n.spawns, pool));
    hdi_spawns_end(&n.spawns);
    hdi_spawns_end(&n.spawns);
    EXPECT_EQ(pool->lines[HD_SPAWN_COUNT].consumed, 2);
    EXPECT_EQ(pool->lines[HD_SPAWN_COUNT].remaining, 998);
    EXPECT_EQ(pool->lines[HD_SPAWN_COUNT].granted, 0);
    hdi_pool_unref(pool);
}

/* Who wants to grant, remove or look at what nurseries hold gets it. */
TEST(what_nurseries_hold_is_taken_back_for_others)
{
    struct hdi_pool *pool = new_pool(NULL, 100);
    static struct hdi_nursery a, b;
    EXPECT(hdi_spawns_take(&a.spawns, pool) && hdi_spawns_take(&b.spawns, pool));
    EXPECT(!hdi_pool_grant(pool, HD_SPAWN_COUNT, 99));
    EXPECT(hdi_pool_grant(pool, HD_SPAWN_COUNT, 98));
    hdi_pool_ungrant(pool, HD_SPAWN_COUNT, 98);
    EXPECT(hdi_spawns_take(&a.spawns, pool));
    EXPECT(hdi_pool_remove(pool, HD_SPAWN_COUNT, 97));
    EXPECT(!hdi_spawns_take(&a.spawns, pool) && !hdi_spawns_take(&b.spawns, pool));
    EXPECT_EQ(pool->lines[HD_SPAWN_COUNT].given, 3);
    EXPECT_EQ(pool->lines[HD_SPAWN_COUNT].consumed, 3);
    hdi_pool_unref(pool);
}

/* What a task holds is not taken while it is at it, in any of the nurseries it has opened. */
TEST(what_a_task_holds_is_taken_back_with_its_locks)
{
    struct hdi_pool *pool = new_pool(NULL, 100);
    static struct hdi_nursery outer, inner;
    static struct hdi_scope plain;
    static struct hd_task task;
    struct hdi_spawns spawns = {.task = &task};
    outer.scope.kind = inner.scope.kind = HDI_SCOPE_NURSERY;
    plain.up = &outer.scope;
    inner.scope.up = &plain;
    task.scope = &inner.scope;
    EXPECT(hdi_spawns_take(&spawns, pool));
    struct hdi_lock *const locks[] = {&task.scopes, &inner.scope.base.lock, &outer.scope.base.lock};
    for (int i = 0; i < 3; i++) {
        hdi_lock_take(locks[i]);
        EXPECT_EQ(hdi_spawns_collect(pool), false);
        EXPECT_EQ(spawns.held, 50);
        hdi_lock_give(locks[i]);
        for (int j = 0; j < 3; j++) { /* All were given back. */
            EXPECT(hdi_lock_try(locks[j]));
            hdi_lock_give(locks[j]);
        }
    }
    hdi_lock_take(&plain.base.lock); /* Nothing is spawned into it. */
    EXPECT_EQ(hdi_spawns_collect(pool), true);
    EXPECT_EQ(spawns.held, 0);
    EXPECT_EQ(pool->lines[HD_SPAWN_COUNT].remaining, 99);
    hdi_pool_unref(pool);
}

/* ---- accounts ---- */

static struct hdi_account *own(void)
{
    return hdi_account_of(hdi_task_self());
}

/* ACCOUNT-1, and all that the pool has granted is in the only account. */
static void expect_held(struct hdi_pool *pool, unsigned resource)
{
    const struct hd_task *task = hdi_task_self();
    const int64_t slice = hdi_account_slice(task, resource);
    EXPECT(slice >= 0 && slice <= own()->held[resource]);
    EXPECT_EQ(pool->lines[resource].granted, own()->held[resource]);
}

static int few_calls(void *arg)
{
    struct hdi_pool *pool = arg;
    struct hdi_line *line = &pool->lines[HD_OPS];
    EXPECT(!hdi_task_extras(hdi_task_self()));
    for (int calls = 1; calls <= 4; calls++) {
        EXPECT_EQ(hd_checkpoint(10), 0);
        EXPECT(!hdi_task_extras(hdi_task_self()));
        EXPECT_EQ(line->consumed, 10 * calls);
        EXPECT_EQ(line->granted, 0);
    }
    EXPECT_EQ(hd_checkpoint(10), 0);
    EXPECT(own());
    EXPECT_EQ(line->sharers, 1);
    expect_held(pool, HD_OPS);
    return 0;
}

/* While a slice lasts the pool is not asked. */
static int many_calls(void *arg)
{
    struct hdi_pool *pool = arg;
    struct hdi_line *line = &pool->lines[HD_OPS];
    int64_t draws = 0, before = 0;
    for (int i = 0; i < 100000; i++) {
        EXPECT_EQ(hd_checkpoint(1), 0);
        draws += line->remaining != before;
        before = line->remaining;
        if (own()) expect_held(pool, HD_OPS);
    }
    EXPECT(draws < 4 + 100000 / 1000);
    EXPECT(!own()->joined[HD_CHANNEL_OPS]); /* It made no such call. */
    return 0;
}

/* What others say of it, its account says too. */
static int look_inside(void *arg)
{
    struct hdi_pool *pool = arg;
    const int64_t before = hd_budget_left().ops;
    for (int i = 0; i < 1000; i++) {
        EXPECT_EQ(hd_checkpoint(3), 0);
        EXPECT_EQ(hd_budget_left().ops, before - 3 * (i + 1));
        if (i % 100 == 0) {
            hdi_account_tell();
            if (own()) EXPECT_EQ(own()->held[HD_OPS], hdi_account_slice(hdi_task_self(), HD_OPS));
            if (own()) expect_held(pool, HD_OPS);
        }
    }
    return 0;
}

static void run_child(hd_fn *fn)
{
    const hd_budget budget = {.ops = 1000000, .channel_ops = 1000};
    hd_nursery nursery;
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    options.budget = &budget;
    EXPECT_EQ(hd_nursery_open(&nursery, &options), 0);
    struct hdi_pool *pool = hdi_nursery_of(&nursery)->own_pool;
    EXPECT_EQ(hd_go(&nursery, fn, pool), 0);
    EXPECT_EQ(hd_nursery_wait(&nursery), 0);
    EXPECT_EQ(pool->lines[HD_OPS].granted, 0);
    EXPECT_EQ(pool->lines[HD_OPS].sharers, 0);
    EXPECT_EQ(pool->lines[HD_CHANNEL_OPS].sharers, 0);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
}

static int run_children(void *arg)
{
    (void)arg;
    run_child(few_calls);
    run_child(many_calls);
    run_child(look_inside);
    return 0;
}

TEST_WORLDS(an_account_and_its_pool_agree, options) { rt_run(run_children, NULL, options); }

/* ---- who shares a pool ---- */

/* A nursery has a pool of its own only if it needs one. */
static int share(void *arg)
{
    hd_nursery *outer = arg;
    struct hdi_pool *around = hdi_nursery_of(outer)->pool;
    const hd_budget same = {.ops = 1000}, less = {.ops = 5}, more = {.ops = 50};
    const struct {
        const hd_budget *budget, *per_task;
        bool own;
    } cases[] = {{NULL, NULL, false}, {NULL, &more, false}, {NULL, &less, true},
                 {&same, NULL, true}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hd_nursery inner;
        hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
        options.budget = cases[i].budget;
        options.per_task = cases[i].per_task;
        EXPECT_EQ(hd_nursery_open(&inner, &options), 0);
        const struct hdi_nursery *nursery = hdi_nursery_of(&inner);
        EXPECT_EQ(nursery->own_pool != NULL, cases[i].own);
        EXPECT_EQ(nursery->pool == around, !cases[i].own);
        EXPECT_EQ(nursery->pool->per_task[HD_OPS], cases[i].per_task == &less ? 5 : 20);
        EXPECT(nursery->pool->source[HD_MEMORY] == around);
        EXPECT_EQ(hd_nursery_leave(&inner), 0);
    }
    return 0;
}

static int share_pools(void *arg)
{
    (void)arg;
    const hd_budget budget = {.memory = 1000, .ops = 100000}, limit = {.ops = 20};
    hd_nursery outer;
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    options.budget = &budget;
    options.per_task = &limit;
    EXPECT_EQ(hd_nursery_open(&outer, &options), 0);
    EXPECT_EQ(hd_go(&outer, share, &outer), 0);
    EXPECT_EQ(hd_nursery_leave(&outer), 0);
    return 0;
}

TEST_WORLDS(a_nursery_shares_the_pool_around, options) { rt_run(share_pools, NULL, options); }

/* ---- spawns of a task into nurseries that it opens ---- */

static int ends(void *arg)
{
    (void)arg;
    return 0;
}

/* The slice stays from one nursery to the next, and who looks sees what was used of it. */
static int opens_many(void *arg)
{
    const struct hdi_pool *pool = arg;
    const struct hdi_line *line = &pool->lines[HD_SPAWN_COUNT];
    for (int i = 0; i < 5; i++) EXPECT_EQ(hd_checkpoint(1), 0); /* It has an account now. */
    for (int i = 1; i <= 3; i++) {
        hd_nursery inner;
        EXPECT_EQ(hd_nursery_open(&inner, NULL), 0);
        EXPECT_EQ(hd_go(&inner, ends, NULL), 0);
        EXPECT(!hdi_nursery_of(&inner)->spawns.pool);
        EXPECT_EQ(hd_nursery_leave(&inner), 0);
        EXPECT_EQ(own()->spawns.held, 256);
        EXPECT_EQ(own()->spawns.left, 256 - i);
        EXPECT_EQ(line->granted, 256);
        EXPECT_EQ(line->consumed, 0);
    }
    EXPECT_EQ(hd_budget_left().spawn_count, 997);
    EXPECT_EQ(own()->spawns.held, 0);
    EXPECT_EQ(line->consumed, 3);
    EXPECT_EQ(line->granted, 0);
    hd_nursery last;
    EXPECT_EQ(hd_nursery_open(&last, NULL), 0);
    EXPECT_EQ(hd_go(&last, ends, NULL), 0);
    EXPECT_EQ(hd_nursery_leave(&last), 0);
    EXPECT_EQ(own()->spawns.left, 255);
    return 0;
}

static int give_spawns(void *arg)
{
    (void)arg;
    const hd_budget budget = {.spawn_count = 1000, .ops = 100000};
    hd_nursery outer;
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    options.budget = &budget;
    EXPECT_EQ(hd_nursery_open(&outer, &options), 0);
    struct hdi_pool *pool = hdi_nursery_of(&outer)->own_pool;
    EXPECT_EQ(hd_go(&outer, opens_many, pool), 0);
    EXPECT_EQ(hd_nursery_wait(&outer), 0);
    EXPECT_EQ(pool->lines[HD_SPAWN_COUNT].consumed, 4); /* It ended, and gave back the rest. */
    EXPECT_EQ(pool->lines[HD_SPAWN_COUNT].remaining, 996);
    EXPECT_EQ(hd_nursery_leave(&outer), 0);
    return 0;
}

/* In sim nothing is held in advance. */
TEST(a_task_keeps_its_slice_of_spawns)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    rt_run(give_spawns, NULL, &options);
}
