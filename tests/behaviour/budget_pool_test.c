/* SPDX-License-Identifier: MIT
 *
 * Budgets: pools inside pools, moving budget between them, bombs, profiles.
 */
#include "budgets.h"

TEST_MAIN

/* ---- inside ---- */

static int look_15_times(void *arg)
{
    (void)arg;
    hd_chan *chan = hd_chan_create(sizeof(int), 1);
    for (int i = 0, item; i < 15; i++) EXPECT_EQ(hd_chan_recv_try(chan, &item), -EAGAIN);
    hd_chan_destroy(chan);
    return 0;
}

static int within(void *arg)
{
    hd_nursery *outer = arg;
    const hd_budget too_much = {.channel_ops = 101}, forty = {.channel_ops = 40};
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    hd_nursery inner;
    int64_t done = 0;
    options.budget = &too_much;
    EXPECT_EQ(hd_nursery_open(&inner, &options), -EDQUOT);
    EXPECT_EQ(budgets_look(outer).remaining.channel_ops, 100);
    budgets_open(&inner, &forty, NULL);
    hd_budget_info around = budgets_look(outer);
    EXPECT_EQ(around.granted.channel_ops, 40);
    EXPECT_EQ(around.remaining.channel_ops, 60);
    EXPECT_EQ(budgets_run(&inner, look_15_times, NULL), 0);
    EXPECT_EQ(budgets_look(outer).granted.channel_ops, 40);
    EXPECT_EQ(hd_nursery_leave(&inner), 0);
    around = budgets_look(outer);
    EXPECT_EQ(around.granted.channel_ops, 0);
    EXPECT_EQ(around.consumed.channel_ops, 15);
    EXPECT_EQ(around.remaining.channel_ops, 85);
    /* Without a budget of its own a nursery uses that around. */
    EXPECT_EQ(hd_nursery_open(&inner, NULL), 0);
    EXPECT_EQ(budgets_run(&inner, budgets_look_into_chan, &done), -EDQUOT);
    EXPECT_EQ(done, 85);
    EXPECT_EQ(hd_nursery_leave(&inner), -EDQUOT);
    return 0;
}

static int inside(void *arg)
{
    (void)arg;
    const hd_budget hundred = {.channel_ops = 100};
    hd_nursery outer;
    budgets_open(&outer, &hundred, NULL);
    EXPECT_EQ(budgets_run(&outer, within, &outer), 0);
    EXPECT_EQ(budgets_look(&outer).consumed.channel_ops, 100);
    EXPECT_EQ(hd_nursery_leave(&outer), 0);
    return 0;
}

TEST_WORLDS(an_inner_pool_is_drawn_from_the_one_around, options) { rt_run(inside, NULL, options); }

/* A nursery that does not count something does not make it free. */
static int uncounted(void *arg)
{
    (void)arg;
    const hd_budget memory = {.memory = 100};
    hd_nursery inner;
    int64_t done = 0;
    budgets_open(&inner, &memory, NULL);
    EXPECT_EQ(budgets_look(&inner).given.channel_ops, HD_UNLIMITED);
    EXPECT_EQ(budgets_run(&inner, budgets_look_into_chan, &done), -EDQUOT);
    EXPECT_EQ(hd_nursery_leave(&inner), -EDQUOT);
    return (int)done;
}

/* Nor is the limit of a task wider inside. */
static int limited_inside(void *arg)
{
    (void)arg;
    const hd_budget wide = {.channel_ops = 1000};
    const hd_nursery_options how = {.per_task = &wide};
    hd_nursery inner;
    int64_t done = 0;
    budgets_open(&inner, NULL, &how);
    EXPECT_EQ(budgets_run(&inner, budgets_look_into_chan, &done), -EDQUOT);
    EXPECT_EQ(hd_nursery_leave(&inner), -EDQUOT);
    return (int)done;
}

static int no_way_out(void *arg)
{
    (void)arg;
    const hd_budget outer_budget = {.channel_ops = 100, .memory = 1000};
    const hd_budget limit = {.channel_ops = 20};
    const hd_nursery_options limited = {.per_task = &limit};
    hd_nursery outer;
    budgets_open(&outer, &outer_budget, NULL);
    EXPECT_EQ(budgets_run(&outer, uncounted, NULL), 100);
    EXPECT_EQ(hd_nursery_leave(&outer), 0);
    budgets_open(&outer, NULL, &limited);
    EXPECT_EQ(budgets_run(&outer, limited_inside, NULL), 20);
    EXPECT_EQ(hd_nursery_leave(&outer), 0);
    return 0;
}

