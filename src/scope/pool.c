/* SPDX-License-Identifier: MIT */
#include "scope/budget.h"

#include <errno.h>
#include <stdlib.h>

#include "sched/runtime.h"
#include "sync/waitq.h"

/* ---- one line, under the lock ---- */

/* Move `amount` out of what remains. */
static void hand(struct hdi_pool *pool, unsigned resource, int64_t amount)
{
    struct hdi_line *line = &pool->lines[resource];
    line->remaining -= amount;
    *(hdi_slice_max(resource) ? &line->granted : &line->consumed) += amount;
    hdi_line_check(line);
}

static void say_used(struct hdi_line *line, int64_t used)
{
    line->granted -= used;
    line->consumed += used;
}

/* ---- those who wait ---- */

/* What the owner of a node in a queue wants. */
static struct hdi_draw *draw_of(struct hdi_node *node)
{
    return hdi_node_case(node)->item;
}

static void unqueue(struct hdi_pool *pool, struct hdi_node *node)
{
    if (!node->queued) return;
    pool->lines[draw_of(node)->resource].waiting--;
    hdi_node_dequeue(node);
}

/* How much of what remains a slice is, if it is enough. */
static int64_t slice_of(const struct hdi_line *line, const struct hdi_draw *draw)
{
    if (line->waiting > 0) return draw->need;
    const int64_t share = line->remaining / (2 * (int64_t)(line->sharers ? line->sharers : 1));
    const int64_t slice = hdi_less(share, draw->most);
    return slice > draw->need ? slice : draw->need;
}

/* Give it to one who does not stand in the queue. Returns false if there is not enough. */
static bool serve_one(struct hdi_pool *pool, struct hdi_draw *draw)
{
    const struct hdi_line *line = &pool->lines[draw->resource];
    if (line->remaining < draw->need) return false;
    draw->got = hdi_slice_max(draw->resource) ? slice_of(line, draw) : draw->need;
    hand(pool, draw->resource, draw->got);
    return true;
}

/* Give it to one who does. The timer of the keeper may have ended its wait just now: it is still
 * its turn. */
static void serve_node(struct hdi_pool *pool, struct hdi_node *node, struct hdi_wakeups *wakeups)
{
    struct hdi_draw *draw = draw_of(node); /* WAIT-2: read before. */
    const unsigned resource = draw->resource;
    const int64_t need = draw->need;
    unqueue(pool, node);
    if (hdi_waitq_complete(node, 0, wakeups)) {
        hand(pool, resource, need);
    } else if (draw == pool->keeper) {
        hand(pool, resource, draw->got = need);
    }
}

/* Whoever came first gets what it wants, while there is enough. `own` comes last, and stands in no
 * queue; NULL: nobody. Context: lock. */
static void serve(struct hdi_pool *pool, unsigned resource, struct hdi_draw *own,
                  struct hdi_wakeups *wakeups)
{
    struct hdi_line *line = &pool->lines[resource];
    struct hdi_draw *keeper = pool->keeper; /* until it had its turn */
    if (keeper && (keeper->resource != resource || !keeper->away || keeper->got)) keeper = NULL;
    while (keeper || line->waiting > 0) {
        struct hdi_node *node = line->waiting > 0 ? hdi_node_of(line->queue.next) : NULL;
        if (keeper && (!node || keeper->ticket < draw_of(node)->ticket)) {
            if (!serve_one(pool, keeper)) return;
            keeper = NULL;
        } else {
            if (line->remaining < draw_of(node)->need) return;
            serve_node(pool, node, wakeups);
        }
    }
    if (own) (void)serve_one(pool, own);
}

static bool draw_enqueue(hd_case *c)
{
    struct hdi_pool *pool = c->object;
    struct hdi_draw *draw = c->item;
    struct hdi_node *node = hdi_case_node(c);
    struct hdi_line *line = &pool->lines[draw->resource];
    struct hdi_list *before = line->queue.prev;
    while (before != &line->queue && draw_of(hdi_node_of(before))->ticket > draw->ticket) {
        before = before->prev;
    }
    hdi_node_enqueue(before->next, node); /* in front of the next, that is */
    line->waiting++;
    draw->away = false;
    return true;
}

