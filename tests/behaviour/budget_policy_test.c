/* SPDX-License-Identifier: MIT
 *
 * Budgets: what a task does that cannot draw.
 */
#include "budgets.h"

#include "locks.h"

TEST_MAIN

static const hd_budget ten = {.ops = 10};

static void add_ops(hd_nursery *nursery, int64_t ops)
{
    const hd_budget amount = {.ops = ops};
    EXPECT_EQ(hd_budget_recharge(nursery, &amount), 0);
}

/* Let all others run until so many wait for the pool. */
static void until_waiting(hd_nursery *nursery, unsigned count)
{
    while (budgets_look(nursery).waiting != count) hd_yield();
}

/* ---- waiting ---- */

static const hd_nursery_options waits = {.exhausted = HD_EXHAUSTED_WAIT};

static int wait_for_recharge(void *arg)
{
    (void)arg;
    int64_t ops = 35;
    hd_nursery nursery;
    budgets_open(&nursery, &ten, &waits);
    hd_task *task = budgets_spawn(&nursery, budgets_compute_some, &ops);
    for (int times = 1; times <= 2; times++) {
        until_waiting(&nursery, 1);
        EXPECT_EQ(budgets_look(&nursery).consumed.ops, 10 * times);
        EXPECT_EQ(hd_join_try(task, NULL), -EAGAIN);
        add_ops(&nursery, 10);
    }
    until_waiting(&nursery, 1);
    add_ops(&nursery, 20);
    EXPECT_EQ(rt_join(task), 0);
    const hd_budget_info info = budgets_look(&nursery);
    EXPECT_EQ(info.consumed.ops, 35);
    EXPECT_EQ(info.remaining.ops, 15);
    EXPECT_EQ(info.waiting, 0);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    return 0;
}

TEST_WORLDS(who_waits_goes_on_after_a_recharge, options)
{
    rt_run(wait_for_recharge, NULL, options);
}

/* In the order they came, also past somebody who wants more than there is. */
struct claim {
    unsigned ops;
    int *order;
    int place;
};

static int claim(void *arg)
{
    struct claim *claimed = arg;
    EXPECT_EQ(hd_checkpoint(claimed->ops), 0);
    claimed->place = ++*claimed->order;
    return 0;
}

static int claim_or_not(void *arg)
{
    const struct claim *claimed = arg;
    return hd_checkpoint(claimed->ops);
}

static int in_order(void *arg)
{
    (void)arg;
    const hd_budget nothing = {.ops = HD_NOTHING};
    int order = 0;
    struct claim big = {20, &order, 0}, small = {1, &order, 0}, last = {5, &order, 0};
    struct claim late = {1, &order, 0};
    hd_nursery nursery;
    budgets_open(&nursery, &nothing, &waits);
    EXPECT_EQ(hd_go(&nursery, claim, &big), 0);
    until_waiting(&nursery, 1);
    EXPECT_EQ(hd_go(&nursery, claim, &small), 0);
    until_waiting(&nursery, 2);
    EXPECT_EQ(hd_go(&nursery, claim, &last), 0);
    until_waiting(&nursery, 3);
    add_ops(&nursery, 19);
    locks_settle();
    EXPECT_EQ(order, 0); /* There is enough for the small one, but the big one came first. */
    EXPECT_EQ(hd_go(&nursery, claim, &late), 0);
    until_waiting(&nursery, 4); /* And for this one. */
    add_ops(&nursery, 2);
    locks_settle();
    EXPECT_EQ(order, 2);
    add_ops(&nursery, 6);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    EXPECT(big.place < 3 && small.place < 3 && last.place >= 3 && late.place >= 3);
    return 0;
}

TEST_WORLDS(a_big_draw_is_not_overtaken, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(in_order, NULL, &one);
}

/* One waits for memory, another for ops: neither is in the other's way. */
static int allocate_all(void *arg)
{
    return hd_alloc(100, arg);
}

