/* SPDX-License-Identifier: MIT
 *
 * search: it visits each sequence once, keeps to its budgets, and replays.
 */
#include "sim/search.h"

#include "test.h"

#define FREE(n)    (&(struct hdi_choice){n, {0, 0}})
#define PREEMPT(n) (&(struct hdi_choice){n, {(1u << (n)) - 2, 0}})

static struct hdi_search start(struct hdi_search_config config)
{
    struct hdi_search x;
    hdi_search_init(&x, &config);
    return x;
}

/* `depth` choices of `width`; each sequence, read as a number, is marked in seen[]. */
static void count_all(struct hdi_search *x, unsigned width, int depth, int *seen)
{
    while (hdi_search_begin(x)) {
        unsigned number = 0;
        for (int i = 0; i < depth; i++) {
            number = number * width + (unsigned)hdi_search_choose(x, FREE(width));
        }
        seen[number]++;
        EXPECT_EQ(hdi_search_end(x), 0);
    }
}

TEST(visits_every_sequence_once)
{
    struct hdi_search x = start((struct hdi_search_config){.mode = HDI_SEARCH_ALL});
    int seen[81] = {0};
    count_all(&x, 3, 4, seen);
    for (int i = 0; i < 81; i++) EXPECT_EQ(seen[i], 1);
    EXPECT_EQ(x.stats.executions, 81);
    EXPECT_EQ(x.stats.depth_max, 4);
    EXPECT(x.stats.exhausted && !x.stats.pruned);
    EXPECT(!hdi_search_begin(&x));
    hdi_search_fini(&x);
}

/* The tree's shape depends on what was picked: 0 ends, 1 goes on. */
TEST(visits_uneven_trees)
{
    struct hdi_search x = start((struct hdi_search_config){.mode = HDI_SEARCH_ALL});
    int lengths[6] = {0};
    while (hdi_search_begin(&x)) {
        int n = 0;
        while (n < 5 && hdi_search_choose(&x, FREE(2)) == 1) n++;
        lengths[n]++;
        EXPECT_EQ(hdi_search_end(&x), 0);
    }
    for (int i = 0; i < 6; i++) EXPECT_EQ(lengths[i], 1);
    hdi_search_fini(&x);
}

static uint64_t executions_within(uint16_t preempts, bool *pruned)
{
    struct hdi_search x = start((struct hdi_search_config){
        .mode = HDI_SEARCH_ALL, .budgets = {preempts, 0}});
    while (hdi_search_begin(&x)) {
        int spent = 0;
        for (int i = 0; i < 6; i++) spent += hdi_search_choose(&x, PREEMPT(2));
        EXPECT(spent <= preempts);
        EXPECT_EQ(hdi_search_end(&x), 0);
    }
    const uint64_t n = x.stats.executions;
    *pruned = x.stats.pruned;
    hdi_search_fini(&x);
    return n;
}

TEST(keeps_to_its_budget)
{
    bool pruned;
    EXPECT_EQ(executions_within(0, &pruned), 1);
    EXPECT_EQ(executions_within(1, &pruned), 1 + 6);
    EXPECT_EQ(executions_within(2, &pruned), 1 + 6 + 15);
    EXPECT(pruned);
    EXPECT_EQ(executions_within(HDI_BUDGET_UNLIMITED, &pruned), 64);
    EXPECT(!pruned);
}

TEST(budgets_are_separate)
{
    struct hdi_search x = start((struct hdi_search_config){
        .mode = HDI_SEARCH_ALL, .budgets = {1, 1}});
    int both = 0;
    while (hdi_search_begin(&x)) {
        const int a = hdi_search_choose(&x, PREEMPT(2));
        const int b = hdi_search_choose(&x, &(struct hdi_choice){2, {0, 2}});
        both += a && b;
        EXPECT_EQ(hdi_search_end(&x), 0);
    }
    EXPECT_EQ(both, 1);
    EXPECT_EQ(x.stats.executions, 4);
    hdi_search_fini(&x);
}

TEST(stops_at_its_caps)
{
    struct hdi_search x = start((struct hdi_search_config){
        .mode = HDI_SEARCH_ALL, .executions_max = 10, .steps_max = 3});
    int seen[81] = {0};
    count_all(&x, 3, 4, seen);
    EXPECT_EQ(x.stats.executions, 10);
    EXPECT(!x.stats.exhausted);
    hdi_search_fini(&x);

    x = start((struct hdi_search_config){.mode = HDI_SEARCH_ALL, .steps_max = 3});
    EXPECT(hdi_search_begin(&x));
    for (int i = 0; i < 3; i++) EXPECT(hdi_search_step(&x));
    EXPECT(!hdi_search_step(&x));
    hdi_search_fini(&x);
}

