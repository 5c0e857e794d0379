/* SPDX-License-Identifier: MIT
 *
 * The compiler ABI.
 */
#include "rt.h"

TEST_MAIN

/* ---- children ---- */

static atomic_int count;

static int add(void *arg)
{
    hd_yield();
    atomic_fetch_add(&count, *(int *)arg);
    return 0;
}

static int add_one(void)
{
    hd_yield();
    atomic_fetch_add(&count, 1);
    return 0;
}

static int return_it(void *arg)
{
    return *(int *)arg;
}

/* Until a cancel. */
static int linger(void *arg)
{
    (void)arg;
    int err = 0;
    while (!err) err = hd_park();
    return err;
}

/* Heeds a cancel without saying so. */
static int linger_quietly(void *arg)
{
    (void)linger(arg);
    return 0;
}

static int sleep_long(void *arg)
{
    (void)arg;
    return hd_sleep_ms(3600 * 1000);
}

static void expect_result(janus_result result, janus_kind kind, int error)
{
    EXPECT_EQ(result.kind, kind);
    EXPECT_EQ(result.error, error);
    if (kind != JANUS_CHILD_FAILED) EXPECT_EQ(result.task, 0);
}

static janus_nursery *open_nursery(void)
{
    janus_nursery *nursery = janus_nursery_create();
    EXPECT(nursery != NULL);
    return nursery;
}

/* ---- nurseries ---- */

static int all_children(void *arg)
{
    (void)arg;
    int ten = 10;
    atomic_store(&count, 0);
    janus_nursery *nursery = open_nursery();
    janus_task *first = janus_nursery_spawn(nursery, add, &ten);
    janus_task *second = janus_nursery_spawn0(nursery, add_one);
    EXPECT(first && second && janus_task_id(first) != janus_task_id(second));
    EXPECT(janus_task_id(first) != 0);
    expect_result(janus_nursery_await(nursery), JANUS_OK, 0);
    EXPECT_EQ(atomic_load(&count), 11);
    expect_result(janus_nursery_await(nursery), JANUS_OK, 0); /* again */
    EXPECT_EQ(janus_nursery_error(nursery), 0);
    EXPECT(janus_nursery_spawn(nursery, add, &ten) == NULL); /* it is closed */
    EXPECT_EQ(janus_nursery_error(nursery), -EPIPE);
    janus_nursery_destroy(nursery);

    nursery = open_nursery(); /* without children */
    expect_result(janus_nursery_await(nursery), JANUS_OK, 0);
    janus_nursery_destroy(nursery);
    return 0;
}

TEST_WORLDS(await_waits_for_all_children, options) { rt_run(all_children, NULL, options); }

static int destroy_waits(void *arg)
{
    (void)arg;
    atomic_store(&count, 0);
    janus_nursery *outer = open_nursery(), *inner = open_nursery();
    for (int i = 0; i < 5; i++) {
        EXPECT(janus_nursery_spawn0(outer, add_one) != NULL);
        EXPECT(janus_nursery_spawn0(inner, add_one) != NULL);
    }
    janus_nursery_destroy(inner);
    EXPECT(atomic_load(&count) >= 5);
    janus_nursery_destroy(outer);
    EXPECT_EQ(atomic_load(&count), 10);
    return 0;
}

TEST_WORLDS(destroy_waits_too, options) { rt_run(destroy_waits, NULL, options); }

static int first_error(void *arg)
{
    (void)arg;
    int error = -EIO, fine = 3;
    janus_nursery *nursery = open_nursery();
    EXPECT(janus_nursery_spawn(nursery, linger, NULL) != NULL);
    EXPECT(janus_nursery_spawn(nursery, return_it, &fine) != NULL); /* more than 0 is no error */
    janus_task *bad = janus_nursery_spawn(nursery, return_it, &error);
    const janus_result result = janus_nursery_await(nursery);
    expect_result(result, JANUS_CHILD_FAILED, -EIO);
    EXPECT_EQ(result.task, janus_task_id(bad));
    janus_nursery_destroy(nursery);
    EXPECT(!hd_cancelled()); /* The cancel was the nursery's, not this task's. */
    return 0;
}

TEST_WORLDS(the_first_error_is_the_result, options) { rt_run(first_error, NULL, options); }

