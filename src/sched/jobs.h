/* SPDX-License-Identifier: MIT
 *
 * jobs: fork-join (heddle/fork.h), as far as more than one worker is concerned.
 *
 * A strand is a fiber that runs jobs: one that forks, or one that was made to run a job which a
 * worker took from another. Its jobs that are not joined yet form a list on its stack, newest
 * first. Forking and joining touch nothing else, until `wanted` of the worker is set by one that
 * found nothing to do; the next fork then lays some of the oldest open, in the worker's deque.
 *
 *   oldest   taken ... taken   open ... open   private ... private   newest
 *
 * The list leads from the newest to the oldest, so the oldest private one is found by a walk over
 * all of them. That walk lines up the oldest half: it links them in the other direction too, and
 * the worker knows both ends. Later ones are laid open from there, and who joins one of them says
 * so. There is no other walk before all of them are open or joined, so it costs a few steps for
 * each job lined up, however deep the recursion is and however often somebody asks.
 *
 *   JOBS-1  A strand's jobs are in that order: it lays the oldest private one open first, thieves
 *           take the oldest open one first, and the newest is joined first.
 *           Not in sim, where the seed has any job taken as it is forked, and none is ever open.
 *   JOBS-2  A worker's deque holds jobs of the strand that runs on it, and no others: a fiber that
 *           leaves takes back what is open (HDI_UNUSUAL_JOBS), and then it is private again.
 *           It forgets what was lined up; who joins such a job then finds that it is not the last.
 *   JOBS-3  So who joins an open job finds it at the deque's bottom; or the deque empty, because a
 *           thief has it.
 *   JOBS-4  Those lined up are the oldest private ones of the strand that runs, without a gap:
 *           only the oldest of them is laid open next, and only the newest can be joined next.
 *   JOBS-5  Who ends a taken job touches it last by the exchange of `end_`; who waits for it does
 *           not return before that.
 *
 * A taken job is run by a new fiber, with a stack, made before the theft: it cannot fail
 * afterwards. So it may wait for jobs it has forked itself, and the worker does something else
 * meanwhile: run fibers, or steal, from the thief too. Nobody runs a job on top of another's stack.
 *
 * Edges   P  deque push -> steal: the job as it was when it was laid open.
 *         E  end of a taken job -> its joiner: the result.
 *         H  a worker that goes to sleep is marked so, and then sets `wanted`; who lays open clears
 *            `wanted`, pushes, and looks who sleeps: sequentially consistent. Whoever was too late
 *            to be woken has left `wanted` set. Nothing but speed depends on it.
 *
 * Rejected, with figures: docs/design/0010-fork-join.md.
 */
#ifndef HDI_SCHED_JOBS_H
#define HDI_SCHED_JOBS_H

#include <heddle/fork.h>

#include "sched/deque.h"

struct hd_task;
struct hdi_worker;

struct hdi_jobs {
    alignas(HDI_CACHE_LINE) _Atomic(uint32_t) wanted; /* H: thieves set, the owner clears; sim: 1 */
    hd_job *first, *last; /* owner: the oldest and the newest lined up; NULL */
    struct hdi_deque open;
};

void hdi_jobs_init(struct hdi_worker *worker);

/* The calling thread forks as this worker from now on; NULL: as none. */
void hdi_jobs_enter(struct hdi_worker *worker);

/* Whether a fiber was made to run a job. */
bool hdi_jobs_runs(const struct hd_task *fiber);

/* A fiber ends: its jobs must not be left in the deque. */
void hdi_jobs_check_joined(struct hdi_worker *worker);

/* Take a job from another worker. Returns a task that is to run it, not queued; NULL. */
struct hd_task *hdi_jobs_steal(struct hdi_worker *worker, struct hdi_worker *victim);

/* sched/spawn.c: a fiber with a stack for jobs, counted but not queued; NULL if memory is short.
 * Whoever looks at all tasks sees it once it has a job. Or it is not needed. */
struct hd_task *hdi_spawn_strand(struct hdi_worker *worker, hd_fn *fn);
void hdi_spawn_show_strand(struct hdi_worker *worker, struct hd_task *strand);
void hdi_spawn_no_strand(struct hdi_worker *worker, struct hd_task *strand);

/* Want work of this worker: its next fork lays open, and gives way if asked to. Context: any. */
void hdi_jobs_ask(struct hdi_worker *victim);

/* Want work of all others. Context: a worker that is counted as parked. */
void hdi_jobs_ask_all(struct hdi_worker *worker);

#endif
