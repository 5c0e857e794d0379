/* SPDX-License-Identifier: MIT
 *
 * uring: a lane by io_uring: asking, and telling. The protocol is in uring.h.
 */
#include "io/uring.h"

#if HDI_URING && !HDI_MODEL

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/accepted.h"
#include "io/socket.h"
#include "os/clock.h"
#include "sched/prod.h"

enum {
    COMPLETIONS = 4096,
    HELD_MAX = 4,
    ACCEPTED_MAX = 16,
};

/* ---- asking ---- */

struct io_uring_sqe *hdi_uring_place(struct hdi_uring *lane)
{
    struct io_uring_sqe *sqe;
    while (!(sqe = io_uring_get_sqe(&lane->ring))) hdi_uring_hand_over(lane);
    return sqe;
}

void hdi_uring_told(struct hdi_uring *lane)
{
    if (!hdi_uring_is_own(lane)) hdi_parker_unpark(&lane->lane.worker->parker);
}

static bool collects(struct hdi_uring *lane)
{
    return hdi_load_acquire(&lane->collects); /* B */
}

/* The worker is to be woken by the set, too, from now on. Returns false if there is no descriptor
 * for it, or no memory. Context: lock. */
static bool begin_to_collect(struct hdi_uring *lane)
{
    if (collects(lane)) return true;
    struct hd_runtime *runtime = lane->lane.worker->exec.runtime;
    if (hdi_epoll_open(&lane->bulky, runtime, HDI_URING_TAKES) != 0) return false;
    hdi_store_release(&lane->collects, true); /* B */
    return true;
}

/* Put a connection into the set. Context: in.lock. Returns as above. */
static bool collect(struct hdi_uring *lane, struct hdi_source *source)
{
    if (!collects(lane)) {
        hdi_lock_take(&lane->lock);
        const bool can = begin_to_collect(lane);
        hdi_lock_give(&lane->lock);
        if (!can) return false;
        hdi_uring_told(lane);
    }
    source->collected = hdi_epoll_add(&lane->bulky, source->fd, HDI_EPOLL_IN | EPOLLET,
                                      hdi_source_handle(source)) == 0;
    return source->collected;
}

