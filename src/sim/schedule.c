/* SPDX-License-Identifier: MIT */
#include "sim/schedule.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <heddle/log.h>

#include "base/check.h"
#include "sched/find.h"
#include "task/exec.h"
#include "wait/wait.h"

/* A clock that may pass does so at one in so many points. */
#define CLOCK_ONE_IN 16

/* ---- actors ---- */

static inline struct hdi_actor *begin_actor(struct hdi_schedule *schedule,
                                            const struct hd_task *task)
{
    const uint32_t number = hdi_schedule_number(task);
    const struct hdi_sampler_kind *kind = schedule->sampler->kind;
    struct hdi_actor *actor = hdi_actors_begin(&schedule->actors, number);
    actor->kind = HD_TOUCH_ANY;
    actor->ready_since = schedule->steps;
    actor->code = task->kind == HDI_TASK_FIBER ? (const void *)(uintptr_t)task->fiber.fn
                                               : (const void *)(uintptr_t)task->poll.poll;
    if (kind->spawned) kind->spawned(schedule->sampler, actor, number);
    return actor;
}

struct hdi_actor *hdi_schedule_actor(struct hdi_schedule *schedule, const struct hd_task *task)
{
    struct hdi_actor *actor = hdi_actors_find(&schedule->actors, hdi_schedule_number(task));
    return actor ? actor : begin_actor(schedule, task);
}

/* ---- events ---- */

void hdi_schedule_event(struct hd_runtime *runtime, const struct hdi_event_record *event)
{
    struct hdi_schedule *schedule = runtime->sim.schedule;
    if (!schedule) return;
    if (schedule->log) hdi_log_event(schedule->log, event);
    if (schedule->replay && !hdi_replay_check(schedule->replay, event)) {
        hdi_schedule_verdict(schedule, HD_VERDICT_DIVERGED, 0, "%s",
                             hdi_replay_difference(schedule->replay));
    }
}

/* Whether long waits are worth a warning. */
static bool warns(const struct hdi_schedule *schedule)
{
    return hdi_schedule_is_observed(schedule) || schedule->runtime->options.log;
}

/* Whether hd_run() or hd_explore() began the first one is not part of the run. */
const char *hdi_schedule_name(const struct hd_task *task)
{
    return hdi_schedule_number(task) == 0 ? "main" : hdi_task_name(task);
}

static __attribute__((noinline, cold)) void log_ready(struct hdi_schedule *schedule,
                                                      const struct hd_task *task, bool spawned)
{
    struct hdi_event_record event = {
        .kind = spawned ? HD_LOG_SPAWN : HD_LOG_WAKE,
        .task = task->id,
        .a = schedule->in_step ? schedule->running : 0, /* also by one that has just ended */
    };
    if (spawned) {
        event.text = hdi_schedule_name(task);
        event.site = hdi_schedule_number(task) == 0 ? NULL : task->site;
    }
    hdi_schedule_event(schedule->runtime, &event);
}

void hdi_schedule_ready(struct hdi_schedule *schedule, struct hd_task *task)
{
    const uint32_t known = schedule->actors.count;
    struct hdi_actor *actor = hdi_actors_find(&schedule->actors, hdi_schedule_number(task));
    if (!actor) actor = begin_actor(schedule, task);
    if (actor->ready) return;
    actor->ready = true;
    actor->ready_since = schedule->steps;
    /* Time woke it before anybody else ran: a loop that waits for no time must not keep the others
     * from running (SAMPLER-2). */
    if (task->id == schedule->running && !hdi_task_self()) actor->yielded = true;
    if (hdi_unlikely(schedule->waits.count > 0)) hdi_waits_end(schedule, task);
    if (hdi_unlikely(hdi_schedule_is_observed(schedule))) {
        log_ready(schedule, task, hdi_schedule_number(task) >= known);
    }
}

void hdi_schedule_yields(struct hd_task *task)
{
    struct hdi_schedule *schedule = task->runtime->sim.schedule;
    if (!schedule) return;
    struct hdi_actor *actor = hdi_schedule_find(schedule, task);
    actor->yielded = actor->ready = true;
    actor->ready_since = schedule->steps;
}

