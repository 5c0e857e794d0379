/* SPDX-License-Identifier: MIT
 *
 * Unix sockets, by path and by name, and the descriptors they pass.
 */
#include "nets.h"

#include <fcntl.h>
#include <sys/socket.h>

TEST_MAIN

static const char *name_of(char name[64], const char *what)
{
    snprintf(name, 64, "@heddle-test-%d-%s", (int)getpid(), what);
    return name;
}

static int talk(void *arg)
{
    const char *place = arg;
    hd_io listener, conn = {0}, other;
    hd_addr addr;
    char text[HD_ADDR_TEXT_MAX], expected[HD_ADDR_TEXT_MAX];
    EXPECT_EQ(hd_unix_connect(&conn, place), *place == '@' ? -ECONNREFUSED : -ENOENT);
    EXPECT_EQ(hd_unix_listen(&listener, place, NULL), 0);
    EXPECT_EQ(hd_unix_listen(&other, place, NULL), -EADDRINUSE);
    EXPECT_EQ(conn.private_, 0);
    EXPECT_EQ(hd_unix_connect(&conn, place), 0);
    EXPECT_EQ(hd_accept(listener, &other, &addr), 0);
    nets_expect_byte(conn, other, '1');
    nets_expect_byte(other, conn, '2');
    snprintf(expected, sizeof(expected), "unix:%s", place);
    EXPECT_EQ(hd_peer_addr(conn, &addr), 0);
    EXPECT(strcmp(hd_addr_format(&addr, text), expected) == 0);
    EXPECT_EQ(hd_addr_port(&addr), -EINVAL);
    nets_close(conn, other);
    EXPECT_EQ(hd_addr_parse(&addr, expected), 0); /* an address as any other */
    EXPECT_EQ(hd_connect(&conn, &addr), 0);
    other = nets_accept(listener);
    EXPECT_EQ(hd_shutdown(conn, SHUT_WR), 0);
    EXPECT_EQ(hd_read(other, text, 1), 0);
    nets_expect_byte(other, conn, '3');
    nets_close(conn, other);
    EXPECT_EQ(hd_close(listener), 0);
    EXPECT_EQ(hd_unix_connect(&conn, place), -ECONNREFUSED);
    if (*place != '@') { /* The path is left. */
        EXPECT_EQ(hd_unix_listen(&listener, place, NULL), -EADDRINUSE);
        if (!nets_in_sim()) EXPECT_EQ(unlink(place), 0);
    }
    return 0;
}

TEST_IO(names_and_paths_are_places, options)
{
    char path[64], name[64];
    snprintf(path, sizeof(path), "/tmp/heddle-test-%d", (int)getpid());
    rt_run(talk, path, options);
    name_of(name, "talk");
    rt_run(talk, name, options);
}

static int bad_places(void *arg)
{
    (void)arg;
    char longest[110];
    hd_io io = {0};
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = 0;
    EXPECT_EQ(hd_unix_listen(&io, longest, NULL), -ENAMETOOLONG);
    EXPECT_EQ(hd_unix_connect(&io, longest), -ENAMETOOLONG);
    EXPECT_EQ(hd_unix_listen(&io, "", NULL), -EINVAL);
    EXPECT_EQ(hd_unix_listen(&io, "@", NULL), -EINVAL);
    EXPECT_EQ(hd_unix_connect(&io, NULL), -EINVAL);
    EXPECT_EQ(io.private_, 0);
    longest[0] = '@'; /* An abstract name has no 0 at its end: 108 bytes are fine. */
    longest[108] = 0;
    EXPECT_EQ(hd_unix_listen(&io, longest, NULL), 0);
    const hd_addr addr = nets_addr(io);
    char text[HD_ADDR_TEXT_MAX];
    EXPECT_EQ(strlen(hd_addr_format(&addr, text)), 5 + 108);
    EXPECT_EQ(hd_close(io), 0);
    return 0;
}

TEST_IO(bad_places_are_refused, options) { rt_run(bad_places, NULL, options); }

