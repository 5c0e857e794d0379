/* SPDX-License-Identifier: MIT
 *
 * The explorer's side of the benchmark: `explore_bench ROW [key=value]...` runs one sample of one
 * row and prints `key value` lines; `explore_bench --table` prints what the row `corpus` is made
 * of: every program of tests/corpus with every sampler. What each row does is in bench/README.md.
 *
 * Programs and samplers are shared out among the CPUs, a process each, through memory they share.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "corpus.h"

#define SCHEDULES    10000
#define SEEDS_MAX    1000
#define PROGRAMS_MAX 128
#define FOUND_ENOUGH 0.95 /* of the seeds */
#define REPLAYS_MAX  200
#define BEST_LEAST   10   /* schedules: sooner is no sooner */

enum { PORTFOLIO, SAMPLERS = 6 };
static const char *const samplers[SAMPLERS] = {"portfolio", "random", "pct:3", "pos", "urw",
                                               "all:2"};

static unsigned seeds = 100, ms = 80;
static const char *speed_sampler = "portfolio";

#define MUST(condition)                                                                  \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);      \
            abort();                                                                     \
        }                                                                                \
    } while (0)

/* CPU time: a search is one thread, and other processes may be at work. */
static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static hd_explore_result explore(hd_fn *fn, void *arg, const char *sampler, uint64_t seed,
                                 uint64_t schedules, const char *log)
{
    hd_explore_options options = HD_EXPLORE_OPTIONS_INIT;
    hd_explore_result result;
    options.sampler = sampler;
    options.seed = seed;
    options.schedules = schedules;
    options.log = log;
    MUST(hd_explore(fn, arg, &options, &result) == 0);
    return result;
}

/* ---- speed: schedules of a program in which nothing is wrong ---- */

#define SPEED_TASKS 3
#define SPEED_STEPS 11 /* of each */

static int speed_shared[SPEED_TASKS];

static int speed_task(void *arg)
{
    for (unsigned i = 0; i < SPEED_STEPS; i++)
        hd_atomic_add(&speed_shared[(PLACE(arg) + i) % SPEED_TASKS], 1);
    return 0;
}

static int speed_program(void *arg)
{
    (void)arg;
    CROWD(SPEED_TASKS, speed_task, NULL);
    return 0;
}

/* An enumeration may have an end before the time has. */
static int row_speed(void)
{
    const double target = (double)ms * 1e6;
    uint64_t schedules = 1000;
    for (;; schedules *= 2) {
        const double start = now_ns();
        const hd_explore_result result =
            explore(speed_program, NULL, speed_sampler, 1, schedules, NULL);
        const double took = now_ns() - start;
        MUST(result.failures == 0);
        if (took < target && !result.exhausted) continue;
        printf("ns %.1f\ncount_steps %.1f\n", took / (double)result.schedules,
               (double)result.steps / (double)result.schedules);
        return 0;
    }
}

/* ---- corpus: how soon each sampler finds each bug ---- */

/* Of one program with one sampler. */
struct score {
    uint32_t found;  /* of `seeds` */
    uint32_t median; /* schedules to the bug; SCHEDULES if it was not found */
    uint64_t schedules;
    double ns;
};

static struct score *scores; /* by program, then sampler; shared */
static const struct corpus_program *programs[PROGRAMS_MAX];
static unsigned program_count;

static void score(const struct corpus_program *program, const char *sampler, struct score *score)
{
    uint32_t at[SEEDS_MAX];
    struct corpus_case how = {.size = program->size};
    const double start = now_ns();
    for (unsigned i = 0; i < seeds; i++) {
        const hd_explore_result result =
            explore(program->run, &how, sampler, i + 1, SCHEDULES, NULL);
        const bool found = program->verdicts & 1u << result.verdict;
        score->found += found;
        score->schedules += result.schedules;
        at[i] = found ? (uint32_t)result.failed_at : SCHEDULES;
    }
    score->ns = now_ns() - start;
    qsort(at, seeds, sizeof *at, compare);
    score->median = at[seeds / 2];
}

static struct score *score_of(unsigned program, unsigned sampler)
{
    return &scores[program * SAMPLERS + sampler];
}

static void score_rest(atomic_uint *next)
{
    for (unsigned i; (i = atomic_fetch_add(next, 1)) < program_count * SAMPLERS;)
        score(programs[i / SAMPLERS], samplers[i % SAMPLERS], &scores[i]);
}

static void score_all(void)
{
    const size_t bytes = PROGRAMS_MAX * SAMPLERS * sizeof *scores + sizeof(atomic_uint);
    for (const struct corpus_program *p = corpus_first(); p; p = p->next) {
        MUST(program_count < PROGRAMS_MAX);
        programs[program_count++] = p;
    }
    scores = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(scores != MAP_FAILED);
    atomic_uint *next = (atomic_uint *)(scores + PROGRAMS_MAX * SAMPLERS);
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    for (long i = 0; i < cpus; i++) {
        const pid_t pid = fork();
        MUST(pid >= 0);
        if (pid != 0) continue;
        score_rest(next);
        _exit(0);
    }
    for (int status; wait(&status) > 0;) MUST(status == 0);
}

static bool found_enough(const struct score *score)
{
    return score->found >= FOUND_ENOUGH * seeds;
}

static uint32_t best_single(unsigned program)
{
    uint32_t best = SCHEDULES;
    for (unsigned i = PORTFOLIO + 1; i < SAMPLERS; i++) {
        const struct score *score = score_of(program, i);
        if (score->median < best) best = score->median;
    }
    return best > BEST_LEAST ? best : BEST_LEAST;
}

static double times_worse(unsigned program)
{
    return (double)score_of(program, PORTFOLIO)->median / best_single(program);
}

