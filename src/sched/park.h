/* SPDX-License-Identifier: MIT
 *
 * park: one thread sleeps, any other wakes it; a wake that comes first is remembered.
 *
 *   EMPTY --park--> PARKED --(sleeps)        unpark: exchange NOTIFIED;
 *   NOTIFIED --park--> EMPTY, at once                was PARKED: wake the futex
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
};

void hdi_parker_init(struct hdi_parker *parker);

/* Context: the owning thread. Returns when unparked; never by itself. */
void hdi_parker_park(struct hdi_parker *parker);

/* The same, until the deadline at the latest. Returns whether it was unparked. */
bool hdi_parker_park_until(struct hdi_parker *parker, int64_t deadline_ns);

/* Context: any. */
void hdi_parker_unpark(struct hdi_parker *parker);

#endif