/* Those behind it may be content with less. */
static void draw_dequeue(hd_case *c, struct hdi_wakeups *wakeups)
{
    struct hdi_draw *draw = c->item;
    unqueue(c->object, hdi_case_node(c));
    draw->away = true;
    serve(c->object, draw->resource, NULL, wakeups);
}

/* Nobody selects it, so it is never attempted by the engine. */
static const struct hdi_op op_draw = {
    .what = "draw from budget",
    .enqueue = draw_enqueue,
    .dequeue = draw_dequeue,
};

/* More remains: somebody may have waited for it. Context: lock, given back. */
static void serve_and_unlock(struct hdi_pool *pool, unsigned resource)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_line_check(&pool->lines[resource]);
    serve(pool, resource, NULL, &wakeups);
    hdi_lock_give(&pool->base.lock);
    hdi_wakeups_go(&wakeups);
}

/* ---- spawns ---- */

/* Context: lock; what keeps who draws from it, or nobody does any more. */
static void return_spawns(struct hdi_pool *pool, struct hdi_spawns *spawns)
{
    struct hdi_line *line = &pool->lines[HD_SPAWN_COUNT];
    say_used(line, spawns->held - spawns->left);
    line->granted -= spawns->left;
    line->remaining += spawns->left;
    line->sharers--;
    hdi_line_check(line);
    hdi_list_remove(&spawns->among);
    spawns->held = spawns->left = 0;
}

static struct hdi_spawns *spawns_among(struct hdi_list *among)
{
    return (struct hdi_spawns *)((char *)among - offsetof(struct hdi_spawns, among));
}

static struct hdi_lock *lock_of(struct hdi_spawns *spawns)
{
    struct hdi_nursery *nursery =
        (struct hdi_nursery *)((char *)spawns - offsetof(struct hdi_nursery, spawns));
    return &nursery->scope.base.lock;
}

/* Context: task->scopes, given back, and the locks of the nurseries in its chain before `end`. */
static void unlock_chain(struct hd_task *task, const struct hdi_scope *end)
{
    for (struct hdi_scope *s = task->scope; s != end; s = s->up) {
        if (s->kind == HDI_SCOPE_NURSERY) hdi_lock_give(&s->base.lock);
    }
    hdi_lock_give(&task->scopes);
}

/* A task uses its slice with the lock of a nursery held that it has opened. Returns false if one is
 * busy. */
static bool try_to_lock_chain(struct hd_task *task)
{
    if (!hdi_lock_try(&task->scopes)) return false;
    for (struct hdi_scope *s = task->scope; s; s = s->up) {
        if (s->kind != HDI_SCOPE_NURSERY || hdi_lock_try(&s->base.lock)) continue;
        unlock_chain(task, s);
        return false;
    }
    return true;
}

/* Context: lock. Returns false if who holds it is busy. */
static bool try_to_return_spawns(struct hdi_pool *pool, struct hdi_spawns *spawns)
{
    struct hd_task *task = spawns->task;
    if (!(task ? try_to_lock_chain(task) : hdi_lock_try(lock_of(spawns)))) return false;
    return_spawns(pool, spawns);
    if (task) {
        unlock_chain(task, NULL);
    } else {
        hdi_lock_give(lock_of(spawns));
    }
    return true;
}

bool hdi_spawns_collect(struct hdi_pool *pool)
{
    while (!hdi_list_empty(&pool->spawns)) {
        if (!try_to_return_spawns(pool, spawns_among(pool->spawns.next))) return false;
    }
    return true;
}

/* The same for good. Context: lock, which is given back meanwhile: who is busy may want it. */
static void collect(struct hdi_pool *pool, unsigned resource)
{
    if (resource != HD_SPAWN_COUNT) return;
    while (!hdi_spawns_collect(pool)) {
        hdi_lock_give(&pool->base.lock);
        hdi_thread_yield();
        hdi_lock_take(&pool->base.lock);
    }
}

static bool draw_spawns(struct hdi_pool *pool, struct hdi_spawns *spawns)
{
    enum { MOST = 256 };
    struct hdi_line *line = &pool->lines[HD_SPAWN_COUNT];
    if (spawns->held) return_spawns(pool, spawns); /* All of it was used. */
    if (line->remaining == 0) return false;
    const int64_t share = line->remaining / (2 * ((int64_t)line->sharers + 1));
    const int64_t slice = hdi_less(share > 1 ? share : 1, MOST);
    line->remaining -= slice;
    line->granted += slice;
    line->sharers++;
    hdi_line_check(line);
    hdi_list_push_back(&pool->spawns, &spawns->among);
    spawns->held = slice;
    spawns->left = slice - 1;
    return true;
}

