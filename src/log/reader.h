/* SPDX-License-Identifier: MIT
 *
 * reader: an open log, block by block. Nothing in the file is trusted: whatever it holds, reading
 * ends with events, the end, or an error.
 *
 * Owner   whoever opened it, one thread at a time.
 * Memory  one block with its tables, the names of files seen so far, and an index of the blocks.
 *
 * READER-1: blocks in the index have a good checksum, and follow from each other by their hashes.
 * READER-2: a record is read only within the payload of its block.
 */
#ifndef HDI_LOG_READER_H
#define HDI_LOG_READER_H

#include "log/format.h"

#define HDI_LOG_BUCKETS   256u
#define HDI_LOG_FILES_MAX 65536u /* more names than that are no program's */

struct hdi_log_block {
    uint64_t offset;
    uint64_t sequence;              /* of its first event */
    uint8_t hash[HDI_SHA256_BYTES]; /* of all before it */
};

/* The name of a source file, once. */
struct hdi_log_file {
    struct hdi_log_file *next;
    char name[];
};

struct hdi_log_text {
    uint32_t offset, bytes; /* in the payload */
};

struct hdi_log_site {
    const char *file;
    int line;
};

struct hd_log {
    int fd;
    hd_log_info info;
    uint8_t *header; /* its texts are in here */
    uint8_t origin[HDI_SHA256_BYTES]; /* where the chain begins */
    char damage[160];
    struct hdi_log_block *index; /* info.blocks of them */
    size_t room;
    struct hdi_log_file *files[HDI_LOG_BUCKETS];
    unsigned file_count;

    /* Where the next event is. */
    uint64_t next_block; /* the one after the block under way */
    const uint8_t *at, *end;
    uint32_t left; /* events in the block under way */
    uint64_t sequence, step, task; /* of the last event; task: in this block */
    int64_t time_ns;
    int err; /* of reading this block; until a seek */
    unsigned text_count, site_count;
    struct hdi_log_text texts[HDI_LOG_TABLE_MAX];
    struct hdi_log_site sites[HDI_LOG_TABLE_MAX];
    char text[HDI_LOG_TEXT_MAX + 1];
    char name[HDI_LOG_TEXT_MAX + 1];
    uint8_t block[HDI_LOG_MARK_BYTES + HDI_LOG_PAYLOAD_MAX];
};

/* log/open.c: read a block of the index. Returns: 0; -EIO or what else reading says; -EBADMSG if
 * the file is not what it was. */
int hdi_log_load(hd_log *log, uint64_t number, struct hdi_log_mark *mark);

/* log/read.c: begin with the first event. */
void hdi_log_rewind(hd_log *log);

/* Whether two events are the same, but for where they are in their logs. */
bool hdi_log_same(const hd_log_event *a, const hd_log_event *b);

/* In one line, for people. */
void hdi_log_describe(const hd_log_event *event, char *text, size_t size);

#endif
