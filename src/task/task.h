/* SPDX-License-Identifier: MIT
 *
 * task: one header for every kind of task.
 *
 * Ownership
 *   TASK-1  `word` changes only in task/state.c. Every other field belongs to whoever
 *           the word says: before COMPLETE the scheduler, that is the queue the task
 *           stands in or the worker that runs it; `result` and `joiner` as noted.
 *   TASK-2  While not COMPLETE the scheduler holds exactly one reference: it lies with
 *           the queue (SCHEDULED, or RUNNING and yielded), the worker (RUNNING) or
 *           nobody in particular (IDLE), and moves with the task. Handles and wakers
 *           hold one each. Whoever drops the last frees the task.
 *   TASK-3  Memory of a freed task stays mapped and typed until its runtime ends. So
 *           `word` may be read, and even woken, through a stale pointer (dump, shutdown,
 *           a joiner that has left): a word of zero references is a free slot, and the
 *           slot's next task merely wakes once too often.
 */
#ifndef HDI_TASK_TASK_H
#define HDI_TASK_TASK_H

#include <heddle/task.h>

#include "base/atomics.h"
#include "ctx/context.h"
#include "ctx/fp.h"
#include "ctx/stack.h"
#include "os/lock.h"
#include "task/state.h"

#define HDI_TASK_NAME_BYTES 32

struct hdi_account;
struct hdi_nursery;
struct hdi_scope;
struct hdi_start;

/* What most tasks do without; NULL until it is needed, and there until the memory of the task
 * goes. The task's own, but for the name, which never changes. */
struct hdi_extras {
    char name[HDI_TASK_NAME_BYTES];
    struct hdi_locals *locals;   /* task/local.c; NULL: none */
    struct hdi_account *account; /* scope/budget.h: what it has drawn; NULL: nothing */
    _Atomic(uint8_t) exhausted;  /* 1 + the hd_resource it could not draw; 0: none. For reports */
    _Atomic(bool) fined;         /* it was cancelled for that */
    struct hdi_nursery *spawns_into; /* its own, whose slice pays for its spawns into it (POOL-7);
                                      * NULL: not yet, or it is exhausted */
    struct hdi_start *start;     /* scope/start.c: who waits for it to be ready; NULL: nobody */
    char *missing;               /* scope/audit.c: why it was refused something; NULL: never was */
    struct hdi_fp_control fp;    /* fiber with HDI_UNUSUAL_SAVE_FP */
    const hd_site *held_at;      /* fiber: where it took the last of `holds`; NULL: unknown */
};

enum hdi_task_kind {
    HDI_TASK_FIBER,
    HDI_TASK_POLL,
};

#define HDI_UNUSUAL_CANARY     1u /* fiber: its stack is checked at every switch */
#define HDI_UNUSUAL_PINNED     2u /* always on the same worker */
#define HDI_UNUSUAL_UNCONFINED 4u /* on whatever worker wakes it */
#define HDI_UNUSUAL_INLINE     8u /* runs in the place of the fiber in `next` */
#define HDI_UNUSUAL_JOBS       16u /* fiber: others may take jobs of it (sched/jobs.h) */
#define HDI_UNUSUAL_SAVE_FP    32u /* fiber: has its own FP control words */
#define HDI_UNUSUAL_HOLDS      64u /* fiber: `holds` is not 0 */
#define HDI_UNUSUAL_ERRAND     128u /* stackless: runs for a task that is confined, in its place,
                                     * and may do nothing that needs a right */

/* What a METERED task has drawn of its budget and may use up, by kinds of calls, so that each looks
 * at one number. Less than HDI_FARE: nothing. In the header, because a call that takes a lock waits
 * for what it reads on the way there. */
struct hdi_credit {
    int32_t ops;     /* of any call but those: one op each, times HDI_FARE */
    int32_t channel; /* sends and receives: a channel_op and an op each, times HDI_FARE */
};

