/* SPDX-License-Identifier: MIT
 *
 * Jobs in sim: the seed decides which are taken and when they run, the same seed decides the same,
 * and so it finds a job that touches what its forker touches.
 */
#include "forks.h"

#include "base/sanitizer.h"

TEST_MAIN

/* What happened, in order. */
enum { EFFECTS_MAX = 400 };

struct effects {
    unsigned count;
    unsigned jobs; /* forked */
    int at[EFFECTS_MAX];
};

struct step {
    struct effects *effects;
    int number; /* of the node in its tree, from 1 */
};

/* A binary tree; each node says when it begins and when it ends. */
HD_JOB_VOID(note, struct step, step)
{
    struct effects *effects = step.effects;
    EXPECT(effects->count + 2 <= EFFECTS_MAX);
    effects->at[effects->count++] = step.number;
    if (step.number < 32) {
        effects->jobs += 2;
        HD_FORK(left, note, ((struct step){effects, 2 * step.number}));
        HD_FORK(right, note, ((struct step){effects, 2 * step.number + 1}));
        if (step.number % 3 == 0) hd_yield();
    }
    effects->at[effects->count++] = -step.number;
}

static int run_notes(void *arg)
{
    (void)HD_RUN_JOB(NULL, note, ((struct step){arg, 1}));
    return 0;
}

struct outcome {
    struct effects effects;
    uint64_t taken, digest;
};

static void run_seed(struct outcome *outcome, hd_sim_order order, uint64_t seed)
{
    memset(outcome, 0, sizeof(*outcome));
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.sim_order = order;
    options.seed = seed;
    hd_runtime *runtime = rt_create(&options);
    EXPECT_EQ(rt_join(rt_spawn(runtime, run_notes, &outcome->effects)), 0);
    outcome->taken = forks_taken(runtime);
    outcome->digest = hd_runtime_digest(runtime);
    hd_runtime_destroy(runtime);
}

static bool same_effects(const struct outcome *a, const struct outcome *b)
{
    return memcmp(&a->effects, &b->effects, sizeof(a->effects)) == 0;
}

static const hd_sim_order orders[] = {HD_SIM_RANDOM, HD_SIM_WORKERS};

TEST(the_same_seed_has_the_same_effects)
{
    static struct outcome first, again, other;
    for (int i = 0; i < 2; i++) {
        for (uint64_t seed = 1; seed <= 20; seed++) {
            run_seed(&first, orders[i], seed);
            run_seed(&other, orders[i], seed + 1000);
            run_seed(&again, orders[i], seed);
            EXPECT(same_effects(&first, &again));
            EXPECT_EQ(first.taken, again.taken);
            EXPECT(first.digest == again.digest);
        }
    }
}

enum { SEEDS = HDI_TSAN ? 30 : 200 };

/* Both ways are gone: no seed leaves all to the forker or to others, and two seeds in a row rarely
 * agree. */
TEST(other_seeds_take_other_jobs)
{
    static struct outcome last, now;
    for (int i = 0; i < 2; i++) {
        unsigned same = 0, same_digests = 0;
        uint64_t jobs = 0, taken = 0, least = UINT64_MAX, most = 0;
        run_seed(&last, orders[i], 0);
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            run_seed(&now, orders[i], seed);
            same += same_effects(&last, &now);
            same_digests += last.digest == now.digest;
            EXPECT_EQ(now.effects.count, 2 * 63);
            jobs += now.effects.jobs;
            taken += now.taken;
            if (now.taken < least) least = now.taken;
            if (now.taken > most) most = now.taken;
            last = now;
        }
        fprintf(stderr, "# %.0f %% of the jobs were taken\n", 100.0 * (double)taken / (double)jobs);
        EXPECT(taken > jobs / 10 && taken < jobs - jobs / 10);
        EXPECT(least < most);
        EXPECT(same < SEEDS / 10);
        EXPECT(same_digests < SEEDS / 10);
    }
}

/* ---- what the seeds are for ---- */

/* Reads, lets others run, and writes back what it read plus one. */
static void add_carelessly(int *count)
{
    const int seen = *count;
    hd_yield();
    *count = seen + 1;
}

HD_JOB_VOID(add, int *, count)
{
    add_carelessly(count);
}

HD_JOB_VOID(race, int *, count)
{
    HD_FORK(job, add, count);
    add_carelessly(count);
}

HD_JOB_VOID(no_race, int *, count)
{
    HD_FORK(job, add, count);
    (void)HD_SYNC(job);
    add_carelessly(count);
}

static int run_race(void *arg)
{
    int count = 0;
    if (*(bool *)arg) {
        (void)HD_RUN_JOB(NULL, race, &count);
    } else {
        (void)HD_RUN_JOB(NULL, no_race, &count);
    }
    return count == 2 ? 0 : 1;
}

/* How many seeds see an update that was lost; the first of them. */
static unsigned search(bool racy, hd_sim_order order, uint64_t *first)
{
    unsigned found = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        hd_options options = HD_OPTIONS_INIT;
        options.world = HD_WORLD_SIM;
        options.sim_order = order;
        options.seed = seed;
        const int lost = hd_run(run_race, &racy, &options);
        EXPECT(lost == 0 || lost == 1);
        if (lost && found++ == 0) *first = seed;
    }
    return found;
}

TEST(finds_a_job_that_touches_what_its_forker_touches)
{
    for (int i = 0; i < 2; i++) {
        uint64_t first = 0, again = 0;
        const unsigned found = search(true, orders[i], &first);
        fprintf(stderr, "# seed %d is the first of %u in %d\n", (int)first, found, SEEDS);
        EXPECT(first > 0 && first <= 30);
        EXPECT(found < SEEDS); /* Others run it one after the other. */
        EXPECT_EQ(search(true, orders[i], &again), found);
        EXPECT_EQ(again, first);
        EXPECT_EQ(search(false, orders[i], &again), 0);
    }
}

/* ---- results ---- */

static int check_trees(void *arg)
{
    (void)arg;
    for (uint64_t seed = 0; seed < 3; seed++) forks_check(NULL, seed, 5);
    return 0;
}

TEST(trees_have_the_sums_of_serial_ones_with_all_seeds)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        hd_options options = HD_OPTIONS_INIT;
        options.world = HD_WORLD_SIM;
        options.seed = seed;
        options.sim_order = orders[seed % 2];
        options.workers = options.sim_order == HD_SIM_RANDOM ? 1 : 1 + (unsigned)seed % 8;
        rt_run(check_trees, NULL, &options);
    }
}
