/* SPDX-License-Identifier: MIT
 *
 * net_sys: the system calls of the sim world: sockets and names go to the network (sim/net.h),
 * files to the disk of the caller's host (sim/disk.h).
 */
#include "os/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/disk.h"
#include "sim/net_calls.h"
#include "sim/program.h"

/* ---- one call: the network locked, the socket of a descriptor ---- */

struct call {
    struct hdi_net *net;
    struct hdi_sock *sock; /* NULL: not to be used, and `err` says why */
    int err;
};

static struct call begin(struct hd_runtime *runtime, int fd)
{
    struct call call = {.net = hdi_net_of(runtime)};
    hdi_mutex_lock(&call.net->lock);
    call.sock = hdi_sock_at(call.net, fd, &call.err);
    if (call.sock && hdi_process_gone()) { /* Nothing that it does is seen any more. */
        call.sock = NULL;
        call.err = -EHOSTDOWN;
    }
    return call;
}

static void close_passed(struct hd_runtime *runtime, struct hdi_passed *passed);

/* Descriptors that the call lost are closed: files of a disk, not under the lock. */
static ssize_t end_bytes(struct call *call, ssize_t result)
{
    struct hdi_net *net = call->net;
    for (struct hdi_list *link; (link = hdi_list_pop_front(&net->lost));) {
        hdi_mutex_unlock(&net->lock);
        close_passed(net->runtime, hdi_container_of(link, struct hdi_passed, link));
        hdi_mutex_lock(&net->lock);
    }
    hdi_mutex_unlock(&net->lock);
    return result;
}

static int end(struct call *call, int result)
{
    return (int)end_bytes(call, result);
}

/* ---- making ---- */

#define TYPE_MASK 0xf /* without SOCK_NONBLOCK and SOCK_CLOEXEC */

static bool is_stream(const struct hdi_sock *sock)
{
    return sock->kind != HDI_SOCK_UDP;
}

static int kind_of(int family, int type, enum hdi_sock_kind *kind)
{
    const bool stream = (type & TYPE_MASK) == SOCK_STREAM, dgram = (type & TYPE_MASK) == SOCK_DGRAM;
    if (family != AF_INET && family != AF_INET6 && family != AF_UNIX) return -EAFNOSUPPORT;
    if (!stream && !(dgram && family != AF_UNIX)) return -EPROTONOSUPPORT;
    *kind = family == AF_UNIX ? HDI_SOCK_UNIX : stream ? HDI_SOCK_TCP : HDI_SOCK_UDP;
    return 0;
}

static int sim_socket(struct hd_runtime *runtime, int family, int type, int protocol)
{
    (void)protocol;
    enum hdi_sock_kind kind;
    const int err = kind_of(family, type, &kind);
    if (err) return err;
    struct call call = {.net = hdi_net_of(runtime)};
    hdi_mutex_lock(&call.net->lock);
    struct hdi_life *life = hdi_life_self(call.net);
    if (life->dead) return end(&call, -EHOSTDOWN);
    return end(&call, hdi_sock_number(call.net, hdi_sock_new(call.net, kind, family, life)));
}

/* Two that are connected: fds[1] is the end that a pipe is written to. */
static int make_pair(struct hd_runtime *runtime, enum hdi_sock_kind kind, int fds[2])
{
    struct call call = {.net = hdi_net_of(runtime)};
    hdi_mutex_lock(&call.net->lock);
    struct hdi_life *life = hdi_life_self(call.net);
    if (life->dead) return end(&call, -EHOSTDOWN);
    struct hdi_sock *writer = hdi_sock_new(call.net, kind, AF_UNIX, life);
    struct hdi_sock *reader = hdi_sock_new(call.net, kind, AF_UNIX, life);
    hdi_conn_local(call.net, writer, reader);
    fds[0] = hdi_sock_number(call.net, reader);
    fds[1] = hdi_sock_number(call.net, writer);
    return end(&call, 0);
}

