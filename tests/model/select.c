/* SPDX-License-Identifier: MIT
 *
 * select: wait/wait.h for several cases. Exactly one happens, whoever else is at it; two
 * selects that fit each other find each other; a task's end as a case is like any other,
 * and its completer touches nothing of a wait that ended otherwise.
 */
#include <heddle/chan.h>
#include <heddle/select.h>

#include "box.h"
#include "rt.h"
#include "wait/joined.h"

/* ---- the end of a task or a number ---- */

enum { ENDED, NUMBER, CASES };

struct either {
    struct box box;
    struct gate gate;
    hd_task *child;
    int which, told, number; /* by the one who waits; ordered by a join */
};

/* Memory that goes as soon as the wait is over. */
struct either_wait {
    hd_wait wait;
    hd_case cases[CASES];
    int told, number;
};

static struct either_wait *either_wait_new(struct either *e)
{
    struct either_wait *w = model_alloc(sizeof(*w));
    w->cases[ENDED] = (hd_case)HD_JOIN(e->child, &w->told);
    w->cases[NUMBER] = (hd_case){.object = &e->box, .item = &w->number};
    hdi_case_node(&w->cases[ENDED])->op = &hdi_op_join;
    hdi_case_node(&w->cases[NUMBER])->op = &box_op;
    return w;
}

/* Keep what happened, and end the handle. */
static void either_end(struct either *e, struct either_wait *w, int which)
{
    e->which = which;
    if (which != ENDED) MODEL_EQUAL(w->told, 0);
    if (which != NUMBER) MODEL_EQUAL(w->number, 0);
    e->told = w->told;
    e->number = w->number;
    if (which == ENDED) MODEL_EQUAL(w->cases[which].result, 0);
    model_free(w);
}

static void either_wait(struct either *e, int64_t deadline)
{
    struct either_wait *w = either_wait_new(e);
    either_end(e, w, hdi_wait_any(w->cases, CASES, HD_SELECT_FIRST, deadline));
}

static void put_1(void *arg)
{
    struct either *e = arg;
    box_put(&e->box, 1);
}

static hd_runtime *either_start(struct either *e, unsigned workers)
{
    *e = (struct either){.child = NULL};
    box_init(&e->box, false);
    gate_init(&e->gate);
    hd_runtime *rt = rt_start(workers);
    e->child = rt_poll(rt, gate_poll, &e->gate);
    rt_settle(rt);
    return rt;
}

static void either_check(struct either *e, hd_runtime *rt)
{
    if (e->which == ENDED) {
        MODEL_EQUAL(e->told, 7);
    } else {
        MODEL_EQUAL(rt_join(e->child), 7);
    }
    rt_stop(rt);
    MODEL_EQUAL(e->number + box_rest(&e->box), 1);
    MODEL_EQUAL(e->number, e->which == NUMBER);
    MODEL_EQUAL(model_live(), 0);
}

MODEL(select_join_thread, .sc = 2, .tso = 1, .pso = 1, RT_STEPS, .kills = "joined_not_gone")
{
    struct either e;
    hd_runtime *rt = either_start(&e, 1);
    void *t = model_thread(put_1, &e);
    gate_open(&e.gate, 7);
    either_wait(&e, 1);
    MODEL_CHECK(e.which >= 0 || e.which == -ETIMEDOUT);
    model_join(t);
    either_check(&e, rt);
}

static int either_fiber(void *arg)
{
    struct either *e = arg;
    either_wait(e, 1);
    return e->which;
}

MODEL(select_join_fiber, .sc = 1, .tso = 1, .pso = 1, RT_STEPS, .kills = "joined_not_gone")
{
    struct either e;
    hd_runtime *rt = either_start(&e, 2);
    hd_task *task = rt_fiber(rt, either_fiber, &e);
    rt_settle(rt);
    gate_open(&e.gate, 7);
    box_put(&e.box, 1);
    hd_cancel(task);
    (void)rt_join(task);
    either_check(&e, rt);
}

struct either_state {
    struct either *e;
    struct either_wait *w;
};

