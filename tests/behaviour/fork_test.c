/* SPDX-License-Identifier: MIT
 *
 * Jobs: results, joins, and where they can be run from.
 */
#include "forks.h"

#include <pthread.h>
#include <sys/resource.h>

#include "base/sanitizer.h"
#include "death.h"
#include "pools.h"
#include "proc.h"

TEST_MAIN

/* ---- results ---- */

static int check_trees(void *arg)
{
    const uint64_t seed = *(const uint64_t *)arg;
    for (unsigned depth = 0; depth < 7; depth++) forks_check(NULL, seed * 10 + depth, depth);
    return 0;
}

TEST_WORLDS(trees_have_the_sums_of_serial_ones, options)
{
    for (unsigned workers = 1; workers <= 8; workers++) {
        hd_options own = rt_workers(options, workers);
        if (workers > 1) rt_by_workers(&own);
        uint64_t seed = options->seed + workers;
        rt_run(check_trees, &seed, &own);
    }
}

TEST_WORLDS(trees_have_the_sums_of_serial_ones_under_every_policy, options)
{
    for (int policy = HD_POLICY_FAIR; policy <= HD_POLICY_PRIORITY; policy++) {
        hd_options own = rt_workers(options, 3);
        own.policy = (hd_policy)policy;
        rt_by_workers(&own);
        uint64_t seed = options->seed + (unsigned)policy;
        rt_run(check_trees, &seed, &own);
    }
}

struct wide {
    int numbers[40];
};

HD_JOB(scale, struct wide, struct wide, in)
{
    for (int i = 0; i < 40; i++) in.numbers[i] *= 2;
    return in;
}

HD_JOB(scale_twice, struct wide, struct wide, in)
{
    HD_FORK(first, scale, in);
    for (int i = 0; i < 40; i++) in.numbers[i] = -1; /* The job has its own. */
    HD_FORK(second, scale, HD_SYNC(first));
    memset(&first, 0xff, sizeof(first));
    return HD_SYNC(second);
}

static int pass_by_value(void *arg)
{
    (void)arg;
    struct wide in;
    for (int i = 0; i < 40; i++) in.numbers[i] = i;
    for (int round = 0; round < 20; round++) {
        const struct wide out = HD_RUN_JOB(NULL, scale_twice, in);
        for (int i = 0; i < 40; i++) EXPECT_EQ(out.numbers[i], 4 * i);
    }
    return 0;
}

TEST_WORLDS(arguments_and_results_are_copies, options) { rt_run(pass_by_value, NULL, options); }

/* Two that call each other, and one that is declared before its body. */
HD_JOB_DECLARE(odd, int, int);
HD_JOB(even, int, int, n)
{
    if (n == 0) return 1;
    HD_FORK(rest, odd, n - 1);
    return HD_SYNC(rest);
}
HD_JOB_BODY(odd, int, int, n)
{
    return n == 0 ? 0 : HD_CALL(even, n - 1);
}

static int mutual(void *arg)
{
    (void)arg;
    for (int n = 0; n < 40; n++) EXPECT_EQ(HD_RUN_JOB(NULL, even, n), n % 2 == 0);
    return 0;
}

TEST_WORLDS(jobs_call_each_other, options) { rt_run(mutual, NULL, options); }

/* A job begins others of its own, apart from what it has forked. */
HD_JOB(nested, uint64_t, int, levels)
{
    const struct forks_part part = {(uint64_t)levels, 4};
    if (levels == 0) return forks_serial(part).hash;
    HD_FORK(before, forks_tree, part);
    HD_FORK(beside, nested, levels - 1);
    const uint64_t inner = HD_RUN_JOB(NULL, nested, levels - 1);
    EXPECT(HD_SYNC(beside) == inner);
    forks_expect(part, HD_SYNC(before));
    return inner;
}

static int nest(void *arg)
{
    (void)arg;
    EXPECT(HD_RUN_JOB(NULL, nested, 4) == forks_serial((struct forks_part){0, 4}).hash);
    return 0;
}

TEST_WORLDS(a_job_begins_others, options) { rt_run(nest, NULL, options); }

