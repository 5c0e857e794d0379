/* SPDX-License-Identifier: MIT
 *
 * TLS: bytes arrive whole and in order, whatever the stream does and whichever calls give up; and
 * an end that is none is told from one that is.
 */
#include <sys/socket.h>

#include "peers.h"

TEST_MAIN

enum { BULK = 300000 };

/* The byte at a place of a stream. */
static unsigned char at(size_t place)
{
    return (unsigned char)(place * 31 + (place >> 8) * 7 + (place >> 16));
}

static int send_bulk(hd_tls *tls, size_t bytes)
{
    unsigned char piece[5000];
    size_t sent = 0;
    for (size_t step = 1; sent < bytes; step = step * 5 % 4999 + 1) {
        const size_t n = step < bytes - sent ? step : bytes - sent;
        for (size_t i = 0; i < n; i++) piece[i] = at(sent + i);
        size_t done = 0;
        const int err = hd_tls_write_all(tls, piece, n, &done);
        if (err) return err;
        EXPECT_EQ(done, n);
        sent += n;
    }
    return 0;
}

/* Returns: how many bytes came before the clean end, or an error. */
static ssize_t receive_bulk(hd_tls *tls)
{
    unsigned char piece[3000];
    size_t got = 0;
    ssize_t n;
    while ((n = hd_tls_read(tls, piece, 1 + got % sizeof(piece))) > 0) {
        for (size_t i = 0; i < (size_t)n; i++) EXPECT_EQ(piece[i], at(got + i));
        got += (size_t)n;
    }
    return n ? n : (ssize_t)got;
}

static int send_and_leave(struct peer *peer)
{
    const int err = send_bulk(peer->tls, BULK);
    return err ? err : hd_tls_shutdown(peer->tls);
}

static int receive(struct peer *peer)
{
    return (int)receive_bulk(peer->tls);
}

TEST_PEERS(much_from_server_to_client, options, kind)
{
    peers_meet(options, kind, receive, send_and_leave, BULK, 0);
}

/* ---- both directions at once, a fiber for each ---- */

static int send_beside(void *arg)
{
    return send_and_leave(arg);
}

static int both_ways(struct peer *peer)
{
    hd_task *sender = rt_spawn(NULL, send_beside, peer); /* Either of us shakes hands. */
    const ssize_t got = receive_bulk(peer->tls);
    EXPECT_EQ(rt_join(sender), 0);
    return (int)got;
}

TEST_PEERS(both_directions_at_once, options, kind)
{
    peers_meet(options, kind, both_ways, both_ways, BULK, BULK);
}

/* ---- byte by byte ---- */

struct relay {
    hd_io from, to;
};

static int relay_bytes(void *arg)
{
    const struct relay relay = *(struct relay *)arg;
    char byte;
    free(arg);
    while (hd_read(relay.from, &byte, 1) == 1) {
        if (hd_write_all(relay.to, &byte, 1, NULL)) break;
    }
    hd_shutdown(relay.to, SHUT_WR);
    return 0;
}

static void relay_between(hd_io ends[4])
{
    for (int i = 0; i < 2; i++) {
        struct relay *relay = malloc(sizeof(*relay));
        *relay = (struct relay){ends[1 + i], ends[2 - i]};
        hd_detach(rt_spawn(NULL, relay_bytes, relay));
    }
}

static int send_little(struct peer *peer)
{
    const int err = send_bulk(peer->tls, 2000);
    return err ? err : hd_tls_shutdown(peer->tls);
}

TEST_PEERS(byte_by_byte, options, kind)
{
    struct peers p;
    peers_init(&p, kind, receive, send_little);
    p.between = relay_between;
    peers_expect(&p, options, 2000, 0);
}

/* ---- the end ---- */

static int send_and_vanish(struct peer *peer)
{
    return send_bulk(peer->tls, 2000);
}

TEST_PEERS(an_end_without_a_goodbye, options, kind)
{
    struct peers p;
    peers_init(&p, kind, receive, send_and_vanish);
    peers_expect(&p, options, -ECONNABORTED, 0);
    expect_text(p.client.error, "without a goodbye");
}

/* Writes half a record by itself. */
static int send_half_a_record(struct peer *peer)
{
    static const unsigned char half[] = {23, 3, 3, 0, 100, 1, 2, 3};
    EXPECT_EQ(send_bulk(peer->tls, 2000), 0);
    return hd_write_all(peer->conn, half, sizeof(half), NULL);
}

TEST_PEERS(an_end_in_the_middle_of_a_record, options, kind)
{
    peers_meet(options, kind, receive, send_half_a_record, -ECONNABORTED, 0);
}

static int send_a_forgery(struct peer *peer)
{
    unsigned char forged[5 + 100] = {23, 3, 3, 0, 100};
    EXPECT_EQ(send_bulk(peer->tls, 2000), 0);
    EXPECT_EQ(hd_write_all(peer->conn, forged, sizeof(forged), NULL), 0);
    char byte;
    return (int)hd_tls_read(peer->tls, &byte, 1);
}

