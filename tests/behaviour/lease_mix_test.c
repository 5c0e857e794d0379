/* SPDX-License-Identifier: MIT
 *
 * One connection read by leases and by copies, and written so, in turn or at once: no byte is
 * lost, or comes before another, and nobody waits for what has come.
 */
#include "leases.h"

TEST_MAIN

enum way { BY_COPY, BY_LEASE };

/* A driver may receive for one who waits for a lease, and that may be more than a lease has. */
static const size_t bodies[] = {1, 100, 5000, HD_LEASE_MAX, 40000, 70000, 1000, 300000};
enum { BODIES = sizeof(bodies) / sizeof(*bodies), HEADER = 10 };

/* ---- reading: headers and bodies, each in its way ---- */

static void read_by(enum way way, hd_io io, size_t bytes, size_t at)
{
    struct leases_part part = {.io = io, .bytes = bytes, .at = at};
    EXPECT_EQ(way == BY_LEASE ? leases_take(&part) : leases_copy(&part), 0);
}

struct bodied {
    hd_io io;
    enum way body; /* headers are always copied: a lease takes what there is */
};

static int read_bodies(void *arg)
{
    const struct bodied *bodied = arg;
    for (size_t i = 0, at = 0; i < 2 * BODIES; i++) {
        const enum way way = i % 4 == 3 ? BY_LEASE : bodied->body;
        read_by(BY_COPY, bodied->io, HEADER, at);
        read_by(way, bodied->io, bodies[i % BODIES], at + HEADER);
        at += HEADER + bodies[i % BODIES];
        EXPECT_EQ(hd_write_all(bodied->io, "k", 1, NULL), 0);
    }
    return 0;
}

static int headers_and_bodies(void *arg)
{
    hd_io ends[2];
    char byte;
    leases_pair(ends, true);
    struct bodied bodied = {ends[0], *(enum way *)arg};
    hd_task *reader = rt_spawn(NULL, read_bodies, &bodied);
    for (size_t i = 0, at = 0; i < 2 * BODIES; i++) {
        struct leases_part part = {.io = ends[1], .bytes = HEADER + bodies[i % BODIES], .at = at};
        hd_yield(); /* It waits for the header. */
        EXPECT_EQ(leases_send(&part), 0);
        at += part.bytes;
        EXPECT_EQ(hd_read_exact(ends[1], &byte, 1, NULL), 0);
    }
    EXPECT_EQ(rt_join(reader), 0);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_IO(a_header_is_copied_and_its_body_leased, options)
{
    enum way way = BY_LEASE;
    leases_run(headers_and_bodies, &way, options);
}

TEST_IO(most_bodies_are_copied, options)
{
    enum way way = BY_COPY;
    leases_run(headers_and_bodies, &way, options);
}

/* ---- reading: a stream, in turn ---- */

/* Where what is leased ends cannot be told before, so the stream is followed. */
static int read_in_turn(void *arg)
{
    const struct leases_part *part = arg;
    char *block = malloc(50000);
    for (size_t got = 0, turn = 0; got < part->bytes; turn++) {
        hd_lease lease = {0};
        const size_t room = turn % 7 == 0 ? 50000 : 1 + turn * 131 % 3000;
        const ssize_t n = turn % 3 ? hd_read(part->io, block, room)
                                   : hd_lease_read(part->io, &lease);
        EXPECT(n > 0);
        leases_expect(turn % 3 ? block : lease.bytes, (size_t)n, part->at + got);
        got += (size_t)n;
        hd_lease_end(&lease);
        if (turn % 5 == 0) hd_yield();
    }
    free(block);
    return 0;
}

static int in_turn(void *arg)
{
    hd_io ends[2];
    const size_t pieces[] = {100, 3000, LEASES_LARGE, 40000};
    (void)arg;
    for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
        const size_t bytes = nets_in_sim() ? 100000 : 2 << 20;
        struct leases_part sent = {.bytes = bytes, .at = i, .piece = pieces[i]}, got = sent;
        leases_pair(ends, i % 2);
        sent.io = ends[1];
        got.io = ends[0];
        hd_task *reader = rt_spawn(NULL, read_in_turn, &got);
        EXPECT_EQ(leases_send(&sent), 0);
        EXPECT_EQ(rt_join(reader), 0);
        nets_close(ends[0], ends[1]);
    }
    return 0;
}

