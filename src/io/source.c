/* SPDX-License-Identifier: MIT
 *
 * source: the table of handles, and waiting on one. The protocol is in source.h.
 */
#include "io/do.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mutant.h"
#include "os/mutex.h"

_Static_assert(offsetof(struct hdi_source, generation) == HDI_CACHE_LINE &&
                   offsetof(struct hdi_source, linger_until) <= 3 * HDI_CACHE_LINE,
               "lines as in the header");

/* ---- the table ---- */

enum { CHUNK = HDI_SOURCE_CHUNK, CHUNKS_MAX = HDI_SOURCE_CHUNKS_MAX };

static struct hdi_mutex table_lock = HDI_MUTEX_INIT;
_Atomic(struct hdi_source *) hdi_source_chunks[CHUNKS_MAX]; /* table_lock writes; never freed */
static unsigned chunk_count;                                /* table_lock */
static struct hdi_source *free_sources;                     /* table_lock */
static struct hdi_source nowhere;                           /* what stale handles may name */

static struct hdi_source *source_at(uint32_t index)
{
    return hdi_source_slot((hd_io){index});
}

static void side_init(struct hdi_side *side)
{
    hdi_list_init(&side->waiters);
}

/* Context: table_lock. Returns false if memory is short. */
static bool add_chunk(void)
{
    if (chunk_count == CHUNKS_MAX) return false;
    struct hdi_source *chunk = hdi_lines_alloc(CHUNK * sizeof(*chunk));
    if (!chunk) return false;
    for (unsigned i = CHUNK; i > 0; i--) {
        struct hdi_source *source = &chunk[i - 1];
        source->index = chunk_count * CHUNK + i - 1;
        side_init(&source->in);
        side_init(&source->out);
        hdi_store_relaxed(&source->generation, 1); /* Published with the chunk. */
        source->next = free_sources;
        free_sources = source;
    }
    hdi_store_release(&hdi_source_chunks[chunk_count++], chunk); /* C */
    return true;
}

#if HDI_MODEL
void hdi_sources_forget(void)
{
    /* One thread. */
    while (chunk_count > 0) hdi_store_relaxed(&hdi_source_chunks[--chunk_count], NULL);
    free_sources = NULL;
}
#endif

static struct hdi_source *take_slot(struct hd_runtime *runtime)
{
    hdi_mutex_lock(&table_lock);
    struct hdi_source *source = free_sources || add_chunk() ? free_sources : NULL;
    if (source) {
        free_sources = source->next;
        source->link = &runtime->sources;
        source->next = runtime->sources;
        if (source->next) source->next->link = &source->next;
        runtime->sources = source;
    }
    hdi_mutex_unlock(&table_lock);
    return source;
}

/* One that has no generation left is nobody's any more (SRC-7). */
static void give_slot(struct hdi_source *source)
{
    hdi_mutex_lock(&table_lock);
    *source->link = source->next;
    if (source->next) source->next->link = source->link;
    /* Relaxed: it is stale, and changes no more until it is taken. */
    if (hdi_load_relaxed(&source->generation) != UINT32_MAX) {
        source->next = free_sources;
        free_sources = source;
    }
    hdi_mutex_unlock(&table_lock);
}

/* ---- making and ending ---- */

struct hd_runtime *hdi_io_runtime(void)
{
    const struct hdi_exec *exec = hdi_exec_self();
    return exec ? exec->runtime : hdi_sched_thread_home();
}

static void lock_both(struct hdi_source *source)
{
    hdi_lock_take(&source->in.waitable.lock);
    hdi_lock_take(&source->out.waitable.lock);
}

static void unlock_both(struct hdi_source *source)
{
    hdi_lock_give(&source->out.waitable.lock);
    hdi_lock_give(&source->in.waitable.lock);
}

