/* SPDX-License-Identifier: MIT
 *
 * chan_closed: a sender asks whether the channel is closed, and takes it for granted that it is not
 * when it sends. Somebody closes it in between.
 *
 * Check, then act: the answer was true when it was given.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_chan *chan;
} s;

static int sender(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        if (hd_chan_closed(s.chan)) return 0;
        const int err = hd_chan_send(s.chan, &i);
        hd_assert(err == 0 || (s.how.fixed && err == -EPIPE));
    }
    return 0;
}

static int closer(void *arg)
{
    (void)arg;
    corpus_recv(s.chan);
    hd_chan_close(s.chan);
    return 0;
}

static int chan_closed(void *arg)
{
    CORPUS_BEGIN(s, arg);
    s.chan = corpus_chan(3);
    TOGETHER(sender, closer);
    hd_chan_destroy(s.chan);
    return 0;
}
CORPUS(chan_closed, chan_closed, ASSERT, 1, "closed after the sender has asked")
