/* SPDX-License-Identifier: MIT
 *
 * Capabilities "channel", "executor" and "budget": what tasks may do besides spawning.
 */
#include "caps.h"

#include "death.h"

TEST_MAIN

/* ---- channels ---- */

static int have_two_channels(void *arg)
{
    const hd_cap *cap = arg;
    hd_chan *first = hd_chan_create(8, 1), *second = hd_chan_create(8, 16), *third = NULL;
    EXPECT(first && second);
    for (int i = 0; i < 3; i++) {
        EXPECT_REFUSED(hd_chan_create_with(&third, 8, NULL));
        EXPECT_MISSING_OF(*cap, "channel: 2 exist, which is the limit of capability %llu");
        EXPECT(third == NULL && !hd_chan_create(8, 1));
        hd_chan_destroy(first);
        first = hd_chan_create(8, 1);
        EXPECT(first != NULL);
    }
    hd_chan_destroy(first);
    hd_chan_destroy(second);
    return 0;
}

static int have_two_broadcasts(void *arg)
{
    const hd_cap *cap = arg;
    const uint64_t value = 5;
    hd_watch *watch = hd_watch_create(8, &value);
    hd_broadcast *cast = hd_broadcast_create(8, 4);
    EXPECT(watch && cast);
    EXPECT(!hd_watch_create(8, &value) && !hd_broadcast_create(8, 4) && !hd_chan_create(8, 0));
    EXPECT_MISSING_OF(*cap, "channel: 2 exist, which is the limit of capability %llu");
    hd_watch_destroy(watch);
    hd_broadcast_destroy(cast);
    return 0;
}

static int limit_count(void *arg)
{
    (void)arg;
    hd_cap two = cap_of(HD_CAP_CHANNEL, LIMITS(.channels = 2));
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(cap_run(HD_CAP_CHANNEL, two, have_two_channels, &two), 0);
        hd_cap same = cap_derive(two, NULL);
        EXPECT_EQ(cap_run(HD_CAP_CHANNEL, same, have_two_broadcasts, &same), 0);
    }
    return 0;
}

TEST_WORLDS(so_many_channels_at_a_time, options) { rt_run(limit_count, NULL, options); }

static int have_small_ones(void *arg)
{
    const hd_cap *cap = arg;
    hd_chan_options options = HD_CHAN_OPTIONS_INIT;
    hd_chan *chan = NULL;
    EXPECT(hd_chan_create(8, 17) == NULL);
    EXPECT_MISSING_OF(*cap, "channel: a buffer of 17 items is over the limit of capability %llu, "
                            "which is 16");
    options.capacity = HD_CHAN_UNLIMITED;
    EXPECT_REFUSED(hd_chan_create_with(&chan, 8, &options));
    EXPECT_MISSING_OF(*cap, "channel: a buffer without limit is over the limit of capability "
                            "%llu, which is 16");
    options.items_max = 16;
    EXPECT_EQ(hd_chan_create_with(&chan, 8, &options), 0);
    hd_chan_destroy(chan);
    options = (hd_chan_options)HD_CHAN_OPTIONS_INIT;
    options.conflated = true;
    EXPECT_EQ(hd_chan_create_with(&chan, 8, &options), 0);
    hd_chan_destroy(chan);
    options.capacity = 2; /* makes no sense: neither refused nor counted */
    for (int i = 0; i < 5; i++) EXPECT_EQ(hd_chan_create_with(&chan, 8, &options), -EINVAL);
    EXPECT(hd_broadcast_create(8, 17) == NULL);
    return have_two_channels(arg);
}

static int meet_only(void *arg)
{
    const uint64_t value = 5;
    const hd_cap *cap = arg;
    hd_chan *chan = hd_chan_create(8, 0);
    EXPECT(chan != NULL);
    EXPECT(hd_chan_create(8, 1) == NULL && hd_watch_create(8, &value) == NULL);
    EXPECT_MISSING_OF(*cap, "channel: a buffer of 1 item is over the limit of capability %llu, "
                            "which is 0");
    hd_chan_destroy(chan);
    return 0;
}

