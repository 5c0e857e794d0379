/* SPDX-License-Identifier: MIT
 *
 * chan: sync/chan.h and sync/oneshot.h between threads. An item is received, or still its
 * sender's, never both and never neither; nobody who could go on waits for ever; and memory
 * that goes with its owner's stack is not touched any more.
 */
#include <errno.h>

#include <heddle/chan.h>
#include <heddle/pubsub.h>

#include "base/mutant.h"
#include "scenario.h"

/* Small items are handed over in a node, large ones filled in. */
struct item {
    uint64_t number, more[3];
};

enum { SMALL = sizeof(uint64_t), LARGE = sizeof(struct item), UNTOUCHED = 77 };

struct pair {
    hd_chan *chan;
    int64_t deadline;
    uint64_t number;             /* what is sent */
    int sent, received, closed;  /* results; ordered by a join */
    uint64_t got;
};

static hd_chan *chan_new(size_t item_bytes, size_t capacity)
{
    hd_chan *chan = hd_chan_create(item_bytes, capacity);
    MODEL_CHECK(chan);
    hdi_model_name(chan, sizeof(_Atomic(uint32_t)), "chan->lock");
    return chan;
}

/* The item's memory goes as soon as the call returns. */
static void send_one(void *arg)
{
    struct pair *pair = arg;
    struct item *item = model_alloc(sizeof(*item));
    MODEL_WRITE(item->number, pair->number);
    pair->sent = hd_chan_send_until(pair->chan, item, pair->deadline);
    model_free(item);
}

static void receive_one(void *arg)
{
    struct pair *pair = arg;
    struct item *item = model_alloc(sizeof(*item));
    item->number = UNTOUCHED;
    pair->received = hd_chan_recv_until(pair->chan, item, pair->deadline);
    pair->got = item->number;
    if (pair->received != 0) MODEL_EQUAL(item->number, UNTOUCHED);
    model_free(item);
}

static void close_it(void *arg)
{
    struct pair *pair = arg;
    pair->closed = hd_chan_close(pair->chan);
}

static void check_pair(const struct pair *pair)
{
    MODEL_EQUAL(pair->sent == 0, pair->received == 0);
    if (pair->received == 0) MODEL_EQUAL(pair->got, pair->number);
    MODEL_EQUAL(model_live(), 0);
}

/* ---- from hand to hand ---- */

static void meet(size_t item_bytes, int64_t deadline)
{
    struct pair pair = {.chan = chan_new(item_bytes, 0), .deadline = deadline, .number = 5};
    void *t = model_thread(send_one, &pair);
    receive_one(&pair);
    model_join(t);
    if (deadline == HD_FOREVER) MODEL_EQUAL(pair.sent, 0);
    check_pair(&pair);
    hd_chan_destroy(pair.chan);
}

MODEL(chan_meet, .sc = 6, .tso = 4, .pso = 4, .kills = "chan_read_late")
{
    meet(SMALL, HD_FOREVER);
}

MODEL(chan_meet_large, .sc = 6, .tso = 4, .pso = 4)
{
    meet(LARGE, HD_FOREVER);
}

/* Both may give up at any time. */
MODEL(chan_give_up, .sc = 6, .tso = 4, .pso = 4)
{
    meet(SMALL, 1);
}

MODEL(chan_give_up_large, .sc = 6, .tso = 4, .pso = 4)
{
    meet(LARGE, 1);
}

static void meet_or_close(size_t item_bytes)
{
    struct pair pair = {.chan = chan_new(item_bytes, 0), .deadline = HD_FOREVER, .number = 5};
    void *sender = model_thread(send_one, &pair);
    void *closer = model_thread(close_it, &pair);
    receive_one(&pair);
    model_join(sender);
    model_join(closer);
    MODEL_EQUAL(pair.closed, 0);
    MODEL_CHECK(pair.sent == 0 || pair.sent == -EPIPE);
    check_pair(&pair);
    hd_chan_destroy(pair.chan);
}

MODEL(chan_close, .sc = 3, .tso = 2, .pso = 2)
{
    meet_or_close(SMALL);
}

MODEL(chan_close_large, .sc = 3, .tso = 2, .pso = 2)
{
    meet_or_close(LARGE);
}

/* ---- through a ring ---- */

