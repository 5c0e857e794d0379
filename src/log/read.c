/* SPDX-License-Identifier: MIT
 *
 * Reading the records of an open log.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/reader.h"

const char *hd_log_kind_name(hd_log_kind kind)
{
    switch (kind) {
    case HD_LOG_CHOICE: return "choice";
    case HD_LOG_DRAW: return "draw";
    case HD_LOG_FAULT: return "fault";
    case HD_LOG_SPAWN: return "spawn";
    case HD_LOG_STEP: return "step";
    case HD_LOG_WAIT: return "wait";
    case HD_LOG_WAKE: return "wake";
    case HD_LOG_END: return "end";
    case HD_LOG_TIME: return "time";
    case HD_LOG_WARNING: return "warning";
    case HD_LOG_NOTE: return "note";
    case HD_LOG_ASSERT: return "assert";
    case HD_LOG_VERDICT: return "verdict";
    }
    return NULL;
}

/* ---- fields ---- */

/* Each takes what stands at log->at. Returns: 0, -EBADMSG, -ENOMEM. */

static int take_number(hd_log *log, uint64_t *value)
{
    const uint8_t *next = hdi_varint_get(log->at, log->end, value);
    if (!next) return -EBADMSG;
    log->at = next;
    return 0;
}

/* FORMAT-3: what is 0 is not there. */
static int take_if(hd_log *log, bool there, uint64_t *value)
{
    *value = 0;
    if (!there) return 0;
    const int err = take_number(log, value);
    return err || *value ? err : -EBADMSG;
}

static int take_new_text(hd_log *log, struct hdi_log_text *text)
{
    uint64_t bytes;
    const int err = take_number(log, &bytes);
    if (err) return err;
    if (bytes > HDI_LOG_TEXT_MAX || bytes > (uint64_t)(log->end - log->at)) return -EBADMSG;
    if (memchr(log->at, 0, bytes)) return -EBADMSG;
    *text = (struct hdi_log_text){(uint32_t)(log->at - log->block), (uint32_t)bytes};
    if (log->text_count < HDI_LOG_TABLE_MAX) log->texts[log->text_count++] = *text;
    log->at += bytes;
    return 0;
}

static int take_text(hd_log *log, char into[HDI_LOG_TEXT_MAX + 1])
{
    uint64_t number;
    struct hdi_log_text text;
    int err = take_number(log, &number);
    if (!err && number > log->text_count) err = -EBADMSG;
    if (!err && number == 0) err = take_new_text(log, &text);
    if (err) return err;
    if (number > 0) text = log->texts[number - 1];
    memcpy(into, log->block + text.offset, text.bytes);
    into[text.bytes] = 0;
    return 0;
}

/* The name of a file, to be kept as long as the log is open; NULL if memory is short, or there are
 * too many. */
static const char *keep_name(hd_log *log, const char *name)
{
    unsigned hash = 0;
    for (const char *at = name; *at; at++) hash = hash * 31 + (unsigned char)*at;
    struct hdi_log_file **bucket = &log->files[hash % HDI_LOG_BUCKETS];
    for (struct hdi_log_file *file = *bucket; file; file = file->next) {
        if (strcmp(file->name, name) == 0) return file->name;
    }
    const size_t bytes = strlen(name) + 1;
    if (log->file_count == HDI_LOG_FILES_MAX) return NULL;
    struct hdi_log_file *file = malloc(sizeof(*file) + bytes);
    if (!file) return NULL;
    memcpy(file->name, name, bytes);
    file->next = *bucket;
    *bucket = file;
    log->file_count++;
    return file->name;
}

static int take_new_site(hd_log *log, struct hdi_log_site *site)
{
    uint64_t line = 0;
    int err = take_text(log, log->name);
    if (!err) err = take_number(log, &line);
    if (!err && line > INT_MAX) err = -EBADMSG;
    if (err) return err;
    const char *file = keep_name(log, log->name);
    if (!file) return -ENOMEM;
    *site = (struct hdi_log_site){file, (int)line};
    if (log->site_count < HDI_LOG_TABLE_MAX) log->sites[log->site_count++] = *site;
    return 0;
}

static int take_site(hd_log *log, struct hdi_log_site *site)
{
    uint64_t number;
    const int err = take_number(log, &number);
    if (err) return err;
    if (number > log->site_count) return -EBADMSG;
    if (number == 0) return take_new_site(log, site);
    *site = log->sites[number - 1];
    return 0;
}

/* ---- records ---- */

