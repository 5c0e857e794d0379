/* SPDX-License-Identifier: MIT */
#include "json.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */

/* Bytes of the character at `at`, which is not below 0x80; 0 if it is none of UTF-8. */
static unsigned utf8(const unsigned char *at)
{
    const unsigned more = at[0] >= 0xf0 ? 3 : at[0] >= 0xe0 ? 2 : 1;
    if (at[0] < 0xc2 || at[0] > 0xf4) return 0;
    for (unsigned i = 1; i <= more; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0;
    }
    /* No longer than it need be, no half of a pair, not too high. */
    if (at[0] == 0xe0 && at[1] < 0xa0) return 0;
    if (at[0] == 0xed && at[1] > 0x9f) return 0;
    if (at[0] == 0xf0 && at[1] < 0x90) return 0;
    return at[0] == 0xf4 && at[1] > 0x8f ? 0 : more + 1;
}

/* File names may be anything; JSON may not. */
static void quoted(FILE *out, const char *text, bool exact)
{
    fputc('"', out);
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        const unsigned length = *at < 0x80 ? 1 : utf8(at);
        if (*at == '"' || *at == '\\') fprintf(out, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7f) fprintf(out, "\\u%04x", *at);
        else if (length == 0 && !exact) fputs("\\ufffd", out);
        else fputc(*at, out);
        for (unsigned i = 1; i < length; i++) fputc(*++at, out);
    }
    fputc('"', out);
}

static void begin(struct json *json, const char *key)
{
    if (json->comma) fputc(',', json->out);
    json->comma = true;
    if (!key) return;
    quoted(json->out, key, false);
    fputc(':', json->out);
}

void json_open(struct json *json, const char *key, char bracket)
{
    begin(json, key);
    fputc(bracket, json->out);
    json->comma = false;
    json->depth++;
}

void json_close(struct json *json, char bracket)
{
    fputc(bracket, json->out);
    json->comma = true;
    if (--json->depth == 0) {
        fputc('\n', json->out);
        json->comma = false;
    }
}

void json_text(struct json *json, const char *key, const char *text)
{
    begin(json, key);
    if (text) quoted(json->out, text, json->exact);
    else fputs("null", json->out);
}

void json_number(struct json *json, const char *key, uint64_t number)
{
    begin(json, key);
    fprintf(json->out, "%" PRIu64, number);
}

void json_signed(struct json *json, const char *key, int64_t number)
{
    begin(json, key);
    fprintf(json->out, "%" PRId64, number);
}

void json_seconds(struct json *json, const char *key, int64_t ns)
{
    begin(json, key);
    fprintf(json->out, "%.6f", (double)ns / 1e9);
}

void json_bool(struct json *json, const char *key, bool value)
{
    begin(json, key);
    fputs(value ? "true" : "false", json->out);
}

/* ---- reading ---- */

static const char *blanks(const char *at)
{
    while (isspace((unsigned char)*at)) at++;
    return at;
}

static unsigned hex(const char *at)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        if (!isxdigit((unsigned char)at[i])) return 0;
        value = value * 16 + (unsigned)(isdigit((unsigned char)at[i]) ? at[i] - '0'
                                                                   : (at[i] | 32) - 'a' + 10);
    }
    return value;
}

/* The character after a backslash at *at, which moves to its last byte; 0 if there is none. Of \u
 * only what is below 0x80 is known: no other has to be written so. */
static char unescape(const char **at)
{
    static const char names[] = "ntrbf\"\\/", values[] = "\n\t\r\b\f\"\\/";
    const char *c = ++*at;
    if (*c == 'u') {
        const unsigned value = hex(c + 1);
        *at += 4;
        return value <= 0x7f ? (char)value : 0;
    }
    const char *name = *c ? strchr(names, *c) : NULL;
    return name ? values[name - names] : 0;
}

/* A text at its first quote, to *to if that is not NULL, which has room for as many bytes as are
 * read. Returns what follows it; NULL if it is none. */
static const char *read_text(const char *at, char **to)
{
    if (*at++ != '"') return NULL;
    for (; *at != '"'; at++) {
        const char c = *at == '\\' ? unescape(&at) : *at;
        if (!c) return NULL;
        if (to) *(*to)++ = c;
    }
    if (to) *(*to)++ = 0;
    return at + 1;
}

/* What follows a value of any kind; NULL if there is none. */
static const char *skip_value(const char *at)
{
    unsigned depth = 0;
    do {
        at = blanks(at);
        if (*at == '"') {
            at = read_text(at, NULL);
            if (!at) return NULL;
        } else if (*at == '{' || *at == '[') {
            depth++;
            at++;
        } else if (*at == '}' || *at == ']') {
            if (depth-- == 0) return NULL;
            at++;
        } else if (*at == ',' || *at == ':') {
            if (depth == 0) return NULL;
            at++;
        } else {
            const size_t length = strcspn(at, " \t\r\n,:]}\"{[");
            if (length == 0) return NULL;
            at += length;
        }
    } while (depth > 0);
    return at;
}

/* Where the value of `key` begins; NULL. */
static const char *find_value(const char *at, const char *key)
{
    at = blanks(at);
    if (*at++ != '{') return NULL;
    for (;;) {
        at = blanks(at);
        const char *name = at;
        const char *after = read_text(at, NULL);
        if (!after) return NULL;
        const bool found = (size_t)(after - name) == strlen(key) + 2 &&
                           !memcmp(name + 1, key, strlen(key));
        at = blanks(after);
        if (*at++ != ':') return NULL;
        at = blanks(at);
        if (found) return at;
        at = skip_value(at);
        if (!at) return NULL;
        at = blanks(at);
        if (*at++ != ',') return NULL;
    }
}

void json_object(struct json *json, const char *key, const char *text)
{
    const char *at = text ? blanks(text) : NULL;
    const char *end = at && *at == '{' ? skip_value(at) : NULL;
    begin(json, key);
    if (end) fprintf(json->out, "%.*s", (int)(end - at), at);
    else fputs("null", json->out);
}

bool json_read_word(const char *text, const char *key, char *word, size_t size)
{
    const char *at = find_value(text, key);
    const size_t length = at ? strcspn(at, " \t\r\n,:]}\"{[") : 0;
    if (length == 0 || length >= size) return false;
    memcpy(word, at, length);
    word[length] = 0;
    return true;
}

char *json_read_text(const char *text, const char *key)
{
    const char *at = find_value(text, key);
    char *found = at ? malloc(strlen(at) + 1) : NULL;
    char *to = found;
    if (found && read_text(at, &to)) return found;
    free(found);
    return NULL;
}

char **json_read_list(const char *text, const char *key)
{
    const char *at = find_value(text, key);
    if (!at || *at++ != '[') return NULL;
    /* Each item takes at least three bytes of text: so many pointers, and their bytes, suffice. */
    const size_t bytes = strlen(at);
    char **list = malloc((bytes / 3 + 2) * sizeof(*list) + bytes + 1);
    if (!list) return NULL;
    char *to = (char *)(list + bytes / 3 + 2);
    size_t count = 0;
    for (at = blanks(at); *at != ']';) {
        list[count++] = to;
        at = read_text(at, &to);
        if (!at) break;
        at = blanks(at);
        if (*at == ',') at = blanks(at + 1);
        else if (*at != ']') at = NULL;
        if (!at) break;
    }
    if (!at) {
        free(list);
        return NULL;
    }
    list[count] = NULL;
    return list;
}
