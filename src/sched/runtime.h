/* SPDX-License-Identifier: MIT
 *
 * runtime: what the workers of one runtime share, and the world it lives in.
 */
#ifndef HDI_SCHED_RUNTIME_H
#define HDI_SCHED_RUNTIME_H

#include <heddle/runtime.h>

#include "os/slab.h"
#include "sched/dispatcher.h"
#include "sched/monitor.h"

/* The seam between one program and its worlds. Nothing else reads a clock or a random
 * source, or decides how to wait. */
struct hdi_world {
    hd_world kind;
    int64_t (*now)(struct hd_runtime *runtime);
    uint64_t (*entropy)(struct hd_runtime *runtime);
    /* Start and stop what runs tasks. start returns 0 or -errno, and has then stopped
     * what it had started. */
    int (*start)(struct hd_dispatcher *dispatcher);
    void (*stop)(struct hd_dispatcher *dispatcher);
    /* A task was put into a queue that others can take from. */
    void (*notify)(struct hd_dispatcher *dispatcher);
    /* A worker, or all of them, must look again. */
    void (*rouse)(struct hdi_worker *worker);
    void (*rouse_all)(struct hd_dispatcher *dispatcher);
    /* A plain thread waits until *word differs from `expected`, and is woken.
     * Returns: 0, -ETIMEDOUT, -EDEADLK if nothing can change it any more. */
    int (*wait)(struct hd_runtime *runtime, _Atomic(uint32_t) *word, uint32_t expected,
                int64_t deadline_ns);
    void (*wake)(struct hd_runtime *runtime, _Atomic(uint32_t) *word);
    /* The runtime goes, and nothing of it is used any more; NULL: nothing to do. */
    void (*end)(struct hd_runtime *runtime);
};

extern const struct hdi_world hdi_world_live; /* sched/live.c */
extern const struct hdi_world hdi_world_sim;  /* sim/world.c */
extern const struct hdi_world hdi_world_embedded; /* sched/live.c: live without threads */

struct hdi_net;
struct hdi_schedule;

/* The sim world's own state. */
struct hdi_sim_state {
    struct hdi_mutex drive;    /* held by the thread that runs the simulation */
    _Atomic(uint32_t) event;   /* counts what may end a wait; futex */
    _Atomic(bool) foreign;     /* another OS thread has taken part */
    _Atomic(uintptr_t) driver; /* the thread that drove last; 0: none yet */
    _Atomic(bool) asleep;      /* drive writes: the last look found nothing ready */
    _Atomic(int64_t) now_ns;   /* drive writes, relaxed */
    _Atomic(uint64_t) digest;  /* drive writes, relaxed */
    struct hdi_prng prng;      /* drive: the order of everything */
    size_t looks;              /* drive, sim/world.c: so many steps until events are counted */
    bool full;                 /* drive: there are too many, and no task runs */
    uint64_t pauses;           /* drive: times that it became so */
    uint64_t warnings;         /* drive */
    size_t depth_max;          /* drive: events that there were at once, as far as was seen */
    _Atomic(uint64_t) drawn;   /* by threads that select */
    struct hd_runtime *older;  /* sched/keeper.c: the simulated runtime created before */
    struct hdi_mutex net_lock; /* held while `net` is made */
    _Atomic(struct hdi_net *) net; /* sim/net.h: hosts and network; NULL before the first use */
    struct hdi_schedule *schedule; /* constant, sim/schedule.h: points and who decides at them;
                                    * NULL: none, and the next task is drawn at each wait */
    void (*ran)(struct hd_task *task); /* tests: called after each run, of a task that may be
                                        * gone; NULL: not at all */
};

/* What a runtime without threads has (io/embed.c). */
struct hdi_embed {
    struct hdi_mutex drive; /* held by the thread that runs its tasks */
    int fd;                 /* constant: the lane's epoll */
    int timer;              /* constant: timerfd, in that one */
};

struct hdi_lane_kind;
struct hdi_source;
struct hdi_sys;

struct hd_runtime {
    hd_options options; /* constant; every default filled in */
    const struct hdi_world *world;
    unsigned cpus;                     /* that this process may use */
    bool metered;                      /* constant: every task's calls are counted (METERED) */
    struct hd_dispatcher main;         /* the default dispatcher */
    struct hdi_mutex list;             /* held for the next two; never while waiting */
    struct hd_dispatcher *dispatchers; /* all of them; `main` is the first */
    hd_stats retired;                  /* counters of those that were freed */
    struct hdi_mutex io_lock;          /* held while `io` is made */
    _Atomic(struct hd_dispatcher *) io; /* NULL before the first use */
    _Atomic(struct hdi_caps *) caps;   /* scope/cap.h; NULL before the first use */

