/* SPDX-License-Identifier: MIT
 *
 * levels: runnable tasks by priority, each level first come first served, none starving.
 *
 * The highest level that has a task goes first, unless a lower one is overdue: it has a
 * task, and `age` others were taken since it last had its turn. Of several overdue levels
 * the lowest goes first.
 *
 *   LEVELS-1  A task at place k (from 0) of level l is among the next
 *             (k + 1) * (age[l] + 1 + l) tasks taken. For each place, age[l] others may
 *             pass, then each lower level once, then it is its turn: a lower level that
 *             just had its turn is not overdue again so soon.
 *   LEVELS-2  The highest level gets all but at most one task in age[l] + 1 for each
 *             other level l.
 *
 * Owner     whoever holds the lock of the injection queue this is part of.
 *
 * Rejected  Raising a waiting task's level step by step: every task must be touched while
 *           it waits, and the bound grows with the number of tasks above.
 */
#ifndef HDI_SCHED_LEVELS_H
#define HDI_SCHED_LEVELS_H

#include <stdint.h>

struct hd_task;

enum { HDI_LEVELS = 4 }; /* 3 is the highest */

/* The highest is never overdue. */
#define HDI_LEVEL_AGES {64, 16, 4, 0}

struct hdi_levels {
    struct hdi_level {
        struct hd_task *first, *last; /* linked by their `next` */
        uint32_t passed;              /* taken from others while a task waited here */
    } levels[HDI_LEVELS];
};

void hdi_levels_init(struct hdi_levels *levels);
void hdi_levels_push(struct hdi_levels *levels, struct hd_task *task);

/* Returns NULL if there is none. */
struct hd_task *hdi_levels_pop(struct hdi_levels *levels);

#endif
