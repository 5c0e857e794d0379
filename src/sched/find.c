/* SPDX-License-Identifier: MIT */
#include "sched/find.h"

#include "base/mutant.h"
#include "sched/runtime.h"

/* Whether those behind in the injection queue are not for this worker (sched/monitor.h). Relaxed:
 * who takes that back notifies afterwards, which orders it against a worker about to park. */
static bool is_reserve(struct hdi_worker *worker)
{
    return worker->spare && hdi_load_relaxed(&worker->reserve);
}

/* ---- putting ---- */

static void notify(struct hd_dispatcher *dispatcher)
{
    dispatcher->runtime->world->notify(dispatcher);
}

static void inject(struct hd_dispatcher *dispatcher, struct hd_task *const *tasks, unsigned count)
{
    hdi_inject_push(&dispatcher->inject, tasks, count);
    notify(dispatcher);
}

/* The local queue is full: half of it and the task go to the injection queue in one
 * batch. Where a thief is at work there will be room soon, and only the task goes. */
static __attribute__((noinline)) void overflow(struct hdi_worker *worker, struct hd_task *task)
{
    struct hd_task *batch[HDI_RING_CAP / 2 + 1];
    unsigned count = 0;
    if (worker->queue.shape == HDI_RUNQ_RING) count = hdi_ring_spill(&worker->queue.ring, batch);
    batch[count++] = task;
    hdi_count(&worker->counters.overflows);
    inject(worker->dispatcher, batch, count);
}

void hdi_find_push(struct hdi_worker *worker, struct hd_task *task, bool busy)
{
    if (hdi_unlikely(!hdi_runq_push(&worker->queue, task))) {
        overflow(worker, task);
    } else if (!hdi_worker_alone(worker)) {
        if (busy || hdi_load_relaxed(&worker->lifo.task) || hdi_runq_count(&worker->queue) > 1) {
            notify(worker->dispatcher);
        }
    }
}

__attribute__((noinline)) void hdi_find_inject(struct hd_dispatcher *dispatcher,
                                               struct hd_task *task)
{
    inject(dispatcher, &task, 1);
}

/* Once it is queued, the task may run and end, and with it the runtime, before we have
 * notified: hd_runtime_destroy() waits for us. */
static void inject_as_guest(struct hd_dispatcher *dispatcher, struct hd_task *task)
{
    struct hd_runtime *runtime = dispatcher->runtime;
    hdi_sched_guest_enter(runtime);
    hdi_dispatcher_enter(dispatcher); /* POOL-2 */
    inject(dispatcher, &task, 1);
    hdi_dispatcher_leave(dispatcher);
    hdi_sched_guest_leave(runtime);
}

/* Awake, asleep or in between: the parker's token makes it look at its inbox again. */
void hdi_find_deliver(struct hdi_worker *worker, struct hd_task *task)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    struct hd_runtime *runtime = dispatcher->runtime;
    hdi_sched_guest_enter(runtime);
    hdi_dispatcher_enter(dispatcher); /* POOL-2 */
    hdi_inject_push(&worker->inbox, &task, 1);
    runtime->world->rouse(worker);
    hdi_dispatcher_leave(dispatcher);
    hdi_sched_guest_leave(runtime);
}

/* An unconfined task goes on where it is woken. It counts as a task of the dispatcher it ran
 * on last; that one's memory stays, because the wait that just ended may have a timer there. */
static void submit_unconfined(struct hdi_worker *worker, struct hd_task *task)
{
    const bool here = worker && worker->exec.runtime == task->runtime;
    struct hd_dispatcher *to = here ? worker->dispatcher : &task->runtime->main;
    struct hd_dispatcher *from = task->visiting;
    if (from != to) {
        hdi_dispatcher_arrive(to);
        task->visiting = to;
        hdi_store_release(&from->visited, true);
        hdi_dispatcher_depart(from);
    }
    if (here) {
        hdi_find_submit(worker, task);
    } else {
        inject_as_guest(to, task);
    }
}

static __attribute__((noinline)) void submit_elsewhere(struct hdi_worker *worker,
                                                       struct hd_task *task)
{
    if (task->unusual & HDI_UNUSUAL_PINNED) {
        hdi_find_deliver(task->pinned, task);
    } else if (task->unusual & HDI_UNUSUAL_UNCONFINED) {
        submit_unconfined(worker, task);
    } else {
        inject_as_guest(task->home, task);
    }
}

