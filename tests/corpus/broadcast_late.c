/* SPDX-License-Identifier: MIT
 *
 * broadcast_late: a subscriber says that it is ready and subscribes then. The publisher, who waited
 * for that word, may send the first value before.
 *
 * The order of two lines.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_broadcast *news;
    hd_sem ready;
    int sum;
} s;

static int subscriber(void *arg)
{
    (void)arg;
    hd_broadcast_receiver receiver;
    int value;
    if (!s.how.fixed) hd_sem_release(&s.ready, 1);
    hd_race_point();
    const int err = hd_broadcast_subscribe(s.news, &receiver);
    if (s.how.fixed) hd_sem_release(&s.ready, 1);
    if (err) return err;
    while (hd_broadcast_recv(&receiver, &value) == 0) hd_atomic_add(&s.sum, value);
    hd_broadcast_unsubscribe(&receiver);
    return 0;
}

static int publisher(void *arg)
{
    (void)arg;
    corpus_acquire(&s.ready);
    for (int value = 1; value <= 2; value++) hd_broadcast_send(s.news, &value);
    hd_broadcast_close(s.news);
    return 0;
}

static int broadcast_late(void *arg)
{
    CORPUS_BEGIN(s, arg);
    s.news = hd_broadcast_create(sizeof(int), 4);
    hd_assert(s.news != NULL);
    TOGETHER(subscriber, publisher);
    hd_assert(s.sum == 3);
    hd_broadcast_destroy(s.news);
    return 0;
}
CORPUS(broadcast_late, broadcast_late, ASSERT, 1, "ready is said before the subscription")
