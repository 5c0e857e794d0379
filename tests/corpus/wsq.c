/* SPDX-License-Identifier: MIT
 *
 * wsq: a work-stealing queue with one of three mistakes: the owner takes its last item without
 * competing for it; it looks at the thieves' end before it has claimed an item; or a thief reads
 * its item after it has given the place free.
 *
 * Chase and Lev's deque; each is an error that somebody made.
 */
#include "corpus.h"

enum { LAST = 1, EARLY, SLOT };

#define ROOM 2

static struct {
    struct corpus_case how;
    int top, bottom;
    int items[ROOM];
    int taken[8]; /* how often each was */
} s;

static bool wrong(unsigned how)
{
    return !s.how.fixed && s.how.size == how;
}

static void take(int item)
{
    hd_assert(hd_atomic_add(&s.taken[item], 1) == 0);
}

/* Owner only. */
static bool push(int item)
{
    const int bottom = hd_atomic_load(&s.bottom);
    if (bottom - hd_atomic_load(&s.top) >= ROOM) return false;
    hd_atomic_store(&s.items[bottom % ROOM], item);
    hd_atomic_store(&s.bottom, bottom + 1);
    return true;
}

/* Owner only. */
static void pop(void)
{
    const int bottom = hd_atomic_load(&s.bottom) - 1;
    int top = wrong(EARLY) ? hd_atomic_load(&s.top) : 0;
    hd_atomic_store(&s.bottom, bottom);
    if (!wrong(EARLY)) top = hd_atomic_load(&s.top);
    if (top < bottom) {
        take(hd_atomic_load(&s.items[bottom % ROOM]));
        return;
    }
    const int next = top;
    if (top == bottom && (wrong(LAST) || hd_atomic_cas(&s.top, &top, top + 1))) {
        take(hd_atomic_load(&s.items[bottom % ROOM]));
        if (wrong(LAST)) hd_atomic_store(&s.top, next + 1);
    }
    hd_atomic_store(&s.bottom, bottom + 1);
}

static void steal(void)
{
    int top = hd_atomic_load(&s.top);
    if (top >= hd_atomic_load(&s.bottom)) return;
    const int item = hd_atomic_load(&s.items[top % ROOM]);
    if (!hd_atomic_cas(&s.top, &top, top + 1)) return;
    take(wrong(SLOT) ? hd_atomic_load(&s.items[top % ROOM]) : item);
}

static int owner(void *arg)
{
    (void)arg;
    for (int item = 0; item < 3; item++)
        if (!push(item)) pop();
    pop();
    return 0;
}

static int thief(void *arg)
{
    (void)arg;
    steal();
    steal();
    return 0;
}

static int wsq(void *arg)
{
    CORPUS_BEGIN(s, arg);
    TOGETHER(owner, thief);
    return 0;
}
CORPUS_OF(wsq_last, wsq, LAST, ASSERT, 3, "the last item goes to owner and thief")
CORPUS_OF(wsq_early, wsq, EARLY, ASSERT, 1, "the owner looks for thieves before it claims")
CORPUS_OF(wsq_slot, wsq, SLOT, ASSERT, 2, "a thief reads a place that is in use again")
