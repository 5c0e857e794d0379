/* SPDX-License-Identifier: MIT
 *
 * The program is named as it was called, with its arguments: what it does may depend on them.
 */
#include "sim/repeat.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- as a shell reads it ---- */

static void print_word(FILE *out, const char *text)
{
    static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                               "_./:=,@%+-";
    if (*text && strspn(text, safe) == strlen(text)) {
        fputs(text, out);
        return;
    }
    fputc('\'', out);
    for (; *text; text++) {
        if (*text == '\'') fputs("'\\''", out);
        else fputc(*text, out);
    }
    fputc('\'', out);
}

static void print_program(FILE *out)
{
    FILE *words = fopen("/proc/self/cmdline", "re");
    char *word = NULL;
    size_t room = 0;
    bool any = false;
    while (words && getdelim(&word, &room, 0, words) > 0) {
        fputc(' ', out);
        print_word(out, word);
        any = true;
    }
    free(word);
    if (words) fclose(words);
    if (any) return;
    fputc(' ', out); /* /proc is not there. */
    print_word(out, program_invocation_name);
}

/* ---- which schedule ---- */

void hdi_repeat_print(FILE *out, const struct hd_runtime *runtime)
{
    const hd_options *options = &runtime->options;
    const struct hdi_schedule *schedule = runtime->sim.schedule;
    if (options->replay) {
        fputs("HEDDLE_REPLAY=", out);
        print_word(out, options->replay);
    } else if (schedule && schedule->clock) { /* There is no variable for that alone. */
        fprintf(out, "HEDDLE_EXPLORE='seed=%" PRIu64 " sampler=%s schedules=1 clock'",
                options->seed, options->sampler ? options->sampler : "random");
    } else {
        fprintf(out, "HEDDLE_SEED=%" PRIu64, options->seed);
        if (options->sampler) fputs(" HEDDLE_SAMPLER=", out);
        if (options->sampler) print_word(out, options->sampler);
    }
    print_program(out);
}

/* What only hd_explore() looks for, or was asked to do, another hd_explore() has to repeat. */
static bool only_explored(const hd_explore_options *options, hd_verdict verdict)
{
    return options->clock || verdict == HD_VERDICT_LIVELOCK || verdict == HD_VERDICT_LEAK ||
           verdict == HD_VERDICT_STALE;
}

void hdi_repeat_print_found(FILE *out, const hd_explore_options *options,
                            const hd_explore_result *result)
{
    if (only_explored(options, result->verdict)) {
        fprintf(out, "HEDDLE_EXPLORE='seed=%" PRIu64 " sampler=%s schedules=1", result->seed,
                result->sampler);
        if (options->steps_max) fprintf(out, " steps=%" PRIu32, options->steps_max);
        if (options->clock) fputs(" clock", out);
        if (options->ignore_results) fputs(" ignore-results", out);
        if (options->allow_stale) fputs(" allow-stale", out);
        fputc('\'', out);
    } else {
        fprintf(out, "HEDDLE_SEED=%" PRIu64 " HEDDLE_SAMPLER=", result->seed);
        print_word(out, result->sampler);
    }
    print_program(out);
}
