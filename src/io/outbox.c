/* SPDX-License-Identifier: MIT
 *
 * outbox: leaving bytes to be sent, and sending them. The protocol is in outbox.h.
 */
#include "io/outbox.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mutant.h"
#include "os/clock.h"
#include "os/memory.h"

#define SECOND_NS INT64_C(1000000000)

enum { BATCH = HDI_SENDS_MAX, MEMORY_BYTES = HDI_OUTBOX_BUFFERS * HDI_OUTBOX_BYTES };

static _Atomic(unsigned) live_count; /* outboxes of the process, and of those it was forked from */

int hdi_outbox_init(struct hdi_outbox *outbox)
{
    outbox->memory = hdi_memory_map(MEMORY_BYTES);
    if (!outbox->memory) return -ENOMEM;
    outbox->free_count = HDI_OUTBOX_BUFFERS;
    for (unsigned i = 0; i < HDI_OUTBOX_BUFFERS; i++) outbox->free[i] = (uint16_t)i;
    outbox->pid = getpid();
    hdi_fetch_add_acq_rel(&live_count, 1); /* X -> X */
    return 0;
}

void hdi_outbox_fini(struct hdi_outbox *outbox)
{
    if (!outbox->memory) return;
    hdi_fetch_sub_acq_rel(&live_count, 1); /* X */
    hdi_memory_unmap(outbox->memory, MEMORY_BYTES);
}

/* A program that calls exit() has its runtimes neither ended nor looked at any more. */
__attribute__((destructor)) static void send_at_exit(void)
{
    if (hdi_load_acquire(&live_count) > 0) hdi_sources_flush(); /* X <- X */
}

bool hdi_lane_is_ours(const struct hdi_source *source)
{
    const struct hdi_lane *lane = hdi_load_acquire(&source->lane); /* V */
    return lane && lane->outbox && lane->outbox->pid == getpid();
}

/* ---- buffers; context of all: out.lock ---- */

static struct hdi_outbox *outbox_of(const struct hdi_source *source)
{
    return hdi_load_acquire(&source->lane)->outbox; /* V: it is watched. */
}

static char *bytes_of(const struct hdi_source *source)
{
    if (source->unsent_loan.base) return source->unsent_loan.base;
    return outbox_of(source)->memory + (size_t)source->unsent * HDI_OUTBOX_BYTES;
}

static struct iovec unsent_of(const struct hdi_source *source)
{
    return (struct iovec){bytes_of(source) + source->unsent_start,
                          (size_t)(source->unsent_end - source->unsent_start)};
}

static hd_io *place_at(struct hdi_outbox *outbox, unsigned at)
{
    return &outbox->queued[at % HDI_OUTBOX_BUFFERS];
}

/* Queue the handle, if it is not. Returns false if there is no room. Context: the worker. */
static bool queue(struct hdi_outbox *outbox, struct hdi_source *source)
{
    if (source->queued) return true;
    const unsigned end = hdi_load_relaxed(&outbox->end); /* Its own. */
    const unsigned start = hdi_load_acquire(&outbox->start); /* S <- S */
    if (end - start == HDI_OUTBOX_BUFFERS) return false;
    hd_io *place = place_at(outbox, end);
    if (HDI_MUTANT(outbox_end_early)) hdi_store_release(&outbox->end, end + 1);
    hdi_plain_write(place);
    *place = hdi_source_handle(source);
    hdi_store_release(&outbox->end, end + 1); /* E -> E */
    source->queued = true;
    return true;
}

/* Take a buffer, and queue the handle. Returns false if there is no room. */
static bool take_buffer(struct hdi_outbox *outbox, struct hdi_source *source)
{
    hdi_lock_take(&outbox->lock);
    const bool room = outbox->free_count > 0 && queue(outbox, source);
    if (room) source->unsent = outbox->free[--outbox->free_count];
    hdi_lock_give(&outbox->lock);
    return room;
}

/* The same with a buffer that was lent. */
static bool take_loan(struct hdi_outbox *outbox, struct hdi_source *source, struct hdi_loan loan)
{
    const unsigned loans = hdi_load_relaxed(&outbox->loans); /* Its own. */
    const unsigned ended = hdi_load_relaxed(&outbox->loans_ended); /* Some more may have. */
    if (loans - ended == HDI_OUTBOX_BUFFERS || !queue(outbox, source)) return false;
    hdi_store_relaxed(&outbox->loans, loans + 1);
    source->unsent_loan = loan;
    return true;
}

