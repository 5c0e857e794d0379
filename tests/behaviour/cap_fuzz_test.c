/* SPDX-License-Identifier: MIT
 *
 * Random sequences of deriving, revoking and using capabilities, against a model that is as plain
 * as can be: nodes with a parent, a limit, and a count, all looked at anew every time.
 */
#include "caps.h"

TEST_MAIN

enum { NODES = 240, NURSERIES = 6, TASKS = 40, CHANS = 40, STEPS = 1500 };

struct node {
    hd_cap cap;
    int parent; /* -1: the runtime's own */
    hd_cap_kind kind;
    int64_t most;  /* that may live */
    int64_t items; /* of a channel's buffer */
    bool revoked;
};

/* What lives by virtue of a node. */
struct task {
    struct nur_actor actor;
    int by; /* -1: there is none */
    int nursery;
};

struct chan {
    hd_chan *chan;
    int by;
};

struct model {
    uint64_t random;
    struct node nodes[NODES];
    int count;
    hd_nursery nurseries[NURSERIES];
    int given[NURSERIES]; /* the node whose capability it has */
    int open;
    struct task tasks[TASKS];
    struct chan chans[CHANS];
};

static unsigned below(struct model *m, unsigned n)
{
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return (unsigned)((m->random >> 33) % n);
}

/* ---- the model ---- */

static bool is_above(const struct model *m, int node, int other)
{
    while (other >= 0 && other != node) other = m->nodes[other].parent;
    return other >= 0;
}

static int64_t live(const struct model *m, int node)
{
    int64_t count = 0;
    for (int i = 0; i < TASKS; i++) {
        count += m->tasks[i].by >= 0 && is_above(m, node, m->tasks[i].by);
    }
    for (int i = 0; i < CHANS; i++) {
        count += m->chans[i].by >= 0 && is_above(m, node, m->chans[i].by);
    }
    return count;
}

static bool has_room(const struct model *m, int node)
{
    for (; node >= 0; node = m->nodes[node].parent) {
        if (live(m, node) >= m->nodes[node].most) return false;
    }
    return true;
}

/* What must hold after every step. */
static void check(const struct model *m)
{
    for (int i = 0; i < m->count; i++) {
        const struct node *node = &m->nodes[i];
        EXPECT_EQ(hd_cap_valid(hd_runtime_self(), node->cap), !node->revoked);
        EXPECT(live(m, i) <= node->most);
        for (int above = node->parent; above >= 0; above = m->nodes[above].parent) {
            EXPECT(node->most <= m->nodes[above].most);
            EXPECT(node->items <= m->nodes[above].items);
            EXPECT(node->revoked || !m->nodes[above].revoked);
        }
    }
}

/* ---- steps ---- */

/* 0: as the parent; nothing; or a number, often one that is too large. */
static int64_t any_limit(struct model *m)
{
    switch (below(m, 4)) {
    case 0: return 0;
    case 1: return below(m, 8) ? 0 : HD_NOTHING;
    default: return 1 + (int64_t)below(m, 12);
    }
}

static int64_t narrowed(int64_t limit, int64_t parents)
{
    return limit == 0 ? parents : limit == HD_NOTHING ? 0 : limit;
}

static void derive_node(struct model *m)
{
    if (m->count == NODES) return;
    const int parent = (int)below(m, (unsigned)m->count);
    const struct node *from = &m->nodes[parent];
    hd_cap_limits limits = HD_CAP_LIMITS_INIT;
    struct node made = {.parent = parent, .kind = from->kind, .items = HD_UNLIMITED};
    const int64_t most = any_limit(m);
    if (from->kind == HD_CAP_SPAWN) {
        limits.tasks_live = most;
    } else {
        limits.channels = most;
        limits.channel_items = any_limit(m);
        made.items = narrowed(limits.channel_items, from->items);
    }
    made.most = narrowed(most, from->most);
    const bool wider = made.most > from->most || made.items > from->items;
    const int expected = from->revoked ? -EPERM : wider ? -EINVAL : 0;
    EXPECT_EQ(hd_cap_derive(hd_runtime_self(), from->cap, &limits, &made.cap), expected);
    if (expected == 0) m->nodes[m->count++] = made;
}

static void revoke_node(struct model *m)
{
    const int node = (int)below(m, (unsigned)m->count);
    const struct node *top = &m->nodes[node];
    const int expected = top->revoked ? -EPERM : top->parent < 0 ? -EINVAL : 0;
    EXPECT_EQ(hd_cap_revoke(hd_runtime_self(), top->cap), expected);
    for (int i = 0; i < m->count && !expected; i++) {
        if (is_above(m, node, i)) m->nodes[i].revoked = true;
    }
}

