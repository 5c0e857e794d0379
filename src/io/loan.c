/* SPDX-License-Identifier: MIT
 *
 * loan: blocks, and giving back what was lent. The rules are in loan.h.
 */
#include "io/loan.h"

#include <stdlib.h>

#include "io/lane.h"

_Static_assert(sizeof(struct hdi_block) == 32 << 10, "a whole number of pages");
_Static_assert(HDI_BLOCK_BYTES == HD_LEASE_MAX, "as the header says");

static bool is_own(const struct hdi_lane *lane)
{
    return lane->worker == hdi_worker_self();
}

static struct hdi_block *pop(struct hdi_block **first, unsigned *count)
{
    struct hdi_block *block = *first;
    if (!block) return NULL;
    *first = block->next;
    --*count;
    return block;
}

static void push(struct hdi_block **first, unsigned *count, struct hdi_block *block)
{
    block->next = *first;
    *first = block;
    ++*count;
}

static struct hdi_block *pop_shared(struct hdi_spares *spares)
{
    hdi_lock_take(&spares->lock);
    struct hdi_block *block = pop(&spares->first, &spares->count);
    hdi_lock_give(&spares->lock);
    return block;
}

static struct hdi_block *take_spare(struct hdi_lane *home)
{
    struct hdi_spares *spares = &home->spares;
    struct hdi_block *block = NULL;
    if (is_own(home)) block = pop(&spares->own_first, &spares->own_count);
    return block ? block : pop_shared(spares);
}

struct hdi_block *hdi_block_take(struct hdi_lane *home)
{
    struct hdi_block *block = home ? take_spare(home) : NULL;
    if (block) return block;
    block = aligned_alloc(alignof(struct hdi_block), sizeof(*block));
    if (block) block->home = home;
    return block;
}

void hdi_spares_keep(struct hdi_spares *spares, struct hdi_block *block)
{
    hdi_lock_take(&spares->lock);
    push(&spares->first, &spares->count, block);
    hdi_lock_give(&spares->lock);
}

/* Returns false if there are enough. */
static bool keep_shared(struct hdi_spares *spares, struct hdi_block *block)
{
    hdi_lock_take(&spares->lock);
    const bool kept = spares->count < HDI_SPARES_MAX;
    if (kept) push(&spares->first, &spares->count, block);
    hdi_lock_give(&spares->lock);
    return kept;
}

static bool keep(struct hdi_lane *home, struct hdi_block *block)
{
    struct hdi_spares *spares = &home->spares;
    if (!is_own(home) || spares->own_count == HDI_SPARES_MAX) return keep_shared(spares, block);
    push(&spares->own_first, &spares->own_count, block);
    return true;
}

void hdi_block_give(struct hdi_block *block)
{
    if (!block->home || !keep(block->home, block)) free(block);
}

void hdi_spares_fini(struct hdi_spares *spares)
{
    for (struct hdi_block *block; (block = pop(&spares->own_first, &spares->own_count));) {
        free(block);
    }
    for (struct hdi_block *block; (block = pop_shared(spares));) free(block);
}

void hdi_loans_end(struct hdi_loan *loans, unsigned count)
{
    struct hdi_lane *ring = NULL;
    unsigned rings = 0;
    for (unsigned i = 0; i < count; i++) {
        if (!loans[i].ring) {
            hdi_block_give(hdi_block_of(loans[i].base));
            continue;
        }
        HDI_ASSERT(!ring || ring == loans[i].ring);
        ring = loans[i].ring;
        loans[rings++] = loans[i];
    }
    if (ring) ring->kind->take_back(ring, loans, rings);
}
