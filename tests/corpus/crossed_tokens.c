/* SPDX-License-Identifier: MIT
 *
 * crossed_tokens: two resources are handed out as tokens in two channels. Tasks that take them in
 * different orders each have one and wait for the other.
 *
 * A deadlock without a lock, which no lock order checker sees.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_chan *tokens[2];
} s;

static int user(void *arg)
{
    const unsigned first = s.how.fixed ? 0 : PLACE(arg) % 2, second = 1 - first;
    const int one = corpus_recv(s.tokens[first]), other = corpus_recv(s.tokens[second]);
    corpus_send(s.tokens[second], other);
    corpus_send(s.tokens[first], one);
    return 0;
}

static int crossed_tokens(void *arg)
{
    CORPUS_BEGIN(s, arg);
    for (int i = 0; i < 2; i++) {
        s.tokens[i] = corpus_chan(1);
        corpus_send(s.tokens[i], i);
    }
    CROWD(3, user, NULL);
    for (int i = 0; i < 2; i++) hd_chan_destroy(s.tokens[i]);
    return 0;
}
CORPUS(crossed_tokens, crossed_tokens, DEADLOCK, 1, "tokens from two channels in two orders")
