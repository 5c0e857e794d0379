/* SPDX-License-Identifier: MIT
 *
 * once_claimed: the first task claims the initialisation by an exchange, and does it. The second
 * sees that it is claimed, takes it for done, and uses what is not there yet.
 *
 * A "once" made of one flag, where two states are three.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_once once;
    int claimed, value;
} s;

static int make(void *arg)
{
    (void)arg;
    hd_atomic_store(&s.value, 42);
    return 0;
}

static int user(void *arg)
{
    (void)arg;
    if (s.how.fixed) hd_assert(hd_once_call(&s.once, make, NULL) == 0);
    else if (!hd_atomic_exchange(&s.claimed, 1)) make(NULL);
    hd_assert(hd_atomic_load(&s.value) == 42);
    return 0;
}

static int once_claimed(void *arg)
{
    CORPUS_BEGIN(s, arg);
    CROWD(2, user, NULL);
    return 0;
}
CORPUS(once_claimed, once_claimed, ASSERT, 1, "claimed is taken for done")
