/* SPDX-License-Identifier: MIT
 *
 * state: the task word, and the only functions that change it: those on the way of every
 * switch at the end of this file, the others in state.c.
 *
 *   63        40 39       32 31     24 23        16   15      14     13     0
 *   | references | shields   | flags   | lifecycle | phase | metered | case  |
 *
 *            spawn             run                park
 *   (none) ---------> SCHEDULED ----> RUNNING ----------> IDLE
 *                      ^    ^          |    |               |
 *                      |    +----------+    +-> COMPLETE <--+  (dropped at shutdown)
 *                      |    park, notified                  |
 *                      +---------------- wake, cancel ------+
 *
 *   A fiber that yields stays RUNNING while it stands in the queue: what a wake means
 *   to it is the same, and two CAS are saved. So does one whose wait was decided: it goes
 *   from IDLE to RUNNING, and to a queue, in the CAS that decides.
 *
 * Waits (wait/waiter.h). A fiber waits in the phase it finds in its word. Whoever ends the
 * wait flips the phase, and says by `case` what happened; so of a completer, a timer and
 * the cancelled fiber itself exactly one does. With FILLING the winner is not done yet,
 * and the fiber sleeps on until it is.
 *
 * Flags
 *   NOTIFIED       a wake came while the task was RUNNING or SCHEDULED: it must run
 *                  (or, for a fiber, may pass one park) once more.
 *   CANCELLED      asked to end; stays set. Takes effect while no shield is held.
 *   JOIN_INTEREST  a handle exists.
 *   JOIN_WAKER     `joiner` is set and belongs to the completer; the handle's owner may
 *                  take it back by clearing the flag, which fails once COMPLETE.
 *   JOIN_AGAIN     it was taken back once: `joiner` may have changed under an unchanged
 *                  word, so the completer must read it after its CAS, not before.
 *
 *   IN_CANCELLED   a scope the task is in was cancelled, and no shield is between (scope/scope.h);
 *                  cleared when it leaves that one.
 *   METERED        its calls are charged, and its rights looked at (scope/budget.h). Far below
 *                  the other flags that a call looks at: what it pays is all of them, taken as a
 *                  number (HDI_FARE).
 *   GIVE_WAY       it has run for long: asked to yield at its next call (sched/monitor.h).
 *
 * Orders. Every transition is one acquire-release CAS, so each sees all that the ones
 * before it saw (edge W): what a waker wrote before waking is seen by the run it
 * caused; what a run wrote is seen by the next run and, through COMPLETE, by the
 * joiner; whoever drops the last reference sees everything.
 *
 * Rejected
 *   Dropping SCHEDULED as a state of its own saves one CAS a run (3 ns), but a wake
 *   then cannot tell "will run anyway" from "is running", and every burst of wakes
 *   costs a superfluous run.
 */
#ifndef HDI_TASK_STATE_H
#define HDI_TASK_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/mutant.h"

#define HDI_STATE_MUST_USE __attribute__((warn_unused_result))

enum hdi_lifecycle {
    HDI_IDLE,
    HDI_SCHEDULED,
    HDI_RUNNING,
    HDI_COMPLETE,
};

#define HDI_WAIT_CASE       UINT64_C(0x3fff)
#define HDI_METERED         (UINT64_C(1) << 14)
#define HDI_WAIT_PHASE      (UINT64_C(1) << 15)
#define HDI_LIFECYCLE_SHIFT 16
#define HDI_LIFECYCLE_MASK  (UINT64_C(0xff) << HDI_LIFECYCLE_SHIFT)
#define HDI_NOTIFIED        (UINT64_C(1) << 24)
#define HDI_JOIN_INTEREST   (UINT64_C(1) << 25)
#define HDI_JOIN_WAKER      (UINT64_C(1) << 26)
#define HDI_JOIN_AGAIN      (UINT64_C(1) << 27)
#define HDI_CANCELLED       (UINT64_C(1) << 28)
#define HDI_IN_CANCELLED    (UINT64_C(1) << 29)
#define HDI_GIVE_WAY        (UINT64_C(1) << 30)
#define HDI_WAIT_FILLING    (UINT64_C(1) << 31)
#define HDI_SHIELD_SHIFT    32
#define HDI_SHIELD_ONE      (UINT64_C(1) << HDI_SHIELD_SHIFT)
#define HDI_SHIELD_MASK     (UINT64_C(0xff) << HDI_SHIELD_SHIFT)
#define HDI_REF_SHIFT       40
#define HDI_REF_ONE         (UINT64_C(1) << HDI_REF_SHIFT)
#define HDI_REF_MAX         ((UINT64_C(1) << 24) - 1)

