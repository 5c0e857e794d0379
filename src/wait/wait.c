/* SPDX-License-Identifier: MIT */
#include "wait/wait.h"

#include <errno.h>

#include "base/check.h"

/* ---- one case ---- */

static struct hdi_waitable *waitable_of(const struct hdi_op *op, const hd_case *c)
{
    return hdi_unlikely(op->through) ? *(struct hdi_waitable **)c->object : c->object;
}

static struct hdi_lock *lock_of(const hd_case *c)
{
    return &waitable_of(hdi_case_node((hd_case *)c)->op, c)->lock;
}

static int ended_otherwise(int which)
{
    if (which < 0) return which;
    return which == (int)HDI_ENDED_TIMEOUT ? -ETIMEDOUT : hdi_scope_code(hdi_task_self());
}

/* The wait ended for another reason: no completer may find the node any more (WAIT-3). */
static void leave_queue(hd_case *c)
{
    struct hdi_node *node = hdi_case_node(c);
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    if (node->op->late) {
        node->op->dequeue(c, &wakeups);
    } else {
        hdi_lock_take(lock_of(c));
        node->op->dequeue(c, &wakeups);
        hdi_lock_give(lock_of(c));
    }
    hdi_wakeups_go(&wakeups);
}

int hdi_wait_left(hd_case *c, int which)
{
    leave_queue(c);
    return ended_otherwise(which);
}

HDI_ALWAYS_INLINE int wait_locked(const struct hdi_op *op, hd_case *c, int64_t deadline,
                                  bool cancellable)
{
    struct hdi_waiter waiter;
    const int err = deadline == HD_NOW ? -EAGAIN : hdi_waiter_begin(&waiter, cancellable);
    struct hdi_node *node = hdi_case_node(c);
    node->op = op;
    if (hdi_unlikely(err)) {
        hdi_lock_give(lock_of(c));
        return err;
    }
    node->waiter = &waiter;
    node->index = 0;
    waiter.cases = c;
    waiter.count = 1;
    if (hdi_unlikely(waiter.kind == HDI_WAITER_THREAD) && op->host) waiter.host = op->host(c);
    (void)op->enqueue(c);
    hdi_lock_give(lock_of(c));
    const int which = hdi_waiter_sleep(&waiter, deadline, cancellable);
    if (hdi_unlikely(which != 0)) return hdi_wait_left(c, which);
    if (op->taken) op->taken(c);
    return c->result;
}

int hdi_wait_locked(const struct hdi_op *op, hd_case *c, int64_t deadline)
{
    return wait_locked(op, c, deadline, true);
}

int hdi_wait_locked_always(const struct hdi_op *op, hd_case *c)
{
    return wait_locked(op, c, HD_FOREVER, false);
}

int hdi_wait_locked_until(const struct hdi_op *op, hd_case *c, int64_t deadline)
{
    return wait_locked(op, c, deadline, false);
}

int hdi_wait(const struct hdi_op *op, hd_case *c, int64_t deadline)
{
    const int err = hdi_wait_enter(deadline, c->object);
    if (err) return err;
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    struct hdi_lock *lock = &waitable_of(op, c)->lock;
    hdi_lock_take(lock);
    if (!op->attempt(c, &wakeups)) return hdi_wait_locked(op, c, deadline);
    hdi_lock_give(lock);
    hdi_wakeups_go(&wakeups);
    if (op->attempted) op->attempted(c);
    return c->result;
}

/* ---- several cases ---- */

static bool is_locked_kind(const hd_case *c)
{
    const struct hdi_op *op = hdi_case_node((hd_case *)c)->op;
    return op && !op->late;
}

/* The locks to be taken, in the order of their addresses, which no result depends on, each
 * once: the i-th is in the node of the i-th case, so that no memory is needed for any number
 * of cases. NULL ends them. */
static struct hdi_lock **lock_at(hd_case *cases, size_t i)
{
    return &hdi_case_node(&cases[i])->lock;
}

static void swap_locks(hd_case *cases, size_t a, size_t b)
{
    struct hdi_lock *lock = *lock_at(cases, a);
    *lock_at(cases, a) = *lock_at(cases, b);
    *lock_at(cases, b) = lock;
}

static void sift_down(hd_case *cases, size_t root, size_t count)
{
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && *lock_at(cases, child) < *lock_at(cases, child + 1)) child++;
        if (*lock_at(cases, root) >= *lock_at(cases, child)) return;
        swap_locks(cases, root, child);
    }
}

static void sort_locks(hd_case *cases, size_t count)
{
    for (size_t i = count / 2; i > 0; i--) sift_down(cases, i - 1, count);
    for (size_t i = count; i > 1; i--) {
        swap_locks(cases, 0, i - 1);
        sift_down(cases, 0, i - 1);
    }
}

