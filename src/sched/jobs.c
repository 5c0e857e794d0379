/* SPDX-License-Identifier: MIT */
#include "sched/jobs.h"

#include "base/check.h"
#include "base/mutant.h"
#include "sched/find.h"
#include "sched/runtime.h"
#include "task/state.h"
#include "wait/wait.h"

/* hd_job.older_ & HD_JOB_OPEN_ */
enum openness {
    PRIVATE,
    LINED, /* private, and lined up unless its strand has left since */
    OPEN,
    TAKEN, /* and never was in a deque */
};

_Static_assert(alignof(hd_job) > HD_JOB_OPEN_, "the bits are free in a link");

/* hd_job.end_: LINED: the one forked next; otherwise 0, a struct hdi_waiter, or */
#define ENDED ((uintptr_t)1)

static _Atomic(uintptr_t) *end_of(hd_job *job)
{
    return (_Atomic(uintptr_t) *)&job->end_;
}

static hd_job *older_than(const hd_job *job)
{
    return (hd_job *)(job->older_ & ~HD_JOB_OPEN_);
}

static enum openness openness_of(const hd_job *job)
{
    return (enum openness)(job->older_ & HD_JOB_OPEN_);
}

static void set_openness(hd_job *job, enum openness openness)
{
    job->older_ = (uintptr_t)older_than(job) | openness;
}

void hdi_jobs_init(struct hdi_worker *worker)
{
    const bool sim = worker->exec.runtime->world->kind == HD_WORLD_SIM;
    hdi_store_relaxed(&worker->jobs.wanted, sim); /* Nobody else knows it yet. */
    worker->jobs.first = worker->jobs.last = NULL;
    hdi_deque_init(&worker->jobs.open);
}

void hdi_jobs_enter(struct hdi_worker *worker)
{
    hdi_thread_want(worker ? &worker->jobs.wanted : NULL);
}

/* ---- strands ---- */

static int run_taken(void *arg)
{
    hd_job *job = arg;
    job->run_(job);
    hdi_plain_write(job); /* the result */
    struct hd_task *ready = NULL;
    uintptr_t waiter;
    if (HDI_MUTANT(jobs_end_blind)) {
        waiter = hdi_load_acquire(end_of(job));
        hdi_store_release(end_of(job), ENDED);
    } else {
        waiter = hdi_exchange_acq_rel(end_of(job), ENDED); /* E; JOBS-5 */
    }
    if (HDI_MUTANT(jobs_touch_late)) (void)hdi_load_relaxed(end_of(job));
    if (waiter) (void)hdi_waiter_decide_one((struct hdi_waiter *)waiter, 0, &ready);
    if (ready) hdi_sched_submit(ready);
    return 0;
}

/* For somebody outside the runtime, who joins the task. */
static int run_root(void *arg)
{
    hd_job *job = arg;
    job->run_(job);
    return 0;
}

bool hdi_jobs_runs(const struct hd_task *fiber)
{
    return fiber->fiber.fn == run_taken || fiber->fiber.fn == run_root;
}

struct hd_task *hdi_sched_origin(struct hd_task *task)
{
    const bool strand = task->kind == HDI_TASK_FIBER && task->fiber.fn == run_taken;
    return strand ? task->origin : task;
}

/* From now on others can run it. Context: the forker, before anyone else knows. */
static void prepare(hd_job *job, struct hd_task *task, enum openness openness)
{
    hdi_plain_write(job);
    set_openness(job, openness);
    job->origin_ = hdi_sched_origin(task);
    hdi_store_relaxed(end_of(job), 0); /* P */
}

static void give_to(struct hdi_worker *worker, struct hd_task *strand, hd_job *job)
{
    hdi_plain_read(job); /* P */
    strand->fiber.arg = job;
    strand->origin = job->origin_;
    strand->site = strand->origin->site;
    hdi_spawn_show_strand(worker, strand);
}

/* Have it run by a strand of its own, at once. Returns false if memory is short. */
static bool give_away(struct hdi_worker *worker, hd_job *job)
{
    struct hd_task *strand = hdi_spawn_strand(worker, run_taken);
    if (!strand) return false;
    prepare(job, worker->exec.current, TAKEN);
    give_to(worker, strand, job);
    hdi_sched_submit(strand);
    return true;
}

/* ---- laying open ---- */

/* Whether others may run what the caller forks. */
static bool may_share(struct hdi_worker *worker)
{
    struct hd_task *task = worker ? worker->exec.current : NULL;
    if (!task || task->kind != HDI_TASK_FIBER || worker->exec.calls_out > 0) return false;
    if (task->unusual & HDI_UNUSUAL_HOLDS) return false; /* It must not wait for them. */
    return !hdi_scope_confines(hdi_sched_origin(task));
}

