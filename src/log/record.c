/* SPDX-License-Identifier: MIT
 *
 * Recording a run in a file, and beside it, for people, when that was.
 */
#include "log/record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "log/identity.h"
#include "os/clock.h"
#include "os/logfile.h"
#include "task/exec.h"

struct hdi_log {
    struct hd_runtime *runtime;
    struct hdi_log_objects objects;
    char *meta; /* the path of the sidecar; NULL: none */
    char date[HDI_CLOCK_DATE_BYTES];
    int64_t began_ns; /* real */
    struct hdi_log_writer writer;
};

/* ---- events ---- */

int hdi_log_record_of(struct hdi_log_record *record, const struct hdi_event_record *event,
                      int64_t time_ns, struct hdi_log_objects *objects)
{
    *record = (struct hdi_log_record){
        .kind = event->kind,
        .time_ns = time_ns,
        .task = event->task,
        .a = event->object ? hdi_log_objects_number(objects, event->object) : event->a,
        .b = event->b,
        .text = event->text,
    };
    if (event->site) {
        const char *slash = strrchr(event->site->file, '/');
        record->file = slash ? slash + 1 : event->site->file;
        record->line = event->site->line > 0 ? event->site->line : 0;
    }
    return event->object && record->a == 0 ? -ENOMEM : 0;
}

void hdi_log_event(struct hdi_log *log, const struct hdi_event_record *event)
{
    struct hdi_log_record record;
    const int64_t now_ns = log->runtime->world->now(log->runtime);
    const int err = hdi_log_record_of(&record, event, now_ns, &log->objects);
    if (err && !log->writer.err) log->writer.err = err;
    hdi_log_writer_put(&log->writer, &record);
}

void hdi_log_forget(struct hdi_log *log, const void *object)
{
    hdi_log_objects_forget(&log->objects, object);
}

void hd_log_note(const char *text)
{
    struct hd_task *task = hdi_task_self();
    if (!task || task->runtime->world->kind != HD_WORLD_SIM) return;
    char note[HDI_LOG_NOTE_MAX + 1];
    snprintf(note, sizeof(note), "%s", text);
    const struct hdi_event_record event = {.kind = HD_LOG_NOTE, .task = task->id, .text = note};
    hdi_schedule_event(task->runtime, &event);
}

/* ---- the sidecar ---- */

/* It is for people: without it the log is as good, and nobody is told. */
static void write_meta(const struct hdi_log *log, bool ended, int err)
{
    char text[512];
    int bytes = snprintf(text, sizeof(text), "{\"started\": \"%s\"", log->date);
    if (ended) {
        const int64_t real_ns = hdi_clock_now() - log->began_ns;
        bytes += snprintf(text + bytes, sizeof(text) - (size_t)bytes,
                          ", \"duration_ms\": %" PRId64 ".%03d, \"events\": %" PRIu64
                          ", \"bytes\": %" PRIu64 ", \"error\": %d",
                          real_ns / 1000000, (int)(real_ns / 1000 % 1000), log->writer.events,
                          log->writer.bytes, -err);
    }
    bytes += snprintf(text + bytes, sizeof(text) - (size_t)bytes, "}\n");
    const int fd = log->meta ? hdi_logfile_create(log->meta) : -1;
    if (fd < 0) return;
    (void)hdi_logfile_write(fd, text, (size_t)bytes);
    (void)hdi_logfile_close(fd);
}

static void begin_meta(struct hdi_log *log, const char *path)
{
    log->began_ns = hdi_clock_now();
    hdi_clock_date(log->date);
    /* Beside a device there is no place for it. */
    if (!hdi_logfile_is_regular(log->writer.fd)) return;
    if (asprintf(&log->meta, "%s.meta", path) < 0) log->meta = NULL;
    write_meta(log, false, 0);
}

/* ---- begin and end ---- */

static bool through_by_environment(void)
{
    const char *text = secure_getenv("HEDDLE_LOG_SYNC");
    return text && *text && strcmp(text, "0") != 0;
}

static void begin_writer(struct hdi_log *log, int fd)
{
    const struct hdi_schedule *schedule = log->runtime->sim.schedule;
    const char *sampler = log->runtime->options.sampler;
    char options[HDI_LOG_STRING_MAX + 1];
    const int length = hdi_log_options_put(schedule, options, sizeof(options));
    HD_CHECK((size_t)length < sizeof(options));
    struct hdi_log_head head = {
        .program = hdi_identity_name(),
        .library = hd_version(),
        .seed = log->runtime->options.seed,
        .sampler = sampler ? sampler : "",
        .options = options,
    };
    hdi_identity_get(head.identity);
    hdi_log_writer_init(&log->writer, fd, &head, through_by_environment());
}

int hdi_log_begin(struct hdi_log **log, const char *path, struct hd_runtime *runtime)
{
    struct hdi_log *begun = malloc(sizeof(*begun));
    if (!begun) return -ENOMEM;
    const int fd = hdi_logfile_create(path);
    if (fd < 0) {
        free(begun);
        return fd;
    }
    begun->runtime = runtime;
    begun->objects = (struct hdi_log_objects){0};
    begun->meta = NULL;
    begin_writer(begun, fd);
    begin_meta(begun, path);
    const int err = begun->writer.err;
    if (err) {
        (void)hdi_log_end(begun);
        return err;
    }
    *log = begun;
    return 0;
}

void hdi_log_through(struct hdi_log *log)
{
    log->writer.through = true;
    hdi_log_writer_flush(&log->writer);
}

int hdi_log_failed(const struct hdi_log *log)
{
    return log->writer.err;
}

int hdi_log_flush(struct hdi_log *log)
{
    hdi_log_writer_flush(&log->writer);
    return log->writer.err;
}

int hdi_log_end(struct hdi_log *log)
{
    const int err = hdi_log_writer_end(&log->writer);
    write_meta(log, true, err);
    hdi_log_objects_fini(&log->objects);
    free(log->meta);
    free(log);
    return err;
}