static int cancels(void *arg)
{
    (void)arg;
    janus_nursery *nursery = open_nursery();
    EXPECT(janus_nursery_spawn(nursery, linger, NULL) != NULL);
    janus_nursery_cancel(nursery);
    EXPECT(janus_nursery_spawn0(nursery, add_one) == NULL);
    EXPECT_EQ(janus_nursery_error(nursery), -ECANCELED);
    expect_result(janus_nursery_await(nursery), JANUS_CANCELLED, -ECANCELED);
    janus_nursery_destroy(nursery);

    nursery = open_nursery(); /* A cancel that no child reports is none. */
    EXPECT(janus_nursery_spawn(nursery, linger_quietly, NULL) != NULL);
    janus_nursery_cancel(nursery);
    expect_result(janus_nursery_await(nursery), JANUS_OK, 0);
    janus_nursery_destroy(nursery);

    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    options.deadline = hd_after_ms(5);
    EXPECT_EQ(janus_nursery_create_with(&options, &nursery), 0);
    /* On a machine that is busy the deadline may have passed; in sim it has not. */
    if (janus_nursery_spawn(nursery, sleep_long, NULL)) {
        expect_result(janus_nursery_await(nursery), JANUS_TIMED_OUT, -ETIMEDOUT);
    } else {
        EXPECT(hd_runtime_world(hd_runtime_self()) == HD_WORLD_LIVE);
        EXPECT_EQ(janus_nursery_error(nursery), -ECANCELED);
        expect_result(janus_nursery_await(nursery), JANUS_OK, 0);
    }
    janus_nursery_destroy(nursery);
    return 0;
}

TEST_WORLDS(cancelled_and_timed_out_are_results, options) { rt_run(cancels, NULL, options); }

static int returns_error(void *arg)
{
    janus_nursery *nursery = open_nursery();
    janus_task *bad = janus_nursery_spawn(nursery, return_it, arg);
    const janus_result result = janus_nursery_await(nursery);
    expect_result(result, JANUS_CHILD_FAILED, *(int *)arg);
    EXPECT_EQ(result.task, janus_task_id(bad));
    janus_nursery_destroy(nursery);
    return 0;
}

/* What means something else for the nursery is the child's error if the child says it by itself. */
TEST_WORLDS(every_error_is_the_childs, options)
{
    int errors[] = {-EDEADLK, -ETIMEDOUT, -EINVAL};
    for (int i = 0; i < 3; i++) rt_run(returns_error, &errors[i], options);
}

/* ---- trees ---- */

static atomic_int lingering;

static int linger_counted(void *arg)
{
    atomic_fetch_add(&lingering, 1);
    const int err = linger(arg);
    atomic_fetch_sub(&lingering, 1);
    return err;
}

/* A task that owns a nursery with another level in it. */
static int own_tree(void *arg)
{
    const int levels = *(int *)arg;
    int next = levels - 1;
    janus_nursery *nursery = open_nursery();
    EXPECT(janus_nursery_spawn(nursery, linger_counted, NULL) != NULL);
    if (levels > 1) EXPECT(janus_nursery_spawn(nursery, own_tree, &next) != NULL);
    const janus_result result = janus_nursery_await(nursery);
    janus_nursery_destroy(nursery);
    return result.error;
}

static int cancel_a_tree(void *arg)
{
    enum { LEVELS = 8 };
    (void)arg;
    int levels = LEVELS;
    atomic_store(&lingering, 0);
    janus_nursery *nursery = open_nursery();
    EXPECT(janus_nursery_spawn(nursery, own_tree, &levels) != NULL);
    while (atomic_load(&lingering) < LEVELS) hd_yield();
    janus_nursery_cancel(nursery);
    expect_result(janus_nursery_await(nursery), JANUS_CANCELLED, -ECANCELED);
    EXPECT_EQ(atomic_load(&lingering), 0);
    janus_nursery_destroy(nursery);
    return 0;
}

TEST_WORLDS(a_cancel_goes_down_the_tree, options) { rt_run(cancel_a_tree, NULL, options); }

/* ---- threads ---- */

TEST_WORLDS(a_thread_owns_a_nursery_too, options)
{
    hd_runtime *runtime = rt_create(options);
    janus_nursery *nursery = NULL;
    EXPECT(janus_nursery_create() == NULL); /* in which runtime? */
    EXPECT_EQ(janus_nursery_create_with(NULL, &nursery), -EINVAL);
    EXPECT(nursery == NULL);
    hd_nursery_options own = HD_NURSERY_OPTIONS_INIT;
    own.runtime = runtime;
    EXPECT_EQ(janus_nursery_create_with(&own, &nursery), 0);
    atomic_store(&count, 0);
    for (int i = 0; i < 10; i++) EXPECT(janus_nursery_spawn0(nursery, add_one) != NULL);
    expect_result(janus_nursery_await(nursery), JANUS_OK, 0);
    EXPECT_EQ(atomic_load(&count), 10);
    janus_nursery_destroy(nursery);
    hd_runtime_destroy(runtime);
}

