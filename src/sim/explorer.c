/* SPDX-License-Identifier: MIT */
#include "sim/explorer.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdnoreturn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "os/memory.h"

#define SCHEDULES_DEFAULT 10000
#define STEPS_DEFAULT     20000

/* ---- one schedule ---- */

static int program(void *arg)
{
    struct hdi_explorer *explorer = arg;
    explorer->code = explorer->fn(explorer->arg);
    hdi_store_release(&explorer->done, 1);
    return explorer->code;
}

static int need_runtime(struct hdi_explorer *explorer, uint64_t seed)
{
    if (explorer->runtime) return 0;
    hd_options *options = &explorer->runtime_options;
    options->seed = seed;
    const int err = hd_runtime_create(&explorer->runtime, options);
    if (err) return err;
    struct hdi_schedule *schedule = explorer->runtime->sim.schedule;
    hdi_sampler_destroy(schedule->sampler);
    schedule->sampler = NULL;
    schedule->steps_max = explorer->options.steps_max;
    schedule->judges = true;
    schedule->ignores_results = explorer->options.ignore_results;
    schedule->allows_stale = explorer->options.allow_stale;
    schedule->clock = explorer->options.clock;
    schedule->invariant = explorer->options.invariant;
    schedule->invariant_arg = explorer->options.hook_arg;
    return 0;
}

/* Without its sampler, which is the caller's. */
static void drop_runtime(struct hdi_explorer *explorer)
{
    if (!explorer->runtime) return;
    explorer->runtime->sim.schedule->sampler = NULL;
    hd_runtime_destroy(explorer->runtime);
    explorer->runtime = NULL;
}

/* Tasks in use, as far as the default dispatcher's cache can tell: if it has as many free ones as
 * before, none has leaked. */
static unsigned free_tasks(const struct hd_runtime *runtime)
{
    unsigned count = 0;
    for (unsigned i = 0; i < HDI_TASK_CLASSES; i++) {
        count += runtime->main.workers[0].tasks[i].count;
    }
    return count;
}

static int run_program(struct hdi_explorer *explorer, struct hdi_schedule *schedule)
{
    struct hd_runtime *runtime = explorer->runtime;
    static const hd_site site = {__FILE__, __LINE__, __func__};
    hdi_store_relaxed(&explorer->done, 0);
    const unsigned before = free_tasks(runtime);
    /* As the worker, so by its runtime: its cache is where the task comes from, and goes to. */
    hdi_worker_enter(&runtime->main.workers[0]);
    int err = hd_spawn_at(NULL, program, explorer, NULL, &site);
    hdi_worker_leave(&runtime->main.workers[0]);
    if (err) return err;
    err = runtime->world->wait(runtime, &explorer->done, 0, HD_FOREVER);
    if (err) return 0; /* a verdict */
    hdi_schedule_settle(schedule, explorer->code);
    if (free_tasks(runtime) != before) hdi_schedule_look_for_handles(schedule);
    return 0;
}

static void tell_outcome(const struct hdi_explorer *explorer, struct hdi_outcome *outcome)
{
    const struct hdi_schedule *schedule = explorer->runtime->sim.schedule;
    outcome->verdict.kind = schedule->verdict.kind;
    if (hdi_schedule_is_over(schedule)) outcome->verdict = schedule->verdict;
    outcome->steps = schedule->steps;
    outcome->tasks = schedule->actors.count;
    outcome->decisions = schedule->decisions;
    outcome->preemptions = schedule->preemptions;
    outcome->faults = schedule->faults;
    outcome->signature = schedule->signature.sum;
    outcome->digest = hd_runtime_digest(explorer->runtime);
    outcome->came_back = true;
}

/* A verdict leaves tasks behind, unless the program had returned and all have ended and are gone.
 * A dispatcher that outlives the schedule, such as the one for blocking calls, was not there at its
 * begin. */
static bool can_rewind(const struct hdi_explorer *explorer, const struct hdi_verdict *verdict)
{
    if (explorer->runtime->dispatchers->next) return false;
    if (verdict->kind == HD_VERDICT_NONE) return true;
    struct hd_task *leaked;
    return verdict->kind == HD_VERDICT_RESULT && hdi_runtime_alive(explorer->runtime) == 0 &&
           !hdi_runtime_leaked(explorer->runtime, &leaked);
}

