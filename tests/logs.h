/* SPDX-License-Identifier: MIT
 *
 * logs: event logs in memory, for tests of their writer and readers. White-box: uses src/log.
 */
#ifndef TEST_LOGS_H
#define TEST_LOGS_H

#include <sys/mman.h>

#include "base/prng.h"
#include "log/writer.h"
#include "test.h"

#define LOGS_BYTES_MAX (1u << 20)

/* A file without a name, and what it is called anyway. */
struct logs_file {
    int fd;
    char path[40];
};

static inline struct logs_file logs_file(void)
{
    struct logs_file file = {.fd = memfd_create("log", MFD_CLOEXEC)};
    EXPECT(file.fd >= 0);
    snprintf(file.path, sizeof(file.path), "/proc/self/fd/%d", file.fd);
    return file;
}

static inline void logs_put(const struct logs_file *file, const void *bytes, size_t count)
{
    EXPECT_EQ(ftruncate(file->fd, 0), 0);
    EXPECT_EQ(pwrite(file->fd, bytes, count, 0), count);
}

static inline size_t logs_get(const struct logs_file *file, uint8_t *bytes, size_t room)
{
    const ssize_t n = pread(file->fd, bytes, room, 0);
    EXPECT(n >= 0 && (size_t)n < room);
    return (size_t)n;
}

static const struct hdi_log_head logs_head = {
    .identity = {1, 2, 3},
    .program = "program",
    .library = "0.1.0",
    .seed = 7,
    .sampler = "pct:3",
    .options = "workers=1",
};

/* The n-th event of a made-up run, from 1: a bit of everything, the same each time. */
static inline struct hdi_log_record logs_event(uint64_t n)
{
    static const uint8_t kinds[] = {HD_LOG_CHOICE, HD_LOG_STEP, HD_LOG_WAIT, HD_LOG_WAKE,
                                    HD_LOG_SPAWN,  HD_LOG_END,  HD_LOG_NOTE, HD_LOG_STEP};
    static const char *const texts[] = {"", "mutex", "channel of 3", "a note"};
    static const char *const files[] = {NULL, "a.c", "bank_transfer.c"};
    const uint64_t draw = hdi_mix64(n);
    struct hdi_log_record event = {
        .kind = kinds[draw % 8],
        .time_ns = (int64_t)(n / 2 * 1000),
        .task = 1 + (draw >> 8) % 5,
        .a = (draw >> 16) % 3 ? (draw >> 20) % 9 : 0,
        .b = (draw >> 24) % 4,
        .text = texts[(draw >> 32) % 4],
        .file = files[(draw >> 40) % 3],
    };
    if (draw % 8 == 5) event.a = (uint64_t)INT64_C(-5);
    if (event.file) event.line = (int)((draw >> 48) % 400);
    return event;
}

/* A log of so many of them, with a block each `per_block` of them (0: as they come). Takes `fd`. */
static inline int logs_write(int fd, const struct hdi_log_head *head, uint64_t events,
                             uint64_t per_block)
{
    struct hdi_log_writer *writer = malloc(sizeof(*writer));
    EXPECT(writer);
    hdi_log_writer_init(writer, fd, head, false);
    for (uint64_t n = 1; n <= events; n++) {
        const struct hdi_log_record event = logs_event(n);
        hdi_log_writer_put(writer, &event);
        if (per_block && n % per_block == 0) hdi_log_writer_flush(writer);
    }
    const int err = hdi_log_writer_end(writer);
    free(writer);
    return err;
}

static inline struct logs_file logs_made(const struct hdi_log_head *head, uint64_t events,
                                         uint64_t per_block)
{
    struct logs_file file = logs_file();
    EXPECT_EQ(logs_write(dup(file.fd), head, events, per_block), 0);
    return file;
}

static inline hd_log *logs_open(const struct logs_file *file)
{
    hd_log *log = NULL;
    EXPECT_EQ(hd_log_open(&log, file->path), 0);
    return log;
}

static inline bool logs_is(const hd_log_event *event, const struct hdi_log_record *record)
{
    const char *text = record->text ? record->text : "";
    if ((uint8_t)event->kind != record->kind || event->time_ns != record->time_ns) return false;
    if (event->task != record->task || event->a != record->a || event->b != record->b) return false;
    if (strcmp(event->text, text) != 0 || event->line != record->line) return false;
    return record->file ? event->file && strcmp(event->file, record->file) == 0 : !event->file;
}

/* The first events of the made-up run, and then the end. */
static inline void logs_expect(hd_log *log, uint64_t events)
{
    hd_log_event event;
    uint64_t steps = 0;
    for (uint64_t n = 1; n <= events; n++) {
        const struct hdi_log_record expected = logs_event(n);
        EXPECT_EQ(hd_log_next(log, &event), 1);
        steps += expected.kind == HD_LOG_STEP;
        EXPECT_EQ(event.sequence, n);
        EXPECT_EQ(event.step, steps);
        EXPECT(logs_is(&event, &expected));
    }
    EXPECT_EQ(hd_log_next(log, &event), 0);
}

#endif
