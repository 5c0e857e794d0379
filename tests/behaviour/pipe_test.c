/* SPDX-License-Identifier: MIT
 *
 * Descriptors of others: adopting them, waiting for them, and the standard streams.
 */
#include "nets.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

TEST_MAIN

#define LIVE(name)                                                                       \
    static int live_##name(void *arg);                                                   \
    TEST_DRIVERS(name, options) { rt_run(live_##name, NULL, options); }                  \
    static int live_##name(__attribute__((unused)) void *arg)

/* ---- adopting ---- */

LIVE(an_adopted_descriptor_is_a_handle)
{
    int ends[2];
    hd_io in, out;
    EXPECT_EQ(pipe(ends), 0);
    EXPECT_EQ(hd_io_adopt(&in, ends[0], 0), 0);
    EXPECT_EQ(hd_io_adopt(&out, ends[1], 0), 0);
    EXPECT(fcntl(ends[0], F_GETFL) & O_NONBLOCK);
    EXPECT_EQ(hd_io_fd(in), ends[0]);
    struct nets_call reader;
    nets_begin(&reader, in, nets_do_read);
    EXPECT_EQ(hd_write_all(out, "a", 1, NULL), 0);
    EXPECT_EQ(nets_end(&reader), 1);
    nets_close(in, out);
    EXPECT_EQ(fcntl(ends[0], F_GETFD), -1);
    return 0;
}

LIVE(a_borrowed_descriptor_stays)
{
    int ends[2];
    hd_io in;
    char byte = 0;
    EXPECT_EQ(pipe(ends), 0);
    for (int round = 0; round < 3; round++) { /* watched, and not any more */
        struct nets_call reader;
        EXPECT_EQ(hd_io_adopt(&in, ends[0], HD_ADOPT_BORROWED), 0);
        nets_begin(&reader, in, nets_do_read);
        EXPECT_EQ(write(ends[1], "b", 1), 1);
        EXPECT_EQ(nets_end(&reader), 1);
        EXPECT_EQ(hd_close(in), 0);
    }
    EXPECT_EQ(write(ends[1], "c", 1), 1);
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'c');
    close(ends[0]);
    close(ends[1]);
    return 0;
}

LIVE(sockets_are_told_by_their_kind)
{
    int pair[2];
    hd_io a, b;
    char text[16];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    EXPECT_EQ(hd_io_adopt(&a, pair[0], 0), 0);
    EXPECT_EQ(hd_io_adopt(&b, pair[1], 0), 0);
    for (int round = 0; round < 3; round++) { /* Messages stay apart, and none is overlooked. */
        EXPECT_EQ(hd_read_until(b, text, sizeof(text), hd_after_ms(1)), -ETIMEDOUT);
        for (int i = 1; i < 5; i++) EXPECT_EQ(hd_write(a, "mmmm", (size_t)i), i);
        for (int i = 1; i < 5; i++) EXPECT_EQ(hd_read(b, text, sizeof(text)), i);
    }
    nets_close(a, b);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    hd_io listener, conn;
    EXPECT(fd >= 0 && listen(fd, 8) == 0); /* at any port */
    EXPECT_EQ(hd_io_adopt(&listener, fd, 0), 0);
    hd_addr addr = nets_addr(listener), to;
    snprintf(text, sizeof(text), "127.0.0.1:%d", hd_addr_port(&addr));
    EXPECT_EQ(hd_addr_parse(&to, text), 0);
    EXPECT_EQ(hd_connect(&conn, &to), 0);
    hd_io other = nets_accept(listener);
    nets_expect_byte(conn, other, 'l');
    nets_close(conn, other);
    EXPECT_EQ(hd_close(listener), 0);
    return 0;
}

LIVE(a_counter_is_read_as_often_as_it_can_be)
{
    hd_io io;
    uint64_t two[2];
    const int fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    EXPECT_EQ(hd_io_adopt(&io, fd, 0), 0);
    EXPECT_EQ(hd_read_until(io, two, sizeof(two), hd_after_ms(1)), -ETIMEDOUT);
    EXPECT_EQ(eventfd_write(fd, 3), 0);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(hd_read_until(io, two, sizeof(two), hd_after_ms(5000)), 8);
        EXPECT_EQ(two[0], 1);
    }
    EXPECT_EQ(hd_read_until(io, two, sizeof(two), HD_NOW), -EAGAIN);
    EXPECT_EQ(hd_close(io), 0);
    return 0;
}