TEST_PEERS(a_forged_record, options, kind)
{
    struct peers p;
    peers_init(&p, kind, receive, send_a_forgery);
    peers_expect(&p, options, -EPROTO, -EPROTO); /* The client said so. */
    expect_text(p.client.error, "bad record mac");
}

/* After its goodbye a side still reads. */
static int ask_and_listen(struct peer *peer)
{
    char byte;
    EXPECT_EQ(hd_tls_write(peer->tls, "?", 1), 1);
    EXPECT_EQ(hd_tls_shutdown(peer->tls), 0);
    EXPECT_EQ(hd_tls_shutdown(peer->tls), 0);
    EXPECT_EQ(hd_tls_write(peer->tls, "x", 1), -EPIPE);
    const int got = (int)receive_bulk(peer->tls);
    EXPECT_EQ(hd_tls_read(peer->tls, &byte, 1), 0); /* still */
    return got;
}

static int answer_after_the_end(struct peer *peer)
{
    char byte;
    EXPECT_EQ(hd_tls_read(peer->tls, &byte, 1), 1);
    EXPECT_EQ(hd_tls_read(peer->tls, &byte, 1), 0);
    return send_and_leave(peer);
}

TEST_PEERS(each_direction_ends_by_itself, options, kind)
{
    peers_meet(options, kind, ask_and_listen, answer_after_the_end, BULK, 0);
}

/* ---- calls that give up ---- */

/* Each call has a deadline that mostly comes first, or none at all. */
static int send_impatiently(struct peer *peer)
{
    unsigned char piece[16000];
    size_t sent = 0;
    unsigned late = 0;
    while (sent < 60000) {
        for (size_t i = 0; i < sizeof(piece); i++) piece[i] = at(sent + i);
        const size_t left = 60000 - sent;
        const int64_t deadline = late % 3 == 0 ? HD_NOW : hd_now(NULL) + 5000;
        const ssize_t n = hd_tls_write_until(
            peer->tls, piece, left < sizeof(piece) ? left : sizeof(piece), deadline);
        if (n < 0) {
            EXPECT(n == -ETIMEDOUT || n == -EAGAIN);
            late++;
            hd_yield();
        } else {
            sent += (size_t)n;
        }
    }
    int err;
    while ((err = hd_tls_shutdown_until(peer->tls, hd_now(NULL) + 5000)) == -ETIMEDOUT) hd_yield();
    return err;
}

static int receive_impatiently(struct peer *peer)
{
    unsigned char piece[700];
    size_t got = 0;
    for (unsigned calls = 0;; calls++) {
        const int64_t deadline = calls % 3 == 0 ? HD_NOW : hd_now(NULL) + 5000;
        const ssize_t n = hd_tls_read_until(peer->tls, piece, sizeof(piece), deadline);
        if (n == 0) return (int)got;
        if (n < 0) {
            EXPECT(n == -ETIMEDOUT || n == -EAGAIN);
            hd_yield();
            continue;
        }
        for (size_t i = 0; i < (size_t)n; i++) EXPECT_EQ(piece[i], at(got + i));
        got += (size_t)n;
    }
}

TEST_PEERS(deadlines_lose_nothing, options, kind)
{
    peers_meet(options, kind, receive_impatiently, send_impatiently, 60000, 0);
}

/* One task after another goes on with the same stream, each until it is cancelled. */
struct turns {
    hd_tls *tls;
    size_t moved, most;
    bool writes;
    int err;
};

static int take_turn(void *arg)
{
    struct turns *t = arg;
    unsigned char piece[4000];
    while (t->moved < t->most) {
        const size_t left = t->most - t->moved;
        const size_t n = left < sizeof(piece) ? left : sizeof(piece);
        for (size_t i = 0; t->writes && i < n; i++) piece[i] = at(t->moved + i);
        const ssize_t done = t->writes ? hd_tls_write(t->tls, piece, n)
                                       : hd_tls_read(t->tls, piece, n);
        if (done <= 0) {
            t->err = done ? (int)done : -EPIPE;
            return 0;
        }
        for (size_t i = 0; !t->writes && i < (size_t)done; i++) {
            EXPECT_EQ(piece[i], at(t->moved + i));
        }
        t->moved += (size_t)done;
    }
    t->err = 0;
    return 0;
}

static int move_by_turns(struct peer *peer, bool writes)
{
    struct turns turns = {peer->tls, 0, BULK, writes, -ECANCELED};
    for (int i = 0; turns.err == -ECANCELED; i++) {
        hd_task *task = rt_spawn(NULL, take_turn, &turns);
        for (int k = 0; k < i % 7; k++) hd_yield();
        hd_cancel(task);
        EXPECT_EQ(rt_join(task), 0);
    }
    return turns.err;
}

static int read_by_turns(struct peer *peer)
{
    return move_by_turns(peer, false);
}

static int write_by_turns(struct peer *peer)
{
    const int err = move_by_turns(peer, true);
    return err ? err : hd_tls_shutdown(peer->tls);
}

TEST_PEERS(cancelled_readers_lose_nothing, options, kind)
{
    peers_meet(options, kind, read_by_turns, send_and_leave, 0, 0);
}

