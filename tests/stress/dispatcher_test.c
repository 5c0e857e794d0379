/* SPDX-License-Identifier: MIT
 *
 * Many dispatchers at once: made and ended in storms, fibers moving between them while
 * they are woken, the io pool growing and shrinking, and idle pools that cost nothing.
 */
#include "stress/stress.h"
#include "proc.h"

#include <ctype.h>
#include <dirent.h>
#include <time.h>

static hd_options live(unsigned workers)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = workers;
    return options;
}

static hd_dispatcher *pool(hd_runtime *runtime, unsigned workers, hd_policy policy)
{
    hd_dispatcher_options options = HD_DISPATCHER_OPTIONS_INIT;
    options.runtime = runtime;
    options.name = "storm";
    options.workers = workers;
    options.policy = policy;
    hd_dispatcher *dispatcher = NULL;
    EXPECT_EQ(hd_dispatcher_create(&dispatcher, &options), 0);
    return dispatcher;
}

static hd_task *spawn_on(hd_dispatcher *dispatcher, hd_fn *fn, void *arg, unsigned flags)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.dispatcher = dispatcher;
    options.flags = flags;
    hd_task *task = NULL;
    EXPECT_EQ(hd_spawn_with(&task, fn, arg, &options), 0);
    return task;
}

static int join(hd_task *task)
{
    int result = 0;
    EXPECT_EQ(hd_join(task, &result), 0);
    return result;
}

/* ---- made and ended ---- */

static atomic_uint leaves;

static int leaf(void *arg)
{
    (void)arg;
    hd_yield();
    atomic_fetch_add(&leaves, 1);
    return 0;
}

static int branch(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) EXPECT_EQ(hd_spawn(NULL, leaf, NULL), 0);
    return 0;
}

static void storm(hd_runtime *runtime, unsigned rounds, unsigned seed)
{
    struct stress_random random = stress_random_init(seed);
    for (unsigned i = 0; i < rounds; i++) {
        hd_dispatcher *d = pool(runtime, 1 + stress_below(&random, 3),
                                (hd_policy)stress_below(&random, 4));
        const unsigned flags = stress_below(&random, 4) == 0 ? HD_PINNED : 0;
        hd_task *task = spawn_on(d, branch, NULL, flags);
        if (stress_below(&random, 2)) {
            EXPECT_EQ(join(task), 0);
        } else {
            hd_detach(task);
        }
        hd_dispatcher_unref(d);
    }
}

static int storm_fiber(void *arg)
{
    storm(NULL, stress_count(200), *(unsigned *)arg);
    return 0;
}

static void *storm_thread(void *arg)
{
    storm(arg, stress_count(200), 77);
    return NULL;
}

TEST(dispatchers_come_and_go)
{
    const hd_options options = live(2);
    hd_runtime *runtime = stress_runtime(&options);
    hd_spawn_options into = stress_into(runtime);
    unsigned seeds[3] = {1, 2, 3};
    hd_task *tasks[3];
    struct stress_threads threads = {.count = 0};
    stress_start(&threads, storm_thread, runtime);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(hd_spawn_with(&tasks[i], storm_fiber, &seeds[i], &into), 0);
    }
    for (int i = 0; i < 3; i++) EXPECT_EQ(join(tasks[i]), 0);
    stress_join(&threads);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    EXPECT_EQ(atomic_load(&leaves), 4 * 3 * stress_count(200));
    hd_stats stats;
    hd_runtime_stats(runtime, &stats);
    EXPECT_EQ(stats.alive, 0);
    EXPECT_EQ(stats.submitted, 3 + 4 * 4 * stress_count(200));
    hd_runtime_destroy(runtime);
}

/* ---- moving ---- */

enum { POOLS = 3, MOVERS = 8 };

static hd_dispatcher *pools[POOLS];
static hd_waker movers[MOVERS];
static atomic_uint enrolled, moved;

struct mover {
    unsigned index;
};

