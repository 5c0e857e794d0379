/* SPDX-License-Identifier: MIT
 *
 * chan: sending and receiving. The rest of a channel's life is in chan_life.c.
 */
#include "sync/chan.h"

#include <errno.h>

/* ---- items ---- */

HDI_ALWAYS_INLINE void copy_item(const struct hd_chan *chan, void *to, const void *from)
{
    hdi_item_copy((enum hdi_copy)chan->copy, chan->item_bytes, to, from);
}

static inline bool is_small(const struct hd_chan *chan)
{
    return chan->copy != HDI_COPY_LARGE;
}

/* ---- the ring ---- */

static inline unsigned char *slot(const struct hd_chan *chan, uint32_t index)
{
    return chan->ring + (size_t)index * chan->item_bytes;
}

static inline uint32_t after(const struct hd_chan *chan, uint32_t index)
{
    return index + 1 < chan->capacity ? index + 1 : 0;
}

HDI_ALWAYS_INLINE void ring_put(struct hd_chan *chan, const void *item)
{
    hdi_chan_copy_plain(chan, slot(chan, chan->tail), item);
    chan->tail = after(chan, chan->tail);
    chan->count++;
}

HDI_ALWAYS_INLINE void ring_take(struct hd_chan *chan, void *item)
{
    hdi_chan_copy_plain(chan, item, slot(chan, chan->head));
    chan->head = after(chan, chan->head);
    chan->count--;
}

/* ---- what is kept, in the ring or in segments ---- */

static bool is_empty(const struct hd_chan *chan)
{
    return chan->count == 0 && chan->segments.count == 0;
}

static bool has_room(const struct hd_chan *chan)
{
    return chan->grows ? chan->segments.count < chan->grows_max : chan->count < chan->limit;
}

/* Where the next item goes; NULL if a segment must be brought. There is room. */
static void *kept_back(struct hd_chan *chan)
{
    return chan->grows ? hdi_segments_back(&chan->segments) : slot(chan, chan->tail);
}

/* It has been written. */
static void kept_push(struct hd_chan *chan)
{
    if (chan->grows) {
        hdi_segments_push(&chan->segments);
    } else {
        chan->tail = after(chan, chan->tail);
        chan->count++;
    }
}

/* There is an item. `item` NULL: forget it. */
static void kept_take(struct hd_chan *chan, void *item)
{
    if (chan->grows) {
        if (item) copy_item(chan, item, hdi_segments_front(&chan->segments));
        hdi_segments_pop(&chan->segments);
    } else {
        if (item) copy_item(chan, item, slot(chan, chan->head));
        chan->head = after(chan, chan->head);
        chan->count--;
    }
}

/* ---- from hand to hand, under the lock ---- */

/* The owner of a large item has been won: copy, and let it go. */
static struct hd_task *fill(const struct hd_chan *chan, struct hdi_node *node, void *to,
                            const void *from)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    memcpy(to, from, chan->item_bytes);
    hdi_node_filled(node, &wakeups);
    return wakeups.first;
}

/* Give the item to the receiver that waits longest; *ready is then to be submitted, if not
 * NULL. Returns false if nobody waits. */
HDI_ALWAYS_INLINE bool hand_over(struct hd_chan *chan, const void *item, struct hd_task **ready)
{
    for (struct hdi_node *node; (node = hdi_node_pop(&chan->receivers));) {
        if (hdi_likely(is_small(chan))) {
            copy_item(chan, node->small, item);
            if (hdi_likely(hdi_node_complete_one(node, ready))) return true;
        } else if (hdi_node_claim(node)) {
            *ready = fill(chan, node, hdi_node_case(node)->item, item);
            return true;
        }
    }
    return false;
}

/* Take the item of the sender that waits longest; *ready as above. Returns false if nobody
 * waits. `to` is written only if the sender was still waiting. */
