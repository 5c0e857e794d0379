/* SPDX-License-Identifier: MIT
 *
 * monitor: looking at workers, and what is done about those that are stuck. See monitor.h.
 */
#include "sched/monitor.h"

#include "base/mutant.h"
#include "sched/find.h"
#include "sched/prod.h"
#include "sched/runtime.h"
#include "task/state.h"

/* ---- starting, sleeping, stopping ---- */

static int64_t least_ns(const hd_options *options)
{
    return options->quantum_ns < options->stall_ns ? options->quantum_ns : options->stall_ns;
}

static int64_t period_of(const hd_options *options)
{
    enum { PERIOD_NS_MIN = 1000000 };
    const int64_t period_ns = least_ns(options) / 2;
    return period_ns > PERIOD_NS_MIN ? period_ns : PERIOD_NS_MIN;
}

void hdi_monitor_init(struct hdi_monitor *monitor, struct hd_runtime *runtime)
{
    const hd_options *options = &runtime->options;
    const bool never = options->quantum_ns == HD_FOREVER && options->stall_ns == HD_FOREVER;
    monitor->runtime = runtime;
    const bool live = runtime->world->kind == HD_WORLD_LIVE && !HDI_MODEL;
    monitor->wanted = live && !never;
    monitor->reports = live && options->report_stalls;
    monitor->period_ns = period_of(options);
    hdi_runq_init(&monitor->between, HDI_RUNQ_RING, true);
    if (!monitor->reports) return;
    hdi_stall_prepare();
    hdi_prod_install();
}

static int64_t now(const struct hdi_monitor *monitor)
{
    return monitor->runtime->world->now(monitor->runtime);
}

/* The next dispatcher after this one, both as a guest's (POOL-2); the first after NULL. */
static struct hd_dispatcher *next_of(struct hd_runtime *runtime, struct hd_dispatcher *dispatcher)
{
    hdi_mutex_lock(&runtime->list);
    struct hd_dispatcher *next = dispatcher ? dispatcher->next : runtime->dispatchers;
    if (next) hdi_dispatcher_enter(next);
    hdi_mutex_unlock(&runtime->list);
    if (dispatcher) hdi_dispatcher_leave(dispatcher);
    return next;
}

/* Whether nothing of it needs to be watched until one of its workers leaves the parked ones. */
static bool is_calm(struct hd_dispatcher *dispatcher)
{
    if (hdi_dispatcher_all_parked(dispatcher)) return hdi_load_relaxed(&dispatcher->spares) == 0;
    return dispatcher->elastic && hdi_keeper_kept(dispatcher);
}

static bool all_calm(struct hd_runtime *runtime)
{
    bool calm = true;
    for (struct hd_dispatcher *d = NULL; (d = next_of(runtime, d));) calm = calm && is_calm(d);
    return calm;
}

void hdi_monitor_sleep(struct hdi_monitor *monitor)
{
    uint32_t seen = HDI_MONITOR_AWAKE;
    if (HDI_MUTANT(monitor_looks_first) && !all_calm(monitor->runtime)) return;
    if (!hdi_cas_acq_rel(&monitor->word, &seen, HDI_MONITOR_ASLEEP)) return;
    if (!HDI_MUTANT(monitor_looks_first) && !all_calm(monitor->runtime)) { /* N */
        seen = HDI_MONITOR_ASLEEP;
        (void)hdi_cas_acq_rel(&monitor->word, &seen, HDI_MONITOR_AWAKE); /* Or another did. */
        return;
    }
    while (hdi_load_acquire(&monitor->word) == HDI_MONITOR_ASLEEP) {
        (void)hdi_futex_wait(&monitor->word, HDI_MONITOR_ASLEEP, INT64_MAX);
    }
}

static bool look(struct hdi_monitor *monitor);

