/* SPDX-License-Identifier: MIT
 *
 * Ending: drain, shutdown and destroy, with tasks in every state.
 */
#include "rt.h"

#include <pthread.h>

#include "death.h"

TEST_MAIN

#define MS INT64_C(1000000)

struct sleeper {
    hd_waker waker;
    atomic_int asleep, open;
    int saw, shields;
    int unwound; /* frames that ran their end */
};

static int sleep_deep(struct sleeper *self, int depth)
{
    int err = 0;
    if (depth > 0) {
        err = sleep_deep(self, depth - 1);
    } else {
        self->waker = hd_waker_self();
        atomic_store(&self->asleep, 1);
        while (!atomic_load(&self->open) && err == 0) err = hd_park();
        self->saw = err;
    }
    self->unwound++;
    return err;
}

static int sleep_in_fiber(void *arg)
{
    struct sleeper *self = arg;
    for (int i = 0; i < self->shields; i++) EXPECT_EQ(hd_shield(), 0);
    const int err = sleep_deep(self, 9);
    for (int i = 0; i < self->shields; i++) EXPECT_EQ(hd_unshield(), 0);
    return err;
}

static void let_go(struct sleeper *sleeper)
{
    atomic_store(&sleeper->open, 1);
    hd_waker_wake(sleeper->waker);
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static hd_poll nothing_poll(void *state, int *result)
{
    (void)state;
    *result = 0;
    return HD_READY;
}

static void expect_refused(hd_runtime *runtime)
{
    hd_spawn_options spawn = HD_SPAWN_OPTIONS_INIT;
    spawn.runtime = runtime;
    hd_task *task = NULL;
    EXPECT_EQ(hd_spawn_with(&task, nothing, NULL, &spawn), -ESHUTDOWN);
    EXPECT_EQ(hd_spawn_poll_with(&task, nothing_poll, NULL, 0, &spawn), -ESHUTDOWN);
    EXPECT(task == NULL);
}

/* ---- drain ---- */

TEST_WORLDS(draining_an_empty_runtime_returns_at_once, options)
{
    hd_runtime *runtime = rt_create(options);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_NOW), 0);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    EXPECT_EQ(rt_join(rt_spawn(runtime, nothing, NULL)), 0); /* it goes on */
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    hd_runtime_destroy(runtime);
}

TEST_WORLDS(a_drain_waits_until_its_deadline, options)
{
    hd_runtime *runtime = rt_create(options);
    struct sleeper sleeper = {.open = 0};
    hd_task *task = rt_spawn(runtime, sleep_in_fiber, &sleeper);
    rt_await(runtime, &sleeper.asleep);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_NOW), -ETIMEDOUT);
    const int64_t deadline = hd_now(runtime) + 2 * MS;
    EXPECT_EQ(hd_runtime_drain(runtime, deadline), -ETIMEDOUT);
    EXPECT(hd_now(runtime) >= deadline);
    EXPECT_EQ(sleeper.saw, 0); /* nobody was cancelled */
    let_go(&sleeper);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    EXPECT_EQ(rt_join(task), 0);
    hd_runtime_destroy(runtime);
}

TEST(in_sim_a_drain_that_can_never_end_says_so)
{
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_SIM};
    hd_runtime *runtime = rt_create(&options);
    struct sleeper sleeper = {.open = 0};
    hd_detach(rt_spawn(runtime, sleep_in_fiber, &sleeper));
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), -EDEADLK);
    let_go(&sleeper);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    hd_runtime_destroy(runtime);
}

static atomic_int ended;

static int spawn_tree(void *arg)
{
    const int depth = *(int *)arg;
    static int depths[] = {0, 1, 2, 3, 4, 5, 6, 7};
    if (depth > 0) {
        EXPECT_EQ(hd_spawn(NULL, spawn_tree, &depths[depth - 1]), 0);
        hd_yield();
        EXPECT_EQ(hd_spawn(NULL, spawn_tree, &depths[depth - 1]), 0);
    }
    atomic_fetch_add(&ended, 1);
    return 0;
}

TEST_WORLDS(a_drain_waits_for_what_tasks_spawn_meanwhile, options)
{
    hd_runtime *runtime = rt_create(options);
    int depth = 7;
    hd_detach(rt_spawn(runtime, spawn_tree, &depth));
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    EXPECT_EQ(ended, 255);
    hd_runtime_destroy(runtime);
}

static void *spawn_some(void *runtime)
{
    int depth = 2;
    for (int i = 0; i < 20; i++) EXPECT_EQ(rt_join(rt_spawn(runtime, spawn_tree, &depth)), 0);
    return NULL;
}