int hdi_source_adopt(struct hd_runtime *runtime, int fd, enum hdi_source_kind kind, hd_io *io)
{
    struct hdi_source *source = take_slot(runtime);
    if (!source) return -ENOMEM;
    lock_both(source); /* A stale handle may be looking at it. */
    source->runtime = runtime;
    source->fd = fd;
    source->kind = kind;
    hdi_store_relaxed(&source->is_file, kind == HDI_SOURCE_FILE); /* Under a lock it is exact. */
    source->borrowed = source->gentle = source->delayed = source->fast = false;
    source->bulky = source->ahead = source->collected = source->lends = source->taking = false;
    hdi_store_relaxed(&source->shared, false); /* Under a lock, as the next two. */
    hdi_store_relaxed(&source->direct, false);
    hdi_store_relaxed(&source->reset, false);
    source->held = 0;
    source->taken = NULL;
    source->reader = NULL;
    source->uses = 0;
    source->filed = source->known = false;
    source->sending = HDI_UNSENT_NONE;
    source->unsent_loan = (struct hdi_loan){0};
    source->full = source->queued = source->closing = source->shut_after = false;
    source->unsent_failed = 0;
    source->failed = 0;
    source->accepted_first = source->accepted_end = 0;
    source->users = 1;
    const struct hdi_process *process = hdi_io_process(runtime);
    hdi_store_relaxed(&source->owner, process ? process->number : 0); /* Under a lock. */
    /* The first call finds out whether that is so. */
    source->in.ready = source->out.ready = true;
    source->in.unsure = source->out.unsure = false;
    source->in.armed = source->out.armed = false;
    unlock_both(source);
    *io = hdi_source_handle(source);
    return 0;
}

int hdi_source_create(struct hd_runtime *runtime, int fd, enum hdi_source_kind kind, hd_io *io)
{
    const int err = hdi_source_adopt(runtime, fd, kind, io);
    if (err) (void)hdi_sys(runtime, close, fd);
    return err;
}

int hdi_source_create_pair(struct hd_runtime *runtime, const int fds[2],
                           enum hdi_source_kind kind, hd_io ios[2])
{
    int err = hdi_source_create(runtime, fds[0], kind, &ios[0]);
    if (err) {
        (void)hdi_sys(runtime, close, fds[1]);
        return err;
    }
    err = hdi_source_create(runtime, fds[1], kind, &ios[1]);
    if (err) (void)hd_close(ios[0]);
    return err;
}

/* What is being sent this moment is over when the lane's worker has entered the kernel. In a
 * process that was forked there is no such worker, and the bytes are a copy of the other's. */
void hdi_source_flush(struct hdi_source *source)
{
    hdi_lock_take(&source->out.waitable.lock);
    const bool ours = source->sending != HDI_UNSENT_NONE && hdi_lane_is_ours(source);
    while (ours && source->sending == HDI_UNSENT_FLYING) {
        hdi_lock_give(&source->out.waitable.lock);
        hdi_thread_yield();
        hdi_lock_take(&source->out.waitable.lock);
    }
    if (ours) hdi_lane_flush(source);
    hdi_lock_give(&source->out.waitable.lock);
}

void hdi_sources_flush(void)
{
    for (uint32_t i = 0; source_at(i); i++) {
        /* Others may have been locked by a thread that a process that was forked has not. */
        if (hdi_lane_is_ours(source_at(i))) hdi_source_flush(source_at(i));
    }
}

struct hdi_source *hdi_source_hold(hd_io io)
{
    struct hdi_source *source = hdi_source_of(io);
    if (!source) return NULL;
    hdi_lock_take(&source->in.waitable.lock);
    const bool open = hdi_source_is(source, io);
    if (open) source->users++;
    hdi_lock_give(&source->in.waitable.lock);
    if (open && source->fast) hdi_source_flush(source);
    return open ? source : NULL;
}

/* Nobody uses the descriptor any more. */
static int end_source(struct hdi_source *source)
{
    struct hd_runtime *runtime = source->runtime;
    const int err = source->borrowed ? 0 : hdi_sys(runtime, close, source->fd);
    give_slot(source);
    return err;
}

static bool drop_user(struct hdi_source *source)
{
    hdi_lock_take(&source->in.waitable.lock);
    const bool last = --source->users == 0;
    hdi_lock_give(&source->in.waitable.lock);
    return last;
}

void hdi_source_release(struct hdi_source *source)
{
    if (drop_user(source)) (void)end_source(source); /* Who closed it has its answer. */
}

