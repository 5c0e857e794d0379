/* SPDX-License-Identifier: MIT */
#include "sim/branch.h"

#include <string.h>

static const struct hdi_option *taken(const struct hdi_branches *b, uint32_t stage)
{
    return &b->options[b->stages[stage].first + b->stages[stage].picked];
}

static bool depend(const struct hdi_option *a, const struct hdi_option *b)
{
    const struct hdi_actor x = {.object = a->object, .kind = (hd_touch_kind)a->kind};
    const struct hdi_actor y = {.object = b->object, .kind = (hd_touch_kind)b->kind};
    return hdi_actors_depend(&x, &y);
}

bool hdi_branch_sleeps(const struct hdi_branches *b, const struct hdi_option *option,
                       const struct hdi_option *taken_here)
{
    if (b->bound != HDI_BOUND_NONE || option == taken_here) return false;
    if (!(option->flags & (HDI_OPTION_ASLEEP | HDI_OPTION_TRIED))) return false;
    return !depend(option, taken_here);
}

/* ---- clocks ---- */

static uint32_t *clock_of(struct hdi_branches *b, uint32_t stage)
{
    return &b->clocks[(size_t)stage * b->width];
}

static void join(struct hdi_branches *b, uint32_t *clock, uint32_t stage)
{
    const uint32_t *other = clock_of(b, stage);
    for (uint32_t i = 0; i < b->width; i++) {
        if (clock[i] < other[i]) clock[i] = other[i];
    }
}

/* The step at a stage, or one that was about to be taken. */
struct move {
    const struct hdi_option *option;
    uint32_t stage;    /* where it is, or would be */
    uint32_t own;
    uint32_t previous; /* its task's last stage before, from 1; 0: none */
    uint32_t enabler;  /* as in struct hdi_stage */
};

/* The clock of what happens before the move anyway. */
static uint32_t *begin_clock(struct hdi_branches *b, const struct move *move)
{
    uint32_t *clock = clock_of(b, move->stage);
    memset(clock, 0, b->width * sizeof(*clock));
    if (move->previous) join(b, clock, move->previous - 1);
    if (move->enabler) join(b, clock, move->enabler - 1);
    return clock;
}

/* How many tasks have steps beyond this clock. */
static uint32_t count_open(const struct hdi_branches *b, const uint32_t *clock)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < b->tasks; i++) {
        const uint32_t before = b->roster[i].before;
        open += before && b->stages[before - 1].own > clock[i];
    }
    return open;
}

/* Without a bound only what nothing in between orders is a race: the others become races when that
 * one is the other way round. With one, that schedule may be too dear, so the last step of each
 * task counts. Returns how many there are, in b->races.
 *
 * Most of what is long ago happens before the move: the search ends where no task has a step left
 * of which that is not known. One whose steps were all seen may be counted once more after a join;
 * then the search goes on for longer than it has to. */
static uint32_t relate(struct hdi_branches *b, const struct move *move)
{
    uint32_t *clock = begin_clock(b, move), count = 0, open = count_open(b, clock);
    for (uint32_t i = move->stage; open > 0 && i-- > 0;) {
        const struct hdi_option *other = taken(b, i);
        const uint32_t own = b->stages[i].own, known = clock[other->number];
        if (known >= own) continue;
        if (depend(other, move->option)) {
            b->races[count++] = i;
            join(b, clock, i);
            open = count_open(b, clock);
        } else if (own == known + 1) {
            open--;
        }
    }
    clock[move->option->number] = move->own;
    return count;
}

/* The last step of this task that the move depends on, and that does not happen before it anyway:
 * its stage, from 1; 0: there is none. */
static uint32_t last_race(const struct hdi_branches *b, const struct hdi_roster *task,
                          const struct move *move)
{
    uint32_t i = task->before;
    while (i && b->stages[i - 1].own > task->limit && !depend(taken(b, i - 1), move->option)) {
        i = b->stages[i - 1].previous;
    }
    return i && b->stages[i - 1].own > task->limit ? i : 0;
}

static uint32_t relate_bounded(struct hdi_branches *b, const struct move *move)
{
    uint32_t *clock = begin_clock(b, move), count = 0;
    for (uint32_t i = 0; i < b->tasks; i++) b->roster[i].limit = clock[i];
    for (uint32_t i = 0; i < b->tasks; i++) {
        const uint32_t stage = last_race(b, &b->roster[i], move);
        if (!stage) continue;
        b->races[count++] = stage - 1;
        join(b, clock, stage - 1);
    }
    clock[move->option->number] = move->own;
    return count;
}

/* ---- branches ---- */

static struct hdi_option *option_of(struct hdi_branches *b, uint32_t stage, uint32_t number)
{
    struct hdi_option *options = hdi_branch_options(b, stage);
    for (uint32_t i = 0; i < b->stages[stage].count; i++) {
        if (options[i].number != number) continue;
        return options[i].flags & HDI_OPTION_HELD ? NULL : &options[i]; /* BRANCH-3 */
    }
    return NULL;
}

static void try_all(struct hdi_branches *b, uint32_t stage)
{
    struct hdi_option *options = hdi_branch_options(b, stage);
    for (uint32_t i = 0; i < b->stages[stage].count; i++) {
        if (!(options[i].flags & HDI_OPTION_HELD)) options[i].flags |= HDI_OPTION_TRY;
    }
}

static void try_task(struct hdi_branches *b, uint32_t stage, uint32_t number)
{
    struct hdi_option *option = option_of(b, stage, number);
    if (option) {
        option->flags |= HDI_OPTION_TRY;
    } else {
        try_all(b, stage);
    }
}

