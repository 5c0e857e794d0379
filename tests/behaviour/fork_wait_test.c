/* SPDX-License-Identifier: MIT
 *
 * Jobs among everything else: jobs that wait while others they have forked are open, cancelling,
 * nurseries, budgets and rights, other dispatchers, and crowds of fibers all around.
 */
#include "forks.h"

#include <pthread.h>

#include "budgets.h"
#include "caps.h"
#include "base/sanitizer.h"
#include "pools.h"

TEST_MAIN

/* A random tree in which some nodes do something between forking and joining. */
struct work {
    void (*visit)(struct work *work, uint64_t seed);
    void *object;
    int total; /* plain: whatever `visit` does orders it */
};

struct place {
    struct work *work;
    struct forks_part part;
};

HD_JOB(walk, struct forks_sum, struct place, place)
{
    walk_job children[FORKS_FAN_MAX];
    const struct forks_part part = place.part;
    const unsigned fan = forks_fan(part);
    for (unsigned i = 0; i < fan; i++) {
        HD_FORK_INTO(&children[i], walk,
                     ((struct place){place.work, forks_child(part, i)}));
        if (part.seed >> 60 == i) place.work->visit(place.work, part.seed);
    }
    struct forks_sum below[FORKS_FAN_MAX], sum = forks_leaf(part);
    for (unsigned i = fan; i-- > 0;) {
        if ((part.seed >> 52) % 16 == i) place.work->visit(place.work, part.seed + 1);
        below[i] = HD_SYNC_FROM(&children[i], walk);
    }
    for (unsigned i = 0; i < fan; i++) forks_add(&sum, below[i]);
    return sum;
}

static void walk_trees(struct work *work)
{
    for (uint64_t seed = 0; seed < 4; seed++) {
        const struct place place = {work, {forks_mix(seed), 5}};
        forks_expect(place.part, HD_RUN_JOB(NULL, walk, place));
    }
}

/* ---- waiting ---- */

static void visit_yield(struct work *work, uint64_t seed)
{
    (void)work;
    for (uint64_t i = 0; i < seed % 3; i++) hd_yield();
    EXPECT_EQ(hd_checkpoint(1), 0);
}

static void visit_sleep(struct work *work, uint64_t seed)
{
    (void)work;
    EXPECT_EQ(hd_sleep_until(hd_now(NULL) + (int64_t)(seed % 20000)), 0);
}

static void visit_lock(struct work *work, uint64_t seed)
{
    hd_mutex *mutex = work->object;
    EXPECT_EQ(hd_mutex_lock(mutex), 0);
    const int seen = work->total;
    if (seed % 2) hd_yield();
    work->total = seen + 1;
    hd_mutex_unlock(mutex);
}

/* A fiber gives back whatever it gets, until the channel is closed. */
struct echo {
    hd_chan *there, *back;
};

static int echo(void *arg)
{
    const struct echo *e = arg;
    for (uint64_t item; hd_chan_recv(e->there, &item) == 0;) {
        EXPECT_EQ(hd_chan_send(e->back, &item), 0);
    }
    return 0;
}

static void visit_echo(struct work *work, uint64_t seed)
{
    const struct echo *e = work->object;
    uint64_t item = 0;
    EXPECT_EQ(hd_chan_send(e->there, &seed), 0);
    EXPECT_EQ(hd_chan_recv(e->back, &item), 0); /* of any node */
    EXPECT(item != 0);
}

static int block(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return 5;
}

static void visit_blocking(struct work *work, uint64_t seed)
{
    int result = 0;
    if (seed % 4) return;
    EXPECT_EQ(hd_blocking(block, work->object, &result), 0);
    EXPECT_EQ(result, 5);
}

static int count_run(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    hd_yield();
    return 6;
}

/* An unconfined fiber runs at once, in the place of who spawns it. */
static void visit_spawn(struct work *work, uint64_t seed)
{
    hd_dispatcher *where = seed % 2 ? hd_dispatcher_unconfined() : hd_dispatcher_self();
    EXPECT_EQ(rt_join(spawn_on(where, count_run, work->object, 0)), 6);
}

static void visit_move(struct work *work, uint64_t seed)
{
    hd_dispatcher *home = hd_dispatcher_self();
    HD_ON(work->object)
    {
        expect_on(work->object);
        if (seed % 2) forks_check(NULL, seed, 3);
        hd_yield();
    }
    expect_on(home);
}

