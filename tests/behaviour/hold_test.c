/* SPDX-License-Identifier: MIT
 *
 * Fibers that wait while they hold what belongs to a thread.
 */
#include "locks.h"

#include <pthread.h>

#include "death.h"

TEST_MAIN

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const hd_site *spawned_at, *locked_at;

static void lock(void)
{
    pthread_mutex_lock(&mutex);
    locked_at = HD_SITE;
    hd_hold_begin(locked_at);
}

static void unlock(void)
{
    hd_hold_end();
    pthread_mutex_unlock(&mutex);
}

/* ---- what is fine ---- */

static int careful(void *arg)
{
    (void)arg;
    EXPECT_EQ(HD_PTHREAD_LOCK(&mutex), 0);
    EXPECT_EQ(HD_PTHREAD_UNLOCK(&mutex), 0);
    lock();
    hd_hold_begin(HD_SITE);
    hd_hold_end();
    unlock();
    hd_yield();
    EXPECT_EQ(hd_sleep_ms(1), 0);
    return 0;
}

TEST_WORLDS(between_waits_anything_may_be_held, options)
{
    rt_run(careful, NULL, options);
    hd_hold_begin(HD_SITE); /* A thread holds what it likes. */
    EXPECT_EQ(hd_sleep_ms(1), 0);
    hd_hold_end();
    hd_hold_end();
}

/* ---- what is not ---- */

/* Long enough not to be over before it begins; the process is, by then. */
enum { LONG_MS = 10000 };

static int sleep_wrapped(void *arg)
{
    (void)arg;
    EXPECT_EQ(HD_PTHREAD_LOCK(&mutex), 0);
    (void)hd_sleep_ms(LONG_MS);
    return HD_PTHREAD_UNLOCK(&mutex);
}

static int sleep_holding(void *arg)
{
    (void)arg;
    lock();
    (void)hd_sleep_ms(LONG_MS);
    unlock();
    return 0;
}

static int yield_holding_one(void *arg)
{
    (void)arg;
    lock();
    hd_yield();
    unlock();
    return 0;
}

static int yield_holding(void *arg)
{
    (void)arg;
    lock();
    hd_hold_begin(HD_SITE);
    hd_yield();
    hd_hold_end();
    unlock();
    return 0;
}

static int wait_holding(void *arg)
{
    (void)arg;
    hd_sem sem = {0};
    lock();
    (void)!hd_sem_acquire(&sem, 1);
    unlock();
    return 0;
}

static int spawn_named(hd_fn *fn)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.name = "careless";
    options.site = spawned_at = HD_SITE;
    hd_task *task;
    int err = hd_spawn_with(&task, fn, NULL, &options);
    return err ? err : rt_join(task);
}

static int spawn_it(void *fn)
{
    return spawn_named((hd_fn *)fn);
}

static void run_it(void *fn)
{
    const hd_options defaults = HD_OPTIONS_INIT;
    const hd_options options = rt_workers(&defaults, 1);
    (void)hd_run(spawn_it, fn, &options);
}

TEST(waiting_with_a_lock_ends_the_process)
{
    const char *words = "fiber 2 \"careless\", spawned at ";
    expect_abort(run_it, (void *)sleep_holding, words);
    expect_abort(run_it, (void *)sleep_wrapped, "in sleep_wrapped()");
    expect_abort(run_it, (void *)wait_holding, words);
    expect_abort(run_it, (void *)yield_holding, "waits or yields while it holds 2 locks of its");
    expect_abort(run_it, (void *)sleep_holding, "holds 1 lock of its thread, the last taken at ");
    expect_abort(run_it, (void *)sleep_holding, "hold_test.c:19 in lock()");
}

static int end_nothing(void *arg)
{
    (void)arg;
    hd_hold_end();
    return 0;
}

TEST(misuse_is_told)
{
    expect_abort(run_it, (void *)end_nothing, "hd_hold_end() without hd_hold_begin()");
}

/* ---- reporting instead ---- */

static int reports;

static void report(const hd_hold *hold)
{
    reports++;
    EXPECT(strcmp(hold->name, "careless") == 0);
    EXPECT(hold->id > 0);
    EXPECT_EQ(hold->count, 1);
    EXPECT(hold->site == spawned_at);
    EXPECT(hold->locked == locked_at);
}

static hd_sem told;

static int wait_until_told(void *arg)
{
    (void)arg;
    lock();
    EXPECT_EQ(hd_sem_acquire(&told, 1), 0);
    unlock();
    return 0;
}

/* Ends the wait, but not before it has been reported. */
static int tell_when_reported(void *arg)
{
    (void)arg;
    while (reports == 0) hd_yield();
    hd_sem_release(&told, 1);
    return 0;
}

static int spawn_both(void *arg)
{
    (void)arg;
    hd_task *teller = rt_spawn(NULL, tell_when_reported, NULL);
    EXPECT_EQ(spawn_named(wait_until_told), 0);
    return rt_join(teller);
}

TEST_WORLDS(it_can_be_reported_instead, options)
{
    hd_hold_report(report);
    const hd_options own = rt_workers(options, 1);
    rt_run(spawn_it, (void *)yield_holding_one, &own);
    EXPECT(reports > 0);
    reports = 0;
    EXPECT_EQ(hd_sem_init(&told, 0), 0);
    rt_run(spawn_both, NULL, &own);
    EXPECT(reports > 0);
    hd_sem_fini(&told);
    hd_hold_report(NULL);
}
