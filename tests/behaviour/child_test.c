/* SPDX-License-Identifier: MIT
 *
 * Child processes, by the same calls in live and in sim; there they are simulated programs
 * (tests/programs.h), which tests/sim/program*_test.c have more of. In live each test is done
 * twice: with pidfds, and as on a kernel that has none.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>

#include "os/sys.h"
#include "programs.h"

TEST_MAIN

/* ---- short forms ---- */

static int no_pidfd(hd_runtime *runtime, const char *name)
{
    (void)runtime;
    return strcmp(name, "pidfd_open") == 0 ? -ENOSYS : 0;
}

static unsigned count_fds(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    EXPECT(dir != NULL);
    while (readdir(dir)) count++;
    closedir(dir);
    return count;
}

static void need_programs(void)
{
    if (getenv("HEDDLE_TEST_EMULATED")) test_skip("the emulator starts programs in its own way");
}

/* Nothing is left: no descriptor, and no child, be it as a zombie. */
static void run_clean(hd_fn *fn, const hd_options *options)
{
    const unsigned fds = count_fds();
    rt_run(fn, NULL, options);
    EXPECT_EQ(count_fds(), fds);
    EXPECT(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

static void run_live(hd_fn *fn, const hd_options *options)
{
    need_programs();
    run_clean(fn, options);
    hdi_sys_fault = no_pidfd;
    run_clean(fn, options);
    hdi_sys_fault = NULL;
}

static hd_fn *scenario;

static int with_programs(void *arg)
{
    programs_add();
    return scenario(arg);
}

static void run_sim(hd_fn *fn, const hd_options *options)
{
    scenario = fn;
    rt_run(with_programs, NULL, options);
}

#define CHILD_TEST(name, fn)                                                             \
    TEST_IO(name, options)                                                               \
    {                                                                                    \
        (rt_is_sim(options) ? run_sim : run_live)((fn), options);                        \
    }

/* For what is done with the descriptors of this process. */
#define CHILD_TEST_LIVE(name, fn)                                                        \
    TEST_DRIVERS(name, options) { run_live((fn), options); }

static hd_child *start(const char *const *argv, const hd_child_options *options)
{
    hd_child *child = NULL;
    EXPECT_EQ(hd_child_start(&child, argv, options), 0);
    EXPECT(hd_child_pid(child) > 0);
    return child;
}

static hd_child *start_shell(const char *script, const hd_child_options *options)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    return start(argv, options);
}

/* All that comes from a pipe, as a string. */
static const char *read_all(hd_io io, char *text, size_t bytes)
{
    size_t length = 0;
    ssize_t n;
    while ((n = hd_read(io, text + length, bytes - 1 - length)) > 0) length += (size_t)n;
    EXPECT_EQ(n, 0);
    text[length] = 0;
    return text;
}

static bool gone(pid_t pid)
{
    if (hd_sim_host_self()) return hdi_sys_sim.kill(hd_runtime_self(), pid, -1, 0) == -ESRCH;
    return kill(pid, 0) == -1 && errno == ESRCH;
}

static const hd_child_options all_pipes = {
    .size = sizeof(all_pipes), .streams = {HD_CHILD_PIPE, HD_CHILD_PIPE, HD_CHILD_PIPE}};

/* ---- starting and ending ---- */

static int statuses(void *arg)
{
    (void)arg;
    int status = programs_finish(start_shell("exit 7", NULL));
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    status = programs_finish(start_shell("kill -9 $$", NULL));
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    const char *const argv[] = {"true", NULL};
    EXPECT_EQ(programs_finish(start(argv, NULL)), 0);
    hd_child_free(NULL);
    return 0;
}

CHILD_TEST(how_it_ended_is_told, statuses)

static int wait_again(void *arg)
{
    (void)arg;
    int status = -1;
    hd_child *child = start_shell("exit 3", NULL);
    EXPECT_EQ(hd_child_wait(child, NULL), 0);
    EXPECT_EQ(hd_child_wait(child, &status), 0);
    EXPECT_EQ(WEXITSTATUS(status), 3);
    EXPECT_EQ(hd_child_wait_until(child, &status, HD_NOW), 0);
    EXPECT_EQ(hd_child_kill(child, SIGTERM), -ESRCH);
    hd_child_free(child);
    return 0;
}

CHILD_TEST(it_can_be_waited_for_again, wait_again)

static int failures(void *arg)
{
    (void)arg;
    hd_child *child = NULL;
    const char *const missing[] = {"/no/such/program", NULL};
    const char *const unknown[] = {"no-such-program-in-the-path", NULL};
    const char *const forbidden[] = {"/etc/passwd", NULL};
    const char *const nothing[] = {NULL}, *const well[] = {"true", NULL};
    EXPECT_EQ(hd_child_start(&child, missing, &all_pipes), -ENOENT);
    EXPECT_EQ(hd_child_start(&child, unknown, NULL), -ENOENT);
    EXPECT_EQ(hd_child_start(&child, forbidden, NULL), -EACCES);
    EXPECT_EQ(hd_child_start(&child, nothing, NULL), -EINVAL);
    EXPECT_EQ(hd_child_start(&child, NULL, NULL), -EINVAL);
    hd_child_options options = HD_CHILD_OPTIONS_INIT;
    options.dir = "/no/such/directory";
    EXPECT_EQ(hd_child_start(&child, well, &options), -ENOENT);
    options.dir = NULL;
    options.streams[1] = HD_CHILD_FD;
    options.fds[1] = 9999;
    EXPECT_EQ(hd_child_start(&child, well, &options), -EBADF);
    options.streams[1] = (hd_child_stream)7;
    EXPECT_EQ(hd_child_start(&child, well, &options), -EINVAL);
    const hd_child_options sizeless = {.kill_signal = SIGTERM};
    EXPECT_EQ(hd_child_start(&child, well, &sizeless), -EINVAL);
    const hd_child_options hasty = {.size = sizeof(hasty), .kill_grace_ns = -1};
    EXPECT_EQ(hd_child_start(&child, well, &hasty), -EINVAL);
    EXPECT(child == NULL);
    return 0;
}

CHILD_TEST(failures_are_told, failures)

/* ---- streams ---- */

enum { MUCH = 1 << 20 };

struct stream {
    hd_io io;
    char *bytes;
};

static int write_much(void *arg)
{
    const struct stream *stream = arg;
    EXPECT_EQ(hd_write_all(stream->io, stream->bytes, MUCH, NULL), 0);
    EXPECT_EQ(hd_close(stream->io), 0);
    return 0;
}

static int through_cat(void *arg)
{
    (void)arg;
    const char *const argv[] = {"cat", NULL};
    hd_child *child = start(argv, &all_pipes);
    struct stream in = {hd_child_pipe(child, 0), malloc(MUCH)};
    char *out = malloc(MUCH + 2);
    for (int i = 0; i < MUCH; i++) in.bytes[i] = (char)('a' + i % 26);
    hd_task *writer = rt_spawn(NULL, write_much, &in);
    EXPECT_EQ(strlen(read_all(hd_child_pipe(child, 1), out, MUCH + 2)), MUCH);
    EXPECT(memcmp(in.bytes, out, MUCH) == 0);
    EXPECT_EQ(rt_join(writer), 0);
    EXPECT_EQ(hd_child_pipe(child, 3).private_, 0);
    EXPECT_EQ(hd_child_pipe(child, -1).private_, 0);
    EXPECT_EQ(programs_finish(child), 0);
    free(in.bytes);
    free(out);
    return 0;
}

CHILD_TEST(much_goes_through_pipes, through_cat)

static int streams(void *arg)
{
    (void)arg;
    char text[100];
    hd_child *child = start_shell("echo out; echo error >&2", &all_pipes);
    EXPECT(strcmp(read_all(hd_child_pipe(child, 2), text, sizeof(text)), "error\n") == 0);
    EXPECT(strcmp(read_all(hd_child_pipe(child, 1), text, sizeof(text)), "out\n") == 0);
    EXPECT_EQ(programs_finish(child), 0);

    hd_child_options options = HD_CHILD_OPTIONS_INIT;
    options.streams[0] = options.streams[1] = HD_CHILD_NULL;
    child = start_shell("cat; echo lost", &options);
    EXPECT_EQ(hd_child_pipe(child, 0).private_, 0);
    EXPECT_EQ(programs_finish(child), 0);
    return 0;
}

CHILD_TEST(streams_are_apart, streams)

/* Its output and its errors change places, through descriptors of the same numbers. */
static int crossed(void *arg)
{
    (void)arg;
    int pipes[2][2];
    char text[20] = {0};
    const int saved[2] = {fcntl(1, F_DUPFD_CLOEXEC, 10), fcntl(2, F_DUPFD_CLOEXEC, 10)};
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(pipe2(pipes[i], O_CLOEXEC), 0);
        EXPECT_EQ(dup2(pipes[i][1], i + 1), i + 1);
    }
    hd_child_options options = HD_CHILD_OPTIONS_INIT;
    options.streams[1] = options.streams[2] = HD_CHILD_FD;
    options.fds[1] = 2;
    options.fds[2] = 1;
    hd_child *child = start_shell("echo out; echo error >&2", &options);
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(dup2(saved[i], i + 1), i + 1);
        close(saved[i]);
        close(pipes[i][1]);
    }
    EXPECT_EQ(programs_finish(child), 0);
    EXPECT_EQ(read(pipes[0][0], text, sizeof(text) - 1), 6);
    EXPECT(strcmp(text, "error\n") == 0);
    EXPECT_EQ(read(pipes[1][0], text, sizeof(text) - 1), 4);
    EXPECT(strncmp(text, "out\n", 4) == 0);
    close(pipes[0][0]);
    close(pipes[1][0]);
    return 0;
}

