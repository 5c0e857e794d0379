/* SPDX-License-Identifier: MIT
 *
 * Backtraces of sleeping fibers are taken by themselves: each is switched to for a moment.
 */
#include "obs/describe.h"

#include <execinfo.h>
#include <inttypes.h>
#include <stdlib.h>

#include "sched/runtime.h"
#include "wait/wait.h"

void hdi_describe_task(FILE *out, const struct hd_task *task)
{
    fprintf(out, "task %" PRIu64, task->id);
    const char *name = hdi_task_name(task);
    if (*name) fprintf(out, " \"%s\"", name);
    if (task->site) {
        fprintf(out, ", spawned at %s:%d in %s()", task->site->file, task->site->line,
                task->site->function);
    }
}

void hdi_describe_frames(FILE *out, const struct hdi_frames *frames, int skip)
{
    char **symbols = backtrace_symbols(frames->at, frames->count);
    for (int i = skip; symbols && i < frames->count; i++) {
        fprintf(out, "    #%d %s\n", i - skip, symbols[i]);
    }
    free(symbols);
}

/* ---- what it waits on ---- */

static void print_case(FILE *out, hd_case *c)
{
    const struct hdi_op *op = hdi_case_node(c)->op;
    if (c->kind == HD_CASE_AT) fputs("    go on at some time\n", out);
    if (c->kind == HD_CASE_AT || !op) return;
    if (c->kind == HD_CASE_JOIN) {
        fputs("    join ", out);
        hdi_describe_task(out, c->object);
        fputc('\n', out);
    } else {
        fprintf(out, "    %s %p\n", op->what, c->object);
    }
}

static void print_since(FILE *out, const struct hd_task *task, const char *what, int64_t since_ns)
{
    struct hd_runtime *runtime = task->runtime;
    const int64_t ago_ns = runtime->world->now(runtime) - since_ns;
    fprintf(out, "  %s for about %.3f s", what, (double)ago_ns / 1e9);
}

static void print_waiter(FILE *out, const struct hd_task *task, const struct hdi_waiter *waiter,
                         int64_t since_ns)
{
    print_since(out, task, "waits", since_ns);
    fputs(waiter->count > 0 ? " to\n" : " for its time to come\n", out);
    for (size_t i = 0; i < waiter->count; i++) print_case(out, &waiter->cases[i]);
}

static void print_fiber_wait(FILE *out, const struct hd_task *task)
{
    const struct hdi_waiter *waiter = task->fiber.waiter;
    const struct hd_task *joined = hdi_waits_on_task(waiter);
    if (joined) {
        print_since(out, task, "waits", task->fiber.since_ns);
        fputs(" to\n    join ", out);
        hdi_describe_task(out, joined);
        fputc('\n', out);
    } else if (waiter) {
        print_waiter(out, task, waiter, task->fiber.since_ns);
    } else {
        print_since(out, task, "is parked", task->fiber.since_ns);
        fputs(" until a waker of it fires\n", out);
    }
}

static void print_task_waits(FILE *out, const struct hd_task *task)
{
    if (!task->poll.waits) fputs("  is pending until a waker of it fires\n", out);
    for (const struct hdi_waiter *w = task->poll.waits; w; w = w->next) {
        print_waiter(out, task, w, w->since_ns);
    }
}

/* On the fiber's own stack. */
static void take_frames(void *arg)
{
    struct hdi_frames *frames = arg;
    frames->count = backtrace(frames->at, HDI_FRAMES_MAX);
}

bool hdi_describe_asleep(FILE *out, struct hdi_worker *worker, struct hd_task *task)
{
    enum { OWN_FRAMES = 3 }; /* this file's and the switch's */
    struct hdi_frames frames = {.count = 0};
    if (!hdi_worker_begin_visit(task)) return false;
    if (task->kind == HDI_TASK_FIBER) {
        print_fiber_wait(out, task);
        hdi_worker_visit(worker, task, take_frames, &frames);
    } else {
        print_task_waits(out, task);
    }
    hdi_worker_end_visit(task);
    if (frames.count > 0) hdi_describe_frames(out, &frames, OWN_FRAMES);
    return true;
}
