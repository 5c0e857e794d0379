/* SPDX-License-Identifier: MIT
 *
 * mutant: faults planted on purpose, to show that the model checker finds them.
 *
 * A mutant is a known wrong version of one step of a protocol. It exists only in
 * model builds, where a run selects one by name; in every other build HDI_MUTANT()
 * is the constant false and the wrong version is not compiled in.
 */
#ifndef HDI_BASE_MUTANT_H
#define HDI_BASE_MUTANT_H

#include <stdbool.h>

#define HDI_MUTANTS(X)                                                                   \
    X(ring_abandon, "a thief whose release CAS fails abandons what it copied")           \
    X(ring_narrow, "head halves wrap after a few pushes: a stale CAS succeeds")           \
    X(ring_early_tail, "a thief publishes its own tail before it copied")                \
    X(ring_full_real, "the owner tests full against real, not steal")                    \
    X(deque_steal_half, "a thief takes half of the deque in one CAS")                    \
    X(deque_no_seq_cst, "the owner's claim and its look at top may pass each other")     \
    X(idle_blind_clear, "a worker that finds work while parked clears its bit blindly")  \
    X(idle_plain_load, "the notifier reads the searcher count with a plain load")        \
    X(idle_no_recheck, "a worker parks without looking at the queues again")             \
    X(idle_last_silent, "the last searcher to find work does not notify")                \
    X(lifo_no_barrier, "the LIFO thief claims the slot without the heavy barrier")       \
    X(park_lost_token, "park stores its state instead of claiming it by CAS")            \
    X(word_two_steps, "RUNNING to IDLE to SCHEDULED in two steps")                       \
    X(word_cancel_silent, "cancel sets its flag but does not schedule an idle task")     \
    X(word_unshield_silent, "dropping the last shield does not test for a cancel")       \
    X(word_single_cas, "leaving RUNNING gives up after one failed CAS")                  \
    X(fiber_early_publish, "a fiber is made wakeable before its context is saved")       \
    X(join_flag_relaxed, "the joiner sets its flag without testing for completion")      \
    X(join_again_ignored, "the completer reads the joiner first although it may have changed") \
    X(join_touch_late, "the completer wakes a joiner after giving up its reference")     \
    X(inject_len_late, "the injection queue publishes its length after it unlocks")       \
    X(inject_batch_silent, "a busy worker moves injected tasks to its queue and tells nobody") \
    X(guest_ignored, "a runtime goes while another thread still wakes a task of it")

#if HDI_MODEL
enum hdi_mutant_id {
    HDI_MUTANT_none,
#define HDI_MUTANT_ENUM_(name, what) HDI_MUTANT_##name,
    HDI_MUTANTS(HDI_MUTANT_ENUM_)
#undef HDI_MUTANT_ENUM_
};
extern enum hdi_mutant_id hdi_mutant;
#define HDI_MUTANT(name) (hdi_mutant == HDI_MUTANT_##name)
#else
#define HDI_MUTANT(name) false
#endif

#endif
