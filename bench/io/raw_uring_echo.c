/* SPDX-License-Identifier: MIT
 *
 * raw_uring_echo: an echo server by io_uring and nothing else: what a runtime's server is measured
 * against.
 *
 * Connections come by one multishot accept, into the ring's own table of files. Each has one
 * multishot receive, into buffers that the kernel takes from a ring. What was received is sent from
 * the same buffer, which goes back when that is done. All that one turn of the loop prepares is
 * submitted by the call that waits for the next.
 *
 * A connection sends one buffer at a time, so that what it sends stays in order; the others queue.
 *
 * Rejected, for server CPU of an echo (5 rounds on a busy virtual machine, spread about 15 %):
 *   4096 buffers: taken in turn, so each is cold; a quarter to a third more at 16 KiB.
 *   64 buffers: they run out with 1,000 connections, half as much again.
 *   Less than DEFER_TASKRUN: more in every case.
 * Not told apart by that measurement: receives one by one, linked to the send before; sends by
 * system calls; descriptors instead of the ring's files; POLL_FIRST. Each was better in some cases
 * and worse in others, so they are to be tried again on a quiet machine.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define CONNS_MAX    12000
#define SQ_ENTRIES   4096
#define CQ_ENTRIES   16384
#define BUFFERS      256 /* a power of two */
#define BUFFER_BYTES (16 << 10)

enum { ACCEPT, RECV, SEND, CLOSE };

struct conn {
    int first, last; /* buffers that wait to be sent; -1: none */
    bool sending;
    bool ended;      /* nothing more will be received */
};

static struct conn conns[CONNS_MAX];
static struct {
    int next;
    int bytes;
} queued[BUFFERS];
static char (*buffers)[BUFFER_BYTES];
static struct io_uring_buf_ring *free_buffers;
static int freed; /* since the last advance */
static struct io_uring ring;

