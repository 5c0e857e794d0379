/* SPDX-License-Identifier: MIT
 *
 * lane: making them, choosing a kind, and the way of what they tell to the queues.
 */
#include "io/lane.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/accepted.h"
#include "io/outbox.h"
#include "os/clock.h"
#include "os/event.h"
#include "os/futex.h"
#include "sched/find.h"
#include "sched/prod.h"

/* ---- choosing ---- */

static void say(struct hd_runtime *runtime, const char *name, const char *why)
{
    const hd_options *options = &runtime->options;
    if (!options->log) return;
    char text[128];
    snprintf(text, sizeof(text), "io: %s%s%s", name, why ? ", since io_uring " : "",
             why ? why : "");
    options->log(options->log_arg, text);
}

static bool may_be_ring(const struct hd_runtime *runtime)
{
    return runtime->options.io != HD_IO_EPOLL && !runtime->options.embedded;
}

/* Context: lanes_lock. The first decides for all. */
static struct hdi_lane *create(struct hdi_worker *worker, int event, int *err)
{
    struct hd_runtime *runtime = worker->exec.runtime;
    const hd_io_driver driver = runtime->options.io;
    struct hdi_lane *lane = NULL;
    *err = 0;
    if (!runtime->lane_kind) {
        const char *why = NULL;
        runtime->lane_kind = &hdi_lane_epoll;
        if (may_be_ring(runtime)) {
            lane = hdi_lane_uring.create(worker, event, err);
            if (!lane && driver == HD_IO_URING) {
                runtime->lane_kind = NULL;
                return NULL;
            }
            if (lane) runtime->lane_kind = &hdi_lane_uring;
            if (!lane) why = strerror(-*err);
        }
        say(runtime, runtime->lane_kind->name, why);
    }
    return lane ? lane : runtime->lane_kind->create(worker, event, err);
}

/* ---- making and ending ---- */

/* Context: lanes_lock. */
static struct hdi_lane *make_lane(struct hdi_worker *worker, int *err)
{
    const int event = hdi_event_open(worker->exec.runtime);
    if (event < 0) {
        *err = event;
        return NULL;
    }
    struct hdi_lane *lane = create(worker, event, err);
    if (!lane) {
        close(event);
        return NULL;
    }
    lane->worker = worker;
    lane->event = event;
    /* A worker that computes for long would keep what is left to itself. */
    if (!worker->exec.runtime->monitor.wanted) lane->outbox = NULL;
    worker->parker.event = event;
    hdi_store_release(&worker->lane, lane); /* W */
    return lane;
}

/* A worker that comes and goes has none: what is watched there would not be seen any more. */
static struct hdi_worker *keeps_lane(struct hd_runtime *runtime)
{
    struct hdi_worker *self = hdi_worker_self();
    const bool own = self && self->dispatcher == &runtime->main && !self->spare;
    return own ? self : &runtime->main.workers[0];
}

/* Context: lanes_lock. */
static struct hdi_lane *any_lane(struct hd_runtime *runtime)
{
    struct hdi_lane *lane = NULL;
    for (unsigned i = 0; i < hdi_dispatcher_places(&runtime->main) && !lane; i++) {
        lane = hdi_load_acquire(&runtime->main.workers[i].lane); /* W */
    }
    return lane;
}

struct hdi_lane *hdi_lane_here(struct hd_runtime *runtime, int *err)
{
    struct hdi_worker *worker = keeps_lane(runtime);
    struct hdi_lane *lane = hdi_load_acquire(&worker->lane); /* W */
    if (lane) return lane;
    hdi_mutex_lock(&runtime->lanes_lock);
    lane = hdi_load_acquire(&worker->lane);
    if (!lane) {
        lane = make_lane(worker, err);
        /* It sleeps elsewhere, if it does. */
        if (lane && worker != hdi_worker_self()) hdi_parker_unpark(&worker->parker);
        /* With no descriptor left, for instance, another worker's will do. */
        if (!lane) lane = any_lane(runtime);
        if (lane) *err = 0;
    }
    hdi_mutex_unlock(&runtime->lanes_lock);
    return lane;
}

/* For so long at most. No worker is left to ask the kernel, so it is asked again and again. */
static void await_lingering(struct hd_runtime *runtime)
{
    const int64_t until_ns = hdi_clock_now() + HDI_LINGER_END_NS;
    _Atomic(uint32_t) never = 0;
    while (hdi_sources_linger(runtime) && hdi_clock_now() < until_ns) {
        (void)hdi_futex_wait(&never, 0, hdi_clock_now() + HDI_LINGER_LOOK_NS);
    }
}

void hdi_io_end(struct hd_runtime *runtime)
{
    const unsigned places = hdi_dispatcher_places(&runtime->main);
    hdi_sources_end(runtime, false);
    await_lingering(runtime);
    hdi_sources_end(runtime, true);
    for (unsigned i = 0; i < places; i++) {
        struct hdi_lane *lane = hdi_load_acquire(&runtime->main.workers[i].lane);
        if (!lane) continue;
        close(lane->event);
        lane->kind->destroy(lane);
    }
}

