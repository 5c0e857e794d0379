/* SPDX-License-Identifier: MIT
 *
 * tool: what the commands of `heddle` share: exit codes, the command table, running as a fiber.
 *
 * The tool is a Heddle program like any other: public headers only, one worker, so that fibers
 * share plain memory, and each child process is waited for by a fiber.
 */
#ifndef TOOL_H
#define TOOL_H

#include <heddle.h>
#include <stdio.h>

#include "options.h"

/* What the tool exits with. Part of its contract: heddle.1 has the table. */
enum tool_exit {
    TOOL_FINE = 0,         /* it went well, and nothing was found */
    TOOL_FOUND = 1,        /* a bug was found */
    TOOL_USAGE = 2,        /* the command line makes no sense */
    TOOL_DIVERGED = 3,     /* two logs, or a log and its replay, differ */
    TOOL_BAD_LOG = 4,      /* a log is damaged, or is none */
    TOOL_NO_PROGRAM = 5,   /* the program cannot be run, or is no Heddle program */
    TOOL_SYSTEM = 6,       /* the system refused something, or time did not suffice */
    TOOL_INTERRUPTED = 130 /* by a signal, before anything was found */
};

struct command {
    const char *name;
    const char *operands; /* as in "PROGRAM [ARGS...]" */
    const char *summary;  /* one line */
    const char *details;  /* for `heddle help NAME`; may be several lines */
    const struct option_spec *options;
    int (*run)(struct arguments *arguments);
};

extern const struct command command_diff, command_doctor, command_explore, command_replay,
    command_show, command_shrink, command_sim, command_verify;

/* Run `fn` as the first fiber of a live runtime. A signal that ends programs cancels it, once.
 * Returns what `fn` does, which should be of enum tool_exit. */
int tool_run(hd_fn *fn, void *arg);

/* Whether such a signal has come. */
bool tool_interrupted(void);

/* "heddle: " and a line on stderr. Returns `status`. */
int tool_complain(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Write what stdout holds back. What goes wrong is said when the tool ends, with another status. */
void tool_flush(void);

/* What makes a word stand for so many: "s" or "". */
const char *tool_plural(uint64_t count);

/* CPUs that this process may use. */
unsigned tool_cpus(void);

#endif