static int apart(void *arg)
{
    (void)arg;
    const hd_budget budget = {.ops = 10, .memory = 50}, memory = {.memory = 50};
    int64_t ops = 20;
    void *block;
    hd_nursery nursery;
    budgets_open(&nursery, &budget, &waits);
    hd_task *allocates = budgets_spawn(&nursery, allocate_all, &block);
    until_waiting(&nursery, 1);
    hd_task *computes = budgets_spawn(&nursery, budgets_compute_some, &ops);
    until_waiting(&nursery, 2);
    add_ops(&nursery, 20);
    EXPECT_EQ(rt_join(computes), 0);
    EXPECT_EQ(budgets_look(&nursery).waiting, 1);
    EXPECT_EQ(hd_budget_recharge(&nursery, &memory), 0);
    EXPECT_EQ(rt_join(allocates), 0);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    hd_free(block);
    return 0;
}

TEST_WORLDS(resources_are_waited_for_apart, options) { rt_run(apart, NULL, options); }

/* What another gives back is enough: by hd_free(), or at its end. */
static int hold_slice_until(void *arg)
{
    atomic_int *gate = arg;
    const int item = 1;
    hd_chan *chan = hd_chan_create(sizeof(item), 10);
    for (int i = 0; i < 6; i++) EXPECT_EQ(hd_chan_send(chan, &item), 0);
    hd_chan_destroy(chan); /* It has drawn more channel_ops than it used. */
    rt_until(gate);
    return 0;
}

static int send_all(void *arg)
{
    const int item = 1;
    hd_chan *chan = hd_chan_create(sizeof(item), 100);
    int err = 0;
    for (int i = 0; i < 90 && !err; i++) err = hd_chan_send(chan, &item);
    hd_chan_destroy(chan);
    (void)arg;
    return err;
}

static int wait_for_others(void *arg)
{
    (void)arg;
    const hd_budget budget = {.memory = 100, .channel_ops = 100};
    atomic_int gate = 0;
    void *block, *second;
    hd_nursery nursery;
    budgets_open(&nursery, &budget, &waits);
    EXPECT_EQ(budgets_run(&nursery, allocate_all, &block), 0);
    hd_task *task = budgets_spawn(&nursery, allocate_all, &second);
    until_waiting(&nursery, 1);
    hd_free(block);
    EXPECT_EQ(rt_join(task), 0);
    hd_free(second);
    EXPECT_EQ(hd_go(&nursery, hold_slice_until, &gate), 0);
    while (budgets_look(&nursery).granted.channel_ops == 0) hd_yield();
    task = budgets_spawn(&nursery, send_all, NULL);
    until_waiting(&nursery, 1);
    atomic_store(&gate, 1);
    EXPECT_EQ(rt_join(task), 0);
    EXPECT_EQ(hd_nursery_wait(&nursery), 0);
    EXPECT_EQ(budgets_look(&nursery).consumed.channel_ops, 96);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    return 0;
}

TEST_WORLDS(what_others_give_back_ends_the_wait, options)
{
    rt_run(wait_for_others, NULL, options);
}

/* A cancel, a deadline, and those behind. */
static int compute_with_deadline(void *arg)
{
    int64_t *done = arg;
    int err = 0;
    HD_SCOPE(scope, .deadline = hd_after_ms(5)) err = budgets_compute(done);
    return err;
}

static int give_up(void *arg)
{
    (void)arg;
    int64_t done = 0, ops = 3;
    hd_nursery nursery;
    budgets_open(&nursery, &ten, &waits);
    EXPECT_EQ(budgets_run(&nursery, compute_with_deadline, &done), -ETIMEDOUT);
    EXPECT_EQ(done, 10);
    hd_task *cancelled = budgets_spawn(&nursery, budgets_compute, &done);
    until_waiting(&nursery, 1);
    hd_task *patient = budgets_spawn(&nursery, budgets_compute_some, &ops);
    until_waiting(&nursery, 2);
    hd_cancel(cancelled);
    EXPECT_EQ(rt_join(cancelled), -ECANCELED);
    EXPECT_EQ(budgets_look(&nursery).waiting, 1);
    add_ops(&nursery, 3);
    EXPECT_EQ(rt_join(patient), 0);
    (void)hd_nursery_leave(&nursery);
    return 0;
}

