/* SPDX-License-Identifier: MIT
 *
 * epoll: a lane by epoll: each source is added once, edge-triggered, for both directions.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "io/lane.h"
#include "os/clock.h"

enum { EVENTS_MAX = 256 };

struct epoll_lane {
    struct hdi_lane lane; /* first */
    int fd;
    int fetched; /* by sleep(), and not told yet */
    struct epoll_event events[EVENTS_MAX];
};

static void epoll_destroy(struct hdi_lane *lane)
{
    close(((struct epoll_lane *)lane)->fd);
    free(lane);
}

static int add(int epoll_fd, int fd, uint32_t events, uint64_t handle)
{
    struct epoll_event event = {.events = events, .data.u64 = handle};
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* The event is the one with no handle. */
static struct hdi_lane *epoll_create_lane(int event, int *err)
{
    struct epoll_lane *lane = calloc(1, sizeof(*lane));
    if (!lane) {
        *err = -ENOMEM;
        return NULL;
    }
    lane->lane.kind = &hdi_lane_epoll;
    lane->fd = epoll_create1(EPOLL_CLOEXEC);
    *err = lane->fd < 0 ? -errno : add(lane->fd, event, EPOLLIN, 0);
    if (*err == 0) return &lane->lane;
    if (lane->fd >= 0) close(lane->fd);
    free(lane);
    return NULL;
}

static int epoll_watch(struct hdi_lane *lane, struct hdi_source *source)
{
    return add(((struct epoll_lane *)lane)->fd, source->fd,
               EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, hdi_source_handle(source).private_);
}

/* A descriptor that is only ours leaves by being closed, if that is now: nobody becomes a user any
 * more. */
static void epoll_unwatch(struct hdi_lane *lane, struct hdi_source *source)
{
    hdi_lock_take(&source->in.waitable.lock);
    const bool ours = !hdi_load_relaxed(&source->shared) && !source->borrowed;
    const bool closes = ours && source->users == 1;
    hdi_lock_give(&source->in.waitable.lock);
    if (closes) return;
    (void)epoll_ctl(((struct epoll_lane *)lane)->fd, EPOLL_CTL_DEL, source->fd, NULL);
}

int hdi_epoll_fd(const struct hdi_lane *lane)
{
    return ((const struct epoll_lane *)lane)->fd;
}

/* Level-triggered: until the timer is set anew. */
int hdi_epoll_add(struct hdi_lane *lane, int fd)
{
    return add(((struct epoll_lane *)lane)->fd, fd, EPOLLIN, 0);
}

/* ---- news ---- */

static unsigned ready_of(uint32_t events)
{
    unsigned ready = 0;
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) ready |= HDI_READY_IN;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) ready |= HDI_READY_OUT;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) ready |= HDI_READY_HUNG;
    return ready;
}

static void tell(struct hdi_lane *lane, const struct epoll_event *events, int count,
                 struct hdi_wakeups *wakeups)
{
    for (int i = 0; i < count; i++) {
        const hd_io handle = {events[i].data.u64};
        if (handle.private_ == 0) {
            hdi_lane_called(lane);
            continue;
        }
        struct hdi_source *source = hdi_source_of(handle); /* LANE-2 */
        if (source) hdi_source_ready(source, handle, ready_of(events[i].events), wakeups);
    }
}

/* For so long, in milliseconds, on kernels without epoll_pwait2(): rather a little late. */
static int rounded_up_ms(int64_t ns)
{
    const int64_t ms = ns / 1000000 + (ns % 1000000 > 0);
    return ms < INT32_MAX ? (int)ms : INT32_MAX;
}

static int wait_until(struct epoll_lane *lane, int64_t deadline_ns)
{
    if (deadline_ns == INT64_MAX) return epoll_wait(lane->fd, lane->events, EVENTS_MAX, -1);
    const int64_t left_ns = deadline_ns - hdi_clock_now();
    if (left_ns <= 0) return epoll_wait(lane->fd, lane->events, EVENTS_MAX, 0);
    const struct timespec left = {.tv_sec = left_ns / 1000000000, .tv_nsec = left_ns % 1000000000};
    const int count = epoll_pwait2(lane->fd, lane->events, EVENTS_MAX, &left, NULL);
    if (count >= 0 || errno != ENOSYS) return count;
    return epoll_wait(lane->fd, lane->events, EVENTS_MAX, rounded_up_ms(left_ns));
}

static void epoll_sleep(struct hdi_lane *base, int64_t deadline_ns)
{
    struct epoll_lane *lane = (struct epoll_lane *)base;
    HDI_ASSERT(lane->fetched == 0);
    const int count = wait_until(lane, deadline_ns);
    lane->fetched = count > 0 ? count : 0;
}

static void epoll_poll(struct hdi_lane *base, bool look, struct hdi_wakeups *wakeups)
{
    struct epoll_lane *lane = (struct epoll_lane *)base;
    if (lane->fetched == 0 && look) {
        const int count = epoll_wait(lane->fd, lane->events, EVENTS_MAX, 0);
        lane->fetched = count > 0 ? count : 0;
    }
    const int count = lane->fetched;
    lane->fetched = 0;
    tell(base, lane->events, count, wakeups);
}

static void epoll_stand_in(struct hdi_lane *base, bool stuck, struct hdi_wakeups *wakeups)
{
    (void)stuck;
    struct epoll_event events[64]; /* The lane's own are its worker's. */
    const int count = epoll_wait(((struct epoll_lane *)base)->fd, events, 64, 0);
    tell(base, events, count, wakeups);
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
