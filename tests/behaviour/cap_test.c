/* SPDX-License-Identifier: MIT
 *
 * Capabilities as such: handles, what can be derived from what, revocation, the audit hook.
 */
#include "caps.h"

TEST_MAIN

/* ---- handles ---- */

static int have_handles(void *arg)
{
    (void)arg;
    hd_runtime *runtime = hd_runtime_self();
    for (int kind = HD_CAP_SPAWN; kind < HD_CAP_KINDS; kind++) {
        const hd_cap own = cap_self((hd_cap_kind)kind);
        EXPECT(hd_cap_valid(runtime, own));
        EXPECT(cap_equal(own, cap_self((hd_cap_kind)kind)));
        const hd_cap cap = cap_derive(own, NULL);
        EXPECT(!cap_equal(own, cap));
        for (unsigned bit = 0; bit < 64; bit++) {
            hd_cap changed = cap;
            changed.tag ^= UINT64_C(1) << bit;
            EXPECT(!hd_cap_valid(runtime, changed));
            changed = cap;
            changed.id ^= UINT64_C(1) << bit;
            EXPECT(!hd_cap_valid(runtime, changed));
        }
        EXPECT(hd_cap_valid(runtime, cap));
    }
    EXPECT(cap_is_none(cap_self(HD_CAP_NONE)));
    EXPECT(cap_is_none(cap_self((hd_cap_kind)HD_CAP_KINDS)));
    EXPECT(!hd_cap_valid(runtime, (hd_cap){0, 0}));
    return 0;
}

TEST_WORLDS(handles_cannot_be_changed, options) { rt_run(have_handles, NULL, options); }

static int know_nothing(void *arg)
{
    (void)arg;
    hd_cap cap = {1, 2};
    EXPECT(!hd_cap_valid(hd_runtime_self(), cap));
    EXPECT_REFUSED(hd_cap_derive(hd_runtime_self(), cap, NULL, &cap));
    EXPECT_MISSING("derive: this is no capability of this runtime");
    EXPECT_REFUSED(hd_cap_revoke(hd_runtime_self(), cap));
    EXPECT_MISSING("revoke: this is no capability of this runtime");
    EXPECT_EQ(cap.id, 1);
    return 0;
}

TEST_WORLDS(a_runtime_that_gave_none_knows_none, options) { rt_run(know_nothing, NULL, options); }

TEST_WORLDS(handles_of_another_runtime_are_refused, options)
{
    /* In sim both have the same seed. */
    hd_runtime *one = rt_create(options), *other = rt_create(options);
    for (int kind = HD_CAP_SPAWN; kind < HD_CAP_KINDS; kind++) {
        const hd_cap mine = hd_cap_self(one, (hd_cap_kind)kind);
        const hd_cap theirs = hd_cap_self(other, (hd_cap_kind)kind);
        hd_cap cap = {0, 0};
        EXPECT(hd_cap_valid(one, mine) && hd_cap_valid(other, theirs));
        EXPECT(!hd_cap_valid(one, theirs) && !hd_cap_valid(other, mine));
        EXPECT_REFUSED(hd_cap_derive(one, theirs, NULL, &cap));
        EXPECT_REFUSED(hd_cap_revoke(one, theirs));
        EXPECT(cap_is_none(cap));
        const hd_caps caps = caps_with((hd_cap_kind)kind, theirs);
        hd_nursery_options with = caps_options(&caps);
        with.runtime = one;
        hd_nursery nursery;
        EXPECT_REFUSED(hd_nursery_open(&nursery, &with));
        EXPECT_MISSING("nursery: this is no capability of this runtime");
    }
    hd_runtime_destroy(one);
    hd_runtime_destroy(other);
}

TEST(a_seed_gives_the_same_handles_again)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    hd_cap seen[3];
    for (unsigned i = 0; i < 3; i++) {
        options.seed = i < 2 ? 7 : 8;
        hd_runtime *runtime = rt_create(&options);
        seen[i] = hd_cap_self(runtime, HD_CAP_SPAWN);
        hd_runtime_destroy(runtime);
    }
    EXPECT(cap_equal(seen[0], seen[1]));
    EXPECT(seen[1].tag != seen[2].tag);
}

