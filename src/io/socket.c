/* SPDX-License-Identifier: MIT
 *
 * socket: listening, accepting, connecting to an address, datagrams, options.
 */
#include "io/socket.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

#include <heddle/time.h>

static struct sockaddr *raw(const hd_addr *addr)
{
    return (struct sockaddr *)addr->bytes;
}

static int set_flag(struct hd_runtime *runtime, int fd, int level, int name)
{
    const int on = 1;
    return hdi_sys(runtime, setsockopt, fd, level, name, &on, sizeof(on));
}

int hdi_socket_open(struct hd_runtime *runtime, const hd_addr *addr, int type)
{
    return hdi_sys(runtime, socket, addr->family, type, 0);
}

/* ---- listening ---- */

/* Where the machine has no IPv6, ":PORT" means IPv4. */
static int open_any(struct hd_runtime *runtime, hd_addr *addr, int type, const char *place)
{
    const int fd = hdi_socket_open(runtime, addr, type);
    if (fd != -EAFNOSUPPORT || *place != ':') return fd;
    const int err = hdi_addr_of(addr, "0.0.0.0", hd_addr_port(addr));
    return err ? err : hdi_socket_open(runtime, addr, type);
}

static int set_up_listener(struct hd_runtime *runtime, int fd, const hd_addr *addr,
                           const hd_listen_options *options)
{
    const bool tcp = addr->family != AF_UNIX;
    int err = tcp ? set_flag(runtime, fd, SOL_SOCKET, SO_REUSEADDR) : 0;
    if (!err && options->reuse_port) err = set_flag(runtime, fd, SOL_SOCKET, SO_REUSEPORT);
    if (!err && addr->family == AF_INET6) {
        const int only = options->ipv6_only;
        err = hdi_sys(runtime, setsockopt, fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
    }
    if (!err) err = hdi_sys(runtime, bind, fd, raw(addr), addr->length);
    if (err) return err;
    return hdi_sys(runtime, listen, fd, options->backlog > 0 ? options->backlog : INT_MAX);
}

static int listen_at(struct hd_runtime *runtime, hd_io *listener, int fd, const hd_addr *addr,
                     const hd_listen_options *given)
{
    const hd_listen_options options = given ? *given : (hd_listen_options)HD_LISTEN_OPTIONS_INIT;
    int err = options.size == sizeof(options) ? set_up_listener(runtime, fd, addr, &options)
                                              : -EINVAL;
    if (err) {
        (void)hdi_sys(runtime, close, fd);
        return err;
    }
    err = hdi_source_create(runtime, fd, HDI_SOURCE_LISTENER, listener);
    if (err) return err;
    struct hdi_source *source = hdi_source_of(*listener);
    source->fast = addr->family != AF_UNIX;
    source->delayed = options.delayed || !source->fast;
    return 0;
}

int hdi_socket_listen(struct hd_runtime *runtime, hd_io *listener, const hd_addr *addr,
                      const hd_listen_options *options)
{
    const int fd = hdi_socket_open(runtime, addr, SOCK_STREAM);
    return fd < 0 ? fd : listen_at(runtime, listener, fd, addr, options);
}

int hd_tcp_listen(hd_io *listener, const char *place, const hd_listen_options *options)
{
    struct hd_runtime *runtime = hdi_io_runtime();
    hd_addr addr;
    const int err = runtime ? hd_addr_parse(&addr, place) : -EINVAL;
    if (err || addr.family == AF_UNIX) return err ? err : -EINVAL;
    const int fd = open_any(runtime, &addr, SOCK_STREAM, place);
    return fd < 0 ? fd : listen_at(runtime, listener, fd, &addr, options);
}

/* ---- accepting ---- */

struct accepting {
    hd_addr *from;
    struct hd_runtime *runtime;
    bool delayed, tcp;
};

/* A connection that is gone already, or came with an error of its own, is not the listener's. */
static bool is_passing(int err)
{
    switch (err) {
    case -ECONNABORTED:
    case -EPROTO:
    case -ENETDOWN:
    case -ENOPROTOOPT:
    case -EHOSTDOWN:
    case -ENONET:
    case -EHOSTUNREACH:
    case -ENETUNREACH: return true;
    default: return false;
    }
}

/* Of a connection that was accepted ahead; none if it is gone already. */
static hd_addr peer_of(struct hd_runtime *runtime, int fd)
{
    hd_addr addr = {.length = sizeof(addr.bytes)};
    const int err = hdi_sys(runtime, getpeername, fd, raw(&addr), &addr.length);
    return err ? (hd_addr){0} : addr;
}

static ssize_t try_accept(struct hdi_source *source, void *arg)
{
    struct accepting *accepting = arg;
    hd_addr from;
    int fd;
    if (source->kind != HDI_SOURCE_LISTENER) return -EINVAL;
    accepting->runtime = source->runtime;
    accepting->delayed = source->delayed;
    accepting->tcp = source->fast;
    do {
        from.length = 0;
        fd = source->fast ? hdi_lane_accept(source) : -ENODATA;
        if (fd == -ENODATA) {
            from.length = sizeof(from.bytes);
            fd = hdi_sys(source->runtime, accept, source->fd, raw(&from), &from.length);
        }
    } while (fd < 0 && is_passing(fd));
    if (fd >= 0 && accepting->from && from.length == 0) from = peer_of(source->runtime, fd);
    if (fd >= 0 && accepting->from) *accepting->from = from;
    return fd;
}

/* Others may close some: it is worth another try. */
static bool is_shortage(ssize_t err)
{
    return err == -EMFILE || err == -ENFILE || err == -ENOBUFS || err == -ENOMEM;
}

/* Until the next try after a shortage, ever later, by the deadline; or until it is closed. */
static int back_off(hd_io io, int64_t *pause_ns, int64_t deadline)
{
    const int64_t now_ns = hdi_sched_now();
    if (deadline == HD_NOW) return -EAGAIN;
    if (now_ns >= deadline) return -ETIMEDOUT;
    const int64_t next_ns = now_ns + *pause_ns;
    *pause_ns = *pause_ns * 2 < HD_SECOND_NS ? *pause_ns * 2 : HD_SECOND_NS;
    return hdi_source_pause(io, next_ns < deadline ? next_ns : deadline);
}

int hd_accept_until(hd_io listener, hd_io *conn, hd_addr *from, int64_t deadline)
{
    struct accepting accepting = {.from = from};
    int64_t pause_ns = 5 * HD_MS_NS;
    ssize_t fd;
    while (is_shortage(fd = hdi_source_do(listener, false, try_accept, &accepting, 0, deadline))) {
        const int err = back_off(listener, &pause_ns, deadline);
        if (err) return err == -EAGAIN ? (int)fd : err;
    }
    if (fd < 0) return (int)fd;
    /* A connection without it works, only later. */
    if (!accepting.delayed) {
        (void)set_flag(accepting.runtime, (int)fd, IPPROTO_TCP, TCP_NODELAY);
    }
    const int err = hdi_source_create(accepting.runtime, (int)fd, HDI_SOURCE_STREAM, conn);
    if (!err) hdi_source_of(*conn)->fast = accepting.tcp;
    return err;
}

int hd_accept(hd_io listener, hd_io *conn, hd_addr *from)
{
    return hd_accept_until(listener, conn, from, HD_FOREVER);
}

void hdi_socket_end(const struct hdi_source *source)
{
    const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    struct linger linger = {0};
    socklen_t bytes = sizeof(linger);
    (void)hdi_sys(source->runtime, getsockopt, source->fd, SOL_SOCKET, SO_LINGER, &linger, &bytes);
    if (linger.l_onoff && linger.l_linger == 0) {
        (void)hdi_sys(source->runtime, connect, source->fd, &nobody, sizeof(nobody));
    } else {
        (void)hdi_sys(source->runtime, shutdown, source->fd, SHUT_RDWR);
    }
}

/* ---- connecting ---- */

/* The answer to a connect that was under way. */
static ssize_t try_finish(struct hdi_source *source, void *arg)
{
    (void)arg;
    const int ready = hdi_sys(source->runtime, poll, source->fd);
    if (ready < 0) return ready;
    if (!((unsigned)ready & HDI_READY_OUT)) return -EAGAIN;
    int err = 0;
    socklen_t bytes = sizeof(err);
    const int failed = hdi_sys(source->runtime, getsockopt, source->fd, SOL_SOCKET, SO_ERROR, &err,
                               &bytes);
    return failed ? failed : -err;
}

/* A Unix listener whose backlog is full says -EAGAIN, and there is nothing to wait for. */
static int await_connected(struct hd_runtime *runtime, hd_io io, int fd, const hd_addr *addr,
                           int64_t deadline)
{
    int64_t pause_ns = HD_MS_NS;
    int err;
    while ((err = hdi_sys(runtime, connect, fd, raw(addr), addr->length)) == -EAGAIN) {
        err = back_off(io, &pause_ns, deadline);
        if (err) return err;
    }
    if (err != -EINPROGRESS) return err;
    return (int)hdi_source_do(io, true, try_finish, NULL, 0, deadline);
}

int hdi_socket_dial(hd_io *conn, const hd_addr *addr, const hd_addr *from, bool delayed,
                    int64_t deadline)
{
    struct hd_runtime *runtime = hdi_io_runtime();
    int err = runtime && addr->length > 0 ? hdi_wait_enter(deadline, NULL) : -EINVAL;
    if (err) return err;
    const int fd = hdi_socket_open(runtime, addr, SOCK_STREAM);
    if (fd < 0) return fd;
    hd_io io;
    err = hdi_source_create(runtime, fd, HDI_SOURCE_STREAM, &io);
    if (err) return err;
    hdi_source_of(io)->fast = addr->family != AF_UNIX;
    if (from) err = hdi_sys(runtime, bind, fd, raw(from), from->length);
    if (!err && !delayed && addr->family != AF_UNIX) {
        err = set_flag(runtime, fd, IPPROTO_TCP, TCP_NODELAY);
    }
    if (!err) err = await_connected(runtime, io, fd, addr, deadline);
    if (err) {
        (void)hd_close(io);
        return err;
    }
    *conn = io;
    return 0;
}

int hd_connect_until(hd_io *conn, const hd_addr *addr, int64_t deadline)
{
    return hdi_socket_dial(conn, addr, NULL, false, deadline);
}

int hd_connect(hd_io *conn, const hd_addr *addr)
{
    return hd_connect_until(conn, addr, HD_FOREVER);
}

/* ---- any socket: one call with the handle held ---- */

typedef int socket_fn(struct hd_runtime *runtime, int fd, void *arg);

static int with_socket(hd_io io, socket_fn *fn, void *arg)
{
    struct hdi_source *source = hdi_source_hold(io);
    if (!source) return -EBADF;
    const int err = fn(source->runtime, source->fd, arg);
    hdi_source_release(source);
    return err;
}

int hd_shutdown(hd_io io, int how)
{
    struct hdi_source *source = hdi_source_hold(io);
    if (!source) return -EBADF;
    hdi_lock_take(&source->out.waitable.lock);
    const int err = how == SHUT_RD ? hdi_sys(source->runtime, shutdown, source->fd, how)
                                   : hdi_lane_shut(source, how);
    hdi_lock_give(&source->out.waitable.lock);
    hdi_source_release(source);
    return err;
}

static int call_local(struct hd_runtime *runtime, int fd, void *arg)
{
    hd_addr *addr = arg;
    addr->length = sizeof(addr->bytes);
    return hdi_sys(runtime, getsockname, fd, raw(addr), &addr->length);
}

static int call_peer(struct hd_runtime *runtime, int fd, void *arg)
{
    hd_addr *addr = arg;
    addr->length = sizeof(addr->bytes);
    return hdi_sys(runtime, getpeername, fd, raw(addr), &addr->length);
}

int hd_local_addr(hd_io io, hd_addr *addr)
{
    hd_addr found = {0};
    const int err = with_socket(io, call_local, &found);
    if (!err) *addr = found;
    return err;
}

int hd_peer_addr(hd_io io, hd_addr *addr)
{
    hd_addr found = {0};
    const int err = with_socket(io, call_peer, &found);
    if (!err) *addr = found;
    return err;
}

struct option {
    int level, name;
    const void *value;
    void *out;
    socklen_t *bytes;
};

static int call_set(struct hd_runtime *runtime, int fd, void *arg)
{
    const struct option *o = arg;
    return hdi_sys(runtime, setsockopt, fd, o->level, o->name, o->value, *o->bytes);
}

static int call_get(struct hd_runtime *runtime, int fd, void *arg)
{
    const struct option *o = arg;
    return hdi_sys(runtime, getsockopt, fd, o->level, o->name, o->out, o->bytes);
}

int hd_set_option(hd_io io, int level, int name, const void *value, uint32_t bytes)
{
    struct option option = {.level = level, .name = name, .value = value, .bytes = &bytes};
    return with_socket(io, call_set, &option);
}

int hd_get_option(hd_io io, int level, int name, void *value, uint32_t *bytes)
{
    struct option option = {.level = level, .name = name, .out = value, .bytes = bytes};
    return with_socket(io, call_get, &option);
}

/* ---- datagrams ---- */

int hd_udp_open(hd_io *io, const char *place)
{
    struct hd_runtime *runtime = hdi_io_runtime();
    hd_addr addr;
    int err = runtime ? hd_addr_parse(&addr, place) : -EINVAL;
    if (err || addr.family == AF_UNIX) return err ? err : -EINVAL;
    const int fd = open_any(runtime, &addr, SOCK_DGRAM, place);
    if (fd < 0) return fd;
    if (addr.family == AF_INET6) {
        const int only = 0;
        err = hdi_sys(runtime, setsockopt, fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
    }
    if (!err) err = hdi_sys(runtime, bind, fd, raw(&addr), addr.length);
    if (err) {
        (void)hdi_sys(runtime, close, fd);
        return err;
    }
    return hdi_source_create(runtime, fd, HDI_SOURCE_DATAGRAM, io);
}

static int call_connect(struct hd_runtime *runtime, int fd, void *arg)
{
    const hd_addr *addr = arg;
    return hdi_sys(runtime, connect, fd, raw(addr), addr->length);
}

int hd_udp_connect(hd_io io, const hd_addr *addr)
{
    return with_socket(io, call_connect, (void *)addr);
}

struct datagram {
    struct iovec part;
    hd_addr *from;
    const hd_addr *to;
};

static ssize_t try_recv_from(struct hdi_source *source, void *arg)
{
    struct datagram *datagram = arg;
    hd_addr from = {0};
    if (source->fast) return -EINVAL; /* A stream, of which the next bytes may be in the lane. */
    struct msghdr message = {.msg_iov = &datagram->part, .msg_iovlen = 1, .msg_name = from.bytes,
                             .msg_namelen = sizeof(from.bytes)};
    const ssize_t n = hdi_sys(source->runtime, recvmsg, source->fd, &message, MSG_TRUNC);
    from.length = message.msg_namelen;
    if (n >= 0 && datagram->from) *datagram->from = from;
    return n;
}

static ssize_t try_send_to(struct hdi_source *source, void *arg)
{
    struct datagram *datagram = arg;
    const hd_addr *to = datagram->to;
    if (source->fast) return -EINVAL; /* A stream, of which earlier bytes may be in the lane. */
    const struct msghdr message = {.msg_iov = &datagram->part, .msg_iovlen = 1,
                                   .msg_name = to ? raw(to) : NULL,
                                   .msg_namelen = to ? to->length : 0};
    return hdi_sys(source->runtime, sendmsg, source->fd, &message, 0);
}

ssize_t hd_recv_from_until(hd_io io, void *buffer, size_t bytes, hd_addr *from, int64_t deadline)
{
    struct datagram datagram = {.part = {buffer, bytes}, .from = from};
    return hdi_source_do(io, false, try_recv_from, &datagram, 0, deadline);
}

ssize_t hd_recv_from(hd_io io, void *buffer, size_t bytes, hd_addr *from)
{
    return hd_recv_from_until(io, buffer, bytes, from, HD_FOREVER);
}

ssize_t hd_send_to_until(hd_io io, const void *buffer, size_t bytes, const hd_addr *to,
                         int64_t deadline)
{
    struct datagram datagram = {.part = {(void *)buffer, bytes}, .to = to};
    return hdi_source_do(io, true, try_send_to, &datagram, 0, deadline);
}

ssize_t hd_send_to(hd_io io, const void *buffer, size_t bytes, const hd_addr *to)
{
    return hd_send_to_until(io, buffer, bytes, to, HD_FOREVER);
}
