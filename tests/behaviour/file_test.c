/* SPDX-License-Identifier: MIT
 *
 * Files and directories, of the machine and of the simulated disk alike.
 */
#include <pthread.h>

#include "budgets.h"
#include "files.h"

TEST_MAIN

/* ---- bytes ---- */

static int write_and_read(void *arg)
{
    (void)arg;
    files_begin();
    char bytes[64];
    hd_io file = files_open(files_path("a"), O_RDWR | O_CREAT);
    EXPECT_EQ(hd_pread(file, bytes, sizeof(bytes), 0), 0);
    EXPECT_EQ(hd_pwrite(file, "hello, world", 12, 0), 12);
    EXPECT_EQ(hd_pwrite(file, "W", 1, 7), 1);
    EXPECT_EQ(hd_pread(file, bytes, 5, 7), 5);
    EXPECT_EQ(memcmp(bytes, "World", 5), 0);
    EXPECT_EQ(hd_pread(file, bytes, sizeof(bytes), 7), 5); /* no more are there */
    EXPECT_EQ(hd_pread(file, bytes, sizeof(bytes), 12), 0);
    EXPECT_EQ(hd_pread(file, bytes, sizeof(bytes), 5000), 0);
    EXPECT_EQ(hd_file_sync(file, true), 0);
    EXPECT_EQ(hd_file_sync(file, false), 0);
    EXPECT_EQ(hd_close(file), 0);
    EXPECT(files_hold(files_path("a"), "hello, World"));
    files_end();
    return 0;
}

TEST_IO(what_is_written_is_read, options)
{
    rt_run(write_and_read, NULL, options);
}

static int sizes(void *arg)
{
    (void)arg;
    files_begin();
    char bytes[5000];
    hd_io file = files_open(files_path("a"), O_RDWR | O_CREAT);
    EXPECT_EQ(hd_pwrite(file, "xyz", 3, 4000), 3);
    struct stat info;
    EXPECT_EQ(hd_file_stat(file, &info), 0);
    EXPECT_EQ(info.st_size, 4003);
    EXPECT(S_ISREG(info.st_mode));
    EXPECT_EQ(hd_pread(file, bytes, sizeof(bytes), 0), 4003);
    for (int i = 0; i < 4000; i++) EXPECT_EQ(bytes[i], 0);
    EXPECT_EQ(hd_file_truncate(file, 4001), 0);
    EXPECT_EQ(hd_file_truncate(file, 4500), 0); /* What was cut off does not come back. */
    EXPECT_EQ(hd_pread(file, bytes, sizeof(bytes), 4000), 500);
    EXPECT_EQ(bytes[0], 'x');
    for (int i = 1; i < 500; i++) EXPECT_EQ(bytes[i], 0);
    EXPECT_EQ(hd_file_truncate(file, -1), -EINVAL);
    EXPECT_EQ(files_size(files_path("a")), 4500);
    EXPECT_EQ(hd_close(file), 0);
    file = files_open(files_path("a"), O_WRONLY | O_TRUNC);
    EXPECT_EQ(hd_file_stat(file, &info), 0);
    EXPECT_EQ(info.st_size, 0);
    EXPECT_EQ(hd_close(file), 0);
    files_end();
    return 0;
}

TEST_IO(a_file_grows_and_shrinks, options)
{
    rt_run(sizes, NULL, options);
}

static int positions(void *arg)
{
    (void)arg;
    files_begin();
    char bytes[64];
    hd_io file = files_open(files_path("a"), O_RDWR | O_CREAT);
    EXPECT_EQ(hd_write(file, "one ", 4), 4);
    EXPECT_EQ(hd_write_all(file, "two ", 4, NULL), 0);
    EXPECT_EQ(hd_pwrite(file, "O", 1, 0), 1); /* does not move it */
    const struct iovec parts[] = {{"thr", 3}, {"", 0}, {"ee", 2}};
    EXPECT_EQ(hd_writev(file, parts, 3), 5);
    EXPECT_EQ(hd_read(file, bytes, sizeof(bytes)), 0);
    EXPECT_EQ(hd_close(file), 0);
    file = files_open(files_path("a"), O_RDONLY);
    EXPECT_EQ(hd_read_exact(file, bytes, 8, NULL), 0);
    EXPECT_EQ(memcmp(bytes, "One two ", 8), 0);
    EXPECT_EQ(hd_read(file, bytes, sizeof(bytes)), 5);
    EXPECT_EQ(memcmp(bytes, "three", 5), 0);
    EXPECT_EQ(hd_read_exact(file, bytes, 1, NULL), -EPIPE);
    EXPECT_EQ(hd_close(file), 0);
    file = files_open(files_path("a"), O_WRONLY | O_APPEND);
    EXPECT_EQ(hd_write(file, "!", 1), 1);
    EXPECT_EQ(hd_close(file), 0);
    EXPECT(files_hold(files_path("a"), "One two three!"));
    files_end();
    return 0;
}

