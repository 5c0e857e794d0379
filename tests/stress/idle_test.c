/* SPDX-License-Identifier: MIT
 *
 * The idle protocol alone (sched/idle.h): workers that do nothing but take tokens, park
 * and search, as in sched/worker.c, against submitters and against being stopped.
 *
 * A lost wake-up hangs. After each round everybody has left, and the counts must be as
 * they were in the beginning.
 */
#include "stress/stress.h"

#include "sched/idle.h"
#include "sched/park.h"

enum { WORKERS_MAX = 8, SUBMITTERS = 2 };

static struct hdi_idle idle;
static struct hdi_parker parkers[WORKERS_MAX];
static unsigned worker_count;
static atomic_uint tokens;   /* the one stealable queue */
static atomic_uint taken;
static atomic_bool stopping;
static atomic_uint worker_next;
static unsigned rounds;
static unsigned per_round;   /* tokens each submitter adds */
static bool wait_for_all;    /* stop only after every token was taken */
static pthread_barrier_t barrier;
static atomic_uint submitters_done;

static bool visible(void)
{
    return atomic_load_explicit(&tokens, memory_order_acquire) > 0;
}

static bool take_token(void)
{
    unsigned seen = atomic_load_explicit(&tokens, memory_order_relaxed);
    do {
        if (seen == 0) return false;
    } while (!atomic_compare_exchange_weak_explicit(&tokens, &seen, seen - 1, memory_order_acq_rel,
                                                    memory_order_relaxed));
    return true;
}

static void notify(unsigned from)
{
    const int claimed = hdi_idle_notify(&idle, from % worker_count);
    if (claimed >= 0) hdi_parker_unpark(&parkers[claimed]);
}

/* As end_search(), park() and next_task() in sched/worker.c. */
static void end_search(unsigned self)
{
    if (hdi_idle_end_search(&idle) && visible()) notify(self);
}

static void park(unsigned self, bool searching)
{
    (void)hdi_idle_park(&idle, self, searching);
    const bool stay = visible() || atomic_load_explicit(&stopping, memory_order_acquire);
    if (!stay) hdi_parker_park(&parkers[self]);
    const bool claimed = hdi_idle_unpark(&idle, self);
    if (stay && claimed) hdi_parker_park(&parkers[self]); /* IDLE-2 */
}

static void work_until_stopped(unsigned self)
{
    bool searching = false;
    for (;;) {
        bool found = take_token();
        if (!found) {
            if (!searching) searching = hdi_idle_try_search(&idle);
            found = searching && take_token();
        }
        if (found) {
            if (searching) end_search(self);
            searching = false;
            atomic_fetch_add_explicit(&taken, 1, memory_order_relaxed);
            continue;
        }
        park(self, searching);
        searching = true;
        if (atomic_load_explicit(&stopping, memory_order_acquire) && !visible()) break;
    }
    end_search(self);
}

static void *worker_main(void *arg)
{
    (void)arg;
    const unsigned self = atomic_fetch_add(&worker_next, 1);
    for (unsigned i = 0; i < rounds; i++) {
        pthread_barrier_wait(&barrier);
        work_until_stopped(self);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void *submitter_main(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < rounds; i++) {
        pthread_barrier_wait(&barrier);
        for (unsigned k = 0; k < per_round; k++) {
            atomic_fetch_add_explicit(&tokens, 1, memory_order_release);
            notify(k);
        }
        atomic_fetch_add_explicit(&submitters_done, 1, memory_order_release);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

/* Ends a round: all tokens are there, perhaps taken, perhaps not. */
static void stop_all(unsigned total)
{
    stress_await(&submitters_done, SUBMITTERS);
    if (wait_for_all) stress_await(&taken, total);
    atomic_store_explicit(&stopping, true, memory_order_release);
    for (unsigned i = 0; i < worker_count; i++) hdi_parker_unpark(&parkers[i]);
}

static void check_clean(unsigned total)
{
    EXPECT_EQ(atomic_load(&taken), total);
    EXPECT_EQ(atomic_load(&tokens), 0);
    EXPECT_EQ(hdi_idle_searching(&idle), 0);
    EXPECT_EQ(hdi_idle_parked(&idle), 0);
    for (unsigned i = 0; i < HDI_IDLE_WORDS; i++) {
        EXPECT_EQ(hdi_load_relaxed(&idle.parked_bits[i]), 0);
    }
}

static void idle_with(unsigned workers, unsigned round_count, unsigned tokens_each, bool wait)
{
    worker_count = workers;
    rounds = round_count;
    per_round = tokens_each;
    wait_for_all = wait;
    hdi_idle_init(&idle, workers, workers);
    for (unsigned i = 0; i < workers; i++) hdi_parker_init(&parkers[i]);
    pthread_barrier_init(&barrier, NULL, workers + SUBMITTERS + 1);
    struct stress_threads threads = {.count = 0};
    for (unsigned i = 0; i < workers; i++) stress_start(&threads, worker_main, NULL);
    for (int i = 0; i < SUBMITTERS; i++) stress_start(&threads, submitter_main, NULL);
    const unsigned total = SUBMITTERS * tokens_each;
    for (unsigned i = 0; i < rounds; i++) {
        atomic_store(&taken, 0);
        atomic_store(&submitters_done, 0);
        atomic_store(&stopping, false);
        for (unsigned k = 0; k < workers; k++) hdi_parker_init(&parkers[k]); /* left-over tokens */
        pthread_barrier_wait(&barrier);
        stop_all(total);
        pthread_barrier_wait(&barrier);
        check_clean(total);
    }
    stress_join(&threads);
    pthread_barrier_destroy(&barrier);
}

TEST(one_worker)
{
    idle_with(1, stress_count(2000), 20, true);
}

TEST(two_workers)
{
    idle_with(2, stress_count(2000), 20, true);
}

TEST(four_workers)
{
    idle_with(4, stress_count(2000), 50, true);
}

TEST(eight_workers_long_rounds)
{
    idle_with(8, stress_count(64), 5000, true);
}

/* The stop meets workers that were claimed this moment and those still asleep. */
TEST(stopped_while_being_woken)
{
    idle_with(8, stress_count(10000), 1, false);
}

TEST(stopped_after_the_last_token)
{
    idle_with(4, stress_count(10000), 2, true);
}

TEST_MAIN