TEST(in_live_every_runtime_has_a_key_of_its_own)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 1;
    hd_cap seen[2];
    for (unsigned i = 0; i < 2; i++) {
        hd_runtime *runtime = rt_create(&options);
        seen[i] = hd_cap_self(runtime, HD_CAP_SPAWN);
        hd_runtime_destroy(runtime);
    }
    EXPECT(seen[0].tag != seen[1].tag);
}

/* ---- narrowing ---- */

static void expect_senseless(hd_cap from, const hd_cap_limits *limits)
{
    hd_cap cap = {0, 0};
    EXPECT_EQ(hd_cap_derive(hd_runtime_self(), from, limits, &cap), -EINVAL);
    EXPECT(cap_is_none(cap));
}

static int narrow_numbers(void *arg)
{
    (void)arg;
    const hd_cap spawn = cap_of(
        HD_CAP_SPAWN, LIMITS(.tasks_live = 10, .per_task = {100, 200, 300, 400, 500}));
    const hd_cap same = cap_derive(spawn, LIMITS(.tasks_live = 10));
    const hd_cap less = cap_derive(same, LIMITS(.tasks_live = 9, .per_task = {.ops = 99}));
    (void)cap_derive(less, LIMITS(.tasks_live = HD_NOTHING, .per_task = {.memory = HD_NOTHING}));
    expect_senseless(spawn, LIMITS(.tasks_live = 11));
    expect_senseless(spawn, LIMITS(.tasks_live = HD_UNLIMITED));
    expect_senseless(less, LIMITS(.tasks_live = 10));
    expect_senseless(spawn, LIMITS(.tasks_live = -1));
    expect_senseless(spawn, LIMITS(.per_task = {.ops = 101}));
    expect_senseless(spawn, LIMITS(.per_task = {.memory = 201}));
    expect_senseless(spawn, LIMITS(.per_task = {.spawn_count = 301}));
    expect_senseless(spawn, LIMITS(.per_task = {.channel_ops = 401}));
    expect_senseless(spawn, LIMITS(.per_task = {.syscalls = 501}));
    const hd_cap none = cap_derive(spawn, LIMITS(.tasks_live = HD_NOTHING));
    expect_senseless(none, LIMITS(.tasks_live = 1));
    (void)cap_derive(none, NULL);
    const hd_cap channel = cap_of(HD_CAP_CHANNEL, LIMITS(.channels = 4, .channel_items = 16));
    expect_senseless(channel, LIMITS(.channels = 5));
    expect_senseless(channel, LIMITS(.channel_items = 17));
    (void)cap_derive(channel, LIMITS(.channels = 4, .channel_items = HD_NOTHING));
    return 0;
}

static int narrow_rights(void *arg)
{
    (void)arg;
    const hd_cap two = cap_of(HD_CAP_BUDGET, LIMITS(.rights = HD_CAP_REQUEST | HD_CAP_RECHARGE));
    const hd_cap one = cap_derive(two, LIMITS(.rights = HD_CAP_RECHARGE));
    expect_senseless(two, LIMITS(.rights = HD_CAP_TRANSFER));
    expect_senseless(two, LIMITS(.rights = HD_CAP_REQUEST | HD_CAP_TRANSFER));
    expect_senseless(one, LIMITS(.rights = HD_CAP_REQUEST));
    expect_senseless(one, LIMITS(.rights = HD_CAP_NO_RIGHTS | HD_CAP_RECHARGE));
    const hd_cap none = cap_derive(one, LIMITS(.rights = HD_CAP_NO_RIGHTS));
    expect_senseless(none, LIMITS(.rights = HD_CAP_RECHARGE));
    expect_senseless(cap_self(HD_CAP_BUDGET), LIMITS(.rights = 8));
    expect_senseless(cap_self(HD_CAP_EXECUTOR), LIMITS(.rights = 4));
    return 0;
}

