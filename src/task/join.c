/* SPDX-License-Identifier: MIT
 *
 * join: waiting for the end of a task, from a fiber, a stackless task or a thread.
 *
 * The joiner writes `joiner` and sets JOIN_WAKER, unless the task is COMPLETE; the
 * completer sets COMPLETE and, if JOIN_WAKER was set in the same word, wakes what
 * `joiner` names. One CAS on one word decides between the two:
 *
 *   joiner                                completer
 *   1. write `joiner`                     1. write `result`
 *   2. CAS: set JOIN_WAKER,               2. CAS: set COMPLETE, drop the scheduler's
 *      or see COMPLETE: done                 reference
 *   3. sleep                              3. JOIN_WAKER was set: wake `joiner`
 *
 *   JOIN-1  A registered task of the same runtime is woken without a reference: if it
 *           woke early and left, its slot is still a task's (TASK-3). One of another
 *           runtime is counted: its wake consumes a reference, and the completer is a
 *           guest of that runtime from the registration on.
 *   JOIN-2  A registered thread leaves only after it took `joiner` back, or after the
 *           completer said DONE, which is the completer's last touch.
 *
 * Rejected  a reference for every registered task: two read-modify-writes a join.
 */
#include <errno.h>
#include <stdlib.h>

#include <heddle/task.h>

#include "base/check.h"
#include "task/exec.h"
#include "task/local.h"
#include "task/state.h"

/* `joiner` is a task, or tagged: */
#define JOINER_IS_THREAD  ((uintptr_t)1) /* a struct hdi_thread_joiner */
#define JOINER_IS_COUNTED ((uintptr_t)2) /* a task, with a reference */
#define JOINER_IS_NODE    ((uintptr_t)3) /* a struct hdi_node of a wait for several things */
#define JOINER_TAGS       ((uintptr_t)3)

enum { JOINER_SPINNING, JOINER_SLEEPING, JOINER_DONE };

/* On the stack of a thread that joins. */
struct hdi_thread_joiner {
    _Atomic(uint32_t) state;
};

static void wake_joiner(struct hd_runtime *runtime, uintptr_t joiner)
{
    void *who = (void *)(joiner & ~JOINER_TAGS);
    if ((joiner & JOINER_TAGS) == JOINER_IS_NODE) {
        hdi_wait_joined(who);
        return;
    }
    if (joiner & JOINER_IS_COUNTED) {
        struct hd_runtime *host = ((struct hd_task *)who)->runtime;
        hdi_task_wake(who, true); /* JOIN-1 */
        hdi_sched_guest_leave(host);
        return;
    }
    if (!(joiner & JOINER_IS_THREAD)) {
        hdi_task_wake(who, false); /* JOIN-1 */
        return;
    }
    _Atomic(uint32_t) *state = &((struct hdi_thread_joiner *)who)->state;
    const uint32_t was = hdi_exchange_acq_rel(state, JOINER_DONE); /* J1 -> J2; JOIN-2 */
    if (was == JOINER_SLEEPING) hdi_sched_thread_wake(runtime, state);
}

void hdi_task_complete(struct hd_task *task, int result)
{
    /* A fiber that never ran. */
    if (hdi_unlikely(hdi_task_extras(task) != NULL)) hdi_locals_end(task);
    task->result = result;
    struct hd_runtime *runtime = task->runtime;
    uintptr_t joiner;
    switch (hdi_transition_to_complete(&task->word, &task->joiner, &joiner)) {
    case HDI_NEXT_WAKE: wake_joiner(runtime, joiner); return;
    case HDI_NEXT_WAKE_UNREF:
        wake_joiner(runtime, joiner);
        hdi_task_unref(task);
        return;
    case HDI_NEXT_FREE: hdi_sched_free(task); return;
    case HDI_NEXT_SUBMIT:
    case HDI_NEXT_NOTHING: return;
    }
}

