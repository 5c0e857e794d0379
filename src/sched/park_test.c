/* SPDX-License-Identifier: MIT
 *
 * One thread sleeps, another wakes it, in every order.
 */
#include "test.h"

#include <pthread.h>

#include "sched/park.h"

TEST_MAIN

TEST(a_token_that_came_first_is_taken_at_once)
{
    struct hdi_parker parker;
    hdi_parker_init(&parker);
    const uint32_t empty = parker.state;
    for (int i = 0; i < 1000; i++) {
        hdi_parker_unpark(&parker);
        hdi_parker_park(&parker);
        EXPECT_EQ(parker.state, empty);
    }
}

struct pair {
    struct hdi_parker parkers[2];
    int turn; /* whose; only its owner touches it */
};

enum { TURNS = 2000 };

static void play(struct pair *pair, int me)
{
    for (int i = 0; i < TURNS; i++) {
        hdi_parker_park(&pair->parkers[me]);
        EXPECT_EQ(pair->turn, me); /* returned only when unparked, and sees what was written */
        pair->turn = 1 - me;
        hdi_parker_unpark(&pair->parkers[1 - me]);
    }
}

static void *second(void *arg)
{
    play(arg, 1);
    return NULL;
}

TEST(two_threads_take_turns)
{
    struct pair pair = {.turn = 0};
    for (int i = 0; i < 2; i++) hdi_parker_init(&pair.parkers[i]);
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, second, &pair), 0);
    hdi_parker_unpark(&pair.parkers[0]);
    play(&pair, 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
}

TEST(two_tokens_merge)
{
    struct hdi_parker parker;
    hdi_parker_init(&parker);
    const uint32_t empty = parker.state;
    hdi_parker_unpark(&parker);
    hdi_parker_unpark(&parker);
    hdi_parker_park(&parker);
    EXPECT_EQ(parker.state, empty); /* nothing is left */
}
