/* SPDX-License-Identifier: MIT
 *
 * fork: parallel recursion at about the price of a function call.
 *
 *   HD_JOB(fib, long, int, n)
 *   {
 *       if (n < 2) return n;
 *       HD_FORK(one, fib, n - 1);
 *       const long two = HD_CALL(fib, n - 2);
 *       return HD_SYNC(one) + two;
 *   }
 *   ...
 *   const long result = HD_RUN_JOB(NULL, fib, 35);
 *
 * A job is a function of one argument whose call may happen later, or elsewhere. HD_FORK() puts
 * it on the caller's stack and goes on; HD_SYNC() calls it there and then, as if nothing had been
 * forked, unless another worker has meanwhile taken it. No memory is allocated, no atomic
 * operation made, and there is no limit to the depth but the stack, unless a worker that has
 * nothing to do asks for work: only then are some of the oldest jobs laid open to others. Who
 * joins a job that runs elsewhere sleeps, and its worker does something else.
 *
 * Rules
 *   - Jobs are joined by the function that forked them, newest first. What HD_FORK() declared and
 *     nobody joined by HD_SYNC() is joined at the end of its block, whichever way that is left.
 *   - An argument is copied when the job is forked, a result when it has ended. Whatever they
 *     point to is shared, and the job must not touch what its forker touches before the join.
 *   - A job that is taken runs as a task of its own, on a stack of the runtime's job_stack_bytes:
 *     the running task, its locals and what is thread-local are not the forker's. hd_cancelled()
 *     says what it would to the task that began it all, and knows of the scopes and shields that
 *     the job itself has entered; no other call knows of its beginner's being cancelled.
 *   - A job should compute, not wait. It may wait, as any fiber; what it has forked then stays
 *     with it, and nobody else can take it until it goes on.
 *   - Outside a runtime, in a stackless task, in a task with a budget or limited rights, and in a
 *     fiber that holds a lock of its thread (hd_hold_begin()), nobody takes jobs: they run one
 *     after the other.
 *   - In sim, whether a job is taken is drawn from the seed.
 */
#ifndef HEDDLE_FORK_H
#define HEDDLE_FORK_H

#include <heddle/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What every job begins with; no part of the interface. */
typedef struct hd_job hd_job;
struct hd_job {
    void (*run_)(hd_job *job);
    uintptr_t older_; /* forked before it by the same strand, and not joined yet; HD_JOB_OPEN_ */
    uintptr_t end_;   /* open: who waits for it, or that it has ended; soon: the one after it */
    void *origin_;    /* open: the task that began it all */
};

/* In the link's low bits, so that a join looks at one word: others may take it, or soon. */
#define HD_JOB_OPEN_ ((uintptr_t)3)

/* Small jobs are bound by the fetching of instructions, in lines of 64 bytes, so their speed
 * depends on where they begin: fib takes 1.02 to 1.22 of the plain recursion's time. Hence this,
 * and a byte more than is needed in hd_is_work_wanted_(): what fib does before its first call fills
 * one line. */
#define HD_JOB_ALIGNED_ __attribute__((aligned(64)))

/* Define a job: a function of this file, with a result and one argument (a struct, or a pointer
 * to one, if it needs more). The body follows. */
#define HD_JOB(name, result_type, arg_type, arg)                                          \
    HD_JOB_DECLARE(name, result_type, arg_type);                                          \
    static result_type name(__attribute__((unused)) hd_job *hd_jobs_, arg_type arg)

/* The same, to be called before it is defined, by HD_JOB_BODY(). */
#define HD_JOB_DECLARE(name, result_type, arg_type)                                       \
    HD_JOB_ALIGNED_ static result_type name(hd_job *hd_jobs_, arg_type);                  \
    typedef struct name##_job {                                                           \
        hd_job job_;                                                                      \
        arg_type arg_;                                                                    \
        result_type result_;                                                              \
    } name##_job;                                                                         \
    __attribute__((unused)) static void name##_run_(hd_job *job_)                         \
    {                                                                                     \
        name##_job *const self_ = (name##_job *)(void *)job_;                             \
        self_->result_ = name(NULL, self_->arg_);                                         \
    }                                                                                     \
    struct hd_job /* takes the semicolon */
