/* SPDX-License-Identifier: MIT
 *
 * dispatcher: making pools of workers, counting what is alive on them, and ending them.
 */
#include "sched/dispatcher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mutant.h"
#include "os/memory.h"
#include "sched/find.h"
#include "sched/runtime.h"

/* ---- making ---- */

static bool is_sim(const struct hd_runtime *runtime)
{
    return runtime->world->kind == HD_WORLD_SIM;
}

/* What has an order of its own keeps it in sim. */
static enum hdi_runq_shape queue_shape(const struct hd_dispatcher *dispatcher)
{
    const hd_options *options = &dispatcher->runtime->options;
    switch (dispatcher->policy) {
    case HD_POLICY_ORDERED:
    case HD_POLICY_PRIORITY: return HDI_RUNQ_NONE;
    case HD_POLICY_FAIR:
    case HD_POLICY_LOCAL: break;
    }
    if (is_sim(dispatcher->runtime) && options->sim_order == HD_SIM_RANDOM) return HDI_RUNQ_BAG;
    return dispatcher->policy == HD_POLICY_LOCAL ? HDI_RUNQ_DEQUE : HDI_RUNQ_RING;
}

/* Whether no other thread ever takes from its queue: not another worker, nor a spare, nor the
 * monitor, which does so only where spares may come. */
static bool is_never_robbed(const struct hdi_worker *worker)
{
    const bool spares = worker->dispatcher->place_max > 1 && !HDI_MUTANT(queue_alone_robbed);
    return worker->sole && !spares;
}

static void worker_init(struct hd_dispatcher *dispatcher, unsigned index)
{
    struct hd_runtime *runtime = dispatcher->runtime;
    struct hdi_worker *worker = &dispatcher->workers[index];
    worker->exec.runtime = runtime;
    worker->dispatcher = dispatcher;
    worker->index = index;
    worker->budget = runtime->options.poll_budget;
    worker->lifo_cap = runtime->options.lifo_cap;
    enum { FIRST_GUESS_NS = 50000 }; /* a run's length, soon corrected */
    hdi_store_relaxed(&worker->counters.run_ns_avg, FIRST_GUESS_NS);
    hdi_worker_adapt(worker, FIRST_GUESS_NS);
    worker->clock_left = worker->clock_runs;
    const bool sim = is_sim(runtime);
    worker->spare = index >= dispatcher->worker_count;
    worker->sole = dispatcher->worker_count == 1 && !worker->spare;
    hdi_store_relaxed(&worker->alone, worker->sole); /* Nobody else knows it yet. */
    worker->direct = !sim; /* In sim every choice is the seed's. */
    worker->digest = sim ? &runtime->sim.digest : &worker->own_digest;
    const uint64_t entropy = runtime->world->entropy(runtime);
    hdi_prng_init(&worker->prng, hdi_stream_draw(entropy, HDI_PURPOSE_STEAL, index, 0));
    hdi_stack_cache_init(&worker->stacks, &runtime->stacks);
    for (unsigned i = 0; i < HDI_TASK_CLASSES; i++) {
        hdi_slab_cache_init(&worker->tasks[i], &runtime->tasks[i]);
    }
    hdi_runq_init(&worker->queue, queue_shape(dispatcher), is_never_robbed(worker));
    worker->injects = worker->queue.shape == HDI_RUNQ_NONE;
    hdi_inject_init(&worker->inbox);
    hdi_jobs_init(worker);
    hdi_parker_init(&worker->parker);
    worker->exec.timers = &worker->timers;
    worker->exec.coarse_ns = runtime->world->now(runtime);
    hdi_timers_init(&worker->timers, worker->exec.coarse_ns);
}

static int copy_cpus(struct hd_dispatcher *dispatcher, const struct hdi_dispatcher_spec *spec)
{
    if (spec->cpu_count == 0) return 0;
    dispatcher->cpus = calloc(spec->cpu_count, sizeof(*spec->cpus));
    if (!dispatcher->cpus) return -ENOMEM;
    memcpy(dispatcher->cpus, spec->cpus, spec->cpu_count * sizeof(*spec->cpus));
    dispatcher->cpu_count = spec->cpu_count;
    return 0;
}

