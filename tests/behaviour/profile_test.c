/* SPDX-License-Identifier: MIT
 *
 * Profiles, against the matrix of the seed: scheduler, budgets, nurseries.
 */
#include "caps.h"

TEST_MAIN

static void run_as(hd_profile profile, hd_fn *fn, const hd_options *options)
{
    hd_options own = *options;
    own.profile = profile;
    EXPECT_EQ(hd_run(fn, NULL, &own), 0);
}

static void expect_text(const char *has, const char *expected)
{
    if (strcmp(has, expected) != 0) {
        test_fail(__FILE__, __LINE__, "\"%s\" instead of \"%s\"", has, expected);
    }
}

TEST(unknown_ones)
{
    hd_options options = HD_OPTIONS_INIT;
    options.profile = (hd_profile)(HD_PROFILE_SOVEREIGN + 1);
    expect_text(hd_options_error(&options), "profile is none of HD_PROFILE_*");
    hd_runtime *runtime = NULL;
    EXPECT_EQ(hd_runtime_create(&runtime, &options), -EINVAL);
}

/* ---- what each may do ---- */

struct verdict {
    bool spawn, channel, create, block, budget, recharge, transfer, supervise, inherits, implicit;
};

static bool allowed(int err)
{
    EXPECT(err == 0 || err == -EPERM);
    if (err) EXPECT(hd_missing()[0] != '\0');
    return err == 0;
}

static bool may_be_supervised(void)
{
    const hd_supervision supervision = {.size = sizeof(supervision)};
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    options.supervision = &supervision;
    hd_nursery nursery;
    const bool may = allowed(hd_nursery_open(&nursery, &options));
    if (may) EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    return may;
}

static void try_budgets(struct verdict *verdict)
{
    const hd_budget some = {.ops = 100000, .channel_ops = 1000}, more = {.ops = 1};
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    options.budget = &some;
    hd_nursery one, two;
    verdict->budget = allowed(hd_nursery_open(&one, &options));
    if (!verdict->budget) return;
    EXPECT_EQ(hd_nursery_open(&two, &options), 0);
    verdict->recharge = allowed(hd_budget_recharge(&one, &more));
    verdict->transfer = allowed(hd_budget_transfer(&two, &one, &more));
    EXPECT_EQ(hd_nursery_leave(&two), 0);
    EXPECT_EQ(hd_nursery_leave(&one), 0);
}

static int see_inside(void *arg)
{
    struct verdict *verdict = arg;
    verdict->inherits = !cap_is_none(cap_self(HD_CAP_CHANNEL));
    verdict->implicit = hd_budget_left().ops != HD_UNLIMITED;
    return 0;
}

static struct verdict try_everything(void)
{
    struct verdict verdict = {false};
    hd_nursery nursery;
    verdict.spawn = allowed(hd_nursery_open(&nursery, NULL));
    if (verdict.spawn) {
        EXPECT_EQ(hd_go(&nursery, see_inside, &verdict), 0);
        EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    }
    hd_chan *chan = NULL;
    verdict.channel = allowed(hd_chan_create_with(&chan, 8, NULL));
    hd_chan_destroy(chan);
    hd_dispatcher *dispatcher = NULL;
    verdict.create = allowed(hd_dispatcher_single(&dispatcher, NULL));
    hd_dispatcher_unref(dispatcher);
    verdict.block = allowed(hd_blocking(nur_nothing, NULL, NULL));
    verdict.supervise = may_be_supervised();
    try_budgets(&verdict);
    return verdict;
}

#define EXPECT_VERDICT(...)                                                              \
    do {                                                                                 \
        const struct verdict has_ = try_everything(), should_ = {__VA_ARGS__};           \
        EXPECT_EQ(has_.spawn, should_.spawn);                                            \
        EXPECT_EQ(has_.channel, should_.channel);                                        \
        EXPECT_EQ(has_.create, should_.create);                                          \
        EXPECT_EQ(has_.block, should_.block);                                            \
        EXPECT_EQ(has_.budget, should_.budget);                                          \
        EXPECT_EQ(has_.recharge, should_.recharge);                                      \
        EXPECT_EQ(has_.transfer, should_.transfer);                                      \
        EXPECT_EQ(has_.supervise, should_.supervise);                                    \
        EXPECT_EQ(has_.inherits, should_.inherits);                                      \
        EXPECT_EQ(has_.implicit, should_.implicit);                                      \
    } while (0)

