/* SPDX-License-Identifier: MIT
 *
 * stall: which task keeps a worker for itself, and where it stands.
 *
 * A running task's backtrace can only be taken by its own thread, in a signal handler. One report
 * at a time asks for one (`asking`); the thread that is asked answers into static memory:
 *
 *   who reports                             handler on the worker's thread
 *   1. worker = whom; answer = ASKED        1. answer: ASKED -> TAKING by CAS, and worker is us;
 *   2. send the signal                         otherwise it was not meant for us
 *   3. wait for TAKEN, at most ANSWER_NS;   2. take the frames
 *      then ASKED -> NOTHING by CAS, or     3. answer = TAKEN, wake
 *      it is TAKING: wait on
 *
 * Edge K: worker and frames go from side to side by the steps of `answer`.
 */
#include <errno.h>
#include <execinfo.h>

#include "obs/describe.h"
#include "os/clock.h"
#include "os/futex.h"
#include "sched/prod.h"
#include "sched/runtime.h"
#include "task/state.h"

#define ANSWER_NS INT64_C(500000000)

enum answer {
    NOTHING,
    ASKED,
    TAKING,
    TAKEN,
};

static struct hdi_mutex asking = HDI_MUTEX_INIT;
static _Atomic(struct hdi_worker *) asked; /* asking writes, the handler reads; K */
static _Atomic(uint32_t) answer;           /* enum answer; futex */
static struct hdi_frames taken;            /* whoever `answer` says */

/* ---- the signal ---- */

bool hdi_stall_answer(void)
{
    uint32_t seen = ASKED;
    if (hdi_load_acquire(&answer) != ASKED || hdi_load_relaxed(&asked) != hdi_worker_self() ||
        !hdi_cas_acq_rel(&answer, &seen, TAKING)) { /* K */
        return false;
    }
    taken.count = backtrace(taken.at, HDI_FRAMES_MAX);
    hdi_store_release(&answer, TAKEN); /* K */
    hdi_futex_wake(&answer, 1);
    return true;
}

void hdi_stall_prepare(void)
{
    struct hdi_frames prime; /* The first call loads a library. */
    prime.count = backtrace(prime.at, HDI_FRAMES_MAX);
}

/* ---- asking ---- */

/* Returns whether the answer came. */
static bool wait_for_answer(void)
{
    const int64_t until_ns = hdi_clock_now() + ANSWER_NS;
    for (uint32_t now; (now = hdi_load_acquire(&answer)) != TAKEN;) { /* K */
        const int64_t limit_ns = now == TAKING ? INT64_MAX : until_ns;
        if (hdi_futex_wait(&answer, now, limit_ns) != -ETIMEDOUT) continue;
        if (hdi_cas_acq_rel(&answer, &now, NOTHING)) return false;
    }
    hdi_store_relaxed(&answer, NOTHING); /* The handler is done with it. */
    return true;
}

/* Where the worker's thread stands. Returns false if it does not say: it may have blocked the
 * signal, or sleep where none comes to it. Context: not the worker itself. */
static bool ask(struct hdi_worker *worker, struct hdi_frames *frames)
{
    hdi_mutex_lock(&asking);
    hdi_store_relaxed(&asked, worker); /* The next store publishes it. */
    hdi_store_release(&answer, ASKED); /* K */
    hdi_prod_send(worker);
    const bool said = wait_for_answer();
    if (said) *frames = taken;
    hdi_mutex_unlock(&asking);
    return said;
}

enum { OWN_FRAMES = 2 }; /* the handler, and what the kernel returns to */

/* ---- a task that runs ---- */

/* Whether the worker is still in that poll. */
static bool is_in(struct hdi_worker *worker, const struct hd_task *task, uint64_t polls)
{
    return hdi_load_acquire(&worker->counters.polls) == polls &&
           hdi_load_acquire(&worker->counters.running) == task;
}

