/* SPDX-License-Identifier: MIT
 *
 * supervise: children that are run again when they end.
 *
 * A supervised child is one task for as long as the nursery keeps it. It calls the child's
 * function again and again, each time in a scope of its own, and decides itself, under the lock
 * that all children of the nursery share, what follows:
 *
 *            its turn              to be run again, one_for_one
 *   NEW -------------> RUNNING ---------------------------------> IDLE -----+
 *    |                 ^  ^  |                                              |
 *    +-- a round --+   |  |  +-- to be run again, the other strategies --+  |
 *                  v   |  +----------------------------------------------|--+
 *                 HELD +                                                 |
 *                  ^-----------------------------------------------------+
 *
 * A round is how several start anew. Who ended asks the others that it takes with it to end, and
 * is HELD; each of them, having ended, is HELD too. Those that were asked and run on are counted in
 * `busy`. A held child starts once nobody is busy, the pause is over, and no held child was added
 * before it; then it tells the next. So nobody leads a round, and what happens during one needs
 * no rule of its own: another failure asks further children, a new child is held with the rest, a
 * child that fails while later ones still wait for their turn is the first of the held again.
 *
 *   SUP-1  Everything is under the supervisor's lock, but for what is constant.
 *   SUP-2  `busy` is the number of children that are `asked`; only RUNNING ones are.
 *   SUP-3  A child is in `held` exactly while it is HELD, and `held` has room for all children.
 *   SUP-4  Who makes `busy` 0, or takes the first out of `held`, tells who is first then. It looks
 *          again at all three conditions, so one telling too many does no harm.
 *   SUP-5  `scope` is cleared before the scope is left; who sees it under the lock may ask it,
 *          which holds it (SCOPE-2).
 *
 * Rejected
 *   A task that supervises: one more for each nursery, which could not itself be a child without
 *   being cancelled with them.
 *   A new task for each call: a spawn can fail, and a nursery that is closing accepts none.
 *   Waking the held ones in order: the order in which they then run is the scheduler's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <heddle/supervise.h>
#include <heddle/time.h>

#include "base/heap.h"
#include "os/mutex.h"
#include "scope/nursery.h"

#define INTENSITY_MAX 1000000u
#define ROOM_MIN      8u
#define JITTER_GRAINS (1 << 16)

enum state {
    NEW, /* its task has not run yet */
    RUNNING,
    IDLE, /* it has ended, or has a pause of its own */
    HELD,
};

struct child {
    struct hdi_list link;          /* in `children` */
    struct hdi_heap_node held;     /* its sequence is the order of adding */
    struct child *next_named;      /* in the same chain of `names` */
    struct hdi_nursery *nursery;   /* constant, as are fn, arg, restart, name */
    hd_fn *fn;
    void *arg;
    hd_restart restart;
    enum state state;
    bool asked;                    /* to end, by another child */
    int last;                      /* what it returned last */
    struct hdi_scope *scope;       /* of the call under way; NULL: none */
    uint64_t starts;
    int64_t started_ns;            /* the last */
    int64_t backoff_ns;            /* the last pause, before jitter; 0: none yet */
    struct hd_task *task;          /* HELD: who waits for its turn */
    char name[];
};

struct hdi_supervisor {
    hd_supervision options;        /* constant; defaults are filled in */
    struct hdi_mutex lock;
    struct hdi_list children;      /* in the order they were added */
    size_t count, room;            /* how many there are, and may be before it grows */
    struct child **names;          /* `room` chains, by hash */
    struct hdi_heap held;
    uint64_t added;                /* so far */
    unsigned busy;
    int64_t due_ns;                /* no held child starts before */
    uint64_t restarts;             /* so far */
    int64_t *restarts_ns;          /* when the last `intensity` of them were; a ring */
};

/* ---- the children there are ---- */

static struct child **chain_of(const struct hdi_supervisor *s, const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    return &s->names[hash & (s->room - 1)];
}

static struct child *find(const struct hdi_supervisor *s, const char *name)
{
    struct child *c = s->room ? *chain_of(s, name) : NULL;
    while (c && strcmp(c->name, name) != 0) c = c->next_named;
    return c;
}

