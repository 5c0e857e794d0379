/* SPDX-License-Identifier: MIT
 *
 * lease: reading into, and writing from, buffers of the runtime. Whose they are is in loan.h.
 */
#include <heddle/lease.h>

#include <errno.h>

#include "io/do.h"
#include "io/loan.h"
#include "io/stream.h"

static struct hdi_loan loan_of(const hd_lease *lease)
{
    return (struct hdi_loan){lease->private_[0], lease->private_[1]};
}

static void begin(hd_lease *lease, struct hdi_loan loan, char *bytes, ssize_t count)
{
    *lease = (hd_lease){bytes, (size_t)count, {loan.base, loan.ring}};
}

void hd_lease_end(hd_lease *lease)
{
    struct hdi_loan loan = loan_of(lease);
    if (loan.base) hdi_loans_end(&loan, 1);
    *lease = (hd_lease){0};
}

/* ---- reading ---- */

/* Whose blocks it reads into: its lane's; before it has one, the worker's; NULL. */
static struct hdi_lane *home_of(struct hdi_source *source)
{
    struct hdi_lane *lane = hdi_load_acquire(&source->lane); /* V */
    struct hdi_worker *worker = lane ? NULL : hdi_worker_self();
    if (!worker || worker->exec.runtime != source->runtime) return lane;
    return hdi_load_acquire(&worker->lane); /* W */
}

/* Into a block, by whatever reads from its kind. */
static ssize_t read_block(struct hdi_source *source, hd_lease *lease)
{
    struct hdi_block *block = hdi_block_take(home_of(source));
    if (!block) return -ENOMEM;
    const ssize_t n = hdi_stream_try_read(source, block->bytes, HDI_BLOCK_BYTES);
    if (n > 0) begin(lease, hdi_block_loan(block), block->bytes, n);
    else hdi_block_give(block);
    return n;
}

/* What the lane took for who waited. */
static ssize_t lend_taken(struct hdi_source *source, hd_lease *lease)
{
    struct hdi_block *block = source->taken;
    const ssize_t n = source->taken_end - source->taken_start;
    begin(lease, hdi_block_loan(block), block->bytes + source->taken_start, n);
    source->taken = NULL;
    return n;
}

HDI_ALWAYS_INLINE ssize_t try_read(struct hdi_source *source, void *arg)
{
    struct hdi_loan loan;
    char *bytes;
    if (source->taken && source->held == 0) return lend_taken(source, arg);
    const bool ahead = source->fast && source->kind != HDI_SOURCE_LISTENER;
    const ssize_t n = ahead ? hdi_lane_lend(source, &loan, &bytes) : -ENODATA;
    if (n > 0) begin(arg, loan, bytes, n);
    return n == -ENODATA ? read_block(source, arg) : n;
}

HDI_ALWAYS_INLINE ssize_t take_lent(const struct hdi_lent *lent, void *arg)
{
    struct hdi_loan loan;
    const ssize_t n = hdi_lane_lent(lent, &loan);
    begin(arg, loan, loan.base, n);
    return n;
}

/* The descriptor's position moves, as by hd_read(). */
static ssize_t read_file(hd_io io, hd_lease *lease, int64_t deadline)
{
    struct hdi_block *block = hdi_block_take(NULL);
    if (!block) return -ENOMEM;
    const ssize_t n = hd_read_until(io, block->bytes, HDI_BLOCK_BYTES, deadline);
    if (n > 0) begin(lease, hdi_block_loan(block), block->bytes, n);
    else hdi_block_give(block);
    return n;
}

static bool is_file(struct hdi_source *source)
{
    return source && hdi_load_relaxed(&source->is_file); /* A guess: who reads looks again. */
}

ssize_t hd_lease_read_until(hd_io io, hd_lease *lease, int64_t deadline)
{
    struct hdi_source *source = hdi_source_of(io);
    if (lease->private_[0]) return -EINVAL;
    if (is_file(source)) return read_file(io, lease, deadline);
    return hdi_source_do_at(source, io, false, try_read, lease, HDI_BLOCK_BYTES, take_lent,
                            deadline);
}

ssize_t hd_lease_read(hd_io io, hd_lease *lease)
{
    return hd_lease_read_until(io, lease, HD_FOREVER);
}

/* ---- writing ---- */

/* Nobody's memory but the buffer's is sent. */
static void check(const hd_lease *lease)
{
    const struct hdi_loan loan = loan_of(lease);
    const size_t bytes = loan.ring ? HDI_URING_BUFFER_BYTES : HDI_BLOCK_BYTES;
    HD_CHECK_MSG(lease->bytes >= loan.base && lease->count <= bytes &&
                     (size_t)(lease->bytes - loan.base) <= bytes - lease->count,
                 "hd_lease_write: bytes and count name more than the lease has");
}

HDI_ALWAYS_INLINE ssize_t try_write(struct hdi_source *source, void *arg)
{
    hd_lease *lease = arg;
    const size_t count = lease->count;
    const bool later = source->fast && source->kind != HDI_SOURCE_LISTENER;
    if (later && hdi_lane_send_loan(source, loan_of(lease), lease->bytes, count)) {
        lease->private_[0] = NULL;
        return (ssize_t)count;
    }
    return hdi_stream_try_write(source, lease->bytes, count);
}

static ssize_t write_some(struct hdi_source *source, hd_io io, hd_lease *lease, int64_t deadline)
{
    if (is_file(source)) return hd_write_until(io, lease->bytes, lease->count, deadline);
    return hdi_source_do_at(source, io, true, try_write, lease, lease->count, NULL, deadline);
}

int hd_lease_write_until(hd_io io, hd_lease *lease, int64_t deadline)
{
    struct hdi_source *source = hdi_source_of(io);
    if (!lease->private_[0]) return -EINVAL;
    check(lease);
    while (lease->count > 0) {
        const ssize_t n = write_some(source, io, lease, deadline);
        if (n < 0) return (int)n;
        lease->bytes += n;
        lease->count -= (size_t)n;
    }
    hd_lease_end(lease);
    return 0;
}

int hd_lease_write(hd_io io, hd_lease *lease)
{
    return hd_lease_write_until(io, lease, HD_FOREVER);
}