static unsigned count_private(const hd_job *job)
{
    unsigned count = 0;
    for (; job && openness_of(job) <= LINED; job = older_than(job)) count++;
    for (; HDI_DEBUG && job; job = older_than(job)) { /* JOBS-1 */
        HDI_ASSERT(openness_of(job) > LINED);
    }
    return count;
}

/* Half of the private ones, the oldest. The walk is paid by what it lines up: the next one comes
 * when all of that is open or joined. */
static void line_up(struct hdi_jobs *jobs, hd_job *newest)
{
    const unsigned count = count_private(newest); /* at least that one */
    hd_job *job = newest;
    for (unsigned i = 0; i < count / 2; i++) job = older_than(job);
    jobs->last = job;
    for (unsigned i = count / 2; i < count; i++) {
        hdi_plain_write(job);
        set_openness(job, LINED);
        job->end_ = (uintptr_t)jobs->first;
        jobs->first = job;
        job = older_than(job);
    }
}

/* Context: it is the first or the last. */
static void leave_line(struct hdi_jobs *jobs, const hd_job *job)
{
    if (jobs->first == jobs->last) {
        jobs->first = jobs->last = NULL;
    } else if (job == jobs->first) {
        jobs->first = (hd_job *)job->end_;
    } else {
        jobs->last = older_than(job);
    }
}

/* As many of those lined up as there is room for. */
static unsigned lay_open(struct hdi_worker *worker, hd_job *newest)
{
    enum { BATCH = 32 };
    struct hdi_jobs *jobs = &worker->jobs;
    const unsigned room = (unsigned)HDI_DEQUE_CAP - hdi_deque_count(&jobs->open);
    const unsigned most = room < BATCH ? room : BATCH;
    unsigned opened = 0;
    if (!jobs->first && most > 0) line_up(jobs, newest);
    for (; opened < most && jobs->first; opened++) { /* JOBS-1 */
        hd_job *job = HDI_MUTANT(jobs_newest_first) ? jobs->last : jobs->first;
        leave_line(jobs, job);
        prepare(job, worker->exec.current, OPEN);
        HD_CHECK(hdi_deque_push(&jobs->open, job)); /* P */
    }
    return opened;
}

/* In sim the seed decides, at each fork, whether another is faster than the join. */
static void draw(struct hdi_worker *worker, hd_job *job)
{
    const bool taken = hdi_prng_below(&worker->exec.runtime->sim.prng, 4) == 0;
    if (taken && give_away(worker, job)) hdi_count(&worker->counters.jobs_taken);
}

void hd_fork_wanted_(hd_job *newest)
{
    struct hdi_worker *worker = hdi_worker_self();
    if (!may_share(worker)) return;
    if (HDI_MODEL && !hdi_load_relaxed(&worker->jobs.wanted)) return; /* as hd_is_work_wanted_() */
    struct hd_task *task = worker->exec.current;
    if (worker->exec.runtime->world->kind == HD_WORLD_SIM) {
        draw(worker, newest);
    } else {
        const bool first = !(task->unusual & HDI_UNUSUAL_JOBS);
        HDI_ASSERT(!first || hdi_deque_count(&worker->jobs.open) == 0 ||
                   HDI_MUTANT(jobs_left_open)); /* JOBS-2 */
        hdi_store_seq_cst(&worker->jobs.wanted, 0); /* H */
        if (lay_open(worker, newest) > 0) {
            task->unusual |= HDI_UNUSUAL_JOBS;
            worker->exec.runtime->world->notify(worker->dispatcher);
        }
    }
    (void)hdi_attend(task, HDI_COST_CALL, false, NULL); /* It may be asked to give way. */
}

void hdi_sched_take_back(struct hdi_exec *exec)
{
    struct hdi_worker *worker = (struct hdi_worker *)exec;
    exec->current->unusual &= (uint8_t)~HDI_UNUSUAL_JOBS;
    if (!HDI_MUTANT(jobs_left_lined)) worker->jobs.first = worker->jobs.last = NULL;
    if (HDI_MUTANT(jobs_left_open)) return;
    for (hd_job *job; (job = hdi_deque_pop(&worker->jobs.open));) {
        set_openness(job, HDI_MUTANT(jobs_back_open) ? OPEN : PRIVATE);
    }
}

void hdi_jobs_check_joined(struct hdi_worker *worker)
{
    HD_CHECK_MSG(!worker->jobs.first && !hdi_deque_pop(&worker->jobs.open),
                 "a function returned without joining a job of HD_FORK_INTO(): use HD_SYNC_FROM()");
}

/* ---- joining ---- */

static const struct hdi_op op_end = {.what = "join job"};

