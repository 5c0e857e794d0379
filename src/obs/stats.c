/* SPDX-License-Identifier: MIT
 *
 * stats: counters, the digest, and a text dump of a runtime.
 */
#include <inttypes.h>

#include "sched/runtime.h"
#include "task/state.h"

static uint64_t read_counter(_Atomic(uint64_t) *counter)
{
    return hdi_load_relaxed(counter); /* Each is a number of its own. */
}

static void add_worker(hd_stats *stats, struct hdi_worker *worker)
{
    struct hdi_counters *c = &worker->counters;
    stats->submitted += read_counter(&c->submitted);
    stats->polls += read_counter(&c->polls);
    stats->steal_attempts += read_counter(&c->steal_attempts);
    stats->steals += read_counter(&c->steals);
    stats->stolen += read_counter(&c->stolen);
    stats->lifo_hits += read_counter(&c->lifo_hits);
    stats->overflows += read_counter(&c->overflows);
    stats->parks += read_counter(&c->parks);
    stats->unparks += read_counter(&c->unparks);
    stats->searches += read_counter(&c->searches);
    const uint64_t avg = read_counter(&c->run_ns_avg), max = read_counter(&c->run_ns_max);
    stats->run_ns_avg += avg / stats->workers;
    if (max > stats->run_ns_max) stats->run_ns_max = max;
    const unsigned interval = (unsigned)read_counter(&c->inject_interval);
    if (stats->inject_interval == 0 || interval < stats->inject_interval) {
        stats->inject_interval = interval;
    }
}

void hd_runtime_stats(hd_runtime *runtime, hd_stats *out)
{
    hd_stats stats = {.workers = runtime->worker_count};
    stats.alive = hdi_runtime_alive(runtime);
    stats.submitted = read_counter(&runtime->foreign_submitted);
    for (unsigned i = 0; i < runtime->worker_count; i++) add_worker(&stats, &runtime->workers[i]);
    stats.completed = stats.submitted - stats.alive;
    hdi_mutex_lock(&runtime->inject.lock);
    stats.injected = runtime->inject.total;
    hdi_mutex_unlock(&runtime->inject.lock);
    *out = stats;
}

uint64_t hd_runtime_digest(hd_runtime *runtime)
{
    if (runtime->world->kind == HD_WORLD_SIM) return hdi_mix64(runtime->sim.digest);
    uint64_t sum = 0; /* commutative: workers have no common order */
    for (unsigned i = 0; i < runtime->worker_count; i++) {
        sum += hdi_mix64(read_counter(&runtime->workers[i].own_digest) + i);
    }
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

static void dump_task(struct hd_task *task, void *arg)
{
    struct dump *dump = arg;
    if (++dump->shown > DUMP_TASKS_MAX) return;
    const uint64_t word = hdi_load_acquire(&task->word);
    fprintf(dump->out, "  task %" PRIu64 "  %-9s  %-9s%s%s", task->id,
            task->kind == HDI_TASK_FIBER ? "fiber" : "stackless",
            lifecycle_name(hdi_word_lifecycle(word)), word & HDI_CANCELLED ? "  cancelled" : "",
            word & HDI_SHIELD_MASK ? "  shielded" : "");
    if (task->name[0]) fprintf(dump->out, "  \"%s\"", task->name);
    if (task->site) fprintf(dump->out, "  %s:%d", task->site->file, task->site->line);
    fputc('\n', dump->out);
}

static const char *worker_state_name(enum hdi_worker_state state)
{
    switch (state) {
    case HDI_WORKER_RUNNING: return "running";
    case HDI_WORKER_SEARCHING: return "searching";
    case HDI_WORKER_PARKED: return "parked";
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
            "  injected %" PRIu64 " (waiting %u)\n"
            "  run average %" PRIu64 " ns  longest %" PRIu64 " ns  injection interval %u\n",
            stats.alive, stats.submitted, stats.completed, stats.injected,
            hdi_inject_length(&runtime->inject), stats.run_ns_avg, stats.run_ns_max,
            stats.inject_interval);
    for (unsigned i = 0; i < runtime->worker_count; i++) dump_worker(out, &runtime->workers[i]);
    struct dump dump = {out, 0};
    hdi_runtime_for_each_task(runtime, dump_task, &dump);
    if (dump.shown > DUMP_TASKS_MAX) {
        fprintf(out, "  ... and %u more tasks\n", dump.shown - DUMP_TASKS_MAX);
    }
}
