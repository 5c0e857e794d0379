/* SPDX-License-Identifier: MIT
 *
 * exec: a thread that runs tasks, as far as tasks need to know it.
 *
 * The thread's self pointer (os/thread.h) is its struct hdi_exec, the first member of
 * a worker; it is NULL on plain threads. A fiber must ask for it again after every
 * switch: it may have woken up elsewhere.
 */
#ifndef HDI_TASK_EXEC_H
#define HDI_TASK_EXEC_H

#include "ctx/context.h"
#include "os/thread.h"
#include "task/state.h"
#include "task/task.h"

/* What is done with a fiber that switched away, once its context is saved
 * (SWITCH-4). */
enum hdi_after {
    HDI_AFTER_YIELD,
    HDI_AFTER_PARK,
    HDI_AFTER_MOVE, /* its home is another dispatcher now: into the queue there */
    HDI_AFTER_HOLD, /* another task holds it (HDI_UNUSUAL_INLINE) */
    HDI_AFTER_ERRAND, /* the worker does something for it first (hdi_worker_run_errand) */
    HDI_AFTER_LONG_RUN, /* as YIELD, but behind tasks that did not run for long */
};

/* EXEC-1: `left` and `dead_stack` are set only between a fiber's leaving and the
 * settling on the other side; at most one of them. */
struct hdi_exec {
    struct hdi_context context; /* the scheduler's own stack */
    struct hd_task *current;    /* the running task; NULL in between */
    struct hd_task *left;       /* the fiber that switched away and is not settled yet */
    enum hdi_after after;       /* what is to be done with it */
    struct hd_runtime *runtime;
    struct hdi_timers *timers;  /* the wheel of those who start timers here */
    int64_t coarse_ns;          /* the clock as last read on this thread, for reports */
    struct hdi_stack *dead_stack; /* the stack of a fiber that has ended, */
    struct hdi_context dead;      /* and what is left of its context */
    struct hdi_fp_control *left_fp; /* where to save the control words of an HD_SAVE_FP fiber
                                     * that leaves; NULL otherwise */
    struct hdi_fp_control fp;       /* the thread's own while such a fiber runs */
    uint32_t ops;                   /* sim: paid since the running task was switched to */
    uint32_t calls_out;             /* how deep in functions of the program that must not switch */
};

static inline struct hdi_exec *hdi_exec_self(void)
{
    return hdi_thread_self();
}

/* The running task; NULL outside any. */
static inline struct hd_task *hdi_task_self(void)
{
    struct hdi_exec *exec = hdi_exec_self();
    return exec ? exec->current : NULL;
}

/* The same, if it is METERED. Relaxed: the flag never changes. */
static inline struct hd_task *hdi_task_metered(void)
{
    struct hd_task *task = hdi_task_self();
    return task && (hdi_load_relaxed(&task->word) & HDI_METERED) ? task : NULL;
}

/* Call a function of the program from inside the library, where it must not switch: not even by
 * hd_checkpoint_block(). */
static inline struct hdi_exec *hdi_exec_call_out(void)
{
    struct hdi_exec *exec = hdi_exec_self();
    if (exec) exec->calls_out++;
    return exec;
}

static inline void hdi_exec_called_out(struct hdi_exec *exec)
{
    if (exec) exec->calls_out--;
}

#define HDI_CALL_OUT(call)                                                               \
    do {                                                                                 \
        struct hdi_exec *const exec_ = hdi_exec_call_out();                              \
        call;                                                                            \
        hdi_exec_called_out(exec_);                                                      \
    } while (0)

/* ---- what the scheduler provides (sched/worker.c) ---- */

/* Where a fiber that leaves is to go: another fiber, which is current and RUNNING from
 * now on, or the scheduler's own context. */
struct hdi_context *hdi_sched_next(struct hdi_exec *exec);

/* Do with what left what is to be done, now that its context is saved (SWITCH-4).
 * Context: first thing after every switch, on the side that was switched to. */
void hdi_sched_settle(struct hdi_exec *exec);

/* Part of the above: a ready task gives way to others. */
void hdi_sched_give_way(struct hdi_exec *exec, struct hd_task *task);

/* The running fiber is about to leave: jobs that nobody has taken yet are its own again
 * (sched/jobs.c). */
void hdi_sched_take_back(struct hdi_exec *exec);

/* Whose cancels concern the task: itself; if it runs a job, the task that began it all. */
struct hd_task *hdi_sched_origin(struct hd_task *task);

/* The running fiber has run for long, and is about to leave: what the scheduler looks at every so
 * many runs may be overdue. Context: fiber. */
