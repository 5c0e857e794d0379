/* SPDX-License-Identifier: MIT
 *
 * shrink: a recorded failure, with as few context switches and faults as it needs.
 *
 * A schedule is a plan (sim/plan.h): one that was changed, and does not quite fit any more, still
 * leads somewhere near. What fails in the same way, and costs less, is the best so far: its plan is
 * read from what it really did. What costs is, in this order,
 *
 *   preemptions, that is blocks that begin though the task before could have gone on,
 *   faults of the network and the disks, blocks, steps.
 *
 * Plans are changed in these ways, over and over, until none helps or the runs are used up:
 *
 *   cut off    all but a beginning
 *   drop       preemptions, first all, then halves, quarters and so on (delta debugging): the task
 *              goes on with its next block instead, and what came between comes later
 *   spare      faults, in the same portions
 *   join       two blocks of one task that others stand between, at the place of either
 *   give way   a preempted block comes after the one that preempts it
 *   leave out  blocks, in the same portions
 *
 * and if more than one preemption is left then, schedules with one are enumerated.
 *
 * Rejected  a list of choices, of which some are left out: what follows means something else then.
 *           Blocks say how far a task has come, whatever others did in between.
 *
 * docs/design/0015-shrinking.md says more.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <heddle/log.h>

#include "os/memory.h"
#include "sim/explorer.h"
#include "sim/plan.h"

#define RUNS_DEFAULT 200

/* ---- the best so far ---- */

struct cost {
    uint32_t preemptions, faults, blocks, steps;
};

static bool is_less(const struct cost *a, const struct cost *b)
{
    if (a->preemptions != b->preemptions) return a->preemptions < b->preemptions;
    if (a->faults != b->faults) return a->faults < b->faults;
    if (a->blocks != b->blocks) return a->blocks < b->blocks;
    return a->steps < b->steps;
}

struct shrinking {
    struct hdi_explorer explorer;
    struct hdi_guide guide;
    size_t trace_bytes;
    uint64_t seed;
    struct hdi_verdict wanted;
    unsigned runs, runs_max;
    struct hdi_plan best;                    /* what it really did */
    struct hdi_plan best_plan;               /* by this */
    struct hdi_fault_list *best_faults;
    struct cost cost;
    struct hdi_plan trial, seen;             /* what is tried, what came of it */
    struct hdi_fault_list *trial_faults;
    int err;                             /* nothing more can be tried */
};

/* The same failure: of the same kind, and where the message is the program's, with the same. Others
 * name tasks and places, which may change with the schedule. */
static bool is_same(const struct hdi_verdict *a, const struct hdi_verdict *b)
{
    if (a->kind != b->kind) return false;
    const bool by_code = a->kind == HD_VERDICT_RESULT || a->kind == HD_VERDICT_INVARIANT ||
                         a->kind == HD_VERDICT_CRASH;
    const bool by_message = a->kind == HD_VERDICT_ASSERT || a->kind == HD_VERDICT_STALE;
    if (by_code && a->code != b->code) return false;
    return !by_message || strcmp(a->message, b->message) == 0;
}

static bool is_over(const struct shrinking *s)
{
    return s->err || s->runs + 1 >= s->runs_max; /* One is for the record. */
}

/* Run a plan, with these faults. Returns whether it fails as wanted. */
static bool run_plan(struct shrinking *s, const struct hdi_plan *plan,
                     const struct hdi_fault_list *faults, const char *log, struct cost *cost)
{
    struct hdi_outcome outcome;
    const struct hdi_trace *trace = s->guide.trace;
    s->guide.plan = plan;
    s->explorer.faults = faults;
    s->runs++;
    s->err = hdi_explorer_run(&s->explorer, &s->guide.base, s->seed, log, &outcome);
    if (s->wanted.kind == HD_VERDICT_CRASH && s->runs == 1) {
        s->wanted.code = outcome.verdict.code; /* Nobody could record it. */
    }
    if (s->err || trace->full || !is_same(&outcome.verdict, &s->wanted)) return false;
    s->err = hdi_plan_read(&s->seen, trace);
    *cost = (struct cost){
        .preemptions = trace->preemptions,
        .faults = outcome.came_back ? outcome.faults : (uint32_t)faults->count,
        .blocks = (uint32_t)s->seen.count,
        .steps = trace->count,
    };
    return !s->err;
}

