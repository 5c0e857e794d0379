/* SPDX-License-Identifier: MIT
 *
 * stream: reading from and writing to handles of any kind; handles of descriptors that come from
 * elsewhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "io/do.h"
#include "io/file.h"
#include "io/stream.h"

/* ---- reading and writing ---- */

/* What to move, and to or from where. */
struct parts {
    const struct iovec *parts;
    int count;
};

static size_t sum(const struct iovec *parts, int count)
{
    size_t bytes = 0;
    for (int i = 0; i < count; i++) bytes += parts[i].iov_len;
    return bytes;
}

static bool is_message(const struct hdi_source *source)
{
    return source->kind == HDI_SOURCE_STREAM || source->kind == HDI_SOURCE_DATAGRAM;
}

/* A standard stream in sim: there is nothing to read, and what is written is seen. */
static bool is_outside(const struct hdi_source *source)
{
    return source->fd < HDI_SIM_FD && source->runtime->world->kind == HD_WORLD_SIM;
}

/* Nobody may make the descriptor non-blocking, so it is asked first: what it is ready for does
 * not wait, if it is little. */
static ssize_t ask_first(struct hdi_source *source, unsigned bit)
{
    const int ready = hdi_sys(source->runtime, poll, source->fd);
    if (ready < 0) return ready;
    return (unsigned)ready & bit ? 0 : -EAGAIN;
}

HDI_ALWAYS_INLINE ssize_t receive(struct hdi_source *source, const struct parts *to)
{
    struct msghdr message = {.msg_iov = (struct iovec *)to->parts,
                             .msg_iovlen = (size_t)to->count};
    return hdi_sys(source->runtime, recvmsg, source->fd, &message, 0);
}

HDI_ALWAYS_INLINE ssize_t send_parts(struct hdi_source *source, const struct parts *from)
{
    const struct msghdr message = {.msg_iov = (struct iovec *)from->parts,
                                   .msg_iovlen = (size_t)from->count};
    return hdi_sys(source->runtime, sendmsg, source->fd, &message, 0);
}

/* From the lane, if it receives ahead. */
HDI_ALWAYS_INLINE ssize_t read_fast(struct hdi_source *source, const struct parts *to)
{
    ssize_t n = hdi_lane_receive(source, to->parts, to->count);
    if (n == -ENODATA) n = receive(source, to);
    if (n == 0 && sum(to->parts, to->count) > 0 && hdi_load_relaxed(&source->reset)) {
        hdi_store_relaxed(&source->reset, false); /* OUT-4, once; under in.lock. */
        n = -ECONNRESET;
    }
    if (n <= 0 && n != -EAGAIN) hdi_store_relaxed(&source->direct, true); /* A hint. */
    return n;
}

/* To the lane's outbox, if it may be sent later. */
HDI_ALWAYS_INLINE ssize_t write_fast(struct hdi_source *source, const struct parts *from)
{
    const size_t bytes = sum(from->parts, from->count);
    ssize_t n = hdi_lane_send(source, from->parts, from->count, bytes);
    if (n != -ENODATA) return n;
    n = send_parts(source, from);
    source->full = n == -EAGAIN || (n >= 0 && (size_t)n < bytes);
    return n;
}

HDI_ALWAYS_INLINE ssize_t try_read(struct hdi_source *source, void *arg)
{
    const struct parts *to = arg;
    if (source->kind == HDI_SOURCE_LISTENER) return -ENOTCONN;
    if (is_outside(source)) return 0;
    if (source->fast) return read_fast(source, to);
    if (is_message(source)) return receive(source, to);
    const ssize_t err = source->gentle ? ask_first(source, HDI_READY_IN) : 0;
    return err ? err : hdi_sys(source->runtime, readv, source->fd, to->parts, to->count);
}

/* A pipe that can be written to has room for PIPE_BUF bytes. */
static ssize_t write_little(struct hdi_source *source, const struct parts *from)
{
    const ssize_t err = ask_first(source, HDI_READY_OUT);
    if (err || from->count == 0) return err;
    int first = 0;
    while (first + 1 < from->count && from->parts[first].iov_len == 0) first++;
    struct iovec little = from->parts[first];
    if (little.iov_len > PIPE_BUF) little.iov_len = PIPE_BUF;
    return hdi_sys(source->runtime, writev, source->fd, &little, 1);
}