static void unwatch(struct hdi_source *source)
{
    if (source->watched) source->runtime->sys->unwatch(source->runtime, source->fd, source);
    source->watched = false;
    hdi_store_relaxed(&source->lane, NULL); /* It is stale: nobody looks. */
}

int hdi_source_finish(struct hdi_source *source)
{
    unwatch(source); /* Nobody begins to watch a stale one. */
    return drop_user(source) || HDI_MUTANT(source_close_used) ? end_source(source) : 0;
}

/* How a `reader`'s wait may end, beside what ends any. */
enum { READER_TOLD, READER_LENT, READER_CLOSED };

/* It is told of something, whoever else is; there is none any more. Returns whether it was that
 * which ended its wait. Context: in.lock, and there is one. */
static bool tell_reader(struct hdi_source *source, uint32_t how, struct hdi_wakeups *wakeups)
{
    struct hd_task *reader = source->reader;
    const uint32_t phase = HDI_MUTANT(reader_phase_late) ? reader->phase : source->reader_phase;
    if (!HDI_MUTANT(reader_kept)) source->reader = NULL;
    return hdi_waiter_decide_task(reader, phase, how, wakeups);
}

/* Context: the side's lock. */
static void wake_all(struct hdi_source *source, struct hdi_side *side, int result,
                     struct hdi_wakeups *wakeups)
{
    if (side == &source->in && source->reader) {
        hdi_source_fetch_reader(source);
        (void)tell_reader(source, result ? READER_CLOSED : READER_TOLD, wakeups); /* As below. */
        if (HDI_MUTANT(reader_alone)) return;
    }
    for (struct hdi_node *node; (node = hdi_node_pop(&side->waiters));) {
        hdi_node_case(node)->result = result;
        (void)hdi_node_complete(node, wakeups); /* Or it ended otherwise. */
    }
}

int hd_close(hd_io io)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    struct hdi_source *source = hdi_source_of(io);
    if (!source) return -EBADF;
    lock_both(source);
    if (!hdi_source_is(source, io)) {
        unlock_both(source);
        return -EBADF;
    }
    const uint32_t next = (uint32_t)(io.private_ >> 32) + 1;
    if (!HDI_MUTANT(source_stale_late)) hdi_store_relaxed(&source->generation, next); /* SRC-3 */
    hdi_store_relaxed(&source->owner, 0); /* Under a lock. */
    wake_all(source, &source->in, -ECANCELED, &wakeups);
    wake_all(source, &source->out, -ECANCELED, &wakeups);
    const bool sent = hdi_lane_close(source);
    unlock_both(source);
    if (HDI_MUTANT(source_stale_late)) hdi_store_relaxed(&source->generation, next);
    hdi_wakeups_go(&wakeups);
    return sent ? hdi_source_finish(source) : 0;
}

/* ---- of a process ---- */

void hdi_source_give(hd_io io, uint32_t owner)
{
    struct hdi_source *source = hdi_source_of(io);
    if (!source) return;
    lock_both(source);
    if (hdi_source_is(source, io)) hdi_store_relaxed(&source->owner, owner); /* Under a lock. */
    unlock_both(source);
}

/* One that may be the process's: it is looked at again. */
static struct hdi_source *next_owned(struct hd_runtime *runtime, uint32_t owner)
{
    hdi_mutex_lock(&table_lock);
    struct hdi_source *source = runtime->sources;
    while (source && hdi_load_relaxed(&source->owner) != owner) source = source->next; /* A hint. */
    hdi_mutex_unlock(&table_lock);
    return source;
}

void hdi_sources_close(struct hd_runtime *runtime, uint32_t owner)
{
    for (struct hdi_source *source; (source = next_owned(runtime, owner));) {
        lock_both(source);
        const bool is_its = hdi_load_relaxed(&source->owner) == owner; /* Under a lock. */
        const hd_io io = hdi_source_handle(source);
        unlock_both(source);
        if (is_its) (void)hd_close(io); /* Or another thread has. */
    }
}

