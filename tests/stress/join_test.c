/* SPDX-License-Identifier: MIT
 *
 * Join and spawn storms: trees and chains of tasks that join each other, foreign threads
 * that spawn and join in every way there is. Every task runs exactly once; what it wrote
 * before its end is seen by whoever joined it (plain memory, so that ThreadSanitizer
 * has its say).
 */
#include "stress/stress.h"

/* ---- trees ---- */

enum { TREE_WIDTH = 3 };

struct node {
    unsigned depth;
    unsigned size; /* written by the task, read by its joiner */
};

static int tree_fiber(void *arg)
{
    struct node *node = arg;
    node->size = 1;
    if (node->depth == 0) return 1;
    struct node children[TREE_WIDTH];
    hd_task *tasks[TREE_WIDTH];
    for (int i = 0; i < TREE_WIDTH; i++) {
        children[i] = (struct node){.depth = node->depth - 1};
        EXPECT_EQ(hd_spawn(&tasks[i], tree_fiber, &children[i]), 0);
    }
    for (int i = TREE_WIDTH - 1; i >= 0; i--) {
        int size = 0;
        EXPECT_EQ(hd_join(tasks[i], &size), 0);
        EXPECT_EQ(size, children[i].size);
        node->size += children[i].size;
    }
    return (int)node->size;
}

/* The same without stacks: the node and its children live in the task. */
struct poll_node {
    unsigned depth, size, next;
    bool spawned;
    hd_task *tasks[TREE_WIDTH];
};

static hd_poll tree_poll(void *state, int *result)
{
    struct poll_node *node = state;
    if (!node->spawned) {
        node->spawned = true;
        node->size = 1;
        for (int i = 0; i < TREE_WIDTH && node->depth > 0; i++) {
            const struct poll_node child = {.depth = node->depth - 1};
            EXPECT_EQ(hd_spawn_poll(&node->tasks[i], tree_poll, &child, sizeof(child)), 0);
        }
    }
    while (node->depth > 0 && node->next < TREE_WIDTH) {
        int size = 0;
        if (hd_join_poll(node->tasks[node->next], &size) == HD_PENDING) return HD_PENDING;
        node->size += (unsigned)size;
        node->next++;
    }
    *result = (int)node->size;
    return HD_READY;
}

static unsigned tree_size(unsigned depth)
{
    unsigned size = 1, level = 1;
    while (depth-- > 0) size += level *= TREE_WIDTH;
    return size;
}

static void trees(const hd_options *options, unsigned scale)
{
    hd_runtime *runtime = stress_runtime(options);
    const hd_spawn_options into = stress_into(runtime);
    const unsigned depth = STRESS_TSAN ? 4 : 7; /* 121 or 3,280 tasks */
    const unsigned rounds = (STRESS_TSAN ? 4 : 16) / scale;
    for (unsigned i = 0; i < rounds; i++) {
        struct node root = {.depth = depth};
        const struct poll_node poll_root = {.depth = depth};
        hd_task *fiber, *poll;
        int fiber_size = 0, poll_size = 0;
        EXPECT_EQ(hd_spawn_with(&fiber, tree_fiber, &root, &into), 0);
        EXPECT_EQ(hd_spawn_poll_with(&poll, tree_poll, &poll_root, sizeof(poll_root), &into), 0);
        EXPECT_EQ(hd_join(fiber, &fiber_size), 0);
        EXPECT_EQ(hd_join(poll, &poll_size), 0);
        EXPECT_EQ(fiber_size, tree_size(depth));
        EXPECT_EQ(poll_size, tree_size(depth));
    }
    hd_stats stats;
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    hd_runtime_stats(runtime, &stats);
    EXPECT_EQ(stats.submitted, 2 * rounds * tree_size(depth));
    EXPECT_EQ(stats.completed, stats.submitted);
    hd_runtime_destroy(runtime);
}

TEST(join_trees)
{
    stress_each_setup(trees);
}

