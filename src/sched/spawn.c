/* SPDX-License-Identifier: MIT
 *
 * spawn: making tasks, and the memory they live in.
 *
 * Tasks come from slabs by size, through the spawning worker's cache; state that no
 * slab holds is allocated on its own. A fiber gets its stack when it first runs, so
 * that a million fibers that wait to start cost no stacks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <heddle/nursery.h>
#include <heddle/task.h>

#include "base/check.h"
#include "os/membarrier.h"
#include "sched/find.h"
#include "sched/runtime.h"
#include "task/local.h"
#include "task/state.h"

#define STATE_BYTES_MAX (1u << 20)
#define ID_BLOCK        64u
#define NORMAL_LEVEL    1u

/* ---- memory ---- */

/* The first class holds a fiber, and stackless tasks with little state. */
static const uint16_t class_bytes[HDI_TASK_CLASSES] = {
    (sizeof(struct hd_task) + 63) / 64 * 64, 256, 512, 1024, 2048,
};
_Static_assert(sizeof(struct hd_task) <= 256, "the classes grow");

/* HDI_TASK_CLASSES if none is large enough. */
static inline unsigned class_for(size_t state_bytes)
{
    const size_t bytes = HDI_TASK_BYTES(state_bytes);
    unsigned size_class = 0;
    while (size_class < HDI_TASK_CLASSES && class_bytes[size_class] < bytes) size_class++;
    return size_class;
}

int hdi_tasks_init(struct hd_runtime *runtime)
{
    for (unsigned i = 0; i < HDI_TASK_CLASSES; i++) {
        hdi_slab_init(&runtime->tasks[i], class_bytes[i], offsetof(struct hd_task, next));
    }
    return hdi_stack_pool_init(&runtime->stacks, runtime->options.guard);
}

void hdi_tasks_fini(struct hd_runtime *runtime)
{
    for (unsigned i = 0; i < HDI_TASK_CLASSES; i++) hdi_slab_fini(&runtime->tasks[i]);
    hdi_stack_pool_fini(&runtime->stacks);
}

/* The calling thread's worker, if it is one of this runtime's. */
static struct hdi_worker *worker_of(struct hd_runtime *runtime)
{
    struct hdi_worker *worker = hdi_worker_self();
    return worker && worker->exec.runtime == runtime ? worker : NULL;
}

void hdi_sched_free(struct hd_task *task)
{
    struct hd_runtime *runtime = task->runtime;
    struct hdi_worker *worker = worker_of(runtime);
#if HDI_MODEL
    hdi_store_relaxed(&task->joiner, 0); /* Whoever reads it from now on wakes nobody. */
#endif
    struct hdi_extras *extras = hdi_task_extras(task);
    if (hdi_unlikely(extras != NULL)) {
        hdi_scope_forget(task);
        free(extras);
    }
    if (hdi_likely(worker)) {
        hdi_slab_give(&worker->tasks[task->size_class], task);
    } else {
        hdi_slab_give_shared(&runtime->tasks[task->size_class], task);
    }
}

/* ---- all tasks ---- */

uint64_t hdi_runtime_alive_of_one(struct hd_runtime *runtime)
{
    /* What ended is read before what began, so that 0 means that at some moment in
     * between nothing was alive. */
    uint64_t ended = hdi_load_acquire(&runtime->foreign_completed);
    for (struct hd_dispatcher *d = runtime->dispatchers; d; d = d->next) {
        for (unsigned i = 0; i < hdi_dispatcher_places(d); i++) {
            ended += hdi_load_acquire(&d->workers[i].counters.completed); /* A */
        }
    }
    uint64_t begun = hdi_load_acquire(&runtime->foreign_submitted);
    for (struct hd_dispatcher *d = runtime->dispatchers; d; d = d->next) {
        for (unsigned i = 0; i < hdi_dispatcher_places(d); i++) {
            begun += hdi_load_acquire(&d->workers[i].counters.submitted);
        }
    }
    return begun - ended;
}