static hd_poll either_poll(void *state, int *result)
{
    struct either_state *own = state;
    if (!own->w) own->w = either_wait_new(own->e);
    const int which = hdi_wait_poll((struct hdi_waiter *)&own->w->wait, own->w->cases, CASES,
                                    HD_SELECT_FIRST, HD_FOREVER);
    if (which == -EAGAIN) return HD_PENDING;
    either_end(own->e, own->w, which);
    *result = which;
    return HD_READY;
}

MODEL(select_join_poll, .sc = 1, .tso = 1, .pso = 1, RT_STEPS)
{
    struct either e;
    hd_runtime *rt = either_start(&e, 2);
    const struct either_state state = {&e, NULL};
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.runtime = rt;
    hd_task *task = NULL;
    MODEL_EQUAL(hd_spawn_poll_with(&task, either_poll, &state, sizeof(state), &options), 0);
    rt_settle(rt);
    gate_open(&e.gate, 7);
    box_put(&e.box, 1);
    hd_cancel(task);
    (void)rt_join(task);
    either_check(&e, rt);
}

/* With a deadline only, and joined again after it. */
static int join_until_fiber(void *arg)
{
    struct either *e = arg;
    const int err = hd_join_until(e->child, &e->told, 1);
    MODEL_CHECK(err == 0 || err == -ETIMEDOUT);
    if (err) MODEL_EQUAL(hd_join(e->child, &e->told), 0);
    return e->told;
}

MODEL(select_join_until, .sc = 2, .tso = 1, .pso = 1, RT_STEPS)
{
    struct either e;
    hd_runtime *rt = either_start(&e, 1);
    hd_task *task = rt_fiber(rt, join_until_fiber, &e);
    rt_settle(rt);
    gate_open(&e.gate, 7);
    MODEL_EQUAL(rt_join(task), 7);
    rt_stop(rt);
}

MODEL(select_join_until_two, .sc = 1, .tso = 1, .pso = 1, RT_STEPS)
{
    struct either e;
    hd_runtime *rt = either_start(&e, 2);
    hd_task *task = rt_fiber(rt, join_until_fiber, &e);
    gate_open(&e.gate, 7);
    MODEL_EQUAL(rt_join(task), 7);
    rt_stop(rt);
}

/* ---- channels, between threads ---- */

#define WORDS 3 /* of a large item: handed over in two steps */

struct item {
    uint64_t word[WORDS];
};

struct market {
    hd_chan *a, *b;
    int64_t deadline;
    int which; /* by the other thread */
    int sent, got;
    struct item given, bought;
};

static struct item item_of(uint64_t number)
{
    return (struct item){{number, number + 1, number + 2}};
}

/* Returns the number of an item that is whole. */
static uint64_t number_of(const struct item *item)
{
    for (unsigned i = 0; i < WORDS; i++) MODEL_EQUAL(item->word[i], item->word[0] + i);
    return item->word[0];
}

static hd_chan *chan_new(size_t bytes, size_t capacity)
{
    hd_chan *chan = hd_chan_create(bytes, capacity);
    MODEL_CHECK(chan);
    hdi_model_name(chan, sizeof(_Atomic(uint32_t)), "chan->base.lock");
    return chan;
}

/* Locks are taken in the order of addresses, which must be the same in every execution:
 * either order, as the explorer likes. */
static void market_open(struct market *m)
{
    hd_chan *one = chan_new(sizeof(uint64_t), 0), *other = chan_new(sizeof(uint64_t), 0);
    const bool a_first = model_any(2);
    m->a = ((uintptr_t)one < (uintptr_t)other) == a_first ? one : other;
    m->b = m->a == one ? other : one;
}

static void market_close(struct market *m)
{
    hd_chan_destroy(m->a);
    hd_chan_destroy(m->b);
}

/* Two who can deal at either of two places, and look at them in the same order or not. */
static void cross_other(void *arg)
{
    struct market *m = arg;
    uint64_t in = 0;
    const uint64_t out = 20;
    hd_case cases[] = {HD_RECV(m->a, &in), HD_SEND(m->b, &out)};
    m->which = hd_select_until(cases, 2, HD_SELECT_FIRST, m->deadline);
    m->got = (int)in;
}

