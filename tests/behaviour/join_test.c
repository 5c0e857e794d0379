/* SPDX-License-Identifier: MIT
 *
 * Waiting for the end of a task: from a fiber, a stackless task and a thread.
 */
#include "rt.h"

#include <pthread.h>

#include "death.h"

TEST_MAIN

static int add_one(void *arg)
{
    return *(int *)arg + 1;
}

static int yield_then_7(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) hd_yield();
    return 7;
}

/* A fiber that sleeps until it is let go. */
struct gate {
    atomic_int asleep, open;
    int saw; /* what the last park returned */
    hd_waker waker;
};

static int pass(void *arg)
{
    struct gate *gate = arg;
    gate->waker = hd_waker_self();
    atomic_store(&gate->asleep, 1);
    while (!atomic_load(&gate->open) && gate->saw == 0) gate->saw = hd_park();
    return 42;
}

static void open_gate(struct gate *gate)
{
    atomic_store(&gate->open, 1);
    hd_waker_wake(gate->waker);
}

/* ---- results ---- */

static int join_from_fiber(void *arg)
{
    (void)arg;
    int n = 41, result = 0;
    hd_task *task = rt_spawn(NULL, add_one, &n);
    EXPECT_EQ(hd_join(task, &result), 0);
    EXPECT_EQ(result, 42);
    EXPECT_EQ(hd_join(rt_spawn(NULL, add_one, &n), NULL), 0);
    n = -EPIPE - 1; /* results are the task's own, errors or not */
    EXPECT_EQ(rt_join(rt_spawn(NULL, add_one, &n)), -EPIPE);
    return 0;
}

TEST_WORLDS(a_fiber_joins_a_fiber, options)
{
    rt_run(join_from_fiber, NULL, options);
}

TEST_WORLDS(a_thread_joins_a_fiber, options)
{
    hd_runtime *runtime = rt_create(options);
    int n = 41, result = 0;
    hd_task *task = rt_spawn(runtime, add_one, &n);
    EXPECT_EQ(hd_join(task, &result), 0);
    EXPECT_EQ(result, 42);
    EXPECT_EQ(hd_join(rt_spawn(runtime, yield_then_7, NULL), NULL), 0);
    hd_runtime_destroy(runtime);
}

TEST_WORLDS(run_returns_what_the_first_fiber_returned, options)
{
    int n = 122;
    EXPECT_EQ(hd_run(add_one, &n, options), 123);
    n = -2;
    EXPECT_EQ(hd_run(add_one, &n, options), -1);
}

struct poll_join {
    hd_task *task;
    int polls, joined;
};

static hd_poll join_ten(void *state, int *result)
{
    struct poll_join *self = state;
    self->polls++;
    while (self->joined < 10) {
        if (!self->task) self->task = rt_spawn(NULL, yield_then_7, NULL);
        int got = 0;
        if (hd_join_poll(self->task, &got) == HD_PENDING) {
            EXPECT_EQ(got, 0);
            return HD_PENDING;
        }
        EXPECT_EQ(got, 7);
        self->task = NULL;
        self->joined++;
    }
    *result = self->polls;
    return HD_READY;
}

TEST_WORLDS(a_stackless_task_joins_fibers_one_after_another, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_task *task = rt_spawn_poll(runtime, join_ten, NULL, sizeof(struct poll_join));
    const int polls = rt_join(task);
    EXPECT(polls >= 1 && polls <= 11); /* each end wakes it once, not more */
    if (rt_is_sim(options)) EXPECT_EQ(polls, 11);
    hd_runtime_destroy(runtime);
}

static hd_poll join_one(void *state, int *result)
{
    hd_task **task = state;
    return hd_join_poll(*task, result);
}

TEST_WORLDS(a_stackless_task_joins_a_stackless_task, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_task *task = rt_spawn(runtime, yield_then_7, NULL);
    for (int i = 0; i < 100; i++) task = rt_spawn_poll(runtime, join_one, &task, sizeof(void *));
    EXPECT_EQ(rt_join(task), 7);
    hd_runtime_destroy(runtime);
}

TEST_WORLDS(a_task_that_ended_long_ago_is_joined_at_once, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_task *tasks[3];
    for (int i = 0; i < 3; i++) tasks[i] = rt_spawn(runtime, yield_then_7, NULL);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    EXPECT_EQ(rt_join(tasks[0]), 7);
    int result = 0;
    EXPECT_EQ(hd_join_until(tasks[1], &result, HD_NOW), 0);
    EXPECT_EQ(result, 7);
    EXPECT_EQ(rt_join(rt_spawn_poll(runtime, join_one, &tasks[2], sizeof(void *))), 7);
    hd_runtime_destroy(runtime);
}

