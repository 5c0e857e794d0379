/* SPDX-License-Identifier: MIT
 *
 * Scale: a million parked fibers with guard pages and a million idle stackless tasks in
 * one process, under the kernel's default limits; what they cost in resident memory; then
 * all of them wake and end, and the memory of the stacks goes back to the kernel.
 */
#include "stress/stress.h"

#include "ctx/context.h"
#include "sched/runtime.h"

enum {
    FULL = 1000000,
    FIBER_BYTES_MAX = 4608,   /* 4.5 KiB */
    POLL_BYTES_MAX = 256,     /* beyond the task's own state */
    STATE_BYTES = 32,
    BYTES_NEEDED_GIB = 8,
};

/* ---- memory ---- */

static unsigned long long read_kib(const char *path, const char *key)
{
    FILE *file = fopen(path, "re");
    EXPECT(file != NULL);
    char line[256];
    unsigned long long kib = 0;
    while (fgets(line, sizeof(line), file)) {
        if (strncmp(line, key, strlen(key)) == 0) kib = strtoull(line + strlen(key), NULL, 10);
    }
    fclose(file);
    return kib;
}

static int64_t resident_bytes(void)
{
    return (int64_t)read_kib("/proc/self/status", "VmRSS:") * 1024;
}

static unsigned mapping_count(void)
{
    FILE *file = fopen("/proc/self/maps", "re");
    EXPECT(file != NULL);
    unsigned lines = 0;
    for (int c; (c = getc(file)) != EOF;) lines += c == '\n';
    fclose(file);
    return lines;
}

/* Sanitizers know about some thousand fibers, and keep memory of their own beside
 * everything; emulators have other limits. */
static bool full_size(void)
{
    return HDI_CONTEXT_JUMPS && !getenv("HEDDLE_TEST_EMULATED");
}

static unsigned how_many(void)
{
    if (!full_size()) return 2000;
    if (read_kib("/proc/meminfo", "MemAvailable:") >> 20 < BYTES_NEEDED_GIB) {
        test_skip("needs 8 GiB of free memory");
    }
    return FULL;
}

/* ---- tasks ---- */

struct member {
    hd_waker waker;
};

struct crowd {
    hd_runtime *runtime;
    unsigned count;
    struct member *members;
    atomic_uint started, ended;
    atomic_bool over;
};

static struct crowd crowd;

static unsigned enrol(void)
{
    const unsigned index = atomic_fetch_add_explicit(&crowd.started, 1, memory_order_relaxed);
    crowd.members[index].waker = hd_waker_self();
    return index;
}

static int parked_fiber(void *arg)
{
    (void)arg;
    (void)enrol();
    while (!atomic_load_explicit(&crowd.over, memory_order_acquire)) EXPECT_EQ(hd_park(), 0);
    atomic_fetch_add_explicit(&crowd.ended, 1, memory_order_relaxed);
    return 0;
}

struct idle_state {
    bool started;
    char rest[STATE_BYTES - 1];
};

static hd_poll idle_poll(void *arg, int *result)
{
    struct idle_state *state = arg;
    if (!state->started) {
        state->started = true;
        (void)enrol();
    }
    if (!atomic_load_explicit(&crowd.over, memory_order_acquire)) return HD_PENDING;
    atomic_fetch_add_explicit(&crowd.ended, 1, memory_order_relaxed);
    *result = 0;
    return HD_READY;
}

static int spawning_fiber(void *arg)
{
    const bool fibers = *(const bool *)arg;
    for (unsigned i = 0; i < crowd.count; i++) {
        const int err = fibers ? hd_spawn(NULL, parked_fiber, NULL)
                               : hd_spawn_poll(NULL, idle_poll, NULL, sizeof(struct idle_state));
        EXPECT_EQ(err, 0);
        /* Let them start, so that those ready to start never pile up. */
        if (i % 64 == 63) hd_yield();
    }
    return 0;
}

static int waking_fiber(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < atomic_load(&crowd.started); i++) {
        hd_waker_wake(crowd.members[i].waker);
        if (i % 64 == 63) hd_yield();
    }
    return 0;
}

static void run_fiber(hd_fn *fn, void *arg)
{
    const hd_spawn_options into = stress_into(crowd.runtime);
    hd_task *task;
    EXPECT_EQ(hd_spawn_with(&task, fn, arg, &into), 0);
    EXPECT_EQ(hd_join(task, NULL), 0);
}

static void await_parked(void)
{
    struct hd_dispatcher *main = &crowd.runtime->main;
    while (hdi_idle_parked(&main->idle) != main->worker_count) sched_yield();
}

/* Returns the resident bytes of each. */
static int64_t add_crowd(bool fibers, unsigned before)
{
    await_parked();
    const int64_t resident = resident_bytes();
    run_fiber(spawning_fiber, &fibers);
    stress_await(&crowd.started, before + crowd.count);
    await_parked();
    const int64_t each = (resident_bytes() - resident) / crowd.count;
    fprintf(stderr, "# %u %s: %lld bytes resident each, %u mappings, page tables %llu MiB\n",
            crowd.count, fibers ? "parked fibers" : "idle stackless tasks", (long long)each,
            mapping_count(), read_kib("/proc/self/status", "VmPTE:") >> 10);
    return each;
}

TEST(a_million_of_each)
{
    crowd.count = how_many();
    /* Touched beforehand, so that the measurement does not count it. */
    const size_t bytes = 2 * (size_t)crowd.count * sizeof(*crowd.members);
    crowd.members = malloc(bytes);
    EXPECT(crowd.members != NULL);
    memset(crowd.members, 1, bytes);
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 2;
    options.guard = HD_GUARD_MADVISE;
    if (hd_runtime_create(&crowd.runtime, &options) != 0) {
        test_skip("needs MADV_GUARD_INSTALL, Linux 6.13");
    }
    const int64_t empty = resident_bytes();

    const int64_t fiber_bytes = add_crowd(true, 0);
    const int64_t poll_bytes = add_crowd(false, crowd.count);
    if (full_size()) {
        EXPECT(fiber_bytes <= FIBER_BYTES_MAX);
        EXPECT(poll_bytes <= POLL_BYTES_MAX + STATE_BYTES);
    }
    hd_stats stats;
    hd_runtime_stats(crowd.runtime, &stats);
    EXPECT_EQ(stats.alive, 2 * crowd.count);

    atomic_store_explicit(&crowd.over, true, memory_order_release);
    run_fiber(waking_fiber, NULL);
    EXPECT_EQ(hd_runtime_drain(crowd.runtime, HD_FOREVER), 0);
    EXPECT_EQ(atomic_load(&crowd.ended), 2 * crowd.count);
    await_parked(); /* A worker trims all there is before it parks. */
    /* What stays until the runtime ends: the task headers, and each stack's descriptor. */
    const int64_t kept = (resident_bytes() - empty) / crowd.count;
    fprintf(stderr, "# afterwards: %lld bytes resident for one of each\n", (long long)kept);
    if (full_size()) EXPECT(kept <= 2 * POLL_BYTES_MAX + STATE_BYTES + 128);
    hd_runtime_destroy(crowd.runtime);
    if (full_size()) EXPECT(resident_bytes() - empty < empty / 2 + (16 << 20));
    free(crowd.members);
}

TEST_MAIN
