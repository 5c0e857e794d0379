/* SPDX-License-Identifier: MIT
 *
 * dispatcher: a pool of workers, and the queues that only they share.
 *
 * A runtime has a list of them; the first is the default one, which lives inside the
 * runtime. Every task has a home, the dispatcher whose workers run it.
 *
 * Ending. The handles are counted, the tasks are not: alive is what the pool's own workers
 * spawned and ended, corrected by those that came and went another way, which the paths of
 * every spawn and end need not know about.
 *
 *   last unref                              worker that parks
 *   1. closing = true                       1. counts itself as parked
 *   2. unpark all workers                   2. closing, and nothing alive: stopping = true,
 *                                              unpark all workers; leave
 *
 *   POOL-1  With no handle left only its own tasks can bring it new ones. So once nothing
 *           is alive after `closing`, nothing ever is again.
 *   POOL-2  Whoever touches a pool that it neither runs on nor holds a handle of is
 *           counted in `guests` meanwhile, from before the task it brings is in a queue.
 *   POOL-3  A pool is unlinked and freed by hdi_dispatchers_reap(), called where pools are
 *           made and ended: no thread of it is left, no guest, and nothing visible.
 *
 * Elastic pools (the io dispatcher) start and end threads while they run; workers whose
 * `gone` is set have none. All changes of `live` and `gone` are made under `grow`:
 *
 *   submitter                               worker that had nothing to do for long
 *   1. put the task into the queue          1. counts: no longer parked, nor searching
 *   2. counts: nobody parked or             2. lock; a task in the queue, and counts still
 *      searching? lock, and if there is        say nobody: searching + 1, unlock, stay
 *      room: searching + 1, start one       3. otherwise live - 1, gone, unlock, leave
 *
 *   POOL-4  If the submitter finds no room, that worker has not come to its 2 yet, and
 *           sees the task there.
 *   POOL-5  One thread stays: a task always finds one that will come to it some day.
 *
 * Spares. While a worker is stuck in one task, another thread does its work: a worker at one of
 * the places behind the first worker_count, started and excused by the monitor
 * (sched/monitor.h). It is a worker as any other, but nothing is pinned to it, and one of them, the
 * reserve, leaves to the others what is behind in the injection queue. All changes of
 * `live`, `spares`, `gone` and `excused` are made under `grow`:
 *
 *   monitor                                 spare, between two tasks
 *   1. lock; excused = true, or false       1. excused: gives what is in its queues to the
 *      again; unlock                           injection queue, and no longer searches
 *   2. unpark it                            2. lock; still excused: live - 1, gone; unlock
 *                                           3. makes its timers known, as one that parks, and
 *                                              leaves
 *
 *   POOL-6  A place that was used once stays in use, for its counters and its timers. The memory
 *           of the others was never touched.
 *   POOL-7  A pool of one worker under HD_POLICY_ORDERED has no spares: its tasks never run at
 *           the same time.
 */
#ifndef HDI_SCHED_DISPATCHER_H
#define HDI_SCHED_DISPATCHER_H

#include <heddle/dispatcher.h>

#include "sched/keeper.h"
#include "sched/idle.h"
#include "sched/inject.h"
#include "sched/levels.h"
#include "sched/worker.h"

#define HDI_DISPATCHER_NAME_BYTES 32
#define HDI_IO_WORKERS            64u
#define HDI_IO_IDLE_NS            INT64_C(3000000000)

/* Constant from creation on, except where noted. */
struct hd_dispatcher {
    struct hd_runtime *runtime; /* NULL: the unconfined one */
    struct hdi_worker *workers; /* [place_max] */
    unsigned worker_count;      /* threads it has while none is stuck; at most, if elastic */
    unsigned place_max;
    unsigned spin_rounds;       /* search rounds before a worker parks */
    hd_policy policy;
    bool elastic;
    bool permanent;             /* its handles are borrowed */
    int64_t excess_ns;          /* the monitor's own: how long it has had threads too many, */
    int64_t grown_ns;           /* when it last got more, */
    struct hdi_worker *reserve; /* and the spare that is its reserve; NULL: none */
    unsigned *cpus;             /* [cpu_count]; NULL: any */
    unsigned cpu_count;
    uint64_t maker;             /* the capability it was created by (scope/cap.h); 0: none */
    struct hd_dispatcher *next; /* in the runtime's list; runtime->list */
    char name[HDI_DISPATCHER_NAME_BYTES];

    struct hdi_inject inject;
    struct hdi_levels levels;   /* part of inject under HD_POLICY_PRIORITY */
    struct hdi_idle idle;
    struct hdi_keeper keeper;
    alignas(HDI_CACHE_LINE) _Atomic(uint32_t) wake_from; /* where the next wake-up looks first */
    _Atomic(bool) stopping;      /* workers leave when they find no task */
    _Atomic(bool) closing;       /* no handle is left */
    _Atomic(bool) visited;       /* a task that left it may have a timer here: not reaped */
    _Atomic(uint32_t) refs;      /* handles, unless permanent */
    _Atomic(uint32_t) guests;    /* POOL-2 */
    _Atomic(uint32_t) places;    /* of `workers` in use, now or earlier (POOL-6); grow */
    _Atomic(uint32_t) live;      /* threads that are not gone; workers in sim; grow */
    _Atomic(uint32_t) spares;    /* of them; grow */
    _Atomic(uint32_t) pin_next;  /* which worker gets the next HD_PINNED task; relaxed */
    _Atomic(uint64_t) arrived;   /* tasks that came other than by a spawn of its workers */
    _Atomic(uint64_t) departed;  /* tasks that left other than by ending on its workers */
    struct hdi_mutex grow;       /* starting and ending single threads */
};

