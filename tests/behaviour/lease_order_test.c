/* SPDX-License-Identifier: MIT
 *
 * Several readers of one connection, on several threads, by leases and by copies: no byte is read
 * twice or by nobody, and none by a call that began after a later one had been read. And another
 * thread closes it.
 */
#include <pthread.h>
#include <sched.h>

#include "leases.h"

TEST_MAIN

/* The stream is of records that tell where they stand: one byte with its highest bit set, and seven
 * without. So does any part of it that has one whole. */
enum { RECORD = 8, PIECE_MAX = 40000, DIGIT = 7 /* bits */ };

static unsigned char byte_at(uint64_t at)
{
    const uint64_t number = at / RECORD, place = at % RECORD;
    return place == 0 ? 0x80 : (unsigned char)(number >> ((place - 1) * DIGIT) & 127);
}

/* Where in the stream these bytes stand. Returns false if they are too few to tell. */
static bool find_position(const unsigned char *bytes, size_t count, uint64_t *at)
{
    size_t first = 0;
    uint64_t number = 0;
    while (first < count && !(bytes[first] & 0x80)) first++;
    if (first + RECORD > count) return false;
    for (int i = 1; i < RECORD; i++) {
        number |= (uint64_t)bytes[first + (size_t)i] << ((i - 1) * DIGIT);
    }
    *at = number * RECORD - first;
    return true;
}

struct piece {
    uint64_t at, end;
};

struct stream {
    hd_io io;
    uint64_t bytes;
    _Atomic(uint64_t) behind; /* what was read by a call that has returned: up to there */
    pthread_mutex_t lock;     /* for what follows */
    struct piece *pieces;     /* as they were read; but those of few bytes only by their values */
    size_t count, room;
    uint64_t few[256];
};

static void note_piece(struct stream *stream, struct piece piece)
{
    pthread_mutex_lock(&stream->lock);
    if (stream->count == stream->room) {
        stream->room = stream->room ? stream->room * 2 : 1024;
        stream->pieces = realloc(stream->pieces, stream->room * sizeof(piece));
        EXPECT(stream->pieces != NULL);
    }
    stream->pieces[stream->count++] = piece;
    pthread_mutex_unlock(&stream->lock);
}

static void note_few(struct stream *stream, const unsigned char *bytes, size_t count)
{
    pthread_mutex_lock(&stream->lock);
    for (size_t i = 0; i < count; i++) stream->few[bytes[i]]++;
    pthread_mutex_unlock(&stream->lock);
}

/* Some bytes were read by a call before which `behind` was that. */
static void check_read(struct stream *stream, uint64_t behind, const char *got, size_t count)
{
    const unsigned char *bytes = (const unsigned char *)got;
    uint64_t at = 0;
    if (!find_position(bytes, count, &at)) {
        note_few(stream, bytes, count);
        return;
    }
    const uint64_t end = at + count;
    EXPECT(at >= behind && end <= stream->bytes);
    for (uint64_t i = 0; i < count; i++) EXPECT_EQ(bytes[i], byte_at(at + i));
    uint64_t seen = atomic_load(&stream->behind);
    while (seen < end && !atomic_compare_exchange_weak(&stream->behind, &seen, end)) continue;
    note_piece(stream, (struct piece){at, end});
}

static int compare_pieces(const void *a, const void *b)
{
    const uint64_t x = ((const struct piece *)a)->at, y = ((const struct piece *)b)->at;
    return (x > y) - (x < y);
}

/* No byte was read twice, and what lies between the pieces is what came by a few at a time. */
static void check_all_read(struct stream *stream)
{
    uint64_t missing[256] = {0}, end = 0;
    note_piece(stream, (struct piece){stream->bytes, stream->bytes});
    qsort(stream->pieces, stream->count, sizeof(*stream->pieces), compare_pieces);
    for (size_t i = 0; i < stream->count; i++) {
        EXPECT(stream->pieces[i].at >= end);
        for (; end < stream->pieces[i].at; end++) missing[byte_at(end)]++;
        end = stream->pieces[i].end;
    }
    EXPECT_EQ(memcmp(missing, stream->few, sizeof(missing)), 0);
    free(stream->pieces);
}

static int write_stream(void *arg)
{
    struct stream *stream = arg;
    unsigned char *block = malloc(PIECE_MAX);
    for (uint64_t at = 0, turn = 0; at < stream->bytes; turn++) {
        size_t piece = 16 + turn * 4168 % (PIECE_MAX - 16) / RECORD * RECORD;
        if (piece > stream->bytes - at) piece = stream->bytes - at;
        for (size_t i = 0; i < piece; i++) block[i] = byte_at(at + i);
        EXPECT_EQ(hd_write_all(stream->io, block, piece, NULL), 0);
        at += piece;
        if (turn % 3 == 0) hd_yield();
    }
    free(block);
    return 0;
}

