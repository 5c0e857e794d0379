/* SPDX-License-Identifier: MIT
 *
 * uring: a lane by io_uring.
 *
 * What is asked (a submission) is put into the ring by whoever asks, and handed to the kernel by
 * the lane's worker, all at once: when it goes to sleep, or looks for news. What the kernel says (a
 * completion) lies in memory, and is read without a system call.
 *
 *   connection   multishot receive: the kernel puts what comes into a buffer of the lane, which is
 *                linked to the source until it was read. One that leaves HELD_MAX buffers unread is
 *                told to stop, and is read by system calls until it has to wait again: no peer can
 *                take more of the lane's memory than that.
 *   bulky one    one that has filled a buffer, or found none: in an epoll from then on, and read by
 *                system calls, without the copy; for leases, by one for many (uring_take.c).
 *   listener     multishot accept, which stops at ACCEPTED_MAX that nobody took
 *   files        one call of the kernel each, with the caller's memory (struct hdi_flight)
 *   all others   multishot poll, of each side by itself; then system calls, as with epoll. So are
 *                bulky ones that an epoll could not be had for, and who waits to write.
 *
 * Little that is written to a connection is sent later, with all else (io/outbox.h). Other writing
 * is a system call, as with epoll: it rarely has to wait, and suspending the writer until the
 * kernel has seen the submission costs more than the call.
 *
 *   URING-1  Submissions are put in, and completions taken out, with `lock` held; the kernel is
 *            entered without it.
 *   URING-2  enter() comes back when the kernel has taken every submission that was there. It has
 *            seen those for a descriptor before that is closed: a number that was closed may soon
 *            be another's. What it has seen it knows by the file, not the number, and keeps open
 *            until it was cancelled.
 *   URING-3  A buffer is the kernel's, or linked to one source, under the lock of its side, or lent
 *            (io/loan.h). A completion for a stale handle gives its buffer back.
 *   URING-4  Completions are told in their order: who takes some holds `telling`, outside all other
 *            locks, until they are told. The worker, or the monitor in its place.
 *   URING-5  Only the worker's thread enters (DEFER_TASKRUN): the kernel does its part, and has
 *            news, then and at no other time. Others put submissions in, and wake the worker. If it
 *            does not come, since it is in a task for long, or if they cannot go on before the
 *            kernel has seen them, they prod it (sched/prod.h): the signal's handler enters.
 *   URING-6  A worker that ends has all that was asked cancelled, and hears the last of it.
 *
 * What is used often is known to the ring (io/uring_files.c).
 *
 * A lane that has seen a bulky connection asks the ring, when it sleeps, to tell of the epoll, too.
 *
 * The kernel receives for few connections at a time, however many have something, so that what one
 * has sent is still in the caches when it is answered.
 *
 * Rejected
 *   To sleep in the epoll, with the ring in it: that tells there only what the worker has heard.
 *   With an eventfd that the ring raises: Linux 6.18 has lost that, when another brought the news.
 *   COOP_TASKRUN, with which all threads may enter: the kernel receives for all connections at
 *   once. With 1,000 an echo took a tenth more; with an epoll, to avoid that, nearly as much.
 */
#ifndef HDI_IO_URING_H
#define HDI_IO_URING_H

#include "io/lane.h"

#if HDI_URING && !HDI_MODEL

#include <liburing.h>

#include "io/epoll.h"
#include "io/outbox.h"

enum {
    HDI_URING_GROUP = 1, /* of the buffers */
    HDI_URING_SUBMISSIONS = 256, /* at once */
    HDI_URING_BUFFERS = 1024,
    HDI_URING_FILES = 4096, /* that it knows at most */
    HDI_URING_TAKES = 16, /* as many large messages as a near cache has room for */
};

/* A receive for somebody who waits (io/uring_take.c). */
struct hdi_take {
    hd_io handle;
    struct hdi_block *block;
};

struct hdi_uring {
    struct hdi_lane lane; /* first */
    struct hdi_lock telling; /* URING-4 */
    struct hdi_lock lock;
    struct io_uring ring;
    _Atomic(bool) enabled;   /* by the worker, whose thread the ring knows from then on */
    struct io_uring_buf_ring *free; /* lock */
    /* Buffers that were lent, ever, and came back (LOAN-2). */
    _Atomic(unsigned) lent_here;      /* by the lane's worker, without the lock */
    _Atomic(unsigned) lent_elsewhere; /* lock */
    _Atomic(unsigned) returned;       /* lock */
    char *memory;
    struct hdi_outbox outbox;
    /* Its worker's, from one call of poll() to the next. */
    bool looked;    /* it has entered the kernel as it would to look */
    unsigned heard; /* of so many completions and events, */
    unsigned told;  /* and before that */
    uint64_t runs;  /* tasks that it has run until then */
    unsigned file_count;                    /* lock, as the next: places that are free */
    uint16_t *files;
    struct hdi_epoll bulky;
    bool set_armed; /* lock: the ring will tell when there is something in it */
    struct hdi_take takes[HDI_URING_TAKES]; /* its worker's, until they are handed over */
    _Atomic(bool) collects; /* that is open; lock writes it */
    /* Of a buffer that is linked to a source: the next, and the part that was not read yet; under
     * the lock of the source's side. */
    uint16_t next[HDI_URING_BUFFERS];
    uint16_t start[HDI_URING_BUFFERS], end[HDI_URING_BUFFERS];
};

