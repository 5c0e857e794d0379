/* SPDX-License-Identifier: MIT */
#include "sim/portfolio.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define PART       32         /* weight of 1/24 of the schedules, while all bring new classes */
#define STRIDE     (1u << 24) /* divided by a weight: what a schedule adds to a pass */
#define RATE_ONE   (1u << 16) /* rates are fractions of that */
#define RATE_SHIFT 5          /* a schedule is 1/32 of its rate */
#define EARLY      64         /* schedules by which what enumerates has found what it finds soon */
#define LOOK_ALL   64         /* schedules of a sampler that are looked at, */
#define LOOK_EVERY 8          /* and which of those after them */
#define SINGLY     512        /* schedules in which turns are of one, */
#define IN_A_ROW   8          /* and of how many afterwards */
#define SEEN_BITS  20         /* one for each signature seen, until a quarter of them is set */

struct arm {
    const char *texts[4]; /* one after the other, each until it has no more; NULL ends */
    uint32_t weight;
    uint32_t later;       /* weight after EARLY schedules */
    bool once;            /* one schedule */
};

static const struct arm arms[] = {
    {{"all:1", "all:2", "all:none"}, 4 * PART, PART, false},
    {{"cohort"}, PART, PART, true},
    {{"pct:3"}, 2 * PART, 2 * PART, false},
    {{"urw"}, 8 * PART, 8 * PART, false},
    {{"pct:16"}, 5 * PART, 5 * PART, false},
    {{"pos"}, 4 * PART, 4 * PART, false},
    {{"random"}, PART, PART, false},
};
enum { ARMS = sizeof(arms) / sizeof(arms[0]) };

struct hand {
    struct hdi_sampler *sampler; /* NULL: it has ended */
    unsigned text;               /* which of the arm's */
    uint64_t pass;               /* PORTFOLIO-1: its schedules, each divided by its weight */
    uint32_t schedules;          /* of the present text */
    uint32_t rate;               /* of new classes, in RATE_ONE */
};

struct hdi_portfolio {
    uint64_t seed;
    uint64_t schedules;
    struct hand hands[ARMS];
    unsigned current;
    uint32_t seen_count;
    uint64_t seen[(1u << SEEN_BITS) / 64];
};

/* The next of the arm's texts, if there is one. Returns false if memory is short. */
static bool open_text(struct hand *hand, const struct arm *arm, unsigned text)
{
    hdi_sampler_destroy(hand->sampler);
    hand->sampler = NULL;
    hand->text = text;
    hand->schedules = 0;
    const char *error;
    return !arm->texts[text] || hdi_sampler_create(&hand->sampler, arm->texts[text], &error) == 0;
}

struct hdi_portfolio *hdi_portfolio_create(uint64_t seed)
{
    struct hdi_portfolio *portfolio = calloc(1, sizeof(*portfolio));
    if (!portfolio) return NULL;
    portfolio->seed = seed;
    for (unsigned i = 0; i < ARMS; i++) {
        portfolio->hands[i].rate = RATE_ONE;
        if (open_text(&portfolio->hands[i], &arms[i], 0)) continue;
        hdi_portfolio_destroy(portfolio);
        return NULL;
    }
    return portfolio;
}

void hdi_portfolio_destroy(struct hdi_portfolio *portfolio)
{
    for (unsigned i = 0; i < ARMS; i++) hdi_sampler_destroy(portfolio->hands[i].sampler);
    free(portfolio);
}

static uint32_t weigh(const struct hand *hand, const struct arm *arm)
{
    const uint32_t base = hand->schedules < EARLY ? arm->weight : arm->later;
    return (uint32_t)((uint64_t)base * (RATE_ONE + 3 * (uint64_t)hand->rate) / (4 * RATE_ONE));
}

/* Its last schedule is no longer needed: prepare another. A sampler that cannot be made for want of
 * memory is one that has ended. */
static void prepare(struct hand *hand, const struct arm *arm)
{
    const struct hdi_sampler_kind *kind = hand->sampler->kind;
    const bool over = arm->once || (kind->enumerates && !kind->more(hand->sampler));
    if (over) (void)open_text(hand, arm, hand->text + 1);
}

static unsigned least(const struct hdi_portfolio *portfolio)
{
    unsigned best = ARMS;
    for (unsigned i = 0; i < ARMS; i++) {
        const struct hand *hand = &portfolio->hands[i];
        if (!hand->sampler) continue;
        if (best == ARMS || hand->pass < portfolio->hands[best].pass) best = i;
    }
    HDI_ASSERT(best < ARMS); /* Most samplers have no end. */
    return best;
}

/* Whether the last one goes on. */
static bool stays(const struct hdi_portfolio *portfolio)
{
    if (portfolio->schedules < SINGLY || portfolio->schedules % IN_A_ROW == 0) return false;
    return portfolio->hands[portfolio->current].sampler != NULL;
}

void hdi_portfolio_next(struct hdi_portfolio *portfolio, struct hdi_sampler **sampler,
                        uint64_t *seed)
{
    struct hand *last = &portfolio->hands[portfolio->current];
    if (last->sampler && last->schedules > 0) prepare(last, &arms[portfolio->current]);
    if (!stays(portfolio)) portfolio->current = least(portfolio);
    struct hand *hand = &portfolio->hands[portfolio->current];
    hand->pass += STRIDE / weigh(hand, &arms[portfolio->current]);
    hand->schedules++;
    portfolio->schedules++;
    *sampler = hand->sampler;
    *seed = hand->sampler->kind->enumerates
                ? portfolio->seed
                : hdi_stream_draw(portfolio->seed, HDI_PURPOSE_SCHEDULE, 2, portfolio->schedules);
}

bool hdi_portfolio_looks(const struct hdi_portfolio *portfolio)
{
    const uint32_t schedules = portfolio->hands[portfolio->current].schedules;
    return schedules <= LOOK_ALL || schedules % LOOK_EVERY == 0;
}

static bool is_new(struct hdi_portfolio *portfolio, uint64_t signature)
{
    const uint64_t at = hdi_mix64(signature) >> (64 - SEEN_BITS);
    uint64_t *word = &portfolio->seen[at / 64], bit = UINT64_C(1) << at % 64;
    if (*word & bit) return false;
    if (++portfolio->seen_count > (1u << SEEN_BITS) / 4) {
        memset(portfolio->seen, 0, sizeof(portfolio->seen));
        portfolio->seen_count = 1;
    }
    *word |= bit;
    return true;
}

void hdi_portfolio_tell(struct hdi_portfolio *portfolio, uint64_t signature)
{
    struct hand *hand = &portfolio->hands[portfolio->current];
    if (!hdi_portfolio_looks(portfolio)) return;
    hand->rate -= hand->rate >> RATE_SHIFT;
    if (is_new(portfolio, signature)) hand->rate += RATE_ONE >> RATE_SHIFT;
}
