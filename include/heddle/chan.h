/* SPDX-License-Identifier: MIT
 *
 * chan: channels: items of one size, from any number of senders to any number of
 * receivers, each item to exactly one of them.
 *
 * A channel keeps up to `capacity` items. Over that a send waits until there is room; a
 * receive waits until there is an item. With capacity 0 nothing is kept: a send waits until
 * a receiver takes the item out of its hands. Items come out in the order they went in, and
 * whoever waits longest is served first.
 *
 * An item is copied: from the sender's memory into the channel, or straight into the
 * receiver's. So items are small; what is large is passed by pointer, see hd_chan_give().
 *
 * If a call fails, nothing happened: the item not sent is still the sender's, and where a
 * receiver wanted an item nothing was written. A send or receive that is done when a
 * cancel or a deadline comes is done, and the call says so.
 *
 * To wait for several channels at once, or in a stackless task: heddle/select.h.
 */
#ifndef HEDDLE_CHAN_H
#define HEDDLE_CHAN_H

#include <heddle/base.h>
#include <heddle/select.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hd_chan hd_chan;

/* ---- making one ---- */

#define HD_CHAN_UNLIMITED SIZE_MAX /* a capacity: memory is taken as items come */

/* What a send does when the channel is full. */
typedef enum hd_overflow {
    HD_OVERFLOW_WAIT,        /* waits for room */
    HD_OVERFLOW_DROP_NEWEST, /* drops the item it brings, and succeeds */
    HD_OVERFLOW_DROP_OLDEST, /* drops the oldest item kept, and succeeds */
} hd_overflow;

/* Gets an item that no receiver will: dropped by an overflow, left when the channel was
 * destroyed, or received by a stackless task that ended before it looked. The item lies at
 * `item` until the function returns, which frees what it refers to. Called by whoever caused
 * it, holding no lock; it may use other channels, without waiting. */
typedef void hd_undelivered_fn(void *item, void *arg);

/* Every field left 0 takes its default. */
typedef struct hd_chan_options {
    size_t size;
    size_t capacity;                /* items kept; default 0: each is handed over */
    size_t items_max;               /* HD_CHAN_UNLIMITED: full at so many items; 0: never */
    size_t bytes_max;               /* HD_CHAN_UNLIMITED: full at so many bytes; 0: never */
    bool conflated;                 /* keep the latest item only: capacity 1, drop oldest */
    hd_overflow overflow;
    hd_undelivered_fn *undelivered; /* default: items that nobody gets are forgotten */
    void *arg;                      /* for undelivered */
} hd_chan_options;

#ifdef __cplusplus
#define HD_CHAN_OPTIONS_INIT                                                             \
    ([] {                                                                                \
        hd_chan_options o = hd_chan_options();                                           \
        o.size = sizeof(o);                                                              \
        return o;                                                                        \
    }())
#else
#define HD_CHAN_OPTIONS_INIT {.size = sizeof(hd_chan_options)}
#endif

/* A channel of `capacity` items of `item_bytes` each; 0 bytes are a mere signal.
 * Context: any.  Switches: no.  Allocates: yes.
 * Returns: the channel; NULL if out of memory, over the limits below, or without the capability. */
HD_API HD_MUST_USE hd_chan *hd_chan_create(size_t item_bytes, size_t capacity);

/* The same with options; NULL: all defaults.
 * Context: any.  Switches: no.  Allocates: yes.
 * Returns: 0, -ENOMEM, -EINVAL: items over 1 MiB, 2^32 - 1 items or more (but
 * HD_CHAN_UNLIMITED), a limit without HD_CHAN_UNLIMITED or below one item, conflated with a
 * capacity over 1 or with another overflow, dropping the oldest with capacity 0, or with a
 * hook and items over 16 bytes; -EPERM (capability "channel"). */
HD_API HD_MUST_USE int hd_chan_create_with(hd_chan **chan, size_t item_bytes,
                                           const hd_chan_options *options);

/* Free the channel; items left in it go to the hook. Nobody may wait on it or call into it
 * any more, except that whoever got the last item, or handed it over, may destroy the
 * channel while its partner's call is still returning. Does nothing to NULL.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_chan_destroy(hd_chan *chan);

/* ---- sending and receiving ---- */

/* Send one item, waiting while the channel is full: without limit, until a deadline, or not
 * at all.
 * Context: fiber or thread; try: any.  Switches: yes; try: no.  Allocates: only in a channel
 * of unlimited capacity, now and then.
 * Cancel: the item was not sent.
 * Returns: 0; -EPIPE if closed, -ECANCELED, -ETIMEDOUT (until), -EAGAIN (try, or HD_NOW),
 * -ENOMEM (unlimited capacity), -EDEADLK (a thread in sim: it would wait for ever), -EINVAL
 * from a stackless task. */
