/* SPDX-License-Identifier: MIT
 *
 * wrong_lock: one task guards a counter by one mutex, the others by another one. Each of them holds
 * a lock, so it looks right, and they change it at the same time.
 *
 * From benchmarks of race detectors.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_mutex one, other;
    int count;
} s;

static void add(hd_mutex *mutex)
{
    corpus_lock(mutex);
    hd_race_write(&s.count, hd_race_read(&s.count) + 1);
    hd_mutex_unlock(mutex);
}

static int right(void *arg)
{
    (void)arg;
    add(&s.one);
    return 0;
}

static int wrong(void *arg)
{
    (void)arg;
    add(s.how.fixed ? &s.one : &s.other);
    return 0;
}

static int wrong_lock(void *arg)
{
    CORPUS_BEGIN(s, arg);
    CROWD(s.how.size, right, wrong);
    hd_assert(s.count == (int)s.how.size + 1);
    return 0;
}
CORPUS_OF(wrong_lock_1, wrong_lock, 1, RACE, 1, "1 task with the right mutex, one with another")
CORPUS_OF(wrong_lock_3, wrong_lock, 3, RACE, 1, "3 tasks with the right mutex, one with another")
