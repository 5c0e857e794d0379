/* SPDX-License-Identifier: MIT
 *
 * Closing the handle of a file under calls on it: what waits for its turn never happens, and is
 * told at once; what was done is told. What is no file is waited for by readiness, and told, too.
 * What becomes of a call that a thread has begun, or that the kernel has, is in
 * src/io/flight_test.c.
 */
#include <pthread.h>
#include <signal.h>

#include <heddle/sim.h>

#include "files.h"
#include "full_pool.h"

TEST_MAIN

/* ---- a call in a task of its own ---- */

struct call {
    hd_io file;
    int (*call)(struct call *call);
    atomic_bool ready;
    hd_task *task;
    char bytes[64];
};

static int make_call(void *arg)
{
    struct call *call = arg;
    atomic_store(&call->ready, true);
    return call->call(call);
}

/* With one worker: when this returns, it waits. */
static void begin(struct call *call, hd_io file, int (*fn)(struct call *call))
{
    *call = (struct call){.file = file, .call = fn};
    call->task = rt_spawn(NULL, make_call, call);
    while (!atomic_load(&call->ready)) hd_yield();
}

static int end(struct call *call)
{
    return rt_join(call->task);
}

static int do_read(struct call *call)
{
    return (int)hd_read(call->file, call->bytes, sizeof(call->bytes));
}

static int do_pread(struct call *call)
{
    return (int)hd_pread(call->file, call->bytes, sizeof(call->bytes), 0);
}

static int do_write(struct call *call)
{
    return (int)hd_write(call->file, "xyz", 3);
}

static int do_pwrite(struct call *call)
{
    return (int)hd_pwrite(call->file, "xyz", 3, 0);
}

static int do_write_all(struct call *call)
{
    return hd_write_all(call->file, "xyz", 3, NULL);
}

static int do_sync(struct call *call)
{
    return hd_file_sync(call->file, false);
}

static int do_truncate(struct call *call)
{
    return hd_file_truncate(call->file, 1);
}

static int do_stat(struct call *call)
{
    struct stat info;
    return hd_file_stat(call->file, &info);
}

/* Those that io_uring does not make come first. */
static int (*const calls[])(struct call *) = {do_truncate, do_stat,   do_read,      do_pread,
                                              do_write,    do_pwrite, do_write_all, do_sync};
enum { CALLS = sizeof(calls) / sizeof(calls[0]), BY_THREADS_ONLY = 2 };

/* ---- what waits for a thread ---- */

static int close_under_queued(void *arg)
{
    (void)arg;
    files_begin();
    files_put(files_path("a"), "abc", 3);
    hd_io file = files_open(files_path("a"), O_RDWR);
    const int fd = hd_io_fd(file);
    const bool uring = strcmp(hd_runtime_io(hd_runtime_self()), "io_uring") == 0;
    const int count = uring ? BY_THREADS_ONLY : CALLS;
    struct call begun[CALLS];
    full_pool_begin();
    for (int i = 0; i < count; i++) begin(&begun[i], file, calls[i]);
    EXPECT_EQ(hd_close(file), 0);
    for (int i = 0; i < count; i++) EXPECT_EQ(end(&begun[i]), -ECANCELED); /* No thread is free. */
    EXPECT(fcntl(fd, F_GETFD) < 0);
    full_pool_end();
    EXPECT(files_hold(files_path("a"), "abc"));
    files_end();
    return 0;
}

TEST_DRIVERS(what_waits_for_a_thread_is_told_at_once, options)
{
    full_pool_or_skip();
    const hd_options own = rt_workers(options, 1);
    rt_run(close_under_queued, NULL, &own);
}

/* ---- what was done ---- */

/* With one worker in live, too: it is open when the call begins. */
static int close_sooner_or_later(void *arg)
{
    (void)arg;
    files_begin();
    for (int i = 0; i < 40; i++) {
        struct call call;
        files_put(files_path("a"), "abc", 3);
        begin(&call, files_open(files_path("a"), O_RDWR), do_pwrite);
        for (int turns = 0; turns < i % 8; turns++) hd_yield();
        if (i % 2) EXPECT_EQ(hd_sleep_until(hd_now(NULL) + i * 1000), 0);
        EXPECT_EQ(hd_close(call.file), 0);
        const int n = end(&call);
        EXPECT(n == 3 || n == -ECANCELED);
        EXPECT(files_hold(files_path("a"), n == 3 ? "xyz" : "abc"));
    }
    files_end();
    return 0;
}

