/* SPDX-License-Identifier: MIT
 *
 * The deque alone: both ends, edges, and a long comparison with a plain array.
 */
#include "test.h"

#include "base/prng.h"
#include "sched/deque.h"

TEST_MAIN

static struct hdi_deque deque;
static char places[1024]; /* a task is an address here, never looked into */

static struct hd_task *task(size_t i)
{
    return (struct hd_task *)(void *)&places[i];
}

static void set_up(int64_t at)
{
    hdi_deque_init(&deque);
    deque.top = at;
    deque.bottom = at;
}

static void fill(size_t count)
{
    for (size_t i = 0; i < count; i++) EXPECT(hdi_deque_push(&deque, task(i)));
}

static const int64_t starts[] = {0, 1, 255, UINT32_MAX - 100, INT64_MAX / 2};
enum { STARTS = sizeof(starts) / sizeof(starts[0]), CAP = HDI_DEQUE_CAP };

TEST(an_empty_deque_has_nothing)
{
    set_up(0);
    for (int i = 0; i < 3; i++) {
        EXPECT(hdi_deque_pop(&deque) == NULL);
        EXPECT(hdi_deque_steal(&deque) == NULL);
        EXPECT_EQ(hdi_deque_count(&deque), 0);
    }
    fill(1);
    EXPECT_EQ(hdi_deque_count(&deque), 1);
    EXPECT(hdi_deque_pop(&deque) == task(0));
}

TEST(the_owner_pops_the_newest)
{
    for (int s = 0; s < STARTS; s++) {
        set_up(starts[s]);
        fill(CAP);
        for (size_t i = CAP; i-- > 0;) {
            EXPECT(hdi_deque_pop(&deque) == task(i));
            EXPECT_EQ(hdi_deque_count(&deque), i);
        }
        EXPECT(hdi_deque_pop(&deque) == NULL);
    }
}

TEST(thieves_take_the_oldest)
{
    for (int s = 0; s < STARTS; s++) {
        set_up(starts[s]);
        fill(CAP);
        for (size_t i = 0; i < CAP; i++) EXPECT(hdi_deque_steal(&deque) == task(i));
        EXPECT(hdi_deque_steal(&deque) == NULL);
        EXPECT(hdi_deque_pop(&deque) == NULL);
    }
}

TEST(a_push_into_a_full_deque_changes_nothing)
{
    for (int s = 0; s < STARTS; s++) {
        set_up(starts[s]);
        fill(CAP);
        EXPECT(!hdi_deque_push(&deque, task(CAP)));
        EXPECT_EQ(hdi_deque_count(&deque), CAP);
        EXPECT(hdi_deque_steal(&deque) == task(0)); /* makes room at the other end */
        EXPECT(hdi_deque_push(&deque, task(CAP)));
        EXPECT(!hdi_deque_push(&deque, task(CAP + 1)));
        EXPECT(hdi_deque_pop(&deque) == task(CAP));
        EXPECT(hdi_deque_steal(&deque) == task(1));
    }
}

TEST(the_last_task_is_taken_once)
{
    set_up(7);
    for (int i = 0; i < 1000; i++) {
        fill(1);
        EXPECT((i % 2 ? hdi_deque_pop(&deque) : hdi_deque_steal(&deque)) == task(0));
        EXPECT((i % 3 ? hdi_deque_pop(&deque) : hdi_deque_steal(&deque)) == NULL);
        EXPECT_EQ(hdi_deque_count(&deque), 0);
    }
}

TEST(it_agrees_with_an_array_over_many_wraps)
{
    static size_t model[CAP];
    size_t first = 0, last = 0, next = 0; /* model[first % CAP .. last % CAP) */
    struct hdi_prng prng;
    hdi_prng_init(&prng, 1);
    set_up(0);
    for (int i = 0; i < 200000; i++) {
        /* Runs of pushes, then of takes, so that both ends are reached. */
        const bool push = hdi_prng_below(&prng, 100) < ((i / 1000) % 2 ? 70u : 30u);
        if (push) {
            const size_t id = next++ % sizeof(places);
            const bool room = last - first < CAP;
            EXPECT_EQ(hdi_deque_push(&deque, task(id)), room);
            if (room) model[last++ % CAP] = id;
        } else if (hdi_prng_below(&prng, 2)) {
            struct hd_task *wanted = last > first ? task(model[(last - 1) % CAP]) : NULL;
            if (wanted) last--;
            EXPECT(hdi_deque_pop(&deque) == wanted);
        } else {
            struct hd_task *wanted = last > first ? task(model[first % CAP]) : NULL;
            if (wanted) first++;
            EXPECT(hdi_deque_steal(&deque) == wanted);
        }
        EXPECT_EQ(hdi_deque_count(&deque), last - first);
    }
}