static int sim_socketpair(struct hd_runtime *runtime, int family, int type, int fds[2])
{
    if (family != AF_UNIX) return -EOPNOTSUPP;
    if ((type & TYPE_MASK) != SOCK_STREAM) return -EPROTONOSUPPORT;
    return make_pair(runtime, HDI_SOCK_UNIX, fds);
}

static int sim_pipe(struct hd_runtime *runtime, int fds[2])
{
    return make_pair(runtime, HDI_SOCK_PIPE, fds);
}

static int sim_close(struct hd_runtime *runtime, int fd)
{
    if (hdi_disk_fd(fd)) return hdi_disk_close(runtime, fd);
    struct call call = begin(runtime, fd);
    if (call.err == -EBADF) return end(&call, -EBADF);
    hdi_fd_close(call.net, hdi_fd_at(call.net, fd)); /* Also of a host that crashed. */
    return end(&call, 0);
}

/* Another descriptor of the same; or -errno. */
static int copy(struct hd_runtime *runtime, int fd)
{
    if (hdi_disk_fd(fd)) return hdi_disk_copy(runtime, fd);
    struct call call = begin(runtime, fd);
    return end(&call, call.err ? call.err : hdi_sock_number(call.net, call.sock));
}

/* A standard stream is the caller's own; one of the program has no other number. */
static int sim_dup(struct hd_runtime *runtime, int fd, int least)
{
    (void)least; /* They are all larger. */
    if (fd < 0 || fd >= HDI_STREAMS) return copy(runtime, fd);
    const struct hdi_process *process = hdi_process_self(runtime);
    if (process) fd = hd_io_fd((hd_io){process->streams[fd]});
    return fd < HDI_STREAMS ? fd : copy(runtime, fd);
}

/* Here nothing blocks. */
static int sim_set_blocking(struct hd_runtime *runtime, int fd, bool blocking)
{
    (void)blocking;
    if (hdi_disk_fd(fd)) return 0;
    struct call call = begin(runtime, fd);
    return end(&call, call.err);
}

static int sim_fstat(struct hd_runtime *runtime, int fd, struct stat *info)
{
    if (hdi_disk_fd(fd)) return hdi_disk_fstat(runtime, fd, info);
    struct call call = begin(runtime, fd);
    if (call.err) return end(&call, call.err);
    *info = (struct stat){.st_mode = call.sock->kind == HDI_SOCK_PIPE ? S_IFIFO | 0600
                                                                      : S_IFSOCK | 0777};
    return end(&call, 0);
}

/* ---- places ---- */

static int do_bind(struct hdi_net *net, struct hdi_sock *sock, const struct sockaddr *addr,
                   socklen_t bytes)
{
    if (sock->kind == HDI_SOCK_PIPE) return -ENOTSOCK;
    if (sock->kind == HDI_SOCK_UNIX) {
        return hdi_unix_bind(net, sock, (const struct sockaddr_un *)addr, bytes);
    }
    struct hdi_place place;
    const int err = hdi_place_read(&place, addr, bytes, sock->family);
    return err ? err : hdi_sock_bind(net, sock, &place);
}

static int sim_bind(struct hd_runtime *runtime, int fd, const struct sockaddr *addr,
                    socklen_t bytes)
{
    struct call call = begin(runtime, fd);
    return end(&call, call.err ? call.err : do_bind(call.net, call.sock, addr, bytes));
}

static int do_listen(struct hdi_net *net, struct hdi_sock *sock, int backlog)
{
    if (sock->kind == HDI_SOCK_PIPE) return -ENOTSOCK;
    if (sock->kind == HDI_SOCK_UDP) return -EOPNOTSUPP;
    if (sock->state != HDI_SOCK_FRESH && sock->state != HDI_SOCK_LISTENING) return -EINVAL;
    if (!sock->bound) {
        if (sock->kind == HDI_SOCK_UNIX) return -EINVAL;
        const struct hdi_place any = sock->local;
        const int err = hdi_sock_bind(net, sock, &any);
        if (err) return err;
    }
    sock->backlog = backlog < 1 ? 1 : (unsigned)backlog;
    sock->state = HDI_SOCK_LISTENING;
    return 0;
}

