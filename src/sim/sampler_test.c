/* SPDX-License-Identifier: MIT
 *
 * samplers: how often they choose what, on programs made of nothing but steps.
 *
 * A program is a list of tasks, each a list of steps: what the step touches, whether it yields or
 * spawns, or waits in a loop for a task to end. All seeds are fixed, so each count is the same in
 * each run; the bounds are those of the theory with room for the luck of these seeds.
 */
#include "sim/sampler.h"

#include "sim/schedule.h"
#include "test.h"

#define TASKS_MAX 8
#define STEPS_MAX 4096
#define ENDLESS   1000000

struct step {
    int object;     /* 0: unknown, as are ANY steps */
    hd_touch_kind kind;
    bool yields;    /* at its end */
    int spawns;     /* this task, if not 0, which is the first one */
    int spins_for;  /* done again until this task has ended, if not 0 */
    int code;       /* where it stands; 0: its place in the list */
};

struct script {
    int length;
    struct step steps[8]; /* the last one stands for all further ones */
};

struct program {
    int count;   /* of tasks */
    int started; /* from the first on; the others are spawned */
    struct script tasks[TASKS_MAX];
};

static char places[1024]; /* objects and code are addresses here */

struct run {
    const struct program *program;
    struct hdi_schedule schedule;
    struct hd_task tasks[TASKS_MAX];
    struct hd_task *ready[TASKS_MAX];
    int place[TASKS_MAX];
    bool ended[TASKS_MAX];
    unsigned count;
    int sequence[STEPS_MAX]; /* who took each step */
    int length;
};

static const struct step *step_at(const struct run *run, int task)
{
    const int last = (int)(sizeof(run->program->tasks[0].steps) / sizeof(struct step)) - 1;
    const int at = run->place[task] < last ? run->place[task] : last;
    return &run->program->tasks[task].steps[at];
}

/* As hdi_schedule_point(): it comes before its next step. */
static void arrive(struct run *run, int task)
{
    const struct step *step = step_at(run, task);
    struct hdi_actor *actor = hdi_schedule_actor(&run->schedule, &run->tasks[task]);
    actor->object = step->object ? &places[step->object] : NULL;
    actor->kind = step->object ? step->kind : HD_TOUCH_ANY;
    actor->code = &places[128 + (step->code ? step->code : run->place[task])];
    actor->ready_since = run->schedule.steps;
    run->ready[run->count++] = &run->tasks[task];
}

static void start(struct run *run, int task)
{
    run->tasks[task].id = (uint64_t)task + 1;
    arrive(run, task);
}

static void take(struct run *run, int task)
{
    const struct step *step = step_at(run, task);
    struct hdi_actor *actor = hdi_schedule_actor(&run->schedule, &run->tasks[task]);
    const struct hdi_sampler_kind *kind = run->schedule.sampler->kind;
    if (kind->stepped) kind->stepped(run->schedule.sampler, actor, (uint32_t)task);
    actor->steps++;
    actor->yielded = false;
    run->schedule.running = run->tasks[task].id;
    if (run->length < STEPS_MAX) run->sequence[run->length] = task;
    run->length++;
    run->schedule.steps++;
    if (step->spawns) start(run, step->spawns);
    if (!step->spins_for || run->ended[step->spins_for]) run->place[task]++;
    run->ended[task] = run->place[task] >= run->program->tasks[task].length;
    if (run->ended[task]) return;
    hdi_schedule_actor(&run->schedule, &run->tasks[task])->yielded = step->yields;
    arrive(run, task);
}

/* Returns the number of steps; at most `max`. */
static int run_program(struct run *run, struct hdi_sampler *sampler, const struct program *program,
                       uint64_t seed, int max)
{
    memset(run, 0, offsetof(struct run, sequence));
    run->length = 0;
    run->program = program;
    run->schedule.sampler = sampler;
    if (sampler->kind->begin) sampler->kind->begin(sampler, &run->schedule, seed);
    for (int i = 0; i < program->started; i++) start(run, i);
    int last = -1;
    while (run->count > 0 && run->length < max) {
        int running = -1;
        for (unsigned i = 0; i < run->count; i++) {
            if (run->ready[i] != &run->tasks[last < 0 ? 0 : last] || last < 0) continue;
            if (!run->schedule.actors.first.actors[last].yielded) running = (int)i;
        }
        const unsigned index = run->count > 1 ? sampler->kind->pick(sampler, &run->schedule,
                                                                    run->ready, run->count, running)
                                              : 0;
        EXPECT(index < run->count); /* SAMPLER-1 */
        last = (int)run->ready[index]->id - 1;
        run->ready[index] = run->ready[--run->count];
        take(run, last);
    }
    if (sampler->kind->end) sampler->kind->end(sampler, &run->schedule);
    return run->length;
}

