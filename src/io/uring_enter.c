/* SPDX-License-Identifier: MIT
 *
 * uring_enter: entering the kernel, by the lane's worker, or in its place (URING-5).
 */
#include "io/uring.h"

#if HDI_URING && !HDI_MODEL

#include <errno.h>

#include "sched/prod.h"

/* Context: lock. */
static unsigned publish(struct hdi_uring *lane)
{
    struct io_uring_sq *sq = &lane->ring.sq;
    sq->sqe_head = sq->sqe_tail;
    io_uring_smp_store_release(sq->ktail, sq->sqe_tail);
    return sq->sqe_tail;
}

unsigned hdi_uring_publish(struct hdi_uring *lane)
{
    hdi_lock_take(&lane->lock);
    const unsigned tail = publish(lane);
    hdi_lock_give(&lane->lock);
    return tail;
}

/* Nothing but a test's fault makes it fail: then it is done again. Or it was done in between, by
 * hdi_uring_prodded(). */
void hdi_uring_enable(struct hdi_uring *lane)
{
    hdi_prod_admit(lane->lane.worker);
    const int err = hdi_uring_call(lane, io_uring_register, (unsigned)lane->ring.ring_fd,
                                   IORING_REGISTER_ENABLE_RINGS, NULL, 0);
    hdi_store_relaxed(&lane->enabled, err == 0 || err == -EBADFD); /* Its own. */
}

/* It stops halfway, or before, while it has no memory for a request, which passes. */
void hdi_uring_enter(struct hdi_uring *lane, unsigned tail)
{
    const unsigned fd = (unsigned)lane->ring.enter_ring_fd;
    int err;
    do {
        hdi_uring_enable_once(lane);
        err = hdi_uring_call(lane, io_uring_enter, fd, hdi_uring_left(lane, tail), 0,
                             IORING_ENTER_GETEVENTS, NULL);
        HDI_ASSERT(err >= 0 || err == -EINTR || err == -EAGAIN || err == -ENOMEM || err == -EBUSY ||
                   err == -EBADR || /* It has lost a completion, for want of memory. */
                   err == -EBADFD); /* It was not enabled. */
        if (err < 0) hdi_thread_yield();
    } while (err == -EINTR || hdi_uring_left(lane, tail) > 0);
}

void hdi_uring_look(struct hdi_uring *lane)
{
    const unsigned tail = hdi_uring_publish(lane);
    if (hdi_uring_left(lane, tail) > 0 || hdi_uring_is_called(lane)) hdi_uring_enter(lane, tail);
}

/* The worker is anywhere, even in hdi_uring_enter(), or before its first. */
void hdi_uring_prodded(struct hdi_lane *base)
{
    const struct hdi_uring *lane = (struct hdi_uring *)base;
    const unsigned tail = io_uring_smp_load_acquire(lane->ring.sq.ktail);
    if (!hdi_load_relaxed(&lane->enabled)) { /* Its own: it finds that it was done. */
        (void)io_uring_register((unsigned)lane->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL,
                                0);
    }
    (void)io_uring_enter((unsigned)lane->ring.enter_ring_fd, hdi_uring_left(lane, tail), 0,
                         IORING_ENTER_GETEVENTS, NULL);
}

/* The program may have taken the signal from us: then who sleeps is woken otherwise. */
void hdi_uring_prod(struct hdi_uring *lane)
{
    struct hdi_worker *worker = lane->lane.worker;
    if (!hdi_prod(worker)) hdi_parker_unpark(&worker->parker);
}

void hdi_uring_hand_over(struct hdi_uring *lane)
{
    const unsigned tail = publish(lane);
    hdi_lock_give(&lane->lock);
    if (hdi_uring_is_own(lane)) {
        hdi_uring_enter(lane, tail);
    } else {
        do hdi_uring_prod(lane);
        while (hdi_uring_left(lane, tail) > 0);
    }
    hdi_lock_take(&lane->lock);
}

#endif
