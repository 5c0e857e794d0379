/* SPDX-License-Identifier: MIT
 *
 * TLS: calls whose deadline comes, where it comes, and that the connection goes on from there.
 */
#include "peers.h"

TEST_MAIN

enum {
    LATE_MS = 20,
    STEPS_NS_MAX = 50000, /* of a microsecond each; 9 were seen */
    PIECE_BYTES = 100000,
    MORE_BYTES = 1000,
};

static hd_sem opened;      /* what the other side, or who is in between, waits for */
static atomic_int reached; /* it does wait */

static void gate_init(void)
{
    EXPECT_EQ(hd_sem_init(&opened, 0), 0);
    atomic_store(&reached, 0);
}

static void gate_pass(void)
{
    atomic_store(&reached, 1);
    EXPECT_EQ(hd_sem_acquire(&opened, 1), 0);
}

static void gate_open(void)
{
    EXPECT_EQ(hd_sem_release(&opened, 1), 0);
}

/* A call with that deadline has just returned: not before it, and in sim, where time is ours, not
 * later than the steps take that are made then. */
static void expect_late(int err, int64_t deadline)
{
    const int64_t late_ns = hd_now(NULL) - deadline;
    EXPECT_EQ(err, -ETIMEDOUT);
    EXPECT(late_ns >= 0);
    if (nets_in_sim()) EXPECT(late_ns <= STEPS_NS_MAX);
}

static void handshake_late(hd_tls *tls)
{
    const int64_t deadline = hd_after_ms(LATE_MS);
    expect_late(hd_tls_handshake_until(tls, deadline), deadline);
}

/* Writing shakes hands first: nothing was taken. */
static void write_late(hd_tls *tls)
{
    const int64_t deadline = hd_after_ms(LATE_MS);
    size_t done = PIECE_BYTES;
    expect_late(hd_tls_write_all_until(tls, "xyz", 3, &done, deadline), deadline);
    EXPECT_EQ(done, 0);
}

/* ---- the other side says nothing ---- */

/* Late is not failed, nor is it done. */
static void expect_untouched(hd_tls *tls)
{
    char byte;
    EXPECT(hd_tls_version(tls) == NULL);
    EXPECT(strcmp(hd_tls_error(tls), "") == 0);
    EXPECT_EQ(hd_tls_shutdown(tls), -ENOTCONN);
    EXPECT_EQ(hd_tls_handshake_until(tls, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_tls_read_until(tls, &byte, 1, HD_NOW), -EAGAIN);
}

static int finish(hd_tls *tls)
{
    char bytes[4];
    EXPECT_EQ(hd_tls_handshake(tls), 0);
    EXPECT_EQ(hd_tls_write_all(tls, "abc", 3, NULL), 0);
    EXPECT_EQ(hd_tls_shutdown(tls), 0);
    size_t got = 0;
    ssize_t n;
    while ((n = hd_tls_read(tls, bytes + got, sizeof(bytes) - got)) > 0) got += (size_t)n;
    EXPECT_EQ(got, 3);
    EXPECT(memcmp(bytes, "abc", 3) == 0);
    return (int)n;
}

static int come_late(struct peer *peer)
{
    gate_pass();
    return finish(peer->tls);
}

static int lose_patience(struct peer *peer)
{
    handshake_late(peer->tls);
    expect_untouched(peer->tls);
    write_late(peer->tls);
    expect_untouched(peer->tls);
    handshake_late(peer->tls);
    gate_open();
    return finish(peer->tls);
}

TEST_PEERS(a_server_that_says_nothing, options, kind)
{
    gate_init();
    peers_meet(options, kind, lose_patience, come_late, 0, 0);
}

TEST_PEERS(a_client_that_says_nothing, options, kind)
{
    gate_init();
    peers_meet(options, kind, come_late, lose_patience, 0, 0);
}

/* ---- the handshake stops in the middle ---- */

enum direction { TO_SERVER, TO_CLIENT };
enum { AFTER_THE_ANSWER = 1 << 20 };

static struct stop {
    enum direction direction;
    size_t bytes;         /* which pass; AFTER_THE_ANSWER: all that come before it */
    atomic_int answered;  /* the server has */
} stop;

struct relay {
    hd_io from, to;
    enum direction direction;
};

static bool is_stop(const struct relay *relay, size_t passed)
{
    if (relay->direction != stop.direction || atomic_load(&reached)) return false;
    return passed == stop.bytes ||
           (stop.bytes == AFTER_THE_ANSWER && atomic_load(&stop.answered));
}

static int relay_to_stop(void *arg)
{
    const struct relay relay = *(struct relay *)arg;
    char byte;
    free(arg);
    for (size_t passed = 0; hd_read(relay.from, &byte, 1) == 1; passed++) {
        if (is_stop(&relay, passed)) gate_pass();
        if (relay.direction == TO_CLIENT) atomic_store(&stop.answered, 1);
        if (hd_write_all(relay.to, &byte, 1, NULL)) break;
    }
    hd_shutdown(relay.to, SHUT_WR);
    return 0;
}

static void between_stops(hd_io ends[4])
{
    for (int i = 0; i < 2; i++) {
        struct relay *relay = malloc(sizeof(*relay));
        *relay = (struct relay){ends[1 + i], ends[2 - i], i ? TO_CLIENT : TO_SERVER};
        hd_detach(rt_spawn(NULL, relay_to_stop, relay));
    }
}

static int talk(struct peer *peer)
{
    return finish(peer->tls);
}

static int stop_and_go(struct peer *peer)
{
    handshake_late(peer->tls);
    if (nets_in_sim()) EXPECT(atomic_load(&reached)); /* In live it takes the time it takes. */
    write_late(peer->tls);
    EXPECT(strcmp(hd_tls_error(peer->tls), "") == 0);
    gate_open();
    return finish(peer->tls);
}

static void stop_after(const hd_options *options, enum direction direction, size_t bytes)
{
    struct peers p;
    gate_init();
    stop.direction = direction;
    stop.bytes = bytes;
    atomic_store(&stop.answered, 0);
    peers_init(&p, NETS_TCP, direction == TO_CLIENT ? stop_and_go : talk,
               direction == TO_CLIENT ? talk : stop_and_go);
    p.between = between_stops;
    peers_expect(&p, options, 0, 0);
}

/* In a header, between records, in a certificate. */
TEST_IO(an_answer_that_stops, options)
{
    static const size_t places[] = {0, 3, 5, 127, 133, 600};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        stop_after(options, TO_CLIENT, places[i]);
    }
}

