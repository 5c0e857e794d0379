/* SPDX-License-Identifier: MIT
 *
 * Loans, from inside: that what is leased is lent, received by the lane and sent without a copy, as
 * far as the rules of loan.h go, and comes back. What nobody is to notice of it is tested in
 * tests/behaviour/lease_test.c.
 */
#include <sys/resource.h>

#include "io/uring.h"
#include "leases.h"

TEST_MAIN

#if HDI_URING && !HDI_MODEL

static bool is_uring(void)
{
    return strcmp(hd_runtime_io(hd_runtime_self()), "io_uring") == 0;
}

static struct hdi_uring *ring_of(hd_io io)
{
    return (struct hdi_uring *)hdi_load_acquire(&hdi_source_of(io)->lane); /* V */
}

static unsigned lent_of(hd_io io)
{
    return hdi_uring_lent(ring_of(io));
}

static bool is_bulky(hd_io io)
{
    struct hdi_source *source = hdi_source_of(io);
    hdi_lock_take(&source->in.waitable.lock);
    const bool bulky = source->bulky;
    hdi_lock_give(&source->in.waitable.lock);
    return bulky;
}

/* By one worker, whose monitor does not come. */
static void run(hd_fn *fn, const hd_options *options)
{
    const hd_options own = rt_one_lane(options);
    rt_run(fn, NULL, &own);
}

/* ---- LOAN-2 ---- */

enum { MANY = HDI_URING_BUFFERS + 100, PAIRS = 20 };

/* Who leases much takes nothing from who does not. */
static int hold_many(void *arg)
{
    static hd_lease leases[MANY];
    hd_io pairs[PAIRS][2], other[2];
    (void)arg;
    for (int i = 0; i < PAIRS; i++) leases_pair(pairs[i], false);
    leases_pair(other, false);
    if (!is_uring()) return 0;
    const hd_io io = pairs[0][0];
    for (int round = 0; round < 2; round++) {
        EXPECT_EQ(lent_of(io), 0);
        for (size_t i = 0; i < MANY; i++) {
            leases[i] = leases_one(pairs[i % PAIRS][1], pairs[i % PAIRS][0], 20, i);
            EXPECT(lent_of(io) <= HDI_URING_BUFFERS / 2);
        }
        EXPECT_EQ(lent_of(io), HDI_URING_BUFFERS / 2);
        for (size_t i = 0; i < 2 * MANY; i++) leases_pass(other[1], other[0], 20, i);
        EXPECT(!is_bulky(other[0])); /* It has always found a buffer. */
        for (size_t i = 0; i < MANY; i++) hd_lease_end(&leases[i]);
    }
    EXPECT_EQ(lent_of(io), 0);
    for (int i = 0; i < PAIRS; i++) nets_close(pairs[i][0], pairs[i][1]);
    nets_close(other[0], other[1]);
    return 0;
}

TEST_DRIVERS(leases_leave_half_of_a_ring, options) { run(hold_many, options); }

/* ---- receiving ---- */

/* Whether that is what the lane last received for somebody; it is our own worker's. */
static bool was_taken(hd_io io, const hd_lease *lease)
{
    const struct hdi_take *take = &ring_of(io)->takes[0];
    return take->handle.private_ == io.private_ && take->block->bytes == lease->bytes;
}

