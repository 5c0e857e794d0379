/* SPDX-License-Identifier: MIT
 *
 * notify_late: a start signal goes to all that wait at that moment. A runner that looked at the
 * flag before and waits after it never starts.
 *
 * A broadcast is not remembered; fixed by waking by what is.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_notify start;
    hd_sem starts;
    int started;
} s;

static int runner(void *arg)
{
    (void)arg;
    if (s.how.fixed) corpus_acquire(&s.starts);
    else if (!hd_atomic_load(&s.started)) hd_assert(hd_notify_wait(&s.start) == 0);
    return 0;
}

static int starter(void *arg)
{
    (void)arg;
    hd_atomic_store(&s.started, 1);
    hd_notify_all(&s.start);
    hd_sem_release(&s.starts, 2);
    return 0;
}

static int notify_late(void *arg)
{
    CORPUS_BEGIN(s, arg);
    CROWD(2, runner, starter);
    return 0;
}
CORPUS(notify_late, notify_late, STUCK, 1, "a broadcast to those who wait already")