static __attribute__((noinline, cold)) void log_end(struct hdi_schedule *schedule,
                                                    const struct hd_task *task, int result)
{
    const struct hdi_event_record event = {
        .kind = HD_LOG_END,
        .task = task->id,
        .a = (uint64_t)(int64_t)result,
    };
    hdi_schedule_event(schedule->runtime, &event);
}

void hdi_schedule_ended(struct hdi_schedule *schedule, struct hd_task *task, int result)
{
    const struct hdi_sampler_kind *kind = schedule->sampler->kind;
    const uint32_t number = hdi_schedule_number(task);
    struct hdi_actor *actor = hdi_actors_find(&schedule->actors, number);
    if (actor) {
        if (kind->ended) kind->ended(schedule->sampler, actor, number);
        if (schedule->actor == actor) schedule->actor = NULL;
        hdi_actors_end(&schedule->actors, actor, number);
    }
    schedule->ended = task->id;
    if (hdi_unlikely(hdi_schedule_is_observed(schedule))) log_end(schedule, task, result);
}

/* ---- choosing ---- */

static void check_log(struct hdi_schedule *schedule)
{
    const int err = hdi_log_failed(schedule->log);
    if (err) {
        hdi_schedule_verdict(schedule, HD_VERDICT_LOG, err, "the log cannot be written: %s",
                             strerror(-err));
    }
}

static void check_invariant(struct hdi_schedule *schedule)
{
    const int code = schedule->invariant(schedule->invariant_arg);
    if (code == 0) return;
    hdi_schedule_verdict(schedule, HD_VERDICT_INVARIANT, code,
                         "the invariant returned %d after a step of task %" PRIu64, code,
                         schedule->running);
}

static __attribute__((noinline, cold)) bool check_step_slowly(struct hdi_schedule *schedule)
{
    if (schedule->steps > schedule->steps_max) {
        hdi_schedule_verdict(schedule, HD_VERDICT_LIVELOCK, 0,
                             "more than %" PRIu32 " steps; task %" PRIu64 " was the last to run",
                             schedule->steps_max, schedule->running);
    }
    if (schedule->log) check_log(schedule);
    if (schedule->invariant) check_invariant(schedule);
    return schedule->verdict.kind == HD_VERDICT_NONE;
}

/* A step has ended. Returns whether another may begin. */
static inline bool check_step(struct hdi_schedule *schedule)
{
    const bool last = ++schedule->steps > schedule->steps_max;
    return hdi_likely(!last && !schedule->careful) || check_step_slowly(schedule);
}

static int index_of(struct hd_task *const *ready, unsigned count, uint64_t id)
{
    for (unsigned i = count; i-- > 0;) { /* Most often it came last. */
        if (ready[i]->id == id) return (int)i;
    }
    return -1;
}

static int replayed(struct hdi_schedule *schedule, struct hd_task *const *ready, unsigned count)
{
    uint64_t id;
    const int err = hdi_replay_choice(schedule->replay, &id);
    const int index = err ? -1 : index_of(ready, count, id);
    if (index < 0) {
        hdi_schedule_verdict(schedule, HD_VERDICT_DIVERGED, 0,
                             "step %" PRIu32 ": %s", schedule->steps,
                             err ? hdi_replay_difference(schedule->replay)
                                 : "the task recorded there cannot go on here");
    }
    return index;
}

static __attribute__((noinline, cold)) void log_choice(struct hdi_schedule *schedule,
                                                       const struct hd_task *task, unsigned count,
                                                       bool preempts)
{
    const struct hdi_event_record event = {
        .kind = HD_LOG_CHOICE, .task = task->id, .a = count, .b = preempts};
    hdi_log_event(schedule->log, &event);
}

/* One of at least two. Returns -1 if a replay has come to its end. `careful` is the schedule's,
 * here and below: a constant where it is known not to be. */
