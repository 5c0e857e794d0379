/* SPDX-License-Identifier: MIT
 *
 * json: writes one JSON value, for other programs to read. Keys are NULL inside arrays and for the
 * outermost value, which ends its line.
 */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    bool comma;
    bool exact; /* bytes that are no UTF-8 stay as they are, for json_read_list() alone */
    unsigned depth;
};

void json_open(struct json *json, const char *key, char bracket);
void json_close(struct json *json, char bracket);
void json_text(struct json *json, const char *key, const char *text); /* NULL is null */
void json_number(struct json *json, const char *key, uint64_t number);
void json_signed(struct json *json, const char *key, int64_t number);
void json_seconds(struct json *json, const char *key, int64_t ns);
void json_bool(struct json *json, const char *key, bool value);

/* A text that is a JSON object, as it is; anything else, NULL too, is null. */
void json_object(struct json *json, const char *key, const char *text);

/* A number, or such, that is the value of `key` at the outermost level of an object, as it is
 * written there. Returns false if there is none, or it is too long. */
bool json_read_word(const char *text, const char *key, char *word, size_t size);

/* A text there; to be freed. NULL if there is none. */
char *json_read_text(const char *text, const char *key);

/* The value of `key` at the outermost level of an object, a list of texts. NULL if there is
 * none, and if the text is no JSON. One block, ended by NULL, to be freed. */
char **json_read_list(const char *text, const char *key);

#endif
