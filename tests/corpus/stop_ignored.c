/* SPDX-License-Identifier: MIT
 *
 * stop_ignored: a service that is asked to stop while it starts is not running yet, so there is
 * nothing to stop. It runs on after both calls have returned.
 *
 * A state that was left out; fixed by a request that is remembered.
 */
#include "corpus.h"

enum { IDLE, STARTING, RUNNING, STOPPED };

static struct {
    struct corpus_case how;
    int state, wanted;
} s;

static int start(void *arg)
{
    (void)arg;
    int state = IDLE;
    if (!hd_atomic_cas(&s.state, &state, STARTING)) return 0;
    hd_race_point(); /* opens files and the like */
    hd_atomic_store(&s.state, RUNNING);
    state = RUNNING;
    if (s.how.fixed && hd_atomic_load(&s.wanted)) hd_atomic_cas(&s.state, &state, STOPPED);
    return 0;
}

static int stop(void *arg)
{
    (void)arg;
    int state = IDLE;
    if (s.how.fixed) hd_atomic_store(&s.wanted, 1);
    if (hd_atomic_cas(&s.state, &state, STOPPED)) return 0;
    state = RUNNING;
    hd_atomic_cas(&s.state, &state, STOPPED);
    return 0;
}

static int stop_ignored(void *arg)
{
    CORPUS_BEGIN(s, arg);
    TOGETHER(start, stop);
    hd_assert(s.state == STOPPED);
    return 0;
}
CORPUS(stop_ignored, stop_ignored, ASSERT, 1, "a stop while it starts")
