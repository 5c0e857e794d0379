/* SPDX-License-Identifier: MIT
 *
 * warn: what is worth knowing about a simulated run, and no fault.
 *
 * Tasks that wait are in a list, in the order they began to; as all may wait for the same time, the
 * first is always the next one to warn of, and costs no look at the others. It is kept only if
 * somebody wants to know: a record, a replay, or options.log.
 *
 * Owner  the thread that drives.
 *
 *   WAITS-1  a task is in the list from when it leaves to wait until it can go on, or has been
 *            warned of.
 */
#ifndef HDI_SIM_WARN_H
#define HDI_SIM_WARN_H

#include "sched/runtime.h"

/* Places are numbers of tasks + 1; 0: none. */
struct hdi_wait {
    struct hd_task *task; /* NULL: it is not in the list */
    int64_t since_ns;
    uint32_t next, prev;
};

struct hdi_waits {
    struct hdi_wait *places; /* by place; the first is the list's head */
    uint32_t room;
    uint32_t count;          /* in the list */
};

/* Into the record, and to options.log; counted. `task` is the id of whom it is about; 0: nobody. */
void hdi_sim_warn(struct hd_runtime *runtime, uint64_t task, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

struct hdi_schedule;

/* The task waits from now on; it can go on. */
void hdi_waits_begin(struct hdi_schedule *schedule, struct hd_task *task);
void hdi_waits_end(struct hdi_schedule *schedule, const struct hd_task *task);

/* When the next warning is due; INT64_MAX: none is. */
int64_t hdi_waits_next(const struct hdi_schedule *schedule);

/* Warn of the first. Context: there is one. */
void hdi_waits_warn(struct hdi_schedule *schedule);

/* Nobody waits. */
void hdi_waits_clear(struct hdi_waits *waits);
void hdi_waits_fini(struct hdi_waits *waits);

#endif