static int sim_listen(struct hd_runtime *runtime, int fd, int backlog)
{
    struct call call = begin(runtime, fd);
    return end(&call, call.err ? call.err : do_listen(call.net, call.sock, backlog));
}

static int sim_accept(struct hd_runtime *runtime, int fd, struct sockaddr *addr, socklen_t *bytes)
{
    struct call call = begin(runtime, fd);
    /* Who accepts takes -EHOSTDOWN for that of a connection, and tries again. */
    if (call.err) return end(&call, call.err == -EHOSTDOWN ? -EINVAL : call.err);
    return end(&call, hdi_sock_accept(call.net, call.sock, addr, bytes));
}

static int connect_udp(struct hdi_net *net, struct hdi_sock *sock, const struct hdi_place *target)
{
    struct hdi_place source;
    int err = hdi_sock_autobind(net, sock, target);
    if (!err) err = hdi_sock_source(sock, target, &source);
    if (err) return err;
    sock->local = source;
    sock->peer = *target;
    sock->state = HDI_SOCK_CONNECTED;
    return 0;
}

/* To the unspecified address means to oneself. */
static void specify(struct hdi_place *target)
{
    if (!hdi_ip_any(target->ip)) return;
    if (hdi_ip_v4(target->ip)) target->ip[12] = 127;
    target->ip[15] = 1;
}

/* Read an address for this socket. Datagrams go from IPv6 sockets to IPv4 addresses, too. */
static int read_target(struct hdi_place *target, const struct hdi_sock *sock,
                       const struct sockaddr *addr, socklen_t bytes)
{
    const bool four = bytes >= sizeof(addr->sa_family) && addr->sa_family == AF_INET;
    return hdi_place_read(target, addr, bytes, four && !is_stream(sock) ? AF_INET : sock->family);
}

static int do_connect(struct hdi_net *net, struct hdi_sock *sock, const struct sockaddr *addr,
                      socklen_t bytes)
{
    if (sock->kind == HDI_SOCK_PIPE) return -ENOTSOCK;
    if (is_stream(sock)) {
        if (sock->state == HDI_SOCK_CONNECTING) return -EALREADY;
        if (sock->state != HDI_SOCK_FRESH) return -EISCONN;
    }
    if (sock->kind == HDI_SOCK_UNIX) {
        return hdi_unix_connect(net, sock, (const struct sockaddr_un *)addr, bytes);
    }
    struct hdi_place target;
    const int err = read_target(&target, sock, addr, bytes);
    if (err) return err;
    specify(&target);
    return is_stream(sock) ? hdi_tcp_connect(net, sock, &target) : connect_udp(net, sock, &target);
}

static int sim_connect(struct hd_runtime *runtime, int fd, const struct sockaddr *addr,
                       socklen_t bytes)
{
    struct call call = begin(runtime, fd);
    return end(&call, call.err ? call.err : do_connect(call.net, call.sock, addr, bytes));
}

/* Of a Unix socket. */
static void write_name(const char *name, size_t name_bytes, struct sockaddr *addr,
                       socklen_t *bytes)
{
    struct sockaddr_un out = {.sun_family = AF_UNIX};
    memcpy(out.sun_path, name, name_bytes);
    const bool path = name_bytes > 0 && name[0] && name_bytes < sizeof(out.sun_path);
    const size_t start = offsetof(struct sockaddr_un, sun_path);
    const socklen_t length = (socklen_t)(start + name_bytes + (path ? 1 : 0));
    memcpy(addr, &out, *bytes < length ? *bytes : length);
    *bytes = length;
}

