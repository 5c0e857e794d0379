/* SPDX-License-Identifier: MIT
 *
 * worker: the loop that finds tasks, runs them, and sleeps when there are none.
 */
#include "sched/worker.h"

#include <errno.h>

#include "base/check.h"
#include "base/mutant.h"
#include "sched/find.h"
#include "sched/runtime.h"
#include "task/state.h"

/* ---- running a task ---- */

/* The task has ended: count it, then let its joiner know. */
static void end_task(struct hdi_worker *worker, struct hd_task *task, int result)
{
    _Atomic(uint64_t) *completed = &worker->counters.completed;
    hdi_store_release(completed, hdi_load_relaxed(completed) + 1); /* A -> hdi_runtime_alive() */
    hdi_digest_add(worker->digest, HDI_EVENT_END, task->id);
    hdi_task_complete(task, result);
}

static void die_of_overflow(const struct hd_task *task)
{
    const struct hdi_overflow_info info = {
        .id = task->id,
        .name = task->name,
        .site = task->site,
        .stack_bytes = task->fiber.stack->bytes,
    };
    hdi_overflow_die(&info);
}

/* Give the fiber a stack for its first run. Returns false if memory is short. */
static bool prepare_fiber(struct hdi_worker *worker, struct hd_task *task)
{
    struct hdi_stack *stack = hdi_stack_take(&worker->stacks, task->fiber.stack_bytes);
    if (!stack) return false;
    hdi_fiber_prepare(task, stack);
    return true;
}

/* Nobody runs on the stack of an ended fiber any more. */
static void bury(struct hdi_worker *worker)
{
    hdi_context_fini(&worker->exec.dead);
    hdi_stack_give(&worker->stacks, worker->exec.dead_stack);
    worker->exec.dead_stack = NULL;
}

/* The run ended with nothing to do: the task waits for a wake, if none came meanwhile. */
static inline void make_wakeable(struct hdi_worker *worker, struct hd_task *task)
{
    if (hdi_transition_to_idle(&task->word) == HDI_NEXT_SUBMIT) hdi_find_submit_last(worker, task);
}

void hdi_sched_settle(struct hdi_exec *exec)
{
    struct hdi_worker *worker = (struct hdi_worker *)exec;
    struct hd_task *task = exec->left;
    if (!task) {
        bury(worker); /* EXEC-1 */
        return;
    }
    exec->left = NULL;
    if (hdi_unlikely(task->canary) && !hdi_stack_intact(task->fiber.stack)) die_of_overflow(task);
    switch (exec->after) {
    case HDI_AFTER_YIELD:
        task->yielded = true;
        hdi_find_submit_last(worker, task);
        return;
    case HDI_AFTER_PARK:
        if (!HDI_MUTANT(fiber_early_publish)) make_wakeable(worker, task);
        return;
    }
}

/* The task ends while its stack is still in use, so that whoever joined it is ready by
 * the time the next fiber is chosen: usually that very one. The task may be gone from
 * then on; its context and its stack are kept aside until the other side buries them. */
noreturn void hdi_sched_exit(struct hdi_exec *exec)
{
    struct hdi_worker *worker = (struct hdi_worker *)exec;
    struct hd_task *task = exec->current;
    if (hdi_unlikely(task->canary) && !hdi_stack_intact(task->fiber.stack)) die_of_overflow(task);
    exec->dead = task->fiber.context;
    exec->dead_stack = task->fiber.stack;
    exec->left_fp = task->save_fp ? &worker->dead_fp : NULL;
    exec->current = NULL;
    end_task(worker, task, task->result);
    hdi_context_exit(&exec->dead, hdi_sched_next(exec));
}

HDI_ALWAYS_INLINE void run_fiber(struct hdi_worker *worker, struct hd_task *task)
{
    if (hdi_unlikely(!task->fiber.stack) && !prepare_fiber(worker, task)) {
        worker->exec.current = NULL;
        end_task(worker, task, -ENOMEM);
        return;
    }
    hdi_fiber_resume(&worker->exec, task);
    worker->exec.current = NULL;
}

HDI_ALWAYS_INLINE void run_poll(struct hdi_worker *worker, struct hd_task *task)
{
    int result = 0;
    const hd_poll said = task->poll.poll(hdi_task_state(task), &result);
    worker->exec.current = NULL;
    if (said == HD_READY) {
        hdi_task_end_state(task);
        end_task(worker, task, result);
    } else {
        make_wakeable(worker, task);
    }
}

HDI_ALWAYS_INLINE void run_any(struct hdi_worker *worker, struct hd_task *task)
{
    if (task->kind == HDI_TASK_FIBER) {
        run_fiber(worker, task);
    } else {
        run_poll(worker, task);
    }
}

/* ---- maintenance ---- */