/* ---- jobs that are taken ---- */

HD_JOB_VOID(set_flag, atomic_int *, flag)
{
    atomic_store(flag, 1);
}

HD_JOB(have_one_taken, uint64_t, int, unused)
{
    (void)unused;
    atomic_int flag = 0;
    HD_FORK(job, set_flag, &flag);
    FORKS_UNTIL(&flag);
    (void)HD_SYNC(job);
    return forks_taken(NULL);
}

static int take_one(void *arg)
{
    (void)arg;
    EXPECT(HD_RUN_JOB(NULL, have_one_taken, 0) > 0);
    return 0;
}

/* Spares do not help: whoever has nothing to do is a worker of the pool. */
TEST(who_has_nothing_to_do_takes_jobs)
{
    for (int policy = HD_POLICY_FAIR; policy <= HD_POLICY_PRIORITY; policy++) {
        hd_options options = HD_OPTIONS_INIT;
        options.world = HD_WORLD_LIVE;
        options.workers = 2;
        options.policy = (hd_policy)policy;
        options.stall_ns = HD_FOREVER;
        rt_run(take_one, NULL, &options);
    }
}

static int take_one_in_pools(void *arg)
{
    (void)arg;
    for (int policy = HD_POLICY_FAIR; policy <= HD_POLICY_PRIORITY; policy++) {
        hd_dispatcher *two = pool("two", 2, (hd_policy)policy);
        EXPECT_EQ(rt_join(spawn_on(two, take_one, NULL, 0)), 0);
        EXPECT_EQ(rt_join(spawn_on(two, take_one, NULL, HD_PINNED)), 0);
        hd_dispatcher_unref(two);
    }
    EXPECT_EQ(rt_join(spawn_on(hd_dispatcher_unconfined(), take_one, NULL, 0)), 0);
    return 0;
}

TEST(workers_of_other_dispatchers_take_jobs)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.workers = 2;
    options.stall_ns = HD_FOREVER;
    rt_run(take_one_in_pools, NULL, &options);
}

/* More at once than are laid open together, or than there is room for. */
enum { MANY = 1000 };

HD_JOB_VOID(many, atomic_int *, count)
{
    forks_nothing_job jobs[MANY];
    for (int i = 0; i < MANY; i++) HD_FORK_INTO(&jobs[i], forks_nothing, count);
    for (int i = MANY; i-- > 0;) (void)HD_SYNC_FROM(&jobs[i], forks_nothing);
}

static int fork_many(void *arg)
{
    (void)arg;
    for (int round = 1; round <= 5; round++) {
        atomic_int count = 0;
        (void)HD_RUN_JOB(NULL, many, &count);
        EXPECT_EQ(atomic_load(&count), MANY);
    }
    return 0;
}

TEST_WORLDS(many_are_forked_at_once, options) { rt_run(fork_many, NULL, options); }

/* ---- joins ---- */

/* Set when its job has ended; the block that forked it must not be left before. */
struct left {
    int done[4];
};

HD_JOB_VOID(finish, int *, done)
{
    hd_yield();
    ++*done;
}

static bool all_done(const struct left *left, int jobs)
{
    for (int i = 0; i < 4; i++) {
        if (left->done[i] != (i < jobs)) return false;
    }
    return true;
}

HD_JOB(leave_by_return, int, struct left *, left)
{
    HD_FORK(first, finish, &left->done[0]);
    {
        HD_FORK(second, finish, &left->done[1]);
        if (left) return 7;
    }
    return 8;
}

HD_JOB(leave_by_end, int, struct left *, left)
{
    HD_FORK(outer, finish, &left->done[0]);
    {
        HD_FORK(inner, finish, &left->done[1]);
    }
    EXPECT_EQ(left->done[1], 1);
    if (left) {
        HD_FORK(other, finish, &left->done[2]);
        (void)HD_SYNC(other);
        EXPECT_EQ(left->done[2], 1);
    }
    return 0;
}

