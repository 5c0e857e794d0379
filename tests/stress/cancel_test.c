/* SPDX-License-Identifier: MIT
 *
 * Cancel storms with shields, and shutdown in the middle of storms: whatever was spawned
 * ends, exactly once, and a cancel is never seen through a shield nor lost behind one.
 */
#include "stress/stress.h"

/* ---- cancels against shields ---- */

enum { VICTIMS = 64, WAKERS = 2 };

struct victim {
    hd_task *task;
    hd_waker waker;
    atomic_uint shielded_wakes; /* asked for while a shield is held */
};

struct field {
    struct victim victims[VICTIMS];
    atomic_uint registered;
    atomic_uint ended;
};

static struct field *field;

static void register_victim(struct victim *victim)
{
    victim->waker = hd_waker_self();
    atomic_fetch_add_explicit(&field->registered, 1, memory_order_release);
}

/* Behind two shields nothing is cancelled, and parks wait for real wakes. */
static void work_shielded(struct victim *victim)
{
    EXPECT_EQ(hd_shield(), 0);
    EXPECT_EQ(hd_shield(), 0);
    EXPECT(!hd_cancelled());
    EXPECT_EQ(hd_park(), 0);
    hd_yield();
    EXPECT(!hd_cancelled());
    EXPECT_EQ(hd_unshield(), 0);
    EXPECT(!hd_cancelled());
    EXPECT_EQ(hd_park(), 0);
    atomic_fetch_add_explicit(&victim->shielded_wakes, 1, memory_order_relaxed);
    EXPECT_EQ(hd_unshield(), 0);
}

static int victim_fiber(void *arg)
{
    struct victim *victim = arg;
    register_victim(victim);
    for (;;) {
        work_shielded(victim);
        if (hd_park() == -ECANCELED) break;
    }
    EXPECT(hd_cancelled());
    EXPECT_EQ(hd_park(), -ECANCELED); /* It stays in effect, */
    EXPECT_EQ(hd_shield(), 0);
    EXPECT(!hd_cancelled());          /* except behind a shield. */
    EXPECT_EQ(hd_unshield(), 0);
    EXPECT(hd_cancelled());
    atomic_fetch_add(&field->ended, 1);
    return -ECANCELED;
}

/* A stackless task keeps its shield over several polls. */
struct victim_state {
    struct victim *victim;
    unsigned polls;
    bool shielded;
};

static hd_poll victim_poll(void *arg, int *result)
{
    struct victim_state *state = arg;
    if (state->polls++ == 0) register_victim(state->victim);
    if (state->shielded) {
        EXPECT(!hd_cancelled());
        if (state->polls % 3) return HD_PENDING;
        state->shielded = false;
        EXPECT_EQ(hd_unshield(), 0); /* If a cancel waited, it comes round once more. */
        return HD_PENDING;
    }
    if (hd_cancelled()) {
        atomic_fetch_add(&field->ended, 1);
        *result = -ECANCELED;
        return HD_READY;
    }
    EXPECT_EQ(hd_shield(), 0);
    state->shielded = true;
    return HD_PENDING;
}

/* Wakes keep coming until everybody has ended, since shielded parks need them. */
static void *waking_thread(void *arg)
{
    struct stress_random random = stress_random_init((uintptr_t)arg);
    while (atomic_load_explicit(&field->ended, memory_order_relaxed) < VICTIMS) {
        hd_waker_wake_keep(field->victims[stress_below(&random, VICTIMS)].waker);
        if (stress_below(&random, 16) == 0) sched_yield();
    }
    return NULL;
}

static void *cancelling_thread(void *arg)
{
    (void)arg;
    struct stress_random random = stress_random_init(99);
    const unsigned first = stress_below(&random, VICTIMS);
    for (unsigned i = 0; i < VICTIMS; i++) {
        struct victim *victim = &field->victims[(first + i) % VICTIMS];
        hd_cancel(victim->task);
        if (i % 3 == 0) hd_cancel(victim->task); /* A second one changes nothing. */
        if (i % 4 == 0) sched_yield();
    }
    return NULL;
}

