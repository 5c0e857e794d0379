/* SPDX-License-Identifier: MIT
 *
 * nursery_half: one child of a nursery updates a pair with a wait between the halves; another
 * fails, and the nursery cancels the first. The pair is left half updated.
 *
 * What an error of one does to its siblings; fixed by a shield around what belongs together.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_sem permits;
    int left, right;
} s;

static int update(void *arg)
{
    (void)arg;
    if (hd_cancelled()) return -ECANCELED;
    if (s.how.fixed) hd_shield();
    hd_atomic_add(&s.left, 1);
    const int err = hd_sem_acquire(&s.permits, 1);
    if (!err) hd_atomic_add(&s.right, 1);
    if (s.how.fixed) hd_unshield();
    return err;
}

static int fail(void *arg)
{
    (void)arg;
    return -EIO;
}

static int nursery_half(void *arg)
{
    CORPUS_BEGIN(s, arg);
    hd_sem_init(&s.permits, 1);
    HD_NURSERY(n) {
        hd_assert(hd_go(n, update, NULL) == 0);
        hd_go(n, fail, NULL);
    }
    hd_assert(s.left == s.right);
    return 0;
}
CORPUS(nursery_half, nursery_half, ASSERT, 1, "a sibling's error comes between two halves")
