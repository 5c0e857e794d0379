/* SPDX-License-Identifier: MIT
 *
 * The ring alone: order, edges, and counters about to wrap. Threads are in tests/stress,
 * interleavings in tests/model.
 */
#include "test.h"

#include "sched/ring.h"

TEST_MAIN

static struct hdi_ring ring, own;
static char places[2 * HDI_RING_CAP]; /* a task is an address here, never looked into */

static struct hd_task *task(size_t i)
{
    return (struct hd_task *)(void *)&places[i];
}

static void set_up_as(struct hdi_ring *r, uint32_t at, bool alone)
{
    hdi_ring_init(r, alone);
    r->head = (uint64_t)at << 32 | at;
    r->tail = at;
}

static void set_up(struct hdi_ring *r, uint32_t at)
{
    set_up_as(r, at, false);
}

static void fill(struct hdi_ring *r, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) EXPECT(hdi_ring_push(r, task(first + i)));
}

static void expect_popped(struct hdi_ring *r, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) EXPECT(hdi_ring_pop(r) == task(first + i));
}

static const uint32_t starts[] = {0, 1, UINT32_MAX - 300, UINT32_MAX - 255, UINT32_MAX - 128,
                                  UINT32_MAX - 1, UINT32_MAX};
enum { STARTS = sizeof(starts) / sizeof(starts[0]) };

TEST(an_empty_ring_has_nothing)
{
    set_up(&ring, 0);
    unsigned moved = 7;
    struct hd_task *out[HDI_RING_CAP / 2];
    EXPECT(hdi_ring_pop(&ring) == NULL);
    EXPECT_EQ(hdi_ring_count(&ring), 0);
    EXPECT_EQ(hdi_ring_spill(&ring, out), 0);
    set_up(&own, 0);
    EXPECT(hdi_ring_steal(&ring, &own, &moved) == NULL);
    EXPECT_EQ(hdi_ring_count(&own), 0);
}

static void expect_fifo(bool alone)
{
    for (int s = 0; s < STARTS; s++) {
        set_up_as(&ring, starts[s], alone);
        for (int round = 0; round < 3; round++) {
            fill(&ring, 0, HDI_RING_CAP);
            EXPECT_EQ(hdi_ring_count(&ring), HDI_RING_CAP);
            expect_popped(&ring, 0, HDI_RING_CAP);
            EXPECT(hdi_ring_pop(&ring) == NULL);
        }
    }
}

TEST(it_is_fifo_up_to_its_capacity_wherever_the_counters_stand)
{
    expect_fifo(false);
}

TEST(the_same_without_thieves)
{
    expect_fifo(true);
}

TEST(a_push_into_a_full_ring_changes_nothing)
{
    for (int s = 0; s < STARTS; s++) {
        set_up(&ring, starts[s]);
        fill(&ring, 0, HDI_RING_CAP);
        EXPECT(!hdi_ring_push(&ring, task(HDI_RING_CAP)));
        EXPECT_EQ(hdi_ring_count(&ring), HDI_RING_CAP);
        expect_popped(&ring, 0, 1);
        EXPECT(hdi_ring_push(&ring, task(HDI_RING_CAP)));
        expect_popped(&ring, 1, HDI_RING_CAP);
    }
}

TEST(a_thief_takes_half_rounded_up_oldest_first)
{
    for (int s = 0; s < STARTS; s++) {
        for (unsigned n = 0; n <= HDI_RING_CAP; n++) {
            set_up(&ring, starts[s]);
            set_up(&own, starts[STARTS - 1 - s]);
            fill(&ring, 0, n);
            unsigned moved = 0;
            struct hd_task *got = hdi_ring_steal(&ring, &own, &moved);
            const unsigned half = (n + 1) / 2;
            EXPECT(got == (n ? task(0) : NULL));
            EXPECT_EQ(moved, half ? half - 1 : 0);
            EXPECT_EQ(hdi_ring_count(&own), moved);
            EXPECT_EQ(hdi_ring_count(&ring), n - half);
            expect_popped(&own, 1, moved);
            expect_popped(&ring, half, n - half);
            EXPECT(hdi_ring_pop(&ring) == NULL && hdi_ring_pop(&own) == NULL);
        }
    }
}

