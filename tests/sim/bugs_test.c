/* SPDX-License-Identifier: MIT
 *
 * What the sim world is for: small programs with an ordering bug each. Some seed must
 * find it soon, the same seed must show it again with the same digest, and so must
 * HEDDLE_SEED in another process, in a program that does not mention the sim at all.
 */
#include "test.h"

#include <inttypes.h>

#include "base/sanitizer.h"

/* ---- running a program ---- */

/* The program runs as the first fiber; it returns 0, or non-zero if it saw its bug. */
struct verdict {
    bool bug;        /* it said so, or nothing could run any more */
    bool deadlock;
    uint64_t digest;
    uint64_t seed;
};

static struct verdict run_with(hd_fn *program, const hd_options *options)
{
    struct verdict verdict = {.bug = false};
    hd_runtime *runtime;
    EXPECT_EQ(hd_runtime_create(&runtime, options), 0);
    EXPECT_EQ(hd_runtime_world(runtime), HD_WORLD_SIM);
    verdict.seed = hd_runtime_seed(runtime);
    hd_spawn_options into = HD_SPAWN_OPTIONS_INIT;
    into.runtime = runtime;
    hd_task *task;
    int result = 0;
    EXPECT_EQ(hd_spawn_with(&task, program, NULL, &into), 0);
    const int err = hd_join(task, &result);
    EXPECT(err == 0 || err == -EDEADLK);
    verdict.deadlock = err == -EDEADLK;
    verdict.bug = verdict.deadlock || result != 0;
    verdict.digest = hd_runtime_digest(runtime);
    if (err) hd_detach(task);
    hd_runtime_destroy(runtime); /* Whoever still waits is cancelled. */
    return verdict;
}

static struct verdict run_seed(hd_fn *program, hd_sim_order order, uint64_t seed)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.sim_order = order;
    options.seed = seed;
    return run_with(program, &options);
}

/* ---- an update that gets lost ---- */

enum { WRITERS = 2, UPDATES = 3 };

struct account {
    int balance;
};

/* Reads, lets others run, writes back what it read plus one. */
static int careless_writer(void *arg)
{
    struct account *account = arg;
    for (int i = 0; i < UPDATES; i++) {
        const int seen = account->balance;
        hd_yield();
        account->balance = seen + 1;
    }
    return 0;
}

static int lost_update(void *arg)
{
    (void)arg;
    struct account account = {0};
    hd_task *writers[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        EXPECT_EQ(hd_spawn(&writers[i], careless_writer, &account), 0);
    }
    for (int i = 0; i < WRITERS; i++) EXPECT_EQ(hd_join(writers[i], NULL), 0);
    return account.balance != WRITERS * UPDATES;
}

/* The same with the update in one piece. */
static int careful_writer(void *arg)
{
    struct account *account = arg;
    for (int i = 0; i < UPDATES; i++) {
        account->balance++;
        hd_yield();
    }
    return 0;
}

static int sound_update(void *arg)
{
    (void)arg;
    struct account account = {0};
    hd_task *writers[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        EXPECT_EQ(hd_spawn(&writers[i], careful_writer, &account), 0);
    }
    for (int i = 0; i < WRITERS; i++) EXPECT_EQ(hd_join(writers[i], NULL), 0);
    return account.balance != WRITERS * UPDATES;
}

/* ---- a wake that is missed ---- */

struct mailbox {
    bool full;
    hd_waker reader;
};

static int careless_reader(void *arg)
{
    struct mailbox *box = arg;
    if (box->full) return 0;
    hd_yield(); /* The letter may come just now. */
    box->reader = hd_waker_self();
    const int err = hd_park();
    hd_waker_drop(box->reader);
    box->reader.task = NULL;
    return err; /* cancelled, if nobody ever woke it */
}

static int careful_reader(void *arg)
{
    struct mailbox *box = arg;
    box->reader = hd_waker_self();
    while (!box->full) {
        if (hd_park() != 0) break;
    }
    hd_waker_drop(box->reader);
    box->reader.task = NULL;
    return 0;
}

static int letter_writer(void *arg)
{
    struct mailbox *box = arg;
    for (int i = 0; i < 3; i++) hd_yield();
    box->full = true;
    if (box->reader.task) hd_waker_wake_keep(box->reader);
    return 0;
}

static struct mailbox mailbox; /* outlives the program, which may be cancelled */

static int send_letter(hd_fn *reader)
{
    mailbox = (struct mailbox){.full = false};
    hd_task *tasks[2];
    EXPECT_EQ(hd_spawn(&tasks[0], reader, &mailbox), 0);
    EXPECT_EQ(hd_spawn(&tasks[1], letter_writer, &mailbox), 0);
    int bug = 0;
    for (int i = 0; i < 2; i++) {
        int result = 0;
        const int err = hd_join(tasks[i], &result);
        if (err) hd_detach(tasks[i]);
        bug |= err || result;
    }
    return bug;
}

static int missed_wake(void *arg)
{
    (void)arg;
    return send_letter(careless_reader);
}

static int sound_wake(void *arg)
{
    (void)arg;
    return send_letter(careful_reader);
}

/* ---- one order in 120 ---- */

enum { STEPS = 5 };

struct ladder {
    int rung;
};

struct climber {
    struct ladder *ladder;
    int index;
};

static int climb(void *arg)
{
    const struct climber *climber = arg;
    if (climber->ladder->rung == climber->index) climber->ladder->rung++;
    return 0;
}

