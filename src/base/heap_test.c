/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/heap.h"
#include "base/prng.h"

TEST_MAIN

enum { MOST = 200 };

static struct hdi_heap heap;
static struct hdi_heap_node *slots[MOST], nodes[MOST];
static bool inside[MOST];
static uint64_t sequence;

static void check(void)
{
    for (size_t i = 0; i < heap.count; i++) {
        EXPECT_EQ(heap.nodes[i]->index, i); /* HEAP-2 */
        if (i == 0) continue;
        const struct hdi_heap_node *parent = heap.nodes[(i - 1) / 2], *child = heap.nodes[i];
        EXPECT(parent->key < child->key || /* HEAP-1 */
               (parent->key == child->key && parent->sequence < child->sequence));
    }
}

/* The node that should be first, found the slow way. */
static struct hdi_heap_node *first_inside(void)
{
    struct hdi_heap_node *first = NULL;
    for (int i = 0; i < MOST; i++) {
        if (!inside[i]) continue;
        struct hdi_heap_node *node = &nodes[i];
        if (!first || node->key < first->key ||
            (node->key == first->key && node->sequence < first->sequence)) {
            first = node;
        }
    }
    return first;
}

static void toggle(uint32_t which, int64_t key)
{
    if (inside[which]) {
        hdi_heap_remove(&heap, &nodes[which]);
    } else {
        nodes[which].key = key;
        nodes[which].sequence = sequence++;
        EXPECT(hdi_heap_insert(&heap, &nodes[which]));
    }
    inside[which] = !inside[which];
}

static void random_operations(uint64_t seed)
{
    struct hdi_prng prng;
    hdi_prng_init(&prng, seed);
    hdi_heap_init(&heap, slots, MOST);
    memset(inside, 0, sizeof(inside));
    const uint32_t keys = 1 + hdi_prng_below(&prng, 1000); /* few keys: many ties */
    for (int i = 0; i < 2000; i++) {
        if (hdi_prng_below(&prng, 3) > 0) {
            toggle(hdi_prng_below(&prng, MOST), (int64_t)hdi_prng_below(&prng, keys) - keys / 2);
        } else {
            struct hdi_heap_node *wanted = first_inside();
            EXPECT(hdi_heap_peek(&heap) == wanted);
            EXPECT(hdi_heap_pop(&heap) == wanted);
            if (wanted) inside[wanted - nodes] = false;
        }
        check();
    }
    while (heap.count > 0) {
        struct hdi_heap_node *wanted = first_inside();
        EXPECT(hdi_heap_pop(&heap) == wanted);
        inside[wanted - nodes] = false;
    }
    EXPECT(first_inside() == NULL);
}

TEST(random_operations_agree_with_a_slow_search)
{
    for (uint64_t seed = 0; seed < 20; seed++) random_operations(seed);
}

TEST(an_empty_heap_has_no_first)
{
    hdi_heap_init(&heap, slots, MOST);
    EXPECT(hdi_heap_peek(&heap) == NULL && hdi_heap_pop(&heap) == NULL);
}

TEST(a_full_heap_refuses_and_changes_nothing)
{
    hdi_heap_init(&heap, slots, 3);
    for (int i = 0; i < 3; i++) {
        nodes[i] = (struct hdi_heap_node){.key = 3 - i};
        EXPECT(hdi_heap_insert(&heap, &nodes[i]));
    }
    nodes[3] = (struct hdi_heap_node){.key = -1};
    EXPECT(!hdi_heap_insert(&heap, &nodes[3]));
    EXPECT(heap.count == 3 && hdi_heap_peek(&heap) == &nodes[2]);
}

TEST(equal_keys_leave_in_the_order_they_came)
{
    hdi_heap_init(&heap, slots, MOST);
    for (int i = 0; i < MOST; i++) {
        nodes[i] = (struct hdi_heap_node){.key = 5, .sequence = (uint64_t)i};
        EXPECT(hdi_heap_insert(&heap, &nodes[i]));
    }
    for (int i = 0; i < MOST; i++) EXPECT(hdi_heap_pop(&heap) == &nodes[i]);
}

TEST(extreme_keys_are_ordered)
{
    hdi_heap_init(&heap, slots, MOST);
    const int64_t keys[] = {INT64_MAX, 0, INT64_MIN, -1, 1};
    for (int i = 0; i < 5; i++) {
        nodes[i] = (struct hdi_heap_node){.key = keys[i]};
        EXPECT(hdi_heap_insert(&heap, &nodes[i]));
    }
    const int64_t wanted[] = {INT64_MIN, -1, 0, 1, INT64_MAX};
    for (int i = 0; i < 5; i++) EXPECT_EQ(hdi_heap_pop(&heap)->key, wanted[i]);
}
