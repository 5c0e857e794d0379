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
 *   2. CAS: set JOIN_WAKER,               2. CAS: set COMPLETE
 *      or see COMPLETE: done              3. JOIN_WAKER was set: wake `joiner`
 *   3. sleep                              4. drop the scheduler's reference
 *
 *   JOIN-1  A registered task is held by a reference that its wake consumes, so that a
 *           joiner that woke early and left is not touched after its end.
 *   JOIN-2  A registered thread leaves only after it took `joiner` back, or after the
 *           completer said DONE, which is the completer's last touch.
 */
#include <errno.h>

#include <heddle/task.h>

#include "base/check.h"
#include "base/mutant.h"
#include "task/exec.h"
#include "task/state.h"

enum { JOINER_WAITING, JOINER_DONE };

/* On the stack of a thread that joins. */
struct hdi_thread_joiner {
    _Atomic(uint32_t) state;
};

#define JOINER_IS_THREAD ((uintptr_t)1)

static void wake_joiner(struct hd_runtime *runtime, uintptr_t joiner)
{
    if (!(joiner & JOINER_IS_THREAD)) {
        hdi_task_wake((struct hd_task *)joiner, true); /* JOIN-1 */
        return;
    }
    struct hdi_thread_joiner *thread = (void *)(joiner - JOINER_IS_THREAD);
    _Atomic(uint32_t) *state = &thread->state;
    hdi_store_release(state, JOINER_DONE); /* J1 -> J2: JOIN-2, the last touch */
    hdi_sched_thread_wake(runtime, state);
}

void hdi_task_complete(struct hd_task *task, int result)
{
    task->result = result;
    struct hd_runtime *runtime = task->runtime;
    const uint64_t was = hdi_transition_to_complete(&task->word);
    if (HDI_MUTANT(join_touch_late)) hdi_task_unref(task);
    if (was & HDI_JOIN_WAKER) wake_joiner(runtime, task->joiner);
    if (!HDI_MUTANT(join_touch_late)) hdi_task_unref(task);
}

bool hdi_task_drop_idle(struct hd_task *task)
{
    if (task->kind != HDI_TASK_POLL || !hdi_transition_to_dropped(&task->word)) return false;
    if (task->poll.drop) task->poll.drop(hdi_task_state(task));
    hdi_task_complete(task, -ECANCELED);
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

static int join_from_fiber(struct hd_task *task, struct hd_task *self, int *result)
{
    while (!is_complete(task)) {
        if (hdi_word_cancelled(hdi_load_relaxed(&self->word))) return -ECANCELED;
        task->joiner = (uintptr_t)self;
        hdi_word_ref(&self->word); /* JOIN-1 */
        if (!hdi_transition_to_joining(&task->word)) {
            hdi_task_unref(self);
            break;
        }
        hdi_fiber_leave(hdi_exec_self(), HDI_AFTER_PARK);
        if (is_complete(task)) break;
        if (hdi_transition_to_unjoined(&task->word)) hdi_task_unref(self);
    }
    return finish(task, result);
}

static int join_from_thread(struct hd_task *task, int *result, int64_t deadline)
{
    struct hdi_thread_joiner joiner = {JOINER_WAITING};
    task->joiner = (uintptr_t)&joiner | JOINER_IS_THREAD;
    if (!hdi_transition_to_joining(&task->word)) return finish(task, result);
    while (hdi_load_acquire(&joiner.state) == JOINER_WAITING) { /* J2 */
        const int err =
            hdi_sched_thread_wait(task->runtime, &joiner.state, JOINER_WAITING, deadline);
        if (err == 0 || err == -EAGAIN) continue;
        if (hdi_transition_to_unjoined(&task->word)) return err;
        deadline = HD_FOREVER; /* It has ended: DONE is on its way (JOIN-2). */
    }
    return finish(task, result);
}

int hd_join(hd_task *handle, int *result)
{
    struct hd_task *self = hdi_task_self();
    if (!self) return join_from_thread(handle, result, HD_FOREVER);
    if (self->kind != HDI_TASK_FIBER) return -EINVAL;
    if (self == handle) return -EDEADLK;
    return join_from_fiber(handle, self, result);
}

int hd_join_until(hd_task *handle, int *result, int64_t deadline)
{
    if (hdi_task_self()) return -EINVAL;
    return join_from_thread(handle, result, deadline);
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
    const uint64_t word = hdi_load_acquire(&handle->word);
    if (hdi_word_lifecycle(word) != HDI_COMPLETE) {
        if (word & HDI_JOIN_WAKER) return HD_PENDING; /* registered by an earlier poll */
        handle->joiner = (uintptr_t)self;
        hdi_word_ref(&self->word); /* JOIN-1 */
        if (hdi_transition_to_joining(&handle->word)) return HD_PENDING;
        hdi_task_unref(self);
    }
    (void)finish(handle, result);
    return HD_READY;
}

void hd_detach(hd_task *handle)
{
    const uint64_t word = hdi_load_acquire(&handle->word);
    if ((word & HDI_JOIN_WAKER) && hdi_word_lifecycle(word) != HDI_COMPLETE) {
        struct hd_task *registered = (struct hd_task *)handle->joiner;
        if (hdi_transition_to_unjoined(&handle->word)) hdi_task_unref(registered);
    }
    if (hdi_transition_to_detached(&handle->word) == HDI_NEXT_FREE) hdi_sched_free(handle);
}