TEST_PEERS(cancelled_writers_lose_nothing, options, kind)
{
    peers_meet(options, kind, receive, write_by_turns, BULK, 0);
}

/* ---- nobody reads what we write, while it comes to us: no waiting for each other ---- */

static int write_until_full(struct peer *peer)
{
    unsigned char piece[16384] = {0};
    ssize_t n;
    EXPECT_EQ(hd_tls_handshake(peer->tls), 0);
    while ((n = hd_tls_write_until(peer->tls, piece, sizeof(piece), HD_NOW)) != -EAGAIN) {
        EXPECT(n > 0 || n == -EAGAIN);
        peer->peers->moved += (unsigned long)n;
    }
    /* A record of ours waits half sent. What comes can be read nevertheless. */
    return (int)receive_bulk(peer->tls);
}

static int read_at_last(struct peer *peer)
{
    unsigned char piece[1000];
    EXPECT_EQ(send_bulk(peer->tls, BULK), 0); /* more than the stream holds */
    atomic_store(&peer->peers->flag, 1);
    EXPECT_EQ(hd_tls_shutdown(peer->tls), 0);
    unsigned long got = 0;
    for (ssize_t n; (n = hd_tls_read(peer->tls, piece, sizeof(piece))) > 0;) got += (size_t)n;
    EXPECT(got <= peer->peers->moved);
    return 0;
}

TEST_PEERS(reading_does_not_wait_for_a_full_stream, options, kind)
{
    struct peers p;
    peers_init(&p, kind, write_until_full, read_at_last);
    peers_expect(&p, options, BULK, 0);
    EXPECT(p.moved > 0);
}

/* A connection that is closed under its waiters. */
static int close_beside(void *arg)
{
    struct peer *peer = arg;
    rt_until(&peer->peers->flag);
    return hd_close(peer->conn);
}

static int wait_for_the_close(struct peer *peer)
{
    char byte;
    EXPECT_EQ(hd_tls_read(peer->tls, &byte, 1), 1);
    hd_task *closer = rt_spawn(NULL, close_beside, peer);
    atomic_store(&peer->peers->flag, 1);
    const ssize_t n = hd_tls_read(peer->tls, &byte, 1);
    EXPECT(n == -ECANCELED || n == -EBADF);
    EXPECT_EQ(rt_join(closer), 0);
    EXPECT_EQ(hd_tls_read(peer->tls, &byte, 1), -EBADF);
    EXPECT_EQ(hd_tls_write(peer->tls, &byte, 1), -EBADF);
    return 0;
}

static int close_after_them(struct peer *peer)
{
    char byte;
    EXPECT_EQ(hd_tls_write(peer->tls, "x", 1), 1);
    EXPECT_EQ(hd_tls_read(peer->tls, &byte, 1), -ECONNABORTED);
    return hd_close(peer->conn);
}

TEST_PEERS(closing_wakes_who_waits, options, kind)
{
    struct peers p;
    peers_init(&p, kind, wait_for_the_close, close_after_them);
    p.keep_open = true;
    peers_expect(&p, options, 0, 0);
}

/* ---- readers and writers over it ---- */

static int ask_by_lines(struct peer *peer)
{
    char in_memory[64], out_memory[64];
    const char *line = NULL;
    hd_reader in;
    hd_writer out;
    hd_reader_init_fn(&in, hd_tls_read_fn, peer->tls, in_memory, sizeof(in_memory));
    hd_writer_init_fn(&out, hd_tls_write_fn, peer->tls, out_memory, sizeof(out_memory));
    for (int i = 0; i < 50; i++) {
        EXPECT_EQ(hd_writer_printf(&out, "what is %d times %d?\r\n", i, i), 0);
        EXPECT_EQ(hd_writer_flush(&out), 0);
        const ssize_t n = hd_read_line(&in, &line);
        EXPECT(n > 0 && n < 20);
        EXPECT_EQ(strtol(line, NULL, 10), i * i);
    }
    EXPECT_EQ(hd_tls_shutdown(peer->tls), 0);
    return (int)hd_read_line(&in, &line);
}

static int answer_lines(struct peer *peer)
{
    char in_memory[64], out_memory[64];
    const char *line = NULL;
    ssize_t n;
    hd_reader in;
    hd_writer out;
    hd_reader_init_fn(&in, hd_tls_read_fn, peer->tls, in_memory, sizeof(in_memory));
    hd_writer_init_fn(&out, hd_tls_write_fn, peer->tls, out_memory, sizeof(out_memory));
    while ((n = hd_read_line(&in, &line)) >= 0) {
        const long i = strtol(line + strlen("what is "), NULL, 10);
        EXPECT_EQ(hd_writer_printf(&out, "%ld\n", i * i), 0);
        EXPECT_EQ(hd_writer_flush(&out), 0);
    }
    EXPECT_EQ(n, -EPIPE);
    return hd_tls_shutdown(peer->tls);
}

TEST_PEERS(lines, options, kind)
{
    peers_meet(options, kind, ask_by_lines, answer_lines, -EPIPE, 0);
}
