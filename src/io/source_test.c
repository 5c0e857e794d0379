/* SPDX-License-Identifier: MIT
 *
 * The table of handles: a slot is used again until its generations are used up, and then no more.
 */
#include "io/source.h"
#include "nets.h"

TEST_MAIN

/* As if the slot had been closed so often before. Nobody else has the handle yet. */
static hd_io with_generation(hd_io io, uint32_t generation)
{
    struct hdi_source *source = hdi_source_of(io);
    EXPECT(source != NULL);
    hdi_store_relaxed(&source->generation, generation);
    return hdi_source_handle(source);
}

static uint32_t index_of(hd_io io)
{
    return hdi_source_of(io)->index;
}

static int use_up(void *arg)
{
    hd_io ends[2], next[2];
    (void)arg;
    EXPECT_EQ(hd_pipe(ends), 0);
    const uint32_t index = index_of(ends[0]);
    ends[0] = with_generation(ends[0], UINT32_MAX - 2);
    EXPECT_EQ(hd_close(ends[1]), 0);
    EXPECT_EQ(hd_close(ends[0]), 0);
    EXPECT_EQ(hd_pipe(next), 0); /* The last slot that became free is the first to be used. */
    EXPECT_EQ(index_of(next[0]), index);
    EXPECT_EQ(next[0].private_ >> 32, UINT32_MAX - 1);
    EXPECT_EQ(hd_close(ends[0]), -EBADF);
    EXPECT_EQ(hd_close(next[1]), 0);
    EXPECT_EQ(hd_close(next[0]), 0); /* That was its last. */
    for (int i = 0; i < 10; i++) {
        hd_io later[2];
        EXPECT_EQ(hd_pipe(later), 0);
        EXPECT(index_of(later[0]) != index && index_of(later[1]) != index);
        EXPECT_EQ(hd_close(next[0]), -EBADF);
        nets_close(later[0], later[1]);
    }
    return 0;
}

TEST_IO(a_slot_is_never_another_of_the_same_name, options) { rt_run(use_up, NULL, options); }