static int take_record(hd_log *log, hd_log_event *event)
{
    if (log->end - log->at < 2) return -EBADMSG;
    const unsigned kind = *log->at++, flags = *log->at++;
    uint64_t time, task;
    struct hdi_log_site site = {NULL, 0};
    if (kind == 0 || flags & ~HDI_LOG_HAS_ALL) return -EBADMSG;
    int err = take_if(log, flags & HDI_LOG_HAS_TIME, &time);
    if (!err) err = take_if(log, flags & HDI_LOG_HAS_TASK, &task);
    if (!err) err = take_if(log, flags & HDI_LOG_HAS_A, &event->a);
    if (!err) err = take_if(log, flags & HDI_LOG_HAS_B, &event->b);
    log->text[0] = 0;
    if (!err && flags & HDI_LOG_HAS_TEXT) err = take_text(log, log->text);
    if (!err && flags & HDI_LOG_HAS_TEXT && !log->text[0]) err = -EBADMSG; /* FORMAT-3 */
    if (!err && flags & HDI_LOG_HAS_SITE) err = take_site(log, &site);
    if (err) return err;
    log->time_ns = (int64_t)((uint64_t)log->time_ns + time);
    log->task += hdi_unzigzag(task);
    log->step += kind == HD_LOG_STEP;
    event->kind = (hd_log_kind)kind;
    event->time_ns = log->time_ns;
    event->task = log->task;
    event->step = log->step;
    event->sequence = ++log->sequence;
    event->text = log->text;
    event->file = site.file;
    event->line = site.line;
    return 0;
}

/* Begin with the first event of a block. */
static int enter_block(hd_log *log, uint64_t number)
{
    struct hdi_log_mark mark;
    const int err = hdi_log_load(log, number, &mark);
    if (err) return err;
    log->next_block = number + 1;
    log->at = log->block + HDI_LOG_MARK_BYTES;
    log->end = log->at + mark.payload;
    log->left = mark.events;
    log->sequence = mark.sequence - 1;
    log->step = mark.steps;
    log->time_ns = mark.time_ns;
    log->task = 0;
    log->text_count = log->site_count = 0;
    return 0;
}

/* The block under way has ended: the next, if it begins where that one ends. */
static int next_block(hd_log *log)
{
    const uint64_t step = log->step;
    const int64_t time_ns = log->time_ns;
    const int err = enter_block(log, log->next_block);
    if (err) return err;
    return log->step == step && log->time_ns == time_ns ? 0 : -EBADMSG;
}

int hd_log_next(hd_log *log, hd_log_event *event)
{
    hd_log_event found;
    if (!log->err && log->left == 0) {
        const bool last = log->next_block == log->info.blocks;
        if (log->at != log->end) log->err = -EBADMSG;
        else if (last) return 0;
        else log->err = next_block(log);
    }
    if (!log->err) log->err = take_record(log, &found);
    if (log->err) return log->err;
    log->left--;
    *event = found;
    return 1;
}

void hdi_log_rewind(hd_log *log)
{
    log->err = 0;
    log->next_block = 0;
    log->at = log->end = NULL;
    log->left = 0;
    log->sequence = log->step = log->task = 0;
    log->time_ns = 0;
}

/* The block that holds an event. */
static uint64_t find_block(const hd_log *log, uint64_t sequence)
{
    uint64_t low = 0, high = log->info.blocks;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (log->index[middle].sequence <= sequence)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int hd_log_seek(hd_log *log, uint64_t sequence)
{
    hd_log_event event;
    if (sequence == 0 || sequence > log->info.events) return -ERANGE;
    log->err = enter_block(log, find_block(log, sequence));
    while (!log->err && log->sequence + 1 < sequence) {
        const int got = hd_log_next(log, &event);
        if (got <= 0) log->err = got ? got : -EBADMSG;
    }
    return log->err;
}

/* ---- events ---- */

bool hdi_log_same(const hd_log_event *a, const hd_log_event *b)
{
    if (a->kind != b->kind || a->time_ns != b->time_ns || a->task != b->task || a->a != b->a ||
        a->b != b->b || a->line != b->line || strcmp(a->text, b->text) != 0) {
        return false;
    }
    return a->file && b->file ? strcmp(a->file, b->file) == 0 : !a->file && !b->file;
}

__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size,
                                                         const char *format, ...)
{
    const size_t used = strlen(text);
    va_list list;
    va_start(list, format);
    vsnprintf(text + used, size - used, format, list);
    va_end(list);
}

void hdi_log_describe(const hd_log_event *event, char *text, size_t size)
{
    const char *name = hd_log_kind_name(event->kind);
    text[0] = 0;
    append(text, size, "%s", name ? name : "?");
    if (event->task) append(text, size, " task %" PRIu64, event->task);
    if (event->a) append(text, size, " a %" PRId64, (int64_t)event->a);
    if (event->b) append(text, size, " b %" PRId64, (int64_t)event->b);
    if (event->text[0]) append(text, size, " \"%.40s\"", event->text);
    if (event->file) append(text, size, " at %s:%d", event->file, event->line);
}
