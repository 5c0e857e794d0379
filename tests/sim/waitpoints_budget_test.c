/* SPDX-License-Identifier: MIT
 *
 * A cancel at every wait of a task that draws from a budget.
 */
#include "waitpoints.h"

#include "budgets.h"

TEST_MAIN

static void spawn_victim(hd_nursery *nursery, hd_fn *fn, void *arg)
{
    wp_register_(budgets_spawn(nursery, fn, arg));
}

static const hd_nursery_options waits = {.exhausted = HD_EXHAUSTED_WAIT};
static const hd_budget ten = {.ops = 10};

/* Who recharges, bit by bit, until nobody waits. */
static int recharge(void *arg)
{
    hd_nursery *nursery = arg;
    const hd_budget two = {.ops = 2};
    while (hd_nursery_look(nursery).live > 0) {
        if (budgets_look(nursery).waiting) EXPECT_EQ(hd_budget_recharge(nursery, &two), 0);
        hd_yield();
    }
    return 0;
}

WAITPOINTS(a_draw_that_waits_for_a_recharge)
{
    int64_t ops = 15;
    hd_nursery nursery;
    budgets_open(&nursery, &ten, &waits);
    spawn_victim(&nursery, budgets_compute_some, &ops);
    hd_task *others[2] = {budgets_spawn(&nursery, budgets_compute_some, &ops),
                          budgets_spawn(&nursery, budgets_compute_some, &ops)};
    hd_task *giver = rt_spawn(NULL, recharge, &nursery);
    const int err = wp_join();
    for (int i = 0; i < 2; i++) EXPECT_EQ(rt_join(others[i]), 0);
    EXPECT_EQ(rt_join(giver), 0);
    const hd_budget_info info = budgets_look(&nursery);
    EXPECT_EQ(info.granted.ops, 0);
    EXPECT_EQ(info.waiting, 0);
    EXPECT(err ? info.consumed.ops <= 45 : info.consumed.ops == 45);
    EXPECT_EQ(hd_nursery_leave(&nursery), err);
}

/* The victim may be the one who watches the time. */
WAITPOINTS(a_draw_that_waits_for_a_refill)
{
    const hd_budget three = {.ops = 3};
    const hd_nursery_options how = {
        .exhausted = HD_EXHAUSTED_WAIT, .refill = &three, .refill_ns = 1000};
    int64_t ops = 12;
    hd_nursery nursery;
    budgets_open(&nursery, &ten, &how);
    spawn_victim(&nursery, budgets_compute_some, &ops);
    hd_task *others[2] = {budgets_spawn(&nursery, budgets_compute_some, &ops),
                          budgets_spawn(&nursery, budgets_compute_some, &ops)};
    const int err = wp_join();
    for (int i = 0; i < 2; i++) EXPECT_EQ(rt_join(others[i]), 0);
    EXPECT_EQ(budgets_look(&nursery).granted.ops, 0);
    EXPECT_EQ(hd_nursery_leave(&nursery), err);
}

/* Memory: what the cancelled one did not get, others do. */
static int allocate(void *arg)
{
    return hd_alloc(60, arg);
}

static int allocate_and_free(void *arg)
{
    void *block;
    const int err = hd_alloc(60, &block);
    (void)arg;
    hd_yield();
    if (!err) hd_free(block);
    return err;
}

WAITPOINTS(a_block_that_is_waited_for)
{
    const hd_budget hundred = {.memory = 100};
    void *block = NULL, *held;
    hd_nursery nursery;
    budgets_open(&nursery, &hundred, &waits);
    EXPECT_EQ(budgets_run(&nursery, allocate, &held), 0);
    spawn_victim(&nursery, allocate, &block);
    hd_task *other = budgets_spawn(&nursery, allocate_and_free, NULL);
    while (budgets_look(&nursery).waiting == 0) hd_yield();
    hd_free(held);
    const int err = wp_join();
    if (!err) hd_free(block);
    EXPECT_EQ(rt_join(other), 0);
    EXPECT_EQ(budgets_look(&nursery).remaining.memory, 100);
    EXPECT_EQ(hd_nursery_leave(&nursery), err);
}
