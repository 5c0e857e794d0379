/* SPDX-License-Identifier: MIT
 *
 * Nurseries and scopes where time is exact and the seed decides: deadlines and graces to the
 * nanosecond, the same run twice, and random trees against what the header says of results.
 */
#include "nurseries.h"

#include "death.h"

TEST_MAIN

#define MS HD_MS_NS

static hd_options sim(uint64_t seed)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.seed = seed;
    options.sim_order = seed % 2 ? HD_SIM_RANDOM : HD_SIM_WORKERS;
    return options;
}

static void each_seed(hd_fn *fn, unsigned seeds)
{
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        const hd_options options = sim(seed);
        rt_run(fn, NULL, &options);
    }
}

/* Runs of others take a little virtual time, as in tests/sim/virtual_time_test.c. */
#define EXPECT_AT(at_)                                                                   \
    do {                                                                                 \
        const int64_t late_ = hd_now(NULL) - (at_);                                      \
        if (late_ < 0 || late_ > 20000) {                                                \
            test_fail(__FILE__, __LINE__, "%lld ns late for " #at_, (long long)late_);   \
        }                                                                                \
    } while (0)

/* ---- exact ---- */

static int deadlines(void *arg)
{
    (void)arg;
    EXPECT_EQ(hd_sleep_ms(1), 0);
    for (int64_t ms = 1; ms < 100000000; ms *= 17) {
        const int64_t at = hd_now(NULL) + ms * MS;
        HD_SCOPE(s, .deadline = at) {
            EXPECT_EQ(hd_sleep_until(HD_FOREVER), -ETIMEDOUT);
            EXPECT_AT(at);
        }
        const int64_t next = hd_now(NULL) + ms * MS;
        HD_NURSERY(n, .deadline = next) {
            nur_go(n, nur_park, NULL);
            EXPECT_EQ(hd_sleep_until(next - 1000), 0); /* just before */
            EXPECT_STATE(n, HD_NURSERY_OPEN);
            EXPECT_EQ(hd_sleep_until(HD_FOREVER), -ETIMEDOUT);
            EXPECT_AT(next);
        }
        EXPECT_EQ(hd_nursery_result(), -ETIMEDOUT);
    }
    return 0;
}

TEST(deadlines_are_exact) { each_seed(deadlines, 20); }

static int nested(void *arg)
{
    (void)arg;
    const int64_t start = hd_now(NULL);
    for (int inner = 0; inner < 2; inner++) {
        const int64_t near = hd_now(NULL) + 3 * MS, far = near + 50 * MS;
        HD_SCOPE(a, .deadline = inner ? far : near) {
            HD_NURSERY(n, .deadline = inner ? near : far) {
                nur_go(n, nur_park, NULL);
                HD_SCOPE(c, .deadline = far + MS) {
                    EXPECT_EQ(hd_sleep_until(HD_FOREVER), -ETIMEDOUT);
                    EXPECT_AT(near);
                    EXPECT_CAUSE(hd_scope_cause(c), HD_REASON_PARENT, HD_REASON_TIMEOUT);
                }
            }
            EXPECT_EQ(hd_nursery_result(), -ETIMEDOUT);
            EXPECT_AT(near);
        }
    }
    EXPECT(hd_now(NULL) - start < 10 * MS); /* No far one was waited for. */
    return 0;
}

TEST(the_earliest_of_nested_deadlines_exactly) { each_seed(nested, 20); }

static int graces(void *arg)
{
    (void)arg;
    for (int64_t ms = 1; ms < 1000000; ms *= 13) {
        const int64_t grace = hd_now(NULL) + ms * MS;
        HD_SCOPE(outer) {
            hd_scope_cancel(outer);
            HD_SCOPE(soft, .shield = HD_SHIELD_SOFT, .grace = grace) {
                EXPECT_EQ(hd_sleep_until(grace - 1000), 0);
                EXPECT(!hd_cancelled());
                EXPECT_EQ(hd_sleep_until(HD_FOREVER), -ECANCELED);
                EXPECT_AT(grace);
            }
        }
        const int64_t again = hd_now(NULL) + ms * MS;
        HD_SCOPE(outer) {
            hd_scope_cancel(outer);
            HD_SCOPE(soft, .shield = HD_SHIELD_SOFT, .grace = again) {
                HD_NURSERY(n) nur_go(n, nur_park, NULL); /* its children have the grace too */
                EXPECT_EQ(hd_nursery_result(), -ECANCELED);
                EXPECT_AT(again);
            }
        }
    }
    return 0;
}

TEST(a_soft_shield_goes_exactly_at_its_grace) { each_seed(graces, 20); }

static int cancel_is_prompt(void *arg)
{
    (void)arg;
    const int64_t start = hd_now(NULL);
    HD_NURSERY(n) {
        for (int i = 0; i < 20; i++) nur_go(n, nur_park, NULL);
        EXPECT_EQ(hd_sleep_ms(7), 0);
        hd_nursery_cancel(n);
    }
    const int64_t late = hd_now(NULL) - start - 7 * MS;
    EXPECT(late >= 0 && late < MS); /* Runs cost a little; nothing is waited for. */
    return 0;
}

TEST(a_cancel_takes_no_time) { each_seed(cancel_is_prompt, 20); }

/* ---- overdue ---- */

static int stubborn(void *arg)
{
    (void)arg;
    EXPECT_EQ(hd_shield(), 0);
    EXPECT_EQ(hd_sleep_ms(1000), 0);
    EXPECT_EQ(hd_unshield(), 0);
    return 0;
}

static int64_t overdue_ns;

static int overdue_owner(void *arg)
{
    (void)arg;
    hd_nursery n;
    const hd_nursery_options options = {.size = sizeof(options), .overdue_ns = overdue_ns};
    nur_open(&n, &options);
    hd_detach(nur_spawn(&n, stubborn, NULL, "stubborn", 0));
    while (hd_nursery_look(&n).spawned == 0) hd_yield();
    EXPECT_EQ(hd_sleep_ms(1), 0); /* It is behind its shield. */
    hd_nursery_cancel(&n);
    return hd_nursery_leave(&n);
}

static void run_overdue(void *arg)
{
    rt_run(overdue_owner, NULL, arg);
}

/* It has about 999 ms left when it is cancelled. */
TEST(overdue_is_reported_after_the_limit_and_not_before)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        hd_options options = sim(seed);
        overdue_ns = 990 * MS;
        struct death death = death_of(run_overdue, &options);
        EXPECT_EQ(death.status, 0);
        EXPECT(strstr(death.text, "stubborn"));
        overdue_ns = 1001 * MS;
        death = death_of(run_overdue, &options);
        EXPECT_EQ(death.status, 0);
        EXPECT(!strstr(death.text, "stubborn"));
    }
}

