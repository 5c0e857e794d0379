/* SPDX-License-Identifier: MIT
 *
 * source: the text of a program, what it may be at most, and faults that point into it.
 */
#ifndef LOWERING_SOURCE_H
#define LOWERING_SOURCE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The limits of a program. Each is checked, and each fault says how to go on. */
enum {
    SOURCE_BYTES_MAX = 64 * 1024,
    NAME_BYTES_MAX = 64,
    TEXT_BYTES_MAX = 120, /* one string */
    DEPTH_MAX = 64,       /* blocks, parentheses and signs around each other */
    ARGUMENTS_MAX = 8,    /* of one call or print */
    VALUES_MAX = 4096,    /* results of all opcodes, and what blocks capture */
};

/* Not terminated by a zero; only source_load() and source_free() own the text. */
struct source {
    const char *name; /* for messages */
    const char *text;
    size_t bytes;
};

/* What is wrong, where, and what to do about it. */
struct fault {
    uint32_t at; /* byte of the source */
    char text[256];
};

/* Describe a fault. Returns false, so that a function can end with it. */
bool fault_set(struct fault *fault, uint32_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Read a file, or standard input if its name is "-".
 * Returns: 0; -EFBIG over SOURCE_BYTES_MAX, -ENOMEM, or why it cannot be read. */
int source_load(struct source *source, const char *name);
void source_free(struct source *source);

/* Where a byte is, counted from 1; columns are bytes. */
void source_place(const struct source *source, uint32_t at, unsigned *line, unsigned *column);

/* Write "name:line:column: error: text", the line, and a caret below the column. */
void source_report(const struct source *source, const struct fault *fault, FILE *out);

#endif