struct hd_task {
    _Atomic(uint64_t) word;
    struct hd_task *next;       /* link in the injection queue, or in the slab when free; or
                                 * who waits for it to suspend (HDI_UNUSUAL_INLINE) */
    struct hd_runtime *runtime; /* constant from spawn on, as are id, kind, site, name */
    uint64_t id;

    /* Who runs it; the running task itself may change it. `unusual` says which of these. */
    union {
        struct hd_dispatcher *home;     /* the workers of this one */
        struct hdi_worker *pinned;      /* HDI_UNUSUAL_PINNED: this worker */
        struct hd_dispatcher *visiting; /* HDI_UNUSUAL_UNCONFINED: any; where it ran last */
    };

    /* Who waits for the end; the tags are in task/join.c. Written by the handle's owner
     * while JOIN_WAKER is clear, read by the completer if it was set; relaxed, since the
     * word orders it. */
    _Atomic(uintptr_t) joiner;

    union {
        int result;       /* written by the running side before COMPLETE, read after */
        int left_nursery; /* before that, its own: the result of the nursery it left last */
    };
    uint8_t kind;       /* enum hdi_task_kind */
    uint8_t size_class; /* which slab it came from */
    bool resumes;       /* fiber: in a queue, but RUNNING: it yielded, or its wait was decided */
    uint8_t unusual;    /* HDI_UNUSUAL_*: what the paths of every switch leave to others */
    bool large : 1;     /* stackless: its state is not behind the header */
    bool daemon : 1;    /* does not keep its nursery from ending */
    uint8_t unused_ : 6; /* 0: so that those of a new task are stored, and not merged */
    uint8_t level;      /* sched/levels.h */
    uint16_t phase;     /* fiber: HDI_WAIT_PHASE as of its last wait's end; its own */
    struct hdi_lock scopes; /* held for `scope` and what hangs on it (scope/scope.h) */
    const hd_site *site;
    _Atomic(struct hdi_extras *) extras;

    struct hdi_nursery *nursery; /* constant: the one it is a child of; NULL: none */
    union {
        struct hdi_list sibling; /* that one's lock: its place there */
        struct hd_task *origin;  /* constant: strand, which is no child (sched/jobs.h) */
    };
    struct hdi_scope *scope;     /* the innermost it has entered; NULL: none. It writes, with
                                  * `scopes` held */

    union {
        struct hdi_credit credit; /* how both of the others begin; its own */
        struct {
            struct hdi_credit credit_;
            hd_fn *fn;
            struct hdi_context context; /* This and what follows: the line that each run uses. */
            struct hdi_stack *stack; /* NULL before the first run */
            union {
                void *arg;        /* before the first run */
                int64_t since_ns; /* after it: about when it last went to sleep, for reports */
            };
            union {
                size_t stack_bytes;        /* before the first run */
                struct hdi_waiter *waiter; /* after it: what it waits on; NULL if nothing */
            };
            uint32_t holds; /* its own: locks of its thread that it holds (sync/hold.c) */
            uint32_t lent;  /* by who ended its wait, to be looked at next (SRC-9) */
        } fiber;
        struct {
            struct hdi_credit credit_;
            hd_poll_fn *poll;
            hd_drop_fn *drop;
            struct hdi_waiter *waits;          /* the task's own: its waits that stand in queues */
            alignas(16) unsigned char state[]; /* if large, a pointer to it */
        } poll;
    };
};

#if !HDI_ASAN && !HDI_TSAN /* whose contexts are larger */
_Static_assert(offsetof(struct hd_task, fiber.context) % 64 == 0 &&
                   offsetof(struct hd_task, fiber.lent) / 64 ==
                       offsetof(struct hd_task, fiber.context) / 64,
               "a run of a fiber uses the task's first line and this one");
#endif

/* Bytes of a slab object that holds a task with so much state. */
#define HDI_TASK_BYTES(state_bytes) (offsetof(struct hd_task, poll.state) + (state_bytes))

static inline void *hdi_task_state(struct hd_task *task)
{
    return task->large ? *(void **)task->poll.state : task->poll.state;
}

