/* SPDX-License-Identifier: MIT
 *
 * task: units of work. A fiber is straight-line code on its own stack; a stackless
 * task is a poll function whose state lives in the task.
 *
 * Both kinds have an id, a name, a spawn site, a join handle, a cancel flag with a
 * shield depth, and wakers. A handle is one reference: every handle is ended
 * exactly once, by a successful hd_join(), hd_join_until(), hd_join_try(), a ready
 * hd_join_poll(), or by hd_detach().
 */
#ifndef HEDDLE_TASK_H
#define HEDDLE_TASK_H

#include <heddle/base.h>
#include <heddle/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hd_task hd_task;

/* What a poll function says: come back after a wake, or done. */
typedef enum hd_poll {
    HD_PENDING,
    HD_READY,
} hd_poll;

/* A stackless task's step. On HD_READY the task ends with *result; on HD_PENDING it
 * sleeps until a waker of it fires, or, rarely, is polled once more for nothing. `state`
 * is the task's own memory. */
typedef hd_poll hd_poll_fn(void *state, int *result);

/* Called once when a stackless task's state goes away, whether it ended or was
 * dropped at shutdown. */
typedef void hd_drop_fn(void *state);

/* Flags of hd_spawn_options. */
#define HD_SAVE_FP 1u /* the fiber keeps its own rounding mode and FP traps */
#define HD_DAEMON  4u /* of a nursery: does not keep it from ending, and is cancelled when all
                       * other children have ended */
#define HD_PINNED  2u /* the task runs on one and the same worker thread, always: for code
                       * that needs thread-local storage, or a library bound to a thread.
                       * It cannot be stolen, so it waits while that worker is busy */

/* Which of the ready tasks of a dispatcher with HD_POLICY_PRIORITY goes first; others pay
 * no heed. Of tasks that are ready all the time at least one in 65 is HD_PRIORITY_LOW, one
 * in 18 HD_PRIORITY_NORMAL and one in 7 HD_PRIORITY_HIGH: the task at place k (from 0)
 * among the ready ones of its priority runs within 65 * (k + 1), 18 * (k + 1) or
 * 7 * (k + 1) task switches of the dispatcher. */
typedef enum hd_priority {
    HD_PRIORITY_NORMAL,
    HD_PRIORITY_LOW,
    HD_PRIORITY_HIGH,
    HD_PRIORITY_URGENT,
} hd_priority;

typedef struct hd_spawn_options {
    size_t size;
    hd_runtime *runtime;  /* default: the caller's; required on a plain thread */
    const char *name;     /* copied, at most 31 bytes */
    size_t stack_bytes;   /* fibers; default: the runtime's */
    unsigned flags;       /* HD_SAVE_FP (fibers), HD_PINNED, HD_DAEMON */
    hd_drop_fn *drop;     /* stackless tasks */
    const hd_site *site;  /* default: where the macro stands */
    hd_dispatcher *dispatcher; /* default: the one the caller runs on; on a plain thread the
                                * runtime's default one */
    hd_priority priority;
    struct hd_nursery *nursery; /* whose child it is (nursery.h); default: nobody's: the runtime
                                 * waits for it, and cancels it at its end */
} hd_spawn_options;

#ifdef __cplusplus
#define HD_SPAWN_OPTIONS_INIT                                                            \
    ([] {                                                                                \
        hd_spawn_options o = hd_spawn_options();                                         \
        o.size = sizeof(o);                                                              \
        return o;                                                                        \
    }())
#else
#define HD_SPAWN_OPTIONS_INIT {.size = sizeof(hd_spawn_options)}
#endif

/* Spawn a fiber that runs fn(arg). With handle NULL it is detached from the start. Its
 * stack is taken at its first run; if there is no memory then, it ends with -ENOMEM.
 * Context: any.  Switches: no.  Allocates: yes, cached.
 * Returns: 0, -ENOMEM, -ESHUTDOWN, -EINVAL (no runtime, a stack size outside 16 KiB to
 * 1 GiB, a dispatcher that is not of the runtime named beside it, an unknown priority, or
 * HD_PINNED where threads come and go: hd_dispatcher_io(), hd_dispatcher_unconfined()),
 * -EPERM (cap.h: a capability is missing, or a task with capabilities or a budget names no
 * nursery). */
#define hd_spawn(handle, fn, arg) hd_spawn_at((handle), (fn), (arg), NULL, HD_SITE)
#define hd_spawn_with(handle, fn, arg, options)                                          \
    hd_spawn_at((handle), (fn), (arg), (options), HD_SITE)
HD_API int hd_spawn_at(hd_task **handle, hd_fn *fn, void *arg,
                       const hd_spawn_options *options, const hd_site *site);

/* Spawn a stackless task. `state_bytes` bytes are copied from `state` into the task
 * (zeroed if `state` is NULL), aligned to 16.
 * Context: any.  Switches: no.  Allocates: yes, cached.
 * Returns: 0, -ENOMEM, -ESHUTDOWN, -EINVAL (as hd_spawn(), or over 1 MiB of state). */
