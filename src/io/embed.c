/* SPDX-License-Identifier: MIT
 *
 * embed: a live runtime without threads, whose tasks run when another event loop has the time.
 *
 * Its one worker is the calling thread while that is in hd_run_once(), or waits for the runtime.
 * Between the calls it counts as parked, so all that would wake a sleeping worker raises the event
 * of its lane; the event, the descriptors that are watched, and a timer for the next deadline are
 * in one epoll, which is what hd_runtime_fd() gives to the other loop.
 *
 *   EMBED-1  The worker is entered by one thread at a time, the holder of `embed.drive`.
 */
#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "io/epoll.h"
#include "os/event.h"
#include "sched/find.h"

static struct hdi_worker *worker_of(struct hd_runtime *runtime)
{
    return &runtime->main.workers[0];
}

/* ---- between the calls ---- */

/* Should the kernel not set it, the other loop is to come at once: rather too often than late. */
static void set_timer(struct hd_runtime *runtime, int64_t deadline_ns)
{
    struct itimerspec at = {0};
    if (deadline_ns != INT64_MAX) {
        const int64_t ns = deadline_ns > 0 ? deadline_ns : 1; /* 0 would stop it. */
        at.it_value.tv_sec = ns / 1000000000;
        at.it_value.tv_nsec = ns % 1000000000;
    }
    const int err =
        hdi_live(runtime, timerfd_settime, runtime->embed.timer, TFD_TIMER_ABSTIME, &at, NULL);
    if (err) hdi_event_raise(worker_of(runtime)->parker.event);
}

static bool sees_work(struct hdi_worker *worker)
{
    return hdi_find_sees(worker) || hdi_inject_length(&worker->inbox) > 0;
}

/* As when a worker goes to sleep (sched/worker.c), but it is the other loop that does. */
static void go_away(struct hdi_worker *worker)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    struct hd_runtime *runtime = dispatcher->runtime;
    worker->injects = true;
    worker->busy_since = 0;
    (void)hdi_idle_park(&dispatcher->idle, worker->index, worker->searching);
    worker->searching = false;
    hdi_worker_set_state(worker, HDI_WORKER_PARKED);
    hdi_parker_go_elsewhere(&worker->parker);
    set_timer(runtime, hdi_keeper_watch(worker));
    hdi_runtime_tell_quiet(runtime);
    if (sees_work(worker)) hdi_event_raise(worker->parker.event);
}

static void come_back(struct hdi_worker *worker)
{
    struct hd_dispatcher *dispatcher = worker->dispatcher;
    hdi_keeper_unwatch(worker);
    hdi_parker_come_back(&worker->parker);
    (void)hdi_idle_unpark(&dispatcher->idle, worker->index); /* The token went with the event. */
    worker->searching = true;
    worker->injects = worker->queue.shape == HDI_RUNQ_NONE;
    worker->exec.coarse_ns = dispatcher->runtime->world->now(dispatcher->runtime);
}

/* ---- running ---- */

static struct hd_task *next_task(struct hdi_worker *worker)
{
    struct hd_task *task = worker->handed;
    worker->handed = NULL;
    if (!task) task = hdi_find_local(worker);
    if (!task && hdi_find_news(worker, true)) task = hdi_find_local(worker);
    if (!task && hdi_keeper_poll_all(worker)) task = hdi_find_local(worker);
    if (!task) task = hdi_lifo_flush(&worker->lifo);
    if (task && worker->searching) hdi_worker_end_search(worker);
    if (task && worker->timers.unpublished) hdi_keeper_publish(worker);
    return task;
}

/* Run what is ready. Returns how many runs that were. */
static int run_ready(struct hdi_worker *worker)
{
    int runs = 0;
    for (struct hd_task *task; (task = next_task(worker)); runs += runs < INT32_MAX) {
        hdi_worker_run(worker, task);
    }
    return runs;
}

/* What a thread waits for: that the word changes. */
struct wish {
    _Atomic(uint32_t) *word;
    uint32_t expected;
};

static bool is_fulfilled(const struct wish *wish)
{
    return wish && hdi_load_acquire(wish->word) != wish->expected;
}

/* Until something ran, or the wish of a thread, if it has one, is fulfilled, be it by a thread of
 * another dispatcher. Context: EMBED-1. */
