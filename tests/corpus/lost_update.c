/* SPDX-License-Identifier: MIT
 *
 * lost_update: a task adds by compare and swap, and after some failures in a row falls back to a
 * plain store. Updates that come between load and store each time make it lose the last one.
 *
 * Its depth is the number of tries: each has to be disturbed. With one it is the textbook's.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    int count;
} s;

static int add_trying(void *arg)
{
    (void)arg;
    int seen = hd_atomic_load(&s.count);
    for (unsigned tries = 1; s.how.fixed || tries < s.how.size; tries++)
        if (hd_atomic_cas(&s.count, &seen, seen + 1)) return 0;
    hd_atomic_store(&s.count, seen + 1);
    return 0;
}

static int add(void *arg)
{
    (void)arg;
    hd_atomic_add(&s.count, 1);
    return 0;
}

static int lost_update(void *arg)
{
    CORPUS_BEGIN(s, arg);
    CROWD(s.how.size, add, add_trying);
    hd_assert(s.count == (int)s.how.size + 1);
    return 0;
}
CORPUS_OF(lost_update_1, lost_update, 1, ASSERT, 1, "load, then store")
CORPUS_OF(lost_update_3, lost_update, 3, ASSERT, 3, "a store after 2 failed swaps")
CORPUS_OF(lost_update_5, lost_update, 5, ASSERT, 5, "a store after 4 failed swaps")