static inline enum hdi_lifecycle hdi_word_lifecycle(uint64_t word)
{
    return (enum hdi_lifecycle)((word & HDI_LIFECYCLE_MASK) >> HDI_LIFECYCLE_SHIFT);
}

static inline uint64_t hdi_word_refs(uint64_t word)
{
    return word >> HDI_REF_SHIFT;
}

static inline unsigned hdi_word_shields(uint64_t word)
{
    return (unsigned)((word & HDI_SHIELD_MASK) >> HDI_SHIELD_SHIFT);
}

/* What a call by the task does not pass over: hdi_scope_attend(). */
#define HDI_ATTENTION (HDI_CANCELLED | HDI_IN_CANCELLED | HDI_METERED | HDI_GIVE_WAY)

/* Whether a cancel is in effect: asked for, and not shielded. */
static inline bool hdi_word_cancelled(uint64_t word)
{
    if (hdi_likely(!(word & (HDI_CANCELLED | HDI_IN_CANCELLED)))) return false;
    return (word & HDI_IN_CANCELLED) || (word & HDI_SHIELD_MASK) == 0;
}

/* Whether the wait that began in `phase` has ended, and its winner is done. */
static inline bool hdi_word_wait_over(uint64_t word, uint64_t phase)
{
    if ((word & HDI_WAIT_FILLING) && !HDI_MUTANT(waiter_half_filled)) return false;
    return (word & HDI_WAIT_PHASE) != phase;
}

/* What the caller of a transition must do next. */
enum hdi_next {
    HDI_NEXT_NOTHING,
    HDI_NEXT_SUBMIT, /* put the task into a queue */
    HDI_NEXT_FREE,   /* that was the last reference */
    HDI_NEXT_WAKE,   /* wake the joiner */
    HDI_NEXT_WAKE_UNREF, /* the same, then drop the scheduler's reference */
};

/* A new word: SCHEDULED, the scheduler's reference and, if asked, a handle's. */
uint64_t hdi_word_new(bool with_handle);

/* Cancel: sets the flag and wakes, in one step. Keeps the caller's reference. */
HDI_STATE_MUST_USE enum hdi_next hdi_transition_to_cancelled(_Atomic(uint64_t) *word);

/* A scope the task is in is cancelled, or none is any more. The first wakes. */
HDI_STATE_MUST_USE enum hdi_next hdi_transition_to_in_cancelled(_Atomic(uint64_t) *word);
void hdi_word_out_of_cancelled(_Atomic(uint64_t) *word);

/* The running task is asked to yield. Context: any thread; the task may be gone (TASK-3). The
 * other: it has done so. */
void hdi_word_ask_to_give_way(_Atomic(uint64_t) *word);
void hdi_word_gave_way(_Atomic(uint64_t) *word);

/* An idle, cancelled, unshielded task ends without running. */
HDI_STATE_MUST_USE bool hdi_transition_to_dropped(_Atomic(uint64_t) *word);

/* An idle fiber is looked at on its own stack: RUNNING until hdi_transition_to_idle(). */
HDI_STATE_MUST_USE bool hdi_transition_to_visited(_Atomic(uint64_t) *word);

