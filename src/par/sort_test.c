/* SPDX-License-Identifier: MIT
 *
 * The parts of the sort, each by itself: splits of every kind of input, and what is done when they
 * are bad.
 */
#include <heddle/sort.h>

#include "base/prng.h"
#include "test.h"

TEST_MAIN

enum { MOST = 300 };

static bool less(const hd_sort_ *sort, const void *a, const void *b)
{
    (void)sort;
    return *(const int *)a < *(const int *)b;
}

/* With room for items, and without. */
static int held, pivot;
static const hd_items_ kinds[] = {
    {sizeof(int), less, NULL, &held, &pivot},
    {sizeof(int), less, NULL, NULL, NULL},
};

struct input {
    struct hdi_prng prng;
    int items[MOST], copy[MOST];
    size_t count;
};

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Of so many values. */
static void fill(struct input *in, size_t count, uint32_t values)
{
    in->count = count;
    for (size_t i = 0; i < count; i++) {
        in->items[i] = in->copy[i] = (int)hdi_prng_below(&in->prng, values);
    }
    qsort(in->copy, count, sizeof(int), compare);
}

static bool is_sorted(const struct input *in)
{
    return memcmp(in->items, in->copy, in->count * sizeof(int)) == 0;
}

static void expect_same_items(struct input *in)
{
    qsort(in->items, in->count, sizeof(int), compare);
    EXPECT(is_sorted(in));
}

static void each_input(void (*check)(struct input *in, const hd_items_ *kind), size_t least)
{
    static const uint32_t values[] = {1, 2, 3, 20, 1000000};
    struct input in;
    hdi_prng_init(&in.prng, 1);
    for (int k = 0; k < 2; k++) {
        for (int v = 0; v < 5; v++) {
            for (size_t count = least; count <= MOST; count++) {
                fill(&in, count, values[v]);
                check(&in, &kinds[k]);
            }
        }
    }
}

static void check_split(struct input *in, const hd_items_ *kind)
{
    const int first = in->items[0];
    bool was;
    const size_t at = (size_t)((int *)(void *)hd_split_(kind, (char *)in->items, in->count, &was) -
                               in->items);
    EXPECT_EQ(in->items[at], first);
    for (size_t i = 0; i < at; i++) EXPECT(in->items[i] < first);
    for (size_t i = at; i < in->count; i++) EXPECT(in->items[i] >= first);
    expect_same_items(in);
    (void)hd_split_(kind, (char *)in->items, in->count, &was);
    EXPECT(was); /* The least is the first. */
}

TEST(a_split_has_two_sides) { each_input(check_split, 1); }

static void check_equal(struct input *in, const hd_items_ *kind)
{
    int least = in->items[0];
    size_t equal = 0;
    for (size_t i = 0; i < in->count; i++) {
        if (in->items[i] < least) least = in->items[i];
    }
    in->items[0] = in->copy[0] = least; /* as if the item before it equalled it */
    for (size_t i = 0; i < in->count; i++) {
        in->copy[i] = in->items[i];
        equal += in->items[i] == least;
    }
    qsort(in->copy, in->count, sizeof(int), compare);
    const char *end = hd_split_equal_(kind, (char *)in->items, in->count);
    EXPECT_EQ((size_t)(end - (char *)in->items) / sizeof(int), equal);
    for (size_t i = 0; i < equal; i++) EXPECT_EQ(in->items[i], least);
    expect_same_items(in);
}

TEST(equal_items_come_to_the_front) { each_input(check_equal, 1); }

static void check_heap(struct input *in, const hd_items_ *kind)
{
    hd_sort_heap_(kind, (char *)in->items, in->count);
    EXPECT(is_sorted(in));
}

TEST(a_heap_sorts) { each_input(check_heap, 1); }

static void check_insert(struct input *in, const hd_items_ *kind)
{
    hd_sort_insert_(kind, (char *)in->items, in->count);
    EXPECT(is_sorted(in));
    EXPECT(hd_sort_attempt_(kind, (char *)in->items, in->count));
    EXPECT(is_sorted(in));
}

TEST(insertion_sorts) { each_input(check_insert, 0); }

static void check_attempt(struct input *in, const hd_items_ *kind)
{
    if (hd_sort_attempt_(kind, (char *)in->items, in->count)) EXPECT(is_sorted(in));
    expect_same_items(in);
}

TEST(an_attempt_loses_nothing) { each_input(check_attempt, 0); }

/* Whatever splits come, and however few bad ones are allowed. */
static void check_steps(struct input *in, const hd_items_ *kind)
{
    hd_part_ parts[MOST], smaller;
    for (unsigned bad = 0; bad < 4; bad++) {
        size_t left = 0;
        parts[left++] = (hd_part_){(char *)in->items, in->count, bad, true, bad % 2 == 0};
        while (left > 0) {
            if (hd_sort_step_(kind, &parts[left - 1], &smaller)) {
                EXPECT(smaller.count <= parts[left - 1].count && left < MOST);
                EXPECT(!smaller.fresh && !parts[left - 1].fresh);
                parts[left++] = smaller;
            } else {
                left--;
            }
        }
        EXPECT(is_sorted(in));
        for (size_t i = in->count; i > 1; i--) {
            const size_t other = hdi_prng_below(&in->prng, (uint32_t)i);
            const int item = in->items[other];
            in->items[other] = in->items[i - 1];
            in->items[i - 1] = item;
        }
    }
}

TEST(steps_end_in_a_sequence) { each_input(check_steps, 0); }
