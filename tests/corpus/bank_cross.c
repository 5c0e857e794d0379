/* SPDX-License-Identifier: MIT
 *
 * bank_cross: a transfer locks the account it takes from, then the one it gives to. Two transfers
 * in opposite directions wait for each other.
 *
 * Fixed by an order of the accounts.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_mutex locks[3];
    int accounts[3];
} s;

static int transfer(void *arg)
{
    const unsigned from = PLACE(arg), to = (from + 1) % 2;
    const unsigned first = s.how.fixed ? 0 : from, second = s.how.fixed ? 1 : to;
    corpus_lock(&s.locks[first]);
    corpus_lock(&s.locks[second]);
    hd_race_write(&s.accounts[from], hd_race_read(&s.accounts[from]) - 10);
    hd_race_write(&s.accounts[to], hd_race_read(&s.accounts[to]) + 10);
    hd_mutex_unlock(&s.locks[second]);
    hd_mutex_unlock(&s.locks[first]);
    return 0;
}

static int bank_cross(void *arg)
{
    CORPUS_BEGIN(s, arg);
    CROWD(2, transfer, NULL);
    hd_assert(s.accounts[0] == 0 && s.accounts[1] == 0);
    return 0;
}
CORPUS(bank_cross, bank_cross, DEADLOCK, 1, "two transfers in opposite directions")
