/* SPDX-License-Identifier: MIT
 *
 * full_pool: all threads of the io pool are held, so that what needs one waits for its turn.
 */
#ifndef TEST_FULL_POOL_H
#define TEST_FULL_POOL_H

#include <semaphore.h>

#include "pools.h"

enum { FULL_POOL_THREADS = 64 }; /* with no more CPUs than that */

static struct {
    atomic_int held;
    sem_t release;
    hd_task *holders[FULL_POOL_THREADS];
} full_pool;

static inline int full_pool_hold_(void *arg)
{
    (void)arg;
    atomic_fetch_add(&full_pool.held, 1);
    while (sem_wait(&full_pool.release) != 0) continue;
    return 0;
}

static inline void full_pool_begin(void)
{
    EXPECT_EQ(sem_init(&full_pool.release, 0, 0), 0);
    atomic_store(&full_pool.held, 0);
    for (int i = 0; i < FULL_POOL_THREADS; i++) {
        full_pool.holders[i] = spawn_on(hd_dispatcher_io(NULL), full_pool_hold_, NULL, 0);
    }
    while (atomic_load(&full_pool.held) < FULL_POOL_THREADS) hd_yield();
}

static inline void full_pool_end(void)
{
    for (int i = 0; i < FULL_POOL_THREADS; i++) sem_post(&full_pool.release);
    for (int i = 0; i < FULL_POOL_THREADS; i++) EXPECT_EQ(rt_join(full_pool.holders[i]), 0);
}

static inline void full_pool_or_skip(void)
{
    if (sysconf(_SC_NPROCESSORS_ONLN) > FULL_POOL_THREADS) {
        test_skip("the io pool has more threads here");
    }
}

#endif