    _Atomic(bool) closing;       /* spawns are refused */
    _Atomic(uint32_t) draining;  /* somebody waits for quiet: tell them */
    struct hdi_mutex waits_lock;
    struct hdi_list waits;       /* waits_lock: struct hdi_thread_wait, if deadlocks are reported */
    _Atomic(bool) deadlocked;    /* it was reported */
    _Atomic(uint32_t) guests;    /* threads of others that are inside for a moment */
    _Atomic(uint32_t) quiet;     /* counts times all workers of a dispatcher parked while
                                  * draining; futex */

    alignas(HDI_CACHE_LINE) _Atomic(uint64_t) id_next; /* blocks of ids */
    _Atomic(uint64_t) foreign_submitted;               /* spawned outside any worker */
    _Atomic(uint64_t) foreign_completed;               /* dropped at shutdown */

    struct hdi_stack_pool stacks;
    struct hdi_slab tasks[HDI_TASK_CLASSES];
    struct hdi_monitor monitor;

    const struct hdi_sys *sys;          /* constant: the system calls of its world (os/sys.h) */
    struct hdi_source *sources;         /* io/source.c: its open handles */
    struct hdi_mutex lanes_lock;        /* io/lane.c: held while one is made, and for the next */
    const struct hdi_lane_kind *lane_kind; /* NULL before the first use */
    _Atomic(uint32_t) io_waits;         /* sources that are watched, and flights (io/lane.h): the
                                         * kernel may wake a task */
    struct hdi_embed embed;             /* io/embed.c */
    uint64_t stdio[3];                  /* lanes_lock: handles of the standard streams; 0: none */

    struct hdi_sim_state sim;
};

/* ---- what scopes provide to this layer (scope/) ---- */

/* A runtime with a profile begins: it has capabilities of its own. Returns: 0, -ENOMEM. Any
 * ends. */
int hdi_caps_begin(struct hd_runtime *runtime);
void hdi_caps_end(struct hd_runtime *runtime);

/* Whether a METERED task may run there; may create dispatchers and runtimes, and what they are to
 * remember of that; may block a thread. Return: 0, -EPERM. */
int hdi_scope_may_run_on(const struct hd_task *task, const struct hd_dispatcher *dispatcher);
int hdi_scope_may_create(const struct hd_task *task, uint64_t *maker);
int hdi_scope_may_block(const struct hd_task *task);

/* ---- what I/O provides to this layer (io/lane.c, io/embed.c) ---- */

/* All that it had of a runtime that ends is closed. Context: no task and no worker is left. */
void hdi_io_end(struct hd_runtime *runtime);

/* What a runtime without threads does otherwise than others. */
int hdi_embedded_start(struct hd_dispatcher *dispatcher);
void hdi_embedded_stop(struct hd_dispatcher *dispatcher);
int hdi_embedded_wait(struct hd_runtime *runtime, _Atomic(uint32_t) *word, uint32_t expected,
                      int64_t deadline_ns);
void hdi_embedded_wake(struct hd_runtime *runtime, _Atomic(uint32_t) *word);

/* ---- what the simulation provides to this layer (sim/attach.c, sim/schedule.c) ---- */

/* The options and the environment may ask for a schedule, a log, a replay. Returns: 0, -ENOMEM,
 * -EINVAL, or what opening a file said. */
int hdi_schedule_attach(struct hd_runtime *runtime);
void hdi_schedule_detach(struct hd_runtime *runtime);

/* A task can go on; has ended. Context: the driver, and for the first a thread that spawns. */
void hdi_schedule_ready(struct hdi_schedule *schedule, struct hd_task *task);
void hdi_schedule_ended(struct hdi_schedule *schedule, struct hd_task *task, int result);

/* The running fiber leaves, to wait or because it has ended, and another may run at once: who the
 * driver would run next, taken out of its queue; NULL: the driver is to look. Whether it would run
 * a task at once that was chosen otherwise. What it would do in between, if that is done.
 * Context: the running fiber. */
