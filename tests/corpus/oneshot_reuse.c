/* SPDX-License-Identifier: MIT
 *
 * oneshot_reuse: a client that gives up on an answer uses the same oneshot for its next question.
 * The server still answers the first one, into the second.
 *
 * A place for one answer whose other side was not told; fixed by closing it, and using another.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_oneshot slots[2];
    hd_chan *questions, *hurry;
} s;

/* Returns which slot the next question may use. */
static int ask(int question, int slot)
{
    int answer, ignored;
    hd_case cases[] = {HD_ONESHOT(&s.slots[slot], &answer), HD_RECV(s.hurry, &ignored)};
    hd_oneshot_init(&s.slots[slot], sizeof(int), NULL);
    corpus_send(s.questions, question * 10 + slot);
    if (hd_select(cases, 2) == 0) {
        hd_assert(cases[0].result != 0 || answer == question);
        return slot;
    }
    if (!s.how.fixed) return slot;
    hd_oneshot_close(&s.slots[slot]);
    return 1 - slot;
}

static int client(void *arg)
{
    (void)arg;
    const int slot = ask(1, 0);
    ask(2, slot);
    hd_chan_close(s.questions);
    return 0;
}

static int server(void *arg)
{
    (void)arg;
    int question;
    while (hd_chan_recv(s.questions, &question) == 0) {
        const int answer = question / 10;
        hd_oneshot_send(&s.slots[question % 10], &answer);
    }
    return 0;
}

static int impatient(void *arg)
{
    (void)arg;
    corpus_send(s.hurry, 0);
    return 0;
}

static int oneshot_reuse(void *arg)
{
    CORPUS_BEGIN(s, arg);
    s.questions = corpus_chan(2);
    s.hurry = corpus_chan(1);
    TOGETHER(client, server, impatient);
    hd_chan_destroy(s.questions);
    hd_chan_destroy(s.hurry);
    return 0;
}
CORPUS(oneshot_reuse, oneshot_reuse, ASSERT, 0, "an answer into the next question's place")
