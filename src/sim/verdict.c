/* SPDX-License-Identifier: MIT
 *
 * verdict: how a schedule ends that does not end well.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <heddle/log.h>

#include "base/check.h"
#include "sim/program.h"
#include "sim/repeat.h"
#include "task/exec.h"
#include "wait/wait.h"

/* Without its directories. */
static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- verdicts ---- */

void hdi_schedule_verdict(struct hdi_schedule *schedule, hd_verdict kind, int code,
                          const char *format, ...)
{
    struct hdi_verdict *verdict = &schedule->verdict;
    if (verdict->kind != HD_VERDICT_NONE) return;
    verdict->kind = kind;
    verdict->code = code;
    va_list list;
    va_start(list, format);
    vsnprintf(verdict->message, sizeof(verdict->message), format, list);
    va_end(list);
    const struct hdi_event_record event = {
        .kind = HD_LOG_VERDICT,
        .a = kind,
        .b = (uint64_t)(int64_t)code,
        .text = verdict->message,
    };
    hdi_schedule_event(schedule->runtime, &event);
}

bool hdi_schedule_over(const struct hdi_schedule *schedule)
{
    return hdi_schedule_is_over(schedule);
}

noreturn void hdi_schedule_stop(struct hdi_worker *worker)
{
    for (;;) hdi_worker_switch_to(worker, NULL);
}

/* ---- races ---- */

static bool writes(hd_touch_kind kind)
{
    return kind == HD_TOUCH_WRITE || kind == HD_TOUCH_UPDATE;
}

static bool is_race(const struct hdi_actor *a, const struct hdi_actor *b)
{
    if (a->object != b->object || a->kind == HD_TOUCH_ANY || b->kind == HD_TOUCH_ANY) return false;
    return (hdi_touch_is_plain(a->kind) || hdi_touch_is_plain(b->kind)) &&
           (writes(a->kind) || writes(b->kind));
}

static const char *file_of(const struct hdi_actor *actor)
{
    return base_of(actor->site ? actor->site->file : "?");
}

static int line_of(const struct hdi_actor *actor)
{
    return actor->site ? actor->site->line : 0;
}

void hdi_schedule_look_for_races(struct hdi_schedule *schedule, const struct hd_task *task,
                                 struct hd_task *const *others, size_t count)
{
    const struct hdi_actor *actor = hdi_schedule_find(schedule, task);
    for (size_t i = 0; i < count; i++) {
        const struct hdi_actor *other = hdi_schedule_find(schedule, others[i]);
        if (others[i] == task || !is_race(actor, other)) continue;
        hdi_schedule_verdict(schedule, HD_VERDICT_RACE, 0,
                             "tasks %" PRIu64 " and %" PRIu64
                             " touch the same memory at once, at %s:%d (%s) and %s:%d (%s)",
                             task->id, others[i]->id, file_of(actor), line_of(actor),
                             writes(actor->kind) ? "writes" : "reads", file_of(other),
                             line_of(other), writes(other->kind) ? "writes" : "reads");
        return;
    }
}

/* ---- deadlocks ---- */

enum { STUCK_MAX = 16 };

struct stuck {
    struct hdi_schedule *schedule;
    unsigned count;                         /* tasks that wait */
    const struct hd_task *first[STUCK_MAX]; /* those that were spawned first, in that order */
    const struct hd_task *lost; /* one that waits for a signal which came before */
};

static bool was_unheard(const struct hdi_schedule *schedule, const void *object)
{
    for (unsigned i = 0; i < schedule->unheard_count; i++) {
        if (schedule->unheard[i] == object) return true;
    }
    return false;
}

const char *hdi_schedule_waits_for(const struct hd_task *task, const void **object)
{
    if (task->kind != HDI_TASK_FIBER) return "be woken";
    const struct hdi_waiter *waiter = task->fiber.waiter;
    const struct hd_task *joined = hdi_waits_on_task(waiter);
    if (joined) {
        *object = joined;
        return "join a task";
    }
    if (!waiter) return "be woken";
    if (waiter->count == 0) return "sleep";
    if (waiter->count > 1) return "select";
    *object = waiter->cases[0].object;
    const struct hdi_op *op = hdi_case_node(&waiter->cases[0])->op;
    return op ? op->what : "wait";
}