TEST_IO(reads_and_writes_move_the_position, options)
{
    rt_run(positions, NULL, options);
}

enum { COLD = 20, COLD_BYTES = 50000 };

/* Without the runtime: a file that the kernel does not have in memory. */
static void make_cold(const char *path, char fill)
{
    static char bytes[COLD_BYTES];
    memset(bytes, fill, sizeof(bytes));
    const int fd = open(path, O_WRONLY | O_CREAT, 0644);
    EXPECT(fd >= 0);
    EXPECT_EQ(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
    EXPECT_EQ(fsync(fd), 0);
    EXPECT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    close(fd);
}

static int read_cold(void *arg)
{
    (void)arg;
    static char bytes[COLD_BYTES];
    for (char name[] = "a"; name[0] < 'a' + COLD; name[0]++) {
        hd_io file = files_open(files_path(name), O_RDONLY);
        EXPECT_EQ(hd_read_exact(file, bytes, sizeof(bytes), NULL), 0);
        for (int i = 0; i < COLD_BYTES; i++) EXPECT_EQ(bytes[i], name[0]);
        EXPECT_EQ(hd_close(file), 0);
    }
    files_end();
    return 0;
}

/* All workers sleep then, and nobody may take that for a deadlock. */
TEST(reads_wait_for_the_disk)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.deadlock = HD_DEADLOCK_REPORT;
    snprintf(files_dir, sizeof(files_dir), "/tmp/heddle-files-%d", (int)getpid());
    EXPECT_EQ(mkdir(files_dir, 0755), 0);
    for (char name[] = "a"; name[0] < 'a' + COLD; name[0]++) make_cold(files_path(name), name[0]);
    rt_run(read_cold, NULL, &options);
}

static int refused_calls(void *arg)
{
    (void)arg;
    files_begin();
    files_put(files_path("a"), "abc", 3);
    char bytes[8];
    hd_io ends[2], file = files_open(files_path("a"), O_RDONLY);
    EXPECT_EQ(hd_pread(file, bytes, 1, -1), -EINVAL);
    EXPECT_EQ(hd_pwrite(file, bytes, 1, -1), -EINVAL);
    EXPECT_EQ(hd_pwrite(file, "x", 1, 0), -EBADF);
    EXPECT_EQ(hd_write(file, "x", 1), -EBADF);
    EXPECT_EQ(hd_file_truncate(file, 0), -EINVAL);
    EXPECT_EQ(hd_close(file), 0);
    EXPECT_EQ(hd_pread(file, bytes, 1, 0), -EBADF);
    EXPECT_EQ(hd_read(file, bytes, 1), -EBADF);
    EXPECT_EQ(hd_file_sync(file, false), -EBADF);
    struct stat info;
    EXPECT_EQ(hd_file_stat(file, &info), -EBADF);
    EXPECT_EQ(hd_close(file), -EBADF);
    file = files_open(files_path("a"), O_WRONLY);
    EXPECT_EQ(hd_pread(file, bytes, 1, 0), -EBADF);
    EXPECT_EQ(hd_close(file), 0);
    EXPECT_EQ(hd_pipe(ends), 0);
    EXPECT_EQ(hd_pread(ends[0], bytes, 1, 0), -ESPIPE);
    EXPECT_EQ(hd_pwrite(ends[1], bytes, 1, 0), -ESPIPE);
    EXPECT_EQ(hd_file_sync(ends[1], false), -EINVAL);
    EXPECT_EQ(hd_close(ends[0]), 0);
    EXPECT_EQ(hd_close(ends[1]), 0);
    files_end();
    return 0;
}

