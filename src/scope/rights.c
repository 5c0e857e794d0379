/* SPDX-License-Identifier: MIT
 *
 * rights: what the tasks of a nursery may do, and their spawning.
 *
 * A nursery's rights are those of the task that opened it, or of the runtime's profile if that has
 * none: the same struct, since what is around it stays longer. If it names capabilities, or the
 * profile passes nothing on, it has a struct of its own.
 *
 *   RIGHTS-1  A task with rights or a pool spawns only into its own nursery and those inside it, so
 *             nothing it starts has more than what it was given, or what was added by who held a
 *             handle.
 *   RIGHTS-2  Who may not spawn cannot open a nursery.
 *   RIGHTS-3  A child is counted in `by` of its nursery's rights from before it is in the nursery
 *             until it has ended, whoever spawned it.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "scope/cap.h"
#include "scope/nursery.h"

/* ---- whose are they ---- */

static const struct hdi_rights *rights_of_runtime(struct hd_runtime *runtime)
{
    if (hdi_likely(runtime->options.profile == HD_PROFILE_NONE)) return NULL;
    return &hdi_caps_of(runtime)->own;
}

const struct hdi_rights *hdi_rights_of(const struct hd_task *task)
{
    return task->nursery ? task->nursery->rights : rights_of_runtime(task->runtime);
}

bool hdi_scope_confines(const struct hd_task *task)
{
    return hdi_rights_of(task) || hdi_pool_of(task);
}

int hdi_rights_ask(const struct hd_task *task, hd_cap_kind kind, const struct hdi_rights **rights)
{
    *rights = hdi_rights_of(task);
    if (hdi_likely(!(task->unusual & HDI_UNUSUAL_ERRAND))) return 0;
    return hdi_deny(hdi_caps_of(task->runtime), kind, 0,
                    "%s: not in a blocking call of a task with capabilities or a budget",
                    hd_cap_kind_name(kind));
}

bool hdi_rights_self(struct hd_runtime *runtime, const struct hdi_rights **rights)
{
    const struct hd_task *task = hdi_task_self();
    const struct hdi_rights *own = task ? hdi_rights_of(task) : NULL;
    if (task && (task->unusual & HDI_UNUSUAL_ERRAND)) return false;
    if (own && task->runtime != runtime) return false;
    *rights = task && task->runtime == runtime ? own : rights_of_runtime(runtime);
    return true;
}

static struct hd_runtime *runtime_of(const struct hdi_rights *rights)
{
    return rights->table->runtime;
}

static int deny_unheld(const struct hdi_rights *rights, hd_cap_kind kind)
{
    return hdi_deny(rights->table, kind, 0, "%s: no such capability is held (profile %s)",
                    hd_cap_kind_name(kind), hdi_profile_of(runtime_of(rights))->name);
}

static int deny_revoked(const struct hdi_cap *cap)
{
    return hdi_deny(cap->table, (hd_cap_kind)cap->kind, cap->id, "%s: capability %llu is revoked",
                    hd_cap_kind_name((hd_cap_kind)cap->kind), (unsigned long long)cap->id);
}

struct hdi_cap *hdi_rights_need(const struct hdi_rights *rights, hd_cap_kind kind)
{
    struct hdi_cap *cap = rights->of[kind];
    if (cap && hdi_cap_valid(cap)) return cap;
    (void)(cap ? deny_revoked(cap) : deny_unheld(rights, kind));
    return NULL;
}

bool hdi_rights_allow(const struct hdi_rights *rights, const struct hd_dispatcher *dispatcher)
{
    const struct hdi_cap *cap = rights->of[HD_CAP_EXECUTOR];
    if (!cap || !hdi_cap_valid(cap)) return false;
    if (cap->bounds.dispatcher_count == 0) return hdi_cap_allows(cap, dispatcher);
    hdi_mutex_lock(&cap->table->lock);
    const bool allows = hdi_cap_allows(cap, dispatcher);
    hdi_mutex_unlock(&cap->table->lock);
    return allows;
}

/* Whether who has these rights may spawn at all. */
static int may_spawn(const struct hdi_rights *rights)
{
    const struct hdi_cap *cap = hdi_rights_need(rights, HD_CAP_SPAWN);
    if (!cap) return -EPERM;
    if (cap->bounds.live_max > 0) return 0;
    return hdi_deny(cap->table, HD_CAP_SPAWN, cap->id, "spawn: capability %llu allows none",
                    (unsigned long long)cap->id);
}

/* ---- opening ---- */

/* Whether who has these rights may open such a nursery. */
static int may_open(const struct hdi_rights *rights, const hd_nursery_options *options)
{
    if (may_spawn(rights) != 0) return -EPERM;
    const struct hdi_profile *profile = hdi_profile_of(runtime_of(rights));
    if (options->supervision && !profile->supervises) {
        return hdi_deny(rights->table, HD_CAP_NONE, 0,
                        "supervision: profile %s has no supervised nurseries", profile->name);
    }
    if (!options->budget) return 0;
    return hdi_rights_may_budget(runtime_of(rights), HD_CAP_REQUEST);
}

/* The entry that the options name, with a reference. */
static int take_named(struct hdi_caps *table, hd_cap handle, hd_cap_kind kind,
                      struct hdi_cap **cap)
{
    struct hdi_cap *found = hdi_cap_hold(table, handle);
    if (!found) return hdi_deny_handle(table, handle, "nursery");
    if (found->kind != kind) {
        hdi_cap_unref(found);
        return -EINVAL;
    }
    *cap = found;
    return 0;
}

static void drop_all(struct hdi_rights *rights)
{
    for (unsigned kind = 0; kind < HD_CAP_KINDS; kind++) {
        if (rights->of[kind]) hdi_cap_unref(rights->of[kind]);
    }
    if (rights->by) hdi_cap_unref(rights->by);
    free(rights);
}

