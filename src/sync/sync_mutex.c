/* SPDX-License-Identifier: MIT
 *
 * sync_mutex: one holder at a time; fast while nobody waits, fast while many want it, and nobody
 * waits for ever.
 *
 *   63                                  3   2          1       0
 *   | holder: a task, or a thread; 0: free | STARVING | WOKEN | WAITERS |
 *
 * Normally the lock is not handed over: it is released, one waiter is woken, and whoever
 * comes first has it, usually somebody who is running anyway. While a woken waiter, or one
 * that spins, is on its way (WOKEN), no other is woken. Barging costs the waiter its turn; it
 * goes back to the front of the queue, and once it has waited STARVING_NS, or was woken
 * LOST_MAX times in vain, it sets STARVING: from then on every unlock hands the lock to the
 * first of the queue. A new holder that waited less than that ends this state. A select is
 * always handed the lock, since it cannot try again.
 *
 * A woken waiter may stand in the queue of the very worker that a barging fiber does not
 * leave. So after BARGES_MAX such locks one of those who barge yields first.
 *
 * The flags are in the word that a lock or unlock changes by a CAS, so neither can miss the
 * other, on any machine:
 *
 *   locker                                  unlocker
 *   1. take the queue's lock                1. CAS holder -> 0: done, if there was no flag
 *   2. CAS the word: free? then have it;    2. WOKEN and not STARVING: CAS the holder away,
 *      else set WAITERS (and clear the         leaving the flags: done
 *      WOKEN that was ours)                 3. take the queue's lock
 *   3. queue the node                       4. take the first node out, decide its wait
 *   4. give the queue's lock; sleep         5. set the word: free and WOKEN, or the new
 *                                              holder (that before 4.: it runs at once)
 *                                           6. give the queue's lock, wake
 *
 *   MUTEX-1  WAITERS is set whenever the queue is not empty and its lock is free. WAITERS and
 *            STARVING are set only while the mutex is held, so who holds it sees to them.
 *   MUTEX-2  WOKEN is set only with somebody on the way who will clear it, by the CAS that
 *            takes the mutex or that queues it again. Clearing another's is harmless: one
 *            more is woken.
 *   MUTEX-3  After the word says free or names another holder, the unlocker touches nothing
 *            but the queue's lock, for which hd_mutex_fini() waits.
 *
 * Edges: U (release) -> L (acquire), on the word; a hand-over is ordered by the decision.
 *
 * Rejected
 *   Handing over always (Tokio's way): every contended lock is then two task switches.
 *   Spinning only while the holder runs: it may be gone before one has looked (sync/spin.h).
 */
#include "sync/sync_mutex.h"

#include <errno.h>

#include "sync/ops.h"
#include "sync/spin.h"

#define WAITERS  UINT64_C(1)
#define WOKEN    UINT64_C(2)
#define STARVING UINT64_C(4)
#define HOLDER   (~HDI_HOLDER_FLAGS)

enum {
    STARVING_NS = 1000000,
    LOST_MAX = HDI_MODEL ? 2 : 8,
    BARGES_MAX = HDI_MODEL ? 2 : 256,
};

/* One who wants the mutex. */
struct contender {
    uint64_t self;
    int64_t since_ns; /* of its first sleep */
    unsigned lost;    /* times it was woken in vain */
    bool slept;
    bool awoke;       /* a WOKEN is its own */
    bool starving;
};

/* ---- locking ---- */

static bool take(struct hdi_sync_mutex *m, const struct contender *me, uint64_t *seen)
{
    const uint64_t flags = me->awoke ? *seen & ~WOKEN : *seen;
    return hdi_cas_acquire(&m->word, seen, flags | me->self); /* L */
}

static bool waited_long(const struct contender *me)
{
    return hdi_sched_now() - me->since_ns > STARVING_NS;
}

/* Have it, or be known to wait for it. Context: the queue's lock. */
static bool take_or_register(struct hdi_sync_mutex *m, const struct contender *me)
{
    uint64_t seen = hdi_load_relaxed(&m->word); /* The CAS checks it. */
    for (;;) {
        if ((seen & HOLDER) == 0) {
            if (take(m, me, &seen)) return true;
            continue;
        }
        uint64_t to = seen | WAITERS | (me->starving ? STARVING : 0);
        if (me->awoke && !HDI_MUTANT(mutex_woken_kept)) to &= ~WOKEN;
        if (hdi_cas_acq_rel(&m->word, &seen, to)) return false; /* MUTEX-1 */
    }
}