HDI_ALWAYS_INLINE int choose(struct hdi_schedule *schedule, struct hd_task *const *ready,
                             unsigned count, int running, bool careful)
{
    schedule->decisions++;
    int index;
    if (hdi_unlikely(careful && schedule->replay)) {
        index = replayed(schedule, ready, count);
        if (index < 0) return index;
    } else {
        index = (int)schedule->sampler->kind->pick(schedule->sampler, schedule, ready, count,
                                                   running);
        HDI_ASSERT((unsigned)index < count); /* SAMPLER-1 */
    }
    if (hdi_unlikely(careful && schedule->log)) {
        log_choice(schedule, ready[index], count, running >= 0 && index != running);
    }
    return index;
}

static __attribute__((noinline, cold)) void watch_step(struct hdi_schedule *schedule,
                                                       struct hd_task *task,
                                                       const struct hdi_actor *actor)
{
    schedule->in_step = true;
    if (schedule->steps == schedule->until) hdi_schedule_pause(schedule, task);
    const struct hdi_event_record event = {
        .kind = HD_LOG_STEP,
        .task = task->id,
        .object = actor->object,
        .b = actor->kind,
        .site = actor->site,
    };
    hdi_schedule_event(schedule->runtime, &event);
}

/* The task takes the step it stands before; nobody looks. */
static inline void take_plain_step(struct hdi_schedule *schedule, const struct hd_task *task,
                                   struct hdi_actor *actor)
{
    schedule->running = task->id;
    schedule->actor = actor;
    actor->steps++;
    actor->yielded = actor->ready = false;
}

/* The task that took the last step has left, and not at a point: what it does next nobody knows. */
static inline void forget_step(struct hdi_schedule *schedule)
{
    struct hdi_actor *actor = schedule->actor;
    if (!actor) return;
    actor->object = NULL;
    actor->kind = HD_TOUCH_ANY;
    actor->site = NULL;
}

/* Apart: in most schedules nobody wants to know, and it takes no registers from them. */
static __attribute__((noinline)) void tell_step(struct hdi_schedule *schedule,
                                                const struct hd_task *task,
                                                const struct hdi_actor *actor)
{
    const struct hdi_sampler_kind *kind = schedule->sampler->kind;
    const uint32_t number = hdi_schedule_number(task);
    if (kind->stepped) kind->stepped(schedule->sampler, actor, number);
    if (schedule->signs) hdi_signature_step(&schedule->signature, number, actor);
}

/* The task takes the step it stands before. */
HDI_ALWAYS_INLINE void take_step(struct hdi_schedule *schedule, struct hd_task *task,
                                 struct hdi_actor *actor, bool careful)
{
    if (schedule->tells) tell_step(schedule, task, actor);
    if (hdi_unlikely(careful)) {
        schedule->running = task->id;
        watch_step(schedule, task, actor);
    }
    take_plain_step(schedule, task, actor);
}

/* ---- points ---- */

/* Other dispatchers may have something ready too: the driver looks at all of them. */
static bool is_only_dispatcher(const struct hd_runtime *runtime)
{
    return runtime->dispatchers->next == NULL;
}

/* The driver decides. Apart, so that the switch in it does not cost point() all registers. */
static __attribute__((noinline)) void step_aside(struct hdi_schedule *schedule,
                                                 struct hdi_worker *worker)
{
    schedule->aside = true;
    hdi_fiber_leave(&worker->exec, HDI_AFTER_YIELD);
}

/* The running fiber stands before this step, and another may go first. Whoever does leaves its
 * place to who does not, which is where a push and a take would have put it (BAG-1). */
HDI_ALWAYS_INLINE void leave_choice(struct hdi_schedule *schedule, struct hdi_worker *worker,
                                    struct hd_task *task, struct hdi_actor *actor, bool careful)
{
    struct hdi_bag *bag = &worker->queue.bag;
    const size_t others = hdi_bag_count(bag);
    if (hdi_unlikely(others == bag->capacity) && !hdi_bag_reserve(bag, others + 1)) {
        step_aside(schedule, worker);
        return;
    }
    size_t index = others; /* the task itself */
    if (hdi_likely(others > 0)) {
        bag->tasks[others] = task;
        const int chosen = choose(schedule, bag->tasks, (unsigned)others + 1, (int)others, careful);
        if (careful && chosen < 0) hdi_schedule_stop(worker);
        index = (unsigned)chosen;
    }
    if (index == others) {
        take_step(schedule, task, actor, careful);
        return;
    }
    schedule->preemptions++;
    struct hd_task *next = bag->tasks[index];
    bag->tasks[index] = task;
    const bool small = hdi_schedule_is_small(schedule);
    take_step(schedule, next, hdi_schedule_candidate(schedule, next, small), careful);
    hdi_worker_switch_to(worker, next);
}

