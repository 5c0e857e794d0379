/* SPDX-License-Identifier: MIT
 *
 * select_stale: a client waits for the answer to its question until somebody is impatient, and then
 * asks the next one. The late answer to the first is taken for that to the second.
 *
 * Requests without numbers on a connection that is used again.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_chan *questions, *answers, *hurry;
} s;

static void ask(int question)
{
    int answer, ignored;
    hd_case cases[] = {HD_RECV(s.answers, &answer), HD_RECV(s.hurry, &ignored)};
    corpus_send(s.questions, question);
    while (hd_select(cases, 2) == 0) {
        if (s.how.fixed && answer != 10 * question) continue;
        hd_assert(answer == 10 * question);
        return;
    }
}

static int client(void *arg)
{
    (void)arg;
    for (int question = 1; question <= 2; question++) ask(question);
    hd_chan_close(s.questions);
    return 0;
}

static int server(void *arg)
{
    (void)arg;
    int question;
    while (hd_chan_recv(s.questions, &question) == 0) corpus_send(s.answers, 10 * question);
    return 0;
}

static int impatient(void *arg)
{
    (void)arg;
    corpus_send(s.hurry, 0);
    return 0;
}

static int select_stale(void *arg)
{
    CORPUS_BEGIN(s, arg);
    s.questions = corpus_chan(2);
    s.answers = corpus_chan(2);
    s.hurry = corpus_chan(1);
    TOGETHER(client, server, impatient);
    hd_chan_destroy(s.questions);
    hd_chan_destroy(s.answers);
    hd_chan_destroy(s.hurry);
    return 0;
}
CORPUS(select_stale, select_stale, ASSERT, 0, "a late answer is taken for the next one's")
