/* SPDX-License-Identifier: MIT
 *
 * net_socket: simulated sockets: their descriptors, places, and who finds them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/net.h"

#define PORT_FIRST 32768u /* ephemeral */
#define PORT_COUNT 28232u

/* ---- places ---- */

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool hdi_ip_v4(const uint8_t ip[16])
{
    return memcmp(ip, mapped, sizeof(mapped)) == 0;
}

bool hdi_ip_any(const uint8_t ip[16])
{
    static const uint8_t any[16];
    return hdi_ip_v4(ip) ? memcmp(ip + 12, any, 4) == 0 : memcmp(ip, any, 16) == 0;
}

bool hdi_ip_loopback(const uint8_t ip[16])
{
    static const uint8_t loopback[16] = {[15] = 1};
    return hdi_ip_v4(ip) ? ip[12] == 127 : memcmp(ip, loopback, 16) == 0;
}

int hdi_place_read(struct hdi_place *place, const struct sockaddr *addr, socklen_t bytes,
                   int family)
{
    if (bytes < sizeof(addr->sa_family)) return -EINVAL;
    if (addr->sa_family == AF_INET && family == AF_INET) {
        struct sockaddr_in in;
        if (bytes < sizeof(in)) return -EINVAL;
        memcpy(&in, addr, sizeof(in));
        memcpy(place->ip, mapped, sizeof(mapped));
        memcpy(place->ip + 12, &in.sin_addr, 4);
        place->port = ntohs(in.sin_port);
        return 0;
    }
    if (addr->sa_family != AF_INET6 || family != AF_INET6) return -EAFNOSUPPORT;
    struct sockaddr_in6 in;
    if (bytes < sizeof(in)) return -EINVAL;
    memcpy(&in, addr, sizeof(in));
    memcpy(place->ip, &in.sin6_addr, 16);
    place->port = ntohs(in.sin6_port);
    return 0;
}

void hdi_place_write(const struct hdi_place *place, int family, struct sockaddr *addr,
                     socklen_t *bytes)
{
    struct sockaddr_storage out = {.ss_family = (sa_family_t)family};
    socklen_t length = sizeof(struct sockaddr_in6);
    if (family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)&out;
        memcpy(&in->sin_addr, place->ip + 12, 4);
        in->sin_port = htons(place->port);
        length = sizeof(*in);
    } else {
        struct sockaddr_in6 *in = (struct sockaddr_in6 *)&out;
        memcpy(&in->sin6_addr, place->ip, 16);
        in->sin6_port = htons(place->port);
    }
    if (addr) memcpy(addr, &out, *bytes < length ? *bytes : length);
    *bytes = length;
}

/* ---- descriptors ---- */

struct hdi_sock *hdi_sock_new(struct hdi_net *net, enum hdi_sock_kind kind, int family,
                              struct hdi_life *life)
{
    struct hdi_sock *sock = hdi_net_alloc(sizeof(*sock));
    sock->kind = kind;
    sock->family = family;
    sock->serial = ++net->serial;
    sock->life = life;
    hdi_sock_options_init(&sock->options);
    if (family == AF_INET) memcpy(sock->local.ip, mapped, sizeof(mapped));
    hdi_list_init(&sock->link);
    hdi_list_init(&sock->queue);
    hdi_list_init(&sock->queue_link);
    hdi_list_init(&sock->fds);
    return sock;
}

int hdi_sock_number(struct hdi_net *net, struct hdi_sock *sock)
{
    unsigned at = net->fd_free;
    while (at < net->fd_room && net->fds[at]) at++;
    if (at == net->fd_room) {
        const unsigned room = at ? 2 * at : 64;
        struct hdi_fd **larger = hdi_net_alloc(room * sizeof(struct hdi_fd *));
        if (at) memcpy(larger, net->fds, at * sizeof(struct hdi_fd *));
        free(net->fds);
        net->fds = larger;
        net->fd_room = room;
    }
    struct hdi_fd *fd = hdi_net_alloc(sizeof(*fd));
    fd->sock = sock;
    fd->number = HDI_SIM_FD + (int)at;
    hdi_list_init(&fd->news_link);
    hdi_list_push_back(&sock->fds, &fd->link);
    net->fds[at] = fd;
    net->fd_free = at + 1;
    return fd->number;
}

struct hdi_fd *hdi_fd_at(struct hdi_net *net, int number)
{
    const unsigned at = (unsigned)(number - HDI_SIM_FD);
    return number >= HDI_SIM_FD && at < net->fd_room ? net->fds[at] : NULL;
}

struct hdi_sock *hdi_sock_at(struct hdi_net *net, int fd, int *err)
{
    const struct hdi_fd *found = hdi_fd_at(net, fd);
    *err = !found ? -EBADF : found->sock->life->dead ? -EHOSTDOWN : 0;
    return *err ? NULL : found->sock;
}