static void swap_plans(struct hdi_plan *a, struct hdi_plan *b)
{
    const struct hdi_plan other = *a;
    *a = *b;
    *b = other;
}

/* Try s->trial with s->trial_faults; if it is better, it is the best from now on. */
static bool try_it(struct shrinking *s)
{
    struct cost cost;
    if (!run_plan(s, &s->trial, s->trial_faults, NULL, &cost)) return false;
    if (!is_less(&cost, &s->cost)) return false;
    s->cost = cost;
    swap_plans(&s->best, &s->seen);
    swap_plans(&s->best_plan, &s->trial);
    memcpy(s->best_faults, s->trial_faults,
           sizeof(*s->best_faults) + s->trial_faults->count * sizeof(s->best_faults->numbers[0]));
    return true;
}

static void keep_faults(struct shrinking *s)
{
    memcpy(s->trial_faults, s->best_faults,
           sizeof(*s->best_faults) + s->best_faults->count * sizeof(s->best_faults->numbers[0]));
}

/* ---- portions ---- */

/* Leave out `count` of the things from `first` on, and try. Returns whether that is better. */
typedef bool leave_out_fn(struct shrinking *s, size_t first, size_t count);

/* First all, then in ever smaller portions. Returns whether anything could be left out. */
static bool leave_out_most(struct shrinking *s, leave_out_fn *leave_out,
                           size_t (*total)(const struct shrinking *s))
{
    bool any = false;
    for (size_t portion = total(s); portion > 0 && !is_over(s); portion /= 2) {
        size_t first = 0;
        while (first < total(s) && !is_over(s)) {
            if (leave_out(s, first, portion)) any = true; /* Others stand there now. */
            else first += portion;
        }
    }
    return any;
}

/* ---- dropping preemptions ---- */

static size_t preemptions_of(const struct shrinking *s)
{
    return s->cost.preemptions;
}

/* `stays`: of each block, whether its task is to stop where it ends. `taken`: all false. */
static int arrange(struct shrinking *s, const bool *stays, bool *taken)
{
    const struct hdi_plan *best = &s->best;
    int err = 0;
    s->trial.count = 0;
    for (size_t i = 0; i < best->count && !err; i++) {
        size_t at = i;
        while (at < best->count && !taken[at] && !err) {
            taken[at] = true;
            err = hdi_plan_add(&s->trial, best->blocks[at]);
            if (stays[at]) break;
            const size_t next = hdi_plan_next(best, at);
            if (next == best->count) s->trial.blocks[s->trial.count - 1].upto = UINT32_MAX;
            at = next;
        }
    }
    return err;
}

static bool drop_preemptions(struct shrinking *s, size_t first, size_t count)
{
    const struct hdi_plan *best = &s->best;
    bool *flags = calloc(2 * best->count + 1, sizeof(*flags));
    if (!flags) {
        s->err = -ENOMEM;
        return false;
    }
    size_t number = 0;
    for (size_t i = 0; i < best->count; i++) {
        const bool preempted = i + 1 < best->count && best->blocks[i + 1].preempts;
        flags[i] = !preempted || number < first || number >= first + count;
        number += preempted;
    }
    s->err = arrange(s, flags, flags + best->count);
    free(flags);
    keep_faults(s);
    return !s->err && try_it(s);
}

/* ---- joining blocks ---- */

