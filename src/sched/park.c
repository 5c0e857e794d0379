/* SPDX-License-Identifier: MIT */
#include "sched/park.h"

#include <errno.h>

#include "base/mutant.h"
#include "os/event.h"

enum { EMPTY, PARKED, NOTIFIED, ELSEWHERE };

void hdi_parker_init(struct hdi_parker *parker)
{
    hdi_store_relaxed(&parker->state, EMPTY); /* Nobody else knows it yet. */
}

/* Take the token if there is one. */
static bool take_token(struct hdi_parker *parker)
{
    uint32_t seen = NOTIFIED;
    return hdi_cas_acquire(&parker->state, &seen, EMPTY); /* T */
}

bool hdi_parker_park_until(struct hdi_parker *parker, int64_t deadline_ns)
{
    uint32_t seen = EMPTY;
    if (HDI_MUTANT(park_lost_token)) {
        hdi_store_seq_cst(&parker->state, PARKED);
    } else if (!hdi_cas_acquire(&parker->state, &seen, PARKED)) { /* T */
        return take_token(parker);
    }
    for (;;) {
        const int err = hdi_futex_wait(&parker->state, PARKED, deadline_ns);
        if (take_token(parker)) return true;
        if (err != -ETIMEDOUT) continue; /* woken early: sleep on */
        seen = PARKED;
        if (hdi_cas_acquire(&parker->state, &seen, EMPTY)) return false;
        return take_token(parker); /* A token came this moment. */
    }
}

/* Woken by an event that was raised for an earlier sleep, or for nothing, it says so: the caller
 * looks, and parks again. */
bool hdi_parker_park_in(struct hdi_parker *parker, void (*wait)(void *arg, int64_t deadline_ns),
                        void *arg, int64_t deadline_ns)
{
    uint32_t seen = EMPTY;
    if (HDI_MUTANT(park_in_late)) {
        wait(arg, deadline_ns);
        return take_token(parker);
    }
    if (!hdi_cas_acq_rel(&parker->state, &seen, ELSEWHERE)) return take_token(parker); /* T */
    wait(arg, deadline_ns);
    if (take_token(parker)) return true;
    if (HDI_MUTANT(park_in_blind)) {
        hdi_store_seq_cst(&parker->state, EMPTY);
        return false;
    }
    seen = ELSEWHERE;
    if (hdi_cas_acquire(&parker->state, &seen, EMPTY)) return false;
    return take_token(parker); /* A token came this moment. */
}

void hdi_parker_go_elsewhere(struct hdi_parker *parker)
{
    uint32_t seen = EMPTY;
    const bool token = !hdi_cas_acq_rel(&parker->state, &seen, ELSEWHERE); /* T */
    if (token && !HDI_MUTANT(park_away_silent)) hdi_event_raise(parker->event);
}

void hdi_parker_come_back(struct hdi_parker *parker)
{
    (void)hdi_exchange_acq_rel(&parker->state, EMPTY); /* T: the caller looks at everything. */
}

void hdi_parker_park(struct hdi_parker *parker)
{
    (void)hdi_parker_park_until(parker, INT64_MAX);
}

void hdi_parker_restore(struct hdi_parker *parker)
{
    if (HDI_MUTANT(park_event_eaten)) return;
    if (hdi_load_acquire(&parker->state) == NOTIFIED) hdi_event_raise(parker->event); /* T */
}

void hdi_parker_unpark(struct hdi_parker *parker)
{
    const uint32_t was = hdi_exchange_acq_rel(&parker->state, NOTIFIED); /* T */
    if (was == PARKED) hdi_futex_wake(&parker->state, 1);
    if (was == ELSEWHERE && !HDI_MUTANT(park_event_silent)) hdi_event_raise(parker->event);
}