static ssize_t do_connect(struct nets_call *call)
{
    const hd_addr addr = nets_addr(call->io);
    hd_io conn;
    const int err = hd_connect_until(&conn, &addr, call->deadline);
    return err ? err : hd_close(conn);
}

/* A backlog that is full makes the next one wait until one is accepted. */
static int backlog(void *arg)
{
    (void)arg;
    char name[64];
    hd_listen_options options = HD_LISTEN_OPTIONS_INIT;
    hd_io listener, conns[8];
    int count = 0, err = 0;
    options.backlog = 1;
    EXPECT_EQ(hd_unix_listen(&listener, name_of(name, "backlog"), &options), 0);
    while (!err && count < 8) {
        err = hd_unix_connect_until(&conns[count], name, HD_NOW);
        if (!err) count++;
    }
    EXPECT_EQ(err, -EAGAIN);
    EXPECT_EQ(hd_unix_connect_until(&conns[7], name, hd_after_ms(5)), -ETIMEDOUT);
    struct nets_call call;
    nets_begin(&call, listener, do_connect);
    hd_cancel(call.task);
    EXPECT_EQ(nets_end(&call), -ECANCELED);
    nets_begin(&call, listener, do_connect);
    EXPECT_EQ(hd_close(nets_accept(listener)), 0);
    EXPECT_EQ(nets_end(&call), 0);
    for (int i = 0; i < count; i++) EXPECT_EQ(hd_close(conns[i]), 0);
    EXPECT_EQ(hd_close(listener), 0);
    return 0;
}

TEST_IO(a_full_backlog_is_waited_for, options) { rt_run(backlog, NULL, options); }

/* ---- descriptors ---- */

static bool is_cloexec(int fd)
{
    return fcntl(fd, F_GETFD) & FD_CLOEXEC;
}

static int pass(void *arg)
{
    (void)arg;
    hd_io pair[2], piped, read_end;
    int ends[2], got[4] = {-1, -1, -1, -1};
    unsigned count = 4;
    char text[16];
    EXPECT_EQ(hd_unix_pair(pair), 0);
    EXPECT_EQ(pipe(ends), 0);
    const int twice[] = {ends[1], ends[0]};
    EXPECT_EQ(hd_send_fds(pair[0], "take", 4, twice, 2), 4);
    EXPECT_EQ(hd_recv_fds(pair[1], text, sizeof(text), got, &count), 4);
    EXPECT_EQ(count, 2);
    EXPECT(is_cloexec(got[0]) && is_cloexec(got[1]) && got[0] != ends[1]);
    close(ends[0]);
    close(ends[1]);
    EXPECT_EQ(hd_io_adopt(&piped, got[0], 0), 0);
    EXPECT_EQ(hd_io_adopt(&read_end, got[1], 0), 0);
    nets_expect_byte(piped, read_end, 'p');
    nets_close(piped, read_end);
    count = 4; /* A message without any. */
    EXPECT_EQ(hd_send_fds(pair[0], "none", 4, NULL, 0), 4);
    EXPECT_EQ(hd_recv_fds(pair[1], text, sizeof(text), got, &count), 4);
    EXPECT_EQ(count, 0);
    nets_close(pair[0], pair[1]);
    return 0;
}

/* Each message with descriptors is received by itself, also if more lie behind it. */
static int pass_several(void *arg)
{
    (void)arg;
    hd_io pair[2];
    char text[16];
    EXPECT_EQ(hd_unix_pair(pair), 0);
    for (int round = 0; round < 3; round++) {
        struct nets_call reader;
        nets_begin(&reader, pair[1], nets_do_read); /* From now on it is watched. */
        EXPECT_EQ(hd_write_all(pair[0], "x", 1, NULL), 0);
        EXPECT_EQ(nets_end(&reader), 1);
        const int fd = STDERR_FILENO;
        for (int i = 0; i < 3; i++) EXPECT_EQ(hd_send_fds(pair[0], "m", 1, &fd, 1), 1);
        for (int i = 0; i < 3; i++) {
            int got = -1;
            unsigned count = 1;
            EXPECT_EQ(hd_recv_fds(pair[1], text, sizeof(text), &got, &count), 1);
            EXPECT_EQ(count, 1);
            close(got);
        }
    }
    nets_close(pair[0], pair[1]);
    return 0;
}

