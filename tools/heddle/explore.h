/* SPDX-License-Identifier: MIT
 *
 * explore: what `heddle explore` is asked for, how its jobs go, and what it says in the end.
 */
#ifndef EXPLORE_H
#define EXPLORE_H

#include <heddle.h>

#include "options.h"
#include "program.h"

enum { EXPLORE_JOBS_MAX = 256 };

struct explore_options {
    const char *sampler, *output;
    struct number seed, schedules, time, steps, jobs;
    bool fork, clock, keep_going, ignore_results, allow_stale, json;
};

/* One process that explores; `shared` is its hd_explore_result, written by it at any time. */
struct job {
    unsigned number;
    struct exploration *exploration;
    uint64_t seed, schedules;
    int fd;
    volatile hd_explore_result *shared;
    hd_explore_result result; /* as it was when it ended */
    struct ending ending;
    int err; /* of program_run() */
    bool ended;
    uint64_t seen;           /* schedules that it had run, */
    int64_t seen_ns;         /* from then on, */
    int64_t stuck_ns;        /* for so long, as far as it was watched */
    struct ending death;     /* of a schedule that crashed, in a process of its own */
    char log[PROGRAM_PATH_MAX]; /* where it records a failure */
};

struct exploration {
    const struct explore_options *options;
    char *const *argv;
    bool fork; /* in this round */
    unsigned job_count;
    struct job *jobs;
    hd_nursery *round;   /* NULL but while it runs */
    struct job *failed;  /* the first one that found something; NULL */
    struct job *given_up; /* whose schedule does not end, and ended the round; NULL */
    int64_t began, ended;
    bool diverges;       /* two runs of one schedule differed, in processes of their own */
};

/* Sums over all jobs, as they are now. */
struct explore_sums {
    uint64_t schedules, failures, steps, steps_max, tasks_max;
    bool exhausted;
};
struct explore_sums explore_sum(const struct exploration *x);

/* Say how it went. `log` is where the failure is recorded, or NULL. Returns an exit code. */
int explore_report(const struct exploration *x, const char *log);

#endif
