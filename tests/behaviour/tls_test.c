/* SPDX-License-Identifier: MIT
 *
 * What a fiber sees of its thread when it changes threads: errno, thread-local variables
 * and pthread_self() are the thread's. HD_PINNED keeps the thread, hd_local the value.
 * docs/tls-and-errno.md tells it to users.
 */
#include "rt.h"

#include <pthread.h>

#include <heddle/dispatcher.h>
#include <heddle/local.h>

TEST_MAIN

/* Each access in a call of its own, which the compiler cannot look into: it may keep the
 * address of a thread-local variable, errno's too, as long as it sees no reason not to. */
#define OPAQUE __attribute__((noinline))

static __thread int thread_value;

static OPAQUE int *value_address(void)
{
    int *address = &thread_value;
    __asm__ volatile("" : "+r"(address)); /* clang would return it at the caller's place */
    return address;
}

static OPAQUE int get_errno(void)
{
    __asm__ volatile("");
    return errno;
}

static OPAQUE void set_errno(int value)
{
    __asm__ volatile("");
    errno = value;
}

static OPAQUE pthread_t thread_self(void)
{
    __asm__ volatile("");
    return pthread_self();
}

static bool same_thread(pthread_t thread)
{
    return pthread_equal(thread, thread_self());
}

static hd_options live(unsigned workers)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = workers;
    return options;
}

static void run_live(hd_fn *fn, unsigned workers)
{
    const hd_options options = live(workers);
    rt_run(fn, NULL, &options);
}

/* ---- moved on purpose ---- */

static int visit_another_thread(void *arg)
{
    (void)arg;
    hd_dispatcher *single;
    EXPECT_EQ(hd_dispatcher_single(&single, hd_runtime_self()), 0);
    const pthread_t home = thread_self();
    int *const at_home = value_address();
    *at_home = 1;
    set_errno(1111);
    for (int visit = 0; visit < 10; visit++) {
        HD_ON(single) {
            EXPECT(!same_thread(home));
            EXPECT(value_address() != at_home);
            EXPECT_EQ(*value_address(), visit == 0 ? 0 : 2); /* as we left it here */
            if (visit > 0) EXPECT_EQ(get_errno(), 2222);
            *value_address() = 2;
            set_errno(2222);
        }
        EXPECT(same_thread(home)); /* There is one worker at home. */
        EXPECT(value_address() == at_home);
        EXPECT_EQ(*value_address(), 1);
        EXPECT_EQ(get_errno(), 1111);
    }
    hd_dispatcher_unref(single);
    return 0;
}

TEST(errno_and_thread_variables_stay_with_the_thread)
{
    run_live(visit_another_thread, 1);
}

/* ---- shared with the other fibers of the thread ---- */

static int scribble(void *arg)
{
    (void)arg;
    set_errno(3333);
    *value_address() = 3;
    return 0;
}

static int be_scribbled_over(void *arg)
{
    (void)arg;
    hd_task *task = rt_spawn(NULL, scribble, NULL);
    set_errno(1111);
    *value_address() = 1;
    const int saved = get_errno(); /* what a program does that needs it later */
    EXPECT_EQ(rt_join(task), 0);
    EXPECT_EQ(get_errno(), 3333);
    EXPECT_EQ(*value_address(), 3);
    EXPECT_EQ(saved, 1111);
    return 0;
}

TEST_WORLDS(other_fibers_of_the_thread_see_and_change_them, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(be_scribbled_over, NULL, &one);
}

/* ---- moved by the scheduler ---- */

static int spin_until_set(void *flag)
{
    while (!atomic_load((atomic_int *)flag)) continue; /* keeps its worker */
    return 0;
}

/* Yield while another fiber keeps this worker busy, or, if that one was stolen, the other.
 * Returns whether the thread was changed. */
static bool try_to_move(void)
{
    const pthread_t before = thread_self();
    atomic_int flag = 0;
    hd_task *task = rt_spawn(NULL, spin_until_set, &flag);
    hd_yield();
    const bool moved = !same_thread(before);
    atomic_store(&flag, 1);
    EXPECT_EQ(rt_join(task), 0);
    return moved || !same_thread(before);
}