static struct hdi_sampler *make(const char *text)
{
    struct hdi_sampler *sampler = NULL;
    const char *error = NULL;
    EXPECT_EQ(hdi_sampler_create(&sampler, text, &error), 0);
    EXPECT(!error);
    return sampler;
}

/* As a word: "0102" is task 0, task 1, ... */
static const char *word(const struct run *run)
{
    static char text[STEPS_MAX + 1];
    for (int i = 0; i < run->length; i++) text[i] = (char)('0' + run->sequence[i]);
    text[run->length] = 0;
    return text;
}

/* ---- how often each schedule comes ---- */

#define WORDS_MAX 512
struct census {
    char words[WORDS_MAX][24];
    int counts[WORDS_MAX];
    int count;
    int total;
};

static void census_add(struct census *census, const char *text)
{
    int i = 0;
    while (i < census->count && strcmp(census->words[i], text) != 0) i++;
    if (i == census->count) {
        EXPECT(i < WORDS_MAX && strlen(text) < sizeof(census->words[0]));
        memcpy(census->words[census->count++], text, strlen(text) + 1);
    }
    census->counts[i]++;
    census->total++;
}

static struct census take_census(const char *sampler_text, const struct program *program, int total)
{
    static struct run run;
    struct census census = {.count = 0};
    struct hdi_sampler *sampler = make(sampler_text);
    for (int seed = 1; seed <= total; seed++) {
        run_program(&run, sampler, program, (uint64_t)seed, STEPS_MAX);
        census_add(&census, word(&run));
    }
    hdi_sampler_destroy(sampler);
    return census;
}

/* The statistic of a chi-square test against equal shares. */
static double chi_square(const int *counts, int count, int total)
{
    const double expected = (double)total / count;
    double sum = 0;
    for (int i = 0; i < count; i++) {
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    return sum;
}

static int times(const struct census *census, const char *text)
{
    for (int i = 0; i < census->count; i++) {
        if (strcmp(census->words[i], text) == 0) return census->counts[i];
    }
    return 0;
}

/* ---- random ---- */

static void expect_uniform(uint64_t seed, unsigned width)
{
    struct run run = {.length = 0};
    int counts[8] = {0};
    struct hdi_sampler *sampler = make("random");
    sampler->kind->begin(sampler, &run.schedule, seed);
    for (int i = 0; i < 70000; i++) {
        counts[sampler->kind->pick(sampler, &run.schedule, run.ready, width, -1)]++;
    }
    hdi_sampler_destroy(sampler);
    EXPECT(chi_square(counts, (int)width, 70000) < 24.3); /* 6 degrees, 1 in 2,000 */
}

TEST(random_is_uniform)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        expect_uniform(seed, 3);
        expect_uniform(seed, 7);
    }
}

TEST(random_differs_by_seed)
{
    const struct program two = {2, 2, {{.length = 5}, {.length = 5}}};
    const struct census census = take_census("random", &two, 4000);
    EXPECT_EQ(census.count, 252); /* 10 over 5 */
}

/* ---- pct ---- */

/* Two tasks of k steps. The fault of depth 2: task 1 runs as a whole between two given steps of
 * task 0. */
TEST(pct_finds_depth_two_as_often_as_promised)
{
    const struct program two = {2, 2, {{.length = 10}, {.length = 10}}};
    const int total = 20000;
    const struct census census = take_census("pct:2", &two, total);
    for (int gap = 1; gap < 10; gap++) {
        char fault[24] = {0};
        memset(fault, '0', 20);
        memset(fault + gap, '1', 10);
        EXPECT(times(&census, fault) >= total / (2 * 20));
    }
}