static void put_name(struct hdi_supervisor *s, struct child *c)
{
    struct child **chain = chain_of(s, c->name);
    c->next_named = *chain;
    *chain = c;
}

static void take_name(struct hdi_supervisor *s, struct child *c)
{
    struct child **at = chain_of(s, c->name);
    while (*at != c) at = &(*at)->next_named;
    *at = c->next_named;
}

static struct child *child_at(struct hdi_list *link)
{
    return (struct child *)((char *)link - offsetof(struct child, link));
}

/* Have room for one more. */
static int make_room(struct hdi_supervisor *s)
{
    if (s->count < s->room) return 0;
    const size_t room = s->room ? s->room * 2 : ROOM_MIN;
    struct child **names = calloc(room, sizeof(*names));
    struct hdi_heap_node **nodes = malloc(room * sizeof(*nodes));
    if (!names || !nodes) {
        free(names);
        free(nodes);
        return -ENOMEM;
    }
    if (s->held.count) memcpy(nodes, s->held.nodes, s->held.count * sizeof(*nodes));
    free(s->held.nodes);
    free(s->names);
    s->held.nodes = nodes;
    s->held.capacity = s->room = room;
    s->names = names;
    for (struct hdi_list *l = s->children.next; l != &s->children; l = l->next) {
        put_name(s, child_at(l));
    }
    return 0;
}

static int add(struct hdi_supervisor *s, struct child *c)
{
    hdi_mutex_lock(&s->lock);
    const int err = find(s, c->name) ? -EEXIST : make_room(s);
    if (!err) {
        c->held.sequence = s->added++;
        s->count++;
        put_name(s, c);
        hdi_list_push_back(&s->children, &c->link);
    }
    hdi_mutex_unlock(&s->lock);
    return err;
}

/* ---- turns: all under the lock ---- */

static struct child *first_held(const struct hdi_supervisor *s)
{
    struct hdi_heap_node *node = hdi_heap_peek(&s->held);
    return node ? (struct child *)((char *)node - offsetof(struct child, held)) : NULL;
}

static void tell_first(struct hdi_supervisor *s)
{
    struct child *first = first_held(s);
    if (first && s->busy == 0) hdi_task_wake(first->task, false);
}

static void hold(struct hdi_supervisor *s, struct child *c)
{
    c->state = HELD;
    c->task = hdi_task_self();
    const bool fits = hdi_heap_insert(&s->held, &c->held);
    HDI_ASSERT(fits); /* SUP-3 */
    (void)fits;
}

static void unhold(struct hdi_supervisor *s, struct child *c)
{
    hdi_heap_remove(&s->held, &c->held);
    c->state = IDLE;
    tell_first(s); /* SUP-4 */
}

/* It is gone for good. */
static void forget(struct child *c)
{
    struct hdi_supervisor *s = c->nursery->supervisor;
    hdi_mutex_lock(&s->lock);
    HDI_ASSERT(!c->asked && !c->scope); /* SUP-2, SUP-5 */
    if (c->state == HELD) unhold(s, c);
    take_name(s, c);
    hdi_list_remove(&c->link);
    s->count--;
    hdi_mutex_unlock(&s->lock);
    free(c);
}

/* Whether nothing is to start any more: the nursery is cancelled, or this task by itself, as at a
 * shutdown. */
static bool is_ending(const struct child *c)
{
    const uint64_t word = hdi_load_relaxed(&hdi_task_self()->word); /* or the next wait sees it */
    return hdi_scope_asked(&c->nursery->scope) || hdi_word_cancelled(word);
}

static int why_ending(const struct child *c)
{
    const hd_cause cause = hdi_scope_cause_of(&c->nursery->scope);
    return cause.root == HD_REASON_TIMEOUT ? -ETIMEDOUT : -ECANCELED;
}

/* Sleep until it is woken, or until then. Context: no lock. */
static int park_until(int64_t until_ns)
{
    hd_timer timer = {{0}};
    int err = until_ns == HD_FOREVER ? 0 : hd_timer_start(&timer, until_ns);
    if (err) return err;
    err = hd_park();
    (void)hd_timer_stop(&timer);
    return err;
}

