/* SPDX-License-Identifier: MIT
 *
 * select_quit: a worker selects between jobs and a word to quit, and ends at once when it comes. A
 * job that was sent before is still in the channel, and is never done.
 *
 * The usual loop of Go programs with a quit channel.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_chan *jobs, *quit;
    int done;
} s;

static int worker(void *arg)
{
    (void)arg;
    for (;;) {
        int item;
        hd_case cases[] = {HD_RECV(s.jobs, &item), HD_RECV(s.quit, &item)};
        if (hd_select(cases, 2) == 1) break;
        hd_atomic_add(&s.done, 1);
    }
    int item;
    while (s.how.fixed && hd_chan_recv_try(s.jobs, &item) == 0) hd_atomic_add(&s.done, 1);
    return 0;
}

static int boss(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) corpus_send(s.jobs, i);
    corpus_send(s.quit, 0);
    return 0;
}

static int select_quit(void *arg)
{
    CORPUS_BEGIN(s, arg);
    s.jobs = corpus_chan(4);
    s.quit = corpus_chan(1);
    TOGETHER(worker, boss);
    hd_assert(s.done == 2);
    hd_chan_destroy(s.jobs);
    hd_chan_destroy(s.quit);
    return 0;
}
CORPUS(select_quit, select_quit, ASSERT, 0, "quits with jobs left in the channel")