TEST(pct_of_depth_one_never_switches)
{
    const struct program three = {3, 3, {{.length = 3}, {.length = 3}, {.length = 3}}};
    const struct census census = take_census("pct:1", &three, 6000);
    EXPECT_EQ(census.count, 6);
    EXPECT(chi_square(census.counts, 6, 6000) < 22.1); /* 5 degrees, 1 in 2,000 */
}

TEST(pct_switches_no_more_than_its_depth)
{
    const struct program three = {3, 3, {{.length = 8}, {.length = 8}, {.length = 8}}};
    static struct run run;
    struct hdi_sampler *sampler = make("pct:3:24");
    int most = 0;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        run_program(&run, sampler, &three, seed, STEPS_MAX);
        int switches = 0;
        for (int i = 1; i < run.length; i++) switches += run.sequence[i] != run.sequence[i - 1];
        if (switches > most) most = switches;
    }
    EXPECT_EQ(most, 2 + 2); /* Two tasks end before the last one, and two change points. */
    hdi_sampler_destroy(sampler);
}

/* One schedule of three tasks by the definition, looking at everybody each time. */
static void expect_by_definition(const struct run *run, uint32_t depth, uint32_t steps,
                                 uint64_t seed)
{
    struct hdi_prng prng;
    uint32_t place[32], priority[3], taken[3] = {0};
    hdi_prng_init(&prng, seed);
    for (uint32_t n = 1; n < depth; n++) place[n] = 1 + hdi_prng_below(&prng, steps);
    for (int i = 0; i < 3; i++) {
        priority[i] = UINT32_C(0x80000000) | (uint32_t)(hdi_prng_next(&prng) >> 32);
    }
    uint32_t picks = 0;
    for (int at = 0; at < run->length; at++) {
        const int length = run->program->tasks[0].length;
        int ready = 0;
        for (int i = 0; i < 3; i++) ready += (int)taken[i] < length;
        picks += ready > 1;
        int best = 0;
        for (uint32_t n = 1; n <= depth; n++) { /* After the last one only who goes on. */
            if (n < depth && (ready == 1 || place[n] != picks)) continue;
            best = -1;
            for (int i = 0; i < 3; i++) {
                if ((int)taken[i] == length) continue;
                if (best < 0 || priority[i] > priority[best]) best = i;
            }
            const uint32_t fallen = UINT32_C(0x40000000) + n;
            if (n < depth && priority[best] > fallen) priority[best] = fallen;
        }
        EXPECT_EQ(run->sequence[at], best);
        taken[best]++;
    }
}

/* Also where several change points are at one place, and where most places have one. */
TEST(pct_is_what_its_definition_says)
{
    const struct program three = {3, 3, {{.length = 8}, {.length = 8}, {.length = 8}}};
    static const uint32_t depths[] = {1, 2, 5, 16, 32}, lengths[] = {1, 3, 24, 40};
    static struct run run;
    for (unsigned i = 0; i < 5 * 4; i++) {
        const uint32_t depth = depths[i / 4], steps = lengths[i % 4];
        char text[32];
        snprintf(text, sizeof(text), "pct:%u:%u", (unsigned)depth, (unsigned)steps);
        struct hdi_sampler *sampler = make(text);
        for (uint64_t seed = 0; seed < 200; seed++) {
            run_program(&run, sampler, &three, seed, STEPS_MAX);
            EXPECT_EQ(run.length, 24);
            expect_by_definition(&run, depth, steps, seed);
        }
        hdi_sampler_destroy(sampler);
    }
}

/* At the first choice there is nobody to be interrupted, at the second there is. */
TEST(pct_draws_its_places_from_the_first_to_the_last)
{
    const struct program two = {2, 2, {{.length = 2}, {.length = 2}}};
    const struct census census = take_census("pct:2:2", &two, 10000);
    const int within = times(&census, "0110") + times(&census, "1001");
    EXPECT(within > 4800 && within < 5200);
    EXPECT_EQ(within + times(&census, "0011") + times(&census, "1100"), 10000);
}

