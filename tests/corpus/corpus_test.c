/* SPDX-License-Identifier: MIT
 *
 * The corpus: the explorer finds every bug, as what it is, and nothing in the fixed twins.
 */
#include "base/sanitizer.h"
#include "test.h"

#include "corpus.h"

TEST_MAIN

enum { SCHEDULES = 10000, TWIN_SCHEDULES = 2000, SAMPLER_SCHEDULES = 100, SEEDS = 2 };

/* What `all` comes to the end of, and of how many programs at least. */
enum { ALL_SCHEDULES = 5000, ALL_PROGRAMS = 40 };

/* A failing schedule leaves its tasks behind, which AddressSanitizer would call a leak. */
static hd_explore_result explore(const struct corpus_program *program, bool fixed,
                                 const char *sampler, uint64_t seed, uint64_t schedules)
{
    struct corpus_case how = {.fixed = fixed, .size = program->size};
    hd_explore_options options = HD_EXPLORE_OPTIONS_INIT;
    hd_explore_result result;
    options.sampler = sampler;
    options.seed = seed;
    options.schedules = schedules;
    options.fork = HDI_ASAN && !fixed;
    EXPECT_EQ(hd_explore(program->run, &how, &options, &result), 0);
    return result;
}

static void fail(const struct corpus_program *program, const char *what,
                 const hd_explore_result *result)
{
    test_fail(__FILE__, __LINE__, "%s: %s: %s after %d schedules (%s, seed %llu): %s",
              program->name, what, hd_verdict_name(result->verdict), (int)result->schedules,
              result->sampler, (unsigned long long)result->seed, result->message);
}

TEST(there_are_enough)
{
    int count = 0;
    for (const struct corpus_program *p = corpus_first(); p; p = p->next) count++;
    EXPECT(count >= 40);
    EXPECT(corpus_find("reorder_3") && !corpus_find("reorder"));
}

TEST(every_bug_is_found)
{
    const uint64_t seeds = HDI_ASAN || HDI_TSAN ? 1 : SEEDS;
    for (const struct corpus_program *p = corpus_first(); p; p = p->next) {
        if (p->verdicts & CORPUS_HARD) continue;
        for (uint64_t seed = 1; seed <= seeds; seed++) {
            const hd_explore_result result = explore(p, false, NULL, seed, SCHEDULES);
            if (!(p->verdicts & 1u << result.verdict)) fail(p, "not found", &result);
        }
    }
}

TEST(nothing_is_found_in_a_fixed_twin)
{
    const uint64_t schedules = HDI_ASAN || HDI_TSAN ? TWIN_SCHEDULES / 10 : TWIN_SCHEDULES;
    for (const struct corpus_program *p = corpus_first(); p; p = p->next) {
        const hd_explore_result result = explore(p, true, NULL, 1, schedules);
        if (result.failures) fail(p, "fixed", &result);
    }
}

TEST(nor_by_any_sampler)
{
    static const char *const samplers[] = {"random", "pct:3", "pos", "urw", "cohort", "fair",
                                           "all"};
    for (const struct corpus_program *p = corpus_first(); p; p = p->next) {
        for (size_t i = 0; i < sizeof(samplers) / sizeof(*samplers); i++) {
            const hd_explore_result result =
                explore(p, true, samplers[i], 1, SAMPLER_SCHEDULES);
            if (result.failures) fail(p, samplers[i], &result);
        }
    }
}

/* Every schedule with two preemptions at most, where these are not too many. */
TEST(small_twins_are_right)
{
    int exhausted = 0;
    if (HDI_ASAN || HDI_TSAN) test_skip("takes long");
    for (const struct corpus_program *p = corpus_first(); p; p = p->next) {
        const hd_explore_result result = explore(p, true, "all:2", 1, ALL_SCHEDULES);
        if (result.failures) fail(p, "all:2", &result);
        exhausted += result.exhausted;
    }
    EXPECT(exhausted >= ALL_PROGRAMS);
}

/* Whether the bug is reached with so many preemptions: 1, 0, or -1 if that takes too long. */
static int reached_with(const struct corpus_program *program, unsigned preemptions)
{
    char sampler[16];
    snprintf(sampler, sizeof(sampler), "all:%u", preemptions);
    const hd_explore_result result = explore(program, false, sampler, 1, ALL_SCHEDULES);
    if (program->verdicts & 1u << result.verdict) return 1;
    if (result.failures) fail(program, sampler, &result);
    return result.exhausted ? 0 : -1;
}

TEST(known_minima_are_the_minima)
{
    int known = 0;
    if (HDI_ASAN || HDI_TSAN) test_skip("takes long");
    for (const struct corpus_program *p = corpus_first(); p; p = p->next) {
        const int fewer = p->switches > 0 ? reached_with(p, p->switches - 1) : 0;
        if (fewer > 0)
            test_fail(__FILE__, __LINE__, "%s: with fewer than %u", p->name, p->switches);
        if (fewer == 0) known += reached_with(p, p->switches) == 1;
    }
    EXPECT(known >= ALL_PROGRAMS);
}
