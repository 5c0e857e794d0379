/* SPDX-License-Identifier: MIT
 *
 * The log is read twice: first for what decides how it looks (which tasks there are, and which took
 * part in preemptions), then line by line.
 *
 * A task has a column, as long as those fit; of too many, the ones that matter most for what
 * happened, and one column for the rest. Long runs of one task are folded, and of a log with many
 * steps only those are shown that are near its begin, its end or a preemption.
 */
#include "trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "event.h"

enum {
    GUTTER = 7,       /* "  12  " or ">>> " */
    COLUMN_MIN = 18,  /* below that, not all tasks have one */
    COLUMN_MAX = 36,
    RUN_SHOWN = 2,    /* steps of one task in a row, before they are folded */
    STEPS_SHOWN = 200, /* a log with more shows only those */
    NEAR = 8,         /* so near to a begin, an end or a preemption */
};

struct actor {
    uint64_t task;
    uint64_t guilty; /* preemptions it took part in */
    uint64_t last;   /* its last step */
    unsigned column; /* from 1; 0: among the rest */
    bool begun;
};

struct trace {
    FILE *out;
    hd_log *log;
    const char *crash;
    bool color;
    struct names names;
    struct actor *actors; /* by task */
    size_t actor_count, actor_room;
    uint64_t *guilty;     /* steps that preempted, or that time passed before */
    size_t guilty_count, guilty_room;
    uint64_t steps;
    char file[64];           /* the one that all places are in, unless there are more */
    bool files;              /* there are */
    unsigned columns, width; /* of a column */
    bool rest;               /* the last column is for those without */

    bool passes;             /* time has passed since the last event, though tasks were ready, */
    int64_t passed_ns;       /* from here on */
    size_t next_guilty;
    uint64_t hidden;         /* steps that were not shown */
    uint64_t running;        /* whose run this is */
    uint64_t in_run, folded; /* its steps so far, and those not shown */
    struct {
        uint64_t step;
        char text[128];
    } last[2];               /* of these */
    bool out_of_memory;
};

/* ---- tasks ---- */

static struct actor *find(struct trace *t, uint64_t task)
{
    size_t low = 0, high = t->actor_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (t->actors[middle].task < task) low = middle + 1;
        else high = middle;
    }
    return low < t->actor_count && t->actors[low].task == task ? &t->actors[low] : NULL;
}

/* Room for one more. Returns false, and remembers that, if there is none. */
static bool grow(struct trace *t, void **list, size_t count, size_t *room, size_t bytes)
{
    if (count < *room) return true;
    const size_t more = *room ? 2 * *room : 64;
    void *grown = reallocarray(*list, more, bytes);
    t->out_of_memory |= !grown;
    if (!grown) return false;
    *list = grown;
    *room = more;
    return true;
}

/* In the order of their numbers, which is nearly the one they come in. */
static void meet(struct trace *t, uint64_t task)
{
    if (task == 0 || find(t, task)) return;
    if (!grow(t, (void **)&t->actors, t->actor_count, &t->actor_room, sizeof(*t->actors))) return;
    size_t at = t->actor_count++;
    for (; at > 0 && t->actors[at - 1].task > task; at--) t->actors[at] = t->actors[at - 1];
    t->actors[at] = (struct actor){.task = task};
}

/* ---- the first time ---- */

static void note_step(struct trace *t, const hd_log_event *e, uint64_t before, bool preempts)
{
    struct actor *actor = find(t, e->task), *other = find(t, before);
    t->steps = e->step;
    if (actor) actor->last = e->step;
    if (!preempts && !t->passes) return;
    t->passes = false;
    if (actor) actor->guilty++;
    if (other && preempts) other->guilty++;
    if (!grow(t, (void **)&t->guilty, t->guilty_count, &t->guilty_room, sizeof(*t->guilty))) return;
    t->guilty[t->guilty_count++] = e->step;
}

static void note_file(struct trace *t, const char *file)
{
    if (!file) return;
    if (!t->file[0]) snprintf(t->file, sizeof(t->file), "%s", file);
    else if (strcmp(t->file, file) != 0) t->files = true;
}

/* Time passes, though tasks are ready. */
static bool is_pass(const hd_log_event *e)
{
    return e->kind == HD_LOG_CHOICE && e->task == 0;
}

