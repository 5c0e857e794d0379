/* SPDX-License-Identifier: MIT
 *
 * Replaying a log: its choices are taken, and what comes of them is compared, event by event.
 *
 * The first difference is kept, in words, and nothing is compared after it. A log that was cut has
 * no differences after its last event: what a run that crashed did not write down is not known.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "log/identity.h"
#include "log/reader.h"
#include "log/record.h"

struct hdi_replay {
    hd_log *log;
    struct hd_runtime *runtime;
    struct hdi_log_objects objects;
    bool foreign;       /* the log is of another build, or another program */
    int state;          /* of `next`: 1: it is the event that is next; 0: there is none; -errno */
    hd_log_event next;
    char text[HDI_LOG_TEXT_MAX + 1]; /* of the event that is compared */
    char file[HDI_LOG_TEXT_MAX + 1];
    char difference[HD_MESSAGE_MAX]; /* "": none so far */
};

/* ---- open and close ---- */

static const char *why(int err)
{
    switch (err) {
    case -ENOENT: return "there is no such log";
    case -EBADMSG: return "this is no log, or its header is damaged";
    case -ENOTSUP: return "the log is of a later version";
    case -EISDIR: return "this is a directory, not a log";
    case -EACCES: return "the log may not be read";
    case -ENOMEM: return "there is not enough memory";
    default: return "the log cannot be read";
    }
}

static bool is_foreign(const hd_log_info *info)
{
    uint8_t identity[HDI_IDENTITY_BYTES];
    hdi_identity_get(identity);
    return strcmp(info->program, hdi_identity_name()) != 0 ||
           memcmp(info->identity, identity, sizeof(identity)) != 0;
}

/* They are a file's: whatever stands there, they have to make sense. */
static int apply(const hd_log_info *info, hd_options *options)
{
    hd_options recorded = *options, resolved;
    const int err = hdi_log_options_get(info->options, &recorded);
    if (err) return err;
    recorded.world = HD_WORLD_SIM;
    recorded.seed = info->seed;
    recorded.sampler = info->sampler[0] ? info->sampler : NULL;
    if (hdi_options_resolve(&recorded, &resolved)) return -EBADMSG;
    *options = resolved;
    return 0;
}

int hdi_replay_open(struct hdi_replay **replay, const char *path, hd_options *options,
                    const char **error)
{
    struct hdi_replay *opened = calloc(1, sizeof(*opened));
    int err = opened ? hd_log_open(&opened->log, path) : -ENOMEM;
    if (!err) err = apply(hd_log_about(opened->log), options);
    if (err) {
        *error = why(err);
        if (opened) hd_log_close(opened->log);
        free(opened);
        return err;
    }
    opened->foreign = is_foreign(hd_log_about(opened->log));
    opened->state = hd_log_next(opened->log, &opened->next);
    *replay = opened;
    return 0;
}

void hdi_replay_begin(struct hdi_replay *replay, struct hd_runtime *runtime)
{
    replay->runtime = runtime;
}

bool hdi_replay_number(const struct hdi_replay *replay, const char *key, uint64_t *value)
{
    return hdi_log_options_number(replay->log->info.options, key, value);
}

void hdi_replay_close(struct hdi_replay *replay)
{
    hdi_log_objects_fini(&replay->objects);
    hd_log_close(replay->log);
    free(replay);
}

/* ---- differences ---- */

/* The log was cut, and this is where. */
static bool is_cut(const struct hdi_replay *replay)
{
    return replay->state == 0 && !replay->log->info.complete;
}

bool hdi_replay_is_cut(const struct hdi_replay *replay)
{
    return !replay->difference[0] && is_cut(replay);
}

const char *hdi_replay_difference(const struct hdi_replay *replay)
{
    if (replay->difference[0]) return replay->difference;
    return is_cut(replay) ? "the log was cut here" : NULL;
}

static const char *about_program(const struct hdi_replay *replay)
{
    return replay->foreign ? " (the log is of another program, or another build of it)" : "";
}