static int create_none(void *arg)
{
    const hd_cap *cap = arg;
    EXPECT(hd_chan_create(8, 0) == NULL);
    EXPECT_MISSING_OF(*cap, "channel: capability %llu allows none");
    return 0;
}

static int limit_buffers(void *arg)
{
    (void)arg;
    hd_cap small = cap_of(HD_CAP_CHANNEL, LIMITS(.channels = 2, .channel_items = 16));
    EXPECT_EQ(cap_run(HD_CAP_CHANNEL, small, have_small_ones, &small), 0);
    hd_cap meeting = cap_derive(small, LIMITS(.channel_items = HD_NOTHING));
    EXPECT_EQ(cap_run(HD_CAP_CHANNEL, meeting, meet_only, &meeting), 0);
    hd_cap none = cap_derive(small, LIMITS(.channels = HD_NOTHING));
    EXPECT_EQ(cap_run(HD_CAP_CHANNEL, none, create_none, &none), 0);
    return 0;
}

TEST_WORLDS(buffers_of_so_many_items, options) { rt_run(limit_buffers, NULL, options); }

static int create_one(void *arg)
{
    hd_chan **chan = arg;
    return hd_chan_create_with(chan, 8, NULL);
}

/* A channel counts until it is destroyed, whoever does that, and whatever has gone meanwhile. */
static int leave_channels(void *arg)
{
    hd_chan **chans = arg;
    const hd_cap cap = cap_of(HD_CAP_CHANNEL, LIMITS(.channels = 2));
    const hd_cap below = cap_derive(cap, NULL);
    EXPECT_EQ(cap_run(HD_CAP_CHANNEL, below, create_one, &chans[0]), 0);
    EXPECT_EQ(cap_run(HD_CAP_CHANNEL, cap, create_one, &chans[1]), 0);
    hd_chan *more = NULL;
    EXPECT_EQ(cap_run(HD_CAP_CHANNEL, below, create_one, &more), -EPERM);
    cap_revoke(below);
    EXPECT_EQ(cap_run(HD_CAP_CHANNEL, cap, create_one, &more), -EPERM);
    hd_chan_destroy(chans[0]);
    EXPECT_EQ(cap_run(HD_CAP_CHANNEL, cap, create_one, &more), 0);
    hd_chan_destroy(more);
    EXPECT_EQ(cap_run(HD_CAP_CHANNEL, cap, create_one, &chans[0]), 0);
    cap_revoke(cap);
    return 0;
}

TEST_WORLDS(channels_may_outlive_everything, options)
{
    hd_chan *chans[2] = {NULL, NULL};
    rt_run(leave_channels, chans, options);
    const uint64_t item = 7;
    EXPECT_EQ(hd_chan_send_until(chans[0], &item, HD_NOW), -EAGAIN);
    hd_chan_destroy(chans[0]);
    hd_chan_destroy(chans[1]);
}

/* ---- dispatchers ---- */

struct pools {
    hd_cap cap;
    hd_dispatcher *main, *one, *other;
};

static int return_where(void *arg)
{
    *(hd_dispatcher **)arg = hd_dispatcher_self();
    return 0;
}

static void expect_no_way_to(const struct pools *pools, hd_dispatcher *to, const char *name)
{
    char text[200];
    hd_on on;
    hd_dispatcher *where = NULL;
    snprintf(text, sizeof(text), "executor: capability %llu does not allow dispatcher \"%s\"",
             (unsigned long long)pools->cap.id, name);
    EXPECT_REFUSED(hd_on_enter(&on, to));
    EXPECT_MISSING(text);
    EXPECT_REFUSED(hd_on_call(to, return_where, &where, NULL));
    EXPECT(where == NULL);
    HD_NURSERY(n) {
        hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
        options.nursery = n;
        options.dispatcher = to;
        EXPECT_REFUSED(hd_spawn_with(NULL, return_where, &where, &options));
        EXPECT_MISSING(text);
    }
    EXPECT(where == NULL);
}