TEST_WORLDS(a_drain_returns_after_other_threads_took_part, options)
{
    hd_runtime *runtime = rt_create(options);
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, spawn_some, runtime), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    EXPECT_EQ(ended, 20 * 7);
    struct sleeper sleeper = {.open = 0};
    hd_detach(rt_spawn(runtime, sleep_in_fiber, &sleeper));
    rt_await(runtime, &sleeper.asleep);
    EXPECT_EQ(hd_runtime_drain(runtime, hd_now(runtime) + 2 * MS), -ETIMEDOUT);
    hd_waker_drop(sleeper.waker);
    EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0);
    EXPECT_EQ(sleeper.saw, -ECANCELED);
    hd_runtime_destroy(runtime);
}

static void *drain_it(void *runtime)
{
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    return NULL;
}

TEST_WORLDS(several_threads_drain_at_once, options)
{
    hd_runtime *runtime = rt_create(options);
    int depth = 6;
    hd_detach(rt_spawn(runtime, spawn_tree, &depth));
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) EXPECT_EQ(pthread_create(&threads[i], NULL, drain_it, runtime), 0);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    for (int i = 0; i < 3; i++) EXPECT_EQ(pthread_join(threads[i], NULL), 0);
    EXPECT_EQ(ended, 127);
    hd_runtime_destroy(runtime);
}

/* ---- shutdown ---- */

TEST_WORLDS(after_a_shutdown_spawns_are_refused, options)
{
    hd_runtime *runtime = rt_create(options);
    EXPECT_EQ(rt_join(rt_spawn(runtime, nothing, NULL)), 0);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(hd_runtime_shutdown(runtime, i ? HD_FOREVER : HD_NOW), 0);
        expect_refused(runtime);
        EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    }
    hd_runtime_destroy(runtime);
}

TEST_WORLDS(sleeping_fibers_are_unwound_through_their_own_code, options)
{
    hd_runtime *runtime = rt_create(options);
    struct sleeper sleepers[20] = {{.open = 0}};
    hd_task *kept = NULL;
    for (int i = 0; i < 20; i++) {
        hd_task *task = rt_spawn(runtime, sleep_in_fiber, &sleepers[i]);
        if (i == 19) {
            kept = task;
        } else {
            hd_detach(task);
        }
        if (i % 2) rt_await(runtime, &sleepers[i].asleep); /* the others may not have begun */
    }
    EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0);
    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(sleepers[i].unwound, 10);
        EXPECT_EQ(sleepers[i].saw, -ECANCELED);
        hd_waker_drop(sleepers[i].waker);
    }
    EXPECT_EQ(rt_join(kept), -ECANCELED); /* a handle outlives the shutdown */
    hd_runtime_destroy(runtime);
}

TEST_WORLDS(a_shielded_fiber_holds_a_shutdown_up_until_it_is_woken, options)
{
    hd_runtime *runtime = rt_create(options);
    struct sleeper shielded = {.shields = 2}, plain = {.open = 0};
    hd_task *task = rt_spawn(runtime, sleep_in_fiber, &shielded);
    hd_detach(rt_spawn(runtime, sleep_in_fiber, &plain));
    rt_await(runtime, &shielded.asleep);
    rt_await(runtime, &plain.asleep);
    EXPECT_EQ(hd_runtime_shutdown(runtime, hd_now(runtime) + 2 * MS), -ETIMEDOUT);
    expect_refused(runtime);
    EXPECT_EQ(hd_join_try(task, NULL), -EAGAIN);
    EXPECT_EQ(hd_runtime_shutdown(runtime, HD_NOW), -ETIMEDOUT);
    let_go(&shielded);
    EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0);
    EXPECT_EQ(shielded.saw, 0);
    EXPECT_EQ(plain.saw, -ECANCELED);
    EXPECT_EQ(rt_join(task), 0);
    hd_waker_drop(plain.waker);
    hd_runtime_destroy(runtime);
}

struct spawner {
    atomic_int spawned, refused;
};

static int spawn_until_refused(void *arg)
{
    struct spawner *self = arg;
    int err;
    while ((err = hd_spawn(NULL, nothing, NULL)) == 0) {
        atomic_fetch_add(&self->spawned, 1);
        hd_yield();
    }
    atomic_fetch_add(&self->refused, err == -ESHUTDOWN);
    return err;
}

TEST_WORLDS(tasks_that_keep_spawning_are_stopped_by_a_shutdown, options)
{
    hd_runtime *runtime = rt_create(options);
    struct spawner spawner = {.spawned = 0};
    for (int i = 0; i < 5; i++) hd_detach(rt_spawn(runtime, spawn_until_refused, &spawner));
    rt_await(runtime, &spawner.spawned);
    EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0);
    EXPECT_EQ(spawner.refused, 5);
    hd_stats stats;
    hd_runtime_stats(runtime, &stats);
    EXPECT_EQ(stats.alive, 0);
    EXPECT_EQ(stats.submitted, stats.completed);
    hd_runtime_destroy(runtime);
}