unsigned hdi_dispatcher_spares(const struct hd_runtime *runtime, unsigned workers,
                               hd_policy policy)
{
    if (!runtime->monitor.wanted || runtime->options.stall_ns == HD_FOREVER) return 0;
    if (workers == 1 && policy == HD_POLICY_ORDERED) return 0; /* POOL-7 */
    return HDI_WORKERS_MAX - workers;
}

/* Of kernel pages, where most may never be used (POOL-6). */
static bool has_pages(const struct hd_dispatcher *dispatcher)
{
    return dispatcher->place_max > dispatcher->worker_count && !HDI_MODEL;
}

static size_t workers_bytes(const struct hd_dispatcher *dispatcher)
{
    const size_t bytes = sizeof(*dispatcher->workers) * dispatcher->place_max;
    const size_t page = has_pages(dispatcher) ? hdi_memory_page_bytes() : 1;
    return (bytes + page - 1) / page * page;
}

static struct hdi_worker *alloc_workers(const struct hd_dispatcher *dispatcher)
{
    const size_t bytes = workers_bytes(dispatcher);
    return has_pages(dispatcher) ? hdi_memory_map(bytes) : hdi_lines_alloc(bytes);
}

static void free_workers(const struct hd_dispatcher *dispatcher)
{
    if (has_pages(dispatcher)) {
        hdi_memory_unmap(dispatcher->workers, workers_bytes(dispatcher));
    } else {
        hdi_lines_free(dispatcher->workers);
    }
}

struct hdi_worker *hdi_dispatcher_add_place(struct hd_dispatcher *dispatcher)
{
    const unsigned index = hdi_load_relaxed(&dispatcher->places); /* grow */
    struct hdi_worker *worker = &dispatcher->workers[index];
    HDI_ASSERT(index < dispatcher->place_max);
    worker_init(dispatcher, index);
    hdi_store_release(&dispatcher->places, index + 1); /* Q */
    return worker;
}

int hdi_dispatcher_init(struct hd_dispatcher *dispatcher, struct hd_runtime *runtime,
                        const struct hdi_dispatcher_spec *spec)
{
    dispatcher->runtime = runtime;
    dispatcher->worker_count = spec->workers;
    dispatcher->place_max = spec->workers + spec->spares;
    dispatcher->workers = alloc_workers(dispatcher);
    if (!dispatcher->workers) return -ENOMEM;
    if (copy_cpus(dispatcher, spec) != 0) {
        free_workers(dispatcher);
        return -ENOMEM;
    }
    dispatcher->spin_rounds = spec->spin_rounds;
    dispatcher->policy = spec->policy;
    dispatcher->elastic = spec->elastic;
    dispatcher->maker = spec->maker;
    snprintf(dispatcher->name, sizeof(dispatcher->name), "%s", spec->name);
    hdi_inject_init(&dispatcher->inject);
    hdi_levels_init(&dispatcher->levels);
    if (spec->policy == HD_POLICY_PRIORITY) dispatcher->inject.levels = &dispatcher->levels;
    hdi_idle_init(&dispatcher->idle, spec->workers, dispatcher->place_max);
    hdi_keeper_init(&dispatcher->keeper);
    hdi_store_relaxed(&dispatcher->refs, 1); /* Nobody else knows it yet. */
    for (unsigned i = 0; i < spec->workers; i++) (void)hdi_dispatcher_add_place(dispatcher);
    return 0;
}

void hdi_dispatcher_fini(struct hd_dispatcher *dispatcher)
{
    for (unsigned i = 0; i < hdi_dispatcher_places(dispatcher); i++) {
        hdi_runq_fini(&dispatcher->workers[i].queue);
    }
    free_workers(dispatcher);
    free(dispatcher->cpus);
}