static void cancel_round(hd_runtime *runtime)
{
    const hd_spawn_options into = stress_into(runtime);
    field = calloc(1, sizeof(*field));
    EXPECT(field != NULL);
    for (unsigned i = 0; i < VICTIMS; i++) {
        struct victim *victim = &field->victims[i];
        const struct victim_state state = {.victim = victim};
        if (i % 2) {
            EXPECT_EQ(hd_spawn_with(&victim->task, victim_fiber, victim, &into), 0);
        } else {
            EXPECT_EQ(hd_spawn_poll_with(&victim->task, victim_poll, &state, sizeof(state), &into),
                      0);
        }
    }
    stress_await(&field->registered, VICTIMS);
    struct stress_threads threads = {.count = 0};
    for (uintptr_t i = 0; i < WAKERS; i++) stress_start(&threads, waking_thread, (void *)i);
    stress_start(&threads, cancelling_thread, NULL);
    stress_join(&threads);
    for (unsigned i = 0; i < VICTIMS; i++) {
        int result = 0;
        EXPECT_EQ(hd_join(field->victims[i].task, &result), 0);
        EXPECT_EQ(result, -ECANCELED);
        hd_waker_drop(field->victims[i].waker);
    }
    EXPECT_EQ(atomic_load(&field->ended), VICTIMS);
    free(field);
}

static void cancel_storm(const hd_options *options, unsigned scale)
{
    hd_runtime *runtime = stress_runtime(options);
    for (unsigned i = 0; i < stress_count(80) / scale + 1; i++) cancel_round(runtime);
    hd_runtime_destroy(runtime);
}

TEST(cancel_storms_with_shields)
{
    stress_each_setup(cancel_storm);
}

/* ---- cancelled joins ---- */

/* A fiber joins a task that ends about when the fiber is cancelled: it gets the result,
 * or keeps the handle. */
struct join_race {
    hd_task *child;
    atomic_uint *joined, *cancelled;
};

static int quick_child(void *arg)
{
    (void)arg;
    hd_yield();
    return 5;
}

static int racing_joiner(void *arg)
{
    const struct join_race *race = arg;
    int result = 0;
    const int err = hd_join(race->child, &result);
    if (err == -ECANCELED) {
        atomic_fetch_add(race->cancelled, 1);
        hd_detach(race->child);
        return 0;
    }
    EXPECT_EQ(err, 0);
    EXPECT_EQ(result, 5);
    atomic_fetch_add(race->joined, 1);
    return 0;
}

static void join_races(const hd_options *options, unsigned scale)
{
    atomic_uint joined = 0, cancelled = 0;
    hd_runtime *runtime = stress_runtime(options);
    const hd_spawn_options into = stress_into(runtime);
    const unsigned rounds = stress_count(4000) / scale;
    for (unsigned i = 0; i < rounds; i++) {
        struct join_race race = {.joined = &joined, .cancelled = &cancelled};
        hd_task *joiner;
        EXPECT_EQ(hd_spawn_with(&race.child, quick_child, NULL, &into), 0);
        EXPECT_EQ(hd_spawn_with(&joiner, racing_joiner, &race, &into), 0);
        if (i % 2) sched_yield();
        hd_cancel(joiner);
        EXPECT_EQ(hd_join(joiner, NULL), 0);
    }
    EXPECT_EQ(atomic_load(&joined) + atomic_load(&cancelled), rounds);
    hd_runtime_destroy(runtime);
}

TEST(joins_cancelled_as_they_end)
{
    stress_each_setup(join_races);
}

/* ---- shutdown ---- */

enum { BREEDERS = 2 };

struct colony {
    hd_runtime *runtime;
    atomic_uint born;  /* spawns that returned 0 */
    atomic_uint ended; /* fibers that returned, stackless tasks whose state was dropped */
    atomic_uint ran;
};

struct bee {
    struct colony *colony;
    unsigned kind;
};

static bool breed(struct colony *colony, unsigned kind);

static void bee_drop(void *state)
{
    const struct bee *bee = state;
    atomic_fetch_add(&bee->colony->ended, 1);
}

