/* SPDX-License-Identifier: MIT
 *
 * Varints, headers, tables and the numbers of objects.
 */
#include "log/format.h"

#include "base/prng.h"
#include "log/objects.h"
#include "log/table.h"
#include "test.h"

TEST_MAIN

TEST(varints_survive)
{
    uint8_t bytes[HDI_LOG_VARINT_MAX];
    for (unsigned bit = 0; bit < 64; bit++) {
        for (int more = -1; more <= 1; more++) {
            const uint64_t value = (UINT64_C(1) << bit) + (uint64_t)(int64_t)more;
            uint64_t again = 0;
            const uint8_t *end = hdi_varint_put(bytes, value);
            EXPECT(end <= bytes + sizeof(bytes));
            EXPECT(hdi_varint_get(bytes, end, &again) == end && again == value);
            EXPECT(!hdi_varint_get(bytes, end - 1, &again)); /* cut */
            EXPECT(hdi_unzigzag(hdi_zigzag(value)) == value);
        }
    }
    EXPECT_EQ(hdi_zigzag(0), 0);
    EXPECT_EQ(hdi_zigzag((uint64_t)-1), 1);
    EXPECT_EQ(hdi_zigzag(1), 2);
}

static bool is_varint(const char *bytes, size_t count)
{
    uint64_t value;
    return hdi_varint_get((const uint8_t *)bytes, (const uint8_t *)bytes + count, &value) != NULL;
}

TEST(varints_have_one_form)
{
    EXPECT(is_varint("\x00", 1));
    EXPECT(is_varint("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10));
    EXPECT(!is_varint("\x80\x00", 2));
    EXPECT(!is_varint("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10)); /* 65 bits */
    EXPECT(!is_varint("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x00", 11));
    EXPECT(!is_varint("", 0));
}

TEST(headers_survive)
{
    static uint8_t bytes[HDI_LOG_HEADER_MAX];
    uint8_t origin[HDI_SHA256_BYTES], again[HDI_SHA256_BYTES];
    static char longest[HDI_LOG_STRING_MAX + 10];
    memset(longest, 'x', sizeof(longest) - 1);
    struct hdi_log_head head = {
        .identity = {9, 8, 7}, .program = longest, .library = "", .seed = UINT64_MAX,
        .sampler = longest, .options = longest};
    const size_t count = hdi_log_head_put(bytes, &head, origin);
    struct hdi_log_head read;
    EXPECT_EQ(hdi_log_head_length(bytes), count);
    EXPECT_EQ(hdi_log_head_get(bytes, count, &read, again), 0);
    EXPECT(memcmp(origin, again, sizeof(origin)) == 0);
    EXPECT(memcmp(read.identity, head.identity, sizeof(read.identity)) == 0);
    EXPECT(read.seed == UINT64_MAX);
    longest[HDI_LOG_STRING_MAX] = 0; /* It was cut there. */
    EXPECT(strcmp(read.program, longest) == 0 && strcmp(read.library, "") == 0);
    EXPECT(strcmp(read.sampler, longest) == 0 && strcmp(read.options, longest) == 0);
}

/* The chain is of what was run, not of who ran it. */
TEST(where_the_chain_begins)
{
    static uint8_t bytes[HDI_LOG_HEADER_MAX];
    uint8_t first[HDI_SHA256_BYTES], other[HDI_SHA256_BYTES];
    struct hdi_log_head head = {.program = "a", .library = "1", .sampler = "", .options = ""};
    hdi_log_head_put(bytes, &head, first);
    head.program = "bcd";
    head.library = "2";
    head.identity[31] = 1;
    hdi_log_head_put(bytes, &head, other);
    EXPECT(memcmp(first, other, sizeof(first)) == 0);
    head.seed = 1;
    hdi_log_head_put(bytes, &head, other);
    EXPECT(memcmp(first, other, sizeof(first)) != 0);
    head.seed = 0;
    head.sampler = "pos";
    hdi_log_head_put(bytes, &head, other);
    EXPECT(memcmp(first, other, sizeof(first)) != 0);
}

TEST(tables_number_in_order_until_they_are_full)
{
    static struct hdi_log_table table;
    static uint8_t block[8 * 2 * HDI_LOG_TABLE_MAX];
    hdi_log_table_clear(&table);
    for (unsigned i = 0; i < 2 * HDI_LOG_TABLE_MAX; i++) {
        char *text = (char *)block + 8 * (size_t)i;
        snprintf(text, 8, "%u", i % HDI_LOG_TABLE_MAX);
        const int line = i < HDI_LOG_TABLE_MAX ? 3 : 4;
        EXPECT_EQ(hdi_log_table_find(&table, block, text, strlen(text), line), 0);
        const struct hdi_log_entry entry = {8 * i, (uint16_t)strlen(text), line};
        hdi_log_table_add(&table, block, &entry);
        const unsigned number = hdi_log_table_find(&table, block, text, strlen(text), line);
        EXPECT_EQ(number, i < HDI_LOG_TABLE_MAX ? i + 1 : 0);
    }
    EXPECT_EQ(hdi_log_table_find(&table, block, "17", 2, 3), 18);
    hdi_log_table_clear(&table);
    EXPECT_EQ(hdi_log_table_find(&table, block, "17", 2, 3), 0);
}

/* Against a plain array that says which number each has. */
TEST(objects_have_the_number_of_their_first_appearance)
{
    enum { COUNT = 500 };
    static char memory[COUNT];
    static uint64_t numbers[COUNT];
    struct hdi_log_objects objects = {0};
    struct hdi_prng prng;
    hdi_prng_init(&prng, 1);
    hdi_log_objects_forget(&objects, memory); /* There is none. */
    uint64_t last = 0;
    for (int i = 0; i < 100000; i++) {
        const uint32_t at = hdi_prng_below(&prng, COUNT);
        if (hdi_prng_below(&prng, 3) == 0) {
            hdi_log_objects_forget(&objects, memory + at);
            numbers[at] = 0;
        } else {
            if (!numbers[at]) numbers[at] = ++last;
            EXPECT_EQ(hdi_log_objects_number(&objects, memory + at), numbers[at]);
        }
    }
    hdi_log_objects_fini(&objects);
}