/* Give the buffer back. Returns the loan that it was, which is the caller's to end. */
static struct hdi_loan give_buffer(struct hdi_source *source)
{
    const struct hdi_loan loan = source->unsent_loan;
    source->unsent_loan = (struct hdi_loan){0};
    if (loan.base) return loan;
    struct hdi_outbox *outbox = outbox_of(source);
    hdi_lock_take(&outbox->lock);
    outbox->free[outbox->free_count++] = source->unsent;
    hdi_lock_give(&outbox->lock);
    return loan;
}

/* These are not sent from any more: they were given back by sources of the lane. */
static void end_loans(struct hdi_lane *lane, struct hdi_loan *loans, unsigned count)
{
    struct hdi_outbox *outbox = lane->outbox;
    if (count == 0) return;
    hdi_lock_take(&outbox->lock);
    const unsigned ended = hdi_load_relaxed(&outbox->loans_ended) + count; /* Under the lock. */
    hdi_store_relaxed(&outbox->loans_ended, HDI_MUTANT(outbox_loan_lost) ? ended - 1 : ended);
    hdi_lock_give(&outbox->lock);
    hdi_loans_end(loans, count);
}

/* Bytes of which the writer was told that they are sent are lost, whatever the reason (OUT-4). */
static void fail(struct hdi_source *source, int err)
{
    source->unsent_failed = err;
    if (err != -EPIPE) hdi_store_relaxed(&source->reset, true); /* A flag by itself. */
    (void)hdi_sys(source->runtime, shutdown, source->fd, SHUT_RDWR);
}

/* Nothing is left, of which `err` says the end. Returns as give_buffer(). */
static struct hdi_loan end_sending(struct hdi_source *source, int err)
{
    const struct hdi_loan loan = give_buffer(source);
    source->sending = HDI_UNSENT_NONE;
    if (err) fail(source, err);
    else if (source->shut_after) (void)hdi_sys(source->runtime, shutdown, source->fd, SHUT_WR);
    source->shut_after = false;
    return loan;
}

static void settle(struct hdi_source *source, int err)
{
    struct hdi_loan loan = end_sending(source, err);
    if (loan.base) end_loans(hdi_load_acquire(&source->lane), &loan, 1); /* V: it is watched. */
}

/* Send by system calls. Returns: 0: there is nothing left, be it for an error; -EAGAIN. */
static int send_now(struct hdi_source *source)
{
    ssize_t n = 0;
    while (n >= 0 && source->unsent_start < source->unsent_end) {
        struct iovec rest = unsent_of(source);
        const struct msghdr message = {.msg_iov = &rest, .msg_iovlen = 1};
        n = hdi_sys(source->runtime, sendmsg, source->fd, &message, 0);
        if (n > 0) source->unsent_start += (uint16_t)n;
    }
    if (n == -EAGAIN) return -EAGAIN;
    settle(source, n < 0 ? (int)n : 0);
    return 0;
}

/* ---- writing ---- */

/* The outbox that takes what the caller writes; NULL. */
static struct hdi_outbox *outbox_here(const struct hdi_source *source)
{
    const struct hdi_lane *lane = hdi_load_acquire(&source->lane); /* V */
    if (!lane || lane->worker != hdi_worker_self() || !hdi_lane_may_act(lane)) return NULL;
    return lane->outbox;
}

/* Whether it will be sent at once, and nobody else writes there (OUT-5). */
static bool is_likely(struct hdi_source *source)
{
    return !source->full && !hdi_load_relaxed(&source->direct);
}

static void append(struct hdi_source *source, const struct iovec *parts, int count)
{
    char *to = bytes_of(source) + source->unsent_end;
    for (int i = 0; i < count; i++) {
        if (parts[i].iov_len > 0) memcpy(to, parts[i].iov_base, parts[i].iov_len);
        to += parts[i].iov_len;
    }
    source->unsent_end = (uint16_t)(to - bytes_of(source));
}

/* What stands before the next write. Returns: 0: nothing, any more. */
static int clear_way(struct hdi_source *source)
{
    if (source->sending == HDI_UNSENT_FLYING) return -EAGAIN;
    if (source->sending != HDI_UNSENT_NONE && send_now(source) == -EAGAIN) return -EAGAIN;
    const int err = source->unsent_failed;
    source->unsent_failed = 0; /* OUT-4 */
    return err;
}