static void open_nursery(struct model *m)
{
    const int given = (int)below(m, (unsigned)m->count);
    const struct node *node = &m->nodes[given];
    if (m->open == NURSERIES) return;
    const hd_caps caps = caps_with(node->kind, node->cap);
    const hd_nursery_options options = caps_options(&caps);
    const int expected = node->revoked ? -EPERM : 0;
    EXPECT_EQ(hd_nursery_open(&m->nurseries[m->open], &options), expected);
    if (expected == 0) m->given[m->open++] = given;
}

/* What a nursery's children are spawned by: node 0 is the runtime's. */
static int spawned_by(const struct model *m, int nursery)
{
    const int given = m->given[nursery];
    const bool spawns = m->nodes[given].kind == HD_CAP_SPAWN && m->nodes[given].most > 0;
    return spawns ? given : 0;
}

static void spawn(struct model *m)
{
    struct task *task = &m->tasks[below(m, TASKS)];
    if (m->open == 0 || task->by >= 0) return;
    const int nursery = (int)below(m, (unsigned)m->open);
    const int by = spawned_by(m, nursery);
    const int expected = m->nodes[by].revoked || !has_room(m, by) ? -EPERM : 0;
    nur_actor_init(&task->actor);
    EXPECT_EQ(hd_go(&m->nurseries[nursery], nur_act, &task->actor), expected);
    if (expected) return;
    task->by = by;
    task->nursery = nursery;
}

static void end_task(struct model *m, struct task *task)
{
    if (task->by < 0) return;
    nur_end(&m->nurseries[task->nursery], &task->actor, 0);
    task->by = -1;
}

static void leave_nursery(struct model *m)
{
    if (m->open == 0) return;
    const int last = --m->open;
    for (int i = 0; i < TASKS; i++) {
        if (m->tasks[i].by >= 0 && m->tasks[i].nursery == last) end_task(m, &m->tasks[i]);
    }
    EXPECT_EQ(hd_nursery_leave(&m->nurseries[last]), 0);
}

struct order {
    hd_chan *chan;
    size_t items;
    int err;
};

static int create_chan(void *arg)
{
    struct order *order = arg;
    hd_chan_options options = HD_CHAN_OPTIONS_INIT;
    options.capacity = order->items;
    order->err = hd_chan_create_with(&order->chan, 8, &options);
    return 0;
}

static void use_channel(struct model *m)
{
    struct chan *chan = &m->chans[below(m, CHANS)];
    const int by = (int)below(m, (unsigned)m->count);
    const struct node *node = &m->nodes[by];
    if (chan->by >= 0 || node->kind != HD_CAP_CHANNEL || node->revoked) return;
    struct order order = {.items = below(m, 14)};
    const bool fits = (int64_t)order.items <= node->items && has_room(m, by);
    EXPECT_EQ(cap_run(HD_CAP_CHANNEL, node->cap, create_chan, &order), 0);
    EXPECT_EQ(order.err, fits ? 0 : -EPERM);
    if (fits) *chan = (struct chan){order.chan, by};
}

static void destroy_channel(struct chan *chan)
{
    if (chan->by < 0) return;
    hd_chan_destroy(chan->chan);
    chan->by = -1;
}

static void do_something(struct model *m)
{
    switch (below(m, 16)) {
    case 0: case 1: case 2: derive_node(m); break;
    case 3: if (below(m, 4) == 0) revoke_node(m); break;
    case 4: case 5: open_nursery(m); break;
    case 6: leave_nursery(m); break;
    case 7: case 8: end_task(m, &m->tasks[below(m, TASKS)]); break;
    case 9: case 10: use_channel(m); break;
    case 11: destroy_channel(&m->chans[below(m, CHANS)]); break;
    default: spawn(m); break;
    }
}

static int fuzz(void *arg)
{
    struct model *m = arg;
    for (int i = 0; i < 2; i++) {
        const hd_cap_kind kind = i == 0 ? HD_CAP_SPAWN : HD_CAP_CHANNEL;
        m->nodes[m->count++] = (struct node){
            .cap = cap_self(kind),
            .parent = -1,
            .kind = kind,
            .most = HD_UNLIMITED,
            .items = HD_UNLIMITED,
        };
    }
    for (int i = 0; i < TASKS; i++) m->tasks[i].by = -1;
    for (int i = 0; i < CHANS; i++) m->chans[i].by = -1;
    for (int i = 0; i < STEPS; i++) {
        do_something(m);
        if (i % 8 == 0) check(m);
    }
    while (m->open > 0) leave_nursery(m);
    for (int i = 0; i < CHANS; i++) destroy_channel(&m->chans[i]);
    check(m);
    return 0;
}

TEST_WORLDS(every_step_is_as_the_model_says, options)
{
    for (uint64_t run = 0; run < 5; run++) {
        struct model *m = calloc(1, sizeof(*m));
        m->random = (options->seed * 8 + run + 1) * UINT64_C(0x9e3779b97f4a7c15);
        rt_run(fuzz, m, options);
        free(m);
    }
}
