/* SPDX-License-Identifier: MIT */
#include "sidecar.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "json.h"
#include "tool.h"

/* The sidecar's path. Returns false if it is too long. */
static bool name_it(char path[static PROGRAM_PATH_MAX], const char *log)
{
    return snprintf(path, PROGRAM_PATH_MAX, "%s.meta", log) < PROGRAM_PATH_MAX;
}

/* What it holds; to be freed. NULL. */
static char *read_it(const char *log)
{
    char path[PROGRAM_PATH_MAX];
    return name_it(path, log) ? program_slurp(path) : NULL;
}

/* ---- the program ---- */

/* Whether the current directory is as good as the recorded one. */
static bool is_here(const char *name)
{
    return name[0] != '/' && strchr(name, '/') && access(name, X_OK) == 0;
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

int sidecar_program(struct origin *origin, const char *log, char **given)
{
    *origin = (struct origin){.argv = given};
    if (given[0]) return 0;
    char *text = read_it(log);
    if (text) {
        origin->owned_argv = json_read_list(text, "argv");
        origin->owned_dir = json_read_text(text, "directory");
    }
    free(text);
    origin->argv = origin->owned_argv;
    if (!origin->argv || !origin->argv[0]) {
        return tool_complain(TOOL_NO_PROGRAM, "%s.meta does not say which program it was; put"
                             " -- PROGRAM ARGS... at the end", log);
    }
    const char *dir = origin->owned_dir;
    if (dir && is_folder(dir) && !is_here(origin->argv[0])) origin->dir = dir;
    return 0;
}

void sidecar_forget(struct origin *origin)
{
    free(origin->owned_argv);
    free(origin->owned_dir);
    *origin = (struct origin){0};
}

int sidecar_refused(const struct origin *origin, int err)
{
    if (!origin->owned_argv) return program_refused(origin->argv, err);
    return tool_complain(TOOL_NO_PROGRAM, "cannot run %s%s%s, which the log is of: %s; if it is"
                         " elsewhere now, put -- PROGRAM ARGS... at the end", origin->argv[0],
                         origin->dir ? " in " : "", origin->dir ? origin->dir : "",
                         strerror(-err));
}

/* ---- how a log ends ---- */

/* All that was written is good, but it was not ended. */
static bool only_cut(const hd_log_info *about)
{
    return !about->complete && about->good_bytes == about->file_bytes;
}

static bool read_number(const char *text, const char *key, uint64_t *value)
{
    char word[32];
    return json_read_word(text, key, word, sizeof(word)) && options_number(word, value);
}

void sidecar_look(struct log_end *end, hd_log *log, const char *path)
{
    const hd_log_info *about = hd_log_about(log);
    *end = (struct log_end){.damage = about->damage};
    uint64_t status, events;
    char *text = only_cut(about) ? read_it(path) : NULL;
    /* A log that was cut later has fewer events than its program left. */
    end->died = text && read_number(text, "died_status", &status) &&
                read_number(text, "died_after", &events) && events == about->events;
    free(text);
    if (!end->died) return;
    end->damage = NULL;
    end->ending.status = (int)status;
    program_ending(&end->ending, end->how, sizeof(end->how));
}

int sidecar_warn(hd_log *log, const char *path)
{
    struct log_end end;
    sidecar_look(&end, log, path);
    return end.damage ? tool_complain(TOOL_BAD_LOG, "%s: %s", path, end.damage) : 0;
}

/* ---- signing ---- */

/* Whether the program died, and after how many events. Whoever lived to end a log, be it one that
 * could not be written, says so. */
static bool died_after(const char *log, const char *text, uint64_t *events)
{
    hd_log *opened;
    char word[32];
    if (text && json_read_word(text, "error", word, sizeof(word))) return false;
    if (hd_log_open(&opened, log) != 0) return false;
    const hd_log_info *about = hd_log_about(opened);
    const bool died = only_cut(about);
    *events = about->events;
    hd_log_close(opened);
    return died;
}

static void write_program(struct json *json, char *const *argv, const char *dir)
{
    char here[PROGRAM_PATH_MAX];
    json_open(json, "argv", '[');
    for (; *argv; argv++) json_text(json, NULL, *argv);
    json_close(json, ']');
    if (!dir) dir = getcwd(here, sizeof(here));
    if (dir) json_text(json, "directory", dir);
}

static void write_death(struct json *json, const struct ending *ending, uint64_t events)
{
    char how[80];
    json_text(json, "died", program_ending(ending, how, sizeof(how)));
    json_number(json, "died_status", (uint64_t)ending->status);
    json_number(json, "died_after", events);
}

void sidecar_sign(const char *log, char *const *argv, const char *dir,
                  const struct ending *ending)
{
    char path[PROGRAM_PATH_MAX];
    if (!program_is_file(log)) return; /* Beside a device there is no place for it. */
    if (!name_it(path, log)) return;
    char *text = program_slurp(path);
    char **known = text ? json_read_list(text, "argv") : NULL;
    uint64_t events;
    const bool died = ending && died_after(log, text, &events);
    const char *old = text && strrchr(text, '}') ? text : "{\"recorded\":true}";
    FILE *out = known ? NULL : fopen(path, "we");
    if (out) { /* Otherwise people can still name the program. */
        struct json json = {.out = out, .depth = 1, .exact = true, .comma = true};
        fprintf(out, "%.*s", (int)(strrchr(old, '}') - old), old); /* with more entries */
        write_program(&json, argv, dir);
        if (died) write_death(&json, ending, events);
        fputs("}\n", out);
        fclose(out);
    }
    free(known);
    free(text);
}
