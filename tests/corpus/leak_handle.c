/* SPDX-License-Identifier: MIT
 *
 * leak_handle: a parent joins its child only if the result is not there yet. If the child was
 * quick, its handle is neither joined nor detached.
 *
 * A short cut that forgets what the long way did beside waiting.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    int done;
} s;

static int child(void *arg)
{
    (void)arg;
    hd_atomic_store(&s.done, 1);
    return 0;
}

static int leak_handle(void *arg)
{
    CORPUS_BEGIN(s, arg);
    hd_task *handle = GO(child, NULL);
    if (s.how.fixed || !hd_atomic_load(&s.done)) corpus_join(handle);
    return 0;
}
CORPUS(leak_handle, leak_handle, LEAK, 1, "a child that is quick is not joined")