TEST_IO(a_client_that_stops, options)
{
    static const size_t places[] = {0, 3, 100, AFTER_THE_ANSWER};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        stop_after(options, TO_SERVER, places[i]);
    }
}

/* ---- nobody reads what we write ---- */

static unsigned char at(size_t place)
{
    return (unsigned char)(place * 31 + place / 256 * 7);
}

static void fill(unsigned char *piece, size_t bytes, size_t place)
{
    for (size_t i = 0; i < bytes; i++) piece[i] = at(place + i);
}

/* Write the stream from that place on. Returns how many bytes were taken when the deadline came. */
static size_t write_until_late(hd_tls *tls, size_t place)
{
    static unsigned char piece[PIECE_BYTES];
    const int64_t deadline = hd_after_ms(LATE_MS);
    size_t taken = 0;
    for (;;) {
        size_t done = 0;
        fill(piece, sizeof(piece), place + taken);
        const int err = hd_tls_write_all_until(tls, piece, sizeof(piece), &done, deadline);
        taken += done;
        if (err) {
            EXPECT(done < sizeof(piece));
            expect_late(err, deadline);
            return taken;
        }
        EXPECT_EQ(done, sizeof(piece));
    }
}

/* Reads what was taken by then, says so, and reads on. Returns how many bytes in all. */
static int read_when_told(struct peer *peer)
{
    static unsigned char piece[4000];
    size_t got = 0;
    ssize_t n = 1;
    EXPECT_EQ(hd_tls_handshake(peer->tls), 0);
    gate_pass();
    const size_t taken = peer->peers->moved;
    for (bool said = false; n > 0; got += (size_t)n) {
        if (got == taken && !said) {
            EXPECT_EQ(hd_tls_write(peer->tls, "k", 1), 1);
            said = true;
        }
        const size_t left = said ? sizeof(piece) : taken - got;
        n = hd_tls_read(peer->tls, piece, left < sizeof(piece) ? left : sizeof(piece));
        for (ssize_t i = 0; i < n; i++) EXPECT_EQ(piece[i], at(got + (size_t)i));
    }
    EXPECT_EQ(n, 0);
    EXPECT_EQ(hd_tls_shutdown(peer->tls), 0);
    return got > taken ? (int)(got - taken) : 0;
}

