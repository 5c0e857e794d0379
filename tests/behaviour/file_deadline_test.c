/* SPDX-License-Identifier: MIT
 *
 * Calls on files that are cancelled, or late, while they wait for their turn. What becomes of one
 * that a thread has begun, or that the kernel has, is in src/io/flight_test.c.
 */
#include <heddle/nursery.h>
#include <heddle/scope.h>
#include <heddle/sim.h>

#include "files.h"
#include "full_pool.h"

TEST_MAIN

/* ---- a pool that is full ---- */

static bool by_threads(void)
{
    return strcmp(hd_runtime_io(hd_runtime_self()), "io_uring") != 0;
}

static int64_t soon(void)
{
    return hd_after_ms(2);
}

/* All that a thread makes of those on a handle. */
static void be_late_on(hd_io file)
{
    struct stat info = {.st_size = 77};
    EXPECT_EQ(hd_file_truncate_until(file, 1, soon()), -ETIMEDOUT);
    EXPECT_EQ(hd_file_stat_until(file, &info, soon()), -ETIMEDOUT);
    EXPECT_EQ(info.st_size, 77);
    if (!by_threads()) return;
    EXPECT_EQ(hd_pwrite_until(file, "x", 1, 0, soon()), -ETIMEDOUT);
    EXPECT_EQ(hd_write_until(file, "x", 1, soon()), -ETIMEDOUT);
    EXPECT_EQ(hd_write_all_until(file, "x", 1, NULL, soon()), -ETIMEDOUT);
    EXPECT_EQ(hd_file_sync_until(file, false, soon()), -ETIMEDOUT);
    char byte = 'b';
    EXPECT_EQ(hd_read_until(file, &byte, 1, soon()), -ETIMEDOUT);
    EXPECT_EQ(byte, 'b');
}

static void be_late_by_name(void)
{
    struct stat info = {.st_size = 77};
    hd_io file = {5};
    hd_dir *dir = NULL;
    EXPECT_EQ(hd_file_open_until(&file, files_path("new"), O_WRONLY | O_CREAT, 0644, soon()),
              -ETIMEDOUT);
    EXPECT_EQ(file.private_, 5);
    EXPECT_EQ(hd_stat_until(files_path("a"), &info, soon()), -ETIMEDOUT);
    EXPECT_EQ(info.st_size, 77);
    EXPECT_EQ(hd_rename_until(files_path("a"), files_path("b"), soon()), -ETIMEDOUT);
    EXPECT_EQ(hd_unlink_until(files_path("a"), soon()), -ETIMEDOUT);
    EXPECT_EQ(hd_mkdir_until(files_path("d"), 0755, soon()), -ETIMEDOUT);
    EXPECT_EQ(hd_rmdir_until(files_path("empty"), soon()), -ETIMEDOUT);
    EXPECT_EQ(hd_dir_sync_until(files_dir, soon()), -ETIMEDOUT);
    EXPECT_EQ(hd_dir_open_until(&dir, files_dir, soon()), -ETIMEDOUT);
    EXPECT(dir == NULL);
}

static int make_dir(void *arg)
{
    return hd_mkdir(files_path(arg), 0755);
}

/* By its handle, a nursery, and the deadline of a scope. */
static void be_cancelled(void)
{
    hd_task *task = rt_spawn(NULL, make_dir, "e");
    hd_yield();
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), -ECANCELED);
    hd_nursery nursery;
    EXPECT_EQ(hd_nursery_open(&nursery, NULL), 0);
    EXPECT_EQ(hd_go(&nursery, make_dir, "f"), 0);
    hd_yield();
    hd_nursery_cancel(&nursery);
    EXPECT_EQ(hd_nursery_leave(&nursery), -ECANCELED);
    HD_SCOPE(scope, .deadline = soon()) EXPECT_EQ(make_dir("g"), -ETIMEDOUT);
}

static int queue_in_vain(void *arg)
{
    (void)arg;
    files_begin();
    files_put(files_path("a"), "abc", 3);
    EXPECT_EQ(hd_mkdir(files_path("empty"), 0755), 0);
    hd_io file = files_open(files_path("a"), O_RDWR);
    full_pool_begin();
    be_late_on(file);
    be_late_by_name();
    be_cancelled();
    full_pool_end();
    EXPECT_EQ(hd_close(file), 0);
    return 0;
}

