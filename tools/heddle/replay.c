/* SPDX-License-Identifier: MIT
 *
 * replay: runs a recorded schedule again, and checks that it is the same.
 *
 * The program replays by itself (HEDDLE_REPLAY), and records what it does now in another log; both
 * are compared here. With --until it stops before a step and waits for a debugger; where it stopped
 * last is remembered beside the log, for --back.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compare.h"
#include "program.h"
#include "sidecar.h"
#include "tool.h"

static struct {
    struct number until;
    bool back, gdb, json;
} options;

static const struct option_spec replay_options[] = {
    {"until", "STEP", "stop before this step, for a debugger", OPTION_NUMBER, &options.until},
    {"back", NULL, "stop one step before the last stop, or before --until", OPTION_FLAG,
     &options.back},
    {"gdb", NULL, "run it in gdb, with --until or --back", OPTION_FLAG, &options.gdb},
    {"json", NULL, "the result as JSON; the program's stdout goes to stderr", OPTION_FLAG,
     &options.json},
    {0},
};

struct replaying {
    const char *log;
    struct origin origin;
    uint64_t until; /* 0: the end */
    bool cut;       /* the log has no end: the program may have died, and may do so again */
    char replay[PATH_MAX + 16], stop[40]; /* variables */
};

/* ---- the last stop ---- */

static int stop_path(char path[static PROGRAM_PATH_MAX], const char *log)
{
    const int length = snprintf(path, PROGRAM_PATH_MAX, "%s.stop", log);
    return length < PROGRAM_PATH_MAX ? 0 : -ENAMETOOLONG;
}

static uint64_t last_stop(const char *log)
{
    char path[PROGRAM_PATH_MAX];
    uint64_t step = 0;
    FILE *in = stop_path(path, log) == 0 ? fopen(path, "re") : NULL;
    if (!in) return 0;
    if (fscanf(in, "%" SCNu64, &step) != 1) step = 0;
    fclose(in);
    return step;
}

static void remember_stop(const char *log, uint64_t step)
{
    char path[PROGRAM_PATH_MAX];
    FILE *out = stop_path(path, log) == 0 ? fopen(path, "we") : NULL;
    if (out) fprintf(out, "%" PRIu64 "\n", step);
    if (!out || fclose(out) != 0) tool_complain(0, "--back will not know of this stop: %s", path);
}

/* How many steps a log has. */
static uint64_t count_steps(hd_log *log)
{
    hd_log_event event;
    const uint64_t events = hd_log_about(log)->events;
    const bool read = events && hd_log_seek(log, events) == 0 && hd_log_next(log, &event) == 1;
    return read ? event.step : 0;
}

/* Returns 0 or an exit code. */
static int choose_stop(struct replaying *r, uint64_t steps)
{
    r->until = options.until.value;
    if (options.back) {
        const uint64_t last = options.until.set ? options.until.value : last_stop(r->log);
        if (last == 0) return options_refuse("replay", "there was no stop to go back from");
        if (last == 1) return options_refuse("replay", "the last stop was before the first step");
        r->until = last - 1;
    } else if (options.until.set && r->until == 0) {
        return options_refuse("replay", "steps are counted from 1");
    }
    if (r->until > steps) {
        return tool_complain(TOOL_USAGE, "%s has only %" PRIu64 " steps", r->log, steps);
    }
    if (r->until) remember_stop(r->log, r->until);
    return 0;
}

/* ---- stopping ---- */

/* In place of the tool: gdb has the terminal, and the program as its child, which it may look at
 * whatever the system says about other processes. */
