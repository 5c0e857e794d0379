/* SPDX-License-Identifier: MIT
 *
 * withdraw: calls that are cancelled while they wait for their turn, or are under way: a thread of
 * the io pool (sched/blocking.c), or the kernel (FLIGHT-1 and FLIGHT-2 of io/lane.h), comes to them
 * at any moment. What was given up is never done, what was done is told, and the memory is the
 * caller's once it has returned.
 */
#include <errno.h>

#include "io/lane.h"
#include "pool.h"

/* Plain, as the caller's: who uses it, and who has it back, are ordered. */
static void expect_done(int *memory, bool done)
{
    MODEL_EQUAL(MODEL_READ(*memory), done ? 1 : 0);
    MODEL_WRITE(*memory, 5);
}

/* ---- a thread ---- */

static int use_memory(void *arg)
{
    int *memory = arg;
    MODEL_WRITE(*memory, 1);
    return 0;
}

static int call(void *arg)
{
    const int err = hd_blocking(use_memory, arg, NULL);
    expect_done(arg, err == 0);
    return err;
}

MODEL(withdraw_from_a_thread, .sc = 2, .tso = 2, .pso = 2, RT_STEPS,
      .kills = "blocking_blind_claim")
{
    int memory = 0;
    hd_runtime *rt = rt_start(1);
    model_calm(true);
    hd_dispatcher *io = new_pool(rt, 1, false); /* The real one has many places. */
    io->permanent = true;
    hdi_store_release(&rt->io, io);
    settle_pool(io);
    model_calm(false);
    hd_task *task = rt_fiber(rt, call, &memory);
    hd_cancel(task);
    const int err = rt_join(task);
    MODEL_CHECK(err == 0 || err == -ECANCELED);
    rt_stop(rt);
    MODEL_EQUAL(MODEL_READ(memory), 5);
}

/* ---- the kernel ---- */

struct ring {
    struct hdi_lane lane; /* first */
    struct hdi_lock lock;
    struct hdi_flight *put; /* lock, as the next: not shown to the kernel */
    bool recalled;
    int memory;
};

static void put(struct hdi_lane *lane, struct hdi_flight *flight)
{
    struct ring *ring = (struct ring *)lane;
    hdi_lock_take(&ring->lock);
    ring->put = flight;
    hdi_lock_give(&ring->lock);
}

static bool recall(struct hdi_lane *lane, struct hdi_flight *flight)
{
    struct ring *ring = (struct ring *)lane;
    hdi_lock_take(&ring->lock);
    const bool lands = ring->put != flight;
    ring->put = NULL;
    ring->recalled = true;
    hdi_lock_give(&ring->lock);
    return lands;
}

static const struct hdi_lane_kind kind = {.name = "model", .fly = put, .recall = recall};

/* It looks once; and later whether it may still begin. */
static void kernel(void *arg)
{
    struct ring *ring = arg;
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&ring->lock);
    struct hdi_flight *flight = ring->put;
    ring->put = NULL;
    hdi_lock_give(&ring->lock);
    if (!flight) return;
    hdi_lock_take(&ring->lock);
    const bool recalled = ring->recalled;
    hdi_lock_give(&ring->lock);
    if (!recalled) MODEL_WRITE(ring->memory, 1);
    hdi_flight_land(flight, recalled ? -ECANCELED : 3, &wakeups);
    hdi_wakeups_go(&wakeups);
}

static int fly(void *arg)
{
    struct ring *ring = arg;
    struct hdi_flight *flight = model_alloc(sizeof(*flight));
    const int n = (int)hdi_lane_fly(&ring->lane, flight, HD_FOREVER);
    model_free(flight);
    expect_done(&ring->memory, n == 3);
    return n;
}

MODEL(withdraw_from_the_kernel, .sc = 2, .tso = 1, .pso = 1, RT_STEPS,
      .kills = "flight_left_behind flight_blind_return")
{
    hd_runtime *rt = rt_start(1);
    struct ring ring = {.lane = {.kind = &kind, .worker = &rt->main.workers[0]}};
    MODEL_NAME(ring.lock);
    hd_task *task = rt_fiber(rt, fly, &ring);
    void *t = model_thread(kernel, &ring);
    hd_cancel(task);
    const int n = rt_join(task);
    MODEL_CHECK(n == 3 || n == -ECANCELED);
    model_join(t);
    rt_stop(rt);
    MODEL_EQUAL(MODEL_READ(ring.memory), 5);
    MODEL_EQUAL(model_live(), 0);
}
