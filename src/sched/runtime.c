/* SPDX-License-Identifier: MIT
 *
 * runtime: creating, draining, shutting down and destroying a runtime.
 *
 * Draining. A worker that parks as the last one of its dispatcher tells whoever drains,
 * who then counts over all dispatchers:
 *
 *   drainer                                 worker
 *   1. draining + 1                         1. idle.counts: parked + 1
 *   2. idle.counts: all parked?             2. all parked: draining?
 *      then count at once                      then quiet + 1, wake
 *   3. wait for quiet to change
 *
 * Both 2 follow a read-modify-write of one word (sched/idle.h), so one sees the other.
 */
#include "os/sys.h"
#include "sched/runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <heddle/task.h>

#include "base/check.h"
#include "base/mutant.h"
#include "os/clock.h"
#include "os/membarrier.h"
#include "sched/find.h"
#include "task/state.h"

/* ---- creating ---- */

static bool lookup_overflow(const void *address, struct hdi_overflow_info *info)
{
    const struct hd_task *task = hdi_task_self();
    if (!task || task->kind != HDI_TASK_FIBER || !task->fiber.stack) return false;
    if (!hdi_stack_guards(task->fiber.stack, address)) return false;
    *info = hdi_worker_overflow_info(task);
    return true;
}

#if HDI_MODEL
void *hdi_lines_alloc(size_t bytes)
{
    return hdi_model_alloc(bytes);
}

void hdi_lines_free(void *memory)
{
    hdi_model_free(memory);
}
#else
void *hdi_lines_alloc(size_t bytes)
{
    bytes = (bytes + HDI_CACHE_LINE - 1) & ~(size_t)(HDI_CACHE_LINE - 1);
    void *memory = aligned_alloc(HDI_CACHE_LINE, bytes);
    if (memory) __builtin_memset(memory, 0, bytes);
    return memory;
}

void hdi_lines_free(void *memory)
{
    free(memory);
}
#endif

static int start(struct hd_runtime *runtime)
{
    if (runtime->options.report_overflow) {
        const int err = hdi_overflow_install(lookup_overflow);
        if (err) return err;
    }
    const int err = runtime->world->start(&runtime->main);
    if (err && runtime->options.report_overflow) hdi_overflow_uninstall();
    return err;
}

static void begin_sim(struct hd_runtime *runtime)
{
    const uint64_t seed = runtime->options.seed; /* A replay has its own. */
    hdi_prng_init(&runtime->sim.prng, hdi_stream_draw(seed, HDI_PURPOSE_SIM_ORDER, 0, 0));
    runtime->sim.looks = runtime->options.sim_events_max / 2; /* There are none yet. */
    runtime->sim.full = false;
    runtime->sim.pauses = runtime->sim.warnings = runtime->sim.depth_max = 0;
}

/* Everything but the memory of *runtime itself. */
static int runtime_init(struct hd_runtime *runtime, const hd_options *options)
{
    hdi_barrier_init();
    runtime->options = *options;
    runtime->world = options->world == HD_WORLD_SIM ? &hdi_world_sim
                     : options->embedded            ? &hdi_world_embedded
                                                    : &hdi_world_live;
    runtime->sys = options->world == HD_WORLD_SIM ? &hdi_sys_sim : &hdi_sys_live;
    runtime->cpus = hdi_cpu_count();
    runtime->metered = options->world == HD_WORLD_SIM || options->profile != HD_PROFILE_NONE;
    runtime->dispatchers = &runtime->main;
    hdi_list_init(&runtime->waits);
    hdi_store_relaxed(&runtime->id_next, 1); /* Nobody else knows it yet. */
    int err = hdi_tasks_init(runtime);
    if (err) return err;
    const bool sim = options->world == HD_WORLD_SIM;
    err = sim && options->sim_order == HD_SIM_RANDOM ? hdi_schedule_attach(runtime) : 0;
    if (err) {
        hdi_tasks_fini(runtime);
        return err;
    }
    begin_sim(runtime);
    hdi_monitor_init(&runtime->monitor, runtime);
    const struct hdi_dispatcher_spec spec = {
        .name = "default",
        .workers = options->workers,
        .spares = hdi_dispatcher_spares(runtime, options->workers, options->policy),
        .spin_rounds = options->spin_rounds,
        .policy = options->policy,
    };
    err = options->profile != HD_PROFILE_NONE ? hdi_caps_begin(runtime) : 0;
    if (!err) err = hdi_dispatcher_init(&runtime->main, runtime, &spec);
    if (!err) {
        runtime->main.permanent = true;
        err = start(runtime);
        if (err) hdi_dispatcher_fini(&runtime->main);
    }
    if (err) {
        hdi_monitor_stop(&runtime->monitor);
        hdi_caps_end(runtime);
        hdi_schedule_detach(runtime);
        hdi_tasks_fini(runtime);
    }
    return err;
}

