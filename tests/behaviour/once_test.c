/* SPDX-License-Identifier: MIT
 *
 * What is done once.
 */
#include "locks.h"

#include "death.h"

TEST_MAIN

struct thing {
    hd_once once;
    hd_sem go; /* how often `make` may go on */
    int calls, made, fail; /* fail: how many calls fail first */
};

static int make(void *arg)
{
    struct thing *t = arg;
    t->calls++;
    const int err = hd_sem_acquire(&t->go, 1);
    if (err) return err;
    if (t->fail > 0) {
        t->fail--;
        return 7;
    }
    t->made++;
    return 0;
}

static int call(void *arg, int64_t deadline)
{
    struct thing *t = arg;
    return hd_once_call_until(&t->once, make, t, deadline);
}

static int others_wait(void *arg)
{
    (void)arg;
    struct thing t = {.calls = 0};
    struct locks_call calls[3];
    for (int i = 0; i < 3; i++) locks_begin(&calls[i], call, &t, HD_FOREVER);
    for (int i = 0; i < 3; i++) EXPECT_WAITS(&calls[i]);
    EXPECT_EQ(t.calls, 1);
    EXPECT(!hd_once_done(&t.once));
    EXPECT_EQ(hd_once_call_try(&t.once, make, &t), -EAGAIN);
    EXPECT_EQ(hd_sem_release(&t.go, 1), 0);
    for (int i = 0; i < 3; i++) EXPECT_ENDED(&calls[i], 0);
    EXPECT_EQ(t.calls, 1);
    EXPECT_EQ(hd_once_call(&t.once, make, &t), 0);
    EXPECT_EQ(t.made, 1);
    EXPECT(hd_once_done(&t.once));
    hd_once_fini(&t.once);
    return 0;
}

TEST_WORLDS(the_others_wait, options) { locks_run(others_wait, options, 1); }

static int next_tries(void *arg)
{
    (void)arg;
    struct thing t = {.fail = 2};
    struct locks_call calls[3];
    for (int i = 0; i < 3; i++) locks_begin(&calls[i], call, &t, HD_FOREVER);
    EXPECT_EQ(hd_sem_release(&t.go, 1), 0);
    EXPECT_ENDED(&calls[0], 7);
    EXPECT_WAITS(&calls[1]);
    EXPECT_EQ(t.calls, 2);
    EXPECT_EQ(hd_sem_release(&t.go, 1), 0);
    EXPECT_ENDED(&calls[1], 7);
    EXPECT_EQ(hd_sem_release(&t.go, 1), 0);
    EXPECT_ENDED(&calls[2], 0);
    EXPECT_EQ(t.calls, 3);
    EXPECT_EQ(t.made, 1);
    hd_once_fini(&t.once);
    return 0;
}

TEST_WORLDS(if_it_fails_the_next_tries, options) { locks_run(next_tries, options, 1); }

/* The one that does it is cancelled, and so is one that waits. */
static int give_up(void *arg)
{
    (void)arg;
    struct thing t = {.fail = 0};
    struct locks_call does, waits, late, last;
    locks_begin(&does, call, &t, HD_FOREVER);
    locks_begin(&waits, call, &t, HD_FOREVER);
    locks_begin(&late, call, &t, hd_after_ms(5));
    locks_begin(&last, call, &t, HD_FOREVER);
    EXPECT_EQ(rt_join(late.task), -ETIMEDOUT);
    hd_cancel(waits.task);
    EXPECT_ENDED(&waits, -ECANCELED);
    hd_cancel(does.task);
    EXPECT_ENDED(&does, -ECANCELED);
    EXPECT_EQ(t.calls, 2);
    EXPECT_EQ(hd_sem_release(&t.go, 1), 0);
    EXPECT_ENDED(&last, 0);
    EXPECT_EQ(t.made, 1);
    hd_once_fini(&t.once);
    return 0;
}

TEST_WORLDS(who_gives_up_leaves_it_to_the_next, options) { locks_run(give_up, options, 1); }

static int call_again(void *arg)
{
    return hd_once_call(arg, call_again, arg);
}

TEST(it_cannot_wait_for_itself)
{
    hd_once once = {0};
    EXPECT_EQ(hd_once_call(&once, call_again, &once), -EDEADLK);
    EXPECT(!hd_once_done(&once));
    hd_once_fini(&once);
}

/* ---- many ---- */

enum { FIBERS = 8 };

struct lazy {
    hd_once once;
    int value;
};

static int fill(void *arg)
{
    struct lazy *lazy = arg;
    hd_yield();
    lazy->value += 42;
    return 0;
}

static int use(void *arg)
{
    struct lazy *lazy = arg;
    EXPECT_EQ(hd_once_call(&lazy->once, fill, lazy), 0);
    EXPECT_EQ(lazy->value, 42);
    return 0;
}

TEST_WORLDS(all_see_what_was_done, options)
{
    hd_runtime *runtime = rt_create(options);
    for (int round = 0; round < 20; round++) {
        struct lazy lazy = {.value = 0};
        hd_task *tasks[FIBERS];
        for (int i = 0; i < FIBERS; i++) tasks[i] = rt_spawn(runtime, use, &lazy);
        EXPECT_EQ(use(&lazy), 0);
        for (int i = 0; i < FIBERS; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
        hd_once_fini(&lazy.once);
    }
    hd_runtime_destroy(runtime);
}

static int end_it(void *once)
{
    hd_once_fini(once);
    return 0;
}

static void end_under_way(void *arg)
{
    (void)arg;
    hd_once once = {0};
    (void)!hd_once_call(&once, end_it, &once);
}

TEST(misuse_is_told)
{
    expect_abort(end_under_way, NULL, "a once ends while it is under way");
}
