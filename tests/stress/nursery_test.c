/* SPDX-License-Identifier: MIT
 *
 * Nurseries under load: spawns that race with close, cancel and failure; trees that grow
 * while they are cancelled; deadlines that meet the end of their scope; many at once; and a
 * shutdown in the middle. tests/stress/tree_test.c measures.
 */
#include "nurseries.h"

#include "stress/stress.h"

TEST_MAIN

enum { SPAWNERS = 3 };

static void each_workers(void (*fn)(hd_runtime *runtime))
{
    static const unsigned counts[] = {1, 2, 4};
    for (int i = 0; i < 3; i++) {
        hd_options options = HD_OPTIONS_INIT;
        options.world = HD_WORLD_LIVE;
        options.workers = counts[i];
        hd_runtime *runtime = stress_runtime(&options);
        fn(runtime);
        hd_runtime_destroy(runtime);
    }
}

/* ---- spawn against close, cancel and failure ---- */

enum ending { BY_CLOSE, BY_CANCEL, BY_FAILURE };

struct race {
    hd_nursery nursery;
    enum ending ending;
    atomic_uint accepted, ran, spawning;
};

static int child(void *arg)
{
    struct race *race = arg;
    atomic_fetch_add(&race->ran, 1);
    return 0;
}

static hd_poll child_poll(void *state, int *result)
{
    *result = child(*(struct race **)state);
    return HD_READY;
}

/* Returns what it was told. */
static int spawn_one(struct race *race, unsigned kind)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.nursery = &race->nursery;
    if (kind == 0) return hd_go(&race->nursery, child, race);
    if (kind == 1) return hd_spawn_with(NULL, child, race, &options);
    return hd_spawn_poll_with(NULL, child_poll, &race, sizeof(race), &options);
}

/* Until it is refused, and a few times more: once refused, always refused. */
static void spawn_until_refused(struct race *race)
{
    const int code = race->ending == BY_CLOSE ? -EPIPE : -ECANCELED;
    unsigned accepted = 0, refused = 0;
    atomic_fetch_add(&race->spawning, 1);
    for (unsigned i = 0; refused < 5; i++) {
        const int err = spawn_one(race, i % 3);
        if (err == 0) {
            EXPECT_EQ(refused, 0);
            accepted++;
        } else {
            EXPECT_EQ(err, code);
            refused++;
        }
        if (i % 64 == 63) hd_yield(), sched_yield();
    }
    atomic_fetch_add(&race->accepted, accepted);
}

static void *spawning_thread(void *arg)
{
    spawn_until_refused(arg);
    return NULL;
}

/* A child that spawns siblings. */
static int spawning_child(void *arg)
{
    struct race *race = arg;
    spawn_until_refused(race);
    atomic_fetch_add(&race->ran, 1);
    return 0;
}

static int failing_child(void *arg)
{
    struct race *race = arg;
    while (atomic_load(&race->spawning) < SPAWNERS) hd_yield();
    atomic_fetch_add(&race->ran, 1);
    return -EIO;
}

static void race_once(hd_runtime *runtime, enum ending ending, unsigned round)
{
    static struct race race;
    memset(&race, 0, sizeof(race));
    race.ending = ending;
    hd_nursery_options options = {.size = sizeof(options), .runtime = runtime};
    nur_open(&race.nursery, &options);
    struct stress_threads threads = {.count = 0};
    unsigned others = 1;
    nur_go(&race.nursery, spawning_child, &race);
    if (ending == BY_FAILURE) nur_go(&race.nursery, failing_child, &race), others++;
    for (int i = 0; i < SPAWNERS - 1; i++) stress_start(&threads, spawning_thread, &race);
    stress_await(&race.spawning, round % 4); /* sometimes before they have begun */
    if (ending == BY_CLOSE && round % 2) hd_nursery_close(&race.nursery);
    if (ending == BY_CANCEL) hd_nursery_cancel(&race.nursery);
    if (ending == BY_CLOSE) EXPECT_EQ(hd_nursery_wait(&race.nursery), 0); /* closes, too */
    stress_join(&threads);
    const int result = hd_nursery_wait(&race.nursery);
    EXPECT_EQ(result, ending == BY_FAILURE ? -EIO : 0);
    const hd_nursery_info info = hd_nursery_look(&race.nursery);
    EXPECT_EQ(info.live, 0);
    EXPECT_EQ(info.state, ending == BY_CLOSE ? HD_NURSERY_CLOSED : HD_NURSERY_CANCELLED);
    EXPECT_EQ(info.spawned, atomic_load(&race.accepted) + others);
    EXPECT_EQ(atomic_load(&race.ran), info.spawned);
    EXPECT_EQ(info.succeeded + info.failed + info.cancelled, info.spawned);
    EXPECT_EQ(hd_nursery_leave(&race.nursery), result);
}

