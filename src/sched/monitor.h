/* SPDX-License-Identifier: MIT
 *
 * monitor: the thread that sees to it that no task keeps a worker for itself.
 *
 * Each live runtime has one, unless its options want none; it is started by the first worker that
 * has a task. While any worker is awake it looks at all of them, every half of the lesser of
 * quantum_ns and stall_ns, or every quarter while one is in a long run. A worker whose count of
 * polls has not changed is still in the same run:
 *
 *   for quantum_ns  the task is asked to give way (HDI_GIVE_WAY), which it does at its next call.
 *                   Timers that nobody watches are then fired, and it goes behind all tasks that
 *                   have not run for long (sched/inject.h).
 *                   From its second look at a run on it sees to the worker's I/O, too.
 *   for stall_ns    the worker is stuck, unless it was only kept waiting for a CPU since the task
 *                   was asked. What is in its queue and its LIFO slot goes behind, too. If nobody
 *                   is free to come for that, and fewer workers are left than there are CPUs for,
 *                   spares are started (dispatcher.h). Spares beyond worker_count, counted without
 *                   the stuck ones, leave again after HDI_SPARE_IDLE_NS.
 *
 * The reserve. One spare does not take what is behind: that may well be the next to keep a thread
 * for itself. It is there for whatever becomes ready from then on, and, when it parks, watches the
 * timers. So a task that runs briefly waits for at most one other that does not: one that is new,
 * until the reserve has been in it for quantum_ns, and another is appointed. The more threads
 * compute, the longer the kernel lets the reserve wait; so for what is behind the next spares come
 * by and by, at most 4 * stall_ns apart.
 *
 * Pinned tasks stay with their worker, stuck or not. An elastic pool starts threads by itself when
 * tasks wait; the monitor only starts one if none is left to keep the time.
 *
 * Sleeping. When no task has run since its last look, and all workers are parked, it sleeps without
 * a time limit; whoever leaves the parked ones wakes it:
 *
 *   worker                                  monitor
 *   1. idle.counts: parked - 1              1. word = ASLEEP
 *   2. word is ASLEEP: word = AWAKE,        2. idle.counts: not all parked?
 *      wake it                                 then word = AWAKE, and go on
 *                                           3. sleep while word is ASLEEP
 *
 * Both 2 follow a read-modify-write of one word (sched/idle.h), so one sees the other. A pool that
 * is new is put into the runtime's list before step 2 is taken for its workers. The look in step 1
 * that finds tasks run lets a busy runtime's workers park and wake without system calls.
 *
 *   MONITOR-1  A worker is in a task for long only while the monitor is awake.
 *   MONITOR-2  `running` of a worker names the task of its last poll, which may be gone: memory of
 *              tasks stays typed (TASK-3), and to ask the next one in its place does no harm.
 *              Reports take a reference, and believe it if the count of polls is still the same.
 *   MONITOR-3  While there is a reserve the monitor is awake, and tells others of what is behind
 *              each time it looks: a notifier may have been content with the reserve, which
 *              searched. When there is none any more, it has been told itself
 *              (hdi_spares_dismiss()).
 *
 * Rejected
 *   Timer signals to the workers: they interrupt system calls of the program.
 *   Telling a stuck worker by the time alone: on a busy machine every thread that waits for a CPU
 *   would be replaced by one more that does.
 *   A thread for every task that is behind, at once: with 64 that compute on each CPU the kernel
 *   lets one that wakes up wait for 60 ms and more (docs/design/0011-long-runs.md).
 */
#ifndef HDI_SCHED_MONITOR_H
#define HDI_SCHED_MONITOR_H

#include <stdio.h>

#include "os/mutex.h"
#include "os/thread.h"
#include "sched/runq.h"

struct hd_runtime;
struct hd_task;
struct hdi_worker;

#define HDI_SPARE_IDLE_NS INT64_C(100000000)

enum hdi_monitor_word {
    HDI_MONITOR_OFF, /* its thread was not started yet */
    HDI_MONITOR_ASLEEP,
    HDI_MONITOR_AWAKE,
    HDI_MONITOR_OVER, /* or its thread could not be started */
};

struct hdi_monitor {
    struct hd_runtime *runtime;              /* constant */
    bool wanted;                             /* constant: there is one, sooner or later */
    bool reports;                            /* constant: workers are prodded (sched/prod.h) */
    int64_t period_ns;                       /* constant: from look to look */
    struct hdi_mutex starting;               /* held for the next two */
    bool started;
    struct hdi_thread thread;
    int64_t looked_ns;                       /* its own: when it last did, */
    bool attentive;                          /* and saw a run that is long already */
    struct hdi_runq between;                 /* its own: from a stuck worker to the others */
    alignas(HDI_CACHE_LINE) _Atomic(uint32_t) word; /* enum hdi_monitor_word; futex */
};

/* Context: hd_runtime_create(), with the options and the world set. */
void hdi_monitor_init(struct hdi_monitor *monitor, struct hd_runtime *runtime);

/* Context: hd_runtime_destroy(), while there are workers, but no tasks. */
void hdi_monitor_stop(struct hdi_monitor *monitor);

/* Step 2 of the worker, if it has to do something. */
void hdi_monitor_rouse(struct hdi_monitor *monitor);

/* Step 2 of the worker. Context: any, after step 1. */
static inline void hdi_monitor_check(struct hdi_monitor *monitor)
{
    if (!monitor->wanted) return;
    if (hdi_load_acquire(&monitor->word) <= HDI_MONITOR_ASLEEP) hdi_monitor_rouse(monitor); /* N */
}

/* Go to sleep, unless there is something to watch. Context: the monitor. */
void hdi_monitor_sleep(struct hdi_monitor *monitor);

/* How many threads it has. Context: a worker, while all are parked. */
unsigned hdi_monitor_threads(struct hdi_monitor *monitor);

/* ---- what obs/stall.c provides ---- */

/* Before the first report. */
void hdi_stall_prepare(void);

/* A worker has been in a run of `task`, its poll number `polls`, for so long. Context: the
 * monitor. */
void hdi_stall_report(struct hdi_worker *worker, struct hd_task *task, uint64_t polls,
                      int64_t long_ns);

/* Say about a task what there is to say: "heddle: WHY: task 17 ...", what it waits on or where it
 * runs, and its backtrace; of a running one only with hd_options.report_stalls.
 * Context: a task of this runtime, or one of its workers between tasks; the caller holds a
 * reference of `task`, which is another.  Switches: a fiber. */
void hdi_monitor_report(struct hd_runtime *runtime, struct hd_task *task, const char *why,
                        FILE *out);

#endif
