/* SPDX-License-Identifier: MIT
 *
 * net_tcp: connections: two ends, each with what it has received and how much it may send.
 *
 *   SYN      finds a listener, makes the other end and puts it into the queue; SYNACK comes back
 *   data     goes into the other end's `in`; an ACK says how far it got, and how far one may go
 *   FIN      comes after all data
 *   RST      is the answer to what comes to an end that is not there any more
 *
 * An end whose packets are held (net_link.c) gives up net->send_ns after that, or after the last
 * answer that acknowledged something new. Unix sockets and pipes are connections without packets:
 * what is sent has arrived.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/net.h"

/* ---- references ---- */

void hdi_conn_drop(struct hdi_net *net, struct hdi_conn *conn)
{
    (void)net;
    if (--conn->refs > 0) return;
    for (unsigned i = 0; i < 2; i++) {
        HDI_ASSERT(!conn->ends[i].timer); /* It would have a reference. */
        HDI_ASSERT(hdi_list_empty(&conn->ends[i].passed)); /* Closing took them. */
        free(conn->ends[i].in.data);
    }
    hdi_list_remove(&conn->link);
    free(conn);
}

static void open_end(struct hdi_conn *conn, unsigned which, struct hdi_sock *sock)
{
    struct hdi_end *end = &conn->ends[which];
    end->sock = sock;
    end->life = sock->life;
    end->state = HDI_END_OPEN;
    end->window = end->announced = sock->options.receive_buffer;
    sock->conn = conn;
    sock->end = which;
    conn->refs++;
}

static struct hdi_conn *new_conn(struct hdi_net *net)
{
    struct hdi_conn *conn = hdi_net_alloc(sizeof(*conn));
    conn->serial = ++net->serial;
    conn->ends[0].state = conn->ends[1].state = HDI_END_GONE;
    hdi_list_init(&conn->ends[0].passed);
    hdi_list_init(&conn->ends[1].passed);
    hdi_list_init(&conn->link);
    return conn;
}

void hdi_conn_local(struct hdi_net *net, struct hdi_sock *a, struct hdi_sock *b)
{
    struct hdi_conn *conn = new_conn(net);
    conn->local = true;
    open_end(conn, 0, a);
    open_end(conn, 1, b);
    conn->ends[0].limit = conn->ends[1].window;
    conn->ends[1].limit = conn->ends[0].window;
    a->state = b->state = HDI_SOCK_CONNECTED;
}

static bool is_gone(const struct hdi_end *end)
{
    return end->state == HDI_END_GONE || end->life->dead;
}

/* ---- giving up ---- */

struct give_up {
    struct hdi_net_event event; /* first */
    struct hdi_conn *conn;
    unsigned end;
    int error;
};

static void stop_timer(struct hdi_net *net, struct hdi_conn *conn, unsigned which)
{
    struct hdi_net_event *timer = conn->ends[which].timer;
    if (!timer) return;
    conn->ends[which].timer = NULL;
    hdi_net_event_remove(net, timer);
    free(timer);
    hdi_conn_drop(net, conn);
}

/* The end is no more; its descriptor says why. */
static void fail(struct hdi_net *net, struct hdi_conn *conn, unsigned which, int error)
{
    struct hdi_end *end = &conn->ends[which];
    if (end->state == HDI_END_GONE) return;
    conn->refs++; /* Packets and timers may have the last ones. */
    end->state = HDI_END_GONE;
    stop_timer(net, conn, which);
    hdi_link_forget(net, conn, which);
    if (end->sock) {
        end->sock->error = error;
        end->sock->state = HDI_SOCK_BROKEN;
        hdi_sock_tell(net, end->sock, HDI_READY_IN | HDI_READY_OUT | HDI_READY_HUNG);
    }
    end->sock = NULL;
    hdi_conn_drop(net, conn);
}

