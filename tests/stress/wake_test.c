/* SPDX-License-Identifier: MIT
 *
 * Wake storms: threads, fibers and tasks of another runtime fire wakers, cloned and kept,
 * at fibers and stackless tasks. Each target counts what was posted before each wake and
 * ends when it has seen everything, so a wake that is lost hangs the test.
 */
#include "stress/stress.h"

enum { TARGETS = 24, THREADS = 3, FIBERS = 4, SHOOTERS = THREADS + 2 * FIBERS };

struct target {
    atomic_uint posted; /* counted up before each wake */
    unsigned seen;      /* the target's own */
    unsigned expected;
    hd_waker waker;
};

struct storm {
    struct target targets[TARGETS];
    atomic_uint registered; /* targets whose waker is there */
    atomic_uint shooter_next;
    unsigned rounds;
    atomic_uint ended;
};

/* What has been posted since the last look. Returns whether that was everything. */
static bool look(struct target *target)
{
    target->seen += atomic_exchange_explicit(&target->posted, 0, memory_order_acq_rel);
    EXPECT(target->seen <= target->expected);
    return target->seen == target->expected;
}

static void register_waker(struct storm *storm, struct target *target)
{
    target->waker = hd_waker_self();
    atomic_fetch_add_explicit(&storm->registered, 1, memory_order_release);
}

struct target_arg {
    struct storm *storm;
    struct target *target;
    bool started;
};

static int target_fiber(void *arg)
{
    const struct target_arg *self = arg;
    register_waker(self->storm, self->target);
    while (!look(self->target)) EXPECT_EQ(hd_park(), 0);
    atomic_fetch_add(&self->storm->ended, 1);
    return (int)self->target->seen;
}

static hd_poll target_poll(void *state, int *result)
{
    struct target_arg *self = state;
    if (!self->started) {
        self->started = true;
        register_waker(self->storm, self->target);
    }
    if (!look(self->target)) return HD_PENDING;
    atomic_fetch_add(&self->storm->ended, 1);
    *result = (int)self->target->seen;
    return HD_READY;
}

/* One shot at one target. Owner of a clone: fires it, or drops it after another shot. */
static void shoot(struct target *target, struct stress_random *random)
{
    atomic_fetch_add_explicit(&target->posted, 1, memory_order_acq_rel);
    const hd_waker clone = hd_waker_clone(target->waker);
    switch (stress_below(random, 3)) {
    case 0:
        hd_waker_wake(clone);
        break;
    case 1:
        hd_waker_wake_keep(clone);
        hd_waker_drop(clone);
        break;
    default:
        hd_waker_wake_keep(target->waker);
        hd_waker_drop(clone);
        break;
    }
}

static void shoot_all(struct storm *storm, bool yields)
{
    struct stress_random random = stress_random_init(atomic_fetch_add(&storm->shooter_next, 1));
    for (unsigned i = 0; i < storm->rounds; i++) {
        const unsigned first = stress_below(&random, TARGETS);
        for (unsigned k = 0; k < TARGETS; k++) {
            shoot(&storm->targets[(first + k) % TARGETS], &random);
            if (yields && stress_below(&random, 8) == 0) hd_yield();
        }
    }
}

static void *shooter_thread(void *arg)
{
    shoot_all(arg, false);
    return NULL;
}

static int shooter_fiber(void *arg)
{
    shoot_all(arg, true);
    return 0;
}

static void spawn_targets(struct storm *storm, hd_runtime *runtime, struct target_arg *args,
                          hd_task **tasks)
{
    const hd_spawn_options into = stress_into(runtime);
    for (unsigned i = 0; i < TARGETS; i++) {
        storm->targets[i].expected = SHOOTERS * storm->rounds;
        args[i] = (struct target_arg){storm, &storm->targets[i], false};
        if (i % 2) {
            EXPECT_EQ(hd_spawn_with(&tasks[i], target_fiber, &args[i], &into), 0);
        } else {
            EXPECT_EQ(hd_spawn_poll_with(&tasks[i], target_poll, &args[i], sizeof(args[i]), &into),
                      0);
        }
    }
    stress_await(&storm->registered, TARGETS);
}

static void wake_storm(const hd_options *options, unsigned scale)
{
    struct storm *storm = calloc(1, sizeof(*storm));
    EXPECT(storm != NULL);
    storm->rounds = stress_count(1600) / scale + 1;
    hd_runtime *runtime = stress_runtime(options);
    hd_options other_options = *options;
    other_options.workers = 2;
    hd_runtime *other = stress_runtime(&other_options);
    struct target_arg args[TARGETS];
    hd_task *tasks[TARGETS], *shooters[2 * FIBERS];
    spawn_targets(storm, runtime, args, tasks);

    struct stress_threads threads = {.count = 0};
    for (int i = 0; i < THREADS; i++) stress_start(&threads, shooter_thread, storm);
    for (int i = 0; i < 2 * FIBERS; i++) {
        const hd_spawn_options into = stress_into(i % 2 ? runtime : other);
        EXPECT_EQ(hd_spawn_with(&shooters[i], shooter_fiber, storm, &into), 0);
    }
    for (int i = 0; i < 2 * FIBERS; i++) EXPECT_EQ(hd_join(shooters[i], NULL), 0);
    for (unsigned i = 0; i < TARGETS; i++) {
        int result = 0;
        EXPECT_EQ(hd_join(tasks[i], &result), 0);
        EXPECT_EQ(result, SHOOTERS * storm->rounds);
    }
    stress_join(&threads);
    EXPECT_EQ(atomic_load(&storm->ended), TARGETS);
    for (unsigned i = 0; i < TARGETS; i++) hd_waker_drop(storm->targets[i].waker);
    hd_runtime_destroy(other);
    hd_runtime_destroy(runtime);
    free(storm);
}

