/* SPDX-License-Identifier: MIT
 *
 * readers_writers: the first reader takes the room for all of them, and the others go in without
 * asking. The second one sees that it is not the first, while the first still waits for a writer.
 *
 * Courtois, Heymans and Parnas' solution without its mutex.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_mutex mutex;
    hd_sem room;
    int readers;
    int left, right;
} s;

static int reader(void *arg)
{
    (void)arg;
    if (s.how.fixed) corpus_lock(&s.mutex);
    if (hd_atomic_add(&s.readers, 1) == 0) corpus_acquire(&s.room);
    if (s.how.fixed) hd_mutex_unlock(&s.mutex);

    const int left = hd_atomic_load(&s.left);
    hd_assert(left == hd_atomic_load(&s.right));

    if (s.how.fixed) corpus_lock(&s.mutex);
    if (hd_atomic_sub(&s.readers, 1) == 1) hd_sem_release(&s.room, 1);
    if (s.how.fixed) hd_mutex_unlock(&s.mutex);
    return 0;
}

static int writer(void *arg)
{
    (void)arg;
    corpus_acquire(&s.room);
    hd_atomic_add(&s.left, 1);
    hd_atomic_add(&s.right, 1);
    hd_sem_release(&s.room, 1);
    return 0;
}

static int readers_writers(void *arg)
{
    CORPUS_BEGIN(s, arg);
    hd_sem_init(&s.room, 1);
    TOGETHER(reader, reader, writer);
    return 0;
}
CORPUS(readers_writers, readers_writers, ASSERT, 1, "the second reader does not wait for the first")
