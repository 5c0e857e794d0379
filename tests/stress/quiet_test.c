/* SPDX-License-Identifier: MIT
 *
 * An idle runtime costs nothing: with 1,000 parked fibers and 100 idle stackless tasks
 * each, and no work, the kernel counts no context switch and no CPU time of any worker or
 * monitor in five seconds. Runtimes of 1, 2 and 16 workers are watched at once.
 */
#include "stress/stress.h"

#include <ctype.h>
#include <dirent.h>
#include <time.h>

#include "proc.h"
#include "sched/runtime.h"

/* THREADS_MAX: on a slow machine some are spares, which leave again. */
enum { RUNTIMES = 3, FIBERS = 1000, POLLS = 100, THREADS_MAX = 1024, WATCH_SECONDS = 5 };

static const unsigned workers_of[RUNTIMES] = {1, 2, 16};

/* ---- what the kernel knows about a thread ---- */

struct usage {
    int tid;
    char state;
    unsigned long long voluntary, involuntary, user_ticks, system_ticks;
};

/* Returns false if it has ended: a spare, which was not needed any more. */
static bool read_usage(int tid, struct usage *usage)
{
    char text[4096];
    if (!proc_read(tid, "status", text, sizeof(text))) return false;
    *usage = (struct usage){.tid = tid};
    usage->voluntary = proc_number_after(text, "\nvoluntary_ctxt_switches:");
    usage->involuntary = proc_number_after(text, "\nnonvoluntary_ctxt_switches:");
    if (!proc_read(tid, "stat", text, sizeof(text))) return false;
    const char *rest = strrchr(text, ')'); /* The name may hold anything. */
    EXPECT(rest != NULL);
    EXPECT_EQ(sscanf(rest, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &usage->state,
                     &usage->user_ticks, &usage->system_ticks),
              3);
    return true;
}

/* The workers are the threads named heddle-N, the monitors those named heddle-monitor. */
static unsigned read_workers(struct usage usages[THREADS_MAX])
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/task");
    EXPECT(dir != NULL);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        char name[32];
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        const int tid = atoi(entry->d_name);
        if (!proc_read(tid, "comm", name, sizeof(name))) continue;
        if (strncmp(name, "heddle-", 7) != 0) continue;
        EXPECT(count < THREADS_MAX);
        count += read_usage(tid, &usages[count]);
    }
    closedir(dir);
    return count;
}

/* ---- the idle runtimes ---- */

struct crowd {
    hd_runtime *runtime;
    hd_waker wakers[FIBERS + POLLS];
    atomic_uint registered;
    atomic_uint ended;
    atomic_bool over;
};

struct member {
    struct crowd *crowd;
    unsigned index;
};

static void enrol(const struct member *member)
{
    member->crowd->wakers[member->index] = hd_waker_self();
    atomic_fetch_add_explicit(&member->crowd->registered, 1, memory_order_release);
}

static int parked_fiber(void *arg)
{
    const struct member *member = arg;
    enrol(member);
    while (!atomic_load(&member->crowd->over)) EXPECT_EQ(hd_park(), 0);
    atomic_fetch_add(&member->crowd->ended, 1);
    return 0;
}

struct idle_state {
    struct member member;
    bool enrolled;
};

static hd_poll idle_poll(void *arg, int *result)
{
    struct idle_state *state = arg;
    if (!state->enrolled) {
        state->enrolled = true;
        enrol(&state->member);
    }
    if (!atomic_load(&state->member.crowd->over)) return HD_PENDING;
    atomic_fetch_add(&state->member.crowd->ended, 1);
    *result = 0;
    return HD_READY;
}

