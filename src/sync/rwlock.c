/* SPDX-License-Identifier: MIT
 *
 * rwlock: many readers or one writer, in phases.
 *
 *   63                              3    2       1        0
 *   | the writer, or count of readers |      | WRITER | WAITERS |
 *
 * While nobody waits every operation is one CAS. Once somebody does, nobody comes in but by
 * being let in: when the last reader leaves, the first writer of the queue; when a writer
 * leaves, all readers that wait, or else the next writer. So both sides go on: phases
 * alternate as long as both wait, and none of them grows once the other side waits.
 *
 *   locker                                  unlocker
 *   1. take the lock                        1. WAITERS clear, or other readers are inside:
 *   2. CAS the word: can have it: done;        CAS the own part away: done
 *      else set WAITERS                     2. take the lock
 *   3. queue the node                       3. set the word to who comes next, take their
 *   4. give the lock; sleep                    nodes out, decide their waits
 *                                           4. give the lock, wake
 *
 *   RW-1  WAITERS is set whenever a queue is not empty. While it is set nobody comes in
 *         without the lock, though readers leave as long as others stay.
 *   RW-2  It is set only while the lock is held, by the CAS that saw that. If it is set for
 *         nobody (a look, a cancel), whoever leaves last clears it, and others still come in.
 *   RW-3  After the word names others the unlocker touches nothing but the lock, for which
 *         hd_rwlock_fini() waits.
 *
 * Edges: U (release) -> L (acquire), on the word; letting in is ordered by the decision.
 *
 * Rejected
 *   One queue in order of arrival: readers and writers that come by turns are then let in one
 *   at a time.
 *   Knowing the readers, to find recursion: a list that every reader changes.
 */
#include <errno.h>

#include <heddle/sync.h>

#include "sync/ops.h"
#include "sync/waitq.h"

#define WAITERS UINT64_C(1)
#define WRITER  UINT64_C(2)
#define READER  UINT64_C(8) /* one */
#define READERS(word) ((word) / READER)
#define READERS_MAX   UINT64_C(0xffffffff)

struct hdi_rwlock {
    struct hdi_waitable base;
    _Atomic(uint64_t) word;
    struct hdi_list readers, writers; /* under base.lock */
};
_Static_assert(sizeof(struct hdi_rwlock) <= sizeof(hd_rwlock), "hd_rwlock holds it");

static struct hdi_rwlock *rwlock_of(hd_rwlock *rwlock)
{
    return (struct hdi_rwlock *)rwlock;
}

static bool anyone_waits(const struct hdi_rwlock *rw)
{
    return !hdi_waitq_empty(&rw->readers) || !hdi_waitq_empty(&rw->writers);
}

static bool is_writer(uint64_t word, uint64_t who)
{
    return (word & WRITER) && (word & ~HDI_HOLDER_FLAGS) == who;
}

/* ---- letting in: under the lock ---- */

/* WAITERS as it should be. The caller is inside, so the lock is held (RW-2). */
static void update_waiters(struct hdi_rwlock *rw)
{
    if (!anyone_waits(rw)) (void)hdi_fetch_and_acq_rel(&rw->word, ~WAITERS);
}

/* All readers that wait. The caller counts as a reader. */
static void admit_readers(struct hdi_rwlock *rw, struct hdi_wakeups *wakeups)
{
    for (struct hdi_node *node; (node = hdi_waitq_pop(&rw->readers));) {
        (void)hdi_fetch_add_acq_rel(&rw->word, READER); /* first: it may be gone again soon */
        if (hdi_waitq_complete(node, 0, wakeups)) continue;
        (void)hdi_fetch_sub_acq_rel(&rw->word, READER);
    }
    update_waiters(rw);
}

/* The next writer, in place of the caller, who is alone inside, with WAITERS set: nobody
 * else changes the word. Returns false if there is none. */
static bool admit_writer(struct hdi_rwlock *rw, struct hdi_wakeups *wakeups)
{
    for (struct hdi_node *node; (node = hdi_waitq_pop(&rw->writers));) {
        const uint64_t rest = anyone_waits(rw) ? WAITERS : 0;
        hdi_store_release(&rw->word, node->small[0] | WRITER | rest); /* U */
        if (hdi_waitq_complete(node, 0, wakeups)) return true;
    }
    return false;
}

/* The caller, a reader, leaves. */
static void leave_read(struct hdi_rwlock *rw, struct hdi_wakeups *wakeups)
{
    /* Acquire: the writer is ordered after all readers by the last of them. */
    uint64_t seen = HDI_MUTANT(rwlock_last_relaxed) ? hdi_load_relaxed(&rw->word)
                                                    : hdi_load_acquire(&rw->word); /* U -> */
    for (;;) {
        if (READERS(seen) > 1 || !(seen & WAITERS)) {
            if (hdi_cas_acq_rel(&rw->word, &seen, seen - READER)) return; /* U */
            continue;
        }
        if (admit_writer(rw, wakeups)) return;
        /* Only readers are left, if any: the writers they waited for have given up. */
        hdi_store_release(&rw->word, READER | WAITERS);
        admit_readers(rw, wakeups);
        seen = hdi_load_acquire(&rw->word); /* U -> */
    }
}