TEST(wake_storms)
{
    stress_each_setup(wake_storm);
}

/* ---- one wake at a time ---- */

/* Nothing else is going on when a wake comes, so every one goes through park and unpark
 * of a worker: the thread waits for the answer before it wakes again. */
struct answer {
    atomic_uint asked, answered;
    hd_waker waker;
    atomic_uint registered;
    unsigned rounds;
};

static int answering_fiber(void *arg)
{
    struct answer *answer = arg;
    answer->waker = hd_waker_self();
    atomic_store_explicit(&answer->registered, 1, memory_order_release);
    for (unsigned i = 1; i <= answer->rounds; i++) {
        while (atomic_load_explicit(&answer->asked, memory_order_acquire) < i) (void)hd_park();
        atomic_store_explicit(&answer->answered, i, memory_order_release);
    }
    return 0;
}

static void one_by_one(const hd_options *options, unsigned scale)
{
    struct answer answer = {.rounds = stress_count(16000) / scale};
    hd_runtime *runtime = stress_runtime(options);
    const hd_spawn_options into = stress_into(runtime);
    hd_task *task;
    EXPECT_EQ(hd_spawn_with(&task, answering_fiber, &answer, &into), 0);
    stress_await(&answer.registered, 1);
    for (unsigned i = 1; i <= answer.rounds; i++) {
        atomic_store_explicit(&answer.asked, i, memory_order_release);
        hd_waker_wake_keep(answer.waker);
        stress_await(&answer.answered, i);
    }
    hd_waker_drop(answer.waker);
    EXPECT_EQ(hd_join(task, NULL), 0);
    hd_runtime_destroy(runtime);
}

TEST(wakes_of_an_idle_runtime)
{
    stress_each_setup(one_by_one);
}

/* ---- rings of fibers ---- */

/* A token goes round; each hop is one wake from inside. Several rings at once. */
enum { RING_FIBERS = 16, RINGS = 3 };

struct seat {
    struct seat *next;
    atomic_uint tokens;
    hd_waker waker;
    atomic_uint *registered;
    unsigned laps;
};

static int ring_fiber(void *arg)
{
    struct seat *seat = arg;
    seat->waker = hd_waker_self();
    atomic_fetch_add_explicit(seat->registered, 1, memory_order_release);
    for (unsigned lap = 0; lap < seat->laps; lap++) {
        while (atomic_exchange_explicit(&seat->tokens, 0, memory_order_acq_rel) == 0) {
            EXPECT_EQ(hd_park(), 0);
        }
        atomic_fetch_add_explicit(&seat->next->tokens, 1, memory_order_acq_rel);
        hd_waker_wake_keep(seat->next->waker);
    }
    return 0;
}

static void rings(const hd_options *options, unsigned scale)
{
    static struct seat seats[RINGS][RING_FIBERS];
    hd_task *tasks[RINGS][RING_FIBERS];
    atomic_uint registered = 0;
    hd_runtime *runtime = stress_runtime(options);
    const hd_spawn_options into = stress_into(runtime);
    for (int r = 0; r < RINGS; r++) {
        for (int i = 0; i < RING_FIBERS; i++) {
            seats[r][i] = (struct seat){.next = &seats[r][(i + 1) % RING_FIBERS],
                                        .registered = &registered,
                                        .laps = stress_count(2000) / scale};
            EXPECT_EQ(hd_spawn_with(&tasks[r][i], ring_fiber, &seats[r][i], &into), 0);
        }
    }
    stress_await(&registered, RINGS * RING_FIBERS);
    for (int r = 0; r < RINGS; r++) {
        atomic_fetch_add(&seats[r][0].tokens, 1);
        hd_waker_wake_keep(seats[r][0].waker);
    }
    for (int r = 0; r < RINGS; r++) {
        for (int i = 0; i < RING_FIBERS; i++) EXPECT_EQ(hd_join(tasks[r][i], NULL), 0);
    }
    for (int r = 0; r < RINGS; r++) {
        for (int i = 0; i < RING_FIBERS; i++) hd_waker_drop(seats[r][i].waker);
    }
    hd_runtime_destroy(runtime);
}

TEST(tokens_round_rings)
{
    stress_each_setup(rings);
}

TEST_MAIN
