/* SPDX-License-Identifier: MIT
 *
 * Calls on files that are cancelled or late, or whose handles are closed, once they have begun,
 * from inside: in a thread that is held there, and in a ring before and after the kernel has seen
 * them.
 */
#include <sys/ioctl.h>

#include "files.h"
#include "io/uring.h"
#include "os/clock.h"

TEST_MAIN

/* ---- by threads ---- */

static struct {
    _Atomic(bool) begun;
    _Atomic(bool) go;            /* false: it is held */
    _Atomic(int64_t) not_before; /* that it ends */
} slow;

/* A disk that takes its time to write: in a thread that has begun. */
static int be_slow(struct hd_runtime *runtime, const char *name)
{
    (void)runtime;
    if (strcmp(name, "pwritev") != 0) return 0;
    hdi_store_release(&slow.begun, true);
    while (!hdi_load_acquire(&slow.go)) sched_yield();
    while (hdi_clock_now() <= hdi_load_acquire(&slow.not_before)) sched_yield();
    return 0;
}

struct writing {
    hd_io file;
    int64_t deadline;
};

static int write_file(void *arg)
{
    const struct writing *writing = arg;
    return (int)hd_pwrite_until(writing->file, "abc", 3, 0, writing->deadline);
}

static int cancel_begun(void *arg)
{
    (void)arg;
    files_begin();
    struct writing writing = {files_open(files_path("a"), O_RDWR | O_CREAT), HD_FOREVER};
    hd_task *task = rt_spawn(NULL, write_file, &writing);
    while (!hdi_load_acquire(&slow.begun)) hd_yield();
    hd_cancel(task);
    for (int i = 0; i < 100; i++) hd_yield();
    hdi_store_release(&slow.go, true);
    EXPECT_EQ(rt_join(task), 3);
    EXPECT(files_hold(files_path("a"), "abc"));
    EXPECT_EQ(hd_close(writing.file), 0);
    files_end();
    return 0;
}

/* It has the descriptor as long as it needs it, and no longer. */
static int close_begun(void *arg)
{
    (void)arg;
    files_begin();
    struct writing writing = {files_open(files_path("a"), O_RDWR | O_CREAT), HD_FOREVER};
    const int fd = hd_io_fd(writing.file);
    hd_task *task = rt_spawn(NULL, write_file, &writing);
    while (!hdi_load_acquire(&slow.begun)) hd_yield();
    EXPECT_EQ(hd_close(writing.file), 0);
    EXPECT_EQ(hd_close(writing.file), -EBADF);
    for (int i = 0; i < 100; i++) hd_yield();
    EXPECT_EQ(hd_join_try(task, NULL), -EAGAIN);
    EXPECT(fcntl(fd, F_GETFD) >= 0);
    hdi_store_release(&slow.go, true);
    EXPECT_EQ(rt_join(task), 3);
    EXPECT(fcntl(fd, F_GETFD) < 0);
    EXPECT(files_hold(files_path("a"), "abc"));
    files_end();
    return 0;
}

static void run_slow(hd_fn *fn, const hd_options *options)
{
    if (options->io != HD_IO_EPOLL) return;
    hdi_sys_fault = be_slow;
    rt_run(fn, NULL, options);
    hdi_sys_fault = NULL;
}

TEST_DRIVERS(a_thread_that_has_begun_is_waited_for, options)
{
    run_slow(cancel_begun, options);
}

TEST_DRIVERS(a_thread_that_has_begun_keeps_the_descriptor, options)
{
    run_slow(close_begun, options);
}

/* If no thread has come to it in time, nothing was done; then once more. */
static int be_late_begun(void *arg)
{
    (void)arg;
    files_begin();
    struct writing writing = {files_open(files_path("a"), O_RDWR | O_CREAT), 0};
    hdi_store_release(&slow.go, true);
    for (bool done = false; !done;) {
        hdi_store_release(&slow.begun, false);
        writing.deadline = hd_after_ms(10);
        hdi_store_release(&slow.not_before, writing.deadline + 10 * HD_MS_NS);
        const int n = write_file(&writing);
        done = hdi_load_acquire(&slow.begun);
        EXPECT_EQ(n, done ? 3 : -ETIMEDOUT);
        EXPECT(hd_now(NULL) >= writing.deadline);
        EXPECT(files_hold(files_path("a"), done ? "abc" : ""));
    }
    EXPECT_EQ(hd_close(writing.file), 0);
    files_end();
    return 0;
}

TEST_DRIVERS(a_thread_that_is_late_has_its_result, options)
{
    run_slow(be_late_begun, options);
}

#if HDI_URING && !HDI_MODEL

/* ---- by io_uring ---- */

enum { ROUNDS = 50 };

