/* SPDX-License-Identifier: MIT
 *
 * trace: a log side by side, a column for each task, for people.
 */
#ifndef TRACE_H
#define TRACE_H

#include <heddle.h>
#include <stdio.h>

/* Print the log, which is read from its beginning, in so many columns of text. `crash` is how its
 * program died, if that is why it has no end. Returns 0 or what the log's reader says. */
int trace_print(FILE *out, hd_log *log, const char *crash, int columns, bool color);

/* The same on stdout, as it suits a terminal, if that is one. */
int trace_show(hd_log *log, const char *crash);

#endif
