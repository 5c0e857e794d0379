/* SPDX-License-Identifier: MIT
 *
 * buffer: reading by lines and records, and writing in large pieces. Reader and writer have memory
 * of the caller, and are used by one task at a time.
 *
 *   char memory[4096];
 *   hd_reader in;
 *   hd_reader_init(&in, conn, memory, sizeof(memory));
 *   const char *line;
 *   ssize_t n;
 *   while ((n = hd_read_line(&in, &line)) >= 0) ...   n bytes at `line`, without the end of line
 *
 * What a failed, cancelled or timed-out call has read stays in the buffer: calling again goes on
 * from there. So does what a failed write has not written.
 */
#ifndef HEDDLE_BUFFER_H
#define HEDDLE_BUFFER_H

#include <heddle/io.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How bytes come and go: of a handle, or of anything else, such as TLS. As hd_read_until() and
 * hd_write_until(). */
typedef ssize_t hd_read_fn(void *from, void *buffer, size_t bytes, int64_t deadline);
typedef ssize_t hd_write_fn(void *to, const void *buffer, size_t bytes, int64_t deadline);

typedef struct hd_reader {
    hd_io io;          /* private, as are all but `deadline` */
    hd_read_fn *fn;
    void *from;
    char *memory;
    size_t size, start, end;
    bool ended;
    int64_t deadline;  /* may be changed at any time: of every call; at first HD_FOREVER */
} hd_reader;

/* Context: any. `bytes` is over 0, and the longest line with its end, or record, that can be read
 * at once. */
HD_API void hd_reader_init(hd_reader *reader, hd_io io, void *memory, size_t bytes);
HD_API void hd_reader_init_fn(hd_reader *reader, hd_read_fn *fn, void *from, void *memory,
                              size_t bytes);

/* All that follow: Context: fiber or thread.  Switches: yes.  Allocates: no.  What they return by
 * pointer is in the buffer, and good until the next call. Beside what they list they return what
 * hd_read() does. */

/* The next line, without its "\n" or "\r\n". The last one need not end with one.
 * Returns: its bytes, 0 or more; -EPIPE: there are no more; -EMSGSIZE: the buffer is full, and has
 * no end of line; nothing was consumed. */
HD_API HD_MUST_USE ssize_t hd_read_line(hd_reader *reader, const char **line);

/* The bytes up to a delimiter, and with it. Returns: their number, at least 1; -EPIPE: the stream
 * ended before one came, what is left can be had by hd_reader_peek(); -EMSGSIZE as above. */
HD_API HD_MUST_USE ssize_t hd_read_to(hd_reader *reader, char delimiter, const char **bytes);

/* Exactly so many bytes, at most the buffer's. Returns: 0; -EPIPE: the stream ended before, what is
 * left can be had by hd_reader_peek(); -EMSGSIZE. */
HD_API HD_MUST_USE int hd_read_record(hd_reader *reader, size_t bytes, const char **record);

/* Whatever there is, at least `least` bytes (at most the buffer's), which stay to be read.
 * Returns: how many; fewer than `least` only at the end of the stream; -EMSGSIZE. */
HD_API HD_MUST_USE ssize_t hd_reader_peek(hd_reader *reader, size_t least, const char **bytes);

/* Pass over bytes that were peeked at. More than there are ends the process with a message. */
HD_API void hd_reader_skip(hd_reader *reader, size_t bytes);

/* As hd_read(): first what is in the buffer. */
HD_API HD_MUST_USE ssize_t hd_reader_read(hd_reader *reader, void *buffer, size_t bytes);

typedef struct hd_writer {
    hd_io io;          /* private, as are all but `deadline` */
    hd_write_fn *fn;
    void *to;
    char *memory;
    size_t size, start, end;
    int failed;
    int64_t deadline;  /* may be changed at any time: of every call; at first HD_FOREVER */
} hd_writer;

HD_API void hd_writer_init(hd_writer *writer, hd_io io, void *memory, size_t bytes);
HD_API void hd_writer_init_fn(hd_writer *writer, hd_write_fn *fn, void *to, void *memory,
                              size_t bytes);

/* Put bytes, a string, or a formatted text into the buffer, which is written if they do not fit.
 * On failure none of them are taken; of more than the buffer's bytes, an unknown part. The error is
 * kept and returned by all calls from then on, except -ECANCELED, -ETIMEDOUT, -EAGAIN, and those of
 * the text itself.
 * Context: fiber or thread.  Switches: yes, if the buffer is full.  Allocates: no
 * (hd_writer_printf: if the text is longer than the buffer).
 * Returns: 0; as hd_write(); hd_writer_printf: -ENOMEM, -EINVAL. */
HD_API HD_MUST_USE int hd_writer_put(hd_writer *writer, const void *bytes, size_t count);
HD_API HD_MUST_USE int hd_writer_puts(hd_writer *writer, const char *text);
HD_API HD_MUST_USE int hd_writer_printf(hd_writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Write what is in the buffer. Returns: 0; as hd_write(). */
HD_API HD_MUST_USE int hd_writer_flush(hd_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