static void expect_way_to(hd_dispatcher *to)
{
    hd_dispatcher *where = NULL;
    EXPECT_EQ(hd_on_call(to, return_where, &where, NULL), 0);
    EXPECT(where == to);
    where = NULL;
    HD_NURSERY(n) {
        hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
        options.nursery = n;
        options.dispatcher = to;
        EXPECT_EQ(hd_spawn_with(NULL, return_where, &where, &options), 0);
    }
    EXPECT(where == to);
}

static int move_within(void *arg)
{
    struct pools *pools = arg;
    EXPECT(hd_dispatcher_self() == pools->main);
    expect_way_to(pools->main);
    expect_way_to(pools->one);
    expect_no_way_to(pools, pools->other, "other");
    HD_ON(pools->one) EXPECT(hd_dispatcher_self() == pools->one);
    HD_NURSERY(n) {
        hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
        options.nursery = n;
        options.dispatcher = hd_dispatcher_unconfined();
        EXPECT_REFUSED(hd_spawn_with(NULL, nur_nothing, NULL, &options));
        options.dispatcher = pools->other;
        options.flags = HD_PINNED;
        EXPECT_REFUSED(hd_spawn_with(NULL, nur_nothing, NULL, &options));
        options.dispatcher = pools->one;
        EXPECT_EQ(hd_spawn_with(NULL, nur_nothing, NULL, &options), 0);
    }
    return 0;
}

static hd_dispatcher *create_pool(const char *name)
{
    hd_dispatcher_options options = HD_DISPATCHER_OPTIONS_INIT;
    options.name = name;
    hd_dispatcher *dispatcher = NULL;
    EXPECT_EQ(hd_dispatcher_create(&dispatcher, &options), 0);
    return dispatcher;
}

static int limit_pools(void *arg)
{
    (void)arg;
    struct pools pools = {.main = hd_dispatcher_default(NULL)};
    pools.one = create_pool("one");
    pools.other = create_pool("other");
    pools.cap = cap_of(HD_CAP_EXECUTOR, LIMITS(.dispatchers = {pools.main, pools.one}));
    EXPECT_EQ(cap_run(HD_CAP_EXECUTOR, pools.cap, move_within, &pools), 0);
    cap_revoke(pools.cap);
    hd_dispatcher_unref(pools.one);
    hd_dispatcher_unref(pools.other);
    return 0;
}

TEST_WORLDS(tasks_run_where_they_may, options) { rt_run(limit_pools, NULL, options); }

/* Who spawns on another is told, too. */
static int place(void *arg)
{
    (void)arg;
    hd_dispatcher *one = create_pool("one"), *where = NULL;
    const hd_cap cap = cap_of(HD_CAP_EXECUTOR, LIMITS(.dispatchers = {one}));
    const hd_caps caps = caps_with(HD_CAP_EXECUTOR, cap);
    const hd_nursery_options options = caps_options(&caps);
    hd_nursery nursery;
    nur_open(&nursery, &options);
    EXPECT_REFUSED(hd_go(&nursery, nur_nothing, NULL));
    EXPECT_MISSING_OF(cap, "executor: capability %llu does not allow dispatcher \"default\"");
    HD_ON(one) EXPECT_EQ(hd_go(&nursery, return_where, &where), 0);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    EXPECT(where == one);
    hd_dispatcher_unref(one);
    return 0;
}

TEST_WORLDS(children_are_placed_where_they_may_be, options) { rt_run(place, NULL, options); }

