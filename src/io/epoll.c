/* SPDX-License-Identifier: MIT
 *
 * epoll: sets, and a lane by one: each source is added once, edge-triggered, for both directions.
 */
#include "io/epoll.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"

#define FAR_NS INT64_C(50000000) /* where that is less than any timer's slack */

/* ---- a set ---- */

int hdi_epoll_open(struct hdi_epoll *set, struct hd_runtime *runtime, int max)
{
    HDI_ASSERT(max <= HDI_EPOLL_MAX);
    set->runtime = runtime;
    set->max = max;
    set->fetched = 0;
    set->fd = hdi_live(runtime, epoll_create1, EPOLL_CLOEXEC);
    return set->fd < 0 ? set->fd : 0;
}

void hdi_epoll_close(struct hdi_epoll *set)
{
    close(set->fd);
}

int hdi_epoll_add(struct hdi_epoll *set, int fd, uint32_t events, hd_io handle)
{
    struct epoll_event event = {.events = events, .data.u64 = handle.private_};
    return hdi_live(set->runtime, epoll_ctl, set->fd, EPOLL_CTL_ADD, fd, &event);
}

/* A descriptor that is only ours leaves by being closed, if that is now: nobody becomes a user any
 * more. In a process that was forked it stays open, and what is told of it is stale (LANE-2); so it
 * is of one that will not be taken out. */
void hdi_epoll_leave(struct hdi_epoll *set, struct hdi_source *source)
{
    hdi_lock_take(&source->in.waitable.lock);
    const bool ours = !hdi_load_relaxed(&source->shared) && !source->borrowed;
    const bool closes = ours && source->users == 1;
    hdi_lock_give(&source->in.waitable.lock);
    if (!closes) (void)hdi_live(set->runtime, epoll_ctl, set->fd, EPOLL_CTL_DEL, source->fd, NULL);
}

/* For so long, in milliseconds, on kernels without epoll_pwait2(): rather a little late. */
static int rounded_up_ms(int64_t ns)
{
    const int64_t ms = ns / 1000000 + (ns % 1000000 > 0);
    return ms < INT32_MAX ? (int)ms : INT32_MAX;
}

static int wait_ms(struct hdi_epoll *set, int ms)
{
    return hdi_live(set->runtime, epoll_wait, set->fd, set->events, set->max, ms);
}

static int wait_until(struct hdi_epoll *set, int64_t deadline_ns)
{
    if (deadline_ns == INT64_MAX) return wait_ms(set, -1);
    int64_t left_ns = deadline_ns - hdi_clock_now();
    if (left_ns <= 0) return wait_ms(set, 0);
    /* The kernel adds up to half a percent here, and who wakes early sleeps again. */
    if (left_ns > FAR_NS) left_ns -= left_ns / 128;
    const struct timespec left = {.tv_sec = left_ns / 1000000000, .tv_nsec = left_ns % 1000000000};
    const int count = hdi_live(set->runtime, epoll_pwait2, set->fd, set->events, set->max, &left,
                               NULL);
    if (count >= 0 || count == -EINTR) return count;
    return wait_ms(set, rounded_up_ms(left_ns)); /* -ENOSYS; -EPERM: a sandbox that is older. */
}

void hdi_epoll_sleep(struct hdi_epoll *set, int64_t deadline_ns)
{
    HDI_ASSERT(set->fetched == 0);
    const int count = wait_until(set, deadline_ns);
    set->fetched = count > 0 ? count : 0;
}

static unsigned ready_of(uint32_t events)
{
    unsigned ready = 0;
    if (events & (EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) ready |= HDI_READY_IN;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) ready |= HDI_READY_OUT;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) ready |= HDI_READY_HUNG;
    if (events & EPOLLPRI) ready |= HDI_READY_URGENT;
    return ready;
}

