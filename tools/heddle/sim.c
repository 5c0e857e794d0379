/* SPDX-License-Identifier: MIT
 *
 * sim: runs a program in sim, with one seed or with many.
 *
 * The program leaves its figures in a file (HEDDLE_SUMMARY), the first time when it begins: whoever
 * leaves none did not run in sim.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "json.h"
#include "program.h"
#include "progress.h"
#include "sidecar.h"
#include "tool.h"

static struct {
    struct number seed, jobs;
    struct range seeds;
    const char *sampler, *output;
    bool json;
} options;

static const struct option_spec sim_options[] = {
    {"seed", "N", "the seed (1)", OPTION_NUMBER, &options.seed},
    {"seeds", "N[..M]", "all seeds from 1 to N, or from N to M", OPTION_RANGE, &options.seeds},
    {"sampler", "TEXT", "who goes on: random, pct:3, pos, urw, cohort, fair", OPTION_TEXT,
     &options.sampler},
    {"jobs", "N", "so many at once, with --seeds (as many as CPUs)", OPTION_NUMBER, &options.jobs},
    {"output", "FILE", "record the run, or the first that fails, there", OPTION_TEXT,
     &options.output},
    {"json", NULL, "the result as JSON; the program's stdout goes to stderr", OPTION_FLAG,
     &options.json},
    {0},
};

struct failure {
    uint64_t seed;
    int status;
};

struct simulation {
    char *const *argv;
    uint64_t next, last;      /* seeds that nobody has taken */
    bool drained;             /* there are no more */
    uint64_t done, total;     /* seeds */
    struct failure *failures; /* in the order they were found */
    size_t failed, room;
    int refused;              /* why it cannot be run, -errno */
    bool through;             /* what is recorded now has died before */
    char said[PROGRAM_SAID_MAX]; /* by the first that failed */
};

/* The texts that `env` points to. */
struct variables {
    char seed[40], sampler[300], log[PROGRAM_PATH_MAX + 16], summary[PROGRAM_PATH_MAX + 24];
};

/* What the program gets; `log` and `summary` may be NULL. `through`: it dies, so that each event is
 * to be written at once. */
static void prepare(struct launch *launch, struct variables *variables, uint64_t seed,
                    const char *log, const char *summary, bool through)
{
    unsigned count = 0;
    snprintf(variables->seed, sizeof(variables->seed), "HEDDLE_SEED=%" PRIu64, seed);
    launch->env[count++] = variables->seed;
    if (options.sampler) {
        snprintf(variables->sampler, sizeof(variables->sampler), "HEDDLE_SAMPLER=%s",
                 options.sampler);
        launch->env[count++] = variables->sampler;
    }
    if (log) {
        snprintf(variables->log, sizeof(variables->log), "HEDDLE_LOG=%s", log);
        launch->env[count++] = variables->log;
    }
    if (summary) {
        snprintf(variables->summary, sizeof(variables->summary), "HEDDLE_SUMMARY=%s", summary);
        launch->env[count++] = variables->summary;
    }
    if (through) launch->env[count++] = "HEDDLE_LOG_SYNC=1";
    launch->env[count] = NULL;
}

/* The line that repeats a seed; to be freed. */
static char *repeat(const struct simulation *sim, uint64_t seed)
{
    struct launch launch = {.argv = sim->argv};
    struct variables variables;
    prepare(&launch, &variables, seed, NULL, NULL, false);
    return program_command_text(launch.env, launch.argv);
}

static bool failed(const struct ending *ending)
{
    return !WIFEXITED(ending->status) || WEXITSTATUS(ending->status) != 0;
}

static bool stopped(const struct ending *ending)
{
    if (!WIFSIGNALED(ending->status)) return false;
    const int signal = WTERMSIG(ending->status); /* The terminal's, not its own. */
    return signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
}

/* ---- one seed ---- */

/* One of the figures; what has something before it is said only if it is not 0. Returns whether it
 * was. */
static bool say_number(const char *summary, const char *key, const char *before, const char *after)
{
    char number[32];
    if (!json_read_word(summary, key, number, sizeof(number))) return false;
    if (before[0] && !strcmp(number, "0")) return false;
    fprintf(stderr, "%s%s%s", before, number, after);
    return true;
}

