/* SPDX-License-Identifier: MIT
 *
 * model: runs the scenarios in their memory modes, and the mutants against them.
 *
 * Each exploration is a process of its own, so that a crash or corrupted memory is one
 * failure. Cases run side by side (lanes.h). Output is TAP.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mutant.h"
#include "lanes.h"
#include "report.h"

#define STEPS_DEFAULT  1000
#define CAP_DEFAULT    2000000
#define DELAYS_DEFAULT 2
#define NOT_GIVEN      (-1)
#define DECISIONS_MAX  65536

static struct model_scenario *scenarios, **scenarios_end;

static struct {
    const char *program;
    const char *scenario; /* NULL is all */
    int memory;           /* NOT_GIVEN is all that the scenario asks for */
    int bound, delays;    /* NOT_GIVEN is the scenario's */
    enum hdi_mutant_id mutant;
    long random;
    uint64_t seed;
    bool mutants, list;
    bool replay;
    size_t replay_count;
    uint8_t decisions[DECISIONS_MAX];
} options = {.memory = NOT_GIVEN, .bound = NOT_GIVEN, .delays = NOT_GIVEN};

static struct hdi_model_result *shared; /* a case's own, written by the exploring process */

/* ---- Mutants and scenarios by name ---------------------------------------------------- */

static const struct {
    const char *name, *what;
} mutants[] = {
    {"none", ""},
#define MUTANT_ROW(name, what) {#name, what},
    HDI_MUTANTS(MUTANT_ROW)
#undef MUTANT_ROW
};
enum { MUTANTS = sizeof(mutants) / sizeof(*mutants) };

static int find_mutant(const char *name, size_t length)
{
    for (int i = 1; i < MUTANTS; i++) {
        if (strlen(mutants[i].name) == length && memcmp(mutants[i].name, name, length) == 0) {
            return i;
        }
    }
    return -1;
}

