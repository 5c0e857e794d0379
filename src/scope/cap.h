/* SPDX-License-Identifier: MIT
 *
 * cap: the capabilities of one runtime: a table of entries, handles to them, and what the tasks
 * of a nursery hold of it.
 *
 * An entry is derived from another of its kind, up to one of each kind that is the runtime's own.
 * A handle is the entry's id and a tag: SipHash of the id and the table's number, under the table's
 * key. An id is an index and a generation:
 *
 *   63                                17 16              0
 *   | generation: uses of the slot before | index of slot |
 *
 *         derive              revoke, or of one above      nothing refers to it
 *   free ---------> valid ------------------------> revoked ------------------> free
 *
 *   CAP-1  All but `valid` and what is constant from derive to free is under table->lock, which is
 *          held while nothing else is taken.
 *   CAP-2  `valid` is the id while the entry is valid, and 0 otherwise; so one load tells whether a
 *          handle with a true tag may still be used. No id is used twice.
 *   CAP-3  The bounds of an entry are within those of its parent.
 *   CAP-4  What is derived from a revoked entry is revoked.
 *   CAP-5  `live` of an entry includes those of all derived from it, and is at most live_max.
 *   CAP-6  An entry is free only when it has no children, and no refs: of rights, of channels
 *          counted in it. So a way up through `parent` ends at the runtime's own.
 *
 * Rejected
 *   Reading limits through the chain at every use: bounds that do not count are copied down when
 *   a capability is derived, which is seldom, and what does not count is then looked at without
 *   the lock.
 *   A 32-bit generation: one slot that is derived and revoked in a loop would repeat its ids
 *   within a quarter of an hour.
 */
#ifndef HDI_SCOPE_CAP_H
#define HDI_SCOPE_CAP_H

#include <heddle/cap.h>

#include "base/list.h"
#include "os/mutex.h"
#include "sched/runtime.h"

#define HDI_CAP_INDEX_BITS 17
#define HDI_CAP_INDEX_MASK ((UINT64_C(1) << HDI_CAP_INDEX_BITS) - 1)
#define HDI_CAPS_MAX       65536u /* derived ones, at a time */
#define HDI_CAPS_CHUNK     128u
/* The slots of the runtime's own are those of their kind's number. */
#define HDI_CAPS_SLOTS  (HD_CAP_KINDS + HDI_CAPS_MAX)
#define HDI_CAPS_CHUNKS ((HDI_CAPS_SLOTS + HDI_CAPS_CHUNK - 1) / HDI_CAPS_CHUNK)

/* What one allows, in full: nothing is left to its parent. */
struct hdi_bounds {
    unsigned rights;           /* budget, executor: HD_CAP_* */
    unsigned dispatcher_count; /* executor; 0: any */
    int64_t live_max;          /* spawn: tasks; channel: channels; HD_UNLIMITED */
    union {
        hd_budget per_task;    /* spawn */
        int64_t items_max;     /* channel */
        struct hd_dispatcher *dispatchers[HD_CAP_DISPATCHERS_MAX]; /* executor; held */
    };
};

struct hdi_cap {
    _Atomic(uint64_t) valid; /* CAP-2; the lock's holder writes, all read */
    uint64_t id;             /* constant, as are kind, counts, parent, bounds; table for ever */
    struct hdi_caps *table;
    uint8_t kind;            /* hd_cap_kind */
    bool counts;             /* it, or one above it, limits how many live */
    bool revoked;
    uint32_t refs;           /* CAP-6 */
    struct hdi_cap *parent;  /* NULL: the runtime's own */
    struct hdi_list children, sibling;
    struct hdi_cap *next;    /* in a list of free ones, or of those being revoked or freed */
    int64_t live;            /* CAP-5; not kept if nothing `counts` */
    struct hdi_bounds bounds;
};

/* What the tasks of a nursery hold, or all that a runtime's profile allows. Constant; each entry
 * is referred to, so none is freed; but it may be revoked. */
struct hdi_rights {
    struct hdi_caps *table;
    struct hdi_cap *of[HD_CAP_KINDS]; /* NULL: not held */
    struct hdi_cap *by; /* what children are spawned by: of[HD_CAP_SPAWN]; that of who opened the
                         * nursery, if its tasks may not spawn */
    const struct hdi_nursery *nursery; /* whose it is; NULL: the runtime's */
};

struct hdi_caps {
    struct hd_runtime *runtime;
    uint64_t key[2]; /* constant, as is number */
    uint64_t number; /* differs from that of every other table there is */
    struct hdi_rights own;
    struct hdi_caps *next; /* in the list of all tables; its lock */

    struct hdi_mutex lock;
    uint32_t refs;         /* of the runtime, and of channels */
    unsigned used;         /* slots that were ever taken */
    struct hdi_cap *free;
    _Atomic(struct hdi_cap *) chunks[HDI_CAPS_CHUNKS]; /* the lock's holder writes, all read */

    _Atomic(bool) audited; /* there is a hook */
    struct hdi_mutex audit_lock;
    hd_audit_fn *audit;    /* audit_lock */
    void *audit_arg;
};

/* ---- scope/cap_table.c ---- */

/* The table of a runtime; NULL if it has none, that is if nobody ever asked for a capability. */
static inline struct hdi_caps *hdi_caps_of(struct hd_runtime *runtime)
{
    return hdi_load_acquire(&runtime->caps); /* T <- T */
}

/* The same, made if need be; NULL if memory is short. */
struct hdi_caps *hdi_caps_need(struct hd_runtime *runtime);