void hdi_find_submit_last(struct hdi_worker *worker, struct hd_task *task)
{
    if (hdi_unlikely(worker->queue.shape >= HDI_RUNQ_DEQUE)) {
        hdi_find_inject(worker->dispatcher, task); /* At a deque's end it would be next. */
    } else {
        /* If it gave way to a task that is running already, we do not look next. */
        hdi_find_push(worker, task, worker->exec.current || worker->handed);
    }
}

void hdi_find_submit_behind(struct hdi_worker *worker, struct hd_task *task)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    if (worker->queue.shape != HDI_RUNQ_RING && worker->queue.shape != HDI_RUNQ_DEQUE) {
        hdi_find_submit_last(worker, task);
        return;
    }
    hdi_inject_push_behind(&dispatcher->inject, &task, 1);
    if (hdi_worker_alone(worker)) return;
    /* A lone task is ours, since we look next. */
    if (hdi_load_relaxed(&worker->lifo.task) || hdi_runq_count(&worker->queue) > 0 ||
        hdi_inject_length(&dispatcher->inject) > 1 || is_reserve(worker)) {
        notify(dispatcher);
    }
}

/* Those for which there was no room in the local queue are older: if new ones went there before
 * them, they would wait for as long as there is news. */
void hdi_find_submit_told(struct hdi_worker *worker, struct hd_task *first)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    struct hd_task *batch[HDI_INJECT_BATCH_MAX];
    unsigned count = 0;
    for (struct hd_task *task = first, *next; task; task = next) {
        next = task->next;
        if (task->home != dispatcher || task->unusual) {
            hdi_sched_submit(task);
        } else if (count > 0 || hdi_inject_front(hdi_inject_lengths(&dispatcher->inject)) > 0) {
            batch[count++] = task;
        } else {
            hdi_find_submit_last(worker, task);
        }
        if (count == HDI_INJECT_BATCH_MAX || (count > 0 && !next)) {
            inject(dispatcher, batch, count);
            count = 0;
        }
    }
}

HDI_ALWAYS_INLINE void submit(struct hd_task *task)
{
    struct hdi_worker *worker = hdi_worker_self();
    if (hdi_likely(worker && worker->dispatcher == task->home)) {
        hdi_find_submit(worker, task);
    } else {
        submit_elsewhere(worker, task);
    }
}

void hdi_sched_submit(struct hd_task *task)
{
    submit(task);
}

int hdi_sched_resume(struct hd_task *task)
{
    task->resumes = true; /* It is RUNNING already (task/state.h). */
    submit(task);
    return 0;
}

/* ---- finding ---- */

/* Move a fair share of the injection queue to the local queue and return the first; or one of
 * those behind, if it is its turn. */
static struct hd_task *take_injected(struct hdi_worker *worker, bool busy)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    const uint64_t lengths = hdi_inject_lengths(&dispatcher->inject);
    const uint32_t length = hdi_inject_front(lengths);
    if (hdi_unlikely(hdi_inject_behind(lengths) > 0) && !is_reserve(worker)) {
        struct hd_task *task =
            hdi_inject_pop_behind(&dispatcher->inject, !busy && length == 0);
        if (task) return task;
    }
    if (length == 0) return NULL;
    if (worker->queue.shape == HDI_RUNQ_BAG) {
        (void)hdi_bag_reserve(&worker->queue.bag, hdi_bag_count(&worker->queue.bag) + length);
    }
    unsigned share = hdi_inject_share(length, dispatcher->worker_count, busy);
    const unsigned room = hdi_runq_room(&worker->queue);
    if (share > room + 1) share = room + 1;
    struct hd_task *batch[HDI_INJECT_BATCH_MAX];
    const unsigned count = hdi_inject_pop(&dispatcher->inject, batch, share);
    for (unsigned i = 1; i < count; i++) {
        /* A thief still copying can hold slots that looked free. */
        if (!hdi_runq_push(&worker->queue, batch[i])) {
            inject(dispatcher, &batch[i], count - i);
            break;
        }
    }
    /* While they were in neither queue a worker may have looked and gone to sleep. A
     * searcher tells the next one when it ends its search. */
    const bool silent = worker->searching || HDI_MUTANT(inject_batch_silent);
    if (count > 1 && !silent) notify(dispatcher);
    return count > 0 ? batch[0] : NULL;
}

static __attribute__((noinline)) void gather(struct hd_runtime *runtime, struct hdi_bag *bag,
                                             struct hdi_inject *injected)
{
    const uint32_t length = hdi_inject_length(injected);
    /* If memory is short, as many as fit. */
    (void)hdi_bag_reserve(bag, hdi_bag_count(bag) + length);
    for (;;) {
        struct hd_task *batch[HDI_INJECT_BATCH_MAX];
        const size_t room = bag->capacity - hdi_bag_count(bag);
        const unsigned most = room < HDI_INJECT_BATCH_MAX ? (unsigned)room : HDI_INJECT_BATCH_MAX;
        const unsigned count = hdi_inject_pop(injected, batch, most);
        for (unsigned i = 0; i < count; i++) {
            hdi_find_ready(runtime, batch[i]);
            HD_CHECK(hdi_bag_push(bag, batch[i]));
        }
        if (count == 0) return;
    }
}