void hdi_task_end_state(struct hd_task *task)
{
    if (hdi_unlikely(task->poll.waits != NULL)) hdi_wait_end_all(task);
    if (hdi_unlikely(task->scope != NULL)) hdi_scope_abandoned(task);
    if (hdi_unlikely(hdi_task_extras(task) != NULL)) hdi_locals_end(task);
    if (task->poll.drop) task->poll.drop(hdi_task_state(task));
    if (task->large) free(hdi_task_state(task));
}

bool hdi_task_drop_idle(struct hd_task *task)
{
    if (task->kind != HDI_TASK_POLL || !hdi_transition_to_dropped(&task->word)) return false;
    if (hdi_unlikely(task->scope != NULL) && !hdi_scope_dropped(task)) {
        if (hdi_transition_to_idle(&task->word, task->phase) == HDI_NEXT_SUBMIT) {
            hdi_sched_submit(task);
        }
        return false;
    }
    hdi_task_end_state(task);
    struct hdi_nursery *held = task->nursery ? hdi_scope_child_ended(task, -ECANCELED) : NULL;
    hdi_task_complete(task, -ECANCELED);
    if (held) hdi_scope_child_gone(held);
    return true;
}

static bool is_complete(struct hd_task *task)
{
    return hdi_word_lifecycle(hdi_load_acquire(&task->word)) == HDI_COMPLETE; /* W */
}

/* The task is COMPLETE: take the result and end the handle. */
static int finish(struct hd_task *task, int *result)
{
    if (result) *result = task->result;
    if (hdi_transition_to_detached(&task->word) == HDI_NEXT_FREE) hdi_sched_free(task);
    return 0;
}

/* What a joiner of another runtime holds while it is registered (JOIN-1). */
static void count_joiner(struct hd_task *self)
{
    hdi_sched_guest_enter(self->runtime);
    hdi_word_ref(&self->word);
}

static void uncount_joiner(struct hd_task *self)
{
    struct hd_runtime *host = self->runtime;
    hdi_task_unref(self);
    hdi_sched_guest_leave(host);
}

/* Have `self` woken at the end of `task`. Returns false if it has ended already. */
static bool register_task(struct hd_task *task, struct hd_task *self)
{
    const bool counted = self->runtime != task->runtime;
    if (counted) count_joiner(self);
    hdi_store_relaxed(&task->joiner, (uintptr_t)self | (counted ? JOINER_IS_COUNTED : 0));
    if (hdi_transition_to_joining(&task->word)) return true;
    if (counted) uncount_joiner(self);
    return false;
}

/* Take the registration back. Returns false if the task has ended: the wake is on its
 * way, and comes at worst as one too many. */
static bool unregister_task(struct hd_task *task)
{
    const uintptr_t joiner = hdi_load_relaxed(&task->joiner);
    if (!hdi_transition_to_unjoined(&task->word)) return false;
    if ((joiner & JOINER_TAGS) == JOINER_IS_COUNTED) {
        uncount_joiner((struct hd_task *)(joiner & ~JOINER_TAGS));
    }
    return true;
}

static int join_from_fiber(struct hd_task *task, struct hd_task *self, int *result)
{
    const int err = is_complete(task) ? 0 : hdi_attend(self, HDI_COST_CALL, false, NULL);
    if (hdi_unlikely(err)) return err;
    while (!is_complete(task)) {
        if (hdi_word_cancelled(hdi_load_relaxed(&self->word))) return hdi_scope_code(self);
        if (!register_task(task, self)) break;
        struct hdi_exec *exec = hdi_exec_self();
        self->fiber.waiter = hdi_waits_for_task(task);
        self->fiber.since_ns = exec->coarse_ns;
        hdi_fiber_leave(exec, HDI_AFTER_PARK);
        self->fiber.waiter = NULL;
        if (is_complete(task) || !unregister_task(task)) break;
    }
    return finish(task, result);
}

bool hdi_task_join_begin(struct hd_task *task, struct hdi_node *node)
{
    hdi_store_relaxed(&task->joiner, (uintptr_t)node | JOINER_IS_NODE);
    return hdi_transition_to_joining(&task->word);
}

