/* SPDX-License-Identifier: MIT
 *
 * Nurseries: the block and every way out of it, who may spawn, what is refused, what is
 * counted, results, names in error sets, and reports of overdue children.
 */
#include "nurseries.h"

#include <pthread.h>

#include "death.h"

TEST_MAIN

/* Some time after the block could have been left without waiting. */
static int count_late(void *arg)
{
    for (int i = 0; i < 20; i++) hd_yield();
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

/* ---- the block ---- */

FIBER_TEST(its_end_waits)
{
    atomic_int ended = 0;
    HD_NURSERY(n) {
        for (int i = 0; i < 3; i++) nur_go(n, count_late, &ended);
    }
    EXPECT_EQ(atomic_load(&ended), 3);
    EXPECT_EQ(hd_nursery_result(), 0);
    return 0;
}

FIBER_TEST(break_and_continue_end_the_block_only_and_wait)
{
    atomic_int ended = 0;
    int rounds = 0;
    for (; rounds < 4; rounds++) {
        HD_NURSERY(n) {
            nur_go(n, count_late, &ended);
            if (rounds % 2) break;
            if (rounds % 2 == 0) continue;
            EXPECT(false);
        }
        EXPECT_EQ(atomic_load(&ended), rounds + 1);
    }
    EXPECT_EQ(rounds, 4);
    return 0;
}

static int return_from_block(atomic_int *ended)
{
    HD_NURSERY(outer) {
        nur_go(outer, count_late, ended);
        HD_NURSERY(inner) {
            nur_go(inner, count_late, ended);
            return 5;
        }
    }
    return 6;
}

FIBER_TEST(return_waits_for_all_around)
{
    atomic_int ended = 0;
    EXPECT_EQ(return_from_block(&ended), 5);
    EXPECT_EQ(atomic_load(&ended), 2);
    return 0;
}

FIBER_TEST(goto_waits_outwards_and_backwards)
{
    atomic_int ended = 0;
    int rounds = 0;
again:
    HD_NURSERY(outer) {
        nur_go(outer, count_late, &ended);
        HD_NURSERY(inner) {
            nur_go(inner, count_late, &ended);
            if (++rounds < 3) goto again;
            goto out;
        }
    }
    EXPECT(false);
out:
    EXPECT_EQ(rounds, 3);
    EXPECT_EQ(atomic_load(&ended), 6);
    hd_nursery n; /* All were left: this is the innermost. */
    EXPECT_EQ(hd_nursery_leave(nur_open(&n, NULL)), 0);
    return 0;
}

FIBER_TEST(blocks_nest_in_one_function)
{
    atomic_int ended = 0;
    HD_NURSERY(a) {
        HD_NURSERY(b) {
            HD_NURSERY(c) {
                nur_go(a, count_late, &ended); /* any of them */
                nur_go(b, count_late, &ended);
                nur_go(c, count_late, &ended);
            }
            EXPECT(atomic_load(&ended) >= 1);
        }
        EXPECT(atomic_load(&ended) >= 2);
    }
    EXPECT_EQ(atomic_load(&ended), 3);
    return 0;
}

FIBER_TEST(a_block_takes_options)
{
    int first = -EIO, second = -ENXIO;
    HD_NURSERY(n, .on_error = HD_ON_ERROR_COLLECT, .name = "collecting", .errors_max = 1) {
        nur_go(n, nur_return, &first);
        nur_until_live(n, 0);
        nur_go(n, nur_return, &second);
        EXPECT(!hd_cancelled());
    }
    EXPECT_EQ(hd_nursery_result(), -EIO);
    return 0;
}

FIBER_TEST(the_body_is_cancelled_with_it_and_only_the_body)
{
    int number = -EIO;
    int err = 0;
    HD_NURSERY(n) {
        nur_go(n, nur_return, &number);
        err = hd_sleep_ms(1000000);
    }
    EXPECT_EQ(err, -ECANCELED);
    EXPECT_EQ(hd_nursery_result(), -EIO);
    EXPECT(!hd_cancelled());
    EXPECT_EQ(hd_sleep_ms(0), 0);
    return 0;
}

/* ---- impossible to open ---- */

TEST(a_block_that_cannot_be_opened_is_skipped)
{
    bool ran = false;
    EXPECT_EQ(hd_nursery_result(), 0); /* there was none yet */
    HD_NURSERY(n) {
        (void)n;
        ran = true;
    }
    EXPECT(!ran);
    EXPECT_EQ(hd_nursery_result(), -EINVAL); /* no runtime on a plain thread */
}

static hd_on_error never_asked(const hd_child_error *error, void *arg)
{
    (void)error;
    (void)arg;
    return HD_ON_ERROR_CANCEL;
}

static void expect_senseless(hd_nursery_options options)
{
    hd_nursery n;
    options.size = options.size ? options.size : sizeof(options);
    EXPECT_EQ(hd_nursery_open(&n, &options), -EINVAL);
}

FIBER_TEST(options_that_make_no_sense_are_refused)
{
    expect_senseless((hd_nursery_options){.size = 8});
    expect_senseless((hd_nursery_options){.on_error = HD_ON_ERROR_ASK}); /* whom? */
    expect_senseless((hd_nursery_options){.on_error = (hd_on_error)(HD_ON_ERROR_ASK + 1)});
    expect_senseless((hd_nursery_options){.join = HD_JOIN_QUORUM}); /* of how many? */
    expect_senseless((hd_nursery_options){.join = (hd_join_policy)(HD_JOIN_QUORUM + 1)});
    expect_senseless((hd_nursery_options){.overdue_ns = -1});
    const hd_nursery_options fine[] = {
        {.size = sizeof(*fine), .on_error = HD_ON_ERROR_ASK, .on_error_fn = never_asked},
        {.size = sizeof(*fine), .join = HD_JOIN_QUORUM, .quorum = 1},
        {.size = sizeof(*fine), .runtime = hd_runtime_self()},
    };
    for (int i = 0; i < 3; i++) {
        hd_nursery n;
        nur_open(&n, &fine[i]);
        nur_go(&n, nur_nothing, NULL);
        EXPECT_EQ(hd_nursery_leave(&n), 0);
    }
    return 0;
}

/* ---- who may spawn ---- */

static void *go_from_thread(void *arg)
{
    static atomic_int ended;
    EXPECT_EQ(hd_go(arg, count_late, &ended), 0);
    return NULL;
}

TEST_WORLDS(any_thread_may_spawn_close_and_cancel, options)
{
    hd_runtime *runtime = rt_create(options);
    const hd_nursery_options of = {.size = sizeof(of), .runtime = runtime};
    hd_nursery n;
    nur_open(&n, &of);
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, go_from_thread, &n), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(hd_nursery_look(&n).spawned, 1);
    hd_nursery_close(&n);
    nur_expect_refused(&n, -EPIPE);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), 0);
    nur_open(&n, &of);
    nur_go(&n, nur_park, NULL);
    hd_nursery_cancel(&n);
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CANCELLED), -ECANCELED);
    hd_runtime_destroy(runtime);
}