/* Kind 0 waits for ever, 1 wakes itself, 2 has children and ends. */
static hd_poll bee_poll(void *state, int *result)
{
    const struct bee *bee = state;
    atomic_fetch_add(&bee->colony->ran, 1);
    if (bee->kind == 0) return HD_PENDING;
    if (bee->kind == 1 && !hd_cancelled()) {
        hd_waker_wake(hd_waker_self());
        return HD_PENDING;
    }
    for (unsigned kind = 0; bee->kind == 2 && kind < 4; kind++) (void)breed(bee->colony, kind % 3);
    *result = 0;
    return HD_READY;
}

static int bee_fiber(void *arg)
{
    struct colony *colony = arg;
    atomic_fetch_add(&colony->ran, 1);
    EXPECT_EQ(hd_shield(), 0);
    hd_yield();
    (void)breed(colony, 3);
    EXPECT_EQ(hd_unshield(), 0);
    while (hd_park() != -ECANCELED) continue;
    atomic_fetch_add(&colony->ended, 1);
    return 0;
}

/* Returns false when the runtime refuses. Alive at once are at most a few thousand. */
static bool breed(struct colony *colony, unsigned kind)
{
    enum { ALIVE_MAX = STRESS_TSAN ? 500 : 4000 };
    if (atomic_load(&colony->born) - atomic_load(&colony->ended) > ALIVE_MAX) return true;
    const hd_spawn_options base = stress_into(colony->runtime);
    hd_spawn_options into = base;
    into.drop = bee_drop;
    const struct bee bee = {colony, kind};
    atomic_fetch_add(&colony->born, 1);
    const int err = kind == 3 ? hd_spawn_with(NULL, bee_fiber, colony, &base)
                              : hd_spawn_poll_with(NULL, bee_poll, &bee, sizeof(bee), &into);
    if (err == 0) return true;
    EXPECT_EQ(err, -ESHUTDOWN);
    atomic_fetch_sub(&colony->born, 1);
    return false;
}

static void *breeding_thread(void *arg)
{
    struct colony *colony = arg;
    for (unsigned i = 0; breed(colony, i % 4); i++) {
        if (i % 64 == 63) sched_yield();
    }
    return NULL;
}

static void shutdown_round(const hd_options *options, unsigned runs_before)
{
    struct colony colony = {.runtime = stress_runtime(options)};
    struct stress_threads threads = {.count = 0};
    for (int i = 0; i < BREEDERS; i++) stress_start(&threads, breeding_thread, &colony);
    stress_await(&colony.ran, runs_before);
    int err = hd_runtime_shutdown(colony.runtime, HD_NOW); /* mostly too soon */
    EXPECT(err == 0 || err == -ETIMEDOUT);
    stress_join(&threads);
    EXPECT_EQ(hd_runtime_shutdown(colony.runtime, HD_FOREVER), 0);
    EXPECT_EQ(atomic_load(&colony.ended), atomic_load(&colony.born));
    hd_stats stats;
    hd_runtime_stats(colony.runtime, &stats);
    EXPECT_EQ(stats.alive, 0);
    EXPECT_EQ(stats.submitted, atomic_load(&colony.born));
    hd_runtime_destroy(colony.runtime);
}

static void shutdowns(const hd_options *options, unsigned scale)
{
    for (unsigned i = 0; i < stress_count(48) / scale + 1; i++) {
        shutdown_round(options, stress_count(i % 3 ? 400 * (i % 8) : 0));
    }
}

TEST(shutdown_in_the_middle)
{
    stress_each_setup(shutdowns);
}

/* ---- many short lives ---- */

static int brief_fiber(void *arg)
{
    atomic_fetch_add((atomic_uint *)arg, 1);
    return 0;
}

/* Workers are stopped while others are still being woken for work that is gone. */
static void short_lives(const hd_options *options, unsigned scale)
{
    for (unsigned i = 0; i < stress_count(320) / (scale * scale); i++) {
        atomic_uint ran = 0;
        hd_runtime *runtime = stress_runtime(options);
        const hd_spawn_options into = stress_into(runtime);
        for (unsigned k = 0; k < i % 6; k++) {
            EXPECT_EQ(hd_spawn_with(NULL, brief_fiber, &ran, &into), 0);
        }
        if (i % 2) EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
        hd_runtime_destroy(runtime);
        EXPECT_EQ(atomic_load(&ran), i % 6); /* Cancelled or not, a fiber begins. */
    }
}

TEST(short_lives)
{
    stress_each_setup(short_lives);
}

TEST_MAIN
