/* SPDX-License-Identifier: MIT
 *
 * janus: the compiler ABI, on the public calls of the library.
 *
 * A nursery here is an hd_nursery on the heap and the futures in it. A future is a child whose
 * result goes through a oneshot, the cheapest channel for one value.
 *
 *   JANUS-1  A future is in its nursery's list until its outcome was received, and is freed then.
 *            Whatever is still in the list when the nursery is destroyed is freed with it: by then
 *            no child can touch it.
 *   JANUS-2  A child sends its outcome before it ends, and does not touch its future afterwards.
 *            One that ends without having run (there was no memory for its stack) sends nothing,
 *            so who awaits waits for the end of the task as well.
 *
 * Rejected   to keep an hd_task handle behind each janus_task: a nursery that spawns for ever would
 *            grow, since generated code has no use for the pointer and would never give it back.
 *            Rejected also to have a future freed by the child if nobody awaits: see JANUS-2.
 */
#include <errno.h>
#include <stdlib.h>

#include <heddle/chan.h>
#include <heddle/janus.h>
#include <heddle/pubsub.h>

#include "base/list.h"
#include "os/lock.h"

struct janus_nursery {
    hd_nursery nursery;
    struct hdi_lock lock;    /* of what follows */
    struct hdi_list futures; /* JANUS-1 */
    int error;               /* of the last spawn that was refused; 0 */
};

/* What goes through the result channel. */
struct outcome {
    int64_t value;
    int64_t status; /* what the function returned */
};
_Static_assert(sizeof(struct outcome) <= HD_ONESHOT_BYTES, "it needs no storage");

struct janus_future {
    struct hdi_list link;   /* the nursery's lock */
    janus_nursery *nursery; /* constant, as are the next two */
    janus_async_fn *fn;
    void *arg;
    hd_task *task;          /* who awaits or destroys; NULL once it was joined */
    hd_oneshot outcome;
};

_Static_assert(sizeof(janus_result) == 16, "fits two registers");
_Static_assert(sizeof(janus_case) == 24, "as documented");
_Static_assert(sizeof(uintptr_t) == sizeof(uint64_t), "a task's id fits a pointer");

/* ---- nurseries ---- */

int janus_nursery_create_with(const hd_nursery_options *options, janus_nursery **nursery)
{
    janus_nursery *n = calloc(1, sizeof(*n));
    if (!n) return -ENOMEM;
    hdi_list_init(&n->futures);
    const int err = hd_nursery_open(&n->nursery, options);
    if (err) {
        free(n);
        return err;
    }
    *nursery = n;
    return 0;
}

janus_nursery *janus_nursery_create(void)
{
    janus_nursery *nursery;
    return janus_nursery_create_with(NULL, &nursery) ? NULL : nursery;
}

janus_nursery *janus_nursery_create_budget(const hd_budget *budget)
{
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    options.budget = budget;
    janus_nursery *nursery;
    return janus_nursery_create_with(&options, &nursery) ? NULL : nursery;
}

/* Returns: the handle, or NULL with the reason kept. */
static hd_task *spawn(janus_nursery *n, hd_fn *fn, void *arg)
{
    if (!n) return NULL;
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.nursery = &n->nursery;
    hd_task *handle;
    const int err = hd_spawn_with(&handle, fn, arg, &options);
    if (!err) return handle;
    hdi_lock_take(&n->lock);
    n->error = err;
    hdi_lock_give(&n->lock);
    return NULL;
}

static janus_task *name_of(hd_task *handle)
{
    if (!handle) return NULL;
    const uintptr_t id = hd_task_id(handle);
    hd_detach(handle);
    return (janus_task *)id;
}

janus_task *janus_nursery_spawn(janus_nursery *nursery, janus_fn *fn, void *arg)
{
    return name_of(spawn(nursery, fn, arg));
}

static int run0(void *arg)
{
    return ((janus_fn0 *)arg)();
}

janus_task *janus_nursery_spawn0(janus_nursery *nursery, janus_fn0 *fn)
{
    return name_of(spawn(nursery, run0, (void *)fn));
}

uint64_t janus_task_id(const janus_task *task)
{
    return (uintptr_t)task;
}