static void visit_nursery(struct work *work, uint64_t seed)
{
    HD_NURSERY(n)
    {
        EXPECT_EQ(hd_go(n, count_run, work->object), 0);
        if (seed % 2) forks_check(NULL, seed, 3);
        EXPECT_EQ(hd_go(n, count_run, work->object), 0);
    }
    EXPECT_EQ(hd_nursery_result(), 0);
}

static int waits_of_all_kinds(void *arg)
{
    (void)arg;
    struct work work = {.visit = visit_yield};
    walk_trees(&work);
    work.visit = visit_sleep;
    walk_trees(&work);

    hd_mutex mutex;
    hd_mutex_init(&mutex);
    work = (struct work){.visit = visit_lock, .object = &mutex};
    walk_trees(&work);
    const int once = work.total;
    EXPECT(once > 0);
    walk_trees(&work);
    EXPECT_EQ(work.total, 2 * once); /* None was lost, and the trees are the same. */
    hd_mutex_fini(&mutex);

    struct echo e = {hd_chan_create(sizeof(uint64_t), 0), hd_chan_create(sizeof(uint64_t), 0)};
    hd_task *task = rt_spawn(NULL, echo, &e);
    work = (struct work){.visit = visit_echo, .object = &e};
    walk_trees(&work);
    EXPECT_EQ(hd_chan_close(e.there), 0);
    EXPECT_EQ(rt_join(task), 0);
    hd_chan_destroy(e.there);
    hd_chan_destroy(e.back);
    return 0;
}

TEST_WORLDS(jobs_wait_while_others_are_open, options)
{
    rt_run(waits_of_all_kinds, NULL, options);
    const hd_options many = rt_workers(options, 8);
    rt_run(waits_of_all_kinds, NULL, &many);
}

static int use_other_threads(void *arg)
{
    (void)arg;
    atomic_int count = 0;
    struct work work = {.visit = visit_blocking, .object = &count};
    walk_trees(&work);
    EXPECT(atomic_load(&count) > 0);
    work.visit = visit_spawn;
    walk_trees(&work);
    work.visit = visit_nursery;
    walk_trees(&work);
    hd_dispatcher *pools[] = {single(), pool("two", 2, HD_POLICY_ORDERED),
                              pool("three", 3, HD_POLICY_LOCAL)};
    for (int i = 0; i < 3; i++) {
        work = (struct work){.visit = visit_move, .object = pools[i]};
        walk_trees(&work);
        hd_dispatcher_unref(pools[i]);
    }
    return 0;
}

TEST_WORLDS(jobs_spawn_and_move_while_others_are_open, options)
{
    rt_run(use_other_threads, NULL, options);
}

/* What the forker sends, its job receives, whether it runs beside it or after it. */
enum { ITEMS = 20 };

HD_JOB(receive, int, hd_chan *, chan)
{
    int sum = 0;
    for (int i = 0; i < ITEMS; i++) {
        int item = 0;
        EXPECT_EQ(hd_chan_recv(chan, &item), 0);
        sum += item;
    }
    return sum;
}

HD_JOB(send_and_receive, int, hd_chan *, chan)
{
    HD_FORK(receiver, receive, chan);
    for (int i = 1; i <= ITEMS; i++) {
        EXPECT_EQ(hd_chan_send(chan, &i), 0);
        hd_yield();
    }
    return HD_SYNC(receiver);
}

static int talk(void *arg)
{
    (void)arg;
    hd_chan *chan = hd_chan_create(sizeof(int), ITEMS);
    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(HD_RUN_JOB(NULL, send_and_receive, chan), ITEMS * (ITEMS + 1) / 2);
    }
    hd_chan_destroy(chan);
    return 0;
}

TEST_WORLDS(a_job_receives_what_its_forker_sends, options) { rt_run(talk, NULL, options); }

/* Whoever is taken talks to its forker while that one goes on. */
HD_JOB(answer, int, struct echo *, e)
{
    return echo(e);
}

HD_JOB(ask_taken, int, struct echo *, e)
{
    HD_FORK(job, answer, e);
    int sum = 0;
    uint64_t item = 0;
    while (hd_chan_send_try(e->there, &item) != 0) { /* until somebody has taken it, and waits */
        HD_FORK(nothing, forks_nothing, NULL);
    }
    for (item = 1; item <= 100; item++) {
        uint64_t got = 0;
        EXPECT_EQ(hd_chan_recv(e->back, &got), 0);
        EXPECT_EQ(got, item - 1);
        EXPECT_EQ(hd_chan_send(e->there, &item), 0);
        sum += (int)got;
    }
    EXPECT_EQ(hd_chan_recv(e->back, &item), 0);
    EXPECT_EQ(hd_chan_close(e->there), 0);
    EXPECT_EQ(HD_SYNC(job), 0);
    return sum;
}

