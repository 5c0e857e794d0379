/* SPDX-License-Identifier: MIT
 *
 * nursery_state: the five states of a nursery, and every way from one to another.
 */
#ifndef HDI_SCOPE_NURSERY_STATE_H
#define HDI_SCOPE_NURSERY_STATE_H

#include <stdbool.h>

#include <heddle/nursery.h>

enum hdi_nursery_event {
    HDI_NURSERY_SPAWN,
    HDI_NURSERY_CLOSE,     /* with children */
    HDI_NURSERY_CLOSE_EMPTY,
    HDI_NURSERY_CANCEL,    /* asked for, or a child failed */
    HDI_NURSERY_ALL_ENDED, /* the last child, and whoever else held it */
};
#define HDI_NURSERY_EVENTS 5

/* The state after this event. An event that makes no sense in a state leaves it as it is, and
 * *refused says what to tell the caller: -EPIPE, -ECANCELED, or 0 if there is nothing to say. */
hd_nursery_state hdi_nursery_next(hd_nursery_state state, enum hdi_nursery_event event,
                                  int *refused);

/* Whether it takes a child, which leaves it as it is. */
static inline bool hdi_nursery_is_open(hd_nursery_state state)
{
    return state == HD_NURSERY_OPEN;
}

/* No way leads on. */
static inline bool hdi_nursery_is_final(hd_nursery_state state)
{
    return state == HD_NURSERY_CLOSED || state == HD_NURSERY_CANCELLED;
}

#endif