#define HD_JOB_BODY(name, result_type, arg_type, arg)                                     \
    static result_type name(__attribute__((unused)) hd_job *hd_jobs_, arg_type arg)

/* A job without a result. */
#define HD_JOB_VOID(name, arg_type, arg)                                                  \
    static void name##_body_(hd_job *hd_jobs_, arg_type);                                 \
    HD_JOB(name, char, arg_type, arg_)                                                    \
    {                                                                                     \
        name##_body_(hd_jobs_, arg_);                                                     \
        return 0;                                                                         \
    }                                                                                     \
    static void name##_body_(__attribute__((unused)) hd_job *hd_jobs_, arg_type arg)

/* Call a job as a function. Context: a job. */
#define HD_CALL(name, value) name(hd_jobs_, (value))

/* Fork a job as `var`, which it declares. Context: a job. */
#define HD_FORK(var, name, value)                                                         \
    name##_job var;                                                                       \
    __attribute__((unused, cleanup(hd_unjoined_))) struct hd_forked_ var##_forked_ = {    \
        &var.job_, &hd_jobs_};                                                            \
    __attribute__((unused)) __typeof__(name) *const var##_call_ = name;                   \
    HD_FORK_AT_(&var, name, value, true)

/* Join it. The value is its result. */
#define HD_SYNC(var)                                                                      \
    (__extension__({                                                                      \
        var##_forked_.job = NULL;                                                         \
        HD_SYNC_BY_(&var, var##_call_, true);                                             \
    }))

/* The same with a job object of the caller's, a `name_job`, e.g. one of an array. It must be joined
 * before the function returns. */
#define HD_FORK_INTO(object, name, value) HD_FORK_AT_(object, name, value, false)
#define HD_SYNC_FROM(object, name) HD_SYNC_BY_(object, name, false)

/* From anywhere else: run a job in this runtime (NULL: the caller's), with whatever it forks, and
 * wait for it. The value is its result. On a thread outside the runtime it runs as a task there; in
 * a fiber whose stack is smaller than the runtime's job_stack_bytes, on a stack of that size. If
 * such a task cannot be had, the caller does it all by itself.
 * Context: any but a stackless task of the runtime, which does it by itself.  Switches: yes.
 * Allocates: no. */
#define HD_RUN_JOB(runtime, name, value)                                                  \
    (__extension__({                                                                      \
        name##_job root_;                                                                 \
        root_.arg_ = (value);                                                             \
        hd_job_run_((runtime), &root_.job_, name##_run_);                                 \
        root_.result_;                                                                    \
    }))

/* ---- what the macros are made of ---- */

/* The slow parts. Somebody wants work: lay open the oldest jobs. */
HD_API void hd_fork_wanted_(hd_job *newest);

/* Join a job that was laid open, and leave nothing but the link in `older_`. Returns true if the
 * caller is to run it. */
HD_API bool hd_join_open_(hd_job *job);

HD_API void hd_job_run_(hd_runtime *runtime, hd_job *job, void (*run)(hd_job *job));

/* A job is joined while a newer one is not. */
HD_API __attribute__((__noreturn__, cold)) void hd_join_disordered_(void);

/* Whether somebody wants work: not 0. Read by assembly, since compilers may keep the address of
 * what is thread-local where a fiber has gone on in another thread. */
extern HD_API __thread const uint32_t *hd_work_wanted_;

static inline bool hd_is_work_wanted_(void)
{
    const uint32_t *wanted;
#if defined(__x86_64__)
    bool any; /* disp8: see HD_JOB_ALIGNED_ */
    __asm__ volatile("movq hd_work_wanted_@gottpoff(%%rip), %0\n\t"
                     "movq %%fs:(%0), %0\n\t"
                     "%{disp8%} cmpl $0, (%0)"
                     : "=&r"(wanted), "=@ccnz"(any));
    return any;
#elif defined(__aarch64__)
    uintptr_t offset;
    __asm__ volatile("mrs %0, tpidr_el0\n\t"
                     "adrp %1, :gottprel:hd_work_wanted_\n\t"
                     "ldr %1, [%1, #:gottprel_lo12:hd_work_wanted_]\n\t"
                     "ldr %0, [%0, %1]"
                     : "=&r"(wanted), "=&r"(offset));
    return __atomic_load_n(wanted, __ATOMIC_RELAXED) != 0;
#endif
}

/* The address for a slow path. Of a job in the caller's frame it is worked out anew: kept in a
 * register for them, it would be one that every forker has to save, 5 percent of fib. To a compiler
 * this shows the job to others, like the call that follows. */
static inline __attribute__((always_inline)) hd_job *hd_job_again_(hd_job *job, bool in_frame)
{
#if defined(__x86_64__)
    if (in_frame) __asm__("leaq %1, %0" : "=r"(job) : "m"(*job));
#endif
    (void)in_frame;
    return job;
}

static inline __attribute__((always_inline)) void hd_fork_(hd_job *job, void (*run)(hd_job *job),
                                                           hd_job **jobs, bool in_frame)
{
    job->run_ = run;
    job->older_ = (uintptr_t)*jobs;
    *jobs = job;
    if (__builtin_expect(hd_is_work_wanted_(), 0)) hd_fork_wanted_(hd_job_again_(job, in_frame));
}

/* Returns true if the caller is to run it. */
static inline __attribute__((always_inline)) bool hd_join_(hd_job *job, hd_job **jobs,
                                                           bool in_frame)
{
    if (__builtin_expect(*jobs != job, 0)) hd_join_disordered_();
    bool mine = true;
    uintptr_t older = job->older_;
    if (__builtin_expect((older & HD_JOB_OPEN_) != 0, 0)) {
        mine = hd_join_open_(hd_job_again_(job, in_frame));
        older = job->older_; /* Read again, lest every forker save a register for it. */
    }
    *jobs = (hd_job *)older;
    return mine;
}

/* clang's analyzer does not see that a job which another ran has its result. */
#ifdef __clang_analyzer__
#define HD_HAS_RESULT_(job) __builtin_memset(&(job)->result_, 0, sizeof((job)->result_))
#else
#define HD_HAS_RESULT_(job) ((void)0)
#endif

#define HD_FORK_AT_(object, name, value, in_frame)                                        \
    do {                                                                                  \
        name##_job *const into_ = (object);                                               \
        into_->arg_ = (value);                                                            \
        HD_HAS_RESULT_(into_);                                                            \
        hd_fork_(&into_->job_, name##_run_, &hd_jobs_, (in_frame));                       \
    } while (0)

#define HD_SYNC_BY_(object, call, in_frame)                                               \
    (__extension__({                                                                      \
        __typeof__(object) const object_ = (object);                                      \
        __typeof__(object_->result_) result_;                                             \
        if (hd_join_(&object_->job_, &hd_jobs_, (in_frame))) {                            \
            result_ = (call)(hd_jobs_, object_->arg_);                                    \
        } else {                                                                          \
            result_ = object_->result_;                                                   \
        }                                                                                 \
        result_;                                                                          \
    }))

/* A job of HD_FORK() that was not joined. */
struct hd_forked_ {
    hd_job *job; /* NULL: it was */
    hd_job **jobs;
};

static inline __attribute__((always_inline)) void hd_unjoined_(struct hd_forked_ *forked)
{
    if (forked->job && hd_join_(forked->job, forked->jobs, false)) forked->job->run_(forked->job);
}

#ifdef __cplusplus
}
#endif

#endif
