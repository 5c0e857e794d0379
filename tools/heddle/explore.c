/* SPDX-License-Identifier: MIT
 *
 * explore: runs a program's schedules in several processes until one fails.
 *
 * The program explores by itself: HEDDLE_EXPLORE makes its hd_run() an hd_explore(), and a piece of
 * shared memory for each process (job) tells how far it is, also if it dies. Then:
 *
 *   1. Two runs of one schedule, each a process of its own, are recorded and compared.
 *   2. The jobs explore, each from another seed, until one finds something or their budget is used
 *      up; the others are then killed.
 *   3. The schedule that failed is run once more, in a process that ran nothing before; a crash,
 *      which could not be recorded where it was found, is recorded then. If it does not fail there,
 *      or if a job says that a schedule did not do the same again, what one run leaves behind
 *      changes the next: step 2 is done again with a process for each schedule.
 *   4. A job that had to be killed in the middle of a schedule has found one that does not end.
 */
#include "explore.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compare.h"
#include "progress.h"
#include "sidecar.h"
#include "tool.h"

#define TIME_DEFAULT_NS  (10 * HD_SECOND_NS) /* if there is no budget */
#define TIME_MAX_NS      (36000000 * (uint64_t)HD_SECOND_NS)
#define STEPS_MAX        1000000000u
#define TIME_GRACE_NS    (2 * HD_SECOND_NS)  /* for a job to see that its time is over */
#define PROBE_TIME_NS    (3 * HD_SECOND_NS)  /* for one run of the program */
#define WATCH_MS         20
#define WATCH_MAX_NS     HD_SECOND_NS           /* what counts of the time between two looks */
#define ENDLESS_NS       (3 * HD_SECOND_NS / 2) /* a schedule that takes so long, */
#define ENDLESS_TIMES    5                      /* and so much longer than others, does not end */
#define PATIENCE_NS      (10 * HD_SECOND_NS)    /* the same where there is no limit: */
#define PATIENCE_TIMES   100                    /* it is given up only then */

static struct explore_options options;

static const struct option_spec explore_options[] = {
    {"sampler", "TEXT", "portfolio (the default), random, pct:3, pos, urw, cohort, all:2 ...",
     OPTION_TEXT, &options.sampler},
    {"seed", "N", "where to begin (1)", OPTION_NUMBER, &options.seed},
    {"schedules", "N", "at most so many", OPTION_NUMBER, &options.schedules},
    {"time", "TIME", "at most so long (10s, if --schedules is not given)", OPTION_TIME,
     &options.time},
    {"steps", "N", "more steps in one schedule are a livelock (20000)", OPTION_NUMBER,
     &options.steps},
    {"fork", NULL, "each schedule in a process of its own", OPTION_FLAG, &options.fork},
    {"clock", NULL, "time may pass while tasks are ready", OPTION_FLAG, &options.clock},
    {"keep-going", NULL, "past failures, and count them", OPTION_FLAG, &options.keep_going},
    {"ignore-results", NULL, "a program that returns an error has not failed", OPTION_FLAG,
     &options.ignore_results},
    {"allow-stale", NULL, "a program that uses a closed handle has not failed", OPTION_FLAG,
     &options.allow_stale},
    {"jobs", "N", "so many processes (as many as CPUs)", OPTION_NUMBER, &options.jobs},
    {"output", "FILE", "where the failure is recorded (PROGRAM.hdlog)", OPTION_TEXT,
     &options.output},
    {"json", NULL, "the result as JSON", OPTION_FLAG, &options.json},
    {0},
};

/* ---- a job ---- */

static hd_explore_result look(const struct job *job)
{
    /* Another process writes it meanwhile: a number may be old, a text half written, and all is
     * exact once that process has ended. */
    hd_explore_result result = *job->shared;
    result.sampler[sizeof(result.sampler) - 1] = 0;
    result.message[sizeof(result.message) - 1] = 0;
    return result;
}