ssize_t hdi_lane_send(struct hdi_source *source, const struct iovec *parts, int count,
                      size_t bytes)
{
    if (source->shut_after) return -EPIPE;
    const bool append_it = source->sending == HDI_UNSENT_QUEUED && !source->unsent_loan.base;
    const size_t used = append_it ? source->unsent_end : 0;
    const bool little = bytes > 0 && bytes <= HDI_OUTBOX_BYTES - used;
    struct hdi_outbox *outbox = little && is_likely(source) ? outbox_here(source) : NULL;
    if (!append_it || !outbox) {
        const int err = clear_way(source);
        if (err) return err;
        if (!outbox || !take_buffer(outbox, source)) return -ENODATA;
        source->unsent_start = source->unsent_end = 0;
        source->sending = HDI_UNSENT_QUEUED;
    }
    append(source, parts, count);
    return (ssize_t)bytes;
}

/* Whether its buffer will be there for as long as the outbox. */
static bool is_kept_long_enough(const struct hdi_source *source, const struct hdi_outbox *outbox,
                                struct hdi_loan loan)
{
    if (loan.ring) return loan.ring->outbox == outbox;
    const struct hdi_lane *home = hdi_block_of(loan.base)->home;
    return !home || home->worker->exec.runtime == source->runtime;
}

/* What stands before it is seen to by who writes. */
bool hdi_lane_send_loan(struct hdi_source *source, struct hdi_loan loan, const char *bytes,
                        size_t count)
{
    const bool clear = source->sending == HDI_UNSENT_NONE && !source->unsent_failed;
    if (!clear || source->shut_after || count == 0 || !is_likely(source)) return false;
    struct hdi_outbox *outbox = outbox_here(source);
    if (!outbox || !is_kept_long_enough(source, outbox, loan)) return false;
    if (!take_loan(outbox, source, loan)) return false;
    source->unsent_start = (uint16_t)(bytes - loan.base);
    source->unsent_end = (uint16_t)(source->unsent_start + count);
    source->sending = HDI_UNSENT_QUEUED;
    return true;
}

static void wait_for_room(struct hdi_source *source)
{
    source->sending = HDI_UNSENT_STUCK;
    source->full = true;
    (void)hdi_side_watch(source, &source->out); /* It is watched: that cannot fail. */
}

void hdi_lane_flush(struct hdi_source *source)
{
    const bool left = source->sending == HDI_UNSENT_QUEUED || source->sending == HDI_UNSENT_STUCK;
    if (left && send_now(source) == -EAGAIN) wait_for_room(source);
}

int hdi_lane_shut(struct hdi_source *source, int how)
{
    hdi_lane_flush(source);
    const int err = source->unsent_failed;
    source->unsent_failed = 0;                /* OUT-4 */
    hdi_store_relaxed(&source->direct, true); /* Under the lock. */
    if (source->sending == HDI_UNSENT_NONE) {
        const int result = hdi_sys(source->runtime, shutdown, source->fd, how);
        return err ? err : result;
    }
    source->shut_after = true;
    /* Who reads need not wait for that. */
    if (how == SHUT_RDWR) (void)hdi_sys(source->runtime, shutdown, source->fd, SHUT_RD);
    return err;
}

/* ---- sending ---- */

/* A guess, but for the worker's own. */
static unsigned queued_count(struct hdi_outbox *outbox)
{
    return hdi_load_relaxed(&outbox->end) - hdi_load_relaxed(&outbox->start);
}

/* Take some handles out of the queue. Returns how many. */
static unsigned take_queued(struct hdi_outbox *outbox, hd_io *batch)
{
    if (queued_count(outbox) == 0) return 0; /* A worker sees its own. */
    hdi_lock_take(&outbox->lock);
    const unsigned start = hdi_load_relaxed(&outbox->start); /* Under the lock. */
    const unsigned count = hdi_load_acquire(&outbox->end) - start; /* E <- E */
    const unsigned n = count < BATCH ? count : BATCH;
    if (HDI_MUTANT(outbox_start_early)) hdi_store_release(&outbox->start, start + n);
    for (unsigned i = 0; i < n; i++) {
        hdi_plain_read(place_at(outbox, start + i));
        batch[i] = *place_at(outbox, start + i);
    }
    hdi_store_release(&outbox->start, start + n); /* S -> S */
    hdi_store_relaxed(&outbox->rounds, hdi_load_relaxed(&outbox->rounds) + 1);
    hdi_lock_give(&outbox->lock);
    return n;
}

