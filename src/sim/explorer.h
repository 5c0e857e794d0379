/* SPDX-License-Identifier: MIT
 *
 * explorer: one schedule of a program after the other, for those who choose them: hd_explore(),
 * hd_shrink().
 *
 * In one process a runtime serves all schedules: it is rewound between them (ids, clock, draws,
 * network), which costs less than a microsecond. One whose schedule failed is abandoned, with the
 * tasks that stand in it, and another is made.
 *
 * With `fork` each schedule runs in a child, which tells its outcome through memory both share.
 * What its sampler learns is lost, unless that keeps it in such memory, too.
 */
#ifndef HDI_SIM_EXPLORER_H
#define HDI_SIM_EXPLORER_H

#include "sim/schedule.h"

/* How one schedule went. Plain memory: a child may have written it. */
struct hdi_outcome {
    struct hdi_verdict verdict;
    uint32_t steps, tasks, decisions, preemptions, faults;
    uint64_t signature;
    uint64_t digest;
    int err;        /* why it could not be run, or recorded */
    bool came_back; /* it was written */
};

struct hdi_explorer {
    hd_fn *fn;
    void *arg;
    hd_explore_options options;   /* defaults filled in */
    hd_options runtime_options;
    hd_runtime *runtime;          /* NULL: none yet, or the last was abandoned */
    const struct hdi_fault_list *faults; /* those that may happen; NULL: all */
    bool signs;                   /* the signature of the next one is wanted */
    struct hdi_outcome *shared;   /* fork: what the child says */
    _Atomic(uint32_t) done;       /* the program has returned, */
    int code;                     /* this */
};

/* Options that hd_explore_error() accepts. Returns: 0, -ENOMEM. */
int hdi_explorer_open(struct hdi_explorer *explorer, hd_fn *fn, void *arg,
                      const hd_explore_options *options);
void hdi_explorer_close(struct hdi_explorer *explorer);

/* One schedule, recorded in `log` if that is not NULL. Returns: 0; -errno: it could not be run, or
 * recorded. */
int hdi_explorer_run(struct hdi_explorer *explorer, struct hdi_sampler *sampler, uint64_t seed,
                     const char *log, struct hdi_outcome *outcome);

#endif
