/* SPDX-License-Identifier: MIT
 *
 * timer: deadlines, kept by the worker on which they were started.
 *
 * Owner     each worker has one struct hdi_timers: a wheel (wait/wheel.h) under a lock.
 *           A worker that starts a timer uses its own wheel; another thread uses that of
 *           one worker for all of them. Any thread may stop one, through the wheel's lock,
 *           and fire what is due: usually a worker.
 * Firing    happens under the lock, so that a timer that was stopped is never touched
 *           again; only waking is left for later.
 *
 *   TIMER-1  `next_ns` is never later than the earliest deadline in the wheel, except
 *            between an insert and the next hdi_timers_publish() of who made it: the owner
 *            does that before it runs another task or sleeps, another thread at once.
 *
 * How a sleeper learns of an earlier deadline is in sched/keeper.h.
 */
#ifndef HDI_WAIT_TIMER_H
#define HDI_WAIT_TIMER_H

#include "os/lock.h"
#include "task/task.h"
#include "wait/wheel.h"

struct hdi_wakeups;

enum hdi_timer_kind {
    HDI_TIMER_WAITER, /* ends the wait of the struct hdi_waiter it is part of */
    HDI_TIMER_TASK,   /* wakes a task */
    HDI_TIMER_SCOPE,  /* belongs to the struct hdi_scope it is part of */
};

enum hdi_timer_state {
    HDI_TIMER_STOPPED, /* or never started */
    HDI_TIMER_RUNNING,
    HDI_TIMER_FIRED,
};

struct hdi_timer {
    struct hdi_wheel_node node;
    struct hdi_timers *timers;  /* whose wheel; NULL if never started */
    union {
        struct hd_task *task;       /* HDI_TIMER_TASK */
        struct hdi_timer *due_next; /* HDI_TIMER_SCOPE that fired */
    };
    enum hdi_timer_kind kind;
    _Atomic(uint32_t) state;    /* enum hdi_timer_state; by the lock's holder */
};

struct hdi_timers {
    struct hdi_lock lock;
    _Atomic(int64_t) next_ns; /* lock; anyone reads (TIMER-1) */
    bool unpublished;         /* owner: an insert was earlier than next_ns */
    uint64_t fired;           /* lock */
    struct hdi_wheel wheel;   /* lock */
};

void hdi_timers_init(struct hdi_timers *timers, int64_t now_ns);

/* The same at time 0, for one thread; what is left inside is forgotten. */
void hdi_timers_rewind(struct hdi_timers *timers);

/* The owner's loop should publish soon. Provided by sched/. */
void hdi_sched_timers_changed(struct hdi_timers *timers);

/* Start a timer that is not running, from any thread: on a worker of the runtime in its own wheel,
 * from elsewhere in that of the default dispatcher's first. Provided by sched/keeper.c. */
void hdi_sched_timer_start(struct hd_runtime *runtime, struct hdi_timer *timer,
                           int64_t deadline_ns);

/* Put a timer into the wheel. Context: the lock. */
static inline void hdi_timer_insert(struct hdi_timer *timer, struct hdi_timers *timers,
                                    int64_t deadline_ns)
{
    hdi_store_relaxed(&timer->state, HDI_TIMER_RUNNING); /* The lock orders it. */
    hdi_plain_write(&timer->node);
    hdi_wheel_insert(&timers->wheel, &timer->node, deadline_ns);
}

/* The same as the wheel's owner. Context: worker, with the lock, which is given back. Returns
 * whether the loop is to be told. */
static inline bool hdi_timer_start_locked(struct hdi_timer *timer, struct hdi_timers *timers,
                                          int64_t deadline_ns)
{
    hdi_timer_insert(timer, timers, deadline_ns);
    /* Before the lock goes: who then fires others may publish ours too, but tells nobody. */
    const bool earlier = deadline_ns < hdi_load_relaxed(&timers->next_ns);
    hdi_lock_give(&timers->lock);
    return earlier && !timers->unpublished;
}

/* Start a timer that is not running. Context: worker. */
static inline void hdi_timer_start(struct hdi_timer *timer, struct hdi_timers *timers,
                                   int64_t deadline_ns)
{
    timer->timers = timers;
    hdi_lock_take(&timers->lock);
    if (hdi_timer_start_locked(timer, timers, deadline_ns)) hdi_sched_timers_changed(timers);
}

/* Take it out. Context: the lock, which is given back. */
static inline bool hdi_timer_stop_locked(struct hdi_timer *timer, struct hdi_timers *timers)
{
    const bool running = hdi_load_relaxed(&timer->state) == HDI_TIMER_RUNNING;
    if (running) {
        hdi_plain_write(&timer->node);
        hdi_wheel_remove(&timers->wheel, &timer->node);
        if (timer->kind != HDI_TIMER_WAITER) { /* Nobody looks at that of a wait again. */
            hdi_store_release(&timer->state, HDI_TIMER_STOPPED); /* F: the last touch */
        }
    }
    hdi_lock_give(&timers->lock);
    return running;
}

/* Afterwards the timer is not touched any more. Returns whether it was running. */
static inline bool hdi_timer_stop(struct hdi_timer *timer)
{
    hdi_lock_take(&timer->timers->lock);
    return hdi_timer_stop_locked(timer, timer->timers);
}

/* Fire what is due, and publish when the next one is. Context: any worker; what it woke is
 * in *wakeups. */
void hdi_timers_fire(struct hdi_timers *timers, int64_t now_ns, struct hdi_wakeups *wakeups);

/* Make the earliest deadline known. Returns it. */
int64_t hdi_timers_publish(struct hdi_timers *timers);

#endif
