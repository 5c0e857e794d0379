/* SPDX-License-Identifier: MIT
 *
 * uring_fault: submissions that fail when a test asks for it (os/sys.h). In place of what was
 * wanted, the kernel is asked to do nothing, and to say the error.
 *
 * Older kernels cannot say one: there a lane whose calls are to fail leaves them to system calls
 * (hdi_lane_may_act).
 */
#include "io/uring.h"

#if HDI_URING && !HDI_MODEL

#define FEAT_NOP_RESULT (1U << 14) /* Linux 6.10, which has that, too, and no flag for it */
#define NOP_RESULT      1U         /* a flag of IORING_OP_NOP, which liburing does not know yet */

void hdi_uring_fault_init(struct hdi_uring *lane)
{
    lane->lane.fails = lane->ring.features & FEAT_NOP_RESULT;
}

void hdi_uring_fault(struct hdi_uring *lane, struct io_uring_sqe *sqe, const char *name)
{
    if (!lane->lane.fails) return;
    const int err = hdi_sys_fails(lane->lane.worker->exec.runtime, name);
    if (!err) return;
    const struct io_uring_sqe asked = *sqe;
    io_uring_prep_nop(sqe);
    sqe->len = (unsigned)err;
    sqe->rw_flags = NOP_RESULT;
    sqe->flags = asked.flags & IOSQE_IO_LINK;
    sqe->user_data = asked.user_data;
}

#endif
