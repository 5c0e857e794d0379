/* SPDX-License-Identifier: MIT
 *
 * bakery: each task draws a number above all others, and waits for those with lower ones. While it
 * draws it has none yet, so another may pass it by with the same number.
 *
 * Lamport's bakery without the flag that says "I am choosing".
 */
#include "corpus.h"

#define TASKS 2

static struct {
    struct corpus_case how;
    int choosing[TASKS], number[TASKS];
    int inside;
} s;

static int customer(void *arg)
{
    const unsigned me = PLACE(arg);
    int mine = 0;
    if (s.how.fixed) hd_atomic_store(&s.choosing[me], 1);
    for (unsigned i = 0; i < TASKS; i++) {
        const int seen = hd_atomic_load(&s.number[i]);
        if (seen > mine) mine = seen;
    }
    hd_atomic_store(&s.number[me], ++mine);
    if (s.how.fixed) hd_atomic_store(&s.choosing[me], 0);
    for (unsigned i = 0; i < TASKS; i++) {
        while (s.how.fixed && hd_atomic_load(&s.choosing[i])) hd_yield();
        for (;;) {
            const int seen = hd_atomic_load(&s.number[i]);
            if (seen == 0 || seen > mine || (seen == mine && i >= me)) break;
            hd_yield();
        }
    }
    hd_assert(hd_atomic_add(&s.inside, 1) == 0);
    hd_atomic_sub(&s.inside, 1);
    hd_atomic_store(&s.number[me], 0);
    return 0;
}

static int bakery(void *arg)
{
    CORPUS_BEGIN(s, arg);
    CROWD(TASKS, customer, NULL);
    return 0;
}
CORPUS(bakery, bakery, ASSERT, 2, "a number that is being drawn counts as none")
