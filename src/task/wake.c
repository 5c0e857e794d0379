/* SPDX-License-Identifier: MIT
 *
 * wake: wakers, references and cancellation: the calls that reach a task from outside.
 */
#include <errno.h>

#include <heddle/task.h>

#include "base/check.h"
#include "task/exec.h"
#include "task/state.h"

HDI_ALWAYS_INLINE void act(struct hd_task *task, enum hdi_next next)
{
    switch (next) {
    case HDI_NEXT_WAKE:
    case HDI_NEXT_WAKE_UNREF:
    case HDI_NEXT_NOTHING: return;
    case HDI_NEXT_SUBMIT: hdi_sched_submit(task); return;
    case HDI_NEXT_FREE: hdi_sched_free(task); return;
    }
}

void hdi_task_unref(struct hd_task *task)
{
    act(task, hdi_word_unref(&task->word));
}

void hdi_task_wake(struct hd_task *task, bool consume)
{
    act(task, hdi_transition_to_notified(&task->word, consume));
}

hd_waker hd_waker_self(void)
{
    hd_waker waker = {hdi_task_self()};
    if (waker.task) hdi_word_ref(&waker.task->word);
    return waker;
}

hd_waker hd_waker_clone(hd_waker waker)
{
    if (waker.task) hdi_word_ref(&waker.task->word);
    return waker;
}

void hd_waker_wake(hd_waker waker)
{
    hdi_point(waker.task);
    if (waker.task) act(waker.task, hdi_transition_to_notified(&waker.task->word, true));
}

void hd_waker_wake_keep(hd_waker waker)
{
    hdi_point(waker.task);
    if (waker.task) act(waker.task, hdi_transition_to_notified(&waker.task->word, false));
}

void hd_waker_drop(hd_waker waker)
{
    if (waker.task) hdi_task_unref(waker.task);
}

void hdi_task_cancel(struct hd_task *task)
{
    act(task, hdi_transition_to_cancelled(&task->word));
    hdi_scope_told(task);
}

void hd_cancel(hd_task *handle)
{
    hdi_point(handle);
    hdi_task_cancel(handle);
}

bool hd_cancelled(void)
{
    struct hd_task *task = hdi_task_self();
    if (!task) return false;
    const uint64_t word = hdi_load_acquire(&task->word);
    if (hdi_word_cancelled(word) || (word & HDI_SHIELD_MASK)) return hdi_word_cancelled(word);
    return hdi_word_cancelled(hdi_load_acquire(&hdi_sched_origin(task)->word));
}

int hd_shield(void)
{
    struct hd_task *task = hdi_task_self();
    if (!task) return -EINVAL;
    const int err = hdi_word_shield(&task->word);
    if (hdi_unlikely(task->scope != NULL) && !err) hdi_scope_told(task);
    return err;
}

int hd_unshield(void)
{
    struct hd_task *task = hdi_task_self();
    if (!task) return -EINVAL;
    if (hdi_unlikely(task->scope != NULL)) {
        const unsigned shields = hdi_word_shields(hdi_load_relaxed(&task->word)); /* its own */
        if (shields <= hdi_scope_shields(task)) return -EINVAL;
    }
    const int err = hdi_word_unshield(&task->word);
    if (hdi_unlikely(task->scope != NULL) && !err) hdi_scope_told(task);
    return err;
}

uint64_t hd_self_id(void)
{
    struct hd_task *task = hdi_task_self();
    return task ? task->id : 0;
}

const char *hd_self_name(void)
{
    struct hd_task *task = hdi_task_self();
    return task ? hdi_task_name(task) : "";
}

uint64_t hd_task_id(const hd_task *handle)
{
    return handle->id;
}

const char *hd_task_name(const hd_task *handle)
{
    return hdi_task_name(handle);
}

const hd_site *hd_task_site(const hd_task *handle)
{
    return handle->site;
}