HDI_ALWAYS_INLINE bool take_over(struct hd_chan *chan, void *to, struct hd_task **ready)
{
    for (struct hdi_node *node; (node = hdi_node_pop(&chan->senders));) {
        const void *from = hdi_node_case(node)->item; /* WAIT-3: it is there while we look. */
        if (hdi_likely(chan->copy == HDI_COPY_8)) {
            uint64_t item;
            hdi_plain_read((const uint64_t *)from);
            memcpy(&item, from, sizeof(item));
            if (hdi_unlikely(!hdi_node_complete_one(node, ready))) continue;
            if (HDI_MUTANT(chan_read_late)) hdi_plain_read((const uint64_t *)from);
            memcpy(to, &item, sizeof(item));
            return true;
        }
        if (is_small(chan)) {
            uint64_t item[2];
            copy_item(chan, item, from);
            if (!hdi_node_complete_one(node, ready)) continue;
            copy_item(chan, to, item);
            return true;
        }
        if (!hdi_node_claim(node)) continue;
        *ready = fill(chan, node, to, from);
        return true;
    }
    return false;
}

/* The same for those who complete several. */
static bool hand_over_to(struct hd_chan *chan, const void *item, struct hdi_wakeups *wakeups)
{
    struct hd_task *ready;
    if (!hand_over(chan, item, &ready)) return false;
    if (ready) hdi_wakeups_add(wakeups, ready);
    return true;
}

static bool take_over_from(struct hd_chan *chan, void *to, struct hdi_wakeups *wakeups)
{
    struct hd_task *ready;
    if (!take_over(chan, to, &ready)) return false;
    if (ready) hdi_wakeups_add(wakeups, ready);
    return true;
}

/* There is room again: senders that wait put their items in (CHAN-2). */
static void refill(struct hd_chan *chan, struct hdi_wakeups *wakeups)
{
    if (HDI_MUTANT(chan_no_refill)) return;
    while (!hdi_list_empty(&chan->senders) && has_room(chan)) {
        void *back = kept_back(chan);
        if (!back || !take_over_from(chan, back, wakeups)) return;
        kept_push(chan);
    }
}

/* ---- under the lock ---- */

enum outcome {
    SENT,
    SENT_DROPPING_OLDEST,
    DROPPED_NEWEST,
    FULL,
    CLOSED,
    NEEDS_SEGMENT,
};

static enum outcome put(struct hd_chan *chan, const void *item)
{
    void *back = kept_back(chan);
    if (!back) return NEEDS_SEGMENT;
    copy_item(chan, back, item);
    kept_push(chan);
    return SENT;
}

/* `dropped` has room for a small item. */
static enum outcome send_locked(struct hd_chan *chan, const void *item, void *dropped,
                                struct hdi_wakeups *wakeups)
{
    if (hand_over_to(chan, item, wakeups)) return SENT;
    if (chan->closed) return CLOSED;
    if (has_room(chan)) return put(chan, item);
    switch (chan->overflow) {
    case HD_OVERFLOW_WAIT: return FULL;
    case HD_OVERFLOW_DROP_NEWEST: chan->dropped++; return DROPPED_NEWEST;
    case HD_OVERFLOW_DROP_OLDEST:
        if (!kept_back(chan)) return NEEDS_SEGMENT;
        chan->dropped++;
        kept_take(chan, chan->undelivered ? dropped : NULL);
        (void)put(chan, item);
        return SENT_DROPPING_OLDEST;
    }
    return FULL;
}

static bool recv_locked(struct hd_chan *chan, void *item, struct hdi_wakeups *wakeups)
{
    if (is_empty(chan)) return take_over_from(chan, item, wakeups);
    kept_take(chan, item);
    refill(chan, wakeups);
    return true;
}

/* ---- what a task with a budget pays ---- */

/* `fare` is what the task is to pay, and can; 0: nothing. A payment is a store: made before, taking
 * the lock would have to wait for it. So the lock is held; and an item that goes through the
 * ring is paid for last of all, since there it costs the most. */
HDI_ALWAYS_INLINE void pay(struct hd_task *task, int32_t fare)
{
    if (fare != 0) task->credit.channel -= fare;
}

/* ---- sending one ---- */

static int wait_to_send(struct hd_chan *chan, const void *item, int64_t deadline)
{
    hd_case c;
    c.kind = HD_CASE_SEND;
    c.object = chan;
    c.item = (void *)item;
    return hdi_wait_locked(&hdi_op_send, &c, deadline);
}

/* Context: the lock, which is given back. */
static int drop_item(struct hd_chan *chan, void *item)
{
    hd_undelivered_fn *const undelivered = chan->undelivered;
    void *const arg = chan->arg;
    hdi_lock_give(&chan->base.lock);
    if (undelivered) HDI_CALL_OUT(undelivered(item, arg));
    return 0;
}

