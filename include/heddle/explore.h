/* SPDX-License-Identifier: MIT
 *
 * explore: many schedules of one program, until one of them fails.
 *
 *   static int balance;
 *
 *   static int deposit(void *arg)
 *   {
 *       const int seen = hd_race_read(&balance);
 *       hd_race_write(&balance, seen + 1);
 *       return 0;
 *   }
 *
 *   static int scenario(void *arg)              runs again and again, from the beginning
 *   {
 *       balance = 0;
 *       ... spawn two, join them ...
 *       hd_assert(balance == 2);
 *       return 0;
 *   }
 *
 *   hd_explore(scenario, NULL, NULL, &found);    found.verdict: HD_VERDICT_RACE
 *
 * Or from outside, with a program that calls hd_run() and knows nothing of this:
 *
 *   heddle explore ./program
 *
 * A schedule is one run in sim with points: places where another task may go on. Points are before
 * every call of the library that may wait, take, give or wake, at every hd_atomic_*(), hd_race_*()
 * and hd_race_point(), and wherever a task waits or ends. Between two points a task runs by itself,
 * so what tasks share has to be touched by these calls: without them a race is never seen. A
 * *step* is what runs from one point to the next. Stackless tasks have points only where they
 * return.
 *
 * Which task goes on is the choice of a *sampler* (hd_options.sampler). A sampler's name with its
 * parameters and a seed say which schedule it is, for good: level D3. Every failure comes with
 * both, and with the list of its decisions in a log (log.h) that replays as long as the program
 * takes the same steps.
 *
 *   random           any that is ready
 *   pct:D[:STEPS]    priorities drawn once, and D-1 places among the first STEPS choices where who
 *                    would go on falls behind all others: finds each fault of depth D with a stated
 *                    chance. D: 3 if left out
 *   pos              a priority drawn for each step, again for those it races with
 *   urw[:N,N,...]    any, weighed by the steps each task still has before it: each schedule about
 *                    as often as any other. N: steps of the tasks in the order they are spawned,
 *                    each with those of the tasks that come from it; the last one is for the rest
 *   cohort           ready tasks by where their code stands, first come first served among equals
 *   fair             the running task as long as it can go on, then the one that is ready longest;
 *                    what `replay` falls back to
 *   all[:P]          not drawn but enumerated: every schedule with at most P preemptions (default
 *                    2), leaving out those that only swap steps which have nothing to do with each
 *                    other
 *   portfolio        the samplers above in turn, more often those that bring something new; the
 *                    default of hd_explore(), and only there
 *
 * STEPS and N are learned by hd_explore() from earlier schedules, if they are left out.
 */
#ifndef HEDDLE_EXPLORE_H
#define HEDDLE_EXPLORE_H

#include <heddle/base.h>
#include <heddle/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- in the program: points, shared memory, assertions ---- */

typedef enum hd_touch_kind {
    HD_TOUCH_READ,   /* plain: races with a write */
    HD_TOUCH_WRITE,  /* plain: races with both */
    HD_TOUCH_LOAD,   /* atomic: races with a plain write */
    HD_TOUCH_UPDATE, /* atomic: races with both plain ones */
    HD_TOUCH_ANY,    /* nothing is known: depends on everything, races with nothing */
} hd_touch_kind;

/* What the calling fiber is about to do with *object. A point in sim if the runtime has a sampler,
 * otherwise nothing. Two tasks that are about to touch the same plain memory at the same time, one
 * of them to write it, are a race.
 * Context: any.  Switches: in sim.  Allocates: no. */
HD_API void hd_touch(const void *object, hd_touch_kind kind, const hd_site *site);

/* A place where others may go on. */
#define hd_race_point() hd_touch(NULL, HD_TOUCH_ANY, HD_SITE)

/* Plain memory that tasks share and that something else protects, or should. The value; the value
 * written. */
