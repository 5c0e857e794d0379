/* SPDX-License-Identifier: MIT
 *
 * Timers under load: thousands of fibers with random sleeps, timeouts and cancels, and
 * timers that are stopped from other workers. None is early, none is lost, all end. And at
 * rest: a new earliest deadline wakes the sleeper, and a far one costs nothing.
 */
#include "stress/stress.h"

#include <ctype.h>
#include <dirent.h>
#include <time.h>

#include "proc.h"
#include "sched/runtime.h"

#define MS   INT64_C(1000000)
#define HOUR (3600000 * MS)

/* ---- a crowd ---- */

enum { CROWD = 2000, ROUNDS = 8 };

struct crowd {
    atomic_uint ended, cancelled, timeouts;
    unsigned count;
};

struct member {
    struct crowd *crowd;
    unsigned index;
};

/* 0, or the cancel, which must have been asked for. */
static int checked(int err, int64_t deadline)
{
    EXPECT(err == 0 || err == -ECANCELED);
    if (err == 0) EXPECT(hd_now(NULL) >= deadline);
    if (err) EXPECT(hd_cancelled());
    return err;
}

static int sleep_shortly(void *arg)
{
    (void)arg;
    return hd_sleep_until(hd_now(NULL) + MS / 4);
}

static int join_in_time(struct crowd *crowd, int64_t deadline)
{
    hd_task *task;
    int result = 0;
    EXPECT_EQ(hd_spawn(&task, sleep_shortly, NULL), 0);
    const int err = hd_join_until(task, &result, deadline);
    if (err == 0) {
        EXPECT_EQ(result, 0);
        return 0;
    }
    hd_detach(task); /* The handle is still ours. */
    if (err == -ETIMEDOUT) atomic_fetch_add(&crowd->timeouts, 1);
    return checked(err == -ETIMEDOUT ? 0 : err, deadline);
}

static int select_in_time(int64_t deadline)
{
    hd_case cases[] = {HD_AT(deadline + MS), HD_AT(deadline), HD_AT(HOUR + deadline)};
    const int which = hd_select(cases, 3);
    EXPECT(which == 0 || which == 1 || which == -ECANCELED);
    return checked(which < 0 ? which : 0, deadline);
}

static int park_for_timer(int64_t deadline)
{
    hd_timer timer = {{0}};
    EXPECT_EQ(hd_timer_start(&timer, deadline), 0);
    while (!hd_timer_fired(&timer)) {
        if (hd_park() == 0) continue;
        (void)hd_timer_stop(&timer);
        return checked(-ECANCELED, deadline);
    }
    EXPECT(!hd_timer_stop(&timer));
    return checked(0, deadline);
}

static int crowd_member(void *arg)
{
    const struct member *self = arg;
    struct stress_random random = stress_random_init(self->index);
    int err = 0;
    for (int i = 0; i < ROUNDS && !err; i++) {
        const int64_t deadline = hd_now(NULL) + stress_below(&random, 1000000);
        switch (stress_below(&random, 5)) {
        case 0:
        case 1: err = checked(hd_sleep_until(deadline), deadline); break;
        case 2: err = join_in_time(self->crowd, deadline); break;
        case 3: err = select_in_time(deadline); break;
        case 4: err = park_for_timer(deadline); break;
        }
    }
    atomic_fetch_add(&self->crowd->cancelled, err != 0);
    atomic_fetch_add(&self->crowd->ended, 1);
    return 0;
}

static void crowd_with(const hd_options *options, unsigned scale)
{
    static struct crowd crowd;
    static struct member members[CROWD];
    static hd_task *tasks[CROWD];
    crowd = (struct crowd){.count = stress_count(CROWD) / scale};
    hd_runtime *runtime = stress_runtime(options);
    const hd_spawn_options into = stress_into(runtime);
    for (unsigned i = 0; i < crowd.count; i++) {
        members[i] = (struct member){&crowd, i};
        EXPECT_EQ(hd_spawn_with(&tasks[i], crowd_member, &members[i], &into), 0);
    }
    unsigned asked = 0;
    for (unsigned i = 0; i < crowd.count; i += 4, asked++) hd_cancel(tasks[i]);
    for (unsigned i = 0; i < crowd.count; i++) EXPECT_EQ(hd_join(tasks[i], NULL), 0);
    EXPECT_EQ(atomic_load(&crowd.ended), crowd.count);
    EXPECT(atomic_load(&crowd.cancelled) <= asked);
    hd_runtime_destroy(runtime);
}

TEST(a_crowd_sleeps_times_out_and_is_cancelled)
{
    stress_each_setup(crowd_with);
}

/* ---- stopped from elsewhere ---- */

enum { PAIRS = 32 };

struct pair {
    hd_timer timer;
    hd_waker waker;
    atomic_uint started;    /* rounds begun by the owner */
    atomic_uint answered;   /* rounds the stopper is done with */
    bool stopped;           /* in the last one, by the stopper */
    unsigned rounds, index; /* constant */
    unsigned fired_count, stopped_count;
};