static void wander(struct stress_random *random, unsigned depth)
{
    hd_dispatcher *there = pools[stress_below(random, POOLS)];
    HD_ON(there)
    {
        EXPECT(hd_dispatcher_self() == there);
        switch (stress_below(random, 4)) {
        case 0: hd_yield(); break;
        case 1:
            if (depth > 0) wander(random, depth - 1);
            break;
        case 2: hd_waker_wake_keep(movers[stress_below(random, MOVERS)]); break;
        default: (void)hd_park(); break; /* somebody wakes, or did */
        }
        EXPECT(hd_dispatcher_self() == there);
    }
    atomic_fetch_add_explicit(&moved, 1, memory_order_relaxed);
}

static int mover_fiber(void *arg)
{
    struct mover *mover = arg;
    hd_dispatcher *home = hd_dispatcher_self();
    movers[mover->index] = hd_waker_self();
    atomic_fetch_add(&enrolled, 1);
    while (atomic_load(&enrolled) < MOVERS) hd_yield();
    struct stress_random random = stress_random_init(mover->index);
    for (unsigned i = 0; i < stress_count(4000); i++) {
        wander(&random, 3);
        EXPECT(hd_dispatcher_self() == home);
    }
    return 0;
}

/* Whoever parked last is woken by this. */
static int alarm_fiber(void *arg)
{
    atomic_bool *over = arg;
    while (!atomic_load(over)) {
        for (int i = 0; i < MOVERS; i++) hd_waker_wake_keep(movers[i]);
        hd_yield();
    }
    return 0;
}

static int all_move(void *arg)
{
    (void)arg;
    hd_task *tasks[MOVERS];
    struct mover own[MOVERS];
    pools[0] = pool(NULL, 1, HD_POLICY_ORDERED);
    pools[1] = pool(NULL, 2, HD_POLICY_FAIR);
    pools[2] = hd_dispatcher_io(NULL);
    for (unsigned i = 0; i < MOVERS; i++) {
        own[i].index = i;
        tasks[i] = spawn_on(i % 2 ? pools[i % POOLS] : NULL, mover_fiber, &own[i], 0);
    }
    while (atomic_load(&enrolled) < MOVERS) hd_yield();
    atomic_bool over = false;
    hd_task *alarm = spawn_on(NULL, alarm_fiber, &over, 0);
    for (int i = 0; i < MOVERS; i++) EXPECT_EQ(join(tasks[i]), 0);
    atomic_store(&over, true);
    EXPECT_EQ(join(alarm), 0);
    for (int i = 0; i < MOVERS; i++) hd_waker_drop(movers[i]);
    EXPECT(atomic_load(&moved) >= MOVERS * stress_count(4000));
    hd_dispatcher_unref(pools[0]);
    hd_dispatcher_unref(pools[1]);
    return 0;
}

TEST(fibers_move_while_they_are_woken)
{
    const hd_options options = live(2);
    EXPECT_EQ(hd_run(all_move, NULL, &options), 0);
}

/* ---- pinned and unconfined tasks, woken from all sides ---- */

enum { SLEEPERS = 16 };

static hd_waker sleepers[SLEEPERS];
static atomic_uint asleep_once;
static atomic_bool sleep_over;

static int pinned_sleeper(void *arg)
{
    sleepers[*(unsigned *)arg] = hd_waker_self();
    atomic_fetch_add(&asleep_once, 1);
    const pthread_t thread = pthread_self();
    while (!atomic_load(&sleep_over)) {
        EXPECT_EQ(hd_park(), 0);
        EXPECT(pthread_equal(thread, pthread_self()));
    }
    return 0;
}

static int unconfined_sleeper(void *arg)
{
    sleepers[*(unsigned *)arg] = hd_waker_self();
    atomic_fetch_add(&asleep_once, 1);
    while (!atomic_load(&sleep_over)) EXPECT_EQ(hd_park(), 0);
    return 0;
}

static int wake_all(void *arg)
{
    struct stress_random random = stress_random_init(*(unsigned *)arg);
    for (unsigned i = 0; i < stress_count(20000); i++) {
        hd_waker_wake_keep(sleepers[stress_below(&random, SLEEPERS)]);
        if (i % 16 == 0) hd_yield();
    }
    return 0;
}

static void *wake_thread(void *arg)
{
    (void)wake_all(arg);
    return NULL;
}

