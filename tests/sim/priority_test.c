/* SPDX-License-Identifier: MIT
 *
 * The bound of HD_POLICY_PRIORITY: with all other priorities ready all the time, each task
 * runs within the stated number of task switches, and the bound of the lowest is reached.
 */
#include "pools.h"
#include "sched/levels.h"

enum { PER_LEVEL = 6 };

static const unsigned ages[HDI_LEVELS] = HDI_LEVEL_AGES;
static const hd_priority priority_of[HDI_LEVELS] = {HD_PRIORITY_LOW, HD_PRIORITY_NORMAL,
                                                    HD_PRIORITY_HIGH, HD_PRIORITY_URGENT};

/* All belong to the one simulated worker. */
static unsigned switches; /* task switches of the dispatcher so far */
static unsigned ran[HDI_LEVELS][PER_LEVEL]; /* at which of them each task first ran */
static bool over;

struct member {
    unsigned level, place;
};

static int measured(void *arg)
{
    const struct member *member = arg;
    ran[member->level][member->place] = ++switches;
    return 0;
}

/* Always ready again. */
static int flood(void *arg)
{
    (void)arg;
    while (!over) {
        switches++;
        hd_yield();
    }
    return 0;
}

static hd_task *spawn_at(hd_dispatcher *dispatcher, unsigned level, hd_fn *fn, void *arg)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.dispatcher = dispatcher;
    options.priority = priority_of[level];
    hd_task *task = NULL;
    EXPECT_EQ(hd_spawn_with(&task, fn, arg, &options), 0);
    return task;
}

static unsigned bound(unsigned level, unsigned place)
{
    return (place + 1) * (ages[level] + 1 + level);
}

/* The tasks are all queued before the first runs, because the spawner is one of them. */
struct plan {
    hd_dispatcher *dispatcher;
    unsigned target;       /* the level that is measured */
    bool with[HDI_LEVELS]; /* which others are always ready */
    hd_task *tasks[PER_LEVEL], *floods[HDI_LEVELS][2];
};

static int begin_plan(void *arg)
{
    struct plan *plan = arg;
    static struct member members[PER_LEVEL];
    switches = 0;
    over = false;
    for (unsigned i = 0; i < PER_LEVEL; i++) {
        members[i] = (struct member){plan->target, i};
        plan->tasks[i] = spawn_at(plan->dispatcher, plan->target, measured, &members[i]);
    }
    for (unsigned l = 0; l < HDI_LEVELS; l++) {
        for (int i = 0; plan->with[l] && i < 2; i++) {
            plan->floods[l][i] = spawn_at(plan->dispatcher, l, flood, NULL);
        }
    }
    return 0;
}

static void measure(hd_dispatcher *dispatcher, unsigned target, unsigned others)
{
    struct plan plan = {.dispatcher = dispatcher, .target = target};
    for (unsigned l = 0; l < HDI_LEVELS; l++) plan.with[l] = l != target && (others >> l & 1);
    EXPECT_EQ(rt_join(spawn_at(dispatcher, 3, begin_plan, &plan)), 0);
    for (int i = 0; i < PER_LEVEL; i++) (void)rt_join(plan.tasks[i]);
    over = true;
    for (unsigned l = 0; l < HDI_LEVELS; l++) {
        for (int i = 0; plan.with[l] && i < 2; i++) (void)rt_join(plan.floods[l][i]);
    }
}

static int all_plans(void *arg)
{
    (void)arg;
    hd_dispatcher *dispatcher = pool("ages", 1, HD_POLICY_PRIORITY);
    for (unsigned target = 0; target < HDI_LEVELS - 1; target++) {
        for (unsigned others = 0; others < 1u << HDI_LEVELS; others++) {
            measure(dispatcher, target, others);
            for (unsigned i = 0; i < PER_LEVEL; i++) {
                EXPECT(ran[target][i] <= bound(target, i));
            }
        }
    }
    hd_dispatcher_unref(dispatcher);
    return 0;
}

TEST(every_task_runs_within_its_bound)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    rt_run(all_plans, NULL, &options);
}

static int reach(void *arg)
{
    (void)arg;
    hd_dispatcher *dispatcher = pool("ages", 1, HD_POLICY_PRIORITY);
    for (unsigned target = 0; target < HDI_LEVELS - 1; target++) {
        measure(dispatcher, target, 1u << 3); /* against urgent ones only */
        for (unsigned i = 0; i < PER_LEVEL; i++) {
            EXPECT_EQ(ran[target][i], (i + 1) * (ages[target] + 1));
        }
    }
    for (unsigned i = 0; i < PER_LEVEL; i++) {
        /* Nothing is below the lowest, so its bound is what happens. */
        EXPECT_EQ((i + 1) * (ages[0] + 1), bound(0, i));
    }
    hd_dispatcher_unref(dispatcher);
    return 0;
}

