/* SPDX-License-Identifier: MIT
 *
 * Descriptors that the ring knows, from inside: a source that is used often gets a place in the
 * ring's table, and asking for it goes to the kernel together with the use.
 */
#include "io/uring.h"
#include "nets.h"

TEST_MAIN

#if HDI_URING && !HDI_MODEL

/* Leave room for one submission only. The rest has nothing to say. */
static void fill_to_the_brink(struct hdi_uring *ring)
{
    hdi_lock_take(&ring->lock);
    while (io_uring_sq_space_left(&ring->ring) > 1) {
        struct io_uring_sqe *sqe = hdi_uring_place(ring);
        io_uring_prep_nop(sqe);
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    }
    hdi_lock_give(&ring->lock);
}

/* Send a byte as the outbox does. Returns how many submissions wait for the kernel then. */
static unsigned put_send(struct hdi_uring *ring, hd_io io)
{
    static char byte = 'x';
    const struct hdi_send send = {io, hdi_source_of(io), {&byte, 1}};
    ring->lane.kind->put_sends(&ring->lane, &send, 1);
    hdi_lock_take(&ring->lock);
    const unsigned waiting = io_uring_sq_ready(&ring->ring);
    hdi_lock_give(&ring->lock);
    return waiting;
}

/* Were the send done before the place is asked for, another thread could tell of its failure, and
 * close the descriptor, in between: the ring would learn of another one then. */
static int use_often(void *arg)
{
    enum { ENOUGH = 1000 };
    char got;
    hd_io ends[2];
    (void)arg;
    nets_watched_pair(ends);
    struct hdi_source *source = hdi_source_of(ends[1]);
    struct hdi_uring *ring = (struct hdi_uring *)hdi_load_acquire(&source->lane); /* V */
    for (int i = 0; i < ENOUGH && ring->file_count > 0 && !source->filed; i++) {
        fill_to_the_brink(ring);
        const unsigned waiting = put_send(ring, ends[1]);
        if (source->filed) EXPECT_EQ(waiting, 2);
        EXPECT_EQ(hd_read(ends[0], &got, 1), 1);
    }
    EXPECT(source->filed || ring->file_count == 0); /* Older kernels know none. */
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_DRIVERS(a_place_is_asked_for_with_the_use, options)
{
    const hd_options own = rt_one_lane(options);
    if (options->io == HD_IO_URING) rt_run(use_often, NULL, &own);
}

#else

TEST(no_ring_without_io_uring)
{
    test_skip("no io_uring in this build");
}

#endif
