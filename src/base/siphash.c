/* SPDX-License-Identifier: MIT */
#include "base/siphash.h"

#include <endian.h>
#include <string.h>

struct state {
    uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void sip_round(struct state *s)
{
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 = rotate(s->v0, 32);
    s->v2 += s->v1;
    s->v0 += s->v3;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v2 = rotate(s->v2, 32);
}

static inline void compress(struct state *s, uint64_t word)
{
    s->v3 ^= word;
    sip_round(s);
    sip_round(s);
    s->v0 ^= word;
}

/* Up to eight bytes, little-endian on every machine. */
static inline uint64_t load(const unsigned char *bytes, size_t count)
{
    uint64_t word = 0;
    memcpy(&word, bytes, count);
    return le64toh(word);
}

uint64_t hdi_siphash(const uint64_t key[2], const void *data, size_t bytes)
{
    struct state s = {
        .v0 = key[0] ^ UINT64_C(0x736f6d6570736575),
        .v1 = key[1] ^ UINT64_C(0x646f72616e646f6d),
        .v2 = key[0] ^ UINT64_C(0x6c7967656e657261),
        .v3 = key[1] ^ UINT64_C(0x7465646279746573),
    };
    const unsigned char *at = data;
    for (size_t left = bytes / 8; left > 0; left--, at += 8) compress(&s, load(at, 8));
    compress(&s, load(at, bytes % 8) | (uint64_t)bytes << 56);
    s.v2 ^= 0xff;
    for (int i = 0; i < 4; i++) sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