int janus_nursery_error(janus_nursery *nursery)
{
    if (!nursery) return -EINVAL;
    hdi_lock_take(&nursery->lock);
    const int err = nursery->error;
    hdi_lock_give(&nursery->lock);
    return err;
}

void janus_nursery_cancel(janus_nursery *nursery)
{
    if (nursery) hd_nursery_cancel(&nursery->nursery);
}

/* Whether hd_nursery_wait() gave up: a child may have returned -EDEADLK itself. */
static bool stuck(janus_nursery *n, int result)
{
    return result == -EDEADLK && hd_nursery_look(&n->nursery).live > 0;
}

/* A negative result of the nursery, explained. */
static janus_result explain(janus_nursery *n, int result)
{
    hd_child_error error;
    for (unsigned i = 0; hd_nursery_error(&n->nursery, i, &error) == 0; i++) {
        if (error.error == result) {
            return (janus_result){JANUS_CHILD_FAILED, result, error.task};
        }
    }
    if (result == -ECANCELED) return (janus_result){JANUS_CANCELLED, result, 0};
    if (result == -ETIMEDOUT) return (janus_result){JANUS_TIMED_OUT, result, 0};
    return (janus_result){JANUS_CHILD_FAILED, result, 0};
}

janus_result janus_nursery_await(janus_nursery *nursery)
{
    if (!nursery) return (janus_result){JANUS_NONE, -EINVAL, 0};
    const int result = hd_nursery_wait(&nursery->nursery);
    if (result >= 0) return (janus_result){JANUS_OK, 0, 0};
    if (stuck(nursery, result)) return (janus_result){JANUS_STUCK, result, 0};
    return explain(nursery, result);
}

/* Context: nobody else knows the future any more. */
static void future_free(janus_future *future)
{
    if (future->task) hd_detach(future->task);
    free(future);
}

void janus_nursery_destroy(janus_nursery *nursery)
{
    if (!nursery || stuck(nursery, hd_nursery_wait(&nursery->nursery))) return;
    (void)hd_nursery_leave(&nursery->nursery); /* Its result was for janus_nursery_await(). */
    struct hdi_list *node;
    while ((node = hdi_list_pop_front(&nursery->futures))) { /* JANUS-1 */
        future_free(hdi_container_of(node, janus_future, link));
    }
    free(nursery);
}

/* ---- async and await ---- */

static int run_async(void *arg)
{
    janus_future *future = arg;
    struct outcome outcome = {0};
    outcome.status = future->fn(future->arg, &outcome.value);
    const int status = (int)outcome.status;
    const int err = hd_oneshot_send(&future->outcome, &outcome); /* JANUS-2: the last touch. */
    return status < 0 ? status : err;
}

janus_future *janus_async(janus_nursery *nursery, janus_async_fn *fn, void *arg)
{
    if (!nursery) return NULL;
    janus_future *future = malloc(sizeof(*future));
    if (!future) {
        hdi_lock_take(&nursery->lock);
        nursery->error = -ENOMEM;
        hdi_lock_give(&nursery->lock);
        return NULL;
    }
    *future = (janus_future){.nursery = nursery, .fn = fn, .arg = arg};
    (void)hd_oneshot_init(&future->outcome, sizeof(struct outcome), NULL); /* Cannot fail. */
    hd_task *task = spawn(nursery, run_async, future);
    if (!task) {
        free(future);
        return NULL;
    }
    future->task = task; /* The child does not look at it. */
    hdi_lock_take(&nursery->lock);
    hdi_list_push_back(&nursery->futures, &future->link);
    hdi_lock_give(&nursery->lock);
    return future;
}

/* Returns: 0 with the outcome, or why there is none. */
static int receive(janus_future *future, struct outcome *outcome)
{
    int ended = 0;
    hd_case cases[] = {HD_ONESHOT(&future->outcome, outcome), HD_JOIN(future->task, &ended)};
    const int chosen = hd_select_until(cases, 2, HD_SELECT_FIRST, HD_FOREVER);
    if (chosen == 0 && cases[0].result == 0) return 0;
    if (chosen == 1) future->task = NULL;
    /* What is there beats a cancel in effect, which ended the wait before it looked. */
    if (hd_oneshot_recv_try(&future->outcome, outcome) == 0) return 0;
    if (chosen < 0) return chosen;
    *outcome = (struct outcome){.status = ended < 0 ? ended : -EPIPE}; /* JANUS-2 */
    return 0;
}

