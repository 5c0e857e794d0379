/* SPDX-License-Identifier: MIT
 *
 * net_calls: moving bytes in and out of simulated sockets and pipes.
 *
 * As in life a call may move fewer bytes than it could, and a task be told of what is not there.
 * Both are drawn for each call, from a stream of the socket's own. After a short one, readiness
 * is told again: who was told once has a right to find all of it.
 */
#include "sim/net_calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- bytes ---- */

static void grow(struct hdi_bytes *bytes, size_t need)
{
    size_t room = bytes->room ? bytes->room : 256;
    while (room < need) room *= 2;
    char *data = hdi_net_alloc(room);
    if (bytes->count) {
        const size_t tail = bytes->room - bytes->first; /* up to the end of the ring */
        const size_t first = bytes->count < tail ? bytes->count : tail;
        memcpy(data, bytes->data + bytes->first, first);
        memcpy(data + first, bytes->data, bytes->count - first);
    }
    free(bytes->data);
    *bytes = (struct hdi_bytes){.data = data, .count = bytes->count, .room = room};
}

void hdi_bytes_put(struct hdi_bytes *bytes, const void *data, size_t count)
{
    if (count == 0) return;
    if (bytes->count + count > bytes->room) grow(bytes, bytes->count + count);
    const size_t at = (bytes->first + bytes->count) & (bytes->room - 1); /* a power of two */
    const size_t tail = bytes->room - at, first = count < tail ? count : tail;
    memcpy(bytes->data + at, data, first);
    memcpy(bytes->data, (const char *)data + first, count - first);
    bytes->count += count;
}

/* Copy so many out, after those that are skipped. */
static void peek(const struct hdi_bytes *bytes, size_t skipped, char *out, size_t count)
{
    const size_t at = (bytes->first + skipped) & (bytes->room - 1);
    const size_t tail = bytes->room - at, first = count < tail ? count : tail;
    memcpy(out, bytes->data + at, first);
    memcpy(out + first, bytes->data, count - first);
}

static void skip(struct hdi_bytes *bytes, size_t count)
{
    bytes->first = (bytes->first + count) & (bytes->room - 1);
    bytes->count -= count;
    if (bytes->count > 0) return;
    free(bytes->data); /* Idle connections are many. */
    *bytes = (struct hdi_bytes){0};
}

/* ---- parts ---- */

size_t hdi_parts_bytes(const struct iovec *parts, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += parts[i].iov_len;
    return bytes;
}

void hdi_parts_fill(const struct iovec *parts, size_t count, const void *data, size_t bytes)
{
    size_t done = 0;
    for (size_t i = 0; i < count && done < bytes; i++) {
        const size_t left = bytes - done, n = parts[i].iov_len < left ? parts[i].iov_len : left;
        if (n) memcpy(parts[i].iov_base, (const char *)data + done, n);
        done += n;
    }
}

void hdi_parts_copy(void *data, const struct iovec *parts, size_t skipped, size_t bytes)
{
    for (size_t done = 0; done < bytes; parts++) {
        if (skipped >= parts->iov_len) {
            skipped -= parts->iov_len;
            continue;
        }
        const size_t left = bytes - done, has = parts->iov_len - skipped;
        const size_t n = has < left ? has : left;
        memcpy((char *)data + done, (const char *)parts->iov_base + skipped, n);
        skipped = 0;
        done += n;
    }
}

/* ---- what goes wrong ---- */

/* How much of what could be moved is. */
static size_t shorten(struct hdi_net *net, struct hdi_sock *sock, size_t bytes)
{
    if (bytes <= 1) return bytes;
    const uint64_t n = 2 * sock->calls++;
    const uint64_t draw = hdi_net_draw(net, HDI_PURPOSE_NET_CALL, sock->serial, n);
    if (!hdi_net_strikes(net, draw, net->short_ppm, "short transfer")) return bytes;
    return 1 + (size_t)(hdi_net_draw(net, HDI_PURPOSE_NET_CALL, sock->serial, n + 1) %
                        (bytes - 1));
}

/* It would have to wait; perhaps it is told to try again at once. */
static int again(struct hdi_net *net, struct hdi_sock *sock, unsigned ready)
{
    const uint64_t draw =
        hdi_net_draw(net, HDI_PURPOSE_NET_CALL, sock->serial, 2 * sock->calls++);
    if (hdi_net_strikes(net, draw, net->spurious_ppm, "spurious readiness")) {
        hdi_sock_tell(net, sock, ready);
    }
    return -EAGAIN;
}

int hdi_sock_take_error(struct hdi_sock *sock)
{
    const int error = sock->error;
    sock->error = 0;
    return -error;
}

/* ---- streams ---- */

static void fill(struct hdi_bytes *in, const struct iovec *parts, size_t bytes)
{
    for (size_t done = 0; done < bytes; parts++) {
        const size_t left = bytes - done, n = parts->iov_len < left ? parts->iov_len : left;
        if (n) peek(in, done, parts->iov_base, n);
        done += n;
    }
}