static int narrow_dispatchers(void *arg)
{
    (void)arg;
    hd_dispatcher *main = hd_dispatcher_default(NULL), *single, *many[HD_CAP_DISPATCHERS_MAX];
    EXPECT_EQ(hd_dispatcher_single(&single, NULL), 0);
    const hd_cap cap = cap_of(HD_CAP_EXECUTOR, LIMITS(.dispatchers = {NULL, main}));
    (void)cap_derive(cap, LIMITS(.dispatchers = {main}));
    expect_senseless(cap, LIMITS(.dispatchers = {single}));
    expect_senseless(cap, LIMITS(.dispatchers = {main, hd_dispatcher_unconfined()}));
    for (unsigned i = 0; i < HD_CAP_DISPATCHERS_MAX; i++) many[i] = i ? single : main;
    hd_cap_limits limits = HD_CAP_LIMITS_INIT;
    memcpy(limits.dispatchers, many, sizeof(many));
    const hd_cap both = cap_of(HD_CAP_EXECUTOR, &limits);
    hd_dispatcher_unref(single); /* The capability holds it: */
    (void)cap_derive(both, LIMITS(.dispatchers = {single}));
    return 0;
}

static int mix_kinds(void *arg)
{
    (void)arg;
    const hd_cap spawn = cap_self(HD_CAP_SPAWN), budget = cap_self(HD_CAP_BUDGET);
    const hd_cap channel = cap_self(HD_CAP_CHANNEL), executor = cap_self(HD_CAP_EXECUTOR);
    expect_senseless(spawn, LIMITS(.channels = 1));
    expect_senseless(spawn, LIMITS(.rights = 1));
    expect_senseless(budget, LIMITS(.tasks_live = 1));
    expect_senseless(budget, LIMITS(.per_task = {.syscalls = 1}));
    expect_senseless(channel, LIMITS(.rights = 1));
    expect_senseless(channel, LIMITS(.dispatchers = {hd_dispatcher_default(NULL)}));
    expect_senseless(executor, LIMITS(.channel_items = 1));
    expect_senseless(executor, &(hd_cap_limits){.size = 1});
    return 0;
}

TEST_WORLDS(numbers_are_only_narrowed, options) { rt_run(narrow_numbers, NULL, options); }
TEST_WORLDS(rights_are_only_narrowed, options) { rt_run(narrow_rights, NULL, options); }
TEST_WORLDS(dispatchers_are_only_narrowed, options) { rt_run(narrow_dispatchers, NULL, options); }
TEST_WORLDS(limits_of_another_kind_make_no_sense, options) { rt_run(mix_kinds, NULL, options); }

/* ---- revoking ---- */

static int revoke_families(void *arg)
{
    (void)arg;
    hd_runtime *runtime = hd_runtime_self();
    const hd_cap own = cap_self(HD_CAP_SPAWN);
    const hd_cap a = cap_derive(own, NULL), b = cap_derive(own, NULL);
    const hd_cap aa = cap_derive(a, NULL), ab = cap_derive(a, NULL), aaa = cap_derive(aa, NULL);
    cap_revoke(aa);
    EXPECT(hd_cap_valid(runtime, a) && hd_cap_valid(runtime, ab) && !hd_cap_valid(runtime, aaa));
    const hd_cap ac = cap_derive(a, NULL);
    cap_revoke(a);
    EXPECT(!hd_cap_valid(runtime, ab) && !hd_cap_valid(runtime, ac));
    EXPECT(hd_cap_valid(runtime, b));
    hd_cap cap = {0, 0};
    EXPECT_REFUSED(hd_cap_derive(runtime, ab, NULL, &cap));
    EXPECT_MISSING_OF(ab, "derive: capability %llu is revoked");
    EXPECT_REFUSED(hd_cap_revoke(runtime, a));
    EXPECT_MISSING_OF(a, "revoke: capability %llu is revoked");
    EXPECT_EQ(hd_cap_revoke(runtime, own), -EINVAL);
    EXPECT(hd_cap_valid(runtime, own));
    return 0;
}

TEST_WORLDS(all_that_was_derived_goes_too, options) { rt_run(revoke_families, NULL, options); }

enum { DEEP = 10000 };

static int revoke_deep(void *arg)
{
    (void)arg;
    hd_cap *caps = malloc(DEEP * sizeof(*caps));
    hd_cap from = cap_self(HD_CAP_CHANNEL);
    for (int i = 0; i < DEEP; i++) from = caps[i] = cap_derive(from, LIMITS(.channels = DEEP - i));
    for (int i = DEEP / 2; i < DEEP; i++) EXPECT(hd_cap_valid(hd_runtime_self(), caps[i]));
    cap_revoke(caps[DEEP / 2]);
    for (int i = 0; i < DEEP; i++) {
        EXPECT_EQ(hd_cap_valid(hd_runtime_self(), caps[i]), i < DEEP / 2);
    }
    cap_revoke(caps[0]);
    for (int i = 0; i < DEEP; i++) EXPECT(!hd_cap_valid(hd_runtime_self(), caps[i]));
    free(caps);
    return 0;
}