struct explore_sums explore_sum(const struct exploration *x)
{
    struct explore_sums sums = {.exhausted = x->job_count == 1};
    for (unsigned i = 0; i < x->job_count; i++) {
        const struct job *job = &x->jobs[i];
        const hd_explore_result result = job->ended ? job->result : look(job);
        sums.schedules += result.schedules;
        sums.failures += result.failures;
        sums.steps += result.steps;
        if (result.steps_max > sums.steps_max) sums.steps_max = result.steps_max;
        if (result.tasks_max > sums.tasks_max) sums.tasks_max = result.tasks_max;
        sums.exhausted = sums.exhausted && result.exhausted;
    }
    return sums;
}

static int open_job(struct job *job)
{
    char name[32];
    snprintf(name, sizeof(name), "job%u.hdlog", job->number);
    const int err = scratch_path(job->log, name);
    if (err) return err;
    job->fd = memfd_create("heddle-status", 0); /* The program has it too. */
    if (job->fd < 0) return -errno;
    if (ftruncate(job->fd, sizeof(hd_explore_result)) != 0) return -errno;
    void *memory = mmap(NULL, sizeof(hd_explore_result), PROT_READ | PROT_WRITE, MAP_SHARED,
                        job->fd, 0);
    if (memory == MAP_FAILED) return -errno;
    job->shared = memory;
    return 0;
}

static void close_job(struct job *job)
{
    if (job->shared) munmap((void *)job->shared, sizeof(hd_explore_result));
    if (job->fd >= 0) close(job->fd);
    job->shared = NULL;
    job->fd = -1;
}

/* Whether it took part at all. */
static bool explored(const struct job *job)
{
    return job->result.schedules > 0 || (job->result.sampler[0] && !job->result.ended);
}

/* By the terminal or by us, not by itself. */
static bool was_stopped(const struct job *job)
{
    const int status = job->ending.status;
    if (job->err) return true;
    return WIFSIGNALED(status) && (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGTERM ||
                                   WTERMSIG(status) == SIGHUP);
}

/* It ended before the search did: that is a verdict, too. */
static void judge_death(struct job *job)
{
    char how[80];
    hd_explore_result *result = &job->result;
    result->verdict = HD_VERDICT_CRASH;
    result->code = WIFSIGNALED(job->ending.status) ? WTERMSIG(job->ending.status)
                                                 : WEXITSTATUS(job->ending.status);
    result->failures++;
    result->failed_at = result->schedules + 1;
    snprintf(result->message, sizeof(result->message), "%s in the middle of a schedule",
             program_ending(&job->ending, how, sizeof(how)));
}

/* Run the program, as the job says, to its end. */
static int launch_job(struct job *job, const char *sampler, bool fork)
{
    const struct exploration *x = job->exploration;
    const struct explore_options *o = x->options;
    char list[PROGRAM_PATH_MAX + 512] = "";
    FILE *text = fmemopen(list, sizeof(list), "w");
    if (!text) return -ENOMEM;
    fprintf(text, "HEDDLE_EXPLORE=seed=%" PRIu64 " schedules=%" PRIu64 " status=%d log=%s",
            job->seed, job->schedules, job->fd, job->log);
    if (sampler) fprintf(text, " sampler=%s", sampler);
    if (o->steps.set) fprintf(text, " steps=%" PRIu64, o->steps.value);
    if (o->time.set) fprintf(text, " seconds=%.9f", (double)o->time.value / 1e9);
    if (o->clock) fputs(" clock", text);
    if (o->keep_going) fputs(" keep-going", text);
    if (o->ignore_results) fputs(" ignore-results", text);
    if (o->allow_stale) fputs(" allow-stale", text);
    if (fork) fputs(" fork", text);
    fclose(text);
    const struct launch launch = {.argv = x->argv, .env = {list}, .streams = PROGRAM_SILENT};
    return program_run(&launch, &job->ending);
}

static int run_job(void *arg)
{
    struct job *job = arg;
    struct exploration *x = job->exploration;
    job->err = launch_job(job, x->options->sampler, x->fork);
    job->result = look(job);
    job->ended = true;
    if (explored(job) && !job->result.ended && !was_stopped(job)) judge_death(job);
    if (job->result.verdict && !x->failed) {
        x->failed = job;
        if (!x->options->keep_going) hd_nursery_cancel(x->round);
    }
    return 0;
}

