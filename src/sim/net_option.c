/* SPDX-License-Identifier: MIT
 *
 * net_option: options of simulated sockets. Those without a meaning here are kept, so that who sets
 * one can read it: with the defaults, bounds and errors of Linux for who is not root. What differs:
 * times are kept to the microsecond, and IP_TOS leaves SO_PRIORITY as it is.
 */
#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <string.h>

#include "sim/net_calls.h"

/* ---- numbers that are kept ---- */

enum form {
    NUMBER,
    FLAG,  /* any number but 0 is 1 */
    CLASS, /* of traffic: a byte; TCP has its lower two bits to itself */
    TRIES, /* seconds, made those of a number of tries */
};

#define OWN  1u /* A connection has not that of its listener. */
#define BACK 2u /* -1: as at first */

#define ANY INT_MIN, INT_MAX

static const struct option {
    int level, name;
    enum form form;
    int first, least, most;
    unsigned flags;
} table[] = {
    {SOL_SOCKET, SO_REUSEADDR, FLAG, 0, ANY, 0},
    {SOL_SOCKET, SO_KEEPALIVE, FLAG, 0, ANY, 0},
    {SOL_SOCKET, SO_BROADCAST, FLAG, 0, ANY, 0},
    {SOL_SOCKET, SO_OOBINLINE, FLAG, 0, ANY, 0},
    {SOL_SOCKET, SO_DONTROUTE, FLAG, 0, ANY, 0},
    {SOL_SOCKET, SO_PRIORITY, NUMBER, 0, 0, 6, OWN},
    {IPPROTO_TCP, TCP_NODELAY, FLAG, 0, ANY, 0},
    {IPPROTO_TCP, TCP_CORK, FLAG, 0, ANY, 0},
    {IPPROTO_TCP, TCP_QUICKACK, FLAG, 1, ANY, OWN},
    {IPPROTO_TCP, TCP_KEEPIDLE, NUMBER, 7200, 1, 32767, 0},
    {IPPROTO_TCP, TCP_KEEPINTVL, NUMBER, 75, 1, 32767, 0},
    {IPPROTO_TCP, TCP_KEEPCNT, NUMBER, 9, 1, 127, 0},
    {IPPROTO_TCP, TCP_SYNCNT, NUMBER, 6, 1, 127, 0},
    {IPPROTO_TCP, TCP_USER_TIMEOUT, NUMBER, 0, 0, INT_MAX, 0},
    {IPPROTO_TCP, TCP_NOTSENT_LOWAT, NUMBER, 0, ANY, 0},
    {IPPROTO_TCP, TCP_DEFER_ACCEPT, TRIES, 0, ANY, 0},
    {IPPROTO_IP, IP_TOS, CLASS, 0, ANY, 0},
    {IPPROTO_IP, IP_TTL, NUMBER, 64, 1, 255, BACK},
    {IPPROTO_IPV6, IPV6_TCLASS, CLASS, 0, 0, 255, BACK},
};

_Static_assert(sizeof(table) / sizeof(table[0]) == HDI_SOCK_KEPT, "each has its place");

void hdi_sock_options_init(struct hdi_sock_options *options)
{
    *options = (struct hdi_sock_options){.receive_buffer = HDI_NET_WINDOW};
    for (unsigned i = 0; i < HDI_SOCK_KEPT; i++) options->kept[i] = table[i].first;
}

void hdi_sock_options_inherit(struct hdi_sock *sock, const struct hdi_sock *listener)
{
    sock->options = listener->options;
    for (unsigned i = 0; i < HDI_SOCK_KEPT; i++) {
        if (table[i].flags & OWN) sock->options.kept[i] = table[i].first;
    }
}

/* Where in the table it is; HDI_SOCK_KEPT: nowhere. */
static unsigned find(int level, int name)
{
    unsigned i = 0;
    while (i < HDI_SOCK_KEPT && (table[i].level != level || table[i].name != name)) i++;
    return i;
}

/* Each try takes twice as long as the last, up to two minutes. */
static int seconds_of_tries(int seconds)
{
    enum { TRIES_MAX = 255, LONGEST = 120 };
    int sum = 0;
    for (int i = 0, period = 1; i < TRIES_MAX && sum < seconds; i++) {
        sum += period;
        period = 2 * period < LONGEST ? 2 * period : LONGEST;
    }
    return sum;
}

static int set_kept(struct hdi_sock *sock, unsigned at, int number)
{
    const struct option *option = &table[at];
    if (number == -1 && (option->flags & BACK)) number = option->first;
    if (number < option->least || number > option->most) {
        return option->level == SOL_SOCKET ? -EPERM : -EINVAL; /* SO_PRIORITY */
    }
    switch (option->form) {
    case NUMBER: break;
    case FLAG: number = number != 0; break;
    case CLASS: number &= sock->kind == HDI_SOCK_TCP ? 0xfc : 0xff; break;
    case TRIES: number = seconds_of_tries(number); break;
    }
    sock->options.kept[at] = number;
    return 0;
}

/* ---- structures ---- */

static int set_linger(struct hdi_sock *sock, const void *value, socklen_t bytes)
{
    struct linger linger, *own = &sock->options.linger;
    if (bytes < sizeof(linger)) return -EINVAL;
    memcpy(&linger, value, sizeof(linger));
    own->l_onoff = linger.l_onoff != 0;
    if (own->l_onoff) own->l_linger = linger.l_linger;
    return 0;
}