/* The figures of a run that has ended, in a line or two. */
static void say_summary(const char *summary)
{
    char ended[8];
    if (!summary || !json_read_word(summary, "ended", ended, sizeof(ended))) return;
    if (strcmp(ended, "true") != 0) return; /* It died before. */
    fputs("  in sim:  ", stderr);
    say_number(summary, "ticks", "", " ticks, ");
    say_number(summary, "spawned", "", " tasks, ");
    say_number(summary, "runs", "", " runs, ");
    say_number(summary, "events", "", " events");
    say_number(summary, "depth_max", " (at most ", " at once)");
    say_number(summary, "steps", ", ", " steps");
    say_number(summary, "choices", ", ", " choices");
    if (say_number(summary, "cohorts", ", ", " cohorts")) {
        say_number(summary, "cohort_mean", " of ", " tasks on average");
    }
    say_number(summary, "pauses", ", ", " pauses");
    say_number(summary, "warnings", ", ", " warnings");
    fputc('\n', stderr);
}

static void report_one(const struct simulation *sim, uint64_t seed, const struct ending *ending,
                       const char *summary)
{
    char how[80];
    char *line = repeat(sim, seed);
    program_ending(ending, how, sizeof(how));
    if (options.json) {
        struct json json = {.out = stdout};
        json_open(&json, NULL, '{');
        json_text(&json, "program", sim->argv[0]);
        json_number(&json, "seed", seed);
        json_bool(&json, "failed", failed(ending));
        json_text(&json, "ending", how);
        json_text(&json, "reproduce", line);
        json_text(&json, "log", options.output);
        json_object(&json, "summary", summary);
        json_close(&json, '}');
    } else {
        fprintf(stderr, "heddle: seed %" PRIu64 ": %s\n", seed, how);
        say_summary(summary);
        if (failed(ending)) fprintf(stderr, "  repeat:  %s\n", line ? line : "");
        if (options.output) fprintf(stderr, "  log:     %s\n", options.output);
        if (WIFEXITED(ending->status) && failed(ending) && options.output) {
            fputs("  shrink:  heddle shrink ", stderr);
            program_print_word(stderr, options.output);
            fputc('\n', stderr);
        }
        if (WIFSIGNALED(ending->status) && options.output) {
            fprintf(stderr, "  note:    its end is lost in the crash; --seeds %" PRIu64 "..%" PRIu64
                    " records all of it\n", seed, seed);
        }
    }
    free(line);
}

/* What is no file is written when the run is over: nobody could tell a program that did not run in
 * sim from one that cannot write there. */
struct recording {
    const char *to;              /* NULL: it is not recorded */
    bool copied;
    char path[PROGRAM_PATH_MAX]; /* where the program records it */
    struct stat before;          /* of a file that was there */
};

static int open_recording(struct recording *recording, const char *to)
{
    *recording = (struct recording){.to = to};
    if (!to) return 0;
    const bool there = stat(to, &recording->before) == 0;
    recording->copied = there && !S_ISREG(recording->before.st_mode);
    if (recording->copied) return scratch_path(recording->path, "sim.hdlog");
    snprintf(recording->path, sizeof(recording->path), "%s", to);
    return 0;
}

/* Whether the program began to write. */
static bool is_begun(const struct recording *recording)
{
    struct stat now;
    const struct stat *before = &recording->before;
    if (!recording->to || stat(recording->path, &now) != 0) return false;
    return recording->copied || now.st_ino != before->st_ino ||
           memcmp(&now.st_mtim, &before->st_mtim, sizeof(now.st_mtim)) != 0;
}

/* Returns 0 or an exit code. */
static int close_recording(const struct recording *recording)
{
    if (!recording->to || !recording->copied) return 0;
    const int err = scratch_keep(recording->path, recording->to);
    if (!err) return 0;
    return tool_complain(TOOL_SYSTEM, "cannot write %s: %s", recording->to, strerror(-err));
}

/* Run one seed, recorded in `log` if that is not NULL. Returns 0 with its figures in *summary, to
 * be freed; or an exit code. */
