/* SPDX-License-Identifier: MIT
 *
 * sem_one_by_one: tasks that need two permits take them one by one. When each has one, none are
 * left, and all wait.
 *
 * Resources that are held while waiting for more; fixed by asking for all at once.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_sem permits;
} s;

static int user(void *arg)
{
    (void)arg;
    if (s.how.fixed) {
        hd_assert(hd_sem_acquire(&s.permits, 2) == 0);
    } else {
        corpus_acquire(&s.permits);
        corpus_acquire(&s.permits);
    }
    hd_sem_release(&s.permits, 2);
    return 0;
}

static int sem_one_by_one(void *arg)
{
    CORPUS_BEGIN(s, arg);
    hd_sem_init(&s.permits, 3);
    CROWD(3, user, NULL);
    return 0;
}
CORPUS(sem_one_by_one, sem_one_by_one, DEADLOCK, 2, "each has one permit and wants another")
