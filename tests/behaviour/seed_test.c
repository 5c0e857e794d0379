/* SPDX-License-Identifier: MIT
 *
 * Seeds: the environment, and that one seed is one schedule (level D3).
 */
#include "rt.h"

TEST_MAIN

/* A program with many choices. */
static int step(void *arg)
{
    for (int i = 0; i < *(int *)arg; i++) hd_yield();
    return 0;
}

static hd_poll poll_step(void *state, int *result)
{
    int *left = state;
    *result = 0;
    if ((*left)-- == 0) return HD_READY;
    hd_waker_wake(hd_waker_self());
    return HD_PENDING;
}

static int choices(void *arg)
{
    (void)arg;
    static int counts[] = {0, 1, 2, 3, 4, 5, 6, 7};
    hd_task *tasks[16];
    for (int i = 0; i < 16; i++) {
        tasks[i] = i % 2 ? rt_spawn(NULL, step, &counts[i / 2])
                         : rt_spawn_poll(NULL, poll_step, &counts[i / 2], sizeof(int));
    }
    for (int i = 0; i < 16; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    return 0;
}

static uint64_t digest_of(const hd_options *options)
{
    hd_runtime *runtime = rt_create(options);
    EXPECT_EQ(rt_join(rt_spawn(runtime, choices, NULL)), 0);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    const uint64_t digest = hd_runtime_digest(runtime);
    EXPECT(hd_runtime_digest(runtime) == digest); /* asking is no event */
    hd_runtime_destroy(runtime);
    return digest;
}

static hd_options sim(uint64_t seed)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.seed = seed;
    return options;
}

static void expect_one_digest_per_seed(hd_options options, int seeds)
{
    static uint64_t digests[100];
    for (int i = 0; i < seeds; i++) {
        options.seed = (uint64_t)i;
        digests[i] = digest_of(&options);
        EXPECT(digest_of(&options) == digests[i]);
        for (int k = 0; k < i; k++) EXPECT(digests[k] != digests[i]);
    }
}

TEST(a_seed_is_a_schedule)
{
    expect_one_digest_per_seed(sim(0), 100);
}

TEST(a_seed_is_a_schedule_of_the_workers)
{
    hd_options options = sim(0);
    options.sim_order = HD_SIM_WORKERS;
    expect_one_digest_per_seed(options, 20);
    options.policy = HD_POLICY_LOCAL;
    expect_one_digest_per_seed(options, 20);
    options.workers = 3;
    expect_one_digest_per_seed(options, 20);
}

static int one_choice_less(void *arg)
{
    (void)arg;
    static int count = 1;
    EXPECT_EQ(rt_join(rt_spawn(NULL, step, &count)), 0);
    return 0;
}

TEST(another_program_has_another_digest)
{
    const hd_options options = sim(1);
    hd_runtime *runtime = rt_create(&options);
    const uint64_t fresh = hd_runtime_digest(runtime);
    EXPECT_EQ(rt_join(rt_spawn(runtime, one_choice_less, NULL)), 0);
    const uint64_t after = hd_runtime_digest(runtime);
    EXPECT(after != fresh);
    EXPECT(after != digest_of(&options));
    hd_runtime_destroy(runtime);
}

TEST(live_has_a_digest_too)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    hd_runtime *runtime = rt_create(&options);
    const uint64_t fresh = hd_runtime_digest(runtime);
    EXPECT_EQ(rt_join(rt_spawn(runtime, choices, NULL)), 0);
    EXPECT(hd_runtime_digest(runtime) != fresh);
    EXPECT_EQ(hd_runtime_seed(runtime), 0);
    hd_runtime_destroy(runtime);
}

/* ---- the next task is any ready task ---- */

struct first {
    int number;
    int *first; /* -1 until somebody was first */
};

static hd_poll be_first(void *state, int *result)
{
    const struct first *self = state;
    *result = 0;
    if (*self->first < 0) *self->first = self->number;
    return HD_READY;
}

enum { MANY = 150 };

static int race_to_be_first(void *arg)
{
    static hd_task *tasks[MANY];
    const int count = ((int *)arg)[0];
    for (int i = 0; i < count; i++) {
        const struct first state = {i, &((int *)arg)[1]};
        tasks[i] = rt_spawn_poll(NULL, be_first, &state, sizeof(state));
    }
    for (int i = 0; i < count; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    return 0;
}

/* How many of `count` ready tasks are the first to run with some seed. */
static int firsts(int count, int seeds)
{
    bool was[MANY] = {false};
    int different = 0;
    for (int seed = 0; seed < seeds; seed++) {
        const hd_options options = sim((uint64_t)seed);
        int arg[2] = {count, -1};
        rt_run(race_to_be_first, arg, &options);
        different += !was[arg[1]];
        was[arg[1]] = true;
    }
    return different;
}

TEST(any_of_a_few_ready_tasks_may_be_the_next)
{
    EXPECT_EQ(firsts(5, 100), 5);
}

TEST(any_of_many_ready_tasks_may_be_the_next)
{
    /* 300 draws from 150 bring about 130 different ones; a scheduler that looked at some
     * of its queues only would reach half of that. */
    EXPECT(firsts(MANY, 300) > 110);
}

/* ---- the environment ---- */

static int world_and_seed(void *arg)
{
    uint64_t *seed = arg;
    *seed = hd_runtime_seed(hd_runtime_self());
    return hd_runtime_world(hd_runtime_self());
}

TEST(the_environment_turns_a_program_into_a_simulation)
{
    setenv("HEDDLE_SEED", "12345", 1);
    uint64_t seed = 0;
    EXPECT_EQ(hd_run(world_and_seed, &seed, NULL), HD_WORLD_SIM);
    EXPECT_EQ(seed, 12345);
    const hd_options automatic = HD_OPTIONS_INIT;
    EXPECT_EQ(hd_run(world_and_seed, &seed, &automatic), HD_WORLD_SIM);
    const hd_options same = sim(12345);
    EXPECT(digest_of(NULL) == digest_of(&same));
    unsetenv("HEDDLE_SEED");
    EXPECT_EQ(hd_run(world_and_seed, &seed, NULL), HD_WORLD_LIVE);
    EXPECT_EQ(seed, 0);
}

TEST(a_seed_that_is_not_a_number_is_refused)
{
    setenv("HEDDLE_SEED", "lucky", 1);
    uint64_t seed = 7;
    EXPECT_EQ(hd_run(world_and_seed, &seed, NULL), -EINVAL);
    EXPECT_EQ(seed, 7);
    hd_runtime *runtime = NULL;
    EXPECT_EQ(hd_runtime_create(&runtime, NULL), -EINVAL);
    EXPECT(runtime == NULL);
    EXPECT(strstr(hd_options_error(NULL), "HEDDLE_SEED"));
}

TEST(a_chosen_world_wins_over_the_environment)
{
    static const char *const texts[] = {"99", "lucky"};
    for (int i = 0; i < 2; i++) {
        setenv("HEDDLE_SEED", texts[i], 1);
        uint64_t seed = 0;
        hd_options options = sim(5);
        EXPECT_EQ(hd_run(world_and_seed, &seed, &options), HD_WORLD_SIM);
        EXPECT_EQ(seed, 5);
        options.world = HD_WORLD_LIVE;
        EXPECT_EQ(hd_run(world_and_seed, &seed, &options), HD_WORLD_LIVE);
        EXPECT_EQ(seed, 0);
    }
}