bool hdi_spawns_draw(struct hdi_spawns *spawns, struct hdi_pool *pool)
{
    HDI_ASSERT(!spawns->pool || spawns->pool == pool);
    spawns->pool = pool;
    hdi_lock_take(&pool->base.lock);
    const bool drawn = draw_spawns(pool, spawns);
    hdi_lock_give(&pool->base.lock);
    return drawn;
}

void hdi_spawns_end(struct hdi_spawns *spawns)
{
    struct hdi_pool *pool = spawns->pool;
    if (!pool) return;
    hdi_lock_take(&pool->base.lock);
    if (spawns->held) return_spawns(pool, spawns);
    hdi_lock_give(&pool->base.lock);
}

/* ---- refills ---- */

/* Whatever of `amount` there is, for a pool inside. Context: that one's lock. */
static int64_t grant_most(struct hdi_pool *pool, unsigned resource, int64_t amount)
{
    struct hdi_line *line = &pool->lines[resource];
    hdi_lock_take(&pool->base.lock);
    if (resource == HD_SPAWN_COUNT) (void)hdi_spawns_collect(pool); /* It must not be given back. */
    amount = line->waiting ? 0 : hdi_less(amount, line->remaining);
    line->remaining -= amount;
    line->granted += amount;
    hdi_line_check(line);
    hdi_lock_give(&pool->base.lock);
    return amount;
}

/* Give it more, as far as there is more around it. Context: lock. Returns how much. */
static int64_t enrich(struct hdi_pool *pool, unsigned resource, int64_t amount)
{
    struct hdi_line *line = &pool->lines[resource];
    struct hdi_pool *up = hdi_pool_up(pool, resource);
    amount = hdi_less(amount, HD_UNLIMITED - 1 - line->given);
    if (up) amount = grant_most(up, resource, amount);
    line->given += amount;
    line->remaining += amount;
    hdi_line_check(line);
    return amount;
}

static void refill_line(struct hdi_pool *pool, unsigned resource, int64_t times,
                        struct hdi_wakeups *wakeups)
{
    int64_t amount;
    if (__builtin_mul_overflow(pool->refill[resource], times, &amount)) amount = INT64_MAX;
    (void)enrich(pool, resource, amount);
    serve(pool, resource, NULL, wakeups);
}

static void refill(struct hdi_pool *pool, int64_t now_ns)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&pool->base.lock);
    const int64_t times = (now_ns - pool->refilled_ns) / pool->refill_ns;
    if (times > 0) {
        pool->refilled_ns += times * pool->refill_ns;
        for (unsigned i = 0; i < HD_RESOURCES; i++) {
            if (hdi_pool_counts(pool, i) && pool->refill[i] > 0) {
                refill_line(pool, i, times, &wakeups);
            }
        }
    }
    hdi_lock_give(&pool->base.lock);
    hdi_wakeups_go(&wakeups);
}

static __attribute__((noinline)) void refresh(struct hdi_pool *pool)
{
    struct hdi_pool *refilled[HDI_REFILLS_MAX];
    unsigned count = 0;
    for (pool = pool->refilled; pool; pool = pool->around ? pool->around->refilled : NULL) {
        refilled[count++] = pool;
    }
    while (count > 0) { /* from the outside: the outer ones give to the inner */
        pool = refilled[--count];
        refill(pool, pool->runtime->world->now(pool->runtime));
    }
}

void hdi_pool_refresh(struct hdi_pool *pool)
{
    if (hdi_unlikely(pool->refilled != NULL)) refresh(pool);
}

/* ---- drawing ---- */

int64_t hdi_pool_draw(struct hdi_pool *pool, struct hdi_draw *draw)
{
    struct hdi_line *line = &pool->lines[draw->resource];
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_pool_refresh(pool);
    hdi_lock_take(&pool->base.lock);
    if (line->remaining < draw->need) collect(pool, draw->resource);
    say_used(line, draw->used);
    line->sharers += draw->joins;
    draw->used = 0;
    draw->joins = false;
    serve(pool, draw->resource, draw, &wakeups);
    hdi_lock_give(&pool->base.lock);
    hdi_wakeups_go(&wakeups);
    return draw->got;
}

