/* SPDX-License-Identifier: MIT */
#include "sim/events.h"

#include "base/prng.h"
#include "test.h"

TEST_MAIN

#define MANY 1000

static struct hdi_heap_node nodes[MANY];

TEST(by_time_then_in_the_order_of_adding)
{
    struct hdi_events events;
    struct hdi_prng prng;
    hdi_events_init(&events, MANY);
    hdi_prng_init(&prng, 1);
    EXPECT_EQ(hdi_events_next(&events), INT64_MAX);
    for (int i = 0; i < MANY; i++) hdi_events_add(&events, &nodes[i], hdi_prng_below(&prng, 50));
    EXPECT(hdi_events_take(&events, -1) == NULL);
    const struct hdi_heap_node *before = NULL;
    for (int i = 0; i < MANY; i++) {
        const int64_t next_ns = hdi_events_next(&events);
        const struct hdi_heap_node *node = hdi_events_take(&events, 50);
        EXPECT(node && node->key == next_ns);
        if (before) {
            EXPECT(before->key < node->key || (before->key == node->key && before < node));
        }
        before = node;
    }
    EXPECT(hdi_events_take(&events, INT64_MAX) == NULL);
    EXPECT_EQ(events.taken, MANY);
    EXPECT_EQ(events.most, MANY);
    hdi_events_fini(&events);
}

TEST(not_before_their_time)
{
    struct hdi_events events;
    hdi_events_init(&events, 4);
    hdi_events_add(&events, &nodes[0], 20);
    hdi_events_add(&events, &nodes[1], 10);
    EXPECT(hdi_events_take(&events, 9) == NULL);
    EXPECT(hdi_events_take(&events, 10) == &nodes[1]);
    EXPECT(hdi_events_take(&events, 19) == NULL);
    hdi_events_remove(&events, &nodes[0]);
    EXPECT_EQ(hdi_events_next(&events), INT64_MAX);
    EXPECT_EQ(events.taken, 1); /* What was removed did not happen. */
    hdi_events_fini(&events);
}

/* Room is for those who ask; the others go over it. */
TEST(room_is_counted)
{
    struct hdi_events events;
    hdi_events_init(&events, 2);
    EXPECT_EQ(hdi_events_room(&events), 2);
    for (int i = 0; i < 3; i++) hdi_events_add(&events, &nodes[i], i);
    EXPECT_EQ(hdi_events_room(&events), 0);
    EXPECT(hdi_events_take(&events, 0) == &nodes[0]);
    EXPECT_EQ(hdi_events_room(&events), 0);
    EXPECT(hdi_events_take(&events, 1) == &nodes[1]);
    EXPECT_EQ(hdi_events_room(&events), 1);
    EXPECT(hdi_events_take(&events, 2) == &nodes[2]);
    EXPECT_EQ(events.most, 3);
    hdi_events_fini(&events);
}
