/* SPDX-License-Identifier: MIT
 *
 * Prints one line for each of 1,000 seeds: the seed, and the digest of a program that
 * does a little of everything. Each seed runs twice in this process; a difference is an
 * error. scripts/determinism compares the lines between builds, compilers and machines. Some of the
 * seeds have a sampler, or are recorded, and the log's hash is part of the digest.
 *
 *   determinism [FIRST [COUNT]]
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <heddle.h>

#include "parts.h"

enum { SEEDS = 1000, FIBERS = 10, POLLS = 10, LEAVES = 4, ROUNDS = 4 };
enum { LOG_EVERY = 8, EXPLORE_EVERY = 20 };

struct world {
    struct trail trail;
    unsigned alive;
    hd_waker wakers[FIBERS + POLLS];
    hd_task *tasks[FIBERS + POLLS];
};

struct member {
    struct world *world;
    unsigned index;
    unsigned round;
    hd_task *child;
};

void must(int err, const char *file, int line)
{
    if (err == 0) return;
    fprintf(stderr, "%s:%d: error %d\n", file, line, err);
    exit(1);
}

void record(struct trail *trail, uint64_t what)
{
    trail->hash = (trail->hash ^ what) * UINT64_C(0x100000001b3);
    trail->hash ^= trail->hash >> 31;
}

static void note(struct world *world, uint64_t what)
{
    record(&world->trail, what);
}

/* Whom this member pokes next: fixed by its number and round, so that all randomness is
 * the schedule's. */
static unsigned other(const struct member *member, unsigned salt)
{
    return (member->index * 7 + member->round * 3 + salt) % (FIBERS + POLLS);
}

static void poke(const struct member *member)
{
    struct world *world = member->world;
    const unsigned index = other(member, 1);
    if (!world->wakers[index].task) return; /* It has not started yet, or has ended. */
    const hd_waker waker = hd_waker_clone(world->wakers[index]);
    if (member->round % 2) {
        hd_waker_wake_keep(waker);
        hd_waker_drop(waker);
    } else {
        hd_waker_wake(waker);
    }
}

static void enter(const struct member *member)
{
    member->world->wakers[member->index] = hd_waker_self();
    note(member->world, hd_self_id());
}

static void leave(const struct member *member)
{
    struct world *world = member->world;
    note(world, UINT64_C(1) << 40 | member->index);
    hd_waker_drop(world->wakers[member->index]);
    world->wakers[member->index] = (hd_waker){NULL};
    world->alive--;
}

/* May outlive its parent, which gives up joining when it is cancelled. */
static int leaf_fiber(void *arg)
{
    struct world *world = arg;
    note(world, UINT64_C(2) << 40 | hd_self_id());
    hd_yield();
    note(world, (uint64_t)hd_now(NULL));
    return (int)hd_self_id();
}

static hd_poll leaf_poll(void *state, int *result)
{
    struct member *member = state;
    note(member->world, UINT64_C(3) << 40 | hd_self_id());
    if (member->round++ < 1) {
        hd_waker_wake(hd_waker_self());
        return HD_PENDING;
    }
    *result = (int)member->index;
    return HD_READY;
}

static void cancel_someone(const struct member *member)
{
    hd_task *task = member->world->tasks[other(member, 5)];
    if (task && member->index % 3 == 0) hd_cancel(task);
}

/* Children of both kinds, joined in another order than they were spawned. */
static void have_children(struct member *member)
{
    hd_task *leaves[LEAVES];
    struct member leaf = {.world = member->world, .index = member->index};
    for (int i = 0; i < LEAVES; i++) {
        MUST(i % 2 ? hd_spawn(&leaves[i], leaf_fiber, member->world)
                   : hd_spawn_poll(&leaves[i], leaf_poll, &leaf, sizeof(leaf)));
    }
    for (int i = LEAVES - 1; i >= 0; i--) {
        int result = 0;
        const int err = hd_join(leaves[i], &result);
        note(member->world, UINT64_C(4) << 40 | (uint64_t)(unsigned)(err ? err : result));
        if (err) hd_detach(leaves[i]);
    }
}

static int member_fiber(void *arg)
{
    struct member *member = arg;
    enter(member);
    for (member->round = 0; member->round < ROUNDS; member->round++) {
        poke(member);
        hd_yield();
        if (member->round == 1) have_children(member);
        if (member->round == 2) {
            MUST(hd_shield());
            cancel_someone(member);
            hd_yield();
            MUST(hd_unshield());
        }
        note(member->world, hd_cancelled() ? 6 : 5);
        if (member->index % 4 == 0 && member->round == 3) (void)hd_park();
    }
    leave(member);
    return (int)member->index;
}

static hd_poll member_poll(void *state, int *result)
{
    struct member *member = state;
    if (member->round == 0) enter(member);
    note(member->world, UINT64_C(7) << 40 | member->round);
    if (member->child) {
        if (hd_join_poll(member->child, result) == HD_PENDING) return HD_PENDING;
        member->child = NULL;
        note(member->world, (uint64_t)(unsigned)*result);
    }
    poke(member);
    if (member->round++ < ROUNDS) {
        struct member leaf = {.world = member->world, .index = member->index};
        if (member->round == 2) {
            MUST(hd_spawn_poll(&member->child, leaf_poll, &leaf, sizeof(leaf)));
        }
        cancel_someone(member);
        hd_waker_wake(hd_waker_self());
        return HD_PENDING;
    }
    leave(member);
    *result = (int)member->index;
    return HD_READY;
}

