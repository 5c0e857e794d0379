/* SPDX-License-Identifier: MIT
 *
 * Parallel sorts: against qsort(), for many types, sizes and hard inputs.
 */
#include <math.h>

#include "parallel.h"

TEST_MAIN

/* ---- inputs ---- */

enum pattern {
    RANDOM,
    SORTED,
    REVERSED,
    EQUAL,
    FEW,        /* of 5 values */
    ORGAN_PIPE, /* up, then down */
    SAWTOOTH,
    NEARLY,     /* sorted but for a few */
    SORTED_THEN_RANDOM,
    PATTERNS,
};

static unsigned number_of(enum pattern pattern, size_t i, size_t count, uint64_t *random)
{
    const unsigned any = (unsigned)parallel_random(random), at = (unsigned)i;
    switch (pattern) {
    case RANDOM: return any;
    case SORTED: return at;
    case REVERSED: return (unsigned)count - at;
    case EQUAL: return 42;
    case FEW: return any % 5;
    case ORGAN_PIPE: return i < count / 2 ? at : (unsigned)count - at;
    case SAWTOOTH: return at % 37;
    case NEARLY: return any % 50 == 0 ? any : at;
    case SORTED_THEN_RANDOM: return i < count / 8 * 7 ? at : any;
    case PATTERNS: break;
    }
    return 0;
}

static const size_t counts[] = {0, 1, 2, 3, 23, 24, 25, 128, 129, 1000, 1025, 7000};
enum { COUNTS = sizeof(counts) / sizeof(counts[0]), MOST = 7000 };

/* ---- numbers, against qsort() ---- */

HD_SORT(sort_numbers, unsigned, a, b, *a < *b);

static int compare_numbers(const void *a, const void *b)
{
    const unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

static void expect_as_qsort(enum pattern pattern, size_t count, size_t grain)
{
    unsigned *expected = parallel_alloc(count * sizeof(*expected));
    unsigned *typed = parallel_alloc(count * sizeof(*typed));
    unsigned *untyped = parallel_alloc(count * sizeof(*untyped));
    const hd_parallel_options options = parallel_grain(grain);
    uint64_t random = count + grain;
    for (size_t i = 0; i < count; i++) {
        expected[i] = typed[i] = untyped[i] = number_of(pattern, i, count, &random);
    }
    qsort(expected, count, sizeof(*expected), compare_numbers);
    EXPECT_EQ(sort_numbers(typed, count, &options), 0);
    EXPECT_EQ(memcmp(typed, expected, count * sizeof(*typed)), 0);
    EXPECT_EQ(hd_parallel_sort(untyped, count, sizeof(*untyped), compare_numbers, &options), 0);
    EXPECT_EQ(memcmp(untyped, expected, count * sizeof(*untyped)), 0);
    free(expected);
    free(typed);
    free(untyped);
}

static int sort_patterns(void *arg)
{
    (void)arg;
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        for (unsigned i = 0; i < COUNTS; i++) {
            expect_as_qsort((enum pattern)pattern, counts[i], 0);
            expect_as_qsort((enum pattern)pattern, counts[i], 1 + (size_t)pattern * 20);
        }
    }
    return 0;
}

TEST_WORLDS(numbers_of_all_patterns, options)
{
    parallel_everywhere(sort_patterns, NULL, options);
}

TEST(by_a_thread_alone) { sort_patterns(NULL); }

/* ---- other types ---- */

struct person {
    char name[14];
    unsigned char age;
    double weight;
};

HD_SORT(sort_people, struct person, a, b,
        a->age != b->age ? a->age < b->age : strcmp(a->name, b->name) < 0);
HD_SORT(sort_bytes, unsigned char, a, b, *a > *b);
HD_SORT(sort_pointers, const struct person *, a, b, (*a)->weight < (*b)->weight);

static void make_people(struct person *people, size_t count)
{
    uint64_t random = 9;
    for (size_t i = 0; i < count; i++) {
        people[i] = (struct person){.age = (unsigned char)parallel_below(&random, 90),
                                    .weight = (double)parallel_below(&random, 1000)};
        for (int k = 0; k < 3; k++) {
            people[i].name[k] = (char)('a' + parallel_below(&random, 26));
        }
    }
}

