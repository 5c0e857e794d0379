/* SPDX-License-Identifier: MIT
 *
 * source: a descriptor that tasks wait on, behind a handle that is never used twice.
 *
 * A handle is an index into a table of the process and a generation. The table's slots are never
 * freed, so a stale handle finds a slot, of another generation: -EBADF.
 *
 * Each direction is a side with a lock of its own. Under it a call is tried, and, if it would
 * have to wait, its node is queued:
 *
 *   caller, under the side's lock            who learns that it is ready
 *   1. not ready: go to 3                    1. lock the side: ready = true
 *   2. try the call; -EAGAIN:                2. take all nodes out, decide each; unlock
 *      ready = false                         3. wake them: each tries again
 *   3. queue the node; unlock, sleep
 *
 *   SRC-1  The system tells edges: once for each time something comes. What comes after the
 *          -EAGAIN in step 2 is told later than that, and so finds the node (both hold the lock).
 *   SRC-2  A call on TCP, or a pipe of ours, that moved less than it was asked to has found the end
 *          of what there was: ready = false. But not once the other side has hung up, or has sent
 *          urgent bytes, at which a read stops: either is told only once.
 *   SRC-3  `generation`, `fd` and `runtime` change only with both locks held, so a call that holds
 *          one and has compared the generation uses the descriptor it means.
 *   SRC-4  A source is watched from the first call that has to wait on it until it is closed.
 *   SRC-5  A call that does not hold a lock while it uses the descriptor (a thread that may block)
 *          is one of its users; the descriptor is closed, and the slot free, when the handle is
 *          closed and the last of them has left.
 *   SRC-6  What a lane took for a reader (io/uring_take.c) it asked for before the reader did:
 *          `ready` was false from then on, and is true again if something came since.
 *   SRC-7  A slot whose last generation was used is not used again.
 *   SRC-8  The first fiber that waits to read, for as long as it takes, is not queued: it is the
 *          `reader`. A node would lie on its stack, which is in no cache by the time it is woken.
 *   SRC-9  A reader that waits for a lease, and is the only one to wait, may be lent what comes by
 *          who learns of it, instead of being told, if there is nothing to be read before that. It
 *          is the reader's if its wait ends by that: one that a cancel or a close has ended leaves
 *          it to the next. As it is named in the reader's task, nobody takes it for another's,
 *          whatever the source is when the reader runs: a close in between finds it read.
 *
 * System calls under a spinning lock: they do not wait, and two tasks that read from the same
 * socket at the same moment are rare.
 */
#ifndef HDI_IO_SOURCE_H
#define HDI_IO_SOURCE_H

#include <stdalign.h>
#include <time.h>

#include <heddle/lease.h>

#include "os/sys.h"
#include "sched/runtime.h"
#include "sync/ops.h"

enum hdi_source_kind {
    HDI_SOURCE_STREAM, /* socket: recvmsg and sendmsg; the end is 0 bytes */
    HDI_SOURCE_DATAGRAM,
    HDI_SOURCE_LISTENER,
    HDI_SOURCE_PIPE,   /* anything else that can be waited for: readv and writev */
    HDI_SOURCE_DEVICE, /* the same, and a file beside: a FIFO or a terminal that was opened */
    HDI_SOURCE_FILE,   /* cannot be waited for: by a thread that may block */
};

struct hdi_side {
    struct hdi_waitable waitable; /* first: its lock, for all of these */
    bool ready;                   /* the next call may succeed */
    bool unsure;                  /* SRC-2 holds no more */
    bool armed;                   /* the kernel will tell when it is; live only */
    struct hdi_list waiters;
};

enum hdi_unsent {
    HDI_UNSENT_NONE,
    HDI_UNSENT_QUEUED,
    HDI_UNSENT_FLYING,
    HDI_UNSENT_STUCK,
    HDI_UNSENT_LINGERING,
};

/* A buffer that belongs to nobody else (io/loan.h). */
struct hdi_loan {
    char *base;            /* NULL: none */
    struct hdi_lane *ring; /* whose buffer it is; NULL: a block */
};

struct hdi_block;

/* In the order of their use, three lines of the cache for a message, and one for the rest: with a
 * thousand connections each is a miss. */
struct hdi_source {
    alignas(HDI_CACHE_LINE) struct hdi_side in;
    struct hdi_side out;
    struct hd_runtime *runtime;        /* SRC-3 */
    int fd;                            /* SRC-3 */
    uint32_t index;                    /* constant */

