/* SPDX-License-Identifier: MIT */
#include "sim/actors.h"

#include "test.h"

TEST_MAIN

static struct hdi_actors actors;

static void forget(void)
{
    hdi_actors_fini(&actors);
    memset(&actors, 0, sizeof(actors));
}

static unsigned pages_in_use(void)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < actors.page_room; i++) count += actors.pages[i] != NULL;
    return count;
}

TEST(who_began_is_found_until_its_end)
{
    EXPECT(hdi_actors_find(&actors, 0) == NULL);
    struct hdi_actor *first = hdi_actors_begin(&actors, 0);
    struct hdi_actor *far = hdi_actors_begin(&actors, 1000);
    EXPECT_EQ(actors.count, 1001);
    EXPECT(hdi_actors_find(&actors, 0) == first && hdi_actors_find(&actors, 1000) == far);
    EXPECT(hdi_actors_find(&actors, 999) == NULL); /* on the same page */
    EXPECT(hdi_actors_find(&actors, 500) == NULL); /* on none */
    EXPECT(hdi_actors_find(&actors, UINT64_MAX) == NULL);
    hdi_actors_end(&actors, far, 1000);
    EXPECT(hdi_actors_find(&actors, 1000) == NULL && hdi_actors_find(&actors, 0) == first);
    EXPECT_EQ(actors.count, 1001);
    forget();
}

/* One that lives long, as the first of a program does, and many that come and go. */
TEST(the_dead_cost_nothing_but_their_pages_places)
{
    (void)hdi_actors_begin(&actors, 0);
    for (uint32_t i = 1; i < 100000; i++) {
        struct hdi_actor *actor = hdi_actors_begin(&actors, i);
        EXPECT(actor->steps == 0 && actor->value == 0 && !actor->ready && actor->begun);
        actor->steps = actor->ready = true;
        actor->value = i;
        hdi_actors_end(&actors, actor, i);
        EXPECT(pages_in_use() <= 2);
    }
    forget();
}

/* The last number of a page ends before the next begins, or never begins. */
TEST(a_page_is_given_back_when_its_last_number_never_began)
{
    for (uint32_t i = 0; i < 100 * HDI_ACTOR_PAGE; i++) {
        if (i % HDI_ACTOR_PAGE == HDI_ACTOR_PAGE - 1) continue;
        hdi_actors_end(&actors, hdi_actors_begin(&actors, i), i);
    }
    EXPECT(pages_in_use() <= 1);
    forget();
}

TEST(cleared_they_begin_anew)
{
    for (unsigned round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 3 * HDI_ACTOR_PAGE; i++) {
            struct hdi_actor *actor = hdi_actors_begin(&actors, i);
            EXPECT_EQ(actor->steps, 0);
            actor->steps = 5;
            if (round == 1) hdi_actors_end(&actors, actor, i);
        }
        hdi_actors_clear(&actors);
        EXPECT_EQ(actors.count, 0);
        for (uint32_t i = 0; i < 3 * HDI_ACTOR_PAGE; i++) {
            EXPECT(hdi_actors_find(&actors, i) == NULL);
        }
        EXPECT(pages_in_use() <= 1);
    }
    forget();
}