static void monitor_main(void *arg)
{
    struct hdi_monitor *monitor = arg;
    monitor->looked_ns = now(monitor);
    for (;;) {
        const int64_t period_ns = monitor->period_ns / (monitor->attentive ? 2 : 1);
        (void)hdi_futex_wait(&monitor->word, HDI_MONITOR_AWAKE, now(monitor) + period_ns);
        if (hdi_load_acquire(&monitor->word) == HDI_MONITOR_OVER) return;
        if (!look(monitor)) hdi_monitor_sleep(monitor);
    }
}

/* Without a thread for it, tasks give way as before there was one: when they like. */
static void start(struct hdi_monitor *monitor)
{
    hdi_mutex_lock(&monitor->starting);
    if (hdi_load_relaxed(&monitor->word) == HDI_MONITOR_OFF) { /* Only changed under the lock. */
        hdi_store_release(&monitor->word, HDI_MONITOR_AWAKE);
        monitor->started =
            hdi_thread_start(&monitor->thread, monitor_main, monitor, "heddle-monitor") == 0;
        if (!monitor->started) hdi_store_release(&monitor->word, HDI_MONITOR_OVER);
    }
    hdi_mutex_unlock(&monitor->starting);
}

void hdi_monitor_rouse(struct hdi_monitor *monitor)
{
    uint32_t seen = HDI_MONITOR_ASLEEP;
    if (hdi_cas_acq_rel(&monitor->word, &seen, HDI_MONITOR_AWAKE)) {
        hdi_futex_wake(&monitor->word, 1);
    } else if (seen == HDI_MONITOR_OFF) {
        start(monitor);
    }
}

void hdi_monitor_stop(struct hdi_monitor *monitor)
{
    hdi_mutex_lock(&monitor->starting);
    hdi_exchange_acq_rel(&monitor->word, HDI_MONITOR_OVER);
    hdi_mutex_unlock(&monitor->starting);
    if (monitor->started) {
        hdi_futex_wake(&monitor->word, 1);
        hdi_thread_join(&monitor->thread);
    }
    if (monitor->reports) hdi_prod_uninstall();
}

unsigned hdi_monitor_threads(struct hdi_monitor *monitor)
{
    const uint32_t word = hdi_load_acquire(&monitor->word);
    return word == HDI_MONITOR_ASLEEP || word == HDI_MONITOR_AWAKE;
}

/* ---- looking at one worker ---- */

/* What a look at a dispatcher finds. */
struct finding {
    int64_t now_ns;
    int64_t passed_ns; /* since the last look */
    unsigned stuck;    /* workers */
    unsigned crowd;    /* of them, those that compute: others have to share a CPU with them */
    bool ran;          /* a task began to run meanwhile */
    bool long_run;     /* a task that ran at the last look still does */
};

/* Whether a worker that has not left its task keeps others waiting: it computes, and has done so
 * since the task was asked to give way, or it sleeps. */
static bool is_stuck(struct hdi_worker *worker, int64_t stall_ns)
{
    const int64_t used_ns = hdi_thread_cpu_ns(&worker->thread) - worker->watch.cpu_ns;
    worker->watch.computes = used_ns >= stall_ns / 16;
    return worker->watch.computes || !hdi_thread_ready(&worker->thread);
}

/* Again and again: in the meantime another task may have come and been asked in its place. */
static void ask_to_give_way(struct hdi_worker *worker, struct hd_task *task)
{
    struct hdi_watch *watch = &worker->watch;
    if (!watch->asked) watch->cpu_ns = hdi_thread_cpu_ns(&worker->thread);
    watch->asked = true;
    hdi_word_ask_to_give_way(&task->word);
    hdi_jobs_ask(worker); /* One that forks looks there only if its jobs are wanted. */
}

static void look_at_run(struct hdi_worker *worker, struct hd_task *task, struct finding *finding)
{
    const hd_options *options = &worker->exec.runtime->options;
    struct hdi_watch *watch = &worker->watch;
    finding->long_run = true;
    if (watch->same_ns == 0) watch->cpu_ns = hdi_thread_cpu_ns(&worker->thread);
    watch->same_ns += finding->passed_ns;
    if (watch->same_ns >= options->quantum_ns) ask_to_give_way(worker, task);
    struct hdi_lane *lane = hdi_load_acquire(&worker->lane);
    if (lane) hdi_lane_stand_in(lane);
    if (watch->same_ns < options->stall_ns) return;
    if (!watch->stuck) watch->stuck = is_stuck(worker, options->stall_ns);
    finding->stuck += watch->stuck;
    finding->crowd += watch->stuck && watch->computes;
}

