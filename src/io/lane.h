/* SPDX-License-Identifier: MIT
 *
 * lane: where one worker asks the kernel, and sleeps until there is an answer.
 *
 * Each worker of the default dispatcher has one from its first need on, by io_uring or by epoll;
 * who is no such worker uses the first worker's. A worker with a lane parks in it
 * (hdi_parker_park_in), so the kernel's news of what a worker began wakes that one, and no other.
 * While it runs tasks it looks every `interval` runs (sched/worker.h); while it is in one task for
 * long, the monitor looks in its place, and leaves the event to it that wakes it.
 *
 *   LANE-1  Nothing is told to a source with a lock of a lane held: sources are locked before
 *           lanes.
 *   LANE-2  What the kernel says names a handle, and is passed over if that is stale by now.
 *
 * Rejected
 *   One epoll for all workers, where the one that sleeps hears everything: every piece of news
 *   crosses from thread to thread, and with io_uring, which works for the thread that submitted,
 *   twice.
 */
#ifndef HDI_IO_LANE_H
#define HDI_IO_LANE_H

#include "io/loan.h"

struct hdi_lane;

/* A call that the kernel makes with memory of the caller, a fiber, who waits until it is over: on
 * the caller's stack.
 *
 *   FLIGHT-1  Who lands it holds the lock throughout; the caller takes it once more before it
 *             returns, so that nobody is inside any more.
 *   FLIGHT-2  A caller who is cancelled or late, or whose handle is closed, recalls it. What the
 *             kernel was not shown yet, under the lane's lock, never happens, and nobody lands it.
 *             All else is cancelled in the kernel and still waited for, since the memory is the
 *             kernel's until it lands. If that is with -ECANCELED or -EINTR, nothing was done; else
 *             its result is the caller's. */
enum hdi_flight_kind { HDI_FLIGHT_READ, HDI_FLIGHT_WRITE, HDI_FLIGHT_SYNC, HDI_FLIGHT_DATA_SYNC };

struct hdi_flight {
    alignas(16) struct hdi_waitable waitable; /* first */
    struct hdi_list waiters;
    bool landed;
    int result;
    enum hdi_flight_kind kind;
    int fd;
    const struct iovec *parts;
    unsigned count;
    uint64_t offset;
    const hd_case *stop; /* what else the caller recalls it for (hdi_wait_unless); NULL: nothing */
    unsigned place; /* the lane's: its submission */
};

enum { HDI_SENDS_MAX = 64 }; /* at once */

/* What is to be sent, of a handle that may be closed by now. */
struct hdi_send {
    hd_io handle;
    struct hdi_source *source;
    struct iovec unsent;
};

/* What the two kinds have of their own. */
struct hdi_lane_kind {
    const char *name;
    /* For a worker, who has this event. Returns NULL if the kernel has no such thing, or not for
     * us. */
    struct hdi_lane *(*create)(struct hdi_worker *worker, int event, int *err);
    void (*destroy)(struct hdi_lane *lane);
    /* Both sides at once, for good; or, each time somebody waits and `armed` is false, one side.
     * -EOPNOTSUPP: it is one of those that never wait. */
    int (*watch)(struct hdi_lane *lane, struct hdi_source *source);
    int (*arm)(struct hdi_lane *lane, struct hdi_source *source, struct hdi_side *side);
    void (*unwatch)(struct hdi_lane *lane, struct hdi_source *source);
    /* What the kernel has received already for a `fast` source. Context: in.lock. Returns: how many
     * bytes; -EAGAIN: none. NULL: never any. */
    ssize_t (*receive)(struct hdi_lane *lane, struct hdi_source *source,
                       const struct iovec *parts, int count);
    /* The same by lending the first buffer (hdi_lane_lend), which comes back from any thread. */
    ssize_t (*lend)(struct hdi_lane *lane, struct hdi_source *source, struct hdi_loan *loan,
                    char **bytes);
    /* What it lent to a reader that waited (hdi_source_lend): all of *loan, so many bytes. */
    ssize_t (*lent)(struct hdi_lane *lane, uint32_t what, struct hdi_loan *loan);
    void (*take_back)(struct hdi_lane *lane, const struct hdi_loan *loans, unsigned count);
    /* Have the kernel make a call. NULL: it cannot. */
    void (*fly)(struct hdi_lane *lane, struct hdi_flight *flight);
    /* FLIGHT-2. Returns whether it will land. */
    bool (*recall)(struct hdi_lane *lane, struct hdi_flight *flight);
    /* For lanes with an outbox: prepare to send what flies (OUT-2), if there is room at once.
     * None is sent, nor told of, before all are prepared. Context: no lock. Or something, until
     * then. Context: out.lock. */
    void (*put_sends)(struct hdi_lane *lane, const struct hdi_send *sends, unsigned count);
    void (*put_linger)(struct hdi_lane *lane, struct hdi_source *source, struct iovec unsent);
    /* Do what was prepared, and tell all that came of it. Context: no lock. */
    void (*carry_out)(struct hdi_lane *lane, struct hdi_wakeups *wakeups);
    void (*sleep)(struct hdi_lane *lane, int64_t deadline_ns);
    /* Take the news that sleep() brought, and, if `look`, what else there is. */
    void (*poll)(struct hdi_lane *lane, bool look, struct hdi_wakeups *wakeups);
    /* In place of a worker that is in a task for long. Context: the monitor, no lock. */
    void (*stand_in)(struct hdi_lane *lane, struct hdi_wakeups *wakeups);
    /* Enter the kernel. Context: the worker, in a signal handler. NULL: there is no need. */
    void (*prodded)(struct hdi_lane *lane);
    /* Nothing is asked of the kernel any more, and what was, ends. Context: the worker, which ends.
     * NULL: there is no need. */
    void (*leave)(struct hdi_lane *lane);
};

extern const struct hdi_lane_kind hdi_lane_epoll;
extern const struct hdi_lane_kind hdi_lane_uring;

struct hdi_lane {
    const struct hdi_lane_kind *kind;
    struct hdi_worker *worker;
    int event; /* the parker's */
    struct hdi_outbox *outbox; /* what is sent later; NULL: nothing is */
    struct hdi_spares spares;
    bool fails; /* what it asks of the kernel can be made to fail (os/sys.h) */
    bool left;  /* its worker has ended; then the thread's that ends the runtime */
};

/* Whether it does what its worker's tasks could do by system calls: not where calls are to fail,
 * and its own do not. */
static inline bool hdi_lane_may_act(const struct hdi_lane *lane)
{
    return !hdi_sys_fault || lane->fails;
}

/* The lane in which the kernel makes calls for the running fiber; NULL: none, or not from here; or
 * calls are to fail (os/sys.h). */
struct hdi_lane *hdi_lane_for_flights(struct hd_runtime *runtime);

/* Have the kernel make the call, and wait for it. Returns what it did; -ECANCELED, -ETIMEDOUT: it
 * did nothing. Context: fiber. */
ssize_t hdi_lane_fly(struct hdi_lane *lane, struct hdi_flight *flight, int64_t deadline);

/* It is over. Context: no lock. */
void hdi_flight_land(struct hdi_flight *flight, int result, struct hdi_wakeups *wakeups);

/* The lane's event was raised: for its worker, whoever hears it. */
void hdi_lane_called(struct hdi_lane *lane);

/* The lane of the calling worker, or the first worker's; made if there is none. Returns NULL, and
 * *err. */
struct hdi_lane *hdi_lane_here(struct hd_runtime *runtime, int *err);

#endif