TEST(the_bound_of_the_lowest_is_reached)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    rt_run(reach, NULL, &options);
}

/* Without contention the order is by priority, then by age. */
static int by_priority(void *arg)
{
    (void)arg;
    hd_dispatcher *dispatcher = hd_dispatcher_self();
    static struct member members[HDI_LEVELS][3];
    hd_task *tasks[HDI_LEVELS][3];
    switches = 0;
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned l = 0; l < HDI_LEVELS; l++) {
            members[l][i] = (struct member){l, i};
            tasks[l][i] = spawn_at(dispatcher, l, measured, &members[l][i]);
        }
    }
    for (unsigned l = 0; l < HDI_LEVELS; l++) {
        for (unsigned i = 0; i < 3; i++) (void)rt_join(tasks[l][i]);
    }
    /* 3 urgent ones and one high one later, the second high one is still next, and so on:
     * 12 tasks are fewer than any but the highest age, which they do not reach. */
    for (unsigned i = 0; i < 3; i++) {
        EXPECT_EQ(ran[3][i], 1 + i);
        EXPECT_EQ(ran[2][i], 4 + i);
        EXPECT_EQ(ran[1][i], 7 + i);
        EXPECT_EQ(ran[0][i], 10 + i);
    }
    return 0;
}

TEST_WORLDS(the_highest_goes_first, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_dispatcher_options own = HD_DISPATCHER_OPTIONS_INIT;
    own.runtime = runtime;
    own.policy = HD_POLICY_PRIORITY;
    hd_dispatcher *dispatcher = NULL;
    EXPECT_EQ(hd_dispatcher_create(&dispatcher, &own), 0);
    EXPECT_EQ(rt_join(spawn_at(dispatcher, 0, by_priority, NULL)), 0);
    hd_dispatcher_unref(dispatcher);
    hd_runtime_destroy(runtime);
}

/* ---- serial order, whatever the seed ---- */

struct line {
    int seen[20];
    int count;
};

static int stand_in_line(void *arg)
{
    struct line *line = arg;
    line->seen[line->count++] = (int)hd_self_id();
    hd_yield();
    line->seen[line->count++] = (int)hd_self_id();
    return 0;
}

static int form_lines(void *arg)
{
    struct line *line = arg;
    hd_dispatcher *one = single();
    hd_task *tasks[10];
    for (int i = 0; i < 10; i++) tasks[i] = spawn_on(one, stand_in_line, line, 0);
    for (int i = 0; i < 10; i++) (void)rt_join(tasks[i]);
    hd_dispatcher_unref(one);
    return 0;
}

TEST(a_single_dispatcher_is_serial_under_every_seed)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        hd_options options = HD_OPTIONS_INIT;
        options.world = HD_WORLD_SIM;
        options.seed = seed;
        struct line line = {.count = 0};
        rt_run(form_lines, &line, &options);
        /* Each one's first turn comes in the order of spawning; and so do the second ones. */
        int first = 0, second = 0;
        for (int i = 0; i < 20; i++) {
            bool again = false;
            for (int k = 0; k < i; k++) again |= line.seen[k] == line.seen[i];
            int *last = again ? &second : &first;
            EXPECT(line.seen[i] > *last);
            *last = line.seen[i];
        }
    }
}

/* The seed chooses between dispatchers, and one seed always chooses the same (D3). */
static int note_turns(void *arg)
{
    struct line *line = arg;
    hd_dispatcher *a = single(), *b = single();
    hd_task *tasks[10];
    for (int i = 0; i < 10; i++) tasks[i] = spawn_on(i % 2 ? a : b, stand_in_line, line, 0);
    for (int i = 0; i < 10; i++) (void)rt_join(tasks[i]);
    hd_dispatcher_unref(a);
    hd_dispatcher_unref(b);
    return 0;
}

TEST(the_seed_chooses_between_dispatchers)
{
    unsigned different = 0;
    struct line base = {.count = 0};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct line lines[2] = {{.count = 0}, {.count = 0}};
        for (int i = 0; i < 2; i++) {
            hd_options options = HD_OPTIONS_INIT;
            options.world = HD_WORLD_SIM;
            options.seed = seed;
            rt_run(note_turns, &lines[i], &options);
        }
        EXPECT_EQ(memcmp(&lines[0], &lines[1], sizeof(lines[0])), 0);
        if (seed == 1) base = lines[0];
        different += memcmp(&base, &lines[0], sizeof(base)) != 0;
    }
    EXPECT(different > 10);
}

TEST_MAIN
