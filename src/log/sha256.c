/* SPDX-License-Identifier: MIT */
#include "log/sha256.h"

#include <string.h>

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t rotate(uint32_t x, int bits)
{
    return x >> bits | x << (32 - bits);
}

static inline uint32_t load(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline void store(uint8_t *at, uint32_t word)
{
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(word >> (24 - 8 * i));
}

static void expand(uint32_t words[64], const uint8_t block[64])
{
    for (int i = 0; i < 16; i++) words[i] = load(block + 4 * (size_t)i);
    for (int i = 16; i < 64; i++) {
        const uint32_t x = words[i - 15], y = words[i - 2];
        words[i] = words[i - 16] + (rotate(x, 7) ^ rotate(x, 18) ^ x >> 3) + words[i - 7] +
                   (rotate(y, 17) ^ rotate(y, 19) ^ y >> 10);
    }
}

/* The letters are the standard's. */
static void compress(uint32_t state[8], const uint8_t block[64])
{
    uint32_t words[64];
    expand(words, block);
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i++) {
        const uint32_t t1 = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                            ((e & f) ^ (~e & g)) + constants[i] + words[i];
        const uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                            ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void hdi_sha256_init(struct hdi_sha256 *sha)
{
    static const uint32_t begin[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    };
    memcpy(sha->state, begin, sizeof(begin));
    sha->bytes = 0;
}

void hdi_sha256_add(struct hdi_sha256 *sha, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    const size_t held = sha->bytes % 64;
    sha->bytes += bytes;
    if (held + bytes < 64) {
        if (bytes > 0) memcpy(sha->block + held, at, bytes);
        return;
    }
    if (held > 0) {
        const size_t rest = 64 - held;
        memcpy(sha->block + held, at, rest);
        compress(sha->state, sha->block);
        at += rest;
        bytes -= rest;
    }
    for (; bytes >= 64; at += 64, bytes -= 64) compress(sha->state, at);
    memcpy(sha->block, at, bytes);
}

void hdi_sha256_end(struct hdi_sha256 *sha, uint8_t hash[HDI_SHA256_BYTES])
{
    static const uint8_t padding[64] = {0x80};
    const uint64_t bits = sha->bytes * 8;
    uint8_t length[8];
    store(length, (uint32_t)(bits >> 32));
    store(length + 4, (uint32_t)bits);
    hdi_sha256_add(sha, padding, 1 + (119 - sha->bytes % 64) % 64);
    hdi_sha256_add(sha, length, sizeof(length));
    for (size_t i = 0; i < 8; i++) store(hash + 4 * i, sha->state[i]);
}
