/* SPDX-License-Identifier: MIT */
#include "sched/inject.h"

#include "base/check.h"
#include "base/mutant.h"
#include "sched/levels.h"
#include "task/task.h"

void hdi_inject_init(struct hdi_inject *inject)
{
    *inject = (struct hdi_inject){.lock = HDI_MUTEX_INIT};
}

static void unlock_with_length(struct hdi_inject *inject, uint32_t length)
{
    if (!HDI_MUTANT(inject_len_late)) hdi_store_release(&inject->length, length); /* INJECT-1 */
    hdi_mutex_unlock(&inject->lock);
    if (HDI_MUTANT(inject_len_late)) hdi_store_release(&inject->length, length);
}

static void push_list(struct hdi_inject *inject, struct hd_task *const *tasks, unsigned count)
{
    if (inject->last) {
        inject->last->next = tasks[0];
    } else {
        inject->first = tasks[0];
    }
    inject->last = tasks[count - 1];
}

void hdi_inject_push(struct hdi_inject *inject, struct hd_task *const *tasks, unsigned count)
{
    HDI_ASSERT(count > 0);
    for (unsigned i = 0; i + 1 < count; i++) tasks[i]->next = tasks[i + 1];
    tasks[count - 1]->next = NULL;
    hdi_mutex_lock(&inject->lock);
    if (hdi_unlikely(inject->levels != NULL)) {
        for (unsigned i = 0; i < count; i++) hdi_levels_push(inject->levels, tasks[i]);
    } else {
        push_list(inject, tasks, count);
    }
    inject->total += count;
    /* Relaxed: only lock holders write it. */
    unlock_with_length(inject, hdi_load_relaxed(&inject->length) + count);
}

unsigned hdi_inject_pop(struct hdi_inject *inject, struct hd_task **out, unsigned max)
{
    if (max == 0 || hdi_inject_length(inject) == 0) return 0;
    hdi_mutex_lock(&inject->lock);
    unsigned count = 0;
    if (hdi_unlikely(inject->levels != NULL)) {
        while (count < max && (out[count] = hdi_levels_pop(inject->levels))) count++;
    }
    while (count < max && inject->first) {
        out[count] = inject->first;
        inject->first = inject->first->next;
        count++;
    }
    if (!inject->first) inject->last = NULL;
    unlock_with_length(inject, hdi_load_relaxed(&inject->length) - count);
    return count;
}

unsigned hdi_inject_share(uint32_t length, unsigned workers, bool busy)
{
    const unsigned most = busy && HDI_INJECT_BATCH_BUSY < HDI_INJECT_BATCH_MAX
                              ? HDI_INJECT_BATCH_BUSY
                              : HDI_INJECT_BATCH_MAX;
    unsigned share = length / workers;
    if (share < HDI_INJECT_BATCH_MIN) share = HDI_INJECT_BATCH_MIN;
    if (share > most) share = most;
    return share < length ? share : length;
}
