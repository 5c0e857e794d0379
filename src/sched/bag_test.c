/* SPDX-License-Identifier: MIT
 *
 * The bag: its content depends on nothing but the calls.
 */
#include "test.h"

#include "sched/bag.h"

TEST_MAIN

static char places[1000]; /* a task is an address here, never looked into */

static struct hd_task *task(size_t i)
{
    return (struct hd_task *)(void *)&places[i];
}

TEST(a_push_makes_room)
{
    struct hdi_bag bag;
    hdi_bag_init(&bag);
    for (size_t i = 0; i < 1000; i++) EXPECT(hdi_bag_push(&bag, task(i)));
    EXPECT_EQ(bag.count, 1000);
    for (size_t i = 1000; i-- > 0;) EXPECT(hdi_bag_take(&bag, i) == task(i));
    hdi_bag_fini(&bag);
}

TEST(reserving_keeps_what_is_inside)
{
    struct hdi_bag bag;
    hdi_bag_init(&bag);
    for (size_t i = 0; i < 1000; i++) {
        EXPECT(hdi_bag_reserve(&bag, i + 1));
        EXPECT(hdi_bag_push(&bag, task(i)));
    }
    const size_t room = bag.capacity;
    EXPECT(hdi_bag_reserve(&bag, 5)); /* never shrinks */
    EXPECT_EQ(bag.capacity, room);
    for (size_t i = 1000; i-- > 0;) EXPECT(hdi_bag_take(&bag, i) == task(i));
    EXPECT_EQ(bag.count, 0);
    hdi_bag_fini(&bag);
    EXPECT_EQ(bag.capacity, 0);
}

TEST(a_gap_is_filled_from_the_end)
{
    struct hdi_bag bag;
    hdi_bag_init(&bag);
    EXPECT(hdi_bag_reserve(&bag, 4));
    for (size_t i = 0; i < 4; i++) EXPECT(hdi_bag_push(&bag, task(i)));
    EXPECT(hdi_bag_take(&bag, 1) == task(1)); /* 0 3 2 */
    EXPECT(hdi_bag_take(&bag, 0) == task(0)); /* 2 3 */
    EXPECT(hdi_bag_push(&bag, task(4)));      /* 2 3 4 */
    EXPECT(hdi_bag_take(&bag, 0) == task(2)); /* 4 3 */
    EXPECT(hdi_bag_take(&bag, 1) == task(3));
    EXPECT(hdi_bag_take(&bag, 0) == task(4));
    EXPECT_EQ(bag.count, 0);
    hdi_bag_fini(&bag);
}
