/* SPDX-License-Identifier: MIT */
#include "os/lock.h"

#include "os/clock.h"
#include "os/futex.h"
#include "os/thread.h"

enum {
    PAUSES_MAX = 64, /* under a microsecond */
    SPINS = 20,
    YIELDS = 100,
    NAP_NS = 50000, /* the usual timer slack: a shorter one would not be shorter */
};

/* The `round`th time it was not to be had. Pauses grow, so that the one who has the lock, and
 * with it what it guards in its cache, can take it a few times in a row. */
static void wait_a_while(struct hdi_lock *lock, int round)
{
    if (HDI_MODEL || round < SPINS) {
        int pauses = HDI_MODEL ? 1 : round < 6 ? 1 << round : PAUSES_MAX;
        while (pauses-- > 0) hdi_cpu_relax();
    } else if (round < SPINS + YIELDS) {
        hdi_thread_yield();
    } else {
        (void)hdi_futex_wait(&lock->held, 1, hdi_clock_now() + NAP_NS);
    }
}

void hdi_lock_slow(struct hdi_lock *lock)
{
    int round = 0;
    do {
        do wait_a_while(lock, round++);
        while (hdi_load_relaxed(&lock->held)); /* hdi_lock_try() checks it. */
    } while (!hdi_lock_try(lock));
}
