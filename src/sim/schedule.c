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

uint32_t hdi_schedule_number(const struct hd_task *task)
{
    return (uint32_t)(task->id - 1);
}

uint32_t hdi_schedule_steps(const struct hdi_schedule *schedule)
{
    return schedule->steps;
}

struct hdi_actor *hdi_schedule_actor(struct hdi_schedule *schedule, const struct hd_task *task)
{
    const uint32_t number = hdi_schedule_number(task);
    struct hdi_actor *actor = hdi_actors_find(&schedule->actors, number);
    if (actor) return actor;
    const struct hdi_sampler_kind *kind = schedule->sampler->kind;
    actor = hdi_actors_begin(&schedule->actors, number);
    actor->kind = HD_TOUCH_ANY;
    actor->ready_since = schedule->steps;
    actor->code = task->kind == HDI_TASK_FIBER ? (const void *)(uintptr_t)task->fiber.fn
                                               : (const void *)(uintptr_t)task->poll.poll;
    if (kind->spawned) kind->spawned(schedule->sampler, actor, number);
    return actor;
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

static void observe(struct hdi_schedule *schedule, const struct hdi_event_record *event)
{
    if (hdi_unlikely(hdi_schedule_is_observed(schedule))) {
        hdi_schedule_event(schedule->runtime, event);
    }
}

/* Whether hd_run() or hd_explore() began the first one is not part of the run. */
const char *hdi_schedule_name(const struct hd_task *task)
{
    return hdi_schedule_number(task) == 0 ? "main" : hdi_task_name(task);
}

static void log_ready(struct hdi_schedule *schedule, const struct hd_task *task, bool spawned)
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
    struct hdi_actor *actor = hdi_schedule_find(schedule, task);
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

void hdi_schedule_ended(struct hdi_schedule *schedule, struct hd_task *task, int result)
{
    schedule->ended = task->id;
    hdi_actors_end(&schedule->actors, hdi_schedule_number(task));
    observe(schedule, &(struct hdi_event_record){.kind = HD_LOG_END,
                                                 .task = task->id,
                                                 .a = (uint64_t)(int64_t)result});
}

/* ---- races ---- */

static bool is_plain(hd_touch_kind kind)
{
    return kind == HD_TOUCH_READ || kind == HD_TOUCH_WRITE;
}

static bool writes(hd_touch_kind kind)
{
    return kind == HD_TOUCH_WRITE || kind == HD_TOUCH_UPDATE;
}

static bool is_race(const struct hdi_actor *a, const struct hdi_actor *b)
{
    if (a->object != b->object || a->kind == HD_TOUCH_ANY || b->kind == HD_TOUCH_ANY) return false;
    return (is_plain(a->kind) || is_plain(b->kind)) && (writes(a->kind) || writes(b->kind));
}

static const char *file_of(const struct hdi_actor *actor)
{
    const char *file = actor->site ? actor->site->file : "?";
    const char *slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

static int line_of(const struct hdi_actor *actor)
{
    return actor->site ? actor->site->line : 0;
}

static void look_for_races(struct hdi_schedule *schedule, const struct hd_task *task,
                           const struct hdi_actor *actor, struct hd_task *const *others,
                           size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct hdi_actor *other = hdi_schedule_find(schedule, others[i]);
        if (others[i] == task || !is_race(actor, other)) continue;
        hdi_schedule_verdict(schedule, HD_VERDICT_RACE, 0,
                             "tasks %" PRIu64 " and %" PRIu64
                             " touch the same memory at once, at %s:%d (%s) and %s:%d (%s)",
                             task->id, others[i]->id, file_of(actor), line_of(actor),
                             writes(actor->kind) ? "writes" : "reads", file_of(other),
                             line_of(other), writes(other->kind) ? "writes" : "reads");
        return;
    }
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
    hdi_log_event(schedule->log, &(struct hdi_event_record){.kind = HD_LOG_CHOICE,
                                                            .task = task->id,
                                                            .a = count,
                                                            .b = preempts});
}

/* One of at least two. Returns -1 if a replay has come to its end. */
static inline int choose(struct hdi_schedule *schedule, struct hd_task *const *ready,
                         unsigned count, int running)
{
    schedule->decisions++;
    int index;
    if (hdi_unlikely(schedule->replay)) {
        index = replayed(schedule, ready, count);
        if (index < 0) return index;
    } else {
        index = (int)schedule->sampler->kind->pick(schedule->sampler, schedule, ready, count,
                                                   running);
        HDI_ASSERT((unsigned)index < count); /* SAMPLER-1 */
    }
    const bool preempts = running >= 0 && index != running;
    schedule->preemptions += preempts;
    if (hdi_unlikely(schedule->log)) log_choice(schedule, ready[index], count, preempts);
    return index;
}

static __attribute__((noinline, cold)) void watch_step(struct hdi_schedule *schedule,
                                                       struct hd_task *task,
                                                       const struct hdi_actor *actor)
{
    schedule->in_step = true;
    if (schedule->steps == schedule->until) hdi_schedule_pause(schedule, task);
    observe(schedule, &(struct hdi_event_record){.kind = HD_LOG_STEP,
                                                 .task = task->id,
                                                 .object = actor->object,
                                                 .b = actor->kind,
                                                 .site = actor->site});
}

/* The task takes the step it stands before; nobody looks. */
static inline void take_plain_step(struct hdi_schedule *schedule, const struct hd_task *task,
                                   struct hdi_actor *actor)
{
    schedule->running = task->id;
    schedule->actor = actor;
    actor->steps++;
    actor->yielded = actor->ready = false;
    actor->object = NULL; /* What it does after that nobody knows yet. */
    actor->kind = HD_TOUCH_ANY;
    actor->site = NULL;
}

/* The task takes the step it stands before. */
static inline void take_step(struct hdi_schedule *schedule, struct hd_task *task,
                             struct hdi_actor *actor)
{
    const struct hdi_sampler_kind *kind = schedule->sampler->kind;
    if (hdi_unlikely(kind->stepped != NULL)) {
        kind->stepped(schedule->sampler, actor, hdi_schedule_number(task));
    }
    if (schedule->signs) {
        hdi_signature_step(&schedule->signature, hdi_schedule_number(task), actor);
    }
    if (hdi_unlikely(schedule->careful)) {
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

/* The running fiber stands before this step, and another may go first. */
static __attribute__((noinline)) void leave_choice(struct hdi_schedule *schedule,
                                                   struct hdi_worker *worker, struct hd_task *task,
                                                   struct hdi_actor *actor)
{
    struct hdi_bag *bag = &worker->queue.bag;
    if (is_plain(actor->kind)) {
        schedule->plain = true; /* From now on each step is looked at. */
        schedule->quick = false;
    }
    if (schedule->plain && actor->object && hdi_bag_count(bag) > 0) {
        look_for_races(schedule, task, actor, bag->tasks, hdi_bag_count(bag));
        if (hdi_unlikely(schedule->verdict.kind)) hdi_schedule_stop(worker);
    }
    const bool due = hdi_sim_pass_time(schedule->runtime) >= schedule->due_ns;
    if (hdi_unlikely(due || !schedule->direct || !hdi_bag_push(bag, task))) {
        step_aside(schedule, worker);
        return;
    }
    const unsigned count = (unsigned)hdi_bag_count(bag);
    const int index = count > 1 ? choose(schedule, bag->tasks, count, (int)count - 1) : 0;
    if (hdi_unlikely(index < 0)) hdi_schedule_stop(worker);
    struct hd_task *next = hdi_bag_take(bag, (size_t)index);
    take_step(schedule, next, next == task ? actor : hdi_schedule_find(schedule, next));
    if (next != task) hdi_worker_switch_to(worker, next);
}

/* As leave_choice(), where chance alone decides: whoever goes on leaves its place to who does not,
 * which is where a push and a take would have put it (BAG-1). */
static void leave_to_chance(struct hdi_schedule *schedule, struct hdi_worker *worker,
                            struct hd_task *task, struct hdi_actor *actor)
{
    if (hdi_unlikely(hdi_sim_pass_time(schedule->runtime) >= schedule->due_ns)) {
        step_aside(schedule, worker);
        return;
    }
    struct hdi_bag *bag = &worker->queue.bag;
    const unsigned others = (unsigned)hdi_bag_count(bag);
    unsigned index = others; /* the task itself */
    if (others > 0) {
        schedule->decisions++;
        index = hdi_random_pick((struct hdi_random *)schedule->sampler, others + 1);
    }
    if (index == others) {
        take_plain_step(schedule, task, actor);
        return;
    }
    schedule->preemptions++;
    struct hd_task *next = bag->tasks[index];
    bag->tasks[index] = task;
    take_plain_step(schedule, next, hdi_schedule_find(schedule, next));
    hdi_worker_switch_to(worker, next);
}

_Atomic(uint32_t) hdi_schedules;

/* Not in stackless tasks, not on threads, and not where the fiber must stay. */
static inline void reach(const void *object, hd_touch_kind kind, const hd_site *site,
                         const void *code)
{
    struct hdi_exec *exec = hdi_exec_self();
    if (!exec || !exec->current) return;
    struct hdi_schedule *schedule = exec->runtime->sim.schedule;
    if (!schedule || !schedule->points) return;
    struct hd_task *task = exec->current;
    if (task->kind != HDI_TASK_FIBER || exec->calls_out > 0) return;
    if (task->unusual & HDI_UNUSUAL_HOLDS) return;
    struct hdi_worker *worker = (struct hdi_worker *)exec;
    struct hdi_actor *actor = task->id == schedule->running ? schedule->actor
                                                            : hdi_schedule_find(schedule, task);
    if (!check_step(schedule)) hdi_schedule_stop(worker);
    actor->object = object;
    actor->kind = kind;
    actor->site = site;
    actor->code = site ? (const void *)site : code;
    actor->ready = true;
    actor->ready_since = schedule->steps;
    if (hdi_likely(schedule->quick && !is_plain(kind))) {
        leave_to_chance(schedule, worker, task, actor);
    } else {
        leave_choice(schedule, worker, task, actor);
    }
}

void hd_touch(const void *object, hd_touch_kind kind, const hd_site *site)
{
    if (hdi_unlikely(hdi_load_relaxed(&hdi_schedules) > 0)) reach(object, kind, site, NULL);
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

/* The fiber that left the choice to the driver could go on: who else is chosen preempts it. */
static int find_running(const struct hdi_schedule *schedule, struct hd_task *const *ready,
                        unsigned count)
{
    return schedule->aside ? index_of(ready, count, schedule->running) : -1;
}

/* Returns its index; -1: nobody. */
static int pick_next(struct hdi_schedule *schedule, struct hd_task *const *ready, unsigned count)
{
    if (count == 0) return -1;
    if (!schedule->aside && !check_step(schedule)) return -1;
    const int running = find_running(schedule, ready, count);
    schedule->aside = false;
    return count > 1 ? choose(schedule, ready, count, running) : 0;
}

struct hd_task *hdi_schedule_next(struct hdi_schedule *schedule)
{
    struct hdi_worker *only = only_worker(schedule);
    schedule->careful = warns(schedule) || schedule->invariant || schedule->until;
    schedule->direct = only && !schedule->clock;
    schedule->quick = schedule->direct && !schedule->careful && !schedule->signs &&
                      !schedule->plain && schedule->sampler->kind == &hdi_sampler_random;
    struct hd_task *task;
    if (hdi_likely(only != NULL)) {
        struct hdi_bag *bag = &only->queue.bag;
        const int index = pick_next(schedule, bag->tasks, (unsigned)hdi_bag_count(bag));
        if (index < 0) return NULL;
        task = hdi_bag_take(bag, (size_t)index);
        schedule->host = only;
    } else {
        const unsigned count = collect(schedule);
        const int index = pick_next(schedule, schedule->ready, count);
        if (index < 0) return NULL;
        task = schedule->ready[index];
        take_out(schedule, task);
    }
    take_step(schedule, task, hdi_schedule_find(schedule, task));
    return task;
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

void hdi_schedule_gone(const void *object)
{
    const struct hdi_exec *exec = hdi_exec_self();
    struct hdi_schedule *schedule = exec ? exec->runtime->sim.schedule : NULL;
    if (!schedule) return;
    if (schedule->log) hdi_log_forget(schedule->log, object);
    if (schedule->replay) hdi_replay_forget(schedule->replay, object);
}

void hdi_schedule_jumped(struct hdi_schedule *schedule)
{
    observe(schedule, &(struct hdi_event_record){.kind = HD_LOG_TIME});
}

/* ---- beginning and ending ---- */

void hdi_schedule_rewind(struct hdi_schedule *schedule, uint64_t seed)
{
    hdi_actors_clear(&schedule->actors);
    schedule->steps = schedule->decisions = schedule->preemptions = 0;
    schedule->running = schedule->ended = 0;
    schedule->fault_next = schedule->faults = 0;
    schedule->due_ns = INT64_MAX;
    schedule->aside = schedule->in_step = false;
    schedule->host = NULL;
    schedule->unheard_count = 0;
    schedule->plain = false;
    hdi_waits_clear(&schedule->waits);
    schedule->cohorts = schedule->cohort_tasks = 0;
    schedule->verdict.kind = HD_VERDICT_NONE;
    hdi_signature_begin(&schedule->signature);
    hdi_prng_init(&schedule->prng, hdi_stream_draw(seed, HDI_PURPOSE_SCHEDULE, 0, 0));
    if (schedule->sampler->kind->begin) {
        schedule->sampler->kind->begin(schedule->sampler, schedule, seed);
    }
}

void hdi_schedule_end(struct hdi_schedule *schedule)
{
    if (schedule->sampler->kind->end) schedule->sampler->kind->end(schedule->sampler, schedule);
}