TEST(a_stuck_nursery_stays)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    hd_runtime *runtime = rt_create(&options);
    janus_nursery *nursery;
    hd_nursery_options own = HD_NURSERY_OPTIONS_INIT;
    own.runtime = runtime;
    EXPECT_EQ(janus_nursery_create_with(&own, &nursery), 0);
    EXPECT(janus_nursery_spawn(nursery, linger, NULL) != NULL);
    expect_result(janus_nursery_await(nursery), JANUS_STUCK, -EDEADLK);
    janus_nursery_destroy(nursery); /* does nothing yet */
    janus_nursery_cancel(nursery);
    expect_result(janus_nursery_await(nursery), JANUS_CANCELLED, -ECANCELED);
    janus_nursery_destroy(nursery);
    hd_runtime_destroy(runtime);
}

/* ---- nothing at all ---- */

static int square(void *arg, int64_t *value)
{
    hd_yield();
    *value = *(int64_t *)arg * *(int64_t *)arg;
    return 0;
}

TEST(null_is_refused)
{
    int64_t value = 5;
    EXPECT(janus_nursery_spawn(NULL, add, NULL) == NULL);
    EXPECT(janus_nursery_spawn0(NULL, add_one) == NULL);
    EXPECT(janus_async(NULL, square, &value) == NULL);
    EXPECT_EQ(janus_task_id(NULL), 0);
    EXPECT_EQ(janus_nursery_error(NULL), -EINVAL);
    expect_result(janus_nursery_await(NULL), JANUS_NONE, -EINVAL);
    janus_nursery_cancel(NULL);
    janus_nursery_destroy(NULL);
    EXPECT_EQ(janus_await(NULL, &value), -EINVAL);
    EXPECT_EQ(janus_chan_send(NULL, 1), -EINVAL);
    EXPECT_EQ(janus_chan_recv(NULL, &value), -EINVAL);
    EXPECT_EQ(janus_chan_send_try(NULL, 1), -EINVAL);
    EXPECT_EQ(janus_chan_recv_try(NULL, &value), -EINVAL);
    EXPECT_EQ(janus_chan_close(NULL), -EINVAL);
    janus_chan_destroy(NULL);
    EXPECT_EQ(janus_budget_recharge(NULL, HD_OPS, 1), -EINVAL);
    EXPECT_EQ(value, 5);
}

/* ---- async and await ---- */

static int squares(void *arg)
{
    enum { TASKS = 50 };
    (void)arg;
    int64_t numbers[TASKS], value;
    janus_future *futures[TASKS];
    janus_nursery *nursery = open_nursery();
    for (int i = 0; i < TASKS; i++) {
        numbers[i] = i;
        futures[i] = janus_async(nursery, square, &numbers[i]);
        EXPECT(futures[i] != NULL);
    }
    for (int i = TASKS - 1; i >= 0; i -= 2) { /* every second one, the others are never awaited */
        EXPECT_EQ(janus_await(futures[i], &value), 0);
        EXPECT_EQ(value, (int64_t)i * i);
    }
    expect_result(janus_nursery_await(nursery), JANUS_OK, 0);
    EXPECT_EQ(janus_await(futures[0], &value), 0); /* also when all has ended */
    EXPECT_EQ(value, 0);
    janus_nursery_destroy(nursery);
    return 0;
}

TEST_WORLDS(await_gives_the_value, options) { rt_run(squares, NULL, options); }

static int least(void *arg, int64_t *value)
{
    (void)arg;
    *value = INT64_MIN; /* No value is an error. */
    return 1;
}

static int fail_async(void *arg, int64_t *value)
{
    (void)arg;
    *value = 7;
    hd_yield();
    return -EIO;
}

static int linger_async(void *arg, int64_t *value)
{
    (void)value;
    return linger(arg);
}

