/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/check.h"
#include "log/writer.h"
#include "os/logfile.h"

/* A block is written at the latest after so many steps: what a program that is killed loses. */
#define STEPS_MAX 10000u

static void write_out(struct hdi_log_writer *writer, const void *bytes, size_t count)
{
    if (writer->err) return;
    writer->err = hdi_logfile_write(writer->fd, bytes, count);
    if (!writer->err) writer->bytes += count;
}

/* The next block, or the footer, comes after what was written. */
static void begin_block(struct hdi_log_writer *writer)
{
    writer->mark.sequence = writer->events + 1;
    writer->mark.steps = writer->steps;
    writer->mark.time_ns = writer->time_ns;
    writer->steps_written = writer->steps;
    writer->task = 0;
    writer->used = 0;
    hdi_log_table_clear(&writer->texts);
    hdi_log_table_clear(&writer->sites);
}

void hdi_log_writer_init(struct hdi_log_writer *writer, int fd, const struct hdi_log_head *head,
                         bool through)
{
    writer->fd = fd;
    writer->err = 0;
    writer->through = through;
    writer->events = writer->steps = writer->bytes = 0;
    writer->time_ns = 0;
    _Static_assert(sizeof(writer->block) >= HDI_LOG_HEADER_MAX, "the header fits in the buffer");
    const size_t bytes = hdi_log_head_put(writer->block, head, writer->mark.hash);
    write_out(writer, writer->block, bytes);
    begin_block(writer);
}

void hdi_log_writer_flush(struct hdi_log_writer *writer)
{
    if (writer->used == 0) return;
    writer->mark.magic = HDI_LOG_BLOCK;
    writer->mark.payload = writer->used;
    writer->mark.events = (uint32_t)(writer->events + 1 - writer->mark.sequence);
    hdi_log_mark_put(writer->block, &writer->mark);
    write_out(writer, writer->block, HDI_LOG_MARK_BYTES + writer->used);
    hdi_log_block_hash(writer->block, writer->used, writer->mark.hash);
    begin_block(writer);
}

int hdi_log_writer_end(struct hdi_log_writer *writer)
{
    hdi_log_writer_flush(writer);
    writer->mark.magic = HDI_LOG_END;
    writer->mark.payload = writer->mark.events = 0;
    hdi_log_mark_put(writer->block, &writer->mark);
    write_out(writer, writer->block, HDI_LOG_MARK_BYTES);
    const int err = hdi_logfile_close(writer->fd);
    return writer->err ? writer->err : err;
}

/* ---- records ---- */

/* Returns what follows it; *entry is where its bytes are, there or before. */
static uint8_t *put_text(struct hdi_log_writer *writer, uint8_t *at, const char *text,
                         struct hdi_log_entry *entry)
{
    const size_t bytes = strnlen(text, HDI_LOG_TEXT_MAX);
    const unsigned number = hdi_log_table_find(&writer->texts, writer->block, text, bytes, 0);
    at = hdi_varint_put(at, number);
    if (number > 0) {
        *entry = writer->texts.entries[number - 1];
        return at;
    }
    at = hdi_varint_put(at, bytes);
    memcpy(at, text, bytes);
    *entry = (struct hdi_log_entry){(uint32_t)(at - writer->block), (uint16_t)bytes, 0};
    hdi_log_table_add(&writer->texts, writer->block, entry);
    return at + bytes;
}

static uint8_t *put_site(struct hdi_log_writer *writer, uint8_t *at, const char *file, int line)
{
    const size_t bytes = strnlen(file, HDI_LOG_TEXT_MAX);
    const unsigned number = hdi_log_table_find(&writer->sites, writer->block, file, bytes, line);
    at = hdi_varint_put(at, number);
    if (number > 0) return at;
    struct hdi_log_entry entry;
    at = put_text(writer, at, file, &entry);
    entry.line = line;
    hdi_log_table_add(&writer->sites, writer->block, &entry);
    return hdi_varint_put(at, (uint64_t)line);
}

static uint8_t flags_of(const struct hdi_log_writer *writer, const struct hdi_log_record *record)
{
    unsigned flags = 0;
    if (record->time_ns != writer->time_ns) flags |= HDI_LOG_HAS_TIME;
    if (record->task != writer->task) flags |= HDI_LOG_HAS_TASK;
    if (record->a != 0) flags |= HDI_LOG_HAS_A;
    if (record->b != 0) flags |= HDI_LOG_HAS_B;
    if (record->text && *record->text) flags |= HDI_LOG_HAS_TEXT;
    if (record->file) flags |= HDI_LOG_HAS_SITE;
    return (uint8_t)flags;
}

static uint8_t *put_record(struct hdi_log_writer *writer, uint8_t *at,
                           const struct hdi_log_record *record)
{
    const uint8_t flags = flags_of(writer, record);
    struct hdi_log_entry entry;
    *at++ = record->kind;
    *at++ = flags;
    if (flags & HDI_LOG_HAS_TIME) {
        at = hdi_varint_put(at, (uint64_t)record->time_ns - (uint64_t)writer->time_ns);
    }
    if (flags & HDI_LOG_HAS_TASK) at = hdi_varint_put(at, hdi_zigzag(record->task - writer->task));
    if (flags & HDI_LOG_HAS_A) at = hdi_varint_put(at, record->a);
    if (flags & HDI_LOG_HAS_B) at = hdi_varint_put(at, record->b);
    if (flags & HDI_LOG_HAS_TEXT) at = put_text(writer, at, record->text, &entry);
    if (flags & HDI_LOG_HAS_SITE) at = put_site(writer, at, record->file, record->line);
    return at;
}

void hdi_log_writer_put(struct hdi_log_writer *writer, const struct hdi_log_record *record)
{
    HDI_ASSERT(record->kind != 0 && record->line >= 0);
    if (writer->err) return; /* It would never be written. */
    uint8_t *payload = writer->block + HDI_LOG_MARK_BYTES;
    const uint8_t *end = put_record(writer, payload + writer->used, record);
    writer->used = (uint32_t)(end - payload);
    writer->events++;
    writer->steps += record->kind == HD_LOG_STEP;
    writer->task = record->task;
    writer->time_ns = record->time_ns;
    if (writer->through || writer->used > HDI_LOG_PAYLOAD_MAX - HDI_LOG_RECORD_MAX ||
        writer->steps - writer->steps_written >= STEPS_MAX) {
        hdi_log_writer_flush(writer);
    }
}
