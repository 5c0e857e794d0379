/* SPDX-License-Identifier: MIT
 *
 * Every failure of the corpus ends, within 200 runs, at the fewest preemptions that are known to
 * lead to it, or at one more.
 */
#include <unistd.h>

#include "base/sanitizer.h"
#include "test.h"

#include "corpus.h"

TEST_MAIN

enum { SCHEDULES = 10000, RUNS = 200 };

static char from[64], to[72];

static unsigned preemptions_of(const char *path)
{
    hd_log *log = NULL;
    hd_log_event event;
    unsigned count = 0;
    EXPECT_EQ(hd_log_open(&log, path), 0);
    while (hd_log_next(log, &event) == 1) count += event.kind == HD_LOG_CHOICE && event.b;
    hd_log_close(log);
    return count;
}

static void drop(const char *path)
{
    char meta[96];
    snprintf(meta, sizeof(meta), "%s.meta", path);
    (void)unlink(meta);
    EXPECT_EQ(unlink(path), 0);
}

/* A failing schedule leaves its tasks behind, which AddressSanitizer would call a leak. */
static void shrink(const struct corpus_program *program, const char *sampler, uint64_t seed)
{
    struct corpus_case how = {.size = program->size};
    hd_explore_options options = HD_EXPLORE_OPTIONS_INIT;
    hd_explore_result result;
    options.fork = HDI_ASAN;
    options.sampler = sampler;
    options.seed = seed;
    options.schedules = SCHEDULES;
    options.log = from;
    EXPECT_EQ(hd_explore(program->run, &how, &options, &result), 0);
    if (!result.failed_at) return; /* corpus_test.c sees to that. */
    const int runs = hd_shrink(program->run, &how, &options, from, to, RUNS);
    if (runs < 0 || runs > RUNS) test_fail(__FILE__, __LINE__, "%s: %d", program->name, runs);
    const unsigned preemptions = preemptions_of(to);
    if (preemptions > program->switches + 1) {
        test_fail(__FILE__, __LINE__, "%s (%s, seed %llu): %u preemptions, not %u", program->name,
                  result.sampler, (unsigned long long)result.seed, preemptions, program->switches);
    }
    drop(from);
    drop(to);
}

/* Sanitizers have each run in a process of its own, or are slow: a few will do. */
static void shrink_all(const char *sampler)
{
    const bool slow = HDI_ASAN || HDI_TSAN;
    const uint64_t seeds = slow ? 1 : 3;
    unsigned n = 0;
    snprintf(from, sizeof(from), "/tmp/heddle-corpus-%d", (int)getpid());
    snprintf(to, sizeof(to), "%s.min", from);
    for (const struct corpus_program *p = corpus_first(); p; p = p->next) {
        if ((p->verdicts & CORPUS_HARD) || (slow && n++ % 6 != 0)) continue;
        for (uint64_t seed = 1; seed <= seeds; seed++) shrink(p, sampler, seed);
    }
}

TEST(what_the_portfolio_finds)
{
    shrink_all(NULL);
}

/* Its schedules have the most preemptions. */
TEST(what_a_random_walk_finds)
{
    shrink_all("random");
}