static int timer_owner(void *arg)
{
    struct pair *self = arg;
    struct stress_random random = stress_random_init(self->index);
    self->waker = hd_waker_self();
    for (unsigned round = 1; round <= self->rounds; round++) {
        const int64_t deadline = hd_now(NULL) + stress_below(&random, 20000);
        EXPECT_EQ(hd_timer_start(&self->timer, deadline), 0);
        atomic_store_explicit(&self->started, round, memory_order_release);
        /* Meanwhile looked at from here: it must never look fired and be stopped later. */
        bool seen_fired = false;
        while (atomic_load_explicit(&self->answered, memory_order_acquire) != round) {
            seen_fired |= hd_timer_fired(&self->timer);
            if (seen_fired) EXPECT(hd_now(NULL) >= deadline);
            EXPECT_EQ(hd_park(), 0);
        }
        if (seen_fired) EXPECT(!self->stopped);
        EXPECT_EQ(hd_timer_fired(&self->timer), !self->stopped);
        self->fired_count += !self->stopped;
        self->stopped_count += self->stopped;
    }
    return 0;
}

static int timer_stopper(void *arg)
{
    struct pair *self = arg;
    struct stress_random random = stress_random_init(self->index + 1000);
    for (unsigned round = 1; round <= self->rounds; round++) {
        while (atomic_load_explicit(&self->started, memory_order_acquire) != round) hd_yield();
        for (unsigned i = stress_below(&random, 4); i > 0; i--) hd_yield();
        if (stress_below(&random, 4) == 0) {
            while (!hd_timer_fired(&self->timer)) hd_yield(); /* lets it */
        }
        self->stopped = hd_timer_stop(&self->timer);
        EXPECT(!hd_timer_stop(&self->timer));
        atomic_store_explicit(&self->answered, round, memory_order_release);
        hd_waker_wake_keep(self->waker);
    }
    hd_waker_drop(self->waker);
    return 0;
}

static void stop_with(const hd_options *options, unsigned scale)
{
    static struct pair pairs[PAIRS];
    hd_task *tasks[2 * PAIRS];
    hd_runtime *runtime = stress_runtime(options);
    const hd_spawn_options into = stress_into(runtime);
    const unsigned count = PAIRS / scale / scale;
    unsigned fired = 0, stopped = 0;
    for (unsigned i = 0; i < count; i++) {
        pairs[i] = (struct pair){.rounds = stress_count(300) / scale + 1, .index = i};
        EXPECT_EQ(hd_spawn_with(&tasks[2 * i], timer_owner, &pairs[i], &into), 0);
        EXPECT_EQ(hd_spawn_with(&tasks[2 * i + 1], timer_stopper, &pairs[i], &into), 0);
    }
    for (unsigned i = 0; i < 2 * count; i++) EXPECT_EQ(hd_join(tasks[i], NULL), 0);
    for (unsigned i = 0; i < count; i++) {
        EXPECT_EQ(pairs[i].fired_count + pairs[i].stopped_count, pairs[i].rounds);
        fired += pairs[i].fired_count;
        stopped += pairs[i].stopped_count;
    }
    EXPECT(fired > 0); /* some are let */
    fprintf(stderr, "# %u workers: %u fired, %u stopped\n", options->workers, fired, stopped);
    hd_runtime_destroy(runtime);
}

TEST(a_timer_is_either_stopped_or_fires)
{
    stress_each_setup(stop_with);
}

/* ---- at rest ---- */

static int sleep_for_an_hour(void *arg)
{
    atomic_uint *begun = arg;
    atomic_fetch_add(begun, 1);
    return hd_sleep_until(hd_now(NULL) + HOUR);
}

/* A runtime whose workers are all parked, one of them on a deadline in an hour. */
static hd_runtime *resting(unsigned workers, hd_task **sleeper)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = workers;
    options.stall_ns = HD_FOREVER; /* Nobody but the keeper is to see to the time. */
    hd_runtime *runtime = stress_runtime(&options);
    const hd_spawn_options into = stress_into(runtime);
    static atomic_uint begun;
    atomic_store(&begun, 0);
    EXPECT_EQ(hd_spawn_with(sleeper, sleep_for_an_hour, &begun, &into), 0);
    stress_await(&begun, 1);
    return runtime;
}

static void await_rest(hd_runtime *runtime, unsigned workers)
{
    while (hdi_idle_parked(&runtime->main.idle) != workers) sched_yield();
}

static void end_rest(hd_runtime *runtime, hd_task *sleeper)
{
    int result = 0;
    hd_cancel(sleeper);
    EXPECT_EQ(hd_join(sleeper, &result), 0);
    EXPECT_EQ(result, -ECANCELED);
    hd_runtime_destroy(runtime);
}

