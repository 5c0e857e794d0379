/* SPDX-License-Identifier: MIT
 *
 * Budgets: what each resource counts, the limits of a task, and memory.
 */
#include "budgets.h"

TEST_MAIN

TEST(resources_have_names)
{
    EXPECT(strcmp(hd_resource_name(HD_OPS), "ops") == 0);
    EXPECT(strcmp(hd_resource_name(HD_MEMORY), "memory") == 0);
    EXPECT(strcmp(hd_resource_name(HD_SPAWN_COUNT), "spawn_count") == 0);
    EXPECT(strcmp(hd_resource_name(HD_CHANNEL_OPS), "channel_ops") == 0);
    EXPECT(strcmp(hd_resource_name(HD_SYSCALLS), "syscalls") == 0);
}

/* ---- each resource ends exactly at its limit ---- */

enum { BLOCK = 10, BLOCKS_MAX = 100 };

/* A task that makes a call until it may no more. */
struct user {
    int (*call)(struct user *user);
    int64_t done;
    hd_chan *chan;
    hd_nursery *inner;
    void *blocks[BLOCKS_MAX];
};

static int checkpoint(struct user *user)
{
    (void)user;
    return hd_checkpoint(1);
}

static int compute_7(struct user *user)
{
    (void)user;
    return hd_checkpoint(7);
}

static int compute_32767(struct user *user)
{
    (void)user;
    return hd_checkpoint(32767);
}

static int compute_much(struct user *user)
{
    (void)user;
    return hd_checkpoint(UINT32_MAX);
}

static int sleep_in_the_past(struct user *user)
{
    (void)user;
    return hd_sleep_until(1);
}

static int send(struct user *user)
{
    const int item = 1;
    return hd_chan_send(user->chan, &item);
}

static int receive_try(struct user *user)
{
    int item;
    const int err = hd_chan_recv_try(user->chan, &item);
    return err == -EAGAIN ? 0 : err;
}

static int block(struct user *user)
{
    (void)user;
    return hd_blocking(budgets_idle, NULL, NULL);
}

static int spawn(struct user *user)
{
    return hd_go(user->inner, budgets_idle, NULL);
}

static int allocate(struct user *user)
{
    EXPECT(user->done < BLOCKS_MAX);
    return hd_alloc(BLOCK, &user->blocks[user->done]);
}

static int use_up(void *arg)
{
    struct user *user = arg;
    int err = 0;
    HD_NURSERY(inner) {
        user->inner = inner;
        while ((err = user->call(user)) == 0) user->done++;
        EXPECT_EQ(user->call(user), err); /* It stays so. */
    }
    return err;
}

static void free_all(struct user *user)
{
    while (user->done > 0) hd_free(user->blocks[--user->done]);
}

static const struct {
    int (*call)(struct user *user);
    hd_budget budget;
    int64_t times;
} uses[] = {
    {checkpoint, {.ops = 100}, 100},
    {checkpoint, {.ops = 5000}, 5000},
    {checkpoint, {.ops = HD_NOTHING}, 0},
    {compute_7, {.ops = 7000}, 1000},
    {compute_7, {.ops = 10}, 1},
    {compute_32767, {.ops = 20 * 32767}, 20},
    {compute_much, {.ops = INT64_C(20) * UINT32_MAX}, 20},
    {sleep_in_the_past, {.ops = 100}, 100},
    {send, {.channel_ops = 100}, 100},
    {send, {.channel_ops = 100, .ops = 50}, 50},
    {send, {.channel_ops = 1000}, 1000},
    {receive_try, {.channel_ops = 100}, 100},
    {block, {.syscalls = 20}, 20},
    {block, {.syscalls = 20, .ops = 7}, 7},
    {block, {.syscalls = HD_NOTHING}, 0},
    {spawn, {.spawn_count = 100}, 100},
    {spawn, {.spawn_count = 100, .ops = 30}, 30},
    {allocate, {.memory = 10 * BLOCK}, 10},
    {allocate, {.memory = 10 * BLOCK + BLOCK - 1}, 10},
    {allocate, {.memory = 10 * BLOCK, .ops = 7}, 7},
};
enum { USES = sizeof(uses) / sizeof(uses[0]) };

