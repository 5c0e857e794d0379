/* SPDX-License-Identifier: MIT
 *
 * Where io_uring is forbidden, as in many containers: epoll, without a word but to the log; an
 * error for who asked for io_uring; and what HEDDLE_IO says of both.
 */
#include "nets.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

TEST_MAIN

/* ---- forbidding ---- */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* From now on the call fails so in this process. Its number is the same on all machines. */
static void forbid(unsigned call, int err)
{
    if (!HDI_URING) test_skip("built without liburing");
    if (getenv("HEDDLE_TEST_EMULATED")) test_skip("the emulator has no filters");
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)err),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {COUNT(lines), lines};
    EXPECT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
        test_skip("this kernel has no filters");
    }
    unsetenv("HEDDLE_IO"); /* It would win. */
}

static void forbid_uring(int err)
{
    forbid(SYS_io_uring_setup, err);
    EXPECT_EQ(syscall(SYS_io_uring_setup, 1, NULL), -1);
    EXPECT_EQ(errno, err);
}

/* ---- what is told ---- */

static char said[256];
static atomic_int lines_said;

static void log_line(void *arg, const char *line)
{
    EXPECT(arg == said);
    snprintf(said, sizeof(said), "%s", line);
    atomic_fetch_add(&lines_said, 1);
}

/* Live, with the log above. */
static hd_options logging(hd_io_driver io)
{
    hd_options options = HD_OPTIONS_INIT;
    options.world = HD_WORLD_LIVE;
    options.io = io;
    options.log = log_line;
    options.log_arg = said;
    said[0] = 0;
    atomic_store(&lines_said, 0);
    return options;
}

static void expect_driver(const char *name)
{
    const char *io = hd_runtime_io(hd_runtime_self());
    if (strcmp(io, name) != 0) test_fail(__FILE__, __LINE__, "by %s, not %s", io, name);
}

static void expect_said(const char *line)
{
    EXPECT_EQ(atomic_load(&lines_said), line[0] ? 1 : 0);
    if (strcmp(said, line) != 0) test_fail(__FILE__, __LINE__, "'%s', not '%s'", said, line);
}

/* ---- I/O of all kinds ---- */

static int answer(void *arg)
{
    const hd_io *io = arg;
    for (int i = 0; i < 20; i++) {
        char byte;
        EXPECT_EQ(hd_read_exact(*io, &byte, 1, NULL), 0);
        EXPECT_EQ(hd_write_all(*io, &byte, 1, NULL), 0);
    }
    return 0;
}

static void ask(hd_io io)
{
    for (char i = 0; i < 20; i++) {
        char back = 0;
        EXPECT_EQ(hd_write_all(io, &i, 1, NULL), 0);
        EXPECT_EQ(hd_read_exact(io, &back, 1, NULL), 0);
        EXPECT_EQ(back, i);
    }
}

static int talk(void *arg)
{
    (void)arg;
    for (int kind = 0; kind < NETS_PIPE; kind++) {
        hd_io ends[2];
        nets_pair((enum nets_kind)kind, ends);
        hd_task *task = rt_spawn(NULL, answer, &ends[0]);
        ask(ends[1]);
        EXPECT_EQ(rt_join(task), 0);
        nets_close(ends[0], ends[1]);
    }
    return 0;
}

static void expect_file(void)
{
    hd_io file;
    char magic[4];
    EXPECT_EQ(hd_file_open(&file, "/proc/self/exe", O_RDONLY, 0), 0);
    EXPECT_EQ(hd_pread(file, magic, sizeof(magic), 0), sizeof(magic));
    EXPECT(memcmp(magic, "\177ELF", 4) == 0);
    EXPECT_EQ(hd_close(file), 0);
}