static bool waits_for_unheard(const struct hdi_schedule *schedule, const struct hd_task *task)
{
    if (task->kind != HDI_TASK_FIBER) return false;
    const struct hdi_waiter *waiter = task->fiber.waiter;
    if (!waiter || hdi_waits_on_task(waiter)) return false;
    for (size_t i = 0; i < waiter->count; i++) {
        if (was_unheard(schedule, waiter->cases[i].object)) return true;
    }
    return false;
}

/* They come in no particular order. */
static void note_stuck(struct hd_task *task, void *arg)
{
    struct stuck *stuck = arg;
    unsigned at = stuck->count < STUCK_MAX ? stuck->count : STUCK_MAX;
    while (at > 0 && stuck->first[at - 1]->id > task->id) at--;
    for (unsigned i = STUCK_MAX - 1; i > at; i--) stuck->first[i] = stuck->first[i - 1];
    if (at < STUCK_MAX) stuck->first[at] = task;
    stuck->count++;
    const bool lost = waits_for_unheard(stuck->schedule, task);
    if (lost && (!stuck->lost || task->id < stuck->lost->id)) stuck->lost = task;
}

static void list_stuck(const struct stuck *stuck, char *text, size_t size)
{
    size_t used = 0;
    for (unsigned i = 0; i < stuck->count && i < STUCK_MAX && used < size; i++) {
        const struct hd_task *task = stuck->first[i];
        const void *object;
        const char *name = hdi_schedule_name(task);
        used += (size_t)snprintf(text + used, size - used, "%s task %" PRIu64 "%s%s%s: %s",
                                 i > 0 ? ";" : "", task->id, *name ? " \"" : "", name,
                                 *name ? "\"" : "", hdi_schedule_waits_for(task, &object));
    }
}

void hdi_schedule_deadlock(struct hdi_schedule *schedule)
{
    struct stuck stuck = {.schedule = schedule};
    char text[HD_MESSAGE_MAX] = "";
    hdi_runtime_for_each_task(schedule->runtime, note_stuck, &stuck);
    list_stuck(&stuck, text, sizeof(text));
    if (stuck.lost) {
        hdi_schedule_verdict(schedule, HD_VERDICT_LOST_WAKE, 0,
                             "task %" PRIu64 " waits for a signal that came before it waited;%s",
                             stuck.lost->id, text);
    } else {
        hdi_schedule_verdict(schedule, HD_VERDICT_DEADLOCK, 0, "%u waiting:%s", stuck.count, text);
    }
}

static struct hdi_schedule *schedule_here(void)
{
    const struct hdi_exec *exec = hdi_exec_self();
    return exec ? exec->runtime->sim.schedule : NULL;
}

void hdi_schedule_unheard(const void *object)
{
    struct hdi_schedule *schedule = schedule_here();
    if (!schedule || was_unheard(schedule, object)) return;
    if (schedule->unheard_count < HDI_UNHEARD_MAX) {
        schedule->unheard[schedule->unheard_count++] = object;
    }
}

void hdi_schedule_gone(const void *object)
{
    struct hdi_schedule *schedule = schedule_here();
    if (!schedule) return;
    if (schedule->log) hdi_log_forget(schedule->log, object);
    if (schedule->replay) hdi_replay_forget(schedule->replay, object);
}

void hdi_schedule_stale(const char *what)
{
    struct hdi_schedule *schedule = schedule_here();
    if (!schedule || !schedule->judges || schedule->allows_stale) return;
    if (hdi_process_gone()) return; /* Its handles were closed for it. */
    hdi_schedule_verdict(schedule, HD_VERDICT_STALE, 0, "a closed %s was used", what);
    struct hd_task *task = hdi_task_self();
    if (task && task->kind == HDI_TASK_FIBER) hdi_schedule_stop(hdi_worker_self());
}

/* ---- what a program leaves behind ---- */

void hdi_schedule_settle(struct hdi_schedule *schedule, int code)
{
    struct hd_runtime *runtime = schedule->runtime;
    if (code != 0 && !schedule->ignores_results) {
        hdi_schedule_verdict(schedule, HD_VERDICT_RESULT, code, "the program returned %d (%s)",
                             code, code < 0 ? strerror(-code) : "its own code");
    }
    const bool foreign = hdi_load_acquire(&runtime->sim.foreign);
    if ((foreign ? hdi_runtime_alive(runtime) : hdi_runtime_alive_of_one(runtime)) == 0) return;
    const hd_verdict before = schedule->verdict.kind;
    schedule->verdict.kind = HD_VERDICT_NONE; /* The rest is to run. */
    const int err = hd_runtime_shutdown(runtime, HD_FOREVER);
    if (before != HD_VERDICT_NONE) {
        schedule->verdict.kind = before;
    } else if (err) {
        hdi_schedule_verdict(schedule, HD_VERDICT_LEAK, 0,
                             "%" PRIu64 " tasks do not end when they are cancelled",
                             hdi_runtime_alive(runtime));
    }
}

