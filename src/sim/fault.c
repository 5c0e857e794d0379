/* SPDX-License-Identifier: MIT
 *
 * fault: what goes wrong in the simulated network and on the disks, one by one.
 *
 * The seed says what goes wrong when. Each time it asks for something, that has a number; in a list
 * of the numbers that are left (schedule->allowed) others do not happen. They are counted all the
 * same, so that the numbers of the rest stay as they are.
 */
#include <heddle/log.h>

#include "sim/schedule.h"

static bool is_in(const struct hdi_fault_list *list, uint64_t number)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (list->numbers[middle] < number) low = middle + 1;
        else high = middle;
    }
    return low < list->count && list->numbers[low] == number;
}

bool hdi_schedule_fault(struct hd_runtime *runtime, const char *what)
{
    struct hdi_schedule *schedule = runtime->sim.schedule;
    if (!schedule) return true;
    const uint64_t number = ++schedule->fault_next;
    if (schedule->replay && !hdi_replay_fault(schedule->replay, number, what)) return false;
    if (schedule->allowed && !is_in(schedule->allowed, number)) return false;
    schedule->faults++;
    if (schedule->log) {
        hdi_log_event(schedule->log, &(struct hdi_event_record){
                                         .kind = HD_LOG_FAULT, .a = number, .text = what});
    }
    return true;
}
