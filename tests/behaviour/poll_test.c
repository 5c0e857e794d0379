/* SPDX-License-Identifier: MIT
 *
 * Stackless tasks: their state, its end, and how often they are polled.
 */
#include "rt.h"

TEST_MAIN

/* ---- state ---- */

static const size_t sizes[] = {0,   1,   7,    8,    15,   16,   17,   31,    32,     33,
                               95,  96,  97,   224,  225,  480,  481,  992,   993,    2015,
                               2016, 2017, 2048, 4095, 4096, 4097, 65536, 999999, 1 << 20};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };
static unsigned char pattern[1 << 20];
static size_t expected_bytes;
static bool expect_zero;
static atomic_int drops;

static void fill_pattern(void)
{
    for (size_t i = 0; i < sizeof(pattern); i++) pattern[i] = (unsigned char)(i * 31 + i / 251 + 1);
}

static void check_state(const unsigned char *state)
{
    EXPECT_EQ((uintptr_t)state % 16, 0);
    for (size_t i = 0; i < expected_bytes; i++) EXPECT_EQ(state[i], expect_zero ? 0 : pattern[i]);
}

static hd_poll check_and_end(void *state, int *result)
{
    check_state(state);
    *result = 11;
    return HD_READY;
}

static void check_in_drop(void *state)
{
    check_state(state);
    atomic_fetch_add(&drops, 1);
}

static void run_sizes(hd_runtime *runtime)
{
    for (int i = 0; i < SIZES; i++) {
        expected_bytes = sizes[i];
        hd_task *task = rt_spawn_poll_drop(runtime, check_and_end, expect_zero ? NULL : pattern,
                                           sizes[i], check_in_drop);
        EXPECT_EQ(rt_join(task), 11);
        EXPECT_EQ(drops, i + 1); /* before the end is seen */
    }
}

TEST(state_of_any_size_is_copied)
{
    const hd_options sim = {.size = sizeof(sim), .world = HD_WORLD_SIM};
    const hd_options live = {.size = sizeof(live), .world = HD_WORLD_LIVE};
    const hd_options *worlds[] = {&sim, &live};
    fill_pattern();
    for (int w = 0; w < 2; w++) {
        hd_runtime *runtime = rt_create(worlds[w]);
        atomic_store(&drops, 0);
        run_sizes(runtime);
        hd_runtime_destroy(runtime);
    }
}

TEST(without_a_source_state_is_zero_also_in_memory_used_before)
{
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_SIM};
    fill_pattern();
    hd_runtime *runtime = rt_create(&options);
    run_sizes(runtime);
    atomic_store(&drops, 0);
    expect_zero = true;
    run_sizes(runtime);
    hd_runtime_destroy(runtime);
}

TEST(more_than_a_mebibyte_and_no_function_are_refused)
{
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_SIM};
    hd_runtime *runtime = rt_create(&options);
    hd_spawn_options spawn = HD_SPAWN_OPTIONS_INIT;
    spawn.runtime = runtime;
    hd_task *task = NULL;
    EXPECT_EQ(hd_spawn_poll_with(&task, check_and_end, NULL, (1 << 20) + 1, &spawn), -EINVAL);
    EXPECT_EQ(hd_spawn_poll_with(&task, check_and_end, NULL, SIZE_MAX, &spawn), -EINVAL);
    EXPECT_EQ(hd_spawn_poll_with(&task, NULL, NULL, 0, &spawn), -EINVAL);
    EXPECT_EQ(hd_spawn_with(&task, NULL, NULL, &spawn), -EINVAL);
    EXPECT_EQ(hd_spawn_poll(&task, check_and_end, NULL, 0), -EINVAL); /* no runtime */
    spawn.size--;
    EXPECT_EQ(hd_spawn_poll_with(&task, check_and_end, NULL, 0, &spawn), -EINVAL);
    EXPECT(task == NULL);
    hd_runtime_destroy(runtime);
}

