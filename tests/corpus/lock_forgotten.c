/* SPDX-License-Identifier: MIT
 *
 * lock_forgotten: a task that finds the queue closed returns from the middle of the function, and
 * keeps the mutex. Whoever comes next waits for ever.
 *
 * The path of an error that is seldom taken.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_mutex mutex;
    int closed, count;
} s;

static int pusher(void *arg)
{
    (void)arg;
    if (hd_atomic_load(&s.closed)) return 0;
    corpus_lock(&s.mutex);
    if (hd_atomic_load(&s.closed)) {
        if (s.how.fixed) hd_mutex_unlock(&s.mutex);
        return 0;
    }
    hd_race_write(&s.count, hd_race_read(&s.count) + 1);
    hd_mutex_unlock(&s.mutex);
    return 0;
}

static int closer(void *arg)
{
    (void)arg;
    corpus_lock(&s.mutex);
    hd_atomic_store(&s.closed, 1);
    hd_mutex_unlock(&s.mutex);
    corpus_lock(&s.mutex);
    hd_race_write(&s.count, 0);
    hd_mutex_unlock(&s.mutex);
    return 0;
}

static int lock_forgotten(void *arg)
{
    CORPUS_BEGIN(s, arg);
    TOGETHER(pusher, closer);
    return 0;
}
CORPUS(lock_forgotten, lock_forgotten, DEADLOCK, 2, "a return with the mutex held")
