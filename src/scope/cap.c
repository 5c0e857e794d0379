/* SPDX-License-Identifier: MIT
 *
 * cap: capabilities as the program sees them.
 */
#include <errno.h>

#include "scope/cap.h"

const char *hd_cap_kind_name(hd_cap_kind kind)
{
    switch (kind) {
    case HD_CAP_NONE: return "none";
    case HD_CAP_SPAWN: return "spawn";
    case HD_CAP_BUDGET: return "budget";
    case HD_CAP_CHANNEL: return "channel";
    case HD_CAP_EXECUTOR: return "executor";
    }
    return "?";
}

hd_cap hd_cap_self(hd_runtime *runtime, hd_cap_kind kind)
{
    static const hd_cap none;
    const struct hdi_rights *rights;
    if ((unsigned)kind >= HD_CAP_KINDS) return none;
    struct hdi_caps *table = hdi_caps_need(runtime);
    if (!table || !hdi_rights_self(runtime, &rights)) return none;
    const struct hdi_cap *cap = (rights ? rights : &table->own)->of[kind];
    return cap && hdi_cap_valid(cap) ? hdi_cap_handle(cap) : none;
}

bool hd_cap_valid(hd_runtime *runtime, hd_cap cap)
{
    struct hdi_caps *table = hdi_caps_of(runtime);
    return table && hdi_cap_find(table, cap);
}

int hd_cap_derive(hd_runtime *runtime, hd_cap from, const hd_cap_limits *limits, hd_cap *cap)
{
    struct hdi_caps *table = hdi_caps_of(runtime);
    hd_cap_kind kind;
    hd_cap made;
    const int err = table ? hdi_cap_derive(table, from, limits, &made, &kind) : -EPERM;
    if (err == -EPERM) return hdi_deny_handle(table, from, "derive");
    if (err) return err;
    hdi_audit(table, HD_AUDIT_DERIVE, kind, made.id, "derive");
    *cap = made;
    return 0;
}

int hd_cap_revoke(hd_runtime *runtime, hd_cap cap)
{
    struct hdi_caps *table = hdi_caps_of(runtime);
    const struct hdi_rights *acting = NULL;
    (void)hdi_rights_self(runtime, &acting); /* Who has rights elsewhere acts by none of these. */
    hd_cap_kind kind;
    const int err = table ? hdi_cap_revoke(table, cap, acting, &kind) : -EPERM;
    if (err == -EPERM) return hdi_deny_handle(table, cap, "revoke");
    if (!err) hdi_audit(table, HD_AUDIT_REVOKE, kind, cap.id, "revoke");
    return err;
}