struct grandchildren {
    hd_nursery *nursery;
    atomic_int *ended;
    int depth;
};

static int spawn_siblings(void *arg)
{
    struct grandchildren *g = arg;
    struct grandchildren next = {g->nursery, g->ended, g->depth - 1};
    if (g->depth > 0) {
        hd_task *task = nur_spawn(g->nursery, spawn_siblings, &next, NULL, 0);
        EXPECT_EQ(hd_go(g->nursery, count_late, g->ended), 0);
        EXPECT_EQ(rt_join(task), 0); /* `next` is ours */
    }
    atomic_fetch_add(g->ended, 1);
    return 0;
}

FIBER_TEST(a_child_spawns_siblings_that_are_waited_for)
{
    atomic_int ended = 0;
    hd_nursery n;
    struct grandchildren g = {&n, &ended, 5};
    nur_open(&n, NULL);
    nur_go(&n, spawn_siblings, &g);
    while (hd_nursery_look(&n).spawned < 11) hd_yield();
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), 0);
    EXPECT_EQ(atomic_load(&ended), 11);
    return 0;
}

static hd_poll go_from_poll(void *state, int *result)
{
    static atomic_int ended;
    *result = hd_go(*(hd_nursery **)state, count_late, &ended);
    return HD_READY;
}