static void fill_stream(struct peer *peer)
{
    EXPECT_EQ(hd_tls_handshake(peer->tls), 0);
    peer->peers->moved = write_until_late(peer->tls, 0);
    EXPECT(peer->peers->moved > 0);
    EXPECT(strcmp(hd_tls_error(peer->tls), "") == 0);
}

/* The same, and there will be no room either. Not so with TCP, which may make some later. */
static void fill_for_good(struct peer *peer)
{
    EXPECT_EQ(peer->peers->kind, NETS_UNIX);
    fill_stream(peer);
    peer->peers->moved += write_until_late(peer->tls, peer->peers->moved);
}

static int hear_and_part(hd_tls *tls)
{
    char byte = 0;
    EXPECT_EQ(hd_tls_read(tls, &byte, 1), 1);
    EXPECT_EQ(byte, 'k');
    EXPECT_EQ(hd_tls_shutdown(tls), 0);
    return (int)hd_tls_read(tls, &byte, 1);
}

static int go_on_writing(struct peer *peer)
{
    unsigned char more[MORE_BYTES];
    fill_stream(peer);
    gate_open();
    fill(more, sizeof(more), peer->peers->moved);
    EXPECT_EQ(hd_tls_write_all(peer->tls, more, sizeof(more), NULL), 0);
    return hear_and_part(peer->tls);
}

TEST_PEERS(writing_goes_on, options, kind)
{
    gate_init();
    peers_meet(options, kind, go_on_writing, read_when_told, 0, MORE_BYTES);
}

/* What waits in memory is sent by any call. */
static int only_read(struct peer *peer)
{
    fill_stream(peer);
    gate_open();
    return hear_and_part(peer->tls);
}

TEST_PEERS(reading_sends_the_rest, options, kind)
{
    gate_init();
    peers_meet(options, kind, only_read, read_when_told, 0, 0);
}

static int only_part(struct peer *peer)
{
    fill_for_good(peer);
    const int64_t deadline = hd_after_ms(LATE_MS);
    expect_late(hd_tls_shutdown_until(peer->tls, deadline), deadline);
    gate_open();
    EXPECT_EQ(hd_tls_shutdown(peer->tls), 0);
    return hear_and_part(peer->tls);
}

TEST_IO(so_does_a_goodbye, options)
{
    gate_init();
    peers_meet(options, NETS_UNIX, only_part, read_when_told, 0, 0);
}

static int only_shake(struct peer *peer)
{
    fill_for_good(peer);
    handshake_late(peer->tls); /* It was done, but what it would send is not. */
    gate_open();
    EXPECT_EQ(hd_tls_handshake(peer->tls), 0);
    return hear_and_part(peer->tls);
}

TEST_IO(and_a_handshake, options)
{
    gate_init();
    peers_meet(options, NETS_UNIX, only_shake, read_when_told, 0, 0);
}

/* ---- somebody else is before us, and has all the time ---- */

static int shake_beside(void *tls)
{
    return hd_tls_handshake(tls);
}

static int wait_behind_a_handshake(struct peer *peer)
{
    hd_task *first = rt_spawn(NULL, shake_beside, peer->tls);
    hd_yield();
    handshake_late(peer->tls);
    write_late(peer->tls);
    gate_open();
    EXPECT_EQ(rt_join(first), 0);
    return finish(peer->tls);
}

TEST_PEERS(behind_another_handshake, options, kind)
{
    gate_init();
    peers_meet(options, kind, wait_behind_a_handshake, come_late, 0, 0);
}

static int write_beside(void *arg)
{
    const struct peer *peer = arg;
    unsigned char more[MORE_BYTES];
    fill(more, sizeof(more), peer->peers->moved);
    return hd_tls_write_all(peer->tls, more, sizeof(more), NULL);
}

static int wait_behind_a_writer(struct peer *peer)
{
    fill_for_good(peer);
    hd_task *first = rt_spawn(NULL, write_beside, peer);
    hd_yield();
    write_late(peer->tls);
    gate_open();
    EXPECT_EQ(rt_join(first), 0);
    return hear_and_part(peer->tls);
}

TEST_IO(behind_another_writer, options)
{
    gate_init();
    peers_meet(options, NETS_UNIX, wait_behind_a_writer, read_when_told, 0, MORE_BYTES);
}