static int survey(struct trace *t)
{
    hd_log_event e;
    uint64_t before = 0;
    bool preempts = false;
    int got = hd_log_seek(t->log, 1);
    while (got >= 0 && (got = hd_log_next(t->log, &e)) == 1) {
        names_learn(&t->names, &e);
        if (e.kind == HD_LOG_SPAWN || e.kind == HD_LOG_STEP) meet(t, e.task);
        if (e.kind == HD_LOG_CHOICE) preempts = e.b != 0;
        if (is_pass(&e)) t->passes = true;
        if (e.kind != HD_LOG_STEP) continue;
        note_file(t, e.file);
        note_step(t, &e, before, preempts);
        before = e.task;
        preempts = false;
    }
    return t->out_of_memory ? -ENOMEM : got;
}

/* Whether a matters more: it took part in preemptions, or else it ran later. */
static bool matters_more(const struct actor *a, const struct actor *b)
{
    if (!a->guilty != !b->guilty) return a->guilty != 0;
    if (a->last != b->last) return a->last > b->last;
    return a->task < b->task;
}

/* Those that matter most have columns, in the order of their numbers. */
static void choose_columns(struct trace *t, unsigned most)
{
    for (unsigned n = 0; n < most; n++) {
        struct actor *best = NULL;
        for (size_t i = 0; i < t->actor_count; i++) {
            struct actor *actor = &t->actors[i];
            if (!actor->column && (!best || matters_more(actor, best))) best = actor;
        }
        if (best) best->column = 1;
    }
    unsigned column = 0;
    for (size_t i = 0; i < t->actor_count; i++) {
        if (t->actors[i].column) t->actors[i].column = ++column;
    }
}

static void lay_out(struct trace *t, int columns)
{
    const unsigned room = columns > GUTTER + COLUMN_MIN ? (unsigned)columns - GUTTER : COLUMN_MIN;
    const unsigned most = room / COLUMN_MIN;
    t->rest = t->actor_count > most;
    choose_columns(t, t->rest ? most - 1 : (unsigned)t->actor_count);
    t->columns = t->rest ? most : (unsigned)t->actor_count;
    t->width = t->columns ? room / t->columns : room;
    if (t->width > COLUMN_MAX) t->width = COLUMN_MAX;
}

/* ---- lines ---- */

static void paint(struct trace *t, const char *code)
{
    if (t->color) fprintf(t->out, "\033[%sm", code);
}

/* A line across all columns. */
static void __attribute__((format(printf, 4, 5)))
across(struct trace *t, const char *mark, const char *code, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    paint(t, code);
    fprintf(t->out, "%-*s", GUTTER, mark);
    vfprintf(t->out, format, list);
    paint(t, "0");
    fputc('\n', t->out);
    va_end(list);
}

static const char *title(const struct trace *t, uint64_t task, char *text, size_t size)
{
    const char *name = names_find(&t->names, task);
    snprintf(text, size, "%" PRIu64 "%s%s", task, *name ? " " : "", name);
    return text;
}

/* A line in the column of a task; step 0: it has no number. */
static void cell(struct trace *t, uint64_t step, uint64_t task, const char *text)
{
    char whole[192];
    const struct actor *actor = find(t, task);
    unsigned column = actor ? actor->column : 0;
    if (column == 0) {
        char who[64];
        column = t->columns;
        snprintf(whole, sizeof(whole), "%s: %s", title(t, task, who, sizeof(who)), text);
        text = whole;
    }
    char number[24] = "";
    if (step) snprintf(number, sizeof(number), "%*" PRIu64, GUTTER - 2, step);
    fprintf(t->out, "%-*s", GUTTER, number);
    /* Columns to the right have nothing in this line. */
    const size_t begin = (column - 1) * t->width, room = t->columns * t->width - begin;
    const size_t length = strlen(text);
    fprintf(t->out, "%*s%.*s%s\n", (int)begin, "", (int)(length <= room ? length : room - 2), text,
            length <= room ? "" : "..");
}

static void print_titles(struct trace *t)
{
    char text[64];
    int pad = GUTTER - (int)strlen(" step");
    if (t->file[0] && !t->files) fprintf(t->out, "Lines are those of %s.\n\n", t->file);
    fputs(" step", t->out);
    for (size_t i = 0; i < t->actor_count; i++) {
        if (!t->actors[i].column) continue;
        title(t, t->actors[i].task, text, sizeof(text));
        const int length = fprintf(t->out, "%*s%.*s", pad, "", (int)t->width - 1, text) - pad;
        pad = (int)t->width - length;
    }
    fprintf(t->out, "%*s\n", t->rest ? pad + (int)strlen("others") : 0, t->rest ? "others" : "");
    for (unsigned i = 0; i < GUTTER + t->columns * t->width - 1; i++) fputc('-', t->out);
    fputc('\n', t->out);
}

/* ---- folding ---- */

