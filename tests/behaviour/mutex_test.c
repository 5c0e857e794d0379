/* SPDX-License-Identifier: MIT
 *
 * Mutexes.
 */
#include "locks.h"

#include <pthread.h>

#include "death.h"

TEST_MAIN

static int lock(void *mutex, int64_t deadline)
{
    return hd_mutex_lock_until(mutex, deadline);
}

static int lock_and_unlock(void *mutex, int64_t deadline)
{
    const int err = hd_mutex_lock_until(mutex, deadline);
    if (!err) hd_mutex_unlock(mutex);
    return err;
}

static void unlock(void *mutex)
{
    hd_mutex_unlock(mutex);
}

/* ---- mutual exclusion ---- */

enum { FIBERS = 8, ROUNDS = 50 };

struct shared {
    hd_mutex mutex;
    int inside, total;
};

static int enter_often(void *arg)
{
    struct shared *s = arg;
    for (int i = 0; i < ROUNDS; i++) {
        EXPECT_EQ(hd_mutex_lock(&s->mutex), 0);
        EXPECT(hd_mutex_held(&s->mutex));
        EXPECT_EQ(++s->inside, 1);
        if (i % 3 == 0) hd_yield();
        s->inside--;
        s->total++;
        hd_mutex_unlock(&s->mutex);
        if (i % 7 == 0) hd_yield();
    }
    return 0;
}

static void *enter_often_thread(void *arg)
{
    (void)enter_often(arg);
    return NULL;
}

TEST_WORLDS(one_at_a_time, options)
{
    struct shared s = {.total = 0};
    hd_runtime *runtime = rt_create(options);
    hd_task *tasks[FIBERS];
    for (int i = 0; i < FIBERS; i++) tasks[i] = rt_spawn(runtime, enter_often, &s);
    for (int i = 0; i < FIBERS; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    EXPECT_EQ(s.total, FIBERS * ROUNDS);
    hd_mutex_fini(&s.mutex);
    hd_runtime_destroy(runtime);
}

TEST(threads_and_fibers_of_two_runtimes_exclude_each_other)
{
    struct shared s = {.total = 0};
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_LIVE, .workers = 2};
    hd_runtime *runtimes[2] = {rt_create(&options), rt_create(&options)};
    hd_task *tasks[FIBERS];
    pthread_t threads[2];
    for (int i = 0; i < FIBERS; i++) tasks[i] = rt_spawn(runtimes[i % 2], enter_often, &s);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, enter_often_thread, &s);
    for (int i = 0; i < FIBERS; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    EXPECT_EQ(s.total, (FIBERS + 2) * ROUNDS);
    hd_mutex_fini(&s.mutex);
    for (int i = 0; i < 2; i++) hd_runtime_destroy(runtimes[i]);
}

/* ---- who has it ---- */

TEST(a_thread_knows_what_it_holds)
{
    hd_mutex mutex;
    memset(&mutex, 0xff, sizeof(mutex));
    hd_mutex_init(&mutex);
    EXPECT(!hd_mutex_held(&mutex));
    EXPECT_EQ(hd_mutex_lock(&mutex), 0);
    EXPECT(hd_mutex_held(&mutex));
    EXPECT_EQ(hd_mutex_lock(&mutex), -EDEADLK);
    EXPECT_EQ(hd_mutex_lock_until(&mutex, hd_after_ms(1)), -EDEADLK);
    EXPECT_EQ(hd_mutex_lock_try(&mutex), -EDEADLK);
    hd_case c = HD_LOCK(&mutex);
    EXPECT_EQ(hd_select(&c, 1), 0);
    EXPECT_EQ(c.result, -EDEADLK);
    hd_mutex_unlock(&mutex);
    EXPECT(!hd_mutex_held(&mutex));
    EXPECT_EQ(hd_mutex_lock_try(&mutex), 0);
    hd_mutex_unlock(&mutex);
    hd_mutex_fini(&mutex);
}

static int own_it(void *arg)
{
    (void)arg;
    hd_mutex mutex = {0};
    struct locks_call other;
    EXPECT_EQ(hd_mutex_lock(&mutex), 0);
    EXPECT_EQ(hd_mutex_lock(&mutex), -EDEADLK);
    locks_begin(&other, lock, &mutex, HD_NOW);
    EXPECT_ENDED(&other, -EAGAIN);
    locks_begin(&other, lock_and_unlock, &mutex, HD_FOREVER);
    EXPECT_WAITS(&other);
    EXPECT_EQ(hd_mutex_lock(&mutex), -EDEADLK);
    hd_mutex_unlock(&mutex);
    EXPECT(!hd_mutex_held(&mutex));
    EXPECT_ENDED(&other, 0);
    hd_mutex_fini(&mutex);
    return 0;
}

TEST_WORLDS(a_fiber_knows_what_it_holds, options) { locks_run(own_it, options, 1); }

/* ---- giving up ---- */