int janus_await(janus_future *future, int64_t *value)
{
    if (!future) return -EINVAL;
    struct outcome outcome;
    const int err = receive(future, &outcome);
    if (err) return err; /* The nursery will free it. */
    hdi_lock_take(&future->nursery->lock);
    hdi_list_remove(&future->link);
    hdi_lock_give(&future->nursery->lock);
    future_free(future);
    if (outcome.status < 0) return (int)outcome.status;
    *value = outcome.value;
    return 0;
}

/* ---- channels ---- */

static hd_chan *untyped(janus_chan *chan)
{
    return (hd_chan *)chan;
}

janus_chan *janus_chan_create(uint64_t capacity)
{
    return (janus_chan *)hd_chan_create(sizeof(int64_t), capacity);
}

int janus_chan_send(janus_chan *chan, int64_t value)
{
    return chan ? hd_chan_send(untyped(chan), &value) : -EINVAL;
}

int janus_chan_recv(janus_chan *chan, int64_t *value)
{
    return chan ? hd_chan_recv(untyped(chan), value) : -EINVAL;
}

int janus_chan_send_try(janus_chan *chan, int64_t value)
{
    return chan ? hd_chan_send_try(untyped(chan), &value) : -EINVAL;
}

int janus_chan_recv_try(janus_chan *chan, int64_t *value)
{
    return chan ? hd_chan_recv_try(untyped(chan), value) : -EINVAL;
}

int janus_chan_close(janus_chan *chan)
{
    return chan ? hd_chan_close(untyped(chan)) : -EINVAL;
}

void janus_chan_destroy(janus_chan *chan)
{
    hd_chan_destroy(untyped(chan));
}

/* Returns: false for a kind that does not exist. */
static bool case_of(janus_case *from, hd_case *to)
{
    *to = (hd_case)HD_NEVER;
    switch ((janus_case_kind)from->kind) {
    case JANUS_NEVER: return true;
    case JANUS_RECV:
        if (from->chan) *to = (hd_case)HD_RECV(from->chan, &from->value);
        return true;
    case JANUS_SEND:
        if (from->chan) *to = (hd_case)HD_SEND(from->chan, &from->value);
        return true;
    }
    return false;
}

int janus_select_until(janus_case *cases, size_t count, int64_t deadline)
{
    hd_case real[JANUS_SELECT_MAX];
    if (count > JANUS_SELECT_MAX) return -EINVAL;
    for (size_t i = 0; i < count; i++) {
        if (!case_of(&cases[i], &real[i])) return -EINVAL;
    }
    const int chosen = hd_select_until(real, count, 0, deadline);
    if (chosen >= 0) cases[chosen].result = real[chosen].result;
    return chosen;
}

int janus_select(janus_case *cases, size_t count)
{
    return janus_select_until(cases, count, HD_FOREVER);
}

/* ---- budgets ---- */

int janus_checkpoint(uint32_t ops)
{
    return hd_checkpoint(ops);
}

static int64_t *amount_of(hd_budget *budget, int32_t resource)
{
    switch ((hd_resource)resource) {
    case HD_OPS: return &budget->ops;
    case HD_MEMORY: return &budget->memory;
    case HD_SPAWN_COUNT: return &budget->spawn_count;
    case HD_CHANNEL_OPS: return &budget->channel_ops;
    case HD_SYSCALLS: return &budget->syscalls;
    }
    return NULL;
}

int64_t janus_budget_left(int32_t resource)
{
    hd_budget left = hd_budget_left();
    const int64_t *amount = amount_of(&left, resource);
    return amount ? *amount : -EINVAL;
}

int janus_budget_recharge(janus_nursery *nursery, int32_t resource, int64_t amount)
{
    hd_budget budget = {0};
    int64_t *field = amount_of(&budget, resource);
    if (!nursery || !field) return -EINVAL;
    *field = amount;
    return hd_budget_recharge(&nursery->nursery, &budget);
}