TEST_WORLDS(an_inner_nursery_only_narrows, options) { rt_run(no_way_out, NULL, options); }

/* ---- recharge and transfer between them ---- */

/*   root: left, right: inner; and another that has nothing to do with them. Memory, because nobody
 * uses any meanwhile. */
enum { ROOT, LEFT, RIGHT, INNER, OTHER, POOLS };
static const int parents[POOLS] = {-1, ROOT, ROOT, RIGHT, -1};
static const int64_t amounts[POOLS] = {100, 30, 40, 10, 20};

struct family {
    hd_nursery pools[POOLS];
    atomic_int ready, done;
    int64_t given[POOLS], remaining[POOLS]; /* as they should be */
};

struct member {
    struct family *family;
    int pool;
};

static int keep_pool(void *arg)
{
    const struct member *member = arg;
    struct family *family = member->family;
    hd_nursery *pool = &family->pools[member->pool];
    struct member children[POOLS];
    const hd_budget budget = {.memory = amounts[member->pool]};
    budgets_open(pool, &budget, NULL);
    for (int i = 0; i < POOLS; i++) {
        children[i] = (struct member){family, i};
        if (parents[i] == member->pool) EXPECT_EQ(hd_go(pool, keep_pool, &children[i]), 0);
    }
    atomic_fetch_add(&family->ready, 1);
    rt_until(&family->done);
    EXPECT_EQ(hd_nursery_leave(pool), 0);
    return 0;
}

static void expect_family(struct family *family)
{
    for (int i = 0; i < POOLS; i++) {
        int64_t granted = 0;
        for (int k = 0; k < POOLS; k++) granted += parents[k] == i ? family->given[k] : 0;
        const hd_budget_info info = budgets_look(&family->pools[i]);
        EXPECT_EQ(info.given.memory, family->given[i]);
        EXPECT_EQ(info.remaining.memory, family->remaining[i]);
        EXPECT_EQ(info.granted.memory, granted);
    }
}

static void move(struct family *family, int from, int to, int64_t amount)
{
    const hd_budget moved = {.memory = amount};
    const bool enough = amount <= family->remaining[from];
    EXPECT_EQ(hd_budget_transfer(&family->pools[from], &family->pools[to], &moved),
              enough ? 0 : -EDQUOT);
    if (enough) {
        family->remaining[from] -= amount;
        family->remaining[to] += amount;
        for (int i = from; i >= 0; i = parents[i]) family->given[i] -= amount;
        for (int i = to; i >= 0; i = parents[i]) family->given[i] += amount;
    }
    expect_family(family);
}

static void recharge(struct family *family, int pool, int64_t amount)
{
    const hd_budget more = {.memory = amount, .ops = 1000000}; /* of which nobody counts any */
    const int around = parents[pool];
    const bool enough = around < 0 || amount <= family->remaining[around];
    EXPECT_EQ(hd_budget_recharge(&family->pools[pool], &more), enough ? 0 : -EDQUOT);
    if (enough) {
        family->given[pool] += amount;
        family->remaining[pool] += amount;
        if (around >= 0) family->remaining[around] -= amount;
    }
    expect_family(family);
}

static int give_and_take(void *arg)
{
    (void)arg;
    struct family family = {.ready = 0};
    struct member first = {&family, ROOT}, second = {&family, OTHER};
    hd_task *tasks[] = {rt_spawn(NULL, keep_pool, &first), rt_spawn(NULL, keep_pool, &second)};
    while (atomic_load(&family.ready) < POOLS) hd_yield();
    for (int i = 0; i < POOLS; i++) {
        family.given[i] = family.remaining[i] = amounts[i];
        for (int k = 0; k < POOLS; k++) family.remaining[i] -= parents[k] == i ? amounts[k] : 0;
    }
    expect_family(&family);
    for (int64_t amount = 1; amount < 200; amount *= 3) {
        for (int from = 0; from < POOLS; from++) {
            for (int to = 0; to < POOLS; to++) {
                move(&family, from, to, amount);
                recharge(&family, from, amount / 2);
            }
        }
    }
    const hd_budget ops = {.ops = 1};
    EXPECT_EQ(hd_budget_transfer(&family.pools[ROOT], &family.pools[OTHER], &ops), -EINVAL);
    atomic_store(&family.done, 1);
    EXPECT_EQ(rt_join(tasks[0]) | rt_join(tasks[1]), 0);
    return 0;
}