static int make_pools(void *arg)
{
    const struct pools *pools = arg;
    hd_dispatcher *mine = create_pool("mine"), *single = NULL;
    EXPECT_EQ(hd_dispatcher_single(&single, NULL), 0);
    expect_way_to(mine);
    expect_way_to(single);
    expect_no_way_to(pools, pools->other, "other");
    /* It may be passed on; what was made by one derived is the parent's too. */
    const hd_cap narrow = cap_of(
        HD_CAP_EXECUTOR, LIMITS(.dispatchers = {mine, pools->main}, .rights = HD_CAP_CREATE));
    hd_cap wide = {0, 0};
    EXPECT_EQ(hd_cap_derive(hd_runtime_self(), narrow, LIMITS(.dispatchers = {single}), &wide),
              -EINVAL);
    hd_dispatcher_unref(mine);
    hd_dispatcher_unref(single);
    return 0;
}

static int make_one(void *arg)
{
    *(hd_dispatcher **)arg = create_pool("below");
    return 0;
}

static int make_one_below(void *arg)
{
    const struct pools *pools = arg;
    hd_dispatcher *below = NULL;
    const hd_cap narrow = cap_of(HD_CAP_EXECUTOR, LIMITS(.dispatchers = {pools->main}));
    EXPECT_EQ(cap_run(HD_CAP_EXECUTOR, narrow, make_one, &below), 0);
    expect_way_to(below);
    hd_dispatcher_unref(below);
    return 0;
}

static int make_none(void *arg)
{
    const hd_cap *cap = arg;
    hd_dispatcher *made = NULL;
    hd_runtime *runtime = NULL;
    hd_dispatcher_options options = HD_DISPATCHER_OPTIONS_INIT;
    EXPECT_REFUSED(hd_dispatcher_create(&made, &options));
    EXPECT_MISSING_OF(*cap, "executor: capability %llu does not allow to create");
    EXPECT_REFUSED(hd_dispatcher_single(&made, NULL));
    EXPECT_REFUSED(hd_runtime_create(&runtime, NULL));
    EXPECT(made == NULL && runtime == NULL);
    return 0;
}

static int limit_making(void *arg)
{
    (void)arg;
    struct pools pools = {.main = hd_dispatcher_default(NULL), .other = create_pool("other")};
    pools.cap = cap_of(HD_CAP_EXECUTOR, LIMITS(.dispatchers = {pools.main}));
    EXPECT_EQ(cap_run(HD_CAP_EXECUTOR, pools.cap, make_pools, &pools), 0);
    EXPECT_EQ(cap_run(HD_CAP_EXECUTOR, pools.cap, make_one_below, &pools), 0);
    hd_cap none = cap_of(HD_CAP_EXECUTOR, LIMITS(.rights = HD_CAP_BLOCK));
    EXPECT_EQ(cap_run(HD_CAP_EXECUTOR, none, make_none, &none), 0);
    hd_dispatcher_unref(pools.other);
    return 0;
}

TEST_WORLDS(tasks_may_run_on_what_they_made, options) { rt_run(limit_making, NULL, options); }

static int block_not(void *arg)
{
    const struct pools *pools = arg;
    EXPECT_REFUSED(hd_blocking(nur_nothing, NULL, NULL));
    EXPECT_MISSING_OF(pools->cap, "executor: capability %llu does not allow to block");
    EXPECT(hd_dispatcher_io(NULL) == NULL);
    EXPECT_MISSING_OF(pools->cap, "executor: capability %llu does not allow to block");
    expect_no_way_to(pools, pools->one, "io");
    return 0;
}

static int block(void *arg)
{
    const struct pools *pools = arg;
    EXPECT_EQ(hd_blocking(nur_nothing, NULL, NULL), 0);
    EXPECT(hd_dispatcher_io(NULL) == pools->one);
    return 0;
}

static int limit_blocking(void *arg)
{
    (void)arg;
    struct pools pools = {.main = hd_dispatcher_default(NULL), .one = hd_dispatcher_io(NULL)};
    pools.cap = cap_of(HD_CAP_EXECUTOR, LIMITS(.rights = HD_CAP_CREATE));
    EXPECT_EQ(cap_run(HD_CAP_EXECUTOR, pools.cap, block_not, &pools), 0);
    pools.cap = cap_of(HD_CAP_EXECUTOR, LIMITS(.dispatchers = {pools.main}));
    EXPECT_EQ(cap_run(HD_CAP_EXECUTOR, pools.cap, block, &pools), 0);
    return 0;
}

