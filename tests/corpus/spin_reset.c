/* SPDX-License-Identifier: MIT
 *
 * spin_reset: a task waits for a flag by looking again and again; one sets the flag, and another
 * clears it for the next round. If it is cleared before it was seen, the task looks for ever.
 *
 * A livelock: everything runs, nothing happens.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    int flag, seen;
} s;

static int waiter(void *arg)
{
    (void)arg;
    while (!hd_atomic_load(&s.flag)) hd_yield();
    hd_atomic_store(&s.seen, 1);
    return 0;
}

static int setter(void *arg)
{
    (void)arg;
    hd_atomic_store(&s.flag, 1);
    return 0;
}

static int clearer(void *arg)
{
    (void)arg;
    while (s.how.fixed && !hd_atomic_load(&s.seen)) hd_yield();
    hd_atomic_store(&s.flag, 0);
    return 0;
}

static int spin_reset(void *arg)
{
    CORPUS_BEGIN(s, arg);
    TOGETHER(waiter, setter, clearer);
    return 0;
}
CORPUS(spin_reset, spin_reset, LIVELOCK, 0, "a flag is cleared before it was seen")
