/* SPDX-License-Identifier: MIT
 *
 * cap_limits: what one capability allows, and how another is narrower.
 */
#include <errno.h>
#include <string.h>

#include "scope/cap.h"

/* What a new one of each kind may be limited in. */
static int check_kind(const hd_cap_limits *limits, hd_cap_kind kind)
{
    static const hd_budget no_budget;
    const bool spawn = limits->tasks_live != 0 ||
                       memcmp(&limits->per_task, &no_budget, sizeof(no_budget)) != 0;
    const bool channel = limits->channels != 0 || limits->channel_items != 0;
    bool executor = false;
    for (unsigned i = 0; i < HD_CAP_DISPATCHERS_MAX; i++) {
        executor = executor || limits->dispatchers[i];
    }
    const bool rights = limits->rights != 0;
    if (spawn && kind != HD_CAP_SPAWN) return -EINVAL;
    if (channel && kind != HD_CAP_CHANNEL) return -EINVAL;
    if (executor && kind != HD_CAP_EXECUTOR) return -EINVAL;
    return rights && kind != HD_CAP_BUDGET && kind != HD_CAP_EXECUTOR ? -EINVAL : 0;
}

/* *bound is the parent's, and becomes the child's. */
static int narrow(int64_t limit, int64_t *bound)
{
    if (limit == 0) return 0;
    if (limit == HD_NOTHING) {
        *bound = 0;
        return 0;
    }
    if (limit < 0 || limit > *bound) return -EINVAL;
    *bound = limit;
    return 0;
}

static int narrow_budget(const hd_budget *limit, hd_budget *bound)
{
    int err = narrow(limit->ops, &bound->ops);
    if (!err) err = narrow(limit->memory, &bound->memory);
    if (!err) err = narrow(limit->spawn_count, &bound->spawn_count);
    if (!err) err = narrow(limit->channel_ops, &bound->channel_ops);
    return err ? err : narrow(limit->syscalls, &bound->syscalls);
}

static int narrow_rights(unsigned limit, unsigned *bound)
{
    if (limit == 0) return 0;
    if (limit == HD_CAP_NO_RIGHTS) {
        *bound = 0;
        return 0;
    }
    if (limit & ~*bound) return -EINVAL;
    *bound = limit;
    return 0;
}

static int narrow_dispatchers(const struct hdi_cap *parent, const hd_cap_limits *limits,
                              struct hdi_bounds *bounds)
{
    struct hdi_bounds own = *bounds;
    own.dispatcher_count = 0;
    for (unsigned i = 0; i < HD_CAP_DISPATCHERS_MAX; i++) {
        struct hd_dispatcher *dispatcher = limits->dispatchers[i];
        if (!dispatcher) continue;
        if (dispatcher->runtime && dispatcher->runtime != parent->table->runtime) return -EINVAL;
        if (!hdi_cap_allows(parent, dispatcher)) return -EINVAL;
        own.dispatchers[own.dispatcher_count++] = dispatcher;
    }
    if (own.dispatcher_count > 0) *bounds = own; /* Else they are the parent's. */
    return 0;
}

int hdi_bounds_narrow(const struct hdi_cap *parent, const hd_cap_limits *limits,
                      struct hdi_bounds *bounds)
{
    static const hd_cap_limits none = HD_CAP_LIMITS_INIT;
    if (!limits) limits = &none;
    const hd_cap_kind kind = (hd_cap_kind)parent->kind;
    int err = limits->size == sizeof(*limits) ? check_kind(limits, kind) : -EINVAL;
    if (err) return err;
    *bounds = parent->bounds;
    switch (kind) {
    case HD_CAP_NONE: return -EINVAL;
    case HD_CAP_SPAWN:
        err = narrow(limits->tasks_live, &bounds->live_max);
        return err ? err : narrow_budget(&limits->per_task, &bounds->per_task);
    case HD_CAP_BUDGET: return narrow_rights(limits->rights, &bounds->rights);
    case HD_CAP_CHANNEL:
        err = narrow(limits->channels, &bounds->live_max);
        return err ? err : narrow(limits->channel_items, &bounds->items_max);
    case HD_CAP_EXECUTOR:
        err = narrow_rights(limits->rights, &bounds->rights);
        return err ? err : narrow_dispatchers(parent, limits, bounds);
    }
    return -EINVAL;
}

/* Created by virtue of it, or of one derived from it, that is not forgotten yet. */
static bool made_by(const struct hdi_cap *cap, const struct hd_dispatcher *dispatcher)
{
    if (!(cap->bounds.rights & HD_CAP_CREATE) || dispatcher->maker == 0) return false;
    return hdi_cap_descends(hdi_cap_with_id(cap->table, dispatcher->maker), cap);
}

bool hdi_cap_allows(const struct hdi_cap *cap, const struct hd_dispatcher *dispatcher)
{
    struct hd_runtime *runtime = cap->table->runtime;
    const bool io = dispatcher == hdi_load_acquire(&runtime->io); /* I */
    if (io && !(cap->bounds.rights & HD_CAP_BLOCK)) return false;
    const unsigned count = cap->bounds.dispatcher_count;
    if (count == 0) return true;
    for (unsigned i = 0; i < count; i++) {
        if (cap->bounds.dispatchers[i] == dispatcher) return true;
    }
    return made_by(cap, dispatcher);
}