TEST_IO(what_a_handle_does_not_allow_is_refused, options)
{
    rt_run_plain(refused_calls, NULL, options);
}

/* ---- names ---- */

static int opens(void *arg)
{
    (void)arg;
    files_begin();
    files_put(files_path("a"), "a", 1);
    EXPECT_EQ(hd_mkdir(files_path("d"), 0755), 0);
    const hd_io none = {77};
    hd_io file = none;
    EXPECT_EQ(hd_file_open(&file, files_path("b"), O_RDONLY, 0), -ENOENT);
    EXPECT_EQ(hd_file_open(&file, files_path("x/b"), O_RDONLY | O_CREAT, 0644), -ENOENT);
    EXPECT_EQ(hd_file_open(&file, files_path("a/b"), O_RDONLY, 0), -ENOTDIR);
    EXPECT_EQ(hd_file_open(&file, files_path("a"), O_RDWR | O_CREAT | O_EXCL, 0644), -EEXIST);
    EXPECT_EQ(hd_file_open(&file, files_path("a"), O_RDONLY | O_DIRECTORY, 0), -ENOTDIR);
    EXPECT_EQ(hd_file_open(&file, files_path("d"), O_RDWR, 0), -EISDIR);
    EXPECT_EQ(hd_file_open(&file, "", O_RDONLY, 0), -ENOENT);
    EXPECT_EQ(file.private_, none.private_);
    EXPECT_EQ(hd_file_open(&file, files_path("d/../d/./c"), O_WRONLY | O_CREAT, 0644), 0);
    EXPECT_EQ(hd_close(file), 0);
    EXPECT_EQ(files_size(files_path("d/c")), 0);
    char byte;
    file = files_open(files_path("d"), O_RDONLY | O_DIRECTORY);
    EXPECT_EQ(hd_read(file, &byte, 1), -EISDIR);
    EXPECT_EQ(hd_file_sync(file, false), 0);
    EXPECT_EQ(hd_close(file), 0);
    files_end();
    return 0;
}

TEST_IO(opening, options)
{
    rt_run(opens, NULL, options);
}

static int renames(void *arg)
{
    (void)arg;
    files_begin();
    files_put(files_path("a"), "new", 3);
    files_put(files_path("b"), "old", 3);
    hd_io old = files_open(files_path("b"), O_RDONLY);
    EXPECT_EQ(hd_rename(files_path("a"), files_path("b")), 0);
    EXPECT_EQ(hd_dir_sync(files_dir), 0);
    EXPECT(files_hold(files_path("b"), "new"));
    struct stat info;
    EXPECT_EQ(hd_stat(files_path("a"), &info), -ENOENT);
    char bytes[8];
    EXPECT_EQ(hd_pread(old, bytes, sizeof(bytes), 0), 3); /* It stays while it is open. */
    EXPECT_EQ(memcmp(bytes, "old", 3), 0);
    EXPECT_EQ(hd_file_stat(old, &info), 0);
    EXPECT_EQ(info.st_nlink, 0);
    EXPECT_EQ(hd_close(old), 0);
    EXPECT_EQ(hd_mkdir(files_path("d"), 0755), 0);
    EXPECT_EQ(hd_mkdir(files_path("d/e"), 0755), 0);
    EXPECT_EQ(hd_rename(files_path("a"), files_path("c")), -ENOENT);
    EXPECT_EQ(hd_rename(files_path("b"), files_path("d")), -EISDIR);
    EXPECT_EQ(hd_rename(files_path("d"), files_path("b")), -ENOTDIR);
    EXPECT_EQ(hd_rename(files_path("d"), files_path("d/e/f")), -EINVAL);
    EXPECT_EQ(hd_rename(files_path("b"), files_path("d/e/b")), 0);
    EXPECT_EQ(hd_rename(files_path("d/e"), files_path("e")), 0);
    EXPECT(files_hold(files_path("e/b"), "new"));
    EXPECT_EQ(hd_rename(files_path("d"), files_path("e")), -ENOTEMPTY);
    EXPECT_EQ(hd_rename(files_path("e"), files_path("d")), 0);
    EXPECT(files_hold(files_path("d/../d/b"), "new"));
    files_end();
    return 0;
}