struct hd_task *hdi_schedule_follow(struct hdi_schedule *schedule, struct hdi_worker *worker);
bool hdi_schedule_may_follow(struct hdi_schedule *schedule, struct hdi_worker *worker);
void hdi_schedule_followed(struct hdi_schedule *schedule, struct hdi_worker *worker);

/* Whether a verdict has ended it: nothing runs any more. */
bool hdi_schedule_over(const struct hdi_schedule *schedule);

/* hd_run() has ended with this: report a verdict, if there is one, and how to repeat it. Returns
 * what hd_run() returns, or 0 for the task's result. */
int hdi_schedule_conclude(struct hdi_schedule *schedule, int err, int result);

/* sim/explore.c: hd_run() where the environment asks for a search. Returns false if it does not. */
bool hdi_explore_asked(hd_fn *fn, void *arg, const hd_options *options, int *result);

/* obs/summary.c: the figures of a simulated run to where HEDDLE_SUMMARY says, if anywhere. */
void hdi_summary_write(struct hd_runtime *runtime, bool ended);

/* ---- this layer ---- */

/* sched/runtime.c: as after hd_runtime_create(), with another seed. Context: sim; no task is alive,
 * and one thread takes part. */
void hdi_runtime_rewind(struct hd_runtime *runtime, uint64_t seed);

/* sched/keeper.c: a simulated runtime exists, or is about to go. */
void hdi_homes_add(struct hd_runtime *runtime);
void hdi_homes_remove(struct hd_runtime *runtime);

/* sched/runtime.c: cache lines of zeroes; NULL if memory is short. */
void *hdi_lines_alloc(size_t bytes);
void hdi_lines_free(void *memory);

/* sched/runtime.c: if somebody waits for the runtime to be quiet, a dispatcher of it is. */
void hdi_runtime_tell_quiet(struct hd_runtime *runtime);

/* sched/runtime.c: if all workers sleep already, have one of them look whether that is a deadlock
 * (obs/deadlock.c). Context: live and sim. */
void hdi_runtime_have_a_look(struct hd_runtime *runtime);

/* sched/live.c: start the thread of one worker. Returns: 0, or -errno. */
int hdi_live_start(struct hdi_worker *worker);

/* A plain thread that waits in a call to this runtime, without a deadline, until *word is not
 * `expected` any more. */
struct hdi_thread_wait {
    struct hdi_list link; /* first */
    _Atomic(uint32_t) *word;
    uint32_t expected;
};

/* sched/spawn.c */

/* Tasks alive: exact when every worker is parked. The other: while no other thread takes part that
 * might make or free dispatchers. */
uint64_t hdi_runtime_alive(struct hd_runtime *runtime);
uint64_t hdi_runtime_alive_of_one(struct hd_runtime *runtime);

/* Call fn for every live task, with a reference held meanwhile. */
void hdi_runtime_for_each_task(struct hd_runtime *runtime,
                               void (*fn)(struct hd_task *task, void *arg), void *arg);

/* Whether any task memory is still referenced; *task then names one. */
bool hdi_runtime_leaked(struct hd_runtime *runtime, struct hd_task **task);

int hdi_tasks_init(struct hd_runtime *runtime);
void hdi_tasks_fini(struct hd_runtime *runtime);

/* sched/options.c: fill every default into *out. Returns NULL, or what is wrong. */
const char *hdi_options_resolve(const hd_options *in, hd_options *out);

/* obs/deadlock.c: every worker of a dispatcher is parked: if no task of the runtime can ever
 * run again, and that is to be reported, do so and cancel them all. Context: live; the
 * worker that parked last. */
void hdi_deadlock_check(struct hdi_worker *worker);

/* obs/deadlock.c: write what all tasks wait on. Context: a worker, or the driver as one,
 * while no other runs tasks. */
void hdi_deadlock_report(struct hdi_worker *worker);

/* What scheduling events add to the digest. */
enum hdi_event {
    HDI_EVENT_SPAWN = 1,
    HDI_EVENT_RUN = 2,
    HDI_EVENT_END = 3,
};

/* One writer; relaxed because a reader wants a number, not an order. */
static inline void hdi_digest_add(_Atomic(uint64_t) *digest, enum hdi_event event, uint64_t id)
{
    uint64_t mixed = hdi_load_stat(digest) ^ (id << 2 | (uint64_t)event);
    mixed *= UINT64_C(0x9e3779b97f4a7c15);
    hdi_store_stat(digest, mixed ^ (mixed >> 29));
}

#endif