/* Apart, so that reach() needs no registers for it. */
static __attribute__((noinline)) void leave_to_sampler(struct hdi_schedule *schedule,
                                                       struct hdi_worker *worker,
                                                       struct hd_task *task,
                                                       struct hdi_actor *actor)
{
    leave_choice(schedule, worker, task, actor, false);
}

/* Its actor is not where most are. */
static __attribute__((noinline, cold)) void go_far(struct hdi_schedule *schedule,
                                                   struct hdi_worker *worker, struct hd_task *next)
{
    take_plain_step(schedule, next, hdi_schedule_find(schedule, next));
    hdi_worker_switch_to(worker, next);
}

/* As leave_choice(), where chance alone decides. */
HDI_ALWAYS_INLINE void leave_to_chance(struct hdi_schedule *schedule, struct hdi_worker *worker,
                                       struct hd_task *task, struct hdi_actor *actor)
{
    struct hdi_bag *bag = &worker->queue.bag;
    const unsigned others = (unsigned)hdi_bag_count(bag);
    unsigned index = others; /* the task itself */
    if (others > 0) {
        schedule->decisions++;
        index = hdi_random_pick((struct hdi_random *)schedule->sampler, others + 1);
    }
    if (index == others) { /* It is the running one already. */
        actor->steps++;
        actor->yielded = actor->ready = false;
        return;
    }
    schedule->preemptions++;
    struct hd_task *next = bag->tasks[index];
    bag->tasks[index] = task;
    struct hdi_actor *near = hdi_actors_find_near(&schedule->actors, next->id - 1);
    if (hdi_unlikely(!near)) {
        go_far(schedule, worker, next);
        return;
    }
    take_plain_step(schedule, next, near);
    hdi_worker_switch_to(worker, next);
}

static inline void stand_before(struct hdi_actor *actor, const void *object, hd_touch_kind kind,
                                const hd_site *site, const void *code, uint32_t steps)
{
    actor->object = object;
    actor->kind = kind;
    actor->site = site;
    actor->code = code;
    actor->ready = true;
    actor->ready_since = steps;
}

/* The first time that plain memory is touched: from now on each step is looked at. */
static void begin_to_look(struct hdi_schedule *schedule)
{
    schedule->plain = true;
    schedule->swift = schedule->quick = false;
}

/* reach(), whatever there is to see to. Not in stackless tasks, nor where the fiber must stay. */
static __attribute__((noinline)) void reach_slowly(const void *object, hd_touch_kind kind,
                                                   const hd_site *site, const void *code)
{
    struct hdi_worker *worker = hdi_worker_self();
    struct hdi_schedule *schedule = worker->exec.runtime->sim.schedule;
    struct hd_task *task = worker->exec.current;
    if (!schedule->points || task->kind != HDI_TASK_FIBER) return;
    if (worker->exec.calls_out > 0 || (task->unusual & HDI_UNUSUAL_HOLDS)) return;
    struct hdi_actor *actor = schedule->actor;
    if (task->id != schedule->running) { /* It runs in the place of that one. */
        forget_step(schedule);
        actor = hdi_schedule_find(schedule, task);
    }
    if (!check_step(schedule)) hdi_schedule_stop(worker);
    stand_before(actor, object, kind, site, code, schedule->steps);
    if (hdi_touch_is_plain(kind)) begin_to_look(schedule);
    struct hdi_bag *bag = &worker->queue.bag;
    if (schedule->plain && object && hdi_bag_count(bag) > 0) {
        hdi_schedule_look_for_races(schedule, task, bag->tasks, hdi_bag_count(bag));
        if (hdi_unlikely(schedule->verdict.kind)) hdi_schedule_stop(worker);
    }
    const bool due = hdi_sim_pass_time(schedule->runtime) >= schedule->due_ns;
    if (due || !schedule->direct) {
        step_aside(schedule, worker);
    } else {
        leave_choice(schedule, worker, task, actor, schedule->careful);
    }
}