uint64_t hdi_runtime_alive(struct hd_runtime *runtime)
{
    hdi_mutex_lock(&runtime->list);
    const uint64_t alive = hdi_runtime_alive_of_one(runtime);
    hdi_mutex_unlock(&runtime->list);
    return alive;
}

struct each {
    void (*fn)(struct hd_task *task, void *arg);
    void *arg;
};

static void visit(void *object, void *arg)
{
    struct hd_task *task = object;
    const struct each *each = arg;
    if (!hdi_word_try_ref(&task->word)) return;
    each->fn(task, each->arg);
    hdi_task_unref(task);
}

void hdi_runtime_for_each_task(struct hd_runtime *runtime,
                               void (*fn)(struct hd_task *task, void *arg), void *arg)
{
    struct each each = {fn, arg};
    for (unsigned i = 0; i < HDI_TASK_CLASSES; i++) {
        hdi_slab_for_each(&runtime->tasks[i], visit, &each);
    }
}

static void find_referenced(void *object, void *arg)
{
    struct hd_task *task = object, **found = arg;
    if (hdi_word_refs(hdi_load_acquire(&task->word)) > 0) *found = task;
}

bool hdi_runtime_leaked(struct hd_runtime *runtime, struct hd_task **task)
{
    *task = NULL;
    for (unsigned i = 0; i < HDI_TASK_CLASSES; i++) {
        hdi_slab_for_each(&runtime->tasks[i], find_referenced, task);
    }
    return *task != NULL;
}

/* ---- spawning ---- */

static uint64_t take_id(struct hd_runtime *runtime, struct hdi_worker *worker)
{
    /* Relaxed: ids are unique, and order nothing. */
    if (!worker) return hdi_fetch_add_relaxed(&runtime->id_next, 1);
    if (worker->id_next == worker->id_end) {
        worker->id_next = hdi_fetch_add_relaxed(&runtime->id_next, ID_BLOCK);
        worker->id_end = worker->id_next + ID_BLOCK;
    }
    return worker->id_next++;
}

static int set_name(struct hd_task *task, const char *name)
{
    struct hdi_extras *extras = hdi_task_need_extras(task);
    if (!extras) return -ENOMEM;
    const size_t bytes = strnlen(name, HDI_TASK_NAME_BYTES - 1);
    memcpy(extras->name, name, bytes);
    extras->name[bytes] = '\0';
    return 0;
}

/* Where a new task goes. */
struct target {
    struct hd_runtime *runtime;
    struct hd_dispatcher *home;
    struct hdi_worker *worker; /* the caller's, if of that runtime */
    struct hd_task *spawner;   /* the running task, if it has paid */
    struct hd_task *payer;     /* the same, if it is to pay in hdi_scope_adopt_for() */
    struct hdi_nursery *nursery;
    bool daemon;
    bool errand; /* HDI_UNUSUAL_ERRAND */
};

/* Whether a task with these options can live there. */
static int check_placement(const hd_spawn_options *options, const struct hd_dispatcher *home)
{
    if (!options) return 0;
    if ((unsigned)options->priority > HD_PRIORITY_URGENT) return -EINVAL;
    const bool pinned = options->flags & HD_PINNED;
    return pinned && (home->elastic || !home->runtime) ? -EINVAL : 0;
}

static __attribute__((noinline)) int find_other_target(const hd_spawn_options *options,
                                                       struct hdi_worker *worker,
                                                       struct target *target)
{
    if (options && options->size != sizeof(*options)) return -EINVAL;
    struct hd_runtime *runtime = options ? options->runtime : NULL;
    struct hd_dispatcher *home = options ? options->dispatcher : NULL;
    struct hdi_nursery *nursery = options ? (struct hdi_nursery *)options->nursery : NULL;
    if (nursery) {
        if (runtime && runtime != hdi_scope_runtime(nursery)) return -EINVAL;
        runtime = hdi_scope_runtime(nursery);
    }
    if (home && home->runtime) { /* not the unconfined one */
        if (runtime && runtime != home->runtime) return -EINVAL;
        runtime = home->runtime;
    }
    if (!runtime && worker) runtime = worker->exec.runtime;
    if (!runtime) return -EINVAL;
    if (worker && worker->exec.runtime != runtime) worker = NULL;
    if (!home) home = worker ? worker->dispatcher : &runtime->main;
    *target = (struct target){
        .runtime = runtime,
        .home = home,
        .worker = worker,
        .nursery = nursery,
        .daemon = options && (options->flags & HD_DAEMON),
    };
    if (target->daemon && !nursery) return -EINVAL;
    return check_placement(options, home);
}

