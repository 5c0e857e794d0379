/* SPDX-License-Identifier: MIT
 *
 * A ring that only its worker enters, from inside: what others put in reaches the kernel, whatever
 * the worker is in meanwhile (URING-5).
 */
#include <sys/socket.h>

#include "base/sanitizer.h"
#include "io/uring.h"
#include "nets.h"
#include "sched/prod.h"

TEST_MAIN

#if HDI_URING && !HDI_MODEL

struct other {
    struct hdi_uring *ring;
    _Atomic(bool) done;
};

/* More than there is room for at once. They have nothing to say. */
static void *fill_twice(void *arg)
{
    struct other *other = arg;
    struct hdi_uring *ring = other->ring;
    for (int i = 0; i < 2 * HDI_URING_SUBMISSIONS; i++) {
        hdi_lock_take(&ring->lock);
        struct io_uring_sqe *sqe = hdi_uring_place(ring);
        io_uring_prep_nop(sqe);
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
        io_uring_sqe_set_data64(sqe, HDI_TAG_DONE);
        hdi_lock_give(&ring->lock);
    }
    hdi_store_release(&other->done, true);
    return NULL;
}

static struct hdi_uring *ring_of(hd_io io)
{
    return (struct hdi_uring *)hdi_load_acquire(&hdi_source_of(io)->lane); /* V */
}

/* With `sleeps` there is nothing else to do; without, the worker is in this fiber all the time. */
static int be_filled(void *arg)
{
    const bool *sleeps = arg;
    hd_io ends[2];
    pthread_t thread;
    nets_watched_pair(ends);
    struct other other = {.ring = ring_of(ends[1])};
    EXPECT_EQ(pthread_create(&thread, NULL, fill_twice, &other), 0);
    while (!hdi_load_acquire(&other.done)) {
        if (*sleeps) EXPECT_EQ(hd_sleep_ms(1), 0);
        else hdi_cpu_relax();
    }
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    nets_close(ends[0], ends[1]);
    return 0;
}

static void fill_with(bool sleeps, const hd_options *options)
{
    const hd_options own = rt_one_lane(options);
    if (options->io == HD_IO_URING) rt_run(be_filled, &sleeps, &own);
}

TEST_DRIVERS(a_full_ring_has_a_worker_that_computes_enter, options)
{
    if (HDI_TSAN) test_skip("a signal waits for the next system call there");
    fill_with(false, options);
}

TEST_DRIVERS(a_full_ring_has_a_worker_that_sleeps_enter, options) { fill_with(true, options); }

/* ---- news for others ---- */

static _Atomic(bool) heard;

static int hear_one(void *arg)
{
    char byte = 0;
    EXPECT_EQ(hd_read(*(const hd_io *)arg, &byte, 1), 1);
    hdi_store_release(&heard, true);
    return 0;
}

/* Somebody waits to read, and the kernel knows. */
static bool is_asked_for(hd_io io, bool by_ring)
{
    struct hdi_source *source = hdi_source_of(io);
    hdi_lock_take(&source->in.waitable.lock);
    const bool awaited = hdi_source_is_awaited(source);
    hdi_lock_give(&source->in.waitable.lock);
    if (!awaited || !by_ring) return awaited;
    struct hdi_uring *ring = ring_of(io);
    hdi_lock_take(&ring->lock);
    const unsigned left = hdi_uring_left(ring, ring->ring.sq.sqe_tail);
    hdi_lock_give(&ring->lock);
    return left == 0;
}

/* The only worker stays in this fiber until another has read what is sent here. */
static void compute_until_heard(hd_io ends[2], enum nets_kind kind)
{
    const bool by_ring = hd_runtime_self()->options.io == HD_IO_URING;
    (void)kind;
    hdi_store_release(&heard, false);
    hd_task *reader = rt_spawn(NULL, hear_one, &ends[0]);
    while (!is_asked_for(ends[0], by_ring)) hd_yield();
    EXPECT_EQ(write(hd_io_fd(ends[1]), "x", 1), 1);
    while (!hdi_load_acquire(&heard)) hdi_cpu_relax();
    EXPECT_EQ(rt_join(reader), 0);
}

TEST_DRIVERS(a_worker_that_computes_keeps_no_news, options)
{
    hd_options own = rt_workers(options, 1);
    own.stall_ns = 2 * HD_MS_NS; /* so that there is a thread for others */
    if (HDI_TSAN) test_skip("a signal waits for the next system call there");
    nets_each_kind(compute_until_heard, &own);
}

/* ---- a worker that has not entered yet ---- */

struct reading {
    hd_io io;
    _Atomic(bool) done;
};

static void *read_one(void *arg)
{
    struct reading *reading = arg;
    char byte;
    EXPECT_EQ(hd_read(reading->io, &byte, 1), 1);
    EXPECT_EQ(hd_close(reading->io), 0);
    hdi_store_release(&reading->done, true);
    return NULL;
}

