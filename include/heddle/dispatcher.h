/* SPDX-License-Identifier: MIT
 *
 * dispatcher: pools of workers, and which of them runs a task.
 *
 * Every runtime has a default dispatcher: as many workers as CPUs, work-stealing. Others
 * are made for a purpose: a pool of their own for work that must not disturb the rest,
 * one thread for what must be serial, a pool that grows for calls that block the thread.
 * A task runs on the workers of its dispatcher only; its children inherit it, unless
 * their spawn options name another. A wake, from wherever it comes, puts the task into
 * the queue of its own dispatcher.
 *
 * Handles are counted. One from hd_dispatcher_create() or hd_dispatcher_single() is ended
 * by hd_dispatcher_unref(); the others are borrowed, and live as long as their runtime.
 * No handle may be used once hd_runtime_destroy() was called.
 */
#ifndef HEDDLE_DISPATCHER_H
#define HEDDLE_DISPATCHER_H

#include <heddle/base.h>
#include <heddle/runtime.h>
#include <heddle/task.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every field left 0 takes its default. */
typedef struct hd_dispatcher_options {
    size_t size;
    hd_runtime *runtime;     /* default: the caller's; required on a plain thread */
    const char *name;        /* copied, at most 31 bytes; threads are called hd-NAME-0, ... */
    unsigned workers;        /* 1 to 256; default 1. In sim always 1, unless the runtime's
                              * order is HD_SIM_WORKERS */
    hd_policy policy;
    const unsigned *cpus;    /* live: worker i runs on CPU cpus[i % cpu_count] only; copied */
    unsigned cpu_count;      /* default 0: the workers run anywhere */
} hd_dispatcher_options;

#ifdef __cplusplus
#define HD_DISPATCHER_OPTIONS_INIT                                                       \
    ([] {                                                                                \
        hd_dispatcher_options o = hd_dispatcher_options();                               \
        o.size = sizeof(o);                                                              \
        return o;                                                                        \
    }())
#else
#define HD_DISPATCHER_OPTIONS_INIT {.size = sizeof(hd_dispatcher_options)}
#endif

/* ---- making and ending ---- */

/* Create a dispatcher and start its workers. They cost no CPU while they have nothing to
 * do. One handle is the caller's.
 * Context: any.  Switches: no.  Allocates: yes.
 * Returns: 0, -ENOMEM, -EAGAIN if a thread cannot be started, -ESHUTDOWN, -EINVAL (no
 * runtime, over 256 workers, an unknown policy, or a CPU this process may not use), -EPERM
 * (capability "executor"). */
HD_API HD_MUST_USE int hd_dispatcher_create(hd_dispatcher **dispatcher,
                                            const hd_dispatcher_options *options);

/* Create a dispatcher that runs its tasks on one thread, one at a time, in the order in
 * which they were spawned or woken. The same as one worker with HD_POLICY_ORDERED.
 * Context: any.  Switches: no.  Allocates: yes.
 * Returns: as hd_dispatcher_create(). */
HD_API HD_MUST_USE int hd_dispatcher_single(hd_dispatcher **dispatcher, hd_runtime *runtime);

/* One more handle of the same dispatcher. Returns its argument.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API hd_dispatcher *hd_dispatcher_ref(hd_dispatcher *dispatcher);

/* End a handle. After the last one the dispatcher ends by itself, once its last task has:
 * its threads then leave, and their memory is freed soon after. So this may be called
 * anywhere, even from a task that runs on it. NULL and borrowed handles are left alone.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_dispatcher_unref(hd_dispatcher *dispatcher);

/* ---- those that are there already ---- */

/* The runtime's own workers. With NULL, the caller's runtime. The handle is borrowed.
 * Context: any.  Switches: no.  Allocates: no.
 * Returns: the dispatcher; NULL without a runtime. */
HD_API hd_dispatcher *hd_dispatcher_default(hd_runtime *runtime);

/* The pool for calls that block the thread, e.g. reading a file or resolving a name. It
 * starts with one thread, gets more while all are busy and a task waits, up to 64 or the
 * number of CPUs, whichever is more, and loses those that had nothing to do for three
 * seconds. Made at the first call. The handle is borrowed.
 * Context: any.  Switches: no.  Allocates: yes, the first time.
 * Returns: the dispatcher; NULL without a runtime, if it cannot be made (no memory, no thread, or
 * the runtime is ending), or without the capability "executor" to block. */
