/* SPDX-License-Identifier: MIT
 *
 * cond_if: a consumer that was woken takes an item without looking whether it is still there. One
 * that never slept may have taken it meanwhile.
 *
 * "if" where "while" belongs.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_mutex mutex;
    hd_cond filled;
    int count;
} s;

static int consumer(void *arg)
{
    (void)arg;
    corpus_lock(&s.mutex);
    while (hd_race_read(&s.count) == 0) {
        hd_assert(hd_cond_wait(&s.filled, &s.mutex) == 0);
        if (!s.how.fixed) break;
    }
    const int count = hd_race_read(&s.count);
    hd_assert(count > 0);
    hd_race_write(&s.count, count - 1);
    hd_mutex_unlock(&s.mutex);
    return 0;
}

static int producer(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        corpus_lock(&s.mutex);
        hd_race_write(&s.count, hd_race_read(&s.count) + 1);
        hd_cond_signal(&s.filled);
        hd_mutex_unlock(&s.mutex);
    }
    return 0;
}

static int cond_if(void *arg)
{
    CORPUS_BEGIN(s, arg);
    TOGETHER(consumer, producer, consumer);
    return 0;
}
CORPUS(cond_if, cond_if, ASSERT, 1, "an item that was taken between signal and wake")
