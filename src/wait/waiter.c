/* SPDX-License-Identifier: MIT
 *
 * waiter: the waits of stackless tasks and threads, which have a word of their own.
 */
#include "wait/waiter.h"

#include <errno.h>

#include "os/futex.h"

/* ---- deciding ---- */

/* The runtime that must stay until its task or thread is woken (WAIT-4); NULL if it does
 * anyway. */
static struct hd_runtime *enter_host(const struct hdi_waiter *waiter)
{
    struct hd_runtime *host = waiter->task ? waiter->task->runtime : waiter->host;
    const struct hdi_exec *exec = hdi_exec_self();
    if (!host || (exec && exec->runtime == host)) return NULL;
    hdi_sched_guest_enter(host);
    return host;
}

static void leave_host(struct hd_runtime *host)
{
    if (host) hdi_sched_guest_leave(host);
}

/* What is needed to wake the owner, read while it is still there (WAIT-2). */
struct owner {
    struct hd_task *task;
    struct hd_runtime *host;
    _Atomic(uint32_t) *word;
};

static struct owner owner_of(struct hdi_waiter *waiter)
{
    hdi_plain_read(&waiter->task);
    return (struct owner){waiter->task, waiter->host, &waiter->word};
}

static void wake_owner(const struct owner *owner, uint32_t was, struct hdi_wakeups *wakeups)
{
    if (owner->task) {
        const enum hdi_next next = hdi_transition_to_notified(&owner->task->word, false);
        if (next == HDI_NEXT_SUBMIT) hdi_wakeups_add(wakeups, owner->task);
    } else if (was & HDI_WAITER_ASLEEP) {
        if (owner->host) {
            hdi_sched_thread_wake(owner->host, owner->word);
        } else {
            hdi_futex_wake(owner->word, 1);
        }
    }
}

/* Returns whether it was undecided; *was then is what the word was. */
static bool decide_word(struct hdi_waiter *waiter, uint32_t which, uint32_t *was)
{
    uint32_t seen = hdi_load_relaxed(&waiter->word); /* The CAS checks it. */
    for (;;) {
        if (seen & HDI_WAITER_DECIDED) return false;
        const bool filling = which & HDI_WAIT_FILLING;
        const uint32_t to = which | HDI_WAITER_DECIDED | (filling ? seen & HDI_WAITER_ASLEEP : 0);
        if (HDI_MUTANT(waiter_blind_decide)) {
            hdi_store_release(&waiter->word, to);
            break;
        }
        if (hdi_cas_acq_rel(&waiter->word, &seen, to)) break; /* D */
    }
    *was = seen;
    return true;
}

bool hdi_waiter_decide_other(struct hdi_waiter *waiter, uint32_t which,
                             struct hdi_wakeups *wakeups)
{
    const struct owner owner = owner_of(waiter);
    struct hd_runtime *host = HDI_MUTANT(waiter_no_guest) ? NULL : enter_host(waiter);
    uint32_t was;
    const bool won = decide_word(waiter, which, &was);
    if (HDI_MUTANT(waiter_touch_late)) (void)hdi_load_relaxed(&waiter->word);
    if (won && !(which & HDI_WAIT_FILLING)) wake_owner(&owner, was, wakeups);
    leave_host(host);
    return won;
}

void hdi_waiter_fill_other(struct hdi_waiter *waiter, struct hdi_wakeups *wakeups)
{
    const struct owner owner = owner_of(waiter);
    struct hd_runtime *host = enter_host(waiter);
    uint32_t seen = hdi_load_relaxed(&waiter->word); /* The CAS checks it. */
    uint32_t to;
    do {
        HDI_ASSERT(seen & HDI_WAIT_FILLING);
        to = seen & ~(uint32_t)(HDI_WAIT_FILLING | HDI_WAITER_ASLEEP);
    } while (!hdi_cas_acq_rel(&waiter->word, &seen, to)); /* D */
    wake_owner(&owner, seen, wakeups);
    leave_host(host);
}

/* ---- the owner ---- */

bool hdi_waiter_end_self(struct hdi_waiter *waiter, uint32_t which)
{
    if (waiter->kind == HDI_WAITER_FIBER) {
        return hdi_transition_to_decided(&waiter->task->word, waiter->phase, which) !=
               HDI_DECISION_LOST;
    }
    uint32_t was;
    return decide_word(waiter, which, &was);
}

bool hdi_waiter_over(struct hdi_waiter *waiter, uint32_t *which)
{
    const uint32_t word = hdi_load_acquire(&waiter->word); /* D */
    *which = word & (uint32_t)HDI_WAIT_CASE;
    if ((word & HDI_WAIT_FILLING) && !HDI_MUTANT(waiter_half_filled)) return false;
    return word & HDI_WAITER_DECIDED;
}

void hdi_waiter_start_timer(struct hdi_waiter *waiter, int64_t deadline_ns)
{
    waiter->timed = true;
    waiter->timer.kind = HDI_TIMER_WAITER;
    hdi_timer_start(&waiter->timer, hdi_exec_self()->timers, deadline_ns);
}

/* What is over soon is waited for without the kernel. Returns whether it is over. */
static bool spin(struct hdi_waiter *waiter)
{
    enum { SPINS = HDI_MODEL ? 1 : 200 };
    uint32_t which;
    for (int i = 0; i < SPINS; i++) {
        if (hdi_waiter_over(waiter, &which)) return true;
        if (waiter->host) return false; /* Nothing happens unless this thread drives. */
        hdi_cpu_relax();
    }
    return false;
}

/* Sleep while the word is undecided or being filled, once. */
static int sleep_once(struct hdi_waiter *waiter, int64_t deadline_ns)
{
    uint32_t seen = hdi_load_relaxed(&waiter->word); /* The CAS checks it. */
    while (!(seen & HDI_WAITER_ASLEEP)) {
        if ((seen & HDI_WAITER_DECIDED) && !(seen & HDI_WAIT_FILLING)) return 0;
        const uint32_t to = seen | HDI_WAITER_ASLEEP;
        if (HDI_MUTANT(waiter_blind_sleep)) {
            hdi_store_release(&waiter->word, to);
            seen = to;
            break;
        }
        if (hdi_cas_acq_rel(&waiter->word, &seen, to)) seen = to;
    }
    if (waiter->host) {
        return hdi_sched_thread_wait(waiter->host, &waiter->word, seen, deadline_ns);
    }
    return hdi_futex_wait(&waiter->word, seen, deadline_ns);
}

int hdi_waiter_sleep_thread(struct hdi_waiter *waiter, int64_t deadline_ns)
{
    uint32_t which;
    if (spin(waiter)) deadline_ns = HD_FOREVER;
    while (!hdi_waiter_over(waiter, &which)) {
        const int err = sleep_once(waiter, deadline_ns);
        if (err == 0 || err == -EAGAIN) continue;
        const bool timeout = err == -ETIMEDOUT;
        if (hdi_waiter_end_self(waiter, timeout ? HDI_ENDED_TIMEOUT : HDI_ENDED_CANCEL)) {
            return timeout ? (int)HDI_ENDED_TIMEOUT : err;
        }
        deadline_ns = HD_FOREVER; /* It has been decided: the winner is on its way. */
    }
    return (int)which;
}
