/* SPDX-License-Identifier: MIT
 *
 * event: the events of a log, for people and as JSON; and opening logs.
 */
#ifndef EVENT_H
#define EVENT_H

#include <heddle.h>
#include <stdio.h>

#include "json.h"

/* Names of tasks, as they were spawned. */
struct names {
    struct task_name *known; /* by id */
    size_t count, room;
};

/* Remember a spawn; other events change nothing. */
void names_learn(struct names *names, const hd_log_event *event);
const char *names_find(const struct names *names, uint64_t task); /* "" */
void names_free(struct names *names);

/* Learn from all spawns before this event, and make it the next to be read. Returns 0 or -errno. */
int names_seek(struct names *names, hd_log *log, uint64_t sequence);

/* One line without its end. */
void event_print(FILE *out, const hd_log_event *event, const struct names *names);
void event_json(struct json *json, const hd_log_event *event, const struct names *names);

/* Whether they say the same. */
bool event_equal(const hd_log_event *a, const hd_log_event *b);

/* Open it, or say why not. Returns 0 or an exit code. */
int event_open(hd_log **log, const char *path);

#endif