/* Lock the out side of one that stood in the queue, and is open. Returns NULL if it is not. */
static struct hdi_source *lock_queued(hd_io handle)
{
    struct hdi_source *source = hdi_source_of(handle); /* LANE-2 */
    if (!source) return NULL;
    hdi_lock_take(&source->out.waitable.lock);
    if (!hdi_source_is(source, handle)) {
        hdi_lock_give(&source->out.waitable.lock);
        return NULL;
    }
    if (!HDI_MUTANT(outbox_queued_kept)) source->queued = false;
    return source;
}

static void unlock(struct hdi_source *source)
{
    hdi_lock_give(&source->out.waitable.lock);
}

/* Writers may go on. */
static void tell(struct hdi_source *source, struct hdi_wakeups *wakeups)
{
    if (!hdi_list_empty(&source->out.waiters)) hdi_side_tell(source, &source->out, false, wakeups);
    source->out.ready = true;
}

void hdi_outbox_stand_in(struct hdi_lane *lane, struct hdi_wakeups *wakeups)
{
    hd_io batch[BATCH];
    for (unsigned n; (n = take_queued(lane->outbox, batch)) > 0;) {
        for (unsigned i = 0; i < n; i++) {
            struct hdi_source *source = lock_queued(batch[i]);
            if (!source) continue;
            hdi_lane_flush(source);
            if (source->sending == HDI_UNSENT_NONE) tell(source, wakeups);
            unlock(source);
        }
    }
}

void hdi_outbox_send_overdue(struct hdi_lane *lane, struct hdi_wakeups *wakeups)
{
    struct hdi_outbox *outbox = lane->outbox;
    const unsigned rounds = hdi_load_relaxed(&outbox->rounds); /* Guesses do, both of them. */
    const bool same = rounds == outbox->rounds_seen && queued_count(outbox) > 0;
    outbox->rounds_seen = rounds;
    if (same) hdi_outbox_stand_in(lane, wakeups);
}

/* Whether it is still what took off: a closed one may have ended, and be another by now. */
static bool is_flying(struct hdi_source *source, hd_io handle)
{
    const hd_io now = hdi_source_handle(source);
    const uint64_t closed = source->closing ? UINT64_C(1) << 32 : 0;
    return source->sending == HDI_UNSENT_FLYING && now.private_ - closed == handle.private_;
}

/* It was sent, unless the kernel said otherwise. Returns as give_buffer(). */
static struct hdi_loan land(const struct hdi_send *send, struct hdi_wakeups *wakeups)
{
    struct hdi_source *source = send->source;
    struct hdi_loan loan = {0};
    hdi_lock_take(&source->out.waitable.lock);
    const bool flies = is_flying(source, send->handle), closing = source->closing;
    const bool sent = flies || HDI_MUTANT(outbox_land_blind);
    if (sent) loan = end_sending(source, 0);
    if (sent && !closing) tell(source, wakeups);
    unlock(source);
    if (sent && closing) hdi_source_finish(source);
    return loan;
}

/* Returns whether it has taken off. */
static bool take_off(hd_io handle, struct hdi_send *send)
{
    struct hdi_source *source = lock_queued(handle);
    if (!source) return false;
    const bool flies = source->sending == HDI_UNSENT_QUEUED;
    if (flies) {
        source->sending = HDI_UNSENT_FLYING;
        *send = (struct hdi_send){handle, source, unsent_of(source)};
    }
    unlock(source);
    return flies;
}

/* Send these. */
static void send_batch(struct hdi_lane *lane, const hd_io *batch, unsigned n,
                       struct hdi_wakeups *wakeups)
{
    struct hdi_send sends[BATCH];
    struct hdi_loan loans[BATCH];
    unsigned count = 0, loan_count = 0;
    for (unsigned i = 0; i < n; i++) count += take_off(batch[i], &sends[count]);
    if (count == 0) return;
    lane->kind->put_sends(lane, sends, count);
    lane->kind->carry_out(lane, wakeups); /* OUT-3 */
    for (unsigned i = 0; i < count; i++) {
        loans[loan_count] = land(&sends[i], wakeups);
        loan_count += loans[loan_count].base != NULL;
    }
    end_loans(lane, loans, loan_count);
}

