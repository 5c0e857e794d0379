/* SPDX-License-Identifier: MIT
 *
 * epoll: a set of descriptors that the kernel tells of: all of a lane's, or, beside a ring, those
 * that carry much (io/uring.h).
 *
 * Its worker sleeps in it, or, beside a ring, in that, and tells what there is; another thread may
 * look in its place.
 */
#ifndef HDI_IO_EPOLL_H
#define HDI_IO_EPOLL_H

#include <sys/epoll.h>

#include "io/lane.h"

enum { HDI_EPOLL_MAX = 256 };

#define HDI_EPOLL_IN (EPOLLIN | EPOLLPRI | EPOLLRDHUP) /* what is asked of who may be read from */

struct hdi_epoll {
    struct hd_runtime *runtime;
    int fd;
    int max; /* events that are fetched at once */
    int fetched; /* its worker's, as the next: by hdi_epoll_sleep(), and not told yet */
    struct epoll_event events[HDI_EPOLL_MAX];
};

/* Returns: 0, -EMFILE, -ENFILE, -ENOMEM. */
int hdi_epoll_open(struct hdi_epoll *set, struct hd_runtime *runtime, int max);
void hdi_epoll_close(struct hdi_epoll *set);

/* Handle 0: of no source, but a call. Returns: 0, -ENOMEM, -ENOSPC. */
int hdi_epoll_add(struct hdi_epoll *set, int fd, uint32_t events, hd_io handle);

/* Its handle is closed. Context: no lock. */
void hdi_epoll_leave(struct hdi_epoll *set, struct hdi_source *source);

/* Context: its worker. Returns early if the kernel says anything but what it is asked for. */
void hdi_epoll_sleep(struct hdi_epoll *set, int64_t deadline_ns);

/* What that brought, or, if it was nothing and `look`, what there is: the first of set->events,
 * which are to be told. Context: its worker. Returns how many. */
int hdi_epoll_fetch(struct hdi_epoll *set, bool look);

/* Tell some. Context: no lock. Returns whether the set was called. */
bool hdi_epoll_tell(const struct epoll_event *events, int count, struct hdi_wakeups *wakeups);

/* Tell what there is. Context: any thread, no lock. Returns as above. */
bool hdi_epoll_stand_in(struct hdi_epoll *set, struct hdi_wakeups *wakeups);

/* The set of a lane by epoll. */
struct hdi_epoll *hdi_epoll_of(struct hdi_lane *lane);

#endif