/* Many at once, so that all workers wait for the kernel; then a deadline, and a file. */
static int do_io(void *arg)
{
    const char *driver = arg;
    hd_task *tasks[16];
    hd_io ends[2];
    char byte;
    expect_driver("none");
    for (size_t i = 0; i < COUNT(tasks); i++) tasks[i] = rt_spawn(NULL, talk, NULL);
    for (size_t i = 0; i < COUNT(tasks); i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    EXPECT_EQ(hd_pipe(ends), 0);
    const int64_t deadline = hd_after_ms(2);
    EXPECT_EQ(hd_read_until(ends[0], &byte, 1, deadline), -ETIMEDOUT);
    EXPECT(hd_now(NULL) >= deadline);
    nets_expect_byte(ends[1], ends[0], 'p');
    nets_close(ends[0], ends[1]);
    expect_file();
    expect_driver(driver);
    return 0;
}

/* ---- io_uring was not asked for ---- */

static void fall_back(int err)
{
    char expected[256];
    const hd_options options = logging(HD_IO_AUTO);
    const unsigned before = nets_count_fds();
    rt_run(do_io, "epoll", &options);
    snprintf(expected, sizeof(expected), "io: epoll, since io_uring %s", strerror(err));
    expect_said(expected);
    EXPECT_EQ(nets_count_fds(), before);
}

TEST(forbidden_by_a_profile)
{
    forbid_uring(EPERM);
    fall_back(EPERM);
}

TEST(unknown_to_the_kernel)
{
    forbid_uring(ENOSYS);
    fall_back(ENOSYS);
}

/* A ring that can be made, and not be told of buffers, is none; it is given back. */
TEST(forbidden_by_half)
{
    forbid(SYS_io_uring_register, EPERM);
    struct io_uring_params none = {.flags = 0};
    const int ring = (int)syscall(SYS_io_uring_setup, 1, &none);
    if (ring < 0) test_skip("this kernel has no io_uring");
    close(ring);
    fall_back(ENOSYS);
}

/* ---- it was ---- */

/* What has to wait fails with what the kernel said; nothing else does. */
static int fail_to_wait(void *arg)
{
    const int err = *(const int *)arg;
    hd_io ends[2];
    char byte = 0;
    for (int kind = 0; kind < NETS_KINDS; kind++) {
        if (kind == NETS_TCP) continue; /* To connect is to wait. */
        nets_pair((enum nets_kind)kind, ends);
        EXPECT_EQ(hd_read_until(ends[0], &byte, 1, HD_NOW), -EAGAIN);
        EXPECT_EQ(hd_read_until(ends[0], &byte, 1, hd_after_ms(1000)), -err);
        EXPECT_EQ(hd_read(ends[0], &byte, 1), -err);
        hd_case c = HD_READABLE(ends[0]);
        EXPECT_EQ(hd_select(&c, 1), 0);
        EXPECT_EQ(c.result, -err);
        nets_expect_byte(ends[1], ends[0], 'n');
        EXPECT_EQ(hd_close(ends[1]), 0);
        EXPECT_EQ(hd_read(ends[0], &byte, 1), 0);
        EXPECT_EQ(hd_close(ends[0]), 0);
    }
    const hd_io listener = nets_listen();
    EXPECT_EQ(hd_accept(listener, &ends[0], NULL), -err);
    EXPECT_EQ(hd_close(listener), 0);
    expect_file();
    expect_driver("none");
    return 0;
}

static void fail(hd_io_driver io, int err)
{
    const hd_options options = logging(io);
    const unsigned before = nets_count_fds();
    rt_run(fail_to_wait, &err, &options);
    expect_said("");
    EXPECT_EQ(nets_count_fds(), before);
}

TEST(asked_for_and_forbidden)
{
    forbid_uring(EPERM);
    fail(HD_IO_URING, EPERM);
}

TEST(asked_for_and_unknown)
{
    forbid_uring(ENOSYS);
    fail(HD_IO_URING, ENOSYS);
}

/* ---- the environment wins ---- */

TEST(the_environment_asks_for_epoll)
{
    forbid_uring(EPERM);
    setenv("HEDDLE_IO", "epoll", 1);
    for (hd_io_driver io = HD_IO_AUTO; io <= HD_IO_EPOLL; io++) {
        const hd_options options = logging(io);
        rt_run(do_io, "epoll", &options);
        expect_said("io: epoll"); /* It was asked for: there is no reason to give. */
    }
}

TEST(the_environment_asks_for_uring)
{
    forbid_uring(EPERM);
    setenv("HEDDLE_IO", "uring", 1);
    for (hd_io_driver io = HD_IO_AUTO; io <= HD_IO_EPOLL; io++) fail(io, EPERM);
}

static int talk_and_tell(void *arg)
{
    expect_driver("epoll");
    talk(NULL);
    atomic_store((atomic_int *)arg, 1);
    return 0;
}

/* An embedded runtime has no choice, whatever is asked for. */
TEST(an_embedded_one_takes_epoll)
{
    forbid_uring(EPERM);
    setenv("HEDDLE_IO", "uring", 1);
    hd_options options = logging(HD_IO_URING);
    options.embedded = true;
    hd_runtime *runtime = rt_create(&options);
    atomic_int told = 0;
    hd_task *task = rt_spawn(runtime, talk_and_tell, &told);
    while (!atomic_load(&told)) EXPECT(hd_run_once(runtime, HD_FOREVER) >= 0);
    EXPECT_EQ(rt_join(task), 0);
    hd_runtime_destroy(runtime);
    expect_said("io: epoll");
}

TEST(the_environment_says_nothing)
{
    forbid_uring(EPERM);
    setenv("HEDDLE_IO", "", 1);
    fall_back(EPERM);
}

/* Also in sim, where no driver is needed: it is wrong everywhere. */
TEST(the_environment_is_wrong)
{
    static const char *const wrong[] = {"io_uring", "EPOLL", "epoll ", "neither"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        setenv("HEDDLE_IO", wrong[i], 1);
        hd_options options = logging(HD_IO_EPOLL);
        hd_runtime *runtime = NULL;
        EXPECT_EQ(hd_run(do_io, "none", &options), -EINVAL);
        EXPECT_EQ(hd_runtime_create(&runtime, &options), -EINVAL);
        EXPECT(runtime == NULL);
        EXPECT(strcmp(hd_options_error(&options), "HEDDLE_IO is neither epoll nor uring") == 0);
        options.world = HD_WORLD_SIM;
        EXPECT_EQ(hd_runtime_create(&runtime, &options), -EINVAL);
        expect_said("");
    }
}