static int set_time(struct timeval *own, const void *value, socklen_t bytes)
{
    struct timeval time;
    if (bytes < sizeof(time)) return -EINVAL;
    memcpy(&time, value, sizeof(time));
    if (time.tv_usec < 0 || time.tv_usec >= 1000000) return -EDOM;
    *own = time.tv_sec < 0 ? (struct timeval){0} : time;
    return 0;
}

/* ---- calls ---- */

/* Whether such a socket has options of that level. */
static bool has_level(const struct hdi_sock *sock, int level)
{
    switch (level) {
    case SOL_SOCKET: return true;
    case IPPROTO_TCP: return sock->kind == HDI_SOCK_TCP;
    case IPPROTO_UDP: return sock->kind == HDI_SOCK_UDP;
    case IPPROTO_IP: return sock->family != AF_UNIX;
    case IPPROTO_IPV6: return sock->family == AF_INET6;
    default: return false;
    }
}

/* As Linux does, which doubles it. */
static int buffer_bytes(int asked)
{
    enum { LEAST = 2048, MOST = 1 << 28 };
    if (asked < LEAST / 2) return LEAST;
    return 2 * (asked < MOST ? asked : MOST);
}

/* Those that mean something. */
static int set_number(struct hdi_net *net, struct hdi_sock *sock, int level, int name, int number)
{
    if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY) {
        sock->options.v6_only = number != 0;
    } else if (level == SOL_SOCKET && name == SO_REUSEPORT) {
        sock->options.reuse_port = number != 0;
    } else if (level == SOL_SOCKET && name == SO_RCVBUF) {
        hdi_conn_window(net, sock, (size_t)buffer_bytes(number));
    } else if (level == SOL_SOCKET && name == SO_SNDBUF) {
        sock->options.send_buffer = buffer_bytes(number);
    } else {
        return -ENOPROTOOPT;
    }
    return 0;
}

int hdi_sock_set(struct hdi_net *net, struct hdi_sock *sock, int level, int name,
                 const void *value, socklen_t bytes)
{
    if (!has_level(sock, level)) return sock->family == AF_UNIX ? -EOPNOTSUPP : -ENOPROTOOPT;
    if (level == SOL_SOCKET) {
        struct timeval *times = sock->options.times;
        if (name == SO_LINGER) return set_linger(sock, value, bytes);
        if (name == SO_RCVTIMEO) return set_time(&times[0], value, bytes);
        if (name == SO_SNDTIMEO) return set_time(&times[1], value, bytes);
    }
    int number = 0;
    if (level == IPPROTO_IP && bytes < sizeof(number)) {
        number = bytes ? *(const unsigned char *)value : 0; /* These may be a byte, or nothing. */
    } else if (bytes < sizeof(number)) {
        return -EINVAL;
    } else {
        memcpy(&number, value, sizeof(number));
    }
    const unsigned at = find(level, name);
    if (at < HDI_SOCK_KEPT) return set_kept(sock, at, number);
    return set_number(net, sock, level, name, number);
}

static int protocol_of(const struct hdi_sock *sock)
{
    if (sock->family == AF_UNIX) return 0;
    return sock->kind == HDI_SOCK_TCP ? IPPROTO_TCP : IPPROTO_UDP;
}

static int get_number(struct hdi_sock *sock, int level, int name, int *number)
{
    const struct hdi_sock_options *options = &sock->options;
    const unsigned at = find(level, name);
    if (at < HDI_SOCK_KEPT) {
        *number = options->kept[at];
        return 0;
    }
    if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY) {
        *number = options->v6_only;
        return 0;
    }
    if (level != SOL_SOCKET) return -ENOPROTOOPT;
    switch (name) {
    case SO_ERROR: *number = -hdi_sock_take_error(sock); return 0;
    case SO_TYPE: *number = sock->kind == HDI_SOCK_UDP ? SOCK_DGRAM : SOCK_STREAM; return 0;
    case SO_DOMAIN: *number = sock->family; return 0;
    case SO_PROTOCOL: *number = protocol_of(sock); return 0;
    case SO_ACCEPTCONN: *number = sock->state == HDI_SOCK_LISTENING; return 0;
    case SO_REUSEPORT: *number = options->reuse_port; return 0;
    case SO_RCVBUF: *number = (int)options->receive_buffer; return 0;
    case SO_SNDBUF:
        *number = options->send_buffer ? options->send_buffer : (int)HDI_NET_WINDOW;
        return 0;
    default: return -ENOPROTOOPT;
    }
}

/* As much of it as there is room for. */
static int give(const void *what, size_t length, void *value, socklen_t *bytes)
{
    if (*bytes > length) *bytes = (socklen_t)length;
    memcpy(value, what, *bytes);
    return 0;
}

int hdi_sock_get(struct hdi_sock *sock, int level, int name, void *value, socklen_t *bytes)
{
    if (!has_level(sock, level)) return -EOPNOTSUPP;
    if (level == SOL_SOCKET) {
        const struct timeval *times = sock->options.times;
        const struct linger *linger = &sock->options.linger;
        if (name == SO_LINGER) return give(linger, sizeof(*linger), value, bytes);
        if (name == SO_RCVTIMEO) return give(&times[0], sizeof(times[0]), value, bytes);
        if (name == SO_SNDTIMEO) return give(&times[1], sizeof(times[1]), value, bytes);
    }
    int number = 0;
    const int err = get_number(sock, level, name, &number);
    if (err) return err;
    if (level == IPPROTO_IP && *bytes < sizeof(number)) {
        const unsigned char byte = (unsigned char)number;
        return give(&byte, sizeof(byte), value, bytes);
    }
    return give(&number, sizeof(number), value, bytes);
}