static const char *text_of(struct hdi_sampler *sampler)
{
    static char text[HD_SAMPLER_TEXT_MAX];
    EXPECT(hdi_sampler_text(sampler, text, sizeof(text)) < (int)sizeof(text));
    return text;
}

/* Counts the choices: the last task has none when it is alone. */
TEST(pct_learns_the_length)
{
    const struct program two = {2, 2, {{.length = 300}, {.length = 300}}};
    const struct program few = {2, 2, {{.length = 4}, {.length = 4}}};
    static struct run run;
    struct hdi_sampler *sampler = make("pct");
    run_program(&run, sampler, &few, 1, STEPS_MAX);
    EXPECT(strcmp(text_of(sampler), "pct:3:32") == 0); /* as it was at begin() */
    for (uint64_t seed = 0; seed < 8; seed++) run_program(&run, sampler, &two, seed, STEPS_MAX);
    unsigned steps = 0;
    EXPECT_EQ(sscanf(text_of(sampler), "pct:3:%u", &steps), 1);
    EXPECT(steps > 300 && steps < 600);
    for (uint64_t seed = 0; seed < 200; seed++) run_program(&run, sampler, &few, seed, STEPS_MAX);
    EXPECT_EQ(sscanf(text_of(sampler), "pct:3:%u", &steps), 1);
    EXPECT(steps >= 4 && steps <= 8); /* It has forgotten the long one. */
    hdi_sampler_destroy(sampler);
}

/* ---- pos ---- */

/* Task 0 has one step, which races with the last of task 1, or with all of them. */
static double share_of_last(const char *sampler, bool all_race)
{
    struct program two = {2, 2, {{.length = 1}, {.length = 6}}};
    two.tasks[0].steps[0] = (struct step){.object = 1, .kind = HD_TOUCH_WRITE};
    for (int i = 0; i < 6; i++) {
        two.tasks[1].steps[i] = (struct step){.object = all_race || i == 5 ? 1 : 2,
                                              .kind = HD_TOUCH_WRITE};
    }
    const struct census census = take_census(sampler, &two, 50000);
    return times(&census, "1111110") / 50000.0;
}

TEST(pos_draws_again_only_what_races)
{
    /* Its one draw has to be the least of seven; drawn six times, it has to lose each time. */
    const double apart = share_of_last("pos", false), racing = share_of_last("pos", true);
    EXPECT(apart > 0.95 / 7 && apart < 1.05 / 7);
    EXPECT(racing > 0.85 / 64 && racing < 1.15 / 64);
    const double walk = share_of_last("random", false);
    EXPECT(walk > 0.85 / 64 && walk < 1.15 / 64);
}

TEST(pos_draws_nothing_again_for_those_who_only_look)
{
    struct program two = {2, 2, {{.length = 1}, {.length = 6}}};
    two.tasks[0].steps[0] = (struct step){.object = 1, .kind = HD_TOUCH_READ};
    for (int i = 0; i < 6; i++) {
        two.tasks[1].steps[i] = (struct step){.object = 1, .kind = HD_TOUCH_LOAD};
    }
    const struct census census = take_census("pos", &two, 50000);
    const double share = times(&census, "1111110") / 50000.0;
    EXPECT(share > 0.95 / 7 && share < 1.05 / 7);
}

TEST(pos_draws_nothing_again_for_what_is_unknown)
{
    struct program two = {2, 2, {{.length = 1}, {.length = 6}}};
    for (int i = 0; i < 6; i++) {
        two.tasks[1].steps[i] = (struct step){.object = 1, .kind = HD_TOUCH_WRITE};
    }
    const struct census census = take_census("pos", &two, 50000);
    const double share = times(&census, "1111110") / 50000.0;
    EXPECT(share > 0.95 / 7 && share < 1.05 / 7);
}

/* ---- urw ---- */

/* Without the first schedule, which has equal weights. */
static struct census take_census_learned(const struct program *program, int total)
{
    static struct run run;
    struct hdi_sampler *sampler = make("urw");
    struct census census = {.count = 0};
    for (uint64_t seed = 1; census.total < total; seed++) {
        run_program(&run, sampler, program, seed, STEPS_MAX);
        if (strcmp(text_of(sampler), "urw:1") != 0) census_add(&census, word(&run));
    }
    hdi_sampler_destroy(sampler);
    return census;
}

