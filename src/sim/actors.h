/* SPDX-License-Identifier: MIT
 *
 * actors: what a schedule knows of each task, found by the task's number, which is its place in the
 * order of spawns, from 0.
 *
 * A long simulation spawns and ends millions of tasks. So actors stand in pages, and a page whose
 * tasks have all ended is given back; what stays is a pointer for each.
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
    const void *object;    /* what its next step touches; NULL: unknown */
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
};

struct hdi_actor_page {
    uint32_t alive; /* those that have begun */
    struct hdi_actor actors[HDI_ACTOR_PAGE];
};

/* Zeroed: nobody. */
struct hdi_actors {
    struct hdi_actor_page **pages; /* NULL: nobody there yet, or nobody any more */
    uint32_t page_room;
    uint32_t count;               /* one more than the highest number that has begun */
    struct hdi_actor_page *spare; /* one that was given back; NULL: none */
};

/* The actor of that number. Returns NULL if it has not begun, or has ended. */
static inline struct hdi_actor *hdi_actors_find(const struct hdi_actors *actors, uint64_t number)
{
    const uint64_t at = number / HDI_ACTOR_PAGE;
    struct hdi_actor_page *page = hdi_likely(at < actors->page_room) ? actors->pages[at] : NULL;
    if (hdi_unlikely(!page)) return NULL;
    struct hdi_actor *actor = &page->actors[number % HDI_ACTOR_PAGE];
    return hdi_likely(actor->begun) ? actor : NULL;
}

/* A new one, all zero but `begun`. Context: none is found. */
struct hdi_actor *hdi_actors_begin(struct hdi_actors *actors, uint32_t number);

/* Nothing happens if it had not begun. */
void hdi_actors_end(struct hdi_actors *actors, uint32_t number);

/* Nobody any more. */
void hdi_actors_clear(struct hdi_actors *actors);
void hdi_actors_fini(struct hdi_actors *actors);

#endif
