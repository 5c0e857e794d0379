/* SPDX-License-Identifier: MIT
 *
 * locks: what the tests of locks share: a stackless task that waits for one case, a fiber
 * that calls something, and knowing that somebody waits.
 */
#ifndef TEST_LOCKS_H
#define TEST_LOCKS_H

#include "rt.h"

/* ---- fibers: with one worker they run undisturbed from one wait to the next ---- */

/* Let everybody who is ready run until they wait. Context: a fiber, with one worker. */
static inline void locks_settle(void)
{
    for (int i = 0; i < 200; i++) hd_yield();
}

/* A fiber that makes one call and ends with what it returned. */
struct locks_call {
    int (*call)(void *object, int64_t deadline);
    void *object;
    int64_t deadline;
    hd_task *task;
};

static inline int locks_call_fn_(void *arg)
{
    struct locks_call *c = arg;
    return c->call(c->object, c->deadline);
}

/* Spawn it, and let it run until it waits. */
static inline void locks_begin(struct locks_call *c, int (*call)(void *, int64_t), void *object,
                               int64_t deadline)
{
    *c = (struct locks_call){.call = call, .object = object, .deadline = deadline};
    c->task = rt_spawn(NULL, locks_call_fn_, c);
    locks_settle();
}

static inline bool locks_ended(struct locks_call *c)
{
    locks_settle();
    int result;
    if (hd_join_try(c->task, &result) != 0) return false;
    c->task = NULL;
    c->object = NULL;
    c->deadline = result;
    return true;
}

/* It must not have ended yet, or must have by now, with this. */
#define EXPECT_WAITS(c)      EXPECT(!locks_ended(c))
#define EXPECT_ENDED(c, how) (EXPECT(locks_ended(c)), EXPECT_EQ_((c)->deadline, (how)))
#define EXPECT_EQ_(a, b)                                                                 \
    ((a) == (b) ? (void)0                                                                \
                : test_fail(__FILE__, __LINE__, "%s is %lld, expected %s = %lld", #a,     \
                            (long long)(a), #b, (long long)(b)))

/* ---- a stackless task that waits for one case and ends with its result ---- */

struct locks_poll {
    hd_case c;
    int64_t deadline;
    void (*then)(void *object); /* called if it got it; or NULL */
    int polls_max;              /* over 0: it ends by that poll, without looking */
    hd_wait wait;
};

static inline hd_poll locks_poll_fn_(void *state, int *result)
{
    struct locks_poll *p = state;
    if (p->polls_max > 0 && --p->polls_max == 0) {
        *result = 1;
        return HD_READY;
    }
    const int which = hd_select_poll(&p->wait, &p->c, 1, 0, p->deadline);
    if (which == -EAGAIN) return HD_PENDING;
    *result = which < 0 ? which : p->c.result;
    if (*result == 0 && p->then) p->then(p->c.object);
    return HD_READY;
}

static inline hd_task *locks_poll(hd_runtime *runtime, hd_case c, int64_t deadline,
                                  void (*then)(void *))
{
    struct locks_poll p = {.c = c, .deadline = deadline, .then = then};
    return rt_spawn_poll(runtime, locks_poll_fn_, &p, sizeof(p));
}

/* It waits, and at its next poll ends without looking. */
static inline hd_task *locks_poll_careless(hd_runtime *runtime, hd_case c)
{
    struct locks_poll p = {.c = c, .deadline = HD_FOREVER, .polls_max = 2};
    return rt_spawn_poll(runtime, locks_poll_fn_, &p, sizeof(p));
}

/* Run a fiber in a runtime with so many workers. */
static inline void locks_run(hd_fn *fn, const hd_options *options, unsigned workers)
{
    const hd_options own = rt_workers(options, workers);
    rt_run(fn, NULL, &own);
}

#endif