/* On a fiber's stack: nothing recurses. */
TEST_WORLDS(chains_of_any_depth, options) { rt_run(revoke_deep, NULL, options); }

/* The slot is used again, the handle is not. */
static int reuse(void *arg)
{
    (void)arg;
    enum { TIMES = 1000 };
    hd_cap old[TIMES];
    for (int i = 0; i < TIMES; i++) {
        old[i] = cap_of(HD_CAP_BUDGET, NULL);
        cap_revoke(old[i]);
    }
    const hd_cap now = cap_of(HD_CAP_BUDGET, NULL);
    for (int i = 0; i < TIMES; i++) {
        EXPECT(!hd_cap_valid(hd_runtime_self(), old[i]));
        EXPECT(!hd_cap_valid(hd_runtime_self(), (hd_cap){now.id, old[i].tag}));
        EXPECT(!hd_cap_valid(hd_runtime_self(), (hd_cap){old[i].id, now.tag}));
        for (int j = 0; j < i; j++) EXPECT(old[i].id != old[j].id);
    }
    return 0;
}

TEST_WORLDS(no_handle_comes_back, options) { rt_run(reuse, NULL, options); }

static int fill(void *arg)
{
    (void)arg;
    enum { MOST = 65536 };
    const hd_cap own = cap_self(HD_CAP_SPAWN);
    const hd_cap first = cap_derive(own, NULL);
    hd_cap last = first, cap = {0, 0};
    for (int i = 1; i < MOST; i++) last = cap_derive(i % 2 ? own : first, NULL);
    EXPECT_EQ(hd_cap_derive(hd_runtime_self(), own, NULL, &cap), -EOVERFLOW);
    EXPECT(cap_is_none(cap));
    cap_revoke(last);
    (void)cap_derive(first, NULL);
    EXPECT_EQ(hd_cap_derive(hd_runtime_self(), own, NULL, &cap), -EOVERFLOW);
    cap_revoke(first); /* with half of them */
    for (int i = 0; i < MOST / 2; i++) (void)cap_derive(own, NULL);
    return 0;
}

TEST(there_are_65536_at_a_time)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 1;
    rt_run(fill, NULL, &options);
}

static int revoke_own(void *arg)
{
    const hd_cap *above = arg;
    const hd_cap self = cap_self(HD_CAP_SPAWN);
    EXPECT_EQ(hd_cap_revoke(hd_runtime_self(), self), -EINVAL);
    EXPECT_EQ(hd_cap_revoke(hd_runtime_self(), *above), -EINVAL);
    cap_revoke(cap_derive(self, NULL));
    return 0;
}

static int revoke_what_others_hold(void *arg)
{
    (void)arg;
    const hd_cap above = cap_of(HD_CAP_SPAWN, NULL);
    const hd_cap given = cap_derive(above, LIMITS(.tasks_live = 3));
    EXPECT_EQ(cap_run(HD_CAP_SPAWN, given, revoke_own, (void *)&above), 0);
    cap_revoke(above);
    EXPECT(!hd_cap_valid(hd_runtime_self(), given));
    return 0;
}

TEST_WORLDS(a_task_cannot_revoke_what_it_acts_by, options)
{
    rt_run(revoke_what_others_hold, NULL, options);
}

/* ---- what a task has ---- */

static int look_at_own(void *arg)
{
    const hd_caps *caps = arg;
    for (int kind = HD_CAP_SPAWN; kind < HD_CAP_KINDS; kind++) {
        EXPECT(cap_equal(cap_self((hd_cap_kind)kind), caps->cap[kind]));
    }
    return 0;
}

static int look_below(void *arg)
{
    EXPECT_EQ(look_at_own(arg), 0);
    hd_nursery nursery;
    nur_open(&nursery, NULL);
    nur_go(&nursery, look_at_own, arg);
    return hd_nursery_leave(&nursery);
}

