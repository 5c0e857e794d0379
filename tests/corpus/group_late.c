/* SPDX-License-Identifier: MIT
 *
 * group_late: tasks add themselves to the group they are waited for by. Who waits before the first
 * has begun finds nothing to wait for.
 *
 * The wait group's rule: add before the spawn.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_group group;
    int done;
} s;

static int worker(void *arg)
{
    (void)arg;
    if (!s.how.fixed) hd_group_add(&s.group, 1);
    hd_atomic_add(&s.done, 1);
    hd_group_done(&s.group);
    return 0;
}

static int boss(void *arg)
{
    (void)arg;
    hd_assert(hd_group_wait(&s.group) == 0);
    hd_assert(hd_atomic_load(&s.done) == 2);
    return 0;
}

static int group_late(void *arg)
{
    CORPUS_BEGIN(s, arg);
    if (s.how.fixed) hd_group_add(&s.group, 2);
    TOGETHER(worker, worker, boss);
    return 0;
}
CORPUS(group_late, group_late, ASSERT, 0, "tasks that add themselves")