int hd_runtime_create(hd_runtime **out, const hd_options *options)
{
    hd_options resolved;
    if (hdi_options_resolve(options, &resolved)) return -EINVAL;
    const struct hd_task *self = hdi_task_metered();
    if (self && hdi_scope_may_create(self, NULL) != 0) return -EPERM;
    struct hd_runtime *runtime = hdi_lines_alloc(sizeof(*runtime));
    if (!runtime) return -ENOMEM;
    const int err = runtime_init(runtime, &resolved);
    if (err) {
        hdi_lines_free(runtime);
        return err;
    }
    if (runtime->world->kind == HD_WORLD_SIM) hdi_homes_add(runtime);
    *out = runtime;
    return 0;
}

/* ---- ending ---- */

static bool inside(const struct hd_runtime *runtime)
{
    const struct hdi_exec *exec = hdi_exec_self();
    return exec && exec->runtime == runtime;
}

/* Whether nothing is alive, ordered after the caller's draining + 1. */
static bool all_ended(struct hd_runtime *runtime)
{
    hdi_mutex_lock(&runtime->list);
    for (struct hd_dispatcher *d = runtime->dispatchers; d; d = d->next) {
        (void)hdi_idle_parked(&d->idle); /* the drainer's step 2 */
    }
    hdi_mutex_unlock(&runtime->list);
    return hdi_runtime_alive(runtime) == 0;
}

void hdi_runtime_tell_quiet(struct hd_runtime *runtime)
{
    if (hdi_load_acquire(&runtime->draining) == 0) return;
    hdi_fetch_add_acq_rel(&runtime->quiet, 1);
    runtime->world->wake(runtime, &runtime->quiet);
}

/* This thread does nothing more by itself. */
static void begin_waiting(struct hd_runtime *runtime, struct hdi_thread_wait *wait)
{
    hdi_mutex_lock(&runtime->waits_lock);
    hdi_list_push_back(&runtime->waits, &wait->link);
    hdi_mutex_unlock(&runtime->waits_lock);
}

void hdi_runtime_have_a_look(struct hd_runtime *runtime)
{
    struct hd_dispatcher *main = &runtime->main;
    if (runtime->world->kind != HD_WORLD_LIVE) return;
    if (hdi_dispatcher_all_parked(main)) runtime->world->notify(main);
}

static void end_waiting(struct hd_runtime *runtime, struct hdi_thread_wait *wait)
{
    hdi_mutex_lock(&runtime->waits_lock);
    hdi_list_remove(&wait->link);
    hdi_mutex_unlock(&runtime->waits_lock);
}

/* `look`: there may be nobody left to find a deadlock. */
static int thread_wait(struct hd_runtime *runtime, _Atomic(uint32_t) *word, uint32_t expected,
                       int64_t deadline_ns, bool look)
{
    const bool report = runtime->options.deadlock == HD_DEADLOCK_REPORT;
    const bool for_good = report && deadline_ns == INT64_MAX;
    struct hdi_thread_wait wait = {.word = word, .expected = expected};
    if (for_good) begin_waiting(runtime, &wait);
    if (for_good && look) hdi_runtime_have_a_look(runtime);
    const int err = runtime->world->wait(runtime, word, expected, deadline_ns);
    if (for_good) end_waiting(runtime, &wait);
    return err;
}

/* Every quiet moment ends the wait, and a look would make one: it is asked for once. */
static int drain(struct hd_runtime *runtime, int64_t deadline)
{
    for (bool look = true;; look = false) {
        const uint32_t seen = hdi_load_acquire(&runtime->quiet);
        if (all_ended(runtime)) return 0;
        const int err = thread_wait(runtime, &runtime->quiet, seen, deadline, look);
        if (err == -ETIMEDOUT || err == -EDEADLK) return all_ended(runtime) ? 0 : err;
    }
}

int hd_runtime_drain(hd_runtime *runtime, int64_t deadline)
{
    if (inside(runtime)) return -EINVAL;
    hdi_fetch_add_acq_rel(&runtime->draining, 1);
    const int err = drain(runtime, deadline);
    hdi_fetch_sub_acq_rel(&runtime->draining, 1);
    return err;
}

static void cancel_one(struct hd_task *task, void *arg)
{
    (void)arg;
    hdi_task_cancel(task);
}

static void drop_one(struct hd_task *task, void *arg)
{
    struct hd_runtime *runtime = task->runtime;
    bool *dropped = arg;
    if (!hdi_task_drop_idle(task)) return;
    *dropped = true;
    hdi_dispatcher_depart(hdi_dispatcher_of(task)); /* A stackless task does not move. */
    hdi_fetch_add_acq_rel(&runtime->foreign_completed, 1);
}

