/* SPDX-License-Identifier: MIT
 *
 * io: descriptors that fibers wait on: reading, writing, closing, and waiting for readiness.
 *
 *   char line[100];
 *   const ssize_t n = hd_read(conn, line, sizeof(line));     waits; other fibers go on
 *   if (n > 0) err = hd_write_all(conn, line, (size_t)n, NULL);
 *   hd_close(conn);
 *
 * In live a worker waits for the kernel by io_uring, or by epoll where that is not to be had or
 * HEDDLE_IO=epoll says so; in sim the same calls go to a simulated network and disk
 * (heddle/sim.h). Handles come from heddle/net.h, heddle/file.h and heddle/process.h.
 *
 * A handle is a number that is never used twice: a call with one that was closed returns -EBADF,
 * also if the kernel has given its descriptor to another. Several tasks may use a handle at once;
 * reads do not disturb writes. What waits when it is closed returns -ECANCELED.
 *
 * All calls here: a fiber waits by suspending, a thread by sleeping; a stackless task calls the
 * _until form with HD_NOW and waits by HD_READABLE() or HD_WRITABLE() in hd_select_poll(). Beside
 * what they list, all return -EBADF for a stale handle, and the error of the system as it is.
 */
#ifndef HEDDLE_IO_H
#define HEDDLE_IO_H

#include <sys/types.h>

#include <heddle/base.h>
#include <heddle/select.h>

