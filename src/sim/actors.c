/* SPDX-License-Identifier: MIT */
#include "sim/actors.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static void grow(struct hdi_actors *actors, uint32_t at)
{
    uint32_t room = actors->page_room ? actors->page_room : 8;
    while (room <= at) room *= 2;
    actors->pages = realloc(actors->pages, room * sizeof(*actors->pages));
    HD_CHECK_MSG(actors->pages, "sim: out of memory");
    memset(actors->pages + actors->page_room, 0,
           (room - actors->page_room) * sizeof(*actors->pages));
    actors->page_room = room;
}

static void give_back(struct hdi_actors *actors, uint32_t at)
{
    struct hdi_actor_page *page = actors->pages[at];
    actors->pages[at] = NULL;
    if (actors->spare) {
        free(page);
        return;
    }
    if (page->alive > 0) memset(page, 0, sizeof(*page));
    actors->spare = page;
}

static void add_page(struct hdi_actors *actors, uint32_t at)
{
    if (at >= actors->page_room) grow(actors, at);
    /* Who had the last number there may have ended before others began. */
    if (actors->pages[at - 1] && actors->pages[at - 1]->alive == 0) {
        give_back(actors, at - 1);
    }
    struct hdi_actor_page *page = actors->spare;
    actors->spare = NULL;
    if (!page) page = calloc(1, sizeof(*page));
    HD_CHECK_MSG(page, "sim: out of memory");
    actors->pages[at] = page;
}

struct hdi_actor_page *hdi_actors_need_far(struct hdi_actors *actors, uint32_t number)
{
    const uint32_t at = number / HDI_ACTOR_PAGE;
    if (at >= actors->page_room || !actors->pages[at]) add_page(actors, at);
    return actors->pages[at];
}

struct hdi_actor *hdi_actors_find_far(struct hdi_actors *actors, uint64_t number)
{
    const uint64_t at = number / HDI_ACTOR_PAGE;
    struct hdi_actor_page *page = at < actors->page_room ? actors->pages[at] : NULL;
    if (!page) return NULL;
    struct hdi_actor *actor = &page->actors[number % HDI_ACTOR_PAGE];
    return actor->begun ? actor : NULL;
}

void hdi_actors_end_far(struct hdi_actors *actors, uint32_t number)
{
    const uint32_t at = number / HDI_ACTOR_PAGE;
    const bool empty = --actors->pages[at]->alive == 0;
    if (empty && actors->count / HDI_ACTOR_PAGE > at) give_back(actors, at);
}

void hdi_actors_clear(struct hdi_actors *actors)
{
    const uint32_t used = (actors->count + HDI_ACTOR_PAGE - 1) / HDI_ACTOR_PAGE;
    if (actors->first.alive > 0) memset(&actors->first, 0, sizeof(actors->first));
    for (uint32_t at = 1; at < used; at++) {
        if (actors->pages[at]) give_back(actors, at);
    }
    actors->count = 0;
}

void hdi_actors_fini(struct hdi_actors *actors)
{
    for (uint32_t at = 0; at < actors->page_room; at++) free(actors->pages[at]);
    free(actors->pages);
    free(actors->spare);
}