/* Have somebody else watch the time. Context: lock. Returns false if there is nobody. */
static bool pass_on_to(struct hdi_pool *pool, struct hdi_line *line, struct hdi_wakeups *wakeups)
{
    while (line->waiting > 0) {
        struct hdi_node *node = hdi_node_of(line->queue.next);
        struct hdi_draw *draw = draw_of(node); /* WAIT-2: read before. */
        unqueue(pool, node);
        draw->away = true;
        if (hdi_waitq_complete(node, -EAGAIN, wakeups)) {
            pool->keeper = draw; /* It does not go before it has taken the lock. */
            return true;
        }
    }
    return false;
}

static void pass_on(struct hdi_pool *pool, struct hdi_wakeups *wakeups)
{
    pool->keeper = NULL;
    for (unsigned i = 0; i < HD_RESOURCES; i++) {
        if (pass_on_to(pool, &pool->lines[i], wakeups)) return;
    }
}

/* Returns: 0, -ECANCELED, -ETIMEDOUT; -EAGAIN: look again. */
static int wait_once(struct hdi_pool *pool, struct hd_task *task, struct hdi_draw *draw)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_pool_refresh(pool);
    hdi_lock_take(&pool->base.lock);
    serve(pool, draw->resource, draw == pool->keeper ? NULL : draw, &wakeups);
    if (draw->got || wakeups.first) { /* Others are not woken with the lock held. */
        hdi_lock_give(&pool->base.lock);
        hdi_wakeups_go(&wakeups);
        return draw->got ? 0 : -EAGAIN;
    }
    if (draw->ticket == HDI_NO_TICKET) draw->ticket = pool->tickets++;
    if (pool->refill_ns && !pool->keeper) pool->keeper = draw;
    const int64_t refill_ns = pool->refilled_ns + pool->refill_ns;
    hd_case c;
    hdi_waitq_case(&c, pool, 0);
    c.item = draw;
    const int err = hdi_wait_locked(&op_draw, &c, pool->keeper == draw ? refill_ns : HD_FOREVER);
    if (err != -ETIMEDOUT) return err;
    const bool cancelled = hdi_word_cancelled(hdi_load_relaxed(&task->word)); /* or next time */
    return cancelled ? hdi_scope_code(task) : -EAGAIN;
}

/* It may have been its turn after the wait had ended otherwise. */
static bool finish(struct hdi_pool *pool, const struct hdi_draw *draw)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&pool->base.lock);
    if (pool->keeper == draw) pass_on(pool, &wakeups);
    hdi_lock_give(&pool->base.lock);
    hdi_wakeups_go(&wakeups);
    return draw->got > 0;
}

int hdi_pool_wait(struct hdi_pool *pool, struct hd_task *task, struct hdi_draw *draw)
{
    int err;
    draw->most = draw->need;
    do {
        err = wait_once(pool, task, draw);
    } while (err == -EAGAIN);
    return finish(pool, draw) ? 0 : err;
}

/* ---- giving back, and giving more ---- */

void hdi_pool_tell(struct hdi_pool *pool, unsigned resource, int64_t used)
{
    hdi_lock_take(&pool->base.lock);
    say_used(&pool->lines[resource], used);
    hdi_line_check(&pool->lines[resource]);
    hdi_lock_give(&pool->base.lock);
}

void hdi_pool_part(struct hdi_pool *pool, unsigned resource, int64_t used, int64_t unused)
{
    struct hdi_line *line = &pool->lines[resource];
    hdi_lock_take(&pool->base.lock);
    say_used(line, used);
    line->granted -= unused;
    line->remaining += unused;
    line->sharers--;
    serve_and_unlock(pool, resource);
}

void hdi_pool_return(struct hdi_pool *pool, unsigned resource, int64_t unused, int64_t used,
                     struct hdi_wakeups *wakeups)
{
    struct hdi_line *line = &pool->lines[resource];
    hdi_lock_take(&pool->base.lock);
    say_used(line, used);
    line->granted -= unused;
    line->remaining += unused;
    hdi_line_check(line);
    serve(pool, resource, NULL, wakeups);
    hdi_lock_give(&pool->base.lock);
}

