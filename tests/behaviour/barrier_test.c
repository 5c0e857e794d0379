/* SPDX-License-Identifier: MIT
 *
 * Barriers.
 */
#include "locks.h"

#include <pthread.h>

#include "death.h"

TEST_MAIN

static int meet(void *barrier, int64_t deadline)
{
    return hd_barrier_wait_until(barrier, deadline);
}

static int three(void *arg)
{
    (void)arg;
    hd_barrier barrier = HD_BARRIER_INIT(3);
    struct locks_call others[2];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2; i++) locks_begin(&others[i], meet, &barrier, HD_FOREVER);
        EXPECT_WAITS(&others[0]);
        EXPECT_WAITS(&others[1]);
        EXPECT_EQ(hd_barrier_wait(&barrier), HD_BARRIER_SERIAL);
        for (int i = 0; i < 2; i++) EXPECT_ENDED(&others[i], 0);
    }
    hd_barrier_fini(&barrier);
    return 0;
}

TEST_WORLDS(all_wait_for_the_last, options) { locks_run(three, options, 1); }

static int one_leaves(void *arg)
{
    (void)arg;
    hd_barrier barrier;
    EXPECT_EQ(hd_barrier_init(&barrier, 3), 0);
    struct locks_call cancelled, late, patient;
    locks_begin(&cancelled, meet, &barrier, HD_FOREVER);
    locks_begin(&patient, meet, &barrier, HD_FOREVER);
    hd_cancel(cancelled.task);
    EXPECT_ENDED(&cancelled, -ECANCELED);
    EXPECT_EQ(hd_barrier_wait_try(&barrier), -EAGAIN); /* not the last */
    locks_begin(&late, meet, &barrier, hd_after_ms(5));
    EXPECT_EQ(rt_join(late.task), -ETIMEDOUT);
    EXPECT_EQ(hd_barrier_wait_try(&barrier), -EAGAIN);
    EXPECT_WAITS(&patient);
    locks_begin(&late, meet, &barrier, hd_after_ms(10000));
    EXPECT_EQ(hd_barrier_wait_try(&barrier), HD_BARRIER_SERIAL);
    EXPECT_ENDED(&patient, 0);
    EXPECT_ENDED(&late, 0);
    hd_barrier_fini(&barrier);
    return 0;
}

TEST_WORLDS(one_that_leaves_has_not_come, options) { locks_run(one_leaves, options, 1); }

/* Cancelled at the same moment as the last one comes: whoever says that it met the others
 * did, and nobody else. */
static int cancel_late(void *arg)
{
    (void)arg;
    hd_barrier barrier = HD_BARRIER_INIT(3);
    struct locks_call first, second;
    locks_begin(&first, meet, &barrier, HD_FOREVER);
    locks_begin(&second, meet, &barrier, HD_FOREVER);
    hd_cancel(first.task); /* It is woken, and has not run yet. */
    EXPECT_EQ(hd_barrier_wait_try(&barrier), HD_BARRIER_SERIAL);
    EXPECT_ENDED(&first, 0);
    EXPECT_ENDED(&second, 0);
    hd_barrier_fini(&barrier);
    return 0;
}

TEST_WORLDS(having_met_beats_a_cancel, options) { locks_run(cancel_late, options, 1); }

/* ---- many rounds ---- */

enum { PARTIES = 5, ROUNDS = 30 };

struct race {
    hd_barrier barrier;
    atomic_int arrived[ROUNDS], serial;
};

static int run_race(void *arg)
{
    struct race *race = arg;
    for (int i = 0; i < ROUNDS; i++) {
        atomic_fetch_add(&race->arrived[i], 1);
        const int how = hd_barrier_wait(&race->barrier);
        EXPECT(how == 0 || how == HD_BARRIER_SERIAL);
        EXPECT_EQ(race->arrived[i], PARTIES);
        if (how == HD_BARRIER_SERIAL) atomic_fetch_add(&race->serial, 1);
    }
    return 0;
}

static void *run_race_thread(void *arg)
{
    (void)run_race(arg);
    return NULL;
}

TEST_WORLDS(nobody_is_a_round_ahead, options)
{
    struct race race = {.barrier = HD_BARRIER_INIT(PARTIES)};
    hd_runtime *runtime = rt_create(options);
    hd_task *tasks[PARTIES - 1];
    for (int i = 0; i < PARTIES - 1; i++) tasks[i] = rt_spawn(runtime, run_race, &race);
    (void)run_race(&race); /* a thread */
    for (int i = 0; i < PARTIES - 1; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    EXPECT_EQ(race.serial, ROUNDS);
    hd_barrier_fini(&race.barrier);
    hd_runtime_destroy(runtime);
}

TEST(threads_and_fibers_of_two_runtimes_meet)
{
    struct race race = {.barrier = HD_BARRIER_INIT(PARTIES)};
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_LIVE, .workers = 1};
    hd_runtime *runtimes[2] = {rt_create(&options), rt_create(&options)};
    hd_task *tasks[3];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, run_race_thread, &race);
    for (int i = 0; i < 3; i++) tasks[i] = rt_spawn(runtimes[i % 2], run_race, &race);
    for (int i = 0; i < 3; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    EXPECT_EQ(race.serial, ROUNDS);
    hd_barrier_fini(&race.barrier);
    for (int i = 0; i < 2; i++) hd_runtime_destroy(runtimes[i]);
}

/* ---- misuse ---- */

static void use_zeroed(void *arg)
{
    (void)arg;
    (void)!hd_barrier_wait(&(hd_barrier){{0}});
}

TEST(misuse_is_told)
{
    hd_barrier barrier;
    EXPECT_EQ(hd_barrier_init(&barrier, 0), -EINVAL);
    expect_abort(use_zeroed, NULL, "a barrier is used before hd_barrier_init()");
    EXPECT_EQ(hd_barrier_init(&barrier, 1), 0);
    EXPECT_EQ(hd_barrier_wait(&barrier), HD_BARRIER_SERIAL);
}
