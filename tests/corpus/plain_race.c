/* SPDX-License-Identifier: MIT
 *
 * plain_race: a task reads a counter without a lock while another changes it under one. Even if the
 * value it gets is of no consequence, the two are unordered.
 *
 * What race detectors are for; nothing else would show it.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_mutex mutex;
    int count;
} s;

static int writer(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        corpus_lock(&s.mutex);
        hd_race_write(&s.count, hd_race_read(&s.count) + 1);
        hd_mutex_unlock(&s.mutex);
    }
    return 0;
}

static int reader(void *arg)
{
    (void)arg;
    if (s.how.fixed) corpus_lock(&s.mutex);
    const int count = hd_race_read(&s.count);
    if (s.how.fixed) hd_mutex_unlock(&s.mutex);
    hd_assert(count >= 0);
    return 0;
}

static int plain_race(void *arg)
{
    CORPUS_BEGIN(s, arg);
    TOGETHER(writer, reader);
    return 0;
}
CORPUS(plain_race, plain_race, RACE, 1, "a look without the lock")
