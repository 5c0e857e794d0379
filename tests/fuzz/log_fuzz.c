/* SPDX-License-Identifier: MIT
 *
 * The reader of event logs. The first byte says what the rest is: a whole file; or the payloads of
 * blocks, whose marks are made right, since no mutation would come through checksums and hashes.
 * Whatever it is: reading ends, and says the same from wherever it begins.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

#include "log/format.h"

#define EVENTS_KEPT 16u

static uint8_t bytes[1u << 17];

/* Blocks of the choices' payloads behind a good header. Returns the size. */
static size_t wrap(struct fuzz *f)
{
    const struct hdi_log_head head = {
        .program = "p", .library = "l", .sampler = "", .options = "workers=1"};
    struct hdi_log_mark mark = {.sequence = 1};
    size_t at = hdi_log_head_put(bytes, &head, mark.hash);
    while (f->left > 0) {
        mark.magic = HDI_LOG_BLOCK;
        mark.events = fuzz_byte(f);
        mark.payload = fuzz_byte(f) + (fuzz_byte(f) % 2 ? 256 : 0);
        if (mark.payload > f->left) mark.payload = (uint32_t)f->left;
        memcpy(bytes + at + HDI_LOG_MARK_BYTES, f->data, mark.payload);
        hdi_log_mark_put(bytes + at, &mark);
        hdi_log_block_hash(bytes + at, mark.payload, mark.hash);
        f->data += mark.payload;
        f->left -= mark.payload;
        at += HDI_LOG_MARK_BYTES + mark.payload;
        mark.sequence += mark.events;
    }
    mark.magic = HDI_LOG_END;
    mark.payload = mark.events = 0;
    hdi_log_mark_put(bytes + at, &mark);
    return at + HDI_LOG_MARK_BYTES;
}

/* From one of two files, which stay as they are while the log is open. */
static hd_log *open_log(unsigned which, const void *data, size_t size)
{
    static int fds[2];
    char path[40];
    if (fds[which] == 0) fds[which] = memfd_create("fuzz", MFD_CLOEXEC);
    const int fd = fds[which];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    hd_log *log = NULL;
    FUZZ_EXPECT(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    const int err = hd_log_open(&log, path);
    FUZZ_EXPECT(err ? !log && (err == -EBADMSG || err == -ENOTSUP) : log != NULL);
    return log;
}

static void check_about(const hd_log_info *info)
{
    FUZZ_EXPECT(info->good_bytes <= info->file_bytes);
    FUZZ_EXPECT(info->complete || info->damage);
    FUZZ_EXPECT(info->blocks <= info->events);
    FUZZ_EXPECT(strlen(info->sampler) + strlen(info->options) + strlen(info->program) +
                    strlen(info->library) < info->good_bytes);
}

/* To the end, or to the first error. Returns how many events there were. */
static uint64_t read_all(hd_log *log, uint64_t *tasks)
{
    hd_log_event event;
    uint64_t count = 0;
    int got;
    while ((got = hd_log_next(log, &event)) == 1) {
        FUZZ_EXPECT(event.sequence == ++count);
        FUZZ_EXPECT(event.kind != 0 && strlen(event.text) <= HDI_LOG_TEXT_MAX);
        FUZZ_EXPECT(event.file ? strlen(event.file) <= HDI_LOG_TEXT_MAX : event.line == 0);
        if (count <= EVENTS_KEPT) tasks[count - 1] = event.task;
    }
    FUZZ_EXPECT(got == 0 || got == -EBADMSG);
    FUZZ_EXPECT(got != 0 || count == hd_log_about(log)->events);
    FUZZ_EXPECT(hd_log_next(log, &event) == got);
    return count;
}

static void check_seeks(hd_log *log, uint64_t readable, const uint64_t *tasks)
{
    hd_log_event event;
    const uint64_t events = hd_log_about(log)->events;
    FUZZ_EXPECT(hd_log_seek(log, 0) == -ERANGE && hd_log_seek(log, events + 1) == -ERANGE);
    for (uint64_t n = readable < EVENTS_KEPT ? readable : EVENTS_KEPT; n > 0; n--) {
        FUZZ_EXPECT(hd_log_seek(log, n) == 0 && hd_log_next(log, &event) == 1);
        FUZZ_EXPECT(event.sequence == n && event.task == tasks[n - 1]);
    }
    if (events > 0) (void)(hd_log_seek(log, events) == 0 && hd_log_next(log, &event));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    struct fuzz f = {data + 1, size - 1};
    const bool whole = data[0] % 2 == 0;
    const size_t count = whole ? size - 1 : wrap(&f);
    const void *file = whole ? data + 1 : bytes;
    hd_log *log = open_log(0, file, count);
    if (!log) return 0;
    uint64_t tasks[EVENTS_KEPT], at;
    check_about(hd_log_about(log));
    const uint64_t readable = read_all(log, tasks);
    check_seeks(log, readable, tasks);
    hd_log *again = open_log(1, file, count);
    FUZZ_EXPECT(again);
    const int differ = hd_log_compare(log, again, &at); /* All blocks are equal. */
    FUZZ_EXPECT(differ == 0);
    hd_log_close(again);
    again = open_log(1, file, count > HDI_LOG_MARK_BYTES ? count - HDI_LOG_MARK_BYTES : 0);
    if (again) {
        at = 0;
        const int cut = hd_log_compare(log, again, &at);
        FUZZ_EXPECT(cut == 0 || cut == -EBADMSG || (cut == 1 && at > 0));
        hd_log_close(again);
    }
    hd_log_close(log);
    return 0;
}
