/* SPDX-License-Identifier: MIT
 *
 * cap: capabilities: what the tasks of a nursery may do.
 *
 * A capability is a handle to an entry of its runtime's table: a kind, limits, and the one it was
 * derived from. It allows as much as all of those it descends from do, so a derived one is
 * only ever narrower; and revoking one revokes everything derived from it. A nursery opened with
 * hd_nursery_options.caps gives them to its tasks, which pass them on to nurseries of their own:
 * inherited, or narrowed, never widened. Tasks that have none, that is all of a program that
 * never mentions them, may do everything (unless the runtime's profile says otherwise).
 *
 * Whoever holds a handle may use it: to derive from it, to give it to a nursery, to revoke it. A
 * handle is an index, a generation, and a tag computed with a secret key of the runtime: one that
 * was made up, changed, used after its revocation, or in another runtime, is refused.
 *
 * A task with capabilities or a budget spawns only into its own nursery and nurseries inside that:
 * nothing that it starts may do more than it. A function that it calls by hd_blocking() may do
 * nothing that needs a capability.
 *
 * What they cannot stop. All tasks share one address space. Capabilities bound what goes through
 * this library: they stop mistakes, runaway code and code that plays by the language's rules.
 * Code that writes through wild pointers, calls the kernel itself, or reads the key from
 * memory is stopped only by a process of its own.
 */
#ifndef HEDDLE_CAP_H
#define HEDDLE_CAP_H

#include <heddle/base.h>
#include <heddle/budget.h>
#include <heddle/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hd_cap_kind {
    HD_CAP_NONE,
    HD_CAP_SPAWN,    /* to spawn tasks */
    HD_CAP_BUDGET,   /* to have, recharge and transfer budgets */
    HD_CAP_CHANNEL,  /* to create channels, broadcasts and watches */
    HD_CAP_EXECUTOR, /* to run on dispatchers, and to create them */
} hd_cap_kind;
#define HD_CAP_KINDS 5

/* "spawn", "budget", ... */
HD_API const char *hd_cap_kind_name(hd_cap_kind kind);

/* Unforgeable; copied as you like. {0, 0} is no capability. */
typedef struct hd_cap {
    uint64_t id;
    uint64_t tag;
} hd_cap;

/* Rights of HD_CAP_BUDGET and HD_CAP_EXECUTOR. */
#define HD_CAP_REQUEST  1u /* budget: open nurseries with a pool */
#define HD_CAP_RECHARGE 2u /* budget: hd_budget_recharge() */
#define HD_CAP_TRANSFER 4u /* budget: hd_budget_transfer() */
#define HD_CAP_CREATE   1u /* executor: create dispatchers, and run on those; create runtimes */
#define HD_CAP_BLOCK    2u /* executor: hd_blocking() and hd_dispatcher_io() */

#define HD_CAP_DISPATCHERS_MAX 8

/* What one allows. 0 means: as much as the one it is derived from; HD_NOTHING: none. */
typedef struct hd_cap_limits {
    size_t size;
    int64_t tasks_live;    /* spawn: children alive at a time of the nurseries that have it, or one
                            * derived from it. HD_NOTHING: its tasks cannot spawn; who opened the
                            * nursery still can, by its own */
    hd_budget per_task;    /* spawn: what each of them may use */
    unsigned rights;       /* budget, executor; 0: all that the parent has; HD_CAP_NO_RIGHTS */
    int64_t channels;      /* channel: how many at a time; each until it is destroyed */
    int64_t channel_items; /* channel: the largest buffer, in items; HD_NOTHING: rendezvous only */
    hd_dispatcher *dispatchers[HD_CAP_DISPATCHERS_MAX]; /* executor: where tasks may run; all NULL:
                                                         * wherever the parent may. Held until it
                                                         * is revoked */
} hd_cap_limits;
#define HD_CAP_NO_RIGHTS (1u << 31)

/* What a nursery gives its tasks. {0, 0}: what the caller has of that kind; under
 * HD_PROFILE_SOVEREIGN nothing. Its children must be spawned where its executor capability allows;
 * if it has none, where who spawns them runs, or may. */
typedef struct hd_caps {
    size_t size;
    hd_cap cap[HD_CAP_KINDS]; /* by kind; [HD_CAP_NONE] is not used */
} hd_caps;

#ifdef __cplusplus
#define HD_CAPS_INIT                                                                     \
    ([] {                                                                                \
        hd_caps c = hd_caps();                                                           \
        c.size = sizeof(c);                                                              \
        return c;                                                                        \
    }())
#define HD_CAP_LIMITS_INIT                                                               \
    ([] {                                                                                \
        hd_cap_limits l = hd_cap_limits();                                               \
        l.size = sizeof(l);                                                              \
        return l;                                                                        \
    }())