/* By a handle that is to end it, or its task. */
struct user {
    bool closes;
    int fd; /* of the FIFO, for the test */
    hd_io fifo;
    bool ready;
    char bytes[8];
};

static void user_init(struct user *user, const bool *closes)
{
    *user = (struct user){.closes = *closes};
    files_begin();
    EXPECT_EQ(mkfifo(files_path("fifo"), 0600), 0);
    /* It does not wait for the other end. */
    user->fd = open(files_path("fifo"), O_RDWR | O_CLOEXEC);
    EXPECT(user->fd >= 0);
}

static void user_fini(struct user *user)
{
    EXPECT_EQ(close(user->fd), 0);
    files_end();
}

/* As if it were a file: hd_file_open() knows that it can be waited for otherwise. */
static void open_fifo(struct user *user)
{
    const int fd = open(files_path("fifo"), O_RDWR | O_CLOEXEC);
    EXPECT_EQ(hdi_source_create(hdi_io_runtime(), fd, HDI_SOURCE_FILE, &user->fifo), 0);
}

/* Returns what the task did. */
static int end_it(struct user *user, hd_task *task)
{
    if (user->closes) EXPECT_EQ(hd_close(user->fifo), 0);
    else hd_cancel(task);
    const int n = rt_join(task);
    EXPECT_EQ(hd_close(user->fifo), user->closes ? -EBADF : 0);
    return n;
}

static int bytes_in(const struct user *user)
{
    int there = -1;
    EXPECT_EQ(ioctl(user->fd, FIONREAD, &there), 0);
    return there;
}

static void drain(const struct user *user)
{
    char bytes[8];
    const int there = bytes_in(user);
    if (there > 0) EXPECT_EQ(read(user->fd, bytes, sizeof(bytes)), there);
}

static int write_fifo(void *arg)
{
    struct user *user = arg;
    user->ready = true;
    return (int)hd_write(user->fifo, "abc", 3);
}

static int read_fifo(void *arg)
{
    struct user *user = arg;
    user->ready = true;
    return (int)hd_read(user->fifo, user->bytes, sizeof(user->bytes));
}

/* With one worker: when this returns, it waits. */
static hd_task *begin(hd_fn *fn, struct user *user)
{
    open_fifo(user);
    user->ready = false;
    hd_task *task = rt_spawn(NULL, fn, user);
    while (!user->ready) hd_yield();
    return task;
}

/* The function has a bool: whether a close ends calls, or a cancel. */
static void run_one_lane(hd_fn *fn, const hd_options *options)
{
    const hd_options own = rt_one_lane(options);
    for (int closes = 0; closes < 2; closes++) {
        bool arg = closes;
        if (options->io == HD_IO_URING) rt_run(fn, &arg, &own);
    }
}

/* The kernel would write at once. Now and then the worker shows it what there is before the
 * end. */
static int take_out(void *arg)
{
    struct user user;
    int never = 0;
    user_init(&user, arg);
    for (int i = 0; i < ROUNDS; i++) {
        const int n = end_it(&user, begin(write_fifo, &user));
        EXPECT_EQ(bytes_in(&user), n == -ECANCELED ? 0 : 3);
        never += n == -ECANCELED;
        drain(&user);
    }
    EXPECT(never > 0);
    user_fini(&user);
    return 0;
}

TEST_DRIVERS(what_the_kernel_was_not_shown_never_happens, options)
{
    run_one_lane(take_out, options);
}

static struct hdi_uring *ring_here(void)
{
    return (struct hdi_uring *)hdi_load_acquire(&hdi_worker_self()->lane);
}

/* Only what stands there, and was not shown. */
static int drop_each(void *arg)
{
    (void)arg;
    files_begin();
    files_put(files_path("a"), "", 0); /* There is a lane from then on. */
    struct hdi_uring *lane = ring_here();
    struct hdi_flight flight = {.kind = HDI_FLIGHT_SYNC, .fd = -1};
    enum { NAME = 16, OTHER = 32, DROPPED = 48 };
    hdi_lock_take(&lane->lock);
    const unsigned tail = lane->ring.sq.sqe_tail;
    hdi_uring_put_flight(lane, &flight, NAME);
    const struct hdi_flight old = {.place = flight.place - 1};
    const struct hdi_flight very_old = {.place = flight.place + (1U << 30)};
    EXPECT(!hdi_uring_drop_flight(lane, &old, NAME, DROPPED));
    EXPECT(!hdi_uring_drop_flight(lane, &very_old, NAME, DROPPED));
    EXPECT(!hdi_uring_drop_flight(lane, &flight, OTHER, DROPPED));
    EXPECT(hdi_uring_drop_flight(lane, &flight, NAME, DROPPED));
    EXPECT(!hdi_uring_drop_flight(lane, &flight, NAME, DROPPED));
    lane->ring.sq.sqe_tail = tail; /* as if there had been none */
    hdi_lock_give(&lane->lock);
    files_end();
    return 0;
}