static void cross(bool same_order, int64_t deadline)
{
    struct market m = {.deadline = deadline};
    market_open(&m);
    void *t = model_thread(cross_other, &m);
    uint64_t in = 0;
    const uint64_t out = 10;
    hd_case cases[2] = {HD_SEND(m.a, &out), HD_RECV(m.b, &in)};
    hd_case turned[2] = {HD_RECV(m.b, &in), HD_SEND(m.a, &out)};
    int which = hd_select_until(same_order ? cases : turned, 2, HD_SELECT_FIRST, deadline);
    if (!same_order && which >= 0) which = 1 - which;
    model_join(t);
    MODEL_EQUAL(which, m.which);
    if (deadline == HD_FOREVER) MODEL_CHECK(which >= 0);
    MODEL_EQUAL(m.got, which == 0 ? 10 : 0);
    MODEL_EQUAL(in, which == 1 ? 20 : 0);
    market_close(&m);
}

MODEL(select_cross, .sc = 5, .tso = 3, .pso = 3, .kills = "select_piecemeal")
{
    cross(model_any(2), HD_FOREVER);
}
MODEL(select_cross_until, .sc = 4, .tso = 3, .pso = 3) { cross(model_any(2), 1); }

/* Two senders, and one who waits at the same channel twice. */
static void send_one(hd_chan *chan, uint64_t number)
{
    MODEL_EQUAL(hd_chan_send(chan, &number), 0);
}

static void send_1(void *arg)
{
    send_one(((struct market *)arg)->a, 1);
}

static void send_2(void *arg)
{
    send_one(((struct market *)arg)->a, 2);
}

MODEL(select_same_twice, .sc = 2, .tso = 1, .pso = 1)
{
    struct market m = {.a = chan_new(sizeof(uint64_t), model_any(2))};
    void *t = model_thread(send_1, &m), *u = model_thread(send_2, &m);
    uint64_t sum = 0;
    for (int i = 0; i < 2; i++) {
        uint64_t in[2] = {0, 0};
        hd_case cases[] = {HD_RECV(m.a, &in[0]), HD_RECV(m.a, &in[1])};
        const int which = hd_select_until(cases, 2, HD_SELECT_FIRST, HD_FOREVER);
        MODEL_CHECK(which >= 0);
        MODEL_EQUAL(cases[which].result, 0);
        MODEL_EQUAL(in[1 - which], 0);
        sum += in[which];
    }
    MODEL_EQUAL(sum, 3);
    model_join(t);
    model_join(u);
    MODEL_EQUAL(hd_chan_count(m.a), 0);
    hd_chan_destroy(m.a);
}

/* A send and a receive that both may give up: they agree on whether it happened, but that a
 * channel with room may keep the item. */
static void recv_until(void *arg)
{
    struct market *m = arg;
    m->got = hd_chan_recv_until(m->a, &m->bought, m->deadline);
}

static void deal(size_t bytes, size_t capacity, int64_t send_deadline, int64_t recv_deadline)
{
    struct market m = {.deadline = recv_deadline};
    m.a = chan_new(bytes, capacity);
    void *t = model_thread(recv_until, &m);
    m.given = item_of(5);
    m.sent = hd_chan_send_until(m.a, &m.given, send_deadline);
    model_join(t);
    MODEL_CHECK(m.sent == 0 || m.sent == -ETIMEDOUT);
    MODEL_CHECK(m.got == 0 || m.got == -ETIMEDOUT);
    MODEL_EQUAL((size_t)(m.sent == 0), (m.got == 0) + hd_chan_count(m.a));
    if (m.got == 0 && bytes == sizeof(struct item)) MODEL_EQUAL(number_of(&m.bought), 5);
    if (m.got != 0) MODEL_EQUAL(m.bought.word[0], 0);
    hd_chan_destroy(m.a);
}

