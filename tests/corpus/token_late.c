/* SPDX-License-Identifier: MIT
 *
 * token_late: a worker looks whether it was cancelled, and if not waits for the next job, which
 * comes no more. The token does not end that wait.
 *
 * Cancellation by looking; fixed by waiting for both.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_token *token;
    hd_chan *jobs;
} s;

static int worker(void *arg)
{
    (void)arg;
    int job;
    while (!hd_token_cancelled(s.token)) {
        hd_case cases[] = {HD_RECV(s.jobs, &job), HD_TOKEN(s.token)};
        hd_assert(hd_select(cases, s.how.fixed ? 2 : 1) >= 0);
    }
    return 0;
}

static int boss(void *arg)
{
    (void)arg;
    corpus_send(s.jobs, 1);
    hd_token_cancel(s.token);
    return 0;
}

static int token_late(void *arg)
{
    CORPUS_BEGIN(s, arg);
    s.token = hd_token_create(NULL);
    s.jobs = corpus_chan(0);
    TOGETHER(worker, boss);
    hd_token_unref(s.token);
    hd_chan_destroy(s.jobs);
    return 0;
}
CORPUS(token_late, token_late, STUCK, 0, "cancelled after the worker has looked")