static int sort_types(void *arg)
{
    struct person *people = parallel_alloc(MOST * sizeof(*people));
    const struct person **pointers = parallel_alloc(MOST * sizeof(*pointers));
    unsigned char *bytes = parallel_alloc(MOST);
    uint64_t random = 8;
    (void)arg;
    make_people(people, MOST);
    EXPECT_EQ(sort_people(people, MOST, NULL), 0);
    for (size_t i = 1; i < MOST; i++) {
        EXPECT(people[i - 1].age <= people[i].age);
        if (people[i - 1].age == people[i].age) {
            EXPECT(strcmp(people[i - 1].name, people[i].name) <= 0);
        }
    }
    for (size_t i = 0; i < MOST; i++) pointers[i] = &people[i];
    EXPECT_EQ(sort_pointers(pointers, MOST, NULL), 0);
    for (size_t i = 1; i < MOST; i++) EXPECT(pointers[i - 1]->weight <= pointers[i]->weight);
    for (size_t i = 0; i < MOST; i++) bytes[i] = (unsigned char)parallel_random(&random);
    EXPECT_EQ(sort_bytes(bytes, MOST, NULL), 0);
    for (size_t i = 1; i < MOST; i++) EXPECT(bytes[i - 1] >= bytes[i]);
    free(people);
    free(pointers);
    free(bytes);
    return 0;
}

TEST_WORLDS(items_of_other_types, options) { parallel_everywhere(sort_types, NULL, options); }

/* ---- items of any size: a number, and bytes that follow from it ---- */

static size_t item_bytes;

static unsigned key_of(const void *item)
{
    unsigned key = 0;
    memcpy(&key, item, item_bytes < sizeof(key) ? item_bytes : sizeof(key));
    return key;
}

static int compare_keys(const void *a, const void *b)
{
    const unsigned x = key_of(a), y = key_of(b);
    return (x > y) - (x < y);
}

static int sort_of_size(void *arg)
{
    static const size_t patterns[] = {RANDOM, REVERSED, FEW, SORTED_THEN_RANDOM};
    enum { SOME = 1200 };
    const size_t bytes = item_bytes;
    unsigned char *items = parallel_alloc(bytes * SOME);
    (void)arg;
    for (unsigned p = 0; p < 4; p++) {
        uint64_t random = p, sum = 0, sum_after = 0;
        for (size_t i = 0; i < SOME; i++) {
            unsigned char *item = items + i * bytes;
            const unsigned key = number_of((enum pattern)patterns[p], i, SOME, &random);
            memcpy(item, &key, bytes < sizeof(key) ? bytes : sizeof(key));
            for (size_t k = sizeof(key); k < bytes; k++) item[k] = (unsigned char)(key * k);
            sum += key_of(item);
        }
        EXPECT_EQ(hd_parallel_sort(items, SOME, bytes, compare_keys, NULL), 0);
        for (size_t i = 0; i < SOME; i++) {
            const unsigned char *item = items + i * bytes;
            sum_after += key_of(item);
            if (i > 0) EXPECT(compare_keys(item - bytes, item) <= 0);
            for (size_t k = sizeof(unsigned); k < bytes; k++) {
                EXPECT_EQ(item[k], (unsigned char)(key_of(item) * k));
            }
        }
        EXPECT_EQ(sum, sum_after);
    }
    free(items);
    return 0;
}

TEST_WORLDS(items_of_any_size, options)
{
    static const size_t sizes[] = {1, 2, 3, 4, 5, 8, 12, 16, 40, 255, 256, 257, 1000};
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        item_bytes = sizes[i];
        rt_run(sort_of_size, NULL, options);
    }
}

/* ---- the worst ---- */

static atomic_ullong compared;

static bool counted_less(unsigned a, unsigned b)
{
    atomic_fetch_add_explicit(&compared, 1, memory_order_relaxed);
    return a < b;
}

HD_SORT(sort_counted, unsigned, a, b, counted_less(*a, *b));

/* An adversary after McIlroy, "A Killer Adversary for Quicksort": every item is "gas" until it must
 * be told apart. */
struct adversary {
    unsigned *values;
    unsigned gas, solid, candidate;
};
static struct adversary adversary;

static bool adverse_less(unsigned a, unsigned b)
{
    struct adversary *x = &adversary;
    if (x->values[a] == x->gas && x->values[b] == x->gas) {
        x->values[a == x->candidate ? a : b] = x->solid++;
    }
    if (x->values[a] == x->gas) x->candidate = a;
    else if (x->values[b] == x->gas) x->candidate = b;
    return x->values[a] < x->values[b];
}

HD_SORT(sort_adversely, unsigned, a, b, adverse_less(*a, *b));

static unsigned long long comparisons(const unsigned *values, size_t count)
{
    unsigned *items = parallel_alloc(count * sizeof(*items));
    memcpy(items, values, count * sizeof(*items));
    atomic_store(&compared, 0);
    EXPECT_EQ(sort_counted(items, count, NULL), 0);
    for (size_t i = 1; i < count; i++) EXPECT(items[i - 1] <= items[i]);
    free(items);
    return atomic_load(&compared);
}