/* The running task pays, and needs the right to. */
static __attribute__((noinline)) int ask_to_spawn(struct target *target, struct hd_task *spawner)
{
    const int err = hdi_scope_may_spawn(spawner, target->nursery);
    if (!err) target->spawner = spawner;
    return err;
}

/* What a task has that never ran, and will not. */
static void empty(struct hd_task *task)
{
    if (task->kind == HDI_TASK_POLL && task->large) free(hdi_task_state(task));
    hdi_locals_end(task);
}

/* What was asked for is not done. The task, if any, has no word yet. */
static __attribute__((noinline, cold)) int give_up(const struct target *target,
                                                   struct hd_task *task, int err)
{
    if (task) {
        empty(task);
        hdi_sched_free(task);
    }
    if (target->spawner) hdi_scope_unspawned(target->spawner);
    return err;
}

/* The same when it has one: who walks over all tasks may hold it. */
static __attribute__((noinline, cold)) int give_up_shown(const struct target *target,
                                                         struct hd_task *task, bool handle,
                                                         int err)
{
    empty(task);
    hdi_transition_to_running(&task->word); /* It ends without having run. */
    hdi_task_complete(task, err);
    if (handle) hdi_task_unref(task);
    return give_up(target, NULL, err);
}

HDI_ALWAYS_INLINE int find_target(const hd_spawn_options *options, struct target *target,
                                  struct hdi_nursery *nursery)
{
    struct hdi_worker *worker = hdi_worker_self();
    if (hdi_likely(!options && worker)) {
        *target = (struct target){
            .runtime = worker->exec.runtime,
            .home = worker->dispatcher,
            .worker = worker,
            .nursery = nursery,
        };
    } else {
        const int err = find_other_target(options, worker, target);
        if (err) return err;
    }
    /* Relaxed: submit_new() looks again. */
    if (hdi_unlikely(hdi_load_relaxed(&target->runtime->closing))) return -ESHUTDOWN;
    struct hd_task *self = worker ? worker->exec.current : NULL;
    /* Relaxed: the flag never changes. */
    const bool pays = self && (hdi_load_relaxed(&self->word) & HDI_METERED);
    if (hdi_likely(!pays)) return 0;
    if (hdi_likely(target->nursery && self->credit.ops >= HDI_FARE)) {
        target->payer = self;
        return 0;
    }
    return ask_to_spawn(target, self);
}

/* What the options say about where it runs, and before whom. */
static __attribute__((noinline)) void place(const struct target *target, struct hd_task *task,
                                            const hd_spawn_options *options)
{
    static const uint8_t levels[] = {
        [HD_PRIORITY_LOW] = 0,
        [HD_PRIORITY_NORMAL] = NORMAL_LEVEL,
        [HD_PRIORITY_HIGH] = 2,
        [HD_PRIORITY_URGENT] = 3,
    };
    task->level = levels[options->priority];
    struct hd_dispatcher *home = target->home;
    if (!home->runtime) {
        task->unusual |= HDI_UNUSUAL_UNCONFINED;
    } else if (options->flags & HD_PINNED) {
        /* Relaxed: only spreads them. */
        const uint32_t turn = hdi_fetch_add_relaxed(&home->pin_next, 1);
        task->unusual |= HDI_UNUSUAL_PINNED;
        task->pinned = &home->workers[turn % home->worker_count];
    }
}

