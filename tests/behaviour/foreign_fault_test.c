/* SPDX-License-Identifier: MIT
 *
 * Every system call fails in turn (tests/faults.h) of descriptors that come from elsewhere, the
 * standard streams, waits that move no bytes, and buffers.
 */
#include "faults.h"

#include <fcntl.h>
#include <poll.h>

TEST_MAIN

/* ---- adopting ---- */

/* As others make them: waiting. */
static void make_pipe(int fds[2])
{
    EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
}

/* They are still ours. */
static void close_both(const int fds[2])
{
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(close(fds[1]), 0);
}

static int through(hd_io out, hd_io in)
{
    char bytes[4];
    int err = (int)hd_read_until(in, bytes, 1, hd_now(NULL) + 1000); /* It is watched then. */
    if (err == -ETIMEDOUT) err = hd_write_all(out, "ab", 2, NULL);
    return err ? err : hd_read_exact(in, bytes, 2, NULL);
}

/* One end is ours, the other is lent: it goes on when its handle is closed, and nobody is there
 * whom its news could be for. */
static int adopt_pipe(void *arg)
{
    (void)arg;
    int fds[2];
    hd_io in, out;
    make_pipe(fds);
    int err = hd_io_adopt(&out, fds[1], 0);
    if (err) {
        close_both(fds);
        return err;
    }
    err = hd_io_adopt(&in, fds[0], HD_ADOPT_BORROWED);
    if (!err) {
        err = through(out, in);
        EXPECT_EQ(hd_close(in), 0);
        const int other = hd_write_all(out, "later", 5, NULL);
        if (!err) err = other;
        hd_yield();
    }
    EXPECT_EQ(hd_close(out), 0);
    EXPECT_EQ(close(fds[0]), 0);
    return err;
}

TEST_DRIVERS(adopted_pipes, options)
{
    faults_each(adopt_pipe, NULL, options);
    faults_expect("set_blocking");
    faults_expect("fstat");
    if (options->io == HD_IO_EPOLL) faults_expect("epoll_ctl");
}

static int adopt_sockets(void *arg)
{
    (void)arg;
    int fds[2];
    hd_io ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    int err = hd_io_adopt(&ends[0], fds[0], 0);
    if (err) {
        close_both(fds);
        return err;
    }
    err = hd_io_adopt(&ends[1], fds[1], 0);
    if (err) {
        EXPECT_EQ(close(fds[1]), 0);
    } else {
        err = through(ends[0], ends[1]);
        EXPECT_EQ(hd_close(ends[1]), 0);
    }
    EXPECT_EQ(hd_close(ends[0]), 0);
    return err;
}

TEST_DRIVERS(adopted_sockets, options)
{
    faults_each(adopt_sockets, NULL, options);
    faults_expect("getsockopt");
}

static int adopt_file(void *arg)
{
    (void)arg;
    char bytes[4];
    hd_io file;
    const int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    EXPECT(fd >= 0);
    int err = hd_io_adopt(&file, fd, 0);
    if (err) {
        EXPECT_EQ(close(fd), 0);
        return err;
    }
    err = hd_write_all(file, "abc", 3, NULL);
    const ssize_t n = err ? err : hd_pread(file, bytes, sizeof(bytes), 0);
    if (n > 0) EXPECT_EQ(n, 3);
    EXPECT_EQ(hd_close(file), 0);
    return n < 0 ? (int)n : 0;
}

TEST_DRIVERS(adopted_files, options) { faults_each(adopt_file, NULL, options); }

/* ---- waiting for a descriptor that is no handle ---- */

static int write_later(void *arg)
{
    hd_yield();
    EXPECT_EQ(write(*(int *)arg, "x", 1), 1);
    return 0;
}

static int wait_for_fds(void *arg)
{
    (void)arg;
    int fds[2];
    hd_task *writer;
    make_pipe(fds);
    int err = hd_spawn(&writer, write_later, &fds[1]);
    const bool spawned = !err;
    if (!err) err = hd_fd_wait(fds[1], HD_WAIT_WRITE, HD_FOREVER);
    if (err >= 0 && spawned) err = hd_fd_wait(fds[0], HD_WAIT_READ, HD_FOREVER);
    if (spawned) EXPECT_EQ(rt_join(writer), 0);
    close_both(fds);
    return err < 0 ? err : 0;
}

TEST_DRIVERS(waits_for_descriptors, options)
{
    faults_each(wait_for_fds, NULL, options);
    faults_expect("dup");
}

/* ---- the standard streams: here the two ends of a pipe ---- */

/* Somebody waits for it in any case. */
static int write_out(void *arg)
{
    (void)arg;
    hd_yield();
    const int err = hd_write_all(hd_stdout(), "x", 1, NULL);
    if (err) EXPECT_EQ(write(STDOUT_FILENO, "x", 1), 1);
    return err;
}

