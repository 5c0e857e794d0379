/* SPDX-License-Identifier: MIT
 *
 * outbox: what was written to connections of a lane and is sent later, all of it by one call.
 *
 * A task that writes little to a connection of its own worker's lane leaves a copy in a buffer of
 * the lane, as if the socket's own were so much larger. The worker sends what there is before it
 * sleeps, and whenever it looks for news; while it is in one task for long, or in many without a
 * look, the monitor does, at its second look. So there is none where there is no monitor.
 *
 * What lies in a buffer of the runtime (io/loan.h), be it much, is not copied: the buffer is the
 * outbox's then, and nothing is appended to it.
 *
 *   OUT-1  What is left in a source's buffer comes before all that is written later: that is
 *          appended to it while it is queued, or sent once the buffer is empty, or waits.
 *   OUT-2  Under out.lock, a buffer is in one of these states:
 *            QUEUED     the handle is in `queued`: the lane's worker will send it. Anybody may do
 *                       so before, by a system call; the handle stays, and is passed over.
 *            FLYING     the worker has it sent this moment, without the lock. Nobody else touches
 *                       the buffer, or closes the descriptor.
 *            STUCK      the kernel has not taken all: it will tell when there is room.
 *            LINGERING  so, and the handle was closed: the kernel waits in our place, up to
 *                       HDI_LINGER_NS, or who ends the runtime. The descriptor is closed when that
 *                       is over.
 *   OUT-3  A send for FLYING ones never waits (MSG_DONTWAIT), so it is over when the kernel has
 *          been entered; a completion comes only if not all was taken, and is told before the
 *          others are taken to be sent.
 *   OUT-4  An error is kept, and told by the next write or shutdown. The bytes are lost, so the
 *          connection is shut down: who reads, here or there, waits no more. Unless the other side
 *          had ended it (-EPIPE), the next read that finds the end says -ECONNRESET: where the
 *          kernel knows of a reset it tells it once, and here that was to us.
 *   OUT-5  Where a write may well fail, or wait, it does so itself: nothing is left once a read has
 *          found the end or an error, after a shutdown, and after a write that found no room, until
 *          one did. Nor once others may have the descriptor (hd_io_fd()). Who uses it for a call of
 *          another kind (hdi_source_hold()) has what is left sent before, as far as there is room.
 *   OUT-6  Only the lane's worker queues handles, and takes loans, so it does so without the lock:
 *          who takes handles out (lock) sees all up to an `end` that it has seen; the worker uses a
 *          place again, or counts a loan as ended, when it has seen that.
 */
#ifndef HDI_IO_OUTBOX_H
#define HDI_IO_OUTBOX_H

#include "io/lane.h"

#define HDI_LINGER_NS      INT64_C(10000000000)
#define HDI_LINGER_END_NS  INT64_C(1000000000) /* once the runtime ends */
#define HDI_LINGER_LOOK_NS INT64_C(5000000)    /* then, from one try to the next */

enum { HDI_OUTBOX_BUFFERS = HDI_MODEL ? 2 : 256, HDI_OUTBOX_BYTES = 4096 };

struct hdi_outbox {
    struct hdi_lock lock; /* held for what is written here, inside any other; OUT-6 */
    int pid;              /* constant: a process that was forked has copies, of others' bytes */
    char *memory;
    unsigned free_count;
    uint16_t free[HDI_OUTBOX_BUFFERS];
    _Atomic(unsigned) loans;          /* instead of those, at most as many; ever; the worker's */
    _Atomic(unsigned) loans_ended;    /* of them */
    hd_io queued[HDI_OUTBOX_BUFFERS]; /* a ring; some may be stale, or have nothing left */
    _Atomic(unsigned) end;            /* of that, counted on; the worker's */
    _Atomic(unsigned) start;
    _Atomic(unsigned) rounds;         /* how often some were taken out; read as a guess */
    unsigned rounds_seen;             /* the monitor's own */
};

/* Returns: 0, -ENOMEM. */
int hdi_outbox_init(struct hdi_outbox *outbox);
void hdi_outbox_fini(struct hdi_outbox *outbox);

/* Send all. Context: the lane's worker, no lock. */
void hdi_outbox_send(struct hdi_lane *lane, struct hdi_wakeups *wakeups);

/* The same by system calls. Context: any thread, no lock. */
void hdi_outbox_stand_in(struct hdi_lane *lane, struct hdi_wakeups *wakeups);

/* The same, if nothing was sent since the last look. Context: the monitor. */
void hdi_outbox_send_overdue(struct hdi_lane *lane, struct hdi_wakeups *wakeups);

/* The kernel took `result` bytes of a FLYING or LINGERING buffer, or none. Context: no lock. */
void hdi_outbox_fell_short(hd_io handle, int result, struct hdi_wakeups *wakeups);
void hdi_outbox_lingered(hd_io handle, int result);

/* There is room in the socket: first for what is STUCK. Context: out.lock. Returns whether there
 * may be some left. */
bool hdi_outbox_goes_on(struct hdi_source *source);

#endif