/* ---- schedules that do not end ---- */

/* What a schedule takes on average, of those that ended; HD_FOREVER if none did. */
static int64_t usual_ns(const struct exploration *x)
{
    const uint64_t schedules = explore_sum(x).schedules;
    int64_t sum_ns = 0;
    for (unsigned i = 0; i < x->job_count; i++) sum_ns += x->jobs[i].seen_ns - x->began;
    return schedules ? sum_ns / (int64_t)schedules : HD_FOREVER;
}

/* Whether it was killed in the middle of a schedule that was far longer than the others. */
static bool is_endless(const struct exploration *x, const struct job *job)
{
    const int64_t took_ns = x->ended - job->seen_ns;
    if (job == x->given_up) return true;
    if (job->err != -ETIMEDOUT || job->result.ended) return false;
    return took_ns >= ENDLESS_NS && took_ns / ENDLESS_TIMES >= usual_ns(x);
}

/* Whether it shall be: nothing else ends the round. */
static bool is_past_hope(const struct exploration *x, const struct job *job)
{
    if (x->options->time.set || job->ended || !x->round) return false;
    return job->stuck_ns >= PATIENCE_NS && job->stuck_ns / PATIENCE_TIMES >= usual_ns(x);
}

static void look_at(struct job *job, int64_t now_ns, int64_t passed_ns)
{
    const uint64_t schedules = job->shared->schedules;
    const bool moved = schedules != job->seen || !job->seen_ns;
    job->stuck_ns = moved ? 0 : job->stuck_ns + passed_ns;
    job->seen = schedules;
    if (moved) job->seen_ns = now_ns;
}

/* Sees when each job has ended a schedule, until it is cancelled, or one is given up. While all
 * were stopped, as by a terminal, no time has passed. */
static int watch_jobs(void *arg)
{
    struct exploration *x = arg;
    int64_t last_ns = hd_now(NULL);
    do {
        const int64_t now_ns = hd_now(NULL), passed_ns = now_ns - last_ns;
        last_ns = now_ns;
        for (unsigned i = 0; i < x->job_count; i++) {
            look_at(&x->jobs[i], now_ns, passed_ns < WATCH_MAX_NS ? passed_ns : WATCH_MAX_NS);
            if (!is_past_hope(x, &x->jobs[i])) continue;
            x->given_up = &x->jobs[i];
            hd_nursery_cancel(x->round);
            return 0;
        }
    } while (hd_sleep_ms(WATCH_MS) == 0);
    return 0;
}

/* The round was ended, and nothing else was found. */
static void judge_endless(struct exploration *x)
{
    for (unsigned i = 0; i < x->job_count && !x->failed && !tool_interrupted(); i++) {
        struct job *job = &x->jobs[i];
        hd_explore_result *result = &job->result;
        if (!is_endless(x, job)) continue;
        result->verdict = HD_VERDICT_LIVELOCK;
        result->failures++;
        result->failed_at = result->schedules + 1;
        snprintf(result->message, sizeof(result->message), "a schedule did not end within %.1f s",
                 (double)(x->ended - job->seen_ns) / 1e9);
        x->failed = job;
    }
}

/* ---- rounds ---- */

static void progress_text(void *arg, char text[static PROGRESS_TEXT_MAX])
{
    const struct exploration *x = arg;
    const struct explore_sums sums = explore_sum(x);
    const double seconds = (double)(hd_now(NULL) - x->began) / 1e9;
    const hd_explore_result first = x->jobs[0].ended ? x->jobs[0].result : look(&x->jobs[0]);
    snprintf(text, PROGRESS_TEXT_MAX,
             "%" PRIu64 " schedules, %.0f/s, %" PRIu64 " steps at most, %" PRIu64
             " failed, %.0f s, %.60s", sums.schedules, (double)sums.schedules / (seconds + 1e-3),
             sums.steps_max, sums.failures, seconds, first.sampler);
}