static int inherit(void *arg)
{
    (void)arg;
    hd_caps given = HD_CAPS_INIT, held = HD_CAPS_INIT;
    for (int kind = HD_CAP_SPAWN; kind < HD_CAP_KINDS; kind++) {
        held.cap[kind] = cap_self((hd_cap_kind)kind);
    }
    EXPECT_EQ(caps_run(&given, look_below, &held), 0); /* nothing named */
    given.cap[HD_CAP_CHANNEL] = held.cap[HD_CAP_CHANNEL] = cap_of(HD_CAP_CHANNEL, NULL);
    EXPECT_EQ(caps_run(&given, look_below, &held), 0);
    given.cap[HD_CAP_SPAWN] = held.cap[HD_CAP_SPAWN] =
        cap_of(HD_CAP_SPAWN, LIMITS(.tasks_live = 2));
    EXPECT_EQ(caps_run(&given, look_below, &held), 0);
    return 0;
}

TEST_WORLDS(nurseries_pass_on_what_they_do_not_name, options) { rt_run(inherit, NULL, options); }

static int open_badly(void *arg)
{
    (void)arg;
    const hd_cap cap = cap_of(HD_CAP_SPAWN, NULL);
    hd_caps caps = caps_with(HD_CAP_CHANNEL, cap); /* of another kind */
    hd_nursery_options options = caps_options(&caps);
    hd_nursery nursery;
    EXPECT_EQ(hd_nursery_open(&nursery, &options), -EINVAL);
    caps = caps_with(HD_CAP_SPAWN, cap);
    caps.size--;
    EXPECT_EQ(hd_nursery_open(&nursery, &options), -EINVAL);
    caps = caps_with(HD_CAP_SPAWN, cap);
    cap_revoke(cap);
    EXPECT_REFUSED(hd_nursery_open(&nursery, &options));
    EXPECT_MISSING_OF(cap, "nursery: capability %llu is revoked");
    caps = caps_with(HD_CAP_SPAWN, (hd_cap){cap.id, cap.tag + 1});
    EXPECT_REFUSED(hd_nursery_open(&nursery, &options));
    EXPECT_MISSING("nursery: this is no capability of this runtime");
    return 0;
}

TEST_WORLDS(nurseries_take_only_good_ones, options) { rt_run(open_badly, NULL, options); }

/* Whoever holds a handle may use it: here a task whose own is narrower. */
static int give_more(void *arg)
{
    const hd_cap *more = arg;
    struct nur_actor actors[3];
    const hd_caps caps = caps_with(HD_CAP_SPAWN, *more);
    const hd_nursery_options options = caps_options(&caps);
    hd_nursery nursery;
    nur_open(&nursery, &options);
    for (int i = 0; i < 3; i++) nur_go_actor(&nursery, &actors[i]);
    for (int i = 0; i < 3; i++) nur_let_end(&actors[i], 0);
    return hd_nursery_leave(&nursery);
}

static int possess(void *arg)
{
    (void)arg;
    hd_cap more = cap_of(HD_CAP_SPAWN, LIMITS(.tasks_live = 3));
    return cap_run(HD_CAP_SPAWN, cap_of(HD_CAP_SPAWN, LIMITS(.tasks_live = 1)), give_more, &more);
}

TEST_WORLDS(a_handle_is_authority, options) { rt_run(possess, NULL, options); }

/* ---- words ---- */

TEST(names)
{
    EXPECT(strcmp(hd_cap_kind_name(HD_CAP_NONE), "none") == 0);
    EXPECT(strcmp(hd_cap_kind_name(HD_CAP_SPAWN), "spawn") == 0);
    EXPECT(strcmp(hd_cap_kind_name(HD_CAP_BUDGET), "budget") == 0);
    EXPECT(strcmp(hd_cap_kind_name(HD_CAP_CHANNEL), "channel") == 0);
    EXPECT(strcmp(hd_cap_kind_name(HD_CAP_EXECUTOR), "executor") == 0);
}

static int miss_something(void *arg)
{
    EXPECT_MISSING("");
    EXPECT_REFUSED(hd_cap_revoke(hd_runtime_self(), (hd_cap){3, 3}));
    EXPECT_MISSING("revoke: this is no capability of this runtime");
    atomic_fetch_add((atomic_int *)arg, 1);
    rt_until(arg);
    EXPECT_MISSING("revoke: this is no capability of this runtime");
    return 0;
}