/* At the end, so that the others keep their places, which the seed draws from. */
static void link_up(struct hd_dispatcher *dispatcher)
{
    struct hd_runtime *runtime = dispatcher->runtime;
    hdi_mutex_lock(&runtime->list);
    struct hd_dispatcher **end = &runtime->dispatchers;
    while (*end) end = &(*end)->next;
    *end = dispatcher;
    hdi_mutex_unlock(&runtime->list);
}

int hdi_dispatcher_new(struct hd_dispatcher **out, struct hd_runtime *runtime,
                       const struct hdi_dispatcher_spec *spec)
{
    hdi_dispatchers_reap(runtime);
    if (hdi_load_acquire(&runtime->closing)) return -ESHUTDOWN;
    struct hd_dispatcher *dispatcher = hdi_lines_alloc(sizeof(*dispatcher));
    if (!dispatcher) return -ENOMEM;
    int err = hdi_dispatcher_init(dispatcher, runtime, spec);
    if (!err) {
        err = runtime->world->start(dispatcher);
        if (err) hdi_dispatcher_fini(dispatcher);
    }
    if (err) {
        hdi_lines_free(dispatcher);
        return err;
    }
    link_up(dispatcher);
    hdi_monitor_check(&runtime->monitor); /* Its workers may be at work already. */
    *out = dispatcher;
    return 0;
}

/* ---- counting ---- */

/* Nobody asks how many are alive on the default one. */
static bool counts_tasks(const struct hd_dispatcher *dispatcher)
{
    return dispatcher != &dispatcher->runtime->main;
}

void hdi_dispatcher_arrive(struct hd_dispatcher *dispatcher)
{
    if (counts_tasks(dispatcher)) hdi_fetch_add_acq_rel(&dispatcher->arrived, 1);
}

void hdi_dispatcher_depart(struct hd_dispatcher *dispatcher)
{
    if (!counts_tasks(dispatcher)) return;
    struct hd_runtime *runtime = dispatcher->runtime;
    hdi_dispatcher_enter(dispatcher); /* It may have been the last one. */
    hdi_fetch_add_acq_rel(&dispatcher->departed, 1);
    if (hdi_load_acquire(&dispatcher->closing)) runtime->world->rouse_all(dispatcher);
    hdi_dispatcher_leave(dispatcher);
}

bool hdi_dispatcher_ended(struct hd_dispatcher *dispatcher)
{
    if (hdi_likely(!hdi_load_acquire(&dispatcher->closing))) return false;
    /* As in hdi_runtime_alive(). */
    uint64_t ended = hdi_load_acquire(&dispatcher->departed);
    for (unsigned i = 0; i < hdi_dispatcher_places(dispatcher); i++) {
        ended += hdi_load_acquire(&dispatcher->workers[i].counters.completed);
    }
    uint64_t begun = hdi_load_acquire(&dispatcher->arrived);
    for (unsigned i = 0; i < hdi_dispatcher_places(dispatcher); i++) {
        begun += hdi_load_acquire(&dispatcher->workers[i].counters.submitted);
    }
    return begun == ended;
}

void hdi_dispatcher_enter(struct hd_dispatcher *dispatcher)
{
    if (counts_tasks(dispatcher)) hdi_fetch_add_acq_rel(&dispatcher->guests, 1);
}

void hdi_dispatcher_leave(struct hd_dispatcher *dispatcher)
{
    /* P: the last touch */
    if (counts_tasks(dispatcher)) hdi_fetch_sub_acq_rel(&dispatcher->guests, 1);
}

bool hdi_dispatcher_all_parked(struct hd_dispatcher *dispatcher)
{
    const unsigned parked = hdi_idle_parked(&dispatcher->idle);
    return parked == hdi_load_acquire(&dispatcher->live);
}

static bool has_queued(struct hd_dispatcher *dispatcher)
{
    for (unsigned i = 0; i < dispatcher->worker_count; i++) {
        if (hdi_inject_length(&dispatcher->workers[i].inbox) > 0) return true;
    }
    return hdi_find_visible(dispatcher);
}

