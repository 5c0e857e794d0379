/* SPDX-License-Identifier: MIT
 *
 * prng: the two random sources of the library.
 *
 * struct hdi_prng    xorshift64*: a state per owner, for choices whose order is the
 *                    owner's own (victim selection, the sim's next task).
 * hdi_stream_draw()  counter-based: the n-th draw of a stream is a pure function of
 *                    (seed, purpose, key, n), so a new draw shifts no other.
 *
 * Neither is for secrets.
 */
#ifndef HDI_BASE_PRNG_H
#define HDI_BASE_PRNG_H

#include <stdint.h>

struct hdi_prng {
    uint64_t state; /* PRNG-1: never 0, where xorshift would stay for ever */
};

/* splitmix64's finaliser: a bijection that spreads every input bit. */
static inline uint64_t hdi_mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline void hdi_prng_init(struct hdi_prng *prng, uint64_t seed)
{
    prng->state = hdi_mix64(seed + UINT64_C(0x9e3779b97f4a7c15));
    if (prng->state == 0) prng->state = 1; /* PRNG-1 */
}

static inline uint64_t hdi_prng_next(struct hdi_prng *prng)
{
    uint64_t x = prng->state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    prng->state = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

/* A number in [0, n), n > 0, without division; the bias is below n / 2^32. */
static inline uint32_t hdi_prng_below(struct hdi_prng *prng, uint32_t n)
{
    return (uint32_t)(((hdi_prng_next(prng) >> 32) * n) >> 32);
}

/* What a stream is for; part of every key, so that purposes never share draws. Values
 * are fixed for ever: changing one changes every seed's meaning. */
enum hdi_purpose {
    HDI_PURPOSE_SIM_ORDER = 1,
    HDI_PURPOSE_STEAL = 2,
    HDI_PURPOSE_SELECT = 3,
    HDI_PURPOSE_CAP_KEY = 4,
    HDI_PURPOSE_DISK = 5,
    HDI_PURPOSE_NET_CALL = 6,
    HDI_PURPOSE_NET_LINK = 7,
    HDI_PURPOSE_NET_NAME = 8,
    HDI_PURPOSE_CHAOS = 9,
    HDI_PURPOSE_SCHEDULE = 10,
    HDI_PURPOSE_PROGRAM = 11,
};

static inline uint64_t hdi_stream_draw(uint64_t seed, enum hdi_purpose purpose, uint64_t key,
                                       uint64_t n)
{
    uint64_t x = hdi_mix64(seed + UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)purpose);
    x = hdi_mix64(x ^ (key + UINT64_C(0xd1b54a32d192ed03)));
    return hdi_mix64(x + UINT64_C(0x9e3779b97f4a7c15) * (n + 1));
}

/* A draw in [0, 1): 53 bits, so that 1.0 cannot come out. */
static inline double hdi_unit_double(uint64_t draw)
{
    return (double)(draw >> 11) * 0x1.0p-53;
}

#endif