static void run_give_up(struct hdi_net *net, struct hdi_net_event *event, bool fire)
{
    struct give_up *timer = (struct give_up *)event;
    struct hdi_conn *conn = timer->conn;
    conn->ends[timer->end].timer = NULL;
    if (fire) fail(net, conn, timer->end, timer->error);
    hdi_conn_drop(net, conn);
    free(timer);
}

static void start_timer(struct hdi_net *net, struct hdi_conn *conn, unsigned which, int64_t in_ns,
                        int error)
{
    if (conn->ends[which].timer) return;
    struct give_up *timer = hdi_net_alloc(sizeof(*timer));
    timer->event.run = run_give_up;
    timer->conn = conn;
    timer->end = which;
    timer->error = error;
    conn->refs++;
    conn->ends[which].timer = &timer->event;
    hdi_net_event_add(net, &timer->event, hdi_net_now(net) + in_ns);
}

/* Something new was acknowledged: there is an answer, and patience begins anew. */
static void restart_timer(struct hdi_net *net, const struct hdi_end *end)
{
    if (!end->timer) return;
    hdi_net_event_remove(net, end->timer);
    hdi_net_event_add(net, end->timer, hdi_net_now(net) + net->send_ns);
}

void hdi_conn_reset(struct hdi_net *net, struct hdi_conn *conn)
{
    conn->refs++;
    fail(net, conn, 0, ECONNRESET);
    fail(net, conn, 1, ECONNRESET);
    hdi_conn_drop(net, conn);
}

void hdi_conn_forget(struct hdi_net *net, struct hdi_sock *sock, int error)
{
    if (sock->conn) fail(net, sock->conn, sock->end, error);
}

/* ---- packets ---- */

/* A FIN counts as a byte. */
static uint64_t unacked(const struct hdi_end *end)
{
    return end->sent + (end->fin_out ? 1 : 0) - end->acked;
}

static struct hdi_packet *packet_to(struct hdi_conn *conn, unsigned to, size_t bytes,
                                    void (*arrive)(struct hdi_net *net,
                                                   struct hdi_packet *packet))
{
    struct hdi_packet *packet = hdi_packet_new(bytes);
    struct hdi_life *by = conn->ends[1 - to].life;
    packet->from = by->host;
    packet->by = by->dead ? by->host->life : by; /* A host that is up again answers too. */
    packet->to = conn->ends[to].life->host;
    packet->conn = conn;
    packet->end = to;
    packet->number = conn->ends[to].numbered++;
    packet->arrive = arrive;
    return packet;
}

static void arrive_reset(struct hdi_net *net, struct hdi_packet *packet)
{
    const struct hdi_end *end = &packet->conn->ends[packet->end];
    /* Who has read to the end is told as if it had written: as Linux does. */
    if (!is_gone(end)) {
        fail(net, packet->conn, packet->end, end->fin_in ? EPIPE : ECONNRESET);
    }
    hdi_packet_free(net, packet);
}

static void send_reset(struct hdi_net *net, struct hdi_conn *conn, unsigned to)
{
    struct hdi_packet *packet = packet_to(conn, to, 0, arrive_reset);
    packet->urgent = true;
    hdi_link_send(net, packet);
}

static void room_again(struct hdi_net *net, struct hdi_end *end)
{
    struct hdi_sock *sock = end->sock;
    if (!sock || !sock->want_out || hdi_conn_room(sock) == 0) return;
    sock->want_out = false;
    hdi_sock_tell(net, sock, HDI_READY_OUT);
}

void hdi_conns_room_again(struct hdi_net *net)
{
    for (struct hdi_list *link = net->conns.next; link != &net->conns; link = link->next) {
        struct hdi_conn *conn = hdi_container_of(link, struct hdi_conn, link);
        for (unsigned i = 0; i < 2; i++) room_again(net, &conn->ends[i]);
    }
}

static void arrive_ack(struct hdi_net *net, struct hdi_packet *packet)
{
    struct hdi_end *end = &packet->conn->ends[packet->end];
    if (!is_gone(end)) {
        if (packet->acked > end->acked) {
            end->acked = packet->acked;
            restart_timer(net, end);
        }
        if (packet->limit > end->limit) end->limit = packet->limit;
        if (unacked(end) == 0) stop_timer(net, packet->conn, packet->end);
        room_again(net, end);
    }
    hdi_packet_free(net, packet);
}