/* The run is over: its last step is shown, and how many before it are not. */
static void end_run(struct trace *t)
{
    char text[64];
    if (t->folded > 2) { /* One alone takes no more room than saying so. */
        snprintf(text, sizeof(text), "... %" PRIu64 " more steps", t->folded - 1);
        cell(t, 0, t->running, text);
    }
    if (t->folded == 2) cell(t, t->last[1].step, t->running, t->last[1].text);
    if (t->folded > 0) cell(t, t->last[0].step, t->running, t->last[0].text);
    t->in_run = t->folded = 0;
}

/* What was left out so far is said, before something is shown. */
static void end_gap(struct trace *t)
{
    if (t->hidden) across(t, "", "2", "... %" PRIu64 " more steps ...", t->hidden);
    t->hidden = 0;
}

/* Whether it is near something that matters. */
static bool is_shown(struct trace *t, uint64_t step)
{
    if (t->steps <= STEPS_SHOWN || step <= NEAR || step + NEAR > t->steps) return true;
    while (t->next_guilty < t->guilty_count && t->guilty[t->next_guilty] + NEAR < step) {
        t->next_guilty++;
    }
    return t->next_guilty < t->guilty_count && t->guilty[t->next_guilty] < step + NEAR;
}

/* ---- the second time ---- */

static void describe_step(const struct trace *t, const hd_log_event *e, bool begins, char *text,
                          size_t size)
{
    static const char *const touches[] = {"read", "write", "load", "update", "any"};
    int length = 0;
    if (e->file) {
        length = snprintf(text, size, "%s:%d%s", t->files ? e->file : "", e->line, e->a ? " " : "");
    }
    const size_t used = (size_t)length < size ? (size_t)length : size - 1;
    const char *touch = e->b < sizeof(touches) / sizeof(touches[0]) ? touches[e->b] : "?";
    if (e->a) snprintf(text + used, size - used, "%s #%" PRIu64, touch, e->a);
    else if (!e->file) snprintf(text, size, "%s", begins ? "begins" : "goes on");
}

static void print_switch(struct trace *t, uint64_t from, uint64_t to)
{
    char before[64], after[64];
    across(t, ">>>", "31;1", "%s could go on, but %s does", title(t, from, before, sizeof(before)),
           title(t, to, after, sizeof(after)));
}

/* What comes next tells how long it was. */
static void print_pass(struct trace *t, const hd_log_event *next)
{
    if (!t->passes) return;
    t->passes = false;
    if (!is_shown(t, next->step)) return;
    end_run(t);
    end_gap(t);
    across(t, ">>>", "31;1", "time passes: %.3f ms", (double)(next->time_ns - t->passed_ns) / 1e6);
}

static void print_step(struct trace *t, const hd_log_event *e, bool preempts)
{
    char text[sizeof(t->last[0].text)];
    struct actor *actor = find(t, e->task);
    const uint64_t before = t->running;
    if (e->task != before || preempts) end_run(t);
    describe_step(t, e, actor && !actor->begun, text, sizeof(text));
    if (actor) actor->begun = true;
    t->running = e->task;
    if (preempts) print_switch(t, before, e->task);
    if (++t->in_run <= RUN_SHOWN) {
        cell(t, e->step, e->task, text);
        return;
    }
    t->folded++;
    t->last[1] = t->last[0];
    t->last[0].step = e->step;
    memcpy(t->last[0].text, text, sizeof(text));
}

static void print_wait(struct trace *t, const hd_log_event *e)
{
    char text[128];
    const bool plain = !strncmp(e->text, "wait ", strlen("wait ")); /* not "waits to wait" */
    int length = snprintf(text, sizeof(text), "waits%s%s", plain || !*e->text ? "" : " to ",
                          plain ? e->text + strlen("wait") : e->text);
    if (length >= (int)sizeof(text)) length = (int)sizeof(text) - 1;
    if (e->a) snprintf(text + length, sizeof(text) - (size_t)length, " #%" PRIu64, e->a);
    cell(t, 0, e->task, text);
}

static void print_cause(struct trace *t, const hd_log_event *e)
{
    char text[128], who[64];
    if (e->kind == HD_LOG_SPAWN) {
        snprintf(text, sizeof(text), "-> starts %s", title(t, e->task, who, sizeof(who)));
        cell(t, 0, e->a, text);
        return;
    }
    snprintf(text, sizeof(text), "<- woken%s%s", e->a ? " by " : "",
             e->a ? title(t, e->a, who, sizeof(who)) : "");
    cell(t, 0, e->task, text);
}

static void print_end(struct trace *t, const hd_log_event *e)
{
    char text[64];
    if (e->a) snprintf(text, sizeof(text), "ends: %" PRId64, (int64_t)e->a);
    cell(t, 0, e->task, e->a ? text : "ends");
}

