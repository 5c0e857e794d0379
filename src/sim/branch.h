/* SPDX-License-Identifier: MIT
 *
 * branch: the tree of schedules that the sampler `all` walks through, one path at a time.
 *
 * A path is the schedule under way: a stage for each step, with the tasks that could have taken it
 * (its options), what the next step of each touches, and which of them are still to be tried.
 * Nothing else is kept: the next schedule repeats the path up to the deepest stage that has
 * something left to try, and goes on from there (stateless search).
 *
 * What is to be tried is found by looking at a schedule that has ended (dynamic partial-order
 * reduction). Two steps of different tasks that depend on each other (they touch one object, and
 * not both only look), with nothing in between that orders them, are a race: there are schedules
 * in which they come the other way round, so there has to be a branch that leads there. Steps that
 * do not depend on each other are never swapped. A step happens before another if it is earlier
 * and of the same task, depends on it, made it ready, or by a chain of these; clocks[] holds, for
 * each step, how many steps of each task happen before it.
 *
 * Without a bound: source sets with sleep sets (Abdulla, Aronsson, Jonsson, Sagonas, POPL 2014).
 * For a race of i and j the branch is at i, by a task that can begin what comes after i without i,
 * up to and with j. Every class of schedules that differ only in the order of independent steps is
 * run exactly once, but for runs that turn out, half way, to be in a class that was run already.
 *
 * With a bound on preemptions: bounded partial-order reduction (Coons, Musuvathi, McKinley, OOPSLA
 * 2013). The one schedule that the above keeps of a class may cost more preemptions than another
 * that it leaves out, so it would lose classes. Instead, for each j and each other task, the last
 * step i on which j depends, and which does not happen before it anyway, gets two branches, both
 * by j's task: at i, and at the beginning of the run of steps that i stands in, where the switch
 * may be free. Every class that has a schedule within the bound is run within it, at least once.
 *
 * Rejected  sleep sets under a bound, though only for tasks whose branch was tried without being
 *           cut by the bound, or which the branch preempts (their step costs no less later): where
 *           a run begins differs between schedules of one class, so a schedule that is left
 *           out may be the one whose race asks for an affordable branch. Both lost classes of some
 *           toys in sampler_all_test.c, at bounds 0 and 1.
 *
 * Owner  the sampler. All of it is in memory that is shared with processes forked later, so that a
 *        schedule may run in a child, and its parent goes on with the next. No pointers in it, but
 *        for the objects of the program, which are only compared, and only within one schedule.
 *
 * BRANCH-1: stages [0, fixed) are repeated, [fixed, depth) are new.
 * BRANCH-2: the options of a stage stand in an order that depends on nothing but the schedule:
 *           first the one that goes on without a switch.
 * BRANCH-3: each option that is to be tried can be taken there: it is not HELD.
 */
#ifndef HDI_SIM_BRANCH_H
#define HDI_SIM_BRANCH_H

#include "sim/sampler.h"

#define HDI_BOUND_NONE UINT32_MAX

/* How much is kept; a schedule that is larger is not branched any more beyond. */
enum {
    HDI_STAGES_MAX = 1 << 20,
    HDI_OPTIONS_MAX = 1 << 22,
    HDI_CLOCKS_MAX = 1 << 24,
    HDI_ROSTER_MAX = 1 << 16,
};

enum {
    HDI_OPTION_TRY = 1,     /* to be tried */
    HDI_OPTION_TRIED = 2,   /* it has been */
    HDI_OPTION_ASLEEP = 4,  /* slept when the stage was reached: all that begins so has been run */
    HDI_OPTION_HELD = 8,    /* it yields, and it is the turn of others */
    HDI_OPTION_COSTLY = 16, /* a preemption */
};

struct hdi_option {
    const void *object; /* as in struct hdi_actor, of the last schedule that came here */
    uint32_t number;    /* of the task */
    uint32_t at;        /* its place among the candidates */
    uint32_t since;     /* it is ready: in steps, for the order of options */
    uint32_t ready;     /* as in struct hdi_roster, when the stage was reached */
    uint8_t kind;       /* hd_touch_kind */
    uint8_t flags;      /* HDI_OPTION_* */
    bool yielded;
};

struct hdi_stage {
    uint32_t first;    /* of its options */
    uint32_t count;    /* of them */
    uint32_t picked;   /* which of them */
    uint32_t own;      /* the step is its task's own-th, from 1 */
    uint32_t previous; /* its task's last stage before, plus 1; 0: none */
    uint32_t enabler;  /* the stage that made the task ready, plus 1; 0: none since its last */
    uint32_t spent;    /* preemptions before this stage */
};

/* What is known of a task in the schedule under way, once its path is repeated. Stages are counted
 * from 1, 0 is none. */
struct hdi_roster {
    uint32_t last;       /* it took */
    uint32_t own;        /* how many steps it took */
    uint32_t present;    /* it was last a candidate */
    uint32_t ready;      /* since when it is */
    uint32_t yielded[2]; /* the last two times it gave way, the newer one first */
    uint32_t sleeps;     /* the stage at which it is asleep */
    /* Scratch of the search for races: its last stage before the one looked at; the least own step
     * that does not count; and of those in between, the first one's number and stage. */
    uint32_t before, limit, first, where;
    uint64_t stamp; /* when `first` was set */
};

struct hdi_branches {
    uint32_t bound; /* preemptions; HDI_BOUND_NONE */
    uint32_t depth, fixed; /* BRANCH-1 */
    uint32_t tasks;   /* numbers are below that, in this schedule and those before */
    uint32_t width;   /* of a clock */
    uint32_t clocked; /* stages whose clocks hold */
    bool yields;      /* some task has, in some schedule */
    bool full;        /* a schedule was too large: not everything was branched */
    uint64_t stamp;
    uint32_t races[2 * HDI_ROSTER_MAX]; /* stages; behind them, tasks in between */
    struct hdi_roster roster[HDI_ROSTER_MAX];
    struct hdi_stage stages[HDI_STAGES_MAX];
    struct hdi_option options[HDI_OPTIONS_MAX];
    uint32_t clocks[HDI_CLOCKS_MAX];
};

static inline struct hdi_option *hdi_branch_options(struct hdi_branches *b, uint32_t stage)
{
    return &b->options[b->stages[stage].first];
}

/* Whether `option` sleeps behind its stage, if `taken` is taken there. */
bool hdi_branch_sleeps(const struct hdi_branches *branches, const struct hdi_option *option,
                       const struct hdi_option *taken);

/* The path is a schedule now: find its races, and what is to be tried because of them. With
 * `pending`, what the others were about to do when it ended counts too. */
void hdi_branches_race(struct hdi_branches *branches, bool pending);

/* Go to the next branch. Returns false if there is none. */
bool hdi_branches_advance(struct hdi_branches *branches);

#endif