static int talk_to_taken(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++) {
        struct echo e = {hd_chan_create(sizeof(uint64_t), 0), hd_chan_create(sizeof(uint64_t), 0)};
        EXPECT_EQ(HD_RUN_JOB(NULL, ask_taken, &e), 99 * 100 / 2);
        hd_chan_destroy(e.there);
        hd_chan_destroy(e.back);
    }
    return 0;
}

TEST(a_taken_job_talks_to_its_forker)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 2;
    rt_run(talk_to_taken, NULL, &options);
}

/* ---- in a crowd ---- */

struct crowd {
    hd_chan *chan;
    atomic_int woken;
};

static int wait_in_crowd(void *arg)
{
    struct crowd *crowd = arg;
    int item;
    EXPECT_EQ(hd_chan_recv(crowd->chan, &item), -EPIPE);
    atomic_fetch_add(&crowd->woken, 1);
    return 0;
}

static int sleep_in_crowd(void *arg)
{
    struct crowd *crowd = arg;
    for (int i = 0; i < 5; i++) EXPECT_EQ(hd_sleep_until(hd_now(NULL) + 50000), 0);
    atomic_fetch_add(&crowd->woken, 1);
    return 0;
}

static int work_in_crowd(void *arg)
{
    (void)arg;
    struct crowd crowd = {.chan = hd_chan_create(sizeof(int), 0)};
    const int fibers = HDI_TSAN ? 100 : HDI_ASAN ? 500 : 3000;
    HD_NURSERY(n)
    {
        for (int i = 0; i < fibers; i++) {
            EXPECT_EQ(hd_go(n, i % 3 ? wait_in_crowd : sleep_in_crowd, &crowd), 0);
        }
        for (uint64_t seed = 0; seed < 10; seed++) forks_check(NULL, seed, 6);
        EXPECT_EQ(hd_chan_close(crowd.chan), 0);
    }
    EXPECT_EQ(atomic_load(&crowd.woken), fibers);
    hd_chan_destroy(crowd.chan);
    return 0;
}

TEST_WORLDS(fibers_are_blocked_all_around, options) { rt_run(work_in_crowd, NULL, options); }

static int check_tree(void *arg)
{
    forks_check(NULL, (uint64_t)(uintptr_t)arg, 5);
    return 0;
}

static int nest_nurseries(void *arg)
{
    const uintptr_t level = (uintptr_t)arg;
    HD_NURSERY(n)
    {
        for (uintptr_t i = 0; i < 3; i++) {
            if (level > 0) EXPECT_EQ(hd_go(n, nest_nurseries, (void *)(level - 1)), 0);
            EXPECT_EQ(hd_go(n, check_tree, (void *)(level * 3 + i)), 0);
        }
        forks_check(NULL, level, 5);
    }
    return hd_nursery_result();
}

TEST_WORLDS(many_begin_jobs_at_once_in_nested_nurseries, options)
{
    rt_run(nest_nurseries, (void *)(uintptr_t)2, options);
}

/* ---- cancelling ---- */

struct cancelling {
    atomic_int begun;
    hd_nursery *nursery;
    hd_task *task;
};

HD_JOB(until_cancelled, int, struct cancelling *, c)
{
    atomic_fetch_add(&c->begun, 1);
    while (!hd_cancelled()) hd_yield();
    return 1;
}

enum { CANCELLED = 12 };

/* Returns how many ended: all of them, taken or not. */
HD_JOB(all_until_cancelled, int, struct cancelling *, c)
{
    until_cancelled_job jobs[CANCELLED];
    for (int i = 0; i < CANCELLED; i++) HD_FORK_INTO(&jobs[i], until_cancelled, c);
    int ended = 0;
    for (int i = CANCELLED; i-- > 0;) ended += HD_SYNC_FROM(&jobs[i], until_cancelled);
    EXPECT(hd_cancelled());
    return ended;
}

static int begin_until_cancelled(void *arg)
{
    EXPECT_EQ(HD_RUN_JOB(NULL, all_until_cancelled, arg), CANCELLED);
    EXPECT(hd_cancelled());
    EXPECT_EQ(hd_sleep_ms(1), -ECANCELED);
    return -ECANCELED;
}

