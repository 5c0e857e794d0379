/* SPDX-License-Identifier: MIT
 *
 * jobs: fork-join (sched/jobs.h). Every job runs once, its joiner sees what it did, and nobody
 * touches it once it is joined: it is freed there and then. A lost wake-up is a deadlock, work
 * that a sleeper is not told of a livelock.
 */
#include <heddle/fork.h>

#include "rt.h"
#include "sched/find.h"

#define JOBS_MOST 8

struct cell {
    int runs; /* plain: by whoever runs the job, then by its joiner */
};

/* One worker has the forker; each thief has another, and tries once. */
struct stage {
    unsigned thieves;
    _Atomic(uint32_t) ready, go;
    struct hdi_worker *victim; /* plain: `go` orders it */
    struct cell cells[JOBS_MOST];
};

HD_JOB(add, int, struct cell *, cell)
{
    MODEL_WRITE(cell->runs, MODEL_READ(cell->runs) + 1);
    return MODEL_READ(cell->runs);
}

/* A job in memory that goes when it is joined. */
#define FORK(cell)                                                                       \
    (__extension__({                                                                     \
        add_job *const new_ = model_alloc(sizeof(*new_));                                \
        HD_FORK_INTO(new_, add, (cell));                                                 \
        new_;                                                                            \
    }))
#define JOIN(job)                                                                        \
    do {                                                                                 \
        struct cell *const cell_ = (job)->arg_;                                          \
        MODEL_EQUAL(HD_SYNC_FROM(job, add), 1);                                          \
        MODEL_EQUAL(MODEL_READ(cell_->runs), 1);                                         \
        model_free(job);                                                                 \
    } while (0)

/* As if somebody had asked: the next fork lays open. Or nobody had. */
static void want(bool work)
{
    hdi_store_relaxed(&hdi_worker_self()->jobs.wanted, work);
}

static hd_poll steal_once(void *state, int *result)
{
    struct stage *s = *(struct stage **)state;
    hdi_fetch_add_acq_rel(&s->ready, 1);
    while (!hdi_load_acquire(&s->go)) hdi_cpu_relax();
    struct hd_task *strand = hdi_jobs_steal(hdi_worker_self(), s->victim);
    if (strand) hdi_sched_submit(strand);
    *result = 0;
    return HD_READY;
}

/* Context: the forker. From here on all is explored, until it is calm again. */
static void begin(struct stage *s)
{
    while (hdi_load_acquire(&s->ready) < s->thieves) hdi_cpu_relax();
    s->victim = hdi_worker_self();
    MODEL_NAME(s->victim->jobs.open);
    MODEL_NAME(s->victim->jobs.wanted);
    want(false);
    hdi_store_release(&s->go, 1);
    model_calm(false);
}

static void play(hd_fn *forker, unsigned thieves)
{
    struct stage s = {.thieves = thieves};
    hd_runtime *rt = rt_start(thieves + 1);
    model_calm(true);
    hd_task *task = rt_fiber(rt, forker, &s);
    for (unsigned i = 0; i < thieves; i++) hd_detach(rt_poll(rt, steal_once, &s));
    MODEL_EQUAL(rt_join(task), 0);
    rt_stop(rt);
}

/* A fiber that runs a job, whose argument is the stage. */
#define FIBER(name)                                                                      \
    static int name##_fiber(void *arg)                                                   \
    {                                                                                    \
        return HD_RUN_JOB(NULL, name, arg);                                              \
    }                                                                                    \
    struct stage /* takes the semicolon */

/* ---- forker against thieves ---- */

/* The last one, wanted by both: popped, or taken, and then its end against the joiner's sleep. */
HD_JOB(fork_one, int, struct stage *, s)
{
    begin(s);
    want(true);
    add_job *a = FORK(&s->cells[0]);
    JOIN(a);
    model_calm(true);
    return 0;
}
FIBER(fork_one);

MODEL(jobs_one, .sc = 3, .tso = 2, .pso = 2, RT_STEPS,
      .kills = "jobs_end_blind jobs_touch_late jobs_join_blind")
{
    play(fork_one_fiber, 1);
}