/* The blocks of `best` with that at `from` moved to `to`. */
static bool try_move(struct shrinking *s, size_t from, size_t to)
{
    const struct hdi_plan *best = &s->best;
    s->trial.count = 0;
    for (size_t i = 0; i < best->count && !s->err; i++) {
        size_t at = i;
        if (i == to) at = from;
        else if (from < to && i >= from && i < to) at = i + 1;
        else if (from > to && i > to && i <= from) at = i - 1;
        s->err = hdi_plan_add(&s->trial, best->blocks[at]);
    }
    keep_faults(s);
    return !s->err && try_it(s);
}

static bool join_blocks(struct shrinking *s)
{
    bool any = false;
    for (size_t i = 0; i < s->best.count && !is_over(s); i++) {
        const size_t next = hdi_plan_next(&s->best, i);
        if (next == s->best.count) continue;
        if (try_move(s, next, i + 1) || (!is_over(s) && try_move(s, i, next - 1))) {
            any = true;
            i--; /* There is another block now. */
        }
    }
    return any;
}

/* ---- giving way ---- */

/* A preempted block comes after the one that preempts it, and its task goes on from there. */
static bool try_later(struct shrinking *s, size_t at)
{
    const struct hdi_plan *best = &s->best;
    const size_t next = hdi_plan_next(best, at);
    s->trial.count = 0;
    for (size_t i = 0; i < best->count && !s->err; i++) {
        if (i != at && i != next) s->err = hdi_plan_add(&s->trial, best->blocks[i]);
        if (i != at + 1 || s->err) continue;
        s->err = hdi_plan_add(&s->trial, best->blocks[next < best->count ? next : at]);
        if (!s->err && next == best->count) s->trial.blocks[s->trial.count - 1].upto = UINT32_MAX;
    }
    keep_faults(s);
    return !s->err && try_it(s);
}

static bool give_way(struct shrinking *s)
{
    bool any = false;
    for (size_t i = s->best.count; i-- > 1 && !is_over(s);) {
        if (i >= s->best.count || !s->best.blocks[i].preempts) continue;
        any |= try_later(s, i - 1);
    }
    return any;
}

/* ---- leaving out blocks ---- */

static size_t blocks_of(const struct shrinking *s)
{
    return s->best.count;
}

/* Only the first few, and then as it comes: what fails by never ending needs a beginning only. */
static bool cut_off(struct shrinking *s)
{
    for (size_t count = 0; count < s->best.count && !is_over(s); count = 2 * count + !count) {
        s->trial.count = 0;
        for (size_t i = 0; i < count && !s->err; i++) {
            s->err = hdi_plan_add(&s->trial, s->best.blocks[i]);
        }
        keep_faults(s);
        if (!s->err && try_it(s)) return true;
    }
    return false;
}

/* What is left out comes with a later block of its task, or at the end. */
static bool drop_blocks(struct shrinking *s, size_t first, size_t count)
{
    s->trial.count = 0;
    for (size_t i = 0; i < s->best.count && !s->err; i++) {
        if (i < first || i >= first + count) s->err = hdi_plan_add(&s->trial, s->best.blocks[i]);
    }
    keep_faults(s);
    return !s->err && try_it(s);
}

/* ---- sparing faults ---- */

static size_t faults_of(const struct shrinking *s)
{
    return s->best_faults->count;
}

static bool spare_faults(struct shrinking *s, size_t first, size_t count)
{
    s->trial_faults->count = 0;
    for (size_t i = 0; i < s->best_faults->count; i++) {
        if (i >= first && i < first + count) continue;
        s->trial_faults->numbers[s->trial_faults->count++] = s->best_faults->numbers[i];
    }
    s->trial.count = 0;
    for (size_t i = 0; i < s->best.count && !s->err; i++) {
        s->err = hdi_plan_add(&s->trial, s->best.blocks[i]);
    }
    return !s->err && try_it(s);
}

/* ---- looking elsewhere ---- */

/* Few preemptions more than there need be may be at places where no change of one of them leads to
 * others. So look at schedules with one, as they come. Returns whether one is better. */