TEST(random_walk_is_its_seed)
{
    const struct hdi_search_config config = {
        .mode = HDI_SEARCH_RANDOM, .executions_max = 500, .seed = 7};
    int first[81] = {0}, second[81] = {0}, missed = 0;
    struct hdi_search x = start(config), y = start(config);
    count_all(&x, 3, 4, first);
    count_all(&y, 3, 4, second);
    EXPECT(memcmp(first, second, sizeof(first)) == 0);
    for (int i = 0; i < 81; i++) missed += first[i] == 0;
    EXPECT(missed < 20); /* about one in 500 for a uniform walk */
    hdi_search_fini(&x);
    hdi_search_fini(&y);
}

TEST(random_walk_keeps_to_its_budget)
{
    struct hdi_search x = start((struct hdi_search_config){
        .mode = HDI_SEARCH_RANDOM, .executions_max = 200, .seed = 1, .budgets = {2, 0}});
    while (hdi_search_begin(&x)) {
        int spent = 0;
        for (int i = 0; i < 20; i++) spent += hdi_search_choose(&x, PREEMPT(3)) != 0;
        EXPECT(spent <= 2);
        EXPECT_EQ(hdi_search_end(&x), 0);
    }
    hdi_search_fini(&x);
}

TEST(text_and_back)
{
    static const uint8_t list[] = {0, 0, 0, 1, 2, 2, 0, 31, 0, 0};
    struct hdi_search x = start((struct hdi_search_config){
        .mode = HDI_SEARCH_REPLAY, .replay = list, .replay_count = sizeof(list)});
    EXPECT(hdi_search_begin(&x));
    for (size_t i = 0; i < sizeof(list); i++) EXPECT_EQ(hdi_search_choose(&x, FREE(32)), list[i]);
    EXPECT_EQ(hdi_search_choose(&x, FREE(3)), 0);
    char text[64];
    EXPECT_EQ(hdi_search_format(&x, text, sizeof(text)), strlen(text));
    EXPECT(strcmp(text, "0:3,1,2:2,0,31") == 0);
    EXPECT_EQ(hdi_search_format(&x, text, 4), 14);
    EXPECT(strcmp(text, "0:3") == 0);
    EXPECT_EQ(hdi_search_end(&x), 0);
    EXPECT(!hdi_search_begin(&x));
    hdi_search_fini(&x);

    uint8_t back[16];
    EXPECT_EQ(hdi_search_parse("0:3,1,2:2,0,31", back, sizeof(back)), 8);
    EXPECT(memcmp(back, list, 8) == 0);
    EXPECT_EQ(hdi_search_parse("", back, sizeof(back)), 0);
    EXPECT_EQ(hdi_search_parse("1:20", back, sizeof(back)), 20);
}

TEST(bad_text_is_refused)
{
    static const char *const bad[] = {"x", "1,", ",1", "1:", "1:0", "32", "1;2", "-1", "1:2:3",
                                      "99999999999999999999", "1:9999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        EXPECT_EQ(hdi_search_parse(bad[i], NULL, 0), -EINVAL);
    }
}

TEST(mismatch_is_told)
{
    static const uint8_t list[] = {1, 5};
    const struct hdi_search_config config = {
        .mode = HDI_SEARCH_REPLAY, .replay = list, .replay_count = 2};
    struct hdi_search x = start(config);
    EXPECT(hdi_search_begin(&x));
    EXPECT_EQ(hdi_search_choose(&x, FREE(2)), 1);
    EXPECT_EQ(hdi_search_choose(&x, FREE(2)), -EPROTO); /* no sixth alternative */
    hdi_search_fini(&x);

    x = start(config);
    EXPECT(hdi_search_begin(&x));
    EXPECT_EQ(hdi_search_choose(&x, FREE(2)), 1);
    EXPECT_EQ(hdi_search_end(&x), -EPROTO); /* ends before the list */
    hdi_search_fini(&x);
}

TEST(chance_in_the_program_is_told)
{
    struct hdi_search x = start((struct hdi_search_config){.mode = HDI_SEARCH_ALL});
    EXPECT(hdi_search_begin(&x));
    EXPECT_EQ(hdi_search_choose(&x, FREE(3)), 0);
    EXPECT_EQ(hdi_search_end(&x), 0);
    EXPECT(hdi_search_begin(&x));
    EXPECT_EQ(hdi_search_choose(&x, FREE(2)), -EPROTO);
    hdi_search_fini(&x);
}

TEST_MAIN