TEST_WORLDS(budget_moves_between_any_two_pools, options)
{
    rt_run(give_and_take, NULL, options);
}

/* Of several resources all or nothing. */
static int all_or_nothing(void *arg)
{
    hd_nursery *outer = arg;
    const hd_budget small = {.ops = 10, .memory = 10, .syscalls = 10};
    const hd_budget more = {.ops = 5, .memory = 5, .syscalls = 500};
    hd_nursery inner;
    budgets_open(&inner, &small, NULL);
    const hd_budget_info before = budgets_look(outer);
    EXPECT_EQ(hd_budget_recharge(&inner, &more), -EDQUOT);
    EXPECT_EQ(hd_budget_transfer(outer, &inner, &more), -EDQUOT);
    EXPECT_EQ(hd_budget_transfer(&inner, outer, &more), -EDQUOT);
    const hd_budget_info after = budgets_look(outer);
    EXPECT_EQ(memcmp(&before.given, &after.given, sizeof(hd_budget)), 0);
    EXPECT_EQ(memcmp(&before.remaining, &after.remaining, sizeof(hd_budget)), 0);
    EXPECT_EQ(memcmp(&before.granted, &after.granted, sizeof(hd_budget)), 0);
    EXPECT_EQ(memcmp(&before.consumed, &after.consumed, sizeof(hd_budget)), 0);
    EXPECT_EQ(budgets_look(&inner).given.memory, 10);
    EXPECT_EQ(hd_nursery_leave(&inner), 0);
    return 0;
}

static int several(void *arg)
{
    (void)arg;
    const hd_budget budget = {.ops = 100, .memory = 100, .syscalls = 100};
    hd_nursery outer;
    budgets_open(&outer, &budget, NULL);
    EXPECT_EQ(budgets_run(&outer, all_or_nothing, &outer), 0);
    EXPECT_EQ(hd_nursery_leave(&outer), 0);
    return 0;
}

TEST_WORLDS(several_resources_move_together, options) { rt_run(several, NULL, options); }

/* It never overflows. */
static int astronomical(void *arg)
{
    (void)arg;
    const hd_budget one = {.ops = 1}, all = {.ops = HD_UNLIMITED};
    const hd_budget most = {.ops = HD_UNLIMITED - 1};
    const hd_nursery_options how = {.refill = &most, .refill_ns = 1};
    hd_nursery nursery;
    budgets_open(&nursery, &one, NULL);
    EXPECT_EQ(hd_budget_recharge(&nursery, &all), 0);
    EXPECT_EQ(hd_budget_recharge(&nursery, &all), 0);
    EXPECT_EQ(budgets_look(&nursery).given.ops, HD_UNLIMITED - 1);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    budgets_open(&nursery, &one, &how);
    EXPECT_EQ(hd_sleep_until(hd_after_ms(1)), 0);
    EXPECT_EQ(budgets_look(&nursery).given.ops, HD_UNLIMITED - 1);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    return 0;
}

TEST_WORLDS(a_pool_does_not_overflow, options) { rt_run(astronomical, NULL, options); }

/* ---- refills inside ---- */

static int refill_inside(void *arg)
{
    hd_nursery *outer = arg;
    const hd_budget ten = {.memory = 10};
    const hd_nursery_options how = {.refill = &ten, .refill_ns = HD_MS_NS};
    hd_nursery inner;
    budgets_open(&inner, &ten, &how);
    EXPECT_EQ(hd_sleep_until(hd_now(NULL) + 10 * HD_MS_NS), 0);
    EXPECT_EQ(budgets_look(&inner).given.memory, 35); /* what the outer one has, and no more */
    EXPECT_EQ(budgets_look(outer).remaining.memory, 0);
    EXPECT_EQ(hd_nursery_leave(&inner), 0);
    return 0;
}