LIVE(a_file_is_read_at_its_position)
{
    char path[] = "/tmp/heddle-pipe-XXXXXX", text[8];
    const int fd = mkostemp(path, O_CLOEXEC);
    hd_io io;
    EXPECT(fd >= 0 && unlink(path) == 0);
    EXPECT_EQ(hd_io_adopt(&io, fd, 0), 0);
    EXPECT_EQ(hd_write_all(io, "abcdef", 6, NULL), 0);
    EXPECT_EQ(lseek(fd, 2, SEEK_SET), 2);
    EXPECT_EQ(hd_read(io, text, 3), 3);
    EXPECT(memcmp(text, "cde", 3) == 0);
    EXPECT_EQ(hd_read(io, text, 8), 1);
    EXPECT_EQ(hd_read(io, text, 8), 0);
    EXPECT_EQ(hd_fd_wait(fd, HD_WAIT_READ, HD_FOREVER), -EPERM);
    EXPECT_EQ(hd_close(io), 0);
    return 0;
}

static int refused(void *arg)
{
    hd_io io = {0};
    (void)arg;
    EXPECT_EQ(hd_io_adopt(&io, 0, 2), -EINVAL);
    EXPECT_EQ(hd_io_adopt(&io, 1000000, 0), nets_in_sim() ? -EINVAL : -EBADF);
    EXPECT_EQ(hd_fd_wait(1000000, HD_WAIT_READ, HD_FOREVER), nets_in_sim() ? -EINVAL : -EBADF);
    EXPECT_EQ(hd_fd_wait(0, 0, HD_FOREVER), -EINVAL);
    EXPECT_EQ(hd_fd_wait(0, 4, HD_FOREVER), -EINVAL);
    EXPECT_EQ(io.private_, 0);
    return 0;
}

TEST_IO(what_cannot_be_adopted_is_refused, options) { rt_run(refused, NULL, options); }

/* ---- waiting for a descriptor that is no handle ---- */

static ssize_t do_fd_wait(struct nets_call *call)
{
    return hd_fd_wait((int)call->io.private_, HD_WAIT_READ, call->deadline);
}

LIVE(an_eventfd_is_waited_for_twice)
{
    const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    const hd_io as_arg = {(uint64_t)fd};
    eventfd_t value;
    for (int round = 0; round < 3; round++) {
        struct nets_call first, second;
        EXPECT_EQ(hd_fd_wait(fd, HD_WAIT_READ, HD_NOW), -EAGAIN);
        EXPECT_EQ(hd_fd_wait(fd, HD_WAIT_READ, hd_after_ms(2)), -ETIMEDOUT);
        EXPECT_EQ(hd_fd_wait(fd, HD_WAIT_READ | HD_WAIT_WRITE, HD_FOREVER), HD_WAIT_WRITE);
        nets_begin(&first, as_arg, do_fd_wait);
        nets_begin(&second, as_arg, do_fd_wait);
        EXPECT_EQ(eventfd_write(fd, 1), 0);
        EXPECT_EQ(nets_end(&first), HD_WAIT_READ);
        EXPECT_EQ(nets_end(&second), HD_WAIT_READ);
        EXPECT_EQ(hd_fd_wait(fd, HD_WAIT_READ, HD_NOW), HD_WAIT_READ);
        EXPECT_EQ(hd_fd_wait(fd, HD_WAIT_READ | HD_WAIT_WRITE, HD_FOREVER), 3);
        EXPECT_EQ(eventfd_read(fd, &value), 0);
        nets_begin(&first, as_arg, do_fd_wait);
        hd_cancel(first.task);
        EXPECT_EQ(nets_end(&first), -ECANCELED);
    }
    close(fd);
    return 0;
}

LIVE(a_timerfd_is_waited_for)
{
    const int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    const struct itimerspec soon = {.it_value = {.tv_nsec = 3000000}};
    const unsigned fds = nets_count_fds();
    for (int round = 0; round < 3; round++) {
        uint64_t ticks;
        EXPECT_EQ(timerfd_settime(fd, 0, &soon, NULL), 0);
        EXPECT_EQ(hd_fd_wait(fd, HD_WAIT_READ, hd_after_ms(10000)), HD_WAIT_READ);
        EXPECT_EQ(read(fd, &ticks, sizeof(ticks)), sizeof(ticks));
    }
    EXPECT(nets_count_fds() <= fds + 4); /* the lane's, and no more */
    close(fd);
    return 0;
}

LIVE(the_end_of_a_pipe_is_waited_for)
{
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const hd_io as_arg = {(uint64_t)ends[0]};
    struct nets_call waiting;
    nets_begin(&waiting, as_arg, do_fd_wait);
    close(ends[1]);
    EXPECT_EQ(nets_end(&waiting), HD_WAIT_READ);
    close(ends[0]);
    return 0;
}