/* It was handed over: whether it goes on like that depends on how long we waited. */
static void was_given(struct hdi_sync_mutex *m, const struct contender *me)
{
    if ((hdi_load_relaxed(&m->word) & STARVING) && !waited_long(me)) {
        (void)hdi_fetch_and_acq_rel(&m->word, ~STARVING); /* Ours: we hold the mutex. */
    }
}

static const struct hdi_op op_turn;

/* Sleep until it is our turn. Returns: 0: we have it; -EAGAIN: try; or why it ended. */
static int sleep_for_turn(struct hdi_sync_mutex *m, struct contender *me, int64_t deadline,
                          bool always)
{
    if (!me->slept) {
        me->slept = true;
        me->since_ns = hdi_sched_now();
    } else {
        me->starving = ++me->lost >= LOST_MAX || waited_long(me);
    }
    hdi_lock_take(&m->base.lock);
    if (take_or_register(m, me)) {
        hdi_lock_give(&m->base.lock);
        return 0;
    }
    me->awoke = false;
    hd_case c;
    hdi_waitq_case(&c, m, me->lost);
    const int err = always ? hdi_wait_locked_always(&op_turn, &c)
                           : hdi_wait_locked(&op_turn, &c, deadline);
    if (err == 0) was_given(m, me);
    return err;
}

/* Returns whether to look at the mutex again, rather than sleep. While we spin nobody need
 * be woken. */
static bool spin_again(struct hdi_sync_mutex *m, struct contender *me, struct hdi_spin *spin,
                       uint64_t seen)
{
    if (spin->rounds == 0 || (seen & STARVING)) return false;
    if (!me->awoke && (seen & (WAITERS | WOKEN)) == WAITERS) {
        me->awoke = hdi_cas_acq_rel(&m->word, &seen, seen | WOKEN); /* MUTEX-2 */
    }
    return hdi_spin_again(spin);
}

/* We took it while one who was woken for it is on its way. Returns whether to keep it;
 * otherwise it was let go, so that those who are ready run first. Context: the holder. */
static bool may_barge(struct hdi_sync_mutex *m, uint64_t self, int64_t deadline)
{
    if (++m->barges < BARGES_MAX || deadline == HD_NOW) return true;
    m->barges = 0;
    hdi_sync_mutex_unlock_as(m, self);
    hd_yield();
    return false;
}

static __attribute__((noinline)) int lock_slow(struct hdi_sync_mutex *m, uint64_t self,
                                               int64_t deadline, bool always)
{
    struct contender me = {.self = self};
    struct hdi_spin spin = hdi_spin_begin(&m->spins, deadline);
    for (;;) {
        uint64_t seen;
        do {
            seen = hdi_load_relaxed(&m->word); /* take() checks it. */
            while ((seen & HOLDER) == 0) {
                if (!take(m, &me, &seen)) continue;
                hdi_spin_end(&spin, true);
                if (me.awoke || !(seen & WOKEN) || may_barge(m, self, deadline)) return 0;
                seen = hdi_load_relaxed(&m->word);
            }
            if ((seen & HOLDER) == self) return -EDEADLK;
            if (deadline == HD_NOW) return -EAGAIN;
        } while (spin_again(m, &me, &spin, seen));
        hdi_spin_end(&spin, false);
        const int err = sleep_for_turn(m, &me, deadline, always);
        if (err != -EAGAIN) return err;
        me.awoke = true; /* MUTEX-2: set by the unlock that woke us */
        hdi_spin_again_from(&spin);
    }
}

static __attribute__((noinline)) int lock_barged(struct hdi_sync_mutex *m, uint64_t self,
                                                 int64_t deadline)
{
    return may_barge(m, self, deadline) ? 0 : lock_slow(m, self, deadline, false);
}

