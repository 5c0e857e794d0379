/* SPDX-License-Identifier: MIT */
#include "sync/watch.h"

#include <errno.h>
#include <stdlib.h>

#include "sync/chan.h"

static struct hdi_watch_receiver *of(hd_watch_receiver *receiver)
{
    return (struct hdi_watch_receiver *)receiver;
}

static inline void copy_value(const struct hd_watch *watch, void *to, const void *from)
{
    hdi_item_copy((enum hdi_copy)watch->copy, watch->item_bytes, to, from);
}

/* ---- blocks ---- */

static struct hdi_watch_block *block_create(size_t item_bytes)
{
    return malloc(sizeof(struct hdi_watch_block) + item_bytes);
}

static struct hdi_watch_block *block_of(const void *value)
{
    return (struct hdi_watch_block *)((char *)value - offsetof(struct hdi_watch_block, value));
}

/* Context: the lock. Returns a block for the caller to free; mostly NULL. */
static struct hdi_watch_block *unborrow(struct hd_watch *watch, struct hdi_watch_block *block)
{
    if (--block->borrowers > 0) return NULL;
    if (watch->spare) return block;
    watch->spare = block; /* WATCH-1 */
    return NULL;
}

/* ---- the watch ---- */

hd_watch *hd_watch_create(size_t item_bytes, const void *initial)
{
    struct hdi_cap *counted = NULL;
    if (item_bytes > HDI_ITEM_BYTES_MAX || hdi_chan_may_create(1, &counted) != 0) return NULL;
    struct hd_watch *watch = malloc(sizeof(*watch));
    struct hdi_watch_block *latest = block_create(item_bytes);
    struct hdi_watch_block *spare = block_create(item_bytes);
    if (!watch || !latest || !spare) {
        free(watch);
        free(latest);
        free(spare);
        hdi_chan_gone(counted);
        return NULL;
    }
    *watch = (struct hd_watch){.copy = (uint8_t)hdi_copy_for(item_bytes),
                               .item_bytes = (uint32_t)item_bytes,
                               .latest = latest,
                               .spare = spare,
                               .counted = counted};
    hdi_store_relaxed(&watch->base.lock.held, 0); /* Nobody else knows it yet. */
    hdi_list_init(&watch->waiting);
    latest->borrowers = 1;
    copy_value(watch, latest->value, initial);
    return watch;
}

void hd_watch_destroy(hd_watch *watch)
{
    hdi_gone(watch);
    if (!watch) return;
    hdi_lock_take(&watch->base.lock);
    const bool alone = hdi_list_empty(&watch->waiting);
    const bool returned = watch->latest->borrowers == 1 && watch->spare;
    hdi_lock_give(&watch->base.lock);
    HD_CHECK_MSG(alone, "a watch is destroyed while somebody waits on it");
    HD_CHECK_MSG(returned, "a watch is destroyed while a value is borrowed");
    hdi_chan_gone(watch->counted);
    free(watch->latest);
    free(watch->spare);
    free(watch);
}

/* Context: the lock. */
static void wake_all(struct hd_watch *watch, struct hdi_wakeups *wakeups)
{
    for (struct hdi_node *node; (node = hdi_node_pop(&watch->waiting));) {
        (void)hdi_node_complete(node, wakeups); /* Lost: the value is still unseen. */
    }
}

/* Make a spare while the lock is not held. Returns false if out of memory. */
static bool bring_spare(struct hd_watch *watch)
{
    hdi_lock_give(&watch->base.lock);
    struct hdi_watch_block *block = block_create(watch->item_bytes);
    hdi_lock_take(&watch->base.lock);
    if (watch->spare || !block) {
        free(block); /* Another came first. */
    } else {
        watch->spare = block;
    }
    return watch->spare;
}

