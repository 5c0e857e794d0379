/* SPDX-License-Identifier: MIT
 *
 * program: the Heddle programs that the tool runs. No shell takes part.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <heddle.h>
#include <stdio.h>

enum { PROGRAM_SAID_MAX = 2048, PROGRAM_PATH_MAX = 4096 };

enum program_streams {
    PROGRAM_SHOWN,    /* ours */
    PROGRAM_SHOWN_2,  /* ours, but stdout goes to stderr too: stdout has JSON */
    PROGRAM_SILENT,   /* none */
    PROGRAM_GATHERED, /* none, but the end of its stderr is in `said` */
};

struct launch {
    char *const *argv;
    const char *dir;    /* where; NULL: here */
    const char *env[6]; /* "NAME=VALUE" to add, NULL */
    enum program_streams streams;
    void (*started)(pid_t pid); /* told when it runs; NULL */
};

struct ending {
    int status; /* as of waitpid(2) */
    char said[PROGRAM_SAID_MAX];
};

/* Run it and wait for it. The variables that this tool sets for programs are not passed on from our
 * environment.
 * Context: fiber.
 * Returns: 0; -ECANCELED, -ETIMEDOUT: it was killed, since a scope around ended; otherwise it
 * cannot be run. */
int program_run(const struct launch *launch, struct ending *ending);

/* Take the variables that are for programs out of our environment. */
void program_clear_environment(void);

/* "exit status 3", "Segmentation fault (signal 11)". */
const char *program_ending(const struct ending *ending, char *text, size_t size);

/* Say that it cannot be run. Returns TOOL_NO_PROGRAM. */
int program_refused(char *const *argv, int err);

/* Say that it ran, but did not do what Heddle programs do. Returns TOOL_NO_PROGRAM. */
int program_foreign(char *const *argv, const struct ending *ending);

/* Whether the file could be a Heddle program; true if that cannot be told. */
bool program_plausible(const char *path);

/* The last part of a path. */
const char *program_name(const char *path);

/* One word, as a shell reads it. */
void program_print_word(FILE *out, const char *text);

/* Variables and arguments as a shell reads them; to be freed. NULL for want of memory. */
char *program_command_text(const char *const *env, char *const *argv);

/* Whether something can be recorded there, which is better known before it is looked for; NULL is
 * fine. Returns 0, or TOOL_SYSTEM after saying why not. */
int program_check_output(const char *path);

/* Not a device, a folder, or missing. */
bool program_is_file(const char *path);

/* A whole small file, ended by 0; to be freed. NULL. */
char *program_slurp(const char *path);

/* ---- files that go when the tool ends ---- */

/* A path without blanks for a file of this name. Returns 0 or -errno. */
int scratch_path(char path[static PROGRAM_PATH_MAX], const char *name);

/* Move a log, and what is beside it (FILE.meta), to where the user wants it; what was there is
 * replaced. Returns 0 or -errno. */
int scratch_keep(const char *from, const char *to);

#endif
