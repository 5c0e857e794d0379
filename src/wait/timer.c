/* SPDX-License-Identifier: MIT */
#include "wait/timer.h"

#include <errno.h>

#include <heddle/time.h>

#include "wait/waiter.h"

/* Woken in one go at most, so that the lock is not held for long. */
enum { BATCH = 64 };

void hdi_timers_init(struct hdi_timers *timers, int64_t now_ns)
{
    hdi_store_relaxed(&timers->lock.held, 0); /* Nobody else knows it yet. */
    hdi_store_relaxed(&timers->next_ns, INT64_MAX);
    timers->unpublished = false;
    timers->fired = 0;
    hdi_wheel_init(&timers->wheel, now_ns);
}

void hdi_timers_rewind(struct hdi_timers *timers)
{
    if (timers->wheel.count > 0) {
        hdi_timers_init(timers, 0);
        return;
    }
    hdi_store_relaxed(&timers->next_ns, INT64_MAX);
    timers->unpublished = false;
    timers->fired = 0;
    hdi_wheel_rewind(&timers->wheel);
}

/* Timers of scopes go to *due. */
static void fire(struct hdi_timer *timer, struct hdi_wakeups *wakeups, struct hdi_timer **due)
{
    struct hd_task *task = timer->task;
    hdi_plain_write(&timer->node);
    switch (timer->kind) {
    case HDI_TIMER_WAITER: {
        struct hdi_waiter *waiter =
            (struct hdi_waiter *)((char *)timer - offsetof(struct hdi_waiter, timer));
        hdi_store_relaxed(&timer->state, HDI_TIMER_FIRED); /* The lock orders it. */
        (void)hdi_waiter_decide(waiter, (uint32_t)HDI_ENDED_TIMEOUT, wakeups);
        return;
    }
    case HDI_TIMER_TASK:
        hdi_store_release(&timer->state, HDI_TIMER_FIRED); /* F: the last touch */
        if (hdi_transition_to_notified(&task->word, false) == HDI_NEXT_SUBMIT) {
            hdi_wakeups_add(wakeups, task); /* TASK-3: it may be another by now. */
        }
        return;
    case HDI_TIMER_SCOPE:
        hdi_store_relaxed(&timer->state, HDI_TIMER_FIRED); /* The lock orders it. */
        hdi_scope_hold(timer);
        timer->due_next = *due;
        *due = timer;
        return;
    }
}

/* Context: the lock. */
static void publish(struct hdi_timers *timers)
{
    hdi_store_seq_cst(&timers->next_ns, hdi_wheel_next(&timers->wheel)); /* C, sched/keeper.h */
}

/* Returns whether there may be more. */
static bool fire_some(struct hdi_timers *timers, int64_t now_ns, struct hdi_wakeups *wakeups,
                      struct hdi_timer **due)
{
    int fired = 0;
    hdi_lock_take(&timers->lock);
    struct hdi_wheel_node *node;
    while (fired < BATCH && (node = hdi_wheel_take(&timers->wheel, now_ns))) {
        if (HDI_MUTANT(timer_fire_unlocked)) hdi_lock_give(&timers->lock);
        fire((struct hdi_timer *)((char *)node - offsetof(struct hdi_timer, node)), wakeups, due);
        if (HDI_MUTANT(timer_fire_unlocked)) hdi_lock_take(&timers->lock);
        fired++;
    }
    timers->fired += (uint64_t)fired;
    publish(timers);
    hdi_lock_give(&timers->lock);
    return fired == BATCH;
}

void hdi_timers_fire(struct hdi_timers *timers, int64_t now_ns, struct hdi_wakeups *wakeups)
{
    struct hdi_timer *due = NULL;
    while (fire_some(timers, now_ns, wakeups, &due)) continue;
    if (hdi_unlikely(due != NULL)) hdi_scope_due(due);
}

int64_t hdi_timers_publish(struct hdi_timers *timers)
{
    hdi_lock_take(&timers->lock);
    publish(timers);
    const int64_t next_ns = hdi_load_relaxed(&timers->next_ns);
    hdi_lock_give(&timers->lock);
    return next_ns;
}

/* ---- timers of tasks ---- */

_Static_assert(sizeof(struct hdi_timer) <= sizeof(hd_timer), "hd_timer holds a timer");

/* What is rare is apart and called last, so that the others need no stack frame. */
static __attribute__((noinline)) int start_contended(struct hdi_timer *timer,
                                                     struct hdi_timers *timers,
                                                     int64_t deadline)
{
    hdi_timer_start(timer, timers, deadline);
    return 0;
}

static __attribute__((noinline)) int tell_loop(struct hdi_timers *timers)
{
    hdi_sched_timers_changed(timers);
    return 0;
}

int hd_timer_start(hd_timer *handle, int64_t deadline)
{
    struct hdi_timer *timer = (struct hdi_timer *)handle;
    struct hdi_exec *exec = hdi_exec_self();
    if (!exec || !exec->current) return -EINVAL;
    if (hdi_load_acquire(&timer->state) == HDI_TIMER_RUNNING) return -EBUSY; /* F */
    struct hdi_timers *timers = exec->timers;
    timer->kind = HDI_TIMER_TASK;
    timer->task = exec->current;
    timer->timers = timers;
    if (hdi_unlikely(!hdi_lock_try(&timers->lock))) return start_contended(timer, timers, deadline);
    const bool tell = hdi_timer_start_locked(timer, timers, deadline);
    return hdi_unlikely(tell) ? tell_loop(timers) : 0;
}

static __attribute__((noinline)) bool stop_contended(struct hdi_timer *timer)
{
    return hdi_timer_stop(timer);
}

bool hd_timer_stop(hd_timer *handle)
{
    struct hdi_timer *timer = (struct hdi_timer *)handle;
    struct hdi_timers *timers = timer->timers;
    if (!timers) return false;
    if (hdi_unlikely(!hdi_lock_try(&timers->lock))) return stop_contended(timer);
    return hdi_timer_stop_locked(timer, timers);
}

bool hd_timer_fired(const hd_timer *handle)
{
    struct hdi_timer *timer = (struct hdi_timer *)handle;
    return hdi_load_acquire(&timer->state) == HDI_TIMER_FIRED; /* F */
}