/* What a fiber in hd_join() waits on, in `fiber.waiter`: a task, by a tag. */
static inline struct hdi_waiter *hdi_waits_for_task(struct hd_task *task)
{
    return (struct hdi_waiter *)((uintptr_t)task | 1);
}

/* Returns NULL if it waits on something else. */
static inline struct hd_task *hdi_waits_on_task(const struct hdi_waiter *waiter)
{
    const uintptr_t tagged = (uintptr_t)waiter;
    return tagged & 1 ? (struct hd_task *)(tagged & ~(uintptr_t)1) : NULL;
}

/* Read for reports, by anyone who holds a reference. */
static inline struct hdi_extras *hdi_task_extras(const struct hd_task *task)
{
    return hdi_load_acquire(&((struct hd_task *)task)->extras); /* E */
}

static inline const char *hdi_task_name(const struct hd_task *task)
{
    const struct hdi_extras *extras = hdi_task_extras(task);
    return extras ? extras->name : "";
}

/* task/local.c: what the task has beyond the header, made if need be; NULL if memory is short.
 * Context: the task itself, or who spawns it. */
struct hdi_extras *hdi_task_need_extras(struct hd_task *task);

/* ---- credit: how most calls of a METERED task are paid for ---- */

/* What a call pays is the flags it finds in the word, as a number: METERED alone is one fare. Any
 * other that asks for attention is more than a credit can be. So a payment is one subtraction, and
 * the test of its sign tells both that there was enough, and that nothing else is wanted. */
#define HDI_FARE       ((int32_t)HDI_METERED)
#define HDI_CREDIT_MAX 8192 /* fares of each kind; hd_chan_*_many() may put some back */
_Static_assert(2 * HDI_CREDIT_MAX * HDI_METERED <= HDI_CANCELLED &&
                   HDI_CANCELLED < HDI_IN_CANCELLED && HDI_CANCELLED < HDI_GIVE_WAY,
               "no credit pays for other flags");
_Static_assert(HDI_ATTENTION + 8 * HDI_METERED <= INT32_MAX, "a payment does not overflow");

static inline int32_t hdi_word_fare(uint64_t word)
{
    return (int32_t)(word & HDI_ATTENTION);
}

/* Pay out of what was drawn before. Returns false if that did not suffice: then the fare is to be
 * put back, out of line, so that it need not be kept here. Context: the running task. */
static inline bool hdi_credit_pay(int32_t *credit, int32_t fare)
{
    *credit -= fare;
    return hdi_likely(*credit >= 0);
}

/* So many ops at once, or nothing. */
static inline bool hdi_credit_pay_ops(struct hd_task *task, uint64_t word, unsigned ops)
{
    if (hdi_word_fare(word) != HDI_FARE) return false;
    const int64_t left = task->credit.ops - (int64_t)ops * HDI_FARE;
    if (left < 0) return false;
    task->credit.ops = (int32_t)left;
    return true;
}

/* task/wake.c: hd_cancel(), but no point. Context: any. */
void hdi_task_cancel(struct hd_task *task);

/* ---- what scopes provide to this layer (scope/) ---- */

/* What a call costs, beside one op. */
enum hdi_cost {
    HDI_COST_CALL,
    HDI_COST_SPAWN,
    HDI_COST_CHANNEL,
    HDI_COST_SYSCALL,
};

/* Of calls that cost nothing but ops, and of channel operations. */
static inline int32_t *hdi_credit_for(struct hd_task *task, enum hdi_cost cost)
{
    return cost == HDI_COST_CHANNEL ? &task->credit.channel : &task->credit.ops;
}

/* The slow part of every call by a task whose word has one of HDI_ATTENTION: pay, give way if
 * asked to, and in sim let others go first, if the schedule says so: `object` is what the call is
 * about, or NULL. `now`: the call only looks: it pays, but nothing else (unless in sim there is an
 * object). Returns: 0; or why it may not go
 * on: what hdi_scope_code() says, -EDQUOT. Context: the running task. */
int hdi_scope_attend(struct hd_task *task, enum hdi_cost cost, bool now, const void *object);

