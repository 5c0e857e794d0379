/* SPDX-License-Identifier: MIT
 *
 * sampler_all: every schedule with at most P preemptions, one after the other.
 *
 * Which are left out because they only swap independent steps is decided in sim/branch.h. Here the
 * path is taken: as it was up to the last branch, and then, at each stage, by the first option that
 * is allowed, in the order of `fair` (BRANCH-2): the running task, then who is ready longest.
 *
 * A preemption is leaving a task that could go on and has not yielded. A task that yields again
 * before everybody who was ready at the yield before has had a turn is HELD: it is no option until
 * they have (Musuvathi, Qadeer, PLDI 2008). So loops that wait by yielding end in every schedule,
 * and one yield is only a place to switch, where the task may also go on (SAMPLER-2).
 *
 * Text: P, or P@PICKS[+TASKS] for one schedule: which option at each stage that has more than one,
 * up to the last branch, runs folded ("0:12,1,2:3"), and the numbers, with points between, of the
 * tasks that sleep behind it. The rest follows from these. What is too long for a name ends with
 * '~', and is repeated from its log only.
 *
 * The seed is not looked at, but it has to be the same in all schedules if anything else draws
 * from it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "os/memory.h"
#include "sim/branch.h"
#include "sim/schedule.h"

#define BOUND_DEFAULT 2
#define BOUND_MAX     1000
#define PICKS_MAX     65536
#define TEXT_MAX      (HD_SAMPLER_TEXT_MAX - 4) /* "all:" */
#define NOTHING       UINT32_MAX

/* One schedule by its text. */
struct order {
    char text[TEXT_MAX + 1]; /* "": there is none */
    uint32_t pick_count, asleep_count;
    uint32_t picks[PICKS_MAX];
    uint32_t asleep[TEXT_MAX];
};

/* In memory that is shared with processes forked later (sim/branch.h). */
struct sampler_all {
    struct hdi_sampler base;
    uint32_t decisions; /* in this schedule: stages with more than one option */
    uint32_t spent;     /* preemptions in this schedule */
    bool recorded;      /* pick() has seen to the step that is taken next */
    bool blind;         /* the rest of this schedule is of no interest */
    bool diverged;
    struct order order;
    struct hdi_branches branches;
};

/* ---- creating ---- */

/* A number up to `max` at *text, which moves past it; NOTHING if there is none. */
static uint32_t parse_number(const char **text, uint32_t max)
{
    if (**text < '0' || **text > '9') return NOTHING;
    uint64_t n = 0;
    for (; **text >= '0' && **text <= '9'; (*text)++) {
        n = n * 10 + (uint64_t)(**text - '0');
        if (n > max) return NOTHING;
    }
    return (uint32_t)n;
}

static bool parse_bound(const char **text, uint32_t *bound)
{
    if (strncmp(*text, "none", 4) == 0) {
        *bound = HDI_BOUND_NONE;
        *text += 4;
        return true;
    }
    *bound = **text ? parse_number(text, BOUND_MAX) : BOUND_DEFAULT;
    return *bound != NOTHING;
}

static bool parse_picks(const char **text, struct order *order)
{
    do {
        const uint32_t pick = parse_number(text, HDI_ROSTER_MAX);
        uint32_t run = 1;
        if (**text == ':') {
            (*text)++;
            run = parse_number(text, PICKS_MAX);
        }
        if (pick == NOTHING || run == NOTHING || run > PICKS_MAX - order->pick_count) return false;
        for (; run > 0; run--) order->picks[order->pick_count++] = pick;
    } while (*(*text)++ == ',');
    (*text)--;
    return true;
}

static bool parse_asleep(const char **text, struct order *order)
{
    if (**text != '+') return true;
    do {
        (*text)++;
        const uint32_t number = parse_number(text, HDI_ROSTER_MAX);
        if (number == NOTHING) return false;
        order->asleep[order->asleep_count++] = number; /* Fewer than the text has letters. */
    } while (**text == '.');
    return true;
}

static bool parse(const char *text, struct sampler_all *all)
{
    struct order *order = &all->order;
    if (strlen(text) > TEXT_MAX) return false;
    const char *at = text;
    if (!parse_bound(&at, &all->branches.bound)) return false;
    if (*at == '\0') return true;
    memcpy(order->text, text, strlen(text) + 1);
    if (*at++ != '@') return false;
    return parse_picks(&at, order) && parse_asleep(&at, order) && *at == '\0';
}