static int sleep_a_millisecond(void *arg)
{
    (void)arg;
    const int64_t deadline = hd_now(NULL) + MS;
    EXPECT_EQ(hd_sleep_until(deadline), 0);
    EXPECT(hd_now(NULL) >= deadline);
    return 0;
}

TEST(a_new_earliest_deadline_wakes_the_sleeper)
{
    for (unsigned workers = 1; workers <= 4; workers++) {
        hd_task *sleeper, *task;
        hd_runtime *runtime = resting(workers, &sleeper);
        const hd_spawn_options into = stress_into(runtime);
        for (unsigned i = 0; i < stress_count(300); i++) {
            await_rest(runtime, workers);
            EXPECT_EQ(hd_spawn_with(&task, sleep_a_millisecond, NULL, &into), 0);
            EXPECT_EQ(hd_join_until(task, NULL, hd_now(NULL) + 60000 * MS), 0);
        }
        end_rest(runtime, sleeper);
    }
}

static int spin_until_set(void *arg)
{
    while (!atomic_load((atomic_bool *)arg)) continue; /* without a switch */
    return 0;
}

/* Its worker is then kept busy by one task: another one must see to the deadline. */
static int sleep_behind_a_busy_worker(void *arg)
{
    (void)arg;
    atomic_bool over = false;
    hd_task *task;
    EXPECT_EQ(hd_spawn(&task, spin_until_set, &over), 0);
    EXPECT_EQ(sleep_a_millisecond(NULL), 0);
    atomic_store(&over, true);
    return hd_join(task, NULL);
}

TEST(a_deadline_behind_a_busy_worker_is_kept_by_another)
{
    for (unsigned workers = 2; workers <= 4; workers++) {
        hd_task *sleeper, *task;
        hd_runtime *runtime = resting(workers, &sleeper);
        const hd_spawn_options into = stress_into(runtime);
        for (unsigned i = 0; i < stress_count(300); i++) {
            await_rest(runtime, workers);
            EXPECT_EQ(hd_spawn_with(&task, sleep_behind_a_busy_worker, NULL, &into), 0);
            EXPECT_EQ(hd_join_until(task, NULL, hd_now(NULL) + 60000 * MS), 0);
        }
        end_rest(runtime, sleeper);
    }
}

/* ---- what rest costs ---- */

struct usage {
    unsigned threads, asleep;
    unsigned long long switches, ticks;
};

static void add_usage(int tid, struct usage *usage)
{
    char text[4096], state;
    unsigned long long user, system;
    if (!proc_read(tid, "comm", text, sizeof(text))) return;
    if (strncmp(text, "heddle-", 7) != 0) return; /* neither a worker nor a monitor */
    EXPECT(proc_read(tid, "status", text, sizeof(text)));
    usage->threads++;
    usage->switches += proc_number_after(text, "\nvoluntary_ctxt_switches:");
    usage->switches += proc_number_after(text, "\nnonvoluntary_ctxt_switches:");
    EXPECT(proc_read(tid, "stat", text, sizeof(text)));
    const char *rest = strrchr(text, ')');
    EXPECT(rest != NULL);
    EXPECT_EQ(sscanf(rest, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &state, &user,
                     &system),
              3);
    usage->asleep += state == 'S';
    usage->ticks += user + system;
}

static struct usage usage_of_workers(void)
{
    struct usage usage = {0};
    DIR *dir = opendir("/proc/self/task");
    EXPECT(dir != NULL);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        if (isdigit((unsigned char)entry->d_name[0])) add_usage(atoi(entry->d_name), &usage);
    }
    closedir(dir);
    return usage;
}

TEST(a_far_deadline_costs_nothing)
{
    enum { RUNTIMES = 3 };
    static const unsigned workers[RUNTIMES] = {1, 2, 8};
    hd_runtime *runtimes[RUNTIMES];
    hd_task *sleepers[RUNTIMES];
    unsigned threads = 0;
    for (int i = 0; i < RUNTIMES; i++) {
        runtimes[i] = resting(workers[i], &sleepers[i]);
        threads += workers[i] + 1;
    }
    struct usage before;
    do {
        for (int i = 0; i < RUNTIMES; i++) {
            await_rest(runtimes[i], workers[i]);
            const _Atomic(uint32_t) *monitor = &runtimes[i]->monitor.word;
            while (hdi_load_acquire(monitor) != HDI_MONITOR_ASLEEP) sched_yield();
        }
        before = usage_of_workers();
    } while (before.threads != threads || before.asleep != threads);
    const struct timespec watch = {.tv_sec = 2};
    EXPECT_EQ(nanosleep(&watch, NULL), 0); /* the measured time itself */
    const struct usage after = usage_of_workers();
    EXPECT_EQ(after.threads, threads);
    EXPECT_EQ(after.switches, before.switches);
    EXPECT_EQ(after.ticks, before.ticks);
    for (int i = 0; i < RUNTIMES; i++) end_rest(runtimes[i], sleepers[i]);
}

TEST_MAIN
