/* SPDX-License-Identifier: MIT
 *
 * watchdog: a job and its watchdog wake at the same time. Each looks whether the other was first
 * before it says that it was, and both say so.
 *
 * A timer that races with what it watches.
 */
#include "corpus.h"

enum { OPEN, DONE, LATE };

static struct {
    struct corpus_case how;
    int64_t at;
    int state, done, late;
} s;

static void decide(int outcome, int *count)
{
    int state = OPEN;
    hd_sleep_until(s.at);
    if (s.how.fixed) {
        if (hd_atomic_cas(&s.state, &state, outcome)) hd_atomic_add(count, 1);
    } else if (hd_atomic_load(&s.state) == OPEN) {
        hd_atomic_store(&s.state, outcome);
        hd_atomic_add(count, 1);
    }
}

static int job(void *arg)
{
    (void)arg;
    decide(DONE, &s.done);
    return 0;
}

static int dog(void *arg)
{
    (void)arg;
    decide(LATE, &s.late);
    return 0;
}

static int watchdog(void *arg)
{
    CORPUS_BEGIN(s, arg);
    s.at = hd_after_ms(5);
    TOGETHER(job, dog);
    hd_assert(s.done + s.late == 1);
    return 0;
}
CORPUS(watchdog, watchdog, ASSERT, 1, "done and late at the same time")