/* Of sorted ones, each once. Returns how many. */
static size_t unique_locks(hd_case *cases, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && *lock_at(cases, kept - 1) == *lock_at(cases, i)) continue;
        *lock_at(cases, kept++) = *lock_at(cases, i);
    }
    return kept;
}

/* Put one where it belongs among `count` sorted ones. */
static void insert_lock(hd_case *cases, size_t count, struct hdi_lock *lock)
{
    for (; count > 0 && *lock_at(cases, count - 1) > lock; count--) {
        *lock_at(cases, count) = *lock_at(cases, count - 1);
    }
    *lock_at(cases, count) = lock;
}

static void find_locks(hd_case *cases, size_t count)
{
    enum { FEW = 16 }; /* as they come sorted, or nearly, as a rule */
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_locked_kind(&cases[i])) continue;
        if (count <= FEW) {
            insert_lock(cases, found, lock_of(&cases[i]));
        } else {
            *lock_at(cases, found) = lock_of(&cases[i]);
        }
        found++;
    }
    if (count > FEW) sort_locks(cases, found);
    found = unique_locks(cases, found);
    if (found < count) *lock_at(cases, found) = NULL;
}

static void lock_all(hd_case *cases, size_t count)
{
    if (HDI_MUTANT(select_piecemeal)) return;
    find_locks(cases, count);
    for (size_t i = 0; i < count && *lock_at(cases, i); i++) hdi_lock_take(*lock_at(cases, i));
}

static void unlock_all(hd_case *cases, size_t count)
{
    if (HDI_MUTANT(select_piecemeal)) return;
    for (size_t i = 0; i < count && *lock_at(cases, i); i++) hdi_lock_give(*lock_at(cases, i));
}

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    while (b) {
        const uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* An order to look at the cases in: from `at`, each `step` further, round the array, which
 * reaches all since the two have no common divisor. Of any two cases either is as likely
 * to come first: for every (at, step) there is (at - step, -step), which goes backwards. */
struct round {
    uint32_t at, step;
};

static struct round draw_round(size_t count, unsigned flags)
{
    const uint32_t n = (uint32_t)count;
    struct round round = {0, 1};
    if ((flags & HD_SELECT_FIRST) || n < 2) return round;
    round.at = hdi_sched_draw(n);
    if (n == 2) return round;
    round.step = 1 + hdi_sched_draw(n - 1);
    if ((n & (n - 1)) == 0) {
        round.step |= 1; /* Of a power of 2 only 2 is a divisor. */
    } else {
        while (common_divisor(n, round.step) != 1) round.step = 1 + hdi_sched_draw(n - 1);
    }
    return round;
}

/* Mutant select_piecemeal: each case under its own lock only. */
static bool attempt_alone(hd_case *c, struct hdi_wakeups *wakeups)
{
    hdi_lock_take(lock_of(c));
    const bool had = hdi_case_node(c)->op->attempt(c, wakeups);
    hdi_lock_give(lock_of(c));
    return had;
}

static void enqueue_alone(hd_case *c)
{
    hdi_lock_take(lock_of(c));
    (void)hdi_case_node(c)->op->enqueue(c);
    hdi_lock_give(lock_of(c));
}

static bool attempt(hd_case *c, int64_t now_ns, struct hdi_wakeups *wakeups)
{
    const struct hdi_op *op = hdi_case_node(c)->op;
    if (HDI_MUTANT(select_piecemeal) && op && !op->late) return attempt_alone(c, wakeups);
    if (op) return op->attempt(c, wakeups);
    if (c->kind != HD_CASE_AT || c->number > now_ns) return false;
    c->result = 0;
    return true;
}

/* Returns the index of the case that could be had; -EAGAIN. Context: all locks. */
static int attempt_any(hd_case *cases, size_t count, unsigned flags, int64_t now_ns,
                       struct hdi_wakeups *wakeups)
{
    struct round round = draw_round(count, flags);
    for (size_t i = 0; i < count; i++) {
        if (attempt(&cases[round.at], now_ns, wakeups)) return (int)round.at;
        round.at += round.step;
        if (round.at >= count) round.at -= (uint32_t)count;
    }
    return -EAGAIN;
}

static void enqueue_all(struct hdi_waiter *waiter)
{
    for (size_t i = 0; i < waiter->count; i++) {
        struct hdi_node *node = hdi_case_node(&waiter->cases[i]);
        node->waiter = waiter;
        node->index = (uint32_t)i;
        if (!node->op || node->op->late) continue;
        if (HDI_MUTANT(select_piecemeal)) {
            enqueue_alone(&waiter->cases[i]);
        } else {
            (void)node->op->enqueue(&waiter->cases[i]);
        }
    }
}

static void enqueue_late(struct hdi_waiter *waiter)
{
    bool over = false;
    for (size_t i = 0; i < waiter->count; i++) {
        struct hdi_node *node = hdi_case_node(&waiter->cases[i]);
        if (!node->op || !node->op->late) continue;
        node->registered = !over && node->op->enqueue(&waiter->cases[i]);
        if (!over && !node->registered) {
            (void)hdi_waiter_end_self(waiter, (uint32_t)i); /* Lost: another case won. */
            over = true;
        }
    }
}

/* The first HD_AT; -1 if there is none. */
static int earliest(const hd_case *cases, size_t count)
{
    int first = -1;
    for (size_t i = 0; i < count; i++) {
        if (cases[i].kind != HD_CASE_AT) continue;
        if (first < 0 || cases[i].number < cases[first].number) first = (int)i;
    }
    return first;
}

/* The deadline, or the HD_AT `at` if that is earlier. */
static int64_t limit(const hd_case *cases, int at, int64_t deadline)
{
    return at >= 0 && cases[at].number < deadline ? cases[at].number : deadline;
}

/* Attempt all; then, for a waiter, queue all. Returns the case that could be had, its
 * effect done; -EAGAIN: queued, or, without a waiter, none. */
static int begin_any(struct hdi_waiter *waiter, hd_case *cases, size_t count, unsigned flags,
                     int at)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    const int64_t now_ns = at >= 0 ? hdi_sched_now() : 0;
    lock_all(cases, count);
    const int had = attempt_any(cases, count, flags, now_ns, &wakeups);
    if (had < 0 && waiter) {
        waiter->cases = cases;
        waiter->count = count;
        enqueue_all(waiter);
    }
    unlock_all(cases, count);
    hdi_wakeups_go(&wakeups);
    if (had < 0) {
        if (waiter) enqueue_late(waiter);
    } else {
        const struct hdi_op *op = hdi_case_node(&cases[had])->op;
        if (op && op->late && op->taken) op->taken(&cases[had]);
        if (op && op->attempted) op->attempted(&cases[had]);
    }
    return had;
}

