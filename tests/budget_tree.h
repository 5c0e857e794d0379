/* SPDX-License-Identifier: MIT
 *
 * budget_tree: random trees of nurseries with budgets, in which tasks do everything that has to do
 * with budgets. Nothing may be lost, and nothing made.
 */
#ifndef TEST_BUDGET_TREE_H
#define TEST_BUDGET_TREE_H

#include "base/prng.h"
#include "budgets.h"

enum { TREE_DEPTH_MAX = 5, TREE_BLOCKS = 64 };

/* What happened in all trees of a process. */
static struct {
    atomic_int tasks, branches, refused, cancelled, recharged, moved;
} tree_seen;

/* What all tasks of a tree share. */
struct tree {
    hd_chan *chan;
    _Atomic(void *) blocks[TREE_BLOCKS]; /* memory that anyone may free */
    _Atomic(int64_t) added[HD_RESOURCES]; /* by recharges of the root */
    _Atomic(int64_t) used[HD_RESOURCES];  /* ops: at least */
};

/* A task of the tree, and the nurseries it is in. */
struct tree_node {
    struct tree *tree;
    struct tree_node *up;
    hd_nursery *nursery; /* the one it opened itself; NULL: none */
    int depth;
    struct hdi_prng prng;
};

static inline uint32_t tree_below(struct tree_node *node, uint32_t n)
{
    return hdi_prng_below(&node->prng, n);
}

static inline hd_budget tree_budget(struct tree_node *node, uint32_t scale)
{
    static const uint32_t sizes[] = {400, 3000, 10, 100, 5};
    hd_budget budget;
    int64_t *amounts = &budget.ops;
    for (int i = 0; i < HD_RESOURCES; i++) {
        const uint32_t kind = tree_below(node, 8);
        amounts[i] = kind == 0 ? HD_NOTHING : kind < 3 ? 0 : 1 + tree_below(node, sizes[i] * scale);
    }
    return budget;
}

/* One of the nurseries that the task is in or has opened, with a budget of its own or not. */
static inline struct tree_node *tree_ancestor(struct tree_node *node)
{
    for (uint32_t steps = tree_below(node, (uint32_t)node->depth + 1); steps && node->up; steps--) {
        node = node->up;
    }
    return node;
}

static inline void tree_note(int err)
{
    if (err == -EDQUOT) atomic_fetch_add(&tree_seen.refused, 1);
    if (err == -ECANCELED || err == -ETIMEDOUT) atomic_fetch_add(&tree_seen.cancelled, 1);
}

/* A call was made, or refused. */
static inline void tree_paid(struct tree *tree, hd_resource resource, int64_t amount, int err)
{
    tree_note(err);
    if (err == 0 || err == -EAGAIN) atomic_fetch_add(&tree->used[resource], amount);
}

/* ---- what tasks do ---- */

static inline void tree_compute(struct tree_node *node, unsigned ops)
{
    tree_paid(node->tree, HD_OPS, ops, hd_checkpoint(ops));
}

static inline void tree_look(struct tree_node *node)
{
    hd_nursery *nursery = tree_ancestor(node)->nursery;
    hd_budget_info info;
    if (nursery && hd_budget_look(nursery, &info) == 0) (void)budgets_look(nursery);
    const hd_budget left = hd_budget_left();
    const int64_t *amounts = &left.ops;
    for (int i = 0; i < HD_RESOURCES; i++) EXPECT(amounts[i] >= 0);
}

static inline void tree_recharge(struct tree_node *node)
{
    struct tree_node *at = tree_ancestor(node);
    hd_budget amount = tree_budget(node, 1);
    int64_t *amounts = &amount.ops;
    for (int i = 0; i < HD_RESOURCES; i++) amounts[i] = amounts[i] < 0 ? 0 : amounts[i];
    if (!at->nursery) return;
    const int err = hd_budget_recharge(at->nursery, &amount);
    if (!at->up && err == 0) {
        for (int i = 0; i < HD_RESOURCES; i++) {
            atomic_fetch_add(&node->tree->added[i], amounts[i]);
        }
    }
    EXPECT(err == 0 || err == -ENOENT || err == -EDQUOT);
    atomic_fetch_add(&tree_seen.recharged, err == 0);
}