static int uring_arm(struct hdi_lane *base, struct hdi_source *source, struct hdi_side *side)
{
    struct hdi_uring *lane = (struct hdi_uring *)base;
    const hd_io handle = hdi_source_handle(source);
    const bool in = side == &source->in;
    if (in && source->bulky && collect(lane, source)) {
        source->ahead = false;
        return 0;
    }
    const bool ahead = in && source->fast && !source->bulky;
    if (in) source->ahead = ahead;
    hdi_lock_take(&lane->lock);
    struct io_uring_sqe *sqe = hdi_uring_place(lane);
    if (ahead && source->kind == HDI_SOURCE_LISTENER) {
        io_uring_prep_multishot_accept(sqe, source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        io_uring_sqe_set_data64(sqe, hdi_uring_name(handle, HDI_TAG_ACCEPT));
        source->stopping = false;
        hdi_uring_may_fail(lane, sqe, "ring_accept");
    } else if (ahead) {
        /* Not POLL_FIRST: with it Linux 6.18 never tells of a reset that lies behind data. */
        io_uring_prep_recv_multishot(sqe, source->fd, NULL, 0, 0);
        sqe->flags |= IOSQE_BUFFER_SELECT;
        sqe->buf_group = HDI_URING_GROUP;
        io_uring_sqe_set_data64(sqe, hdi_uring_name(handle, HDI_TAG_RECEIVE));
        source->stopping = false;
        hdi_uring_may_fail(lane, sqe, "ring_receive");
    } else {
        io_uring_prep_poll_multishot(sqe, source->fd, in ? POLLIN | POLLPRI | POLLRDHUP : POLLOUT);
        io_uring_sqe_set_data64(sqe, hdi_uring_name(handle, in ? HDI_TAG_IN : HDI_TAG_OUT));
        hdi_uring_may_fail(lane, sqe, "ring_poll");
    }
    source->asked_at = lane->ring.sq.sqe_tail;
    hdi_lock_give(&lane->lock);
    hdi_uring_told(lane);
    return 0;
}

/* Context: lock. */
static void cancel(struct hdi_uring *lane, uint64_t name)
{
    struct io_uring_sqe *sqe = hdi_uring_place(lane);
    io_uring_prep_cancel64(sqe, name, 0);
    io_uring_sqe_set_data64(sqe, HDI_TAG_DONE);
}

static uint64_t in_name(const struct hdi_source *source, hd_io handle)
{
    if (!source->ahead) return hdi_uring_name(handle, HDI_TAG_IN);
    const bool accepts = source->kind == HDI_SOURCE_LISTENER;
    return hdi_uring_name(handle, accepts ? HDI_TAG_ACCEPT : HDI_TAG_RECEIVE);
}

/* The handle is stale already, but by one only. A process that was forked has the ring in common
 * with its parent, whose alone it is. */
static void uring_unwatch(struct hdi_lane *base, struct hdi_source *source)
{
    struct hdi_uring *lane = (struct hdi_uring *)base;
    if (lane->outbox.pid != getpid()) return;
    hd_io handle = hdi_source_handle(source);
    handle.private_ -= UINT64_C(1) << 32;
    while (source->held > 0) hdi_uring_unlink_buffer(lane, source); /* Nobody else knows them, */
    if (source->taken) hdi_block_give(source->taken);               /* or this, */
    hdi_accepted_refuse(source);                                    /* or these. */
    if (source->collected) hdi_epoll_leave(&lane->bulky, source);
    const bool in = source->in.armed && !source->collected;
    const bool asked = in || source->out.armed || source->filed;
    if (lane->lane.left || (!asked && !source->taking)) return; /* URING-6 */
    hdi_lock_take(&lane->lock);
    if (in) cancel(lane, in_name(source, handle));
    if (source->out.armed) cancel(lane, hdi_uring_name(handle, HDI_TAG_OUT));
    hdi_uring_file_forget(lane, source, HDI_TAG_DONE);
    const unsigned count = lane->ring.sq.sqe_tail;
    const bool seen = hdi_uring_left(lane, count) <= count - source->asked_at;
    /* What is cancelled lets go of the file when the lane's worker next enters the kernel: too late
     * for the peer, who is to learn of the end, or for who listens at the same place next. A socket
     * is ended before; for what cannot be the worker is called. If others have the socket, too,
     * there is no end: the worker just comes soon. */
    const bool ends = source->fast && !hdi_load_relaxed(&source->shared); /* Given away before. */
    if (hdi_uring_is_own(lane) || !seen || !source->fast) hdi_uring_hand_over(lane); /* URING-2 */
    hdi_lock_give(&lane->lock);
    hdi_uring_told(lane);
    if (!hdi_uring_is_own(lane) && ends && asked) hdi_socket_end(source);
}

static uint64_t name_of_flight(const struct hdi_flight *flight)
{
    return (uint64_t)(uintptr_t)flight + HDI_TAG_FLIGHT;
}

static void uring_fly(struct hdi_lane *base, struct hdi_flight *flight)
{
    struct hdi_uring *lane = (struct hdi_uring *)base;
    hdi_lock_take(&lane->lock);
    hdi_uring_put_flight(lane, flight, name_of_flight(flight));
    hdi_lock_give(&lane->lock);
    hdi_uring_told(lane); /* The caller may have given way since it chose the lane. */
}

/* The next flight from the same memory, by this lane, is behind the cancel. */
static bool uring_recall(struct hdi_lane *base, struct hdi_flight *flight)
{
    struct hdi_uring *lane = (struct hdi_uring *)base;
    hdi_lock_take(&lane->lock);
    const uint64_t name = name_of_flight(flight);
    const bool lands = !hdi_uring_drop_flight(lane, flight, name, HDI_TAG_DONE);
    if (lands) cancel(lane, name);
    hdi_lock_give(&lane->lock);
    if (lands) hdi_uring_told(lane);
    return lands;
}

void hdi_uring_put_take(struct hdi_uring *lane, struct hdi_source *source, unsigned at)
{
    hdi_lock_take(&lane->lock);
    struct io_uring_sqe *sqe = hdi_uring_place(lane);
    io_uring_prep_recv(sqe, source->fd, lane->takes[at].block->bytes, HDI_BLOCK_BYTES,
                       MSG_DONTWAIT);
    io_uring_sqe_set_data64(sqe, (uint64_t)at << HDI_TAG_BITS | HDI_TAG_TAKE);
    source->asked_at = lane->ring.sq.sqe_tail;
    hdi_uring_may_fail(lane, sqe, "ring_take");
    hdi_uring_address(lane, source, sqe, hdi_uring_name(hdi_source_handle(source), HDI_TAG_FILE));
    hdi_lock_give(&lane->lock);
}

/* ---- news ---- */

static void tell_poll(const struct io_uring_cqe *cqe, bool out, struct hdi_wakeups *wakeups)
{
    const hd_io handle = hdi_uring_handle(cqe->user_data);
    struct hdi_source *source = hdi_source_of(handle); /* LANE-2 */
    if (!source) return;
    const bool unsure = cqe->res < 0 || (cqe->res & (POLLPRI | POLLRDHUP | POLLHUP | POLLERR));
    struct hdi_side *side = out ? &source->out : &source->in;
    hdi_lock_take(&side->waitable.lock);
    if (hdi_source_is(source, handle)) {
        if (!(cqe->flags & IORING_CQE_F_MORE)) side->armed = false;
        const bool goes_on = !out || hdi_outbox_goes_on(source);
        if (goes_on) hdi_side_tell(source, side, unsure && !out, wakeups);
    }
    hdi_lock_give(&side->waitable.lock);
}

/* What comes ahead is not taken. Context: in.lock. */
static void stop(struct hdi_uring *lane, struct hdi_source *source, uint64_t name)
{
    source->stopping = true;
    hdi_lock_take(&lane->lock);
    cancel(lane, name);
    hdi_lock_give(&lane->lock);
}

static uint16_t buffer_of(const struct io_uring_cqe *cqe)
{
    return (uint16_t)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);
}

