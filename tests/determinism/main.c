/* SPDX-License-Identifier: MIT
 *
 * Prints one line for each of 1,000 seeds: the seed, and the digest of a program that
 * does a little of everything. Each seed runs twice in this process; a difference is an
 * error. scripts/determinism compares the lines between builds, compilers and machines.
 *
 *   determinism [FIRST [COUNT]]
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <heddle.h>

enum { SEEDS = 1000, FIBERS = 10, POLLS = 10, LEAVES = 4, ROUNDS = 4 };

/* What the program itself saw, in order: a second digest, of effects. */
struct world {
    uint64_t log;
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

static void must(int err, int line)
{
    if (err == 0) return;
    fprintf(stderr, "line %d: error %d\n", line, err);
    exit(1);
}
#define MUST(call) must((call), __LINE__)

static void record(struct world *world, uint64_t what)
{
    world->log = (world->log ^ what) * UINT64_C(0x100000001b3);
    world->log ^= world->log >> 31;
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
    const hd_waker waker = world->wakers[other(member, 1)];
    if (!waker.task) return; /* It has not started yet, or has ended. */
    if (member->round % 2) {
        hd_waker_wake_keep(waker);
    } else {
        hd_waker_wake(hd_waker_clone(waker));
    }
}

static void enter(const struct member *member)
{
    member->world->wakers[member->index] = hd_waker_self();
    record(member->world, hd_self_id());
}

static void leave(const struct member *member)
{
    struct world *world = member->world;
    record(world, UINT64_C(1) << 40 | member->index);
    hd_waker_drop(world->wakers[member->index]);
    world->wakers[member->index] = (hd_waker){NULL};
    world->alive--;
}

/* May outlive its parent, which gives up joining when it is cancelled. */
static int leaf_fiber(void *arg)
{
    struct world *world = arg;
    record(world, UINT64_C(2) << 40 | hd_self_id());
    hd_yield();
    record(world, (uint64_t)hd_now(NULL));
    return (int)hd_self_id();
}

static hd_poll leaf_poll(void *state, int *result)
{
    struct member *member = state;
    record(member->world, UINT64_C(3) << 40 | hd_self_id());
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
        record(member->world, UINT64_C(4) << 40 | (uint64_t)(unsigned)(err ? err : result));
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
        record(member->world, hd_cancelled() ? 6 : 5);
        if (member->index % 4 == 0 && member->round == 3) (void)hd_park();
    }
    leave(member);
    return (int)member->index;
}