static int use_streams(void *arg)
{
    (void)arg;
    char byte;
    hd_task *writer;
    int err = hd_spawn(&writer, write_out, NULL);
    if (err) return err;
    const ssize_t n = hd_read(hd_stdin(), &byte, 1);
    err = rt_join(writer);
    return n < 0 ? (int)n : err;
}

/* What is written to one comes from the other. */
static void join_streams(void)
{
    int fds[2];
    make_pipe(fds);
    EXPECT_EQ(dup2(fds[0], STDIN_FILENO), STDIN_FILENO);
    EXPECT_EQ(dup2(fds[1], STDOUT_FILENO), STDOUT_FILENO);
}

static void drain_stdin(void)
{
    char bytes[16];
    struct pollfd entry = {.fd = STDIN_FILENO, .events = POLLIN};
    while (poll(&entry, 1, 0) == 1) EXPECT(read(STDIN_FILENO, bytes, sizeof(bytes)) > 0);
}

TEST_DRIVERS(standard_streams, options)
{
    join_streams();
    faults_each(use_streams, drain_stdin, options);
    faults_expect("fcntl");
    faults_expect("poll");
    EXPECT(!(fcntl(STDIN_FILENO, F_GETFL) & O_NONBLOCK)); /* Nobody made it so. */
}

/* In sim what is written to them is seen, and can fail as well. */
static int write_seen(void *arg)
{
    (void)arg;
    return hd_write_all(hd_stdout(), "x", 1, NULL);
}

TEST_WORLDS(standard_output, options)
{
    join_streams();
    faults_each(write_seen, drain_stdin, options);
    faults_expect("fcntl");
    faults_expect("writev");
}

/* ---- waits that move nothing ---- */

struct door {
    hd_io listener;
    hd_addr addr;
};

/* Who cannot, closes the door, so that nobody waits for it. */
static int knock(void *arg)
{
    const struct door *door = arg;
    hd_io conn;
    int err = hd_connect(&conn, &door->addr);
    if (!err) {
        err = hd_write_all(conn, "x", 1, NULL);
        EXPECT_EQ(hd_close(conn), 0);
    }
    if (err) (void)hd_close(door->listener);
    return err;
}

/* Returns: 0: it is ready. */
static int await(hd_case ready)
{
    const int which = hd_select(&ready, 1);
    return which < 0 ? which : ready.result;
}

static int answer(hd_io listener)
{
    hd_io conn;
    char byte;
    int err = await((hd_case)HD_READABLE(listener));
    if (!err) err = hd_accept(listener, &conn, NULL);
    if (err) return err;
    err = await((hd_case)HD_WRITABLE(conn));
    if (!err) err = await((hd_case)HD_READABLE(conn));
    const ssize_t n = err ? err : hd_read(conn, &byte, 1);
    EXPECT_EQ(hd_close(conn), 0);
    return n < 0 ? (int)n : 0;
}

static int select_ready(void *arg)
{
    (void)arg;
    struct door door;
    hd_task *visitor;
    int err = hd_tcp_listen(&door.listener, "127.0.0.1:0", NULL);
    if (err) return err;
    err = hd_local_addr(door.listener, &door.addr);
    if (!err) err = hd_spawn(&visitor, knock, &door);
    if (!err) {
        err = answer(door.listener);
        const int other = rt_join(visitor);
        if (!err) err = other;
    }
    (void)hd_close(door.listener);
    return err;
}

TEST_IO(readiness_in_select, options)
{
    faults_each(select_ready, NULL, options);
    faults_expect("watch");
    faults_expect("poll");
}

/* ---- buffers ---- */

static int write_lines(void *arg)
{
    const hd_io io = *(hd_io *)arg;
    char memory[32];
    hd_writer writer;
    int err = 0;
    hd_writer_init(&writer, io, memory, sizeof(memory));
    for (int i = 0; i < 6 && !err; i++) err = hd_writer_printf(&writer, "line %d of six\n", i);
    if (!err) err = hd_writer_flush(&writer);
    EXPECT_EQ(hd_close(io), 0);
    return err;
}

static int read_lines(hd_io io)
{
    char memory[32];
    const char *line;
    hd_reader reader;
    ssize_t n;
    int count = 0;
    hd_reader_init(&reader, io, memory, sizeof(memory));
    while ((n = hd_read_line(&reader, &line)) > 0) count++;
    return n == -EPIPE && count == 6 ? 0 : (int)n;
}

static int buffered(void *arg)
{
    (void)arg;
    hd_io ends[2];
    hd_task *writer;
    int err = hd_unix_pair(ends);
    if (err) return err;
    err = hd_spawn(&writer, write_lines, &ends[1]);
    if (err) {
        nets_close(ends[0], ends[1]);
        return err;
    }
    err = read_lines(ends[0]);
    EXPECT_EQ(hd_close(ends[0]), 0);
    const int other = rt_join(writer);
    if (err == -EPIPE) EXPECT(other != 0); /* Who has not written all of it knows. */
    return other ? other : err;
}

TEST_IO(buffers, options) { faults_each(buffered, NULL, options); }