MODEL(select_rendezvous, .sc = 5, .tso = 4, .pso = 3) { deal(8, 0, 1, 1); }
MODEL(select_rendezvous_large, .sc = 5, .tso = 4, .pso = 3) { deal(sizeof(struct item), 0, 1, 1); }
MODEL(select_buffered, .sc = 5, .tso = 4, .pso = 3)
{
    deal(model_any(2) ? 8 : sizeof(struct item), 1, 1, 1);
}

/* Closed while both are at it: the item is received, or the sender keeps it. */
static void close_a(void *arg)
{
    MODEL_EQUAL(hd_chan_close(((struct market *)arg)->a), 0);
}

static void deal_closed(size_t capacity)
{
    struct market m = {.deadline = HD_FOREVER};
    m.a = chan_new(sizeof(struct item), capacity);
    void *t = model_thread(recv_until, &m), *u = model_thread(close_a, &m);
    m.given = item_of(5);
    m.sent = hd_chan_send(m.a, &m.given);
    model_join(t);
    model_join(u);
    MODEL_CHECK(m.sent == 0 || m.sent == -EPIPE);
    MODEL_CHECK(m.got == 0 || m.got == -EPIPE);
    MODEL_EQUAL(m.sent, m.got);
    if (m.got == 0) MODEL_EQUAL(number_of(&m.bought), 5);
    hd_chan_destroy(m.a);
}

MODEL(select_closed, .sc = 2, .tso = 2, .pso = 2) { deal_closed(0); }
MODEL(select_closed_buffered, .sc = 2, .tso = 2, .pso = 2) { deal_closed(1); }

/* ---- channels, with fibers ---- */

static int recv_fiber(void *arg)
{
    struct market *m = arg;
    recv_until(m);
    return m->got;
}

static void send_5(void *arg)
{
    struct market *m = arg;
    m->given = item_of(5);
    m->sent = hd_chan_send_until(m->a, &m->given, 1);
}

/* The receiver is cancelled: it has the item, or nobody took it. */
static void recv_cancelled(size_t bytes, size_t capacity)
{
    struct market m = {.deadline = HD_FOREVER};
    m.a = chan_new(bytes, capacity);
    hd_runtime *rt = rt_start(1);
    hd_task *task = rt_fiber(rt, recv_fiber, &m);
    rt_settle(rt);
    void *t = model_thread(send_5, &m);
    hd_cancel(task);
    const int result = rt_join(task);
    model_join(t);
    MODEL_CHECK(result == 0 || result == -ECANCELED);
    MODEL_CHECK(m.sent == 0 || m.sent == -ETIMEDOUT);
    MODEL_EQUAL((size_t)(m.sent == 0), (result == 0) + hd_chan_count(m.a));
    if (result == 0) MODEL_EQUAL(m.bought.word[0], 5);
    rt_stop(rt);
    hd_chan_destroy(m.a);
}

MODEL(select_cancelled, .sc = 1, .tso = 1, .pso = 1, RT_STEPS) { recv_cancelled(8, 0); }
MODEL(select_cancelled_large, .sc = 2, .tso = 1, .pso = 1, RT_STEPS)
{
    recv_cancelled(sizeof(struct item), 0);
}
MODEL(select_cancelled_buffered, .sc = 1, .tso = 1, .pso = 1, RT_STEPS)
{
    recv_cancelled(sizeof(struct item), 1);
}

/* A fiber and a thread, each with a select. */
static int cross_fiber(void *arg)
{
    struct market *m = arg;
    cross_other(m);
    return m->which;
}

MODEL(select_cross_fibers, .sc = 1, .tso = 1, .pso = 1, RT_STEPS, .kills = "select_piecemeal")
{
    struct market m = {.deadline = HD_FOREVER};
    market_open(&m);
    hd_runtime *rt = rt_start(1);
    hd_task *task = rt_fiber(rt, cross_fiber, &m);
    uint64_t in = 0;
    const uint64_t out = 10;
    hd_case cases[] = {HD_RECV(m.b, &in), HD_SEND(m.a, &out)};
    const int which = hd_select_until(cases, 2, HD_SELECT_FIRST, HD_FOREVER);
    MODEL_EQUAL(rt_join(task), 1 - which);
    rt_stop(rt);
    market_close(&m);
}