TEST_WORLDS(who_waits_can_be_cancelled, options) { rt_run(give_up, NULL, options); }

/* Who gives up lets those behind it have what is there. */
static int step_aside(void *arg)
{
    (void)arg;
    int order = 0;
    struct claim big = {20, &order, 0}, small = {3, &order, 0};
    hd_nursery nursery;
    budgets_open(&nursery, &ten, &waits);
    hd_task *head = budgets_spawn(&nursery, claim_or_not, &big);
    until_waiting(&nursery, 1);
    hd_task *behind = budgets_spawn(&nursery, claim, &small);
    until_waiting(&nursery, 2);
    hd_cancel(head);
    EXPECT_EQ(rt_join(head), -ECANCELED);
    EXPECT_EQ(rt_join(behind), 0);
    EXPECT_EQ(budgets_look(&nursery).remaining.ops, 7);
    EXPECT_EQ(hd_nursery_leave(&nursery), -ECANCELED);
    return 0;
}

TEST_WORLDS(who_gives_up_steps_aside, options) { rt_run(step_aside, NULL, options); }

static int cancel_waiting_nursery(void *arg)
{
    (void)arg;
    int64_t done[20] = {0};
    hd_nursery nursery;
    budgets_open(&nursery, &ten, &waits);
    for (int i = 0; i < 20; i++) EXPECT_EQ(hd_go(&nursery, budgets_compute, &done[i]), 0);
    until_waiting(&nursery, 20);
    hd_nursery_cancel(&nursery);
    EXPECT_EQ(hd_nursery_leave(&nursery), -ECANCELED);
    return 0;
}

TEST_WORLDS(a_cancelled_nursery_waits_for_no_budget, options)
{
    rt_run(cancel_waiting_nursery, NULL, options);
}

/* Those who cannot wait. */
static hd_poll poll_compute(void *state, int *result)
{
    (void)state;
    while ((*result = hd_checkpoint(1)) == 0) continue;
    return HD_READY;
}

static int cannot_wait(void *arg)
{
    hd_chan *chan = arg;
    int item;
    EXPECT_EQ(hd_checkpoint(10), 0);
    EXPECT_EQ(hd_chan_recv_try(chan, &item), -EDQUOT);
    HD_NURSERY(inner) EXPECT_EQ(hd_go(inner, budgets_idle, NULL), -EDQUOT);
    return 0;
}

static int try(void *arg)
{
    (void)arg;
    const hd_budget limit = {.ops = 5};
    const hd_nursery_options limited = {.exhausted = HD_EXHAUSTED_WAIT, .per_task = &limit};
    hd_chan *chan = hd_chan_create(sizeof(int), 1);
    hd_nursery nursery;
    int64_t done = 0;
    budgets_open(&nursery, &ten, &waits);
    EXPECT_EQ(budgets_run(&nursery, cannot_wait, chan), 0);
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.nursery = &nursery;
    hd_task *stackless;
    EXPECT_EQ(hd_spawn_poll_with(&stackless, poll_compute, NULL, 0, &options), 0);
    EXPECT_EQ(rt_join(stackless), -EDQUOT);
    EXPECT_EQ(hd_nursery_leave(&nursery), -EDQUOT);
    budgets_open(&nursery, &ten, &limited);
    EXPECT_EQ(budgets_run(&nursery, budgets_compute, &done), -EDQUOT); /* its own limit */
    EXPECT_EQ(done, 5);
    EXPECT_EQ(hd_nursery_leave(&nursery), -EDQUOT);
    hd_chan_destroy(chan);
    return 0;
}

TEST_WORLDS(who_cannot_wait_is_refused, options) { rt_run(try, NULL, options); }

/* ---- refills ---- */

