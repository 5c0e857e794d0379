/* SPDX-License-Identifier: MIT
 *
 * Tasks that keep a worker for themselves, and what the others still get to do: by being asked to
 * give way, and by spare threads (sched/monitor.h). A victim that starves is a hang.
 */
#include "stress/stress.h"

#include <dirent.h>
#include <time.h>

#include "proc.h"
#include "sched/runtime.h"

TEST_MAIN

enum { MS = 1000000 };

static hd_options live(unsigned workers)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = workers;
    options.stall_ns = 20 * MS; /* One worker has no spares unless told. */
    return options;
}

static hd_task *spawn_on(hd_runtime *runtime, hd_dispatcher *dispatcher, hd_fn *fn, void *arg,
                         unsigned flags)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.runtime = runtime;
    options.dispatcher = dispatcher;
    options.flags = flags;
    hd_task *task = NULL;
    EXPECT_EQ(hd_spawn_with(&task, fn, arg, &options), 0);
    return task;
}

static hd_task *spawn(hd_runtime *runtime, hd_fn *fn, void *arg)
{
    return spawn_on(runtime, NULL, fn, arg, 0);
}

static int join(hd_task *task)
{
    int result = 0;
    EXPECT_EQ(hd_join(task, &result), 0);
    return result;
}

static int64_t now_ns(void)
{
    struct timespec now;
    EXPECT_EQ(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* What hogs do until they may end; never a call into the runtime. */
static atomic_uint hogs_running;
static atomic_bool hogs_may_end;

static int hog(void *arg)
{
    (void)arg;
    atomic_fetch_add(&hogs_running, 1);
    while (!atomic_load_explicit(&hogs_may_end, memory_order_relaxed)) hdi_cpu_relax();
    return 0;
}

/* The same, asleep in the kernel. */
static int sleepy_hog(void *arg)
{
    (void)arg;
    const struct timespec moment = {.tv_nsec = MS};
    atomic_fetch_add(&hogs_running, 1);
    while (!atomic_load(&hogs_may_end)) nanosleep(&moment, NULL);
    return 0;
}

/* No stuck worker is left, and the spares have gone. */
static void await_normal(hd_runtime *runtime, unsigned workers)
{
    while (hd_dispatcher_workers(hd_dispatcher_default(runtime)) > workers) sched_yield();
    EXPECT_EQ(hdi_load_acquire(&runtime->main.spares), 0);
    while (hdi_load_acquire(&runtime->monitor.word) != HDI_MONITOR_ASLEEP) sched_yield();
    EXPECT_EQ(hd_dispatcher_workers(hd_dispatcher_default(runtime)), workers);
}

/* ---- a victim: messages and timers ---- */

enum { ROUNDS = 5 };

static int echo(void *arg)
{
    hd_chan **chans = arg;
    for (int item; hd_chan_recv(chans[0], &item) == 0;) EXPECT_EQ(hd_chan_send(chans[1], &item), 0);
    return 0;
}

static int victim(void *arg)
{
    (void)arg;
    hd_chan *chans[2] = {hd_chan_create(sizeof(int), 0), hd_chan_create(sizeof(int), 1)};
    EXPECT(chans[0] && chans[1]);
    hd_task *other = spawn(NULL, echo, chans);
    for (int i = 0; i < ROUNDS; i++) {
        int back = 0;
        EXPECT_EQ(hd_chan_send(chans[0], &i), 0);
        EXPECT_EQ(hd_sleep_ms(1), 0);
        EXPECT_EQ(hd_chan_recv(chans[1], &back), 0);
        EXPECT_EQ(back, i);
    }
    EXPECT_EQ(hd_chan_close(chans[0]), 0);
    EXPECT_EQ(join(other), 0);
    hd_chan_destroy(chans[0]);
    hd_chan_destroy(chans[1]);
    return 0;
}

static int victim_then_end(void *arg)
{
    EXPECT_EQ(victim(arg), 0);
    atomic_store(&hogs_may_end, true);
    return 0;
}

/* ---- being stuck ---- */

static void stuck_in(hd_fn *fn, const hd_options *options, unsigned hogs)
{
    enum { HOGS_MAX = 128 };
    hd_runtime *runtime = stress_runtime(options);
    hd_task *tasks[HOGS_MAX];
    atomic_store(&hogs_running, 0);
    atomic_store(&hogs_may_end, false);
    for (unsigned i = 0; i < hogs; i++) tasks[i] = spawn(runtime, fn, NULL);
    EXPECT_EQ(join(spawn(runtime, victim_then_end, NULL)), 0);
    for (unsigned i = 0; i < hogs; i++) EXPECT_EQ(join(tasks[i]), 0);
    EXPECT_EQ(atomic_load(&hogs_running), hogs);
    await_normal(runtime, options->workers);
    hd_runtime_destroy(runtime);
}

TEST(one_worker_computes_without_end)
{
    for (int policy = HD_POLICY_FAIR; policy <= HD_POLICY_LOCAL; policy++) {
        hd_options options = live(1);
        options.policy = (hd_policy)policy;
        stuck_in(hog, &options, 1);
    }
}

TEST(one_worker_sleeps_in_the_kernel)
{
    const hd_options options = live(1);
    stuck_in(sleepy_hog, &options, 1);
}

TEST(all_workers_are_stuck_under_every_policy)
{
    for (int policy = HD_POLICY_FAIR; policy <= HD_POLICY_PRIORITY; policy++) {
        hd_options options = live(2);
        options.policy = (hd_policy)policy;
        stuck_in(hog, &options, 4);
    }
}

/* One thread for each in the end; the victim is behind them all at first. */
TEST(sixty_four_hogs_for_each_worker)
{
    const unsigned hogs = STRESS_TSAN ? 8 : 64; /* Its threads have locks in common. */
    for (unsigned workers = 1; workers <= 2; workers++) {
        hd_options options = live(workers);
        options.stall_ns = 5 * MS; /* They come one by one, each after some of it. */
        stuck_in(hog, &options, workers * hogs);
    }
}

/* Out of the LIFO slot and the queue of the one that is stuck, by and by. */
static int spawning_hog(void *arg)
{
    const unsigned count = *(const unsigned *)arg;
    hd_task *tasks[300];
    for (unsigned i = 0; i < count; i++) tasks[i] = spawn(NULL, victim, NULL);
    hd_task *last = spawn(NULL, victim_then_end, NULL);
    EXPECT_EQ(hog(NULL), 0);
    for (unsigned i = 0; i < count; i++) EXPECT_EQ(join(tasks[i]), 0);
    return join(last);
}

TEST(what_the_stuck_task_itself_spawned_is_taken_over)
{
    const unsigned counts[] = {0, 1, 300};
    for (int i = 0; i < 3; i++) {
        unsigned count = counts[i];
        const hd_options options = live(1);
        hd_runtime *runtime = stress_runtime(&options);
        atomic_store(&hogs_may_end, false);
        EXPECT_EQ(join(spawn(runtime, spawning_hog, &count)), 0);
        hd_runtime_destroy(runtime);
    }
}

/* A timer started on the worker that is then stuck, without any other task. */
static int end_them_later(void *arg)
{
    (void)arg;
    EXPECT_EQ(hd_sleep_ms(1), 0);
    atomic_store(&hogs_may_end, true);
    return 0;
}

TEST(timers_of_a_stuck_worker_fire)
{
    const hd_options options = live(1);
    hd_runtime *runtime = stress_runtime(&options);
    for (int i = 0; i < 3; i++) {
        atomic_store(&hogs_may_end, false);
        hd_task *later = spawn(runtime, end_them_later, NULL);
        EXPECT_EQ(join(spawn(runtime, hog, NULL)), 0);
        EXPECT_EQ(join(later), 0);
    }
    hd_runtime_destroy(runtime);
}

/* A spare goes with a timer in its wheel: another watches it. */
static int long_sleeper(void *arg)
{
    (void)arg;
    atomic_store(&hogs_may_end, true);
    return hd_sleep_ms(600);
}

TEST(a_spare_leaves_its_timers_to_the_others)
{
    const hd_options options = live(1);
    hd_runtime *runtime = stress_runtime(&options);
    hd_task *first = spawn(runtime, hog, NULL);
    hd_task *sleeper = spawn(runtime, long_sleeper, NULL);
    EXPECT_EQ(join(first), 0);
    while (hd_dispatcher_workers(hd_dispatcher_default(runtime)) > 1) sched_yield();
    EXPECT_EQ(join(sleeper), 0);
    hd_runtime_destroy(runtime);
}

/* ---- what has to stay where it is ---- */

static int count_up(void *arg)
{
    ++*(unsigned *)arg; /* plain on purpose */
    return 0;
}

static int sole_hog(void *arg)
{
    unsigned *number = arg;
    const unsigned before = *number;
    const int64_t until = now_ns() + 100 * MS;
    while (now_ns() < until) hdi_cpu_relax();
    EXPECT_EQ(*number, before);
    *number = before + 1;
    return 0;
}

TEST(tasks_of_a_single_dispatcher_never_run_at_once)
{
    const hd_options options = live(1);
    hd_runtime *runtime = stress_runtime(&options);
    hd_dispatcher *single = NULL;
    EXPECT_EQ(hd_dispatcher_single(&single, runtime), 0);
    unsigned number = 0;
    hd_task *tasks[9];
    for (int i = 0; i < 9; i++) {
        tasks[i] = spawn_on(runtime, single, i == 0 ? sole_hog : count_up, &number, 0);
    }
    for (int i = 0; i < 9; i++) EXPECT_EQ(join(tasks[i]), 0);
    EXPECT_EQ(number, 9);
    EXPECT_EQ(hd_dispatcher_workers(single), 1);
    hd_dispatcher_unref(single);
    hd_runtime_destroy(runtime);
}

struct place {
    pthread_t thread;
    bool ran;
};

static int where(void *arg)
{
    struct place *place = arg;
    *place = (struct place){pthread_self(), true};
    return 0;
}

static int placed_hog(void *arg)
{
    EXPECT_EQ(where(arg), 0);
    return hog(NULL);
}

TEST(a_pinned_task_waits_for_its_worker)
{
    const hd_options options = live(1);
    hd_runtime *runtime = stress_runtime(&options);
    struct place first, second = {.ran = false};
    hd_task *stuck = spawn_on(runtime, NULL, placed_hog, &first, HD_PINNED);
    stress_await(&hogs_running, 1);
    hd_task *pinned = spawn_on(runtime, NULL, where, &second, HD_PINNED);
    EXPECT_EQ(join(spawn(runtime, victim, NULL)), 0); /* A spare is there, and has had time. */
    EXPECT(!second.ran);
    atomic_store(&hogs_may_end, true);
    EXPECT_EQ(join(stuck) + join(pinned), 0);
    EXPECT(second.ran && pthread_equal(first.thread, second.thread));
    hd_runtime_destroy(runtime);
}

/* ---- the io pool ---- */

static int block(void *arg)
{
    (void)arg;
    return sleepy_hog(NULL);
}

static int sleep_on_io(void *arg)
{
    hd_dispatcher *io = hd_dispatcher_io(NULL);
    EXPECT_EQ(hd_on_call(io, end_them_later, arg, NULL), 0);
    return 0;
}

/* A fiber sleeps there, then its only thread blocks. */
TEST(the_io_pool_keeps_the_time_while_all_its_threads_block)
{
    const hd_options options = live(1);
    hd_runtime *runtime = stress_runtime(&options);
    hd_dispatcher *io = hd_dispatcher_io(runtime);
    for (int i = 0; i < 3; i++) {
        atomic_store(&hogs_may_end, false);
        hd_task *sleeper = spawn(runtime, sleep_on_io, NULL);
        hd_task *blocked = spawn_on(runtime, io, block, NULL, 0);
        EXPECT_EQ(join(blocked) + join(sleeper), 0);
    }
    hd_runtime_destroy(runtime);
}

/* ---- giving way ---- */

static int polite_hog(void *arg)
{
    (void)arg;
    atomic_fetch_add(&hogs_running, 1);
    while (!atomic_load(&hogs_may_end)) EXPECT_EQ(hd_checkpoint(1), 0);
    return 0;
}

/* The same, by calls that need not wait. */
static int talkative_hog(void *arg)
{
    (void)arg;
    hd_chan *chan = hd_chan_create(sizeof(int), 1);
    EXPECT(chan != NULL);
    atomic_fetch_add(&hogs_running, 1);
    for (int item = 0; !atomic_load(&hogs_may_end);) {
        EXPECT_EQ(hd_chan_send(chan, &item), 0);
        EXPECT_EQ(hd_chan_recv(chan, &item), 0);
    }
    hd_chan_destroy(chan);
    return 0;
}

TEST(a_task_that_calls_gives_way_without_spares)
{
    hd_options options = live(1);
    options.stall_ns = HD_FOREVER;
    stuck_in(polite_hog, &options, 1);
    stuck_in(polite_hog, &options, 4);
    stuck_in(talkative_hog, &options, 1);
}

/* Not before its time is over. */
static int measured_hog(void *arg)
{
    const int64_t begun = now_ns();
    while (!atomic_load(&hogs_may_end)) EXPECT_EQ(hd_checkpoint(1), 0);
    *(int64_t *)arg = now_ns() - begun;
    return 0;
}

static int end_them(void *arg)
{
    (void)arg;
    atomic_store(&hogs_may_end, true);
    return 0;
}

static int hog_and_other(void *arg)
{
    hd_task *first = spawn(NULL, measured_hog, arg), *second = spawn(NULL, end_them, NULL);
    return join(first) + join(second);
}

TEST(nobody_gives_way_before_the_quantum_is_over)
{
    hd_options options = live(1);
    options.quantum_ns = 50 * MS;
    options.stall_ns = HD_FOREVER;
    options.policy = HD_POLICY_ORDERED; /* the first begins first */
    int64_t long_ns = 0;
    hd_runtime *runtime = stress_runtime(&options);
    EXPECT_EQ(join(spawn(runtime, hog_and_other, &long_ns)), 0);
    EXPECT(long_ns >= options.quantum_ns);
    hd_runtime_destroy(runtime);
}

/* ---- ending ---- */

static int hog_until_cancelled(void *arg)
{
    (void)arg;
    atomic_fetch_add(&hogs_running, 1);
    while (!hd_cancelled()) hdi_cpu_relax();
    return 0;
}

TEST(a_runtime_ends_while_spares_run)
{
    for (int i = 0; i < 5; i++) {
        const hd_options options = live(1);
        hd_runtime *runtime = stress_runtime(&options);
        atomic_store(&hogs_running, 0);
        for (int k = 0; k < 3; k++) hd_detach(spawn(runtime, hog_until_cancelled, NULL));
        stress_await(&hogs_running, 3); /* so two are on spares */
        hd_runtime_destroy(runtime);
    }
}

TEST(a_pool_ends_while_spares_run)
{
    const hd_options options = live(1);
    hd_runtime *runtime = stress_runtime(&options);
    for (int i = 0; i < 5; i++) {
        hd_dispatcher_options of_pool = HD_DISPATCHER_OPTIONS_INIT;
        of_pool.runtime = runtime;
        hd_dispatcher *pool = NULL;
        EXPECT_EQ(hd_dispatcher_create(&pool, &of_pool), 0);
        atomic_store(&hogs_running, 0);
        atomic_store(&hogs_may_end, false);
        hd_task *tasks[3];
        for (int k = 0; k < 3; k++) tasks[k] = spawn_on(runtime, pool, hog, NULL, 0);
        stress_await(&hogs_running, 3);
        hd_dispatcher_unref(pool);
        atomic_store(&hogs_may_end, true);
        for (int k = 0; k < 3; k++) EXPECT_EQ(join(tasks[k]), 0);
    }
    hd_runtime_destroy(runtime);
}

/* Spares come and go over and over, while all sides submit, sleep and are woken. */
static atomic_bool churning;

static int short_hog(void *arg)
{
    (void)arg;
    const int64_t until = now_ns() + 8 * MS;
    while (now_ns() < until) hdi_cpu_relax();
    return 0;
}

static int churn_victim(void *arg)
{
    while (atomic_load(&churning)) EXPECT_EQ(victim(arg), 0);
    return 0;
}

static int churn_hogs(void *arg)
{
    while (atomic_load(&churning)) {
        EXPECT_EQ(join(spawn(NULL, short_hog, NULL)), 0);
        EXPECT_EQ(hd_sleep_ms((int64_t)(uintptr_t)arg), 0);
    }
    return 0;
}

TEST(spares_come_and_go)
{
    enum { VICTIMS = 4, HERDS = 4 };
    for (unsigned workers = 1; workers <= 2; workers++) {
        hd_options options = live(workers);
        options.quantum_ns = options.stall_ns = 2 * MS;
        hd_runtime *runtime = stress_runtime(&options);
        hd_task *tasks[VICTIMS + HERDS];
        atomic_store(&churning, true);
        for (int i = 0; i < VICTIMS; i++) tasks[i] = spawn(runtime, churn_victim, NULL);
        for (int i = 0; i < HERDS; i++) {
            tasks[VICTIMS + i] = spawn(runtime, churn_hogs, (void *)(uintptr_t)(20 + 60 * i));
        }
        const struct timespec measured = {.tv_sec = 3};
        EXPECT_EQ(nanosleep(&measured, NULL), 0); /* the measured time itself */
        atomic_store(&churning, false);
        for (int i = 0; i < VICTIMS + HERDS; i++) EXPECT_EQ(join(tasks[i]), 0);
        await_normal(runtime, workers);
        hd_runtime_destroy(runtime);
    }
}

/* ---- who may take from whose queue ---- */

static bool first_is_alone(const hd_options *options)
{
    hd_runtime *runtime = stress_runtime(options);
    EXPECT_EQ(runtime->main.workers[0].queue.shape, HDI_RUNQ_RING);
    const bool alone = runtime->main.workers[0].queue.ring.alone;
    hd_runtime_destroy(runtime);
    return alone;
}

TEST(a_worker_is_alone_with_its_queue_only_where_no_spare_may_come)
{
    hd_options one = live(1), two = live(2);
    EXPECT(!first_is_alone(&one));
    one.stall_ns = HD_FOREVER;
    EXPECT(first_is_alone(&one));
    two.stall_ns = HD_FOREVER;
    EXPECT(!first_is_alone(&two));
}

/* ---- the monitor's thread ---- */

static unsigned monitors(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/task");
    EXPECT(dir != NULL);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        char name[32];
        if (!proc_read(atoi(entry->d_name), "comm", name, sizeof(name))) continue;
        if (strncmp(name, "heddle-monitor", 14) == 0) count++;
    }
    closedir(dir);
    return count;
}

/* The kernel knows a thread a moment longer than who joined it, and its name a moment later than
 * who started it. */
static void await_monitors(unsigned count)
{
    while (monitors() != count) sched_yield();
}

TEST(there_is_a_monitor_only_where_there_is_something_to_watch)
{
    hd_options options = live(2);
    hd_runtime *runtime = stress_runtime(&options);
    EXPECT_EQ(monitors(), 0); /* No task has run. */
    EXPECT_EQ(join(spawn(runtime, victim, NULL)), 0);
    await_monitors(1);
    hd_runtime_destroy(runtime);
    await_monitors(0);
    options.quantum_ns = options.stall_ns = HD_FOREVER;
    runtime = stress_runtime(&options);
    EXPECT_EQ(join(spawn(runtime, victim, NULL)), 0);
    EXPECT_EQ(monitors(), 0);
    EXPECT_EQ(runtime->main.place_max, 2);
    hd_runtime_destroy(runtime);
}

/* Neither its thread nor that of a spare keeps a deadlock from being found. */
static int park_for_good(void *arg)
{
    (void)arg;
    return hd_park();
}

static int stall_and_deadlock(void *arg)
{
    const int64_t until = now_ns() + 60 * MS;
    hd_task *task = spawn(NULL, park_for_good, arg);
    while (now_ns() < until) hdi_cpu_relax();
    const int err = hd_join(task, NULL);
    if (err) hd_detach(task); /* Both are cancelled: the other may have ended first. */
    return err;
}

TEST(a_deadlock_after_a_stall_is_found)
{
    if (STRESS_TSAN) test_skip("ThreadSanitizer has a thread of its own");
    if (getenv("HEDDLE_TEST_EMULATED")) test_skip("the emulator has threads of its own");
    const hd_options options = live(1);
    EXPECT(freopen("/dev/null", "w", stderr) != NULL); /* the report */
    EXPECT_EQ(hd_run(stall_and_deadlock, NULL, &options), -EDEADLK);
}

/* It wakes up for what comes after it fell asleep. */
TEST(the_monitor_wakes_up_again)
{
    const hd_options options = live(1);
    hd_runtime *runtime = stress_runtime(&options);
    for (int i = 0; i < 5; i++) {
        atomic_store(&hogs_may_end, false);
        hd_task *task = spawn(runtime, hog, NULL);
        EXPECT_EQ(join(spawn(runtime, victim_then_end, NULL)), 0);
        EXPECT_EQ(join(task), 0);
        await_normal(runtime, 1);
    }
    hd_runtime_destroy(runtime);
}
