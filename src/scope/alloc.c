/* SPDX-License-Identifier: MIT
 *
 * alloc: memory that counts. Each block begins with who pays for it, and how much.
 */
#include <errno.h>
#include <stdlib.h>

#include "scope/budget.h"

struct header {
    struct hdi_ledger *ledger; /* held; NULL: nobody counts it */
    size_t bytes;
};
_Static_assert(sizeof(struct header) == alignof(max_align_t), "what follows it is aligned");

/* ---- ledgers ---- */

static struct hdi_ledger *need_ledger(struct hdi_account *account)
{
    if (account->ledger) return account->ledger;
    struct hdi_ledger *ledger = calloc(1, sizeof(*ledger));
    if (!ledger) return NULL;
    hdi_store_relaxed(&ledger->refs, 1); /* not shared yet */
    ledger->pool = account->pool;
    hdi_pool_ref(ledger->pool);
    return account->ledger = ledger;
}

void hdi_ledger_unref(struct hdi_ledger *ledger)
{
    const uint32_t was = hdi_fetch_sub_acq_rel(&ledger->refs, 1); /* R: all that was done to it */
    HDI_ASSERT(was > 0);
    if (was != 1) return;
    hdi_pool_unref(ledger->pool);
    free(ledger);
}

static void uncount(struct hdi_ledger *ledger, size_t bytes)
{
    struct hdi_pool *source = ledger->pool->source[HD_MEMORY];
    hdi_fetch_sub_relaxed(&ledger->memory, (int64_t)bytes); /* A number of its own. */
    if (source && bytes > 0) hdi_pool_unconsume(source, HD_MEMORY, (int64_t)bytes);
}

/* *ledger is where it is counted; NULL: nowhere. */
static int count(size_t bytes, struct hdi_ledger **ledger)
{
    struct hd_task *task = hdi_task_self();
    *ledger = NULL;
    if (!task || !hdi_pool_of(task)) return 0;
    const int err = hdi_budget_pay(task, HDI_COST_CALL, 1, false);
    if (err) return err;
    struct hdi_account *own = hdi_account_need(task);
    if (!own) return -ENOMEM;
    const bool counts = own->pool->source[HD_MEMORY] || own->limit[HD_MEMORY] != HD_UNLIMITED;
    if (!counts || own->asking || bytes == 0) return 0;
    if (!need_ledger(own)) return -ENOMEM;
    *ledger = own->ledger;
    return hdi_account_draw(task, own, HD_MEMORY, (int64_t)bytes, false);
}

/* ---- blocks ---- */

int hd_alloc(size_t bytes, void **memory)
{
    struct hdi_ledger *ledger;
    if (bytes > PTRDIFF_MAX - sizeof(struct header)) return -ENOMEM;
    const int err = count(bytes, &ledger);
    if (err) return err;
    struct header *header = malloc(sizeof(*header) + bytes);
    if (!header) {
        if (ledger) uncount(ledger, bytes);
        return -ENOMEM;
    }
    *header = (struct header){ledger, bytes};
    if (ledger) hdi_fetch_add_relaxed(&ledger->refs, 1); /* The account has one. */
    *memory = header + 1;
    return 0;
}

void hd_free(void *memory)
{
    if (!memory) return;
    struct header *header = (struct header *)memory - 1;
    struct hdi_ledger *ledger = header->ledger;
    if (ledger) {
        uncount(ledger, header->bytes);
        hdi_ledger_unref(ledger);
    }
    free(header);
}
