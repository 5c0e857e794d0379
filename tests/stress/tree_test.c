/* SPDX-License-Identifier: MIT
 *
 * What nurseries cost: a thread that waits uses no CPU; a million children one after another
 * leave nothing behind; trees of a million tasks, wide and deep, are cancelled in bounded
 * time, without recursion and without leaks; looking for a cancel is O(1).
 */
#include "nurseries.h"

#include <sys/resource.h>
#include <time.h>

#include "proc.h"
#include "stress/stress.h"

TEST_MAIN

enum { FULL = 1000000, MIB = 1 << 20, SECONDS_MAX = 60 };

static int64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * HD_SECOND_NS + now.tv_nsec;
}

static int64_t resident_bytes(void)
{
    char text[4096];
    EXPECT(proc_read(getpid(), "status", text, sizeof(text)));
    return (int64_t)proc_number_after(text, "VmRSS:") * 1024;
}

static unsigned how_many(void)
{
    if (getenv("HEDDLE_TEST_EMULATED")) return 2000;
    return stress_count(FULL);
}

static hd_runtime *live(unsigned workers)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = workers;
    options.stall_ns = HD_FOREVER; /* A spare would cost memory of its own. */
    return stress_runtime(&options);
}

static int run_in(hd_runtime *runtime, hd_fn *fn, void *arg)
{
    const hd_spawn_options into = stress_into(runtime);
    hd_task *task;
    int result = 0;
    EXPECT_EQ(hd_spawn_with(&task, fn, arg, &into), 0);
    EXPECT_EQ(hd_join(task, &result), 0);
    return result;
}

/* ---- waiting costs nothing ---- */

static int sleep_long(void *arg)
{
    (void)arg;
    return hd_sleep_ms(2000);
}

