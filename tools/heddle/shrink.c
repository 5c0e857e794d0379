/* SPDX-License-Identifier: MIT
 *
 * shrink: makes a recorded failure small, and shows it.
 *
 * The program shrinks by itself (HEDDLE_SHRINK); paths in that list have no blanks, so the log is
 * given by a link from our scratch folder, where the result is written, too.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "event.h"
#include "program.h"
#include "sidecar.h"
#include "tool.h"
#include "trace.h"

static struct {
    const char *output;
    struct number replays;
    bool json;
} options;

static const struct option_spec shrink_options[] = {
    {"output", "FILE", "where the small one is recorded (LOG.min)", OPTION_TEXT, &options.output},
    {"replays", "N", "at most so many runs (200)", OPTION_NUMBER, &options.replays},
    {"json", NULL, "the result as JSON, without the trace", OPTION_FLAG, &options.json},
    {0},
};

/* How many decisions against a task that could have gone on, and how many faults, a log has. */
struct size {
    uint64_t events, switches, faults, passes; /* passes: of time, while tasks were ready */
    bool fails; /* it ends with a verdict, or with nothing, as of a crash */
};

struct shrinking {
    const char *log;
    struct origin origin;
    struct log_end end; /* of the log */
    bool damaged;
    char output[PROGRAM_PATH_MAX];
    char from[PROGRAM_PATH_MAX], to[PROGRAM_PATH_MAX];
    hd_explore_result result;
    struct size was;
};

static struct size measure(hd_log *log)
{
    struct size size = {.events = hd_log_about(log)->events,
                        .fails = !hd_log_about(log)->complete};
    hd_log_event event;
    if (hd_log_seek(log, 1) != 0) return size;
    while (hd_log_next(log, &event) == 1) {
        if (event.kind == HD_LOG_CHOICE && event.b) size.switches++;
        if (event.kind == HD_LOG_CHOICE && !event.task) size.passes++;
        if (event.kind == HD_LOG_FAULT) size.faults++;
        if (event.kind == HD_LOG_VERDICT) size.fails = event.a != HD_VERDICT_NONE;
    }
    return size;
}

static int run_program(struct shrinking *s)
{
    char list[2 * PROGRAM_PATH_MAX + 128];
    const int fd = memfd_create("heddle-status", 0);
    if (fd < 0 || ftruncate(fd, sizeof(s->result)) != 0) {
        return tool_complain(TOOL_SYSTEM, "no memory to share: %s", strerror(errno));
    }
    snprintf(list, sizeof(list), "HEDDLE_SHRINK=from=%s to=%s replays=%" PRIu64 " status=%d",
             s->from, s->to, options.replays.value, fd);
    const struct launch launch = {.argv = s->origin.argv,
                                  .dir = s->origin.dir,
                                  .env = {list},
                                  .streams = PROGRAM_GATHERED};
    struct ending ending;
    const int err = program_run(&launch, &ending);
    const ssize_t got = pread(fd, &s->result, sizeof(s->result), 0);
    close(fd);
    if (err == -ECANCELED) return TOOL_INTERRUPTED;
    if (err) return sidecar_refused(&s->origin, err);
    const bool took_part = got == (ssize_t)sizeof(s->result) && s->result.ended;
    if (!took_part) return program_foreign(s->origin.argv, &ending);
    if (s->result.code == 0) return TOOL_FINE;
    if (s->result.code == -EPROTO) {
        return tool_complain(s->damaged ? TOOL_BAD_LOG : TOOL_DIVERGED,
                             "%s does not fail any more as recorded in %s", s->origin.argv[0],
                             s->log);
    }
    return tool_complain(s->result.code == -EBADMSG ? TOOL_BAD_LOG : TOOL_SYSTEM,
                         "%s cannot be shrunk: %s", s->log, strerror(-s->result.code));
}

static void report_text(const struct shrinking *s, const struct size *is)
{
    const struct size *was = &s->was;
    const bool passes = is->passes || was->passes; /* Most programs know nothing of it. */
    printf("\n%s: %" PRIu64 " context switch%s, %" PRIu64 " fault%s", s->output, is->switches,
           is->switches == 1 ? "" : "es", is->faults, tool_plural(is->faults));
    if (passes) printf(", %" PRIu64 " passing%s of time", is->passes, tool_plural(is->passes));
    printf(" (before: %" PRIu64 ", %" PRIu64, was->switches, was->faults);
    if (passes) printf(", %" PRIu64, was->passes);
    printf("), in %" PRIu64 " run%s\n  replay:  heddle replay ", s->result.schedules,
           tool_plural(s->result.schedules));
    program_print_word(stdout, s->output);
    putchar('\n');
}

