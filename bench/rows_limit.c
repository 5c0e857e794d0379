/* SPDX-License-Identifier: MIT
 *
 * Bombs and floods against a limit: tasks of a nursery that want ever more and do not take no
 * for an answer. Each row reports how far they got, as `count` or `bytes`, beside the limit, and
 * as `ns` how long it took to be rid of them.
 */
#include <errno.h>
#include <stdatomic.h>

#include <heddle/chan.h>
#include <heddle/nursery.h>
#include <heddle/time.h>

#include "bench.h"

#define TASKS_MAX  10000     /* of a fork bomb */
#define BOMBS      8         /* of memory */
#define BYTES_MAX  (8 << 20) /* of memory, and of a channel's items */
#define ALLOC_MAX  65536     /* bytes that a bomb asks for at first */
#define BLOCKS_MAX 65536     /* that one bomb gets, by far */
#define FLOODERS   8
#define ITEM_BYTES 1024
#define ITEMS_MAX  (BYTES_MAX / ITEM_BYTES)
#define SENDS_MAX  100000

static hd_nursery nursery;

static void report_limit(const char *key, double value, const char *limit_key, double limit)
{
    report(key, value);
    report(limit_key, limit);
}

/* Cancel all tasks of the nursery and wait for their end; report the time. */
static void report_stop(void)
{
    const double start = now_ns();
    hd_nursery_cancel(&nursery);
    const int result = hd_nursery_leave(&nursery);
    report("ns", now_ns() - start);
    EXPECT(result == 0 || result == -ECANCELED);
}

static void spawn_all(unsigned count, hd_fn *fn)
{
    for (unsigned i = 0; i < count; i++) MUST(hd_go(&nursery, fn, (void *)(uintptr_t)i));
}

/* ---- fork bombs ---- */

static int refusal; /* what a spawn over the limit returns */
static _Atomic(int64_t) spawned, refused;  /* by bombs, that is all but the first */
static _Atomic(int64_t) alive, alive_peak; /* bombs that run */

/* Spawns one of its kind after the other, and goes on trying when that is refused. */
static int fork_bomb(void *arg)
{
    (void)arg;
    const int64_t now_alive = atomic_fetch_add(&alive, 1) + 1;
    int64_t peak = atomic_load(&alive_peak);
    while (peak < now_alive && !atomic_compare_exchange_weak(&alive_peak, &peak, now_alive)) {
    }
    while (!hd_cancelled()) {
        const int err = hd_go(&nursery, fork_bomb, NULL);
        if (err == 0) atomic_fetch_add(&spawned, 1);
        else if (err == refusal) atomic_fetch_add(&refused, 1);
        else EXPECT(err == -ECANCELED);
        hd_yield();
    }
    atomic_fetch_sub(&alive, 1);
    return 0;
}

/* Let the bomb go on until it has been refused often enough, and all that were spawned have run. */
static void fork_bomb_watch(const hd_nursery_options *options)
{
    MUST(hd_nursery_open(&nursery, options));
    MUST(hd_go(&nursery, fork_bomb, NULL));
    while (atomic_load(&refused) < 2 * TASKS_MAX || atomic_load(&alive) <= atomic_load(&spawned))
        hd_yield();
    MUST(hd_sleep_ms(params.ms / 4));
    report_stop();
    EXPECT(atomic_load(&alive) == 0);
}

/* So many alive at a time, by a capability of the nursery, for all that is spawned into it. */
static int fork_bomb_live_root(void *arg)
{
    (void)arg;
    hd_runtime *runtime = hd_runtime_self();
    hd_cap_limits limits = HD_CAP_LIMITS_INIT;
    hd_caps caps = HD_CAPS_INIT;
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    limits.tasks_live = TASKS_MAX;
    MUST(hd_cap_derive(runtime, hd_cap_self(runtime, HD_CAP_SPAWN), &limits,
                       &caps.cap[HD_CAP_SPAWN]));
    options.caps = &caps;
    refusal = -EPERM;
    fork_bomb_watch(&options);
    MUST(hd_cap_revoke(runtime, caps.cap[HD_CAP_SPAWN]));
    report_limit("count", (double)atomic_load(&alive_peak), "count_limit", TASKS_MAX);
    return 0;
}

void row_fork_bomb_live(void)
{
    run_in_fiber(fork_bomb_live_root);
}

/* So many spawned by its tasks, by a budget. */
static int fork_bomb_count_root(void *arg)
{
    (void)arg;
    const hd_budget budget = {.spawn_count = TASKS_MAX};
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    options.budget = &budget;
    refusal = -EDQUOT;
    fork_bomb_watch(&options);
    report_limit("count", (double)atomic_load(&spawned), "count_limit", TASKS_MAX);
    return 0;
}

void row_fork_bomb_count(void)
{
    run_in_fiber(fork_bomb_count_root);
}

/* ---- memory bomb ---- */

static _Atomic(int64_t) allocated;      /* bytes, by all bombs */
static _Atomic(unsigned) bombs_full;    /* that did not get a single byte more */
static _Atomic(double) first_refused;   /* when; 0: not yet */

