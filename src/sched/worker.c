/* SPDX-License-Identifier: MIT
 *
 * worker: the loop that finds tasks, runs them, and sleeps when there are none.
 */
#include "sched/worker.h"

#include <errno.h>

#include "base/check.h"
#include "base/mutant.h"
#include "sched/find.h"
#include "sched/prod.h"
#include "sched/relay.h"
#include "sched/runtime.h"
#include "task/state.h"

/* ---- running a task ---- */

/* The task has ended: count it, then let its joiner know. */
static void end_task(struct hdi_worker *worker, struct hd_task *task, int result)
{
    _Atomic(uint64_t) *completed = &worker->counters.completed;
    hdi_store_release(completed, hdi_load_relaxed(completed) + 1); /* A -> hdi_runtime_alive() */
    hdi_digest_add(worker->digest, HDI_EVENT_END, task->id);
    struct hdi_schedule *schedule = worker->exec.runtime->sim.schedule;
    if (hdi_unlikely(schedule != NULL)) hdi_schedule_ended(schedule, task, result);
    if (hdi_likely(!task->nursery)) {
        hdi_task_complete(task, result);
        return;
    }
    struct hdi_nursery *held = hdi_scope_child_ended(task, result);
    hdi_task_complete(task, result);
    if (held) hdi_scope_child_gone(held);
}

struct hdi_overflow_info hdi_worker_overflow_info(const struct hd_task *task)
{
    return (struct hdi_overflow_info){
        .id = task->id,
        .name = hdi_task_name(task),
        .site = task->site,
        .stack_bytes = task->fiber.stack->bytes,
        .job = hdi_jobs_runs(task),
    };
}