static int report(struct shrinking *s)
{
    hd_log *after;
    const struct size was = s->was;
    int status = event_open(&after, s->output);
    if (status) return status;
    const struct size is = measure(after);
    if (options.json) {
        struct json json = {.out = stdout};
        json_open(&json, NULL, '{');
        json_text(&json, "log", s->log);
        json_text(&json, "output", s->output);
        json_number(&json, "replays", s->result.schedules);
        json_number(&json, "switches_before", was.switches);
        json_number(&json, "switches", is.switches);
        json_number(&json, "faults_before", was.faults);
        json_number(&json, "faults", is.faults);
        json_number(&json, "passes_before", was.passes);
        json_number(&json, "passes", is.passes);
        json_number(&json, "events_before", was.events);
        json_number(&json, "events", is.events);
        json_close(&json, '}');
    } else {
        const int err = trace_show(after, s->end.died ? s->end.how : NULL);
        if (err) status = tool_complain(TOOL_BAD_LOG, "%s: %s", s->output, strerror(-err));
        report_text(s, &is);
    }
    hd_log_close(after);
    return status;
}

static int shrink(void *arg)
{
    struct shrinking *s = arg;
    char real[PATH_MAX];
    if (!realpath(s->log, real)) {
        return tool_complain(TOOL_SYSTEM, "%s: %s", s->log, strerror(errno));
    }
    int err = scratch_path(s->from, "from.hdlog");
    if (!err) err = scratch_path(s->to, "to.hdlog");
    if (!err && symlink(real, s->from) != 0) err = -errno;
    if (err) return tool_complain(TOOL_SYSTEM, "no scratch files: %s", strerror(-err));
    int status = run_program(s);
    if (status) return status;
    err = scratch_keep(s->to, s->output);
    if (err) return tool_complain(TOOL_SYSTEM, "cannot write %s: %s", s->output, strerror(-err));
    /* It dies of the same. */
    sidecar_sign(s->output, s->origin.argv, s->origin.dir, s->end.died ? &s->end.ending : NULL);
    return report(s);
}

static int shrink_command(struct arguments *arguments)
{
    if (arguments->count == 0) return options_refuse("shrink", "a log is wanted");
    static struct shrinking s;
    hd_log *log;
    s.log = arguments->operands[0];
    if (options.replays.value > INT_MAX) return options_refuse("shrink", "--replays are too many");
    int status = event_open(&log, s.log);
    if (status) return status;
    s.was = measure(log);
    sidecar_look(&s.end, log, s.log);
    status = sidecar_warn(log, s.log);
    /* What only lacks its end may be of a program that died unseen; anything else is no use. */
    const hd_log_info *about = hd_log_about(log);
    const bool readable = !about->complete && about->good_bytes == about->file_bytes;
    hd_log_close(log);
    if (status && !readable) return status;
    s.damaged = status != 0;
    if (!s.was.fails) {
        return tool_complain(TOOL_USAGE, "%s: the run did well, there is nothing to shrink", s.log);
    }
    const int length = options.output ? snprintf(s.output, sizeof(s.output), "%s", options.output)
                                      : snprintf(s.output, sizeof(s.output), "%s.min", s.log);
    if (length >= (int)sizeof(s.output)) return options_refuse("shrink", "the path is too long");
    status = program_check_output(s.output);
    if (status) return status;
    status = sidecar_program(&s.origin, s.log, arguments->operands + 1);
    if (!status) status = tool_run(shrink, &s);
    sidecar_forget(&s.origin);
    return status;
}

const struct command command_shrink = {
    .name = "shrink",
    .operands = "LOG [-- PROGRAM ARGS...]",
    .summary = "Make a recorded failure small, and show it task by task",
    .details = "The program is the one in LOG.meta, if none is given.\n",
    .options = shrink_options,
    .run = shrink_command,
};
