/* SPDX-License-Identifier: MIT
 *
 * resurrect: a look-up finds an object in a table and then takes a reference to it. The last one
 * may be dropped in between, and the object used is free.
 *
 * Weak references; fixed by taking one only of what still has some.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    int listed, references, alive;
} s;

static void drop(void)
{
    if (hd_atomic_sub(&s.references, 1) != 1) return;
    hd_atomic_store(&s.listed, 0);
    hd_atomic_store(&s.alive, 0);
}

static bool take(void)
{
    if (!s.how.fixed) {
        hd_atomic_add(&s.references, 1);
        return true;
    }
    int seen = hd_atomic_load(&s.references);
    while (seen != 0)
        if (hd_atomic_cas(&s.references, &seen, seen + 1)) return true;
    return false;
}

static int look_up(void *arg)
{
    (void)arg;
    if (!hd_atomic_load(&s.listed) || !take()) return 0;
    hd_assert(hd_atomic_load(&s.alive));
    drop();
    return 0;
}

static int owner(void *arg)
{
    (void)arg;
    drop();
    return 0;
}

static int resurrect(void *arg)
{
    CORPUS_BEGIN(s, arg);
    s.listed = s.references = s.alive = 1;
    TOGETHER(look_up, owner);
    return 0;
}
CORPUS(resurrect, resurrect, ASSERT, 1, "a reference to what has just gone")
