/* SPDX-License-Identifier: MIT
 *
 * Jobs on 1, 2, 8 and 64 workers: recursion of known results, over and over, by many at once, among
 * fibers that talk, with threads that begin jobs, watch, and end the runtime meanwhile; and no
 * CPU time is used once nothing is left to compute.
 */
#include "stress/stress.h"

#include <time.h>

#include "forks.h"
#include "sched/runtime.h"

TEST_MAIN

static const unsigned workers_of[] = {1, 2, 8, 64};
enum { SETUPS = sizeof(workers_of) / sizeof(workers_of[0]) };

/* No spare comes to the help of a stuck worker: it would hide a wake-up that was lost. */
static hd_options setup(unsigned workers, hd_policy policy)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = workers;
    options.policy = policy;
    options.stall_ns = HD_FOREVER;
    if (STRESS_TSAN || STRESS_ASAN) options.job_stack_bytes = 4 << 20;
    return options;
}

/* `takes`: with two workers or more it goes on until a job was taken, or it would test nothing. */
static void each_setup(hd_fn *fn, bool takes)
{
    for (unsigned i = 0; i < SETUPS; i++) {
        uint64_t taken = 0;
        for (int policy = HD_POLICY_FAIR; policy <= HD_POLICY_PRIORITY; policy++) {
            const hd_options options = setup(workers_of[i], (hd_policy)policy);
            hd_runtime *runtime = stress_runtime(&options);
            do {
                EXPECT_EQ(rt_join(rt_spawn(runtime, fn, NULL)), 0);
            } while (takes && workers_of[i] > 1 && forks_taken(runtime) == 0);
            taken += forks_taken(runtime);
            hd_runtime_destroy(runtime);
        }
        fprintf(stderr, "# %u workers: %llu jobs taken\n", workers_of[i],
                (unsigned long long)taken);
        EXPECT(workers_of[i] > 1 || taken == 0);
    }
}

/* ---- recursion of known results ---- */

/* Let thieves have the CPU, in the middle of things. */
static void shake(unsigned number)
{
    if (forks_mix(number) >> 32 & 1) sched_yield();
}

HD_JOB(fib, long, int, n)
{
    if (n < 2) return n;
    HD_FORK(one, fib, n - 1);
    if (n == 6) shake((unsigned)(uintptr_t)&one >> 4);
    const long two = HD_CALL(fib, n - 2);
    return HD_SYNC(one) + two;
}

static long fib_serial(int n)
{
    return n < 2 ? n : fib_serial(n - 1) + fib_serial(n - 2);
}

enum { QUEENS_MAX = 8 };

struct board {
    int size, row;
    unsigned columns, up, down; /* attacked in this row */
};

HD_JOB(queens, int, struct board, b)
{
    if (b.row == b.size) return 1;
    queens_job jobs[QUEENS_MAX];
    int forked = 0, solutions = 0;
    for (int column = 0; column < b.size; column++) {
        const unsigned bit = 1u << column;
        if ((b.columns | b.up | b.down) & bit) continue;
        const struct board next = {b.size, b.row + 1, b.columns | bit, (b.up | bit) << 1,
                                   (b.down | bit) >> 1};
        HD_FORK_INTO(&jobs[forked++], queens, next);
    }
    if (b.row < 4) shake(b.columns);
    while (forked > 0) solutions += HD_SYNC_FROM(&jobs[--forked], queens);
    return solutions;
}

static int recurse(void *arg)
{
    (void)arg;
    static const int solutions[] = {[4] = 2, [5] = 10, [6] = 4, [7] = 40, [8] = 92};
    const unsigned rounds = stress_count(128);
    for (unsigned i = 0; i < rounds; i++) {
        const int n = 10 + (int)(i % 9), size = 4 + (int)(i % 5);
        EXPECT_EQ(HD_RUN_JOB(NULL, fib, n), fib_serial(n));
        EXPECT_EQ(HD_RUN_JOB(NULL, queens, (struct board){.size = size}), solutions[size]);
        forks_check(NULL, i, 6);
    }
    return 0;
}

TEST(recursion_on_any_number_of_workers) { each_setup(recurse, true); }

