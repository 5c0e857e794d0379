/* SPDX-License-Identifier: MIT
 *
 * word: task/state.h and state.c, every transition against every other, with a scheduler
 * cut down to one task and a queue of one place. A wake that leads to no run is a deadlock,
 * a task queued twice fails a check, a wrong reference is memory used after its end or a
 * block left over.
 */
#include "os/futex.h"
#include "scenario.h"
#include "task/state.h"

/* From model_alloc(), freed with the last reference. */
struct cell {
    _Atomic(uint64_t) word;
    _Atomic(uintptr_t) joiner;
    _Atomic(uint32_t) flag[2]; /* what wakers write before they wake; the word orders it */
};

enum said { PENDING, READY };
enum { EMPTY, QUEUED, STOPPED };

struct stage {
    struct cell *cell;
    enum said (*poll)(struct stage *s);
    _Atomic(uint32_t) queue; /* futex */
    _Atomic(uint32_t) woken; /* futex: the joiner that the completer has woken */
    bool keep;               /* count the end instead of freeing: TASK-3 */
    unsigned ends;
    int seen;   /* plain, by the runs: each sees the one before */
    int result; /* plain, by the last run, for the joiner */
};

/* SCHEDULED and queued, with so many references beside the scheduler's. */
static void stage_init(struct stage *s, enum said (*poll)(struct stage *s), unsigned refs)
{
    *s = (struct stage){.cell = model_alloc(sizeof(*s->cell)), .poll = poll, .queue = QUEUED};
    hdi_store_relaxed(&s->cell->word, hdi_word_new(false) + refs * HDI_REF_ONE);
    MODEL_NAME(s->cell->word);
    MODEL_NAME(s->cell->flag);
    MODEL_NAME(s->queue);
}

static void act(struct stage *s, enum hdi_next next)
{
    switch (next) {
    case HDI_NEXT_NOTHING:
    case HDI_NEXT_WAKE:
    case HDI_NEXT_WAKE_UNREF: return; /* complete() sees to it */
    case HDI_NEXT_SUBMIT:
        MODEL_EQUAL(hdi_exchange_acq_rel(&s->queue, QUEUED), EMPTY); /* queued once */
        hdi_futex_wake(&s->queue, 1);
        return;
    case HDI_NEXT_FREE:
        if (s->keep) {
            MODEL_WRITE(s->ends, MODEL_READ(s->ends) + 1);
        } else {
            model_free(s->cell);
        }
    }
}

/* As hdi_task_complete(). */
static void complete(struct stage *s)
{
    uintptr_t joiner = 0;
    const enum hdi_next next =
        hdi_transition_to_complete(&s->cell->word, &s->cell->joiner, &joiner);
    if (next == HDI_NEXT_WAKE || next == HDI_NEXT_WAKE_UNREF) {
        hdi_store_release(&s->woken, (uint32_t)joiner);
        hdi_futex_wake(&s->woken, 1);
    }
    act(s, next == HDI_NEXT_WAKE_UNREF ? hdi_word_unref(&s->cell->word) : next);
}

static void run(struct stage *s)
{
    _Atomic(uint64_t) *word = &s->cell->word;
    hdi_transition_to_running(word);
    MODEL_WRITE(s->seen, MODEL_READ(s->seen) + 1);
    if (s->poll(s) == PENDING) {
        act(s, hdi_transition_to_idle(word, 0));
    } else {
        MODEL_WRITE(s->result, 42);
        hdi_store_relaxed(&s->queue, STOPPED); /* only for the runner itself */
        complete(s);
    }
}

static void runner(void *arg)
{
    struct stage *s = arg;
    for (;;) {
        const uint32_t state = hdi_load_acquire(&s->queue);
        if (state == STOPPED) return;
        if (state == EMPTY) {
            (void)hdi_futex_wait(&s->queue, EMPTY, INT64_MAX);
            continue;
        }
        hdi_store_relaxed(&s->queue, EMPTY); /* The word is still SCHEDULED. */
        run(s);
    }
}

static bool flagged(struct stage *s, unsigned i)
{
    return hdi_load_relaxed(&s->cell->flag[i]);
}

static void wake(struct stage *s, unsigned i)
{
    hdi_store_relaxed(&s->cell->flag[i], 1);
    act(s, hdi_transition_to_notified(&s->cell->word, true));
}

static void unref(struct stage *s)
{
    act(s, hdi_word_unref(&s->cell->word));
}