HD_API HD_MUST_USE int hd_chan_send(hd_chan *chan, const void *item);
HD_API HD_MUST_USE int hd_chan_send_until(hd_chan *chan, const void *item, int64_t deadline);
HD_API HD_MUST_USE int hd_chan_send_try(hd_chan *chan, const void *item);

/* Receive one item into *item, waiting while there is none. A closed channel gives what it
 * still has, and then -EPIPE.
 * Context: fiber or thread; try: any.  Switches: yes; try: no.  Allocates: no.
 * Cancel: nothing was received.
 * Returns: 0; -EPIPE if closed and empty, -ECANCELED, -ETIMEDOUT (until), -EAGAIN (try, or
 * HD_NOW), -EDEADLK (a thread in sim), -EINVAL from a stackless task. */
HD_API HD_MUST_USE int hd_chan_recv(hd_chan *chan, void *item);
HD_API HD_MUST_USE int hd_chan_recv_until(hd_chan *chan, void *item, int64_t deadline);
HD_API HD_MUST_USE int hd_chan_recv_try(hd_chan *chan, void *item);

/* ---- many at once ---- */

/* Send `count` items that lie one after another, waiting as hd_chan_send() does. Other
 * senders' items may come in between. If the channel is closed, or a cancel or the deadline
 * comes, when some were sent already, their number is returned: fewer than `count`, and the
 * rest is still the caller's. The next call returns the error.
 * Context: fiber or thread; with HD_NOW any.  Switches: yes.  Allocates: as hd_chan_send().
 * Cancel: the first so many as returned were sent.
 * Returns: how many were sent, `count` or fewer; if none, as hd_chan_send(). */
HD_API HD_MUST_USE ptrdiff_t hd_chan_send_many(hd_chan *chan, const void *items, size_t count);
HD_API HD_MUST_USE ptrdiff_t hd_chan_send_many_until(hd_chan *chan, const void *items,
                                                     size_t count, int64_t deadline);

/* Receive up to `count` items: wait for the first, then take what there is.
 * Context: fiber or thread; with HD_NOW any.  Switches: yes.  Allocates: no.
 * Cancel: nothing was received.
 * Returns: how many were received, from 1 (0 if `count` is); if none, as hd_chan_recv(). */
HD_API HD_MUST_USE ptrdiff_t hd_chan_recv_many(hd_chan *chan, void *items, size_t count);
HD_API HD_MUST_USE ptrdiff_t hd_chan_recv_many_until(hd_chan *chan, void *items, size_t count,
                                                     int64_t deadline);

/* ---- blocks, which change their owner instead of being copied ---- */

/* Send a pointer through a channel of pointers (item_bytes == sizeof(void *)). From 0 on the
 * block is the receiver's; on failure it is still the caller's. The hook gets a void **.
 * Context, Switches, Allocates, Cancel and Returns: as hd_chan_send(); -EINVAL for a channel
 * of something else. */
HD_API HD_MUST_USE int hd_chan_give(hd_chan *chan, void *block);
HD_API HD_MUST_USE int hd_chan_give_until(hd_chan *chan, void *block, int64_t deadline);
HD_API HD_MUST_USE int hd_chan_give_try(hd_chan *chan, void *block);

/* Receive a block, which is the caller's from then on.
 * Context, Switches, Allocates, Cancel and Returns: as hd_chan_recv(); -EINVAL for a channel
 * of something else. */
HD_API HD_MUST_USE int hd_chan_take(hd_chan *chan, void **block);
HD_API HD_MUST_USE int hd_chan_take_until(hd_chan *chan, void **block, int64_t deadline);
HD_API HD_MUST_USE int hd_chan_take_try(hd_chan *chan, void **block);

/* ---- closing and asking ---- */

/* Close the channel: nothing can be sent any more. Senders that wait get -EPIPE and keep
 * their items. What is in the channel can still be received; after that, and for receivers
 * that wait, -EPIPE.
 * Context: any.  Switches: no.  Allocates: no.
 * Returns: 0; -EPIPE if it was closed already, which changes nothing. */
HD_API int hd_chan_close(hd_chan *chan);

/* Whether it is closed; how many items are in it, and at how many it is full
 * (HD_CHAN_UNLIMITED: never); how many items an overflow has dropped. Others may change all
 * but the capacity before the caller looks at the answer.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API bool hd_chan_closed(hd_chan *chan);
HD_API size_t hd_chan_count(hd_chan *chan);
HD_API size_t hd_chan_capacity(const hd_chan *chan);
HD_API uint64_t hd_chan_dropped(hd_chan *chan);

/* ---- channels of one type ---- */

#define HD_CHAN_FN_ __attribute__((unused)) static inline /* private */