CHILD_TEST_LIVE(streams_can_change_places, crossed)

/* The numbers of its streams are free here, so our pipes have them. */
static int closed_streams(void *arg)
{
    (void)arg;
    char text[20];
    const int saved[2] = {fcntl(0, F_DUPFD_CLOEXEC, 10), fcntl(1, F_DUPFD_CLOEXEC, 10)};
    close(0);
    close(1);
    hd_child *child = start_shell("read line; echo \"<$line>\"", &all_pipes);
    EXPECT_EQ(hd_write_all(hd_child_pipe(child, 0), "hi\n", 3, NULL), 0);
    EXPECT(strcmp(read_all(hd_child_pipe(child, 1), text, sizeof(text)), "<hi>\n") == 0);
    EXPECT_EQ(programs_finish(child), 0);
    /* Here what is to be its output has the number of its input. */
    int ends[2];
    EXPECT_EQ(dup3(saved[1], 1, 0), 1);
    EXPECT_EQ(dup3(saved[0], 0, 0), 0);
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    EXPECT_EQ(write(ends[1], "hi\n", 3), 3);
    close(ends[1]);
    close(0);
    hd_child_options options = HD_CHILD_OPTIONS_INIT;
    options.streams[0] = HD_CHILD_FD;
    options.fds[0] = ends[0];
    options.streams[1] = HD_CHILD_NULL;
    EXPECT_EQ(programs_finish(start_shell("cat", &options)), 0);
    close(ends[0]);
    for (int i = 0; i < 2; i++) EXPECT_EQ(dup3(saved[i], i, 0), i);
    for (int i = 0; i < 2; i++) close(saved[i]);
    return 0;
}