static int sim_getsockname(struct hd_runtime *runtime, int fd, struct sockaddr *addr,
                           socklen_t *bytes)
{
    struct call call = begin(runtime, fd);
    const struct hdi_sock *sock = call.sock;
    if (call.err) return end(&call, call.err);
    if (sock->kind == HDI_SOCK_PIPE) return end(&call, -ENOTSOCK);
    if (sock->kind == HDI_SOCK_UNIX) {
        write_name(sock->name ? sock->name->name : "", sock->name ? sock->name->bytes : 0, addr,
                   bytes);
    } else {
        hdi_place_write(&sock->local, sock->family, addr, bytes);
    }
    return end(&call, 0);
}

static int sim_getpeername(struct hd_runtime *runtime, int fd, struct sockaddr *addr,
                           socklen_t *bytes)
{
    struct call call = begin(runtime, fd);
    const struct hdi_sock *sock = call.sock;
    if (call.err) return end(&call, call.err);
    if (sock->kind == HDI_SOCK_PIPE) return end(&call, -ENOTSOCK);
    if (sock->state != HDI_SOCK_CONNECTED) return end(&call, -ENOTCONN);
    if (sock->kind == HDI_SOCK_UNIX) {
        write_name(sock->peer_name, sock->peer_name_bytes, addr, bytes);
    } else {
        hdi_place_write(&sock->peer, sock->family, addr, bytes);
    }
    return end(&call, 0);
}

/* ---- options and readiness ---- */

static int sim_setsockopt(struct hd_runtime *runtime, int fd, int level, int name,
                          const void *value, socklen_t bytes)
{
    struct call call = begin(runtime, fd);
    if (!call.err && call.sock->kind == HDI_SOCK_PIPE) call.err = -ENOTSOCK;
    if (call.err) return end(&call, call.err);
    return end(&call, hdi_sock_set(call.net, call.sock, level, name, value, bytes));
}

static int sim_getsockopt(struct hd_runtime *runtime, int fd, int level, int name, void *value,
                          socklen_t *bytes)
{
    struct call call = begin(runtime, fd);
    if (!call.err && call.sock->kind == HDI_SOCK_PIPE) call.err = -ENOTSOCK;
    if (call.err) return end(&call, call.err);
    return end(&call, hdi_sock_get(call.sock, level, name, value, bytes));
}

static int sim_poll(struct hd_runtime *runtime, int fd)
{
    struct call call = begin(runtime, fd);
    if (call.err == -EBADF) return end(&call, -EBADF);
    return end(&call, (int)hdi_sock_ready(hdi_fd_at(call.net, fd)->sock));
}

static int sim_watch(struct hd_runtime *runtime, int fd, struct hdi_source *source)
{
    struct call call = begin(runtime, fd);
    if (call.err) return end(&call, call.err);
    struct hdi_fd *watched = hdi_fd_at(call.net, fd);
    if (watched->source && watched->source != source) return end(&call, -EEXIST); /* as epoll */
    watched->source = source;
    watched->handle = hdi_source_handle(source);
    hdi_fd_tell(call.net, watched, hdi_sock_ready(call.sock));
    return end(&call, 0);
}

static void sim_unwatch(struct hd_runtime *runtime, int fd, struct hdi_source *source)
{
    (void)source;
    struct call call = begin(runtime, fd);
    if (call.err != -EBADF) {
        struct hdi_fd *watched = hdi_fd_at(call.net, fd);
        watched->source = NULL;
        watched->news = 0;
        hdi_list_remove(&watched->news_link);
    }
    (void)end(&call, 0);
}

/* ---- bytes ---- */

/* Those that there is no room for are lost. */
static void give_passed(struct hdi_net *net, struct hdi_passed *passed, struct msghdr *message,
                        size_t room)
{
    const size_t most = room < CMSG_LEN(0) ? 0 : (room - CMSG_LEN(0)) / sizeof(int);
    const unsigned given = passed->count < most ? passed->count : (unsigned)most;
    if (given > 0) {
        struct cmsghdr *header = message->msg_control;
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(given * sizeof(int));
        memcpy(CMSG_DATA(header), passed->fds, given * sizeof(int));
        message->msg_controllen = header->cmsg_len;
    }
    passed->count -= given;
    memmove(passed->fds, passed->fds + given, passed->count * sizeof(int));
    if (passed->count > 0) message->msg_flags |= MSG_CTRUNC;
    hdi_list_push_back(&net->lost, &passed->link);
}