/* It receives ahead no more, for reasons that say nothing of the connection. */
static bool only_stopped(int result)
{
    return result == -ENOBUFS || result == -ECANCELED || result == -EINTR || result == -EAGAIN;
}

/* Context: in.lock. The end, and errors, are told by the next system call: to have found one here
 * does not use it up, but for an error, which is kept. */
static void take_received(struct hdi_uring *lane, struct hdi_source *source,
                          const struct io_uring_cqe *cqe)
{
    const bool more = cqe->flags & IORING_CQE_F_MORE;
    if (cqe->res > 0) hdi_uring_link_buffer(lane, source, buffer_of(cqe), cqe->res);
    if (!more) source->in.armed = false;
    if (cqe->res < 0 && !only_stopped(cqe->res)) source->failed = cqe->res;
    /* Without a free buffer the kernel fails at once, though nothing has come: asked again, it
     * would do so for ever. */
    const bool much = cqe->res == HDI_URING_BUFFER_BYTES || cqe->res == -ENOBUFS;
    if (much) source->bulky = true;
    const bool enough = source->bulky || source->held >= HELD_MAX;
    if (more && enough && !source->stopping) stop(lane, source, cqe->user_data);
}

static void tell_received(struct hdi_uring *lane, const struct io_uring_cqe *cqe,
                          struct hdi_wakeups *wakeups)
{
    const hd_io handle = hdi_uring_handle(cqe->user_data);
    struct hdi_source *source = hdi_source_of(handle); /* LANE-2 */
    bool taken = false;
    if (source) {
        hdi_lock_take(&source->in.waitable.lock);
        taken = hdi_source_is(source, handle);
        if (taken) {
            const bool ended = cqe->res <= 0 && !only_stopped(cqe->res);
            take_received(lane, source, cqe);
            if (cqe->res <= 0 || !hdi_uring_lend_last(lane, source, wakeups)) {
                hdi_side_tell(source, &source->in, ended, wakeups);
            }
        }
        hdi_lock_give(&source->in.waitable.lock);
    }
    if ((taken && cqe->res > 0) || !(cqe->flags & IORING_CQE_F_BUFFER)) return;
    hdi_lock_take(&lane->lock); /* URING-3 */
    hdi_uring_give_buffer(lane, buffer_of(cqe));
    hdi_lock_give(&lane->lock);
}

