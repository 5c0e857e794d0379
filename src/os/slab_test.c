/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <pthread.h>
#include <sys/resource.h>

#include "base/prng.h"
#include "os/slab.h"

TEST_MAIN

/* Like a task: a word that others may read even when it is free, then the link. */
struct thing {
    uint64_t word;
    struct hdi_slab_link link;
    uint64_t body[20];
};

static struct hdi_slab slab;

static void setup(void)
{
    hdi_slab_init(&slab, sizeof(struct thing), offsetof(struct thing, link));
}

static bool all_zero(const struct thing *thing)
{
    static const struct thing zero;
    return memcmp(thing, &zero, sizeof(zero)) == 0;
}

TEST(fresh_objects_are_zeroed_aligned_and_apart)
{
    setup();
    EXPECT(slab.chunks == NULL); /* nothing before the first take */
    struct hdi_slab_cache cache;
    hdi_slab_cache_init(&cache, &slab);
    enum { COUNT = 20000 };
    static struct thing *things[COUNT];
    for (int i = 0; i < COUNT; i++) {
        things[i] = hdi_slab_take(&cache);
        EXPECT(things[i] && (uintptr_t)things[i] % HDI_SLAB_ALIGN == 0);
        EXPECT(all_zero(things[i]));
        memset(things[i], 0xff, sizeof(*things[i]));
        things[i]->word = (uint64_t)i;
    }
    for (int i = 0; i < COUNT; i++) EXPECT_EQ(things[i]->word, i);
    EXPECT(hdi_slab_carved(&slab) < COUNT + HDI_SLAB_BATCH);
    hdi_slab_cache_fini(&cache);
    hdi_slab_fini(&slab);
}

/* SLAB-2: a late reader of a free object sees what was there. */
TEST(only_the_link_of_a_free_object_is_written)
{
    setup();
    struct hdi_slab_cache cache;
    hdi_slab_cache_init(&cache, &slab);
    enum { COUNT = 500 };
    struct thing *things[COUNT];
    for (int i = 0; i < COUNT; i++) {
        things[i] = hdi_slab_take(&cache);
        things[i]->word = 1000 + (uint64_t)i;
        memset(things[i]->body, i & 0xff, sizeof(things[i]->body));
    }
    for (int i = 0; i < COUNT; i++) {
        if (i % 3) {
            hdi_slab_give(&cache, things[i]);
        } else {
            hdi_slab_give_shared(&slab, things[i]);
        }
    }
    hdi_slab_cache_fini(&cache);
    for (int i = 0; i < COUNT; i++) {
        EXPECT_EQ(things[i]->word, 1000 + i);
        const unsigned char *bytes = (const unsigned char *)things[i]->body;
        for (size_t k = 0; k < sizeof(things[i]->body); k++) EXPECT_EQ(bytes[k], i & 0xff);
    }
    hdi_slab_fini(&slab);
}

/* ---- random takes and gives, checked against what is held ---- */

enum { FREE = 0, HELD = 1 };

static void count_held(void *object, void *arg)
{
    *(size_t *)arg += ((struct thing *)object)->word == HELD;
}

static void count_all(void *object, void *arg)
{
    (void)object;
    ++*(size_t *)arg;
}

TEST(no_object_is_ever_handed_out_twice_or_lost)
{
    setup();
    struct hdi_slab_cache caches[2];
    for (int i = 0; i < 2; i++) hdi_slab_cache_init(&caches[i], &slab);
    enum { MOST = 1000 };
    static struct thing *held[MOST];
    size_t count = 0, peak = 0;
    struct hdi_prng prng;
    hdi_prng_init(&prng, 3);
    for (int i = 0; i < 300000; i++) {
        const uint32_t who = hdi_prng_below(&prng, 3);
        if (hdi_prng_below(&prng, MOST) >= count) {
            struct thing *thing =
                who < 2 ? hdi_slab_take(&caches[who]) : hdi_slab_take_shared(&slab);
            EXPECT(thing && thing->word == FREE); /* SLAB-1 */
            thing->word = HELD;
            held[count++] = thing;
            if (count > peak) peak = count;
        } else {
            const uint32_t which = hdi_prng_below(&prng, (uint32_t)count);
            struct thing *thing = held[which];
            held[which] = held[--count];
            thing->word = FREE;
            if (who < 2) {
                hdi_slab_give(&caches[who], thing);
            } else {
                hdi_slab_give_shared(&slab, thing);
            }
        }
        if (i % 10000 == 0) {
            size_t seen = 0;
            hdi_slab_for_each(&slab, count_held, &seen);
            EXPECT_EQ(seen, count);
        }
    }
    EXPECT(hdi_slab_carved(&slab) <= peak + 2 * HDI_SLAB_CACHE_MAX + HDI_SLAB_BATCH);
    for (int i = 0; i < 2; i++) hdi_slab_cache_fini(&caches[i]);
    for (size_t i = 0; i < count; i++) hdi_slab_give_shared(&slab, held[i]);
    size_t all = 0;
    const size_t carved = hdi_slab_carved(&slab);
    hdi_slab_for_each(&slab, count_all, &all);
    EXPECT_EQ(all, carved);
    for (size_t i = 0; i < carved; i++) EXPECT(hdi_slab_take_shared(&slab) != NULL);
    EXPECT_EQ(hdi_slab_carved(&slab), carved); /* every one was free exactly once */
    hdi_slab_fini(&slab);
}

