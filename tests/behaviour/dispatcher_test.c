/* SPDX-License-Identifier: MIT
 *
 * Dispatchers: where tasks run, in which order, and how pools end.
 */
#include <pthread.h>
#include <sched.h>

#include "pools.h"

/* ---- homes ---- */

static int child_is_on(void *arg)
{
    expect_on(arg);
    hd_yield();
    expect_on(arg);
    return 1;
}

static int is_on(void *arg)
{
    expect_on(arg);
    hd_task *child = NULL;
    EXPECT_EQ(hd_spawn(&child, child_is_on, arg), 0); /* inherits it */
    const int sum = rt_join(child);
    expect_on(arg);
    return sum + 1;
}

static int homes(void *arg)
{
    (void)arg;
    hd_dispatcher *home = hd_dispatcher_default(NULL);
    expect_on(home);
    EXPECT_EQ(strcmp(hd_dispatcher_name(home), "default"), 0);
    static const hd_policy policies[] = {HD_POLICY_FAIR, HD_POLICY_LOCAL, HD_POLICY_ORDERED,
                                         HD_POLICY_PRIORITY};
    for (unsigned i = 0; i < 4; i++) {
        hd_dispatcher *mine = pool("mine", 2, policies[i]);
        EXPECT_EQ(strcmp(hd_dispatcher_name(mine), "mine"), 0);
        EXPECT_EQ(rt_join(spawn_on(mine, is_on, mine, 0)), 2);
        expect_on(home);
        hd_dispatcher_unref(mine);
    }
    EXPECT_EQ(rt_join(spawn_on(hd_dispatcher_io(NULL), is_on, hd_dispatcher_io(NULL), 0)), 2);
    EXPECT_EQ(rt_join(rt_spawn(NULL, is_on, home)), 2);
    return 0;
}

TEST_WORLDS(a_task_and_its_children_run_on_their_dispatcher, options)
{
    rt_run(homes, NULL, options);
}

/* A wake from elsewhere puts it into its own dispatcher's queue. */
struct gate {
    hd_dispatcher *home;
    hd_waker waker;
    atomic_int asleep, open;
};

static int sleeper(void *arg)
{
    struct gate *gate = arg;
    gate->waker = hd_waker_self();
    atomic_store(&gate->asleep, 1);
    while (atomic_load(&gate->open) == 0) EXPECT_EQ(hd_park(), 0);
    expect_on(gate->home);
    return 0;
}

static hd_poll sleeper_poll(void *state, int *result)
{
    struct gate *gate = *(struct gate **)state;
    expect_on(gate->home);
    if (!gate->waker.task) gate->waker = hd_waker_self();
    atomic_store(&gate->asleep, 1);
    *result = 0;
    return atomic_load(&gate->open) ? HD_READY : HD_PENDING;
}

static int wakes(void *arg)
{
    (void)arg;
    hd_dispatcher *mine = pool("mine", 1, HD_POLICY_FAIR);
    for (int kind = 0; kind < 3; kind++) {
        struct gate gate = {.home = mine}, *state = &gate;
        hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
        options.dispatcher = mine;
        options.flags = kind == 1 ? HD_PINNED : 0;
        hd_task *task = NULL;
        EXPECT_EQ(kind < 2 ? hd_spawn_with(&task, sleeper, &gate, &options)
                           : hd_spawn_poll_with(&task, sleeper_poll, &state, sizeof(state),
                                                &options),
                  0);
        rt_until(&gate.asleep);
        atomic_store(&gate.open, 1);
        hd_waker_wake(gate.waker);
        EXPECT_EQ(rt_join(task), 0);
    }
    hd_dispatcher_unref(mine);
    return 0;
}

TEST_WORLDS(a_wake_from_elsewhere_finds_the_way_home, options)
{
    rt_run(wakes, NULL, options);
}

/* ---- order ---- */

enum { NUMBERS = 50 };

struct order {
    int next; /* the single worker's */
    int seen[NUMBERS];
};

struct number {
    struct order *order;
    int value;
};

static int note(void *arg)
{
    struct number *number = arg;
    number->order->seen[number->order->next++] = number->value;
    return 0;
}

