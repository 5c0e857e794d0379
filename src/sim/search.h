/* SPDX-License-Identifier: MIT
 *
 * search: which decisions an execution takes, over many executions of one program.
 *
 * The program under exploration is deterministic but for what it asks here. It runs
 * again and again; each run is an execution, a sequence of decisions:
 *
 *   while (hdi_search_begin(&x)) {
 *       ... int pick = hdi_search_choose(&x, &choice); ...
 *       hdi_search_end(&x);
 *   }
 *
 * HDI_SEARCH_ALL     depth-first over every sequence the budgets allow. Nothing but the
 *                     sequence is kept: each execution replays the last one's decisions up
 *                     to the deepest that has an alternative left (stateless search).
 * HDI_SEARCH_RANDOM  an independent uniform draw each time, reproducible from a seed.
 * HDI_SEARCH_REPLAY  one execution, from a list; zeros after its end.
 *
 * Budgets bound the search. An alternative may cost one of a budget: by convention
 * budget HDI_BUDGET_PREEMPT pays for leaving a thread that could go on (CHESS's
 * preemption bound: most faults need two or three), HDI_BUDGET_DELAY for letting an
 * effect arrive late. Alternative 0 is always free, so that every execution can end.
 *
 * Indices count all alternatives, those too dear included: a list found under one
 * budget replays under any other.
 *
 * Rejected   sleep sets and partial-order reduction: they keep one interleaving of each
 *            class, and the one they keep may cost more preemptions than a dropped one,
 *            so under a bound whole classes vanish (BPOR repairs this by conservative
 *            backtracking that gives back most of the gain). What is certainly
 *            independent is left out by the caller, who does not ask (sim/model.h).
 */
#ifndef HDI_SIM_SEARCH_H
#define HDI_SIM_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/prng.h"

enum hdi_search_mode { HDI_SEARCH_ALL, HDI_SEARCH_RANDOM, HDI_SEARCH_REPLAY };

enum { HDI_BUDGET_PREEMPT, HDI_BUDGET_DELAY, HDI_BUDGETS };

#define HDI_BUDGET_UNLIMITED  UINT16_MAX
#define HDI_ALTERNATIVES_MAX 32

/* SEARCH-1: 1 <= count <= HDI_ALTERNATIVES_MAX.
 * SEARCH-2: bit 0 of every mask is clear: alternative 0 is free. */
struct hdi_choice {
    unsigned count;
    uint32_t costly[HDI_BUDGETS]; /* bit i: alternative i costs one of this budget */
};

struct hdi_search_config {
    enum hdi_search_mode mode;
    uint16_t budgets[HDI_BUDGETS]; /* ignored by REPLAY */
    uint64_t executions_max;       /* 0 is no limit; RANDOM needs one */
    uint32_t steps_max;            /* per execution; 0 is no limit */
    uint64_t seed;                 /* RANDOM */
    const uint8_t *replay;         /* REPLAY; kept, not copied */
    size_t replay_count;
};

struct hdi_search_stats {
    uint64_t executions;
    uint64_t steps;     /* over all executions */
    uint32_t steps_max; /* of the longest one */
    uint32_t depth_max; /* most decisions in one */
    bool exhausted;     /* ALL: nothing is left within the budgets */
    bool pruned;        /* some alternative was too dear */
};

struct hdi_search_decision {
    uint8_t picked;
    struct hdi_choice choice;
    uint16_t left[HDI_BUDGETS]; /* before this decision */
};

/* All fields are private but `stats`, which is read-only. One thread at a time. */
struct hdi_search {
    struct hdi_search_config config;
    struct hdi_search_stats stats;
    struct hdi_prng prng;
    struct hdi_search_decision *path; /* [0, depth) is the execution so far */
    uint32_t path_room;
    uint32_t depth;
    uint32_t fixed; /* [depth, fixed) is yet to be replayed */
    uint32_t steps;
    uint16_t left[HDI_BUDGETS];
    bool finished;
};

void hdi_search_init(struct hdi_search *x, const struct hdi_search_config *config);
void hdi_search_fini(struct hdi_search *x);

/* Start an execution. Returns whether there is one to run. */
bool hdi_search_begin(struct hdi_search *x);

/* Returns: the alternative to take, or -EPROTO if this cannot be the decision that the
 * earlier execution or the list took here: the program is not deterministic, or the
 * list belongs to another program. */
int hdi_search_choose(struct hdi_search *x, const struct hdi_choice *choice);

/* Count one step. Returns false past the cap: end the execution. */
static inline bool hdi_search_step(struct hdi_search *x)
{
    x->steps++;
    return x->config.steps_max == 0 || x->steps <= x->config.steps_max;
}

/* End the execution and prepare the next. Returns: 0, or -EPROTO if it took fewer
 * decisions than the list or the replayed part has. */
int hdi_search_end(struct hdi_search *x);

/* The decisions of the execution as text that hdi_search_parse() reads, runs folded:
 * "0:12,1,2:3" is twelve zeros, a one, three twos. Trailing zeros are left out.
 * Returns: the length, like snprintf(). */
size_t hdi_search_format(const struct hdi_search *x, char *text, size_t size);

/* Returns: how many decisions `text` holds, written up to `room`, or -EINVAL. */
long hdi_search_parse(const char *text, uint8_t *decisions, size_t room);

#endif