static int move_by_chance(void *arg)
{
    (void)arg;
    int *const before = value_address();
    int tries = 1;
    for (; !try_to_move() && value_address() == before; tries++) continue; /* or the alarm */
    fprintf(stderr, "# moved at try %d\n", tries);
    return 0;
}

TEST(an_ordinary_fiber_changes_threads)
{
    run_live(move_by_chance, 2);
}

static int stay(void *arg)
{
    (void)arg;
    const pthread_t home = thread_self();
    int *const at_home = value_address();
    for (int i = 0; i < 200; i++) {
        if (i % 3 == 0) EXPECT_EQ(hd_sleep_until(hd_now(NULL) + 1000), 0);
        hd_yield();
        EXPECT(same_thread(home));
        EXPECT(value_address() == at_home);
    }
    return 0;
}

static int yield_a_lot(void *flag)
{
    rt_until(flag);
    return 0;
}

static int stay_among_others(void *arg)
{
    (void)arg;
    enum { PINNED = 4, OTHERS = 8 };
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.flags = HD_PINNED;
    hd_task *pinned[PINNED], *others[OTHERS];
    atomic_int over = 0;
    for (int i = 0; i < OTHERS; i++) others[i] = rt_spawn(NULL, yield_a_lot, &over);
    for (int i = 0; i < PINNED; i++) {
        EXPECT_EQ(hd_spawn_with(&pinned[i], stay, NULL, &options), 0);
    }
    for (int i = 0; i < PINNED; i++) EXPECT_EQ(rt_join(pinned[i]), 0);
    atomic_store(&over, 1);
    for (int i = 0; i < OTHERS; i++) EXPECT_EQ(rt_join(others[i]), 0);
    return 0;
}

TEST(a_pinned_fiber_does_not)
{
    run_live(stay_among_others, 3);
}

/* It waits for its thread, even if another is free: with the same means as above. */
static int stay_when_pushed(void *arg)
{
    (void)arg;
    const pthread_t home = thread_self();
    *value_address() = 77;
    set_errno(1111);
    for (int i = 0; i < 200; i++) {
        atomic_int flag = 0;
        hd_task *task = rt_spawn(NULL, spin_until_set, &flag);
        atomic_store(&flag, 1); /* It may run here, so it must not wait for us. */
        hd_yield();
        EXPECT_EQ(rt_join(task), 0);
        EXPECT(same_thread(home));
        EXPECT_EQ(*value_address(), 77);
        EXPECT_EQ(get_errno(), 1111); /* Nobody else here sets it, and Heddle does not. */
    }
    return 0;
}

TEST(errno_and_thread_variables_stay_with_a_pinned_fiber)
{
    const hd_options options = live(2);
    hd_runtime *runtime = rt_create(&options);
    hd_spawn_options spawn = HD_SPAWN_OPTIONS_INIT;
    spawn.runtime = runtime;
    spawn.flags = HD_PINNED;
    hd_task *task;
    EXPECT_EQ(hd_spawn_with(&task, stay_when_pushed, NULL, &spawn), 0);
    EXPECT_EQ(rt_join(task), 0);
    hd_runtime_destroy(runtime);
}

/* ---- what belongs to the task ---- */

static int destroyed;

static void count_destroyed(void *value)
{
    destroyed += *(int *)value;
}

static const hd_local key = HD_LOCAL(count_destroyed, NULL);

static int keep_across_threads(void *arg)
{
    (void)arg;
    int mine = 5;
    hd_dispatcher *single;
    EXPECT_EQ(hd_dispatcher_single(&single, hd_runtime_self()), 0);
    EXPECT(hd_local_get(&key) == NULL);
    EXPECT_EQ(hd_local_set(&key, &mine), 0);
    for (int i = 0; i < 10; i++) {
        HD_ON(single) EXPECT(hd_local_get(&key) == &mine);
        EXPECT(hd_local_get(&key) == &mine);
        EXPECT_EQ(rt_join(rt_spawn(NULL, scribble, NULL)), 0);
    }
    EXPECT_EQ(hd_local_set(&key, NULL), 0); /* It would not outlive this frame. */
    EXPECT_EQ(destroyed, 5);
    hd_dispatcher_unref(single);
    return 0;
}

TEST_WORLDS(a_task_local_value_goes_with_the_task, options)
{
    rt_run(keep_across_threads, NULL, options);
}
