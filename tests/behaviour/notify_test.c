/* SPDX-License-Identifier: MIT
 *
 * Notifications.
 */
#include "locks.h"

#include "death.h"

TEST_MAIN

static int await(void *notify, int64_t deadline)
{
    return hd_notify_wait_until(notify, deadline);
}

TEST(one_is_remembered)
{
    hd_notify notify = {0};
    EXPECT_EQ(hd_notify_wait_try(&notify), -EAGAIN);
    hd_notify_one(&notify);
    hd_notify_one(&notify);
    hd_notify_all(&notify);
    EXPECT_EQ(hd_notify_wait(&notify), 0);
    EXPECT_EQ(hd_notify_wait_try(&notify), -EAGAIN);
    hd_notify_all(&notify); /* Nobody waits: nothing is remembered. */
    EXPECT_EQ(hd_notify_wait_until(&notify, hd_after_ms(1)), -ETIMEDOUT);
    hd_notify_fini(&notify);
}

static int one_and_all(void *arg)
{
    (void)arg;
    hd_notify notify = {0};
    struct locks_call waiters[4];
    for (int i = 0; i < 4; i++) locks_begin(&waiters[i], await, &notify, HD_FOREVER);
    hd_notify_one(&notify);
    EXPECT_ENDED(&waiters[0], 0); /* the one that waits longest */
    for (int i = 1; i < 4; i++) EXPECT_WAITS(&waiters[i]);
    hd_notify_all(&notify);
    for (int i = 1; i < 4; i++) EXPECT_ENDED(&waiters[i], 0);
    EXPECT_EQ(hd_notify_wait_try(&notify), -EAGAIN);
    hd_notify_fini(&notify);
    return 0;
}

TEST_WORLDS(one_is_woken_or_all, options) { locks_run(one_and_all, options, 1); }

static int give_up(void *arg)
{
    (void)arg;
    hd_notify notify = {0};
    struct locks_call cancelled, late, patient;
    locks_begin(&cancelled, await, &notify, HD_FOREVER);
    locks_begin(&late, await, &notify, hd_after_ms(5));
    locks_begin(&patient, await, &notify, HD_FOREVER);
    hd_cancel(cancelled.task);
    hd_notify_one(&notify); /* Whoever got it, it is not lost. */
    EXPECT_EQ(rt_join(late.task), -ETIMEDOUT);
    const int first = rt_join(cancelled.task);
    EXPECT(first == 0 || first == -ECANCELED);
    if (first == 0) {
        EXPECT_WAITS(&patient);
        hd_notify_one(&notify);
    }
    EXPECT_ENDED(&patient, 0);
    locks_begin(&cancelled, await, &notify, HD_FOREVER);
    hd_cancel(cancelled.task);
    EXPECT_ENDED(&cancelled, -ECANCELED);
    EXPECT_EQ(hd_notify_wait_try(&notify), -EAGAIN);
    hd_notify_one(&notify);
    EXPECT_EQ(hd_notify_wait_try(&notify), 0);
    hd_notify_fini(&notify);
    return 0;
}

TEST_WORLDS(who_gives_up_takes_nothing, options)
{
    const hd_options own = rt_workers(options, 1);
    rt_run(give_up, NULL, &own);
}

static int stackless(void *arg)
{
    (void)arg;
    hd_notify notify = {0};
    hd_task *late = locks_poll(NULL, (hd_case)HD_NOTIFIED(&notify), hd_after_ms(5), NULL);
    EXPECT_EQ(rt_join(late), -ETIMEDOUT);
    hd_task *careless = locks_poll_careless(NULL, (hd_case)HD_NOTIFIED(&notify));
    locks_settle();
    hd_task *patient = locks_poll(NULL, (hd_case)HD_NOTIFIED(&notify), HD_FOREVER, NULL);
    locks_settle();
    hd_notify_one(&notify);
    EXPECT_EQ(rt_join(careless), 1); /* It did not look: the next one gets it. */
    EXPECT_EQ(rt_join(patient), 0);
    EXPECT_EQ(hd_notify_wait_try(&notify), -EAGAIN);
    careless = locks_poll_careless(NULL, (hd_case)HD_NOTIFIED(&notify));
    locks_settle();
    hd_notify_all(&notify);
    EXPECT_EQ(rt_join(careless), 1);
    EXPECT_EQ(hd_notify_wait_try(&notify), -EAGAIN); /* That was for nobody else. */
    hd_notify_fini(&notify);
    return 0;
}

TEST_WORLDS(stackless_tasks_wait_by_select, options) { locks_run(stackless, options, 1); }

/* ---- a mailbox of one: nothing written is overlooked ---- */

enum { LAST = 300 };

struct mailbox {
    hd_notify news;
    atomic_int number;
};

static int read_news(void *arg)
{
    struct mailbox *m = arg;
    int seen = 0;
    while (seen < LAST) {
        EXPECT_EQ(hd_notify_wait(&m->news), 0);
        const int now = atomic_load_explicit(&m->number, memory_order_relaxed);
        EXPECT(now >= seen);
        seen = now;
    }
    return 0;
}

TEST_WORLDS(no_news_is_overlooked, options)
{
    struct mailbox m = {.number = 0};
    hd_runtime *runtime = rt_create(options);
    hd_task *task = rt_spawn(runtime, read_news, &m);
    for (int i = 1; i <= LAST; i++) {
        atomic_store_explicit(&m.number, i, memory_order_relaxed);
        hd_notify_one(&m.news);
    }
    EXPECT_EQ(rt_join(task), 0);
    hd_notify_fini(&m.news);
    hd_runtime_destroy(runtime);
}

static int end_waited_for(void *arg)
{
    (void)arg;
    hd_notify notify = {0};
    struct locks_call waiter;
    locks_begin(&waiter, await, &notify, HD_FOREVER);
    hd_notify_fini(&notify);
    return 0;
}

static void run_it(void *arg)
{
    (void)arg;
    const hd_options options = {.size = sizeof(options), .workers = 1};
    (void)hd_run(end_waited_for, NULL, &options);
}

TEST(misuse_is_told)
{
    expect_abort(run_it, NULL, "a notification ends while it is waited for");
}