/* The queues before and after: a task may come before its worker is woken, and one that is
 * pinned is taken by a worker that nobody had claimed. */
bool hdi_dispatcher_quiet(struct hd_dispatcher *dispatcher)
{
    if (has_queued(dispatcher)) return false;
    if (!is_sim(dispatcher->runtime) && !hdi_dispatcher_all_parked(dispatcher)) return false;
    return !has_queued(dispatcher);
}

/* ---- counters ---- */

static uint64_t read_counter(_Atomic(uint64_t) *counter)
{
    return hdi_load_relaxed(counter); /* Each is a number of its own. */
}

static uint64_t pushed(struct hdi_inject *inject)
{
    hdi_mutex_lock(&inject->lock);
    const uint64_t total = inject->total;
    hdi_mutex_unlock(&inject->lock);
    return total;
}

static void add_worker(hd_stats *stats, struct hdi_worker *worker)
{
    struct hdi_counters *c = &worker->counters;
    stats->submitted += read_counter(&c->submitted);
    stats->polls += read_counter(&c->polls);
    stats->steal_attempts += read_counter(&c->steal_attempts);
    stats->steals += read_counter(&c->steals);
    stats->stolen += read_counter(&c->stolen);
    stats->jobs_taken += read_counter(&c->jobs_taken);
    stats->lifo_hits += read_counter(&c->lifo_hits);
    stats->overflows += read_counter(&c->overflows);
    stats->parks += read_counter(&c->parks);
    stats->unparks += read_counter(&c->unparks);
    stats->searches += read_counter(&c->searches);
    stats->injected += pushed(&worker->inbox);
    const uint64_t avg = read_counter(&c->run_ns_avg), max = read_counter(&c->run_ns_max);
    const bool gone = read_counter(&c->state) == HDI_WORKER_GONE;
    if (stats->workers > 0 && !gone) stats->run_ns_avg += avg / stats->workers;
    if (max > stats->run_ns_max) stats->run_ns_max = max;
    const unsigned interval = (unsigned)read_counter(&c->inject_interval);
    if (stats->inject_interval == 0 || interval < stats->inject_interval) {
        stats->inject_interval = interval;
    }
}

void hdi_dispatcher_add_stats(struct hd_dispatcher *dispatcher, hd_stats *stats)
{
    stats->dispatchers++;
    stats->injected += pushed(&dispatcher->inject);
    for (unsigned i = 0; i < hdi_dispatcher_places(dispatcher); i++) {
        add_worker(stats, &dispatcher->workers[i]);
    }
}

/* Context: runtime->list held. What is alive stays the same. */
static void retire_counters(struct hd_dispatcher *dispatcher)
{
    struct hd_runtime *runtime = dispatcher->runtime;
    hd_stats *retired = &runtime->retired;
    hdi_dispatcher_add_stats(dispatcher, retired);
    retired->dispatchers = 0;
    retired->inject_interval = 0;
    for (unsigned i = 0; i < hdi_dispatcher_places(dispatcher); i++) {
        struct hdi_counters *counters = &dispatcher->workers[i].counters;
        hdi_fetch_add_acq_rel(&runtime->foreign_submitted, read_counter(&counters->submitted));
        hdi_fetch_add_acq_rel(&runtime->foreign_completed, read_counter(&counters->completed));
    }
    retired->submitted = 0;
}

/* ---- ending ---- */

/* POOL-3. Context: runtime->list held. */
static bool may_free(struct hd_dispatcher *dispatcher)
{
    if (!hdi_load_acquire(&dispatcher->closing) || hdi_load_acquire(&dispatcher->visited)) {
        return false;
    }
    if (is_sim(dispatcher->runtime)) {
        if (!hdi_dispatcher_ended(dispatcher)) return false;
    } else if (hdi_load_acquire(&dispatcher->live) > 0) { /* R */
        return false;
    }
    return hdi_load_acquire(&dispatcher->guests) == 0; /* P */
}