static int note_all(void *arg)
{
    struct order *order = arg;
    struct number numbers[NUMBERS];
    hd_task *tasks[NUMBERS];
    for (int i = 0; i < NUMBERS; i++) {
        numbers[i] = (struct number){order, i};
        EXPECT_EQ(hd_spawn(&tasks[i], note, &numbers[i]), 0);
    }
    for (int i = 0; i < NUMBERS; i++) (void)rt_join(tasks[i]);
    return 0;
}

static void expect_in_order(const struct order *order)
{
    for (int i = 0; i < NUMBERS; i++) EXPECT_EQ(order->seen[i], i);
}

static int in_order(void *arg)
{
    (void)arg;
    hd_dispatcher *one = single();
    struct order order = {.next = 0};
    struct number numbers[NUMBERS];
    hd_task *tasks[NUMBERS];
    for (int i = 0; i < NUMBERS; i++) {
        numbers[i] = (struct number){&order, i};
        tasks[i] = spawn_on(one, note, &numbers[i], 0);
    }
    for (int i = 0; i < NUMBERS; i++) (void)rt_join(tasks[i]);
    expect_in_order(&order);
    order.next = 0;
    EXPECT_EQ(rt_join(spawn_on(one, note_all, &order, 0)), 0); /* from inside */
    expect_in_order(&order);
    hd_dispatcher_unref(one);
    return 0;
}

TEST_WORLDS(a_single_dispatcher_keeps_the_order_of_submission, options)
{
    rt_run(in_order, NULL, options);
}

/* Not atomic on purpose: only one of them runs at a time, between two waits. */
static int add_without_lock(void *arg)
{
    int *sum = arg;
    for (int i = 0; i < 200; i++) {
        const int was = *sum;
        for (volatile int spin = 0; spin < 20;) spin = spin + 1;
        *sum = was + 1;
        if (i % 10 == 0) hd_yield();
    }
    return 0;
}

static int serial(void *arg)
{
    (void)arg;
    hd_dispatcher *one = single();
    int sum = 0;
    hd_task *tasks[8];
    for (int i = 0; i < 8; i++) tasks[i] = spawn_on(one, add_without_lock, &sum, 0);
    for (int i = 0; i < 8; i++) (void)rt_join(tasks[i]);
    EXPECT_EQ(sum, 8 * 200);
    hd_dispatcher_unref(one);
    return 0;
}

TEST_WORLDS(a_single_dispatcher_is_a_lock, options)
{
    rt_run(serial, NULL, options);
}

/* ---- pinned ---- */

struct pinned {
    hd_dispatcher *dispatcher;
    atomic_int sum;
};

static int stays(void *arg)
{
    struct pinned *pinned = arg;
    const pthread_t thread = pthread_self();
    for (int i = 0; i < 20; i++) {
        hd_yield();
        expect_on(pinned->dispatcher);
        EXPECT(pthread_equal(thread, pthread_self()));
    }
    atomic_fetch_add(&pinned->sum, 1);
    return 0;
}

static int busy(void *arg)
{
    for (int i = 0; i < 200; i++) hd_yield();
    (void)arg;
    return 0;
}

static int pins(void *arg)
{
    (void)arg;
    struct pinned pinned = {.dispatcher = pool("pins", 3, HD_POLICY_FAIR)};
    hd_task *tasks[12];
    for (int i = 0; i < 12; i++) {
        tasks[i] = i % 2 ? spawn_on(pinned.dispatcher, busy, NULL, 0)
                         : spawn_on(pinned.dispatcher, stays, &pinned, HD_PINNED);
    }
    for (int i = 0; i < 12; i++) (void)rt_join(tasks[i]);
    EXPECT_EQ(pinned.sum, 6);
    hd_on on;
    struct pinned here = {.dispatcher = hd_dispatcher_default(NULL)};
    EXPECT_EQ(rt_join(spawn_on(here.dispatcher, stays, &here, HD_PINNED)), 0);
    EXPECT_EQ(hd_on_enter(&on, NULL), -EINVAL);
    hd_dispatcher_unref(pinned.dispatcher);
    return 0;
}

TEST_WORLDS(a_pinned_task_stays_on_its_thread, options)
{
    rt_run(pins, NULL, options);
}

/* ---- unconfined ---- */

struct steps {
    int at; /* the order of events is known: no atomics */
    hd_waker waker;
    atomic_int asleep, open;
    hd_dispatcher *woken_on;
};