void hdi_worker_adapt(struct hdi_worker *worker, uint64_t run_ns)
{
    const hd_options *options = &worker->exec.runtime->options;
    struct hdi_counters *counters = &worker->counters;
    const uint64_t alpha = options->ewma_percent;
    const uint64_t avg =
        (alpha * run_ns + (100 - alpha) * hdi_load_relaxed(&counters->run_ns_avg)) / 100;
    hdi_store_relaxed(&counters->run_ns_avg, avg);
    uint64_t interval = (uint64_t)options->inject_latency_ns / (avg ? avg : 1);
    if (interval < options->inject_interval_min) interval = options->inject_interval_min;
    if (interval > options->inject_interval_max) interval = options->inject_interval_max;
    worker->interval = (unsigned)interval;
    hdi_store_relaxed(&counters->inject_interval, interval);
}

/* Once per budget: measure this run and the average of those since the last time. A
 * clock read costs as much as a task switch, so it is not done for every run. */
static __attribute__((noinline)) void run_measured(struct hdi_worker *worker,
                                                   struct hd_task *task)
{
    struct hd_runtime *runtime = worker->exec.runtime;
    const int64_t start = runtime->world->now(runtime);
    if (worker->busy_since > 0) {
        const uint64_t stretch_ns = (uint64_t)(start - worker->busy_since);
        hdi_worker_adapt(worker, stretch_ns / runtime->options.poll_budget);
    }
    worker->busy_since = start;
    worker->budget = 1; /* No direct switches: one run is measured. */
    run_any(worker, task);
    worker->budget = runtime->options.poll_budget;
    const uint64_t took = (uint64_t)(runtime->world->now(runtime) - start);
    if (took > hdi_load_relaxed(&worker->counters.run_ns_max)) {
        hdi_store_relaxed(&worker->counters.run_ns_max, took);
    }
}

/* The task is this worker's to run from now on. */
HDI_ALWAYS_INLINE void begin_run(struct hdi_worker *worker, struct hd_task *task)
{
    if (task->yielded) {
        task->yielded = false;
    } else {
        hdi_transition_to_running(&task->word);
    }
    hdi_count_visibly(&worker->counters.polls);
    hdi_digest_add(worker->digest, HDI_EVENT_RUN, task->id << 8 | worker->index);
    worker->exec.current = task;
}

/* Inlined into the loop, so that the switch inside is the loop's own (ctx/jump.h). */
HDI_ALWAYS_INLINE void run(struct hdi_worker *worker, struct hd_task *task)
{
    begin_run(worker, task);
    if (hdi_unlikely(--worker->budget == 0)) {
        run_measured(worker, task);
    } else {
        run_any(worker, task);
    }
}

void hdi_worker_run(struct hdi_worker *worker, struct hd_task *task)
{
    run(worker, task);
}

/* A stackless task joins one that is next in line: instead of sleeping, being woken and
 * polled again, it runs the other inside its own poll. Not deeper than a few levels,
 * since the stack is the worker's, and not past what the loop must see to. */
void hdi_sched_run_now(struct hd_task *task)
{
    enum { NESTED_MAX = 4 };
    struct hdi_worker *worker = hdi_worker_self();
    if (!worker->direct || worker->budget <= 1 || worker->nested >= NESTED_MAX) return;
    if (hdi_load_relaxed(&worker->lifo.task) != task || task->kind != HDI_TASK_POLL) return;
    if (!hdi_find_lifo_next(worker)) return;
    struct hd_task *caller = worker->exec.current;
    worker->nested++;
    worker->budget--;
    begin_run(worker, task);
    run_poll(worker, task);
    worker->nested--;
    worker->exec.current = caller;
}

/* From fiber to fiber without the scheduler in between: half the switches. Only for the
 * common case; whatever needs thought is left to the loop, through `handed`. */
struct hdi_context *hdi_sched_next(struct hdi_exec *exec)
{
    struct hdi_worker *worker = (struct hdi_worker *)exec;
    if (HDI_MUTANT(fiber_early_publish) && exec->left && exec->after == HDI_AFTER_PARK) {
        make_wakeable(worker, exec->left);
    }
    if (!worker->direct || worker->budget <= 1 || exec->left_fp) return &exec->context;
    struct hd_task *task = hdi_find_quick(worker);
    if (!task) return &exec->context;
    const bool plain = task->kind == HDI_TASK_FIBER && !task->save_fp;
    if (!plain || (!task->fiber.stack && !prepare_fiber(worker, task))) {
        worker->handed = task;
        return &exec->context;
    }
    worker->budget--;
    begin_run(worker, task);
    return &task->fiber.context;
}

/* ---- searching and parking ---- */