/* Take one that has ended out of the list; NULL if there is none. */
static struct hd_dispatcher *unlink_ended(struct hd_runtime *runtime)
{
    struct hd_dispatcher *found = NULL;
    hdi_mutex_lock(&runtime->list);
    for (struct hd_dispatcher **link = &runtime->main.next; *link; link = &(*link)->next) {
        if (!may_free(*link)) continue;
        found = *link;
        *link = found->next;
        retire_counters(found);
        break;
    }
    hdi_mutex_unlock(&runtime->list);
    return found;
}

static void destroy(struct hd_dispatcher *dispatcher)
{
    dispatcher->runtime->world->stop(dispatcher);
    if (is_sim(dispatcher->runtime)) { /* In live its thread has done that. */
        for (unsigned i = 0; i < dispatcher->worker_count; i++) {
            hdi_worker_give_back(&dispatcher->workers[i]);
        }
    }
    hdi_dispatcher_fini(dispatcher);
    hdi_lines_free(dispatcher);
}

void hdi_dispatchers_reap(struct hd_runtime *runtime)
{
    for (struct hd_dispatcher *found; (found = unlink_ended(runtime));) destroy(found);
}

void hdi_dispatchers_stop(struct hd_runtime *runtime)
{
    for (struct hd_dispatcher *d = runtime->dispatchers; d; d = d->next) runtime->world->stop(d);
}

void hdi_dispatchers_free(struct hd_runtime *runtime)
{
    for (struct hd_dispatcher *d = runtime->main.next, *next; d; d = next) {
        next = d->next;
        hdi_dispatcher_fini(d);
        hdi_lines_free(d);
    }
    hdi_dispatcher_fini(&runtime->main);
}

/* ---- for users ---- */

static struct hd_dispatcher unconfined = {.name = "unconfined", .permanent = true};

static unsigned spin_rounds(const struct hd_runtime *runtime, unsigned workers)
{
    /* Other pools want the CPUs too: only one that has them for itself searches for long. */
    return workers + runtime->main.worker_count > runtime->cpus ? 1 : runtime->options.spin_rounds;
}

static int resolve(const hd_dispatcher_options *options, struct hd_runtime **runtime,
                   struct hdi_dispatcher_spec *spec)
{
    static const hd_dispatcher_options defaults = HD_DISPATCHER_OPTIONS_INIT;
    if (!options) options = &defaults;
    if (options->size != sizeof(*options)) return -EINVAL;
    *runtime = options->runtime ? options->runtime : hd_runtime_self();
    if (!*runtime || options->workers > HDI_WORKERS_MAX) return -EINVAL;
    if ((unsigned)options->policy > HD_POLICY_PRIORITY) return -EINVAL;
    if (options->cpu_count > 0 && !options->cpus) return -EINVAL;
    const hd_options *own = &(*runtime)->options;
    unsigned workers = options->workers ? options->workers : 1;
    if (own->world == HD_WORLD_SIM && own->sim_order == HD_SIM_RANDOM) workers = 1;
    *spec = (struct hdi_dispatcher_spec){
        .name = options->name ? options->name : "",
        .workers = workers,
        .spares = hdi_dispatcher_spares(*runtime, workers, options->policy),
        .spin_rounds = spin_rounds(*runtime, workers),
        .policy = options->policy,
        .cpus = options->cpus,
        .cpu_count = options->cpu_count,
    };
    return 0;
}

int hd_dispatcher_create(hd_dispatcher **out, const hd_dispatcher_options *options)
{
    struct hd_runtime *runtime;
    struct hdi_dispatcher_spec spec;
    const int err = resolve(options, &runtime, &spec);
    if (err) return err;
    const struct hd_task *self = hdi_task_metered();
    if (self && hdi_scope_may_create(self, &spec.maker) != 0) return -EPERM;
    return hdi_dispatcher_new(out, runtime, &spec);
}

