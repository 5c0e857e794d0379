/* SPDX-License-Identifier: MIT
 *
 * Capability "spawn": how many tasks live, where they may be spawned, what each may use.
 */
#include "caps.h"

TEST_MAIN

/* ---- how many ---- */

static int count_alive(void *arg)
{
    (void)arg;
    const hd_cap cap = cap_of(HD_CAP_SPAWN, LIMITS(.tasks_live = 3));
    const hd_caps caps = caps_with(HD_CAP_SPAWN, cap);
    const hd_nursery_options options = caps_options(&caps);
    struct nur_actor actors[4];
    hd_nursery nursery;
    nur_open(&nursery, &options);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) nur_go_actor(&nursery, &actors[i]);
        EXPECT_REFUSED(hd_go(&nursery, nur_nothing, NULL));
        EXPECT_MISSING_OF(cap, "spawn: 3 tasks are alive, which is the limit of capability %llu");
        hd_spawn_options spawn = HD_SPAWN_OPTIONS_INIT;
        spawn.nursery = &nursery;
        hd_task *task = NULL;
        EXPECT_REFUSED(hd_spawn_with(&task, nur_nothing, NULL, &spawn));
        EXPECT_REFUSED(hd_spawn_poll_with(&task, nur_park_poll, NULL, 0, &spawn));
        EXPECT(task == NULL);
        nur_end(&nursery, &actors[1], 0);
        nur_go_actor(&nursery, &actors[3]);
        EXPECT_REFUSED(hd_go(&nursery, nur_nothing, NULL));
        nur_end(&nursery, &actors[0], 0);
        nur_end(&nursery, &actors[2], 0);
        nur_end(&nursery, &actors[3], 0);
    }
    EXPECT_EQ(hd_nursery_look(&nursery).spawned, 12);
    return hd_nursery_leave(&nursery);
}

TEST_WORLDS(so_many_live_at_a_time, options) { rt_run(count_alive, NULL, options); }

static int count_one(void *arg)
{
    (void)arg;
    const hd_cap cap = cap_of(HD_CAP_SPAWN, LIMITS(.tasks_live = 1));
    const hd_caps caps = caps_with(HD_CAP_SPAWN, cap);
    const hd_nursery_options options = caps_options(&caps);
    hd_nursery nursery;
    nur_open(&nursery, &options);
    nur_go_poll(&nursery, nur_park_poll, NULL, 0); /* stackless ones count too */
    EXPECT_REFUSED(hd_go(&nursery, nur_nothing, NULL));
    EXPECT_MISSING_OF(cap, "spawn: 1 task is alive, which is the limit of capability %llu");
    hd_nursery_cancel(&nursery);
    EXPECT_EQ(hd_nursery_leave(&nursery), -ECANCELED);
    EXPECT_EQ(cap_run(HD_CAP_SPAWN, cap, nur_nothing, NULL), 0);
    return 0;
}

TEST_WORLDS(one_at_a_time, options) { rt_run(count_one, NULL, options); }

/* Two that share what they are derived from. */
static int count_families(void *arg)
{
    (void)arg;
    const hd_cap all = cap_of(HD_CAP_SPAWN, LIMITS(.tasks_live = 4));
    struct nur_actor actors[5];
    hd_nursery nurseries[2];
    hd_cap caps[2];
    for (int i = 0; i < 2; i++) {
        caps[i] = cap_derive(all, LIMITS(.tasks_live = 3));
        const hd_caps given = caps_with(HD_CAP_SPAWN, caps[i]);
        const hd_nursery_options options = caps_options(&given);
        nur_open(&nurseries[i], &options);
    }
    for (int i = 0; i < 3; i++) nur_go_actor(&nurseries[0], &actors[i]);
    EXPECT_REFUSED(hd_go(&nurseries[0], nur_nothing, NULL));
    EXPECT_MISSING_OF(caps[0], "spawn: 3 tasks are alive, which is the limit of capability %llu");
    nur_go_actor(&nurseries[1], &actors[3]);
    EXPECT_REFUSED(hd_go(&nurseries[1], nur_nothing, NULL));
    EXPECT_MISSING_OF(all, "spawn: 4 tasks are alive, which is the limit of capability %llu");
    nur_end(&nurseries[0], &actors[0], 0);
    nur_go_actor(&nurseries[1], &actors[4]);
    EXPECT_REFUSED(hd_go(&nurseries[0], nur_nothing, NULL));
    for (int i = 1; i < 5; i++) nur_let_end(&actors[i], 0);
    EXPECT_EQ(hd_nursery_leave(&nurseries[1]), 0);
    EXPECT_EQ(hd_nursery_leave(&nurseries[0]), 0);
    return 0;
}