bool hdi_epoll_tell(const struct epoll_event *events, int count, struct hdi_wakeups *wakeups)
{
    bool called = false;
    for (int i = 0; i < count; i++) {
        const hd_io handle = {events[i].data.u64};
        if (handle.private_ == 0) {
            called = true;
            continue;
        }
        struct hdi_source *source = hdi_source_of(handle); /* LANE-2 */
        if (source) hdi_source_ready(source, handle, ready_of(events[i].events), wakeups);
    }
    return called;
}

int hdi_epoll_fetch(struct hdi_epoll *set, bool look)
{
    if (set->fetched == 0 && look) {
        const int count = wait_ms(set, 0);
        set->fetched = count > 0 ? count : 0;
    }
    const int count = set->fetched;
    set->fetched = 0;
    return count;
}

bool hdi_epoll_stand_in(struct hdi_epoll *set, struct hdi_wakeups *wakeups)
{
    struct epoll_event events[64]; /* The set's own are its worker's. */
    const int count = hdi_live(set->runtime, epoll_wait, set->fd, events, 64, 0);
    return hdi_epoll_tell(events, count, wakeups);
}

/* ---- a lane of nothing else ---- */

struct epoll_lane {
    struct hdi_lane lane; /* first */
    struct hdi_epoll set;
};

struct hdi_epoll *hdi_epoll_of(struct hdi_lane *lane)
{
    return &((struct epoll_lane *)lane)->set;
}

static void epoll_destroy(struct hdi_lane *lane)
{
    hdi_epoll_close(hdi_epoll_of(lane));
    hdi_spares_fini(&lane->spares);
    free(lane);
}

static struct hdi_lane *epoll_create_lane(struct hdi_worker *worker, int event, int *err)
{
    struct epoll_lane *lane = calloc(1, sizeof(*lane));
    if (!lane) {
        *err = -ENOMEM;
        return NULL;
    }
    lane->lane.kind = &hdi_lane_epoll;
    *err = hdi_epoll_open(&lane->set, worker->exec.runtime, HDI_EPOLL_MAX);
    if (*err == 0) {
        *err = hdi_epoll_add(&lane->set, event, EPOLLIN, (hd_io){0});
        if (*err == 0) return &lane->lane;
        hdi_epoll_close(&lane->set);
    }
    free(lane);
    return NULL;
}

static int epoll_watch(struct hdi_lane *lane, struct hdi_source *source)
{
    const int err = hdi_epoll_add(hdi_epoll_of(lane), source->fd,
                                  HDI_EPOLL_IN | EPOLLOUT | EPOLLET, hdi_source_handle(source));
    return err == -EPERM ? -EOPNOTSUPP : err;
}

static void epoll_unwatch(struct hdi_lane *lane, struct hdi_source *source)
{
    hdi_epoll_leave(hdi_epoll_of(lane), source);
}

static void epoll_sleep(struct hdi_lane *lane, int64_t deadline_ns)
{
    hdi_epoll_sleep(hdi_epoll_of(lane), deadline_ns);
}

static void epoll_poll(struct hdi_lane *lane, bool look, struct hdi_wakeups *wakeups)
{
    struct hdi_epoll *set = hdi_epoll_of(lane);
    const int count = hdi_epoll_fetch(set, look);
    if (hdi_epoll_tell(set->events, count, wakeups)) hdi_lane_called(lane);
}

static void epoll_stand_in(struct hdi_lane *lane, struct hdi_wakeups *wakeups)
{
    if (hdi_epoll_stand_in(hdi_epoll_of(lane), wakeups)) hdi_lane_called(lane);
}

const struct hdi_lane_kind hdi_lane_epoll = {
    .name = "epoll",
    .create = epoll_create_lane,
    .destroy = epoll_destroy,
    .watch = epoll_watch,
    .unwatch = epoll_unwatch,
    .sleep = epoll_sleep,
    .poll = epoll_poll,
    .stand_in = epoll_stand_in,
};