static int run_once(struct hd_runtime *runtime, int64_t deadline_ns, const struct wish *wish)
{
    struct hdi_worker *worker = worker_of(runtime);
    struct hdi_overflow_thread overflow;
    const bool report =
        runtime->options.report_overflow && hdi_overflow_thread_init(&overflow) == 0;
    void *outer = hdi_thread_self(); /* It may be a fiber of another runtime. */
    int runs = 0;
    for (bool last = false; runs == 0 && !last;) {
        last = deadline_ns <= hdi_sched_now();
        hdi_worker_enter(worker);
        come_back(worker);
        runs = run_ready(worker);
        go_away(worker);
        hdi_worker_leave(worker);
        hdi_thread_set_self(outer);
        hdi_jobs_enter(outer);
        /* After the news were heard: who fulfils it raises the event again. */
        if (runs > 0 || last || is_fulfilled(wish)) break;
        /* The event, or the timer, ends it before. */
        hdi_lane_sleep(hdi_load_acquire(&worker->lane), deadline_ns);
    }
    if (report) hdi_overflow_thread_fini(&overflow);
    return runs;
}

static bool inside(const struct hd_runtime *runtime)
{
    const struct hdi_exec *exec = hdi_exec_self();
    return exec && exec->runtime == runtime;
}

int hd_run_once(hd_runtime *runtime, int64_t deadline)
{
    if (!runtime->options.embedded || inside(runtime)) return -EINVAL;
    hdi_mutex_lock(&runtime->embed.drive);
    const int runs = run_once(runtime, deadline, NULL);
    hdi_mutex_unlock(&runtime->embed.drive);
    return runs;
}

int hd_runtime_fd(hd_runtime *runtime)
{
    return runtime->options.embedded ? runtime->embed.fd : -EINVAL;
}

/* ---- its world (sched/live.c) ---- */

int hdi_embedded_start(struct hd_dispatcher *dispatcher)
{
    struct hd_runtime *runtime = dispatcher->runtime;
    if (dispatcher != &runtime->main) return hdi_world_live.start(dispatcher);
    int err = 0;
    struct hdi_lane *lane = hdi_lane_here(runtime, &err);
    if (!lane) return err;
    struct hdi_epoll *set = hdi_epoll_of(lane);
    runtime->embed.fd = set->fd;
    const int timer =
        hdi_live(runtime, timerfd_create, CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    /* Level-triggered: until the timer is set anew. */
    err = timer < 0 ? timer : hdi_epoll_add(set, timer, EPOLLIN, (hd_io){0});
    runtime->embed.timer = timer;
    if (err) {
        if (timer >= 0) close(timer);
        hdi_io_end(runtime);
        return err;
    }
    hdi_store_release(&dispatcher->live, 1);
    hdi_parker_come_back(&worker_of(runtime)->parker); /* It was told of its lane. */
    go_away(worker_of(runtime));
    return 0;
}

void hdi_embedded_stop(struct hd_dispatcher *dispatcher)
{
    hdi_world_live.stop(dispatcher);
    if (dispatcher == &dispatcher->runtime->main) close(dispatcher->runtime->embed.timer);
}

/* A thread that waits does the work, unless another does. */
int hdi_embedded_wait(struct hd_runtime *runtime, _Atomic(uint32_t) *word, uint32_t expected,
                      int64_t deadline_ns)
{
    if (!hdi_mutex_trylock(&runtime->embed.drive)) {
        return hdi_futex_wait(word, expected, deadline_ns);
    }
    const struct wish wish = {word, expected};
    int err = 0;
    while (!err && !is_fulfilled(&wish)) {
        const int runs = run_once(runtime, deadline_ns, &wish);
        if (runs == 0 && !is_fulfilled(&wish) && hdi_sched_now() >= deadline_ns) err = -ETIMEDOUT;
    }
    hdi_mutex_unlock(&runtime->embed.drive);
    return err;
}

void hdi_embedded_wake(struct hd_runtime *runtime, _Atomic(uint32_t) *word)
{
    hdi_futex_wake(word, INT32_MAX);
    hdi_event_raise(worker_of(runtime)->parker.event);
}