CHILD_TEST_LIVE(our_own_streams_may_be_closed, closed_streams)

/* ---- what it is given ---- */

static int surroundings(void *arg)
{
    (void)arg;
    char text[200];
    const char *const env[] = {"WHO=somebody", "PATH=/bin:/usr/bin", NULL};
    hd_child_options options = all_pipes;
    options.env = env;
    options.dir = "/usr";
    hd_child *child = start_shell("echo $WHO$HOME; pwd", &options);
    EXPECT(strcmp(read_all(hd_child_pipe(child, 1), text, sizeof(text)), "somebody\n/usr\n") == 0);
    EXPECT_EQ(programs_finish(child), 0);
    EXPECT_EQ(setenv("HEDDLE_TEST_OF_CHILDREN", "ours", 1), 0);
    child = start_shell("echo $HEDDLE_TEST_OF_CHILDREN", &all_pipes);
    EXPECT(strcmp(read_all(hd_child_pipe(child, 1), text, sizeof(text)), "ours\n") == 0);
    EXPECT_EQ(programs_finish(child), 0);
    return 0;
}

CHILD_TEST(it_has_surroundings_of_its_own, surroundings)

static unsigned long long hex_after(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    EXPECT(at != NULL);
    return strtoull(at + strlen(key), NULL, 16);
}

