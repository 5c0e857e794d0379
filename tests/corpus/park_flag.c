/* SPDX-License-Identifier: MIT
 *
 * park_flag: a task looks at a flag, leaves its waker and parks. The one that sets the flag looks
 * for a waker, finds none yet, and goes: nobody is woken.
 *
 * Register first, then look, then sleep: the order of every wait.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_waker waker;
    int flag, registered;
} s;

static int sleeper(void *arg)
{
    (void)arg;
    s.waker = hd_waker_self(); /* Seen by the other only once it is registered. */
    if (s.how.fixed) hd_atomic_store(&s.registered, 1);
    const int seen = hd_atomic_load(&s.flag);
    if (!s.how.fixed) hd_atomic_store(&s.registered, 1);
    if (!seen) do hd_assert(hd_park() == 0);
        while (!hd_atomic_load(&s.flag));
    return 0;
}

static int setter(void *arg)
{
    (void)arg;
    hd_atomic_store(&s.flag, 1);
    if (hd_atomic_load(&s.registered)) hd_waker_wake_keep(s.waker);
    return 0;
}

static int park_flag(void *arg)
{
    CORPUS_BEGIN(s, arg);
    TOGETHER(sleeper, setter);
    hd_waker_drop(s.waker);
    return 0;
}
CORPUS(park_flag, park_flag, STUCK, 1, "looks before it can be woken")