const char *hd_runtime_io(hd_runtime *runtime)
{
    if (runtime->world->kind == HD_WORLD_SIM) return "sim";
    hdi_mutex_lock(&runtime->lanes_lock);
    const struct hdi_lane_kind *kind = runtime->lane_kind;
    hdi_mutex_unlock(&runtime->lanes_lock);
    return kind ? kind->name : "none";
}

/* ---- watching ---- */

int hdi_live_watch(struct hd_runtime *runtime, int fd, struct hdi_source *source)
{
    (void)fd;
    int err = 0;
    struct hdi_lane *lane = hdi_lane_here(runtime, &err);
    if (lane && lane->kind->watch) err = lane->kind->watch(lane, source);
    if (err) return err;
    hdi_store_release(&source->lane, lane); /* V */
    hdi_fetch_add_acq_rel(&runtime->io_waits, 1);
    return 0;
}

int hdi_lane_arm(struct hdi_source *source, struct hdi_side *side)
{
    struct hdi_lane *lane = hdi_load_acquire(&source->lane); /* V */
    return lane->kind->arm ? lane->kind->arm(lane, source, side) : 0;
}

/* Nothing came ahead: why. */
static int nothing_ahead(struct hdi_source *source)
{
    const int err = source->failed;
    source->failed = 0;
    if (err) return err;
    return source->in.armed && source->ahead ? -EAGAIN : -ENODATA;
}

/* The lane that may have something for it; NULL. Who waited for this side has seen which it is; for
 * the other it may be chosen this moment. */
static struct hdi_lane *lane_ahead(const struct hdi_source *source)
{
    const bool comes = source->in.armed && source->ahead;
    if (!comes && !hdi_source_has(source)) return NULL;
    struct hdi_lane *lane = hdi_load_acquire(&source->lane); /* V */
    return lane && lane->kind->receive ? lane : NULL;
}

ssize_t hdi_lane_receive(struct hdi_source *source, const struct iovec *parts, int count)
{
    struct hdi_lane *lane = lane_ahead(source);
    if (!lane) return -ENODATA;
    const ssize_t n = lane->kind->receive(lane, source, parts, count);
    return n >= 0 ? n : nothing_ahead(source);
}

/* Errors are left to who reads. */
ssize_t hdi_lane_lend(struct hdi_source *source, struct hdi_loan *loan, char **bytes)
{
    struct hdi_lane *lane = lane_ahead(source);
    if (!lane) return -ENODATA;
    const ssize_t n = lane->kind->lend(lane, source, loan, bytes);
    if (n != -EAGAIN) return n;
    return source->failed ? -ENODATA : nothing_ahead(source);
}

ssize_t hdi_lane_lent(const struct hdi_lent *lent, struct hdi_loan *loan)
{
    return lent->lane->kind->lent(lent->lane, lent->what, loan);
}

int hdi_lane_accept(struct hdi_source *source)
{
    if (!lane_ahead(source)) return -ENODATA;
    return hdi_accepted_count(source) > 0 ? hdi_accepted_take(source) : nothing_ahead(source);
}

void hdi_live_unwatch(struct hd_runtime *runtime, int fd, struct hdi_source *source)
{
    (void)fd;
    struct hdi_lane *lane = hdi_load_acquire(&source->lane); /* V */
    lane->kind->unwatch(lane, source);
    hdi_fetch_sub_acq_rel(&runtime->io_waits, 1);
}

/* ---- calls that the kernel makes ---- */

static bool attempt_landed(hd_case *c, struct hdi_wakeups *wakeups)
{
    const struct hdi_flight *flight = c->object;
    (void)wakeups;
    if (flight->landed) c->result = flight->result;
    return flight->landed;
}

static bool enqueue_flight(hd_case *c)
{
    hdi_node_enqueue(&((struct hdi_flight *)c->object)->waiters, hdi_case_node(c));
    return true;
}

static void dequeue_flight(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    hdi_node_dequeue(hdi_case_node(c));
}

static const struct hdi_op op_flight = {
    .what = "file",
    .attempt = attempt_landed,
    .enqueue = enqueue_flight,
    .dequeue = dequeue_flight,
};

void hdi_flight_land(struct hdi_flight *flight, int result, struct hdi_wakeups *wakeups)
{
    hdi_lock_take(&flight->waitable.lock);
    flight->landed = true;
    flight->result = result;
    struct hdi_node *node = hdi_node_pop(&flight->waiters);
    if (node) {
        hdi_node_case(node)->result = result;
        (void)hdi_node_complete(node, wakeups); /* Lost: who waited looks again. */
    }
    hdi_lock_give(&flight->waitable.lock);
}

