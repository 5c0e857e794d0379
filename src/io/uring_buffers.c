/* SPDX-License-Identifier: MIT
 *
 * uring_buffers: what was received ahead, from the kernel to the reader (URING-3).
 */
#include "io/uring.h"

#if HDI_URING && !HDI_MODEL

#include <errno.h>
#include <string.h>

enum { NONE = UINT16_MAX };

static char *bytes_of(const struct hdi_uring *lane, uint16_t id)
{
    return lane->memory + (size_t)id * HDI_URING_BUFFER_BYTES;
}

void hdi_uring_give_buffer(struct hdi_uring *lane, uint16_t id)
{
    io_uring_buf_ring_add(lane->free, bytes_of(lane, id), HDI_URING_BUFFER_BYTES, id,
                          HDI_URING_BUFFERS - 1, 0);
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

void hdi_uring_unlink_buffer(struct hdi_uring *lane, struct hdi_source *source)
{
    const uint16_t id = source->held_first;
    source->held_first = lane->next[id];
    source->held--;
    hdi_lock_take(&lane->lock);
    hdi_uring_give_buffer(lane, id);
    hdi_lock_give(&lane->lock);
}

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

ssize_t hdi_uring_receive(struct hdi_lane *base, struct hdi_source *source,
                          const struct iovec *parts, int count)
{
    struct hdi_uring *lane = (struct hdi_uring *)base;
    size_t got = 0;
    if (source->held == 0) return -EAGAIN;
    for (int i = 0; i < count && source->held > 0; i++) {
        for (size_t done = 0; done < parts[i].iov_len && source->held > 0;) {
            const size_t n = copy_out(lane, source, (char *)parts[i].iov_base + done,
                                      parts[i].iov_len - done);
            done += n;
            got += n;
        }
    }
    return (ssize_t)got;
}

#endif