static int refilled(void *arg)
{
    (void)arg;
    const hd_budget five = {.ops = 5};
    const hd_nursery_options how = {
        .exhausted = HD_EXHAUSTED_WAIT, .refill = &five, .refill_ns = HD_MS_NS};
    int64_t ops = 40, each = 7;
    hd_nursery nursery;
    const int64_t begin = hd_now(NULL);
    budgets_open(&nursery, &ten, &how);
    EXPECT_EQ(budgets_run(&nursery, budgets_compute_some, &ops), 0);
    EXPECT(hd_now(NULL) >= begin + 6 * HD_MS_NS); /* 10, and 6 times 5 */
    for (int i = 0; i < 10; i++) {
        EXPECT_EQ(hd_go(&nursery, budgets_compute_some, &each), 0);
    }
    EXPECT_EQ(hd_nursery_wait(&nursery), 0);
    EXPECT(hd_now(NULL) >= begin + 20 * HD_MS_NS);
    EXPECT_EQ(budgets_look(&nursery).consumed.ops, 110);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    return 0;
}

TEST_WORLDS(a_pool_is_refilled, options) { rt_run(refilled, NULL, options); }

/* Without anybody who waits it is refilled when somebody looks. */
static int refilled_unseen(void *arg)
{
    (void)arg;
    const hd_budget five = {.ops = 5};
    const hd_nursery_options how = {.refill = &five, .refill_ns = HD_MS_NS};
    hd_nursery nursery;
    int64_t done = 0;
    budgets_open(&nursery, &ten, &how);
    const int64_t opened = hd_now(NULL);
    EXPECT_EQ(hd_sleep_until(opened + 4 * HD_MS_NS + HD_MS_NS / 2), 0);
    EXPECT(budgets_look(&nursery).remaining.ops >= 30);
    EXPECT_EQ(budgets_run(&nursery, budgets_compute, &done), -EDQUOT);
    EXPECT(done >= 30);
    EXPECT_EQ(hd_nursery_leave(&nursery), -EDQUOT);
    return 0;
}

TEST_WORLDS(a_refill_needs_nobody_to_wait, options) { rt_run(refilled_unseen, NULL, options); }

/* ---- asking ---- */

struct giver {
    hd_resource resource;
    hd_nursery *nursery; /* NULL: not looked at */
    int64_t each, left;
    int calls;
    int64_t missing;
    uint64_t task;
};

static int64_t give(hd_resource resource, int64_t missing, uint64_t task, void *arg)
{
    struct giver *giver = arg;
    EXPECT_EQ(resource, giver->resource);
    EXPECT(missing > 0);
    EXPECT_EQ(hd_checkpoint(1000), 0); /* The callback pays nothing. */
    if (giver->nursery) (void)budgets_look(giver->nursery);
    EXPECT(hd_budget_left().ops >= 0);
    giver->calls++;
    giver->missing = missing;
    giver->task = task;
    const int64_t amount = giver->left < giver->each ? giver->left : giver->each;
    giver->left -= amount;
    return amount;
}

static int compute_at_once(void *arg)
{
    return hd_checkpoint(*(unsigned *)arg);
}

static int ask(void *arg)
{
    (void)arg;
    struct giver giver = {.each = 10, .left = 50};
    const hd_nursery_options how = {
        .exhausted = HD_EXHAUSTED_ASK, .recharge = give, .recharge_arg = &giver};
    unsigned ops = 55;
    int64_t done = 0;
    hd_nursery nursery;
    budgets_open(&nursery, &ten, &how);
    EXPECT_EQ(budgets_run(&nursery, compute_at_once, &ops), 0);
    EXPECT_EQ(giver.calls, 5);
    EXPECT_EQ(giver.missing, 5); /* the last time */
    hd_task *task = budgets_spawn(&nursery, budgets_compute, &done);
    const uint64_t id = hd_task_id(task);
    EXPECT_EQ(rt_join(task), -EDQUOT);
    EXPECT_EQ(done, 5);
    EXPECT_EQ(giver.calls, 6); /* It gave nothing any more. */
    EXPECT_EQ(giver.task, id);
    EXPECT_EQ(giver.missing, 1);
    EXPECT_EQ(budgets_look(&nursery).given.ops, 60);
    EXPECT_EQ(hd_nursery_leave(&nursery), -EDQUOT);
    return 0;
}

