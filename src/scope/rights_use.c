/* SPDX-License-Identifier: MIT
 *
 * rights_use: what tasks may do besides spawning: dispatchers, channels, budgets.
 */
#include <errno.h>
#include <stdio.h>

#include "scope/cap.h"
#include "scope/nursery.h"
#include "sync/chan.h"

static void used(const struct hdi_cap *cap, const char *what)
{
    hdi_audit(cap->table, HD_AUDIT_USE, (hd_cap_kind)cap->kind, cap->id, what);
}

/* ---- dispatchers ---- */

int hdi_deny_dispatcher(const struct hdi_rights *rights, const struct hd_dispatcher *dispatcher)
{
    const struct hdi_cap *cap = hdi_rights_need(rights, HD_CAP_EXECUTOR);
    if (!cap) return -EPERM;
    return hdi_deny(cap->table, HD_CAP_EXECUTOR, cap->id,
                    "executor: capability %llu does not allow dispatcher \"%s\"",
                    (unsigned long long)cap->id, dispatcher->name);
}

int hdi_scope_may_run_on(const struct hd_task *task, const struct hd_dispatcher *dispatcher)
{
    const struct hdi_rights *rights;
    const int err = hdi_rights_ask(task, HD_CAP_EXECUTOR, &rights);
    if (err || !rights) return err;
    if (!hdi_rights_allow(rights, dispatcher)) return hdi_deny_dispatcher(rights, dispatcher);
    used(rights->of[HD_CAP_EXECUTOR], "run");
    return 0;
}

/* The capability of this kind, if it has that right. */
static struct hdi_cap *need_right(const struct hdi_rights *rights, hd_cap_kind kind,
                                  unsigned right, const char *what)
{
    struct hdi_cap *cap = hdi_rights_need(rights, kind);
    if (!cap) return NULL;
    if (cap->bounds.rights & right) {
        used(cap, what);
        return cap;
    }
    (void)hdi_deny(cap->table, kind, cap->id, "%s: capability %llu does not allow to %s",
                   hd_cap_kind_name(kind), (unsigned long long)cap->id, what);
    return NULL;
}

int hdi_scope_may_create(const struct hd_task *task, uint64_t *maker)
{
    const struct hdi_rights *rights;
    const int err = hdi_rights_ask(task, HD_CAP_EXECUTOR, &rights);
    if (err || !rights) return err;
    const struct hdi_cap *cap = need_right(rights, HD_CAP_EXECUTOR, HD_CAP_CREATE, "create");
    if (!cap) return -EPERM;
    if (maker) *maker = cap->id;
    return 0;
}

int hdi_scope_may_block(const struct hd_task *task)
{
    const struct hdi_rights *rights;
    const int err = hdi_rights_ask(task, HD_CAP_EXECUTOR, &rights);
    if (err || !rights) return err;
    return need_right(rights, HD_CAP_EXECUTOR, HD_CAP_BLOCK, "block") ? 0 : -EPERM;
}

/* ---- channels ---- */

static int deny_buffer(const struct hdi_cap *cap, size_t items)
{
    char size[32] = "without limit";
    if (items != HD_CHAN_UNLIMITED) {
        snprintf(size, sizeof(size), "of %zu item%s", items, items == 1 ? "" : "s");
    }
    return hdi_deny(cap->table, HD_CAP_CHANNEL, cap->id,
                    "channel: a buffer %s is over the limit of capability %llu, which is %lld",
                    size, (unsigned long long)cap->id, (long long)cap->bounds.items_max);
}

static int deny_count(const struct hdi_cap *full)
{
    if (full->bounds.live_max == 0) {
        return hdi_deny(full->table, HD_CAP_CHANNEL, full->id,
                        "channel: capability %llu allows none", (unsigned long long)full->id);
    }
    return hdi_deny(full->table, HD_CAP_CHANNEL, full->id,
                    "channel: %lld exist, which is the limit of capability %llu",
                    (long long)full->bounds.live_max, (unsigned long long)full->id);
}

int hdi_scope_may_chan(const struct hd_task *task, size_t items, struct hdi_cap **counted)
{
    const struct hdi_rights *rights;
    const int err = hdi_rights_ask(task, HD_CAP_CHANNEL, &rights);
    if (err || !rights) return err;
    struct hdi_cap *cap = hdi_rights_need(rights, HD_CAP_CHANNEL);
    if (!cap) return -EPERM;
    const int64_t most = cap->bounds.items_max;
    if (most != HD_UNLIMITED && items > (uint64_t)most) return deny_buffer(cap, items);
    if (cap->counts) {
        const struct hdi_cap *full = hdi_cap_count_chan(cap);
        if (full) return deny_count(full);
        *counted = cap;
    }
    used(cap, "channel");
    return 0;
}

/* ---- budgets ---- */

int hdi_rights_may_budget(struct hd_runtime *runtime, unsigned right)
{
    static const char *const names[] = {
        [HD_CAP_REQUEST] = "request",
        [HD_CAP_RECHARGE] = "recharge",
        [HD_CAP_TRANSFER] = "transfer",
    };
    const struct hdi_rights *rights;
    if (!hdi_rights_self(runtime, &rights)) {
        return hdi_deny(hdi_caps_of(runtime), HD_CAP_BUDGET, 0,
                        "budget: the task has no rights in this runtime");
    }
    if (!rights) return 0;
    return need_right(rights, HD_CAP_BUDGET, right, names[right]) ? 0 : -EPERM;
}