/* Of three jobs the oldest two are laid open, at once, and the third if a thief asks. */
HD_JOB(fork_three, int, struct stage *, s)
{
    begin(s);
    add_job *a = FORK(&s->cells[0]), *b = FORK(&s->cells[1]);
    want(true);
    add_job *c = FORK(&s->cells[2]);
    JOIN(c);
    JOIN(b);
    JOIN(a);
    model_calm(true);
    return 0;
}
FIBER(fork_three);

MODEL(jobs_three, .sc = 2, .tso = 2, .pso = 1, RT_STEPS, .kills = "jobs_newest_first")
{
    play(fork_three_fiber, 1);
}
MODEL(jobs_two_thieves, .sc = 2, .tso = 1, .pso = 1, RT_STEPS) { play(fork_three_fiber, 2); }

/* More than the deque holds: the rest stays private until there is room, lined up or not. */
static void fork_many(struct stage *s, hd_job **list, add_job **jobs)
{
    hd_job *hd_jobs_ = *list;
    for (int i = 0; i < JOBS_MOST; i++) {
        if (i == 5 || i > 6) want(true);
        jobs[i] = FORK(&s->cells[i]);
    }
    *list = hd_jobs_;
}

HD_JOB(fork_and_join_many, int, struct stage *, s)
{
    add_job *jobs[JOBS_MOST];
    begin(s);
    fork_many(s, &hd_jobs_, jobs);
    for (int i = JOBS_MOST; i-- > 0;) JOIN(jobs[i]);
    model_calm(true);
    return 0;
}
FIBER(fork_and_join_many);

MODEL(jobs_full, .sc = 2, .tso = 1, .pso = 1, RT_STEPS) { play(fork_and_join_many_fiber, 1); }

/* What was lined up is joined, and then another is laid open. */
HD_JOB(fork_after_many, int, struct stage *, s)
{
    add_job *jobs[JOBS_MOST];
    struct cell again = {0};
    begin(s);
    fork_many(s, &hd_jobs_, jobs);
    for (int i = JOBS_MOST; i-- > 3;) JOIN(jobs[i]);
    want(true);
    add_job *a = FORK(&again);
    JOIN(a);
    for (int i = 3; i-- > 0;) JOIN(jobs[i]);
    model_calm(true);
    return 0;
}
FIBER(fork_after_many);

MODEL(jobs_lined, .sc = 2, .tso = 1, .pso = 1, RT_STEPS, .kills = "jobs_join_lined")
{
    play(fork_after_many_fiber, 1);
}

/* ---- a fiber that leaves ---- */

/* What is open is taken back against a thief, and private until it is laid open again. */
HD_JOB(fork_yield, int, struct stage *, s)
{
    begin(s);
    want(true);
    add_job *a = FORK(&s->cells[0]);
    hd_yield();
    want(true);
    add_job *b = FORK(&s->cells[1]);
    JOIN(b);
    JOIN(a);
    model_calm(true);
    return 0;
}
FIBER(fork_yield);

MODEL(jobs_yield, .sc = 2, .tso = 2, .pso = 1, RT_STEPS, .kills = "jobs_back_open")
{
    play(fork_yield_fiber, 1);
}

/* What is lined up is not the next one's. */
HD_JOB(fork_other, int, struct stage *, s)
{
    struct cell other = {0};
    (void)s;
    want(true);
    add_job *a = FORK(&other);
    JOIN(a);
    return 0;
}
FIBER(fork_other);

HD_JOB(fork_many_yield, int, struct stage *, s)
{
    add_job *jobs[JOBS_MOST];
    hd_task *second;
    MODEL_EQUAL(hd_spawn(&second, fork_other_fiber, s), 0);
    begin(s);
    fork_many(s, &hd_jobs_, jobs);
    hd_yield();
    for (int i = JOBS_MOST; i-- > 0;) JOIN(jobs[i]);
    MODEL_EQUAL(hd_join(second, NULL), 0);
    model_calm(true);
    return 0;
}
FIBER(fork_many_yield);