/* ---- the same run twice ---- */

static int shuffle(void *arg)
{
    (void)arg;
    HD_NURSERY(n, .deadline = hd_now(NULL) + 40 * MS, .on_error = HD_ON_ERROR_COLLECT) {
        for (int i = 0; i < 10; i++) {
            nur_go(n, i % 3 ? nur_park : nur_nothing, NULL);
            if (i % 4 == 0) nur_daemon(n, nur_park, NULL);
            hd_yield();
        }
        HD_SCOPE(s, .deadline = hd_now(NULL) + MS) (void)hd_sleep_until(HD_FOREVER);
    }
    return 0;
}

static uint64_t digest_of(uint64_t seed)
{
    const hd_options options = sim(seed);
    hd_runtime *runtime = rt_create(&options);
    EXPECT_EQ(rt_join(rt_spawn(runtime, shuffle, NULL)), 0);
    const uint64_t digest = hd_runtime_digest(runtime);
    hd_runtime_destroy(runtime);
    return digest;
}

TEST(one_seed_is_one_run)
{
    unsigned different = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const uint64_t digest = digest_of(seed);
        EXPECT(digest == digest_of(seed));
        different += digest != digest_of(seed + 20);
    }
    EXPECT(different > 10);
}

/* ---- random trees ---- */

/* Each nursery notes what its children returned, in the order in which they did: in sim
 * nothing comes between the note and the end. */
struct noted {
    hd_nursery nursery;
    struct noted *outer;
    unsigned ended, heeded, failed, succeeded;
    int first_error, first_heeded;
    bool collect, ignore;
};

struct fuzz {
    uint64_t state;
    unsigned tasks;
} fuzz;

static unsigned draw(unsigned below)
{
    fuzz.state = fuzz.state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)(fuzz.state >> 33) % below;
}

static int note(struct noted *noted, int result)
{
    noted->ended++;
    if (result >= 0) {
        noted->succeeded++;
    } else if (result == -ECANCELED || result == -ETIMEDOUT) {
        noted->heeded++;
        if (noted->first_heeded == 0) noted->first_heeded = result;
    } else {
        noted->failed++;
        if (noted->first_error == 0) noted->first_error = result;
    }
    return result;
}

static int branch(void *arg);