/* What a completion is for: the low bits of its user_data. */
enum hdi_tag {
    HDI_TAG_EVENT,
    HDI_TAG_IN,      /* poll */
    HDI_TAG_OUT,     /* poll */
    HDI_TAG_RECEIVE,
    HDI_TAG_ACCEPT,
    HDI_TAG_FLIGHT,  /* the rest is its address */
    HDI_TAG_SEND,    /* of the outbox */
    HDI_TAG_LINGER,  /* of the outbox, for a closed handle */
    HDI_TAG_TAKE,    /* the rest is a place in `takes` (io/uring_take.c) */
    HDI_TAG_FILE,    /* the ring is to know a descriptor */
    HDI_TAG_SET,     /* poll of `bulky` */
    HDI_TAG_DONE,    /* of a cancel, and so on: of no interest */
};

enum { HDI_TAG_BITS = 4 };

static inline uint64_t hdi_uring_name(hd_io handle, enum hdi_tag tag)
{
    return (handle.private_ >> 32 << 32) | (handle.private_ & UINT32_MAX) << HDI_TAG_BITS | tag;
}

static inline hd_io hdi_uring_handle(uint64_t name)
{
    return (hd_io){(name >> 32 << 32) | (name & UINT32_MAX) >> HDI_TAG_BITS};
}

/* ---- entering the kernel (uring_enter.c) ---- */

/* Let the kernel see what was put in. Returns up to where. Context: no lock. */
unsigned hdi_uring_publish(struct hdi_uring *lane);

/* How many of those up to there the kernel has not taken yet: it may have gone further. */
static inline unsigned hdi_uring_left(const struct hdi_uring *lane, unsigned tail)
{
    const int left = (int)(tail - io_uring_smp_load_acquire(lane->ring.sq.khead));
    return left > 0 ? (unsigned)left : 0;
}

/* Whether there were more completions than places for them. */
static inline bool hdi_uring_has_overflown(const struct hdi_uring *lane)
{
    return IO_URING_READ_ONCE(*lane->ring.sq.kflags) & IORING_SQ_CQ_OVERFLOW;
}

/* Whether the kernel waits for the worker to enter it. */
static inline bool hdi_uring_is_called(const struct hdi_uring *lane)
{
    return IO_URING_READ_ONCE(*lane->ring.sq.kflags) &
           (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW);
}

/* Whether this thread is the worker's. */
static inline bool hdi_uring_is_own(const struct hdi_uring *lane)
{
    return lane->lane.worker == hdi_worker_self();
}

/* From now on the ring is this thread's. Context of this, and what follows: the worker. */
void hdi_uring_enable(struct hdi_uring *lane);

static inline void hdi_uring_enable_once(struct hdi_uring *lane)
{
    if (hdi_unlikely(!hdi_load_relaxed(&lane->enabled))) hdi_uring_enable(lane); /* Its own. */
}

/* Have it take all of these. */
void hdi_uring_enter(struct hdi_uring *lane, unsigned tail);

/* Have it take all that there is, and do its part, if it has one. */
void hdi_uring_look(struct hdi_uring *lane);

/* The same in a signal handler (struct hdi_lane_kind). */
void hdi_uring_prodded(struct hdi_lane *base);

/* Have the worker enter, and give it time to, but no more than that. Context: another thread. */
void hdi_uring_prod(struct hdi_uring *lane);

/* See to it that the kernel takes what was put in. Context: lock, which is given back meanwhile. */
void hdi_uring_hand_over(struct hdi_uring *lane);

/* ---- asking (uring.c) ---- */

/* A place for a submission. Context: lock, which may be given back for a moment. */
struct io_uring_sqe *hdi_uring_place(struct hdi_uring *lane);

/* The lane's worker hands it over, and may sleep. Context: no lock of the lane's. */
void hdi_uring_told(struct hdi_uring *lane);

/* struct hdi_lane_kind's (uring_send.c). */
void hdi_uring_put_sends(struct hdi_lane *base, const struct hdi_send *sends, unsigned count);
void hdi_uring_put_linger(struct hdi_lane *base, struct hdi_source *source, struct iovec unsent);

/* ---- faults of tests (uring_fault.c) ---- */

/* Context: none yet knows the lane. */
void hdi_uring_fault_init(struct hdi_uring *lane);