TEST_IO(a_stream_is_copied_and_leased_in_turn, options) { leases_run(in_turn, NULL, options); }

/* ---- reading: what was waited for otherwise ---- */

static void await_readable(hd_io io)
{
    hd_case readable = HD_READABLE(io);
    EXPECT_EQ(hd_select(&readable, 1), 0);
    EXPECT_EQ(readable.result, 0);
}

/* One read, of whatever there is. Returns how many bytes. */
static size_t read_once(enum way way, hd_io io, size_t at)
{
    static char block[60000];
    hd_lease lease = {0};
    const ssize_t n = way == BY_LEASE ? hd_lease_read(io, &lease)
                                      : hd_read(io, block, sizeof(block));
    EXPECT(n > 0);
    leases_expect(way == BY_LEASE ? lease.bytes : block, (size_t)n, at);
    hd_lease_end(&lease);
    return (size_t)n;
}

/* Two messages come, one after the other is known of; then both are read. */
struct two {
    hd_io io;
    size_t bytes;
    atomic_int known;
};

static int send_two(void *arg)
{
    struct two *two = arg;
    struct leases_part part = {.io = two->io, .bytes = two->bytes};
    EXPECT_EQ(leases_send(&part), 0);
    rt_until(&two->known);
    part.at = two->bytes;
    return leases_send(&part);
}

static void select_two(size_t bytes, bool byte_first, enum way way)
{
    hd_io ends[2];
    size_t got = byte_first;
    leases_pair(ends, true);
    struct two two = {.io = ends[1], .bytes = bytes};
    hd_task *sender = rt_spawn(NULL, send_two, &two);
    await_readable(ends[0]);
    atomic_store(&two.known, 1);
    EXPECT_EQ(hd_sleep_ms(1), 0); /* not for order: so that the driver hears of it, most times */
    if (byte_first) read_by(BY_COPY, ends[0], 1, 0);
    got += read_once(way, ends[0], got);
    read_by(BY_LEASE, ends[0], 2 * bytes - got, got);
    EXPECT_EQ(rt_join(sender), 0);
    nets_close(ends[0], ends[1]);
}

static int selected(void *arg)
{
    const size_t sizes[] = {10, 3000, LEASES_LARGE, 70000};
    (void)arg;
    for (int i = 0; i < 4 * 2 * 2; i++) {
        select_two(sizes[i % 4], i / 4 % 2, i / 8 ? BY_LEASE : BY_COPY);
    }
    return 0;
}

TEST_IO(what_was_selected_is_read_in_both_ways, options) { leases_run(selected, NULL, options); }

/* ---- reading: by two at once, who share what comes ---- */

struct sharing {
    hd_io io;
    enum way way;
    size_t *left; /* of both; only one worker looks */
};

static int share(void *arg)
{
    const struct sharing *sharing = arg;
    char *block = malloc(60000);
    while (*sharing->left > 0) {
        hd_lease lease = {0};
        const ssize_t n = sharing->way == BY_COPY ? hd_read(sharing->io, block, 60000)
                                                  : hd_lease_read(sharing->io, &lease);
        EXPECT(n >= 0 && (size_t)n <= *sharing->left);
        hd_lease_end(&lease);
        if (n == 0) break;
        *sharing->left -= (size_t)n;
    }
    free(block);
    return 0;
}

static int shared(void *arg)
{
    const size_t sizes[] = {10, 3000, LEASES_LARGE, 40000, 70000};
    (void)arg;
    for (size_t i = 0; i < 3 * 5; i++) {
        hd_io ends[2];
        size_t left = sizes[i % 5] * 3;
        hd_task *tasks[2];
        leases_pair(ends, true);
        struct sharing sharing[] = {{ends[0], i / 5 ? BY_COPY : BY_LEASE, &left},
                                    {ends[0], i / 5 == 2 ? BY_COPY : BY_LEASE, &left}};
        struct leases_part sent = {.io = ends[1], .bytes = sizes[i % 5]};
        for (int k = 0; k < 2; k++) tasks[k] = rt_spawn(NULL, share, &sharing[k]);
        for (int k = 0; k < 3; k++) {
            hd_yield();
            EXPECT_EQ(leases_send(&sent), 0);
        }
        while (left > 0) EXPECT_EQ(hd_sleep_ms(1), 0); /* Nothing else tells them to go on. */
        EXPECT_EQ(hd_shutdown(ends[1], SHUT_WR), 0);
        for (int k = 0; k < 2; k++) EXPECT_EQ(rt_join(tasks[k]), 0);
        nets_close(ends[0], ends[1]);
    }
    return 0;
}

