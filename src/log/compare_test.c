/* SPDX-License-Identifier: MIT
 *
 * Where two logs part.
 */
#include "logs.h"

TEST_MAIN

#define EVENTS 200

/* A log in which one event is another; 0: none. */
static struct logs_file made(uint64_t events, uint64_t per_block, uint64_t other)
{
    const struct logs_file file = logs_file();
    struct hdi_log_writer *writer = malloc(sizeof(*writer));
    EXPECT(writer);
    hdi_log_writer_init(writer, dup(file.fd), &logs_head, false);
    for (uint64_t n = 1; n <= events; n++) {
        struct hdi_log_record event = logs_event(n);
        event.b += n == other;
        hdi_log_writer_put(writer, &event);
        if (n % per_block == 0) hdi_log_writer_flush(writer);
    }
    EXPECT_EQ(hdi_log_writer_end(writer), 0);
    free(writer);
    return file;
}

/* Where they part; 0: nowhere. */
static uint64_t parting(const struct logs_file *a, const struct logs_file *b)
{
    hd_log *one = logs_open(a), *two = logs_open(b);
    uint64_t at = 0, back = 0;
    const int differ = hd_log_compare(one, two, &at);
    EXPECT(differ == 0 || differ == 1);
    EXPECT_EQ(hd_log_compare(two, one, &back), differ);
    EXPECT_EQ(at, back);
    EXPECT(differ ? at > 0 : at == 0);
    EXPECT_EQ(hd_log_compare(one, one, &at), 0);
    hd_log_close(one);
    hd_log_close(two);
    return at;
}

TEST(the_first_event_that_differs_is_found)
{
    const struct logs_file a = made(EVENTS, 7, 0);
    for (uint64_t other = 0; other <= EVENTS; other++) {
        const struct logs_file b = made(EVENTS, 7, other);
        EXPECT_EQ(parting(&a, &b), other);
        close(b.fd);
    }
}

TEST(where_blocks_end_is_no_difference)
{
    const struct logs_file a = made(EVENTS, 7, 0);
    for (uint64_t other = 0; other <= EVENTS; other += 11) {
        const struct logs_file b = made(EVENTS, 13, other);
        EXPECT_EQ(parting(&a, &b), other);
        close(b.fd);
    }
}

TEST(one_that_ends_earlier)
{
    const struct logs_file a = made(EVENTS, 10, 0), b = made(EVENTS - 20, 10, 0);
    const struct logs_file c = made(EVENTS - 25, 10, 0), d = made(0, 10, 0);
    EXPECT_EQ(parting(&a, &b), EVENTS - 19);
    EXPECT_EQ(parting(&a, &c), EVENTS - 24);
    EXPECT_EQ(parting(&a, &d), 1);
    EXPECT_EQ(parting(&d, &d), 0);
}

/* A log that lacks its end has the same events. */
TEST(a_missing_footer_is_no_difference)
{
    static uint8_t bytes[LOGS_BYTES_MAX];
    const struct logs_file a = made(EVENTS, 10, 0), b = made(EVENTS, 10, 0);
    const size_t count = logs_get(&a, bytes, sizeof(bytes));
    logs_put(&b, bytes, count - 1);
    EXPECT_EQ(parting(&a, &b), 0);
    logs_put(&b, bytes, count - HDI_LOG_MARK_BYTES - 1);
    EXPECT_EQ(parting(&a, &b), EVENTS - 9);
}

static int compare(const struct hdi_log_head *a, const struct hdi_log_head *b)
{
    const struct logs_file one = logs_made(a, 10, 0), two = logs_made(b, 10, 0);
    hd_log *first = logs_open(&one), *second = logs_open(&two);
    uint64_t at = 77;
    const int differ = hd_log_compare(first, second, &at);
    EXPECT_EQ(at, 77);
    hd_log_close(first);
    hd_log_close(second);
    return differ;
}

TEST(headers_are_compared_but_for_the_program)
{
    struct hdi_log_head other = logs_head;
    other.program = "another";
    other.library = "9.9.9";
    other.identity[5] = 5;
    EXPECT_EQ(compare(&logs_head, &other), 0);
    other.seed++;
    EXPECT_EQ(compare(&logs_head, &other), 2);
    other = logs_head;
    other.sampler = "pct:4";
    EXPECT_EQ(compare(&logs_head, &other), 2);
    other = logs_head;
    other.options = "workers=2";
    EXPECT_EQ(compare(&logs_head, &other), 2);
}