static void race_close(hd_runtime *runtime)
{
    for (unsigned i = 0; i < stress_count(400); i++) race_once(runtime, BY_CLOSE, i);
}

static void race_cancel(hd_runtime *runtime)
{
    for (unsigned i = 0; i < stress_count(400); i++) race_once(runtime, BY_CANCEL, i);
}

static void race_failure(hd_runtime *runtime)
{
    for (unsigned i = 0; i < stress_count(400); i++) race_once(runtime, BY_FAILURE, i);
}

TEST(a_spawn_that_races_with_a_close_is_in_or_refused) { each_workers(race_close); }
TEST(a_spawn_that_races_with_a_cancel_is_in_or_refused) { each_workers(race_cancel); }
TEST(a_spawn_that_races_with_a_failure_is_in_or_refused) { each_workers(race_failure); }

/* ---- trees that grow while they are cancelled ---- */

struct wood {
    atomic_uint begun, ended, refused;
    atomic_int alive;
};

struct branch {
    struct wood *wood;
    unsigned depth;
};

static int grow(void *arg)
{
    const struct branch *self = arg;
    struct wood *wood = self->wood;
    struct branch next = {wood, self->depth + 1};
    atomic_fetch_add(&wood->begun, 1);
    atomic_fetch_add(&wood->alive, 1);
    while (!hd_cancelled() && atomic_load(&wood->alive) < 300 && self->depth < 12) {
        HD_NURSERY(n) {
            for (int i = 0; i < 3; i++) {
                const int err = hd_go(n, grow, &next);
                if (err) {
                    EXPECT_EQ(err, -ECANCELED);
                    atomic_fetch_add(&wood->refused, 1);
                }
            }
            hd_yield();
        }
        const int result = hd_nursery_result();
        EXPECT(result == 0 || result == -ECANCELED);
    }
    const int err = self->depth % 2 ? hd_sleep_until(HD_FOREVER) : nur_park(NULL);
    EXPECT_EQ(err, -ECANCELED); /* Everybody waits for the cancel in the end. */
    atomic_fetch_sub(&wood->alive, 1);
    atomic_fetch_add(&wood->ended, 1);
    return err;
}

static void fell(hd_runtime *runtime, unsigned after)
{
    struct wood wood = {0};
    struct branch root = {&wood, 0};
    const hd_spawn_options into = stress_into(runtime);
    hd_task *task;
    EXPECT_EQ(hd_spawn_with(&task, grow, &root, &into), 0);
    stress_await(&wood.begun, after);
    hd_cancel(task);
    int result = 0;
    EXPECT_EQ(hd_join(task, &result), 0);
    EXPECT_EQ(result, -ECANCELED);
    EXPECT_EQ(atomic_load(&wood.begun), atomic_load(&wood.ended)); /* no orphan */
}

static void fell_some(hd_runtime *runtime)
{
    for (unsigned i = 0; i < stress_count(320); i++) fell(runtime, i % 100);
}

TEST(trees_cancelled_while_they_grow) { each_workers(fell_some); }

/* ---- failures at the same time ---- */

static int fail_together(void *arg)
{
    atomic_uint *waiting = arg;
    atomic_fetch_add(waiting, 1);
    while (atomic_load(waiting) < 8 && !hd_cancelled()) hd_yield();
    return -1000 - (int)(hd_self_id() % 50);
}

