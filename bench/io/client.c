/* SPDX-License-Identifier: MIT
 *
 * client: the connections that drive a server, by one thread and one io_uring.
 *
 * Every connection's first message is compared with its echo, byte by byte; from then on only the
 * lengths count, and what comes is dropped by the kernel (MSG_TRUNC): the client is to be as cheap
 * as it can be. A connection has at most one message under way.
 *
 * The window begins after a warm-up of an eighth of it.
 */
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNS_MAX   12000
#define RING_SIZE   4096
#define LATENCY_MAX 4000000 /* in a window */
#define BUFFER_MAX  65536   /* for messages */
#define SOURCES     100     /* addresses to connect from: TIME_WAIT keeps a port of each */

struct conn {
    int fd;
    uint32_t got;     /* bytes of the answer */
    uint32_t waiting; /* paced: messages that are due and wait for the one before */
    bool busy;        /* a message is under way */
    int64_t due;      /* since when */
};

static struct conn conns[CONNS_MAX];
static unsigned conn_count;
static char message[BUFFER_MAX], answer[BUFFER_MAX];
static struct io_uring ring;
static struct outcome outcome;

/* What user_data names besides the connection. */
enum { RECV, SEND };

/* ---- opening ---- */

static struct sockaddr_in place(uint32_t host, unsigned port)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(host)};
}

static int open_conn(uint32_t from)
{
    static const int one = 1;
    const struct sockaddr_in to = place(INADDR_LOOPBACK, server_port()), source = place(from, 0);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) fail("socket");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (from != INADDR_LOOPBACK) {
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
        if (bind(fd, (const struct sockaddr *)&source, sizeof source) != 0) fail("bind");
    }
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) != 0) fail("connect");
    return fd;
}

static void exchange(int fd)
{
    for (size_t sent = 0; sent < params.bytes;) {
        const ssize_t n = send(fd, message + sent, params.bytes - sent, MSG_NOSIGNAL);
        if (n <= 0) fail("send");
        sent += (size_t)n;
    }
    memset(answer, 0, params.bytes);
    for (size_t got = 0; got < params.bytes;) {
        const ssize_t n = recv(fd, answer + got, params.bytes - got, 0);
        if (n <= 0) fail("recv");
        got += (size_t)n;
    }
    errno = 0;
    if (memcmp(message, answer, params.bytes) != 0) fail("the echo differs");
}

void client_open(unsigned count)
{
    errno = 0;
    if (conn_count + count > CONNS_MAX || params.bytes > BUFFER_MAX) fail("too many, or too large");
    for (unsigned i = 0; i < params.bytes; i++) message[i] = (char)('a' + i % 23);
    for (unsigned i = 0; i < count; i++) {
        struct conn *conn = &conns[conn_count++];
        conn->fd = open_conn(INADDR_LOOPBACK);
        exchange(conn->fd);
    }
}

/* ---- the window ---- */

static int64_t window_start, window_end, cpu_start;

static void begin(int64_t window_ns)
{
    const unsigned flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                           IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE;
    struct io_uring_params setup = {.flags = flags, .cq_entries = 4 * RING_SIZE};
    errno = -io_uring_queue_init_params(RING_SIZE, &ring, &setup);
    if (errno != 0) fail("io_uring");
    io_uring_register_ring_fd(&ring);
    outcome = (struct outcome){.latencies = malloc(LATENCY_MAX * sizeof(int64_t))};
    if (outcome.latencies == NULL) fail("malloc");
    window_start = now_ns() + window_ns / 8;
    window_end = window_start + window_ns;
    cpu_start = -1;
}

/* Whether the window is not over. */
static bool in_time(int64_t now)
{
    if (cpu_start < 0 && now >= window_start) {
        cpu_start = server_cpu_ns();
        window_start = now;
        outcome.done = outcome.count = 0;
    }
    if (now < window_end) return true;
    outcome.cpu_ns = server_cpu_ns() - cpu_start;
    outcome.wall_ns = now - window_start;
    return false;
}

static void record(int64_t ns)
{
    if (outcome.count < LATENCY_MAX) outcome.latencies[outcome.count++] = ns;
}

static struct io_uring_sqe *next_sqe(void)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
    if (sqe == NULL) {
        io_uring_submit(&ring);
        sqe = io_uring_get_sqe(&ring);
    }
    return sqe;
}

static void prepare_recv(struct conn *conn)
{
    struct io_uring_sqe *sqe = next_sqe();
    io_uring_prep_recv(sqe, conn->fd, answer, params.bytes - conn->got, MSG_TRUNC);
    sqe->ioprio |= IORING_RECVSEND_POLL_FIRST; /* The answer cannot be there yet. */
    sqe->user_data = (uint64_t)(conn - conns) << 1 | RECV;
}