TEST_IO(renaming, options)
{
    rt_run(renames, NULL, options);
}

static int removes(void *arg)
{
    (void)arg;
    files_begin();
    files_put(files_path("a"), "a", 1);
    EXPECT_EQ(hd_mkdir(files_path("d"), 0755), 0);
    EXPECT_EQ(hd_mkdir(files_path("d"), 0755), -EEXIST);
    EXPECT_EQ(hd_mkdir(files_path("a/d"), 0755), -ENOTDIR);
    files_put(files_path("d/b"), "b", 1);
    EXPECT_EQ(hd_rmdir(files_path("d")), -ENOTEMPTY);
    EXPECT_EQ(hd_rmdir(files_path("a")), -ENOTDIR);
    EXPECT_EQ(hd_unlink(files_path("d")), -EISDIR);
    EXPECT_EQ(hd_unlink(files_path("c")), -ENOENT);
    EXPECT_EQ(hd_unlink(files_path("d/b")), 0);
    EXPECT_EQ(hd_rmdir(files_path("d")), 0);
    EXPECT_EQ(hd_rmdir(files_path("d")), -ENOENT);
    hd_io file = files_open(files_path("a"), O_RDONLY);
    EXPECT_EQ(hd_unlink(files_path("a")), 0);
    char byte = 0;
    EXPECT_EQ(hd_pread(file, &byte, 1, 0), 1);
    EXPECT_EQ(byte, 'a');
    EXPECT_EQ(hd_close(file), 0);
    EXPECT_EQ(hd_rmdir(files_dir), 0);
    return 0;
}

TEST_IO(removing, options)
{
    rt_run(removes, NULL, options);
}

static int lists(void *arg)
{
    const bool sim = rt_is_sim(arg);
    files_begin();
    hd_dir *dir = NULL;
    hd_dir_entry entry;
    EXPECT_EQ(hd_dir_open(&dir, files_path("x")), -ENOENT);
    EXPECT(dir == NULL);
    EXPECT_EQ(hd_dir_open(&dir, files_dir), 0);
    EXPECT_EQ(hd_dir_read(dir, &entry), 0);
    hd_dir_close(dir);
    for (char name[] = "z"; name[0] >= 'a'; name[0]--) files_put(files_path(name), "", 0);
    EXPECT_EQ(hd_mkdir(files_path("dir"), 0755), 0);
    EXPECT_EQ(hd_dir_open(&dir, files_path("a")), -ENOTDIR);
    EXPECT_EQ(hd_dir_open(&dir, files_dir), 0);
    uint32_t seen = 0, dirs = 0;
    char before[256] = "";
    while (hd_dir_read(dir, &entry) == 1) {
        if (sim) EXPECT(strcmp(before, entry.name) < 0); /* They come in order. */
        memcpy(before, entry.name, sizeof(before));
        if (strcmp(entry.name, "dir") == 0) {
            EXPECT(entry.type == DT_DIR || entry.type == DT_UNKNOWN);
            dirs++;
            continue;
        }
        EXPECT(entry.type == DT_REG || entry.type == DT_UNKNOWN);
        EXPECT_EQ(strlen(entry.name), 1);
        EXPECT_EQ(seen & 1u << (entry.name[0] - 'a'), 0);
        seen |= 1u << (entry.name[0] - 'a');
    }
    EXPECT_EQ(hd_dir_read(dir, &entry), 0);
    hd_dir_close(dir);
    hd_dir_close(NULL);
    EXPECT_EQ(seen, (1u << 26) - 1);
    EXPECT_EQ(dirs, 1);
    files_end();
    return 0;
}

TEST_IO(reading_directories, options)
{
    rt_run(lists, (void *)options, options);
}

/* ---- many at once ---- */

enum { WRITERS = 20, BLOCK = 3000 };

struct writer {
    hd_io file;
    int number;
};

