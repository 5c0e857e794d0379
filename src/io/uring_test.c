/* SPDX-License-Identifier: MIT
 *
 * A crowd, from inside: connections on which something comes, of which there are more than the ring
 * receives well ahead for, leave it for the epoll, but for a few; and lose nothing on the way.
 */
#include "io/uring.h"
#include "leases.h"

TEST_MAIN

#if HDI_URING && !HDI_MODEL

enum { CROWD = HDI_URING_CROWD + 16, FEW = HDI_URING_FEW, BYTES = 20 };

struct crowd {
    unsigned count;
    unsigned active; /* of them: the first, on which something comes */
    bool leases;
    hd_io ends[CROWD][2];
    unsigned rounds; /* of messages, until it would be known as one, and one for all of it */
    unsigned read;   /* messages; by one worker */
};

struct member {
    struct crowd *crowd;
    hd_io io;
    unsigned rounds;
};

static int read_rounds(void *arg)
{
    const struct member *member = arg;
    for (size_t round = 0; round < member->rounds; round++) {
        struct leases_part part = {.io = member->io, .bytes = BYTES, .at = round * BYTES};
        EXPECT_EQ(member->crowd->leases ? leases_take(&part) : leases_copy(&part), 0);
        member->crowd->read++;
    }
    return 0;
}

/* To those from `first` on. The worker is in this fiber until all of them have come. */
static void send_round(struct crowd *crowd, unsigned first, unsigned end, size_t round)
{
    char *bytes = leases_make(BYTES, round * BYTES);
    const unsigned before = crowd->read;
    for (unsigned i = first; i < end; i++) {
        EXPECT_EQ(send(hd_io_fd(crowd->ends[i][1]), bytes, BYTES, 0), BYTES);
    }
    free(bytes);
    while (crowd->read < before + end - first) hd_yield();
    hd_yield(); /* Who has read waits again. */
}

/* How many have left the ring. */
static unsigned left(struct crowd *crowd)
{
    unsigned count = 0;
    for (unsigned i = 0; i < crowd->count; i++) {
        struct hdi_source *source = hdi_source_of(crowd->ends[i][0]);
        hdi_lock_take(&source->in.waitable.lock);
        EXPECT_EQ(source->bulky, source->collected);
        count += source->collected;
        hdi_lock_give(&source->in.waitable.lock);
    }
    return count;
}

static int come(void *arg)
{
    struct crowd *crowd = arg;
    static struct member members[CROWD];
    static hd_task *readers[CROWD];
    for (unsigned i = 0; i < crowd->count; i++) {
        nets_pair(NETS_TCP, crowd->ends[i]);
        const unsigned rounds = i < crowd->active ? crowd->rounds : 1;
        members[i] = (struct member){crowd, crowd->ends[i][0], rounds};
        readers[i] = rt_spawn(NULL, read_rounds, &members[i]);
    }
    for (int i = 0; i < 3; i++) hd_yield(); /* All wait, and the kernel knows. */
    EXPECT_EQ(left(crowd), 0);
    for (size_t round = 0; round < crowd->rounds; round++) {
        send_round(crowd, 0, crowd->active, round);
    }
    if (crowd->active == CROWD) EXPECT(left(crowd) >= CROWD - HDI_URING_FEW);
    else EXPECT_EQ(left(crowd), 0);
    send_round(crowd, crowd->active, crowd->count, 0); /* The others end, too. */
    for (unsigned i = 0; i < crowd->count; i++) {
        EXPECT_EQ(rt_join(readers[i]), 0);
        nets_close(crowd->ends[i][0], crowd->ends[i][1]);
    }
    return 0;
}

static void run(unsigned count, unsigned active, bool leases, const hd_options *options)
{
    static struct crowd crowd;
    const hd_options own = rt_one_lane(options);
    if (options->io != HD_IO_URING) return;
    crowd = (struct crowd){.count = count, .active = active, .leases = leases,
                           .rounds = HDI_URING_EPOCH / active + 3};
    rt_run(come, &crowd, &own);
}

TEST_DRIVERS(a_crowd_leaves_the_ring, options) { run(CROWD, CROWD, true, options); }
TEST_DRIVERS(a_crowd_that_copies_leaves_the_ring, options) { run(CROWD, CROWD, false, options); }
TEST_DRIVERS(few_stay, options) { run(FEW, FEW, true, options); }
TEST_DRIVERS(few_among_many_that_are_idle_stay, options) { run(CROWD, FEW, true, options); }

#else

TEST(no_crowd_without_io_uring)
{
    test_skip("no io_uring in this build");
}

#endif
