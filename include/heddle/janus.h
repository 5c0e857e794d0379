/* SPDX-License-Identifier: MIT
 *
 * janus: what a compiler calls. Nurseries, async and await, channels and select of 64-bit
 * integers, and budgets, as plain functions: no macro, no callback but the tasks themselves, no
 * struct that has to be known but three of fixed layout.
 *
 *   nursery {                  janus_nursery *n = janus_nursery_create();
 *       spawn compute(x)       janus_nursery_spawn(n, compute, &x);
 *       let h = async f(y)     janus_future *h = janus_async(n, f, &y);
 *       let v = await h        err = janus_await(h, &v);
 *   }                          result = janus_nursery_await(n); janus_nursery_destroy(n);
 *
 * It is built on nursery.h, chan.h, select.h and budget.h, and everything those headers say holds:
 * a nursery is its creator's, inner ones end before outer ones, the first error cancels the rest.
 * What code lowered to this ABI does may be mixed with calls of hd_ functions.
 *
 * Every call takes NULL where it takes a nursery, a future or a channel, and then does nothing, so
 * that generated code need not check each step:
 *
 *   call                                  success      failure
 *   janus_nursery_create, _create_budget  a nursery    NULL
 *   janus_nursery_create_with             0            -EINVAL -ENOMEM -EPERM -EDQUOT
 *   janus_nursery_spawn, _spawn0          a task       NULL; janus_nursery_error() says why
 *   janus_async                           a future     NULL; janus_nursery_error() says why
 *   janus_nursery_error                   0            -EPIPE -ECANCELED -EDQUOT -EPERM -ENOMEM
 *                                                      -ESHUTDOWN; -EINVAL: no nursery
 *   janus_nursery_await                   JANUS_OK     JANUS_CHILD_FAILED JANUS_CANCELLED
 *                                                      JANUS_TIMED_OUT JANUS_STUCK JANUS_NONE
 *   janus_await                           0            what the child returned; -ECANCELED
 *                                                      -ETIMEDOUT -EDEADLK -EDQUOT; -EINVAL: no
 *                                                      future
 *   janus_chan_create                     a channel    NULL
 *   janus_chan_send, _recv                0            -EPIPE -ECANCELED -ETIMEDOUT -EDEADLK
 *                                                      -EDQUOT; -EINVAL: no channel
 *   janus_chan_send_try, _recv_try        0            -EPIPE -EAGAIN -EDQUOT -EINVAL
 *   janus_chan_close                      0            -EPIPE: it was; -EINVAL: no channel
 *   janus_select                          the index    -ECANCELED -ETIMEDOUT -EDEADLK -EDQUOT
 *   janus_select_until                    the index    the same; -EAGAIN with HD_NOW
 *                                                      -EINVAL: no case, over JANUS_SELECT_MAX
 *   janus_checkpoint                      0            -ECANCELED -ETIMEDOUT -EDQUOT
 *   janus_budget_left                     0 or more    -EINVAL: no such resource
 *   janus_budget_recharge                 0            -EINVAL -ENOENT -EDQUOT -EPERM
 */
#ifndef HEDDLE_JANUS_H
#define HEDDLE_JANUS_H

#include <heddle/base.h>
#include <heddle/budget.h>
#include <heddle/nursery.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a task runs. 0 or more is success, a negative errno an error. */
typedef int janus_fn(void *arg);
typedef int janus_fn0(void);

/* What janus_async() runs: the same, and the value that janus_await() gives. */
typedef int janus_async_fn(void *arg, int64_t *value);

/* ---- nurseries ---- */

typedef struct janus_nursery janus_nursery;

/* The name of a task; not memory. It stays a name when the task has ended, and is never freed. */
typedef struct janus_task janus_task;

/* How a nursery ended. */
typedef enum janus_kind {
    JANUS_OK,           /* all children succeeded, or there was none */
    JANUS_CHILD_FAILED, /* `error` is the first error in the order of time, `task` whose it is */
    JANUS_CANCELLED,    /* no error, but a child returned -ECANCELED */
    JANUS_TIMED_OUT,    /* the same with -ETIMEDOUT, after a deadline of the nursery passed */
    JANUS_STUCK,        /* a thread in sim: the children can never end. The nursery stays */
    JANUS_NONE,         /* there is no nursery: it was NULL */
} janus_kind;

/* 16 bytes: two registers, in the calling conventions of x86_64 and aarch64. */
typedef struct janus_result {
    int32_t kind;  /* janus_kind */
    int32_t error; /* 0 if `kind` is JANUS_OK; otherwise a negative errno, also for the others */
    uint64_t task; /* JANUS_CHILD_FAILED: its id; 0: it is not known any more */
} janus_result;

/* Create a nursery owned by the calling fiber. With options also by a plain thread.
 * Context: fiber; _with: fiber or thread.  Switches: no.  Allocates: yes.
 * Returns: the nursery, or NULL: not in a task, out of memory, or a capability or the budget does
 * not allow it. _with: 0, or what hd_nursery_open() returns. */
HD_API HD_MUST_USE janus_nursery *janus_nursery_create(void);
HD_API HD_MUST_USE int janus_nursery_create_with(const hd_nursery_options *options,
                                                 janus_nursery **nursery);

/* The same with a pool of its own that its tasks draw from. Where it is used up calls fail with
 * -EDQUOT; other ways are among the options above.
 * Context: fiber.  Switches: no.  Allocates: yes. */
