/* SPDX-License-Identifier: MIT
 *
 * bounded_buffer: producer and consumers wait for the same condition, and each change signals one
 * of them. A consumer's signal wakes the other consumer, who goes back to sleep: the producer is
 * never told.
 *
 * One condition for "full" and "empty", from the first exercise with monitors.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_mutex mutex;
    hd_cond changed;
    int count;
} s;

static void change(int from, int to)
{
    corpus_lock(&s.mutex);
    while (hd_race_read(&s.count) != from) hd_assert(hd_cond_wait(&s.changed, &s.mutex) == 0);
    hd_race_write(&s.count, to);
    if (s.how.fixed) hd_cond_broadcast(&s.changed);
    else hd_cond_signal(&s.changed);
    hd_mutex_unlock(&s.mutex);
}

static int producer(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) change(0, 1);
    return 0;
}

static int consumer(void *arg)
{
    (void)arg;
    change(1, 0);
    return 0;
}

static int bounded_buffer(void *arg)
{
    CORPUS_BEGIN(s, arg);
    TOGETHER(producer, consumer, consumer);
    return 0;
}
CORPUS(bounded_buffer, bounded_buffer, STUCK, 0, "one condition for full and empty, one signal")
