/* SPDX-License-Identifier: MIT
 *
 * The LIFO slot alone, with the other side's flags set by hand.
 */
#include "test.h"

#include "sched/lifo.h"

TEST_MAIN

static struct hdi_lifo lifo;
static char places[2]; /* a task is an address here, never looked into */
#define A ((struct hd_task *)(void *)&places[0])
#define B ((struct hd_task *)(void *)&places[1])

static void expect_nobody_inside(void)
{
    EXPECT_EQ(lifo.busy, 0);
    EXPECT_EQ(lifo.claimed, 0);
}

static void put(struct hd_task *task, struct hd_task *wanted)
{
    struct hd_task *evicted = NULL;
    EXPECT(hdi_lifo_put(&lifo, task, &evicted));
    EXPECT(evicted == wanted);
    expect_nobody_inside();
}

TEST(a_put_evicts_the_one_before)
{
    hdi_barrier_init();
    EXPECT(hdi_lifo_take(&lifo) == NULL);
    EXPECT(hdi_lifo_flush(&lifo) == NULL);
    EXPECT(hdi_lifo_steal(&lifo) == NULL);
    put(A, NULL);
    put(B, A);
    EXPECT(hdi_lifo_take(&lifo) == B);
    EXPECT(hdi_lifo_take(&lifo) == NULL);
    expect_nobody_inside();
}

TEST(a_thief_takes_it_and_leaves_the_slot_open)
{
    hdi_barrier_init();
    put(A, NULL);
    EXPECT(hdi_lifo_steal(&lifo) == A);
    EXPECT(hdi_lifo_steal(&lifo) == NULL);
    expect_nobody_inside();
    put(B, NULL);
    EXPECT(hdi_lifo_flush(&lifo) == B);
}

TEST(a_thief_stays_out_while_the_owner_is_inside)
{
    hdi_barrier_init();
    put(A, NULL);
    lifo.busy = 1;
    EXPECT(hdi_lifo_steal(&lifo) == NULL);
    EXPECT_EQ(lifo.claimed, 0);
    lifo.busy = 0;
    EXPECT(hdi_lifo_steal(&lifo) == A);
}

TEST(owner_and_other_thieves_stay_out_while_a_thief_is_inside)
{
    hdi_barrier_init();
    put(A, NULL);
    lifo.claimed = 1;
    struct hd_task *evicted = B;
    EXPECT(!hdi_lifo_put(&lifo, B, &evicted));
    EXPECT(evicted == B);
    EXPECT(hdi_lifo_take(&lifo) == NULL);
    EXPECT(hdi_lifo_steal(&lifo) == NULL);
    EXPECT_EQ(lifo.busy, 0);
    EXPECT_EQ(lifo.claimed, 1);
    lifo.claimed = 0;
    EXPECT(hdi_lifo_take(&lifo) == A);
}