TEST_WORLDS(the_callback_is_asked_for_more, options) { rt_run(ask, NULL, options); }

/* The callback for one resource comes in the middle of a payment of two. */
static int send_all_slowly(void *arg)
{
    const int item = 1;
    hd_chan *chan = arg;
    for (int i = 0; i < 50; i++) {
        const int err = hd_chan_send(chan, &item);
        if (err) return err;
    }
    return 0;
}

static int ask_for_one_of_two(void *arg)
{
    (void)arg;
    const hd_budget budget = {.ops = 1000, .channel_ops = 10};
    hd_nursery nursery;
    struct giver giver = {
        .resource = HD_CHANNEL_OPS, .nursery = &nursery, .each = 1, .left = 40};
    const hd_nursery_options how = {
        .exhausted = HD_EXHAUSTED_ASK, .recharge = give, .recharge_arg = &giver};
    hd_chan *chan = hd_chan_create(sizeof(int), 100);
    budgets_open(&nursery, &budget, &how);
    EXPECT_EQ(budgets_run(&nursery, send_all_slowly, chan), 0);
    EXPECT_EQ(giver.calls, 40);
    EXPECT_EQ(budgets_look(&nursery).consumed.ops, 50);
    EXPECT_EQ(budgets_look(&nursery).consumed.channel_ops, 50);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    hd_chan_destroy(chan);
    return 0;
}

TEST_WORLDS(the_callback_may_look_at_the_pool, options)
{
    rt_run(ask_for_one_of_two, NULL, options);
}

/* An inner pool's callback cannot give what the pool around has not. */
static int ask_inside(void *arg)
{
    struct giver *giver = arg;
    const hd_nursery_options how = {
        .exhausted = HD_EXHAUSTED_ASK, .recharge = give, .recharge_arg = giver};
    const hd_budget budget = {.channel_ops = 10};
    int64_t done = 0;
    hd_nursery inner;
    budgets_open(&inner, &budget, &how);
    EXPECT_EQ(budgets_run(&inner, budgets_look_into_chan, &done), -EDQUOT);
    EXPECT_EQ(hd_nursery_leave(&inner), -EDQUOT);
    return (int)done;
}

static int ask_around(void *arg)
{
    (void)arg;
    struct giver giver = {.resource = HD_CHANNEL_OPS, .each = 1000, .left = 1000000};
    const hd_budget budget = {.channel_ops = 25};
    hd_nursery outer;
    budgets_open(&outer, &budget, NULL);
    EXPECT_EQ(budgets_run(&outer, ask_inside, &giver), 25);
    EXPECT_EQ(budgets_look(&outer).consumed.channel_ops, 25);
    EXPECT_EQ(hd_nursery_leave(&outer), 0);
    return 0;
}

TEST_WORLDS(nobody_is_given_what_the_pool_around_has_not, options)
{
    rt_run(ask_around, NULL, options);
}

/* ---- cancelling ---- */

static int cancelled_by_budget(void *arg)
{
    int64_t *done = arg;
    EXPECT_EQ(budgets_compute(done), -ECANCELED);
    EXPECT(hd_cancelled());
    const hd_cause cause = hd_self_cause();
    EXPECT_EQ(cause.reason, HD_REASON_FAILURE);
    EXPECT_EQ(cause.root, HD_REASON_FAILURE);
    EXPECT_EQ(cause.error, -EDQUOT);
    EXPECT_EQ(cause.task, hd_self_id());
    EXPECT_EQ(hd_sleep_until(HD_FOREVER), -ECANCELED);
    return -ECANCELED;
}

