/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/list.h"
#include "base/prng.h"

TEST_MAIN

enum { NODES = 40 };

/* The same list kept as an array of node numbers. */
struct mirror {
    int numbers[NODES];
    int count;
};

static struct hdi_list head, nodes[NODES];

static void check(const struct mirror *mirror)
{
    const struct hdi_list *at = &head;
    for (int i = 0; i < mirror->count; i++) {
        EXPECT(at->next == &nodes[mirror->numbers[i]]);
        EXPECT(at->next->prev == at); /* LIST-1 */
        at = at->next;
    }
    EXPECT(at->next == &head && head.prev == at);
    EXPECT_EQ(hdi_list_empty(&head), mirror->count == 0);
}

static int find(const struct mirror *mirror, int number)
{
    for (int i = 0; i < mirror->count; i++) {
        if (mirror->numbers[i] == number) return i;
    }
    return -1;
}

static void mirror_remove(struct mirror *mirror, int at)
{
    mirror->count--;
    for (int i = at; i < mirror->count; i++) mirror->numbers[i] = mirror->numbers[i + 1];
}

static void push(struct mirror *mirror, int number, bool front)
{
    if (front) {
        hdi_list_push_front(&head, &nodes[number]);
        for (int i = mirror->count; i > 0; i--) mirror->numbers[i] = mirror->numbers[i - 1];
        mirror->numbers[0] = number;
    } else {
        hdi_list_push_back(&head, &nodes[number]);
        mirror->numbers[mirror->count] = number;
    }
    mirror->count++;
}

TEST(random_operations_agree_with_an_array)
{
    struct mirror mirror = {.count = 0};
    struct hdi_prng prng;
    hdi_prng_init(&prng, 1);
    hdi_list_init(&head);
    for (int i = 0; i < NODES; i++) hdi_list_init(&nodes[i]);
    for (int i = 0; i < 50000; i++) {
        const int number = (int)hdi_prng_below(&prng, NODES);
        const int at = find(&mirror, number);
        if (hdi_prng_below(&prng, 5) == 0) {
            struct hdi_list *popped = hdi_list_pop_front(&head);
            EXPECT(popped == (mirror.count ? &nodes[mirror.numbers[0]] : NULL));
            if (popped) mirror_remove(&mirror, 0);
        } else if (at < 0) {
            push(&mirror, number, hdi_prng_below(&prng, 2) == 0);
        } else {
            hdi_list_remove(&nodes[number]);
            mirror_remove(&mirror, at);
            EXPECT(hdi_list_empty(&nodes[number]));
        }
        check(&mirror);
    }
}

TEST(removing_twice_does_nothing)
{
    hdi_list_init(&head);
    hdi_list_push_back(&head, &nodes[0]);
    hdi_list_remove(&nodes[0]);
    hdi_list_remove(&nodes[0]);
    EXPECT(hdi_list_empty(&head) && hdi_list_empty(&nodes[0]));
    EXPECT(hdi_list_pop_front(&head) == NULL);
}
