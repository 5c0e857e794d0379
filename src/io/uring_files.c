/* SPDX-License-Identifier: MIT
 *
 * uring_files: descriptors that a ring knows by a place in a table of its own, so that it need not
 * look them up, and count a use of them, for each submission.
 *
 * A source gets a place when it was used USES times: asking costs a submission, and so
 * does the end. Submissions with multishot need none: they look up once.
 *
 *   FILE-1  A place is used once the kernel has said that the descriptor is there.
 *   FILE-2  The table keeps a connection open until the kernel has forgotten it, which takes no
 *           memory, and does not fail. The lane's worker has it do so before it closes one; of one
 *           that another closes, the other side learns the end before that (hdi_socket_end()).
 *
 * Older kernels put off what they forget for as long as any request goes on, so none is known there
 * (liburing, issue 1192).
 */
#include "io/uring.h"

#if HDI_URING && !HDI_MODEL

#include <stdlib.h>
#include <sys/resource.h>

enum { USES = 16 };

#define FEAT_RW_ATTR (1U << 16) /* Linux 6.14; what is needed came with 6.13, without a flag */

static const int nothing = -1;

void hdi_uring_files_init(struct hdi_uring *lane)
{
    struct hd_runtime *runtime = lane->lane.worker->exec.runtime;
    struct rlimit limit;
    if (!(lane->ring.features & FEAT_RW_ATTR)) return;
    if (hdi_live(runtime, getrlimit, RLIMIT_NOFILE, &limit) != 0) return;
    /* With more than the process may have open, liburing would raise that limit. */
    const bool few = limit.rlim_cur < HDI_URING_FILES;
    const unsigned count = few ? (unsigned)limit.rlim_cur : HDI_URING_FILES;
    lane->files = malloc(count * sizeof(*lane->files));
    if (!lane->files) return;
    if (hdi_uring_call(lane, io_uring_register_files_sparse, &lane->ring, count) != 0) return;
    for (unsigned i = 0; i < count; i++) lane->files[i] = (uint16_t)(count - 1 - i);
    lane->file_count = count;
}

void hdi_uring_files_fini(struct hdi_uring *lane)
{
    free(lane->files);
}

static struct io_uring_sqe *put_update(struct hdi_uring *lane, const int *fd, uint16_t place,
                                       uint64_t name)
{
    struct io_uring_sqe *sqe = hdi_uring_place(lane);
    io_uring_prep_files_update(sqe, (int *)(uintptr_t)fd, 1, place);
    io_uring_sqe_set_data64(sqe, name);
    return sqe;
}

void hdi_uring_address(struct hdi_uring *lane, struct hdi_source *source, struct io_uring_sqe *sqe,
                       uint64_t name)
{
    if (source->known) {
        sqe->fd = source->file;
        sqe->flags |= IOSQE_FIXED_FILE;
    } else if (source->uses < USES && ++source->uses == USES && lane->file_count > 0) {
        source->file = lane->files[--lane->file_count];
        source->filed = true;
        hdi_uring_may_fail(lane, put_update(lane, &source->fd, source->file, name), "ring_file");
        source->asked_at = lane->ring.sq.sqe_tail;
    }
}

/* One that is stale is forgotten in any case. */
void hdi_uring_file_told(struct hdi_uring *lane, hd_io handle, int result)
{
    struct hdi_source *source = hdi_source_of(handle); /* LANE-2 */
    if (!source) return;
    hdi_lock_take(&lane->lock);
    if (hdi_source_is(source, handle)) source->known = result == 1; /* FILE-1 */
    hdi_lock_give(&lane->lock);
}

void hdi_uring_file_forget(struct hdi_uring *lane, struct hdi_source *source, uint64_t name)
{
    if (!source->filed) return;
    (void)put_update(lane, &nothing, source->file, name);
    lane->files[lane->file_count++] = source->file;
}

#endif