static void wait_for_end(struct hd_task *task, hd_job *job)
{
    hd_case c = {.object = job};
    hdi_case_node(&c)->op = &op_end;
    struct hdi_waiter waiter = {
        .kind = HDI_WAITER_FIBER,
        .phase = task->phase,
        .task = task,
        .cases = &c,
        .count = 1,
    };
    uintptr_t none = 0;
    if (!hdi_cas_acq_rel(end_of(job), &none, (uintptr_t)&waiter)) return; /* E */
    (void)hdi_waiter_sleep_fiber(&waiter, false);
    hdi_gone(job); /* Others have their frames there. */
}

bool hd_join_open_(hd_job *job)
{
    struct hdi_worker *worker = hdi_worker_self();
    const enum openness openness = openness_of(job);
    set_openness(job, PRIVATE);
    if (openness == LINED) { /* JOBS-4; not the last: JOBS-2 */
        const bool lined = job == worker->jobs.last && !HDI_MUTANT(jobs_join_lined);
        if (lined) leave_line(&worker->jobs, job);
        return true;
    }
    if (openness == OPEN) {
        if (HDI_MUTANT(jobs_join_blind) && hdi_deque_count(&worker->jobs.open) > 0) return true;
        const hd_job *newest = hdi_deque_pop(&worker->jobs.open);
        HDI_ASSERT(!newest || newest == job || HDI_MUTANT(jobs_left_open)); /* JOBS-3 */
        if (newest) return true;
    }
    wait_for_end(worker->exec.current, job);
    hdi_plain_read(job); /* E: the result */
    return false;
}

void hd_join_disordered_(void)
{
    hdi_fail(__FILE__, __LINE__, "a job is joined before a newer one: join the newest first");
}

/* ---- the beginning ---- */

/* The job is on the caller's stack: a cancel must not end this. */
static void join_shielded(hd_task *task)
{
    const bool shielded = hdi_task_self() && hd_shield() == 0;
    const int err = hd_join(task, NULL);
    if (shielded) hd_unshield();
    HD_CHECK_MSG(err == 0, "HD_RUN_JOB() cannot wait for its job, which would use its stack");
}

/* As a task of that runtime, for somebody outside it. Returns false if there can be none. */
static bool run_as_task(struct hd_runtime *runtime, hd_job *job)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.runtime = runtime;
    options.stack_bytes = runtime->options.job_stack_bytes;
    hd_task *task;
    if (hd_spawn_with(&task, run_root, job, &options) != 0) return false;
    join_shielded(task);
    return true;
}

void hd_job_run_(hd_runtime *runtime, hd_job *job, void (*run)(hd_job *job))
{
    struct hdi_worker *worker = hdi_worker_self();
    job->run_ = run;
    job->older_ = 0;
    const bool inside = worker && (!runtime || runtime == worker->exec.runtime);
    const struct hd_task *task = hdi_task_self();
    const bool stackless = task && task->kind != HDI_TASK_FIBER;
    if (runtime && !inside && !stackless && run_as_task(runtime, job)) return;
    const bool shares = inside && may_share(worker);
    const bool small = shares && worker->exec.current->fiber.stack->bytes <
                                     worker->exec.runtime->options.job_stack_bytes;
    if (small && give_away(worker, job)) {
        wait_for_end(worker->exec.current, job);
    } else {
        run(job);
    }
}

/* ---- stealing ---- */

void hdi_jobs_ask(struct hdi_worker *victim)
{
    _Atomic(uint32_t) *wanted = &victim->jobs.wanted;
    if (!hdi_load_seq_cst(wanted)) hdi_store_seq_cst(wanted, 1); /* H */
}

void hdi_jobs_ask_all(struct hdi_worker *worker)
{
    if (HDI_MUTANT(jobs_sleep_silent)) return;
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    const unsigned count = hdi_dispatcher_places(dispatcher);
    for (unsigned i = 0; i < count; i++) {
        if (i != worker->index) hdi_jobs_ask(&dispatcher->workers[i]);
    }
}

struct hd_task *hdi_jobs_steal(struct hdi_worker *worker, struct hdi_worker *victim)
{
    struct hdi_deque *open = &victim->jobs.open;
    hd_job *job = NULL;
    if (hdi_deque_count(open) > 0) {
        struct hd_task *strand = hdi_spawn_strand(worker, run_taken);
        if (!strand) return NULL;
        if (HDI_MUTANT(jobs_strand_early)) hdi_spawn_show_strand(worker, strand);
        job = hdi_deque_steal(open); /* P */
        if (job) {
            give_to(worker, strand, job);
            hdi_count(&worker->counters.jobs_taken);
            if (hdi_deque_count(open) == 0) hdi_jobs_ask(victim);
            return strand;
        }
        if (HDI_MUTANT(jobs_strand_early)) hdi_store_relaxed(&strand->word, 0);
        hdi_spawn_no_strand(worker, strand);
    }
    hdi_jobs_ask(victim);
    return NULL;
}