static int use_pools(void *arg)
{
    (void)arg;
    for (int i = 0; i < USES; i++) {
        struct user user = {.call = uses[i].call, .chan = hd_chan_create(sizeof(int), 2000)};
        hd_nursery nursery;
        budgets_open(&nursery, &uses[i].budget, NULL);
        EXPECT_EQ(budgets_run(&nursery, use_up, &user), -EDQUOT);
        EXPECT_EQ(user.done, uses[i].times);
        EXPECT_EQ(budgets_run(&nursery, use_up, &user), -EDQUOT); /* Not enough is left. */
        EXPECT_EQ(user.done, uses[i].times);
        (void)budgets_look(&nursery);
        EXPECT_EQ(hd_nursery_leave(&nursery), -EDQUOT);
        if (user.call == allocate) free_all(&user);
        hd_chan_destroy(user.chan);
    }
    return 0;
}

TEST_WORLDS(a_lone_task_can_use_all_of_a_pool_and_no_more, options)
{
    rt_run(use_pools, NULL, options);
}

static int use_limits(void *arg)
{
    (void)arg;
    for (int i = 0; i < USES; i++) {
        struct user user = {.call = uses[i].call, .chan = hd_chan_create(sizeof(int), 10000)};
        hd_nursery nursery;
        const hd_nursery_options how = {.per_task = &uses[i].budget};
        budgets_open(&nursery, NULL, &how);
        for (int64_t times = 1; times <= 3; times++) { /* to each task its own */
            EXPECT_EQ(budgets_run(&nursery, use_up, &user), -EDQUOT);
            EXPECT_EQ(user.done, times * uses[i].times);
        }
        hd_budget_info info;
        EXPECT_EQ(hd_budget_look(&nursery, &info), -ENOENT);
        EXPECT_EQ(hd_nursery_leave(&nursery), -EDQUOT);
        if (user.call == allocate) free_all(&user);
        hd_chan_destroy(user.chan);
    }
    return 0;
}

TEST_WORLDS(a_task_can_use_what_one_task_may_and_no_more, options)
{
    rt_run(use_limits, NULL, options);
}

/* The same limit, where there is a pool of more. */
static int use_both(void *arg)
{
    (void)arg;
    for (int i = 0; i < USES; i++) {
        const int64_t all = uses[i].times + uses[i].times / 2;
        struct user user = {.call = uses[i].call, .chan = hd_chan_create(sizeof(int), 10000)};
        hd_budget budget = uses[i].budget;
        int64_t *amounts = &budget.ops;
        for (int r = 0; r < HD_RESOURCES; r++) {
            if (amounts[r] > 0) amounts[r] += amounts[r] / 2;
        }
        hd_nursery nursery;
        const hd_nursery_options how = {.per_task = &uses[i].budget};
        budgets_open(&nursery, &budget, &how);
        EXPECT_EQ(budgets_run(&nursery, use_up, &user), -EDQUOT);
        EXPECT_EQ(user.done, uses[i].times);
        EXPECT_EQ(budgets_run(&nursery, use_up, &user), -EDQUOT);
        EXPECT(user.done == all || user.call == allocate || user.call == compute_7); /* rounded */
        (void)budgets_look(&nursery);
        EXPECT_EQ(hd_nursery_leave(&nursery), -EDQUOT);
        if (user.call == allocate) free_all(&user);
        hd_chan_destroy(user.chan);
    }
    return 0;
}

TEST_WORLDS(the_narrower_of_pool_and_limit_counts, options) { rt_run(use_both, NULL, options); }

/* ---- what is not charged ---- */

static int free_of_charge(void *arg)
{
    hd_nursery *nursery = arg;
    void *block = NULL;
    EXPECT_EQ(hd_checkpoint(10), 0);
    EXPECT_EQ(hd_checkpoint(1), -EDQUOT);
    EXPECT_EQ(hd_checkpoint(0), 0);
    hd_yield();
    hd_free(block);
    EXPECT_EQ(budgets_look(nursery).consumed.ops, 10);
    EXPECT_EQ(hd_budget_left().ops, 0);
    const hd_budget more = {.ops = 3};
    EXPECT_EQ(hd_budget_recharge(nursery, &more), 0);
    EXPECT_EQ(hd_budget_left().ops, 3);
    EXPECT_EQ(hd_checkpoint(4), -EDQUOT); /* all or nothing */
    EXPECT_EQ(hd_checkpoint(3), 0);
    return 0;
}