HDI_ALWAYS_INLINE ssize_t try_write(struct hdi_source *source, void *arg)
{
    const struct parts *from = arg;
    if (source->kind == HDI_SOURCE_LISTENER) return -ENOTCONN;
    if (source->fast) return write_fast(source, from);
    if (is_message(source)) return send_parts(source, from);
    if (is_outside(source)) {
        return hdi_sys_real(source->runtime, writev, source->fd, from->parts, from->count);
    }
    if (source->gentle) return write_little(source, from);
    return hdi_sys(source->runtime, writev, source->fd, from->parts, from->count);
}

ssize_t hdi_stream_try_read(struct hdi_source *source, void *bytes, size_t count)
{
    const struct iovec part = {bytes, count};
    struct parts to = {&part, 1};
    return try_read(source, &to);
}

ssize_t hdi_stream_try_write(struct hdi_source *source, const void *bytes, size_t count)
{
    const struct iovec part = {(void *)bytes, count};
    struct parts from = {&part, 1};
    return try_write(source, &from);
}

/* As far as that can be told without a lock: the file layer looks again. */
static bool is_file(struct hdi_source *source)
{
    return source && hdi_load_relaxed(&source->is_file);
}

/* Inlined: what waits with a thousand others finds each frame of its stack cold. */
HDI_ALWAYS_INLINE ssize_t read_parts(hd_io io, const struct iovec *parts, int count,
                                     int64_t deadline)
{
    struct hdi_source *source = hdi_source_of(io);
    if (is_file(source)) return hdi_file_readv(io, parts, count, -1, deadline);
    struct parts to = {parts, count};
    return hdi_source_do_at(source, io, false, try_read, &to, sum(parts, count), NULL,
                            deadline);
}

HDI_ALWAYS_INLINE ssize_t write_parts(hd_io io, const struct iovec *parts, int count,
                                      int64_t deadline)
{
    struct hdi_source *source = hdi_source_of(io);
    if (is_file(source)) return hdi_file_writev(io, parts, count, -1, deadline);
    struct parts from = {parts, count};
    return hdi_source_do_at(source, io, true, try_write, &from, sum(parts, count), NULL,
                            deadline);
}

ssize_t hd_readv_until(hd_io io, const struct iovec *parts, int count, int64_t deadline)
{
    if (count < 0 || count > IOV_MAX) return -EINVAL;
    return read_parts(io, parts, count, deadline);
}

ssize_t hd_writev_until(hd_io io, const struct iovec *parts, int count, int64_t deadline)
{
    if (count < 0 || count > IOV_MAX) return -EINVAL;
    return write_parts(io, parts, count, deadline);
}

ssize_t hd_readv(hd_io io, const struct iovec *parts, int count)
{
    return hd_readv_until(io, parts, count, HD_FOREVER);
}

ssize_t hd_writev(hd_io io, const struct iovec *parts, int count)
{
    return hd_writev_until(io, parts, count, HD_FOREVER);
}

ssize_t hd_read_until(hd_io io, void *buffer, size_t bytes, int64_t deadline)
{
    const struct iovec part = {.iov_base = buffer, .iov_len = bytes};
    return read_parts(io, &part, 1, deadline);
}

ssize_t hd_write_until(hd_io io, const void *buffer, size_t bytes, int64_t deadline)
{
    const struct iovec part = {.iov_base = (void *)buffer, .iov_len = bytes};
    return write_parts(io, &part, 1, deadline);
}

ssize_t hd_read(hd_io io, void *buffer, size_t bytes)
{
    return hd_read_until(io, buffer, bytes, HD_FOREVER);
}

ssize_t hd_write(hd_io io, const void *buffer, size_t bytes)
{
    return hd_write_until(io, buffer, bytes, HD_FOREVER);
}

