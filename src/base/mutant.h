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
    X(queue_alone_robbed, "a worker to which spares may come pops as if it were alone")   \
    X(jobs_newest_first, "of the private jobs the newest is laid open first")            \
    X(jobs_left_open, "a fiber that leaves does not take its open jobs back")            \
    X(jobs_back_open, "a job that was taken back still counts as open")                  \
    X(jobs_join_blind, "a joiner looks whether its job is in the deque, and leaves it there") \
    X(jobs_join_lined, "a job that is joined stays among those lined up")                \
    X(jobs_left_lined, "a fiber that leaves does not forget which jobs it lined up")     \
    X(jobs_end_blind, "who ends a job does not look who waits for it")                   \
    X(jobs_touch_late, "who ends a job looks at it once more afterwards")                \
    X(jobs_strand_early, "a thief shows its strand to others before it has a job for it") \
    X(jobs_sleep_silent, "a worker that goes to sleep does not ask for jobs once more")  \
    X(deque_steal_half, "a thief takes half of the deque in one CAS")                    \
    X(deque_no_seq_cst, "the owner's claim and its look at top may pass each other")     \
    X(idle_blind_clear, "a worker that finds work while parked clears its bit blindly")  \
    X(idle_plain_load, "the notifier reads the searcher count with a plain load")        \
    X(idle_no_recheck, "a worker parks without looking at the queues again")             \
    X(idle_last_silent, "the last searcher to find work does not notify")                \
    X(lifo_no_barrier, "the LIFO thief claims the slot without the heavy barrier")       \
    X(park_lost_token, "park stores its state instead of claiming it by CAS")            \
    X(park_event_silent, "unpark does not raise the event for who sleeps in the kernel")  \
    X(park_event_eaten, "who clears another's event keeps it")                           \
    X(park_in_late, "who sleeps in the kernel does not say so before")                    \
    X(park_in_blind, "who wakes in the kernel by itself forgets a token that came meanwhile") \
    X(park_away_silent, "who goes away with a token does not raise the event")            \
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
    X(keeper_publish_silent, "an earlier deadline does not wake the one who watches the time") \
    X(keeper_stale_watch, "who watched the time leaves its deadline behind")              \
    X(keeper_park_silent, "a worker that parks does not tell the keeper of its timers")   \
    X(timer_fire_unlocked, "a timer fires outside the wheel's lock: who stops it does not wait") \
    X(word_idle_undecided, "a fiber goes to sleep although its wait was decided")         \
    X(waiter_touch_late, "a completer looks at the waiter once more after it decided")    \
    X(waiter_blind_decide, "a wait is decided by a test and a store")                     \
    X(waiter_half_filled, "the owner does not wait until its item was filled in")         \
    X(waiter_blind_sleep, "a thread says that it sleeps by a store")                      \
    X(waiter_no_guest, "another runtime's task is woken by somebody who is no guest there") \
    X(waiter_cancel_wins, "a cancel ends a wait that a completer had ended")              \
    X(joined_not_gone, "who leaves a join does not wait for the completer to go")         \
    X(select_piecemeal, "a select attempts and queues its cases one lock at a time")      \
    X(mutex_plain_unlock, "unlocking is a load and a store: a waiter's flag is lost")    \
    X(mutex_woken_kept, "a woken waiter that sleeps again leaves WOKEN set")             \
    X(mutex_fini_blind, "a mutex ends while the unlock that let its last user in is at work") \
    X(rwlock_last_relaxed, "the last reader lets a writer in without seeing the others leave") \
    X(group_wait_blind, "a waiter returns while the last one done is at work")           \
    X(sem_flag_late, "a waiter for permits queues without setting its flag by CAS")      \
    X(cond_count_ignored, "a signal between unlock and queue is not seen")               \
    X(barrier_cancel_wins, "a party that met the others reports its cancel")             \
    X(notify_merged_silently, "a notification that changes nothing orders nothing")      \
    X(move_early_publish, "a fiber that moves is queued elsewhere before its context is saved") \
    X(pool_leave_blind, "a thread leaves its pool without looking at the queue once more") \
    X(chan_no_refill, "a receive makes room and lets no waiting sender in")               \
    X(chan_read_late, "a receive reads a waiting sender's item after it has let it go")  \
    X(oneshot_leaves_early, "a receiver takes its oneshot away while the sender is in it") \
    X(token_look_early, "a new token looks at its parent's flag before it takes the lock")  \
    X(token_ref_dying, "a cancel takes hold of a child that has no holder any more")      \
    X(token_cancel_unheld, "who cancels a token does not hold it")                        \
    X(token_leave_blind, "a scope takes it that a cancelled token has let it go already")   \
    X(scope_unlink_blind, "a scope is left while somebody is letting it go")             \
    X(scope_enter_blind, "a task that is cancelled opens a nursery and does not look")    \
    X(nursery_spawn_blind, "a spawn looks whether a nursery is open before it locks it")  \
    X(nursery_end_unheld, "who tells a nursery of its failure does not hold it")          \
    X(monitor_looks_first, "the monitor looks at the workers before it says that it sleeps") \
    X(spare_keeps_tasks, "a spare leaves with tasks in its queue")                        \
    X(spare_keeps_time, "a spare leaves, and nobody watches its timers")                  \
    X(reserve_dismissed_silently, "the reserve is one no longer, and is not told of what waits") \
    X(source_queue_late, "a call that has to wait gives the lock away before it is queued") \
    X(source_stale_late, "a close wakes who waits, and only then is the handle stale")   \
    X(source_tell_stale, "what becomes ready is told without a look at the handle")      \
    X(source_close_used, "a close ends a descriptor that another still uses")            \
    X(source_closed_unseen, "a call that is about to wait does not look whether it was closed") \
    X(blocking_blind_claim, "a call that blocks is claimed by a test and a store")       \
    X(flight_left_behind, "who recalls a call of the kernel does not wait for its end")  \
    X(flight_blind_return, "who waited for the kernel returns while it is still told")   \
    X(reader_stays, "a reader whose wait ends otherwise is still told")                   \
    X(reader_blind, "a reader whose wait ends otherwise takes out whoever is the reader")   \
    X(reader_kept, "a reader that was told is told again")                                \
    X(reader_phase_late, "a reader is told in the phase it is in by then")                \
    X(reader_alone, "who tells the reader tells nobody else")                             \
    X(lent_blind, "who lends to a reader does not look whether its wait had ended")        \
    X(lent_late, "who lends to a reader says what after it has told it")                  \
    X(lent_unasked, "a reader that waits for no lease is lent something")                 \
    X(lent_first, "a reader is lent what came after something else")                      \
    X(outbox_end_early, "who queues a handle says so before it is there")                 \
    X(outbox_start_early, "who takes handles gives their places away before it has read them") \
    X(outbox_queued_kept, "who takes a handle out leaves it marked as queued")            \
    X(outbox_loan_lost, "of the loans that end at once, one is not counted")              \
    X(outbox_land_blind, "who has sent does not look what the kernel said of it")         \
    X(outbox_close_flying, "a close does not look whether something is being sent")       \
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
