/* SPDX-License-Identifier: MIT
 *
 * uring_buffers: what was received ahead, from the kernel to the reader (URING-3).
 */
#include "io/uring.h"

#if HDI_URING && !HDI_MODEL

#include <errno.h>
#include <string.h>

#include "os/memory.h"

enum {
    NONE = UINT16_MAX,
    RING_BYTES = HDI_URING_BUFFERS * sizeof(struct io_uring_buf),
    MEMORY_BYTES = HDI_URING_BUFFERS * HDI_URING_BUFFER_BYTES,
};

int hdi_uring_buffers_init(struct hdi_uring *lane)
{
    lane->free = hdi_memory_map(RING_BYTES);
    lane->memory = hdi_memory_map(MEMORY_BYTES);
    if (!lane->free || !lane->memory) return -ENOMEM;
    struct io_uring_buf_reg registration = {.ring_addr = (uint64_t)(uintptr_t)lane->free,
                                            .ring_entries = HDI_URING_BUFFERS,
                                            .bgid = HDI_URING_GROUP};
    const int err =
        hdi_uring_call(lane, io_uring_register_buf_ring, &lane->ring, &registration, 0);
    if (err) return err;
    io_uring_buf_ring_init(lane->free);
    for (unsigned i = 0; i < HDI_URING_BUFFERS; i++) hdi_uring_give_buffer(lane, (uint16_t)i);
    return 0;
}

void hdi_uring_buffers_fini(struct hdi_uring *lane)
{
    if (lane->free) hdi_memory_unmap(lane->free, RING_BYTES);
    if (lane->memory) hdi_memory_unmap(lane->memory, MEMORY_BYTES);
}

static char *bytes_of(const struct hdi_uring *lane, uint16_t id)
{
    return lane->memory + (size_t)id * HDI_URING_BUFFER_BYTES;
}

static uint16_t id_of(const struct hdi_uring *lane, const char *base)
{
    return (uint16_t)((size_t)(base - lane->memory) / HDI_URING_BUFFER_BYTES);
}

/* As the `nth` that the kernel has not seen yet. Context: lock. */
static void add_buffer(struct hdi_uring *lane, uint16_t id, unsigned nth)
{
    io_uring_buf_ring_add(lane->free, bytes_of(lane, id), HDI_URING_BUFFER_BYTES, id,
                          HDI_URING_BUFFERS - 1, (int)nth);
}

void hdi_uring_give_buffer(struct hdi_uring *lane, uint16_t id)
{
    add_buffer(lane, id, 0);
    io_uring_buf_ring_advance(lane->free, 1);
}

void hdi_uring_link_buffer(struct hdi_uring *lane, struct hdi_source *source, uint16_t id,
                           int bytes)
{
    lane->next[id] = NONE;
    lane->start[id] = 0;
    lane->end[id] = (uint16_t)bytes;
    if (source->held == 0) {
        source->held_first = id;
    } else {
        lane->next[source->held_last] = id;
    }
    source->held_last = id;
    source->held++;
}

static uint16_t unlink_first(struct hdi_uring *lane, struct hdi_source *source)
{
    const uint16_t id = source->held_first;
    source->held_first = lane->next[id];
    source->held--;
    return id;
}

void hdi_uring_unlink_buffer(struct hdi_uring *lane, struct hdi_source *source)
{
    const uint16_t id = unlink_first(lane, source);
    hdi_lock_take(&lane->lock);
    hdi_uring_give_buffer(lane, id);
    hdi_lock_give(&lane->lock);
}

/* ---- reading ---- */

/* Copy from the first buffer. Returns how many bytes. */
static size_t copy_out(struct hdi_uring *lane, struct hdi_source *source, char *to, size_t bytes)
{
    const uint16_t id = source->held_first;
    const size_t have = (size_t)(lane->end[id] - lane->start[id]);
    const size_t n = bytes < have ? bytes : have;
    memcpy(to, bytes_of(lane, id) + lane->start[id], n);
    lane->start[id] += (uint16_t)n;
    if (n == have) hdi_uring_unlink_buffer(lane, source);
    return n;
}

/* The same from what the lane has received for who waits, which is behind all others. */
static size_t copy_taken(struct hdi_source *source, char *to, size_t bytes)
{
    const size_t have = (size_t)(source->taken_end - source->taken_start);
    const size_t n = bytes < have ? bytes : have;
    memcpy(to, source->taken->bytes + source->taken_start, n);
    source->taken_start += (uint16_t)n;
    if (n < have) return n;
    hdi_block_give(source->taken);
    source->taken = NULL;
    return n;
}