static struct hdi_sampler *create(const char *parameters, const char **error)
{
    const size_t length = strlen(parameters);
    if (length > 0 && parameters[length - 1] == '~') {
        *error = "this schedule was too long for a name: replay its log";
        return NULL;
    }
    struct sampler_all *all = hdi_memory_map_shared(sizeof(*all));
    if (!all) return NULL;
    if (parse(parameters, all)) return &all->base;
    hdi_memory_unmap(all, sizeof(*all));
    *error = "all:P takes a number of preemptions up to 1000, or none; all:P@PICKS is one of its "
             "schedules";
    return NULL;
}

static void destroy(struct hdi_sampler *sampler)
{
    hdi_memory_unmap(sampler, sizeof(struct sampler_all));
}

/* ---- a stage's options ---- */

static void begin(struct hdi_sampler *sampler, struct hdi_schedule *schedule, uint64_t seed)
{
    (void)schedule;
    (void)seed;
    struct sampler_all *all = (struct sampler_all *)sampler;
    struct hdi_branches *b = &all->branches;
    b->depth = 0;
    memset(b->roster, 0, b->tasks * sizeof(*b->roster));
    all->decisions = all->spent = 0;
    all->recorded = all->blind = false;
}

/* Where the options of a new stage are put. Returns NULL if there is no room. */
static struct hdi_option *room_for(struct hdi_branches *b, unsigned count)
{
    const struct hdi_stage *last = b->depth ? &b->stages[b->depth - 1] : NULL;
    const uint32_t first = last ? last->first + last->count : 0;
    if (b->depth == HDI_STAGES_MAX || count > HDI_OPTIONS_MAX - first) return NULL;
    return &b->options[first];
}

/* A candidate at this stage gave way by itself: once for each step. */
static void note_yield(struct hdi_branches *b, uint32_t number, uint32_t stage)
{
    struct hdi_roster *task = &b->roster[number];
    if (task->last != stage) return;
    task->yielded[1] = task->yielded[0];
    task->yielded[0] = stage;
    b->yields = true;
}

static bool describe(struct hdi_branches *b, struct hdi_option *option,
                     const struct hdi_actor *actor, uint32_t number, uint32_t at)
{
    if (number >= HDI_ROSTER_MAX) return false;
    if (number >= b->tasks) b->tasks = number + 1;
    struct hdi_roster *task = &b->roster[number];
    if (task->present != b->depth) task->ready = b->depth + 1;
    task->present = b->depth + 1;
    if (actor->yielded) note_yield(b, number, b->depth);
    *option = (struct hdi_option){.object = actor->object,
                                  .number = number,
                                  .at = at,
                                  .since = actor->ready_since,
                                  .ready = task->ready,
                                  .kind = (uint8_t)actor->kind,
                                  .yielded = actor->yielded};
    return true;
}

/* The last time that each had a turn, or became ready; the earliest of these. */
static uint32_t stalest(const struct hdi_branches *b, const struct hdi_option *options,
                        unsigned count)
{
    uint32_t least = UINT32_MAX;
    for (unsigned i = 0; i < count; i++) {
        const struct hdi_roster *task = &b->roster[options[i].number];
        const uint32_t turn = task->last > task->ready ? task->last : task->ready;
        if (turn < least) least = turn;
    }
    return least;
}

static void hold_yielders(const struct hdi_branches *b, struct hdi_option *options, unsigned count)
{
    const uint32_t least = stalest(b, options, count);
    for (unsigned i = 0; i < count; i++) {
        if (!options[i].yielded) continue;
        const uint32_t before = b->roster[options[i].number].yielded[1];
        if (before > 0 && least <= before) options[i].flags |= HDI_OPTION_HELD;
    }
}

static bool comes_before(const struct hdi_option *a, const struct hdi_option *b)
{
    if (a->since != b->since) return a->since < b->since;
    if (a->yielded != b->yielded) return b->yielded;
    return a->number < b->number;
}

static void sort(struct hdi_option *options, unsigned count)
{
    for (unsigned i = 1; i < count; i++) {
        const struct hdi_option moving = options[i];
        unsigned at = i;
        for (; at > 0 && comes_before(&moving, &options[at - 1]); at--) {
            options[at] = options[at - 1];
        }
        options[at] = moving;
    }
}

