/* SPDX-License-Identifier: MIT
 *
 * pubsub: values that are sent without a queue of takers: one value once (oneshot), each
 * value to all (broadcast), and the latest value (watch).
 *
 * As in channels, a call that fails did nothing, and a completed one beats a cancel or a
 * deadline that comes at the same time. Plain forms wait without limit, _until forms to a
 * deadline, _try forms not at all.
 */
#ifndef HEDDLE_PUBSUB_H
#define HEDDLE_PUBSUB_H

#include <heddle/base.h>
#include <heddle/select.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- oneshot: one value, once ---- */

/* A place for one value, in the caller's memory, between one sender and one receiver; for
 * answers. The sender is done with it when hd_oneshot_send() or hd_oneshot_close() returns;
 * the receiver when it got the value or -EPIPE, or has closed it. Whoever is done last owns
 * the memory, and the calls tell who that is:
 *
 *   sender     send or close returns 0: the receiver.  -EPIPE: the sender is last.
 *   receiver   a receive returns 0 or -EPIPE: the receiver is last.
 *              close returns 0: the sender.  -EPIPE: the receiver is last.
 *
 * So it may lie on the receiver's stack if the receiver waits without giving up. */
typedef struct hd_oneshot {
    uint64_t private_[8];
} hd_oneshot;

#define HD_ONESHOT_BYTES 16 /* a value of up to so many bytes needs no storage */

/* Make it ready, also for another use after both sides are done. A value of over
 * HD_ONESHOT_BYTES lies in `storage` until it is received, which stays as long as the
 * oneshot; otherwise `storage` may be NULL.
 * Context: any.  Switches: no.  Allocates: no.
 * Returns: 0, -EINVAL if there is no storage, or over 1 MiB. */
HD_API int hd_oneshot_init(hd_oneshot *oneshot, size_t item_bytes, void *storage);

/* Send the value. Never waits.
 * Context: any.  Switches: no.  Allocates: no.
 * Returns: 0; -EPIPE if it was closed; -EINVAL if one was sent. */
HD_API int hd_oneshot_send(hd_oneshot *oneshot, const void *item);

/* Wait for the value.
 * Context: fiber or thread; try: any.  Switches: yes; try: no.  Allocates: no.
 * Cancel: nothing was received; it may still come.
 * Returns: 0; -EPIPE if closed without a value, or received before; -ECANCELED, -ETIMEDOUT
 * (until), -EAGAIN (try, or HD_NOW), -EDEADLK (a thread in sim), -EINVAL from a stackless
 * task. */
HD_API HD_MUST_USE int hd_oneshot_recv(hd_oneshot *oneshot, void *item);
HD_API HD_MUST_USE int hd_oneshot_recv_until(hd_oneshot *oneshot, void *item, int64_t deadline);
HD_API HD_MUST_USE int hd_oneshot_recv_try(hd_oneshot *oneshot, void *item);

/* Either side gives up. A sender that will not send has the receiver get -EPIPE; a receiver
 * that will not wait has the sender get it.
 * Context: any.  Switches: no.  Allocates: no.
 * Returns: 0; -EPIPE if the other side is done: it has closed, or sent a value, which a
 * receiver that closed may still fetch by hd_oneshot_recv_try(). */
HD_API int hd_oneshot_close(hd_oneshot *oneshot);

/* ---- broadcast: every value to every receiver ---- */

/* Keeps the last `capacity` values. A send never waits: who is further behind than that
 * loses the oldest, and is told how many. */
typedef struct hd_broadcast hd_broadcast;

/* One who receives, in the caller's memory; used by one task at a time. */
typedef struct hd_broadcast_receiver {
    uint64_t private_[4];
} hd_broadcast_receiver;

/* Context: any.  Switches: no.  Allocates: yes.
 * Returns: NULL if out of memory, capacity 0 or over 2^31, values over 1 MiB, or without the
 * capability "channel". */
HD_API HD_MUST_USE hd_broadcast *hd_broadcast_create(size_t item_bytes, size_t capacity);

/* Nobody may wait on it or call into it, and no receiver may be subscribed any more. Does
 * nothing to NULL.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_broadcast_destroy(hd_broadcast *broadcast);

/* Send to all who are subscribed.
 * Context: any.  Switches: no.  Allocates: no.
 * Returns: how many are subscribed, perhaps 0; -EPIPE if closed. */
HD_API int hd_broadcast_send(hd_broadcast *broadcast, const void *item);

/* No more values: receivers get those kept, and then -EPIPE.
 * Context: any.  Switches: no.  Allocates: no.
 * Returns: 0; -EPIPE if it was closed already. */