TEST_WORLDS(limits_above_hold_too, options) { rt_run(count_families, NULL, options); }

/* Every task tries to spawn two, and none ends before all have tried: so exactly as many are let in
 * as may live, and all other attempts are refused. */
enum { BOMB_LIMIT = 100 };

struct bomb {
    hd_cap cap;
    atomic_int begun, refused, tried;
    atomic_int all_tried;
};

static int explode(void *arg)
{
    struct bomb *bomb = arg;
    atomic_fetch_add(&bomb->begun, 1);
    HD_NURSERY(n) {
        for (int i = 0; i < 2; i++) {
            const int err = hd_go(n, explode, bomb);
            EXPECT(err == 0 || err == -EPERM);
            if (!err) continue;
            EXPECT_MISSING_OF(bomb->cap, "spawn: 100 tasks are alive, which is the limit of "
                                         "capability %llu");
            atomic_fetch_add(&bomb->refused, 1);
        }
        if (atomic_fetch_add(&bomb->tried, 1) + 1 == BOMB_LIMIT) atomic_store(&bomb->all_tried, 1);
        rt_until(&bomb->all_tried);
    }
    return hd_nursery_result();
}

static int set_off(void *arg)
{
    struct bomb *bomb = arg;
    bomb->cap = cap_of(HD_CAP_SPAWN, LIMITS(.tasks_live = BOMB_LIMIT));
    EXPECT_EQ(cap_run(HD_CAP_SPAWN, bomb->cap, explode, bomb), 0);
    EXPECT_EQ(atomic_load(&bomb->begun), BOMB_LIMIT);
    EXPECT_EQ(atomic_load(&bomb->refused), 2 * BOMB_LIMIT - (BOMB_LIMIT - 1));
    return 0;
}

TEST_WORLDS(a_fork_bomb_stops_at_the_limit, options)
{
    struct bomb bomb = {.begun = 0};
    rt_run(set_off, &bomb, options);
}

/* ---- none at all ---- */

static int have_none(void *arg)
{
    const hd_cap *cap = arg;
    hd_nursery nursery;
    EXPECT_REFUSED(hd_nursery_open(&nursery, NULL));
    EXPECT_MISSING_OF(*cap, "spawn: capability %llu allows none");
    EXPECT_REFUSED(hd_spawn(NULL, nur_nothing, NULL));
    EXPECT_MISSING_OF(*cap, "spawn: capability %llu allows none");
    HD_NURSERY(n) EXPECT(n == NULL);
    EXPECT_EQ(hd_nursery_result(), -EPERM);
    return 0;
}

/* Who opened the nursery still can. */
static int give_none(void *arg)
{
    (void)arg;
    hd_cap none = cap_of(HD_CAP_SPAWN, LIMITS(.tasks_live = HD_NOTHING));
    const hd_cap two = cap_of(HD_CAP_SPAWN, LIMITS(.tasks_live = 2));
    EXPECT_EQ(cap_run(HD_CAP_SPAWN, none, have_none, &none), 0);
    EXPECT_EQ(cap_run(HD_CAP_SPAWN, cap_derive(two, LIMITS(.tasks_live = HD_NOTHING)), nur_nothing,
                      NULL),
              0);
    return 0;
}