static void print_run(FILE *out, struct hdi_worker *worker, const struct hd_task *task,
                      uint64_t polls, int64_t long_ns)
{
    struct hdi_frames frames;
    const bool said = ask(worker, &frames) && is_in(worker, task, polls);
    const struct hd_dispatcher *dispatcher = worker->dispatcher;
    fprintf(out, "heddle: worker %u", worker->index);
    if (dispatcher != &dispatcher->runtime->main) fprintf(out, " of \"%s\"", dispatcher->name);
    fputs(" has run ", out);
    hdi_describe_task(out, task);
    fprintf(out, ", for %lld ms\n", (long long)(long_ns / 1000000));
    if (said) hdi_describe_frames(out, &frames, OWN_FRAMES);
}

void hdi_stall_report(struct hdi_worker *worker, struct hd_task *task, uint64_t polls,
                      int64_t long_ns)
{
    if (!hdi_word_try_ref(&task->word)) return;
    if (is_in(worker, task, polls)) { /* MONITOR-2 */
        flockfile(stderr);
        print_run(stderr, worker, task, polls, long_ns);
        funlockfile(stderr);
    }
    hdi_task_unref(task);
}

/* ---- a task that somebody wonders about ---- */

struct inquiry {
    struct hd_runtime *runtime;
    struct hd_task *task;
    const char *why;
    FILE *out;
};

/* The worker that is in a run of it, and which one; NULL if there is none. Of one that ran it last
 * and now runs nothing the state says so. */
static struct hdi_worker *find_runner(struct hd_runtime *runtime, const struct hd_task *task,
                                      uint64_t *polls)
{
    struct hdi_worker *found = NULL;
    hdi_mutex_lock(&runtime->list);
    for (struct hd_dispatcher *d = runtime->dispatchers; d && !found; d = d->next) {
        for (unsigned i = 0; i < hdi_dispatcher_places(d) && !found; i++) {
            struct hdi_worker *worker = &d->workers[i];
            *polls = hdi_load_acquire(&worker->counters.polls);
            if (hdi_load_relaxed(&worker->counters.state) != HDI_WORKER_RUNNING) continue;
            if (is_in(worker, task, *polls)) found = worker;
        }
    }
    if (found) hdi_dispatcher_enter(found->dispatcher); /* POOL-2 */
    hdi_mutex_unlock(&runtime->list);
    return found;
}

static void describe_running(const struct inquiry *inquiry, struct hdi_worker *self)
{
    uint64_t polls;
    struct hdi_frames frames;
    struct hdi_worker *worker = find_runner(inquiry->runtime, inquiry->task, &polls);
    if (!worker) {
        fputs("  waits for its turn to run\n", inquiry->out);
        return;
    }
    const bool can_ask = inquiry->runtime->monitor.reports && worker != self;
    const bool said = can_ask && ask(worker, &frames);
    fprintf(inquiry->out, "  runs on worker %u\n", worker->index);
    if (said && is_in(worker, inquiry->task, polls)) {
        hdi_describe_frames(inquiry->out, &frames, OWN_FRAMES);
    }
    hdi_dispatcher_leave(worker->dispatcher);
}

/* On the worker's own stack. */
static void inquire(struct hdi_worker *worker, void *arg)
{
    const struct inquiry *inquiry = arg;
    struct hd_task *task = inquiry->task;
    fprintf(inquiry->out, "heddle: %s: ", inquiry->why);
    hdi_describe_task(inquiry->out, task);
    fputc('\n', inquiry->out);
    if (hdi_describe_asleep(inquiry->out, worker, task)) return;
    if (hdi_word_lifecycle(hdi_load_acquire(&task->word)) == HDI_COMPLETE) {
        fputs("  has ended meanwhile\n", inquiry->out);
    } else {
        describe_running(inquiry, worker);
    }
}

void hdi_monitor_report(struct hd_runtime *runtime, struct hd_task *task, const char *why,
                        FILE *out)
{
    struct hdi_worker *worker = hdi_worker_self();
    HD_CHECK(worker && worker->exec.runtime == runtime);
    struct inquiry inquiry = {.runtime = runtime, .task = task, .why = why, .out = out};
    const struct hd_task *self = worker->exec.current;
    if (self && self->kind == HDI_TASK_FIBER) {
        hdi_worker_run_errand(worker, inquire, &inquiry);
    } else {
        inquire(worker, &inquiry);
    }
}
