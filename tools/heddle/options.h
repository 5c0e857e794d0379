/* SPDX-License-Identifier: MIT
 *
 * options: the arguments of a command. Options may stand anywhere before "--", and each value is
 * checked; what is wrong is said with the nearest that would be right.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
    OPTION_FLAG,   /* bool */
    OPTION_TEXT,   /* const char * */
    OPTION_NUMBER, /* struct number */
    OPTION_TIME,   /* struct number, of nanoseconds: 1.5s, 20ms, 2m; a plain number is of seconds */
    OPTION_RANGE,  /* struct range: 100 for 1..100, or 5..9 */
};

struct number {
    uint64_t value;
    bool set;
};

struct range {
    uint64_t first, last;
    bool set;
};

struct option_spec {
    const char *name;  /* without dashes; the last of a table has none */
    const char *value; /* what stands for it in the help; NULL for flags */
    const char *help;
    enum option_kind kind;
    void *to;
};

/* What is left of a command line. */
struct arguments {
    char **operands; /* ends with NULL */
    int count;
    int before; /* how many of them stood before "--"; -1: there was none */
};

/* Take the options out of argv, which starts after the command's name. Returns: 0; 1 if help is
 * asked for; -1 after an error that was said. */
int options_parse(const struct option_spec *options, const char *command, char **argv,
                  struct arguments *arguments);

/* How many operands there are is wrong: say so. Returns TOOL_USAGE. */
int options_refuse(const char *command, const char *what);

/* The name in the list, which ends with NULL, that takes the fewest changes to get to; NULL if all
 * take more than a third of the text. */
const char *options_nearest(const char *text, const char *const *names);

/* Text as a number, decimal or 0x; as a time in nanoseconds. */
bool options_number(const char *text, uint64_t *value);
bool options_time(const char *text, uint64_t *ns);

#endif
