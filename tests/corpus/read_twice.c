/* SPDX-License-Identifier: MIT
 *
 * read_twice: a reader calls a function that takes the same read lock again. A writer that came in
 * between waits for the first, and the second waits for the writer.
 *
 * Every fair reader-writer lock has this trap.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_rwlock lock;
    int value;
} s;

static int look(void)
{
    if (!s.how.fixed) hd_assert(hd_rwlock_read_lock(&s.lock) == 0);
    const int value = hd_race_read(&s.value);
    if (!s.how.fixed) hd_rwlock_read_unlock(&s.lock);
    return value;
}

static int reader(void *arg)
{
    (void)arg;
    hd_assert(hd_rwlock_read_lock(&s.lock) == 0);
    const int value = look();
    hd_rwlock_read_unlock(&s.lock);
    return value < 0;
}

static int writer(void *arg)
{
    (void)arg;
    hd_assert(hd_rwlock_write_lock(&s.lock) == 0);
    hd_race_write(&s.value, 1);
    hd_rwlock_write_unlock(&s.lock);
    return 0;
}

static int read_twice(void *arg)
{
    CORPUS_BEGIN(s, arg);
    TOGETHER(reader, writer, reader);
    return 0;
}
CORPUS(read_twice, read_twice, DEADLOCK, 1, "a writer between two read locks of one task")
