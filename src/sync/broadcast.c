/* SPDX-License-Identifier: MIT */
#include "sync/broadcast.h"

#include <errno.h>
#include <stdlib.h>

#include "sync/chan.h"

#define CAPACITY_MAX (UINT32_C(1) << 31)

static struct hdi_broadcast_receiver *of(hd_broadcast_receiver *receiver)
{
    return (struct hdi_broadcast_receiver *)receiver;
}

static unsigned char *slot(const struct hd_broadcast *cast, uint64_t number)
{
    return cast->ring + (size_t)(number & cast->mask) * cast->item_bytes;
}

/* ---- the broadcast ---- */

static uint64_t power_of_two(uint64_t at_least)
{
    uint64_t power = 1;
    while (power < at_least) power *= 2;
    return power;
}

hd_broadcast *hd_broadcast_create(size_t item_bytes, size_t capacity)
{
    if (item_bytes > HDI_ITEM_BYTES_MAX || capacity == 0 || capacity > CAPACITY_MAX) return NULL;
    struct hdi_cap *counted = NULL;
    if (hdi_chan_may_create(capacity, &counted) != 0) return NULL;
    const uint64_t slots = power_of_two(capacity);
    struct hd_broadcast *cast = malloc(sizeof(*cast));
    unsigned char *ring = malloc(slots * item_bytes + 1);
    if (!cast || !ring) {
        free(cast);
        free(ring);
        hdi_chan_gone(counted);
        return NULL;
    }
    *cast = (struct hd_broadcast){.copy = (uint8_t)hdi_copy_for(item_bytes),
                                  .item_bytes = (uint32_t)item_bytes,
                                  .mask = (uint32_t)(slots - 1),
                                  .capacity = capacity,
                                  .ring = ring,
                                  .counted = counted};
    hdi_store_relaxed(&cast->base.lock.held, 0); /* Nobody else knows it yet. */
    hdi_list_init(&cast->waiting);
    return cast;
}

void hd_broadcast_destroy(hd_broadcast *cast)
{
    hdi_gone(cast);
    if (!cast) return;
    hdi_lock_take(&cast->base.lock);
    const bool alone = hdi_list_empty(&cast->waiting);
    const int subscribed = cast->subscribed;
    hdi_lock_give(&cast->base.lock);
    HD_CHECK_MSG(alone, "a broadcast is destroyed while somebody waits on it");
    HD_CHECK_MSG(subscribed == 0, "a broadcast is destroyed while somebody is subscribed");
    hdi_chan_gone(cast->counted);
    free(cast->ring);
    free(cast);
}

/* Context: the lock. */
static void wake_all(struct hd_broadcast *cast, struct hdi_wakeups *wakeups)
{
    for (struct hdi_node *node; (node = hdi_node_pop(&cast->waiting));) {
        (void)hdi_node_complete(node, wakeups); /* Lost: its next value stays its next. */
    }
}

int hd_broadcast_send(hd_broadcast *cast, const void *item)
{
    hdi_point(cast);
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    int told = -EPIPE;
    hdi_lock_take(&cast->base.lock);
    if (!cast->closed) {
        told = cast->subscribed;
        hdi_item_copy((enum hdi_copy)cast->copy, cast->item_bytes, slot(cast, cast->sent), item);
        cast->sent++;
        wake_all(cast, &wakeups);
    }
    hdi_lock_give(&cast->base.lock);
    hdi_wakeups_go(&wakeups);
    return told;
}

int hd_broadcast_close(hd_broadcast *cast)
{
    hdi_point(cast);
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&cast->base.lock);
    const bool was = cast->closed;
    cast->closed = true;
    wake_all(cast, &wakeups);
    hdi_lock_give(&cast->base.lock);
    hdi_wakeups_go(&wakeups);
    return was ? -EPIPE : 0;
}

/* ---- receivers ---- */

int hd_broadcast_subscribe(hd_broadcast *cast, hd_broadcast_receiver *receiver)
{
    struct hdi_broadcast_receiver *own = of(receiver);
    int err = -EPIPE;
    hdi_lock_take(&cast->base.lock);
    if (!cast->closed) {
        cast->subscribed++;
        *own = (struct hdi_broadcast_receiver){.broadcast = cast, .next = cast->sent};
        err = 0;
    }
    hdi_lock_give(&cast->base.lock);
    return err;
}

void hd_broadcast_unsubscribe(hd_broadcast_receiver *receiver)
{
    struct hd_broadcast *cast = of(receiver)->broadcast;
    HD_CHECK_MSG(cast, "a receiver is unsubscribed that is not subscribed");
    of(receiver)->broadcast = NULL;
    hdi_lock_take(&cast->base.lock);
    cast->subscribed--;
    hdi_lock_give(&cast->base.lock);
}

/* Context: the lock. Returns: 0, -EOVERFLOW, -EPIPE; -EAGAIN: wait. */
static int take(struct hdi_broadcast_receiver *own, void *item)
{
    const struct hd_broadcast *cast = own->broadcast;
    const uint64_t behind = cast->sent - own->next;
    if (behind == 0) return cast->closed ? -EPIPE : -EAGAIN;
    if (behind > cast->capacity) { /* CAST-1 */
        own->lost = behind - cast->capacity;
        own->next += own->lost;
        return -EOVERFLOW;
    }
    hdi_item_copy((enum hdi_copy)cast->copy, cast->item_bytes, item, slot(cast, own->next));
    own->next++;
    return 0;
}

static bool attempt(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    const int got = take(c->object, c->item);
    if (got == -EAGAIN) return false;
    c->result = got;
    return true;
}

static bool enqueue(hd_case *c)
{
    struct hdi_broadcast_receiver *own = c->object;
    hdi_node_enqueue(&own->broadcast->waiting, hdi_case_node(c));
    return true;
}

static void dequeue(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    hdi_node_dequeue(hdi_case_node(c));
}

/* CAST-2 */
static void taken(hd_case *c)
{
    struct hdi_broadcast_receiver *own = c->object;
    struct hd_broadcast *cast = own->broadcast;
    hdi_lock_take(&cast->base.lock);
    c->result = take(own, c->item);
    hdi_lock_give(&cast->base.lock);
    HDI_ASSERT(c->result != -EAGAIN);
}

const struct hdi_op hdi_op_broadcast = {
    .what = "receive from broadcast",
    .attempt = attempt,
    .enqueue = enqueue,
    .dequeue = dequeue,
    .taken = taken,
    .through = true,
};

int hd_broadcast_recv_until(hd_broadcast_receiver *receiver, void *item, int64_t deadline)
{
    hd_case c;
    c.kind = HD_CASE_BROADCAST;
    c.object = of(receiver);
    c.item = item;
    return hdi_wait(&hdi_op_broadcast, &c, deadline);
}

int hd_broadcast_recv(hd_broadcast_receiver *receiver, void *item)
{
    return hd_broadcast_recv_until(receiver, item, HD_FOREVER);
}

int hd_broadcast_recv_try(hd_broadcast_receiver *receiver, void *item)
{
    return hd_broadcast_recv_until(receiver, item, HD_NOW);
}

uint64_t hd_broadcast_lost(const hd_broadcast_receiver *receiver)
{
    return ((const struct hdi_broadcast_receiver *)receiver)->lost;
}