/* A stackless task that was polled after its cancel and still waits has no stack to
 * unwind: it is dropped where it stands. */
static bool drop_pending(struct hd_runtime *runtime)
{
    bool dropped = false;
    hdi_runtime_for_each_task(runtime, drop_one, &dropped);
    return dropped;
}

static bool is_quiet(struct hd_runtime *runtime)
{
    const bool sim = runtime->world->kind == HD_WORLD_SIM;
    if (sim && !hdi_load_seq_cst(&runtime->sim.asleep)) return false; /* S1, S2 */
    bool quiet = true;
    hdi_mutex_lock(&runtime->list);
    for (struct hd_dispatcher *d = runtime->dispatchers; d; d = d->next) {
        quiet = quiet && hdi_dispatcher_quiet(d);
    }
    hdi_mutex_unlock(&runtime->list);
    return quiet;
}

static int end_all(struct hd_runtime *runtime, int64_t deadline)
{
    for (;;) {
        const uint32_t seen = hdi_load_acquire(&runtime->quiet);
        hdi_runtime_for_each_task(runtime, cancel_one, NULL);
        if (all_ended(runtime)) return 0;
        if (is_quiet(runtime) && drop_pending(runtime)) continue;
        const int err = thread_wait(runtime, &runtime->quiet, seen, deadline, false);
        if (err == -ETIMEDOUT || err == -EDEADLK) return all_ended(runtime) ? 0 : err;
    }
}

int hd_runtime_shutdown(hd_runtime *runtime, int64_t deadline)
{
    if (inside(runtime)) return -EINVAL;
    hdi_store_release(&runtime->closing, true);
    /* Against submit_new(): our walk sees its task, or it sees `closing`. Should the kernel
     * refuse, the walk after the next quiet moment sees it. */
    const bool ordered = hdi_barrier_heavy();
    (void)ordered;
    hdi_fetch_add_seq_cst(&runtime->draining, 1);
    const int err = end_all(runtime, deadline);
    hdi_fetch_sub_acq_rel(&runtime->draining, 1);
    return err;
}

static void check_no_leak(struct hd_runtime *runtime)
{
    struct hd_task *task;
    if (!hdi_runtime_leaked(runtime, &task)) return;
    fprintf(stderr, "heddle: task %llu \"%s\", spawned at %s:%d, has a handle or waker left\n",
            (unsigned long long)task->id, hdi_task_name(task), task->site ? task->site->file : "?",
            task->site ? task->site->line : 0);
    hdi_fail(__FILE__, __LINE__, "hd_runtime_destroy() with handles or wakers alive");
}

/* Nothing is alive, so each is about to leave. */
static void wait_for_guests(struct hd_runtime *runtime)
{
    while (hdi_load_acquire(&runtime->guests) > 0) hdi_thread_yield(); /* G */
}

/* A simulated run that a verdict ended: its tasks stand where they were for good. */
static bool is_abandoned(const struct hd_runtime *runtime)
{
    return runtime->sim.schedule && hdi_schedule_over(runtime->sim.schedule);
}

void hd_runtime_destroy(hd_runtime *runtime)
{
    HD_CHECK_MSG(!inside(runtime), "hd_runtime_destroy() from inside the runtime");
    const int err = is_abandoned(runtime) ? 0 : hd_runtime_shutdown(runtime, HD_FOREVER);
    const bool abandoned = is_abandoned(runtime);
    HD_CHECK_MSG(err != -EDEADLK || abandoned,
                 "hd_runtime_destroy(): tasks are left that can never end");
    hdi_monitor_stop(&runtime->monitor);
    hdi_dispatchers_stop(runtime);
    if (runtime->world->kind == HD_WORLD_SIM) hdi_homes_remove(runtime);
    if (!HDI_MUTANT(guest_ignored)) wait_for_guests(runtime);
    if (runtime->options.report_overflow) hdi_overflow_uninstall();
    if (!abandoned) check_no_leak(runtime);
    hdi_io_end(runtime);
    if (runtime->world->end) runtime->world->end(runtime);
    hdi_dispatchers_free(runtime);
    hdi_caps_end(runtime);
    hdi_schedule_detach(runtime);
    hdi_tasks_fini(runtime);
    hdi_lines_free(runtime);
}

/* ---- again from the beginning ---- */