static int write_block(void *arg)
{
    const struct writer *writer = arg;
    char bytes[BLOCK];
    memset(bytes, 'a' + writer->number, sizeof(bytes));
    const int64_t at = (int64_t)writer->number * BLOCK;
    EXPECT_EQ(hd_pwrite(writer->file, bytes, sizeof(bytes), at), BLOCK);
    memset(bytes, 0, sizeof(bytes));
    EXPECT_EQ(hd_pread(writer->file, bytes, sizeof(bytes), at), BLOCK);
    for (int i = 0; i < BLOCK; i++) EXPECT_EQ(bytes[i], 'a' + writer->number);
    return 0;
}

static int write_together(void *arg)
{
    (void)arg;
    files_begin();
    struct writer writers[WRITERS];
    hd_task *tasks[WRITERS];
    hd_io file = files_open(files_path("a"), O_RDWR | O_CREAT);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){file, i};
        tasks[i] = rt_spawn(NULL, write_block, &writers[i]);
    }
    for (int i = 0; i < WRITERS; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    EXPECT_EQ(files_size(files_path("a")), WRITERS * BLOCK);
    EXPECT_EQ(hd_close(file), 0);
    files_end();
    return 0;
}

TEST_IO(many_use_one_handle, options)
{
    rt_run(write_together, NULL, options);
}

struct shared {
    hd_io file;
    atomic_int reading;
};

/* Until it is closed. */
static int read_only_a(void *arg)
{
    struct shared *shared = arg;
    char bytes[64];
    for (;;) {
        memset(bytes, 0, sizeof(bytes));
        const ssize_t n = hd_pread(shared->file, bytes, sizeof(bytes), 0);
        if (n == -EBADF || n == -ECANCELED) return 0;
        EXPECT_EQ(n, sizeof(bytes));
        for (size_t i = 0; i < sizeof(bytes); i++) EXPECT_EQ(bytes[i], 'a');
        atomic_fetch_add(&shared->reading, 1);
    }
}

static int close_under_them(void *arg)
{
    (void)arg;
    files_begin();
    char bytes[64];
    memset(bytes, 'a', sizeof(bytes));
    files_put(files_path("a"), bytes, sizeof(bytes));
    memset(bytes, 'b', sizeof(bytes));
    files_put(files_path("b"), bytes, sizeof(bytes));
    for (int round = 0; round < 10; round++) {
        struct shared shared = {.file = files_open(files_path("a"), O_RDONLY)};
        hd_task *readers[4];
        for (int i = 0; i < 4; i++) readers[i] = rt_spawn(NULL, read_only_a, &shared);
        rt_until(&shared.reading);
        EXPECT_EQ(hd_close(shared.file), 0);
        hd_io other = files_open(files_path("b"), O_RDONLY); /* perhaps the same descriptor */
        for (int i = 0; i < 4; i++) EXPECT_EQ(rt_join(readers[i]), 0);
        EXPECT_EQ(hd_close(other), 0);
    }
    files_end();
    return 0;
}

TEST_IO(a_closed_handle_never_reads_another_file, options)
{
    rt_run(close_under_them, NULL, options);
}

/* ---- who calls ---- */

static int cancelled_call(void *arg)
{
    (void)arg;
    while (!hd_cancelled()) hd_yield();
    hd_io file = {5};
    EXPECT_EQ(hd_file_open(&file, files_path("a"), O_WRONLY | O_CREAT, 0644), -ECANCELED);
    EXPECT_EQ(file.private_, 5);
    EXPECT_EQ(hd_mkdir(files_path("d"), 0755), -ECANCELED);
    EXPECT_EQ(hd_shield(), 0);
    files_put(files_path("b"), "b", 1);
    EXPECT_EQ(hd_unshield(), 0);
    return 0;
}

static int cancels(void *arg)
{
    (void)arg;
    files_begin();
    hd_task *task = rt_spawn(NULL, cancelled_call, NULL);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), 0);
    struct stat info;
    EXPECT_EQ(hd_stat(files_path("a"), &info), -ENOENT);
    EXPECT_EQ(hd_stat(files_path("d"), &info), -ENOENT);
    EXPECT_EQ(files_size(files_path("b")), 1);
    files_end();
    return 0;
}

