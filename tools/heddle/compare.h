/* SPDX-License-Identifier: MIT
 *
 * compare: where two logs part, with what was before and what each has after.
 */
#ifndef COMPARE_H
#define COMPARE_H

#include <heddle.h>
#include <stdio.h>

#include "event.h"

struct comparison {
    hd_log *a, *b;
    bool differ;
    bool headers;      /* in what they were recorded from, and maybe nothing else */
    uint64_t sequence; /* the first event that differs, or that one of them lacks; 0: none */
};

/* Open and compare. Returns: 0, or an exit code after saying what is wrong. compare_end() is due
 * either way. */
int compare_logs(struct comparison *comparison, const char *a, const char *b);
void compare_end(struct comparison *comparison);

/* Whether a log was cut, and this event is the first that it lacks. */
bool compare_is_cut(hd_log *log, uint64_t sequence);

/* Prints nothing if they are equal. */
void compare_print(const struct comparison *comparison, FILE *out, const char *a, const char *b);
void compare_json(const struct comparison *comparison, struct json *json);

#endif