static struct hdi_source *next_to_end(struct hd_runtime *runtime, bool all)
{
    hdi_mutex_lock(&table_lock);
    struct hdi_source *source = runtime->sources;
    while (source && source->closing && !all) source = source->next;
    hdi_mutex_unlock(&table_lock);
    return source;
}

void hdi_sources_end(struct hd_runtime *runtime, bool all)
{
    for (struct hdi_source *source; (source = next_to_end(runtime, all));) {
        if (source->closing) hdi_lane_abandon(source);
        (void)(source->closing ? hdi_source_finish(source) : hd_close(hdi_source_handle(source)));
    }
}

bool hdi_sources_linger(struct hd_runtime *runtime)
{
    bool more = false;
    for (struct hdi_source *source = runtime->sources, *next; source; source = next) {
        next = source->next;
        if (source->closing) more |= hdi_lane_linger(source);
    }
    return more;
}

/* ---- waiting ---- */

int hdi_side_watch(struct hdi_source *source, struct hdi_side *side)
{
    if (side->armed) return 0;
    hdi_lock_take(&source->watching);
    int err = source->watched ? 0 : hdi_sys(source->runtime, watch, source->fd, source);
    if (!err) source->watched = true;
    hdi_lock_give(&source->watching);
    if (!err && hdi_load_acquire(&source->lane)) err = hdi_lane_arm(source, side); /* V */
    if (!err) side->armed = true;
    if (err) side->ready = true; /* Nobody will tell: the next call is to try. */
    return err;
}

void hdi_side_wake(struct hdi_source *source, struct hdi_side *side, struct hdi_wakeups *wakeups)
{
    wake_all(source, side, 0, wakeups);
}

void hdi_side_tell(struct hdi_source *source, struct hdi_side *side, bool unsure,
                   struct hdi_wakeups *wakeups)
{
    side->ready = true;
    side->unsure |= unsure;
    wake_all(source, side, 0, wakeups);
}

/* SRC-9: with others, what they wait for may have to be asked for again; and what the reader would
 * have found out by trying is known: there is no more. */
static bool may_lend(const struct hdi_source *source)
{
    const struct hdi_side *side = &source->in;
    if (!source->reader || !hdi_list_empty(&side->waiters)) return false;
    if (!source->reader_lends && !HDI_MUTANT(lent_unasked)) return false;
    if (HDI_MUTANT(lent_first)) return true;
    const bool before = source->held > 0 || source->taken || source->taking || source->failed;
    return !before && !side->ready && !side->unsure;
}

static void name_lent(struct hd_task *reader, uint32_t what)
{
    hdi_plain_write(&reader->fiber.lent);
    reader->fiber.lent = what;
}

bool hdi_source_lend(struct hdi_source *source, uint32_t what, struct hdi_wakeups *wakeups)
{
    if (!may_lend(source)) return false;
    struct hd_task *reader = source->reader;
    hdi_source_fetch_reader(source);
    if (!HDI_MUTANT(lent_late)) name_lent(reader, what); /* WAIT-3: it is still there. */
    const bool won = tell_reader(source, READER_LENT, wakeups);
    if (HDI_MUTANT(lent_late)) name_lent(reader, what);
    return won || HDI_MUTANT(lent_blind);
}

static void tell_side(struct hdi_source *source, struct hdi_side *side, hd_io handle, bool unsure,
                      struct hdi_wakeups *wakeups)
{
    hdi_lock_take(&side->waitable.lock);
    if (hdi_source_is(source, handle) || HDI_MUTANT(source_tell_stale)) {
        hdi_side_tell(source, side, unsure, wakeups);
    }
    hdi_lock_give(&side->waitable.lock);
}

void hdi_source_ready(struct hdi_source *source, hd_io handle, unsigned ready,
                      struct hdi_wakeups *wakeups)
{
    const bool unsure = ready & (HDI_READY_HUNG | HDI_READY_URGENT);
    if (ready & HDI_READY_IN) tell_side(source, &source->in, handle, unsure, wakeups);
    if (ready & HDI_READY_OUT) tell_side(source, &source->out, handle, false, wakeups);
}