HD_JOB(leave_by_break, int, struct left *, left)
{
    int rounds = 0;
    for (int i = 0; i < 4; i++) {
        EXPECT(all_done(left, i));
        HD_FORK(job, finish, &left->done[i]);
        rounds++;
        if (i == 1) continue;
        if (i == 2) break;
    }
    EXPECT(all_done(left, 3));
    return rounds;
}

HD_JOB(leave_by_goto, int, struct left *, left)
{
    int i = 0;
again: {
    HD_FORK(job, finish, &left->done[i]);
    HD_FORK(joined, forks_nothing, NULL);
    (void)HD_SYNC(joined);
    if (++i < 3) goto again;
    goto out;
}
out:
    EXPECT(all_done(left, 3));
    return i;
}

static int leave_blocks(void *arg)
{
    (void)arg;
    for (int round = 0; round < 10; round++) {
        struct left left[4] = {{{0}}};
        EXPECT_EQ(HD_RUN_JOB(NULL, leave_by_return, &left[0]), 7);
        EXPECT(all_done(&left[0], 2));
        EXPECT_EQ(HD_RUN_JOB(NULL, leave_by_end, &left[1]), 0);
        EXPECT(all_done(&left[1], 3));
        EXPECT_EQ(HD_RUN_JOB(NULL, leave_by_break, &left[2]), 3);
        EXPECT_EQ(HD_RUN_JOB(NULL, leave_by_goto, &left[3]), 3);
    }
    return 0;
}

TEST_WORLDS(whoever_leaves_a_block_joins_its_jobs, options)
{
    rt_run(leave_blocks, NULL, options);
}

/* Forks its children and leaves them to the end of their block; calls some of them as well. */
struct visit {
    struct forks_part part;
    atomic_int *visits;
};

HD_JOB_VOID(visit_all, struct visit, visit)
{
    atomic_fetch_add(visit.visits, 1);
    const unsigned fan = forks_fan(visit.part);
    for (unsigned i = 0; i < fan; i++) {
        const struct visit child = {forks_child(visit.part, i), visit.visits};
        HD_FORK(later, visit_all, child);
        HD_FORK(also_later, forks_nothing, visit.visits);
        if (i % 2) HD_CALL(visit_all, child);
    }
}

static int count_visits(struct forks_part part)
{
    int visits = 1;
    const unsigned fan = forks_fan(part);
    for (unsigned i = 0; i < fan; i++) {
        visits += 1 + (i % 2 ? 2 : 1) * count_visits(forks_child(part, i));
    }
    return visits;
}

static int leave_trees(void *arg)
{
    (void)arg;
    for (uint64_t seed = 0; seed < 5; seed++) {
        atomic_int visits = 0;
        const struct visit root = {{forks_mix(seed), 4}, &visits};
        (void)HD_RUN_JOB(NULL, visit_all, root);
        EXPECT_EQ(atomic_load(&visits), count_visits(root.part));
    }
    return 0;
}

TEST_WORLDS(trees_are_joined_by_their_blocks, options) { rt_run(leave_trees, NULL, options); }

HD_JOB(join_oldest_first, int, int, n)
{
    HD_FORK(first, forks_nothing, NULL);
    HD_FORK(second, forks_nothing, NULL);
    (void)HD_SYNC(first);
    return n;
}

HD_JOB(join_twice, int, int, n)
{
    forks_nothing_job job;
    HD_FORK_INTO(&job, forks_nothing, NULL);
    (void)HD_SYNC_FROM(&job, forks_nothing);
    (void)HD_SYNC_FROM(&job, forks_nothing);
    return n;
}

static int disorder_in_fiber(void *arg)
{
    return *(int *)arg ? HD_RUN_JOB(NULL, join_twice, 0) : HD_RUN_JOB(NULL, join_oldest_first, 0);
}

static void disorder(void *arg)
{
    (void)disorder_in_fiber(arg);
}

static void disorder_inside(void *arg)
{
    const hd_options options = HD_OPTIONS_INIT;
    (void)hd_run(disorder_in_fiber, arg, &options);
}

