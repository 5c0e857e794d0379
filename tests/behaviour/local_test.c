/* SPDX-License-Identifier: MIT
 *
 * Task-local values: private to their task, whichever thread runs it; inherited if asked;
 * ended once, in the task.
 */
#include "rt.h"

TEST_MAIN

static atomic_int ended, ended_in; /* values, and the task that ended the last */

static void count_end(void *value)
{
    atomic_fetch_add(&ended, *(int *)value);
    atomic_store(&ended_in, (int)hd_self_id());
}

static const hd_local counted = HD_LOCAL(count_end, NULL);
static const hd_local plain = HD_LOCAL(NULL, NULL);
static const hd_local shared = HD_LOCAL(NULL, hd_local_share);

static int sees_its_own(void *arg)
{
    EXPECT(hd_local_get(&plain) == NULL);
    EXPECT_EQ(hd_local_set(&plain, arg), 0);
    for (int i = 0; i < 50; i++) {
        hd_yield();
        EXPECT(hd_local_get(&plain) == arg);
    }
    EXPECT_EQ(hd_local_set(&plain, NULL), 0);
    EXPECT(hd_local_get(&plain) == NULL);
    return 0;
}

static int many_see_their_own(void *arg)
{
    (void)arg;
    enum { COUNT = 20 };
    hd_task *tasks[COUNT];
    int values[COUNT];
    for (int i = 0; i < COUNT; i++) tasks[i] = rt_spawn(NULL, sees_its_own, &values[i]);
    for (int i = 0; i < COUNT; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    return 0;
}

TEST_WORLDS(each_task_has_its_own, options)
{
    rt_run(many_see_their_own, NULL, options);
}

static int sets_and_replaces(void *arg)
{
    (void)arg;
    static int one = 1, ten = 10;
    EXPECT_EQ(hd_local_set(&counted, &one), 0);
    EXPECT_EQ(hd_local_set(&counted, &one), 0); /* the same value: nothing ends */
    EXPECT_EQ(atomic_load(&ended), 0);
    EXPECT_EQ(hd_local_set(&counted, &ten), 0);
    EXPECT_EQ(atomic_load(&ended), 1);
    return (int)hd_self_id();
}

static hd_poll sets_in_a_poll(void *state, int *result)
{
    (void)state;
    *result = sets_and_replaces(NULL);
    return HD_READY;
}

static int values_end(void *arg)
{
    atomic_store(&ended, 0);
    hd_task *task = arg ? rt_spawn(NULL, sets_and_replaces, NULL)
                        : rt_spawn_poll(NULL, sets_in_a_poll, NULL, 0);
    const int id = rt_join(task);
    EXPECT_EQ(atomic_load(&ended), 11);
    EXPECT_EQ(atomic_load(&ended_in), id);
    return 0;
}

TEST_WORLDS(a_value_ends_when_replaced_and_with_its_task, options)
{
    int fiber = 1;
    rt_run(values_end, &fiber, options);
    rt_run(values_end, NULL, options);
}

static int inherits(void *arg)
{
    EXPECT(hd_local_get(&shared) == arg);
    EXPECT(hd_local_get(&plain) == NULL);
    return 0;
}

static int grandparent(void *arg)
{
    return rt_join(rt_spawn(NULL, inherits, arg));
}

static int spawns_heirs(void *arg)
{
    int value = 3;
    EXPECT_EQ(hd_local_set(&shared, &value), 0);
    EXPECT_EQ(hd_local_set(&plain, &value), 0);
    EXPECT_EQ(rt_join(rt_spawn(NULL, inherits, &value)), 0);
    EXPECT_EQ(rt_join(rt_spawn(NULL, grandparent, &value)), 0);
    EXPECT_EQ(hd_local_set(&shared, NULL), 0);
    EXPECT_EQ(rt_join(rt_spawn(NULL, inherits, NULL)), 0);
    return arg != NULL;
}

TEST_WORLDS(children_inherit_what_is_to_be_inherited, options)
{
    rt_run(spawns_heirs, NULL, options);
}

static int refuse(void *parents, void **value)
{
    (void)parents;
    (void)value;
    return -ENOMEM;
}

static const hd_local refused = HD_LOCAL(NULL, refuse);

static int copy_and_count(void *parents, void **value)
{
    *value = parents;
    atomic_fetch_add(&ended, 100);
    return 0;
}

static const hd_local copied = HD_LOCAL(count_end, copy_and_count);

static int spawn_fails(void *arg)
{
    static int one = 1;
    atomic_store(&ended, 0);
    EXPECT_EQ(hd_local_set(&copied, &one), 0);
    EXPECT_EQ(hd_local_set(&refused, &one), 0);
    hd_task *task;
    EXPECT_EQ(hd_spawn(&task, inherits, NULL), -ENOMEM);
    EXPECT_EQ(atomic_load(&ended), 101); /* What was inherited before has ended. */
    return arg != NULL;
}

TEST_WORLDS(a_spawn_fails_if_inheriting_does, options)
{
    rt_run(spawn_fails, NULL, options);
}

static const hd_local chained;
static void set_again(void *value);
static const hd_local chained = HD_LOCAL(set_again, NULL);

static void set_again(void *value)
{
    int *left = value;
    if (--*left > 0) EXPECT_EQ(hd_local_set(&chained, left), 0);
}

static int sets_chained(void *arg)
{
    EXPECT_EQ(hd_local_set(&chained, arg), 0);
    return 0;
}

TEST_WORLDS(values_set_by_destructors_end_too, options)
{
    int left = 5;
    rt_run(sets_chained, &left, options);
    EXPECT_EQ(left, 0);
}

static int many_keys(void *arg)
{
    enum { COUNT = 100 };
    static hd_local keys[COUNT];
    for (int i = 0; i < COUNT; i++) EXPECT_EQ(hd_local_set(&keys[i], &keys[i]), 0);
    for (int i = 0; i < COUNT; i += 3) EXPECT_EQ(hd_local_set(&keys[i], NULL), 0);
    for (int i = 0; i < COUNT; i++) {
        EXPECT(hd_local_get(&keys[i]) == (i % 3 ? (void *)&keys[i] : NULL));
    }
    return arg != NULL;
}

TEST_WORLDS(there_may_be_many, options)
{
    rt_run(many_keys, NULL, options);
}

TEST(outside_a_task_there_are_none)
{
    int value = 1;
    EXPECT(hd_local_get(&plain) == NULL);
    EXPECT_EQ(hd_local_set(&plain, &value), -EINVAL);
}

/* ---- what a destructor does is not the task's result ---- */

static int fails(void *arg)
{
    (void)arg;
    return -EXDEV;
}

static void leave_a_nursery(void *value)
{
    int *left = value;
    HD_NURSERY(n, .on_error = HD_ON_ERROR_COLLECT) EXPECT_EQ(hd_go(n, fails, NULL), 0);
    *left = hd_nursery_result();
}

static const hd_local leaves = HD_LOCAL(leave_a_nursery, NULL);

static int returns_seven(void *left)
{
    EXPECT_EQ(hd_local_set(&leaves, left), 0);
    return 7;
}

static int join_seven(void *arg)
{
    int left = 0;
    (void)arg;
    EXPECT_EQ(rt_join(rt_spawn(NULL, returns_seven, &left)), 7);
    EXPECT_EQ(left, -EXDEV);
    return 0;
}

TEST_WORLDS(a_nursery_in_a_destructor_is_not_the_result, options)
{
    rt_run(join_seven, NULL, options);
}