_Atomic(uint32_t) hdi_schedules;

/* Nothing is called but as the last thing: so it takes no registers that others want kept. */
HDI_ALWAYS_INLINE void reach(const void *object, hd_touch_kind kind, const hd_site *site,
                             const void *code)
{
    struct hdi_exec *exec = hdi_exec_self();
    struct hd_task *task = exec ? exec->current : NULL;
    if (!task) return;
    struct hd_runtime *runtime = exec->runtime;
    struct hdi_schedule *schedule = runtime->sim.schedule;
    if (!schedule) return;
    const int64_t now_ns = hdi_load_relaxed(&runtime->sim.now_ns); /* our own */
    if (hdi_unlikely(!schedule->swift || hdi_touch_is_plain(kind) ||
                     task->id != schedule->running || task->kind != HDI_TASK_FIBER ||
                     task->unusual || exec->calls_out > 0 ||
                     schedule->steps >= schedule->steps_max || now_ns >= schedule->soon_ns)) {
        reach_slowly(object, kind, site, code);
        return;
    }
    struct hdi_actor *actor = schedule->actor;
    stand_before(actor, object, kind, site, code, ++schedule->steps);
    hdi_store_relaxed(&runtime->sim.now_ns, now_ns + runtime->options.sim_tick_ns);
    if (schedule->quick) {
        leave_to_chance(schedule, (struct hdi_worker *)exec, task, actor);
    } else {
        leave_to_sampler(schedule, (struct hdi_worker *)exec, task, actor);
    }
}

void hd_touch(const void *object, hd_touch_kind kind, const hd_site *site)
{
    if (hdi_unlikely(hdi_load_relaxed(&hdi_schedules) > 0)) reach(object, kind, site, site);
}

void hdi_schedule_reach(const void *object, const void *place)
{
    reach(object, object ? HD_TOUCH_UPDATE : HD_TOUCH_ANY, NULL, place);
}

/* ---- the driver's side ---- */

static bool collect_room(struct hdi_schedule *schedule, size_t count)
{
    if (count <= schedule->ready_room) return true;
    size_t room = schedule->ready_room ? schedule->ready_room : 64;
    while (room < count) room *= 2;
    struct hd_task **ready = realloc(schedule->ready, room * sizeof(*ready));
    if (!ready) return false;
    schedule->ready = ready;
    schedule->ready_room = room;
    return true;
}

/* The one task that is next in a dispatcher whose order is not ours to choose. */
static struct hd_task *offer(struct hdi_worker *worker)
{
    if (!worker->offered) worker->offered = hdi_find_local(worker);
    return worker->offered;
}

/* What is ready anywhere, in an order that depends on nothing but the calls made. */
static unsigned collect(struct hdi_schedule *schedule)
{
    unsigned count = 0;
    for (struct hd_dispatcher *d = schedule->runtime->dispatchers; d; d = d->next) {
        for (unsigned i = 0; i < d->worker_count; i++) {
            struct hdi_worker *worker = &d->workers[i];
            hdi_find_gather(worker);
            const bool bag = worker->queue.shape == HDI_RUNQ_BAG;
            const size_t more = bag ? hdi_bag_count(&worker->queue.bag) : 1;
            HD_CHECK_MSG(collect_room(schedule, count + more + 1), "sim: out of memory");
            if (bag && more > 0) {
                memcpy(schedule->ready + count, worker->queue.bag.tasks,
                       more * sizeof(*schedule->ready));
                count += (unsigned)more;
            }
            struct hd_task *offered = bag ? NULL : offer(worker);
            if (offered) schedule->ready[count++] = offered;
        }
    }
    return count;
}

/* Out of its queue. */
static void take_out(struct hdi_schedule *schedule, struct hd_task *task)
{
    for (struct hd_dispatcher *d = schedule->runtime->dispatchers; d; d = d->next) {
        for (unsigned i = 0; i < d->worker_count; i++) {
            struct hdi_worker *worker = &d->workers[i];
            if (worker->offered == task) {
                worker->offered = NULL;
                schedule->host = worker;
                return;
            }
            if (worker->queue.shape != HDI_RUNQ_BAG) continue;
            struct hdi_bag *bag = &worker->queue.bag;
            for (size_t at = 0; at < hdi_bag_count(bag); at++) {
                if (bag->tasks[at] != task) continue;
                (void)hdi_bag_take(bag, at);
                schedule->host = worker;
                return;
            }
        }
    }
    HD_CHECK_MSG(false, "sim: a ready task is in no queue");
}

