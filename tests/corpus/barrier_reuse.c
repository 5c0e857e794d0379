/* SPDX-License-Identifier: MIT
 *
 * barrier_reuse: a barrier made of a count and a semaphore lets all through when the last has come,
 * and begins again. A quick task takes in the second round the permit that a slow one was to get in
 * the first.
 *
 * Barriers that are not made for use in a loop, from the book of semaphores.
 */
#include "corpus.h"

#define PARTIES 3

static struct {
    struct corpus_case how;
    hd_barrier barrier;
    hd_sem gate;
    int arrived;
    int rounds[PARTIES];
} s;

static void meet(void)
{
    if (s.how.fixed) {
        hd_assert(hd_barrier_wait(&s.barrier) >= 0);
        return;
    }
    if (hd_atomic_add(&s.arrived, 1) == PARTIES - 1) {
        hd_atomic_store(&s.arrived, 0);
        hd_sem_release(&s.gate, PARTIES);
    }
    corpus_acquire(&s.gate);
}

static int party(void *arg)
{
    const unsigned me = PLACE(arg);
    for (int round = 1; round <= 2; round++) {
        hd_atomic_store(&s.rounds[me], round);
        meet();
        for (unsigned i = 0; i < PARTIES; i++) hd_assert(hd_atomic_load(&s.rounds[i]) >= round);
    }
    return 0;
}

static int barrier_reuse(void *arg)
{
    CORPUS_BEGIN(s, arg);
    hd_barrier_init(&s.barrier, PARTIES);
    CROWD(PARTIES, party, NULL);
    return 0;
}
CORPUS(barrier_reuse, barrier_reuse, ASSERT, 1, "a quick task goes through twice")