HD_API int hd_broadcast_close(hd_broadcast *broadcast);

/* Receive what is sent from now on.
 * Context: any.  Switches: no.  Allocates: no.
 * Returns: 0, -EPIPE if closed: the receiver is not subscribed. */
HD_API HD_MUST_USE int hd_broadcast_subscribe(hd_broadcast *broadcast,
                                              hd_broadcast_receiver *receiver);

/* Receive no more. Each subscribed receiver is unsubscribed once.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_broadcast_unsubscribe(hd_broadcast_receiver *receiver);

/* Wait for the receiver's next value. If values were lost, the call returns -EOVERFLOW once,
 * hd_broadcast_lost() says how many, and the next call gives the oldest one kept.
 * Context: fiber or thread; try: any.  Switches: yes; try: no.  Allocates: no.
 * Cancel: nothing was received.
 * Returns: 0; -EOVERFLOW; -EPIPE if closed and all received; -ECANCELED, -ETIMEDOUT (until),
 * -EAGAIN (try, or HD_NOW), -EDEADLK (a thread in sim), -EINVAL from a stackless task. */
HD_API HD_MUST_USE int hd_broadcast_recv(hd_broadcast_receiver *receiver, void *item);
HD_API HD_MUST_USE int hd_broadcast_recv_until(hd_broadcast_receiver *receiver, void *item,
                                               int64_t deadline);
HD_API HD_MUST_USE int hd_broadcast_recv_try(hd_broadcast_receiver *receiver, void *item);

/* How many values the receiver's last -EOVERFLOW stood for; 0 if there was none.
 * Context: as receiving.  Switches: no.  Allocates: no. */
HD_API uint64_t hd_broadcast_lost(const hd_broadcast_receiver *receiver);

/* ---- watch: the latest value ---- */

/* A value that changes, and those who want to know. Who is slow misses the values in
 * between, never the latest. */
typedef struct hd_watch hd_watch;

/* One who looks for changes, in the caller's memory; used by one task at a time. */
typedef struct hd_watch_receiver {
    uint64_t private_[2];
} hd_watch_receiver;

/* A watch that starts with the value at `initial`.
 * Context: any.  Switches: no.  Allocates: yes.
 * Returns: NULL if out of memory, for values over 1 MiB, or without the capability "channel". */
HD_API HD_MUST_USE hd_watch *hd_watch_create(size_t item_bytes, const void *initial);

/* Nobody may wait on it, call into it, or have a value borrowed any more. Does nothing to
 * NULL.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_watch_destroy(hd_watch *watch);

/* Change the value, and wake all who wait for that.
 * Context: any.  Switches: no.  Allocates: only while older values are borrowed.
 * Returns: 0; -EPIPE if closed, -ENOMEM. */
HD_API HD_MUST_USE int hd_watch_set(hd_watch *watch, const void *item);

/* Copy the latest value to *item, closed or not.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_watch_get(hd_watch *watch, void *item);

/* The latest value itself, which stays as it is until it is returned, whatever is set
 * meanwhile.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API HD_MUST_USE const void *hd_watch_borrow(hd_watch *watch);
HD_API void hd_watch_return(hd_watch *watch, const void *item);

/* No more changes: who waits for one gets -EPIPE.
 * Context: any.  Switches: no.  Allocates: no.
 * Returns: 0; -EPIPE if it was closed already. */
HD_API int hd_watch_close(hd_watch *watch);

/* Look for changes from the latest value on, which counts as seen. A receiver needs no end.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_watch_subscribe(hd_watch *watch, hd_watch_receiver *receiver);

/* Wait until there is a value that the receiver has not seen, and copy the latest to *item
 * (may be NULL); it counts as seen then.
 * Context: fiber or thread; try: any.  Switches: yes; try: no.  Allocates: no.
 * Cancel: nothing was seen.
 * Returns: 0; -EPIPE if closed and the latest was seen; -ECANCELED, -ETIMEDOUT (until),
 * -EAGAIN (try, or HD_NOW), -EDEADLK (a thread in sim), -EINVAL from a stackless task. */
HD_API HD_MUST_USE int hd_watch_changed(hd_watch_receiver *receiver, void *item);
HD_API HD_MUST_USE int hd_watch_changed_until(hd_watch_receiver *receiver, void *item,
                                              int64_t deadline);
HD_API HD_MUST_USE int hd_watch_changed_try(hd_watch_receiver *receiver, void *item);

#ifdef __cplusplus
}
#endif
#endif
