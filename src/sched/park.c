/* SPDX-License-Identifier: MIT */
#include "sched/park.h"

#include "base/mutant.h"

enum { EMPTY, PARKED, NOTIFIED };

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

void hdi_parker_park(struct hdi_parker *parker)
{
    uint32_t seen = EMPTY;
    if (HDI_MUTANT(park_lost_token)) {
        hdi_store_seq_cst(&parker->state, PARKED);
    } else if (!hdi_cas_acquire(&parker->state, &seen, PARKED)) { /* T */
        (void)take_token(parker);
        return;
    }
    do {
        (void)hdi_futex_wait(&parker->state, PARKED, INT64_MAX);
    } while (!take_token(parker)); /* woken early: sleep on */
}

void hdi_parker_unpark(struct hdi_parker *parker)
{
    const uint32_t was = hdi_exchange_acq_rel(&parker->state, NOTIFIED); /* T */
    if (was == PARKED) hdi_futex_wake(&parker->state, 1);
}