/* Declares the type `name`, a channel of `type`, and functions as above that take and give
 * that type:
 *
 *   HD_CHAN_TYPE(jobs, struct job)
 *   jobs *queue = jobs_create(16);
 *   err = jobs_send(queue, job);          err = jobs_recv(queue, &job);
 *
 * also jobs_create_with, _destroy, _send_until, _send_try, _send_many, _send_many_until,
 * _recv_until, _recv_try, _recv_many, _recv_many_until, _close, _closed, _count; cases for
 * a select: jobs_send_case(queue, &job), jobs_recv_case(queue, &job); and
 * jobs_untyped(queue), the hd_chan itself. */
#define HD_CHAN_TYPE(name, type)                                                         \
    typedef struct name name;                                                            \
    HD_CHAN_FN_ hd_chan *name##_untyped(name *chan) { return (hd_chan *)chan; }          \
    HD_CHAN_FN_ name *name##_create(size_t capacity)                                     \
    {                                                                                    \
        return (name *)hd_chan_create(sizeof(type), capacity);                           \
    }                                                                                    \
    HD_CHAN_FN_ int name##_create_with(name **chan, const hd_chan_options *options)      \
    {                                                                                    \
        hd_chan *made;                                                                   \
        const int err = hd_chan_create_with(&made, sizeof(type), options);               \
        if (!err) *chan = (name *)made;                                                  \
        return err;                                                                      \
    }                                                                                    \
    HD_CHAN_FN_ void name##_destroy(name *chan) { hd_chan_destroy((hd_chan *)chan); }    \
    HD_CHAN_FN_ int name##_send(name *chan, type item)                                   \
    {                                                                                    \
        return hd_chan_send((hd_chan *)chan, &item);                                     \
    }                                                                                    \
    HD_CHAN_FN_ int name##_send_until(name *chan, type item, int64_t deadline)           \
    {                                                                                    \
        return hd_chan_send_until((hd_chan *)chan, &item, deadline);                     \
    }                                                                                    \
    HD_CHAN_FN_ int name##_send_try(name *chan, type item)                               \
    {                                                                                    \
        return hd_chan_send_try((hd_chan *)chan, &item);                                 \
    }                                                                                    \
    HD_CHAN_FN_ ptrdiff_t name##_send_many(name *chan, const type *items, size_t count)  \
    {                                                                                    \
        return hd_chan_send_many((hd_chan *)chan, items, count);                         \
    }                                                                                    \
    HD_CHAN_FN_ ptrdiff_t name##_send_many_until(name *chan, const type *items,          \
                                                 size_t count, int64_t deadline)         \
    {                                                                                    \
        return hd_chan_send_many_until((hd_chan *)chan, items, count, deadline);         \
    }                                                                                    \
    HD_CHAN_FN_ int name##_recv(name *chan, type *item)                                  \
    {                                                                                    \
        return hd_chan_recv((hd_chan *)chan, item);                                      \
    }                                                                                    \
    HD_CHAN_FN_ int name##_recv_until(name *chan, type *item, int64_t deadline)          \
    {                                                                                    \
        return hd_chan_recv_until((hd_chan *)chan, item, deadline);                      \
    }                                                                                    \
    HD_CHAN_FN_ int name##_recv_try(name *chan, type *item)                              \
    {                                                                                    \
        return hd_chan_recv_try((hd_chan *)chan, item);                                  \
    }                                                                                    \
    HD_CHAN_FN_ ptrdiff_t name##_recv_many(name *chan, type *items, size_t count)        \
    {                                                                                    \
        return hd_chan_recv_many((hd_chan *)chan, items, count);                         \
    }                                                                                    \
    HD_CHAN_FN_ ptrdiff_t name##_recv_many_until(name *chan, type *items, size_t count,  \
                                                 int64_t deadline)                       \
    {                                                                                    \
        return hd_chan_recv_many_until((hd_chan *)chan, items, count, deadline);         \
    }                                                                                    \
    HD_CHAN_FN_ hd_case name##_send_case(name *chan, const type *item)                   \
    {                                                                                    \
        const hd_case c = HD_SEND(chan, item);                                           \
        return c;                                                                        \
    }                                                                                    \
    HD_CHAN_FN_ hd_case name##_recv_case(name *chan, type *item)                         \
    {                                                                                    \
        const hd_case c = HD_RECV(chan, item);                                           \
        return c;                                                                        \
    }                                                                                    \
    HD_CHAN_FN_ int name##_close(name *chan) { return hd_chan_close((hd_chan *)chan); }  \
    HD_CHAN_FN_ bool name##_closed(name *chan)                                           \
    {                                                                                    \
        return hd_chan_closed((hd_chan *)chan);                                          \
    }                                                                                    \
    HD_CHAN_FN_ size_t name##_count(name *chan)                                          \
    {                                                                                    \
        return hd_chan_count((hd_chan *)chan);                                           \
    }                                                                                    \
    struct name /* so that a semicolon may follow */

#ifdef __cplusplus
}
#endif
#endif