#else
#define HD_CAPS_INIT       {.size = sizeof(hd_caps)}
#define HD_CAP_LIMITS_INIT {.size = sizeof(hd_cap_limits)}
#endif

/* The capability of the running task of this kind, to derive from. On a plain thread, in a task
 * that was spawned into no nursery, and in one that may do everything, it is the runtime's own: all
 * that its profile allows. {0, 0} if it has none, if that is revoked, or if memory is short.
 * Context: any.  Switches: no.  Allocates: yes, the first time. */
HD_API hd_cap hd_cap_self(hd_runtime *runtime, hd_cap_kind kind);

/* Derive a narrower one; with `limits` NULL one that differs only in that it can be revoked by
 * itself. It is there, and counts among the 65,536, until it is revoked.
 * Context: any.  Switches: no.  Allocates: yes.
 * Returns: 0, -EPERM (not a capability, or revoked), -EINVAL (limits that make no sense for its
 * kind, or are wider than the parent's), -ENOMEM, -EOVERFLOW at 65,536 at a time. */
HD_API HD_MUST_USE int hd_cap_derive(hd_runtime *runtime, hd_cap from,
                                     const hd_cap_limits *limits, hd_cap *cap);

/* Revoke it, and all derived from it. What was allowed stays done; whoever tries again gets
 * -EPERM.
 * Context: any.  Switches: no.  Allocates: no.
 * Returns: 0, -EPERM (not a capability, or revoked already), -EINVAL (the runtime's own, or one
 * that the running task itself acts by). */
HD_API HD_MUST_USE int hd_cap_revoke(hd_runtime *runtime, hd_cap cap);

/* Whether it is one, and not revoked.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API bool hd_cap_valid(hd_runtime *runtime, hd_cap cap);

/* Why the last call of the running task or thread returned -EPERM, e.g. "spawn: 100 tasks are
 * alive, which is the limit of capability 17"; "" if none has. The number is hd_cap.id. The text
 * stays until the next such call.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API const char *hd_missing(void);

/* ---- profiles ---- */

/* Presets of what all tasks of a runtime may do (hd_options.profile).
 *
 *              scheduler           budgets         nurseries
 *   core       one task            none            forbidden
 *   service    yes                 implicit        cooperative: no supervision
 *   cluster    yes, and actors     rechargeable    supervised
 *   sovereign  yes                 explicit        everything, but only by explicit capabilities
 *
 * core: no spawn, no nursery, no dispatcher, no blocking call: hd_run() runs one task. service:
 * every nursery without a budget of its own has an implicit one for each task (HD_SERVICE_* below),
 * nobody recharges or transfers. cluster: as service, and nurseries may be supervised, budgets
 * recharged. sovereign: a task spawned into a nursery may do only what hd_nursery_options.caps
 * names. In all of them tasks spawn into nurseries only; the first tasks of a runtime, which plain
 * threads spawn, have all that the profile allows. The enum hd_profile is in runtime.h. */

/* The implicit budget of one task. */
#define HD_SERVICE_OPS         INT64_C(10000000)
#define HD_SERVICE_MEMORY      (INT64_C(64) << 20)
#define HD_SERVICE_SPAWN_COUNT INT64_C(10000)
#define HD_SERVICE_CHANNEL_OPS INT64_C(1000000)
#define HD_SERVICE_SYSCALLS    INT64_C(100000)

/* ---- audit ---- */

typedef enum hd_audit_event {
    HD_AUDIT_DERIVE,
    HD_AUDIT_REVOKE,
    HD_AUDIT_USE,  /* something was allowed */
    HD_AUDIT_DENY, /* something was refused */
} hd_audit_event;

typedef struct hd_audit {
    hd_audit_event event;
    hd_cap_kind kind; /* HD_CAP_NONE: a handle that is none */
    uint64_t cap;     /* the capability's id; 0: none */
    uint64_t task;    /* the running task's; 0: a plain thread */
    const char *what; /* "derive", "revoke"; of a use "spawn", "channel", "run", "create", "block",
                       * "request", "recharge", "transfer"; of a refusal what hd_missing() says */
} hd_audit;

/* Called on the thread that did it. It must not wait, nor call functions of this header. */
typedef void hd_audit_fn(const hd_audit *audit, void *arg);

/* Set the hook of a runtime; NULL: none. Best before its first task: what happens at the same time
 * on other threads may still be told to the one before.
 * Context: any.  Switches: no.  Allocates: yes, the first time.
 * Returns: 0, -ENOMEM. */
HD_API HD_MUST_USE int hd_cap_audit(hd_runtime *runtime, hd_audit_fn *fn, void *arg);

#ifdef __cplusplus
}
#endif
#endif