static void must(int result, const char *what)
{
    if (result >= 0) return;
    fprintf(stderr, "raw_uring_echo: %s: %s\n", what, strerror(-result));
    exit(1);
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

static uint64_t tag(unsigned op, int conn, int buffer)
{
    return (uint64_t)op << 56 | (uint64_t)buffer << 32 | (unsigned)conn;
}

static void release(int buffer)
{
    io_uring_buf_ring_add(free_buffers, buffers[buffer], BUFFER_BYTES, (unsigned short)buffer,
                          io_uring_buf_ring_mask(BUFFERS), freed++);
}

/* ---- what is asked for ---- */

static void ask_accept(int listener)
{
    struct io_uring_sqe *sqe = next_sqe();
    io_uring_prep_multishot_accept_direct(sqe, listener, NULL, NULL, 0);
    sqe->user_data = tag(ACCEPT, listener, 0);
}

static void ask_recv(int conn)
{
    struct io_uring_sqe *sqe = next_sqe();
    io_uring_prep_recv_multishot(sqe, conn, NULL, 0, 0);
    sqe->flags |= IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
    sqe->user_data = tag(RECV, conn, 0);
}

static void ask_send(int conn, int buffer)
{
    struct io_uring_sqe *sqe = next_sqe();
    io_uring_prep_send(sqe, conn, buffers[buffer], (size_t)queued[buffer].bytes,
                       MSG_WAITALL | MSG_NOSIGNAL);
    sqe->flags |= IOSQE_FIXED_FILE;
    sqe->user_data = tag(SEND, conn, buffer);
    conns[conn].sending = true;
}

static void ask_close(int conn)
{
    struct io_uring_sqe *sqe = next_sqe();
    io_uring_prep_close_direct(sqe, (unsigned)conn);
    sqe->user_data = tag(CLOSE, conn, 0);
}

/* ---- what has happened ---- */

static void on_accept(int listener, const struct io_uring_cqe *cqe)
{
    if (cqe->res >= 0) {
        conns[cqe->res] = (struct conn){.first = -1};
        ask_recv(cqe->res);
    }
    if (!(cqe->flags & IORING_CQE_F_MORE)) ask_accept(listener);
}

static void on_data(int conn, int buffer, int bytes)
{
    struct conn *c = &conns[conn];
    queued[buffer].bytes = bytes;
    queued[buffer].next = -1;
    if (!c->sending) ask_send(conn, buffer);
    else if (c->first < 0) c->first = c->last = buffer;
    else c->last = queued[c->last].next = buffer;
}

static void on_recv(int conn, const struct io_uring_cqe *cqe)
{
    if (cqe->res > 0) on_data(conn, (int)(cqe->flags >> IORING_CQE_BUFFER_SHIFT), cqe->res);
    if (cqe->flags & IORING_CQE_F_MORE) return;
    if (cqe->res > 0 || cqe->res == -ENOBUFS) {
        ask_recv(conn);
        return;
    }
    conns[conn].ended = true;
    if (!conns[conn].sending) ask_close(conn);
}

static void on_send(int conn, int buffer, const struct io_uring_cqe *cqe)
{
    struct conn *c = &conns[conn];
    const bool broken = cqe->res < queued[buffer].bytes;
    release(buffer);
    c->sending = false;
    while (broken && c->first >= 0) {
        release(c->first);
        c->first = queued[c->first].next;
    }
    if (c->first >= 0) {
        const int next = c->first;
        c->first = queued[next].next;
        ask_send(conn, next);
    } else if (c->ended) {
        ask_close(conn);
    }
}

static void serve(void)
{
    for (;;) {
        const int result = io_uring_submit_and_wait(&ring, 1);
        if (result != -EINTR) must(result, "io_uring_submit_and_wait");
        struct io_uring_cqe *cqe;
        unsigned head, seen = 0;
        io_uring_for_each_cqe(&ring, head, cqe) {
            const int conn = (int)(uint32_t)cqe->user_data;
            seen++;
            switch (cqe->user_data >> 56) {
            case ACCEPT: on_accept(conn, cqe); break;
            case RECV: on_recv(conn, cqe); break;
            case SEND: on_send(conn, (int)(cqe->user_data >> 32 & 0xffff), cqe); break;
            case CLOSE: break;
            }
        }
        io_uring_buf_ring_advance(free_buffers, freed);
        freed = 0;
        io_uring_cq_advance(&ring, seen);
    }
}

/* ---- beginning ---- */

static void start_ring(void)
{
    struct io_uring_params setup = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                 IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE,
        .cq_entries = CQ_ENTRIES,
    };
    must(io_uring_queue_init_params(SQ_ENTRIES, &ring, &setup), "io_uring_queue_init");
    must(io_uring_register_ring_fd(&ring), "io_uring_register_ring_fd");
    must(io_uring_register_files_sparse(&ring, CONNS_MAX), "io_uring_register_files_sparse");

    free_buffers = aligned_alloc(4096, BUFFERS * sizeof(struct io_uring_buf));
    buffers = aligned_alloc(4096, BUFFERS * BUFFER_BYTES);
    if (free_buffers == NULL || buffers == NULL) abort();
    struct io_uring_buf_reg reg = {.ring_addr = (uintptr_t)free_buffers, .ring_entries = BUFFERS};
    must(io_uring_register_buf_ring(&ring, &reg, 0), "io_uring_register_buf_ring");
    io_uring_buf_ring_init(free_buffers);
    for (int i = 0; i < BUFFERS; i++) release(i);
    io_uring_buf_ring_advance(free_buffers, freed);
    freed = 0;
}

/* Accepted connections inherit TCP_NODELAY. */
static int start_listening(void)
{
    static const int one = 1;
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof addr;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0 ||
        bind(fd, (struct sockaddr *)&addr, length) != 0 || listen(fd, 4096) != 0 ||
        getsockname(fd, (struct sockaddr *)&addr, &length) != 0)
        must(-errno, "listen");
    printf("127.0.0.1:%d\n", ntohs(addr.sin_port));
    fflush(stdout);
    return fd;
}

int main(void)
{
    start_ring();
    ask_accept(start_listening());
    serve();
}
