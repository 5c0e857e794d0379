/* SPDX-License-Identifier: MIT
 *
 * reorder: writers store two fields that belong together, without a lock. A reader that comes
 * between the first field of the first writer and the second field of any sees half of it.
 *
 * A family from benchmarks of schedule fuzzing: the more writers, the narrower the gap.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_mutex mutex;
    int key, value;
} s;

static int writer(void *arg)
{
    (void)arg;
    if (s.how.fixed) corpus_lock(&s.mutex);
    hd_atomic_store(&s.key, 1);
    hd_atomic_store(&s.value, -1);
    if (s.how.fixed) hd_mutex_unlock(&s.mutex);
    return 0;
}

static int reader(void *arg)
{
    (void)arg;
    if (s.how.fixed) corpus_lock(&s.mutex);
    const int key = hd_atomic_load(&s.key);
    const int value = hd_atomic_load(&s.value);
    if (s.how.fixed) hd_mutex_unlock(&s.mutex);
    hd_assert(key == 0 || value == -1);
    return 0;
}

static int reorder(void *arg)
{
    CORPUS_BEGIN(s, arg);
    CROWD(s.how.size, writer, reader);
    return 0;
}
CORPUS_OF(reorder_3, reorder, 3, ASSERT, 1, "two fields without a lock, 3 writers")
CORPUS_OF(reorder_5, reorder, 5, ASSERT, 1, "two fields without a lock, 5 writers")
CORPUS_OF(reorder_10, reorder, 10, ASSERT, 1, "two fields without a lock, 10 writers")
CORPUS_OF(reorder_20, reorder, 20, ASSERT, 1, "two fields without a lock, 20 writers")