static int unconfined_task(void *arg)
{
    struct steps *steps = arg;
    EXPECT_EQ(steps->at++, 0); /* at once, in the place of the spawner */
    steps->waker = hd_waker_self();
    atomic_store(&steps->asleep, 1);
    while (atomic_load(&steps->open) == 0) EXPECT_EQ(hd_park(), 0);
    expect_on(steps->woken_on);
    return 7;
}

static int open_here(void *arg)
{
    struct steps *steps = arg;
    steps->woken_on = hd_dispatcher_self();
    atomic_store(&steps->open, 1);
    hd_waker_wake(steps->waker);
    return 0;
}

static hd_poll unconfined_poll(void *state, int *result)
{
    struct steps *steps = *(struct steps **)state;
    EXPECT_EQ(steps->at++, 0);
    *result = 9;
    return HD_READY;
}

static int unconfined(void *arg)
{
    (void)arg;
    hd_dispatcher *mine = pool("mine", 1, HD_POLICY_FAIR);
    struct steps steps = {.at = 0}, *state = &steps;
    hd_task *task = spawn_on(hd_dispatcher_unconfined(), unconfined_task, &steps, 0);
    EXPECT_EQ(steps.at++, 1);
    rt_until(&steps.asleep);
    (void)rt_join(spawn_on(mine, open_here, &steps, 0));
    EXPECT_EQ(rt_join(task), 7);
    steps.at = 0;
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.dispatcher = hd_dispatcher_unconfined();
    EXPECT_EQ(hd_spawn_poll_with(&task, unconfined_poll, &state, sizeof(state), &options), 0);
    EXPECT_EQ(steps.at++, 1);
    EXPECT_EQ(rt_join(task), 9);
    options.flags = HD_PINNED;
    EXPECT_EQ(hd_spawn_with(&task, busy, NULL, &options), -EINVAL);
    hd_dispatcher_unref(mine);
    return 0;
}

TEST_WORLDS(an_unconfined_task_runs_at_once_then_where_it_is_woken, options)
{
    rt_run(unconfined, NULL, options);
}

/* From a plain thread there is no fiber whose place it could take. */
TEST_WORLDS(an_unconfined_task_of_a_thread_runs_on_the_default_dispatcher, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_spawn_options spawn = HD_SPAWN_OPTIONS_INIT;
    spawn.runtime = runtime;
    spawn.dispatcher = hd_dispatcher_unconfined();
    hd_task *task = NULL;
    EXPECT_EQ(hd_spawn_with(&task, child_is_on, hd_dispatcher_default(runtime), &spawn), 0);
    EXPECT_EQ(rt_join(task), 1);
    hd_runtime_destroy(runtime);
}

/* ---- misuse ---- */

static hd_poll move_in_a_poll(void *state, int *result)
{
    hd_on on;
    EXPECT_EQ(hd_on_enter(&on, *(hd_dispatcher **)state), -EINVAL);
    EXPECT_EQ(hd_on_call(*(hd_dispatcher **)state, busy, NULL, NULL), -EINVAL);
    EXPECT_EQ(hd_blocking(busy, NULL, NULL), -EINVAL);
    *result = 0;
    return HD_READY;
}

static int pinned_cannot_move(void *arg)
{
    hd_on on;
    EXPECT_EQ(hd_on_enter(&on, arg), -EINVAL);
    return 0;
}

static int misuse(void *other)
{
    hd_dispatcher *one = single();
    hd_on on;
    EXPECT_EQ(hd_on_enter(&on, NULL), -EINVAL);
    EXPECT_EQ(hd_on_enter(&on, hd_dispatcher_unconfined()), -EINVAL);
    EXPECT_EQ(hd_on_enter(&on, hd_dispatcher_default(other)), -EINVAL);
    (void)rt_join(spawn_on(one, pinned_cannot_move, hd_dispatcher_default(NULL), HD_PINNED));
    (void)rt_join(rt_spawn_poll(NULL, move_in_a_poll, &one, sizeof(one)));
    hd_spawn_options spawn = HD_SPAWN_OPTIONS_INIT;
    spawn.dispatcher = one;
    spawn.runtime = other;
    EXPECT_EQ(hd_spawn_with(NULL, busy, NULL, &spawn), -EINVAL);
    spawn.runtime = NULL;
    spawn.priority = (hd_priority)4;
    EXPECT_EQ(hd_spawn_with(NULL, busy, NULL, &spawn), -EINVAL);
    spawn.priority = HD_PRIORITY_URGENT;
    spawn.flags = HD_PINNED;
    spawn.dispatcher = hd_dispatcher_io(NULL);
    if (hd_runtime_world(hd_runtime_self()) == HD_WORLD_LIVE) {
        EXPECT_EQ(hd_spawn_with(NULL, busy, NULL, &spawn), -EINVAL);
    }
    hd_dispatcher_unref(one);
    hd_dispatcher_unref(hd_dispatcher_default(NULL)); /* borrowed: nothing happens */
    hd_dispatcher_unref(hd_dispatcher_io(NULL));
    hd_dispatcher_unref(NULL);
    return 0;
}