static bool is_there(const char *name)
{
    return access(files_path(name), F_OK) == 0;
}

/* Of what was withdrawn, that is. The runtime has ended by then, and its threads with it. */
static void expect_nothing_was_done(void)
{
    struct stat info;
    char bytes[8] = "";
    EXPECT_EQ(stat(files_path("a"), &info), 0);
    EXPECT_EQ(info.st_size, 3);
    const int fd = open(files_path("a"), O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(read(fd, bytes, sizeof(bytes)), 3);
    EXPECT_EQ(memcmp(bytes, "abc", 3), 0);
    close(fd);
    EXPECT(is_there("empty"));
    EXPECT(!is_there("b") && !is_there("new") && !is_there("d"));
    EXPECT(!is_there("e") && !is_there("f") && !is_there("g"));
    EXPECT_EQ(rmdir(files_path("empty")), 0);
    EXPECT_EQ(unlink(files_path("a")), 0);
    EXPECT_EQ(rmdir(files_dir), 0);
}

TEST_DRIVERS(what_is_withdrawn_from_the_queue_is_never_done, options)
{
    full_pool_or_skip();
    rt_run(queue_in_vain, NULL, options);
    expect_nothing_was_done();
}

/* ---- reads that wait for what comes: no thread is to be had ---- */

static hd_io open_fifo(const char *path)
{
    EXPECT_EQ(mkfifo(path, 0600), 0);
    return files_open(path, O_RDWR); /* It does not wait for the other end. */
}

struct reading {
    hd_io fifo;
    int64_t deadline;
    char bytes[8];
};

static int read_fifo(void *arg)
{
    struct reading *reading = arg;
    return (int)hd_read_until(reading->fifo, reading->bytes, sizeof(reading->bytes),
                              reading->deadline);
}

/* The memory is the caller's again, and what comes later is the next reader's. */
static void expect_left(struct reading *reading)
{
    const int fd = hd_io_fd(reading->fifo);
    char bytes[8];
    memset(reading->bytes, 'x', sizeof(reading->bytes));
    EXPECT_EQ(write(fd, "abc", 3), 3);
    EXPECT_EQ(read(fd, bytes, sizeof(bytes)), 3);
    for (size_t i = 0; i < sizeof(reading->bytes); i++) EXPECT_EQ(reading->bytes[i], 'x');
}

/* Give it time to wait; it does not matter if that is too little. */
static void let_wait(hd_task *task)
{
    EXPECT_EQ(hd_join_until(task, NULL, soon()), -ETIMEDOUT);
}

static void read_in_vain(hd_io fifo)
{
    struct reading reading = {.fifo = fifo, .deadline = soon()};
    EXPECT_EQ(read_fifo(&reading), -ETIMEDOUT);
    EXPECT(hd_now(NULL) >= reading.deadline);
    expect_left(&reading);

    reading.deadline = HD_FOREVER;
    hd_task *task = rt_spawn(NULL, read_fifo, &reading);
    let_wait(task);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), -ECANCELED);
    expect_left(&reading);

    hd_nursery nursery;
    EXPECT_EQ(hd_nursery_open(&nursery, NULL), 0);
    EXPECT_EQ(hd_go(&nursery, read_fifo, &reading), 0);
    EXPECT_EQ(hd_sleep_until(soon()), 0);
    hd_nursery_cancel(&nursery);
    EXPECT_EQ(hd_nursery_leave(&nursery), -ECANCELED);
    expect_left(&reading);

    HD_SCOPE(scope, .deadline = soon()) EXPECT_EQ(read_fifo(&reading), -ETIMEDOUT);
    expect_left(&reading);
}

static int give_up_reading(void *arg)
{
    (void)arg;
    files_begin();
    hd_io fifo = open_fifo(files_path("fifo"));
    full_pool_begin();
    for (int i = 0; i < 5; i++) read_in_vain(fifo);
    full_pool_end();
    EXPECT_EQ(hd_close(fifo), 0);
    files_end();
    return 0;
}