/* A task of this class, not yet visible to anyone; NULL if memory is short. */
HDI_ALWAYS_INLINE struct hd_task *new_task(const struct target *target,
                                           enum hdi_task_kind kind, unsigned size_class,
                                           const hd_spawn_options *options,
                                           const hd_site *site, const struct hd_task *parent)
{
    struct hd_task *task = hdi_likely(target->worker)
                               ? hdi_slab_take(&target->worker->tasks[size_class])
                               : hdi_slab_take_shared(&target->runtime->tasks[size_class]);
    if (hdi_unlikely(!task)) return NULL;
    task->runtime = target->runtime;
    task->home = target->home;
    task->id = take_id(target->runtime, target->worker);
    task->left_nursery = 0;
    task->kind = (uint8_t)kind;
    task->size_class = (uint8_t)size_class;
    task->resumes = task->large = task->daemon = false;
    task->unused_ = 0;
    task->unusual = 0;
    task->level = NORMAL_LEVEL;
    task->phase = 0; /* as in hdi_word_new() */
    task->site = site;
    hdi_store_relaxed(&task->extras, NULL); /* The word publishes it. */
    task->nursery = NULL;
    task->scope = NULL;
    task->credit = (struct hdi_credit){0, 0};
    if (hdi_unlikely(options != NULL)) {
        if (options->site) task->site = options->site;
        if ((options->name && set_name(task, options->name)) ||
            ((options->flags & HD_SAVE_FP) && !hdi_task_need_extras(task))) {
            hdi_sched_free(task);
            return NULL;
        }
        place(target, task, options);
    }
    const struct hdi_extras *extras = parent ? hdi_task_extras(parent) : NULL;
    if (hdi_unlikely(extras && extras->locals) && hdi_locals_inherit(parent, task)) {
        hdi_sched_free(task);
        return NULL;
    }
    return task;
}

/* It slipped past find_target() while hd_runtime_shutdown() walked over all tasks. One
 * that ends only when cancelled would keep the runtime from ever becoming quiet. */
static __attribute__((noinline, cold)) void cancel_late(struct hd_task *task)
{
    const enum hdi_next next = hdi_transition_to_cancelled(&task->word);
    HDI_ASSERT(next == HDI_NEXT_NOTHING); /* SCHEDULED, and about to be submitted. */
    (void)next;
}

/* Anywhere but to the caller's own dispatcher. */
static __attribute__((noinline)) void submit_elsewhere(const struct target *target,
                                                       struct hd_task *task)
{
    struct hdi_worker *worker = target->worker;
    struct hd_dispatcher *home = target->home;
    if (!home->runtime) {
        home = worker ? worker->dispatcher : &target->runtime->main;
        task->visiting = home;
    }
    const bool leaves = !worker || worker->dispatcher != home;
    if (leaves) hdi_dispatcher_arrive(home);
    if (worker) {
        hdi_count_visibly(&worker->counters.submitted);
        hdi_digest_add(worker->digest, HDI_EVENT_SPAWN, task->id);
        if (leaves) hdi_dispatcher_depart(worker->dispatcher);
    } else {
        /* Relaxed: the queue's lock orders it. */
        hdi_fetch_add_relaxed(&target->runtime->foreign_submitted, 1);
    }
    const struct hd_task *self = worker ? worker->exec.current : NULL;
    if ((task->unusual & HDI_UNUSUAL_UNCONFINED) && self && self->kind == HDI_TASK_FIBER) {
        hdi_worker_run_inline(worker, task);
    } else {
        hdi_sched_submit(task);
    }
}