/* Context: in.lock. Returns whether the connection was taken. */
static bool take_accepted(struct hdi_uring *lane, struct hdi_source *source,
                          const struct io_uring_cqe *cqe)
{
    const bool more = cqe->flags & IORING_CQE_F_MORE;
    const bool taken = cqe->res >= 0 && hdi_accepted_put(source, cqe->res);
    if (!more) source->in.armed = false;
    if (cqe->res < 0 && cqe->res != -ECANCELED && cqe->res != -EINTR) source->failed = cqe->res;
    const bool many = hdi_accepted_count(source) >= ACCEPTED_MAX;
    if (more && many && !source->stopping) stop(lane, source, cqe->user_data);
    return taken;
}

static void tell_accepted(struct hdi_uring *lane, const struct io_uring_cqe *cqe,
                          struct hdi_wakeups *wakeups)
{
    const hd_io handle = hdi_uring_handle(cqe->user_data);
    struct hdi_source *source = hdi_source_of(handle); /* LANE-2 */
    bool taken = false;
    if (source) {
        hdi_lock_take(&source->in.waitable.lock);
        if (hdi_source_is(source, handle)) {
            taken = take_accepted(lane, source, cqe);
            hdi_side_tell(source, &source->in, false, wakeups);
        }
        hdi_lock_give(&source->in.waitable.lock);
    }
    if (!taken && cqe->res >= 0) close(cqe->res);
}

/* Context: lock. */
static void arm_event(struct hdi_uring *lane)
{
    struct io_uring_sqe *sqe = hdi_uring_place(lane);
    io_uring_prep_poll_multishot(sqe, lane->lane.event, POLLIN);
    io_uring_sqe_set_data64(sqe, HDI_TAG_EVENT);
}

/* Once, for a sleep. Context: lock. */
static void arm_set(struct hdi_uring *lane)
{
    struct io_uring_sqe *sqe = hdi_uring_place(lane);
    io_uring_prep_poll_add(sqe, lane->bulky.fd, POLLIN);
    io_uring_sqe_set_data64(sqe, HDI_TAG_SET);
    lane->set_armed = true;
}

static void tell(struct hdi_uring *lane, const struct io_uring_cqe *cqe,
                 struct hdi_wakeups *wakeups)
{
    switch ((enum hdi_tag)(cqe->user_data & ((1 << HDI_TAG_BITS) - 1))) {
    case HDI_TAG_EVENT:
        hdi_lane_called(&lane->lane);
        if (cqe->flags & IORING_CQE_F_MORE) return;
        hdi_lock_take(&lane->lock);
        arm_event(lane);
        /* The worker may have gone to sleep meanwhile, and this is what would wake it. */
        if (!hdi_uring_is_own(lane)) hdi_uring_hand_over(lane);
        hdi_lock_give(&lane->lock);
        return;
    case HDI_TAG_IN: tell_poll(cqe, false, wakeups); return;
    case HDI_TAG_OUT: tell_poll(cqe, true, wakeups); return;
    case HDI_TAG_RECEIVE: tell_received(lane, cqe, wakeups); return;
    case HDI_TAG_ACCEPT: tell_accepted(lane, cqe, wakeups); return;
    case HDI_TAG_FLIGHT:
        hdi_flight_land((struct hdi_flight *)(uintptr_t)(cqe->user_data - HDI_TAG_FLIGHT), cqe->res,
                        wakeups);
        return;
    case HDI_TAG_SEND:
        hdi_outbox_fell_short(hdi_uring_handle(cqe->user_data), cqe->res, wakeups);
        return;
    case HDI_TAG_LINGER: hdi_outbox_lingered(hdi_uring_handle(cqe->user_data), cqe->res); return;
    case HDI_TAG_TAKE:
        hdi_uring_taken(lane, (unsigned)(cqe->user_data >> HDI_TAG_BITS), cqe->res, wakeups);
        return;
    case HDI_TAG_FILE:
        hdi_uring_file_told(lane, hdi_uring_handle(cqe->user_data), cqe->res);
        return;
    case HDI_TAG_SET:
        hdi_lock_take(&lane->lock);
        lane->set_armed = false;
        hdi_lock_give(&lane->lock);
        hdi_uring_told(lane); /* If it sleeps already, it does so without. */
        return;
    case HDI_TAG_DONE: return;
    }
}

