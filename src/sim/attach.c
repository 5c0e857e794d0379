/* SPDX-License-Identifier: MIT
 *
 * attach: a schedule comes to a simulated runtime, with the files it reads and writes, and goes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/schedule.h"

static bool was_set(const struct hdi_replay *replay, const char *key)
{
    uint64_t number;
    return hdi_replay_number(replay, key, &number) && number != 0;
}

/* What is the schedule's own of what was recorded. */
static void take_over(struct hdi_schedule *schedule)
{
    uint64_t number;
    hdi_replay_begin(schedule->replay, schedule->runtime);
    if (hdi_replay_number(schedule->replay, "steps_max", &number)) {
        schedule->steps_max = (uint32_t)number;
    }
    schedule->clock = was_set(schedule->replay, "clock");
    schedule->judges = was_set(schedule->replay, "judges");
    schedule->ignores_results = was_set(schedule->replay, "ignore_results");
    schedule->allows_stale = was_set(schedule->replay, "allow_stale");
}

static int open_files(struct hdi_schedule *schedule)
{
    struct hd_runtime *runtime = schedule->runtime;
    const char *log = runtime->options.record, *replay = runtime->options.replay;
    const char *error = NULL;
    int err = replay ? hdi_replay_open(&schedule->replay, replay, &runtime->options, &error) : 0;
    if (err) {
        fprintf(stderr, "heddle: %s cannot be replayed: %s\n", replay,
                error ? error : strerror(-err));
        return err;
    }
    if (replay) take_over(schedule);
    err = log ? hdi_log_begin(&schedule->log, log, runtime) : 0;
    if (err) fprintf(stderr, "heddle: %s cannot be written: %s\n", log, strerror(-err));
    return err;
}

static int begin(struct hdi_schedule *schedule, const char *sampler)
{
    struct hd_runtime *runtime = schedule->runtime;
    const char *error = NULL;
    const int err = hdi_sampler_create(&schedule->sampler, sampler, &error);
    if (err) {
        if (error) fprintf(stderr, "heddle: %s\n", error);
        return err;
    }
    hdi_schedule_rewind(schedule, runtime->options.seed);
    return 0;
}

/* Where a replay stops for a debugger; 0: nowhere. */
static uint32_t read_until(void)
{
    const char *text = secure_getenv("HEDDLE_UNTIL");
    const unsigned long long step = text ? strtoull(text, NULL, 10) : 0;
    return step < UINT32_MAX ? (uint32_t)step : 0;
}

int hdi_schedule_attach(struct hd_runtime *runtime)
{
    struct hdi_schedule *schedule = calloc(1, sizeof(*schedule));
    if (!schedule) return -ENOMEM;
    schedule->runtime = runtime;
    schedule->steps_max = UINT32_MAX;
    runtime->sim.schedule = schedule;
    int err = open_files(schedule); /* A replay says which sampler and seed. */
    if (!err && runtime->options.replay) schedule->until = read_until();
    const char *sampler = runtime->options.sampler;
    schedule->points = sampler != NULL;
    schedule->counted = schedule->points || hdi_schedule_is_observed(schedule);
    if (schedule->counted) hdi_fetch_add_acq_rel(&hdi_schedules, 1);
    if (!err) err = begin(schedule, sampler ? sampler : "random");
    if (err) hdi_schedule_detach(runtime);
    return err;
}

static void finish_log(const struct hd_runtime *runtime, struct hdi_log *log)
{
    const int err = hdi_log_end(log);
    if (err) {
        fprintf(stderr, "heddle: %s is not complete: %s\n", runtime->options.record,
                strerror(-err));
    }
}

void hdi_schedule_detach(struct hd_runtime *runtime)
{
    struct hdi_schedule *schedule = runtime->sim.schedule;
    if (!schedule) return;
    const bool counted = schedule->counted;
    if (schedule->replay) hdi_replay_close(schedule->replay);
    if (schedule->log) finish_log(runtime, schedule->log);
    if (schedule->sampler) hdi_sampler_destroy(schedule->sampler);
    hdi_actors_fini(&schedule->actors);
    free(schedule->ready);
    hdi_signature_fini(&schedule->signature);
    hdi_waits_fini(&schedule->waits);
    free(schedule);
    runtime->sim.schedule = NULL;
    if (counted) hdi_fetch_sub_acq_rel(&hdi_schedules, 1);
}
