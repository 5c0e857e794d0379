/* SPDX-License-Identifier: MIT
 *
 * twostage: writers change one value under one lock, and what follows from it under a second one.
 * A reader that takes both locks in turn between the two sees a new value with an old consequence.
 *
 * A family from benchmarks of schedule fuzzing: every access is locked, and still there is a bug.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_mutex first, second;
    int value, follows;
} s;

static int writer(void *arg)
{
    (void)arg;
    corpus_lock(&s.first);
    hd_race_write(&s.value, 1);
    if (!s.how.fixed) hd_mutex_unlock(&s.first);
    corpus_lock(&s.second);
    hd_race_write(&s.follows, 2);
    hd_mutex_unlock(&s.second);
    if (s.how.fixed) hd_mutex_unlock(&s.first);
    return 0;
}

static int reader(void *arg)
{
    (void)arg;
    corpus_lock(&s.first);
    const int value = hd_race_read(&s.value);
    hd_mutex_unlock(&s.first);
    if (value == 0) return 0;
    corpus_lock(&s.second);
    const int follows = hd_race_read(&s.follows);
    hd_mutex_unlock(&s.second);
    hd_assert(follows == value + 1);
    return 0;
}

static int twostage(void *arg)
{
    CORPUS_BEGIN(s, arg);
    CROWD(s.how.size, writer, reader);
    return 0;
}
CORPUS_OF(twostage_1, twostage, 1, ASSERT, 1, "two locks in turn, 1 writer")
CORPUS_OF(twostage_5, twostage, 5, ASSERT, 1, "two locks in turn, 5 writers")
CORPUS_OF(twostage_10, twostage, 10, ASSERT, 1, "two locks in turn, 10 writers")
CORPUS_OF(twostage_20, twostage, 20, ASSERT, 1, "two locks in turn, 20 writers")
