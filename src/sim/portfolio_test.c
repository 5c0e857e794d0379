/* SPDX-License-Identifier: MIT
 *
 * portfolio: everybody has a share, the same ones again, and more of it for what brings something.
 */
#include "sim/portfolio.h"

#include "sim/branch.h"
#include "test.h"

enum { NAMES = 8 };

/* How often each sampler had a schedule. */
struct tally {
    unsigned count;
    struct {
        const struct hdi_sampler_kind *kind;
        unsigned schedules;
    } of[NAMES];
};

static unsigned *tally_of(struct tally *tally, const struct hdi_sampler_kind *kind)
{
    for (unsigned i = 0; i < tally->count; i++) {
        if (tally->of[i].kind == kind) return &tally->of[i].schedules;
    }
    EXPECT(tally->count < NAMES);
    tally->of[tally->count].kind = kind;
    return &tally->of[tally->count++].schedules;
}

static struct hdi_portfolio *start(uint64_t seed)
{
    struct hdi_portfolio *portfolio = hdi_portfolio_create(seed);
    EXPECT(portfolio);
    return portfolio;
}

/* The schedule of a program of two tasks with one step each, on one object. */
static void run_two(struct hdi_sampler *sampler, uint64_t seed)
{
    static struct hdi_schedule *const none = NULL;
    if (sampler->kind != &hdi_sampler_all) return;
    sampler->kind->begin(sampler, none, seed);
    int object;
    const struct hdi_actor actor = {.object = &object, .kind = HD_TOUCH_UPDATE, .begun = true};
    sampler->kind->stepped(sampler, &actor, 0);
    sampler->kind->stepped(sampler, &actor, 1);
}

/* `fresh`: the one sampler whose schedules are all of new classes; NULL: all of them are. */
static struct tally play(struct hdi_portfolio *portfolio, unsigned schedules,
                         const struct hdi_sampler_kind *fresh, uint64_t *digest)
{
    static uint64_t classes;
    struct tally tally = {0};
    for (unsigned i = 0; i < schedules; i++) {
        struct hdi_sampler *sampler;
        uint64_t seed;
        hdi_portfolio_next(portfolio, &sampler, &seed);
        run_two(sampler, seed);
        ++*tally_of(&tally, sampler->kind);
        char text[HD_SAMPLER_TEXT_MAX];
        hdi_sampler_text(sampler, text, sizeof(text));
        *digest = hdi_mix64(*digest ^ seed);
        for (const char *at = text; *at; at++) *digest = hdi_mix64(*digest + (unsigned char)*at);
        const bool is_new = !fresh || sampler->kind == fresh;
        hdi_portfolio_tell(portfolio, is_new ? hdi_mix64(++classes) : 0);
    }
    return tally;
}

TEST(everybody_has_a_share)
{
    struct hdi_portfolio *portfolio = start(1);
    uint64_t digest = 0;
    struct tally tally = play(portfolio, 4000, NULL, &digest);
    EXPECT_EQ(*tally_of(&tally, &hdi_sampler_cohort), 1);
    /* Parts of 20, when what enumerates has ended: 1, 4, 8, and 2 and 5. */
    EXPECT(*tally_of(&tally, &hdi_sampler_random) >= 4000 / 21);
    EXPECT(*tally_of(&tally, &hdi_sampler_pos) >= 4000 * 4 / 21);
    EXPECT(*tally_of(&tally, &hdi_sampler_urw) >= 4000 * 8 / 21);
    EXPECT(*tally_of(&tally, &hdi_sampler_pct) >= 4000 * 7 / 21);
    hdi_portfolio_destroy(portfolio);
}

TEST(everybody_is_first_once)
{
    static const struct hdi_sampler_kind *const order[] = {
        &hdi_sampler_all, &hdi_sampler_cohort, &hdi_sampler_pct,
        &hdi_sampler_urw, &hdi_sampler_pos,    &hdi_sampler_random};
    struct hdi_portfolio *portfolio = start(1);
    uint64_t digest = 0;
    struct tally tally = play(portfolio, 7, NULL, &digest);
    EXPECT_EQ(tally.count, 6);
    for (unsigned i = 0; i < 6; i++) EXPECT(tally.of[i].kind == order[i]);
    EXPECT_EQ(*tally_of(&tally, &hdi_sampler_pct), 2); /* both depths */
    hdi_portfolio_destroy(portfolio);
}

