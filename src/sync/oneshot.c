/* SPDX-License-Identifier: MIT */
#include "sync/oneshot.h"

#include <errno.h>

#include "sync/chan.h"

_Static_assert(HD_ONESHOT_BYTES == sizeof(((struct hdi_oneshot *)0)->value), "as promised");

static struct hdi_oneshot *of(hd_oneshot *oneshot)
{
    return (struct hdi_oneshot *)oneshot;
}

static inline void copy_value(const struct hdi_oneshot *one, void *to, const void *from)
{
    hdi_item_copy((enum hdi_copy)one->copy, one->item_bytes, to, from);
}

int hd_oneshot_init(hd_oneshot *oneshot, size_t item_bytes, void *storage)
{
    struct hdi_oneshot *one = of(oneshot);
    if (item_bytes > HDI_ITEM_BYTES_MAX) return -EINVAL;
    if (item_bytes > sizeof(one->value) && !storage) return -EINVAL;
    hdi_store_relaxed(&one->base.lock.held, 0); /* Whoever is told of it is told later. */
    one->copy = (uint8_t)hdi_copy_for(item_bytes);
    one->sent = one->received = one->closed = false;
    one->item_bytes = (uint32_t)item_bytes;
    one->storage = item_bytes > sizeof(one->value) ? storage : one->value;
    one->waiting = NULL;
    return 0;
}

/* ---- sending ---- */

/* Wake the receiver, if it waits, and give back the lock: the last touch (ONE-2). */
static void tell_receiver(struct hdi_oneshot *one)
{
    struct hd_task *ready = NULL;
    struct hdi_node *node = one->waiting;
    if (node) {
        one->waiting = NULL;
        /* Lost: it may look again, or not. */
        if (!hdi_node_complete_one(node, &ready)) ready = NULL;
    }
    hdi_lock_give(&one->base.lock);
    if (ready) hdi_sched_submit(ready);
}

int hd_oneshot_send(hd_oneshot *oneshot, const void *item)
{
    hdi_point(oneshot);
    struct hdi_oneshot *one = of(oneshot);
    hdi_lock_take(&one->base.lock);
    if (hdi_unlikely(one->closed || one->sent)) {
        const int err = one->sent ? -EINVAL : -EPIPE;
        hdi_lock_give(&one->base.lock);
        return err;
    }
    copy_value(one, one->storage, item);
    one->sent = true;
    tell_receiver(one);
    return 0;
}

int hd_oneshot_close(hd_oneshot *oneshot)
{
    hdi_point(oneshot);
    struct hdi_oneshot *one = of(oneshot);
    hdi_lock_take(&one->base.lock);
    const bool over = one->closed || one->sent;
    one->closed = true;
    tell_receiver(one);
    return over ? -EPIPE : 0;
}

/* ---- receiving ---- */

/* Context: the lock, or nobody else is left (ONE-2). The value is there, or none will be. */
static int take(struct hdi_oneshot *one, void *item)
{
    if (!one->sent || one->received) return -EPIPE;
    one->received = true;
    copy_value(one, item, one->storage);
    return 0;
}

static bool attempt(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    struct hdi_oneshot *one = c->object;
    if (!one->sent && !one->closed) return false;
    c->result = take(one, c->item);
    return true;
}

static bool enqueue(hd_case *c)
{
    struct hdi_oneshot *one = c->object;
    HD_CHECK_MSG(!one->waiting, "two wait for one oneshot");
    one->waiting = hdi_case_node(c);
    return true;
}

static void dequeue(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    struct hdi_oneshot *one = c->object;
    if (one->waiting == hdi_case_node(c)) one->waiting = NULL;
}

static void taken(hd_case *c)
{
    struct hdi_oneshot *one = c->object;
    const bool held = hdi_load_acquire(&one->base.lock.held); /* U, os/lock.h */
    if (hdi_unlikely(held) && !HDI_MUTANT(oneshot_leaves_early)) { /* ONE-2 */
        hdi_lock_take(&one->base.lock);
        hdi_lock_give(&one->base.lock);
    }
    c->result = take(one, c->item);
}

const struct hdi_op hdi_op_oneshot = {
    .what = "receive from oneshot",
    .attempt = attempt,
    .enqueue = enqueue,
    .dequeue = dequeue,
    .taken = taken,
};

HDI_ALWAYS_INLINE int receive(hd_oneshot *oneshot, void *item, int64_t deadline)
{
    struct hdi_oneshot *one = of(oneshot);
    struct hd_task *task;
    const int err = hdi_wait_enter_as(deadline, &task, HDI_COST_CHANNEL, one);
    if (hdi_unlikely(err)) return err;
    hdi_lock_take(&one->base.lock);
    if (one->sent || one->closed) {
        const int got = take(one, item);
        hdi_lock_give(&one->base.lock);
        return got;
    }
    hd_case c;
    c.kind = HD_CASE_ONESHOT;
    c.object = one;
    c.item = item;
    if (deadline == HD_FOREVER && task) return hdi_wait_fiber(&hdi_op_oneshot, &c, task);
    return hdi_wait_locked(&hdi_op_oneshot, &c, deadline);
}

int hd_oneshot_recv(hd_oneshot *oneshot, void *item)
{
    return receive(oneshot, item, HD_FOREVER);
}

int hd_oneshot_recv_until(hd_oneshot *oneshot, void *item, int64_t deadline)
{
    return receive(oneshot, item, deadline);
}

int hd_oneshot_recv_try(hd_oneshot *oneshot, void *item)
{
    return receive(oneshot, item, HD_NOW);
}