static int await_errors(void *arg)
{
    (void)arg;
    int64_t value = 5;
    janus_nursery *nursery = open_nursery();
    EXPECT_EQ(janus_await(janus_async(nursery, least, NULL), &value), 0);
    EXPECT(value == INT64_MIN);
    value = 5;
    EXPECT_EQ(janus_await(janus_async(nursery, fail_async, NULL), &value), -EIO);
    EXPECT_EQ(value, 5);
    expect_result(janus_nursery_await(nursery), JANUS_CHILD_FAILED, -EIO);
    EXPECT(janus_async(nursery, least, NULL) == NULL);
    EXPECT_EQ(janus_nursery_error(nursery), -ECANCELED);
    janus_nursery_destroy(nursery);
    return 0;
}

TEST_WORLDS(await_gives_the_error, options) { rt_run(await_errors, NULL, options); }

static int await_cancelled(void *arg)
{
    (void)arg;
    int64_t value = 5, two = 2;
    janus_nursery *ended = open_nursery();
    janus_future *done = janus_async(ended, square, &two);
    expect_result(janus_nursery_await(ended), JANUS_OK, 0);
    janus_nursery *lasting = open_nursery();
    janus_future *never = janus_async(lasting, linger_async, NULL);
    janus_nursery *inner = open_nursery();
    janus_nursery_cancel(inner); /* The body of all three is this task. */
    EXPECT(hd_cancelled());
    EXPECT_EQ(janus_await(never, &value), -ECANCELED);
    EXPECT_EQ(value, 5);
    EXPECT_EQ(janus_await(done, &value), 0); /* What is there beats a cancel. */
    EXPECT_EQ(value, 4);
    janus_nursery_destroy(inner);
    EXPECT(!hd_cancelled());
    janus_nursery_cancel(lasting);
    expect_result(janus_nursery_await(lasting), JANUS_CANCELLED, -ECANCELED);
    janus_nursery_destroy(lasting);
    janus_nursery_destroy(ended);
    return 0;
}

TEST_WORLDS(who_awaits_can_be_cancelled, options) { rt_run(await_cancelled, NULL, options); }

struct relay {
    janus_future *future;
    int64_t value;
};

static int await_for_another(void *arg)
{
    struct relay *relay = arg;
    return janus_await(relay->future, &relay->value);
}

static int await_in_child(void *arg)
{
    enum { TASKS = 20 };
    (void)arg;
    int64_t numbers[TASKS];
    struct relay relays[TASKS];
    janus_nursery *nursery = open_nursery();
    for (int i = 0; i < TASKS; i++) { /* Their futures come and go while others are made. */
        numbers[i] = -i;
        relays[i].future = janus_async(nursery, square, &numbers[i]);
        EXPECT(janus_nursery_spawn(nursery, await_for_another, &relays[i]) != NULL);
    }
    expect_result(janus_nursery_await(nursery), JANUS_OK, 0);
    for (int i = 0; i < TASKS; i++) EXPECT_EQ(relays[i].value, (int64_t)i * i);
    janus_nursery_destroy(nursery);
    return 0;
}

TEST_WORLDS(another_child_may_await, options) { rt_run(await_in_child, NULL, options); }

TEST_WORLDS(a_thread_awaits_too, options)
{
    hd_runtime *runtime = rt_create(options);
    janus_nursery *nursery;
    hd_nursery_options own = HD_NURSERY_OPTIONS_INIT;
    own.runtime = runtime;
    EXPECT_EQ(janus_nursery_create_with(&own, &nursery), 0);
    int64_t nine = 9, value = 0;
    EXPECT_EQ(janus_await(janus_async(nursery, square, &nine), &value), 0);
    EXPECT_EQ(value, 81);
    janus_nursery_destroy(nursery);
    hd_runtime_destroy(runtime);
}

/* ---- channels ---- */

enum { ITEMS = 100 };

static int produce(void *arg)
{
    for (int64_t i = 1; i <= ITEMS; i++) {
        const int err = janus_chan_send(arg, i);
        if (err) return err;
    }
    return janus_chan_close(arg);
}

static int consume(void *arg)
{
    const size_t capacity = *(size_t *)arg;
    janus_chan *chan = janus_chan_create(capacity);
    EXPECT(chan != NULL);
    janus_nursery *nursery = open_nursery();
    EXPECT(janus_nursery_spawn(nursery, produce, chan) != NULL);
    int64_t value = 0, sum = 0;
    int err;
    while ((err = janus_chan_recv(chan, &value)) == 0) sum += value;
    EXPECT_EQ(err, -EPIPE);
    EXPECT_EQ(sum, ITEMS * (ITEMS + 1) / 2);
    expect_result(janus_nursery_await(nursery), JANUS_OK, 0);
    EXPECT_EQ(janus_chan_close(chan), -EPIPE);
    EXPECT_EQ(janus_chan_send(chan, 1), -EPIPE);
    janus_nursery_destroy(nursery);
    janus_chan_destroy(chan);
    return 0;
}