static ssize_t do_recv(struct hdi_net *net, struct hdi_sock *sock, struct msghdr *message,
                       int flags)
{
    if (!is_stream(sock)) return hdi_dgram_read(net, sock, message, flags);
    const size_t room = message->msg_control ? message->msg_controllen : 0;
    message->msg_flags = 0;
    message->msg_controllen = 0;
    const ssize_t n = hdi_stream_read(net, sock, message->msg_iov, message->msg_iovlen, flags);
    if (n <= 0) return n;
    struct hdi_passed *passed = hdi_unix_take_passed(&sock->conn->ends[sock->end]);
    if (passed) give_passed(net, passed, message, room);
    return n;
}

static ssize_t sim_recvmsg(struct hd_runtime *runtime, int fd, struct msghdr *message, int flags)
{
    struct call call = begin(runtime, fd);
    if (!call.err && call.sock->kind == HDI_SOCK_PIPE) call.err = -ENOTSOCK;
    return end_bytes(&call, call.err ? call.err : do_recv(call.net, call.sock, message, flags));
}

static ssize_t send_dgram(struct hdi_net *net, struct hdi_sock *sock, const struct msghdr *message)
{
    struct hdi_place target = sock->peer;
    if (sock->error) return hdi_sock_take_error(sock);
    if (message->msg_name) {
        const int err = read_target(&target, sock, message->msg_name, message->msg_namelen);
        if (err) return err;
        specify(&target);
    } else if (sock->state != HDI_SOCK_CONNECTED) {
        return -EDESTADDRREQ;
    }
    if (target.port == 0) return -EINVAL;
    return hdi_udp_send(net, sock, &target, message->msg_iov, message->msg_iovlen);
}

static ssize_t do_send(struct hdi_net *net, struct hdi_sock *sock, const struct msghdr *message)
{
    if (!is_stream(sock)) return send_dgram(net, sock, message);
    return hdi_stream_write(net, sock, message->msg_iov, message->msg_iovlen);
}

static void close_passed(struct hd_runtime *runtime, struct hdi_passed *passed)
{
    for (unsigned i = 0; i < passed->count; i++) (void)sim_close(runtime, passed->fds[i]);
    free(passed);
}

/* Copies of the descriptors that a message is to pass. */
static int copy_passed(struct hd_runtime *runtime, const struct msghdr *message,
                       struct hdi_passed **passed)
{
    const struct cmsghdr *header = CMSG_FIRSTHDR(message);
    *passed = NULL;
    if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) return 0;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    struct hdi_passed *copies = hdi_net_alloc(sizeof(*copies) + count * sizeof(int));
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(header) + i * sizeof(fd), sizeof(fd));
        fd = copy(runtime, fd);
        if (fd < 0) {
            close_passed(runtime, copies);
            return fd;
        }
        copies->fds[copies->count++] = fd;
    }
    *passed = copies;
    return 0;
}

/* What was passed goes with the bytes, or is closed again. */
static ssize_t send_passed(struct hdi_net *net, struct hdi_sock *sock,
                           const struct msghdr *message, struct hdi_passed *passed)
{
    const ssize_t n = do_send(net, sock, message);
    if (!passed) return n;
    if (n > 0 && sock->kind == HDI_SOCK_UNIX) {
        hdi_unix_pass(sock, passed, (size_t)n);
    } else {
        hdi_list_push_back(&net->lost, &passed->link);
    }
    return n;
}

static ssize_t sim_sendmsg(struct hd_runtime *runtime, int fd, const struct msghdr *message,
                           int flags)
{
    (void)flags;
    struct hdi_passed *passed;
    const int err = copy_passed(runtime, message, &passed);
    if (err) return err;
    struct call call = begin(runtime, fd);
    if (!call.err && call.sock->kind == HDI_SOCK_PIPE) call.err = -ENOTSOCK;
    if (!call.err) return end_bytes(&call, send_passed(call.net, call.sock, message, passed));
    if (passed) hdi_list_push_back(&call.net->lost, &passed->link);
    return end(&call, call.err);
}

