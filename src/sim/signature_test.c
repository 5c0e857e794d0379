/* SPDX-License-Identifier: MIT
 *
 * signature: equal for schedules that only swap independent steps, different for others.
 */
#include "sim/signature.h"

#include "test.h"

/* A step: whose, what, how. Objects are numbers here. */
struct step {
    uint32_t task;
    uintptr_t object;
    hd_touch_kind kind;
};

#define W HD_TOUCH_UPDATE
#define R HD_TOUCH_LOAD
#define A HD_TOUCH_ANY

static uint64_t sign_at(struct hdi_signature *signature, const struct step *steps, unsigned count,
                        uintptr_t base)
{
    uint32_t own[64] = {0};
    hdi_signature_begin(signature);
    for (unsigned i = 0; i < count; i++) {
        const struct hdi_actor actor = {.object = (const void *)(base + steps[i].object * 8),
                                        .kind = steps[i].kind,
                                        .steps = ++own[steps[i].task]};
        hdi_signature_step(signature, steps[i].task, &actor);
    }
    return signature->sum;
}

static uint64_t sign(const struct step *steps, unsigned count)
{
    struct hdi_signature signature = {0};
    const uint64_t sum = sign_at(&signature, steps, count, 4096);
    hdi_signature_fini(&signature);
    return sum;
}

#define SIGN(...)                                                                        \
    sign((const struct step[]){__VA_ARGS__},                                             \
         sizeof((const struct step[]){__VA_ARGS__}) / sizeof(struct step))

TEST(independent_steps_may_be_swapped)
{
    EXPECT(SIGN({0, 1, W}, {1, 2, W}) == SIGN({1, 2, W}, {0, 1, W}));
    EXPECT(SIGN({0, 1, R}, {1, 1, R}) == SIGN({1, 1, R}, {0, 1, R}));
    EXPECT(SIGN({2, 1, W}, {0, 1, R}, {1, 1, R}, {2, 1, W}) ==
           SIGN({2, 1, W}, {1, 1, R}, {0, 1, R}, {2, 1, W}));
    EXPECT(SIGN({0, 1, W}, {0, 2, W}, {1, 3, W}, {1, 4, R}) ==
           SIGN({1, 3, W}, {0, 1, W}, {1, 4, R}, {0, 2, W}));
}

TEST(dependent_steps_may_not)
{
    EXPECT(SIGN({0, 1, W}, {1, 1, W}) != SIGN({1, 1, W}, {0, 1, W}));
    EXPECT(SIGN({0, 1, R}, {1, 1, W}) != SIGN({1, 1, W}, {0, 1, R}));
    EXPECT(SIGN({0, 1, R}, {1, 1, W}, {2, 1, R}) != SIGN({2, 1, R}, {1, 1, W}, {0, 1, R}));
    EXPECT(SIGN({0, 1, W}, {1, 2, A}) != SIGN({1, 2, A}, {0, 1, W}));
    EXPECT(SIGN({0, 1, A}, {1, 2, A}) != SIGN({1, 2, A}, {0, 1, A}));
    EXPECT(SIGN({0, 1, W}, {1, 2, A}, {2, 3, W}) != SIGN({0, 1, W}, {2, 3, W}, {1, 2, A}));
    EXPECT(SIGN({0, 1, W}, {1, 1, W}, {0, 1, W}, {1, 1, W}) !=
           SIGN({0, 1, W}, {1, 1, W}, {1, 1, W}, {0, 1, W}));
}

/* Of n steps of each of two tasks on one object there are C(2n, n) orders, and as many classes. */
TEST(every_class_has_its_own)
{
    enum { N = 6, ALL = 924 };
    uint64_t seen[ALL];
    unsigned count = 0;
    for (unsigned order = 0; order < 1u << 2 * N; order++) {
        if (__builtin_popcount(order) != N) continue;
        struct step steps[2 * N];
        for (unsigned i = 0; i < 2 * N; i++) steps[i] = (struct step){order >> i & 1, 1, W};
        const uint64_t sum = sign(steps, 2 * N);
        for (unsigned i = 0; i < count; i++) EXPECT(seen[i] != sum);
        seen[count++] = sum;
    }
    EXPECT_EQ(count, ALL);
}

/* Level D3: objects are what they are wherever they lie, and however many there are. */
TEST(addresses_have_no_effect)
{
    enum { COUNT = 3000 };
    static struct step steps[COUNT];
    struct hdi_prng prng;
    hdi_prng_init(&prng, 7);
    for (unsigned i = 0; i < COUNT; i++) {
        steps[i] = (struct step){hdi_prng_below(&prng, 60), 1 + hdi_prng_below(&prng, 500),
                                 (hd_touch_kind)hdi_prng_below(&prng, HD_TOUCH_ANY + 1)};
    }
    struct hdi_signature signature = {0};
    const uint64_t sum = sign_at(&signature, steps, COUNT, 4096);
    for (uintptr_t base = 1; base < 20; base++) { /* Also: nothing is left of the one before. */
        EXPECT(sign_at(&signature, steps, COUNT, base * UINT64_C(0x123456780)) == sum);
        EXPECT(sign_at(&signature, steps, COUNT - 1, base) != sum);
    }
    hdi_signature_fini(&signature);
}

TEST_MAIN
