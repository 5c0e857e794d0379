/* SPDX-License-Identifier: MIT
 *
 * uring_take: the lane receives for readers that wait for a lease on a bulky connection.
 *
 * The epoll tells of up to HDI_URING_TAKES connections at once. What has come on them is received
 * by one call, into blocks (io/loan.h), before their readers run; what those then write from the
 * blocks goes out by one call, too (io/outbox.h). So a message costs a fraction of a system call
 * instead of two, and is sent while it is still in the cache.
 *
 *   TAKE-1  From the submission until it is told, under in.lock, the source is `taking`: nobody
 *           else reads from the descriptor, so that bytes keep their order.
 *   TAKE-2  The receives never wait (MSG_DONTWAIT), so they are over when the kernel has been
 *           entered, and told before the worker fills `takes` again.
 *   TAKE-3  Only where somebody waits, and nothing else was received: what is taken is wanted, and
 *           nobody's peer can have more than one block.
 */
#include "io/uring.h"

#if HDI_URING && !HDI_MODEL

#include <errno.h>

/* Context: in.lock. */
static bool may_take(struct hdi_source *source, hd_io handle)
{
    const bool wanted = source->lends && hdi_source_is_awaited(source);
    return hdi_source_is(source, handle) && wanted && source->collected && !source->taking &&
           !hdi_source_has(source) && !hdi_load_relaxed(&source->shared); /* TAKE-3 */
}

bool hdi_uring_take(struct hdi_uring *lane, const struct epoll_event *event, unsigned at)
{
    const hd_io handle = {event->data.u64};
    struct hdi_source *source = hdi_source_of(handle); /* LANE-2 */
    if (!source || event->events != EPOLLIN || !hdi_lane_may_act(&lane->lane)) return false;
    hdi_lock_take(&source->in.waitable.lock);
    struct hdi_block *block = may_take(source, handle) ? hdi_block_take(&lane->lane) : NULL;
    if (block) {
        source->taking = true; /* TAKE-1 */
        hdi_source_fetch_reader(source); /* Before the kernel takes its time. */
        source->in.ready = false; /* SRC-6 */
        lane->takes[at] = (struct hdi_take){handle, block};
        hdi_uring_put_take(lane, source, at);
    }
    hdi_lock_give(&source->in.waitable.lock);
    return block;
}

/* Whether it says nothing of the connection: who reads finds out. */
static bool is_passing(int result)
{
    return result == -ENOMEM || result == -EINTR || result == -ECANCELED;
}

/* Context: in.lock. The end, too, is told by the reader's own call. */
static void land(struct hdi_source *source, struct hdi_block *block, int result,
                 struct hdi_wakeups *wakeups)
{
    struct hdi_side *side = &source->in;
    const bool failed = result < 0 && result != -EAGAIN && !is_passing(result);
    source->taking = false;
    if (failed) source->failed = result;
    if (result > 0) {
        source->taken = block;
        source->taken_start = 0;
        source->taken_end = (uint16_t)result;
    }
    if (result == 0 || failed) side->unsure = true;
    if (result != -EAGAIN && (result <= 0 || result == HDI_BLOCK_BYTES)) side->ready = true;
    /* If not, nothing has come, and nobody was kept from looking (TAKE-1). */
    if (result > 0 || side->ready) hdi_side_wake(source, side, wakeups);
}

void hdi_uring_taken(struct hdi_uring *lane, unsigned at, int result, struct hdi_wakeups *wakeups)
{
    const struct hdi_take take = lane->takes[at];
    struct hdi_source *source = hdi_source_of(take.handle); /* LANE-2 */
    bool taken = false;
    if (source) {
        hdi_lock_take(&source->in.waitable.lock);
        taken = hdi_source_is(source, take.handle);
        if (taken) land(source, take.block, result, wakeups);
        hdi_lock_give(&source->in.waitable.lock);
    }
    if (!taken || result <= 0) hdi_block_give(take.block);
}

#endif
