/* SPDX-License-Identifier: MIT
 *
 * aba_stack: a pop reads the top and what is below it, and swaps one for the other. If meanwhile
 * others popped both and pushed the first back, the swap succeeds and brings back a node in use.
 *
 * Treiber's stack without a tag in its top.
 */
#include "corpus.h"

#define NONE 0u
#define TAG  0x100u

static struct {
    struct corpus_case how;
    unsigned top;       /* a node from 1, and in the upper bits the tag */
    unsigned below[4];
    unsigned owners[4]; /* tasks that have the node */
} s;

static unsigned retag(unsigned old, unsigned node)
{
    return s.how.fixed ? (old / TAG + 1) * TAG + node : node;
}

static unsigned pop(void)
{
    unsigned top = hd_atomic_load(&s.top);
    while (top % TAG != NONE) {
        const unsigned node = top % TAG, below = hd_atomic_load(&s.below[node]);
        if (!hd_atomic_cas(&s.top, &top, retag(top, below))) continue;
        hd_assert(hd_atomic_add(&s.owners[node], 1) == 0);
        return node;
    }
    return NONE;
}

static void push(unsigned node)
{
    if (node == NONE) return;
    hd_atomic_sub(&s.owners[node], 1);
    unsigned top = hd_atomic_load(&s.top);
    do hd_atomic_store(&s.below[node], top % TAG);
    while (!hd_atomic_cas(&s.top, &top, retag(top, node)));
}

static int take_two(void *arg)
{
    (void)arg;
    pop();
    pop();
    return 0;
}

static int take_two_give_one(void *arg)
{
    (void)arg;
    const unsigned node = pop();
    pop();
    push(node);
    return 0;
}

static int aba_stack(void *arg)
{
    CORPUS_BEGIN(s, arg);
    s.top = 1;
    s.below[1] = 2;
    s.below[2] = 3;
    TOGETHER(take_two, take_two_give_one);
    return 0;
}
CORPUS(aba_stack, aba_stack, ASSERT, 1, "the top is the same again, the rest is not")