static int run_one(const struct simulation *sim, uint64_t seed, const char *log,
                   enum program_streams streams, struct ending *ending, char **summary)
{
    char path[PROGRAM_PATH_MAX];
    struct recording recording;
    int err = scratch_path(path, "summary");
    if (!err) err = open_recording(&recording, log);
    if (err) return tool_complain(TOOL_SYSTEM, "no scratch files: %s", strerror(-err));
    unlink(path);
    struct variables variables;
    struct launch launch = {.argv = sim->argv, .streams = streams};
    prepare(&launch, &variables, seed, log ? recording.path : NULL, path, sim->through);
    err = program_run(&launch, ending);
    if (err == -ECANCELED || (!err && stopped(ending))) return TOOL_INTERRUPTED;
    if (err) return program_refused(sim->argv, err);
    *summary = program_slurp(path);
    if (*summary) {
        const int status = close_recording(&recording);
        if (status) free(*summary);
        return status;
    }
    /* It has said why it could not go on. */
    return is_begun(&recording) ? TOOL_SYSTEM : program_foreign(sim->argv, ending);
}

static int simulate_one(void *arg)
{
    struct simulation *sim = arg;
    const uint64_t seed = options.seed.set ? options.seed.value : 1;
    struct ending ending;
    char *summary;
    const int status = run_one(sim, seed, options.output,
                               options.json ? PROGRAM_SHOWN_2 : PROGRAM_SHOWN, &ending, &summary);
    if (status) return status;
    /* If it died, what it had not written yet is lost. */
    if (options.output) sidecar_sign(options.output, sim->argv, NULL, NULL);
    report_one(sim, seed, &ending, summary);
    free(summary);
    return failed(&ending) ? TOOL_FOUND : TOOL_FINE;
}

/* ---- many ---- */

static void note(struct simulation *sim, uint64_t seed, const struct ending *ending)
{
    if (sim->failed == 0) memcpy(sim->said, ending->said, sizeof(sim->said));
    if (sim->failed == sim->room) {
        const size_t room = sim->room ? 2 * sim->room : 64;
        struct failure *more = reallocarray(sim->failures, room, sizeof(*more));
        if (!more) return;
        sim->failures = more;
        sim->room = room;
    }
    sim->failures[sim->failed++] = (struct failure){seed, ending->status};
    if (options.json) return;
    char how[80];
    char *line = repeat(sim, seed);
    progress_clear();
    printf("seed %" PRIu64 ": %s\n  repeat:  %s\n", seed, program_ending(ending, how, sizeof(how)),
           line ? line : "");
    tool_flush();
    free(line);
}

/* A run that was ended by us, or with us: it may be the one that hangs. */
static void say_under_way(const struct simulation *sim, uint64_t seed)
{
    char *line = repeat(sim, seed);
    progress_clear();
    tool_complain(0, "seed %" PRIu64 " had not ended: %s", seed, line ? line : "");
    free(line);
}

/* Take seed after seed. */
static int simulate_some(void *arg)
{
    struct simulation *sim = arg;
    while (!sim->drained && !sim->refused) {
        const uint64_t seed = sim->next;
        if (seed == sim->last) sim->drained = true;
        else sim->next++;
        struct variables variables;
        struct ending ending;
        struct launch launch = {.argv = sim->argv, .streams = PROGRAM_GATHERED};
        prepare(&launch, &variables, seed, NULL, NULL, false);
        const int err = program_run(&launch, &ending);
        if (err == -ECANCELED || (!err && stopped(&ending))) {
            say_under_way(sim, seed);
            return 0;
        }
        if (err) {
            sim->refused = err;
            return 0;
        }
        sim->done++;
        if (failed(&ending)) note(sim, seed, &ending);
    }
    return 0;
}

static void progress_text(void *arg, char text[static PROGRESS_TEXT_MAX])
{
    const struct simulation *sim = arg;
    snprintf(text, PROGRESS_TEXT_MAX, "%" PRIu64 " of %" PRIu64 " seeds, %zu failed", sim->done,
             sim->total, sim->failed);
}

static int by_seed(const void *a, const void *b)
{
    const uint64_t x = ((const struct failure *)a)->seed, y = ((const struct failure *)b)->seed;
    return (x > y) - (x < y);
}

/* Record the first failure. Returns whether there is such a log now. */
static bool record(struct simulation *sim)
{
    struct ending ending;
    char *summary = NULL;
    sim->through = WIFSIGNALED(sim->failures[0].status);
    if (run_one(sim, sim->failures[0].seed, options.output, PROGRAM_GATHERED, &ending, &summary)) {
        return false;
    }
    free(summary);
    sidecar_sign(options.output, sim->argv, NULL, sim->through ? &ending : NULL);
    return true;
}