/* Jobs of almost no work, which workers take, give back and wait for all the time. */
HD_JOB(rounds_of_few, int, int, rounds)
{
    int sum = 0;
    for (int i = 0; i < rounds; i++) {
        HD_FORK(one, fib, 3);
        HD_FORK(two, fib, 4);
        if (i % 8 == 0) hd_yield();
        shake((unsigned)i);
        sum += (int)HD_SYNC(two);
        HD_FORK(three, fib, 5);
        shake((unsigned)i + 1);
        sum += (int)HD_SYNC(three);
        sum += (int)HD_SYNC(one);
    }
    return sum;
}

static int run_few(void *arg)
{
    (void)arg;
    const int rounds = (int)stress_count(60000);
    EXPECT_EQ(HD_RUN_JOB(NULL, rounds_of_few, rounds), 10 * rounds);
    return 0;
}

TEST(few_jobs_at_a_time) { each_setup(run_few, true); }

/* ---- many at once, among others ---- */

struct talk {
    hd_chan *there, *back;
    unsigned rounds;
};

static int talk_one(void *arg)
{
    const struct talk *talk = arg;
    for (uint64_t i = 0, got; i < talk->rounds; i++) {
        EXPECT_EQ(hd_chan_send(talk->there, &i), 0);
        EXPECT_EQ(hd_chan_recv(talk->back, &got), 0);
        EXPECT_EQ(got, i);
    }
    return hd_chan_close(talk->there);
}

static int talk_other(void *arg)
{
    const struct talk *talk = arg;
    for (uint64_t item; hd_chan_recv(talk->there, &item) == 0;) {
        EXPECT_EQ(hd_chan_send(talk->back, &item), 0);
    }
    return 0;
}

static int sleep_often(void *arg)
{
    const unsigned rounds = *(const unsigned *)arg;
    for (unsigned i = 0; i < rounds; i++) {
        EXPECT_EQ(hd_sleep_until(hd_now(NULL) + 20000), 0);
    }
    return 0;
}

static int check_often(void *arg)
{
    const unsigned rounds = *(const unsigned *)arg;
    for (unsigned i = 0; i < rounds; i++) {
        forks_check(NULL, i, 5);
        EXPECT_EQ(HD_RUN_JOB(NULL, fib, 12), 144);
        if (i % 3 == 0) hd_yield();
        if (i % 16 == 0) EXPECT_EQ(hd_sleep_until(hd_now(NULL) + 1000), 0);
    }
    return 0;
}

enum { TALKS = 4, FORKERS = 8 };

static int mix(void *arg)
{
    (void)arg;
    struct talk talks[TALKS] = {{NULL, NULL, 0}};
    unsigned rounds = stress_count(64);
    HD_NURSERY(n)
    {
        for (int i = 0; i < TALKS; i++) {
            talks[i] = (struct talk){hd_chan_create(sizeof(uint64_t), i % 2),
                                     hd_chan_create(sizeof(uint64_t), i / 2), rounds * 20};
            EXPECT_EQ(hd_go(n, talk_one, &talks[i]), 0);
            EXPECT_EQ(hd_go(n, talk_other, &talks[i]), 0);
            EXPECT_EQ(hd_go(n, sleep_often, &rounds), 0);
        }
        for (int i = 0; i < FORKERS; i++) EXPECT_EQ(hd_go(n, check_often, &rounds), 0);
        forks_check(NULL, 1, 6);
    }
    EXPECT_EQ(hd_nursery_result(), 0);
    for (int i = 0; i < TALKS; i++) {
        hd_chan_destroy(talks[i].there);
        hd_chan_destroy(talks[i].back);
    }
    return 0;
}

TEST(many_fork_at_once_among_fibers_that_talk) { each_setup(mix, false); }

/* ---- threads ---- */

struct guests {
    hd_runtime *runtime;
    atomic_uint ended;
};

static void *begin_jobs(void *arg)
{
    struct guests *guests = arg;
    const unsigned rounds = stress_count(640);
    for (unsigned i = 0; i < rounds; i++) {
        forks_check(guests->runtime, i, 4);
        EXPECT_EQ(HD_RUN_JOB(guests->runtime, fib, 10), 55);
    }
    atomic_fetch_add(&guests->ended, 1);
    return NULL;
}

