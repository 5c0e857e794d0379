/* SPDX-License-Identifier: MIT
 *
 * upgrade: a task looks for a key under the read lock, gives it back, and adds the key under the
 * write lock. Another may have added it in between: it is there twice.
 *
 * What was seen under one lock is not so under the next; fixed by looking again.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_rwlock lock;
    int entries;
} s;

static int user(void *arg)
{
    (void)arg;
    hd_assert(hd_rwlock_read_lock(&s.lock) == 0);
    bool found = hd_race_read(&s.entries) > 0;
    hd_rwlock_read_unlock(&s.lock);
    if (found) return 0;
    hd_assert(hd_rwlock_write_lock(&s.lock) == 0);
    const int entries = hd_race_read(&s.entries);
    if (!s.how.fixed || entries == 0) hd_race_write(&s.entries, entries + 1);
    hd_rwlock_write_unlock(&s.lock);
    return 0;
}

static int upgrade(void *arg)
{
    CORPUS_BEGIN(s, arg);
    CROWD(2, user, NULL);
    hd_assert(s.entries == 1);
    return 0;
}
CORPUS(upgrade, upgrade, ASSERT, 1, "seen under the read lock, added under the write lock")