static int bounded_refill(void *arg)
{
    (void)arg;
    const hd_budget budget = {.memory = 35};
    hd_nursery outer;
    budgets_open(&outer, &budget, NULL);
    EXPECT_EQ(budgets_run(&outer, refill_inside, &outer), 0);
    EXPECT_EQ(hd_nursery_leave(&outer), 0);
    return 0;
}

TEST_WORLDS(a_refill_is_drawn_from_the_pool_around, options)
{
    rt_run(bounded_refill, NULL, options);
}

static int nest_refills(void *arg)
{
    int *depth = arg;
    const hd_budget some = {.memory = 40 - *depth}; /* each a little less than the one around */
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    hd_nursery nursery;
    options.budget = &some;
    options.refill = &some;
    options.refill_ns = HD_SECOND_NS;
    const int err = hd_nursery_open(&nursery, &options);
    if (err) return err;
    ++*depth;
    (void)budgets_look(&nursery);
    const int result = budgets_run(&nursery, nest_refills, arg);
    EXPECT_EQ(hd_nursery_leave(&nursery), result);
    return result;
}

static int deep_refills(void *arg)
{
    (void)arg;
    int depth = 0;
    EXPECT_EQ(nest_refills(&depth), -EINVAL);
    EXPECT_EQ(depth, 32);
    return 0;
}

TEST_WORLDS(refills_nest_32_deep, options) { rt_run(deep_refills, NULL, options); }

/* ---- bombs ---- */

struct bomb {
    hd_nursery *nursery;
    atomic_int tasks, refused;
    atomic_int blocks;
};

static int fork_bomb(void *arg)
{
    struct bomb *bomb = arg;
    atomic_fetch_add(&bomb->tasks, 1);
    for (int i = 0; i < 3; i++) {
        const int err = hd_go(bomb->nursery, fork_bomb, bomb);
        if (err) EXPECT_EQ(err, -EDQUOT);
        if (err) atomic_fetch_add(&bomb->refused, 1);
    }
    return 0;
}

static int stop_fork_bomb(void *arg)
{
    (void)arg;
    const hd_budget budget = {.spawn_count = 1000};
    hd_nursery nursery;
    struct bomb bomb = {.nursery = &nursery};
    budgets_open(&nursery, &budget, NULL);
    EXPECT_EQ(hd_go(&nursery, fork_bomb, &bomb), 0);
    budgets_quiet(&nursery);
    EXPECT_EQ(atomic_load(&bomb.tasks), 1001);
    EXPECT_EQ(atomic_load(&bomb.refused), 1001 * 3 - 1000);
    EXPECT_EQ(budgets_look(&nursery).consumed.spawn_count, 1000);
    EXPECT_EQ(budgets_look(&nursery).remaining.spawn_count, 0);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    return 0;
}

TEST_WORLDS(a_fork_bomb_stops_exactly_at_the_limit, options)
{
    rt_run(stop_fork_bomb, NULL, options);
}

/* Each in a nursery of its own, as deep as it gets. */
static int dig(void *arg)
{
    struct bomb *bomb = arg;
    int err = 0;
    atomic_fetch_add(&bomb->tasks, 1);
    HD_NURSERY(inner) err = hd_go(inner, dig, bomb);
    return err == -EDQUOT ? 0 : err;
}

static int stop_digging(void *arg)
{
    (void)arg;
    const hd_budget budget = {.spawn_count = 500};
    hd_nursery nursery;
    struct bomb bomb = {.nursery = &nursery};
    budgets_open(&nursery, &budget, NULL);
    EXPECT_EQ(hd_go(&nursery, dig, &bomb), 0);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    EXPECT_EQ(atomic_load(&bomb.tasks), 501);
    return 0;
}

TEST_WORLDS(a_deep_fork_bomb_too, options) { rt_run(stop_digging, NULL, options); }

struct leak {
    struct leak *next;
};

struct leaks {
    _Atomic(struct leak *) first;
    atomic_int count;
};

static int memory_bomb(void *arg)
{
    struct leaks *leaks = arg;
    void *memory;
    int err;
    while ((err = hd_alloc(100, &memory)) == 0) {
        struct leak *leak = memory;
        leak->next = atomic_load(&leaks->first);
        while (!atomic_compare_exchange_weak(&leaks->first, &leak->next, leak)) continue;
        atomic_fetch_add(&leaks->count, 1);
        hd_yield();
    }
    EXPECT_EQ(err, -EDQUOT);
    return 0;
}

