/* SPDX-License-Identifier: MIT
 *
 * net: addresses, names, and sockets: TCP, UDP and Unix.
 *
 *   hd_io listener, conn;
 *   err = hd_tcp_listen(&listener, "127.0.0.1:8080", NULL);
 *   while ((err = hd_accept(listener, &conn, NULL)) == 0) ...
 *
 *   err = hd_tcp_connect(&conn, "example.org:80", NULL);
 *
 * What a socket then does is in heddle/io.h. Closing, stale handles and contexts are as there.
 *
 * A place is written "ADDRESS:PORT", "[ADDRESS]:PORT" for IPv6, or ":PORT" for any address; where
 * names are resolved, "NAME:PORT". Port 0 lets the system choose. Bad ones are -EINVAL.
 */
#ifndef HEDDLE_NET_H
#define HEDDLE_NET_H

#include <heddle/io.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- addresses ---- */

/* An address of any family, as the system has it: `length` bytes of a sockaddr. */
typedef struct hd_addr {
    uint32_t length; /* 0: none */
    union {
        uint16_t family; /* AF_INET, AF_INET6 or AF_UNIX of <sys/socket.h> */
        uint64_t bytes[14]; /* a sockaddr_in, sockaddr_in6 or sockaddr_un */
    };
} hd_addr;

#define HD_ADDR_TEXT_MAX 128 /* bytes of any address as a text, with its 0 */

/* Read a place, without a name; "unix:PATH" or "unix:@NAME" (abstract) is one too.
 * Context: any.  Switches: no.  Allocates: no.  Returns: 0, -EINVAL. */
HD_API HD_MUST_USE int hd_addr_parse(hd_addr *addr, const char *place);

/* Write it as hd_addr_parse() reads it. Returns `text`.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API char *hd_addr_format(const hd_addr *addr, char text[HD_ADDR_TEXT_MAX]);

/* The port, of an IP address; -EINVAL for others. */
HD_API int hd_addr_port(const hd_addr *addr);

/* Resolve a name, or an address as text, to at most `max` addresses with this port, in the order
 * to be tried. In live the system's resolver is asked, by a thread that may block; in sim the
 * names given by hd_sim_name().
 * Context: fiber or thread; an address as text: any.  Switches: yes.  Allocates: yes.
 * Cancel: returns at once; the resolver's answer is thrown away. So with a deadline; but a plain
 * thread in live blocks.
 * Returns: how many, at least 1; -ENOENT if there is no such name, -EAGAIN if the resolver failed
 * for the moment, and with HD_NOW, -ECANCELED, -ETIMEDOUT, -EINVAL, -ENOMEM, -ESHUTDOWN. */
HD_API HD_MUST_USE int hd_resolve(const char *name, unsigned port, hd_addr *addrs, size_t max);
HD_API HD_MUST_USE int hd_resolve_until(const char *name, unsigned port, hd_addr *addrs,
                                        size_t max, int64_t deadline);

/* ---- TCP ---- */

/* Every field left 0 takes its default. */
typedef struct hd_listen_options {
    size_t size;
    int backlog;      /* connections that wait to be accepted; default: the system's most */
    bool reuse_port;  /* SO_REUSEPORT: several listeners share the place */
    bool ipv6_only;   /* "[::]:PORT" does not take IPv4 too */
    bool delayed;     /* leave Nagle's algorithm on; otherwise what is accepted is TCP_NODELAY */
} hd_listen_options;

#ifdef __cplusplus
#define HD_LISTEN_OPTIONS_INIT                                                           \
    ([] {                                                                                \
        hd_listen_options o = hd_listen_options();                                       \
        o.size = sizeof(o);                                                              \
        return o;                                                                        \
    }())
#else
#define HD_LISTEN_OPTIONS_INIT {.size = sizeof(hd_listen_options)}
#endif

/* Listen. SO_REUSEADDR is set.
 * Context: fiber or stackless task.  Switches: no.  Allocates: cached.
 * Returns: 0, -EADDRINUSE, -EACCES, -EMFILE, -ENOMEM, -EINVAL (a bad place, or no runtime). */
HD_API HD_MUST_USE int hd_tcp_listen(hd_io *listener, const char *place,
                                     const hd_listen_options *options);