/* ---- chains ---- */

/* Link i joins link i - 1, alternately as fiber and stackless task; the first waits for
 * the gate, so that all of them are registered or about to when it opens. */
struct chain {
    atomic_bool open;
    hd_waker gate;
    atomic_uint registered;
};

struct link {
    struct chain *chain;
    hd_task *before;
    unsigned *sum; /* plain: handed on from link to link */
};

static int first_link(void *arg)
{
    struct chain *chain = arg;
    chain->gate = hd_waker_self();
    atomic_store_explicit(&chain->registered, 1, memory_order_release);
    while (!atomic_load_explicit(&chain->open, memory_order_acquire)) EXPECT_EQ(hd_park(), 0);
    return 0;
}

static int link_fiber(void *arg)
{
    const struct link *link = arg;
    int result = -1;
    EXPECT_EQ(hd_join(link->before, &result), 0);
    ++*link->sum;
    return result + 1;
}

static hd_poll link_poll(void *state, int *result)
{
    const struct link *link = state;
    int before = -1;
    if (hd_join_poll(link->before, &before) == HD_PENDING) return HD_PENDING;
    ++*link->sum;
    *result = before + 1;
    return HD_READY;
}

static void one_chain(hd_runtime *runtime, unsigned length, bool gated)
{
    const hd_spawn_options into = stress_into(runtime);
    struct link *links = calloc(length, sizeof(*links));
    EXPECT(links != NULL);
    struct chain chain = {.open = !gated};
    unsigned sum = 0;
    hd_task *last;
    EXPECT_EQ(hd_spawn_with(&last, first_link, &chain, &into), 0);
    for (unsigned i = 0; i < length; i++) {
        links[i] = (struct link){&chain, last, &sum};
        if (i % 2) {
            EXPECT_EQ(hd_spawn_with(&last, link_fiber, &links[i], &into), 0);
        } else {
            EXPECT_EQ(hd_spawn_poll_with(&last, link_poll, &links[i], sizeof(links[i]), &into), 0);
        }
    }
    stress_await(&chain.registered, 1);
    atomic_store_explicit(&chain.open, true, memory_order_release);
    hd_waker_wake(chain.gate);
    int result = -1;
    EXPECT_EQ(hd_join(last, &result), 0);
    EXPECT_EQ(result, length);
    EXPECT_EQ(sum, length);
    free(links);
}

static void chains(const hd_options *options, unsigned scale)
{
    hd_runtime *runtime = stress_runtime(options);
    for (unsigned i = 0; i < stress_count(64) / scale + 1; i++) {
        one_chain(runtime, STRESS_TSAN ? 150 : 1000, i % 2);
    }
    hd_runtime_destroy(runtime);
}

TEST(join_chains)
{
    stress_each_setup(chains);
}

/* ---- foreign threads ---- */

enum { SPAWNERS = 4 };

struct field {
    hd_runtime *runtime;
    unsigned per_thread;
    atomic_uint spawner_next;
    atomic_uint runs; /* of leaves */
};

struct leaf {
    struct field *field;
    unsigned *cell; /* plain: the joiner reads it */
    unsigned children;
};

static void run_leaf(const struct leaf *leaf)
{
    if (leaf->cell) ++*leaf->cell;
    atomic_fetch_add_explicit(&leaf->field->runs, 1, memory_order_relaxed);
}

static hd_poll leaf_poll(void *state, int *result)
{
    run_leaf(state);
    *result = 7;
    return HD_READY;
}

static int leaf_fiber(void *arg)
{
    const struct leaf *leaf = arg;
    for (unsigned i = 0; i < leaf->children; i++) {
        const struct leaf child = {.field = leaf->field};
        EXPECT_EQ(hd_spawn_poll(NULL, leaf_poll, &child, sizeof(child)), 0);
        if (i % 2) hd_yield();
    }
    run_leaf(leaf);
    return 7;
}

