/* SPDX-License-Identifier: MIT
 *
 * seqlock: a reader waits until no write is under way, and reads two fields. It does not look again
 * afterwards whether one has begun meanwhile, so it may have one old and one new.
 *
 * A sequence lock with half of its reader.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    unsigned sequence;
    int left, right;
} s;

static int writer(void *arg)
{
    (void)arg;
    for (int i = 1; i <= 2; i++) {
        hd_atomic_add(&s.sequence, 1u);
        hd_atomic_store(&s.left, i);
        hd_atomic_store(&s.right, i);
        hd_atomic_add(&s.sequence, 1u);
    }
    return 0;
}

static int reader(void *arg)
{
    (void)arg;
    for (;;) {
        const unsigned before = hd_atomic_load(&s.sequence);
        if (before % 2 == 0) {
            const int left = hd_atomic_load(&s.left), right = hd_atomic_load(&s.right);
            if (!s.how.fixed || hd_atomic_load(&s.sequence) == before) {
                hd_assert(left == right);
                return 0;
            }
        }
        hd_yield();
    }
}

static int seqlock(void *arg)
{
    CORPUS_BEGIN(s, arg);
    TOGETHER(writer, reader);
    return 0;
}
CORPUS(seqlock, seqlock, ASSERT, 1, "a reader that does not look again")
