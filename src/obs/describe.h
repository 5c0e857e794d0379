/* SPDX-License-Identifier: MIT
 *
 * describe: what reports say about a task: who it is, what it waits on, and where it stands.
 */
#ifndef HDI_OBS_DESCRIBE_H
#define HDI_OBS_DESCRIBE_H

#include <stdio.h>

#include "sched/worker.h"

enum { HDI_FRAMES_MAX = 24 };

struct hdi_frames {
    void *at[HDI_FRAMES_MAX];
    int count;
};

/* task 17 "name", spawned at file:line in function() */
void hdi_describe_task(FILE *out, const struct hd_task *task);

/* One line for each but the innermost `skip`, which are the report's own. */
void hdi_describe_frames(FILE *out, const struct hdi_frames *frames, int skip);

/* What a task that sleeps waits on, and a fiber's backtrace. Returns false, having written
 * nothing, if it does not sleep. Context: a worker of its runtime, on its own stack. */
bool hdi_describe_asleep(FILE *out, struct hdi_worker *worker, struct hd_task *task);

#endif