/* The last way must end the handle, whatever happened before. */
static void join_somehow(hd_task *task, unsigned way)
{
    int result = 0, err = -EAGAIN;
    switch (way) {
    case 0:
        while ((err = hd_join_try(task, &result)) == -EAGAIN) sched_yield();
        break;
    case 1: /* a deadline that passes, or not, while the task ends */
        err = hd_join_until(task, &result, hd_now(NULL) + 2000);
        if (err == -ETIMEDOUT) err = hd_join_until(task, &result, HD_NOW);
        if (err == -EAGAIN) err = hd_join(task, &result);
        break;
    default:
        err = hd_join(task, &result);
        break;
    }
    EXPECT_EQ(err, 0);
    EXPECT_EQ(result, 7);
}

enum { LEAF_CHILDREN = 3 };

static void *spawner(void *arg)
{
    struct field *field = arg;
    struct stress_random random = stress_random_init(atomic_fetch_add(&field->spawner_next, 1));
    const hd_spawn_options into = stress_into(field->runtime);
    for (unsigned i = 0; i < field->per_thread; i++) {
        unsigned cell = 0;
        struct leaf leaf = {.field = field, .cell = &cell, .children = LEAF_CHILDREN};
        hd_task *task;
        EXPECT_EQ(hd_spawn_with(&task, leaf_fiber, &leaf, &into), 0);
        const struct leaf lone = {.field = field};
        EXPECT_EQ(hd_spawn_poll_with(NULL, leaf_poll, &lone, sizeof(lone), &into), 0);
        hd_task *dropped;
        EXPECT_EQ(hd_spawn_poll_with(&dropped, leaf_poll, &lone, sizeof(lone), &into), 0);
        hd_detach(dropped);
        join_somehow(task, stress_below(&random, 3));
        EXPECT_EQ(cell, 1);
    }
    return NULL;
}

static void spawn_storm(const hd_options *options, unsigned scale)
{
    struct field field = {.per_thread = stress_count(2000) / scale};
    field.runtime = stress_runtime(options);
    struct stress_threads threads = {.count = 0};
    for (int i = 0; i < SPAWNERS; i++) stress_start(&threads, spawner, &field);
    stress_join(&threads);
    EXPECT_EQ(hd_runtime_drain(field.runtime, HD_FOREVER), 0);
    EXPECT_EQ(atomic_load(&field.runs), SPAWNERS * field.per_thread * (3 + LEAF_CHILDREN));
    hd_runtime_destroy(field.runtime);
}

TEST(spawn_storms)
{
    stress_each_setup(spawn_storm);
}

/* More tasks than the local queues hold, from inside and at once: spills and steals. */
static int flood_fiber(void *arg)
{
    const struct leaf *leaf = arg;
    for (unsigned i = 0; i < leaf->children; i++) {
        const struct leaf child = {.field = leaf->field};
        EXPECT_EQ(hd_spawn_poll(NULL, leaf_poll, &child, sizeof(child)), 0);
    }
    return 0;
}

static void flood(const hd_options *options, unsigned scale)
{
    struct field field = {.per_thread = stress_count(80000) / scale};
    field.runtime = stress_runtime(options);
    const hd_spawn_options into = stress_into(field.runtime);
    struct leaf leaf = {.field = &field, .children = field.per_thread};
    for (int i = 0; i < SPAWNERS; i++) {
        EXPECT_EQ(hd_spawn_with(NULL, flood_fiber, &leaf, &into), 0);
    }
    EXPECT_EQ(hd_runtime_drain(field.runtime, HD_FOREVER), 0);
    EXPECT_EQ(atomic_load(&field.runs), SPAWNERS * field.per_thread);
    hd_stats stats;
    hd_runtime_stats(field.runtime, &stats);
    EXPECT_EQ(stats.alive, 0);
    EXPECT(stats.overflows > 0);
    hd_runtime_destroy(field.runtime);
}

TEST(floods)
{
    stress_each_setup(flood);
}

TEST_MAIN
