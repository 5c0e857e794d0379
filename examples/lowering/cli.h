/* SPDX-License-Identifier: MIT
 *
 * cli: the program, without its process.
 */
#ifndef LOWERING_CLI_H
#define LOWERING_CLI_H

#include <stdio.h>

/* Exit statuses. */
enum {
    CLI_OK,
    CLI_SOURCE, /* bad source */
    CLI_USAGE,  /* bad usage, or the file cannot be read */
    CLI_FAILED, /* the program failed while it ran, or its output could not be written */
};

/* `words` are the arguments without the program's name, and end with NULL. */
int cli(char **words, FILE *out, FILE *err);

#endif