static int fail_rounds(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < stress_count(2000); i++) {
        atomic_uint waiting = 0;
        hd_nursery n;
        nur_open(&n, NULL);
        unsigned spawned = 0;
        for (int k = 0; k < 8; k++) spawned += hd_go(&n, fail_together, &waiting) == 0;
        if (spawned < 8) atomic_store(&waiting, 8); /* one has failed already */
        const int result = hd_nursery_wait(&n);
        hd_child_error first;
        EXPECT_EQ(hd_nursery_error(&n, 0, &first), 0);
        EXPECT_EQ(result, first.error);
        const hd_nursery_info info = hd_nursery_look(&n);
        EXPECT_EQ(info.failed, spawned);
        EXPECT_EQ(info.cause.error, first.error); /* The first is the cause. */
        EXPECT_EQ(info.cause.task, first.task);
        EXPECT_EQ(hd_nursery_leave(&n), result);
    }
    return 0;
}

static void fail_in(hd_runtime *runtime)
{
    HD_NURSERY(n, .runtime = runtime) nur_go(n, fail_rounds, NULL);
    EXPECT_EQ(hd_nursery_result(), 0);
}

TEST(many_fail_at_once_and_one_is_first) { each_workers(fail_in); }

/* ---- a failure and what it does are one step ---- */

static int fail_at_once(void *arg)
{
    (void)arg;
    return -EIO;
}

static void look_for_failure(hd_runtime *runtime)
{
    for (unsigned i = 0; i < stress_count(8000); i++) {
        hd_nursery n;
        const hd_nursery_options of = {.size = sizeof(of), .runtime = runtime};
        nur_open(&n, &of);
        nur_go(&n, fail_at_once, NULL);
        hd_nursery_info info;
        while (info = hd_nursery_look(&n), info.failed == 0) sched_yield();
        EXPECT(info.state == HD_NURSERY_CANCELLING || info.state == HD_NURSERY_CANCELLED);
        EXPECT_EQ(info.cause.error, -EIO);
        EXPECT_EQ(hd_go(&n, nur_nothing, NULL), -ECANCELED); /* nobody slips in */
        EXPECT_EQ(hd_nursery_leave(&n), -EIO);
    }
}

TEST(a_failure_that_can_be_seen_has_cancelled) { each_workers(look_for_failure); }

/* ---- deadlines against the end of their scope ---- */

static int deadline_rounds(void *arg)
{
    struct stress_random random = stress_random_init((uintptr_t)arg);
    unsigned in_time = 0, late = 0;
    for (unsigned i = 0; i < stress_count(20000); i++) {
        const int64_t until = hd_now(NULL) + stress_below(&random, 40000);
        HD_SCOPE(s, .deadline = until) {
            int err;
            if (i % 2) {
                err = hd_sleep_until(until - 5000 + stress_below(&random, 10000));
            } else {
                hd_yield();
                err = hd_cancelled() ? -ETIMEDOUT : 0;
            }
            EXPECT(err == 0 || err == -ETIMEDOUT);
            EXPECT(err == 0 || hd_now(NULL) >= until);
            *(err ? &late : &in_time) += 1;
        }
        EXPECT(!hd_cancelled());
    }
    EXPECT(in_time > 0 && late > 0); /* both were met */
    return 0;
}

static int deadline_nursery_rounds(void *arg)
{
    struct stress_random random = stress_random_init((uintptr_t)arg + 77);
    for (unsigned i = 0; i < stress_count(5000); i++) {
        const int64_t until = hd_now(NULL) + stress_below(&random, 60000);
        hd_nursery n;
        const hd_nursery_options options = {.size = sizeof(options), .deadline = until};
        nur_open(&n, &options);
        unsigned parked = 0;
        for (int k = 0; k < 3; k++) (void)hd_go(&n, nur_nothing, NULL);
        if (i % 2) parked = hd_go(&n, nur_park, NULL) == 0;
        const int result = hd_nursery_leave(&n);
        EXPECT_EQ(result, parked ? -ETIMEDOUT : 0);
        EXPECT(!parked || hd_now(NULL) >= until);
        EXPECT(!hd_cancelled());
    }
    return 0;
}

static void meet_in(hd_runtime *runtime)
{
    HD_NURSERY(n, .runtime = runtime) {
        for (uintptr_t i = 0; i < 2; i++) {
            nur_go(n, deadline_rounds, (void *)i);
            nur_go(n, deadline_nursery_rounds, (void *)i);
        }
    }
    EXPECT_EQ(hd_nursery_result(), 0);
}

