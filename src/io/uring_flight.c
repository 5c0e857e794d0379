/* SPDX-License-Identifier: MIT
 *
 * uring_flight: submissions of calls with memory of their callers (struct hdi_flight), and taking
 * them back while nobody but us has seen them.
 */
#include "io/uring.h"

#if HDI_URING && !HDI_MODEL

void hdi_uring_put_flight(struct hdi_uring *lane, struct hdi_flight *flight, uint64_t name)
{
    struct io_uring_sqe *sqe = hdi_uring_place(lane);
    flight->place = lane->ring.sq.sqe_tail - 1;
    switch (flight->kind) {
    case HDI_FLIGHT_READ:
        io_uring_prep_readv(sqe, flight->fd, flight->parts, flight->count, flight->offset);
        break;
    case HDI_FLIGHT_WRITE:
        io_uring_prep_writev(sqe, flight->fd, flight->parts, flight->count, flight->offset);
        break;
    case HDI_FLIGHT_SYNC: io_uring_prep_fsync(sqe, flight->fd, 0); break;
    case HDI_FLIGHT_DATA_SYNC:
        io_uring_prep_fsync(sqe, flight->fd, IORING_FSYNC_DATASYNC);
        break;
    }
    io_uring_sqe_set_data64(sqe, name);
    hdi_uring_may_fail(lane, sqe, "ring_flight");
}

/* What publish() has shown the kernel is before sqe_head. The count of places comes round while a
 * read waits, in hours, so the place alone does not say whose it is. */
bool hdi_uring_drop_flight(struct hdi_uring *lane, const struct hdi_flight *flight, uint64_t name,
                           uint64_t dropped)
{
    struct io_uring_sq *sq = &lane->ring.sq;
    struct io_uring_sqe *sqe = &sq->sqes[flight->place & sq->ring_mask];
    const bool ours = flight->place - sq->sqe_head < sq->sqe_tail - sq->sqe_head;
    if (!ours || sqe->user_data != name) return false;
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data64(sqe, dropped);
    return true;
}

#endif
