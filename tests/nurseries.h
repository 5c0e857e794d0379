/* SPDX-License-Identifier: MIT
 *
 * nurseries: short forms for tests of nurseries and scopes: children that end when they are
 * told, or when they are cancelled, and what a nursery looks like meanwhile.
 */
#ifndef TEST_NURSERIES_H
#define TEST_NURSERIES_H

#include <heddle/nursery.h>
#include <heddle/scope.h>

#include "rt.h"

/* A test that is a fiber, in both worlds; it returns 0. */
#define FIBER_TEST(name)                                                                 \
    static int name##_fiber(void *arg);                                                  \
    TEST_WORLDS(name, options) { rt_run(name##_fiber, NULL, options); }                  \
    static int name##_fiber(__attribute__((unused)) void *arg)

/* ---- spawning: all of them expect success ---- */

static inline hd_nursery *nur_open(hd_nursery *nursery, const hd_nursery_options *options)
{
    EXPECT_EQ(hd_nursery_open(nursery, options), 0);
    return nursery;
}

static inline void nur_go(hd_nursery *nursery, hd_fn *fn, void *arg)
{
    EXPECT_EQ(hd_go(nursery, fn, arg), 0);
}

/* With a name, flags, or a handle to be ended by the caller. */
static inline hd_task *nur_spawn(hd_nursery *nursery, hd_fn *fn, void *arg, const char *name,
                                 unsigned flags)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.nursery = nursery;
    options.name = name;
    options.flags = flags;
    hd_task *task = NULL;
    EXPECT_EQ(hd_spawn_with(&task, fn, arg, &options), 0);
    EXPECT(task != NULL);
    return task;
}

static inline void nur_daemon(hd_nursery *nursery, hd_fn *fn, void *arg)
{
    hd_detach(nur_spawn(nursery, fn, arg, "daemon", HD_DAEMON));
}

static inline void nur_go_poll(hd_nursery *nursery, hd_poll_fn *poll, const void *state,
                               size_t bytes)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.nursery = nursery;
    EXPECT_EQ(hd_spawn_poll_with(NULL, poll, state, bytes, &options), 0);
}

/* ---- children ---- */

static inline int nur_nothing(void *arg)
{
    (void)arg;
    return 0;
}

static inline int nur_return(void *number)
{
    return *(const int *)number;
}

/* Until it is cancelled; ends with what the wait returned. */
static inline int nur_park(void *arg)
{
    (void)arg;
    int err;
    do err = hd_park();
    while (err == 0);
    return err;
}

static inline hd_poll nur_park_poll(void *state, int *result)
{
    (void)state;
    if (!hd_cancelled()) return HD_PENDING;
    *result = -ECANCELED;
    return HD_READY;
}

/* Ends when nur_end() says so, with the result that it says, cancelled or not. */
struct nur_actor {
    hd_group gate;
    int result;
    atomic_int begun;
    bool doomed;    /* by another's end, which is counted a moment before it is told of it: does not
                     * end before that */
    bool cancelled; /* as it was when it ended */
    hd_cause cause;
    uint64_t id;
};

static inline int nur_act(void *arg)
{
    struct nur_actor *actor = arg;
    actor->id = hd_self_id();
    atomic_store(&actor->begun, 1);
    EXPECT_EQ(hd_shield(), 0);
    EXPECT_EQ(hd_group_wait(&actor->gate), 0);
    EXPECT_EQ(hd_unshield(), 0);
    while (actor->doomed && !hd_cancelled()) hd_yield();
    actor->cancelled = hd_cancelled();
    actor->cause = hd_self_cause();
    return actor->result;
}

static inline void nur_actor_init(struct nur_actor *actor)
{
    *actor = (struct nur_actor){.result = 0};
    EXPECT_EQ(hd_group_add(&actor->gate, 1), 0);
}

static inline void nur_go_actor(hd_nursery *nursery, struct nur_actor *actor)
{
    nur_actor_init(actor);
    nur_go(nursery, nur_act, actor);
}

/* CLOSED or CANCELLED follows the end of the last child in live: whoever ended it, or cancels,
 * has to let go of the nursery first. */
static inline bool nur_is_ending(const hd_nursery_info *info)
{
    return info->live == 0 &&
           (info->state == HD_NURSERY_CLOSING || info->state == HD_NURSERY_CANCELLING);
}

/* From a fiber: wait until at most so many are alive. Yields are no waits: a cancel does not
 * end it. */
static inline void nur_until_live(hd_nursery *nursery, unsigned live)
{
    for (;;) {
        const hd_nursery_info info = hd_nursery_look(nursery);
        if (info.live <= live && !nur_is_ending(&info)) return;
        hd_yield();
    }
}

static inline void nur_let_end(struct nur_actor *actor, int result)
{
    actor->result = result;
    hd_group_done(&actor->gate);
}

/* The same, and wait until it has ended. */
static inline void nur_end(hd_nursery *nursery, struct nur_actor *actor, int result)
{
    const unsigned live = hd_nursery_look(nursery).live;
    EXPECT(live > 0);
    nur_let_end(actor, result);
    nur_until_live(nursery, live - 1);
}

/* ---- looking ---- */

#define EXPECT_STATE(nursery, expected) EXPECT_EQ(hd_nursery_look(nursery).state, (expected))
#define EXPECT_CAUSE(cause_, reason_, root_)                                             \
    do {                                                                                 \
        const hd_cause c_ = (cause_);                                                    \
        EXPECT_EQ(c_.reason, (reason_));                                                 \
        EXPECT_EQ(c_.root, (root_));                                                     \
    } while (0)

/* Wait, check the state at the end, and leave. */
static inline int nur_leave_as(hd_nursery *nursery, hd_nursery_state state)
{
    const int result = hd_nursery_wait(nursery);
    EXPECT_STATE(nursery, state);
    EXPECT_EQ(hd_nursery_look(nursery).live, 0);
    EXPECT_EQ(hd_nursery_leave(nursery), result);
    EXPECT_EQ(hd_nursery_result(), result);
    return result;
}

/* Everything refused, with this code, and without a trace. */
static inline void nur_expect_refused(hd_nursery *nursery, int code)
{
    const hd_nursery_info before = hd_nursery_look(nursery);
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.nursery = nursery;
    hd_task *task = NULL;
    EXPECT_EQ(hd_go(nursery, nur_nothing, NULL), code);
    EXPECT_EQ(hd_spawn_with(&task, nur_nothing, NULL, &options), code);
    EXPECT_EQ(hd_spawn_poll_with(&task, nur_park_poll, NULL, 0, &options), code);
    EXPECT(task == NULL);
    const hd_nursery_info after = hd_nursery_look(nursery);
    EXPECT_EQ(after.spawned, before.spawned);
    EXPECT_EQ(after.failed, before.failed);
}

#endif
