/* SPDX-License-Identifier: MIT
 *
 * stale_handle: a task writes to a pipe as long as nobody has told it to stop, and another tells it
 * so and closes the pipe. Between its look and its write the handle has gone.
 *
 * A use after close; fixed by waiting until the writer has ended.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_io ends[2];
    hd_sem ended;
    int stop;
} s;

static int writer(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2 && !hd_atomic_load(&s.stop); i++)
        if (hd_write_all(s.ends[1], "x", 1, NULL) != 0) break;
    hd_sem_release(&s.ended, 1);
    return 0;
}

static int closer(void *arg)
{
    (void)arg;
    hd_atomic_store(&s.stop, 1);
    if (s.how.fixed) corpus_acquire(&s.ended);
    hd_close(s.ends[1]);
    return 0;
}

static int stale_handle(void *arg)
{
    CORPUS_BEGIN(s, arg);
    hd_assert(hd_pipe(s.ends) == 0);
    TOGETHER(writer, closer);
    hd_close(s.ends[0]);
    return 0;
}
CORPUS(stale_handle, stale_handle, STALE, 1, "a write to a pipe that was just closed")
