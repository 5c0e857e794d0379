/* SPDX-License-Identifier: MIT
 *
 * uring_send: submissions that send what the outbox has (io/outbox.h).
 */
#include "io/uring.h"

#if HDI_URING && !HDI_MODEL

#include <sys/socket.h>

/* Completes only if it fails, or not all was sent (OUT-3). Context: lock. */
static void put_send(struct hdi_uring *lane, const struct hdi_send *send)
{
    struct io_uring_sqe *sqe = hdi_uring_place(lane);
    io_uring_prep_send(sqe, send->source->fd, send->unsent.iov_base, send->unsent.iov_len,
                       MSG_DONTWAIT | MSG_WAITALL | MSG_NOSIGNAL);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    io_uring_sqe_set_data64(sqe, hdi_uring_name(send->handle, HDI_TAG_SEND));
    hdi_uring_may_fail(lane, sqe, "ring_send");
    hdi_uring_address(lane, send->source, sqe, hdi_uring_name(send->handle, HDI_TAG_FILE));
}

_Static_assert(2 * HDI_SENDS_MAX <= HDI_URING_SUBMISSIONS, "there is room for all");

/* A send that fails is told by another thread, perhaps, and the descriptor closed, as soon as the
 * kernel has seen it: so not before the ring was asked to know that (FILE-2). */
void hdi_uring_put_sends(struct hdi_lane *base, const struct hdi_send *sends, unsigned count)
{
    struct hdi_uring *lane = (struct hdi_uring *)base;
    hdi_lock_take(&lane->lock);
    while (io_uring_sq_space_left(&lane->ring) < 2 * count) hdi_uring_hand_over(lane);
    for (unsigned i = 0; i < count; i++) put_send(lane, &sends[i]);
    hdi_lock_give(&lane->lock);
}

_Static_assert(sizeof(struct timespec) == sizeof(struct __kernel_timespec), "one is the other");

void hdi_uring_put_linger(struct hdi_lane *base, struct hdi_source *source, struct iovec unsent)
{
    struct hdi_uring *lane = (struct hdi_uring *)base;
    hdi_lock_take(&lane->lock);
    /* The two go together. */
    while (io_uring_sq_space_left(&lane->ring) < 2) hdi_uring_hand_over(lane);
    struct io_uring_sqe *sqe = hdi_uring_place(lane);
    io_uring_prep_send(sqe, source->fd, unsent.iov_base, unsent.iov_len,
                       MSG_WAITALL | MSG_NOSIGNAL);
    sqe->flags |= IOSQE_IO_LINK;
    io_uring_sqe_set_data64(sqe, hdi_uring_name(hdi_source_handle(source), HDI_TAG_LINGER));
    hdi_uring_may_fail(lane, sqe, "ring_linger");
    sqe = hdi_uring_place(lane);
    io_uring_prep_link_timeout(sqe, (struct __kernel_timespec *)&source->linger_until,
                               IORING_TIMEOUT_ABS);
    io_uring_sqe_set_data64(sqe, HDI_TAG_DONE);
    hdi_lock_give(&lane->lock);
    hdi_uring_told(lane);
}

#endif