TEST_WORLDS(those_who_may_spawn_none, options) { rt_run(give_none, NULL, options); }

/* ---- where ---- */

struct places {
    hd_nursery *outer, *own;
};

static int spawn_around(void *arg)
{
    const struct places *places = arg;
    EXPECT_EQ(hd_go(places->own, nur_nothing, NULL), 0); /* beside it */
    HD_NURSERY(inner) {
        EXPECT_EQ(hd_go(inner, nur_nothing, NULL), 0);
        HD_NURSERY(innermost) EXPECT_EQ(hd_go(innermost, nur_nothing, NULL), 0);
    }
    EXPECT_REFUSED(hd_go(places->outer, nur_nothing, NULL));
    EXPECT_MISSING("spawn: the nursery is not inside that of this task");
    EXPECT_REFUSED(hd_spawn(NULL, nur_nothing, NULL));
    EXPECT_MISSING("spawn: a task with capabilities or a budget spawns into nurseries only");
    return 0;
}

static int stay_inside(void *arg)
{
    (void)arg;
    const hd_caps caps = caps_with(HD_CAP_CHANNEL, cap_of(HD_CAP_CHANNEL, NULL));
    const hd_budget budget = {.spawn_count = 100};
    hd_nursery_options options[2] = {caps_options(&caps), HD_NURSERY_OPTIONS_INIT};
    options[1].budget = &budget;
    for (int i = 0; i < 2; i++) {
        hd_nursery outer, nursery;
        struct places places = {nur_open(&outer, NULL), nur_open(&nursery, &options[i])};
        nur_go(&nursery, spawn_around, &places);
        nur_until_live(&nursery, 0); /* It spawns beside itself: not closed yet. */
        EXPECT_EQ(hd_nursery_leave(&nursery), 0);
        EXPECT_EQ(hd_nursery_look(&outer).spawned, 0);
        EXPECT_EQ(hd_nursery_leave(&outer), 0);
    }
    return 0;
}

TEST_WORLDS(tasks_do_not_get_out, options) { rt_run(stay_inside, NULL, options); }

/* A nursery below may be handed up. */
struct handed {
    hd_nursery *nursery;
    atomic_int given, done;
};

static int hand_up(void *arg)
{
    struct handed *handed = arg;
    HD_NURSERY(n) {
        handed->nursery = n;
        atomic_store(&handed->given, 1);
        rt_until(&handed->done);
    }
    return hd_nursery_result();
}

static int spawn_below(void *arg)
{
    struct handed *handed = arg;
    rt_until(&handed->given);
    EXPECT_EQ(hd_go(handed->nursery, nur_nothing, NULL), 0);
    atomic_store(&handed->done, 1);
    return 0;
}

static int reach_down(void *arg)
{
    (void)arg;
    const hd_caps caps = caps_with(HD_CAP_CHANNEL, cap_of(HD_CAP_CHANNEL, NULL));
    const hd_nursery_options options = caps_options(&caps);
    struct handed handed = {.given = 0};
    hd_nursery nursery;
    nur_open(&nursery, &options);
    nur_go(&nursery, hand_up, &handed);
    nur_go(&nursery, spawn_below, &handed);
    return hd_nursery_leave(&nursery);
}

TEST_WORLDS(nurseries_further_in_are_inside, options) { rt_run(reach_down, NULL, options); }

static int be_unlimited(void *arg)
{
    (void)arg;
    HD_NURSERY(n) EXPECT_EQ(hd_go(n, nur_nothing, NULL), 0);
    EXPECT_EQ(rt_join(rt_spawn(NULL, nur_nothing, NULL)), 0);
    EXPECT_MISSING("");
    return hd_nursery_result();
}

static int know_no_limits(void *arg)
{
    HD_NURSERY(n) {
        EXPECT_EQ(hd_go(n, be_unlimited, arg), 0);
    }
    return hd_nursery_result();
}