__attribute__((__noreturn__, format(printf, 1, 2))) static void refuse(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("model: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(2);
}

/* The next word of a list separated by spaces, or NULL. */
static const char *next_word(const char *list, size_t *length)
{
    list += strspn(list, " ");
    *length = strcspn(list, " ");
    return *length ? list : NULL;
}

static bool kills(const struct model_scenario *s, int mutant)
{
    size_t length;
    for (const char *at = s->kills ? s->kills : ""; (at = next_word(at, &length)); at += length) {
        if (find_mutant(at, length) == mutant) return true;
    }
    return false;
}

static const struct model_scenario *find_scenario(const char *name)
{
    const struct model_scenario *s = scenarios;
    while (s && strcmp(s->name, name) != 0) s = s->next;
    return s;
}

static int scenario_bound(const struct model_scenario *s, int memory)
{
    const int bounds[HDI_MEMORY_MODES] = {s->sc, s->tso, s->pso};
    return bounds[memory];
}

static void check_scenarios(void)
{
    for (const struct model_scenario *s = scenarios; s; s = s->next) {
        size_t length;
        const char *at = s->kills ? s->kills : "";
        for (; (at = next_word(at, &length)); at += length) {
            if (find_mutant(at, length) < 0) {
                refuse("%s: %s kills '%.*s', which is not in src/base/mutant.h", s->file, s->name,
                       (int)length, at);
            }
        }
        if (!s->sc && !s->tso && !s->pso) refuse("%s: %s has no mode", s->file, s->name);
        if (s->kills && s->expect) refuse("%s: %s expects to fail anyway", s->file, s->name);
        if (find_scenario(s->name) != s) refuse("%s: a second %s", s->file, s->name);
    }
}

void model_register(struct model_scenario *scenario)
{
    if (!scenarios_end) scenarios_end = &scenarios;
    *scenarios_end = scenario;
    scenarios_end = &scenario->next;
}

void model_equal_(long long a, long long b, const char *a_text, const char *b_text,
                  const char *file, int line)
{
    if (a == b) return;
    char text[200];
    snprintf(text, sizeof(text), "%s is %lld, expected %s = %lld", a_text, a, b_text, b);
    hdi_model_fail(HDI_VERDICT_CHECK, file, line, text);
}

/* ---- One exploration ------------------------------------------------------------------ */

struct run {
    const struct model_scenario *scenario;
    enum hdi_model_memory memory;
    enum hdi_search_mode mode;
    enum hdi_mutant_id mutant;
    int bound;
    uint64_t executions;
    bool report; /* print the execution if it has a verdict, or always when replaying */
};

static uint16_t budget(int bound)
{
    return bound >= MODEL_ALL ? HDI_BUDGET_UNLIMITED : (uint16_t)bound;
}

static void print_command(const struct run *run, const struct hdi_model_result *result)
{
    printf("# repeat with: %s --scenario %s --mode %s", options.program, run->scenario->name,
           report_memory(run->memory));
    if (run->mutant) printf(" --mutant %s", mutants[run->mutant].name);
    printf(" --replay '%s'\n#\n", result->replay);
}

static void explore(const struct run *run, struct hdi_model_result *result)
{
    const struct model_scenario *s = run->scenario;
    const int delays = options.delays != NOT_GIVEN ? options.delays
                       : s->delays                 ? s->delays
                                                   : DELAYS_DEFAULT;
    const struct hdi_model_config config = {
        .memory = run->memory,
        .early_wakes = s->early_wakes,
        .explore = {.mode = run->mode,
                    .budgets = {[HDI_BUDGET_PREEMPT] = budget(run->bound),
                                [HDI_BUDGET_DELAY] = budget(delays)},
                    .executions_max = run->executions,
                    .steps_max = s->steps ? s->steps : STEPS_DEFAULT,
                    .seed = options.seed,
                    .replay = options.decisions,
                    .replay_count = options.replay_count},
    };
    hdi_mutant = run->mutant;
    hdi_model_run(&config, s->body, NULL, result);
    const bool found = result->verdict != HDI_VERDICT_PASS;
    if (!run->report || !(found || run->mode == HDI_SEARCH_REPLAY)) return;
    report_execution(s, run->memory, result);
    print_command(run, result);
}

/* Explore in a child. The result is in *shared. */
static void explore_apart(const struct run *run)
{
    memset(shared, 0, sizeof(*shared));
    const pid_t pid = lanes_fork();
    if (pid == 0) {
        explore(run, shared);
        fflush(NULL);
        _exit(0);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (status != 0 && shared->verdict == HDI_VERDICT_PASS) {
        shared->verdict = HDI_VERDICT_CRASH;
        snprintf(shared->text, sizeof(shared->text), "the exploring process died, status %d",
                 status);
    }
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- All scenarios ------------------------------------------------------------------- */

/* Show the failure with the fewest preemptions. */
static void report_smallest(struct run run)
{
    const int most = run.bound;
    run.report = true;
    for (run.bound = 0; run.mode == HDI_SEARCH_ALL && run.bound < most && run.bound < 4;
         run.bound++) {
        explore_apart(&run);
        if (shared->verdict != HDI_VERDICT_PASS) return;
    }
    run.bound = most;
    explore_apart(&run);
}

static const char *coverage(const struct hdi_search_stats *stats, enum hdi_search_mode mode)
{
    if (mode == HDI_SEARCH_REPLAY) return "replayed";
    if (mode == HDI_SEARCH_RANDOM) return "random walk";
    if (!stats->exhausted) return "capped";
    return stats->pruned ? "all within bounds" : "all there are";
}

static void print_result(int number, bool ok, const struct run *run,
                         const struct hdi_model_result *result, double seconds)
{
    const struct model_scenario *s = run->scenario;
    const struct hdi_search_stats *stats = &result->stats;
    char bound[16];
    snprintf(bound, sizeof(bound), run->bound >= MODEL_ALL ? "none" : "%d", run->bound);
    printf("%s %d - %s %s: bound %s, %llu interleavings, %u steps at most, ", ok ? "ok" : "not ok",
           number, s->name, report_memory(run->memory), bound,
           (unsigned long long)stats->executions, stats->steps_max);
    if (result->verdict) {
        printf("%s found, %.2f s\n", report_verdict(result->verdict), seconds);
    } else {
        printf("%s, %.2f s\n", coverage(stats, run->mode), seconds);
    }
}

static struct run *runs; /* the cases */
static int run_count;

static bool run_one(int index, uint64_t *interleavings)
{
    const double start = now_s();
    struct run run = runs[index];
    shared = lanes_share(sizeof(*shared));
    explore_apart(&run);
    struct hdi_model_result result = *shared;
    if (run.mode == HDI_SEARCH_ALL && !result.verdict && !result.stats.exhausted) {
        /* The depth-first part saw only late deviations: look at early ones too. */
        struct run walk = run;
        walk.mode = HDI_SEARCH_RANDOM;
        walk.bound = MODEL_ALL;
        walk.executions = run.executions / 10 + 1;
        explore_apart(&walk);
        const uint64_t before = result.stats.executions;
        if (shared->verdict) {
            result = *shared;
            run = walk;
        }
        result.stats.executions = before + shared->stats.executions;
    }
    const bool ok = result.verdict == run.scenario->expect;
    const double seconds = now_s() - start;
    if (!ok && !result.verdict) {
        printf("# %s is expected to fail (%s) and does not\n", run.scenario->name,
               report_verdict(run.scenario->expect));
    } else if (!ok) {
        report_smallest(run);
    }
    print_result(index + 1, ok, &run, &result, seconds);
    *interleavings = result.stats.executions;
    return ok;
}

static void add_runs(const struct model_scenario *s)
{
    for (int memory = 0; memory < HDI_MEMORY_MODES; memory++) {
        const int own = scenario_bound(s, memory);
        const bool forced = options.scenario && options.memory == memory;
        if (options.memory != NOT_GIVEN && options.memory != memory) continue;
        if (!own && !forced) continue;
        if (options.random && s->expect == HDI_VERDICT_DIVERGED) continue; /* Nothing repeats. */
        runs = realloc(runs, sizeof(*runs) * (size_t)(run_count + 1));
        if (!runs) refuse("no memory");
        runs[run_count++] = (struct run){
            .scenario = s,
            .memory = (enum hdi_model_memory)memory,
            .mode = options.random ? HDI_SEARCH_RANDOM : HDI_SEARCH_ALL,
            .mutant = options.mutant,
            .bound = options.bound != NOT_GIVEN ? options.bound
                     : options.random           ? MODEL_ALL
                     : own                      ? own
                                                : 2,
            .executions = options.random ? (uint64_t)options.random
                          : s->cap       ? s->cap
                                         : CAP_DEFAULT,
        };
    }
}

static int run_scenarios(void)
{
    const double start = now_s();
    for (const struct model_scenario *s = scenarios; s; s = s->next) {
        if (!options.scenario || strcmp(options.scenario, s->name) == 0) add_runs(s);
    }
    const struct lanes_totals totals = lanes_run(run_count, run_one);
    printf("1..%d\n", run_count);
    printf("# %d of %d passed, %llu interleavings, %.1f s\n", run_count - totals.failed, run_count,
           (unsigned long long)totals.interleavings, now_s() - start);
    free(runs);
    return totals.failed ? 1 : 0;
}

/* ---- Mutants ------------------------------------------------------------------------- */

/* Bounds grow one by one: most mutants die of one or two preemptions. */
static bool kill_in_mode(const struct model_scenario *s, int memory, int mutant, uint64_t *count)
{
    const int most = options.bound != NOT_GIVEN ? options.bound : scenario_bound(s, memory);
    struct run run = {.scenario = s,
                      .memory = (enum hdi_model_memory)memory,
                      .mutant = (enum hdi_mutant_id)mutant,
                      .executions = s->cap ? s->cap : CAP_DEFAULT};
    for (int bound = 1; bound <= most; bound++) {
        run.bound = bound < 4 ? bound : most;
        explore_apart(&run);
        *count += shared->stats.executions;
        if (shared->verdict == HDI_VERDICT_DIVERGED) refuse("%s: %s", s->name, shared->text);
        if (shared->verdict != HDI_VERDICT_PASS) return true;
        if (run.bound == most || !shared->stats.pruned) return false;
    }
    return false;
}

static int planted[MUTANTS]; /* the cases */

static bool kill_mutant(int index, uint64_t *count)
{
    const int mutant = planted[index];
    bool listed = false;
    shared = lanes_share(sizeof(*shared));
    for (const struct model_scenario *s = scenarios; s; s = s->next) {
        if (!kills(s, mutant)) continue;
        if (options.scenario && strcmp(options.scenario, s->name) != 0) continue;
        listed = true;
        for (int memory = 0; memory < HDI_MEMORY_MODES; memory++) {
            if (!scenario_bound(s, memory)) continue;
            if (options.memory != NOT_GIVEN && options.memory != memory) continue;
            if (!kill_in_mode(s, memory, mutant, count)) continue;
            printf("ok %d - killed    %-22s by %s (%s) after %llu interleavings: %s\n", index + 1,
                   mutants[mutant].name, s->name, report_memory((enum hdi_model_memory)memory),
                   (unsigned long long)*count, report_verdict(shared->verdict));
            return true;
        }
    }
    printf("not ok %d - SURVIVED  %-22s %s after %llu interleavings: %s\n", index + 1,
           mutants[mutant].name, listed ? "all scenarios" : "no scenario lists it,",
           (unsigned long long)*count, mutants[mutant].what);
    return false;
}

static int run_mutants(void)
{
    int count = 0;
    for (int i = 1; i < MUTANTS; i++) {
        if (options.mutant && (int)options.mutant != i) continue;
        if (options.scenario && !kills(find_scenario(options.scenario), i)) continue;
        planted[count++] = i;
    }
    const int survived = lanes_run(count, kill_mutant).failed;
    printf("1..%d\n# %d of %d mutants killed\n", count, count - survived, count);
    return survived ? 1 : 0;
}

/* ---- Command line ---------------------------------------------------------------------- */

static int run_replay(void)
{
    if (!options.scenario || options.memory == NOT_GIVEN) {
        refuse("--replay needs --scenario and --mode");
    }
    const struct run run = {.scenario = find_scenario(options.scenario),
                            .memory = (enum hdi_model_memory)options.memory,
                            .mode = HDI_SEARCH_REPLAY,
                            .bound = MODEL_ALL,
                            .mutant = options.mutant,
                            .report = true};
    shared = lanes_share(sizeof(*shared));
    explore(&run, shared); /* in this process, for debuggers */
    const bool ok = shared->verdict == run.scenario->expect;
    print_result(1, ok, &run, shared, 0);
    printf("1..1\n");
    return ok ? 0 : 1;
}

static void print_bound(const char *mode, int bound)
{
    if (bound >= MODEL_ALL) {
        printf(" %s=all", mode);
    } else if (bound) {
        printf(" %s=%d", mode, bound);
    }
}

static int run_list(void)
{
    for (const struct model_scenario *s = scenarios; s; s = s->next) {
        printf("%-28s", s->name);
        print_bound("sc", s->sc);
        print_bound("tso", s->tso);
        print_bound("pso", s->pso);
        if (s->expect) printf("  expects: %s", report_verdict(s->expect));
        if (s->kills) printf("  kills: %s", s->kills);
        putchar('\n');
    }
    return 0;
}

static void print_help(void)
{
    printf("usage: %s [options]\n"
           "Explore the interleavings of the library's lock-free code.\n\n"
           "  --list             the scenarios, their modes and bounds\n"
           "  --scenario NAME    only this one\n"
           "  --mode MODE        only this memory mode: sc, tso or pso\n"
           "  --bound N          at most N preemptions; 255 is no bound\n"
           "  --delays N         at most N delayed stores; 255 is no bound\n"
           "  --random N         N random walks instead of all interleavings\n"
           "  --seed S           for --random\n"
           "  --mutant NAME      with this fault of src/base/mutant.h planted\n"
           "  --mutants          plant each fault; fails if one is not found\n"
           "  --replay LIST      one execution by its decisions, with its trace\n"
           "  --help             this text\n\n"
           "Exit status: 0 all as expected, 1 not, 2 wrong usage.\n",
           options.program);
}

static long parse_long(const char *option, const char *text, long most)
{
    char *end;
    errno = 0;
    const long n = strtol(text, &end, 10);
    if (errno || end == text || *end || n < 0 || n > most) {
        refuse("--%s takes a number from 0 to %ld, not '%s'", option, most, text);
    }
    return n;
}

static void parse_memory(const char *text)
{
    for (int i = 0; i < HDI_MEMORY_MODES; i++) {
        if (strcmp(text, report_memory((enum hdi_model_memory)i)) == 0) options.memory = i;
    }
    if (options.memory == NOT_GIVEN) refuse("--mode takes sc, tso or pso, not '%s'", text);
}

static void parse_replay(const char *text)
{
    const long n = hdi_search_parse(text, options.decisions, DECISIONS_MAX);
    if (n < 0 || n > DECISIONS_MAX) refuse("--replay: '%s' is no list of decisions", text);
    options.replay = true;
    options.replay_count = (size_t)n;
}

static void parse_option(int option, const char *value)
{
    switch (option) {
    case 'l': options.list = true; break;
    case 's':
        if (!find_scenario(value)) refuse("no scenario '%s'; --list shows them", value);
        options.scenario = value;
        break;
    case 'm': parse_memory(value); break;
    case 'b': options.bound = (int)parse_long("bound", value, MODEL_ALL); break;
    case 'd': options.delays = (int)parse_long("delays", value, MODEL_ALL); break;
    case 'n':
        options.random = parse_long("random", value, 1000000000000);
        if (!options.random) refuse("--random needs at least one walk");
        break;
    case 'e': options.seed = (uint64_t)parse_long("seed", value, LONG_MAX); break;
    case 'u': {
        const int mutant = find_mutant(value, strlen(value));
        if (mutant < 0) refuse("no mutant '%s'; src/base/mutant.h lists them", value);
        options.mutant = (enum hdi_mutant_id)mutant;
        break;
    }
    case 'M': options.mutants = true; break;
    case 'r': parse_replay(value); break;
    case 'h': print_help(); exit(0);
    default: refuse("--help shows the options");
    }
}

static void parse_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"list", no_argument, NULL, 'l'},          {"scenario", required_argument, NULL, 's'},
        {"mode", required_argument, NULL, 'm'},    {"bound", required_argument, NULL, 'b'},
        {"delays", required_argument, NULL, 'd'},  {"random", required_argument, NULL, 'n'},
        {"seed", required_argument, NULL, 'e'},    {"mutant", required_argument, NULL, 'u'},
        {"mutants", no_argument, NULL, 'M'},       {"replay", required_argument, NULL, 'r'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
    };
    options.program = argv[0];
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        parse_option(option, optarg);
    }
    if (optind < argc) refuse("what is '%s'? --help shows the options", argv[optind]);
    if (options.mutants && (options.replay || options.random)) {
        refuse("--mutants goes with neither --replay nor --random");
    }
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    check_scenarios();
    parse_options(argc, argv);
    if (options.list) return run_list();
    if (options.replay) return run_replay();
    return options.mutants ? run_mutants() : run_scenarios();
}
