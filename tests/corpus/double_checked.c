/* SPDX-License-Identifier: MIT
 *
 * double_checked: who finds the flag set does not take the lock. The flag is set before what it
 * stands for is complete.
 *
 * Double-checked initialisation, as it was wrong in many languages.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_mutex mutex;
    int made, value;
} s;

static void make(void)
{
    if (!s.how.fixed) hd_atomic_store(&s.made, 1);
    hd_atomic_store(&s.value, 42);
    if (s.how.fixed) hd_atomic_store(&s.made, 1);
}

static int user(void *arg)
{
    (void)arg;
    if (!hd_atomic_load(&s.made)) {
        corpus_lock(&s.mutex);
        if (!hd_atomic_load(&s.made)) make();
        hd_mutex_unlock(&s.mutex);
    }
    hd_assert(hd_atomic_load(&s.value) == 42);
    return 0;
}

static int double_checked(void *arg)
{
    CORPUS_BEGIN(s, arg);
    CROWD(3, user, NULL);
    return 0;
}
CORPUS(double_checked, double_checked, ASSERT, 1, "the flag is set before the value")