TEST_WORLDS(programs_that_never_mention_them, options) { rt_run(know_no_limits, NULL, options); }

/* ---- revoking ---- */

static int lose_it(void *arg)
{
    (void)arg;
    const hd_cap cap = cap_of(HD_CAP_SPAWN, LIMITS(.tasks_live = 5));
    const hd_caps caps = caps_with(HD_CAP_SPAWN, cap);
    const hd_nursery_options options = caps_options(&caps);
    struct nur_actor actor;
    hd_nursery nursery;
    nur_open(&nursery, &options);
    nur_go_actor(&nursery, &actor);
    cap_revoke(cap);
    EXPECT_REFUSED(hd_go(&nursery, nur_nothing, NULL));
    EXPECT_MISSING_OF(cap, "spawn: capability %llu is revoked");
    const hd_cap other = cap_of(HD_CAP_SPAWN, NULL); /* does not get the slot that is in use */
    EXPECT((other.id & 0x1ffff) != (cap.id & 0x1ffff));
    nur_let_end(&actor, 0);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    return 0;
}

TEST_WORLDS(what_was_spawned_goes_on_without_it, options) { rt_run(lose_it, NULL, options); }

static int wait_for_loss(void *arg)
{
    atomic_int *steps = arg; /* 1: it runs; 2: it has lost it */
    EXPECT(!cap_is_none(cap_self(HD_CAP_SPAWN)));
    atomic_store(steps, 1);
    while (atomic_load(steps) < 2) hd_yield();
    hd_nursery nursery;
    EXPECT_REFUSED(hd_nursery_open(&nursery, NULL));
    EXPECT(strstr(hd_missing(), "is revoked") != NULL);
    EXPECT(cap_is_none(cap_self(HD_CAP_SPAWN)));
    return 0;
}

static int take_away(void *arg)
{
    (void)arg;
    atomic_int steps = 0;
    const hd_cap cap = cap_of(HD_CAP_SPAWN, NULL);
    const hd_caps caps = caps_with(HD_CAP_SPAWN, cap_derive(cap, NULL));
    const hd_nursery_options options = caps_options(&caps);
    hd_nursery nursery;
    nur_open(&nursery, &options);
    nur_go(&nursery, wait_for_loss, &steps);
    rt_until(&steps);
    cap_revoke(cap);
    atomic_store(&steps, 2);
    return hd_nursery_leave(&nursery);
}

TEST_WORLDS(a_task_that_lost_it, options) { rt_run(take_away, NULL, options); }

/* ---- refusals leave nothing behind ---- */

static int spawn_in_vain(void *arg)
{
    (void)arg;
    const hd_cap cap = cap_of(HD_CAP_SPAWN, LIMITS(.tasks_live = 2));
    const hd_caps caps = caps_with(HD_CAP_SPAWN, cap);
    const hd_nursery_options options = caps_options(&caps);
    struct nur_actor actor;
    for (int round = 0; round < 5; round++) {
        hd_nursery nursery;
        nur_open(&nursery, &options);
        nur_go_actor(&nursery, &actor);
        hd_nursery_close(&nursery);
        EXPECT_EQ(hd_go(&nursery, nur_nothing, NULL), -EPIPE);
        hd_nursery_cancel(&nursery);
        EXPECT_EQ(hd_go(&nursery, nur_nothing, NULL), -ECANCELED);
        nur_let_end(&actor, 0);
        EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    }
    return 0;
}

TEST_WORLDS(a_closed_nursery_counts_nobody, options) { rt_run(spawn_in_vain, NULL, options); }

/* ---- plain threads ---- */