/* The handle's owner gives `joiner` to the completer; false if already COMPLETE. */
HDI_STATE_MUST_USE bool hdi_transition_to_joining(_Atomic(uint64_t) *word);

/* The handle's owner takes `joiner` back; false if the completer has it. */
HDI_STATE_MUST_USE bool hdi_transition_to_unjoined(_Atomic(uint64_t) *word);

/* Take a reference, only from a live, unfinished task. */
HDI_STATE_MUST_USE bool hdi_word_try_ref(_Atomic(uint64_t) *word);

/* The handle ends: clears JOIN_INTEREST and drops its reference. */
HDI_STATE_MUST_USE enum hdi_next hdi_transition_to_detached(_Atomic(uint64_t) *word);

/* Shields of the running task. Returns: 0, -EOVERFLOW; 0, -EINVAL. */
HDI_STATE_MUST_USE int hdi_word_shield(_Atomic(uint64_t) *word);
HDI_STATE_MUST_USE int hdi_word_unshield(_Atomic(uint64_t) *word);

/* ---- on the way of every switch ---- */

static inline uint64_t hdi_word_with(uint64_t word, enum hdi_lifecycle lifecycle)
{
    return (word & ~HDI_LIFECYCLE_MASK) | ((uint64_t)lifecycle << HDI_LIFECYCLE_SHIFT);
}

static inline uint64_t hdi_word_minus_ref(uint64_t word)
{
    HDI_ASSERT(hdi_word_refs(word) > 0);
    return word - HDI_REF_ONE;
}

/* A wake of a task in `word`: what it becomes, and whether to submit it. A wake of a
 * SCHEDULED task sets NOTIFIED too: the run that clears it thereby sees what the
 * waker wrote (edge W). */
static inline uint64_t hdi_word_woken(uint64_t word, enum hdi_next *next)
{
    switch (hdi_word_lifecycle(word)) {
    case HDI_IDLE:
        *next = HDI_NEXT_SUBMIT;
        return hdi_word_with(word, HDI_SCHEDULED);
    case HDI_SCHEDULED:
    case HDI_RUNNING:
        return word | HDI_NOTIFIED;
    case HDI_COMPLETE:
        return word;
    }
    return word;
}

/* A waker fires. `consume`: its reference is given up in the same step. */
HDI_STATE_MUST_USE static inline enum hdi_next
hdi_transition_to_notified(_Atomic(uint64_t) *word, bool consume)
{
    uint64_t seen = hdi_load_relaxed(word); /* The CAS checks it. */
    for (;;) {
        enum hdi_next next = HDI_NEXT_NOTHING;
        uint64_t to = hdi_word_woken(seen, &next);
        if (consume) to = hdi_word_minus_ref(to);
        if (consume && hdi_word_refs(to) == 0) next = HDI_NEXT_FREE;
        if (hdi_cas_acq_rel(word, &seen, to)) return next; /* W */
    }
}

/* The worker that took it from a queue runs it. Earlier wakes are answered by this
 * run. */
static inline void hdi_transition_to_running(_Atomic(uint64_t) *word)
{
    uint64_t seen = hdi_load_relaxed(word); /* The CAS checks it. */
    for (;;) {
        HD_CHECK(hdi_word_lifecycle(seen) == HDI_SCHEDULED); /* TASK-2: queued once. */
        const uint64_t to = hdi_word_with(seen & ~HDI_NOTIFIED, HDI_RUNNING);
        if (hdi_cas_acq_rel(word, &seen, to)) return; /* W */
    }
}

/* The task ended, and the scheduler's reference with it. WAKE: *joiner is to be woken;
 * the task may be gone already. WAKE_UNREF: the reference is still held, and may be the
 * last, since a joiner that woke early may have ended the handle. */
