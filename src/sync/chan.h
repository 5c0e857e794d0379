/* SPDX-License-Identifier: MIT
 *
 * chan: items on their way from senders to receivers: in a ring, in segments that grow, or
 * in nobody's hands but the two.
 *
 * One lock guards all of it. What a send or a receive needs when nobody waits is in the
 * first cache line.
 *
 *   CHAN-1  Receivers stand in line only while no item is kept.
 *   CHAN-2  Senders stand in line only while there is no room; or, where memory grows,
 *           while there is none, and then every receive looks after them.
 *   CHAN-3  Nobody stands in line at a closed channel.
 *   CHAN-4  Giving back the lock is a call's last touch of the channel, and
 *           hd_chan_destroy() takes the lock: who got the last item may destroy. (Only a
 *           select that dropped an item looks at the hook once more.)
 *
 * Order. CHAN-1 and CHAN-2 are what makes it first come, first served: nobody who arrives
 * finds an item or room while another stands in line for it.
 *
 * Wake-ups. An item is put into the hands of a receiver that waits, which is then behind
 * the sender in the sender's own LIFO slot: so the sender goes on until the channel is full,
 * and the two take turns at one ring-full each, on one CPU, instead of passing cache lines
 * for every item.
 *
 * Rejected
 *   A ring without a lock (a sequence number in each slot): an item costs two contended
 *   read-modify-writes instead of one, waiting needs a store-load protocol on top, and
 *   several channels can then not be locked at once, which is what makes select simple.
 */
#ifndef HDI_SYNC_CHAN_H
#define HDI_SYNC_CHAN_H

#include <string.h>

#include <heddle/chan.h>

#include "sync/ops.h"
#include "sync/segments.h"

struct hdi_cap;

enum hdi_copy {
    HDI_COPY_8,
    HDI_COPY_4,
    HDI_COPY_16,
    HDI_COPY_SMALL, /* up to 16 bytes, perhaps none */
    HDI_COPY_LARGE,
};

#define HDI_ITEM_SMALL_MAX (sizeof(((struct hdi_node *)0)->small))
#define HDI_ITEM_BYTES_MAX (1u << 20)

/* Constant, or under the lock. */
struct hd_chan {
    alignas(HDI_CACHE_LINE) struct hdi_waitable base;
    uint8_t copy;              /* constant: enum hdi_copy */
    bool special;              /* closed, grows, or drops: not for the short ways */
    bool grows;                /* constant: items are in `segments`; the ring is empty */
    bool closed;
    uint32_t item_bytes;       /* constant */
    uint32_t capacity;         /* constant: slots of the ring */
    uint32_t limit;            /* the capacity while open; 0 if closed or without a ring */
    uint32_t count;            /* items in the ring */
    uint32_t head, tail;       /* of the ring: the oldest, the next; below the capacity */
    unsigned char *ring;       /* constant */
    struct hdi_list receivers; /* CHAN-1 */

    alignas(HDI_CACHE_LINE) struct hdi_list senders; /* CHAN-2 */
    struct hdi_segments segments;
    size_t grows_max;          /* constant: items in segments, at most */
    hd_overflow overflow;      /* constant */
    uint64_t dropped;
    hd_undelivered_fn *undelivered; /* constant */
    void *arg;                      /* constant */
    struct hdi_cap *counted;        /* constant: what it was made by virtue of; NULL: no limit */
};
_Static_assert(offsetof(struct hd_chan, senders) == HDI_CACHE_LINE, "the first line is full");

/* ---- what scopes provide to this layer (scope/) ---- */

/* Whether a METERED task may create a channel of so many items (HD_CHAN_UNLIMITED), and what is to
 * be told at its end: NULL, as it was, if nothing. Returns: 0, -EPERM. */
int hdi_scope_may_chan(const struct hd_task *task, size_t items, struct hdi_cap **counted);
void hdi_scope_chan_gone(struct hdi_cap *counted);

/* The same for whoever runs; broadcasts and watches are channels too. */
static inline int hdi_chan_may_create(size_t items, struct hdi_cap **counted)
{
    const struct hd_task *self = hdi_task_metered();
    return hdi_unlikely(self != NULL) ? hdi_scope_may_chan(self, items, counted) : 0;
}

static inline void hdi_chan_gone(struct hdi_cap *counted)
{
    if (hdi_unlikely(counted != NULL)) hdi_scope_chan_gone(counted);
}

/* ---- chan.c, for chan_many.c ---- */

/* Send or receive what can be at once, at most `count`. Context: the lock. Returns how many. */
size_t hdi_chan_send_batch(struct hd_chan *chan, const void *items, size_t count,
                           struct hdi_wakeups *wakeups);
size_t hdi_chan_recv_batch(struct hd_chan *chan, void *items, size_t count,
                           struct hdi_wakeups *wakeups);

/* Send one that is paid for, waiting. Context: the lock, which is given back. */
int hdi_chan_send_holding(struct hd_chan *chan, const void *item, int64_t deadline);

/* ---- items ---- */

/* A copy of an item whose size is mostly a known one, without a call. */
HDI_ALWAYS_INLINE void hdi_item_copy(enum hdi_copy copy, size_t bytes, void *to,
                                     const void *from)
{
    if (hdi_likely(copy == HDI_COPY_8)) {
        memcpy(to, from, 8);
        return;
    }
    switch (copy) {
    case HDI_COPY_8: return;
    case HDI_COPY_4: memcpy(to, from, 4); return;
    case HDI_COPY_16: memcpy(to, from, 16); return;
    case HDI_COPY_SMALL:
    case HDI_COPY_LARGE:
        if (bytes > 0) memcpy(to, from, bytes);
        return;
    }
}

static inline enum hdi_copy hdi_copy_for(size_t bytes)
{
    if (bytes == 8) return HDI_COPY_8;
    if (bytes == 4) return HDI_COPY_4;
    if (bytes == 16) return HDI_COPY_16;
    return bytes < HDI_ITEM_SMALL_MAX ? HDI_COPY_SMALL : HDI_COPY_LARGE;
}

/* Whether copying an item is a matter of a few instructions, and no call. */
static inline bool hdi_chan_is_plain(const struct hd_chan *chan)
{
    return chan->copy < HDI_COPY_SMALL;
}

HDI_ALWAYS_INLINE void hdi_chan_copy_plain(const struct hd_chan *chan, void *to, const void *from)
{
    if (hdi_likely(chan->copy == HDI_COPY_8)) {
        memcpy(to, from, 8);
    } else if (chan->copy == HDI_COPY_4) {
        memcpy(to, from, 4);
    } else {
        memcpy(to, from, 16);
    }
}

#endif
