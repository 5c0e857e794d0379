/* SPDX-License-Identifier: MIT
 *
 * semaphore: permits, handed out in the order they were asked for.
 *
 *   63         2    1        0
 *   | permits | CLOSED | WAITERS |
 *
 * While nobody waits, acquiring and releasing are one CAS each. With WAITERS set both go
 * through the lock, and who releases gives what is there to the first in the queue, as long
 * as it suffices.
 *
 *   acquirer                                releaser
 *   1. take the lock                        1. WAITERS clear: CAS permits up: done
 *   2. CAS the word: enough, and nobody     2. take the lock
 *      waits: have them; else set WAITERS   3. add; while the first in the queue can have
 *   3. queue the node                          what it wants: take it out, decide its wait
 *   4. give the lock; sleep                 4. give the lock, wake
 *
 *   SEM-1  While WAITERS is set the word changes under the lock only.
 *   SEM-2  After the lock is given the first in the queue wants more than there is.
 *   SEM-3  WAITERS is set whenever the queue is not empty; if it is set for nobody, whoever
 *          takes the lock next clears it.
 *
 * Edges: R (release) -> A (acquire), on the word; a hand-over is ordered by the decision.
 *
 * Rejected  barging, as the mutex does it: a request for many would starve.
 */
#include <errno.h>

#include <heddle/sync.h>

#include "sync/ops.h"
#include "sync/spin.h"
#include "sync/waitq.h"

#define WAITERS   UINT64_C(1)
#define CLOSED    UINT64_C(2)
#define PERMIT    UINT64_C(4)
#define FLAGS     (WAITERS | CLOSED)
#define PERMITS(word) ((word) / PERMIT)

struct hdi_sem {
    struct hdi_waitable base;
    _Atomic(uint16_t) spins; /* sync/spin.h */
    _Atomic(uint64_t) word;
    struct hdi_list queue;   /* under base.lock */
};
_Static_assert(sizeof(struct hdi_sem) <= sizeof(hd_sem), "hd_sem holds it");
_Static_assert(offsetof(struct hdi_sem, word) == 8 && PERMIT == 1 << 2, "HD_SEM_INIT knows it");

static struct hdi_sem *sem_of(hd_sem *sem)
{
    return (struct hdi_sem *)sem;
}

/* ---- releasing ---- */

/* Give what there is to those who wait. Context: the lock; WAITERS is set, and `word` is what
 * the word is to become, apart from this (SEM-1). */
static void hand_out(struct hdi_sem *s, uint64_t word, struct hdi_wakeups *wakeups)
{
    for (struct hdi_node *node; (node = hdi_waitq_first(&s->queue));) {
        const uint64_t wants = node->small[0] * PERMIT;
        if (word < wants) break;
        hdi_node_dequeue(node);
        if (hdi_waitq_complete(node, 0, wakeups)) word -= wants;
    }
    if (hdi_waitq_empty(&s->queue)) word &= ~WAITERS;
    hdi_store_release(&s->word, word); /* R */
}

static bool has_room(uint64_t word, uint32_t permits)
{
    return PERMITS(word) + permits <= HD_SEM_MAX;
}

/* Add while nobody waits. Returns false if somebody does, or there is no room: *seen tells. */
static inline bool add(struct hdi_sem *s, uint32_t permits, uint64_t *seen)
{
    *seen = hdi_load_relaxed(&s->word); /* The CAS checks it. */
    for (unsigned lost = 0; !(*seen & WAITERS) && has_room(*seen, permits);) {
        if (hdi_cas_release(&s->word, seen, *seen + permits * PERMIT)) return true; /* R */
        hdi_back_off(&lost);
    }
    return false;
}

static __attribute__((noinline)) int release_slow(struct hdi_sem *s, uint32_t permits)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    uint64_t seen;
    hdi_lock_take(&s->base.lock);
    const bool added = add(s, permits, &seen);
    const bool room = added || has_room(seen, permits);
    if (!added && room) hand_out(s, seen + permits * PERMIT, &wakeups);
    hdi_lock_give(&s->base.lock);
    hdi_wakeups_go(&wakeups);
    return room ? 0 : -EOVERFLOW;
}

int hd_sem_release(hd_sem *sem, uint32_t permits)
{
    hdi_point(sem);
    struct hdi_sem *s = sem_of(sem);
    uint64_t seen;
    if (hdi_likely(add(s, permits, &seen))) return 0;
    return seen & WAITERS ? release_slow(s, permits) : -EOVERFLOW;
}

/* ---- acquiring ---- */

/* Have them if nobody waits. *seen is what was there. */
static inline bool take(struct hdi_sem *s, uint32_t permits, uint64_t *seen)
{
    *seen = hdi_load_relaxed(&s->word); /* The CAS checks it. */
    for (unsigned lost = 0; !(*seen & FLAGS) && PERMITS(*seen) >= permits;) {
        if (hdi_cas_acquire(&s->word, seen, *seen - permits * PERMIT)) return true; /* A */
        hdi_back_off(&lost);
    }
    return false;
}

/* Have them, or be known to wait. Context: the lock. Returns false if to wait; otherwise
 * *result says how it went. */