#define hd_spawn_poll(handle, poll, state, state_bytes)                                  \
    hd_spawn_poll_at((handle), (poll), (state), (state_bytes), NULL, HD_SITE)
#define hd_spawn_poll_with(handle, poll, state, state_bytes, options)                    \
    hd_spawn_poll_at((handle), (poll), (state), (state_bytes), (options), HD_SITE)
HD_API int hd_spawn_poll_at(hd_task **handle, hd_poll_fn *poll, const void *state,
                            size_t state_bytes, const hd_spawn_options *options,
                            const hd_site *site);

/* ---- joining ---- */

/* Wait until the task ends, store what it returned in *result (may be NULL), and
 * end the handle. A stackless task uses hd_join_poll() instead.
 * Context: fiber or thread.  Switches: yes.  Allocates: no.
 * Cancel: the handle stays with the caller.
 * Returns: 0, -ECANCELED (the caller is cancelled), -EDEADLK (a task joining
 * itself, or sim with nothing left to run), -EINVAL from a stackless task. */
HD_API HD_MUST_USE int hd_join(hd_task *handle, int *result);

/* The same, until a deadline.
 * Context: fiber or thread.  Switches: yes.  Allocates: no.
 * Cancel: the handle stays with the caller.
 * Returns: as hd_join(), and with the handle still the caller's: -ETIMEDOUT, -EAGAIN with
 * HD_NOW. */
HD_API HD_MUST_USE int hd_join_until(hd_task *handle, int *result, int64_t deadline);

/* Like hd_join() without waiting.
 * Context: any.  Switches: no.  Allocates: no.
 * Returns: 0, or -EAGAIN with the handle still the caller's. */
HD_API HD_MUST_USE int hd_join_try(hd_task *handle, int *result);

/* From a stackless task's poll function: HD_READY ends the handle; HD_PENDING means
 * this task is woken when the other ends, and only it may go on with the handle. If it
 * gives up, hd_detach(). The joined task may be run inside this call if it is the next
 * in line: hold no lock that it takes.
 * Context: stackless task.  Switches: no.  Allocates: no. */
HD_API HD_MUST_USE hd_poll hd_join_poll(hd_task *handle, int *result);

/* End the handle; the task runs on by itself.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_detach(hd_task *handle);

/* ---- the running task ---- */

/* Let other ready tasks run first.
 * Context: fiber; elsewhere a hint.  Switches: yes.  Allocates: no. */
HD_API void hd_yield(void);

/* Sleep until a waker of this fiber fires. One wake that came first is remembered,
 * so the order of hd_waker_wake() and hd_park() does not matter. May return early:
 * call it in a loop around the condition. On a plain thread it is misuse.
 * Context: fiber.  Switches: yes.  Allocates: no.
 * Returns: 0, -ECANCELED at once while a cancel is in effect, -EINVAL elsewhere. */
HD_API int hd_park(void);

/* The id of the running task, unique in its runtime, from 1; 0 outside any.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API uint64_t hd_self_id(void);

/* The name of the running task; "" if it has none, or outside any.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API const char *hd_self_name(void);

/* ---- inspecting a handle ---- */

HD_API uint64_t hd_task_id(const hd_task *handle);
HD_API const char *hd_task_name(const hd_task *handle);
HD_API const hd_site *hd_task_site(const hd_task *handle);

/* Bytes of stack the running fiber's stack has ever used, rounded up to a page at
 * most; it may have served other fibers before. 0 outside a fiber.
 * Context: fiber.  Switches: no.  Allocates: no. */
HD_API size_t hd_stack_high_water(void);

/* ---- cancelling ---- */

/* Ask the task to end. The flag stays set; a sleeping task wakes, and every wait it
 * enters from then on returns -ECANCELED, unless it is shielded.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_cancel(hd_task *handle);

/* Whether a cancel is in effect for the running task: asked for, and no shield held.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API bool hd_cancelled(void);

/* Defer cancellation of the running task until the matching hd_unshield(), which must be in the
 * same scope. Nests.
 * Context: fiber or stackless task.  Switches: no.  Allocates: no.
 * Returns: 0, -EOVERFLOW at depth 255, -EINVAL outside a task, or, for
 * hd_unshield(), without a shield. */
HD_API int hd_shield(void);
HD_API int hd_unshield(void);

/* ---- waking ---- */

/* A counted reference to a task that can make it run again, from any thread. */
typedef struct hd_waker {
    hd_task *task; /* private */
} hd_waker;

/* A waker of the running task; {NULL} outside any.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API HD_MUST_USE hd_waker hd_waker_self(void);

/* Another waker of the same task.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API HD_MUST_USE hd_waker hd_waker_clone(hd_waker waker);

/* Make the task run again, and end the waker. Waking a task that has ended, or that
 * is about to run anyway, does nothing.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_waker_wake(hd_waker waker);

/* The same, keeping the waker.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_waker_wake_keep(hd_waker waker);

/* End the waker without waking.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_waker_drop(hd_waker waker);

#ifdef __cplusplus
}
#endif
#endif
