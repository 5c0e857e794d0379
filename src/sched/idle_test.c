/* SPDX-License-Identifier: MIT
 *
 * Who is parked and who is woken, at every width of the bitmap.
 */
#include "death.h"

#include "sched/idle.h"

TEST_MAIN

static struct hdi_idle idle;
static const unsigned widths[] = {1, 2, 3, 63, 64, 65, 128, 200, 255, 256};
enum { WIDTHS = sizeof(widths) / sizeof(widths[0]) };

static void expect_counts(unsigned searching, unsigned parked)
{
    EXPECT_EQ(hdi_idle_searching(&idle), searching);
    EXPECT_EQ(hdi_idle_parked(&idle), parked);
    unsigned bits = 0;
    for (unsigned i = 0; i < HDI_IDLE_WORDS; i++) {
        bits += (unsigned)__builtin_popcountll(idle.parked_bits[i]);
    }
    EXPECT_EQ(bits, parked);
}

static void park_all(unsigned workers)
{
    hdi_idle_init(&idle, workers, workers);
    for (unsigned i = 0; i < workers; i++) {
        EXPECT_EQ(hdi_idle_park(&idle, i, false), i + 1);
    }
    expect_counts(0, workers);
}

/* As after a wake-up: the worker found something. */
static void found(void)
{
    EXPECT(hdi_idle_end_search(&idle));
}

TEST(nobody_is_woken_where_nobody_sleeps)
{
    for (int w = 0; w < WIDTHS; w++) {
        hdi_idle_init(&idle, widths[w], widths[w]);
        EXPECT_EQ(hdi_idle_notify(&idle, 0), -1);
        expect_counts(0, 0);
    }
}

TEST(wake_ups_rotate_over_all_workers)
{
    for (int w = 0; w < WIDTHS; w++) {
        const unsigned workers = widths[w];
        park_all(workers);
        unsigned from = workers / 2;
        for (unsigned i = 0; i < workers; i++) {
            const int woken = hdi_idle_notify(&idle, from);
            EXPECT(woken >= 0 && woken < (int)workers);
            expect_counts(1, workers - 1 - i);
            /* Straight on inside a word of 64; the words after it come before its start. */
            if (workers <= 64 && i < workers - workers / 2) EXPECT_EQ(woken, workers / 2 + i);
            found();
            from = ((unsigned)woken + 1) % workers;
        }
        EXPECT_EQ(hdi_idle_notify(&idle, from), -1);
        expect_counts(0, 0);
    }
}

TEST(from_the_first_worker_on_the_order_is_ascending)
{
    for (int w = 0; w < WIDTHS; w++) {
        park_all(widths[w]);
        for (unsigned i = 0; i < widths[w]; i++) {
            EXPECT_EQ(hdi_idle_notify(&idle, i), i);
            found();
        }
    }
}

TEST(a_lone_sleeper_is_found_from_anywhere)
{
    for (int w = 0; w < WIDTHS; w++) {
        for (unsigned sleeper = 0; sleeper < widths[w]; sleeper++) {
            hdi_idle_init(&idle, widths[w], widths[w]);
            const unsigned from = (sleeper * 7 + 11) % widths[w];
            EXPECT_EQ(hdi_idle_park(&idle, sleeper, false), 1);
            EXPECT_EQ(hdi_idle_notify(&idle, from), sleeper);
            found();
            expect_counts(0, 0);
        }
    }
}

TEST(nobody_is_woken_while_one_searches)
{
    park_all(65);
    EXPECT_EQ(hdi_idle_notify(&idle, 64), 64);
    EXPECT_EQ(hdi_idle_notify(&idle, 0), -1);
    expect_counts(1, 64);
    found();
    EXPECT_EQ(hdi_idle_notify(&idle, 0), 0);
}

TEST(half_of_the_workers_may_search_rounded_up)
{
    for (int w = 0; w < WIDTHS; w++) {
        hdi_idle_init(&idle, widths[w], widths[w]);
        const unsigned most = (widths[w] + 1) / 2;
        for (unsigned i = 0; i < most; i++) EXPECT(hdi_idle_try_search(&idle));
        EXPECT(!hdi_idle_try_search(&idle));
        expect_counts(most, 0);
        for (unsigned i = most; i > 0; i--) EXPECT_EQ(hdi_idle_end_search(&idle), i == 1);
        EXPECT(hdi_idle_try_search(&idle));
    }
}

TEST(a_searcher_that_parks_stops_searching)
{
    hdi_idle_init(&idle, 2, 2);
    EXPECT(hdi_idle_try_search(&idle));
    EXPECT_EQ(hdi_idle_park(&idle, 1, true), 1);
    expect_counts(0, 1);
    EXPECT(hdi_idle_try_search(&idle));
    EXPECT_EQ(hdi_idle_park(&idle, 0, true), 2);
    expect_counts(0, 2);
}

TEST(a_worker_unparks_itself_and_searches)
{
    for (int w = 0; w < WIDTHS; w++) {
        const unsigned last = widths[w] - 1;
        park_all(widths[w]);
        EXPECT(!hdi_idle_unpark(&idle, last));
        expect_counts(1, last);
        EXPECT(hdi_idle_end_search(&idle));
    }
}

TEST(a_worker_that_was_claimed_learns_it_and_is_counted_once)
{
    for (int w = 0; w < WIDTHS; w++) {
        const unsigned last = widths[w] - 1;
        park_all(widths[w]);
        EXPECT_EQ(hdi_idle_notify(&idle, last), last);
        EXPECT(hdi_idle_unpark(&idle, last));
        expect_counts(1, last);
    }
}

static void park_twice(void *arg)
{
    (void)arg;
    hdi_idle_init(&idle, 2, 2);
    (void)hdi_idle_park(&idle, 1, false);
    (void)hdi_idle_park(&idle, 1, false);
}

static void stop_searching_without_searching(void *arg)
{
    (void)arg;
    hdi_idle_init(&idle, 2, 2);
    (void)hdi_idle_park(&idle, 1, true);
}

TEST(impossible_steps_are_caught)
{
    expect_abort(park_twice, NULL, "check failed");
    expect_abort(stop_searching_without_searching, NULL, "check failed");
}
