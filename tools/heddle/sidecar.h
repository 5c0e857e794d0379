/* SPDX-License-Identifier: MIT
 *
 * sidecar: FILE.meta, beside a log: which program it is of, where that ran, and how it died if it
 * did. A program that dies cannot end its log; who waited for it can say why there is no end.
 */
#ifndef SIDECAR_H
#define SIDECAR_H

#include <heddle.h>

#include "program.h"

/* ---- the program ---- */

struct origin {
    char **argv;
    const char *dir; /* where to run it; NULL: here */
    char **owned_argv;
    char *owned_dir;
};

/* The program of a log: the one that was given, or the one that FILE.meta names. That runs where it
 * ran, unless it is called by a relative path that leads to a program from here, too. Returns 0, or
 * TOOL_NO_PROGRAM after saying that neither is known. sidecar_forget() is due either way. */
int sidecar_program(struct origin *origin, const char *log, char **given);
void sidecar_forget(struct origin *origin);

/* Say that it cannot be run, and how to name another. Returns TOOL_NO_PROGRAM. */
int sidecar_refused(const struct origin *origin, int err);

/* Put the program, its arguments and where it ran (NULL: here) into FILE.meta, unless they are
 * there; and how it ended, if that is not NULL and the log has no end. */
void sidecar_sign(const char *log, char *const *argv, const char *dir,
                  const struct ending *ending);

/* ---- how a log ends ---- */

struct log_end {
    const char *damage;   /* what is wrong with it; the log's own text; NULL: nothing */
    bool died;            /* it has no end since its program died, */
    struct ending ending; /* like this, */
    char how[80];         /* in words */
};

void sidecar_look(struct log_end *end, hd_log *log, const char *path);

/* Say on stderr what is damaged, if anything is. Returns 0 or TOOL_BAD_LOG. */
int sidecar_warn(hd_log *log, const char *path);

#endif