static int stop_memory_bomb(void *arg)
{
    (void)arg;
    const hd_budget budget = {.memory = 50050};
    hd_nursery nursery;
    struct leaks leaks = {.count = 0};
    budgets_open(&nursery, &budget, NULL);
    for (int i = 0; i < 20; i++) EXPECT_EQ(hd_go(&nursery, memory_bomb, &leaks), 0);
    EXPECT_EQ(hd_nursery_wait(&nursery), 0);
    EXPECT_EQ(atomic_load(&leaks.count), 500);
    EXPECT_EQ(budgets_look(&nursery).remaining.memory, 50);
    for (struct leak *leak = atomic_load(&leaks.first), *next; leak; leak = next) {
        next = leak->next;
        hd_free(leak);
    }
    EXPECT_EQ(budgets_look(&nursery).remaining.memory, 50050);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    return 0;
}

TEST_WORLDS(a_memory_bomb_stops_exactly_at_the_limit, options)
{
    rt_run(stop_memory_bomb, NULL, options);
}

/* Many that compute share a pool: together they use all of it, but for what those that have ended
 * held; never more. */
static int share_fairly(void *arg)
{
    (void)arg;
    enum { TASKS = 30 };
    const hd_budget budget = {.ops = 20000};
    int64_t done[TASKS] = {0}, sum = 0;
    hd_nursery nursery;
    budgets_open(&nursery, &budget, NULL);
    for (int i = 0; i < TASKS; i++) EXPECT_EQ(hd_go(&nursery, budgets_compute, &done[i]), 0);
    budgets_quiet(&nursery);
    for (int i = 0; i < TASKS; i++) sum += done[i];
    EXPECT_EQ(budgets_look(&nursery).consumed.ops, sum);
    EXPECT(sum <= 20000);
    int64_t rest = 0;
    EXPECT_EQ(budgets_run(&nursery, budgets_compute, &rest), -EDQUOT);
    EXPECT_EQ(sum + rest, 20000);
    EXPECT_EQ(hd_nursery_leave(&nursery), -EDQUOT);
    return 0;
}

TEST_WORLDS(many_share_a_pool_and_use_no_more_than_it_has, options)
{
    rt_run(share_fairly, NULL, options);
}

/* ---- profiles ---- */

static hd_poll idle_poll(void *state, int *result)
{
    (void)state;
    *result = 0;
    return HD_READY;
}

static int use_all_spawns(void *arg)
{
    int64_t *done = arg;
    int err = 0;
    HD_NURSERY(inner) {
        hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
        options.nursery = inner;
        /* Stackless: ThreadSanitizer makes a thread of every fiber. */
        while ((err = hd_spawn_poll_with(NULL, idle_poll, NULL, 0, &options)) == 0) ++*done;
    }
    return err;
}

static int implicit(void *arg)
{
    (void)arg;
    hd_nursery nursery;
    int64_t done = 0;
    hd_budget_info info;
    EXPECT_EQ(hd_nursery_open(&nursery, NULL), 0);
    EXPECT_EQ(hd_budget_look(&nursery, &info), -ENOENT);
    EXPECT_EQ(budgets_run(&nursery, use_all_spawns, &done), -EDQUOT);
    EXPECT_EQ(done, HD_SERVICE_SPAWN_COUNT);
    (void)hd_nursery_leave(&nursery);
    const hd_budget wide = {.spawn_count = 2 * HD_SERVICE_SPAWN_COUNT};
    done = 0;
    budgets_open(&nursery, &wide, NULL); /* An explicit budget is what it says. */
    EXPECT_EQ(budgets_run(&nursery, use_all_spawns, &done), -EDQUOT);
    EXPECT_EQ(done, 2 * HD_SERVICE_SPAWN_COUNT);
    (void)hd_nursery_leave(&nursery);
    return 0;
}

TEST_WORLDS(service_and_cluster_have_implicit_budgets, options)
{
    for (int profile = HD_PROFILE_SERVICE; profile <= HD_PROFILE_CLUSTER; profile++) {
        hd_options own = *options;
        own.profile = (hd_profile)profile;
        rt_run_plain(implicit, NULL, &own); /* A point looks at all that are ready. */
    }
}
