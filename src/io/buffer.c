/* SPDX-License-Identifier: MIT
 *
 * buffer: the buffered reader and writer.
 *
 * Owner      one task at a time; nothing here is shared.
 *
 *   BUF-1  start <= end <= size. [start, end) was read and not yet taken, or put and not yet
 *          written.
 *   BUF-2  Only a call that succeeds moves `start` of a reader or `end` of a writer, so one that
 *          fails can be made again. The exception is a put of more than the buffer's bytes.
 *   BUF-3  What has to be moved to the front is at most what was taken since the last time, or
 *          needs the room: a byte is moved once on average, unless peeks demand more.
 */
#include <heddle/buffer.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* ---- reader ---- */

static void reader_init(hd_reader *reader, void *memory, size_t bytes)
{
    HD_CHECK(bytes > 0);
    *reader = (hd_reader){.memory = memory, .size = bytes, .deadline = HD_FOREVER};
}

void hd_reader_init(hd_reader *reader, hd_io io, void *memory, size_t bytes)
{
    reader_init(reader, memory, bytes);
    reader->io = io;
}

void hd_reader_init_fn(hd_reader *reader, hd_read_fn *fn, void *from, void *memory, size_t bytes)
{
    reader_init(reader, memory, bytes);
    reader->fn = fn;
    reader->from = from;
}

static size_t held(const hd_reader *reader)
{
    HDI_ASSERT(reader->start <= reader->end && reader->end <= reader->size); /* BUF-1 */
    return reader->end - reader->start;
}

/* Read from below. Returns: how many bytes; 0: the end, now and for ever. */
static ssize_t fetch(hd_reader *reader, void *buffer, size_t bytes)
{
    if (reader->ended) return 0;
    const ssize_t n = reader->fn ? reader->fn(reader->from, buffer, bytes, reader->deadline)
                                 : hd_read_until(reader->io, buffer, bytes, reader->deadline);
    HD_CHECK_MSG(n <= (ssize_t)bytes, "a reader's function returned more than it was asked for");
    if (n == 0) reader->ended = true;
    return n;
}

/* Have room behind `end` for more of a whole of `bytes`, which fit into the buffer. */
static void reader_settle(hd_reader *reader, size_t bytes)
{
    const size_t count = held(reader);
    HDI_ASSERT(bytes > count && bytes <= reader->size);
    if (reader->size - reader->start >= bytes && count > reader->start) return; /* BUF-3 */
    memmove(reader->memory, reader->memory + reader->start, count);
    reader->start = 0;
    reader->end = count;
}

/* Get more towards a whole of `bytes`. Returns: how many came; 0: the end. */
static ssize_t fill(hd_reader *reader, size_t bytes)
{
    reader_settle(reader, bytes);
    const ssize_t n = fetch(reader, reader->memory + reader->end, reader->size - reader->end);
    if (n > 0) reader->end += (size_t)n;
    return n;
}

/* Have at least so many bytes in the buffer. Returns: 0, also at the end with fewer; an error. */
static int gather(hd_reader *reader, size_t bytes)
{
    if (bytes > reader->size) return -EMSGSIZE;
    while (held(reader) < bytes) {
        const ssize_t n = fill(reader, bytes);
        if (n <= 0) return (int)n;
    }
    return 0;
}

/* Find a delimiter, reading on. Returns: the bytes up to it, and with it; 0: the stream ended
 * before one came; -EMSGSIZE: the buffer is full without one. */
static ssize_t seek(hd_reader *reader, char delimiter)
{
    size_t seen = 0;
    for (;;) {
        const char *from = reader->memory + reader->start;
        const char *at = memchr(from + seen, delimiter, held(reader) - seen);
        if (at) return at - from + 1;
        seen = held(reader);
        if (seen == reader->size) return -EMSGSIZE;
        const ssize_t n = fill(reader, seen + 1);
        if (n <= 0) return n;
    }
}

static const char *take(hd_reader *reader, size_t bytes)
{
    const char *taken = reader->memory + reader->start;
    reader->start += bytes;
    return taken;
}

ssize_t hd_read_line(hd_reader *reader, const char **line)
{
    ssize_t n = seek(reader, '\n');
    if (n < 0) return n;
    if (n == 0) {
        n = (ssize_t)held(reader);
        if (n == 0) return -EPIPE;
        *line = take(reader, (size_t)n);
        return n;
    }
    *line = take(reader, (size_t)n);
    n--;
    if (n > 0 && (*line)[n - 1] == '\r') n--;
    return n;
}

ssize_t hd_read_to(hd_reader *reader, char delimiter, const char **bytes)
{
    const ssize_t n = seek(reader, delimiter);
    if (n <= 0) return n ? n : -EPIPE;
    *bytes = take(reader, (size_t)n);
    return n;
}

int hd_read_record(hd_reader *reader, size_t bytes, const char **record)
{
    const int err = gather(reader, bytes);
    if (err) return err;
    if (held(reader) < bytes) return -EPIPE;
    *record = take(reader, bytes);
    return 0;
}

ssize_t hd_reader_peek(hd_reader *reader, size_t least, const char **bytes)
{
    const int err = gather(reader, least);
    if (err) return err;
    *bytes = reader->memory + reader->start;
    return (ssize_t)held(reader);
}

void hd_reader_skip(hd_reader *reader, size_t bytes)
{
    HD_CHECK_MSG(bytes <= held(reader), "hd_reader_skip() over more than the buffer has");
    reader->start += bytes;
}