int hd_mutex_lock_until(hd_mutex *mutex, int64_t deadline)
{
    struct hdi_sync_mutex *m = hdi_sync_mutex_of(mutex);
    struct hd_task *task = hdi_task_self();
    const int err = hdi_waitq_enter(task, deadline, m);
    if (hdi_unlikely(err)) return err;
    const uint64_t self = hdi_holder_of(task);
    uint64_t seen = hdi_load_relaxed(&m->word); /* The CAS checks it. */
    const bool had = (seen & HOLDER) == 0 && hdi_cas_acquire(&m->word, &seen, seen | self); /* L */
    if (hdi_likely(had && !(seen & WOKEN))) return 0;
    return had ? lock_barged(m, self, deadline) : lock_slow(m, self, deadline, false);
}

int hd_mutex_lock(hd_mutex *mutex)
{
    return hd_mutex_lock_until(mutex, HD_FOREVER);
}

int hd_mutex_lock_try(hd_mutex *mutex)
{
    return hd_mutex_lock_until(mutex, HD_NOW);
}

int hdi_sync_mutex_lock_always(struct hdi_sync_mutex *m, uint64_t self)
{
    uint64_t seen = 0;
    if (hdi_likely(hdi_cas_acquire(&m->word, &seen, self))) return 0; /* L */
    return lock_slow(m, self, HD_FOREVER, true);
}

/* ---- unlocking ---- */

/* Change all but WOKEN, which a spinner may set meanwhile. Context: the queue's lock, and
 * the caller holds the mutex, or has just written another holder there. */
static void set_word(struct hdi_sync_mutex *m, uint64_t seen, uint64_t to)
{
    while (!hdi_cas_acq_rel(&m->word, &seen, to | (seen & WOKEN))) continue; /* U */
}

/* The mutex goes to the owner of the node, who may run from then on. Returns false if it
 * has left; then the word is still the caller's to set. */
static bool give_to(struct hdi_sync_mutex *m, struct hdi_node *node, uint64_t seen,
                    struct hdi_wakeups *wakeups)
{
    const uint64_t rest = hdi_waitq_empty(&m->queue) ? 0 : WAITERS | (seen & STARVING);
    set_word(m, seen, node->small[0] | rest);
    return hdi_waitq_complete(node, 0, wakeups);
}

/* Wake the owner of the node, who will try. Returns false if it has left. */
static bool wake(struct hdi_sync_mutex *m, struct hdi_node *node, uint64_t seen,
                 struct hdi_wakeups *wakeups)
{
    if (!hdi_waitq_complete(node, -EAGAIN, wakeups)) return false;
    set_word(m, seen, WOKEN | (hdi_waitq_empty(&m->queue) ? 0 : WAITERS));
    return true;
}

/* Let go, and have the first of the queue go on. Context: as set_word(). */
static void pass_on(struct hdi_sync_mutex *m, struct hdi_wakeups *wakeups)
{
    for (;;) {
        const uint64_t seen = hdi_load_relaxed(&m->word); /* set_word() checks it. */
        struct hdi_node *node = hdi_waitq_first(&m->queue);
        if (!node) {
            set_word(m, seen, 0);
            return;
        }
        const bool give = (seen & STARVING) || node->op == &hdi_op_lock;
        if (!give && (seen & WOKEN)) {
            set_word(m, seen, WAITERS);
            return;
        }
        hdi_node_dequeue(node);
        if (give ? give_to(m, node, seen, wakeups) : wake(m, node, seen, wakeups)) return;
    }
}

static __attribute__((noinline)) void unlock_slow(struct hdi_sync_mutex *m)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&m->base.lock);
    pass_on(m, &wakeups);
    hdi_lock_give(&m->base.lock);
    hdi_wakeups_go(&wakeups);
}

/* Whether letting go is all there is to do: nobody waits, or one is on its way. */
static inline bool just_let_go(uint64_t word)
{
    return !(word & WAITERS) || (word & (WOKEN | STARVING)) == WOKEN;
}

