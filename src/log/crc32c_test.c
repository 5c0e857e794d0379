/* SPDX-License-Identifier: MIT
 *
 * The vectors of RFC 3720, B.4.
 */
#include "log/crc32c.h"

#include "test.h"

TEST_MAIN

TEST(published_vectors)
{
    uint8_t bytes[32];
    EXPECT(hdi_crc32c(0, "123456789", 9) == 0xe3069283);
    memset(bytes, 0, sizeof(bytes));
    EXPECT(hdi_crc32c(0, bytes, sizeof(bytes)) == 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    EXPECT(hdi_crc32c(0, bytes, sizeof(bytes)) == 0x62a8ab43);
    for (unsigned i = 0; i < sizeof(bytes); i++) bytes[i] = (uint8_t)i;
    EXPECT(hdi_crc32c(0, bytes, sizeof(bytes)) == 0x46dd794e);
    for (unsigned i = 0; i < sizeof(bytes); i++) bytes[i] = (uint8_t)(31 - i);
    EXPECT(hdi_crc32c(0, bytes, sizeof(bytes)) == 0x113fdb5c);
}

TEST(any_pieces_give_the_whole)
{
    const char *text = "the quick brown fox";
    const size_t bytes = strlen(text);
    const uint32_t whole = hdi_crc32c(0, text, bytes);
    for (size_t i = 0; i <= bytes; i++) {
        EXPECT(hdi_crc32c(hdi_crc32c(0, text, i), text + i, bytes - i) == whole);
    }
}