static void print_assert(struct trace *t, const hd_log_event *e)
{
    char text[192];
    snprintf(text, sizeof(text), "!! %s", e->text);
    paint(t, "31;1");
    cell(t, 0, e->task, text);
    paint(t, "0");
}

static void print_verdict(struct trace *t, const hd_log_event *e)
{
    end_gap(t);
    fputc('\n', t->out);
    paint(t, e->a ? "31;1" : "0");
    fprintf(t->out, "%s%s%s", hd_verdict_name((hd_verdict)e->a), *e->text ? ": " : "", e->text);
    paint(t, "0");
    fputc('\n', t->out);
}

/* What is no step and no choice. */
static void print_other(struct trace *t, const hd_log_event *e)
{
    end_run(t);
    switch (e->kind) {
    case HD_LOG_FAULT: across(t, "!!!", "33;1", "fault %" PRIu64 ": %s", e->a, e->text); return;
    case HD_LOG_SPAWN:
    case HD_LOG_WAKE: print_cause(t, e); return;
    case HD_LOG_WAIT: print_wait(t, e); return;
    case HD_LOG_END: print_end(t, e); return;
    case HD_LOG_TIME: across(t, "", "2", "... until %.9f s", (double)e->time_ns / 1e9); return;
    case HD_LOG_WARNING: across(t, "", "33", "warning: %s", e->text); return;
    case HD_LOG_NOTE: cell(t, 0, e->task, e->text); return;
    case HD_LOG_ASSERT: print_assert(t, e); return;
    case HD_LOG_VERDICT: print_verdict(t, e); return;
    case HD_LOG_CHOICE:
    case HD_LOG_DRAW:
    case HD_LOG_STEP: return;
    }
}

static void skip_step(struct trace *t, const hd_log_event *e)
{
    struct actor *actor = find(t, e->task);
    if (actor) actor->begun = true;
    t->running = e->task;
    t->hidden++;
}

/* Nobody made it; or who runs had to wait for time or I/O, and nobody else ran meanwhile. */
static bool is_dull(const struct trace *t, const hd_log_event *e)
{
    if (e->kind == HD_LOG_SPAWN) return e->a == 0;
    return e->kind == HD_LOG_WAKE && e->a == 0 && e->task == t->running;
}

static void print_event(struct trace *t, const hd_log_event *e, bool *preempts)
{
    const bool ends = e->kind == HD_LOG_ASSERT || e->kind == HD_LOG_VERDICT;
    print_pass(t, e);
    if (e->kind == HD_LOG_CHOICE) *preempts = e->b != 0;
    if (is_pass(e)) {
        t->passes = true;
        t->passed_ns = e->time_ns;
    }
    if (e->kind == HD_LOG_CHOICE || e->kind == HD_LOG_DRAW || is_dull(t, e)) return;
    if (!ends && e->kind != HD_LOG_FAULT && !is_shown(t, e->step)) {
        end_run(t);
        if (e->kind == HD_LOG_STEP) skip_step(t, e);
        return;
    }
    end_gap(t);
    if (e->kind != HD_LOG_STEP) {
        print_other(t, e);
        return;
    }
    print_step(t, e, *preempts);
    *preempts = false;
}

static int print_all(struct trace *t)
{
    hd_log_event e;
    bool preempts = false;
    int got = hd_log_seek(t->log, 1);
    t->passes = false;
    print_titles(t);
    while (got >= 0 && (got = hd_log_next(t->log, &e)) == 1) print_event(t, &e, &preempts);
    end_run(t);
    end_gap(t);
    if (hd_log_about(t->log)->complete) return got;
    if (t->crash) {
        fputc('\n', t->out);
        paint(t, "31;1");
        fprintf(t->out, "ends with the crash of the program: %s", t->crash);
        paint(t, "0");
        fputc('\n', t->out);
    } else {
        fputs("\nThe log was cut here.\n", t->out);
    }
    return got;
}

int trace_print(FILE *out, hd_log *log, const char *crash, int columns, bool color)
{
    struct trace trace = {.out = out, .log = log, .crash = crash, .color = color};
    int got = hd_log_about(log)->events ? survey(&trace) : 0;
    if (got == 0 && trace.actor_count > 0) {
        lay_out(&trace, columns);
        got = print_all(&trace);
    }
    names_free(&trace.names);
    free(trace.actors);
    free(trace.guilty);
    return got;
}

int trace_show(hd_log *log, const char *crash)
{
    struct winsize size;
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    const bool color = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
    return trace_print(stdout, log, crash, known ? size.ws_col : 100, color);
}
