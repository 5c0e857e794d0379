/* SPDX-License-Identifier: MIT
 *
 * worker: one thread's share of a dispatcher: its queues, caches and counters.
 *
 * Lifecycle
 *
 *             found                 nothing found               claimed, or found on
 *   RUNNING <------- SEARCHING <-+- ------------> PARKED --+    the second look
 *      |                 ^       |                         |
 *      +- nothing local -+       +-------------------------+
 *
 * Finding work (sched/find.c), each step only if the ones before brought nothing:
 *   1. every `interval` runs: the kernel is asked for news of I/O, which goes to the end of the
 *      local queue, or of the injection queue if tasks wait there; the injection queue first;
 *      every other time the inbox
 *   2. the LIFO slot, at most lifo_cap times in a row
 *   3. the local queue
 *   4. the LIFO slot again, if the cap held it back and the queue is empty
 *   5. the inbox, where tasks are that only this worker may run; the injection queue: a
 *      fair share goes to the local queue, where thieves see it; the oldest task behind
 *      the others there, which ran for long before
 *   6. news of I/O; due timers of others
 *   7. search: steal tasks or jobs from others, a bounded scan from a random start, and the
 *      injection queue, for some rounds; few tasks of a quick worker, and LIFO slots of stuck ones,
 *      only on the last
 *   8. park: sleep in the kernel, for I/O too once there is any
 *
 * Fairness (exact, and reached: tests/sim/fairness_test.c), in runs of one worker, with
 * L = lifo_cap and I = the interval:
 *   ring       behind q others, m = (q + 1) * (L + 1) runs of LIFO slot and ring, and
 *              every I-th run may be an injected task's: ceil(m * I / (I - 1)) in all.
 *              Other tasks never get ahead of it, unless the ring overflows while it is
 *              in the newer half, or the worker is stuck in a task (sched/monitor.h): it
 *              then starts again behind in the injection queue.
 *   injection  at place k (from 0): it leaves the queue within I * n runs of any one
 *              worker, n = ceil((k + 1) / 4); n = k + 1 where that one's ring is full;
 *              twice that under the local policy. While tasks wait behind, and A =
 *              HDI_INJECT_AGE: n + ceil(n / A) in the place of n.
 *   behind     at place k: it leaves the queue within I * (A + 1) * (k + 1) runs of any one
 *              worker but the reserve (sched/monitor.h); twice that under the local policy.
 *   inbox      at place k: within 2 * I * (k + 1) runs of its worker.
 *   deque      newer tasks overtake, but with q older ones it runs within I * (q + 1)
 *              runs, twice that while the injection queue is never empty.
 */
#ifndef HDI_SCHED_WORKER_H
#define HDI_SCHED_WORKER_H

#include "base/prng.h"
#include "ctx/overflow.h"
#include "os/slab.h"
#include "os/thread.h"
#include "sched/inject.h"
#include "sched/jobs.h"
#include "sched/lifo.h"
#include "sched/park.h"
#include "sched/runq.h"
#include "task/exec.h"
#include "wait/timer.h"

enum { HDI_TASK_CLASSES = 5 };

enum hdi_worker_state {
    HDI_WORKER_RUNNING,
    HDI_WORKER_SEARCHING,
    HDI_WORKER_PARKED,
    HDI_WORKER_GONE, /* has no thread */
};

/* Written by the worker alone, with relaxed stores; read by anyone, relaxed: each is a
 * number of its own and orders nothing. */
struct hdi_counters {
    _Atomic(uint64_t) submitted;
    _Atomic(uint64_t) completed;
    _Atomic(uint64_t) polls;
    _Atomic(uint64_t) steal_attempts;
    _Atomic(uint64_t) steals;
    _Atomic(uint64_t) stolen;
    _Atomic(uint64_t) jobs_taken;
    _Atomic(uint64_t) lifo_hits;
    _Atomic(uint64_t) overflows;
    _Atomic(uint64_t) parks;
    _Atomic(uint64_t) unparks;
    _Atomic(uint64_t) searches;
    _Atomic(uint64_t) run_ns_avg;
    _Atomic(uint64_t) run_ns_max;
    _Atomic(uint64_t) inject_interval; /* adaptive, in runs */
    _Atomic(uint64_t) state;           /* enum hdi_worker_state, for the dump and the monitor */
    _Atomic(struct hd_task *) running; /* what the last poll ran, for the monitor; it may be gone */
};

