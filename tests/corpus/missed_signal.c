/* SPDX-License-Identifier: MIT
 *
 * missed_signal: a task looks whether it is time, and then waits for the signal. The signal comes
 * in between, when nobody waits, and never again.
 *
 * The textbook's reason why a condition is looked at under the mutex.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_mutex mutex;
    hd_cond cond;
    int ready;
} s;

static int waiter(void *arg)
{
    (void)arg;
    if (!s.how.fixed && hd_atomic_load(&s.ready)) return 0;
    corpus_lock(&s.mutex);
    while (!s.how.fixed || !hd_atomic_load(&s.ready)) {
        hd_assert(hd_cond_wait(&s.cond, &s.mutex) == 0);
        if (!s.how.fixed) break;
    }
    hd_mutex_unlock(&s.mutex);
    return 0;
}

static int signaller(void *arg)
{
    (void)arg;
    corpus_lock(&s.mutex);
    hd_atomic_store(&s.ready, 1);
    hd_cond_signal(&s.cond);
    hd_mutex_unlock(&s.mutex);
    return 0;
}

static int missed_signal(void *arg)
{
    CORPUS_BEGIN(s, arg);
    TOGETHER(waiter, signaller);
    return 0;
}
CORPUS(missed_signal, missed_signal, STUCK, 1, "a look outside the mutex, then a wait")