static void branch_bounded(struct hdi_branches *b, uint32_t i, uint32_t number)
{
    try_task(b, i, number);
    const uint32_t other = taken(b, i)->number;
    while (i > 0 && taken(b, i - 1)->number == other) i--;
    try_task(b, i, number);
}

/* The first step of each task among those after i, up to the move, that do not happen after i.
 * Their tasks are put into b->races from `from` on. Returns where they end. */
static uint32_t collect(struct hdi_branches *b, uint32_t i, const struct move *move, uint32_t from)
{
    const uint64_t stamp = ++b->stamp;
    const uint32_t self = taken(b, i)->number, own = b->stages[i].own;
    uint32_t end = from;
    for (uint32_t k = i + 1; k <= move->stage; k++) {
        const bool last = k == move->stage;
        const uint32_t number = last ? move->option->number : taken(b, k)->number;
        struct hdi_roster *task = &b->roster[number];
        if (task->stamp == stamp || (!last && clock_of(b, k)[self] >= own)) continue;
        task->stamp = stamp;
        task->first = last ? move->own : b->stages[k].own;
        task->where = k;
        b->races[end++] = number;
    }
    return end;
}

/* Whether this task can begin: nothing of the others has to come before its first step. */
static bool is_initial(struct hdi_branches *b, uint32_t number, const uint32_t *others,
                       uint32_t count)
{
    const uint32_t *clock = clock_of(b, b->roster[number].where);
    for (uint32_t i = 0; i < count; i++) {
        if (others[i] != number && clock[others[i]] >= b->roster[others[i]].first) return false;
    }
    return true;
}

static void branch(struct hdi_branches *b, uint32_t i, const struct move *move, uint32_t scratch)
{
    const uint32_t *tasks = &b->races[scratch], end = collect(b, i, move, scratch);
    struct hdi_option *found = NULL;
    for (uint32_t k = 0; k < end - scratch; k++) {
        if (!is_initial(b, tasks[k], tasks, end - scratch)) continue;
        struct hdi_option *option = option_of(b, i, tasks[k]);
        if (!option) continue;
        if (option->flags & (HDI_OPTION_TRY | HDI_OPTION_TRIED | HDI_OPTION_ASLEEP)) return;
        if (!found || tasks[k] == move->option->number) found = option;
    }
    if (found) {
        found->flags |= HDI_OPTION_TRY;
    } else {
        try_all(b, i);
    }
}

static void race(struct hdi_branches *b, const struct move *move, bool fresh)
{
    const bool bounded = b->bound != HDI_BOUND_NONE;
    const uint32_t count = bounded ? relate_bounded(b, move) : relate(b, move);
    if (!fresh) return;
    for (uint32_t i = 0; i < count; i++) {
        if (bounded) {
            branch_bounded(b, b->races[i], move->option->number);
        } else {
            branch(b, b->races[i], move, count);
        }
    }
}

static bool make_clocks(struct hdi_branches *b)
{
    if (b->width != b->tasks) {
        b->width = b->tasks;
        b->clocked = 0;
    }
    return (uint64_t)(b->depth + 1) * b->width <= HDI_CLOCKS_MAX;
}

static void race_pending(struct hdi_branches *b)
{
    const struct hdi_stage *stage = &b->stages[b->depth - 1];
    for (uint32_t i = 0; i < stage->count; i++) {
        if (i == stage->picked) continue;
        const struct hdi_option *option = &b->options[stage->first + i];
        const struct hdi_roster *task = &b->roster[option->number];
        const struct move move = {option, b->depth, task->own + 1, task->last,
                                  task->ready > task->last + 1 ? task->ready - 1 : 0};
        race(b, &move, true);
    }
}

void hdi_branches_race(struct hdi_branches *b, bool pending)
{
    if (b->depth == 0) return;
    if (!make_clocks(b)) {
        b->full = true;
        return;
    }
    /* What is repeated has been looked at, but for the last: it is another step than it was. */
    const uint32_t fresh = b->fixed ? b->fixed - 1 : 0;
    if (b->clocked > fresh) b->clocked = fresh;
    for (uint32_t i = 0; i < b->tasks; i++) b->roster[i].before = 0;
    for (uint32_t j = 0; j < b->clocked; j++) b->roster[taken(b, j)->number].before = j + 1;
    for (uint32_t j = b->clocked; j < b->depth; j++) {
        const struct hdi_stage *stage = &b->stages[j];
        const struct move move = {taken(b, j), j, stage->own, stage->previous, stage->enabler};
        race(b, &move, j >= fresh);
        b->roster[move.option->number].before = j + 1;
    }
    b->clocked = b->depth;
    if (pending) race_pending(b);
}

/* ---- advancing ---- */

/* The next option of this stage that is to be tried. Returns false if none is left. */
static bool next_pick(struct hdi_branches *b, struct hdi_stage *stage)
{
    for (uint32_t i = 0; i < stage->count; i++) {
        const struct hdi_option *option = &b->options[stage->first + i];
        if (!(option->flags & HDI_OPTION_TRY)) continue;
        if (option->flags & (HDI_OPTION_TRIED | HDI_OPTION_ASLEEP)) continue;
        if ((option->flags & HDI_OPTION_COSTLY) && stage->spent >= b->bound) continue;
        stage->picked = i;
        return true;
    }
    return false;
}

bool hdi_branches_advance(struct hdi_branches *b)
{
    for (; b->depth > 0; b->depth--) {
        struct hdi_stage *stage = &b->stages[b->depth - 1];
        b->options[stage->first + stage->picked].flags |= HDI_OPTION_TRIED;
        if (next_pick(b, stage)) {
            b->fixed = b->depth;
            return true;
        }
    }
    b->fixed = 0;
    return false;
}