static int recharge_oneself(void *arg)
{
    (void)arg;
    const hd_budget budget = {.ops = 10};
    hd_nursery nursery;
    budgets_open(&nursery, &budget, NULL);
    EXPECT_EQ(budgets_run(&nursery, free_of_charge, &nursery), 0);
    EXPECT_EQ(budgets_look(&nursery).given.ops, 13);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    EXPECT_EQ(hd_checkpoint(1000), 0); /* The body of a nursery is not a task of it. */
    return 0;
}

TEST_WORLDS(looking_and_recharging_cost_nothing, options)
{
    rt_run(recharge_oneself, NULL, options);
}

static int spawn_too_late(void *arg)
{
    hd_nursery *closed = arg;
    const hd_budget before = hd_budget_left();
    EXPECT_EQ(hd_go(closed, budgets_idle, NULL), -EPIPE);
    EXPECT_EQ(hd_budget_left().spawn_count, before.spawn_count);
    return 0;
}

static int give_spawn_back(void *arg)
{
    (void)arg;
    const hd_budget budget = {.spawn_count = 5}, limit = {.spawn_count = 3};
    const hd_nursery_options hows[] = {{.size = 0}, {.per_task = &limit}};
    for (int i = 0; i < 4; i++) {
        hd_nursery nursery;
        if (i == 0) continue;
        budgets_open(&nursery, i & 1 ? &budget : NULL, &hows[i / 2]);
        hd_task *task = budgets_spawn(&nursery, spawn_too_late, &nursery);
        hd_nursery_close(&nursery);
        EXPECT_EQ(rt_join(task), 0);
        if (i & 1) EXPECT_EQ(budgets_look(&nursery).consumed.spawn_count, 0);
        EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    }
    return 0;
}

TEST_WORLDS(a_spawn_that_fails_is_not_counted, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(give_spawn_back, NULL, &one);
}

/* ---- what is left ---- */

static int look_at_left(void *arg)
{
    (void)arg;
    void *block;
    hd_budget left = hd_budget_left();
    EXPECT_EQ(left.ops, 100);
    EXPECT_EQ(left.memory, 1000);
    EXPECT_EQ(left.spawn_count, 7);
    EXPECT_EQ(left.channel_ops, 10);
    EXPECT_EQ(left.syscalls, HD_UNLIMITED);
    EXPECT_EQ(hd_checkpoint(30), 0);
    EXPECT_EQ(hd_alloc(600, &block), 0); /* costs an op too */
    left = hd_budget_left();
    EXPECT_EQ(left.ops, 69);
    EXPECT_EQ(left.memory, 400);
    EXPECT_EQ(left.channel_ops, 10);
    hd_free(block);
    EXPECT_EQ(hd_budget_left().memory, 1000);
    return 0;
}

static int left(void *arg)
{
    (void)arg;
    const hd_budget budget = {.ops = 100, .memory = 1500, .spawn_count = 7};
    const hd_budget limit = {.ops = 200, .memory = 1000, .channel_ops = 10};
    const hd_nursery_options how = {.per_task = &limit};
    hd_nursery nursery;
    EXPECT_EQ(hd_budget_left().ops, HD_UNLIMITED);
    budgets_open(&nursery, &budget, &how);
    EXPECT_EQ(budgets_run(&nursery, look_at_left, NULL), 0);
    const hd_budget_info info = budgets_look(&nursery);
    EXPECT_EQ(info.consumed.ops, 31);
    EXPECT_EQ(info.remaining.ops, 69);
    EXPECT_EQ(info.remaining.memory, 1500);
    EXPECT_EQ(info.given.channel_ops, HD_UNLIMITED);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    return 0;
}

TEST_WORLDS(a_task_knows_what_is_left, options) { rt_run(left, NULL, options); }

/* ---- many items by one call ---- */

enum { MANY = 300, MANY_MAX = 1000 };