/* Each has a seed of its own, from which it draws those of its schedules. */
static int open_jobs(struct exploration *x)
{
    const struct explore_options *o = x->options;
    const uint64_t each = o->schedules.set ? o->schedules.value / x->job_count : UINT64_MAX;
    const uint64_t rest = o->schedules.set ? o->schedules.value % x->job_count : 0;
    const uint64_t first = o->seed.set ? o->seed.value : 1;
    int err = 0;
    for (unsigned i = 0; i < x->job_count; i++) {
        struct job *job = &x->jobs[i];
        *job = (struct job){.number = i, .exploration = x, .seed = first + i, .fd = -1,
                            .schedules = each + (i < rest)};
        if (!err) err = open_job(job);
    }
    return err;
}

static void close_jobs(struct exploration *x)
{
    for (unsigned i = 0; i < x->job_count; i++) close_job(&x->jobs[i]);
}

/* Returns 0 or -errno. */
static int run_round(struct exploration *x)
{
    const struct explore_options *o = x->options;
    struct progress progress;
    hd_nursery watch;
    x->failed = x->given_up = NULL;
    x->round = NULL;
    int err = open_jobs(x);
    if (!err) err = hd_nursery_open(&watch, NULL);
    if (err) return err;
    x->began = hd_now(NULL);
    const int64_t deadline = o->time.set ? x->began + (int64_t)o->time.value + TIME_GRACE_NS : 0;
    progress_begin(&progress, progress_text, x);
    err = hd_go(&watch, watch_jobs, x);
    HD_NURSERY(round, .deadline = deadline, .on_error = HD_ON_ERROR_COLLECT) {
        x->round = round;
        for (unsigned i = 0; i < x->job_count && !err; i++) {
            err = hd_go(round, run_job, &x->jobs[i]);
        }
        if (err) hd_nursery_cancel(round);
    }
    x->round = NULL;
    x->ended = hd_now(NULL);
    progress_end(&progress);
    hd_nursery_cancel(&watch);
    hd_nursery_leave(&watch);
    return err;
}

/* ---- single runs ---- */

/* Run one schedule and record it; with `sync` up to the last event before it dies. */
static int record(const struct exploration *x, const hd_explore_result *schedule, const char *log,
                  bool sync, struct ending *ending)
{
    char seed[40], sampler[HD_SAMPLER_TEXT_MAX + 32], file[PROGRAM_PATH_MAX + 16];
    snprintf(seed, sizeof(seed), "HEDDLE_SEED=%" PRIu64, schedule->seed);
    snprintf(sampler, sizeof(sampler), "HEDDLE_SAMPLER=%s", schedule->sampler);
    snprintf(file, sizeof(file), "HEDDLE_LOG=%.*s", PROGRAM_PATH_MAX, log);
    const struct launch launch = {.argv = x->argv,
                                  .env = {seed, sampler, file, sync ? "HEDDLE_LOG_SYNC=1" : NULL},
                                  .streams = PROGRAM_GATHERED};
    int err = -ECANCELED;
    HD_SCOPE(limit, .deadline = hd_now(NULL) + PROBE_TIME_NS) err = program_run(&launch, ending);
    return err;
}

/* Whether one of them was cut, by a crash or a full disk, and that is all. */
static bool only_cut(const struct comparison *c)
{
    return !c->headers && (compare_is_cut(c->a, c->sequence) || compare_is_cut(c->b, c->sequence));
}

/* Not even the header could be written: say what the program said. */
static int unrecorded(const struct exploration *x, const struct ending *ending)
{
    tool_complain(0, "%s could not record its run:", x->argv[0]);
    fputs(ending->said, stderr);
    return TOOL_SYSTEM;
}

static bool is_log(const char *path)
{
    hd_log *log;
    if (hd_log_open(&log, path) != 0) return false;
    hd_log_close(log);
    return true;
}