/* Wait until a held child may start. The lock is given back meanwhile. Returns: 0, or why it may
 * not. */
static int await_turn(struct hdi_supervisor *s, struct child *c)
{
    int err = 0;
    while (!err) {
        const bool first = first_held(s) == c && s->busy == 0;
        if (is_ending(c)) {
            err = why_ending(c);
        } else if (first && s->due_ns <= hdi_sched_now()) {
            return 0;
        } else {
            const int64_t until_ns = first ? s->due_ns : HD_FOREVER;
            hdi_mutex_unlock(&s->lock);
            err = park_until(until_ns);
            hdi_mutex_lock(&s->lock);
        }
    }
    return err;
}

/* ---- one call ---- */

/* Wait for its turn, and say that it runs. Returns: 0, or why it does not. */
static int begin(struct child *c, struct hdi_scope *scope)
{
    struct hdi_supervisor *s = c->nursery->supervisor;
    hdi_mutex_lock(&s->lock);
    if (c->state == NEW && (s->busy > 0 || first_held(s))) hold(s, c);
    const int err = c->state == HELD ? await_turn(s, c) : is_ending(c) ? why_ending(c) : 0;
    if (!err) {
        if (c->state == HELD) unhold(s, c);
        c->state = RUNNING;
        c->scope = scope;
        c->starts++;
        c->started_ns = hdi_sched_now();
    }
    hdi_mutex_unlock(&s->lock);
    return err;
}

/* Call the function. Returns 0 with what it returned in *result, or why it was not called. */
static int call(struct child *c, int *result)
{
    struct hdi_supervisor *s = c->nursery->supervisor;
    hd_scope scope;
    int err = hd_scope_enter_at(&scope, NULL, hdi_task_self()->site);
    if (err) return err;
    err = begin(c, (struct hdi_scope *)&scope);
    if (!err) {
        *result = c->fn(c->arg);
        hdi_mutex_lock(&s->lock);
        c->scope = NULL; /* SUP-5 */
        hdi_mutex_unlock(&s->lock);
    }
    hd_scope_leave(&scope);
    return err;
}

/* ---- what follows: under the lock ---- */

static int64_t later_by(int64_t now_ns, int64_t ns)
{
    return ns > HD_FOREVER - now_ns ? HD_FOREVER : now_ns + ns;
}

/* Count a restart. Returns false if it is one too many. As in Erlang, one that was exactly a period
 * ago still counts. */
static bool count_restart(struct hdi_supervisor *s, int64_t now_ns)
{
    int64_t *oldest_ns = &s->restarts_ns[s->restarts % s->options.intensity];
    const bool full = s->restarts >= s->options.intensity;
    if (full && now_ns - *oldest_ns <= s->options.period_ns) return false;
    *oldest_ns = now_ns;
    s->restarts++;
    return true;
}

/* Shorten a pause by up to jitter_percent, at random. */
static int64_t jitter(const hd_supervision *o, int64_t pause_ns)
{
    if (o->jitter_percent == 0 || pause_ns == 0) return pause_ns;
    const int64_t percent = o->jitter_percent;
    const int64_t most_ns = pause_ns / 100 * percent + pause_ns % 100 * percent / 100;
    const int64_t grains = hdi_sched_draw(JITTER_GRAINS + 1);
    const int64_t less_ns = most_ns / JITTER_GRAINS * grains +
                            most_ns % JITTER_GRAINS * grains / JITTER_GRAINS;
    return pause_ns - less_ns;
}

/* The pause before it is run again: twice the last one, unless it ran for longer than that. */
static int64_t next_pause_ns(struct hdi_supervisor *s, struct child *c, int64_t now_ns)
{
    const hd_supervision *o = &s->options;
    const int64_t last_ns = c->backoff_ns;
    if (last_ns == 0 || now_ns - c->started_ns > last_ns) {
        c->backoff_ns = o->backoff_ns;
    } else {
        c->backoff_ns = last_ns > o->backoff_max_ns / 2 ? o->backoff_max_ns : last_ns * 2;
    }
    return jitter(o, c->backoff_ns);
}