TEST_DRIVERS(a_read_that_was_given_up_takes_nothing, options)
{
    full_pool_or_skip();
    rt_run(give_up_reading, NULL, options);
}

/* ---- what was done ---- */

enum { RACERS = 4, ROUNDS = 100 };

/* Whatever it says is so, whenever the deadline comes. */
static int race(void *arg)
{
    char dir[FILES_PATH_MAX], path[FILES_PATH_MAX]; /* Others go on while the calls wait. */
    snprintf(dir, sizeof(dir), "%s/d%s", files_dir, (const char *)arg);
    snprintf(path, sizeof(path), "%s/file%s", files_dir, (const char *)arg);
    hd_io file = files_open(path, O_RDWR | O_CREAT);
    const int fd = hd_io_fd(file);
    for (int i = 0; i < ROUNDS; i++) {
        const int64_t deadline = hd_now(NULL) + (i % 30) * 3000;
        const ssize_t n = hd_pwrite_until(file, "w", 1, 0, deadline);
        struct stat info;
        EXPECT_EQ(fstat(fd, &info), 0);
        EXPECT_EQ(n, info.st_size == 1 ? 1 : -ETIMEDOUT);
        EXPECT_EQ(ftruncate(fd, 0), 0);
        const int err = hd_mkdir_until(dir, 0755, deadline + (i % 10) * 10000);
        EXPECT_EQ(err, access(dir, F_OK) == 0 ? 0 : -ETIMEDOUT);
        if (!err) EXPECT_EQ(rmdir(dir), 0);
    }
    EXPECT_EQ(hd_close(file), 0);
    return 0;
}