static inline void hdi_count_add(_Atomic(uint64_t) *counter, uint64_t n)
{
    hdi_store_stat(counter, hdi_load_stat(counter) + n);
}

/* For the two that decide something: whether all has ended, whether a worker is stuck. */
static inline void hdi_count_visibly(_Atomic(uint64_t) *counter)
{
    hdi_store_relaxed(counter, hdi_load_relaxed(counter) + 1);
}

static inline void hdi_count(_Atomic(uint64_t) *counter)
{
    hdi_count_add(counter, 1);
}

/* What the monitor knows of a worker, its own (sched/monitor.c). */
struct hdi_lane;

struct hdi_watch {
    uint64_t polls;  /* at its last look */
    int64_t same_ns; /* how long they had been the same by then, as far as it looked */
    int64_t cpu_ns;  /* what the thread had used of a CPU when that began, or it was asked */
    bool asked;      /* the task to give way */
    bool stuck;      /* for so long that another has to do its work */
    bool computes;   /* being stuck, it keeps a CPU busy */
    bool reported;
};

/* All fields are the worker's own, except where noted. */
struct hdi_worker {
    struct hdi_exec exec; /* first: the thread's self pointer is this */
    struct hd_dispatcher *dispatcher; /* constant */
    unsigned index;       /* in the dispatcher's array */
    bool searching;       /* counted in idle.counts */
    bool injects;         /* local submits are injected: between "no work" and awake again,
                           * and always without a local queue */
    bool tired;           /* elastic: had nothing to do for long */
    bool started;         /* has a thread that was not joined; dispatcher->grow */
    bool gone;            /* elastic, spare: that thread leaves, or has left; dispatcher->grow */
    bool spare;           /* constant: has a thread only while others are stuck */
    bool sole;            /* constant: the dispatcher has no other worker, but perhaps spares */
    _Atomic(bool) alone;  /* sole, and there is no spare; dispatcher->grow writes, relaxed */
    _Atomic(bool) excused; /* spare: is to leave; dispatcher->grow writes, relaxed: looked at again
                            * under it */
    _Atomic(bool) reserve; /* spare: leaves to others what is behind in the injection queue; the
                            * monitor writes */
    unsigned nested;      /* stackless tasks run inside the poll of another */
    bool direct;          /* runs may be granted: not in sim */
    struct hdi_fp_control dead_fp; /* where an ended fiber's control words go */
    void (*look)(void *arg); /* for a fiber that is visited (hdi_worker_visit), */
    void *look_arg;          /* and with what */
    /* Of a fiber that left (HDI_AFTER_ERRAND), */
    void (*errand)(struct hdi_worker *worker, void *arg);
    void *errand_arg;                                     /* and with what */
    struct hd_task *handed; /* taken from a queue by a fiber that left, to be run next */
    struct hd_task *offered; /* sim: the next of a queue that has an order, until it is chosen */
    unsigned lifo_cap;    /* the option, at hand */
    unsigned lifo_run;    /* LIFO hits in a row */
    unsigned tick;        /* runs since the injection queue was looked at first */
    unsigned interval;    /* the counter of the same name, at hand */
    bool oldest_turn;     /* whose turn it was at the last such look (sched/find.c) */
    bool inbox_turn;
    unsigned budget;      /* runs until maintenance */
    unsigned clock_runs;  /* runs between two looks at the clock, if there are timers */
    unsigned clock_left;  /* runs until the next */
    unsigned granted;     /* runs that need not go through the loop, when it was last left, */
    unsigned quick;       /* and how many of them are left; 0 in sim */
    int64_t busy_since;   /* start of the measured stretch; 0: none */
    uint64_t id_next, id_end; /* a block of task ids */
    _Atomic(uint64_t) *digest; /* its own, or in sim the one of the runtime; relaxed */
    _Atomic(uint64_t) own_digest;
    struct hdi_prng prng;
    struct hdi_stack_cache stacks;
    struct hdi_slab_cache tasks[HDI_TASK_CLASSES];
    struct hdi_overflow_thread overflow;
    struct hdi_thread thread;
    _Atomic(bool) prodded; /* sched/prod.h; any thread sets it, the signal's handler takes it, */
    _Atomic(uint32_t) prods; /* and counts those */
    struct hdi_watch watch; /* the monitor's */
    _Atomic(struct hdi_lane *) lane; /* where it waits for the kernel, made at the first need and
                                      * there until the runtime ends; NULL: none yet */