/* Bring a segment, allocated without the lock. */
static int bring_segment(struct hd_chan *chan)
{
    hdi_lock_give(&chan->base.lock);
    struct hdi_segment *segment = hdi_segment_create(&chan->segments);
    if (!segment) return -ENOMEM;
    hdi_lock_take(&chan->base.lock);
    hdi_segments_add(&chan->segments, segment);
    return 0;
}

/* Whatever is not a matter of a few instructions. Context: the lock, which is given back. */
static __attribute__((noinline)) int send_slowly(struct hd_chan *chan, const void *item,
                                                 int64_t deadline)
{
    for (;;) {
        uint64_t dropped[2];
        struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
        switch (send_locked(chan, item, dropped, &wakeups)) {
        case SENT:
            hdi_lock_give(&chan->base.lock);
            hdi_wakeups_go(&wakeups);
            return 0;
        case SENT_DROPPING_OLDEST: return drop_item(chan, dropped);
        case DROPPED_NEWEST: return drop_item(chan, (void *)item);
        case FULL: return wait_to_send(chan, item, deadline);
        case CLOSED: hdi_lock_give(&chan->base.lock); return -EPIPE;
        case NEEDS_SEGMENT: {
            const int err = bring_segment(chan);
            if (err) return err;
        }
        }
    }
}

/* Most waits. A function of its own, so that the switch in it costs the others no registers. */
static __attribute__((noinline)) int send_fiber(struct hd_chan *chan, const void *item,
                                                struct hd_task *task)
{
    hd_case c;
    c.kind = HD_CASE_SEND;
    c.object = chan;
    c.item = (void *)item;
    return hdi_wait_fiber(&hdi_op_send, &c, task);
}

/* Somebody waits for it. Context: the lock, which is given back. */
static __attribute__((noinline)) int send_over(struct hd_chan *chan, const void *item,
                                               int64_t deadline)
{
    HDI_ASSERT(is_empty(chan) && !chan->closed); /* CHAN-1, CHAN-3 */
    struct hdi_node *node = hdi_node_of(chan->receivers.next);
    if (hdi_unlikely(!hdi_chan_is_plain(chan) || !hdi_node_of_fiber(node))) {
        return send_slowly(chan, item, deadline);
    }
    (void)hdi_node_pop(&chan->receivers);
    hdi_chan_copy_plain(chan, node->small, item);
    struct hd_task *task;
    const enum hdi_decision decision = hdi_node_complete_fiber(node, &task);
    if (hdi_unlikely(decision == HDI_DECISION_LOST)) return send_slowly(chan, item, deadline);
    hdi_lock_give(&chan->base.lock);
    return hdi_likely(decision == HDI_DECISION_SUBMIT) ? hdi_sched_resume(task) : 0;
}

HDI_ALWAYS_INLINE int send_holding(struct hd_chan *chan, const void *item, int64_t deadline,
                                   struct hd_task *task, int32_t fare)
{
    if (!hdi_list_empty(&chan->receivers)) {
        pay(task, fare);
        return send_over(chan, item, deadline);
    }
    const bool room = chan->count < chan->limit;
    if (room && hdi_likely(hdi_chan_is_plain(chan))) {
        ring_put(chan, item);
        hdi_lock_give(&chan->base.lock);
        pay(task, fare);
        return 0;
    }
    pay(task, fare);
    const bool wait = !room && !chan->special && deadline == HD_FOREVER && task;
    return hdi_likely(wait) ? send_fiber(chan, item, task) : send_slowly(chan, item, deadline);
}

static __attribute__((noinline)) int send_contended(struct hd_chan *chan, const void *item,
                                                    int64_t deadline, struct hd_task *task)
{
    hdi_lock_slow(&chan->base.lock);
    return send_holding(chan, item, deadline, task, 0);
}

/* The task pays for it as it may, or gives way, or is told why it may not go on. */
static __attribute__((noinline)) int send_attending(struct hd_chan *chan, const void *item,
                                                    int64_t deadline, struct hd_task *task)
{
    const int err = hdi_attend(task, HDI_COST_CHANNEL, deadline == HD_NOW, chan);
    if (err) return err;
    hdi_lock_take(&chan->base.lock);
    return send_holding(chan, item, deadline, task, 0);
}