#ifdef __cplusplus
#define HD_AUTO_ auto
#else
#define HD_AUTO_ __auto_type
#endif
#define HD_UNIQUE_(name)      HD_PASTE_(name, __COUNTER__) /* so that calls nest */
#define HD_PASTE_(a, b)       HD_PASTE_NOW_(a, b)
#define HD_PASTE_NOW_(a, b)   a##b
#define hd_race_read(pointer) HD_RACE_READ_(pointer, HD_UNIQUE_(hd_at_))
#define HD_RACE_READ_(...)    HD_RACE_READ_AS_(__VA_ARGS__)
#define HD_RACE_READ_AS_(pointer, at)                                                    \
    (__extension__({                                                                     \
        HD_AUTO_ at = (pointer);                                                         \
        hd_touch(at, HD_TOUCH_READ, HD_SITE);                                            \
        *at;                                                                             \
    }))
#define hd_race_write(pointer, value)                                                    \
    HD_RACE_WRITE_(pointer, value, HD_UNIQUE_(hd_at_), HD_UNIQUE_(hd_value_))
#define HD_RACE_WRITE_(...) HD_RACE_WRITE_AS_(__VA_ARGS__)
#define HD_RACE_WRITE_AS_(pointer, value, at, written)                                   \
    (__extension__({                                                                     \
        HD_AUTO_ at = (pointer);                                                         \
        __typeof__(*at) written = (value);                                               \
        hd_touch(at, HD_TOUCH_WRITE, HD_SITE);                                           \
        *at = written;                                                                   \
    }))

/* Atomic operations on integers and pointers (plain types, not _Atomic), sequentially consistent,
 * each a point in sim. hd_atomic_cas() returns whether it stored; otherwise *expected is what was
 * there. The others return what was there before. */
#define hd_atomic_load(pointer) HD_ATOMIC_LOAD_(pointer, HD_UNIQUE_(hd_at_))
#define HD_ATOMIC_LOAD_(...)    HD_ATOMIC_LOAD_AS_(__VA_ARGS__)
#define HD_ATOMIC_LOAD_AS_(pointer, at)                                                  \
    (__extension__({                                                                     \
        HD_AUTO_ at = (pointer);                                                         \
        hd_touch(at, HD_TOUCH_LOAD, HD_SITE);                                            \
        __atomic_load_n(at, __ATOMIC_SEQ_CST);                                           \
    }))
#define HD_ATOMIC_UPDATE_(pointer, value, operation)                                     \
    HD_ATOMIC_UPDATE_AS_(pointer, value, operation, HD_UNIQUE_(hd_at_), HD_UNIQUE_(hd_value_))
#define HD_ATOMIC_UPDATE_AS_(...) HD_ATOMIC_UPDATE_NOW_(__VA_ARGS__)
#define HD_ATOMIC_UPDATE_NOW_(pointer, value, operation, at, operand)                    \
    (__extension__({                                                                     \
        HD_AUTO_ at = (pointer);                                                         \
        __typeof__(*at) operand = (value);                                               \
        hd_touch(at, HD_TOUCH_UPDATE, HD_SITE);                                          \
        operation(at, operand, __ATOMIC_SEQ_CST);                                        \
    }))
#define hd_atomic_store(pointer, value)    HD_ATOMIC_UPDATE_(pointer, value, __atomic_store_n)
#define hd_atomic_exchange(pointer, value) HD_ATOMIC_UPDATE_(pointer, value, __atomic_exchange_n)
#define hd_atomic_add(pointer, value)      HD_ATOMIC_UPDATE_(pointer, value, __atomic_fetch_add)
#define hd_atomic_sub(pointer, value)      HD_ATOMIC_UPDATE_(pointer, value, __atomic_fetch_sub)
#define hd_atomic_or(pointer, value)       HD_ATOMIC_UPDATE_(pointer, value, __atomic_fetch_or)
#define hd_atomic_and(pointer, value)      HD_ATOMIC_UPDATE_(pointer, value, __atomic_fetch_and)
#define hd_atomic_cas(pointer, expected, desired)                                        \
    HD_ATOMIC_CAS_(pointer, expected, desired, HD_UNIQUE_(hd_at_), HD_UNIQUE_(hd_seen_), \
                   HD_UNIQUE_(hd_value_))