static int wake_from_all_sides(void *arg)
{
    (void)arg;
    hd_dispatcher *a = pool(NULL, 2, HD_POLICY_FAIR), *b = pool(NULL, 1, HD_POLICY_LOCAL);
    hd_task *tasks[SLEEPERS], *wakers[3];
    unsigned numbers[SLEEPERS];
    for (unsigned i = 0; i < SLEEPERS; i++) {
        numbers[i] = i;
        tasks[i] = i % 2 ? spawn_on(i % 4 == 1 ? a : b, pinned_sleeper, &numbers[i], HD_PINNED)
                         : spawn_on(hd_dispatcher_unconfined(), unconfined_sleeper, &numbers[i], 0);
    }
    while (atomic_load(&asleep_once) < SLEEPERS) hd_yield();
    struct stress_threads threads = {.count = 0};
    stress_start(&threads, wake_thread, &numbers[4]);
    wakers[0] = spawn_on(a, wake_all, &numbers[1], 0);
    wakers[1] = spawn_on(b, wake_all, &numbers[2], 0);
    wakers[2] = spawn_on(NULL, wake_all, &numbers[3], 0);
    for (int i = 0; i < 3; i++) EXPECT_EQ(join(wakers[i]), 0);
    stress_join(&threads);
    atomic_store(&sleep_over, true);
    for (int i = 0; i < SLEEPERS; i++) hd_waker_wake(sleepers[i]);
    for (int i = 0; i < SLEEPERS; i++) EXPECT_EQ(join(tasks[i]), 0);
    hd_dispatcher_unref(a);
    hd_dispatcher_unref(b);
    return 0;
}

TEST(pinned_and_unconfined_tasks_are_woken_from_all_sides)
{
    const hd_options options = live(2);
    EXPECT_EQ(hd_run(wake_from_all_sides, NULL, &options), 0);
}

/* ---- the io pool ---- */

enum { BLOCKED = 64 };

struct herd {
    pthread_barrier_t barrier;
    atomic_uint served;
};

/* Ends only when all of them block a thread at once. */
static int meet(void *arg)
{
    struct herd *herd = arg;
    pthread_barrier_wait(&herd->barrier);
    atomic_fetch_add(&herd->served, 1);
    return 0;
}

static int call_meet(void *arg)
{
    return hd_blocking(meet, arg, NULL);
}

static int grow(void *arg)
{
    hd_dispatcher *io = hd_dispatcher_io(NULL);
    for (unsigned round = 0; round < 3; round++) {
        struct herd herd = {.served = 0};
        EXPECT_EQ(pthread_barrier_init(&herd.barrier, NULL, BLOCKED), 0);
        hd_task *tasks[BLOCKED];
        for (int i = 0; i < BLOCKED; i++) tasks[i] = spawn_on(NULL, call_meet, &herd, 0);
        for (int i = 0; i < BLOCKED; i++) EXPECT_EQ(join(tasks[i]), 0);
        EXPECT_EQ(atomic_load(&herd.served), BLOCKED);
        EXPECT(hd_dispatcher_workers(io) >= BLOCKED);
        pthread_barrier_destroy(&herd.barrier);
    }
    (void)arg;
    return 0;
}

TEST(the_io_pool_grows_until_all_calls_run)
{
    const hd_options options = live(2);
    EXPECT_EQ(hd_run(grow, NULL, &options), 0);
}

static int nothing(void *arg)
{
    atomic_fetch_add((atomic_uint *)arg, 1);
    return 0;
}

static int call_often(void *arg)
{
    for (unsigned i = 0; i < stress_count(2000); i++) {
        EXPECT_EQ(hd_blocking(nothing, arg, NULL), 0);
    }
    return 0;
}

static int call_storm(void *arg)
{
    (void)arg;
    atomic_uint calls = 0;
    hd_task *tasks[20];
    for (int i = 0; i < 20; i++) tasks[i] = spawn_on(NULL, call_often, &calls, 0);
    for (int i = 0; i < 20; i++) EXPECT_EQ(join(tasks[i]), 0);
    EXPECT_EQ(atomic_load(&calls), 20 * stress_count(2000));
    return 0;
}