/* What there is no room for is closed, and so is what is read by a plain read. */
static int pass_too_many(void *arg)
{
    (void)arg;
    hd_io pair[2];
    int fds[HD_FDS_MAX + 1], got[HD_FDS_MAX];
    unsigned count = 3;
    char text[16];
    EXPECT_EQ(hd_unix_pair(pair), 0);
    for (int i = 0; i < HD_FDS_MAX + 1; i++) fds[i] = STDERR_FILENO;
    char byte;
    EXPECT_EQ(hd_read_until(pair[1], &byte, 1, hd_after_ms(1)), -ETIMEDOUT);
    const unsigned before = nets_count_fds();
    EXPECT_EQ(hd_send_fds(pair[0], "x", 1, fds, HD_FDS_MAX + 1), -EINVAL);
    EXPECT_EQ(hd_send_fds(pair[0], "", 0, fds, 1), -EINVAL);
    EXPECT_EQ(hd_send_fds(pair[0], "x", 1, fds, HD_FDS_MAX), 1);
    EXPECT_EQ(hd_recv_fds(pair[1], text, sizeof(text), got, &count), 1);
    EXPECT_EQ(count, 3);
    EXPECT_EQ(nets_count_fds(), before + 3);
    for (int i = 0; i < 3; i++) close(got[i]);
    EXPECT_EQ(hd_send_fds(pair[0], "y", 1, fds, 2), 1);
    EXPECT_EQ(hd_read(pair[1], text, sizeof(text)), 1);
    EXPECT_EQ(nets_count_fds(), before);
    const int bad = 1000000;
    EXPECT_EQ(hd_send_fds(pair[0], "z", 1, &bad, 1), -EBADF);
    EXPECT_EQ(hd_close(pair[0]), 0);
    count = 3;
    EXPECT_EQ(hd_recv_fds(pair[1], text, sizeof(text), got, &count), 0);
    EXPECT_EQ(count, 0);
    EXPECT_EQ(hd_close(pair[1]), 0);
    count = 3;
    EXPECT_EQ(hd_recv_fds(pair[1], text, sizeof(text), got, &count), -EBADF);
    EXPECT_EQ(count, 3);
    return 0;
}

static int not_in_sim(void *arg)
{
    (void)arg;
    hd_io pair[2];
    char byte;
    const int fd = STDERR_FILENO;
    int got;
    unsigned count = 1;
    EXPECT_EQ(hd_unix_pair(pair), 0);
    EXPECT_EQ(hd_send_fds(pair[0], "x", 1, &fd, 1), -ENOTSUP);
    EXPECT_EQ(hd_recv_fds(pair[1], &byte, 1, &got, &count), -ENOTSUP);
    EXPECT_EQ(hd_send_fds_until(pair[0], "x", 1, &fd, 1, hd_after_ms(1)), -ENOTSUP);
    EXPECT_EQ(hd_recv_fds_until(pair[1], &byte, 1, &got, &count, hd_after_ms(1)), -ENOTSUP);
    nets_close(pair[0], pair[1]);
    return 0;
}

TEST_IO(descriptors_are_passed, options)
{
    rt_run(rt_is_sim(options) ? not_in_sim : pass, NULL, options);
}

TEST_DRIVERS(descriptors_come_one_message_at_a_time, options)
{
    rt_run(pass_several, NULL, options);
}

TEST_DRIVERS(descriptors_without_a_place_are_closed, options)
{
    rt_run(pass_too_many, NULL, options);
}

/* ---- giving up ---- */

static ssize_t do_recv_fds(struct nets_call *call)
{
    int fd = -1;
    unsigned count = 1;
    const ssize_t n = hd_recv_fds_until(call->io, &call->byte, 1, &fd, &count, call->deadline);
    if (n != 1) return n;
    EXPECT_EQ(count, 1);
    EXPECT_EQ(close(fd), 0);
    return n;
}