/* What enumerates ends with the program's schedules, here of one, and the others go on. */
TEST(what_has_no_more_leaves)
{
    struct hdi_portfolio *portfolio = start(1);
    uint64_t digest = 0;
    struct tally tally = play(portfolio, 100, NULL, &digest);
    EXPECT_EQ(*tally_of(&tally, &hdi_sampler_all), 3); /* all:1, all:2, all:none */
    hdi_portfolio_destroy(portfolio);
}

TEST(who_brings_something_new_has_more)
{
    struct hdi_portfolio *portfolio = start(1);
    uint64_t digest = 0;
    play(portfolio, 1000, &hdi_sampler_urw, &digest);
    struct tally tally = play(portfolio, 1000, &hdi_sampler_urw, &digest);
    const unsigned urw = *tally_of(&tally, &hdi_sampler_urw);
    const unsigned pos = *tally_of(&tally, &hdi_sampler_pos);
    EXPECT(urw > 6 * pos);
    EXPECT(pos > 1000 / 13); /* Down to a quarter, no further. */
    /* And when it has nothing new any more, it goes back. */
    play(portfolio, 1000, &hdi_sampler_cohort, &digest);
    tally = play(portfolio, 1000, &hdi_sampler_cohort, &digest);
    EXPECT(*tally_of(&tally, &hdi_sampler_urw) < 1000 / 2);
    hdi_portfolio_destroy(portfolio);
}

TEST(the_same_seed_is_the_same_again)
{
    uint64_t digests[3] = {0};
    static const uint64_t seeds[3] = {5, 5, 6};
    for (int i = 0; i < 3; i++) {
        struct hdi_portfolio *portfolio = start(seeds[i]);
        play(portfolio, 500, &hdi_sampler_pos, &digests[i]);
        hdi_portfolio_destroy(portfolio);
    }
    EXPECT(digests[0] == digests[1]);
    EXPECT(digests[0] != digests[2]);
}

/* The set of what was seen is small, and forgets; it must not take everything for known. */
TEST(a_long_search_still_sees_new_ones)
{
    struct hdi_portfolio *portfolio = start(1);
    uint64_t digest = 0;
    play(portfolio, 4800000, NULL, &digest); /* An eighth is looked at. */
    struct tally tally = play(portfolio, 8000, &hdi_sampler_urw, &digest);
    tally = play(portfolio, 1000, &hdi_sampler_urw, &digest);
    EXPECT(*tally_of(&tally, &hdi_sampler_urw) > 6 * *tally_of(&tally, &hdi_sampler_pos));
    hdi_portfolio_destroy(portfolio);
}

TEST_MAIN

/* ---- turns, and what is looked at ---- */

/* How often another sampler goes next, in so many schedules that bring nothing new. */
static unsigned changes(struct hdi_portfolio *portfolio, unsigned schedules)
{
    const struct hdi_sampler *last = NULL;
    unsigned count = 0;
    for (unsigned i = 0; i < schedules; i++) {
        struct hdi_sampler *sampler;
        uint64_t seed;
        hdi_portfolio_next(portfolio, &sampler, &seed);
        run_two(sampler, seed);
        hdi_portfolio_tell(portfolio, 0);
        count += sampler != last;
        last = sampler;
    }
    return count;
}

TEST(turns_are_short_first_and_longer_later)
{
    struct hdi_portfolio *portfolio = start(1);
    EXPECT(changes(portfolio, 512) > 512 / 4);
    EXPECT(changes(portfolio, 512) <= 512 / 8);
    hdi_portfolio_destroy(portfolio);
}

/* At first, before rates are known, every schedule; later few, but some of each sampler. */
TEST(later_schedules_are_looked_at_now_and_then)
{
    struct hdi_portfolio *portfolio = start(1);
    struct tally looked = {0};
    unsigned early = 0, late = 0;
    for (unsigned i = 0; i < 64 + 8000; i++) {
        struct hdi_sampler *sampler;
        uint64_t seed;
        hdi_portfolio_next(portfolio, &sampler, &seed);
        run_two(sampler, seed);
        const bool looks = hdi_portfolio_looks(portfolio);
        hdi_portfolio_tell(portfolio, 0);
        if (i < 64) early += looks;
        else late += looks;
        if (i >= 4000 && looks) ++*tally_of(&looked, sampler->kind);
    }
    EXPECT_EQ(early, 64);
    EXPECT(late > 8000 / 8 && late < 8000 / 8 + 7 * 64);
    EXPECT_EQ(looked.count, 4); /* pct (two), urw, pos, random */
    hdi_portfolio_destroy(portfolio);
}
