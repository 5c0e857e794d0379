/* SPDX-License-Identifier: MIT
 *
 * logs: the commands that only read logs: show, diff, verify.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "event.h"
#include "sidecar.h"
#include "tool.h"
#include "trace.h"

/* ---- show ---- */

static struct {
    const char *task, *kind;
    struct number object, from, to;
    bool trace, json;
} showing;

static const struct option_spec show_options[] = {
    {"task", "N|NAME", "only events of this task, by number or name", OPTION_TEXT, &showing.task},
    {"object", "N", "only events that touch this channel, lock, variable ...", OPTION_NUMBER,
     &showing.object},
    {"from", "TIME", "from this virtual time on", OPTION_TIME, &showing.from},
    {"to", "TIME", "up to this virtual time", OPTION_TIME, &showing.to},
    {"kind", "KIND", "only events of this kind: choice, spawn, wait ...", OPTION_TEXT,
     &showing.kind},
    {"trace", NULL, "side by side, a column for each task", OPTION_FLAG, &showing.trace},
    {"json", NULL, "one JSON object a line", OPTION_FLAG, &showing.json},
    {0},
};

/* The kind of this name; 0 after saying that there is none. */
static hd_log_kind kind_named(const char *name)
{
    enum { KINDS_MAX = 64 };
    const char *names[KINDS_MAX + 1] = {NULL};
    unsigned count = 0;
    for (unsigned kind = 1; kind < KINDS_MAX; kind++) {
        const char *known = hd_log_kind_name((hd_log_kind)kind);
        if (!known) continue;
        if (!strcmp(known, name)) return (hd_log_kind)kind;
        names[count++] = known;
    }
    const char *nearest = options_nearest(name, names);
    fprintf(stderr, "heddle show: there is no kind '%s'; ", name);
    if (nearest) {
        fprintf(stderr, "did you mean '%s'?\n", nearest);
    } else {
        fputs("there are", stderr);
        for (unsigned i = 0; i < count; i++) fprintf(stderr, "%s %s", i ? "," : "", names[i]);
        fputc('\n', stderr);
    }
    return (hd_log_kind)0;
}

static bool is_task(uint64_t task, const struct names *names)
{
    uint64_t number;
    if (options_number(showing.task, &number)) return task == number;
    return task && !strcmp(names_find(names, task), showing.task);
}

/* An event belongs to the task that it is about, and to the one that made it happen. */
static bool wanted(const hd_log_event *e, hd_log_kind kind, const struct names *names)
{
    const bool has_cause = e->kind == HD_LOG_SPAWN || e->kind == HD_LOG_WAKE;
    const bool has_object = e->kind == HD_LOG_STEP || e->kind == HD_LOG_WAIT;
    if (kind && e->kind != kind) return false;
    if (showing.object.set && !(has_object && e->a == showing.object.value)) return false;
    if (showing.from.set && e->time_ns < (int64_t)showing.from.value) return false;
    if (showing.to.set && e->time_ns > (int64_t)showing.to.value) return false;
    return !showing.task || is_task(e->task, names) || (has_cause && is_task(e->a, names));
}

static int show_events(hd_log *log, const char *path, hd_log_kind kind)
{
    struct names names = {0};
    struct json json = {.out = stdout};
    hd_log_event event;
    bool any = false;
    int got;
    while ((got = hd_log_next(log, &event)) == 1) {
        if (ferror(stdout)) {
            tool_flush(); /* while errno says why */
            break;
        }
        names_learn(&names, &event);
        if (!wanted(&event, kind, &names)) continue;
        any = true;
        if (showing.json) {
            event_json(&json, &event, &names);
        } else {
            event_print(stdout, &event, &names);
            putchar('\n');
        }
    }
    names_free(&names);
    if (got < 0) return tool_complain(TOOL_BAD_LOG, "%s: %s", path, strerror(-got));
    if (!any && hd_log_about(log)->events) tool_complain(0, "%s: no event is like that", path);
    return TOOL_FINE;
}

static int show_trace(hd_log *log, const char *path, const struct log_end *end)
{
    const int err = trace_show(log, end->died ? end->how : NULL);
    return err ? tool_complain(TOOL_BAD_LOG, "%s: %s", path, strerror(-err)) : TOOL_FINE;
}

/* What selects events, or says how they look. */
static bool is_plain(void)
{
    return !showing.task && !showing.kind && !showing.object.set && !showing.from.set &&
           !showing.to.set && !showing.json;
}

static int show(struct arguments *arguments)
{
    if (arguments->count != 1) return options_refuse("show", "one log is wanted");
    if (showing.trace && !is_plain()) return options_refuse("show", "--trace goes alone");
    const char *path = arguments->operands[0];
    const hd_log_kind kind = showing.kind ? kind_named(showing.kind) : (hd_log_kind)0;
    if (showing.kind && !kind) return TOOL_USAGE;
    hd_log *log;
    int status = event_open(&log, path);
    if (status) return status;
    if (!showing.json && !showing.trace) {
        const hd_log_info *about = hd_log_about(log);
        printf("# %s, seed %" PRIu64 "%s%s, Heddle %s, %" PRIu64 " events\n# %s\n",
               about->program, about->seed, *about->sampler ? ", sampler " : "", about->sampler,
               about->library, about->events, about->options);
        printf("#  event     step     time (virtual)  task           kind\n");
    }
    struct log_end end;
    sidecar_look(&end, log, path);
    status = showing.trace ? show_trace(log, path, &end) : show_events(log, path, kind);
    if (end.died && !showing.json && !showing.trace) {
        printf("# ends with the crash of the program: %s\n", end.how);
    }
    tool_flush();
    if (!status) status = sidecar_warn(log, path);
    hd_log_close(log);
    return status;
}

