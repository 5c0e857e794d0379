/* SPDX-License-Identifier: MIT
 *
 * Semaphores.
 */
#include "locks.h"

#include "death.h"

TEST_MAIN

static int acquire_one(void *sem, int64_t deadline)
{
    return hd_sem_acquire_until(sem, 1, deadline);
}

static int acquire_three(void *sem, int64_t deadline)
{
    return hd_sem_acquire_until(sem, 3, deadline);
}

static void release_one(void *sem)
{
    EXPECT_EQ(hd_sem_release(sem, 1), 0);
}

TEST(permits_are_counted)
{
    hd_sem sem = HD_SEM_INIT(3), zeroed = {0};
    EXPECT_EQ(hd_sem_acquire_try(&zeroed, 1), -EAGAIN);
    EXPECT_EQ(hd_sem_acquire_try(&zeroed, 0), 0);
    EXPECT_EQ(hd_sem_permits(&sem), 3);
    EXPECT_EQ(hd_sem_acquire(&sem, 2), 0);
    EXPECT_EQ(hd_sem_permits(&sem), 1);
    EXPECT_EQ(hd_sem_acquire_try(&sem, 2), -EAGAIN);
    EXPECT_EQ(hd_sem_acquire_until(&sem, 2, hd_after_ms(1)), -ETIMEDOUT);
    EXPECT_EQ(hd_sem_acquire_try(&sem, 1), 0);
    EXPECT_EQ(hd_sem_release(&sem, 3), 0);
    EXPECT_EQ(hd_sem_permits(&sem), 3);
    hd_sem_fini(&sem);
}

TEST(limits)
{
    hd_sem sem;
    EXPECT_EQ(hd_sem_init(&sem, HD_SEM_MAX + 1u), -EOVERFLOW);
    EXPECT_EQ(hd_sem_init(&sem, HD_SEM_MAX), 0);
    EXPECT_EQ(hd_sem_release(&sem, 1), -EOVERFLOW);
    EXPECT_EQ(hd_sem_permits(&sem), HD_SEM_MAX);
    EXPECT_EQ(hd_sem_acquire_try(&sem, HD_SEM_MAX + 1u), -EINVAL);
    EXPECT_EQ(hd_sem_acquire(&sem, HD_SEM_MAX), 0);
    EXPECT_EQ(hd_sem_release(&sem, HD_SEM_MAX), 0);
    hd_case c = HD_ACQUIRE(&sem, -1);
    EXPECT_EQ(hd_select(&c, 1), 0);
    EXPECT_EQ(c.result, -EINVAL);
}

/* ---- order ---- */

static int in_order(void *arg)
{
    (void)arg;
    hd_sem sem = {0};
    struct locks_call big, small, later;
    locks_begin(&big, acquire_three, &sem, HD_FOREVER);
    locks_begin(&small, acquire_one, &sem, HD_FOREVER);
    EXPECT_EQ(hd_sem_release(&sem, 2), 0);
    EXPECT_WAITS(&small); /* There is enough for it, but the big one came first. */
    EXPECT_WAITS(&big);
    EXPECT_EQ(hd_sem_permits(&sem), 2);
    EXPECT_EQ(hd_sem_acquire_try(&sem, 1), -EAGAIN);
    locks_begin(&later, acquire_one, &sem, HD_FOREVER);
    EXPECT_EQ(hd_sem_release(&sem, 2), 0);
    EXPECT_ENDED(&big, 0);
    EXPECT_ENDED(&small, 0);
    EXPECT_WAITS(&later);
    EXPECT_EQ(hd_sem_release(&sem, 1), 0);
    EXPECT_ENDED(&later, 0);
    EXPECT_EQ(hd_sem_permits(&sem), 0);
    EXPECT_EQ(hd_sem_release(&sem, 5), 0);
    EXPECT_EQ(hd_sem_acquire_try(&sem, 5), 0);
    hd_sem_fini(&sem);
    return 0;
}

TEST_WORLDS(a_big_request_is_not_overtaken, options) { locks_run(in_order, options, 1); }

/* When the big one gives up, those behind it get what there is. */
static int head_leaves(void *arg)
{
    (void)arg;
    hd_sem sem = HD_SEM_INIT(2);
    struct locks_call big, small, small_too, late;
    locks_begin(&big, acquire_three, &sem, HD_FOREVER);
    locks_begin(&small, acquire_one, &sem, HD_FOREVER);
    locks_begin(&small_too, acquire_one, &sem, HD_FOREVER);
    EXPECT_WAITS(&small);
    hd_cancel(big.task);
    EXPECT_ENDED(&big, -ECANCELED);
    EXPECT_ENDED(&small, 0);
    EXPECT_ENDED(&small_too, 0);
    locks_begin(&late, acquire_one, &sem, hd_after_ms(5));
    EXPECT_EQ(rt_join(late.task), -ETIMEDOUT);
    EXPECT_EQ(hd_sem_permits(&sem), 0);
    EXPECT_EQ(hd_sem_release(&sem, 1), 0);
    EXPECT_EQ(hd_sem_acquire_try(&sem, 1), 0);
    hd_sem_fini(&sem);
    return 0;
}

TEST_WORLDS(who_gives_up_takes_nothing, options) { locks_run(head_leaves, options, 1); }