/* The wait has ended by `which`: leave all queues, and take what was won. */
static int finish_any(struct hdi_waiter *waiter, int which, int64_t deadline)
{
    hd_case *cases = waiter->cases;
    for (size_t i = 0; i < waiter->count; i++) {
        struct hdi_node *node = hdi_case_node(&cases[i]);
        if (!node->op || (int)i == which) continue;
        if (!node->op->late || node->registered) leave_queue(&cases[i]);
    }
    if (which == (int)HDI_ENDED_TIMEOUT) {
        const int at = earliest(cases, waiter->count);
        if (at < 0 || cases[at].number > deadline) return -ETIMEDOUT;
        cases[at].result = 0;
        return at;
    }
    if (which < 0 || which == (int)HDI_ENDED_CANCEL) return ended_otherwise(which);
    const struct hdi_op *op = hdi_case_node(&cases[which])->op;
    if (op->taken) op->taken(&cases[which]);
    return which;
}

/* One case, of a locked kind. Its result stays in it. */
static int wait_any_one(hd_case *c, int64_t deadline)
{
    const struct hdi_op *op = hdi_case_node(c)->op;
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    struct hdi_waiter waiter;
    const int err = deadline == HD_NOW ? 0 : hdi_waiter_begin(&waiter, true);
    if (err) return err;
    struct hdi_lock *lock = lock_of(c);
    hdi_lock_take(lock);
    const bool had = op->attempt(c, &wakeups);
    if (!had && deadline != HD_NOW) {
        waiter.cases = c;
        waiter.count = 1;
        hdi_case_node(c)->waiter = &waiter;
        hdi_case_node(c)->index = 0;
        (void)op->enqueue(c);
    }
    hdi_lock_give(lock);
    hdi_wakeups_go(&wakeups);
    if (had) {
        if (op->attempted) op->attempted(c);
        return 0;
    }
    if (deadline == HD_NOW) return -EAGAIN;
    const int which = hdi_waiter_sleep(&waiter, deadline, true);
    if (which != 0) return hdi_wait_left(c, which);
    if (op->taken) op->taken(c);
    return 0;
}

int hdi_wait_any_entered(hd_case *cases, size_t count, unsigned flags, int64_t deadline,
                         bool cancellable)
{
    const int at = earliest(cases, count);
    struct hdi_waiter waiter;
    const int err = hdi_waiter_begin(&waiter, cancellable);
    if (err) return err;
    const int had = begin_any(&waiter, cases, count, flags, at);
    if (had >= 0) return had;
    const int64_t until = limit(cases, at, deadline);
    return finish_any(&waiter, hdi_waiter_sleep(&waiter, until, cancellable), deadline);
}