/* Two runs of one schedule should be equal. Returns 0, or an exit code. */
static int probe(struct exploration *x)
{
    static const hd_explore_result schedule = {.seed = 1, .sampler = "fair"};
    char paths[2][PROGRAM_PATH_MAX];
    struct ending ending;
    for (unsigned i = 0; i < 2; i++) {
        int err = scratch_path(paths[i], i == 0 ? "first.hdlog" : "second.hdlog");
        if (err) return tool_complain(TOOL_SYSTEM, "no scratch files: %s", strerror(-err));
        err = record(x, &schedule, paths[i], false, &ending);
        if (err == -ECANCELED) return TOOL_INTERRUPTED;
        if (err == -ETIMEDOUT) return 0; /* It is not for us to say that this is wrong. */
        if (err) return program_refused(x->argv, err);
        if (access(paths[i], F_OK) != 0) return program_foreign(x->argv, &ending);
        if (!is_log(paths[i])) return unrecorded(x, &ending);
    }
    struct comparison comparison;
    const int status = compare_logs(&comparison, paths[0], paths[1]);
    if (!status && comparison.differ && !only_cut(&comparison)) {
        tool_complain(0, "two runs of one schedule differ, so what is found may not repeat:");
        compare_print(&comparison, stderr, "the first", "the second");
        x->diverges = true;
    }
    compare_end(&comparison);
    return status;
}

/* ---- all of it ---- */

/* The disk was full, say. */
static void warn_if_cut(const char *path)
{
    hd_log *log;
    if (event_open(&log, path) != 0) return;
    (void)sidecar_warn(log, path);
    hd_log_close(log);
}

/* How the process of a crash ended: the library's words tell a signal from a status. */
static struct ending death(const hd_explore_result *result)
{
    const bool killed = !strncmp(result->message, "killed ", strlen("killed "));
    return (struct ending){.status = killed ? result->code : result->code << 8};
}

/* The log of the failure at its place. Returns its name, or NULL. */
static const char *keep_log(const struct exploration *x, const struct job *job)
{
    static char name[PROGRAM_PATH_MAX];
    if (x->options->output) {
        snprintf(name, sizeof(name), "%s", x->options->output);
    } else {
        snprintf(name, sizeof(name), "%s.hdlog", program_name(x->argv[0]));
    }
    if (access(job->log, F_OK) != 0) return NULL;
    const int err = scratch_keep(job->log, name);
    if (err) {
        tool_complain(0, "cannot write %s: %s", name, strerror(-err));
        return NULL;
    }
    if (!program_is_file(name)) return NULL; /* A device: nothing can be read from it. */
    const bool crashed = job->result.verdict == HD_VERDICT_CRASH;
    sidecar_sign(name, x->argv, NULL, crashed ? &job->death : NULL);
    warn_if_cut(name);
    return name;
}

/* Run the schedule of a failure in a process that ran nothing before. Returns whether it fails
 * again, or that cannot be told; a crash is recorded then. */
static bool fails_alone(struct exploration *x, struct job *job)
{
    struct job alone = {.number = EXPLORE_JOBS_MAX, .exploration = x, .seed = job->result.seed,
                        .schedules = 1, .fd = -1};
    int err = open_job(&alone);
    if (!err) {
        HD_SCOPE(limit, .deadline = hd_now(NULL) + PROBE_TIME_NS) {
            err = launch_job(&alone, job->result.sampler, true);
        }
        alone.result = look(&alone);
    }
    close_job(&alone);
    const hd_explore_result *result = &alone.result;
    if (err || !result->ended) return true;
    if (result->verdict != job->result.verdict) return false;
    if (result->verdict != HD_VERDICT_CRASH) return true;
    job->death = death(result);
    return result->code == job->result.code && scratch_keep(alone.log, job->log) == 0;
}

/* Whether the round has to be done again, each schedule in a process of its own. */
static bool wants_fork(struct exploration *x)
{
    struct job *job = x->failed;
    if (!job || tool_interrupted()) return false;
    if (x->fork) {
        job->death = death(&job->result);
        return false;
    }
    const bool differs = job->result.verdict == HD_VERDICT_DIVERGED;
    if (!differs && fails_alone(x, job)) return false;
    if (differs) {
        tool_complain(0, "a schedule did not do the same again: something outlives a run.");
    } else {
        tool_complain(0, "a schedule failed (%s: %s), but not when it ran alone: something outlives"
                      " a run.", hd_verdict_name(job->result.verdict), job->result.message);
    }
    fputs("  Going on with --fork, each schedule in a process of its own.\n", stderr);
    return true;
}

