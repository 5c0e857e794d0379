/* SPDX-License-Identifier: MIT */
#include "task/state.h"

#include <errno.h>

#include "base/check.h"
#include "base/mutant.h"

uint64_t hdi_word_new(bool with_handle)
{
    const uint64_t word = hdi_word_with(HDI_REF_ONE, HDI_SCHEDULED);
    return with_handle ? (word + HDI_REF_ONE) | HDI_JOIN_INTEREST : word;
}

enum hdi_next hdi_transition_to_cancelled(_Atomic(uint64_t) *word)
{
    uint64_t seen = hdi_load_relaxed(word); /* The CAS checks it. */
    for (;;) {
        enum hdi_next next = HDI_NEXT_NOTHING;
        if (hdi_word_lifecycle(seen) == HDI_COMPLETE || (seen & HDI_CANCELLED)) return next;
        uint64_t to = seen | HDI_CANCELLED;
        if (!HDI_MUTANT(word_cancel_silent)) to = hdi_word_woken(to, &next);
        if (hdi_cas_acq_rel(word, &seen, to)) return next; /* W */
    }
}

enum hdi_next hdi_transition_to_in_cancelled(_Atomic(uint64_t) *word)
{
    uint64_t seen = hdi_load_relaxed(word); /* The CAS checks it. */
    for (;;) {
        enum hdi_next next = HDI_NEXT_NOTHING;
        if (hdi_word_lifecycle(seen) == HDI_COMPLETE || (seen & HDI_IN_CANCELLED)) return next;
        const uint64_t to = hdi_word_woken(seen | HDI_IN_CANCELLED, &next);
        if (hdi_cas_acq_rel(word, &seen, to)) return next; /* W */
    }
}

void hdi_word_out_of_cancelled(_Atomic(uint64_t) *word)
{
    hdi_fetch_and_acq_rel(word, ~HDI_IN_CANCELLED);
}

void hdi_word_ask_to_give_way(_Atomic(uint64_t) *word)
{
    hdi_fetch_or_acq_rel(word, HDI_GIVE_WAY);
}

void hdi_word_gave_way(_Atomic(uint64_t) *word)
{
    hdi_fetch_and_acq_rel(word, ~HDI_GIVE_WAY);
}

bool hdi_transition_to_dropped(_Atomic(uint64_t) *word)
{
    uint64_t seen = hdi_load_relaxed(word); /* The CAS checks it. */
    for (;;) {
        if (hdi_word_lifecycle(seen) != HDI_IDLE || !hdi_word_cancelled(seen)) return false;
        /* RUNNING, so that completing it takes the same path as a task that ran. */
        if (hdi_cas_acq_rel(word, &seen, hdi_word_with(seen, HDI_RUNNING))) return true; /* W */
    }
}

bool hdi_transition_to_visited(_Atomic(uint64_t) *word)
{
    uint64_t seen = hdi_load_relaxed(word); /* The CAS checks it. */
    do {
        if (hdi_word_lifecycle(seen) != HDI_IDLE) return false;
    } while (!hdi_cas_acq_rel(word, &seen, hdi_word_with(seen, HDI_RUNNING))); /* W */
    return true;
}

bool hdi_transition_to_joining(_Atomic(uint64_t) *word)
{
    uint64_t seen = hdi_load_acquire(word);
    do {
        const bool complete = hdi_word_lifecycle(seen) == HDI_COMPLETE;
        if (complete && !HDI_MUTANT(join_flag_relaxed)) return false;
        HD_CHECK_MSG(!(seen & HDI_JOIN_WAKER), "a task handle is joined by two at once");
        HDI_ASSERT(seen & HDI_JOIN_INTEREST);
    } while (!hdi_cas_acq_rel(word, &seen, seen | HDI_JOIN_WAKER)); /* W */
    return true;
}

bool hdi_transition_to_unjoined(_Atomic(uint64_t) *word)
{
    uint64_t seen = hdi_load_acquire(word);
    do {
        if (hdi_word_lifecycle(seen) == HDI_COMPLETE) return false;
        HDI_ASSERT(seen & HDI_JOIN_WAKER);
    } while (!hdi_cas_acq_rel(word, &seen, (seen & ~HDI_JOIN_WAKER) | HDI_JOIN_AGAIN)); /* W */
    return true;
}

bool hdi_word_try_ref(_Atomic(uint64_t) *word)
{
    uint64_t seen = hdi_load_relaxed(word); /* The CAS checks it. */
    do {
        if (hdi_word_refs(seen) == 0 || hdi_word_lifecycle(seen) == HDI_COMPLETE) return false;
        hdi_word_check_ref_room(seen);
    } while (!hdi_cas_acq_rel(word, &seen, seen + HDI_REF_ONE)); /* W */
    return true;
}

enum hdi_next hdi_transition_to_detached(_Atomic(uint64_t) *word)
{
    uint64_t seen = hdi_load_acquire(word);
    uint64_t to;
    do {
        HD_CHECK_MSG(seen & HDI_JOIN_INTEREST, "a task handle was joined or detached twice");
        HDI_ASSERT(!(seen & HDI_JOIN_WAKER) || hdi_word_lifecycle(seen) == HDI_COMPLETE);
        to = hdi_word_minus_ref(seen & ~HDI_JOIN_INTEREST);
        if (hdi_word_refs(seen) == 1) { /* as in hdi_word_unref() */
            hdi_store_relaxed(word, to);
            return HDI_NEXT_FREE;
        }
    } while (!hdi_cas_acq_rel(word, &seen, to)); /* W */
    return HDI_NEXT_NOTHING;
}

int hdi_word_shield(_Atomic(uint64_t) *word)
{
    /* Only the running task itself changes its depth, so a test before the add holds. */
    if (hdi_word_shields(hdi_load_relaxed(word)) == UINT8_MAX) return -EOVERFLOW;
    hdi_fetch_add_acq_rel(word, HDI_SHIELD_ONE);
    return 0;
}

int hdi_word_unshield(_Atomic(uint64_t) *word)
{
    uint64_t seen = hdi_load_relaxed(word); /* The CAS checks it. */
    uint64_t to;
    do {
        if (hdi_word_shields(seen) == 0) return -EINVAL;
        to = seen - HDI_SHIELD_ONE;
        /* The cancel was deferred until now: the task must come round once more. */
        if (hdi_word_cancelled(to) && !HDI_MUTANT(word_unshield_silent)) to |= HDI_NOTIFIED;
    } while (!hdi_cas_acq_rel(word, &seen, to)); /* W */
    return 0;
}
