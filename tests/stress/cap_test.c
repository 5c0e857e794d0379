/* SPDX-License-Identifier: MIT
 *
 * Forged, stale and revoked handles, by the hundred million; and everything that can be done with
 * capabilities, on all workers at once.
 */
#include "stress.h"

#include "caps.h"

TEST_MAIN

/* ---- handles that are none ---- */

enum { FORGED = 100000000, FORGERS = 4, GENUINE = 1024 };

struct forgery {
    hd_runtime *runtime;
    hd_cap genuine[GENUINE]; /* half of them revoked, and their slots used again */
    atomic_uint forgers;
};

static uint64_t next_word(struct stress_random *random)
{
    (void)stress_below(random, 1);
    return random->state;
}

/* The ways to make one up: out of thin air, with the id of a true one, with the tag of another, or
 * by changing a bit. */
static hd_cap forge(const struct forgery *f, struct stress_random *random)
{
    const uint64_t word = next_word(random);
    const hd_cap a = f->genuine[word % GENUINE];
    const hd_cap b = f->genuine[word / GENUINE % GENUINE];
    switch (word >> 62) {
    case 0: return (hd_cap){next_word(random), word};
    case 1: return (hd_cap){a.id, next_word(random)};
    case 2: return (hd_cap){a.id, a.id == b.id ? ~a.tag : b.tag};
    default: return (hd_cap){a.id, a.tag ^ UINT64_C(1) << (word >> 32) % 64};
    }
}

static void *forge_many(void *arg)
{
    struct forgery *f = arg;
    struct stress_random random = stress_random_init(atomic_fetch_add(&f->forgers, 1));
    for (unsigned i = stress_count(FORGED) / FORGERS; i > 0; i--) {
        EXPECT(!hd_cap_valid(f->runtime, forge(f, &random)));
    }
    return NULL;
}

static hd_cap derive_in(hd_runtime *runtime, hd_cap from)
{
    hd_cap cap = {0, 0};
    EXPECT_EQ(hd_cap_derive(runtime, from, NULL, &cap), 0);
    return cap;
}

static struct forgery *have_genuine(hd_runtime *runtime)
{
    struct forgery *f = calloc(1, sizeof(*f));
    f->runtime = runtime;
    const hd_cap own = hd_cap_self(runtime, HD_CAP_SPAWN);
    for (unsigned i = 0; i < GENUINE; i++) f->genuine[i] = derive_in(runtime, own);
    for (unsigned i = 1; i < GENUINE; i += 2) {
        EXPECT_EQ(hd_cap_revoke(runtime, f->genuine[i]), 0);
        (void)derive_in(runtime, own);
    }
    return f;
}

static hd_runtime *two_workers(void)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 2;
    return stress_runtime(&options);
}

TEST(forged_handles_are_refused)
{
    hd_runtime *runtime = two_workers();
    struct forgery *f = have_genuine(runtime);
    struct stress_threads threads = {.count = 0};
    for (int i = 0; i < FORGERS; i++) stress_start(&threads, forge_many, f);
    stress_join(&threads);
    for (unsigned i = 0; i < GENUINE; i++) {
        EXPECT_EQ(hd_cap_valid(runtime, f->genuine[i]), i % 2 == 0);
    }
    free(f);
    hd_runtime_destroy(runtime);
}

/* The calls that would do something. */
TEST(forged_handles_do_nothing)
{
    hd_runtime *runtime = two_workers();
    struct forgery *f = have_genuine(runtime);
    struct stress_random random = stress_random_init(99);
    for (unsigned i = stress_count(300000); i > 0; i--) {
        hd_cap cap = forge(f, &random), made = {0, 0};
        EXPECT_EQ(hd_cap_derive(runtime, cap, NULL, &made), -EPERM);
        EXPECT_EQ(hd_cap_revoke(runtime, cap), -EPERM);
        const hd_caps caps = caps_with(HD_CAP_SPAWN, cap);
        hd_nursery_options options = caps_options(&caps);
        options.runtime = runtime;
        hd_nursery nursery;
        EXPECT_EQ(hd_nursery_open(&nursery, &options), -EPERM);
        EXPECT(cap_is_none(made));
    }
    free(f);
    hd_runtime_destroy(runtime);
}

/* Every handle there ever was, of slots that were used over and over. */
TEST(stale_handles_are_refused)
{
    enum { ROUNDS = 200, AT_A_TIME = 1000 };
    hd_runtime *runtime = two_workers();
    const unsigned rounds = stress_count(ROUNDS);
    hd_cap *old = calloc((size_t)rounds * AT_A_TIME, sizeof(*old));
    const hd_cap own = hd_cap_self(runtime, HD_CAP_CHANNEL);
    for (unsigned i = 0; i < rounds; i++) {
        const hd_cap family = derive_in(runtime, own);
        hd_cap from = family;
        for (unsigned j = 0; j < AT_A_TIME; j++) {
            from = old[i * AT_A_TIME + j] = derive_in(runtime, j % 3 ? from : family);
        }
        EXPECT_EQ(hd_cap_revoke(runtime, family), 0);
    }
    for (unsigned j = 0; j < AT_A_TIME; j++) (void)derive_in(runtime, own);
    for (unsigned i = 0; i < rounds * AT_A_TIME; i++) EXPECT(!hd_cap_valid(runtime, old[i]));
    free(old);
    hd_runtime_destroy(runtime);
}