/* The first worker's lane is made by a thread, and asked, while the worker is in this fiber. */
static int compute_from_the_start(void *arg)
{
    hd_io ends[2];
    pthread_t thread;
    (void)arg;
    EXPECT_EQ(hd_pipe(ends), 0);
    struct reading reading = {.io = ends[0]};
    struct hdi_source *source = hdi_source_of(ends[0]);
    EXPECT_EQ(pthread_create(&thread, NULL, read_one, &reading), 0);
    while (!hdi_load_acquire(&source->lane)) hdi_cpu_relax(); /* V: it has found nothing. */
    EXPECT_EQ(hd_write(ends[1], "x", 1), 1);
    while (!hdi_load_acquire(&reading.done)) hdi_cpu_relax();
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(hd_close(ends[1]), 0);
    return 0;
}

TEST_DRIVERS(a_worker_that_computes_enters_for_the_first_time, options)
{
    hd_options own = rt_workers(options, 1);
    if (HDI_TSAN) test_skip("a signal waits for the next system call there");
    own.quantum_ns = 2000000; /* The monitor comes, */
    own.stall_ns = 3600 * HD_SECOND_NS; /* and no spare worker. */
    rt_run(compute_from_the_start, NULL, &own);
}

/* ---- more news than there is room for ---- */

/* Completions that have nothing to say, more than the ring has places for. */
static void flood(struct hdi_uring *ring)
{
    hdi_lock_take(&ring->lock);
    for (unsigned i = 0; i < 2 * ring->ring.cq.ring_entries; i++) {
        struct io_uring_sqe *sqe = hdi_uring_place(ring);
        io_uring_prep_nop(sqe);
        io_uring_sqe_set_data64(sqe, HDI_TAG_DONE);
    }
    hdi_uring_hand_over(ring);
    hdi_lock_give(&ring->lock);
    EXPECT(hdi_uring_has_overflown(ring));
}

