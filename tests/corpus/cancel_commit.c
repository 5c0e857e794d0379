/* SPDX-License-Identifier: MIT
 *
 * cancel_commit: a transfer takes from one account, writes to its journal, and gives to the other.
 * A cancel that comes before the journal's wait ends the transfer half-way.
 *
 * Cancellation points inside of what has to happen as a whole; fixed by a shield.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_chan *journal;
    hd_task *transfer;
    int from, to;
} s;

static int transfer(void *arg)
{
    (void)arg;
    if (hd_cancelled()) return -ECANCELED;
    if (s.how.fixed) hd_shield();
    hd_atomic_sub(&s.from, 10);
    const int entry = 10, err = hd_chan_send(s.journal, &entry);
    if (!err) hd_atomic_add(&s.to, 10);
    if (s.how.fixed) hd_unshield();
    return err;
}

static int impatient(void *arg)
{
    (void)arg;
    hd_cancel(s.transfer);
    return 0;
}

static int cancel_commit(void *arg)
{
    CORPUS_BEGIN(s, arg);
    s.journal = corpus_chan(1);
    s.transfer = GO(transfer, NULL);
    TOGETHER(impatient);
    corpus_join(s.transfer);
    hd_assert(s.from + s.to == 0);
    hd_chan_destroy(s.journal);
    return 0;
}
CORPUS(cancel_commit, cancel_commit, ASSERT, 1, "a cancel between the two halves of a transfer")