/* Recorded in `log`, if that is not NULL. */
static int run_here(struct hdi_explorer *explorer, struct hdi_sampler *sampler, uint64_t seed,
                    const char *log, struct hdi_outcome *outcome)
{
    int err = need_runtime(explorer, seed);
    if (err) return err;
    struct hd_runtime *runtime = explorer->runtime;
    struct hdi_schedule *schedule = runtime->sim.schedule;
    if (explorer->options.reset) explorer->options.reset(explorer->options.hook_arg);
    schedule->sampler = sampler;
    schedule->allowed = explorer->faults;
    schedule->signs = explorer->signs;
    hdi_runtime_rewind(runtime, seed);
    hdi_schedule_rewind(schedule, seed);
    if (log) {
        char text[HD_SAMPLER_TEXT_MAX];
        const char *before = runtime->options.sampler;
        hdi_sampler_text(sampler, text, sizeof(text));
        runtime->options.sampler = text;
        err = hdi_log_begin(&schedule->log, log, runtime);
        runtime->options.sampler = before;
        if (err) return err;
        if (explorer->options.fork) hdi_log_through(schedule->log); /* It may be killed. */
    }
    err = run_program(explorer, schedule);
    tell_outcome(explorer, outcome);
    if (log) {
        const int wrote = hdi_log_end(schedule->log);
        schedule->log = NULL;
        if (!err) err = wrote;
    }
    if (!err && outcome->verdict.kind == HD_VERDICT_NONE) hdi_schedule_end(schedule);
    if (!can_rewind(explorer, &outcome->verdict)) drop_runtime(explorer);
    return err;
}

/* ---- in a process of its own ---- */

static noreturn void run_child(struct hdi_explorer *explorer, struct hdi_sampler *sampler,
                               uint64_t seed, const char *log)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* Nobody is left to hear of it. */
    explorer->shared->err = run_here(explorer, sampler, seed, log, explorer->shared);
    _exit(0);
}

static int run_forked(struct hdi_explorer *explorer, struct hdi_sampler *sampler, uint64_t seed,
                      const char *log, struct hdi_outcome *outcome)
{
    explorer->shared->came_back = false;
    explorer->shared->err = 0;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0) return -errno;
    if (pid == 0) run_child(explorer, sampler, seed, log);
    int status;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) return -errno;
    }
    if (explorer->shared->err) return explorer->shared->err;
    if (explorer->shared->came_back && status == 0) {
        *outcome = *explorer->shared;
        return 0;
    }
    memset(outcome, 0, sizeof(*outcome));
    outcome->verdict.kind = HD_VERDICT_CRASH;
    outcome->verdict.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    snprintf(outcome->verdict.message, sizeof(outcome->verdict.message),
             WIFSIGNALED(status) ? "killed by signal %d (%s)" : "exited with status %d%s",
             outcome->verdict.code,
             WIFSIGNALED(status) ? strsignal(outcome->verdict.code) : "");
    return 0;
}

int hdi_explorer_run(struct hdi_explorer *explorer, struct hdi_sampler *sampler, uint64_t seed,
                     const char *log, struct hdi_outcome *outcome)
{
    return explorer->options.fork ? run_forked(explorer, sampler, seed, log, outcome)
                                  : run_here(explorer, sampler, seed, log, outcome);
}

/* ---- beginning and ending ---- */

static void fill_in(struct hdi_explorer *explorer, const hd_explore_options *options)
{
    hd_explore_options *own = &explorer->options;
    *own = options ? *options : (hd_explore_options)HD_EXPLORE_OPTIONS_INIT;
    if (!own->sampler) own->sampler = "portfolio";
    if (!own->seed) own->seed = 1;
    if (!own->schedules) own->schedules = SCHEDULES_DEFAULT;
    if (!own->steps_max) own->steps_max = STEPS_DEFAULT;
    hd_options *inner = &explorer->runtime_options;
    *inner = own->options ? *own->options : (hd_options)HD_OPTIONS_INIT;
    inner->world = HD_WORLD_SIM;
    inner->sampler = "random"; /* for the points; each schedule brings its own */
    inner->record = inner->replay = NULL;
    inner->deadlock = HD_DEADLOCK_WAIT;
    inner->report_overflow = false;
}

int hdi_explorer_open(struct hdi_explorer *explorer, hd_fn *fn, void *arg,
                      const hd_explore_options *options)
{
    *explorer = (struct hdi_explorer){.fn = fn, .arg = arg};
    fill_in(explorer, options);
    if (!explorer->options.fork) return 0;
    explorer->shared = hdi_memory_map_shared(sizeof(*explorer->shared));
    return explorer->shared ? 0 : -ENOMEM;
}

void hdi_explorer_close(struct hdi_explorer *explorer)
{
    drop_runtime(explorer);
    if (explorer->shared) hdi_memory_unmap(explorer->shared, sizeof(*explorer->shared));
}