static void waker(void *arg)
{
    wake(arg, 1);
}

/* ---- every wake is followed by a run that sees what was written before it ---- */

static enum said until_flagged(struct stage *s)
{
    return flagged(s, 0) ? READY : PENDING;
}

static enum said until_both_flagged(struct stage *s)
{
    return flagged(s, 0) && flagged(s, 1) ? READY : PENDING;
}

MODEL(word_wake, .sc = 8, .tso = 8, .pso = 8, .kills = "word_single_cas")
{
    struct stage s;
    stage_init(&s, until_flagged, 1);
    void *r = model_thread(runner, &s);
    wake(&s, 0);
    model_join(r);
    MODEL_EQUAL(model_live(), 0);
}

MODEL(word_two_wakes, .sc = 5, .tso = 5, .pso = 5, .kills = "word_single_cas word_two_steps")
{
    struct stage s;
    stage_init(&s, until_both_flagged, 2);
    void *r = model_thread(runner, &s), *w = model_thread(waker, &s);
    wake(&s, 0);
    model_join(r);
    model_join(w);
    MODEL_EQUAL(model_live(), 0);
}

/* A waker that is kept, cloned and dropped. */
MODEL(word_wake_keep, .sc = 5, .tso = 5, .pso = 5, .kills = "word_single_cas word_two_steps")
{
    struct stage s;
    stage_init(&s, until_both_flagged, 1);
    void *r = model_thread(runner, &s);
    hdi_store_relaxed(&s.cell->flag[0], 1);
    act(&s, hdi_transition_to_notified(&s.cell->word, false));
    hdi_word_ref(&s.cell->word);
    wake(&s, 1);
    unref(&s);
    model_join(r);
    MODEL_EQUAL(model_live(), 0);
}

/* ---- cancel, shields ---- */

static enum said until_cancelled(struct stage *s)
{
    return hdi_word_cancelled(hdi_load_relaxed(&s->cell->word)) ? READY : PENDING;
}

static void canceller(void *arg)
{
    struct stage *s = arg;
    act(s, hdi_transition_to_cancelled(&s->cell->word));
    unref(s);
}

MODEL(word_cancel, .sc = 8, .tso = 8, .pso = 8, .kills = "word_cancel_silent word_single_cas")
{
    struct stage s;
    stage_init(&s, until_cancelled, 1);
    void *r = model_thread(runner, &s);
    canceller(&s);
    model_join(r);
    MODEL_EQUAL(model_live(), 0);
}

/* Cancelled by two, and woken meanwhile. */
MODEL(word_cancel_wake, .sc = 4, .tso = 5, .pso = 5, .kills = "word_cancel_silent word_two_steps")
{
    struct stage s;
    stage_init(&s, until_cancelled, 3);
    void *r = model_thread(runner, &s), *c = model_thread(canceller, &s);
    wake(&s, 0);
    canceller(&s);
    model_join(r);
    model_join(c);
    MODEL_EQUAL(model_live(), 0);
}

/* Shielded over a wait; then it waits on without asking, and must come round. */
static enum said shielded_at_first(struct stage *s)
{
    _Atomic(uint64_t) *word = &s->cell->word;
    const uint64_t now = hdi_load_relaxed(word);
    if (hdi_word_cancelled(now)) return READY;
    if (s->seen == 1) MODEL_EQUAL(hdi_word_shield(word), 0);
    if (hdi_word_shields(hdi_load_relaxed(word)) == 1 && flagged(s, 1)) {
        MODEL_EQUAL(hdi_word_unshield(word), 0);
    }
    return PENDING;
}

MODEL(word_shield, .sc = 4, .tso = 5, .pso = 5, .kills = "word_unshield_silent word_cancel_silent")
{
    struct stage s;
    stage_init(&s, shielded_at_first, 2);
    void *r = model_thread(runner, &s), *w = model_thread(waker, &s);
    canceller(&s);
    model_join(r);
    model_join(w);
    MODEL_EQUAL(model_live(), 0);
}

/* ---- joining ---- */

static enum said at_once(struct stage *s)
{
    (void)s;
    return READY;
}

static bool is_complete(struct stage *s)
{
    return hdi_word_lifecycle(hdi_load_acquire(&s->cell->word)) == HDI_COMPLETE;
}