/* The same after a fare was taken out of the credit for this kind of call, and did not suffice. */
int hdi_scope_unpaid(struct hd_task *task, enum hdi_cost cost, bool now, const void *object,
                     int32_t fare);

/* The first thing in a call, which for most tasks is nothing, and for most others a payment out of
 * their credit. As above. */
static inline int hdi_attend(struct hd_task *task, enum hdi_cost cost, bool now,
                             const void *object)
{
    const uint64_t word = hdi_load_relaxed(&task->word); /* What is missed is seen next time. */
    const int32_t fare = hdi_word_fare(word);
    if (hdi_likely(fare == 0)) return 0;
    if (cost != HDI_COST_CALL && cost != HDI_COST_CHANNEL) {
        return hdi_scope_attend(task, cost, now, object);
    }
    if (hdi_credit_pay(hdi_credit_for(task, cost), fare)) return 0;
    return hdi_scope_unpaid(task, cost, now, object, fare);
}

/* What a wait that a cancel ended returns: -ECANCELED; -ETIMEDOUT if it was a deadline. Context:
 * the running task, while the cancel is in effect; NULL while a task is dropped. */
int hdi_scope_code(struct hd_task *task);

/* After the task's word says that it is cancelled, or its shields have changed: tell the scopes
 * of it that this concerns. Context: any thread, with a reference. */
void hdi_scope_told(struct hd_task *task);

/* How many of the shields of a task that is in a scope were there when it entered that, or are the
 * scope's own. Context: the running task. */
unsigned hdi_scope_shields(const struct hd_task *task);

/* A METERED task spawns one, and pays. Returns: 0, -EPERM, -EDQUOT, -ECANCELED. */
int hdi_scope_may_spawn(struct hd_task *spawner, struct hdi_nursery *nursery);

/* Whether a task has rights or a pool, so that what it starts must not have more. */
bool hdi_scope_confines(const struct hd_task *task);

/* It did not happen. */
void hdi_scope_unspawned(struct hd_task *spawner);

/* Whose tasks can be its children. */
struct hd_runtime *hdi_scope_runtime(const struct hdi_nursery *nursery);

/* A new task becomes a child; its word is written, and says METERED if need be. Returns: 0,
 * -EPIPE, -ECANCELED, -EINVAL (another runtime), -EPERM. */
int hdi_scope_adopt(struct hdi_nursery *nursery, struct hd_task *task, bool daemon);

/* The same with hdi_scope_may_spawn() in one, for a spawner that had credit: cheaper. Returns: as
 * both. */
int hdi_scope_adopt_for(struct hdi_nursery *nursery, struct hd_task *task, bool daemon,
                        struct hd_task *spawner);

/* Whether children of it are METERED. */
bool hdi_scope_meters(const struct hdi_nursery *nursery);

/* A child has ended; it still has its reference. Returns what is to be given to
 * hdi_scope_child_gone() once everybody can see that it has ended; NULL: nothing. */
struct hdi_nursery *hdi_scope_child_ended(struct hd_task *task, int result);
void hdi_scope_child_gone(struct hdi_nursery *nursery);

/* A task ends in a scope it never left. */
void hdi_scope_abandoned(struct hd_task *task);

/* Whether a stackless task may be dropped where it stands: no nursery of it has children left.
 * Its scopes are left then. */
bool hdi_scope_dropped(struct hd_task *task);

/* The memory of a task with extras goes. */
void hdi_scope_forget(struct hd_task *task);

/* Timers of scopes were taken out of a wheel (wait/timer.h), and the scopes held: a list by
 * `due_next`. Context: a worker, no lock held. */
struct hdi_timer;
void hdi_scope_hold(struct hdi_timer *timer);
void hdi_scope_due(struct hdi_timer *due);

/* ---- what the scheduler provides to this layer (sched/) ---- */

/* Run a stackless task at once, inside the caller's own poll, if it is the one the
 * calling worker would run next anyway. */
void hdi_sched_run_now(struct hd_task *task);