/* A submission is all prepared: if it is to fail, nothing is done but to say so. Context: lock. */
void hdi_uring_fault(struct hdi_uring *lane, struct io_uring_sqe *sqe, const char *name);

/* A call of liburing's, or none, if it is to fail. */
#define hdi_uring_call(lane, name, ...)                                                  \
    (__extension__({                                                                     \
        const int hdi_uring_err = hdi_sys_fails((lane)->lane.worker->exec.runtime, #name); \
        hdi_uring_err ? hdi_uring_err : name(__VA_ARGS__);                               \
    }))

static inline void hdi_uring_may_fail(struct hdi_uring *lane, struct io_uring_sqe *sqe,
                                      const char *name)
{
    if (__builtin_expect(hdi_sys_fault != NULL, 0)) hdi_uring_fault(lane, sqe, name);
}

/* ---- files that the ring knows (uring_files.c) ---- */

/* Context: none yet knows the lane; the ring is still there. */
void hdi_uring_files_init(struct hdi_uring *lane);
void hdi_uring_files_fini(struct hdi_uring *lane);

/* A submission was prepared for a source's descriptor: name it as the ring does, if it knows it. If
 * it is the one after which it is to, ask for that: as `name`. Context: lock, which may be given
 * back for a moment. */
void hdi_uring_address(struct hdi_uring *lane, struct hdi_source *source, struct io_uring_sqe *sqe,
                       uint64_t name);

/* The answer. Context: no lock. */
void hdi_uring_file_told(struct hdi_uring *lane, hd_io handle, int result);

/* Ask that the ring forget a source's, and give its place back: who has it next asks behind that.
 * Context: the source is stale; lock, which may be given back for a moment. */
void hdi_uring_file_forget(struct hdi_uring *lane, struct hdi_source *source, uint64_t name);

/* ---- calls with memory of their callers (uring_flight.c) ---- */

/* Put the submission in, as `name`. Context: lock, which may be given back for a moment. */
void hdi_uring_put_flight(struct hdi_uring *lane, struct hdi_flight *flight, uint64_t name);

/* If the kernel cannot have seen it, it does nothing, and is told as `dropped`. Returns false if it
 * can. Context: lock. */
bool hdi_uring_drop_flight(struct hdi_uring *lane, const struct hdi_flight *flight, uint64_t name,
                           uint64_t dropped);

/* ---- receiving for readers (uring_take.c) ---- */

/* The set told of a connection: prepare to receive for who waits for a lease, as the take `at`.
 * Returns false if nobody does: it is to be told. Context: the lane's worker, no lock. */
bool hdi_uring_take(struct hdi_uring *lane, const struct epoll_event *event, unsigned at);

/* Put the submission in (uring.c). Context: in.lock. */
void hdi_uring_put_take(struct hdi_uring *lane, struct hdi_source *source, unsigned at);

/* It ended with this. Context: telling. */
void hdi_uring_taken(struct hdi_uring *lane, unsigned at, int result, struct hdi_wakeups *wakeups);

/* ---- buffers (uring_buffers.c) ---- */

/* Context: none yet knows the lane; the ring is gone. Returns: 0, -ENOMEM, ... */
int hdi_uring_buffers_init(struct hdi_uring *lane);
void hdi_uring_buffers_fini(struct hdi_uring *lane);

/* The kernel may use it again. Context: lock. */
void hdi_uring_give_buffer(struct hdi_uring *lane, uint16_t id);

/* Link it to a source, behind the others; give the first one back. Context: in.lock. */
void hdi_uring_link_buffer(struct hdi_uring *lane, struct hdi_source *source, uint16_t id,
                           int bytes);
void hdi_uring_unlink_buffer(struct hdi_uring *lane, struct hdi_source *source);

/* Lend the only one it has, which came last, to the reader (SRC-9). Context: in.lock. Returns false
 * if it still has it, and that is to be told. */
bool hdi_uring_lend_last(struct hdi_uring *lane, struct hdi_source *source,
                         struct hdi_wakeups *wakeups);

/* struct hdi_lane_kind's. */
ssize_t hdi_uring_receive(struct hdi_lane *base, struct hdi_source *source,
                          const struct iovec *parts, int count);
ssize_t hdi_uring_lend(struct hdi_lane *base, struct hdi_source *source, struct hdi_loan *loan,
                       char **bytes);
ssize_t hdi_uring_lent_to(struct hdi_lane *base, uint32_t what, struct hdi_loan *loan);
void hdi_uring_take_back(struct hdi_lane *base, const struct hdi_loan *loans, unsigned count);

/* How many are lent, to leases or the outbox: of other threads' own, a guess. */
static inline unsigned hdi_uring_lent(struct hdi_uring *lane)
{
    return hdi_load_relaxed(&lane->lent_here) + hdi_load_relaxed(&lane->lent_elsewhere) -
           hdi_load_relaxed(&lane->returned);
}

#endif
#endif
