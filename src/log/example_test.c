/* SPDX-License-Identifier: MIT
 *
 * The example in docs/log-format.md is what the writer writes, and what the reader reads.
 */
#include <ctype.h>
#include <libgen.h>
#include <limits.h>

#include "logs.h"

TEST_MAIN

#define BYTES_MAX 1024

static const struct hdi_log_head head = {
    .program = "demo", .library = "0.1.0", .seed = 7, .sampler = "random", .options = "workers=1"};

static const struct hdi_log_record events[] = {
    {.kind = HD_LOG_SPAWN, .task = 1, .text = "main", .file = "demo.c", .line = 300},
    {.kind = HD_LOG_STEP, .task = 1, .b = HD_TOUCH_ANY},
    {.kind = HD_LOG_SPAWN, .time_ns = 1000, .task = 2, .a = 1, .file = "demo.c", .line = 12},
    {.kind = HD_LOG_CHOICE, .time_ns = 1000, .task = 1, .a = 2},
    {.kind = HD_LOG_STEP, .time_ns = 1000, .task = 1, .a = 1, .b = HD_TOUCH_WRITE,
     .file = "demo.c", .line = 12},
    {.kind = HD_LOG_END, .time_ns = 2000, .task = 1, .a = (uint64_t)INT64_C(-5)},
    {.kind = HD_LOG_VERDICT, .time_ns = 2000, .a = 2, .b = (uint64_t)INT64_C(-5), .text = "main"},
};
#define EVENTS (sizeof(events) / sizeof(events[0]))

/* The compiler is given paths relative to the build directory; this program is in its tests/. */
static FILE *open_document(void)
{
    char self[PATH_MAX], here[] = __FILE__, path[2 * PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    EXPECT(length > 0);
    self[length] = 0;
    const char *root = dirname(here);
    if (root[0] == '/')
        snprintf(path, sizeof(path), "%s/../../docs/log-format.md", root);
    else
        snprintf(path, sizeof(path), "%s/../%s/../../docs/log-format.md", dirname(self), root);
    FILE *file = fopen(path, "r");
    if (!file) test_skip("the document is not beside the source");
    return file;
}

/* Lines of the example are "0000  89 48 44  words": bytes are two digits and one blank each. */
static size_t bytes_of(const char *line, uint8_t *bytes)
{
    size_t count = 0;
    for (const char *at = line + 6; isxdigit((unsigned char)at[0]); at += 3) {
        bytes[count++] = (uint8_t)strtoul((char[]){at[0], at[1], 0}, NULL, 16);
        if (at[2] != ' ') break;
    }
    return count;
}

static size_t read_document(uint8_t *bytes)
{
    char line[256];
    size_t count = 0;
    bool inside = false;
    FILE *file = open_document();
    while (fgets(line, sizeof(line), file)) {
        if (strncmp(line, "```", 3) == 0) {
            inside = strcmp(line, "```hex\n") == 0;
        } else if (inside && isxdigit((unsigned char)line[0])) {
            EXPECT_EQ(strtoul(line, NULL, 16), count);
            EXPECT(count + 64 < BYTES_MAX);
            count += bytes_of(line, bytes + count);
        }
    }
    (void)fclose(file);
    return count;
}

static size_t written(const struct logs_file *file, uint8_t *bytes)
{
    static struct hdi_log_writer writer;
    hdi_log_writer_init(&writer, dup(file->fd), &head, false);
    for (size_t i = 0; i < EVENTS; i++) hdi_log_writer_put(&writer, &events[i]);
    EXPECT_EQ(hdi_log_writer_end(&writer), 0);
    return logs_get(file, bytes, BYTES_MAX);
}

static void print(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i % 16 == 0) printf("%s# %04zx ", i ? "\n" : "", i);
        printf(" %02x", bytes[i]);
    }
    printf("\n");
}

TEST(the_example_is_what_is_written)
{
    uint8_t documented[BYTES_MAX], bytes[BYTES_MAX];
    const struct logs_file file = logs_file();
    const size_t count = written(&file, bytes);
    if (read_document(documented) != count || memcmp(documented, bytes, count) != 0) {
        print(bytes, count);
        test_fail(__FILE__, __LINE__, "docs/log-format.md has other bytes");
    }
}

TEST(the_example_is_what_is_read)
{
    uint8_t bytes[BYTES_MAX];
    const struct logs_file file = logs_file();
    logs_put(&file, bytes, read_document(bytes));
    hd_log *log = logs_open(&file);
    EXPECT(hd_log_about(log)->complete && !hd_log_about(log)->damage);
    EXPECT_EQ(hd_log_about(log)->events, EVENTS);
    for (size_t i = 0; i < EVENTS; i++) {
        hd_log_event event;
        EXPECT_EQ(hd_log_next(log, &event), 1);
        EXPECT(logs_is(&event, &events[i]));
    }
    hd_log_close(log);
}
