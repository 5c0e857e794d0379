/* SPDX-License-Identifier: MIT
 *
 * profile: presets of what the tasks of a runtime may do.
 */
#include "scope/cap.h"

#define KIND(kind)    (1u << (kind))
#define ALL_KINDS     (KIND(HD_CAP_SPAWN) | KIND(HD_CAP_BUDGET) | KIND(HD_CAP_CHANNEL) | \
                       KIND(HD_CAP_EXECUTOR))
#define BUDGET_RIGHTS (HD_CAP_REQUEST | HD_CAP_RECHARGE | HD_CAP_TRANSFER)

static const struct hdi_profile profiles[] = {
    [HD_PROFILE_NONE] =
        {
            .name = "none",
            .kinds = ALL_KINDS,
            .budget_rights = BUDGET_RIGHTS,
            .supervises = true,
            .inherits = true,
        },
    [HD_PROFILE_CORE] =
        {
            .name = "core",
            .kinds = KIND(HD_CAP_CHANNEL),
            .inherits = true,
        },
    [HD_PROFILE_SERVICE] =
        {
            .name = "service",
            .kinds = ALL_KINDS,
            .budget_rights = HD_CAP_REQUEST,
            .implicit_budget = true,
            .inherits = true,
        },
    [HD_PROFILE_CLUSTER] =
        {
            .name = "cluster",
            .kinds = ALL_KINDS,
            .budget_rights = HD_CAP_REQUEST | HD_CAP_RECHARGE,
            .implicit_budget = true,
            .supervises = true,
            .inherits = true,
        },
    [HD_PROFILE_SOVEREIGN] =
        {
            .name = "sovereign",
            .kinds = ALL_KINDS,
            .budget_rights = BUDGET_RIGHTS,
            .supervises = true,
        },
};

const struct hdi_profile *hdi_profile_of(const struct hd_runtime *runtime)
{
    return &profiles[runtime->options.profile];
}

struct hdi_bounds hdi_profile_bounds(const struct hdi_profile *profile, hd_cap_kind kind)
{
    static const hd_budget no_limit = {HD_UNLIMITED, HD_UNLIMITED, HD_UNLIMITED, HD_UNLIMITED,
                                       HD_UNLIMITED};
    struct hdi_bounds bounds = {.live_max = HD_UNLIMITED};
    switch (kind) {
    case HD_CAP_NONE: break;
    case HD_CAP_SPAWN: bounds.per_task = no_limit; break;
    case HD_CAP_BUDGET: bounds.rights = profile->budget_rights; break;
    case HD_CAP_CHANNEL: bounds.items_max = HD_UNLIMITED; break;
    case HD_CAP_EXECUTOR: bounds.rights = HD_CAP_CREATE | HD_CAP_BLOCK; break;
    }
    return bounds;
}