static int race_together(void *arg)
{
    static const char *const names[RACERS] = {"0", "1", "2", "3"};
    hd_task *tasks[RACERS];
    (void)arg;
    files_begin();
    for (int i = 0; i < RACERS; i++) tasks[i] = rt_spawn(NULL, race, (void *)names[i]);
    for (int i = 0; i < RACERS; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    files_end();
    return 0;
}

TEST_DRIVERS(what_was_done_is_no_error, options)
{
    rt_run(race_together, NULL, options);
}

/* ---- HD_NOW, and deadlines that have passed ---- */

static int at_once(void *arg)
{
    (void)arg;
    files_begin();
    struct stat info;
    char bytes[8];
    hd_dir *dir;
    hd_io file, other = files_open(files_path("a"), O_RDWR | O_CREAT);
    EXPECT_EQ(hd_pwrite_until(other, "abcd", 4, 0, HD_NOW), 4);
    EXPECT_EQ(hd_pread_until(other, bytes, 2, 1, HD_NOW), 2);
    EXPECT_EQ(memcmp(bytes, "bc", 2), 0);
    EXPECT_EQ(hd_pread_until(other, bytes, 2, 4, HD_NOW), 0);
    EXPECT_EQ(hd_read_until(other, bytes, 3, HD_NOW), 3); /* at its position, which moves */
    EXPECT_EQ(hd_write_until(other, "D", 1, HD_NOW), 1);
    EXPECT(files_hold(files_path("a"), "abcD"));
    EXPECT_EQ(hd_file_sync_until(other, true, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_file_truncate_until(other, 0, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_file_stat_until(other, &info, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_file_open_until(&file, files_path("b"), O_CREAT | O_RDWR, 0644, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_stat_until(files_path("a"), &info, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_rename_until(files_path("a"), files_path("b"), HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_unlink_until(files_path("a"), HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_mkdir_until(files_path("b"), 0755, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_rmdir_until(files_path("."), HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_dir_sync_until(files_dir, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_dir_open_until(&dir, files_dir, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_close(other), 0);
    EXPECT_EQ(files_size(files_path("a")), 4);
    EXPECT_EQ(hd_stat(files_path("b"), &info), -ENOENT);
    files_end();
    return 0;
}

TEST_IO(only_reads_and_writes_need_not_wait, options)
{
    rt_run(at_once, NULL, options);
}

static int read_nothing_now(void *arg)
{
    (void)arg;
    files_begin();
    hd_io fifo = open_fifo(files_path("fifo"));
    char bytes[8];
    EXPECT_EQ(hd_read_until(fifo, bytes, sizeof(bytes), HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_write_until(fifo, "ab", 2, HD_NOW), 2);
    EXPECT_EQ(hd_read_until(fifo, bytes, sizeof(bytes), HD_NOW), 2);
    EXPECT_EQ(hd_close(fifo), 0);
    files_end();
    return 0;
}

TEST_DRIVERS(what_is_no_file_does_not_wait_either, options)
{
    rt_run(read_nothing_now, NULL, options);
}

static int passed(void *arg)
{
    (void)arg;
    files_begin();
    EXPECT_EQ(hd_sleep_ms(1), 0);
    const int64_t before = hd_now(NULL) - 1;
    struct stat info;
    hd_io file = files_open(files_path("a"), O_RDWR | O_CREAT);
    EXPECT_EQ(hd_pwrite_until(file, "abc", 3, 0, before), -ETIMEDOUT);
    EXPECT_EQ(hd_write_until(file, "abc", 3, before), -ETIMEDOUT);
    EXPECT_EQ(hd_file_truncate_until(file, 9, before), -ETIMEDOUT);
    EXPECT_EQ(hd_mkdir_until(files_path("d"), 0755, before), -ETIMEDOUT);
    EXPECT_EQ(hd_close(file), 0);
    EXPECT_EQ(files_size(files_path("a")), 0);
    EXPECT_EQ(hd_stat(files_path("d"), &info), -ENOENT);
    files_end();
    return 0;
}

TEST_IO(nothing_begins_after_its_deadline, options)
{
    rt_run(passed, NULL, options);
}

TEST_IO(a_thread_begins_nothing_after_its_deadline, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_io file;
    char bytes[8];
    EXPECT_EQ(rt_join(rt_spawn(runtime, files_begin_with, &file)), 0);
    EXPECT_EQ(hd_pwrite_until(file, "late", 4, 0, hd_now(runtime) - 1), -ETIMEDOUT);
    EXPECT_EQ(hd_pread(file, bytes, sizeof(bytes), 0), 0);
    EXPECT_EQ(hd_pwrite_until(file, "thread", 6, 0, hd_now(runtime) + HD_SECOND_NS), 6);
    EXPECT_EQ(hd_pread_until(file, bytes, sizeof(bytes), 0, HD_NOW), 6);
    EXPECT_EQ(hd_file_sync_until(file, false, HD_NOW), -EAGAIN);
    EXPECT_EQ(rt_join(rt_spawn(runtime, files_end_with, &file)), 0);
    hd_runtime_destroy(runtime);
}

/* ---- sim ---- */

/* It takes 100 us to 200 us, and is made halfway. */
static int sweep(void *arg)
{
    (void)arg;
    files_begin();
    const hd_sim_disk_options slow = {.size = sizeof(slow), .latency_ns = 100000};
    EXPECT_EQ(hd_sim_disk(NULL, &slow), 0);
    int withdrawn = 0, late = 0, in_time = 0;
    struct stat info;
    for (int64_t us = 1; us < 250; us += 5) {
        const int64_t deadline = hd_now(NULL) + us * 1000;
        const int err = hd_mkdir_until(files_path("d"), 0755, deadline);
        const int64_t now = hd_now(NULL);
        if (err) EXPECT_EQ(err, -ETIMEDOUT);
        if (err) EXPECT(now >= deadline && now - deadline < 10000);
        EXPECT_EQ(hd_stat(files_path("d"), &info), err ? -ENOENT : 0);
        if (!err) EXPECT_EQ(hd_rmdir(files_path("d")), 0);
        withdrawn += err != 0;
        late += !err && now > deadline;
        in_time += !err && now <= deadline;
    }
    EXPECT(withdrawn >= 10); /* before 50 us */
    EXPECT(late > 0);
    EXPECT(in_time >= 9); /* from 205 us on */
    files_end();
    return 0;
}

TEST_WORLDS(in_sim_a_call_is_withdrawn_until_it_is_made, options)
{
    if (!rt_is_sim(options)) return;
    hd_options own = *options;
    own.sampler = NULL;
    rt_run(sweep, NULL, &own);
}