/* ---- closing ---- */

static int close_it(void *arg)
{
    (void)arg;
    hd_sem sem = HD_SEM_INIT(1);
    struct locks_call waiter;
    locks_begin(&waiter, acquire_three, &sem, HD_FOREVER);
    hd_task *task = locks_poll(NULL, (hd_case)HD_ACQUIRE(&sem, 2), HD_FOREVER, NULL);
    locks_settle();
    hd_sem_close(&sem);
    EXPECT_ENDED(&waiter, -EPIPE);
    EXPECT_EQ(rt_join(task), -EPIPE);
    EXPECT_EQ(hd_sem_acquire(&sem, 1), -EPIPE);
    EXPECT_EQ(hd_sem_acquire_try(&sem, 1), -EPIPE);
    EXPECT_EQ(hd_sem_release(&sem, 1), 0);
    EXPECT_EQ(hd_sem_permits(&sem), 2);
    hd_sem_close(&sem);
    hd_sem_fini(&sem);
    return 0;
}

TEST_WORLDS(closing_ends_all_waits, options) { locks_run(close_it, options, 1); }

/* ---- stackless tasks, threads, select ---- */

static int stackless(void *arg)
{
    (void)arg;
    hd_sem sem = {0};
    hd_task *late = locks_poll(NULL, (hd_case)HD_ACQUIRE(&sem, 1), hd_after_ms(5), NULL);
    hd_task *careless = locks_poll_careless(NULL, (hd_case)HD_ACQUIRE(&sem, 2));
    hd_task *patient = locks_poll(NULL, (hd_case)HD_ACQUIRE(&sem, 1), HD_FOREVER, release_one);
    locks_settle(); /* All have queued, however long that took. */
    EXPECT_EQ(rt_join(late), -ETIMEDOUT);
    EXPECT_EQ(hd_sem_release(&sem, 2), 0);
    EXPECT_EQ(rt_join(careless), 1);
    EXPECT_EQ(rt_join(patient), 0);
    EXPECT_EQ(hd_sem_permits(&sem), 2);
    hd_sem_fini(&sem);
    return 0;
}

TEST_WORLDS(stackless_tasks_acquire_by_select, options) { locks_run(stackless, options, 1); }

static int release_later(void *sem)
{
    for (int i = 0; i < 10; i++) hd_yield();
    return hd_sem_release(sem, 3);
}

TEST_WORLDS(a_thread_is_handed_permits_by_a_fiber, options)
{
    hd_sem sem = {0};
    hd_runtime *runtime = rt_create(options);
    for (int i = 0; i < 20; i++) {
        hd_task *task = rt_spawn(runtime, release_later, &sem);
        EXPECT_EQ(hd_sem_acquire(&sem, 3), 0);
        EXPECT_EQ(rt_join(task), 0);
    }
    if (rt_is_sim(options)) EXPECT_EQ(hd_sem_acquire(&sem, 1), -EDEADLK);
    EXPECT_EQ(hd_sem_permits(&sem), 0);
    hd_sem_fini(&sem);
    hd_runtime_destroy(runtime);
}

/* ---- at most so many inside ---- */

enum { FIBERS = 10, ROUNDS = 30, PERMITS = 3 };

struct room {
    hd_sem sem;
    atomic_int inside, most;
};

static int visit(void *arg)
{
    struct room *room = arg;
    for (int i = 0; i < ROUNDS; i++) {
        const uint32_t wants = i % 5 == 0 ? PERMITS : 1;
        EXPECT_EQ(hd_sem_acquire(&room->sem, wants), 0);
        const int inside = atomic_fetch_add(&room->inside, (int)wants) + (int)wants;
        EXPECT(inside <= PERMITS);
        if (inside > atomic_load(&room->most)) atomic_store(&room->most, inside);
        hd_yield();
        atomic_fetch_sub(&room->inside, (int)wants);
        EXPECT_EQ(hd_sem_release(&room->sem, wants), 0);
    }
    return 0;
}

TEST_WORLDS(no_more_than_the_permits_are_inside, options)
{
    struct room room = {.sem = HD_SEM_INIT(PERMITS)};
    hd_runtime *runtime = rt_create(options);
    hd_task *tasks[FIBERS];
    for (int i = 0; i < FIBERS; i++) tasks[i] = rt_spawn(runtime, visit, &room);
    for (int i = 0; i < FIBERS; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    EXPECT_EQ(room.most, PERMITS);
    EXPECT_EQ(hd_sem_permits(&room.sem), PERMITS);
    hd_sem_fini(&room.sem);
    hd_runtime_destroy(runtime);
}

/* ---- misuse ---- */

static int end_waited_for(void *arg)
{
    (void)arg;
    hd_sem sem = {0};
    struct locks_call waiter;
    locks_begin(&waiter, acquire_one, &sem, HD_FOREVER);
    hd_sem_fini(&sem);
    return 0;
}

static void run_it(void *fn)
{
    const hd_options options = {.size = sizeof(options), .workers = 1};
    (void)hd_run((hd_fn *)fn, NULL, &options);
}

TEST(misuse_is_told)
{
    expect_abort(run_it, (void *)end_waited_for, "a semaphore ends while it is waited for");
}