static int try_none(void *arg)
{
    (void)arg;
    EXPECT_VERDICT(.spawn = true, .channel = true, .create = true, .block = true, .budget = true,
                   .recharge = true, .transfer = true, .supervise = true, .inherits = true);
    EXPECT_EQ(rt_join(rt_spawn(NULL, nur_nothing, NULL)), 0);
    return 0;
}

static int try_core(void *arg)
{
    (void)arg;
    EXPECT_VERDICT(.channel = true);
    EXPECT_REFUSED(hd_spawn(NULL, nur_nothing, NULL));
    EXPECT_MISSING("spawn: no such capability is held (profile core)");
    hd_on on;
    EXPECT_EQ(hd_on_enter(&on, hd_dispatcher_self()), 0); /* where it is */
    hd_on_leave(&on);
    EXPECT_REFUSED(hd_blocking(nur_nothing, NULL, NULL));
    EXPECT_MISSING("executor: no such capability is held (profile core)");
    EXPECT(cap_is_none(cap_self(HD_CAP_SPAWN)) && cap_is_none(cap_self(HD_CAP_BUDGET)));
    EXPECT(cap_is_none(cap_self(HD_CAP_EXECUTOR)) && !cap_is_none(cap_self(HD_CAP_CHANNEL)));
    return 0;
}

static int try_service(void *arg)
{
    (void)arg;
    EXPECT_VERDICT(.spawn = true, .channel = true, .create = true, .block = true, .budget = true,
                   .inherits = true, .implicit = true);
    EXPECT(!may_be_supervised());
    EXPECT_MISSING("supervision: profile service has no supervised nurseries");
    EXPECT_REFUSED(hd_spawn(NULL, nur_nothing, NULL)); /* It would have no budget. */
    EXPECT_MISSING("spawn: a task with capabilities or a budget spawns into nurseries only");
    return 0;
}

static int try_cluster(void *arg)
{
    (void)arg;
    EXPECT_VERDICT(.spawn = true, .channel = true, .create = true, .block = true, .budget = true,
                   .recharge = true, .supervise = true, .inherits = true, .implicit = true);
    return 0;
}

static int try_sovereign(void *arg)
{
    (void)arg;
    EXPECT_VERDICT(.spawn = true, .channel = true, .create = true, .block = true, .budget = true,
                   .recharge = true, .transfer = true, .supervise = true);
    return 0;
}

TEST_WORLDS(none, options) { run_as(HD_PROFILE_NONE, try_none, options); }
TEST_WORLDS(core, options) { run_as(HD_PROFILE_CORE, try_core, options); }
TEST_WORLDS(service, options) { run_as(HD_PROFILE_SERVICE, try_service, options); }
TEST_WORLDS(cluster, options) { run_as(HD_PROFILE_CLUSTER, try_cluster, options); }
TEST_WORLDS(sovereign, options) { run_as(HD_PROFILE_SOVEREIGN, try_sovereign, options); }

/* ---- the implicit budget ---- */

static int see_budget(void *arg)
{
    (void)arg;
    const hd_budget left = hd_budget_left();
    EXPECT(left.ops <= HD_SERVICE_OPS && left.ops > HD_SERVICE_OPS - 100);
    EXPECT_EQ(left.memory, HD_SERVICE_MEMORY);
    EXPECT_EQ(left.spawn_count, HD_SERVICE_SPAWN_COUNT);
    EXPECT_EQ(left.channel_ops, HD_SERVICE_CHANNEL_OPS);
    EXPECT_EQ(left.syscalls, HD_SERVICE_SYSCALLS);
    void *memory = NULL;
    EXPECT_EQ(hd_alloc((size_t)HD_SERVICE_MEMORY + 1, &memory), -EDQUOT);
    return 0;
}