TEST(joining_in_another_order_is_told)
{
    static const char words[] = "a job is joined before a newer one";
    for (int twice = 0; twice <= 1; twice++) {
        expect_abort(disorder, &twice, words);
        expect_abort(disorder_inside, &twice, words);
    }
}

/* ---- from where ---- */

/* The task that runs it; 0: none. */
HD_JOB(who, uint64_t, int, unused)
{
    (void)unused;
    return hd_self_id();
}

/* How many jobs that it forks are run by another task. */
HD_JOB(others, int, int, count)
{
    int other = 0;
    for (int i = 0; i < count; i++) {
        HD_FORK(job, who, 0);
        other += HD_SYNC(job) != hd_self_id();
    }
    return other;
}

static int on_small_stack(void *arg)
{
    forks_check(arg, 3, 6);
    EXPECT(HD_RUN_JOB(arg, who, 0) != hd_self_id()); /* A stack of the right size is another's. */
    return 0;
}

static int on_large_stack(void *arg)
{
    forks_check(arg, 4, 6);
    EXPECT(HD_RUN_JOB(arg, who, 0) == hd_self_id());
    return 0;
}

static int spawn_with_stacks(void *arg)
{
    (void)arg;
    forks_check(NULL, 1, 6);
    forks_check(hd_runtime_self(), 2, 6);
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    hd_task *small, *large;
    options.stack_bytes = 16 << 10;
    EXPECT_EQ(hd_spawn_with(&small, on_small_stack, NULL, &options), 0);
    options.stack_bytes = 256 << 10;
    EXPECT_EQ(hd_spawn_with(&large, on_large_stack, hd_runtime_self(), &options), 0);
    EXPECT_EQ(rt_join(small), 0);
    EXPECT_EQ(rt_join(large), 0);
    return 0;
}

TEST_WORLDS(from_fibers_with_any_stack, options)
{
    hd_options own = *options;
    own.job_stack_bytes = 256 << 10;
    rt_run(spawn_with_stacks, NULL, &own);
}

static void *thread_main(void *runtime)
{
    for (uint64_t seed = 0; seed < 5; seed++) forks_check(runtime, seed, 5);
    EXPECT(HD_RUN_JOB(runtime, who, 0) != 0);
    return NULL;
}

TEST_WORLDS(from_threads, options)
{
    hd_runtime *runtime = rt_create(options);
    (void)thread_main(runtime);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(pthread_create(&threads[i], NULL, thread_main, runtime), 0);
    }
    for (int i = 0; i < 3; i++) EXPECT_EQ(pthread_join(threads[i], NULL), 0);
    hd_runtime_destroy(runtime);
}

static int from_elsewhere(void *other)
{
    for (uint64_t seed = 0; seed < 5; seed++) forks_check(other, seed, 5);
    return 0;
}

TEST(from_a_fiber_of_another_runtime)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    hd_runtime *other = rt_create(&options);
    rt_run(from_elsewhere, other, &options);
    hd_runtime_destroy(other);
}

TEST(outside_any_runtime_they_run_one_after_the_other)
{
    EXPECT_EQ(HD_RUN_JOB(NULL, who, 0), 0);
    for (uint64_t seed = 0; seed < 20; seed++) forks_check(NULL, seed, 6);
    EXPECT_EQ(HD_RUN_JOB(NULL, leave_by_return, &(struct left){{0}}), 7);
}

/* The caller does it by itself where nothing can be spawned any more. */
TEST_WORLDS(in_a_runtime_that_ends, options)
{
    hd_runtime *runtime = rt_create(options);
    EXPECT_EQ(hd_runtime_shutdown(runtime, HD_FOREVER), 0);
    forks_check(runtime, 1, 5);
    EXPECT_EQ(HD_RUN_JOB(runtime, who, 0), 0);
    hd_runtime_destroy(runtime);
}

static hd_poll poll_jobs(void *state, int *result)
{
    hd_runtime *runtime = *(hd_runtime **)state;
    forks_check(runtime, 1, 5);
    *result = HD_RUN_JOB(runtime, others, 50);
    return HD_READY;
}

static int block_with_jobs(void *arg)
{
    forks_check(arg, 1, 5);
    return HD_RUN_JOB(arg, others, 50);
}