static void check(struct noted *own)
{
    const hd_nursery_info info = hd_nursery_look(&own->nursery);
    EXPECT_EQ(info.live, 0);
    EXPECT_EQ(info.spawned, own->ended);
    EXPECT_EQ(info.succeeded, own->succeeded);
    EXPECT_EQ(info.failed, own->failed);
    EXPECT_EQ(info.cancelled, own->heeded);
    const bool cancelled = info.cause.reason != HD_REASON_NONE;
    EXPECT_EQ(info.state, cancelled ? HD_NURSERY_CANCELLED : HD_NURSERY_CLOSED);
    EXPECT(info.cause.root != HD_REASON_PARENT);
    if (own->failed && !own->collect && !own->ignore) EXPECT(cancelled);
    if (own->heeded) EXPECT(cancelled);
    hd_child_error error;
    if (own->failed) {
        EXPECT_EQ(hd_nursery_error(&own->nursery, 0, &error), 0);
        EXPECT_EQ(error.error, own->first_error);
    } else {
        EXPECT_EQ(hd_nursery_error(&own->nursery, 0, &error), -ENOENT);
    }
}

/* A timeout may be followed by a cancel from further out: then either was returned. */
static void expect_result(const struct noted *own, int result)
{
    if (own->failed && !own->ignore) {
        EXPECT_EQ(result, own->first_error);
    } else if (own->heeded) {
        EXPECT(result == -ECANCELED || result == -ETIMEDOUT);
    } else {
        EXPECT_EQ(result, 0);
    }
}

static int with_nursery(struct noted *outer, unsigned depth)
{
    struct noted *own = calloc(1, sizeof(*own));
    own->outer = outer;
    own->collect = draw(3) == 0;
    own->ignore = !own->collect && draw(4) == 0;
    hd_nursery_options options = {.size = sizeof(options)};
    options.on_error = own->collect  ? HD_ON_ERROR_COLLECT
                       : own->ignore ? HD_ON_ERROR_IGNORE
                                     : HD_ON_ERROR_CANCEL;
    if (draw(3) == 0) options.deadline = hd_now(NULL) + 1 + draw(5000000);
    nur_open(&own->nursery, &options);
    for (unsigned i = draw(5) + depth; i > 0 && fuzz.tasks < 200; i--) {
        const hd_nursery_info before = hd_nursery_look(&own->nursery);
        const int err = hd_go(&own->nursery, branch, own);
        const int why = before.cause.root == HD_REASON_TIMEOUT ? -ETIMEDOUT : -ECANCELED;
        EXPECT_EQ(err, before.state == HD_NURSERY_OPEN ? 0 : why);
        if (err == 0) fuzz.tasks++;
        if (draw(3) == 0) hd_yield();
    }
    if (draw(6) == 0) hd_nursery_cancel(&own->nursery);
    if (draw(6) == 0 && own->outer) hd_nursery_cancel(&own->outer->nursery);
    const int result = hd_nursery_wait(&own->nursery);
    check(own);
    expect_result(own, result);
    EXPECT_EQ(hd_nursery_leave(&own->nursery), result);
    free(own);
    return result;
}

static int act(struct noted *outer)
{
    switch (draw(8)) {
    case 0: return -EIO;
    case 1: return -ENXIO;
    case 2: return nur_park(NULL);
    case 3: return (int)draw(100);
    case 4: return hd_sleep_until(hd_now(NULL) + draw(3000000));
    case 5: {
        int err = 0;
        HD_SCOPE(s, .shield = HD_SHIELD_HARD) err = hd_sleep_until(hd_now(NULL) + draw(1000000));
        return err;
    }
    default: return with_nursery(outer, 0);
    }
}

/* One that parks must not do so for ever. */
static int branch(void *arg)
{
    struct noted *outer = arg;
    int result = 0;
    HD_SCOPE(s, .deadline = hd_now(NULL) + 20 * MS) {
        result = act(outer);
        if (result == -ETIMEDOUT && hd_scope_cause(s).reason == HD_REASON_TIMEOUT) result = 0;
    }
    if (result == -ECANCELED && !hd_cancelled()) result = 0; /* of something inside */
    if (result == -ETIMEDOUT && hd_self_cause().root != HD_REASON_TIMEOUT) result = 0;
    return note(outer, result);
}

static int fuzz_root(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++) {
        fuzz.tasks = 0;
        (void)with_nursery(NULL, 3);
    }
    return 0;
}

/* Each seed of the harness stands for several here. */
TEST_WORLDS(random_trees_end_as_the_header_says, options)
{
    if (!rt_is_sim(options)) return;
    for (uint64_t i = 0; i < 20; i++) {
        const hd_options own = sim(options->seed * 1000 + i);
        fuzz.state = own.seed;
        rt_run(fuzz_root, NULL, &own);
    }
}
