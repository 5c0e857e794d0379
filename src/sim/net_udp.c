/* SPDX-License-Identifier: MIT
 *
 * net_udp: datagrams: lost, doubled and overtaken on their way as the link says; dropped where
 * nobody has room. If nobody is there, a sender that is connected is told.
 */
#include <errno.h>

#include "sim/net.h"

static struct hdi_packet *packet_of(struct hdi_list *link)
{
    return (struct hdi_packet *)((char *)link - offsetof(struct hdi_packet, link));
}

static void arrive_unreachable(struct hdi_net *net, struct hdi_packet *packet)
{
    int err;
    struct hdi_sock *sock = hdi_sock_at(net, packet->fd, &err);
    if (sock && sock->serial == packet->serial && sock->state == HDI_SOCK_CONNECTED) {
        sock->error = ECONNREFUSED;
        hdi_sock_tell(net, sock, HDI_READY_IN | HDI_READY_OUT);
    }
    hdi_packet_free(net, packet);
}

/* Nobody is there: an answer goes back, if it gets there. */
static void send_unreachable(struct hdi_net *net, const struct hdi_packet *lost)
{
    struct hdi_packet *packet = hdi_packet_new(0);
    packet->from = lost->to;
    packet->to = lost->from;
    packet->by = lost->to->life;
    packet->fd = lost->fd;
    packet->serial = lost->serial;
    packet->number = lost->number;
    packet->arrive = arrive_unreachable;
    hdi_link_send_dgram(net, packet, lost->serial << 1 | 1, lost->number);
}

static void arrive_dgram(struct hdi_net *net, struct hdi_packet *packet)
{
    struct hdi_sock *sock =
        hdi_sock_find(net, packet->to, HDI_SOCK_UDP, &packet->target, &packet->source,
                      hdi_net_draw(net, HDI_PURPOSE_NET_LINK, packet->serial << 1, UINT64_MAX));
    if (!sock) {
        send_unreachable(net, packet);
    } else if (!sock->read_shut &&
               sock->queued_bytes + packet->bytes < sock->options.receive_buffer) {
        sock->queued_bytes += packet->bytes + 1; /* Empty ones take room too. */
        hdi_list_push_back(&sock->queue, &packet->link);
        hdi_sock_tell(net, sock, HDI_READY_IN);
        return;
    }
    hdi_packet_free(net, packet);
}

ssize_t hdi_udp_send(struct hdi_net *net, struct hdi_sock *sock, const struct hdi_place *target,
                     const struct iovec *parts, size_t count)
{
    const size_t bytes = hdi_parts_bytes(parts, count);
    if (bytes > HDI_NET_DGRAM_MAX) return -EMSGSIZE;
    struct hdi_place source;
    int err = hdi_sock_autobind(net, sock, target);
    if (!err) err = hdi_sock_source(sock, target, &source);
    if (err) return err;
    struct hd_sim_host *host = hdi_host_at(sock->life->host, target->ip);
    if (!host) return (ssize_t)bytes; /* It gets lost somewhere. */
    struct hdi_packet *packet = hdi_packet_new(bytes);
    packet->from = sock->life->host;
    packet->to = host;
    packet->by = sock->life;
    packet->arrive = arrive_dgram;
    packet->fd = hdi_container_of(sock->fds.next, struct hdi_fd, link)->number;
    packet->serial = sock->serial;
    packet->number = sock->calls++;
    packet->target = *target;
    packet->source = source;
    hdi_parts_copy(packet->data, parts, 0, bytes);
    hdi_link_send_dgram(net, packet, packet->serial << 1, packet->number);
    return (ssize_t)bytes;
}

ssize_t hdi_udp_recv(struct hdi_net *net, struct hdi_sock *sock, struct msghdr *message, int flags)
{
    struct hdi_list *link = sock->queue.next;
    struct hdi_packet *packet = packet_of(link);
    const size_t room = hdi_parts_bytes(message->msg_iov, message->msg_iovlen);
    const size_t whole = packet->bytes, bytes = whole < room ? whole : room;
    hdi_parts_fill(message->msg_iov, message->msg_iovlen, packet->data, bytes);
    if (message->msg_name) {
        hdi_place_write(&packet->source, sock->family, message->msg_name, &message->msg_namelen);
    }
    message->msg_flags = whole > room ? MSG_TRUNC : 0;
    message->msg_controllen = 0;
    if (!(flags & MSG_PEEK)) {
        sock->queued_bytes -= whole + 1;
        hdi_list_remove(link);
        hdi_packet_free(net, packet);
    }
    return (ssize_t)((flags & MSG_TRUNC) ? whole : bytes);
}

void hdi_udp_close(struct hdi_net *net, struct hdi_sock *sock)
{
    for (struct hdi_list *link; (link = hdi_list_pop_front(&sock->queue));) {
        hdi_packet_free(net, packet_of(link));
    }
}
