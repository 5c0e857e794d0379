/* SPDX-License-Identifier: MIT
 *
 * Conditions.
 */
#include "locks.h"

#include <pthread.h>

#include "death.h"

TEST_MAIN

struct box {
    hd_mutex mutex;
    hd_cond cond;
    int items, takers;
    bool closed;
};

/* Waits for an item and takes it. */
static int take_until(void *arg, int64_t deadline)
{
    struct box *b = arg;
    int err = hd_mutex_lock(&b->mutex);
    if (err) return err;
    b->takers++;
    while (b->items == 0 && !b->closed && !err) {
        err = hd_cond_wait_until(&b->cond, &b->mutex, deadline);
        EXPECT(hd_mutex_held(&b->mutex)); /* whatever it returned */
    }
    if (!err) b->items--;
    b->takers--;
    hd_mutex_unlock(&b->mutex);
    return err;
}

static void put(struct box *b, int items, bool all)
{
    EXPECT_EQ(hd_mutex_lock(&b->mutex), 0);
    b->items += items;
    if (all) {
        hd_cond_broadcast(&b->cond);
    } else {
        for (int i = 0; i < items; i++) hd_cond_signal(&b->cond);
    }
    hd_mutex_unlock(&b->mutex);
}

static void box_fini(struct box *b)
{
    hd_cond_fini(&b->cond);
    hd_mutex_fini(&b->mutex);
}

/* ---- one by one ---- */

static int signal_and_broadcast(void *arg)
{
    (void)arg;
    struct box b = {.items = 0};
    struct locks_call takers[4];
    hd_cond_signal(&b.cond); /* Nobody waits: it has no effect. */
    for (int i = 0; i < 4; i++) locks_begin(&takers[i], take_until, &b, HD_FOREVER);
    EXPECT_EQ(b.takers, 4);
    put(&b, 1, false);
    EXPECT_ENDED(&takers[0], 0); /* the one that waits longest */
    for (int i = 1; i < 4; i++) EXPECT_WAITS(&takers[i]);
    put(&b, 3, true);
    for (int i = 1; i < 4; i++) EXPECT_ENDED(&takers[i], 0);
    EXPECT_EQ(b.items, 0);
    box_fini(&b);
    return 0;
}

TEST_WORLDS(one_is_woken_or_all, options) { locks_run(signal_and_broadcast, options, 1); }

static int give_up(void *arg)
{
    (void)arg;
    struct box b = {.items = 0};
    struct locks_call cancelled, late, patient;
    locks_begin(&cancelled, take_until, &b, HD_FOREVER);
    locks_begin(&late, take_until, &b, hd_after_ms(5));
    locks_begin(&patient, take_until, &b, HD_FOREVER);
    EXPECT_EQ(rt_join(late.task), -ETIMEDOUT);
    EXPECT_EQ(hd_mutex_lock(&b.mutex), 0);
    hd_cancel(cancelled.task);
    EXPECT_WAITS(&cancelled); /* It has to have the mutex first. */
    hd_mutex_unlock(&b.mutex);
    EXPECT_ENDED(&cancelled, -ECANCELED);
    put(&b, 1, false); /* The signal reaches the one that is left. */
    EXPECT_ENDED(&patient, 0);
    box_fini(&b);
    return 0;
}

TEST_WORLDS(who_gives_up_has_the_mutex_and_used_no_signal, options)
{
    locks_run(give_up, options, 1);
}

static int at_once(void *arg)
{
    struct box b = {.items = 0};
    while (!hd_cancelled()) hd_yield();
    EXPECT_EQ(hd_mutex_lock_try(&b.mutex), 0);
    EXPECT_EQ(hd_cond_wait(&b.cond, &b.mutex), -ECANCELED);
    EXPECT_EQ(hd_cond_wait_until(&b.cond, &b.mutex, HD_NOW), -EAGAIN);
    EXPECT(hd_mutex_held(&b.mutex));
    hd_mutex_unlock(&b.mutex);
    box_fini(&b);
    return arg == NULL;
}

TEST_WORLDS(a_cancelled_task_does_not_wait, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_task *task = rt_spawn(runtime, at_once, runtime);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), 0);
    hd_runtime_destroy(runtime);
}

/* ---- many, with threads ---- */

enum { TAKERS = 6, ITEMS = 40 };

static int take_many(void *arg)
{
    for (int i = 0; i < ITEMS; i++) EXPECT_EQ(take_until(arg, HD_FOREVER), 0);
    return 0;
}

static void *take_many_thread(void *arg)
{
    (void)take_many(arg);
    return NULL;
}

TEST_WORLDS(every_item_wakes_a_taker, options)
{
    struct box b = {.items = 0};
    hd_runtime *runtime = rt_create(options);
    hd_task *tasks[TAKERS];
    for (int i = 0; i < TAKERS; i++) tasks[i] = rt_spawn(runtime, take_many, &b);
    for (int i = 0; i < TAKERS * ITEMS; i += 2) put(&b, 2, i % 8 == 0);
    for (int i = 0; i < TAKERS; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    EXPECT_EQ(b.items, 0);
    box_fini(&b);
    hd_runtime_destroy(runtime);
}

TEST(threads_wait_too)
{
    struct box b = {.items = 0};
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_LIVE, .workers = 2};
    hd_runtime *runtime = rt_create(&options);
    hd_task *task = rt_spawn(runtime, take_many, &b);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, take_many_thread, &b);
    for (int i = 0; i < 3 * ITEMS; i++) put(&b, 1, false);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    EXPECT_EQ(rt_join(task), 0);
    EXPECT_EQ(b.items, 0);
    EXPECT_EQ(take_until(&b, hd_after_ms(1)), -ETIMEDOUT);
    box_fini(&b);
    hd_runtime_destroy(runtime);
}

/* ---- misuse ---- */

static void wait_without(void *arg)
{
    (void)arg;
    struct box b = {.items = 0};
    (void)!hd_cond_wait(&b.cond, &b.mutex);
}

TEST(misuse_is_told)
{
    expect_abort(wait_without, NULL, "a condition is waited for without holding its mutex");
}