/* Take what is named, and what is passed on of `held`. */
static int take_all(struct hdi_rights *rights, const struct hdi_rights *held, const hd_caps *caps)
{
    static const hd_cap none;
    const bool inherits = hdi_profile_of(runtime_of(held))->inherits;
    for (unsigned kind = HD_CAP_NONE + 1; kind < HD_CAP_KINDS; kind++) {
        const hd_cap handle = caps ? caps->cap[kind] : none;
        if (handle.id || handle.tag) {
            const int err =
                take_named(held->table, handle, (hd_cap_kind)kind, &rights->of[kind]);
            if (err) return err;
        } else if (inherits && held->of[kind]) {
            hdi_cap_ref(held->of[kind]);
            rights->of[kind] = held->of[kind];
        }
    }
    struct hdi_cap *spawn = rights->of[HD_CAP_SPAWN];
    rights->by = spawn && spawn->bounds.live_max > 0 ? spawn : held->of[HD_CAP_SPAWN];
    hdi_cap_ref(rights->by);
    return 0;
}

int hdi_rights_open(struct hdi_nursery *nursery, const hd_nursery_options *options)
{
    struct hd_runtime *runtime = nursery->scope.runtime;
    const hd_caps *caps = options->caps;
    const struct hdi_rights *held;
    /* A task opens nurseries in its own runtime: if it has no rights there, it is on an errand. */
    if (!hdi_rights_self(runtime, &held)) {
        return hdi_rights_ask(hdi_task_self(), HD_CAP_SPAWN, &held);
    }
    int err = held ? may_open(held, options) : 0;
    if (err) return err;
    nursery->rights = (struct hdi_rights *)held;
    if (caps && caps->size != sizeof(*caps)) return -EINVAL;
    if (!caps && hdi_profile_of(runtime)->inherits) return 0;
    struct hdi_caps *table = hdi_caps_need(runtime);
    struct hdi_rights *rights = table ? calloc(1, sizeof(*rights)) : NULL;
    if (!rights) return -ENOMEM;
    rights->table = table;
    rights->nursery = nursery;
    err = take_all(rights, held ? held : &table->own, caps);
    if (err) {
        drop_all(rights);
        return err;
    }
    nursery->rights = rights;
    return 0;
}

void hdi_rights_close(struct hdi_nursery *nursery)
{
    struct hdi_rights *rights = nursery->rights;
    if (rights && rights->nursery == nursery) drop_all(rights);
}

/* ---- spawning ---- */

/* RIGHTS-1. The owner of a nursery has not left it, so neither has the nursery around it ended. */
static bool is_inside(const struct hdi_nursery *nursery, const struct hdi_nursery *outer)
{
    while (nursery && nursery != outer) nursery = nursery->scope.owner->nursery;
    return nursery != NULL;
}

int hdi_rights_may_spawn(struct hd_task *spawner, struct hdi_nursery *nursery)
{
    const struct hdi_rights *rights;
    struct hdi_caps *table = hdi_caps_of(spawner->runtime);
    if (hdi_rights_ask(spawner, HD_CAP_SPAWN, &rights) != 0) return -EPERM;
    if (!rights && !hdi_pool_of(spawner)) return 0;
    if (rights && may_spawn(rights) != 0) return -EPERM;
    if (!nursery) {
        return hdi_deny(table, HD_CAP_SPAWN, 0,
                        "spawn: a task with capabilities or a budget spawns into nurseries only");
    }
    /* One of the runtime's first tasks has all that the runtime has. */
    const bool inside = spawner->nursery ? is_inside(nursery, spawner->nursery)
                                         : nursery->scope.runtime == spawner->runtime;
    if (inside) return 0;
    return hdi_deny(table, HD_CAP_SPAWN, 0, "spawn: the nursery is not inside that of this task");
}

static const struct hd_dispatcher *home_of(const struct hd_task *task)
{
    if (task->unusual & HDI_UNUSUAL_UNCONFINED) return hd_dispatcher_unconfined();
    return hdi_dispatcher_of(task);
}

/* Whether a child of this nursery may run where it is to. One that may not choose runs where its
 * spawner runs, or says. */
static bool may_live_on(const struct hdi_rights *rights, const struct hd_dispatcher *home)
{
    if (rights->of[HD_CAP_EXECUTOR]) return hdi_rights_allow(rights, home);
    const struct hdi_rights *spawners;
    if (home == hd_dispatcher_self()) return true;
    if (!hdi_rights_self(runtime_of(rights), &spawners)) return false;
    return !spawners || hdi_rights_allow(spawners, home);
}

static int deny_full(const struct hdi_cap *full)
{
    const long long most = full->bounds.live_max;
    return hdi_deny(full->table, HD_CAP_SPAWN, full->id,
                    "spawn: %lld %s alive, which is the limit of capability %llu", most,
                    most == 1 ? "task is" : "tasks are", (unsigned long long)full->id);
}

int hdi_rights_begin(struct hdi_nursery *nursery, const struct hd_task *task)
{
    const struct hdi_rights *rights = nursery->rights;
    struct hdi_cap *by = rights->by;
    if (!hdi_cap_valid(by)) return deny_revoked(by);
    const struct hd_dispatcher *home = home_of(task);
    if (!may_live_on(rights, home)) return hdi_deny_dispatcher(rights, home);
    const struct hdi_cap *full = hdi_cap_count(by);
    if (full) return deny_full(full);
    hdi_audit(rights->table, HD_AUDIT_USE, HD_CAP_SPAWN, by->id, "spawn");
    return 0;
}

void hdi_rights_end(struct hdi_nursery *nursery)
{
    hdi_cap_uncount(nursery->rights->by);
}