TEST(urw_meets_each_schedule_equally_often)
{
    const struct program two = {2, 2, {{.length = 2}, {.length = 8}}};
    const int total = 45000;
    const struct census learned = take_census_learned(&two, total);
    const struct census given = take_census("urw:2,8", &two, total);
    const struct census walk = take_census("random", &two, total);
    EXPECT_EQ(learned.count, 45); /* 10 over 2 */
    EXPECT_EQ(given.count, 45);
    EXPECT(chi_square(learned.counts, 45, total) < 82); /* 44 degrees, 1 in 2,000 */
    EXPECT(chi_square(given.counts, 45, total) < 82);
    EXPECT(times(&walk, "1111111100") < total / 45 / 4);
    EXPECT(times(&walk, "0011111111") > total / 45 * 10);
}

/* Task 0 spawns task 2, and goes on beside it; that ends by spawning task 3. */
TEST(urw_weighs_what_is_still_to_be_spawned)
{
    struct program tree = {4, 2, {{.length = 2}, {.length = 2}, {.length = 2}, {.length = 1}}};
    tree.tasks[0].steps[0].spawns = 2;
    tree.tasks[2].steps[1].spawns = 3;
    const int total = 56000;
    const struct census learned = take_census_learned(&tree, total);
    /* 7! orders, over the steps that each step is the first of: 5, 1; 2, 1; 3, 2; 1. */
    EXPECT_EQ(learned.count, 84);
    EXPECT(chi_square(learned.counts, 84, total) < 130); /* 83 degrees, 1 in 1,000 */
}

TEST(urw_without_steps_left_walks)
{
    const struct program two = {2, 2, {{.length = 2}, {.length = 8}}};
    const struct census none = take_census("urw:0", &two, 10000);
    EXPECT(times(&none, "0011111111") > 2300 && times(&none, "0011111111") < 2700);
}

/* Who spins takes more steps the more it weighs; that must not feed on itself. */
TEST(urw_does_not_learn_to_spin)
{
    struct program three = {3, 3, {{.length = 2}, {.length = 20}, {.length = 2}}};
    three.tasks[0].steps[0] = three.tasks[2].steps[0] = (struct step){.spins_for = 1};
    static struct run run;
    struct hdi_sampler *sampler = make("urw");
    for (uint64_t seed = 0; seed < 2000; seed++) {
        EXPECT(run_program(&run, sampler, &three, seed, ENDLESS) < 200);
    }
    hdi_sampler_destroy(sampler);
}

/* ---- cohort and fair ---- */

static const char *one_word(const char *text, const struct program *program, uint64_t seed)
{
    static struct run run;
    struct hdi_sampler *sampler = make(text);
    run_program(&run, sampler, program, seed, 40);
    hdi_sampler_destroy(sampler);
    return word(&run);
}

TEST(cohort_goes_through_the_code_side_by_side)
{
    struct program four = {4, 4, {{.length = 3}, {.length = 3}, {.length = 3}, {.length = 3}}};
    EXPECT(strcmp(one_word("cohort", &four, 1), "012301230123") == 0);
    EXPECT(strcmp(one_word("cohort", &four, 2), "012301230123") == 0);
    /* Tasks 1 and 3 stand somewhere else. */
    for (int i = 0; i < 3; i++) {
        four.tasks[1].steps[i].code = 10 + i;
        four.tasks[3].steps[i].code = 10 + i;
    }
    EXPECT(strcmp(one_word("cohort", &four, 1), "021302130213") == 0);
}

/* A loop comes back to the same place, and does not belong to the cohort that left it. */
TEST(cohort_lets_no_loop_keep_others_waiting)
{
    struct program three = {3, 3, {{.length = 4}, {.length = 4}, {.length = 2}}};
    for (int i = 0; i < 4; i++) three.tasks[0].steps[i].code = three.tasks[1].steps[i].code = 9;
    EXPECT(strcmp(one_word("cohort", &three, 1), "0120120101") == 0);
}