/* ---- all at once ---- */

enum { LIMIT = 8, FAMILIES = 4, SCHEMERS = 16, SCHEMES = 2000 };

struct intrigue {
    hd_cap spawn, channel; /* with LIMIT each, never revoked */
    /* Derived from spawn, and revoked all the time. */
    _Atomic(uint64_t) family_id[FAMILIES], family_tag[FAMILIES];
    atomic_int alive, chans, refused;
};

static int live_a_moment(void *arg)
{
    struct intrigue *in = arg;
    EXPECT(atomic_fetch_add(&in->alive, 1) < LIMIT);
    hd_yield();
    atomic_fetch_sub(&in->alive, 1);
    return 0;
}

static int have_a_channel(void *arg)
{
    struct intrigue *in = arg;
    hd_chan *chan = hd_chan_create(8, 1);
    if (!chan) {
        atomic_fetch_add(&in->refused, 1);
        return 0;
    }
    EXPECT(atomic_fetch_add(&in->chans, 1) < LIMIT);
    hd_yield();
    atomic_fetch_sub(&in->chans, 1);
    hd_chan_destroy(chan);
    return 0;
}

/* May be half of one and half of another: then it is none. */
static hd_cap any_family(struct intrigue *in, struct stress_random *random, unsigned *which)
{
    *which = stress_below(random, FAMILIES);
    return (hd_cap){atomic_load(&in->family_id[*which]), atomic_load(&in->family_tag[*which])};
}

static void put_family(struct intrigue *in, unsigned which, hd_cap cap)
{
    atomic_store(&in->family_id[which], cap.id);
    atomic_store(&in->family_tag[which], cap.tag);
}

static void spawn_some(struct intrigue *in, hd_cap cap)
{
    const hd_caps caps = caps_with(HD_CAP_SPAWN, cap);
    const hd_nursery_options options = caps_options(&caps);
    hd_nursery nursery;
    int err = hd_nursery_open(&nursery, &options);
    EXPECT(err == 0 || err == -EPERM);
    if (err) return;
    for (int i = 0; i < 3; i++) {
        err = hd_go(&nursery, live_a_moment, in);
        EXPECT(err == 0 || err == -EPERM);
        if (err) atomic_fetch_add(&in->refused, 1);
    }
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
}

static int scheme(void *arg)
{
    struct intrigue *in = arg;
    struct stress_random random = stress_random_init(hd_self_id());
    hd_runtime *runtime = hd_runtime_self();
    for (unsigned i = stress_count(SCHEMES); i > 0; i--) {
        unsigned which;
        const hd_cap cap = any_family(in, &random, &which);
        hd_cap made;
        int err = 0;
        switch (stress_below(&random, 6)) {
        case 0: put_family(in, which, cap_derive(in->spawn, LIMITS(.tasks_live = 5))); break;
        case 1: err = hd_cap_revoke(runtime, cap); break;
        case 2:
            err = hd_cap_derive(runtime, cap, NULL, &made);
            if (!err && stress_below(&random, 2)) put_family(in, which, made);
            break;
        case 3: EXPECT_EQ(cap_run(HD_CAP_CHANNEL, in->channel, have_a_channel, in), 0); break;
        default: spawn_some(in, cap); break;
        }
        EXPECT(err == 0 || err == -EPERM);
        if (i % 64 == 0) hd_yield();
    }
    return 0;
}

/* Nothing is counted any more: there is room for as many as at first. */
static void expect_room(struct intrigue *in)
{
    struct nur_actor actors[LIMIT];
    const hd_caps caps = caps_with(HD_CAP_SPAWN, in->spawn);
    const hd_nursery_options options = caps_options(&caps);
    hd_nursery nursery;
    nur_open(&nursery, &options);
    for (int i = 0; i < LIMIT; i++) nur_go_actor(&nursery, &actors[i]);
    EXPECT_EQ(hd_go(&nursery, nur_nothing, NULL), -EPERM);
    for (int i = 0; i < LIMIT; i++) nur_let_end(&actors[i], 0);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
}

static int plot(void *arg)
{
    struct intrigue *in = arg;
    in->spawn = cap_of(HD_CAP_SPAWN, LIMITS(.tasks_live = LIMIT));
    in->channel = cap_of(HD_CAP_CHANNEL, LIMITS(.channels = LIMIT));
    for (unsigned i = 0; i < FAMILIES; i++) put_family(in, i, cap_derive(in->spawn, NULL));
    hd_task *tasks[SCHEMERS];
    for (int i = 0; i < SCHEMERS; i++) tasks[i] = rt_spawn(NULL, scheme, in);
    for (int i = 0; i < SCHEMERS; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    expect_room(in);
    return 0;
}

TEST(limits_hold_whatever_happens_at_the_same_time)
{
    static const unsigned workers[] = {1, 2, 4, 16};
    for (unsigned i = 0; i < sizeof(workers) / sizeof(workers[0]); i++) {
        hd_options options = HD_OPTIONS_INIT;
        options.world = HD_WORLD_LIVE;
        options.workers = workers[i];
        struct intrigue *in = calloc(1, sizeof(*in));
        EXPECT_EQ(hd_run(plot, in, &options), 0);
        /* With one worker they always get into each other's way. */
        EXPECT(workers[i] > 1 || atomic_load(&in->refused) > 0);
        free(in);
    }
}
