/* SPDX-License-Identifier: MIT
 *
 * stats: counters, the digest, and a text dump of a runtime.
 */
#include <inttypes.h>

#include <heddle/budget.h>

#include "sched/runtime.h"
#include "task/state.h"

static uint64_t read_counter(_Atomic(uint64_t) *counter)
{
    return hdi_load_relaxed(counter); /* Each is a number of its own. */
}

void hd_runtime_stats(hd_runtime *runtime, hd_stats *out)
{
    const uint64_t alive = hdi_runtime_alive(runtime);
    hdi_mutex_lock(&runtime->list);
    hd_stats stats = runtime->retired;
    stats.alive = alive;
    stats.submitted = read_counter(&runtime->foreign_submitted);
    for (struct hd_dispatcher *d = runtime->dispatchers; d; d = d->next) {
        stats.workers += hd_dispatcher_workers(d);
    }
    for (struct hd_dispatcher *d = runtime->dispatchers; d; d = d->next) {
        hdi_dispatcher_add_stats(d, &stats);
    }
    hdi_mutex_unlock(&runtime->list);
    stats.completed = stats.submitted - stats.alive;
    *out = stats;
}

uint64_t hd_runtime_digest(hd_runtime *runtime)
{
    if (runtime->world->kind == HD_WORLD_SIM) return hdi_mix64(runtime->sim.digest);
    uint64_t sum = 0; /* commutative: workers have no common order */
    hdi_mutex_lock(&runtime->list);
    for (struct hd_dispatcher *d = runtime->dispatchers; d; d = d->next) {
        for (unsigned i = 0; i < hdi_dispatcher_places(d); i++) {
            sum += hdi_mix64(read_counter(&d->workers[i].own_digest) + i);
        }
    }
    hdi_mutex_unlock(&runtime->list);
    return sum;
}

static const char *lifecycle_name(enum hdi_lifecycle lifecycle)
{
    switch (lifecycle) {
    case HDI_IDLE: return "idle";
    case HDI_SCHEDULED: return "scheduled";
    case HDI_RUNNING: return "running";
    case HDI_COMPLETE: return "complete";
    }
    return "?";
}

struct dump {
    FILE *out;
    unsigned shown;
};

enum { DUMP_TASKS_MAX = 1000 };

static void dump_exhausted(FILE *out, const struct hd_task *task)
{
    struct hdi_extras *extras = hdi_task_extras(task);
    const unsigned mark = extras ? hdi_load_relaxed(&extras->exhausted) : 0; /* as of now */
    if (mark) fprintf(out, "  budget exhausted: %s", hd_resource_name((hd_resource)(mark - 1)));
}

static void dump_task(struct hd_task *task, void *arg)
{
    struct dump *dump = arg;
    if (++dump->shown > DUMP_TASKS_MAX) return;
    const uint64_t word = hdi_load_acquire(&task->word);
    fprintf(dump->out, "  task %" PRIu64 "  %-9s  %-9s%s%s", task->id,
            task->kind == HDI_TASK_FIBER ? "fiber" : "stackless",
            lifecycle_name(hdi_word_lifecycle(word)), word & HDI_CANCELLED ? "  cancelled" : "",
            word & HDI_SHIELD_MASK ? "  shielded" : "");
    const char *name = hdi_task_name(task);
    if (*name) fprintf(dump->out, "  \"%s\"", name);
    dump_exhausted(dump->out, task);
    if (task->site) fprintf(dump->out, "  %s:%d", task->site->file, task->site->line);
    fputc('\n', dump->out);
}

static const char *worker_state_name(enum hdi_worker_state state)
{
    switch (state) {
    case HDI_WORKER_RUNNING: return "running";
    case HDI_WORKER_SEARCHING: return "searching";
    case HDI_WORKER_PARKED: return "parked";
    case HDI_WORKER_GONE: return "gone";
    }
    return "?";
}

static void dump_worker(FILE *out, struct hdi_worker *worker)
{
    struct hdi_counters *c = &worker->counters;
    fprintf(out,
            "  worker %-3u %-9s  queued %-3u polls %" PRIu64 "  lifo %" PRIu64 "  steals %" PRIu64
            "/%" PRIu64 "  parks %" PRIu64 "  overflows %" PRIu64 "\n",
            worker->index, worker_state_name((enum hdi_worker_state)read_counter(&c->state)),
            hdi_runq_count(&worker->queue), read_counter(&c->polls),
            read_counter(&c->lifo_hits), read_counter(&c->steals),
            read_counter(&c->steal_attempts), read_counter(&c->parks),
            read_counter(&c->overflows));
}

static const char *policy_name(hd_policy policy)
{
    switch (policy) {
    case HD_POLICY_FAIR: return "fair";
    case HD_POLICY_LOCAL: return "local";
    case HD_POLICY_ORDERED: return "ordered";
    case HD_POLICY_PRIORITY: return "priority";
    }
    return "?";
}

/* Workers that never had a thread say nothing. */
static void dump_dispatcher(FILE *out, struct hd_dispatcher *dispatcher)
{
    fprintf(out, "  dispatcher \"%s\"  %s  workers %u%s  injected tasks waiting %u\n",
            dispatcher->name, policy_name(dispatcher->policy), hd_dispatcher_workers(dispatcher),
            hdi_load_acquire(&dispatcher->closing) ? "  closing" : "",
            hdi_inject_length(&dispatcher->inject));
    for (unsigned i = 0; i < hdi_dispatcher_places(dispatcher); i++) {
        struct hdi_worker *worker = &dispatcher->workers[i];
        if (dispatcher->elastic && read_counter(&worker->counters.parks) == 0 &&
            read_counter(&worker->counters.polls) == 0) {
            continue;
        }
        dump_worker(out, worker);
    }
}

void hd_runtime_dump(hd_runtime *runtime, FILE *out)
{
    hd_stats stats;
    hd_runtime_stats(runtime, &stats);
    if (runtime->world->kind == HD_WORLD_SIM) {
        fprintf(out, "heddle runtime: sim, seed %" PRIu64 "\n", runtime->options.seed);
    } else {
        fprintf(out, "heddle runtime: live\n");
    }
    fprintf(out,
            "  tasks alive %" PRIu64 "  submitted %" PRIu64 "  completed %" PRIu64
            "  injected %" PRIu64 "\n"
            "  run average %" PRIu64 " ns  longest %" PRIu64 " ns  injection interval %u\n",
            stats.alive, stats.submitted, stats.completed, stats.injected, stats.run_ns_avg,
            stats.run_ns_max, stats.inject_interval);
    hdi_mutex_lock(&runtime->list);
    for (struct hd_dispatcher *d = runtime->dispatchers; d; d = d->next) dump_dispatcher(out, d);
    hdi_mutex_unlock(&runtime->list);
    struct dump dump = {out, 0};
    hdi_runtime_for_each_task(runtime, dump_task, &dump);
    if (dump.shown > DUMP_TASKS_MAX) {
        fprintf(out, "  ... and %u more tasks\n", dump.shown - DUMP_TASKS_MAX);
    }
}