int hd_watch_set(hd_watch *watch, const void *item)
{
    hdi_point(watch);
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    struct hdi_watch_block *unused = NULL;
    hdi_lock_take(&watch->base.lock);
    int err = watch->closed ? -EPIPE : 0;
    if (!err && !watch->spare) {
        if (!bring_spare(watch)) err = -ENOMEM;
        if (watch->closed) err = -EPIPE; /* The lock was given back meanwhile. */
    }
    if (!err) {
        struct hdi_watch_block *block = watch->spare;
        watch->spare = NULL;
        copy_value(watch, block->value, item);
        block->borrowers = 1;
        unused = unborrow(watch, watch->latest);
        watch->latest = block;
        watch->version++;
        wake_all(watch, &wakeups);
    }
    hdi_lock_give(&watch->base.lock);
    hdi_wakeups_go(&wakeups);
    free(unused);
    return err;
}

int hd_watch_close(hd_watch *watch)
{
    hdi_point(watch);
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&watch->base.lock);
    const bool was = watch->closed;
    watch->closed = true;
    wake_all(watch, &wakeups);
    hdi_lock_give(&watch->base.lock);
    hdi_wakeups_go(&wakeups);
    return was ? -EPIPE : 0;
}

void hd_watch_get(hd_watch *watch, void *item)
{
    hdi_point(watch);
    hdi_lock_take(&watch->base.lock);
    copy_value(watch, item, watch->latest->value);
    hdi_lock_give(&watch->base.lock);
}

const void *hd_watch_borrow(hd_watch *watch)
{
    hdi_lock_take(&watch->base.lock);
    struct hdi_watch_block *block = watch->latest;
    block->borrowers++;
    hdi_lock_give(&watch->base.lock);
    return block->value;
}

void hd_watch_return(hd_watch *watch, const void *item)
{
    hdi_lock_take(&watch->base.lock);
    struct hdi_watch_block *unused = unborrow(watch, block_of(item));
    hdi_lock_give(&watch->base.lock);
    free(unused);
}

/* ---- receivers ---- */

void hd_watch_subscribe(hd_watch *watch, hd_watch_receiver *receiver)
{
    hdi_lock_take(&watch->base.lock);
    *of(receiver) = (struct hdi_watch_receiver){.watch = watch, .seen = watch->version};
    hdi_lock_give(&watch->base.lock);
}

/* Context: the lock. Returns: 0, -EPIPE; -EAGAIN: wait. */
static int look(struct hdi_watch_receiver *own, void *item)
{
    const struct hd_watch *watch = own->watch;
    if (own->seen == watch->version) return watch->closed ? -EPIPE : -EAGAIN;
    own->seen = watch->version;
    if (item) copy_value(watch, item, watch->latest->value);
    return 0;
}

static bool attempt(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    const int seen = look(c->object, c->item);
    if (seen == -EAGAIN) return false;
    c->result = seen;
    return true;
}

static bool enqueue(hd_case *c)
{
    struct hdi_watch_receiver *own = c->object;
    hdi_node_enqueue(&own->watch->waiting, hdi_case_node(c));
    return true;
}

static void dequeue(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    hdi_node_dequeue(hdi_case_node(c));
}

/* WATCH-2 */
static void taken(hd_case *c)
{
    struct hdi_watch_receiver *own = c->object;
    struct hd_watch *watch = own->watch;
    hdi_lock_take(&watch->base.lock);
    c->result = look(own, c->item);
    hdi_lock_give(&watch->base.lock);
    HDI_ASSERT(c->result != -EAGAIN);
}

const struct hdi_op hdi_op_changed = {
    .what = "wait for a change",
    .attempt = attempt,
    .enqueue = enqueue,
    .dequeue = dequeue,
    .taken = taken,
    .through = true,
};

int hd_watch_changed_until(hd_watch_receiver *receiver, void *item, int64_t deadline)
{
    hd_case c;
    c.kind = HD_CASE_CHANGED;
    c.object = of(receiver);
    c.item = item;
    return hdi_wait(&hdi_op_changed, &c, deadline);
}

int hd_watch_changed(hd_watch_receiver *receiver, void *item)
{
    return hd_watch_changed_until(receiver, item, HD_FOREVER);
}

int hd_watch_changed_try(hd_watch_receiver *receiver, void *item)
{
    return hd_watch_changed_until(receiver, item, HD_NOW);
}
