/* SPDX-License-Identifier: MIT
 *
 * withdraw: calls that are cancelled, or whose handle is closed, while they wait for their turn, or
 * are under way: a thread of the io pool (sched/blocking.c), or the kernel (FLIGHT-1 and FLIGHT-2
 * of io/lane.h), comes to them at any moment. What was given up is never done, what was done is
 * told, the memory is the caller's once it has returned, and the descriptor is there until then.
 */
#include <errno.h>

#include "io/lane.h"
#include "pool.h"
#include "sched/blocking.h"

/* Plain, as the caller's: who uses it, and who has it back, are ordered. */
static void expect_done(int *memory, bool done)
{
    MODEL_EQUAL(MODEL_READ(*memory), done ? 1 : 0);
    MODEL_WRITE(*memory, 5);
}

/* ---- a handle ---- */

enum { FD = 7 };

static int *is_open; /* plain: a use of the descriptor and its close are ordered */

static int fake_close(struct hd_runtime *runtime, int fd)
{
    (void)runtime;
    MODEL_EQUAL(fd, FD);
    MODEL_EQUAL(MODEL_READ(*is_open), 1);
    MODEL_WRITE(*is_open, 0);
    return 0;
}

static const struct hdi_sys fake = {.close = fake_close};

/* A runtime with one open file. */
static hd_runtime *start_with(hd_io *io, int *open)
{
    hd_runtime *rt = rt_start(1);
    rt->sys = &fake;
    *open = 1;
    is_open = open;
    hdi_sources_forget();
    MODEL_EQUAL(hdi_source_adopt(rt, FD, HDI_SOURCE_FILE, io), 0);
    return rt;
}

/* A call with it, that was begun before the close. Returns -EBADF: it was not. */
static int call_with(hd_io io, int (*fn)(const hd_case *stop, void *arg), void *arg)
{
    struct hdi_source *source = hdi_source_hold(io);
    if (!source) return -EBADF;
    const hd_case closed = hdi_source_closed(source, io);
    const int result = fn(&closed, arg);
    hdi_source_release(source);
    return result;
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

static void make_pool(hd_runtime *rt)
{
    model_calm(true);
    hd_dispatcher *io = new_pool(rt, 1, false); /* The real one has many places. */
    io->permanent = true;
    hdi_store_release(&rt->io, io);
    settle_pool(io);
    model_calm(false);
}

MODEL(withdraw_from_a_thread, .sc = 2, .tso = 2, .pso = 2, RT_STEPS,
      .kills = "blocking_blind_claim")
{
    int memory = 0;
    hd_runtime *rt = rt_start(1);
    make_pool(rt);
    hd_task *task = rt_fiber(rt, call, &memory);
    hd_cancel(task);
    const int err = rt_join(task);
    MODEL_CHECK(err == 0 || err == -ECANCELED);
    rt_stop(rt);
    MODEL_EQUAL(MODEL_READ(memory), 5);
}

struct use {
    hd_io io;
    int open, memory;
};

static int use_descriptor(void *arg)
{
    struct use *use = arg;
    MODEL_EQUAL(MODEL_READ(use->open), 1);
    MODEL_WRITE(use->memory, 1);
    return 0;
}

static int block_unless(const hd_case *stop, void *arg)
{
    return hdi_blocking_unless(use_descriptor, arg, NULL, stop, HD_FOREVER);
}

static int call_or_closed(void *arg)
{
    struct use *use = arg;
    const int err = call_with(use->io, block_unless, use);
    expect_done(&use->memory, err == 0);
    return err;
}

MODEL(withdraw_from_a_thread_by_close, .sc = 2, .tso = 1, .pso = 1, RT_STEPS,
      .kills = "blocking_blind_claim source_close_used")
{
    struct use use = {.memory = 0};
    hd_runtime *rt = start_with(&use.io, &use.open);
    make_pool(rt);
    hd_task *task = rt_fiber(rt, call_or_closed, &use);
    MODEL_EQUAL(hd_close(use.io), 0);
    const int err = rt_join(task);
    MODEL_CHECK(err == 0 || err == -ECANCELED || err == -EBADF);
    MODEL_EQUAL(MODEL_READ(use.open), 0);
    rt_stop(rt);
    MODEL_EQUAL(MODEL_READ(use.memory), 5);
}

/* ---- the kernel ---- */

struct ring {
    struct hdi_lane lane; /* first */
    struct hdi_lock lock;
    struct hdi_flight *put; /* lock, as the next: not shown to the kernel */
    bool recalled;
    int memory;
    hd_io io; /* that is closed, and its descriptor */
    int *open; /* NULL: none is */
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
    if (ring->open) MODEL_EQUAL(MODEL_READ(*ring->open), 1);
    if (!recalled) MODEL_WRITE(ring->memory, 1);
    hdi_flight_land(flight, recalled ? -ECANCELED : 3, &wakeups);
    hdi_wakeups_go(&wakeups);
}

static int fly_unless(const hd_case *stop, void *arg)
{
    struct ring *ring = arg;
    struct hdi_flight *flight = model_alloc(sizeof(*flight));
    flight->stop = stop;
    const int n = (int)hdi_lane_fly(&ring->lane, flight, HD_FOREVER);
    model_free(flight);
    return n;
}

static int fly(void *arg)
{
    struct ring *ring = arg;
    const int n = ring->open ? call_with(ring->io, fly_unless, ring) : fly_unless(NULL, ring);
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

MODEL(withdraw_from_the_kernel_by_close, .sc = 2, .tso = 1, .pso = 1, RT_STEPS,
      .kills = "flight_left_behind source_closed_unseen source_close_used")
{
    int open;
    hd_io io;
    hd_runtime *rt = start_with(&io, &open);
    struct ring ring = {.lane = {.kind = &kind, .worker = &rt->main.workers[0]},
                        .io = io, .open = &open};
    MODEL_NAME(ring.lock);
    hd_task *task = rt_fiber(rt, fly, &ring);
    void *t = model_thread(kernel, &ring);
    MODEL_EQUAL(hd_close(io), 0);
    const int n = rt_join(task);
    MODEL_CHECK(n == 3 || n == -ECANCELED || n == -EBADF);
    MODEL_EQUAL(MODEL_READ(open), 0);
    model_join(t);
    rt_stop(rt);
    MODEL_EQUAL(MODEL_READ(ring.memory), 5);
    MODEL_EQUAL(model_live(), 1); /* the table of handles */
}
