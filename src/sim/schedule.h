/* SPDX-License-Identifier: MIT
 *
 * schedule: one run of a program in sim with points, decided by a sampler; or replayed.
 *
 * Every simulated runtime in the order HD_SIM_RANDOM has one. A step is what a task does from one
 * point to the next; at each point every task that could go on is a candidate:
 *
 *   hd_touch(), hdi_point()  in a running fiber, before something that others can see
 *   hdi_schedule_next()      in the driver, when the last task has left: waits, yields, has ended
 *
 * A verdict ends the schedule: whoever reaches it gets no further, the driver runs nobody any more,
 * and all waits of threads return -EDEADLK. The runtime is then abandoned, with the tasks
 * and what they had.
 *
 * Owner  the thread that drives.
 *
 * SCHEDULE-1: `decisions` has one entry for each time more than one task could go on.
 * SCHEDULE-2: no choice depends on an address, on real time, or on what an earlier schedule left.
 * SCHEDULE-3: each candidate has an actor when the sampler is asked.
 */
#ifndef HDI_SIM_SCHEDULE_H
#define HDI_SIM_SCHEDULE_H

#include "base/check.h"
#include "sched/runtime.h"
#include "sim/sampler.h"
#include "sim/signature.h"
#include "sim/warn.h"

struct hdi_log;
struct hdi_replay;

enum { HDI_UNHEARD_MAX = 16 };

struct hdi_verdict {
    hd_verdict kind;
    int code;
    char message[HD_MESSAGE_MAX];
};

/* Faults by their numbers, in ascending order. */
struct hdi_fault_list {
    size_t count;
    uint64_t numbers[];
};

/* What a driver waits for: that *word is not `expected`. */
struct hdi_goal {
    _Atomic(uint32_t) *word;
    uint32_t expected;
    int64_t deadline_ns;
};

struct hdi_schedule {
    struct hd_runtime *runtime;
    struct hdi_sampler *sampler;
    struct hdi_prng prng;        /* what is no sampler's choice: the clock */
    struct hdi_actors actors;
    uint32_t steps;
    uint32_t steps_max;
    uint32_t until;              /* a replay stops before this step; 0: it does not */
    uint32_t decisions;          /* SCHEDULE-1 */
    uint32_t preemptions;        /* decisions against a task that could have gone on */
    struct hdi_signature signature; /* of who touched what in which order */
    bool aside;                  /* the fiber that left has been counted: it left the choice to the
                                  * driver */
    bool in_step;                /* careful: a task runs, or is just ending */
    bool careful;                /* steps are looked at: log, replay, invariant, debugger */
    bool direct;                 /* a fiber at a point can choose by itself, */
    bool swift;                  /* with nothing but the sampler to ask, */
    bool quick;                  /* nor that: by chance, and nobody looks at the step */
    bool by_chance;              /* the sampler is `random`, and nobody looks at its steps */
    bool signs;                  /* the signature is wanted */
    bool tells;                  /* that, or the sampler is told of each step */
    bool plain;                  /* memory was touched that can be raced for */
    bool judges;                 /* a deadlock, or a closed handle, is a verdict, and not only an
                                  * error for the caller */
    bool ignores_results;        /* of these: what the program returns is none */
    bool allows_stale;           /* nor a closed handle */
    bool counted;                /* constant: in hdi_schedules */
    bool points;                 /* constant: fibers choose inside, not only where they wait */
    bool clock;                  /* time may pass while tasks are ready */
    int64_t due_ns;              /* the next timer, as the driver knew it last, */
    int64_t soon_ns;             /* and the time from which a tick leads there, or past the end */
    const struct hdi_goal *goal; /* of who drives now */
    struct hdi_worker *host;     /* of the task that hdi_schedule_next() returned last */
    struct hd_task **ready;      /* the driver's list of candidates */
    size_t ready_room;
    uint64_t ended;              /* id of the task that ended last */
    uint64_t running;            /* id of the task that took the last step; 0: none yet */
    struct hdi_actor *actor;     /* of that task; NULL: it has ended */
    int (*invariant)(void *arg);
    void *invariant_arg;
    const void *unheard[HDI_UNHEARD_MAX]; /* conditions that were signalled while nobody waited */
    unsigned unheard_count;
    uint32_t fault_next;         /* how many faults the draws have asked for */
    uint32_t faults;             /* those that happened */
    const struct hdi_fault_list *allowed; /* those that may; NULL: all */
    struct hdi_waits waits;      /* who waits, if somebody wants to be warned of long ones */
    uint64_t cohorts;            /* the sampler of that name: so many had their turn, */
    uint64_t cohort_tasks;       /* of so many tasks */
    struct hdi_verdict verdict;  /* the first one */
    struct hdi_log *log;         /* NULL: not recorded */
    struct hdi_replay *replay;   /* NULL: the sampler decides */
};

/* ---- for samplers ---- */

