/* SPDX-License-Identifier: MIT
 *
 * Rows of locks, and of blocking calls.
 */
#include <heddle/dispatcher.h>
#include <heddle/sync.h>

#include "bench.h"

#define CONTENDERS 64
#define PERMITS    4

static uint64_t rounds; /* n of the work under way */

/* ---- mutex ---- */

static struct {
    _Alignas(64) hd_mutex mutex;
    uint64_t value;
} count;

static void mutex_part(unsigned i)
{
    (void)i;
    for (uint64_t left = rounds; left > 0; left--) {
        MUST(hd_mutex_lock(&count.mutex));
        count.value++;
        hd_mutex_unlock(&count.mutex);
    }
}

static void mutex_work_of(uint64_t n, unsigned fibers)
{
    rounds = n;
    count.value = 0;
    hd_mutex_init(&count.mutex);
    together(fibers, mutex_part);
    hd_mutex_fini(&count.mutex);
    EXPECT(count.value == n * fibers);
}

static void mutex_work(uint64_t n)
{
    mutex_work_of(n, CONTENDERS);
}

static int mutex_root(void *arg)
{
    (void)arg;
    measure(CONTENDERS, mutex_work);
    return 0;
}

void row_mutex(void)
{
    run_in_fiber(mutex_root);
}

static void mutex_one_work(uint64_t n)
{
    mutex_work_of(n, 1);
}

static int mutex_one_root(void *arg)
{
    (void)arg;
    measure(1, mutex_one_work);
    return 0;
}

void row_mutex_one(void)
{
    run_in_fiber(mutex_one_root);
}

/* ---- semaphore ---- */

static struct {
    _Alignas(64) hd_sem sem;
} permits;

static void sem_part(unsigned i)
{
    (void)i;
    for (uint64_t left = rounds; left > 0; left--) {
        MUST(hd_sem_acquire(&permits.sem, 1));
        MUST(hd_sem_release(&permits.sem, 1));
    }
}

static void sem_work(uint64_t n)
{
    rounds = n;
    MUST(hd_sem_init(&permits.sem, PERMITS));
    together(CONTENDERS, sem_part);
    EXPECT(hd_sem_permits(&permits.sem) == PERMITS);
    hd_sem_fini(&permits.sem);
}

static int sem_root(void *arg)
{
    (void)arg;
    measure(CONTENDERS, sem_work);
    return 0;
}

void row_sem(void)
{
    run_in_fiber(sem_root);
}

/* ---- blocking calls ---- */

static int blocking_call(void *arg)
{
    (void)arg;
    return 1;
}

static void blocking_work(uint64_t n)
{
    uint64_t total = 0;
    for (uint64_t i = 0; i < n; i++) {
        int result;
        MUST(hd_blocking(blocking_call, NULL, &result));
        total += (uint64_t)result;
    }
    EXPECT(total == n);
}

static int blocking_root(void *arg)
{
    (void)arg;
    measure(1, blocking_work);
    return 0;
}

void row_blocking(void)
{
    run_in_fiber(blocking_root);
}
