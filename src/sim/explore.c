/* SPDX-License-Identifier: MIT
 *
 * explore: one program again and again, each time by another schedule, until one fails.
 *
 * How one is run is in explorer.h; who chooses is a sampler, or the portfolio of all of them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "os/clock.h"
#include "sim/explorer.h"
#include "sim/portfolio.h"

/* Schedules between two looks at the real time: few if they take long, since who waits for the time
 * to be over waits for all of them. */
#define CLOCK_EVERY_MAX 64
#define CLOCK_SLOW_NS   10000000

struct search {
    struct hdi_explorer explorer;
    struct hdi_sampler *own;    /* the one that was asked for; NULL: the portfolio */
    struct hdi_portfolio *portfolio;
    hd_explore_result *result;
    bool watched;               /* from another process */
    uint64_t look_every, look_next; /* at the real time: how often, and before which schedule */
    int64_t began_ns, looked_ns;
};

const char *hd_verdict_name(hd_verdict verdict)
{
    static const char *const names[] = {
        [HD_VERDICT_NONE] = "nothing found",
        [HD_VERDICT_ASSERT] = "assertion failed",
        [HD_VERDICT_RESULT] = "error returned",
        [HD_VERDICT_INVARIANT] = "invariant broken",
        [HD_VERDICT_DEADLOCK] = "deadlock",
        [HD_VERDICT_LOST_WAKE] = "lost wake-up",
        [HD_VERDICT_LIVELOCK] = "livelock",
        [HD_VERDICT_RACE] = "data race",
        [HD_VERDICT_STALE] = "closed handle used",
        [HD_VERDICT_LEAK] = "task leak",
        [HD_VERDICT_CRASH] = "crash",
        [HD_VERDICT_DIVERGED] = "divergence",
        [HD_VERDICT_LOG] = "log not written",
    };
    return (unsigned)verdict <= HD_VERDICT_LOG ? names[verdict] : "?";
}

/* ---- many ---- */

/* Which sampler the next schedule is by, and from which seed. Returns false if there is none. */
static bool next_schedule(struct search *search, uint64_t n, struct hdi_sampler **sampler,
                          uint64_t *seed)
{
    if (search->portfolio) {
        hdi_portfolio_next(search->portfolio, sampler, seed);
        search->explorer.signs = hdi_portfolio_looks(search->portfolio);
        return true;
    }
    *sampler = search->own;
    const struct hdi_sampler_kind *kind = search->own->kind;
    *seed = n == 0 || kind->enumerates
                ? search->explorer.options.seed
                : hdi_stream_draw(search->explorer.options.seed, HDI_PURPOSE_SCHEDULE, 1, n);
    return n == 0 || !kind->enumerates || kind->more(search->own);
}

/* Whoever looks from outside knows which schedule is under way, should the process die in it. */
static void announce_schedule(const struct search *search, const struct hdi_sampler *sampler,
                              uint64_t seed)
{
    hd_explore_result *result = search->result;
    if (!search->watched || result->failed_at) return;
    result->seed = seed;
    hdi_sampler_text(sampler, result->sampler, sizeof(result->sampler));
}

/* One that enumerates goes the same way again, up to where it branches off. */
static void check_repeats(const struct hdi_sampler *sampler, struct hdi_outcome *outcome)
{
    const struct hdi_sampler_kind *kind = sampler->kind;
    if (!kind->diverged || outcome->verdict.kind != HD_VERDICT_NONE) return;
    if (!kind->diverged(sampler)) return;
    outcome->verdict.kind = HD_VERDICT_DIVERGED;
    snprintf(outcome->verdict.message, sizeof(outcome->verdict.message),
             "the same choices did not lead to the same tasks: something outlives the run");
}

/* The failure, once more, and recorded. A schedule that does something else the second time is the
 * failure then. */
static int confirm(struct search *search, struct hdi_sampler *sampler, uint64_t seed,
                   struct hdi_outcome *first)
{
    struct hdi_outcome again;
    const char *log = search->explorer.options.log;
    const int err = hdi_explorer_run(&search->explorer, sampler, seed, log, &again);
    if (err) return err;
    if (first->verdict.kind == HD_VERDICT_DIVERGED) return 0;
    const bool same = again.verdict.kind == first->verdict.kind && again.steps == first->steps &&
                      again.digest == first->digest;
    if (same) return 0;
    char was[96];
    snprintf(was, sizeof(was), "%s", hd_verdict_name(first->verdict.kind));
    snprintf(first->verdict.message, sizeof(first->verdict.message),
             "a schedule that ended with \"%s\" after %" PRIu32 " steps ended with \"%s\" after "
             "%" PRIu32 " the next time: something outlives the run",
             was, first->steps, hd_verdict_name(again.verdict.kind), again.steps);
    first->verdict.kind = HD_VERDICT_DIVERGED;
    return 0;
}