FIBER_TEST(a_stackless_child_spawns_siblings)
{
    hd_nursery n, *at = nur_open(&n, NULL);
    nur_go_poll(&n, go_from_poll, &at, sizeof(at));
    while (hd_nursery_look(&n).spawned < 2) hd_yield();
    EXPECT_EQ(nur_leave_as(&n, HD_NURSERY_CLOSED), 0);
    return 0;
}

static int many_dropped;

static void count_drop(void *state)
{
    (void)state;
    many_dropped++;
}

static hd_poll ready_at_once(void *state, int *result)
{
    (void)state;
    *result = 0;
    return HD_READY;
}

FIBER_TEST(the_state_of_a_stackless_child_is_dropped_once)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.drop = count_drop;
    many_dropped = 0;
    HD_NURSERY(n) {
        options.nursery = n;
        EXPECT_EQ(hd_spawn_poll_with(NULL, ready_at_once, NULL, 8, &options), 0);
        EXPECT_EQ(hd_spawn_poll_with(NULL, nur_park_poll, NULL, 8, &options), 0);
        nur_until_live(n, 1);
        hd_nursery_cancel(n);
    }
    EXPECT_EQ(hd_nursery_result(), -ECANCELED);
    EXPECT_EQ(many_dropped, 2);
    return 0;
}

/* A handle is one more reference; the nursery waits for the task, not for the handle. */
FIBER_TEST(a_handle_may_be_joined_before_during_and_after)
{
    int number = 9, more = 10;
    hd_task *late = NULL;
    HD_NURSERY(n) {
        hd_task *early = nur_spawn(n, nur_return, &number, NULL, 0);
        EXPECT_EQ(rt_join(early), 9);
        late = nur_spawn(n, nur_return, &more, NULL, 0);
    }
    EXPECT_EQ(rt_join(late), 10);
    EXPECT_EQ(hd_nursery_result(), 0);
    return 0;
}

/* ---- of another runtime ---- */

static int expect_runtime(void *runtime)
{
    EXPECT(hd_runtime_self() == runtime);
    return 0;
}

struct elsewhere {
    hd_nursery nursery;
    hd_runtime *of;
};

/* A fiber of another runtime: the child is of the nursery's, or refused. */
static int go_elsewhere(void *arg)
{
    struct elsewhere *e = arg;
    EXPECT(hd_runtime_self() != e->of);
    nur_go(&e->nursery, expect_runtime, e->of);
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.nursery = &e->nursery;
    EXPECT_EQ(hd_spawn_with(NULL, expect_runtime, e->of, &options), 0);
    options.runtime = hd_runtime_self();
    hd_task *task = NULL;
    EXPECT_EQ(hd_spawn_with(&task, nur_nothing, NULL, &options), -EINVAL);
    EXPECT_EQ(hd_spawn_poll_with(&task, nur_park_poll, NULL, 0, &options), -EINVAL);
    EXPECT(task == NULL);
    return 0;
}

TEST_WORLDS(a_nursery_takes_tasks_of_its_own_runtime_only, options)
{
    hd_runtime *here = rt_create(options), *there = rt_create(options);
    const hd_nursery_options of = {.size = sizeof(of), .runtime = here};
    struct elsewhere e = {.of = here};
    hd_nursery *n = nur_open(&e.nursery, &of);
    EXPECT_EQ(rt_join(rt_spawn(there, go_elsewhere, &e)), 0);
    hd_spawn_options spawn = HD_SPAWN_OPTIONS_INIT;
    spawn.nursery = n;
    spawn.runtime = there;
    EXPECT_EQ(hd_spawn_with(NULL, nur_nothing, NULL, &spawn), -EINVAL);
    spawn.runtime = here;
    EXPECT_EQ(hd_spawn_with(NULL, expect_runtime, here, &spawn), 0);
    spawn.runtime = NULL; /* The nursery knows its own. */
    EXPECT_EQ(hd_spawn_with(NULL, expect_runtime, here, &spawn), 0);
    EXPECT_EQ(hd_nursery_look(n).spawned, 4);
    EXPECT_EQ(nur_leave_as(n, HD_NURSERY_CLOSED), 0);
    hd_runtime_destroy(there);
    hd_runtime_destroy(here);
}

/* ---- results ---- */