/* What a dispatcher is made of. */
struct hdi_dispatcher_spec {
    const char *name;
    unsigned workers; /* at most, if elastic */
    unsigned spares;  /* at most */
    unsigned spin_rounds;
    hd_policy policy;
    bool elastic;
    const unsigned *cpus;
    unsigned cpu_count;
    uint64_t maker;
};

/* How many of `workers` are to be looked at. Context: any. */
static inline unsigned hdi_dispatcher_places(struct hd_dispatcher *dispatcher)
{
    if (HDI_MODEL && dispatcher->place_max == dispatcher->worker_count) {
        return dispatcher->worker_count; /* One step less to explore. */
    }
    return hdi_load_acquire(&dispatcher->places); /* Q: they are initialised. */
}

/* Whether no other thread could be told of anything. Relaxed: of what a spare that is just started
 * is not told, the monitor tells it. */
static inline bool hdi_worker_alone(struct hdi_worker *worker)
{
    if (HDI_MODEL && !worker->sole) return false; /* One step less to explore. */
    return hdi_load_relaxed(&worker->alone);
}

/* Whose worker runs the task, or ran it last. Context: the task does not run. */
static inline struct hd_dispatcher *hdi_dispatcher_of(const struct hd_task *task)
{
    return task->unusual & HDI_UNUSUAL_PINNED ? task->pinned->dispatcher : task->home;
}

/* ---- sched/dispatcher.c ---- */

/* How many spares such a pool may have. */
unsigned hdi_dispatcher_spares(const struct hd_runtime *runtime, unsigned workers,
                               hd_policy policy);

/* Use the next place. Context: grow held, and there is one. */
struct hdi_worker *hdi_dispatcher_add_place(struct hd_dispatcher *dispatcher);

/* In memory of zeroes, without starting it. Returns: 0, -ENOMEM. */
int hdi_dispatcher_init(struct hd_dispatcher *dispatcher, struct hd_runtime *runtime,
                        const struct hdi_dispatcher_spec *spec);
void hdi_dispatcher_fini(struct hd_dispatcher *dispatcher);

/* Make one, start it, and put it into the runtime's list, with one handle. */
int hdi_dispatcher_new(struct hd_dispatcher **out, struct hd_runtime *runtime,
                       const struct hdi_dispatcher_spec *spec);

/* hd_dispatcher_io() for who may. */
struct hd_dispatcher *hdi_dispatcher_io(struct hd_runtime *runtime);

/* Free the pools that have ended. Context: any, runtime->list not held. */
void hdi_dispatchers_reap(struct hd_runtime *runtime);

/* Stop and free all but the default one. Context: hd_runtime_destroy(). */
void hdi_dispatchers_stop(struct hd_runtime *runtime);
void hdi_dispatchers_free(struct hd_runtime *runtime);

/* Whether its last handle and its last task are gone. Context: any; exact for a worker
 * that parks (POOL-1). */
bool hdi_dispatcher_ended(struct hd_dispatcher *dispatcher);

/* A task comes to stay, or goes; see `arrived`. Arriving comes first. */
void hdi_dispatcher_arrive(struct hd_dispatcher *dispatcher);
void hdi_dispatcher_depart(struct hd_dispatcher *dispatcher);

/* POOL-2. */
void hdi_dispatcher_enter(struct hd_dispatcher *dispatcher);
void hdi_dispatcher_leave(struct hd_dispatcher *dispatcher);

/* Whether every worker sleeps, and nothing waits for one. Context: any. */
bool hdi_dispatcher_quiet(struct hd_dispatcher *dispatcher);

/* The same, without looking into the queues. */
bool hdi_dispatcher_all_parked(struct hd_dispatcher *dispatcher);

/* Add its counters to *stats, whose `workers` is set. */
void hdi_dispatcher_add_stats(struct hd_dispatcher *dispatcher, hd_stats *stats);

/* ---- sched/elastic.c ---- */

/* The left side, step 2, for an elastic pool. Context: any, after putting a task into its
 * queue and finding nobody to wake. */
void hdi_elastic_grow(struct hd_dispatcher *dispatcher);

/* The right side. Context: a worker that is counted as searching, and has found nothing.
 * Returns true if it has to leave; false if it goes on, counted as `searching` says. */
bool hdi_elastic_leave(struct hdi_worker *worker);

/* If nobody keeps the time, because all that are there are busy: start one who will, if there is
 * room. Context: the monitor. */
void hdi_elastic_keep_time(struct hd_dispatcher *dispatcher);

/* Start the thread of a worker that is gone, and is counted as searching already. Returns: 0,
 * -errno. Context: grow held. */
int hdi_elastic_start(struct hdi_worker *worker);

/* ---- sched/spare.c ---- */

/* Start up to `count`, as far as there is room. Context: the monitor. */
void hdi_spares_start(struct hd_dispatcher *dispatcher, unsigned count);

/* Make one that is parked the reserve, or start it, if there is room. Context: the monitor. */
void hdi_spares_appoint(struct hd_dispatcher *dispatcher);

/* The reserve, if there is one, is a spare as any other again. Context: the monitor. */
void hdi_spares_dismiss(struct hd_dispatcher *dispatcher);

/* Have `count` of those leave that are not stuck, and the others stay. Context: the monitor. */
void hdi_spares_excuse(struct hd_dispatcher *dispatcher, unsigned count);

/* Join the threads of those that have left. Returns whether there were any. Context: the
 * monitor. */
bool hdi_spares_bury(struct hd_dispatcher *dispatcher);

/* The right side. Context: an excused spare, between two tasks. Returns false if it stays. */
bool hdi_spare_leave(struct hdi_worker *worker);

#endif
