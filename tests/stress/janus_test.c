/* SPDX-License-Identifier: MIT
 *
 * The compiler ABI at its limits of memory.
 */
#include "stress.h"

#include <limits.h>
#include <malloc.h>
#include <sys/resource.h>

#include "rt.h"

TEST_MAIN

/* ---- finished children cost nothing ---- */

static int nothing(void)
{
    return 0;
}

static int one(void *arg, int64_t *value)
{
    (void)arg;
    *value = 1;
    return 0;
}

/* Of this process: address space and resident. */
static void pages(long *mapped, long *resident)
{
    FILE *file = fopen("/proc/self/statm", "re");
    EXPECT(file && fscanf(file, "%ld %ld", mapped, resident) == 2);
    fclose(file);
}

static long resident_bytes(void)
{
    long mapped, resident;
    pages(&mapped, &resident);
    return resident * sysconf(_SC_PAGESIZE);
}

static void spawn_and_await(janus_nursery *nursery, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        int64_t value = 0;
        EXPECT(janus_nursery_spawn0(nursery, nothing) != NULL);
        EXPECT_EQ(janus_await(janus_async(nursery, one, NULL), &value), 0);
        hd_yield();
    }
}

static int spawn_for_long(void *arg)
{
    (void)arg;
    janus_nursery *nursery = janus_nursery_create();
    spawn_and_await(nursery, 1000);
    const size_t allocated = mallinfo2().uordblks;
    const long resident = resident_bytes();
    spawn_and_await(nursery, stress_count(100 * 1000)); /* of at least 200 bytes each */
    EXPECT(mallinfo2().uordblks < allocated + (1u << 20)); /* 0 with a sanitizer's malloc */
    const long more_max = STRESS_ASAN || STRESS_TSAN ? LONG_MAX : 8 << 20; /* They keep it all. */
    EXPECT(resident_bytes() - resident < more_max);
    const janus_result result = janus_nursery_await(nursery);
    EXPECT_EQ(result.kind, JANUS_OK);
    janus_nursery_destroy(nursery);
    return 0;
}

TEST_WORLDS(finished_children_cost_nothing, options)
{
    const hd_options own = rt_workers(options, 1);
    if (rt_is_sim(options) && options->seed > 2) return;
    rt_run(spawn_for_long, NULL, &own);
}

/* ---- a child without a stack ---- */

/* It never runs, so it never sends a result: who awaits hears of its end. */
TEST(a_child_without_a_stack_is_awaited)
{
    if (STRESS_ASAN || STRESS_TSAN || getenv("HEDDLE_TEST_EMULATED")) {
        test_skip("address space cannot be limited here");
    }
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.stack_bytes = (size_t)1 << 30;
    hd_runtime *runtime = rt_create(&options);
    hd_nursery_options own = HD_NURSERY_OPTIONS_INIT;
    own.runtime = runtime;
    janus_nursery *nursery = NULL;
    EXPECT_EQ(janus_nursery_create_with(&own, &nursery), 0);
    long mapped, resident;
    pages(&mapped, &resident);
    const rlim_t most = (rlim_t)mapped * (rlim_t)sysconf(_SC_PAGESIZE) + (256 << 20);
    EXPECT_EQ(setrlimit(RLIMIT_AS, &(struct rlimit){most, RLIM_INFINITY}), 0);
    int64_t value = 5;
    EXPECT_EQ(janus_await(janus_async(nursery, one, NULL), &value), -ENOMEM);
    EXPECT_EQ(value, 5);
    const janus_result result = janus_nursery_await(nursery);
    EXPECT_EQ(result.kind, JANUS_CHILD_FAILED);
    EXPECT_EQ(result.error, -ENOMEM);
    janus_nursery_destroy(nursery);
    EXPECT_EQ(setrlimit(RLIMIT_AS, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}), 0);
    hd_runtime_destroy(runtime);
}