TEST_WORLDS(channels_carry_integers, options)
{
    size_t capacities[] = {0, 1, 7};
    for (int i = 0; i < 3; i++) rt_run(consume, &capacities[i], options);
}

static int try_them(void *arg)
{
    (void)arg;
    int64_t value = 5;
    janus_chan *chan = janus_chan_create(1);
    EXPECT_EQ(janus_chan_recv_try(chan, &value), -EAGAIN);
    EXPECT_EQ(value, 5);
    EXPECT_EQ(janus_chan_send_try(chan, INT64_MIN), 0);
    EXPECT_EQ(janus_chan_send_try(chan, 1), -EAGAIN);
    EXPECT_EQ(janus_chan_recv_try(chan, &value), 0);
    EXPECT(value == INT64_MIN);
    janus_chan_destroy(chan);
    return 0;
}

TEST_WORLDS(channels_can_be_tried, options) { rt_run(try_them, NULL, options); }

/* ---- select ---- */

static int select_all(void *arg)
{
    (void)arg;
    janus_chan *numbers = janus_chan_create(0), *out = janus_chan_create(ITEMS);
    janus_nursery *nursery = open_nursery();
    EXPECT(janus_nursery_spawn(nursery, produce, numbers) != NULL);
    int64_t sum = 0;
    int sent = 0;
    for (bool open = true; open || sent < ITEMS;) {
        janus_case cases[] = {{JANUS_RECV, 1, open ? numbers : NULL, 0},
                              {JANUS_NEVER, 1, out, 0},
                              {sent < ITEMS ? JANUS_SEND : JANUS_NEVER, 1, out, -sent}};
        const int chosen = janus_select(cases, 3);
        if (chosen == 0) {
            open = cases[0].result == 0;
            if (open) sum += cases[0].value;
            if (!open) EXPECT_EQ(cases[0].result, -EPIPE);
        } else {
            EXPECT_EQ(chosen, 2);
            EXPECT_EQ(cases[2].result, 0);
            sent++;
        }
    }
    EXPECT_EQ(sum, ITEMS * (ITEMS + 1) / 2);
    for (int i = 0; i < ITEMS; i++) {
        int64_t value = 1;
        EXPECT_EQ(janus_chan_recv_try(out, &value), 0);
        EXPECT_EQ(value, -i);
    }
    janus_nursery_destroy(nursery);
    janus_chan_destroy(numbers);
    janus_chan_destroy(out);
    return 0;
}

TEST_WORLDS(select_takes_what_comes, options) { rt_run(select_all, NULL, options); }

static int select_nothing(void *arg)
{
    (void)arg;
    janus_chan *chan = janus_chan_create(1);
    janus_case cases[JANUS_SELECT_MAX + 1] = {{JANUS_RECV, 1, chan, 5}};
    EXPECT_EQ(janus_select_until(cases, 1, HD_NOW), -EAGAIN);
    EXPECT_EQ(janus_select_until(cases, 1, hd_after_ms(2)), -ETIMEDOUT);
    EXPECT_EQ(cases[0].value, 5);
    EXPECT_EQ(cases[0].result, 1); /* No case happened. */
    EXPECT_EQ(janus_select(cases, 0), -EINVAL);
    EXPECT_EQ(janus_select(cases, JANUS_SELECT_MAX + 1), -EINVAL);
    EXPECT_EQ(janus_select_until(cases, JANUS_SELECT_MAX, HD_NOW), -EAGAIN);
    cases[1].kind = JANUS_SEND + 1;
    EXPECT_EQ(janus_select(cases, 2), -EINVAL);
    cases[1] = (janus_case){JANUS_SEND, 1, chan, 8};
    EXPECT_EQ(janus_select_until(cases, 2, HD_NOW), 1);
    EXPECT_EQ(janus_select_until(cases, 2, HD_NOW), 0);
    EXPECT_EQ(cases[0].value, 8);
    janus_chan_destroy(chan);
    return 0;
}

TEST_WORLDS(select_gives_up, options) { rt_run(select_nothing, NULL, options); }

static int select_for_ever(void *arg)
{
    janus_case one = {JANUS_RECV, 0, arg, 0};
    return janus_select(&one, 1);
}

