/* SPDX-License-Identifier: MIT
 *
 * budgets: what the tests of budgets share.
 */
#ifndef TEST_BUDGETS_H
#define TEST_BUDGETS_H

#include "rt.h"

/* The pool of a nursery, in which nothing is lost. */
static inline hd_budget_info budgets_look(hd_nursery *nursery)
{
    hd_budget_info info;
    EXPECT_EQ(hd_budget_look(nursery, &info), 0);
    const int64_t *given = &info.given.ops, *remaining = &info.remaining.ops;
    const int64_t *granted = &info.granted.ops, *consumed = &info.consumed.ops;
    for (int i = 0; i < HD_RESOURCES; i++) {
        EXPECT(remaining[i] >= 0 && granted[i] >= 0 && consumed[i] >= 0);
        if (given[i] == HD_UNLIMITED) {
            EXPECT_EQ(remaining[i], HD_UNLIMITED);
            EXPECT_EQ(granted[i] + consumed[i], 0);
        } else {
            EXPECT_EQ(given[i], remaining[i] + granted[i] + consumed[i]);
        }
    }
    return info;
}

/* A nursery with this budget, in which a task that fails is no matter; `how` may say more. */
static inline void budgets_open(hd_nursery *nursery, const hd_budget *budget,
                                const hd_nursery_options *how)
{
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    if (how) options = *how;
    options.on_error = HD_ON_ERROR_COLLECT;
    options.size = sizeof(options);
    options.budget = budget;
    EXPECT_EQ(hd_nursery_open(nursery, &options), 0);
}

static inline hd_task *budgets_spawn(hd_nursery *nursery, hd_fn *fn, void *arg)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.nursery = nursery;
    hd_task *task;
    EXPECT_EQ(hd_spawn_with(&task, fn, arg, &options), 0);
    return task;
}

/* A child that runs to its end. Returns its result. */
static inline int budgets_run(hd_nursery *nursery, hd_fn *fn, void *arg)
{
    hd_task *task = budgets_spawn(nursery, fn, arg);
    EXPECT_EQ(hd_shield(), 0); /* A child that fails cancels who opened the nursery. */
    const int result = rt_join(task);
    EXPECT_EQ(hd_unshield(), 0);
    return result;
}

/* Wait until all children have ended; they may spawn more meanwhile. */
static inline void budgets_quiet(hd_nursery *nursery)
{
    while (hd_nursery_look(nursery).live > 0) hd_yield();
}

/* ---- children ---- */

static inline int budgets_idle(void *arg)
{
    (void)arg;
    return 0;
}

/* Computes until it may no more; *arg counts. */
static inline int budgets_compute(void *arg)
{
    int64_t *done = arg;
    int err;
    while ((err = hd_checkpoint(1)) == 0) ++*done;
    return err;
}

/* Looks into a channel until it may no more; for who counts channel_ops, because its owner does
 * nothing that costs any. */
static inline int budgets_look_into_chan(void *arg)
{
    int64_t *done = arg;
    hd_chan *chan = hd_chan_create(sizeof(int), 1);
    int item, err;
    while ((err = hd_chan_recv_try(chan, &item)) == -EAGAIN) ++*done;
    hd_chan_destroy(chan);
    return err;
}

/* Computes *arg ops. */
static inline int budgets_compute_some(void *arg)
{
    const int64_t *ops = arg;
    for (int64_t i = 0; i < *ops; i++) {
        const int err = hd_checkpoint(1);
        if (err) return err;
    }
    return 0;
}

#endif