TEST_IO(whatever_it_returns_is_so, options)
{
    const hd_options own = rt_workers(options, 1);
    rt_run(close_sooner_or_later, NULL, &own);
}

/* A call takes 100 us to 200 us, and is made halfway. */
static int sweep(void *arg)
{
    (void)arg;
    files_begin();
    const hd_sim_disk_options slow = {.size = sizeof(slow), .latency_ns = 100000};
    EXPECT_EQ(hd_sim_disk(NULL, &slow), 0);
    for (int i = 0; i < CALLS; i++) {
        int withdrawn = 0, done = 0;
        for (int64_t us = 1; us < 250; us += 10) {
            struct call call;
            files_put(files_path("a"), "abc", 3);
            begin(&call, files_open(files_path("a"), O_RDWR), calls[i]);
            EXPECT_EQ(hd_sleep_until(hd_now(NULL) + us * 1000), 0);
            const int64_t closed = hd_now(NULL);
            EXPECT_EQ(hd_close(call.file), 0);
            const int n = end(&call);
            const bool writes = calls[i] == do_write || calls[i] == do_pwrite ||
                                calls[i] == do_write_all;
            const char *then = writes ? "xyz" : calls[i] == do_truncate ? "a" : "abc";
            if (n < 0) EXPECT_EQ(n, -ECANCELED);
            if (n < 0) EXPECT(hd_now(NULL) - closed < 10000);
            EXPECT(files_hold(files_path("a"), n < 0 ? "abc" : then));
            withdrawn += n < 0;
            done += n >= 0;
        }
        EXPECT(withdrawn >= 5); /* before 50 us */
        EXPECT(done >= 5);      /* from 200 us on */
    }
    files_end();
    return 0;
}

TEST_WORLDS(in_sim_a_call_is_told_until_it_is_made, options)
{
    const hd_options own = rt_workers(options, 1);
    if (rt_is_sim(options)) rt_run(sweep, NULL, &own);
}

/* ---- what is no file ---- */

static hd_io open_fifo(int flags)
{
    const int err = mkfifo(files_path("fifo"), 0600);
    EXPECT(err == 0 || errno == EEXIST);
    return files_open(files_path("fifo"), flags);
}

/* More than there are threads. */
static int close_under_readers(void *arg)
{
    (void)arg;
    enum { READERS = FULL_POOL_THREADS + 8 };
    static struct call readers[READERS];
    files_begin();
    hd_io fifo = open_fifo(O_RDWR);
    for (int i = 0; i < READERS; i++) begin(&readers[i], fifo, do_read);
    files_put(files_path("a"), "abc", 3); /* by threads, of which all are free */
    EXPECT_EQ(hd_close(fifo), 0);
    for (int i = 0; i < READERS; i++) EXPECT_EQ(end(&readers[i]), -ECANCELED);
    files_end();
    return 0;
}

TEST_DRIVERS(who_reads_from_a_fifo_is_told, options)
{
    full_pool_or_skip();
    const hd_options own = rt_workers(options, 1);
    rt_run(close_under_readers, NULL, &own);
}

static int close_under_writer(void *arg)
{
    (void)arg;
    char much[4096] = {0};
    struct call writer;
    files_begin();
    hd_io fifo = open_fifo(O_RDWR);
    while (hd_write_until(fifo, much, sizeof(much), HD_NOW) > 0) continue;
    begin(&writer, fifo, do_write);
    EXPECT_EQ(hd_close(fifo), 0);
    EXPECT_EQ(end(&writer), -ECANCELED);
    files_end();
    return 0;
}

TEST_DRIVERS(who_writes_to_a_fifo_is_told, options)
{
    const hd_options own = rt_workers(options, 1);
    rt_run(close_under_writer, NULL, &own);
}

/* It may have been closed before the thread came so far. */
static void *read_as_thread(void *arg)
{
    struct call *call = arg;
    atomic_store(&call->ready, true);
    const int n = do_read(call);
    EXPECT(n == -ECANCELED || n == -EBADF);
    return NULL;
}

static int close_under_thread(void *arg)
{
    (void)arg;
    files_begin();
    for (int i = 0; i < 10; i++) {
        struct call call = {.file = open_fifo(O_RDWR)};
        pthread_t thread;
        EXPECT_EQ(pthread_create(&thread, NULL, read_as_thread, &call), 0);
        while (!atomic_load(&call.ready)) hd_yield();
        EXPECT_EQ(hd_sleep_until(hd_now(NULL) + i * 100000), 0);
        EXPECT_EQ(hd_close(call.file), 0);
        EXPECT_EQ(pthread_join(thread, NULL), 0);
    }
    files_end();
    return 0;
}