TEST(cohort_forgets_the_schedule_before)
{
    struct program two = {2, 2, {{.length = 2}, {.length = 2}}};
    two.tasks[0].steps[0].code = two.tasks[1].steps[1].code = 1;
    two.tasks[0].steps[1].code = two.tasks[1].steps[0].code = 2;
    static struct run run;
    struct hdi_sampler *sampler = make("cohort");
    for (uint64_t seed = 0; seed < 3; seed++) {
        run_program(&run, sampler, &two, seed, STEPS_MAX);
        EXPECT(strcmp(word(&run), "0101") == 0);
    }
    hdi_sampler_destroy(sampler);
}

TEST(fair_switches_as_little_as_it_can)
{
    struct program three = {3, 3, {{.length = 3}, {.length = 3}, {.length = 3}}};
    EXPECT(strcmp(one_word("fair", &three, 1), "000111222") == 0);
    three.tasks[0].steps[1].yields = true;
    three.tasks[1].steps[0].yields = true;
    EXPECT(strcmp(one_word("fair", &three, 1), "001222011") == 0);
}

/* Both are ready from the same step on. */
TEST(fair_prefers_who_was_spawned_to_who_yields)
{
    struct program two = {2, 1, {{.length = 3}, {.length = 2}}};
    two.tasks[0].steps[0] = (struct step){.spawns = 1, .yields = true};
    EXPECT(strcmp(one_word("fair", &two, 1), "01100") == 0);
}

/* ---- all of them ---- */

static const char *const every_text[] = {"random", "pct",  "pct:1", "pct:5:7", "pos",
                                         "urw",    "urw:3", "urw:5,0,2", "cohort", "fair"};
#define TEXT_COUNT (int)(sizeof(every_text) / sizeof(every_text[0]))

/* Task 0 polls for task 1, and yields between. */
TEST(yielding_lets_others_run)
{
    struct program three = {3, 3, {{.length = 2}, {.length = 30}, {.length = 30}}};
    three.tasks[0].steps[0] = (struct step){
        .spins_for = 1, .yields = true, .object = 1, .kind = HD_TOUCH_LOAD};
    static struct run run;
    for (int i = 0; i < TEXT_COUNT; i++) {
        struct hdi_sampler *sampler = make(every_text[i]);
        const bool by_chance = sampler->kind == &hdi_sampler_random ||
                               sampler->kind == &hdi_sampler_urw;
        for (uint64_t seed = 0; seed < 300; seed++) {
            const int most = by_chance ? 1000 : 2 + 2 * (30 + 30);
            EXPECT(run_program(&run, sampler, &three, seed, ENDLESS) <= most);
        }
        hdi_sampler_destroy(sampler);
    }
}

/* Two wait for a third that is below both of them, and each touches what the others do; the third
 * may yield too. */
static void expect_third_to_run(bool yields)
{
    struct program three = {3, 3, {{.length = 2}, {.length = 2}, {.length = 30}}};
    const struct step step = {.yields = true, .object = 1, .kind = HD_TOUCH_UPDATE};
    three.tasks[0].steps[0] = three.tasks[1].steps[0] = step;
    three.tasks[0].steps[0].spins_for = three.tasks[1].steps[0].spins_for = 2;
    for (int i = 0; i < 8 && yields; i++) three.tasks[2].steps[i] = step;
    static struct run run;
    for (int i = 0; i < TEXT_COUNT; i++) {
        struct hdi_sampler *sampler = make(every_text[i]);
        for (uint64_t seed = 0; seed < 300; seed++) {
            EXPECT(run_program(&run, sampler, &three, seed, ENDLESS) < 1000);
        }
        hdi_sampler_destroy(sampler);
    }
}

TEST(two_that_yield_let_a_third_run)
{
    expect_third_to_run(false);
    expect_third_to_run(true);
}