/* An entry that is not revoked. Context: it is referred to. */
static inline bool hdi_cap_valid(const struct hdi_cap *cap)
{
    return hdi_load_acquire(&((struct hdi_cap *)cap)->valid) != 0; /* V <- V */
}

hd_cap hdi_cap_handle(const struct hdi_cap *cap);

/* Whether the tag is the one of this id: somebody was given it, once. */
bool hdi_cap_genuine(const struct hdi_caps *table, hd_cap handle);

/* The entry of a handle; NULL unless it is valid. It may be revoked, and freed, right after, unless
 * the caller holds the lock. */
struct hdi_cap *hdi_cap_find(struct hdi_caps *table, hd_cap handle);

/* The same with a reference taken. */
struct hdi_cap *hdi_cap_hold(struct hdi_caps *table, hd_cap handle);

/* Context: no lock; ref: the entry is referred to already. */
void hdi_cap_ref(struct hdi_cap *cap);
void hdi_cap_unref(struct hdi_cap *cap);

/* Returns: 0, with handle and kind; -EPERM, -EINVAL, -ENOMEM, -EOVERFLOW. */
int hdi_cap_derive(struct hdi_caps *table, hd_cap from, const hd_cap_limits *limits, hd_cap *cap,
                   hd_cap_kind *kind);

/* `acting`: the rights of who does it, who cannot revoke those; NULL: nobody's. Returns: 0, with
 * the kind; -EPERM, -EINVAL. */
int hdi_cap_revoke(struct hdi_caps *table, hd_cap handle, const struct hdi_rights *acting,
                   hd_cap_kind *kind);

/* One more lives by virtue of it. Returns NULL; or the entry, it or one above it, that is at its
 * limit, and nothing is counted. */
const struct hdi_cap *hdi_cap_count(struct hdi_cap *cap);
void hdi_cap_uncount(struct hdi_cap *cap);

/* The same for a channel, which may outlive the runtime: it holds the entry and the table until
 * hdi_scope_chan_gone(). */
const struct hdi_cap *hdi_cap_count_chan(struct hdi_cap *cap);

/* Whether `cap` is `other`, or derived from it. Context: the lock. */
bool hdi_cap_descends(const struct hdi_cap *cap, const struct hdi_cap *other);

/* The entry of this slot, if it has this id, valid or not; NULL. Context: the lock. */
struct hdi_cap *hdi_cap_with_id(struct hdi_caps *table, uint64_t id);

/* ---- scope/cap_limits.c ---- */

/* The bounds of one that is derived from `parent`. Dispatchers are not held yet. Context: the lock.
 * Returns: 0, -EINVAL. */
int hdi_bounds_narrow(const struct hdi_cap *parent, const hd_cap_limits *limits,
                      struct hdi_bounds *bounds);

/* Whether one of kind executor allows to run there. Context: the lock, unless it names no
 * dispatchers. */
bool hdi_cap_allows(const struct hdi_cap *cap, const struct hd_dispatcher *dispatcher);

/* ---- scope/profile.c ---- */

struct hdi_profile {
    const char *name;
    unsigned kinds;         /* bit k: the runtime has its own capability of kind k */
    unsigned budget_rights; /* of that */
    bool implicit_budget;   /* nurseries without one have one for each task */
    bool supervises;        /* nurseries may be supervised */
    bool inherits;          /* nurseries pass on what the caller has, unless they say otherwise */
};

const struct hdi_profile *hdi_profile_of(const struct hd_runtime *runtime);

/* Everything that this profile allows of this kind. */
struct hdi_bounds hdi_profile_bounds(const struct hdi_profile *profile, hd_cap_kind kind);

/* ---- scope/audit.c ---- */

/* Tell the hook, if there is one. */
void hdi_audit(struct hdi_caps *table, hd_audit_event event, hd_cap_kind kind, uint64_t cap,
               const char *what);

/* Refuse: what hd_missing() returns next, and the hook hears. `table` may be NULL. Returns
 * -EPERM. */
__attribute__((format(printf, 4, 5))) int hdi_deny(struct hdi_caps *table, hd_cap_kind kind,
                                                   uint64_t cap, const char *format, ...);

/* Refuse a handle that is not valid, saying why. `table` may be NULL. Returns -EPERM. */
int hdi_deny_handle(struct hdi_caps *table, hd_cap handle, const char *doing);

/* ---- scope/rights.c ---- */

/* What a task may do that is on no errand; NULL: everything. */
const struct hdi_rights *hdi_rights_of(const struct hd_task *task);

/* The same for a METERED task that wants to do something. Returns: 0; -EPERM: it may do nothing, as
 * was said. */
int hdi_rights_ask(const struct hd_task *task, hd_cap_kind kind,
                   const struct hdi_rights **rights);

/* What the running task, or thread, may do in this runtime; NULL in *rights: everything. Returns
 * false if that is nothing, because its rights are of another runtime, or by an errand. */
bool hdi_rights_self(struct hd_runtime *runtime, const struct hdi_rights **rights);

/* The capability of this kind, if it is held and not revoked; otherwise that is said, and NULL
 * returned. */
struct hdi_cap *hdi_rights_need(const struct hdi_rights *rights, hd_cap_kind kind);

/* Whether these rights allow to run there; and saying that they do not, which returns -EPERM. */
bool hdi_rights_allow(const struct hdi_rights *rights, const struct hd_dispatcher *dispatcher);
int hdi_deny_dispatcher(const struct hdi_rights *rights, const struct hd_dispatcher *dispatcher);

#endif