/* Wait for a connection; *from (may be NULL) is who connects. Connections that were aborted before
 * are passed over. With no descriptor left (-EMFILE, -ENFILE, -ENOBUFS, -ENOMEM) it is tried again
 * for a while, ever more slowly, up to a second apart, and for ever by a caller without a deadline:
 * others may close some.
 * Context: fiber or thread; with HD_NOW any.  Switches: yes.  Allocates: cached.
 * Cancel: no connection was taken.
 * Returns: 0, -ECANCELED, -ETIMEDOUT, -EAGAIN with HD_NOW, ... */
HD_API HD_MUST_USE int hd_accept(hd_io listener, hd_io *conn, hd_addr *from);
HD_API HD_MUST_USE int hd_accept_until(hd_io listener, hd_io *conn, hd_addr *from,
                                       int64_t deadline);

typedef struct hd_connect_options {
    size_t size;
    const char *from;       /* a place to connect from, whose family is the only one then tried;
                             * default: the system chooses */
    int64_t attempt_ns;     /* by name: the next address is tried beside after so long;
                             * default 250 ms (RFC 8305) */
    bool delayed;           /* leave Nagle's algorithm on */
} hd_connect_options;

#ifdef __cplusplus
#define HD_CONNECT_OPTIONS_INIT                                                          \
    ([] {                                                                                \
        hd_connect_options o = hd_connect_options();                                     \
        o.size = sizeof(o);                                                              \
        return o;                                                                        \
    }())
#else
#define HD_CONNECT_OPTIONS_INIT {.size = sizeof(hd_connect_options)}
#endif

/* Connect to a place, which may be a name: its addresses, 16 at most, are tried, IPv6 and IPv4 by
 * turns, each a little after the one before, or as soon as one has failed, and the first that
 * answers is it. ":PORT" is this machine. The port is not 0.
 * Context: fiber or thread in sim; fiber in live.  Switches: yes.  Allocates: yes.
 * Cancel: there is no connection.
 * Returns: 0; what the last attempt said: -ECONNREFUSED, -EHOSTUNREACH, ...; -EADDRNOTAVAIL if the
 * place has no address of the family of `from`; as hd_resolve(). */
HD_API HD_MUST_USE int hd_tcp_connect(hd_io *conn, const char *place,
                                      const hd_connect_options *options);
HD_API HD_MUST_USE int hd_tcp_connect_until(hd_io *conn, const char *place,
                                            const hd_connect_options *options, int64_t deadline);

/* Connect a TCP or Unix stream socket to one address.
 * Context: fiber or thread in sim; fiber in live.  Switches: yes.  Allocates: cached.
 * Returns: 0, -ECONNREFUSED, ..., -EINVAL without a runtime. */
HD_API HD_MUST_USE int hd_connect(hd_io *conn, const hd_addr *addr);
HD_API HD_MUST_USE int hd_connect_until(hd_io *conn, const hd_addr *addr, int64_t deadline);

/* ---- any socket ---- */

/* Say that no more will be sent (SHUT_WR: the other side reads to the end), or read (SHUT_RD), or
 * both (SHUT_RDWR, as of <sys/socket.h>). What was written is sent before the other side sees the
 * end; reading ends at once. The handle is still to be closed.
 * Context: any.  Switches: no.  Allocates: no.
 * Returns: 0, -ENOTCONN; an error of what was written before: -EPIPE, -ECONNRESET, ... */
HD_API int hd_shutdown(hd_io io, int how);

/* Our address, and the other side's.
 * Context: any.  Switches: no.  Allocates: no.  Returns: 0, -ENOTCONN, -ENOTSOCK. */
HD_API HD_MUST_USE int hd_local_addr(hd_io io, hd_addr *addr);
HD_API HD_MUST_USE int hd_peer_addr(hd_io io, hd_addr *addr);

/* setsockopt(2) and getsockopt(2).
 * Context: any.  Switches: no.  Allocates: no.  Returns: 0, -ENOPROTOOPT, ... */
HD_API int hd_set_option(hd_io io, int level, int name, const void *value, uint32_t bytes);
HD_API int hd_get_option(hd_io io, int level, int name, void *value, uint32_t *bytes);

/* ---- UDP ---- */

