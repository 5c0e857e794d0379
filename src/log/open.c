/* SPDX-License-Identifier: MIT
 *
 * Opening a log: the header, then every block, as far as all is good. What ends that is said in
 * info.damage.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/reader.h"
#include "os/logfile.h"

/* ---- the header ---- */

static void about(hd_log_info *info, const struct hdi_log_head *head)
{
    info->version = HDI_LOG_VERSION;
    info->seed = head->seed;
    info->sampler = head->sampler;
    info->options = head->options;
    info->program = head->program;
    info->library = head->library;
    memcpy(info->identity, head->identity, sizeof(info->identity));
}

static int read_header(hd_log *log)
{
    uint8_t start[HDI_LOG_START_BYTES];
    if (log->info.file_bytes < sizeof(start)) return -EBADMSG;
    int err = hdi_logfile_read(log->fd, start, sizeof(start), 0);
    const size_t bytes = err ? 0 : hdi_log_head_length(start);
    if (!err && (bytes == 0 || bytes > log->info.file_bytes)) err = -EBADMSG;
    if (err) return err;
    struct hdi_log_head head;
    log->header = malloc(bytes);
    if (!log->header) return -ENOMEM;
    err = hdi_logfile_read(log->fd, log->header, bytes, 0);
    if (!err) err = hdi_log_head_get(log->header, bytes, &head, log->origin);
    if (err) return err;
    about(&log->info, &head);
    log->info.good_bytes = bytes;
    memcpy(log->info.hash, log->origin, sizeof(log->origin));
    return 0;
}

/* ---- blocks ---- */

__attribute__((format(printf, 2, 3))) static void damaged(hd_log *log, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(log->damage, sizeof(log->damage), format, list);
    va_end(list);
    log->info.damage = log->damage;
}

static uint64_t bytes_left(const hd_log *log)
{
    return log->info.file_bytes - log->info.good_bytes;
}

static void wrong(hd_log *log, const char *what)
{
    damaged(log, "block %" PRIu64 " at byte %" PRIu64 " %s: %" PRIu64 " bytes cannot be read",
            log->info.blocks + 1, log->info.good_bytes, what, bytes_left(log));
}

static void cut(hd_log *log, uint64_t bytes)
{
    damaged(log, "block %" PRIu64 " at byte %" PRIu64 " is cut: of %" PRIu64 " bytes %" PRIu64
            " are there", log->info.blocks + 1, log->info.good_bytes, bytes, bytes_left(log));
}

/* What a mark says that the bytes alone do not: it follows from what is before. */
static bool follows(const hd_log *log, const struct hdi_log_mark *mark)
{
    return mark->sequence == log->info.events + 1 &&
           memcmp(mark->hash, log->info.hash, sizeof(mark->hash)) == 0;
}

static bool is_sound(const struct hdi_log_mark *mark)
{
    if (mark->magic == HDI_LOG_END) return mark->payload == 0 && mark->events == 0;
    return mark->payload <= HDI_LOG_PAYLOAD_MAX && mark->events > 0 &&
           mark->events <= mark->payload / 2;
}

static int add_to_index(hd_log *log, const struct hdi_log_mark *mark)
{
    if (log->info.blocks == log->room) {
        const size_t room = log->room ? 2 * log->room : 16;
        struct hdi_log_block *index = realloc(log->index, room * sizeof(*index));
        if (!index) return -ENOMEM;
        log->index = index;
        log->room = room;
    }
    struct hdi_log_block *block = &log->index[log->info.blocks++];
    block->offset = log->info.good_bytes;
    block->sequence = mark->sequence;
    memcpy(block->hash, mark->hash, sizeof(block->hash));
    return 0;
}