static bool look_elsewhere(struct shrinking *s)
{
    const char *error;
    bool found = false;
    if (s->cost.preemptions < 2 || is_over(s)) return false;
    s->err = hdi_sampler_create(&s->guide.inner, "all:1", &error);
    if (s->err) return false;
    const struct hdi_sampler_kind *kind = s->guide.inner->kind;
    keep_faults(s);
    do {
        struct cost cost;
        found = run_plan(s, &s->best, s->trial_faults, NULL, &cost) && is_less(&cost, &s->cost);
    } while (!found && !is_over(s) && kind->more(s->guide.inner));
    hdi_sampler_destroy(s->guide.inner);
    s->guide.inner = NULL;
    if (!found || is_over(s)) return false;
    swap_plans(&s->trial, &s->seen);
    return try_it(s); /* as a plan */
}

/* ---- all of it ---- */

static void shrink(struct shrinking *s)
{
    bool better = true;
    while (better && !is_over(s)) {
        better = cut_off(s);
        better |= leave_out_most(s, drop_preemptions, preemptions_of);
        better |= leave_out_most(s, spare_faults, faults_of);
        better |= join_blocks(s);
        better |= give_way(s);
        better |= leave_out_most(s, drop_blocks, blocks_of);
        if (!better) better = look_elsewhere(s);
    }
}

/* ---- reading ---- */

static int add_fault(struct shrinking *s, uint64_t number, size_t *room)
{
    if (s->best_faults->count == *room) {
        const size_t bytes = 2 * *room * sizeof(number);
        void *more = realloc(s->best_faults, sizeof(*s->best_faults) + bytes);
        if (!more) return -ENOMEM;
        s->best_faults = more;
        *room *= 2;
    }
    s->best_faults->numbers[s->best_faults->count++] = number;
    return 0;
}

static int read_event(struct shrinking *s, const hd_log_event *event, size_t *fault_room)
{
    struct hdi_trace *trace = s->guide.trace;
    if (event->kind == HD_LOG_STEP && trace->count < s->guide.room) {
        if (event->task == 0 || event->task > INT32_MAX) return -EBADMSG;
        trace->entries[trace->count++] = (uint32_t)(event->task - 1) << 1;
    }
    if (event->kind == HD_LOG_VERDICT) {
        s->wanted.kind = (hd_verdict)event->a;
        s->wanted.code = (int)event->b;
        snprintf(s->wanted.message, sizeof(s->wanted.message), "%s", event->text);
    }
    return event->kind == HD_LOG_FAULT ? add_fault(s, event->a, fault_room) : 0;
}

/* Steps that the trace has room for: what was recorded, and some more. */
static int make_trace(struct shrinking *s, uint64_t events)
{
    enum { MORE = 4096, MOST = 1 << 26 };
    s->guide.room = events < MOST / 2 ? (uint32_t)events * 2 + MORE : MOST;
    s->trace_bytes = sizeof(struct hdi_trace) + s->guide.room * sizeof(uint32_t);
    s->guide.trace = hdi_memory_map_shared(s->trace_bytes);
    return s->guide.trace ? 0 : -ENOMEM;
}

static int read_log(struct shrinking *s, const char *from)
{
    size_t fault_room = 64;
    hd_log *log;
    hd_log_event event;
    int got = hd_log_open(&log, from);
    if (got) return got;
    got = make_trace(s, hd_log_about(log)->events);
    s->best_faults = malloc(sizeof(*s->best_faults) + fault_room * sizeof(uint64_t));
    if (!s->best_faults) got = -ENOMEM;
    else s->best_faults->count = 0;
    while (got >= 0 && (got = hd_log_next(log, &event)) == 1) {
        const int err = read_event(s, &event, &fault_room);
        if (err) got = err;
    }
    /* It ends without a verdict if the program died. */
    if (got == 0 && !hd_log_about(log)->complete && s->wanted.kind == HD_VERDICT_NONE) {
        s->wanted.kind = HD_VERDICT_CRASH;
    }
    hd_log_close(log);
    if (got == 0) got = hdi_plan_read(&s->best, s->guide.trace);
    if (got < 0) return got;
    s->trial_faults = malloc(sizeof(*s->best_faults) + s->best_faults->count * sizeof(uint64_t));
    if (!s->trial_faults) return -ENOMEM;
    return s->wanted.kind == HD_VERDICT_NONE ? -EINVAL : 0;
}