static int masks(void *arg)
{
    (void)arg;
    char text[2000];
    const char *const argv[] = {"cat", "/proc/self/status", NULL};
    hd_child *child = start(argv, &all_pipes);
    read_all(hd_child_pipe(child, 1), text, sizeof(text));
    const unsigned long long libc = 3ull << 31; /* Two signals are the C library's own. */
    EXPECT_EQ(hex_after(text, "SigBlk:") & ~libc, 0);
    EXPECT_EQ(hex_after(text, "SigIgn:") & ~libc, 0);
    EXPECT_EQ(programs_finish(child), 0);
    /* And no descriptors but its own three, and the one that it lists them by. */
    child = start_shell("set -- /proc/self/fd/*; echo $#", &all_pipes);
    read_all(hd_child_pipe(child, 1), text, sizeof(text));
    EXPECT(atoi(text) <= 4);
    EXPECT_EQ(programs_finish(child), 0);
    return 0;
}

TEST(it_begins_with_all_signals_and_no_descriptors)
{
    const hd_options live = {.size = sizeof(live), .world = HD_WORLD_LIVE};
    sigset_t set;
    sigfillset(&set);
    EXPECT(signal(SIGPIPE, SIG_IGN) == SIG_DFL);
    EXPECT_EQ(sigprocmask(SIG_BLOCK, &set, NULL), 0);
    EXPECT_EQ(close_range(3, ~0u, CLOSE_RANGE_CLOEXEC), 0); /* What the harness was given. */
    need_programs();
    rt_run(masks, NULL, &live);
}

/* ---- ending it ---- */

static int deadlines(void *arg)
{
    (void)arg;
    int status = -1;
    const char *const argv[] = {"sleep", "1000", NULL};
    hd_child *child = start(argv, NULL);
    EXPECT_EQ(hd_child_wait_until(child, &status, HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_child_wait_until(child, &status, hd_after_ms(5)), -ETIMEDOUT);
    EXPECT_EQ(status, -1);
    EXPECT_EQ(hd_child_kill(child, 0), 0); /* It still runs. */
    EXPECT_EQ(hd_child_kill(child, 1000), -EINVAL);
    EXPECT_EQ(hd_child_kill(child, SIGINT), 0);
    EXPECT_EQ(hd_child_wait_until(child, &status, HD_FOREVER), 0);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    EXPECT_EQ(hd_child_kill(child, SIGINT), -ESRCH);
    hd_child_free(child);
    return 0;
}

CHILD_TEST(a_deadline_kills_nothing, deadlines)

static int wait_for(void *child)
{
    return hd_child_wait(child, NULL);
}

static void expect_killed(hd_child *child, int number)
{
    int status = 0;
    EXPECT(gone(hd_child_pid(child)));
    EXPECT_EQ(hd_child_wait(child, &status), 0);
    EXPECT(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), number);
    hd_child_free(child);
}

static int cancelled(void *arg)
{
    (void)arg;
    const char *const argv[] = {"sleep", "1000", NULL};
    hd_child *child = start(argv, NULL);
    hd_task *waiter = rt_spawn(NULL, wait_for, child);
    EXPECT_EQ(hd_sleep_ms(5), 0);
    hd_cancel(waiter);
    EXPECT_EQ(rt_join(waiter), -ECANCELED);
    expect_killed(child, SIGTERM);

    hd_child_options options = HD_CHILD_OPTIONS_INIT;
    options.kill_signal = SIGHUP;
    child = start(argv, &options);
    waiter = rt_spawn(NULL, wait_for, child);
    hd_cancel(waiter); /* perhaps before it waits */
    EXPECT_EQ(rt_join(waiter), -ECANCELED);
    expect_killed(child, SIGHUP);
    return 0;
}

CHILD_TEST(a_cancel_kills_it, cancelled)

static int stubborn(void *arg)
{
    (void)arg;
    char byte;
    hd_child_options options = all_pipes;
    options.kill_grace_ns = 20 * HD_MS_NS;
    hd_child *child = start_shell("trap '' TERM; echo; read line", &options);
    EXPECT_EQ(hd_read_exact(hd_child_pipe(child, 1), &byte, 1, NULL), 0);
    const int64_t began = hd_now(NULL);
    hd_task *waiter = rt_spawn(NULL, wait_for, child);
    hd_cancel(waiter);
    EXPECT_EQ(rt_join(waiter), -ECANCELED);
    EXPECT(hd_now(NULL) - began >= options.kill_grace_ns);
    expect_killed(child, SIGKILL);
    return 0;
}

CHILD_TEST(after_the_grace_it_is_killed_for_good, stubborn)