void hdi_find_gather(struct hdi_worker *worker)
{
    if (worker->queue.shape != HDI_RUNQ_BAG) return;
    struct hd_runtime *runtime = worker->exec.runtime;
    struct hdi_bag *bag = &worker->queue.bag;
    struct hdi_inject *injected = &worker->dispatcher->inject, *inbox = &worker->inbox;
    if (hdi_inject_length(injected) > 0) gather(runtime, bag, injected);
    if (hdi_inject_length(inbox) > 0) gather(runtime, bag, inbox); /* Nobody steals: it is alone. */
}

static struct hd_task *take_delivered(struct hdi_worker *worker)
{
    struct hd_task *task;
    return hdi_inject_pop(&worker->inbox, &task, 1) == 1 ? task : NULL;
}

bool hdi_find_news(struct hdi_worker *worker, bool look)
{
    struct hdi_lane *lane = hdi_load_acquire(&worker->lane); /* W */
    return hdi_unlikely(lane != NULL) && hdi_lane_poll(worker, lane, look);
}

/* Step 1: what a busy worker would otherwise never come to. Injected tasks and a deque's
 * oldest take turns: fibers that yield keep the injection queue from ever being empty. */
static struct hd_task *take_overdue(struct hdi_worker *worker)
{
    worker->tick = 0;
    /* They are taken to be run next, by us, but others may go first. */
    if (hdi_find_news(worker, true) && !hdi_worker_alone(worker)) notify(worker->dispatcher);
    hdi_keeper_stand_in(worker);
    worker->inbox_turn = !worker->inbox_turn;
    struct hd_task *task = worker->inbox_turn ? take_delivered(worker) : NULL;
    if (task) return task;
    worker->oldest_turn = !worker->oldest_turn;
    if (worker->oldest_turn) task = hdi_runq_pop_oldest(&worker->queue);
    if (!task) task = take_injected(worker, true);
    return task ? task : hdi_runq_pop_oldest(&worker->queue);
}

struct hd_task *hdi_find_queued(struct hdi_worker *worker)
{
    worker->lifo_run = 0;
    struct hd_task *task = hdi_runq_pop(&worker->queue, &worker->prng);
    return task ? task : hdi_find_lifo(worker);
}

struct hd_task *hdi_find_lifo_next(struct hdi_worker *worker)
{
    if (worker->lifo_run >= worker->lifo_cap) {
        if (hdi_runq_count(&worker->queue) > 0) return NULL;
        worker->lifo_run = 0;
    }
    struct hd_task *task = hdi_find_lifo(worker);
    if (task) worker->lifo_run++;
    return task;
}

struct hd_task *hdi_find_local(struct hdi_worker *worker)
{
    struct hd_task *task = NULL;
    if (hdi_unlikely(--worker->clock_left == 0)) {
        worker->clock_left = worker->clock_runs;
        hdi_keeper_poll(worker);
    }
    if (hdi_unlikely(++worker->tick >= worker->interval)) task = take_overdue(worker);
    if (!task) task = hdi_find_own(worker);
    if (!task) task = take_delivered(worker);
    if (!task) task = take_injected(worker, false);
    return task;
}

static void relax(unsigned times)
{
    for (unsigned i = 0; i < times; i++) hdi_cpu_relax();
}

/* A LIFO slot is its owner's for the moment, and a thief's look at it stops the
 * owner's CPU. Only a worker that has not begun a task for a while is stuck in one. */
static struct hd_task *steal_lifo(struct hdi_worker *victim)
{
    if (!hdi_load_relaxed(&victim->lifo.task)) return NULL;
    const uint64_t polls = hdi_load_relaxed(&victim->counters.polls);
    relax(HDI_MODEL ? 1 : 64);
    if (hdi_load_relaxed(&victim->counters.polls) != polls) return NULL;
    return hdi_lifo_steal(&victim->lifo);
}

/* Whether it has few tasks, and is so quick with them that it will be through before a thief has
 * run one: to steal then costs both more than it saves, and so does looking often. */