/* What a sampler has learned is in its text: another one made of it does the same. */
TEST(its_text_and_the_seed_repeat_a_schedule)
{
    struct program tree = {5, 3, {{.length = 6}, {.length = 9}, {.length = 5}, {.length = 7},
                                  {.length = 4}}};
    tree.tasks[0].steps[2].spawns = 3;
    tree.tasks[1].steps[1].spawns = 4;
    tree.tasks[2].steps[0] = (struct step){.yields = true, .spins_for = 3};
    for (int i = 0; i < 6; i++) tree.tasks[1].steps[i].object = tree.tasks[3].steps[i].object = i;
    static struct run first, second;
    for (int i = 0; i < TEXT_COUNT; i++) {
        struct hdi_sampler *sampler = make(every_text[i]);
        for (uint64_t seed = 0; seed < 100; seed++) {
            run_program(&first, sampler, &tree, seed, STEPS_MAX);
            struct hdi_sampler *again = make(text_of(sampler));
            char before[HD_SAMPLER_TEXT_MAX];
            EXPECT(hdi_sampler_text(sampler, before, sizeof(before)) > 0);
            run_program(&second, again, &tree, seed, STEPS_MAX);
            EXPECT(strcmp(before, text_of(again)) == 0);
            hdi_sampler_destroy(again);
            EXPECT_EQ(first.length, second.length);
            EXPECT(memcmp(first.sequence, second.sequence,
                          (size_t)first.length * sizeof(first.sequence[0])) == 0);
        }
        hdi_sampler_destroy(sampler);
    }
}

/* ---- texts ---- */

static void expect_error(const char *text, const char *part)
{
    struct hdi_sampler *sampler = NULL;
    const char *error = NULL;
    EXPECT_EQ(hdi_sampler_create(&sampler, text, &error), -EINVAL);
    EXPECT(!sampler);
    if (!error || !strstr(error, part)) {
        test_fail(__FILE__, __LINE__, "%s: %s", text, error ? error : "no error");
    }
}

TEST(errors_name_the_nearest)
{
    expect_error("ptc", "did you mean pct?");
    expect_error("pct3", "did you mean pct?");
    expect_error("PCT:3", "did you mean pct?");
    expect_error("randon", "did you mean random?");
    expect_error("rnd", "did you mean random?");
    expect_error("posx:1", "did you mean pos?");
    expect_error("cohorts", "did you mean cohort?");
    expect_error("exhaustive", "there are random, pct,");
    expect_error("", "there are random, pct,");
    expect_error("a-name-that-is-longer-than-every-sampler's", "there are random, pct,");
    expect_error("portfolios", "did you mean portfolio?");
    expect_error("portfolio", "only hd_explore()");
}

TEST(errors_say_what_parameters_there_are)
{
    expect_error("random:1", "take no parameters");
    expect_error("fair:x", "take no parameters");
    expect_error("cohort:1", "take no parameters");
    expect_error("pos:1", "take no parameters");
    static const char *const pct[] = {"pct:0", "pct:33", "pct:x", "pct:3:", "pct:3:0", "pct:3:x",
                                      "pct::4", "pct:3:40:1", "pct:-1", "pct: 3",
                                      "pct:3:1000000001", "pct:99999999999999999999"};
    for (size_t i = 0; i < sizeof(pct) / sizeof(pct[0]); i++) {
        expect_error(pct[i], "a depth from 1 to 32");
    }
    static const char *const urw[] = {"urw:x", "urw:1,", "urw:,1", "urw:1,,2", "urw:1:2",
                                      "urw:100000", "urw:1,2,-3", "urw:4294967297"};
    for (size_t i = 0; i < sizeof(urw) / sizeof(urw[0]); i++) {
        expect_error(urw[i], "each from 0 to 99999");
    }
}

TEST(the_longest_text_fits)
{
    char text[HD_SAMPLER_TEXT_MAX + 8] = "urw:";
    for (int i = 0; i < 40; i++) memcpy(text + strlen("urw:") + 6 * i, "99999,", 6);
    char *end = text + strlen(text) - 1;
    *end = 0;
    struct hdi_sampler *sampler = make(text);
    EXPECT(strcmp(text_of(sampler), text) == 0);
    char little[7];
    EXPECT_EQ(hdi_sampler_text(sampler, little, sizeof(little)), (int)strlen(text));
    EXPECT(strcmp(little, "urw:99") == 0);
    EXPECT_EQ(hdi_sampler_text(sampler, little, 0), (int)strlen(text));
    hdi_sampler_destroy(sampler);
    memcpy(end, ",1", 3);
    expect_error(text, "at most 40");
}

TEST_MAIN
