/* SPDX-License-Identifier: MIT
 *
 * chan_life: how channels are made, closed, asked and destroyed.
 */
#include <errno.h>
#include <stdlib.h>

#include "sync/chan.h"

/* ---- making one ---- */

/* What a channel keeps, from its options. */
struct shape {
    bool grows;
    size_t capacity;
    hd_overflow overflow;
};

/* Items at which a channel that grows is full; 0 if that makes no sense. */
static size_t grows_max(const hd_chan_options *options, size_t item_bytes)
{
    size_t most = options->items_max ? options->items_max : HD_CHAN_UNLIMITED;
    if (options->bytes_max && item_bytes > 0) {
        const size_t fit = options->bytes_max / item_bytes;
        if (fit < most) most = fit;
    }
    return most;
}

static int shape_of(const hd_chan_options *options, size_t item_bytes, struct shape *shape)
{
    *shape = (struct shape){.capacity = options->capacity, .overflow = options->overflow};
    shape->grows = options->capacity == HD_CHAN_UNLIMITED;
    if (item_bytes > HDI_ITEM_BYTES_MAX) return -EINVAL;
    if ((unsigned)options->overflow > HD_OVERFLOW_DROP_OLDEST) return -EINVAL;
    if (shape->grows) {
        shape->capacity = grows_max(options, item_bytes);
        if (shape->capacity == 0) return -EINVAL;
    } else if (options->items_max || options->bytes_max) {
        return -EINVAL;
    }
    if (options->conflated) {
        if (options->capacity > 1 || options->overflow == HD_OVERFLOW_DROP_NEWEST) return -EINVAL;
        shape->capacity = 1;
        shape->overflow = HD_OVERFLOW_DROP_OLDEST;
    }
    if (!shape->grows && shape->capacity >= UINT32_MAX) return -EINVAL;
    if (shape->overflow != HD_OVERFLOW_DROP_OLDEST) return 0;
    if (shape->capacity == 0) return -EINVAL;
    /* The item dropped must lie somewhere until the lock is given back. */
    return options->undelivered && item_bytes > HDI_ITEM_SMALL_MAX ? -EINVAL : 0;
}

static void *allocate(size_t bytes)
{
    const size_t rounded = (bytes + HDI_CACHE_LINE - 1) & ~(size_t)(HDI_CACHE_LINE - 1);
    return rounded < bytes ? NULL : aligned_alloc(HDI_CACHE_LINE, rounded);
}

static struct hd_chan *create(size_t item_bytes, const hd_chan_options *options,
                              const struct shape *shape)
{
    struct hd_chan *chan = allocate(sizeof(*chan));
    const uint32_t capacity = shape->grows ? 0 : (uint32_t)shape->capacity;
    const size_t ring_bytes = (size_t)capacity * item_bytes;
    unsigned char *ring = allocate(ring_bytes > 0 ? ring_bytes : 1); /* Slots have addresses. */
    if (!chan || !ring) {
        free(chan);
        free(ring);
        return NULL;
    }
    *chan = (struct hd_chan){.copy = (uint8_t)hdi_copy_for(item_bytes),
                             .special = shape->grows || shape->overflow != HD_OVERFLOW_WAIT,
                             .overflow = shape->overflow,
                             .grows = shape->grows,
                             .item_bytes = (uint32_t)item_bytes,
                             .capacity = capacity,
                             .limit = capacity,
                             .ring = ring,
                             .grows_max = shape->grows ? shape->capacity : 0,
                             .undelivered = options->undelivered,
                             .arg = options->arg};
    hdi_store_relaxed(&chan->base.lock.held, 0); /* Nobody else knows it yet. */
    hdi_list_init(&chan->receivers);
    hdi_list_init(&chan->senders);
    hdi_segments_init(&chan->segments, item_bytes);
    return chan;
}

