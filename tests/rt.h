/* SPDX-License-Identifier: MIT
 *
 * rt: short forms for tests that need a runtime and tasks. All of them expect success.
 */
#ifndef TEST_RT_H
#define TEST_RT_H

#include <limits.h>
#include <stdatomic.h>

#include "test.h"

/* The same options with another number of workers; with one, a fiber runs undisturbed
 * from one wait to the next in both worlds, so there are no points. */
static inline hd_options rt_workers(const hd_options *options, unsigned workers)
{
    hd_options own = *options;
    own.workers = workers;
    if (workers == 1) {
        own.quantum_ns = own.stall_ns = HD_FOREVER;
        own.quantum_ops = UINT_MAX;
        own.sampler = NULL;
    }
    return own;
}

/* One worker, with a monitor that does not come: what is written is left to be sent later. */
static inline hd_options rt_one_lane(const hd_options *options)
{
    hd_options own = rt_workers(options, 1);
    own.quantum_ns = own.stall_ns = 3600 * HD_SECOND_NS;
    return own;
}

/* In sim by workers, as in live: an order that has no points. */
static inline void rt_by_workers(hd_options *options)
{
    options->sim_order = HD_SIM_WORKERS;
    options->sampler = NULL;
}

static inline bool rt_is_sim(const hd_options *options)
{
    return options->world == HD_WORLD_SIM;
}

static inline hd_runtime *rt_create(const hd_options *options)
{
    hd_runtime *runtime = NULL;
    EXPECT_EQ(hd_runtime_create(&runtime, options), 0);
    return runtime;
}

/* runtime NULL: the caller's. */
#define rt_spawn(runtime, fn, arg) rt_spawn_at_((runtime), (fn), (arg), HD_SITE)
static inline hd_task *rt_spawn_at_(hd_runtime *runtime, hd_fn *fn, void *arg,
                                    const hd_site *site)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.runtime = runtime;
    hd_task *handle = NULL;
    EXPECT_EQ(hd_spawn_at(&handle, fn, arg, &options, site), 0);
    return handle;
}

#define rt_spawn_poll(runtime, poll, state, bytes)                                       \
    rt_spawn_poll_at_((runtime), (poll), (state), (bytes), NULL, HD_SITE)
#define rt_spawn_poll_drop(runtime, poll, state, bytes, drop)                            \
    rt_spawn_poll_at_((runtime), (poll), (state), (bytes), (drop), HD_SITE)
static inline hd_task *rt_spawn_poll_at_(hd_runtime *runtime, hd_poll_fn *poll,
                                         const void *state, size_t bytes, hd_drop_fn *drop,
                                         const hd_site *site)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.runtime = runtime;
    options.drop = drop;
    hd_task *handle = NULL;
    EXPECT_EQ(hd_spawn_poll_at(&handle, poll, state, bytes, &options, site), 0);
    return handle;
}

static inline int rt_join(hd_task *handle)
{
    int result = 0;
    EXPECT_EQ(hd_join(handle, &result), 0);
    return result;
}

/* From a fiber: wait until the flag is set. */
static inline void rt_until(atomic_int *flag)
{
    while (atomic_load(flag) == 0) hd_yield();
}

static inline int rt_until_fn_(void *flag)
{
    rt_until(flag);
    return 0;
}

/* From a thread: the same. With one worker, whoever set the flag waits by then. */
static inline void rt_await(hd_runtime *runtime, atomic_int *flag)
{
    EXPECT_EQ(rt_join(rt_spawn(runtime, rt_until_fn_, flag)), 0);
}

static inline void rt_run(hd_fn *fn, void *arg, const hd_options *options)
{
    EXPECT_EQ(hd_run(fn, arg, options), 0);
}

/* Without points: for what ends an explored run, such as the use of a closed handle. */
static inline void rt_run_plain(hd_fn *fn, void *arg, const hd_options *options)
{
    hd_options own = *options;
    own.sampler = NULL;
    rt_run(fn, arg, &own);
}

#endif