/* The answer is waited for once the message is out; that it is out needs no word. */
static void send_message(struct conn *conn, int64_t due)
{
    struct io_uring_sqe *sqe = next_sqe();
    io_uring_prep_send(sqe, conn->fd, message, params.bytes, MSG_WAITALL | MSG_NOSIGNAL);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    sqe->user_data = (uint64_t)(conn - conns) << 1 | SEND;
    conn->busy = true;
    conn->got = 0;
    conn->due = due;
    prepare_recv(conn);
}

/* Returns whether the whole answer of the connection is there now. */
static bool received(const struct io_uring_cqe *cqe, struct conn **conn)
{
    *conn = &conns[cqe->user_data >> 1];
    errno = cqe->res < 0 ? -cqe->res : 0;
    if (cqe->res <= 0 || (cqe->user_data & 1) == SEND) fail("a connection broke");
    (*conn)->got += (uint32_t)cqe->res;
    if ((*conn)->got == params.bytes) return true;
    prepare_recv(*conn);
    return false;
}

/* ---- closed loop ---- */

struct outcome client_closed_loop(int64_t window_ns)
{
    begin(window_ns);
    int64_t now = now_ns();
    for (unsigned i = 0; i < conn_count; i++) send_message(&conns[i], now);
    while (in_time(now)) {
        io_uring_submit_and_wait(&ring, 1);
        now = now_ns();
        struct io_uring_cqe *cqe;
        unsigned head, seen = 0;
        io_uring_for_each_cqe(&ring, head, cqe) {
            struct conn *conn;
            seen++;
            if (!received(cqe, &conn)) continue;
            outcome.done++;
            record(now - conn->due);
            send_message(conn, now);
        }
        io_uring_cq_advance(&ring, seen);
    }
    return outcome;
}

/* ---- paced ---- */

static void answered(struct conn *conn, int64_t now, int64_t period_ns)
{
    outcome.done++;
    record(now - conn->due);
    conn->busy = false;
    if (conn->waiting == 0) return;
    conn->waiting--;
    send_message(conn, conn->due + period_ns);
}

struct outcome client_paced(int64_t window_ns)
{
    begin(window_ns);
    const double gap_ns = 1e9 / params.rate;
    const int64_t period_ns = (int64_t)(gap_ns * conn_count), start = now_ns();
    uint64_t sent = 0;
    int64_t now = start;
    while (in_time(now)) {
        for (int64_t due; (due = start + (int64_t)((double)sent * gap_ns)) <= now; sent++) {
            struct conn *conn = &conns[sent % conn_count];
            if (conn->busy) conn->waiting++;
            else send_message(conn, due);
        }
        io_uring_submit_and_get_events(&ring);
        now = now_ns();
        struct io_uring_cqe *cqe;
        unsigned head, seen = 0;
        io_uring_for_each_cqe(&ring, head, cqe) {
            struct conn *conn;
            seen++;
            if (received(cqe, &conn)) answered(conn, now, period_ns);
        }
        io_uring_cq_advance(&ring, seen);
    }
    for (unsigned i = 0; i < conn_count; i++)
        for (unsigned j = 0; conns[i].busy && j <= conns[i].waiting; j++)
            record(now - (conns[i].due + (int64_t)j * period_ns));
    return outcome;
}

/* ---- connections ---- */

/* On loopback connect() does not sleep, so only the server's end is waited for. */
static void open_and_end(struct conn *conn, uint32_t *turn)
{
    conn->due = now_ns();
    conn->fd = open_conn(INADDR_LOOPBACK + 1 + (*turn)++ % SOURCES);
    shutdown(conn->fd, SHUT_WR);
    struct io_uring_sqe *sqe = next_sqe();
    io_uring_prep_recv(sqe, conn->fd, answer, sizeof answer, 0);
    sqe->user_data = (uint64_t)(conn - conns);
}

struct outcome client_connects(int64_t window_ns)
{
    begin(window_ns);
    uint32_t turn = 0;
    int64_t now = now_ns();
    for (unsigned i = 0; i < params.conns; i++) open_and_end(&conns[i], &turn);
    while (in_time(now)) {
        io_uring_submit_and_wait(&ring, 1);
        now = now_ns();
        struct io_uring_cqe *cqe;
        while (io_uring_peek_cqe(&ring, &cqe) == 0) {
            struct conn *conn = &conns[cqe->user_data];
            errno = -cqe->res;
            if (cqe->res != 0) fail("a connection broke");
            io_uring_cqe_seen(&ring, cqe);
            close(conn->fd);
            outcome.done++;
            record(now - conn->due);
            open_and_end(conn, &turn);
        }
    }
    return outcome;
}