enum { THREADS = 8 };

TEST(many_threads_begin_jobs)
{
    for (unsigned i = 0; i < SETUPS; i++) {
        const hd_options options = setup(workers_of[i], HD_POLICY_FAIR);
        struct guests guests = {.runtime = stress_runtime(&options)};
        struct stress_threads threads = {.count = 0};
        for (int t = 0; t < THREADS; t++) stress_start(&threads, begin_jobs, &guests);
        stress_join(&threads);
        hd_runtime_destroy(guests.runtime);
    }
}

/* Somebody looks at all tasks while strands come and go, and some are made in vain. */
static void *watch(void *arg)
{
    struct guests *guests = arg;
    FILE *nowhere = fopen("/dev/null", "w");
    EXPECT(nowhere != NULL);
    while (atomic_load(&guests->ended) < 2) hd_runtime_dump(guests->runtime, nowhere);
    fclose(nowhere);
    return NULL;
}

TEST(jobs_are_watched)
{
    for (unsigned i = 1; i < SETUPS; i++) {
        const hd_options options = setup(workers_of[i], HD_POLICY_LOCAL);
        struct guests guests = {.runtime = stress_runtime(&options)};
        struct stress_threads threads = {.count = 0};
        for (int t = 0; t < 2; t++) stress_start(&threads, begin_jobs, &guests);
        for (int t = 0; t < 2; t++) stress_start(&threads, watch, &guests);
        stress_join(&threads);
        hd_runtime_destroy(guests.runtime);
    }
}

/* A runtime ends while jobs are forked, taken and waited for. */
static int fork_until_cancelled(void *arg)
{
    atomic_uint *begun = arg;
    for (unsigned i = 0; !hd_cancelled(); i++) {
        forks_check(NULL, i, 4);
        atomic_fetch_add(begun, 1);
    }
    return 0;
}

TEST(runtimes_end_while_jobs_run)
{
    const unsigned rounds = stress_count(64);
    for (unsigned i = 0; i < rounds; i++) {
        const hd_options options = setup(workers_of[i % SETUPS], HD_POLICY_FAIR);
        hd_runtime *runtime = stress_runtime(&options);
        const hd_spawn_options into = stress_into(runtime);
        atomic_uint begun = 0;
        for (int t = 0; t < 4; t++) {
            EXPECT_EQ(hd_spawn_with(NULL, fork_until_cancelled, &begun, &into), 0);
        }
        stress_await(&begun, i % 5);
        hd_runtime_destroy(runtime);
    }
}

/* Spares come and go, because workers compute for long: their jobs are taken as any. */
TEST(workers_count_as_stuck)
{
    for (unsigned i = 0; i < 3; i++) {
        hd_options options = setup(workers_of[i], HD_POLICY_FAIR);
        options.stall_ns = HD_MS_NS;
        options.quantum_ns = HD_MS_NS;
        for (int round = 0; round < 3; round++) EXPECT_EQ(hd_run(mix, NULL, &options), 0);
        EXPECT_EQ(hd_run(recurse, NULL, &options), 0);
    }
}

/* ---- CPU time ---- */

static int64_t cpu_ns(clockid_t clock)
{
    struct timespec time;
    EXPECT_EQ(clock_gettime(clock, &time), 0);
    return time.tv_sec * HD_SECOND_NS + time.tv_nsec;
}

/* Wait until all workers sleep, then see that the process uses less than 2 % of a CPU. */
static void expect_sleep(hd_runtime *runtime, unsigned workers)
{
    while (hdi_idle_parked(&runtime->main.idle) != workers) sched_yield();
    const int64_t before = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    const struct timespec half = {.tv_nsec = HD_SECOND_NS / 2};
    EXPECT_EQ(nanosleep(&half, NULL), 0); /* the measured time itself */
    const int64_t used = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - before;
    fprintf(stderr, "# %u workers: %lld us of CPU time\n", workers, (long long)used / 1000);
    EXPECT(used < HD_SECOND_NS / 100);
}