/* As join_from_fiber(): registers under a new name each time. A sleep may end early. */
static void join(struct stage *s, unsigned early_max)
{
    _Atomic(uint64_t) *word = &s->cell->word;
    for (uint32_t name = 1; !is_complete(s); name++) {
        hdi_store_relaxed(&s->cell->joiner, name);
        if (!hdi_transition_to_joining(word)) break;
        if (name > early_max || model_any(2) == 0) {
            while (hdi_load_acquire(&s->woken) == 0) {
                (void)hdi_futex_wait(&s->woken, 0, INT64_MAX);
            }
            MODEL_EQUAL(hdi_load_relaxed(&s->woken), name); /* not an earlier one */
            break;
        }
        if (is_complete(s) || !hdi_transition_to_unjoined(word)) break;
    }
    MODEL_EQUAL(MODEL_READ(s->result), 42);
    act(s, hdi_transition_to_detached(word));
}

static void join_in_stage(unsigned early_max)
{
    struct stage s;
    stage_init(&s, at_once, 0);
    hdi_store_relaxed(&s.cell->word, hdi_word_new(true));
    void *r = model_thread(runner, &s);
    join(&s, early_max);
    model_join(r);
    MODEL_EQUAL(model_live(), 0);
}

MODEL(word_join, .sc = 6, .tso = 6, .pso = 6,
      .kills = "join_flag_relaxed join_touch_late")
{
    join_in_stage(1);
}
MODEL(word_join_again, .sc = 5, .tso = 6, .pso = 6, .kills = "join_again_ignored join_touch_late")
{
    join_in_stage(3);
}

/* ---- references ---- */

static void dropper(void *arg)
{
    unref(arg);
}

MODEL(word_last_unref, .sc = MODEL_ALL, .tso = MODEL_ALL, .pso = MODEL_ALL)
{
    struct stage s;
    stage_init(&s, at_once, 2);
    void *r = model_thread(runner, &s), *d = model_thread(dropper, &s);
    unref(&s);
    model_join(r);
    model_join(d);
    MODEL_EQUAL(model_live(), 0);
}

/* A late wake, a late cancel and the handle's end, around the end of the task. */
MODEL(word_late, .sc = 5, .tso = 5, .pso = 5)
{
    struct stage s;
    stage_init(&s, at_once, 2);
    hdi_store_relaxed(&s.cell->word, hdi_word_new(true) + HDI_REF_ONE);
    void *r = model_thread(runner, &s), *w = model_thread(waker, &s);
    act(&s, hdi_transition_to_cancelled(&s.cell->word));
    act(&s, hdi_transition_to_detached(&s.cell->word));
    model_join(r);
    model_join(w);
    MODEL_EQUAL(model_live(), 0);
}

/* Shutdown visits whatever the memory holds, without a reference of its own (TASK-3). */
static void visitor(void *arg)
{
    struct stage *s = arg;
    if (!hdi_word_try_ref(&s->cell->word)) return;
    act(s, hdi_transition_to_cancelled(&s->cell->word));
    unref(s);
}

MODEL(word_visit, .sc = 5, .tso = 5, .pso = 5)
{
    struct stage s;
    stage_init(&s, until_flagged, 1);
    s.keep = true;
    void *r = model_thread(runner, &s), *v = model_thread(visitor, &s);
    wake(&s, 0);
    model_join(r);
    model_join(v);
    MODEL_EQUAL(s.ends, 1);
    MODEL_EQUAL(hdi_word_refs(hdi_load_relaxed(&s.cell->word)), 0);
}

/* An idle, cancelled task is dropped at shutdown, or runs because of a wake: not both. */
static enum said never(struct stage *s)
{
    (void)s;
    return PENDING;
}

static void stop_runner(struct stage *s)
{
    while (hdi_load_acquire(&s->queue) != EMPTY) hdi_cpu_relax();
    hdi_store_release(&s->queue, STOPPED);
    hdi_futex_wake(&s->queue, 1);
}

MODEL(word_drop, .sc = 3, .tso = 3, .pso = 3)
{
    struct stage s;
    stage_init(&s, never, 2);
    void *r = model_thread(runner, &s), *w = model_thread(waker, &s);
    act(&s, hdi_transition_to_cancelled(&s.cell->word));
    while (!hdi_transition_to_dropped(&s.cell->word)) hdi_cpu_relax();
    MODEL_WRITE(s.seen, MODEL_READ(s.seen) + 1); /* its state is ours now */
    complete(&s);
    model_join(w);
    unref(&s);
    stop_runner(&s);
    model_join(r);
    MODEL_EQUAL(model_live(), 0);
}
