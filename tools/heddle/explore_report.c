/* SPDX-License-Identifier: MIT
 *
 * explore_report: what `heddle explore` says in the end.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "explore.h"
#include "json.h"
#include "tool.h"

/* What only hd_explore() looks for, or was asked to do, another hd_explore() has to repeat. */
static bool only_explored(const struct exploration *x, const hd_explore_result *result)
{
    const hd_verdict verdict = result->verdict;
    return x->options->clock || verdict == HD_VERDICT_LIVELOCK || verdict == HD_VERDICT_LEAK ||
           verdict == HD_VERDICT_STALE;
}

/* The line that repeats a schedule; to be freed. */
static char *repeat(const struct exploration *x, const hd_explore_result *result)
{
    const struct explore_options *o = x->options;
    char seed[40], steps[40] = "";
    char sampler[HD_SAMPLER_TEXT_MAX + 32], list[HD_SAMPLER_TEXT_MAX + 160];
    if (only_explored(x, result)) {
        if (o->steps.set) snprintf(steps, sizeof(steps), " steps=%" PRIu64, o->steps.value);
        snprintf(list, sizeof(list), "HEDDLE_EXPLORE=seed=%" PRIu64
                 " sampler=%s schedules=1%s%s%s%s", result->seed, result->sampler,
                 o->clock ? " clock" : "", steps, o->ignore_results ? " ignore-results" : "",
                 o->allow_stale ? " allow-stale" : "");
        return program_command_text((const char *[]){list, NULL}, x->argv);
    }
    snprintf(seed, sizeof(seed), "HEDDLE_SEED=%" PRIu64, result->seed);
    snprintf(sampler, sizeof(sampler), "HEDDLE_SAMPLER=%s", result->sampler);
    return program_command_text((const char *[]){seed, sampler, NULL}, x->argv);
}

static void report_json(const struct exploration *x, const struct explore_sums *sums,
                        const hd_explore_result *found, const char *line, const char *log)
{
    struct json json = {.out = stdout};
    json_open(&json, NULL, '{');
    json_text(&json, "program", x->argv[0]);
    json_text(&json, "verdict", found ? hd_verdict_name(found->verdict) : NULL);
    json_number(&json, "schedules", sums->schedules);
    json_number(&json, "failures", sums->failures);
    json_number(&json, "steps", sums->steps);
    json_number(&json, "steps_max", sums->steps_max);
    json_number(&json, "tasks_max", sums->tasks_max);
    json_seconds(&json, "seconds", x->ended - x->began);
    json_number(&json, "jobs", x->job_count);
    json_bool(&json, "fork", x->fork);
    json_bool(&json, "exhausted", sums->exhausted);
    json_bool(&json, "diverges", x->diverges);
    json_bool(&json, "interrupted", tool_interrupted());
    if (found) {
        json_text(&json, "message", found->message);
        json_signed(&json, "code", found->code);
        json_number(&json, "failed_at", found->failed_at);
        json_text(&json, "sampler", found->sampler);
        json_number(&json, "seed", found->seed);
        json_text(&json, "reproduce", line);
        json_text(&json, "log", log);
    }
    json_close(&json, '}');
}

static void report_text(const struct exploration *x, const struct explore_sums *sums,
                        const hd_explore_result *found, const char *line, const char *log)
{
    const double seconds = (double)(x->ended - x->began) / 1e9;
    if (found) {
        printf("%s: %s%s%s\n", x->argv[0], hd_verdict_name(found->verdict),
               found->message[0] ? ": " : "", found->message);
    } else {
        printf("%s: nothing found%s\n", x->argv[0], sums->exhausted ? ", in all there are" : "");
    }
    printf("  %" PRIu64 " schedule%s in %.1f s (%.0f/s), at most %" PRIu64 " task%s and %" PRIu64
           " step%s%s%s\n",
           sums->schedules, tool_plural(sums->schedules), seconds,
           (double)sums->schedules / (seconds + 1e-9), sums->tasks_max,
           tool_plural(sums->tasks_max), sums->steps_max, tool_plural(sums->steps_max),
           x->fork ? ", each in a process of its own" : "",
           tool_interrupted() ? " (interrupted)" : "");
    if (!found) return;
    if (x->options->keep_going) printf("  %" PRIu64 " failed; this is one\n", sums->failures);
    printf("  repeat:  %s\n", line);
    if (!log) return;
    printf("  log:     %s\n", log);
    printf("  shrink:  heddle shrink ");
    program_print_word(stdout, log);
    printf("\n  replay:  heddle replay ");
    program_print_word(stdout, log);
    printf("\n");
}

/* Schedules that a job was killed in, since its time was over and it did not see that. */
static void report_stuck(const struct exploration *x)
{
    for (unsigned i = 0; i < x->job_count && !tool_interrupted(); i++) {
        const struct job *job = &x->jobs[i];
        if (job->err != -ETIMEDOUT || job == x->failed) continue;
        char *line = repeat(x, &job->result);
        tool_complain(0, "the time is over, and a schedule has not ended yet: %s",
                      line ? line : "");
        free(line);
    }
}

int explore_report(const struct exploration *x, const char *log)
{
    const struct explore_sums sums = explore_sum(x);
    const hd_explore_result *found = x->failed ? &x->failed->result : NULL;
    char *line = found ? repeat(x, found) : NULL;
    const char *shown = line ? line : "";
    if (x->options->json) report_json(x, &sums, found, shown, log);
    else report_text(x, &sums, found, shown, log);
    free(line);
    tool_flush();
    report_stuck(x);
    if (found) return found->verdict == HD_VERDICT_DIVERGED ? TOOL_DIVERGED : TOOL_FOUND;
    if (tool_interrupted()) return TOOL_INTERRUPTED;
    return sums.schedules > 0 ? TOOL_FINE : TOOL_SYSTEM;
}