/* BRANCH-2 */
static void arrange(struct hdi_branches *b, struct hdi_option *options, unsigned count, int running)
{
    bool yields = false;
    for (unsigned i = 0; i < count; i++) yields |= options[i].yielded;
    if (yields) hold_yielders(b, options, count);
    if (running < 0 || options[running].yielded) {
        sort(options, count);
        return;
    }
    const struct hdi_option first = options[running];
    options[running] = options[0];
    options[0] = first;
    sort(options + 1, count - 1);
    for (unsigned i = 1; i < count; i++) options[i].flags |= HDI_OPTION_COSTLY;
}

/* ---- taking a new stage ---- */

/* As the text has it. Returns NOTHING if there is no such option. */
static uint32_t obey(struct sampler_all *all, struct hdi_option *options, unsigned count)
{
    const struct order *order = &all->order;
    const uint32_t pick = order->picks[all->decisions];
    if (pick >= count) return NOTHING;
    if (all->decisions + 1 < order->pick_count) return pick;
    for (uint32_t i = 0; i < order->asleep_count; i++) {
        for (unsigned k = 0; k < count; k++) {
            if (options[k].number == order->asleep[i]) options[k].flags |= HDI_OPTION_TRIED;
        }
    }
    return pick;
}

/* The first that is allowed: without a switch if it can be, so within the bound. NOTHING: all that
 * begins like this has been run. */
static uint32_t explore(const struct hdi_option *options, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (!(options[i].flags & (HDI_OPTION_HELD | HDI_OPTION_ASLEEP))) return i;
    }
    return NOTHING;
}

static uint32_t choose(struct sampler_all *all, struct hdi_option *options, unsigned count)
{
    struct hdi_branches *b = &all->branches;
    if (count > 1 && all->decisions < all->order.pick_count) {
        const uint32_t pick = obey(all, options, count);
        if (pick == NOTHING) all->diverged = true;
        return pick;
    }
    for (unsigned i = 0; i < count; i++) {
        if (b->roster[options[i].number].sleeps == b->depth + 1) {
            options[i].flags |= HDI_OPTION_ASLEEP;
        }
    }
    return explore(options, count);
}

/* Those who sleep go on sleeping if the step that is taken is none of their business. */
static void pass_sleep(struct hdi_branches *b, uint32_t at)
{
    const struct hdi_stage *stage = &b->stages[at];
    const struct hdi_option *options = &b->options[stage->first], *taken = &options[stage->picked];
    if (b->bound != HDI_BOUND_NONE) return;
    for (uint32_t i = 0; i < stage->count; i++) {
        if (!hdi_branch_sleeps(b, &options[i], taken)) continue;
        b->roster[options[i].number].sleeps = at + 2;
    }
}

/* The task picked at this stage takes it. */
static inline void enter(struct hdi_branches *b, uint32_t at)
{
    struct hdi_stage *stage = &b->stages[at];
    struct hdi_roster *task = &b->roster[b->options[stage->first + stage->picked].number];
    stage->own = ++task->own;
    stage->previous = task->last;
    stage->enabler = task->ready > task->last + 1 ? task->ready - 1 : 0;
    task->last = at + 1;
}

/* The options are at the end of the path. Returns the place of the one taken among the candidates;
 * NOTHING if this schedule is not looked at any further. */
static uint32_t take(struct sampler_all *all, struct hdi_option *options, unsigned count)
{
    struct hdi_branches *b = &all->branches;
    const uint32_t pick = choose(all, options, count);
    if (pick == NOTHING) return NOTHING;
    b->stages[b->depth] = (struct hdi_stage){.first = (uint32_t)(options - b->options),
                                             .count = count,
                                             .picked = pick,
                                             .spent = all->spent};
    enter(b, b->depth);
    pass_sleep(b, b->depth);
    all->spent += (options[pick].flags & HDI_OPTION_COSTLY) != 0;
    all->decisions += count > 1;
    b->depth++;
    return options[pick].at;
}

/* ---- taking the path again ---- */

/* What tells a candidate from the option that stood there then: 0 if it is the same task, about to
 * do the same. Its object may have moved. */
HDI_ALWAYS_INLINE uint32_t differs(struct hdi_option *option, const struct hdi_actor *actor,
                                   uint32_t number)
{
    option->object = actor->object;
    return (option->number ^ number) | (option->kind ^ (uint32_t)actor->kind);
}

static void note_yields(struct hdi_branches *b, uint32_t at)
{
    const struct hdi_option *options = hdi_branch_options(b, at);
    for (uint32_t i = 0; i < b->stages[at].count; i++) {
        if (options[i].yielded) note_yield(b, options[i].number, at);
    }
}

/* The path has been repeated: now the roster is needed, and gets what the stages know. The step at
 * the last of them is a new one. */