static int leave_with_21(void *arg)
{
    (void)arg;
    EXPECT_EQ(hd_nursery_result(), 0); /* not that of somebody else */
    int number = -21;
    HD_NURSERY(n) nur_go(n, nur_return, &number);
    hd_yield();
    EXPECT_EQ(hd_nursery_result(), -21);
    return hd_nursery_result();
}

FIBER_TEST(each_task_has_its_own_last_result)
{
    int number = -44;
    HD_NURSERY(n) nur_go(n, nur_return, &number);
    EXPECT_EQ(hd_nursery_result(), -44);
    HD_NURSERY(n, .on_error = HD_ON_ERROR_COLLECT) {
        for (int i = 0; i < 5; i++) nur_go(n, leave_with_21, NULL);
        EXPECT_EQ(hd_nursery_result(), -44); /* This one has not been left. */
    }
    EXPECT_EQ(hd_nursery_result(), -21);
    HD_NURSERY(n) (void)n;
    EXPECT_EQ(hd_nursery_result(), 0);
    return 0;
}

TEST_WORLDS(a_thread_has_its_last_result_too, options)
{
    hd_runtime *runtime = rt_create(options);
    int number = -17;
    EXPECT_EQ(hd_nursery_result(), 0);
    HD_NURSERY(n, .runtime = runtime) nur_go(n, nur_return, &number);
    EXPECT_EQ(hd_nursery_result(), -17);
    EXPECT_EQ(rt_join(rt_spawn(runtime, leave_with_21, NULL)), -21);
    EXPECT_EQ(hd_nursery_result(), -17);
    hd_runtime_destroy(runtime);
}

/* ---- counting ---- */

FIBER_TEST(what_happened_is_counted)
{
    hd_nursery n;
    int plus = 4, minus = -EIO;
    const hd_nursery_options collect = {.size = sizeof(collect), .on_error = HD_ON_ERROR_COLLECT};
    nur_open(&n, &collect);
    for (int i = 0; i < 3; i++) nur_go(&n, nur_return, &plus);
    for (int i = 0; i < 2; i++) nur_go(&n, nur_return, &minus);
    nur_until_live(&n, 0);
    for (int i = 0; i < 4; i++) nur_go(&n, nur_park, NULL);
    nur_daemon(&n, nur_park, NULL);
    hd_nursery_info info = hd_nursery_look(&n);
    EXPECT_EQ(info.state, HD_NURSERY_OPEN);
    EXPECT_EQ(info.live, 5);
    EXPECT_EQ(info.daemons, 1);
    EXPECT_EQ(info.spawned, 10);
    EXPECT_EQ(info.succeeded, 3);
    EXPECT_EQ(info.failed, 2);
    EXPECT_EQ(info.cancelled, 0);
    hd_nursery_cancel(&n);
    EXPECT_EQ(hd_nursery_wait(&n), -EIO);
    info = hd_nursery_look(&n);
    EXPECT_EQ(info.state, HD_NURSERY_CANCELLED);
    EXPECT_EQ(info.live, 0);
    EXPECT_EQ(info.daemons, 0);
    EXPECT_EQ(info.spawned, 10);
    EXPECT_EQ(info.succeeded, 3);
    EXPECT_EQ(info.failed, 2);
    EXPECT_EQ(info.cancelled, 5);
    EXPECT_EQ(info.spawned, info.succeeded + info.failed + info.cancelled + info.live);
    EXPECT_EQ(hd_nursery_leave(&n), -EIO);
    return 0;
}

/* ---- children that ignore a cancel ---- */

struct overdue {
    const hd_options *options;
    int64_t overdue_ns, stubborn_ms;
    bool cancel, thread;
    atomic_int begun; /* stubborn ones */
};

static int ignore_cancel(void *arg)
{
    struct overdue *o = arg;
    EXPECT_EQ(hd_shield(), 0);
    atomic_fetch_add(&o->begun, 1);
    EXPECT_EQ(hd_sleep_ms(o->stubborn_ms), 0);
    EXPECT_EQ(hd_unshield(), 0);
    return 0;
}

/* The owner reports when it waits: in live, not before all who heed the cancel have had the time
 * to. */