static int give_up(void *arg)
{
    (void)arg;
    hd_mutex mutex = {0};
    struct locks_call late, cancelled, patient;
    EXPECT_EQ(hd_mutex_lock(&mutex), 0);
    locks_begin(&late, lock, &mutex, hd_after_ms(5));
    locks_begin(&cancelled, lock, &mutex, HD_FOREVER);
    locks_begin(&patient, lock_and_unlock, &mutex, HD_FOREVER);
    EXPECT_WAITS(&cancelled);
    hd_cancel(cancelled.task);
    EXPECT_ENDED(&cancelled, -ECANCELED);
    EXPECT_EQ(rt_join(late.task), -ETIMEDOUT);
    EXPECT_WAITS(&patient);
    hd_mutex_unlock(&mutex);
    EXPECT_ENDED(&patient, 0);
    EXPECT_EQ(hd_mutex_lock_try(&mutex), 0); /* Nothing is left of those who left. */
    hd_mutex_unlock(&mutex);
    hd_mutex_fini(&mutex);
    return 0;
}

TEST_WORLDS(who_gives_up_has_no_effect, options) { locks_run(give_up, options, 1); }

static int cancelled_before(void *mutex)
{
    while (!hd_cancelled()) hd_yield();
    EXPECT_EQ(hd_mutex_lock(mutex), -ECANCELED);
    EXPECT_EQ(hd_mutex_lock_until(mutex, HD_FOREVER), -ECANCELED);
    EXPECT_EQ(hd_mutex_lock_try(mutex), 0); /* A look is no wait. */
    hd_mutex_unlock(mutex);
    EXPECT_EQ(hd_shield(), 0);
    EXPECT_EQ(hd_mutex_lock(mutex), 0);
    EXPECT_EQ(hd_unshield(), 0);
    hd_mutex_unlock(mutex);
    return 0;
}

TEST_WORLDS(a_cancelled_task_does_not_wait, options)
{
    hd_mutex mutex = {0};
    hd_runtime *runtime = rt_create(options);
    hd_task *task = rt_spawn(runtime, cancelled_before, &mutex);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), 0);
    hd_runtime_destroy(runtime);
}

TEST_WORLDS(a_thread_waits_until_a_deadline, options)
{
    hd_mutex mutex = {0};
    hd_runtime *runtime = rt_create(options);
    struct locks_call holder = {.call = lock, .object = &mutex, .deadline = HD_FOREVER};
    EXPECT_EQ(rt_join(rt_spawn(runtime, locks_call_fn_, &holder)), 0); /* and ends with it */
    EXPECT_EQ(hd_mutex_lock_try(&mutex), -EAGAIN);
    const int64_t deadline = hd_now(runtime) + 2000000;
    EXPECT_EQ(hd_mutex_lock_until(&mutex, deadline), -ETIMEDOUT);
    EXPECT(hd_now(runtime) >= deadline);
    if (rt_is_sim(options)) EXPECT_EQ(hd_mutex_lock(&mutex), -EDEADLK);
    hd_runtime_destroy(runtime);
}

/* ---- fairness ---- */

struct contest {
    hd_mutex mutex;
    int64_t hold_ns;    /* by the clock, without a wait */
    atomic_int rounds;  /* of the hog, since the other began to wait */
    atomic_int waiting, won;
};

/* Holds it across a wait, and takes it again at once. */
static int hog(void *arg)
{
    struct contest *t = arg;
    while (!atomic_load(&t->won)) {
        EXPECT_EQ(hd_mutex_lock(&t->mutex), 0);
        const int64_t until = hd_now(NULL) + t->hold_ns;
        while (t->hold_ns && hd_now(NULL) < until) continue;
        hd_yield();
        if (atomic_load(&t->waiting)) atomic_fetch_add(&t->rounds, 1);
        hd_mutex_unlock(&t->mutex);
    }
    return 0;
}

static int wants_it_once(void *arg)
{
    struct contest *t = arg;
    atomic_store(&t->waiting, 1);
    EXPECT_EQ(hd_mutex_lock(&t->mutex), 0);
    atomic_store(&t->won, 1);
    hd_mutex_unlock(&t->mutex);
    return 0;
}

static int contest(const hd_options *options, int64_t hold_ns)
{
    struct contest t = {.hold_ns = hold_ns};
    const hd_options own = rt_workers(options, 1);
    hd_runtime *runtime = rt_create(&own);
    hd_task *first = rt_spawn(runtime, hog, &t), *second = rt_spawn(runtime, wants_it_once, &t);
    EXPECT_EQ(rt_join(second), 0);
    EXPECT_EQ(rt_join(first), 0);
    hd_runtime_destroy(runtime);
    return atomic_load(&t.rounds);
}

/* Woken 8 times in vain, then it is next. In sim time stands still meanwhile, and the hog may
 * be drawn several times before the woken one is. */
TEST_WORLDS(a_waiter_is_passed_over_a_few_times_only, options)
{
    EXPECT(contest(options, 0) <= (rt_is_sim(options) ? 500 : 8 + 2));
}