/* The caller, the writer, leaves: first it is a reader like those it lets in. */
static void leave_write(struct hdi_rwlock *rw, struct hdi_wakeups *wakeups)
{
    hdi_store_release(&rw->word, READER | WAITERS); /* U; RW-1: nobody else changes it */
    admit_readers(rw, wakeups);
    leave_read(rw, wakeups);
}

/* ---- unlocking ---- */

static bool is_read(uint64_t word)
{
    return !(word & WRITER) && READERS(word) > 0;
}

static __attribute__((noinline)) void read_unlock_slow(struct hdi_rwlock *rw)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&rw->base.lock);
    leave_read(rw, &wakeups);
    hdi_lock_give(&rw->base.lock);
    hdi_wakeups_go(&wakeups);
}

void hd_rwlock_read_unlock(hd_rwlock *rwlock)
{
    hdi_point(rwlock);
    struct hdi_rwlock *rw = rwlock_of(rwlock);
    uint64_t seen = hdi_load_relaxed(&rw->word); /* The CAS checks it. */
    do {
        HD_CHECK_MSG(is_read(seen), "a lock is unlocked for reading that nobody reads");
        if (hdi_unlikely((seen & WAITERS) && READERS(seen) == 1)) {
            read_unlock_slow(rw);
            return;
        }
    } while (!hdi_cas_release(&rw->word, &seen, seen - READER)); /* U */
}

static __attribute__((noinline)) void write_unlock_slow(struct hdi_rwlock *rw, uint64_t self)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    HD_CHECK_MSG(is_writer(hdi_load_relaxed(&rw->word), self),
                 "a lock is unlocked for writing by one who does not write");
    hdi_lock_take(&rw->base.lock);
    leave_write(rw, &wakeups);
    hdi_lock_give(&rw->base.lock);
    hdi_wakeups_go(&wakeups);
}

static void write_unlock_as(struct hdi_rwlock *rw, uint64_t self)
{
    uint64_t seen = self | WRITER;
    if (hdi_likely(hdi_cas_release(&rw->word, &seen, 0))) return; /* U */
    write_unlock_slow(rw, self);
}

void hd_rwlock_write_unlock(hd_rwlock *rwlock)
{
    hdi_point(rwlock);
    write_unlock_as(rwlock_of(rwlock), hdi_holder_self());
}

/* ---- locking ---- */

/* What the word becomes if `who` comes in; 0 if it cannot. Under the lock the queues tell who
 * waits, not the flag. */
static uint64_t with_reader(const struct hdi_rwlock *rw, uint64_t word)
{
    return (word & WRITER) || !hdi_waitq_empty(&rw->writers) ? 0 : word + READER;
}

static uint64_t with_writer(uint64_t word, uint64_t who)
{
    return word ? 0 : who | WRITER;
}

static int refusal(uint64_t word, uint64_t who, bool write)
{
    if (is_writer(word, who)) return -EDEADLK;
    return !write && !(word & WRITER) && READERS(word) >= READERS_MAX ? -EOVERFLOW : 0;
}

/* Come in, or be known to wait. Context: the lock. Returns false if to wait; otherwise
 * *result says how it went. */
static bool enter_or_register(struct hdi_rwlock *rw, uint64_t who, bool write, int *result)
{
    uint64_t seen = hdi_load_relaxed(&rw->word); /* The CAS checks it. */
    for (;;) {
        *result = refusal(seen, who, write);
        if (*result) return true;
        const uint64_t inside = write ? with_writer(seen, who) : with_reader(rw, seen);
        const uint64_t to = inside ? inside : seen | WAITERS; /* RW-2: seen is not 0. */
        if (hdi_cas_acq_rel(&rw->word, &seen, to)) return inside != 0; /* L */
    }
}

static __attribute__((noinline)) int lock_slow(struct hdi_rwlock *rw, uint64_t self, bool write,
                                               int64_t deadline)
{
    int result;
    hdi_lock_take(&rw->base.lock);
    if (enter_or_register(rw, self, write, &result)) {
        hdi_lock_give(&rw->base.lock);
        return result;
    }
    hd_case c;
    hdi_waitq_case(&c, rw, 0);
    return hdi_wait_locked(write ? &hdi_op_write_lock : &hdi_op_read_lock, &c, deadline);
}

