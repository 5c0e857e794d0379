/* SPDX-License-Identifier: MIT
 *
 * cache_stale: a reader that misses in the cache reads the value and puts it there. A writer that
 * changes the value and clears the cache in between is overtaken by the old one, which stays.
 *
 * From memory caches before databases; fixed by a version that the writer moves.
 */
#include "corpus.h"

#define EMPTY 0

static struct {
    struct corpus_case how;
    hd_mutex mutex;
    int value, cached, version;
} s;

static int reader(void *arg)
{
    (void)arg;
    if (hd_atomic_load(&s.cached) != EMPTY) return 0;
    const int version = hd_atomic_load(&s.version);
    const int value = hd_atomic_load(&s.value);
    corpus_lock(&s.mutex);
    if (!s.how.fixed || hd_atomic_load(&s.version) == version) hd_atomic_store(&s.cached, value);
    hd_mutex_unlock(&s.mutex);
    return 0;
}

static int writer(void *arg)
{
    (void)arg;
    hd_atomic_store(&s.value, 2);
    corpus_lock(&s.mutex);
    hd_atomic_add(&s.version, 1);
    hd_atomic_store(&s.cached, EMPTY);
    hd_mutex_unlock(&s.mutex);
    return 0;
}

static int cache_stale(void *arg)
{
    CORPUS_BEGIN(s, arg);
    s.value = 1;
    TOGETHER(reader, writer);
    hd_assert(s.cached == EMPTY || s.cached == 2);
    return 0;
}
CORPUS(cache_stale, cache_stale, ASSERT, 1, "an old value is cached after it was cleared")