    _Atomic(uint32_t) generation;      /* SRC-3; read without a lock as a first guess */
    enum hdi_source_kind kind : 8;     /* as the three that follow: constant while it is open */
    bool borrowed;                     /* the descriptor stays when the handle is closed */
    bool gentle;                       /* nobody may make it non-blocking: it is asked first */
    bool delayed;                      /* listener: accepted ones keep Nagle's algorithm */
    _Atomic(bool) is_file;             /* of that kind; as the generation */
    _Atomic(bool) shared;              /* others have the descriptor too; set once, as the next */
    _Atomic(bool) direct;              /* what is written is not left (io/outbox.h) */
    _Atomic(bool) reset;               /* sending later found that; to be told to who reads */
    bool fast;                         /* TCP: the kernel may receive, or accept, ahead (uring.h) */
    bool bulky;                        /* in.lock: more comes at once than that is good for */
    bool ahead;                        /* in.lock: `armed` means that it does so */
    bool collected;                    /* in.lock: or that it is in a set (io/epoll.h) */
    bool stopping;                     /* in.lock, as all up to `taken`: it shall no more */
    bool lends;                        /* who began to wait last, to read, waits for a lease */
    bool taking;                       /* the lane receives for who waits (io/uring_take.c) */
    int failed;                        /* what receiving ahead ended with, to be told; 0: nothing */
    uint16_t held_first, held_last, held; /* buffers of the lane, of what was received ahead */
    uint16_t taken_start, taken_end;   /* the part of the next that was not read yet */
    uint16_t reader_phase;             /* of the wait of the `reader` */
    bool reader_lends;                 /* that waits for a lease */
    struct hdi_block *taken;           /* what the lane received for who waited; NULL: nothing */
    struct hd_task *reader;            /* SRC-8; NULL: none */
    const char *reader_frame;          /* where on its stack it goes on */

    uint32_t asked_at;                 /* the lane's lock, as all up to `known`: how many
                                        * submissions it had, after its */
    uint16_t uses;                     /* submissions that name its descriptor, up to some number */
    uint16_t file;                     /* a place in the ring's table of files (uring_files.c) */
    bool filed;                        /* it has one; once it is stale, only what flies gets one */
    bool known;                        /* the ring knows it by that */
    bool full;                         /* out.lock, as all up to `linger_until`, but the lane
                                        * (io/outbox.h): the last write found no room for all */
    bool queued;                       /* the handle is in the lane's outbox */
    bool closing;                      /* the handle is closed, the descriptor will be */
    bool shut_after;                   /* a shutdown is to follow, of what is written */
    uint16_t unsent, unsent_start, unsent_end; /* a buffer of the outbox, what is unsent of it */
    struct hdi_loan unsent_loan;       /* or of this */
    enum hdi_unsent sending;
    int unsent_failed;                 /* what sending later ended with, to be told; 0: nothing */
    _Atomic(struct hdi_lane *) lane;   /* live: where it is watched; read without a lock */

    struct timespec linger_until;
    int *accepted;                     /* in.lock; listener: accepted ahead; [accepted_room] */
    uint32_t accepted_first, accepted_end, accepted_room;
    uint32_t users;                    /* in.lock, SRC-5; the open handle is one */
    struct hdi_lock watching;          /* held for the next and the lane, inside any other lock */
    bool watched;
    struct hdi_source *next;           /* in the list of free ones, or of its runtime's */
    struct hdi_source **link;          /* in that of its runtime's: what points to it */
    _Atomic(uint32_t) owner;           /* sim: the process it ends with; 0: none. Both locks */
};

/* ---- making and ending (source.c) ---- */

/* The runtime whose handles the caller makes; NULL if it has none. */
struct hd_runtime *hdi_io_runtime(void);

/* Make a handle of a descriptor. Returns: 0, -ENOMEM. */
int hdi_source_adopt(struct hd_runtime *runtime, int fd, enum hdi_source_kind kind, hd_io *io);

/* The simulated process that the caller is of; NULL: the program itself, as in live. */
static inline const struct hdi_process *hdi_io_process(struct hd_runtime *runtime)
{
    return runtime->sys->process ? runtime->sys->process(runtime) : NULL;
}

/* A handle ends with that process, and no more with the one that made it; 0: with none. Close all
 * that end with one. Context: no lock. */
void hdi_source_give(hd_io io, uint32_t owner);
void hdi_sources_close(struct hd_runtime *runtime, uint32_t owner);

/* The same of a new one, or two, which are closed on failure. */
int hdi_source_create(struct hd_runtime *runtime, int fd, enum hdi_source_kind kind, hd_io *io);
int hdi_source_create_pair(struct hd_runtime *runtime, const int fds[2],
                           enum hdi_source_kind kind, hd_io ios[2]);