static void read_flag(const struct hdi_replay *replay, const char *key, bool *flag)
{
    uint64_t number;
    if (hdi_replay_number(replay, key, &number)) *flag = number != 0;
}

/* The runtime as it was when this was recorded. */
static int read_options(struct shrinking *s, const char *from, hd_explore_options *options,
                        hd_options *inner)
{
    struct hdi_replay *replay;
    const char *error;
    *inner = options->options ? *options->options : (hd_options)HD_OPTIONS_INIT;
    const int err = hdi_replay_open(&replay, from, inner, &error);
    if (err) return err;
    uint64_t number;
    read_flag(replay, "clock", &options->clock);
    read_flag(replay, "ignore_results", &options->ignore_results);
    read_flag(replay, "allow_stale", &options->allow_stale);
    if (hdi_replay_number(replay, "steps_max", &number) && number < UINT32_MAX) {
        options->steps_max = (uint32_t)number;
    }
    hdi_replay_close(replay);
    inner->sampler = NULL; /* It was in the log; the guide is what counts. */
    s->seed = inner->seed;
    options->options = inner;
    options->sampler = NULL;
    return 0;
}

/* ---- beginning and ending ---- */

static int begin(struct shrinking *s, hd_fn *fn, void *arg, const hd_explore_options *options,
                 const char *from)
{
    hd_explore_options own = options ? *options : (hd_explore_options)HD_EXPLORE_OPTIONS_INIT;
    hd_options inner;
    int err = read_options(s, from, &own, &inner);
    if (!err) err = read_log(s, from);
    if (err) return err;
    if (s->wanted.kind == HD_VERDICT_CRASH) own.fork = true;
    s->guide.base.kind = &hdi_guide_kind;
    err = hdi_explorer_open(&s->explorer, fn, arg, &own);
    s->explorer.options.options = NULL; /* It was ours. */
    return err;
}

/* As it was recorded. */
static int run_first(struct shrinking *s)
{
    for (size_t i = 0; i < s->best.count; i++) {
        const int err = hdi_plan_add(&s->best_plan, s->best.blocks[i]);
        if (err) return err;
    }
    const bool fails = run_plan(s, &s->best_plan, s->best_faults, NULL, &s->cost);
    if (!fails) return s->err ? s->err : -EPROTO;
    swap_plans(&s->best, &s->seen);
    return 0;
}

static void end(struct shrinking *s)
{
    hdi_explorer_close(&s->explorer);
    if (s->guide.trace) hdi_memory_unmap(s->guide.trace, s->trace_bytes);
    struct hdi_plan *const plans[] = {&s->best, &s->best_plan, &s->trial, &s->seen};
    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) free(plans[i]->blocks);
    free(s->best_faults);
    free(s->trial_faults);
}

int hd_shrink(hd_fn *fn, void *arg, const hd_explore_options *options, const char *from,
              const char *to, unsigned replays)
{
    if (!fn || !from || !to || hd_explore_error(options)) return -EINVAL;
    struct shrinking s = {.runs_max = replays ? replays : RUNS_DEFAULT};
    struct cost cost;
    int err = begin(&s, fn, arg, options, from);
    if (!err) err = run_first(&s);
    if (!err) shrink(&s);
    if (!err) err = s.err;
    if (!err && !run_plan(&s, &s.best_plan, s.best_faults, to, &cost)) {
        err = s.err ? s.err : -EPROTO;
    }
    const int runs = (int)s.runs;
    end(&s);
    return err ? err : runs;
}