MODEL(jobs_lined_yield, .sc = 1, .tso = 1, .pso = 1, RT_STEPS, .kills = "jobs_left_lined")
{
    play(fork_many_yield_fiber, 1);
}

/* Two by turns on one worker. */
HD_JOB(fork_second, int, struct stage *, s)
{
    want(true);
    add_job *b = FORK(&s->cells[1]);
    hd_yield();
    JOIN(b);
    return 0;
}
FIBER(fork_second);

HD_JOB(fork_by_turns, int, struct stage *, s)
{
    hd_task *second;
    MODEL_EQUAL(hd_spawn(&second, fork_second_fiber, s), 0);
    begin(s);
    want(true);
    add_job *a = FORK(&s->cells[0]);
    hd_yield();
    JOIN(a);
    MODEL_EQUAL(hd_join(second, NULL), 0);
    model_calm(true);
    return 0;
}
FIBER(fork_by_turns);

MODEL(jobs_by_turns, .sc = 2, .tso = 1, .pso = 1, RT_STEPS, .kills = "jobs_left_open")
{
    play(fork_by_turns_fiber, 1);
}

/* ---- strands that fork ---- */

HD_JOB(nest, int, struct stage *, s)
{
    want(true);
    add_job *inner = FORK(&s->cells[1]);
    JOIN(inner);
    return HD_CALL(add, &s->cells[0]);
}

/* The joiner's worker may take from its thief what that has forked. */
HD_JOB(fork_nest, int, struct stage *, s)
{
    begin(s);
    want(true);
    nest_job *outer = model_alloc(sizeof(*outer));
    HD_FORK_INTO(outer, nest, s);
    MODEL_EQUAL(HD_SYNC_FROM(outer, nest), 1);
    model_free(outer);
    model_calm(true);
    return 0;
}
FIBER(fork_nest);

MODEL(jobs_nested, .sc = 2, .tso = 2, .pso = 1, RT_STEPS) { play(fork_nest_fiber, 1); }

/* ---- hunger ---- */

static void settle_others(void)
{
    struct hd_dispatcher *dispatcher = hdi_worker_self()->dispatcher;
    while (hdi_idle_parked(&dispatcher->idle) + 1 < dispatcher->worker_count) hdi_cpu_relax();
}

/* Returns whether the job was open: then it is not before somebody else has it. */
static bool offered(const hd_job *job)
{
    if (!(job->older_ & HD_JOB_OPEN_)) return false;
    while (hdi_deque_count(&hdi_worker_self()->jobs.open) > 0) hdi_cpu_relax();
    return true;
}

/* Whoever sleeps has been told of what is open, or the next fork lays open (H): one that goes on
 * forking is not left alone for ever. The first ones are joined while somebody looks for them. */
HD_JOB(fork_on, int, struct stage *, s)
{
    settle_others();
    model_calm(false);
    for (int i = 0; i < 2; i++) {
        add_job *early = FORK(&s->cells[i]);
        JOIN(early);
        hdi_cpu_relax();
    }
    for (bool shared = false; !shared; hdi_cpu_relax()) {
        s->cells[2].runs = 0;
        add_job *a = FORK(&s->cells[2]);
        shared = offered(&a->job_);
        JOIN(a);
    }
    model_calm(true);
    return 0;
}
FIBER(fork_on);

static void starve(hd_fn *forker, unsigned workers)
{
    struct stage s = {.thieves = 0};
    hd_runtime *rt = rt_start(workers);
    model_calm(true);
    MODEL_EQUAL(rt_join(rt_fiber(rt, forker, &s)), 0);
    rt_stop(rt);
}

MODEL(jobs_hunger, .sc = 2, .tso = 1, .pso = 1, RT_STEPS, .kills = "jobs_sleep_silent")
{
    starve(fork_on_fiber, 2);
}