int hd_dispatcher_single(hd_dispatcher **out, hd_runtime *runtime)
{
    hd_dispatcher_options options = HD_DISPATCHER_OPTIONS_INIT;
    options.runtime = runtime;
    options.name = "single";
    options.policy = HD_POLICY_ORDERED;
    return hd_dispatcher_create(out, &options);
}

hd_dispatcher *hd_dispatcher_ref(hd_dispatcher *dispatcher)
{
    /* Relaxed: the caller has a handle, so nothing can end meanwhile. */
    if (dispatcher && !dispatcher->permanent) hdi_fetch_add_relaxed(&dispatcher->refs, 1);
    return dispatcher;
}

void hd_dispatcher_unref(hd_dispatcher *dispatcher)
{
    if (!dispatcher || dispatcher->permanent) return;
    struct hd_runtime *runtime = dispatcher->runtime;
    hdi_dispatcher_enter(dispatcher); /* POOL-2 */
    const uint32_t was = hdi_fetch_sub_acq_rel(&dispatcher->refs, 1);
    HD_CHECK_MSG(was > 0, "a dispatcher's handle was ended twice");
    if (was == 1) {
        hdi_store_release(&dispatcher->closing, true);
        runtime->world->rouse_all(dispatcher);
    }
    hdi_dispatcher_leave(dispatcher);
    if (was == 1) hdi_dispatchers_reap(runtime);
}

hd_dispatcher *hd_dispatcher_default(hd_runtime *runtime)
{
    if (!runtime) runtime = hd_runtime_self();
    return runtime ? &runtime->main : NULL;
}

static struct hd_dispatcher *make_io(struct hd_runtime *runtime)
{
    const bool sim = is_sim(runtime);
    const unsigned most = runtime->cpus > HDI_IO_WORKERS ? runtime->cpus : HDI_IO_WORKERS;
    const struct hdi_dispatcher_spec spec = {
        .name = "io",
        .workers = sim ? 1 : (most < HDI_WORKERS_MAX ? most : HDI_WORKERS_MAX),
        .spin_rounds = 1,
        /* A local queue would strand tasks behind a blocked thread. In sim none is. */
        .policy = sim ? HD_POLICY_FAIR : HD_POLICY_ORDERED,
        .elastic = !sim,
    };
    struct hd_dispatcher *io;
    if (hdi_dispatcher_new(&io, runtime, &spec) != 0) return NULL;
    io->permanent = true;
    return io;
}

hd_dispatcher *hd_dispatcher_io(hd_runtime *runtime)
{
    const struct hd_task *self = hdi_task_metered();
    if (!runtime) runtime = hd_runtime_self();
    if (!runtime || (self && hdi_scope_may_block(self) != 0)) return NULL;
    return hdi_dispatcher_io(runtime);
}

struct hd_dispatcher *hdi_dispatcher_io(struct hd_runtime *runtime)
{
    struct hd_dispatcher *io = hdi_load_acquire(&runtime->io); /* I */
    if (io) return io;
    hdi_mutex_lock(&runtime->io_lock);
    io = hdi_load_acquire(&runtime->io);
    if (!io) {
        io = make_io(runtime);
        if (io) hdi_store_release(&runtime->io, io); /* I */
    }
    hdi_mutex_unlock(&runtime->io_lock);
    return io;
}

hd_dispatcher *hd_dispatcher_unconfined(void)
{
    return &unconfined;
}

hd_dispatcher *hd_dispatcher_self(void)
{
    const struct hdi_worker *worker = hdi_worker_self();
    return worker ? worker->dispatcher : NULL;
}

const char *hd_dispatcher_name(const hd_dispatcher *dispatcher)
{
    return dispatcher->name;
}

unsigned hd_dispatcher_workers(const hd_dispatcher *dispatcher)
{
    if (!dispatcher->runtime) return 0;
    /* Relaxed: a number that may be old when it is used. */
    return hdi_load_relaxed(&((struct hd_dispatcher *)(uintptr_t)dispatcher)->live);
}