static void report_json(const struct simulation *sim, const char *log)
{
    struct json json = {.out = stdout};
    json_open(&json, NULL, '{');
    json_text(&json, "program", sim->argv[0]);
    json_number(&json, "first", options.seeds.first);
    json_number(&json, "last", options.seeds.last);
    json_number(&json, "runs", sim->done);
    json_open(&json, "failures", '[');
    for (size_t i = 0; i < sim->failed; i++) {
        char how[80];
        char *line = repeat(sim, sim->failures[i].seed);
        const struct ending ending = {.status = sim->failures[i].status};
        json_open(&json, NULL, '{');
        json_number(&json, "seed", sim->failures[i].seed);
        json_text(&json, "ending", program_ending(&ending, how, sizeof(how)));
        json_text(&json, "reproduce", line);
        json_close(&json, '}');
        free(line);
    }
    json_close(&json, ']');
    json_text(&json, "log", log);
    json_bool(&json, "interrupted", tool_interrupted());
    json_close(&json, '}');
}

static int report_many(struct simulation *sim)
{
    const char *log = NULL;
    if (sim->failed > 0) {
        qsort(sim->failures, sim->failed, sizeof(*sim->failures), by_seed);
        if (options.output && !tool_interrupted() && record(sim)) log = options.output;
    }
    if (options.json) {
        report_json(sim, log);
    } else {
        if (sim->said[0]) printf("the first that failed said:\n%s", sim->said);
        printf("%" PRIu64 " of %" PRIu64 " seeds run, %zu failed%s\n", sim->done, sim->total,
               sim->failed, tool_interrupted() ? " (interrupted)" : "");
        if (log) printf("  log:     %s (seed %" PRIu64 ")\n", log, sim->failures[0].seed);
    }
    if (sim->failed > 0) return TOOL_FOUND;
    return tool_interrupted() ? TOOL_INTERRUPTED : TOOL_FINE;
}

/* Returns 0, or an exit code: one run shows whether there is a point in more. */
static int probe(struct simulation *sim)
{
    struct ending ending;
    char *summary = NULL;
    if (program_plausible(sim->argv[0])) return 0;
    const int status = run_one(sim, sim->next, NULL, PROGRAM_GATHERED, &ending, &summary);
    free(summary);
    return status;
}

static int simulate_many(void *arg)
{
    struct simulation *sim = arg;
    const uint64_t jobs = options.jobs.set ? options.jobs.value : tool_cpus();
    sim->next = options.seeds.first;
    sim->last = options.seeds.last;
    sim->total = sim->last - sim->next + 1;
    int status = probe(sim);
    if (status) return status;
    struct progress progress;
    progress_begin(&progress, progress_text, sim);
    HD_NURSERY(nursery) {
        for (uint64_t i = 0; i < jobs && i < sim->total; i++) {
            if (hd_go(nursery, simulate_some, sim) != 0) break;
        }
    }
    progress_end(&progress);
    status = sim->refused ? program_refused(sim->argv, sim->refused) : report_many(sim);
    free(sim->failures);
    return status;
}

static int sim_command(struct arguments *arguments)
{
    if (arguments->count == 0) return options_refuse("sim", "a program is wanted");
    if (options.seed.set && options.seeds.set) {
        return options_refuse("sim", "either --seed or --seeds");
    }
    if (options.seeds.set && options.seeds.last - options.seeds.first == UINT64_MAX) {
        return options_refuse("sim", "--seeds are too many");
    }
    if (options.jobs.set && (options.jobs.value == 0 || options.jobs.value > 256)) {
        return options_refuse("sim", "--jobs is from 1 to 256");
    }
    const hd_explore_options check = {.size = sizeof(check), .sampler = options.sampler};
    const char *error = options.sampler ? hd_explore_error(&check) : NULL;
    if (error) return tool_complain(TOOL_USAGE, "--sampler %s: %s", options.sampler, error);
    if (options.sampler && !strcmp(options.sampler, "portfolio")) {
        return options_refuse("sim", "portfolio is for `heddle explore`");
    }
    const int refused = program_check_output(options.output);
    if (refused) return refused;
    struct simulation sim = {.argv = arguments->operands};
    return tool_run(options.seeds.set ? simulate_many : simulate_one, &sim);
}

const struct command command_sim = {
    .name = "sim",
    .operands = "PROGRAM [--] [ARGS...]",
    .summary = "Run a program in sim, with one seed or many",
    .details = "A run fails if it does not exit with 0. Options of the program go after --.\n",
    .options = sim_options,
    .run = sim_command,
};