/* It is in a block before its reader runs, always in the same one if nobody has it. */
static int receive_ahead(void *arg)
{
    hd_io ends[2];
    char *last = NULL;
    (void)arg;
    leases_pair(ends, true);
    if (!is_uring()) return 0;
    EXPECT(is_bulky(ends[0]));
    for (size_t i = 0; i < 5; i++) {
        hd_lease lease = {0};
        struct leases_part part = {.io = ends[1], .bytes = 10000, .at = i};
        hd_task *sender = rt_spawn(NULL, leases_send, &part); /* It runs once we wait. */
        EXPECT(hd_lease_read(ends[0], &lease) > 0);
        EXPECT(was_taken(ends[0], &lease));
        if (last) EXPECT(lease.bytes == last);
        last = lease.bytes;
        leases_expect(lease.bytes, lease.count, i);
        part = (struct leases_part){ends[0], 10000 - lease.count, i + lease.count, 0};
        hd_lease_end(&lease);
        EXPECT_EQ(rt_join(sender), 0);
        EXPECT_EQ(leases_copy(&part), 0);
    }
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_DRIVERS(the_lane_receives_for_who_waits, options) { run(receive_ahead, options); }

/* What comes is lent to who waits for it alone, before it runs (SRC-9): */
struct one {
    hd_io io;
    hd_lease lease;
    ssize_t n; /* -1: not read yet */
};

static int lease_one(void *arg)
{
    struct one *one = arg;
    one->n = hd_lease_read(one->io, &one->lease);
    return 0;
}

static bool has_reader(hd_io io)
{
    struct hdi_source *source = hdi_source_of(io);
    hdi_lock_take(&source->in.waitable.lock);
    const bool has = source->reader;
    hdi_lock_give(&source->in.waitable.lock);
    return has;
}

enum { LITTLE = 10 };

/* By the kernel, at once. The worker looks for news between two yields, and we are before whoever
 * these wake. */
static void send_to(struct one *one, hd_io from, size_t at)
{
    char *bytes = leases_make(LITTLE, at);
    EXPECT_EQ(send(hd_io_fd(from), bytes, LITTLE, 0), LITTLE);
    free(bytes);
    while (has_reader(one->io)) hd_yield();
    EXPECT_EQ(one->n, -1);
}

static void expect_leased(struct one *one, size_t at)
{
    EXPECT_EQ(one->n, LITTLE);
    leases_expect(one->lease.bytes, one->lease.count, at);
    hd_lease_end(&one->lease);
}

static hd_task *await(struct one *one, hd_io io)
{
    *one = (struct one){.io = io, .n = -1};
    hd_task *reader = rt_spawn(NULL, lease_one, one);
    while (!has_reader(io)) hd_yield();
    return reader;
}

/* so a close comes too late, and so does what is next, for others. */
static int lend_at_once(void *arg)
{
    hd_io ends[2];
    struct one one, next = {.n = -1};
    (void)arg;
    leases_pair(ends, false);
    if (!is_uring()) return 0;
    struct hdi_uring *ring = ring_of(ends[0]);
    hd_task *reader = await(&one, ends[0]);
    EXPECT_EQ(hdi_uring_lent(ring), 0);
    send_to(&one, ends[1], 0);
    EXPECT_EQ(hdi_uring_lent(ring), 1);
    hd_task *other = await(&next, ends[0]);
    EXPECT_EQ(rt_join(reader), 0);
    expect_leased(&one, 0);
    send_to(&next, ends[1], LITTLE);
    EXPECT_EQ(hd_close(ends[0]), 0);
    EXPECT_EQ(rt_join(other), 0);
    expect_leased(&next, LITTLE);
    EXPECT_EQ(hdi_uring_lent(ring), 0);
    EXPECT_EQ(hd_close(ends[1]), 0);
    return 0;
}

TEST_DRIVERS(who_waits_alone_is_lent_what_comes, options) { run(lend_at_once, options); }

/* Of two that wait nobody is. */
static int lend_to_none(void *arg)
{
    hd_io ends[2];
    struct one one;
    (void)arg;
    leases_pair(ends, false);
    if (!is_uring()) return 0;
    hd_task *reader = await(&one, ends[0]);
    struct one two = {.io = ends[0], .n = -1};
    hd_task *other = rt_spawn(NULL, lease_one, &two);
    for (int i = 0; i < 3; i++) hd_yield(); /* It waits, too. */
    send_to(&one, ends[1], 0);
    EXPECT_EQ(lent_of(ends[0]), 0);
    EXPECT_EQ(rt_join(reader), 0);
    expect_leased(&one, 0);
    EXPECT_EQ(send(hd_io_fd(ends[1]), "x", 1, 0), 1);
    EXPECT_EQ(rt_join(other), 0);
    EXPECT_EQ(two.n, 1);
    hd_lease_end(&two.lease);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_DRIVERS(of_two_that_wait_none_is_lent_what_comes, options) { run(lend_to_none, options); }

/* Who waits for readiness, or to read into memory of its own, has nothing received for it. */
static int receive_nothing(void *arg)
{
    hd_io ends[2];
    (void)arg;
    leases_pair(ends, true);
    if (!is_uring()) return 0;
    hd_lease lease = leases_one(ends[1], ends[0], 10000, 0);
    hd_lease_end(&lease);
    for (size_t i = 0; i < 4; i++) {
        struct leases_part sent = {.io = ends[1], .bytes = 10000, .at = i}, part = sent;
        ring_of(ends[0])->takes[0].handle = (hd_io){0};
        hd_task *sender = rt_spawn(NULL, leases_send, &sent);
        hd_case readable = HD_READABLE(ends[0]);
        if (i % 2 == 0) EXPECT_EQ(hd_select(&readable, 1), 0);
        part.io = ends[0];
        EXPECT_EQ(leases_copy(&part), 0);
        EXPECT_EQ(ring_of(ends[0])->takes[0].handle.private_, 0);
        EXPECT_EQ(rt_join(sender), 0);
    }
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_DRIVERS(the_lane_receives_for_nobody_else, options) { run(receive_nothing, options); }

/* ---- files ---- */

/* A connection that is used often has a place in the ring's table, and leaves it. */
static int use_often(void *arg)
{
    hd_io ends[2];
    (void)arg;
    leases_pair(ends, false);
    struct hdi_uring *ring = is_uring() ? ring_of(ends[0]) : NULL;
    if (!ring || !ring->files) return 0;
    const unsigned free_before = ring->file_count;
    EXPECT(!hdi_source_of(ends[0])->known);
    for (size_t i = 0; i < 50; i++) {
        leases_pass(ends[0], ends[1], 20, i);
        leases_pass(ends[1], ends[0], 20, i);
    }
    EXPECT(hdi_source_of(ends[0])->known && hdi_source_of(ends[1])->known);
    EXPECT_EQ(ring->file_count, free_before - 2);
    nets_close(ends[0], ends[1]);
    EXPECT_EQ(ring->file_count, free_before);
    return 0;
}

TEST_DRIVERS(a_ring_knows_what_is_used_often, options) { run(use_often, options); }

/* Its table is no reason for a process to have more open than it may. */
TEST_DRIVERS(the_limit_of_descriptors_stays, options)
{
    enum { FEW = 200 };
    struct rlimit limit;
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = FEW;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    run(use_often, options);
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(limit.rlim_cur, FEW);
}

/* ---- sending ---- */

/* What is sent is the lease's own memory, which comes back when it was. */
static int send_leased(void *arg)
{
    (void)arg;
    for (int much = 0; much < 2; much++) {
        hd_io ends[2];
        leases_pair(ends, much);
        if (!is_uring()) return 0;
        struct hdi_source *source = hdi_source_of(ends[0]);
        hd_lease lease = leases_one(ends[1], ends[0], much ? 10000 : 20, 0);
        char *bytes = lease.bytes;
        const size_t count = lease.count;
        EXPECT_EQ(lent_of(ends[0]), !much);
        EXPECT_EQ(hd_lease_write(ends[0], &lease), 0);
        EXPECT_EQ(source->sending, HDI_UNSENT_QUEUED); /* No other thread is there. */
        EXPECT(source->unsent_loan.base == bytes);
        EXPECT_EQ(lent_of(ends[0]), !much);
        struct leases_part part = {.io = ends[1], .bytes = count};
        EXPECT_EQ(leases_take(&part), 0);
        EXPECT_EQ(source->sending, HDI_UNSENT_NONE);
        EXPECT(source->unsent_loan.base == NULL);
        EXPECT_EQ(lent_of(ends[0]), 0);
        nets_close(ends[0], ends[1]);
    }
    return 0;
}

TEST_DRIVERS(a_lease_is_sent_as_it_is, options) { run(send_leased, options); }

struct elsewhere {
    hd_runtime *home; /* of the lease */
    hd_lease lease;
};

static int lease_much(void *arg)
{
    struct elsewhere *elsewhere = arg;
    hd_io ends[2];
    leases_pair(ends, true);
    elsewhere->lease = leases_one(ends[1], ends[0], 10000, 0);
    nets_close(ends[0], ends[1]);
    return 0;
}

/* Once it was written the lease has ended: its buffer's runtime may, too. */
static int write_elsewhere(void *arg)
{
    struct elsewhere *elsewhere = arg;
    hd_io ends[2];
    leases_pair(ends, false);
    struct leases_part part = {.io = ends[1], .bytes = elsewhere->lease.count};
    EXPECT_EQ(hd_lease_write(ends[0], &elsewhere->lease), 0);
    hd_runtime_destroy(elsewhere->home);
    EXPECT_EQ(leases_take(&part), 0);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_DRIVERS(a_lease_is_written_in_another_runtime, options)
{
    const hd_options own = rt_one_lane(options);
    struct elsewhere elsewhere = {.home = rt_create(&own)};
    hd_runtime *other = rt_create(&own);
    EXPECT_EQ(rt_join(rt_spawn(elsewhere.home, lease_much, &elsewhere)), 0);
    EXPECT_EQ(rt_join(rt_spawn(other, write_elsewhere, &elsewhere)), 0);
    hd_runtime_destroy(other);
}

#else

TEST(nothing_is_lent_without_io_uring)
{
    test_skip("no io_uring in this build");
}

#endif