/* Take some completions. Returns how many. */
static unsigned take_batch(struct hdi_uring *lane, struct io_uring_cqe *batch, unsigned most)
{
    struct io_uring_cq *cq = &lane->ring.cq;
    hdi_lock_take(&lane->lock);
    const unsigned head = *cq->khead, count = io_uring_smp_load_acquire(cq->ktail) - head;
    const unsigned n = count < most ? count : most;
    for (unsigned i = 0; i < n; i++) batch[i] = cq->cqes[(head + i) & cq->ring_mask];
    io_uring_cq_advance(&lane->ring, n);
    hdi_lock_give(&lane->lock);
    return n;
}

/* Tell all completions that are there. Those for which there was no place the kernel keeps until it
 * is entered again: hdi_uring_has_overflown(). Returns how many. Context: telling. */
static unsigned drain(struct hdi_uring *lane, struct hdi_wakeups *wakeups)
{
    enum { BATCH = 64 };
    struct io_uring_cqe batch[BATCH];
    unsigned count, all = 0;
    do {
        count = take_batch(lane, batch, BATCH);
        for (unsigned i = 0; i < count; i++) tell(lane, &batch[i], wakeups); /* LANE-1 */
        all += count;
    } while (count == BATCH);
    return all;
}

/* Without the lock: another may be taking them. */
static bool has_news(struct hdi_uring *lane)
{
    const struct io_uring_cq *cq = &lane->ring.cq;
    return io_uring_smp_load_acquire(cq->ktail) != io_uring_smp_load_acquire(cq->khead);
}

/* Tell what the ring has to say. Returns of how many completions. Context: no lock. */
static unsigned hear(struct hdi_uring *lane, struct hdi_wakeups *wakeups)
{
    if (!has_news(lane)) return 0;
    hdi_lock_take(&lane->telling);
    const unsigned count = drain(lane, wakeups);
    hdi_lock_give(&lane->telling);
    return count;
}

static void uring_carry_out(struct hdi_lane *base, struct hdi_wakeups *wakeups)
{
    struct hdi_uring *lane = (struct hdi_uring *)base;
    const unsigned tail = hdi_uring_publish(lane);
    lane->looked = hdi_uring_left(lane, tail) > 0;
    if (lane->looked) hdi_uring_enter(lane, tail);
    hdi_lock_take(&lane->telling); /* Another may have taken some, and not told them yet. */
    lane->heard += drain(lane, wakeups);
    while (hdi_uring_has_overflown(lane)) { /* What was carried out may be among those. */
        hdi_uring_look(lane);
        lane->heard += drain(lane, wakeups);
    }
    hdi_lock_give(&lane->telling);
}

/* Tell what the set has to say, but where the lane can receive before. */
static void tell_bulky(struct hdi_uring *lane, struct hdi_wakeups *wakeups)
{
    struct epoll_event *events = lane->bulky.events;
    const int fetched = hdi_epoll_fetch(&lane->bulky, true);
    unsigned takes = 0;
    int count = 0;
    lane->heard += (unsigned)fetched;
    for (int i = 0; i < fetched; i++) {
        if (hdi_uring_take(lane, &events[i], takes)) takes++;
        else events[count++] = events[i];
    }
    if (takes > 0) uring_carry_out(&lane->lane, wakeups);
    (void)hdi_epoll_tell(events, count, wakeups);
}

/* Whether so many tasks have run since the worker last came, beside those that were told then, that
 * others wait for this. */