static void die_of_overflow(const struct hd_task *task)
{
    const struct hdi_overflow_info info = hdi_worker_overflow_info(task);
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

/* A ready task gives way to others. */
static inline void give_way(struct hdi_worker *worker, struct hd_task *task)
{
    if (hdi_unlikely(task->unusual & HDI_UNUSUAL_PINNED)) {
        hdi_find_deliver(worker, task);
    } else {
        hdi_find_submit_last(worker, task);
    }
}

void hdi_sched_give_way(struct hdi_exec *exec, struct hd_task *task)
{
    give_way((struct hdi_worker *)exec, task);
}

/* The run ended with nothing to do: the task waits for a wake, if none came meanwhile. */
static inline void make_wakeable(struct hdi_worker *worker, struct hd_task *task)
{
    const enum hdi_next next = hdi_transition_to_idle(&task->word, task->phase);
    if (next != HDI_NEXT_SUBMIT) return;
    hdi_find_ready(worker->exec.runtime, task);
    give_way(worker, task);
}

/* ---- unusual tasks ---- */

/* The fiber in whose place it ran goes on: it suspends for the first time, or ends. */
static void release_caller(struct hd_task *task)
{
    struct hd_task *caller = task->next;
    task->unusual &= (uint8_t)~HDI_UNUSUAL_INLINE;
    caller->resumes = true;
    hdi_sched_submit(caller);
}

/* The task stops running, for now or for ever. */
static __attribute__((noinline)) void leave_unusual(struct hd_task *task)
{
    if ((task->unusual & HDI_UNUSUAL_CANARY) && !hdi_stack_intact(task->fiber.stack)) {
        die_of_overflow(task);
    }
    if (task->unusual & HDI_UNUSUAL_INLINE) release_caller(task);
}

/* In the place of a fiber that left: the one that was switched to is only visited. */
static struct hd_task visitor = {.unusual = UINT8_MAX};

/* On the stack of a visited fiber. Returns when it is resumed for good. Apart, so that the
 * switch in it does not cost hdi_sched_settle() all registers. */
static __attribute__((noinline, cold)) struct hdi_exec *receive_visitor(struct hdi_exec *exec)
{
    struct hdi_worker *worker = (struct hdi_worker *)exec;
    exec->left = NULL;
    worker->look(worker->look_arg);
    hdi_context_switch(&exec->current->fiber.context, &exec->context);
    return hdi_exec_self();
}

bool hdi_worker_begin_visit(struct hd_task *task)
{
    return hdi_transition_to_visited(&task->word);
}

void hdi_worker_visit(struct hdi_worker *worker, struct hd_task *task, void (*look)(void *arg),
                      void *arg)
{
    struct hdi_exec *exec = &worker->exec;
    struct hd_task *before = exec->current;
    HDI_ASSERT(task->kind == HDI_TASK_FIBER);
    worker->look = look;
    worker->look_arg = arg;
    exec->left = &visitor;
    exec->current = task;
    hdi_context_switch(&exec->context, &task->fiber.context);
    exec->current = before;
}

/* It may be at home elsewhere. */
void hdi_worker_end_visit(struct hd_task *task)
{
    const enum hdi_next next = hdi_transition_to_idle(&task->word, task->phase);
    if (next == HDI_NEXT_SUBMIT) hdi_sched_submit(task);
}

void hdi_worker_run_errand(struct hdi_worker *worker, void (*errand)(struct hdi_worker *, void *),
                           void *arg)
{
    struct hdi_exec *exec = &worker->exec;
    struct hd_task *caller = exec->current;
    if (hdi_unlikely(caller->unusual)) hdi_fiber_leave_unusual(exec, caller);
    hdi_schedule_yields(caller); /* In a loop, too, others are to run. */
    worker->errand = errand;
    worker->errand_arg = arg;
    exec->left = caller;
    exec->after = HDI_AFTER_ERRAND;
    hdi_context_switch(&caller->fiber.context, &exec->context);
    hdi_exec_arrived();
}

void hdi_worker_run_inline(struct hdi_worker *worker, struct hd_task *task)
{
    struct hdi_exec *exec = &worker->exec;
    struct hd_task *caller = exec->current;
    HDI_ASSERT(!worker->handed);
    if (caller->unusual & HDI_UNUSUAL_JOBS) hdi_sched_take_back(exec);
    task->next = caller;
    task->unusual |= HDI_UNUSUAL_INLINE;
    worker->handed = task;
    exec->left = caller;
    exec->after = HDI_AFTER_HOLD;
    if (caller->unusual & HDI_UNUSUAL_SAVE_FP) exec->left_fp = &hdi_task_extras(caller)->fp;
    hdi_context_switch(&caller->fiber.context, &exec->context);
    hdi_exec_arrived();
}

/* ---- leaving and ending ---- */

/* Whatever the common case below leaves out. */
static __attribute__((noinline)) void settle_unusual(struct hdi_exec *exec)
{
    while (exec->left == &visitor) exec = receive_visitor(exec);
    struct hdi_worker *worker = (struct hdi_worker *)exec;
    struct hd_task *task = exec->left;
    if (!task) {
        if (exec->dead_stack) bury(worker); /* EXEC-1 */
        return;
    }
    exec->left = NULL;
    leave_unusual(task);
    switch (exec->after) {
    case HDI_AFTER_YIELD:
        task->resumes = true;
        give_way(worker, task);
        return;
    case HDI_AFTER_PARK:
        if (!HDI_MUTANT(fiber_early_publish)) make_wakeable(worker, task);
        return;
    case HDI_AFTER_MOVE:
        if (HDI_MUTANT(move_early_publish)) return;
        task->resumes = true;
        hdi_sched_submit(task);
        return;
    case HDI_AFTER_LONG_RUN:
        task->resumes = true;
        if (task->unusual & HDI_UNUSUAL_PINNED) {
            hdi_find_deliver(worker, task);
        } else {
            hdi_find_submit_behind(worker, task);
        }
        return;
    case HDI_AFTER_HOLD: return;
    case HDI_AFTER_ERRAND:
        worker->errand(worker, worker->errand_arg);
        task->resumes = true;
        hdi_sched_submit(task);
        return;
    }
}

/* On the way of every switch: nothing is called but as the last thing. */
void hdi_sched_settle(struct hdi_exec *exec)
{
    struct hdi_worker *worker = (struct hdi_worker *)exec;
    struct hd_task *task = exec->left;
    if (!task) {
        if (exec->dead_stack) bury(worker); /* EXEC-1 */
        return;
    }
    if (hdi_unlikely(task->unusual || exec->after > HDI_AFTER_PARK)) {
        settle_unusual(exec);
        return;
    }
    exec->left = NULL;
    if (exec->after == HDI_AFTER_YIELD) {
        task->resumes = true;
        hdi_find_submit_last(worker, task);
    } else if (!HDI_MUTANT(fiber_early_publish)) {
        make_wakeable(worker, task);
    }
}

/* The task ends while its stack is still in use, so that whoever joined it is ready by
 * the time the next fiber is chosen: usually that very one. The task may be gone from
 * then on; its context and its stack are kept aside until the other side buries them. */
noreturn void hdi_sched_exit(struct hdi_exec *exec)
{
    struct hdi_worker *worker = (struct hdi_worker *)exec;
    struct hd_task *task = exec->current;
    if (hdi_unlikely(task->unusual)) {
        hdi_jobs_check_joined(worker);
        leave_unusual(task);
    }
    exec->dead = task->fiber.context;
    exec->dead_stack = task->fiber.stack;
    if (task->unusual & HDI_UNUSUAL_SAVE_FP) exec->left_fp = &worker->dead_fp;
    exec->current = NULL;
    end_task(worker, task, task->result);
    hdi_context_exit(&exec->dead, hdi_sched_next(exec));
}

HDI_ALWAYS_INLINE void run_fiber(struct hdi_worker *worker, struct hd_task *task)
{
    if (hdi_unlikely(!task->fiber.stack) && !prepare_fiber(worker, task)) {
        worker->exec.current = NULL;
        if (task->unusual) leave_unusual(task);
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
    if (said == HD_READY) hdi_task_end_state(task); /* It is still the running task. */
    worker->exec.current = NULL;
    if (hdi_unlikely(task->unusual)) leave_unusual(task);
    if (said == HD_READY) {
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
    enum { CLOCK_NS = 20000, CLOCK_RUNS_MAX = 255 }; /* a read costs about 30 ns */
    const uint64_t runs = CLOCK_NS / (avg ? avg : 1);
    worker->clock_runs = runs < 1 ? 1 : runs < CLOCK_RUNS_MAX ? (unsigned)runs : CLOCK_RUNS_MAX;
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
    worker->exec.coarse_ns = start;
    run_any(worker, task); /* Nothing is granted: one run is measured. */
    worker->budget = runtime->options.poll_budget;
    const uint64_t took = (uint64_t)(runtime->world->now(runtime) - start);
    if (took > hdi_load_relaxed(&worker->counters.run_ns_max)) {
        hdi_store_relaxed(&worker->counters.run_ns_max, took);
    }
}

static inline unsigned lesser(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Let this many runs follow without the loop: until it is to measure, to look at the injection
 * queue first, or at the clock. So the way of most switches has one count, not three. */
static inline void grant(struct hdi_worker *worker)
{
    if (!worker->direct) return;
    const unsigned fresh = worker->tick + 1 < worker->interval ? worker->interval - worker->tick - 1
                                                               : 0;
    worker->granted = lesser(lesser(worker->budget - 1, fresh), worker->clock_left - 1);
    worker->quick = worker->granted;
}

/* Back in the loop: count the runs that were granted and used. */
static inline void reckon(struct hdi_worker *worker)
{
    const unsigned used = worker->granted - worker->quick;
    worker->budget -= used;
    worker->tick += used;
    worker->clock_left -= used;
    worker->granted = worker->quick = 0;
}

/* Timers that nobody watches are fired before another long run begins. */
void hdi_sched_long_run(struct hdi_exec *exec)
{
    struct hdi_worker *worker = (struct hdi_worker *)exec;
    reckon(worker); /* What is left of the grant is taken back. */
    worker->clock_left = 1;
    hdi_keeper_stand_in(worker);
}

/* Inlined into the loop, so that the switch inside is the loop's own (ctx/jump.h). */
HDI_ALWAYS_INLINE void run(struct hdi_worker *worker, struct hd_task *task)
{
    hdi_worker_begin_run(worker, task);
    if (hdi_unlikely(--worker->budget == 0)) {
        run_measured(worker, task);
    } else {
        grant(worker);
        run_any(worker, task);
        reckon(worker);
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
    if (worker->quick == 0 || worker->nested >= NESTED_MAX) return;
    if (hdi_load_relaxed(&worker->lifo.task) != task || task->kind != HDI_TASK_POLL) return;
    if (!hdi_find_lifo_next(worker)) return;
    struct hd_task *caller = worker->exec.current;
    worker->nested++;
    worker->quick--;
    hdi_worker_begin_run(worker, task);
    run_poll(worker, task);
    worker->nested--;
    worker->exec.current = caller;
    hdi_store_stat(&worker->counters.running, caller);
}

bool hdi_worker_can_begin(struct hdi_worker *worker, struct hd_task *task)
{
    if (task->kind != HDI_TASK_FIBER || (task->unusual & HDI_UNUSUAL_SAVE_FP)) return false;
    return task->fiber.stack || prepare_fiber(worker, task);
}

/* From fiber to fiber without the scheduler in between: half the switches. Only for the
 * common case; whatever needs thought is left to the loop, through `handed`. */
struct hdi_context *hdi_sched_next(struct hdi_exec *exec)
{
    struct hdi_worker *worker = (struct hdi_worker *)exec;
    if (HDI_MUTANT(fiber_early_publish) && exec->left && exec->after == HDI_AFTER_PARK) {
        make_wakeable(worker, exec->left);
        hdi_cpu_relax(); /* A step, at which another may run. */
    }
    if (worker->quick == 0 || exec->left_fp) return hdi_worker_next_instead(worker);
    struct hd_task *task = hdi_find_own(worker);
    if (!task) return &exec->context;
    worker->quick--;
    if (hdi_unlikely(!task->resumes || task->unusual) && !hdi_worker_can_begin(worker, task)) {
        worker->handed = task;
        return &exec->context;
    }
    hdi_worker_begin_run(worker, task);
    return &task->fiber.context;
}

/* ---- searching and parking ---- */

enum { TIGHT_ROUNDS = 4 };

/* Tight at first, then giving the CPU away between rounds. */
static void pause_between(unsigned round)
{
    if (round >= TIGHT_ROUNDS) {
        hdi_thread_yield();
    } else {
        for (unsigned i = 0; i < 8u << round; i++) hdi_cpu_relax();
    }
}

/* How often to look for work before parking. */
static unsigned rounds_of(struct hdi_worker *worker)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    const unsigned rounds = dispatcher->spin_rounds;
    /* Where a stuck worker may have the CPU, who gives it away for a moment gets it back late. */
    if (hdi_load_stat(&dispatcher->spares) > 0) return 1;
    if (hdi_likely(!hdi_load_relaxed(&worker->lane))) return rounds;
    /* What it waits for comes from the kernel, which it is to ask: only others are worth a look. */
    if (hdi_worker_alone(worker)) return 1;
    return rounds < TIGHT_ROUNDS ? rounds : TIGHT_ROUNDS;
}

static struct hd_task *search(struct hdi_worker *worker)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    if (!worker->searching) {
        if (!hdi_idle_try_search(&dispatcher->idle)) return NULL;
        worker->searching = true;
    }
    hdi_worker_set_state(worker, HDI_WORKER_SEARCHING);
    hdi_count(&worker->counters.searches);
    const unsigned rounds = rounds_of(worker);
    const unsigned few = dispatcher->runtime->options.steal_scan_max;
    for (unsigned round = 0;; round++) {
        const bool last = round + 1 >= rounds;
        struct hd_task *task = hdi_find_steal(worker, last ? HDI_WORKERS_MAX : few, last);
        if (task || last) return task;
        pause_between(round);
    }
}

void hdi_worker_end_search(struct hdi_worker *worker)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    worker->searching = false;
    hdi_worker_set_state(worker, HDI_WORKER_RUNNING);
    if (!hdi_idle_end_search(&dispatcher->idle)) return;
    if (hdi_find_visible(dispatcher)) dispatcher->runtime->world->notify(dispatcher);
}

/* The last task and the last handle are gone: nobody needs the workers any more. Context: a
 * worker that is counted as parked. */
static bool closes(struct hd_dispatcher *dispatcher)
{
    if (hdi_likely(!hdi_dispatcher_ended(dispatcher))) return false;
    hdi_store_release(&dispatcher->stopping, true);
    dispatcher->runtime->world->rouse_all(dispatcher);
    hdi_runtime_tell_quiet(dispatcher->runtime); /* Nobody here parks any more. */
    return true;
}

/* An elastic dispatcher keeps only one worker for ever. */
static int64_t sleep_until(struct hdi_worker *worker)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    const int64_t watch_ns = hdi_keeper_watch(worker);
    /* Relaxed: if it is 1 and becomes more, the others have the same choice. */
    if (!dispatcher->elastic || hdi_load_relaxed(&dispatcher->live) == 1) return watch_ns;
    const int64_t tired_ns = dispatcher->runtime->world->now(dispatcher->runtime) + HDI_IO_IDLE_NS;
    worker->tired = tired_ns < watch_ns;
    return worker->tired ? tired_ns : watch_ns;
}

static bool sees_work(struct hdi_worker *worker)
{
    return hdi_find_sees(worker) || hdi_inject_length(&worker->inbox) > 0;
}

/* Returns whether it was unparked. */
static bool sleep_in_kernel(struct hdi_worker *worker, int64_t until_ns)
{
    struct hdi_lane *lane = hdi_load_acquire(&worker->lane); /* W */
    if (lane) return hdi_parker_park_in(&worker->parker, hdi_lane_sleep, lane, until_ns);
    return hdi_parker_park_until(&worker->parker, until_ns);
}

static void sleep_until_claimed(struct hdi_worker *worker, bool all_parked)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    hdi_jobs_ask_all(worker);
    const bool look_again = !HDI_MUTANT(idle_no_recheck) && sees_work(worker);
    bool woken = false;
    if (!look_again && !hdi_load_acquire(&dispatcher->stopping) && !closes(dispatcher)) {
        if (all_parked) {
            hdi_deadlock_check(worker); /* Who waits for quiet still does. */
            hdi_runtime_tell_quiet(dispatcher->runtime);
        }
        hdi_count(&worker->counters.parks);
        hdi_worker_set_state(worker, HDI_WORKER_PARKED);
        woken = sleep_in_kernel(worker, sleep_until(worker));
        hdi_keeper_unwatch(worker);
        hdi_count(&worker->counters.unparks);
        worker->exec.coarse_ns = dispatcher->runtime->world->now(dispatcher->runtime);
    }
    const bool claimed = hdi_idle_unpark(&dispatcher->idle, worker->index);
    hdi_monitor_check(&dispatcher->runtime->monitor);
    if (woken || claimed) worker->tired = false;
    if (!woken && claimed) hdi_parker_park(&worker->parker); /* IDLE-2: takes the token. */
    /* What was seen cannot be taken while a thief is at work there: let it go on. */
    if (look_again) hdi_thread_yield();
}

