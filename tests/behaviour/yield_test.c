/* SPDX-License-Identifier: MIT
 *
 * Giving way: the order under each policy, and that everybody gets on.
 */
#include "rt.h"

TEST_MAIN

/* The live scheduler's own order, with one worker, in both worlds. */
static hd_options one_worker(const hd_options *options, hd_policy policy)
{
    hd_options own = rt_workers(options, 1);
    own.policy = policy;
    rt_by_workers(&own);
    return own;
}

enum { FIBERS = 10, ROUNDS = 50 };

struct log {
    int count;
    int who[FIBERS * ROUNDS];
};

struct member {
    struct log *log;
    int number;
};

static int log_rounds(void *arg)
{
    const struct member *self = arg;
    for (int i = 0; i < ROUNDS; i++) {
        self->log->who[self->log->count++] = self->number;
        hd_yield();
    }
    return 0;
}

static int spawn_loggers(void *arg)
{
    struct log *log = arg;
    struct member members[FIBERS];
    hd_task *tasks[FIBERS];
    for (int i = 0; i < FIBERS; i++) {
        members[i] = (struct member){log, i};
        tasks[i] = rt_spawn(NULL, log_rounds, &members[i]);
    }
    for (int i = 0; i < FIBERS; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    return 0;
}

TEST_WORLDS(fair_fibers_take_turns, options)
{
    const hd_options own = one_worker(options, HD_POLICY_FAIR);
    struct log log = {.count = 0};
    rt_run(spawn_loggers, &log, &own);
    EXPECT_EQ(log.count, FIBERS * ROUNDS);
    bool seen[FIBERS] = {false};
    for (int i = 0; i < FIBERS; i++) seen[log.who[i]] = true;
    for (int i = 0; i < FIBERS; i++) EXPECT(seen[i]);
    /* First in, first out: every round is like the first. */
    for (int i = FIBERS; i < log.count; i++) EXPECT_EQ(log.who[i], log.who[i - FIBERS]);
}

TEST_WORLDS(under_the_local_policy_everybody_gets_on_too, options)
{
    const hd_options own = one_worker(options, HD_POLICY_LOCAL);
    struct log log = {.count = 0};
    rt_run(spawn_loggers, &log, &own);
    EXPECT_EQ(log.count, FIBERS * ROUNDS);
}

static int log_once(void *arg)
{
    const struct member *self = arg;
    self->log->who[self->log->count++] = self->number;
    return 0;
}

static int spawn_once(void *arg)
{
    struct log *log = arg;
    struct member members[FIBERS];
    hd_task *tasks[FIBERS];
    for (int i = 0; i < FIBERS; i++) {
        members[i] = (struct member){log, i};
        tasks[i] = rt_spawn(NULL, log_once, &members[i]);
    }
    for (int i = 0; i < FIBERS; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    return 0;
}

TEST_WORLDS(the_local_policy_runs_the_newest_first, options)
{
    hd_options own = one_worker(options, HD_POLICY_LOCAL);
    own.inject_interval_min = own.inject_interval_max = 255; /* no oldest one in between */
    struct log log = {.count = 0};
    rt_run(spawn_once, &log, &own);
    for (int i = 0; i < FIBERS; i++) EXPECT_EQ(log.who[i], FIBERS - 1 - i);
}

TEST_WORLDS(the_fair_policy_runs_the_newest_then_the_others_in_order, options)
{
    const hd_options own = one_worker(options, HD_POLICY_FAIR);
    struct log log = {.count = 0};
    rt_run(spawn_once, &log, &own);
    EXPECT_EQ(log.who[0], FIBERS - 1); /* the LIFO slot */
    for (int i = 1; i < FIBERS; i++) EXPECT_EQ(log.who[i], i - 1);
}

/* ---- more than a local queue holds ---- */

enum { ROW = 1000 };
static int row[ROW], row_count;

static hd_poll log_number(void *state, int *result)
{
    row[row_count++] = *result = *(int *)state;
    return HD_READY;
}

static int spawn_row(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROW; i++) EXPECT_EQ(hd_spawn_poll(NULL, log_number, &i, sizeof(i)), 0);
    return 0;
}

TEST_WORLDS(what_overflows_keeps_its_order, options)
{
    hd_options own = one_worker(options, HD_POLICY_FAIR);
    own.inject_interval_min = own.inject_interval_max = 255;
    hd_runtime *runtime = rt_create(&own);
    hd_detach(rt_spawn(runtime, spawn_row, NULL));
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    hd_runtime_destroy(runtime);
    EXPECT_EQ(row_count, ROW);
    bool seen[ROW] = {false};
    int backwards = 0;
    for (int i = 0; i < ROW; i++) {
        EXPECT(!seen[row[i]]);
        seen[row[i]] = true;
        backwards += i > 0 && row[i] < row[i - 1];
    }
    /* Batches may trade places, some dozen of them, but not the tasks in one. */
    EXPECT(backwards < 40);
}

/* ---- progress ---- */

static int hog(void *flag)
{
    rt_until(flag);
    return 0;
}

static int set_flag(void *flag)
{
    atomic_store((atomic_int *)flag, 1);
    return 0;
}

static int hogs_and_one(void *arg)
{
    atomic_int *flag = arg;
    hd_task *hogs[20];
    for (int i = 0; i < 20; i++) hogs[i] = rt_spawn(NULL, hog, flag);
    hd_task *setter = rt_spawn(NULL, set_flag, flag);
    for (int i = 0; i < 20; i++) EXPECT_EQ(rt_join(hogs[i]), 0);
    return rt_join(setter);
}

TEST_WORLDS(hogs_that_yield_let_others_run, options)
{
    for (int i = 0; i < 8; i++) {
        hd_options own = rt_workers(options, i % 2 ? 3 : 1);
        own.policy = i / 2 % 2 ? HD_POLICY_LOCAL : HD_POLICY_FAIR;
        if (i / 4) rt_by_workers(&own);
        atomic_int flag = 0;
        rt_run(hogs_and_one, &flag, &own);
    }
}

TEST_WORLDS(hogs_let_injected_tasks_run, options)
{
    for (int i = 0; i < 4; i++) {
        hd_options own = rt_workers(options, 2);
        own.policy = i % 2 ? HD_POLICY_LOCAL : HD_POLICY_FAIR;
        if (i / 2) rt_by_workers(&own);
        atomic_int flag = 0;
        hd_runtime *runtime = rt_create(&own);
        hd_task *hogs[10];
        for (int k = 0; k < 10; k++) hogs[k] = rt_spawn(runtime, hog, &flag);
        EXPECT_EQ(rt_join(rt_spawn(runtime, set_flag, &flag)), 0);
        for (int k = 0; k < 10; k++) EXPECT_EQ(rt_join(hogs[k]), 0);
        hd_runtime_destroy(runtime);
    }
}

/* ---- what a fiber keeps ---- */

static int keep_locals(void *arg)
{
    const unsigned seed = *(unsigned *)arg;
    unsigned char bytes[4096];
    for (unsigned i = 0; i < sizeof(bytes); i++) bytes[i] = (unsigned char)(i * seed);
    double x = seed, y = 1;
    for (int round = 0; round < 20; round++) {
        hd_yield();
        x += 0.5;
        y *= 1.5;
    }
    for (unsigned i = 0; i < sizeof(bytes); i++) EXPECT_EQ(bytes[i], (unsigned char)(i * seed));
    double wanted = 1;
    for (int round = 0; round < 20; round++) wanted *= 1.5;
    EXPECT(x == seed + 10.0 && y == wanted);
    return 0;
}

TEST_WORLDS(a_fiber_keeps_its_stack_and_registers, options)
{
    const hd_options own = rt_workers(options, 3);
    hd_runtime *runtime = rt_create(&own);
    hd_task *tasks[30];
    unsigned seeds[30];
    for (unsigned i = 0; i < 30; i++) {
        seeds[i] = i + 1;
        tasks[i] = rt_spawn(runtime, keep_locals, &seeds[i]);
    }
    for (int i = 0; i < 30; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    hd_runtime_destroy(runtime);
}

TEST(on_a_thread_it_is_harmless)
{
    for (int i = 0; i < 10; i++) hd_yield();
}