#ifdef __cplusplus
extern "C" {
#endif

struct iovec; /* <sys/uio.h>: no names of the system come with this header */

/* Zeroed, it is no handle. */
typedef struct hd_io {
    uint64_t private_;
} hd_io;

/* ---- reading and writing ---- */

/* Read what there is, at least one byte, waiting for it. For files see file.h: what was begun may
 * have to be waited for. FIFOs and terminals that were opened as files are no such.
 * Context: fiber or thread; with HD_NOW any.  Switches: yes, if there is nothing.  Allocates: no.
 * Cancel: nothing was read.
 * Returns: how many bytes; 0: the other side will send no more; -ECANCELED, -ETIMEDOUT, -EAGAIN
 * with HD_NOW, -ECONNRESET, ... */
HD_API HD_MUST_USE ssize_t hd_read(hd_io io, void *buffer, size_t bytes);
HD_API HD_MUST_USE ssize_t hd_read_until(hd_io io, void *buffer, size_t bytes, int64_t deadline);
HD_API HD_MUST_USE ssize_t hd_readv(hd_io io, const struct iovec *parts, int count);
HD_API HD_MUST_USE ssize_t hd_readv_until(hd_io io, const struct iovec *parts, int count,
                                          int64_t deadline);

/* Read exactly so many bytes. *done (may be NULL) is how many were read, also on failure.
 * Context: fiber or thread.  Switches: yes.  Allocates: no.
 * Returns: 0; -EPIPE if the other side ended before; as hd_read(). */
HD_API HD_MUST_USE int hd_read_exact(hd_io io, void *buffer, size_t bytes, size_t *done);
HD_API HD_MUST_USE int hd_read_exact_until(hd_io io, void *buffer, size_t bytes, size_t *done,
                                           int64_t deadline);

/* Write what there is room for, at least one byte, waiting for it. No SIGPIPE is raised. To TCP,
 * little may be sent a moment later, as if the socket's buffer were larger by 4 KiB: when the
 * worker has run what is ready, or looks for news, or the monitor does in its place. It is sent
 * before all else that the handle is used for; an error is told by the next write or hd_shutdown(),
 * and ends the connection for who reads.
 * Context: fiber or thread; with HD_NOW any.  Switches: yes, if there is no room.  Allocates: no.
 * Cancel: nothing was written.
 * Returns: how many bytes; -EPIPE if the other side is gone, -ECANCELED, -ETIMEDOUT, -EAGAIN with
 * HD_NOW, -ECONNRESET, ... */
HD_API HD_MUST_USE ssize_t hd_write(hd_io io, const void *buffer, size_t bytes);
HD_API HD_MUST_USE ssize_t hd_write_until(hd_io io, const void *buffer, size_t bytes,
                                          int64_t deadline);
HD_API HD_MUST_USE ssize_t hd_writev(hd_io io, const struct iovec *parts, int count);
HD_API HD_MUST_USE ssize_t hd_writev_until(hd_io io, const struct iovec *parts, int count,
                                           int64_t deadline);

/* Write all of it. *done (may be NULL) is how many bytes were written, also on failure.
 * Context: fiber or thread.  Switches: yes.  Allocates: no.
 * Returns: 0; as hd_write(). */
HD_API HD_MUST_USE int hd_write_all(hd_io io, const void *buffer, size_t bytes, size_t *done);
HD_API HD_MUST_USE int hd_write_all_until(hd_io io, const void *buffer, size_t bytes, size_t *done,
                                          int64_t deadline);

/* End the handle. Tasks that wait on it return -ECANCELED, and it is stale from then on. So do
 * calls on a file (heddle/file.h), as if they were cancelled: what was begun may have to be waited
 * for, what was done is told, and the descriptor stays until the last of them is over. What was
 * written is sent; if the socket has no room for it, the descriptor stays until there is, for 10 s
 * at most, or 1 s once the runtime ends; exit() does not wait.
 * Context: any.  Switches: no.  Allocates: no.
 * Returns: 0, -EBADF; what the system said of the close, such as -EIO. */
HD_API int hd_close(hd_io io);

/* ---- readiness ---- */

/* Cases of a select: the next read (or accept), or write, would not wait, be it for an error or
 * the end; files, and devices that never wait, always are. The case's `result` is 0; -EBADF for a
 * stale handle, -ECANCELED if it was closed. */
#define HD_READABLE(io) HD_CASE_(HD_CASE_READABLE, NULL, NULL, (int64_t)(io).private_)
#define HD_WRITABLE(io) HD_CASE_(HD_CASE_WRITABLE, NULL, NULL, (int64_t)(io).private_)

/* ---- descriptors of others ---- */

#define HD_ADOPT_BORROWED 1u /* hd_close() ends the handle, and leaves the descriptor alone */

/* Make a handle of a descriptor of the system: a socket, a pipe, a terminal, an eventfd, ... It is
 * made non-blocking, and is closed with the handle. A regular file is read and written at its
 * position, by a thread that may block.
 * Context: fiber or stackless task.  Switches: no.  Allocates: cached.
 * Returns: 0, -EBADF, -ENOMEM, -EINVAL without a runtime, or in sim, but for what hd_recv_fds()
 * received there. */
HD_API HD_MUST_USE int hd_io_adopt(hd_io *io, int fd, unsigned flags);

/* The descriptor behind the handle, which keeps it. What was written before is sent first; but what
 * the socket has no room for yet will be sent behind what is written to the descriptor meanwhile.
 * Context: any.  Switches: no.  Allocates: no.
 * Returns: the descriptor; in sim a number that means nothing to the system; -EBADF. */
HD_API int hd_io_fd(hd_io io);

#define HD_WAIT_READ  1u
#define HD_WAIT_WRITE 2u

/* Wait until the system says that a descriptor, which stays the caller's and is no handle, can be
 * read or written, or has an error. For libraries with descriptors of their own. Nobody may close
 * it meanwhile.
 * Context: fiber.  Switches: yes.  Allocates: cached.
 * Returns: which of HD_WAIT_*; -ECANCELED, -ETIMEDOUT, -EBADF, -EINVAL, -EPERM if its kind cannot
 * be waited for (a regular file). */
HD_API HD_MUST_USE int hd_fd_wait(int fd, unsigned events, int64_t deadline);

/* The standard streams of the process. Each is one handle for the whole runtime, which is not to be
 * closed. In sim there is nothing to read, and what is written is seen; a simulated program
 * (hd_sim_program()) has streams of its own, which it may close.
 * Context: fiber or stackless task.  Switches: no.  Allocates: the first time.
 * Returns: the handle; a zeroed one without a runtime, or if the stream is closed. */
HD_API hd_io hd_stdin(void);
HD_API hd_io hd_stdout(void);
HD_API hd_io hd_stderr(void);

/* A pipe: what is written to ends[1] is read from ends[0].
 * Context: fiber or stackless task.  Switches: no.  Allocates: cached.
 * Returns: 0, -EMFILE, -ENFILE, -ENOMEM, -EINVAL without a runtime. */
HD_API HD_MUST_USE int hd_pipe(hd_io ends[2]);

#ifdef __cplusplus
}
#endif
#endif