static int cancel(void *arg)
{
    (void)arg;
    const hd_nursery_options how = {.exhausted = HD_EXHAUSTED_CANCEL};
    int64_t done = 0, none = 0;
    hd_nursery nursery;
    budgets_open(&nursery, &ten, &how);
    hd_task *task = budgets_spawn(&nursery, cancelled_by_budget, &done);
    EXPECT_EQ(rt_join(task), -ECANCELED);
    EXPECT_EQ(done, 10);
    EXPECT_EQ(budgets_run(&nursery, budgets_idle, NULL), 0); /* Nobody else is. */
    EXPECT_EQ(budgets_run(&nursery, budgets_compute_some, &none), 0);
    EXPECT_EQ(hd_nursery_look(&nursery).state, HD_NURSERY_OPEN);
    EXPECT_EQ(hd_nursery_leave(&nursery), -ECANCELED);
    return 0;
}

TEST_WORLDS(a_task_is_cancelled_for_it, options) { rt_run(cancel, NULL, options); }

/* ---- reports ---- */

static void expect_dump(bool exhausted, const char *resource)
{
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    hd_runtime_dump(hd_runtime_self(), out);
    fclose(out);
    char line[64];
    snprintf(line, sizeof(line), "budget exhausted: %s", resource);
    EXPECT_EQ(strstr(text, line) != NULL, exhausted);
    free(text);
}

static int report(void *arg)
{
    (void)arg;
    int64_t ops = 11;
    hd_nursery nursery;
    budgets_open(&nursery, &ten, &waits);
    hd_task *task = budgets_spawn(&nursery, budgets_compute_some, &ops);
    until_waiting(&nursery, 1);
    expect_dump(true, "ops");
    expect_dump(false, "memory");
    add_ops(&nursery, 1);
    EXPECT_EQ(rt_join(task), 0);
    expect_dump(false, "ops");
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    return 0;
}

TEST_WORLDS(a_dump_says_who_is_exhausted, options) { rt_run(report, NULL, options); }

static int go_on_after_refusal(void *arg)
{
    hd_nursery *nursery = arg;
    EXPECT_EQ(hd_checkpoint(11), -EDQUOT);
    expect_dump(true, "ops");
    EXPECT_EQ(hd_checkpoint(10), 0);
    expect_dump(false, "ops");
    EXPECT_EQ(hd_checkpoint(1), -EDQUOT);
    expect_dump(true, "ops");
    add_ops(nursery, 1);
    EXPECT_EQ(hd_checkpoint(1), 0);
    expect_dump(false, "ops");
    const hd_budget more = {.ops = 100, .spawn_count = 1};
    void *block;
    EXPECT_EQ(hd_budget_recharge(nursery, &more), 0);
    EXPECT_EQ(hd_alloc(1, &block), -EDQUOT);
    EXPECT_EQ(hd_checkpoint(50), 0); /* Of something else it has enough. */
    expect_dump(true, "memory");
    EXPECT_EQ(hd_go(nursery, budgets_idle, NULL), 0);
    EXPECT_EQ(hd_go(nursery, budgets_idle, NULL), -EDQUOT);
    expect_dump(true, "spawn_count");
    const hd_budget spawns = {.spawn_count = 1};
    EXPECT_EQ(hd_budget_recharge(nursery, &spawns), 0);
    EXPECT_EQ(hd_go(nursery, budgets_idle, NULL), 0);
    expect_dump(false, "spawn_count");
    return 0;
}

static int report_refusal(void *arg)
{
    (void)arg;
    const hd_budget budget = {.ops = 10, .memory = HD_NOTHING, .spawn_count = HD_NOTHING};
    hd_nursery nursery;
    budgets_open(&nursery, &budget, NULL);
    EXPECT_EQ(budgets_run(&nursery, go_on_after_refusal, &nursery), 0);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    return 0;
}

TEST_WORLDS(it_is_exhausted_until_it_draws_again, options)
{
    rt_run(report_refusal, NULL, options);
}