/* Having waited 1 ms it is woken once in vain at most. */
TEST(a_waiter_is_next_after_a_millisecond)
{
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_LIVE};
    EXPECT(contest(&options, 2000000) <= 1 + 2);
}

/* ---- stackless tasks and select ---- */

static int stackless(void *arg)
{
    (void)arg;
    hd_mutex mutex = {0};
    EXPECT_EQ(hd_mutex_lock(&mutex), 0);
    hd_task *late = locks_poll(NULL, (hd_case)HD_LOCK(&mutex), hd_after_ms(5), NULL);
    hd_task *cancelled = locks_poll(NULL, (hd_case)HD_LOCK(&mutex), HD_FOREVER, NULL);
    hd_task *careless = locks_poll_careless(NULL, (hd_case)HD_LOCK(&mutex));
    hd_task *patient = locks_poll(NULL, (hd_case)HD_LOCK(&mutex), HD_FOREVER, unlock);
    locks_settle();
    hd_cancel(cancelled);
    EXPECT_EQ(rt_join(cancelled), -ECANCELED);
    EXPECT_EQ(rt_join(late), -ETIMEDOUT);
    hd_mutex_unlock(&mutex);
    EXPECT_EQ(rt_join(careless), 1); /* It had it, and ended: the next one has it. */
    EXPECT_EQ(rt_join(patient), 0);
    hd_mutex_fini(&mutex);
    return 0;
}

TEST_WORLDS(stackless_tasks_lock_by_select, options) { locks_run(stackless, options, 1); }

static hd_poll lock_plainly(void *state, int *result)
{
    hd_mutex *mutex = *(hd_mutex **)state;
    *result = hd_mutex_lock(mutex);
    EXPECT_EQ(hd_mutex_lock_try(mutex), 0);
    hd_mutex_unlock(mutex);
    return HD_READY;
}

TEST_WORLDS(a_stackless_task_cannot_wait_in_the_plain_form, options)
{
    hd_mutex mutex = {0};
    hd_runtime *runtime = rt_create(options);
    hd_task *task = rt_spawn_poll(runtime, lock_plainly, &(void *){&mutex}, sizeof(void *));
    EXPECT_EQ(rt_join(task), -EINVAL);
    hd_runtime_destroy(runtime);
}

static int first_of_two(void *pair, int64_t deadline)
{
    hd_mutex *mutexes = pair;
    hd_case cases[] = {HD_LOCK(&mutexes[0]), HD_LOCK(&mutexes[1])};
    const int which = hd_select_until(cases, 2, 0, deadline);
    if (which < 0) return which;
    EXPECT_EQ(cases[which].result, 0);
    hd_mutex_unlock(&mutexes[which]);
    return which;
}

static int select_two(void *arg)
{
    (void)arg;
    hd_mutex pair[2] = {{{0}}, {{0}}};
    struct locks_call waiter;
    for (int which = 0; which < 2; which++) {
        EXPECT_EQ(hd_mutex_lock(&pair[0]), 0);
        EXPECT_EQ(hd_mutex_lock(&pair[1]), 0);
        locks_begin(&waiter, first_of_two, pair, HD_NOW);
        EXPECT_ENDED(&waiter, -EAGAIN);
        locks_begin(&waiter, first_of_two, pair, HD_FOREVER);
        EXPECT_WAITS(&waiter);
        hd_mutex_unlock(&pair[which]);
        EXPECT_ENDED(&waiter, which);
        hd_mutex_unlock(&pair[1 - which]);
        EXPECT_EQ(hd_mutex_lock_try(&pair[which]), 0);
        hd_mutex_unlock(&pair[which]);
    }
    hd_mutex_fini(&pair[0]);
    hd_mutex_fini(&pair[1]);
    return 0;
}

TEST_WORLDS(a_select_gets_one_of_two, options) { locks_run(select_two, options, 1); }

/* ---- misuse ---- */

static void unlock_free(void *arg)
{
    (void)arg;
    hd_mutex mutex = {0};
    hd_mutex_unlock(&mutex);
}

static int unlock_fn(void *mutex)
{
    hd_mutex_unlock(mutex);
    return 0;
}

static void unlock_anothers(void *arg)
{
    (void)arg;
    hd_mutex mutex = {0};
    EXPECT_EQ(hd_mutex_lock(&mutex), 0);
    (void)hd_run(unlock_fn, &mutex, NULL);
}

static void end_held(void *arg)
{
    (void)arg;
    hd_mutex mutex = {0};
    EXPECT_EQ(hd_mutex_lock(&mutex), 0);
    hd_mutex_fini(&mutex);
}

TEST(misuse_is_told)
{
    expect_abort(unlock_free, NULL, "a mutex is unlocked by one who does not hold it");
    expect_abort(unlock_anothers, NULL, "a mutex is unlocked by one who does not hold it");
    expect_abort(end_held, NULL, "a mutex ends while it is held");
}
