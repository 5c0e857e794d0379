/* SPDX-License-Identifier: MIT
 *
 * ring_publish: a producer moves the head of a ring, and then fills the place it stands for. A
 * consumer that sees the new head takes what was in that place before.
 *
 * Publication before completion, in a queue of one producer and one consumer.
 */
#include "corpus.h"

#define ROOM  2
#define ITEMS 3

static struct {
    struct corpus_case how;
    int head, tail;
    int items[ROOM];
} s;

static int producer(void *arg)
{
    (void)arg;
    for (int i = 0; i < ITEMS; i++) {
        while (i - hd_atomic_load(&s.tail) >= ROOM) hd_yield();
        if (!s.how.fixed) hd_atomic_store(&s.head, i + 1);
        hd_atomic_store(&s.items[i % ROOM], i + 1);
        if (s.how.fixed) hd_atomic_store(&s.head, i + 1);
    }
    return 0;
}

static int consumer(void *arg)
{
    (void)arg;
    for (int i = 0; i < ITEMS; i++) {
        while (hd_atomic_load(&s.head) == i) hd_yield();
        hd_assert(hd_atomic_load(&s.items[i % ROOM]) == i + 1);
        hd_atomic_store(&s.tail, i + 1);
    }
    return 0;
}

static int ring_publish(void *arg)
{
    CORPUS_BEGIN(s, arg);
    TOGETHER(producer, consumer);
    return 0;
}
CORPUS(ring_publish, ring_publish, ASSERT, 1, "the head moves before the item is there")
