/* SPDX-License-Identifier: MIT
 *
 * The table of capabilities from inside: slots, generations, references, numbers.
 */
#include "scope/cap.h"

#include "caps.h"

TEST_MAIN

static hd_runtime *simulated(uint64_t seed)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.seed = seed;
    return rt_create(&options);
}

static hd_cap derive(hd_runtime *runtime, hd_cap_kind kind)
{
    hd_cap cap = {0, 0};
    EXPECT_EQ(hd_cap_derive(runtime, hd_cap_self(runtime, kind), NULL, &cap), 0);
    return cap;
}

static uint64_t index_of(hd_cap cap)
{
    return cap.id & HDI_CAP_INDEX_MASK;
}

static uint64_t generation_of(hd_cap cap)
{
    return cap.id >> HDI_CAP_INDEX_BITS;
}

TEST(the_runtimes_own_have_the_numbers_of_their_kinds)
{
    hd_runtime *runtime = simulated(1);
    for (int kind = HD_CAP_SPAWN; kind < HD_CAP_KINDS; kind++) {
        EXPECT_EQ(hd_cap_self(runtime, (hd_cap_kind)kind).id, kind);
    }
    EXPECT_EQ(derive(runtime, HD_CAP_SPAWN).id, HD_CAP_KINDS);
    hd_runtime_destroy(runtime);
}

TEST(nothing_is_made_before_it_is_asked_for)
{
    hd_runtime *runtime = simulated(1);
    EXPECT(hdi_caps_of(runtime) == NULL);
    EXPECT(!hd_cap_valid(runtime, (hd_cap){1, 1}));
    EXPECT(hdi_caps_of(runtime) == NULL);
    hd_runtime_destroy(runtime);
}

TEST(a_slot_is_used_again_with_another_generation)
{
    hd_runtime *runtime = simulated(1);
    const hd_cap first = derive(runtime, HD_CAP_SPAWN);
    EXPECT_EQ(hd_cap_revoke(runtime, first), 0);
    const hd_cap second = derive(runtime, HD_CAP_BUDGET);
    EXPECT_EQ(index_of(second), index_of(first));
    EXPECT_EQ(generation_of(second), generation_of(first) + 1);
    EXPECT(first.tag != second.tag);
    hd_runtime_destroy(runtime);
}

TEST(a_slot_ends_with_its_last_generation)
{
    hd_runtime *runtime = simulated(1);
    const hd_cap cap = derive(runtime, HD_CAP_SPAWN);
    struct hdi_cap *entry = hdi_cap_find(hdi_caps_of(runtime), cap);
    const uint64_t last = UINT64_MAX & ~HDI_CAP_INDEX_MASK;
    for (uint64_t generation = 2; generation > 0; generation--) {
        entry->id = (last - ((generation - 1) << HDI_CAP_INDEX_BITS)) | index_of(cap);
        hdi_store_release(&entry->valid, entry->id);
        const hd_cap aged = hdi_cap_handle(entry);
        EXPECT(hd_cap_valid(runtime, aged));
        EXPECT_EQ(hd_cap_revoke(runtime, aged), 0);
        const hd_cap next = derive(runtime, HD_CAP_SPAWN);
        EXPECT_EQ(index_of(next) == index_of(cap), generation > 1);
        EXPECT(!hd_cap_valid(runtime, aged));
    }
    hd_runtime_destroy(runtime);
}

TEST(tables_have_the_least_numbers_that_are_free)
{
    hd_runtime *runtimes[4];
    for (unsigned i = 0; i < 3; i++) {
        runtimes[i] = simulated(1);
        EXPECT_EQ(hdi_caps_need(runtimes[i])->number, i);
    }
    EXPECT_EQ(hdi_caps_of(runtimes[0])->key[0], hdi_caps_of(runtimes[1])->key[0]);
    hd_runtime_destroy(runtimes[1]);
    for (unsigned i = 1; i < 4; i += 2) {
        runtimes[i] = simulated(1);
        EXPECT_EQ(hdi_caps_need(runtimes[i])->number, i);
    }
    for (unsigned i = 0; i < 4; i++) hd_runtime_destroy(runtimes[i]);
}

/* ---- what keeps an entry ---- */

struct kept {
    hd_chan *chan;
    uint64_t index;
    hd_cap cap;
};

static int create_chan(void *arg)
{
    return hd_chan_create_with(arg, 8, NULL);
}

static bool is_free(uint64_t index)
{
    const hd_cap probe = cap_of(HD_CAP_BUDGET, NULL);
    const bool free_again = index_of(probe) == index;
    cap_revoke(probe);
    return free_again;
}

static int keep(void *arg)
{
    struct kept *kept = arg;
    const hd_cap above = cap_of(HD_CAP_CHANNEL, LIMITS(.channels = 1));
    kept->cap = cap_derive(above, NULL);
    kept->index = index_of(kept->cap);
    const hd_caps caps = caps_with(HD_CAP_CHANNEL, kept->cap);
    const hd_nursery_options options = caps_options(&caps);
    struct hdi_cap *entry = hdi_cap_find(hdi_caps_of(hd_runtime_self()), kept->cap);
    hd_nursery nursery;
    nur_open(&nursery, &options);
    EXPECT_EQ(entry->refs, 1);
    nur_go(&nursery, create_chan, &kept->chan);
    EXPECT_EQ(hd_nursery_wait(&nursery), 0);
    EXPECT_EQ(entry->refs, 2);
    EXPECT_EQ(entry->live, 1);
    EXPECT_EQ(entry->parent->live, 1);
    cap_revoke(above);
    EXPECT(!is_free(kept->index));
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    EXPECT_EQ(entry->refs, 1);
    EXPECT(!is_free(kept->index) && !is_free(index_of(above)));
    hd_chan_destroy(kept->chan);
    EXPECT(is_free(kept->index));
    (void)cap_of(HD_CAP_BUDGET, NULL); /* takes it */
    EXPECT(is_free(index_of(above)));
    return 0;
}

TEST_WORLDS(rights_and_channels_keep_an_entry, options)
{
    struct kept kept = {.chan = NULL};
    rt_run(keep, &kept, options);
}
