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

/* Whatever a call costs, it takes no more than there is, and nothing of one half from the other. */
TEST(credit_is_paid_in_full_or_not_at_all)
{
    static const uint32_t costs[] = {0, 1, 2, 7, HDI_CREDIT_MAX - 1, HDI_CREDIT_MAX};
    static const uint32_t halves[] = {0, 1, 2, 6, 7, HDI_CREDIT_MAX - 1, HDI_CREDIT_MAX};
    struct hd_task task = {.word = 0};
    for (int i = 0; i < 7 * 7 * 7; i++) {
        const uint32_t ops = halves[i % 7], channel_ops = halves[i / 7 % 7], k = (uint32_t)i / 49;
        const bool channel = k == 6;
        const uint32_t cost = channel ? 1 : costs[k];
        const bool enough = cost <= ops && (!channel || channel_ops > 0);
        task.credit = channel_ops * HDI_CREDIT_CHANNEL + ops;
        const uint32_t before = task.credit;
        const uint32_t price = channel ? HDI_CREDIT_CHANNEL + 1 : cost;
        EXPECT_EQ(hdi_credit_pay(&task, HDI_METERED, price), enough);
        EXPECT_EQ(task.credit, enough ? before - price : before);
        EXPECT(!hdi_credit_pay(&task, HDI_METERED | HDI_GIVE_WAY, price));
        EXPECT(!hdi_credit_pay(&task, HDI_METERED | HDI_CANCELLED, price));
    }
}

/* The credit of a task that has none yet pays for nothing. */
TEST(no_credit_is_not_taken_for_some)
{
    struct hd_task task = {.word = 0};
    for (uint32_t calls = 0; calls <= 4; calls++) {
        const uint32_t none = calls ? HDI_CREDIT_OVER | calls : 0;
        for (uint32_t cost = 1; cost <= HDI_CREDIT_MAX; cost++) {
            task.credit = none;
            EXPECT(!hdi_credit_pay(&task, HDI_METERED, cost));
        }
        task.credit = none;
        EXPECT(!hdi_credit_pay(&task, HDI_METERED, HDI_CREDIT_CHANNEL + 1));
    }
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