static bool comes_rarely(struct hdi_uring *lane)
{
    enum { OFTEN = 64 };
    const struct hdi_worker *worker = lane->lane.worker;
    const uint64_t runs = hdi_load_relaxed(&worker->counters.polls); /* Its own. */
    const uint64_t since = runs - lane->runs;
    lane->runs = runs;
    return since >= lane->told + (worker->interval < OFTEN ? worker->interval : OFTEN);
}

/* What was carried out this moment has brought the news, too. Few are heard of at a time, as the
 * kernel has it: who comes for nothing else comes again soon. Who is busy with others hears of as
 * many as an epoll would tell. */
static void uring_poll(struct hdi_lane *base, bool look, struct hdi_wakeups *wakeups)
{
    enum { LOOKS = 16 };
    struct hdi_uring *lane = (struct hdi_uring *)base;
    const bool rarely = comes_rarely(lane) && look;
    if (collects(lane)) tell_bulky(lane, wakeups);
    if (look && !lane->looked) hdi_uring_look(lane);
    lane->looked = false;
    lane->heard += hear(lane, wakeups);
    for (int i = 0; rarely && i < LOOKS && hdi_uring_is_called(lane); i++) {
        hdi_uring_look(lane);
        lane->heard += hear(lane, wakeups);
    }
    lane->told = lane->heard;
    lane->heard = 0;
}

/* Who is prodded in vain, since it keeps the signal out, is looked at again. */
static void uring_stand_in(struct hdi_lane *base, struct hdi_wakeups *wakeups)
{
    struct hdi_uring *lane = (struct hdi_uring *)base;
    if (collects(lane)) (void)hdi_epoll_stand_in(&lane->bulky, wakeups);
    const unsigned tail = hdi_uring_publish(lane);
    const bool waits = hdi_uring_left(lane, tail) > 0 || hdi_uring_is_called(lane);
    if (waits) hdi_uring_prod(lane); /* URING-5 */
    (void)hear(lane, wakeups);
}

static void uring_sleep(struct hdi_lane *base, int64_t deadline_ns)
{
    struct hdi_uring *lane = (struct hdi_uring *)base;
    hdi_uring_enable_once(lane);
    hdi_lock_take(&lane->lock);
    if (collects(lane) && !lane->set_armed) arm_set(lane);
    hdi_lock_give(&lane->lock);
    const unsigned tail = hdi_uring_publish(lane);
    struct __kernel_timespec left = {0};
    struct io_uring_getevents_arg arg = {0};
    if (deadline_ns != INT64_MAX) {
        const int64_t left_ns = deadline_ns - hdi_clock_now();
        if (left_ns > 0) left = (struct __kernel_timespec){left_ns / 1000000000,
                                                           left_ns % 1000000000};
        arg.ts = (uint64_t)(uintptr_t)&left;
    }
    /* Whatever it says, the caller looks. */
    (void)hdi_uring_call(lane, io_uring_enter2, (unsigned)lane->ring.enter_ring_fd,
                         hdi_uring_left(lane, tail), 1,
                         IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, (sigset_t *)&arg,
                         sizeof(arg));
}

/* ---- making and ending ---- */

/* Wait until it is through, whatever signals this thread gets; -ENOENT: there was nothing. */
static void cancel_all(struct hdi_uring *lane)
{
    struct io_uring_sync_cancel_reg all = {.flags = IORING_ASYNC_CANCEL_ANY, .timeout = {1, 0}};
    int err;
    do err = hdi_uring_call(lane, io_uring_register_sync_cancel, &lane->ring, &all);
    while (err == -EINTR);
}

/* URING-6 */
static void uring_leave(struct hdi_lane *base)
{
    struct hdi_uring *lane = (struct hdi_uring *)base;
    struct hdi_wakeups none = HDI_WAKEUPS_INIT;
    hdi_uring_look(lane);
    base->left = true;
    if (!hdi_load_relaxed(&lane->enabled)) return; /* Its own. */
    cancel_all(lane);
    if (lane->files) (void)io_uring_unregister_files(&lane->ring); /* Or it knew none. */
    do {
        hdi_uring_look(lane);
        (void)hear(lane, &none);
    } while (hdi_uring_is_called(lane));
}