#define HD_ATOMIC_CAS_(...) HD_ATOMIC_CAS_AS_(__VA_ARGS__)
#define HD_ATOMIC_CAS_AS_(pointer, expected, desired, at, seen, wanted)                  \
    (__extension__({                                                                     \
        HD_AUTO_ at = (pointer);                                                         \
        HD_AUTO_ seen = (expected);                                                      \
        __typeof__(*at) wanted = (desired);                                              \
        hd_touch(at, HD_TOUCH_UPDATE, HD_SITE);                                          \
        __atomic_compare_exchange_n(at, seen, wanted, 0, __ATOMIC_SEQ_CST,               \
                                    __ATOMIC_SEQ_CST);                                   \
    }))

/* What must be so. In sim the run ends here: the task gets no further, no other runs, the log is
 * flushed, hd_run() returns -ENOTRECOVERABLE, and hd_explore() says HD_VERDICT_ASSERT. In live, and
 * on a thread, the process is aborted. Both say on stderr where and what, and in sim how to repeat
 * it. On in all builds.
 * Context: any.  Switches: only if it fails.  Allocates: no. */
#define hd_assert(condition)                                                             \
    (__builtin_expect(!!(condition), 1) ? (void)0 : hd_assert_failed(#condition, HD_SITE))
HD_API void hd_assert_failed(const char *what, const hd_site *site);

/* ---- verdicts ---- */

typedef enum hd_verdict {
    HD_VERDICT_NONE,      /* nothing was found */
    HD_VERDICT_ASSERT,    /* hd_assert() */
    HD_VERDICT_RESULT,    /* the program returned something else than 0 */
    HD_VERDICT_INVARIANT, /* hd_explore_options.invariant returned something else than 0 */
    HD_VERDICT_DEADLOCK,  /* nothing could ever go on */
    HD_VERDICT_LOST_WAKE, /* the same, and somebody waits for a signal that came before */
    HD_VERDICT_LIVELOCK,  /* more steps than steps_max */
    HD_VERDICT_RACE,      /* two tasks about to touch the same plain memory */
    HD_VERDICT_STALE,     /* a closed handle was used */
    HD_VERDICT_LEAK,      /* tasks that do not end when they are cancelled, or handles of tasks that
                           * were neither joined nor detached */
    HD_VERDICT_CRASH,     /* the process died; with `fork`, or under the tool */
    HD_VERDICT_DIVERGED,  /* a schedule did not do the same again: the program decides by something
                           * else than its input, such as what an earlier run left behind */
    HD_VERDICT_LOG,       /* the log could not be written, which ends the run */
} hd_verdict;

/* "assertion failed", "deadlock" and so on; "?" for what is none. Context: any. */
HD_API const char *hd_verdict_name(hd_verdict verdict);

/* ---- exploring ---- */

/* Every field left 0 takes its default. */
typedef struct hd_explore_options {
    size_t size;
    const char *sampler;  /* default "portfolio" */
    uint64_t seed;        /* default 1 */
    uint64_t schedules;   /* at most so many; default 10,000 */
    int64_t time_ns;      /* real time, looked at now and then; default: no limit */
    uint32_t steps_max;   /* of one schedule, which is then a livelock; default 20,000 */
    bool keep_going;      /* past failures: all schedules run, and the first failure is reported */
    bool fork;            /* each schedule in a process of its own: for programs that change what
                           * outlives them, and to survive crashes */
    bool clock;           /* time may pass while tasks are ready, as on a slow machine: timeouts and
                           * other tasks race */
    bool ignore_results;  /* a program that returns an error has not failed */
    bool allow_stale;     /* nor has one that uses a closed handle, such as one that closes it on
                           * purpose under a task that reads from it */
    void (*reset)(void *arg);    /* before each schedule, on the calling thread: puts back what the
                                  * last one changed */
    int (*invariant)(void *arg); /* after each step; must not call the library. 0: it holds */
    void *hook_arg;              /* for both */
    const hd_options *options;   /* of the runtime; world, seed and sampler are not looked at */
    const char *log;      /* a file: the first failing schedule is recorded there */
} hd_explore_options;

#ifdef __cplusplus
#define HD_EXPLORE_OPTIONS_INIT                                                          \
    ([] {                                                                                \
        hd_explore_options o = hd_explore_options();                                     \
        o.size = sizeof(o);                                                              \
        return o;                                                                        \
    }())
#else
#define HD_EXPLORE_OPTIONS_INIT {.size = sizeof(hd_explore_options)}
#endif

#define HD_SAMPLER_TEXT_MAX 248
#define HD_MESSAGE_MAX      248

/* How it went, and the first failure. Holds no pointers: it may be shared with another process,
 * and is then up to date at any time (HEDDLE_EXPLORE). */
typedef struct hd_explore_result {
    uint64_t schedules;   /* that ran */
    uint64_t failures;
    uint64_t steps;       /* over all of them */
    uint64_t steps_max;   /* of the longest */
    uint64_t tasks_max;   /* most in one */
    uint64_t failed_at;   /* which schedule failed first, from 1; 0: none */
    uint64_t seed;        /* of the first failure; while there is none, of what is under way, */
    char sampler[HD_SAMPLER_TEXT_MAX + 8]; /* and its sampler, all parameters filled in */
    hd_verdict verdict;   /* of the first failure */
    int32_t code;         /* its result, or the signal of a crash; while there is none, what
                           * hd_explore() returned */
    bool exhausted;       /* sampler all: there are no more schedules */
    bool ended;           /* the search is over */
    char message[HD_MESSAGE_MAX + 8]; /* what failed, in one line */
} hd_explore_result;

/* Run `fn` as hd_run() would, again and again. One process and one runtime, rewound between
 * schedules, unless `fork` is set; so `fn` must begin from the same state each time, as far as
 * `reset` does not see to that. The first failing schedule is run twice, to be sure.
 * Context: thread.  Switches: no.  Allocates: yes.
 * Returns: 0 also if a failure was found: see *result; -EINVAL (hd_explore_error() says why),
 * -ENOMEM, or what writing the log said, with the failure in *result. */
HD_API HD_MUST_USE int hd_explore(hd_fn *fn, void *arg, const hd_explore_options *options,
                                  hd_explore_result *result);

/* Why these options are refused, in one sentence; NULL if they are fine.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API const char *hd_explore_error(const hd_explore_options *options);

/* Make the recorded failure `from` small: the fewest context switches and faults with which the
 * same verdict is reached, recorded in `to`. Takes at most `replays` runs (0: 200), but two at
 * least.
 * Context: thread.  Switches: no.  Allocates: yes.
 * Returns: how many runs it took; -EINVAL, -ENOENT or what the log's reader says; -EPROTO if `from`
 * is of another program, or does not fail any more. */
HD_API HD_MUST_USE int hd_shrink(hd_fn *fn, void *arg, const hd_explore_options *options,
                                 const char *from, const char *to, unsigned replays);

/* The environment, for programs that call hd_run() with HD_WORLD_AUTO (set-user-ID programs ignore
 * it). The tool sets these; people may.
 *
 *   HEDDLE_SEED=n        sim, with this seed
 *   HEDDLE_SAMPLER=text  hd_options.sampler
 *   HEDDLE_LOG=file      record the run there
 *   HEDDLE_REPLAY=file   sim, as recorded there; what differs is a divergence, said on stderr.
 *                        With HEDDLE_UNTIL=n it stops before step n, waiting for a debugger
 *   HEDDLE_SUMMARY=file  put the hd_sim_stats (sim.h) of a simulated run there, as a JSON object,
 *                        and "ended", which is false until it has
 *   HEDDLE_EXPLORE=list  hd_run() is hd_explore(): seed=N, sampler=TEXT, schedules=N, seconds=N,
 *                        steps=N, fork, clock, keep-going, ignore-results, allow-stale, log=FILE,
 *                        and status=FD, a descriptor of memory that holds a hd_explore_result;
 *                        apart by blanks
 *   HEDDLE_SHRINK=list   hd_run() is hd_shrink(): from=FILE, to=FILE, replays=N, status=FD
 *
 * hd_run() then returns 0 if nothing was found, and -ENOTRECOVERABLE otherwise. */

#ifdef __cplusplus
}
#endif
#endif