/* Most METERED tasks. */
HDI_ALWAYS_INLINE int send_paying(struct hd_chan *chan, const void *item, int64_t deadline,
                                  struct hd_task *task, int32_t fare)
{
    if (hdi_unlikely(task->credit.channel < fare || !hdi_lock_try(&chan->base.lock))) {
        return send_attending(chan, item, deadline, task);
    }
    return send_holding(chan, item, deadline, task, fare);
}

/* Everything that is called is called last: so nothing has to be kept over a call. */
HDI_ALWAYS_INLINE int send(struct hd_chan *chan, const void *item, int64_t deadline)
{
    struct hd_task *task = hdi_task_self();
    if (task) {
        if (hdi_unlikely(task->kind != HDI_TASK_FIBER) && deadline != HD_NOW) return -EINVAL;
        /* Relaxed: what is missed is seen next time. */
        const int32_t fare = hdi_word_fare(hdi_load_relaxed(&task->word));
        if (hdi_unlikely(fare != 0)) return send_paying(chan, item, deadline, task, fare);
    }
    if (hdi_unlikely(!hdi_lock_try(&chan->base.lock))) {
        return send_contended(chan, item, deadline, task);
    }
    return send_holding(chan, item, deadline, task, 0);
}

int hd_chan_send(hd_chan *chan, const void *item)
{
    return send(chan, item, HD_FOREVER);
}

int hd_chan_send_until(hd_chan *chan, const void *item, int64_t deadline)
{
    return send(chan, item, deadline);
}

int hd_chan_send_try(hd_chan *chan, const void *item)
{
    return send(chan, item, HD_NOW);
}

/* ---- receiving one ---- */

static int wait_to_recv(struct hd_chan *chan, void *item, int64_t deadline)
{
    hd_case c;
    c.kind = HD_CASE_RECV;
    c.object = chan;
    c.item = item;
    return hdi_wait_locked(&hdi_op_recv, &c, deadline);
}

/* Context: the lock, which is given back. */
static __attribute__((noinline)) int recv_slowly(struct hd_chan *chan, void *item,
                                                 int64_t deadline)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    if (!recv_locked(chan, item, &wakeups)) {
        if (!chan->closed) return wait_to_recv(chan, item, deadline);
        hdi_lock_give(&chan->base.lock);
        return -EPIPE;
    }
    struct hdi_segment *excess = chan->grows ? hdi_segments_excess(&chan->segments) : NULL;
    hdi_lock_give(&chan->base.lock);
    hdi_wakeups_go(&wakeups);
    if (excess) hdi_segment_free(excess);
    return 0;
}

static __attribute__((noinline)) int recv_fiber(struct hd_chan *chan, void *item,
                                                struct hd_task *task)
{
    hd_case c;
    c.kind = HD_CASE_RECV;
    c.object = chan;
    c.item = item;
    return hdi_wait_fiber(&hdi_op_recv, &c, task);
}

/* Somebody waits to send, and the ring is empty: there is none. Context: the lock, which is
 * given back. */
static __attribute__((noinline)) int recv_over(struct hd_chan *chan, void *item,
                                               int64_t deadline)
{
    struct hdi_node *node = hdi_node_of(chan->senders.next);
    if (hdi_unlikely(!hdi_chan_is_plain(chan) || !hdi_node_of_fiber(node))) {
        return recv_slowly(chan, item, deadline);
    }
    (void)hdi_node_pop(&chan->senders);
    uint64_t copy[2]; /* The receiver's own is written only if the wait is won. */
    /* WAIT-3: the sender's is there while we look. */
    hdi_chan_copy_plain(chan, copy, hdi_node_case(node)->item);
    struct hd_task *task;
    const enum hdi_decision decision = hdi_node_complete_fiber(node, &task);
    if (hdi_unlikely(decision == HDI_DECISION_LOST)) return recv_slowly(chan, item, deadline);
    hdi_chan_copy_plain(chan, item, copy);
    hdi_lock_give(&chan->base.lock);
    return hdi_likely(decision == HDI_DECISION_SUBMIT) ? hdi_sched_resume(task) : 0;
}