/* Tell the other side how far its bytes got, and how far it may go. */
static void send_ack(struct hdi_net *net, struct hdi_conn *conn, unsigned from)
{
    struct hdi_end *end = &conn->ends[from];
    struct hdi_packet *packet = packet_to(conn, 1 - from, 0, arrive_ack);
    const uint64_t limit = end->consumed + end->window;
    if (limit > end->announced) end->announced = limit;
    packet->acked = end->received + (end->fin_in ? 1 : 0);
    packet->limit = end->announced;
    hdi_link_send(net, packet);
}

static void receive(struct hdi_net *net, struct hdi_end *end, const void *data, size_t bytes)
{
    hdi_bytes_put(&end->in, data, bytes);
    end->received += bytes;
    if (end->sock) hdi_sock_tell(net, end->sock, HDI_READY_IN);
}

static void arrive_data(struct hdi_net *net, struct hdi_packet *packet)
{
    struct hdi_conn *conn = packet->conn;
    struct hdi_end *end = &conn->ends[packet->end];
    if (is_gone(end) || end->state == HDI_END_CLOSED) {
        end->state = HDI_END_GONE; /* What was closed does not read it: it is lost. */
        stop_timer(net, conn, packet->end);
        send_reset(net, conn, 1 - packet->end);
    } else {
        receive(net, end, packet->data, packet->bytes);
        send_ack(net, conn, packet->end);
    }
    hdi_packet_free(net, packet);
}

static void arrive_fin(struct hdi_net *net, struct hdi_packet *packet)
{
    struct hdi_conn *conn = packet->conn;
    struct hdi_end *end = &conn->ends[packet->end];
    if (is_gone(end)) {
        send_reset(net, conn, 1 - packet->end);
    } else {
        end->fin_in = true;
        if (end->sock) hdi_sock_tell(net, end->sock, HDI_READY_IN | HDI_READY_HUNG);
        send_ack(net, conn, packet->end);
    }
    hdi_packet_free(net, packet);
}

void hdi_conn_held(struct hdi_net *net, struct hdi_packet *packet)
{
    const bool data = packet->arrive == arrive_data || packet->arrive == arrive_fin;
    if (!data && packet->arrive != arrive_ack) return;
    const unsigned sender = data ? 1 - packet->end : packet->end;
    const struct hdi_end *end = &packet->conn->ends[sender];
    if (is_gone(end) || unacked(end) == 0) return;
    start_timer(net, packet->conn, sender, net->send_ns, ETIMEDOUT);
}

/* ---- connecting ---- */

static void arrive_refused(struct hdi_net *net, struct hdi_packet *packet)
{
    fail(net, packet->conn, 0, ECONNREFUSED);
    hdi_packet_free(net, packet);
}

static void arrive_synack(struct hdi_net *net, struct hdi_packet *packet)
{
    struct hdi_conn *conn = packet->conn;
    struct hdi_end *end = &conn->ends[0];
    if (is_gone(end) || !end->sock) {
        send_reset(net, conn, 1);
    } else {
        end->limit = packet->limit;
        end->sock->state = HDI_SOCK_CONNECTED;
        hdi_sock_tell(net, end->sock, HDI_READY_OUT);
        stop_timer(net, conn, 0); /* The packet still holds the connection. */
    }
    hdi_packet_free(net, packet);
}