static int select_cancelled(void *arg)
{
    (void)arg;
    janus_chan *chan = janus_chan_create(0);
    janus_nursery *nursery = open_nursery();
    EXPECT(janus_nursery_spawn(nursery, select_for_ever, chan) != NULL);
    hd_yield();
    janus_nursery_cancel(nursery);
    expect_result(janus_nursery_await(nursery), JANUS_CANCELLED, -ECANCELED);
    janus_nursery_destroy(nursery);
    janus_chan_destroy(chan);
    return 0;
}

TEST_WORLDS(select_can_be_cancelled, options) { rt_run(select_cancelled, NULL, options); }

/* ---- budgets ---- */

enum { OPS = 10000 };

/* Computes until it may not. */
static int use_up(void *arg)
{
    int64_t *paid = arg;
    const int64_t left = janus_budget_left(HD_OPS);
    EXPECT(left > OPS / 2 && left <= 10 * OPS);
    EXPECT_EQ(janus_budget_left(HD_CHANNEL_OPS), HD_UNLIMITED);
    int err;
    while ((err = janus_checkpoint(10)) == 0) *paid += 10;
    return err;
}

static int spend(void *arg)
{
    (void)arg;
    int64_t paid = 0;
    const hd_budget budget = {.ops = OPS};
    janus_nursery *nursery = janus_nursery_create_budget(&budget);
    EXPECT(nursery != NULL);
    EXPECT(janus_nursery_spawn(nursery, use_up, &paid) != NULL);
    expect_result(janus_nursery_await(nursery), JANUS_CHILD_FAILED, -EDQUOT);
    EXPECT(paid > OPS / 2 && paid <= OPS);
    janus_nursery_destroy(nursery);
    EXPECT_EQ(janus_budget_left(HD_OPS), HD_UNLIMITED); /* of this task */
    EXPECT_EQ(janus_budget_left(-1), -EINVAL);
    EXPECT_EQ(janus_budget_left(HD_RESOURCES), -EINVAL);
    return 0;
}

TEST_WORLDS(a_budget_ends_a_loop, options) { rt_run(spend, NULL, options); }

static int recharge(void *arg)
{
    (void)arg;
    int64_t paid = 0;
    const hd_budget budget = {.ops = OPS};
    janus_nursery *nursery = janus_nursery_create_budget(&budget);
    EXPECT_EQ(janus_budget_recharge(nursery, HD_OPS, 9 * OPS), 0);
    EXPECT_EQ(janus_budget_recharge(nursery, HD_OPS, -1), -EINVAL);
    EXPECT_EQ(janus_budget_recharge(nursery, HD_RESOURCES, 1), -EINVAL);
    EXPECT(janus_nursery_spawn(nursery, use_up, &paid) != NULL);
    expect_result(janus_nursery_await(nursery), JANUS_CHILD_FAILED, -EDQUOT);
    EXPECT(paid > 9 * OPS && paid <= 10 * OPS);
    janus_nursery_destroy(nursery);
    nursery = open_nursery();
    EXPECT_EQ(janus_budget_recharge(nursery, HD_OPS, 1), -ENOENT); /* It has no pool. */
    janus_nursery_destroy(nursery);
    return 0;
}

TEST_WORLDS(a_budget_can_be_recharged, options) { rt_run(recharge, NULL, options); }

static int spawn_three(void *arg)
{
    (void)arg;
    janus_nursery *nursery = open_nursery();
    for (int i = 0; i < 2; i++) EXPECT(janus_nursery_spawn0(nursery, add_one) != NULL);
    int64_t one = 1;
    EXPECT(janus_async(nursery, square, &one) != NULL);
    EXPECT(janus_nursery_spawn0(nursery, add_one) == NULL);
    EXPECT_EQ(janus_nursery_error(nursery), -EDQUOT);
    EXPECT(janus_async(nursery, square, &one) == NULL);
    EXPECT_EQ(janus_nursery_error(nursery), -EDQUOT);
    janus_nursery_destroy(nursery);
    return 0;
}

static int refuse_spawns(void *arg)
{
    (void)arg;
    const hd_budget budget = {.spawn_count = 3};
    janus_nursery *nursery = janus_nursery_create_budget(&budget);
    EXPECT(janus_nursery_spawn(nursery, spawn_three, NULL) != NULL);
    expect_result(janus_nursery_await(nursery), JANUS_OK, 0);
    janus_nursery_destroy(nursery);
    return 0;
}

TEST_WORLDS(a_budget_refuses_spawns, options) { rt_run(refuse_spawns, NULL, options); }
