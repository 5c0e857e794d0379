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

#define BEHIND_ONE (UINT64_C(1) << 32)

/* Context: lock held. Relaxed: only its holders write the length. */
static void unlock_with(struct hdi_inject *inject, uint64_t change)
{
    const uint64_t length = hdi_load_relaxed(&inject->length) + change;
    if (!HDI_MUTANT(inject_len_late)) hdi_store_release(&inject->length, length); /* INJECT-1 */
    hdi_mutex_unlock(&inject->lock);
    if (HDI_MUTANT(inject_len_late)) hdi_store_release(&inject->length, length);
}

static void chain(struct hd_task *const *tasks, unsigned count)
{
    HDI_ASSERT(count > 0);
    for (unsigned i = 0; i + 1 < count; i++) tasks[i]->next = tasks[i + 1];
    tasks[count - 1]->next = NULL;
}

static void append(struct hd_task **first, struct hd_task **last, struct hd_task *const *tasks,
                   unsigned count)
{
    if (*last) {
        (*last)->next = tasks[0];
    } else {
        *first = tasks[0];
    }
    *last = tasks[count - 1];
}

void hdi_inject_push(struct hdi_inject *inject, struct hd_task *const *tasks, unsigned count)
{
    chain(tasks, count);
    hdi_mutex_lock(&inject->lock);
    if (hdi_unlikely(inject->levels != NULL)) {
        for (unsigned i = 0; i < count; i++) hdi_levels_push(inject->levels, tasks[i]);
    } else {
        append(&inject->first, &inject->last, tasks, count);
    }
    inject->total += count;
    unlock_with(inject, count);
}

void hdi_inject_push_behind(struct hdi_inject *inject, struct hd_task *const *tasks,
                            unsigned count)
{
    HDI_ASSERT(!inject->levels);
    chain(tasks, count);
    hdi_mutex_lock(&inject->lock);
    if (!inject->behind_first) inject->passed = 0;
    append(&inject->behind_first, &inject->behind_last, tasks, count);
    inject->total += count;
    unlock_with(inject, count * BEHIND_ONE);
}

void hdi_inject_put_behind(struct hdi_inject *inject)
{
    hdi_mutex_lock(&inject->lock);
    const uint64_t count = hdi_inject_front(hdi_load_relaxed(&inject->length));
    if (count > 0) {
        if (!inject->behind_first) inject->passed = 0;
        struct hd_task *ends[] = {inject->first, inject->last};
        append(&inject->behind_first, &inject->behind_last, ends, 2);
        inject->first = inject->last = NULL;
    }
    unlock_with(inject, count * (BEHIND_ONE - 1));
}

unsigned hdi_inject_pop(struct hdi_inject *inject, struct hd_task **out, unsigned max)
{
    if (max == 0 || hdi_inject_front(hdi_inject_lengths(inject)) == 0) return 0;
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
    unlock_with(inject, -(uint64_t)count);
    return count;
}

struct hd_task *hdi_inject_pop_behind(struct hdi_inject *inject, bool nothing_else)
{
    if (hdi_inject_behind(hdi_inject_lengths(inject)) == 0) return NULL;
    hdi_mutex_lock(&inject->lock);
    const bool turn = nothing_else || inject->passed++ >= HDI_INJECT_AGE;
    struct hd_task *task = turn ? inject->behind_first : NULL;
    if (task) {
        inject->passed = 0;
        inject->behind_first = task->next;
        if (!task->next) inject->behind_last = NULL;
    }
    unlock_with(inject, task ? -BEHIND_ONE : 0);
    return task;
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