void hdi_sched_long_run(struct hdi_exec *exec);

/* End the running fiber, whose result is in the task. Context: fiber. */
noreturn void hdi_sched_exit(struct hdi_exec *exec);

/* ---- what the simulation provides (sim/schedule.c) ---- */

/* Runtimes of this process that have points, or are recorded or replayed. Relaxed: a task that is
 * in one sees it. */
extern _Atomic(uint32_t) hdi_schedules;

void hdi_schedule_reach(const void *object, const void *place);

/* A point (heddle/explore.h): the caller is about to do something with the object (NULL: unknown)
 * that others can see. In a fiber, and where it may switch. Its place in the code is an address of
 * its own, not that of the call, of which compilers make one or several as they like. */
#define hdi_point(object)                                                                \
    do {                                                                                 \
        static const char place_ = 0;                                                    \
        if (hdi_unlikely(hdi_load_relaxed(&hdi_schedules) > 0)) {                        \
            hdi_schedule_reach((object), &place_);                                       \
        }                                                                                \
    } while (0)

/* A signal came while nobody waited for it; a closed handle was used. */
void hdi_schedule_unheard(const void *object);
void hdi_schedule_stale(const char *what);

/* The object ends: what comes to be at its place is another. */
void hdi_schedule_gone(const void *object);

static inline void hdi_gone(const void *object)
{
    if (hdi_unlikely(hdi_load_relaxed(&hdi_schedules) > 0)) hdi_schedule_gone(object);
}

static inline void hdi_unheard(const void *object)
{
    if (hdi_unlikely(hdi_load_relaxed(&hdi_schedules) > 0)) hdi_schedule_unheard(object);
}

static inline void hdi_stale(const char *what)
{
    if (hdi_unlikely(hdi_load_relaxed(&hdi_schedules) > 0)) hdi_schedule_stale(what);
}

/* The task yields. */
void hdi_schedule_yields(struct hd_task *task);

/* ---- what sync/hold.c provides ---- */

/* The running fiber is about to leave while it holds locks of its thread. */
void hdi_hold_fail(struct hd_task *task);

/* task/fiber.c: what hdi_fiber_leave() leaves out. */
void hdi_fiber_leave_unusual(struct hdi_exec *exec, struct hd_task *task);

/* ---- switching ---- */

/* A fiber has just been switched to. Another fiber may have switched here directly; one that
 * parked, the common case, is settled at once. */
HDI_ALWAYS_INLINE void hdi_exec_arrived(void)
{
    struct hdi_exec *exec = hdi_exec_self();
    struct hd_task *left = exec->left;
    if (hdi_likely(left && exec->after == HDI_AFTER_PARK && !left->unusual && !HDI_MODEL)) {
        exec->left = NULL;
        const enum hdi_next next = hdi_transition_to_idle(&left->word, left->phase);
        if (hdi_unlikely(next == HDI_NEXT_SUBMIT)) hdi_sched_give_way(exec, left);
    } else if (left || exec->dead_stack) {
        hdi_sched_settle(exec);
    }
}

/* Run a fiber until some fiber switches back here.
 * Context: the scheduler's stack. The fiber is current, RUNNING and prepared. */
HDI_ALWAYS_INLINE void hdi_fiber_resume(struct hdi_exec *exec, struct hd_task *task)
{
    if (hdi_unlikely(task->unusual & HDI_UNUSUAL_SAVE_FP)) {
        hdi_fp_save(&exec->fp);
        hdi_fp_load(&hdi_task_extras(task)->fp);
    }
    hdi_context_switch(&exec->context, &task->fiber.context);
    if (hdi_unlikely(exec->left_fp != NULL)) {
        hdi_fp_save(exec->left_fp);
        hdi_fp_load(&exec->fp);
        exec->left_fp = NULL;
    }
    hdi_sched_settle(exec);
}

/* Leave the running fiber until it is resumed, perhaps on another thread.
 * Context: fiber. */
HDI_ALWAYS_INLINE void hdi_fiber_leave(struct hdi_exec *exec, enum hdi_after after)
{
    struct hd_task *task = exec->current;
    if (hdi_unlikely(task->unusual)) hdi_fiber_leave_unusual(exec, task);
    exec->left = task;
    exec->after = after;
    hdi_context_switch(&task->fiber.context, hdi_sched_next(exec));
    hdi_exec_arrived();
}

/* task/fiber.c: make a stack ready for the fiber's first run. */
void hdi_fiber_prepare(struct hd_task *task, struct hdi_stack *stack);

#endif