HDI_STATE_MUST_USE static inline enum hdi_next
hdi_transition_to_complete(_Atomic(uint64_t) *word, _Atomic(uintptr_t) *field, uintptr_t *joiner)
{
    uint64_t seen = hdi_load_acquire(word); /* W: `field`, if JOIN_WAKER */
    for (;;) {
        HDI_ASSERT(hdi_word_lifecycle(seen) == HDI_RUNNING);
        /* With JOIN_WAKER set and JOIN_AGAIN clear, `field` was written once, and if it
         * is taken back the CAS fails: reading it first is safe. */
        const bool wake = seen & HDI_JOIN_WAKER;
        const bool late = wake && (seen & HDI_JOIN_AGAIN) && !HDI_MUTANT(join_again_ignored);
        if (wake && !late) *joiner = hdi_load_relaxed(field);
        uint64_t to = hdi_word_with(seen, HDI_COMPLETE);
        if (!late) to = hdi_word_minus_ref(to);
        if (!hdi_cas_acq_rel(word, &seen, to)) continue; /* W */
        if (late) {
            *joiner = hdi_load_relaxed(field);
            return HDI_NEXT_WAKE_UNREF;
        }
        if (HDI_MUTANT(join_touch_late) && wake) *joiner = hdi_load_relaxed(field);
        if (wake) return HDI_NEXT_WAKE;
        return hdi_word_refs(to) == 0 ? HDI_NEXT_FREE : HDI_NEXT_NOTHING;
    }
}

/* The running fiber passes a park at once if a wake is remembered. */
HDI_STATE_MUST_USE static inline bool hdi_transition_take_notified(_Atomic(uint64_t) *word)
{
    uint64_t seen = hdi_load_relaxed(word); /* The CAS checks it; a miss parks and asks again. */
    while (seen & HDI_NOTIFIED) {
        if (hdi_cas_acq_rel(word, &seen, seen & ~HDI_NOTIFIED)) return true; /* W */
    }
    return false;
}

/* Drop a reference. */
HDI_STATE_MUST_USE static inline enum hdi_next hdi_word_unref(_Atomic(uint64_t) *word)
{
    /* With one reference left it is ours, and nobody else can change the word: a
     * plain store spares the read-modify-write. try_ref() refuses COMPLETE words. */
    const uint64_t seen = hdi_load_acquire(word); /* W */
    if (hdi_word_refs(seen) == 1 && hdi_word_lifecycle(seen) == HDI_COMPLETE) {
        hdi_store_relaxed(word, hdi_word_minus_ref(seen)); /* TASK-3; the slab publishes it. */
        return HDI_NEXT_FREE;
    }
    const uint64_t was = hdi_fetch_sub_acq_rel(word, HDI_REF_ONE); /* W */
    HDI_ASSERT(hdi_word_refs(was) > 0);
    return hdi_word_refs(was) == 1 ? HDI_NEXT_FREE : HDI_NEXT_NOTHING;
}

#if HDI_MODEL
/* The mutants of the transition below, kept apart so that it reads as it is. */
static inline enum hdi_next hdi_transition_idle_mutated(_Atomic(uint64_t) *word, uint64_t seen)
{
    if (HDI_MUTANT(word_single_cas)) {
        const bool again = seen & HDI_NOTIFIED;
        const uint64_t to = hdi_word_with(seen & ~HDI_NOTIFIED, again ? HDI_SCHEDULED : HDI_IDLE);
        return hdi_cas_acq_rel(word, &seen, to) && again ? HDI_NEXT_SUBMIT : HDI_NEXT_NOTHING;
    }
    while (!hdi_cas_acq_rel(word, &seen, hdi_word_with(seen, HDI_IDLE))) continue;
    if (!(seen & HDI_NOTIFIED)) return HDI_NEXT_NOTHING;
    seen = hdi_load_acquire(word);
    hdi_store_release(word, hdi_word_with(seen & ~HDI_NOTIFIED, HDI_SCHEDULED));
    return HDI_NEXT_SUBMIT;
}
#endif

/* The run ended with nothing to do. SUBMIT if a wake came meanwhile, or if the fiber's
 * wait, which began in `phase`, is over. */