/* ---- the program ---- */

static hd_fn *const parts[] = {channels_fiber, nurseries_fiber, network_fiber, disk_fiber,
                               jobs_fiber};
enum { PARTS = sizeof(parts) / sizeof(parts[0]) };

/* Keeps waking who may sleep, until all have ended. */
static void see_off(struct world *world)
{
    while (world->alive > 0) {
        for (unsigned i = 0; i < FIBERS + POLLS; i++) {
            if (world->wakers[i].task) hd_waker_wake(hd_waker_clone(world->wakers[i]));
        }
        hd_yield();
    }
    for (unsigned i = 0; i < FIBERS + POLLS; i++) {
        int result;
        hd_task *task = world->tasks[i];
        world->tasks[i] = NULL;
        MUST(hd_join(task, &result));
        note(world, (uint64_t)(unsigned)result);
    }
}

static int main_fiber(void *arg)
{
    struct world *world = arg;
    struct member members[FIBERS + POLLS];
    hd_task *tasks[PARTS];
    for (unsigned i = 0; i < PARTS; i++) MUST(hd_spawn(&tasks[i], parts[i], &world->trail));
    world->alive = FIBERS + POLLS;
    for (unsigned i = 0; i < FIBERS + POLLS; i++) {
        members[i] = (struct member){.world = world, .index = i};
        MUST(i % 2 ? hd_spawn(&world->tasks[i], member_fiber, &members[i])
                   : hd_spawn_poll(&world->tasks[i], member_poll, &members[i], sizeof(members[i])));
        if (i % 5 == 4) hd_yield();
    }
    see_off(world);
    for (unsigned i = 0; i < PARTS; i++) {
        int result;
        MUST(hd_join(tasks[i], &result));
        note(world, (uint64_t)(unsigned)result);
    }
    return 0;
}

/* ---- one seed ---- */

/* Both orders; of those that are chosen freely, each sampler, and none. */
static hd_options options_of(uint64_t seed)
{
    static const char *const samplers[] = {NULL, "random", "pct:3", "pos", "urw", "cohort", "fair"};
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.seed = seed;
    options.sim_order = seed % 2 ? HD_SIM_RANDOM : HD_SIM_WORKERS;
    options.policy = seed / 2 % 2 ? HD_POLICY_LOCAL : HD_POLICY_FAIR;
    options.workers = 2 + (unsigned)(seed / 4 % 4);
    options.poll_budget = 16; /* so that the adaptive interval has its part */
    if (seed % 2) options.sampler = samplers[seed / 2 % (sizeof(samplers) / sizeof(samplers[0]))];
    return options;
}

/* Every event of the run, with its time. */
static void record_log(struct trail *trail, const char *path)
{
    hd_log *log;
    MUST(hd_log_open(&log, path));
    const hd_log_info *info = hd_log_about(log);
    MUST(info->complete ? 0 : -EBADMSG);
    record(trail, info->events);
    for (size_t i = 0; i < sizeof(info->hash); i++) record(trail, info->hash[i]);
    hd_log_close(log);
}

static uint64_t run_once(uint64_t seed, const char *path)
{
    hd_options options = options_of(seed);
    const bool logged = seed % 2 && seed / 2 % LOG_EVERY == 0;
    if (logged) options.record = path;
    hd_runtime *runtime;
    MUST(hd_runtime_create(&runtime, &options));
    struct world world = {.trail = {1}};
    hd_spawn_options into = HD_SPAWN_OPTIONS_INIT;
    into.runtime = runtime;
    hd_task *task;
    MUST(hd_spawn_with(&task, main_fiber, &world, &into));
    MUST(hd_join(task, NULL));
    MUST(hd_runtime_shutdown(runtime, HD_FOREVER)); /* The server waits for ever. */
    note(&world, (uint64_t)hd_now(runtime));
    note(&world, hd_runtime_digest(runtime));
    hd_runtime_destroy(runtime);
    if (logged) record_log(&world.trail, path);
    if (seed % EXPLORE_EVERY == 0) explore(&world.trail, seed);
    return world.trail.hash;
}

static int run_seeds(uint64_t first, uint64_t count, const char *path)
{
    for (uint64_t seed = first; seed < first + count; seed++) {
        const uint64_t digest = run_once(seed, path), again = run_once(seed, path);
        printf("%" PRIu64 " %016" PRIx64 "\n", seed, digest);
        if (digest == again) continue;
        fprintf(stderr, "seed %" PRIu64 ": %016" PRIx64 ", then %016" PRIx64 "\n", seed, digest,
                again);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
    const uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 0) : SEEDS;
    char dir[] = "/tmp/heddle-determinism-XXXXXX", path[64], meta[64];
    MUST(mkdtemp(dir) ? 0 : -errno);
    snprintf(path, sizeof(path), "%s/log", dir);
    snprintf(meta, sizeof(meta), "%s/log.meta", dir);
    const int status = run_seeds(first, count, path);
    (void)unlink(path); /* They are not there if no seed was recorded. */
    (void)unlink(meta);
    (void)rmdir(dir);
    return status;
}