static int miss_separately(void *arg)
{
    (void)arg;
    atomic_int count = 0;
    hd_cap cap = {4, 4};
    EXPECT_REFUSED(hd_cap_derive(hd_runtime_self(), cap, NULL, &cap));
    for (int i = 0; i < 3; i++) EXPECT_EQ(rt_join(rt_spawn(NULL, miss_something, &count)), 0);
    EXPECT_MISSING("derive: this is no capability of this runtime");
    return 0;
}

TEST_WORLDS(each_task_is_told_its_own, options)
{
    rt_run(miss_separately, NULL, options);
    EXPECT_MISSING(""); /* nor is the thread */
}

/* ---- the audit hook ---- */

struct log {
    unsigned count;
    hd_audit entries[32];
    char texts[32][160];
};

static void note(const hd_audit *audit, void *arg)
{
    struct log *log = arg;
    EXPECT(log->count < 32);
    log->entries[log->count] = *audit;
    snprintf(log->texts[log->count++], sizeof(log->texts[0]), "%s", audit->what);
}

static void expect_noted(const struct log *log, unsigned i, hd_audit_event event,
                         hd_cap_kind kind, uint64_t cap, const char *what)
{
    EXPECT(i < log->count);
    EXPECT_EQ(log->entries[i].event, event);
    EXPECT_EQ(log->entries[i].kind, kind);
    EXPECT_EQ(log->entries[i].cap, cap);
    if (strcmp(log->texts[i], what) != 0) {
        test_fail(__FILE__, __LINE__, "the hook heard \"%s\", not \"%s\"", log->texts[i], what);
    }
}

static int make_channel(void *arg)
{
    hd_chan *chan = NULL;
    *(uint64_t *)arg = hd_self_id();
    EXPECT_EQ(hd_chan_create_with(&chan, 8, NULL), 0);
    hd_chan_destroy(chan);
    EXPECT(hd_chan_create(8, 100) == NULL);
    EXPECT_REFUSED(hd_spawn(NULL, nur_nothing, NULL));
    return 0;
}

static int be_audited(void *arg)
{
    (void)arg;
    struct log log = {.count = 0};
    uint64_t child = 0;
    EXPECT_EQ(hd_cap_audit(hd_runtime_self(), note, &log), 0);
    const hd_cap channel = cap_of(HD_CAP_CHANNEL, LIMITS(.channel_items = 1));
    EXPECT_EQ(cap_run(HD_CAP_CHANNEL, channel, make_channel, &child), 0);
    cap_revoke(channel);
    EXPECT_REFUSED(hd_cap_revoke(hd_runtime_self(), channel));
    EXPECT_EQ(hd_cap_audit(hd_runtime_self(), NULL, NULL), 0);
    (void)cap_of(HD_CAP_CHANNEL, NULL);

    const uint64_t id = channel.id, spawn = cap_self(HD_CAP_SPAWN).id;
    char text[200];
    EXPECT_EQ(log.count, 7);
    expect_noted(&log, 0, HD_AUDIT_DERIVE, HD_CAP_CHANNEL, id, "derive");
    expect_noted(&log, 1, HD_AUDIT_USE, HD_CAP_SPAWN, spawn, "spawn");
    expect_noted(&log, 2, HD_AUDIT_USE, HD_CAP_CHANNEL, id, "channel");
    snprintf(text, sizeof(text),
             "channel: a buffer of 100 items is over the limit of capability %llu, which is 1",
             (unsigned long long)id);
    expect_noted(&log, 3, HD_AUDIT_DENY, HD_CAP_CHANNEL, id, text);
    expect_noted(&log, 4, HD_AUDIT_DENY, HD_CAP_SPAWN, 0,
                 "spawn: a task with capabilities or a budget spawns into nurseries only");
    expect_noted(&log, 5, HD_AUDIT_REVOKE, HD_CAP_CHANNEL, id, "revoke");
    snprintf(text, sizeof(text), "revoke: capability %llu is revoked", (unsigned long long)id);
    expect_noted(&log, 6, HD_AUDIT_DENY, HD_CAP_NONE, id, text);
    for (unsigned i = 0; i < log.count; i++) {
        EXPECT_EQ(log.entries[i].task, i >= 2 && i <= 4 ? child : hd_self_id());
    }
    return 0;
}

TEST_WORLDS(the_hook_hears_everything, options) { rt_run(be_audited, NULL, options); }
