/* SPDX-License-Identifier: MIT
 *
 * net_option: options of simulated sockets. Those without a meaning here are kept, so that who sets
 * one can read it.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>

#include "sim/net_calls.h"

/* Where a flag is kept; NULL: it is none. */
static bool *flag_of(struct hdi_sock *sock, int level, int name)
{
    if (level == SOL_SOCKET) {
        switch (name) {
        case SO_REUSEADDR: return &sock->reuse_addr;
        case SO_REUSEPORT: return &sock->reuse_port;
        case SO_KEEPALIVE: return &sock->keep_alive;
        case SO_BROADCAST: return &sock->broadcast;
        default: return NULL;
        }
    }
    if (level == IPPROTO_TCP && name == TCP_NODELAY && sock->kind == HDI_SOCK_TCP) {
        return &sock->no_delay;
    }
    if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY && sock->family == AF_INET6) {
        return &sock->v6_only;
    }
    return NULL;
}

static int set_linger(struct hdi_sock *sock, const void *value, socklen_t bytes)
{
    struct linger linger;
    if (bytes < sizeof(linger)) return -EINVAL;
    memcpy(&linger, value, sizeof(linger));
    sock->linger_reset = linger.l_onoff && linger.l_linger == 0;
    return 0;
}

/* As Linux does, which doubles it. */
static int buffer_bytes(int asked)
{
    enum { LEAST = 2048, MOST = 1 << 28 };
    if (asked < LEAST / 2) return LEAST;
    return 2 * (asked < MOST ? asked : MOST);
}

int hdi_sock_set(struct hdi_net *net, struct hdi_sock *sock, int level, int name,
                 const void *value, socklen_t bytes)
{
    if (level == SOL_SOCKET && name == SO_LINGER) return set_linger(sock, value, bytes);
    int number;
    if (bytes < sizeof(number)) return -EINVAL;
    memcpy(&number, value, sizeof(number));
    bool *flag = flag_of(sock, level, name);
    if (flag) {
        *flag = number != 0;
    } else if (level == SOL_SOCKET && name == SO_RCVBUF) {
        hdi_conn_window(net, sock, (size_t)buffer_bytes(number));
    } else if (level == SOL_SOCKET && name == SO_SNDBUF) {
        sock->send_buffer = buffer_bytes(number);
    } else {
        return -ENOPROTOOPT;
    }
    return 0;
}

static int get_number(struct hdi_sock *sock, int level, int name, int *number)
{
    const bool *flag = flag_of(sock, level, name);
    if (flag) {
        *number = *flag;
        return 0;
    }
    if (level != SOL_SOCKET) return -ENOPROTOOPT;
    switch (name) {
    case SO_ERROR: *number = -hdi_sock_take_error(sock); return 0;
    case SO_TYPE: *number = sock->kind == HDI_SOCK_UDP ? SOCK_DGRAM : SOCK_STREAM; return 0;
    case SO_DOMAIN: *number = sock->family; return 0;
    case SO_ACCEPTCONN: *number = sock->state == HDI_SOCK_LISTENING; return 0;
    case SO_RCVBUF: *number = (int)sock->receive_buffer; return 0;
    case SO_SNDBUF:
        *number = sock->send_buffer ? sock->send_buffer : (int)HDI_NET_WINDOW;
        return 0;
    default: return -ENOPROTOOPT;
    }
}

int hdi_sock_get(struct hdi_sock *sock, int level, int name, void *value, socklen_t *bytes)
{
    int number = 0;
    const int err = get_number(sock, level, name, &number);
    if (err) return err;
    const socklen_t length = *bytes < sizeof(number) ? *bytes : sizeof(number);
    memcpy(value, &number, length);
    *bytes = length;
    return 0;
}