/* Many at once, of all sizes, each with its size and number in front. */
struct header {
    size_t bytes;
    int number, polls;
};

static hd_poll check_header(void *state, int *result)
{
    struct header *self = state;
    const unsigned char *rest = (unsigned char *)(self + 1);
    for (size_t i = sizeof(*self); i < self->bytes; i++) {
        EXPECT_EQ(rest[i - sizeof(*self)], (unsigned char)self->number);
    }
    if (self->polls++ < 3) {
        hd_waker_wake(hd_waker_self());
        return HD_PENDING;
    }
    *result = self->number;
    return HD_READY;
}

static void count_drop(void *state)
{
    (void)state;
    atomic_fetch_add(&drops, 1);
}

static int spawn_all_sizes(void *arg)
{
    (void)arg;
    static hd_task *tasks[SIZES * 5];
    static unsigned char source[1 << 20];
    int count = 0;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < SIZES; i++) {
            if (sizes[i] < sizeof(struct header) || sizes[i] > 70000) continue;
            const struct header header = {.bytes = sizes[i], .number = count};
            memset(source, count, sizes[i]);
            memcpy(source, &header, sizeof(header));
            tasks[count++] = rt_spawn_poll_drop(NULL, check_header, source, sizes[i], count_drop);
        }
    }
    for (int i = count - 1; i >= 0; i--) EXPECT_EQ(rt_join(tasks[i]), i);
    EXPECT_EQ(drops, count);
    return 0;
}

TEST_WORLDS(states_do_not_overlap, options)
{
    hd_options own = *options;
    own.stack_bytes = 256 << 10;
    rt_run(spawn_all_sizes, NULL, &own);
}

/* ---- the drop ---- */

struct droppable {
    atomic_int *pending, *cancelled;
    int magic;
};

static hd_poll pend_for_ever(void *state, int *result)
{
    struct droppable *self = state;
    *result = 0;
    atomic_fetch_add(hd_cancelled() ? self->cancelled : self->pending, 1);
    return HD_PENDING;
}

static void drop_magic(void *state)
{
    struct droppable *self = state;
    EXPECT_EQ(self->magic, 77);
    self->magic = 0;
    atomic_fetch_add(&drops, 1);
}

TEST_WORLDS(idle_tasks_are_told_then_dropped_once_when_the_runtime_ends, options)
{
    atomic_int pending = 0, cancelled = 0;
    const struct droppable state = {&pending, &cancelled, 77};
    unsigned char large[5000] = {0};
    memcpy(large, &state, sizeof(state));
    hd_runtime *runtime = rt_create(options);
    for (int i = 0; i < 50; i++) {
        const bool big = i % 10 == 9;
        hd_detach(rt_spawn_poll_drop(runtime, pend_for_ever, big ? (void *)large : (void *)&state,
                                     big ? sizeof(large) : sizeof(state), drop_magic));
    }
    hd_task *kept = rt_spawn_poll_drop(runtime, pend_for_ever, &state, sizeof(state), drop_magic);
    EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0);
    EXPECT_EQ(drops, 51);
    EXPECT(cancelled == 51 && pending <= 51); /* some may not have run before */
    EXPECT_EQ(rt_join(kept), -ECANCELED);
    hd_runtime_destroy(runtime);
    EXPECT_EQ(drops, 51);
}

TEST_WORLDS(shutting_down_with_a_deadline_drops_them_too, options)
{
    atomic_int pending = 0, cancelled = 0;
    const struct droppable state = {&pending, &cancelled, 77};
    hd_runtime *runtime = rt_create(options);
    for (int i = 0; i < 10; i++) {
        hd_detach(rt_spawn_poll_drop(runtime, pend_for_ever, &state, sizeof(state), drop_magic));
    }
    EXPECT_EQ(hd_runtime_shutdown(runtime, hd_now(runtime) + INT64_C(60000000000)), 0);
    EXPECT_EQ(drops, 10);
    hd_runtime_destroy(runtime);
}

struct holder {
    hd_task *task;
};