void hdi_sync_mutex_unlock_as(struct hdi_sync_mutex *m, uint64_t self)
{
    uint64_t seen = hdi_load_relaxed(&m->word); /* The CAS checks it. */
    HD_CHECK_MSG((seen & HOLDER) == self, "a mutex is unlocked by one who does not hold it");
    if (HDI_MUTANT(mutex_plain_unlock) && just_let_go(seen)) {
        hdi_store_release(&m->word, seen & HDI_HOLDER_FLAGS);
        return;
    }
    while (hdi_likely(just_let_go(seen))) {
        if (hdi_cas_release(&m->word, &seen, seen & HDI_HOLDER_FLAGS)) return; /* U */
    }
    unlock_slow(m);
}

void hd_mutex_unlock(hd_mutex *mutex)
{
    hdi_point(mutex);
    hdi_sync_mutex_unlock_as(hdi_sync_mutex_of(mutex), hdi_holder_self());
}

/* ---- the cases ---- */

/* A select looks at other cases, too, before it queues its nodes, so WAITERS is set by the
 * look: then an unlock needs the queue's lock, which the select holds meanwhile. If it never
 * queues this one, the flag stands for nobody, which the next unlock finds out. */
static bool lock_attempt(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    struct hdi_sync_mutex *m = c->object;
    const struct contender me = {.self = hdi_holder_self()};
    const bool mine = hdi_sync_mutex_held_by(m, me.self);
    if (!mine && !take_or_register(m, &me)) return false;
    c->result = mine ? -EDEADLK : 0;
    hdi_case_node(c)->small[0] = me.self;
    return true;
}

static bool lock_enqueue(hd_case *c)
{
    struct hdi_sync_mutex *m = c->object;
    struct hdi_node *node = hdi_case_node(c);
    node->small[0] = hdi_holder_of_node(node);
    hdi_waitq_push(&m->queue, node);
    return true;
}

static bool turn_enqueue(hd_case *c)
{
    struct hdi_sync_mutex *m = c->object;
    struct hdi_node *node = hdi_case_node(c);
    node->small[0] = hdi_holder_of_node(node);
    if (c->number > 0) {
        hdi_waitq_push_front(&m->queue, node);
    } else {
        hdi_waitq_push(&m->queue, node);
    }
    return true;
}

static void lock_dequeue(hd_case *c, struct hdi_wakeups *wakeups)
{
    (void)wakeups;
    struct hdi_sync_mutex *m = c->object;
    hdi_node_dequeue(hdi_case_node(c));
    if (hdi_waitq_empty(&m->queue)) (void)hdi_fetch_and_acq_rel(&m->word, ~(WAITERS | STARVING));
}

/* Its task ended without a look. */
static void lock_unused(hd_case *c)
{
    if (c->result == 0) hdi_sync_mutex_unlock_as(c->object, hdi_case_node(c)->small[0]);
}

const struct hdi_op hdi_op_lock = {
    .what = "lock mutex",
    .attempt = lock_attempt,
    .enqueue = lock_enqueue,
    .dequeue = lock_dequeue,
    .unused = lock_unused,
};

static const struct hdi_op op_turn = {
    .what = "lock mutex",
    .attempt = lock_attempt,
    .enqueue = turn_enqueue,
    .dequeue = lock_dequeue,
};

/* ---- the rest ---- */

bool hdi_sync_mutex_held_by(const struct hdi_sync_mutex *m, uint64_t who)
{
    /* Relaxed: only the holder itself can find itself there. */
    return (hdi_load_relaxed(&((struct hdi_sync_mutex *)m)->word) & HOLDER) == who;
}

bool hd_mutex_held(const hd_mutex *mutex)
{
    return hdi_sync_mutex_held_by((const struct hdi_sync_mutex *)mutex, hdi_holder_self());
}

void hd_mutex_init(hd_mutex *mutex)
{
    memset(mutex, 0, sizeof(*mutex));
}

void hd_mutex_fini(hd_mutex *mutex)
{
    hdi_gone(mutex);
    struct hdi_sync_mutex *m = hdi_sync_mutex_of(mutex);
    if (HDI_MUTANT(mutex_fini_blind)) return;
    hdi_lock_take(&m->base.lock); /* MUTEX-3 */
    const bool used = (hdi_load_relaxed(&m->word) & HOLDER) || !hdi_waitq_empty(&m->queue);
    hdi_lock_give(&m->base.lock);
    HD_CHECK_MSG(!used, "a mutex ends while it is held or waited for");
}
