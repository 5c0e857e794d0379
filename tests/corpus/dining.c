/* SPDX-License-Identifier: MIT
 *
 * dining: philosophers take the fork to their left, then the one to their right. If all have taken
 * the first, none gets a second.
 *
 * Dijkstra's; fixed by an order of the forks.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_mutex forks[8];
} s;

static int philosopher(void *arg)
{
    unsigned first = PLACE(arg), second = (first + 1) % s.how.size;
    if (s.how.fixed && second < first) {
        second = first;
        first = 0;
    }
    corpus_lock(&s.forks[first]);
    corpus_lock(&s.forks[second]);
    hd_mutex_unlock(&s.forks[second]);
    hd_mutex_unlock(&s.forks[first]);
    return 0;
}

static int dining(void *arg)
{
    CORPUS_BEGIN(s, arg);
    CROWD(s.how.size, philosopher, NULL);
    return 0;
}
CORPUS_OF(dining_3, dining, 3, DEADLOCK, 1, "a circle of 3 locks")
CORPUS_OF(dining_5, dining, 5, DEADLOCK, 1, "a circle of 5 locks")