TEST_DRIVERS(nothing_else_is_taken_out_of_the_ring, options)
{
    run_one_lane(drop_each, options);
}

/* The kernel has taken all that was put in. */
static bool is_handed_over(void)
{
    struct hdi_uring *lane = ring_here();
    hdi_lock_take(&lane->lock);
    const unsigned tail = lane->ring.sq.sqe_tail;
    const bool all = io_uring_smp_load_acquire(lane->ring.sq.khead) == tail;
    hdi_lock_give(&lane->lock);
    return all;
}

static hd_task *begin_in_kernel(struct user *user)
{
    hd_task *task = begin(read_fifo, user);
    while (!is_handed_over()) hd_yield();
    return task;
}

static void expect_left(struct user *user)
{
    memset(user->bytes, 'x', sizeof(user->bytes));
    EXPECT_EQ(write(user->fd, "abc", 3), 3);
    EXPECT_EQ(bytes_in(user), 3);
    EXPECT_EQ(user->bytes[0], 'x');
    drain(user);
}

static int end_there(void *arg)
{
    struct user user;
    user_init(&user, arg);
    for (int i = 0; i < ROUNDS; i++) {
        EXPECT_EQ(end_it(&user, begin_in_kernel(&user)), -ECANCELED);
        expect_left(&user);
    }
    user_fini(&user);
    return 0;
}

TEST_DRIVERS(what_the_kernel_has_is_cancelled_there, options)
{
    run_one_lane(end_there, options);
}

/* The worker sleeps meanwhile, and the kernel has what there is. */
static int be_late_there(void *arg)
{
    struct user user;
    user_init(&user, arg);
    open_fifo(&user);
    for (int i = 0; i < ROUNDS / 5; i++) {
        const int64_t deadline = hd_after_ms(2);
        EXPECT_EQ(hd_read_until(user.fifo, user.bytes, sizeof(user.bytes), deadline), -ETIMEDOUT);
        EXPECT(hd_now(NULL) >= deadline);
        expect_left(&user);
        HD_SCOPE(scope, .deadline = hd_after_ms(2)) EXPECT_EQ(read_fifo(&user), -ETIMEDOUT);
        expect_left(&user);
    }
    EXPECT_EQ(hd_close(user.fifo), 0);
    user_fini(&user);
    return 0;
}

TEST_DRIVERS(what_is_late_in_the_kernel_is_cancelled_there, options)
{
    run_one_lane(be_late_there, options);
}

/* What it waits for comes first, and then the end. */
static int end_too_late(void *arg)
{
    struct user user;
    user_init(&user, arg);
    for (int i = 0; i < ROUNDS; i++) {
        memset(user.bytes, 0, sizeof(user.bytes));
        hd_task *task = begin_in_kernel(&user);
        EXPECT_EQ(write(user.fd, "abc", 3), 3);
        hdi_uring_look(ring_here()); /* The kernel reads, and nobody is told. */
        EXPECT_EQ(end_it(&user, task), 3);
        EXPECT_EQ(memcmp(user.bytes, "abc", 3), 0);
        EXPECT_EQ(bytes_in(&user), 0);
    }
    user_fini(&user);
    return 0;
}

TEST_DRIVERS(what_was_done_in_the_kernel_counts, options)
{
    run_one_lane(end_too_late, options);
}

/* ---- too late from the start ---- */

static _Atomic(unsigned) flights;

static int count_flights(struct hd_runtime *runtime, const char *name)
{
    (void)runtime;
    if (strcmp(name, "ring_flight") == 0) hdi_fetch_add_acq_rel(&flights, 1);
    return 0;
}

static int begin_late(void *arg)
{
    (void)arg;
    files_begin();
    struct writing writing = {files_open(files_path("a"), O_RDWR | O_CREAT), hd_now(NULL) - 1};
    EXPECT_EQ(write_file(&writing), -ETIMEDOUT);
    EXPECT_EQ(hdi_load_acquire(&flights), 0);
    writing.deadline = HD_FOREVER;
    EXPECT_EQ(write_file(&writing), 3);
    if (hdi_load_acquire(&flights) == 0) test_skip("this kernel does not let io_uring be watched");
    EXPECT_EQ(hd_close(writing.file), 0);
    files_end();
    return 0;
}

TEST_DRIVERS(nothing_is_asked_of_the_kernel_too_late, options)
{
    if (options->io != HD_IO_URING) return;
    hdi_sys_fault = count_flights;
    rt_run(begin_late, NULL, options);
    hdi_sys_fault = NULL;
}

#endif
