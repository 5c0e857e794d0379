/* SPDX-License-Identifier: MIT
 *
 * blocking: calls that block the thread, on a thread that may be blocked.
 *
 * The call is a stackless task of the io dispatcher, so it runs on the thread's own stack;
 * the fiber joins it. One word in its state decides between the two, and stays as long as
 * the fiber has the task's handle:
 *
 *   thread                                  fiber that is cancelled, late or stopped
 *   CAS WAITING -> BEGUN: call fn           CAS WAITING -> GIVEN_UP: leave
 *   otherwise end                           otherwise wait for it, whatever comes
 *
 * The orders could be weaker: fn and arg come with the task, what fn did comes with its end, and
 * who loses reads nothing else.
 */
#include "sched/blocking.h"

#include <errno.h>

#include "base/check.h"
#include "base/mutant.h"
#include "sched/runtime.h"
#include "wait/joined.h"

enum { WAITING, BEGUN, GIVEN_UP };

struct call {
    hd_fn *fn;
    void *arg;
    _Atomic(uint32_t) state;
};

static bool claim(struct call *call, uint32_t state)
{
    uint32_t seen = WAITING;
    if (HDI_MUTANT(blocking_blind_claim)) {
        seen = hdi_load_acquire(&call->state);
        if (seen == WAITING) hdi_store_release(&call->state, state);
        return seen == WAITING;
    }
    return hdi_cas_acq_rel(&call->state, &seen, state);
}

static hd_poll run_call(void *state, int *result)
{
    struct call *call = state;
    *result = claim(call, BEGUN) ? call->fn(call->arg) : -ECANCELED;
    return HD_READY;
}

/* The call was paid for: nothing but what ends it may fail, as the thread uses `arg`. */
static int wait_for(hd_task *task, int *result, const hd_case *stop, int64_t deadline)
{
    hd_case join = HD_JOIN(task, result);
    hdi_case_node(&join)->op = &hdi_op_join;
    const int err = hdi_wait_unless(&join, stop, deadline);
    if (err == 0) return 0;
    if (claim(hdi_task_state(task), GIVEN_UP)) {
        hd_detach(task);
        return err;
    }
    return hdi_wait_any_entered(&join, 1, 0, HD_FOREVER, false);
}

/* Whether there is time to begin. */
static int check_time(int64_t deadline)
{
    if (deadline == HD_NOW) return -EAGAIN;
    return deadline != HD_FOREVER && deadline <= hdi_sched_now() ? -ETIMEDOUT : 0;
}

static int call_here(hd_fn *fn, void *arg, int *result, int64_t deadline)
{
    const int err = check_time(deadline);
    if (err) return err;
    const int returned = fn(arg);
    if (result) *result = returned;
    return 0;
}

int hdi_blocking_unless(hd_fn *fn, void *arg, int *result, const hd_case *stop, int64_t deadline)
{
    struct hd_task *self = hdi_task_self();
    int returned = 0;
    if (!self) return call_here(fn, arg, result, deadline);
    if (self->kind != HDI_TASK_FIBER) return -EINVAL;
    if (hdi_load_relaxed(&self->word) & HDI_ATTENTION) {
        int err = hdi_task_metered() ? hdi_scope_may_block(self) : 0;
        if (!err) err = hdi_scope_attend(self, HDI_COST_SYSCALL, false, NULL);
        if (err) return err;
    }
    int err = check_time(deadline);
    if (err) return err;
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.dispatcher = hdi_dispatcher_io(self->runtime);
    if (!options.dispatcher) {
        return hdi_load_relaxed(&self->runtime->closing) ? -ESHUTDOWN : -EAGAIN;
    }
    options.name = "blocking";
    const struct call call = {.fn = fn, .arg = arg, .state = WAITING};
    hd_task *task;
    err = hdi_spawn_errand(&task, run_call, &call, sizeof(call), &options, HD_SITE);
    if (!err) err = wait_for(task, &returned, stop, deadline);
    if (!err && result) *result = returned;
    return err;
}

int hd_blocking_until(hd_fn *fn, void *arg, int *result, int64_t deadline)
{
    return hdi_blocking_unless(fn, arg, result, NULL, deadline);
}

int hd_blocking(hd_fn *fn, void *arg, int *result)
{
    return hd_blocking_until(fn, arg, result, HD_FOREVER);
}