static int conclude(struct exploration *x)
{
    judge_endless(x);
    for (unsigned i = 0; i < x->job_count; i++) {
        const struct job *job = &x->jobs[i];
        if (job->err && job->err != -ECANCELED && job->err != -ETIMEDOUT) {
            return program_refused(x->argv, job->err);
        }
        if (job->ended && job->result.ended && !job->result.verdict && job->result.code) {
            return tool_complain(TOOL_SYSTEM, "%s cannot be explored: %s", x->argv[0],
                                 strerror(-job->result.code));
        }
        if (job->ended && !was_stopped(job) && !explored(job)) {
            return program_foreign(x->argv, &job->ending);
        }
    }
    return explore_report(x, x->failed ? keep_log(x, x->failed) : NULL);
}

static int explore(void *arg)
{
    struct exploration *x = arg;
    int status = probe(x);
    if (status) return status;
    if (x->diverges) x->fork = true;
    int err = run_round(x);
    if (!err && wants_fork(x)) {
        close_jobs(x);
        x->fork = true;
        err = run_round(x);
        if (!err) (void)wants_fork(x);
    }
    status = err ? tool_complain(TOOL_SYSTEM, "cannot start: %s", strerror(-err)) : conclude(x);
    close_jobs(x);
    return status;
}

static int explore_command(struct arguments *arguments)
{
    if (arguments->count == 0) return options_refuse("explore", "a program is wanted");
    if (options.jobs.set && (options.jobs.value == 0 || options.jobs.value > EXPLORE_JOBS_MAX)) {
        return options_refuse("explore", "--jobs is from 1 to 256");
    }
    if (options.schedules.set && options.schedules.value == 0) {
        return options_refuse("explore", "--schedules is at least 1");
    }
    if (options.seed.set && options.seed.value == 0) {
        return options_refuse("explore", "--seed is at least 1");
    }
    if (options.steps.set && (options.steps.value == 0 || options.steps.value > STEPS_MAX)) {
        return options_refuse("explore", "--steps is from 1 to 1000000000");
    }
    if (options.time.set && (options.time.value == 0 || options.time.value > TIME_MAX_NS)) {
        return options_refuse("explore", "--time is more than nothing, and at most 10000h");
    }
    const hd_explore_options check = {.size = sizeof(check), .sampler = options.sampler};
    const char *error = hd_explore_error(&check);
    if (error) return tool_complain(TOOL_USAGE, "--sampler %s: %s", options.sampler, error);
    if (options.sampler && options.sampler[strcspn(options.sampler, " \t\n")]) {
        return options_refuse("explore", "a sampler has no blanks");
    }
    if (!options.schedules.set && !options.time.set) {
        options.time = (struct number){TIME_DEFAULT_NS, true};
    }
    const int refused = program_check_output(options.output);
    if (refused) return refused;
    struct exploration x = {.options = &options, .argv = arguments->operands, .fork = options.fork};
    x.job_count = options.jobs.set ? (unsigned)options.jobs.value : tool_cpus();
    /* What is enumerated cannot be dealt out. */
    if (options.sampler && !strncmp(options.sampler, "all", 3)) x.job_count = 1;
    if (options.schedules.set && options.schedules.value < x.job_count) {
        x.job_count = (unsigned)options.schedules.value;
    }
    x.jobs = calloc(EXPLORE_JOBS_MAX, sizeof(*x.jobs));
    if (!x.jobs) return tool_complain(TOOL_SYSTEM, "out of memory");
    const int status = tool_run(explore, &x);
    free(x.jobs);
    return status;
}

const struct command command_explore = {
    .name = "explore",
    .operands = "PROGRAM [--] [ARGS...]",
    .summary = "Run many schedules of a program, until one fails",
    .details = "What the program prints is dropped. Options of the program go after --.\n",
    .options = explore_options,
    .run = explore_command,
};