/* Step 8. Returns a task only if one was left in the LIFO slot. */
static struct hd_task *park(struct hdi_worker *worker)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    struct hd_task *task = hdi_lifo_flush(&worker->lifo);
    if (task) return task;
    if (hdi_stack_cache_trim(&worker->stacks)) return NULL; /* A step; then look again. */
    worker->injects = true;
    worker->busy_since = 0;
    const unsigned parked = hdi_idle_park(&dispatcher->idle, worker->index, worker->searching);
    sleep_until_claimed(worker, parked == hdi_load_acquire(&dispatcher->live));
    worker->searching = true;
    worker->injects = worker->queue.shape == HDI_RUNQ_NONE;
    /* What the sleep brought is the worker's alone, and the task it runs next may be long. */
    (void)hdi_find_news(worker, false);
    return NULL;
}

/* A worker that is alone, and parks next, asks the kernel then. */
static bool hear_news(struct hdi_worker *worker)
{
    return hdi_find_news(worker, !hdi_worker_alone(worker));
}

/* The next task; NULL when the dispatcher stops. Part of the loop. */
HDI_ALWAYS_INLINE struct hd_task *next_task(struct hdi_worker *worker)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    for (;;) {
        struct hd_task *task = worker->handed;
        worker->handed = NULL;
        /* Relaxed: it looks again. */
        if (hdi_unlikely(worker->spare) && !task && hdi_load_relaxed(&worker->excused) &&
            hdi_spare_leave(worker)) {
            return NULL;
        }
        if (!task) task = hdi_find_local(worker);
        if (!task && hear_news(worker)) task = hdi_find_local(worker);
        if (!task && hdi_keeper_poll_all(worker)) task = hdi_find_local(worker);
        if (!task) task = search(worker);
        if (!task) task = park(worker);
        if (task) {
            if (worker->searching) hdi_worker_end_search(worker);
            if (hdi_unlikely(worker->timers.unpublished)) hdi_keeper_publish(worker);
            return task;
        }
        if (hdi_load_acquire(&dispatcher->stopping) && !sees_work(worker)) return NULL;
        if (hdi_unlikely(worker->tired)) {
            worker->tired = false;
            if (hdi_elastic_leave(worker)) return NULL;
        }
    }
}

