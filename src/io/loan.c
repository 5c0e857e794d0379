/* SPDX-License-Identifier: MIT
 *
 * loan: blocks, and giving back what was lent. The rules are in loan.h.
 */
#include "io/loan.h"

#include <stdlib.h>

#include "io/lane.h"

_Static_assert(sizeof(struct hdi_block) == 32 << 10, "a whole number of pages");
_Static_assert(HDI_BLOCK_BYTES == HD_LEASE_MAX, "as the header says");

static struct hdi_block *take_spare(struct hdi_spares *spares)
{
    hdi_lock_take(&spares->lock);
    struct hdi_block *block = spares->first;
    if (block) {
        spares->first = block->next;
        spares->count--;
    }
    hdi_lock_give(&spares->lock);
    return block;
}

struct hdi_block *hdi_block_take(struct hdi_lane *home)
{
    struct hdi_block *block = home ? take_spare(&home->spares) : NULL;
    if (block) return block;
    block = aligned_alloc(alignof(struct hdi_block), sizeof(*block));
    if (block) block->home = home;
    return block;
}

/* Context: its lock. */
static void put_spare(struct hdi_spares *spares, struct hdi_block *block)
{
    block->next = spares->first;
    spares->first = block;
    spares->count++;
}

void hdi_spares_keep(struct hdi_spares *spares, struct hdi_block *block)
{
    hdi_lock_take(&spares->lock);
    put_spare(spares, block);
    hdi_lock_give(&spares->lock);
}

/* Returns false if there are enough. */
static bool is_kept(struct hdi_spares *spares, struct hdi_block *block)
{
    hdi_lock_take(&spares->lock);
    const bool kept = spares->count < HDI_SPARES_MAX;
    if (kept) put_spare(spares, block);
    hdi_lock_give(&spares->lock);
    return kept;
}

void hdi_block_give(struct hdi_block *block)
{
    if (!block->home || !is_kept(&block->home->spares, block)) free(block);
}

void hdi_spares_fini(struct hdi_spares *spares)
{
    for (struct hdi_block *block; (block = take_spare(spares));) free(block);
}

void hdi_loan_end(struct hdi_loan loan)
{
    if (loan.ring) loan.ring->kind->take_back(loan.ring, loan.base);
    else hdi_block_give(hdi_block_of(loan.base));
}
