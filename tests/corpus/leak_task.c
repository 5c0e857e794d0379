/* SPDX-License-Identifier: MIT
 *
 * leak_task: a detached task waits under a shield for a word that its parent sends unless an error
 * came first. Then nobody sends it, and no cancel is felt: the task never ends.
 *
 * A wait that nothing can end.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_sem word;
    int error;
} s;

static int child(void *arg)
{
    (void)arg;
    if (!s.how.fixed) hd_shield();
    const int err = hd_sem_acquire(&s.word, 1);
    if (!s.how.fixed) hd_unshield();
    return err;
}

static int other(void *arg)
{
    (void)arg;
    hd_atomic_store(&s.error, 1);
    return 0;
}

static int leak_task(void *arg)
{
    CORPUS_BEGIN(s, arg);
    hd_detach(GO(child, NULL));
    hd_task *handle = GO(other, NULL);
    if (!hd_atomic_load(&s.error)) hd_sem_release(&s.word, 1);
    corpus_join(handle);
    return 0;
}
CORPUS(leak_task, leak_task, LEAK, 1, "a shielded wait for what does not come")