HDI_ALWAYS_INLINE int submit_new(const struct target *target, struct hd_task *task,
                                 hd_task **handle)
{
    struct hdi_nursery *nursery = target->nursery;
    uint64_t word = hdi_word_new(handle != NULL);
    if (hdi_unlikely(target->runtime->metered || target->errand)) word |= HDI_METERED;
    if (nursery && hdi_unlikely(target->payer || hdi_scope_meters(nursery))) word |= HDI_METERED;
    hdi_store_release(&task->word, word); /* W */
    if (nursery) {
        const int err =
            hdi_likely(!target->payer)
                ? hdi_scope_adopt(nursery, task, target->daemon)
                : hdi_scope_adopt_for(nursery, task, target->daemon, target->payer);
        if (hdi_unlikely(err)) return give_up_shown(target, task, handle != NULL, err);
    }
    if (handle) *handle = task;
    hdi_barrier_light(); /* Shutdown's walk sees the word, or we see that it began. */
    if (hdi_unlikely(hdi_load_acquire(&target->runtime->closing))) cancel_late(task);
    struct hdi_worker *worker = target->worker;
    if (hdi_likely(worker && worker->dispatcher == task->home)) {
        hdi_count_visibly(&worker->counters.submitted);
        hdi_digest_add(worker->digest, HDI_EVENT_SPAWN, task->id);
        hdi_find_submit(worker, task);
    } else {
        submit_elsewhere(target, task);
    }
    return 0;
}

HDI_ALWAYS_INLINE void set_fiber(const struct target *target, struct hd_task *task, hd_fn *fn,
                                 void *arg, size_t stack_bytes)
{
    task->fiber.fn = fn;
    task->fiber.arg = arg;
    task->fiber.stack = NULL;
    task->fiber.stack_bytes = stack_bytes ? stack_bytes : target->runtime->options.stack_bytes;
}

HDI_ALWAYS_INLINE int spawn_into(struct hdi_nursery *nursery, hd_fn *fn, void *arg,
                                 struct hdi_start *start, struct hd_task **handle,
                                 const hd_site *site)
{
    if (!fn) return -EINVAL;
    struct target target;
    struct hdi_worker *worker = hdi_worker_self();
    int err;
    if (hdi_likely(worker && worker->exec.runtime == hdi_scope_runtime(nursery))) {
        err = find_target(NULL, &target, nursery);
    } else {
        hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
        options.nursery = (struct hd_nursery *)nursery;
        err = find_target(&options, &target, nursery);
    }
    if (err) return err;
    struct hd_task *task = new_task(&target, HDI_TASK_FIBER, 0, NULL, site, hdi_task_self());
    if (!task) return give_up(&target, NULL, -ENOMEM);
    set_fiber(&target, task, fn, arg, 0);
    if (hdi_unlikely(start != NULL)) {
        struct hdi_extras *extras = hdi_task_need_extras(task);
        if (!extras) return give_up(&target, task, -ENOMEM);
        extras->start = start;
    }
    return submit_new(&target, task, handle);
}

int hdi_spawn_into(struct hdi_nursery *nursery, hd_fn *fn, void *arg, struct hdi_start *start,
                   struct hd_task **handle, const hd_site *site)
{
    return spawn_into(nursery, fn, arg, start, handle, site);
}

int hd_go_at(struct hd_nursery *nursery, hd_fn *fn, void *arg, const hd_site *site)
{
    return spawn_into((struct hdi_nursery *)nursery, fn, arg, NULL, NULL, site);
}

int hd_spawn_at(hd_task **handle, hd_fn *fn, void *arg, const hd_spawn_options *options,
                const hd_site *site)
{
    const size_t bytes = options ? options->stack_bytes : 0;
    if (!fn || (bytes && (bytes < HDI_STACK_BYTES_MIN || bytes > HDI_STACK_BYTES_MAX))) {
        return -EINVAL;
    }
    struct target target;
    const int err = find_target(options, &target, NULL);
    if (err) return err;
    struct hd_task *task = new_task(&target, HDI_TASK_FIBER, 0, options, site, hdi_task_self());
    if (!task) return give_up(&target, NULL, -ENOMEM);
    if (options && (options->flags & HD_SAVE_FP)) task->unusual |= HDI_UNUSUAL_SAVE_FP;
    set_fiber(&target, task, fn, arg, bytes);
    return submit_new(&target, task, handle);
}

/* ---- strands ---- */