static void cancel_overdue(hd_nursery *n, struct overdue *o)
{
    const bool live = !rt_is_sim(o->options);
    nur_go(n, nur_park, NULL); /* heeds it */
    hd_detach(nur_spawn(n, ignore_cancel, o, "stubborn-one", 0));
    hd_detach(nur_spawn(n, nur_park, NULL, "docile-one", 0));
    hd_detach(nur_spawn(n, ignore_cancel, o, "stubborn-two", 0));
    while (live && atomic_load(&o->begun) < 2) hd_yield();
    hd_nursery_cancel(n);
    if (live) nur_until_live(n, 2);
}

static int overdue_owner(void *arg)
{
    struct overdue *o = arg;
    hd_nursery_options options = {.size = sizeof(options), .overdue_ns = o->overdue_ns};
    options.name = "slow-nursery";
    hd_nursery n;
    nur_open(&n, &options);
    if (o->cancel) {
        cancel_overdue(&n, o);
    } else {
        hd_detach(nur_spawn(&n, ignore_cancel, o, "stubborn-one", 0));
    }
    EXPECT_EQ(hd_nursery_leave(&n), o->cancel ? -ECANCELED : 0);
    return 0;
}

static void run_overdue(void *arg)
{
    struct overdue *o = arg;
    if (!o->thread) {
        rt_run(overdue_owner, arg, o->options);
        return;
    }
    hd_runtime *runtime = rt_create(o->options);
    hd_nursery_options options = {.size = sizeof(options), .overdue_ns = o->overdue_ns};
    options.runtime = runtime;
    hd_nursery n;
    nur_open(&n, &options);
    cancel_overdue(&n, o);
    EXPECT_EQ(hd_nursery_leave(&n), -ECANCELED);
    hd_runtime_destroy(runtime);
}

static int count_of(const char *text, const char *word)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word)) count++;
    return count;
}

TEST_WORLDS(overdue_children_are_reported_by_name_site_and_backtrace, options)
{
    const int64_t long_ms = rt_is_sim(options) ? 300 : 2000;
    for (int thread = 0; thread < 2; thread++) {
        struct overdue o = {options, 20 * HD_MS_NS, long_ms, true, thread, 0};
        const struct death death = death_of(run_overdue, &o);
        if (death.status != 0) test_fail(__FILE__, __LINE__, "%s", death.text);
        EXPECT(count_of(death.text, "stubborn-one") > 0);
        EXPECT(count_of(death.text, "stubborn-two") > 0);
        EXPECT(strstr(death.text, "nur_spawn()")); /* where it was spawned */
        EXPECT(strstr(death.text, "#0 "));
        EXPECT_EQ(count_of(death.text, "docile-one"), 0);
    }
}

TEST_WORLDS(nothing_is_reported_without_a_limit_in_time_or_without_a_cancel, options)
{
    struct overdue never = {options, 0, 300, true, false, 0};
    struct overdue in_time = {options, 100 * 1000 * HD_MS_NS, 300, true, false, 0};
    struct overdue not_cancelled = {options, 20 * HD_MS_NS, 300, false, false, 0};
    struct overdue *all[] = {&never, &in_time, &not_cancelled};
    for (int i = 0; i < 3; i++) {
        const struct death death = death_of(run_overdue, all[i]);
        EXPECT_EQ(death.status, 0);
        EXPECT_EQ(count_of(death.text, "-one"), 0);
    }
}

/* What a spawn says is what a wait of the owner says. */
static int spawn_too_late(void *arg)
{
    (void)arg;
    HD_NURSERY(n, .deadline = hd_after_ms(1)) {
        EXPECT_EQ(hd_sleep_ms(1000000), -ETIMEDOUT);
        EXPECT_EQ(hd_go(n, nur_nothing, NULL), -ETIMEDOUT);
        HD_NURSERY(inner) { EXPECT_EQ(hd_go(inner, nur_nothing, NULL), -ETIMEDOUT); }
    }
    HD_NURSERY(n) {
        hd_nursery_cancel(n);
        EXPECT_EQ(hd_sleep_ms(1000000), -ECANCELED);
        EXPECT_EQ(hd_go(n, nur_nothing, NULL), -ECANCELED);
    }
    return 0;
}

TEST_WORLDS(a_spawn_says_why_its_nursery_was_cancelled, options)
{
    rt_run(spawn_too_late, NULL, options);
}
