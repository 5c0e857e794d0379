/* SPDX-License-Identifier: MIT */
#include "sim/warn.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <heddle/log.h>

#include "base/check.h"
#include "sim/schedule.h"
#include "wait/wait.h"

void hdi_sim_warn(struct hd_runtime *runtime, uint64_t task, const char *format, ...)
{
    char text[HD_MESSAGE_MAX];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    runtime->sim.warnings++;
    const struct hdi_event_record event = {.kind = HD_LOG_WARNING, .task = task, .text = text};
    hdi_schedule_event(runtime, &event);
    if (runtime->options.log) runtime->options.log(runtime->options.log_arg, text);
}

/* ---- waits ---- */

static uint32_t place_of(const struct hd_task *task)
{
    return hdi_schedule_number(task) + 1;
}

static void grow(struct hdi_waits *waits, uint32_t place)
{
    uint32_t room = waits->room ? waits->room : 64;
    while (room <= place) room *= 2;
    waits->places = realloc(waits->places, room * sizeof(*waits->places));
    HD_CHECK_MSG(waits->places, "sim: out of memory");
    memset(waits->places + waits->room, 0, (room - waits->room) * sizeof(*waits->places));
    waits->room = room;
}

static void take_out(struct hdi_waits *waits, uint32_t place)
{
    struct hdi_wait *wait = &waits->places[place];
    waits->places[wait->prev].next = wait->next;
    waits->places[wait->next].prev = wait->prev;
    wait->task = NULL;
    waits->count--;
}

void hdi_waits_begin(struct hdi_schedule *schedule, struct hd_task *task)
{
    struct hdi_waits *waits = &schedule->waits;
    const uint32_t place = place_of(task);
    if (place >= waits->room) grow(waits, place);
    HDI_ASSERT(!waits->places[place].task); /* WAITS-1 */
    const uint32_t last = waits->places[0].prev;
    waits->places[place] = (struct hdi_wait){
        .task = task,
        .since_ns = hdi_load_relaxed(&schedule->runtime->sim.now_ns), /* the driver's own */
        .prev = last,
    };
    waits->places[last].next = waits->places[0].prev = place;
    waits->count++;
}

void hdi_waits_end(struct hdi_schedule *schedule, const struct hd_task *task)
{
    struct hdi_waits *waits = &schedule->waits;
    const uint32_t place = place_of(task);
    if (place < waits->room && waits->places[place].task) take_out(waits, place);
}

int64_t hdi_waits_next(const struct hdi_schedule *schedule)
{
    const struct hdi_waits *waits = &schedule->waits;
    if (waits->count == 0) return INT64_MAX;
    const int64_t since_ns = waits->places[waits->places[0].next].since_ns;
    const int64_t long_ns = schedule->runtime->options.sim_long_wait_ns;
    return since_ns < INT64_MAX - long_ns ? since_ns + long_ns : INT64_MAX;
}

/* It is told to wait for that long. */
static bool sleeps(const struct hd_task *task)
{
    const struct hdi_waiter *waiter = task->kind == HDI_TASK_FIBER ? task->fiber.waiter : NULL;
    return waiter && !hdi_waits_on_task(waiter) && waiter->count == 0;
}

void hdi_waits_warn(struct hdi_schedule *schedule)
{
    struct hdi_waits *waits = &schedule->waits;
    const uint32_t place = waits->places[0].next;
    const struct hd_task *task = waits->places[place].task;
    take_out(waits, place);
    if (sleeps(task)) return;
    const hd_options *options = &schedule->runtime->options;
    const void *object;
    const char *name = hdi_task_name(task);
    hdi_sim_warn(schedule->runtime, task->id,
                 "task %" PRIu64 "%s%s%s has waited for %" PRId64 " ticks: %s", task->id,
                 *name ? " \"" : "", name, *name ? "\"" : "",
                 options->sim_long_wait_ns / options->sim_tick_ns,
                 hdi_schedule_waits_for(task, &object));
}

void hdi_waits_clear(struct hdi_waits *waits)
{
    if (waits->count == 0) return;
    memset(waits->places, 0, waits->room * sizeof(*waits->places));
    waits->count = 0;
}

void hdi_waits_fini(struct hdi_waits *waits)
{
    free(waits->places);
}