/* Whether it is the end of a pipe that is not for that. */
static bool is_wrong_end(const struct hdi_sock *sock, unsigned right)
{
    return sock->kind == HDI_SOCK_PIPE && sock->end != right;
}

static ssize_t sim_readv(struct hd_runtime *runtime, int fd, const struct iovec *parts, int count)
{
    struct call call = begin(runtime, fd);
    if (!call.err && is_wrong_end(call.sock, 1)) call.err = -EBADF;
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    return end_bytes(&call, call.err ? call.err : do_recv(call.net, call.sock, &message, 0));
}

static ssize_t sim_writev(struct hd_runtime *runtime, int fd, const struct iovec *parts, int count)
{
    struct call call = begin(runtime, fd);
    if (!call.err && is_wrong_end(call.sock, 0)) call.err = -EBADF;
    const struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    return end_bytes(&call, call.err ? call.err : do_send(call.net, call.sock, &message));
}

static int do_shutdown(struct hdi_net *net, struct hdi_sock *sock, int how)
{
    if (sock->kind == HDI_SOCK_PIPE) return -ENOTSOCK;
    if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) return -EINVAL;
    if (sock->state != HDI_SOCK_CONNECTED) return -ENOTCONN;
    if (how != SHUT_WR) {
        sock->read_shut = true;
        hdi_sock_tell(net, sock, HDI_READY_IN | (is_stream(sock) ? HDI_READY_HUNG : 0));
    }
    if (how != SHUT_RD && sock->conn) {
        hdi_conn_shut(net, sock);
        hdi_sock_tell(net, sock, HDI_READY_OUT); /* -EPIPE */
    }
    return 0;
}

static int sim_shutdown(struct hd_runtime *runtime, int fd, int how)
{
    struct call call = begin(runtime, fd);
    return end(&call, call.err ? call.err : do_shutdown(call.net, call.sock, how));
}

/* ---- files ---- */

static int sim_unlink(struct hd_runtime *runtime, const char *path)
{
    return hdi_unix_unlink(runtime, path) ? 0 : hdi_disk_unlink(runtime, path);
}

const struct hdi_sys hdi_sys_sim = {
    .socket = sim_socket,
    .socketpair = sim_socketpair,
    .bind = sim_bind,
    .listen = sim_listen,
    .accept = sim_accept,
    .connect = sim_connect,
    .recvmsg = sim_recvmsg,
    .sendmsg = sim_sendmsg,
    .shutdown = sim_shutdown,
    .setsockopt = sim_setsockopt,
    .getsockopt = sim_getsockopt,
    .getsockname = sim_getsockname,
    .getpeername = sim_getpeername,
    .pipe = sim_pipe,
    .readv = sim_readv,
    .writev = sim_writev,
    .close = sim_close,
    .dup = sim_dup,
    .set_blocking = sim_set_blocking,
    .poll = sim_poll,
    .watch = sim_watch,
    .unwatch = sim_unwatch,
    .open = hdi_disk_open,
    .preadv = hdi_disk_preadv,
    .pwritev = hdi_disk_pwritev,
    .fsync = hdi_disk_fsync,
    .ftruncate = hdi_disk_ftruncate,
    .fstat = sim_fstat,
    .stat = hdi_disk_stat,
    .rename = hdi_disk_rename,
    .unlink = sim_unlink,
    .mkdir = hdi_disk_mkdir,
    .rmdir = hdi_disk_rmdir,
    .list = hdi_disk_list,
    .sync_dir = hdi_disk_sync_dir,
    .resolve = hdi_net_resolve,
    .resolve_delay = hdi_net_resolve_delay,
    .spawn = hdi_process_spawn,
    .pidfd_open = hdi_process_open,
    .wait = hdi_process_wait,
    .kill = hdi_process_kill,
    .process = hdi_process_self,
};