static int fan_out(void *arg)
{
    int depth = *(int *)arg;
    if (depth == 0) return 1;
    depth--;
    hd_task *tasks[3];
    int sum = 0;
    for (int i = 0; i < 3; i++) tasks[i] = rt_spawn(NULL, fan_out, &depth);
    for (int i = 2; i >= 0; i--) sum += rt_join(tasks[i]);
    return sum;
}

TEST_WORLDS(a_tree_of_joins_adds_up, options)
{
    int depth = 6;
    EXPECT_EQ(hd_run(fan_out, &depth, options), 729);
}

static int join_given(void *arg)
{
    return rt_join(arg);
}

static int hand_over(void *arg)
{
    (void)arg;
    return rt_join(rt_spawn(NULL, join_given, rt_spawn(NULL, yield_then_7, NULL)));
}

TEST_WORLDS(a_handle_can_be_handed_over, options)
{
    EXPECT_EQ(hd_run(hand_over, NULL, options), 7);
}

static void *spawn_and_join(void *runtime)
{
    for (int i = 0; i < 50; i++) EXPECT_EQ(rt_join(rt_spawn(runtime, add_one, &i)), i + 1);
    return NULL;
}

TEST_WORLDS(several_threads_spawn_and_join_at_once, options)
{
    hd_runtime *runtime = rt_create(options);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(pthread_create(&threads[i], NULL, spawn_and_join, runtime), 0);
    }
    for (int i = 0; i < 4; i++) EXPECT_EQ(pthread_join(threads[i], NULL), 0);
    hd_runtime_destroy(runtime);
}

/* ---- waiting in vain, and again ---- */

static int wake_the_joiner_early(void *arg)
{
    const hd_waker *joiner = arg;
    for (int i = 0; i < 5; i++) {
        hd_waker_wake_keep(*joiner);
        hd_yield();
    }
    hd_waker_drop(*joiner);
    return 9;
}

static int join_with_wakes(void *arg)
{
    (void)arg;
    hd_waker self = hd_waker_self();
    EXPECT_EQ(rt_join(rt_spawn(NULL, wake_the_joiner_early, &self)), 9);
    return 0;
}

TEST_WORLDS(a_join_does_not_end_by_other_wakes, options)
{
    rt_run(join_with_wakes, NULL, options);
}

static int try_to_join(void *arg)
{
    (void)arg;
    struct gate gate = {.open = 0};
    hd_task *task = rt_spawn(NULL, pass, &gate);
    int result = -1;
    EXPECT_EQ(hd_join_try(task, &result), -EAGAIN);
    rt_until(&gate.asleep);
    EXPECT_EQ(hd_join_try(task, &result), -EAGAIN);
    EXPECT_EQ(result, -1);
    open_gate(&gate);
    while (hd_join_try(task, &result) == -EAGAIN) hd_yield();
    EXPECT_EQ(result, 42);
    return 0;
}

TEST_WORLDS(trying_does_not_wait, options)
{
    rt_run(try_to_join, NULL, options);
}

TEST_WORLDS(a_thread_joins_until_a_deadline_and_again, options)
{
    hd_runtime *runtime = rt_create(options);
    struct gate gate = {.open = 0};
    hd_task *task = rt_spawn(runtime, pass, &gate);
    rt_await(runtime, &gate.asleep);
    int result = -1;
    EXPECT_EQ(hd_join_until(task, &result, HD_NOW), -EAGAIN);
    const int64_t deadline = hd_now(runtime) + 1000000;
    EXPECT_EQ(hd_join_until(task, &result, deadline), -ETIMEDOUT);
    EXPECT(hd_now(runtime) >= deadline);
    EXPECT_EQ(hd_join_try(task, &result), -EAGAIN);
    EXPECT_EQ(result, -1);
    open_gate(&gate);
    EXPECT_EQ(hd_join_until(task, &result, HD_FOREVER), 0);
    EXPECT_EQ(result, 42);
    hd_runtime_destroy(runtime);
}

