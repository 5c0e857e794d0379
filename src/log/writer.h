/* SPDX-License-Identifier: MIT
 *
 * writer: puts records into a file, block by block.
 *
 * Owner    the thread that drives the simulation.
 * Memory   constant: one block, and its tables.
 * Failure  the first error is kept, and nothing is written after it: what is in the file by then is
 *          a log that was cut.
 *
 * WRITER-1: where a block ends depends on nothing but the records, the calls of
 *           hdi_log_writer_flush() and `through`.
 */
#ifndef HDI_LOG_WRITER_H
#define HDI_LOG_WRITER_H

#include "log/format.h"
#include "log/table.h"

/* An event, as it is written. */
struct hdi_log_record {
    uint8_t kind; /* hd_log_kind */
    int64_t time_ns;
    uint64_t task, a, b;
    const char *text; /* NULL: none */
    const char *file; /* NULL: no site */
    int line;
};

struct hdi_log_writer {
    int fd;
    int err;       /* what failed first */
    bool through;  /* each record is a block, written at once: a crash loses nothing */
    uint64_t events, steps;
    uint64_t steps_written; /* before the block under way */
    uint64_t task;          /* of the last record in this block; 0: there is none */
    int64_t time_ns;        /* of the last record */
    uint64_t bytes;         /* that were written */
    struct hdi_log_mark mark; /* of the block under way */
    uint32_t used;            /* bytes of its payload */
    struct hdi_log_table texts, sites;
    uint8_t block[HDI_LOG_MARK_BYTES + HDI_LOG_PAYLOAD_MAX];
};

/* Begin with an open file, which is the writer's from now on. What fails is kept. */
void hdi_log_writer_init(struct hdi_log_writer *writer, int fd, const struct hdi_log_head *head,
                         bool through);

void hdi_log_writer_put(struct hdi_log_writer *writer, const struct hdi_log_record *record);

/* Write what is held back. */
void hdi_log_writer_flush(struct hdi_log_writer *writer);

/* Write the footer, and close. Returns: 0, or what failed first. */
int hdi_log_writer_end(struct hdi_log_writer *writer);

#endif