/* Tight at first, then giving the CPU away between rounds. */
static void pause_between(unsigned round)
{
    enum { TIGHT_ROUNDS = 4 };
    if (round >= TIGHT_ROUNDS) {
        hdi_thread_yield();
    } else {
        for (unsigned i = 0; i < 8u << round; i++) hdi_cpu_relax();
    }
}

static void set_state(struct hdi_worker *worker, enum hdi_worker_state state)
{
    hdi_store_stat(&worker->counters.state, state);
}

static struct hd_task *search(struct hdi_worker *worker)
{
    struct hd_runtime *runtime = worker->exec.runtime;
    if (!worker->searching) {
        if (!hdi_idle_try_search(&runtime->idle)) return NULL;
        worker->searching = true;
    }
    set_state(worker, HDI_WORKER_SEARCHING);
    hdi_count(&worker->counters.searches);
    const unsigned rounds = runtime->options.spin_rounds;
    for (unsigned round = 0;; round++) {
        const bool last = round + 1 >= rounds;
        const unsigned scan = last ? runtime->worker_count : runtime->options.steal_scan_max;
        struct hd_task *task = hdi_find_steal(worker, scan, last);
        if (task || last) return task;
        pause_between(round);
    }
}

static void end_search(struct hdi_worker *worker)
{
    struct hd_runtime *runtime = worker->exec.runtime;
    worker->searching = false;
    set_state(worker, HDI_WORKER_RUNNING);
    if (!hdi_idle_end_search(&runtime->idle)) return;
    if (hdi_find_visible(runtime)) runtime->world->notify(runtime);
}

/* Somebody waits for the runtime to be quiet, and it may be. */
static void tell_quiet(struct hd_runtime *runtime)
{
    if (hdi_load_acquire(&runtime->draining) == 0) return;
    hdi_fetch_add_acq_rel(&runtime->quiet, 1);
    runtime->world->wake(runtime, &runtime->quiet);
}

static void sleep_until_claimed(struct hdi_worker *worker, bool all_parked)
{
    struct hd_runtime *runtime = worker->exec.runtime;
    const bool look_again = !HDI_MUTANT(idle_no_recheck) && hdi_find_visible(runtime);
    const bool stay = look_again || hdi_load_acquire(&runtime->stopping);
    if (!stay) {
        if (all_parked) tell_quiet(runtime);
        hdi_count(&worker->counters.parks);
        set_state(worker, HDI_WORKER_PARKED);
        hdi_parker_park(&worker->parker);
        hdi_count(&worker->counters.unparks);
    }
    const bool claimed = hdi_idle_unpark(&runtime->idle, worker->index);
    if (stay && claimed) hdi_parker_park(&worker->parker); /* IDLE-2: takes the token. */
    /* What was seen cannot be taken while a thief is at work there: let it go on. */
    if (look_again) hdi_thread_yield();
}

/* Step 7. Returns a task only if one was left in the LIFO slot. */
static struct hd_task *park(struct hdi_worker *worker)
{
    struct hd_runtime *runtime = worker->exec.runtime;
    struct hd_task *task = hdi_lifo_flush(&worker->lifo);
    if (task) return task;
    if (hdi_stack_cache_trim(&worker->stacks)) return NULL; /* A step; then look again. */
    worker->parking = true;
    worker->busy_since = 0;
    const bool all_parked = hdi_idle_park(&runtime->idle, worker->index, worker->searching);
    sleep_until_claimed(worker, all_parked);
    worker->searching = true;
    worker->parking = false;
    return NULL;
}

/* The next task; NULL when the runtime stops. */
static struct hd_task *next_task(struct hdi_worker *worker)
{
    struct hd_runtime *runtime = worker->exec.runtime;
    for (;;) {
        struct hd_task *task = worker->handed;
        worker->handed = NULL;
        if (!task) task = hdi_find_local(worker);
        if (!task) task = search(worker);
        if (!task) task = park(worker);
        if (task) {
            if (worker->searching) end_search(worker);
            return task;
        }
        if (hdi_load_acquire(&runtime->stopping) && !hdi_find_visible(runtime)) return NULL;
    }
}

void hdi_worker_enter(struct hdi_worker *worker)
{
    hdi_context_init_thread(&worker->exec.context);
    hdi_thread_set_self(worker);
}

void hdi_worker_leave(struct hdi_worker *worker)
{
    (void)worker;
    hdi_thread_set_self(NULL);
}

void hdi_worker_main(void *arg)
{
    struct hdi_worker *worker = arg;
    const bool report = worker->exec.runtime->options.report_overflow;
    hdi_worker_enter(worker);
    if (report && hdi_overflow_thread_init(&worker->overflow) != 0) worker->overflow.base = NULL;
    for (struct hd_task *task; (task = next_task(worker));) run(worker, task);
    if (worker->searching) end_search(worker);
    if (report) hdi_overflow_thread_fini(&worker->overflow);
    hdi_worker_leave(worker);
}
