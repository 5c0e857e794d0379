/* SPDX-License-Identifier: MIT
 *
 * A cancel and a timeout at every wait on mutexes, reader-writer locks and semaphores:
 * nothing stays locked, no permit is lost, and nobody waits for one that has left.
 */
#include "waitpoints.h"

TEST_MAIN

enum { ROUNDS = 3 };

static void yield_times(int times)
{
    for (int i = 0; i < times; i++) hd_yield();
}

/* ---- mutex ---- */

struct locked {
    hd_mutex mutex;
    hd_rwlock rwlock;
    int inside, readers; /* writers, and readers, that have the lock now */
    int done;            /* times it was had */
};

static void be_inside(struct locked *locked)
{
    EXPECT_EQ(locked->inside++, 0);
    EXPECT_EQ(locked->readers, 0);
    hd_yield();
    EXPECT_EQ(--locked->inside, 0);
    locked->done++;
}

static int lock_often(void *arg)
{
    struct locked *locked = arg;
    for (int i = 0; i < ROUNDS; i++) {
        EXPECT_EQ(hd_mutex_lock(&locked->mutex), 0);
        be_inside(locked);
        hd_mutex_unlock(&locked->mutex);
        hd_yield();
    }
    return 0;
}

static int locking_victim(void *arg)
{
    struct locked *locked = arg;
    for (int i = 0; i < ROUNDS; i++) {
        int err;
        do err = hd_mutex_lock_until(&locked->mutex, wp_until());
        while (wp_again(err));
        EXPECT_EQ(hd_mutex_held(&locked->mutex), err == 0);
        if (err) return err;
        be_inside(locked);
        hd_mutex_unlock(&locked->mutex);
    }
    return 0;
}

WAITPOINTS(mutex)
{
    struct locked locked = {.done = 0};
    hd_mutex_init(&locked.mutex);
    hd_task *others[2];
    for (int i = 0; i < 2; i++) others[i] = rt_spawn(NULL, lock_often, &locked);
    wp_spawn(locking_victim, &locked);
    const int err = wp_join();
    for (int i = 0; i < 2; i++) EXPECT_EQ(rt_join(others[i]), 0);
    EXPECT(locked.done >= 2 * ROUNDS);
    if (!err) EXPECT_EQ(locked.done, 3 * ROUNDS);
    EXPECT_EQ(hd_mutex_lock_try(&locked.mutex), 0); /* It is free. */
    hd_mutex_unlock(&locked.mutex);
    hd_mutex_fini(&locked.mutex);
}

/* ---- reader-writer lock ---- */

static void read_inside(struct locked *locked)
{
    locked->readers++;
    EXPECT_EQ(locked->inside, 0);
    hd_yield();
    EXPECT_EQ(locked->inside, 0);
    locked->readers--;
    locked->done++;
}

static int write_often(void *arg)
{
    struct locked *locked = arg;
    for (int i = 0; i < ROUNDS; i++) {
        EXPECT_EQ(hd_rwlock_write_lock(&locked->rwlock), 0);
        be_inside(locked);
        hd_rwlock_write_unlock(&locked->rwlock);
        hd_yield();
    }
    return 0;
}

static int read_often(void *arg)
{
    struct locked *locked = arg;
    for (int i = 0; i < ROUNDS; i++) {
        EXPECT_EQ(hd_rwlock_read_lock(&locked->rwlock), 0);
        read_inside(locked);
        hd_rwlock_read_unlock(&locked->rwlock);
        hd_yield();
    }
    return 0;
}

static int reading_victim(void *arg)
{
    struct locked *locked = arg;
    for (int i = 0; i < ROUNDS; i++) {
        int err;
        do err = hd_rwlock_read_lock_until(&locked->rwlock, wp_until());
        while (wp_again(err));
        if (err) return err;
        read_inside(locked);
        hd_rwlock_read_unlock(&locked->rwlock);
    }
    return 0;
}

static int writing_victim(void *arg)
{
    struct locked *locked = arg;
    for (int i = 0; i < ROUNDS; i++) {
        int err;
        do err = hd_rwlock_write_lock_until(&locked->rwlock, wp_until());
        while (wp_again(err));
        if (err) return err;
        be_inside(locked);
        hd_rwlock_write_unlock(&locked->rwlock);
    }
    return 0;
}

/* Readers wait behind a writer that waits: when it leaves, they must be let in. */
static void hit_rwlock(hd_fn *victim)
{
    struct locked locked = {.done = 0};
    hd_rwlock_init(&locked.rwlock);
    hd_fn *const other_fns[] = {write_often, read_often, read_often};
    hd_task *others[3];
    for (int i = 0; i < 3; i++) others[i] = rt_spawn(NULL, other_fns[i], &locked);
    wp_spawn(victim, &locked);
    const int err = wp_join();
    for (int i = 0; i < 3; i++) EXPECT_EQ(rt_join(others[i]), 0);
    if (!err) EXPECT_EQ(locked.done, 4 * ROUNDS);
    EXPECT_EQ(hd_rwlock_write_lock_try(&locked.rwlock), 0);
    hd_rwlock_write_unlock(&locked.rwlock);
    hd_rwlock_fini(&locked.rwlock);
}

