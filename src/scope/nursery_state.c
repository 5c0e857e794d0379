/* SPDX-License-Identifier: MIT */
#include "scope/nursery_state.h"

#include <errno.h>

/* What an event does in a state. */
struct way {
    hd_nursery_state to;
    int refused;
};

static const struct way ways[][HDI_NURSERY_EVENTS] = {
    [HD_NURSERY_OPEN] =
        {
            [HDI_NURSERY_SPAWN] = {HD_NURSERY_OPEN, 0},
            [HDI_NURSERY_CLOSE] = {HD_NURSERY_CLOSING, 0},
            [HDI_NURSERY_CLOSE_EMPTY] = {HD_NURSERY_CLOSED, 0},
            [HDI_NURSERY_CANCEL] = {HD_NURSERY_CANCELLING, 0},
            [HDI_NURSERY_ALL_ENDED] = {HD_NURSERY_OPEN, 0},
        },
    [HD_NURSERY_CLOSING] =
        {
            [HDI_NURSERY_SPAWN] = {HD_NURSERY_CLOSING, -EPIPE},
            [HDI_NURSERY_CLOSE] = {HD_NURSERY_CLOSING, 0},
            [HDI_NURSERY_CLOSE_EMPTY] = {HD_NURSERY_CLOSING, 0},
            [HDI_NURSERY_CANCEL] = {HD_NURSERY_CANCELLING, 0},
            [HDI_NURSERY_ALL_ENDED] = {HD_NURSERY_CLOSED, 0},
        },
    [HD_NURSERY_CLOSED] =
        {
            [HDI_NURSERY_SPAWN] = {HD_NURSERY_CLOSED, -EPIPE},
            [HDI_NURSERY_CLOSE] = {HD_NURSERY_CLOSED, 0},
            [HDI_NURSERY_CLOSE_EMPTY] = {HD_NURSERY_CLOSED, 0},
            [HDI_NURSERY_CANCEL] = {HD_NURSERY_CLOSED, 0},
            [HDI_NURSERY_ALL_ENDED] = {HD_NURSERY_CLOSED, 0},
        },
    [HD_NURSERY_CANCELLING] =
        {
            [HDI_NURSERY_SPAWN] = {HD_NURSERY_CANCELLING, -ECANCELED},
            [HDI_NURSERY_CLOSE] = {HD_NURSERY_CANCELLING, 0},
            [HDI_NURSERY_CLOSE_EMPTY] = {HD_NURSERY_CANCELLING, 0},
            [HDI_NURSERY_CANCEL] = {HD_NURSERY_CANCELLING, 0},
            [HDI_NURSERY_ALL_ENDED] = {HD_NURSERY_CANCELLED, 0},
        },
    [HD_NURSERY_CANCELLED] =
        {
            [HDI_NURSERY_SPAWN] = {HD_NURSERY_CANCELLED, -ECANCELED},
            [HDI_NURSERY_CLOSE] = {HD_NURSERY_CANCELLED, 0},
            [HDI_NURSERY_CLOSE_EMPTY] = {HD_NURSERY_CANCELLED, 0},
            [HDI_NURSERY_CANCEL] = {HD_NURSERY_CANCELLED, 0},
            [HDI_NURSERY_ALL_ENDED] = {HD_NURSERY_CANCELLED, 0},
        },
};

hd_nursery_state hdi_nursery_next(hd_nursery_state state, enum hdi_nursery_event event,
                                  int *refused)
{
    const struct way *way = &ways[state][event];
    *refused = way->refused;
    return way->to;
}