bool hdi_task_join_leave(struct hd_task *task)
{
    return hdi_transition_to_unjoined(&task->word);
}

bool hdi_task_ended(struct hd_task *task)
{
    return is_complete(task);
}

int hdi_task_join_finish(struct hd_task *task, int *result)
{
    return finish(task, result);
}

/* A task that ends soon is joined without the kernel. Returns whether it did. */
static bool spin_for_done(struct hd_runtime *runtime, struct hdi_thread_joiner *joiner)
{
    enum { SPINS = HDI_MODEL ? 1 : 200 };
    if (!hdi_sched_may_spin(runtime)) return false;
    for (int i = 0; i < SPINS; i++) {
        if (hdi_load_acquire(&joiner->state) == JOINER_DONE) return true; /* J2 */
        hdi_cpu_relax();
    }
    return false;
}

static int sleep_for_done(struct hd_task *task, struct hdi_thread_joiner *joiner, int64_t deadline)
{
    uint32_t seen = JOINER_SPINNING;
    if (!hdi_cas_acq_rel(&joiner->state, &seen, JOINER_SLEEPING)) return 0; /* J2 */
    while (hdi_load_acquire(&joiner->state) != JOINER_DONE) {               /* J2 */
        const int err =
            hdi_sched_thread_wait(task->runtime, &joiner->state, JOINER_SLEEPING, deadline);
        if (err == 0 || err == -EAGAIN) continue;
        if (hdi_transition_to_unjoined(&task->word)) return err;
        deadline = HD_FOREVER; /* It has ended: DONE is on its way (JOIN-2). */
    }
    return 0;
}

int hdi_task_join_thread(struct hd_task *task, int *result, int64_t deadline)
{
    struct hdi_thread_joiner joiner = {JOINER_SPINNING};
    hdi_store_relaxed(&task->joiner, (uintptr_t)&joiner | JOINER_IS_THREAD);
    if (hdi_transition_to_joining(&task->word) && !spin_for_done(task->runtime, &joiner)) {
        const int err = sleep_for_done(task, &joiner, deadline);
        if (err) return err;
    }
    return finish(task, result);
}

int hd_join(hd_task *handle, int *result)
{
    struct hd_task *self = hdi_task_self();
    if (!self) return hdi_task_join_thread(handle, result, HD_FOREVER);
    if (self->kind != HDI_TASK_FIBER) return -EINVAL;
    if (self == handle) return -EDEADLK;
    return join_from_fiber(handle, self, result);
}

int hd_join_try(hd_task *handle, int *result)
{
    return is_complete(handle) ? finish(handle, result) : -EAGAIN;
}

hd_poll hd_join_poll(hd_task *handle, int *result)
{
    struct hd_task *self = hdi_task_self();
    HD_CHECK_MSG(self && self->kind == HDI_TASK_POLL,
                 "hd_join_poll() belongs in a stackless task; fibers and threads use hd_join()");
    HD_CHECK_MSG(self != handle, "a task joins itself");
    hdi_sched_run_now(handle);
    const uint64_t word = hdi_load_acquire(&handle->word);
    if (hdi_word_lifecycle(word) != HDI_COMPLETE) {
        if (word & HDI_JOIN_WAKER) return HD_PENDING; /* registered by an earlier poll */
        if (register_task(handle, self)) return HD_PENDING;
    }
    (void)finish(handle, result);
    return HD_READY;
}

void hd_detach(hd_task *handle)
{
    const uint64_t word = hdi_load_acquire(&handle->word);
    if ((word & HDI_JOIN_WAKER) && hdi_word_lifecycle(word) != HDI_COMPLETE) {
        (void)unregister_task(handle); /* by a stackless task that gave up */
    }
    if (hdi_transition_to_detached(&handle->word) == HDI_NEXT_FREE) hdi_sched_free(handle);
}