int hd_chan_create_with(hd_chan **chan, size_t item_bytes, const hd_chan_options *options)
{
    const hd_chan_options defaults = HD_CHAN_OPTIONS_INIT;
    if (!options) options = &defaults;
    if (options->size != sizeof(*options)) return -EINVAL;
    struct shape shape;
    const int err = shape_of(options, item_bytes, &shape);
    if (err) return err;
    struct hdi_cap *counted = NULL;
    if (hdi_chan_may_create(shape.capacity, &counted) != 0) return -EPERM;
    struct hd_chan *made = create(item_bytes, options, &shape);
    if (!made) {
        hdi_chan_gone(counted);
        return -ENOMEM;
    }
    made->counted = counted;
    *chan = made;
    return 0;
}

hd_chan *hd_chan_create(size_t item_bytes, size_t capacity)
{
    hd_chan_options options = HD_CHAN_OPTIONS_INIT;
    options.capacity = capacity;
    hd_chan *chan = NULL;
    return hd_chan_create_with(&chan, item_bytes, &options) == 0 ? chan : NULL;
}

/* ---- the end ---- */

static void tell_left(struct hd_chan *chan, void *item)
{
    if (chan->undelivered) HDI_CALL_OUT(chan->undelivered(item, chan->arg));
}

static void tell_all_left(struct hd_chan *chan)
{
    for (; chan->count > 0; chan->count--) {
        tell_left(chan, chan->ring + (size_t)chan->head * chan->item_bytes);
        if (++chan->head == chan->capacity) chan->head = 0;
    }
    while (chan->segments.count > 0) {
        tell_left(chan, (void *)hdi_segments_front(&chan->segments));
        hdi_segments_pop(&chan->segments);
    }
}

void hd_chan_destroy(hd_chan *chan)
{
    hdi_gone(chan);
    if (!chan) return;
    hdi_lock_take(&chan->base.lock); /* CHAN-4 */
    const bool alone = hdi_list_empty(&chan->receivers) && hdi_list_empty(&chan->senders);
    hdi_lock_give(&chan->base.lock);
    HD_CHECK_MSG(alone, "a channel is destroyed while somebody waits on it");
    tell_all_left(chan);
    hdi_segments_fini(&chan->segments);
    hdi_chan_gone(chan->counted);
    free(chan->ring);
    free(chan);
}

/* Context: the lock. */
static void end_waits(struct hdi_list *queue, struct hdi_wakeups *wakeups)
{
    for (struct hdi_node *node; (node = hdi_node_pop(queue));) {
        hdi_node_case(node)->result = -EPIPE;
        (void)hdi_node_complete(node, wakeups); /* Lost: it ended otherwise. */
    }
}

int hd_chan_close(hd_chan *chan)
{
    hdi_point(chan);
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&chan->base.lock);
    const bool was = chan->closed;
    chan->closed = chan->special = true;
    chan->limit = 0;
    end_waits(&chan->receivers, &wakeups); /* CHAN-3 */
    end_waits(&chan->senders, &wakeups);
    hdi_lock_give(&chan->base.lock);
    hdi_wakeups_go(&wakeups);
    return was ? -EPIPE : 0;
}

/* ---- asking ---- */

bool hd_chan_closed(hd_chan *chan)
{
    hdi_lock_take(&chan->base.lock);
    const bool closed = chan->closed;
    hdi_lock_give(&chan->base.lock);
    return closed;
}

size_t hd_chan_count(hd_chan *chan)
{
    hdi_lock_take(&chan->base.lock);
    const size_t count = chan->count + chan->segments.count;
    hdi_lock_give(&chan->base.lock);
    return count;
}

size_t hd_chan_capacity(const hd_chan *chan)
{
    return chan->grows ? chan->grows_max : chan->capacity;
}

uint64_t hd_chan_dropped(hd_chan *chan)
{
    hdi_lock_take(&chan->base.lock);
    const uint64_t dropped = chan->dropped;
    hdi_lock_give(&chan->base.lock);
    return dropped;
}