static void rewind_worker(struct hdi_worker *worker)
{
    const struct hd_runtime *runtime = worker->exec.runtime;
    const uint64_t seed = runtime->options.seed;
    worker->id_next = worker->id_end = 0;
    worker->exec.coarse_ns = 0;
    worker->exec.ops = 0;
    worker->handed = worker->offered = NULL;
    hdi_prng_init(&worker->prng, hdi_stream_draw(seed, HDI_PURPOSE_STEAL, worker->index, 0));
    hdi_timers_rewind(&worker->timers);
}

void hdi_runtime_rewind(struct hd_runtime *runtime, uint64_t seed)
{
    runtime->options.seed = seed;
    if (runtime->sources) hdi_io_end(runtime); /* One thread takes part: nobody adds any. */
    runtime->world->end(runtime);
    runtime->stdio[0] = runtime->stdio[1] = runtime->stdio[2] = 0;
    hdi_store_relaxed(&runtime->id_next, 1); /* One thread takes part: for all of these. */
    hdi_store_relaxed(&runtime->closing, false);
    hdi_store_relaxed(&runtime->deadlocked, false);
    hdi_store_relaxed(&runtime->sim.now_ns, 0);
    hdi_store_relaxed(&runtime->sim.digest, 0);
    hdi_store_relaxed(&runtime->sim.drawn, 0);
    hdi_store_relaxed(&runtime->sim.asleep, false);
    begin_sim(runtime);
    for (struct hd_dispatcher *d = runtime->dispatchers; d; d = d->next) {
        for (unsigned i = 0; i < d->worker_count; i++) rewind_worker(&d->workers[i]);
    }
}

/* ---- the short way ---- */

int hd_run_at(hd_fn *fn, void *arg, const hd_options *options, const hd_site *site)
{
    hd_options own = HD_OPTIONS_INIT;
    if (options) own = *options;
    own.report_overflow = true;
    if (own.deadlock == HD_DEADLOCK_AUTO) own.deadlock = HD_DEADLOCK_REPORT;
    int found;
    if (hdi_explore_asked(fn, arg, &own, &found)) return found;
    hd_runtime *runtime;
    int err = hd_runtime_create(&runtime, &own);
    if (err) return err;
    hd_spawn_options spawn = HD_SPAWN_OPTIONS_INIT;
    spawn.runtime = runtime;
    spawn.name = "main";
    hd_task *main_task;
    int result = 0;
    const bool asked = own.world == HD_WORLD_AUTO && runtime->world->kind == HD_WORLD_SIM;
    if (asked) hdi_summary_write(runtime, false);
    err = hd_spawn_at(&main_task, fn, arg, &spawn, site);
    if (!err) {
        err = hd_join(main_task, &result);
        if (err) hd_detach(main_task); /* sim: it can never end by itself */
        if (hdi_load_acquire(&runtime->deadlocked)) err = -EDEADLK;
        if (runtime->sim.schedule) err = hdi_schedule_conclude(runtime->sim.schedule, err, result);
    }
    if (asked) hdi_summary_write(runtime, true);
    hd_runtime_destroy(runtime);
    return err ? err : result;
}

/* ---- asking ---- */

hd_runtime *hd_runtime_self(void)
{
    const struct hdi_exec *exec = hdi_exec_self();
    return exec ? exec->runtime : NULL;
}

int64_t hd_now(hd_runtime *runtime)
{
    return runtime ? runtime->world->now(runtime) : hdi_sched_now();
}

int64_t hd_after_ms(int64_t ms)
{
    const int64_t now = hd_now(NULL);
    if (ms > (INT64_MAX - now) / 1000000) return HD_FOREVER;
    return ms < INT64_MIN / 1000000 ? INT64_MIN : now + ms * 1000000;
}

hd_world hd_runtime_world(const hd_runtime *runtime)
{
    return runtime->world->kind;
}

uint64_t hd_runtime_seed(const hd_runtime *runtime)
{
    return runtime->options.seed;
}

const char *hd_version(void)
{
    return HD_VERSION;
}

void hdi_sched_guest_enter(struct hd_runtime *runtime)
{
    hdi_fetch_add_acq_rel(&runtime->guests, 1);
}

void hdi_sched_guest_leave(struct hd_runtime *runtime)
{
    hdi_fetch_sub_acq_rel(&runtime->guests, 1); /* G: the last touch */
}

bool hdi_sched_may_spin(const struct hd_runtime *runtime)
{
    return runtime->world->kind == HD_WORLD_LIVE && runtime->cpus > 1;
}


void hdi_sched_thread_wake(struct hd_runtime *runtime, _Atomic(uint32_t) *word)
{
    runtime->world->wake(runtime, word);
}

int hdi_sched_thread_wait(struct hd_runtime *runtime, _Atomic(uint32_t) *word,
                          uint32_t expected, int64_t deadline_ns)
{
    return thread_wait(runtime, word, expected, deadline_ns, true);
}