static unsigned worst_program(void)
{
    unsigned worst = 0;
    for (unsigned i = 1; i < program_count; i++)
        if (times_worse(i) > times_worse(worst)) worst = i;
    return worst;
}

/* Over all programs: those that are found, the median of medians, and the time of a schedule. */
static void summary(unsigned sampler, unsigned *found, uint32_t *median, double *ns)
{
    uint32_t medians[PROGRAMS_MAX];
    uint64_t schedules = 0;
    double took = 0;
    *found = 0;
    for (unsigned i = 0; i < program_count; i++) {
        const struct score *score = score_of(i, sampler);
        *found += found_enough(score);
        medians[i] = score->median;
        schedules += score->schedules;
        took += score->ns;
    }
    qsort(medians, program_count, sizeof *medians, compare);
    *median = medians[program_count / 2];
    *ns = took / (double)schedules;
}

static int row_corpus(void)
{
    score_all();
    printf("count_programs %u\n", program_count);
    for (unsigned i = 0; i < SAMPLERS; i++) {
        unsigned found;
        uint32_t median;
        double ns;
        summary(i, &found, &median, &ns);
        printf("count_missed_%s %u\ncount_median_%s %u\nns_%s %.1f\n", samplers[i],
               program_count - found, samplers[i], median, samplers[i], ns);
    }
    const unsigned worst = worst_program();
    printf("count_portfolio %u\ncount_best %u\n", score_of(worst, PORTFOLIO)->median,
           best_single(worst));
    return 0;
}

static int table(void)
{
    score_all();
    printf("%u seeds, at most %d schedules each: found, median schedules to the bug, thousand "
           "schedules a second\n%-16s",
           seeds, SCHEDULES, "");
    for (unsigned i = 0; i < SAMPLERS; i++) printf("  %-19s", samplers[i]);
    printf("  worse\n");
    for (unsigned p = 0; p < program_count; p++) {
        printf("%-16s", programs[p]->name);
        for (unsigned i = 0; i < SAMPLERS; i++) {
            const struct score *s = score_of(p, i);
            printf("  %3u%% %5u %6.0f/ms", 100 * s->found / seeds, s->median,
                   1e6 * (double)s->schedules / s->ns);
        }
        printf("  %5.2f\n", times_worse(p));
    }
    printf("%-16s", "found by 95%");
    for (unsigned i = 0; i < SAMPLERS; i++) {
        unsigned found;
        uint32_t median;
        double ns;
        summary(i, &found, &median, &ns);
        printf("  %4u %5u %6.0f/ms", found, median, 1e6 / ns);
    }
    printf("  %5.2f\n", times_worse(worst_program()));
    return 0;
}

/* ---- shrink: how small each failure gets ---- */

/* Preemptions in a recorded run. */
static unsigned preemptions(const char *path)
{
    hd_log *log;
    unsigned count = 0;
    MUST(hd_log_open(&log, path) == 0);
    for (hd_log_event event; hd_log_next(log, &event) == 1;)
        count += event.kind == HD_LOG_CHOICE && event.b == 1;
    hd_log_close(log);
    return count;
}

/* One program; how many replays it took. *beyond: preemptions over the known minimum. */
static int shrink(const struct corpus_program *program, const char *from, const char *to,
                  unsigned *beyond)
{
    struct corpus_case how = {.size = program->size};
    const hd_explore_result result = explore(program->run, &how, NULL, 1, SCHEDULES, from);
    if (!(program->verdicts & 1u << result.verdict)) return 0;
    const int replays = hd_shrink(program->run, &how, NULL, from, to, REPLAYS_MAX);
    MUST(replays >= 0);
    const unsigned left = preemptions(to);
    *beyond = left > program->switches ? left - program->switches : 0;
    return replays;
}

static int row_shrink(void)
{
    char dir[] = "/tmp/heddle-shrink-XXXXXX", from[64], to[64];
    MUST(mkdtemp(dir) != NULL);
    snprintf(from, sizeof from, "%s/from", dir);
    snprintf(to, sizeof to, "%s/to", dir);
    int replays_most = 0;
    unsigned beyond_most = 0, over = 0;
    for (const struct corpus_program *p = corpus_first(); p; p = p->next) {
        unsigned beyond = 0;
        const int replays = shrink(p, from, to, &beyond);
        if (replays > replays_most) replays_most = replays;
        if (beyond > beyond_most) beyond_most = beyond;
        over += beyond > 1;
    }
    printf("count_replays %d\ncount_beyond %u\ncount_over %u\n", replays_most, beyond_most, over);
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command);
}

static const struct {
    const char *name;
    int (*run)(void);
} rows[] = {
    {"speed", row_speed},
    {"corpus", row_corpus},
    {"shrink", row_shrink},
    {"--table", table},
};

static bool parse(const char *arg)
{
    if (strncmp(arg, "sampler=", 8) == 0) return (speed_sampler = arg + 8) != NULL;
    return sscanf(arg, "ms=%u", &ms) == 1 ||
           (sscanf(arg, "seeds=%u", &seeds) == 1 && seeds > 0 && seeds <= SEEDS_MAX);
}

int main(int argc, char **argv)
{
    bool good = argc > 1;
    for (int i = 2; i < argc; i++) good = good && parse(argv[i]);
    for (size_t i = 0; good && i < sizeof rows / sizeof *rows; i++)
        if (strcmp(argv[1], rows[i].name) == 0) return rows[i].run();
    fprintf(stderr, "usage: explore_bench speed|corpus|shrink|--table [sampler=TEXT] [seeds=N] "
                    "[ms=N]\n");
    return 2;
}
