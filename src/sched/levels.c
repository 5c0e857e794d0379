/* SPDX-License-Identifier: MIT */
#include "sched/levels.h"

#include <stddef.h>

#include "base/check.h"
#include "task/task.h"

static const uint32_t ages[HDI_LEVELS] = HDI_LEVEL_AGES;

void hdi_levels_init(struct hdi_levels *levels)
{
    *levels = (struct hdi_levels){{{NULL, NULL, 0}}};
}

void hdi_levels_push(struct hdi_levels *levels, struct hd_task *task)
{
    HDI_ASSERT(task->level < HDI_LEVELS);
    struct hdi_level *level = &levels->levels[task->level];
    task->next = NULL;
    if (level->first) {
        level->last->next = task;
    } else {
        level->first = task;
        level->passed = 0;
    }
    level->last = task;
}

/* Whose turn it is; NULL if all are empty. */
static struct hdi_level *choose(struct hdi_levels *levels)
{
    for (int i = 0; i < HDI_LEVELS - 1; i++) {
        struct hdi_level *level = &levels->levels[i];
        if (level->first && level->passed >= ages[i]) return level;
    }
    for (int i = HDI_LEVELS - 1; i >= 0; i--) {
        if (levels->levels[i].first) return &levels->levels[i];
    }
    return NULL;
}

struct hd_task *hdi_levels_pop(struct hdi_levels *levels)
{
    struct hdi_level *chosen = choose(levels);
    if (!chosen) return NULL;
    for (int i = 0; i < HDI_LEVELS; i++) levels->levels[i].passed++;
    chosen->passed = 0;
    struct hd_task *task = chosen->first;
    chosen->first = task->next;
    return task;
}