/* An item was taken out of a full ring. Context: the lock, which is given back. */
static __attribute__((noinline)) int refill_and_wake(struct hd_chan *chan)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    refill(chan, &wakeups);
    hdi_lock_give(&chan->base.lock);
    hdi_wakeups_go(&wakeups);
    return 0;
}

/* As send_holding(). */
HDI_ALWAYS_INLINE int recv_holding(struct hd_chan *chan, void *item, int64_t deadline,
                                   struct hd_task *task, int32_t fare)
{
    const uint32_t count = chan->count;
    if (count > 0 && hdi_likely(hdi_chan_is_plain(chan))) {
        ring_take(chan, item);
        if (hdi_unlikely(count >= chan->limit)) {
            pay(task, fare);
            return refill_and_wake(chan); /* CHAN-2 */
        }
        hdi_lock_give(&chan->base.lock);
        pay(task, fare);
        return 0;
    }
    pay(task, fare);
    if (hdi_unlikely(count > 0 || chan->special)) return recv_slowly(chan, item, deadline);
    if (!hdi_list_empty(&chan->senders)) return recv_over(chan, item, deadline);
    const bool wait = deadline == HD_FOREVER && task;
    return hdi_likely(wait) ? recv_fiber(chan, item, task) : recv_slowly(chan, item, deadline);
}

static __attribute__((noinline)) int recv_contended(struct hd_chan *chan, void *item,
                                                    int64_t deadline, struct hd_task *task)
{
    hdi_lock_slow(&chan->base.lock);
    return recv_holding(chan, item, deadline, task, 0);
}

static __attribute__((noinline)) int recv_attending(struct hd_chan *chan, void *item,
                                                    int64_t deadline, struct hd_task *task)
{
    const int err = hdi_attend(task, HDI_COST_CHANNEL, deadline == HD_NOW, chan);
    if (err) return err;
    hdi_lock_take(&chan->base.lock);
    return recv_holding(chan, item, deadline, task, 0);
}

HDI_ALWAYS_INLINE int recv_paying(struct hd_chan *chan, void *item, int64_t deadline,
                                  struct hd_task *task, int32_t fare)
{
    if (hdi_unlikely(task->credit.channel < fare || !hdi_lock_try(&chan->base.lock))) {
        return recv_attending(chan, item, deadline, task);
    }
    return recv_holding(chan, item, deadline, task, fare);
}

/* As send(). */
HDI_ALWAYS_INLINE int recv(struct hd_chan *chan, void *item, int64_t deadline)
{
    struct hd_task *task = hdi_task_self();
    if (task) {
        if (hdi_unlikely(task->kind != HDI_TASK_FIBER) && deadline != HD_NOW) return -EINVAL;
        /* Relaxed: what is missed is seen next time. */
        const int32_t fare = hdi_word_fare(hdi_load_relaxed(&task->word));
        if (hdi_unlikely(fare != 0)) return recv_paying(chan, item, deadline, task, fare);
    }
    if (hdi_unlikely(!hdi_lock_try(&chan->base.lock))) {
        return recv_contended(chan, item, deadline, task);
    }
    return recv_holding(chan, item, deadline, task, 0);
}

int hd_chan_recv(hd_chan *chan, void *item)
{
    return recv(chan, item, HD_FOREVER);
}

int hd_chan_recv_until(hd_chan *chan, void *item, int64_t deadline)
{
    return recv(chan, item, deadline);
}

int hd_chan_recv_try(hd_chan *chan, void *item)
{
    return recv(chan, item, HD_NOW);
}

/* ---- many, for chan_many.c ---- */

static const void *nth(const struct hd_chan *chan, const void *items, size_t i)
{
    return (const unsigned char *)items + i * chan->item_bytes;
}

size_t hdi_chan_send_batch(struct hd_chan *chan, const void *items, size_t count,
                           struct hdi_wakeups *wakeups)
{
    size_t sent = 0;
    for (; sent < count; sent++) {
        const void *item = nth(chan, items, sent);
        if (hand_over_to(chan, item, wakeups)) continue;
        if (chan->closed || !has_room(chan) || put(chan, item) != SENT) break;
    }
    return sent;
}