static inline void tree_transfer(struct tree_node *node)
{
    hd_nursery *from = tree_ancestor(node)->nursery, *to = tree_ancestor(node)->nursery;
    hd_budget amount = {0};
    (&amount.ops)[tree_below(node, HD_RESOURCES)] = tree_below(node, 50);
    if (!from || !to) return;
    const int err = hd_budget_transfer(from, to, &amount);
    EXPECT(err == 0 || err == -ENOENT || err == -EDQUOT || err == -EINVAL);
    atomic_fetch_add(&tree_seen.moved, err == 0);
}

static inline void tree_allocate(struct tree_node *node)
{
    void *block;
    const int err = hd_alloc(tree_below(node, 300), &block);
    tree_note(err);
    if (err) return;
    hd_free(atomic_exchange(&node->tree->blocks[tree_below(node, TREE_BLOCKS)], block));
}

static inline void tree_act(struct tree_node *node)
{
    struct tree *tree = node->tree;
    int item = 1;
    switch (tree_below(node, 10)) {
    case 0: tree_compute(node, tree_below(node, 40)); break;
    case 1: tree_compute(node, 1); break;
    case 2: tree_paid(tree, HD_CHANNEL_OPS, 1, hd_chan_send_try(tree->chan, &item)); break;
    case 3: tree_paid(tree, HD_CHANNEL_OPS, 1, hd_chan_recv_try(tree->chan, &item)); break;
    case 4: tree_allocate(node); break;
    case 5: hd_yield(); break;
    case 6: tree_look(node); break;
    case 7: tree_recharge(node); break;
    case 8: tree_transfer(node); break;
    case 9: tree_note(hd_sleep_until(hd_now(NULL) + tree_below(node, 20000))); break;
    }
}

/* ---- the tree ---- */

static int tree_task(void *arg);

static inline int64_t tree_give(hd_resource resource, int64_t missing, uint64_t task, void *arg)
{
    (void)resource, (void)task, (void)arg;
    return missing % 3 == 0 ? 0 : missing + 5;
}

static inline void tree_spawn(struct tree_node *node, hd_nursery *nursery)
{
    struct tree_node *child = malloc(sizeof(*child));
    *child = (struct tree_node){.tree = node->tree, .up = node, .depth = node->depth + 1};
    hdi_prng_init(&child->prng, hdi_prng_next(&node->prng));
    const int err = hd_go(nursery, tree_task, child);
    if (node->up) tree_paid(node->tree, HD_SPAWN_COUNT, 1, err); /* The root is no task of it. */
    if (err) free(child);
}

/* Open a nursery, fill it, act, and leave. */
static inline void tree_branch(struct tree_node *node)
{
    const hd_budget budget = tree_budget(node, 1), limit = tree_budget(node, 2);
    const hd_budget refill = tree_budget(node, 1);
    hd_nursery nursery, *before = node->nursery;
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    options.budget = tree_below(node, 5) ? &budget : NULL;
    options.per_task = tree_below(node, 3) ? NULL : &limit;
    options.exhausted = (hd_exhausted)tree_below(node, 4);
    options.recharge = tree_give;
    options.on_error = HD_ON_ERROR_COLLECT;
    options.deadline = hd_now(NULL) + HD_MS_NS; /* Some would wait for ever. */
    if (options.budget && tree_below(node, 3) == 0) {
        options.refill = &refill;
        options.refill_ns = 10000 + tree_below(node, 200000);
    }
    const int err = hd_nursery_open(&nursery, &options);
    EXPECT(err == 0 || err == -EDQUOT);
    if (err) return;
    node->nursery = &nursery;
    atomic_fetch_add(&tree_seen.branches, 1);
    for (uint32_t i = tree_below(node, 5); i > 0; i--) tree_spawn(node, &nursery);
    for (uint32_t i = tree_below(node, 20); i > 0; i--) tree_act(node);
    if (tree_below(node, 8) == 0) hd_nursery_cancel(&nursery);
    (void)hd_nursery_wait(&nursery);
    if (options.budget) {
        const hd_budget_info info = budgets_look(&nursery);
        for (int i = 0; i < HD_RESOURCES; i++) EXPECT_EQ((&info.granted.ops)[i], 0);
    }
    node->nursery = before;
    (void)hd_nursery_leave(&nursery);
}

