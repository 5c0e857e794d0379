/* SPDX-License-Identifier: MIT
 *
 * What was written from leases to a connection that has no room arrives before its end, whoever
 * closes it, if the other side reads at all; and if it does not, nothing is left of it. As
 * outbox_test.c for what was copied. The other end is a socket of the system's, so that nothing
 * reads ahead.
 */
#include "leases.h"
#include "outside.h"

TEST_MAIN

struct lingering {
    struct outside outside; /* first */
    bool reads;
    size_t piece; /* of which leases are written */
};

/* It holds the connection until the runtime has given up. */
static void *ignore_outside(void *arg)
{
    struct outside *outside = arg;
    const int fd = accept(outside->listener, NULL, NULL);
    EXPECT(fd >= 0 && send(fd, "w", 1, 0) == 1);
    EXPECT_EQ(hd_sem_acquire(&outside->begin, 1), 0);
    close(fd);
    return NULL;
}

/* All that is taken without waiting: some of it only by us. */
static size_t write_till_full(hd_io from[2], hd_io to, size_t piece)
{
    size_t all = 0;
    for (;;) {
        hd_lease lease = leases_one(from[1], from[0], piece, all);
        all += lease.count;
        const int err = hd_lease_write_until(to, &lease, HD_NOW);
        if (err == 0) continue;
        EXPECT_EQ(err, -EAGAIN);
        all -= lease.count;
        hd_lease_end(&lease);
        return all;
    }
}

static int fill_and_end(void *arg)
{
    const struct lingering *lingering = arg;
    struct outside *outside = arg;
    hd_io from[2];
    leases_pair(from, lingering->piece > 2048);
    const hd_io io = outside_connect(outside);
    outside->taken = write_till_full(from, io, lingering->piece);
    switch (outside->end) {
    case END_CLOSE: EXPECT_EQ(hd_close(io), 0); break;
    case END_CLOSE_BY_THREAD: outside_close_by_thread(io); break;
    case END_SHUTDOWN: EXPECT_EQ(hd_shutdown(io, SHUT_WR), 0); break;
    case END_RUNTIME:
    case ENDS: break;
    }
    nets_close(from[0], from[1]);
    if (!lingering->reads) return 0;
    hd_sem_release(&outside->begin, 1);
    if (outside->end == END_RUNTIME) return 0;
    EXPECT_EQ(hd_sem_acquire(&outside->over, 1), 0); /* Nothing but the end tells it to stop. */
    if (outside->end == END_SHUTDOWN) EXPECT_EQ(hd_close(io), 0);
    return 0;
}

static void with_outside(struct lingering *lingering, hd_fn *fn, const hd_options *options)
{
    struct outside *outside = &lingering->outside;
    pthread_t thread;
    const hd_options own = rt_one_lane(options);
    outside_init(outside);
    outside->byte = leases_byte;
    EXPECT_EQ(pthread_create(&thread, NULL, lingering->reads ? outside_read : ignore_outside,
                             outside), 0);
    rt_run(fn, lingering, &own);
    if (!lingering->reads) hd_sem_release(&outside->begin, 1);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT(outside->taken > 0);
    if (lingering->reads) EXPECT_EQ(outside->got, outside->taken);
    outside_fini(outside);
}

static const size_t pieces[] = {700, 5000, LEASES_LARGE};

TEST_DRIVERS(what_was_taken_arrives_before_the_end, options)
{
    for (int i = 0; i < 3 * ENDS; i++) {
        struct lingering lingering = {{.end = (enum end)(i / 3)}, true, pieces[i % 3]};
        with_outside(&lingering, fill_and_end, options);
    }
}

/* The leak checker sees to it that no buffer is left. */
TEST_DRIVERS(a_runtime_ends_with_what_nobody_reads, options)
{
    const unsigned fds = nets_count_fds();
    for (int i = 0; i < 2; i++) { /* Of little, the last finds room in a moment. */
        struct lingering lingering = {{.end = i ? END_CLOSE : END_RUNTIME}, false, LEASES_LARGE};
        with_outside(&lingering, fill_and_end, options);
        EXPECT_EQ(nets_count_fds(), fds);
    }
}

/* ---- little room for much ---- */

/* Leases of all sizes, with less room than most of them need. */
static int squeeze(void *arg)
{
    struct outside *outside = arg;
    hd_io from[2];
    leases_pair(from, true);
    const hd_io io = outside_connect(outside);
    hd_sem_release(&outside->begin, 1);
    for (size_t i = 0; outside->taken < 1 << 20; i++) {
        const size_t bytes = 1 + (i * 997 + i * i) % (i % 5 == 0 ? 20000 : 1500);
        hd_lease lease = leases_one(from[1], from[0], bytes, outside->taken);
        outside->taken += lease.count;
        EXPECT_EQ(hd_lease_write(io, &lease), 0);
        if (i % 3 == 0) hd_yield();
    }
    nets_close(from[0], from[1]);
    return hd_close(io);
}

TEST_DRIVERS(little_room_for_much, options)
{
    struct lingering lingering = {{.end = END_CLOSE}, true, 0};
    with_outside(&lingering, squeeze, options);
}

/* ---- who is gone ---- */

/* What was left is lost, and the next write tells; the lease that was not written goes on. */
static int write_to_broken(void *arg)
{
    const struct linger at_once = {1, 0};
    const size_t bytes = *(size_t *)arg;
    hd_io from[2], out[2];
    int err = 0;
    leases_pair(from, bytes > 2048);
    leases_pair(out, true);
    EXPECT_EQ(hd_set_option(out[0], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    EXPECT_EQ(hd_close(out[0]), 0);
    hd_lease lease = {0};
    while (!err) {
        lease = leases_one(from[1], from[0], bytes, 0);
        err = hd_lease_write(out[1], &lease);
    }
    EXPECT(err == -EPIPE || err == -ECONNRESET);
    leases_expect(lease.bytes, lease.count, 0);
    EXPECT(lease.count > 0);
    hd_lease_end(&lease);
    nets_close(from[0], from[1]);
    return hd_close(out[1]);
}

TEST_IO(the_next_write_tells_of_an_error, options)
{
    size_t bytes = 64;
    leases_run(write_to_broken, &bytes, options);
    bytes = LEASES_LARGE;
    leases_run(write_to_broken, &bytes, options);
}