static int become_gdb(struct replaying *r)
{
    size_t count = 0;
    char **program = r->origin.argv;
    while (program[count]) count++;
    static const char *const begin[] = {"gdb", "-q", "-ex", "run", "--args"};
    const size_t before = sizeof(begin) / sizeof(begin[0]);
    const char **argv = calloc(before + count + 1, sizeof(*argv));
    if (!argv) return tool_complain(TOOL_SYSTEM, "out of memory");
    memcpy(argv, begin, sizeof(begin));
    memcpy(argv + before, program, count * sizeof(*argv));
    program_clear_environment();
    int err = putenv(r->replay) != 0 || putenv(r->stop) != 0 ? ENOMEM : 0;
    if (!err && r->origin.dir && chdir(r->origin.dir) != 0) err = errno;
    if (!err) {
        execvp(argv[0], (char *const *)argv);
        err = errno;
    }
    free(argv);
    return tool_complain(TOOL_SYSTEM, "cannot run gdb: %s; without --gdb the program waits for any"
                         " debugger", strerror(err));
}

static void say_stop(pid_t pid)
{
    tool_complain(0, "process %d stops before the step; to look at it: gdb -p %d", (int)pid,
                  (int)pid);
}

static int run_stopping(void *arg)
{
    struct replaying *r = arg;
    const struct launch launch = {.argv = r->origin.argv,
                                  .dir = r->origin.dir,
                                  .env = {r->replay, r->stop},
                                  .started = say_stop};
    struct ending ending;
    char how[80];
    const int err = program_run(&launch, &ending);
    if (err == -ECANCELED) return TOOL_INTERRUPTED;
    if (err) return sidecar_refused(&r->origin, err);
    tool_complain(0, "%s has ended: %s", r->origin.argv[0],
                  program_ending(&ending, how, sizeof(how)));
    return TOOL_FINE;
}

/* ---- checking ---- */

/* The verdict that the log ends with; copied. */
static void find_verdict(hd_log *log, hd_verdict *verdict, char *text, size_t size)
{
    hd_log_event event;
    const uint64_t events = hd_log_about(log)->events;
    *verdict = HD_VERDICT_NONE;
    text[0] = 0;
    if (events == 0 || hd_log_seek(log, events) != 0 || hd_log_next(log, &event) != 1) return;
    if (event.kind != HD_LOG_VERDICT) return;
    *verdict = (hd_verdict)event.a;
    snprintf(text, size, "%s", event.text);
}

struct outcome {
    struct comparison comparison;
    struct log_end end;    /* of the log */
    struct ending ending;  /* of the program, now */
    bool lives;            /* it died when it was recorded, and does not now */
    hd_verdict verdict;
    char message[HD_MESSAGE_MAX + 8];
};

/* What came of it. Whoever dies has no time to record that. */
static void judge(struct outcome *o)
{
    struct comparison *c = &o->comparison;
    const bool died = !hd_log_about(c->b)->complete;
    /* Where the log was cut the replay cannot but go on. */
    if (c->sequence && compare_is_cut(c->a, c->sequence)) {
        c->sequence = 0;
        c->differ = c->headers;
    }
    find_verdict(c->a, &o->verdict, o->message, sizeof(o->message));
    if (WIFSIGNALED(o->ending.status) || (o->end.died && died)) {
        o->verdict = HD_VERDICT_CRASH;
        program_ending(&o->ending, o->message, sizeof(o->message));
    }
    o->lives = o->end.died && (!died || o->ending.status != o->end.ending.status);
    if (o->lives) c->differ = true;
}

static void report_json(const struct replaying *r, const struct outcome *o)
{
    struct json json = {.out = stdout};
    json_open(&json, NULL, '{');
    json_text(&json, "log", r->log);
    json_number(&json, "events", hd_log_about(o->comparison.a)->events);
    compare_json(&o->comparison, &json);
    json_text(&json, "verdict", hd_verdict_name(o->verdict));
    json_text(&json, "message", o->message);
    json_text(&json, "damage", o->end.damage);
    json_close(&json, '}');
}

static void report(const struct replaying *r, const struct outcome *o)
{
    const struct comparison *c = &o->comparison;
    const uint64_t events = hd_log_about(c->a)->events;
    const char *colon = o->message[0] ? ": " : "";
    char how[80];
    if (c->sequence) {
        compare_print(c, stdout, r->log, "the replay");
    } else if (o->end.damage) {
        printf("%s: replayed as far as it can be read, %" PRIu64 " events\n", r->log, events);
    } else if (o->lives) {
        printf("%s: replayed as recorded, %" PRIu64 " events, but then the program does not die as"
               " it did (%s): %s\n", r->log, events, o->end.how,
               program_ending(&o->ending, how, sizeof(how)));
    } else {
        if (c->headers) tool_complain(0, "the program is not the one it was, but does the same");
        printf("%s: replayed as recorded, %" PRIu64 " events; %s%s%s\n", r->log, events,
               hd_verdict_name(o->verdict), colon, o->message);
    }
}