static bool take_or_register(struct hdi_sem *s, uint32_t permits, int *result)
{
    uint64_t seen = hdi_load_relaxed(&s->word); /* The CAS checks it, or SEM-1 holds. */
    const bool nobody = hdi_waitq_empty(&s->queue);
    for (;;) {
        *result = seen & CLOSED ? -EPIPE : 0;
        if (*result) return true;
        if (!nobody) return false; /* SEM-3: WAITERS is set. */
        const bool had = PERMITS(seen) >= permits;
        if (HDI_MUTANT(sem_flag_late) && !had) return false;
        const uint64_t to = had ? (seen & ~WAITERS) - permits * PERMIT : seen | WAITERS;
        if (hdi_cas_acq_rel(&s->word, &seen, to)) return had; /* A */
    }
}

/* A moment's wait, while nobody else waits. */
static bool spin(struct hdi_sem *s, uint32_t permits, uint64_t *seen)
{
    struct hdi_spin spin = hdi_spin_begin(&s->spins, HD_FOREVER);
    bool had = false;
    while (!had && !(*seen & FLAGS) && hdi_spin_again(&spin)) had = take(s, permits, seen);
    hdi_spin_end(&spin, had);
    return had;
}

static __attribute__((noinline)) int acquire_slow(struct hdi_sem *s, uint32_t permits,
                                                  uint64_t seen, int64_t deadline)
{
    if (permits > HD_SEM_MAX) return -EINVAL;
    if (!(seen & FLAGS)) {
        if (deadline == HD_NOW) return -EAGAIN;
        if (spin(s, permits, &seen)) return 0;
    }
    int result;
    hdi_lock_take(&s->base.lock);
    if (take_or_register(s, permits, &result)) {
        hdi_lock_give(&s->base.lock);
        return result;
    }
    hd_case c;
    hdi_waitq_case(&c, s, permits);
    return hdi_wait_locked(&hdi_op_acquire, &c, deadline);
}

int hd_sem_acquire_until(hd_sem *sem, uint32_t permits, int64_t deadline)
{
    struct hdi_sem *s = sem_of(sem);
    const int err = hdi_wait_enter(deadline, s);
    if (hdi_unlikely(err)) return err;
    uint64_t seen;
    if (hdi_likely(take(s, permits, &seen))) return 0;
    return acquire_slow(s, permits, seen, deadline);
}

int hd_sem_acquire(hd_sem *sem, uint32_t permits)
{
    return hd_sem_acquire_until(sem, permits, HD_FOREVER);
}

int hd_sem_acquire_try(hd_sem *sem, uint32_t permits)
{
    return hd_sem_acquire_until(sem, permits, HD_NOW);
}

/* ---- the case ---- */

static bool acquire_attempt(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    if (c->number < 0 || c->number > HD_SEM_MAX) {
        c->result = -EINVAL;
        return true;
    }
    hdi_case_node(c)->small[0] = (uint64_t)c->number;
    return take_or_register(c->object, (uint32_t)c->number, &c->result);
}

static bool acquire_enqueue(hd_case *c)
{
    struct hdi_sem *s = c->object;
    hdi_case_node(c)->small[0] = (uint64_t)c->number;
    hdi_waitq_push(&s->queue, hdi_case_node(c));
    return true;
}

/* The one behind it may be content with less. */
static void acquire_dequeue(hd_case *c, struct hdi_wakeups *wakeups)
{
    struct hdi_sem *s = c->object;
    hdi_node_dequeue(hdi_case_node(c));
    const uint64_t word = hdi_load_relaxed(&s->word); /* SEM-1: the lock orders it. */
    if (word & WAITERS) hand_out(s, word, wakeups);
}

static void acquire_unused(hd_case *c)
{
    if (c->result == 0) (void)hd_sem_release(c->object, (uint32_t)c->number);
}

const struct hdi_op hdi_op_acquire = {
    .what = "acquire from semaphore",
    .attempt = acquire_attempt,
    .enqueue = acquire_enqueue,
    .dequeue = acquire_dequeue,
    .unused = acquire_unused,
};

/* ---- the rest ---- */

uint32_t hd_sem_permits(const hd_sem *sem)
{
    return (uint32_t)PERMITS(hdi_load_relaxed(&((struct hdi_sem *)sem)->word));
}

void hd_sem_close(hd_sem *sem)
{
    hdi_point(sem);
    struct hdi_sem *s = sem_of(sem);
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&s->base.lock);
    (void)hdi_fetch_or_acq_rel(&s->word, CLOSED);
    (void)hdi_fetch_and_acq_rel(&s->word, ~WAITERS);
    hdi_waitq_complete_all(&s->queue, -EPIPE, &wakeups);
    hdi_lock_give(&s->base.lock);
    hdi_wakeups_go(&wakeups);
}

int hd_sem_init(hd_sem *sem, uint32_t permits)
{
    if (permits > HD_SEM_MAX) return -EOVERFLOW;
    memset(sem, 0, sizeof(*sem));
    hdi_store_relaxed(&sem_of(sem)->word, permits * PERMIT); /* not shared yet */
    return 0;
}

void hd_sem_fini(hd_sem *sem)
{
    hdi_gone(sem);
    struct hdi_sem *s = sem_of(sem);
    hdi_lock_take(&s->base.lock);
    const bool used = !hdi_waitq_empty(&s->queue);
    hdi_lock_give(&s->base.lock);
    HD_CHECK_MSG(!used, "a semaphore ends while it is waited for");
}