ssize_t hd_reader_read(hd_reader *reader, void *buffer, size_t bytes)
{
    if (bytes == 0) return 0;
    if (held(reader) == 0) {
        /* Through the buffer only if it can take more than is asked for. */
        if (bytes >= reader->size) return fetch(reader, buffer, bytes);
        const ssize_t n = fill(reader, 1);
        if (n <= 0) return n;
    }
    const size_t n = bytes < held(reader) ? bytes : held(reader);
    memcpy(buffer, take(reader, n), n);
    return (ssize_t)n;
}

/* ---- writer ---- */

static void writer_init(hd_writer *writer, void *memory, size_t bytes)
{
    HD_CHECK(bytes > 0);
    *writer = (hd_writer){.memory = memory, .size = bytes, .deadline = HD_FOREVER};
}

void hd_writer_init(hd_writer *writer, hd_io io, void *memory, size_t bytes)
{
    writer_init(writer, memory, bytes);
    writer->io = io;
}

void hd_writer_init_fn(hd_writer *writer, hd_write_fn *fn, void *to, void *memory, size_t bytes)
{
    writer_init(writer, memory, bytes);
    writer->fn = fn;
    writer->to = to;
}

static size_t unwritten(const hd_writer *writer)
{
    HDI_ASSERT(writer->start <= writer->end && writer->end <= writer->size); /* BUF-1 */
    return writer->end - writer->start;
}

static bool passing(int err)
{
    return err == -ECANCELED || err == -ETIMEDOUT || err == -EAGAIN;
}

/* Write some, at least a byte. Returns: how many; an error, which is kept unless it passes. */
static ssize_t store(hd_writer *writer, const char *bytes, size_t count)
{
    const ssize_t n = writer->fn ? writer->fn(writer->to, bytes, count, writer->deadline)
                                 : hd_write_until(writer->io, bytes, count, writer->deadline);
    HD_CHECK_MSG(n != 0 && n <= (ssize_t)count, "a writer's function wrote nothing, or too much");
    if (n < 0 && !passing((int)n)) writer->failed = (int)n;
    return n;
}

/* Write until at most so many bytes are left in the buffer. */
static int drain(hd_writer *writer, size_t most)
{
    while (unwritten(writer) > most) {
        const ssize_t n = store(writer, writer->memory + writer->start, unwritten(writer));
        if (n < 0) return (int)n;
        writer->start += (size_t)n;
    }
    return 0;
}

/* Have room for so many bytes, which fit into the buffer, behind `end`. */
static int writer_settle(hd_writer *writer, size_t bytes)
{
    if (writer->size - writer->end >= bytes) return 0;
    const int err = drain(writer, writer->size - bytes);
    if (err) return err;
    const size_t count = unwritten(writer);
    memmove(writer->memory, writer->memory + writer->start, count);
    writer->start = 0;
    writer->end = count;
    return 0;
}

/* More than the buffer's bytes: none of it is copied, but the end. */
static int put_large(hd_writer *writer, const char *bytes, size_t count)
{
    const int err = drain(writer, 0);
    if (err) return err;
    writer->start = writer->end = 0;
    while (count >= writer->size) {
        const ssize_t n = store(writer, bytes, count);
        if (n < 0) return (int)n;
        bytes += n;
        count -= (size_t)n;
    }
    memcpy(writer->memory, bytes, count);
    writer->end = count;
    return 0;
}

int hd_writer_put(hd_writer *writer, const void *bytes, size_t count)
{
    if (writer->failed) return writer->failed;
    if (count == 0) return 0;
    if (count > writer->size) return put_large(writer, bytes, count);
    const int err = writer_settle(writer, count);
    if (err) return err;
    memcpy(writer->memory + writer->end, bytes, count);
    writer->end += count;
    return 0;
}

int hd_writer_puts(hd_writer *writer, const char *text)
{
    return hd_writer_put(writer, text, strlen(text));
}

/* A text that does not fit into the buffer with its 0. */
__attribute__((format(printf, 3, 0)))
static int print_large(hd_writer *writer, size_t bytes, const char *format, va_list arguments)
{
    char *text = malloc(bytes + 1);
    if (!text) return -ENOMEM;
    vsnprintf(text, bytes + 1, format, arguments);
    const int err = hd_writer_put(writer, text, bytes);
    free(text);
    return err;
}

__attribute__((format(printf, 2, 0)))
static int print(hd_writer *writer, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    size_t room = writer->size - writer->end;
    int n = vsnprintf(writer->memory + writer->end, room, format, arguments);
    int err = n < 0 ? -EINVAL : 0;
    if (!err && (size_t)n >= writer->size) {
        err = print_large(writer, (size_t)n, format, again);
        n = 0; /* It is put already. */
    } else if (!err && (size_t)n >= room) {
        err = writer_settle(writer, (size_t)n + 1);
        room = writer->size - writer->end;
        if (!err) n = vsnprintf(writer->memory + writer->end, room, format, again);
    }
    va_end(again);
    if (!err) writer->end += (size_t)n;
    return err;
}

int hd_writer_printf(hd_writer *writer, const char *format, ...)
{
    if (writer->failed) return writer->failed;
    va_list arguments;
    va_start(arguments, format);
    const int err = print(writer, format, arguments);
    va_end(arguments);
    return err;
}

int hd_writer_flush(hd_writer *writer)
{
    if (writer->failed) return writer->failed;
    const int err = drain(writer, 0);
    if (!err) writer->start = writer->end = 0;
    return err;
}