/* ---- from inside ---- */

static int end_from_inside(void *arg)
{
    EXPECT_EQ(hd_runtime_drain(arg, HD_NOW), -EINVAL);
    EXPECT_EQ(hd_runtime_shutdown(arg, HD_NOW), -EINVAL);
    return 0;
}

static hd_poll end_from_inside_poll(void *state, int *result)
{
    *result = end_from_inside(*(hd_runtime **)state);
    return HD_READY;
}

TEST_WORLDS(a_runtime_does_not_end_from_inside, options)
{
    hd_runtime *runtime = rt_create(options);
    EXPECT_EQ(rt_join(rt_spawn(runtime, end_from_inside, runtime)), 0);
    hd_task *task = rt_spawn_poll(runtime, end_from_inside_poll, &runtime, sizeof(void *));
    EXPECT_EQ(rt_join(task), 0);
    EXPECT_EQ(rt_join(rt_spawn(runtime, nothing, NULL)), 0); /* spawns are not refused */
    hd_runtime_destroy(runtime);
}

/* ---- destroy ---- */

static int leave_tasks_behind(void *arg)
{
    struct sleeper *sleepers = arg;
    for (int i = 0; i < 3; i++) EXPECT_EQ(hd_spawn(NULL, sleep_in_fiber, &sleepers[i]), 0);
    for (int i = 0; i < 3; i++) rt_until(&sleepers[i].asleep);
    for (int i = 0; i < 3; i++) hd_waker_drop(sleepers[i].waker);
    return 12;
}

TEST_WORLDS(run_cancels_what_its_first_fiber_left_behind, options)
{
    struct sleeper sleepers[3] = {{.open = 0}};
    EXPECT_EQ(hd_run(leave_tasks_behind, sleepers, options), 12);
    for (int i = 0; i < 3; i++) EXPECT_EQ(sleepers[i].unwound, 10);
}

enum misuse { HANDLE, WAKER, LARGE, INSIDE, SHIELDED };

struct ending {
    const hd_options *options;
    enum misuse what;
    hd_runtime *runtime;
};

static int destroy_from_inside(void *runtime)
{
    hd_runtime_destroy(runtime);
    return 0;
}

static int give_waker(void *arg)
{
    *(hd_waker *)arg = hd_waker_self();
    return 0;
}

static const hd_site here = {"some/file.c", 77, "somewhere"};

static void destroy_too_early(void *arg)
{
    struct ending *ending = arg;
    hd_runtime *runtime = rt_create(ending->options);
    static hd_waker waker;
    static struct sleeper sleeper = {.shields = 1};
    hd_spawn_options spawn = {.size = sizeof(spawn), .runtime = runtime, .site = &here};
    spawn.name = "forgotten";
    hd_task *task;
    switch (ending->what) {
    case HANDLE: EXPECT_EQ(hd_spawn_with(&task, nothing, NULL, &spawn), 0); break;
    case WAKER: EXPECT_EQ(hd_spawn_with(NULL, give_waker, &waker, &spawn), 0); break;
    case LARGE: EXPECT_EQ(hd_spawn_poll_with(&task, nothing_poll, NULL, 5000, &spawn), 0); break;
    case INSIDE: (void)rt_join(rt_spawn(runtime, destroy_from_inside, runtime)); break;
    case SHIELDED: EXPECT_EQ(hd_spawn_with(NULL, sleep_in_fiber, &sleeper, &spawn), 0); break;
    }
    if (ending->what == SHIELDED) rt_await(runtime, &sleeper.asleep);
    hd_runtime_destroy(runtime);
}

TEST_WORLDS(destroying_with_a_handle_or_waker_left_names_the_task, options)
{
    for (int what = HANDLE; what <= LARGE; what++) {
        struct ending ending = {.options = options, .what = (enum misuse)what};
        const struct death death = death_of(destroy_too_early, &ending);
        EXPECT_EQ(death_signal(&death), SIGABRT);
        EXPECT(strstr(death.text, "\"forgotten\""));
        EXPECT(strstr(death.text, "some/file.c:77"));
        EXPECT(strstr(death.text, "task 1 "));
        EXPECT(strstr(death.text, "hd_runtime_destroy() with handles or wakers alive"));
    }
}

TEST_WORLDS(destroying_from_inside_dies_with_a_clear_message, options)
{
    struct ending ending = {.options = options, .what = INSIDE};
    expect_abort(destroy_too_early, &ending, "hd_runtime_destroy() from inside the runtime");
}

TEST(in_sim_destroying_with_a_task_that_can_never_end_dies_with_a_clear_message)
{
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_SIM};
    struct ending ending = {.options = &options, .what = SHIELDED};
    expect_abort(destroy_too_early, &ending, "tasks are left that can never end");
}