int hd_read_exact_until(hd_io io, void *buffer, size_t bytes, size_t *done, int64_t deadline)
{
    size_t have = 0;
    int err = 0;
    while (have < bytes && !err) {
        const ssize_t n = hd_read_until(io, (char *)buffer + have, bytes - have, deadline);
        if (n > 0) have += (size_t)n;
        if (n <= 0) err = n == 0 ? -EPIPE : (int)n;
    }
    if (done) *done = have;
    return err;
}

int hd_read_exact(hd_io io, void *buffer, size_t bytes, size_t *done)
{
    return hd_read_exact_until(io, buffer, bytes, done, HD_FOREVER);
}

int hd_write_all_until(hd_io io, const void *buffer, size_t bytes, size_t *done, int64_t deadline)
{
    size_t gone = 0;
    int err = 0;
    while (gone < bytes && !err) {
        const ssize_t n = hd_write_until(io, (const char *)buffer + gone, bytes - gone, deadline);
        if (n >= 0) gone += (size_t)n;
        if (n < 0) err = (int)n;
    }
    if (done) *done = gone;
    return err;
}

int hd_write_all(hd_io io, const void *buffer, size_t bytes, size_t *done)
{
    return hd_write_all_until(io, buffer, bytes, done, HD_FOREVER);
}

/* ---- descriptors of others ---- */

static bool is_live(const struct hd_runtime *runtime)
{
    return runtime && runtime->world->kind == HD_WORLD_LIVE;
}

/* Returns a kind, or -errno. */
static int kind_of(struct hd_runtime *runtime, int fd)
{
    struct stat info;
    int err = hdi_sys(runtime, fstat, fd, &info);
    if (err) return err;
    if (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode) || S_ISBLK(info.st_mode)) {
        return HDI_SOURCE_FILE;
    }
    if (!S_ISSOCK(info.st_mode)) return HDI_SOURCE_PIPE;
    int value = 0;
    socklen_t bytes = sizeof(value);
    err = hdi_sys(runtime, getsockopt, fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &bytes);
    if (!err && value) return HDI_SOURCE_LISTENER;
    bytes = sizeof(value);
    err = hdi_sys(runtime, getsockopt, fd, SOL_SOCKET, SO_TYPE, &value, &bytes);
    if (err) return err;
    return value == SOCK_STREAM ? HDI_SOURCE_STREAM : HDI_SOURCE_DATAGRAM;
}

/* In sim there are only its own. */
static bool may_adopt(const struct hd_runtime *runtime, int fd)
{
    return runtime && (is_live(runtime) || fd >= HDI_SIM_FD);
}

int hd_io_adopt(hd_io *io, int fd, unsigned flags)
{
    struct hd_runtime *runtime = hdi_io_runtime();
    if (!may_adopt(runtime, fd) || (flags & ~HD_ADOPT_BORROWED)) return -EINVAL;
    const int kind = kind_of(runtime, fd);
    if (kind < 0) return kind;
    const bool waits = kind != HDI_SOURCE_FILE && is_live(runtime);
    int err = waits ? hdi_sys(runtime, set_blocking, fd, false) : 0;
    if (err) return err;
    hd_io made;
    err = hdi_source_adopt(runtime, fd, (enum hdi_source_kind)kind, &made);
    if (err) return err;
    struct hdi_source *source = hdi_source_of(made);
    source->borrowed = flags & HD_ADOPT_BORROWED;
    hdi_store_relaxed(&source->shared, true); /* Nobody else knows it yet. */
    *io = made;
    return 0;
}

int hd_io_fd(hd_io io)
{
    struct hdi_source *source = hdi_source_hold(io);
    if (!source) return -EBADF;
    const int fd = source->fd;
    hdi_lock_take(&source->out.waitable.lock);
    hdi_store_relaxed(&source->direct, true); /* OUT-5; seen under the lock. */
    hdi_store_relaxed(&source->shared, true); /* Closing it, which comes later, will look. */
    hdi_lock_give(&source->out.waitable.lock);
    if (source->fast) hdi_source_flush(source);
    hdi_source_release(source);
    return fd;
}