/* The common case: one dispatcher, whose bag is the list. Returns NULL if it is another. */
static struct hdi_worker *only_worker(struct hdi_schedule *schedule)
{
    struct hdi_worker *worker = &schedule->runtime->main.workers[0];
    if (!is_only_dispatcher(schedule->runtime) || worker->queue.shape != HDI_RUNQ_BAG) return NULL;
    hdi_find_gather(worker);
    return worker;
}

/* SCHEDULE-3, for those that come from queues of which we hear nothing. */
static void meet_all(struct hdi_schedule *schedule, struct hd_task *const *ready, unsigned count)
{
    for (unsigned i = 0; i < count; i++) (void)hdi_schedule_find(schedule, ready[i]);
}

/* The fiber that left the choice to the driver could go on: who else is chosen preempts it. */
static int find_running(const struct hdi_schedule *schedule, struct hd_task *const *ready,
                        unsigned count)
{
    return schedule->aside ? index_of(ready, count, schedule->running) : -1;
}

/* Returns its index; -1: nobody. */
static int pick_next(struct hdi_schedule *schedule, struct hd_task *const *ready, unsigned count,
                     bool strangers)
{
    if (count == 0) return -1;
    if (!schedule->aside && !check_step(schedule)) return -1;
    if (strangers) meet_all(schedule, ready, count);
    const int running = find_running(schedule, ready, count);
    schedule->aside = false;
    if (count == 1) return 0;
    const int index = choose(schedule, ready, count, running, schedule->careful);
    schedule->preemptions += running >= 0 && index >= 0 && index != running;
    return index;
}

struct hd_task *hdi_schedule_next(struct hdi_schedule *schedule)
{
    struct hdi_worker *only = only_worker(schedule);
    if (!schedule->aside) forget_step(schedule);
    schedule->direct = only && !schedule->clock;
    schedule->swift =
        schedule->direct && schedule->points && !schedule->careful && !schedule->plain;
    schedule->quick = schedule->swift && schedule->by_chance;
    struct hd_task *task;
    if (hdi_likely(only != NULL)) {
        struct hdi_bag *bag = &only->queue.bag;
        const int index = pick_next(schedule, bag->tasks, (unsigned)hdi_bag_count(bag), false);
        if (index < 0) return NULL;
        task = hdi_bag_take(bag, (size_t)index);
        schedule->host = only;
    } else {
        const unsigned count = collect(schedule);
        const int index = pick_next(schedule, schedule->ready, count, true);
        if (index < 0) return NULL;
        task = schedule->ready[index];
        take_out(schedule, task);
    }
    take_step(schedule, task, hdi_schedule_find(schedule, task), schedule->careful);
    return task;
}

/* ---- in the driver's place ---- */

/* A tick from now. */
static inline bool may_follow(struct hdi_schedule *schedule, struct hdi_worker *worker)
{
    struct hd_runtime *runtime = schedule->runtime;
    const int64_t now_ns = hdi_load_relaxed(&runtime->sim.now_ns); /* our own */
    if (!schedule->swift || runtime->sim.ran || now_ns >= schedule->soon_ns) return false;
    return hdi_schedule_goes_on(schedule, worker, now_ns + runtime->options.sim_tick_ns);
}

bool hdi_schedule_may_follow(struct hdi_schedule *schedule, struct hdi_worker *worker)
{
    return may_follow(schedule, worker);
}