TEST(few_comparisons_at_the_worst)
{
    enum { MANY = 1 << 16, LOG = 16 };
    unsigned *items = parallel_alloc(MANY * sizeof(*items));
    unsigned *values = parallel_alloc(MANY * sizeof(*values));
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        uint64_t random = 1;
        for (size_t i = 0; i < MANY; i++) {
            values[i] = number_of((enum pattern)pattern, i, MANY, &random);
        }
        EXPECT(comparisons(values, MANY) < 2ull * MANY * LOG);
        if (pattern == SORTED || pattern == EQUAL) EXPECT(comparisons(values, MANY) < 2ull * MANY);
        if (pattern == REVERSED) EXPECT(comparisons(values, MANY) < 5ull * MANY);
    }
    adversary = (struct adversary){.values = values, .gas = MANY};
    for (unsigned i = 0; i < MANY; i++) {
        items[i] = i;
        values[i] = MANY;
    }
    EXPECT_EQ(sort_adversely(items, MANY, NULL), 0);
    EXPECT(comparisons(values, MANY) < 6ull * MANY * LOG); /* n^2 / 2 is 2,000 n log n */
    free(items);
    free(values);
}

/* ---- comparisons that are no order ---- */

HD_SORT(sort_doubles, double, a, b, *a < *b);
HD_SORT(sort_badly, unsigned, a, b, *a <= *b);
HD_SORT(sort_always, unsigned, a, b, (a != b));
static uint64_t dice;
HD_SORT(sort_by_dice, unsigned, a, b, (parallel_random(&dice) & 1));

static void expect_all_there(const unsigned *items, size_t count)
{
    unsigned char *seen = parallel_alloc(count);
    for (size_t i = 0; i < count; i++) {
        EXPECT(items[i] < count);
        EXPECT_EQ(seen[items[i]]++, 0);
    }
    free(seen);
}

TEST(without_an_order_nothing_is_lost)
{
    unsigned *items = parallel_alloc(MOST * sizeof(*items));
    double *doubles = parallel_alloc(MOST * sizeof(*doubles));
    uint64_t random = 3;
    for (unsigned i = 0; i < MOST; i++) items[i] = i;
    EXPECT_EQ(sort_badly(items, MOST, NULL), 0);
    expect_all_there(items, MOST);
    EXPECT_EQ(sort_always(items, MOST, NULL), 0);
    expect_all_there(items, MOST);
    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(sort_by_dice(items, MOST, NULL), 0);
        expect_all_there(items, MOST);
    }
    int nans = 0;
    for (size_t i = 0; i < MOST; i++) {
        doubles[i] = parallel_below(&random, 3) ? (double)parallel_random(&random) : NAN;
        nans += isnan(doubles[i]) != 0;
    }
    EXPECT_EQ(sort_doubles(doubles, MOST, NULL), 0);
    for (size_t i = 0; i < MOST; i++) nans -= isnan(doubles[i]) != 0;
    EXPECT_EQ(nans, 0);
    free(items);
    free(doubles);
}

/* ---- the same for everyone ---- */

struct pair {
    unsigned key, value;
};

HD_SORT(sort_pairs, struct pair, a, b, a->key < b->key);

static void fill_pairs(struct pair *pairs)
{
    uint64_t random = 6;
    for (unsigned i = 0; i < MOST; i++) pairs[i] = (struct pair){parallel_random(&random) % 50, i};
}

static int sort_same(void *expected)
{
    struct pair *pairs = parallel_alloc(MOST * sizeof(*pairs));
    fill_pairs(pairs);
    EXPECT_EQ(sort_pairs(pairs, MOST, NULL), 0);
    EXPECT_EQ(memcmp(pairs, expected, MOST * sizeof(*pairs)), 0);
    free(pairs);
    return 0;
}

TEST_WORLDS(equal_items_end_in_the_same_sequence, options)
{
    struct pair *alone = parallel_alloc(MOST * sizeof(*alone));
    fill_pairs(alone);
    EXPECT_EQ(sort_pairs(alone, MOST, NULL), 0);
    parallel_everywhere(sort_same, alone, options);
    free(alone);
}

TEST(misuse_is_refused)
{
    const hd_parallel_options wrong = {.size = 1};
    unsigned items[2] = {2, 1};
    EXPECT_EQ(sort_numbers(items, 2, &wrong), -EINVAL);
    EXPECT_EQ(hd_parallel_sort(items, 2, sizeof(items[0]), compare_numbers, &wrong), -EINVAL);
    EXPECT_EQ(hd_parallel_sort(items, 2, 0, compare_numbers, NULL), -EINVAL);
    EXPECT_EQ(hd_parallel_sort(NULL, 2, 4, compare_numbers, NULL), -EINVAL);
    EXPECT_EQ(hd_parallel_sort(NULL, 0, 4, compare_numbers, NULL), 0);
    EXPECT(items[0] == 2 && items[1] == 1);
}
