/* SPDX-License-Identifier: MIT
 *
 * bank_audit: an audit locks each account while it reads it, and lets it go before the next. A
 * transfer in between is seen on one side only: money appears or vanishes.
 *
 * The bank of every textbook on transactions.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_mutex locks[2];
    int accounts[2];
} s;

static int transfer(void *arg)
{
    (void)arg;
    corpus_lock(&s.locks[0]);
    corpus_lock(&s.locks[1]);
    hd_race_write(&s.accounts[0], hd_race_read(&s.accounts[0]) - 10);
    hd_race_write(&s.accounts[1], hd_race_read(&s.accounts[1]) + 10);
    hd_mutex_unlock(&s.locks[1]);
    hd_mutex_unlock(&s.locks[0]);
    return 0;
}

static int audit(void *arg)
{
    (void)arg;
    int sum = 0;
    for (int i = 0; i < 2; i++) {
        corpus_lock(&s.locks[i]);
        sum += hd_race_read(&s.accounts[i]);
        if (!s.how.fixed) hd_mutex_unlock(&s.locks[i]);
    }
    if (s.how.fixed) {
        hd_mutex_unlock(&s.locks[1]);
        hd_mutex_unlock(&s.locks[0]);
    }
    hd_assert(sum == 200);
    return 0;
}

static int bank_audit(void *arg)
{
    CORPUS_BEGIN(s, arg);
    s.accounts[0] = s.accounts[1] = 100;
    TOGETHER(transfer, audit);
    return 0;
}
CORPUS(bank_audit, bank_audit, ASSERT, 1, "a sum over accounts that are locked one by one")