/* Takes blocks, smaller ones when it is refused, until it does not even get a byte; keeps all
 * of them until the others are at that point, too. */
static int memory_bomb(void *arg)
{
    void **blocks = malloc(BLOCKS_MAX * sizeof *blocks);
    size_t count = 0, bytes = ALLOC_MAX - (uintptr_t)arg; /* no two take the same */
    if (blocks == NULL) abort();
    while (bytes > 0) {
        EXPECT(count < BLOCKS_MAX);
        const int err = hd_alloc(bytes, &blocks[count]);
        if (err == 0) {
            count++;
            atomic_fetch_add(&allocated, (int64_t)bytes);
        } else {
            double none = 0;
            EXPECT(err == -EDQUOT);
            atomic_compare_exchange_strong(&first_refused, &none, now_ns());
            bytes /= 2;
        }
        hd_yield();
    }
    atomic_fetch_add(&bombs_full, 1);
    while (atomic_load(&bombs_full) < BOMBS) hd_yield();
    for (size_t i = 0; i < count; i++) hd_free(blocks[i]);
    free(blocks);
    return 0;
}

static int memory_bomb_root(void *arg)
{
    (void)arg;
    const hd_budget budget = {.memory = BYTES_MAX};
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    hd_budget_info info;
    options.budget = &budget;
    MUST(hd_nursery_open(&nursery, &options));
    spawn_all(BOMBS, memory_bomb);
    MUST(hd_nursery_wait(&nursery));
    report("ns", now_ns() - atomic_load(&first_refused));
    MUST(hd_budget_look(&nursery, &info));
    EXPECT(info.remaining.memory == BYTES_MAX);
    MUST(hd_nursery_leave(&nursery));
    report_limit("bytes", (double)atomic_load(&allocated), "bytes_limit", BYTES_MAX);
    return 0;
}

void row_memory_bomb(void)
{
    run_in_fiber(memory_bomb_root);
}

/* ---- channel floods ---- */

static hd_chan *flooded;
static _Atomic(int64_t) sent;

/* Sends until it is told to stop, or refused. */
static int flooder(void *arg)
{
    const char item[ITEM_BYTES] = {(char)(uintptr_t)arg};
    int err;
    while ((err = hd_chan_send(flooded, item)) == 0) atomic_fetch_add(&sent, 1);
    EXPECT(err == -ECANCELED || err == -EDQUOT);
    return 0;
}

static int64_t take_all(void)
{
    char item[ITEM_BYTES];
    int64_t taken = 0;
    while (hd_chan_recv_try(flooded, item) == 0) taken++;
    return taken;
}

/* Against the channel's room: somebody takes an item once in a while. */
static int chan_flood_root(void *arg)
{
    (void)arg;
    char item[ITEM_BYTES];
    int64_t taken = 0;
    size_t peak = 0;
    const double before = resident_bytes();
    if ((flooded = hd_chan_create(ITEM_BYTES, ITEMS_MAX)) == NULL) abort();
    MUST(hd_nursery_open(&nursery, NULL));
    spawn_all(FLOODERS, flooder);
    for (unsigned i = 0; i < params.ms / 4 || peak < ITEMS_MAX; i++) {
        MUST(hd_sleep_ms(1));
        const size_t count = hd_chan_count(flooded);
        if (count > peak) peak = count;
        MUST(hd_chan_recv(flooded, item));
        taken++;
    }
    report_limit("bytes", resident_bytes() - before, "bytes_limit", BYTES_MAX);
    report_stop();
    taken += take_all();
    EXPECT(atomic_load(&sent) == taken);
    hd_chan_destroy(flooded);
    report_limit("count", (double)peak, "count_limit", ITEMS_MAX);
    return 0;
}

void row_chan_flood(void)
{
    run_in_fiber(chan_flood_root);
}

/* Against a budget: the receiver, who has none, keeps up. */
static int drain(void *arg)
{
    char item[ITEM_BYTES];
    int64_t *taken = arg;
    int err;
    while ((err = hd_chan_recv(flooded, item)) == 0) ++*taken;
    EXPECT(err == -EPIPE);
    return 0;
}

static int chan_flood_ops_root(void *arg)
{
    (void)arg;
    const hd_budget budget = {.channel_ops = SENDS_MAX};
    hd_nursery_options options = HD_NURSERY_OPTIONS_INIT;
    hd_task *drainer;
    int64_t taken = 0;
    options.budget = &budget;
    if ((flooded = hd_chan_create(ITEM_BYTES, ITEMS_MAX)) == NULL) abort();
    MUST(hd_spawn(&drainer, drain, &taken));
    MUST(hd_nursery_open(&nursery, &options));
    spawn_all(FLOODERS, flooder);
    MUST(hd_nursery_leave(&nursery));
    MUST(hd_chan_close(flooded));
    MUST(hd_join(drainer, NULL));
    EXPECT(atomic_load(&sent) == taken);
    hd_chan_destroy(flooded);
    report_limit("count", (double)taken, "count_limit", SENDS_MAX);
    return 0;
}

void row_chan_flood_ops(void)
{
    run_in_fiber(chan_flood_ops_root);
}