static int cancel_beginner(void *arg)
{
    (void)arg;
    struct cancelling c = {.nursery = NULL};
    c.task = rt_spawn(NULL, begin_until_cancelled, &c);
    rt_until(&c.begun);
    hd_cancel(c.task);
    EXPECT_EQ(rt_join(c.task), -ECANCELED);
    EXPECT_EQ(atomic_load(&c.begun), CANCELLED);
    HD_NURSERY(n)
    {
        c = (struct cancelling){.nursery = n};
        EXPECT_EQ(hd_go(n, begin_until_cancelled, &c), 0);
        rt_until(&c.begun);
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(atomic_load(&c.begun), CANCELLED);
    return 0;
}

TEST_WORLDS(jobs_see_that_their_beginner_is_cancelled, options)
{
    rt_run(cancel_beginner, NULL, options);
}

/* A beginner that is in a scope, or shielded, when it begins. */
HD_JOB(count_cancelled, int, int, jobs)
{
    int cancelled = hd_cancelled();
    for (int i = 1; i < jobs; i++) {
        HD_FORK(job, count_cancelled, 1);
        cancelled += HD_SYNC(job);
    }
    return cancelled;
}

enum { LOOKS = 20 };

static int look_at_scopes(void *arg)
{
    rt_until(arg);
    EXPECT_EQ(HD_RUN_JOB(NULL, count_cancelled, LOOKS), LOOKS);
    EXPECT_EQ(hd_shield(), 0);
    EXPECT_EQ(HD_RUN_JOB(NULL, count_cancelled, LOOKS), 0);
    EXPECT_EQ(hd_unshield(), 0);
    return 0;
}

static int look_around(void *arg)
{
    (void)arg;
    atomic_int go = 0;
    hd_task *task = rt_spawn(NULL, look_at_scopes, &go);
    hd_cancel(task);
    atomic_store(&go, 1);
    EXPECT_EQ(rt_join(task), 0);
    EXPECT_EQ(HD_RUN_JOB(NULL, count_cancelled, LOOKS), 0);
    HD_SCOPE(s)
    {
        EXPECT_EQ(HD_RUN_JOB(NULL, count_cancelled, LOOKS), 0);
        hd_scope_cancel(s);
        EXPECT_EQ(HD_RUN_JOB(NULL, count_cancelled, LOOKS), LOOKS);
    }
    EXPECT_EQ(HD_RUN_JOB(NULL, count_cancelled, LOOKS), 0);
    return 0;
}

TEST_WORLDS(jobs_see_the_scope_and_the_shield_of_their_beginner, options)
{
    rt_run(look_around, NULL, options);
}

/* What a job enters itself counts for it. */
HD_JOB(enter_scope, int, int, unused)
{
    int seen = 0;
    (void)unused;
    EXPECT(!hd_cancelled());
    HD_SCOPE(s)
    {
        hd_scope_cancel(s);
        seen = hd_cancelled();
        EXPECT_EQ(hd_checkpoint(1), -ECANCELED);
    }
    EXPECT(!hd_cancelled());
    return seen;
}

HD_JOB(enter_scopes, int, int, jobs)
{
    int seen = 0;
    for (int i = 0; i < jobs; i++) {
        HD_FORK(job, enter_scope, 0);
        seen += HD_SYNC(job);
    }
    return seen;
}

HD_JOB(shield_itself, int, int, unused)
{
    (void)unused;
    EXPECT(hd_cancelled());
    EXPECT_EQ(hd_shield(), 0);
    const int seen = hd_cancelled();
    EXPECT_EQ(hd_unshield(), 0);
    return seen;
}

static int shield_when_cancelled(void *arg)
{
    rt_until(arg);
    for (int i = 0; i < LOOKS; i++) EXPECT_EQ(HD_RUN_JOB(NULL, shield_itself, 0), 0);
    return 0;
}

static int enter_own(void *arg)
{
    (void)arg;
    EXPECT_EQ(HD_RUN_JOB(NULL, enter_scopes, LOOKS), LOOKS);
    atomic_int go = 0;
    hd_task *task = rt_spawn(NULL, shield_when_cancelled, &go);
    hd_cancel(task);
    atomic_store(&go, 1);
    EXPECT_EQ(rt_join(task), 0);
    return 0;
}

TEST_WORLDS(a_job_sees_the_scope_and_the_shield_of_its_own, options)
{
    rt_run(enter_own, NULL, options);
}

/* A runtime that ends cancels the waits of jobs, whoever runs them. */
HD_JOB(wait_for_ever, int, hd_chan *, chan)
{
    int item;
    return hd_chan_recv(chan, &item);
}

HD_JOB(wait_all, int, hd_chan *, chan)
{
    int cancelled = 0;
    wait_for_ever_job jobs[CANCELLED];
    for (int i = 0; i < CANCELLED; i++) HD_FORK_INTO(&jobs[i], wait_for_ever, chan);
    for (int i = CANCELLED; i-- > 0;) {
        cancelled += HD_SYNC_FROM(&jobs[i], wait_for_ever) == -ECANCELED;
    }
    return cancelled;
}

static int wait_until_the_end(void *arg)
{
    return HD_RUN_JOB(NULL, wait_all, arg);
}

TEST_WORLDS(a_runtime_that_ends_ends_waits_of_jobs, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_chan *chan = hd_chan_create(sizeof(int), 0);
    hd_task *task = rt_spawn(runtime, wait_until_the_end, chan);
    EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0);
    EXPECT_EQ(rt_join(task), CANCELLED);
    hd_chan_destroy(chan);
    hd_runtime_destroy(runtime);
}

