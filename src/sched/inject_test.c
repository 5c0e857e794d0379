/* SPDX-License-Identifier: MIT
 *
 * The injection queue alone: order, batches, those behind, and the table of fair shares.
 */
#include "test.h"

#include "sched/inject.h"
#include "task/task.h"

TEST_MAIN

enum { TASKS = 300 };
static struct hd_task tasks[TASKS];
static struct hdi_inject queue;

static void push(unsigned first, unsigned count)
{
    struct hd_task *batch[TASKS];
    for (unsigned i = 0; i < count; i++) batch[i] = &tasks[first + i];
    hdi_inject_push(&queue, batch, count);
}

static void expect_popped(unsigned max, unsigned first, unsigned count)
{
    struct hd_task *out[TASKS] = {NULL};
    EXPECT_EQ(hdi_inject_pop(&queue, out, max), count);
    for (unsigned i = 0; i < count; i++) EXPECT(out[i] == &tasks[first + i]);
    EXPECT(count == TASKS || out[count] == NULL);
}

TEST(an_empty_queue_has_nothing)
{
    hdi_inject_init(&queue);
    expect_popped(10, 0, 0);
    expect_popped(0, 0, 0);
    EXPECT_EQ(hdi_inject_length(&queue), 0);
    EXPECT_EQ(queue.total, 0);
}

TEST(batches_of_any_size_keep_their_order)
{
    hdi_inject_init(&queue);
    push(0, 1);
    push(1, 128);
    push(129, 1);
    push(130, 170);
    EXPECT_EQ(hdi_inject_length(&queue), 300);
    expect_popped(0, 0, 0);
    expect_popped(1, 0, 1);
    expect_popped(64, 1, 64);
    expect_popped(200, 65, 200);
    EXPECT_EQ(hdi_inject_length(&queue), 35);
    expect_popped(300, 265, 35);
    expect_popped(300, 0, 0);
    EXPECT_EQ(queue.total, 300);
}

TEST(it_can_be_used_again_when_it_ran_empty)
{
    hdi_inject_init(&queue);
    for (int i = 0; i < 10; i++) {
        push(0, 2);
        expect_popped(2, 0, 2);
        EXPECT(queue.first == NULL && queue.last == NULL);
        EXPECT_EQ(hdi_inject_length(&queue), 0);
    }
    EXPECT_EQ(queue.total, 20);
}

TEST(pushing_while_some_are_left_appends)
{
    hdi_inject_init(&queue);
    push(0, 5);
    expect_popped(4, 0, 4);
    push(5, 3);
    expect_popped(9, 4, 4);
}

/* ---- behind ---- */

static void push_behind(unsigned first, unsigned count)
{
    struct hd_task *batch[TASKS];
    for (unsigned i = 0; i < count; i++) batch[i] = &tasks[first + i];
    hdi_inject_push_behind(&queue, batch, count);
}

static void expect_lengths(unsigned front, unsigned behind)
{
    const uint64_t lengths = hdi_inject_lengths(&queue);
    EXPECT_EQ(hdi_inject_front(lengths), front);
    EXPECT_EQ(hdi_inject_behind(lengths), behind);
    EXPECT_EQ(hdi_inject_length(&queue), front + behind);
}

TEST(those_behind_are_a_queue_of_their_own)
{
    hdi_inject_init(&queue);
    EXPECT(hdi_inject_pop_behind(&queue, true) == NULL);
    push_behind(0, 3);
    push(10, 2);
    push_behind(3, 1);
    expect_lengths(2, 4);
    expect_popped(9, 10, 2);
    expect_popped(9, 0, 0);
    for (unsigned i = 0; i < 4; i++) EXPECT(hdi_inject_pop_behind(&queue, true) == &tasks[i]);
    EXPECT(hdi_inject_pop_behind(&queue, true) == NULL);
    EXPECT(queue.behind_first == NULL && queue.behind_last == NULL);
    expect_lengths(0, 0);
    push_behind(4, 1);
    EXPECT(hdi_inject_pop_behind(&queue, true) == &tasks[4]);
    EXPECT_EQ(queue.total, 7);
}

TEST(each_of_those_behind_is_passed_by_so_often_and_no_more)
{
    hdi_inject_init(&queue);
    push_behind(0, 3);
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned n = 0; n < HDI_INJECT_AGE; n++) {
            EXPECT(hdi_inject_pop_behind(&queue, false) == NULL);
        }
        EXPECT(hdi_inject_pop_behind(&queue, false) == &tasks[i]);
    }
    EXPECT(hdi_inject_pop_behind(&queue, false) == NULL);
    EXPECT(hdi_inject_pop_behind(&queue, true) == &tasks[2]);
    push_behind(3, 1); /* It has not waited yet. */
    EXPECT(hdi_inject_pop_behind(&queue, false) == NULL);
    EXPECT(hdi_inject_pop_behind(&queue, true) == &tasks[3]);
}

TEST(all_in_front_can_be_put_behind_in_order)
{
    hdi_inject_init(&queue);
    hdi_inject_put_behind(&queue);
    expect_lengths(0, 0);
    push_behind(0, 1);
    push(1, 3);
    hdi_inject_put_behind(&queue);
    expect_lengths(0, 4);
    push(9, 1);
    expect_popped(9, 9, 1);
    for (unsigned i = 0; i < 4; i++) EXPECT(hdi_inject_pop_behind(&queue, true) == &tasks[i]);
    expect_lengths(0, 0);
    push(5, 2);
    hdi_inject_put_behind(&queue);
    EXPECT(hdi_inject_pop_behind(&queue, true) == &tasks[5]);
    EXPECT(hdi_inject_pop_behind(&queue, true) == &tasks[6]);
    EXPECT(queue.behind_last == NULL);
}

TEST(a_fair_share_is_between_4_and_32_or_64_and_never_more_than_there_is)
{
    static const struct {
        uint32_t length;
        unsigned workers, busy, idle;
    } table[] = {
        {0, 1, 0, 0},        {1, 1, 1, 1},        {3, 8, 3, 3},        {4, 8, 4, 4},
        {5, 8, 4, 4},        {31, 8, 4, 4},       {32, 8, 4, 4},       {40, 8, 5, 5},
        {64, 2, 32, 32},     {66, 2, 32, 33},     {128, 2, 32, 64},    {130, 2, 32, 64},
        {31, 1, 31, 31},     {33, 1, 32, 33},     {64, 1, 32, 64},     {65, 1, 32, 64},
        {1000000, 1, 32, 64}, {1000, 256, 4, 4},  {1280, 256, 5, 5},   {8192, 256, 32, 32},
        {16384, 256, 32, 64}, {UINT32_MAX, 256, 32, 64},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        EXPECT_EQ(hdi_inject_share(table[i].length, table[i].workers, true), table[i].busy);
        EXPECT_EQ(hdi_inject_share(table[i].length, table[i].workers, false), table[i].idle);
    }
}