TEST(a_thread_waits_without_polling)
{
    hd_runtime *runtime = live(2);
    struct rusage before = {0}, after;
    HD_NURSERY(n, .runtime = runtime) {
        for (int i = 0; i < 3; i++) nur_go(n, sleep_long, NULL);
        EXPECT_EQ(getrusage(RUSAGE_THREAD, &before), 0);
    }
    EXPECT_EQ(getrusage(RUSAGE_THREAD, &after), 0);
    const long switches = after.ru_nvcsw - before.ru_nvcsw;
    const long us = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000000L +
                    (after.ru_utime.tv_usec - before.ru_utime.tv_usec) +
                    (after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000000L +
                    (after.ru_stime.tv_usec - before.ru_stime.tv_usec);
    fprintf(stderr, "# 2 s: %ld switches, %ld us of CPU\n", switches, us);
    EXPECT(switches <= 5);
    if (!STRESS_TSAN && !STRESS_ASAN) EXPECT(us < 20000);
    hd_runtime_destroy(runtime);
}

static int wait_for_sleepers(void *arg)
{
    (void)arg;
    HD_NURSERY(n) {
        for (int i = 0; i < 3; i++) nur_go(n, sleep_long, NULL);
    }
    return hd_nursery_result();
}

TEST(a_fiber_that_waits_leaves_its_workers_idle)
{
    hd_runtime *runtime = live(2);
    const int64_t before = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    EXPECT_EQ(run_in(runtime, wait_for_sleepers, NULL), 0);
    const int64_t used = now_ns(CLOCK_PROCESS_CPUTIME_ID) - before;
    fprintf(stderr, "# 2 s: %lld us of CPU\n", (long long)used / 1000);
    if (!STRESS_TSAN && !STRESS_ASAN) EXPECT(used < 50 * HD_MS_NS);
    hd_runtime_destroy(runtime);
}

/* ---- finished children cost nothing ---- */

static int spawn_one_by_one(void *arg)
{
    const unsigned count = *(const unsigned *)arg;
    hd_nursery n;
    nur_open(&n, NULL);
    int64_t resident = 0;
    for (unsigned i = 0; i < count; i++) {
        nur_go(&n, nur_nothing, NULL);
        if (i % 16 == 15) nur_until_live(&n, 0);
        if (i == count / 10) resident = resident_bytes();
    }
    EXPECT_EQ(hd_nursery_wait(&n), 0);
    EXPECT_EQ(hd_nursery_look(&n).spawned, count);
    const int64_t grown = resident_bytes() - resident;
    fprintf(stderr, "# %u children one after another: %lld KiB more\n", count,
            (long long)grown / 1024);
    if (!STRESS_TSAN && !STRESS_ASAN) EXPECT(grown < 2 * MIB);
    return hd_nursery_leave(&n);
}

TEST(a_million_children_one_after_another_leave_nothing)
{
    hd_runtime *runtime = live(2);
    unsigned count = how_many();
    EXPECT_EQ(run_in(runtime, spawn_one_by_one, &count), 0);
    hd_runtime_destroy(runtime);
}

/* ---- wide ---- */

struct crowd {
    unsigned count;
    atomic_uint begun, dropped;
    hd_nursery nursery;
};

struct member {
    struct crowd *crowd;
    bool begun;
};

static hd_poll idle_poll(void *state, int *result)
{
    struct member *self = state;
    if (!self->begun) {
        self->begun = true;
        atomic_fetch_add_explicit(&self->crowd->begun, 1, memory_order_relaxed);
    }
    if (!hd_cancelled()) return HD_PENDING;
    *result = -ECANCELED;
    return HD_READY;
}

static void member_drop(void *state)
{
    const struct member *self = state;
    atomic_fetch_add_explicit(&self->crowd->dropped, 1, memory_order_relaxed);
}

static int gather(void *arg)
{
    struct crowd *crowd = arg;
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.nursery = &crowd->nursery;
    options.drop = member_drop;
    const struct member member = {.crowd = crowd};
    for (unsigned i = 0; i < crowd->count; i++) {
        EXPECT_EQ(hd_spawn_poll_with(NULL, idle_poll, &member, sizeof(member), &options), 0);
        if (i % 64 == 63) hd_yield();
    }
    return 0;
}

static void expect_soon(const char *what, unsigned count, int64_t start)
{
    const int64_t took = now_ns(CLOCK_MONOTONIC) - start;
    fprintf(stderr, "# %s of %u: %lld ms, %lld ns each\n", what, count,
            (long long)(took / HD_MS_NS), (long long)(took / count));
    EXPECT(took < SECONDS_MAX * HD_SECOND_NS);
}

/* The one who cancels has the smallest stack there is. */
static int cancel_crowd(void *arg)
{
    struct crowd *crowd = arg;
    hd_nursery_cancel(&crowd->nursery);
    return 0;
}

static void run_small(hd_runtime *runtime, hd_fn *fn, void *arg)
{
    hd_spawn_options options = stress_into(runtime);
    options.stack_bytes = 16 << 10;
    hd_task *task;
    EXPECT_EQ(hd_spawn_with(&task, fn, arg, &options), 0);
    EXPECT_EQ(hd_join(task, NULL), 0);
}

TEST(a_million_tasks_in_one_nursery_are_cancelled)
{
    hd_runtime *runtime = live(2);
    struct crowd *crowd = calloc(1, sizeof(*crowd));
    crowd->count = how_many();
    const hd_nursery_options of = {.size = sizeof(of), .runtime = runtime};
    nur_open(&crowd->nursery, &of);
    EXPECT_EQ(run_in(runtime, gather, crowd), 0);
    stress_await(&crowd->begun, crowd->count);
    EXPECT_EQ(hd_nursery_look(&crowd->nursery).live, crowd->count);
    const int64_t start = now_ns(CLOCK_MONOTONIC);
    run_small(runtime, cancel_crowd, crowd);
    EXPECT_EQ(hd_nursery_wait(&crowd->nursery), -ECANCELED);
    expect_soon("wide cancel", crowd->count, start);
    const hd_nursery_info info = hd_nursery_look(&crowd->nursery);
    EXPECT_EQ(info.cancelled, crowd->count);
    EXPECT_EQ(info.live, 0);
    EXPECT_EQ(hd_nursery_leave(&crowd->nursery), -ECANCELED);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    EXPECT_EQ(atomic_load(&crowd->dropped), crowd->count); /* every state exactly once */
    free(crowd);
    hd_runtime_destroy(runtime);
}

/* ---- deep ---- */

struct deep {
    atomic_uint begun, ended;
    unsigned depth;
};

struct link {
    hd_nursery nursery;
    struct deep *deep;
    unsigned depth;
    bool opened;
};

/* Each owns a nursery whose one child is the next. */
static hd_poll chain_poll(void *state, int *result)
{
    struct link *self = state;
    if (!self->opened) {
        self->opened = true;
        nur_open(&self->nursery, NULL);
        if (self->depth > 1) {
            const struct link next = {.deep = self->deep, .depth = self->depth - 1};
            nur_go_poll(&self->nursery, chain_poll, &next, sizeof(next));
        }
        atomic_fetch_add(&self->deep->begun, 1);
    }
    if (self->depth == 1 && !hd_cancelled()) return HD_PENDING;
    int left;
    if (hd_nursery_wait_poll(&self->nursery, &left) == HD_PENDING) return HD_PENDING;
    EXPECT_EQ(left, self->depth > 1 ? -ECANCELED : 0);
    (void)hd_nursery_leave(&self->nursery);
    atomic_fetch_add(&self->deep->ended, 1);
    *result = -ECANCELED;
    return HD_READY;
}

static int cancel_task(void *task)
{
    hd_cancel(task);
    return 0;
}

static void cancel_deep(hd_runtime *runtime, struct deep *deep, hd_task *root)
{
    stress_await(&deep->begun, deep->depth);
    const int64_t start = now_ns(CLOCK_MONOTONIC);
    run_small(runtime, cancel_task, root);
    int result = 0;
    EXPECT_EQ(hd_join(root, &result), 0);
    expect_soon("deep cancel", deep->depth, start);
    EXPECT_EQ(result, -ECANCELED);
    EXPECT_EQ(atomic_load(&deep->ended), deep->depth);
}

TEST(a_chain_of_a_million_stackless_tasks_is_cancelled)
{
    char text[4096];
    FILE *file = fopen("/proc/meminfo", "re");
    EXPECT(file != NULL);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    const bool roomy = proc_number_after(text, "MemAvailable:") >> 20 >= 8;
    hd_runtime *runtime = live(2);
    struct deep deep = {.depth = roomy ? how_many() : how_many() / 10};
    hd_spawn_options into = stress_into(runtime);
    const struct link first = {.deep = &deep, .depth = deep.depth};
    hd_task *root;
    EXPECT_EQ(hd_spawn_poll_with(&root, chain_poll, &first, sizeof(first), &into), 0);
    cancel_deep(runtime, &deep, root);
    hd_runtime_destroy(runtime);
}

struct fiber_link {
    struct deep *deep;
    unsigned depth;
};

static int chain_fiber(void *arg)
{
    const struct fiber_link *self = arg;
    struct fiber_link next = {self->deep, self->depth - 1};
    int err = 0;
    HD_NURSERY(n) {
        if (next.depth > 0) nur_go(n, chain_fiber, &next);
        atomic_fetch_add(&self->deep->begun, 1);
        err = nur_park(NULL);
    }
    EXPECT_EQ(hd_nursery_result(), next.depth > 0 ? -ECANCELED : 0);
    atomic_fetch_add(&self->deep->ended, 1);
    return err;
}

TEST(a_chain_of_ten_thousand_fibers_is_cancelled)
{
    hd_runtime *runtime = live(2);
    struct deep deep = {.depth = STRESS_TSAN ? 2000 : 10000};
    struct fiber_link first = {&deep, deep.depth};
    hd_spawn_options into = stress_into(runtime);
    hd_task *root;
    EXPECT_EQ(hd_spawn_with(&root, chain_fiber, &first, &into), 0);
    cancel_deep(runtime, &deep, root);
    hd_runtime_destroy(runtime);
}

/* ---- wide and deep ---- */

struct fan {
    hd_nursery nursery;
    struct deep *deep;
    unsigned width, depth;
    bool opened;
};

static hd_poll fan_poll(void *state, int *result)
{
    struct fan *self = state;
    if (!self->opened) {
        self->opened = true;
        nur_open(&self->nursery, NULL);
        const struct fan next = {
            .deep = self->deep, .width = self->width, .depth = self->depth - 1};
        for (unsigned i = 0; self->depth > 0 && i < self->width; i++) {
            nur_go_poll(&self->nursery, fan_poll, &next, sizeof(next));
        }
        atomic_fetch_add(&self->deep->begun, 1);
    }
    if (self->depth == 0 && !hd_cancelled()) return HD_PENDING;
    if (hd_nursery_wait_poll(&self->nursery, result) == HD_PENDING) return HD_PENDING;
    (void)hd_nursery_leave(&self->nursery);
    atomic_fetch_add(&self->deep->ended, 1);
    *result = -ECANCELED;
    return HD_READY;
}

TEST(a_tree_of_branches_is_cancelled)
{
    hd_runtime *runtime = live(2);
    const unsigned width = STRESS_TSAN || STRESS_ASAN ? 10 : 40;
    struct deep deep = {.depth = 1 + width + width * width + width * width * width};
    hd_spawn_options into = stress_into(runtime);
    const struct fan first = {.deep = &deep, .width = width, .depth = 3};
    hd_task *root;
    EXPECT_EQ(hd_spawn_poll_with(&root, fan_poll, &first, sizeof(first), &into), 0);
    cancel_deep(runtime, &deep, root);
    hd_runtime_destroy(runtime);
}

/* ---- looking is O(1) ---- */

static int64_t look_often(void)
{
    enum { LOOKS = 200000 };
    int64_t best = INT64_MAX;
    for (int round = 0; round < 5; round++) {
        const int64_t start = now_ns(CLOCK_MONOTONIC);
        for (int i = 0; i < LOOKS; i++) EXPECT(!hd_cancelled());
        const int64_t took = now_ns(CLOCK_MONOTONIC) - start;
        if (took < best) best = took;
    }
    return best;
}

static int look_deep(void *arg)
{
    (void)arg;
    enum { DEEP = 20000 };
    hd_scope *scopes = calloc(DEEP, sizeof(*scopes));
    EXPECT(scopes != NULL);
    const int64_t shallow = look_often();
    for (int i = 0; i < DEEP; i++) EXPECT_EQ(hd_scope_enter(&scopes[i], NULL), 0);
    const int64_t deep = look_often();
    fprintf(stderr, "# 200,000 looks: %lld us at depth 0, %lld us at depth 20,000\n",
            (long long)shallow / 1000, (long long)deep / 1000);
    EXPECT(deep < 20 * shallow + HD_MS_NS);
    for (int i = DEEP - 1; i >= 0; i--) hd_scope_leave(&scopes[i]);
    free(scopes);
    return 0;
}

TEST(looking_for_a_cancel_does_not_depend_on_the_depth)
{
    hd_runtime *runtime = live(1);
    EXPECT_EQ(run_in(runtime, look_deep, NULL), 0);
    hd_runtime_destroy(runtime);
}