/* Nothing is there: why not. */
static ssize_t read_nothing(struct hdi_net *net, struct hdi_sock *sock, const struct hdi_end *end)
{
    if (sock->error) return hdi_sock_take_error(sock);
    if (end->fin_in || sock->read_shut || sock->state == HDI_SOCK_BROKEN) return 0;
    return again(net, sock, HDI_READY_IN);
}

ssize_t hdi_stream_read(struct hdi_net *net, struct hdi_sock *sock, const struct iovec *parts,
                        size_t count, int flags)
{
    if (sock->state == HDI_SOCK_FRESH || sock->state == HDI_SOCK_LISTENING) return -ENOTCONN;
    if (sock->state == HDI_SOCK_CONNECTING) return again(net, sock, HDI_READY_IN);
    struct hdi_end *end = &sock->conn->ends[sock->end];
    const size_t wanted = hdi_parts_bytes(parts, count);
    if (wanted == 0) return 0;
    if (end->in.count == 0) return read_nothing(net, sock, end);
    const size_t there = end->in.count < wanted ? end->in.count : wanted;
    const size_t bytes = shorten(net, sock, hdi_unix_until_passed(end, there));
    fill(&end->in, parts, bytes);
    if (flags & MSG_PEEK) return (ssize_t)bytes;
    skip(&end->in, bytes);
    if (end->in.count > 0) hdi_sock_tell(net, sock, HDI_READY_IN);
    hdi_conn_consumed(net, sock, bytes);
    return (ssize_t)bytes;
}

static int may_write(struct hdi_net *net, struct hdi_sock *sock)
{
    if (sock->error) return hdi_sock_take_error(sock);
    if (sock->state == HDI_SOCK_CONNECTING) return again(net, sock, HDI_READY_OUT);
    if (sock->state == HDI_SOCK_FRESH) return sock->kind == HDI_SOCK_UNIX ? -ENOTCONN : -EPIPE;
    if (sock->state != HDI_SOCK_CONNECTED) return -EPIPE;
    const struct hdi_end *end = &sock->conn->ends[sock->end];
    const struct hdi_end *peer = &sock->conn->ends[1 - sock->end];
    if (end->fin_out) return -EPIPE;
    return sock->conn->local && peer->state != HDI_END_OPEN ? -EPIPE : 0;
}

/* Every segment is an event: a sender waits for room there, too. */
static size_t room_to_send(struct hdi_net *net, const struct hdi_sock *sock)
{
    const size_t room = hdi_conn_room(sock), segments = hdi_events_room(&net->events);
    if (sock->conn->local || room / HDI_NET_SEGMENT < segments) return room;
    net->starved = true;
    return segments * HDI_NET_SEGMENT < room ? segments * HDI_NET_SEGMENT : room;
}

ssize_t hdi_stream_write(struct hdi_net *net, struct hdi_sock *sock, const struct iovec *parts,
                         size_t count)
{
    const int err = may_write(net, sock);
    if (err) return err;
    const size_t wanted = hdi_parts_bytes(parts, count), room = room_to_send(net, sock);
    if (wanted == 0) return 0;
    if (room == 0) {
        sock->want_out = true;
        return again(net, sock, HDI_READY_OUT);
    }
    const size_t most = room < wanted ? room : wanted;
    const size_t bytes = shorten(net, sock, most);
    hdi_conn_send(net, sock, parts, bytes);
    if (bytes < most) {
        hdi_sock_tell(net, sock, HDI_READY_OUT);
    } else if (bytes < wanted) {
        sock->want_out = true;
    }
    return (ssize_t)bytes;
}

/* ---- datagrams and listeners ---- */

ssize_t hdi_dgram_read(struct hdi_net *net, struct hdi_sock *sock, struct msghdr *message,
                       int flags)
{
    if (sock->error) return hdi_sock_take_error(sock);
    if (!hdi_list_empty(&sock->queue)) return hdi_udp_recv(net, sock, message, flags);
    return sock->read_shut ? 0 : again(net, sock, HDI_READY_IN);
}

int hdi_sock_accept(struct hdi_net *net, struct hdi_sock *listener, struct sockaddr *addr,
                    socklen_t *bytes)
{
    if (listener->state != HDI_SOCK_LISTENING) return -EINVAL;
    struct hdi_sock *sock = hdi_sock_dequeue(listener);
    if (!sock) return again(net, listener, HDI_READY_IN);
    if (bytes && sock->kind == HDI_SOCK_TCP) {
        hdi_place_write(&sock->peer, sock->family, addr, bytes);
    } else if (bytes) {
        const sa_family_t unnamed = AF_UNIX;
        if (addr && *bytes >= sizeof(unnamed)) memcpy(addr, &unnamed, sizeof(unnamed));
        *bytes = sizeof(unnamed);
    }
    return hdi_sock_number(net, sock);
}
