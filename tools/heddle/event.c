/* SPDX-License-Identifier: MIT */
#include "event.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

struct task_name {
    uint64_t task;
    char *name;
};

/* ---- names ---- */

/* The first place whose task is not below this one. */
static size_t place(const struct names *names, uint64_t task)
{
    size_t low = 0, high = names->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (names->known[middle].task < task) low = middle + 1;
        else high = middle;
    }
    return low;
}

void names_learn(struct names *names, const hd_log_event *event)
{
    if (event->kind != HD_LOG_SPAWN || !event->text[0]) return;
    const size_t at = place(names, event->task);
    if (at < names->count && names->known[at].task == event->task) return;
    if (names->count == names->room) {
        const size_t room = names->room ? 2 * names->room : 64;
        struct task_name *more = reallocarray(names->known, room, sizeof(*more));
        if (!more) return; /* It is shown by its number. */
        names->known = more;
        names->room = room;
    }
    char *name = strdup(event->text);
    if (!name) return;
    memmove(names->known + at + 1, names->known + at, (names->count - at) * sizeof(*names->known));
    names->known[at] = (struct task_name){event->task, name};
    names->count++;
}

const char *names_find(const struct names *names, uint64_t task)
{
    const size_t at = place(names, task);
    return at < names->count && names->known[at].task == task ? names->known[at].name : "";
}

void names_free(struct names *names)
{
    for (size_t i = 0; i < names->count; i++) free(names->known[i].name);
    free(names->known);
    *names = (struct names){0};
}

int names_seek(struct names *names, hd_log *log, uint64_t sequence)
{
    hd_log_event event;
    int err = hd_log_seek(log, 1);
    for (uint64_t i = 1; i < sequence && !err; i++) {
        const int got = hd_log_next(log, &event);
        if (got == 1) names_learn(names, &event);
        else err = got < 0 ? got : -ERANGE;
    }
    return err;
}

/* ---- printing ---- */

static const char *touch_name(uint64_t kind)
{
    static const char *const texts[] = {"read", "write", "load", "update", "any"};
    return kind < sizeof(texts) / sizeof(texts[0]) ? texts[kind] : "?";
}

static void print_task(FILE *out, uint64_t task, const struct names *names)
{
    const char *name = names_find(names, task);
    fprintf(out, "%" PRIu64 "%s%s", task, *name ? " " : "", name);
}

static void print_details(FILE *out, const hd_log_event *e, const struct names *names)
{
    switch (e->kind) {
    case HD_LOG_CHOICE:
        if (!e->task) fprintf(out, "time passes");
        else fprintf(out, "goes on, of %" PRIu64 " that could%s", e->a,
                     e->b ? "; another is preempted" : "");
        return;
    case HD_LOG_DRAW: fprintf(out, "for %" PRIu64 ": %" PRIu64, e->a, e->b); return;
    case HD_LOG_FAULT: fprintf(out, "number %" PRIu64 ": %s", e->a, e->text); return;
    case HD_LOG_SPAWN:
        fputs("by ", out);
        if (e->a) print_task(out, e->a, names);
        else fputs("a thread", out);
        return;
    case HD_LOG_STEP:
        if (e->a) fprintf(out, "object %" PRIu64 ": %s", e->a, touch_name(e->b));
        return;
    case HD_LOG_WAIT:
        fputs(e->text, out);
        if (e->a) fprintf(out, "%sobject %" PRIu64, *e->text ? ", " : "", e->a);
        return;
    case HD_LOG_WAKE:
        fputs("by ", out);
        if (e->a) print_task(out, e->a, names);
        else fputs("time, I/O or a thread", out);
        return;
    case HD_LOG_END: fprintf(out, "result %" PRId64, (int64_t)e->a); return;
    case HD_LOG_VERDICT:
        fprintf(out, "%s%s%s", hd_verdict_name((hd_verdict)e->a), *e->text ? ": " : "", e->text);
        return;
    case HD_LOG_TIME:
    case HD_LOG_WARNING:
    case HD_LOG_NOTE:
    case HD_LOG_ASSERT: break;
    }
    fputs(e->text, out);
}

static const char *kind_name(hd_log_kind kind)
{
    const char *name = hd_log_kind_name(kind);
    return name ? name : "?";
}

void event_print(FILE *out, const hd_log_event *event, const struct names *names)
{
    char task[48] = "-";
    if (event->task) {
        const char *name = names_find(names, event->task);
        if (!*name && event->kind == HD_LOG_SPAWN) name = event->text;
        snprintf(task, sizeof(task), "%" PRIu64 " %s", event->task, name);
    }
    fprintf(out, "%8" PRIu64 " %8" PRIu64 " %16.9f  %-14s %s", event->sequence, event->step,
            (double)event->time_ns / 1e9, task, kind_name(event->kind));
    const bool bare = event->kind == HD_LOG_TIME || (event->kind == HD_LOG_STEP && !event->a);
    if (bare && !event->file) return;
    fprintf(out, "%*s", 9 - (int)strlen(kind_name(event->kind)), "");
    print_details(out, event, names);
    if (event->file) fprintf(out, "  %s:%d", event->file, event->line);
}

void event_json(struct json *json, const hd_log_event *event, const struct names *names)
{
    const char *name = names_find(names, event->task);
    json_open(json, NULL, '{');
    json_number(json, "sequence", event->sequence);
    json_number(json, "step", event->step);
    json_signed(json, "time_ns", event->time_ns);
    json_text(json, "kind", kind_name(event->kind));
    json_number(json, "task", event->task);
    if (*name) json_text(json, "name", name);
    json_number(json, "a", event->a);
    json_number(json, "b", event->b);
    if (event->text[0]) json_text(json, "text", event->text);
    if (event->file) {
        json_text(json, "file", event->file);
        json_signed(json, "line", event->line);
    }
    json_close(json, '}');
}

bool event_equal(const hd_log_event *a, const hd_log_event *b)
{
    if (a->step != b->step || a->time_ns != b->time_ns || a->kind != b->kind) return false;
    if (a->task != b->task || a->a != b->a || a->b != b->b || a->line != b->line) return false;
    if (strcmp(a->text, b->text) != 0) return false;
    return a->file && b->file ? !strcmp(a->file, b->file) : a->file == b->file;
}

/* ---- opening ---- */

int event_open(hd_log **log, const char *path)
{
    const int err = hd_log_open(log, path);
    switch (err) {
    case 0: return 0;
    case -EBADMSG:
        return tool_complain(TOOL_BAD_LOG, "%s is no log, or its header is damaged", path);
    case -ENOTSUP:
        return tool_complain(TOOL_BAD_LOG, "%s is of a later version of Heddle than %s", path,
                             hd_version());
    default: return tool_complain(TOOL_BAD_LOG, "cannot read %s: %s", path, strerror(-err));
    }
}
