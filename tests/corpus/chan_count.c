/* SPDX-License-Identifier: MIT
 *
 * chan_count: consumers look whether there is an item, and receive it if there is. Two see the last
 * one, and the second of them waits for ever.
 *
 * Check, then act, on a channel.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_chan *chan;
} s;

static int consumer(void *arg)
{
    (void)arg;
    int item;
    while (hd_chan_count(s.chan) > 0) {
        const int err = s.how.fixed ? hd_chan_recv_try(s.chan, &item) : hd_chan_recv(s.chan, &item);
        hd_assert(err == 0 || err == -EAGAIN);
    }
    return 0;
}

static int chan_count(void *arg)
{
    CORPUS_BEGIN(s, arg);
    s.chan = corpus_chan(4);
    for (int i = 0; i < 3; i++) corpus_send(s.chan, i);
    TOGETHER(consumer, consumer);
    hd_chan_destroy(s.chan);
    return 0;
}
CORPUS(chan_count, chan_count, DEADLOCK, 1, "two consumers see the last item")