static void count(hd_explore_result *result, const struct hdi_outcome *outcome)
{
    result->schedules++;
    result->steps += outcome->steps;
    if (outcome->steps > result->steps_max) result->steps_max = outcome->steps;
    if (outcome->tasks > result->tasks_max) result->tasks_max = outcome->tasks;
    if (outcome->verdict.kind != HD_VERDICT_NONE) result->failures++;
}

static void report(hd_explore_result *result, const struct hdi_outcome *outcome,
                   const struct hdi_sampler *sampler, uint64_t seed)
{
    result->failed_at = result->schedules;
    result->seed = seed;
    hdi_sampler_text(sampler, result->sampler, sizeof(result->sampler));
    result->verdict = outcome->verdict.kind;
    result->code = outcome->verdict.code;
    snprintf(result->message, sizeof(result->message), "%s", outcome->verdict.message);
}

static bool time_is_up(struct search *search, uint64_t n)
{
    if (search->explorer.options.time_ns == 0 || n < search->look_next) return false;
    const int64_t now_ns = hdi_clock_now();
    const bool slow = now_ns - search->looked_ns > CLOCK_SLOW_NS;
    if (slow) search->look_every = 1;
    else if (search->look_every < CLOCK_EVERY_MAX) search->look_every *= 2;
    search->looked_ns = now_ns;
    search->look_next = n + search->look_every;
    return now_ns - search->began_ns >= search->explorer.options.time_ns;
}

static int run_all(struct search *search)
{
    hd_explore_result *result = search->result;
    const uint64_t most = search->explorer.options.schedules;
    search->look_every = 1;
    search->began_ns = search->looked_ns = hdi_clock_now();
    for (uint64_t n = 0; n < most && !time_is_up(search, n); n++) {
        struct hdi_sampler *sampler;
        uint64_t seed;
        struct hdi_outcome outcome;
        if (!next_schedule(search, n, &sampler, &seed)) {
            result->exhausted = sampler->kind->complete(sampler);
            break;
        }
        announce_schedule(search, sampler, seed);
        int err = hdi_explorer_run(&search->explorer, sampler, seed, NULL, &outcome);
        if (err) return err;
        check_repeats(sampler, &outcome);
        count(result, &outcome);
        if (search->portfolio) hdi_portfolio_tell(search->portfolio, outcome.signature);
        if (outcome.verdict.kind == HD_VERDICT_NONE || result->failed_at) continue;
        err = confirm(search, sampler, seed, &outcome);
        report(result, &outcome, sampler, seed); /* It was found, be it not recorded. */
        if (err) return err;
        if (!search->explorer.options.keep_going) break;
    }
    return 0;
}

/* ---- beginning and ending ---- */

static const char *check(const hd_explore_options *options)
{
    if (!options) return NULL;
    if (options->size != sizeof(*options)) {
        return "size is not sizeof(hd_explore_options); use HD_EXPLORE_OPTIONS_INIT";
    }
    if (options->time_ns < 0) return "time_ns is negative";
    if (options->options) {
        const char *error = hd_options_error(options->options);
        if (error) return error;
        if (options->options->sim_order != HD_SIM_RANDOM) return "sim_order is not HD_SIM_RANDOM";
        if (options->options->embedded) return "embedded is for the live world";
    }
    if (!options->sampler || strcmp(options->sampler, "portfolio") == 0) return NULL;
    struct hdi_sampler *sampler;
    const char *error = NULL;
    const int err = hdi_sampler_create(&sampler, options->sampler, &error);
    if (err) return error ? error : "out of memory";
    hdi_sampler_destroy(sampler);
    return NULL;
}

const char *hd_explore_error(const hd_explore_options *options)
{
    return check(options);
}

static int open_search(struct search *search)
{
    if (strcmp(search->explorer.options.sampler, "portfolio") == 0) {
        search->portfolio = hdi_portfolio_create(search->explorer.options.seed);
        return search->portfolio ? 0 : -ENOMEM;
    }
    const char *error;
    return hdi_sampler_create(&search->own, search->explorer.options.sampler, &error);
}

static void close_search(struct search *search)
{
    hdi_explorer_close(&search->explorer);
    if (search->portfolio) hdi_portfolio_destroy(search->portfolio);
    if (search->own) hdi_sampler_destroy(search->own);
}

int hdi_explore(hd_fn *fn, void *arg, const hd_explore_options *options, hd_explore_result *result,
                bool watched)
{
    if (!fn || !result || check(options)) return -EINVAL;
    struct search search = {.result = result, .watched = watched};
    memset(result, 0, sizeof(*result));
    int err = hdi_explorer_open(&search.explorer, fn, arg, options);
    if (!err) err = open_search(&search);
    if (!err) err = run_all(&search);
    close_search(&search);
    if (result->verdict == HD_VERDICT_NONE) result->code = err;
    result->ended = true;
    return err;
}

int hd_explore(hd_fn *fn, void *arg, const hd_explore_options *options, hd_explore_result *result)
{
    return hdi_explore(fn, arg, options, result, false);
}