/* hdi_schedule_actor() without a call, which is most of what a pick would cost. */
static inline struct hdi_actor *hdi_schedule_find(struct hdi_schedule *schedule,
                                                  const struct hd_task *task)
{
    struct hdi_actor *actor = hdi_actors_find(&schedule->actors, task->id - 1);
    return hdi_likely(actor != NULL) ? actor : hdi_schedule_actor(schedule, task);
}

/* Whether all actors are on the first page. */
static inline bool hdi_schedule_is_small(const struct hdi_schedule *schedule)
{
    return schedule->actors.count <= HDI_ACTOR_PAGE;
}

/* The actor of a candidate. Whoever looks at all of them asks once whether the schedule is small,
 * and has a loop for either case: what is looked up for each is most of what a pick costs. */
HDI_ALWAYS_INLINE struct hdi_actor *hdi_schedule_candidate(struct hdi_schedule *schedule,
                                                           const struct hd_task *task, bool small)
{
    if (!small) return hdi_schedule_find(schedule, task);
    /* The one before: so the 1 is part of the address, and is not subtracted. */
    struct hdi_actor *actor = &schedule->actors.first.actors[task->id] - 1;
    HDI_ASSERT(actor->begun); /* SCHEDULE-3 */
    return actor;
}

/* ---- for the world ---- */

/* As hdi_schedule_over(), without a call. */
static inline bool hdi_schedule_is_over(const struct hdi_schedule *schedule)
{
    return schedule->verdict.kind != HD_VERDICT_NONE;
}

/* The next task to run, taken out of its queue; NULL if none is ready. */
struct hd_task *hdi_schedule_next(struct hdi_schedule *schedule);

/* Virtual time goes on by a step's worth. Returns what it is then. It ends just before HD_FOREVER,
 * and does not turn round. */
static inline int64_t hdi_sim_pass_time(struct hd_runtime *runtime)
{
    const int64_t before_ns = hdi_load_relaxed(&runtime->sim.now_ns); /* our own */
    int64_t now_ns = INT64_MAX - 1;
    if (hdi_likely(before_ns < INT64_MAX - runtime->options.sim_tick_ns)) {
        now_ns = before_ns + runtime->options.sim_tick_ns;
    }
    hdi_store_relaxed(&runtime->sim.now_ns, now_ns);
    return now_ns;
}

/* The next timer is then. */
static inline void hdi_schedule_due(struct hdi_schedule *schedule, int64_t due_ns)
{
    schedule->due_ns = due_ns;
    schedule->soon_ns = due_ns - schedule->runtime->options.sim_tick_ns;
}

/* Whether its events are recorded, or compared with recorded ones. */
static inline bool hdi_schedule_is_observed(const struct hdi_schedule *schedule)
{
    return schedule->log || schedule->replay;
}

/* Whether time is to pass now, though tasks are ready. Context: there is something to pass to. */
bool hdi_schedule_passes(struct hdi_schedule *schedule);

/* The task that ran last on this worker has left: for the log, if it waits. */
void hdi_schedule_left(struct hdi_schedule *schedule, struct hdi_worker *worker);

/* Time has jumped. */
void hdi_schedule_jumped(struct hdi_schedule *schedule);

/* Somebody begins to drive. Who looks at the steps does so until that ends. */
void hdi_schedule_drive(struct hdi_schedule *schedule, const struct hdi_goal *goal);

/* Whether the next task can be run at once at this time: nothing but tasks of this worker is
 * concerned. */
static inline bool hdi_schedule_goes_on(struct hdi_schedule *schedule, struct hdi_worker *worker,
                                        int64_t now_ns)
{
    const struct hd_runtime *runtime = schedule->runtime;
    const struct hdi_goal *goal = schedule->goal;
    if (!schedule->direct || hdi_load_acquire(goal->word) != goal->expected) return false;
    if (now_ns >= goal->deadline_ns) return false;
    if (hdi_load_relaxed(&schedule->runtime->sim.net)) return false; /* the driver's own */
    if (worker->timers.unpublished || runtime->sim.looks == 0) return false;
    return hdi_load_relaxed(&worker->timers.next_ns) > now_ns && !hdi_schedule_is_over(schedule);
}

/* From the beginning, with this seed. Context: no task is alive. */
void hdi_schedule_rewind(struct hdi_schedule *schedule, uint64_t seed);

/* The schedule is over. */
void hdi_schedule_end(struct hdi_schedule *schedule);

/* The running fiber gets no further; the driver sees why. */
noreturn void hdi_schedule_stop(struct hdi_worker *worker);

/* Before a step of this task: the process stops until it is told to continue. */
void hdi_schedule_pause(const struct hdi_schedule *schedule, const struct hd_task *task);

/* What a task that sleeps waits for, in a few words; *object is set if it is one thing. */
const char *hdi_schedule_waits_for(const struct hd_task *task, const void **object);

