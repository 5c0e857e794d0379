/* SPDX-License-Identifier: MIT */
#include "compare.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tool.h"

enum { CONTEXT = 5 }; /* events shown before, and of each side after */

/* The headers differ: the hashes say nothing, so look at each event. */
static int compare_each(struct comparison *c)
{
    hd_log_event a, b;
    int err = hd_log_seek(c->a, 1);
    if (!err) err = hd_log_seek(c->b, 1);
    if (err == -ERANGE) err = 0; /* One of them has none. */
    for (uint64_t sequence = 1; !err; sequence++) {
        const int got_a = hd_log_next(c->a, &a), got_b = hd_log_next(c->b, &b);
        if (got_a < 0 || got_b < 0) {
            err = got_a < 0 ? got_a : got_b;
        } else if (got_a != got_b || (got_a && !event_equal(&a, &b))) {
            c->sequence = sequence;
            return 0;
        } else if (!got_a) {
            return 0;
        }
    }
    return err;
}

int compare_logs(struct comparison *c, const char *path_a, const char *path_b)
{
    *c = (struct comparison){0};
    int status = event_open(&c->a, path_a);
    if (!status) status = event_open(&c->b, path_b);
    if (status) return status;
    uint64_t sequence = 0;
    int result = hd_log_compare(c->a, c->b, &sequence);
    if (result == 1) {
        c->sequence = sequence;
    } else if (result == 2) {
        c->headers = true;
        result = compare_each(c);
    }
    if (result < 0) {
        return tool_complain(TOOL_BAD_LOG, "cannot compare %s and %s: %s", path_a, path_b,
                             strerror(-result));
    }
    c->differ = c->headers || c->sequence;
    return 0;
}

void compare_end(struct comparison *c)
{
    if (c->a) hd_log_close(c->a);
    if (c->b) hd_log_close(c->b);
}

bool compare_is_cut(hd_log *log, uint64_t sequence)
{
    const hd_log_info *about = hd_log_about(log);
    return !about->complete && sequence == about->events + 1;
}

static void print_side(FILE *out, hd_log *log, uint64_t sequence, struct names *names, char mark)
{
    hd_log_event event;
    if (hd_log_seek(log, sequence) != 0) {
        fprintf(out, "%c it ends here\n", mark);
        return;
    }
    for (int i = 0; i < CONTEXT; i++) {
        if (hd_log_next(log, &event) != 1) {
            fprintf(out, "%c it ends here\n", mark);
            return;
        }
        names_learn(names, &event);
        fprintf(out, "%c ", mark);
        event_print(out, &event, names);
        fputc('\n', out);
    }
}

/* The words of a list that another one lacks. */
static void print_lacking(FILE *out, const char *list, const char *other)
{
    while (*list) {
        const size_t length = strcspn(list, " ");
        const char *at = other;
        while (*at && (strncmp(at, list, length) != 0 || strcspn(at, " ") != length)) {
            at += strcspn(at, " ");
            at += strspn(at, " ");
        }
        if (!*at) fprintf(out, " %.*s", (int)length, list);
        list += length;
        list += strspn(list, " ");
    }
}

static void print_headers(const struct comparison *c, FILE *out)
{
    const hd_log_info *a = hd_log_about(c->a), *b = hd_log_about(c->b);
    if (a->seed != b->seed) fprintf(out, "seed: %" PRIu64 " and %" PRIu64 "\n", a->seed, b->seed);
    if (strcmp(a->sampler, b->sampler) != 0) {
        fprintf(out, "sampler: %s and %s\n", *a->sampler ? a->sampler : "none",
                *b->sampler ? b->sampler : "none");
    }
    if (strcmp(a->options, b->options) != 0) {
        fputs("options:", out);
        print_lacking(out, a->options, b->options);
        fputs(" and", out);
        print_lacking(out, b->options, a->options);
        fputc('\n', out);
    }
    if (strcmp(a->program, b->program) != 0) {
        fprintf(out, "program: %s and %s\n", a->program, b->program);
    } else if (memcmp(a->identity, b->identity, sizeof(a->identity)) != 0) {
        fprintf(out, "program: %s, of two builds\n", a->program);
    }
    if (strcmp(a->library, b->library) != 0) {
        fprintf(out, "Heddle: %s and %s\n", a->library, b->library);
    }
}

void compare_print(const struct comparison *c, FILE *out, const char *path_a, const char *path_b)
{
    if (c->headers) {
        fprintf(out, "%s and %s were not recorded alike:\n", path_a, path_b);
        print_headers(c, out);
    }
    if (!c->sequence) {
        if (c->headers) fputs("their events are equal\n", out);
        return;
    }
    fprintf(out, "%s and %s part at event %" PRIu64 "\n", path_a, path_b, c->sequence);
    struct names names = {0};
    const uint64_t from = c->sequence > CONTEXT ? c->sequence - CONTEXT : 1;
    if (names_seek(&names, c->a, from) == 0) {
        hd_log_event event;
        for (uint64_t i = from; i < c->sequence && hd_log_next(c->a, &event) == 1; i++) {
            names_learn(&names, &event);
            fputs("  ", out);
            event_print(out, &event, &names);
            fputc('\n', out);
        }
    }
    /* Each side has its own spawns from here on. */
    print_side(out, c->a, c->sequence, &names, '<');
    names_free(&names);
    if (names_seek(&names, c->b, c->sequence) == 0) {
        print_side(out, c->b, c->sequence, &names, '>');
    } else {
        fputs("> it ends here\n", out);
    }
    names_free(&names);
}

static void json_side(struct json *json, const char *key, hd_log *log, uint64_t sequence)
{
    hd_log_event event;
    struct names names = {0};
    json_open(json, key, '[');
    if (names_seek(&names, log, sequence) == 0) {
        for (int i = 0; i < CONTEXT && hd_log_next(log, &event) == 1; i++) {
            names_learn(&names, &event);
            event_json(json, &event, &names);
        }
    }
    json_close(json, ']');
    names_free(&names);
}

void compare_json(const struct comparison *c, struct json *json)
{
    json_bool(json, "equal", !c->differ);
    json_bool(json, "headers_equal", !c->headers);
    if (!c->sequence) return;
    json_number(json, "first_difference", c->sequence);
    json_side(json, "a", c->a, c->sequence);
    json_side(json, "b", c->b, c->sequence);
}