TEST(objects_larger_than_a_chunk_fit)
{
    hdi_slab_init(&slab, (2 << 20) + 1, sizeof(void *));
    char *a = hdi_slab_take_shared(&slab), *b = hdi_slab_take_shared(&slab);
    EXPECT(a && b && a != b);
    a[2 << 20] = b[2 << 20] = 1;
    hdi_slab_give_shared(&slab, a);
    EXPECT(hdi_slab_take_shared(&slab) == a);
    hdi_slab_fini(&slab);
}

TEST(a_new_slab_touches_little_memory)
{
    setup();
    struct hdi_slab_cache cache;
    hdi_slab_cache_init(&cache, &slab);
    EXPECT(hdi_slab_take(&cache) != NULL);
    EXPECT_EQ(hdi_slab_carved(&slab), HDI_SLAB_BATCH);
    size_t total = 0;
    for (int i = 0; i < 100000; i++) EXPECT(hdi_slab_take(&cache) != NULL);
    hdi_slab_for_each(&slab, count_all, &total);
    EXPECT(total >= 100001 && total < 100001 + HDI_SLAB_BATCH);
    hdi_slab_fini(&slab);
}

/* ---- threads ---- */

static void *produce_and_consume(void *arg)
{
    struct hdi_slab_cache cache;
    hdi_slab_cache_init(&cache, &slab);
    struct hdi_prng prng;
    hdi_prng_init(&prng, (uintptr_t)arg);
    enum { MOST = 300 };
    struct thing *held[MOST];
    uint32_t count = 0;
    for (int i = 0; i < 100000; i++) {
        if (hdi_prng_below(&prng, MOST) >= count) {
            struct thing *thing = hdi_slab_take(&cache);
            EXPECT(thing && thing->word == FREE);
            thing->word = (uintptr_t)arg;
            held[count++] = thing;
        } else {
            const uint32_t which = hdi_prng_below(&prng, count);
            struct thing *thing = held[which];
            EXPECT_EQ(thing->word, (uintptr_t)arg); /* nobody else had it */
            thing->word = FREE;
            held[which] = held[--count];
            hdi_slab_give(&cache, thing);
        }
    }
    while (count) held[--count]->word = FREE, hdi_slab_give_shared(&slab, held[count]);
    hdi_slab_cache_fini(&cache);
    return NULL;
}

TEST(threads_with_their_own_caches_share_one_slab)
{
    setup();
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++) {
        EXPECT_EQ(pthread_create(&threads[i], NULL, produce_and_consume, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    size_t held = 0;
    hdi_slab_for_each(&slab, count_held, &held);
    EXPECT_EQ(held, 0);
    hdi_slab_fini(&slab);
}

TEST(running_out_of_memory_is_null)
{
    setup();
    struct rlimit limit;
    EXPECT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    EXPECT(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    limit.rlim_cur = pages * (unsigned long)sysconf(_SC_PAGESIZE) + (8 << 20);
    EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    struct hdi_slab_cache cache;
    hdi_slab_cache_init(&cache, &slab);
    int count = 0;
    while (count < 200000 && hdi_slab_take(&cache)) count++;
    if (count == 200000) test_skip("RLIMIT_AS has no effect here");
    EXPECT(hdi_slab_take_shared(&slab) == NULL);
    hdi_slab_fini(&slab);
}