/* ---- the standard streams, in a child ---- */

static int copy_upper(void *arg)
{
    char text[64];
    ssize_t n;
    (void)arg;
    EXPECT_EQ(hd_stdin().private_, hd_stdin().private_);
    while ((n = hd_read(hd_stdin(), text, sizeof(text))) > 0) {
        for (ssize_t i = 0; i < n; i++) text[i] = (char)(text[i] >= 'a' ? text[i] - 32 : text[i]);
        EXPECT_EQ(hd_write_all(hd_stdout(), text, (size_t)n, NULL), 0);
    }
    EXPECT_EQ(n, 0);
    const struct iovec none = {NULL, 0};
    EXPECT_EQ(hd_writev(hd_stderr(), NULL, 0), 0);
    EXPECT_EQ(hd_writev(hd_stderr(), &none, 1), 0);
    EXPECT_EQ(hd_write_all(hd_stderr(), "done", 4, NULL), 0);
    return 0;
}

static void take_streams(const int fds[3])
{
    for (int i = 0; i < 3; i++) dup2(fds[i], i);
}

static size_t read_all(int fd, char *text, size_t room)
{
    size_t have = 0;
    for (ssize_t n; have < room && (n = read(fd, text + have, room - have)) > 0;) have += (size_t)n;
    return have;
}

/* A process with pipes, or sockets, for its streams. Returns its status. */
static int run_with(const hd_options *options, int kind, const char *input, char output[256],
                    char errors[256])
{
    int pipes[3][2], status;
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(kind ? socketpair(AF_UNIX, SOCK_STREAM, 0, pipes[i]) : pipe(pipes[i]), 0);
    }
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(30);
        const int fds[3] = {pipes[0][0], pipes[1][1], pipes[2][1]};
        const int flags = fcntl(fds[0], F_GETFL);
        take_streams(fds);
        for (int i = 0; i < 6; i++) close(pipes[i / 2][i % 2]);
        const int err = hd_run(copy_upper, NULL, options);
        _exit(err == 0 && fcntl(0, F_GETFL) == flags ? 0 : 1); /* others' descriptors too */
    }
    close(pipes[0][0]);
    close(pipes[1][1]);
    close(pipes[2][1]);
    for (size_t i = 0; input[i]; i++) EXPECT_EQ(write(pipes[0][1], &input[i], 1), 1);
    close(pipes[0][1]);
    output[read_all(pipes[1][0], output, 255)] = 0;
    errors[read_all(pipes[2][0], errors, 255)] = 0;
    close(pipes[1][0]);
    close(pipes[2][0]);
    EXPECT(waitpid(pid, &status, 0) == pid);
    return status;
}

TEST_DRIVERS(the_standard_streams_are_handles, options)
{
    char output[256], errors[256];
    for (int kind = 0; kind < 2; kind++) {
        EXPECT_EQ(run_with(options, kind, "some words", output, errors), 0);
        EXPECT(strcmp(output, "SOME WORDS") == 0);
        EXPECT(strcmp(errors, "done") == 0);
    }
}

/* In sim there is nothing to read; what is written is seen. */
static int in_sim(void *arg)
{
    char byte;
    (void)arg;
    EXPECT_EQ(hd_read(hd_stdin(), &byte, 1), 0);
    EXPECT_EQ(hd_write_all(hd_stderr(), "# seen\n", 7, NULL), 0);
    return 0;
}

TEST_IO(the_standard_streams_are_there_in_sim, options)
{
    if (rt_is_sim(options)) rt_run(in_sim, NULL, options);
}

/* A reader that does not read for a while, and then is gone. */
static int fill_stdout(void *arg)
{
    static char block[100000];
    const int *ends = arg;
    size_t done = 0;
    EXPECT_EQ(hd_write_all_until(hd_stdout(), block, sizeof(block), &done, hd_after_ms(20)),
              -ETIMEDOUT);
    EXPECT(done > 4096 && done < sizeof(block));
    close(ends[0]);
    EXPECT_EQ(hd_write(hd_stdout(), "x", 1), -EPIPE); /* and no signal */
    return 0;
}

TEST_DRIVERS(a_full_standard_stream_does_not_block_the_worker, options)
{
    int ends[2], status;
    EXPECT_EQ(pipe(ends), 0);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(30);
        signal(SIGPIPE, SIG_DFL);
        dup2(ends[1], STDOUT_FILENO);
        close(ends[1]);
        _exit(hd_run(fill_stdout, ends, options) ? 1 : 0);
    }
    close(ends[0]);
    close(ends[1]);
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT_EQ(status, 0);
}
