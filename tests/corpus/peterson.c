/* SPDX-License-Identifier: MIT
 *
 * peterson: each task gives way to the other before it says that it wants to go in. In that order
 * one may go in while nobody wants to, and the other because it is its turn.
 *
 * Peterson's algorithm with two lines swapped.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    int wants[2];
    unsigned turn;
    int inside;
} s;

static int task(void *arg)
{
    const unsigned me = PLACE(arg), other = 1 - me;
    if (s.how.fixed) hd_atomic_store(&s.wants[me], 1);
    hd_atomic_store(&s.turn, other);
    if (!s.how.fixed) hd_atomic_store(&s.wants[me], 1);
    while (hd_atomic_load(&s.wants[other]) && hd_atomic_load(&s.turn) == other) hd_yield();
    hd_assert(hd_atomic_add(&s.inside, 1) == 0);
    hd_atomic_sub(&s.inside, 1);
    hd_atomic_store(&s.wants[me], 0);
    return 0;
}

static int peterson(void *arg)
{
    CORPUS_BEGIN(s, arg);
    CROWD(2, task, NULL);
    return 0;
}
CORPUS(peterson, peterson, ASSERT, 2, "mutual exclusion with two lines swapped")