HD_API hd_dispatcher *hd_dispatcher_io(hd_runtime *runtime);

/* No pool at all. A task spawned on it by a fiber runs at once, in the place of that
 * fiber, which goes on when the task first suspends or ends; from then on the task runs
 * on whatever worker wakes it. Spawned from elsewhere, or woken by a plain thread, it goes
 * to the caller's worker or to the default dispatcher. The handle is a constant.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API hd_dispatcher *hd_dispatcher_unconfined(void);

/* The dispatcher on whose worker the caller runs; NULL on plain threads. Borrowed: valid
 * while the caller runs there, or hd_dispatcher_ref() it.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API hd_dispatcher *hd_dispatcher_self(void);

/* The name it was given; "default", "io", "single" or "unconfined" for the others; "" if
 * none.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API const char *hd_dispatcher_name(const hd_dispatcher *dispatcher);

/* How many threads it has now. Changes by itself only in hd_dispatcher_io(), and while spares
 * replace stuck ones (hd_options.stall_ns). In sim, how many workers are simulated.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API unsigned hd_dispatcher_workers(const hd_dispatcher *dispatcher);

/* ---- running a piece of a fiber elsewhere ---- */

/* Where a fiber that moved to another dispatcher will go back to. */
typedef struct hd_on {
    hd_dispatcher *private_[1]; /* NULL: it did not move */
} hd_on;

/* Run the block that follows on another dispatcher, then return to the one before:
 *
 *     HD_ON(io) { n = read(fd, buffer, sizeof(buffer)); }
 *
 * Leaving the block by break, return or goto returns as well (break and continue end the
 * block, not a loop around it); longjmp does not, and is not allowed. A cancelled fiber
 * still moves. Misuse, as listed at hd_on_enter(), ends the program: where that can happen,
 * use hd_on_call().
 * Context: fiber.  Switches: yes.  Allocates: no. */
#define HD_ON(dispatcher) HD_ON_(dispatcher, __LINE__)
#define HD_ON_(dispatcher, line) HD_ON_AT_(dispatcher, line)
#define HD_ON_AT_(dispatcher, line)                                                      \
    for (hd_on hd_on_##line __attribute__((cleanup(hd_on_leave))) = hd_on_begin(dispatcher), \
               *hd_once_##line = &hd_on_##line;                                          \
         hd_once_##line; hd_once_##line = NULL)
HD_API hd_on hd_on_begin(hd_dispatcher *dispatcher);

/* The same in two calls, which must come in pairs, in the same fiber. `on` is filled in
 * by the first and used by the second.
 * Context: fiber.  Switches: yes, if it is another dispatcher.  Allocates: no.
 * Returns: 0; -EINVAL outside a fiber, in an HD_PINNED one, for NULL, for
 * hd_dispatcher_unconfined(), and for a dispatcher of another runtime; -EPERM (capability
 * "executor"). */
HD_API HD_MUST_USE int hd_on_enter(hd_on *on, hd_dispatcher *dispatcher);
HD_API void hd_on_leave(hd_on *on);

/* Call fn(arg) on another dispatcher and store what it returned in *result (may be NULL).
 * Context: fiber.  Switches: yes.  Allocates: no.
 * Returns: 0, or -EINVAL or -EPERM as hd_on_enter(), and then fn was not called. */
HD_API HD_MUST_USE int hd_on_call(hd_dispatcher *dispatcher, hd_fn *fn, void *arg, int *result);

/* Call fn(arg) on a thread of hd_dispatcher_io(), on that thread's own stack, while the
 * calling fiber waits, and store what it returned in *result (may be NULL). fn may block;
 * it must not call what switches. A plain thread just calls it. In sim it is called by the
 * thread that drives the simulation: real time that passes in it does not count.
 * Context: fiber or thread.  Switches: yes.  Allocates: yes, cached.
 * Cancel, and the deadline: if fn has not begun, it never does; otherwise it is waited for.
 * Returns: 0, -ECANCELED, -ETIMEDOUT, -ENOMEM, -EAGAIN if the pool cannot be made, or with HD_NOW,
 * -ESHUTDOWN, -EINVAL in a stackless task, -EPERM (capability "executor", to block). */
HD_API HD_MUST_USE int hd_blocking(hd_fn *fn, void *arg, int *result);
HD_API HD_MUST_USE int hd_blocking_until(hd_fn *fn, void *arg, int *result, int64_t deadline);

#ifdef __cplusplus
}
#endif
#endif
