/* SPDX-License-Identifier: MIT
 *
 * Refills in virtual time: who waits goes on when they come, in the order they came, and nobody
 * wakes in between. Ops are the clock of a quantum.
 */
#include "budgets.h"

TEST_MAIN

static void run(hd_fn *fn, const hd_options *options)
{
    if (rt_is_sim(options)) rt_run(fn, NULL, options);
}

/* A run takes a microsecond of virtual time. */
static void expect_at(int64_t begin, int64_t ms)
{
    const int64_t since = hd_now(NULL) - begin;
    EXPECT(since >= ms * HD_MS_NS && since < ms * HD_MS_NS + HD_MS_NS / 2);
}

/* ---- in time ---- */

static int lone(void *arg)
{
    (void)arg;
    const hd_budget ten = {.ops = 10}, three = {.ops = 3};
    const hd_nursery_options how = {
        .exhausted = HD_EXHAUSTED_WAIT, .refill = &three, .refill_ns = HD_MS_NS};
    hd_nursery nursery;
    int64_t ops = 10;
    const int64_t begin = hd_now(NULL);
    budgets_open(&nursery, &ten, &how);
    EXPECT_EQ(budgets_run(&nursery, budgets_compute_some, &ops), 0);
    expect_at(begin, 0);
    ops = 7; /* 3, 3 and 1 */
    EXPECT_EQ(budgets_run(&nursery, budgets_compute_some, &ops), 0);
    expect_at(begin, 3);
    ops = 3; /* 2 are left */
    EXPECT_EQ(budgets_run(&nursery, budgets_compute_some, &ops), 0);
    expect_at(begin, 4);
    EXPECT_EQ(hd_sleep_until(begin + 100 * HD_MS_NS + 500000), 0); /* 2 + 96 * 3 */
    EXPECT_EQ(budgets_look(&nursery).remaining.ops, 2 + 96 * 3);
    ops = 2 + 96 * 3 + 1;
    EXPECT_EQ(budgets_run(&nursery, budgets_compute_some, &ops), 0);
    expect_at(begin, 101); /* Periods are counted from the start. */
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    return 0;
}

TEST_WORLDS(who_waits_goes_on_at_the_refill, options) { run(lone, options); }

/* ---- in order ---- */

struct turn {
    int64_t begin, ms; /* when it should be */
};

static int take_turn(void *arg)
{
    const struct turn *turn = arg;
    const int err = hd_checkpoint(2);
    if (!err && turn->ms) expect_at(turn->begin, turn->ms);
    return err;
}

/* Looks at every refill, perhaps before the one who watches the time does. */
static int look_at_times(void *arg)
{
    hd_nursery *nursery = arg;
    while (hd_sleep_until(hd_now(NULL) / HD_MS_NS * HD_MS_NS + HD_MS_NS) == 0) {
        (void)budgets_look(nursery);
    }
    return 0;
}

static int queue(void *arg)
{
    (void)arg;
    enum { TASKS = 20 };
    const hd_budget none = {.ops = HD_NOTHING}, one = {.ops = 1};
    const hd_nursery_options how = {
        .exhausted = HD_EXHAUSTED_WAIT, .refill = &one, .refill_ns = HD_MS_NS};
    struct turn turns[TASKS];
    hd_task *tasks[TASKS];
    hd_nursery nursery;
    int64_t begin = hd_now(NULL) / HD_MS_NS * HD_MS_NS + HD_MS_NS, ms = 0;
    EXPECT_EQ(hd_sleep_until(begin), 0);
    begin = hd_now(NULL);
    budgets_open(&nursery, &none, &how);
    hd_task *looker = rt_spawn(NULL, look_at_times, &nursery);
    for (unsigned i = 0; i < TASKS; i++) {
        const bool is_to_go = i == 0 || i % 4 == 3; /* The first of all watches the time. */
        if (!is_to_go) ms += 2;
        turns[i] = (struct turn){begin, ms};
        tasks[i] = budgets_spawn(&nursery, take_turn, &turns[i]);
        while (budgets_look(&nursery).waiting != i + 1) hd_yield();
    }
    expect_at(begin, 0);
    for (unsigned i = 0; i < TASKS; i++) {
        if (i == 0 || i % 4 == 3) hd_cancel(tasks[i]);
    }
    for (unsigned i = 0; i < TASKS; i++) {
        EXPECT_EQ(rt_join(tasks[i]), i == 0 || i % 4 == 3 ? -ECANCELED : 0);
    }
    expect_at(begin, ms);
    hd_cancel(looker);
    EXPECT_EQ(rt_join(looker), 0);
    EXPECT_EQ(hd_nursery_leave(&nursery), -ECANCELED);
    return 0;
}

TEST_WORLDS(those_who_wait_are_served_in_order, options) { run(queue, options); }