/* Fails only if all five run in one order. */
static int rare_order(void *arg)
{
    (void)arg;
    static const int places[STEPS] = {3, 0, 4, 1, 2};
    struct ladder ladder = {0};
    struct climber climbers[STEPS];
    hd_task *tasks[STEPS];
    for (int i = 0; i < STEPS; i++) {
        climbers[i] = (struct climber){&ladder, places[i]};
        EXPECT_EQ(hd_spawn(&tasks[i], climb, &climbers[i]), 0);
    }
    for (int i = 0; i < STEPS; i++) EXPECT_EQ(hd_join(tasks[i], NULL), 0);
    return ladder.rung == STEPS;
}

/* ---- the searches ---- */

/* ThreadSanitizer makes a fiber dear. */
enum { SEEDS_MAX = HDI_TSAN ? 100 : 1000 };

/* The first seed that finds the bug; it must be one of the first `within`, and others
 * must not find it, or the program would fail in any order. */
static uint64_t search(hd_fn *program, hd_sim_order order, unsigned within)
{
    uint64_t found = 0;
    unsigned bugs = 0;
    for (uint64_t seed = 1; seed <= SEEDS_MAX; seed++) {
        const struct verdict verdict = run_seed(program, order, seed);
        if (!verdict.bug) continue;
        bugs++;
        if (!found) found = seed;
    }
    fprintf(stderr, "# seed %" PRIu64 " is the first of %u in %d\n", found, bugs, SEEDS_MAX);
    EXPECT(found > 0 && found <= within);
    EXPECT(bugs < SEEDS_MAX);
    return found;
}

static void found_and_repeated(hd_fn *program, hd_sim_order order, unsigned within)
{
    const uint64_t seed = search(program, order, within);
    const struct verdict first = run_seed(program, order, seed);
    for (int i = 0; i < 10; i++) {
        const struct verdict again = run_seed(program, order, seed);
        EXPECT(again.bug);
        EXPECT_EQ(again.deadlock, first.deadlock);
        EXPECT_EQ(again.digest, first.digest);
        (void)run_seed(program, order, seed + 1); /* Others in between change nothing. */
    }
}

TEST(finds_a_lost_update)
{
    found_and_repeated(lost_update, HD_SIM_RANDOM, 10);
}

TEST(finds_a_missed_wake)
{
    found_and_repeated(missed_wake, HD_SIM_RANDOM, 50);
}

TEST(finds_a_rare_order)
{
    found_and_repeated(rare_order, HD_SIM_RANDOM, SEEDS_MAX);
}

TEST(finds_a_lost_update_by_interleaving_workers)
{
    found_and_repeated(lost_update, HD_SIM_WORKERS, 50);
}

TEST(finds_nothing_in_sound_programs)
{
    for (uint64_t seed = 1; seed <= SEEDS_MAX; seed++) {
        for (int order = HD_SIM_RANDOM; order <= HD_SIM_WORKERS; order++) {
            EXPECT(!run_seed(sound_update, (hd_sim_order)order, seed).bug);
            EXPECT(!run_seed(sound_wake, (hd_sim_order)order, seed).bug);
        }
    }
}

/* A missed wake is a deadlock, and is called one. */
TEST(names_a_deadlock)
{
    const uint64_t seed = search(missed_wake, HD_SIM_RANDOM, 50);
    EXPECT(run_seed(missed_wake, HD_SIM_RANDOM, seed).deadlock);
}

/* ---- in another process ---- */

/* What the test below runs: the seed comes from the environment alone. */
TEST(run_as_the_environment_says)
{
    if (!getenv("HEDDLE_SEED")) EXPECT_EQ(setenv("HEDDLE_SEED", "1", 1), 0);
    const hd_options options = HD_OPTIONS_INIT;
    const struct verdict verdict = run_with(rare_order, &options);
    const char *seed = getenv("HEDDLE_SEED");
    EXPECT(seed && verdict.seed == strtoull(seed, NULL, 0));
    printf("# verdict %d %016" PRIx64 "\n", verdict.bug, verdict.digest);
}

static void read_verdict(uint64_t seed, struct verdict *verdict)
{
    char command[256], line[128];
    snprintf(command, sizeof(command), "HEDDLE_SEED=%" PRIu64 " /proc/%d/exe %s", seed,
             (int)getpid(), "run_as_the_environment_says");
    FILE *pipe = popen(command, "re");
    EXPECT(pipe != NULL);
    unsigned found = 0;
    while (fgets(line, sizeof(line), pipe)) {
        int bug;
        if (sscanf(line, "# verdict %d %" SCNx64, &bug, &verdict->digest) != 2) continue;
        verdict->bug = bug;
        found++;
    }
    EXPECT_EQ(pclose(pipe), 0);
    EXPECT_EQ(found, 1);
}

TEST(the_environment_repeats_it_in_another_process)
{
    if (getenv("HEDDLE_TEST_EMULATED")) test_skip("/proc names the emulator");
    const uint64_t found = search(rare_order, HD_SIM_RANDOM, SEEDS_MAX);
    for (uint64_t seed = found - 1; seed <= found + 1; seed++) {
        const struct verdict here = run_seed(rare_order, HD_SIM_RANDOM, seed);
        struct verdict there = {.bug = false};
        read_verdict(seed, &there);
        EXPECT_EQ(there.bug, here.bug);
        EXPECT_EQ(there.digest, here.digest);
    }
}

TEST_MAIN