/* Returns false if the listener's queue is full. */
static bool take_in(struct hdi_net *net, struct hdi_conn *conn, struct hdi_sock *listener)
{
    if (listener->queued >= listener->backlog) return false;
    struct hdi_sock *sock = hdi_sock_new(net, HDI_SOCK_TCP, listener->family, listener->life);
    hdi_sock_options_inherit(sock, listener);
    sock->local = conn->places[1];
    sock->peer = conn->places[0];
    sock->state = HDI_SOCK_CONNECTED;
    open_end(conn, 1, sock);
    conn->ends[1].limit = conn->ends[0].window;
    hdi_sock_enqueue(net, listener, sock);
    struct hdi_packet *packet = packet_to(conn, 0, 0, arrive_synack);
    packet->limit = conn->ends[1].window;
    hdi_link_send(net, packet);
    return true;
}

static void arrive_syn(struct hdi_net *net, struct hdi_packet *packet)
{
    struct hdi_conn *conn = packet->conn;
    conn->ends[1].life = packet->to->life;
    const uint64_t draw = hdi_net_draw(net, HDI_PURPOSE_NET_LINK, conn->serial << 1, UINT64_MAX);
    struct hdi_sock *listener = hdi_sock_find(net, packet->to, HDI_SOCK_TCP, &conn->places[1],
                                              &conn->places[0], draw);
    if (!listener) {
        hdi_link_send(net, packet_to(conn, 0, 0, arrive_refused));
    } else if (!take_in(net, conn, listener) && !is_gone(&conn->ends[0])) {
        const int64_t again_ns = hdi_link_of(net, packet->from, packet->to).resend_ns;
        hdi_net_event_add(net, &packet->event, hdi_net_now(net) + again_ns);
        return;
    }
    hdi_packet_free(net, packet);
}

int hdi_tcp_connect(struct hdi_net *net, struct hdi_sock *sock, const struct hdi_place *target)
{
    enum { UNREACHABLE_MS = 100 };
    const int err = hdi_sock_autobind(net, sock, target);
    if (err) return err;
    struct hd_sim_host *host = hdi_host_at(sock->life->host, target->ip);
    struct hdi_conn *conn = new_conn(net);
    hdi_list_push_back(&net->conns, &conn->link);
    sock->peer = *target;
    sock->state = HDI_SOCK_CONNECTING;
    conn->places[0] = sock->local;
    conn->places[1] = *target;
    open_end(conn, 0, sock);
    if (!host) {
        start_timer(net, conn, 0, UNREACHABLE_MS * HD_MS_NS, EHOSTUNREACH);
        return -EINPROGRESS;
    }
    conn->ends[1].life = host->life;
    start_timer(net, conn, 0, net->connect_ns, ETIMEDOUT);
    hdi_link_send(net, packet_to(conn, 1, 0, arrive_syn));
    return -EINPROGRESS;
}

/* ---- sending and receiving ---- */

size_t hdi_conn_room(const struct hdi_sock *sock)
{
    const struct hdi_end *end = &sock->conn->ends[sock->end];
    const uint64_t room = end->limit - end->sent, waiting = end->sent - end->acked;
    const uint64_t most = (uint64_t)sock->options.send_buffer;
    if (most == 0 || sock->conn->local) return room;
    const uint64_t own = waiting < most ? most - waiting : 0;
    return own < room ? own : room;
}

static void send_segment(struct hdi_net *net, struct hdi_sock *sock, const struct iovec *parts,
                         size_t skip, size_t bytes)
{
    struct hdi_packet *packet = packet_to(sock->conn, 1 - sock->end, bytes, arrive_data);
    hdi_parts_copy(packet->data, parts, skip, bytes);
    sock->conn->ends[sock->end].sent += bytes;
    hdi_link_send(net, packet);
}

static void send_local(struct hdi_net *net, struct hdi_sock *sock, const struct iovec *parts,
                       size_t bytes)
{
    struct hdi_end *peer = &sock->conn->ends[1 - sock->end];
    for (size_t done = 0; done < bytes; parts++) {
        const size_t left = bytes - done, n = parts->iov_len < left ? parts->iov_len : left;
        receive(net, peer, parts->iov_base, n);
        done += n;
    }
    sock->conn->ends[sock->end].sent += bytes;
}