/* The table, in chunks (source.c). */
enum { HDI_SOURCE_CHUNK = HDI_MODEL ? 1 : 1024, HDI_SOURCE_CHUNKS_MAX = 4096 };
extern _Atomic(struct hdi_source *) hdi_source_chunks[HDI_SOURCE_CHUNKS_MAX];

/* The slot of a handle, which may be stale; NULL: there is none. */
static inline struct hdi_source *hdi_source_slot(hd_io io)
{
    const uint32_t index = (uint32_t)io.private_, chunk = index / HDI_SOURCE_CHUNK;
    if (chunk >= HDI_SOURCE_CHUNKS_MAX) return NULL;
    struct hdi_source *sources = hdi_load_acquire(&hdi_source_chunks[chunk]); /* C */
    return sources ? &sources[index % HDI_SOURCE_CHUNK] : NULL;
}

static inline bool hdi_source_is(struct hdi_source *source, hd_io io)
{
    /* Relaxed: under a side's lock it is exact (SRC-3). */
    return hdi_load_relaxed(&source->generation) == (uint32_t)(io.private_ >> 32);
}

/* The source a handle names, if it is not plainly stale; NULL. Under the side's lock it is to be
 * looked at again. */
static inline struct hdi_source *hdi_source_of(hd_io io)
{
    struct hdi_source *source = hdi_source_slot(io);
    return source && hdi_source_is(source, io) ? source : NULL;
}

/* Become one of its users (SRC-5), until hdi_source_release(). Returns: NULL if it is stale. */
struct hdi_source *hdi_source_hold(hd_io io);
void hdi_source_release(struct hdi_source *source);

#if HDI_MODEL
/* An execution begins without a table. */
void hdi_sources_forget(void);
#endif

/* All handles of a runtime that ends are closed; their descriptors, too, but for those that have
 * something to send, unless `all`. Context: no task and no worker is left. */
void hdi_sources_end(struct hd_runtime *runtime, bool all);

/* Send what closed ones have left, as far as there is room. Returns whether there is more. Context:
 * as above. */
bool hdi_sources_linger(struct hd_runtime *runtime);

/* Send what is left to be sent, in the whole process. */
void hdi_sources_flush(void);

/* The same of one source, as far as there is room. Context: no lock. */
void hdi_source_flush(struct hdi_source *source);

/* All was sent of one whose handle was closed before. Context: no lock. Returns: as close(). */
int hdi_source_finish(struct hdi_source *source);

/* ---- waiting ---- */

/* hdi_op_readable, hdi_op_writable (sync/ops.h): the object is a side, `number` the handle. */

/* What a call tries: returns what the system call does. Context: the side's lock. */
typedef ssize_t hdi_try_fn(struct hdi_source *source, void *arg);

/* Try until it is not -EAGAIN any more, waiting in between. `all`: how many bytes mean that there
 * may be more; 0: any success does. Pays for a system call. Returns: what `try_it` did;
 * -EBADF, -EAGAIN with HD_NOW, -ETIMEDOUT, -ECANCELED, ... */
ssize_t hdi_source_do(hd_io io, bool out, hdi_try_fn *try_it, void *arg, size_t all,
                      int64_t deadline);

/* What the caller was lent while it waited (SRC-9): something of this lane's. */
struct hdi_lent {
    struct hdi_lane *lane;
    uint32_t what;
};

/* Wait for a side, whose lock is held, and is given back. `lent`: for a lease, or NULL. Returns: 0:
 * it may be ready; 1: *lent is the caller's; -errno. */
int hdi_source_wait(struct hdi_source *source, struct hdi_side *side, hd_io io,
                    struct hdi_lent *lent, int64_t deadline);

/* Lend what has come, and was not received by anybody, to the reader (SRC-9). Context: in.lock.
 * Returns whether it has it; if not, it is to be told. */
HD_MUST_USE bool hdi_source_lend(struct hdi_source *source, uint32_t what,
                                 struct hdi_wakeups *wakeups);

/* What happens, with -ECANCELED, when the handle is closed: for calls that wait for something else
 * meanwhile (hdi_wait_unless). Of a kind that is never waited for: it stands among those that wait
 * to read, and is woken with them. */
hd_case hdi_source_closed(struct hdi_source *source, hd_io io);

/* Wait until then, unless the handle, which was open a moment ago, is closed before. Returns: 0;
 * -ECANCELED. A deadline of the caller's scope is left to its next call. */
int hdi_source_pause(hd_io io, int64_t until_ns);

