/* SPDX-License-Identifier: MIT
 *
 * summary: a simulated run in figures. They are no part of its record: counting changes nothing.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <heddle/sim.h>

#include "os/logfile.h"
#include "sim/net.h"
#include "sim/schedule.h"

static uint64_t count_fired(struct hd_runtime *runtime)
{
    uint64_t fired = 0;
    hdi_mutex_lock(&runtime->list);
    for (struct hd_dispatcher *d = runtime->dispatchers; d; d = d->next) {
        for (unsigned i = 0; i < d->worker_count; i++) {
            struct hdi_timers *timers = &d->workers[i].timers;
            hdi_lock_take(&timers->lock);
            fired += timers->fired;
            hdi_lock_give(&timers->lock);
        }
    }
    hdi_mutex_unlock(&runtime->list);
    return fired;
}

static void add_network(struct hdi_net *net, hd_sim_stats *stats)
{
    hdi_mutex_lock(&net->lock);
    stats->events += net->events.taken;
    if (net->events.most > stats->depth_max) stats->depth_max = net->events.most;
    hdi_mutex_unlock(&net->lock);
}

static void add_schedule(const struct hdi_schedule *schedule, hd_sim_stats *stats)
{
    stats->steps = schedule->steps;
    stats->choices = schedule->decisions;
    stats->cohorts = schedule->cohorts;
    if (schedule->cohorts > 0) {
        stats->cohort_mean = (double)schedule->cohort_tasks / (double)schedule->cohorts;
    }
}

int hd_sim_summary(hd_runtime *runtime, hd_sim_stats *stats)
{
    if (!runtime || !stats) return -EINVAL;
    if (runtime->world->kind != HD_WORLD_SIM) return -ENOTSUP;
    hd_stats counted;
    hd_runtime_stats(runtime, &counted);
    *stats = (hd_sim_stats){
        .ticks = (uint64_t)(runtime->world->now(runtime) / runtime->options.sim_tick_ns),
        .events = count_fired(runtime),
        .spawned = counted.submitted,
        .completed = counted.completed,
        .runs = counted.polls,
        .depth_max = runtime->sim.depth_max,
        .pauses = runtime->sim.pauses,
        .warnings = runtime->sim.warnings,
    };
    struct hdi_net *net = hdi_load_acquire(&runtime->sim.net); /* N */
    if (net) add_network(net, stats);
    if (runtime->sim.schedule) add_schedule(runtime->sim.schedule, stats);
    return 0;
}

/* ---- for whoever started the program ---- */

static int as_json(const hd_sim_stats *stats, bool ended, char *text, size_t size)
{
    return snprintf(text, size,
                    "{\"ended\":%s,\"ticks\":%" PRIu64 ",\"events\":%" PRIu64
                    ",\"spawned\":%" PRIu64 ",\"completed\":%" PRIu64 ",\"runs\":%" PRIu64
                    ",\"steps\":%" PRIu64 ",\"choices\":%" PRIu64 ",\"cohorts\":%" PRIu64
                    ",\"cohort_mean\":%.2f,\"depth_max\":%" PRIu64 ",\"pauses\":%" PRIu64
                    ",\"warnings\":%" PRIu64 "}\n",
                    ended ? "true" : "false", stats->ticks, stats->events, stats->spawned,
                    stats->completed, stats->runs, stats->steps, stats->choices, stats->cohorts,
                    stats->cohort_mean, stats->depth_max, stats->pauses, stats->warnings);
}

void hdi_summary_write(struct hd_runtime *runtime, bool ended)
{
    const char *path = secure_getenv("HEDDLE_SUMMARY");
    hd_sim_stats stats;
    if (!path || !*path || hd_sim_summary(runtime, &stats) != 0) return;
    char text[512];
    const int bytes = as_json(&stats, ended, text, sizeof(text));
    const int fd = hdi_logfile_create(path);
    int err = fd < 0 ? fd : hdi_logfile_write(fd, text, (size_t)bytes);
    if (fd >= 0) {
        const int closed = hdi_logfile_close(fd);
        if (!err) err = closed;
    }
    if (err) fprintf(stderr, "heddle: %s cannot be written: %s\n", path, strerror(-err));
}