static bool has_any(const struct hdi_source *source)
{
    return source->held > 0 || source->taken;
}

static size_t copy_next(struct hdi_uring *lane, struct hdi_source *source, char *to, size_t bytes)
{
    return source->held > 0 ? copy_out(lane, source, to, bytes) : copy_taken(source, to, bytes);
}

ssize_t hdi_uring_receive(struct hdi_lane *base, struct hdi_source *source,
                          const struct iovec *parts, int count)
{
    struct hdi_uring *lane = (struct hdi_uring *)base;
    size_t got = 0;
    if (!has_any(source)) return -EAGAIN;
    for (int i = 0; i < count && has_any(source); i++) {
        for (size_t done = 0; done < parts[i].iov_len && has_any(source);) {
            const size_t n = copy_next(lane, source, (char *)parts[i].iov_base + done,
                                       parts[i].iov_len - done);
            done += n;
            got += n;
        }
    }
    return (ssize_t)got;
}

/* ---- lending ---- */

static void count_lent(struct hdi_uring *lane, unsigned change)
{
    if (lane->lane.worker == hdi_worker_self()) {
        hdi_store_relaxed(&lane->lent_here, hdi_load_relaxed(&lane->lent_here) + change);
        return;
    }
    hdi_lock_take(&lane->lock);
    hdi_store_relaxed(&lane->lent_elsewhere, hdi_load_relaxed(&lane->lent_elsewhere) + change);
    hdi_lock_give(&lane->lock);
}

/* LOAN-2. Returns false if it is to be copied. */
static bool may_lend(struct hdi_uring *lane)
{
    const bool may = hdi_uring_lent(lane) < HDI_URING_BUFFERS / 2;
    if (may) count_lent(lane, 1);
    return may;
}

ssize_t hdi_uring_lend(struct hdi_lane *base, struct hdi_source *source, struct hdi_loan *loan,
                       char **bytes)
{
    struct hdi_uring *lane = (struct hdi_uring *)base;
    if (source->held == 0) return -EAGAIN;
    if (!may_lend(lane)) return -ENODATA;
    const uint16_t id = unlink_first(lane, source);
    *loan = (struct hdi_loan){bytes_of(lane, id), base};
    *bytes = loan->base + lane->start[id];
    return lane->end[id] - lane->start[id];
}

/* What a buffer is called while it is on its way to a reader: which, and how many bytes are in it,
 * from its start on. */
enum { LENT_BITS = 16 };
_Static_assert(HDI_URING_BUFFER_BYTES < 1 << LENT_BITS && HDI_URING_BUFFERS <= 1 << LENT_BITS,
               "both fit");

bool hdi_uring_lend_last(struct hdi_uring *lane, struct hdi_source *source,
                         struct hdi_wakeups *wakeups)
{
    if (source->held != 1 || !source->reader || !source->reader_lends) return false;
    if (!may_lend(lane)) return false;
    const uint16_t id = unlink_first(lane, source); /* As soon as it is told, it is the reader's. */
    const uint16_t bytes = lane->end[id];
    HDI_ASSERT(lane->start[id] == 0);
    if (hdi_source_lend(source, (uint32_t)id << LENT_BITS | bytes, wakeups)) return true;
    hdi_uring_link_buffer(lane, source, id, bytes);
    count_lent(lane, -1u);
    return false;
}

ssize_t hdi_uring_lent_to(struct hdi_lane *base, uint32_t what, struct hdi_loan *loan)
{
    const uint16_t id = (uint16_t)(what >> LENT_BITS);
    *loan = (struct hdi_loan){bytes_of((struct hdi_uring *)base, id), base};
    return what & ((1 << LENT_BITS) - 1);
}

void hdi_uring_take_back(struct hdi_lane *base, const struct hdi_loan *loans, unsigned count)
{
    struct hdi_uring *lane = (struct hdi_uring *)base;
    hdi_lock_take(&lane->lock);
    for (unsigned i = 0; i < count; i++) add_buffer(lane, id_of(lane, loans[i].base), i);
    io_uring_buf_ring_advance(lane->free, (int)count);
    hdi_store_relaxed(&lane->returned, hdi_load_relaxed(&lane->returned) + count);
    hdi_lock_give(&lane->lock);
}

#endif