/* Put a task that just became SCHEDULED into a queue, with its reference. */
void hdi_sched_submit(struct hd_task *task);

/* The same for a fiber whose wait was decided, as the last act of a call that returns 0. */
int hdi_sched_resume(struct hd_task *task);

/* The runtime stays while a guest is inside. Context: any thread but its workers. */
void hdi_sched_guest_enter(struct hd_runtime *runtime);
void hdi_sched_guest_leave(struct hd_runtime *runtime);

/* Return the memory of a task whose last reference is gone. */
void hdi_sched_free(struct hd_task *task);

/* hd_spawn_poll_at() for the library itself: neither paid for, nor in need of a right. */
int hdi_spawn_errand(hd_task **handle, hd_poll_fn *poll, const void *state, size_t state_bytes,
                  const hd_spawn_options *options, const hd_site *site);

/* hd_go_at() with a handle, and with somebody who waits for it to be ready (scope/start.c). */
int hdi_spawn_into(struct hdi_nursery *nursery, hd_fn *fn, void *arg, struct hdi_start *start,
                   struct hd_task **handle, const hd_site *site);

/* Whether others run while a plain thread spins: not in sim, nor on a single CPU. */
bool hdi_sched_may_spin(const struct hd_runtime *runtime);

/* Wait on a plain thread until *word differs from `expected`.
 * Returns: 0, -ETIMEDOUT, -EDEADLK in sim when nothing can change it any more. */
int hdi_sched_thread_wait(struct hd_runtime *runtime, _Atomic(uint32_t) *word,
                          uint32_t expected, int64_t deadline_ns);

/* The simulated runtime that a plain thread drives while it waits for something that
 * belongs to none: the one created last; NULL if there is none. */
struct hd_runtime *hdi_sched_thread_home(void);

/* A number in [0, below), from the seed in sim. Context: any. */
uint32_t hdi_sched_draw(uint32_t below);

/* The calling side's clock: of its runtime, or of hdi_sched_thread_home(). */
int64_t hdi_sched_now(void);

/* Wake threads in hdi_sched_thread_wait() on this word, which may be gone already. */
void hdi_sched_thread_wake(struct hd_runtime *runtime, _Atomic(uint32_t) *word);

/* ---- what waiting provides to this layer (wait/) ---- */

/* A stackless task ends: its waits leave their queues. */
void hdi_wait_end_all(struct hd_task *task);

/* A task that a node of a wait is registered to join (JOINER_IS_NODE) has ended. */
struct hdi_node;
void hdi_wait_joined(struct hdi_node *node);

/* ---- this layer ---- */

/* task/wake.c: drop one reference, freeing the task with the last. */
void hdi_task_unref(struct hd_task *task);

/* task/wake.c: wake a task; `consume` gives up the caller's reference. */
void hdi_task_wake(struct hd_task *task, bool consume);

/* task/join.c: the state of a stackless task goes away. */
void hdi_task_end_state(struct hd_task *task);

/* task/join.c: the running side's last act: publish the result, drop the scheduler's
 * reference, and wake whoever joined. The task may be gone afterwards. */
void hdi_task_complete(struct hd_task *task, int result);

/* task/join.c: the parts of joining, for a wait for several things. begin: have
 * hdi_wait_joined(node) called at the end; false if it has ended. leave: take that back;
 * false if it has ended and the call is on its way. finish: it has ended; end the handle. */
bool hdi_task_ended(struct hd_task *task);
bool hdi_task_join_begin(struct hd_task *task, struct hdi_node *node);
bool hdi_task_join_leave(struct hd_task *task);
int hdi_task_join_finish(struct hd_task *task, int *result);

/* task/join.c: hd_join_until() on a plain thread. */
int hdi_task_join_thread(struct hd_task *task, int *result, int64_t deadline);

/* task/join.c: complete an idle, cancelled stackless task without running it.
 * Context: any thread that holds a reference. Returns false if it was not idle. */
bool hdi_task_drop_idle(struct hd_task *task);

#endif