static __attribute__((noinline)) void catch_up(struct sampler_all *all)
{
    struct hdi_branches *b = &all->branches;
    const uint32_t last = b->fixed - 1;
    for (uint32_t at = 0; at < last; at++) {
        const struct hdi_stage *stage = &b->stages[at];
        struct hdi_roster *task = &b->roster[b->options[stage->first + stage->picked].number];
        if (hdi_unlikely(b->yields)) note_yields(b, at);
        task->own = stage->own;
        task->last = at + 1;
    }
    if (b->yields) note_yields(b, last);
    const struct hdi_stage *stage = &b->stages[last];
    const struct hdi_option *options = &b->options[stage->first];
    for (uint32_t i = 0; i < stage->count; i++) {
        b->roster[options[i].number].ready = options[i].ready;
        b->roster[options[i].number].present = b->fixed;
    }
    enter(b, last);
    pass_sleep(b, last);
    all->spent = stage->spent + ((options[stage->picked].flags & HDI_OPTION_COSTLY) != 0);
}

/* Returns the place of the one taken among the candidates; NOTHING if they are others than then. */
static inline uint32_t take_again(struct sampler_all *all, bool same)
{
    struct hdi_branches *b = &all->branches;
    if (hdi_unlikely(!same)) {
        all->diverged = true;
        return NOTHING;
    }
    const struct hdi_stage *stage = &b->stages[b->depth];
    if (++b->depth == b->fixed) catch_up(all);
    return b->options[stage->first + stage->picked].at;
}

/* ---- steps ---- */

/* Whether these are the options that were here; without a branch for each. */
HDI_ALWAYS_INLINE bool are_again(struct hdi_option *options, struct hdi_schedule *schedule,
                                 struct hd_task *const *ready, unsigned count, bool small)
{
    uint32_t difference = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct hd_task *task = ready[options[i].at];
        difference |= differs(&options[i], hdi_schedule_candidate(schedule, task, small),
                              hdi_schedule_number(task));
    }
    return difference == 0;
}

static __attribute__((noinline)) bool are_again_far(struct hdi_option *options,
                                                    struct hdi_schedule *schedule,
                                                    struct hd_task *const *ready, unsigned count)
{
    return are_again(options, schedule, ready, count, false);
}

static uint32_t repeat(struct sampler_all *all, struct hdi_schedule *schedule,
                       struct hd_task *const *ready, unsigned count)
{
    const struct hdi_stage *stage = &all->branches.stages[all->branches.depth];
    struct hdi_option *options = &all->branches.options[stage->first];
    if (stage->count != count) return take_again(all, false);
    return take_again(all, hdi_likely(hdi_schedule_is_small(schedule))
                               ? are_again(options, schedule, ready, count, true)
                               : are_again_far(options, schedule, ready, count));
}

/* Apart, so that what is repeated needs no registers for it. */
static __attribute__((noinline)) uint32_t go_on(struct sampler_all *all,
                                                struct hdi_schedule *schedule,
                                                struct hd_task *const *ready, unsigned count,
                                                int running)
{
    struct hdi_branches *b = &all->branches;
    struct hdi_option *options = room_for(b, count);
    bool room = options != NULL;
    for (unsigned i = 0; room && i < count; i++) {
        room = describe(b, &options[i], hdi_schedule_find(schedule, ready[i]),
                        hdi_schedule_number(ready[i]), i);
    }
    if (!room) {
        b->full = true;
        return NOTHING;
    }
    arrange(b, options, count, running);
    return take(all, options, count);
}

static unsigned pick(struct hdi_sampler *sampler, struct hdi_schedule *schedule,
                     struct hd_task *const *ready, unsigned count, int running)
{
    struct sampler_all *all = (struct sampler_all *)sampler;
    if (!all->blind) {
        const bool again = all->branches.depth < all->branches.fixed;
        const uint32_t at = again ? repeat(all, schedule, ready, count)
                                  : go_on(all, schedule, ready, count, running);
        all->recorded = true;
        if (at != NOTHING) return at;
        all->blind = true;
    }
    return hdi_sampler_fair.pick(sampler, schedule, ready, count, running);
}

/* A step without a choice, as a stage with one option. */
static uint32_t step_alone(struct sampler_all *all, const struct hdi_actor *actor, uint32_t number)
{
    struct hdi_branches *b = &all->branches;
    if (b->depth < b->fixed) {
        const struct hdi_stage *stage = &b->stages[b->depth];
        return take_again(all, stage->count == 1 &&
                                   differs(&b->options[stage->first], actor, number) == 0);
    }
    struct hdi_option *option = room_for(b, 1);
    if (option && describe(b, option, actor, number, 0)) return take(all, option, 1);
    b->full = true;
    return NOTHING;
}