/* The descriptor became ready for HDI_READY_*. Tasks that waited are put into *wakeups. Context:
 * no lock held. `handle` says which generation is meant. */
void hdi_source_ready(struct hdi_source *source, hd_io handle, unsigned ready,
                      struct hdi_wakeups *wakeups);

/* Be told when this side is ready. Context: the side's lock. */
int hdi_side_watch(struct hdi_source *source, struct hdi_side *side);

/* The same for one side, whose lock is held, and whose generation is right; or wake only. */
void hdi_side_wake(struct hdi_source *source, struct hdi_side *side, struct hdi_wakeups *wakeups);
void hdi_side_tell(struct hdi_source *source, struct hdi_side *side, bool unsure,
                   struct hdi_wakeups *wakeups);

/* ---- what lanes provide (lane.c) ---- */

/* Take what was received ahead. Context: in.lock. Returns: how many bytes; an error, once; -EAGAIN:
 * what comes next will be received ahead, too; -ENODATA: the kernel is to be asked. */
ssize_t hdi_lane_receive(struct hdi_source *source, const struct iovec *parts, int count);

/* Lend the first buffer of what was received ahead: *loan, and the bytes in it. Context: in.lock.
 * Returns: how many bytes; -EAGAIN as above; -ENODATA: it is to be read, by a copy or a call. */
ssize_t hdi_lane_lend(struct hdi_source *source, struct hdi_loan *loan, char **bytes);

/* What was lent to who waited, as above. Returns: how many bytes. */
ssize_t hdi_lane_lent(const struct hdi_lent *lent, struct hdi_loan *loan);

/* Leave what is written to be sent later. Context: out.lock, as in what follows. Returns: `bytes`;
 * an error of what was left before, once; -EAGAIN; -ENODATA: the kernel is to be asked. */
ssize_t hdi_lane_send(struct hdi_source *source, const struct iovec *parts, int count,
                      size_t bytes);

/* The same of what lies in a loan, without a copy. Returns whether it will be sent, and the loan is
 * the outbox's. If not, it is to be written. */
bool hdi_lane_send_loan(struct hdi_source *source, struct hdi_loan loan, const char *bytes,
                        size_t count);

/* Whether what is left there is this process's to send. Context: any. */
bool hdi_lane_is_ours(const struct hdi_source *source);

/* Send what was left now, as far as there is room. */
void hdi_lane_flush(struct hdi_source *source);

/* Shut it down once all was sent. Returns as hd_shutdown(), or an error of what was left. */
int hdi_lane_shut(struct hdi_source *source, int how);

/* The handle is closed. Returns whether all was sent; if not, hdi_source_finish() will follow. */
bool hdi_lane_close(struct hdi_source *source);

/* Try to send what a closed handle has left. Returns whether there is more; if not, the source is
 * finished. Context: the runtime ends, no worker is left; as in the next. */
bool hdi_lane_linger(struct hdi_source *source);

/* That is not waited for any more: what was lent is the lane's now. */
void hdi_lane_abandon(struct hdi_source *source);

/* The same for a connection. Returns its descriptor, or as above. */
int hdi_lane_accept(struct hdi_source *source);

/* Have the kernel tell when a side of a watched source is ready. Context: the side's lock. */
int hdi_lane_arm(struct hdi_source *source, struct hdi_side *side);

/* Whether somebody waits to read. Context: in.lock. */
static inline bool hdi_source_is_awaited(const struct hdi_source *source)
{
    return source->reader || !hdi_list_empty(&source->in.waiters);
}

/* Fetch what the reader uses when it goes on: there are others to be told until then. Context:
 * in.lock. */
static inline void hdi_source_fetch_reader(const struct hdi_source *source)
{
    enum { LINES = 5 }; /* of its stack */
    if (!source->reader) return;
    __builtin_prefetch(source->reader, 1);
    __builtin_prefetch(&source->reader->fiber.context, 1);
    for (int i = 0; i < LINES; i++) {
        __builtin_prefetch(source->reader_frame + i * HDI_CACHE_LINE, 1);
    }
}

/* Whether something was received or accepted already. Context: in.lock. */
static inline bool hdi_source_has(const struct hdi_source *source)
{
    return source->held > 0 || source->accepted_end > source->accepted_first || source->failed ||
           source->taken;
}

/* The handle of an open source. Context: who has it open. */
static inline hd_io hdi_source_handle(struct hdi_source *source)
{
    const uint64_t generation = hdi_load_relaxed(&source->generation);
    return (hd_io){generation << 32 | source->index};
}

#endif
