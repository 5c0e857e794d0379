/* SPDX-License-Identifier: MIT
 *
 * loan: buffers of lanes that tasks have on lease (heddle/lease.h).
 *
 *   block       HDI_BLOCK_BYTES, which a task, or the lane for it, asks the kernel to fill. Spare
 *               ones are kept by their lane, the last used first: it is still in the cache. That is
 *               the lane of the source which was read; all of a runtime's end together.
 *   of a ring   where the kernel has put bytes before anybody asked (io/uring.h)
 *
 *   LOAN-1  A buffer has one owner: the kernel; a lane, as a spare; a source, as what was received
 *           (in.lock) or is to be sent (out.lock); a lease, or the fiber that has asked for one and
 *           was lent it while it waited (SRC-9). Who has it last gives it back.
 *   LOAN-2  Leases, and the outbox, have at most half of a ring's buffers, but for what several
 *           threads lend at the same moment: from then on bytes are copied out.
 */
#ifndef HDI_IO_LOAN_H
#define HDI_IO_LOAN_H

#include <stdalign.h>

#include "io/source.h"

enum {
    HDI_BLOCK_BYTES = (32 << 10) - HDI_CACHE_LINE, /* with its head: a whole number of pages */
    HDI_SPARES_MAX = 32,                           /* that a lane keeps, in either list */
    HDI_URING_BUFFER_BYTES = 2048,                 /* of a ring's */
};

struct hdi_block {
    struct hdi_block *next; /* spare */
    struct hdi_lane *home;  /* constant; NULL: none, and it is freed */
    alignas(HDI_CACHE_LINE) char bytes[HDI_BLOCK_BYTES];
};

/* Blocks that a lane keeps. Its worker, who takes and gives most of them, has a list of its own,
 * and no lock on the way. */
struct hdi_spares {
    unsigned own_count; /* the worker's, as the next */
    struct hdi_block *own_first;
    struct hdi_lock lock; /* held for these, inside any other */
    unsigned count;
    struct hdi_block *first;
};

void hdi_spares_fini(struct hdi_spares *spares);

/* Keep one more, however many there are. */
void hdi_spares_keep(struct hdi_spares *spares, struct hdi_block *block);

/* A block of this lane, which may be NULL. Context: any. Returns NULL if memory is short. */
struct hdi_block *hdi_block_take(struct hdi_lane *home);
void hdi_block_give(struct hdi_block *block);

static inline struct hdi_block *hdi_block_of(char *bytes)
{
    return (struct hdi_block *)(bytes - offsetof(struct hdi_block, bytes));
}

static inline struct hdi_loan hdi_block_loan(struct hdi_block *block)
{
    return (struct hdi_loan){block->bytes, NULL};
}

/* Blocks, and buffers of one ring; they are put into another order. Context: any lock but a
 * lane's. */
void hdi_loans_end(struct hdi_loan *loans, unsigned count);

#endif