/* Until the end. */
static int read_waiting(void *arg)
{
    struct stream *stream = arg;
    for (;;) {
        hd_lease lease = {0};
        const uint64_t behind = atomic_load(&stream->behind);
        const ssize_t n = hd_lease_read(stream->io, &lease);
        if (n == 0) return 0;
        EXPECT(n > 0);
        check_read(stream, behind, lease.bytes, lease.count);
        hd_lease_end(&lease);
    }
}

/* Who does not wait comes at any moment, also while a driver receives for who does. */
static void *read_looking(void *arg)
{
    struct stream *stream = arg;
    char *block = malloc(PIECE_MAX);
    ssize_t n;
    for (unsigned turn = 0;; turn++) {
        hd_lease lease = {0};
        const uint64_t behind = atomic_load(&stream->behind);
        n = turn % 2 ? hd_lease_read_until(stream->io, &lease, HD_NOW)
                     : hd_read_until(stream->io, block, PIECE_MAX, HD_NOW);
        if (n == 0) break;
        EXPECT(n > 0 || n == -EAGAIN);
        if (n == -EAGAIN) sched_yield();
        else check_read(stream, behind, turn % 2 ? lease.bytes : block, (size_t)n);
        hd_lease_end(&lease);
    }
    free(block);
    return NULL;
}

enum { LOOKERS = 2, WAITERS = 2, STREAM_BYTES = 64 << 20 };

static int many_readers(void *arg)
{
    hd_io ends[2];
    pthread_t threads[LOOKERS];
    hd_task *tasks[WAITERS];
    (void)arg;
    leases_pair(ends, true);
    struct stream in = {.io = ends[0], .bytes = STREAM_BYTES}, out = in;
    EXPECT_EQ(pthread_mutex_init(&in.lock, NULL), 0);
    out.io = ends[1];
    for (int i = 0; i < WAITERS; i++) tasks[i] = rt_spawn(NULL, read_waiting, &in);
    for (int i = 0; i < LOOKERS; i++) {
        EXPECT_EQ(pthread_create(&threads[i], NULL, read_looking, &in), 0);
    }
    EXPECT_EQ(write_stream(&out), 0);
    EXPECT_EQ(hd_shutdown(ends[1], SHUT_WR), 0);
    for (int i = 0; i < WAITERS; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    for (int i = 0; i < LOOKERS; i++) EXPECT_EQ(pthread_join(threads[i], NULL), 0);
    check_all_read(&in);
    pthread_mutex_destroy(&in.lock);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_DRIVERS(readers_on_several_threads, options) { leases_run(many_readers, NULL, options); }

/* ---- closing ---- */

struct closing {
    hd_io io;
    atomic_int go;
    unsigned later;
    atomic_uint spins;
};

static int close_when_told(void *arg)
{
    struct closing *closing = arg;
    while (!atomic_load(&closing->go)) continue; /* on a worker of its own */
    while (atomic_fetch_add(&closing->spins, 1) < closing->later) continue;
    return hd_close(closing->io);
}

static int read_until_closed(void *arg)
{
    struct closing *closing = arg;
    hd_lease lease = {0};
    ssize_t n;
    size_t at = 0;
    while ((n = hd_lease_read(closing->io, &lease)) > 0) {
        leases_expect(lease.bytes, lease.count, at);
        at += lease.count;
        hd_lease_end(&lease);
    }
    return (int)n;
}

/* It is closed while the driver receives from it, or before, or after; the next has its place. */
static int close_from_elsewhere(void *arg)
{
    hd_dispatcher *single;
    hd_spawn_options there = HD_SPAWN_OPTIONS_INIT;
    (void)arg;
    EXPECT_EQ(hd_dispatcher_single(&single, hd_runtime_self()), 0);
    there.dispatcher = single;
    for (unsigned i = 0; i < 400; i++) {
        hd_io ends[2];
        hd_task *closer;
        leases_pair(ends, true);
        struct closing closing = {.io = ends[0], .later = i % 40 * 40};
        struct leases_part part = {.io = ends[1], .bytes = 30000};
        EXPECT_EQ(hd_spawn_with(&closer, close_when_told, &closing, &there), 0);
        hd_task *reader = rt_spawn(NULL, read_until_closed, &closing);
        hd_yield(); /* It waits. */
        EXPECT_EQ(leases_send(&part), 0);
        atomic_store(&closing.go, 1);
        const int err = rt_join(reader);
        EXPECT(err == -ECANCELED || err == -EBADF);
        EXPECT_EQ(rt_join(closer), 0);
        EXPECT_EQ(hd_close(ends[1]), 0);
    }
    hd_dispatcher_unref(single);
    return 0;
}

TEST_DRIVERS(a_close_from_another_dispatcher, options)
{
    const hd_options own = rt_one_lane(options);
    rt_run(close_from_elsewhere, NULL, &own);
}