    alignas(HDI_CACHE_LINE) struct hdi_timers timers; /* under their lock, any thread */
    alignas(HDI_CACHE_LINE) struct hdi_lifo lifo;   /* thieves too */
    struct hdi_runq queue;                          /* thieves too */
    struct hdi_inject inbox;                        /* any thread: HD_PINNED tasks */
    struct hdi_jobs jobs;                           /* thieves too */
    alignas(HDI_CACHE_LINE) struct hdi_parker parker; /* any thread unparks */
    alignas(HDI_CACHE_LINE) struct hdi_counters counters;
};

static inline void hdi_worker_set_state(struct hdi_worker *worker, enum hdi_worker_state state)
{
    hdi_store_stat(&worker->counters.state, state);
}

/* The calling thread's worker; NULL on plain threads. */
static inline struct hdi_worker *hdi_worker_self(void)
{
    return (struct hdi_worker *)hdi_exec_self();
}

/* ---- what I/O provides to this layer (io/lane.c) ---- */

/* Sleep until the kernel has news, the parker's event is raised, or the time has come. Context: the
 * lane's worker. */
void hdi_lane_sleep(void *lane, int64_t deadline_ns);

/* Hand the kernel what is to be asked, and, if `look`, ask for its news; wake the tasks they are
 * for. Returns whether there were any. Context: the lane's worker. */
bool hdi_lane_poll(struct hdi_worker *worker, struct hdi_lane *lane, bool look);

/* The same, for a worker that is in a task for long, or even stuck there. Context: the monitor. */
void hdi_lane_stand_in(struct hdi_lane *lane);

/* Whether others may make its lane, and need it to enter the kernel from then on, whatever task it
 * is in (sched/prod.h). */
bool hdi_lane_by_others(const struct hdi_worker *worker);

/* The worker ends, and with it whatever only it could ask of the kernel. */
void hdi_lane_leave(struct hdi_worker *worker);

/* Send what the worker has left to be sent since the last such call, and does not come to. Context:
 * the monitor. */
void hdi_lane_send_overdue(struct hdi_lane *lane);

/* ---- this layer ---- */

/* sched/worker.c */

/* A worker thread's life. */
void hdi_worker_main(void *arg);

/* Have the running fiber wait until `task`, which is in no queue, has run once. */
void hdi_worker_run_inline(struct hdi_worker *worker, struct hd_task *task);

/* The worker is no longer counted as searching; if it was the last, others may be needed. */
void hdi_worker_end_search(struct hdi_worker *worker);

/* Give the caches' content to the runtime, which goes on without this worker. */
void hdi_worker_give_back(struct hdi_worker *worker);

/* What there is to say of a fiber that overflowed. Async-signal-safe. */
struct hdi_overflow_info hdi_worker_overflow_info(const struct hd_task *task);

/* Run one task that was taken from a queue. */
void hdi_worker_run(struct hdi_worker *worker, struct hd_task *task);

/* Adapt the interval to the measured length of a run: short runs, rare looks at the
 * injection queue. */
void hdi_worker_adapt(struct hdi_worker *worker, uint64_t run_ns);

/* Have the running fiber wait while errand(worker, arg) is done on the worker's own stack: what no
 * fiber can do. It must not switch, but may visit. */
void hdi_worker_run_errand(struct hdi_worker *worker, void (*errand)(struct hdi_worker *, void *),
                           void *arg);

/* Keep a task asleep, to look at what it waits on, until end_visit. Returns false if it does not
 * sleep. Context: a worker, on its own stack, both. */
bool hdi_worker_begin_visit(struct hd_task *task);
void hdi_worker_end_visit(struct hd_task *task);

/* Meanwhile: call look(arg) on the stack of such a fiber; it must not switch. */
void hdi_worker_visit(struct hdi_worker *worker, struct hd_task *task, void (*look)(void *arg),
                      void *arg);

/* Sim: the running fiber gives way to this task, which is in no queue, or, if NULL, to the driver.
 * The fiber itself is in a queue already, or is not to run again. */
void hdi_worker_switch_to(struct hdi_worker *worker, struct hd_task *task);

/* Make the calling thread run as this worker, or as none. */
void hdi_worker_enter(struct hdi_worker *worker);
void hdi_worker_leave(struct hdi_worker *worker);

#endif
