/* SPDX-License-Identifier: MIT
 *
 * client: the connections that drive the servers, by one thread and one io_uring.
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

#define CONNS_MAX   12000   /* of a fleet */
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

struct fleet {
    const struct server *server;
    struct conn *conns; /* CONNS_MAX */
    unsigned count;
    unsigned busy;      /* messages under way */
};

static char message[BUFFER_MAX], answer[BUFFER_MAX];
static struct io_uring ring;
static struct outcome outcome; /* of the window */

/* What user_data names besides the connection. */
enum { RECV, SEND };

/* ---- opening ---- */

static struct sockaddr_in place(uint32_t host, unsigned port)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(host)};
}

static int open_conn(const struct server *server, uint32_t from)
{
    static const int one = 1;
    const struct sockaddr_in to = place(INADDR_LOOPBACK, server_port(server));
    const struct sockaddr_in source = place(from, 0);
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

static void start_ring(void)
{
    const unsigned flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                           IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE;
    struct io_uring_params setup = {.flags = flags, .cq_entries = 4 * RING_SIZE};
    errno = -io_uring_queue_init_params(RING_SIZE, &ring, &setup);
    if (errno != 0) fail("io_uring");
    io_uring_register_ring_fd(&ring);
    outcome.latencies = malloc(LATENCY_MAX * sizeof(int64_t));
    if (outcome.latencies == NULL) fail("malloc");
    for (unsigned i = 0; i < params.bytes; i++) message[i] = (char)('a' + i % 23);
}

struct fleet *client_new(const struct server *server)
{
    errno = 0;
    if (params.bytes > BUFFER_MAX) fail("messages are too large");
    if (outcome.latencies == NULL) start_ring();
    struct fleet *fleet = malloc(sizeof *fleet);
    struct conn *conns = calloc(CONNS_MAX, sizeof *conns);
    if (fleet == NULL || conns == NULL) fail("malloc");
    *fleet = (struct fleet){.server = server, .conns = conns};
    return fleet;
}

void client_open(struct fleet *fleet, unsigned count)
{
    errno = 0;
    if (fleet->count + count > CONNS_MAX) fail("too many connections");
    for (unsigned i = 0; i < count; i++) {
        struct conn *conn = &fleet->conns[fleet->count++];
        conn->fd = open_conn(fleet->server, INADDR_LOOPBACK);
        exchange(conn->fd);
    }
}

/* ---- the window ---- */

static int64_t window_start, window_end, cpu_start;

static void begin(int64_t window_ns)
{
    outcome = (struct outcome){.latencies = outcome.latencies};
    window_start = now_ns() + window_ns / 8;
    window_end = window_start + window_ns;
    cpu_start = -1;
}

/* Whether the window is not over. */
static bool in_time(const struct fleet *fleet, int64_t now)
{
    if (cpu_start < 0 && now >= window_start) {
        cpu_start = server_cpu_ns(fleet->server);
        window_start = now;
        outcome.done = outcome.count = 0;
    }
    if (now < window_end) return true;
    outcome.cpu_ns = server_cpu_ns(fleet->server) - cpu_start;
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
    sqe->user_data = (uintptr_t)conn | RECV;
}

/* The answer is waited for once the message is out; that it is out needs no word. */
static void send_message(struct fleet *fleet, struct conn *conn, int64_t due)
{
    struct io_uring_sqe *sqe = next_sqe();
    io_uring_prep_send(sqe, conn->fd, message, params.bytes, MSG_WAITALL | MSG_NOSIGNAL);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    sqe->user_data = (uintptr_t)conn | SEND;
    fleet->busy++;
    conn->busy = true;
    conn->got = 0;
    conn->due = due;
    prepare_recv(conn);
}

/* Returns the connection whose whole answer is there now; or NULL. */
static struct conn *received(struct fleet *fleet, const struct io_uring_cqe *cqe)
{
    struct conn *conn = (struct conn *)(uintptr_t)(cqe->user_data & ~(uint64_t)1);
    errno = cqe->res < 0 ? -cqe->res : 0;
    if (cqe->res <= 0 || (cqe->user_data & 1) == SEND) fail("a connection broke");
    conn->got += (uint32_t)cqe->res;
    if (conn->got < params.bytes) {
        prepare_recv(conn);
        return NULL;
    }
    conn->busy = false;
    fleet->busy--;
    return conn;
}

/* Let `then` have each whole answer that has come. */
static void collect(struct fleet *fleet, int64_t now,
                    void (*then)(struct fleet *fleet, struct conn *conn, int64_t now))
{
    struct io_uring_cqe *cqe;
    unsigned head, seen = 0;
    io_uring_for_each_cqe(&ring, head, cqe) {
        struct conn *conn = received(fleet, cqe);
        seen++;
        if (conn != NULL) then(fleet, conn, now);
    }
    io_uring_cq_advance(&ring, seen);
}

static void forget(struct fleet *fleet, struct conn *conn, int64_t now)
{
    (void)fleet, (void)conn, (void)now;
}

/* Wait for what is under way when the window is over. */
static void drain(struct fleet *fleet)
{
    while (fleet->busy > 0) {
        io_uring_submit_and_wait(&ring, 1);
        collect(fleet, 0, forget);
    }
}

/* ---- closed loop ---- */

static void send_next(struct fleet *fleet, struct conn *conn, int64_t now)
{
    outcome.done++;
    record(now - conn->due);
    send_message(fleet, conn, now);
}

struct outcome client_closed_loop(struct fleet *fleet, int64_t window_ns)
{
    begin(window_ns);
    int64_t now = now_ns();
    for (unsigned i = 0; i < fleet->count; i++) send_message(fleet, &fleet->conns[i], now);
    while (in_time(fleet, now)) {
        io_uring_submit_and_get_events(&ring);
        now = now_ns();
        collect(fleet, now, send_next);
    }
    drain(fleet);
    return outcome;
}

/* ---- paced ---- */

static double gap_ns(void)
{
    return 1e9 / params.rate;
}

static int64_t period_ns(const struct fleet *fleet)
{
    return (int64_t)(gap_ns() * fleet->count);
}

static void send_due(struct fleet *fleet, struct conn *conn, int64_t now)
{
    outcome.done++;
    record(now - conn->due);
    if (conn->waiting == 0) return;
    conn->waiting--;
    send_message(fleet, conn, conn->due + period_ns(fleet));
}

struct outcome client_paced(struct fleet *fleet, int64_t window_ns)
{
    begin(window_ns);
    const int64_t start = now_ns();
    uint64_t sent = 0;
    int64_t now = start;
    while (in_time(fleet, now)) {
        for (int64_t due; (due = start + (int64_t)((double)sent * gap_ns())) <= now; sent++) {
            struct conn *conn = &fleet->conns[sent % fleet->count];
            if (conn->busy) conn->waiting++;
            else send_message(fleet, conn, due);
        }
        io_uring_submit_and_get_events(&ring);
        now = now_ns();
        collect(fleet, now, send_due);
    }
    for (unsigned i = 0; i < fleet->count; i++) {
        struct conn *conn = &fleet->conns[i];
        for (unsigned j = 0; conn->busy && j <= conn->waiting; j++)
            record(now - (conn->due + (int64_t)j * period_ns(fleet)));
        conn->waiting = 0;
    }
    drain(fleet);
    return outcome;
}

/* ---- connections ---- */

/* On loopback connect() does not sleep, so only the server's end is waited for. */
static void open_and_end(struct fleet *fleet, struct conn *conn)
{
    static uint32_t turn;
    conn->due = now_ns();
    conn->fd = open_conn(fleet->server, INADDR_LOOPBACK + 1 + turn++ % SOURCES);
    shutdown(conn->fd, SHUT_WR);
    struct io_uring_sqe *sqe = next_sqe();
    io_uring_prep_recv(sqe, conn->fd, answer, sizeof answer, 0);
    sqe->user_data = (uintptr_t)conn;
    fleet->busy++;
}

/* Returns the first connection that the server has ended, closed on this side, too. */
static struct conn *ended(struct fleet *fleet)
{
    struct io_uring_cqe *cqe;
    if (io_uring_peek_cqe(&ring, &cqe) != 0) return NULL;
    struct conn *conn = (struct conn *)(uintptr_t)cqe->user_data;
    errno = -cqe->res;
    if (cqe->res != 0) fail("a connection broke");
    io_uring_cqe_seen(&ring, cqe);
    close(conn->fd);
    fleet->busy--;
    return conn;
}

struct outcome client_connects(struct fleet *fleet, int64_t window_ns)
{
    begin(window_ns);
    int64_t now = now_ns();
    for (unsigned i = 0; i < params.conns; i++)
        open_and_end(fleet, &fleet->conns[fleet->count + i]);
    while (in_time(fleet, now)) {
        io_uring_submit_and_wait(&ring, 1);
        now = now_ns();
        for (struct conn *conn; (conn = ended(fleet)) != NULL;) {
            outcome.done++;
            record(now - conn->due);
            open_and_end(fleet, conn);
        }
    }
    while (fleet->busy > 0) {
        io_uring_submit_and_wait(&ring, 1);
        while (ended(fleet) != NULL) continue;
    }
    return outcome;
}
