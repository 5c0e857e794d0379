/* SPDX-License-Identifier: MIT
 *
 * Urgent data of TCP: a read stops where it stands, with more behind it that is told of no more.
 * The urgent byte itself is not part of what is read.
 */
#include "leases.h"

TEST_MAIN

static const char before[] = "abc", behind[] = "def";
enum { EACH = 3 };

/* All of it has come, on this machine, when the last call returns. */
static void send_with_urgent(hd_io io)
{
    const int fd = hd_io_fd(io);
    EXPECT_EQ(send(fd, before, EACH, 0), EACH);
    EXPECT_EQ(send(fd, "!", 1, MSG_OOB), 1);
    EXPECT_EQ(send(fd, behind, EACH, 0), EACH);
}

static void expect_both(const char *bytes)
{
    EXPECT_EQ(memcmp(bytes, before, EACH), 0);
    EXPECT_EQ(memcmp(bytes + EACH, behind, EACH), 0);
}

static int read_by_copy(void *arg)
{
    const hd_io *io = arg;
    char bytes[100];
    for (size_t got = 0; got < 2 * EACH;) {
        const ssize_t n = hd_read_until(*io, bytes + got, sizeof(bytes) - got, hd_after_ms(10000));
        EXPECT(n > 0);
        got += (size_t)n;
    }
    expect_both(bytes);
    return 0;
}

static int read_by_lease(void *arg)
{
    const hd_io *io = arg;
    char bytes[2 * EACH];
    for (size_t got = 0; got < sizeof(bytes);) {
        hd_lease lease = {0};
        const ssize_t n = hd_lease_read_until(*io, &lease, hd_after_ms(10000));
        EXPECT(n > 0 && got + lease.count <= sizeof(bytes));
        memcpy(bytes + got, lease.bytes, lease.count);
        got += lease.count;
        hd_lease_end(&lease);
    }
    expect_both(bytes);
    return 0;
}

struct how {
    hd_fn *read;
    bool much;    /* of the connection before */
    bool waiting; /* the reader, when it comes */
};

static int read_past_urgent(void *arg)
{
    const struct how *how = arg;
    hd_io ends[2];
    leases_pair(ends, how->much);
    for (int i = 0; i < 3; i++) {
        if (!how->waiting) send_with_urgent(ends[1]);
        hd_task *reader = rt_spawn(NULL, how->read, &ends[0]);
        if (how->waiting) {
            hd_yield();
            send_with_urgent(ends[1]);
        }
        EXPECT_EQ(rt_join(reader), 0);
    }
    nets_close(ends[0], ends[1]);
    return 0;
}

static void each_way(hd_fn *read, const hd_options *options)
{
    for (int bits = 0; bits < 4; bits++) {
        struct how how = {.read = read, .much = bits & 1, .waiting = bits & 2};
        leases_run(read_past_urgent, &how, options);
    }
}

TEST_DRIVERS(bytes_behind_urgent_ones_are_read, options) { each_way(read_by_copy, options); }
TEST_DRIVERS(bytes_behind_urgent_ones_are_leased, options) { each_way(read_by_lease, options); }