TEST_WORLDS(what_cannot_be_is_refused, options)
{
    hd_runtime *other = rt_create(options);
    rt_run(misuse, other, options);
    hd_on on;
    EXPECT_EQ(hd_on_enter(&on, hd_dispatcher_default(other)), -EINVAL);
    EXPECT(hd_dispatcher_self() == NULL);
    EXPECT(hd_dispatcher_default(NULL) == NULL);
    EXPECT(hd_dispatcher_io(NULL) == NULL);
    EXPECT_EQ(hd_dispatcher_workers(hd_dispatcher_unconfined()), 0);
    hd_dispatcher_options wrong = HD_DISPATCHER_OPTIONS_INIT;
    hd_dispatcher *none = NULL;
    EXPECT_EQ(hd_dispatcher_create(&none, NULL), -EINVAL); /* no runtime */
    wrong.runtime = other;
    wrong.workers = 257;
    EXPECT_EQ(hd_dispatcher_create(&none, &wrong), -EINVAL);
    wrong.workers = 1;
    wrong.policy = (hd_policy)9;
    EXPECT_EQ(hd_dispatcher_create(&none, &wrong), -EINVAL);
    wrong.policy = HD_POLICY_FAIR;
    wrong.cpu_count = 1;
    EXPECT_EQ(hd_dispatcher_create(&none, &wrong), -EINVAL);
    const unsigned cpu = 1000;
    wrong.cpus = &cpu;
    if (!rt_is_sim(options)) EXPECT_EQ(hd_dispatcher_create(&none, &wrong), -EINVAL);
    wrong.size = 1;
    EXPECT_EQ(hd_dispatcher_create(&none, &wrong), -EINVAL);
    EXPECT(none == NULL);
    EXPECT_EQ(hd_runtime_shutdown(other, HD_FOREVER), 0);
    EXPECT_EQ(hd_dispatcher_single(&none, other), -ESHUTDOWN);
    EXPECT(hd_dispatcher_io(other) == NULL);
    hd_runtime_destroy(other);
}

/* Across runtimes the dispatcher alone says it all. */
TEST_WORLDS(a_thread_spawns_onto_a_dispatcher, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_dispatcher *one = NULL;
    EXPECT_EQ(hd_dispatcher_single(&one, runtime), 0);
    EXPECT_EQ(rt_join(spawn_on(one, is_on, one, 0)), 2);
    EXPECT_EQ(rt_join(spawn_on(hd_dispatcher_io(runtime), is_on, hd_dispatcher_io(runtime), 0)), 2);
    hd_dispatcher_unref(one);
    hd_runtime_destroy(runtime);
}

/* ---- ending ---- */

static int end_own(void *arg)
{
    (void)arg;
    hd_dispatcher_unref(hd_dispatcher_self()); /* the last handle */
    for (int i = 0; i < 3; i++) hd_yield();
    return 8;
}

static int outlive(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        hd_dispatcher *mine = pool("short", 1 + (unsigned)i % 3, (hd_policy)(i % 4));
        hd_task *task = spawn_on(mine, end_own, NULL, 0);
        EXPECT_EQ(rt_join(task), 8);
    }
    hd_dispatcher *mine = pool("counted", 2, HD_POLICY_FAIR);
    EXPECT(hd_dispatcher_ref(mine) == mine);
    hd_dispatcher_unref(mine);
    EXPECT_EQ(rt_join(spawn_on(mine, is_on, mine, 0)), 2);
    hd_task *task = spawn_on(mine, is_on, mine, 0);
    hd_dispatcher_unref(mine); /* the task is waited for */
    EXPECT_EQ(rt_join(task), 2);
    (void)pool("left", 2, HD_POLICY_FAIR); /* for hd_runtime_destroy() */
    return 0;
}

