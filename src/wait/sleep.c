/* SPDX-License-Identifier: MIT
 *
 * sleep: a wait that only time ends; and intervals, which are made of such waits.
 */
#include <errno.h>

#include <heddle/time.h>

#include "wait/wait.h"

static int ended(int which)
{
    if (which == (int)HDI_ENDED_TIMEOUT) return 0;
    return which == (int)HDI_ENDED_CANCEL ? hdi_scope_code(hdi_task_self()) : which;
}

int hd_sleep_until(int64_t deadline)
{
    struct hdi_waiter waiter;
    int err = hdi_wait_enter(HD_FOREVER, NULL);
    if (!err) err = hdi_waiter_begin(&waiter, true);
    if (err) return err;
    if (deadline <= hdi_sched_now()) return 0;
    waiter.cases = NULL;
    waiter.count = 0;
    return ended(hdi_waiter_sleep(&waiter, deadline, true));
}

int hd_sleep_ms(int64_t ms)
{
    return hd_sleep_until(hd_after_ms(ms));
}

int hd_interval_init(hd_interval *interval, int64_t first, int64_t period_ns, hd_missed missed)
{
    if (period_ns <= 0) return -EINVAL;
    *interval = (hd_interval){first, period_ns, missed};
    return 0;
}

/* a + b, or as late as there is. */
static int64_t add(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

int64_t hd_interval_taken(hd_interval *interval)
{
    const int64_t now = hdi_sched_now(), due = interval->next, period = interval->period_ns;
    int64_t late = 0;
    if (now > due && __builtin_sub_overflow(now, due, &late)) late = INT64_MAX;
    switch (interval->missed) {
    case HD_MISSED_BURST: interval->next = add(due, period); break;
    case HD_MISSED_SKIP: interval->next = add(add(due, late / period * period), period); break;
    case HD_MISSED_DELAY: interval->next = add(now > due ? now : due, period); break;
    }
    return late;
}

int hd_interval_wait(hd_interval *interval, int64_t *late_ns)
{
    const int err = hd_sleep_until(interval->next);
    if (err) return err;
    const int64_t late = hd_interval_taken(interval);
    if (late_ns) *late_ns = late;
    return 0;
}