WAITPOINTS(rwlock_reader)
{
    hit_rwlock(reading_victim);
}

WAITPOINTS(rwlock_writer)
{
    hit_rwlock(writing_victim);
}

/* ---- semaphore ---- */

enum { PERMITS = 4 };

struct pool {
    hd_sem sem;
    int taken, done;
};

static void use_permits(struct pool *pool, int permits)
{
    pool->taken += permits;
    EXPECT(pool->taken <= PERMITS);
    hd_yield();
    pool->taken -= permits;
    pool->done++;
    EXPECT_EQ(hd_sem_release(&pool->sem, (uint32_t)permits), 0);
}

static int acquire_few(void *arg)
{
    struct pool *pool = arg;
    for (int i = 0; i < ROUNDS; i++) {
        EXPECT_EQ(hd_sem_acquire(&pool->sem, 1 + (uint32_t)i % 2), 0);
        use_permits(pool, 1 + i % 2);
    }
    return 0;
}

static int acquiring_victim(void *arg)
{
    struct pool *pool = arg;
    for (int i = 0; i < ROUNDS; i++) {
        int err;
        do err = hd_sem_acquire_until(&pool->sem, 3, wp_until());
        while (wp_again(err));
        if (err) return err;
        use_permits(pool, 3);
    }
    return 0;
}

WAITPOINTS(semaphore_batch)
{
    struct pool pool = {.taken = 0};
    EXPECT_EQ(hd_sem_init(&pool.sem, PERMITS), 0);
    hd_task *others[3];
    for (int i = 0; i < 3; i++) others[i] = rt_spawn(NULL, acquire_few, &pool);
    wp_spawn(acquiring_victim, &pool);
    const int err = wp_join();
    for (int i = 0; i < 3; i++) EXPECT_EQ(rt_join(others[i]), 0);
    EXPECT_EQ(pool.done, err ? pool.done : 4 * ROUNDS);
    EXPECT(pool.done >= 3 * ROUNDS);
    EXPECT_EQ(hd_sem_permits(&pool.sem), PERMITS);
    hd_sem_fini(&pool.sem);
}

/* ---- behind the victim ---- */

/* Others wait only because the victim does. When it leaves they must be let in, although
 * nothing is given back for a long time. */
struct row {
    hd_sem sem;
    hd_rwlock rwlock;
    bool left; /* the victim has given up */
    int served;
};

enum { BEHIND = 2 };

static void expect_served(const struct row *row)
{
    EXPECT_EQ(hd_sleep_ms(1000), 0);
    if (row->left) EXPECT_EQ(row->served, BEHIND);
}

static int acquire_many_victim(void *arg)
{
    struct row *row = arg;
    yield_times(1); /* The one who holds comes first. */
    int err;
    do err = hd_sem_acquire_until(&row->sem, 3, wp_until());
    while (wp_again(err));
    row->left = err != 0;
    if (!err) EXPECT_EQ(hd_sem_release(&row->sem, 3), 0);
    return err;
}

static int acquire_one(void *arg)
{
    struct row *row = arg;
    yield_times(4);
    EXPECT_EQ(hd_sem_acquire(&row->sem, 1), 0);
    row->served++;
    EXPECT_EQ(hd_sem_release(&row->sem, 1), 0);
    return 0;
}

static int hold_two_permits(void *arg)
{
    struct row *row = arg;
    expect_served(row);
    EXPECT_EQ(hd_sem_release(&row->sem, 2), 0);
    return 0;
}

static int write_victim(void *arg)
{
    struct row *row = arg;
    yield_times(1);
    int err;
    do err = hd_rwlock_write_lock_until(&row->rwlock, wp_until());
    while (wp_again(err));
    row->left = err != 0;
    if (!err) hd_rwlock_write_unlock(&row->rwlock);
    return err;
}

static int read_one(void *arg)
{
    struct row *row = arg;
    yield_times(4);
    EXPECT_EQ(hd_rwlock_read_lock(&row->rwlock), 0);
    row->served++;
    hd_rwlock_read_unlock(&row->rwlock);
    return 0;
}

static int hold_for_reading(void *arg)
{
    struct row *row = arg;
    EXPECT_EQ(hd_rwlock_read_lock(&row->rwlock), 0);
    expect_served(row);
    hd_rwlock_read_unlock(&row->rwlock);
    return 0;
}

static void hit_the_first(hd_fn *holder, hd_fn *victim, hd_fn *behind)
{
    struct row row = {.sem = HD_SEM_INIT(1)};
    hd_task *tasks[1 + BEHIND];
    tasks[0] = rt_spawn(NULL, holder, &row);
    wp_spawn(victim, &row);
    for (int i = 1; i <= BEHIND; i++) tasks[i] = rt_spawn(NULL, behind, &row);
    (void)wp_join();
    for (int i = 0; i <= BEHIND; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    EXPECT_EQ(row.served, BEHIND);
    hd_sem_fini(&row.sem);
    hd_rwlock_fini(&row.rwlock);
}

WAITPOINTS(semaphore_queue_behind_the_victim)
{
    hit_the_first(hold_two_permits, acquire_many_victim, acquire_one);
}

WAITPOINTS(rwlock_readers_behind_the_victim)
{
    hit_the_first(hold_for_reading, write_victim, read_one);
}
