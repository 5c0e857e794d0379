/* SPDX-License-Identifier: MIT
 *
 * deadlock: telling that no task can ever run again, and what each waits on.
 *
 * In sim the driver knows. In live the worker that parks last looks: no worker is awake, no
 * queue has a task, no timer runs, no descriptor is watched, no thread of others is inside, and
 * every other thread of the process waits in a call to this runtime, without a deadline. A thread
 * that begins to wait when all workers sleep already wakes one, so that the look is repeated:
 *
 *   thread                                  worker
 *   1. put its wait into `waits`            1. idle.counts: parked + 1
 *   2. idle.counts: all parked?             2. all parked: look at `waits`
 *      then wake one
 *
 * Both 2 follow a read-modify-write of one word (sched/idle.h), so one sees the other.
 */
#include <inttypes.h>
#include <stdio.h>

#include "obs/describe.h"
#include "os/thread.h"
#include "sched/find.h"
#include "sched/runtime.h"
#include "sim/repeat.h"

enum { TASKS_MAX = 100 };

/* ---- the report ---- */

struct report {
    struct hdi_worker *worker;
    FILE *out;
    unsigned shown;
};

static void print_blocked(struct hd_task *task, void *arg)
{
    struct report *report = arg;
    if (++report->shown > TASKS_MAX) return;
    hdi_describe_task(report->out, task);
    fputc('\n', report->out);
    (void)hdi_describe_asleep(report->out, report->worker, task); /* It sleeps. */
}

void hdi_deadlock_report(struct hdi_worker *worker)
{
    struct hd_runtime *runtime = worker->exec.runtime;
    struct report report = {.worker = worker, .out = stderr};
    fprintf(report.out, "heddle: deadlock: no task can ever run again; %" PRIu64 " wait:\n",
            hdi_runtime_alive(runtime));
    hdi_runtime_for_each_task(runtime, print_blocked, &report);
    if (report.shown > TASKS_MAX) {
        fprintf(report.out, "... and %u more tasks\n", report.shown - TASKS_MAX);
    }
    if (runtime->world->kind == HD_WORLD_SIM) {
        fputs("reproduce with ", report.out);
        hdi_repeat_print(report.out, runtime);
        fputc('\n', report.out);
    }
}

/* ---- live ---- */

/* Whether no dispatcher has anything to do, now or later; *threads counts their workers. */
static bool all_asleep(struct hd_runtime *runtime, unsigned *threads)
{
    *threads = hdi_monitor_threads(&runtime->monitor);
    bool asleep = true;
    hdi_mutex_lock(&runtime->list);
    for (struct hd_dispatcher *d = runtime->dispatchers; d; d = d->next) {
        *threads += hd_dispatcher_workers(d);
        asleep = asleep && hdi_dispatcher_quiet(d) && hdi_keeper_next(d) == INT64_MAX;
    }
    hdi_mutex_unlock(&runtime->list);
    return asleep;
}

/* How often any task ran. */
static uint64_t runs(struct hd_runtime *runtime)
{
    uint64_t sum = 0;
    hdi_mutex_lock(&runtime->list);
    for (struct hd_dispatcher *d = runtime->dispatchers; d; d = d->next) {
        for (unsigned i = 0; i < hdi_dispatcher_places(d); i++) {
            sum += hdi_load_acquire(&d->workers[i].counters.polls);
        }
    }
    hdi_mutex_unlock(&runtime->list);
    return sum;
}

/* How many plain threads wait for good; 0 if one of them is about to go on. */
static unsigned count_waits(struct hd_runtime *runtime)
{
    unsigned count = 0;
    bool over = false;
    hdi_mutex_lock(&runtime->waits_lock);
    for (struct hdi_list *link = runtime->waits.next; link != &runtime->waits; link = link->next) {
        const struct hdi_thread_wait *wait = (const struct hdi_thread_wait *)link;
        over = over || hdi_load_acquire(wait->word) != wait->expected;
        count++;
    }
    hdi_mutex_unlock(&runtime->waits_lock);
    return over ? 0 : count;
}

/* The dispatchers are looked at one after the other, and one may wake another meanwhile. So
 * all must be asleep twice, with no run in between. */
static bool is_deadlock(struct hd_runtime *runtime)
{
    unsigned threads;
    if (hdi_load_acquire(&runtime->closing)) return false;
    if (hdi_load_acquire(&runtime->io_waits) > 0) return false; /* The kernel may wake somebody. */
    const uint64_t before = runs(runtime);
    if (!all_asleep(runtime, &threads)) return false;
    const unsigned waiting = count_waits(runtime);
    if (waiting == 0 || hdi_load_acquire(&runtime->guests) > 0) return false;
    if (hdi_runtime_alive(runtime) == 0 || hdi_thread_count() != threads + waiting) return false;
    return all_asleep(runtime, &threads) && runs(runtime) == before;
}

static void cancel_one(struct hd_task *task, void *arg)
{
    (void)arg;
    hdi_task_cancel(task);
}

void hdi_deadlock_check(struct hdi_worker *worker)
{
    struct hd_runtime *runtime = worker->exec.runtime;
    if (runtime->options.deadlock != HD_DEADLOCK_REPORT || !is_deadlock(runtime)) return;
    bool first = false;
    if (!hdi_cas_acq_rel(&runtime->deadlocked, &first, true)) return;
    hdi_deadlock_report(worker);
    hdi_runtime_for_each_task(runtime, cancel_one, NULL);
}