struct hd_task *hdi_spawn_strand(struct hdi_worker *worker, hd_fn *fn)
{
    const struct target target = {
        .runtime = worker->exec.runtime,
        .home = worker->dispatcher,
        .worker = worker,
    };
    const size_t bytes = target.runtime->options.job_stack_bytes;
    struct hdi_stack *stack = hdi_stack_take(&worker->stacks, bytes);
    if (!stack) return NULL;
    struct hd_task *task = new_task(&target, HDI_TASK_FIBER, 0, NULL, NULL, NULL);
    if (!task) {
        hdi_stack_give(&worker->stacks, stack);
        return NULL;
    }
    set_fiber(&target, task, fn, NULL, bytes);
    hdi_fiber_prepare(task, stack);
    hdi_count_visibly(&worker->counters.submitted);
    return task;
}

void hdi_spawn_show_strand(struct hdi_worker *worker, struct hd_task *strand)
{
    uint64_t word = hdi_word_new(false);
    if (hdi_unlikely(worker->exec.runtime->sim.schedule)) word |= HDI_METERED; /* for points */
    hdi_store_release(&strand->word, word); /* W */
    hdi_digest_add(worker->digest, HDI_EVENT_SPAWN, strand->id);
}

void hdi_spawn_no_strand(struct hdi_worker *worker, struct hd_task *strand)
{
    hdi_context_fini(&strand->fiber.context);
    hdi_stack_give(&worker->stacks, strand->fiber.stack);
    hdi_sched_free(strand);
    hdi_count_visibly(&worker->counters.completed);
}

/* ---- stackless tasks ---- */

static void copy_state(struct hd_task *task, const void *state, size_t bytes)
{
    if (state) {
        memcpy(hdi_task_state(task), state, bytes);
    } else {
        memset(hdi_task_state(task), 0, bytes);
    }
}

/* State that no slab holds is allocated on its own. */
static __attribute__((noinline)) struct hd_task *new_large(const struct target *target,
                                                           size_t state_bytes,
                                                           const hd_spawn_options *options,
                                                           const hd_site *site)
{
    void *state = aligned_alloc(16, (state_bytes + 15) & ~(size_t)15);
    if (!state) return NULL;
    struct hd_task *task = new_task(target, HDI_TASK_POLL, 0, options, site, hdi_task_self());
    if (!task) {
        free(state);
        return NULL;
    }
    task->large = true;
    *(void **)task->poll.state = state;
    return task;
}

HDI_ALWAYS_INLINE int spawn_poll(hd_task **handle, hd_poll_fn *poll, const void *state,
                                 size_t state_bytes, const hd_spawn_options *options,
                                 const hd_site *site, bool free_of_charge)
{
    if (!poll || state_bytes > STATE_BYTES_MAX) return -EINVAL;
    struct target target;
    const int err = free_of_charge ? find_other_target(options, hdi_worker_self(), &target)
                                   : find_target(options, &target, NULL);
    if (err) return err;
    if (free_of_charge) {
        const struct hd_task *self = hdi_task_metered();
        target.errand = self && hdi_scope_confines(self);
    }
    const unsigned size_class = class_for(state_bytes);
    struct hd_task *task = hdi_likely(size_class < HDI_TASK_CLASSES)
                               ? new_task(&target, HDI_TASK_POLL, size_class, options, site,
                                          hdi_task_self())
                               : new_large(&target, state_bytes, options, site);
    if (!task) return give_up(&target, NULL, -ENOMEM);
    if (free_of_charge && target.errand) task->unusual |= HDI_UNUSUAL_ERRAND;
    task->poll.poll = poll;
    task->poll.waits = NULL;
    task->poll.drop = options ? options->drop : NULL;
    copy_state(task, state, state_bytes);
    return submit_new(&target, task, handle);
}

int hd_spawn_poll_at(hd_task **handle, hd_poll_fn *poll, const void *state, size_t state_bytes,
                     const hd_spawn_options *options, const hd_site *site)
{
    return spawn_poll(handle, poll, state, state_bytes, options, site, false);
}

int hdi_spawn_errand(hd_task **handle, hd_poll_fn *poll, const void *state, size_t state_bytes,
                  const hd_spawn_options *options, const hd_site *site)
{
    return spawn_poll(handle, poll, state, state_bytes, options, site, true);
}