/* Take in what stands at good_bytes. Returns: 1; 0 if there is nothing good any more; -errno. */
static int take_block(hd_log *log)
{
    struct hdi_log_mark mark;
    if (bytes_left(log) == 0) {
        damaged(log, "the footer is missing after block %" PRIu64
                ": the run did not end, or the file was cut", log->info.blocks);
        return 0;
    }
    if (bytes_left(log) < HDI_LOG_MARK_BYTES) return cut(log, HDI_LOG_MARK_BYTES), 0;
    const uint64_t offset = log->info.good_bytes;
    int err = hdi_logfile_read(log->fd, log->block, HDI_LOG_MARK_BYTES, offset);
    if (err) return err;
    hdi_log_mark_get(&mark, log->block);
    const bool last = mark.magic == HDI_LOG_END;
    if (!last && mark.magic != HDI_LOG_BLOCK) return wrong(log, "does not begin like one"), 0;
    if (!is_sound(&mark)) return wrong(log, "has an impossible size"), 0;
    const uint64_t bytes = HDI_LOG_MARK_BYTES + mark.payload;
    if (bytes_left(log) < bytes) return cut(log, bytes), 0;
    err = hdi_logfile_read(log->fd, log->block + HDI_LOG_MARK_BYTES, mark.payload,
                           offset + HDI_LOG_MARK_BYTES);
    if (err) return err;
    if (mark.crc != hdi_log_block_crc(log->block, mark.payload)) {
        return wrong(log, "has a wrong checksum"), 0;
    }
    if (!follows(log, &mark)) return wrong(log, "does not follow from what is before it"), 0;
    err = last ? 0 : add_to_index(log, &mark);
    if (err) return err;
    log->info.good_bytes += bytes;
    log->info.events += mark.events;
    log->info.complete = last;
    if (!last) hdi_log_block_hash(log->block, mark.payload, log->info.hash); /* READER-1 */
    return !last;
}

static int read_blocks(hd_log *log)
{
    int more;
    do more = take_block(log);
    while (more > 0);
    if (more == 0 && log->info.complete && bytes_left(log) > 0) {
        const bool one = bytes_left(log) == 1;
        damaged(log, "%" PRIu64 " %s the footer", bytes_left(log),
                one ? "byte follows" : "bytes follow");
    }
    return more;
}

int hdi_log_load(hd_log *log, uint64_t number, struct hdi_log_mark *mark)
{
    const struct hdi_log_block *block = &log->index[number];
    int err = hdi_logfile_read(log->fd, log->block, HDI_LOG_MARK_BYTES, block->offset);
    if (err) return err;
    hdi_log_mark_get(mark, log->block);
    if (mark->magic != HDI_LOG_BLOCK || !is_sound(mark)) return -EBADMSG;
    err = hdi_logfile_read(log->fd, log->block + HDI_LOG_MARK_BYTES, mark->payload,
                           block->offset + HDI_LOG_MARK_BYTES);
    if (err) return err;
    const bool same = mark->crc == hdi_log_block_crc(log->block, mark->payload) &&
                      mark->sequence == block->sequence &&
                      memcmp(mark->hash, block->hash, sizeof(mark->hash)) == 0;
    return same ? 0 : -EBADMSG;
}

/* ---- open and close ---- */

int hd_log_open(hd_log **log, const char *path)
{
    hd_log *opened = calloc(1, sizeof(*opened));
    if (!opened) return -ENOMEM;
    opened->fd = hdi_logfile_open(path, &opened->info.file_bytes);
    int err = opened->fd < 0 ? opened->fd : read_header(opened);
    if (!err) err = read_blocks(opened);
    if (err) {
        hd_log_close(opened);
        return err;
    }
    hdi_log_rewind(opened);
    *log = opened;
    return 0;
}

void hd_log_close(hd_log *log)
{
    if (!log) return;
    for (unsigned i = 0; i < HDI_LOG_BUCKETS; i++) {
        for (struct hdi_log_file *file = log->files[i], *next; file; file = next) {
            next = file->next;
            free(file);
        }
    }
    if (log->fd >= 0) (void)hdi_logfile_close(log->fd); /* Nothing was written. */
    free(log->index);
    free(log->header);
    free(log);
}

const hd_log_info *hd_log_about(hd_log *log)
{
    return &log->info;
}