/* Keeps a thief until there is another. */
HD_JOB(hold, int, struct stage *, s)
{
    if (hdi_worker_self() == s->victim) return 0;
    hdi_fetch_add_acq_rel(&s->ready, 1);
    while (hdi_load_acquire(&s->ready) < 2) hdi_cpu_relax();
    return 0;
}

/* The same with two that sleep, of whom one is woken, and has had its job, when the other asks. */
HD_JOB(fork_on_for_two, int, struct stage *, s)
{
    hold_job *a = model_alloc(sizeof(*a)), *b = model_alloc(sizeof(*b));
    s->victim = hdi_worker_self();
    settle_others();
    model_calm(false);
    HD_FORK_INTO(a, hold, s);
    MODEL_CHECK(offered(&a->job_));
    for (bool shared = false; !shared; hdi_cpu_relax()) {
        HD_FORK_INTO(b, hold, s);
        shared = offered(&b->job_);
        MODEL_EQUAL(HD_SYNC_FROM(b, hold), 0);
    }
    MODEL_EQUAL(HD_SYNC_FROM(a, hold), 0);
    model_calm(true);
    model_free(b);
    model_free(a);
    return 0;
}
FIBER(fork_on_for_two);

MODEL(jobs_hunger_two, .sc = 1, .tso = 1, .pso = 1, RT_STEPS) { starve(fork_on_for_two_fiber, 3); }

/* ---- from outside, and to the end ---- */

HD_JOB(fork_plainly, int, struct stage *, s)
{
    add_job *a = FORK(&s->cells[0]);
    JOIN(a);
    return MODEL_READ(s->cells[0].runs);
}

/* Whoever ran a job may still be at it when the runtime is to go. */
MODEL(jobs_outside, .sc = 2, .tso = 1, .pso = 1, RT_STEPS)
{
    struct stage s = {.thieves = 0};
    hd_runtime *rt = rt_start(2);
    MODEL_EQUAL(HD_RUN_JOB(rt, fork_plainly, &s), 1);
    hd_runtime_destroy(rt);
}

/* The fiber's stack is too small for jobs: all is done by another, for which it waits. */
static int run_on_larger(void *arg)
{
    fork_plainly_job *root = model_alloc(sizeof(*root)); /* HD_RUN_JOB(), but for where it is */
    root->arg_ = arg;
    hd_job_run_(NULL, &root->job_, fork_plainly_run_);
    const int result = root->result_;
    model_free(root);
    return result;
}

MODEL(jobs_larger_stack, .sc = 1, .tso = 1, .pso = 1, RT_STEPS)
{
    struct stage s = {.thieves = 0};
    hd_runtime *rt = rt_start(2);
    rt->options.job_stack_bytes *= 2;
    MODEL_EQUAL(rt_join(rt_fiber(rt, run_on_larger, &s)), 1);
    rt_stop(rt);
}

/* A shutdown, or a dump, looks at every task there is, and holds it meanwhile. A strand that a
 * thief makes, and that is not needed because another had the job, is none of those. */
static void hold_and_cancel(struct hd_task *task, void *arg)
{
    (void)arg;
    hdi_cpu_relax();
    hd_cancel(task);
}

HD_JOB(fork_for_long, int, struct stage *, s)
{
    begin(s);
    want(true);
    add_job *a = FORK(&s->cells[0]);
    hdi_cpu_relax();
    JOIN(a);
    model_calm(true);
    return 0;
}
FIBER(fork_for_long);

MODEL(jobs_walk, .sc = 2, .tso = 1, .pso = 1, RT_STEPS, .kills = "jobs_strand_early")
{
    struct stage s = {.thieves = 1};
    hd_runtime *rt = rt_start(2);
    model_calm(true);
    hd_task *task = rt_fiber(rt, fork_for_long_fiber, &s);
    hd_detach(rt_poll(rt, steal_once, &s));
    while (!hdi_load_acquire(&s.go)) hdi_cpu_relax();
    hdi_runtime_for_each_task(rt, hold_and_cancel, NULL);
    MODEL_EQUAL(rt_join(task), 0);
    rt_stop(rt);
}