size_t hdi_chan_recv_batch(struct hd_chan *chan, void *items, size_t count,
                           struct hdi_wakeups *wakeups)
{
    size_t got = 0;
    while (got < count && recv_locked(chan, (void *)nth(chan, items, got), wakeups)) got++;
    return got;
}

int hdi_chan_send_holding(struct hd_chan *chan, const void *item, int64_t deadline)
{
    return send_slowly(chan, item, deadline);
}

/* ---- as cases ---- */

static void leave(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    hdi_node_dequeue(hdi_case_node(c));
}

static bool recv_attempt(hd_case *c, struct hdi_wakeups *wakeups)
{
    struct hd_chan *chan = c->object;
    const bool had = recv_locked(chan, c->item, wakeups);
    if (!had && !chan->closed) return false;
    c->result = had ? 0 : -EPIPE;
    return true;
}

/* What `recv_taken` needs to know is noted in c->number: by then the sender may have
 * destroyed the channel (CHAN-4). */
static bool recv_enqueue(hd_case *c)
{
    struct hd_chan *chan = c->object;
    c->result = 0; /* hd_chan_close() writes another. */
    c->number = (int64_t)chan->copy << 32 | chan->item_bytes;
    hdi_node_enqueue(&chan->receivers, hdi_case_node(c));
    return true;
}

HDI_ALWAYS_INLINE void recv_taken(hd_case *c)
{
    const enum hdi_copy copy = (enum hdi_copy)(c->number >> 32);
    if (c->result != 0 || copy == HDI_COPY_LARGE) return;
    hdi_item_copy(copy, (uint32_t)c->number, c->item, hdi_case_node(c)->small);
}

static void recv_unused(hd_case *c)
{
    const struct hd_chan *chan = c->object;
    if (c->result == 0 && chan->undelivered) HDI_CALL_OUT(chan->undelivered(c->item, chan->arg));
}

const struct hdi_op hdi_op_recv = {
    .what = "receive from channel",
    .attempt = recv_attempt,
    .enqueue = recv_enqueue,
    .dequeue = leave,
    .taken = recv_taken,
    .unused = recv_unused,
};

/* Several locks are held: a segment is allocated under them, rather than giving all back. */
static enum outcome attempt_to_send(hd_case *c, struct hdi_wakeups *wakeups)
{
    struct hd_chan *chan = c->object;
    struct hdi_node *node = hdi_case_node(c);
    const enum outcome outcome = send_locked(chan, c->item, node->small, wakeups);
    if (outcome != NEEDS_SEGMENT) return outcome;
    struct hdi_segment *segment = hdi_segment_create(&chan->segments);
    if (!segment) return NEEDS_SEGMENT;
    hdi_segments_add(&chan->segments, segment);
    return send_locked(chan, c->item, node->small, wakeups);
}

static bool send_attempt(hd_case *c, struct hdi_wakeups *wakeups)
{
    const enum outcome outcome = attempt_to_send(c, wakeups);
    c->number = (int64_t)outcome; /* for send_attempted() */
    switch (outcome) {
    case FULL: return false;
    case CLOSED: c->result = -EPIPE; return true;
    case NEEDS_SEGMENT: c->result = -ENOMEM; return true;
    case SENT:
    case SENT_DROPPING_OLDEST:
    case DROPPED_NEWEST: c->result = 0; return true;
    }
    return false;
}

/* What was dropped goes to the hook, now that no lock is held. */
static void send_attempted(hd_case *c)
{
    const struct hd_chan *chan = c->object;
    const enum outcome outcome = (enum outcome)c->number;
    if (outcome != SENT_DROPPING_OLDEST && outcome != DROPPED_NEWEST) return;
    void *item = outcome == DROPPED_NEWEST ? c->item : hdi_case_node(c)->small;
    if (chan->undelivered) HDI_CALL_OUT(chan->undelivered(item, chan->arg));
}

static bool send_enqueue(hd_case *c)
{
    struct hd_chan *chan = c->object;
    c->result = 0; /* hd_chan_close() writes another. */
    hdi_node_enqueue(&chan->senders, hdi_case_node(c));
    return true;
}

const struct hdi_op hdi_op_send = {
    .what = "send to channel",
    .attempt = send_attempt,
    .attempted = send_attempted,
    .enqueue = send_enqueue,
    .dequeue = leave,
};
