/* SPDX-License-Identifier: MIT
 *
 * routing_loop: the way out moves from one node to the other. The first node already sends to the
 * second, which is to be told when no message is under way, and a message goes round between them.
 *
 * A livelock by messages: loops in routing while it converges. Fixed by the order of the changes.
 */
#include "corpus.h"

enum { LEFT, RIGHT, OUT };

static struct {
    struct corpus_case how;
    hd_chan *nodes[2];
    int next[2];
    int passing; /* messages under way */
} s;

static int node(void *arg)
{
    const unsigned me = PLACE(arg);
    int message;
    while (hd_chan_recv(s.nodes[me], &message) == 0) {
        const int next = hd_atomic_load(&s.next[me]);
        if (next != OUT) {
            corpus_send(s.nodes[next], message);
            continue;
        }
        hd_atomic_sub(&s.passing, 1);
        for (int i = 0; i < 2; i++) hd_chan_close(s.nodes[i]);
    }
    return 0;
}

/* The way out was on the right, and is now on the left. */
static int reroute(void *arg)
{
    (void)arg;
    if (s.how.fixed) hd_atomic_store(&s.next[LEFT], OUT);
    hd_atomic_store(&s.next[RIGHT], LEFT);
    while (!s.how.fixed && hd_atomic_load(&s.passing)) hd_yield();
    hd_atomic_store(&s.next[LEFT], OUT);
    return 0;
}

static int routing_loop(void *arg)
{
    CORPUS_BEGIN(s, arg);
    for (int i = 0; i < 2; i++) s.nodes[i] = corpus_chan(1);
    s.next[LEFT] = RIGHT;
    s.next[RIGHT] = OUT;
    s.passing = 1;
    corpus_send(s.nodes[LEFT], 1);
    CROWD(2, node, reroute);
    for (int i = 0; i < 2; i++) hd_chan_destroy(s.nodes[i]);
    return 0;
}
CORPUS(routing_loop, routing_loop, LIVELOCK, 0, "two nodes that send to each other")
