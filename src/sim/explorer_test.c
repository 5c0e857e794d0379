/* SPDX-License-Identifier: MIT
 *
 * Schedules in processes of their own: what samplers learn there is not lost, not even by those
 * that die in the middle.
 */
#include "sim/explorer.h"

#include <signal.h>
#include <stdlib.h>

#include "rt.h"

TEST_MAIN

enum { TASKS = 3, STEPS = 60 };

static bool dies;

static int take_steps(void *arg)
{
    (void)arg;
    for (int i = 0; i < STEPS; i++) {
        hd_race_point();
        if (dies && i == STEPS / 2) raise(SIGKILL);
    }
    return 0;
}

static int program(void *arg)
{
    hd_task *tasks[TASKS];
    (void)arg;
    for (int i = 0; i < TASKS; i++) tasks[i] = rt_spawn(NULL, take_steps, NULL);
    for (int i = 0; i < TASKS; i++) rt_join(tasks[i]);
    return 0;
}

/* One schedule. Returns the sampler's text after it, with all that it has learned before. */
static const char *run(struct hdi_explorer *explorer, struct hdi_sampler *sampler, uint64_t seed,
                       hd_verdict expected)
{
    static char text[HD_SAMPLER_TEXT_MAX];
    struct hdi_outcome outcome;
    dies = expected == HD_VERDICT_CRASH;
    EXPECT_EQ(hdi_explorer_run(explorer, sampler, seed, NULL, &outcome), 0);
    EXPECT_EQ(outcome.verdict.kind, expected);
    if (expected == HD_VERDICT_NONE) EXPECT(outcome.steps > TASKS * STEPS);
    hdi_sampler_text(sampler, text, sizeof(text));
    return text;
}

static struct hdi_sampler *begin(struct hdi_explorer *explorer, const char *text)
{
    hd_explore_options options = HD_EXPLORE_OPTIONS_INIT;
    struct hdi_sampler *sampler = NULL;
    const char *error;
    options.sampler = text;
    options.fork = true;
    EXPECT_EQ(hdi_explorer_open(explorer, program, NULL, &options), 0);
    EXPECT_EQ(hdi_sampler_create(&sampler, text, &error), 0);
    return sampler;
}

static void end(struct hdi_explorer *explorer, struct hdi_sampler *sampler)
{
    hdi_explorer_close(explorer);
    hdi_sampler_destroy(sampler);
}

/* The number at the end of a sampler's text, or after a comma of it. */
static unsigned number_in(const char *text, char before)
{
    const char *at = strrchr(text, before);
    EXPECT(at);
    return (unsigned)strtoul(at + 1, NULL, 10);
}

TEST(pct_learns_from_other_processes)
{
    struct hdi_explorer explorer;
    struct hdi_sampler *sampler = begin(&explorer, "pct:3");
    EXPECT_EQ(number_in(run(&explorer, sampler, 1, HD_VERDICT_NONE), ':'), 32); /* a guess */
    EXPECT(number_in(run(&explorer, sampler, 2, HD_VERDICT_NONE), ':') > STEPS);
    end(&explorer, sampler);
}

TEST(pct_keeps_what_it_knows_when_one_dies)
{
    struct hdi_explorer explorer;
    char before[HD_SAMPLER_TEXT_MAX];
    struct hdi_sampler *sampler = begin(&explorer, "pct:3");
    for (uint64_t seed = 1; seed < 5; seed++) {
        snprintf(before, sizeof(before), "%s", run(&explorer, sampler, seed, HD_VERDICT_NONE));
    }
    const unsigned known = number_in(run(&explorer, sampler, 5, HD_VERDICT_CRASH), ':');
    EXPECT(known > STEPS);
    /* Half a schedule is none: the next one is from the same. */
    EXPECT_EQ(number_in(run(&explorer, sampler, 6, HD_VERDICT_NONE), ':'), known);
    EXPECT(number_in(run(&explorer, sampler, 7, HD_VERDICT_NONE), ':') > STEPS);
    end(&explorer, sampler);
}

TEST(urw_learns_from_other_processes)
{
    struct hdi_explorer explorer;
    struct hdi_sampler *sampler = begin(&explorer, "urw");
    EXPECT(strcmp(run(&explorer, sampler, 1, HD_VERDICT_NONE), "urw:1") == 0); /* a guess */
    EXPECT(number_in(run(&explorer, sampler, 2, HD_VERDICT_NONE), ',') >= STEPS);
    end(&explorer, sampler);
}

/* Its text, which repeats the schedule, is what it was; and it goes on learning. */
TEST(urw_keeps_what_it_knows_when_one_dies)
{
    struct hdi_explorer explorer;
    char known[HD_SAMPLER_TEXT_MAX];
    struct hdi_sampler *sampler = begin(&explorer, "urw");
    (void)run(&explorer, sampler, 1, HD_VERDICT_NONE);
    snprintf(known, sizeof(known), "%s", run(&explorer, sampler, 2, HD_VERDICT_CRASH));
    EXPECT(number_in(known, ',') >= STEPS);
    EXPECT(strcmp(run(&explorer, sampler, 3, HD_VERDICT_NONE), known) == 0);
    EXPECT(number_in(run(&explorer, sampler, 4, HD_VERDICT_NONE), ',') >= STEPS);
    end(&explorer, sampler);
}

/* ---- enumerating ---- */

static int balance;
static bool is_fatal;

static int pay_in(void *arg)
{
    (void)arg;
    const int seen = hd_atomic_load(&balance);
    hd_atomic_store(&balance, seen + 1);
    return 0;
}

static int bank(void *arg)
{
    (void)arg;
    balance = 0;
    hd_task *first = rt_spawn(NULL, pay_in, NULL), *second = rt_spawn(NULL, pay_in, NULL);
    rt_join(first);
    rt_join(second);
    if (balance == 2) return 0;
    if (is_fatal) raise(SIGKILL);
    return 1;
}

/* Deaths cost no schedule: as many are met as if the program just failed. */
TEST(all_schedules_are_met_though_some_die)
{
    hd_explore_options options = HD_EXPLORE_OPTIONS_INIT;
    hd_explore_result failing, dying;
    options.sampler = "all:2";
    options.fork = options.keep_going = true;
    EXPECT_EQ(hd_explore(bank, NULL, &options, &failing), 0);
    EXPECT(failing.exhausted && failing.failures > 0 && failing.schedules > failing.failures);
    is_fatal = true;
    EXPECT_EQ(hd_explore(bank, NULL, &options, &dying), 0);
    EXPECT_EQ(dying.verdict, HD_VERDICT_CRASH);
    EXPECT(dying.exhausted);
    EXPECT_EQ(dying.schedules, failing.schedules);
    EXPECT_EQ(dying.failures, failing.failures);
}
