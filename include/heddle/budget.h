/* SPDX-License-Identifier: MIT
 *
 * budget: how much the tasks of a nursery may use, counted in five resources.
 *
 * A nursery with hd_nursery_options.budget has a pool. Its tasks draw from it as they go, a slice
 * at a time, at most `per_task` each; what a task drew and did not use goes back when it ends. An
 * inner nursery's pool is drawn from the one around it, and goes back when it is left. So, at any
 * moment and for each resource,
 *
 *   what the pool was given  =  remaining  +  granted to live tasks and pools  +  consumed
 *
 * The pool around a nursery is that of the nursery whose task opens it. A resource that a pool does
 * not count is drawn from the one around; and no task may use more than one of the nursery around
 * may. So what is inside only ever narrows.
 *
 * Every call into the library by such a task that may wait or spawn costs one op, and what else it
 * does: a spawn one spawn_count, a send or receive one channel_ops, a blocking call or I/O one
 * syscalls, hd_alloc() its bytes of memory until hd_free(). hd_checkpoint() costs the ops it is
 * told. hd_chan_send_many() and hd_chan_recv_many() cost one channel_ops for each item, and one if
 * they look once more and find none; they stop when there are no more. What looks or gives back
 * costs nothing. spawn_count, memory and syscalls end exactly at the
 * limit. Ops and channel_ops are drawn in slices of at most 1024, less when the pool gets low: one
 * task can use all there is, but of several each may hold a few that another lacks.
 *
 * A task that can draw no more is BudgetExhausted, and the nursery whose pool or limit it is says
 * what happens then.
 */
#ifndef HEDDLE_BUDGET_H
#define HEDDLE_BUDGET_H

#include <heddle/base.h>
#include <heddle/task.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HD_UNLIMITED INT64_MAX

/* In option structs 0 means HD_UNLIMITED, and HD_NOTHING none at all; elsewhere numbers are as
 * they are. */
#define HD_NOTHING INT64_MIN

typedef struct hd_budget {
    int64_t ops;
    int64_t memory;      /* bytes */
    int64_t spawn_count;
    int64_t channel_ops;
    int64_t syscalls;
} hd_budget;

typedef enum hd_resource {
    HD_OPS,
    HD_MEMORY,
    HD_SPAWN_COUNT,
    HD_CHANNEL_OPS,
    HD_SYSCALLS,
} hd_resource;
#define HD_RESOURCES 5

/* "ops", "memory", ... */
HD_API const char *hd_resource_name(hd_resource resource);

/* What a task does that cannot draw what it needs. */
typedef enum hd_exhausted {
    HD_EXHAUSTED_ERROR,  /* the call fails with -EDQUOT */
    HD_EXHAUSTED_WAIT,   /* it waits until the pool is recharged or refilled, or others end, in the
                          * order they came. A task at its own limit (per_task) gets -EDQUOT, as
                          * does what cannot wait: a stackless task, a spawn, a call with HD_NOW */
    HD_EXHAUSTED_ASK,    /* recharge() is asked for more first; then as HD_EXHAUSTED_ERROR */
    HD_EXHAUSTED_CANCEL, /* the task is cancelled, and the call fails with -ECANCELED */
} hd_exhausted;

typedef struct hd_nursery hd_nursery;

/* The pool lacks `missing` of `resource` for the task with this id, which calls it, and pays
 * nothing meanwhile. Returns how much to add to the pool, as far as the one around has it; 0:
 * nothing. It is asked again until that suffices. It must not wait. */
typedef int64_t hd_recharge_fn(hd_resource resource, int64_t missing, uint64_t task, void *arg);

/* Pay `ops` for computing; gives way to others if the task has run for long, in live by time
 * (hd_options.quantum_ns), in sim by ops (hd_options.quantum_ops). For loops that compute: costs
 * two instructions and a load if nothing is to be done.
 * Context: any; outside a task it does nothing.  Switches: yes, a fiber.  Allocates: no, but once
 * for a task with a budget, as may every call of one.
 * Returns: 0, -ECANCELED or -ETIMEDOUT if the task is cancelled, -EDQUOT. */
HD_API int hd_checkpoint(unsigned ops);

/* hd_checkpoint(1) wherever a compiler may put a call: does nothing where the caller cannot give
 * way, and leaves errno alone. Programs do not call it: `pkg-config --cflags --libs
 * heddle-checkpoint` has it called in every block of their code, so that loops which call nothing
 * give way too. Each block then costs an op; a digest in sim holds for one build only, since
 * compilers differ in their blocks. Not for code that runs in signal handlers, or under malloc().
 * Context: any.  Switches: yes, a fiber.  Allocates: no. */
HD_API void hd_checkpoint_block(void);

/* Memory that counts against the running task's budget, from malloc(). Elsewhere it is just
 * memory. What a task did not free when it ends stays consumed until hd_free(), by anyone.
 * Context: any.  Switches: yes, a fiber with HD_EXHAUSTED_WAIT.  Allocates: yes.
 * Returns: 0, -ENOMEM, -EDQUOT, -ECANCELED, -ETIMEDOUT. */
HD_API HD_MUST_USE int hd_alloc(size_t bytes, void **memory);
HD_API void hd_free(void *memory);

/* What the running task may still use: the lesser of its own limit and what its pools have left;
 * HD_UNLIMITED where there is no limit.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API hd_budget hd_budget_left(void);

/* The pool of a nursery. */
typedef struct hd_budget_info {
    hd_budget given;     /* at first, by recharges and refills; HD_UNLIMITED: not counted */
    hd_budget remaining;
    hd_budget granted;
    hd_budget consumed;
    unsigned waiting;    /* tasks that wait for a recharge */
} hd_budget_info;

/* Returns: 0, -ENOENT if it has no pool of its own.
 * Context: any thread, before it is left.  Switches: no.  Allocates: no. */
HD_API HD_MUST_USE int hd_budget_look(hd_nursery *nursery, hd_budget_info *info);

/* Add to the pool of a nursery, all of it or nothing; who waits for it goes on. What it does not
 * count is passed over. Who has the nursery's address may do so: also a task of it, for its own
 * pool, unless capabilities (cap.h) keep it from that. A pool that must not grow is inside one that
 * has no more, or its tasks are without the right to recharge.
 * Context: any thread, before it is left.  Switches: no.  Allocates: no.
 * Returns: 0, -ENOENT, -EINVAL (a negative amount), -EDQUOT (the pool around has not so much),
 * -EPERM (capability "budget", recharge). */
HD_API HD_MUST_USE int hd_budget_recharge(hd_nursery *nursery, const hd_budget *amount);

/* Move from one pool to another, all of it or nothing.
 * Context: any thread, before they are left.  Switches: no.  Allocates: no.
 * Returns: as above; -EINVAL also if one of them does not count it; -EDQUOT if `from` has not so
 * much left; -EPERM (transfer). */
HD_API HD_MUST_USE int hd_budget_transfer(hd_nursery *from, hd_nursery *to,
                                          const hd_budget *amount);

#ifdef __cplusplus
}
#endif
#endif
