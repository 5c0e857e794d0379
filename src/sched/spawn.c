/* SPDX-License-Identifier: MIT
 *
 * spawn: making tasks, and the memory they live in.
 *
 * Tasks come from slabs by size, through the spawning worker's cache; those with more
 * state than the largest slab holds are allocated one by one and kept on a list. A
 * fiber gets its stack when it first runs, so that a million fibers that wait to start
 * cost no stacks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <heddle/task.h>

#include "base/check.h"
#include "sched/runtime.h"
#include "task/state.h"

#define STATE_BYTES_MAX (1u << 20)
#define ID_BLOCK        64u

/* ---- memory ---- */

/* Bytes of state beyond the header that fit each class; a fiber needs none. */
static const size_t class_room[HDI_TASK_CLASSES] = {32, 96, 224, 480, 992, 2016};

static size_t class_bytes(unsigned size_class)
{
    return HDI_TASK_STATE_OFFSET + class_room[size_class];
}

static unsigned class_for(size_t state_bytes)
{
    unsigned size_class = 0;
    while (size_class < HDI_TASK_CLASSES && class_room[size_class] < state_bytes) size_class++;
    return size_class;
}

/* In front of a large task. */
struct large_header {
    alignas(HDI_CACHE_LINE) struct hdi_list link;
};

int hdi_tasks_init(struct hd_runtime *runtime)
{
    for (unsigned i = 0; i < HDI_TASK_CLASSES; i++) {
        hdi_slab_init(&runtime->tasks[i], class_bytes(i), offsetof(struct hd_task, next));
    }
    hdi_list_init(&runtime->large);
    return hdi_stack_pool_init(&runtime->stacks, runtime->options.guard);
}

void hdi_tasks_fini(struct hd_runtime *runtime)
{
    HD_CHECK(hdi_list_empty(&runtime->large));
    for (unsigned i = 0; i < HDI_TASK_CLASSES; i++) hdi_slab_fini(&runtime->tasks[i]);
    hdi_stack_pool_fini(&runtime->stacks);
}

static struct hd_task *large_alloc(struct hd_runtime *runtime, size_t state_bytes)
{
    const size_t bytes = sizeof(struct large_header) + HDI_TASK_STATE_OFFSET + state_bytes;
    struct large_header *header =
        aligned_alloc(HDI_CACHE_LINE, (bytes + HDI_CACHE_LINE - 1) & ~(size_t)(HDI_CACHE_LINE - 1));
    if (!header) return NULL;
    struct hd_task *task = (struct hd_task *)(header + 1);
    hdi_store_relaxed(&task->word, 0); /* TASK-3; the list's lock publishes it. */
    hdi_mutex_lock(&runtime->large_lock);
    hdi_list_push_back(&runtime->large, &header->link);
    hdi_mutex_unlock(&runtime->large_lock);
    return task;
}

static void large_free(struct hd_runtime *runtime, struct hd_task *task)
{
    struct large_header *header = (struct large_header *)task - 1;
    hdi_mutex_lock(&runtime->large_lock);
    hdi_list_remove(&header->link);
    hdi_mutex_unlock(&runtime->large_lock);
    free(header);
}

static struct hd_task *task_alloc(struct hd_runtime *runtime, struct hdi_worker *worker,
                                  size_t state_bytes)
{
    const unsigned size_class = class_for(state_bytes);
    struct hd_task *task;
    if (hdi_unlikely(size_class == HDI_TASK_LARGE)) {
        task = large_alloc(runtime, state_bytes);
    } else if (worker) {
        task = hdi_slab_take(&worker->tasks[size_class]);
    } else {
        task = hdi_slab_take_shared(&runtime->tasks[size_class]);
    }
    if (task) task->size_class = (uint8_t)size_class;
    return task;
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
    if (hdi_unlikely(task->size_class == HDI_TASK_LARGE)) {
        large_free(runtime, task);
    } else if (worker) {
        hdi_slab_give(&worker->tasks[task->size_class], task);
    } else {
        hdi_slab_give_shared(&runtime->tasks[task->size_class], task);
    }
}

/* ---- all tasks ---- */

