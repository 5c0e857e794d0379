/* SPDX-License-Identifier: MIT */
#include "source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_SHOWN_MAX = 100 }; /* bytes of a line in a report */

bool fault_set(struct fault *fault, uint32_t at, const char *format, ...)
{
    fault->at = at;
    va_list args;
    va_start(args, format);
    vsnprintf(fault->text, sizeof(fault->text), format, args);
    va_end(args);
    return false;
}

/* ---- reading ---- */

static int read_all(FILE *file, char *text, size_t *bytes)
{
    *bytes = fread(text, 1, SOURCE_BYTES_MAX + 1, file);
    if (ferror(file)) return errno ? -errno : -EIO;
    return *bytes > SOURCE_BYTES_MAX ? -EFBIG : 0;
}

int source_load(struct source *source, const char *name)
{
    const bool from_stdin = strcmp(name, "-") == 0;
    errno = 0;
    FILE *file = from_stdin ? stdin : fopen(name, "rbe");
    if (!file) return -errno;
    char *text = malloc(SOURCE_BYTES_MAX + 1);
    size_t bytes = 0;
    const int err = text ? read_all(file, text, &bytes) : -ENOMEM;
    if (!from_stdin) fclose(file);
    if (err) {
        free(text);
        return err;
    }
    *source = (struct source){from_stdin ? "<stdin>" : name, text, bytes};
    return 0;
}

void source_free(struct source *source)
{
    free((char *)source->text); /* source_load() made it. */
}

/* ---- reporting ---- */

static size_t line_start(const struct source *source, size_t at)
{
    while (at > 0 && source->text[at - 1] != '\n') at--;
    return at;
}

void source_place(const struct source *source, uint32_t at, unsigned *line, unsigned *column)
{
    *line = 1;
    for (size_t i = 0; i < at; i++) *line += source->text[i] == '\n';
    *column = (unsigned)(at - line_start(source, at)) + 1;
}

/* What a terminal shows in one cell, or as part of one, without acting on it. */
static char harmless(char c)
{
    const unsigned char byte = (unsigned char)c;
    return byte >= 0x20 && byte != 0x7f ? c : '?';
}

static bool begins_a_cell(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80; /* not the rest of a character in UTF-8 */
}

/* A long line is shown from shortly before the column. */
static void show_line(const struct source *source, size_t start, size_t at, FILE *out)
{
    size_t first = at - start < LINE_SHOWN_MAX ? start : at - LINE_SHOWN_MAX / 2;
    while (first < at && !begins_a_cell(source->text[first])) first++;
    fputs(first > start ? "    ..." : "    ", out);
    for (size_t i = first; i < source->bytes && i - first < LINE_SHOWN_MAX; i++) {
        const char c = source->text[i];
        if (c == '\n' || c == '\r') break;
        fputc(c == '\t' ? ' ' : harmless(c), out);
    }
    fputs(first > start ? "\n       " : "\n    ", out);
    for (size_t i = first; i < at; i++) {
        if (begins_a_cell(source->text[i])) fputc(' ', out);
    }
    fputs("^\n", out);
}

void source_report(const struct source *source, const struct fault *fault, FILE *out)
{
    unsigned line, column;
    source_place(source, fault->at, &line, &column);
    fprintf(out, "%s:%u:%u: error: %s\n", source->name, line, column, fault->text);
    show_line(source, line_start(source, fault->at), fault->at, out);
}