struct hdi_waitable *hdi_io_waitable(uint64_t handle, bool out)
{
    struct hdi_source *source = source_at((uint32_t)handle);
    if (!source) source = &nowhere;
    return out ? &source->out.waitable : &source->in.waitable;
}

/* What it is ready for, this moment: not for what would stand behind something else. */
static int ask(struct hdi_source *source, unsigned bit)
{
    const bool behind = bit == HDI_READY_OUT && source->sending >= HDI_UNSENT_FLYING; /* out.lock */
    return behind ? 0 : hdi_sys(source->runtime, poll, source->fd);
}

/* Context: the side's lock. Whether it is ready, or cannot be waited for. */
static bool is_ready(hd_case *c, struct hdi_source *source, struct hdi_side *side, unsigned bit)
{
    if (source == &nowhere || !hdi_source_is(source, (hd_io){(uint64_t)c->number})) {
        c->result = -EBADF;
        return true;
    }
    if (bit == HDI_READY_IN && hdi_source_has(source)) {
        c->result = 0;
        return true;
    }
    if (bit == HDI_READY_IN) source->lends = false;
    const int err = source->kind == HDI_SOURCE_FILE ? -EOPNOTSUPP : hdi_side_watch(source, side);
    if (err == -EOPNOTSUPP) { /* Nobody ever waits for it: as poll() has it. */
        c->result = 0;
        return true;
    }
    const int ready = err ? err : side->ready ? ask(source, bit) : 0;
    if (!err) side->ready = ready > 0 && ((unsigned)ready & bit);
    c->result = ready < 0 ? ready : 0;
    return ready < 0 || side->ready;
}

static struct hdi_source *source_of_in(const hd_case *c)
{
    return (struct hdi_source *)((char *)c->object - offsetof(struct hdi_source, in));
}

static bool attempt_readable(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    return is_ready(c, source_of_in(c), c->object, HDI_READY_IN);
}

static bool attempt_writable(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    struct hdi_side *side = c->object;
    struct hdi_source *source =
        (struct hdi_source *)((char *)side - offsetof(struct hdi_source, out));
    return is_ready(c, source, side, HDI_READY_OUT);
}

static bool enqueue(hd_case *c)
{
    hdi_node_enqueue(&((struct hdi_side *)c->object)->waiters, hdi_case_node(c));
    return true;
}

static void dequeue(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    hdi_node_dequeue(hdi_case_node(c));
}

/* A thread that waits in sim drives the runtime the descriptor is of. */
static struct hd_runtime *host(const hd_case *c)
{
    const struct hdi_source *source = source_at((uint32_t)c->number);
    struct hd_runtime *runtime = source ? source->runtime : NULL;
    return runtime && runtime->world->kind == HD_WORLD_SIM ? runtime : NULL;
}

const struct hdi_op hdi_op_readable = {
    .what = "read",
    .attempt = attempt_readable,
    .enqueue = enqueue,
    .dequeue = dequeue,
    .host = host,
};

const struct hdi_op hdi_op_writable = {
    .what = "write",
    .attempt = attempt_writable,
    .enqueue = enqueue,
    .dequeue = dequeue,
    .host = host,
};

static bool attempt_closed(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    const hd_io io = {(uint64_t)c->number};
    const bool open = hdi_source_is(hdi_source_slot(io), io) || HDI_MUTANT(source_closed_unseen);
    if (!open) c->result = -ECANCELED;
    return !open;
}

/* Among those that wait to read: it may be woken for what they wait for. */
static const struct hdi_op op_closed = {
    .what = "see closed",
    .attempt = attempt_closed,
    .enqueue = enqueue,
    .dequeue = dequeue,
    .host = host,
};

hd_case hdi_source_closed(struct hdi_source *source, hd_io io)
{
    hd_case c = HD_CASE_(HD_CASE_READABLE, &source->in, NULL, (int64_t)io.private_);
    hdi_case_node(&c)->op = &op_closed;
    return c;
}

