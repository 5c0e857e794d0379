/* SPDX-License-Identifier: MIT
 *
 * bluetooth: a request looks whether the driver is stopping, and counts itself as pending after
 * that. A stop in between finds nothing pending, and the request works on a stopped driver.
 *
 * The driver model of Qadeer and Wu, known from most papers on bounded context switches.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_sem drained;
    int pending, stopping, stopped;
} s;

static void leave(void)
{
    if (hd_atomic_sub(&s.pending, 1) == 1) hd_sem_release(&s.drained, 1);
}

static int request(void *arg)
{
    (void)arg;
    if (s.how.fixed) {
        hd_atomic_add(&s.pending, 1);
        if (hd_atomic_load(&s.stopping)) {
            leave();
            return 0;
        }
    } else {
        if (hd_atomic_load(&s.stopping)) return 0;
        hd_atomic_add(&s.pending, 1);
    }
    hd_assert(!hd_atomic_load(&s.stopped));
    leave();
    return 0;
}

static int stop(void *arg)
{
    (void)arg;
    hd_atomic_store(&s.stopping, 1);
    leave();
    corpus_acquire(&s.drained);
    hd_atomic_store(&s.stopped, 1);
    return 0;
}

static int bluetooth(void *arg)
{
    CORPUS_BEGIN(s, arg);
    s.pending = 1; /* the driver itself */
    TOGETHER(request, request, stop);
    return 0;
}
CORPUS(bluetooth, bluetooth, ASSERT, 1, "a driver stops between check and count of a request")
