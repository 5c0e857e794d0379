/* SPDX-License-Identifier: MIT
 *
 * pools: short forms for tests with several dispatchers. All of them expect success.
 */
#ifndef TEST_POOLS_H
#define TEST_POOLS_H

#include "rt.h"

static inline hd_dispatcher *pool(const char *name, unsigned workers, hd_policy policy)
{
    hd_dispatcher_options options = HD_DISPATCHER_OPTIONS_INIT;
    options.name = name;
    options.workers = workers;
    options.policy = policy;
    hd_dispatcher *dispatcher = NULL;
    EXPECT_EQ(hd_dispatcher_create(&dispatcher, &options), 0);
    return dispatcher;
}

static inline hd_dispatcher *single(void)
{
    hd_dispatcher *dispatcher = NULL;
    EXPECT_EQ(hd_dispatcher_single(&dispatcher, NULL), 0);
    return dispatcher;
}

static inline hd_task *spawn_on(hd_dispatcher *dispatcher, hd_fn *fn, void *arg, unsigned flags)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.dispatcher = dispatcher;
    options.flags = flags;
    hd_task *task = NULL;
    EXPECT_EQ(hd_spawn_with(&task, fn, arg, &options), 0);
    return task;
}

static inline void expect_on(const hd_dispatcher *dispatcher)
{
    EXPECT(hd_dispatcher_self() == dispatcher);
}

#endif