/* What is sent fails, and the kernel says so behind all others (OUT-3). */
static int send_behind_a_flood(void *arg)
{
    hd_io ends[2];
    (void)arg;
    nets_watched_pair(ends);
    flood(ring_of(ends[1]));
    EXPECT_EQ(shutdown(hdi_source_of(ends[1])->fd, SHUT_WR), 0);
    EXPECT_EQ(hd_write(ends[1], "x", 1), 1);
    /* The worker sends while this one sleeps. */
    while (hdi_source_of(ends[1])->sending != HDI_UNSENT_NONE) EXPECT_EQ(hd_sleep_ms(1), 0);
    EXPECT_EQ(hd_write(ends[1], "x", 1), -EPIPE);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_DRIVERS(the_end_of_a_send_is_heard_behind_a_flood, options)
{
    const hd_options own = rt_one_lane(options);
    if (options->io == HD_IO_URING) rt_run(send_behind_a_flood, NULL, &own);
}

/* ---- a signal that does not reach us ---- */

/* Wait until the worker sleeps in the kernel. */
static void await_sleep(struct hdi_worker *worker)
{
    while (hdi_load_acquire(&worker->counters.state) != HDI_WORKER_PARKED ||
           hdi_thread_ready(&worker->thread)) {
        hdi_thread_yield();
    }
}

struct closing {
    hd_io io, bell;
};

static void *close_during_sleep(void *arg)
{
    const struct closing *closing = arg;
    await_sleep(ring_of(closing->io)->lane.worker);
    EXPECT_EQ(hd_close(closing->io), 0);
    EXPECT_EQ(hd_write(closing->bell, "x", 1), 1);
    return NULL;
}

/* The program has other plans with the signal. */
static int ignore_meanwhile(void *arg)
{
    char byte;
    hd_io ends[2], bell[2];
    pthread_t thread;
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction before;
    (void)arg;
    nets_pair(NETS_PIPE, ends);
    nets_pair(NETS_PIPE, bell);
    EXPECT_EQ(hd_read_until(ends[0], &byte, 1, hd_after_ms(1)), -ETIMEDOUT); /* It is watched. */
    EXPECT_EQ(sigaction(HDI_PROD_SIGNAL, &ignore, &before), 0);
    struct closing closing = {ends[0], bell[1]};
    EXPECT_EQ(pthread_create(&thread, NULL, close_during_sleep, &closing), 0);
    EXPECT_EQ(hd_read(bell[0], &byte, 1), 1);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(sigaction(HDI_PROD_SIGNAL, &before, NULL), 0);
    EXPECT_EQ(hd_close(ends[1]), 0);
    nets_close(bell[0], bell[1]);
    return 0;
}

TEST_DRIVERS(a_worker_that_sleeps_is_woken_without_the_signal, options)
{
    const hd_options own = rt_one_lane(options);
    if (options->io == HD_IO_URING) rt_run(ignore_meanwhile, NULL, &own);
}

/* ---- news that the monitor hears ---- */

struct standing_in {
    struct hdi_uring *ring;
    struct hdi_source *held; /* its lock is: who stands in waits for that, with news in its hands */
    int to;                  /* what is written there comes to the reader */
    pthread_t thread;
};

static void *stand_in(void *arg)
{
    const struct standing_in *other = arg;
    hdi_lane_stand_in(&other->ring->lane);
    return NULL;
}

/* The news are told when the worker sleeps already. */
static void *tell_during_sleep(void *arg)
{
    const struct standing_in *other = arg;
    await_sleep(other->ring->lane.worker);
    hdi_lock_give(&other->held->in.waitable.lock);
    EXPECT_EQ(pthread_join(other->thread, NULL), 0);
    EXPECT_EQ(send(other->to, "x", 1, 0), 1);
    return NULL;
}

static unsigned news_of(struct hdi_uring *ring)
{
    return io_uring_smp_load_acquire(ring->ring.cq.ktail) -
           io_uring_smp_load_acquire(ring->ring.cq.khead);
}

static ssize_t read_much(struct nets_call *call)
{
    char much[3 * HDI_URING_BUFFER_BYTES];
    return hd_read_exact(call->io, much, sizeof(much), NULL);
}

/* A bulky connection of which the set told, and the monitor took the ring's word for that. */
static int miss_the_set(void *arg)
{
    static const char much[3 * HDI_URING_BUFFER_BYTES];
    hd_io bulky[2], other[2];
    struct nets_call reader;
    pthread_t thread;
    (void)arg;
    nets_watched_pair(bulky);
    nets_watched_pair(other);
    nets_begin(&reader, bulky[0], read_much);
    EXPECT_EQ(hd_write_all(bulky[1], much, sizeof(much), NULL), 0);
    EXPECT_EQ(nets_end(&reader), 0);
    nets_begin(&reader, bulky[0], nets_do_read);
    /* The worker sleeps, too, and asks before. */
    while (!ring_of(bulky[0])->set_armed) EXPECT_EQ(hd_sleep_ms(1), 0);
    struct standing_in plan = {.ring = ring_of(bulky[0]),
                               .held = hdi_source_of(other[0]),
                               .to = hdi_source_of(bulky[1])->fd};
    struct hdi_uring *ring = plan.ring;
    EXPECT(hdi_source_of(bulky[0])->collected);
    hdi_lock_take(&plan.held->in.waitable.lock);
    EXPECT_EQ(send(hdi_source_of(other[1])->fd, "x", 1, 0), 1);
    while (news_of(ring) < 1) hdi_uring_look(ring);
    EXPECT_EQ(send(plan.to, "x", 1, 0), 1);
    while (news_of(ring) < 2) hdi_uring_look(ring);
    EXPECT_EQ(hdi_epoll_fetch(&ring->bulky, true), 1); /* The set's own word is lost, for a test. */
    EXPECT_EQ(pthread_create(&plan.thread, NULL, stand_in, &plan), 0);
    while (news_of(ring) > 0) hdi_cpu_relax();
    EXPECT_EQ(pthread_create(&thread, NULL, tell_during_sleep, &plan), 0);
    EXPECT_EQ(nets_end(&reader), 1);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    nets_close(bulky[0], bulky[1]);
    nets_close(other[0], other[1]);
    return 0;
}

TEST_DRIVERS(a_worker_asks_for_the_set_again_when_another_heard_of_it, options)
{
    const hd_options own = rt_one_lane(options);
    if (options->io == HD_IO_URING) rt_run(miss_the_set, NULL, &own);
}

/* ---- a process that was forked ---- */

/* The ring is its parent's, and so is the worker's thread. */
static int close_in_a_child(void *arg)
{
    enum { SECONDS_MAX = 10 };
    char byte;
    hd_io ends[2];
    int status;
    (void)arg;
    nets_pair(NETS_PIPE, ends);
    EXPECT_EQ(hd_read_until(ends[0], &byte, 1, hd_after_ms(1)), -ETIMEDOUT); /* It is watched. */
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(SECONDS_MAX);
        _exit(hd_close(ends[0]) == 0 ? 0 : 1);
    }
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
    struct nets_call reader;
    nets_begin(&reader, ends[0], nets_do_read);
    EXPECT_EQ(hd_write(ends[1], "x", 1), 1); /* Here it is watched still. */
    EXPECT_EQ(nets_end(&reader), 1);
    nets_close(ends[0], ends[1]);
    return 0;
}

TEST_DRIVERS(a_child_closes_its_own, options)
{
    const hd_options own = rt_one_lane(options);
    if (options->io == HD_IO_URING) rt_run(close_in_a_child, NULL, &own);
}

#else

TEST(no_ring_without_io_uring)
{
    test_skip("no io_uring in this build");
}

#endif