void hdi_conn_send(struct hdi_net *net, struct hdi_sock *sock, const struct iovec *parts,
                   size_t bytes)
{
    HDI_ASSERT(bytes <= hdi_conn_room(sock)); /* NET-3 */
    if (sock->conn->local) {
        send_local(net, sock, parts, bytes);
        return;
    }
    for (size_t done = 0; done < bytes;) {
        const size_t left = bytes - done, n = left < HDI_NET_SEGMENT ? left : HDI_NET_SEGMENT;
        send_segment(net, sock, parts, done, n);
        done += n;
    }
}

/* The end may take more than it said. */
static void widen(struct hdi_net *net, struct hdi_conn *conn, unsigned which)
{
    struct hdi_end *end = &conn->ends[which], *peer = &conn->ends[1 - which];
    const uint64_t limit = end->consumed + end->window;
    if (limit <= end->announced || end->fin_in || is_gone(end)) return;
    if (conn->local) {
        end->announced = peer->limit = limit;
        room_again(net, peer);
    } else if (end->announced - end->received < end->window / 2 + 1) {
        send_ack(net, conn, which);
    }
}

void hdi_conn_consumed(struct hdi_net *net, struct hdi_sock *sock, size_t bytes)
{
    sock->conn->ends[sock->end].consumed += bytes;
    widen(net, sock->conn, sock->end);
}

void hdi_conn_window(struct hdi_net *net, struct hdi_sock *sock, size_t window)
{
    sock->options.receive_buffer = window;
    if (!sock->conn) return;
    sock->conn->ends[sock->end].window = window;
    widen(net, sock->conn, sock->end);
}

/* ---- ending ---- */

void hdi_conn_shut(struct hdi_net *net, struct hdi_sock *sock)
{
    struct hdi_conn *conn = sock->conn;
    struct hdi_end *end = &conn->ends[sock->end], *peer = &conn->ends[1 - sock->end];
    if (end->fin_out || end->state == HDI_END_GONE) return;
    end->fin_out = true;
    if (!conn->local) {
        hdi_link_send(net, packet_to(conn, 1 - sock->end, 0, arrive_fin));
        return;
    }
    peer->fin_in = true;
    if (peer->sock) hdi_sock_tell(net, peer->sock, HDI_READY_IN | HDI_READY_HUNG);
}

static void close_local(struct hdi_net *net, struct hdi_sock *sock)
{
    struct hdi_conn *conn = sock->conn;
    struct hdi_end *peer = &conn->ends[1 - sock->end];
    if (conn->ends[sock->end].in.count > 0 && sock->kind == HDI_SOCK_UNIX) {
        fail(net, conn, 1 - sock->end, ECONNRESET);
    } else {
        hdi_conn_shut(net, sock);
    }
    if (peer->sock) hdi_sock_tell(net, peer->sock, HDI_READY_OUT); /* -EPIPE */
}

static void close_tcp(struct hdi_net *net, struct hdi_sock *sock)
{
    struct hdi_conn *conn = sock->conn;
    const struct hdi_end *end = &conn->ends[sock->end];
    if (sock->state == HDI_SOCK_CONNECTING) {
        fail(net, conn, sock->end, ECONNABORTED);
    } else if (end->in.count > 0 || hdi_sock_resets(sock)) {
        fail(net, conn, sock->end, ECONNABORTED);
        send_reset(net, conn, 1 - sock->end);
    } else {
        hdi_conn_shut(net, sock);
    }
}

void hdi_conn_close(struct hdi_net *net, struct hdi_sock *sock)
{
    struct hdi_conn *conn = sock->conn;
    if (!conn) return;
    struct hdi_end *end = &conn->ends[sock->end];
    if (end->state == HDI_END_OPEN && !end->life->dead) {
        if (conn->local) {
            close_local(net, sock);
        } else {
            close_tcp(net, sock);
        }
        if (end->state == HDI_END_OPEN) end->state = HDI_END_CLOSED;
    }
    hdi_unix_lose_passed(net, end);
    end->sock = NULL;
    sock->conn = NULL;
    hdi_conn_drop(net, conn);
}