static void look_at(struct hdi_worker *worker, struct finding *finding)
{
    struct hdi_watch *watch = &worker->watch;
    struct hdi_counters *counters = &worker->counters;
    const uint64_t polls = hdi_load_relaxed(&counters->polls); /* A guess is good enough. */
    struct hd_task *task = hdi_load_relaxed(&counters->running);
    const bool running = hdi_load_relaxed(&counters->state) == HDI_WORKER_RUNNING && task;
    struct hdi_lane *lane = hdi_load_acquire(&worker->lane);
    if (polls != watch->polls) finding->ran = true;
    if (lane && running) hdi_lane_send_overdue(lane); /* Each run may be short, and they many. */
    if (polls != watch->polls || !running) {
        *watch = (struct hdi_watch){.polls = polls};
    } else if (!worker->dispatcher->elastic) {
        look_at_run(worker, task, finding);
    }
}

/* ---- looking at a dispatcher ---- */

static unsigned lesser(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static bool is_parked(struct hdi_worker *worker)
{
    return hdi_load_relaxed(&worker->counters.state) == HDI_WORKER_PARKED;
}

/* Workers that are free, without the reserve. A guess, which is made again at the next look. */
static unsigned count_free(struct hd_dispatcher *dispatcher)
{
    const struct hdi_worker *reserve = dispatcher->reserve;
    const unsigned parked = hdi_idle_parked(&dispatcher->idle);
    return parked - (parked > 0 && reserve && is_parked(dispatcher->reserve));
}

/* One that is itself in a long run is none. Where all are stuck, all that is queued waited for
 * them, and is put behind what comes from now on. */
static void appoint_reserve(struct hd_dispatcher *dispatcher, const struct finding *finding)
{
    const struct hdi_worker *reserve = dispatcher->reserve;
    if (dispatcher->policy > HD_POLICY_LOCAL) return; /* The order is the program's. */
    if (reserve && reserve->watch.same_ns < least_ns(&dispatcher->runtime->options)) return;
    hdi_spares_dismiss(dispatcher);
    const bool all = hdi_load_acquire(&dispatcher->live) == finding->stuck;
    if (all) hdi_inject_put_behind(&dispatcher->inject);
    hdi_spares_appoint(dispatcher);
}

/* How many spares are to be started where `lacking` workers are stuck. Those that sleep leave their
 * CPU to others, and where one after the other falls asleep, the next come in larger numbers. Those
 * that compute do not: as long as the reserve sees to what is new, few are started at a time, and
 * the later, the more there are. */
static unsigned count_missing(struct hd_dispatcher *dispatcher, const struct finding *finding,
                              unsigned wanted, unsigned lacking)
{
    enum { PATIENCE_MAX = 4 };
    const unsigned crowd = dispatcher->reserve ? finding->crowd : 0;
    const unsigned patience = lesser(crowd / wanted, PATIENCE_MAX);
    const int64_t stall_ns = dispatcher->runtime->options.stall_ns;
    if (finding->now_ns - dispatcher->grown_ns < patience * stall_ns) return 0;
    const unsigned queued = hdi_inject_length(&dispatcher->inject);
    const unsigned few = 1 + crowd / (8 * wanted);
    return (patience > 1 ? few : lacking) + lesser(finding->stuck - crowd, queued);
}

/* Somebody has to do the work of those that are stuck. */
static void replace(struct hd_dispatcher *dispatcher, const struct finding *finding)
{
    const bool kept = hdi_keeper_kept(dispatcher);
    if (count_free(dispatcher) > 0) {
        hdi_spares_dismiss(dispatcher);
        const bool queued = hdi_inject_length(&dispatcher->inject) > 0;
        if (queued || !kept) dispatcher->runtime->world->notify(dispatcher);
        return;
    }
    const unsigned wanted = lesser(dispatcher->worker_count, dispatcher->runtime->cpus);
    const unsigned others = finding->stuck + (dispatcher->reserve != NULL);
    const unsigned active = hdi_load_acquire(&dispatcher->live) - others;
    if (dispatcher->reserve && !kept) hdi_parker_unpark(&dispatcher->reserve->parker);
    if (active < wanted || dispatcher->reserve) appoint_reserve(dispatcher, finding);
    if (active >= wanted) return;
    const unsigned count = count_missing(dispatcher, finding, wanted, wanted - active);
    if (count == 0) return;
    hdi_spares_start(dispatcher, count);
    dispatcher->grown_ns = finding->now_ns;
}

/* Those that are too many, for long enough, leave. */
static void dismiss(struct hd_dispatcher *dispatcher, const struct finding *finding)
{
    const unsigned needed =
        dispatcher->worker_count + finding->stuck + (dispatcher->reserve != NULL);
    const unsigned live = hdi_load_acquire(&dispatcher->live);
    const unsigned excess = live > needed ? live - needed : 0;
    dispatcher->excess_ns = excess > 0 ? dispatcher->excess_ns + finding->passed_ns : 0;
    hdi_spares_excuse(dispatcher, dispatcher->excess_ns >= HDI_SPARE_IDLE_NS ? excess : 0);
    /* With their threads gone, what is left may turn out to be a deadlock. */
    if (hdi_spares_bury(dispatcher)) hdi_runtime_have_a_look(dispatcher->runtime);
}

/* After all else: an answer may take its time. */
static void report(struct hdi_worker *worker)
{
    struct hdi_watch *watch = &worker->watch;
    if (!watch->stuck || watch->reported) return;
    watch->reported = true;
    hdi_stall_report(worker, hdi_load_relaxed(&worker->counters.running), watch->polls,
                     watch->same_ns);
}

static void look_at_pool(struct hdi_monitor *monitor, struct hd_dispatcher *dispatcher,
                         struct finding *finding)
{
    finding->stuck = finding->crowd = 0;
    const unsigned places = hdi_dispatcher_places(dispatcher);
    for (unsigned i = 0; i < places; i++) look_at(&dispatcher->workers[i], finding);
    if (dispatcher->elastic) {
        if (!hdi_dispatcher_all_parked(dispatcher)) hdi_elastic_keep_time(dispatcher);
        return;
    }
    for (unsigned i = 0; i < places && finding->stuck > 0; i++) {
        struct hdi_worker *worker = &dispatcher->workers[i];
        if (worker->watch.stuck) (void)hdi_find_take_over(worker, &monitor->between);
    }
    if (dispatcher->place_max > dispatcher->worker_count) {
        if (finding->stuck > 0) {
            replace(dispatcher, finding);
        } else {
            hdi_spares_dismiss(dispatcher);
        }
        if (hdi_load_relaxed(&dispatcher->spares) > 0 || dispatcher->excess_ns > 0) {
            dismiss(dispatcher, finding);
        }
    }
    for (unsigned i = 0; i < places && finding->stuck > 0 && monitor->reports; i++) {
        report(&dispatcher->workers[i]);
    }
}

/* Look at all workers. Returns whether there is something to watch. */
static bool look(struct hdi_monitor *monitor)
{
    const int64_t now_ns = now(monitor);
    const int64_t passed_ns = now_ns - monitor->looked_ns, most_ns = 2 * monitor->period_ns;
    /* If it was itself kept from running, so were others: that does not count. */
    struct finding finding = {.now_ns = now_ns,
                              .passed_ns = passed_ns < most_ns ? passed_ns : most_ns};
    monitor->looked_ns = now_ns;
    bool calm = true;
    for (struct hd_dispatcher *d = NULL; (d = next_of(monitor->runtime, d));) {
        look_at_pool(monitor, d, &finding);
        calm = calm && is_calm(d);
    }
    monitor->attentive = finding.long_run;
    return finding.ran || !calm;
}