/* A copy of the descriptor, so that it can be watched twice, and be closed meanwhile. */
int hd_fd_wait(int fd, unsigned events, int64_t deadline)
{
    struct hd_runtime *runtime = hdi_io_runtime();
    if (!is_live(runtime) || events == 0 || (events & ~(HD_WAIT_READ | HD_WAIT_WRITE))) {
        return -EINVAL;
    }
    const int kind = kind_of(runtime, fd);
    if (kind < 0 || kind == HDI_SOURCE_FILE) return kind < 0 ? kind : -EPERM;
    const int copy = hdi_sys(runtime, dup, fd, 0);
    if (copy < 0) return copy;
    hd_io io;
    int err = hdi_source_create(runtime, copy, HDI_SOURCE_PIPE, &io);
    if (err) return err;
    hdi_store_relaxed(&hdi_source_of(io)->shared, true); /* Nobody else knows it. */
    hd_case cases[] = {HD_READABLE(io), HD_WRITABLE(io)};
    if (!(events & HD_WAIT_READ)) cases[0].kind = HD_CASE_NEVER;
    if (!(events & HD_WAIT_WRITE)) cases[1].kind = HD_CASE_NEVER;
    const int which = hd_select_until(cases, 2, 0, deadline);
    err = which < 0 ? which : cases[which].result;
    const int ready = err ? 0 : hdi_sys(runtime, poll, copy);
    (void)hd_close(io);
    if (err || ready < 0) return err ? err : ready;
    const unsigned both = (ready & (int)HDI_READY_IN ? HD_WAIT_READ : 0) |
                          (ready & (int)HDI_READY_OUT ? HD_WAIT_WRITE : 0);
    const unsigned sure = which == 0 ? HD_WAIT_READ : HD_WAIT_WRITE;
    return (int)((both & events) | sure);
}

/* ---- the standard streams ---- */

/* Others may have the same open file, who do not expect it to be non-blocking. */
hd_io hdi_stdio_open(struct hd_runtime *runtime, int fd)
{
    hd_io io = {0};
    if (hdi_live(runtime, fcntl, fd, F_GETFD) < 0) return io; /* In sim, too, they are real. */
    const int kind = is_live(runtime) ? kind_of(runtime, fd) : HDI_SOURCE_PIPE;
    if (kind < 0) return io;
    if (hdi_source_adopt(runtime, fd, (enum hdi_source_kind)kind, &io) != 0) return (hd_io){0};
    struct hdi_source *source = hdi_source_of(io);
    source->borrowed = true;
    hdi_store_relaxed(&source->shared, true); /* Nobody else knows it yet. */
    source->gentle = kind != HDI_SOURCE_FILE;
    return io;
}

static hd_io stdio(int fd)
{
    struct hd_runtime *runtime = hdi_io_runtime();
    if (!runtime) return (hd_io){0};
    const struct hdi_process *process = hdi_io_process(runtime);
    if (process) return (hd_io){process->streams[fd]};
    hdi_mutex_lock(&runtime->lanes_lock);
    hd_io io = {runtime->stdio[fd]};
    hdi_mutex_unlock(&runtime->lanes_lock);
    if (io.private_) return io;
    const hd_io made = hdi_stdio_open(runtime, fd); /* Sources are locked before lanes. */
    hdi_mutex_lock(&runtime->lanes_lock);
    if (runtime->stdio[fd] == 0) runtime->stdio[fd] = made.private_;
    io.private_ = runtime->stdio[fd];
    hdi_mutex_unlock(&runtime->lanes_lock);
    if (io.private_ != made.private_) (void)hd_close(made);
    return io;
}

hd_io hd_stdin(void)
{
    return stdio(STDIN_FILENO);
}

hd_io hd_stdout(void)
{
    return stdio(STDOUT_FILENO);
}

hd_io hd_stderr(void)
{
    return stdio(STDERR_FILENO);
}

int hd_pipe(hd_io ends[2])
{
    struct hd_runtime *runtime = hdi_io_runtime();
    int fds[2];
    hd_io made[2];
    if (!runtime) return -EINVAL;
    int err = hdi_sys(runtime, pipe, fds);
    if (err < 0) return err;
    err = hdi_source_create_pair(runtime, fds, HDI_SOURCE_PIPE, made);
    if (err) return err;
    ends[0] = made[0];
    ends[1] = made[1];
    return 0;
}