static int from_stackless(void *other)
{
    hd_runtime *const runtimes[] = {NULL, hd_runtime_self(), other};
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(rt_join(rt_spawn_poll(NULL, poll_jobs, &runtimes[i], sizeof(hd_runtime *))), 0);
    }
    int result = -1;
    EXPECT_EQ(hd_blocking(block_with_jobs, NULL, &result), 0);
    EXPECT_EQ(result, 0);
    return 0;
}

TEST_WORLDS(a_stackless_task_runs_them_one_after_the_other, options)
{
    hd_runtime *other = rt_create(options);
    rt_run(from_stackless, other, options);
    hd_runtime_destroy(other);
}

/* ---- stacks and memory ---- */

HD_JOB(chain, int, int, n)
{
    if (n == 0) return 0;
    HD_FORK(rest, chain, n - 1);
    return HD_SYNC(rest) + 1;
}

static int descend(void *arg)
{
    const int depth = *(const int *)arg;
    EXPECT_EQ(HD_RUN_JOB(NULL, chain, depth), depth);
    return 0;
}

/* In sim one in four goes on on a stack of its own. */
TEST_WORLDS(recursion_may_be_deep, options)
{
    const bool larger = (HDI_ASAN || HDI_TSAN) && !rt_is_sim(options); /* So are their frames. */
    int depth = 5000;
    hd_options own = *options;
    if (larger) own.job_stack_bytes = 16 << 20;
    rt_run(descend, &depth, &own);
    if (rt_is_sim(options)) return;
    depth = 50000;
    own.job_stack_bytes = 64 << 20;
    rt_run(descend, &depth, &own);
}

TEST(job_stacks_have_limits)
{
    hd_options options = HD_OPTIONS_INIT;
    options.job_stack_bytes = (16 << 10) - 1;
    EXPECT(hd_options_error(&options) != NULL);
    options.job_stack_bytes = (size_t)(1 << 30) + 1;
    EXPECT(hd_options_error(&options) != NULL);
    options.job_stack_bytes = 16 << 10;
    EXPECT(hd_options_error(&options) == NULL);
}

/* Room for so many stacks more, and no other in the whole process. */
static void leave_room_for(unsigned stacks, size_t stack_bytes)
{
    char text[4096];
    EXPECT(proc_read(getpid(), "status", text, sizeof(text)));
    const size_t used = (size_t)proc_number_after(text, "\nVmSize:") << 10;
    const size_t room = used + stacks * stack_bytes + stack_bytes / 2;
    EXPECT_EQ(setrlimit(RLIMIT_AS, &(struct rlimit){room, room}), 0);
}

static int check_without_memory(void *arg)
{
    const unsigned stacks = *(const unsigned *)arg;
    leave_room_for(stacks, 256u << 20);
    for (uint64_t seed = 0; seed < 4; seed++) forks_check(NULL, seed, 4);
    EXPECT_EQ(HD_RUN_JOB(NULL, leave_by_break, &(struct left){{0}}), 3);
    EXPECT_EQ(HD_RUN_JOB(NULL, others, 50) > 0 && stacks == 0, 0);
    if (stacks == 0) EXPECT_EQ(forks_taken(NULL), 0);
    return 0;
}

TEST_WORLDS(without_memory_the_forker_runs_them, options)
{
    if (HDI_ASAN || HDI_TSAN) test_skip("the sanitizer needs address space");
    if (getenv("HEDDLE_TEST_EMULATED")) test_skip("the emulator keeps its address space");
    static unsigned stacks[] = {3, 1, 0};
    for (int i = 0; i < 3; i++) {
        const pid_t pid = fork(); /* A limit that is lowered stays. */
        if (pid == 0) {
            hd_options own = *options;
            own.workers = 4;
            own.job_stack_bytes = 256u << 20;
            alarm(60);
            rt_run(check_without_memory, &stacks[i], &own);
            _exit(0);
        }
        int status = -1;
        EXPECT(waitpid(pid, &status, 0) == pid);
        EXPECT_EQ(status, 0);
    }
}
