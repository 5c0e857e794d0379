/* SPDX-License-Identifier: MIT
 *
 * The vectors of the reference implementation: key 00 01 .. 0f, message 00 01 .. of each length.
 */
#include "base/siphash.h"

#include "test.h"

TEST_MAIN

static const uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};

static void count_up(unsigned char *message, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) message[i] = (unsigned char)i;
}

TEST(published_vectors)
{
    static const uint64_t expected[] = {
        UINT64_C(0x726fdb47dd0e0e31), UINT64_C(0x74f839c593dc67fd), UINT64_C(0x0d6c8009d9a94f5a),
        UINT64_C(0x85676696d7fb7e2d), UINT64_C(0xcf2794e0277187b7), UINT64_C(0x18765564cd99a68d),
        UINT64_C(0xcbc9466e58fee3ce), UINT64_C(0xab0200f58b01d137), UINT64_C(0x93f5f5799a932462),
        UINT64_C(0x9e0082df0ba9e4b0), UINT64_C(0x7a5dbbc594ddb9f3), UINT64_C(0xf4b32f46226bada7),
        UINT64_C(0x751e8fbc860ee5fb), UINT64_C(0x14ea5627c0843d90), UINT64_C(0xf723ca908e7af2ee),
        UINT64_C(0xa129ca6149be45e5), UINT64_C(0x3f2acc7f57c29bdb),
    };
    unsigned char message[63];
    count_up(message, sizeof(message));
    for (size_t bytes = 0; bytes < sizeof(expected) / sizeof(expected[0]); bytes++) {
        EXPECT(hdi_siphash(key, message, bytes) == expected[bytes]);
    }
    EXPECT(hdi_siphash(key, message, sizeof(message)) == UINT64_C(0x958a324ceb064572));
}

TEST(every_bit_of_key_and_message_matters)
{
    unsigned char message[16];
    count_up(message, sizeof(message));
    const uint64_t hash = hdi_siphash(key, message, sizeof(message));
    for (unsigned bit = 0; bit < 128; bit++) {
        uint64_t other[2] = {key[0], key[1]};
        other[bit / 64] ^= UINT64_C(1) << bit % 64;
        EXPECT(hdi_siphash(other, message, sizeof(message)) != hash);
        message[bit / 8] ^= (unsigned char)(1u << bit % 8);
        EXPECT(hdi_siphash(key, message, sizeof(message)) != hash);
        message[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
}

TEST(alignment_does_not_matter)
{
    unsigned char buffer[40];
    for (size_t shift = 0; shift < 8; shift++) {
        count_up(buffer + shift, 32);
        EXPECT(hdi_siphash(key, buffer + shift, 15) == UINT64_C(0xa129ca6149be45e5));
    }
}
