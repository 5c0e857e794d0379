/* SPDX-License-Identifier: MIT
 *
 * time: sleeping, intervals and timers. All deadlines are absolute, on hd_now()'s clock:
 * monotonic in live, virtual in sim. Nothing is ever early.
 */
#ifndef HEDDLE_TIME_H
#define HEDDLE_TIME_H

#include <heddle/base.h>
#include <heddle/task.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sleep until the deadline, or for some milliseconds (0 or less: not at all).
 * Context: fiber or thread.  Switches: yes.  Allocates: no.
 * Returns: 0, -ECANCELED, -EINVAL from a stackless task, which uses hd_select_poll()
 * with HD_AT(); -EDEADLK on a thread in sim that would sleep for ever. */
HD_API int hd_sleep_until(int64_t deadline);
HD_API int hd_sleep_ms(int64_t ms);

/* ---- intervals ---- */

/* What follows when the caller comes late for a tick. */
typedef enum hd_missed {
    HD_MISSED_BURST, /* the missed ticks at once, one per call, until it has caught up */
    HD_MISSED_SKIP,  /* the missed ticks are left out; the next is on the old beat */
    HD_MISSED_DELAY, /* the next tick is one period after this one was taken */
} hd_missed;

/* A beat: first at `next`, then every `period_ns`. */
typedef struct hd_interval {
    int64_t next;      /* read-only: the deadline of the next tick */
    int64_t period_ns; /* read-only, over 0 */
    hd_missed missed;  /* may be changed at any time */
} hd_interval;

/* Context: any.  Switches: no.  Allocates: no.
 * Returns: 0, -EINVAL for a period that is not over 0. */
HD_API HD_MUST_USE int hd_interval_init(hd_interval *interval, int64_t first,
                                        int64_t period_ns, hd_missed missed);

/* Wait for the next tick. *late_ns (may be NULL) is how long after its deadline it was
 * taken.
 * Context: fiber or thread.  Switches: yes, unless the tick is due.  Allocates: no.
 * Cancel: the tick is still to come.
 * Returns: 0, -ECANCELED, -EINVAL from a stackless task. */
HD_API int hd_interval_wait(hd_interval *interval, int64_t *late_ns);

/* The tick at `interval->next` was taken just now, by other means than waiting here, e.g.
 * as HD_AT(interval.next) in a select: move on to the one after.
 * Context: any.  Switches: no.  Allocates: no.  Returns: how late it was, in ns. */
HD_API int64_t hd_interval_taken(hd_interval *interval);

/* ---- timers ---- */

/* A deadline that can be taken back, in the caller's memory: when it passes, the task that
 * started it is woken. Zeroed, it is stopped. It must be stopped or fired before its
 * memory, its task or its runtime goes. */
typedef struct hd_timer {
    uint64_t private_[8];
} hd_timer;

/* Start a stopped or fired timer.
 * Context: fiber or stackless task.  Switches: no.  Allocates: no.
 * Returns: 0, -EINVAL outside a task, -EBUSY if it is running. */
HD_API HD_MUST_USE int hd_timer_start(hd_timer *timer, int64_t deadline);

/* Stop it: it will not fire from now on. Not while another starts it.
 * Context: any thread of the runtime.  Switches: no.  Allocates: no.
 * Returns: whether it was still running. */
HD_API bool hd_timer_stop(hd_timer *timer);

/* Whether its deadline has passed since it was last started.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API bool hd_timer_fired(const hd_timer *timer);

#ifdef __cplusplus
}
#endif
#endif