static void stepped(struct hdi_sampler *sampler, const struct hdi_actor *actor, uint32_t number)
{
    struct sampler_all *all = (struct sampler_all *)sampler;
    if (!all->recorded && !all->blind) all->blind = step_alone(all, actor, number) == NOTHING;
    all->recorded = false;
}

/* ---- between schedules ---- */

static bool diverged(const struct hdi_sampler *sampler)
{
    const struct sampler_all *all = (const struct sampler_all *)sampler;
    return all->diverged || all->branches.depth < all->branches.fixed;
}

/* Here and not at the end of the schedule, which a process that crashed has not reached. */
static bool more(struct hdi_sampler *sampler)
{
    struct sampler_all *all = (struct sampler_all *)sampler;
    if (all->order.text[0] || diverged(sampler)) return false;
    hdi_branches_race(&all->branches, !all->blind);
    return hdi_branches_advance(&all->branches);
}

static bool complete(const struct hdi_sampler *sampler)
{
    const struct sampler_all *all = (const struct sampler_all *)sampler;
    return !all->branches.full && !all->order.text[0];
}

/* ---- text ---- */

/* What is put together here; once something did not fit, it ends with '~'. */
struct writer {
    char text[TEXT_MAX + 1];
    size_t length;
    bool full;
};

__attribute__((format(printf, 2, 3))) static void append(struct writer *w, const char *format, ...)
{
    if (w->full) return;
    char piece[32];
    va_list list;
    va_start(list, format);
    const size_t length = (size_t)vsnprintf(piece, sizeof(piece), format, list);
    va_end(list);
    w->full = w->length + length > TEXT_MAX - 1;
    if (w->full) {
        memcpy(w->text + w->length, "~", 2);
    } else {
        memcpy(w->text + w->length, piece, length + 1);
        w->length += length;
    }
}

static void append_run(struct writer *w, uint32_t pick, uint32_t run, bool first)
{
    const char *comma = first ? "" : ",";
    if (run > 1) {
        append(w, "%s%u:%u", comma, (unsigned)pick, (unsigned)run);
    } else if (run == 1) {
        append(w, "%s%u", comma, (unsigned)pick);
    }
}

static void append_picks(struct writer *w, const struct hdi_branches *b)
{
    uint32_t pick = 0, run = 0;
    bool first = true;
    for (uint32_t i = 0; i < b->fixed; i++) {
        const struct hdi_stage *stage = &b->stages[i];
        if (stage->count == 1) continue;
        if (run > 0 && stage->picked != pick) {
            append_run(w, pick, run, first);
            first = false;
            run = 0;
        }
        pick = stage->picked;
        run++;
    }
    append_run(w, pick, run, first);
}

static void append_asleep(struct writer *w, const struct hdi_branches *b)
{
    const struct hdi_stage *stage = &b->stages[b->fixed - 1];
    char before = '+';
    for (uint32_t i = 0; i < stage->count; i++) {
        const struct hdi_option *option = &b->options[stage->first + i];
        if (!hdi_branch_sleeps(b, option, &b->options[stage->first + stage->picked])) continue;
        append(w, "%c%u", before, (unsigned)option->number);
        before = '.';
    }
}

static int text(const struct hdi_sampler *sampler, char *to, size_t size)
{
    const struct sampler_all *all = (const struct sampler_all *)sampler;
    const struct hdi_branches *b = &all->branches;
    if (all->order.text[0]) return snprintf(to, size, "%s", all->order.text);
    struct writer w = {.length = 0};
    if (b->bound == HDI_BOUND_NONE) {
        append(&w, "none");
    } else {
        append(&w, "%u", (unsigned)b->bound);
    }
    if (b->fixed > 0) {
        append(&w, "@");
        append_picks(&w, b);
        append_asleep(&w, b);
    }
    return snprintf(to, size, "%s", w.text);
}

const struct hdi_sampler_kind hdi_sampler_all = {.name = "all",
                                                 .enumerates = true,
                                                 .create = create,
                                                 .destroy = destroy,
                                                 .begin = begin,
                                                 .pick = pick,
                                                 .stepped = stepped,
                                                 .text = text,
                                                 .more = more,
                                                 .diverged = diverged,
                                                 .complete = complete};