static void uring_destroy(struct hdi_lane *base)
{
    struct hdi_uring *lane = (struct hdi_uring *)base;
    if (collects(lane)) hdi_epoll_close(&lane->bulky);
    io_uring_queue_exit(&lane->ring);
    hdi_prod_uninstall();
    hdi_uring_files_fini(lane);
    hdi_spares_fini(&base->spares);
    hdi_outbox_fini(&lane->outbox);
    hdi_uring_buffers_fini(lane);
    free(lane);
}

/* The i-th submission is always at the i-th place (publish()). */
static void set_up_places(struct hdi_uring *lane)
{
    for (unsigned i = 0; i < lane->ring.sq.ring_entries; i++) lane->ring.sq.array[i] = i;
}

/* Whether the kernel knows all that is asked of it here: multishot receive is the newest. There is
 * no flag for it, but zero-copy send came with the same version. */
static bool is_new_enough(struct hdi_uring *lane)
{
    const bool fails = hdi_sys_fails(lane->lane.worker->exec.runtime, "io_uring_get_probe_ring");
    struct io_uring_probe *probe = fails ? NULL : io_uring_get_probe_ring(&lane->ring);
    const bool known = probe && io_uring_opcode_supported(probe, IORING_OP_SEND_ZC);
    io_uring_free_probe(probe);
    return known && (lane->ring.features & IORING_FEAT_EXT_ARG);
}

static struct hdi_lane *uring_create(struct hdi_worker *worker, int event, int *err)
{
    struct hdi_uring *lane = calloc(1, sizeof(*lane));
    if (!lane) {
        *err = -ENOMEM;
        return NULL;
    }
    lane->lane.kind = &hdi_lane_uring;
    lane->lane.worker = worker;
    lane->lane.event = event;
    lane->lane.outbox = &lane->outbox;
    struct io_uring_params params = {
        .flags = IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SINGLE_ISSUER | /* URING-5, */
                 IORING_SETUP_R_DISABLED | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_CQSIZE |
                 IORING_SETUP_SUBMIT_ALL, /* and those behind one that is wrong. */
        .cq_entries = COMPLETIONS,
    };
    *err = hdi_uring_call(lane, io_uring_queue_init_params, HDI_URING_SUBMISSIONS, &lane->ring,
                          &params);
    if (*err) {
        free(lane);
        return NULL;
    }
    hdi_prod_install();
    *err = is_new_enough(lane) ? hdi_uring_buffers_init(lane) : -ENOSYS;
    if (!*err) *err = hdi_outbox_init(&lane->outbox);
    if (*err) {
        uring_destroy(&lane->lane);
        return NULL;
    }
    hdi_uring_fault_init(lane);
    hdi_uring_files_init(lane);
    set_up_places(lane);
    arm_event(lane);
    if (hdi_uring_is_own(lane)) hdi_uring_enable(lane); /* The next task may be a long one. */
    return &lane->lane;
}

#else

static struct hdi_lane *uring_create(struct hdi_worker *worker, int event, int *err)
{
    (void)worker, (void)event;
    *err = -ENOSYS;
    return NULL;
}

#endif

const struct hdi_lane_kind hdi_lane_uring = {
    .name = "io_uring",
    .create = uring_create,
#if HDI_URING && !HDI_MODEL
    .destroy = uring_destroy,
    .arm = uring_arm,
    .unwatch = uring_unwatch,
    .receive = hdi_uring_receive,
    .lend = hdi_uring_lend,
    .lent = hdi_uring_lent_to,
    .take_back = hdi_uring_take_back,
    .fly = uring_fly,
    .recall = uring_recall,
    .put_sends = hdi_uring_put_sends,
    .put_linger = hdi_uring_put_linger,
    .carry_out = uring_carry_out,
    .sleep = uring_sleep,
    .poll = uring_poll,
    .stand_in = uring_stand_in,
    .prodded = hdi_uring_prodded,
    .leave = uring_leave,
#endif
};