struct hd_task *hdi_schedule_follow(struct hdi_schedule *schedule, struct hdi_worker *worker)
{
    struct hdi_bag *bag = &worker->queue.bag;
    const unsigned count = (unsigned)hdi_bag_count(bag);
    if (count == 0 || schedule->steps >= schedule->steps_max) return NULL;
    if (!may_follow(schedule, worker) || !is_only_dispatcher(schedule->runtime)) return NULL;
    if (hdi_find_would_gather(worker)) return NULL;
    forget_step(schedule);
    schedule->steps++;
    const int index = count > 1 ? choose(schedule, bag->tasks, count, -1, false) : 0;
    struct hd_task *task = hdi_bag_take(bag, (size_t)index);
    take_step(schedule, task, hdi_schedule_find(schedule, task), false);
    return task;
}

void hdi_schedule_followed(struct hdi_schedule *schedule, struct hdi_worker *worker)
{
    struct hd_runtime *runtime = schedule->runtime;
    runtime->sim.looks--;
    worker->exec.ops = 0;
    worker->exec.coarse_ns = hdi_sim_pass_time(runtime);
    hdi_schedule_due(schedule, hdi_load_relaxed(&worker->timers.next_ns));
}

bool hdi_schedule_passes(struct hdi_schedule *schedule)
{
    const bool passes = schedule->replay ? hdi_replay_passes(schedule->replay)
                                         : hdi_prng_below(&schedule->prng, CLOCK_ONE_IN) == 0;
    if (passes && schedule->log) {
        hdi_log_event(schedule->log, &(struct hdi_event_record){.kind = HD_LOG_CHOICE});
    }
    return passes;
}

void hdi_schedule_left(struct hdi_schedule *schedule, struct hdi_worker *worker)
{
    schedule->in_step = false;
    if (!warns(schedule)) return;
    const int64_t now_ns = hdi_load_relaxed(&schedule->runtime->sim.now_ns); /* our own */
    while (hdi_waits_next(schedule) <= now_ns) hdi_waits_warn(schedule);
    if (schedule->running == schedule->ended) return;
    if (hdi_schedule_is_over(schedule)) return;
    struct hd_task *task = hdi_load_stat(&worker->counters.running);
    struct hdi_actor *actor = hdi_schedule_find(schedule, task);
    if (task->id != schedule->running || actor->ready) return;
    struct hdi_event_record event = {.kind = HD_LOG_WAIT, .task = task->id};
    event.text = hdi_schedule_waits_for(task, &event.object);
    hdi_schedule_event(schedule->runtime, &event);
    hdi_waits_begin(schedule, task);
}

void hdi_schedule_jumped(struct hdi_schedule *schedule)
{
    hdi_schedule_event(schedule->runtime, &(struct hdi_event_record){.kind = HD_LOG_TIME});
}

/* ---- beginning and ending ---- */

void hdi_schedule_drive(struct hdi_schedule *schedule, const struct hdi_goal *goal)
{
    schedule->goal = goal;
    schedule->careful = warns(schedule) || schedule->invariant || schedule->until;
    schedule->tells = schedule->signs || schedule->sampler->kind->stepped;
    schedule->by_chance = !schedule->tells && schedule->sampler->kind == &hdi_sampler_random;
}

void hdi_schedule_rewind(struct hdi_schedule *schedule, uint64_t seed)
{
    hdi_actors_clear(&schedule->actors);
    schedule->steps = schedule->decisions = schedule->preemptions = 0;
    schedule->running = schedule->ended = 0;
    schedule->actor = NULL;
    schedule->fault_next = schedule->faults = 0;
    hdi_schedule_due(schedule, INT64_MAX);
    schedule->aside = schedule->in_step = false;
    schedule->host = NULL;
    schedule->unheard_count = 0;
    schedule->plain = false;
    hdi_waits_clear(&schedule->waits);
    schedule->cohorts = schedule->cohort_tasks = 0;
    schedule->verdict.kind = HD_VERDICT_NONE;
    hdi_signature_begin(&schedule->signature);
    if (schedule->clock) { /* Nothing else draws from it. */
        hdi_prng_init(&schedule->prng, hdi_stream_draw(seed, HDI_PURPOSE_SCHEDULE, 0, 0));
    }
    if (schedule->sampler->kind->begin) {
        schedule->sampler->kind->begin(schedule->sampler, schedule, seed);
    }
}

void hdi_schedule_end(struct hdi_schedule *schedule)
{
    if (schedule->sampler->kind->end) schedule->sampler->kind->end(schedule->sampler, schedule);
}
