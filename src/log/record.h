/* SPDX-License-Identifier: MIT
 *
 * record: events of a run as they are written down, for the log that records a run and the replay
 * that compares one.
 */
#ifndef HDI_LOG_RECORD_H
#define HDI_LOG_RECORD_H

#include "log/objects.h"
#include "log/writer.h"
#include "sim/schedule.h"

/* What is written of an event: objects are numbers, and files have no directories, which differ
 * between machines. Texts are the event's own. Returns: 0, -ENOMEM. */
int hdi_log_record_of(struct hdi_log_record *record, const struct hdi_event_record *event,
                      int64_t time_ns, struct hdi_log_objects *objects);

/* The options of a run that matter for what happens in it, as "key=value key=value". Returns the
 * length, like snprintf(). */
int hdi_log_options_put(const struct hdi_schedule *schedule, char *text, size_t size);

/* Put what such a text says into *options. Returns: 0, -EBADMSG. */
int hdi_log_options_get(const char *text, hd_options *options);

/* One of those that are the schedule's, such as "clock". Returns false if it is not there. */
bool hdi_log_options_number(const char *text, const char *key, uint64_t *value);

#endif