static int recv_late(void *arg)
{
    (void)arg;
    hd_io pair[2];
    char byte = 'b';
    int fd = -1;
    unsigned count = 1;
    EXPECT_EQ(hd_unix_pair(pair), 0);
    EXPECT_EQ(hd_recv_fds_until(pair[1], &byte, 1, &fd, &count, HD_NOW), -EAGAIN);
    const int64_t deadline = hd_after_ms(3);
    EXPECT_EQ(hd_recv_fds_until(pair[1], &byte, 1, &fd, &count, deadline), -ETIMEDOUT);
    EXPECT(hd_now(NULL) >= deadline);
    EXPECT_EQ(hd_recv_fds_until(pair[1], &byte, 1, &fd, &count, deadline), -ETIMEDOUT);
    EXPECT(byte == 'b' && fd == -1 && count == 1);
    struct nets_call call;
    nets_begin(&call, pair[1], do_recv_fds);
    hd_cancel(call.task);
    EXPECT_EQ(nets_end(&call), -ECANCELED);
    nets_begin(&call, pair[1], do_recv_fds);
    fd = STDERR_FILENO;
    EXPECT_EQ(hd_send_fds_until(pair[0], "s", 1, &fd, 1, hd_after_ms(60000)), 1);
    EXPECT_EQ(nets_end(&call), 1);
    EXPECT_EQ(call.byte, 's');
    EXPECT_EQ(hd_send_fds_until(pair[0], "t", 1, &fd, 1, HD_NOW), 1);
    EXPECT_EQ(hd_recv_fds_until(pair[1], &byte, 1, &fd, &count, HD_NOW), 1);
    EXPECT(byte == 't' && count == 1 && close(fd) == 0);
    nets_close(pair[0], pair[1]);
    return 0;
}

static ssize_t do_send_fds(struct nets_call *call)
{
    const int fd = STDERR_FILENO;
    return hd_send_fds_until(call->io, "s", 1, &fd, 1, call->deadline);
}

/* Those that gave up have passed nothing: behind what filled it is one message with one. */
static int send_late(void *arg)
{
    (void)arg;
    hd_io pair[2];
    const int fd = STDERR_FILENO;
    EXPECT_EQ(hd_unix_pair(pair), 0);
    size_t filled = nets_fill(pair[0]);
    EXPECT_EQ(hd_send_fds_until(pair[0], "x", 1, &fd, 1, HD_NOW), -EAGAIN);
    const int64_t deadline = hd_after_ms(3);
    EXPECT_EQ(hd_send_fds_until(pair[0], "x", 1, &fd, 1, deadline), -ETIMEDOUT);
    EXPECT(hd_now(NULL) >= deadline);
    EXPECT_EQ(hd_send_fds_until(pair[0], "x", 1, &fd, 1, deadline), -ETIMEDOUT);
    struct nets_call call;
    nets_begin(&call, pair[0], do_send_fds);
    hd_cancel(call.task);
    EXPECT_EQ(nets_end(&call), -ECANCELED);
    nets_begin(&call, pair[0], do_send_fds);
    while (filled > 0) {
        char block[4096];
        int got;
        unsigned count = 1;
        const ssize_t n = hd_recv_fds_until(pair[1], block, filled < 4096 ? filled : 4096, &got,
                                            &count, hd_after_ms(60000));
        EXPECT(n > 0 && count == 0);
        filled -= (size_t)n;
    }
    EXPECT_EQ(nets_end(&call), 1);
    nets_begin(&call, pair[1], do_recv_fds);
    EXPECT_EQ(nets_end(&call), 1);
    EXPECT_EQ(call.byte, 's');
    EXPECT_EQ(hd_close(pair[0]), 0);
    char byte;
    EXPECT_EQ(hd_read(pair[1], &byte, 1), 0);
    EXPECT_EQ(hd_close(pair[1]), 0);
    return 0;
}

TEST_DRIVERS(receiving_descriptors_gives_up, options) { rt_run(recv_late, NULL, options); }

TEST_DRIVERS(sending_descriptors_gives_up, options) { rt_run(send_late, NULL, options); }