static int see_budget_twice(void *arg)
{
    EXPECT_EQ(see_budget(arg), 0);
    HD_NURSERY(n) EXPECT_EQ(hd_go(n, see_budget, arg), 0);
    return hd_nursery_result();
}

static int have_implicit_budget(void *arg)
{
    HD_NURSERY(n) {
        for (int i = 0; i < 3; i++) EXPECT_EQ(hd_go(n, see_budget, arg), 0);
    }
    EXPECT_EQ(hd_nursery_result(), 0);
    return 0;
}

static int pass_implicit_budget_on(void *arg)
{
    HD_NURSERY(n) EXPECT_EQ(hd_go(n, see_budget_twice, arg), 0);
    return hd_nursery_result();
}

TEST_WORLDS(every_task_of_a_service_has_a_budget, options)
{
    run_as(HD_PROFILE_SERVICE, have_implicit_budget, options);
    run_as(HD_PROFILE_CLUSTER, have_implicit_budget, options);
    run_as(HD_PROFILE_SERVICE, pass_implicit_budget_on, options);
}

/* ---- sovereign: only what is named ---- */

static int have_nothing(void *arg)
{
    (void)arg;
    for (int kind = HD_CAP_SPAWN; kind < HD_CAP_KINDS; kind++) {
        EXPECT(cap_is_none(cap_self((hd_cap_kind)kind)));
    }
    hd_nursery nursery;
    hd_chan *chan = NULL;
    hd_dispatcher *dispatcher = NULL;
    EXPECT_REFUSED(hd_nursery_open(&nursery, NULL));
    EXPECT_MISSING("spawn: no such capability is held (profile sovereign)");
    EXPECT_REFUSED(hd_spawn(NULL, nur_nothing, NULL));
    EXPECT_REFUSED(hd_chan_create_with(&chan, 8, NULL));
    EXPECT_MISSING("channel: no such capability is held (profile sovereign)");
    EXPECT_REFUSED(hd_dispatcher_single(&dispatcher, NULL));
    EXPECT_MISSING("executor: no such capability is held (profile sovereign)");
    hd_yield();
    EXPECT_EQ(hd_sleep_ms(1), 0); /* Everything else goes on. */
    return 0;
}

/* Has spawn and channel, gives on nothing. */
static int have_two(void *arg)
{
    EXPECT(!cap_is_none(cap_self(HD_CAP_SPAWN)) && !cap_is_none(cap_self(HD_CAP_CHANNEL)));
    EXPECT(cap_is_none(cap_self(HD_CAP_BUDGET)) && cap_is_none(cap_self(HD_CAP_EXECUTOR)));
    hd_chan *chan = hd_chan_create(8, 1);
    EXPECT(chan != NULL);
    hd_chan_destroy(chan);
    const hd_budget some = {.ops = 100};
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    options.budget = &some;
    hd_nursery nursery;
    EXPECT_REFUSED(hd_nursery_open(&nursery, &options));
    EXPECT_MISSING("budget: no such capability is held (profile sovereign)");
    HD_NURSERY(n) {
        EXPECT_EQ(hd_go(n, have_nothing, arg), 0);
        hd_spawn_options elsewhere = HD_SPAWN_OPTIONS_INIT;
        elsewhere.nursery = n;
        elsewhere.dispatcher = arg;
        EXPECT_REFUSED(hd_spawn_with(NULL, nur_nothing, NULL, &elsewhere));
        EXPECT_MISSING("executor: no such capability is held (profile sovereign)");
    }
    return hd_nursery_result();
}

