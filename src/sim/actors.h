/* SPDX-License-Identifier: MIT
 *
 * actors: what a schedule knows of each task, found by the task's number, which is its place in the
 * order of spawns, from 0.
 *
 * A long simulation spawns and ends millions of tasks. So actors stand in pages, and a page whose
 * tasks have all ended is given back; what stays is a pointer for each. The first page is part of
 * the table: most programs that are explored have no second one, and every step of every schedule
 * looks at some of its actors.
 *
 * Owner  the thread that drives the simulation.
 *
 * ACTORS-1: whether a page was given back makes no difference: who ended is not found again.
 */
#ifndef HDI_SIM_ACTORS_H
#define HDI_SIM_ACTORS_H

#include <stddef.h>

#include <heddle/explore.h>

#include "base/check.h"

enum { HDI_ACTOR_PAGE = 64 };

struct hdi_actor {
    /* Of its next step, while it is ready; of the last, while it runs. */
    const void *object;    /* what it touches; NULL: unknown */
    const hd_site *site;   /* where; NULL: unknown */
    const void *code;      /* where it goes on: a site, a place in the library, or its function
                            * at first; NULL: unknown. Not a return address (hdi_point) */
    hd_touch_kind kind;
    uint32_t steps;        /* it has taken */
    uint32_t ready_since;  /* the schedule's count of steps when it became ready */
    bool begun;            /* it is known to the sampler: `spawned` was called; and has not ended */
    bool ready;            /* it can go on, and does not run */
    bool yielded;          /* it gave way by itself, and has not run since */
    uint64_t value;        /* the sampler's own: a priority, a weight */
    uint64_t unused_[2];   /* up to a power of 2: its place is a shift away from its number */
};

struct hdi_actor_page {
    uint32_t alive; /* those that have begun */
    struct hdi_actor actors[HDI_ACTOR_PAGE];
};

/* Zeroed: nobody. */
struct hdi_actors {
    struct hdi_actor_page first;
    struct hdi_actor_page **pages; /* but for the first; NULL: nobody there yet, or nobody any
                                    * more */
    uint32_t page_room;
    uint32_t count;               /* one more than the highest number that has begun */
    struct hdi_actor_page *spare; /* one that was given back; NULL: none */
};

/* The actor of that number, if it is on the first page; else NULL. */
static inline struct hdi_actor *hdi_actors_find_near(struct hdi_actors *actors, uint64_t number)
{
    if (hdi_unlikely(number >= HDI_ACTOR_PAGE)) return NULL;
    struct hdi_actor *actor = &actors->first.actors[number];
    return hdi_likely(actor->begun) ? actor : NULL;
}

/* The same on all the others. */
struct hdi_actor *hdi_actors_find_far(struct hdi_actors *actors, uint64_t number);

/* The actor of that number. Returns NULL if it has not begun, or has ended. */
static inline struct hdi_actor *hdi_actors_find(struct hdi_actors *actors, uint64_t number)
{
    return hdi_likely(number < HDI_ACTOR_PAGE) ? hdi_actors_find_near(actors, number)
                                               : hdi_actors_find_far(actors, number);
}

/* hdi_actors_begin() and hdi_actors_end() of those that are not on the first page: the page of a
 * number that begins, and one fewer on it. */
struct hdi_actor_page *hdi_actors_need_far(struct hdi_actors *actors, uint32_t number);
void hdi_actors_end_far(struct hdi_actors *actors, uint32_t number);

/* A new one, all zero but `begun`. Context: none is found. */
static inline struct hdi_actor *hdi_actors_begin(struct hdi_actors *actors, uint32_t number)
{
    struct hdi_actor_page *page = hdi_likely(number < HDI_ACTOR_PAGE)
                                      ? &actors->first
                                      : hdi_actors_need_far(actors, number);
    struct hdi_actor *actor = &page->actors[number % HDI_ACTOR_PAGE];
    *actor = (struct hdi_actor){.begun = true};
    page->alive++;
    if (number >= actors->count) actors->count = number + 1;
    return actor;
}

/* The actor of that number has ended. */
static inline void hdi_actors_end(struct hdi_actors *actors, struct hdi_actor *actor,
                                  uint32_t number)
{
    actor->begun = false;
    if (hdi_likely(number < HDI_ACTOR_PAGE)) {
        actors->first.alive--;
    } else {
        hdi_actors_end_far(actors, number);
    }
}

/* Nobody any more. */
void hdi_actors_clear(struct hdi_actors *actors);
void hdi_actors_fini(struct hdi_actors *actors);

#endif