/* Ask those that are to start anew with it. */
static void ask_others(struct hdi_supervisor *s, struct child *c, struct hdi_asked *asked)
{
    const bool all = s->options.strategy == HD_ONE_FOR_ALL;
    const uint64_t id = hdi_task_self()->id;
    for (struct hdi_list *l = all ? s->children.next : c->link.next; l != &s->children;
         l = l->next) {
        struct child *other = child_at(l);
        if (other == c || other->state != RUNNING || other->asked) continue;
        other->asked = true;
        s->busy++;
        if (!other->scope) continue; /* It has just returned by itself. */
        hdi_scope_ask_locked(other->scope, HD_REASON_FAILURE, c->last, id, asked);
    }
}

/* Cancel the nursery. What this child returned is its result, also if another child fails before
 * this task has ended, and whatever errors mean there otherwise. */
static int give_up(struct child *c, struct hdi_asked *asked)
{
    struct hdi_nursery *n = c->nursery;
    const int error = c->last < 0 ? c->last : -ESRCH;
    hdi_lock_take(&n->scope.base.lock);
    if (!n->first_error) n->first_error = error;
    hdi_lock_give(&n->scope.base.lock);
    hdi_scope_ask_locked(&n->scope, HD_REASON_FAILURE, error, hdi_task_self()->id, asked);
    return error;
}

static bool is_restarted(const struct child *c)
{
    switch (c->restart) {
    case HD_PERMANENT: return true;
    case HD_TRANSIENT: return c->last < 0;
    case HD_TEMPORARY: return false;
    }
    return false;
}

/* What follows a call. */
struct verdict {
    bool again;
    int result;       /* if not: of the task */
    int64_t until_ns; /* again: a pause of its own; HD_NOW: none */
};

static struct verdict run_again(struct hdi_supervisor *s, struct child *c, struct hdi_asked *asked)
{
    const int64_t now_ns = hdi_sched_now();
    if (!count_restart(s, now_ns)) return (struct verdict){false, give_up(c, asked), 0};
    const int64_t until_ns = later_by(now_ns, next_pause_ns(s, c, now_ns));
    if (s->options.strategy == HD_ONE_FOR_ONE) {
        c->state = IDLE;
        return (struct verdict){true, 0, until_ns};
    }
    if (s->due_ns < until_ns) s->due_ns = until_ns;
    ask_others(s, c, asked);
    hold(s, c);
    return (struct verdict){true, 0, HD_NOW};
}

static struct verdict judge(struct hdi_supervisor *s, struct child *c, struct hdi_asked *asked)
{
    const bool was_asked = c->asked;
    if (was_asked) {
        c->asked = false;
        if (--s->busy == 0) tell_first(s); /* SUP-4 */
    }
    if (is_ending(c)) return (struct verdict){false, c->last, 0};
    if (was_asked && c->restart != HD_TEMPORARY) {
        hold(s, c);
        return (struct verdict){true, 0, HD_NOW};
    }
    if (!was_asked && is_restarted(c)) return run_again(s, c, asked);
    /* It is not to be restarted, so its failure is nobody's. */
    return (struct verdict){false, c->last < 0 ? 0 : c->last, 0};
}

/* A call returned. */
static struct verdict ended(struct child *c, int result)
{
    struct hdi_supervisor *s = c->nursery->supervisor;
    struct hdi_asked asked = HDI_ASKED_INIT;
    hdi_mutex_lock(&s->lock);
    c->last = result;
    const struct verdict verdict = judge(s, c, &asked);
    if (!verdict.again) c->state = IDLE;
    hdi_mutex_unlock(&s->lock);
    hdi_scope_tell(&asked);
    return verdict;
}

/* Give way, or pause. Returns: 0, or why it is to end. */
static int rest(int64_t until_ns)
{
    if (until_ns > hdi_sched_now()) return hd_sleep_until(until_ns);
    hd_yield(); /* What fails at once must not keep all others from running. */
    return 0;
}