void hdi_pool_unconsume(struct hdi_pool *pool, unsigned resource, int64_t amount)
{
    hdi_lock_take(&pool->base.lock);
    while (hdi_unlikely(pool->closed)) { /* POOL-6 */
        struct hdi_pool *up = hdi_pool_up(pool, resource);
        hdi_lock_give(&pool->base.lock);
        if (!up) return;
        pool = up;
        hdi_lock_take(&pool->base.lock);
    }
    pool->lines[resource].consumed -= amount;
    pool->lines[resource].remaining += amount;
    serve_and_unlock(pool, resource);
}

bool hdi_pool_grant(struct hdi_pool *pool, unsigned resource, int64_t amount)
{
    struct hdi_line *line = &pool->lines[resource];
    hdi_pool_refresh(pool);
    hdi_lock_take(&pool->base.lock);
    if (line->remaining < amount) collect(pool, resource);
    const bool enough = line->waiting == 0 && line->remaining >= amount;
    if (enough) {
        line->remaining -= amount;
        line->granted += amount;
    }
    hdi_line_check(line);
    hdi_lock_give(&pool->base.lock);
    return enough;
}

void hdi_pool_ungrant(struct hdi_pool *pool, unsigned resource, int64_t amount)
{
    hdi_lock_take(&pool->base.lock);
    pool->lines[resource].granted -= amount;
    pool->lines[resource].remaining += amount;
    serve_and_unlock(pool, resource);
}

void hdi_pool_add(struct hdi_pool *pool, unsigned resource, int64_t amount)
{
    struct hdi_line *line = &pool->lines[resource];
    hdi_lock_take(&pool->base.lock);
    amount = hdi_less(amount, HD_UNLIMITED - 1 - line->given); /* What is new may be that much. */
    line->given += amount;
    line->remaining += amount;
    serve_and_unlock(pool, resource);
}

bool hdi_pool_recharge(struct hdi_pool *pool, unsigned resource, int64_t amount)
{
    if (pool->around) hdi_pool_refresh(pool->around);
    hdi_lock_take(&pool->base.lock);
    const bool more = enrich(pool, resource, amount) > 0;
    serve_and_unlock(pool, resource);
    return more;
}

bool hdi_pool_remove(struct hdi_pool *pool, unsigned resource, int64_t amount)
{
    struct hdi_line *line = &pool->lines[resource];
    hdi_pool_refresh(pool);
    hdi_lock_take(&pool->base.lock);
    if (line->remaining < amount) collect(pool, resource);
    const bool enough = line->waiting == 0 && line->remaining >= amount;
    if (enough) {
        line->given -= amount;
        line->remaining -= amount;
    }
    hdi_line_check(line);
    hdi_lock_give(&pool->base.lock);
    return enough;
}

void hdi_pool_add_granted(struct hdi_pool *pool, unsigned resource, int64_t amount)
{
    hdi_lock_take(&pool->base.lock);
    pool->lines[resource].given += amount;
    pool->lines[resource].granted += amount;
    hdi_line_check(&pool->lines[resource]);
    hdi_lock_give(&pool->base.lock);
}

/* ---- looking ---- */

int64_t hdi_pool_remaining(struct hdi_pool *pool, unsigned resource)
{
    hdi_pool_refresh(pool);
    hdi_lock_take(&pool->base.lock);
    collect(pool, resource);
    const int64_t remaining = pool->lines[resource].remaining;
    hdi_lock_give(&pool->base.lock);
    return remaining;
}

void hdi_pool_look(struct hdi_pool *pool, hd_budget_info *info)
{
    hd_budget_info seen = {.waiting = 0};
    hdi_pool_refresh(pool);
    hdi_lock_take(&pool->base.lock);
    collect(pool, HD_SPAWN_COUNT);
    for (unsigned i = 0; i < HD_RESOURCES; i++) {
        const struct hdi_line *line = &pool->lines[i];
        const bool counts = hdi_pool_counts(pool, i);
        *hdi_budget_at(&seen.given, i) = counts ? line->given : HD_UNLIMITED;
        *hdi_budget_at(&seen.remaining, i) = counts ? line->remaining : HD_UNLIMITED;
        *hdi_budget_at(&seen.granted, i) = line->granted;
        *hdi_budget_at(&seen.consumed, i) = line->consumed;
        seen.waiting += line->waiting;
    }
    hdi_lock_give(&pool->base.lock);
    *info = seen;
}