/* The program has returned this: whatever it left behind has to end. Was anything kept? */
void hdi_schedule_settle(struct hdi_schedule *schedule, int code);
void hdi_schedule_look_for_handles(struct hdi_schedule *schedule);

/* The first task is "main", whoever began it. */
const char *hdi_schedule_name(const struct hd_task *task);

/* Whether a step is one of those that can be part of a race. */
static inline bool hdi_touch_is_plain(hd_touch_kind kind)
{
    return kind == HD_TOUCH_READ || kind == HD_TOUCH_WRITE;
}

/* Whether the step that this task stands before races with that of another: a verdict. */
void hdi_schedule_look_for_races(struct hdi_schedule *schedule, const struct hd_task *task,
                                 struct hd_task *const *others, size_t count);

/* Nothing can go on: find out why. */
void hdi_schedule_deadlock(struct hdi_schedule *schedule);

/* The first one counts. */
void hdi_schedule_verdict(struct hdi_schedule *schedule, hd_verdict kind, int code,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));

/* sim/explore.c: hd_explore() that another process may watch by *result. */
int hdi_explore(hd_fn *fn, void *arg, const hd_explore_options *options, hd_explore_result *result,
                bool watched);

/* ---- events: what a log holds, and a replay checks ---- */

/* See hd_log_event; `object` is turned into a number there. */
struct hdi_event_record {
    uint8_t kind; /* hd_log_kind */
    uint64_t task;
    uint64_t a, b;
    const void *object;
    const char *text;    /* NULL: none */
    const hd_site *site; /* NULL: none */
};

/* Does nothing if nobody wants to know. */
void hdi_schedule_event(struct hd_runtime *runtime, const struct hdi_event_record *event);

/* sim/fault.c: something goes wrong now, by a draw: recorded, and numbered from 1. Returns whether
 * it does: a replay has only those that were recorded, and who shrinks a failure leaves some out.
 * Context: as for an event. */
bool hdi_schedule_fault(struct hd_runtime *runtime, const char *what);

/* ---- what the log provides to this layer (log/) ---- */

/* Record the run of this runtime, which has a schedule, in a file. Its options.sampler is the text
 * that repeats it. Returns: 0, or -errno. */
int hdi_log_begin(struct hdi_log **log, const char *path, struct hd_runtime *runtime);
void hdi_log_event(struct hdi_log *log, const struct hdi_event_record *event);
/* From now on each event is written at once, so that a crash loses none; or HEDDLE_LOG_SYNC=1. */
void hdi_log_through(struct hdi_log *log);
/* The object is gone: what lies there later is another, with a number of its own. */
void hdi_log_forget(struct hdi_log *log, const void *object);
/* Write what is held back. Returns: 0, or what went wrong first. */
int hdi_log_flush(struct hdi_log *log);
/* What went wrong first, after which nothing is written any more; 0: nothing. */
int hdi_log_failed(const struct hdi_log *log);
/* All is written, and the footer. Returns: 0, or what went wrong first. */
int hdi_log_end(struct hdi_log *log);

/* Replay a file. The seed and the options recorded there are put into *options. Returns: 0, or
 * -errno, with *error, a sentence. */
int hdi_replay_open(struct hdi_replay **replay, const char *path, hd_options *options,
                    const char **error);
void hdi_replay_close(struct hdi_replay *replay);
/* The runtime that replays: events are compared with their time there. Before the first of them. */
void hdi_replay_begin(struct hdi_replay *replay, struct hd_runtime *runtime);
/* What was recorded of the schedule (hdi_log_options_put()): "clock", "steps_max" and so on.
 * Returns false if it was not. */
bool hdi_replay_number(const struct hdi_replay *replay, const char *key, uint64_t *value);
/* As hdi_log_forget(). */
void hdi_replay_forget(struct hdi_replay *replay, const void *object);
/* Whose turn it was here: its id; 0: time passed. The choice is taken: it need not be checked.
 * Returns: 0; -EPROTO: the record has another event here, or ended; -ENODATA: it was cut here. */
int hdi_replay_choice(struct hdi_replay *replay, uint64_t *task);
/* Whether time passed here, though tasks were ready. If so, that is taken. */
bool hdi_replay_passes(struct hdi_replay *replay);
/* Whether the fault of this number happened there, here. If so, it is taken. */
bool hdi_replay_fault(struct hdi_replay *replay, uint64_t number, const char *what);
/* Whether this happened there too; true after the end of a record that was cut. The first that did
 * not is remembered, and said by hdi_replay_difference(), which also says that the record was cut
 * here; otherwise NULL. */
bool hdi_replay_check(struct hdi_replay *replay, const struct hdi_event_record *event);
const char *hdi_replay_difference(const struct hdi_replay *replay);
/* Whether all was as recorded, up to where the record was cut, and that is here. */
bool hdi_replay_is_cut(const struct hdi_replay *replay);

#endif