TEST_IO(a_cancelled_call_does_nothing, options)
{
    rt_run(cancels, NULL, options);
}

struct poller {
    hd_io file;
};

static hd_poll read_by_poll(void *state, int *result)
{
    const struct poller *poller = state;
    char bytes[8];
    EXPECT_EQ(hd_read_until(poller->file, bytes, 3, HD_NOW), 3);
    EXPECT_EQ(memcmp(bytes, "abc", 3), 0);
    hd_io file;
    EXPECT_EQ(hd_file_open(&file, files_path("a"), O_RDONLY, 0), -EINVAL);
    *result = (int)hd_read_until(poller->file, bytes, 3, HD_NOW);
    return HD_READY;
}

static int polls(void *arg)
{
    (void)arg;
    files_begin();
    files_put(files_path("a"), "abcd", 4);
    struct poller poller = {files_open(files_path("a"), O_RDONLY)};
    EXPECT_EQ(rt_join(rt_spawn_poll(NULL, read_by_poll, &poller, sizeof(poller))), 1);
    EXPECT_EQ(hd_close(poller.file), 0);
    files_end();
    return 0;
}

TEST_IO(a_stackless_task_reads_without_waiting, options)
{
    rt_run(polls, NULL, options);
}

TEST_IO(a_thread_reads_and_writes, options)
{
    hd_runtime *runtime = rt_create(options);
    hd_io file;
    char bytes[8];
    EXPECT_EQ(rt_join(rt_spawn(runtime, files_begin_with, &file)), 0);
    EXPECT_EQ(hd_pwrite(file, "thread", 6, 0), 6);
    EXPECT_EQ(hd_pread(file, bytes, sizeof(bytes), 0), 6);
    EXPECT_EQ(memcmp(bytes, "thread", 6), 0);
    EXPECT_EQ(hd_file_sync(file, false), 0);
    EXPECT_EQ(rt_join(rt_spawn(runtime, files_end_with, &file)), 0);
    hd_runtime_destroy(runtime);
}

/* ---- what it costs ---- */

static int spend(void *arg)
{
    const hd_io file = *(hd_io *)arg;
    struct stat info;
    char byte = 'a';
    EXPECT_EQ(hd_stat("/tmp", &info), 0);
    EXPECT_EQ(hd_pread(file, &byte, 1, 0), 0); /* the end, which the kernel cannot know at once */
    EXPECT_EQ(hd_pwrite(file, &byte, 1, 0), 1);
    EXPECT_EQ(hd_pread(file, &byte, 1, 0), 1);
    EXPECT_EQ(hd_file_sync(file, false), 0);
    EXPECT_EQ(hd_stat("/tmp", &info), -EDQUOT);
    EXPECT_EQ(hd_pread(file, &byte, 1, 0), -EDQUOT);
    return 0;
}

static int with_budget(void *arg)
{
    (void)arg;
    files_begin();
    hd_io file = files_open(files_path("a"), O_RDWR | O_CREAT);
    const hd_budget budget = {.syscalls = 5};
    hd_nursery nursery;
    budgets_open(&nursery, &budget, NULL);
    EXPECT_EQ(budgets_run(&nursery, spend, &file), 0);
    EXPECT_EQ(hd_nursery_leave(&nursery), 0);
    EXPECT_EQ(hd_close(file), 0);
    files_end();
    return 0;
}

TEST_IO(each_call_is_one_of_the_budget, options)
{
    rt_run(with_budget, NULL, options);
}

static int leave_open(void *arg)
{
    (void)arg;
    files_begin();
    for (int i = 0; i < 5; i++) (void)files_open(files_path("a"), O_RDWR | O_CREAT);
    files_end();
    return 0;
}

/* Open descriptors, but for the one that looks. */
static int count_open(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;
    EXPECT(dir != NULL);
    while (readdir(dir)) count++;
    closedir(dir);
    return count;
}

TEST_IO(a_runtime_that_ends_closes_its_files, options)
{
    rt_run(leave_open, NULL, options); /* what stays open once, stays */
    const int before = count_open();
    rt_run(leave_open, NULL, options);
    EXPECT_EQ(count_open(), before);
}
