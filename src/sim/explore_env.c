/* SPDX-License-Identifier: MIT
 *
 * explore_env: a search that the environment asks for, in place of hd_run().
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/memory.h"
#include "sim/repeat.h"

/* What HEDDLE_EXPLORE and HEDDLE_SHRINK can hold. */
struct asked {
    hd_explore_options options;
    char *list;     /* a copy of the text, cut up */
    const char *from, *to;
    uint64_t replays;
    uint64_t status; /* a descriptor; UINT64_MAX: none */
};

/* ---- reading it ---- */

static bool read_number(const char *text, uint64_t *number)
{
    char *end;
    if (!text || *text < '0' || *text > '9') return false;
    errno = 0;
    *number = strtoull(text, &end, 0);
    return errno == 0 && *end == '\0';
}

static bool read_seconds(const char *text, int64_t *ns)
{
    char *end;
    if (!text) return false;
    const double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds > 0) || seconds > 1e9) return false;
    *ns = (int64_t)(seconds * 1e9);
    return true;
}

static bool read_steps(const char *text, uint32_t *steps)
{
    uint64_t number;
    if (!read_number(text, &number) || number == 0 || number > UINT32_MAX) return false;
    *steps = (uint32_t)number;
    return true;
}

static bool read_text(const char *value, const char **text)
{
    *text = value;
    return value && *value;
}

static bool read_flag(const char *value, bool *flag)
{
    *flag = true;
    return !value;
}

/* One entry. Returns false if it makes no sense. */
static bool read_entry(struct asked *asked, const char *key, const char *value)
{
    hd_explore_options *o = &asked->options;
    if (strcmp(key, "seed") == 0) return read_number(value, &o->seed);
    if (strcmp(key, "sampler") == 0) return read_text(value, &o->sampler);
    if (strcmp(key, "schedules") == 0) return read_number(value, &o->schedules);
    if (strcmp(key, "seconds") == 0) return read_seconds(value, &o->time_ns);
    if (strcmp(key, "steps") == 0) return read_steps(value, &o->steps_max);
    if (strcmp(key, "fork") == 0) return read_flag(value, &o->fork);
    if (strcmp(key, "clock") == 0) return read_flag(value, &o->clock);
    if (strcmp(key, "keep-going") == 0) return read_flag(value, &o->keep_going);
    if (strcmp(key, "ignore-results") == 0) return read_flag(value, &o->ignore_results);
    if (strcmp(key, "allow-stale") == 0) return read_flag(value, &o->allow_stale);
    if (strcmp(key, "log") == 0) return read_text(value, &o->log);
    if (strcmp(key, "from") == 0) return read_text(value, &asked->from);
    if (strcmp(key, "to") == 0) return read_text(value, &asked->to);
    if (strcmp(key, "replays") == 0) return read_number(value, &asked->replays);
    if (strcmp(key, "status") == 0) return read_number(value, &asked->status);
    return false;
}

static int read_list(struct asked *asked, const char *name, const char *text)
{
    *asked = (struct asked){.options = HD_EXPLORE_OPTIONS_INIT, .status = UINT64_MAX};
    asked->list = strdup(text);
    if (!asked->list) return -ENOMEM;
    char *rest = asked->list;
    for (char *entry; (entry = strsep(&rest, " "));) {
        if (*entry == '\0') continue;
        char *value = strchr(entry, '=');
        if (value) *value++ = '\0';
        if (read_entry(asked, entry, value)) continue;
        fprintf(stderr, "heddle: %s: %s%s%s makes no sense; explore.h lists what can be there\n",
                name, entry, value ? "=" : "", value ? value : "");
        return -EINVAL;
    }
    return 0;
}

/* ---- doing it ---- */

static hd_explore_result *share(const struct asked *asked, hd_explore_result *own)
{
    if (asked->status > INT32_MAX) return own;
    void *shared = hdi_memory_map_file((int)asked->status, sizeof(*own));
    return shared ? shared : own;
}

static void say(const hd_explore_options *options, const hd_explore_result *result)
{
    if (result->failed_at == 0) {
        fprintf(stderr, "heddle: nothing found in %" PRIu64 " schedules\n", result->schedules);
        return;
    }
    fprintf(stderr, "heddle: %s: %s\nheddle: found by schedule %" PRIu64 "; to repeat it: ",
            hd_verdict_name(result->verdict), result->message, result->failed_at);
    hdi_repeat_print_found(stderr, options, result);
    fputc('\n', stderr);
}

static int explore(hd_fn *fn, void *arg, struct asked *asked)
{
    hd_explore_result own;
    hd_explore_result *result = share(asked, &own);
    const bool watched = result != &own;
    /* The program goes on after an hd_run() that failed: what was found stays. */
    if (watched && result->ended && result->failed_at > 0) {
        hdi_memory_unmap(result, sizeof(*result));
        return -ENOTRECOVERABLE;
    }
    const char *error = hd_explore_error(&asked->options);
    if (error) fprintf(stderr, "heddle: HEDDLE_EXPLORE: %s\n", error);
    const int err = hdi_explore(fn, arg, &asked->options, result, watched);
    const bool found = !err && result->failed_at > 0;
    if (!err && !watched) say(&asked->options, result);
    if (watched) hdi_memory_unmap(result, sizeof(*result));
    return err ? err : found ? -ENOTRECOVERABLE : 0;
}

static int shrink(hd_fn *fn, void *arg, struct asked *asked)
{
    if (!asked->from || !asked->to) {
        fputs("heddle: HEDDLE_SHRINK needs from=FILE and to=FILE\n", stderr);
        return -EINVAL;
    }
    const int runs =
        hd_shrink(fn, arg, &asked->options, asked->from, asked->to, (unsigned)asked->replays);
    hd_explore_result own;
    hd_explore_result *result = share(asked, &own);
    memset(result, 0, sizeof(*result));
    result->schedules = runs > 0 ? (uint64_t)runs : 0;
    result->code = runs < 0 ? runs : 0;
    result->ended = true;
    if (result != &own) hdi_memory_unmap(result, sizeof(*result));
    return runs < 0 ? runs : -ENOTRECOVERABLE; /* It still fails, in fewer steps. */
}

/* hd_run() will refuse it, and few programs ask why. */
static void say_if_refused(const hd_options *options)
{
    const char *seed = secure_getenv("HEDDLE_SEED");
    const char *error = seed ? hd_options_error(options) : NULL;
    if (error && strstr(error, "HEDDLE_SEED")) fprintf(stderr, "heddle: %s\n", error);
}

bool hdi_explore_asked(hd_fn *fn, void *arg, const hd_options *options, int *result)
{
    if (options->world != HD_WORLD_AUTO) return false;
    const char *search = secure_getenv("HEDDLE_EXPLORE");
    const char *small = secure_getenv("HEDDLE_SHRINK");
    if (!search && !small) {
        say_if_refused(options);
        return false;
    }
    struct asked asked;
    *result = small ? read_list(&asked, "HEDDLE_SHRINK", small)
                    : read_list(&asked, "HEDDLE_EXPLORE", search);
    asked.options.options = options;
    if (*result == 0) *result = small ? shrink(fn, arg, &asked) : explore(fn, arg, &asked);
    free(asked.list);
    return true;
}