int hdi_wait_unless(hd_case *c, const hd_case *stop, int64_t deadline)
{
    hd_case cases[] = {*c, HD_NEVER};
    if (stop) cases[1] = *stop;
    const int which = hdi_wait_any_entered(cases, 2, HD_SELECT_FIRST, deadline, true);
    if (which == 0) c->result = cases[0].result;
    return which == 1 ? cases[1].result : which;
}

int hdi_wait_any(hd_case *cases, size_t count, unsigned flags, int64_t deadline)
{
    const int err = hdi_wait_enter(deadline, NULL);
    if (err) return err;
    if (count == 1 && is_locked_kind(cases)) return wait_any_one(cases, deadline);
    if (deadline == HD_NOW) {
        return begin_any(NULL, cases, count, flags, earliest(cases, count));
    }
    return hdi_wait_any_entered(cases, count, flags, deadline, true);
}

/* ---- stackless tasks ---- */

static void list_wait(struct hdi_waiter *waiter)
{
    waiter->next = waiter->task->poll.waits;
    waiter->task->poll.waits = waiter;
}

static void unlist_wait(struct hdi_waiter *waiter)
{
    struct hdi_waiter **link = &waiter->task->poll.waits;
    while (*link != waiter) link = &(*link)->next;
    *link = waiter->next;
}

static int finish_poll(struct hdi_waiter *waiter, int which, int64_t deadline)
{
    if (waiter->timed) hdi_timer_stop(&waiter->timer);
    unlist_wait(waiter);
    const int had = finish_any(waiter, which, deadline);
    hdi_plain_write(&waiter->kind);
    waiter->kind = HDI_WAITER_NONE; /* Not before: a completer may have read it (WAIT-3). */
    return had;
}

static int begin_poll(struct hdi_waiter *waiter, hd_case *cases, size_t count, unsigned flags,
                      int64_t deadline)
{
    struct hd_task *task = hdi_task_self();
    const int at = earliest(cases, count);
    if (deadline == HD_NOW) return begin_any(NULL, cases, count, flags, at);
    hdi_plain_write(&waiter->kind);
    *waiter = (struct hdi_waiter){.kind = HDI_WAITER_TASK, .task = task};
    waiter->since_ns = hdi_exec_self()->coarse_ns;
    const int had = begin_any(waiter, cases, count, flags, at);
    if (had >= 0) {
        waiter->kind = HDI_WAITER_NONE;
        return had;
    }
    list_wait(waiter);
    const int64_t until = limit(cases, at, deadline);
    if (until != HD_FOREVER) hdi_waiter_start_timer(waiter, until);
    return -EAGAIN;
}

int hdi_wait_poll(struct hdi_waiter *waiter, hd_case *cases, size_t count, unsigned flags,
                  int64_t deadline)
{
    const bool cancelled = hd_cancelled();
    if (waiter->kind == HDI_WAITER_NONE) {
        struct hd_task *self = hdi_task_self();
        const int err = hdi_attend(self, HDI_COST_CALL, deadline == HD_NOW, NULL);
        if (err) return err;
        const int had = begin_poll(waiter, cases, count, flags, deadline);
        if (had != -EAGAIN || deadline == HD_NOW) return had;
    }
    HD_CHECK_MSG(waiter->task == hdi_task_self() && waiter->cases == cases,
                 "a wait is polled by another task, or with other cases");
    uint32_t which;
    if (cancelled && (hdi_waiter_end_self(waiter, (uint32_t)HDI_ENDED_CANCEL) ||
                      HDI_MUTANT(waiter_cancel_wins))) {
        return finish_poll(waiter, (int)HDI_ENDED_CANCEL, deadline);
    }
    if (!hdi_waiter_over(waiter, &which)) return -EAGAIN;
    return finish_poll(waiter, (int)which, deadline);
}

int hdi_wait_give_up(struct hdi_waiter *waiter)
{
    if (waiter->kind == HDI_WAITER_NONE) return -ECANCELED;
    uint32_t which = (uint32_t)HDI_ENDED_CANCEL;
    if (!hdi_waiter_end_self(waiter, which)) {
        while (!hdi_waiter_over(waiter, &which)) hdi_cpu_relax(); /* being filled */
    }
    /* If time ended it, then that of its timer. */
    const int64_t until = waiter->timed ? waiter->timer.node.deadline_ns : HD_FOREVER;
    const int had = finish_poll(waiter, (int)which, until);
    return had >= 0 ? had : -ECANCELED;
}

void hdi_wait_end_all(struct hd_task *task)
{
    for (struct hdi_waiter *waiter; (waiter = task->poll.waits);) {
        hd_case *cases = waiter->cases;
        const int had = hdi_wait_give_up(waiter);
        const struct hdi_op *op = had >= 0 ? hdi_case_node(&cases[had])->op : NULL;
        if (op && op->unused) op->unused(&cases[had]);
    }
}