TEST_IO(two_readers_share, options)
{
    const hd_options own = rt_one_lane(options);
    rt_run(shared, NULL, &own);
}

/* ---- writing ---- */

/* Bytes of a stream as leases: they come from elsewhere, with the right bytes. */
struct source {
    hd_io ends[2];
};

static void write_leased(struct source *source, hd_io to, size_t bytes, size_t at)
{
    struct leases_part part = {.io = source->ends[1], .bytes = bytes, .at = at};
    hd_task *sender = rt_spawn(NULL, leases_send, &part);
    for (size_t got = 0; got < bytes;) {
        hd_lease lease = {0};
        const ssize_t n = hd_lease_read(source->ends[0], &lease);
        EXPECT(n > 0);
        EXPECT_EQ(hd_lease_write(to, &lease), 0);
        got += (size_t)n;
    }
    EXPECT_EQ(rt_join(sender), 0);
}

/* Little and much, copied and leased, with and without a look of the worker in between. */
static int write_in_turn(void *arg)
{
    static const size_t sizes[] = {5, 2000, 1, 5000, 4096, 300, LEASES_LARGE, 64, 40000};
    hd_io ends[2];
    struct source source;
    const size_t turns = nets_in_sim() ? 60 : 400;
    size_t all = 0;
    (void)arg;
    leases_pair(ends, true);
    leases_pair(source.ends, true);
    for (size_t i = 0; i < turns; i++) all += sizes[i % 9];
    struct leases_part expected = {.io = ends[0], .bytes = all};
    hd_task *reader = rt_spawn(NULL, leases_take, &expected);
    for (size_t i = 0, at = 0; i < turns; at += sizes[i++ % 9]) {
        struct leases_part part = {.io = ends[1], .bytes = sizes[i % 9], .at = at};
        if (i % 4 < 2) write_leased(&source, ends[1], sizes[i % 9], at);
        else EXPECT_EQ(leases_send(&part), 0);
        if (i % 5 == 0) hd_yield();
    }
    EXPECT_EQ(rt_join(reader), 0);
    nets_close(ends[0], ends[1]);
    nets_close(source.ends[0], source.ends[1]);
    return 0;
}

TEST_IO(a_stream_is_written_in_both_ways, options) { leases_run(write_in_turn, NULL, options); }

static const size_t threes[] = {64, 2000, 10};

/* The same with nothing that waits in between, so that it stands in the same queue. Returns how
 * many bytes that were. */
static size_t write_three(hd_io to, int leased, hd_lease *lease)
{
    size_t at = 0;
    for (int i = 0; i < 3; i++) {
        const size_t bytes = i == leased ? lease->count : threes[i];
        struct leases_part part = {.io = to, .bytes = bytes, .at = at};
        if (i == leased) EXPECT_EQ(hd_lease_write(to, lease), 0);
        else EXPECT_EQ(leases_send(&part), 0);
        at += bytes;
    }
    return at;
}

static int write_at_once(void *arg)
{
    hd_io ends[2], from[2];
    (void)arg;
    for (int i = 0; i < 3 * 2; i++) {
        const int leased = i % 3;
        leases_pair(ends, i / 3);
        leases_pair(from, i / 3);
        const size_t at = (leased > 0 ? threes[0] : 0) + (leased > 1 ? threes[1] : 0);
        hd_lease lease = leases_one(from[1], from[0], threes[leased], at);
        read_by(BY_COPY, ends[0], write_three(ends[1], leased, &lease), 0);
        nets_close(ends[0], ends[1]);
        nets_close(from[0], from[1]);
    }
    return 0;
}

TEST_IO(a_lease_keeps_its_place, options) { leases_run(write_at_once, NULL, options); }