TEST(a_thief_appends_to_what_it_has)
{
    set_up(&ring, UINT32_MAX - 3);
    set_up(&own, UINT32_MAX - 130);
    fill(&ring, 0, HDI_RING_CAP);
    fill(&own, HDI_RING_CAP, HDI_RING_CAP / 2);
    unsigned moved;
    EXPECT(hdi_ring_steal(&ring, &own, &moved) == task(0));
    EXPECT_EQ(moved, HDI_RING_CAP / 2 - 1);
    expect_popped(&own, HDI_RING_CAP, HDI_RING_CAP / 2);
    expect_popped(&own, 1, moved);
}

TEST(a_thief_that_is_over_half_full_does_not_steal)
{
    set_up(&ring, 0);
    set_up(&own, UINT32_MAX);
    fill(&ring, 0, 10);
    fill(&own, 10, HDI_RING_CAP / 2 + 1);
    unsigned moved;
    EXPECT(hdi_ring_steal(&ring, &own, &moved) == NULL);
    EXPECT_EQ(hdi_ring_count(&ring), 10);
    EXPECT(hdi_ring_pop(&own) == task(10));
    EXPECT(hdi_ring_steal(&ring, &own, &moved) == task(0));
}

/* A thief stands between its claim of 4 tasks and its release. */
static void begin_theft(uint32_t at, unsigned count)
{
    set_up(&ring, at);
    fill(&ring, 0, count);
    ring.head = (uint64_t)at << 32 | (uint32_t)(at + 4);
}

TEST(a_thief_at_work_keeps_other_thieves_out)
{
    for (int s = 0; s < STARTS; s++) {
        begin_theft(starts[s], 10);
        set_up(&own, 0);
        unsigned moved;
        EXPECT(hdi_ring_steal(&ring, &own, &moved) == NULL);
        EXPECT_EQ(hdi_ring_count(&ring), 6);
    }
}

TEST(the_owner_pops_beside_a_thief_and_leaves_its_slots_alone)
{
    for (int s = 0; s < STARTS; s++) {
        begin_theft(starts[s], 10);
        expect_popped(&ring, 4, 6);
        EXPECT(hdi_ring_pop(&ring) == NULL);
        EXPECT_EQ(ring.head >> 32, starts[s]);
    }
}

TEST(slots_that_are_being_copied_count_as_full)
{
    for (int s = 0; s < STARTS; s++) {
        begin_theft(starts[s], HDI_RING_CAP);
        EXPECT(!hdi_ring_push(&ring, task(300)));
        expect_popped(&ring, 4, 1);
        EXPECT(!hdi_ring_push(&ring, task(300)));
        struct hd_task *out[HDI_RING_CAP / 2];
        EXPECT_EQ(hdi_ring_spill(&ring, out), 0);
        ring.head = (uint64_t)(uint32_t)ring.head << 32 | (uint32_t)ring.head; /* released */
        fill(&ring, 300, 5);
        EXPECT(!hdi_ring_push(&ring, task(305)));
        expect_popped(&ring, 5, HDI_RING_CAP - 5);
        expect_popped(&ring, 300, 5);
    }
}

TEST(a_full_ring_spills_its_newer_half_in_order)
{
    for (int s = 0; s < 2 * STARTS; s++) {
        set_up_as(&ring, starts[s / 2], s % 2);
        fill(&ring, 0, HDI_RING_CAP);
        struct hd_task *out[HDI_RING_CAP / 2];
        const unsigned half = HDI_RING_CAP / 2;
        EXPECT_EQ(hdi_ring_spill(&ring, out), half);
        for (unsigned i = 0; i < half; i++) EXPECT(out[i] == task(half + i));
        EXPECT_EQ(hdi_ring_count(&ring), half);
        fill(&ring, HDI_RING_CAP, half);
        EXPECT(!hdi_ring_push(&ring, task(0)));
        expect_popped(&ring, 0, half);
        expect_popped(&ring, HDI_RING_CAP, half);
    }
}

TEST(a_ring_that_is_not_full_does_not_spill)
{
    struct hd_task *out[HDI_RING_CAP / 2];
    set_up(&ring, UINT32_MAX - 9);
    fill(&ring, 0, HDI_RING_CAP - 1);
    EXPECT_EQ(hdi_ring_spill(&ring, out), 0);
    expect_popped(&ring, 0, HDI_RING_CAP - 1);
}
