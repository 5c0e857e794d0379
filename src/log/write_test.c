/* SPDX-License-Identifier: MIT
 *
 * What is written can be read again; blocks, sizes, and disks that fail.
 */
#include "log/writer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "logs.h"
#include "os/logfile.h"

TEST_MAIN

TEST(events_survive)
{
    static const uint64_t sizes[][2] = {{0, 0}, {1, 0}, {3, 1}, {100, 7}, {30000, 0}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const struct logs_file file = logs_made(&logs_head, sizes[i][0], sizes[i][1]);
        hd_log *log = logs_open(&file);
        const hd_log_info *info = hd_log_about(log);
        EXPECT(info->complete && !info->damage);
        EXPECT_EQ(info->events, sizes[i][0]);
        EXPECT_EQ(info->good_bytes, info->file_bytes);
        EXPECT_EQ(info->version, 1);
        EXPECT_EQ(info->seed, 7);
        EXPECT(strcmp(info->sampler, "pct:3") == 0 && strcmp(info->options, "workers=1") == 0);
        EXPECT(strcmp(info->program, "program") == 0 && strcmp(info->library, "0.1.0") == 0);
        EXPECT(info->identity[0] == 1 && info->identity[2] == 3 && info->identity[31] == 0);
        logs_expect(log, sizes[i][0]);
        hd_log_close(log);
        close(file.fd);
    }
}

TEST(blocks_end_when_they_are_full)
{
    const struct logs_file file = logs_made(&logs_head, 30000, 0);
    hd_log *log = logs_open(&file);
    const hd_log_info *info = hd_log_about(log);
    EXPECT(info->blocks >= info->file_bytes / (HDI_LOG_MARK_BYTES + HDI_LOG_PAYLOAD_MAX));
    EXPECT(info->blocks <= 2 + info->file_bytes / (HDI_LOG_PAYLOAD_MAX - HDI_LOG_RECORD_MAX));
    EXPECT(info->file_bytes / info->events < 12);
    hd_log_close(log);
}

static uint64_t blocks_of(const struct hdi_log_record *record, uint64_t events, bool through)
{
    const struct logs_file file = logs_file();
    struct hdi_log_writer *writer = malloc(sizeof(*writer));
    EXPECT(writer);
    hdi_log_writer_init(writer, dup(file.fd), &logs_head, through);
    for (uint64_t i = 0; i < events; i++) hdi_log_writer_put(writer, record);
    EXPECT_EQ(hdi_log_writer_end(writer), 0);
    free(writer);
    hd_log *log = logs_open(&file);
    const uint64_t blocks = hd_log_about(log)->blocks;
    EXPECT_EQ(hd_log_about(log)->events, events);
    hd_log_close(log);
    close(file.fd);
    return blocks;
}

TEST(blocks_end_after_so_many_steps)
{
    const struct hdi_log_record step = {.kind = HD_LOG_STEP, .task = 1};
    EXPECT_EQ(blocks_of(&step, 9999, false), 1);
    EXPECT_EQ(blocks_of(&step, 10000, false), 1);
    EXPECT_EQ(blocks_of(&step, 10001, false), 2);
    EXPECT_EQ(blocks_of(&step, 50, true), 50);
}

/* The longest records there can be, and more texts than a block numbers. */
TEST(every_record_fits)
{
    static char text[400], file_name[400];
    memset(text, 't', sizeof(text) - 1);
    memset(file_name, 'f', sizeof(file_name) - 1);
    const struct logs_file file = logs_file();
    struct hdi_log_writer *writer = malloc(sizeof(*writer));
    EXPECT(writer);
    hdi_log_writer_init(writer, dup(file.fd), &logs_head, false);
    for (int i = 0; i < 3000; i++) {
        struct hdi_log_record record = {
            .kind = 63, .time_ns = i % 2 ? INT64_MAX : 0, .task = i % 2 ? UINT64_MAX : 1,
            .a = UINT64_MAX, .b = UINT64_MAX, .text = text, .file = file_name, .line = INT32_MAX};
        if (i >= 1000) {
            record.text += 240;
            record.file += 230;
        }
        memset(text + 250, 'a' + i % 26, 5);
        memset(file_name + 240, 'a' + i / 26 % 26, 9);
        hdi_log_writer_put(writer, &record);
    }
    EXPECT_EQ(hdi_log_writer_end(writer), 0);
    free(writer);
    hd_log *log = logs_open(&file);
    hd_log_event event;
    int count = 0;
    for (; hd_log_next(log, &event) == 1; count++) {
        EXPECT(event.a == UINT64_MAX && event.b == UINT64_MAX && event.line == INT32_MAX);
        EXPECT_EQ(strlen(event.text), count < 1000 ? HDI_LOG_TEXT_MAX : 399 - 240);
        EXPECT_EQ(strlen(event.file), count < 1000 ? HDI_LOG_TEXT_MAX : 399 - 230);
        EXPECT_EQ(event.text[count < 1000 ? 254 : 14], 'a' + count % 26);
    }
    EXPECT_EQ(count, 3000);
    hd_log_close(log);
}

/* A disk that is full from the beginning, and one that becomes full in the middle of a write. */
TEST(a_full_disk_is_an_error)
{
    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    EXPECT(full >= 0);
    EXPECT_EQ(logs_write(full, &logs_head, 10, 0), -ENOSPC);
}

TEST(a_write_that_is_cut_is_an_error)
{
    const struct logs_file file = logs_file();
    const struct rlimit limit = {1000, 1000};
    signal(SIGXFSZ, SIG_IGN);
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    EXPECT_EQ(logs_write(dup(file.fd), &logs_head, 1000, 10), -EFBIG);
    hd_log *log = logs_open(&file);
    const hd_log_info *info = hd_log_about(log);
    EXPECT(!info->complete && info->damage && info->events > 0 && info->events < 1000);
    EXPECT(strstr(info->damage, "is cut"));
    logs_expect(log, info->events);
    hd_log_close(log);
}

/* Who reads the file that was there keeps it. */
TEST(a_file_is_not_written_over)
{
    char path[64];
    snprintf(path, sizeof(path), "/tmp/heddle-log-%d", (int)getpid());
    EXPECT_EQ(logs_write(hdi_logfile_create(path), &logs_head, 5, 0), 0);
    hd_log *log = NULL;
    EXPECT_EQ(hd_log_open(&log, path), 0);
    EXPECT_EQ(logs_write(hdi_logfile_create(path), &logs_head, 0, 0), 0);
    logs_expect(log, 5);
    hd_log_close(log);
    EXPECT_EQ(hd_log_open(&log, path), 0);
    logs_expect(log, 0);
    hd_log_close(log);
    EXPECT_EQ(unlink(path), 0);
    EXPECT_EQ(hdi_logfile_create("/nowhere/at/all"), -ENOENT);
}