/* A crowd that waits is woken one by one: it costs as many runs as it has tasks, not its square. */
static int crowd(void *arg)
{
    (void)arg;
    enum { TASKS = 200 };
    const hd_budget none = {.ops = HD_NOTHING}, one = {.ops = 1};
    const hd_nursery_options how = {
        .exhausted = HD_EXHAUSTED_WAIT, .refill = &one, .refill_ns = HD_MS_NS};
    struct turn turns[TASKS] = {{0}};
    hd_stats before, after;
    hd_nursery nursery;
    budgets_open(&nursery, &none, &how);
    for (int i = 0; i < TASKS; i++) EXPECT_EQ(hd_go(&nursery, take_turn, &turns[i]), 0);
    while (budgets_look(&nursery).waiting != TASKS) hd_yield();
    hd_runtime_stats(hd_runtime_self(), &before);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    hd_runtime_stats(hd_runtime_self(), &after);
    EXPECT(after.polls - before.polls < 10 * TASKS);
    return 0;
}

TEST_WORLDS(one_of_a_crowd_watches_the_time, options) { run(crowd, options); }

/* A recharge helps at once, also who has just been told to watch the time. */
static int recharge_in_between(void *arg)
{
    (void)arg;
    const hd_budget none = {.ops = HD_NOTHING}, two = {.ops = 2};
    const hd_nursery_options how = {
        .exhausted = HD_EXHAUSTED_WAIT, .refill = &two, .refill_ns = HD_SECOND_NS};
    struct turn turns[3] = {{0}};
    for (int yields = 0; yields < 10; yields++) {
        hd_nursery nursery;
        const int64_t begin = hd_now(NULL);
        budgets_open(&nursery, &none, &how);
        for (int i = 0; i < 3; i++) EXPECT_EQ(hd_go(&nursery, take_turn, &turns[i]), 0);
        while (budgets_look(&nursery).waiting != 3) hd_yield();
        for (int i = 0; i < 3; i++) {
            EXPECT_EQ(hd_budget_recharge(&nursery, &two), 0);
            for (int k = 0; k < yields; k++) hd_yield();
        }
        EXPECT_EQ(hd_nursery_leave(&nursery), 0);
        expect_at(begin, 0);
    }
    return 0;
}

TEST_WORLDS(a_recharge_helps_at_once, options) { run(recharge_in_between, options); }

/* ---- pools inside ---- */

static int inner_waits(void *arg)
{
    const int64_t *begin = arg;
    const hd_budget none = {.channel_ops = HD_NOTHING}, five = {.channel_ops = 5};
    const hd_nursery_options how = {.refill = &five, .refill_ns = 3 * HD_MS_NS};
    /* The outer one has 7 more at 10, 20, 30, ...; what was due when it had nothing is had when
     * somebody looks. */
    static const struct {
        int64_t ms, given;
    } times[] = {{2, 0}, {8, 0}, {11, 5}, {12, 7}, {15, 7}, {20, 12}, {21, 14}, {45, 28}};
    hd_nursery inner;
    budgets_open(&inner, &none, &how);
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        EXPECT_EQ(hd_sleep_until(*begin + times[i].ms * HD_MS_NS + HD_MS_NS / 2), 0);
        EXPECT_EQ(budgets_look(&inner).given.channel_ops, times[i].given);
    }
    EXPECT_EQ(hd_nursery_leave(&inner), 0);
    return 0;
}

static int refills_inside(void *arg)
{
    (void)arg;
    const hd_budget none = {.channel_ops = HD_NOTHING}, seven = {.channel_ops = 7};
    const hd_nursery_options how = {.refill = &seven, .refill_ns = 10 * HD_MS_NS};
    hd_nursery outer;
    int64_t begin = hd_now(NULL);
    budgets_open(&outer, &none, &how);
    EXPECT_EQ(budgets_run(&outer, inner_waits, &begin), 0);
    EXPECT_EQ(budgets_look(&outer).given.channel_ops, 28);
    EXPECT_EQ(hd_nursery_leave(&outer), 0);
    return 0;
}

TEST_WORLDS(an_inner_refill_takes_what_the_outer_one_has, options)
{
    run(refills_inside, options);
}

/* ---- ops are the clock ---- */

static int compute_long(void *arg)
{
    (void)arg;
    hd_stats before, after;
    hd_runtime_stats(hd_runtime_self(), &before);
    for (int i = 0; i < 5 * 100; i++) EXPECT_EQ(hd_checkpoint(10), 0);
    hd_runtime_stats(hd_runtime_self(), &after);
    EXPECT_EQ(after.polls - before.polls, 5); /* five quanta of 1,000 */
    return 0;
}

TEST_WORLDS(a_quantum_is_counted_in_ops, options)
{
    hd_options own = *options;
    own.quantum_ops = 1000;
    run(compute_long, &own);
}