TEST_WORLDS(a_dispatcher_ends_by_itself, options)
{
    rt_run(outlive, NULL, options);
}

static int park_for_ever(void *arg)
{
    atomic_store((atomic_int *)arg, 1);
    int err = 0;
    while (err == 0) err = hd_park();
    return err;
}

TEST_WORLDS(a_runtime_is_destroyed_with_dispatchers_and_tasks_alive, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_dispatcher *dispatchers[3];
    atomic_int asleep[6] = {0};
    for (int i = 0; i < 3; i++) {
        hd_dispatcher_options own = HD_DISPATCHER_OPTIONS_INIT;
        own.runtime = runtime;
        own.workers = 2;
        own.policy = (hd_policy)i;
        EXPECT_EQ(hd_dispatcher_create(&dispatchers[i], &own), 0);
        hd_detach(spawn_on(dispatchers[i], park_for_ever, &asleep[2 * i], 0));
        hd_detach(spawn_on(dispatchers[i], park_for_ever, &asleep[2 * i + 1], HD_PINNED));
    }
    hd_dispatcher_unref(dispatchers[1]);
    hd_stats stats;
    hd_runtime_stats(runtime, &stats);
    EXPECT_EQ(stats.dispatchers, 4);
    EXPECT_EQ(stats.alive, 6);
    hd_runtime_destroy(runtime);
}

static int use_and_count(void *arg)
{
    (void)arg;
    hd_stats before, after;
    hd_runtime_stats(hd_runtime_self(), &before);
    for (int i = 0; i < 10; i++) {
        hd_dispatcher *mine = pool("mine", 1, HD_POLICY_FAIR);
        EXPECT_EQ(rt_join(spawn_on(mine, is_on, mine, 0)), 2);
        hd_dispatcher_unref(mine);
    }
    hd_runtime_stats(hd_runtime_self(), &after);
    EXPECT_EQ(after.submitted - before.submitted, 20); /* nothing is lost with the pools */
    EXPECT_EQ(after.alive, before.alive);
    EXPECT(after.polls - before.polls >= 20);
    return 0;
}

TEST_WORLDS(counters_outlive_their_dispatcher, options)
{
    rt_run(use_and_count, NULL, options);
}

/* ---- CPUs and names ---- */

static int on_one_cpu(void *arg)
{
    cpu_set_t set;
    EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
    EXPECT_EQ(CPU_COUNT(&set), 1);
    EXPECT(CPU_ISSET(*(unsigned *)arg, &set));
    char name[16] = "";
    EXPECT_EQ(pthread_getname_np(pthread_self(), name, sizeof(name)), 0);
    EXPECT_EQ(strcmp(name, "hd-bound-0"), 0);
    return 0;
}

static int bound(void *arg)
{
    (void)arg;
    cpu_set_t set;
    EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
    unsigned cpu = CPU_SETSIZE - 1;
    while (!CPU_ISSET(cpu, &set)) cpu--;
    hd_dispatcher_options options = HD_DISPATCHER_OPTIONS_INIT;
    options.name = "bound";
    options.cpus = &cpu;
    options.cpu_count = 1;
    hd_dispatcher *mine = NULL;
    EXPECT_EQ(hd_dispatcher_create(&mine, &options), 0);
    /* A thread may begin before it is bound and named, not after this. */
    EXPECT_EQ(rt_join(spawn_on(mine, on_one_cpu, &cpu, 0)), 0);
    hd_dispatcher_unref(mine);
    return 0;
}

TEST(workers_are_bound_to_their_cpu_and_named)
{
    if (getenv("HEDDLE_TEST_EMULATED")) test_skip("qemu does not emulate affinity");
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    rt_run(bound, NULL, &options);
}

/* ---- the dump ---- */

static int dump(void *arg)
{
    (void)arg;
    hd_dispatcher *mine = pool("weavers", 1, HD_POLICY_PRIORITY);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    EXPECT(out != NULL);
    hd_runtime_dump(hd_runtime_self(), out);
    fclose(out);
    EXPECT(strstr(text, "dispatcher \"default\"") != NULL);
    EXPECT(strstr(text, "dispatcher \"weavers\"  priority") != NULL);
    free(text);
    hd_dispatcher_unref(mine);
    return 0;
}

TEST_WORLDS(the_dump_shows_dispatchers, options)
{
    rt_run(dump, NULL, options);
}

TEST_MAIN
