/* SPDX-License-Identifier: MIT
 *
 * A cancel and a timeout at every wait of a task that reads by leases, or writes them: no byte is
 * lost, or comes twice, and a lease that was not written goes on with the rest.
 */
#include "waitpoints.h"

#include "leases.h"

TEST_MAIN

enum { BYTES = 3000, PIECE = 700 };

/* ---- reading ---- */

struct reading {
    hd_io io;
    size_t got;
};

static int read_all(void *arg)
{
    struct reading *reading = arg;
    while (reading->got < BYTES) {
        hd_lease lease = {0};
        ssize_t n;
        do n = hd_lease_read_until(reading->io, &lease, wp_until());
        while (wp_again((int)n));
        if (n < 0) {
            EXPECT(leases_is_none(&lease));
            return (int)n;
        }
        EXPECT(n > 0);
        leases_expect(lease.bytes, lease.count, reading->got);
        reading->got += lease.count;
        hd_lease_end(&lease);
    }
    return 0;
}

/* Whoever comes next reads the rest. */
static void read_by_another(enum nets_kind kind)
{
    hd_io ends[2];
    nets_pair(kind, ends);
    struct leases_part sent = {ends[1], BYTES, 0, PIECE};
    struct reading reading = {.io = ends[0]};
    hd_task *sender = rt_spawn(NULL, leases_send, &sent);
    wp_spawn(read_all, &reading);
    if (wp_join() == 0) EXPECT_EQ(reading.got, BYTES);
    struct leases_part rest = {ends[0], BYTES - reading.got, reading.got, 0};
    EXPECT_EQ(leases_take(&rest), 0);
    EXPECT_EQ(rt_join(sender), 0);
    nets_close(ends[0], ends[1]);
}

WAITPOINTS(a_reader_by_tcp) { read_by_another(NETS_TCP); }

WAITPOINTS(a_reader_of_a_pipe) { read_by_another(NETS_PIPE); }

/* ---- writing ---- */

struct writing {
    hd_io from, to;
    size_t written;
    hd_lease left;
};

/* As much as was read for it; the rest is kept. */
static int carry(void *arg)
{
    struct writing *writing = arg;
    hd_lease *lease = &writing->left;
    for (;;) {
        ssize_t n;
        do n = hd_lease_read_until(writing->from, lease, wp_until());
        while (wp_again((int)n));
        if (n <= 0) return (int)n;
        int err;
        do {
            const size_t before = lease->count;
            err = hd_lease_write_until(writing->to, lease, wp_until());
            writing->written += before - lease->count;
            if (err) leases_expect(lease->bytes, lease->count, writing->written);
        } while (wp_again(err));
        if (err) return err;
        EXPECT(leases_is_none(lease));
    }
}

enum { MUCH = 200000 }; /* more than there is room for */

static int send_and_end(void *arg)
{
    const struct leases_part *sent = arg;
    EXPECT_EQ(leases_send(arg), 0);
    return hd_shutdown(sent->io, SHUT_WR);
}

/* What it has written arrives; another writes the rest. */
WAITPOINTS(a_proxy)
{
    hd_io in[2], out[2];
    nets_pair(NETS_TCP, in);
    nets_pair(NETS_TCP, out);
    struct writing writing = {.from = in[0], .to = out[1]};
    struct leases_part sent = {in[1], MUCH, 0, 0}, expected = {out[0], MUCH, 0, 0};
    hd_task *sender = rt_spawn(NULL, send_and_end, &sent);
    hd_task *reader = rt_spawn(NULL, leases_take, &expected);
    wp_spawn(carry, &writing);
    const int err = wp_join();
    if (!err) EXPECT_EQ(writing.written, MUCH);
    if (err) EXPECT_EQ(writing.left.count > 0, !leases_is_none(&writing.left));
    if (!leases_is_none(&writing.left)) EXPECT_EQ(hd_lease_write(out[1], &writing.left), 0);
    struct leases_way way = {in[0], out[1]};
    EXPECT_EQ(leases_carry(&way), 0);
    EXPECT_EQ(rt_join(sender), 0);
    EXPECT_EQ(rt_join(reader), 0);
    nets_close(in[0], in[1]);
    nets_close(out[0], out[1]);
}