static int supervised(void *arg)
{
    struct child *c = arg;
    int result = 0;
    for (bool again = true; again;) {
        int err = call(c, &result);
        if (!err) {
            const struct verdict verdict = ended(c, result);
            again = verdict.again;
            result = verdict.result;
            if (again) err = rest(verdict.until_ns);
        }
        if (err) {
            again = false;
            result = err;
        }
    }
    forget(c);
    return result;
}

/* ---- the calls ---- */

static struct child *new_child(struct hdi_nursery *nursery, const char *name, hd_restart restart,
                               hd_fn *fn, void *arg)
{
    const size_t bytes = strlen(name) + 1;
    struct child *c = calloc(1, sizeof(*c) + bytes);
    if (!c) return NULL;
    c->nursery = nursery;
    c->restart = restart;
    c->fn = fn;
    c->arg = arg;
    memcpy(c->name, name, bytes);
    return c;
}

int hd_supervise_at(hd_nursery *nursery, const char *name, hd_restart restart, hd_fn *fn, void *arg,
                    const hd_site *site)
{
    struct hdi_nursery *n = hdi_nursery_of(nursery);
    if (!n->supervisor || !name || !*name || !fn || (unsigned)restart > HD_TEMPORARY) {
        return -EINVAL;
    }
    struct child *c = new_child(n, name, restart, fn, arg);
    if (!c) return -ENOMEM;
    int err = add(n->supervisor, c);
    if (err) {
        free(c);
        return err;
    }
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.nursery = nursery;
    options.name = name;
    err = hd_spawn_at(NULL, supervised, c, &options, site);
    if (err) forget(c); /* otherwise it may be gone by now */
    return err;
}

int hd_supervised_look(hd_nursery *nursery, const char *name, hd_supervised *out)
{
    struct hdi_supervisor *s = hdi_nursery_of(nursery)->supervisor;
    if (!s || !name) return -ENOENT;
    hdi_mutex_lock(&s->lock);
    const struct child *c = find(s, name);
    if (c) *out = (hd_supervised){c->starts, c->state == RUNNING, c->last};
    hdi_mutex_unlock(&s->lock);
    return c ? 0 : -ENOENT;
}

/* ---- its life ---- */

/* Fill in the defaults. Returns: 0, -EINVAL. */
static int resolve(const hd_supervision *in, hd_supervision *out)
{
    if (in->size != sizeof(*in)) return -EINVAL;
    *out = *in;
    if (out->intensity == 0) out->intensity = 3;
    if (out->period_ns == 0) out->period_ns = 5 * HD_SECOND_NS;
    if (out->backoff_max_ns == 0) {
        out->backoff_max_ns = 30 * HD_SECOND_NS;
        if (out->backoff_max_ns < out->backoff_ns) out->backoff_max_ns = out->backoff_ns;
    }
    const bool sound = (unsigned)out->strategy <= HD_REST_FOR_ONE &&
                       out->intensity <= INTENSITY_MAX && out->period_ns > 0 &&
                       out->backoff_ns >= 0 && out->backoff_max_ns >= out->backoff_ns &&
                       out->jitter_percent <= 100;
    return sound ? 0 : -EINVAL;
}

int hdi_supervisor_open(struct hdi_nursery *nursery, const hd_supervision *options)
{
    hd_supervision resolved;
    const int err = resolve(options, &resolved);
    if (err) return err;
    struct hdi_supervisor *s = calloc(1, sizeof(*s));
    int64_t *restarts_ns = calloc(resolved.intensity, sizeof(*restarts_ns));
    if (!s || !restarts_ns) {
        free(s);
        free(restarts_ns);
        return -ENOMEM;
    }
    s->options = resolved;
    s->restarts_ns = restarts_ns;
    hdi_list_init(&s->children);
    nursery->supervisor = s;
    return 0;
}

void hdi_supervisor_close(struct hdi_nursery *nursery)
{
    struct hdi_supervisor *s = nursery->supervisor;
    if (!s) return;
    /* All tasks have ended; left is who could not get a stack, and so never ran. */
    for (struct hdi_list *link; (link = hdi_list_pop_front(&s->children));) free(child_at(link));
    free(s->held.nodes);
    free(s->names);
    free(s->restarts_ns);
    free(s);
}