static struct hdi_sock *queued_sock(struct hdi_list *link)
{
    return (struct hdi_sock *)((char *)link - offsetof(struct hdi_sock, queue_link));
}

static void free_sock(struct hdi_net *net, struct hdi_sock *sock);

/* Nobody will accept those that wait. */
static void end_queue(struct hdi_net *net, struct hdi_sock *listener)
{
    for (struct hdi_list *link; (link = hdi_list_pop_front(&listener->queue));) {
        struct hdi_sock *sock = queued_sock(link);
        sock->options.linger = (struct linger){.l_onoff = 1};
        free_sock(net, sock);
    }
}

/* Context: it has no descriptor. */
static void free_sock(struct hdi_net *net, struct hdi_sock *sock)
{
    if (sock->state == HDI_SOCK_LISTENING) end_queue(net, sock);
    hdi_conn_close(net, sock);
    if (sock->kind == HDI_SOCK_UDP) hdi_udp_close(net, sock);
    if (sock->kind == HDI_SOCK_UNIX) hdi_unix_close(sock);
    hdi_list_remove(&sock->link);
    hdi_list_remove(&sock->queue_link);
    free(sock);
}

void hdi_fd_close(struct hdi_net *net, struct hdi_fd *fd)
{
    struct hdi_sock *sock = fd->sock;
    const unsigned at = (unsigned)(fd->number - HDI_SIM_FD);
    hdi_list_remove(&fd->link);
    hdi_list_remove(&fd->news_link);
    if (hdi_list_empty(&sock->fds)) free_sock(net, sock);
    net->fds[at] = NULL;
    if (at < net->fd_free) net->fd_free = at;
    free(fd);
}

void hdi_sock_enqueue(struct hdi_net *net, struct hdi_sock *listener, struct hdi_sock *sock)
{
    listener->queued++;
    hdi_list_push_back(&listener->queue, &sock->queue_link);
    hdi_sock_tell(net, listener, HDI_READY_IN);
}

struct hdi_sock *hdi_sock_dequeue(struct hdi_sock *listener)
{
    struct hdi_list *link = hdi_list_pop_front(&listener->queue);
    if (!link) return NULL;
    listener->queued--;
    return queued_sock(link);
}

/* ---- who has which port ---- */

static struct hdi_sock *bound_sock(struct hdi_list *link)
{
    return (struct hdi_sock *)((char *)link - offsetof(struct hdi_sock, link));
}

/* Whether a socket at this place gets what is sent to that address. */
static bool covers(const struct hdi_sock *sock, const uint8_t ip[16])
{
    const uint8_t *own = sock->local.ip;
    if (memcmp(own, ip, 16) == 0) return true;
    if (!hdi_ip_any(own)) return false;
    return hdi_ip_v4(own) ? hdi_ip_v4(ip) : !sock->options.v6_only || !hdi_ip_v4(ip);
}

static bool conflict(const struct hdi_sock *a, const struct hdi_sock *b)
{
    if (a->kind != b->kind || a->life != b->life || a->local.port != b->local.port) return false;
    if (!covers(a, b->local.ip) && !covers(b, a->local.ip)) return false;
    return !(a->options.reuse_port && b->options.reuse_port);
}

static bool port_taken(struct hdi_net *net, const struct hdi_sock *sock)
{
    for (struct hdi_list *link = net->bound.next; link != &net->bound; link = link->next) {
        if (conflict(bound_sock(link), sock)) return true;
    }
    return false;
}

/* The port asked for, or one that nobody has. */
static int take_port(struct hdi_net *net, struct hdi_sock *sock)
{
    struct hd_sim_host *host = sock->life->host;
    const bool chosen = sock->local.port != 0;
    for (unsigned i = 0; i < (chosen ? 1 : PORT_COUNT); i++) {
        if (!chosen) sock->local.port = (uint16_t)(PORT_FIRST + host->port_next++ % PORT_COUNT);
        if (port_taken(net, sock)) continue;
        sock->bound = true;
        return 0;
    }
    sock->local.port = 0;
    return -EADDRINUSE;
}

int hdi_sock_bind(struct hdi_net *net, struct hdi_sock *sock, const struct hdi_place *place)
{
    if (sock->bound) return -EINVAL;
    if (!hdi_ip_any(place->ip) && !hdi_host_has(sock->life->host, place->ip)) {
        return -EADDRNOTAVAIL;
    }
    const struct hdi_place before = sock->local;
    sock->local = *place;
    const int err = take_port(net, sock);
    if (err) {
        sock->local = before;
    } else {
        hdi_list_push_back(&net->bound, &sock->link);
    }
    return err;
}