/* Two senders, room for one, and one who makes room. */
MODEL(chan_ring, .sc = 3, .tso = 2, .pso = 2, .kills = "chan_no_refill")
{
    struct pair a = {.deadline = HD_FOREVER, .number = 5};
    struct pair b = {.deadline = HD_FOREVER, .number = 6};
    a.chan = b.chan = chan_new(SMALL, 1);
    void *first = model_thread(send_one, &a);
    void *second = model_thread(send_one, &b);
    receive_one(&a);
    model_join(first); /* One item lies in the ring, so nobody has to wait. */
    model_join(second);
    receive_one(&b);
    MODEL_EQUAL(a.sent + b.sent + a.received + b.received, 0);
    MODEL_EQUAL(a.got + b.got, 11);
    hd_chan_destroy(a.chan);
}

/* What one sends arrives, though the other may give up before it in the line. */
MODEL(chan_ring_give_up, .sc = 3, .tso = 2, .pso = 2)
{
    struct pair a = {.deadline = 1, .number = 5}, b = {.deadline = HD_FOREVER, .number = 6};
    a.chan = b.chan = chan_new(SMALL, 1);
    MODEL_EQUAL(hd_chan_send_try(a.chan, &(uint64_t){4}), 0);
    void *first = model_thread(send_one, &a);
    void *second = model_thread(send_one, &b);
    uint64_t sum = 0, item = 0;
    MODEL_EQUAL(hd_chan_recv(a.chan, &item), 0);
    MODEL_EQUAL(item, 4);
    model_join(first);
    const uint64_t all = a.sent == 0 ? 11 : 6;
    for (; sum < all; sum += item) MODEL_EQUAL(hd_chan_recv(a.chan, &item), 0);
    model_join(second);
    MODEL_EQUAL(sum, all);
    MODEL_EQUAL(hd_chan_recv_try(a.chan, &item), -EAGAIN);
    hd_chan_destroy(a.chan);
}

/* ---- oneshot: gone with the receiver's stack ---- */

static void answer(void *arg)
{
    MODEL_EQUAL(hd_oneshot_send(arg, &(uint64_t){9}), 0);
}

static void refuse(void *arg)
{
    MODEL_EQUAL(hd_oneshot_close(arg), 0);
}

static hd_oneshot *oneshot_new(void)
{
    hd_oneshot *oneshot = model_alloc(sizeof(*oneshot));
    MODEL_EQUAL(hd_oneshot_init(oneshot, sizeof(uint64_t), NULL), 0);
    return oneshot;
}

MODEL(oneshot_answer, .sc = 6, .tso = 4, .pso = 4, .kills = "oneshot_leaves_early")
{
    hd_oneshot *oneshot = oneshot_new();
    void *t = model_thread(answer, oneshot);
    uint64_t got = 0;
    MODEL_EQUAL(hd_oneshot_recv(oneshot, &got), 0);
    model_free(oneshot);
    MODEL_EQUAL(got, 9);
    model_join(t);
    MODEL_EQUAL(model_live(), 0);
}

MODEL(oneshot_refuse, .sc = 6, .tso = 4, .pso = 4, .kills = "oneshot_leaves_early")
{
    hd_oneshot *oneshot = oneshot_new();
    void *t = model_thread(refuse, oneshot);
    uint64_t got = 0;
    MODEL_EQUAL(hd_oneshot_recv(oneshot, &got), -EPIPE);
    model_free(oneshot);
    model_join(t);
    MODEL_EQUAL(model_live(), 0);
}

/* Both sides may give up; the last one frees it, and the calls say who that is. */
static void answer_or_free(void *arg)
{
    if (hd_oneshot_send(arg, &(uint64_t){9}) == -EPIPE) model_free(arg);
}

MODEL(oneshot_last_frees, .sc = 6, .tso = 4, .pso = 4)
{
    hd_oneshot *oneshot = oneshot_new();
    void *t = model_thread(answer_or_free, oneshot);
    uint64_t got = 0;
    const int err = hd_oneshot_recv_until(oneshot, &got, 1);
    MODEL_CHECK(err == 0 || err == -ETIMEDOUT);
    if (err == 0 || hd_oneshot_close(oneshot) == -EPIPE) model_free(oneshot);
    model_join(t);
    MODEL_EQUAL(model_live(), 0);
}