TEST_WORLDS(blocking_is_a_right, options) { rt_run(limit_blocking, NULL, options); }

static int go_where_forbidden(void *arg)
{
    HD_ON(arg) EXPECT(false);
    return 0;
}

static int limit_and_die(void *arg)
{
    (void)arg;
    const hd_cap cap =
        cap_of(HD_CAP_EXECUTOR, LIMITS(.dispatchers = {hd_dispatcher_default(NULL)}));
    return cap_run(HD_CAP_EXECUTOR, cap, go_where_forbidden, create_pool("other"));
}

static void die(void *options)
{
    rt_run(limit_and_die, NULL, options);
}

TEST(the_block_form_says_what_is_missing)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    expect_abort(die, &options, "does not allow dispatcher \"other\"");
}

/* ---- budgets ---- */

static int use_budgets(void *arg)
{
    const hd_cap *cap = arg;
    const hd_budget some = {.ops = 1000}, more = {.ops = 10};
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    options.budget = &some;
    hd_nursery one, two;
    EXPECT_EQ(hd_nursery_open(&one, &options), 0);
    EXPECT_EQ(hd_nursery_open(&two, &options), 0);
    EXPECT_REFUSED(hd_budget_recharge(&one, &more));
    EXPECT_MISSING_OF(*cap, "budget: capability %llu does not allow to recharge");
    EXPECT_REFUSED(hd_budget_transfer(&one, &two, &more));
    EXPECT_MISSING_OF(*cap, "budget: capability %llu does not allow to transfer");
    EXPECT_EQ(hd_nursery_leave(&two), 0);
    EXPECT_EQ(hd_nursery_leave(&one), 0);
    return 0;
}

static int use_all_of_it(void *arg)
{
    (void)arg;
    const hd_budget some = {.ops = 1000}, more = {.ops = 10};
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    options.budget = &some;
    hd_nursery one, two;
    EXPECT_EQ(hd_nursery_open(&one, &options), 0);
    EXPECT_EQ(hd_nursery_open(&two, &options), 0);
    EXPECT_EQ(hd_budget_recharge(&two, &more), 0);
    EXPECT_EQ(hd_budget_transfer(&two, &one, &more), 0);
    EXPECT_EQ(hd_nursery_leave(&two), 0);
    EXPECT_EQ(hd_nursery_leave(&one), 0);
    return 0;
}

static int have_no_budget(void *arg)
{
    const hd_cap *cap = arg;
    const hd_budget some = {.ops = 1000};
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    options.budget = &some;
    hd_nursery nursery;
    EXPECT_REFUSED(hd_nursery_open(&nursery, &options));
    EXPECT_MISSING_OF(*cap, "budget: capability %llu does not allow to request");
    options.budget = NULL;
    options.per_task = &some; /* narrows only */
    EXPECT_EQ(hd_nursery_open(&nursery, &options), 0);
    return hd_nursery_leave(&nursery);
}

static int limit_budgets(void *arg)
{
    (void)arg;
    hd_cap request = cap_of(HD_CAP_BUDGET, LIMITS(.rights = HD_CAP_REQUEST));
    EXPECT_EQ(cap_run(HD_CAP_BUDGET, request, use_budgets, &request), 0);
    hd_cap none = cap_derive(request, LIMITS(.rights = HD_CAP_NO_RIGHTS));
    EXPECT_EQ(cap_run(HD_CAP_BUDGET, none, have_no_budget, &none), 0);
    EXPECT_EQ(cap_run(HD_CAP_BUDGET, cap_of(HD_CAP_BUDGET, NULL), use_all_of_it, NULL), 0);
    return 0;
}

TEST_WORLDS(budgets_are_a_matter_of_rights, options) { rt_run(limit_budgets, NULL, options); }