TEST(short_calls_from_many_fibers)
{
    const hd_options options = live(2);
    EXPECT_EQ(hd_run(call_storm, NULL, &options), 0);
}

/* ---- idle pools ---- */

struct usage {
    int tid;
    unsigned long long switches;
};

/* The workers are the threads named hd-NAME-N and heddle-N; heddle-monitor is among them. */
static unsigned read_workers(struct usage *usages, unsigned most)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/task");
    EXPECT(dir != NULL);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        char text[4096];
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        const int tid = atoi(entry->d_name);
        if (!proc_read(tid, "comm", text, sizeof(text))) continue;
        if (strncmp(text, "heddle-", 7) != 0 && strncmp(text, "hd-", 3) != 0) continue;
        if (!proc_read(tid, "status", text, sizeof(text))) continue;
        EXPECT(count < most);
        usages[count++] = (struct usage){
            .tid = tid,
            .switches = proc_number_after(text, "\nvoluntary_ctxt_switches:") +
                        proc_number_after(text, "\nnonvoluntary_ctxt_switches:"),
        };
    }
    closedir(dir);
    return count;
}

static int start_threads(void *arg)
{
    (void)arg;
    hd_task *tasks[8];
    struct herd herd = {.served = 0};
    EXPECT_EQ(pthread_barrier_init(&herd.barrier, NULL, 8), 0);
    for (int i = 0; i < 8; i++) tasks[i] = spawn_on(NULL, call_meet, &herd, 0);
    for (int i = 0; i < 8; i++) EXPECT_EQ(join(tasks[i]), 0);
    pthread_barrier_destroy(&herd.barrier);
    return 0;
}

/* Whether there are so many workers, and nothing at all happens to them for so long. */
static bool are_quiet(unsigned threads, int seconds)
{
    enum { MOST = 128 };
    struct usage before[MOST], after[MOST];
    const struct timespec watch = {.tv_sec = seconds};
    const unsigned count = read_workers(before, MOST);
    EXPECT_EQ(nanosleep(&watch, NULL), 0); /* the measured time itself */
    bool quiet = count == threads && read_workers(after, MOST) == threads;
    for (unsigned i = 0; i < threads && quiet; i++) {
        quiet = after[i].tid == before[i].tid && after[i].switches == before[i].switches;
    }
    return quiet;
}

/* The io pool shrinks to one thread; then nothing at all happens. */
TEST(idle_pools_shrink_and_cost_nothing)
{
    enum { THREADS = 2 + 4 + 2 + 1 + 1, SETTLE_SECONDS = 4, WATCH_SECONDS = 3 };
    const hd_options options = live(2);
    hd_runtime *runtime = stress_runtime(&options);
    hd_dispatcher *a = pool(runtime, 4, HD_POLICY_FAIR);
    hd_dispatcher *b = pool(runtime, 2, HD_POLICY_PRIORITY);
    hd_spawn_options into = stress_into(runtime);
    hd_task *task;
    EXPECT_EQ(hd_spawn_with(&task, start_threads, NULL, &into), 0);
    EXPECT_EQ(join(task), 0);
    EXPECT_EQ(join(spawn_on(a, leaf, NULL, 0)) + join(spawn_on(b, leaf, NULL, 0)), 0);
    hd_dispatcher *io = hd_dispatcher_io(runtime);
    EXPECT(hd_dispatcher_workers(io) >= 8);
    const struct timespec moment = {.tv_nsec = 20000000};
    while (hd_dispatcher_workers(io) > 1) nanosleep(&moment, NULL);
    /* Each has its one time-out, those that leave end, and the kernel forgets them: none is left if
     * nothing happens for longer than HDI_IO_IDLE_NS. */
    while (!are_quiet(THREADS, SETTLE_SECONDS)) continue;
    EXPECT(are_quiet(THREADS, WATCH_SECONDS));
    EXPECT_EQ(hd_spawn_with(&task, start_threads, NULL, &into), 0); /* and it grows again */
    EXPECT_EQ(join(task), 0);
    hd_dispatcher_unref(a);
    hd_dispatcher_unref(b);
    hd_runtime_destroy(runtime);
}

TEST_MAIN