uint64_t hdi_runtime_alive(struct hd_runtime *runtime)
{
    /* What ended is read before what began, so that 0 means that at some moment in
     * between nothing was alive. */
    uint64_t ended = hdi_load_acquire(&runtime->foreign_completed);
    for (unsigned i = 0; i < runtime->worker_count; i++) {
        ended += hdi_load_acquire(&runtime->workers[i].counters.completed); /* A */
    }
    uint64_t begun = hdi_load_acquire(&runtime->foreign_submitted);
    for (unsigned i = 0; i < runtime->worker_count; i++) {
        begun += hdi_load_acquire(&runtime->workers[i].counters.submitted);
    }
    return begun - ended;
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

/* The lock is let go around each visit, since the visitor may free the task; the
 * reference keeps it, and so its place in the list, until the visit ends. */
static void visit_large(struct hd_runtime *runtime, struct each *each)
{
    hdi_mutex_lock(&runtime->large_lock);
    struct hdi_list *at = runtime->large.next;
    struct hd_task *held = NULL;
    while (at != &runtime->large) {
        struct large_header *header = hdi_container_of(at, struct large_header, link);
        struct hd_task *task = (struct hd_task *)(header + 1);
        const bool live = hdi_word_try_ref(&task->word);
        if (live) {
            hdi_mutex_unlock(&runtime->large_lock);
            if (held) hdi_task_unref(held);
            held = task;
            each->fn(task, each->arg);
            hdi_mutex_lock(&runtime->large_lock);
        }
        at = at->next;
    }
    hdi_mutex_unlock(&runtime->large_lock);
    if (held) hdi_task_unref(held);
}

void hdi_runtime_for_each_task(struct hd_runtime *runtime,
                               void (*fn)(struct hd_task *task, void *arg), void *arg)
{
    struct each each = {fn, arg};
    for (unsigned i = 0; i < HDI_TASK_CLASSES; i++) {
        hdi_slab_for_each(&runtime->tasks[i], visit, &each);
    }
    visit_large(runtime, &each);
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
    if (!hdi_list_empty(&runtime->large)) {
        struct hdi_list *first = runtime->large.next;
        *task = (struct hd_task *)(hdi_container_of(first, struct large_header, link) + 1);
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

static void set_name(struct hd_task *task, const char *name)
{
    if (!name) {
        task->name[0] = '\0';
        return;
    }
    const size_t bytes = strnlen(name, HDI_TASK_NAME_BYTES - 1);
    memcpy(task->name, name, bytes);
    task->name[bytes] = '\0';
}

static const hd_spawn_options no_options = {.size = sizeof(hd_spawn_options)};

/* What both kinds share. Returns 0 with *out not yet visible to anyone. */
static int begin_spawn(struct hd_task **out, enum hdi_task_kind kind, size_t state_bytes,
                       const hd_spawn_options *options, const hd_site *site)
{
    struct hdi_worker *worker = hdi_worker_self();
    struct hd_runtime *runtime = options->runtime;
    if (!runtime && worker) runtime = worker->exec.runtime;
    if (!runtime || options->size != sizeof(*options)) return -EINVAL;
    if (worker && worker->exec.runtime != runtime) worker = NULL;
    /* Relaxed: shutdown cancels what slips through. */
    if (hdi_unlikely(hdi_load_relaxed(&runtime->closing))) return -ESHUTDOWN;
    struct hd_task *task = task_alloc(runtime, worker, state_bytes);
    if (!task) return -ENOMEM;
    task->runtime = runtime;
    task->id = take_id(runtime, worker);
    task->kind = (uint8_t)kind;
    task->save_fp = false;
    task->yielded = false;
    task->joiner = 0;
    task->site = options->site ? options->site : site;
    set_name(task, options->name);
    *out = task;
    return 0;
}

static void finish_spawn(struct hd_task *task, hd_task **handle)
{
    struct hd_runtime *runtime = task->runtime;
    struct hdi_worker *worker = worker_of(runtime);
    hdi_store_release(&task->word, hdi_word_new(handle != NULL)); /* W */
    if (handle) *handle = task;
    if (hdi_likely(worker)) {
        hdi_count(&worker->counters.submitted);
        hdi_digest_add(worker->digest, HDI_EVENT_SPAWN, task->id);
        hdi_worker_submit(worker, task);
    } else {
        hdi_fetch_add_relaxed(&runtime->foreign_submitted, 1); /* The queue's lock orders it. */
        hdi_sched_submit(task);
    }
}

int hd_spawn_at(hd_task **handle, hd_fn *fn, void *arg, const hd_spawn_options *options,
                const hd_site *site)
{
    if (!options) options = &no_options;
    const size_t bytes = options->stack_bytes;
    if (!fn || (bytes && (bytes < HDI_STACK_BYTES_MIN || bytes > HDI_STACK_BYTES_MAX))) {
        return -EINVAL;
    }
    struct hd_task *task;
    const int err = begin_spawn(&task, HDI_TASK_FIBER, 0, options, site);
    if (err) return err;
    task->save_fp = options->flags & HD_SAVE_FP;
    task->fiber.fn = fn;
    task->fiber.arg = arg;
    task->fiber.stack = NULL;
    task->fiber.stack_bytes = bytes ? bytes : task->runtime->options.stack_bytes;
    finish_spawn(task, handle);
    return 0;
}

int hd_spawn_poll_at(hd_task **handle, hd_poll_fn *poll, const void *state, size_t state_bytes,
                     const hd_spawn_options *options, const hd_site *site)
{
    if (!options) options = &no_options;
    if (!poll || state_bytes > STATE_BYTES_MAX) return -EINVAL;
    struct hd_task *task;
    const int err = begin_spawn(&task, HDI_TASK_POLL, state_bytes, options, site);
    if (err) return err;
    task->poll.poll = poll;
    task->poll.drop = options->drop;
    task->poll.state_bytes = state_bytes;
    if (state) {
        memcpy(hdi_task_state(task), state, state_bytes);
    } else {
        memset(hdi_task_state(task), 0, state_bytes);
    }
    finish_spawn(task, handle);
    return 0;
}