/* The address that a host talks to another from. */
static int source_ip(const struct hd_sim_host *host, const uint8_t target[16], uint8_t ip[16])
{
    const bool v4 = hdi_ip_v4(target);
    unsigned i = 0;
    while (i < host->addr_count && hdi_ip_v4(host->addrs[i].ip) != v4) i++;
    if (!hdi_ip_loopback(target) && i == host->addr_count) return -ENETUNREACH;
    memcpy(ip, hdi_ip_loopback(target) ? target : host->addrs[i].ip, 16);
    return 0;
}

int hdi_sock_source(const struct hdi_sock *sock, const struct hdi_place *target,
                    struct hdi_place *source)
{
    *source = sock->local;
    if (!hdi_ip_any(source->ip)) return 0;
    return source_ip(sock->life->host, target->ip, source->ip);
}

int hdi_sock_autobind(struct hdi_net *net, struct hdi_sock *sock, const struct hdi_place *target)
{
    struct hdi_place source;
    const int err = hdi_sock_source(sock, target, &source);
    if (err) return err;
    if (sock->kind == HDI_SOCK_UDP) {
        const struct hdi_place any = sock->local;
        return sock->bound ? 0 : hdi_sock_bind(net, sock, &any);
    }
    sock->local = source;
    /* Nobody looks for it by its port: it is not listed. */
    return sock->bound ? 0 : take_port(net, sock);
}

static bool same_place(const struct hdi_place *a, const struct hdi_place *b)
{
    return a->port == b->port && memcmp(a->ip, b->ip, 16) == 0;
}

/* How well a socket fits: 0: not at all. */
static unsigned fitness(const struct hdi_sock *sock, const struct hd_sim_host *host,
                        enum hdi_sock_kind kind, const struct hdi_place *to,
                        const struct hdi_place *from)
{
    if (sock->kind != kind || sock->life != host->life || sock->local.port != to->port) return 0;
    if (!covers(sock, to->ip)) return 0;
    if (kind == HDI_SOCK_TCP) {
        if (sock->state != HDI_SOCK_LISTENING) return 0;
    } else if (sock->state == HDI_SOCK_CONNECTED) {
        return same_place(&sock->peer, from) ? 3 : 0;
    }
    return hdi_ip_any(sock->local.ip) ? 1 : 2;
}

struct hdi_sock *hdi_sock_find(struct hdi_net *net, struct hd_sim_host *host,
                               enum hdi_sock_kind kind, const struct hdi_place *to,
                               const struct hdi_place *from, uint64_t draw)
{
    struct hdi_sock *best = NULL;
    unsigned best_fit = 0, equals = 0;
    for (struct hdi_list *link = net->bound.next; link != &net->bound; link = link->next) {
        struct hdi_sock *sock = bound_sock(link);
        const unsigned fit = fitness(sock, host, kind, to, from);
        if (fit == 0 || fit < best_fit) continue;
        equals = fit > best_fit ? 1 : equals + 1;
        best_fit = fit;
        /* Of those that share a place each is as likely. */
        if (equals == 1 || hdi_mix64(draw + equals) % equals == 0) best = sock;
    }
    return best;
}

/* ---- readiness ---- */

static unsigned stream_ready(const struct hdi_sock *sock)
{
    if (sock->state == HDI_SOCK_CONNECTING) return 0;
    if (!sock->conn || sock->state == HDI_SOCK_BROKEN) {
        return HDI_READY_IN | HDI_READY_OUT | HDI_READY_HUNG;
    }
    const struct hdi_end *end = &sock->conn->ends[sock->end];
    const struct hdi_end *peer = &sock->conn->ends[1 - sock->end];
    unsigned ready = 0;
    if (end->in.count > 0) ready |= HDI_READY_IN;
    if (end->fin_in || sock->read_shut) ready |= HDI_READY_IN | HDI_READY_HUNG;
    if (hdi_conn_room(sock) > 0 || end->fin_out) ready |= HDI_READY_OUT;
    if (sock->conn->local && peer->state != HDI_END_OPEN) ready |= HDI_READY_OUT;
    return ready;
}

unsigned hdi_sock_ready(const struct hdi_sock *sock)
{
    if (sock->life->dead) return HDI_READY_IN | HDI_READY_OUT | HDI_READY_HUNG;
    if (sock->state == HDI_SOCK_LISTENING || sock->kind == HDI_SOCK_UDP) {
        const unsigned out = sock->kind == HDI_SOCK_UDP ? HDI_READY_OUT : 0;
        const bool in = !hdi_list_empty(&sock->queue) || sock->error || sock->read_shut;
        return out | (in ? HDI_READY_IN : 0);
    }
    return stream_ready(sock);
}