/* A socket at a place; ":0" for one that only sends first.
 * Context: fiber or stackless task.  Switches: no.  Allocates: cached.
 * Returns: as hd_tcp_listen(). */
HD_API HD_MUST_USE int hd_udp_open(hd_io *io, const char *place);

/* From then on hd_read() and hd_write() move whole datagrams from and to this address.
 * Context: any.  Switches: no.  Allocates: no.  Returns: 0, ... */
HD_API HD_MUST_USE int hd_udp_connect(hd_io io, const hd_addr *addr);

/* Receive one datagram; *from (may be NULL) is who sent it. What does not fit is lost, and the
 * result then says how long it was.
 * Context: fiber or thread; with HD_NOW any.  Switches: yes.  Allocates: no.
 * Returns: its bytes, 0 or more; -ECANCELED, -ETIMEDOUT, -EAGAIN with HD_NOW, -ECONNREFUSED;
 * -EINVAL for a TCP connection. */
HD_API HD_MUST_USE ssize_t hd_recv_from(hd_io io, void *buffer, size_t bytes, hd_addr *from);
HD_API HD_MUST_USE ssize_t hd_recv_from_until(hd_io io, void *buffer, size_t bytes, hd_addr *from,
                                              int64_t deadline);

/* Send one datagram.
 * Context: fiber or thread; with HD_NOW any.  Switches: if there is no room.  Allocates: no.
 * Returns: its bytes; -EMSGSIZE, -ECANCELED, -ETIMEDOUT, -EAGAIN with HD_NOW, ...; -EINVAL for a
 * TCP connection. */
HD_API HD_MUST_USE ssize_t hd_send_to(hd_io io, const void *buffer, size_t bytes,
                                      const hd_addr *to);
HD_API HD_MUST_USE ssize_t hd_send_to_until(hd_io io, const void *buffer, size_t bytes,
                                            const hd_addr *to, int64_t deadline);

/* ---- Unix sockets: stream sockets of this machine; the place is a path, or "@NAME" ---- */

/* Context: fiber or stackless task.  Switches: no.  Allocates: cached.
 * Returns: 0, -EADDRINUSE, -ENAMETOOLONG, ... A path is not removed by closing. */
HD_API HD_MUST_USE int hd_unix_listen(hd_io *listener, const char *path,
                                      const hd_listen_options *options);
HD_API HD_MUST_USE int hd_unix_connect(hd_io *conn, const char *path);
HD_API HD_MUST_USE int hd_unix_connect_until(hd_io *conn, const char *path, int64_t deadline);

/* Two that are connected to each other. */
HD_API HD_MUST_USE int hd_unix_pair(hd_io ends[2]);

#define HD_FDS_MAX 32 /* descriptors in one message */

/* Write at least one byte, and have the other side receive copies of these descriptors with it.
 * Context: fiber or thread; with HD_NOW any.  Switches: if there is no room.  Allocates: no.
 * Cancel: nothing was written, and no descriptor passed.
 * Returns: how many bytes; as hd_write(); -EINVAL over HD_FDS_MAX, and for a TCP connection; in sim
 * -EBADF for descriptors of the system. */
HD_API HD_MUST_USE ssize_t hd_send_fds(hd_io io, const void *buffer, size_t bytes, const int *fds,
                                       unsigned count);
HD_API HD_MUST_USE ssize_t hd_send_fds_until(hd_io io, const void *buffer, size_t bytes,
                                             const int *fds, unsigned count, int64_t deadline);

/* Read, with the descriptors that came with it: at most *count, which then says how many. They are
 * the caller's, close-on-exec; hd_io_adopt() makes handles of them. More than that are closed.
 * Context: fiber or thread; with HD_NOW any.  Switches: yes, if there is nothing.  Allocates: no.
 * Cancel: nothing was read, and no descriptor taken.
 * Returns: as hd_read(); -EINVAL for a TCP connection. */
HD_API HD_MUST_USE ssize_t hd_recv_fds(hd_io io, void *buffer, size_t bytes, int *fds,
                                       unsigned *count);
HD_API HD_MUST_USE ssize_t hd_recv_fds_until(hd_io io, void *buffer, size_t bytes, int *fds,
                                             unsigned *count, int64_t deadline);

#ifdef __cplusplus
}
#endif
#endif