static int move_many(void *arg)
{
    hd_chan *chan = arg;
    static int items[MANY];
    const int64_t before = hd_budget_left().channel_ops;
    EXPECT_EQ(hd_chan_send_many(chan, items, MANY), MANY);
    EXPECT_EQ(hd_budget_left().channel_ops, before - MANY);
    EXPECT_EQ(hd_chan_recv_many(chan, items, MANY), MANY);
    EXPECT_EQ(hd_budget_left().channel_ops, before - 2 * MANY);
    EXPECT_EQ(hd_chan_send_many(chan, items, MANY), MANY);
    EXPECT_EQ(hd_chan_recv_many(chan, items, 50), 50);
    EXPECT_EQ(hd_chan_recv_many(chan, items, MANY), MANY_MAX - 3 * MANY - 50); /* no more */
    EXPECT_EQ(hd_chan_send_many(chan, items, 1), -EDQUOT);
    EXPECT_EQ(hd_chan_recv_many(chan, items, 1), -EDQUOT);
    return 0;
}

static int pay_by_the_item(void *arg)
{
    (void)arg;
    hd_chan *chan = hd_chan_create(sizeof(int), MANY);
    const hd_budget budget = {.channel_ops = MANY_MAX};
    HD_NURSERY(n, .budget = &budget) {
        EXPECT_EQ(hd_go(n, move_many, chan), 0);
    }
    EXPECT_EQ(hd_nursery_result(), 0);
    EXPECT_EQ(hd_chan_count(chan), 4 * MANY - MANY_MAX);
    hd_chan_destroy(chan);
    return 0;
}

TEST_WORLDS(every_item_of_many_is_paid_for, options) { rt_run(pay_by_the_item, NULL, options); }

TEST(a_thread_has_no_limit)
{
    const hd_budget left_here = hd_budget_left();
    EXPECT_EQ(left_here.ops, HD_UNLIMITED);
    EXPECT_EQ(left_here.syscalls, HD_UNLIMITED);
    EXPECT_EQ(hd_checkpoint(1000000), 0);
}

/* ---- refunds ---- */

/* Tasks that hold slices are alive together; what they do not use goes back. */
static int hold_slice(void *arg)
{
    atomic_int *gate = arg;
    EXPECT_EQ(hd_checkpoint(1), 0);
    rt_until(gate);
    return 0;
}