static hd_poll hold_a_handle(void *state, int *result)
{
    struct holder *self = state;
    if (hd_join_poll(self->task, result) == HD_PENDING) return HD_PENDING;
    EXPECT_EQ(*result, -ECANCELED);
    self->task = NULL;
    return HD_READY;
}

static void let_go(void *state)
{
    struct holder *self = state;
    if (self->task) hd_detach(self->task);
    atomic_fetch_add(&drops, 1);
}

TEST_WORLDS(a_drop_can_give_up_a_join, options)
{
    atomic_int pending = 0, cancelled = 0;
    const struct droppable state = {&pending, &cancelled, 77};
    hd_runtime *runtime = rt_create(options);
    /* It waits for a task that ends only by being dropped, perhaps after it. */
    struct holder holder = {
        rt_spawn_poll_drop(runtime, pend_for_ever, &state, sizeof(state), drop_magic)};
    hd_detach(rt_spawn_poll_drop(runtime, hold_a_handle, &holder, sizeof(holder), let_go));
    hd_runtime_destroy(runtime);
    EXPECT_EQ(drops, 2);
}

/* ---- polling ---- */

static hd_poll end_negative(void *state, int *result)
{
    (void)state;
    hd_yield(); /* a hint here, nothing more */
    EXPECT(hd_runtime_self() != NULL);
    *result = -EPIPE;
    return HD_READY;
}

TEST_WORLDS(the_result_is_the_tasks_own, options)
{
    hd_runtime *runtime = rt_create(options);
    EXPECT_EQ(rt_join(rt_spawn_poll(runtime, end_negative, NULL, 0)), -EPIPE);
    hd_runtime_destroy(runtime);
}

struct chain {
    int left;
};

static atomic_int links;

static hd_poll spawn_next(void *state, int *result)
{
    struct chain next = {((struct chain *)state)->left - 1};
    *result = 0;
    atomic_fetch_add(&links, 1);
    if (next.left > 0) EXPECT_EQ(hd_spawn_poll(NULL, spawn_next, &next, sizeof(next)), 0);
    return HD_READY;
}

TEST_WORLDS(a_chain_of_spawns_runs_to_its_end, options)
{
    hd_runtime *runtime = rt_create(options);
    const struct chain first = {1000};
    hd_detach(rt_spawn_poll(runtime, spawn_next, &first, sizeof(first)));
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    EXPECT_EQ(links, 1000);
    hd_runtime_destroy(runtime);
}

static hd_poll poll_four_times(void *state, int *result)
{
    struct header *self = state;
    *result = 0;
    if (++self->polls == 4) return HD_READY;
    hd_waker_wake(hd_waker_self());
    return HD_PENDING;
}

TEST_WORLDS(every_poll_is_counted, options)
{
    hd_runtime *runtime = rt_create(options);
    enum { TASKS = 500 };
    for (int i = 0; i < TASKS; i++) {
        hd_detach(rt_spawn_poll(runtime, poll_four_times, NULL, sizeof(struct header)));
    }
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    hd_stats stats;
    hd_runtime_stats(runtime, &stats);
    EXPECT_EQ(stats.polls, 4 * TASKS);
    EXPECT_EQ(stats.completed, TASKS);
    hd_runtime_destroy(runtime);
}

TEST(in_sim_a_task_that_nobody_can_wake_is_a_deadlock)
{
    const hd_options options = {.size = sizeof(options), .world = HD_WORLD_SIM};
    atomic_int pending = 0, cancelled = 0;
    const struct droppable state = {&pending, &cancelled, 77};
    hd_runtime *runtime = rt_create(&options);
    hd_task *task = rt_spawn_poll(runtime, pend_for_ever, &state, sizeof(state));
    EXPECT_EQ(hd_join(task, NULL), -EDEADLK);
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), -EDEADLK);
    EXPECT_EQ(pending, 1);
    hd_detach(task);
    hd_runtime_destroy(runtime);
    EXPECT_EQ(cancelled, 1);
}