HD_API HD_MUST_USE janus_nursery *janus_nursery_create_budget(const hd_budget *budget);

/* Spawn a fiber into it that runs fn(arg) or fn().
 * Context: any.  Switches: no.  Allocates: yes, cached.
 * Returns: its name, or NULL if it was refused. */
HD_API janus_task *janus_nursery_spawn(janus_nursery *nursery, janus_fn *fn, void *arg);
HD_API janus_task *janus_nursery_spawn0(janus_nursery *nursery, janus_fn0 *fn);

/* The id of a task, as in janus_result, hd_self_id() and dumps; 0 for NULL.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API uint64_t janus_task_id(const janus_task *task);

/* Why the last spawn or async into it, by anyone, was refused; 0: none was.
 * Context: any thread, before it is destroyed.  Switches: no.  Allocates: no. */
HD_API int janus_nursery_error(janus_nursery *nursery);

/* Cancel its children, all they own, and its body.
 * Context: any thread, before it is destroyed.  Switches: no.  Allocates: no. */
HD_API void janus_nursery_cancel(janus_nursery *nursery);

/* Close it, and wait until all children have ended. A cancel of the caller cancels the children,
 * and does not end the wait. Again, it returns the same.
 * Context: the owner.  Switches: yes.  Allocates: no. */
HD_API janus_result janus_nursery_await(janus_nursery *nursery);

/* Wait as above if that was not done, and free it, with all futures that were not awaited. It must
 * be the innermost that its owner has; otherwise the program ends with a message. One that is
 * JANUS_STUCK stays.
 * Context: the owner.  Switches: yes.  Allocates: no. */
HD_API void janus_nursery_destroy(janus_nursery *nursery);

/* ---- async and await ---- */

/* A value to come: a child of a nursery, and the channel for its result. */
typedef struct janus_future janus_future;

/* Spawn a fiber into the nursery that runs fn(arg, &value). It is a child like others: an error is
 * an error of the nursery too.
 * Context: any.  Switches: no.  Allocates: yes.
 * Returns: the future, or NULL if it was refused. */
HD_API HD_MUST_USE janus_future *janus_async(janus_nursery *nursery, janus_async_fn *fn,
                                             void *arg);

/* Wait for the value. A result that is there beats a cancel of the caller. A future is awaited at
 * most once, before its nursery is destroyed; whatever this returns, it is ended.
 * Context: fiber or thread, also another child.  Switches: yes.  Allocates: no.
 * Cancel: the child goes on, if it is not cancelled too.
 * Returns: 0; what the child returned if less; -ECANCELED, -ETIMEDOUT, -EDEADLK (a thread in sim),
 * -EDQUOT, -EINVAL. */
HD_API HD_MUST_USE int janus_await(janus_future *future, int64_t *value);

/* ---- channels of 64-bit integers ---- */

typedef struct janus_chan janus_chan;

/* As the calls of chan.h by those names; a channel may be used as an hd_chan of 8-byte items. */
HD_API HD_MUST_USE janus_chan *janus_chan_create(uint64_t capacity);
HD_API HD_MUST_USE int janus_chan_send(janus_chan *chan, int64_t value);
HD_API HD_MUST_USE int janus_chan_recv(janus_chan *chan, int64_t *value);
HD_API HD_MUST_USE int janus_chan_send_try(janus_chan *chan, int64_t value);
HD_API HD_MUST_USE int janus_chan_recv_try(janus_chan *chan, int64_t *value);
HD_API int janus_chan_close(janus_chan *chan);
HD_API void janus_chan_destroy(janus_chan *chan);

typedef enum janus_case_kind {
    JANUS_NEVER, /* a case left out; so is one without a channel */
    JANUS_RECV,
    JANUS_SEND,
} janus_case_kind;

enum { JANUS_SELECT_MAX = 16 }; /* cases in one select */

/* 24 bytes. */
typedef struct janus_case {
    int32_t kind;     /* janus_case_kind */
    int32_t result;   /* set in the case that happened: 0, or -EPIPE if the channel is closed */
    janus_chan *chan;
    int64_t value;    /* what is sent; set to what was received */
} janus_case;

/* Wait until one case happens, without limit or to a deadline; HD_NOW only looks. Of several that
 * can happen one is drawn.
 * Context: fiber or thread; with HD_NOW any.  Switches: yes.  Allocates: no.
 * Cancel: no case happened.
 * Returns: the index of the case, from 0; otherwise see the table. */
HD_API HD_MUST_USE int janus_select(janus_case *cases, size_t count);
HD_API HD_MUST_USE int janus_select_until(janus_case *cases, size_t count, int64_t deadline);

/* ---- budgets ---- */

/* Pay for computing, and give way to others now and then: for loops (hd_checkpoint()).
 * Context: any.  Switches: yes, a fiber.  Allocates: no. */
HD_API int janus_checkpoint(uint32_t ops);

/* What the running task may still use of a resource (hd_resource); HD_UNLIMITED: no limit.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API int64_t janus_budget_left(int32_t resource);

/* Add to the pool of a nursery that has one of its own.
 * Context: any thread, before it is destroyed.  Switches: no.  Allocates: no. */
HD_API HD_MUST_USE int janus_budget_recharge(janus_nursery *nursery, int32_t resource,
                                             int64_t amount);

#ifdef __cplusplus
}
#endif
#endif