void hdi_outbox_send(struct hdi_lane *lane, struct hdi_wakeups *wakeups)
{
    hd_io batch[BATCH];
    for (unsigned n; (n = take_queued(lane->outbox, batch)) > 0;) {
        send_batch(lane, batch, n, wakeups);
    }
}

/* ---- what the kernel did not take ---- */

/* Whether it says nothing of the connection. */
static bool is_passing(int result)
{
    return result >= 0 || result == -EAGAIN || result == -ECANCELED || result == -EINTR;
}

/* Nor this: a system call is next, and may find the memory. */
static bool is_shortage(int result)
{
    return result == -ENOMEM || result == -ENOBUFS;
}

/* Have the kernel wait for room, and send; once the lane's worker has ended, who ends the runtime
 * does (hdi_lane_linger()). Context: out.lock. */
static void linger(struct hdi_source *source)
{
    struct hdi_lane *lane = hdi_load_acquire(&source->lane); /* V */
    source->sending = HDI_UNSENT_LINGERING;
    if (!lane->left) lane->kind->put_linger(lane, source, unsent_of(source));
}

static void begin_to_linger(struct hdi_source *source)
{
    const int64_t until_ns = hdi_clock_now() + HDI_LINGER_NS;
    source->linger_until = (struct timespec){until_ns / SECOND_NS, until_ns % SECOND_NS};
    linger(source);
}

void hdi_outbox_fell_short(hd_io handle, int result, struct hdi_wakeups *wakeups)
{
    struct hdi_source *source = hdi_source_slot(handle);
    hdi_lock_take(&source->out.waitable.lock);
    HDI_ASSERT(source->sending == HDI_UNSENT_FLYING); /* OUT-2 */
    const bool closing = source->closing;
    if (result > 0) source->unsent_start += (uint16_t)result;
    if (!is_passing(result) && !is_shortage(result)) {
        settle(source, result);
        if (!closing) tell(source, wakeups);
    } else if (closing) {
        begin_to_linger(source);
    } else {
        wait_for_room(source);
    }
    const bool over = source->sending == HDI_UNSENT_NONE;
    unlock(source);
    if (over && closing) hdi_source_finish(source);
}

bool hdi_outbox_goes_on(struct hdi_source *source)
{
    if (source->sending != HDI_UNSENT_STUCK) return true;
    if (send_now(source) == 0) return true;
    wait_for_room(source);
    return false;
}

bool hdi_lane_close(struct hdi_source *source)
{
    if (source->sending == HDI_UNSENT_NONE || HDI_MUTANT(outbox_close_flying)) return true;
    if (!hdi_lane_is_ours(source)) return true;
    if (source->sending != HDI_UNSENT_FLYING) {
        if (send_now(source) == 0) return true;
        begin_to_linger(source);
    }
    source->closing = true;
    return false;
}

void hdi_outbox_lingered(hd_io handle, int result)
{
    struct hdi_source *source = hdi_source_slot(handle);
    hdi_lock_take(&source->out.waitable.lock);
    HDI_ASSERT(source->sending == HDI_UNSENT_LINGERING); /* OUT-2 */
    if (result > 0) source->unsent_start += (uint16_t)result;
    const int64_t until_ns = source->linger_until.tv_sec * SECOND_NS + source->linger_until.tv_nsec;
    const bool more = source->unsent_start < source->unsent_end && is_passing(result) &&
                      hdi_clock_now() < until_ns;
    if (more) linger(source);
    else settle(source, 0); /* Nobody is left to be told of an error. */
    unlock(source);
    if (!more) hdi_source_finish(source);
}

bool hdi_lane_linger(struct hdi_source *source)
{
    hdi_lock_take(&source->out.waitable.lock);
    const bool more = send_now(source) == -EAGAIN;
    unlock(source);
    if (!more) hdi_source_finish(source);
    return more;
}

void hdi_lane_abandon(struct hdi_source *source)
{
    const struct hdi_loan loan = source->unsent_loan;
    struct hdi_lane *lane = hdi_load_acquire(&source->lane); /* V */
    if (loan.base && !loan.ring) hdi_spares_keep(&lane->spares, hdi_block_of(loan.base));
}