TEST(deadlines_that_meet_the_end) { each_workers(meet_in); }

/* ---- many at once ---- */

static int eight_children(void *arg)
{
    atomic_uint *ran = arg;
    for (unsigned i = 0; i < stress_count(400); i++) {
        struct race dummy = {.ran = 0};
        HD_NURSERY(n) {
            for (int k = 0; k < 8; k++) nur_go(n, child, &dummy);
        }
        EXPECT_EQ(atomic_load(&dummy.ran), 8); /* before its memory goes */
        atomic_fetch_add(ran, 8);
    }
    return 0;
}

static void own_many(hd_runtime *runtime)
{
    enum { OWNERS = 64 };
    atomic_uint ran = 0;
    HD_NURSERY(n, .runtime = runtime) {
        for (int i = 0; i < OWNERS; i++) nur_go(n, eight_children, &ran);
    }
    EXPECT_EQ(hd_nursery_result(), 0);
    EXPECT_EQ(atomic_load(&ran), OWNERS * 8 * stress_count(400));
}

TEST(many_nurseries_at_once) { each_workers(own_many); }

/* ---- cancels of one child against its end ---- */

static int cancel_each(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < stress_count(4000); i++) {
        hd_nursery n;
        nur_open(&n, NULL);
        hd_task *tasks[4];
        for (int k = 0; k < 4; k++) {
            tasks[k] = nur_spawn(&n, k % 2 ? nur_nothing : nur_park, NULL, NULL, 0);
        }
        for (int k = 0; k < 4; k++) hd_cancel(tasks[k]);
        EXPECT_EQ(hd_nursery_wait(&n), -ECANCELED);
        const hd_nursery_info info = hd_nursery_look(&n);
        EXPECT_EQ(info.cancelled, 2);
        EXPECT_EQ(info.succeeded, 2);
        EXPECT_EQ(info.state, HD_NURSERY_CLOSED);
        EXPECT_EQ(hd_nursery_leave(&n), -ECANCELED);
        for (int k = 0; k < 4; k++) hd_detach(tasks[k]);
    }
    return 0;
}

static void cancel_in(hd_runtime *runtime)
{
    HD_NURSERY(n, .runtime = runtime) {
        for (int i = 0; i < 4; i++) nur_go(n, cancel_each, NULL);
    }
    EXPECT_EQ(hd_nursery_result(), 0);
}

TEST(children_cancelled_as_they_end) { each_workers(cancel_in); }

/* ---- shutdown in the middle ---- */

static int open_until_refused(void *arg)
{
    atomic_uint *rounds = arg;
    for (;;) {
        hd_nursery n;
        nur_open(&n, NULL);
        int err = 0;
        for (int k = 0; k < 4 && !err; k++) err = hd_go(&n, k % 2 ? nur_park : nur_nothing, NULL);
        atomic_fetch_add(rounds, 1);
        if (!err && atomic_load(rounds) % 3) hd_nursery_cancel(&n);
        if (!err && !(atomic_load(rounds) % 3)) hd_yield(), hd_nursery_cancel(&n);
        const int result = hd_nursery_leave(&n);
        EXPECT(result == 0 || result == -ECANCELED);
        if (err) EXPECT(err == -ECANCELED || err == -ESHUTDOWN);
        if (err && hd_cancelled()) return err;
    }
}

TEST(shutdown_while_nurseries_come_and_go)
{
    for (unsigned i = 0; i < stress_count(200); i++) {
        hd_options options = HD_OPTIONS_INIT;
        options.world = HD_WORLD_LIVE;
        options.workers = 1 + i % 4;
        hd_runtime *runtime = stress_runtime(&options);
        const hd_spawn_options into = stress_into(runtime);
        atomic_uint rounds = 0;
        for (int k = 0; k < 6; k++) {
            EXPECT_EQ(hd_spawn_with(NULL, open_until_refused, &rounds, &into), 0);
        }
        stress_await(&rounds, i % 50);
        EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0);
        hd_stats stats;
        hd_runtime_stats(runtime, &stats);
        EXPECT_EQ(stats.alive, 0);
        hd_runtime_destroy(runtime);
    }
}
