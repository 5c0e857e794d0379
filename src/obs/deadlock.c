/* SPDX-License-Identifier: MIT
 *
 * deadlock: telling that no task can ever run again, and what each waits on.
 *
 * In sim the driver knows. In live the worker that parks last looks: no worker is awake, no
 * queue has a task, no timer runs, no thread of others is inside, and every other thread of
 * the process waits in a call to this runtime, without a deadline. A thread that begins to
 * wait when all workers sleep already wakes one, so that the look is repeated:
 *
 *   thread                                  worker
 *   1. put its wait into `waits`            1. idle.counts: parked + 1
 *   2. idle.counts: all parked?             2. all parked: look at `waits`
 *      then wake one
 *
 * Both 2 follow a read-modify-write of one word (sched/idle.h), so one sees the other.
 *
 * Backtraces are taken by the fibers themselves: each is switched to for a moment, which
 * is possible because it is sure to sleep.
 */
#include <errno.h>
#include <execinfo.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "os/thread.h"
#include "sched/find.h"
#include "sched/runtime.h"
#include "task/state.h"
#include "wait/wait.h"

enum { FRAMES_MAX = 24, TASKS_MAX = 100 };

/* ---- the report ---- */

struct report {
    struct hdi_worker *worker;
    FILE *out;
    unsigned shown;
    void *frames[FRAMES_MAX];
    int frame_count;
};

static void print_task(FILE *out, const struct hd_task *task)
{
    fprintf(out, "task %" PRIu64, task->id);
    if (task->name[0]) fprintf(out, " \"%s\"", task->name);
    if (task->site) {
        fprintf(out, ", spawned at %s:%d in %s()", task->site->file, task->site->line,
                task->site->function);
    }
}

static void print_case(FILE *out, hd_case *c)
{
    const struct hdi_op *op = hdi_case_node(c)->op;
    if (c->kind == HD_CASE_AT || !op) return; /* A timer would run. */
    if (c->kind == HD_CASE_JOIN) {
        fputs("    join ", out);
        print_task(out, c->object);
        fputc('\n', out);
    } else {
        fprintf(out, "    %s %p\n", op->what, c->object);
    }
}

static void print_since(struct report *report, const char *what, int64_t since_ns)
{
    struct hd_runtime *runtime = report->worker->exec.runtime;
    const int64_t ago_ns = runtime->world->now(runtime) - since_ns;
    fprintf(report->out, "  %s for about %.3f s", what, (double)ago_ns / 1e9);
}

static void print_waiter(struct report *report, const struct hdi_waiter *waiter, int64_t since_ns)
{
    print_since(report, "waits", since_ns);
    fputs(" to\n", report->out);
    for (size_t i = 0; i < waiter->count; i++) print_case(report->out, &waiter->cases[i]);
}

static void print_fiber_wait(struct report *report, const struct hd_task *task)
{
    const struct hdi_waiter *waiter = task->fiber.waiter;
    const struct hd_task *joined = hdi_waits_on_task(waiter);
    if (joined) {
        print_since(report, "waits", task->fiber.since_ns);
        fputs(" to\n    join ", report->out);
        print_task(report->out, joined);
        fputc('\n', report->out);
    } else if (waiter) {
        print_waiter(report, waiter, task->fiber.since_ns);
    } else {
        print_since(report, "is parked", task->fiber.since_ns);
        fputs(" until a waker of it fires\n", report->out);
    }
}

static void print_task_waits(struct report *report, const struct hd_task *task)
{
    if (!task->poll.waits) fputs("  is pending until a waker of it fires\n", report->out);
    for (const struct hdi_waiter *w = task->poll.waits; w; w = w->next) {
        print_waiter(report, w, w->since_ns);
    }
}

/* On the fiber's own stack. */
static void take_backtrace(void *arg)
{
    struct report *report = arg;
    report->frame_count = backtrace(report->frames, FRAMES_MAX);
}

static void print_backtrace(struct report *report)
{
    enum { OWN_FRAMES = 3 }; /* this file's and the switch's */
    char **symbols = backtrace_symbols(report->frames, report->frame_count);
    for (int i = OWN_FRAMES; symbols && i < report->frame_count; i++) {
        fprintf(report->out, "    #%d %s\n", i - OWN_FRAMES, symbols[i]);
    }
    free(symbols);
}

static void print_blocked(struct hd_task *task, void *arg)
{
    struct report *report = arg;
    if (++report->shown > TASKS_MAX) return;
    print_task(report->out, task);
    fputc('\n', report->out);
    if (task->kind != HDI_TASK_FIBER) {
        print_task_waits(report, task);
        return;
    }
    print_fiber_wait(report, task);
    if (hdi_worker_visit(report->worker, task, take_backtrace, report)) print_backtrace(report);
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
        fprintf(report.out, "reproduce with HEDDLE_SEED=%" PRIu64 " %s\n", runtime->options.seed,
                program_invocation_name);
    }
}

/* ---- live ---- */

/* Whether no dispatcher has anything to do, now or later; *threads counts their workers. */
static bool all_asleep(struct hd_runtime *runtime, unsigned *threads)
{
    *threads = 0;
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
        for (unsigned i = 0; i < d->worker_count; i++) {
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
    hd_cancel(task);
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
