/* SPDX-License-Identifier: MIT
 *
 * park: one thread sleeps, any other wakes it; a wake that comes first is remembered.
 *
 *   EMPTY --park--> PARKED --(sleeps)        unpark: exchange NOTIFIED;
 *   NOTIFIED --park--> EMPTY, at once                was PARKED: wake the futex
 *                                                    was ELSEWHERE: raise the event
 *
 *   PARK-1  Every unpark is answered by a return from park that began before it or
 *           begins after it: a token is never lost, two may merge.
 *
 * Edges   T  unpark's exchange -> park's exchange: what was written before is seen.
 */
#ifndef HDI_SCHED_PARK_H
#define HDI_SCHED_PARK_H

#include <stdbool.h>

#include "os/futex.h"

struct hdi_parker {
    _Atomic(uint32_t) state;
    int event; /* raised to wake who sleeps in the kernel for other reasons, too (os/event.h);
                * set before the first hdi_parker_park_in() */
};

void hdi_parker_init(struct hdi_parker *parker);

/* Context: the owning thread. Returns when unparked; never by itself. */
void hdi_parker_park(struct hdi_parker *parker);

/* The same, until the deadline at the latest. Returns whether it was unparked. */
bool hdi_parker_park_until(struct hdi_parker *parker, int64_t deadline_ns);

/* The same, by wait(arg, deadline), which returns when the event was raised, the time has come, or
 * something else has happened: all but a token is "not unparked". */
bool hdi_parker_park_in(struct hdi_parker *parker, void (*wait)(void *arg, int64_t deadline_ns),
                        void *arg, int64_t deadline_ns);

/* In two steps, for who sleeps outside: from now on an unpark raises the event; and no more. */
void hdi_parker_go_elsewhere(struct hdi_parker *parker);
void hdi_parker_come_back(struct hdi_parker *parker);

/* Somebody else has cleared the event: raise it again if the owner has a token to take. An event
 * that was raised for a token was raised after it, so none is lost.
 * Context: any but the owner. */
void hdi_parker_restore(struct hdi_parker *parker);

/* Context: any. */
void hdi_parker_unpark(struct hdi_parker *parker);

#endif