static int refund(void *arg)
{
    (void)arg;
    enum { TASKS = 50 };
    const hd_budget budget = {.channel_ops = 1000, .ops = 1000000};
    hd_nursery nursery;
    hd_task *tasks[TASKS];
    atomic_int gate = 0;
    budgets_open(&nursery, &budget, NULL);
    for (int i = 0; i < TASKS; i++) tasks[i] = budgets_spawn(&nursery, hold_slice, &gate);
    while (budgets_look(&nursery).granted.ops == 0) hd_yield();
    atomic_store(&gate, 1);
    for (int i = 0; i < TASKS; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    const hd_budget_info info = budgets_look(&nursery);
    EXPECT_EQ(info.granted.ops, 0);
    EXPECT(info.consumed.ops >= TASKS);
    EXPECT_EQ(info.remaining.ops, 1000000 - info.consumed.ops);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    return 0;
}

TEST_WORLDS(what_a_task_did_not_use_goes_back, options) { rt_run(refund, NULL, options); }

/* Nobody makes a call: nobody draws. */
static int draw_nothing(void *arg)
{
    (void)arg;
    const hd_budget budget = {.ops = 10};
    hd_nursery nursery;
    budgets_open(&nursery, &budget, NULL);
    for (int i = 0; i < 100; i++) EXPECT_EQ(hd_go(&nursery, budgets_idle, NULL), 0);
    EXPECT_EQ(hd_nursery_wait(&nursery), 0);
    EXPECT_EQ(budgets_look(&nursery).remaining.ops, 10);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    return 0;
}

TEST_WORLDS(a_task_that_makes_no_call_costs_nothing, options)
{
    rt_run(draw_nothing, NULL, options);
}

/* ---- memory ---- */

TEST(memory_outside_tasks_is_just_memory)
{
    void *memory[3];
    EXPECT_EQ(hd_alloc(0, &memory[0]), 0);
    EXPECT_EQ(hd_alloc(1, &memory[1]), 0);
    EXPECT_EQ(hd_alloc(1 << 20, &memory[2]), 0);
    for (int i = 0; i < 3; i++) EXPECT_EQ((uintptr_t)memory[i] % 16, 0);
    memset(memory[2], 1, 1 << 20);
    for (int i = 0; i < 3; i++) hd_free(memory[i]);
    hd_free(NULL);
    void *untouched = &memory;
    EXPECT_EQ(hd_alloc(SIZE_MAX, &untouched), -ENOMEM);
    EXPECT_EQ(hd_alloc(SIZE_MAX - 8, &untouched), -ENOMEM);
    EXPECT_EQ(hd_alloc(PTRDIFF_MAX, &untouched), -ENOMEM);
    EXPECT(untouched == &memory);
}

struct blocks {
    void *first, *second;
};

static int allocate_two(void *arg)
{
    struct blocks *blocks = arg;
    void *untouched = blocks;
    EXPECT_EQ(hd_alloc(600, &blocks->first), 0);
    EXPECT_EQ(hd_alloc(400, &blocks->second), 0);
    EXPECT_EQ(hd_alloc(1, &untouched), -EDQUOT);
    EXPECT(untouched == blocks);
    EXPECT_EQ(hd_alloc(0, &untouched), 0);
    hd_free(untouched);
    EXPECT_EQ(hd_alloc(SIZE_MAX, &untouched), -ENOMEM);
    return 0;
}

/* Memory stays consumed after its task, and its nursery, until it is freed: by whoever. */
static int outlive(void *arg)
{
    (void)arg;
    const hd_budget budget = {.memory = 1000};
    struct blocks blocks;
    hd_nursery outer, inner;
    budgets_open(&outer, &budget, NULL);
    EXPECT_EQ(budgets_run(&outer, allocate_two, &blocks), 0);
    EXPECT_EQ(budgets_look(&outer).consumed.memory, 1000);
    hd_free(blocks.first);
    EXPECT_EQ(budgets_look(&outer).consumed.memory, 400);
    EXPECT_EQ(budgets_look(&outer).remaining.memory, 600);
    EXPECT_EQ(hd_nursery_leave(&outer), 0);
    hd_free(blocks.second);
    (void)inner;
    return 0;
}

TEST_WORLDS(memory_is_freed_later_than_its_pool, options) { rt_run(outlive, NULL, options); }

/* The same with a pool inside another: what the inner one's tasks left is the outer one's. */
static int leave_memory(void *arg)
{
    const hd_budget budget = {.memory = 1000};
    hd_nursery inner;
    budgets_open(&inner, &budget, NULL);
    EXPECT_EQ(budgets_run(&inner, allocate_two, arg), 0);
    EXPECT_EQ(hd_nursery_leave(&inner), 0);
    return 0;
}

static int outlive_inside(void *arg)
{
    (void)arg;
    const hd_budget budget = {.memory = 5000};
    struct blocks blocks;
    hd_nursery outer;
    budgets_open(&outer, &budget, NULL);
    EXPECT_EQ(budgets_run(&outer, leave_memory, &blocks), 0);
    EXPECT_EQ(budgets_look(&outer).granted.memory, 0);
    EXPECT_EQ(budgets_look(&outer).consumed.memory, 1000);
    hd_free(blocks.first);
    EXPECT_EQ(budgets_look(&outer).consumed.memory, 400);
    EXPECT_EQ(hd_nursery_leave(&outer), 0);
    hd_free(blocks.second);
    return 0;
}

TEST_WORLDS(what_an_inner_pool_consumed_is_the_outer_ones, options)
{
    rt_run(outlive_inside, NULL, options);
}

/* The limit of a task counts what it has now, whoever frees it. */
static int produce(void *arg)
{
    hd_chan *chan = arg;
    for (int i = 0; i < 100; i++) {
        void *block;
        while (hd_alloc(100, &block) == -EDQUOT) hd_yield();
        EXPECT_EQ(hd_chan_send(chan, &block), 0);
    }
    EXPECT_EQ(hd_chan_close(chan), 0);
    return 0;
}

static int consume(void *arg)
{
    hd_chan *chan = arg;
    void *block;
    int blocks = 0;
    for (; hd_chan_recv(chan, &block) == 0; blocks++) hd_free(block);
    return blocks;
}

static int pass_blocks(void *arg)
{
    (void)arg;
    const hd_budget limit = {.memory = 300};
    const hd_nursery_options how = {.per_task = &limit};
    hd_nursery nursery;
    hd_chan *chan = hd_chan_create(sizeof(void *), 2);
    budgets_open(&nursery, NULL, &how);
    hd_task *consumer = budgets_spawn(&nursery, consume, chan);
    EXPECT_EQ(hd_go(&nursery, produce, chan), 0);
    EXPECT_EQ(rt_join(consumer), 100);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    hd_chan_destroy(chan);
    return 0;
}

TEST_WORLDS(memory_freed_by_another_is_given_back_to_its_task, options)
{
    rt_run(pass_blocks, NULL, options);
}

/* ---- options ---- */

static int64_t no_recharge(hd_resource resource, int64_t missing, uint64_t task, void *arg)
{
    (void)resource, (void)missing, (void)task, (void)arg;
    return 0;
}

static int refuse(void *arg)
{
    (void)arg;
    const hd_budget some = {.ops = 1}, negative = {.memory = -1};
    const hd_nursery_options wrong[] = {
        {.budget = &negative},
        {.per_task = &negative},
        {.budget = &some, .refill = &negative, .refill_ns = 1},
        {.budget = &some, .refill = &some},
        {.budget = &some, .refill = &some, .refill_ns = -1},
        {.budget = &some, .refill_ns = 1},
        {.refill = &some, .refill_ns = 1},
        {.budget = &some, .exhausted = HD_EXHAUSTED_ASK},
        {.budget = &some, .exhausted = (hd_exhausted)99},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        hd_nursery nursery;
        hd_nursery_options options = wrong[i];
        options.size = sizeof(options);
        EXPECT_EQ(hd_nursery_open(&nursery, &options), -EINVAL);
    }
    const hd_nursery_options fine = {
        .exhausted = HD_EXHAUSTED_ASK, .recharge = no_recharge, .refill = &some, .refill_ns = 1};
    hd_nursery nursery, without;
    budgets_open(&nursery, &some, &fine);
    EXPECT_EQ(hd_budget_recharge(&nursery, &negative), -EINVAL);
    EXPECT_EQ(hd_budget_transfer(&nursery, &nursery, &negative), -EINVAL);
    EXPECT_EQ(hd_nursery_open(&without, NULL), 0);
    hd_budget_info info;
    EXPECT_EQ(hd_budget_look(&without, &info), -ENOENT);
    EXPECT_EQ(hd_budget_recharge(&without, &some), -ENOENT);
    EXPECT_EQ(hd_budget_transfer(&nursery, &without, &some), -ENOENT);
    EXPECT_EQ(hd_budget_transfer(&without, &nursery, &some), -ENOENT);
    EXPECT_EQ(hd_nursery_leave(&without), 0);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    return 0;
}

TEST_WORLDS(options_that_make_no_sense_are_refused, options) { rt_run(refuse, NULL, options); }

/* ---- looking in the middle of a spawn ---- */

static int look_and_share(void *parents, void **value)
{
    *value = parents;
    (void)budgets_look(parents);
    return 0;
}

static const hd_local watched = HD_LOCAL(NULL, look_and_share);

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int spawn_to_the_limit(void *nursery)
{
    int spawned = 0, err;
    EXPECT_EQ(hd_local_set(&watched, nursery), 0);
    for (int i = 0; i < 20; i++) EXPECT_EQ(hd_checkpoint(1), 0); /* It has credit by now. */
    while ((err = hd_go(nursery, nothing, NULL)) == 0) spawned++;
    EXPECT_EQ(err, -EDQUOT);
    EXPECT_EQ(hd_go(nursery, nothing, NULL), -EDQUOT);
    (void)budgets_look(nursery);
    return spawned;
}

static int look_while_spawning(void *arg)
{
    const hd_budget budget = {.ops = 1000, .spawn_count = 5};
    const hd_nursery_options how = {.exhausted = HD_EXHAUSTED_ERROR};
    hd_nursery nursery;
    (void)arg;
    budgets_open(&nursery, &budget, &how);
    EXPECT_EQ(budgets_run(&nursery, spawn_to_the_limit, &nursery), 5);
    const hd_budget_info info = budgets_look(&nursery);
    EXPECT_EQ(info.granted.ops, 0);
    EXPECT_EQ(info.consumed.spawn_count, 5);
    (void)hd_nursery_leave(&nursery);
    return 0;
}

TEST_WORLDS(a_look_in_the_middle_of_a_spawn_is_exact, options)
{
    rt_run(look_while_spawning, NULL, options);
}