static hd_poll member_poll(void *state, int *result)
{
    struct member *member = state;
    if (member->round == 0) enter(member);
    record(member->world, UINT64_C(7) << 40 | member->round);
    if (member->child) {
        if (hd_join_poll(member->child, result) == HD_PENDING) return HD_PENDING;
        member->child = NULL;
        record(member->world, (uint64_t)(unsigned)*result);
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

/* ---- the network: a server that crashes and comes back, over bad links ---- */

static int serve(void *arg)
{
    struct world *world = arg;
    hd_io listener, conn;
    char buffer[300];
    MUST(hd_tcp_listen(&listener, ":80", NULL));
    record(world, UINT64_C(8) << 40);
    while (hd_accept(listener, &conn, NULL) == 0) {
        ssize_t n;
        while ((n = hd_read(conn, buffer, sizeof(buffer))) > 0) {
            record(world, UINT64_C(9) << 40 | (uint64_t)n);
            if (hd_write_all(conn, buffer, (size_t)n, NULL) != 0) break;
        }
        record(world, UINT64_C(10) << 40 | (uint64_t)(unsigned)n);
        hd_close(conn);
    }
    hd_close(listener);
    return 0;
}

/* What comes back of a thousand bytes, in which pieces, when. */
static void talk(struct world *world)
{
    char buffer[1000] = {0};
    const int64_t deadline = hd_after_ms(3000);
    hd_io conn;
    ssize_t n = hd_tcp_connect_until(&conn, "server:80", NULL, deadline);
    record(world, (uint64_t)hd_now(NULL) ^ (uint64_t)n);
    if (n) return;
    n = hd_write_all_until(conn, buffer, sizeof(buffer), NULL, deadline);
    for (size_t got = 0; n >= 0 && got < sizeof(buffer); got += (size_t)n) {
        n = hd_read_until(conn, buffer, sizeof(buffer), deadline);
        record(world, (uint64_t)hd_now(NULL) ^ (uint64_t)n);
        if (n <= 0) break;
    }
    hd_close(conn);
}

static void send_datagrams(struct world *world)
{
    hd_io from, to;
    hd_addr addr;
    unsigned number;
    MUST(hd_udp_open(&to, "127.0.0.1:53"));
    MUST(hd_udp_open(&from, "127.0.0.1:0"));
    MUST(hd_local_addr(to, &addr));
    for (unsigned i = 0; i < 20; i++) {
        record(world, (uint64_t)hd_send_to(from, &i, sizeof(i), &addr));
    }
    while (hd_recv_from_until(to, &number, sizeof(number), NULL, hd_after_ms(1000)) > 0) {
        record(world, (uint64_t)hd_now(NULL) ^ number);
    }
    hd_close(from);
    hd_close(to);
}

static int network_fiber(void *arg)
{
    struct world *world = arg;
    hd_sim_host *server;
    MUST(hd_sim_host_add(&server, "server", NULL, serve, world));
    MUST(hd_sim_chaos(HD_SIM_CHAOS_ALL, 10 * HD_SECOND_NS));
    send_datagrams(world);
    for (unsigned i = 0; i < 6; i++) {
        talk(world);
        MUST(hd_sleep_ms(500));
    }
    return 0;
}

/* Spawns everybody, then keeps waking who may sleep until all have ended. */
static int main_fiber(void *arg)
{
    struct world *world = arg;
    struct member members[FIBERS + POLLS];
    hd_task *network;
    MUST(hd_spawn(&network, network_fiber, world));
    world->alive = FIBERS + POLLS;
    for (unsigned i = 0; i < FIBERS + POLLS; i++) {
        members[i] = (struct member){.world = world, .index = i};
        MUST(i % 2 ? hd_spawn(&world->tasks[i], member_fiber, &members[i])
                   : hd_spawn_poll(&world->tasks[i], member_poll, &members[i], sizeof(members[i])));
        if (i % 5 == 4) hd_yield();
    }
    while (world->alive > 0) {
        for (unsigned i = 0; i < FIBERS + POLLS; i++) {
            if (world->wakers[i].task) hd_waker_wake_keep(world->wakers[i]);
        }
        hd_yield();
    }
    for (unsigned i = 0; i < FIBERS + POLLS; i++) {
        int result;
        hd_task *task = world->tasks[i];
        world->tasks[i] = NULL;
        MUST(hd_join(task, &result));
        record(world, (uint64_t)(unsigned)result);
    }
    return hd_join(network, NULL);
}

static uint64_t run_once(uint64_t seed)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_SIM;
    options.seed = seed;
    options.sim_order = seed % 2 ? HD_SIM_RANDOM : HD_SIM_WORKERS;
    options.policy = seed / 2 % 2 ? HD_POLICY_LOCAL : HD_POLICY_FAIR;
    options.workers = 2 + (unsigned)(seed / 4 % 4);
    options.poll_budget = 16; /* so that the adaptive interval has its part */
    hd_runtime *runtime;
    MUST(hd_runtime_create(&runtime, &options));
    struct world world = {.log = 1};
    hd_spawn_options into = HD_SPAWN_OPTIONS_INIT;
    into.runtime = runtime;
    hd_task *task;
    MUST(hd_spawn_with(&task, main_fiber, &world, &into));
    MUST(hd_join(task, NULL));
    MUST(hd_runtime_shutdown(runtime, HD_FOREVER)); /* The server waits for ever. */
    record(&world, (uint64_t)hd_now(runtime));
    const uint64_t digest = hd_runtime_digest(runtime);
    hd_runtime_destroy(runtime);
    return digest ^ world.log;
}

int main(int argc, char **argv)
{
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
    const uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 0) : SEEDS;
    for (uint64_t seed = first; seed < first + count; seed++) {
        const uint64_t digest = run_once(seed), again = run_once(seed);
        printf("%" PRIu64 " %016" PRIx64 "\n", seed, digest);
        if (digest == again) continue;
        fprintf(stderr, "seed %" PRIu64 ": %016" PRIx64 ", then %016" PRIx64 "\n", seed, digest,
                again);
        return 1;
    }
    return 0;
}
