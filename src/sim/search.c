/* SPDX-License-Identifier: MIT */
#include "sim/search.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

void hdi_search_init(struct hdi_search *x, const struct hdi_search_config *config)
{
    HD_CHECK(config->mode != HDI_SEARCH_RANDOM || config->executions_max > 0);
    memset(x, 0, sizeof(*x));
    x->config = *config;
    hdi_prng_init(&x->prng, config->seed);
    if (config->mode == HDI_SEARCH_REPLAY) {
        x->config.executions_max = 1;
        for (int b = 0; b < HDI_BUDGETS; b++) x->config.budgets[b] = HDI_BUDGET_UNLIMITED;
    }
}

void hdi_search_fini(struct hdi_search *x)
{
    free(x->path);
    memset(x, 0, sizeof(*x));
}

bool hdi_search_begin(struct hdi_search *x)
{
    const uint64_t max = x->config.executions_max;
    if (x->finished || (max && x->stats.executions >= max)) return false;
    x->depth = 0;
    x->steps = 0;
    memcpy(x->left, x->config.budgets, sizeof(x->left));
    return true;
}

static bool affordable(const struct hdi_choice *choice, const uint16_t *left, unsigned pick)
{
    for (int b = 0; b < HDI_BUDGETS; b++) {
        if ((choice->costly[b] >> pick & 1) && left[b] == 0) return false;
    }
    return true;
}

/* The first affordable alternative from `from` on; count if there is none. */
static unsigned next_affordable(const struct hdi_choice *choice, const uint16_t *left,
                                unsigned from)
{
    uint32_t dear = 0;
    for (int b = 0; b < HDI_BUDGETS; b++) {
        if (left[b] == 0) dear |= choice->costly[b];
    }
    while (from < choice->count && (dear >> from & 1)) from++;
    return from;
}

static unsigned draw(struct hdi_search *x, const struct hdi_choice *choice)
{
    unsigned picks[HDI_ALTERNATIVES_MAX] = {0}, n = 1; /* SEARCH-2 */
    for (unsigned i = 1; i < choice->count; i++) {
        if (affordable(choice, x->left, i)) picks[n++] = i;
    }
    return picks[hdi_prng_below(&x->prng, n)];
}

static int pick_fresh(struct hdi_search *x, const struct hdi_choice *choice)
{
    switch (x->config.mode) {
    case HDI_SEARCH_ALL:
        return 0;
    case HDI_SEARCH_RANDOM:
        return (int)draw(x, choice);
    case HDI_SEARCH_REPLAY:
        if (x->depth >= x->config.replay_count) return 0;
        if (x->config.replay[x->depth] >= choice->count) return -EPROTO;
        return x->config.replay[x->depth];
    }
    return -EPROTO;
}

static struct hdi_search_decision *path_slot(struct hdi_search *x)
{
    if (hdi_unlikely(x->depth == x->path_room)) {
        x->path_room = x->path_room ? 2 * x->path_room : 256;
        x->path = realloc(x->path, x->path_room * sizeof(*x->path));
        HD_CHECK_MSG(x->path, "search: out of memory");
    }
    return &x->path[x->depth];
}

int hdi_search_choose(struct hdi_search *x, const struct hdi_choice *choice)
{
    HDI_ASSERT(choice->count >= 1 && choice->count <= HDI_ALTERNATIVES_MAX); /* SEARCH-1 */
    if (choice->count == 1) return 0;
    struct hdi_search_decision *d = path_slot(x);
    if (x->depth < x->fixed) {
        if (memcmp(&d->choice, choice, sizeof(*choice)) != 0) return -EPROTO;
    } else {
        const int pick = pick_fresh(x, choice);
        if (pick < 0) return pick;
        d->picked = (uint8_t)pick;
        d->choice = *choice;
        memcpy(d->left, x->left, sizeof(d->left));
    }
    for (int b = 0; b < HDI_BUDGETS; b++) {
        HDI_ASSERT(!(choice->costly[b] & 1)); /* SEARCH-2 */
        if (x->left[b] == 0 && choice->costly[b]) x->stats.pruned = true;
        if (x->left[b] != HDI_BUDGET_UNLIMITED) x->left[b] -= choice->costly[b] >> d->picked & 1;
    }
    x->depth++;
    return d->picked;
}

/* Move the deepest decision that can move. Returns false if none can. */
static bool advance(struct hdi_search *x)
{
    while (x->depth > 0) {
        struct hdi_search_decision *d = &x->path[x->depth - 1];
        const unsigned next = next_affordable(&d->choice, d->left, d->picked + 1u);
        if (next < d->choice.count) {
            d->picked = (uint8_t)next;
            x->fixed = x->depth;
            return true;
        }
        x->depth--;
    }
    return false;
}

int hdi_search_end(struct hdi_search *x)
{
    struct hdi_search_stats *stats = &x->stats;
    stats->executions++;
    stats->steps += x->steps;
    if (x->steps > stats->steps_max) stats->steps_max = x->steps;
    if (x->depth > stats->depth_max) stats->depth_max = x->depth;
    const bool replay = x->config.mode == HDI_SEARCH_REPLAY;
    if (x->depth < (replay ? x->config.replay_count : x->fixed)) return -EPROTO;
    x->fixed = 0;
    if (x->config.mode == HDI_SEARCH_ALL && !advance(x)) {
        x->finished = true;
        stats->exhausted = true;
    }
    return 0;
}

size_t hdi_search_format(const struct hdi_search *x, char *text, size_t size)
{
    uint32_t count = x->depth;
    while (count > 0 && x->path[count - 1].picked == 0) count--;
    size_t used = 0;
    if (size > 0) text[0] = '\0';
    for (uint32_t i = 0; i < count;) {
        uint32_t run = 1;
        while (i + run < count && x->path[i + run].picked == x->path[i].picked) run++;
        const size_t room = used < size ? size - used : 0;
        char *at = room ? text + used : NULL;
        const char *comma = i ? "," : "";
        const int n = run > 1 ? snprintf(at, room, "%s%u:%u", comma, x->path[i].picked, run)
                              : snprintf(at, room, "%s%u", comma, x->path[i].picked);
        used += (size_t)n;
        i += run;
    }
    return used;
}

/* A number up to `max` at *text, which moves past it; -1 if there is none. */
static long parse_number(const char **text, long max)
{
    const char *at = *text;
    long n = 0;
    if (*at < '0' || *at > '9') return -1;
    for (; *at >= '0' && *at <= '9'; at++) {
        n = n * 10 + (*at - '0');
        if (n > max) return -1;
    }
    *text = at;
    return n;
}

long hdi_search_parse(const char *text, uint8_t *decisions, size_t room)
{
    size_t count = 0;
    while (*text) {
        const long pick = parse_number(&text, HDI_ALTERNATIVES_MAX - 1);
        long run = 1;
        if (*text == ':') {
            text++;
            run = parse_number(&text, 1000000);
        }
        if (pick < 0 || run < 1) return -EINVAL;
        for (; run > 0; run--, count++) {
            if (count < room) decisions[count] = (uint8_t)pick;
        }
        if (*text == ',' && text[1]) {
            text++;
        } else if (*text) {
            return -EINVAL;
        }
    }
    return (long)count;
}
