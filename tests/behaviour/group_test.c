/* SPDX-License-Identifier: MIT
 *
 * Wait groups.
 */
#include "locks.h"

#include "death.h"

TEST_MAIN

static int await(void *group, int64_t deadline)
{
    return hd_group_wait_until(group, deadline);
}

static int wait_for_all(void *arg)
{
    (void)arg;
    hd_group group = {0};
    struct locks_call first, second;
    EXPECT_EQ(hd_group_wait(&group), 0); /* nothing to wait for */
    EXPECT_EQ(hd_group_add(&group, 2), 0);
    EXPECT_EQ(hd_group_wait_try(&group), -EAGAIN);
    locks_begin(&first, await, &group, HD_FOREVER);
    locks_begin(&second, await, &group, HD_FOREVER);
    hd_group_done(&group);
    EXPECT_EQ(hd_group_add(&group, 1), 0);
    hd_group_done(&group);
    EXPECT_WAITS(&first);
    EXPECT_WAITS(&second);
    hd_group_done(&group);
    EXPECT_ENDED(&first, 0);
    EXPECT_ENDED(&second, 0);
    EXPECT_EQ(hd_group_wait_try(&group), 0);
    EXPECT_EQ(hd_group_add(&group, 1), 0); /* and again */
    locks_begin(&first, await, &group, HD_FOREVER);
    EXPECT_WAITS(&first);
    hd_group_done(&group);
    EXPECT_ENDED(&first, 0);
    hd_group_fini(&group);
    return 0;
}

TEST_WORLDS(all_wait_until_the_count_is_0, options) { locks_run(wait_for_all, options, 1); }

static int give_up(void *arg)
{
    (void)arg;
    hd_group group = {0};
    struct locks_call cancelled, late, patient;
    EXPECT_EQ(hd_group_add(&group, 1), 0);
    locks_begin(&cancelled, await, &group, HD_FOREVER);
    locks_begin(&late, await, &group, hd_after_ms(5));
    EXPECT_EQ(rt_join(late.task), -ETIMEDOUT);
    hd_cancel(cancelled.task);
    EXPECT_ENDED(&cancelled, -ECANCELED);
    locks_begin(&patient, await, &group, HD_FOREVER);
    hd_task *task = locks_poll(NULL, (hd_case)HD_ALL_DONE(&group), HD_FOREVER, NULL);
    hd_task *careless = locks_poll_careless(NULL, (hd_case)HD_ALL_DONE(&group));
    hd_task *late_task = locks_poll(NULL, (hd_case)HD_ALL_DONE(&group), hd_after_ms(5), NULL);
    EXPECT_EQ(rt_join(late_task), -ETIMEDOUT);
    EXPECT_WAITS(&patient);
    hd_group_done(&group);
    EXPECT_ENDED(&patient, 0);
    EXPECT_EQ(rt_join(task), 0);
    EXPECT_EQ(rt_join(careless), 1);
    hd_group_fini(&group);
    return 0;
}

TEST_WORLDS(who_gives_up_has_no_effect, options) { locks_run(give_up, options, 1); }

TEST(limits)
{
    hd_group group = {0};
    EXPECT_EQ(hd_group_add(&group, HD_GROUP_MAX), 0);
    EXPECT_EQ(hd_group_add(&group, 1), -EOVERFLOW);
    EXPECT_EQ(hd_group_wait_try(&group), -EAGAIN);
}

/* ---- many; the group is gone as soon as the wait returns ---- */

enum { FIBERS = 10, ROUNDS = 20 };

struct work {
    hd_group group;
    int done[FIBERS]; /* plain: the group orders it */
    atomic_int next;
};

static int work(void *arg)
{
    struct work *w = arg;
    w->done[atomic_fetch_add(&w->next, 1)] = 1;
    hd_group_done(&w->group);
    return 0;
}

TEST_WORLDS(what_was_done_is_seen, options)
{
    hd_runtime *runtime = rt_create(options);
    for (int round = 0; round < ROUNDS; round++) {
        struct work *w = calloc(1, sizeof(*w));
        EXPECT_EQ(hd_group_add(&w->group, FIBERS), 0);
        for (int i = 0; i < FIBERS; i++) hd_detach(rt_spawn(runtime, work, w));
        EXPECT_EQ(hd_group_wait(&w->group), 0);
        for (int i = 0; i < FIBERS; i++) EXPECT_EQ(w->done[i], 1);
        memset(w, 0xff, sizeof(*w));
        free(w);
    }
    hd_runtime_destroy(runtime);
}

/* ---- misuse ---- */

static void done_too_often(void *arg)
{
    (void)arg;
    hd_group group = {0};
    EXPECT_EQ(hd_group_add(&group, 1), 0);
    hd_group_done(&group);
    hd_group_done(&group);
}

static void end_early(void *arg)
{
    (void)arg;
    hd_group group = {0};
    EXPECT_EQ(hd_group_add(&group, 1), 0);
    hd_group_fini(&group);
}

TEST(misuse_is_told)
{
    expect_abort(done_too_often, NULL, "more is done in a group than was added");
    expect_abort(end_early, NULL, "a group ends while something is not done");
}