static bool is_brisk(struct hdi_worker *victim)
{
    enum { FEW = 16, WINDOW = 8, SOON = 4, REST = 64 }; /* tasks, pauses, windows, pauses */
    if (victim->queue.shape != HDI_RUNQ_RING) return false;
    struct hdi_ring *ring = &victim->queue.ring;
    const uint32_t before = hdi_ring_moves(ring);
    const unsigned count = hdi_ring_count(ring);
    if (count == 0 || count > FEW) return false;
    relax(WINDOW);
    const uint32_t moved = hdi_ring_moves(ring) - before;
    if (hdi_ring_count(ring) > (uint64_t)moved * SOON) return false;
    relax(REST);
    return true;
}

/* In the last round whatever there is: the worker parks next. */
static struct hd_task *steal_from(struct hdi_worker *worker, struct hdi_worker *victim, bool last)
{
    hdi_count(&worker->counters.steal_attempts);
    unsigned moved = 0;
    struct hd_task *task = NULL;
    if (last || !is_brisk(victim)) {
        task = hdi_runq_steal(&victim->queue, &worker->queue, &moved);
    }
    if (!task && (task = hdi_jobs_steal(worker, victim))) return task;
    if (!task && last) task = steal_lifo(victim);
    if (task) {
        hdi_count(&worker->counters.steals);
        hdi_count_add(&worker->counters.stolen, moved + 1);
    }
    return task;
}

struct hd_task *hdi_find_steal(struct hdi_worker *worker, unsigned scan_max, bool last)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    const unsigned count = hdi_dispatcher_places(dispatcher);
    unsigned scans = count - 1 < scan_max ? count - 1 : scan_max;
    unsigned victim = hdi_prng_below(&worker->prng, count);
    for (; scans > 0; victim = victim + 1 < count ? victim + 1 : 0) {
        if (victim == worker->index) continue;
        struct hd_task *task = steal_from(worker, &dispatcher->workers[victim], last);
        if (task) return task;
        scans--;
    }
    return take_injected(worker, false);
}

static bool any_queued(struct hd_dispatcher *dispatcher)
{
    const unsigned count = hdi_dispatcher_places(dispatcher);
    for (unsigned i = 0; i < count; i++) {
        if (hdi_runq_count(&dispatcher->workers[i].queue) > 0) return true;
        if (hdi_deque_count(&dispatcher->workers[i].jobs.open) > 0) return true;
    }
    return false;
}

bool hdi_find_visible(struct hd_dispatcher *dispatcher)
{
    return hdi_inject_length(&dispatcher->inject) > 0 || any_queued(dispatcher);
}

bool hdi_find_sees(struct hdi_worker *worker)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    if (hdi_likely(!is_reserve(worker))) return hdi_find_visible(dispatcher);
    return hdi_inject_front(hdi_inject_lengths(&dispatcher->inject)) > 0 || any_queued(dispatcher);
}

/* ---- in the place of another ---- */

/* Tasks on their way to the injection queue, in order. */
struct batch {
    struct hd_dispatcher *to;
    bool behind;
    struct hd_task *tasks[HDI_INJECT_BATCH_MAX];
    unsigned count;
};

static void batch_send(struct batch *batch)
{
    struct hdi_inject *to = &batch->to->inject;
    if (batch->count == 0) return;
    if (batch->behind) {
        hdi_inject_push_behind(to, batch->tasks, batch->count);
    } else {
        hdi_inject_push(to, batch->tasks, batch->count);
    }
    notify(batch->to);
    batch->count = 0;
}

static void batch_add(struct batch *batch, struct hd_task *task)
{
    if (batch->count == HDI_INJECT_BATCH_MAX) batch_send(batch);
    batch->tasks[batch->count++] = task;
}

void hdi_find_hand_over(struct hdi_worker *worker)
{
    struct batch batch = {.to = worker->dispatcher};
    struct hd_task *task = hdi_lifo_flush(&worker->lifo);
    if (task) batch_add(&batch, task);
    while ((task = hdi_runq_pop(&worker->queue, &worker->prng))) batch_add(&batch, task);
    batch_send(&batch);
}

bool hdi_find_take_over(struct hdi_worker *victim, struct hdi_runq *between)
{
    struct batch batch = {.to = victim->dispatcher, .behind = true};
    bool any = false;
    unsigned moved;
    for (struct hd_task *task; (task = hdi_runq_steal(&victim->queue, between, &moved));) {
        any = true;
        batch_add(&batch, task);
        while ((task = hdi_ring_pop(&between->ring))) batch_add(&batch, task);
    }
    struct hd_task *last = hdi_lifo_steal(&victim->lifo);
    if (last) batch_add(&batch, last);
    batch_send(&batch);
    return any || last;
}