/* What the log has here. */
static void describe_next(const struct hdi_replay *replay, char *text, size_t size)
{
    if (replay->state > 0) {
        hdi_log_describe(&replay->next, text, size);
    } else if (replay->state < 0) {
        snprintf(text, size, "something that cannot be read");
    } else {
        snprintf(text, size, "its end");
    }
}

static void differ(struct hdi_replay *replay, const char *here)
{
    if (replay->difference[0]) return;
    char recorded[100];
    describe_next(replay, recorded, sizeof(recorded));
    snprintf(replay->difference, sizeof(replay->difference),
             "at step %" PRIu64 ", event %" PRIu64 ", the log has %s, this run %s%s",
             replay->log->step, replay->log->sequence + (replay->state <= 0), recorded, here,
             about_program(replay));
}

static void advance(struct hdi_replay *replay)
{
    replay->state = hd_log_next(replay->log, &replay->next);
}

int hdi_replay_choice(struct hdi_replay *replay, uint64_t *task)
{
    if (replay->difference[0]) return -EPROTO;
    if (is_cut(replay)) return -ENODATA;
    if (replay->state <= 0 || replay->next.kind != HD_LOG_CHOICE) {
        differ(replay, "a choice");
        return -EPROTO;
    }
    *task = replay->next.task;
    advance(replay);
    return 0;
}

bool hdi_replay_passes(struct hdi_replay *replay)
{
    const hd_log_event *next = &replay->next;
    if (replay->difference[0] || replay->state <= 0) return false;
    if (next->kind != HD_LOG_CHOICE || next->task != 0) return false;
    advance(replay);
    return true;
}

bool hdi_replay_fault(struct hdi_replay *replay, uint64_t number, const char *what)
{
    const hd_log_event *next = &replay->next;
    if (is_cut(replay)) return true; /* as the seed has it */
    if (replay->difference[0] || replay->state <= 0 || next->kind != HD_LOG_FAULT) return false;
    if (next->a != number || strcmp(next->text, what) != 0) return false;
    advance(replay);
    return true;
}

/* The event of this run, as it would be read from its log. */
static int as_read(struct hdi_replay *replay, const struct hdi_event_record *event,
                   hd_log_event *read)
{
    struct hdi_log_record record;
    HD_CHECK_MSG(replay->runtime, "hdi_replay_begin() was not called");
    const int64_t now_ns = replay->runtime->world->now(replay->runtime);
    const int err = hdi_log_record_of(&record, event, now_ns, &replay->objects);
    if (err) return err;
    snprintf(replay->text, sizeof(replay->text), "%s", record.text ? record.text : "");
    snprintf(replay->file, sizeof(replay->file), "%s", record.file ? record.file : "");
    *read = (hd_log_event){
        .kind = (hd_log_kind)record.kind,
        .time_ns = record.time_ns,
        .task = record.task,
        .a = record.a,
        .b = record.b,
        .text = replay->text,
        .file = record.file ? replay->file : NULL,
        .line = record.line,
    };
    return 0;
}

bool hdi_replay_check(struct hdi_replay *replay, const struct hdi_event_record *event)
{
    if (replay->difference[0]) return false;
    if (is_cut(replay)) return true;
    hd_log_event here;
    char text[100];
    const int err = as_read(replay, event, &here);
    if (!err && replay->state > 0 && hdi_log_same(&replay->next, &here)) {
        advance(replay);
        return true;
    }
    if (!err) hdi_log_describe(&here, text, sizeof(text));
    const bool only_time = !err && replay->state > 0 && here.time_ns != replay->next.time_ns;
    if (only_time) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof(text) - used, " at %" PRId64 " ns, not %" PRId64,
                 here.time_ns, replay->next.time_ns);
    }
    differ(replay, err ? "not enough memory" : text);
    return false;
}

void hdi_replay_forget(struct hdi_replay *replay, const void *object)
{
    hdi_log_objects_forget(&replay->objects, object);
}
