/* SPDX-License-Identifier: MIT
 *
 * sys: the live table: each function is the system call of its name.
 */
#include "os/sys.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sanitizer.h"

int (*hdi_sys_fault)(struct hd_runtime *runtime, const char *name);

static inline ssize_t size_or_code(ssize_t result)
{
    return result < 0 ? -errno : result;
}

/* ---- sockets and pipes ---- */

static int live_socket(struct hd_runtime *runtime, int family, int type, int protocol)
{
    (void)runtime;
    return hdi_sys_code(socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol));
}

static int live_socketpair(struct hd_runtime *runtime, int family, int type, int fds[2])
{
    (void)runtime;
    return hdi_sys_code(socketpair(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds));
}

static int live_bind(struct hd_runtime *runtime, int fd, const struct sockaddr *addr,
                     socklen_t bytes)
{
    (void)runtime;
    return hdi_sys_code(bind(fd, addr, bytes));
}

static int live_listen(struct hd_runtime *runtime, int fd, int backlog)
{
    (void)runtime;
    return hdi_sys_code(listen(fd, backlog));
}

static int live_accept(struct hd_runtime *runtime, int fd, struct sockaddr *addr, socklen_t *bytes)
{
    (void)runtime;
    return hdi_sys_code(accept4(fd, addr, bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

static int live_connect(struct hd_runtime *runtime, int fd, const struct sockaddr *addr,
                        socklen_t bytes)
{
    (void)runtime;
    const int err = hdi_sys_code(connect(fd, addr, bytes));
    return err == -EINTR ? -EINPROGRESS : err; /* It goes on by itself. */
}

/* Those of the C library are points where threads can be cancelled, which costs two atomic
 * operations and about a hundred instructions in a process that has threads. Ours never wait.
 * Sanitizers are to see what is read and written. */
static ssize_t plain_recv(int fd, const struct iovec *part, int flags)
{
#if HDI_ASAN || HDI_TSAN
    return recv(fd, part->iov_base, part->iov_len, flags);
#else
    return syscall(SYS_recvfrom, fd, part->iov_base, part->iov_len, flags, NULL, NULL);
#endif
}

static ssize_t plain_send(int fd, const struct iovec *part, int flags)
{
#if HDI_ASAN || HDI_TSAN
    return send(fd, part->iov_base, part->iov_len, flags);
#else
    return syscall(SYS_sendto, fd, part->iov_base, part->iov_len, flags, NULL, 0);
#endif
}

/* Bytes in one place, and nothing else: there are calls for that, which cost less. */
static bool is_plain(const struct msghdr *message)
{
    return message->msg_iovlen == 1 && !message->msg_name && !message->msg_control;
}

static ssize_t live_recvmsg(struct hd_runtime *runtime, int fd, struct msghdr *message, int flags)
{
    (void)runtime;
    const bool plain = is_plain(message);
    flags |= MSG_DONTWAIT;
    ssize_t n;
    do n = size_or_code(plain ? plain_recv(fd, message->msg_iov, flags)
                              : recvmsg(fd, message, flags | MSG_CMSG_CLOEXEC));
    while (n == -EINTR);
    return n;
}

static ssize_t live_sendmsg(struct hd_runtime *runtime, int fd, const struct msghdr *message,
                            int flags)
{
    (void)runtime;
    const bool plain = is_plain(message);
    flags |= MSG_DONTWAIT | MSG_NOSIGNAL;
    ssize_t n;
    do n = size_or_code(plain ? plain_send(fd, message->msg_iov, flags)
                              : sendmsg(fd, message, flags));
    while (n == -EINTR);
    return n;
}

static int live_shutdown(struct hd_runtime *runtime, int fd, int how)
{
    (void)runtime;
    return hdi_sys_code(shutdown(fd, how));
}

static int live_setsockopt(struct hd_runtime *runtime, int fd, int level, int name,
                           const void *value, socklen_t bytes)
{
    (void)runtime;
    return hdi_sys_code(setsockopt(fd, level, name, value, bytes));
}

static int live_getsockopt(struct hd_runtime *runtime, int fd, int level, int name, void *value,
                           socklen_t *bytes)
{
    (void)runtime;
    return hdi_sys_code(getsockopt(fd, level, name, value, bytes));
}

static int live_getsockname(struct hd_runtime *runtime, int fd, struct sockaddr *addr,
                            socklen_t *bytes)
{
    (void)runtime;
    return hdi_sys_code(getsockname(fd, addr, bytes));
}

static int live_getpeername(struct hd_runtime *runtime, int fd, struct sockaddr *addr,
                            socklen_t *bytes)
{
    (void)runtime;
    return hdi_sys_code(getpeername(fd, addr, bytes));
}

static int live_pipe(struct hd_runtime *runtime, int fds[2])
{
    (void)runtime;
    return hdi_sys_code(pipe2(fds, O_NONBLOCK | O_CLOEXEC));
}

static ssize_t live_readv(struct hd_runtime *runtime, int fd, const struct iovec *parts, int count)
{
    (void)runtime;
    ssize_t n;
    do n = size_or_code(readv(fd, parts, count));
    while (n == -EINTR);
    return n;
}

/* Of pipes: a reader that is gone raises SIGPIPE, which nobody asked for. It is held back, and
 * taken if it came from here. */
static ssize_t live_writev(struct hd_runtime *runtime, int fd, const struct iovec *parts, int count)
{
    (void)runtime;
    sigset_t pipe_only, before, pending;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigpending(&pending);
    const bool was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    ssize_t n;
    do n = size_or_code(writev(fd, parts, count));
    while (n == -EINTR);
    if (n == -EPIPE && !was_pending) {
        const struct timespec at_once = {0, 0};
        while (sigtimedwait(&pipe_only, NULL, &at_once) < 0 && errno == EINTR) continue;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return n;
}

/* A descriptor is gone whatever close() says; what it says of lost data matters. */
static int live_close(struct hd_runtime *runtime, int fd)
{
    (void)runtime;
    const int err = hdi_sys_code(close(fd));
    return err == -EINTR ? 0 : err;
}

static int live_dup(struct hd_runtime *runtime, int fd, int least)
{
    (void)runtime;
    return hdi_sys_code(fcntl(fd, F_DUPFD_CLOEXEC, least));
}

static int live_set_blocking(struct hd_runtime *runtime, int fd, bool blocking)
{
    (void)runtime;
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0) return -errno;
    if (blocking == !(flags & O_NONBLOCK)) return 0;
    return hdi_sys_code(fcntl(fd, F_SETFL, flags ^ O_NONBLOCK));
}

static int live_poll(struct hd_runtime *runtime, int fd)
{
    (void)runtime;
    struct pollfd entry = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP};
    if (poll(&entry, 1, 0) < 0) return errno == EINTR ? 0 : -errno;
    unsigned ready = 0;
    if (entry.revents & POLLNVAL) return -EBADF;
    if (entry.revents & (POLLIN | POLLRDHUP | POLLHUP | POLLERR)) ready |= HDI_READY_IN;
    if (entry.revents & (POLLOUT | POLLHUP | POLLERR)) ready |= HDI_READY_OUT;
    if (entry.revents & (POLLHUP | POLLERR | POLLRDHUP)) ready |= HDI_READY_HUNG;
    return (int)ready;
}

/* ---- files ---- */

static int live_open(struct hd_runtime *runtime, const char *path, int flags, mode_t mode)
{
    (void)runtime;
    return hdi_sys_code(open(path, flags | O_CLOEXEC, mode));
}

static ssize_t live_preadv(struct hd_runtime *runtime, int fd, const struct iovec *parts, int count,
                           int64_t offset)
{
    (void)runtime;
    ssize_t n;
    do n = size_or_code(offset < 0 ? readv(fd, parts, count) : preadv(fd, parts, count, offset));
    while (n == -EINTR);
    return n;
}

static ssize_t live_pwritev(struct hd_runtime *runtime, int fd, const struct iovec *parts,
                            int count, int64_t offset)
{
    (void)runtime;
    ssize_t n;
    do n = size_or_code(offset < 0 ? writev(fd, parts, count) : pwritev(fd, parts, count, offset));
    while (n == -EINTR);
    return n;
}

static ssize_t live_preadv_now(struct hd_runtime *runtime, int fd, const struct iovec *parts,
                               int count, int64_t offset)
{
    (void)runtime;
    return size_or_code(preadv2(fd, parts, count, offset, RWF_NOWAIT));
}

static int live_fsync(struct hd_runtime *runtime, int fd, bool data_only)
{
    (void)runtime;
    return hdi_sys_code(data_only ? fdatasync(fd) : fsync(fd));
}

static int live_ftruncate(struct hd_runtime *runtime, int fd, int64_t bytes)
{
    (void)runtime;
    return hdi_sys_code(ftruncate(fd, bytes));
}

static int live_fstat(struct hd_runtime *runtime, int fd, struct stat *info)
{
    (void)runtime;
    return hdi_sys_code(fstat(fd, info));
}

static int live_stat(struct hd_runtime *runtime, const char *path, struct stat *info)
{
    (void)runtime;
    return hdi_sys_code(stat(path, info));
}

static int live_rename(struct hd_runtime *runtime, const char *from, const char *to)
{
    (void)runtime;
    return hdi_sys_code(rename(from, to));
}

static int live_unlink(struct hd_runtime *runtime, const char *path)
{
    (void)runtime;
    return hdi_sys_code(unlink(path));
}

static int live_mkdir(struct hd_runtime *runtime, const char *path, mode_t mode)
{
    (void)runtime;
    return hdi_sys_code(mkdir(path, mode));
}

static int live_rmdir(struct hd_runtime *runtime, const char *path)
{
    (void)runtime;
    return hdi_sys_code(rmdir(path));
}

static bool is_dots(const char *name)
{
    return name[0] == '.' && (name[1] == 0 || (name[1] == '.' && name[2] == 0));
}

/* Write {type, name, 0} of every entry. Returns 0 or -errno. */
static int list_into(struct hd_runtime *runtime, FILE *out, DIR *dir)
{
    for (;;) {
        const int err = hdi_sys_fails(runtime, "readdir");
        if (err) return err;
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) return -errno;
        if (is_dots(entry->d_name)) continue;
        fputc(entry->d_type, out);
        fwrite(entry->d_name, 1, strlen(entry->d_name) + 1, out);
    }
}

static ssize_t live_list(struct hd_runtime *runtime, const char *path, char **entries)
{
    char *memory = NULL;
    size_t bytes = 0;
    DIR *dir = opendir(path);
    if (!dir) return -errno;
    FILE *out = open_memstream(&memory, &bytes);
    int err = out ? list_into(runtime, out, dir) : -ENOMEM;
    if (out && fclose(out) != 0 && !err) err = -ENOMEM;
    closedir(dir);
    if (err) {
        free(memory);
        return err;
    }
    *entries = memory;
    return (ssize_t)bytes;
}

static int live_sync_dir(struct hd_runtime *runtime, const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -errno;
    const int err = hdi_live(runtime, fsync, fd);
    close(fd);
    return err;
}

/* ---- names ---- */

static int resolve_code(int error)
{
    switch (error) {
    case EAI_NONAME:
    case EAI_NODATA: return -ENOENT;
    case EAI_MEMORY: return -ENOMEM;
    case EAI_SYSTEM: return errno ? -errno : -EIO;
    default: return -EAGAIN;
    }
}

static int live_resolve(struct hd_runtime *runtime, const char *name,
                        struct sockaddr_storage *addrs, size_t max)
{
    (void)runtime;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *list = NULL;
    const int error = getaddrinfo(name, NULL, &hints, &list);
    if (error) return resolve_code(error);
    size_t count = 0;
    for (const struct addrinfo *info = list; info && count < max && count < INT_MAX;
         info = info->ai_next) {
        if (info->ai_family != AF_INET && info->ai_family != AF_INET6) continue;
        memset(&addrs[count], 0, sizeof(addrs[count]));
        memcpy(&addrs[count++], info->ai_addr, info->ai_addrlen);
    }
    freeaddrinfo(list);
    return count > 0 ? (int)count : -ENOENT;
}

const struct hdi_sys hdi_sys_live = {
    .socket = live_socket,
    .socketpair = live_socketpair,
    .bind = live_bind,
    .listen = live_listen,
    .accept = live_accept,
    .connect = live_connect,
    .recvmsg = live_recvmsg,
    .sendmsg = live_sendmsg,
    .shutdown = live_shutdown,
    .setsockopt = live_setsockopt,
    .getsockopt = live_getsockopt,
    .getsockname = live_getsockname,
    .getpeername = live_getpeername,
    .pipe = live_pipe,
    .readv = live_readv,
    .writev = live_writev,
    .close = live_close,
    .dup = live_dup,
    .set_blocking = live_set_blocking,
    .poll = live_poll,
    .watch = hdi_live_watch,
    .unwatch = hdi_live_unwatch,
    .open = live_open,
    .preadv = live_preadv,
    .pwritev = live_pwritev,
    .preadv_now = live_preadv_now,
    .fsync = live_fsync,
    .ftruncate = live_ftruncate,
    .fstat = live_fstat,
    .stat = live_stat,
    .rename = live_rename,
    .unlink = live_unlink,
    .mkdir = live_mkdir,
    .rmdir = live_rmdir,
    .list = live_list,
    .sync_dir = live_sync_dir,
    .resolve = live_resolve,
    .spawn = hdi_live_spawn,
    .pidfd_open = hdi_live_pidfd_open,
    .wait = hdi_live_wait,
    .kill = hdi_live_kill,
};