void hdi_worker_enter(struct hdi_worker *worker)
{
    hdi_context_init_thread(&worker->exec.context);
    hdi_thread_set_self(worker);
    hdi_jobs_enter(worker);
}

void hdi_worker_leave(struct hdi_worker *worker)
{
    (void)worker;
    hdi_jobs_enter(NULL);
    hdi_thread_set_self(NULL);
}

void hdi_worker_give_back(struct hdi_worker *worker)
{
    hdi_stack_cache_fini(&worker->stacks);
    for (unsigned i = 0; i < HDI_TASK_CLASSES; i++) hdi_slab_cache_fini(&worker->tasks[i]);
}

static void end_thread(struct hdi_worker *worker)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    if (dispatcher == &dispatcher->runtime->main && !worker->gone) return;
    hdi_worker_give_back(worker);
    if (!worker->gone) hdi_fetch_sub_acq_rel(&dispatcher->live, 1); /* R: the last touch */
}

void hdi_worker_main(void *arg)
{
    struct hdi_worker *worker = arg;
    struct hdi_monitor *monitor = &worker->exec.runtime->monitor;
    const bool report = worker->exec.runtime->options.report_overflow;
    hdi_worker_enter(worker);
    if (report && hdi_overflow_thread_init(&worker->overflow) != 0) worker->overflow.base = NULL;
    if (monitor->reports || hdi_lane_by_others(worker)) hdi_prod_admit(worker);
    struct hd_task *task = next_task(worker);
    hdi_monitor_check(monitor); /* It may have come to it without a sleep. */
    for (; task; task = next_task(worker)) run(worker, task);
    if (worker->searching) hdi_worker_end_search(worker);
    hdi_lane_leave(worker);
    hdi_overflow_thread_fini(&worker->overflow);
    hdi_worker_leave(worker);
    end_thread(worker);
}