/* Compare the log with that of the replay. Returns an exit code. */
static int check(const struct replaying *r, const char *replayed, struct outcome *o)
{
    struct comparison *c = &o->comparison;
    int status = compare_logs(c, r->log, replayed);
    if (!status) {
        sidecar_look(&o->end, c->a, r->log);
        judge(o);
        if (o->end.damage) status = sidecar_warn(c->a, r->log);
        if (c->sequence || o->lives) status = TOOL_DIVERGED;
        if (options.json) report_json(r, o);
        else report(r, o);
    }
    compare_end(c);
    return status;
}

static int run_checking(void *arg)
{
    struct replaying *r = arg;
    static struct outcome outcome;
    char path[PROGRAM_PATH_MAX], record[PROGRAM_PATH_MAX + 16];
    int err = scratch_path(path, "replayed.hdlog");
    if (err) return tool_complain(TOOL_SYSTEM, "no scratch files: %s", strerror(-err));
    snprintf(record, sizeof(record), "HEDDLE_LOG=%s", path);
    const struct launch launch = {.argv = r->origin.argv,
                                  .dir = r->origin.dir,
                                  .env = {r->replay, record, r->cut ? "HEDDLE_LOG_SYNC=1" : NULL},
                                  .streams = options.json ? PROGRAM_SHOWN_2 : PROGRAM_SHOWN};
    err = program_run(&launch, &outcome.ending);
    if (err == -ECANCELED) return TOOL_INTERRUPTED;
    if (err) return sidecar_refused(&r->origin, err);
    if (access(path, F_OK) != 0) return program_foreign(r->origin.argv, &outcome.ending);
    return check(r, path, &outcome);
}

/* The log's name for the program, which may run elsewhere. Returns 0 or an exit code. */
static int name_log(struct replaying *r)
{
    char real[PATH_MAX];
    const char *name = r->origin.dir ? realpath(r->log, real) : r->log;
    if (!name) return tool_complain(TOOL_BAD_LOG, "cannot read %s: %s", r->log, strerror(errno));
    snprintf(r->replay, sizeof(r->replay), "HEDDLE_REPLAY=%s", name);
    snprintf(r->stop, sizeof(r->stop), "HEDDLE_UNTIL=%" PRIu64, r->until);
    return 0;
}

static int replay_command(struct arguments *arguments)
{
    if (arguments->count == 0) return options_refuse("replay", "a log is wanted");
    if (options.gdb && !options.until.set && !options.back) {
        return options_refuse("replay", "--gdb goes with --until or --back");
    }
    struct replaying r = {.log = arguments->operands[0]};
    hd_log *log;
    int status = event_open(&log, r.log);
    if (status) return status;
    r.cut = !hd_log_about(log)->complete;
    const uint64_t steps = count_steps(log);
    hd_log_close(log);
    status = choose_stop(&r, steps);
    if (status) return status;
    status = sidecar_program(&r.origin, r.log, arguments->operands + 1);
    if (!status) status = name_log(&r);
    if (!status && r.until && options.gdb) status = become_gdb(&r);
    else if (!status) status = tool_run(r.until ? run_stopping : run_checking, &r);
    sidecar_forget(&r.origin);
    return status;
}

const struct command command_replay = {
    .name = "replay",
    .operands = "LOG [-- PROGRAM ARGS...]",
    .summary = "Run a recorded schedule again, and check that it is the same",
    .details = "The program is the one in LOG.meta, if none is given. A recorded failure that\n"
               "happens again is a success: 0.\n",
    .options = replay_options,
    .run = replay_command,
};