static void gather(struct crowd *crowd, struct member *members, unsigned workers, hd_policy policy)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = workers;
    options.policy = policy;
    crowd->runtime = stress_runtime(&options);
    const hd_spawn_options into = stress_into(crowd->runtime);
    for (unsigned i = 0; i < FIBERS; i++) {
        members[i] = (struct member){crowd, i};
        EXPECT_EQ(hd_spawn_with(NULL, parked_fiber, &members[i], &into), 0);
    }
    for (unsigned i = FIBERS; i < FIBERS + POLLS; i++) {
        const struct idle_state state = {.member = {crowd, i}};
        EXPECT_EQ(hd_spawn_poll_with(NULL, idle_poll, &state, sizeof(state), &into), 0);
    }
    stress_await(&crowd->registered, FIBERS + POLLS);
}

static void disperse(struct crowd *crowd)
{
    atomic_store(&crowd->over, true);
    for (unsigned i = 0; i < FIBERS + POLLS; i++) hd_waker_wake(crowd->wakers[i]);
    EXPECT_EQ(hd_runtime_drain(crowd->runtime, HD_FOREVER), 0);
    EXPECT_EQ(atomic_load(&crowd->ended), FIBERS + POLLS);
    hd_runtime_destroy(crowd->runtime);
}

static bool same_usage(const struct usage *a, const struct usage *b)
{
    return a->tid == b->tid && a->voluntary == b->voluntary && a->involuntary == b->involuntary &&
           a->user_ticks == b->user_ticks && a->system_ticks == b->system_ticks;
}

/* Every worker has said that it parks, and every monitor that it sleeps; spares that a busy machine
 * made them start have gone; and the kernel says that all sleep, and did since the last look: one
 * that waits for a lock on its way to sleep looks the same, but not twice, since its holder goes
 * on. Leaves in `usages` what they have used by then. */
static void await_sleep(struct crowd *crowds, unsigned threads, struct usage usages[THREADS_MAX])
{
    struct usage last[THREADS_MAX] = {{0}};
    for (bool asleep = false; !asleep;) {
        sched_yield();
        asleep = true;
        for (int i = 0; i < RUNTIMES; i++) {
            hd_runtime *runtime = crowds[i].runtime;
            asleep &= hdi_idle_parked(&runtime->main.idle) == workers_of[i];
            asleep &= hdi_load_acquire(&runtime->monitor.word) == HDI_MONITOR_ASLEEP;
        }
        const unsigned count = read_workers(usages);
        asleep &= count == threads;
        for (unsigned i = 0; i < count; i++) {
            asleep &= usages[i].state == 'S' && same_usage(&usages[i], &last[i]);
            last[i] = usages[i];
        }
    }
}

static void idle_costs_nothing(hd_policy policy)
{
    static struct crowd crowds[RUNTIMES];
    static struct member members[RUNTIMES][FIBERS];
    unsigned threads = 0;
    for (int i = 0; i < RUNTIMES; i++) {
        gather(&crowds[i], members[i], workers_of[i], policy);
        threads += workers_of[i] + 1;
    }
    struct usage before[THREADS_MAX], after[THREADS_MAX];
    await_sleep(crowds, threads, before);
    const struct timespec watch = {.tv_sec = WATCH_SECONDS};
    EXPECT_EQ(nanosleep(&watch, NULL), 0); /* the measured time itself */
    EXPECT_EQ(read_workers(after), threads);
    for (unsigned i = 0; i < threads; i++) {
        EXPECT_EQ(after[i].tid, before[i].tid);
        EXPECT_EQ(after[i].voluntary, before[i].voluntary);
        EXPECT_EQ(after[i].involuntary, before[i].involuntary);
        EXPECT_EQ(after[i].user_ticks, before[i].user_ticks);
        EXPECT_EQ(after[i].system_ticks, before[i].system_ticks);
    }
    for (int i = 0; i < RUNTIMES; i++) disperse(&crowds[i]);
}

TEST(idle_costs_nothing_fair)
{
    idle_costs_nothing(HD_POLICY_FAIR);
}

TEST(idle_costs_nothing_local)
{
    idle_costs_nothing(HD_POLICY_LOCAL);
}

TEST_MAIN