TEST_DRIVERS(a_thread_that_reads_from_a_fifo_is_told, options)
{
    rt_run(close_under_thread, NULL, options);
}

/* It is a file for all else. */
static int use_fifo(void *arg)
{
    (void)arg;
    struct stat info;
    struct call reader;
    char bytes[8];
    files_begin();
    hd_io fifo = open_fifo(O_RDWR);
    EXPECT_EQ(hd_file_stat(fifo, &info), 0);
    EXPECT(S_ISFIFO(info.st_mode));
    EXPECT_EQ(hd_pread(fifo, bytes, sizeof(bytes), 0), -ESPIPE);
    EXPECT_EQ(hd_pwrite(fifo, "abc", 3, 0), -ESPIPE);
    EXPECT_EQ(hd_file_sync(fifo, false), -EINVAL);
    EXPECT_EQ(hd_file_truncate(fifo, 0), -EINVAL);
    hd_case cases[] = {HD_READABLE(fifo), HD_NEVER};
    EXPECT_EQ(hd_select_until(cases, 2, 0, hd_after_ms(1)), -ETIMEDOUT);
    begin(&reader, fifo, do_read);
    EXPECT_EQ(hd_write(fifo, "abc", 3), 3);
    EXPECT_EQ(end(&reader), 3);
    EXPECT_EQ(memcmp(reader.bytes, "abc", 3), 0);
    EXPECT_EQ(hd_close(fifo), 0);
    files_end();
    return 0;
}

TEST_DRIVERS(a_fifo_is_a_file_beside, options)
{
    const hd_options own = rt_workers(options, 1);
    rt_run(use_fifo, NULL, &own);
}

/* One of the program, which a signal would reach: those of the runtime hold all back. */
static void *write_as_thread(void *arg)
{
    sigset_t pipe_only;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    EXPECT_EQ(pthread_sigmask(SIG_UNBLOCK, &pipe_only, NULL), 0);
    EXPECT_EQ(hd_write(*(hd_io *)arg, "abc", 3), -EPIPE);
    return NULL;
}

static int write_to_nobody(void *arg)
{
    (void)arg;
    pthread_t thread;
    files_begin();
    hd_io both = open_fifo(O_RDWR), fifo = open_fifo(O_WRONLY);
    EXPECT_EQ(hd_close(both), 0);
    EXPECT_EQ(hd_write(fifo, "abc", 3), -EPIPE);
    EXPECT_EQ(pthread_create(&thread, NULL, write_as_thread, &fifo), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(hd_close(fifo), 0);
    files_end();
    return 0;
}

TEST_DRIVERS(no_reader_is_an_error_and_no_signal, options)
{
    EXPECT(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    rt_run(write_to_nobody, NULL, options);
}

static int use_terminal(void *arg)
{
    (void)arg;
    struct call reader;
    char name[64];
    const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
        test_skip("there are no terminals here");
    }
    EXPECT_EQ(ptsname_r(master, name, sizeof(name)), 0);
    hd_io terminal = files_open(name, O_RDWR | O_NOCTTY);
    begin(&reader, terminal, do_read);
    EXPECT_EQ(write(master, "abc\n", 4), 4);
    EXPECT_EQ(end(&reader), 4);
    EXPECT_EQ(memcmp(reader.bytes, "abc\n", 4), 0);
    begin(&reader, terminal, do_read);
    EXPECT_EQ(hd_close(terminal), 0);
    EXPECT_EQ(end(&reader), -ECANCELED);
    EXPECT_EQ(close(master), 0);
    return 0;
}

TEST_DRIVERS(who_reads_from_a_terminal_is_told, options)
{
    const hd_options own = rt_workers(options, 1);
    rt_run(use_terminal, NULL, &own);
}

/* What never waits is used at offsets, as a file is. */
static int use_memory(void *arg)
{
    (void)arg;
    char bytes[8] = "abcdefg";
    hd_io zero = files_open("/dev/zero", O_RDWR);
    EXPECT_EQ(hd_pread(zero, bytes, 4, 100), 4);
    EXPECT_EQ(memcmp(bytes, "\0\0\0\0efg", 8), 0);
    EXPECT_EQ(hd_read(zero, bytes, 8), 8);
    EXPECT_EQ(bytes[4], 0);
    EXPECT_EQ(hd_write(zero, "abc", 3), 3);
    EXPECT_EQ(hd_close(zero), 0);
    return 0;
}

TEST_DRIVERS(devices_of_memory_are_files, options) { rt_run(use_memory, NULL, options); }