/* ---- budgets and rights: nobody takes jobs ---- */

HD_JOB(who, uint64_t, int, unused)
{
    (void)unused;
    return hd_self_id();
}

HD_JOB(others, int, int, jobs)
{
    int other = 0;
    for (int i = 0; i < jobs; i++) {
        HD_FORK(job, who, 0);
        other += HD_SYNC(job) != hd_self_id();
    }
    return other;
}

static int run_alone(void *arg)
{
    (void)arg;
    EXPECT(HD_RUN_JOB(NULL, who, 0) == hd_self_id());
    EXPECT_EQ(HD_RUN_JOB(NULL, others, 100), 0);
    forks_check(NULL, 5, 5);
    return 0;
}

static int run_confined(void *arg)
{
    (void)arg;
    const hd_budget budget = {.ops = 1000000};
    hd_nursery nursery;
    budgets_open(&nursery, &budget, NULL);
    EXPECT_EQ(budgets_run(&nursery, run_alone, NULL), 0);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    const hd_caps caps = caps_with(HD_CAP_EXECUTOR, cap_self(HD_CAP_EXECUTOR));
    const hd_nursery_options options = caps_options(&caps);
    EXPECT_EQ(hd_nursery_open(&nursery, &options), 0);
    EXPECT_EQ(budgets_run(&nursery, run_alone, NULL), 0);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    return 0;
}

TEST_WORLDS(a_confined_task_runs_its_jobs_itself, options) { rt_run(run_confined, NULL, options); }

/* ---- fibers with something special ---- */

static int check_special(void *arg)
{
    (void)arg;
    for (uint64_t seed = 0; seed < 5; seed++) forks_check(NULL, seed, 5);
    return 0;
}

static int check_all_special(void *arg)
{
    (void)arg;
    static const unsigned flags[] = {0, HD_PINNED, HD_SAVE_FP, HD_PINNED | HD_SAVE_FP};
    hd_task *tasks[4];
    for (int i = 0; i < 4; i++) {
        tasks[i] = spawn_on(hd_dispatcher_default(NULL), check_special, NULL, flags[i]);
    }
    for (int i = 0; i < 4; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    EXPECT_EQ(rt_join(spawn_on(hd_dispatcher_unconfined(), check_special, NULL, 0)), 0);
    EXPECT_EQ(rt_join(spawn_on(hd_dispatcher_io(NULL), check_special, NULL, 0)), 0);
    return 0;
}

TEST_WORLDS(pinned_unconfined_and_other_fibers_begin_jobs, options)
{
    hd_options own = *options;
    rt_run(check_all_special, NULL, &own);
    own.job_stack_bytes = 64 << 10; /* They run on the fibers' own stacks. */
    rt_run(check_all_special, NULL, &own);
    own.guard = HD_GUARD_CANARY;
    rt_run(check_all_special, NULL, &own);
}

/* A fiber that must not switch, because it holds a lock of its thread, does not. */
HD_JOB(fork_in_hold, int, pthread_mutex_t *, mutex)
{
    int sum = 0;
    for (int i = 0; i < 200; i++) {
        EXPECT_EQ(HD_PTHREAD_LOCK(mutex), 0);
        HD_FORK(job, who, 0);
        sum += HD_SYNC(job) != 0;
        EXPECT_EQ(HD_PTHREAD_UNLOCK(mutex), 0);
    }
    return sum;
}

static int hold(void *arg)
{
    (void)arg;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    EXPECT_EQ(HD_RUN_JOB(NULL, fork_in_hold, &mutex), 200);
    return 0;
}

TEST_WORLDS(who_holds_a_lock_of_its_thread_runs_its_jobs_itself, options)
{
    rt_run(hold, NULL, options);
}