static atomic_uint waiting;

HD_JOB(wait_for_item, int, hd_chan *, chan)
{
    int item = 0;
    atomic_fetch_add(&waiting, 1);
    EXPECT_EQ(hd_chan_recv(chan, &item), 0);
    return item;
}

/* Some wait themselves, some for those, with jobs of theirs that nobody has begun. */
HD_JOB(wait_below, int, hd_chan *, chan)
{
    HD_FORK(left, wait_for_item, chan);
    HD_FORK(right, wait_for_item, chan);
    atomic_int done = 0;
    HD_FORK(idle, forks_nothing, &done);
    const int sum = HD_CALL(wait_for_item, chan);
    (void)HD_SYNC(idle);
    EXPECT_EQ(atomic_load(&done), 1);
    const int more = HD_SYNC(right);
    return sum + more + HD_SYNC(left);
}

enum { WAITING = 8 };

HD_JOB(wait_all, int, hd_chan *, chan)
{
    wait_below_job jobs[WAITING];
    int sum = 0;
    for (int i = 0; i < WAITING; i++) HD_FORK_INTO(&jobs[i], wait_below, chan);
    for (int i = WAITING; i-- > 0;) sum += HD_SYNC_FROM(&jobs[i], wait_below);
    return sum;
}

static int wait_with_jobs(void *chan)
{
    return HD_RUN_JOB(NULL, wait_all, chan);
}

TEST(who_waits_and_who_is_done_use_no_cpu)
{
    for (unsigned i = 0; i < SETUPS; i++) {
        for (int policy = HD_POLICY_FAIR; policy <= HD_POLICY_ORDERED; policy += 2) {
            const hd_options options = setup(workers_of[i], (hd_policy)policy);
            hd_runtime *runtime = stress_runtime(&options);
            const hd_spawn_options into = stress_into(runtime);
            hd_chan *chan = hd_chan_create(sizeof(int), 0);
            hd_task *task;
            int result = 0;
            for (uint64_t seed = 0; seed < 10; seed++) forks_check(runtime, seed, 6);
            atomic_store(&waiting, 0);
            EXPECT_EQ(hd_spawn_with(&task, wait_with_jobs, chan, &into), 0);
            stress_await(&waiting, 1);
            expect_sleep(runtime, workers_of[i]);
            for (int k = 1; k <= 3 * WAITING; k++) EXPECT_EQ(hd_chan_send(chan, &k), 0);
            EXPECT_EQ(hd_join(task, &result), 0);
            EXPECT_EQ(result, 3 * WAITING * (3 * WAITING + 1) / 2);
            expect_sleep(runtime, workers_of[i]);
            hd_chan_destroy(chan);
            hd_runtime_destroy(runtime);
        }
    }
}

/* While one computes what nobody can help with, the others sleep. */
HD_JOB(compute_alone, int64_t, int64_t, ns)
{
    HD_FORK(nothing, forks_nothing, NULL);
    (void)HD_SYNC(nothing);
    const int64_t before = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    while (cpu_ns(CLOCK_THREAD_CPUTIME_ID) - before < ns) continue;
    return cpu_ns(CLOCK_THREAD_CPUTIME_ID) - before;
}

static int compute(void *arg)
{
    (void)arg;
    const int64_t before = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    const int64_t own = HD_RUN_JOB(NULL, compute_alone, HD_SECOND_NS / 2);
    const int64_t all = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - before;
    fprintf(stderr, "# %lld us besides\n", (long long)(all - own) / 1000);
    EXPECT(all - own < HD_SECOND_NS / 8); /* One that spins uses as much as this one. */
    return 0;
}

TEST(who_cannot_help_uses_no_cpu)
{
    for (unsigned i = 1; i < SETUPS - 1; i++) {
        for (int policy = HD_POLICY_FAIR; policy <= HD_POLICY_ORDERED; policy++) {
            const hd_options options = setup(workers_of[i], (hd_policy)policy);
            EXPECT_EQ(hd_run(compute, NULL, &options), 0);
        }
    }
}