static int join_until_in_a_fiber(void *arg)
{
    struct gate *gate = arg;
    int result = -1;
    hd_task *task = rt_spawn(NULL, pass, gate);
    EXPECT_EQ(hd_join_until(task, &result, HD_NOW), -EAGAIN);
    const int64_t deadline = hd_now(NULL) + 1000000;
    EXPECT_EQ(hd_join_until(task, &result, deadline), -ETIMEDOUT);
    EXPECT(hd_now(NULL) >= deadline);
    EXPECT_EQ(hd_join_until(task, &result, deadline), -ETIMEDOUT); /* It is past. */
    EXPECT_EQ(result, -1);
    rt_until(&gate->asleep);
    open_gate(gate);
    EXPECT_EQ(hd_join_until(task, &result, HD_FOREVER), 0);
    EXPECT_EQ(result, 42);
    task = rt_spawn(NULL, yield_then_7, NULL);
    EXPECT_EQ(hd_join_until(task, &result, hd_after_ms(60000)), 0);
    EXPECT_EQ(result, 7);
    return 0;
}

TEST_WORLDS(a_fiber_joins_until_a_deadline_and_again, options)
{
    struct gate gate = {.open = 0};
    rt_run(join_until_in_a_fiber, &gate, options);
}

/* ---- never ---- */

struct self_join {
    hd_task *task;
    atomic_int set;
};

static int join_itself(void *arg)
{
    struct self_join *self = arg;
    rt_until(&self->set);
    int result = -1;
    EXPECT_EQ(hd_join(self->task, &result), -EDEADLK);
    EXPECT_EQ(result, -1);
    return 5;
}

static int spawn_self_joiner(void *arg)
{
    (void)arg;
    struct self_join self = {.set = 0};
    self.task = rt_spawn(NULL, join_itself, &self);
    atomic_store(&self.set, 1);
    EXPECT_EQ(rt_join(self.task), 5);
    return 0;
}

TEST_WORLDS(a_task_cannot_join_itself, options)
{
    rt_run(spawn_self_joiner, NULL, options);
}

static hd_poll join_as_a_fiber(void *state, int *result)
{
    (void)state;
    hd_task *task = rt_spawn(NULL, yield_then_7, NULL);
    EXPECT_EQ(hd_join(task, result), -EINVAL);
    EXPECT_EQ(hd_join_until(task, result, HD_FOREVER), -EINVAL);
    EXPECT_EQ(hd_join_try(task, result), -EAGAIN); /* with one worker it cannot have run */
    hd_detach(task);
    *result = 3;
    return HD_READY;
}

TEST_WORLDS(a_stackless_task_cannot_join_like_a_fiber, options)
{
    const hd_options one = rt_workers(options, 1);
    hd_runtime *runtime = rt_create(&one);
    EXPECT_EQ(rt_join(rt_spawn_poll(runtime, join_as_a_fiber, NULL, 0)), 3);
    hd_runtime_destroy(runtime);
}

static hd_options sim_options(void)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    return options;
}

TEST(in_sim_a_join_that_can_never_end_says_so)
{
    const hd_options options = sim_options();
    hd_runtime *runtime = rt_create(&options);
    struct gate gate = {.open = 0};
    hd_task *task = rt_spawn(runtime, pass, &gate);
    int result = -1;
    for (int i = 0; i < 3; i++) EXPECT_EQ(hd_join(task, &result), -EDEADLK);
    EXPECT_EQ(hd_join_until(task, &result, HD_FOREVER), -EDEADLK);
    EXPECT_EQ(result, -1);
    EXPECT_EQ(gate.saw, 0);
    hd_detach(task); /* the handle is still ours */
    hd_waker_drop(gate.waker);
    hd_runtime_destroy(runtime);
    EXPECT_EQ(gate.saw, -ECANCELED); /* its own code ended it */
}

TEST(in_sim_a_join_that_said_never_can_still_succeed)
{
    const hd_options options = sim_options();
    hd_runtime *runtime = rt_create(&options);
    struct gate gate = {.open = 0};
    hd_task *task = rt_spawn(runtime, pass, &gate);
    EXPECT_EQ(hd_join(task, NULL), -EDEADLK);
    open_gate(&gate);
    EXPECT_EQ(rt_join(task), 42);
    hd_runtime_destroy(runtime);
}

static int park_once(void *arg)
{
    int *saw = arg;
    *saw = hd_park();
    return 1;
}

TEST(in_sim_a_program_that_can_never_end_says_so)
{
    const hd_options options = sim_options();
    int saw = 0;
    EXPECT_EQ(hd_run(park_once, &saw, &options), -EDEADLK);
    EXPECT_EQ(saw, -ECANCELED);
}

/* ---- without a handle ---- */

static atomic_int ran;

static int count_runs(void *arg)
{
    (void)arg;
    hd_yield();
    atomic_fetch_add(&ran, 1);
    return 0;
}