TEST_WORLDS(threads_are_held_to_it, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_cap cap = {0, 0};
    EXPECT_EQ(hd_cap_derive(runtime, hd_cap_self(runtime, HD_CAP_SPAWN),
                            LIMITS(.tasks_live = 2), &cap),
              0);
    const hd_caps caps = caps_with(HD_CAP_SPAWN, cap);
    hd_nursery_options with = caps_options(&caps);
    with.runtime = runtime;
    hd_nursery nursery;
    nur_open(&nursery, &with);
    nur_go(&nursery, nur_park, NULL);
    nur_go(&nursery, nur_park, NULL);
    EXPECT_REFUSED(hd_go(&nursery, nur_nothing, NULL));
    EXPECT_MISSING_OF(cap, "spawn: 2 tasks are alive, which is the limit of capability %llu");
    hd_nursery_cancel(&nursery);
    EXPECT_EQ(hd_nursery_leave(&nursery), -ECANCELED);
    hd_runtime_destroy(runtime);
}

/* ---- what each may use ---- */

static int use_ops(void *arg)
{
    const int *most = arg;
    EXPECT_EQ(hd_checkpoint((unsigned)*most / 2), 0);
    EXPECT_EQ(hd_budget_left().ops <= *most, 1);
    EXPECT_EQ(hd_checkpoint((unsigned)*most), -EDQUOT);
    return 0;
}

static int use_ops_below(void *arg)
{
    HD_NURSERY(n) EXPECT_EQ(hd_go(n, use_ops, arg), 0);
    return hd_nursery_result();
}

static int limit_each(void *arg)
{
    (void)arg;
    int most = 1000, less = 100;
    const hd_cap cap = cap_of(HD_CAP_SPAWN, LIMITS(.per_task = {.ops = 1000}));
    EXPECT_EQ(cap_run(HD_CAP_SPAWN, cap, use_ops, &most), 0);
    EXPECT_EQ(cap_run(HD_CAP_SPAWN, cap, use_ops_below, &most), 0);
    const hd_cap narrower = cap_derive(cap, LIMITS(.per_task = {.ops = 100}));
    EXPECT_EQ(cap_run(HD_CAP_SPAWN, narrower, use_ops_below, &less), 0);
    return 0;
}

TEST_WORLDS(each_has_its_own_limit, options) { rt_run(limit_each, NULL, options); }

/* ---- errands ---- */

static int run_errand(void *arg)
{
    hd_nursery *nursery = arg;
    hd_chan *chan = NULL;
    hd_cap cap = {0, 0};
    EXPECT_REFUSED(hd_spawn(NULL, nur_nothing, NULL));
    EXPECT_MISSING("spawn: not in a blocking call of a task with capabilities or a budget");
    EXPECT_REFUSED(hd_go(nursery, nur_nothing, NULL));
    const hd_caps caps = HD_CAPS_INIT;
    const hd_nursery_options options = caps_options(&caps);
    hd_nursery own;
    EXPECT_REFUSED(hd_nursery_open(&own, &options));
    EXPECT_REFUSED(hd_chan_create_with(&chan, 8, NULL));
    EXPECT(hd_dispatcher_io(NULL) == NULL);
    EXPECT(cap_is_none(cap_self(HD_CAP_SPAWN)));
    hd_dispatcher *dispatcher = NULL;
    EXPECT_REFUSED(hd_dispatcher_single(&dispatcher, NULL));
    EXPECT_REFUSED(hd_cap_derive(hd_runtime_self(), cap, NULL, &cap));
    return 17;
}

static int block(void *arg)
{
    int result = 0;
    EXPECT_EQ(hd_blocking(run_errand, arg, &result), 0);
    EXPECT_EQ(result, 17);
    return 0;
}

static int send_on_errands(void *arg)
{
    (void)arg;
    const hd_caps caps = HD_CAPS_INIT;
    const hd_nursery_options options = caps_options(&caps);
    hd_nursery nursery;
    nur_open(&nursery, &options);
    nur_go(&nursery, block, &nursery);
    return hd_nursery_leave(&nursery);
}

TEST_WORLDS(a_blocking_call_is_no_way_out, options) { rt_run(send_on_errands, NULL, options); }
