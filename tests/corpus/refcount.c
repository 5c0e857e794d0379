/* SPDX-License-Identifier: MIT
 *
 * refcount: who drops a reference counts down, and then looks whether the count is 0. Two that
 * count down before either looks both free the object.
 *
 * The result of the atomic operation was the answer.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    int references, freed;
} s;

static int user(void *arg)
{
    (void)arg;
    const int before = hd_atomic_sub(&s.references, 1);
    const bool last = s.how.fixed ? before == 1 : hd_atomic_load(&s.references) == 0;
    if (last) hd_assert(hd_atomic_add(&s.freed, 1) == 0);
    return 0;
}

static int refcount(void *arg)
{
    CORPUS_BEGIN(s, arg);
    s.references = 3;
    CROWD(3, user, NULL);
    return 0;
}
CORPUS(refcount, refcount, ASSERT, 1, "two see that none is left")
