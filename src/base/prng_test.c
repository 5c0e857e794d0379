/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/prng.h"

TEST_MAIN

/* Seeds mean the same for ever: recorded once, a change here breaks every saved seed. */
TEST(streams_are_what_they_always_were)
{
    struct hdi_prng prng;
    hdi_prng_init(&prng, 42);
    EXPECT(hdi_prng_next(&prng) == UINT64_C(0x31b0ece7c4f697a2));
    EXPECT(hdi_prng_next(&prng) == UINT64_C(0x9008a3b1cb686f03));
    EXPECT(hdi_stream_draw(42, HDI_PURPOSE_SIM_ORDER, 7, 0) == UINT64_C(0x11758a35b99ae7fc));
    EXPECT(hdi_stream_draw(42, HDI_PURPOSE_STEAL, 7, 3) == UINT64_C(0x90e60c99a6263ca5));
}

TEST(no_seed_gets_stuck)
{
    const uint64_t seeds[] = {0, 1, UINT64_MAX, UINT64_C(0) - UINT64_C(0x9e3779b97f4a7c15)};
    for (int i = 0; i < 4; i++) {
        struct hdi_prng prng;
        hdi_prng_init(&prng, seeds[i]); /* the last one mixes to 0 */
        EXPECT(prng.state != 0);        /* PRNG-1 */
        const uint64_t a = hdi_prng_next(&prng), b = hdi_prng_next(&prng);
        EXPECT(a != b);
        for (int k = 0; k < 1000; k++) {
            (void)hdi_prng_next(&prng);
            EXPECT(prng.state != 0);
        }
    }
}

TEST(mixing_is_a_bijection_that_spreads_every_bit)
{
    double flipped = 0;
    for (uint64_t x = 1; x <= 1000; x++) {
        for (int bit = 0; bit < 64; bit++) {
            const uint64_t other = x ^ UINT64_C(1) << bit;
            EXPECT(hdi_mix64(x) != hdi_mix64(other));
            flipped += __builtin_popcountll(hdi_mix64(x) ^ hdi_mix64(other));
        }
    }
    const double mean = flipped / (1000 * 64);
    EXPECT(mean > 31 && mean < 33);
}

/* Chi-squared with n - 1 degrees of freedom: mean n - 1, variance 2 (n - 1). Six
 * standard deviations, and the seeds are fixed: it passes always or never. */
static void check_uniform(const unsigned *counts, unsigned n, unsigned draws)
{
    const double wanted = (double)draws / n;
    double chi = 0;
    for (unsigned i = 0; i < n; i++) chi += (counts[i] - wanted) * (counts[i] - wanted) / wanted;
    const double excess = chi - (n - 1);
    EXPECT(excess * excess < 36.0 * 2 * (n - 1));
}

TEST(below_stays_below_and_is_uniform)
{
    struct hdi_prng prng;
    hdi_prng_init(&prng, 5);
    EXPECT_EQ(hdi_prng_below(&prng, 1), 0);
    for (unsigned n = 2; n <= 100; n += 7) {
        unsigned counts[100] = {0};
        for (int i = 0; i < 50000; i++) {
            const uint32_t draw = hdi_prng_below(&prng, n);
            EXPECT(draw < n);
            counts[draw]++;
        }
        check_uniform(counts, n, 50000);
    }
    for (int i = 0; i < 1000; i++) EXPECT(hdi_prng_below(&prng, UINT32_MAX) < UINT32_MAX);
}

TEST(draws_of_a_stream_do_not_depend_on_other_draws)
{
    const uint64_t tenth = hdi_stream_draw(1, HDI_PURPOSE_STEAL, 2, 10);
    for (uint64_t n = 0; n < 10; n++) (void)hdi_stream_draw(1, HDI_PURPOSE_STEAL, 2, n);
    EXPECT(hdi_stream_draw(1, HDI_PURPOSE_STEAL, 2, 10) == tenth);
}

TEST(seed_purpose_key_and_number_all_matter)
{
    enum { SIDE = 8 };
    static uint64_t draws[SIDE * SIDE * SIDE * 2];
    size_t count = 0;
    for (uint64_t seed = 0; seed < SIDE; seed++) {
        for (uint64_t key = 0; key < SIDE; key++) {
            for (uint64_t n = 0; n < SIDE; n++) {
                draws[count++] = hdi_stream_draw(seed, HDI_PURPOSE_SIM_ORDER, key, n);
                draws[count++] = hdi_stream_draw(seed, HDI_PURPOSE_STEAL, key, n);
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) EXPECT(draws[i] != draws[k]);
    }
}

TEST(neighbouring_streams_are_uniform_together)
{
    unsigned counts[64] = {0};
    for (uint64_t key = 0; key < 300; key++) {
        for (uint64_t n = 0; n < 300; n++) {
            counts[hdi_stream_draw(9, HDI_PURPOSE_STEAL, key, n) >> 58]++;
        }
    }
    check_uniform(counts, 64, 300 * 300);
}

TEST(a_unit_double_is_never_one)
{
    EXPECT(hdi_unit_double(0) == 0.0);
    EXPECT(hdi_unit_double(UINT64_MAX) < 1.0);
    EXPECT(hdi_unit_double(UINT64_C(1) << 63) == 0.5);
    EXPECT(hdi_unit_double(1 << 11) > 0.0);
}