static int obedient(void *arg)
{
    (void)arg;
    char byte;
    int status = 0;
    hd_child *child = start_shell("trap 'exit 4' TERM; echo; while read line; do :; done",
                                  &all_pipes);
    EXPECT_EQ(hd_read_exact(hd_child_pipe(child, 1), &byte, 1, NULL), 0);
    HD_SCOPE(s, .deadline = hd_after_ms(5)) {
        EXPECT_EQ(hd_child_wait(child, &status), -ETIMEDOUT);
        EXPECT_EQ(hd_child_wait(child, &status), 0); /* It has ended, so nothing is waited for. */
    }
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 4);
    hd_child_free(child);
    return 0;
}

CHILD_TEST(the_deadline_of_a_scope_is_a_cancel, obedient)

static int freed(void *arg)
{
    (void)arg;
    const char *const argv[] = {"sleep", "1000", NULL};
    hd_child *child = start(argv, &all_pipes);
    const pid_t pid = hd_child_pid(child);
    const hd_io pipe = hd_child_pipe(child, 1);
    EXPECT_EQ(hd_close(hd_child_pipe(child, 0)), 0);
    hd_child_free(child);
    EXPECT(gone(pid));
    EXPECT_EQ(hd_close(pipe), -EBADF);
    return 0;
}

CHILD_TEST(freeing_ends_it, freed)

static int free_it(void *child)
{
    while (!hd_cancelled()) hd_yield();
    hd_child_free(child);
    return 0;
}

static int freed_when_cancelled(void *arg)
{
    (void)arg;
    const char *const argv[] = {"sleep", "1000", NULL};
    hd_child *child = start(argv, NULL);
    const pid_t pid = hd_child_pid(child);
    hd_task *task = rt_spawn(NULL, free_it, child);
    hd_cancel(task);
    EXPECT_EQ(rt_join(task), 0);
    EXPECT(gone(pid));
    return 0;
}

CHILD_TEST(a_cancelled_task_can_free_it, freed_when_cancelled)

/* ---- several ---- */

static int all_wait(void *arg)
{
    (void)arg;
    hd_task *tasks[5];
    hd_child *child = start_shell("read line", &all_pipes);
    for (int i = 0; i < 5; i++) tasks[i] = rt_spawn(NULL, wait_for, child);
    EXPECT_EQ(hd_sleep_ms(2), 0);
    EXPECT_EQ(hd_close(hd_child_pipe(child, 0)), 0);
    for (int i = 0; i < 5; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    hd_child_free(child);
    return 0;
}

CHILD_TEST(several_can_wait_for_one, all_wait)

static int one_of_many(void *arg)
{
    char script[20];
    const int code = (int)(intptr_t)arg;
    snprintf(script, sizeof(script), "exit %d", code);
    const int status = programs_finish(start_shell(script, &all_pipes));
    EXPECT_EQ(WEXITSTATUS(status), code);
    return 0;
}

static int many(void *arg)
{
    (void)arg;
    hd_task *tasks[30];
    for (int i = 0; i < 30; i++) tasks[i] = rt_spawn(NULL, one_of_many, (void *)(intptr_t)(i + 1));
    for (int i = 0; i < 30; i++) EXPECT_EQ(rt_join(tasks[i]), 0);
    return 0;
}

CHILD_TEST(there_can_be_many, many)

static int hand_out(void *arg)
{
    programs_add();
    *(hd_child **)arg = start_shell("exit 9", NULL);
    return 0;
}

TEST_IO(a_thread_can_wait_for_it, options)
{
    if (!rt_is_sim(options)) need_programs();
    hd_runtime *runtime = rt_create(options);
    hd_child *child = NULL;
    int status = 0;
    EXPECT_EQ(rt_join(rt_spawn(runtime, hand_out, &child)), 0);
    EXPECT_EQ(hd_child_wait(child, &status), 0);
    EXPECT_EQ(WEXITSTATUS(status), 9);
    hd_child_free(child);
    hd_runtime_destroy(runtime);
}

static int stolen(void *arg)
{
    (void)arg;
    hd_child *child = start_shell("exit 1", NULL);
    EXPECT_EQ(waitpid(hd_child_pid(child), NULL, 0), hd_child_pid(child));
    EXPECT_EQ(hd_child_wait(child, NULL), -ECHILD);
    EXPECT_EQ(hd_child_kill(child, SIGKILL), -ESRCH);
    hd_child_free(child);
    return 0;
}

TEST_DRIVERS(who_else_waits_for_it_is_told, options)
{
    need_programs();
    run_clean(stolen, options);
}