void hdi_schedule_look_for_handles(struct hdi_schedule *schedule)
{
    struct hd_task *task;
    if (schedule->verdict.kind || !hdi_runtime_leaked(schedule->runtime, &task)) return;
    hdi_schedule_verdict(schedule, HD_VERDICT_LEAK, 0,
                         "task %" PRIu64 ", spawned at %s:%d, was neither joined nor detached",
                         task->id, base_of(task->site ? task->site->file : "?"),
                         task->site ? task->site->line : 0);
}

/* ---- stopping for a debugger ---- */

void hdi_schedule_pause(const struct hdi_schedule *schedule, const struct hd_task *task)
{
    fprintf(stderr,
            "heddle: stopped before step %" PRIu32 ", of task %" PRIu64
            "; gdb -p %d, and kill -CONT %d to go on\n",
            schedule->steps, task->id, (int)getpid(), (int)getpid());
    raise(SIGSTOP);
}

/* ---- assertions ---- */

void hd_assert_failed(const char *what, const hd_site *site)
{
    struct hdi_exec *exec = hdi_exec_self();
    struct hdi_schedule *schedule = exec && exec->current ? exec->runtime->sim.schedule : NULL;
    if (!schedule) hdi_fail(site->file, site->line, what);
    const struct hdi_event_record event = {
        .kind = HD_LOG_ASSERT,
        .task = exec->current->id,
        .text = what,
        .site = site,
    };
    hdi_schedule_event(schedule->runtime, &event);
    hdi_schedule_verdict(schedule, HD_VERDICT_ASSERT, 0, "%s:%d: %s", base_of(site->file),
                         site->line, what);
    if (exec->current->kind == HDI_TASK_FIBER) hdi_schedule_stop(hdi_worker_self());
}

/* ---- what hd_run() says ---- */

static void say_how_to_repeat(const struct hd_runtime *runtime)
{
    if (runtime->options.replay) return;
    fputs("heddle: to repeat it: ", stderr);
    hdi_repeat_print(stderr, runtime);
    fputc('\n', stderr);
}

/* Where the log was cut the replay has to stop, which is no difference. */
static const char *name_ending(const struct hdi_schedule *schedule)
{
    const hd_verdict kind = schedule->verdict.kind;
    const bool stops = kind == HD_VERDICT_DIVERGED && schedule->replay &&
                       hdi_replay_is_cut(schedule->replay);
    return stops ? "the replay stops" : hd_verdict_name(kind);
}

int hdi_schedule_conclude(struct hdi_schedule *schedule, int err, int result)
{
    struct hdi_verdict *verdict = &schedule->verdict;
    if (schedule->judges && err == 0) { /* It was recorded by hd_explore(). */
        hdi_schedule_settle(schedule, result);
        hdi_schedule_look_for_handles(schedule);
    }
    if (verdict->kind != HD_VERDICT_NONE) {
        fprintf(stderr, "heddle: %s: %s\n", name_ending(schedule), verdict->message);
        say_how_to_repeat(schedule->runtime);
        return -ENOTRECOVERABLE;
    }
    if (err == -EDEADLK) {
        const struct hd_runtime *runtime = schedule->runtime;
        hdi_schedule_deadlock(schedule);
        verdict->kind = HD_VERDICT_NONE; /* A cancel ends what waits. */
        /* The report, if there was one (obs/deadlock.c), has said so already. */
        if (runtime->options.deadlock != HD_DEADLOCK_REPORT) say_how_to_repeat(runtime);
    } else if (!schedule->judges) {
        const hd_verdict ended = result ? HD_VERDICT_RESULT : HD_VERDICT_NONE;
        const struct hdi_event_record event = {
            .kind = HD_LOG_VERDICT,
            .a = ended,
            .b = (uint64_t)(int64_t)result,
        };
        hdi_schedule_event(schedule->runtime, &event);
    }
    return err;
}