int hd_rwlock_read_lock_until(hd_rwlock *rwlock, int64_t deadline)
{
    struct hdi_rwlock *rw = rwlock_of(rwlock);
    const int err = hdi_wait_enter(deadline, rw);
    if (hdi_unlikely(err)) return err;
    uint64_t seen = hdi_load_relaxed(&rw->word); /* The CAS checks it. */
    while (hdi_likely(!(seen & (WAITERS | WRITER)) && READERS(seen) < READERS_MAX)) {
        if (hdi_cas_acquire(&rw->word, &seen, seen + READER)) return 0; /* L */
    }
    return lock_slow(rw, hdi_holder_self(), false, deadline);
}

int hd_rwlock_write_lock_until(hd_rwlock *rwlock, int64_t deadline)
{
    struct hdi_rwlock *rw = rwlock_of(rwlock);
    struct hd_task *task = hdi_task_self();
    const int err = hdi_waitq_enter(task, deadline, rw);
    if (hdi_unlikely(err)) return err;
    const uint64_t self = hdi_holder_of(task);
    uint64_t seen = 0;
    if (hdi_likely(hdi_cas_acquire(&rw->word, &seen, self | WRITER))) return 0; /* L */
    return lock_slow(rw, self, true, deadline);
}

int hd_rwlock_read_lock(hd_rwlock *rwlock)
{
    return hd_rwlock_read_lock_until(rwlock, HD_FOREVER);
}

int hd_rwlock_read_lock_try(hd_rwlock *rwlock)
{
    return hd_rwlock_read_lock_until(rwlock, HD_NOW);
}

int hd_rwlock_write_lock(hd_rwlock *rwlock)
{
    return hd_rwlock_write_lock_until(rwlock, HD_FOREVER);
}

int hd_rwlock_write_lock_try(hd_rwlock *rwlock)
{
    return hd_rwlock_write_lock_until(rwlock, HD_NOW);
}

/* ---- the cases ---- */

static bool attempt_as(hd_case *c, bool write)
{
    const uint64_t self = hdi_holder_self();
    hdi_case_node(c)->small[0] = self;
    return enter_or_register(c->object, self, write, &c->result);
}

static bool read_attempt(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    return attempt_as(c, false);
}

static bool write_attempt(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    return attempt_as(c, true);
}

static bool read_enqueue(hd_case *c)
{
    struct hdi_rwlock *rw = c->object;
    hdi_waitq_push(&rw->readers, hdi_case_node(c));
    return true;
}

static bool write_enqueue(hd_case *c)
{
    struct hdi_rwlock *rw = c->object;
    struct hdi_node *node = hdi_case_node(c);
    node->small[0] = hdi_holder_of_node(node);
    hdi_waitq_push(&rw->writers, node);
    return true;
}

/* Without a writer that waits, readers need not wait for readers. */
static void any_dequeue(hd_case *c, struct hdi_wakeups *wakeups)
{
    struct hdi_rwlock *rw = c->object;
    hdi_node_dequeue(hdi_case_node(c));
    uint64_t seen = hdi_load_relaxed(&rw->word); /* The CAS checks it. */
    if (!hdi_waitq_empty(&rw->writers)) return;
    if (hdi_waitq_empty(&rw->readers)) {
        (void)hdi_fetch_and_acq_rel(&rw->word, ~WAITERS);
        return;
    }
    while (is_read(seen)) {
        if (!hdi_cas_acq_rel(&rw->word, &seen, seen + READER)) continue;
        admit_readers(rw, wakeups);
        leave_read(rw, wakeups);
        return;
    }
}

static void read_unused(hd_case *c)
{
    if (c->result == 0) hd_rwlock_read_unlock(c->object);
}

static void write_unused(hd_case *c)
{
    if (c->result == 0) write_unlock_as(c->object, hdi_case_node(c)->small[0]);
}

const struct hdi_op hdi_op_read_lock = {
    .what = "lock for reading",
    .attempt = read_attempt,
    .enqueue = read_enqueue,
    .dequeue = any_dequeue,
    .unused = read_unused,
};

const struct hdi_op hdi_op_write_lock = {
    .what = "lock for writing",
    .attempt = write_attempt,
    .enqueue = write_enqueue,
    .dequeue = any_dequeue,
    .unused = write_unused,
};

/* ---- the rest ---- */

void hd_rwlock_init(hd_rwlock *rwlock)
{
    memset(rwlock, 0, sizeof(*rwlock));
}

void hd_rwlock_fini(hd_rwlock *rwlock)
{
    hdi_gone(rwlock);
    struct hdi_rwlock *rw = rwlock_of(rwlock);
    hdi_lock_take(&rw->base.lock); /* RW-3 */
    const bool used = (hdi_load_relaxed(&rw->word) & ~WAITERS) || anyone_waits(rw);
    hdi_lock_give(&rw->base.lock);
    HD_CHECK_MSG(!used, "a reader-writer lock ends while it is held or waited for");
}