TEST_WORLDS(detached_tasks_run_to_their_end, options)
{
    hd_runtime *runtime = rt_create(options);
    for (int i = 0; i < 20; i++) hd_detach(rt_spawn(runtime, count_runs, NULL));
    hd_spawn_options spawn = HD_SPAWN_OPTIONS_INIT;
    spawn.runtime = runtime;
    for (int i = 0; i < 20; i++) EXPECT_EQ(hd_spawn_with(NULL, count_runs, NULL, &spawn), 0);
    hd_task *ended = rt_spawn(runtime, count_runs, NULL);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    EXPECT_EQ(ran, 41);
    hd_detach(ended);
    hd_runtime_destroy(runtime);
}

struct giving_up {
    hd_task *task;
    atomic_int *pending;
    int polls;
};

/* Registers as the joiner, then detaches. */
static hd_poll give_up(void *state, int *result)
{
    struct giving_up *self = state;
    if (self->polls++ == 0) {
        EXPECT_EQ(hd_join_poll(self->task, result), HD_PENDING);
        hd_waker_wake(hd_waker_self());
        atomic_store(self->pending, 1);
        return HD_PENDING;
    }
    EXPECT_EQ(hd_join_poll(self->task, result), HD_PENDING); /* once more is allowed */
    hd_detach(self->task);
    *result = self->polls;
    return HD_READY;
}

TEST_WORLDS(a_stackless_joiner_may_give_up, options)
{
    const hd_options one = rt_workers(options, 1);
    hd_runtime *runtime = rt_create(&one);
    struct gate gate = {.open = 0};
    atomic_int pending = 0;
    struct giving_up state = {.task = rt_spawn(runtime, pass, &gate), .pending = &pending};
    rt_await(runtime, &gate.asleep);
    EXPECT_EQ(rt_join(rt_spawn_poll(runtime, give_up, &state, sizeof(state))), 2);
    open_gate(&gate);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    hd_runtime_destroy(runtime);
}

/* ---- misuse ---- */

enum misuse { DETACH_DETACH, JOIN_JOIN, JOIN_DETACH, TRY_TRY, BOTH_AT_ONCE };

static int misuse_handle(void *arg)
{
    struct gate gate = {.open = 0};
    hd_task *task;
    switch (*(enum misuse *)arg) {
    case DETACH_DETACH:
        task = rt_spawn(NULL, pass, &gate);
        hd_detach(task);
        hd_detach(task);
        break;
    case JOIN_JOIN:
        task = rt_spawn(NULL, yield_then_7, NULL);
        (void)!hd_join(task, NULL);
        (void)!hd_join(task, NULL);
        break;
    case JOIN_DETACH:
        task = rt_spawn(NULL, yield_then_7, NULL);
        (void)!hd_join(task, NULL);
        hd_detach(task);
        break;
    case TRY_TRY:
        task = rt_spawn(NULL, yield_then_7, NULL);
        while (hd_join_try(task, NULL) != 0) hd_yield();
        (void)!hd_join_try(task, NULL);
        break;
    case BOTH_AT_ONCE:
        task = rt_spawn(NULL, pass, &gate);
        hd_detach(rt_spawn(NULL, join_given, task));
        (void)!hd_join(task, NULL);
        break;
    }
    return 0;
}

struct misuse_run {
    const hd_options *options;
    enum misuse what;
};

static void misuse_in_run(void *arg)
{
    struct misuse_run *run = arg;
    (void)hd_run(misuse_handle, &run->what, run->options);
}

TEST_WORLDS(ending_a_handle_twice_dies_with_a_clear_message, options)
{
    const hd_options one = rt_workers(options, 1);
    for (int what = DETACH_DETACH; what <= TRY_TRY; what++) {
        struct misuse_run run = {&one, (enum misuse)what};
        expect_abort(misuse_in_run, &run, "a task handle was joined or detached twice");
    }
}

TEST_WORLDS(two_joins_of_one_handle_die_with_a_clear_message, options)
{
    const hd_options one = rt_workers(options, 1);
    struct misuse_run run = {&one, BOTH_AT_ONCE};
    expect_abort(misuse_in_run, &run, "a task handle is joined by two at once");
}

static int join_poll_in_fiber(void *arg)
{
    (void)arg;
    return hd_join_poll(rt_spawn(NULL, yield_then_7, NULL), NULL);
}

static void join_poll_in_run(void *arg)
{
    (void)hd_run(join_poll_in_fiber, NULL, arg);
}

TEST_WORLDS(join_poll_outside_a_stackless_task_dies_with_a_clear_message, options)
{
    hd_options own = *options;
    expect_abort(join_poll_in_run, &own, "hd_join_poll() belongs in a stackless task");
}