static int tree_task(void *arg)
{
    struct tree_node *node = arg;
    atomic_fetch_add(&tree_seen.tasks, 1);
    for (uint32_t i = tree_below(node, 12); i > 0; i--) tree_act(node);
    if (node->depth < TREE_DEPTH_MAX) {
        for (uint32_t i = tree_below(node, 3); i > 0; i--) tree_branch(node);
    }
    for (uint32_t i = tree_below(node, 12); i > 0; i--) tree_act(node);
    free(node);
    return 0;
}

/* The root has much, and is not refilled: what it was given is known. */
static int tree_main(void *arg)
{
    const uint64_t *seed = arg;
    struct tree tree = {.chan = hd_chan_create(sizeof(int), 10)};
    hd_nursery root;
    struct tree_node node = {.tree = &tree, .nursery = &root};
    hd_budget budget = {.ops = 20000, .memory = 10000, .spawn_count = 200, .channel_ops = 2000};
    budget.syscalls = 100;
    hdi_prng_init(&node.prng, *seed);
    const hd_nursery_options how = {.exhausted = (hd_exhausted)tree_below(&node, 4),
                                    .recharge = tree_give,
                                    .deadline = hd_now(NULL) + 20 * HD_MS_NS};
    budgets_open(&root, &budget, &how);
    for (int i = 0; i < 6; i++) tree_spawn(&node, &root);
    while (hd_nursery_look(&root).live > 0) {
        tree_look(&node);
        (void)hd_sleep_until(hd_now(NULL) + 1000);
    }
    for (int i = 0; i < TREE_BLOCKS; i++) hd_free(atomic_load(&tree.blocks[i]));
    const hd_budget_info info = budgets_look(&root);
    for (int i = 0; i < HD_RESOURCES; i++) {
        EXPECT_EQ((&info.granted.ops)[i], 0);
        if (how.exhausted == HD_EXHAUSTED_ASK) continue; /* The callback gave more. */
        EXPECT_EQ((&info.given.ops)[i], (&budget.ops)[i] + atomic_load(&tree.added[i]));
    }
    EXPECT(info.consumed.ops >= atomic_load(&tree.used[HD_OPS]));
    EXPECT_EQ(info.consumed.memory, 0);
    EXPECT_EQ(info.consumed.spawn_count, atomic_load(&tree.used[HD_SPAWN_COUNT]));
    EXPECT_EQ(info.consumed.channel_ops, atomic_load(&tree.used[HD_CHANNEL_OPS]));
    EXPECT_EQ(info.waiting, 0);
    (void)hd_nursery_leave(&root);
    hd_chan_destroy(tree.chan);
    return 0;
}

static inline void tree_report(int trees)
{
    fprintf(stderr,
            "# %d trees: %d tasks, %d nurseries, %d refused, %d cancelled, %d more, %d moved\n",
            trees, tree_seen.tasks, tree_seen.branches, tree_seen.refused, tree_seen.cancelled,
            tree_seen.recharged, tree_seen.moved);
}

/* The trees were not too small to show anything. */
static inline void tree_expect_much(int trees)
{
    tree_report(trees);
    EXPECT(tree_seen.tasks > 10 * trees && tree_seen.branches > 5 * trees);
    EXPECT(tree_seen.refused > 5 * trees && tree_seen.cancelled > 5 * trees);
    EXPECT(tree_seen.recharged > 5 * trees && tree_seen.moved > 5 * trees);
}

#endif
