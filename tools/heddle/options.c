/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

enum { NAME_MAX_BYTES = 40, NAMES_MAX = 32 };

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Insertions, deletions, replacements and swaps of neighbours from a to b; what is longer than any
 * name counts as far away. */
static unsigned distance(const char *a, const char *b)
{
    unsigned rows[3][NAME_MAX_BYTES + 1];
    const size_t m = strlen(a), n = strlen(b);
    if (m > NAME_MAX_BYTES || n > NAME_MAX_BYTES) return NAME_MAX_BYTES;
    for (unsigned j = 0; j <= n; j++) rows[0][j] = j;
    for (unsigned i = 1; i <= m; i++) {
        unsigned *now = rows[i % 3];
        const unsigned *above = rows[(i - 1) % 3], *two_above = rows[(i + 1) % 3];
        now[0] = i;
        for (unsigned j = 1; j <= n; j++) {
            now[j] = least(least(above[j], now[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                now[j] = least(now[j], two_above[j - 2] + 1);
            }
        }
    }
    return rows[m % 3][n];
}

const char *options_nearest(const char *text, const char *const *names)
{
    const char *best = NULL;
    unsigned best_distance = 0;
    for (; *names; names++) {
        /* Who typed the beginning of a name means that one. */
        const bool begins = *text && !strncmp(*names, text, strlen(text));
        const unsigned d = begins ? 0 : distance(text, *names);
        if (!best || d < best_distance) {
            best = *names;
            best_distance = d;
        }
    }
    const size_t length = strlen(text);
    return best_distance <= (length < 6 ? 1 : length / 3) ? best : NULL;
}

bool options_number(const char *text, uint64_t *value)
{
    char *end;
    if (!isdigit((unsigned char)*text)) return false;
    errno = 0;
    const int base = text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10;
    const uint64_t number = strtoull(text, &end, base);
    if (errno || *end) return false;
    *value = number;
    return true;
}

bool options_time(const char *text, uint64_t *ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ns", 1},   {"us", 1e3},     {"ms", 1e6},       {"", 1e9},
                 {"s", 1e9},  {"m", 60 * 1e9}, {"h", 3600 * 1e9}};
    char *end;
    if (!isdigit((unsigned char)*text)) return false;
    const double number = strtod(text, &end);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(end, units[i].name) != 0) continue;
        const double exact = number * units[i].ns;
        if (!(exact < 9e18)) return false; /* nor what is no number */
        *ns = (uint64_t)exact;
        return true;
    }
    return false;
}

static bool parse_range(const char *text, struct range *range)
{
    char first[NAME_MAX_BYTES];
    const char *dots = strstr(text, "..");
    struct range found = {.first = 1, .set = true};
    if (dots) {
        const size_t length = (size_t)(dots - text);
        if (length >= sizeof(first)) return false;
        memcpy(first, text, length);
        first[length] = 0;
        if (!options_number(first, &found.first)) return false;
    }
    if (!options_number(dots ? dots + 2 : text, &found.last)) return false;
    if (found.last < found.first) return false;
    *range = found;
    return true;
}

/* What the value should be; `text` is what it is, and may be NULL. */
static const char *expected(enum option_kind kind, const char *text)
{
    const bool number = text && *text && text[strspn(text, "0123456789.")] == 0;
    switch (kind) {
    case OPTION_NUMBER: return number ? "a whole number below 2^64" : "a number";
    case OPTION_TIME:
        return number ? "a time of at most 2000000h" : "a time such as 10s, 500ms or 2m";
    case OPTION_RANGE:
        return number ? "a number from 1 on, or two in order as in 5..9, both below 2^64"
                      : "a number, or two as in 5..9";
    case OPTION_FLAG:
    case OPTION_TEXT: break;
    }
    return "a text";
}

static bool store(const struct option_spec *option, const char *text)
{
    struct number *number = option->to;
    switch (option->kind) {
    case OPTION_FLAG: break; /* has no value */
    case OPTION_TEXT: *(const char **)option->to = text; return *text != 0;
    case OPTION_RANGE: return parse_range(text, option->to);
    case OPTION_NUMBER: return number->set = options_number(text, &number->value);
    case OPTION_TIME: return number->set = options_time(text, &number->value);
    }
    return false;
}

static int unknown(const struct option_spec *options, const char *command, const char *name,
                   bool after_program)
{
    const char *names[NAMES_MAX] = {"help"};
    for (unsigned i = 0; options[i].name; i++) {
        names[i + 1] = options[i].name;
        names[i + 2] = NULL;
    }
    const char *nearest = options_nearest(name, names);
    fprintf(stderr, "heddle %s: there is no option --%s; ", command, name);
    if (nearest) fprintf(stderr, "did you mean --%s?", nearest);
    else fprintf(stderr, "see `heddle help %s`", command);
    fprintf(stderr, "%s\n", after_program ? " (Options of the program itself go after --.)" : "");
    return -1;
}

static const struct option_spec *find(const struct option_spec *options, const char *name,
                                      size_t length)
{
    for (; options->name; options++) {
        if (strlen(options->name) == length && !memcmp(options->name, name, length)) return options;
    }
    return NULL;
}

/* One option, at *at. Returns how many arguments it takes, or -1. */
static int parse_one(const struct option_spec *options, const char *command, char **at,
                     bool after_program)
{
    const char *name = at[0] + strspn(at[0], "-");
    const char *equals = strchr(name, '=');
    const size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const bool dashes = name - at[0] == 2;
    const struct option_spec *option = dashes ? find(options, name, length) : NULL;
    if (!option) {
        char bare[NAME_MAX_BYTES];
        snprintf(bare, sizeof(bare), "%.*s", (int)length, name);
        return unknown(options, command, bare, after_program);
    }
    if (option->kind == OPTION_FLAG && !equals) {
        *(bool *)option->to = true;
        return 1;
    }
    const char *text = equals ? equals + 1 : at[1];
    if (option->kind == OPTION_FLAG) {
        fprintf(stderr, "heddle %s: --%s takes no value\n", command, option->name);
    } else if (!text) {
        fprintf(stderr, "heddle %s: --%s wants %s\n", command, option->name,
                expected(option->kind, NULL));
    } else if (!store(option, text)) {
        fprintf(stderr, "heddle %s: --%s wants %s, not '%s'\n", command, option->name,
                expected(option->kind, text), text);
    } else {
        return equals ? 1 : 2;
    }
    return -1;
}

int options_parse(const struct option_spec *options, const char *command, char **argv,
                  struct arguments *arguments)
{
    /* Operands are gathered where options were: there is always room. */
    *arguments = (struct arguments){.operands = argv, .before = -1};
    while (*argv) {
        if (!strcmp(*argv, "--")) {
            arguments->before = arguments->count;
            while (*++argv) arguments->operands[arguments->count++] = *argv;
            break;
        }
        if (!strcmp(*argv, "--help") || !strcmp(*argv, "-h")) return 1;
        if (argv[0][0] == '-' && argv[0][1]) {
            const int taken = parse_one(options, command, argv, arguments->count > 0);
            if (taken < 0) return -1;
            argv += taken;
        } else {
            arguments->operands[arguments->count++] = *argv++;
        }
    }
    arguments->operands[arguments->count] = NULL;
    return 0;
}

int options_refuse(const char *command, const char *what)
{
    fprintf(stderr, "heddle %s: %s; see `heddle help %s`\n", command, what, command);
    return TOOL_USAGE;
}