HDI_STATE_MUST_USE static inline enum hdi_next hdi_transition_to_idle(_Atomic(uint64_t) *word,
                                                                     uint64_t phase)
{
    uint64_t seen = hdi_load_relaxed(word); /* The CAS checks it. */
#if HDI_MODEL
    if (HDI_MUTANT(word_single_cas) || HDI_MUTANT(word_two_steps)) {
        return hdi_transition_idle_mutated(word, seen);
    }
#endif
    for (;;) {
        HDI_ASSERT(hdi_word_lifecycle(seen) == HDI_RUNNING);
        const bool over = hdi_word_wait_over(seen, phase) && !HDI_MUTANT(word_idle_undecided);
        const bool again = (seen & HDI_NOTIFIED) || over;
        const uint64_t to = hdi_word_with(seen & ~HDI_NOTIFIED, again ? HDI_SCHEDULED : HDI_IDLE);
        if (hdi_cas_acq_rel(word, &seen, to)) return again ? HDI_NEXT_SUBMIT : HDI_NEXT_NOTHING;
    }
}

/* ---- deciding a fiber's wait ---- */

enum hdi_decision {
    HDI_DECISION_LOST,   /* another ended the wait */
    HDI_DECISION_WON,
    HDI_DECISION_SUBMIT, /* won, and the fiber is the caller's to submit: it is RUNNING */
};

/* End the wait that began in `phase`, with `which`. If FILLING is among it, the fiber stays
 * where it is until hdi_transition_to_filled(). */
HDI_STATE_MUST_USE static inline enum hdi_decision
hdi_transition_to_decided(_Atomic(uint64_t) *word, uint64_t phase, uint64_t which)
{
    uint64_t seen = hdi_load_relaxed(word); /* The CAS checks it. */
    for (;;) {
        if ((seen & HDI_WAIT_PHASE) != phase) return HDI_DECISION_LOST;
        uint64_t to = ((seen & ~HDI_WAIT_CASE) ^ HDI_WAIT_PHASE) | which;
        const bool submit =
            !(which & HDI_WAIT_FILLING) && hdi_word_lifecycle(seen) == HDI_IDLE;
        if (submit) to = hdi_word_with(to, HDI_RUNNING);
        if (HDI_MUTANT(waiter_blind_decide)) {
            hdi_store_release(word, to);
            return submit ? HDI_DECISION_SUBMIT : HDI_DECISION_WON;
        }
        if (hdi_cas_acq_rel(word, &seen, to)) { /* W */
            return submit ? HDI_DECISION_SUBMIT : HDI_DECISION_WON;
        }
    }
}

/* The winner is done. SUBMIT: as above. */
HDI_STATE_MUST_USE static inline enum hdi_decision
hdi_transition_to_filled(_Atomic(uint64_t) *word)
{
    uint64_t seen = hdi_load_relaxed(word); /* The CAS checks it. */
    for (;;) {
        HDI_ASSERT(seen & HDI_WAIT_FILLING);
        const bool submit = hdi_word_lifecycle(seen) == HDI_IDLE;
        uint64_t to = seen & ~HDI_WAIT_FILLING;
        if (submit) to = hdi_word_with(to, HDI_RUNNING);
        if (hdi_cas_acq_rel(word, &seen, to)) { /* W */
            return submit ? HDI_DECISION_SUBMIT : HDI_DECISION_WON;
        }
    }
}

static inline void hdi_word_check_ref_room(uint64_t word)
{
    HD_CHECK_MSG(hdi_word_refs(word) < HDI_REF_MAX,
                 "a task has 16,777,215 wakers and handles: one more would overflow");
}

/* Take one more, by someone who has one. */
static inline void hdi_word_ref(_Atomic(uint64_t) *word)
{
    /* Relaxed: the caller has a reference, so nothing can end meanwhile. */
    hdi_word_check_ref_room(hdi_fetch_add_relaxed(word, HDI_REF_ONE));
}

#endif