const struct command command_show = {
    .name = "show",
    .operands = "LOG",
    .summary = "Print the events of a log",
    .details = "Times have a unit: 20ms, 1.5s. A damaged log is printed as far as it is good.\n",
    .options = show_options,
    .run = show,
};

/* ---- diff ---- */

static bool diff_json;

static const struct option_spec diff_options[] = {
    {"json", NULL, "the answer as JSON", OPTION_FLAG, &diff_json},
    {0},
};

/* Whether a log is damaged, and nothing differs before that: then more cannot be told. */
static bool ends_comparison(const struct comparison *c, hd_log *log, const char *path)
{
    if (!sidecar_warn(log, path) || c->headers) return false;
    return !c->sequence || compare_is_cut(log, c->sequence);
}

static int diff(struct arguments *arguments)
{
    if (arguments->count != 2) return options_refuse("diff", "two logs are wanted");
    char **paths = arguments->operands;
    struct comparison comparison;
    int status = compare_logs(&comparison, paths[0], paths[1]);
    if (status) {
        compare_end(&comparison);
        return status;
    }
    bool damaged = ends_comparison(&comparison, comparison.a, paths[0]);
    damaged |= ends_comparison(&comparison, comparison.b, paths[1]);
    if (damaged) comparison.sequence = 0;
    if (diff_json) {
        struct json json = {.out = stdout};
        comparison.differ |= damaged;
        json_open(&json, NULL, '{');
        compare_json(&comparison, &json);
        json_bool(&json, "damaged", damaged);
        json_close(&json, '}');
    } else {
        compare_print(&comparison, stdout, paths[0], paths[1]);
    }
    if (damaged) status = TOOL_BAD_LOG;
    else if (comparison.differ) status = TOOL_DIVERGED;
    compare_end(&comparison);
    return status;
}

const struct command command_diff = {
    .name = "diff",
    .operands = "LOG LOG",
    .summary = "Say where two logs part",
    .details = "Prints nothing if they are equal.\n",
    .options = diff_options,
    .run = diff,
};

/* ---- verify ---- */

static bool verify_json;

static const struct option_spec verify_options[] = {
    {"json", NULL, "the answer as JSON", OPTION_FLAG, &verify_json},
    {0},
};

static void verify_print(const hd_log_info *about, const char *path, const struct log_end *end)
{
    const char *damage = end->damage;
    char hash[2 * sizeof(about->hash) + 1];
    for (size_t i = 0; i < sizeof(about->hash); i++) {
        snprintf(hash + 2 * i, 3, "%02x", about->hash[i]);
    }
    if (verify_json) {
        struct json json = {.out = stdout};
        json_open(&json, NULL, '{');
        json_text(&json, "log", path);
        json_bool(&json, "complete", about->complete && !damage);
        json_number(&json, "version", about->version);
        json_text(&json, "program", about->program);
        json_number(&json, "seed", about->seed);
        json_text(&json, "sampler", about->sampler);
        json_text(&json, "options", about->options);
        json_text(&json, "library", about->library);
        json_number(&json, "events", about->events);
        json_number(&json, "blocks", about->blocks);
        json_number(&json, "good_bytes", about->good_bytes);
        json_number(&json, "file_bytes", about->file_bytes);
        json_text(&json, "sha256", hash);
        json_text(&json, "damage", damage);
        json_text(&json, "crash", end->died ? end->how : NULL);
        json_close(&json, '}');
        return;
    }
    printf("%s: %s, %" PRIu64 " event%s in %" PRIu64 " block%s, %" PRIu64 " of %" PRIu64
           " bytes, SHA-256 %s\n", path, damage ? "damaged" : "good", about->events,
           tool_plural(about->events), about->blocks, tool_plural(about->blocks), about->good_bytes,
           about->file_bytes, hash);
    if (damage) printf("%s: %s\n", path, damage);
    if (end->died) printf("%s: ends with the crash of the program: %s\n", path, end->how);
}

static int verify(struct arguments *arguments)
{
    if (arguments->count != 1) return options_refuse("verify", "one log is wanted");
    const char *path = arguments->operands[0];
    hd_log *log;
    hd_log_event event;
    int got;
    const int status = event_open(&log, path);
    if (status) return status;
    while ((got = hd_log_next(log, &event)) == 1) continue;
    const hd_log_info *about = hd_log_about(log);
    struct log_end end;
    sidecar_look(&end, log, path);
    if (!end.damage && got == -EBADMSG) end.damage = "a block with a good checksum makes no sense";
    if (!end.damage && got < 0) end.damage = strerror(-got);
    verify_print(about, path, &end);
    hd_log_close(log);
    return end.damage ? TOOL_BAD_LOG : TOOL_FINE;
}

const struct command command_verify = {
    .name = "verify",
    .operands = "LOG",
    .summary = "Check that a log is complete and undamaged",
    .details = "",
    .options = verify_options,
    .run = verify,
};