/* Come what may. Context: the lock. */
static void await_end(struct hdi_flight *flight, hd_case *c)
{
    struct hdi_wakeups none = HDI_WAKEUPS_INIT;
    if (attempt_landed(c, &none)) return;
    (void)hdi_wait_locked_always(&op_flight, c);
    hdi_lock_take(&flight->waitable.lock); /* FLIGHT-1 */
}

/* Returns what it did, and 0 in *why; or what the kernel said of one that was recalled, and the
 * reason for that. */
static int await_landing(struct hdi_lane *lane, struct hdi_flight *flight, int64_t deadline,
                         int *why)
{
    hd_case c = HD_CASE_(HD_CASE_NEVER, flight, NULL, 0);
    hdi_case_node(&c)->op = &op_flight;
    const int err = hdi_wait_unless(&c, flight->stop, deadline);
    if (HDI_MUTANT(flight_blind_return) && flight->landed) return flight->result;
    hdi_lock_take(&flight->waitable.lock); /* FLIGHT-1 */
    *why = flight->landed ? 0 : err;
    if (*why) { /* FLIGHT-2 */
        hdi_lock_give(&flight->waitable.lock);
        if (!lane->kind->recall(lane, flight) || HDI_MUTANT(flight_left_behind)) return -ECANCELED;
        hdi_lock_take(&flight->waitable.lock);
        await_end(flight, &c);
    }
    const int result = flight->result;
    hdi_lock_give(&flight->waitable.lock);
    return result;
}

struct hdi_lane *hdi_lane_for_flights(struct hd_runtime *runtime)
{
    int err = 0;
    if (hdi_worker_self() != keeps_lane(runtime)) return NULL;
    struct hdi_lane *lane = hdi_lane_here(runtime, &err);
    return lane && lane->kind->fly && hdi_lane_may_act(lane) ? lane : NULL;
}

static ssize_t fly_once(struct hdi_lane *lane, struct hdi_flight *flight, int64_t deadline,
                        int *why)
{
    flight->waitable = (struct hdi_waitable){0};
    flight->landed = false;
    hdi_list_init(&flight->waiters);
    lane->kind->fly(lane, flight);
    return await_landing(lane, flight, deadline, why);
}

static bool is_late(int64_t deadline)
{
    return deadline != HD_FOREVER && deadline <= hdi_sched_now();
}

/* What the kernel gives up, by itself, is asked for again. */
ssize_t hdi_lane_fly(struct hdi_lane *lane, struct hdi_flight *flight, int64_t deadline)
{
    struct hd_runtime *runtime = lane->worker->exec.runtime;
    ssize_t result = -ECANCELED;
    int why = 0;
    hdi_fetch_add_acq_rel(&runtime->io_waits, 1);
    while (!why && (result == -ECANCELED || result == -EINTR)) {
        if (is_late(deadline)) why = -ETIMEDOUT;
        else result = fly_once(lane, flight, deadline, &why);
    }
    hdi_fetch_sub_acq_rel(&runtime->io_waits, 1);
    return result == -ECANCELED || result == -EINTR ? why : result;
}

/* ---- what the scheduler calls ---- */

void hdi_lane_called(struct hdi_lane *lane)
{
    hdi_event_clear(lane->event);
    if (lane->worker != hdi_worker_self()) hdi_parker_restore(&lane->worker->parker);
}

void hdi_lane_sleep(void *lane, int64_t deadline_ns)
{
    ((struct hdi_lane *)lane)->kind->sleep(lane, deadline_ns);
}

bool hdi_lane_poll(struct hdi_worker *worker, struct hdi_lane *lane, bool look)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    if (lane->outbox) hdi_outbox_send(lane, &wakeups);
    lane->kind->poll(lane, look, &wakeups);
    hdi_find_submit_told(worker, wakeups.first);
    return wakeups.first != NULL;
}

void hdi_lane_send_overdue(struct hdi_lane *lane)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    if (lane->outbox) hdi_outbox_send_overdue(lane, &wakeups);
    hdi_wakeups_go(&wakeups);
}

void hdi_lane_stand_in(struct hdi_lane *lane)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    if (lane->outbox) hdi_outbox_stand_in(lane, &wakeups);
    lane->kind->stand_in(lane, &wakeups);
    hdi_wakeups_go(&wakeups);
}

/* keeps_lane() */
bool hdi_lane_by_others(const struct hdi_worker *worker)
{
    const struct hd_runtime *runtime = worker->exec.runtime;
    return worker == &runtime->main.workers[0] && may_be_ring(runtime) && hdi_lane_uring.prodded;
}

void hdi_lane_prodded(struct hdi_worker *worker)
{
    struct hdi_lane *lane = hdi_load_acquire(&worker->lane); /* W */
    if (lane && lane->kind->prodded) lane->kind->prodded(lane);
}

void hdi_lane_leave(struct hdi_worker *worker)
{
    struct hdi_lane *lane = hdi_load_acquire(&worker->lane); /* W */
    if (lane && lane->kind->leave) lane->kind->leave(lane);
}