int hdi_source_pause(hd_io io, int64_t until_ns)
{
    struct hdi_source *source = hdi_source_slot(io);
    int err = 0;
    while (!err && hdi_sched_now() < until_ns) {
        hd_case c = hdi_source_closed(source, io);
        struct hdi_wakeups none = HDI_WAKEUPS_INIT;
        hdi_lock_take(&source->in.waitable.lock);
        if (attempt_closed(&c, &none)) {
            hdi_lock_give(&source->in.waitable.lock);
            return c.result;
        }
        err = hdi_wait_locked(&op_closed, &c, until_ns);
    }
    return err == -ETIMEDOUT ? 0 : err;
}

/* Another may be the reader by now. */
static void leave_reader(hd_case *c, struct hdi_wakeups *wakeups)
{
    struct hdi_source *source = source_of_in(c);
    (void)wakeups;
    const bool is_it = source->reader == hdi_task_self() || HDI_MUTANT(reader_blind);
    if (is_it && !HDI_MUTANT(reader_stays)) source->reader = NULL;
}

static const struct hdi_op op_reader = {
    .what = "read",
    .dequeue = leave_reader,
};

/* Most waits, of either side. Functions of their own, with nothing else on the stack, and nothing
 * set that is not read: it is cold when it is needed again. */
static __attribute__((noinline)) int wait_to_read(struct hdi_source *source, hd_io io,
                                                  struct hdi_lent *lent, struct hd_task *task)
{
    struct hdi_waiter waiter;
    hd_case c;
    c.kind = HD_CASE_READABLE;
    c.object = &source->in;
    c.number = (int64_t)io.private_;
    hdi_case_node(&c)->op = &op_reader;
    waiter.kind = HDI_WAITER_FIBER;
    waiter.task = task;
    waiter.phase = task->phase;
    waiter.cases = &c;
    waiter.count = 1;
    source->reader = task; /* SRC-8 */
    source->reader_phase = task->phase;
    source->reader_lends = lent;
    if (lent) lent->lane = hdi_load_relaxed(&source->lane); /* V: hdi_side_watch() saw to it. */
    source->reader_frame = (const char *)&waiter;
    hdi_lock_give(&source->in.waitable.lock);
    const int which = hdi_waiter_sleep_fiber(&waiter, true);
    if (hdi_likely(which == READER_LENT) && lent) {
        hdi_plain_read(&task->fiber.lent);
        lent->what = task->fiber.lent;
        return 1;
    }
    if (hdi_likely(which == READER_TOLD)) return 0;
    return which == READER_CLOSED ? -ECANCELED : hdi_wait_left(&c, which);
}

static __attribute__((noinline)) int wait_to_write(struct hdi_side *side, hd_io io,
                                                   struct hd_task *task)
{
    hd_case c;
    c.kind = HD_CASE_WRITABLE;
    c.object = side;
    c.number = (int64_t)io.private_;
    return hdi_wait_fiber(&hdi_op_writable, &c, task);
}

static __attribute__((noinline)) int wait_otherwise(struct hdi_side *side, bool out, hd_io io,
                                                    int64_t deadline)
{
    hd_case c = HD_CASE_(out ? HD_CASE_WRITABLE : HD_CASE_READABLE, side, NULL,
                         (int64_t)io.private_);
    return hdi_wait_locked(out ? &hdi_op_writable : &hdi_op_readable, &c, deadline);
}

int hdi_source_wait(struct hdi_source *source, struct hdi_side *side, hd_io io,
                    struct hdi_lent *lent, int64_t deadline)
{
    const bool out = side == &source->out;
    const int err = hdi_side_watch(source, side);
    if (err) {
        hdi_lock_give(&side->waitable.lock);
        return err;
    }
    struct hd_task *task = deadline == HD_FOREVER ? hdi_task_self() : NULL;
    if (!task || task->kind != HDI_TASK_FIBER || (!out && source->reader)) {
        return wait_otherwise(side, out, io, deadline);
    }
    return out ? wait_to_write(side, io, task) : wait_to_read(source, io, lent, task);
}

ssize_t hdi_source_do(hd_io io, bool out, hdi_try_fn *try_it, void *arg, size_t all,
                      int64_t deadline)
{
    return hdi_source_do_at(hdi_source_of(io), io, out, try_it, arg, all, NULL, deadline);
}
