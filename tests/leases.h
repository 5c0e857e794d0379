/* SPDX-License-Identifier: MIT
 *
 * leases: bytes that tell where in a stream they stand, sent and expected by leases or otherwise.
 * All expect success.
 */
#ifndef TEST_LEASES_H
#define TEST_LEASES_H

#include "nets.h"

enum { LEASES_LARGE = 16 << 10 }; /* more than a driver may receive before anybody asked */

static inline char leases_byte(size_t at)
{
    return (char)(at * 11 + at / 253);
}

/* These are the bytes of a stream from there on. */
static inline void leases_expect(const char *bytes, size_t count, size_t at)
{
    for (size_t i = 0; i < count; i++) EXPECT_EQ(bytes[i], leases_byte(at + i));
}

static inline char *leases_make(size_t count, size_t at)
{
    char *bytes = malloc(count);
    EXPECT(bytes != NULL);
    for (size_t i = 0; i < count; i++) bytes[i] = leases_byte(at + i);
    return bytes;
}

static inline bool leases_is_none(const hd_lease *lease)
{
    static const hd_lease none;
    return memcmp(lease, &none, sizeof(none)) == 0;
}

/* So many bytes of a stream, from there on. */
struct leases_part {
    hd_io io;
    size_t bytes, at;
    size_t piece; /* at most so many by one call; 0: all */
};

static inline int leases_send(void *arg)
{
    const struct leases_part *part = arg;
    const size_t piece = part->piece ? part->piece : part->bytes;
    char *bytes = leases_make(part->bytes, part->at);
    for (size_t sent = 0; sent < part->bytes;) {
        const size_t left = part->bytes - sent, n = left < piece ? left : piece;
        EXPECT_EQ(hd_write_all(part->io, bytes + sent, n, NULL), 0);
        sent += n;
    }
    free(bytes);
    return 0;
}

/* By leases. */
static inline int leases_take(void *arg)
{
    const struct leases_part *part = arg;
    for (size_t got = 0; got < part->bytes;) {
        hd_lease lease = {0};
        const ssize_t n = hd_lease_read(part->io, &lease);
        EXPECT(n > 0 && n <= HD_LEASE_MAX);
        EXPECT_EQ(lease.count, n);
        EXPECT((size_t)n <= part->bytes - got);
        leases_expect(lease.bytes, lease.count, part->at + got);
        got += lease.count;
        hd_lease_end(&lease);
        EXPECT(leases_is_none(&lease));
    }
    return 0;
}

/* By copies. */
static inline int leases_copy(void *arg)
{
    const struct leases_part *part = arg;
    if (part->bytes == 0) return 0;
    char *bytes = malloc(part->bytes);
    EXPECT_EQ(hd_read_exact(part->io, bytes, part->bytes, NULL), 0);
    leases_expect(bytes, part->bytes, part->at);
    free(bytes);
    return 0;
}

/* From one end to the other, where somebody waits by then, or is about to. */
static inline void leases_pass(hd_io from, hd_io to, size_t bytes, size_t at)
{
    struct leases_part sent = {.io = from, .bytes = bytes, .at = at}, expected = sent;
    expected.io = to;
    hd_task *reader = rt_spawn(NULL, leases_take, &expected);
    hd_yield();
    EXPECT_EQ(leases_send(&sent), 0);
    EXPECT_EQ(rt_join(reader), 0);
}

/* Two ends of a connection that has carried little, or much, both ways: drivers may treat those
 * differently from then on. */
static inline void leases_pair(hd_io ends[2], bool much)
{
    nets_watched_pair(ends);
    for (size_t round = 0; round < 3; round++) {
        leases_pass(ends[0], ends[1], much ? LEASES_LARGE : 10, round);
        leases_pass(ends[1], ends[0], much ? LEASES_LARGE : 10, round);
    }
}

/* A lease of the first of what is sent, which is not much: mostly of all, but in sim it may come in
 * several parts, of which the others are thrown away. */
static inline hd_lease leases_one(hd_io from, hd_io to, size_t bytes, size_t at)
{
    struct leases_part part = {.io = from, .bytes = bytes, .at = at};
    hd_lease lease = {0};
    EXPECT_EQ(leases_send(&part), 0);
    const ssize_t n = hd_lease_read(to, &lease);
    EXPECT(n > 0 && (size_t)n <= bytes);
    leases_expect(lease.bytes, lease.count, at);
    part = (struct leases_part){.io = to, .bytes = bytes - lease.count, .at = at + lease.count};
    EXPECT_EQ(leases_copy(&part), 0);
    return lease;
}

/* Whatever comes goes back, or on, until the end. */
struct leases_way {
    hd_io from, to;
};

static inline int leases_carry(void *arg)
{
    const struct leases_way *way = arg;
    hd_lease lease = {0};
    ssize_t n;
    while ((n = hd_lease_read(way->from, &lease)) > 0) {
        EXPECT_EQ(hd_lease_write(way->to, &lease), 0);
        EXPECT(leases_is_none(&lease));
    }
    EXPECT_EQ(n, 0);
    EXPECT(leases_is_none(&lease));
    return 0;
}

/* By one worker, which does nothing but what is asked of it; and by several. */
static inline void leases_run(hd_fn *fn, void *arg, const hd_options *options)
{
    const hd_options own = rt_one_lane(options);
    rt_run(fn, arg, &own);
    rt_run(fn, arg, options);
}

#endif
