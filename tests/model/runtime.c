/* SPDX-License-Identifier: MIT */
#include <heddle/task.h>

#include "scenario.h"

static hd_runtime *start(unsigned workers)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = workers;
    options.guard = HD_GUARD_CANARY;
    options.stack_bytes = 16 << 10;
    hd_runtime *runtime;
    const int err = hd_runtime_create(&runtime, &options);
    MODEL_EQUAL(err, 0);
    return runtime;
}

static int answer(void *arg)
{
    return *(int *)arg;
}

static hd_poll poll_answer(void *state, int *result)
{
    *result = *(int *)state;
    return HD_READY;
}

MODEL(probe_empty1, .sc = 1, .tso = 1) { hd_runtime_destroy(start(1)); }
MODEL(probe_empty2, .sc = 1, .tso = 1) { hd_runtime_destroy(start(2)); }
static void one(unsigned n, bool fiber)
{
    hd_runtime *rt = start(n);
    int x = 42, got = 0;
    hd_task *t;
    hd_spawn_options o = HD_SPAWN_OPTIONS_INIT;
    o.runtime = rt;
    MODEL_EQUAL(fiber ? hd_spawn_with(&t, answer, &x, &o)
                      : hd_spawn_poll_with(&t, poll_answer, &x, sizeof(x), &o),
                0);
    MODEL_EQUAL(hd_join(t, &got), 0);
    MODEL_EQUAL(got, 42);
    hd_runtime_destroy(rt);
}
MODEL(probe_fiber1, .sc = 1, .tso = 1, .pso=1) { one(1, true); }
MODEL(probe_poll1, .sc = 1, .tso = 1, .pso=1) { one(1, false); }
MODEL(probe_fiber2, .sc = 1, .tso = 1, .pso=1) { one(2, true); }
MODEL(probe_poll2, .sc = 1, .tso = 1, .pso=1) { one(2, false); }