static int be_sovereign(void *arg)
{
    (void)arg;
    hd_dispatcher *single = NULL;
    EXPECT_EQ(hd_dispatcher_single(&single, NULL), 0);
    HD_NURSERY(n) EXPECT_EQ(hd_go(n, have_nothing, NULL), 0);
    EXPECT_EQ(hd_nursery_result(), 0);
    const hd_caps none = HD_CAPS_INIT;
    EXPECT_EQ(caps_run(&none, have_nothing, NULL), 0);
    hd_caps caps = HD_CAPS_INIT;
    caps.cap[HD_CAP_SPAWN] = cap_self(HD_CAP_SPAWN);
    caps.cap[HD_CAP_CHANNEL] = cap_of(HD_CAP_CHANNEL, LIMITS(.channels = 1));
    EXPECT_EQ(caps_run(&caps, have_two, single), 0);
    /* The owner, who may, places a child that may not choose. */
    HD_NURSERY(n) {
        hd_spawn_options elsewhere = HD_SPAWN_OPTIONS_INIT;
        elsewhere.nursery = n;
        elsewhere.dispatcher = single;
        EXPECT_EQ(hd_spawn_with(NULL, have_nothing, NULL, &elsewhere), 0);
    }
    EXPECT_EQ(hd_nursery_result(), 0);
    hd_dispatcher_unref(single);
    return 0;
}

TEST_WORLDS(a_sovereign_names_everything, options)
{
    run_as(HD_PROFILE_SOVEREIGN, be_sovereign, options);
}

/* ---- errands ---- */

static int open_one(void *arg)
{
    (void)arg;
    hd_nursery nursery;
    EXPECT_REFUSED(hd_nursery_open(&nursery, NULL));
    EXPECT_MISSING("spawn: not in a blocking call of a task with capabilities or a budget");
    return 0;
}

static int block(void *arg)
{
    (void)arg;
    return hd_blocking(open_one, NULL, NULL);
}

TEST_WORLDS(blocking_calls_have_no_rights, options)
{
    run_as(HD_PROFILE_SERVICE, block, options);
    run_as(HD_PROFILE_SOVEREIGN, block, options);
}

/* ---- plain threads ---- */

TEST_WORLDS(threads_have_what_the_profile_has, options)
{
    hd_options own = *options;
    own.profile = HD_PROFILE_CORE;
    hd_runtime *runtime = rt_create(&own);
    hd_nursery_options into = HD_NURSERY_OPTIONS_INIT;
    into.runtime = runtime;
    hd_nursery nursery;
    EXPECT_REFUSED(hd_nursery_open(&nursery, &into));
    EXPECT_MISSING("spawn: no such capability is held (profile core)");
    EXPECT(cap_is_none(hd_cap_self(runtime, HD_CAP_SPAWN)));
    EXPECT_EQ(rt_join(rt_spawn(runtime, nur_nothing, NULL)), 0); /* as hd_run() does */
    hd_runtime_destroy(runtime);

    own.profile = HD_PROFILE_SERVICE;
    runtime = rt_create(&own);
    const hd_budget some = {.ops = 1000}, more = {.ops = 1};
    into.runtime = runtime;
    into.budget = &some;
    nur_open(&nursery, &into);
    nur_go(&nursery, nur_nothing, NULL);
    EXPECT_REFUSED(hd_budget_recharge(&nursery, &more));
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    hd_runtime_destroy(runtime);
}

/* A task with rights in one runtime has none in another. */
static int visit(void *arg)
{
    hd_runtime *other = arg;
    EXPECT(cap_is_none(hd_cap_self(other, HD_CAP_SPAWN)));
    hd_spawn_options into = HD_SPAWN_OPTIONS_INIT;
    into.runtime = other;
    EXPECT_REFUSED(hd_spawn_with(NULL, nur_nothing, NULL, &into));
    return 0;
}

TEST_WORLDS(runtimes_are_apart, options)
{
    hd_options own = *options;
    own.profile = HD_PROFILE_SERVICE;
    hd_runtime *one = rt_create(&own), *other = rt_create(options);
    EXPECT_EQ(rt_join(rt_spawn(one, visit, other)), 0);
    hd_runtime_destroy(other);
    hd_runtime_destroy(one);
}
