/* SPDX-License-Identifier: MIT
 *
 * safestack: a stack of indices whose pop marks the top node before it swaps, so that no other pop
 * can use it meanwhile. A mark that is taken back late, on a node that was popped and pushed since,
 * links it to something old: two tasks get the same node.
 *
 * In the manner of Vyukov's SafeStack, which takes three tasks and five switches and which most
 * explorers do not find.
 */
#include "corpus.h"

#define NODES  3
#define MARKED 0

static struct {
    struct corpus_case how;
    hd_mutex mutex;
    int top;              /* a node from 1 */
    int below[NODES + 1]; /* MARKED: a pop has it in hand, or it is the last */
    int count;
    int owners[NODES + 1];
} s;

/* Returns 0 if there was none to have just now. The last node stays. */
static int pop(void)
{
    while (hd_atomic_load(&s.count) > 1) {
        int top = hd_atomic_load(&s.top);
        const int node = top, below = hd_atomic_exchange(&s.below[node], MARKED);
        if (below != MARKED) {
            if (hd_atomic_cas(&s.top, &top, below)) {
                hd_atomic_sub(&s.count, 1);
                return node;
            }
            hd_atomic_store(&s.below[node], below);
        }
        hd_yield();
    }
    return 0;
}

static void push(int node)
{
    int top = hd_atomic_load(&s.top);
    do hd_atomic_store(&s.below[node], top);
    while (!hd_atomic_cas(&s.top, &top, node));
    hd_atomic_add(&s.count, 1);
}

static int user(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        if (s.how.fixed) corpus_lock(&s.mutex);
        const int node = pop();
        if (node != 0) {
            hd_assert(hd_atomic_add(&s.owners[node], 1) == 0);
            hd_atomic_sub(&s.owners[node], 1);
            push(node);
        }
        if (s.how.fixed) hd_mutex_unlock(&s.mutex);
    }
    return 0;
}

static int safestack(void *arg)
{
    CORPUS_BEGIN(s, arg);
    s.top = 1;
    for (int node = 1; node < NODES; node++) s.below[node] = node + 1;
    s.count = NODES;
    CROWD(3, user, NULL);
    return 0;
}
CORPUS(safestack, safestack, ASSERT_HARD, 5, "a mark that is taken back too late")
